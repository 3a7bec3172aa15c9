#include "node/store/db_copy.h"

#include "node/store/db_internal.h"

tf_err tf_db_copy(tf_db *db, const char *path)
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, "VACUUM INTO ?1", -1, &stmt, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_step(stmt);
    }
    tf_err err = code == SQLITE_DONE ? TF_OK : tf_db_fail(db, sqlite3_extended_errcode(db->sqlite));
    (void)sqlite3_finalize(stmt);
    return err;
}

tf_err tf_db_check_structure(tf_db *db, char why[TF_WHY_MAX])
{
    sqlite3_stmt *stmt = NULL;
    int code = sqlite3_prepare_v2(db->sqlite, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_step(stmt);
    }
    tf_err err = code == SQLITE_ROW ? TF_OK : tf_db_fail(db, sqlite3_extended_errcode(db->sqlite));
    if (err == TF_OK) {
        tf_slice said = tf_db_bytes(stmt, 0);
        if (!tf_slice_eq(said, tf_slice_str("ok"))) {
            (void)tf_why(why, "%.*s", (int)(said.len < TF_WHY_MAX ? said.len : TF_WHY_MAX - 1), (const char *)said.data);
            err = TF_ERR_DAMAGED;
        }
    } else if (err == TF_ERR_DAMAGED) {
        (void)tf_why(why, "%s", tf_db_error_text(db));
    }
    (void)sqlite3_finalize(stmt);
    return err;
}
