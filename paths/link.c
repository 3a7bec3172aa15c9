/* The link as its users see it: made, fed with messages, closed, resumed; its time and its verdicts. How the files of the
 * link hang together: paths/README.md. */
#include "paths/link_private.h"

const char *tf_verdict_name(tf_verdict verdict)
{
    switch (verdict) {
    case TF_VERDICT_ABSENT:
        return "absent";
    case TF_VERDICT_JOINING:
        return "joining";
    case TF_VERDICT_UP:
        return "up";
    case TF_VERDICT_STALLED:
        return "stalled";
    case TF_VERDICT_DOWN:
        return "down";
    }
    TF_UNREACHABLE();
}

/* --- life --- */

static tf_err init_recv(tf_link *link)
{
    const tf_link_config *config = &link->config;
    const tf_link_recv_config recv = {
        .dedup = config->dedup,
        .rand = config->rand,
        .sender = config->peer,
        .instance = config->peer_instance,
        .session = config->session,
        .first = config->first_seq,
        .max_segments = config->recv_window_segments,
        .max_bytes = config->recv_window_bytes,
        .max_message = config->recv_max_message,
    };
    return tf_link_recv_init(&link->recv, &recv, config->mem, &link->pool);
}

tf_err tf_link_new(tf_link **out, const tf_link_config *config, tf_time now)
{
    TF_ASSERT(config->recv_window_segments > 0 && config->recv_window_segments <= TF_WINDOW_SEGMENTS_MAX);
    TF_ASSERT(config->send_window_segments > 0 && config->send_window_segments <= TF_WINDOW_SEGMENTS_MAX);
    TF_ASSERT(config->recv_window_bytes >= TF_SEGMENT_DATA_MAX && config->recv_window_bytes <= TF_WINDOW_BYTES_MAX);
    TF_ASSERT(config->send_window_bytes >= TF_SEGMENT_DATA_MAX && config->send_window_bytes <= TF_WINDOW_BYTES_MAX);
    TF_ASSERT(config->recv_max_message <= TF_MESSAGE_MAX && config->keepalive > 0);
    tf_link *link = tf_alloc(config->mem, sizeof(*link));
    if (link == NULL) {
        return TF_ERR_NOMEM;
    }
    link->config = *config;
    link->now = now;
    tf_link_pool_init(&link->pool, config->mem);
    tf_link_ring_init(&link->ring, config->mem, &link->pool, config->first_seq);
    link->ring.max_segments = config->send_window_segments;
    link->ring.max_bytes = config->send_window_bytes;
    tf_link_congestion_init(&link->datagram.cc);
    tf_link_mtu_init(&link->datagram.mtu);
    link->datagram.next = config->first_seq;
    link->datagram.shed = config->first_seq;
    link->datagram.loss_at = TF_NEVER;
    link->datagram.paced_at = TF_NEVER;
    link->datagram.carrying = true;
    link->stream.next = config->first_seq;
    link->stream.high = config->first_seq;
    link->failure_at = TF_NEVER;
    link->trim_at = TF_NEVER;
    tf_link_watch_init(link);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_link_route_init(&link->routes[i], config, now);
        link->owed[i].due = TF_NEVER;
        link->standby[i].back_at = TF_NEVER;
    }
    tf_err err = init_recv(link);
    if (err != TF_OK) {
        tf_link_free(link);
        return err;
    }
    *out = link;
    return TF_OK;
}

void tf_link_free(tf_link *link)
{
    if (link == NULL) {
        return;
    }
    const tf_mem *mem = link->config.mem;
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (link->datagram.generations[i].keys != TF_LINK_KEYS_NONE) {
            tf_link_sent_free(&link->datagram.generations[i].sent);
        }
    }
    tf_free(mem, link->waiting, link->waiting_len);
    tf_link_recv_free(&link->recv);
    tf_link_ring_free(&link->ring);
    tf_link_pool_trim(&link->pool);
    tf_free(mem, link, sizeof(*link));
}

/* --- sending --- */

static size_t segments_of(size_t len)
{
    return len == 0 ? 1 : (len + TF_SEGMENT_DATA_MAX - 1) / TF_SEGMENT_DATA_MAX;
}

/* Puts message[from, end) into the ring; it is the whole message or a part of one. There is room. */
static tf_err push(tf_link *link, tf_time now, tf_slice message, size_t from, size_t end)
{
    size_t count = end == from ? 1 : segments_of(end - from);
    tf_err err = tf_link_ring_reserve(&link->ring, count);
    for (size_t i = 0; err == TF_OK && i < count; i++) {
        size_t at = from + i * TF_SEGMENT_DATA_MAX;
        size_t len = end - at < TF_SEGMENT_DATA_MAX ? end - at : TF_SEGMENT_DATA_MAX;
        uint8_t flags = (uint8_t)((at == 0 ? TF_SEGMENT_FIRST : 0u) | (at + len == message.len ? TF_SEGMENT_LAST : 0u));
        err = tf_link_ring_push(&link->ring, now, flags, tf_slice_of(message.data + at, len));
        if (err != TF_OK) {
            tf_link_ring_unpush(&link->ring, i);
        }
    }
    return err;
}

/* The waiting message goes on as far as there is room; without memory it tries again at the next ack. */
static void feed_waiting(tf_link *link, tf_time now)
{
    tf_slice message = tf_slice_of(link->waiting, link->waiting_len);
    while (link->waiting != NULL) {
        size_t left = link->waiting_len - link->waiting_at;
        size_t len = left < TF_SEGMENT_DATA_MAX ? left : TF_SEGMENT_DATA_MAX;
        if (!tf_link_ring_fits(&link->ring, 1, len) ||
            push(link, now, message, link->waiting_at, link->waiting_at + len) != TF_OK) {
            return;
        }
        link->waiting_at += len;
        if (link->waiting_at == link->waiting_len) {
            tf_free(link->config.mem, link->waiting, link->waiting_len);
            link->waiting = NULL;
        }
    }
}

static bool is_larger_than_window(const tf_link *link, size_t len)
{
    return segments_of(len) > link->ring.max_segments || len > link->ring.max_bytes;
}

bool tf_link_has_room(const tf_link *link, size_t len)
{
    return link->state == TF_LINK_OPEN && link->waiting == NULL && len <= TF_MESSAGE_MAX &&
           (is_larger_than_window(link, len) || tf_link_ring_fits(&link->ring, segments_of(len), len));
}

static tf_err send_piecemeal(tf_link *link, tf_time now, tf_slice message)
{
    uint8_t *copy = tf_alloc(link->config.mem, message.len);
    if (copy == NULL) {
        return TF_ERR_NOMEM;
    }
    memcpy(copy, message.data, message.len);
    link->waiting = copy;
    link->waiting_len = message.len;
    link->waiting_at = 0;
    feed_waiting(link, now);
    return TF_OK;
}

tf_err tf_link_send(tf_link *link, tf_time now, tf_slice message)
{
    tf_link_enter(link, now);
    if (link->state != TF_LINK_OPEN) {
        return TF_ERR_CLOSED;
    }
    if (message.len > TF_MESSAGE_MAX) {
        return TF_ERR_LIMIT_BYTES;
    }
    if (!tf_link_has_room(link, message.len)) {
        return TF_ERR_AGAIN;
    }
    tf_err err = is_larger_than_window(link, message.len) ? send_piecemeal(link, now, message)
                                                          : push(link, now, message, 0, message.len);
    if (err == TF_OK) {
        link->messages_sent++;
        tf_link_stream_outstanding(link, now);
    }
    return err;
}

void tf_link_acked(tf_link *link, tf_time now)
{
    link->failures = link->dead ? 1 : 0;
    link->unreachable = false;
    feed_waiting(link, now);
    tf_link_stream_outstanding(link, now);
}

/* --- receiving: link_in.c --- */

bool tf_link_next_message(tf_link *link, tf_slice *message, tf_route *via)
{
    return tf_link_recv_next(&link->recv, message, via);
}

/* --- closing and resuming --- */

void tf_link_close(tf_link *link, tf_time now, tf_close_code code, tf_slice reason)
{
    tf_link_enter(link, now);
    if (link->state != TF_LINK_OPEN) {
        return;
    }
    size_t len = reason.len < TF_CLOSE_REASON_MAX ? reason.len : TF_CLOSE_REASON_MAX;
    while (len < reason.len && len > 0 && (reason.data[len] & 0xc0u) == 0x80u) {
        len--; /* not inside a character of UTF-8 */
    }
    if (len > 0) {
        memcpy(link->close_reason, reason.data, len);
    }
    link->close_reason_len = len;
    link->close_code = (uint64_t)code;
    if (link->stream.up) {
        link->close_to |= TF_ROUTES_STREAM;
    }
    if (tf_link_datagram_sending(link) != NULL) {
        link->close_to |= TF_ROUTES_DATAGRAM;
    }
    link->state = link->close_to == 0 ? TF_LINK_CLOSED : TF_LINK_CLOSING;
}

uint64_t tf_link_next_expected(const tf_link *link)
{
    return link->recv.floor;
}

uint64_t tf_link_send_floor(const tf_link *link)
{
    return link->config.first_seq;
}

uint64_t tf_link_send_next(const tf_link *link)
{
    return link->ring.next;
}

tf_err tf_link_resume(tf_link *link, tf_time now, uint64_t peer_next_expected)
{
    tf_link_enter(link, now);
    if (peer_next_expected < link->config.first_seq || peer_next_expected > link->ring.next) {
        return TF_ERR_PEER_ACK;
    }
    link->resumes++;
    if (tf_link_ring_ack_below(&link->ring, peer_next_expected)) {
        tf_link_acked(link, now);
    }
    return TF_OK;
}

/* --- verdicts --- */

void tf_link_enter(tf_link *link, tf_time now)
{
    TF_ASSERT(now >= link->now);
    link->now = now;
}

static void failed(tf_link *link, tf_time now)
{
    link->failures++;
    link->failure_at = now + TF_UNREACHABLE_SPACING;
    if (link->failures >= TF_UNREACHABLE_FAILURES) {
        link->failure_at = TF_NEVER;
        link->events.unreachable = link->events.unreachable || !link->unreachable;
        link->unreachable = true;
    }
}

void tf_link_settle(tf_link *link, tf_time now)
{
    tf_link_datagram_choose(link, now);
    bool live = false;
    bool all = true;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        live = live || tf_link_route_is_live(&link->routes[i]);
        bool negotiated = (link->config.routes & (1u << i)) != 0;
        all = all && (!negotiated || link->routes[i].verdict == TF_VERDICT_UP);
    }
    if (all) {
        link->failures = 0;
        link->unreachable = false;
    }
    if (live) {
        link->lived = true;
        link->dead = false;
        link->failure_at = TF_NEVER;
    } else if (link->lived && !link->dead) {
        link->dead = true;
        failed(link, now);
    }
}

void tf_link_data(tf_link *link, tf_time now, tf_route route)
{
    tf_link_route_traffic(&link->routes[route]);
    link->data_at = now;
    if (link->trim_at == TF_NEVER) {
        link->trim_at = tf_time_add(now, link->config.keepalive);
    }
}

tf_verdict tf_link_verdict(const tf_link *link, tf_route route)
{
    return link->routes[route].shown;
}

tf_time tf_link_srtt(const tf_link *link, tf_route route)
{
    return link->routes[route].rtt.measured ? link->routes[route].rtt.smoothed : 0;
}

bool tf_link_is_carrying(const tf_link *link)
{
    return (tf_link_may_send_data(link, TF_ROUTE_STREAM) && link->stream.up) ||
           (tf_link_may_send_data(link, TF_ROUTE_DATAGRAM) && link->routes[TF_ROUTE_DATAGRAM].reachable);
}

bool tf_link_is_quiet(const tf_link *link)
{
    return link->ring.floor == link->ring.next && link->waiting == NULL;
}

bool tf_link_is_busy(const tf_link *link)
{
    return !tf_link_is_quiet(link) && (tf_link_route_is_live(&link->routes[TF_ROUTE_STREAM]) ||
                                       tf_link_route_is_live(&link->routes[TF_ROUTE_DATAGRAM]));
}

/* --- time --- */

tf_time tf_link_deadline(const tf_link *link)
{
    if (link->state != TF_LINK_OPEN) {
        return TF_NEVER;
    }
    tf_time due = tf_time_min(link->failure_at, link->trim_at);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        due = tf_time_min(due, tf_link_route_deadline(&link->routes[i]));
    }
    due = tf_time_min(due, tf_link_standby_deadline(link));
    due = tf_time_min(due, tf_link_watch_deadline(link));
    due = tf_time_min(due, tf_link_stream_deadline(link));
    due = tf_time_min(due, tf_link_datagram_deadline(link));
    due = tf_time_min(due, tf_link_move_deadline(link));
    due = tf_time_min(due, tf_link_loss_deadline(link));
    return tf_time_min(due, tf_link_ack_deadline(link));
}

static void trim(tf_link *link, tf_time now)
{
    if (link->trim_at > now) {
        return;
    }
    tf_time idle_at = tf_time_add(link->data_at, link->config.keepalive);
    link->trim_at = idle_at > now ? idle_at : TF_NEVER;
    if (link->trim_at != TF_NEVER) {
        return;
    }
    tf_link_recv_trim(&link->recv);
    tf_link_ring_trim(&link->ring);
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (link->datagram.generations[i].keys != TF_LINK_KEYS_NONE) {
            tf_link_sent_trim(&link->datagram.generations[i].sent);
        }
    }
    tf_link_pool_trim(&link->pool);
}

void tf_link_tick(tf_link *link, tf_time now)
{
    tf_link_enter(link, now);
    if (link->state != TF_LINK_OPEN) {
        return;
    }
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        bool was_live = tf_link_route_is_live(&link->routes[i]);
        tf_link_route_tick(&link->routes[i], now);
        if (i == TF_ROUTE_DATAGRAM && was_live && !tf_link_route_is_live(&link->routes[i])) {
            tf_link_datagram_lost(link, now);
        }
    }
    tf_link_watch_tick(link, now);
    tf_link_stream_tick(link, now);
    tf_link_loss_tick(link, now);
    tf_link_datagram_tick(link, now);
    tf_link_move_tick(link, now);
    tf_link_ack_tick(link, now);
    if (link->failure_at <= now) {
        failed(link, now);
    }
    trim(link, now);
    tf_link_settle(link, now);
}
