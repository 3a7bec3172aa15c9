/* How a peer is reached again: new keys in time, a route on standby. Whole nodes over loopback; what takes real
 * time here is waited for, not slept. */
#include <openssl/ssl.h>
#include <stdio.h>

#include "node/edge_mem.h"
#include "node/endpoint.h"
#include "node/twofold.h"
#include "paths/listener.h"
#include "paths/stream.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define HANG (60 * TF_SECOND)

enum { RELAY, WRITER, READER, MEMBERS };

static tf_identity *identities[MEMBERS];
static tf_node *nodes[MEMBERS];
static uint64_t acked;
static uint64_t delivered;

static void set_up(tf_time rehandshake)
{
    for (uint8_t i = 0; i < MEMBERS; i++) {
        uint8_t seed[TF_SEED_LEN] = {(uint8_t)(i + 1)};
        ck_assert_int_eq(tf_identity_new(&identities[i], seed), TF_OK);
        tf_node_config config = {
            .identity = identities[i], .accept_any = i == RELAY, .limits = {.rehandshake = rehandshake}};
        ck_assert_int_eq(tf_node_new(&nodes[i], &config, NULL), TF_OK);
    }
    acked = delivered = 0;
}

static void tear_down(void)
{
    for (int i = MEMBERS - 1; i >= 0; i--) {
        tf_node_free(nodes[i]);
        tf_identity_free(identities[i]);
    }
}

static tf_peer *dial(tf_node *node, const char *uri_options, tf_remote **channel)
{
    char text[TF_URI_TEXT_MAX];
    char whole[TF_URI_TEXT_MAX + 64];
    char why[TF_WHY_MAX];
    tf_uri uri;
    tf_peer *peer = NULL;
    tf_connect_options options = {.connect_timeout = TF_NEVER};
    ck_assert(tf_node_uri(nodes[RELAY], text, sizeof(text)));
    (void)snprintf(whole, sizeof(whole), "%s%s", text, uri_options);
    ck_assert_msg(tf_uri_parse(&uri, whole, why) == TF_OK, "%s", why);
    ck_assert_int_eq(tf_node_connect(node, &uri, &options, &peer), TF_OK);
    ck_assert_int_eq(tf_remote_open(peer, tf_slice_str("c"), channel), TF_OK);
    return peer;
}

static void take_events(tf_node *node)
{
    tf_node_event event;
    while (tf_node_next_event(node, &event)) {
        ck_assert_int_ne(event.type, TF_EVENT_REFUSED);
        ck_assert_int_ne(event.type, TF_EVENT_DISCONNECTED);
        ck_assert_int_ne(event.type, TF_EVENT_GAP);
        if (event.type == TF_EVENT_ACK) {
            ck_assert_uint_eq(event.seq, ++acked);
            ck_assert(!event.duplicate);
        } else if (event.type == TF_EVENT_ACTIVITY) {
            ck_assert_uint_eq(event.seq, ++delivered);
        }
    }
}

static void turn(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        tf_node_run(nodes[i], TF_MS);
        take_events(nodes[i]);
    }
}

/* A new handshake every second, while messages flow: the session stays, nothing is lost, each key is newer. */
START_TEST(dialler_renews_the_keys_in_time_and_nothing_is_lost)
{
    char why[TF_WHY_MAX];
    tf_remote *out = NULL;
    tf_remote *in = NULL;
    tf_peer_stats stats = {.handshakes = 0};
    tf_time keys_since = 0;
    tf_time end = tf_edge_now() + HANG;
    uint64_t sent = 0;
    unsigned keys = 0;
    set_up(TF_SECOND);
    ck_assert_msg(tf_node_listen(nodes[RELAY], "127.0.0.1:0", why, sizeof(why)) == TF_OK, "%s", why);
    tf_peer *peer = dial(nodes[WRITER], "", &out);
    (void)dial(nodes[READER], "", &in);
    ck_assert_int_eq(tf_remote_subscribe(in, TF_START_FIRST, 0), TF_OK);
    while (keys < 4 || acked < sent || delivered < sent) {
        tf_remote_send_args send = {.body = tf_slice_str("x")};
        ck_assert_msg(tf_edge_now() < end, "%u keys, %u sent, %u acked, %u delivered", keys, (unsigned)sent,
                      (unsigned)acked, (unsigned)delivered);
        sent += keys < 4 && tf_remote_send(out, &send) == TF_OK;
        turn();
        tf_peer_get_stats(peer, &stats);
        keys += stats.has_keys && stats.keys_since > keys_since;
        keys_since = tf_time_max(keys_since, stats.keys_since);
    }
    tf_node_stats relay;
    tf_node_get_stats(nodes[RELAY], &relay);
    ck_assert_uint_eq(relay.sessions, 2);
    ck_assert_uint_eq(stats.sessions, 1);
    ck_assert_uint_ge(stats.handshakes, 4);
    ck_assert_uint_gt(sent, 0);
    tear_down();
}
END_TEST

static uint64_t sent_by(const tf_peer_stats *stats, tf_route route)
{
    return stats->routes[route].stats.sent_segments;
}

/* Our copies stay away from a route on standby; the peer's do not, for it was not asked to. */
START_TEST(dialler_route_on_standby_gets_no_copies_while_the_other_flows)
{
    static const struct {
        const char *options;
        tf_route standby;
        tf_route other;
    } rows[] = {{"?datagram-copy=standby", TF_ROUTE_DATAGRAM, TF_ROUTE_STREAM},
                {"?stream-copy=standby", TF_ROUTE_STREAM, TF_ROUTE_DATAGRAM}};
    for (size_t i = 0; i < 2; i++) {
        char why[TF_WHY_MAX];
        tf_remote *out = NULL;
        tf_peer_stats before = {.now = 0};
        tf_peer_stats stats = {.now = 0};
        tf_time end = tf_edge_now() + HANG;
        uint64_t acked_before = 0;
        uint64_t sent = 0;
        set_up(0);
        ck_assert_msg(tf_node_listen(nodes[RELAY], "127.0.0.1:0", why, sizeof(why)) == TF_OK, "%s", why);
        tf_peer *peer = dial(nodes[WRITER], rows[i].options, &out);
        while (acked < acked_before + 200) { /* it carries until the other one has flowed for a while */
            tf_remote_send_args send = {.body = tf_slice_str("x")};
            ck_assert_msg(tf_edge_now() < end, "%s: copies still go by it", rows[i].options);
            sent += tf_remote_send(out, &send) == TF_OK;
            turn();
            tf_peer_get_stats(peer, &stats);
            if (sent_by(&stats, rows[i].standby) > sent_by(&before, rows[i].standby)) {
                acked_before = acked;
                before = stats;
            }
        }
        ck_assert_uint_ge(sent, acked);
        ck_assert_uint_ge(sent_by(&stats, rows[i].other) - sent_by(&before, rows[i].other), 100);
        ck_assert_uint_gt(stats.routes[rows[i].standby].stats.received_segments,
                          before.routes[rows[i].standby].stats.received_segments);
        tear_down();
    }
}
END_TEST

/* -- an acceptor that says nothing --------------------------------------------------------------------------------- */

#define MUTE_STREAMS 2u

static struct {
    SSL_CTX *tls;
    tf_stream_buffers buffers;
    tf_stream *streams[MUTE_STREAMS];
    unsigned count;
    unsigned opened;
} mute;

static void mute_opened(void *ctx, tf_stream *stream)
{
    (void)ctx, (void)stream;
    mute.opened++;
}

static void mute_readable(void *ctx, tf_stream *stream)
{
    (void)ctx;
    tf_stream_consume(stream, tf_stream_in(stream).len);
}

static void mute_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    (void)ctx, (void)stream, (void)end; /* freed at the end of the test */
}

static bool let_all_in(void *ctx, const tf_node_id *peer)
{
    (void)ctx, (void)peer;
    return true;
}

static void mute_accepted(void *ctx, int fd, const tf_address *peer)
{
    static const tf_stream_ops ops = {.opened = mute_opened, .readable = mute_readable, .ended = mute_ended};
    const tf_stream_env env = {
        .base = tf_node_loop(nodes[WRITER]), .tls = mute.tls, .mem = tf_test_mem(), .buffers = &mute.buffers};
    (void)ctx, (void)peer;
    ck_assert_uint_lt(mute.count, MUTE_STREAMS);
    ck_assert_int_eq(tf_stream_accept(&mute.streams[mute.count++], &env, fd, HANG, &ops, NULL), TF_OK);
}

/* TLS is through and the HELLO is acked by TCP, then nothing comes: it is dialled again. */
START_TEST(dialler_waits_for_a_welcome_only_so_long)
{
    tf_address any;
    tf_listener *listener = NULL;
    tf_peer *peer = NULL;
    tf_uri uri = {0};
    tf_connect_options options = {.connect_timeout = TF_NEVER};
    set_up(0);
    memset(&mute, 0, sizeof(mute));
    tf_stream_buffers_init(&mute.buffers, tf_test_mem());
    ck_assert_int_eq(tf_identity_ssl_ctx(&mute.tls, identities[RELAY], true, let_all_in, NULL), TF_OK);
    ck_assert_int_eq(tf_address_parse(&any, tf_slice_str("127.0.0.1"), 0), TF_OK);
    const tf_listener_config config = {
        .base = tf_node_loop(nodes[WRITER]), .mem = tf_test_mem(), .accepted = mute_accepted};
    ck_assert_int_eq(tf_listener_new(&listener, tf_listen_tcp(&any), &config), TF_OK);
    uri.node = *tf_identity_node_id(identities[RELAY]);
    tf_endpoint_from_address(&uri.stream, tf_listener_local(listener));
    ck_assert_int_eq(tf_node_connect(nodes[WRITER], &uri, &options, &peer), TF_OK);
    tf_time end = tf_edge_now() + HANG;
    while (mute.opened < MUTE_STREAMS) {
        ck_assert(tf_edge_now() < end);
        tf_node_run(nodes[WRITER], 100 * TF_MS);
    }
    for (unsigned i = 0; i < mute.count; i++) {
        tf_stream_free(mute.streams[i]);
    }
    tf_listener_free(listener);
    SSL_CTX_free(mute.tls);
    tear_down();
    tf_stream_buffers_clear(&mute.buffers);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {dialler_renews_the_keys_in_time_and_nothing_is_lost,
                                  dialler_route_on_standby_gets_no_copies_while_the_other_flows,
                                  dialler_waits_for_a_welcome_only_so_long,
                                  NULL};
    return tf_test_run_waiting("node/dialler", tests);
}
