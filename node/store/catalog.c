#include "node/store/catalog.h"

#include <xxhash.h>

void tf_catalog_init(tf_catalog *catalog, const tf_mem *mem, uint64_t hash_key, uint64_t channels_max)
{
    *catalog = (tf_catalog){.mem = mem, .hash_key = hash_key, .channels_max = channels_max};
    tf_map_init(&catalog->names, mem, hash_key);
    tf_map_init(&catalog->keys, mem, hash_key);
}

static void free_channel(const tf_mem *mem, tf_catalog_channel *channel)
{
    while (channel->cursors != NULL) {
        tf_catalog_cursor *next = channel->cursors->next;
        tf_free(mem, channel->cursors, sizeof(*channel->cursors));
        channel->cursors = next;
    }
    tf_free(mem, channel->tail, channel->tail_capacity * sizeof(*channel->tail));
    tf_free(mem, channel, sizeof(*channel));
}

void tf_catalog_clear(tf_catalog *catalog)
{
    for (uint64_t number = 1; number <= catalog->last_number; number++) {
        if (catalog->channels[number - 1] != NULL) {
            free_channel(catalog->mem, catalog->channels[number - 1]);
        }
    }
    tf_free(catalog->mem, catalog->channels, catalog->channel_capacity * sizeof(*catalog->channels));
    tf_free(catalog->mem, catalog->damage, catalog->damage_capacity * sizeof(*catalog->damage));
    tf_map_clear(&catalog->names);
    tf_map_clear(&catalog->keys);
    *catalog = (tf_catalog){.mem = catalog->mem, .hash_key = catalog->hash_key};
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

static uint64_t hash_name(const tf_catalog *catalog, tf_slice name)
{
    return XXH3_64bits_withSeed(name.data, name.len, catalog->hash_key);
}

tf_catalog_channel *tf_catalog_by_name(const tf_catalog *catalog, tf_slice name)
{
    for (tf_chain *at = tf_chain_first(&catalog->names, hash_name(catalog, name)); at != NULL; at = at->next) {
        tf_catalog_channel *channel = TF_CONTAINER(at, tf_catalog_channel, same_hash);
        if (tf_slice_eq(channel->state.name, name)) {
            return channel;
        }
    }
    return NULL;
}

tf_catalog_channel *tf_catalog_by_number(const tf_catalog *catalog, uint64_t number)
{
    return number >= 1 && number <= catalog->last_number ? catalog->channels[number - 1] : NULL;
}

/* Room for the number, whatever lies between. */
static bool grow_channels(tf_catalog *catalog, uint64_t number)
{
    size_t wanted = catalog->channel_capacity == 0 ? 16 : catalog->channel_capacity;
    while (wanted < number) {
        wanted *= 2;
    }
    if (wanted == catalog->channel_capacity) {
        return true;
    }
    tf_catalog_channel **larger = tf_alloc(catalog->mem, wanted * sizeof(*larger));
    if (larger == NULL) {
        return false;
    }
    if (catalog->last_number > 0) {
        memcpy(larger, catalog->channels, (size_t)catalog->last_number * sizeof(*larger));
    }
    tf_free(catalog->mem, catalog->channels, catalog->channel_capacity * sizeof(*larger));
    catalog->channels = larger;
    catalog->channel_capacity = wanted;
    return true;
}

tf_err tf_catalog_add(tf_catalog *catalog, const tf_store_channel *state, tf_catalog_channel **out)
{
    if (catalog->channel_count >= catalog->channels_max || state->number > catalog->last_number + UINT32_MAX) {
        return TF_ERR_LIMIT_ITEMS;
    }
    TF_ASSERT(state->number >= 1 && state->name.len <= TF_CHANNEL_NAME_MAX);
    tf_catalog_channel *channel = grow_channels(catalog, state->number) ? tf_alloc(catalog->mem, sizeof(*channel)) : NULL;
    if (channel == NULL) {
        return TF_ERR_NOMEM;
    }
    *channel = (tf_catalog_channel){.state = *state};
    memcpy(channel->name, state->name.data, state->name.len);
    channel->state.name = tf_slice_of(channel->name, state->name.len);
    if (tf_chain_add(&catalog->names, hash_name(catalog, state->name), &channel->same_hash) != TF_OK) {
        tf_free(catalog->mem, channel, sizeof(*channel));
        return TF_ERR_NOMEM;
    }
    catalog->channels[state->number - 1] = channel;
    catalog->last_number = state->number > catalog->last_number ? state->number : catalog->last_number;
    catalog->channel_count++;
    catalog->messages += state->head + 1 - state->first;
    *out = channel;
    return TF_OK;
}

/* -- the tail ------------------------------------------------------------------------------------------------------ */

uint64_t tf_catalog_key_hash(const tf_catalog *catalog, uint64_t channel, const tf_node_id *origin, tf_slice client_id)
{
    /* A tuple, each part of a fixed length or at the end, so that no two tuples have the same bytes. */
    uint8_t bytes[sizeof(channel) + TF_NODE_ID_LEN + TF_CLIENT_ID_MAX];
    TF_ASSERT(client_id.len <= TF_CLIENT_ID_MAX);
    memcpy(bytes, &channel, sizeof(channel));
    memcpy(bytes + sizeof(channel), origin->bytes, TF_NODE_ID_LEN);
    memcpy(bytes + sizeof(channel) + TF_NODE_ID_LEN, client_id.data, client_id.len);
    return XXH3_64bits_withSeed(bytes, sizeof(channel) + TF_NODE_ID_LEN + client_id.len, catalog->hash_key);
}

void tf_tail_read(const tf_tail_entry *entry, tf_stored *out)
{
    tf_log_record record;
    tf_err err = tf_record_read_trusted(tf_slice_of(entry->record, entry->size), &record);
    TF_ASSERT(err == TF_OK && record.op.kind == TF_STORE_APPEND);
    *out = record.op.message;
}

uint64_t tf_catalog_tail_first(const tf_catalog_channel *channel)
{
    return channel->state.head + 1 - channel->tail_count;
}

const tf_tail_entry *tf_catalog_tail(const tf_catalog_channel *channel, uint64_t seq)
{
    uint64_t first = tf_catalog_tail_first(channel);
    if (seq < first || seq > channel->state.head) {
        return NULL;
    }
    size_t at = channel->tail_start + (size_t)(seq - first);
    return channel->tail[at & (channel->tail_capacity - 1)];
}

static bool grow_tail(const tf_catalog *catalog, tf_catalog_channel *channel, size_t extra)
{
    size_t wanted = channel->tail_capacity == 0 ? 8 : channel->tail_capacity;
    while (wanted < channel->tail_count + extra) {
        wanted *= 2;
    }
    if (wanted == channel->tail_capacity) {
        return true;
    }
    tf_tail_entry **larger = tf_alloc(catalog->mem, wanted * sizeof(*larger));
    if (larger == NULL) {
        return false;
    }
    for (size_t i = 0; i < channel->tail_count; i++) {
        larger[i] = channel->tail[(channel->tail_start + i) & (channel->tail_capacity - 1)];
    }
    tf_free(catalog->mem, channel->tail, channel->tail_capacity * sizeof(*larger));
    channel->tail = larger;
    channel->tail_capacity = wanted;
    channel->tail_start = 0;
    return true;
}

static void push(tf_catalog_channel *channel, tf_tail_entry *entry)
{
    size_t at = channel->tail_start + channel->tail_count;
    channel->tail[at & (channel->tail_capacity - 1)] = entry;
    channel->tail_count++;
}

/* The oldest of the channel's tail, and what was lost right before or behind it. */
static void pop(tf_catalog_channel *channel, const tf_tail_entry *entry)
{
    bool found = false;
    while (channel->tail_count > 0) {
        const tf_tail_entry *first = channel->tail[channel->tail_start & (channel->tail_capacity - 1)];
        if (first != NULL && found) {
            return;
        }
        TF_ASSERT(first == NULL || first == entry);
        found = found || first == entry;
        channel->tail_start = (channel->tail_start + 1) & (channel->tail_capacity - 1);
        channel->tail_count--;
    }
}

static bool is_key(const tf_tail_entry *entry, const tf_catalog_channel *channel, const tf_node_id *origin,
                   tf_slice client_id, tf_stored *out)
{
    if (entry->channel != channel) {
        return false;
    }
    tf_tail_read(entry, out);
    return tf_node_id_eq(&out->origin, origin) && tf_slice_eq(out->client_id, client_id);
}

tf_err tf_catalog_find(const tf_catalog *catalog, const tf_catalog_channel *channel, const tf_node_id *origin,
                       tf_slice client_id, uint64_t hash, tf_store_key *out)
{
    tf_stored stored;
    tf_chain *at = tf_chain_first(&catalog->keys, hash);
    while (at != NULL && !is_key(TF_CONTAINER(at, tf_tail_entry, same_hash), channel, origin, client_id, &stored)) {
        at = at->next; /* the newest comes first */
    }
    if (at == NULL) {
        return TF_ERR_CLOSED;
    }
    *out = (tf_store_key){stored.seq, stored.epoch, stored.timestamp_ms, tf_store_digest(stored.body)};
    return TF_OK;
}

static void index_key(tf_catalog *catalog, tf_tail_entry *entry)
{
    tf_err err = tf_chain_add(&catalog->keys, entry->hash, &entry->same_hash);
    TF_ASSERT(err == TF_OK); /* reserved */
}

/* -- cursors ------------------------------------------------------------------------------------------------------- */

tf_catalog_cursor **tf_catalog_cursor_place(tf_catalog_channel *channel, const tf_node_id *owner, tf_slice name)
{
    tf_catalog_cursor **at = &channel->cursors;
    while (*at != NULL &&
           !(tf_node_id_eq(&(*at)->position.owner, owner) && tf_slice_eq((*at)->position.name, name))) {
        at = &(*at)->next;
    }
    return at;
}

tf_err tf_catalog_set_cursor(tf_catalog *catalog, const tf_store_cursor *cursor)
{
    tf_catalog_channel *channel = tf_catalog_by_number(catalog, cursor->channel);
    if (channel == NULL || cursor->name.len > TF_CURSOR_NAME_MAX) {
        return TF_OK; /* of a channel that was lost */
    }
    tf_catalog_cursor **at = tf_catalog_cursor_place(channel, &cursor->owner, cursor->name);
    tf_catalog_cursor *found = *at;
    if (cursor->next == 0) {
        if (found != NULL) {
            *at = found->next;
            channel->cursor_count--;
            tf_free(catalog->mem, found, sizeof(*found));
        }
        return TF_OK;
    }
    if (found == NULL) {
        if (channel->cursor_count >= TF_CURSORS_PER_CHANNEL) {
            return TF_ERR_LIMIT_ITEMS;
        }
        found = tf_alloc(catalog->mem, sizeof(*found));
        if (found == NULL) {
            return TF_ERR_NOMEM;
        }
        memcpy(found->name, cursor->name.data, cursor->name.len);
        *at = found;
        channel->cursor_count++;
    }
    found->position = *cursor;
    found->position.name = tf_slice_of(found->name, cursor->name.len);
    return TF_OK;
}

/* -- damage -------------------------------------------------------------------------------------------------------- */

const tf_store_damage *tf_catalog_damage_at(const tf_catalog *catalog, uint64_t channel, uint64_t seq)
{
    for (size_t i = 0; i < catalog->damage_count; i++) {
        const tf_store_damage *damage = &catalog->damage[i];
        if (damage->channel == channel && damage->first <= seq && seq <= damage->last) {
            return damage;
        }
    }
    return NULL;
}

static bool grow_damage(tf_catalog *catalog)
{
    size_t wanted = catalog->damage_capacity == 0 ? 16 : catalog->damage_capacity * 2;
    if (catalog->damage_count < catalog->damage_capacity) {
        return true;
    }
    tf_store_damage *larger =
        wanted > TF_CATALOG_DAMAGE_MAX ? NULL : tf_alloc(catalog->mem, wanted * sizeof(*larger));
    if (larger == NULL) {
        return false;
    }
    if (catalog->damage_count > 0) {
        memcpy(larger, catalog->damage, catalog->damage_count * sizeof(*larger));
    }
    tf_free(catalog->mem, catalog->damage, catalog->damage_capacity * sizeof(*larger));
    catalog->damage = larger;
    catalog->damage_capacity = wanted;
    return true;
}

void tf_catalog_add_damage(tf_catalog *catalog, const tf_store_damage *damage)
{
    for (size_t i = 0; i < catalog->damage_count; i++) {
        tf_store_damage *known = &catalog->damage[i];
        if (known->channel == damage->channel && known->first <= damage->last + 1 && damage->first <= known->last + 1) {
            known->first = damage->first < known->first ? damage->first : known->first;
            known->last = damage->last > known->last ? damage->last : known->last;
            return;
        }
    }
    if (grow_damage(catalog)) {
        catalog->damage[catalog->damage_count++] = *damage;
    }
}

/* -- a committed block --------------------------------------------------------------------------------------------- */

/* What no log can have lost in a row: such a number is no message's, and the room for what would lie before it is not
 * taken. */
#define LOST_MAX ((uint64_t)1 << 24)

static tf_err apply_append(tf_catalog *catalog, tf_tail_entry *entry, const tf_stored *m, uint64_t number)
{
    tf_catalog_channel *channel = tf_catalog_by_number(catalog, number);
    /* its channel was lost, or it is there, or it cannot be */
    entry->is_void = channel == NULL || m->seq <= channel->state.head || m->seq - channel->state.head > LOST_MAX;
    if (entry->is_void) {
        return TF_OK;
    }
    uint64_t lost = m->seq - channel->state.head - 1;
    if (!grow_tail(catalog, channel, (size_t)lost + 1) || tf_map_reserve(&catalog->keys, 1) != TF_OK) {
        return TF_ERR_NOMEM;
    }
    if (lost > 0) {
        tf_catalog_add_damage(catalog, &(tf_store_damage){number, channel->state.head + 1, m->seq - 1});
    }
    for (uint64_t i = 0; i < lost; i++) {
        push(channel, NULL);
    }
    push(channel, entry);
    entry->is_message = true;
    entry->channel = channel;
    entry->hash = tf_catalog_key_hash(catalog, number, &m->origin, m->client_id);
    index_key(catalog, entry);
    channel->is_suspect = false;
    channel->state.head = m->seq;
    channel->state.timestamp_ms = m->timestamp_ms;
    channel->state.bytes += tf_stored_bytes(m);
    catalog->messages += lost + 1;
    return TF_OK;
}

static tf_err apply_create(tf_catalog *catalog, const tf_store_op *op)
{
    tf_catalog_channel *channel = NULL;
    tf_store_channel state = {.number = op->channel, .epoch = op->epoch, .first = 1, .name = op->name};
    return tf_catalog_add(catalog, &state, &channel);
}

static void apply_trim(tf_catalog *catalog, tf_catalog_channel *channel, uint64_t seq)
{
    uint64_t end = channel->state.head + 1;
    uint64_t to = seq < end ? seq : end;
    if (to > channel->state.first) {
        catalog->messages -= to - channel->state.first;
        channel->state.first = to;
    }
}

static tf_err apply_op(tf_catalog *catalog, tf_tail_entry *entry, const tf_store_op *op)
{
    tf_catalog_channel *channel = tf_catalog_by_number(catalog, op->channel);
    if (op->kind == TF_STORE_APPEND) {
        return apply_append(catalog, entry, &op->message, op->channel);
    }
    if (op->kind == TF_STORE_CREATE) {
        entry->is_void = channel != NULL || op->channel == 0 || op->channel >= TF_STORE_NUMBER_END ||
                         tf_catalog_by_name(catalog, op->name) != NULL;
        return entry->is_void ? TF_OK : apply_create(catalog, op);
    }
    entry->is_void = channel == NULL;
    if (channel == NULL) {
        return TF_OK;
    }
    if (op->kind == TF_STORE_CURSOR) {
        return tf_catalog_set_cursor(catalog, &op->cursor);
    }
    if (op->kind == TF_STORE_CLOSE) {
        channel->state.closed = true;
    } else if (op->kind == TF_STORE_TRIM) {
        apply_trim(catalog, channel, op->seq);
    } else if (op->kind == TF_STORE_FORGET) {
        channel->state.keys_since_ms =
            op->time_ms > channel->state.keys_since_ms ? op->time_ms : channel->state.keys_since_ms;
    } else {
        channel->state.epoch = op->epoch;
    }
    return TF_OK;
}

static void push_block(tf_catalog *catalog, tf_tail_block *block)
{
    block->next = NULL;
    if (catalog->newest == NULL) {
        catalog->oldest = block;
    } else {
        catalog->newest->next = block;
    }
    catalog->newest = block;
    catalog->tail_bytes += block->size;
}

tf_err tf_catalog_reserve(tf_catalog *catalog, tf_catalog_channel *channel)
{
    if (!grow_tail(catalog, channel, channel->reserved + 1)) {
        return TF_ERR_NOMEM;
    }
    tf_err err = tf_map_reserve(&catalog->keys, catalog->reserved + 1);
    channel->reserved += err == TF_OK ? 1u : 0u;
    catalog->reserved += err == TF_OK ? 1u : 0u;
    return err;
}

void tf_catalog_unreserve(tf_catalog *catalog, tf_catalog_channel *channel)
{
    catalog->reserved -= channel->reserved;
    channel->reserved = 0;
}

tf_err tf_catalog_apply(tf_catalog *catalog, tf_tail_block *block)
{
    tf_err result = TF_OK;
    push_block(catalog, block);
    for (size_t i = 0; i < block->count; i++) {
        tf_tail_entry *entry = &block->entries[i];
        tf_log_record record;
        tf_err err = tf_record_read_trusted(tf_slice_of(entry->record, entry->size), &record);
        TF_ASSERT(err == TF_OK);
        err = apply_op(catalog, entry, &record.op);
        result = err != TF_OK ? err : result;
    }
    return result;
}

tf_tail_block *tf_catalog_evict(tf_catalog *catalog)
{
    tf_tail_block *block = catalog->oldest;
    TF_ASSERT(block != NULL);
    for (size_t i = 0; i < block->count; i++) {
        tf_tail_entry *entry = &block->entries[i];
        if (entry->is_message) {
            tf_chain_remove(&catalog->keys, entry->hash, &entry->same_hash);
            pop(entry->channel, entry);
        }
    }
    catalog->oldest = block->next;
    catalog->newest = block->next == NULL ? NULL : catalog->newest;
    catalog->tail_bytes -= block->size;
    return block;
}
