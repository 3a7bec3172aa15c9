/* node/store/commit_log: what was acked is replayed, exactly and in order, whatever happened to the disk. */
#include "node/store/log_segment.h"
#include "tests/unit/log_world.h"

/* Appends, releases and recycles over more than three segments, sometimes with what was prepared long before; ends at the
 * first error. */
static tf_err history(log_world *w)
{
    static const struct {
        uint32_t count;
        size_t size;
    } groups[] = {{1, 128},     {32, 200}, {3, 60000}, {1, 0},    {2, 90000}, {5, 30000}, {1, 128},
                  {40, 100},    {4, 50000}, {1, 400000}, {2, 300}, {3, 70000}, {2, 100000}, {1, 10}};
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        tf_err err = i % 5 < 3 ? world_prepare(w) : TF_OK;
        if (err == TF_OK) {
            err = world_append(w, groups[i].count, groups[i].size, false);
        }
        if (err != TF_OK) {
            return err;
        }
        if (i % 4 == 3) {
            world_release(w, w->acked - groups[i].count);
        }
    }
    return TF_OK;
}

START_TEST(commit_log_appends_are_replayed_after_a_restart)
{
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    log_world w;
    tf_commit_log_stats stats;
    world_init(&w, tf_lossy_files_get(lossy));
    for (int round = 0; round < 4; round++) {
        world_recover(&w);
        ck_assert_int_eq(history(&w), TF_OK);
        tf_commit_log_get_stats(w.log, &stats);
        ck_assert_uint_eq(stats.durable_lsn, w.acked);
        ck_assert_uint_eq(stats.groups, stats.syncs);
        ck_assert_uint_eq(stats.released_lsn, w.applied);
        world_close(&w);
        tf_lossy_files_crash(lossy, (uint64_t)round);
    }
    ck_assert_uint_gt(w.acked, 300);
    tf_lossy_files_free(lossy);
}
END_TEST

START_TEST(commit_log_recycled_segments_keep_what_is_written_to_them)
{
    for (uint64_t seed = 0; seed < 8; seed++) {
        static log_world w;
        tf_lossy_files *lossy = world_begin(&w);
        for (uint64_t i = 0; i < 12 + seed; i++) {
            ck_assert_int_eq(world_append(&w, 1, 90000, false), TF_OK);
            world_release(&w, w.acked - 1);
            ck_assert_int_eq(world_prepare(&w), TF_OK);
        }
        world_end(&w, lossy, seed);
    }
}
END_TEST

typedef enum ending {
    CRASH,
    KILL,
    KILL_THEN_CRASH
} ending;

static void restart(log_world *w, tf_lossy_files *lossy, ending how, uint64_t seed)
{
    if (how == CRASH) {
        world_crash(w, lossy, seed);
        return;
    }
    world_close(w);
    tf_lossy_files_kill(lossy);
    world_recover(w);
}

/* One history that the n-th operation ends, a second one that ends by itself. False: the n-th operation was not reached. */
static bool end_at(uint64_t n, ending how, uint64_t seed)
{
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    static log_world w;
    tf_log_item item;
    world_init(&w, tf_lossy_files_get(lossy));
    tf_lossy_files_stop_at(lossy, n);
    tf_err err = world_open(&w);
    if (err == TF_OK) {
        ck_assert_int_eq(tf_commit_log_next(w.log, &item), TF_ERR_CLOSED);
        err = history(&w);
    }
    bool reached = tf_lossy_files_is_off(lossy);
    ck_assert_int_eq(err == TF_OK, !reached);
    restart(&w, lossy, how, seed);
    if (how == KILL_THEN_CRASH) {
        world_crash(&w, lossy, seed); /* what was replayed once is there for good */
    }
    ck_assert_int_eq(world_append(&w, 3, 100, false), TF_OK);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_OK);
    world_end(&w, lossy, seed + 1);
    return reached;
}

static void end_at_every_operation(ending how, uint64_t seeds)
{
    for (uint64_t seed = 0; seed < seeds; seed++) {
        uint64_t n = 0;
        while (end_at(n, how, seed * 1000 + n)) {
            n++;
        }
        ck_assert_uint_gt(n, 60);
    }
}

START_TEST(commit_log_crash_at_every_operation_loses_nothing_that_was_acked)
{
    end_at_every_operation(CRASH, 2);
}
END_TEST

START_TEST(commit_log_kill_at_every_operation_loses_nothing_that_was_acked)
{
    end_at_every_operation(KILL, 1);
}
END_TEST

START_TEST(commit_log_crash_after_a_kill_loses_nothing_that_was_replayed)
{
    end_at_every_operation(KILL_THEN_CRASH, 1);
}
END_TEST

/* -- faults -------------------------------------------------------------------------------------------------------- */

/* Tries again what failed without a trace, and what is pending. */
static void stubborn_append(log_world *w, uint32_t count, size_t size)
{
    tf_err err = TF_ERR_IO;
    for (int tries = 0; err != TF_OK && tries < 4; tries++) {
        tf_log_range lost = {1, 1};
        if (tf_commit_log_is_pending(w->log)) {
            err = world_retry(w, &lost);
            ck_assert(err != TF_OK || lost.first == 0);
        } else {
            (void)world_prepare(w);
            err = world_append(w, count, size, false);
        }
    }
    ck_assert_int_eq(err, TF_OK);
}

static void stubborn_history(log_world *w)
{
    for (uint32_t i = 0; i < 12; i++) {
        stubborn_append(w, i % 3 + 1, i % 2 == 0 ? 130 : 45000);
        if (i == 6) {
            world_release(w, w->acked - 1);
        }
    }
}

typedef enum trouble {
    FAILED_SYNC,
    FAILED_OPERATION,
    FULL_ONCE
} trouble;

static void arm(tf_lossy_files *lossy, trouble what, uint64_t n)
{
    switch (what) {
    case FAILED_SYNC:
        tf_lossy_files_fail_sync_at(lossy, n);
        return;
    case FAILED_OPERATION:
        tf_lossy_files_fail_at(lossy, n, TF_LOSSY_ERROR, false);
        return;
    case FULL_ONCE:
        tf_lossy_files_fail_at(lossy, n, TF_LOSSY_FULL, false);
        return;
    }
}

/* False: the n-th operation was not reached. */
static bool fail_at(trouble what, uint64_t n)
{
    static log_world w;
    tf_lossy_counts counts;
    tf_lossy_files *lossy = world_begin(&w);
    arm(lossy, what, n);
    stubborn_history(&w);
    tf_lossy_files_get_counts(lossy, &counts);
    world_crash(&w, lossy, n);
    stubborn_append(&w, 2, 100);
    world_end(&w, lossy, n + 1);
    return counts.faults > 0;
}

START_TEST(commit_log_one_failure_at_any_operation_is_overcome)
{
    static const trouble all[] = {FAILED_SYNC, FAILED_OPERATION, FULL_ONCE};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        uint64_t n = 0;
        while (fail_at(all[i], n)) {
            n++;
        }
        ck_assert_uint_gt(n, 10);
    }
}
END_TEST

/* A sync fails, and the power goes off at the n-th operation after it. */
static bool crash_after_failed_sync(uint64_t n, uint64_t seed)
{
    static log_world w;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    tf_lossy_files_seed(lossy, seed);
    world_init(&w, tf_lossy_files_get(lossy));
    world_recover(&w);
    for (int i = 0; i < 3; i++) {
        stubborn_append(&w, 2, 70000);
    }
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    tf_lossy_files_fail_sync_at(lossy, 0);
    ck_assert_int_eq(world_append(&w, 40, 50, false), TF_ERR_IO); /* some of them in each block */
    ck_assert(tf_commit_log_is_pending(w.log));
    tf_lossy_files_stop_at(lossy, n);
    tf_err err = world_retry(&w, NULL);
    for (int i = 0; err == TF_OK && i < 3; i++) {
        err = world_append(&w, 1, 500, false);
    }
    bool reached = tf_lossy_files_is_off(lossy);
    restart(&w, lossy, seed % 2 == 0 ? CRASH : KILL_THEN_CRASH, seed);
    stubborn_append(&w, 2, 900); /* in place of what was not acked, if anything */
    world_end(&w, lossy, seed + 1);
    return reached;
}

START_TEST(commit_log_crash_at_every_operation_after_a_failed_sync_loses_nothing)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        uint64_t n = 0;
        while (crash_after_failed_sync(n, seed * 100 + n)) {
            n++;
        }
        ck_assert_uint_gt(n, 8);
    }
}
END_TEST

/* Retries fail, too, and the process is killed: what was removed or is in the cache alone must not be seen later, when
 * the same LSNs have something else. */
START_TEST(commit_log_removed_retries_do_not_come_back_under_given_lsns)
{
    for (uint64_t seed = 0; seed < 60; seed++) {
        static log_world w;
        tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
        tf_lossy_files_seed(lossy, seed);
        world_init(&w, tf_lossy_files_get(lossy));
        w.ahead = 2;
        world_recover(&w);
        stubborn_append(&w, 2, 700);
        ck_assert_int_eq(world_prepare(&w), TF_OK);
        tf_lossy_files_fail_sync_at(lossy, 0);
        ck_assert_int_eq(world_append(&w, 2, (size_t)seed, false), TF_ERR_IO);
        for (int i = 0; i < 2; i++) { /* the second takes the last of three */
            tf_lossy_files_fail_sync_at(lossy, 0);
            ck_assert_int_eq(world_retry(&w, NULL), TF_ERR_IO);
        }
        restart(&w, lossy, KILL, 0);
        ck_assert_int_eq(world_append(&w, 1, 900, true), TF_OK); /* into what is ready */
        world_end(&w, lossy, seed);
    }
}
END_TEST

/* A sync fails, and so does all from operation `fault` of the retry on, which may leave half a group that hides a whole
 * one; then the power goes off at the n-th operation of the next life. */
static bool crash_after_failed_retry(uint64_t fault, uint64_t n, uint64_t seed)
{
    static log_world w;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    tf_lossy_files_seed(lossy, seed);
    world_init(&w, tf_lossy_files_get(lossy));
    world_recover(&w);
    stubborn_append(&w, 2, 700);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    tf_lossy_files_fail_sync_at(lossy, 0);
    ck_assert_int_eq(world_append(&w, 40, 50, false), TF_ERR_IO);
    tf_lossy_files_fail_at(lossy, fault, TF_LOSSY_ERROR, true);
    tf_err err = world_retry(&w, NULL);
    restart(&w, lossy, KILL, 0);
    tf_lossy_files_stop_at(lossy, n);
    err = world_append(&w, 1, 900, true);
    bool reached = tf_lossy_files_is_off(lossy);
    ck_assert(reached || err == TF_OK);
    world_end(&w, lossy, seed + 1);
    return reached;
}

START_TEST(commit_log_what_was_left_out_does_not_come_back_while_it_is_overwritten)
{
    for (uint64_t fault = 0; fault < 6; fault++) {
        for (uint64_t seed = 0; seed < 12; seed++) {
            uint64_t n = 0;
            while (crash_after_failed_retry(fault, n, seed)) {
                n++;
            }
            ck_assert_uint_gt(n, 2);
        }
    }
}
END_TEST

/* A group fails as the first of a segment and is written again into one with a lower number: what is left of the first
 * attempt, torn or whole, hides nothing. */
START_TEST(commit_log_retry_counts_whatever_number_its_segment_has)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        static log_world w;
        tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
        tf_lossy_files_seed(lossy, seed);
        world_init(&w, tf_lossy_files_get(lossy));
        w.ahead = 3;
        world_recover(&w);
        stubborn_append(&w, 2, 110000);
        tf_lossy_files_fail_sync_at(lossy, 0);
        ck_assert_int_eq(world_append(&w, 20, 5000, false), TF_ERR_IO); /* does not fit beside it */
        ck_assert_int_eq(world_retry(&w, NULL), TF_OK);
        for (uint64_t i = 0; i < seed % 3; i++) {
            ck_assert_int_eq(world_append(&w, 1, 500, false), TF_OK);
        }
        restart(&w, lossy, seed % 2 == 0 ? KILL : CRASH, seed);
        stubborn_append(&w, 1, 300);
        world_end(&w, lossy, seed);
    }
}
END_TEST

START_TEST(commit_log_retry_names_what_was_acked_and_cannot_be_read_back)
{
    log_world w;
    tf_log_range lost = {0, 0};
    tf_commit_log_stats stats;
    tf_lossy_files *lossy = world_begin(&w);
    stubborn_append(&w, 2, 100);
    stubborn_append(&w, 3, 5000);
    stubborn_append(&w, 2, 100); /* 6 and 7 */
    world_release(&w, 1);
    tf_lossy_files_fail_sync_at(lossy, 0);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_ERR_IO);
    ck_assert_int_eq(tf_commit_log_errno(w.log), EIO);
    /* In the second group: behind the 512 bytes of the first one, in the body of 4. */
    ck_assert(tf_lossy_files_rot(lossy, "log/0000000000000001.log", TF_LOG_SEGMENT_HEADER + 512 + 700, 1));
    ck_assert_int_eq(world_retry(&w, &lost), TF_OK);
    ck_assert_uint_eq(lost.first, 4);
    ck_assert_uint_eq(lost.last, 7);
    tf_commit_log_get_stats(w.log, &stats);
    ck_assert_uint_eq(stats.given_up, 1);
    ck_assert_uint_eq(stats.durable_lsn, 8);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    world_release(&w, 8);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    tf_commit_log_get_stats(w.log, &stats);
    ck_assert_uint_eq(stats.free, 0); /* it was not kept to be used again */
    ck_assert_uint_eq(stats.bytes, 3 * (uint64_t)WORLD_SEGMENT);
    world_close(&w);
    tf_lossy_files_free(lossy);
}
END_TEST

START_TEST(commit_log_retries_that_fail_leave_no_files)
{
    log_world w;
    tf_lossy_counts before;
    tf_lossy_counts after;
    tf_commit_log_stats stats;
    tf_lossy_files *lossy = world_begin(&w);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    stubborn_append(&w, 2, 100);
    tf_lossy_files_fail_sync_at(lossy, 0);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_ERR_IO);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    tf_lossy_files_get_counts(lossy, &before);
    for (int i = 0; i < 20; i++) {
        tf_lossy_files_fail_sync_at(lossy, 0);
        ck_assert_int_eq(world_retry(&w, NULL), TF_ERR_IO);
        ck_assert(tf_commit_log_is_pending(w.log));
        tf_commit_log_get_stats(w.log, &stats);
        ck_assert_uint_eq(stats.free, 0);
        ck_assert_int_eq(world_prepare(&w), TF_OK);
    }
    tf_lossy_files_get_counts(lossy, &after);
    ck_assert_uint_eq(after.bytes, before.bytes);
    ck_assert_int_eq(world_retry(&w, NULL), TF_OK);
    world_end(&w, lossy, 5);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {commit_log_appends_are_replayed_after_a_restart,
                                  commit_log_recycled_segments_keep_what_is_written_to_them,
                                  commit_log_crash_at_every_operation_loses_nothing_that_was_acked,
                                  commit_log_kill_at_every_operation_loses_nothing_that_was_acked,
                                  commit_log_crash_after_a_kill_loses_nothing_that_was_replayed,
                                  commit_log_one_failure_at_any_operation_is_overcome,
                                  commit_log_crash_at_every_operation_after_a_failed_sync_loses_nothing,
                                  commit_log_removed_retries_do_not_come_back_under_given_lsns,
                                  commit_log_what_was_left_out_does_not_come_back_while_it_is_overwritten,
                                  commit_log_retry_counts_whatever_number_its_segment_has,
                                  commit_log_retry_names_what_was_acked_and_cannot_be_read_back,
                                  commit_log_retries_that_fail_leave_no_files,
                                  NULL};
    return tf_test_run_waiting("node/store/commit_log", tests);
}
