#include "node/store/backup.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "node/keyfile.h"
#include "node/store/db_care.h"
#include "node/store/log_apply.h"
#include "proto/version.h"

#define INDEX_NAME "index.db"
#define MANIFEST_NEW TF_MANIFEST_NAME ".new"
#define PATH_ROOM (TF_PATH_MAX + 32)
#define TRIES 20 /* of what the relay's work may be in the way of */

bool tf_backup_is_empty(const char *path, bool *exists)
{
    DIR *dir = opendir(path);
    bool empty = true;
    const struct dirent *entry = NULL;
    *exists = dir != NULL || errno != ENOENT;
    if (dir == NULL) {
        return !*exists;
    }
    while (empty && (entry = readdir(dir)) != NULL) {
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    (void)closedir(dir);
    return empty;
}

typedef struct work {
    const tf_backup_config *config;
    tf_disk_files *from_disk;
    tf_disk_files *to_disk;
    tf_files from;
    tf_files to;
    char index[PATH_ROOM];
    char copy[PATH_ROOM];
    tf_db *live;  /* the index of the relay, for reading */
    tf_db *db;    /* the copy */
    bool made;    /* the directory */
    bool started; /* what is in the directory is ours */
    uint64_t needed; /* LSN that was there at the beginning */
} work;

/* -- what is to be copied ------------------------------------------------------------------------------------------ */

static tf_err open_store(work *w, char why[TF_WHY_MAX])
{
    const char *store = w->config->store;
    (void)snprintf(w->index, sizeof(w->index), "%s/" INDEX_NAME, store);
    tf_err err = access(w->index, F_OK) == 0 ? tf_disk_files_new(&w->from_disk, store, w->config->mem) : TF_ERR_CLOSED;
    if (err == TF_ERR_CLOSED) {
        return tf_why(why, "there is no store in %s", store);
    }
    if (err != TF_OK) {
        return tf_why_failed(err, store, why);
    }
    w->from = tf_disk_files_get(w->from_disk);
    const tf_db_config config = {.path = w->index, .read_only = true, .mem = w->config->mem};
    return tf_db_open(&w->live, &config, why);
}

static tf_err live_applied(work *w, uint64_t *out, char why[TF_WHY_MAX])
{
    tf_err err = tf_db_applied(w->live, out);
    if (err != TF_OK) {
        (void)tf_why(why, "%s: %s", w->index, tf_db_error_text(w->live));
    }
    return err;
}

/* All that was acked until now has an LSN up to w->needed. */
static tf_err find_needed(work *w, char why[TF_WHY_MAX])
{
    tf_log_apply_report log;
    uint64_t applied = 0;
    tf_err err = TF_ERR_AGAIN;
    for (int i = 0; i < TRIES && err == TF_ERR_AGAIN; i++) {
        (void)tf_why(why, "the relay recycles its commit log faster than it can be read");
        err = live_applied(w, &applied, why);
        if (err == TF_OK) {
            err = tf_log_look(applied, &w->from, w->config->mem, &log, why);
        }
    }
    w->needed = err != TF_OK ? 0 : log.last > log.durable ? log.last : log.durable;
    return err;
}

/* -- the copy ------------------------------------------------------------------------------------------------------ */

static void remove_file(const work *w, const char *name)
{
    tf_err err = w->to.table->remove(w->to.ctx, name);
    (void)err; /* most are not there */
}

static void drop_copy(work *w)
{
    tf_db_free(w->db);
    w->db = NULL;
    remove_file(w, TF_MANIFEST_DB);
    remove_file(w, TF_MANIFEST_DB "-wal");
    remove_file(w, TF_MANIFEST_DB "-shm");
}

/* The index as of now, and what the log has beyond it. *reached: LSN up to which all is there. */
static tf_err copy_once(work *w, uint64_t *reached, char why[TF_WHY_MAX])
{
    tf_log_apply_report log = {.last = 0};
    const tf_db_config config = {.path = w->copy, .mem = w->config->mem};
    (void)tf_why(why, "%s cannot be copied", w->index);
    tf_err err = tf_db_backup(w->live, w->copy, why);
    if (err == TF_OK) {
        err = tf_db_open(&w->db, &config, why);
    }
    if (err == TF_OK) {
        (void)tf_why(why, "the commit log cannot be applied to the copy");
        err = tf_log_apply(w->db, &w->from, w->config->mem, &log, why);
    }
    *reached = log.last;
    return err;
}

static tf_err not_there(const work *w, uint64_t reached, char why[TF_WHY_MAX])
{
    (void)tf_why(why, "the commit log is damaged: changes %" PRIu64 " to %" PRIu64 " cannot be read", reached + 1,
                 w->needed);
    return TF_ERR_DAMAGED;
}

/* What was recycled before it was read is in the index by now: then a newer copy of that has it. */
static tf_err copy_all(work *w, char why[TF_WHY_MAX])
{
    uint64_t reached = 0;
    uint64_t applied = 0;
    tf_err err = TF_OK;
    for (int i = 0; i < TRIES && err == TF_OK; i++) {
        err = copy_once(w, &reached, why);
        if (err != TF_OK || reached >= w->needed) {
            return err;
        }
        err = live_applied(w, &applied, why);
        if (err == TF_OK && applied <= reached) {
            err = w->config->damaged_too ? TF_OK : not_there(w, reached, why);
            return err;
        }
        drop_copy(w);
    }
    return err == TF_OK ? not_there(w, reached, why) : err;
}

static tf_err check_copy(work *w, tf_check_report *check, tf_manifest *m, char why[TF_WHY_MAX])
{
    tf_err err = tf_check_db(w->db, check);
    if (err != TF_OK) {
        (void)tf_why(why, "%s: %s", w->copy, tf_db_error_text(w->db));
        return err;
    }
    m->applied_lsn = check->applied_lsn;
    m->channels = check->channels;
    m->messages = check->messages;
    if (check->found > 0 && !w->config->damaged_too) {
        (void)tf_why(why, "the store is damaged; --damaged-too copies what can be read");
        return TF_ERR_DAMAGED;
    }
    return TF_OK;
}

/* One file, without a write-ahead log beside it, on the disk. */
static tf_err close_copy(work *w, char why[TF_WHY_MAX])
{
    tf_file *file = NULL;
    tf_err err = tf_db_checkpoint(w->db, true);
    if (err != TF_OK) {
        (void)tf_why(why, "%s: %s", w->copy, tf_db_error_text(w->db));
        return err;
    }
    tf_db_free(w->db);
    w->db = NULL;
    remove_file(w, TF_MANIFEST_DB "-wal");
    remove_file(w, TF_MANIFEST_DB "-shm");
    err = tf_files_open(&w->to, TF_MANIFEST_DB, TF_FILE_WRITE, &file);
    if (err == TF_OK) {
        err = tf_files_sync(&w->to, file);
    }
    tf_files_close(&w->to, file);
    return err == TF_OK ? TF_OK : tf_why_failed(err, w->copy, why);
}

/* -- the manifest -------------------------------------------------------------------------------------------------- */

static void fill_manifest(tf_manifest *m)
{
    time_t now = time(NULL);
    struct tm utc;
    (void)snprintf(m->twofold, sizeof(m->twofold), "%s", TF_VERSION);
    (void)snprintf(m->created, sizeof(m->created), "unknown");
    if (gmtime_r(&now, &utc) != NULL) {
        (void)strftime(m->created, sizeof(m->created), "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
}

static tf_err write_manifest(work *w, tf_manifest *m)
{
    char text[TF_MANIFEST_MAX];
    tf_file *file = NULL;
    tf_err err = tf_manifest_sum(&w->to, TF_MANIFEST_DB, NULL, NULL, m);
    if (err != TF_OK) {
        return err;
    }
    fill_manifest(m);
    size_t len = tf_manifest_format(m, text);
    err = w->to.table->sync_dir(w->to.ctx, ""); /* first the copy has its name */
    if (err == TF_OK) {
        err = tf_files_open(&w->to, MANIFEST_NEW, TF_FILE_CREATE, &file);
    }
    if (err == TF_OK) {
        err = tf_files_write(&w->to, file, 0, tf_slice_of(text, len));
    }
    if (err == TF_OK) {
        err = tf_files_sync(&w->to, file);
    }
    tf_files_close(&w->to, file);
    if (err == TF_OK) {
        err = w->to.table->rename(w->to.ctx, MANIFEST_NEW, TF_MANIFEST_NAME);
    }
    return err == TF_OK ? w->to.table->sync_dir(w->to.ctx, "") : err;
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

static tf_err open_backup(work *w, char why[TF_WHY_MAX])
{
    const char *path = w->config->backup;
    bool exists = false;
    if (!tf_backup_is_empty(path, &exists)) {
        return tf_why(why, "%s is not an empty directory; a backup takes a new one", path);
    }
    w->made = !exists;
    tf_err err = exists ? TF_OK : tf_directory_make(path, why);
    if (err != TF_OK) {
        return err;
    }
    err = tf_disk_files_new(&w->to_disk, path, w->config->mem);
    if (err != TF_OK) {
        return tf_why_failed(err, path, why);
    }
    w->to = tf_disk_files_get(w->to_disk);
    w->started = true;
    int len = snprintf(w->copy, sizeof(w->copy), "%s/" TF_MANIFEST_DB, path);
    return len > 0 && (size_t)len < sizeof(w->copy) ? TF_OK : tf_why(why, "%s: the name is too long", path);
}

static tf_err write_all(work *w, tf_manifest *out, tf_check_report *check, char why[TF_WHY_MAX])
{
    tf_err err = open_store(w, why);
    if (err == TF_OK) {
        err = open_backup(w, why);
    }
    if (err == TF_OK) {
        err = find_needed(w, why);
    }
    if (err == TF_OK) {
        err = copy_all(w, why);
    }
    if (err == TF_OK) {
        err = check_copy(w, check, out, why);
    }
    if (err == TF_OK) {
        err = close_copy(w, why);
    }
    if (err != TF_OK) {
        return err;
    }
    err = write_manifest(w, out);
    return err == TF_OK ? TF_OK : tf_why_failed(err, w->config->backup, why);
}

static void undo(work *w)
{
    drop_copy(w);
    remove_file(w, MANIFEST_NEW);
    remove_file(w, TF_MANIFEST_NAME);
    if (w->made) {
        (void)rmdir(w->config->backup);
    }
}

tf_err tf_backup_write(const tf_backup_config *config, tf_manifest *out, tf_check_report *check, char why[TF_WHY_MAX])
{
    work w = {.config = config};
    *out = (tf_manifest){.size = 0};
    *check = (tf_check_report){.mem = config->mem};
    tf_err err = write_all(&w, out, check, why);
    if (err != TF_OK && w.started) {
        undo(&w);
    }
    if (err == TF_ERR_FULL) {
        (void)tf_why(why, "%s: no room left on the disk", config->backup);
    }
    tf_db_free(w.db);
    tf_db_free(w.live);
    tf_disk_files_free(w.to_disk);
    tf_disk_files_free(w.from_disk);
    return err;
}
