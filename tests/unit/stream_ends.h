/* What the tests of streams share: two ends over loopback with real sockets, real TLS and one event loop. */
#ifndef TF_TESTS_UNIT_STREAM_ENDS_H
#define TF_TESTS_UNIT_STREAM_ENDS_H

#include <errno.h>
#include <event2/event.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <unistd.h>

#include "handshake/identity.h"
#include "paths/listener.h"
#include "paths/stream.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define GIVE_UP (20 * TF_SECOND)
#define LIMIT (10 * TF_SECOND)

/* -- two ends ------------------------------------------------------------------------------------------------------ */

typedef struct end {
    tf_stream *stream;
    bool opened;
    bool ended;
    bool free_when_opened;
    bool free_when_readable;
    bool free_when_writable;
    bool keep; /* consumes nothing */
    bool write_when_opened;
    tf_stream_end end;
    char text[TF_STREAM_TEXT_MAX];
    tf_node_id peer;
    uint64_t received; /* bytes; each must be the low byte of its number */
    bool wrong;
    size_t most_waiting;
    uint64_t to_send; /* bytes still to be written when there is room */
    uint64_t sent;
    unsigned readable_calls;
} end;

static struct event_base *base;
static const tf_mem *mem;
static tf_stream_buffers buffers;
static tf_identity *identities[2]; /* 0 dials, 1 accepts */
static SSL_CTX *client_tls;
static SSL_CTX *server_tls;
static tf_listener *listener;
static int accepted_fd; /* borrowed from the accepted stream */
static bool let_in;
static tf_time accept_limit;
static end dialler;
static end acceptor;

static inline void release_end(end *e)
{
    tf_stream *stream = e->stream;
    e->stream = NULL;
    tf_stream_free(stream);
}

static inline void pump(end *e)
{
    uint8_t record[TF_STREAM_RECORD];
    size_t room = tf_stream_room(e->stream);
    while (e->to_send > 0 && room > 0) {
        size_t n = e->to_send < room ? (size_t)e->to_send : room;
        for (size_t i = 0; i < n; i++) {
            record[i] = (uint8_t)(e->sent + i);
        }
        tf_stream_write(e->stream, tf_slice_of(record, n));
        e->sent += n;
        e->to_send -= n;
        room = tf_stream_room(e->stream);
    }
    tf_stream_want_write(e->stream, e->to_send > 0);
}

static inline void on_opened(void *ctx, tf_stream *stream)
{
    end *e = ctx;
    ck_assert(!e->opened && !e->ended && e->stream == stream && tf_stream_is_open(stream));
    e->opened = true;
    ck_assert_int_eq(tf_stream_peer_id(stream, &e->peer), TF_OK);
    if (e->write_when_opened) {
        pump(e);
    }
    if (e->free_when_opened) {
        release_end(e);
    }
}

static inline void on_readable(void *ctx, tf_stream *stream)
{
    end *e = ctx;
    tf_slice in = tf_stream_in(stream);
    ck_assert_uint_gt(in.len, 0);
    e->readable_calls++;
    e->most_waiting = in.len > e->most_waiting ? in.len : e->most_waiting;
    if (e->free_when_readable) {
        release_end(e);
        return;
    }
    if (e->keep) {
        return;
    }
    for (size_t i = 0; i < in.len; i++) {
        e->wrong = e->wrong || in.data[i] != (uint8_t)(e->received + i);
    }
    e->received += in.len;
    tf_stream_consume(stream, in.len);
}

static inline void on_writable(void *ctx, tf_stream *stream)
{
    end *e = ctx;
    ck_assert_uint_gt(tf_stream_room(stream), 0);
    if (e->free_when_writable) {
        release_end(e);
        return;
    }
    pump(e);
}

static inline void on_ended(void *ctx, tf_stream *stream, const tf_stream_end *how)
{
    end *e = ctx;
    ck_assert(!e->ended && e->stream == stream);
    ck_assert_uint_eq(tf_stream_room(stream), 0);
    e->ended = true;
    e->end = *how;
    (void)snprintf(e->text, sizeof(e->text), "%s", how->text);
    e->end.text = e->text;
    release_end(e);
}

static const tf_stream_ops ops = {on_opened, on_readable, on_writable, on_ended};

static inline bool allow(void *ctx, const tf_node_id *peer)
{
    (void)ctx, (void)peer;
    return let_in;
}

static inline void on_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx, (void)peer;
    const tf_stream_env env = {base, server_tls, mem, &buffers};
    accepted_fd = fd;
    ck_assert_ptr_null(acceptor.stream);
    tf_err err = tf_stream_accept(&acceptor.stream, &env, fd, accept_limit, &ops, &acceptor);
    ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
    acceptor.ended = err != TF_OK;
}

static inline void set_up(void)
{
    mem = tf_test_mem();
    tf_stream_buffers_init(&buffers, mem);
    base = event_base_new();
    const tf_rand *rand = tf_test_rand(7);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_identity_generate(&identities[i], rand), TF_OK);
    }
    ck_assert_int_eq(tf_identity_ssl_ctx(&client_tls, identities[0], false, allow, NULL), TF_OK);
    ck_assert_int_eq(tf_identity_ssl_ctx(&server_tls, identities[1], true, allow, NULL), TF_OK);
    tf_address any;
    ck_assert_int_eq(tf_address_parse(&any, tf_slice_str("127.0.0.1"), 0), TF_OK);
    const tf_listener_config config = {.base = base, .mem = mem, .accepted = on_accepted};
    ck_assert_int_eq(tf_listener_new(&listener, tf_listen_tcp(&any), &config), TF_OK);
    let_in = true;
    accept_limit = LIMIT;
    accepted_fd = -1;
    memset(&dialler, 0, sizeof(dialler));
    memset(&acceptor, 0, sizeof(acceptor));
}

static inline void tear_down(void)
{
    release_end(&dialler);
    release_end(&acceptor);
    tf_listener_free(listener);
    SSL_CTX_free(client_tls);
    SSL_CTX_free(server_tls);
    tf_identity_free(identities[0]);
    tf_identity_free(identities[1]);
    event_base_free(base);
    tf_stream_buffers_clear(&buffers);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static inline void on_give_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ck_abort_msg("it did not happen in time");
}

/* Runs the loop until the condition is met. */
static inline void run_until(bool (*met)(void))
{
    struct event *guard = evtimer_new(base, on_give_up, NULL);
    const struct timeval span = {GIVE_UP / TF_SECOND, 0};
    evtimer_add(guard, &span);
    while (!met()) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    event_free(guard);
}

static inline bool both_open(void)
{
    return dialler.opened && acceptor.opened;
}

static inline bool both_ended(void)
{
    return dialler.ended && acceptor.ended;
}

static inline bool dialler_ended(void)
{
    return dialler.ended;
}

static inline bool acceptor_ended(void)
{
    return acceptor.ended;
}

static inline bool all_arrived(void)
{
    return dialler.received == acceptor.sent && acceptor.received == dialler.sent && dialler.to_send == 0 &&
           acceptor.to_send == 0;
}

static inline tf_err dial_to(const tf_address *addresses, size_t count, const tf_bind *bind, tf_time limit)
{
    const tf_stream_env env = {base, client_tls, mem, &buffers};
    const tf_stream_target target = {.addresses = addresses,
                                     .count = count,
                                     .pin = tf_identity_node_id(identities[1]),
                                     .bind = bind,
                                     .limit = limit};
    return tf_stream_dial(&dialler.stream, &env, &target, &ops, &dialler);
}

static inline void dial(void)
{
    ck_assert_int_eq(dial_to(tf_listener_local(listener), 1, NULL, LIMIT), TF_OK);
}

static inline void connect_both(void)
{
    dial();
    run_until(both_open);
}

/* A blocking client socket without any TLS. */
static inline int raw_client(void)
{
    const tf_address *to = tf_listener_local(listener);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, &to->u.any, to->len), 0);
    return fd;
}

static inline tf_address loopback(uint16_t port)
{
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str("127.0.0.1"), port), TF_OK);
    return address;
}

/* A port on which nobody listens, held by a socket that is bound only. */
static inline tf_address closed_port(int *holder)
{
    tf_address address = loopback(0);
    socklen_t len = sizeof(address.u.v4);
    *holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(*holder, &address.u.any, address.len), 0);
    ck_assert_int_eq(getsockname(*holder, &address.u.any, &len), 0);
    return address;
}

#endif
