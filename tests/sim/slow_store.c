#include "tests/sim/slow_store.h"

static void slow_submit(void *ctx, tf_store_group *group)
{
    slow_store *s = ctx;
    s->group = group;
    s->due = s->now + s->least + tf_test_random_below(s->random, s->spread + 1);
}

static void commit_part(slow_store *s, size_t from, size_t count)
{
    tf_store_event_type type;
    tf_store_group part = {s->group->ops + from, count};
    if (count > 0) {
        s->inner.table->submit(s->inner.ctx, &part);
        (void)s->inner.table->poll(s->inner.ctx, &type);
    }
}

/* What may pass although the store takes nothing more. */
static bool passes(const slow_store *s, const tf_store_op *op)
{
    return s->refuses == TF_REFUSAL_STORE_FULL && op->kind != TF_STORE_APPEND && op->kind != TF_STORE_CREATE;
}

/* Commits the first `count` ops and refuses the rest. */
static void commit(slow_store *s, size_t count)
{
    if (s->refuses == TF_REFUSAL_NONE) {
        commit_part(s, 0, count);
    }
    for (size_t i = 0; i < s->group->count; i++) {
        tf_store_op *op = &s->group->ops[i];
        if (i < count && passes(s, op)) {
            commit_part(s, i, 1);
        } else if (i >= count || s->refuses != TF_REFUSAL_NONE) {
            op->outcome = i < count ? s->refuses : TF_REFUSAL_STORE_FULL;
        }
    }
    s->group = NULL;
    s->due = TF_NEVER;
}

static bool slow_poll(void *ctx, tf_store_event_type *out)
{
    slow_store *s = ctx;
    if (s->reads_wait && s->now >= s->reads_due) {
        s->reads_wait = false;
        *out = TF_STORE_READ_READY;
        return true;
    }
    if (s->group == NULL || s->now < s->due) {
        return false;
    }
    size_t count = s->group->count;
    if (tf_test_random_chance(s->random, s->refusals, 1000)) {
        count = (size_t)tf_test_random_below(s->random, count);
    }
    commit(s, count);
    *out = TF_STORE_GROUP_DONE;
    return true;
}

static tf_err slow_channel_find(void *ctx, tf_slice name, tf_store_channel *out)
{
    slow_store *s = ctx;
    return s->inner.table->channel_find(s->inner.ctx, name, out);
}

static bool slow_channel_next(void *ctx, uint64_t *position, tf_store_channel *out)
{
    slow_store *s = ctx;
    return s->inner.table->channel_next(s->inner.ctx, position, out);
}

static tf_err slow_find(void *ctx, uint64_t channel, const tf_node_id *origin, tf_slice client_id, tf_store_key *out)
{
    slow_store *s = ctx;
    return s->inner.table->find(s->inner.ctx, channel, origin, client_id, out);
}

static tf_store_presence slow_read(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out)
{
    slow_store *s = ctx;
    if (tf_test_random_chance(s->random, s->later, 1000)) {
        if (!s->reads_wait) {
            s->reads_wait = true;
            s->reads_due = s->now + 1 + tf_test_random_below(s->random, 5 * TF_MS);
        }
        return TF_STORE_LATER;
    }
    return s->inner.table->read(s->inner.ctx, channel, seq, out);
}

static uint64_t slow_find_time(void *ctx, uint64_t channel, int64_t timestamp_ms)
{
    slow_store *s = ctx;
    return s->inner.table->find_time(s->inner.ctx, channel, timestamp_ms);
}

static uint64_t slow_find_bytes(void *ctx, uint64_t channel, uint64_t bytes)
{
    slow_store *s = ctx;
    return s->inner.table->find_bytes(s->inner.ctx, channel, bytes);
}

static tf_err slow_cursor_find(void *ctx, uint64_t channel, const tf_node_id *owner, tf_slice name, tf_store_cursor *out)
{
    slow_store *s = ctx;
    return s->inner.table->cursor_find(s->inner.ctx, channel, owner, name, out);
}

static bool slow_cursor_next(void *ctx, uint64_t channel, size_t *position, tf_store_cursor *out)
{
    slow_store *s = ctx;
    return s->inner.table->cursor_next(s->inner.ctx, channel, position, out);
}

static bool slow_damage_next(void *ctx, size_t *position, tf_store_damage *out)
{
    slow_store *s = ctx;
    return s->inner.table->damage_next(s->inner.ctx, position, out);
}

static void slow_get_stats(void *ctx, tf_store_stats *out)
{
    slow_store *s = ctx;
    s->inner.table->get_stats(s->inner.ctx, out);
    if (s->refuses != TF_REFUSAL_NONE) {
        out->state = s->refuses == TF_REFUSAL_STORE_FULL ? TF_STORE_FULL : TF_STORE_UNAVAILABLE;
    }
}

void slow_init(slow_store *s, tf_test_random *random, const tf_mem *mem)
{
    tf_memory_store_config config = {.mem = mem, .hash_key = tf_test_random_u64(random)};
    *s = (slow_store){.random = random, .due = TF_NEVER};
    tf_err err = tf_memory_store_new(&s->memory, &config);
    TF_ASSERT(err == TF_OK);
    s->inner = tf_memory_store_get(s->memory);
}

void slow_free(slow_store *s)
{
    tf_memory_store_free(s->memory);
}

tf_store slow_get(slow_store *s)
{
    static const tf_store_table table = {
        .submit = slow_submit,
        .poll = slow_poll,
        .channel_find = slow_channel_find,
        .channel_next = slow_channel_next,
        .find = slow_find,
        .read = slow_read,
        .find_time = slow_find_time,
        .find_bytes = slow_find_bytes,
        .cursor_find = slow_cursor_find,
        .cursor_next = slow_cursor_next,
        .damage_next = slow_damage_next,
        .get_stats = slow_get_stats,
    };
    return (tf_store){&table, s};
}

tf_time slow_deadline(const slow_store *s)
{
    return tf_time_min(s->group == NULL ? TF_NEVER : s->due, s->reads_wait ? s->reads_due : TF_NEVER);
}

void slow_crash(slow_store *s)
{
    if (s->group != NULL) {
        bool survives = tf_test_random_chance(s->random, 1, 2);
        commit(s, survives ? s->group->count : 0);
    }
    s->reads_wait = false;
}
