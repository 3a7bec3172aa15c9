#include "node/store/memory.h"

#include <xxhash.h>

#include "node/store/arena.h"
#include "proto/map.h"

#define CHANNEL_COST 256u /* what a channel takes beside its name, index included */
#define ENTRY_COST 64u    /* the same for a message, beside the entry */
#define PAGE_ENTRIES 1024u /* messages of a channel are found by pages of them, so that a long one is not moved when it grows */
#define KEY_SHARDS 64u    /* tables that share the keys: one grows at a time, so nobody waits for a large one to be moved */

/* One message: client id, meta and body follow. */
typedef struct entry {
    struct entry *same_hash;
    uint64_t channel;
    uint64_t seq;
    uint64_t epoch;
    int64_t timestamp_ms;
    int64_t expires_ms;
    uint64_t instance;
    tf_node_id origin;
    uint32_t client_id_len;
    uint32_t meta_len;
    uint32_t body_len;
    uint8_t bytes[];
} entry;

typedef struct cursor {
    struct cursor *next;
    tf_store_cursor position;
    uint8_t name[TF_CURSOR_NAME_MAX];
} cursor;

typedef struct channel {
    struct channel *same_hash;
    uint64_t number;
    uint64_t epoch;
    bool closed;
    uint64_t first; /* the oldest seq that is kept */
    int64_t keys_since_ms;
    uint64_t bytes; /* of what is kept */
    cursor *cursors;
    size_t cursor_count;
    uint64_t refused_in; /* the last group in which an append was refused */
    entry ***pages; /* [(seq - 1) / PAGE_ENTRIES][(seq - 1) % PAGE_ENTRIES] */
    size_t count;   /* of messages */
    size_t capacity; /* of pages */
    size_t name_len;
    uint8_t name[TF_CHANNEL_NAME_MAX];
} channel;

struct tf_memory_store {
    tf_memory_store_config config;
    tf_map names;       /* hash -> channel, chained by same_hash */
    tf_map keys[KEY_SHARDS]; /* hash -> entry, chained by same_hash */
    tf_arena arena;          /* the entries */
    channel **channels; /* [number - 1] */
    size_t channel_count;
    size_t channel_capacity;
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

/* A tuple, each part of a fixed length or at the end, so that no two tuples have the same bytes. */
static uint64_t hash_key(const tf_memory_store *memory, uint64_t number, const tf_node_id *origin, tf_slice client_id)
{
    uint8_t bytes[sizeof(number) + TF_NODE_ID_LEN + TF_CLIENT_ID_MAX];
    TF_ASSERT(client_id.len <= TF_CLIENT_ID_MAX);
    memcpy(bytes, &number, sizeof(number));
    memcpy(bytes + sizeof(number), origin->bytes, TF_NODE_ID_LEN);
    memcpy(bytes + sizeof(number) + TF_NODE_ID_LEN, client_id.data, client_id.len);
    return XXH3_64bits_withSeed(bytes, sizeof(number) + TF_NODE_ID_LEN + client_id.len, memory->config.hash_key);
}

/* The upper bits: the table places by a hash of all. */
static tf_map *shard_of(tf_memory_store *memory, uint64_t hash)
{
    return &memory->keys[hash >> 58];
}

static void *map_pointer(const tf_map *map, uint64_t key)
{
    uint64_t value = 0;
    return tf_map_get(map, key, &value) ? (void *)(uintptr_t)value : NULL;
}

static tf_slice entry_client_id(const entry *e)
{
    return tf_slice_of(e->bytes, e->client_id_len);
}

static size_t entry_size(const tf_stored *m)
{
    return sizeof(entry) + m->client_id.len + m->meta.len + m->body.len;
}

static channel *channel_by_name(const tf_memory_store *memory, tf_slice name)
{
    channel *c = map_pointer(&memory->names, hash_name(memory, name));
    while (c != NULL && !tf_slice_eq(tf_slice_of(c->name, c->name_len), name)) {
        c = c->same_hash;
    }
    return c;
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

static size_t pages_of(const channel *c)
{
    return (c->count + PAGE_ENTRIES - 1) / PAGE_ENTRIES;
}

static entry *entry_at(const channel *c, size_t index)
{
    return c->pages[index / PAGE_ENTRIES][index % PAGE_ENTRIES];
}

/* A place for one more. A page that was made for an append that then failed is found again. */
static bool grow_entries(tf_memory_store *memory, channel *c)
{
    size_t pages = pages_of(c);
    if (c->count % PAGE_ENTRIES != 0) {
        return true;
    }
    void *array = c->pages;
    bool ok = grow(memory->config.mem, &array, pages, &c->capacity);
    c->pages = array;
    if (ok && c->pages[pages] == NULL) {
        c->pages[pages] = tf_alloc(memory->config.mem, PAGE_ENTRIES * sizeof(entry *));
    }
    return ok && c->pages[pages] != NULL;
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
    *c = (channel){.number = memory->channel_count + 1, .epoch = op->epoch, .first = 1, .name_len = op->name.len};
    memcpy(c->name, op->name.data, op->name.len);
    uint64_t hash = hash_name(memory, op->name);
    c->same_hash = map_pointer(&memory->names, hash);
    if (tf_map_put(&memory->names, hash, (uintptr_t)c) != TF_OK) {
        tf_free(memory->config.mem, c, sizeof(*c));
        return TF_REFUSAL_STORE_FULL;
    }
    memory->channels[memory->channel_count++] = c;
    memory->bytes += cost;
    op->channel = c->number;
    return TF_REFUSAL_NONE;
}

static void fill(entry *e, uint64_t number, const tf_stored *m)
{
    e->channel = number;
    e->seq = m->seq;
    e->epoch = m->epoch;
    e->timestamp_ms = m->timestamp_ms;
    e->expires_ms = m->expires_ms;
    e->instance = m->instance;
    e->origin = m->origin;
    e->client_id_len = (uint32_t)m->client_id.len;
    e->meta_len = (uint32_t)m->meta.len;
    e->body_len = (uint32_t)m->body.len;
    memcpy(e->bytes, m->client_id.data, m->client_id.len);
    if (m->meta.len > 0) {
        memcpy(e->bytes + m->client_id.len, m->meta.data, m->meta.len);
    }
    if (m->body.len > 0) {
        memcpy(e->bytes + m->client_id.len + m->meta.len, m->body.data, m->body.len);
    }
}

static tf_refusal append(tf_memory_store *memory, const tf_store_op *op)
{
    const tf_stored *m = &op->message;
    channel *c = channel_by_number(memory, op->channel);
    size_t size = entry_size(m);
    if (c->refused_in == memory->groups || memory->bytes + size + ENTRY_COST > memory->config.bytes_max ||
        !grow_entries(memory, c)) {
        c->refused_in = memory->groups;
        memory->full = true;
        return TF_REFUSAL_STORE_FULL;
    }
    TF_ASSERT(m->seq == c->count + 1);
    uint64_t hash = hash_key(memory, op->channel, &m->origin, m->client_id);
    tf_map *keys = shard_of(memory, hash);
    entry *e = tf_map_reserve(keys, 1) == TF_OK ? tf_arena_take(&memory->arena, size) : NULL;
    if (e == NULL) {
        c->refused_in = memory->groups;
        memory->full = true;
        return TF_REFUSAL_STORE_FULL;
    }
    fill(e, op->channel, m);
    e->same_hash = map_pointer(keys, hash);
    tf_err err = tf_map_put(keys, hash, (uintptr_t)e);
    TF_ASSERT(err == TF_OK); /* there was room */
    c->pages[c->count / PAGE_ENTRIES][c->count % PAGE_ENTRIES] = e;
    c->count++;
    c->bytes += tf_stored_bytes(m);
    memory->messages++;
    memory->bytes += size + ENTRY_COST;
    memory->full = false;
    return TF_REFUSAL_NONE;
}

static uint64_t bytes_of(const entry *e)
{
    return (uint64_t)e->client_id_len + e->meta_len + e->body_len;
}

static void trim(channel *c, uint64_t seq)
{
    TF_ASSERT(seq <= c->count + 1);
    for (; c->first < seq; c->first++) {
        c->bytes -= bytes_of(entry_at(c, (size_t)c->first - 1));
    }
}

/* Where the pointer to that cursor is, or would be. */
static cursor **cursor_place(channel *c, const tf_node_id *owner, tf_slice name)
{
    cursor **at = &c->cursors;
    while (*at != NULL &&
           !(tf_node_id_eq(&(*at)->position.owner, owner) && tf_slice_eq((*at)->position.name, name))) {
        at = &(*at)->next;
    }
    return at;
}

static tf_refusal set_cursor(tf_memory_store *memory, const tf_store_op *op)
{
    channel *c = channel_by_number(memory, op->channel);
    cursor **at = cursor_place(c, &op->cursor.owner, op->cursor.name);
    cursor *found = *at;
    if (op->cursor.next == 0) {
        if (found != NULL) {
            *at = found->next;
            c->cursor_count--;
            memory->bytes -= sizeof(*found);
            tf_free(memory->config.mem, found, sizeof(*found));
        }
        return TF_REFUSAL_NONE;
    }
    if (found == NULL) {
        found = c->cursor_count < TF_CURSORS_PER_CHANNEL ? tf_alloc(memory->config.mem, sizeof(*found)) : NULL;
        if (found == NULL) {
            return TF_REFUSAL_STORE_FULL;
        }
        TF_ASSERT(op->cursor.name.len <= sizeof(found->name));
        memcpy(found->name, op->cursor.name.data, op->cursor.name.len);
        found->next = NULL;
        *at = found;
        c->cursor_count++;
        memory->bytes += sizeof(*found);
    }
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
        trim(channel_by_number(memory, op->channel), op->seq);
        return TF_REFUSAL_NONE;
    case TF_STORE_FORGET: {
        channel *c = channel_by_number(memory, op->channel);
        c->keys_since_ms = op->time_ms > c->keys_since_ms ? op->time_ms : c->keys_since_ms;
        return TF_REFUSAL_NONE;
    }
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
        group->ops[i].outcome = change(memory, &group->ops[i]);
    }
    memory->group_done = true;
}

static bool memory_poll(void *ctx, tf_store_event_type *out)
{
    tf_memory_store *memory = ctx;
    bool done = memory->group_done;
    memory->group_done = false;
    *out = TF_STORE_GROUP_DONE;
    return done;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static void describe(const channel *c, tf_store_channel *out)
{
    *out = (tf_store_channel){.number = c->number,
                              .epoch = c->epoch,
                              .first = c->first,
                              .head = c->count,
                              .timestamp_ms = c->count == 0 ? 0 : entry_at(c, c->count - 1)->timestamp_ms,
                              .keys_since_ms = c->keys_since_ms,
                              .bytes = c->bytes,
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

static tf_slice entry_body(const entry *e)
{
    return tf_slice_of(e->bytes + e->client_id_len + e->meta_len, e->body_len);
}

static void stored_of(const entry *e, tf_stored *out)
{
    *out = (tf_stored){.seq = e->seq,
                       .epoch = e->epoch,
                       .timestamp_ms = e->timestamp_ms,
                       .expires_ms = e->expires_ms,
                       .origin = e->origin,
                       .instance = e->instance,
                       .client_id = entry_client_id(e),
                       .meta = tf_slice_of(e->bytes + e->client_id_len, e->meta_len),
                       .body = entry_body(e)};
}

static tf_err memory_find(void *ctx, uint64_t number, const tf_node_id *origin, tf_slice client_id,
                          tf_store_key *out)
{
    tf_memory_store *memory = ctx;
    uint64_t hash = hash_key(memory, number, origin, client_id);
    const entry *e = map_pointer(shard_of(memory, hash), hash);
    while (e != NULL && !(e->channel == number && tf_node_id_eq(&e->origin, origin) &&
                          tf_slice_eq(entry_client_id(e), client_id))) {
        e = e->same_hash;
    }
    if (e == NULL || e->timestamp_ms < channel_by_number(memory, number)->keys_since_ms) {
        return TF_ERR_CLOSED;
    }
    *out = (tf_store_key){e->seq, e->epoch, e->timestamp_ms, tf_store_digest(entry_body(e))};
    return TF_OK;
}

static tf_store_presence memory_read(void *ctx, uint64_t number, uint64_t seq, tf_stored *out)
{
    const channel *c = channel_by_number(ctx, number);
    TF_ASSERT(seq >= 1 && seq <= c->count);
    if (seq < c->first) {
        out->seq = c->first;
        return TF_STORE_GONE;
    }
    stored_of(entry_at(c, seq - 1), out);
    return TF_STORE_HERE;
}

static uint64_t memory_find_time(void *ctx, uint64_t number, int64_t timestamp_ms)
{
    const channel *c = channel_by_number(ctx, number);
    size_t low = (size_t)c->first - 1;
    size_t high = c->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (entry_at(c, middle)->timestamp_ms < timestamp_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low + 1;
}

static uint64_t memory_find_bytes(void *ctx, uint64_t number, uint64_t bytes)
{
    const channel *c = channel_by_number(ctx, number);
    uint64_t sum = 0;
    uint64_t seq = c->count + 1;
    while (seq > c->first) {
        sum += bytes_of(entry_at(c, (size_t)seq - 2));
        if (sum > bytes) {
            break;
        }
        seq--;
    }
    return seq;
}

static tf_err memory_cursor_find(void *ctx, uint64_t number, const tf_node_id *owner, tf_slice name,
                                 tf_store_cursor *out)
{
    const cursor *found = *cursor_place(channel_by_number(ctx, number), owner, name);
    if (found == NULL) {
        return TF_ERR_CLOSED;
    }
    *out = found->position;
    return TF_OK;
}

static bool memory_cursor_next(void *ctx, uint64_t number, size_t *position, tf_store_cursor *out)
{
    const cursor *at = channel_by_number(ctx, number)->cursors;
    for (size_t i = 0; at != NULL && i < *position; i++) {
        at = at->next;
    }
    if (at == NULL) {
        return false;
    }
    *out = at->position;
    (*position)++;
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
    tf_arena_init(&memory->arena, config->mem);
    for (size_t i = 0; i < KEY_SHARDS; i++) {
        tf_map_init(&memory->keys[i], config->mem, config->hash_key);
    }
    *out = memory;
    return TF_OK;
}

static void free_channel(const tf_mem *mem, channel *c)
{
    for (size_t i = 0; i < c->capacity; i++) {
        tf_free(mem, c->pages[i], PAGE_ENTRIES * sizeof(entry *));
    }
    tf_free(mem, c->pages, c->capacity * sizeof(*c->pages));
    while (c->cursors != NULL) {
        cursor *next = c->cursors->next;
        tf_free(mem, c->cursors, sizeof(*c->cursors));
        c->cursors = next;
    }
    tf_free(mem, c, sizeof(*c));
}

void tf_memory_store_free(tf_memory_store *memory)
{
    if (memory == NULL) {
        return;
    }
    const tf_mem *mem = memory->config.mem;
    for (size_t i = 0; i < memory->channel_count; i++) {
        free_channel(mem, memory->channels[i]);
    }
    tf_free(mem, memory->channels, memory->channel_capacity * sizeof(*memory->channels));
    tf_map_clear(&memory->names);
    for (size_t i = 0; i < KEY_SHARDS; i++) {
        tf_map_clear(&memory->keys[i]);
    }
    tf_arena_clear(&memory->arena);
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
