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

static tf_err start_tls(tf_tls_io *io, SSL **ssl, SSL_CTX *tls, const tf_node_id *pin)
{
    tf_err err = tf_identity_ssl(ssl, tls, pin);
    return err != TF_OK ? err : tf_tls_io_attach(io, *ssl);
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
        tf_stream_set_failure(stream, result.reason, result.system_error, result.text);
        tf_stream_finish(stream);
        return;
    }
    TF_UNREACHABLE();
}

/* -- attempts: one address each ------------------------------------------------------------------------------------ */

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

static void note_failure(tf_stream *stream, const tf_address *remote, const tf_tls_result *result)
{
    stream_dial *dial = stream->dial;
    if (dial->failed && progress_of(result->reason) < progress_of(stream->failure.reason)) {
        return;
    }
    char address[TF_ADDRESS_TEXT_MAX];
    char whole[TF_STREAM_TEXT_MAX];
    (void)snprintf(whole, sizeof(whole), "%s: %s", tf_address_format(remote, address), result->text);
    tf_stream_set_failure(stream, result->reason, result->system_error, whole);
    dial->failed = true;
}

static tf_tls_result cannot_connect(int error)
{
    bool ours = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
    return (tf_tls_result){TF_TLS_ENDED, ours ? TF_STREAM_INTERNAL : TF_STREAM_UNREACHABLE, error, "cannot connect"};
}

static void stop_attempt(dial_attempt *attempt)
{
    if (attempt->io.fd < 0) {
        return;
    }
    (void)event_del(&attempt->ready);
    SSL_free(attempt->ssl);
    tf_stream_close_socket(attempt->io.fd);
    attempt->ssl = NULL;
    attempt->io = (tf_tls_io){.fd = -1};
    attempt->stream->dial->running--;
}

/* There is another address, or another attempt that may still get there, or this is the end. */
static void attempt_failed(dial_attempt *attempt, const tf_tls_result *result)
{
    tf_stream *stream = attempt->stream;
    note_failure(stream, &attempt->remote, result);
    stop_attempt(attempt);
    tf_stream_again(stream);
}

/* It was the first: the stream takes its socket, the others are given up. */
static void attempt_won(dial_attempt *attempt)
{
    tf_stream *stream = attempt->stream;
    (void)event_del(&attempt->ready);
    tf_stream_use_socket(stream, attempt->io.fd);
    stream->io = attempt->io;
    stream->ssl = attempt->ssl;
    tf_tls_io_move(&stream->io, stream->ssl);
    stream->remote = attempt->remote;
    note_address(stream->io.fd, get_local, &stream->local);
    attempt->io.fd = -1;
    attempt->ssl = NULL;
    (void)event_del(&stream->again);
    tf_stream_begin(stream);
}

static void on_ready(evutil_socket_t fd, short what, void *arg);

static void wait_for(dial_attempt *attempt, short what)
{
    TF_ASSERT(event_assign(&attempt->ready, attempt->stream->base, attempt->io.fd, what, on_ready, attempt) == 0);
    (void)event_add(&attempt->ready, NULL);
}

static void shake(dial_attempt *attempt)
{
    tf_tls_result result = tf_tls_handshake(&attempt->io, attempt->ssl);
    switch (result.outcome) {
    case TF_TLS_DONE:
        attempt_won(attempt);
        return;
    case TF_TLS_WANT_READ:
        wait_for(attempt, EV_READ);
        return;
    case TF_TLS_WANT_WRITE:
        wait_for(attempt, EV_WRITE);
        return;
    case TF_TLS_ENDED:
        attempt_failed(attempt, &result);
        return;
    }
    TF_UNREACHABLE();
}

static void connected(dial_attempt *attempt)
{
    const stream_dial *dial = attempt->stream->dial;
    tf_address local = {.len = 0};
    int error = 0;
    socklen_t len = sizeof(error);
    if (getsockopt(attempt->io.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    note_address(attempt->io.fd, get_local, &local);
    if (error == 0 && tf_address_eq(&local, &attempt->remote)) {
        error = ECONNREFUSED; /* nobody listens there, and the port that we were given is the one we dialled */
    }
    tf_tls_result result = cannot_connect(error);
    if (error == 0 &&
        start_tls(&attempt->io, &attempt->ssl, attempt->stream->tls, dial->pinned ? &dial->pin : NULL) == TF_OK) {
        shake(attempt);
        return;
    }
    if (error == 0) {
        result = (tf_tls_result){TF_TLS_ENDED, TF_STREAM_INTERNAL, 0, "cannot start TLS"};
    }
    attempt_failed(attempt, &result);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    dial_attempt *attempt = arg;
    tf_stream *stream = attempt->stream;
    tf_stream_enter(stream);
    if (attempt->ssl == NULL) {
        connected(attempt);
    } else {
        shake(attempt);
    }
    tf_stream_leave(stream);
}

/* -- dialling ------------------------------------------------------------------------------------------------------ */

static void give_up(dial_attempt *attempt)
{
    const tf_tls_result result = {TF_TLS_ENDED, TF_STREAM_TIMEOUT, 0,
                                  attempt->ssl == NULL ? "no answer in time"
                                                       : "the TLS handshake was not over in time"};
    note_failure(attempt->stream, &attempt->remote, &result);
    stop_attempt(attempt);
}

/* A place that is free, if need be since the oldest attempt is given up. */
static dial_attempt *place_for_attempt(stream_dial *dial)
{
    dial_attempt *oldest = &dial->attempts[0];
    for (size_t i = 0; i < TF_STREAM_ATTEMPTS_MAX; i++) {
        dial_attempt *attempt = &dial->attempts[i];
        if (attempt->io.fd < 0) {
            return attempt;
        }
        oldest = attempt->number < oldest->number ? attempt : oldest;
    }
    give_up(oldest);
    return oldest;
}

/* 0: under way. */
static int start_attempt(tf_stream *stream, const tf_address *address)
{
    stream_dial *dial = stream->dial;
    int family = address->u.any.sa_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    tune(fd);
    int error = tf_bind_apply(&dial->bind, fd, family);
    if (error == 0 && connect(fd, &address->u.any, address->len) != 0 && errno != EINPROGRESS) {
        error = errno;
    }
    if (error != 0) {
        (void)close(fd);
        return error;
    }
    dial_attempt *attempt = place_for_attempt(dial);
    *attempt = (dial_attempt){.stream = stream, .io = {.fd = fd}, .remote = *address, .number = dial->next};
    dial->running++;
    wait_for(attempt, EV_WRITE);
    return 0;
}

void tf_stream_dial_stop(tf_stream *stream)
{
    for (size_t i = 0; stream->dial != NULL && i < TF_STREAM_ATTEMPTS_MAX; i++) {
        stop_attempt(&stream->dial->attempts[i]);
    }
}

/* RFC 8305: the next address has its turn after a while, or at once when one has failed. All get one, so the while is
 * shorter when there are many. */
void tf_stream_dial_next(tf_stream *stream)
{
    stream_dial *dial = stream->dial;
    int error = -1;
    while (dial->next < dial->count && error != 0) {
        const tf_address *address = &dial->addresses[dial->next++];
        error = start_attempt(stream, address);
        if (error != 0) {
            const tf_tls_result result = cannot_connect(error);
            note_failure(stream, address, &result);
        }
    }
    if (dial->next < dial->count) {
        tf_time now = clock_now();
        tf_time left = dial->deadline > now ? dial->deadline - now : 0;
        tf_stream_again_in(stream, tf_time_min(TF_DIAL_STAGGER, left / (dial->count - dial->next + 1)));
    } else if (dial->running == 0) {
        tf_stream_finish(stream);
    }
}

void tf_stream_dial_late(tf_stream *stream)
{
    stream_dial *dial = stream->dial;
    for (size_t i = 0; i < TF_STREAM_ATTEMPTS_MAX; i++) {
        if (dial->attempts[i].io.fd >= 0) {
            give_up(&dial->attempts[i]);
        }
    }
    if (!dial->failed) {
        tf_stream_set_failure(stream, TF_STREAM_TIMEOUT, 0, "no time to dial");
    }
    tf_stream_finish(stream);
}

static void fill_dial(stream_dial *dial, const tf_stream_target *target)
{
    dial->count = target->count < TF_STREAM_ADDRESSES_MAX ? target->count : TF_STREAM_ADDRESSES_MAX;
    tf_address_interleave(dial->addresses, target->addresses, dial->count);
    dial->deadline = tf_time_add(clock_now(), target->limit);
    if (target->pin != NULL) {
        dial->pinned = true;
        dial->pin = *target->pin;
    }
    if (target->bind != NULL) {
        dial->bind = *target->bind;
    }
    for (size_t i = 0; i < TF_STREAM_ATTEMPTS_MAX; i++) {
        dial->attempts[i].io.fd = -1;
    }
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
    fill_dial(dial, target);
    stream->dial = dial;
    stream->state = STREAM_DIALLING;
    tf_stream_set_limit(stream, target->limit);
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
    err = start_tls(&stream->io, &stream->ssl, stream->tls, NULL);
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
