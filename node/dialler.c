/* How a peer is reached: one try at a time, the stream first (it brings the session and the datagram keys), again with
 * back-off for as long as the node lives. */
#include <stdio.h>

#include "node/peer_internal.h"
#include "proto/frame.h"

#define DIAL_REFUSALS_MAX 3u /* closes before WELCOME in a row that count as refused */

static void start_dial(tf_peer *peer);

/* -- when to dial -------------------------------------------------------------------------------------------------- */

static bool datagram_lives(const tf_peer *peer)
{
    return peer->connection != NULL && tf_link_verdict(peer->connection->link, TF_ROUTE_DATAGRAM) == TF_VERDICT_UP;
}

static tf_time dial_limit(const tf_peer *peer)
{
    if (!datagram_lives(peer)) {
        return TF_DIAL_LIMIT;
    }
    return TF_DIAL_LIMIT_REDUNDANT + 4 * tf_link_srtt(peer->connection->link, TF_ROUTE_DATAGRAM);
}

/* The peer dialled us and we took it: it is the peer's to dial again. */
static bool was_accepted(const tf_peer *peer)
{
    return peer->connection != NULL && !peer->connection->agreed.dialler;
}

static void schedule_redial(tf_peer *peer)
{
    if (was_accepted(peer)) {
        peer->state = PEER_WAITING;
        return;
    }
    tf_time now = tf_edge_now();
    bool soon = datagram_lives(peer) && now - peer->lost_at < TF_BACKOFF_REDUNDANT_SPAN;
    tf_time cap = soon ? TF_BACKOFF_MAX_REDUNDANT : TF_BACKOFF_MAX;
    tf_time wait = tf_backoff_next(&peer->backoff, peer->node->rand, now, cap);
    peer->state = PEER_WAITING;
    tf_node_arm(peer->redial, tf_time_add(now, wait));
}

static void stop_dial(tf_peer *peer)
{
    tf_resolve_free(peer->resolve);
    peer->resolve = NULL;
    tf_stream_free(peer->dial);
    peer->dial = NULL;
    (void)event_del(peer->redial);
    peer->state = PEER_WAITING;
}

/* The first connection did not come about: nothing more is tried. */
static void give_up(tf_peer *peer, tf_err err, const char *text)
{
    stop_dial(peer);
    (void)event_del(peer->give_up);
    peer->state = PEER_STOPPED;
    tf_peer_push_failure(peer, TF_EVENT_CONNECT_FAILED, err, text);
}

static void dial_failed(tf_peer *peer, bool refused, const char *text)
{
    tf_log_peer who = {.id = peer->uri.node};
    (void)snprintf(peer->why, sizeof(peer->why), "%s", text);
    TF_LOG(peer->node->config.log, TF_LOG_WARN, "dial_failed", &who, tf_log_bool("refused", refused),
           tf_log_str("reason", text));
    if (refused && !peer->connected && peer->options.connect_timeout != TF_NEVER) {
        give_up(peer, TF_ERR_PEER_REFUSED, peer->why);
        return;
    }
    tf_stream_free(peer->dial);
    peer->dial = NULL;
    peer->restarted = false;
    schedule_redial(peer);
}

static void on_redial(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_peer *peer = ctx;
    if (peer->state == PEER_WAITING) {
        start_dial(peer);
    } else if (peer->state == PEER_DIALLING) {
        dial_failed(peer, false, "no WELCOME in time");
    }
}

static void on_give_up(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_peer *peer = ctx;
    if (!peer->connected) {
        char text[TF_STREAM_TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s", peer->why[0] != '\0' ? peer->why : "no answer in time");
        give_up(peer, TF_ERR_TIMEOUT, text);
    }
}

/* A reason to try at once, or as soon as the bound on dials allows one, whatever the back-off says. */
static void dial_soon(tf_peer *peer, const char *reason)
{
    tf_time now = tf_edge_now();
    tf_time wait = tf_backoff_until_allowed(&peer->backoff, now);
    tf_log_peer who = {.id = peer->uri.node};
    if (peer->state != PEER_WAITING) {
        return;
    }
    TF_LOG(peer->node->config.log, TF_LOG_INFO, "redial", &who, tf_log_str("reason", reason));
    if (wait > 0) {
        tf_node_arm(peer->redial, tf_time_add(now, wait));
        return;
    }
    (void)event_del(peer->redial);
    start_dial(peer);
}

void tf_peer_new_generation(tf_peer *peer, const char *reason)
{
    if (peer->connection != NULL && peer->connection->agreed.dialler) {
        peer->wants_generation = true;
        dial_soon(peer, reason);
    }
}

static void on_rehandshake(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_peer_new_generation(ctx, "keys_age"); /* without a stream it is dialled anyway */
}

/* The next handshake for its keys' sake, not for all peers at the same moment. */
static void plan_rehandshake(tf_peer *peer, tf_time now)
{
    tf_time age = peer->node->config.limits.rehandshake;
    tf_node_arm(peer->rehandshake, tf_time_add(now, age - tf_rand_u64(peer->node->rand) % (age / 10 + 1)));
}

/* -- HELLO and WELCOME --------------------------------------------------------------------------------------------- */

static void make_hello(tf_peer *peer)
{
    const tf_connection *c = peer->connection;
    tf_routes data = peer->options.routes;
    tf_routes offered = (data & TF_ROUTES_DATAGRAM) != 0 ? TF_ROUTES_BOTH : TF_ROUTES_STREAM;
    tf_node_hello(peer->node, &peer->hello, offered, data);
    peer->hello_state = (tf_negotiate_session){0};
    if (c != NULL) {
        peer->hello_state = tf_connection_state(c);
        peer->hello.offer.resume = (tf_resume){true, c->session, peer->hello_state.receive_next};
    }
}

static void dial_opened(void *ctx, tf_stream *stream)
{
    tf_peer *peer = ctx;
    uint8_t payload[4096];
    uint8_t buf[sizeof(payload) + TF_FRAME_HEADER];
    size_t len = 0;
    tf_writer w;
    make_hello(peer);
    tf_err err = tf_hello_encode(&peer->hello, payload, sizeof(payload), &len);
    tf_frame frame = {.type = TF_FRAME_HELLO, .u.payload = tf_slice_of(payload, len)};
    tf_wr_init(&w, buf, sizeof(buf));
    if (err != TF_OK || !tf_frame_write(&w, &frame) || tf_stream_room(stream) < tf_wr_len(&w)) {
        dial_failed(peer, false, "HELLO could not be written");
        return;
    }
    tf_stream_write(stream, tf_slice_of(buf, tf_wr_len(&w)));
    /* The stream has no limit of its own any more, and nothing breaks it once the HELLO is acked. */
    tf_node_arm(peer->redial, tf_time_add(tf_edge_now(), dial_limit(peer)));
}

/* The answer is good: the session goes on, or a new one begins. */
static void welcomed(tf_peer *peer, const tf_agreed *agreed)
{
    tf_err err = TF_OK;
    if (agreed->resumed && (peer->connection == NULL || peer->connection->session != agreed->session)) {
        dial_failed(peer, false, "the session to resume ended meanwhile");
        return;
    }
    if (agreed->resumed) {
        err = tf_link_resume(peer->connection->link, tf_edge_now(), agreed->peer_next);
    } else {
        if (peer->connection != NULL) {
            tf_connection_close(peer->connection, TF_CLOSE_NORMAL, "the peer has forgotten this session");
        }
        tf_connection_start start = {.peer = peer, .peer_id = peer->uri.node, .agreed = agreed};
        start.standby = peer->uri.standby != 0 ? peer->uri.standby : tf_node_standby(peer->node, &peer->uri.node);
        err = tf_connection_new(&peer->connection, peer->node, &start);
        if (err == TF_OK) {
            tf_client_bind(peer->client, tf_edge_now(), peer->connection->conn);
        }
    }
    if (err != TF_OK) {
        if (peer->connection != NULL) {
            tf_connection_close(peer->connection, tf_close_from_err(err), tf_err_text(err));
        }
        dial_failed(peer, false, tf_err_text(err));
        return;
    }
    tf_stream *stream = peer->dial;
    peer->dial = NULL;
    peer->state = PEER_WAITING;
    (void)event_del(peer->redial);
    peer->refusals = 0;
    peer->handshakes++;
    peer->wants_generation = false;
    peer->restarted = false;
    peer->good = *tf_stream_remote(stream);
    tf_backoff_up(&peer->backoff, tf_edge_now());
    plan_rehandshake(peer, tf_edge_now());
    err = tf_connection_adopt(peer->connection, &stream, agreed);
    if (err == TF_OK && (agreed->routes & TF_ROUTES_DATAGRAM) != 0) {
        tf_peer_find_datagram(peer);
    }
}

static bool code_is_refusal(uint64_t code)
{
    return code == TF_CLOSE_REFUSED || code == TF_CLOSE_KEY_IN_USE || code == TF_CLOSE_UNSUPPORTED_VERSION;
}

static void answered(tf_peer *peer, const tf_frame *frame)
{
    tf_welcome welcome;
    tf_agreed agreed;
    char text[TF_STREAM_TEXT_MAX];
    if (frame->type == TF_FRAME_CLOSE) {
        (void)snprintf(text, sizeof(text), "%s: %.*s", tf_close_text(frame->u.close.code),
                       (int)frame->u.close.reason.len, (const char *)frame->u.close.reason.data);
        dial_failed(peer, code_is_refusal(frame->u.close.code), text);
        return;
    }
    if (peer->connection != NULL) { /* more went out by the datagram route while the HELLO was on its way */
        peer->hello_state.send_next = tf_link_send_next(peer->connection->link);
    }
    tf_err err = frame->type == TF_FRAME_WELCOME ? tf_welcome_decode(&welcome, frame->u.payload) : TF_ERR_PEER_STATE;
    if (err == TF_OK) {
        err = tf_negotiate_accept(&peer->hello, &welcome, &peer->hello_state, &agreed);
    }
    if (err != TF_OK) {
        dial_failed(peer, err == TF_ERR_PEER_VERSION, tf_err_text(err));
        return;
    }
    welcomed(peer, &agreed);
}

static void dial_readable(void *ctx, tf_stream *stream)
{
    tf_peer *peer = ctx;
    tf_reader r;
    tf_frame frame;
    tf_slice in = tf_stream_in(stream);
    tf_rd_init(&r, in);
    tf_err err = tf_frame_read(&r, &frame);
    if (err == TF_ERR_AGAIN) {
        return;
    }
    if (err != TF_OK) {
        dial_failed(peer, false, tf_err_text(err));
        return;
    }
    tf_stream_consume(stream, in.len - tf_rd_left(&r)); /* the bytes stay valid for as long as this callback */
    answered(peer, &frame);
}

static void dial_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    (void)stream;
    tf_peer *peer = ctx;
    bool refused = end->reason == TF_STREAM_REFUSED || end->reason == TF_STREAM_AUTH;
    if (!refused && end->opened && end->reason != TF_STREAM_TIMEOUT) {
        refused = ++peer->refusals >= DIAL_REFUSALS_MAX; /* closed before WELCOME, again and again */
    } else {
        peer->refusals = 0;
    }
    dial_failed(peer, refused, end->text);
}

static const tf_stream_ops dial_ops = {.opened = dial_opened, .readable = dial_readable, .ended = dial_ended};

/* Keeps what was found, the address that worked last in front. */
static void take_addresses(tf_peer *peer, const tf_address *found, size_t count)
{
    size_t at = 0;
    memcpy(peer->addresses, found, count * sizeof(found[0]));
    peer->address_count = count;
    while (at < count && !tf_address_eq(&found[at], &peer->good)) {
        at++;
    }
    if (at < count) {
        memmove(&peer->addresses[1], &peer->addresses[0], at * sizeof(found[0]));
        peer->addresses[0] = peer->good;
    }
}

static void resolved(void *ctx, const tf_address *found, size_t count, const char *error)
{
    tf_peer *peer = ctx;
    tf_stream_env env = {.base = peer->node->base,
                         .tls = peer->node->client_ctx,
                         .mem = peer->node->mem,
                         .buffers = &peer->node->buffers};
    tf_stream_target target = {.addresses = peer->addresses,
                               .count = count,
                               .pin = &peer->uri.node,
                               .bind = &peer->stream_bind,
                               .limit = dial_limit(peer)};
    tf_err err = TF_ERR_USAGE;
    if (count > 0) {
        take_addresses(peer, found, count);
        peer->state = PEER_DIALLING;
        err = tf_stream_dial(&peer->dial, &env, &target, &dial_ops, peer);
    }
    if (err != TF_OK) {
        peer->dial = NULL;
        dial_failed(peer, false, count == 0 ? error : tf_err_text(err));
    }
    tf_resolve_free(peer->resolve);
    peer->resolve = NULL;
}

static void start_dial(tf_peer *peer)
{
    if (was_accepted(peer)) {
        return;
    }
    tf_resolve_config config = {.base = peer->node->base, .mem = peer->node->mem};
    tf_address literal;
    peer->dials++;
    tf_backoff_dial(&peer->backoff, tf_edge_now());
    if (tf_endpoint_literal(&peer->uri.stream, &literal) == TF_OK) {
        resolved(peer, &literal, 1, NULL);
        return;
    }
    peer->state = PEER_RESOLVING;
    if (tf_resolve_start(&peer->resolve, &config, &peer->uri.stream, resolved, peer) != TF_OK) {
        peer->resolve = NULL;
        dial_failed(peer, false, "the host name could not be looked up");
    }
}

/* -- what a connection tells --------------------------------------------------------------------------------------- */

void tf_peer_stream_ended(tf_peer *peer, const char *why)
{
    (void)snprintf(peer->why, sizeof(peer->why), "%s", why);
    peer->lost_at = tf_edge_now();
    tf_backoff_down(&peer->backoff, peer->lost_at);
    if (peer->state == PEER_WAITING) {
        schedule_redial(peer);
    }
}

static void stream_verdict(tf_peer *peer, tf_verdict verdict)
{
    tf_time now = tf_edge_now();
    bool has_stream = peer->connection != NULL && peer->connection->stream != NULL;
    if (verdict == TF_VERDICT_UP) {
        tf_backoff_up(&peer->backoff, now);
        if (peer->state == PEER_WAITING && has_stream && !peer->wants_generation) {
            (void)event_del(peer->redial); /* the old socket has revived */
        }
    }
    if (verdict == TF_VERDICT_DOWN) {
        tf_backoff_down(&peer->backoff, now);
        if (peer->state == PEER_WAITING && event_pending(peer->redial, EV_TIMEOUT, NULL) == 0) {
            peer->lost_at = now; /* the old socket is kept until the new one is authenticated */
            dial_soon(peer, "stream_down");
        }
    }
}

void tf_peer_verdict(tf_peer *peer, tf_route route, tf_verdict verdict, tf_verdict before)
{
    tf_peer_event_record event = {.type = TF_EVENT_ROUTE, .route = route, .verdict = verdict};
    tf_peer_push_event(peer, &event);
    if (route == TF_ROUTE_STREAM) {
        stream_verdict(peer, verdict);
        return;
    }
    bool revived = verdict == TF_VERDICT_UP && (before == TF_VERDICT_DOWN || before == TF_VERDICT_JOINING);
    tf_peer_datagram_verdict(peer, verdict);
    if (revived && peer->connection != NULL &&
        tf_link_verdict(peer->connection->link, TF_ROUTE_STREAM) == TF_VERDICT_DOWN) {
        dial_soon(peer, "datagram_revived");
    }
}

void tf_peer_redundancy_lost(tf_peer *peer, tf_route route)
{
    if (route == TF_ROUTE_STREAM) {
        tf_peer_new_generation(peer, "redundancy_lost");
    } else {
        tf_peer_reopen_datagram(peer);
    }
}

void tf_peer_network_changed(tf_peer *peer)
{
    const tf_connection *c = peer->connection;
    bool stream_lost = c == NULL || c->stream == NULL ||
                       tf_link_verdict(c->link, TF_ROUTE_STREAM) == TF_VERDICT_DOWN ||
                       !tf_address_is_here(tf_stream_local(c->stream));
    if (peer->state == PEER_STOPPED || was_accepted(peer)) {
        return;
    }
    if (stream_lost && peer->state != PEER_WAITING && !peer->restarted &&
        tf_backoff_until_allowed(&peer->backoff, tf_edge_now()) == 0) {
        stop_dial(peer); /* it may be waiting for what has gone; but not again, lest none comes to an end */
        peer->restarted = true;
    }
    if (stream_lost) {
        dial_soon(peer, "network_changed");
    }
    tf_peer_datagram_network_changed(peer);
}

void tf_peer_carrying(tf_peer *peer)
{
    tf_peer_event_record event = {.type = TF_EVENT_CONNECTED, .resumed = false};
    peer->connected = true;
    (void)event_del(peer->give_up);
    tf_peer_push_event(peer, &event);
}

void tf_peer_session_over(tf_peer *peer, uint64_t code, const char *why)
{
    bool final = !peer->connected && code_is_refusal(code) && peer->options.connect_timeout != TF_NEVER;
    if (peer->connected) {
        tf_peer_push_failure(peer, TF_EVENT_DISCONNECTED, TF_ERR_CLOSED, why);
    }
    tf_peer_keep_stats(peer);
    peer->connection = NULL;
    peer->lost_at = tf_edge_now();
    peer->wants_generation = false;
    tf_backoff_down(&peer->backoff, peer->lost_at);
    (void)event_del(peer->rehandshake);
    tf_peer_datagram_over(peer);
    if (final) {
        give_up(peer, TF_ERR_PEER_REFUSED, why);
    } else if (peer->state == PEER_WAITING && !peer->node->draining) {
        schedule_redial(peer);
    }
}

/* -- two nodes that dial each other -------------------------------------------------------------------------------- */

static tf_peer *find_peer(tf_node *node, const tf_node_id *id)
{
    tf_peer *peer = node->peers;
    while (peer != NULL && !tf_node_id_eq(&peer->uri.node, id)) {
        peer = peer->next;
    }
    return peer;
}

bool tf_peer_keeps_own_dial(tf_node *node, const tf_node_id *id, const tf_connection *existing)
{
    const tf_peer *peer = find_peer(node, id);
    bool dialled = existing != NULL && existing->agreed.dialler;
    bool dialling = peer != NULL && peer->dial != NULL && tf_stream_is_open(peer->dial);
    return (dialled || dialling) && tf_negotiate_keeps_dial(tf_identity_node_id(node->config.identity), id);
}

void tf_peer_accepted(tf_connection *c)
{
    tf_peer *peer = find_peer(c->node, &c->peer_id);
    if (peer == NULL || peer->connection != NULL || peer->state == PEER_STOPPED) {
        return;
    }
    stop_dial(peer);
    c->peer = peer;
    peer->connection = c;
    tf_client_bind(peer->client, tf_edge_now(), c->conn);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

tf_err tf_dialler_start(tf_peer *peer)
{
    tf_time now = tf_edge_now();
    peer->redial = event_new(peer->node->base, -1, 0, on_redial, peer);
    peer->give_up = event_new(peer->node->base, -1, 0, on_give_up, peer);
    peer->rehandshake = event_new(peer->node->base, -1, 0, on_rehandshake, peer);
    peer->reopen = event_new(peer->node->base, -1, 0, tf_peer_on_reopen, peer);
    if (peer->redial == NULL || peer->give_up == NULL || peer->rehandshake == NULL || peer->reopen == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_node_arm(peer->redial, now);
    tf_node_arm(peer->give_up, tf_time_add(now, peer->options.connect_timeout));
    return TF_OK;
}

void tf_dialler_stop(tf_peer *peer)
{
    tf_resolve_free(peer->resolve);
    tf_resolve_free(peer->datagram_resolve);
    tf_stream_free(peer->dial);
    tf_datagram_free(peer->socket);
    tf_node_free_timer(peer->redial);
    tf_node_free_timer(peer->give_up);
    tf_node_free_timer(peer->rehandshake);
    tf_node_free_timer(peer->reopen);
}
