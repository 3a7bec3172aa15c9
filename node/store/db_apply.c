#include <inttypes.h>
#include <stdio.h>

#include "node/store/db_internal.h"
#include "node/store/log_segment.h"

tf_err tf_db_apply_begin(tf_db *db)
{
    TF_ASSERT(!db->in_batch && !db->read_only);
    tf_err err = tf_db_begin(db, true);
    if (err != TF_OK) {
        return err;
    }
    db->append_count = 0;
    db->in_batch = true;
    err = tf_db_state_load(db);
    if (err != TF_OK) {
        tf_db_apply_abort(db);
    }
    return err;
}

void tf_db_apply_abort(tf_db *db)
{
    TF_ASSERT(db->in_batch);
    db->in_batch = false;
    db->append_count = 0;
    tf_err err = tf_db_finish(db, TF_ERR_CLOSED);
    (void)err; /* the one that was given */
}

/* Runs a statement that has to change the row of a channel. */
static tf_err change(tf_db *db, sqlite3_stmt *stmt)
{
    tf_err err = tf_db_exec(db, stmt);
    return err == TF_OK && sqlite3_changes64(db->sqlite) != 1 ? TF_ERR_DAMAGED : err;
}

static tf_err set_channel(tf_db *db, tf_db_sql which, uint64_t channel, uint64_t value)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, which, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, channel);
    if (which != TF_DB_CHANNEL_CLOSE) {
        tf_db_bind_u64(stmt, 2, value);
    }
    return change(db, stmt);
}

static tf_err create(tf_db *db, const tf_store_op *op)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_PUT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, op->channel);
    tf_db_bind_bytes(stmt, 2, op->name);
    tf_db_bind_u64(stmt, 3, op->epoch);
    return tf_db_exec(db, stmt);
}

static tf_err append(tf_db *db, const tf_store_op *op)
{
    void *array = db->appends;
    tf_err err = tf_db_grow(db->mem, &array, db->append_count, &db->append_capacity, sizeof(*db->appends));
    db->appends = array;
    if (err == TF_OK) {
        db->appends[db->append_count++] = (tf_db_append){op->channel, op->message};
    }
    return err;
}

/* The newest seq of a channel in the batch, which its row does not have yet; 0: none. */
static uint64_t head_in_batch(const tf_db *db, uint64_t channel)
{
    size_t i = db->append_count;
    while (i > 0 && db->appends[i - 1].channel != channel) {
        i--;
    }
    return i > 0 ? db->appends[i - 1].message.seq : 0;
}

/* Not beyond what there is: a trim may come early, or what it is of was lost with a part of the log, and numbers that go on
 * below `first` would be gone at once. */
static tf_err trim(tf_db *db, const tf_store_op *op)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_CHANNEL_TRIM, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, op->channel);
    tf_db_bind_u64(stmt, 2, op->seq);
    tf_db_bind_u64(stmt, 3, head_in_batch(db, op->channel));
    return change(db, stmt);
}

static tf_err move_cursor(tf_db *db, const tf_store_cursor *c)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, c->next == 0 ? TF_DB_CURSOR_DROP : TF_DB_CURSOR_PUT, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, c->channel);
    tf_db_bind_bytes(stmt, 2, tf_slice_of(c->owner.bytes, TF_NODE_ID_LEN));
    tf_db_bind_bytes(stmt, 3, c->name);
    if (c->next != 0) {
        tf_db_bind_u64(stmt, 4, c->epoch);
        tf_db_bind_u64(stmt, 5, c->next);
        tf_db_bind_u64(stmt, 6, (uint64_t)c->moved_ms);
    }
    return tf_db_exec(db, stmt);
}

tf_err tf_db_apply_any(tf_db *db, const tf_store_op *op)
{
    switch (op->kind) {
    case TF_STORE_CREATE:
        return create(db, op);
    case TF_STORE_APPEND:
        return append(db, op);
    case TF_STORE_CLOSE:
        return set_channel(db, TF_DB_CHANNEL_CLOSE, op->channel, 0);
    case TF_STORE_TRIM:
        return trim(db, op);
    case TF_STORE_FORGET:
        return set_channel(db, TF_DB_CHANNEL_FORGET, op->channel, (uint64_t)op->time_ms);
    case TF_STORE_EPOCH:
        return set_channel(db, TF_DB_CHANNEL_EPOCH, op->channel, op->epoch);
    case TF_STORE_CURSOR:
        return move_cursor(db, &op->cursor);
    }
    TF_UNREACHABLE();
}

tf_err tf_db_apply_op(tf_db *db, uint64_t lsn, const tf_store_op *op)
{
    TF_ASSERT(db->in_batch);
    if (lsn <= db->applied) {
        return TF_OK;
    }
    tf_err err = tf_db_apply_any(db, op);
    if (err != TF_OK) {
        tf_db_apply_abort(db);
        return err;
    }
    db->applied = lsn;
    return TF_OK;
}

tf_err tf_db_apply_early(tf_db *db, const tf_store_op *op)
{
    TF_ASSERT(db->in_batch);
    tf_err err = op->kind == TF_STORE_TRIM || op->kind == TF_STORE_FORGET ? tf_db_apply_any(db, op) : TF_OK;
    if (err != TF_OK) {
        tf_db_apply_abort(db);
    }
    return err;
}

tf_err tf_db_state_load(tf_db *db)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_GET_STATE, &stmt);
    if (err == TF_OK) {
        err = tf_db_row(db, stmt);
    }
    if (err == TF_OK) {
        db->applied = tf_db_u64(stmt, 0);
        db->key_secret = tf_db_u64(stmt, 1);
        db->next_part = tf_db_u64(stmt, 2);
        tf_db_end(stmt);
    }
    if (err == TF_OK && db->applied > TF_LOG_LSN_MAX) { /* from where no log goes on */
        (void)snprintf(db->error, sizeof(db->error), "it claims changes up to %" PRIu64, db->applied);
        db->applied = 0;
        err = TF_ERR_DAMAGED;
    }
    if (err == TF_ERR_CLOSED) {
        (void)snprintf(db->error, sizeof(db->error), "how far it goes is missing");
        err = TF_ERR_DAMAGED;
    }
    return err;
}

tf_err tf_db_state_save(tf_db *db)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, TF_DB_SET_STATE, &stmt);
    if (err != TF_OK) {
        return err;
    }
    tf_db_bind_u64(stmt, 1, db->applied);
    tf_db_bind_u64(stmt, 2, db->next_part);
    return change(db, stmt);
}

tf_err tf_db_apply_commit(tf_db *db)
{
    TF_ASSERT(db->in_batch);
    tf_err err = TF_OK;
    if (db->append_count > 0) {
        err = tf_db_blocks_store(db);
    }
    if (err == TF_OK && db->append_count > 0) {
        err = tf_db_keys_store(db);
    }
    if (err == TF_OK) {
        err = tf_db_state_save(db);
    }
    db->in_batch = false;
    db->append_count = 0;
    return tf_db_finish(db, err);
}
