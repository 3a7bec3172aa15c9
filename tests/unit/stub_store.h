/* A store that does as it is told, on top of the one in memory: holds groups back, refuses them, answers later, has lost
 * or damaged a part. */
#ifndef TF_TESTS_UNIT_STUB_STORE_H
#define TF_TESTS_UNIT_STUB_STORE_H

#include <check.h>

#include "node/store/memory.h"

typedef struct stub_store {
    tf_memory_store *memory;
    tf_store inner;
    bool hold;          /* groups wait for stub_release */
    tf_refusal refuse;  /* released groups are refused with it, */
    size_t pass_first;  /* less so many ops at their beginning */
    bool later;         /* reads answer LATER */
    bool ready;         /* READ_READY is to be told */
    uint64_t gone_below;    /* reads below it are GONE */
    uint64_t damaged_from;  /* reads from here ... */
    uint64_t damaged_to;    /* ... to here are DAMAGED; 0: none */
    bool find_fails;
    tf_store_group *group; /* held */
    bool done;             /* refused, to be polled */
    size_t groups;
    size_t largest; /* group */
    size_t finds;   /* of channels */
} stub_store;

static inline void stub_pass(stub_store *stub, tf_store_group *group)
{
    if (stub->refuse == TF_REFUSAL_NONE) {
        stub->inner.table->submit(stub->inner.ctx, group);
        return;
    }
    size_t passed = stub->pass_first < group->count ? stub->pass_first : group->count;
    if (passed > 0) {
        tf_store_event_type type;
        tf_store_group part = {group->ops, passed};
        stub->inner.table->submit(stub->inner.ctx, &part);
        ck_assert(stub->inner.table->poll(stub->inner.ctx, &type));
    }
    for (size_t i = passed; i < group->count; i++) {
        group->ops[i].outcome = stub->refuse;
    }
    stub->done = true;
}

static inline void stub_submit(void *ctx, tf_store_group *group)
{
    stub_store *stub = ctx;
    ck_assert_ptr_null(stub->group);
    stub->groups++;
    stub->largest = group->count > stub->largest ? group->count : stub->largest;
    if (stub->hold) {
        stub->group = group;
    } else {
        stub_pass(stub, group);
    }
}

/* The held group goes through. False: there was none. */
static inline bool stub_release(stub_store *stub)
{
    tf_store_group *group = stub->group;
    stub->group = NULL;
    if (group != NULL) {
        stub_pass(stub, group);
    }
    return group != NULL;
}

/* From now on nothing is held. */
static inline void stub_let_go(stub_store *stub)
{
    stub->hold = false;
    ck_assert(stub_release(stub));
}

/* A change that did not come from the hub, committed at once. */
static inline void stub_commit(stub_store *stub, tf_store_op *op)
{
    tf_store_group group = {op, 1};
    tf_store_event_type type;
    stub->inner.table->submit(stub->inner.ctx, &group);
    ck_assert(stub->inner.table->poll(stub->inner.ctx, &type));
}

static inline bool stub_poll(void *ctx, tf_store_event_type *out)
{
    stub_store *stub = ctx;
    if (stub->ready) {
        stub->ready = false;
        *out = TF_STORE_READ_READY;
        return true;
    }
    if (stub->done) {
        stub->done = false;
        *out = TF_STORE_GROUP_DONE;
        return true;
    }
    return stub->inner.table->poll(stub->inner.ctx, out);
}

static inline tf_err stub_channel_find(void *ctx, tf_slice name, tf_store_channel *out)
{
    stub_store *stub = ctx;
    tf_err err = stub->inner.table->channel_find(stub->inner.ctx, name, out);
    stub->finds++;
    if (err == TF_OK && stub->gone_below > out->first) {
        out->first = stub->gone_below;
    }
    return err;
}

static inline bool stub_channel_next(void *ctx, uint64_t *position, tf_store_channel *out)
{
    stub_store *stub = ctx;
    return stub->inner.table->channel_next(stub->inner.ctx, position, out);
}

static inline tf_err stub_find(void *ctx, uint64_t channel, const tf_node_id *origin, tf_slice client_id, tf_store_key *out)
{
    stub_store *stub = ctx;
    return stub->find_fails ? TF_ERR_IO : stub->inner.table->find(stub->inner.ctx, channel, origin, client_id, out);
}

static inline tf_store_presence stub_read(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out)
{
    stub_store *stub = ctx;
    if (stub->later) {
        return TF_STORE_LATER;
    }
    if (seq < stub->gone_below) {
        out->seq = stub->gone_below;
        return TF_STORE_GONE;
    }
    if (seq >= stub->damaged_from && seq <= stub->damaged_to) {
        out->seq = stub->damaged_to + 1;
        return TF_STORE_DAMAGED;
    }
    return stub->inner.table->read(stub->inner.ctx, channel, seq, out);
}

static inline uint64_t stub_find_time(void *ctx, uint64_t channel, int64_t timestamp_ms)
{
    stub_store *stub = ctx;
    return stub->inner.table->find_time(stub->inner.ctx, channel, timestamp_ms);
}

static inline uint64_t stub_find_bytes(void *ctx, uint64_t channel, uint64_t bytes)
{
    stub_store *s = ctx;
    return s->inner.table->find_bytes(s->inner.ctx, channel, bytes);
}

static inline tf_err stub_cursor_find(void *ctx, uint64_t channel, const tf_node_id *owner, tf_slice name, tf_store_cursor *out)
{
    stub_store *s = ctx;
    return s->inner.table->cursor_find(s->inner.ctx, channel, owner, name, out);
}

static inline bool stub_cursor_next(void *ctx, uint64_t channel, size_t *position, tf_store_cursor *out)
{
    stub_store *s = ctx;
    return s->inner.table->cursor_next(s->inner.ctx, channel, position, out);
}

static inline bool stub_damage_next(void *ctx, size_t *position, tf_store_damage *out)
{
    stub_store *s = ctx;
    if (s->damaged_to == 0) {
        return s->inner.table->damage_next(s->inner.ctx, position, out);
    }
    *out = (tf_store_damage){1, s->damaged_from, s->damaged_to}; /* of the first channel */
    return (*position)++ == 0;
}

static inline void stub_get_stats(void *ctx, tf_store_stats *out)
{
    stub_store *stub = ctx;
    stub->inner.table->get_stats(stub->inner.ctx, out);
}

static inline tf_store stub_get(stub_store *stub)
{
    static const tf_store_table table = {
        .submit = stub_submit,
        .poll = stub_poll,
        .channel_find = stub_channel_find,
        .channel_next = stub_channel_next,
        .find = stub_find,
        .read = stub_read,
        .find_time = stub_find_time,
        .find_bytes = stub_find_bytes,
        .cursor_find = stub_cursor_find,
        .cursor_next = stub_cursor_next,
        .damage_next = stub_damage_next,
        .get_stats = stub_get_stats,
    };
    return (tf_store){&table, stub};
}

#endif
