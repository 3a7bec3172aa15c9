#include "node/store/db_schema.h"

#include <stdio.h>

#include "node/store/db_internal.h"

/* What brings a database of version i to version i + 1; version 0 is an empty file. */
static const char *const steps[TF_DB_VERSION] = {
    "CREATE TABLE state(id INTEGER PRIMARY KEY CHECK(id = 1), applied_lsn INTEGER NOT NULL, key_secret INTEGER NOT NULL, "
    "next_part INTEGER NOT NULL) STRICT;"
    "INSERT INTO state VALUES (1, 0, random(), 1);"
    "CREATE TABLE channels(number INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, epoch INTEGER NOT NULL, "
    "first INTEGER NOT NULL, head INTEGER NOT NULL, timestamp_ms INTEGER NOT NULL, keys_since_ms INTEGER NOT NULL, "
    "bytes INTEGER NOT NULL, closed INTEGER NOT NULL, collected INTEGER NOT NULL) STRICT;"
    "CREATE INDEX channels_trimmed ON channels(number) WHERE collected < first;"
    "CREATE TABLE blocks(channel INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL, "
    "time_first INTEGER NOT NULL, time_last INTEGER NOT NULL, bytes_before INTEGER NOT NULL, len INTEGER NOT NULL, "
    "data INTEGER NOT NULL, PRIMARY KEY(channel, first)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE block_data(id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;"
    "CREATE TABLE key_runs(id INTEGER PRIMARY KEY AUTOINCREMENT, level INTEGER NOT NULL, bits INTEGER NOT NULL, "
    "keys INTEGER NOT NULL, first_part INTEGER NOT NULL, parts_done INTEGER NOT NULL, merged_into INTEGER NOT NULL, "
    "damaged INTEGER NOT NULL) STRICT;"
    "CREATE TABLE key_parts(id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;"
    "CREATE TABLE key_counts(run INTEGER NOT NULL, channel INTEGER NOT NULL, keys INTEGER NOT NULL, "
    "time_last INTEGER NOT NULL, PRIMARY KEY(run, channel)) STRICT, WITHOUT ROWID;"
    "CREATE TABLE key_garbage(id INTEGER PRIMARY KEY, first_part INTEGER NOT NULL, parts INTEGER NOT NULL) STRICT;"
    "CREATE TABLE cursors(id INTEGER PRIMARY KEY AUTOINCREMENT, channel INTEGER NOT NULL, owner BLOB NOT NULL, "
    "name BLOB NOT NULL, epoch INTEGER NOT NULL, next INTEGER NOT NULL, moved_ms INTEGER NOT NULL, "
    "UNIQUE(channel, owner, name)) STRICT;"
    "CREATE INDEX cursors_by_channel ON cursors(channel);",
};

static tf_err exec(tf_db *db, const char *sql)
{
    int code = sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? TF_OK : tf_db_fail(db, sqlite3_extended_errcode(db->sqlite));
}

/* The one value of a statement that is not kept. */
static tf_err ask(tf_db *db, const char *sql, int64_t *out)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, sql, -1, &stmt, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(stmt);
    }
    tf_err err = code == SQLITE_ROW ? TF_OK : tf_db_fail(db, code);
    if (err == TF_OK) {
        *out = sqlite3_column_int64(stmt, 0);
    }
    (void)sqlite3_finalize(stmt);
    return err;
}

#define PAGE_BYTES 4096u /* SQLite's default */

/* secure_delete is on in Debian's SQLite: it would write every page that is freed. auto_vacuum has to come first: it is a property of the file from its first table on. No mmap: a disk error would be a
 * SIGBUS instead of an error. */
static tf_err set_up(tf_db *db)
{
    char sql[512];
    uint64_t wal = db->checkpoint_bytes < TF_DB_WAL_BYTES ? db->checkpoint_bytes : TF_DB_WAL_BYTES;
    (void)snprintf(sql, sizeof(sql),
                   "%sPRAGMA synchronous = FULL; PRAGMA journal_size_limit = %llu; PRAGMA wal_autocheckpoint = %llu; "
                   "PRAGMA cache_size = -16384; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = OFF; "
                   "PRAGMA cell_size_check = ON;",
                   db->read_only ? "" : "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; ", (unsigned long long)wal,
                   (unsigned long long)db->checkpoint_bytes / PAGE_BYTES);
    return exec(db, sql);
}

/* Whose file this is, and of which version: *version < 0: of another program. A new file belongs to whoever comes. */
static tf_err identify(tf_db *db, int64_t *version)
{
    int64_t application = 0;
    int64_t tables = 0;
    tf_err err = ask(db, "PRAGMA user_version", version);
    if (err == TF_OK) {
        err = ask(db, "PRAGMA application_id", &application);
    }
    if (err == TF_OK) {
        err = ask(db, "SELECT count(*) FROM sqlite_schema", &tables);
    }
    bool is_new = application == 0 && *version == 0 && tables == 0;
    if (err == TF_OK && !is_new && application != TF_DB_APPLICATION_ID) {
        *version = -1;
    }
    return err;
}

static tf_err judge(const tf_db *db, const char *path, int64_t version, char why[TF_WHY_MAX])
{
    if (version < 0) {
        return tf_why(why, "%s belongs to another program: it is no store of twofold (version %d)", path, TF_DB_VERSION);
    }
    if (version > TF_DB_VERSION) {
        return tf_why(why, "%s has version %lld, made by a newer twofold; this one knows versions up to %d", path,
                      (long long)version, TF_DB_VERSION);
    }
    if (version < TF_DB_VERSION && db->read_only) {
        return tf_why(why, "%s has version %lld; it has to be opened for writing once, to become version %d", path,
                      (long long)version, TF_DB_VERSION);
    }
    return TF_OK;
}

/* One transaction: another process sees the old version or the new one. */
static tf_err migrate(tf_db *db, const char *path, char why[TF_WHY_MAX])
{
    int64_t version = 0;
    tf_err err = tf_db_begin(db, true);
    if (err != TF_OK) {
        return err;
    }
    err = identify(db, &version); /* again: someone else may have been faster */
    if (err == TF_OK) {
        err = judge(db, path, version, why);
    }
    for (size_t i = 0; i < TF_DB_VERSION && err == TF_OK; i++) {
        err = version <= (int64_t)i ? exec(db, steps[i]) : TF_OK;
    }
    char sql[128];
    (void)snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d;", TF_DB_APPLICATION_ID,
                   TF_DB_VERSION);
    if (err == TF_OK) {
        err = exec(db, sql);
    }
    return tf_db_finish(db, err);
}

/* What a process that is gone left in the write-ahead log moves into the database. It may have ended over a failed sync,
 * after which the system reads back what the disk does not have; commits behind such bytes would be lost with them. A
 * reader in the way has looked at the same state before us: then that was done. */
static tf_err empty_wal(tf_db *db)
{
    tf_err err = tf_db_checkpoint(db, true);
    return err == TF_ERR_AGAIN ? TF_OK : err;
}

tf_err tf_db_schema_prepare(tf_db *db, const char *path, char why[TF_WHY_MAX])
{
    int64_t version = 0;
    tf_err err = identify(db, &version); /* before anything is changed */
    if (err == TF_OK) {
        err = judge(db, path, version, why);
    }
    if (err == TF_OK) {
        err = set_up(db);
    }
    if (err == TF_OK && version < TF_DB_VERSION) {
        err = migrate(db, path, why);
    }
    if (err == TF_OK && !db->read_only) {
        err = empty_wal(db);
    }
    if (err != TF_OK) {
        return err;
    }
    err = tf_db_state_load(db);
    /* Who only reads can do without: a repair saves the rest, and who needs it asks again (tf_db_applied). */
    return err == TF_ERR_DAMAGED && db->read_only ? TF_OK : err;
}
