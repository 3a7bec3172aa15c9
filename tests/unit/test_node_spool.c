/* node/spool: what was synced and not answered is there for the next process, in order, once. */
#include <xxhash.h>

#include "proto/wire.h"
#include "tests/unit/spool_world.h"

/* -- what it does -------------------------------------------------------------------------------------------------- */

START_TEST(spool_hands_out_what_is_durable_in_order)
{
    world w;
    tf_spool_message message;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS, &message), TF_ERR_CLOSED);
    put_range(&w, 1, 5, true);
    ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS, &message), TF_ERR_CLOSED);
    ck_assert_uint_eq(stats_of(&w).unsynced, 5);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    ck_assert_uint_eq(stats_of(&w).unsynced, 0);
    ck_assert_uint_eq(stats_of(&w).waiting, 5);
    check_holds(&w, 1, 5);
    put_range(&w, 6, 7, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    check_holds(&w, 6, 7);
    world_end(&w);
}
END_TEST

START_TEST(spool_group_of_messages_costs_one_sync)
{
    world w;
    tf_lossy_counts before;
    tf_lossy_counts after;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 2, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK); /* the first one may prepare segments */
    tf_lossy_files_get_counts(w.lossy, &before);
    put_range(&w, 3, 1000, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    check_holds(&w, 1, 1000);
    tf_lossy_files_get_counts(w.lossy, &after);
    ck_assert_uint_eq(after.syncs - before.syncs, 1);
    world_end(&w);
}
END_TEST

START_TEST(spool_gives_the_next_process_what_was_not_answered)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 10, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    ck_assert_uint_eq(take_all(&w, numbers, handles), 10);
    for (size_t i = 0; i < 4; i++) {
        tf_spool_done(w.spool, handles[i]);
    }
    tf_spool_done(w.spool, handles[0]); /* once more, and one that is none: nothing */
    tf_spool_done(w.spool, 1000);
    tf_spool_done(w.spool, handles[7]); /* out of order: kept until those before it are done */
    ck_assert_uint_eq(stats_of(&w).waiting, 5);
    ck_assert_int_eq(tf_spool_note(w.spool, false), TF_OK);
    reopen(&w);
    ck_assert_uint_eq(stats_of(&w).waiting, 6);
    check_holds(&w, 5, 10);
    put_range(&w, 11, 12, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    reopen(&w);
    check_holds(&w, 5, 12);
    world_end(&w);
}
END_TEST

START_TEST(spool_that_is_done_is_empty_for_the_next_process)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned round = 0; round < 3; round++) {
        put_range(&w, 1, 10, true);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
        size_t count = take_all(&w, numbers, handles);
        for (size_t i = 0; i < count; i++) {
            tf_spool_done(w.spool, handles[i]);
        }
        ck_assert_int_eq(tf_spool_note(w.spool, true), TF_OK);
        world_close(&w);
        tf_lossy_files_crash(w.lossy, round); /* it was durable */
        ck_assert_int_eq(world_open(&w), TF_OK);
        ck_assert_uint_eq(stats_of(&w).waiting, 0);
    }
    world_end(&w);
}
END_TEST

/* What a process that went offline left was not sent, which the next one must know (S2). */
START_TEST(spool_knows_what_may_have_been_sent_and_since_when)
{
    world w;
    tf_spool_message message;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 1, false);
    put_range(&w, 2, 2, true); /* it goes as soon as it is durable */
    put_range(&w, 3, 4, false);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    reopen(&w);
    static const int64_t at_first[] = {0, NOW_MS + 2, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS + 100, &message), TF_OK);
        ck_assert_int_eq(message.sent_ms, at_first[i]);
        tf_spool_take(w.spool);
    }
    put_range(&w, 5, 5, false);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    world_close(&w);
    tf_lossy_files_crash(w.lossy, 1); /* it was noted before they were handed out */
    ck_assert_int_eq(world_open(&w), TF_OK);
    static const int64_t then[] = {NOW_MS + 100, NOW_MS + 2, NOW_MS + 100, NOW_MS + 100, 0};
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS + 200, &message), TF_OK);
        ck_assert_int_eq(message.sent_ms, then[i]);
        tf_spool_take(w.spool);
    }
    world_end(&w);
}
END_TEST

/* -- whose it is --------------------------------------------------------------------------------------------------- */

START_TEST(spool_of_another_channel_relay_or_process_is_refused)
{
    world w;
    tf_files files;
    tf_file *lock = NULL;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 3, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    world_close(&w);
    w.channel = "other";
    ck_assert_int_eq(world_open(&w), TF_ERR_USAGE);
    ck_assert_str_eq(w.why, "it holds sends for channel 'room', not for 'other'");
    w.channel = "room";
    w.relay = 3;
    ck_assert_int_eq(world_open(&w), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(w.why, "for the relay aiba"));
    ck_assert_ptr_nonnull(strstr(w.why, "not amb"));
    w.relay = 2;
    files = tf_lossy_files_get(w.lossy);
    ck_assert_int_eq(files.table->lock(files.ctx, "lock", &lock), TF_OK);
    ck_assert_int_eq(world_open(&w), TF_ERR_AGAIN);
    ck_assert_str_eq(w.why, "another process has it open");
    tf_files_close(&files, lock);
    ck_assert_int_eq(world_open(&w), TF_OK);
    check_holds(&w, 1, 3);
    world_end(&w);
}
END_TEST

START_TEST(spool_whose_owner_cannot_be_told_is_refused)
{
    static const struct {
        uint64_t offset;
        tf_err err;
    } rows[] = {{0, TF_ERR_DAMAGED}, {20, TF_ERR_DAMAGED}, {505, TF_ERR_DAMAGED}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        world_begin(&w);
        ck_assert_int_eq(world_open(&w), TF_OK);
        world_close(&w);
        ck_assert(tf_lossy_files_flip(w.lossy, TF_SPOOL_STATE_FILE, rows[i].offset, 0x40));
        ck_assert_int_eq(world_open(&w), rows[i].err);
        ck_assert_str_eq(w.why, "its file spool is damaged");
        world_end(&w);
    }
}
END_TEST

/* One of the two blocks that take turns is always good. */
START_TEST(spool_with_one_damaged_note_goes_on_with_the_other)
{
    for (uint64_t block = 1; block <= 2; block++) {
        static unsigned numbers[MESSAGES];
        static uint64_t handles[MESSAGES];
        world w;
        world_begin(&w);
        ck_assert_int_eq(world_open(&w), TF_OK);
        put_range(&w, 1, 9, true);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
        size_t count = take_all(&w, numbers, handles);
        for (size_t i = 0; i < 4; i++) {
            tf_spool_done(w.spool, handles[i]);
            ck_assert_int_eq(tf_spool_note(w.spool, true), TF_OK);
        }
        world_close(&w);
        ck_assert(tf_lossy_files_flip(w.lossy, TF_SPOOL_STATE_FILE, block * 4096 + 9, 1));
        ck_assert_int_eq(world_open(&w), TF_OK);
        size_t left = take_all(&w, numbers, handles);
        ck_assert(left == count - 4 || left == count - 3);
        ck_assert_uint_eq(numbers[left - 1], 9);
        world_end(&w);
    }
}
END_TEST

/* -- what fails ---------------------------------------------------------------------------------------------------- */

static void put_note(world *w, size_t block, uint64_t serial, uint64_t answered)
{
    uint8_t bytes[512] = {0};
    tf_files files = tf_lossy_files_get(w->lossy);
    tf_file *file = NULL;
    tf_writer out;
    tf_wr_init(&out, bytes, sizeof(bytes));
    tf_wr_u64(&out, serial);
    tf_wr_u64(&out, answered);
    tf_wr_init(&out, bytes + 504, 8);
    tf_wr_u64(&out, XXH3_64bits(bytes, 504));
    ck_assert_int_eq(tf_files_open(&files, TF_SPOOL_STATE_FILE, TF_FILE_WRITE, &file), TF_OK);
    ck_assert_int_eq(tf_files_write(&files, file, block * 4096, tf_slice_of(bytes, sizeof(bytes))), TF_OK);
    tf_files_close(&files, file);
}

/* Its sum is right, but no later note could follow it, or no log go on behind it. */
START_TEST(spool_note_that_cannot_be_is_none)
{
    static const struct {
        uint64_t serial;
        uint64_t answered;
    } rows[] = {{UINT64_MAX, 1}, {6, 1}, {7, UINT64_MAX}, {7, UINT64_C(1) << 62}, {UINT64_MAX - 2, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        world_begin(&w);
        ck_assert_int_eq(world_open(&w), TF_OK);
        put_range(&w, 1, 3, true);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
        world_close(&w);
        put_note(&w, 1, rows[i].serial, rows[i].answered);
        ck_assert_int_eq(world_open(&w), TF_OK); /* by the other one */
        check_holds(&w, 1, 3);
        world_close(&w);
        put_note(&w, 2, rows[i].serial + 1, rows[i].answered);
        ck_assert_int_eq(world_open(&w), i == 0 ? TF_OK : TF_ERR_DAMAGED); /* 0 is a serial */
        world_end(&w);
    }
}
END_TEST

START_TEST(spool_that_is_full_goes_on_when_something_is_answered)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    tf_err err = TF_OK;
    unsigned next = 1;
    unsigned done = 0;
    world_begin(&w);
    w.bytes_max = TF_SPOOL_BYTES_MIN;
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned round = 0; round < 5; round++) {
        for (err = TF_OK; err == TF_OK && next < MESSAGES; next++) {
            ck_assert_int_eq(put(&w, next, 50000, true), TF_OK);
            err = tf_spool_sync(w.spool);
        }
        ck_assert_int_eq(err, TF_ERR_AGAIN);
        ck_assert_uint_eq(stats_of(&w).unsynced, 1); /* it stays put */
        ck_assert_uint_le(stats_of(&w).bytes, TF_SPOOL_BYTES_MIN);
        size_t count = take_all(&w, numbers, handles);
        ck_assert_uint_gt(count, round == 0 ? 30 : 0);
        for (size_t i = 0; i < count; i++) {
            ck_assert_uint_eq(numbers[i], ++done);
            tf_spool_done(w.spool, handles[i]);
        }
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    }
    world_end(&w);
}
END_TEST

START_TEST(spool_takes_the_largest_message_within_the_least_bound)
{
    world w;
    world_begin(&w);
    w.bytes_max = TF_SPOOL_BYTES_MIN;
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned i = 1; i <= 2; i++) {
        ck_assert_int_eq(put(&w, i, TF_BODY_MAX, true), TF_OK);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    }
    reopen(&w);
    check_holds(&w, 1, 2);
    world_end(&w);
}
END_TEST

START_TEST(spool_on_a_full_disk_keeps_what_it_has_and_goes_on_when_there_is_room)
{
    world w;
    tf_lossy_counts counts;
    unsigned next = 1;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    tf_lossy_files_get_counts(w.lossy, &counts);
    tf_lossy_files_set_capacity(w.lossy, counts.bytes + 100000);
    tf_err err = TF_OK;
    while (err == TF_OK && next < 1000) {
        ck_assert_int_eq(put(&w, next++, 20000, true), TF_OK);
        err = tf_spool_sync(w.spool);
    }
    ck_assert_int_eq(err, TF_ERR_FULL);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_ERR_FULL);
    tf_lossy_files_set_capacity(w.lossy, UINT64_MAX);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    check_holds(&w, 1, next - 1);
    reopen(&w);
    check_holds(&w, 1, next - 1);
    world_end(&w);
}
END_TEST

START_TEST(spool_damaged_message_is_counted_and_the_others_are_there)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned i = 1; i <= 5; i++) { /* each in a group of its own */
        ck_assert_int_eq(put(&w, i, 2000, true), TF_OK);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    }
    world_close(&w);
    ck_assert(tf_lossy_files_flip(w.lossy, "log/0000000000000001.log", 4096 + 2560 * 2 + 1000, 0x10));
    ck_assert_int_eq(world_open(&w), TF_OK);
    ck_assert_uint_eq(stats_of(&w).damaged, 1);
    ck_assert_uint_eq(take_all(&w, numbers, handles), 4);
    for (size_t i = 0; i < 4; i++) {
        static const unsigned rest[] = {1, 2, 4, 5};
        ck_assert_uint_eq(numbers[i], rest[i]);
        tf_spool_done(w.spool, handles[i]);
    }
    ck_assert_int_eq(tf_spool_note(w.spool, true), TF_OK);
    reopen(&w);
    ck_assert_uint_eq(stats_of(&w).damaged, 0); /* told once */
    ck_assert_uint_eq(stats_of(&w).waiting, 0);
    world_end(&w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        spool_hands_out_what_is_durable_in_order,
        spool_group_of_messages_costs_one_sync,
        spool_gives_the_next_process_what_was_not_answered,
        spool_that_is_done_is_empty_for_the_next_process,
        spool_knows_what_may_have_been_sent_and_since_when,
        spool_of_another_channel_relay_or_process_is_refused,
        spool_whose_owner_cannot_be_told_is_refused,
        spool_with_one_damaged_note_goes_on_with_the_other,
        spool_note_that_cannot_be_is_none,
        spool_that_is_full_goes_on_when_something_is_answered,
        spool_takes_the_largest_message_within_the_least_bound,
        spool_on_a_full_disk_keeps_what_it_has_and_goes_on_when_there_is_room,
        spool_damaged_message_is_counted_and_the_others_are_there,
        NULL,
    };
    return tf_test_run("node/spool", tests);
}
