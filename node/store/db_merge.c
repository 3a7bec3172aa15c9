/* Merging of runs of dedup keys, some parts at a time: whatever the number of keys, a step is short, and it can be taken
 * up again after a crash, since a run that is being made names how far it is and its sources name it. */
#include <stdlib.h>

#include "node/store/db_internal.h"
#include "proto/map.h"

uint64_t tf_db_run_bits(uint64_t keys)
{
    uint64_t bits = 0;
    while (keys >> bits > TF_DB_PART_KEYS) {
        bits++;
    }
    return bits;
}

/* -- entries ------------------------------------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const tf_db_entry *x = a;
    const tf_db_entry *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return (x->key.seq < y->key.seq) - (x->key.seq > y->key.seq);
}

void tf_db_entries_sort(tf_db_entries *entries)
{
    qsort(entries->at, entries->count, sizeof(*entries->at), by_hash);
    size_t kept = 0;
    for (size_t i = 0; i < entries->count; i++) {
        size_t k = kept;
        while (k > 0 && entries->at[k - 1].hash == entries->at[i].hash &&
               !tf_db_entry_is_same(&entries->at[k - 1], &entries->at[i])) {
            k--;
        }
        if (k == 0 || entries->at[k - 1].hash != entries->at[i].hash) {
            entries->at[kept++] = entries->at[i];
        }
    }
    entries->count = kept;
}

/* -- writing a run ------------------------------------------------------------------------------------------------- */

tf_err tf_db_run_put(tf_db *db, tf_db_run *run)
{
    run->first_part = db->next_part;
    db->next_part += (uint64_t)1 << run->bits;
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_RUN_PUT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, run->level);
    tf_db_bind_u64(stmt, 2, run->bits);
    tf_db_bind_u64(stmt, 3, 0);
    tf_db_bind_u64(stmt, 4, run->first_part);
    tf_db_bind_u64(stmt, 5, 0);
    err = tf_db_exec(db, stmt);
    run->id = (uint64_t)sqlite3_last_insert_rowid(db->sqlite);
    return err;
}

static tf_err write_part(tf_db *db, uint64_t id, const tf_db_entry *entries, size_t count)
{
    db->part.len = 0;
    size_t room = tf_db_part_room(count);
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_buffer_room(db, &db->part, room);
    if (err == TF_OK) {
        err = tf_db_use(db, TF_DB_PART_PUT, &stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    size_t len = tf_db_part_write(entries, count, db->part.bytes, room);
    tf_db_bind_u64(stmt, 1, id);
    tf_db_bind_bytes(stmt, 2, tf_slice_of(db->part.bytes, len));
    return tf_db_exec(db, stmt);
}

typedef struct count {
    uint64_t channel;
    uint64_t keys;
    int64_t time_last;
} count;

static int by_channel(const void *a, const void *b)
{
    const count *x = a;
    const count *y = b;
    return (x->channel > y->channel) - (x->channel < y->channel);
}

static tf_err add_count(tf_db *db, uint64_t run, const count *c)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_COUNT_ADD, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, run);
    tf_db_bind_u64(stmt, 2, c->channel);
    tf_db_bind_u64(stmt, 3, c->keys);
    tf_db_bind_u64(stmt, 4, (uint64_t)c->time_last);
    return tf_db_exec(db, stmt);
}

static tf_err add_counts(tf_db *db, uint64_t run, const tf_db_entries *entries)
{
    if (entries->count == 0) {
        return TF_OK;
    }
    count *all = tf_alloc(db->mem, entries->count * sizeof(*all));
    if (all == NULL) {
        return TF_ERR_NOMEM;
    }
    for (size_t i = 0; i < entries->count; i++) {
        all[i] = (count){entries->at[i].channel, 1, entries->at[i].key.timestamp_ms};
    }
    qsort(all, entries->count, sizeof(*all), by_channel);
    tf_err err = TF_OK;
    for (size_t i = 0; i < entries->count && err == TF_OK; i++) {
        bool ends = i + 1 == entries->count || all[i + 1].channel != all[i].channel;
        if (ends) {
            err = add_count(db, run, &all[i]);
        } else {
            all[i + 1].keys += all[i].keys;
            all[i + 1].time_last = all[i + 1].time_last > all[i].time_last ? all[i + 1].time_last : all[i].time_last;
        }
    }
    tf_free(db->mem, all, entries->count * sizeof(*all));
    return err;
}

static tf_err set_progress(tf_db *db, const tf_db_run *run)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_RUN_PROGRESS, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, run->id);
    tf_db_bind_u64(stmt, 2, run->parts_done);
    tf_db_bind_u64(stmt, 3, run->keys);
    return tf_db_exec(db, stmt);
}

tf_err tf_db_run_write(tf_db *db, tf_db_run *run, const tf_db_entries *entries, uint64_t to)
{
    tf_err err = TF_OK;
    for (size_t first = 0, i = 0; first < entries->count && err == TF_OK; first = i) {
        uint64_t part = tf_db_run_part(run, entries->at[first].hash);
        while (i < entries->count && tf_db_run_part(run, entries->at[i].hash) == part) {
            i++;
        }
        TF_ASSERT(part >= run->parts_done && part < to);
        err = write_part(db, run->first_part + part, entries->at + first, i - first);
    }
    if (err == TF_OK) {
        err = add_counts(db, run->id, entries);
    }
    if (err == TF_OK) {
        run->parts_done = to;
        run->keys += entries->count;
        err = set_progress(db, run);
    }
    return err;
}

/* -- garbage ------------------------------------------------------------------------------------------------------- */

static tf_err run_with(tf_db *db, tf_db_sql which, uint64_t id)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, which, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, id);
    return tf_db_exec(db, stmt);
}

static tf_err run_with_two(tf_db *db, tf_db_sql which, uint64_t a, uint64_t b)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, which, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, a);
    tf_db_bind_u64(stmt, 2, b);
    return tf_db_exec(db, stmt);
}

tf_err tf_db_run_drop(tf_db *db, const tf_db_run *run)
{
    tf_err err = run_with(db, TF_DB_RUN_DROP, run->id);
    if (err == TF_OK) {
        err = run_with(db, TF_DB_COUNT_DROP, run->id);
    }
    if (err != TF_OK) {
        return err;
    }
    uint64_t parts = (uint64_t)1 << run->bits;
    return parts == 1 ? run_with_two(db, TF_DB_PART_DROP, run->first_part, run->first_part + 1)
                      : run_with_two(db, TF_DB_GARBAGE_PUT, run->first_part, parts);
}

/* Drops up to *budget parts of garbage. TF_ERR_CLOSED: there is none. */
static tf_err drop_garbage(tf_db *db, size_t *budget)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_GARBAGE_GET, &stmt);
    if (err == TF_OK) {
        err = tf_db_row(db, stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    uint64_t id = tf_db_u64(stmt, 0);
    uint64_t first = tf_db_u64(stmt, 1);
    uint64_t parts = tf_db_u64(stmt, 2);
    tf_db_end(stmt);
    uint64_t now = parts < *budget ? parts : *budget;
    *budget -= (size_t)now;
    err = run_with_two(db, TF_DB_PART_DROP, first, first + now);
    if (err != TF_OK || now == parts) {
        return err == TF_OK ? run_with(db, TF_DB_GARBAGE_DROP, id) : err;
    }
    err = tf_db_use(db, TF_DB_GARBAGE_CUT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, id);
    tf_db_bind_u64(stmt, 2, first + now);
    tf_db_bind_u64(stmt, 3, parts - now);
    return tf_db_exec(db, stmt);
}

/* -- a merge ------------------------------------------------------------------------------------------------------- */

typedef struct merge {
    tf_db_run *to;
    const tf_db_run *from[TF_DB_FANOUT];
    size_t count;
    uint64_t bits; /* the most of `from`: the grain in which the parts are taken */
    tf_map floors; /* channel -> keys_since_ms, where there is one */
} merge;

static bool is_free(const tf_db_run *run)
{
    return run->merged_into == 0 && !run->damaged && tf_db_run_is_whole(run);
}

static void add_source(merge *m, const tf_db_run *run)
{
    TF_ASSERT(m->count < TF_DB_FANOUT);
    m->from[m->count++] = run;
    m->bits = run->bits > m->bits ? run->bits : m->bits;
}

static tf_err start(tf_db *db, tf_db_run *to, merge *m)
{
    uint64_t keys = 0;
    for (size_t i = 0; i < m->count; i++) {
        keys += m->from[i]->keys;
    }
    uint64_t bits = tf_db_run_bits(keys);
    *to = (tf_db_run){.level = m->from[0]->level + (m->count > 1 ? 1u : 0u), .bits = bits > m->bits ? bits : m->bits};
    tf_err err = tf_db_run_put(db, to);
    for (size_t i = 0; i < m->count && err == TF_OK; i++) {
        err = run_with_two(db, TF_DB_RUN_MERGED_INTO, m->from[i]->id, to->id);
    }
    m->to = to;
    return err;
}

/* The sources of a run that is being made. */
static void find_sources(const tf_db_runs *runs, tf_db_run *to, merge *m)
{
    m->to = to;
    m->count = 0;
    m->bits = 0;
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->at[i].merged_into == to->id) {
            add_source(m, &runs->at[i]);
        }
    }
}

/* The oldest runs of a level, if there are enough. */
static bool find_group(const tf_db_runs *runs, uint64_t level, merge *m)
{
    m->count = 0;
    m->bits = 0;
    for (size_t i = runs->count; i-- > 0 && m->count < TF_DB_FANOUT;) {
        if (runs->at[i].level == level && is_free(&runs->at[i])) {
            add_source(m, &runs->at[i]);
        }
    }
    return m->count == TF_DB_FANOUT;
}

static bool find_begun(const tf_db_runs *runs, uint64_t level, merge *m)
{
    for (size_t i = 0; i < runs->count; i++) {
        if (!tf_db_run_is_whole(&runs->at[i])) {
            find_sources(runs, &runs->at[i], m);
            if (m->count > 0 && m->from[0]->level == level) {
                return true;
            }
        }
    }
    return false;
}

static bool find_id(const tf_db_runs *runs, uint64_t id, merge *m)
{
    m->count = 0;
    m->bits = 0;
    for (size_t i = 0; i < runs->count; i++) {
        if (runs->at[i].id == id) {
            add_source(m, &runs->at[i]);
        }
    }
    return m->count == 1;
}

/* A run half of which was forgotten is written again without that half. TF_ERR_CLOSED: there is none. */
static tf_err find_dead(tf_db *db, const tf_db_runs *runs, merge *m)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_RUN_DEAD, &stmt);
    if (err == TF_OK) {
        err = tf_db_row(db, stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    uint64_t id = tf_db_u64(stmt, 0);
    tf_db_end(stmt);
    return find_id(runs, id, m) ? TF_OK : TF_ERR_CLOSED;
}

/* The merge of the lowest level that goes on or can begin: short ones do not wait for long ones. `fresh` is where a new
 * run is described. TF_ERR_CLOSED: there is nothing to merge. */
static tf_err choose(tf_db *db, tf_db_runs *runs, bool dead, tf_db_run *fresh, merge *m)
{
    uint64_t levels = 0;
    for (size_t i = 0; i < runs->count; i++) {
        levels = runs->at[i].level >= levels ? runs->at[i].level + 1 : levels;
    }
    for (uint64_t level = 0; level < levels; level++) {
        if (find_begun(runs, level, m)) {
            return TF_OK;
        }
        if (find_group(runs, level, m)) {
            return start(db, fresh, m);
        }
    }
    tf_err err = dead ? find_dead(db, runs, m) : TF_ERR_CLOSED;
    return err == TF_OK ? start(db, fresh, m) : err;
}

/* Whether the key was forgotten. */
static tf_err judge(tf_db *db, merge *m, const tf_db_entry *e, bool *forgotten)
{
    uint64_t floor_ms = 0;
    if (!tf_map_get(&m->floors, e->channel, &floor_ms)) {
        int64_t found = 0;
        tf_err err = tf_db_channel_floor(db, e->channel, &found);
        if (err != TF_OK && err != TF_ERR_CLOSED) {
            return err;
        }
        floor_ms = (uint64_t)found;
        err = tf_map_put(&m->floors, e->channel, floor_ms);
        if (err != TF_OK) {
            return err;
        }
    }
    *forgotten = e->key.timestamp_ms < (int64_t)floor_ms;
    return TF_OK;
}

/* Leaves the entries whose hashes begin with `prefix` and that are not forgotten. */
static tf_err sift(tf_db *db, merge *m, uint64_t prefix)
{
    tf_db_entries *entries = &db->entries;
    size_t kept = 0;
    for (size_t i = 0; i < entries->count; i++) {
        bool forgotten = false;
        if (m->bits > 0 && entries->at[i].hash >> (64 - m->bits) != prefix) {
            continue;
        }
        tf_err err = judge(db, m, &entries->at[i], &forgotten);
        if (err != TF_OK) {
            return err;
        }
        if (!forgotten) {
            entries->at[kept++] = entries->at[i];
        }
    }
    entries->count = kept;
    return TF_OK;
}

/* The entries of one grain, of all sources. *bad is the source that is damaged, on TF_ERR_DAMAGED. */
static tf_err gather(tf_db *db, merge *m, uint64_t prefix, const tf_db_run **bad)
{
    size_t end[TF_DB_FANOUT];
    db->read.len = 0;
    db->entries.count = 0;
    tf_err err = TF_OK;
    for (size_t i = 0; i < m->count && err == TF_OK; i++) {
        const tf_db_run *from = m->from[i];
        tf_slice bytes; /* moves with the next one */
        *bad = from;
        err = tf_db_part_load(db, from->first_part + (prefix >> (m->bits - from->bits)), &bytes);
        err = err == TF_ERR_CLOSED ? TF_OK : err;
        end[i] = db->read.len;
    }
    for (size_t i = 0, at = 0; i < m->count && err == TF_OK; i++) {
        *bad = m->from[i];
        if (end[i] > at) {
            err = tf_db_part_read(tf_slice_of(db->read.bytes + at, end[i] - at), &db->entries);
        }
        at = end[i];
    }
    return err == TF_OK ? sift(db, m, prefix) : err;
}

/* A source cannot be read: it stays as it is for ever (what is damaged in it stays known), and the others go on alone. */
static tf_err give_up(tf_db *db, const merge *m, const tf_db_run *bad)
{
    tf_err err = run_with(db, TF_DB_RUN_DAMAGED, bad->id);
    for (size_t i = 0; i < m->count && err == TF_OK; i++) {
        err = run_with_two(db, TF_DB_RUN_MERGED_INTO, m->from[i]->id, 0);
    }
    return err == TF_OK ? tf_db_run_drop(db, m->to) : err;
}

static tf_err end_merge(tf_db *db, const merge *m)
{
    tf_err err = TF_OK;
    for (size_t i = 0; i < m->count && err == TF_OK; i++) {
        err = tf_db_run_drop(db, m->from[i]);
    }
    return err == TF_OK && m->to->keys == 0 ? tf_db_run_drop(db, m->to) : err;
}

/* Merges until the budget is used up or the merge is done. */
static tf_err go_on(tf_db *db, merge *m, size_t *budget)
{
    uint64_t grain = m->to->bits - m->bits; /* a part of the longest source becomes 1 << grain parts */
    size_t cost = ((size_t)1 << grain) + m->count;
    tf_err err = TF_OK;
    while (err == TF_OK && *budget > 0 && !tf_db_run_is_whole(m->to)) {
        uint64_t prefix = m->to->parts_done >> grain;
        const tf_db_run *bad = NULL;
        err = gather(db, m, prefix, &bad);
        if (err == TF_ERR_DAMAGED) {
            return give_up(db, m, bad);
        }
        if (err == TF_OK) {
            tf_db_entries_sort(&db->entries);
            err = tf_db_run_write(db, m->to, &db->entries, (prefix + 1) << grain);
        }
        *budget -= cost < *budget ? cost : *budget;
    }
    return err == TF_OK && tf_db_run_is_whole(m->to) ? end_merge(db, m) : err;
}

/* TF_ERR_CLOSED: there is nothing to merge. */
static tf_err merge_some(tf_db *db, bool dead, size_t *budget)
{
    tf_db_runs runs;
    tf_db_run fresh;
    tf_err err = tf_db_runs_list(db, &runs);
    if (err != TF_OK) {
        return err;
    }
    merge m = {.to = NULL};
    tf_map_init(&m.floors, db->mem, db->key_secret);
    err = choose(db, &runs, dead, &fresh, &m);
    if (err == TF_OK) {
        err = go_on(db, &m, budget);
    }
    tf_map_clear(&m.floors);
    tf_db_runs_free(db, &runs);
    return err;
}

tf_err tf_db_merge(tf_db *db, bool dead, size_t *budget)
{
    tf_err err = TF_OK;
    while (err == TF_OK && *budget > 0) {
        err = drop_garbage(db, budget);
    }
    err = err == TF_ERR_CLOSED ? TF_OK : err;
    while (err == TF_OK && *budget > 0) {
        err = merge_some(db, dead, budget);
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}
