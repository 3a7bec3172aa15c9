/* node/store/commit_log: what was acked is replayed, exactly and in order, whatever happened to the disk. */
#include "node/store/log_segment.h"
#include "tests/unit/log_world.h"

/* Appends, releases and recycles over more than three segments; ends at the first error. */
static tf_err history(log_world *w)
{
    static const struct {
        uint32_t count;
        size_t size;
    } groups[] = {{1, 128},     {32, 200}, {3, 60000}, {1, 0},    {2, 90000}, {5, 30000}, {1, 128},
                  {40, 100},    {4, 50000}, {1, 400000}, {2, 300}, {3, 70000}, {2, 100000}, {1, 10}};
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        tf_err err = world_prepare(w);
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

/* One history that the n-th operation ends, a crash, a second one that ends by itself, another crash. False: the n-th
 * operation was not reached. */
static bool crash_at(uint64_t n, uint64_t seed)
{
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    static log_world w;
    world_init(&w, tf_lossy_files_get(lossy));
    tf_lossy_files_stop_at(lossy, n);
    tf_log_item item;
    tf_err err = world_open(&w);
    if (err == TF_OK) {
        ck_assert_int_eq(tf_commit_log_next(w.log, &item), TF_ERR_CLOSED);
        err = history(&w);
    }
    bool reached = tf_lossy_files_is_off(lossy);
    ck_assert_int_eq(err == TF_OK, !reached);
    world_close(&w);
    tf_lossy_files_crash(lossy, seed);
    world_recover(&w);
    ck_assert_int_eq(world_append(&w, 3, 100, false), TF_OK);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_OK);
    world_close(&w);
    tf_lossy_files_crash(lossy, seed + 1);
    world_recover(&w);
    world_close(&w);
    tf_lossy_files_free(lossy);
    return reached;
}

START_TEST(commit_log_crash_at_every_operation_loses_nothing_that_was_acked)
{
    for (uint64_t seed = 0; seed < 3; seed++) {
        uint64_t n = 0;
        while (crash_at(n, seed * 1000 + n)) {
            n++;
        }
        ck_assert_uint_gt(n, 60);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {commit_log_appends_are_replayed_after_a_restart,
                                  commit_log_crash_at_every_operation_loses_nothing_that_was_acked, NULL};
    return tf_test_run_waiting("node/store/commit_log", tests);
}
