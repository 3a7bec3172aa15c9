/* A commit log on a disk that can fail, with a model of what it must hold: for the tests of node/store/commit_log. */
#ifndef TF_TESTS_UNIT_LOG_WORLD_H
#define TF_TESTS_UNIT_LOG_WORLD_H

#include <errno.h>

#include "node/store/commit_log.h"
#include "tests/support/check_main.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define WORLD_LSNS 4096u
#define WORLD_SEGMENT (256u << 10)
#define WORLD_SPARE 2u
#define WORLD_BUFFER (6u << 20)

typedef struct log_world {
    tf_files files;
    tf_commit_log *log;
    uint64_t applied; /* up to here the index has it */
    uint64_t acked;
    uint32_t salts[WORLD_LSNS]; /* [lsn]: which content it has */
    uint64_t maybe;             /* the last LSN of a group whose outcome is unknown; 0: there is none */
    uint32_t salt;              /* of what is appended now */
    uint64_t segments_max;
    uint64_t ahead;
} log_world;

static uint8_t world_buffer[WORLD_BUFFER];

static inline void world_init(log_world *w, tf_files files)
{
    *w = (log_world){.files = files, .salt = 1};
}

/* What is stored under an LSN, all kinds in turn; `size` is of the bodies. */
static inline void world_op(uint64_t lsn, uint32_t salt, size_t size, tf_store_op *op)
{
    static uint8_t body[TF_BODY_MAX];
    tf_test_random random;
    tf_test_random_init(&random, lsn * 1000 + salt);
    *op = (tf_store_op){.channel = lsn % 7 + 1, .epoch = tf_test_random_u64(&random)};
    switch (lsn % 8) {
    case 0:
        op->kind = TF_STORE_CREATE;
        op->name = tf_slice_str("room/one");
        return;
    case 3:
        op->kind = TF_STORE_TRIM;
        op->epoch = 0;
        op->seq = lsn;
        return;
    case 5:
        op->kind = TF_STORE_CURSOR;
        op->cursor = (tf_store_cursor){.channel = op->channel,
                                       .name = tf_slice_str("reader"),
                                       .epoch = op->epoch,
                                       .next = lsn,
                                       .moved_ms = salt};
        op->epoch = 0;
        return;
    default:
        break;
    }
    memset(body, (int)(tf_test_random_u64(&random) & 0xff), size);
    op->kind = TF_STORE_APPEND;
    op->message = (tf_stored){.seq = lsn,
                              .epoch = op->epoch,
                              .timestamp_ms = 1700000000000 + (int64_t)lsn,
                              .instance = salt,
                              .client_id = tf_slice_str("client:1"),
                              .body = tf_slice_of(body, size)};
    op->epoch = 0;
}

/* Sizes differ, so that groups do not end at the same places. */
static inline size_t world_size(uint64_t lsn, uint32_t salt, size_t size)
{
    return size + (lsn * 37 + salt * 11) % 100;
}

/* The body size of what was appended, by LSN, so that it can be made again. */
static uint32_t world_sizes[WORLD_LSNS];

static inline size_t world_encode(const log_world *w, uint8_t *out, size_t cap, uint64_t lsn, uint32_t salt)
{
    tf_store_op op;
    world_op(lsn, salt, world_size(lsn, salt, world_sizes[lsn]), &op);
    return tf_record_write(out, cap, tf_commit_log_key(w->log), lsn, &op);
}

static inline tf_commit_group world_group(const log_world *w, uint32_t count, size_t size, bool frees_room)
{
    uint64_t lsn = tf_commit_log_next_lsn(w->log);
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        ck_assert_uint_lt(lsn + i, WORLD_LSNS);
        world_sizes[lsn + i] = (uint32_t)size;
        at += world_encode(w, world_buffer + at, sizeof(world_buffer) - at, lsn + i, w->salt);
    }
    return (tf_commit_group){.records = tf_slice_of(world_buffer, at), .count = count, .frees_room = frees_room};
}

static inline void world_acked(log_world *w, uint64_t last)
{
    for (uint64_t lsn = w->acked + 1; lsn <= last; lsn++) {
        w->salts[lsn] = w->salt;
    }
    w->acked = last;
    w->maybe = 0;
}

static inline tf_err world_append(log_world *w, uint32_t count, size_t size, bool frees_room)
{
    const tf_commit_group group = world_group(w, count, size, frees_room);
    uint64_t last = tf_commit_log_next_lsn(w->log) + count - 1;
    tf_err err = tf_commit_log_append(w->log, &group);
    if (err == TF_OK) {
        world_acked(w, last);
        ck_assert_uint_eq(tf_commit_log_next_lsn(w->log), last + 1);
    } else if (tf_commit_log_is_pending(w->log)) {
        ck_assert_int_eq(err, TF_ERR_IO);
        w->maybe = last;
        for (uint64_t lsn = w->acked + 1; lsn <= last; lsn++) {
            w->salts[lsn] = w->salt;
        }
    } else {
        ck_assert_uint_eq(tf_commit_log_next_lsn(w->log), w->acked + 1);
    }
    return err;
}

static inline tf_err world_retry(log_world *w, tf_log_range *lost)
{
    tf_err err = tf_commit_log_retry(w->log, lost);
    if (err == TF_OK) {
        world_acked(w, w->maybe);
    }
    return err;
}

static inline void world_release(log_world *w, uint64_t lsn)
{
    w->applied = lsn > w->applied ? lsn : w->applied;
    tf_commit_log_release(w->log, lsn);
}

/* Until there is nothing to do, or an error. */
static inline tf_err world_prepare(log_world *w)
{
    tf_err err = TF_OK;
    while (err == TF_OK && tf_commit_log_wants_prepare(w->log)) {
        err = tf_commit_log_prepare(w->log);
    }
    return err;
}

static inline tf_err world_open(log_world *w)
{
    const tf_commit_log_config config = {.files = w->files,
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(w->salt), /* a new log has another key */
                                         .segment_size = WORLD_SEGMENT,
                                         .segments_max = w->segments_max,
                                         .ahead = w->ahead,
                                         .spare = WORLD_SPARE};
    char why[TF_WHY_MAX] = "";
    return tf_commit_log_open(&w->log, &config, w->applied, why);
}

static inline void world_close(log_world *w)
{
    tf_commit_log_close(w->log);
    w->log = NULL;
}

/* Is it what was stored under its LSN? */
static inline void world_check_record(const log_world *w, const tf_log_item *item)
{
    static uint8_t expected[TF_RECORD_MAX];
    uint64_t lsn = item->record.lsn;
    ck_assert_uint_ge(lsn, 1);
    ck_assert_uint_lt(lsn, WORLD_LSNS);
    size_t len = world_encode(w, expected, sizeof(expected), lsn, w->salts[lsn]);
    ck_assert_uint_eq(item->bytes.len, len);
    ck_assert_uint_eq(item->record.size, len);
    ck_assert(memcmp(item->bytes.data, expected, len) == 0);
}

/* Opens, and replays: everything acked is there, in order, once; a group of unknown outcome is there or not; nothing is
 * damaged. */
static inline void world_recover(log_world *w)
{
    uint64_t expected = w->applied + 1;
    tf_log_item item;
    ck_assert_int_eq(world_open(w), TF_OK);
    tf_err err = tf_commit_log_next(w->log, &item);
    for (; err == TF_OK; err = tf_commit_log_next(w->log, &item)) {
        ck_assert_int_eq(item.type, TF_LOG_RECORD);
        ck_assert_uint_eq(item.record.lsn, expected);
        ck_assert_uint_le(expected, w->maybe > w->acked ? w->maybe : w->acked);
        world_check_record(w, &item);
        expected++;
    }
    ck_assert_int_eq(err, TF_ERR_CLOSED);
    ck_assert(expected == w->acked + 1 || expected == w->maybe + 1);
    ck_assert_uint_eq(tf_commit_log_next_lsn(w->log), expected);
    ck_assert_uint_eq(tf_commit_log_report(w->log)->range_count, 0);
    ck_assert_uint_eq(tf_commit_log_report(w->log)->unreadable, 0);
    w->acked = expected - 1;
    w->maybe = 0;
    w->salt++;
}

/* A new log on a disk of its own. */
static inline tf_lossy_files *world_begin(log_world *w)
{
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    world_init(w, tf_lossy_files_get(lossy));
    world_recover(w);
    return lossy;
}

/* The power goes off and comes back. */
static inline void world_crash(log_world *w, tf_lossy_files *lossy, uint64_t seed)
{
    world_close(w);
    tf_lossy_files_crash(lossy, seed);
    world_recover(w);
}

/* What was acked outlives a last crash. */
static inline void world_end(log_world *w, tf_lossy_files *lossy, uint64_t seed)
{
    world_crash(w, lossy, seed);
    world_close(w);
    tf_lossy_files_free(lossy);
}

#endif
