#include "tests/sim/wire.h"

#include <stdio.h>
#include <stdlib.h>

#define TIMER_DIAL UINT64_C(1)
#define TIMER_LINK (UINT64_C(1) << 32)
#define DIAL_AFTER (5 * TF_MS)

static void fail(const wire *w, unsigned end, const char *what)
{
    (void)fprintf(stderr, "wire end %u, at %llu us: %s\n", end, (unsigned long long)net_now(w->net), what);
    abort();
}

void wire_init(wire *w, net *n, const tf_mem *mem, const tf_rand *rand)
{
    *w = (wire){.net = n, .mem = mem, .rand = rand};
}

bool wire_is_open(const wire *w)
{
    return w->end[0].conn != NULL && w->end[1].conn != NULL;
}

/* --- keys --- */

static wire_key *key_of(wire_end *end, uint64_t generation)
{
    for (size_t i = 0; i < WIRE_KEYS; i++) {
        if (end->keys[i].held && end->keys[i].generation == generation) {
            return &end->keys[i];
        }
    }
    return NULL;
}

static void take_link_events(wire *w, unsigned end)
{
    tf_link_event event;
    while (tf_link_next_event(tf_conn_link(w->end[end].conn), &event)) {
        if (event.type == TF_LINK_EVENT_RETIRED) {
            wire_key *key = key_of(&w->end[end], event.generation);
            if (key == NULL) {
                fail(w, end, "keys are retired that are not held");
            } else {
                key->held = false;
            }
        }
        if (event.type == TF_LINK_EVENT_CLOSED) {
            fail(w, end, "the peer found fault with us");
        }
    }
}

static void up(wire *w, unsigned end)
{
    wire_end *s = &w->end[end];
    tf_link *link = tf_conn_link(s->conn);
    if (s->stream) {
        tf_link_stream_down(link, net_now(w->net));
    }
    s->stream = true;
    s->partial_len = 0;
    s->stream_generation = w->generation;
    tf_link_stream_up(link, net_now(w->net), w->generation);
    tf_link_datagram_up(link, net_now(w->net), w->generation);
    take_link_events(w, end);
    for (size_t i = 0; i < WIRE_KEYS; i++) {
        if (!s->keys[i].held) {
            s->keys[i] = (wire_key){.held = true, .generation = w->generation};
            break;
        }
    }
    tf_hub_touch(s->hub, s->conn);
}

static void connect_routes(wire *w)
{
    static const size_t nothing[NET_ENDS] = {0, 0};
    static const tf_time at_once[NET_ENDS] = {0, 0};
    if (net_is_open(w->net)) {
        net_cut(w->net, nothing, at_once);
    }
    w->generation++;
    net_open(w->net, w->generation);
    up(w, 0);
    up(w, 1);
}

/* --- sessions --- */

static void make_end(wire *w, unsigned end, const wire_side *own, const wire_side *peer)
{
    static const tf_session_limits limits = {TF_MESSAGE_MAX, TF_REFS_MAX, TF_PROMISES_MAX, TF_RESULTS_MAX};
    wire_end *s = &w->end[end];
    tf_conn_config config = {.mem = w->mem, .peer_max_in_flight = tf_hub_max_in_flight(peer->hub)};
    config.link = (tf_link_config){.mem = w->mem,
                                   .rand = w->rand,
                                   .peer = peer->id,
                                   .peer_instance = peer->instance,
                                   .session = w->sessions,
                                   .routes = TF_ROUTES_BOTH,
                                   .send_data = TF_ROUTES_BOTH,
                                   .recv_data = TF_ROUTES_BOTH,
                                   .recv_window_segments = 256,
                                   .recv_window_bytes = 128u * 1024u,
                                   .send_window_segments = 256,
                                   .send_window_bytes = 128u * 1024u,
                                   .recv_max_message = TF_MESSAGE_MAX,
                                   .keepalive = TF_KEEPALIVE,
                                   .peer_keepalive = TF_KEEPALIVE};
    config.session = (tf_session_config){.side = end == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
                                         .local = limits,
                                         .remote = limits,
                                         .refs = tf_hub_refs(own->hub),
                                         .root = tf_hub_root(own->hub),
                                         .hash_key = tf_rand_u64(w->rand),
                                         .mem = w->mem};
    *s = (wire_end){.hub = own->hub, .partial = s->partial, .timer = s->timer + 1, .timer_at = TF_NEVER};
    if (tf_conn_new(&s->conn, &config, net_now(w->net)) != TF_OK ||
        tf_hub_attach(own->hub, net_now(w->net), s->conn) != TF_OK) {
        fail(w, end, "out of memory");
    }
}

void wire_open(wire *w, const wire_side sides[NET_ENDS])
{
    w->sessions++;
    w->dialling = false;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (w->end[end].conn != NULL) {
            fail(w, end, "opened twice");
        }
        if (w->end[end].timer == 0) {
            w->end[end].timer = TIMER_LINK;
        }
        make_end(w, end, &sides[end], &sides[1 - end]);
    }
    connect_routes(w);
}

void wire_lose(wire *w, unsigned end)
{
    wire_end *s = &w->end[end];
    if (s->conn == NULL) {
        return;
    }
    tf_hub_detach(s->hub, net_now(w->net), s->conn);
    tf_conn_free(s->conn);
    s->conn = NULL;
}

void wire_free(wire *w)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        wire_lose(w, end);
        free(w->end[end].partial);
    }
}

/* --- in --- */

static void came_packet(wire *w, const net_event *event)
{
    wire_end *s = &w->end[event->end];
    wire_key *key = key_of(s, event->generation);
    if (key == NULL || tf_replay_check(&key->replay, event->number) != TF_REPLAY_NEW) {
        return;
    }
    tf_replay_commit(&key->replay, event->number);
    tf_err err = tf_link_recv_packet(tf_conn_link(s->conn), net_now(w->net), event->generation, event->number,
                                     tf_slice_of(event->data, event->len));
    if (err != TF_OK) {
        fail(w, event->end, tf_err_text(err));
    }
}

static void came_bytes(wire *w, const net_event *event)
{
    wire_end *s = &w->end[event->end];
    size_t used = 0;
    if (!s->stream || s->stream_generation != event->generation) {
        return;
    }
    uint8_t *larger = realloc(s->partial, s->partial_len + event->len);
    if (larger == NULL) {
        fail(w, event->end, "out of memory");
        return;
    }
    s->partial = larger;
    memcpy(s->partial + s->partial_len, event->data, event->len);
    s->partial_len += event->len;
    tf_err err = tf_link_recv_stream(tf_conn_link(s->conn), net_now(w->net), tf_slice_of(s->partial, s->partial_len),
                                     &used);
    if (err != TF_OK) {
        fail(w, event->end, tf_err_text(err));
    }
    s->partial_len -= used;
    memmove(s->partial, s->partial + used, s->partial_len);
}

static bool needs_dial(const wire *w)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        const wire_end *s = &w->end[end];
        if (!s->stream || tf_link_verdict(tf_conn_link(s->conn), TF_ROUTE_STREAM) == TF_VERDICT_DOWN) {
            return true;
        }
    }
    return false;
}

/* A dial takes its time, and the numbers in its handshake are as old as that. */
static void look_after_stream(wire *w)
{
    if (w->dialling || !wire_is_open(w) || !needs_dial(w)) {
        return;
    }
    w->dialling = true;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        w->expected[end] = tf_link_next_expected(tf_conn_link(w->end[end].conn));
    }
    net_timer(w->net, 0, net_now(w->net) + DIAL_AFTER, TIMER_DIAL + w->sessions);
}

static void dialled(wire *w, uint64_t id)
{
    if (id != TIMER_DIAL + w->sessions || !wire_is_open(w) || !w->dialling) {
        return;
    }
    w->dialling = false;
    w->redials++;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (tf_link_resume(tf_conn_link(w->end[end].conn), net_now(w->net), w->expected[1 - end]) != TF_OK) {
            fail(w, end, "resume");
        }
    }
    connect_routes(w);
}

static void timed(wire *w, const net_event *event)
{
    wire_end *s = &w->end[event->end];
    if (event->number < TIMER_LINK) {
        dialled(w, event->number);
        return;
    }
    if (event->number == s->timer && s->conn != NULL) {
        s->timer_at = TF_NEVER;
        tf_conn_tick(s->conn, net_now(w->net));
    }
}

static void handle(wire *w, const net_event *event)
{
    wire_end *s = &w->end[event->end];
    switch (event->type) {
    case NET_PACKET:
        if (s->conn != NULL) {
            came_packet(w, event);
        }
        break;
    case NET_BYTES:
        if (s->conn != NULL) {
            came_bytes(w, event);
        }
        break;
    case NET_WRITABLE:
        break;
    case NET_BROKEN:
        if (s->conn != NULL && s->stream && s->stream_generation == event->generation) {
            s->stream = false;
            s->partial_len = 0;
            tf_link_stream_down(tf_conn_link(s->conn), net_now(w->net));
        }
        break;
    case NET_TIMER:
        timed(w, event);
        break;
    }
    if (s->conn != NULL) {
        tf_hub_touch(s->hub, s->conn);
    }
}

void wire_advance(wire *w, tf_time now)
{
    net_event event;
    while (net_next(w->net, now, &event)) {
        handle(w, &event);
    }
}

void wire_cut(wire *w)
{
    static const size_t nothing[NET_ENDS] = {0, 0};
    const tf_time learns[NET_ENDS] = {tf_test_random_below(net_random(w->net), 50 * TF_MS),
                                      tf_test_random_below(net_random(w->net), 50 * TF_MS)};
    if (net_is_open(w->net)) {
        net_cut(w->net, nothing, learns);
    }
}

/* --- out --- */

static void pull_stream(wire *w, unsigned end)
{
    wire_end *s = &w->end[end];
    uint8_t buf[TF_STREAM_RECORD];
    while (s->stream && net_is_open(w->net) && s->stream_generation == w->generation) {
        size_t room = net_room(w->net, end);
        size_t len = tf_link_pull_stream(tf_conn_link(s->conn), net_now(w->net), buf,
                                         room < sizeof(buf) ? room : sizeof(buf));
        if (len == 0) {
            return;
        }
        net_write(w->net, end, tf_slice_of(buf, len));
    }
}

static void pull_packets(wire *w, unsigned end)
{
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_link_packet packet;
    while (tf_link_pull_packet(tf_conn_link(w->end[end].conn), net_now(w->net), buf, sizeof(buf), &packet)) {
        net_send(w->net, end, packet.generation, packet.number, tf_slice_of(buf, packet.len));
    }
}

void wire_pull(wire *w, unsigned end)
{
    wire_end *s = &w->end[end];
    if (s->conn == NULL) {
        return;
    }
    take_link_events(w, end);
    pull_stream(w, end);
    pull_packets(w, end);
    take_link_events(w, end);
    look_after_stream(w);
    tf_time at = tf_conn_deadline(s->conn);
    if (at != s->timer_at) {
        s->timer++;
        s->timer_at = at;
        if (at != TF_NEVER) {
            net_timer(w->net, end, tf_time_max(at, net_now(w->net)), s->timer);
        }
    }
}
