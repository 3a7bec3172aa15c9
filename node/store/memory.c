#include "node/store/memory.h"

#include <xxhash.h>

#include "node/list.h"
#include "node/store/memory_log.h"

#define CHANNEL_COST 256u /* what a channel takes beside its name, index included */
/* Messages that are tidied away: by an op that trims or forgets, by another, by a poll. */
#define TIDY_OWN 65536u
#define TIDY_OP 64u
#define TIDY_POLL 1024u

typedef struct cursor {
    tf_store_cursor position;
    uint8_t name[TF_CURSOR_NAME_MAX];
} cursor;

typedef struct channel {
    tf_chain same_hash;
    tf_list_node in_untidy; /* there is more to give back than one op was to */
    uint64_t number;
    uint64_t epoch;
    bool closed;
    cursor **cursors;
    size_t cursor_count;
    size_t cursor_capacity;
    uint64_t refused_in; /* the last group in which an append was refused */
    tf_memlog log;
    size_t name_len;
    uint8_t name[TF_CHANNEL_NAME_MAX];
} channel;

struct tf_memory_store {
    tf_memory_store_config config;
    tf_map names; /* hash -> channel, chained by same_hash */
    tf_memkeys keys;
    channel **channels; /* [number - 1] */
    size_t channel_count;
    size_t channel_capacity;
    tf_list untidy;
    uint64_t messages;
    uint64_t bytes;
    uint64_t groups;
    bool full;
    bool group_done; /* submitted, not polled yet */
};

static uint64_t hash_name(const tf_memory_store *memory, tf_slice name)
{
    return XXH3_64bits_withSeed(name.data, name.len, memory->config.hash_key);
}

static channel *channel_by_name(const tf_memory_store *memory, tf_slice name)
{
    for (tf_chain *at = tf_chain_first(&memory->names, hash_name(memory, name)); at != NULL; at = at->next) {
        channel *c = TF_CONTAINER(at, channel, same_hash);
        if (tf_slice_eq(tf_slice_of(c->name, c->name_len), name)) {
            return c;
        }
    }
    return NULL;
}

static channel *channel_by_number(const tf_memory_store *memory, uint64_t number)
{
    TF_ASSERT(number >= 1 && number <= memory->channel_count);
    return memory->channels[number - 1];
}

/* Makes *array (of pointers) larger if it is full. */
static bool grow(const tf_mem *mem, void **array, size_t count, size_t *capacity)
{
    if (count < *capacity) {
        return true;
    }
    size_t wanted = *capacity == 0 ? 8 : *capacity * 2;
    void *larger = tf_alloc(mem, wanted * sizeof(void *));
    if (larger == NULL) {
        return false;
    }
    if (count > 0) {
        memcpy(larger, *array, count * sizeof(void *));
    }
    tf_free(mem, *array, *capacity * sizeof(void *));
    *array = larger;
    *capacity = wanted;
    return true;
}

static bool grow_channels(tf_memory_store *memory)
{
    void *array = memory->channels;
    bool ok = grow(memory->config.mem, &array, memory->channel_count, &memory->channel_capacity);
    memory->channels = array;
    return ok;
}

static bool grow_cursors(const tf_memory_store *memory, channel *c)
{
    void *array = c->cursors;
    bool ok = grow(memory->config.mem, &array, c->cursor_count, &c->cursor_capacity);
    c->cursors = array;
    return ok;
}

/* -- what is given back -------------------------------------------------------------------------------------------- */

static void tidy(tf_memory_store *memory, channel *c, size_t budget)
{
    uint64_t before = c->log.used;
    bool more = tf_memlog_tidy(&c->log, &memory->keys, budget);
    memory->bytes -= before - c->log.used;
    if (!more) {
        tf_list_remove(&c->in_untidy);
    } else if (!tf_list_has(&c->in_untidy)) {
        tf_list_append(&memory->untidy, &c->in_untidy);
    }
}

static void tidy_some(tf_memory_store *memory, size_t budget)
{
    tf_list_node *node = tf_list_first(&memory->untidy);
    if (node != NULL) {
        tidy(memory, TF_CONTAINER(node, channel, in_untidy), budget);
    }
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

static tf_refusal create(tf_memory_store *memory, tf_store_op *op)
{
    uint64_t cost = CHANNEL_COST + op->name.len;
    TF_ASSERT(op->name.len <= TF_CHANNEL_NAME_MAX && channel_by_name(memory, op->name) == NULL);
    if (memory->channel_count >= memory->config.channels_max || memory->bytes + cost > memory->config.bytes_max ||
        !grow_channels(memory)) {
        return TF_REFUSAL_STORE_FULL;
    }
    channel *c = tf_alloc(memory->config.mem, sizeof(*c));
    if (c == NULL) {
        return TF_REFUSAL_STORE_FULL;
    }
    *c = (channel){.number = memory->channel_count + 1, .epoch = op->epoch, .name_len = op->name.len};
    tf_memlog_init(&c->log, memory->config.mem);
    memcpy(c->name, op->name.data, op->name.len);
    if (tf_chain_add(&memory->names, hash_name(memory, op->name), &c->same_hash) != TF_OK) {
        tf_free(memory->config.mem, c, sizeof(*c));
        return TF_REFUSAL_STORE_FULL;
    }
    memory->channels[memory->channel_count++] = c;
    memory->bytes += cost;
    op->channel = c->number;
    return TF_REFUSAL_NONE;
}

static tf_refusal append(tf_memory_store *memory, const tf_store_op *op)
{
    channel *c = channel_by_number(memory, op->channel);
    uint64_t before = c->log.used;
    bool fits = c->refused_in != memory->groups &&
                memory->bytes + tf_memlog_cost(&op->message) <= memory->config.bytes_max;
    if (!fits || !tf_memlog_append(&c->log, &memory->keys, c->number, &op->message)) {
        c->refused_in = memory->groups;
        memory->full = true;
        return TF_REFUSAL_STORE_FULL;
    }
    memory->messages++;
    memory->bytes += c->log.used - before;
    memory->full = false;
    return TF_REFUSAL_NONE;
}

static void trim(tf_memory_store *memory, channel *c, uint64_t seq)
{
    TF_ASSERT(seq >= 1 && seq <= c->log.head + 1);
    if (seq > c->log.first) {
        memory->messages -= seq - c->log.first;
        c->log.first = seq;
    }
    tidy(memory, c, TIDY_OWN);
}

static void forget(tf_memory_store *memory, channel *c, int64_t time_ms)
{
    if (time_ms > c->log.keys_since_ms) {
        c->log.keys_since_ms = time_ms;
    }
    tidy(memory, c, TIDY_OWN);
}

/* Its index; the number of cursors when there is none. */
static size_t find_cursor(const channel *c, const tf_node_id *owner, tf_slice name)
{
    size_t i = 0;
    while (i < c->cursor_count && !(tf_node_id_eq(&c->cursors[i]->position.owner, owner) &&
                                    tf_slice_eq(c->cursors[i]->position.name, name))) {
        i++;
    }
    return i;
}

static void delete_cursor(tf_memory_store *memory, channel *c, size_t index)
{
    if (index < c->cursor_count) {
        tf_free(memory->config.mem, c->cursors[index], sizeof(cursor));
        c->cursors[index] = c->cursors[--c->cursor_count];
        memory->bytes -= sizeof(cursor);
    }
}

static tf_refusal set_cursor(tf_memory_store *memory, const tf_store_op *op)
{
    channel *c = channel_by_number(memory, op->channel);
    size_t index = find_cursor(c, &op->cursor.owner, op->cursor.name);
    if (op->cursor.next == 0) {
        delete_cursor(memory, c, index);
        return TF_REFUSAL_NONE;
    }
    if (index == c->cursor_count) {
        bool fits = c->cursor_count < TF_CURSORS_PER_CHANNEL && grow_cursors(memory, c);
        cursor *made = fits ? tf_alloc(memory->config.mem, sizeof(*made)) : NULL;
        if (made == NULL) {
            return TF_REFUSAL_STORE_FULL;
        }
        TF_ASSERT(op->cursor.name.len <= sizeof(made->name));
        memcpy(made->name, op->cursor.name.data, op->cursor.name.len);
        c->cursors[c->cursor_count++] = made;
        memory->bytes += sizeof(*made);
    }
    cursor *found = c->cursors[index];
    found->position = op->cursor;
    found->position.name = tf_slice_of(found->name, op->cursor.name.len);
    return TF_REFUSAL_NONE;
}

static tf_refusal change(tf_memory_store *memory, tf_store_op *op)
{
    switch (op->kind) {
    case TF_STORE_CREATE:
        return create(memory, op);
    case TF_STORE_APPEND:
        return append(memory, op);
    case TF_STORE_CLOSE:
        channel_by_number(memory, op->channel)->closed = true;
        return TF_REFUSAL_NONE;
    case TF_STORE_TRIM:
        trim(memory, channel_by_number(memory, op->channel), op->seq);
        return TF_REFUSAL_NONE;
    case TF_STORE_FORGET:
        forget(memory, channel_by_number(memory, op->channel), op->time_ms);
        return TF_REFUSAL_NONE;
    case TF_STORE_EPOCH:
        channel_by_number(memory, op->channel)->epoch = op->epoch;
        return TF_REFUSAL_NONE;
    case TF_STORE_CURSOR:
        return set_cursor(memory, op);
    }
    TF_UNREACHABLE();
}

static void memory_submit(void *ctx, tf_store_group *group)
{
    tf_memory_store *memory = ctx;
    TF_ASSERT(!memory->group_done);
    memory->groups++;
    for (size_t i = 0; i < group->count; i++) {
        tidy_some(memory, TIDY_OP);
        group->ops[i].outcome = change(memory, &group->ops[i]);
    }
    memory->group_done = true;
}

static bool memory_poll(void *ctx, tf_store_event_type *out)
{
    tf_memory_store *memory = ctx;
    bool done = memory->group_done;
    tidy_some(memory, TIDY_POLL);
    memory->group_done = false;
    *out = TF_STORE_GROUP_DONE;
    return done;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static void describe(const channel *c, tf_store_channel *out)
{
    *out = (tf_store_channel){.number = c->number,
                              .epoch = c->epoch,
                              .first = c->log.first,
                              .head = c->log.head,
                              .timestamp_ms = c->log.timestamp_ms,
                              .keys_since_ms = c->log.keys_since_ms,
                              .bytes = tf_memlog_bytes(&c->log),
                              .closed = c->closed,
                              .name = tf_slice_of(c->name, c->name_len)};
}

static tf_err memory_channel_find(void *ctx, tf_slice name, tf_store_channel *out)
{
    const channel *c = channel_by_name(ctx, name);
    if (c == NULL) {
        return TF_ERR_CLOSED;
    }
    describe(c, out);
    return TF_OK;
}

static bool memory_channel_next(void *ctx, uint64_t *position, tf_store_channel *out)
{
    tf_memory_store *memory = ctx;
    if (*position >= memory->channel_count) {
        return false;
    }
    describe(memory->channels[*position], out); /* numbers are dense from 1 */
    (*position)++;
    return true;
}

static tf_err memory_find(void *ctx, uint64_t number, const tf_node_id *origin, tf_slice client_id, tf_store_key *out)
{
    tf_memory_store *memory = ctx;
    const tf_memlog_entry *record = tf_memkeys_find(&memory->keys, number, origin, client_id);
    if (record == NULL || record->timestamp_ms < channel_by_number(memory, number)->log.keys_since_ms) {
        return TF_ERR_CLOSED;
    }
    *out = (tf_store_key){record->seq, record->epoch, record->timestamp_ms, record->digest};
    return TF_OK;
}

static tf_store_presence memory_read(void *ctx, uint64_t number, uint64_t seq, tf_stored *out)
{
    const channel *c = channel_by_number(ctx, number);
    TF_ASSERT(seq >= 1 && seq <= c->log.head);
    if (seq < c->log.first) {
        out->seq = c->log.first;
        return TF_STORE_GONE;
    }
    tf_memlog_read(&c->log, seq, out);
    return TF_STORE_HERE;
}

static uint64_t memory_find_time(void *ctx, uint64_t number, int64_t timestamp_ms)
{
    return tf_memlog_find_time(&channel_by_number(ctx, number)->log, timestamp_ms);
}

static uint64_t memory_find_bytes(void *ctx, uint64_t number, uint64_t bytes)
{
    return tf_memlog_find_bytes(&channel_by_number(ctx, number)->log, bytes);
}

static tf_err memory_cursor_find(void *ctx, uint64_t number, const tf_node_id *owner, tf_slice name,
                                 tf_store_cursor *out)
{
    const channel *c = channel_by_number(ctx, number);
    size_t index = find_cursor(c, owner, name);
    if (index == c->cursor_count) {
        return TF_ERR_CLOSED;
    }
    *out = c->cursors[index]->position;
    return TF_OK;
}

static bool memory_cursor_next(void *ctx, uint64_t number, size_t *position, tf_store_cursor *out)
{
    const channel *c = channel_by_number(ctx, number);
    if (*position >= c->cursor_count) {
        return false;
    }
    *out = c->cursors[(*position)++]->position;
    return true;
}

/* Memory is not damaged. */
static bool memory_damage_next(void *ctx, size_t *position, tf_store_damage *out)
{
    (void)ctx;
    (void)position;
    (void)out;
    return false;
}

static void memory_get_stats(void *ctx, tf_store_stats *out)
{
    const tf_memory_store *memory = ctx;
    *out = (tf_store_stats){.channels = memory->channel_count,
                            .messages = memory->messages,
                            .bytes = memory->bytes,
                            .bytes_max = memory->config.bytes_max,
                            .groups = memory->groups,
                            .state = memory->full ? TF_STORE_FULL : TF_STORE_WRITABLE};
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

tf_err tf_memory_store_new(tf_memory_store **out, const tf_memory_store_config *config)
{
    tf_memory_store *memory = tf_alloc(config->mem, sizeof(*memory));
    if (memory == NULL) {
        return TF_ERR_NOMEM;
    }
    *memory = (tf_memory_store){.config = *config};
    if (config->bytes_max == 0) {
        memory->config.bytes_max = TF_STORE_MEMORY_BYTES;
    }
    if (config->channels_max == 0) {
        memory->config.channels_max = TF_CHANNELS_MAX;
    }
    tf_map_init(&memory->names, config->mem, config->hash_key);
    tf_memkeys_init(&memory->keys, config->mem, config->hash_key);
    tf_list_init(&memory->untidy);
    *out = memory;
    return TF_OK;
}

static void free_channel(const tf_mem *mem, channel *c)
{
    tf_memlog_clear(&c->log);
    for (size_t i = 0; i < c->cursor_count; i++) {
        tf_free(mem, c->cursors[i], sizeof(cursor));
    }
    tf_free(mem, c->cursors, c->cursor_capacity * sizeof(*c->cursors));
    tf_free(mem, c, sizeof(*c));
}

void tf_memory_store_free(tf_memory_store *memory)
{
    if (memory == NULL) {
        return;
    }
    const tf_mem *mem = memory->config.mem;
    tf_memkeys_clear(&memory->keys);
    for (size_t i = 0; i < memory->channel_count; i++) {
        free_channel(mem, memory->channels[i]);
    }
    tf_free(mem, memory->channels, memory->channel_capacity * sizeof(*memory->channels));
    tf_map_clear(&memory->names);
    tf_free(mem, memory, sizeof(*memory));
}

tf_store tf_memory_store_get(tf_memory_store *memory)
{
    static const tf_store_table table = {
        .submit = memory_submit,
        .poll = memory_poll,
        .channel_find = memory_channel_find,
        .channel_next = memory_channel_next,
        .find = memory_find,
        .read = memory_read,
        .find_time = memory_find_time,
        .find_bytes = memory_find_bytes,
        .cursor_find = memory_cursor_find,
        .cursor_next = memory_cursor_next,
        .damage_next = memory_damage_next,
        .get_stats = memory_get_stats,
    };
    return (tf_store){&table, memory};
}
