/* What became of the packets of the datagram slot: acked, lost (RFC 9002 §6), or to be asked after. */
#include "paths/link_private.h"

#define PROBES_OF_PTO 2u
#define STALL_BACKOFF 2u    /* PTOs without an answer before the route can count as stalled, */
#define STALL_TRIES 8u      /* or packets */
#define COLLAPSE_BACKOFF 4u /* and before its window is given up */
#define BACKOFF_MAX 8u
#define AGAIN_REPEATS 2u
#define LOSS_PARTS 64u
#define REORDER_LEVELS 3u
#define REORDER_SPAN (10 * TF_SECOND)

static void update_outstanding(tf_link *link, tf_time now)
{
    tf_link_route_outstanding(&link->routes[TF_ROUTE_DATAGRAM], now, link->datagram.cc.in_flight > 0);
}

/* What became of one packet goes into the smoothed loss with the weight 1/64. */
static void count_fate(tf_link_datagram *d, const tf_link_sent_packet *packet, bool lost)
{
    if (packet->bytes == 0) {
        return; /* a challenge, or sent while the route was down */
    }
    d->loss = d->loss - d->loss / LOSS_PARTS + (lost ? TF_LINK_LOSS_ALL / LOSS_PARTS : 0);
}

/* --- lost --- */

/* One packet that held the segment is no longer in flight. */
static void segment_landed(tf_link *link, uint64_t seq, bool lost)
{
    if (tf_link_ring_is_acked(&link->ring, seq)) {
        return;
    }
    tf_link_entry *entry = tf_link_ring_at(&link->ring, seq);
    TF_ASSERT(entry->flying > 0);
    entry->flying--;
    if (entry->flying > 0 || entry->copy != TF_LINK_COPY_FLYING) {
        return;
    }
    entry->copy = TF_LINK_COPY_NONE;
    /* also while it only copies: a stream that flows would have brought it before the loss was seen, and this one has not */
    if (lost) {
        tf_link_ring_queue(&link->ring, seq, AGAIN_REPEATS);
    }
}

static void segments_landed(tf_link *link, const tf_link_sent_packet *packet, bool lost)
{
    for (size_t i = 0; i < packet->runs_used; i++) {
        const tf_link_run *run = &packet->runs[i];
        for (uint64_t seq = run->first; seq < run->first + run->count; seq++) {
            segment_landed(link, seq, lost);
        }
    }
}

static void packet_lost(tf_link *link, tf_link_sent_packet *packet)
{
    packet->open = false;
    tf_link_congestion_missed(&link->datagram.cc, packet->bytes);
    link->stats[TF_ROUTE_DATAGRAM].lost += packet->probe ? 0 : 1;
    count_fate(&link->datagram, packet, true);
    segments_landed(link, packet, true);
}

/* What is in flight and has at least `size` bytes is lost. */
static void lose_from(tf_link *link, tf_link_sent *sent, size_t size)
{
    for (uint64_t number = sent->oldest; number != sent->next; number++) {
        tf_link_sent_packet *packet = tf_link_sent_at(sent, number);
        if (packet->open && packet->size >= size) {
            packet_lost(link, packet);
        }
    }
    tf_link_sent_settle(sent);
}

void tf_link_loss_all(tf_link *link, tf_time now, tf_link_generation *generation)
{
    lose_from(link, &generation->sent, 0);
    update_outstanding(link, now);
}

void tf_link_loss_refused(tf_link *link, tf_time now, size_t size)
{
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (link->datagram.generations[i].keys != TF_LINK_KEYS_NONE) {
            lose_from(link, &link->datagram.generations[i].sent, size);
        }
    }
    update_outstanding(link, now);
}

static void note_missed(tf_link_reorder *r, uint64_t generation, uint64_t number)
{
    if (r->generation != generation) {
        r->generation = generation;
        r->missed_count = 0;
    }
    r->missed[r->missed_count++ % TF_LINK_MISSED] = number;
}

static size_t take_missed(tf_link_reorder *r, tf_range range)
{
    size_t count = 0;
    for (size_t i = 0; i < r->missed_count && i < TF_LINK_MISSED; i++) {
        if (r->missed[i] >= range.first && r->missed[i] <= range.last) {
            r->missed[i] = UINT64_MAX;
            count++;
        }
    }
    return count;
}

/* Once a round trip it allows for more, as RACK does (RFC 8985 §6.2), and after a while without need for nothing again. */
static void learn_order(tf_link *link, tf_time now, const tf_packet_ack *ack)
{
    tf_link_reorder *r = &link->datagram.reorder;
    size_t late = 0;
    for (size_t i = 0; r->generation == ack->generation && i < ack->range_count; i++) {
        late += take_missed(r, ack->ranges[i]);
    }
    tf_link_congestion_came(&link->datagram.cc, late);
    if (late > 0 && now - r->raised_at >= link->routes[TF_ROUTE_DATAGRAM].rtt.smoothed) {
        r->level = r->level < REORDER_LEVELS ? r->level + 1 : REORDER_LEVELS;
        r->raised_at = now;
    } else if (r->level > 0 && now - r->raised_at >= REORDER_SPAN) {
        r->level = 0;
    }
}

/* RFC 9002 §6.1. A packet is judged once one that was sent after it was acked, under whatever keys. */
static void detect(tf_link *link, tf_time now, tf_link_generation *generation)
{
    tf_link_datagram *d = &link->datagram;
    tf_link_sent *sent = &generation->sent;
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    tf_time delay = tf_link_rtt_loss(&route->rtt, d->reorder.level);
    uint64_t threshold = (uint64_t)TF_PACKET_THRESHOLD << (2 * d->reorder.level);
    tf_time latest = 0;
    bool any = false;
    for (uint64_t number = sent->oldest; number != sent->next; number++) {
        tf_link_sent_packet *packet = tf_link_sent_at(sent, number);
        bool passed = sent->any_acked && number < sent->largest_acked;
        if (!passed && packet->at >= d->acked_sent_at) {
            break;
        }
        if (!packet->open) {
            continue;
        }
        if ((passed && sent->largest_acked - number >= threshold) || packet->at + delay <= now) {
            any = any || packet->bytes > 0;
            latest = packet->at;
            tf_link_mtu_lost(&d->mtu, now, packet->size, packet->at);
            packet_lost(link, packet);
            note_missed(&d->reorder, generation->generation, number);
        } else {
            d->loss_at = tf_time_min(d->loss_at, packet->at + delay);
        }
    }
    tf_link_sent_settle(sent);
    if (any) {
        tf_link_congestion_lost(&d->cc, &route->rtt, now, latest);
    }
}

/* The path takes no base packets: a route that carries only small ones is none. */
static void judge_mtu(tf_link *link, tf_time now)
{
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    if (tf_link_mtu_judge(&link->datagram.mtu, now) == TF_LINK_MTU_TOO_SMALL && tf_link_route_is_live(route)) {
        tf_link_route_set(route, now, TF_VERDICT_DOWN);
        tf_link_route_forget_probes(route); /* they were small */
        tf_link_datagram_lost(link, now);
    }
}

static void detect_all(tf_link *link, tf_time now)
{
    link->datagram.loss_at = TF_NEVER;
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (link->datagram.generations[i].keys != TF_LINK_KEYS_NONE) {
            detect(link, now, &link->datagram.generations[i]);
        }
    }
    judge_mtu(link, now);
    update_outstanding(link, now);
}

/* --- acked --- */

tf_err tf_link_loss_judge(const tf_link *link, const tf_packet_ack *ack)
{
    size_t i = tf_link_datagram_find(link, ack->generation);
    if (i == TF_LINK_GENERATIONS) {
        return ack->generation > link->datagram.newest ? TF_ERR_PEER_ACK : TF_OK;
    }
    return ack->ranges[0].last < link->datagram.generations[i].sent.next ? TF_OK : TF_ERR_PEER_ACK;
}

/* The open packets of one range; true: one of them obliged the ack, and was as large as what it was to prove. */
static bool range_acked(tf_link *link, tf_time now, tf_link_sent *sent, tf_range range)
{
    bool any = false;
    uint64_t first = range.first < sent->oldest ? sent->oldest : range.first;
    for (uint64_t number = first; number <= range.last; number++) {
        tf_link_sent_packet *packet = tf_link_sent_at(sent, number);
        if (packet->open) {
            packet->open = false;
            link->datagram.acked_sent_at = tf_time_max(link->datagram.acked_sent_at, packet->at);
            tf_link_congestion_acked(&link->datagram.cc, packet->at, packet->bytes);
            count_fate(&link->datagram, packet, false);
            tf_link_mtu_acked(&link->datagram.mtu, now, packet->size, packet->at);
            segments_landed(link, packet, false);
            any = any || !packet->small;
            if (packet->runs_used > 0) {
                tf_link_watch_arrived(link, TF_ROUTE_DATAGRAM);
            }
        }
    }
    return any;
}

static void measure(tf_link *link, tf_time now, const tf_link_sent *sent, const tf_packet_ack *ack)
{
    uint64_t largest = ack->ranges[0].last;
    if (largest < sent->oldest || !tf_link_sent_at(sent, largest)->open) {
        return;
    }
    if (link->datagram.move.testing) {
        return; /* the ack may have come by a way that is not the route's */
    }
    tf_time sample = now - tf_link_sent_at(sent, largest)->at;
    tf_link_rtt_add(&link->routes[TF_ROUTE_DATAGRAM].rtt, sample, ack->delay);
}

void tf_link_loss_apply(tf_link *link, tf_time now, const tf_packet_ack *ack)
{
    size_t index = tf_link_datagram_find(link, ack->generation);
    if (index == TF_LINK_GENERATIONS) {
        return;
    }
    tf_link_sent *sent = &link->datagram.generations[index].sent;
    measure(link, now, sent, ack);
    learn_order(link, now, ack);
    bool any = false;
    for (size_t i = 0; i < ack->range_count; i++) {
        bool acked = range_acked(link, now, sent, ack->ranges[i]);
        any = any || acked;
    }
    if (!sent->any_acked || ack->ranges[0].last > sent->largest_acked) {
        sent->any_acked = true;
        sent->largest_acked = ack->ranges[0].last;
    }
    if (any) {
        tf_link_datagram_confirm(link, now, index);
    }
    detect_all(link, now);
}

/* --- time --- */

static tf_time pto_at(const tf_link *link)
{
    const tf_link_datagram *d = &link->datagram;
    if (d->cc.in_flight == 0) {
        return TF_NEVER;
    }
    unsigned doublings = d->backoff > 1 ? d->backoff - 1 : 0; /* the second one is not yet later than the first */
    tf_time pto = tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt);
    pto -= d->asked ? TF_LINK_ACK_DELAY - TF_ASKED_DELAY : 0;
    return d->last_eliciting + (pto << doublings);
}

/* No answer for so long, to so many packets that chance does not explain it. */
static tf_time stalls_at(const tf_link *link)
{
    const tf_link_datagram *d = &link->datagram;
    const tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    bool tried = d->backoff >= STALL_BACKOFF || d->eliciting - d->proved >= STALL_TRIES;
    if (route->verdict != TF_VERDICT_UP || !route->outstanding || !tried) {
        return TF_NEVER;
    }
    return route->progress_at + tf_link_rtt_stall(&route->rtt);
}

tf_time tf_link_loss_deadline(const tf_link *link)
{
    return tf_time_min(tf_time_min(link->datagram.loss_at, pto_at(link)), stalls_at(link));
}

/* Queues the segments of a run that are not acked; true: there were any. */
static bool queue_run(tf_link *link, const tf_link_run *run)
{
    bool any = false;
    for (uint64_t seq = run->first; seq < run->first + run->count; seq++) {
        if (!tf_link_ring_is_acked(&link->ring, seq)) {
            tf_link_ring_queue(&link->ring, seq, AGAIN_REPEATS);
            any = true;
        }
    }
    return any;
}

static bool queue_packet(tf_link *link, const tf_link_sent_packet *packet)
{
    bool any = false;
    for (size_t i = 0; packet->open && i < packet->runs_used; i++) {
        any = queue_run(link, &packet->runs[i]) || any;
    }
    return any;
}

/* Queues what the oldest packets in flight of a generation hold and is not acked. */
static void queue_oldest(tf_link *link, const tf_link_sent *sent)
{
    unsigned found = 0;
    for (uint64_t number = sent->oldest; number != sent->next && found < PROBES_OF_PTO; number++) {
        found += queue_packet(link, tf_link_sent_at(sent, number)) ? 1 : 0;
    }
}

static void probe_timeout(tf_link *link, tf_time now)
{
    tf_link_datagram *d = &link->datagram;
    d->backoff = d->backoff < BACKOFF_MAX ? d->backoff + 1 : BACKOFF_MAX;
    d->last_eliciting = now;
    d->probes = PROBES_OF_PTO;
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (d->generations[i].keys == TF_LINK_KEYS_CURRENT || d->generations[i].keys == TF_LINK_KEYS_RETIRING) {
            queue_oldest(link, &d->generations[i].sent);
        }
    }
    if (d->backoff == COLLAPSE_BACKOFF) {
        tf_link_congestion_collapse(&d->cc);
    }
}

static void stall(tf_link *link, tf_time now)
{
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    tf_link_route_set(route, now, TF_VERDICT_STALLED);
    if (!route->probing) {
        tf_link_route_probe(route, now);
    }
}

void tf_link_loss_tick(tf_link *link, tf_time now)
{
    if (link->datagram.loss_at <= now) {
        detect_all(link, now);
    }
    if (pto_at(link) <= now) {
        probe_timeout(link, now);
    }
    if (stalls_at(link) <= now) {
        stall(link, now);
    }
}
