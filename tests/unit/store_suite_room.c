/* Cursors, statistics, a store that is full. */
#include "tests/unit/store_suite_internal.h"

/* -- cursors ------------------------------------------------------------------------------------------------------- */

START_TEST(store_cursor_belongs_to_channel_owner_and_name)
{
    suite_begin();
    uint64_t one = suite_make_channel("one");
    uint64_t two = suite_make_channel("two");
    tf_store_op ops[] = {suite_cursor_op(one, 1, "a", 5), suite_cursor_op(one, 2, "a", 6), suite_cursor_op(one, 1, "b", 7),
                         suite_cursor_op(two, 1, "a", 8)};
    suite_submit_all(ops, 4);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(suite_cursor_at(one, 1, "a") == 5 && suite_cursor_at(one, 2, "a") == 6 && suite_cursor_at(one, 1, "b") == 7);
        ck_assert(suite_cursor_at(two, 1, "a") == 8 && suite_cursor_at(two, 2, "a") == 0 && suite_cursor_at(one, 1, "ab") == 0);
        ck_assert(suite_count_cursors(one) == 3 && suite_count_cursors(two) == 1);
        suite_again();
    }
    suite_end();
}
END_TEST

START_TEST(store_cursor_moves_and_is_deleted)
{
    suite_begin();
    uint64_t channel = suite_make_channel("room");
    tf_store_op ops[] = {suite_cursor_op(channel, 1, "a", 5), suite_cursor_op(channel, 1, "b", 5), suite_cursor_op(channel, 1, "a", 9)};
    suite_submit_all(ops, 3);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(suite_cursor_at(channel, 1, "a") == 9 && suite_cursor_at(channel, 1, "b") == 5);
        suite_again();
    }
    tf_store_op deleted[] = {suite_cursor_op(channel, 1, "a", 0), suite_cursor_op(channel, 1, "never", 0)};
    suite_submit_all(deleted, 2);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert(suite_cursor_at(channel, 1, "a") == 0 && suite_cursor_at(channel, 1, "b") == 5);
        ck_assert_uint_eq(suite_count_cursors(channel), 1);
        suite_again();
    }
    tf_store_op made = suite_cursor_op(channel, 1, "a", 2); /* lower than ever: it is another one */
    suite_submit_all(&made, 1);
    ck_assert_uint_eq(suite_cursor_at(channel, 1, "a"), 2);
    suite_end();
}
END_TEST

/* -- its room and its numbers -------------------------------------------------------------------------------------- */

START_TEST(store_statistics_count_what_is_kept)
{
    suite_begin();
    tf_store_stats stats;
    uint64_t channel = suite_make_channel("room");
    suite_append_range(channel, 1, 10, 100);
    suite_change(TF_STORE_TRIM, channel, 4);
    for (unsigned round = 0; round < 2; round++) {
        suite_it.table->get_stats(suite_it.ctx, &stats);
        ck_assert_int_eq(stats.state, TF_STORE_WRITABLE);
        ck_assert(stats.channels == 1 && stats.bytes > 700 && stats.commits_failed == 0);
        ck_assert(stats.messages >= 7 && stats.messages <= 7 + suite_impl->block);
        ck_assert(round == 1 || stats.groups == 12);
        suite_again();
    }
    suite_end();
}
END_TEST

/* Appends groups of `count` until one is refused; the seq of the first that was. */
static uint64_t fill_up(uint64_t channel, uint64_t seq, size_t count)
{
    static tf_store_op ops[8];
    static char ids[8][32];
    static uint8_t body[1000];
    for (;;) {
        for (size_t i = 0; i < count; i++) {
            ops[i] = suite_append_op(channel, seq + i, 1, suite_id_of(seq + i, ids[i]), tf_slice_of(body, sizeof(body)));
        }
        suite_submit(ops, count);
        for (size_t i = 0; i < count; i++) {
            if (ops[i].outcome != TF_REFUSAL_NONE) {
                for (size_t k = i; k < count; k++) { /* no hole */
                    ck_assert_int_eq(ops[k].outcome, TF_REFUSAL_STORE_FULL);
                }
                return seq + i;
            }
        }
        seq += count;
        ck_assert_uint_lt(seq, 1000000);
    }
}

START_TEST(store_that_is_full_refuses_and_drops_nothing)
{
    if (suite_impl->open_small == NULL) {
        return;
    }
    suite_it = suite_impl->open_small(suite_impl->ctx);
    tf_stored stored;
    tf_store_stats stats;
    uint64_t channel = suite_make_channel("room");
    uint64_t refused = fill_up(channel, 1, 5);
    ck_assert_uint_gt(refused, 100);
    for (unsigned round = 0; round < 2; round++) {
        ck_assert_uint_eq(suite_find_channel("room").head, refused - 1);
        for (uint64_t seq = 1; seq < refused; seq++) {
            ck_assert_int_eq(suite_read_at(channel, seq, &stored), TF_STORE_HERE);
            ck_assert(suite_has_key(channel, seq));
        }
        ck_assert(!suite_has_key(channel, refused));
        suite_again();
    }
    ck_assert_uint_eq(fill_up(channel, refused, 1), refused);
    suite_it.table->get_stats(suite_it.ctx, &stats);
    ck_assert_int_eq(stats.state, TF_STORE_FULL);
    suite_end();
}
END_TEST

START_TEST(store_that_is_full_is_freed_by_what_it_still_takes)
{
    if (suite_impl->open_small == NULL) {
        return;
    }
    suite_it = suite_impl->open_small(suite_impl->ctx);
    uint64_t channel = suite_make_channel("room");
    uint64_t refused = fill_up(channel, 1, 1);
    tf_store_op ops[] = {suite_cursor_op(channel, 1, "a", 5),
                         {.kind = TF_STORE_TRIM, .channel = channel, .seq = refused},
                         {.kind = TF_STORE_FORGET, .channel = channel, .time_ms = (int64_t)refused * 10}};
    suite_submit_all(ops, 3);
    uint64_t next = fill_up(channel, refused, 1);
    ck_assert_uint_gt(next, refused + (refused - 1) / 2); /* it takes about as many again */
    tf_store_op closing = {.kind = TF_STORE_CLOSE, .channel = channel};
    suite_submit_all(&closing, 1);
    for (unsigned round = 0; round < 2; round++) {
        tf_store_channel found = suite_find_channel("room");
        ck_assert(found.first == refused && found.head == next - 1 && found.closed);
        ck_assert_uint_eq(suite_cursor_at(channel, 1, "a"), 5);
        suite_again();
    }
    suite_end();
}
END_TEST

const TTest *const *suite_tests_room(void)
{
    static const TTest *tests[6];
    const TTest *const filled[] = {
        store_cursor_belongs_to_channel_owner_and_name,
        store_cursor_moves_and_is_deleted,
        store_statistics_count_what_is_kept,
        store_that_is_full_refuses_and_drops_nothing,
        store_that_is_full_is_freed_by_what_it_still_takes,
    };
    for (size_t i = 0; i < sizeof(filled) / sizeof(filled[0]); i++) {
        tests[i] = filled[i];
    }
    return tests;
}
