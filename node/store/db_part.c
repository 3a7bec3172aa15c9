#include "node/store/db_part.h"

#include <xxhash.h>

#include "proto/wire.h"

#define PART_VERSION 1u
#define SUM_LEN 8u
#define ENTRY_MAX (6u * 8u + 8u + TF_NODE_ID_LEN + 1u + TF_CLIENT_ID_MAX)
#define ORIGINS_MAX 256u /* that are remembered; one that is met later is written again */

uint64_t tf_db_entry_hash(uint64_t secret, uint64_t channel, const tf_node_id *origin, tf_slice client_id)
{
    /* Each part of the tuple has a fixed length or is at the end, so that no two tuples have the same bytes. */
    uint8_t bytes[sizeof(channel) + TF_NODE_ID_LEN + TF_CLIENT_ID_MAX];
    TF_ASSERT(client_id.len <= TF_CLIENT_ID_MAX);
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_wr_u64(&w, channel);
    tf_wr_bytes(&w, tf_slice_of(origin->bytes, TF_NODE_ID_LEN));
    tf_wr_bytes(&w, client_id);
    return XXH3_64bits_withSeed(bytes, tf_wr_len(&w), secret);
}

bool tf_db_entry_is_same(const tf_db_entry *a, const tf_db_entry *b)
{
    return a->hash == b->hash && a->channel == b->channel && memcmp(a->origin, b->origin, TF_NODE_ID_LEN) == 0 &&
           tf_slice_eq(a->client_id, b->client_id);
}

size_t tf_db_part_room(size_t count)
{
    return 1u + count * ENTRY_MAX + SUM_LEN;
}

/* The origins met so far in a part. */
typedef struct known {
    size_t count;
    const uint8_t *origin[ORIGINS_MAX];
} known;

static void write_origin(tf_writer *w, known *k, const uint8_t *origin)
{
    size_t i = 0;
    while (i < k->count && memcmp(k->origin[i], origin, TF_NODE_ID_LEN) != 0) {
        i++;
    }
    tf_wr_var(w, i);
    if (i == k->count) {
        tf_wr_bytes(w, tf_slice_of(origin, TF_NODE_ID_LEN));
        k->count += k->count < ORIGINS_MAX - 1 ? 1u : 0u;
        k->origin[i] = origin;
    }
}

size_t tf_db_part_write(const tf_db_entry *entries, size_t count, uint8_t *out, size_t cap)
{
    known k;
    k.count = 0;
    tf_writer w;
    tf_wr_init(&w, out, cap);
    tf_wr_u8(&w, PART_VERSION);
    for (size_t i = 0; i < count; i++) {
        const tf_db_entry *e = &entries[i];
        TF_ASSERT(i == 0 || entries[i - 1].hash <= e->hash);
        tf_wr_u64(&w, e->hash);
        tf_wr_u64(&w, e->key.seq);
        tf_wr_u64(&w, e->key.epoch);
        tf_wr_u64(&w, (uint64_t)e->key.timestamp_ms);
        tf_wr_u64(&w, e->key.digest);
        tf_wr_u64(&w, e->channel);
        write_origin(&w, &k, e->origin);
        tf_wr_u8(&w, (uint8_t)e->client_id.len);
        tf_wr_bytes(&w, e->client_id);
    }
    tf_wr_u64(&w, XXH3_64bits(out, tf_wr_len(&w)));
    TF_ASSERT(tf_wr_ok(&w));
    return tf_wr_len(&w);
}

tf_err tf_db_entries_add(tf_db_entries *entries, const tf_db_entry *entry)
{
    if (entries->count == entries->capacity) {
        size_t capacity = entries->capacity == 0 ? 4 * (size_t)TF_DB_PART_KEYS : entries->capacity * 2;
        tf_db_entry *larger = tf_alloc(entries->mem, capacity * sizeof(*larger));
        if (larger == NULL) {
            return TF_ERR_NOMEM;
        }
        if (entries->count > 0) {
            memcpy(larger, entries->at, entries->count * sizeof(*larger));
        }
        tf_free(entries->mem, entries->at, entries->capacity * sizeof(*larger));
        entries->at = larger;
        entries->capacity = capacity;
    }
    entries->at[entries->count++] = *entry;
    return TF_OK;
}

void tf_db_entries_clear(tf_db_entries *entries)
{
    tf_free(entries->mem, entries->at, entries->capacity * sizeof(*entries->at));
    *entries = (tf_db_entries){.mem = entries->mem};
}

static void read_origin(tf_reader *r, known *k, tf_db_entry *e)
{
    size_t i = tf_rd_len(r, k->count);
    if (i == k->count) {
        k->origin[i] = tf_rd_bytes(r, TF_NODE_ID_LEN).data;
        k->count += k->count < ORIGINS_MAX - 1 ? 1u : 0u;
    }
    e->origin = k->origin[i];
}

static void read_entry(tf_reader *r, known *k, tf_db_entry *e)
{
    e->hash = tf_rd_u64(r);
    e->key.seq = tf_rd_u64(r);
    e->key.epoch = tf_rd_u64(r);
    e->key.timestamp_ms = (int64_t)tf_rd_u64(r);
    e->key.digest = tf_rd_u64(r);
    e->channel = tf_rd_u64(r);
    read_origin(r, k, e);
    e->client_id = tf_rd_bytes(r, tf_rd_u8(r));
    if (e->client_id.len > TF_CLIENT_ID_MAX) {
        tf_rd_fail(r);
    }
}

/* A reader of the entries of a part whose sum is right. */
static bool open_part(tf_slice bytes, tf_reader *out)
{
    if (bytes.len < 1 + SUM_LEN) {
        return false;
    }
    tf_reader sum;
    tf_rd_init(&sum, tf_slice_of(bytes.data + bytes.len - SUM_LEN, SUM_LEN));
    tf_rd_init(out, tf_slice_of(bytes.data, bytes.len - SUM_LEN));
    return tf_rd_u64(&sum) == XXH3_64bits(bytes.data, bytes.len - SUM_LEN) && tf_rd_u8(out) == PART_VERSION;
}

tf_err tf_db_part_read(tf_slice bytes, tf_db_entries *out)
{
    known k;
    k.count = 0;
    tf_reader r;
    if (!open_part(bytes, &r)) {
        return TF_ERR_DAMAGED;
    }
    tf_err err = TF_OK;
    while (err == TF_OK && tf_rd_left(&r) > 0) {
        tf_db_entry e;
        read_entry(&r, &k, &e);
        err = tf_rd_ok(&r) ? tf_db_entries_add(out, &e) : TF_ERR_DAMAGED;
    }
    return err == TF_OK && !tf_rd_ok(&r) ? TF_ERR_DAMAGED : err;
}

tf_err tf_db_part_find(tf_slice bytes, const tf_db_entry *wanted, tf_store_key *out)
{
    known k;
    k.count = 0;
    tf_reader r;
    if (!open_part(bytes, &r)) {
        return TF_ERR_DAMAGED;
    }
    while (tf_rd_left(&r) > 0) {
        tf_db_entry e;
        read_entry(&r, &k, &e);
        if (!tf_rd_ok(&r)) {
            return TF_ERR_DAMAGED;
        }
        if (tf_db_entry_is_same(&e, wanted)) {
            *out = e.key;
            return TF_OK;
        }
    }
    return tf_rd_ok(&r) ? TF_ERR_CLOSED : TF_ERR_DAMAGED;
}
