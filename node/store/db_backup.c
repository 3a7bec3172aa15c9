#include "node/store/db_care.h"
#include "node/store/db_internal.h"

#define PAGES_AT_A_TIME 256

static tf_err fail(tf_db *db, sqlite3 *copy, int code, const char *path, char why[TF_WHY_MAX])
{
    tf_err err = tf_db_fail(db, code);
    (void)tf_why(why, "%s: %s", path, copy == NULL ? sqlite3_errstr(code) : sqlite3_errmsg(copy));
    return err;
}

/* All pages as of the transaction that is open: while it is, the copy does not begin anew. */
static int copy_pages(tf_db *db, sqlite3 *copy)
{
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", db->sqlite, "main");
    if (backup == NULL) {
        return sqlite3_extended_errcode(copy);
    }
    int code = SQLITE_OK;
    while (code == SQLITE_OK) {
        code = sqlite3_backup_step(backup, PAGES_AT_A_TIME);
    }
    int end = sqlite3_backup_finish(backup);
    return code == SQLITE_DONE ? end : code;
}

static tf_err copy_to(tf_db *db, const char *path, char why[TF_WHY_MAX])
{
    sqlite3 *copy = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int code = sqlite3_open_v2(path, &copy, flags, db->vfs);
    if (code == SQLITE_OK) {
        code = sqlite3_exec(copy, "PRAGMA synchronous = EXTRA", NULL, NULL, NULL); /* its name, too, is durable */
    }
    if (code == SQLITE_OK) {
        code = copy_pages(db, copy);
    }
    tf_err err = code == SQLITE_OK ? TF_OK : fail(db, copy, code, path, why);
    (void)sqlite3_close(copy);
    return err;
}

tf_err tf_db_backup(tf_db *db, const char *path, char why[TF_WHY_MAX])
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(db->vfs);
    int exists = 0;
    uint64_t lsn = 0;
    TF_ASSERT(vfs != NULL);
    int code = vfs->xAccess(vfs, path, SQLITE_ACCESS_EXISTS, &exists);
    if (code != SQLITE_OK) {
        return fail(db, NULL, code, path, why);
    }
    if (exists != 0) {
        return tf_why(why, "%s exists already; a backup replaces nothing", path);
    }
    tf_err err = tf_db_begin(db, false);
    if (err != TF_OK) {
        return err;
    }
    err = tf_db_applied(db, &lsn); /* the first read makes the moment */
    if (err == TF_OK) {
        err = copy_to(db, path, why);
    }
    tf_err end = tf_db_finish(db, TF_OK);
    err = err == TF_OK ? end : err;
    if (err != TF_OK) {
        (void)vfs->xDelete(vfs, path, 0); /* as far as it can be */
    }
    return err;
}
