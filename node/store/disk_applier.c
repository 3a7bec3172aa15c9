/* The applier thread: moves what is committed into SQLite, frees the log, makes segments ready, deletes what is no longer
 * kept.
 *
 * Room for freeing room (S11): a file `spare` holds as much as a checkpoint and a trim may need. When the disk is full and
 * something was trimmed, it is removed; the trims go into the index out of turn, what they free is deleted, and the spare
 * is made again before the log may grow. Without a spare nothing is applied that takes room, unless a trim has just made
 * some. */
#include <errno.h>
#include <string.h>

#include "node/store/disk_internal.h"

#define COLLECT_STEP 64u /* pieces deleted in one transaction, */
#define RESCUE_STEP 2u   /* and while the disk is full */

typedef struct applier {
    tf_disk_store *store;
    bool collecting;      /* there may be more to delete */
    bool full;            /* the last batch found no room */
    bool spare;           /* the file is there */
    bool rescued;         /* trims made room: what waits is tried without a spare, until it fails */
    bool at_bound;        /* of the log: no segment can be made before something is released */
    uint64_t floors_seen;
    int64_t retry_ms;     /* of a batch, after a failure; INT64_MAX: none */
    int64_t prepare_ms;   /* of a segment or the spare, after a failure */
} applier;

/* -- one batch ----------------------------------------------------------------------------------------------------- */

/* *lsn: of the last op that was applied. */
static tf_err apply_block(tf_db *db, const tf_tail_block *block, uint64_t *lsn)
{
    for (size_t i = 0; i < block->count; i++) {
        const tf_tail_entry *entry = &block->entries[i];
        tf_log_record record;
        if (entry->is_void) {
            continue;
        }
        tf_err err = tf_record_read_trusted(tf_slice_of(entry->record, entry->size), &record);
        TF_ASSERT(err == TF_OK);
        err = tf_db_apply_op(db, record.lsn, &record.op);
        if (err != TF_OK) {
            return err;
        }
        *lsn = record.lsn;
    }
    return TF_OK;
}

/* From the first block on, up to the last: whole blocks. An error has ended the batch. */
static tf_err apply_blocks(tf_db *db, const tf_tail_block *first, const tf_tail_block *last, uint64_t *lsn)
{
    tf_err err = tf_db_apply_begin(db);
    if (err != TF_OK) {
        return err;
    }
    for (const tf_tail_block *block = first; block != NULL; block = block == last ? NULL : block->next_to_apply) {
        err = apply_block(db, block, lsn);
        if (err != TF_OK) {
            return err;
        }
    }
    return tf_db_apply_commit(db);
}

/* The last block of the next batch. The mutex is held; there is one. */
static tf_tail_block *last_of_batch(const tf_disk_store *store)
{
    tf_tail_block *last = store->to_apply;
    size_t bytes = 0;
    TF_ASSERT(last != NULL);
    while (last->next_to_apply != NULL && bytes + last->len + last->next_to_apply->len <= store->apply_unit) {
        bytes += last->len;
        last = last->next_to_apply;
    }
    return last;
}

/* The mutex is held. */
static void batch_applied(tf_disk_store *store, tf_tail_block *last)
{
    uint64_t lsn = last->last_lsn;
    for (tf_tail_block *block = NULL; block != last;) {
        block = store->to_apply;
        store->to_apply = block->next_to_apply;
        store->to_apply_bytes -= block->len;
        store->to_apply_count -= block->count;
    }
    store->to_apply_since_ms = tf_disk_now_ms();
    store->db_state = TF_STORE_WRITABLE;
    store->freed++;
    atomic_store(&store->applied_lsn, lsn); /* from here on the blocks may be freed */
    (void)pthread_cond_signal(&store->to_writer);
}

/* The mutex is held. */
static void batch_failed(applier *a, tf_err err)
{
    tf_disk_store *store = a->store;
    a->full = err == TF_ERR_FULL;
    a->rescued = false;
    a->retry_ms = tf_disk_now_ms() + TF_DISK_RETRY_MS;
    store->db_state = a->full ? TF_STORE_FULL : TF_STORE_UNAVAILABLE;
    store->last_errno = a->full ? ENOSPC : EIO;
    store->failures++;
    (void)pthread_cond_signal(&store->to_writer); /* it need not wait for what does not come */
}

/* The mutex is held, and again at the end. */
static void apply_batch(applier *a)
{
    tf_disk_store *store = a->store;
    tf_tail_block *first = store->to_apply;
    tf_tail_block *last = last_of_batch(store);
    uint64_t lsn = 0;
    (void)pthread_mutex_unlock(&store->mutex);
    tf_err err = apply_blocks(store->apply_db, first, last, &lsn);
    if (err == TF_OK && lsn != 0) {
        tf_commit_log_release(store->log, lsn);
    }
    (void)pthread_mutex_lock(&store->mutex);
    if (err != TF_OK) {
        batch_failed(a, err);
        return;
    }
    batch_applied(store, last);
    a->full = false;
    a->retry_ms = INT64_MAX;
    a->collecting = true;
    a->at_bound = false;
    tf_disk_notify(store);
}

/* -- room ---------------------------------------------------------------------------------------------------------- */

/* Without the mutex. */
static tf_err make_spare(tf_disk_store *store)
{
    tf_file *file = NULL;
    uint64_t free_bytes = 0;
    const tf_files_table *table = store->files.table;
    tf_err err = table->free_bytes(store->files.ctx, &free_bytes);
    if (err == TF_OK && free_bytes < 2 * store->apply_unit) {
        return TF_ERR_FULL;
    }
    if (err == TF_OK) {
        err = tf_files_open(&store->files, TF_DISK_SPARE, TF_FILE_ANY, &file);
    }
    if (err == TF_OK) {
        err = table->set_size(store->files.ctx, file, 0);
    }
    if (err == TF_OK) {
        err = table->allocate(store->files.ctx, file, 2 * store->apply_unit);
    }
    tf_files_close(&store->files, file);
    if (err != TF_OK) {
        tf_err ignored = table->remove(store->files.ctx, TF_DISK_SPARE);
        (void)ignored;
    }
    return err;
}

/* Puts the trims that wait behind what could not be applied into the index. The mutex is not held: only this thread takes
 * blocks off the row, and the caller's thread only appends to it. */
static tf_err apply_trims(applier *a, const tf_tail_block *first, const tf_tail_block *last)
{
    tf_db *db = a->store->apply_db;
    tf_err err = tf_db_apply_begin(db);
    if (err != TF_OK) {
        return err;
    }
    for (const tf_tail_block *block = first; block != NULL; block = block == last ? NULL : block->next_to_apply) {
        for (size_t i = 0; i < block->count; i++) {
            const tf_tail_entry *entry = &block->entries[i];
            tf_log_record record;
            if (entry->is_void || entry->is_message) {
                continue;
            }
            err = tf_record_read_trusted(tf_slice_of(entry->record, entry->size), &record);
            TF_ASSERT(err == TF_OK);
            err = tf_db_apply_early(db, &record.op);
            if (err != TF_OK) {
                return err;
            }
        }
    }
    return tf_db_apply_commit(db);
}

/* In small steps, each of which needs little room to begin with. */
static tf_err delete_trimmed(tf_db *db)
{
    bool more = true;
    tf_err err = TF_OK;
    while (err == TF_OK && more) {
        err = tf_db_collect(db, RESCUE_STEP, &more);
        if (err == TF_OK) {
            err = tf_db_checkpoint(db, false);
        }
    }
    return err;
}

/* The disk is full, but something was trimmed. The mutex is held, and again at the end. */
static void rescue(applier *a)
{
    tf_disk_store *store = a->store;
    const tf_tail_block *first = store->to_apply;
    const tf_tail_block *last = store->to_apply_last;
    uint64_t floors = store->floors;
    (void)pthread_mutex_unlock(&store->mutex);
    if (a->spare) {
        tf_err ignored = store->files.table->remove(store->files.ctx, TF_DISK_SPARE);
        (void)ignored;
        a->spare = false;
    }
    tf_err err = tf_db_checkpoint(store->apply_db, false);
    if (err == TF_OK && first != NULL) {
        err = apply_trims(a, first, last);
    }
    if (err == TF_OK) {
        err = delete_trimmed(store->apply_db);
    }
    (void)pthread_mutex_lock(&store->mutex);
    a->rescued = err == TF_OK;
    a->floors_seen = err == TF_OK ? floors : a->floors_seen;
    a->retry_ms = err == TF_OK ? 0 : tf_disk_now_ms() + TF_DISK_RETRY_MS;
    a->prepare_ms = INT64_MAX; /* the spare may be made at once */
}

static void collect(applier *a)
{
    tf_disk_store *store = a->store;
    bool more = false;
    (void)pthread_mutex_unlock(&store->mutex);
    tf_err err = tf_db_collect(store->apply_db, COLLECT_STEP, &more);
    (void)pthread_mutex_lock(&store->mutex);
    a->collecting = err == TF_OK && more;
}

/* The spare first, then segments for the log. */
static void prepare(applier *a)
{
    tf_disk_store *store = a->store;
    (void)pthread_mutex_unlock(&store->mutex);
    tf_err err = TF_OK;
    if (!a->spare) {
        err = make_spare(store);
        a->spare = err == TF_OK;
        a->full = a->full && !a->spare;
    } else {
        err = tf_commit_log_prepare(store->log);
    }
    (void)pthread_mutex_lock(&store->mutex);
    if (!a->spare) {
        store->db_state = TF_STORE_FULL; /* nothing is applied */
        store->last_errno = ENOSPC;
    } else if (store->db_state == TF_STORE_FULL && !a->full) {
        store->db_state = TF_STORE_WRITABLE;
    }
    a->at_bound = err == TF_ERR_AGAIN;
    a->prepare_ms = err == TF_OK || a->at_bound ? INT64_MAX : tf_disk_now_ms() + TF_DISK_RETRY_MS;
    store->freed += err == TF_OK ? 1u : 0u;
    (void)pthread_cond_signal(&store->to_writer);
}

/* -- the thread ---------------------------------------------------------------------------------------------------- */

static bool is_due(int64_t when_ms)
{
    return when_ms != INT64_MAX && tf_disk_now_ms() >= when_ms;
}

static int64_t apply_when(const applier *a)
{
    const tf_disk_store *store = a->store;
    bool may = a->spare || a->rescued || (store->stop && store->db_state == TF_STORE_WRITABLE);
    if (store->to_apply == NULL || !may) {
        return INT64_MAX;
    }
    if (a->retry_ms != INT64_MAX) {
        return a->retry_ms;
    }
    bool now = store->stop || store->writer_waits || store->to_apply_bytes >= store->apply_unit;
    return now ? 0 : store->to_apply_since_ms + TF_DISK_APPLY_DELAY_MS;
}

static int64_t prepare_when(const applier *a)
{
    bool wanted = !a->spare || (!a->at_bound && tf_commit_log_wants_prepare(a->store->log));
    if (!wanted || a->store->stop) {
        return INT64_MAX;
    }
    return a->prepare_ms == INT64_MAX ? 0 : a->prepare_ms;
}

/* Something was trimmed that could make room, and room is wanted. */
static bool wants_rescue(const applier *a)
{
    return a->floors_seen != a->store->floors && (a->full || !a->spare);
}

/* One piece of work; false: nothing is due. The mutex is held. */
static bool work(applier *a)
{
    tf_disk_store *store = a->store;
    if (is_due(prepare_when(a))) {
        prepare(a);
        return true;
    }
    if (wants_rescue(a) && (a->retry_ms == INT64_MAX || is_due(a->retry_ms))) {
        rescue(a);
        return true;
    }
    if (is_due(apply_when(a))) {
        apply_batch(a);
        return true;
    }
    if (a->collecting && !store->stop) {
        collect(a);
        return true;
    }
    return false;
}

/* When there may be work without anybody saying so. The mutex is held. */
static int64_t next_time(const applier *a)
{
    int64_t apply = apply_when(a);
    int64_t prepare = prepare_when(a);
    int64_t soonest = apply < prepare ? apply : prepare;
    return wants_rescue(a) && a->retry_ms < soonest ? a->retry_ms : soonest;
}

void *tf_disk_applier_main(void *ctx)
{
    tf_disk_store *store = ctx;
    applier a = {.store = store, .collecting = true, .retry_ms = INT64_MAX, .prepare_ms = INT64_MAX};
    uint64_t size = 0;
    tf_file *spare = NULL;
    if (tf_files_open(&store->files, TF_DISK_SPARE, TF_FILE_READ, &spare) == TF_OK) {
        a.spare = store->files.table->size(store->files.ctx, spare, &size) == TF_OK && size == 2 * store->apply_unit;
        tf_files_close(&store->files, spare);
    }
    (void)pthread_mutex_lock(&store->mutex);
    for (;;) {
        bool did = work(&a);
        if (store->stop && (!did || a.retry_ms != INT64_MAX)) {
            break; /* what the index did not take, the log keeps */
        }
        if (!did) {
            tf_disk_wait(store, &store->to_applier, next_time(&a));
        }
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return NULL;
}
