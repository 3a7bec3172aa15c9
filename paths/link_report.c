/* What the link tells: events, each kept until it is taken, and statistics. */
#include "paths/link_private.h"

static bool next_verdict(tf_link *link, tf_link_event *out)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_link_route *route = &link->routes[i];
        if (route->shown != route->reported) {
            *out =
                (tf_link_event){.type = TF_LINK_EVENT_VERDICT,
                                .route = (tf_route)i,
                                .verdict = route->shown,
                                .before = route->reported,
                                .generation = i == TF_ROUTE_STREAM ? link->stream.generation : link->datagram.newest};
            route->reported = route->shown;
            return true;
        }
    }
    return false;
}

static bool next_keys(tf_link_events *events, tf_link_event *out)
{
    if (events->confirmed) {
        events->confirmed = false;
        *out = (tf_link_event){
            .type = TF_LINK_EVENT_CONFIRMED, .route = TF_ROUTE_DATAGRAM, .generation = events->confirmed_generation};
        return true;
    }
    if (events->retired_count > 0) {
        *out = (tf_link_event){
            .type = TF_LINK_EVENT_RETIRED, .route = TF_ROUTE_DATAGRAM, .generation = events->retired[0]};
        events->retired_count--;
        memmove(&events->retired[0], &events->retired[1], events->retired_count * sizeof(events->retired[0]));
        return true;
    }
    return false;
}

static bool next_lost(tf_routes *lost, bool inbound, tf_link_event *out)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if ((*lost & (1u << i)) != 0) {
            *lost &= (tf_routes) ~(1u << i);
            *out = (tf_link_event){.type = TF_LINK_EVENT_REDUNDANCY_LOST, .route = (tf_route)i, .inbound = inbound};
            return true;
        }
    }
    return false;
}

bool tf_link_next_event(tf_link *link, tf_link_event *out)
{
    tf_link_events *events = &link->events;
    if (next_keys(events, out) || next_verdict(link, out)) {
        return true;
    }
    tf_link_move *move = &link->datagram.move;
    if (move->decided) {
        *out = (tf_link_event){.type = TF_LINK_EVENT_MOVED, .route = TF_ROUTE_DATAGRAM, .moved = move->moved};
        move->decided = false;
        return true;
    }
    if (events->unreachable) {
        events->unreachable = false;
        *out = (tf_link_event){.type = TF_LINK_EVENT_UNREACHABLE};
        return true;
    }
    if (next_lost(&events->lost_out, false, out) || next_lost(&events->lost_in, true, out)) {
        return true;
    }
    if (events->closed) {
        events->closed = false;
        *out = (tf_link_event){.type = TF_LINK_EVENT_CLOSED,
                               .code = events->close_code,
                               .reason = tf_slice_of(events->close_reason, events->close_reason_len)};
        return true;
    }
    return false;
}

void tf_link_probe(tf_link *link, tf_time now)
{
    tf_link_enter(link, now);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_link_route_probe(&link->routes[i], now);
    }
    tf_link_datagram_challenge(link, now);
}

uint64_t tf_link_next_probe(const tf_link *link, tf_route route)
{
    return link->routes[route].probes;
}

bool tf_link_probe_rtt(const tf_link *link, tf_route route, uint64_t probe, tf_time *rtt)
{
    const tf_link_route *r = &link->routes[route];
    if (probe >= r->probes || r->probes - probe > TF_LINK_PROBE_TIMES ||
        r->probe_rtts[probe % TF_LINK_PROBE_TIMES] == TF_NEVER) {
        return false;
    }
    *rtt = r->probe_rtts[probe % TF_LINK_PROBE_TIMES];
    return true;
}

tf_time tf_link_heard(const tf_link *link)
{
    tf_time heard = 0;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        heard = tf_time_max(heard, link->routes[i].heard_at);
    }
    return heard;
}

bool tf_link_packet_acked(const tf_link *link, uint64_t generation, uint64_t *number)
{
    size_t index = tf_link_datagram_find(link, generation);
    if (index == TF_LINK_GENERATIONS || !link->datagram.generations[index].sent.any_acked) {
        return false;
    }
    *number = link->datagram.generations[index].sent.largest_acked;
    return true;
}

static void fill_measured(const tf_link_rtt *rtt, tf_route_stats *stats)
{
    stats->rtt_samples = rtt->samples;
    if (rtt->measured) {
        stats->srtt = rtt->smoothed;
        stats->rtt_latest = rtt->latest;
        stats->rtt_var = rtt->variation;
        stats->rtt_min = rtt->least;
    }
}

static void fill_received(const tf_link_received *received, tf_route_stats *stats)
{
    stats->received_segments = received->total_segments;
    stats->received_bytes = received->total_bytes;
    stats->first = received->total_first;
    stats->repeats = received->total_repeats;
    stats->only = received->only;
    memcpy(stats->late, received->late, sizeof(stats->late));
}

void tf_link_get_stats(const tf_link *link, tf_link_stats *out)
{
    *out = (tf_link_stats){
        .ring_segments = link->ring.next - link->ring.floor,
        .ring_bytes = link->ring.bytes,
        .reorder_segments = link->recv.held_segments,
        .reorder_bytes = link->recv.held_bytes,
        .messages_sent = link->messages_sent,
        .messages_received = link->recv.messages,
        .resumes = link->resumes,
    };
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_link_route *route = &link->routes[i];
        tf_route_stats *stats = &out->routes[i];
        *stats = link->stats[i];
        stats->verdict = route->shown;
        stats->since = route->shown_since;
        stats->generation = i == TF_ROUTE_STREAM ? link->stream.generation : link->datagram.newest;
        stats->downs = route->downs;
        fill_measured(&route->rtt, stats);
        fill_received(&link->recv.routes[i], stats);
        stats->told_first = link->told[i].first + link->told[i].before_first;
        stats->told_repeats = link->told[i].repeats + link->told[i].before_repeats;
    }
    tf_route_stats *datagram = &out->routes[TF_ROUTE_DATAGRAM];
    datagram->loss_ppm = link->datagram.loss * 1000000 / TF_LINK_LOSS_ALL;
    datagram->in_flight = link->datagram.cc.in_flight;
    datagram->cwnd = link->datagram.cc.window;
    datagram->mtu = link->datagram.mtu.size;
    datagram->mtu_falls = link->datagram.mtu.falls;
}
