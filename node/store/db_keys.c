/* All dedup keys in chunks by hash, which stays right while runs are merged; and counts of what there is. */
#include "node/store/db_internal.h"

#define CHUNK_PARTS_BITS 6u /* a chunk is about so many parts of a run that held all keys, as 1 << bits */

void tf_db_keys_free(tf_db_keys *keys)
{
    if (keys != NULL) {
        tf_db_entries_clear(&keys->entries);
        tf_free(keys->mem, keys->bytes.bytes, keys->bytes.capacity);
        tf_free(keys->mem, keys, sizeof(*keys));
    }
}

size_t tf_db_keys_count(const tf_db_keys *keys)
{
    return keys->entries.count;
}

void tf_db_keys_get(const tf_db_keys *keys, size_t index, tf_db_key *out)
{
    TF_ASSERT(index < keys->entries.count);
    const tf_db_entry *e = &keys->entries.at[index];
    out->channel = e->channel;
    memcpy(out->origin.bytes, e->origin, TF_NODE_ID_LEN);
    out->client_id = e->client_id;
}

/* The hashes of a chunk, both ends included. */
typedef struct range {
    uint64_t first;
    uint64_t last;
} range;

static range chunk_at(const tf_db_runs *runs, uint64_t position)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < runs->count; i++) {
        keys += runs->at[i].keys;
    }
    uint64_t bits = tf_db_run_bits(keys);
    bits -= bits < CHUNK_PARTS_BITS ? bits : CHUNK_PARTS_BITS;
    uint64_t last = bits == 0 ? UINT64_MAX : position | (UINT64_MAX >> bits);
    return (range){position, last};
}

/* The bytes of the parts first, since they move while others come. *damaged: some could not be read. */
static tf_err load_parts(tf_db *db, const tf_db_run *run, const range *r, tf_db_keys *keys, bool *damaged)
{
    tf_err err = TF_OK;
    uint64_t last = tf_db_run_part(run, r->last);
    for (uint64_t part = tf_db_run_part(run, r->first); part <= last && err == TF_OK; part++) {
        tf_slice bytes;
        db->read.len = 0;
        err = tf_db_part_load(db, run->first_part + part, &bytes);
        *damaged = *damaged || err == TF_ERR_DAMAGED;
        if (err == TF_OK) {
            err = tf_db_buffer_room(db, &keys->bytes, sizeof(uint32_t) + bytes.len);
        } else {
            err = err == TF_ERR_DAMAGED || err == TF_ERR_CLOSED ? TF_OK : err;
            continue;
        }
        if (err == TF_OK) {
            uint32_t len = (uint32_t)bytes.len;
            memcpy(keys->bytes.bytes + keys->bytes.len, &len, sizeof(len));
            memcpy(keys->bytes.bytes + keys->bytes.len + sizeof(len), bytes.data, len);
            keys->bytes.len += sizeof(len) + len;
        }
    }
    return err;
}

static tf_err read_parts(const range *r, tf_db_keys *keys, bool *damaged)
{
    tf_err err = TF_OK;
    for (size_t at = 0; at < keys->bytes.len && err == TF_OK;) {
        uint32_t len = 0;
        memcpy(&len, keys->bytes.bytes + at, sizeof(len));
        err = tf_db_part_read(tf_slice_of(keys->bytes.bytes + at + sizeof(len), len), &keys->entries);
        *damaged = *damaged || err == TF_ERR_DAMAGED;
        err = err == TF_ERR_DAMAGED ? TF_OK : err;
        at += sizeof(len) + len;
    }
    size_t kept = 0;
    for (size_t i = 0; i < keys->entries.count; i++) {
        if (keys->entries.at[i].hash >= r->first && keys->entries.at[i].hash <= r->last) {
            keys->entries.at[kept++] = keys->entries.at[i];
        }
    }
    keys->entries.count = kept;
    return err;
}

static tf_err load_chunk(tf_db *db, uint64_t *position, tf_db_keys *keys, bool *damaged)
{
    tf_db_runs runs;
    tf_err err = tf_db_runs_list(db, &runs);
    range r = chunk_at(&runs, *position);
    for (size_t i = 0; i < runs.count && err == TF_OK; i++) {
        if (tf_db_run_is_whole(&runs.at[i])) {
            err = load_parts(db, &runs.at[i], &r, keys, damaged);
        }
    }
    tf_db_runs_free(db, &runs);
    if (err == TF_OK) {
        err = read_parts(&r, keys, damaged);
    }
    if (err == TF_OK) {
        *position = r.last == UINT64_MAX ? UINT64_MAX : r.last + 1;
    }
    return err;
}

tf_err tf_db_keys_load(tf_db *db, uint64_t *position, tf_db_keys **out)
{
    *out = NULL;
    if (*position == UINT64_MAX) {
        return TF_ERR_CLOSED;
    }
    tf_db_keys *keys = tf_alloc(db->mem, sizeof(*keys));
    if (keys == NULL) {
        return TF_ERR_NOMEM;
    }
    keys->mem = db->mem;
    keys->entries.mem = db->mem;
    bool damaged = false;
    tf_err err = tf_db_begin(db, false);
    if (err == TF_OK) {
        err = tf_db_finish(db, load_chunk(db, position, keys, &damaged));
    }
    if (err == TF_ERR_DAMAGED) { /* not even which runs there are can be read */
        *position = UINT64_MAX;
        damaged = true;
        err = TF_OK;
    }
    if (err != TF_OK) {
        tf_db_keys_free(keys);
        return err;
    }
    *out = keys;
    return damaged ? TF_ERR_DAMAGED : TF_OK;
}

/* -- counts -------------------------------------------------------------------------------------------------------- */

static tf_err ask(tf_db *db, tf_db_sql which, uint64_t *a, uint64_t *b)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, which, &stmt);
    if (err == TF_OK) {
        err = tf_db_row(db, stmt);
    }
    if (err == TF_OK) {
        *a = tf_db_u64(stmt, 0);
        if (b != NULL) {
            *b = tf_db_u64(stmt, 1);
        }
        tf_db_end(stmt);
    }
    return err == TF_ERR_CLOSED ? TF_ERR_DAMAGED : err;
}

static tf_err get_stats(tf_db *db, tf_db_stats *out)
{
    uint64_t pages = 0;
    uint64_t free_pages = 0;
    uint64_t page_size = 0;
    tf_err err = ask(db, TF_DB_PAGE_COUNT, &pages, NULL);
    if (err == TF_OK) {
        err = ask(db, TF_DB_FREE_PAGES, &free_pages, NULL);
    }
    if (err == TF_OK) {
        err = ask(db, TF_DB_PAGE_SIZE, &page_size, NULL);
    }
    if (err == TF_OK) {
        err = ask(db, TF_DB_CHANNEL_COUNT, &out->channels, &out->messages);
    }
    if (err == TF_OK) {
        err = ask(db, TF_DB_RUN_COUNT, &out->key_runs, &out->keys);
    }
    out->bytes = (pages - free_pages) * page_size;
    out->free_bytes = free_pages * page_size;
    return err;
}

tf_err tf_db_get_stats(tf_db *db, tf_db_stats *out)
{
    *out = (tf_db_stats){0};
    tf_err err = tf_db_begin(db, false);
    return err == TF_OK ? tf_db_finish(db, get_stats(db, out)) : err;
}
