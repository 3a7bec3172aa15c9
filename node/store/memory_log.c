#include "node/store/memory_log.h"

#include <xxhash.h>

#define PAGE 256u       /* messages */
#define LARGE 2048u     /* texts of so many bytes are blocks of their own, so that a few do not keep a page's worth */
#define RECORD_COST 64u /* what a record takes beside itself: its place in the page and in the keys */

struct tf_memlog_page {
    tf_arena records;
    tf_arena texts;     /* the small ones */
    size_t text_bytes;  /* in it */
    size_t record_bytes;
    tf_memlog_entry *at[PAGE];
};

/* -- keys ---------------------------------------------------------------------------------------------------------- */

void tf_memkeys_init(tf_memkeys *keys, const tf_mem *mem, uint64_t hash_key)
{
    keys->hash_key = hash_key;
    for (size_t i = 0; i < TF_KEY_SHARDS; i++) {
        tf_map_init(&keys->shards[i], mem, hash_key);
    }
}

void tf_memkeys_clear(tf_memkeys *keys)
{
    for (size_t i = 0; i < TF_KEY_SHARDS; i++) {
        tf_map_clear(&keys->shards[i]);
    }
}

/* A tuple, each part of a fixed length or at the end, so that no two tuples have the same bytes. */
static uint64_t hash_key(const tf_memkeys *keys, uint64_t channel, const tf_node_id *origin, tf_slice client_id)
{
    uint8_t bytes[sizeof(channel) + TF_NODE_ID_LEN + TF_CLIENT_ID_MAX];
    TF_ASSERT(client_id.len <= TF_CLIENT_ID_MAX);
    memcpy(bytes, &channel, sizeof(channel));
    memcpy(bytes + sizeof(channel), origin->bytes, TF_NODE_ID_LEN);
    memcpy(bytes + sizeof(channel) + TF_NODE_ID_LEN, client_id.data, client_id.len);
    return XXH3_64bits_withSeed(bytes, sizeof(channel) + TF_NODE_ID_LEN + client_id.len, keys->hash_key);
}

/* The upper bits: the table places by a hash of all. */
static tf_map *shard_of(tf_memkeys *keys, uint64_t hash)
{
    return &keys->shards[hash >> 58];
}

const tf_memlog_entry *tf_memkeys_find(tf_memkeys *keys, uint64_t channel, const tf_node_id *origin, tf_slice client_id)
{
    uint64_t hash = hash_key(keys, channel, origin, client_id);
    for (tf_chain *at = tf_chain_first(shard_of(keys, hash), hash); at != NULL; at = at->next) {
        const tf_memlog_entry *record = TF_CONTAINER(at, tf_memlog_entry, same_hash);
        if (record->channel == channel && tf_node_id_eq(&record->origin, origin) &&
            tf_slice_eq(tf_slice_of(record->client_id, record->client_id_len), client_id)) {
            return record;
        }
    }
    return NULL;
}

/* -- pages --------------------------------------------------------------------------------------------------------- */

void tf_memlog_init(tf_memlog *log, const tf_mem *mem)
{
    *log = (tf_memlog){.mem = mem, .first = 1, .texts_from = 1, .keys_from = 1};
}

static tf_memlog_page *page_of(const tf_memlog *log, uint64_t seq)
{
    return log->pages[log->begin + (size_t)((seq - 1) / PAGE - log->base)];
}

static tf_memlog_entry *record_at(const tf_memlog *log, uint64_t seq)
{
    return page_of(log, seq)->at[(seq - 1) % PAGE];
}

static size_t text_len(const tf_memlog_entry *record)
{
    return (size_t)record->meta_len + record->body_len;
}

/* Room in the table for one more page: what was freed at its begin is used again before it grows. */
static bool reserve_place(tf_memlog *log)
{
    size_t count = log->end - log->begin;
    if (log->end < log->capacity) {
        return true;
    }
    size_t capacity = count < log->capacity / 2 ? log->capacity : log->capacity == 0 ? 4 : log->capacity * 2;
    tf_memlog_page **pages = tf_alloc(log->mem, capacity * sizeof(*pages));
    if (pages == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        pages[i] = log->pages[log->begin + i];
    }
    tf_free(log->mem, log->pages, log->capacity * sizeof(*pages));
    log->pages = pages;
    log->capacity = capacity;
    log->begin = 0;
    log->end = count;
    return true;
}

/* The page of head + 1. NULL: no memory. One that was made for an append that then failed is found again. */
static tf_memlog_page *reserve_page(tf_memlog *log)
{
    uint64_t index = log->head / PAGE;
    if (log->begin < log->end && index < log->base + (log->end - log->begin)) {
        return page_of(log, log->head + 1);
    }
    tf_memlog_page *page = reserve_place(log) ? tf_alloc(log->mem, sizeof(*page)) : NULL;
    if (page == NULL) {
        return NULL;
    }
    *page = (tf_memlog_page){.text_bytes = 0};
    tf_arena_init(&page->records, log->mem);
    tf_arena_init(&page->texts, log->mem);
    if (log->begin == log->end) {
        log->base = index;
    }
    log->pages[log->end++] = page;
    return page;
}

static void free_page(tf_memlog *log, tf_memlog_page *page)
{
    log->used -= page->record_bytes + page->text_bytes;
    tf_arena_clear(&page->records);
    tf_arena_clear(&page->texts);
    tf_free(log->mem, page, sizeof(*page));
}

static void free_text(tf_memlog *log, tf_memlog_entry *record)
{
    if (record->text != NULL && text_len(record) >= LARGE) {
        log->used -= text_len(record);
        tf_free(log->mem, record->text, text_len(record));
    }
    record->text = NULL;
}

void tf_memlog_clear(tf_memlog *log)
{
    for (uint64_t seq = log->texts_from; seq <= log->head; seq++) {
        free_text(log, record_at(log, seq));
    }
    for (; log->begin < log->end; log->begin++) {
        free_page(log, log->pages[log->begin]);
    }
    tf_free(log->mem, log->pages, log->capacity * sizeof(*log->pages));
    tf_memlog_init(log, log->mem);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

uint64_t tf_memlog_cost(const tf_stored *message)
{
    return sizeof(tf_memlog_entry) + RECORD_COST + tf_stored_bytes(message);
}

static uint8_t *take_text(const tf_memlog *log, tf_memlog_page *page, const tf_stored *message)
{
    size_t len = message->meta.len + message->body.len;
    uint8_t *text = len >= LARGE ? tf_alloc(log->mem, len) : tf_arena_take(&page->texts, len);
    if (text == NULL) {
        return NULL;
    }
    if (message->meta.len > 0) {
        memcpy(text, message->meta.data, message->meta.len);
    }
    if (message->body.len > 0) {
        memcpy(text + message->meta.len, message->body.data, message->body.len);
    }
    return text;
}

static void fill(tf_memlog_entry *record, const tf_stored *message)
{
    record->seq = message->seq;
    record->epoch = message->epoch;
    record->timestamp_ms = message->timestamp_ms;
    record->expires_ms = message->expires_ms;
    record->instance = message->instance;
    record->origin = message->origin;
    record->digest = tf_store_digest(message->body);
    record->client_id_len = (uint32_t)message->client_id.len;
    record->meta_len = (uint32_t)message->meta.len;
    record->body_len = (uint32_t)message->body.len;
    memcpy(record->client_id, message->client_id.data, message->client_id.len);
}

static void count_in(tf_memlog *log, tf_memlog_page *page, const tf_memlog_entry *record)
{
    size_t size = sizeof(*record) + RECORD_COST + record->client_id_len;
    page->record_bytes += size;
    page->text_bytes += text_len(record) < LARGE ? text_len(record) : 0;
    log->used += size + text_len(record);
    log->appended += (uint64_t)record->client_id_len + text_len(record);
    log->timestamp_ms = record->timestamp_ms;
    log->head = record->seq;
}

bool tf_memlog_append(tf_memlog *log, tf_memkeys *keys, uint64_t channel, const tf_stored *message)
{
    TF_ASSERT(message->seq == log->head + 1);
    uint64_t hash = hash_key(keys, channel, &message->origin, message->client_id);
    tf_map *shard = shard_of(keys, hash);
    tf_memlog_page *page = reserve_page(log);
    if (page == NULL || tf_map_reserve(shard, 1) != TF_OK) {
        return false;
    }
    uint8_t *text = take_text(log, page, message);
    if (text == NULL) {
        return false;
    }
    tf_memlog_entry *record = tf_arena_take(&page->records, sizeof(*record) + message->client_id.len);
    if (record == NULL) {
        size_t len = message->meta.len + message->body.len;
        if (len >= LARGE) {
            tf_free(log->mem, text, len);
        }
        return false;
    }
    fill(record, message);
    record->channel = channel;
    record->text = text;
    record->before = log->appended;
    record->hash = hash;
    tf_err err = tf_chain_add(shard, hash, &record->same_hash);
    TF_ASSERT(err == TF_OK); /* there was room */
    page->at[(message->seq - 1) % PAGE] = record;
    count_in(log, page, record);
    return true;
}

/* The texts before first go: large ones singly, small ones with their page. */
static void tidy_texts(tf_memlog *log, size_t *budget)
{
    for (; log->texts_from < log->first && *budget > 0; *budget -= 1) {
        tf_memlog_page *page = page_of(log, log->texts_from);
        free_text(log, record_at(log, log->texts_from));
        log->texts_from++;
        if ((log->texts_from - 1) % PAGE == 0 || log->texts_from > log->head) {
            log->used -= page->text_bytes;
            page->text_bytes = 0;
            tf_arena_clear(&page->texts);
        }
    }
}

static bool has_old_key(const tf_memlog *log)
{
    return log->keys_from <= log->head && record_at(log, log->keys_from)->timestamp_ms < log->keys_since_ms;
}

bool tf_memlog_tidy(tf_memlog *log, tf_memkeys *keys, size_t budget)
{
    tidy_texts(log, &budget);
    for (; budget > 0 && has_old_key(log); budget--) {
        tf_memlog_entry *record = record_at(log, log->keys_from);
        tf_chain_remove(shard_of(keys, record->hash), record->hash, &record->same_hash);
        log->keys_from++;
    }
    uint64_t needed = log->texts_from < log->keys_from ? log->texts_from : log->keys_from;
    while (log->begin < log->end && (log->base + 1) * PAGE < needed) {
        free_page(log, log->pages[log->begin]);
        log->begin++;
        log->base++;
    }
    return log->texts_from < log->first || has_old_key(log);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

void tf_memlog_read(const tf_memlog *log, uint64_t seq, tf_stored *out)
{
    const tf_memlog_entry *record = record_at(log, seq);
    *out = (tf_stored){.seq = record->seq,
                       .epoch = record->epoch,
                       .timestamp_ms = record->timestamp_ms,
                       .expires_ms = record->expires_ms,
                       .origin = record->origin,
                       .instance = record->instance,
                       .client_id = tf_slice_of(record->client_id, record->client_id_len),
                       .meta = tf_slice_of(record->text, record->meta_len),
                       .body = tf_slice_of(record->text + record->meta_len, record->body_len)};
}

static uint64_t bytes_from(const tf_memlog *log, uint64_t seq)
{
    return seq > log->head ? 0 : log->appended - record_at(log, seq)->before;
}

uint64_t tf_memlog_bytes(const tf_memlog *log)
{
    return bytes_from(log, log->first);
}

uint64_t tf_memlog_find_time(const tf_memlog *log, int64_t timestamp_ms)
{
    uint64_t low = log->first;
    uint64_t high = log->head + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (record_at(log, middle)->timestamp_ms < timestamp_ms) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t tf_memlog_find_bytes(const tf_memlog *log, uint64_t bytes)
{
    uint64_t low = log->first;
    uint64_t high = log->head + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (bytes_from(log, middle) > bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
