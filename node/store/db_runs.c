/* The dedup keys: a batch becomes a run, a key is looked for in all of them. */
#include "node/store/db_internal.h"

#define MERGE_FACTOR 8u /* parts that are merged for each part that is added: as many as there are levels is enough */
#define MERGE_LEAST 8u

/* Whether its numbers can be: the parts were given out, and hold 64 keys each on average at most. What believes others
 * would look for more parts than there can be. */
static bool can_be(const tf_db *db, const tf_db_run *run, uint64_t next_part)
{
    next_part = next_part > db->next_part ? next_part : db->next_part; /* a batch has it in memory */
    return run->bits <= 48 && run->first_part < next_part && next_part - run->first_part >= (uint64_t)1 << run->bits &&
           run->keys >> run->bits <= TF_DB_PART_KEYS;
}

tf_err tf_db_runs_list(tf_db *db, tf_db_runs *out)
{
    *out = (tf_db_runs){0};
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_RUN_LIST, &stmt);
    while (err == TF_OK && (err = tf_db_row(db, stmt)) == TF_OK) {
        tf_db_run run = {.id = tf_db_u64(stmt, 0),
                         .level = tf_db_u64(stmt, 1),
                         .bits = tf_db_u64(stmt, 2),
                         .keys = tf_db_u64(stmt, 3),
                         .first_part = tf_db_u64(stmt, 4),
                         .parts_done = tf_db_u64(stmt, 5),
                         .merged_into = tf_db_u64(stmt, 6),
                         .damaged = tf_db_u64(stmt, 7) != 0};
        void *array = out->at;
        err = can_be(db, &run, tf_db_u64(stmt, 8))
                  ? tf_db_grow(db->mem, &array, out->count, &out->capacity, sizeof(*out->at))
                  : TF_ERR_DAMAGED;
        out->at = array;
        if (err == TF_OK) {
            out->at[out->count++] = run;
        } else {
            tf_db_end(stmt);
        }
    }
    if (err == TF_ERR_CLOSED) {
        return TF_OK;
    }
    tf_db_runs_free(db, out);
    return err;
}

void tf_db_runs_free(tf_db *db, tf_db_runs *runs)
{
    tf_free(db->mem, runs->at, runs->capacity * sizeof(*runs->at));
    *runs = (tf_db_runs){0};
}

tf_err tf_db_part_load(tf_db *db, uint64_t id, tf_slice *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_PART_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, id);
    err = tf_db_row(db, stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_slice bytes = tf_db_bytes(stmt, 0);
    err = tf_db_buffer_room(db, &db->read, bytes.len);
    if (err == TF_OK && bytes.len > 0) {
        uint8_t *at = db->read.bytes + db->read.len;
        memcpy(at, bytes.data, bytes.len);
        db->read.len += bytes.len;
        *out = tf_slice_of(at, bytes.len);
    }
    tf_db_end(stmt);
    return err == TF_OK && bytes.len == 0 ? TF_ERR_DAMAGED : err;
}

/* -- storing ------------------------------------------------------------------------------------------------------- */

static tf_err add_batch(tf_db *db)
{
    tf_err err = TF_OK;
    for (size_t i = 0; i < db->append_count && err == TF_OK; i++) {
        const tf_stored *m = &db->appends[i].message;
        const tf_db_entry e = {
            .hash = tf_db_entry_hash(db->key_secret, db->appends[i].channel, &m->origin, m->client_id),
            .channel = db->appends[i].channel,
            .origin = m->origin.bytes,
            .client_id = m->client_id,
            .key = {m->seq, m->epoch, m->timestamp_ms, tf_store_digest(m->body)}};
        err = tf_db_entries_add(&db->entries, &e);
    }
    return err;
}

/* Whether the newest run takes the batch up: it has one part with room, so that short batches do not make many runs. */
static bool has_room(const tf_db_run *run, size_t count)
{
    return run->level == 0 && run->bits == 0 && run->merged_into == 0 && !run->damaged && tf_db_run_is_whole(run) &&
           run->keys + count <= TF_DB_PART_KEYS;
}

static tf_err take_up(tf_db *db)
{
    tf_db_runs runs;
    tf_err err = tf_db_runs_list(db, &runs);
    if (err == TF_OK && runs.count > 0 && has_room(&runs.at[0], db->append_count)) {
        tf_slice bytes;
        err = tf_db_part_load(db, runs.at[0].first_part, &bytes);
        if (err == TF_OK) {
            err = tf_db_part_read(bytes, &db->entries);
        }
        if (err == TF_OK) {
            err = tf_db_run_drop(db, &runs.at[0]);
        } else if (err == TF_ERR_DAMAGED || err == TF_ERR_CLOSED) {
            db->entries.count = 0; /* it stays as it is */
            err = TF_OK;
        }
    }
    tf_db_runs_free(db, &runs);
    return err;
}

tf_err tf_db_keys_store(tf_db *db)
{
    db->read.len = 0;
    db->entries.count = 0;
    tf_err err = take_up(db);
    if (err == TF_OK) {
        err = add_batch(db);
    }
    if (err == TF_OK) {
        tf_db_entries_sort(&db->entries);
        tf_db_run run = {.bits = tf_db_run_bits(db->entries.count)};
        err = tf_db_run_put(db, &run);
        if (err == TF_OK) {
            err = tf_db_run_write(db, &run, &db->entries, (uint64_t)1 << run.bits);
        }
    }
    size_t budget = MERGE_LEAST + MERGE_FACTOR * (db->append_count / TF_DB_PART_KEYS);
    return err == TF_OK ? tf_db_merge(db, false, &budget) : err;
}

/* -- finding ------------------------------------------------------------------------------------------------------- */

tf_err tf_db_channel_floor(tf_db *db, uint64_t channel, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_SINCE, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        *out = (int64_t)tf_db_u64(stmt, 0);
        tf_db_end(stmt);
    }
    return err;
}

/* The key in one run: TF_ERR_CLOSED: not there. */
static tf_err find_in(tf_db *db, const tf_db_run *run, const tf_db_entry *wanted, tf_store_key *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_PART_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, run->first_part + tf_db_run_part(run, wanted->hash));
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        err = tf_db_part_find(tf_db_bytes(stmt, 0), wanted, out);
        tf_db_end(stmt);
    }
    return err;
}

/* One that was forgotten and given again is in two runs for a while; only one of the two is above the floor. */
static tf_err find_live(tf_db *db, const tf_db_entry *wanted, int64_t floor_ms, tf_store_key *out)
{
    tf_db_runs runs;
    bool damaged = false;
    tf_err err = tf_db_runs_list(db, &runs);
    tf_err found = TF_ERR_CLOSED;
    for (size_t i = 0; err == TF_OK && found != TF_OK && i < runs.count; i++) {
        if (!tf_db_run_is_whole(&runs.at[i])) {
            continue;
        }
        found = find_in(db, &runs.at[i], wanted, out);
        if (found == TF_OK && out->timestamp_ms < floor_ms) {
            found = TF_ERR_CLOSED;
        }
        damaged = damaged || found == TF_ERR_DAMAGED;
        err = found == TF_OK || found == TF_ERR_CLOSED || found == TF_ERR_DAMAGED ? TF_OK : found;
    }
    tf_db_runs_free(db, &runs);
    if (err != TF_OK || found == TF_OK) {
        return err;
    }
    return damaged ? TF_ERR_DAMAGED : TF_ERR_CLOSED;
}

tf_err tf_db_find_key(tf_db *db, uint64_t channel, const tf_node_id *origin, tf_slice client_id, tf_store_key *out)
{
    const tf_db_entry wanted = {.hash = tf_db_entry_hash(db->key_secret, channel, origin, client_id),
                                .channel = channel,
                                .origin = origin->bytes,
                                .client_id = client_id};
    int64_t floor_ms = 0;
    tf_err err = tf_db_begin(db, false);
    if (err != TF_OK) {
        return err;
    }
    err = tf_db_channel_floor(db, channel, &floor_ms);
    tf_err found = err == TF_OK ? find_live(db, &wanted, floor_ms, out) : err;
    err = tf_db_finish(db, TF_OK);
    return found == TF_OK ? err : found;
}
