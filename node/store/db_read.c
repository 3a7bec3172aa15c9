/* Reading of channels: what there is, where a time or an amount of bytes is, the blocks, the cursors. */
#include "node/store/db_internal.h"

/* -- channels ------------------------------------------------------------------------------------------------------ */

/* A row of the index of blocks. */
typedef struct place {
    uint64_t first;
    uint64_t count;
    int64_t time_last;
    uint64_t bytes_before;
    uint64_t data;
} place;

static uint64_t end_of(const place *p)
{
    return p->first + p->count;
}

static tf_err get_place(tf_db *db, tf_db_sql which, uint64_t channel, uint64_t seq, place *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, which, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    tf_db_bind_u64(stmt, 2, seq < INT64_MAX ? seq : INT64_MAX);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        *out = (place){tf_db_u64(stmt, 0), tf_db_u64(stmt, 1), (int64_t)tf_db_u64(stmt, 2), tf_db_u64(stmt, 3),
                       tf_db_u64(stmt, 4)};
        tf_db_end(stmt);
        err = out->first == 0 || out->first > INT64_MAX || out->count == 0 || out->count > TF_DB_BLOCK_MESSAGES
                  ? TF_ERR_DAMAGED
                  : TF_OK;
    }
    return err;
}

/* The block that holds the seq, or the next one behind it. TF_ERR_CLOSED: neither. */
static tf_err place_from(tf_db *db, uint64_t channel, uint64_t seq, place *out)
{
    tf_err err = get_place(db, TF_DB_BLOCK_AT, channel, seq, out);
    if (err == TF_OK && seq < end_of(out)) {
        return TF_OK;
    }
    return err == TF_OK || err == TF_ERR_CLOSED ? get_place(db, TF_DB_BLOCK_AFTER, channel, seq, out) : err;
}

typedef struct numbers {
    uint64_t first;
    uint64_t head;
    uint64_t bytes; /* ever */
} numbers;

static tf_err get_numbers(tf_db *db, uint64_t channel, numbers *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        *out = (numbers){tf_db_u64(stmt, 0), tf_db_u64(stmt, 1), tf_db_u64(stmt, 3)};
        tf_db_end(stmt);
    }
    return err;
}

/* What is kept has together so many bytes; a damaged index leaves the sum of all. */
static tf_err count_bytes(tf_db *db, tf_store_channel *c)
{
    place p;
    tf_err err = place_from(db, c->number, c->first, &p);
    if (err == TF_OK) {
        c->bytes -= p.bytes_before <= c->bytes ? p.bytes_before : c->bytes;
    } else if (err == TF_ERR_CLOSED) {
        c->bytes = 0;
    }
    return err == TF_ERR_CLOSED || err == TF_ERR_DAMAGED ? TF_OK : err;
}

tf_err tf_db_channel_next(tf_db *db, uint64_t *position, tf_store_channel *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_NEXT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, *position);
    err = tf_db_row(db, stmt);
    if (err != TF_OK) {
        return err;
    }
    *out = (tf_store_channel){.number = tf_db_u64(stmt, 0),
                              .epoch = tf_db_u64(stmt, 1),
                              .first = tf_db_u64(stmt, 2),
                              .head = tf_db_u64(stmt, 3),
                              .timestamp_ms = (int64_t)tf_db_u64(stmt, 4),
                              .keys_since_ms = (int64_t)tf_db_u64(stmt, 5),
                              .bytes = tf_db_u64(stmt, 6),
                              .closed = tf_db_u64(stmt, 7) != 0};
    tf_slice name = tf_db_bytes(stmt, 8);
    bool fits = out->number >= 1 && out->number < TF_STORE_NUMBER_END;
    fits = fits && name.len <= sizeof(db->name) && out->first >= 1 && out->head < INT64_MAX && out->first <= out->head + 1;
    if (fits && name.len > 0) {
        memcpy(db->name, name.data, name.len);
    }
    out->name = tf_slice_of(db->name, name.len);
    tf_db_end(stmt);
    *position = out->number;
    return fits ? count_bytes(db, out) : TF_ERR_DAMAGED;
}

/* -- blocks -------------------------------------------------------------------------------------------------------- */

/* The block at a place; TF_ERR_DAMAGED also when there is none, since the index says so. */
static tf_err read_block(tf_db *db, uint64_t channel, const place *p, tf_db_block **out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_DATA_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, p->data);
    err = tf_db_row(db, stmt);
    if (err != TF_OK) {
        return err == TF_ERR_CLOSED ? TF_ERR_DAMAGED : err;
    }
    err = tf_db_block_read(out, db->mem, channel, p->first, p->count, tf_db_bytes(stmt, 0));
    tf_db_end(stmt);
    return err;
}

/* What is missing around a seq that no block holds. */
static tf_err find_gap(tf_db *db, uint64_t channel, uint64_t seq, tf_db_gap *gap)
{
    place p;
    *gap = (tf_db_gap){1, UINT64_MAX};
    tf_err err = get_place(db, TF_DB_BLOCK_AT, channel, seq, &p);
    if (err == TF_OK) {
        gap->first = end_of(&p);
        err = TF_ERR_CLOSED;
    }
    if (err == TF_ERR_CLOSED) {
        err = get_place(db, TF_DB_BLOCK_AFTER, channel, seq, &p);
    }
    if (err == TF_OK) {
        gap->last = p.first - 1;
        err = TF_ERR_CLOSED;
    }
    return err;
}

/* The index itself cannot be read at a seq: looks for the nearest one behind it at which it can, by doubling the
 * distance and then halving it (a bad page hides one range). */
static tf_err find_end(tf_db *db, uint64_t channel, uint64_t seq, tf_db_gap *gap)
{
    numbers n;
    place p = {0};
    uint64_t reach = 0; /* from seq: still bad */
    uint64_t step = 1;
    *gap = (tf_db_gap){seq, UINT64_MAX};
    if (get_numbers(db, channel, &n) != TF_OK || n.head <= seq) {
        return TF_ERR_DAMAGED;
    }
    while (reach + step <= n.head - seq && get_place(db, TF_DB_BLOCK_AT, channel, seq + reach + step, &p) != TF_OK) {
        reach += step;
        step *= 2;
    }
    if (reach + step > n.head - seq) {
        if (get_place(db, TF_DB_BLOCK_AT, channel, n.head, &p) != TF_OK) {
            return TF_ERR_DAMAGED;
        }
        step = n.head - seq - reach;
    }
    uint64_t good = reach + step;
    while (good - reach > 1) {
        uint64_t middle = reach + (good - reach) / 2;
        if (get_place(db, TF_DB_BLOCK_AT, channel, seq + middle, &p) == TF_OK) {
            good = middle;
        } else {
            reach = middle;
        }
    }
    if (get_place(db, TF_DB_BLOCK_AT, channel, seq + good, &p) == TF_OK) {
        gap->last = p.first > seq ? p.first - 1 : seq + good - 1;
    }
    return TF_ERR_DAMAGED;
}

static tf_err load(tf_db *db, uint64_t channel, uint64_t seq, tf_db_block **out, tf_db_gap *gap)
{
    place p;
    tf_err err = get_place(db, TF_DB_BLOCK_AT, channel, seq, &p);
    if (err == TF_ERR_DAMAGED) {
        return find_end(db, channel, seq, gap);
    }
    if (err == TF_ERR_CLOSED || (err == TF_OK && seq >= end_of(&p))) {
        return find_gap(db, channel, seq, gap);
    }
    if (err != TF_OK) {
        return err;
    }
    *gap = (tf_db_gap){p.first, end_of(&p) - 1};
    return read_block(db, channel, &p, out);
}

tf_err tf_db_load(tf_db *db, uint64_t channel, uint64_t seq, tf_db_block **out, tf_db_gap *gap)
{
    tf_err err = tf_db_begin(db, false);
    if (err != TF_OK) {
        return err;
    }
    tf_err found = load(db, channel, seq, out, gap);
    err = tf_db_finish(db, TF_OK);
    if (err != TF_OK && found == TF_OK) {
        tf_db_block_free(*out);
        return err;
    }
    return found;
}

tf_err tf_db_hole_next(tf_db *db, uint64_t channel, uint64_t *position, tf_store_damage *out)
{
    numbers n = {0};
    tf_err err = get_numbers(db, channel, &n);
    uint64_t seq = *position > n.first ? *position : n.first;
    while (err == TF_OK && seq <= n.head) {
        place p;
        err = place_from(db, channel, seq, &p);
        if (err == TF_ERR_CLOSED || (err == TF_OK && p.first > seq)) {
            *out = (tf_store_damage){channel, seq, err == TF_OK ? p.first - 1 : n.head};
            *position = out->last + 1;
            return TF_OK;
        }
        seq = err == TF_OK ? end_of(&p) : seq;
    }
    *position = seq;
    return err == TF_OK ? TF_ERR_CLOSED : err;
}

/* -- bisection ----------------------------------------------------------------------------------------------------- */

/* What is looked for: the first block that reaches a time, or the first from which on there are few enough bytes. */
typedef struct wanted {
    bool by_time;
    int64_t time_ms;
    uint64_t bytes_before;
} wanted;

static bool is_reached(const wanted *w, const place *p)
{
    return w->by_time ? p->time_last >= w->time_ms : p->bytes_before >= w->bytes_before;
}

/* TF_ERR_CLOSED: no block is. */
static tf_err bisect(tf_db *db, uint64_t channel, const numbers *n, const wanted *w, place *out)
{
    uint64_t low = n->first;
    uint64_t high = n->head + 1;
    bool found = false;
    while (low < high) {
        place p;
        uint64_t middle = low + (high - low) / 2;
        tf_err err = place_from(db, channel, middle, &p);
        if (err != TF_OK && err != TF_ERR_CLOSED) {
            return err;
        }
        if (err == TF_ERR_CLOSED) {
            high = middle;
        } else if (is_reached(w, &p)) {
            *out = p;
            found = true;
            high = p.first < middle ? p.first : middle;
        } else {
            low = end_of(&p);
        }
    }
    return found ? TF_OK : TF_ERR_CLOSED;
}

static uint64_t at_least(uint64_t seq, const numbers *n)
{
    return seq > n->first ? seq : n->first;
}

/* Within a block that cannot be read, its first stands for all. */
static tf_err time_in_block(tf_db *db, uint64_t channel, const place *p, int64_t timestamp_ms, uint64_t *seq)
{
    tf_db_block *block = NULL;
    tf_stored m;
    *seq = p->first;
    tf_err err = read_block(db, channel, p, &block);
    if (err != TF_OK) {
        return err == TF_ERR_DAMAGED ? TF_OK : err;
    }
    while (tf_db_block_message(block, *seq, &m) && m.timestamp_ms < timestamp_ms) {
        (*seq)++;
    }
    tf_db_block_free(block);
    return TF_OK;
}

static tf_err find_time(tf_db *db, uint64_t channel, int64_t timestamp_ms, uint64_t *seq)
{
    numbers n;
    place p;
    const wanted w = {.by_time = true, .time_ms = timestamp_ms};
    tf_err err = get_numbers(db, channel, &n);
    if (err != TF_OK) {
        return err;
    }
    err = bisect(db, channel, &n, &w, &p);
    if (err == TF_ERR_CLOSED) {
        *seq = n.head + 1;
        return TF_OK;
    }
    if (err == TF_OK) {
        err = time_in_block(db, channel, &p, timestamp_ms, seq);
        *seq = at_least(*seq, &n);
    }
    return err;
}

tf_err tf_db_find_time(tf_db *db, uint64_t channel, int64_t timestamp_ms, uint64_t *seq)
{
    tf_err err = tf_db_begin(db, false);
    return err == TF_OK ? tf_db_finish(db, find_time(db, channel, timestamp_ms, seq)) : err;
}

/* The first seq of the block from which on its messages have at most `room` bytes. */
static tf_err bytes_in_block(tf_db *db, uint64_t channel, const place *p, uint64_t room, uint64_t *seq)
{
    tf_db_block *block = NULL;
    tf_stored m;
    *seq = p->first;
    tf_err err = read_block(db, channel, p, &block);
    if (err != TF_OK) {
        return err == TF_ERR_DAMAGED ? TF_OK : err;
    }
    uint64_t at = end_of(p);
    while (tf_db_block_message(block, at - 1, &m) && tf_stored_bytes(&m) <= room) {
        room -= tf_stored_bytes(&m);
        at--;
    }
    *seq = at;
    tf_db_block_free(block);
    return TF_OK;
}

static tf_err find_bytes(tf_db *db, uint64_t channel, uint64_t bytes, uint64_t *seq)
{
    numbers n;
    tf_err err = get_numbers(db, channel, &n);
    if (err != TF_OK) {
        return err;
    }
    *seq = n.first;
    if (bytes >= n.bytes) {
        return TF_OK;
    }
    const wanted w = {.bytes_before = n.bytes - bytes};
    place whole; /* the first block that fits */
    place cut;   /* the one before it, of which a part may fit */
    uint64_t end = n.bytes;
    err = bisect(db, channel, &n, &w, &whole);
    if (err == TF_OK) {
        end = whole.bytes_before;
    }
    *seq = err == TF_OK ? whole.first : n.head + 1;
    if (err == TF_OK || err == TF_ERR_CLOSED) {
        err = *seq > n.first ? get_place(db, TF_DB_BLOCK_AT, channel, *seq - 1, &cut) : TF_ERR_CLOSED;
    }
    if (err == TF_OK) {
        err = bytes_in_block(db, channel, &cut, bytes - (n.bytes - end), seq);
    }
    *seq = at_least(*seq, &n);
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

tf_err tf_db_find_bytes(tf_db *db, uint64_t channel, uint64_t bytes, uint64_t *seq)
{
    tf_err err = tf_db_begin(db, false);
    return err == TF_OK ? tf_db_finish(db, find_bytes(db, channel, bytes, seq)) : err;
}

/* -- cursors ------------------------------------------------------------------------------------------------------- */

static tf_err give_cursor(tf_db *db, sqlite3_stmt *stmt, tf_store_cursor *out)
{
    tf_slice owner = tf_db_bytes(stmt, 2);
    tf_slice name = tf_db_bytes(stmt, 3);
    bool fits = owner.len == TF_NODE_ID_LEN && name.len <= TF_CURSOR_NAME_MAX;
    *out = (tf_store_cursor){.channel = tf_db_u64(stmt, 1),
                             .epoch = tf_db_u64(stmt, 4),
                             .next = tf_db_u64(stmt, 5),
                             .moved_ms = (int64_t)tf_db_u64(stmt, 6)};
    if (fits) {
        memcpy(out->owner.bytes, owner.data, TF_NODE_ID_LEN);
        memcpy(db->name, name.data, name.len);
        out->name = tf_slice_of(db->name, name.len);
    }
    tf_db_end(stmt);
    return fits ? TF_OK : TF_ERR_DAMAGED;
}

tf_err tf_db_cursor_find(tf_db *db, uint64_t channel, const tf_node_id *owner, tf_slice name, tf_store_cursor *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CURSOR_FIND, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    tf_db_bind_bytes(stmt, 2, tf_slice_of(owner->bytes, TF_NODE_ID_LEN));
    tf_db_bind_bytes(stmt, 3, name);
    err = tf_db_row(db, stmt);
    return err == TF_OK ? give_cursor(db, stmt, out) : err;
}

tf_err tf_db_cursor_next(tf_db *db, uint64_t channel, uint64_t *position, tf_store_cursor *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CURSOR_NEXT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    tf_db_bind_u64(stmt, 2, *position);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        *position = tf_db_u64(stmt, 0);
        err = give_cursor(db, stmt, out);
    }
    return err;
}
