/* Streams over loopback: real sockets, real TLS, one event loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
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
static tf_identity *identities[2]; /* 0 dials, 1 accepts */
static SSL_CTX *client_tls;
static SSL_CTX *server_tls;
static tf_listener *listener;
static int accepted_fd; /* borrowed from the accepted stream */
static bool let_in;
static tf_time accept_limit;
static end dialler;
static end acceptor;

static void release_end(end *e)
{
    tf_stream *stream = e->stream;
    e->stream = NULL;
    tf_stream_free(stream);
}

static void pump(end *e)
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

static void on_opened(void *ctx, tf_stream *stream)
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

static void on_readable(void *ctx, tf_stream *stream)
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

static void on_writable(void *ctx, tf_stream *stream)
{
    end *e = ctx;
    ck_assert_uint_gt(tf_stream_room(stream), 0);
    if (e->free_when_writable) {
        release_end(e);
        return;
    }
    pump(e);
}

static void on_ended(void *ctx, tf_stream *stream, const tf_stream_end *how)
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

static bool allow(void *ctx, const tf_node_id *peer)
{
    (void)ctx, (void)peer;
    return let_in;
}

static void on_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx, (void)peer;
    const tf_stream_env env = {base, server_tls, mem};
    accepted_fd = fd;
    ck_assert_ptr_null(acceptor.stream);
    tf_err err = tf_stream_accept(&acceptor.stream, &env, fd, accept_limit, &ops, &acceptor);
    ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
    acceptor.ended = err != TF_OK;
}

static void set_up(void)
{
    mem = tf_test_mem();
    base = event_base_new();
    const tf_rand *rand = tf_test_rand(7);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_identity_generate(&identities[i], rand), TF_OK);
    }
    ck_assert_int_eq(tf_identity_ssl_ctx(&client_tls, identities[0], false, allow, NULL), TF_OK);
    ck_assert_int_eq(tf_identity_ssl_ctx(&server_tls, identities[1], true, allow, NULL), TF_OK);
    tf_address any;
    ck_assert_int_eq(tf_address_parse(&any, tf_slice_str("127.0.0.1"), 0), TF_OK);
    const tf_listener_config config = {base, mem, on_accepted, NULL};
    ck_assert_int_eq(tf_listener_new(&listener, tf_listen_tcp(&any), &config), TF_OK);
    let_in = true;
    accept_limit = LIMIT;
    accepted_fd = -1;
    memset(&dialler, 0, sizeof(dialler));
    memset(&acceptor, 0, sizeof(acceptor));
}

static void tear_down(void)
{
    release_end(&dialler);
    release_end(&acceptor);
    tf_listener_free(listener);
    SSL_CTX_free(client_tls);
    SSL_CTX_free(server_tls);
    tf_identity_free(identities[0]);
    tf_identity_free(identities[1]);
    event_base_free(base);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static void on_give_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ck_abort_msg("it did not happen in time");
}

/* Runs the loop until the condition is met. */
static void run_until(bool (*met)(void))
{
    struct event *guard = evtimer_new(base, on_give_up, NULL);
    const struct timeval span = {GIVE_UP / TF_SECOND, 0};
    evtimer_add(guard, &span);
    while (!met()) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    event_free(guard);
}

static bool both_open(void)
{
    return dialler.opened && acceptor.opened;
}

static bool both_ended(void)
{
    return dialler.ended && acceptor.ended;
}

static bool dialler_ended(void)
{
    return dialler.ended;
}

static bool acceptor_ended(void)
{
    return acceptor.ended;
}

static bool all_arrived(void)
{
    return dialler.received == acceptor.sent && acceptor.received == dialler.sent && dialler.to_send == 0 &&
           acceptor.to_send == 0;
}

static tf_err dial_to(const tf_address *addresses, size_t count, const tf_bind *bind, tf_time limit)
{
    const tf_stream_env env = {base, client_tls, mem};
    const tf_stream_target target = {.addresses = addresses,
                                     .count = count,
                                     .pin = tf_identity_node_id(identities[1]),
                                     .bind = bind,
                                     .limit = limit};
    return tf_stream_dial(&dialler.stream, &env, &target, &ops, &dialler);
}

static void dial(void)
{
    ck_assert_int_eq(dial_to(tf_listener_local(listener), 1, NULL, LIMIT), TF_OK);
}

static void connect_both(void)
{
    dial();
    run_until(both_open);
}

/* A blocking client socket without any TLS. */
static int raw_client(void)
{
    const tf_address *to = tf_listener_local(listener);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd, &to->u.any, to->len), 0);
    return fd;
}

static tf_address loopback(uint16_t port)
{
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str("127.0.0.1"), port), TF_OK);
    return address;
}

/* A port on which nobody listens, held by a socket that is bound only. */
static tf_address closed_port(int *holder)
{
    tf_address address = loopback(0);
    socklen_t len = sizeof(address.u.v4);
    *holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(*holder, &address.u.any, address.len), 0);
    ck_assert_int_eq(getsockname(*holder, &address.u.any, &len), 0);
    return address;
}

/* -- bytes --------------------------------------------------------------------------------------------------------- */

START_TEST(stream_dial_opens_with_the_proved_keys)
{
    set_up();
    connect_both();
    ck_assert(tf_node_id_eq(&dialler.peer, tf_identity_node_id(identities[1])));
    ck_assert(tf_node_id_eq(&acceptor.peer, tf_identity_node_id(identities[0])));
    ck_assert(tf_address_eq(tf_stream_remote(dialler.stream), tf_listener_local(listener)));
    ck_assert(tf_address_eq(tf_stream_local(dialler.stream), tf_stream_remote(acceptor.stream)));
    ck_assert(tf_address_eq(tf_stream_remote(dialler.stream), tf_stream_local(acceptor.stream)));
    ck_assert_uint_eq(tf_stream_room(dialler.stream), TF_STREAM_RECORD);
    tear_down();
}
END_TEST

START_TEST(stream_bytes_arrive_in_both_directions)
{
    set_up();
    connect_both();
    dialler.to_send = 5u * 1024u * 1024u + 17u;
    acceptor.to_send = 3u * 1024u * 1024u + 1u;
    pump(&dialler);
    pump(&acceptor);
    run_until(all_arrived);
    ck_assert(!dialler.wrong && !acceptor.wrong);
    ck_assert_uint_le(acceptor.most_waiting, TF_STREAM_IN);
    tf_stream_stats stats;
    tf_stream_get_stats(dialler.stream, &stats);
    ck_assert_uint_eq(stats.written_bytes, dialler.sent);
    ck_assert_uint_eq(stats.read_bytes, acceptor.sent);
    tear_down();
}
END_TEST

START_TEST(stream_small_writes_come_in_few_turns)
{
    set_up();
    connect_both();
    for (int i = 0; i < 64; i++) {
        dialler.to_send = 100;
        pump(&dialler);
    }
    run_until(all_arrived);
    ck_assert(!acceptor.wrong);
    ck_assert_uint_lt(acceptor.readable_calls, 32);
    tear_down();
}
END_TEST

START_TEST(stream_bytes_right_behind_the_handshake_arrive)
{
    set_up();
    dialler.write_when_opened = true;
    dialler.to_send = 1000;
    acceptor.write_when_opened = true;
    acceptor.to_send = 2000;
    connect_both();
    run_until(all_arrived);
    ck_assert(!dialler.wrong && !acceptor.wrong);
    tear_down();
}
END_TEST

static bool acceptor_is_full(void)
{
    return acceptor.most_waiting == TF_STREAM_IN && tf_stream_room(dialler.stream) == 0;
}

START_TEST(stream_owner_that_takes_nothing_stops_the_sender)
{
    set_up();
    connect_both();
    acceptor.keep = true;
    dialler.to_send = 64u * 1024u * 1024u;
    pump(&dialler);
    run_until(acceptor_is_full);
    unsigned calls = acceptor.readable_calls;
    for (int i = 0; i < 50; i++) {
        ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
    }
    ck_assert_uint_eq(acceptor.readable_calls, calls); /* it is not asked again and again */
    ck_assert_uint_lt(dialler.sent, 32u * 1024u * 1024u);
    acceptor.keep = false;
    dialler.to_send = 1;
    on_readable(&acceptor, acceptor.stream);
    run_until(all_arrived);
    ck_assert(!acceptor.wrong);
    tear_down();
}
END_TEST

/* -- who is let in ------------------------------------------------------------------------------------------------- */

START_TEST(stream_key_that_is_not_let_in_is_told_so)
{
    set_up();
    let_in = false;
    dialler.write_when_opened = true; /* as a HELLO does: it must not turn the refusal into a reset */
    dialler.to_send = 20000;
    dial();
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_REFUSED);
    ck_assert(dialler.end.opened);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_AUTH);
    ck_assert(!acceptor.end.opened && !acceptor.opened);
    tear_down();
}
END_TEST

START_TEST(stream_wrong_pin_ends_with_auth)
{
    set_up();
    const tf_stream_env env = {base, client_tls, mem};
    const tf_stream_target target = {.addresses = tf_listener_local(listener),
                                     .count = 1,
                                     .pin = tf_identity_node_id(identities[0]),
                                     .limit = LIMIT};
    ck_assert_int_eq(tf_stream_dial(&dialler.stream, &env, &target, &ops, &dialler), TF_OK);
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_AUTH);
    ck_assert(!dialler.opened);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_REFUSED);
    tear_down();
}
END_TEST

/* -- bad peers ----------------------------------------------------------------------------------------------------- */

START_TEST(stream_garbage_ends_only_that_stream)
{
    static const char garbage[] = "GET / HTTP/1.1\r\nHost: example\r\n\r\n";
    set_up();
    int fd = raw_client();
    ck_assert_int_eq(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_PROTOCOL);
    close(fd);
    memset(&acceptor, 0, sizeof(acceptor));
    connect_both();
    tear_down();
}
END_TEST

START_TEST(stream_client_that_goes_away_ends_truncated)
{
    set_up();
    close(raw_client());
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_TRUNCATED);
    tear_down();
}
END_TEST

START_TEST(stream_silent_client_meets_the_limit)
{
    set_up();
    accept_limit = 50 * TF_MS;
    int fd = raw_client();
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_TIMEOUT);
    uint8_t byte;
    ck_assert_int_eq(read(fd, &byte, 1), 0); /* it is closed for the client, too */
    close(fd);
    tear_down();
}
END_TEST

static int trickle_fd;

static void on_trickle(evutil_socket_t fd, short what, void *arg)
{
    static const uint8_t beginning[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03};
    static size_t at;
    (void)fd, (void)what, (void)arg;
    ssize_t sent = send(trickle_fd, &beginning[at++ % sizeof(beginning)], 1, MSG_NOSIGNAL);
    ck_assert(sent == 1 || acceptor.ended);
}

START_TEST(stream_slow_client_meets_the_limit)
{
    set_up();
    accept_limit = 100 * TF_MS;
    trickle_fd = raw_client();
    struct event *tick = event_new(base, -1, EV_PERSIST, on_trickle, NULL);
    const struct timeval span = {0, 15000};
    event_add(tick, &span);
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_TIMEOUT);
    event_free(tick);
    close(trickle_fd);
    tear_down();
}
END_TEST

START_TEST(stream_end_of_tcp_without_close_is_truncated)
{
    set_up();
    connect_both();
    ck_assert_int_eq(shutdown(accepted_fd, SHUT_WR), 0);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_TRUNCATED);
    ck_assert(dialler.end.opened);
    tear_down();
}
END_TEST

static void reset_connection(void)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    ck_assert_int_eq(connect(accepted_fd, &none, sizeof(none)), 0);
}

START_TEST(stream_reset_is_reported_with_its_errno)
{
    set_up();
    connect_both();
    reset_connection();
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_RESET);
    ck_assert_int_eq(dialler.end.system_error, ECONNRESET);
    tear_down();
}
END_TEST

START_TEST(stream_write_after_a_reset_is_reported_later)
{
    set_up();
    connect_both();
    reset_connection();
    dialler.to_send = 100;
    pump(&dialler); /* no callback from in here */
    ck_assert(!dialler.ended);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_RESET);
    tear_down();
}
END_TEST

START_TEST(stream_bad_record_ends_only_that_stream)
{
    static const uint8_t record[] = {0x17, 0x03, 0x03, 0x00, 0x14, 1,  2,  3,  4,  5,  6,  7, 8,
                                     9,    10,   11,   12,   13,   14, 15, 16, 17, 18, 19, 20};
    set_up();
    connect_both();
    ck_assert_int_eq(send(accepted_fd, record, sizeof(record), 0), sizeof(record));
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_PROTOCOL);
    tear_down();
}
END_TEST

/* -- dialling ------------------------------------------------------------------------------------------------------ */

START_TEST(stream_closed_port_is_unreachable)
{
    set_up();
    int holder;
    tf_address closed = closed_port(&holder);
    ck_assert_int_eq(dial_to(&closed, 1, NULL, LIMIT), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_UNREACHABLE);
    ck_assert_int_eq(dialler.end.system_error, ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(dialler.end.text, "127.0.0.1:"));
    close(holder);
    tear_down();
}
END_TEST

START_TEST(stream_next_address_is_tried)
{
    set_up();
    int holder;
    tf_address addresses[] = {closed_port(&holder), loopback(1), *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(addresses, 3, NULL, LIMIT), TF_OK);
    run_until(both_open);
    close(holder);
    tear_down();
}
END_TEST

START_TEST(stream_no_address_is_a_usage_error)
{
    set_up();
    ck_assert_int_eq(dial_to(NULL, 0, NULL, LIMIT), TF_ERR_USAGE);
    ck_assert_ptr_null(dialler.stream);
    tear_down();
}
END_TEST

START_TEST(stream_server_that_says_nothing_meets_the_limit_and_the_next_is_tried)
{
    set_up();
    tf_address silent = loopback(0);
    int fd = tf_listen_tcp(&silent);
    socklen_t len = sizeof(silent.u.v4);
    ck_assert_int_eq(getsockname(fd, &silent.u.any, &len), 0);
    ck_assert_int_eq(dial_to(&silent, 1, NULL, 50 * TF_MS), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_TIMEOUT);
    memset(&dialler, 0, sizeof(dialler));
    const tf_address both[] = {silent, *tf_listener_local(listener)};
    ck_assert_int_eq(dial_to(both, 2, NULL, 2 * TF_SECOND), TF_OK);
    run_until(both_open);
    close(fd);
    tear_down();
}
END_TEST

static void answer_garbage(void *ctx, int fd, const tf_address *peer)
{
    static const char banner[] = "220 mail.example ESMTP ready\r\n";
    (void)ctx, (void)peer;
    ck_assert_int_eq(send(fd, banner, sizeof(banner), 0), sizeof(banner));
    close(fd);
}

START_TEST(stream_server_without_tls_is_a_protocol_error)
{
    set_up();
    tf_listener *mail = NULL;
    tf_address at = loopback(0);
    const tf_listener_config config = {base, mem, answer_garbage, NULL};
    ck_assert_int_eq(tf_listener_new(&mail, tf_listen_tcp(&at), &config), TF_OK);
    int holder;
    const tf_address addresses[] = {*tf_listener_local(mail), closed_port(&holder)};
    ck_assert_int_eq(dial_to(addresses, 2, NULL, LIMIT), TF_OK); /* what got furthest is told */
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_PROTOCOL);
    close(holder);
    tf_listener_free(mail);
    tear_down();
}
END_TEST

START_TEST(stream_leaves_by_the_bound_address)
{
    set_up();
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("127.0.0.9")), TF_OK);
    ck_assert_int_eq(dial_to(tf_listener_local(listener), 1, &bind, LIMIT), TF_OK);
    run_until(both_open);
    ck_assert(tf_address_same_host(tf_stream_remote(acceptor.stream), &bind.address));
    tear_down();
}
END_TEST

START_TEST(stream_bound_to_another_family_is_unreachable)
{
    set_up();
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("[::1]")), TF_OK);
    ck_assert_int_eq(dial_to(tf_listener_local(listener), 1, &bind, LIMIT), TF_OK);
    run_until(dialler_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_UNREACHABLE);
    ck_assert_int_eq(dialler.end.system_error, EADDRNOTAVAIL);
    tear_down();
}
END_TEST

/* -- endings ------------------------------------------------------------------------------------------------------- */

START_TEST(stream_close_delivers_the_last_bytes)
{
    set_up();
    connect_both();
    acceptor.to_send = 300000; /* unread by the dialler when it closes: a plain close would be a reset */
    pump(&acceptor);
    dialler.to_send = 10000;
    pump(&dialler);
    ck_assert_uint_eq(dialler.to_send, 0);
    tf_stream_close(dialler.stream);
    run_until(both_ended);
    ck_assert_int_eq(dialler.end.reason, TF_STREAM_CLOSED);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    ck_assert_uint_eq(acceptor.received, 10000);
    tear_down();
}
END_TEST

START_TEST(stream_free_is_a_clean_close_for_the_peer)
{
    set_up();
    connect_both();
    release_end(&dialler);
    run_until(acceptor_ended);
    ck_assert_int_eq(acceptor.end.reason, TF_STREAM_CLOSED);
    tear_down();
}
END_TEST

START_TEST(stream_may_be_freed_in_every_callback)
{
    for (int which = 0; which < 3; which++) {
        set_up();
        dialler.write_when_opened = true;
        dialler.to_send = 100000;
        acceptor.free_when_opened = which == 0;
        acceptor.free_when_readable = which == 1;
        acceptor.free_when_writable = which == 2;
        acceptor.write_when_opened = true;
        acceptor.to_send = 64u * 1024u * 1024u;
        dialler.keep = true;
        dial();
        while (!acceptor.opened || acceptor.stream != NULL) {
            ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
        }
        tear_down();
    }
}
END_TEST

START_TEST(stream_may_be_freed_at_every_step)
{
    for (int steps = 0; steps < 12; steps++) {
        set_up();
        dialler.to_send = acceptor.to_send = 1000000;
        dialler.write_when_opened = acceptor.write_when_opened = true;
        dial();
        for (int i = 0; i < steps; i++) {
            ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
        }
        tear_down();
    }
}
END_TEST

static bool both_settled(void)
{
    return (dialler.opened || dialler.ended) && (acceptor.opened || acceptor.ended);
}

/* Every allocation in turn fails: the stream is not made, or ends and says so; nothing leaks (tear_down looks). */
START_TEST(stream_without_memory_ends_or_is_not_made)
{
    bool failed = true;
    for (uint64_t k = 0; failed; k++) {
        set_up();
        uint64_t before = tf_test_heap_shared()->failures;
        tf_test_heap_fail_at(tf_test_heap_shared(), k, false);
        tf_err err = dial_to(tf_listener_local(listener), 1, NULL, LIMIT);
        ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
        if (err == TF_OK) {
            run_until(both_settled);
        }
        failed = tf_test_heap_shared()->failures > before;
        tf_test_heap_fail_never(tf_test_heap_shared());
        ck_assert(failed || (dialler.opened && acceptor.opened));
        tear_down();
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {stream_dial_opens_with_the_proved_keys,
                                  stream_bytes_arrive_in_both_directions,
                                  stream_small_writes_come_in_few_turns,
                                  stream_bytes_right_behind_the_handshake_arrive,
                                  stream_owner_that_takes_nothing_stops_the_sender,
                                  stream_key_that_is_not_let_in_is_told_so,
                                  stream_wrong_pin_ends_with_auth,
                                  stream_garbage_ends_only_that_stream,
                                  stream_client_that_goes_away_ends_truncated,
                                  stream_silent_client_meets_the_limit,
                                  stream_slow_client_meets_the_limit,
                                  stream_end_of_tcp_without_close_is_truncated,
                                  stream_reset_is_reported_with_its_errno,
                                  stream_write_after_a_reset_is_reported_later,
                                  stream_bad_record_ends_only_that_stream,
                                  stream_closed_port_is_unreachable,
                                  stream_next_address_is_tried,
                                  stream_no_address_is_a_usage_error,
                                  stream_server_that_says_nothing_meets_the_limit_and_the_next_is_tried,
                                  stream_server_without_tls_is_a_protocol_error,
                                  stream_leaves_by_the_bound_address,
                                  stream_bound_to_another_family_is_unreachable,
                                  stream_close_delivers_the_last_bytes,
                                  stream_free_is_a_clean_close_for_the_peer,
                                  stream_may_be_freed_in_every_callback,
                                  stream_may_be_freed_at_every_step,
                                  stream_without_memory_ends_or_is_not_made,
                                  NULL};
    return tf_test_run("paths/stream", tests);
}
