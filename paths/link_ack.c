/* Link acks (what segments we hold, and what came by each route) and packet acks: when they are owed, what they say, and
 * what one of the peer's does. Both go by both routes, so that a hole in one direction of one route stops nothing. */
#include "paths/link_private.h"

static unsigned units_due(tf_route route)
{
    return route == TF_ROUTE_STREAM ? TF_LINK_ACK_SEGMENTS : TF_LINK_ACK_PACKETS;
}

static bool has_transport(const tf_link *link, tf_route route)
{
    if (route == TF_ROUTE_STREAM) {
        return link->stream.up;
    }
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        tf_link_keys keys = link->datagram.generations[i].keys;
        if (keys == TF_LINK_KEYS_CURRENT || keys == TF_LINK_KEYS_UNCONFIRMED) {
            return true;
        }
    }
    return false;
}

/* By a route that is down acks go only when there is no better one. */
static bool is_usable(const tf_link *link, tf_route route)
{
    if (!has_transport(link, route)) {
        return false;
    }
    bool any_live = false;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        any_live = any_live || tf_link_route_is_live(&link->routes[i]);
    }
    return link->routes[route].verdict != TF_VERDICT_DOWN || !any_live;
}

void tf_link_ack_owe(tf_link *link, tf_time now, tf_route route, unsigned units, bool at_once)
{
    tf_link_owed *own = &link->owed[route];
    own->units += units;
    bool due = at_once || own->units >= units_due(route);
    bool elsewhere = due && !is_usable(link, route);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_link_owed *owed = &link->owed[i];
        if (i != (size_t)route && !elsewhere && tf_link_standby_holds(link, (tf_route)i)) {
            continue; /* it is not to be used without need */
        }
        owed->now = owed->now || elsewhere || (due && i == (size_t)route);
        owed->due = tf_time_min(owed->due, now + TF_LINK_ACK_DELAY);
    }
}

void tf_link_ack_owe_packet(tf_link *link, size_t index)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link->owed[i].packets |= (uint8_t)(1u << index);
    }
}

bool tf_link_ack_is_due(const tf_link *link, tf_route route)
{
    return link->owed[route].now && is_usable(link, route);
}

static void fill_counts(const tf_link *link, tf_link_ack *ack)
{
    ack->route_count = 0;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_link_received *received = &link->recv.routes[i];
        if (received->first + received->repeats == 0) {
            continue;
        }
        ack->routes[ack->route_count++] = (tf_route_count){
            .route = (uint8_t)i,
            .generation = received->generation,
            .bytes = received->bytes,
            .first = received->first,
            .repeats = received->repeats,
        };
    }
}

static bool write_link_ack(const tf_link *link, tf_writer *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_LINK_ACK;
    tf_link_recv_fill_ack(&link->recv, &frame.u.link_ack);
    fill_counts(link, &frame.u.link_ack);
    while (!tf_frame_write(w, &frame)) {
        if (frame.u.link_ack.range_count == 0) {
            return false;
        }
        frame.u.link_ack.range_count /= 2; /* the lowest ones matter most */
    }
    return true;
}

static bool write_packet_ack(tf_link_generation *generation, tf_time now, tf_writer *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_PACKET_ACK;
    frame.u.packet_ack.generation = generation->generation;
    tf_link_numbers_fill(&generation->received, now, &frame.u.packet_ack);
    while (!tf_frame_write(w, &frame)) {
        if (frame.u.packet_ack.range_count == 1) {
            return false;
        }
        frame.u.packet_ack.range_count /= 2; /* the latest ones matter most */
    }
    return true;
}

void tf_link_ack_write(tf_link *link, tf_time now, tf_route route, tf_writer *w)
{
    tf_link_owed *owed = &link->owed[route];
    if (owed->due == TF_NEVER && !owed->now) {
        return;
    }
    if (!write_link_ack(link, w)) {
        owed->now = true;
        return;
    }
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        uint8_t bit = (uint8_t)(1u << i);
        if ((owed->packets & bit) != 0 && write_packet_ack(&link->datagram.generations[i], now, w)) {
            owed->packets &= (uint8_t)~bit;
        }
    }
    owed->units = 0;
    owed->now = owed->packets != 0;
    owed->due = TF_NEVER;
}

tf_err tf_link_ack_judge(const tf_link *link, const tf_link_ack *ack)
{
    if (ack->floor > link->ring.next) {
        return TF_ERR_PEER_ACK;
    }
    if (ack->range_count > 0 && ack->ranges[ack->range_count - 1].last >= link->ring.next) {
        return TF_ERR_PEER_ACK;
    }
    return TF_OK;
}

/* Counts of one generation only grow; what comes late tells nothing. */
static void note_told(tf_link_told *told, const tf_route_count *count)
{
    if (count->generation > told->generation) {
        told->before_first += told->first;
        told->before_repeats += told->repeats;
        *told = (tf_link_told){
            .generation = count->generation, .before_first = told->before_first, .before_repeats = told->before_repeats};
    }
    if (count->generation == told->generation && count->first >= told->first && count->repeats >= told->repeats) {
        told->first = count->first;
        told->repeats = count->repeats;
    }
}

void tf_link_ack_apply(tf_link *link, tf_time now, const tf_link_ack *ack)
{
    bool any = ack->floor > link->ring.floor && tf_link_ring_ack_below(&link->ring, ack->floor);
    for (size_t i = 0; i < ack->range_count; i++) {
        if (ack->ranges[i].last >= link->ring.floor) {
            bool acked = tf_link_ring_ack_range(&link->ring, ack->ranges[i]);
            any = any || acked;
        }
    }
    for (size_t i = 0; i < ack->route_count; i++) {
        note_told(&link->told[ack->routes[i].route], &ack->routes[i]);
        if (ack->routes[i].route == TF_ROUTE_STREAM) {
            tf_link_stream_counted(link, now, &ack->routes[i]);
        }
    }
    if (any) {
        tf_link_acked(link, now);
    }
}

tf_time tf_link_ack_deadline(const tf_link *link)
{
    tf_time due = TF_NEVER;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (!link->owed[i].now && is_usable(link, (tf_route)i)) {
            due = tf_time_min(due, link->owed[i].due);
        }
    }
    return due;
}

void tf_link_ack_tick(tf_link *link, tf_time now)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (link->owed[i].due <= now) {
            link->owed[i].now = true;
        }
    }
}
