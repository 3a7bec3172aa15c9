#include "node/cli/serve_child.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_MAX 65536   /* at a time */
#define READS_LAST 1024u /* of what is left when it has ended: more than a pipe holds */

/* stdout or stderr of the command. */
typedef struct channel {
    tf_child *child;
    int fd; /* -1: closed */
    struct event *readable;
    struct evbuffer *text;
} channel;

struct tf_child {
    pid_t pid; /* and of its group; 0: not started */
    bool ended;
    bool too_large;
    size_t out_max;
    size_t err_max;
    channel out;
    channel err;
};

/* -- what it writes ------------------------------------------------------------------------------------------------ */

static void kill_group(const tf_child *child)
{
    if (child->pid > 0) {
        (void)kill(-child->pid, SIGKILL);
    }
}

static void close_channel(channel *c)
{
    if (c->readable != NULL) {
        event_free(c->readable);
        c->readable = NULL;
    }
    if (c->fd >= 0) {
        (void)close(c->fd);
        c->fd = -1;
    }
}

static void keep(channel *c)
{
    tf_child *child = c->child;
    size_t len = evbuffer_get_length(c->text);
    if (c == &child->err && len > child->err_max) {
        (void)evbuffer_drain(c->text, len - child->err_max);
    } else if (c == &child->out && len > child->out_max) {
        child->too_large = true;
        close_channel(c);
        kill_group(child);
    }
}

/* False: nothing more now, or ever. */
static bool read_some(channel *c)
{
    int got = c->fd < 0 ? 0 : evbuffer_read(c->text, c->fd, READ_MAX);
    if (got > 0) {
        keep(c);
        return c->fd >= 0;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_channel(c);
    }
    return false;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    (void)read_some(ctx);
}

/* -- its start ----------------------------------------------------------------------------------------------------- */

static tf_err failed(char why[TF_WHY_MAX], const char *what, int error)
{
    (void)snprintf(why, TF_WHY_MAX, "%s: %s", what, strerror(error));
    return TF_ERR_IO;
}

/* A file of the body that has no name. -1 and errno. */
static int body_file(tf_slice body)
{
    int fd = memfd_create("twofold-message", MFD_CLOEXEC);
    size_t done = 0;
    while (fd >= 0 && done < body.len) {
        ssize_t put = write(fd, body.data + done, body.len - done);
        if (put < 0 && errno != EINTR) {
            int error = errno;
            (void)close(fd);
            errno = error;
            return -1;
        }
        done += put > 0 ? (size_t)put : 0;
    }
    if (fd >= 0) {
        (void)lseek(fd, 0, SEEK_SET);
    }
    return fd;
}

static tf_err open_channel(channel *c, tf_child *child, struct event_base *base, int *theirs)
{
    int ends[2];
    c->child = child;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return TF_ERR_IO;
    }
    c->fd = ends[0];
    *theirs = ends[1];
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0) {
        return TF_ERR_IO;
    }
    c->text = evbuffer_new();
    c->readable = event_new(base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
    return c->text == NULL || c->readable == NULL || event_add(c->readable, NULL) != 0 ? TF_ERR_NOMEM : TF_OK;
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, const int fds[3])
{
    sigset_t none;
    sigset_t all;
    int error = 0;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    for (int i = 0; error == 0 && i < 3; i++) {
        error = posix_spawn_file_actions_adddup2(actions, fds[i], i);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
    }
    if (error == 0) {
        error = posix_spawnattr_setsigmask(attributes, &none);
    }
    if (error == 0) {
        error = posix_spawnattr_setsigdefault(attributes, &all);
    }
    if (error == 0) {
        error = posix_spawnattr_setpgroup(attributes, 0);
    }
    return error != 0 ? error
                      : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                                 POSIX_SPAWN_SETSIGMASK);
}

static int spawn(tf_child *child, char *const *argv, const int fds[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = 0;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = prepare(&actions, &attributes, fds);
        if (error == 0) {
            error = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
        }
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    child->pid = error == 0 ? pid : 0;
    return error;
}

static tf_err start(tf_child *child, const tf_child_config *config, char why[TF_WHY_MAX])
{
    int fds[3] = {-1, -1, -1};
    fds[0] = body_file(config->body);
    tf_err err = fds[0] < 0 ? TF_ERR_IO : TF_OK;
    if (err == TF_OK) {
        err = open_channel(&child->out, child, config->base, &fds[1]);
    }
    if (err == TF_OK) {
        err = open_channel(&child->err, child, config->base, &fds[2]);
    }
    if (err != TF_OK) {
        (void)failed(why, "no pipes for the command", errno);
    } else {
        int error = spawn(child, config->argv, fds);
        err = error == 0 ? TF_OK : failed(why, config->argv[0], error);
    }
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    return err;
}

tf_err tf_child_start(tf_child **out, const tf_child_config *config, char why[TF_WHY_MAX])
{
    tf_child *child = calloc(1, sizeof(*child));
    if (child == NULL) {
        (void)failed(why, "the command", ENOMEM);
        return TF_ERR_NOMEM;
    }
    child->out.fd = -1;
    child->err.fd = -1;
    child->out_max = config->out_max;
    child->err_max = config->err_max;
    tf_err err = start(child, config, why);
    if (err != TF_OK) {
        tf_child_free(child);
        return err;
    }
    *out = child;
    return TF_OK;
}

/* -- its end ------------------------------------------------------------------------------------------------------- */

static tf_slice text_of(const channel *c)
{
    size_t len = evbuffer_get_length(c->text);
    return tf_slice_of(len == 0 ? NULL : evbuffer_pullup(c->text, -1), len);
}

/* What it wrote is in the pipe by now; somebody who left its group may go on to write, which is not waited for. */
static void read_rest(channel *c)
{
    unsigned reads = 0;
    while (reads < READS_LAST && read_some(c)) {
        reads++;
    }
}

static void reap(tf_child *child)
{
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    child->ended = true;
}

bool tf_child_look(tf_child *child, tf_child_result *result)
{
    siginfo_t how = {.si_pid = 0};
    if (child->ended || waitid(P_PID, (id_t)child->pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0) {
        return false;
    }
    kill_group(child);
    read_rest(&child->out);
    read_rest(&child->err);
    reap(child);
    *result = (tf_child_result){.too_large = child->too_large,
                                .signalled = how.si_code != CLD_EXITED,
                                .code = (unsigned)how.si_status,
                                .out = text_of(&child->out),
                                .err = text_of(&child->err)};
    return true;
}

void tf_child_free(tf_child *child)
{
    if (child == NULL) {
        return;
    }
    if (child->pid > 0 && !child->ended) { /* its number stays its own, and its group's, until it is waited for */
        kill_group(child);
        reap(child);
    }
    channel *channels[2] = {&child->out, &child->err};
    for (int i = 0; i < 2; i++) {
        close_channel(channels[i]);
        if (channels[i]->text != NULL) {
            evbuffer_free(channels[i]->text);
        }
    }
    free(child);
}
