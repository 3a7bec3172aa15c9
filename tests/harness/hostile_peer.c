/* One peer of tf-hostile: its handshake, its link, and how it comes back. */
#include <stdio.h>

#include <openssl/ssl.h>

#include "node/edge_mem.h"
#include "node/keyfile.h"
#include "proto/frame.h"
#include "tests/harness/hostile.h"

#define REDIAL_MIN (200 * TF_MS)
#define REDIAL_DOUBLINGS 4u

static void arm(tf_hostile_peer *peer, tf_time deadline)
{
    tf_time now = tf_edge_now();
    if (deadline == TF_NEVER) {
        (void)event_del(peer->timer);
        return;
    }
    tf_time wait = deadline > now ? deadline - now : 0;
    struct timeval span = {.tv_sec = (time_t)(wait / TF_SECOND), .tv_usec = (suseconds_t)(wait % TF_SECOND)};
    (void)event_add(peer->timer, &span);
}

static void forget_connection(tf_hostile_peer *peer)
{
    tf_stream_free(peer->stream);
    peer->stream = NULL;
    peer->all->counts.up -= peer->link != NULL;
    tf_link_free(peer->link);
    peer->link = NULL;
    peer->number = 0;
    peer->said = 0;
    peer->next_segment = 0;
    peer->channel = 0;
}

/* Again after a while, at random, longer each time. */
static void come_back(tf_hostile_peer *peer)
{
    forget_connection(peer);
    unsigned doublings = peer->tries < REDIAL_DOUBLINGS ? peer->tries : REDIAL_DOUBLINGS;
    tf_time most = REDIAL_MIN << doublings;
    peer->tries++;
    arm(peer, tf_time_add(tf_edge_now(), most / 2 + tf_rand_u64(tf_edge_rand()) % most));
}

/* A CLOSE of the relay is its last word. */
static void closed(tf_hostile_peer *peer, uint64_t code)
{
    peer->all->counts.closed++;
    peer->all->counts.code = code;
    (void)printf("closed code=%s said=%llu\n", tf_close_text(code), (unsigned long long)peer->said);
    (void)fflush(stdout);
    peer->ended = true;
    forget_connection(peer);
    (void)event_del(peer->timer);
}

/* -- the link ------------------------------------------------------------------------------------------------------ */

void tf_hostile_peer_flush(tf_hostile_peer *peer)
{
    uint8_t bytes[TF_STREAM_RECORD];
    tf_link_event event;
    size_t room = tf_stream_room(peer->stream);
    while (room > 0) {
        size_t len = tf_link_pull_stream(peer->link, tf_edge_now(), bytes, room);
        if (len == 0) {
            break;
        }
        tf_stream_write(peer->stream, tf_slice_of(bytes, len));
        room = tf_stream_room(peer->stream);
    }
    tf_stream_want_write(peer->stream, room == 0);
    while (tf_link_next_event(peer->link, &event)) {
        if (event.type == TF_LINK_EVENT_CLOSED) {
            closed(peer, event.code);
            return;
        }
    }
    arm(peer, tf_link_deadline(peer->link));
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_hostile_peer *peer = ctx;
    if (peer->stream == NULL) {
        tf_hostile_peer_dial(peer);
    } else if (peer->link != NULL) {
        tf_link_tick(peer->link, tf_edge_now());
        tf_hostile_peer_flush(peer);
    }
}

static tf_err make_link(tf_hostile_peer *peer)
{
    const tf_agreed *agreed = &peer->agreed;
    tf_link_config config = {.mem = tf_edge_mem(),
                             .rand = tf_edge_rand(),
                             .peer = peer->all->options->uri.node,
                             .peer_instance = agreed->peer_instance,
                             .session = agreed->session,
                             .routes = TF_ROUTES_STREAM,
                             .send_data = TF_ROUTES_STREAM,
                             .recv_data = TF_ROUTES_STREAM,
                             .recv_window_segments = agreed->own_limits.window_segments,
                             .recv_window_bytes = agreed->own_limits.window_bytes,
                             .send_window_segments = agreed->peer_limits.window_segments,
                             .send_window_bytes = agreed->peer_limits.window_bytes,
                             .recv_max_message = agreed->own_limits.max_message,
                             .keepalive = peer->hello.offer.keepalive_ms * TF_MS,
                             .peer_keepalive = agreed->peer_keepalive};
    return tf_link_new(&peer->link, &config, tf_edge_now());
}

static void welcomed(tf_hostile_peer *peer)
{
    tf_hostile_counts *counts = &peer->all->counts;
    counts->up++;
    counts->served += !peer->served;
    peer->served = true;
    peer->tries = 0;
    tf_link_stream_up(peer->link, tf_edge_now(), peer->agreed.generation);
    tf_hostile_act(peer);
}

/* -- the handshake ------------------------------------------------------------------------------------------------- */

/* The answer to HELLO. TF_OK once it is here, TF_ERR_AGAIN: not yet. */
static tf_err take_welcome(tf_hostile_peer *peer, tf_reader *r)
{
    tf_frame frame;
    tf_welcome welcome;
    const tf_negotiate_session none = {.resumable = false};
    tf_err err = tf_frame_read(r, &frame);
    if (err == TF_OK && frame.type == TF_FRAME_CLOSE) {
        return TF_ERR_PEER_REFUSED;
    }
    if (err == TF_OK && frame.type != TF_FRAME_WELCOME) {
        err = TF_ERR_PEER_STATE;
    }
    if (err == TF_OK) {
        err = tf_welcome_decode(&welcome, frame.u.payload);
    }
    if (err == TF_OK) {
        err = tf_negotiate_accept(&peer->hello, &welcome, &none, &peer->agreed);
    }
    return err == TF_OK ? make_link(peer) : err;
}

static void on_readable(void *ctx, tf_stream *stream)
{
    tf_hostile_peer *peer = ctx;
    tf_slice in = tf_stream_in(stream);
    if (peer->link == NULL) {
        tf_reader r;
        tf_rd_init(&r, in);
        tf_err err = take_welcome(peer, &r);
        if (err == TF_ERR_AGAIN) {
            return;
        }
        if (err != TF_OK) {
            peer->all->counts.failed++;
            come_back(peer);
            return;
        }
        tf_stream_consume(stream, in.len - tf_rd_left(&r));
        welcomed(peer);
        in = tf_stream_in(stream);
    }
    size_t used = tf_hostile_take(peer, in);
    if (peer->stream == stream) {
        tf_stream_consume(stream, used);
        tf_hostile_act(peer);
    }
}

static void on_writable(void *ctx, tf_stream *stream)
{
    (void)stream;
    tf_hostile_act(ctx);
}

static void on_opened(void *ctx, tf_stream *stream)
{
    tf_hostile_peer *peer = ctx;
    uint8_t payload[4096];
    uint8_t bytes[sizeof(payload) + TF_FRAME_HEADER];
    size_t len = 0;
    tf_writer w;
    TF_ASSERT(tf_hello_encode(&peer->hello, payload, sizeof(payload), &len) == TF_OK);
    tf_frame frame = {.type = TF_FRAME_HELLO, .u.payload = tf_slice_of(payload, len)};
    tf_wr_init(&w, bytes, sizeof(bytes));
    TF_ASSERT(tf_frame_write(&w, &frame));
    tf_stream_write(stream, tf_slice_of(bytes, tf_wr_len(&w)));
}

static void on_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    (void)stream;
    (void)end;
    tf_hostile_peer *peer = ctx;
    peer->all->counts.failed += peer->link == NULL;
    peer->all->counts.lost += peer->link != NULL;
    come_back(peer);
}

static const tf_stream_ops ops = {
    .opened = on_opened, .readable = on_readable, .writable = on_writable, .ended = on_ended};

void tf_hostile_peer_dial(tf_hostile_peer *peer)
{
    tf_hostile *all = peer->all;
    tf_stream_env env = {.base = all->base, .tls = peer->tls, .mem = tf_edge_mem(), .buffers = &all->buffers};
    tf_stream_target target = {
        .addresses = &all->address, .count = 1, .pin = &all->options->uri.node, .limit = TF_DIAL_LIMIT};
    all->counts.dials++;
    if (tf_stream_dial(&peer->stream, &env, &target, &ops, peer) != TF_OK) {
        peer->stream = NULL;
        come_back(peer);
    }
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err make_identity(tf_hostile_peer *peer)
{
    const char *path = peer->all->options->identity;
    char why[TF_WHY_MAX] = "";
    if (path == NULL) {
        return tf_identity_generate(&peer->identity, tf_edge_rand());
    }
    tf_err err = tf_keyfile_load(&peer->identity, path, why);
    if (err != TF_OK) {
        (void)fprintf(stderr, "tf-hostile: %s\n", why);
    }
    return err;
}

static void make_hello(tf_hostile_peer *peer)
{
    const tf_hostile_options *options = peer->all->options;
    tf_offer *offer = &peer->hello.offer;
    tf_hello_init(&peer->hello);
    offer->routes = TF_ROUTES_STREAM;
    offer->data = (tf_data_routes){TF_ROUTES_STREAM, TF_ROUTES_STREAM};
    offer->instance = tf_rand_u64(tf_edge_rand());
    (void)snprintf(offer->software, sizeof(offer->software), "tf-hostile");
    if (options->window_bytes != 0) {
        offer->limits.window_bytes = options->window_bytes;
    }
    if (options->keepalive != 0) {
        offer->keepalive_ms = (uint32_t)(options->keepalive / TF_MS);
    }
}

bool tf_hostile_peer_init(tf_hostile_peer *peer, tf_hostile *all)
{
    *peer = (tf_hostile_peer){.all = all};
    tf_err err = make_identity(peer);
    if (err == TF_OK) {
        err = tf_identity_ssl_ctx(&peer->tls, peer->identity, false, NULL, NULL);
    }
    if (err == TF_OK) {
        peer->timer = event_new(all->base, -1, 0, on_timer, peer);
        err = peer->timer == NULL ? TF_ERR_NOMEM : TF_OK;
    }
    if (err != TF_OK) {
        (void)fprintf(stderr, "tf-hostile: cannot make a peer: %s\n", tf_err_text(err));
        return false;
    }
    make_hello(peer);
    return true;
}

void tf_hostile_peer_leave(tf_hostile_peer *peer)
{
    if (peer->link != NULL && peer->stream != NULL) {
        tf_link_close(peer->link, tf_edge_now(), TF_CLOSE_NORMAL, tf_slice_str("enough"));
        tf_hostile_peer_flush(peer);
    }
}

void tf_hostile_peer_free(tf_hostile_peer *peer)
{
    if (peer->all == NULL) {
        return;
    }
    forget_connection(peer);
    if (peer->timer != NULL) {
        event_free(peer->timer);
    }
    SSL_CTX_free(peer->tls);
    tf_identity_free(peer->identity);
    *peer = (tf_hostile_peer){.all = NULL};
}
