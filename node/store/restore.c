/* A store made of a backup. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "node/keyfile.h"
#include "node/store/backup.h"

#define INDEX_NAME "index.db"
#define LOCK_NAME "lock"
#define PATH_ROOM (TF_PATH_MAX + 32)

typedef struct work {
    const tf_backup_config *config;
    tf_disk_files *from_disk;
    tf_disk_files *to_disk;
    tf_files from;
    tf_files to;
    tf_file *lock;
    char made[PATH_ROOM]; /* the store under its first name */
    char index[PATH_ROOM];
    tf_db *db;
    bool started; /* what is in the directory is ours */
} work;

static tf_err read_manifest(work *w, tf_manifest *out, char why[TF_WHY_MAX])
{
    uint8_t text[TF_MANIFEST_MAX];
    size_t len = 0;
    tf_file *file = NULL;
    const char *path = w->config->backup;
    tf_err err = tf_disk_files_new(&w->from_disk, path, w->config->mem);
    if (err == TF_ERR_CLOSED) {
        return tf_why(why, "there is no backup in %s", path);
    }
    if (err != TF_OK) {
        return tf_why_failed(err, path, why);
    }
    w->from = tf_disk_files_get(w->from_disk);
    err = tf_files_open(&w->from, TF_MANIFEST_NAME, TF_FILE_READ, &file);
    if (err == TF_ERR_CLOSED) {
        (void)tf_why(why, "%s has no " TF_MANIFEST_NAME ": it is no backup, or one that was not finished", path);
        return TF_ERR_DAMAGED;
    }
    if (err == TF_OK) {
        err = tf_files_read(&w->from, file, 0, text, sizeof(text), &len);
    }
    tf_files_close(&w->from, file);
    return err == TF_OK ? tf_manifest_parse(out, tf_slice_of(text, len), why) : tf_why_failed(err, path, why);
}

static void remove_file(const work *w, const char *name)
{
    tf_err err = w->to.table->remove(w->to.ctx, name);
    (void)err; /* most are not there */
}

static void remove_parts(const work *w)
{
    remove_file(w, INDEX_NAME);
    remove_file(w, INDEX_NAME "-wal");
    remove_file(w, INDEX_NAME "-shm");
}

/* The directory in which the store is made. One that a crash left behind is taken. */
static tf_err begin(work *w, char why[TF_WHY_MAX])
{
    const char *store = w->config->store;
    bool exists = false;
    if (!tf_backup_is_empty(store, &exists)) {
        return tf_why(why, "%s is not empty; a backup is restored into a new data directory", store);
    }
    int len = snprintf(w->made, sizeof(w->made), "%s.new", store);
    if (len < 0 || (size_t)len >= TF_PATH_MAX) {
        return tf_why(why, "%s: the name is too long", store);
    }
    (void)snprintf(w->index, sizeof(w->index), "%.*s/" INDEX_NAME, len, w->made);
    tf_err err = tf_directory_make(w->made, why);
    if (err != TF_OK) {
        return err;
    }
    err = tf_disk_files_new(&w->to_disk, w->made, w->config->mem);
    if (err != TF_OK) {
        return tf_why_failed(err, w->made, why);
    }
    w->to = tf_disk_files_get(w->to_disk);
    err = w->to.table->lock(w->to.ctx, LOCK_NAME, &w->lock);
    if (err == TF_ERR_USAGE) {
        return tf_why(why, "another restore is at work in %s", w->made);
    }
    if (err != TF_OK) {
        return tf_why_failed(err, w->made, why);
    }
    w->started = true;
    remove_parts(w);
    return TF_OK;
}

static tf_err copy(work *w, const tf_manifest *m, char why[TF_WHY_MAX])
{
    tf_manifest got;
    tf_file *file = NULL;
    tf_err err = tf_files_open(&w->to, INDEX_NAME, TF_FILE_CREATE, &file);
    if (err != TF_OK) {
        return tf_why_failed(err, w->index, why);
    }
    err = tf_manifest_sum(&w->from, TF_MANIFEST_DB, &w->to, file, &got);
    tf_files_close(&w->to, file);
    if (err == TF_ERR_CLOSED) {
        (void)tf_why(why, "%s has no " TF_MANIFEST_DB, w->config->backup);
        return TF_ERR_DAMAGED;
    }
    if (err != TF_OK) {
        return tf_why_failed(err, w->config->backup, why);
    }
    if (got.size != m->size || strcmp(got.sum, m->sum) != 0) {
        (void)tf_why(why, "%s/" TF_MANIFEST_DB " is damaged: its sum is not the one in the " TF_MANIFEST_NAME,
                     w->config->backup);
        return TF_ERR_DAMAGED;
    }
    return TF_OK;
}

/* -- new epochs ---------------------------------------------------------------------------------------------------- */

/* The channel behind *position under a new epoch, as the change with that LSN. TF_ERR_CLOSED: there is none. */
static tf_err renew(work *w, uint64_t *position, uint64_t lsn)
{
    tf_store_channel channel;
    tf_err err = tf_db_channel_next(w->db, position, &channel);
    if (err != TF_OK) {
        return err;
    }
    tf_store_op op = {.kind = TF_STORE_EPOCH, .channel = channel.number, .epoch = tf_rand_u64(w->config->rand)};
    return tf_db_apply_op(w->db, lsn, &op);
}

/* Within the batch its own changes are seen: what is asked for is the number, which does not change. */
static tf_err renew_all(work *w, uint64_t lsn)
{
    uint64_t position = 0;
    tf_err err = tf_db_apply_begin(w->db);
    if (err != TF_OK) {
        return err;
    }
    while (err == TF_OK) {
        lsn++;
        err = renew(w, &position, lsn);
    }
    return err == TF_ERR_CLOSED ? tf_db_apply_commit(w->db) : err;
}

static tf_err renew_epochs(work *w, const tf_manifest *m, char why[TF_WHY_MAX])
{
    uint64_t applied = 0;
    const tf_db_config config = {.path = w->index, .mem = w->config->mem};
    tf_err err = tf_db_open(&w->db, &config, why);
    if (err != TF_OK) {
        return err;
    }
    err = tf_db_applied(w->db, &applied);
    if (err == TF_OK && applied != m->applied_lsn) {
        (void)tf_why(why, "%s holds changes up to %" PRIu64 ", its " TF_MANIFEST_NAME " says %" PRIu64,
                     w->config->backup, applied, m->applied_lsn);
        return TF_ERR_DAMAGED;
    }
    if (err == TF_OK) {
        err = renew_all(w, applied);
    }
    if (err == TF_OK) {
        err = tf_db_checkpoint(w->db, true);
    }
    if (err != TF_OK) {
        (void)tf_why(why, "%s: %s", w->index, tf_db_error_text(w->db));
        return err;
    }
    tf_db_free(w->db);
    w->db = NULL;
    return TF_OK;
}

/* -- the end ------------------------------------------------------------------------------------------------------- */

static tf_err sync_index(work *w)
{
    tf_file *file = NULL;
    tf_err err = tf_files_open(&w->to, INDEX_NAME, TF_FILE_WRITE, &file);
    if (err == TF_OK) {
        err = tf_files_sync(&w->to, file);
    }
    tf_files_close(&w->to, file);
    return err == TF_OK ? w->to.table->sync_dir(w->to.ctx, "") : err;
}

/* The directory above the store. */
static tf_err open_above(const work *w, tf_disk_files **out)
{
    char path[PATH_ROOM + 8];
    (void)snprintf(path, sizeof(path), "%s/..", w->made); /* which is beside the store, and there already */
    return tf_disk_files_new(out, path, w->config->mem);
}

/* Takes its name, in place of an empty directory at most. */
static tf_err put_in_place(work *w, char why[TF_WHY_MAX])
{
    const char *store = w->config->store;
    tf_disk_files *above = NULL;
    tf_err err = sync_index(w);
    if (err == TF_OK) {
        err = open_above(w, &above);
    }
    if (err != TF_OK) {
        return tf_why_failed(err, w->index, why);
    }
    if (rename(w->made, store) != 0) {
        (void)tf_why(why, "%s cannot become %s: %s", w->made, store, strerror(errno));
        err = tf_files_err(errno);
    } else {
        w->started = false; /* it is the user's now */
        tf_files files = tf_disk_files_get(above);
        err = files.table->sync_dir(files.ctx, "");
        err = err == TF_OK ? TF_OK : tf_why_failed(err, store, why);
    }
    tf_disk_files_free(above);
    return err;
}

static void undo(work *w)
{
    tf_db_free(w->db);
    w->db = NULL;
    remove_parts(w);
    remove_file(w, LOCK_NAME);
    (void)rmdir(w->made);
}

tf_err tf_backup_restore(const tf_backup_config *config, tf_manifest *out, char why[TF_WHY_MAX])
{
    work w = {.config = config};
    tf_err err = read_manifest(&w, out, why);
    if (err == TF_OK) {
        err = begin(&w, why);
    }
    if (err == TF_OK) {
        err = copy(&w, out, why);
    }
    if (err == TF_OK) {
        err = renew_epochs(&w, out, why);
    }
    if (err == TF_OK) {
        err = put_in_place(&w, why);
    }
    if (err != TF_OK && w.started) {
        undo(&w);
    }
    tf_db_free(w.db);
    tf_files_close(&w.to, w.lock);
    tf_disk_files_free(w.to_disk);
    tf_disk_files_free(w.from_disk);
    return err;
}
