/* A bearer: the sessions of its two ends, and its turn. */
#include "tests/sim/nodes/bearer.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/nodes/bearer_internal.h"

/* -- helpers ------------------------------------------------------------------------------------------------------- */

void *bearer_must(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "tests/sim/nodes/bearer: out of memory\n");
        abort();
    }
    return memory;
}

tf_time bearer_now(const bearer *b)
{
    return net_now(b->net);
}

tf_time bearer_delay(bearer *b, unsigned from)
{
    return net_pipe_of(b->net, from)->delay;
}

void bearer_touch(bearer *b, unsigned end)
{
    if (b->ends[end].conn != NULL) {
        tf_hub_touch(b->ends[end].side->hub, b->ends[end].conn);
    }
}

void bearer_fault(bearer *b, unsigned end, const char *what)
{
    b->handlers.fault(b->handlers.ctx, b, end, what);
}

void bearer_append(bearer_bytes *to, tf_slice bytes)
{
    if (bytes.len == 0) {
        return;
    }
    if (to->len + bytes.len > to->room) {
        to->room = 2 * to->room + bytes.len;
        to->data = bearer_must(realloc(to->data, to->room));
    }
    memcpy(to->data + to->len, bytes.data, bytes.len);
    to->len += bytes.len;
}

static void tell(bearer *b, unsigned end, bearer_event_type type, const char *why)
{
    net_mix(b->net, (uint64_t)type * NET_ENDS + end);
    if (b->handlers.event != NULL) {
        b->handlers.event(b->handlers.ctx, b, end, type, why);
    }
}

/* -- sessions ------------------------------------------------------------------------------------------------------ */

static tf_session_limits session_limits(const tf_peer_limits *limits)
{
    return (tf_session_limits){limits->max_message, limits->max_refs, limits->max_promises, limits->max_results};
}

/* As node/connection has it. */
static tf_conn_config conn_config(bearer *b, unsigned end, const tf_agreed *agreed)
{
    const bearer_side *own = b->ends[end].side;
    const bearer_side *peer = b->ends[1 - end].side;
    return (tf_conn_config){
        .link = {.mem = own->mem,
                 .rand = own->rand,
                 .dedup = own->dedup,
                 .peer = peer->id,
                 .peer_instance = agreed->peer_instance,
                 .session = agreed->session,
                 .routes = agreed->routes,
                 .send_data = agreed->send_routes,
                 .recv_data = agreed->receive_routes,
                 .standby = own->standby,
                 .recv_window_segments = agreed->own_limits.window_segments,
                 .recv_window_bytes = agreed->own_limits.window_bytes,
                 .send_window_segments = agreed->peer_limits.window_segments,
                 .send_window_bytes = agreed->peer_limits.window_bytes,
                 .recv_max_message = agreed->own_limits.max_message,
                 .keepalive = own->keepalive,
                 .peer_keepalive = agreed->peer_keepalive},
        .session = {.side = agreed->dialler ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
                    .local = session_limits(&agreed->own_limits),
                    .remote = session_limits(&agreed->peer_limits),
                    .refs = tf_hub_refs(own->hub),
                    .root = tf_hub_root(own->hub),
                    .without_revoke = (agreed->features & TF_FEATURE_REVOKE) == 0,
                    .hash_key = tf_rand_u64(own->rand),
                    .mem = own->mem},
        .relay = peer->is_relay,
        .peer_max_in_flight = agreed->peer_limits.max_in_flight,
        .owner = b,
        .mem = own->mem,
    };
}

void bearer_begin(bearer *b, unsigned end, const tf_agreed *agreed)
{
    bearer_end *e = &b->ends[end];
    tf_conn_config config = conn_config(b, end, agreed);
    tf_err err = tf_conn_new(&e->conn, &config, bearer_now(b));
    if (err == TF_OK) {
        e->link = tf_conn_link(e->conn);
        err = tf_hub_attach(e->side->hub, bearer_now(b), e->conn);
    }
    if (err != TF_OK) {
        bearer_fault(b, end, tf_err_text(err));
        return;
    }
    e->closed = false;
    e->lost_since = bearer_now(b);
    e->timer_at = TF_NEVER;
    b->stats.sessions += end;
    tell(b, end, BEARER_OPENED, "");
}

void bearer_adopt(bearer *b, unsigned end, const tf_agreed *agreed)
{
    bearer_end *e = &b->ends[end];
    e->agreed = *agreed;
    e->stream = true;
    e->stream_id = b->stream_id;
    e->broke = false;
    e->unheard = 0;
    e->breaks_at = TF_NEVER;
    if (end == 1) {
        e->in.len = 0; /* of the stream before; the dialler's may have come with the WELCOME */
    }
    if (agreed->resumed) {
        b->stats.resumes += end;
        tell(b, end, BEARER_RESUMED, "");
    }
    tf_link_stream_up(e->link, bearer_now(b), agreed->generation);
    if ((agreed->routes & TF_ROUTES_DATAGRAM) != 0) {
        bearer_add_key(b, end, agreed);
    }
    bearer_take_bytes(b, end);
    bearer_touch(b, end);
}

/* The end has no session any more. */
static void clear_end(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    e->conn = NULL;
    e->link = NULL;
    e->stream = false;
    e->broke = false;
    e->breaks_at = TF_NEVER;
    e->timer_at = TF_NEVER;
    e->in.len = 0;
    memset(e->keys, 0, sizeof(e->keys));
    e->to = 0;
    e->candidate = 0;
    bearer_drop_packets(e);
}

static void forget(bearer *b, unsigned end, const char *why)
{
    bearer_end *e = &b->ends[end];
    tell(b, end, BEARER_LOST, why);
    tf_hub_detach(e->side->hub, bearer_now(b), e->conn);
    tf_conn_free(e->conn);
    clear_end(b, end);
    if (end == 0) {
        bearer_dial_session_over(b);
    }
}

void bearer_set_aside(bearer *b)
{
    tell(b, 1, BEARER_LOST, "its peer is another instance now");
    bearer_keep_older(b);
    clear_end(b, 1);
}

void bearer_over(bearer *b, unsigned end, const char *why)
{
    const bearer_end *e = &b->ends[end];
    bool whole = e->stream && e->stream_id == b->stream_id;
    forget(b, end, why);
    if (whole) {
        net_finish(b->net, end);
    }
}

static void flush(bearer *b, unsigned end)
{
    bearer_flush_stream(b, end);
    bearer_flush_packets(b, end);
}

void bearer_close(bearer *b, unsigned end, tf_close_code code, const char *why)
{
    tf_link_close(b->ends[end].link, bearer_now(b), code, tf_slice_str(why));
    flush(b, end);
    bearer_over(b, end, why);
}

void bearer_lose(bearer *b, unsigned end, bearer_ending how)
{
    static const size_t nothing[NET_ENDS] = {0, 0};
    static const tf_time never[NET_ENDS] = {TF_NEVER, TF_NEVER};
    bool has_session = b->ends[end].conn != NULL;
    switch (how) {
    case BEARER_CLOSES:
        if (has_session) {
            bearer_close(b, end, TF_CLOSE_NORMAL, "the node ends");
        }
        break;
    case BEARER_KILLED:
        if (has_session) {
            bearer_over(b, end, "the node was killed");
        }
        break;
    case BEARER_VANISHES:
        if (net_is_open(b->net)) {
            net_cut(b->net, nothing, never);
        }
        if (has_session) {
            forget(b, end, "the power is gone");
        }
        break;
    }
    bearer_drop_packets(&b->ends[end]);
    b->ends[end].waits = false;
    if (end == 1) {
        bearer_drop_older(b);
    }
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static void handle(bearer *b, const net_event *event)
{
    tf_slice bytes = tf_slice_of(event->data, event->len);
    switch (event->type) {
    case NET_PACKET:
        bearer_came_packet(b, event->end, event->generation, event->number, bytes);
        return;
    case NET_BYTES:
        bearer_came_bytes(b, event->end, event->generation, bytes);
        return;
    case NET_WRITABLE:
        if (b->ends[event->end].wants_write) {
            bearer_touch(b, event->end);
        }
        return;
    case NET_BROKEN:
        bearer_broke(b, event->end, event->generation);
        return;
    case NET_TIMER:
        return;
    }
    TF_UNREACHABLE();
}

/* What came during a pause. */
static void catch_up(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    e->waits = false;
    if (end == 0 && b->dial.state == DIAL_ANSWER) {
        bearer_dial_answered(b);
    }
    bearer_take_bytes(b, end);
    bearer_take_packets(b, end);
    if (e->broke) {
        bearer_broke(b, end, e->stream_id);
    }
}

static void tick_end(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    bearer_tick_stream(b, end);
    if (e->side->paused) {
        return;
    }
    if (e->waits) {
        catch_up(b, end);
    }
    if (e->conn != NULL && e->timer_at <= bearer_now(b)) {
        e->timer_at = TF_NEVER;
        tf_conn_tick(e->conn, bearer_now(b));
        bearer_touch(b, end);
    }
}

void bearer_advance(bearer *b, tf_time now)
{
    net_event event;
    while (net_next(b->net, now, &event)) {
        handle(b, &event);
    }
    tick_end(b, 0);
    tick_end(b, 1);
    if (!b->ends[1].side->paused) {
        bearer_tick_older(b);
    }
    bearer_dial_tick(b);
}

static tf_time end_deadline(const bearer *b, unsigned end)
{
    const bearer_end *e = &b->ends[end];
    tf_time at = bearer_stream_deadline(b, end);
    if (e->side->paused) {
        return at;
    }
    return e->waits ? bearer_now(b) : tf_time_min(at, e->timer_at);
}

tf_time bearer_deadline(const bearer *b)
{
    tf_time at = tf_time_min(net_peek(b->net), bearer_dial_deadline(b));
    if (!b->ends[1].side->paused) {
        at = tf_time_min(at, bearer_older_deadline(b));
    }
    return tf_time_min(at, tf_time_min(end_deadline(b, 0), end_deadline(b, 1)));
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static void take_closed(bearer *b, unsigned end, const tf_link_event *event)
{
    char text[TF_CLOSE_REASON_MAX + 64];
    int shown = event->reason.len < TF_CLOSE_REASON_MAX ? (int)event->reason.len : (int)TF_CLOSE_REASON_MAX;
    b->ends[end].closed = true;
    if (event->code != TF_CLOSE_NORMAL && event->code != TF_CLOSE_DRAINING) {
        (void)snprintf(text, sizeof(text), "its peer closes: %s: %.*s", tf_close_text(event->code), shown,
                       (const char *)event->reason.data);
        bearer_fault(b, end, text);
    }
}

static void take_event(bearer *b, unsigned end, const tf_link_event *event)
{
    net_mix(b->net, (uint64_t)event->type << 8 | (uint64_t)event->route << 4 | (uint64_t)event->verdict);
    switch (event->type) {
    case TF_LINK_EVENT_VERDICT:
        if (end == 0) {
            bearer_dial_verdict(b, event);
        }
        return;
    case TF_LINK_EVENT_RETIRED:
        bearer_drop_key(&b->ends[end], event->generation);
        return;
    case TF_LINK_EVENT_MOVED:
        bearer_decide_candidate(b, end, event->moved);
        return;
    case TF_LINK_EVENT_REDUNDANCY_LOST:
        if (end == 0 && event->route == TF_ROUTE_STREAM) {
            bearer_new_generation(b);
        } else if (end == 0) {
            bearer_reopen_now(b);
        }
        return;
    case TF_LINK_EVENT_CLOSED:
        take_closed(b, end, event);
        return;
    case TF_LINK_EVENT_CONFIRMED:
    case TF_LINK_EVENT_UNREACHABLE:
        return;
    }
    TF_UNREACHABLE();
}

tf_time bearer_lost_since(const tf_link *link, bool stream, tf_time before, tf_time now)
{
    tf_verdict datagram = tf_link_verdict(link, TF_ROUTE_DATAGRAM);
    bool carries = stream || datagram == TF_VERDICT_UP || datagram == TF_VERDICT_STALLED;
    return carries ? TF_NEVER : tf_time_min(before, now);
}

static void pull_end(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    tf_link_event event;
    flush(b, end);
    while (tf_link_next_event(e->link, &event)) {
        take_event(b, end, &event);
    }
    if (e->closed) {
        bearer_over(b, end, "the peer has closed the session");
        return;
    }
    e->lost_since = bearer_lost_since(e->link, e->stream, e->lost_since, bearer_now(b));
    tf_time timeout_at = tf_time_add(e->lost_since, e->side->session_timeout);
    if (timeout_at <= bearer_now(b)) {
        bearer_over(b, end, "session timeout");
        return;
    }
    e->timer_at = tf_time_min(tf_conn_deadline(e->conn), timeout_at);
}

void bearer_pull(bearer *b, const tf_conn *conn, tf_time now)
{
    unsigned end = bearer_end_of(b, conn);
    if (b->ends[end].side->paused) {
        return;
    }
    net_move(b->net, now);
    if (b->ends[end].conn == conn) {
        pull_end(b, end);
    } else {
        bearer_pull_older(b, conn);
    }
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

bearer *bearer_new(uint64_t seed, bearer_side *const sides[NET_ENDS], const bearer_handlers *handlers, void *user)
{
    bearer *b = bearer_must(calloc(1, sizeof(*b)));
    b->net = net_new(seed);
    b->handlers = *handlers;
    b->user = user;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        b->ends[end] = (bearer_end){
            .side = sides[end], .lost_since = TF_NEVER, .timer_at = TF_NEVER, .breaks_at = TF_NEVER};
    }
    b->dial = (bearer_dial){.at = TF_NEVER, .rehandshake_at = TF_NEVER, .reopen_at = TF_NEVER, .address = 1};
    return b;
}

void bearer_free(bearer *b)
{
    if (b == NULL) {
        return;
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        TF_ASSERT(b->ends[end].conn == NULL);
        bearer_drop_packets(&b->ends[end]);
        free(b->ends[end].in.data);
    }
    free(b->dial.in.data);
    net_free(b->net);
    free(b);
}

void *bearer_user(const bearer *b)
{
    return b->user;
}

net *bearer_net(bearer *b)
{
    return b->net;
}

void bearer_set_closed(bearer *b, bool closed)
{
    b->closed = closed;
}

tf_conn *bearer_conn(const bearer *b, unsigned end)
{
    return b->ends[end].conn;
}

unsigned bearer_end_of(const bearer *b, const tf_conn *conn)
{
    return b->ends[0].conn == conn ? 0 : 1;
}

bool bearer_is_carrying(const bearer *b)
{
    const bearer_end *ends = b->ends;
    return ends[0].conn != NULL && ends[1].conn != NULL && ends[0].agreed.session == ends[1].agreed.session &&
           tf_link_is_carrying(ends[0].link) && tf_link_is_carrying(ends[1].link);
}

void bearer_get_stats(const bearer *b, bearer_stats *out)
{
    *out = b->stats;
    out->older = b->older_count;
}

uint64_t bearer_written(const bearer *b)
{
    return net_written(b->net, 0) + net_written(b->net, 1) + net_sent(b->net, 0) + net_sent(b->net, 1) +
           b->vain_bytes;
}

uint64_t bearer_trace(const bearer *b)
{
    return net_trace(b->net);
}
