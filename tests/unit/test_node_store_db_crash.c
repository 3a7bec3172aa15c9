/* node/store/db on a disk that loses what was not synced: whatever operation the power goes off at, what is there is a
 * prefix of the batches, with every batch whose commit was told (P1); a full or failing disk loses nothing of it. */
#include "tests/support/files_vfs.h"
#include "tests/support/lossy_files.h"
#include "tests/unit/db_world.h"

#define BATCHES 8u
#define OPS_A_BATCH 8u /* LSNs a batch takes */
#define SMALL 300u
#define LARGE 9000u

static tf_lossy_files *lossy;
static tf_files_vfs *vfs;
static tf_db *db;
static uint64_t told; /* batches whose commit was told */
static uint64_t checkpoint_bytes;

static void disk_up(uint64_t capacity)
{
    lossy = tf_lossy_files_new(capacity);
    vfs = tf_files_vfs_new("lossy", tf_lossy_files_get(lossy));
    told = 0;
}

static void disk_down(void)
{
    tf_db_free(db);
    db = NULL;
    tf_files_vfs_free(vfs);
    tf_lossy_files_free(lossy);
}

static tf_err open_db(void)
{
    const tf_db_config config = {.path = "index.db", .vfs = "lossy", .checkpoint_bytes = checkpoint_bytes, .mem = tf_test_mem()};
    return tf_db_open(&db, &config, world_why);
}

/* -- the history: batch i of BATCHES, from 1 ----------------------------------------------------------------------- */

static uint64_t head_of(uint64_t channel, uint64_t batches)
{
    return channel == 1 ? batches * 3 : batches / 2;
}

static uint64_t floor_of(uint64_t batches)
{
    return batches < 4 ? 1 : batches / 4 * 4 * 3 - 5; /* set by every 4th batch */
}

static tf_err apply_one(uint64_t *lsn, tf_err err, const tf_store_op *op)
{
    return err == TF_OK ? tf_db_apply_op(db, ++*lsn, op) : err;
}

static tf_err apply_message(uint64_t *lsn, tf_err err, uint64_t channel, uint64_t seq, made *m)
{
    world_make(m, channel, seq, channel == 1 ? SMALL : LARGE);
    return apply_one(lsn, err, &(tf_store_op){.kind = TF_STORE_APPEND, .channel = channel, .message = m->stored});
}

static tf_err apply_ops(uint64_t i, made *messages)
{
    uint64_t lsn = (i - 1) * OPS_A_BATCH;
    tf_err err = TF_OK;
    for (uint64_t channel = 1; channel <= 2 && i == 1; channel++) {
        tf_slice name = tf_slice_str(channel == 1 ? "one" : "two");
        err = apply_one(&lsn, err, &(tf_store_op){.kind = TF_STORE_CREATE, .channel = channel, .name = name});
    }
    for (uint64_t k = 0; k < 3; k++) {
        err = apply_message(&lsn, err, 1, head_of(1, i - 1) + 1 + k, &messages[k]);
    }
    if (i % 2 == 0) {
        err = apply_message(&lsn, err, 2, head_of(2, i), &messages[3]);
    }
    if (i % 4 == 0) {
        err = apply_one(&lsn, err, &(tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = floor_of(i)});
        err = apply_one(&lsn, err,
                        &(tf_store_op){.kind = TF_STORE_FORGET, .channel = 2, .time_ms = WORLD_TIME + (int64_t)i / 8});
    }
    lsn = i * OPS_A_BATCH - 1;
    const tf_store_cursor c = {.channel = 1, .name = tf_slice_str("c"), .next = i, .moved_ms = 1};
    return apply_one(&lsn, err, &(tf_store_op){.kind = TF_STORE_CURSOR, .channel = 1, .cursor = c});
}

static tf_err apply_batch(uint64_t i)
{
    made messages[4];
    memset(messages, 0, sizeof(messages));
    tf_err err = tf_db_apply_begin(db);
    if (err == TF_OK) {
        err = apply_ops(i, messages);
        err = err == TF_OK ? tf_db_apply_commit(db) : err;
    }
    for (size_t k = 0; k < 4; k++) {
        free(messages[k].body);
    }
    told = err == TF_OK ? i : told;
    return err;
}

/* What goes on between the batches. */
static tf_err look_after(uint64_t i)
{
    bool more = false;
    tf_err err = i % 3 == 0 ? tf_db_checkpoint(db, i % 6 == 0) : TF_OK;
    return err == TF_OK && i % 2 == 1 ? tf_db_collect(db, 4, &more) : err;
}

/* Batches from the one that is due to the last, until something fails. */
static tf_err apply_rest(void)
{
    uint64_t lsn = 0;
    tf_err err = tf_db_applied(db, &lsn);
    for (uint64_t i = lsn / OPS_A_BATCH + 1; i <= BATCHES && err == TF_OK; i++) {
        err = apply_batch(i);
        err = err == TF_OK ? look_after(i) : err;
    }
    return err;
}

/* The state must be the one after so many batches, in every part. */
static void expect_state(uint64_t batches)
{
    uint64_t position = 0;
    tf_store_channel c;
    tf_store_cursor cursor;
    if (batches == 0) {
        ck_assert_int_eq(tf_db_channel_next(db, &position, &c), TF_ERR_CLOSED);
        return;
    }
    tf_node_id nobody = {{0}};
    ck_assert_uint_eq(world_channel(db, 1).head, head_of(1, batches));
    ck_assert_uint_eq(world_channel(db, 1).first, floor_of(batches));
    ck_assert_uint_eq(world_channel(db, 2).head, head_of(2, batches));
    world_expect(db, 1, floor_of(batches), head_of(1, batches), SMALL);
    world_expect(db, 2, 1, head_of(2, batches), LARGE);
    world_expect_keys(db, 1, 1, head_of(1, batches), SMALL);
    uint64_t kept = batches / 4 * 4 / 8 * 2; /* below, keys of channel 2 are forgotten */
    world_expect_keys(db, 2, kept < 1 ? 1 : kept, head_of(2, batches), LARGE);
    tf_store_key key;
    ck_assert_int_eq(world_find(db, 1, head_of(1, batches) + 1, &key), TF_ERR_CLOSED);
    ck_assert_int_eq(world_find(db, 2, head_of(2, batches) + 1, &key), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_db_cursor_find(db, 1, &nobody, tf_slice_str("c"), &cursor), TF_OK);
    ck_assert_uint_eq(cursor.next, batches);
}

/* A prefix of the batches, with all that were told. */
static void expect_prefix(void)
{
    uint64_t lsn = 0;
    ck_assert_int_eq(tf_db_applied(db, &lsn), TF_OK);
    ck_assert_uint_eq(lsn % OPS_A_BATCH, 0);
    uint64_t batches = lsn / OPS_A_BATCH;
    ck_assert_msg(batches >= told && batches <= told + 1, "%llu batches of %llu", (unsigned long long)batches,
                  (unsigned long long)told);
    expect_state(batches);
}

static void open_and_expect_prefix(void)
{
    ck_assert_msg(open_db() == TF_OK, "%s", world_why);
    expect_prefix();
}

START_TEST(db_power_cut_at_any_operation_leaves_a_prefix)
{
    for (uint64_t n = 0;; n++) {
        disk_up(SIZE_MAX);
        tf_lossy_files_stop_at(lossy, n);
        tf_err err = open_db();
        err = err == TF_OK ? apply_rest() : err;
        bool was_off = tf_lossy_files_is_off(lossy);
        ck_assert_int_eq(err != TF_OK, was_off);
        tf_db_free(db);
        db = NULL;
        tf_lossy_files_crash(lossy, n * 7 + 1);
        open_and_expect_prefix();
        ck_assert_msg(apply_rest() == TF_OK, "%s", tf_db_error_text(db));
        expect_state(BATCHES);
        disk_down();
        if (!was_off) {
            ck_assert_uint_gt(n, 100);
            break;
        }
    }
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}
END_TEST

/* After each error, until it works: what was told stays, and in the end all is there, also after a power cut. */
static uint64_t with_fault(uint64_t n, tf_lossy_fault fault, bool sync)
{
    disk_up(SIZE_MAX);
    if (sync) {
        tf_lossy_files_fail_sync_at(lossy, n);
    } else {
        tf_lossy_files_fail_at(lossy, n, fault, false);
    }
    tf_err err = open_db();
    for (int i = 0; (err = err == TF_OK ? apply_rest() : err) != TF_OK; i++) {
        ck_assert_int_lt(i, 3);
        ck_assert_int_eq(err, fault == TF_LOSSY_FULL ? TF_ERR_FULL : TF_ERR_IO);
        if (fault == TF_LOSSY_FULL && db != NULL) {
            expect_prefix(); /* and goes on as it is */
            err = TF_OK;
            continue;
        }
        tf_db_free(db);
        db = NULL;
        err = open_db();
        if (err == TF_OK) {
            expect_prefix();
        }
    }
    tf_lossy_counts counts;
    tf_lossy_files_get_counts(lossy, &counts);
    expect_state(BATCHES);
    tf_lossy_files_stop_at(lossy, 0);
    tf_db_free(db);
    db = NULL;
    tf_lossy_files_crash(lossy, n);
    open_and_expect_prefix();
    expect_state(BATCHES);
    disk_down();
    return counts.faults;
}

START_TEST(db_full_at_any_operation_loses_nothing)
{
    uint64_t n = 0;
    while (with_fault(n, TF_LOSSY_FULL, false) > 0) {
        n++;
    }
    ck_assert_uint_gt(n, 100);
}
END_TEST

START_TEST(db_error_at_any_operation_loses_nothing)
{
    uint64_t n = 0;
    while (with_fault(n, TF_LOSSY_ERROR, false) > 0) {
        n++;
    }
    ck_assert_uint_gt(n, 100);
}
END_TEST

START_TEST(db_failed_sync_at_any_time_loses_nothing)
{
    uint64_t n = 0;
    while (with_fault(n, TF_LOSSY_ERROR, true) > 0) {
        n++;
    }
    ck_assert_uint_gt(n, 10);
}
END_TEST

/* One message as a batch of its own; a checkpoint makes room, as long as there is any. */
static tf_err store_one(uint64_t *lsn, uint64_t seq)
{
    tf_err err = TF_ERR_FULL;
    for (int i = 0; i < 2 && err == TF_ERR_FULL; i++) {
        made m;
        err = i == 1 ? tf_db_checkpoint(db, false) : TF_OK;
        err = err == TF_OK ? tf_db_apply_begin(db) : err;
        err = apply_message(lsn, err, 1, seq, &m);
        err = err == TF_OK ? tf_db_apply_commit(db) : err;
        free(m.body);
    }
    return err;
}

/* A disk that is full to the end, then trimmed: room comes back, and nothing that was told is gone. */
START_TEST(db_full_disk_serves_and_takes_trims)
{
    disk_up(1u << 20);
    checkpoint_bytes = 128u << 10; /* a small share of the disk */
    ck_assert_int_eq(open_db(), TF_OK);
    ck_assert_int_eq(apply_batch(1), TF_OK);
    uint64_t lsn = OPS_A_BATCH;
    uint64_t head = head_of(1, 1);
    tf_err err = TF_OK;
    while ((err = store_one(&lsn, head + 1)) == TF_OK) {
        head++;
    }
    ck_assert_int_eq(err, TF_ERR_FULL);
    ck_assert_uint_gt(head, 400);
    world_expect(db, 1, 1, head, SMALL);
    tf_lossy_files_set_capacity(lossy, (1u << 20) + (512u << 10)); /* what the store keeps in reserve for this */
    ck_assert_int_eq(tf_db_apply_begin(db), TF_OK);
    ck_assert_int_eq(tf_db_apply_op(db, ++lsn, &(tf_store_op){.kind = TF_STORE_TRIM, .channel = 1, .seq = head - 10}),
                     TF_OK);
    ck_assert_int_eq(tf_db_apply_commit(db), TF_OK);
    bool more = true;
    for (int i = 0; more; i++) {
        ck_assert_int_lt(i, 1000);
        ck_assert_int_eq(tf_db_collect(db, 8, &more), TF_OK);
        ck_assert_int_eq(tf_db_checkpoint(db, true), TF_OK);
    }
    tf_lossy_files_set_capacity(lossy, 1u << 20);
    for (uint64_t i = 1; i <= 100; i++) { /* there is room again */
        ck_assert_int_eq(store_one(&lsn, head + i), TF_OK);
    }
    world_expect(db, 1, head - 10, head + 100, SMALL);
    disk_down();
    checkpoint_bytes = 0;
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {db_power_cut_at_any_operation_leaves_a_prefix,
                                  db_full_at_any_operation_loses_nothing,
                                  db_error_at_any_operation_loses_nothing,
                                  db_failed_sync_at_any_time_loses_nothing,
                                  db_full_disk_serves_and_takes_trims,
                                  NULL};
    return tf_test_run_waiting("node/store/db_crash", tests);
}
