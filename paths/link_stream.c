/* The stream slot: lazy, it takes segments from the ring only when the socket can take them, and never one that was
 * acked meanwhile. A new generation starts at the first unacked segment. */
#include "paths/link_private.h"

void tf_link_stream_up(tf_link *link, tf_time now, uint64_t generation)
{
    tf_link_stream *stream = &link->stream;
    tf_link_route *route = &link->routes[TF_ROUTE_STREAM];
    tf_link_stream_down(link, now);
    stream->up = true;
    stream->generation = generation;
    stream->next = link->ring.floor;
    stream->written = 0;
    stream->counted = 0;
    stream->caught_up = 0;
    route->reachable = true;
    tf_link_route_start(route, now, TF_VERDICT_UP);
    route->pong_count = 0; /* the peer waits for no answer to what it asked by the socket before */
    tf_link_stream_outstanding(link, now);
    tf_link_recv_generation(&link->recv, TF_ROUTE_STREAM, generation);
    tf_link_datagram_choose(link, now);
    tf_link_settle(link, now);
}

static uint64_t count_unacked(const tf_link *link, uint64_t first, uint64_t end)
{
    uint64_t count = 0;
    for (uint64_t seq = first; seq < end; seq++) {
        count += tf_link_ring_is_acked(&link->ring, seq) ? 0 : 1;
    }
    return count;
}

void tf_link_stream_down(tf_link *link, tf_time now)
{
    tf_link_enter(link, now);
    tf_link_stream *stream = &link->stream;
    if (!stream->up) {
        return;
    }
    tf_link_route *route = &link->routes[TF_ROUTE_STREAM];
    stream->up = false;
    route->reachable = false;
    route->outstanding = false;
    tf_link_watch_reset(link, TF_ROUTE_STREAM);
    link->stats[TF_ROUTE_STREAM].lost += count_unacked(link, link->ring.floor, stream->next);
    tf_link_route_set(route, now, TF_VERDICT_DOWN);
    tf_link_datagram_choose(link, now);
    tf_link_settle(link, now);
}

/* What was written and is not counted, and what the socket does not take: a stream that is blocked stalls as well. */
void tf_link_stream_outstanding(tf_link *link, tf_time now)
{
    const tf_link_stream *stream = &link->stream;
    uint64_t next = stream->next > link->ring.floor ? stream->next : link->ring.floor;
    bool waits = tf_link_may_send_data(link, TF_ROUTE_STREAM) && !tf_link_standby_holds(link, TF_ROUTE_STREAM) &&
                 next < link->ring.next;
    bool outstanding = stream->up && (stream->counted < stream->written || waits);
    tf_link_route_outstanding(&link->routes[TF_ROUTE_STREAM], now, outstanding);
}

void tf_link_stream_counted(tf_link *link, tf_time now, const tf_route_count *count)
{
    tf_link_stream *stream = &link->stream;
    tf_link_route *route = &link->routes[TF_ROUTE_STREAM];
    uint64_t counted = count->first + count->repeats;
    if (!stream->up || count->generation != stream->generation || counted <= stream->counted) {
        return;
    }
    stream->counted = counted < stream->written ? counted : stream->written;
    tf_link_watch_arrived(link, TF_ROUTE_STREAM);
    tf_link_route_progress(route, now);
    tf_link_stream_outstanding(link, now);
    tf_link_stream_proved(link, now);
}

/* One that was down or stalled counts as flowing once the peer has what was written there before. */
void tf_link_stream_proved(tf_link *link, tf_time now)
{
    tf_link_stream *stream = &link->stream;
    tf_link_route *route = &link->routes[TF_ROUTE_STREAM];
    if (!stream->up) {
        return;
    }
    bool revived = tf_link_route_proved(route, now);
    if (revived && stream->counted < stream->caught_up) {
        tf_link_route_set(route, now, TF_VERDICT_STALLED);
    } else if (route->verdict == TF_VERDICT_STALLED && stream->counted >= stream->caught_up) {
        tf_link_route_set(route, now, TF_VERDICT_UP);
    }
    tf_link_datagram_choose(link, now);
}

/* --- out --- */

static bool write_segment(tf_link *link, uint64_t seq, tf_writer *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_SEGMENT;
    frame.u.segment = tf_link_ring_segment(&link->ring, seq);
    if (!tf_frame_write(w, &frame)) {
        return false;
    }
    tf_link_stream *stream = &link->stream;
    tf_route_stats *stats = &link->stats[TF_ROUTE_STREAM];
    stream->written++;
    stats->sent_segments++;
    stats->sent_bytes += frame.u.segment.data.len;
    if (seq < stream->high) {
        stats->repaired++;
    } else {
        stream->high = seq + 1;
    }
    return true;
}

static void write_segments(tf_link *link, tf_writer *w)
{
    tf_link_stream *stream = &link->stream;
    if (stream->next < link->ring.floor) {
        link->stats[TF_ROUTE_STREAM].retired += link->ring.floor - stream->next;
        stream->next = link->ring.floor;
    }
    while (stream->next < link->ring.next) {
        if (tf_link_ring_is_acked(&link->ring, stream->next)) {
            link->stats[TF_ROUTE_STREAM].retired++;
        } else if (!write_segment(link, stream->next, w)) {
            return;
        }
        stream->next++;
    }
}

static bool has_segments(const tf_link *link)
{
    return tf_link_may_send_data(link, TF_ROUTE_STREAM) && link->state == TF_LINK_OPEN &&
           !tf_link_standby_holds(link, TF_ROUTE_STREAM) && link->stream.next < link->ring.next;
}

size_t tf_link_pull_stream(tf_link *link, tf_time now, uint8_t *buf, size_t cap)
{
    tf_link_enter(link, now);
    if (!link->stream.up || link->state == TF_LINK_CLOSED) {
        return 0;
    }
    tf_writer w;
    tf_wr_init(&w, buf, cap < TF_STREAM_RECORD ? cap : TF_STREAM_RECORD);
    bool segments = has_segments(link);
    if (segments || tf_link_control_waits(link, TF_ROUTE_STREAM)) {
        tf_link_control_write(link, now, TF_ROUTE_STREAM, &w);
    }
    if (segments) {
        write_segments(link, &w);
        tf_link_stream_outstanding(link, now);
        tf_link_data(link, now, TF_ROUTE_STREAM);
        tf_link_standby_measure(link, now);
        tf_link_watch_sent(link, now, TF_ROUTE_STREAM);
    }
    if (tf_wr_len(&w) > 0) {
        tf_link_route_sent(&link->routes[TF_ROUTE_STREAM], now);
    }
    return tf_wr_len(&w);
}

/* --- time --- */

static tf_time stalls_at(const tf_link *link)
{
    const tf_link_route *route = &link->routes[TF_ROUTE_STREAM];
    if (route->verdict != TF_VERDICT_UP || !route->outstanding) {
        return TF_NEVER;
    }
    return route->progress_at + tf_link_rtt_stall(&route->rtt);
}

tf_time tf_link_stream_deadline(const tf_link *link)
{
    return stalls_at(link);
}

void tf_link_stream_tick(tf_link *link, tf_time now)
{
    if (stalls_at(link) > now) {
        return;
    }
    tf_link_route *route = &link->routes[TF_ROUTE_STREAM];
    tf_link_route_set(route, now, TF_VERDICT_STALLED);
    link->stream.caught_up = link->stream.written;
    if (!route->probing) {
        tf_link_route_probe(route, now);
    }
    tf_link_datagram_choose(link, now);
}
