/* Salvage. Blocks and parts of keys say themselves what they hold, and carry checksums: so the new database is made of
 * them, and of what can be read of the tables of channels and cursors; no index of the old one is believed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/store/db_care.h"
#include "node/store/db_internal.h"

#define BATCH_BLOCKS 64u
#define ASIDE_TRIES 1000

/* A block that was found. */
typedef struct piece {
    uint64_t channel;
    uint64_t first;
    uint64_t count;
    uint64_t id;
} piece;

typedef struct repair {
    tf_db *from;
    tf_db *to;
    tf_db_report *report;
    piece *pieces;
    size_t count;
    size_t capacity;
    size_t at;             /* pieces of channels that are done */
    uint64_t channel_last; /* the highest number seen */
    tf_db_block *batch[BATCH_BLOCKS]; /* whose messages are in the open batch */
    size_t batch_count;
} repair;

static tf_err report(repair *r, tf_db_finding_kind kind, uint64_t channel, uint64_t first, uint64_t last)
{
    static const char *const texts[] = {"", "could not be read", "are not there", "", "", "name lost", "new epoch"};
    return tf_db_report_range(r->report, kind, &(tf_store_damage){channel, first, last}, texts[kind]);
}

/* -- finding the blocks -------------------------------------------------------------------------------------------- */

/* The next block behind an id. *found: its bytes were right. TF_ERR_CLOSED: no more. */
static tf_err next_block(repair *r, uint64_t after, piece *out, bool *found)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(r->from, TF_DB_DATA_NEXT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, after);
    err = tf_db_row(r->from, stmt);
    if (err == TF_OK) {
        out->id = tf_db_u64(stmt, 0);
        *found = tf_db_block_describe(tf_db_bytes(stmt, 1), &out->channel, &out->first, &out->count);
        tf_db_end(stmt);
    }
    return err;
}

/* Behind a page that cannot be read: the smallest id from which it goes on. TF_ERR_CLOSED: it does not. */
static tf_err skip(repair *r, uint64_t *id)
{
    piece p;
    bool found = false;
    uint64_t bad = *id;
    uint64_t step = 1;
    tf_err err = TF_ERR_DAMAGED;
    while (err == TF_ERR_DAMAGED && step < (uint64_t)1 << 40) {
        err = next_block(r, bad + step, &p, &found);
        bad += err == TF_ERR_DAMAGED ? step : 0;
        step *= err == TF_ERR_DAMAGED ? 2 : 1;
    }
    if (err != TF_OK && err != TF_ERR_CLOSED) {
        return err == TF_ERR_DAMAGED ? TF_ERR_CLOSED : err;
    }
    uint64_t good = bad + step;
    while (good - bad > 1) {
        uint64_t middle = bad + (good - bad) / 2;
        err = next_block(r, middle, &p, &found);
        if (err == TF_ERR_DAMAGED) {
            bad = middle;
        } else if (err == TF_OK || err == TF_ERR_CLOSED) {
            good = middle;
        } else {
            return err;
        }
    }
    *id = good;
    return TF_OK;
}

static int by_place(const void *a, const void *b)
{
    const piece *x = a;
    const piece *y = b;
    if (x->channel != y->channel) {
        return x->channel < y->channel ? -1 : 1;
    }
    return (x->first > y->first) - (x->first < y->first);
}

static tf_err find_blocks(repair *r)
{
    uint64_t id = 0;
    tf_err err = TF_OK;
    while (err == TF_OK) {
        piece p;
        bool found = false;
        err = next_block(r, id, &p, &found);
        if (err == TF_ERR_DAMAGED) {
            err = skip(r, &id);
            continue;
        }
        if (err == TF_OK && found) {
            void *array = r->pieces;
            err = tf_db_grow(r->from->mem, &array, r->count, &r->capacity, sizeof(*r->pieces));
            r->pieces = array;
        }
        if (err == TF_OK && found) {
            r->pieces[r->count++] = p;
            r->channel_last = p.channel > r->channel_last ? p.channel : r->channel_last;
        }
        id = err == TF_OK ? p.id : id;
    }
    if (r->count > 0) {
        qsort(r->pieces, r->count, sizeof(*r->pieces), by_place);
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

static tf_err load_piece(repair *r, const piece *p, tf_db_block **out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(r->from, TF_DB_DATA_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, p->id);
    err = tf_db_row(r->from, stmt);
    if (err == TF_OK) {
        err = tf_db_block_read(out, r->from->mem, p->channel, p->first, p->count, tf_db_bytes(stmt, 0));
        tf_db_end(stmt);
    }
    return err;
}

/* -- batches of the new one ---------------------------------------------------------------------------------------- */

/* Ends the open batch (LSNs are set at the end of all) and opens another. */
static tf_err next_batch(repair *r)
{
    tf_err err = tf_db_apply_commit(r->to);
    for (size_t i = 0; i < r->batch_count; i++) {
        tf_db_block_free(r->batch[i]);
    }
    r->batch_count = 0;
    return err == TF_OK ? tf_db_apply_begin(r->to) : err;
}

static tf_err put_messages(repair *r, const tf_store_channel *c, const tf_db_block *block, uint64_t *next)
{
    tf_stored m;
    tf_err err = TF_OK;
    uint64_t seq = *next > tf_db_block_first(block) ? *next : tf_db_block_first(block);
    for (; err == TF_OK && tf_db_block_message(block, seq, &m); seq++) {
        err = tf_db_apply_any(r->to, &(tf_store_op){.kind = TF_STORE_APPEND, .channel = c->number, .message = m});
        r->report->messages++;
        *next = seq + 1;
    }
    return err;
}

/* What the blocks have of a channel from `first` on; c->head becomes what was found at least. */
static tf_err put_blocks(repair *r, const piece *pieces, size_t count, tf_store_channel *c, bool *lost)
{
    uint64_t next = c->first;
    tf_err err = TF_OK;
    for (size_t i = 0; i < count && err == TF_OK; i++) {
        tf_db_block *block = NULL;
        if (pieces[i].first + pieces[i].count <= next) {
            continue;
        }
        if (r->batch_count == BATCH_BLOCKS && (err = next_batch(r)) != TF_OK) {
            return err;
        }
        err = load_piece(r, &pieces[i], &block);
        if (err == TF_ERR_DAMAGED || err == TF_ERR_CLOSED) {
            err = TF_OK; /* reported as the hole that it leaves */
            continue;
        }
        if (err == TF_OK) {
            r->batch[r->batch_count++] = block;
            if (pieces[i].first > next) {
                err = report(r, TF_DB_LOST_MESSAGES, c->number, next, pieces[i].first - 1);
                *lost = true;
            }
        }
        err = err == TF_OK ? put_messages(r, c, block, &next) : err;
    }
    if (err == TF_OK && next <= c->head) {
        err = report(r, TF_DB_LOST_MESSAGES, c->number, next, c->head);
        *lost = true;
    }
    c->head = next > c->head + 1 ? next - 1 : c->head;
    return err;
}

static tf_err raise(repair *r, const tf_store_channel *c)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(r->to, TF_DB_CHANNEL_RAISE, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, c->number);
    tf_db_bind_u64(stmt, 2, c->head);
    tf_db_bind_u64(stmt, 3, (uint64_t)c->timestamp_ms);
    return tf_db_exec(r->to, stmt);
}

/* Cursors that cannot be read are lost; the first such ends the list. */
static tf_err put_cursors(repair *r, uint64_t channel)
{
    uint64_t position = 0;
    tf_store_cursor cursor;
    tf_err err = TF_OK;
    while ((err = tf_db_cursor_next(r->from, channel, &position, &cursor)) == TF_OK) {
        const tf_store_op op = {.kind = TF_STORE_CURSOR, .channel = channel, .cursor = cursor};
        err = tf_db_apply_any(r->to, &op);
        if (err != TF_OK) {
            return err;
        }
    }
    if (err == TF_ERR_DAMAGED) {
        return tf_db_report_text(r->report, TF_DB_BAD_STRUCTURE, "cursors of a channel could not be read");
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

/* What is true of a channel beside its messages. */
static tf_err put_state(repair *r, const tf_store_channel *c)
{
    tf_store_op op = {.kind = TF_STORE_TRIM, .channel = c->number, .seq = c->first};
    tf_err err = tf_db_apply_any(r->to, &op);
    if (err == TF_OK) {
        op = (tf_store_op){.kind = TF_STORE_FORGET, .channel = c->number, .time_ms = c->keys_since_ms};
        err = tf_db_apply_any(r->to, &op);
    }
    if (err == TF_OK) {
        op = (tf_store_op){.kind = TF_STORE_EPOCH, .channel = c->number, .epoch = c->epoch};
        err = tf_db_apply_any(r->to, &op);
    }
    if (err == TF_OK && c->closed) {
        op = (tf_store_op){.kind = TF_STORE_CLOSE, .channel = c->number};
        err = tf_db_apply_any(r->to, &op);
    }
    return err;
}

static tf_err put_channel(repair *r, tf_store_channel *c)
{
    size_t from = r->at;
    size_t to = from;
    while (to < r->count && r->pieces[to].channel == c->number) {
        to++;
    }
    bool lost = false;
    r->report->channels++;
    tf_err err = tf_db_apply_any(
        r->to, &(tf_store_op){.kind = TF_STORE_CREATE, .channel = c->number, .name = c->name, .epoch = c->epoch});
    if (err == TF_OK) {
        err = put_blocks(r, to > from ? &r->pieces[from] : NULL, to - from, c, &lost);
    }
    if (err == TF_OK) {
        err = next_batch(r); /* so that what was appended does not lower what follows */
    }
    if (err == TF_OK) {
        err = raise(r, c);
    }
    if (lost) {
        sqlite3_randomness(sizeof(c->epoch), &c->epoch);
    }
    err = err == TF_OK ? put_state(r, c) : err;
    if (err == TF_OK && lost) {
        err = report(r, TF_DB_NEW_EPOCH, c->number, c->first, c->head);
    }
    return err == TF_OK ? put_cursors(r, c->number) : err;
}

/* A channel of which only messages were found: it begins where they do. */
static tf_err put_nameless(repair *r, uint64_t number, uint64_t first)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "lost-found/%llu", (unsigned long long)number);
    tf_store_channel c = {.number = number, .first = first, .head = first - 1, .name = tf_slice_str(name)};
    sqlite3_randomness(sizeof(c.epoch), &c.epoch);
    tf_err err = report(r, TF_DB_NEW_NAME, number, first, first);
    return err == TF_OK ? put_channel(r, &c) : err;
}

/* The row of a channel may be unreadable alone, or with its neighbours. */
static tf_err put_one(repair *r, uint64_t number, bool *more)
{
    uint64_t position = number - 1;
    tf_store_channel c;
    tf_err err = tf_db_channel_next(r->from, &position, &c);
    while (r->at < r->count && r->pieces[r->at].channel < number) {
        r->at++;
    }
    *more = number < r->channel_last || err == TF_OK;
    if (err == TF_OK && c.number == number) {
        uint8_t name[TF_CHANNEL_NAME_MAX]; /* the next call on the old one takes it away */
        if (c.name.len > 0) {
            memcpy(name, c.name.data, c.name.len);
        }
        c.name.data = name;
        return put_channel(r, &c);
    }
    if (err == TF_OK || err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED) {
        bool found = r->at < r->count && r->pieces[r->at].channel == number;
        return found ? put_nameless(r, number, r->pieces[r->at].first) : TF_OK;
    }
    return err;
}

/* -- keys ---------------------------------------------------------------------------------------------------------- */

/* Of a chunk, those that the new database does not have: of messages that were trimmed or lost. */
static tf_err put_chunk(repair *r, const tf_db_keys *keys)
{
    tf_db *to = r->to;
    tf_err err = TF_OK;
    tf_db_entries missing = {.mem = to->mem};
    for (size_t i = 0; i < keys->entries.count && err == TF_OK; i++) {
        tf_db_entry e = keys->entries.at[i];
        tf_node_id origin;
        tf_store_key key;
        int64_t since_ms = 0;
        memcpy(origin.bytes, e.origin, TF_NODE_ID_LEN);
        e.hash = tf_db_entry_hash(to->key_secret, e.channel, &origin, e.client_id);
        err = tf_db_channel_floor(to, e.channel, &since_ms);
        bool lives = err == TF_OK && e.key.timestamp_ms >= since_ms;
        err = lives ? tf_db_find_key(to, e.channel, &origin, e.client_id, &key) : err;
        if (lives && err == TF_ERR_CLOSED) {
            err = tf_db_entries_add(&missing, &e);
        }
        err = err == TF_ERR_CLOSED ? TF_OK : err;
    }
    if (err == TF_OK && missing.count > 0) {
        r->report->keys += missing.count;
        tf_db_entries_sort(&missing);
        tf_db_run run = {.bits = tf_db_run_bits(missing.count)};
        err = tf_db_run_put(to, &run);
        err = err == TF_OK ? tf_db_run_write(to, &run, &missing, (uint64_t)1 << run.bits) : err;
    }
    tf_db_entries_clear(&missing);
    size_t budget = 2 * (keys->entries.count / TF_DB_PART_KEYS) + TF_DB_FANOUT;
    return err == TF_OK ? tf_db_merge(to, false, &budget) : err;
}

static tf_err put_keys(repair *r)
{
    uint64_t position = 0;
    tf_db_keys *keys = NULL;
    bool damaged = false;
    tf_err err = TF_OK;
    while ((err = tf_db_keys_load(r->from, &position, &keys)) == TF_OK || err == TF_ERR_DAMAGED) {
        damaged = damaged || err == TF_ERR_DAMAGED;
        err = put_chunk(r, keys);
        tf_db_keys_free(keys);
        if (err == TF_OK) {
            err = next_batch(r);
        }
        if (err != TF_OK) {
            return err;
        }
    }
    if (err == TF_ERR_CLOSED && damaged) {
        return tf_db_report_text(r->report, TF_DB_BAD_KEYS,
                           "keys could not be read: of trimmed messages that are sent again, some may be stored again");
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

static tf_err put_channels(repair *r)
{
    bool more = true;
    tf_err err = TF_OK;
    for (uint64_t number = 1; more && err == TF_OK && number <= TF_CHANNELS_MAX; number++) {
        err = put_one(r, number, &more);
    }
    return err;
}

static tf_err salvage(repair *r)
{
    uint64_t lsn = 0;
    tf_err err = tf_db_applied(r->from, &lsn);
    if (err == TF_OK || err == TF_ERR_DAMAGED) { /* 0 then: what the log has comes again, and changes little */
        err = find_blocks(r);
    }
    if (err == TF_OK) {
        err = tf_db_apply_begin(r->to);
    }
    if (err != TF_OK) {
        return err;
    }
    err = put_channels(r);
    if (err == TF_OK) {
        err = next_batch(r);
    }
    if (err == TF_OK) {
        err = put_keys(r);
    }
    if (err == TF_OK) {
        r->to->applied = lsn;
        err = next_batch(r);
    }
    if (r->to->in_batch) {
        tf_db_apply_abort(r->to);
    }
    return err == TF_OK ? tf_db_checkpoint(r->to, true) : err;
}

static tf_err move(const char *from, const char *to, char why[TF_WHY_MAX])
{
    if (rename(from, to) == 0 || errno == ENOENT) {
        return TF_OK;
    }
    (void)tf_why(why, "%s cannot be renamed to %s: %s", from, to, strerror(errno));
    return TF_ERR_IO;
}

static tf_err sync_folder_of(const char *path)
{
    char folder[TF_DB_ASIDE_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);
    (void)snprintf(folder, sizeof(folder), "%.*s", len, slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return ok ? TF_OK : TF_ERR_IO;
}

/* The old one gets a second name, its write-ahead log goes with it, and then the new one takes the place at once: there
 * is a database at `path` at any time. */
static tf_err change_places(const char *path, const char *fresh, char aside[TF_DB_ASIDE_MAX], char why[TF_WHY_MAX])
{
    char wal[TF_DB_ASIDE_MAX];
    char wal_aside[TF_DB_ASIDE_MAX + 8];
    int n = 1;
    for (; n < ASIDE_TRIES; n++) {
        (void)snprintf(aside, TF_DB_ASIDE_MAX, "%s.damaged-%d", path, n);
        if (link(path, aside) == 0) {
            break;
        }
        if (errno != EEXIST) {
            (void)tf_why(why, "%s cannot be kept as %s: %s", path, aside, strerror(errno));
            return TF_ERR_IO;
        }
    }
    (void)snprintf(wal, sizeof(wal), "%s-wal", path);
    (void)snprintf(wal_aside, sizeof(wal_aside), "%s-wal", aside);
    tf_err err = move(wal, wal_aside, why);
    if (err == TF_OK) {
        (void)snprintf(wal, sizeof(wal), "%s-shm", path);
        err = unlink(wal) == 0 || errno == ENOENT ? TF_OK : TF_ERR_IO;
    }
    err = err == TF_OK ? move(fresh, path, why) : err;
    return err == TF_OK ? sync_folder_of(path) : err;
}

static void remove_all(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        char name[TF_DB_ASIDE_MAX];
        (void)snprintf(name, sizeof(name), "%s%s", path, ends[i]);
        (void)unlink(name); /* what an interrupted repair left, if it did */
    }
}

tf_err tf_db_repair(const tf_db_config *config, tf_db_report *out, char aside[TF_DB_ASIDE_MAX], char why[TF_WHY_MAX])
{
    TF_ASSERT(config->vfs == NULL && strlen(config->path) + 16 < TF_DB_ASIDE_MAX);
    char fresh[TF_DB_ASIDE_MAX];
    (void)snprintf(fresh, sizeof(fresh), "%s.repair", config->path);
    remove_all(fresh);
    tf_db_config old = *config;
    tf_db_config new = *config;
    old.read_only = true;
    new.read_only = false;
    new.path = fresh;
    repair r = {.report = out};
    tf_err err = tf_db_open(&r.from, &old, why);
    if (err == TF_OK) {
        err = tf_db_open(&r.to, &new, why);
    }
    if (err == TF_OK) {
        err = salvage(&r);
        if (err != TF_OK) {
            (void)tf_why(why, "%s; %s", tf_db_error_text(r.from), tf_db_error_text(r.to));
        }
        tf_free(r.from->mem, r.pieces, r.capacity * sizeof(*r.pieces));
    }
    for (size_t i = 0; i < r.batch_count; i++) {
        tf_db_block_free(r.batch[i]);
    }
    tf_db_free(r.from);
    tf_db_free(r.to);
    return err == TF_OK ? change_places(config->path, fresh, aside, why) : err;
}
