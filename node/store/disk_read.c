/* Reading: from the tail, or from blocks of the index, which the reader thread fetches. Finding: by key, time, size. */
#include <errno.h>

#include "node/edge_mem.h"
#include "node/store/disk_internal.h"

/* -- the cache of blocks ------------------------------------------------------------------------------------------- */

static bool holds(const tf_disk_cached *cached, uint64_t channel, uint64_t seq)
{
    return cached->block != NULL && cached->channel == channel && tf_db_block_first(cached->block) <= seq &&
           seq <= tf_db_block_last(cached->block);
}

static tf_disk_cached *find_cached(tf_disk_store *store, tf_catalog_channel *channel, uint64_t seq)
{
    uint64_t number = channel->state.number;
    if (channel->recent < TF_DISK_CACHE_BLOCKS && holds(&store->cached[channel->recent], number, seq)) {
        return &store->cached[channel->recent];
    }
    for (size_t i = 0; i < TF_DISK_CACHE_BLOCKS; i++) {
        if (holds(&store->cached[i], number, seq)) {
            channel->recent = i;
            return &store->cached[i];
        }
    }
    return NULL;
}

static void drop_cached(tf_disk_store *store, tf_disk_cached *cached)
{
    store->cached_bytes -= tf_db_block_size(cached->block);
    tf_db_block_free(cached->block);
    cached->block = NULL;
}

void tf_disk_cache_clear(tf_disk_store *store)
{
    for (size_t i = 0; i < TF_DISK_CACHE_BLOCKS; i++) {
        if (store->cached[i].block != NULL) {
            drop_cached(store, &store->cached[i]);
        }
    }
}

/* A free place; the one that was not used for the longest time is given up for it, and more of them for their bytes. */
static tf_disk_cached *cache_place(tf_disk_store *store, size_t bytes)
{
    for (;;) {
        tf_disk_cached *free_place = NULL;
        tf_disk_cached *oldest = NULL;
        for (size_t i = 0; i < TF_DISK_CACHE_BLOCKS; i++) {
            tf_disk_cached *at = &store->cached[i];
            if (at->block == NULL) {
                free_place = at;
            } else if (oldest == NULL || at->used < oldest->used) {
                oldest = at;
            }
        }
        bool fits = store->cached_bytes + bytes <= store->config.cache_bytes || oldest == NULL;
        if (free_place != NULL && fits) {
            return free_place;
        }
        drop_cached(store, oldest);
    }
}

static void cache(tf_disk_store *store, tf_db_block *block)
{
    size_t bytes = tf_db_block_size(block);
    tf_disk_cached *place = cache_place(store, bytes);
    *place = (tf_disk_cached){block, tf_db_block_channel(block), ++store->reads};
    store->cached_bytes += bytes;
}

/* -- fetches ------------------------------------------------------------------------------------------------------- */

static bool is_free(const tf_disk_fetch *fetch)
{
    return fetch->channel == 0;
}

/* Asks the reader, unless it was asked, or has too much to do: then the caller comes again all the same. */
static void request(tf_disk_store *store, uint64_t channel, uint64_t seq)
{
    tf_disk_fetch *place = NULL;
    (void)pthread_mutex_lock(&store->mutex);
    for (size_t i = 0; i < TF_DISK_READS; i++) {
        tf_disk_fetch *fetch = &store->fetches[i];
        if (is_free(fetch)) {
            place = fetch;
        } else if (fetch->channel == channel && fetch->seq == seq) {
            (void)pthread_mutex_unlock(&store->mutex);
            return;
        }
    }
    if (place != NULL) {
        *place = (tf_disk_fetch){.channel = channel, .seq = seq};
        (void)pthread_cond_signal(&store->to_reader);
    }
    (void)pthread_mutex_unlock(&store->mutex);
}

static void take_fetch(tf_disk_store *store, const tf_disk_fetch *fetch)
{
    tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, fetch->channel);
    if (fetch->err == TF_OK) {
        cache(store, fetch->block);
        return;
    }
    if (channel == NULL || (fetch->err != TF_ERR_CLOSED && fetch->err != TF_ERR_DAMAGED)) {
        return; /* asked for again */
    }
    /* What is not in the index and not trimmed is lost, up to where the tail begins. */
    uint64_t tail = tf_catalog_tail_first(channel);
    uint64_t first = fetch->gap.first > channel->state.first ? fetch->gap.first : channel->state.first;
    uint64_t last = fetch->gap.last < tail - 1 ? fetch->gap.last : tail - 1;
    if (first <= last) {
        tf_catalog_add_damage(&store->catalog, &(tf_store_damage){fetch->channel, first, last});
    }
}

bool tf_disk_take_fetches(tf_disk_store *store)
{
    tf_disk_fetch done[TF_DISK_READS];
    size_t count = 0;
    (void)pthread_mutex_lock(&store->mutex);
    atomic_store(&store->reads_done, false);
    for (size_t i = 0; i < TF_DISK_READS; i++) {
        if (!is_free(&store->fetches[i]) && store->fetches[i].done) {
            done[count++] = store->fetches[i];
            store->fetches[i].channel = 0;
        }
    }
    (void)pthread_mutex_unlock(&store->mutex);
    for (size_t i = 0; i < count; i++) {
        take_fetch(store, &done[i]);
    }
    return count > 0;
}

/* The next one that nobody has taken; NULL: none. The mutex is held. */
static tf_disk_fetch *next_fetch(tf_disk_store *store)
{
    for (size_t i = 0; i < TF_DISK_READS; i++) {
        tf_disk_fetch *fetch = &store->fetches[i];
        if (!is_free(fetch) && !fetch->taken) {
            return fetch;
        }
    }
    return NULL;
}

/* A disk that cannot be read just now is not asked without a break. The mutex is held. */
static void pause_reading(tf_disk_store *store)
{
    int64_t until = tf_disk_now_ms() + TF_DISK_RETRY_MS;
    while (!store->stop && tf_disk_now_ms() < until) {
        tf_disk_wait(store, &store->to_reader, until);
    }
}

void *tf_disk_reader_main(void *ctx)
{
    tf_disk_store *store = ctx;
    (void)pthread_mutex_lock(&store->mutex);
    while (!store->stop) {
        tf_disk_fetch *fetch = next_fetch(store);
        if (fetch == NULL) {
            tf_disk_wait(store, &store->to_reader, INT64_MAX);
            continue;
        }
        fetch->taken = true;
        uint64_t channel = fetch->channel;
        uint64_t seq = fetch->seq;
        (void)pthread_mutex_unlock(&store->mutex);
        tf_db_block *block = NULL;
        tf_db_gap gap = {seq, seq};
        tf_err err = tf_db_load(store->read_db, channel, seq, &block, &gap);
        (void)pthread_mutex_lock(&store->mutex);
        if (err != TF_OK && err != TF_ERR_CLOSED && err != TF_ERR_DAMAGED) {
            pause_reading(store); /* it will be asked for again */
        }
        fetch->err = err;
        fetch->block = block;
        fetch->gap = gap;
        fetch->done = true;
        atomic_store(&store->reads_done, true);
        tf_disk_notify(store);
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return NULL;
}

/* -- one message --------------------------------------------------------------------------------------------------- */

tf_store_presence tf_disk_read(void *ctx, uint64_t number, uint64_t seq, tf_stored *out)
{
    tf_disk_store *store = ctx;
    tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
    TF_ASSERT(channel != NULL && seq >= 1 && seq <= channel->state.head);
    if (seq < channel->state.first) {
        out->seq = channel->state.first;
        return TF_STORE_GONE;
    }
    const tf_tail_entry *entry = tf_catalog_tail(channel, seq);
    if (entry != NULL) {
        tf_tail_read(entry, out);
        return TF_STORE_HERE;
    }
    tf_disk_cached *cached = find_cached(store, channel, seq);
    if (cached != NULL) {
        cached->used = ++store->reads;
        bool found = tf_db_block_message(cached->block, seq, out);
        TF_ASSERT(found);
        return TF_STORE_HERE;
    }
    const tf_store_damage *damage = tf_catalog_damage_at(&store->catalog, number, seq);
    if (damage != NULL) {
        out->seq = damage->last + 1;
        return TF_STORE_DAMAGED;
    }
    request(store, number, seq);
    return TF_STORE_LATER;
}

/* -- keys ---------------------------------------------------------------------------------------------------------- */

static bool is_surely_new(const tf_disk_store *store, uint64_t hash)
{
    return store->old_keys_ready && !tf_key_filter_may_hold(&store->new_keys, hash) &&
           !tf_key_filter_may_hold(&store->old_keys, hash);
}

tf_err tf_disk_find(void *ctx, uint64_t number, const tf_node_id *origin, tf_slice client_id, tf_store_key *out)
{
    tf_disk_store *store = ctx;
    const tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
    uint64_t hash = tf_catalog_key_hash(&store->catalog, number, origin, client_id);
    TF_ASSERT(channel != NULL);
    store->old_keys_ready = store->old_keys_ready || atomic_load(&store->old_keys_filled);
    if (is_surely_new(store, hash)) {
        return TF_ERR_CLOSED;
    }
    tf_err err = tf_catalog_find(&store->catalog, channel, origin, client_id, hash, out);
    if (err == TF_ERR_CLOSED) {
        err = tf_db_find_key(store->find_db, number, origin, client_id, out);
    }
    if (err == TF_OK && out->timestamp_ms < channel->state.keys_since_ms) {
        return TF_ERR_CLOSED;
    }
    return err == TF_OK || err == TF_ERR_CLOSED ? err : TF_ERR_IO;
}

/* Fills the filter with the keys that the index had at the start, then ends. Without it (no memory, a damaged part)
 * keys are looked up. */
void *tf_disk_filler_main(void *ctx)
{
    tf_disk_store *store = ctx;
    char path[TF_DISK_PATH_MAX];
    uint64_t position = 0;
    tf_db *db = NULL;
    tf_db_config config = {
        .path = tf_disk_index_path(store, path), .vfs = store->config.vfs, .read_only = true, .mem = tf_edge_mem()};
    tf_err err = tf_db_open(&db, &config, NULL);
    while (err == TF_OK && !atomic_load(&store->fill_stop)) {
        tf_db_keys *keys = NULL;
        err = tf_db_keys_load(db, &position, &keys);
        for (size_t i = 0; err == TF_OK && i < tf_db_keys_count(keys); i++) {
            tf_db_key key;
            tf_db_keys_get(keys, i, &key);
            tf_key_filter_insert(&store->old_keys,
                                 tf_catalog_key_hash(&store->catalog, key.channel, &key.origin, key.client_id));
        }
        tf_db_keys_free(keys);
    }
    tf_db_free(db);
    if (err == TF_ERR_CLOSED) {
        atomic_store(&store->old_keys_filled, true);
    }
    return NULL;
}

/* -- positions ----------------------------------------------------------------------------------------------------- */

/* Is that message of the tail, or the first behind it that is not lost, older? */
static bool is_older(const tf_catalog_channel *channel, uint64_t seq, int64_t timestamp_ms)
{
    tf_stored stored;
    for (; seq <= channel->state.head; seq++) {
        const tf_tail_entry *entry = tf_catalog_tail(channel, seq);
        if (entry != NULL) {
            tf_tail_read(entry, &stored);
            return stored.timestamp_ms < timestamp_ms;
        }
    }
    return false;
}

/* The first seq of the tail that is not older; head + 1: all are. */
static uint64_t tail_time(const tf_catalog_channel *channel, int64_t timestamp_ms)
{
    uint64_t low = tf_catalog_tail_first(channel);
    uint64_t high = channel->state.head + 1;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (is_older(channel, middle, timestamp_ms)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* What the index cannot say just now is taken for kept: what is asked for here decides what is trimmed. */
static uint64_t unless_unknown(const tf_catalog_channel *channel, tf_err err, uint64_t seq)
{
    return err == TF_OK || err == TF_ERR_CLOSED ? seq : channel->state.first;
}

uint64_t tf_disk_find_time(void *ctx, uint64_t number, int64_t timestamp_ms)
{
    tf_disk_store *store = ctx;
    const tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
    TF_ASSERT(channel != NULL);
    uint64_t tail = tf_catalog_tail_first(channel);
    uint64_t seq = tail_time(channel, timestamp_ms);
    uint64_t found = seq;
    if (seq == tail && channel->state.first < tail) {
        tf_err err = tf_db_find_time(store->find_db, number, timestamp_ms, &found);
        seq = err == TF_OK ? (found < tail ? found : tail) : unless_unknown(channel, err, seq);
    }
    return seq > channel->state.first ? seq : channel->state.first;
}

/* Bytes of the tail from that seq on. */
static uint64_t tail_bytes_from(const tf_catalog_channel *channel, uint64_t from)
{
    uint64_t sum = 0;
    uint64_t seq = tf_catalog_tail_first(channel);
    for (seq = from > seq ? from : seq; seq <= channel->state.head; seq++) {
        const tf_tail_entry *entry = tf_catalog_tail(channel, seq);
        tf_stored stored;
        if (entry != NULL) {
            tf_tail_read(entry, &stored);
            sum += tf_stored_bytes(&stored);
        }
    }
    return sum;
}

/* The channel as the index knows it. TF_ERR_CLOSED: not at all. */
static tf_err indexed(tf_disk_store *store, uint64_t number, tf_store_channel *out)
{
    uint64_t position = number - 1;
    tf_err err = tf_db_channel_next(store->find_db, &position, out);
    return err == TF_OK && out->number != number ? TF_ERR_CLOSED : err;
}

void tf_disk_measure(tf_disk_store *store, tf_catalog_channel *channel)
{
    tf_store_channel found;
    if (channel->measure_at == 0 || atomic_load(&store->applied_lsn) < channel->measure_at) {
        return;
    }
    if (indexed(store, channel->state.number, &found) == TF_OK) {
        channel->state.bytes = found.bytes + tail_bytes_from(channel, found.head + 1);
        channel->measure_at = 0;
    }
}

/* *seq is where the tail begins, and is moved to where it fits together with a part of the index. */
static tf_err find_indexed_bytes(tf_disk_store *store, const tf_catalog_channel *channel, uint64_t bytes, uint64_t *seq)
{
    uint64_t number = channel->state.number;
    for (;;) {
        tf_store_channel before;
        tf_store_channel after;
        uint64_t found = 0;
        tf_err err = indexed(store, number, &before);
        uint64_t newer = err == TF_OK ? tail_bytes_from(channel, before.head + 1) : 0;
        if (err != TF_OK || newer > bytes) {
            return err;
        }
        err = tf_db_find_bytes(store->find_db, number, bytes - newer, &found);
        if (err == TF_OK) {
            err = indexed(store, number, &after);
        }
        if (err != TF_OK) {
            return err;
        }
        if (after.head == before.head) { /* else the applier was in between */
            *seq = found < *seq ? found : *seq;
            return TF_OK;
        }
    }
}

uint64_t tf_disk_find_bytes(void *ctx, uint64_t number, uint64_t bytes)
{
    tf_disk_store *store = ctx;
    const tf_catalog_channel *channel = tf_catalog_by_number(&store->catalog, number);
    TF_ASSERT(channel != NULL);
    uint64_t tail = tf_catalog_tail_first(channel);
    uint64_t seq = channel->state.head + 1;
    uint64_t left = bytes;
    while (seq > tail && seq > channel->state.first) {
        const tf_tail_entry *entry = tf_catalog_tail(channel, seq - 1);
        tf_stored stored = {.seq = 0};
        if (entry != NULL) {
            tf_tail_read(entry, &stored);
        }
        if (tf_stored_bytes(&stored) > left) {
            return seq;
        }
        left -= tf_stored_bytes(&stored);
        seq--;
    }
    if (seq == tail && seq > channel->state.first) {
        tf_err err = find_indexed_bytes(store, channel, bytes, &seq);
        seq = unless_unknown(channel, err, seq);
    }
    return seq > channel->state.first ? seq : channel->state.first;
}
