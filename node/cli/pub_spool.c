#include "node/cli/pub_spool.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "node/edge_mem.h"

#define RETRY (200 * TF_MS) /* how soon a full disk is tried again */

static int exit_of(tf_err err)
{
    if (err == TF_ERR_USAGE || err == TF_ERR_DAMAGED) {
        return (int)tf_exit_of(err);
    }
    return err == TF_ERR_NOMEM ? TF_EXIT_INTERNAL : TF_EXIT_NEGATIVE; /* something that the system did not give */
}

/* A directory that was just made is there after a power cut, too. */
static void sync_parent(const char *dir)
{
    char path[TF_PATH_MAX];
    if (snprintf(path, sizeof(path), "%s/..", dir) >= (int)sizeof(path)) {
        return;
    }
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot */
        (void)close(fd);
    }
}

static tf_err open_directory(tf_pub_spool *s, char why[TF_WHY_MAX])
{
    bool is_new = access(s->dir, F_OK) != 0;
    tf_err err = tf_directory_make(s->dir, why);
    if (err != TF_OK) {
        return err;
    }
    if (is_new) {
        sync_parent(s->dir);
    }
    err = tf_disk_files_new(&s->disk, s->dir, tf_edge_mem());
    if (err != TF_OK) {
        (void)tf_why(why, "it cannot be opened: %s", strerror(errno));
        return err;
    }
    s->files = tf_disk_files_get(s->disk);
    return TF_OK;
}

int tf_pub_spool_open(tf_pub_spool *s, const tf_cli *cli)
{
    char why[TF_WHY_MAX] = "";
    tf_spool_stats stats;
    tf_err err = open_directory(s, why);
    if (err == TF_OK) {
        tf_spool_config config = {.files = s->files,
                                  .mem = tf_edge_mem(),
                                  .rand = tf_edge_rand(),
                                  .bytes_max = s->bytes_max,
                                  .owner = {.identity = *tf_identity_node_id(cli->identity),
                                            .relay = cli->uri.node,
                                            .channel = tf_remote_name(cli->channel)}};
        err = tf_spool_open(&s->spool, &config, why);
    }
    if (err != TF_OK) {
        tf_complain("pub", "spool %s: %s", s->dir, why);
        return exit_of(err);
    }
    tf_spool_get_stats(s->spool, &stats);
    s->damaged = stats.damaged > 0;
    if (s->damaged) {
        tf_complain("pub", "spool %s: %llu messages in it are damaged and lost; the others are sent", s->dir,
                    (unsigned long long)stats.damaged);
    }
    return TF_EXIT_OK;
}

/* The disk fails: nothing that is not durable was sent. */
static void fail(tf_pub_spool *s, tf_err err)
{
    tf_complain("pub", "spool %s cannot be written: %s", s->dir,
                err == TF_ERR_IO ? strerror(tf_spool_errno(s->spool)) : tf_err_text(err));
    s->code = exit_of(err);
}

void tf_pub_spool_note(tf_pub_spool *s, bool durably)
{
    tf_err err = tf_spool_note(s->spool, durably);
    if (err != TF_OK && !s->told_note) {
        tf_complain("pub", "spool %s: what was acked cannot be noted: %s", s->dir, strerror(errno));
        s->told_note = true;
    }
}

void tf_pub_spool_close(tf_pub_spool *s)
{
    if (s->spool != NULL && s->code < 0) {
        tf_pub_spool_note(s, true);
    }
    tf_spool_close(s->spool);
    tf_disk_files_free(s->disk);
    s->spool = NULL;
    s->disk = NULL;
}

bool tf_pub_spool_put(tf_pub_spool *s, const tf_spool_message *message, bool at_once)
{
    tf_err err = tf_spool_put(s->spool, message, tf_edge_wall_ms(), at_once);
    if (err == TF_ERR_AGAIN) {
        tf_pub_spool_sync(s);
        if (s->blocked || s->code >= 0) {
            return false;
        }
        err = tf_spool_put(s->spool, message, tf_edge_wall_ms(), at_once);
    }
    if (err != TF_OK) {
        fail(s, err);
    }
    return err == TF_OK;
}

static void full(tf_pub_spool *s)
{
    s->blocked = true;
    s->retry_at = tf_edge_now() + RETRY;
    if (!s->told_full) {
        tf_complain("pub", "spool %s: the disk is full; no input is read until there is room", s->dir);
        s->told_full = true;
    }
}

void tf_pub_spool_sync(tf_pub_spool *s)
{
    if (s->blocked && s->retry_at != TF_NEVER && tf_edge_now() < s->retry_at) {
        return;
    }
    tf_err err = tf_spool_sync(s->spool);
    s->blocked = err != TF_OK;
    s->retry_at = TF_NEVER;
    if (err == TF_ERR_FULL) {
        full(s);
    } else if (err != TF_OK && err != TF_ERR_AGAIN) {
        fail(s, err);
    } else if (s->told_full && err == TF_OK) {
        tf_complain("pub", "spool %s: there is room again", s->dir);
        s->told_full = false;
    }
}

bool tf_pub_spool_next(tf_pub_spool *s, tf_spool_message *out)
{
    tf_err err = tf_spool_next(s->spool, tf_edge_wall_ms(), out);
    if (err != TF_OK && err != TF_ERR_CLOSED) {
        tf_complain("pub", "spool %s cannot be written: %s", s->dir, strerror(errno));
        s->code = exit_of(err);
    }
    return err == TF_OK;
}
