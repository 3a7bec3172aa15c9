#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "handshake/identity.h"
#include "paths/stream_internal.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15; older ones say ENOPROTOOPT, which is as it was */
#endif

static tf_time clock_now(void)
{
    struct timespec at;
    TF_ASSERT(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    return (tf_time)at.tv_sec * TF_SECOND + (tf_time)at.tv_nsec / 1000u;
}

/* -- the socket ---------------------------------------------------------------------------------------------------- */

static void set_option(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value)); /* each is a wish; without it the route is but slower */
}

static void tune(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, TF_TCP_NOTSENT_LOWAT);
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, TF_TCP_USER_TIMEOUT_MS);
    set_option(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, TF_TCP_RTO_MAX_MS);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 0); /* the link has its own */
}

static void note_address(int fd, int (*get)(int, struct sockaddr *, socklen_t *), tf_address *out)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof(storage);
    if (get(fd, (struct sockaddr *)&storage, &len) != 0 ||
        tf_address_from_sockaddr(out, (struct sockaddr *)&storage, len) != TF_OK) {
        out->len = 0;
    }
}

static int get_local(int fd, struct sockaddr *address, socklen_t *len)
{
    return getsockname(fd, address, len);
}

static int get_remote(int fd, struct sockaddr *address, socklen_t *len)
{
    return getpeername(fd, address, len);
}

/* -- the handshake ------------------------------------------------------------------------------------------------- */

static tf_err start_tls(tf_stream *stream, const tf_node_id *pin)
{
    tf_err err = tf_identity_ssl(&stream->ssl, stream->tls, pin);
    return err != TF_OK ? err : tf_tls_io_attach(&stream->io, stream->ssl);
}

void tf_stream_shake(tf_stream *stream)
{
    tf_tls_result result = tf_tls_handshake(&stream->io, stream->ssl);
    switch (result.outcome) {
    case TF_TLS_DONE:
        tf_stream_begin(stream);
        return;
    case TF_TLS_WANT_READ:
    case TF_TLS_WANT_WRITE:
        stream->read_needs_write = result.outcome == TF_TLS_WANT_WRITE;
        tf_stream_arm(stream);
        return;
    case TF_TLS_ENDED:
        tf_stream_attempt_failed(stream, result.reason, result.system_error, result.text);
        return;
    }
    TF_UNREACHABLE();
}

/* -- dialling ------------------------------------------------------------------------------------------------------ */

/* How far an attempt got: the failure that got furthest is the one that is told. */
static int progress_of(tf_stream_reason reason)
{
    switch (reason) {
    case TF_STREAM_UNREACHABLE:
        return 0;
    case TF_STREAM_TIMEOUT:
        return 1;
    case TF_STREAM_CLOSED:
    case TF_STREAM_TRUNCATED:
    case TF_STREAM_RESET:
        return 2;
    case TF_STREAM_PROTOCOL:
        return 3;
    case TF_STREAM_AUTH:
    case TF_STREAM_REFUSED:
        return 4;
    case TF_STREAM_INTERNAL:
        return 5;
    }
    TF_UNREACHABLE();
}

static void note_failure(tf_stream *stream, tf_stream_reason reason, int system_error, const char *text)
{
    stream_dial *dial = stream->dial;
    if (dial->failed && progress_of(reason) < progress_of(stream->failure.reason)) {
        return;
    }
    char address[TF_ADDRESS_TEXT_MAX];
    char whole[TF_STREAM_TEXT_MAX];
    (void)snprintf(whole, sizeof(whole), "%s: %s", tf_address_format(&stream->remote, address), text);
    tf_stream_set_failure(stream, reason, system_error, whole);
    dial->failed = true;
}

void tf_stream_attempt_failed(tf_stream *stream, tf_stream_reason reason, int system_error, const char *text)
{
    if (stream->dial == NULL) {
        tf_stream_set_failure(stream, reason, system_error, text);
        tf_stream_finish(stream);
        return;
    }
    note_failure(stream, reason, system_error, text);
    tf_stream_drop_socket(stream);
    (void)event_del(&stream->limit);
    stream->read_needs_write = false;
    stream->state = STREAM_DIALLING;
    tf_stream_again(stream);
}

/* 0: under way. */
static int start_connect(tf_stream *stream, const tf_address *address)
{
    int family = address->u.any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    tune(fd);
    int error = tf_bind_apply(&stream->dial->bind, fd, family);
    if (error == 0 && connect(fd, &address->u.any, address->len) != 0 && errno != EINPROGRESS) {
        error = errno;
    }
    if (error != 0) {
        (void)close(fd);
        return error;
    }
    tf_stream_use_socket(stream, fd);
    return 0;
}

static bool is_ours(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* The next address that can be tried at all; each has an equal share of the time that is left. */
void tf_stream_dial_next(tf_stream *stream)
{
    stream_dial *dial = stream->dial;
    tf_time now = clock_now();
    while (dial->next < dial->count && now < dial->deadline) {
        tf_time share = (dial->deadline - now) / (dial->count - dial->next);
        stream->remote = dial->addresses[dial->next++];
        int error = start_connect(stream, &stream->remote);
        if (error == 0) {
            tf_stream_set_limit(stream, share);
            tf_stream_arm(stream);
            return;
        }
        note_failure(stream, is_ours(error) ? TF_STREAM_INTERNAL : TF_STREAM_UNREACHABLE, error, "cannot connect");
    }
    if (!dial->failed) {
        tf_stream_set_failure(stream, TF_STREAM_TIMEOUT, 0, "no time to dial");
    }
    tf_stream_finish(stream);
}

void tf_stream_dial_connected(tf_stream *stream)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(stream->io.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    note_address(stream->io.fd, get_local, &stream->local);
    if (error == 0 && tf_address_eq(&stream->local, &stream->remote)) {
        error = ECONNREFUSED; /* nobody listens there, and the port that we were given is the one we dialled */
    }
    if (error != 0) {
        tf_stream_attempt_failed(stream, TF_STREAM_UNREACHABLE, error, "cannot connect");
        return;
    }
    if (start_tls(stream, stream->dial->pinned ? &stream->dial->pin : NULL) != TF_OK) {
        tf_stream_attempt_failed(stream, TF_STREAM_INTERNAL, 0, "cannot start TLS");
        return;
    }
    stream->state = STREAM_SHAKING;
    tf_stream_shake(stream);
}

tf_err tf_stream_dial(tf_stream **out, const tf_stream_env *env, const tf_stream_target *target,
                      const tf_stream_ops *ops, void *ctx)
{
    tf_stream *stream = NULL;
    if (target->count == 0) {
        return TF_ERR_USAGE;
    }
    tf_err err = tf_stream_new(&stream, env, ops, ctx);
    if (err != TF_OK) {
        return err;
    }
    stream_dial *dial = tf_alloc(env->mem, sizeof(*dial));
    if (dial == NULL) {
        tf_stream_free(stream);
        return TF_ERR_NOMEM;
    }
    stream->dial = dial;
    dial->count = target->count < TF_STREAM_ADDRESSES_MAX ? target->count : TF_STREAM_ADDRESSES_MAX;
    memcpy(dial->addresses, target->addresses, dial->count * sizeof(dial->addresses[0]));
    dial->deadline = tf_time_add(clock_now(), target->limit);
    if (target->pin != NULL) {
        dial->pinned = true;
        dial->pin = *target->pin;
    }
    if (target->bind != NULL) {
        dial->bind = *target->bind;
    }
    stream->state = STREAM_DIALLING;
    tf_stream_again(stream);
    *out = stream;
    return TF_OK;
}

/* -- accepting ----------------------------------------------------------------------------------------------------- */

tf_err tf_stream_accept(tf_stream **out, const tf_stream_env *env, int fd, tf_time limit, const tf_stream_ops *ops,
                        void *ctx)
{
    tf_stream *stream = NULL;
    tf_err err = tf_stream_new(&stream, env, ops, ctx);
    if (err != TF_OK) {
        (void)close(fd);
        return err;
    }
    tf_stream_use_socket(stream, fd);
    stream->state = STREAM_SHAKING;
    if (evutil_make_socket_nonblocking(fd) != 0) {
        err = TF_ERR_IO;
        goto out;
    }
    tune(fd);
    note_address(fd, get_local, &stream->local);
    note_address(fd, get_remote, &stream->remote);
    err = start_tls(stream, NULL);
    if (err != TF_OK) {
        goto out;
    }
    tf_stream_set_limit(stream, limit);
    tf_stream_arm(stream);
    *out = stream;
    stream = NULL; /* handed over */
out:
    tf_stream_free(stream);
    return err;
}
