/* The writer thread: encodes a group, makes it durable, says what became of it (S6). */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "node/store/disk_internal.h"

/* A group on its way: ops are written in chunks that fit a segment. */
typedef struct batch {
    tf_disk_store *store;
    tf_store_group *group;
    size_t at;              /* ops before it are through */
    tf_refusal refuse_rest; /* what still asks for room is refused with this */
} batch;

static bool frees_room(const tf_store_op *op)
{
    return op->kind != TF_STORE_APPEND && op->kind != TF_STORE_CREATE;
}

/* May it be written? Not if it was refused before, or now is. */
static bool is_wanted(batch *b, tf_store_op *op)
{
    if (op->outcome == TF_REFUSAL_NONE && b->refuse_rest != TF_REFUSAL_NONE && !frees_room(op)) {
        op->outcome = b->refuse_rest;
    }
    return op->outcome == TF_REFUSAL_NONE;
}

/* The ops from `at` on that go into one append: *end is behind them. */
static void measure(batch *b, size_t *end, size_t *count, size_t *bytes)
{
    size_t usual = tf_commit_log_group_usual(b->store->log);
    size_t i = b->at;
    *count = 0;
    *bytes = 0;
    for (; i < b->group->count; i++) {
        tf_store_op *op = &b->group->ops[i];
        if (!is_wanted(b, op)) {
            continue;
        }
        size_t bound = tf_record_bound(op);
        if (*count > 0 && *bytes + bound > usual) {
            break;
        }
        *bytes += bound;
        ++*count;
    }
    *end = i;
}

static tf_tail_block *encode(const batch *b, size_t end, size_t count, size_t bytes)
{
    tf_commit_log *log = b->store->log;
    tf_tail_block *block = tf_tail_block_new(count, bytes);
    uint64_t key = tf_commit_log_key(log);
    if (block == NULL) {
        return NULL;
    }
    block->first_lsn = tf_commit_log_next_lsn(log);
    block->last_lsn = block->first_lsn + count - 1;
    for (size_t i = b->at; i < end; i++) {
        const tf_store_op *op = &b->group->ops[i];
        if (op->outcome != TF_REFUSAL_NONE) {
            continue;
        }
        uint8_t *at = block->bytes + block->len;
        size_t size = tf_record_write(at, bytes - block->len, key, block->first_lsn + block->count, op);
        block->entries[block->count++] = (tf_tail_entry){.record = at, .size = (uint32_t)size};
        block->len += size;
    }
    TF_ASSERT(block->count == count);
    return block;
}

static bool only_frees_room(const batch *b, size_t end)
{
    for (size_t i = b->at; i < end; i++) {
        if (b->group->ops[i].outcome == TF_REFUSAL_NONE && !frees_room(&b->group->ops[i])) {
            return false;
        }
    }
    return true;
}

/* The writer alone sets it, so it may look without the mutex. */
static void set_state(tf_disk_store *store, tf_store_state state)
{
    if (state == TF_STORE_WRITABLE && store->log_state == state) {
        return;
    }
    (void)pthread_mutex_lock(&store->mutex);
    if (state != TF_STORE_WRITABLE) {
        store->last_errno = tf_commit_log_errno(store->log);
    }
    bool changed = store->log_state != state;
    store->log_state = state;
    (void)pthread_mutex_unlock(&store->mutex);
    if (changed) {
        (void)atomic_fetch_add(&store->turns, 1);
    }
}

/* The log is at its bound: something must be applied first. False: that will not come by itself. When nothing is left to
 * be applied, it is full of the group that is being written, which is applied only when it is done. */
static bool wait_for_release(tf_disk_store *store)
{
    (void)pthread_mutex_lock(&store->mutex);
    bool hopeful = store->db_state == TF_STORE_WRITABLE && !store->stop && store->to_apply != NULL;
    uint64_t freed = store->freed;
    store->writer_waits = true;
    (void)pthread_cond_signal(&store->to_applier);
    while (hopeful && freed == store->freed) {
        tf_disk_wait(store, &store->to_writer, INT64_MAX);
        hopeful = store->db_state == TF_STORE_WRITABLE && !store->stop;
    }
    store->writer_waits = false;
    (void)pthread_mutex_unlock(&store->mutex);
    return hopeful;
}

/* A write or sync failed: nobody knows what is on the disk, and nobody is told anything until it is written anew and
 * verified. False: the store is being closed meanwhile. */
static bool retry_until_known(tf_disk_store *store)
{
    for (;;) {
        tf_log_range lost = {0, 0};
        set_state(store, TF_STORE_UNAVAILABLE);
        if (tf_commit_log_retry(store->log, &lost) == TF_OK) {
            return true; /* what was lost of earlier groups is in the tail, and goes to the index from there */
        }
        (void)pthread_mutex_lock(&store->mutex);
        store->failures++;
        int64_t until = tf_disk_now_ms() + TF_DISK_RETRY_MS;
        while (!store->stop && tf_disk_now_ms() < until) {
            tf_disk_wait(store, &store->to_writer, until);
        }
        bool stop = store->stop;
        (void)pthread_mutex_unlock(&store->mutex);
        if (stop) {
            return false;
        }
    }
}

typedef enum outcome {
    OUTCOME_DURABLE,
    OUTCOME_AGAIN,  /* nothing was written; refuse_rest may have changed */
    OUTCOME_REFUSED, /* the chunk cannot be written at all */
    OUTCOME_UNKNOWN /* for ever: the store is closed */
} outcome;

static outcome failed(batch *b, bool frees, tf_err err)
{
    tf_disk_store *store = b->store;
    if (tf_commit_log_is_pending(store->log)) {
        return retry_until_known(store) ? OUTCOME_DURABLE : OUTCOME_UNKNOWN;
    }
    if (err == TF_ERR_AGAIN && wait_for_release(store)) {
        return OUTCOME_AGAIN;
    }
    bool full = err == TF_ERR_FULL || err == TF_ERR_AGAIN || err == TF_ERR_LIMIT_BYTES;
    set_state(store, full ? TF_STORE_FULL : TF_STORE_UNAVAILABLE);
    b->refuse_rest = full ? TF_REFUSAL_STORE_FULL : TF_REFUSAL_UNAVAILABLE;
    return frees ? OUTCOME_REFUSED : OUTCOME_AGAIN;
}

/* The row belongs to the writer until the phase says that the group is done, and then to the caller's thread. */
static void hand_back(tf_disk_store *store, tf_tail_block *block)
{
    block->next = NULL;
    if (store->made == NULL) {
        store->made = block;
    } else {
        store->made_last->next = block;
    }
    store->made_last = block;
}

static void refuse_chunk(batch *b, size_t end)
{
    for (size_t i = b->at; i < end; i++) {
        if (b->group->ops[i].outcome == TF_REFUSAL_NONE) {
            b->group->ops[i].outcome = b->refuse_rest;
        }
    }
}

/* One chunk. False: its outcome stays unknown. */
static bool write_chunk(batch *b)
{
    size_t end = 0;
    size_t count = 0;
    size_t bytes = 0;
    measure(b, &end, &count, &bytes);
    if (count == 0) {
        b->at = end;
        return true;
    }
    tf_tail_block *block = encode(b, end, count, bytes);
    bool frees = only_frees_room(b, end);
    tf_err err = TF_ERR_NOMEM;
    if (block != NULL) {
        tf_commit_group group = {tf_slice_of(block->bytes, block->len), (uint32_t)block->count, frees};
        err = tf_commit_log_append(b->store->log, &group);
    }
    outcome what = err == TF_OK ? OUTCOME_DURABLE : failed(b, frees, err);
    if (what == OUTCOME_DURABLE) {
        if (b->refuse_rest == TF_REFUSAL_NONE) {
            set_state(b->store, TF_STORE_WRITABLE);
        }
        TF_ASSERT(block != NULL);
        hand_back(b->store, block);
        b->at = end;
        return true;
    }
    tf_tail_block_free(block);
    if (what == OUTCOME_REFUSED) {
        refuse_chunk(b, end);
        b->at = end;
    }
    return what != OUTCOME_UNKNOWN;
}

/* False: it has no outcome. */
static bool write_group(tf_disk_store *store, tf_store_group *group)
{
    batch b = {.store = store, .group = group, .refuse_rest = TF_REFUSAL_NONE};
    while (b.at < group->count) {
        if (!write_chunk(&b)) {
            return false;
        }
    }
    return true;
}

/* After a group of few changes the next one is near, when somebody sends one at a time: to look for it saves a change of
 * threads. The mutex is not held. */
static void look_for_work(tf_disk_store *store)
{
    int64_t end = tf_disk_now_us() + TF_DISK_BRISK_US;
    while (!atomic_load(&store->has_work) && tf_disk_now_us() < end) {
        (void)sched_yield();
    }
}

/* Waits for a group; NULL: the store is closed. The mutex is held. */
static tf_store_group *next_group(tf_disk_store *store)
{
    while (!store->stop && store->work == NULL) {
        store->writer_sleeps = true;
        tf_disk_wait(store, &store->to_writer, INT64_MAX);
        store->writer_sleeps = false;
    }
    tf_store_group *group = store->stop ? NULL : store->work;
    store->work = NULL;
    atomic_store(&store->has_work, false);
    return group;
}

void *tf_disk_writer_main(void *ctx)
{
    tf_disk_store *store = ctx;
    tf_store_group *group = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    while ((group = next_group(store)) != NULL) {
        (void)pthread_mutex_unlock(&store->mutex);
        bool is_brisk = group->count <= TF_DISK_BRISK_OPS;
        if (write_group(store, group)) {
            atomic_store(&store->phase, TF_DISK_DONE);
            if (atomic_load(&store->caller_sleeps)) {
                tf_disk_notify(store);
            }
        }
        if (tf_commit_log_wants_prepare(store->log)) {
            (void)pthread_mutex_lock(&store->mutex);
            (void)pthread_cond_signal(&store->to_applier);
            (void)pthread_mutex_unlock(&store->mutex);
        }
        if (is_brisk) {
            look_for_work(store);
        }
        (void)pthread_mutex_lock(&store->mutex);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return NULL;
}
