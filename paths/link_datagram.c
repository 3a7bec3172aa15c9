/* The datagram slot: packs frames into packets. While the stream carries and flows it copies what fits its window and
 * sheds the rest (but not what the stream has not taken yet); else it carries: everything unacked is queued here until a
 * link ack has it. What became of packets is link_loss.c's business. */
#include "paths/link_private.h"

#define BLOCKED_DELAY (10 * TF_MS)
#define SENT_RESERVE 256u /* records kept for packets without segments */
#define AGAIN_REPEATS 2u  /* a retransmission goes twice */
#define QUEUE_SHORT 128u  /* segments */

tf_link_generation *tf_link_datagram_sending(tf_link *link)
{
    tf_link_generation *found = NULL;
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        tf_link_generation *generation = &link->datagram.generations[i];
        if (generation->keys == TF_LINK_KEYS_CURRENT) {
            return generation;
        }
        if (generation->keys == TF_LINK_KEYS_UNCONFIRMED) {
            found = generation;
        }
    }
    return found;
}

bool tf_link_datagram_can_send(const tf_link *link)
{
    return tf_link_may_send_data(link, TF_ROUTE_DATAGRAM) && link->state == TF_LINK_OPEN &&
           link->routes[TF_ROUTE_DATAGRAM].reachable && tf_link_route_is_live(&link->routes[TF_ROUTE_DATAGRAM]);
}

/* --- copy or carry --- */

/* A short queue goes twice like any retransmission; a long one only where it was sent before. */
static void queue_all(tf_link *link)
{
    tf_link_ring *ring = &link->ring;
    bool is_short = ring->next - ring->floor <= QUEUE_SHORT;
    for (uint64_t seq = ring->floor; seq < link->datagram.next && seq < ring->next; seq++) {
        tf_link_entry *entry = tf_link_ring_at(ring, seq);
        if (entry->data != NULL && entry->copy == TF_LINK_COPY_NONE) {
            tf_link_ring_queue(ring, seq, entry->sent || is_short ? AGAIN_REPEATS : 1);
        }
    }
}

void tf_link_datagram_choose(tf_link *link, tf_time now)
{
    tf_link_datagram *d = &link->datagram;
    tf_link_standby_update(link, now);
    bool flows = tf_link_is_flowing(link, TF_ROUTE_STREAM) && !tf_link_standby_holds(link, TF_ROUTE_STREAM);
    if (d->carrying == !flows) {
        return;
    }
    d->carrying = !flows;
    if (d->carrying) {
        queue_all(link);
        d->backoff = 0;
        tf_link_loss_tick(link, now);
    }
}

/* Moves the cursor over what is acked and, while it copies, over what waited too long and is with the stream. */
static void skip_and_shed(tf_link *link, tf_time now)
{
    tf_link_datagram *d = &link->datagram;
    tf_route_stats *stats = &link->stats[TF_ROUTE_DATAGRAM];
    if (d->next < link->ring.floor) {
        stats->retired += link->ring.floor - d->next;
        d->next = link->ring.floor;
    }
    for (; d->next < link->ring.next; d->next++) {
        tf_link_entry *entry = tf_link_ring_at(&link->ring, d->next);
        if (entry->data == NULL) {
            stats->retired++;
        } else if (!d->carrying && d->next < link->stream.next && now - entry->queued_at >= TF_COPY_WAIT) {
            entry->copy = TF_LINK_COPY_NONE;
            stats->shed++;
        } else {
            return;
        }
    }
}

/* --- what was shed and does not come --- */

/* Moves over what is acked, or in a packet, or waits for one: that is repaired where packets are lost. */
static void skip_to_shed(tf_link *link)
{
    tf_link_datagram *d = &link->datagram;
    d->shed = d->shed < link->ring.floor ? link->ring.floor : d->shed;
    while (d->shed < d->next && d->shed < link->ring.next) {
        const tf_link_entry *entry = tf_link_ring_at(&link->ring, d->shed);
        if (entry->data != NULL && entry->copy == TF_LINK_COPY_NONE) {
            return;
        }
        d->shed++;
    }
}

tf_time tf_link_datagram_overdue_at(const tf_link *link)
{
    const tf_link_datagram *d = &link->datagram;
    const tf_link_ring *ring = &link->ring;
    if (d->carrying || d->shed < ring->floor || d->shed >= d->next || d->shed >= ring->next ||
        ring->queued >= QUEUE_SHORT || !tf_link_datagram_can_send(link) ||
        tf_link_standby_holds(link, TF_ROUTE_DATAGRAM)) {
        return TF_NEVER;
    }
    const tf_link_entry *entry = tf_link_ring_at(ring, d->shed);
    bool is_acked = entry->data == NULL;
    tf_time after = 4 * link->routes[TF_ROUTE_DATAGRAM].rtt.smoothed + TF_COPY_OVERDUE;
    return is_acked || entry->copy != TF_LINK_COPY_NONE ? TF_NEVER : entry->queued_at + after;
}

/* A stream that is slow and makes progress is not stalled, but what it alone has holds up all that is behind it (P3). */
void tf_link_datagram_overdue(tf_link *link, tf_time now)
{
    while (tf_link_datagram_overdue_at(link) <= now) {
        tf_link_ring_queue(&link->ring, link->datagram.shed, 1);
        skip_to_shed(link);
    }
}

static bool has_segments(const tf_link *link)
{
    return link->ring.queued > 0 || link->datagram.next < link->ring.next;
}

/* While it copies, one packet in a round trip goes whatever the window says, so that the path stays measured. */
static bool may_trickle(const tf_link *link, tf_time now)
{
    const tf_link_datagram *d = &link->datagram;
    return !d->carrying &&
           now - d->last_data >= tf_time_min(link->routes[TF_ROUTE_DATAGRAM].rtt.smoothed, TF_TRICKLE_MAX);
}

/* May a packet with segments go now? Notes what it waits for. */
static bool may_send_segments(tf_link *link, tf_time now)
{
    tf_link_datagram *d = &link->datagram;
    if (!tf_link_datagram_can_send(link) || tf_link_standby_holds(link, TF_ROUTE_DATAGRAM)) {
        return false;
    }
    skip_and_shed(link, now);
    skip_to_shed(link);
    const tf_link_generation *sending = tf_link_datagram_sending(link);
    if (!has_segments(link) || sending->sent.next - sending->sent.oldest >= TF_LINK_SENT_MAX - SENT_RESERVE) {
        return false;
    }
    if (d->probes > 0) {
        return true;
    }
    if (!tf_link_congestion_has_room(&d->cc)) {
        d->cc.limited = true;
        return may_trickle(link, now);
    }
    d->paced_at = TF_NEVER;
    if (tf_link_congestion_pace(&d->cc) > now) {
        d->paced_at = tf_link_congestion_pace(&d->cc);
        return false;
    }
    return true;
}

/* --- packets --- */

static bool write_segment(tf_link *link, uint64_t seq, tf_writer *w, tf_link_sent_packet *packet)
{
    tf_frame frame;
    frame.type = TF_FRAME_SEGMENT;
    frame.u.segment = tf_link_ring_segment(&link->ring, seq);
    if (tf_frame_size(&frame) > tf_wr_left(w) || !tf_link_sent_add(packet, seq)) {
        return false;
    }
    TF_ASSERT(tf_frame_write(w, &frame));
    tf_link_entry *entry = tf_link_ring_at(&link->ring, seq);
    tf_route_stats *stats = &link->stats[TF_ROUTE_DATAGRAM];
    stats->sent_segments++;
    stats->sent_bytes += entry->len;
    stats->repaired += entry->sent ? 1 : 0;
    entry->sent = true;
    entry->flying++;
    return true;
}

/* Fills w: what is to be sent again first, then what is new, each in ascending order. */
static void write_segments(tf_link *link, tf_writer *w, tf_link_sent_packet *packet)
{
    tf_link_datagram *d = &link->datagram;
    tf_link_ring *ring = &link->ring;
    uint64_t seq = 0;
    for (uint64_t from = ring->floor; tf_link_ring_next_queued(ring, from, &seq); from = seq + 1) {
        if (!write_segment(link, seq, w, packet)) {
            return;
        }
        tf_link_ring_queued_sent(ring, seq);
    }
    while (d->next < ring->next) {
        tf_link_entry *entry = tf_link_ring_at(ring, d->next);
        if (entry->data != NULL) {
            if (!write_segment(link, d->next, w, packet)) {
                return;
            }
            entry->copy = TF_LINK_COPY_FLYING;
        } else {
            link->stats[TF_ROUTE_DATAGRAM].retired++;
        }
        d->next++;
    }
}

/* Forgets the oldest packet of a route that does not answer, so that its records do not pile up. */
static void bound_unanswered(tf_link *link, tf_link_generation *generation)
{
    tf_link_sent *sent = &generation->sent;
    if (tf_link_route_is_live(&link->routes[TF_ROUTE_DATAGRAM]) && generation->keys == TF_LINK_KEYS_CURRENT) {
        return;
    }
    if (sent->next - sent->oldest >= 8) {
        tf_link_sent_at(sent, sent->oldest)->open = false;
        tf_link_sent_settle(sent);
    }
}

/* Numbers the packet in w and keeps its record. */
static void finish(tf_link *link, tf_time now, tf_link_generation *generation, const tf_link_sent_packet *built,
                   size_t len, tf_link_packet *out)
{
    tf_link_datagram *d = &link->datagram;
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    *out = (tf_link_packet){.generation = generation->generation, .number = generation->sent.next, .len = len};
    tf_link_sent_packet *packet = tf_link_sent_push(&generation->sent);
    *packet = *built;
    packet->at = now;
    packet->open = packet->eliciting;
    packet->bytes = 0;
    d->eliciting += packet->eliciting && !packet->probe ? 1 : 0;
    packet->size = (uint16_t)(len + TF_PACKET_HEADER + TF_PACKET_TAG);
    if (packet->eliciting && !packet->probe && generation->keys == TF_LINK_KEYS_CURRENT &&
        tf_link_route_is_live(route)) {
        packet->bytes = packet->size;
        tf_link_congestion_sent(&d->cc, &route->rtt, now, packet->bytes);
        tf_link_route_outstanding(route, now, true);
        d->last_eliciting = now;
    }
    if (packet->runs_used > 0) {
        d->with_data++;
        d->last_data = now;
        tf_link_data(link, now, TF_ROUTE_DATAGRAM);
        tf_link_standby_measure(link, now);
        tf_link_watch_sent(link, now, TF_ROUTE_DATAGRAM);
        tf_link_mtu_used(&d->mtu, now);
    }
    if (!packet->eliciting) {
        tf_link_sent_settle(&generation->sent);
    }
    link->stats[TF_ROUTE_DATAGRAM].sent_packets++;
    tf_link_route_sent(route, now);
}

/* A challenge that waits: for a generation that is not confirmed, or for an address under test. */
typedef struct challenge {
    tf_link_generation *generation;
    uint64_t token;
    bool *wanted;
    bool to_candidate;
    bool to_current_only;
} challenge;

static bool next_challenge(tf_link *link, challenge *out)
{
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        tf_link_generation *g = &link->datagram.generations[i];
        if (g->keys == TF_LINK_KEYS_UNCONFIRMED && g->challenge_wanted) {
            *out = (challenge){.generation = g, .token = g->challenge, .wanted = &g->challenge_wanted};
            return true;
        }
    }
    tf_link_move *move = &link->datagram.move;
    for (size_t i = 0; move->testing && i < (size_t)2 * TF_LINK_GENERATIONS; i++) {
        size_t address = i % 2;
        tf_link_generation *g = &link->datagram.generations[i / 2];
        if (move->wanted[address][i / 2] && g->keys != TF_LINK_KEYS_NONE) {
            *out = (challenge){.generation = g,
                               .token = move->tokens[address],
                               .wanted = &move->wanted[address][i / 2],
                               .to_candidate = address == TF_LINK_MOVE_NEW,
                               .to_current_only = address == TF_LINK_MOVE_OLD};
            return true;
        }
    }
    return false;
}

/* A route that was down, or is new, has to prove that it takes base packets: all that obliges an ack is padded to one. */
static bool is_to_be_proved(const tf_link *link, const tf_link_generation *generation)
{
    return link->routes[TF_ROUTE_DATAGRAM].verdict == TF_VERDICT_DOWN || generation->keys == TF_LINK_KEYS_UNCONFIRMED;
}

/* Fills w to its end, if a frame fits there. */
static void pad(tf_writer *w)
{
    static const uint8_t zeroes[TF_PACKET_PLAIN_MAX];
    if (tf_wr_left(w) < TF_FRAME_HEADER) {
        return;
    }
    tf_frame frame;
    frame.type = TF_FRAME_PADDING;
    frame.u.payload = tf_slice_of(zeroes, tf_wr_left(w) - TF_FRAME_HEADER);
    TF_ASSERT(tf_frame_write(w, &frame));
}

static bool pull_challenge(tf_link *link, tf_time now, uint8_t *buf, tf_link_packet *out)
{
    challenge next;
    if (link->state != TF_LINK_OPEN || !next_challenge(link, &next)) {
        return false;
    }
    bound_unanswered(link, next.generation);
    if (!tf_link_sent_reserve(&next.generation->sent)) {
        return false;
    }
    tf_writer w;
    tf_wr_init(&w, buf, TF_PACKET_PLAIN_BASE);
    tf_frame frame;
    frame.type = TF_FRAME_CHALLENGE;
    frame.u.token = next.token;
    TF_ASSERT(tf_frame_write(&w, &frame));
    tf_link_sent_packet packet = {.eliciting = true};
    if (!next.to_candidate && !next.to_current_only) {
        pad(&w);
    } else { /* an address under test may not be sent that much */
        packet.small = is_to_be_proved(link, next.generation);
    }
    *next.wanted = false;
    link->stats[TF_ROUTE_DATAGRAM].probes++;
    finish(link, now, next.generation, &packet, tf_wr_len(&w), out);
    out->to_candidate = next.to_candidate;
    out->to_current_only = next.to_current_only;
    return true;
}

/* What is sent again, and what asks after packets, goes in base packets: repair does not depend on the path's MTU. */
static size_t plain_max(const tf_link *link, const tf_link_generation *generation)
{
    const tf_link_datagram *d = &link->datagram;
    if (link->ring.queued > 0 || d->probes > 0 || is_to_be_proved(link, generation)) {
        return TF_PACKET_PLAIN_BASE;
    }
    return (size_t)d->mtu.size - TF_PACKET_HEADER - TF_PACKET_TAG;
}

/* Where messages depend on datagrams alone, a packet that no other follows asks for its ack at once: what shows its loss
 * is a timer, which need not allow for a delayed ack then. */
static bool ask(tf_writer *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_PADDING;
    frame.u.payload = (tf_slice){0};
    return tf_frame_write(w, &frame);
}

static bool pull_frames(tf_link *link, tf_time now, tf_link_generation *generation, uint8_t *buf, tf_link_packet *out)
{
    tf_link_datagram *d = &link->datagram;
    bool segments = may_send_segments(link, now);
    if (!segments && d->probes == 0 && !tf_link_control_waits(link, TF_ROUTE_DATAGRAM)) {
        return false;
    }
    bound_unanswered(link, generation);
    if (!tf_link_sent_reserve(&generation->sent)) {
        d->paced_at = now + BLOCKED_DELAY;
        return false;
    }
    tf_writer w;
    tf_wr_init(&w, buf, plain_max(link, generation));
    tf_link_sent_packet packet = {0};
    bool asks = false;
    packet.eliciting = tf_link_control_write(link, now, TF_ROUTE_DATAGRAM, &w);
    if (segments) {
        write_segments(link, &w, &packet);
        packet.eliciting = packet.eliciting || packet.runs_used > 0;
        asks = d->carrying && packet.runs_used > 0 && (d->probes > 0 || !has_segments(link));
    }
    if (d->probes > 0) {
        d->probes = segments && has_segments(link) ? d->probes - 1 : 0;
        if (!packet.eliciting) {
            packet.eliciting = tf_link_control_probe(link, now, TF_ROUTE_DATAGRAM, &w);
            TF_ASSERT(packet.eliciting);
        }
    }
    if (tf_wr_len(&w) == 0) {
        return false;
    }
    if (packet.eliciting && is_to_be_proved(link, generation)) {
        pad(&w);
    } else {
        asks = asks && ask(&w);
    }
    finish(link, now, generation, &packet, tf_wr_len(&w), out);
    d->asked = packet.eliciting ? asks : d->asked;
    return true;
}

/* A probe of the path MTU, when there is nothing else to send and the path works. */
static bool pull_mtu_probe(tf_link *link, tf_time now, tf_link_generation *generation, uint8_t *buf,
                           tf_link_packet *out)
{
    tf_link_datagram *d = &link->datagram;
    const tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    size_t size = tf_link_mtu_wanted(&d->mtu);
    if (size == 0 || link->state != TF_LINK_OPEN || generation->keys != TF_LINK_KEYS_CURRENT ||
        route->verdict != TF_VERDICT_UP || d->backoff > 0 || d->move.testing ||
        !tf_link_sent_reserve(&generation->sent)) {
        return false;
    }
    tf_writer w;
    tf_wr_init(&w, buf, size - TF_PACKET_HEADER - TF_PACKET_TAG);
    tf_frame frame;
    frame.type = TF_FRAME_PING;
    frame.u.token = route->token - 1; /* of no probe of the route: the ack of the packet is the answer */
    TF_ASSERT(tf_frame_write(&w, &frame));
    pad(&w);
    const tf_link_sent_packet packet = {.eliciting = true, .probe = true};
    tf_link_mtu_probed(&d->mtu, now, tf_link_rtt_pto(&route->rtt));
    link->stats[TF_ROUTE_DATAGRAM].probes++;
    finish(link, now, generation, &packet, tf_wr_len(&w), out);
    return true;
}

bool tf_link_pull_packet(tf_link *link, tf_time now, uint8_t *buf, size_t cap, tf_link_packet *out)
{
    tf_link_enter(link, now);
    TF_ASSERT(cap >= TF_PACKET_PLAIN_MAX);
    if (pull_challenge(link, now, buf, out)) {
        return true;
    }
    tf_link_generation *generation = tf_link_datagram_sending(link);
    if (generation == NULL || link->state == TF_LINK_CLOSED) {
        return false;
    }
    return pull_frames(link, now, generation, buf, out) || pull_mtu_probe(link, now, generation, buf, out);
}
