/* What goes ahead of segments, under no window: acks, answers to probes and challenges, probes, and the CLOSE. */
#include "paths/link_private.h"

/* Answers to challenges go by the stream when it lives: then they do not depend on the path under test. */
static tf_route response_route(const tf_link *link)
{
    bool stream = link->stream.up && tf_link_route_is_live(&link->routes[TF_ROUTE_STREAM]);
    return stream ? TF_ROUTE_STREAM : TF_ROUTE_DATAGRAM;
}

bool tf_link_control_waits(const tf_link *link, tf_route route)
{
    if (link->state != TF_LINK_OPEN) {
        return (link->close_to & (1u << route)) != 0;
    }
    const tf_link_route *r = &link->routes[route];
    return tf_link_ack_is_due(link, route) || r->pong_count > 0 || (r->probe_wanted && r->reachable) ||
           (link->response_count > 0 && response_route(link) == route);
}

static bool write_token(tf_writer *w, tf_frame_type type, uint64_t token)
{
    tf_frame frame;
    frame.type = type;
    frame.u.token = token;
    return tf_frame_write(w, &frame);
}

/* Once by each route; after the last one the link is closed. */
static void write_close(tf_link *link, tf_route route, tf_writer *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_CLOSE;
    frame.u.close =
        (tf_close){.code = link->close_code, .reason = tf_slice_of(link->close_reason, link->close_reason_len)};
    if ((link->close_to & (1u << route)) == 0 || !tf_frame_write(w, &frame)) {
        return;
    }
    link->close_to &= (tf_routes) ~(1u << route);
    if (link->close_to == 0) {
        link->state = TF_LINK_CLOSED;
    }
}

static bool write_answers(tf_link *link, tf_route route, tf_writer *w)
{
    tf_link_route *r = &link->routes[route];
    bool any = false;
    while (r->pong_count > 0 && write_token(w, TF_FRAME_PONG, r->pongs[r->pong_count - 1])) {
        r->pong_count--;
        any = true;
    }
    if (response_route(link) != route) {
        return any;
    }
    while (link->response_count > 0 && write_token(w, TF_FRAME_RESPONSE, link->responses[link->response_count - 1])) {
        link->response_count--;
        any = true;
    }
    return any;
}

bool tf_link_control_probe(tf_link *link, tf_time now, tf_route route, tf_writer *w)
{
    if (tf_wr_left(w) < TF_FRAME_HEADER + sizeof(uint64_t)) {
        return false;
    }
    bool written = write_token(w, TF_FRAME_PING, tf_link_route_take_probe(&link->routes[route], now));
    link->stats[route].probes++;
    tf_link_watch_probed(link, now, route);
    return written;
}

bool tf_link_control_write(tf_link *link, tf_time now, tf_route route, tf_writer *w)
{
    if (link->state != TF_LINK_OPEN) {
        write_close(link, route, w);
        return false;
    }
    tf_link_ack_write(link, now, route, w);
    bool eliciting = write_answers(link, route, w);
    tf_link_route *r = &link->routes[route];
    if (r->probe_wanted && r->reachable) {
        eliciting = tf_link_control_probe(link, now, route, w) || eliciting;
    }
    return eliciting;
}
