/* node/store/db: every key is found as long as it lives, through all merges, and none that was never given (P4, S2). */
#include "tests/unit/db_world.h"

#define NEVER 1000000u /* no message has such a seq */

static tf_db_stats stats_of(tf_db *db)
{
    tf_db_stats stats;
    ck_assert_int_eq(tf_db_get_stats(db, &stats), TF_OK);
    return stats;
}

static void collect_all(void)
{
    bool more = true;
    for (int i = 0; more; i++) {
        ck_assert_int_lt(i, 10000);
        ck_assert_msg(tf_db_collect(world_db, 50, &more) == TF_OK, "%s", tf_db_error_text(world_db));
    }
}

START_TEST(db_keys_are_found_through_merges)
{
    world_set_up();
    world_create(1);
    world_create(2);
    uint64_t head = 0;
    for (uint64_t i = 0; i < 150; i++) { /* runs of 1 to 4 parts */
        uint64_t count = 1 + i * 37 % 200;
        world_begin();
        world_append(1, head + 1, count, 4);
        world_append(2, head + 1, count, 4);
        world_commit();
        head += count;
    }
    tf_db_stats stats = stats_of(world_db);
    ck_assert_uint_eq(stats.keys, 2 * head);
    ck_assert_uint_lt(stats.key_runs, 30);
    world_expect_keys(world_db, 1, 1, head, 4);
    world_expect_keys(world_db, 2, 1, head, 4);
    collect_all();
    ck_assert_uint_eq(stats_of(world_db).keys, 2 * head);
    ck_assert_uint_lt(stats_of(world_db).key_runs, 3 * 8);
    world_reopen();
    world_expect_keys(world_db, 1, 1, head, 4);
    tf_store_key key;
    for (uint64_t seq = 1; seq <= head; seq++) {
        ck_assert_int_eq(world_find(world_db, 1, NEVER + seq, &key), TF_ERR_CLOSED);
        ck_assert_int_eq(world_find(world_db, 3, seq, &key), TF_ERR_CLOSED); /* no such channel */
    }
    world_tear_down();
}
END_TEST

START_TEST(db_keys_of_other_tuples_are_not_found)
{
    world_set_up();
    world_create(1);
    made m;
    world_make(&m, 1, 1, 4);
    m.stored.client_id = tf_slice_str("bc");
    memset(m.stored.origin.bytes, 'a', TF_NODE_ID_LEN);
    world_do(&(tf_store_op){.kind = TF_STORE_APPEND, .channel = 1, .message = m.stored});
    tf_store_key key;
    tf_node_id other = m.stored.origin;
    ck_assert_int_eq(tf_db_find_key(world_db, 1, &other, tf_slice_str("bc"), &key), TF_OK);
    ck_assert_int_eq(tf_db_find_key(world_db, 1, &other, tf_slice_str("b"), &key), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_db_find_key(world_db, 1, &other, tf_slice_str("bcd"), &key), TF_ERR_CLOSED);
    other.bytes[TF_NODE_ID_LEN - 1] = 'b';
    ck_assert_int_eq(tf_db_find_key(world_db, 1, &other, tf_slice_str("c"), &key), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_db_find_key(world_db, 1, &other, tf_slice_str("bc"), &key), TF_ERR_CLOSED);
    free(m.body);
    world_tear_down();
}
END_TEST

/* The timestamp of a message below which so many are forgotten. */
static void forget_below(uint64_t channel, uint64_t seq)
{
    world_do(&(tf_store_op){
        .kind = TF_STORE_FORGET, .channel = channel, .time_ms = WORLD_TIME + (int64_t)seq / 2});
}

START_TEST(db_forgotten_keys_go_and_may_come_again)
{
    world_set_up();
    world_create(1);
    world_create(2);
    for (uint64_t i = 0; i < 10; i++) {
        world_begin();
        world_append(1, i * 200 + 1, 200, 4);
        world_append(2, i * 20 + 1, 20, 4);
        world_commit();
    }
    forget_below(1, 1000);
    forget_below(1, 10); /* never moves back */
    tf_store_key key;
    ck_assert_int_eq(world_find(world_db, 1, 998, &key), TF_ERR_CLOSED);
    world_expect_keys(world_db, 1, 1000, 2000, 4);
    forget_below(1, 1900);
    collect_all();
    ck_assert_uint_lt(stats_of(world_db).keys, 1200); /* half of them at least is gone */
    world_expect_keys(world_db, 1, 1900, 2000, 4);
    world_expect_keys(world_db, 2, 1, 200, 4);
    made m; /* the client id of a forgotten one: accepted anew */
    world_make(&m, 1, 7, 4);
    m.stored.seq = 2001;
    m.stored.timestamp_ms = WORLD_TIME + 2000;
    world_do(&(tf_store_op){.kind = TF_STORE_APPEND, .channel = 1, .message = m.stored});
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(world_find(world_db, 1, 7, &key), TF_OK);
        ck_assert_uint_eq(key.seq, 2001);
        collect_all();
    }
    free(m.body);
    forget_below(1, 20000);
    forget_below(2, 20000);
    collect_all();
    ck_assert_uint_eq(stats_of(world_db).keys, 0);
    ck_assert_uint_eq(stats_of(world_db).key_runs, 0);
    world_tear_down();
}
END_TEST

/* Marks what the chunks give; the keys of channel 1 have to be complete. */
START_TEST(db_keys_all_come_while_others_are_added)
{
    static bool seen[30001];
    world_set_up();
    world_create(1);
    world_create(2);
    for (uint64_t i = 0; i < 10; i++) {
        world_store(1, i * 3000 + 1, 3000, 0);
    }
    uint64_t position = 0;
    uint64_t added = 0;
    size_t chunks = 0;
    tf_db_keys *keys = NULL;
    tf_err err = TF_OK;
    while ((err = tf_db_keys_load(world_db, &position, &keys)) == TF_OK) {
        ck_assert_uint_lt(tf_db_keys_count(keys), 15000);
        for (size_t i = 0; i < tf_db_keys_count(keys); i++) {
            tf_db_key key;
            tf_db_keys_get(keys, i, &key);
            unsigned long long channel = 0;
            unsigned long long seq = 0;
            char id[TF_CLIENT_ID_MAX + 1] = {0};
            memcpy(id, key.client_id.data, key.client_id.len);
            ck_assert_int_eq(sscanf(id, "c%llu-%llu", &channel, &seq), 2);
            ck_assert(channel == key.channel && key.origin.bytes[3] == seq % 3);
            if (channel == 1) {
                seen[seq] = true;
            }
        }
        tf_db_keys_free(keys);
        chunks++;
        world_store(2, added + 1, 500, 0); /* and merges go on */
        added += 500;
    }
    ck_assert_int_eq(err, TF_ERR_CLOSED);
    ck_assert_uint_gt(chunks, 3);
    for (size_t seq = 1; seq <= 30000; seq++) {
        ck_assert_msg(seen[seq], "key %zu", seq);
    }
    world_tear_down();
}
END_TEST

START_TEST(db_merge_goes_on_after_reopening)
{
    world_set_up();
    world_create(1);
    uint64_t head = 0;
    for (uint64_t i = 0; i < 60; i++) {
        world_store(1, head + 1, 1000, 0);
        head += 1000;
        world_reopen(); /* in the midst of merges */
        if (i % 20 == 0) {
            bool more = false;
            ck_assert_int_eq(tf_db_collect(world_db, 1, &more), TF_OK);
        }
    }
    collect_all();
    ck_assert_uint_eq(stats_of(world_db).keys, head);
    world_expect_keys(world_db, 1, 1, 3000, 0);
    world_expect_keys(world_db, 1, head - 3000, head, 0);
    world_tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {db_keys_are_found_through_merges,
                                  db_keys_of_other_tuples_are_not_found,
                                  db_forgotten_keys_go_and_may_come_again,
                                  db_keys_all_come_while_others_are_added,
                                  db_merge_goes_on_after_reopening,
                                  NULL};
    return tf_test_run_waiting("node/store/db_keys", tests);
}
