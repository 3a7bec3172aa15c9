#include "node/store/db.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "node/store/db_internal.h"
#include "node/store/db_schema.h"

static const char *const sql_texts[TF_DB_SQL_COUNT] = {
#define X(name, text) text,
    TF_DB_SQL_MAP(X)
#undef X
};

/* -- errors -------------------------------------------------------------------------------------------------------- */

static bool is_no_room(const tf_db *db)
{
    int code = sqlite3_system_errno(db->sqlite);
    return code == ENOSPC || code == EDQUOT || code == EFBIG;
}

tf_err tf_db_fail(tf_db *db, int code)
{
    (void)snprintf(db->error, sizeof(db->error), "%s (%d)", sqlite3_errmsg(db->sqlite),
                   sqlite3_extended_errcode(db->sqlite));
    switch (code & 0xff) {
    case SQLITE_FULL:
        return TF_ERR_FULL;
    case SQLITE_IOERR:
        return (code == SQLITE_IOERR_NOMEM) ? TF_ERR_NOMEM : is_no_room(db) ? TF_ERR_FULL : TF_ERR_IO;
    case SQLITE_NOMEM:
        return TF_ERR_NOMEM;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return TF_ERR_AGAIN;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_CONSTRAINT: /* the ops do not fit what is there */
    case SQLITE_ERROR:      /* a table is not what it was */
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
        return TF_ERR_DAMAGED;
    default:
        return TF_ERR_IO;
    }
}

const char *tf_db_error_text(const tf_db *db)
{
    return db->error;
}

/* -- statements ---------------------------------------------------------------------------------------------------- */

tf_err tf_db_use(tf_db *db, tf_db_sql which, sqlite3_stmt **out)
{
    *out = NULL;
    if (db->stmts[which] == NULL) {
        int code = sqlite3_prepare_v3(db->sqlite, sql_texts[which], -1, SQLITE_PREPARE_PERSISTENT, &db->stmts[which],
                                      NULL);
        if (code != SQLITE_OK) {
            return tf_db_fail(db, code);
        }
    }
    *out = db->stmts[which];
    return TF_OK;
}

void tf_db_end(sqlite3_stmt *stmt)
{
    (void)sqlite3_reset(stmt); /* tells again what the last step told */
    (void)sqlite3_clear_bindings(stmt);
}

tf_err tf_db_row(tf_db *db, sqlite3_stmt *stmt)
{
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW) {
        return TF_OK;
    }
    tf_err err = code == SQLITE_DONE ? TF_ERR_CLOSED : tf_db_fail(db, sqlite3_extended_errcode(db->sqlite));
    tf_db_end(stmt);
    return err;
}

tf_err tf_db_exec(tf_db *db, sqlite3_stmt *stmt)
{
    tf_err err = tf_db_row(db, stmt);
    if (err == TF_OK) {
        tf_db_end(stmt);
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

tf_err tf_db_do(tf_db *db, tf_db_sql which)
{
    sqlite3_stmt *stmt = NULL;
    tf_err err = tf_db_use(db, which, &stmt);
    return err == TF_OK ? tf_db_exec(db, stmt) : err;
}

void tf_db_bind_u64(sqlite3_stmt *stmt, int at, uint64_t value)
{
    int code = sqlite3_bind_int64(stmt, at, (int64_t)value);
    TF_ASSERT(code == SQLITE_OK);
}

void tf_db_bind_bytes(sqlite3_stmt *stmt, int at, tf_slice bytes)
{
    int code = sqlite3_bind_blob64(stmt, at, bytes.len == 0 ? (const void *)"" : bytes.data, bytes.len, SQLITE_STATIC);
    TF_ASSERT(code == SQLITE_OK);
}

uint64_t tf_db_u64(sqlite3_stmt *stmt, int column)
{
    return (uint64_t)sqlite3_column_int64(stmt, column);
}

tf_slice tf_db_bytes(sqlite3_stmt *stmt, int column)
{
    const void *data = sqlite3_column_blob(stmt, column);
    int len = sqlite3_column_bytes(stmt, column);
    return tf_slice_of(data, data == NULL ? 0 : (size_t)len);
}

tf_err tf_db_begin(tf_db *db, bool write)
{
    TF_ASSERT(db->depth == 0 || !write);
    tf_err err = db->depth > 0 ? TF_OK : tf_db_do(db, write ? TF_DB_BEGIN_WRITE : TF_DB_BEGIN_READ);
    db->depth += err == TF_OK ? 1u : 0u;
    return err;
}

tf_err tf_db_finish(tf_db *db, tf_err err)
{
    TF_ASSERT(db->depth > 0);
    if (--db->depth > 0) {
        return err;
    }
    if (err == TF_OK) {
        err = tf_db_do(db, TF_DB_COMMIT);
    }
    if (err != TF_OK && sqlite3_get_autocommit(db->sqlite) == 0) {
        char kept[sizeof(db->error)];
        memcpy(kept, db->error, sizeof(kept));
        tf_err undone = tf_db_do(db, TF_DB_ROLLBACK);
        (void)undone; /* what could not be rolled back is, when the file is opened again */
        memcpy(db->error, kept, sizeof(kept));
    }
    return err;
}

/* -- memory -------------------------------------------------------------------------------------------------------- */

tf_err tf_db_grow(const tf_mem *mem, void **array, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return TF_OK;
    }
    size_t wanted = *capacity == 0 ? 64 : *capacity * 2;
    void *larger = tf_alloc(mem, wanted * size);
    if (larger == NULL) {
        return TF_ERR_NOMEM;
    }
    if (count > 0) {
        memcpy(larger, *array, count * size);
    }
    tf_free(mem, *array, *capacity * size);
    *array = larger;
    *capacity = wanted;
    return TF_OK;
}

tf_err tf_db_buffer_room(tf_db *db, tf_db_buffer *buffer, size_t extra)
{
    while (buffer->len + extra > buffer->capacity) {
        void *bytes = buffer->bytes;
        size_t capacity = buffer->capacity;
        size_t filled = capacity; /* so that it is moved whole, and grows */
        tf_err err = tf_db_grow(db->mem, &bytes, filled, &capacity, 1);
        if (err != TF_OK) {
            return err;
        }
        buffer->bytes = bytes;
        buffer->capacity = capacity;
    }
    return TF_OK;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err explain(tf_db *db, tf_err err, const char *path, char why[TF_WHY_MAX])
{
    if (err != TF_OK && err != TF_ERR_USAGE) {
        (void)tf_why(why, "%s: %s", path, db->error[0] != '\0' ? db->error : tf_err_text(err));
    }
    return err;
}

/* What of a hostile or damaged file could make SQLite work for longer or take more than we ever ask of it. */
static void set_limits(sqlite3 *sqlite)
{
    static const int limits[][2] = {
        {SQLITE_LIMIT_LENGTH, 4 << 20},    {SQLITE_LIMIT_SQL_LENGTH, 1 << 16}, {SQLITE_LIMIT_COLUMN, 32},
        {SQLITE_LIMIT_EXPR_DEPTH, 32},     {SQLITE_LIMIT_COMPOUND_SELECT, 4},  {SQLITE_LIMIT_FUNCTION_ARG, 8},
        {SQLITE_LIMIT_ATTACHED, 1},        {SQLITE_LIMIT_VARIABLE_NUMBER, 16}, {SQLITE_LIMIT_TRIGGER_DEPTH, 1},
        {SQLITE_LIMIT_WORKER_THREADS, 0},
    };
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        (void)sqlite3_limit(sqlite, limits[i][0], limits[i][1]);
    }
    (void)sqlite3_db_config(sqlite, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    (void)sqlite3_db_config(sqlite, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(sqlite, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    (void)sqlite3_db_config(sqlite, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    (void)sqlite3_extended_result_codes(sqlite, 1);
    (void)sqlite3_busy_timeout(sqlite, TF_DB_BUSY_MS);
}

static tf_err open_file(tf_db *db, const tf_db_config *config)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                (config->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    int code = sqlite3_open_v2(config->path, &db->sqlite, flags, config->vfs);
    if (db->sqlite == NULL) {
        return TF_ERR_NOMEM;
    }
    if (code != SQLITE_OK) {
        return tf_db_fail(db, code);
    }
    set_limits(db->sqlite);
    return TF_OK;
}

tf_err tf_db_open(tf_db **out, const tf_db_config *config, char why[TF_WHY_MAX])
{
    tf_db *db = tf_alloc(config->mem, sizeof(*db));
    if (db == NULL) {
        return TF_ERR_NOMEM;
    }
    db->mem = config->mem;
    db->read_only = config->read_only;
    db->vfs = config->vfs;
    db->checkpoint_bytes = config->checkpoint_bytes != 0 ? config->checkpoint_bytes : TF_DB_CHECKPOINT_BYTES;
    db->entries.mem = config->mem;
    tf_db_block_writer_init(&db->writer, config->mem);
    tf_err err = open_file(db, config);
    if (err == TF_OK) {
        err = tf_db_schema_prepare(db, config->path, why);
    }
    if (err != TF_OK) {
        err = explain(db, err, config->path, why);
        tf_db_free(db);
        return err;
    }
    *out = db;
    return TF_OK;
}

void tf_db_free(tf_db *db)
{
    if (db == NULL) {
        return;
    }
    if (db->in_batch) {
        tf_db_apply_abort(db);
    }
    for (size_t i = 0; i < TF_DB_SQL_COUNT; i++) {
        (void)sqlite3_finalize(db->stmts[i]);
    }
    int code = sqlite3_close(db->sqlite);
    TF_ASSERT(code == SQLITE_OK); /* every statement was ours */
    tf_db_block_writer_clear(&db->writer);
    tf_db_entries_clear(&db->entries);
    tf_free(db->mem, db->read.bytes, db->read.capacity);
    tf_free(db->mem, db->part.bytes, db->part.capacity);
    tf_free(db->mem, db->appends, db->append_capacity * sizeof(*db->appends));
    tf_free(db->mem, db, sizeof(*db));
}

tf_err tf_db_checkpoint(tf_db *db, bool truncate)
{
    int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    int code = sqlite3_wal_checkpoint_v2(db->sqlite, NULL, mode, NULL, NULL);
    return code == SQLITE_OK ? TF_OK : tf_db_fail(db, code);
}

tf_err tf_db_applied(tf_db *db, uint64_t *lsn)
{
    TF_ASSERT(!db->in_batch);
    tf_err err = tf_db_state_load(db);
    *lsn = err == TF_OK ? db->applied : 0;
    return err;
}
