/* How the messages of a batch become blocks. A short block at the end of a channel is taken up into the new one, when it
 * is not much longer than what is added: so a channel that gets one message a batch still ends up in long blocks, and each
 * message is written again a few times only (as often as its block doubles). */
#include <stdlib.h>

#include "node/store/db_internal.h"

#define SHORT_BLOCK 2048u /* is always taken up */
#define PULLED_MAX 16u

/* A channel that is added to. */
typedef struct target {
    uint64_t channel;
    uint64_t head;
    int64_t timestamp_ms;
    uint64_t bytes;                  /* before what is written next */
    tf_db_block *pulled[PULLED_MAX]; /* blocks that are written again, the newest first */
    size_t pulled_count;
    size_t pulled_len;
} target;

static int by_channel(const void *a, const void *b)
{
    const tf_db_append *x = a;
    const tf_db_append *y = b;
    if (x->channel != y->channel) {
        return x->channel < y->channel ? -1 : 1;
    }
    return (x->message.seq > y->message.seq) - (x->message.seq < y->message.seq);
}

static tf_err open_target(tf_db *db, target *t)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, t->channel);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        t->head = tf_db_u64(stmt, 1);
        t->timestamp_ms = (int64_t)tf_db_u64(stmt, 2);
        t->bytes = tf_db_u64(stmt, 3);
        tf_db_end(stmt);
    }
    return err == TF_ERR_CLOSED ? TF_ERR_DAMAGED : err;
}

static tf_err close_target(tf_db *db, const target *t)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_APPEND, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, t->channel);
    tf_db_bind_u64(stmt, 2, t->head);
    tf_db_bind_u64(stmt, 3, (uint64_t)t->timestamp_ms);
    tf_db_bind_u64(stmt, 4, t->bytes);
    return tf_db_exec(db, stmt);
}

/* -- short blocks -------------------------------------------------------------------------------------------------- */

typedef struct tail {
    uint64_t first;
    uint64_t count;
    uint64_t bytes_before;
    uint64_t data;
    size_t len;
} tail;

static tf_err get_tail(tf_db *db, uint64_t channel, tail *out)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_BLOCK_TAIL, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        *out = (tail){tf_db_u64(stmt, 0), tf_db_u64(stmt, 1), tf_db_u64(stmt, 3), tf_db_u64(stmt, 4),
                      (size_t)tf_db_u64(stmt, 5)};
        tf_db_end(stmt);
    }
    return err;
}

static tf_err drop_tail(tf_db *db, uint64_t channel, const tail *from)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_BLOCK_DROP, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    tf_db_bind_u64(stmt, 2, from->first);
    err = tf_db_exec(db, stmt);
    if (err == TF_OK) {
        err = tf_db_use(db, TF_DB_DATA_DROP, &stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, from->data);
    return tf_db_exec(db, stmt);
}

/* Takes the last block up, if that is worth it: TF_ERR_CLOSED: it is not. A damaged one stays as it is. */
static tf_err pull(tf_db *db, target *t, uint64_t next, size_t added)
{
    tail last;
    tf_err err = get_tail(db, t->channel, &last);
    if (err != TF_OK) {
        return err;
    }
    size_t size = t->pulled_len + added;
    if (t->pulled_count == PULLED_MAX || last.first + last.count != next || last.len + size > TF_DB_BLOCK_BYTES ||
        (last.len > size && last.len > SHORT_BLOCK)) {
        return TF_ERR_CLOSED;
    }
    sqlite3_stmt *stmt = NULL;
    err = tf_db_use(db, TF_DB_DATA_GET, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, last.data);
    err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        err = tf_db_block_read(&t->pulled[t->pulled_count], db->mem, t->channel, last.first, last.count,
                               tf_db_bytes(stmt, 0));
        tf_db_end(stmt);
    }
    if (err != TF_OK) {
        return err == TF_ERR_DAMAGED ? TF_ERR_CLOSED : err;
    }
    t->pulled_count++;
    t->pulled_len += last.len;
    t->bytes = last.bytes_before;
    return drop_tail(db, t->channel, &last);
}

static tf_err pull_all(tf_db *db, target *t, const tf_db_append *appends, size_t count)
{
    size_t added = 0;
    for (size_t i = 0; i < count && added < TF_DB_BLOCK_BYTES; i++) {
        added += (size_t)tf_stored_bytes(&appends[i].message);
    }
    uint64_t next = appends[0].message.seq;
    tf_err err = TF_OK;
    while (err == TF_OK) {
        err = pull(db, t, next, added);
        next = t->pulled_count == 0 ? next : tf_db_block_first(t->pulled[t->pulled_count - 1]);
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

/* Writes the block that the writer holds, if any, and starts the next. */
static tf_err flush(tf_db *db, target *t)
{
    tf_db_block_writer *w = &db->writer;
    sqlite3_stmt *stmt = NULL;
    tf_slice bytes;
    if (w->count == 0) {
        return TF_OK;
    }
    tf_err err = tf_db_block_writer_end(w, &bytes);
    if (err == TF_OK) {
        err = tf_db_use(db, TF_DB_DATA_PUT, &stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_bytes(stmt, 1, bytes);
    err = tf_db_exec(db, stmt);
    if (err == TF_OK) {
        err = tf_db_use(db, TF_DB_BLOCK_PUT, &stmt);
    }
    if (err != TF_OK) {
        return err;
    }
    const uint64_t values[] = {t->channel,
                               w->first,
                               w->count,
                               (uint64_t)w->time_first,
                               (uint64_t)w->time_last,
                               t->bytes,
                               bytes.len,
                               (uint64_t)sqlite3_last_insert_rowid(db->sqlite)};
    for (int i = 0; i < (int)(sizeof(values) / sizeof(*values)); i++) {
        tf_db_bind_u64(stmt, i + 1, values[i]);
    }
    t->bytes += w->content;
    tf_db_block_writer_start(w, t->channel);
    return tf_db_exec(db, stmt);
}

static tf_err write_one(tf_db *db, target *t, const tf_stored *m)
{
    tf_db_block_writer *w = &db->writer;
    tf_err err = TF_OK;
    if (w->count > 0 && m->seq != w->first + w->count) {
        err = flush(db, t); /* behind a range that was lost */
    }
    if (err == TF_OK) {
        err = tf_db_block_writer_add(w, m);
    }
    if (err == TF_ERR_LIMIT_ITEMS) {
        err = flush(db, t);
        if (err == TF_OK) {
            err = tf_db_block_writer_add(w, m);
        }
    }
    return err;
}

static tf_err write_pulled(tf_db *db, target *t)
{
    tf_err err = TF_OK;
    for (size_t i = t->pulled_count; i-- > 0 && err == TF_OK;) {
        tf_stored m;
        uint64_t seq = tf_db_block_first(t->pulled[i]);
        for (; err == TF_OK && tf_db_block_message(t->pulled[i], seq, &m); seq++) {
            err = write_one(db, t, &m);
        }
    }
    return err;
}

/* Numbers and times only grow; the hub and the log see to that. */
static tf_err write_added(tf_db *db, target *t, const tf_db_append *appends, size_t count)
{
    tf_err err = TF_OK;
    for (size_t i = 0; i < count && err == TF_OK; i++) {
        const tf_stored *m = &appends[i].message;
        if (m->seq <= t->head || m->timestamp_ms < t->timestamp_ms) {
            return TF_ERR_DAMAGED;
        }
        err = write_one(db, t, m);
        t->head = m->seq;
        t->timestamp_ms = m->timestamp_ms;
    }
    return err == TF_OK ? flush(db, t) : err;
}

static tf_err store_channel(tf_db *db, const tf_db_append *appends, size_t count)
{
    target t = {.channel = appends[0].channel};
    tf_err err = open_target(db, &t);
    if (err == TF_OK && appends[0].message.seq == t.head + 1) {
        err = pull_all(db, &t, appends, count);
    }
    tf_db_block_writer_start(&db->writer, t.channel);
    if (err == TF_OK) {
        err = write_pulled(db, &t);
    }
    if (err == TF_OK) {
        err = write_added(db, &t, appends, count);
    }
    if (err == TF_OK) {
        err = close_target(db, &t);
    }
    for (size_t i = 0; i < t.pulled_count; i++) {
        tf_db_block_free(t.pulled[i]);
    }
    return err;
}

tf_err tf_db_blocks_store(tf_db *db)
{
    qsort(db->appends, db->append_count, sizeof(*db->appends), by_channel);
    tf_err err = TF_OK;
    for (size_t i = 0, first = 0; first < db->append_count && err == TF_OK; first = i) {
        while (i < db->append_count && db->appends[i].channel == db->appends[first].channel) {
            i++;
        }
        err = store_channel(db, db->appends + first, i - first);
    }
    return err;
}
