#include "node/store/repair.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define INDEX_NAME "index.db"
#define ASIDE_TRIES 1000
#define APPLY_LOOK_MS 500 /* the store tells when it has applied; a failure is looked for */

/* What a new index can be better at. Messages that are not there do not come back. */
static bool index_is_damaged(const tf_check_report *report)
{
    return tf_check_has(report, TF_CHECK_DAMAGED) || tf_check_has(report, TF_CHECK_NUMBERS) ||
           tf_check_has(report, TF_CHECK_KEYS) || tf_check_has(report, TF_CHECK_INDEX);
}

/* -- an index of which nothing can be read ------------------------------------------------------------------------- */

static tf_err move_parts(const char *path, const char *aside, char why[TF_WHY_MAX])
{
    static const char *const ends[] = {"-wal", "-shm", ""};
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        char from[TF_REPAIR_PATH_MAX + 8];
        char to[TF_REPAIR_PATH_MAX + 8];
        (void)snprintf(from, sizeof(from), "%s%s", path, ends[i]);
        (void)snprintf(to, sizeof(to), "%s%s", aside, ends[i]);
        if (rename(from, to) != 0 && errno != ENOENT) {
            (void)tf_why(why, "%s cannot be kept as %s: %s", from, to, strerror(errno));
            return TF_ERR_IO;
        }
    }
    return TF_OK;
}

static tf_err set_aside(const tf_files *files, const char *path, char aside[TF_REPAIR_PATH_MAX], char why[TF_WHY_MAX])
{
    int n = 1;
    do {
        (void)snprintf(aside, TF_REPAIR_PATH_MAX, "%s.damaged-%d", path, n);
        n++;
    } while (n < ASIDE_TRIES && access(aside, F_OK) == 0);
    tf_err err = move_parts(path, aside, why);
    if (err == TF_OK) {
        err = files->table->sync_dir(files->ctx, "");
    }
    return err;
}

/* -- the index ----------------------------------------------------------------------------------------------------- */

/* What was found in saving it replaces what the check had found in the index; of the log it stays. */
static void take_saved(tf_check_report *before, tf_db *db, const tf_db_report *saved)
{
    size_t count = before->count;
    before->count = 0;
    before->found = 0;
    before->kinds = 0;
    for (size_t i = 0; i < count; i++) {
        const tf_check_finding finding = before->findings[i];
        if (finding.kind == TF_CHECK_LOG || finding.kind == TF_CHECK_INDEX) {
            tf_check_add(before, &finding);
        }
    }
    tf_check_take(before, db, saved);
}

static tf_err save_index(const tf_repair_config *config, const tf_files *files, tf_repair_report *report,
                         char why[TF_WHY_MAX])
{
    char path[TF_REPAIR_PATH_MAX - 32];
    char aside[TF_DB_ASIDE_MAX] = "";
    tf_db *db = NULL;
    tf_db_report saved;
    tf_db_config db_config = {.path = path, .mem = config->mem};
    (void)snprintf(path, sizeof(path), "%s/" INDEX_NAME, config->directory);
    if (access(path, F_OK) != 0) {
        return TF_OK; /* a new one is made */
    }
    if (strlen(path) + 16 >= TF_DB_ASIDE_MAX) {
        return tf_why(why, "%s: the name is too long", path);
    }
    tf_db_report_init(&saved, config->mem);
    tf_err err = tf_db_repair(&db_config, &saved, aside, why);
    if (err == TF_ERR_DAMAGED) {
        tf_check_add_text(&report->before, TF_CHECK_INDEX, "nothing could be read of it; a new one is made of the log");
        err = set_aside(files, path, report->aside, why);
    } else if (err == TF_OK) {
        (void)snprintf(report->aside, sizeof(report->aside), "%s", aside);
        db_config.read_only = true;
        err = tf_db_open(&db, &db_config, why);
        if (err == TF_OK) {
            take_saved(&report->before, db, &saved);
        }
        tf_db_free(db);
    }
    tf_db_report_clear(&saved);
    return err;
}

/* -- all of it ----------------------------------------------------------------------------------------------------- */

static tf_err save_parts(const tf_repair_config *config, tf_repair_report *report, char why[TF_WHY_MAX])
{
    tf_disk_files *disk = NULL;
    tf_file *lock = NULL;
    tf_err err = tf_check_open(config->directory, config->mem, &disk, why);
    if (err != TF_OK) {
        return err;
    }
    tf_files files = tf_disk_files_get(disk);
    err = tf_check_lock(config->directory, &files, &lock, why);
    if (err == TF_OK) {
        err = tf_check_parts(config->directory, &files, config->mem, &report->before, why);
    }
    bool index = err == TF_OK && index_is_damaged(&report->before);
    report->needed = index || tf_check_has(&report->before, TF_CHECK_LOG);
    if (index) {
        err = save_index(config, &files, report, why);
    }
    tf_files_close(&files, lock);
    tf_disk_files_free(disk);
    return err;
}

/* Until the index has all that the log has; a failure of the disk ends that. */
static tf_err wait_applied(tf_disk_store *disk, char why[TF_WHY_MAX])
{
    tf_store store = tf_disk_store_get(disk);
    struct pollfd fd = {.fd = tf_disk_store_fd(disk), .events = POLLIN};
    tf_store_event_type event;
    tf_store_stats stats;
    store.table->get_stats(store.ctx, &stats);
    while (stats.unapplied > 0 && stats.commits_failed == 0) {
        (void)poll(&fd, 1, APPLY_LOOK_MS);
        while (store.table->poll(store.ctx, &event)) {
            continue; /* nothing was submitted or asked for */
        }
        store.table->get_stats(store.ctx, &stats);
    }
    if (stats.unapplied == 0) {
        return TF_OK;
    }
    int error = tf_disk_store_errno(disk);
    (void)tf_why(why, "the index cannot be written: %s", strerror(error));
    return tf_files_err(error);
}

/* A start of the store moves what the log has into the index, passes over what it has lost, and renews epochs. */
static tf_err replay(const tf_repair_config *config, tf_repair_report *report, char why[TF_WHY_MAX])
{
    const tf_disk_store_config disk = {.directory = config->directory,
                                       .mem = config->mem,
                                       .rand = config->rand,
                                       .segment_size = config->segment_size};
    tf_disk_store *store = NULL;
    tf_err err = tf_disk_store_open(&store, &disk, why);
    if (err != TF_OK) {
        return err;
    }
    report->replayed = tf_disk_store_report(store)->replayed;
    report->new_epochs = tf_disk_store_report(store)->new_epochs;
    err = wait_applied(store, why);
    tf_disk_store_close(store);
    return err;
}

tf_err tf_repair_store(const tf_repair_config *config, tf_repair_report *report, char why[TF_WHY_MAX])
{
    *report = (tf_repair_report){.before = {.mem = config->mem}};
    tf_err err = save_parts(config, report, why);
    if (err == TF_OK && report->needed) {
        err = replay(config, report, why);
    }
    if (err == TF_OK) {
        err = tf_check_store(config->directory, config->mem, &report->after, why);
    }
    if (err == TF_OK && (index_is_damaged(&report->after) || tf_check_has(&report->after, TF_CHECK_LOG))) {
        (void)tf_why(why, "the store is still damaged");
        return TF_ERR_DAMAGED;
    }
    return err;
}
