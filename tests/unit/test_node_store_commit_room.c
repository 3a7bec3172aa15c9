/* node/store/commit_log and log_room: bounds, the reserve, full disks, large groups, recycling; and calls of several
 * threads at once, on real files. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/store/log_file.h"
#include "tests/unit/log_world.h"

static void open_world(log_world *w, tf_lossy_files *lossy, uint64_t segments_max)
{
    world_init(w, tf_lossy_files_get(lossy));
    w->segments_max = segments_max;
    world_recover(w);
}

START_TEST(commit_log_bound_is_kept_and_what_frees_room_passes)
{
    log_world w;
    tf_commit_log_stats stats;
    tf_err err = TF_OK;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    open_world(&w, lossy, 16);
    for (int i = 0; i < 100 && err == TF_OK; i++) {
        err = world_append(&w, 1, 100000, false);
    }
    ck_assert_int_eq(err, TF_ERR_AGAIN);
    ck_assert(!tf_commit_log_is_pending(w.log));
    tf_commit_log_get_stats(w.log, &stats);
    ck_assert_uint_le(stats.bytes, stats.bytes_max);
    ck_assert_uint_ge(stats.ready, 1); /* the reserve */
    ck_assert_uint_ge(w.acked, 28);
    for (int i = 0; i < 400; i++) { /* more than fits what was left of the last one */
        ck_assert_int_eq(world_append(&w, 1, 0, true), TF_OK);
    }
    ck_assert_int_eq(world_append(&w, 1, 10, false), TF_ERR_AGAIN);
    ck_assert_int_eq(tf_commit_log_prepare(w.log), TF_ERR_AGAIN);
    world_release(&w, w.acked);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    ck_assert_int_eq(world_append(&w, 1, 100000, false), TF_OK);
    tf_commit_log_get_stats(w.log, &stats);
    ck_assert_uint_le(stats.free, WORLD_SPARE); /* the rest was removed */
    ck_assert_uint_le(stats.bytes, (WORLD_SPARE + 4) * (uint64_t)WORLD_SEGMENT);
    world_end(&w, lossy, 3);
}
END_TEST

START_TEST(commit_log_reserve_is_not_taken_by_what_needs_room_nor_used_after_it_was_taken)
{
    log_world w;
    tf_err err = TF_OK;
    tf_lossy_files *lossy = tf_lossy_files_new(4 * (uint64_t)WORLD_SEGMENT + 5000);
    open_world(&w, lossy, 64);
    for (int i = 0; i < 100 && err == TF_OK; i++) {
        err = world_append(&w, 1, 80000, false);
    }
    ck_assert_int_eq(err, TF_ERR_FULL);
    ck_assert_int_eq(tf_commit_log_errno(w.log), ENOSPC);
    ck_assert_int_eq(world_append(&w, 1, 80000, true), TF_OK); /* it takes the reserve */
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_ERR_FULL); /* although there would be room in that segment */
    ck_assert_int_eq(world_append(&w, 1, 100, true), TF_OK);
    world_release(&w, w.acked); /* the index has it all, and needs no room for it */
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_OK);
    world_end(&w, lossy, 3);
}
END_TEST

START_TEST(commit_log_full_disk_refuses_and_goes_on_by_itself)
{
    log_world w;
    tf_err err = TF_OK;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    open_world(&w, lossy, 64);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    tf_lossy_files_set_capacity(lossy, 0);
    for (int i = 0; i < 100 && err == TF_OK; i++) {
        err = world_append(&w, 1, 100000, false);
    }
    ck_assert_int_eq(err, TF_ERR_FULL);
    ck_assert_int_eq(world_prepare(&w), TF_ERR_FULL);
    ck_assert_int_eq(world_append(&w, 1, 50, true), TF_OK);
    tf_lossy_files_set_capacity(lossy, UINT64_MAX);
    ck_assert_int_eq(world_append(&w, 1, 100000, false), TF_OK);
    world_end(&w, lossy, 3);
}
END_TEST

START_TEST(commit_log_leaves_the_disk_what_it_is_told_to)
{
    log_world w;
    tf_log_item item;
    tf_lossy_files *lossy = tf_lossy_files_new(6 * (uint64_t)WORLD_SEGMENT);
    world_init(&w, tf_lossy_files_get(lossy));
    const tf_commit_log_config config = {.files = w.files,
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(1),
                                         .segment_size = WORLD_SEGMENT,
                                         .keep_free = 3 * (uint64_t)WORLD_SEGMENT};
    ck_assert_int_eq(tf_commit_log_open(&w.log, &config, 0, NULL), TF_OK);
    ck_assert_int_eq(tf_commit_log_next(w.log, &item), TF_ERR_CLOSED);
    tf_err err = TF_OK;
    for (int i = 0; i < 100 && err == TF_OK; i++) {
        err = world_append(&w, 1, 100000, false);
    }
    ck_assert_int_eq(err, TF_ERR_FULL);
    tf_lossy_counts counts;
    tf_lossy_files_get_counts(lossy, &counts);
    ck_assert_uint_eq(counts.bytes, 3 * (uint64_t)WORLD_SEGMENT);
    world_end(&w, lossy, 3);
}
END_TEST

START_TEST(commit_log_read_only_disk_is_read_and_refuses)
{
    log_world w;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    open_world(&w, lossy, 64);
    ck_assert_int_eq(world_append(&w, 3, 1000, false), TF_OK);
    world_close(&w);
    tf_lossy_files_settle(lossy);
    tf_lossy_files_fail_at(lossy, 0, TF_LOSSY_READ_ONLY, true);
    world_recover(&w);
    ck_assert_int_ne(world_prepare(&w), TF_OK);
    tf_err err = world_append(&w, 1, 10, false);
    ck_assert_int_eq(err, TF_ERR_IO);
    tf_lossy_files_fail_at(lossy, UINT64_MAX, TF_LOSSY_READ_ONLY, false);
    err = tf_commit_log_is_pending(w.log) ? world_retry(&w, NULL) : world_append(&w, 1, 10, false);
    ck_assert_int_eq(err, TF_OK);
    world_end(&w, lossy, 3);
}
END_TEST

START_TEST(commit_log_large_group_gets_a_segment_of_its_own)
{
    log_world w;
    tf_commit_log_stats before;
    tf_commit_log_stats stats;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    open_world(&w, lossy, TF_LOG_SEGMENTS_MIN); /* as few as can be */
    ck_assert_uint_gt(tf_commit_log_group_max(w.log), TF_RECORD_MAX);
    ck_assert_uint_lt(tf_commit_log_group_usual(w.log), WORLD_SEGMENT);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_OK);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    tf_commit_log_get_stats(w.log, &before);
    ck_assert_int_eq(world_append(&w, 1, TF_BODY_MAX - 200, false), TF_OK);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_OK);
    const tf_commit_group group = world_group(&w, 4, TF_BODY_MAX - 200, false);
    ck_assert_int_eq(tf_commit_log_append(w.log, &group), TF_ERR_LIMIT_BYTES);
    world_crash(&w, lossy, 3);
    world_release(&w, w.acked);
    ck_assert_int_eq(world_prepare(&w), TF_OK);
    ck_assert_int_eq(world_append(&w, 1, 100, false), TF_OK);
    tf_commit_log_get_stats(w.log, &stats);
    ck_assert_uint_le(stats.bytes, before.bytes + 2 * (uint64_t)WORLD_SEGMENT); /* the large one is gone */
    world_end(&w, lossy, 3);
}
END_TEST

START_TEST(commit_log_config_out_of_bounds_is_refused_with_the_reason)
{
    static const struct {
        tf_commit_log_config config;
        const char *why;
    } rows[] = {
        {{.segment_size = TF_LOG_SEGMENT_SIZE_MIN - 4096}, "segment of 258048 bytes"},
        {{.segment_size = TF_LOG_SEGMENT_SIZE_MAX + 4096}, "262144 to 67108864"},
        {{.segment_size = TF_LOG_SEGMENT_SIZE_MIN + 1}, "multiple of 4096"},
        {{.segments_max = 3}, "3 segments"},
        {{.segments_max = 8, .reserve = 5}, "5 of them in reserve"},
        {{.segments_max = 8, .ahead = 5}, "5 prepared ahead"},
    };
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_commit_log *log = NULL;
        char why[TF_WHY_MAX] = "";
        tf_commit_log_config config = rows[i].config;
        config.files = tf_lossy_files_get(lossy);
        config.mem = tf_test_mem();
        config.rand = tf_test_rand(1);
        ck_assert_int_eq(tf_commit_log_open(&log, &config, 0, why), TF_ERR_USAGE);
        ck_assert_msg(strstr(why, rows[i].why) != NULL, "%s", why);
    }
    tf_lossy_files_free(lossy);
}
END_TEST

/* Everything once more, with less and less that cannot be had. */
START_TEST(commit_log_without_memory_fails_cleanly)
{
    tf_test_heap *heap = tf_test_heap_shared();
    for (uint64_t k = 0; k < 1000; k++) {
        static log_world w;
        tf_log_item item;
        tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
        open_world(&w, lossy, 64);
        ck_assert_int_eq(world_append(&w, 2, 70000, false), TF_OK);
        ck_assert_int_eq(world_append(&w, 2, 70000, false), TF_OK);
        world_close(&w);
        size_t before = heap->live_blocks;
        uint64_t failures = heap->failures;
        tf_test_heap_fail_at(heap, k, false);
        tf_err err = world_open(&w);
        for (int tries = 0; err == TF_ERR_NOMEM && tries < 2; tries++) {
            err = world_open(&w);
        }
        ck_assert_int_eq(err, TF_OK);
        uint64_t last = 0;
        while (err == TF_OK || err == TF_ERR_NOMEM) {
            err = tf_commit_log_next(w.log, &item);
            last = err == TF_OK ? item.record.lsn : last;
        }
        ck_assert_int_eq(err, TF_ERR_CLOSED);
        ck_assert_uint_eq(last, 4);
        w.salt++;
        for (int i = 0; i < 6; i++) {
            err = world_append(&w, 1, 70000, false);
            ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
            (void)world_prepare(&w);
        }
        world_close(&w);
        tf_test_heap_fail_never(heap);
        world_recover(&w);
        world_close(&w);
        ck_assert_uint_eq(heap->live_blocks, before);
        tf_lossy_files_free(lossy);
        if (heap->failures == failures) {
            ck_assert_uint_gt(k, 5);
            return;
        }
    }
    ck_abort_msg("it never needs less");
}
END_TEST

/* -- threads -------------------------------------------------------------------------------------------------------- */

#define THREAD_GROUPS 1500u

typedef struct crew {
    tf_commit_log *log;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t durable; /* as the writer learned it */
    bool ended;
} crew;

/* What applies to an index would do: releases what is durable, and makes room for more. */
static void *housekeeper(void *arg)
{
    crew *c = arg;
    bool ended = false;
    while (!ended) {
        tf_commit_log_stats stats;
        ck_assert_int_eq(pthread_mutex_lock(&c->lock), 0);
        uint64_t durable = c->durable;
        ended = c->ended;
        ck_assert_int_eq(pthread_mutex_unlock(&c->lock), 0);
        tf_commit_log_release(c->log, durable);
        tf_err err = TF_OK;
        while (err == TF_OK && tf_commit_log_wants_prepare(c->log)) {
            err = tf_commit_log_prepare(c->log);
        }
        tf_commit_log_get_stats(c->log, &stats);
        ck_assert_uint_ge(stats.durable_lsn, durable);
        ck_assert_uint_le(stats.durable_lsn, stats.last_lsn);
        ck_assert_uint_lt(stats.last_lsn, tf_commit_log_next_lsn(c->log) + 1);
    }
    return NULL;
}

static uint64_t append_small(tf_commit_log *log, uint64_t lsn)
{
    static uint8_t buffer[200000];
    const tf_store_op op = {.kind = TF_STORE_APPEND,
                            .channel = 1,
                            .message = {.seq = lsn,
                                        .client_id = tf_slice_str("x"),
                                        .body = tf_slice_of(buffer + 100000, 20000 + lsn % 1000)}};
    size_t size = tf_record_write(buffer, 100000, tf_commit_log_key(log), lsn, &op);
    const tf_commit_group group = {.records = tf_slice_of(buffer, size), .count = 1};
    tf_err err = TF_ERR_AGAIN;
    while (err == TF_ERR_AGAIN) { /* until the housekeeper has released something */
        err = tf_commit_log_append(log, &group);
    }
    ck_assert_int_eq(err, TF_OK);
    return lsn;
}

static void remove_log(const char *path)
{
    char name[200];
    tf_disk_files *disk = NULL;
    static tf_file_name names[256];
    size_t count = 0;
    ck_assert_int_eq(tf_disk_files_new(&disk, path, tf_edge_mem()), TF_OK);
    tf_files files = tf_disk_files_get(disk);
    ck_assert_int_eq(files.table->list(files.ctx, TF_LOG_FOLDER, names, 256, &count), TF_OK);
    for (size_t i = 0; i < count && i < 256; i++) {
        (void)snprintf(name, sizeof(name), TF_LOG_FOLDER "/%.127s", names[i].text);
        ck_assert_int_eq(files.table->remove(files.ctx, name), TF_OK);
    }
    tf_disk_files_free(disk);
    (void)snprintf(name, sizeof(name), "%s/" TF_LOG_FOLDER, path);
    ck_assert_int_eq(rmdir(name), 0);
    ck_assert_int_eq(rmdir(path), 0);
}

START_TEST(commit_log_writer_and_housekeeper_work_at_once)
{
    char path[] = "/tmp/tf-test-commit-XXXXXX";
    tf_disk_files *disk = NULL;
    tf_log_item item;
    pthread_t thread;
    crew c = {.lock = PTHREAD_MUTEX_INITIALIZER};
    ck_assert_ptr_nonnull(mkdtemp(path));
    ck_assert_int_eq(tf_disk_files_new(&disk, path, tf_edge_mem()), TF_OK);
    const tf_commit_log_config config = {.files = tf_disk_files_get(disk),
                                         .mem = tf_edge_mem(),
                                         .rand = tf_edge_rand(),
                                         .segment_size = WORLD_SEGMENT,
                                         .segments_max = 8};
    ck_assert_int_eq(tf_commit_log_open(&c.log, &config, 0, NULL), TF_OK);
    ck_assert_int_eq(tf_commit_log_next(c.log, &item), TF_ERR_CLOSED);
    ck_assert_int_eq(pthread_create(&thread, NULL, housekeeper, &c), 0);
    for (uint64_t lsn = 1; lsn <= THREAD_GROUPS; lsn++) {
        uint64_t durable = append_small(c.log, lsn);
        ck_assert_int_eq(pthread_mutex_lock(&c.lock), 0);
        c.durable = durable;
        c.ended = lsn == THREAD_GROUPS;
        ck_assert_int_eq(pthread_mutex_unlock(&c.lock), 0);
    }
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    tf_commit_log_stats stats;
    tf_commit_log_get_stats(c.log, &stats);
    ck_assert_uint_eq(stats.failures, 0);
    ck_assert_uint_le(stats.bytes, stats.bytes_max);
    ck_assert_uint_eq(stats.released_lsn, THREAD_GROUPS);
    tf_commit_log_close(c.log);
    ck_assert_int_eq(tf_commit_log_open(&c.log, &config, 0, NULL), TF_OK);
    uint64_t last = 0;
    while (tf_commit_log_next(c.log, &item) == TF_OK) {
        last = item.type == TF_LOG_RECORD ? item.record.lsn : last;
    }
    ck_assert_uint_eq(last, THREAD_GROUPS);
    tf_commit_log_close(c.log);
    tf_disk_files_free(disk);
    remove_log(path);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {commit_log_bound_is_kept_and_what_frees_room_passes,
                                  commit_log_reserve_is_not_taken_by_what_needs_room_nor_used_after_it_was_taken,
                                  commit_log_full_disk_refuses_and_goes_on_by_itself,
                                  commit_log_leaves_the_disk_what_it_is_told_to,
                                  commit_log_read_only_disk_is_read_and_refuses,
                                  commit_log_large_group_gets_a_segment_of_its_own,
                                  commit_log_config_out_of_bounds_is_refused_with_the_reason,
                                  commit_log_without_memory_fails_cleanly,
                                  commit_log_writer_and_housekeeper_work_at_once,
                                  NULL};
    return tf_test_run_waiting("node/store/commit_room", tests);
}
