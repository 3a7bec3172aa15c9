/* What comes in: the frames of the stream one by one, those of a packet judged together before any is applied. */
#include "paths/link_private.h"

#define DOWN_PROBE_SPACING (100 * TF_MS)

/* What a packet, or one frame of the stream, was made of. */
typedef struct contents {
    unsigned segments;
    bool obliging; /* more than acks, padding or close */
    bool asking;   /* a probe, challenge or padding: the answer does not wait */
} contents;

/* W2: a frame on a route on which it does not travel is malformed; a handshake is over when the link begins. */
static tf_err judge_type(tf_route route, tf_frame_type type)
{
    switch (type) {
    case TF_FRAME_HELLO:
    case TF_FRAME_WELCOME:
        return route == TF_ROUTE_STREAM ? TF_ERR_PEER_STATE : TF_ERR_PEER_SYNTAX;
    case TF_FRAME_PADDING:
    case TF_FRAME_CHALLENGE:
        return route == TF_ROUTE_DATAGRAM ? TF_OK : TF_ERR_PEER_SYNTAX;
    case TF_FRAME_SEGMENT:
    case TF_FRAME_LINK_ACK:
    case TF_FRAME_PACKET_ACK:
    case TF_FRAME_PING:
    case TF_FRAME_PONG:
    case TF_FRAME_RESPONSE:
    case TF_FRAME_CLOSE:
        return TF_OK;
    }
    TF_UNREACHABLE();
}

static tf_err judge(tf_link *link, tf_route route, const tf_frame *frame, tf_link_judgement *j, size_t *segments)
{
    tf_err err = judge_type(route, frame->type);
    if (err != TF_OK) {
        return err;
    }
    if (frame->type == TF_FRAME_LINK_ACK) {
        return tf_link_ack_judge(link, &frame->u.link_ack);
    }
    if (frame->type == TF_FRAME_PACKET_ACK) {
        return tf_link_loss_judge(link, &frame->u.packet_ack);
    }
    if (frame->type == TF_FRAME_SEGMENT) {
        TF_ASSERT(*segments < TF_PACKET_SEGMENTS);
        return tf_link_recv_judge(&link->recv, j, &frame->u.segment, &link->judged[(*segments)++]);
    }
    return TF_OK;
}

/* --- applying --- */

static void closed_by_peer(tf_link *link, const tf_close *close)
{
    tf_link_events *events = &link->events;
    link->state = TF_LINK_CLOSED;
    events->closed = true;
    events->close_code = close->code;
    events->close_reason_len = close->reason.len;
    if (close->reason.len > 0) {
        memcpy(events->close_reason, close->reason.data, close->reason.len);
    }
}

static void proved(tf_link *link, tf_time now, tf_route route)
{
    if (route == TF_ROUTE_STREAM) {
        tf_link_stream_proved(link, now);
    } else {
        tf_link_datagram_proved(link, now);
    }
}

static void challenged(tf_link *link, uint64_t token)
{
    if (link->response_count == TF_LINK_RESPONSES) {
        memmove(&link->responses[0], &link->responses[1], (TF_LINK_RESPONSES - 1) * sizeof(link->responses[0]));
        link->response_count--;
    }
    link->responses[link->response_count++] = token;
}

/* All but segments. */
static void apply_control(tf_link *link, tf_time now, tf_route route, const tf_frame *frame)
{
    switch (frame->type) {
    case TF_FRAME_LINK_ACK:
        tf_link_ack_apply(link, now, &frame->u.link_ack);
        return;
    case TF_FRAME_PACKET_ACK:
        tf_link_loss_apply(link, now, &frame->u.packet_ack);
        return;
    case TF_FRAME_PING:
        tf_link_route_pinged(&link->routes[route], frame->u.token);
        return;
    case TF_FRAME_PONG:
        if (tf_link_route_pong(&link->routes[route], now, frame->u.token)) {
            proved(link, now, route);
        }
        return;
    case TF_FRAME_CHALLENGE:
        challenged(link, frame->u.token);
        return;
    case TF_FRAME_RESPONSE:
        tf_link_datagram_response(link, now, frame->u.token);
        tf_link_move_response(link, now, frame->u.token);
        return;
    case TF_FRAME_CLOSE:
        closed_by_peer(link, &frame->u.close);
        return;
    case TF_FRAME_PADDING:
    case TF_FRAME_HELLO:
    case TF_FRAME_WELCOME:
    case TF_FRAME_SEGMENT:
        return;
    }
    TF_UNREACHABLE();
}

static tf_err apply(tf_link *link, tf_time now, const tf_link_arrival *arrival, const tf_frame *frame, contents *seen)
{
    seen->asking = seen->asking || frame->type == TF_FRAME_PING || frame->type == TF_FRAME_CHALLENGE ||
                   frame->type == TF_FRAME_PADDING;
    seen->obliging = seen->obliging || (frame->type != TF_FRAME_LINK_ACK && frame->type != TF_FRAME_PACKET_ACK &&
                                        frame->type != TF_FRAME_PADDING && frame->type != TF_FRAME_CLOSE);
    if (frame->type == TF_FRAME_SEGMENT) {
        return tf_link_recv_accept(&link->recv, arrival, &frame->u.segment, &link->judged[seen->segments++]);
    }
    apply_control(link, now, arrival->route, frame);
    return TF_OK;
}

static tf_link_arrival arrival_by(const tf_link *link, tf_route route, uint64_t generation)
{
    tf_route other = route == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
    bool expected = (link->config.recv_data & (1u << other)) != 0;
    return (tf_link_arrival){
        .route = route,
        .generation = generation,
        .now = link->now,
        .other_up = expected && link->routes[other].verdict == TF_VERDICT_UP,
    };
}

/* Something came by a route that is down: in that direction at least it lives, so it is asked after. */
static void heard(tf_link *link, tf_time now, tf_route route)
{
    tf_link_route *r = &link->routes[route];
    tf_link_route_received(r, now);
    tf_link_watch_heard(link, route);
    if (r->verdict == TF_VERDICT_DOWN && r->reachable && now - r->probe_at >= DOWN_PROBE_SPACING) {
        tf_link_route_probe(r, now);
    }
}

/* --- the stream --- */

static tf_err recv_frame(tf_link *link, tf_time now, const tf_frame *frame)
{
    const tf_link_arrival arrival = arrival_by(link, TF_ROUTE_STREAM, link->stream.generation);
    tf_link_judgement j = tf_link_recv_judge_begin(&link->recv);
    size_t segments = 0;
    tf_err err = judge(link, TF_ROUTE_STREAM, frame, &j, &segments);
    if (err != TF_OK) {
        return err;
    }
    contents seen = {0};
    err = apply(link, now, &arrival, frame, &seen);
    if (err == TF_OK && segments > 0) {
        err = tf_link_recv_judge_commit(&link->recv, &j);
        tf_link_data(link, now, TF_ROUTE_STREAM);
        tf_link_watch_received(link, now, TF_ROUTE_STREAM);
    }
    if (segments > 0 || seen.asking) {
        tf_link_ack_owe(link, now, TF_ROUTE_STREAM, seen.segments, seen.asking);
    }
    return err;
}

tf_err tf_link_recv_stream(tf_link *link, tf_time now, tf_slice in, size_t *consumed)
{
    tf_link_enter(link, now);
    tf_reader r;
    tf_rd_init(&r, in);
    tf_frame frame;
    tf_err err = TF_OK;
    bool any = false;
    while (err == TF_OK && link->state == TF_LINK_OPEN) {
        err = tf_frame_read(&r, &frame);
        if (err == TF_OK) {
            err = recv_frame(link, now, &frame);
            any = true;
        }
    }
    *consumed = link->state == TF_LINK_OPEN ? in.len - tf_rd_left(&r) : in.len;
    if (any) {
        heard(link, now, TF_ROUTE_STREAM);
    }
    tf_link_settle(link, now);
    return err == TF_ERR_AGAIN ? TF_OK : err;
}

/* --- packets --- */

static tf_err judge_packet(tf_link *link, tf_slice plain, tf_link_judgement *j)
{
    tf_reader r;
    tf_rd_init(&r, plain);
    size_t segments = 0;
    bool closed = false; /* what follows a CLOSE is read, and ignored */
    if (plain.len == 0 || plain.len > TF_PACKET_PLAIN_MAX) {
        return TF_ERR_PEER_SYNTAX;
    }
    while (tf_rd_left(&r) > 0) {
        tf_frame frame;
        tf_err err = tf_frame_read(&r, &frame);
        if (err == TF_OK && !closed) {
            err = judge(link, TF_ROUTE_DATAGRAM, &frame, j, &segments);
        }
        if (err != TF_OK) {
            return err == TF_ERR_AGAIN ? TF_ERR_PEER_SYNTAX : err;
        }
        closed = closed || frame.type == TF_FRAME_CLOSE;
    }
    return TF_OK;
}

static tf_err apply_packet(tf_link *link, tf_time now, const tf_link_arrival *arrival, tf_slice plain, contents *seen)
{
    tf_reader r;
    tf_rd_init(&r, plain);
    while (tf_rd_left(&r) > 0 && link->state == TF_LINK_OPEN) {
        tf_frame frame;
        tf_err err = tf_frame_read(&r, &frame);
        TF_ASSERT(err == TF_OK);
        err = apply(link, now, arrival, &frame, seen);
        if (err != TF_OK) {
            return err;
        }
    }
    return TF_OK;
}

/* A packet came under known keys: the route lives in that direction at least. */
static void packet_came(tf_link *link, tf_time now, uint64_t generation, uint64_t number, const contents *seen)
{
    heard(link, now, TF_ROUTE_DATAGRAM);
    bool out_of_order = false;
    size_t index = tf_link_datagram_find(link, generation);
    if (index < TF_LINK_GENERATIONS) {
        out_of_order = tf_link_numbers_add(&link->datagram.generations[index].received, now, number);
        tf_link_datagram_opened(link, now, index);
    }
    if (!seen->obliging) {
        return;
    }
    if (index < TF_LINK_GENERATIONS) {
        tf_link_ack_owe_packet(link, index);
    }
    tf_link_ack_owe(link, now, TF_ROUTE_DATAGRAM, seen->segments > 0 ? 1 : 0, seen->asking || out_of_order);
}

tf_err tf_link_recv_packet(tf_link *link, tf_time now, uint64_t generation, uint64_t number, tf_slice plain)
{
    tf_link_enter(link, now);
    if (link->state != TF_LINK_OPEN) {
        return TF_OK;
    }
    tf_link_judgement j = tf_link_recv_judge_begin(&link->recv);
    tf_err err = judge_packet(link, plain, &j);
    if (err != TF_OK) {
        return err;
    }
    const tf_link_arrival arrival = arrival_by(link, TF_ROUTE_DATAGRAM, generation);
    contents seen = {0};
    err = apply_packet(link, now, &arrival, plain, &seen);
    if (err == TF_OK && seen.segments > 0) {
        err = tf_link_recv_judge_commit(&link->recv, &j);
        tf_link_data(link, now, TF_ROUTE_DATAGRAM);
        tf_link_watch_received(link, now, TF_ROUTE_DATAGRAM);
    }
    packet_came(link, now, generation, number, &seen);
    tf_link_settle(link, now);
    return err;
}
