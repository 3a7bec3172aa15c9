/* The check of a whole store that no relay uses. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "node/store/check.h"
#include "node/store/log_apply.h"

#define INDEX_NAME "index.db"
#define LOCK_NAME "lock"
#define PATH_ROOM 4200u

tf_err tf_check_lock(const char *directory, const tf_files *files, tf_file **out, char why[TF_WHY_MAX])
{
    tf_err err = files->table->lock(files->ctx, LOCK_NAME, out);
    if (err == TF_ERR_USAGE) {
        return tf_why(why, "%s is in use by a running relay; stop it first (a backup of it is checked while it runs)",
                      directory);
    }
    if (err != TF_OK) {
        (void)tf_why(why, "%s/" LOCK_NAME " cannot be locked: %s", directory, strerror(errno));
    }
    return err;
}

tf_err tf_check_open(const char *directory, const tf_mem *mem, tf_disk_files **out, char why[TF_WHY_MAX])
{
    char path[PATH_ROOM];
    tf_err err = TF_ERR_CLOSED;
    static const char *const parts[] = {INDEX_NAME, "log"};
    for (size_t i = 0; i < 2 && err == TF_ERR_CLOSED; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", directory, parts[i]);
        err = access(path, F_OK) == 0 ? TF_OK : TF_ERR_CLOSED;
    }
    if (err == TF_ERR_CLOSED) {
        return tf_why(why, "there is no store in %s", directory);
    }
    err = tf_disk_files_new(out, directory, mem);
    if (err != TF_OK) {
        (void)tf_why(why, "%s: %s", directory, strerror(errno));
    }
    return err;
}

tf_err tf_check_parts(const char *directory, const tf_files *files, const tf_mem *mem, tf_check_report *report,
                          char why[TF_WHY_MAX])
{
    char path[PATH_ROOM];
    tf_db *db = NULL;
    (void)snprintf(path, sizeof(path), "%s/" INDEX_NAME, directory);
    if (access(path, F_OK) != 0) {
        tf_check_add_text(report, TF_CHECK_INDEX, INDEX_NAME " is missing");
        return TF_OK;
    }
    const tf_db_config config = {.path = path, .read_only = true, .mem = mem};
    tf_err err = tf_db_open(&db, &config, why);
    if (err == TF_ERR_DAMAGED) {
        tf_check_add_text(report, TF_CHECK_INDEX, why);
        return TF_OK;
    }
    if (err == TF_OK) {
        err = tf_check_db(db, report);
        if (err != TF_OK) {
            (void)tf_why(why, "%s cannot be read: %s", path, tf_db_error_text(db));
        }
    }
    if (err == TF_OK) {
        (void)tf_why(why, "the commit log cannot be read");
        err = tf_log_check(db, files, mem, report, why);
    }
    tf_db_free(db);
    return err;
}

tf_err tf_check_store(const char *directory, const tf_mem *mem, tf_check_report *report, char why[TF_WHY_MAX])
{
    tf_disk_files *disk = NULL;
    tf_file *lock = NULL;
    *report = (tf_check_report){.mem = mem};
    tf_err err = tf_check_open(directory, mem, &disk, why);
    if (err != TF_OK) {
        return err;
    }
    tf_files files = tf_disk_files_get(disk);
    err = tf_check_lock(directory, &files, &lock, why);
    if (err == TF_OK) {
        err = tf_check_parts(directory, &files, mem, report, why);
    }
    tf_files_close(&files, lock);
    tf_disk_files_free(disk);
    return err;
}
