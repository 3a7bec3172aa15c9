/* Groups, seen from the caller's thread: what of them may go to the writer, and what they change once they are durable. */
#include <stdlib.h>
#include <unistd.h>

#include "node/store/disk_internal.h"

/* -- blocks, which change threads ---------------------------------------------------------------------------------- */

tf_tail_block *tf_tail_block_new(size_t count, size_t bytes)
{
    size_t head = sizeof(tf_tail_block) + count * sizeof(tf_tail_entry);
    tf_tail_block *block = malloc(head + bytes);
    if (block == NULL) {
        return NULL;
    }
    memset(block, 0, head);
    block->size = head + bytes;
    block->bytes = (uint8_t *)block + head;
    return block;
}

void tf_tail_block_free(tf_tail_block *block)
{
    free(block);
}

/* -- a group goes -------------------------------------------------------------------------------------------------- */

static tf_refusal admit_append(tf_disk_store *store, const tf_store_op *op)
{
    tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, op->channel);
    if (channel == NULL) {
        return TF_REFUSAL_INTERNAL;
    }
    if (channel->refused_in == store->groups || tf_catalog_reserve(&store->catalog, channel) != TF_OK) {
        channel->refused_in = store->groups;
        return TF_REFUSAL_STORE_FULL;
    }
    return TF_REFUSAL_NONE;
}

static tf_refusal admit_cursor(tf_disk_store *store, const tf_store_cursor *cursor)
{
    tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, cursor->channel);
    if (channel == NULL) {
        return TF_REFUSAL_INTERNAL;
    }
    bool is_new = *tf_catalog_cursor_place(channel, &cursor->owner, cursor->name) == NULL;
    return is_new && channel->cursor_count >= TF_CURSORS_PER_CHANNEL ? TF_REFUSAL_STORE_FULL : TF_REFUSAL_NONE;
}

/* What the catalog has to say about an op before it is written. */
static tf_refusal admit(tf_disk_store *store, tf_store_op *op, uint64_t *created)
{
    switch (op->kind) {
    case TF_STORE_CREATE:
        if (store->catalog.channel_count + *created >= store->catalog.channels_max) {
            return TF_REFUSAL_STORE_FULL;
        }
        op->channel = store->next_number + *created;
        ++*created;
        return TF_REFUSAL_NONE;
    case TF_STORE_APPEND:
        return admit_append(store, op);
    case TF_STORE_CURSOR:
        return admit_cursor(store, &op->cursor);
    case TF_STORE_CLOSE:
    case TF_STORE_TRIM:
    case TF_STORE_FORGET:
    case TF_STORE_EPOCH:
        return tf_catalog_by_number(&store->catalog, op->channel) == NULL ? TF_REFUSAL_INTERNAL : TF_REFUSAL_NONE;
    }
    TF_UNREACHABLE();
}

void tf_disk_submit(void *ctx, tf_store_group *group)
{
    tf_disk_store *store = ctx;
    uint64_t created = 0;
    TF_ASSERT(store->group == NULL);
    store->group = group;
    store->groups++;
    for (size_t i = 0; i < group->count; i++) {
        group->ops[i].outcome = admit(store, &group->ops[i], &created);
    }
    atomic_store(&store->phase, TF_DISK_SUBMITTED);
    (void)pthread_mutex_lock(&store->mutex);
    store->work = group;
    bool sleeps = store->writer_sleeps;
    (void)pthread_mutex_unlock(&store->mutex);
    atomic_store(&store->has_work, true);
    if (sleeps) {
        (void)pthread_cond_signal(&store->to_writer); /* without the mutex, which it would have to wait for */
    }
}

/* -- a group comes back -------------------------------------------------------------------------------------------- */

static void queue_apply(tf_disk_store *store, tf_tail_block *block)
{
    (void)pthread_mutex_lock(&store->mutex);
    block->next_to_apply = NULL;
    if (store->to_apply == NULL) {
        store->to_apply = block;
        store->to_apply_since_ms = tf_disk_now_ms();
    } else {
        store->to_apply_last->next_to_apply = block;
    }
    store->to_apply_last = block;
    bool was_low = store->to_apply_bytes < store->apply_unit;
    bool was_empty = store->to_apply_bytes == 0;
    store->to_apply_bytes += block->len;
    store->to_apply_count += block->count;
    bool wakes = was_empty || (was_low && store->to_apply_bytes >= store->apply_unit);
    (void)pthread_mutex_unlock(&store->mutex);
    if (wakes) {
        (void)pthread_cond_signal(&store->to_applier);
    }
}

void tf_disk_evict(tf_disk_store *store)
{
    uint64_t applied = atomic_load(&store->applied_lsn);
    while (store->catalog.oldest != NULL && store->catalog.oldest->last_lsn <= applied &&
           store->catalog.tail_bytes > store->config.tail_bytes) {
        tf_tail_block_free(tf_catalog_evict(&store->catalog));
    }
}

static void learn_keys(tf_disk_store *store, const tf_tail_block *block)
{
    for (size_t i = 0; i < block->count; i++) {
        if (block->entries[i].is_message) {
            tf_key_filter_insert(&store->new_keys, block->entries[i].hash);
        }
    }
}

tf_err tf_disk_restore_block(tf_disk_store *store, tf_tail_block *block)
{
    tf_err err = tf_catalog_apply(&store->catalog, block);
    learn_keys(store, block);
    queue_apply(store, block);
    store->floors++; /* there may be trims in it */
    return err;
}

/* What an op of the group did beside what its record says. */
static void finish_op(tf_disk_store *store, const tf_store_op *op)
{
    if (op->kind == TF_STORE_CREATE && op->outcome == TF_REFUSAL_NONE) {
        store->next_number = op->channel + 1; /* one that was refused takes no number: they end (TF_STORE_NUMBER_END) */
    }
    tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, op->channel);
    if (channel == NULL) {
        return;
    }
    if (op->kind == TF_STORE_APPEND) {
        tf_catalog_unreserve(&store->catalog, channel);
    } else if (op->kind == TF_STORE_TRIM && op->outcome == TF_REFUSAL_NONE) {
        channel->measure_at = store->catalog.newest->last_lsn;
        (void)pthread_mutex_lock(&store->mutex);
        store->floors++;
        (void)pthread_cond_signal(&store->to_applier);
        (void)pthread_mutex_unlock(&store->mutex);
    }
}

static void complete(tf_disk_store *store)
{
    tf_tail_block *block = store->made;
    store->made = NULL;
    store->made_last = NULL;
    while (block != NULL) {
        tf_tail_block *next = block->next;
        tf_err err = tf_catalog_apply(&store->catalog, block);
        (void)err; /* what was not reserved: a channel or cursor that the memory has no room for; it is stored all the same */
        learn_keys(store, block);
        queue_apply(store, block);
        block = next;
    }
    for (size_t i = 0; i < store->group->count; i++) {
        finish_op(store, &store->group->ops[i]);
    }
    store->group = NULL;
    atomic_store(&store->phase, TF_DISK_IDLE);
}

bool tf_disk_poll(void *ctx, tf_store_event_type *out)
{
    tf_disk_store *store = ctx;
    if (atomic_load(&store->phase) == TF_DISK_DONE) {
        complete(store);
        tf_disk_evict(store);
        *out = TF_STORE_GROUP_DONE;
        return true;
    }
    if (atomic_load(&store->reads_done) && tf_disk_take_fetches(store)) {
        *out = TF_STORE_READ_READY;
        return true;
    }
    return false;
}
