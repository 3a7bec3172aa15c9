/* node/store/db: what is applied is there, once, after a reopening too; what is trimmed goes; what is lost has a name. */
#include "tests/unit/db_world.h"

START_TEST(db_new_is_empty)
{
    world_set_up();
    uint64_t lsn = 1;
    uint64_t position = 0;
    tf_store_channel c;
    tf_db_stats stats;
    ck_assert_int_eq(tf_db_applied(world_db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn, 0);
    ck_assert_int_eq(tf_db_channel_next(world_db, &position, &c), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_db_get_stats(world_db, &stats), TF_OK);
    ck_assert(stats.channels == 0 && stats.messages == 0 && stats.keys == 0 && stats.bytes > 0);
    world_tear_down();
}
END_TEST

static void expect_all(tf_db *db)
{
    static const uint64_t heads[] = {1500, 0, 3};
    static const size_t sizes[] = {50, 0, 100000};
    for (uint64_t number = 1; number <= 3; number++) {
        tf_store_channel c = world_channel(db, number);
        char name[32];
        (void)snprintf(name, sizeof(name), "channel/%d", (int)number);
        ck_assert(tf_slice_eq(c.name, tf_slice_str(name)));
        ck_assert_uint_eq(c.epoch, number == 3 ? 77 : WORLD_EPOCH + number);
        ck_assert_uint_eq(c.first, 1);
        ck_assert_uint_eq(c.head, heads[number - 1]);
        ck_assert_int_eq(c.closed, number == 2);
        ck_assert_int_eq(c.timestamp_ms, c.head == 0 ? 0 : WORLD_TIME + (int64_t)c.head / 2);
        world_expect(db, number, 1, c.head, sizes[number - 1]);
        world_expect_keys(db, number, 1, c.head, sizes[number - 1]);
    }
}

START_TEST(db_applied_ops_are_there_after_reopening)
{
    world_set_up();
    for (uint64_t number = 1; number <= 3; number++) {
        world_create(number);
    }
    world_store(1, 1, 400, 50);
    world_begin();
    world_append(1, 401, 100, 50);
    world_append(3, 1, 2, 100000);
    world_append(1, 501, 999, 50);
    world_append(3, 3, 1, 100000);
    world_apply(&(tf_store_op){.kind = TF_STORE_CLOSE, .channel = 2});
    world_apply(&(tf_store_op){.kind = TF_STORE_EPOCH, .channel = 3, .epoch = 77});
    world_commit();
    world_store(1, 1500, 1, 50);
    expect_all(world_db);
    tf_db *reader = world_open(true);
    expect_all(reader);
    tf_db_free(reader);
    world_reopen();
    expect_all(world_db);
    uint64_t lsn = 0;
    ck_assert_int_eq(tf_db_applied(world_db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn, world_lsn);
    world_tear_down();
}
END_TEST

START_TEST(db_what_was_applied_is_skipped)
{
    world_set_up();
    world_create(1);
    world_store(1, 1, 10, 5);
    world_lsn = 0;
    world_create(1);
    world_begin();
    world_append(1, 1, 15, 5); /* ten of them again */
    world_commit();
    ck_assert_uint_eq(world_channel(world_db, 1).head, 15);
    world_expect(world_db, 1, 1, 15, 5);
    world_tear_down();
}
END_TEST

START_TEST(db_abort_leaves_nothing)
{
    world_set_up();
    world_create(1);
    world_begin();
    world_append(1, 1, 10, 5);
    world_apply(&(tf_store_op){.kind = TF_STORE_CLOSE, .channel = 1});
    tf_db_apply_abort(world_db);
    world_forget_batch();
    tf_store_channel c = world_channel(world_db, 1);
    ck_assert(c.head == 0 && !c.closed);
    uint64_t lsn = 0;
    ck_assert_int_eq(tf_db_applied(world_db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn, 1);
    world_lsn = lsn;
    world_store(1, 1, 10, 5);
    world_expect(world_db, 1, 1, 10, 5);
    world_tear_down();
}
END_TEST

START_TEST(db_op_that_does_not_fit_is_damage)
{
    world_set_up();
    world_create(1);
    world_store(1, 1, 10, 5);
    made back;
    made early;
    world_make(&back, 1, 10, 5);
    world_make(&early, 1, 11, 5);
    early.stored.timestamp_ms = WORLD_TIME;
    const tf_store_op ops[] = {
        {.kind = TF_STORE_CREATE, .channel = 1, .name = tf_slice_str("other")},
        {.kind = TF_STORE_CREATE, .channel = 2, .name = tf_slice_str("channel/1")},
        {.kind = TF_STORE_CLOSE, .channel = 2},
        {.kind = TF_STORE_TRIM, .channel = 2, .seq = 1},
        {.kind = TF_STORE_FORGET, .channel = 2},
        {.kind = TF_STORE_EPOCH, .channel = 2},
        {.kind = TF_STORE_APPEND, .channel = 2, .message = back.stored},
        {.kind = TF_STORE_APPEND, .channel = 1, .message = back.stored},
        {.kind = TF_STORE_APPEND, .channel = 1, .message = early.stored},
    };
    for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
        world_begin();
        tf_err err = tf_db_apply_op(world_db, world_lsn + 1, &ops[i]);
        err = err == TF_OK ? tf_db_apply_commit(world_db) : err;
        ck_assert_msg(err == TF_ERR_DAMAGED, "op %zu", i);
    }
    world_store(1, 11, 10, 5);
    world_expect(world_db, 1, 1, 20, 5);
    free(back.body);
    free(early.body);
    world_tear_down();
}
END_TEST

/* How many blocks a channel has. */
static size_t count_blocks(uint64_t channel, uint64_t head)
{
    size_t count = 0;
    for (uint64_t seq = 1; seq <= head; count++) {
        tf_db_block *block = NULL;
        tf_db_gap gap;
        ck_assert_int_eq(tf_db_load(world_db, channel, seq, &block, &gap), TF_OK);
        ck_assert_uint_eq(tf_db_block_first(block), seq);
        seq = tf_db_block_last(block) + 1;
        tf_db_block_free(block);
    }
    return count;
}

START_TEST(db_trickle_ends_up_in_long_blocks)
{
    world_set_up();
    world_create(1);
    world_create(2);
    for (uint64_t seq = 1; seq <= 600; seq++) {
        world_store(1, seq, 1, 100);
        if (seq % 10 == 0) {
            world_store(2, seq - 9, 10, 10);
        }
    }
    ck_assert_uint_le(count_blocks(1, 600), 10);
    ck_assert_uint_le(count_blocks(2, 600), 10);
    world_expect(world_db, 1, 1, 600, 100);
    world_expect_keys(world_db, 1, 1, 600, 100);
    world_expect_keys(world_db, 2, 1, 600, 10);
    tf_db_stats stats;
    ck_assert_int_eq(tf_db_get_stats(world_db, &stats), TF_OK);
    ck_assert_uint_eq(stats.keys, 1200);
    ck_assert_uint_le(stats.key_runs, 16);
    world_tear_down();
}
END_TEST

static void collect_all(void)
{
    bool more = true;
    for (int i = 0; more; i++) {
        ck_assert_int_lt(i, 10000);
        ck_assert_msg(tf_db_collect(world_db, 7, &more) == TF_OK, "%s", tf_db_error_text(world_db));
    }
}

START_TEST(db_trimmed_goes_and_the_file_shrinks)
{
    world_set_up();
    world_create(1);
    for (uint64_t i = 0; i < 20; i++) {
        world_store(1, i * 100 + 1, 100, 2000);
    }
    tf_db_stats before;
    tf_db_stats after;
    ck_assert_int_eq(tf_db_get_stats(world_db, &before), TF_OK);
    uint64_t bytes = world_channel(world_db, 1).bytes;
    world_do(&(tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = 1801});
    world_do(&(tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = 500}); /* never moves back */
    tf_store_channel c = world_channel(world_db, 1);
    ck_assert_uint_eq(c.first, 1801);
    ck_assert_uint_le(c.bytes, bytes / 9);
    collect_all();
    ck_assert_int_eq(tf_db_get_stats(world_db, &after), TF_OK);
    ck_assert_uint_le(after.bytes, before.bytes / 4);
    ck_assert_uint_le(after.free_bytes, before.bytes / 3);
    ck_assert_uint_eq(after.messages, 200);
    tf_db_block *block = NULL;
    tf_db_gap gap;
    ck_assert_int_eq(tf_db_load(world_db, 1, 900, &block, &gap), TF_ERR_CLOSED);
    ck_assert(gap.first == 1 && gap.last >= 1700 && gap.last <= 1800);
    world_expect(world_db, 1, 1801, 2000, 2000);
    world_expect_keys(world_db, 1, 1, 2000, 2000); /* they live on */
    world_do(&(tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = 2001});
    collect_all();
    c = world_channel(world_db, 1);
    ck_assert(c.first == 2001 && c.head == 2000 && c.bytes == 0);
    ck_assert_int_eq(tf_db_load(world_db, 1, 2000, &block, &gap), TF_ERR_CLOSED);
    ck_assert(gap.first == 1 && gap.last == UINT64_MAX);
    world_store(1, 2001, 5, 2000);
    world_expect(world_db, 1, 2001, 2005, 2000);
    world_tear_down();
}
END_TEST

/* As the rescue of a full disk does it, or when a part of the log is lost: the channel goes on behind what there is. */
START_TEST(db_trim_goes_no_further_than_what_there_is)
{
    for (int early = 0; early < 2; early++) {
        world_set_up();
        world_create(1);
        world_create(2);
        world_store(1, 1, 10, 50);
        const tf_store_op trim = {.kind = TF_STORE_TRIM, .channel = 1, .seq = 500};
        world_begin();
        world_append(2, 1, 3, 50);
        world_append(1, 11, 2, 50);
        world_append(2, 4, 3, 50);
        ck_assert_int_eq(early ? tf_db_apply_early(world_db, &trim) : tf_db_apply_op(world_db, ++world_lsn, &trim),
                         TF_OK);
        world_commit();
        world_reopen();
        ck_assert_uint_eq(world_channel(world_db, 1).first, 13);
        ck_assert_uint_eq(world_channel(world_db, 2).first, 1);
        world_do(&trim);
        world_store(1, 13, 5, 50);
        ck_assert_uint_eq(world_channel(world_db, 1).first, 13);
        world_expect(world_db, 1, 13, 17, 50);
        world_tear_down();
    }
}
END_TEST

START_TEST(db_lost_range_is_a_hole)
{
    world_set_up();
    world_create(1);
    world_store(1, 1, 10, 5);
    world_begin();
    world_append(1, 15, 3, 5);
    world_append(1, 30, 2, 5);
    world_commit();
    static const uint64_t holes[][2] = {{11, 14}, {18, 29}};
    uint64_t position = 0;
    for (size_t i = 0; i < 2; i++) {
        tf_db_block *block = NULL;
        tf_db_gap gap;
        tf_store_damage hole;
        ck_assert_int_eq(tf_db_load(world_db, 1, holes[i][1], &block, &gap), TF_ERR_CLOSED);
        ck_assert(gap.first == holes[i][0] && gap.last == holes[i][1]);
        ck_assert_int_eq(tf_db_hole_next(world_db, 1, &position, &hole), TF_OK);
        ck_assert(hole.channel == 1 && hole.first == holes[i][0] && hole.last == holes[i][1]);
    }
    tf_store_damage hole;
    ck_assert_int_eq(tf_db_hole_next(world_db, 1, &position, &hole), TF_ERR_CLOSED);
    world_expect(world_db, 1, 1, 10, 5);
    world_expect(world_db, 1, 15, 17, 5);
    world_expect(world_db, 1, 30, 31, 5);
    world_tear_down();
}
END_TEST

/* Times and bytes of messages, as they are made, against a walk over all. */
static void expect_found(uint64_t first, uint64_t head, size_t size)
{
    uint64_t seq = 0;
    for (int64_t t = WORLD_TIME - 1; t <= WORLD_TIME + (int64_t)head / 2 + 1; t += 3) {
        uint64_t wanted = first;
        while (wanted <= head && WORLD_TIME + (int64_t)wanted / 2 < t) {
            wanted++;
        }
        ck_assert_int_eq(tf_db_find_time(world_db, 1, t, &seq), TF_OK);
        ck_assert_uint_eq(seq, wanted);
    }
    uint64_t bytes = 0;
    for (uint64_t at = head;; at--) {
        made m;
        world_make(&m, 1, at, size);
        uint64_t more = tf_stored_bytes(&m.stored);
        free(m.body);
        ck_assert_int_eq(tf_db_find_bytes(world_db, 1, bytes, &seq), TF_OK);
        ck_assert_uint_eq(seq, at + 1);
        ck_assert_int_eq(tf_db_find_bytes(world_db, 1, bytes + more - 1, &seq), TF_OK);
        ck_assert_uint_eq(seq, at + 1);
        bytes += more;
        if (at == first) {
            break;
        }
    }
    ck_assert_int_eq(tf_db_find_bytes(world_db, 1, bytes, &seq), TF_OK);
    ck_assert_uint_eq(seq, first);
    ck_assert_int_eq(tf_db_find_bytes(world_db, 1, UINT64_MAX, &seq), TF_OK);
    ck_assert_uint_eq(seq, first);
}

START_TEST(db_finds_times_and_bytes)
{
    world_set_up();
    world_create(1);
    uint64_t seq = 0;
    ck_assert_int_eq(tf_db_find_time(world_db, 1, 0, &seq), TF_OK);
    ck_assert_uint_eq(seq, 1);
    ck_assert_int_eq(tf_db_find_bytes(world_db, 1, 0, &seq), TF_OK);
    ck_assert_uint_eq(seq, 1);
    ck_assert_int_eq(tf_db_find_time(world_db, 2, 0, &seq), TF_ERR_CLOSED); /* no such channel */
    for (uint64_t i = 0; i < 12; i++) {
        world_store(1, i * 40 + 1, 40, 2000);
    }
    expect_found(1, 480, 2000);
    world_do(&(tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = 207});
    expect_found(207, 480, 2000);
    collect_all();
    expect_found(207, 480, 2000);
    world_tear_down();
}
END_TEST

START_TEST(db_cursors_are_kept_moved_and_deleted)
{
    world_set_up();
    world_create(1);
    tf_store_cursor c = {.channel = 1, .name = tf_slice_str("mine"), .epoch = UINT64_MAX, .next = 5, .moved_ms = 123};
    tf_store_cursor got;
    memset(c.owner.bytes, 9, TF_NODE_ID_LEN);
    ck_assert_int_eq(tf_db_cursor_find(world_db, 1, &c.owner, c.name, &got), TF_ERR_CLOSED);
    world_do(&(tf_store_op){.kind = TF_STORE_CURSOR, .channel = 1, .cursor = c});
    c.next = 6;
    world_do(&(tf_store_op){.kind = TF_STORE_CURSOR, .channel = 1, .cursor = c});
    tf_store_cursor other = c;
    other.name = tf_slice_str("min");
    other.next = 77;
    world_do(&(tf_store_op){.kind = TF_STORE_CURSOR, .channel = 1, .cursor = other});
    world_reopen();
    ck_assert_int_eq(tf_db_cursor_find(world_db, 1, &c.owner, c.name, &got), TF_OK);
    ck_assert(got.channel == 1 && tf_node_id_eq(&got.owner, &c.owner) && tf_slice_eq(got.name, c.name) &&
              got.epoch == UINT64_MAX && got.next == 6 && got.moved_ms == 123);
    uint64_t position = 0;
    uint64_t sum = 0;
    while (tf_db_cursor_next(world_db, 1, &position, &got) == TF_OK) {
        sum += got.next;
    }
    ck_assert_uint_eq(sum, 83);
    c.next = 0;
    world_do(&(tf_store_op){.kind = TF_STORE_CURSOR, .channel = 1, .cursor = c});
    ck_assert_int_eq(tf_db_cursor_find(world_db, 1, &c.owner, c.name, &got), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_db_cursor_find(world_db, 1, &c.owner, other.name, &got), TF_OK);
    world_tear_down();
}
END_TEST

START_TEST(db_reader_sees_batches_whole)
{
    world_set_up();
    tf_db *reader = world_open(true);
    world_create(1);
    world_begin();
    world_append(1, 1, 100, 10);
    ck_assert_uint_eq(world_channel(reader, 1).head, 0);
    world_commit();
    ck_assert_uint_eq(world_channel(reader, 1).head, 100);
    world_expect(reader, 1, 1, 100, 10);
    ck_assert_int_eq(tf_db_checkpoint(world_db, false), TF_OK);
    ck_assert_int_eq(tf_db_checkpoint(world_db, true), TF_OK);
    world_expect(reader, 1, 1, 100, 10);
    tf_db_free(reader);
    world_tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {db_new_is_empty,
                                         db_applied_ops_are_there_after_reopening,
                                         db_what_was_applied_is_skipped,
                                         db_abort_leaves_nothing,
                                         db_op_that_does_not_fit_is_damage,
                                         db_trickle_ends_up_in_long_blocks,
                                         db_trimmed_goes_and_the_file_shrinks,
                                         db_trim_goes_no_further_than_what_there_is,
                                         db_lost_range_is_a_hole,
                                         db_finds_times_and_bytes,
                                         db_cursors_are_kept_moved_and_deleted,
                                         db_reader_sees_batches_whole,
                                         NULL};
    return tf_test_run_waiting("node/store/db", tests);
}
