/* Channels, messages and their keys. */
#include "tests/unit/store_suite_internal.h"

/* -- channels ------------------------------------------------------------------------------------------------------ */

START_TEST(store_new_channel_is_empty)
{
    suite_begin();
    tf_store_channel found;
    ck_assert_int_eq(suite_it.table->channel_find(suite_it.ctx, tf_slice_str("room"), &found), TF_ERR_CLOSED);
    uint64_t number = suite_make_channel("room");
    for (unsigned i = 0; i < 2; i++) {
        found = suite_find_channel("room");
        ck_assert_uint_eq(found.number, number);
        ck_assert(found.epoch == SUITE_EPOCH && found.first == 1 && found.head == 0 && found.bytes == 0 && !found.closed);
        ck_assert(found.timestamp_ms == 0 && found.keys_since_ms == 0);
        ck_assert_int_eq(suite_it.table->channel_find(suite_it.ctx, tf_slice_str("roo"), &found), TF_ERR_CLOSED);
        ck_assert_int_eq(suite_it.table->channel_find(suite_it.ctx, tf_slice_str("room/"), &found), TF_ERR_CLOSED);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_channels_are_listed_in_the_order_of_their_numbers)
{
    suite_begin();
    char longest[TF_CHANNEL_NAME_MAX + 1];
    memset(longest, 'x', TF_CHANNEL_NAME_MAX);
    longest[TF_CHANNEL_NAME_MAX] = 0;
    const char *const names[] = {"b", "a", "a/b~c:d", longest};
    uint64_t numbers[4];
    for (size_t i = 0; i < 4; i++) {
        numbers[i] = suite_make_channel(names[i]);
    }
    for (unsigned round = 0; round < 2; round++) {
        tf_store_channel found;
        uint64_t position = 0;
        for (size_t i = 0; i < 4; i++) {
            ck_assert(suite_it.table->channel_next(suite_it.ctx, &position, &found));
            ck_assert(found.number == numbers[i] && position == numbers[i]);
            ck_assert(tf_slice_eq(found.name, tf_slice_str(names[i])));
        }
        ck_assert(!suite_it.table->channel_next(suite_it.ctx, &position, &found));
        position = numbers[1]; /* a page begins in the middle */
        ck_assert(suite_it.table->channel_next(suite_it.ctx, &position, &found) && found.number == numbers[2]);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_channel_is_closed)
{
    suite_begin();
    uint64_t one = suite_make_channel("one");
    (void)suite_make_channel("two");
    suite_append_range(one, 1, 1, 1);
    suite_change(TF_STORE_CLOSE, one, 0);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(suite_find_channel("one").closed && !suite_find_channel("two").closed);
        ck_assert_uint_eq(suite_find_channel("one").head, 1);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_epoch_is_of_the_messages_that_follow)
{
    suite_begin();
    tf_stored stored;
    tf_store_key key;
    uint64_t channel = suite_make_channel("room");
    suite_append_range(channel, 1, 2, 1);
    suite_change(TF_STORE_EPOCH, channel, 1234);
    tf_store_op op = suite_append_op(channel, 3, 1, tf_slice_str("new"), tf_slice_str("x"));
    op.message.epoch = 1234;
    suite_submit_all(&op, 1);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_uint_eq(suite_find_channel("room").epoch, 1234);
        ck_assert_uint_eq(suite_find_channel("room").head, 3);
        ck_assert(suite_read_at(channel, 2, &stored) == TF_STORE_HERE && stored.epoch == SUITE_EPOCH);
        ck_assert(suite_read_at(channel, 3, &stored) == TF_STORE_HERE && stored.epoch == 1234);
        ck_assert(suite_find_key(channel, 1, tf_slice_str("c-2"), &key) == TF_OK && key.epoch == SUITE_EPOCH);
        ck_assert(suite_find_key(channel, 1, tf_slice_str("new"), &key) == TF_OK && key.epoch == 1234);
        suite_again();
    }
    suite_end();
}
END_TEST

/* -- messages and keys --------------------------------------------------------------------------------------------- */

START_TEST(store_message_comes_back_as_it_was)
{
    suite_begin();
    tf_stored stored;
    tf_store_key key;
    uint64_t channel = suite_make_channel("room");
    tf_store_op op = suite_append_op(channel, 1, 7, tf_slice_str("id-1"), tf_slice_str("hello"));
    op.message.instance = UINT64_MAX;
    op.message.timestamp_ms = INT64_MAX;
    op.message.expires_ms = INT64_MAX - 1;
    op.message.meta = tf_slice_str("meta");
    op.message.epoch = UINT64_MAX;
    suite_submit_all(&op, 1);
    for (unsigned round = 0; round < 2; round++) {
        tf_node_id origin = suite_node_of(7);
        ck_assert_int_eq(suite_read_at(channel, 1, &stored), TF_STORE_HERE);
        ck_assert(stored.seq == 1 && stored.epoch == UINT64_MAX && stored.instance == UINT64_MAX);
        ck_assert(stored.timestamp_ms == INT64_MAX && stored.expires_ms == INT64_MAX - 1);
        ck_assert(tf_node_id_eq(&stored.origin, &origin) && tf_slice_eq(stored.client_id, tf_slice_str("id-1")));
        ck_assert(tf_slice_eq(stored.meta, tf_slice_str("meta")) && tf_slice_eq(stored.body, tf_slice_str("hello")));
        ck_assert_int_eq(suite_find_key(channel, 7, tf_slice_str("id-1"), &key), TF_OK);
        ck_assert(key.seq == 1 && key.epoch == UINT64_MAX && key.timestamp_ms == INT64_MAX);
        ck_assert_uint_eq(key.digest, tf_store_digest(tf_slice_str("hello")));
        tf_store_channel found = suite_find_channel("room");
        ck_assert(found.head == 1 && found.first == 1 && found.timestamp_ms == INT64_MAX && found.bytes == 13);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_bodies_of_all_sizes_come_back)
{
    static const size_t sizes[] = {0, 1, 2047, 2048, 4095, 4096, 65535, 65536, 300000, TF_BODY_MAX};
    static uint8_t body[TF_BODY_MAX];
    suite_begin();
    char meta[TF_META_MAX];
    char longest[TF_CLIENT_ID_MAX];
    memset(meta, 'm', sizeof(meta));
    memset(longest, 'i', sizeof(longest));
    uint64_t channel = suite_make_channel("room");
    for (size_t i = 0; i < sizeof(body); i++) {
        body[i] = (uint8_t)(i * 31 + i / 256);
    }
    for (uint64_t i = 0; i < 10; i++) {
        longest[0] = (char)('a' + i);
        tf_store_op op =
            suite_append_op(channel, i + 1, 1, tf_slice_of(longest, sizeof(longest)), tf_slice_of(body, sizes[i]));
        op.message.meta = tf_slice_of(meta, i % 2 == 0 ? sizeof(meta) : 0);
        suite_submit_all(&op, 1);
    }
    for (unsigned round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < 10; i++) {
            tf_stored stored;
            ck_assert_int_eq(suite_read_at(channel, i + 1, &stored), TF_STORE_HERE);
            ck_assert(tf_slice_eq(stored.body, tf_slice_of(body, sizes[i])));
            ck_assert_uint_eq(stored.meta.len, i % 2 == 0 ? sizeof(meta) : 0);
            ck_assert_uint_eq(stored.client_id.len, sizeof(longest));
        }
        suite_again();
    }
    suite_end();
}
END_TEST

/* S2: a tuple, each part for itself. */
START_TEST(store_key_is_a_tuple)
{
    suite_begin();
    uint64_t one = suite_make_channel("one");
    uint64_t two = suite_make_channel("two");
    tf_store_op ops[] = {suite_append_op(one, 1, 1, tf_slice_str("ab"), tf_slice_str("x")),
                         suite_append_op(one, 2, 'a', tf_slice_str("b"), tf_slice_str("y"))};
    suite_submit_all(ops, 2);
    const struct {
        uint64_t channel;
        uint8_t origin;
        const char *client_id;
        uint64_t seq; /* 0: none */
    } rows[] = {{one, 1, "ab", 1}, {two, 1, "ab", 0}, {one, 2, "ab", 0},   {one, 1, "a", 0},
                {one, 1, "abc", 0}, {one, 1, "Ab", 0}, {one, 'a', "b", 2}, {one, 'a', "ab", 0}};
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            tf_store_key key = {.seq = 0};
            tf_err err = suite_find_key(rows[i].channel, rows[i].origin, tf_slice_str(rows[i].client_id), &key);
            ck_assert_int_eq(err, rows[i].seq == 0 ? TF_ERR_CLOSED : TF_OK);
            ck_assert(err != TF_OK || key.seq == rows[i].seq);
        }
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_group_is_done_in_its_order)
{
    suite_begin();
    tf_stored stored;
    uint64_t one = suite_make_channel("one");
    uint64_t two = suite_make_channel("two");
    suite_append_range(one, 1, 3, 10);
    tf_store_op ops[] = {suite_append_op(one, 4, 1, tf_slice_str("x4"), tf_slice_str("4")),
                         {.kind = TF_STORE_TRIM, .channel = one, .seq = 3},
                         suite_append_op(two, 1, 1, tf_slice_str("x4"), tf_slice_str("other")),
                         {.kind = TF_STORE_CREATE, .name = tf_slice_str("three"), .epoch = 5},
                         suite_append_op(one, 5, 1, tf_slice_str("x5"), tf_slice_str("5")),
                         {.kind = TF_STORE_CLOSE, .channel = one}};
    suite_submit_all(ops, 6);
    for (unsigned round = 0; round < 2; round++) {
        tf_store_channel found = suite_find_channel("one");
        ck_assert(found.first == 3 && found.head == 5 && found.closed && found.timestamp_ms == 50);
        ck_assert(suite_find_channel("two").head == 1 && suite_find_channel("three").epoch == 5);
        ck_assert_uint_eq(suite_find_channel("three").number, ops[3].channel);
        ck_assert(suite_read_at(one, 5, &stored) == TF_STORE_HERE && tf_slice_eq(stored.body, tf_slice_str("5")));
        ck_assert(suite_read_at(two, 1, &stored) == TF_STORE_HERE && tf_slice_eq(stored.body, tf_slice_str("other")));
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_large_group_is_done)
{
    static tf_store_op ops[512];
    static char ids[512][32];
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    for (uint64_t i = 0; i < 512; i++) {
        ops[i] = suite_append_op(channel, i + 1, 1, suite_id_of(i + 1, ids[i]), tf_slice_str("0123456789"));
    }
    suite_submit_all(ops, 512);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_uint_eq(suite_find_channel("room").head, 512);
        for (uint64_t seq = 1; seq <= 512; seq++) {
            tf_stored stored;
            ck_assert(suite_read_at(channel, seq, &stored) == TF_STORE_HERE && stored.seq == seq);
            ck_assert(suite_has_key(channel, seq));
        }
        suite_again();
    }
    suite_end();
}
END_TEST

const TTest *const *suite_tests_basic(void)
{
    static const TTest *tests[10];
    const TTest *const filled[] = {
        store_new_channel_is_empty,
        store_channels_are_listed_in_the_order_of_their_numbers,
        store_channel_is_closed,
        store_epoch_is_of_the_messages_that_follow,
        store_message_comes_back_as_it_was,
        store_bodies_of_all_sizes_come_back,
        store_key_is_a_tuple,
        store_group_is_done_in_its_order,
        store_large_group_is_done,
    };
    for (size_t i = 0; i < sizeof(filled) / sizeof(filled[0]); i++) {
        tests[i] = filled[i];
    }
    return tests;
}
