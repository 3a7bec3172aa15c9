/* What is trimmed and forgotten; finding by time and size. */
#include "tests/unit/store_suite_internal.h"

/* -- trim, forget -------------------------------------------------------------------------------------------------- */

START_TEST(store_trimmed_messages_are_gone_and_keep_their_keys)
{
    suite_begin();
    tf_stored stored;
    uint64_t channel = suite_make_channel("room");
    suite_append_range(channel, 1, 20, 10);
    suite_change(TF_STORE_TRIM, channel, 6);
    for (unsigned round = 0; round < 2; round++) {
        tf_store_channel found = suite_find_channel("room");
        ck_assert(found.first == 6 && found.head == 20 && found.timestamp_ms == 200);
        for (uint64_t seq = 1; seq <= 20; seq++) {
            tf_store_presence presence = suite_read_at(channel, seq, &stored);
            ck_assert_int_eq(presence, seq < 6 ? TF_STORE_GONE : TF_STORE_HERE);
            ck_assert_uint_eq(stored.seq, seq < 6 ? 6 : seq);
            ck_assert(suite_has_key(channel, seq));
        }
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_trim_never_goes_back)
{
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    suite_append_range(channel, 1, 10, 10);
    suite_change(TF_STORE_TRIM, channel, 8);
    suite_change(TF_STORE_TRIM, channel, 3);
    suite_change(TF_STORE_TRIM, channel, 1);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_uint_eq(suite_find_channel("room").first, 8);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_channel_of_which_all_was_trimmed_goes_on)
{
    suite_begin();
    tf_stored stored;
    uint64_t channel = suite_make_channel("room");
    suite_change(TF_STORE_TRIM, channel, 1); /* nothing to trim */
    suite_append_range(channel, 1, 10, 10);
    suite_change(TF_STORE_TRIM, channel, 11);
    for (unsigned round = 0; round < 2; round++) {
        tf_store_channel found = suite_find_channel("room");
        ck_assert(found.first == 11 && found.head == 10 && found.timestamp_ms == 100);
        ck_assert(suite_read_at(channel, 10, &stored) == TF_STORE_GONE && stored.seq == 11);
        ck_assert_uint_eq(suite_it.table->find_time(suite_it.ctx, channel, 0), 11);
        ck_assert_uint_eq(suite_it.table->find_bytes(suite_it.ctx, channel, 1), 11);
        suite_again();
    }
    suite_append_range(channel, 11, 12, 10);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(suite_find_channel("room").first == 11 && suite_find_channel("room").head == 12);
        ck_assert_int_eq(suite_read_at(channel, 11, &stored), TF_STORE_HERE);
        ck_assert(suite_read_at(channel, 3, &stored) == TF_STORE_GONE && stored.seq == 11);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_bytes_are_of_what_is_kept)
{
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    uint64_t all = 0;
    for (uint64_t seq = 1; seq <= 200; seq++) {
        char id[32];
        ck_assert_int_eq(suite_append_one(channel, seq, 10), TF_REFUSAL_NONE);
        all += suite_id_of(seq, id).len + 10;
        ck_assert_uint_eq(suite_find_channel("room").bytes, all);
    }
    uint64_t kept = 0;
    for (uint64_t seq = 101; seq <= 200; seq++) {
        char id[32];
        kept += suite_id_of(seq, id).len + 10;
    }
    suite_change(TF_STORE_TRIM, channel, 101);
    for (unsigned round = 0; round < 2; round++) {
        uint64_t bytes = suite_find_channel("room").bytes;
        ck_assert_uint_ge(bytes, kept);
        ck_assert_uint_le(bytes, kept + suite_impl->block * 16);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_forgotten_key_is_not_found_and_its_message_is_kept)
{
    suite_begin();
    tf_stored stored;
    uint64_t channel = suite_make_channel("room");
    uint64_t other = suite_make_channel("other");
    suite_append_range(channel, 1, 10, 10);
    suite_append_range(other, 1, 10, 10);
    suite_change(TF_STORE_FORGET, channel, 50); /* timestamps are 10, 20 ... */
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_int_eq(suite_find_channel("room").keys_since_ms, 50);
        for (uint64_t seq = 1; seq <= 10; seq++) {
            ck_assert_int_eq(suite_has_key(channel, seq), seq >= 5);
            ck_assert(suite_has_key(other, seq));
            ck_assert_int_eq(suite_read_at(channel, seq, &stored), TF_STORE_HERE);
        }
        suite_again();
    }
    suite_change(TF_STORE_FORGET, channel, 20); /* never back */
    ck_assert_int_eq(suite_find_channel("room").keys_since_ms, 50);
    ck_assert(!suite_has_key(channel, 4));
    suite_end();
}
END_TEST

START_TEST(store_forgotten_key_is_taken_by_a_new_message)
{
    suite_begin();
    tf_store_key key;
    tf_stored stored;
    uint64_t channel = suite_make_channel("room");
    suite_append_range(channel, 1, 3, 10);
    suite_change(TF_STORE_FORGET, channel, 31);
    tf_store_op op = suite_append_op(channel, 4, 1, tf_slice_str("c-2"), tf_slice_str("another"));
    suite_submit_all(&op, 1);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_int_eq(suite_find_key(channel, 1, tf_slice_str("c-2"), &key), TF_OK);
        ck_assert(key.seq == 4 && key.digest == tf_store_digest(tf_slice_str("another")));
        ck_assert(suite_read_at(channel, 2, &stored) == TF_STORE_HERE && tf_slice_eq(stored.client_id, tf_slice_str("c-2")));
        ck_assert(!suite_has_key(channel, 1) && !suite_has_key(channel, 3));
        suite_again();
    }
    suite_change(TF_STORE_TRIM, channel, 4); /* the old message goes, the key is the new one's */
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(suite_find_key(channel, 1, tf_slice_str("c-2"), &key) == TF_OK && key.seq == 4);
        suite_again();
    }
    suite_end();
}
END_TEST

/* -- finding ------------------------------------------------------------------------------------------------------- */

START_TEST(store_time_finds_the_first_kept_message_not_older)
{
    static const struct {
        int64_t time;
        uint64_t seq;
    } rows[] = {{INT64_MIN, 3}, {0, 3}, {30, 3}, {31, 4}, {40, 4}, {50, 5}, {51, 6}, {INT64_MAX, 6}};
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    ck_assert_uint_eq(suite_it.table->find_time(suite_it.ctx, channel, 5), 1);
    suite_append_range(channel, 1, 5, 1);
    ck_assert_uint_eq(suite_it.table->find_time(suite_it.ctx, channel, 5), 1);
    suite_change(TF_STORE_TRIM, channel, 3);
    for (unsigned round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            ck_assert_uint_eq(suite_it.table->find_time(suite_it.ctx, channel, rows[i].time), rows[i].seq);
        }
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_messages_of_one_time_are_found_from_the_first)
{
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    for (uint64_t seq = 1; seq <= 9; seq++) {
        char id[32];
        tf_store_op op = suite_append_op(channel, seq, 1, suite_id_of(seq, id), tf_slice_str("x"));
        op.message.timestamp_ms = (int64_t)((seq + 2) / 3); /* 1 1 1 2 2 2 3 3 3 */
        suite_submit_all(&op, 1);
    }
    for (int64_t time = 0; time <= 4; time++) {
        uint64_t expected = time <= 1 ? 1 : (uint64_t)(time - 1) * 3 + 1;
        ck_assert_uint_eq(suite_it.table->find_time(suite_it.ctx, channel, time), expected);
    }
    suite_end();
}
END_TEST

START_TEST(store_bytes_find_the_newest_messages_that_fit)
{
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    for (uint64_t seq = 1; seq <= 300; seq++) { /* each of 10 bytes */
        char id[32];
        (void)snprintf(id, sizeof(id), "%08llu", (unsigned long long)seq);
        tf_store_op op = suite_append_op(channel, seq, 1, tf_slice_of(id, 8), tf_slice_str("xy"));
        suite_submit_all(&op, 1);
    }
    suite_change(TF_STORE_TRIM, channel, 51);
    for (unsigned round = 0; round < 2; round++) {
        for (uint64_t bytes = 0; bytes <= 3100; bytes += 5) {
            uint64_t exact = bytes / 10 >= 250 ? 51 : 301 - bytes / 10;
            uint64_t found = suite_it.table->find_bytes(suite_it.ctx, channel, bytes);
            ck_assert_msg(found <= exact && found + suite_impl->block >= exact && found >= 51, "%llu bytes: %llu",
                          (unsigned long long)bytes, (unsigned long long)found);
        }
        suite_again();
    }
    suite_end();
}
END_TEST

const TTest *const *suite_tests_keep(void)
{
    static const TTest *tests[10];
    const TTest *const filled[] = {
        store_trimmed_messages_are_gone_and_keep_their_keys,
        store_trim_never_goes_back,
        store_channel_of_which_all_was_trimmed_goes_on,
        store_bytes_are_of_what_is_kept,
        store_forgotten_key_is_not_found_and_its_message_is_kept,
        store_forgotten_key_is_taken_by_a_new_message,
        store_time_finds_the_first_kept_message_not_older,
        store_messages_of_one_time_are_found_from_the_first,
        store_bytes_find_the_newest_messages_that_fit,
    };
    for (size_t i = 0; i < sizeof(filled) / sizeof(filled[0]); i++) {
        tests[i] = filled[i];
    }
    return tests;
}
