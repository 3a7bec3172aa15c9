/* The generations of datagram keys as the link sees them: which one packets go out under, which are challenged, and when
 * the keys of an old one can be erased. RTT and congestion state belong to the slot, not to them. */
#include "paths/link_private.h"

size_t tf_link_datagram_find(const tf_link *link, uint64_t number)
{
    size_t i = 0;
    while (i < TF_LINK_GENERATIONS && (link->datagram.generations[i].keys == TF_LINK_KEYS_NONE ||
                                       link->datagram.generations[i].generation != number)) {
        i++;
    }
    return i;
}

static tf_link_generation *with_keys(tf_link *link, tf_link_keys keys)
{
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (link->datagram.generations[i].keys == keys) {
            return &link->datagram.generations[i];
        }
    }
    return NULL;
}

/* Its keys can be erased; what was sent under them and is not acked counts as lost. */
static void retire(tf_link *link, tf_time now, tf_link_generation *generation)
{
    if (generation == NULL) {
        return;
    }
    tf_link_loss_all(link, now, generation);
    tf_link_mtu_forget(&link->datagram.mtu);
    tf_link_sent_free(&generation->sent);
    TF_ASSERT(link->events.retired_count < TF_LINK_RETIRED);
    link->events.retired[link->events.retired_count++] = generation->generation;
    uint8_t mask = (uint8_t) ~(1u << (size_t)(generation - link->datagram.generations));
    for (size_t route = 0; route < TF_ROUTE_COUNT; route++) {
        link->owed[route].packets &= mask;
    }
    generation->keys = TF_LINK_KEYS_NONE;
}

void tf_link_datagram_up(tf_link *link, tf_time now, uint64_t number)
{
    tf_link_enter(link, now);
    if (tf_link_datagram_find(link, number) < TF_LINK_GENERATIONS) {
        return;
    }
    retire(link, now, with_keys(link, TF_LINK_KEYS_UNCONFIRMED));
    tf_link_generation *generation = with_keys(link, TF_LINK_KEYS_NONE);
    TF_ASSERT(generation != NULL);
    *generation = (tf_link_generation){
        .keys = TF_LINK_KEYS_UNCONFIRMED,
        .generation = number,
        .challenge = tf_rand_u64(link->config.rand),
        .challenge_wanted = true,
        .challenge_since = now,
        .challenge_delay = tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt),
        .challenge_at = now + tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt),
        .retire_at = TF_NEVER,
    };
    tf_link_sent_init(&generation->sent, link->config.mem);
    if (number > link->datagram.newest) {
        link->datagram.newest = number;
    }
    tf_link_recv_generation(&link->recv, TF_ROUTE_DATAGRAM, number);
    if (link->routes[TF_ROUTE_DATAGRAM].verdict == TF_VERDICT_ABSENT) {
        tf_link_route_set(&link->routes[TF_ROUTE_DATAGRAM], now, TF_VERDICT_JOINING);
    }
    tf_link_settle(link, now);
}

/* The old keys go some time after both directions were seen to work under the new ones. */
static void consider_retiring(tf_link *link, tf_time now)
{
    const tf_link_generation *current = with_keys(link, TF_LINK_KEYS_CURRENT);
    tf_link_generation *old = with_keys(link, TF_LINK_KEYS_RETIRING);
    if (old != NULL && current != NULL && current->acked && current->opened && old->retire_at == TF_NEVER) {
        old->retire_at = now + TF_KEYS_RETIRE_PTOS * tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt);
    }
}

void tf_link_datagram_confirm(tf_link *link, tf_time now, size_t index)
{
    tf_link_generation *generation = &link->datagram.generations[index];
    generation->acked = true;
    if (generation->keys == TF_LINK_KEYS_UNCONFIRMED) {
        retire(link, now, with_keys(link, TF_LINK_KEYS_RETIRING));
        tf_link_generation *old = with_keys(link, TF_LINK_KEYS_CURRENT);
        if (old != NULL) {
            old->keys = TF_LINK_KEYS_RETIRING;
        }
        generation->keys = TF_LINK_KEYS_CURRENT;
        link->events.confirmed = true;
        link->events.confirmed_generation = generation->generation;
        link->routes[TF_ROUTE_DATAGRAM].reachable = true;
        tf_link_watch_reset(link, TF_ROUTE_DATAGRAM);
        tf_link_mtu_restart(&link->datagram.mtu); /* its packets may go another way */
    }
    tf_link_datagram_proved(link, now);
    consider_retiring(link, now);
}

void tf_link_datagram_opened(tf_link *link, tf_time now, size_t index)
{
    link->datagram.generations[index].opened = true;
    consider_retiring(link, now);
}

void tf_link_datagram_response(tf_link *link, tf_time now, uint64_t token)
{
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        const tf_link_generation *generation = &link->datagram.generations[i];
        if (generation->keys == TF_LINK_KEYS_UNCONFIRMED && generation->challenge == token) {
            tf_link_datagram_confirm(link, now, i);
        }
    }
}

void tf_link_datagram_challenge(tf_link *link, tf_time now)
{
    tf_link_generation *generation = with_keys(link, TF_LINK_KEYS_UNCONFIRMED);
    if (generation != NULL) {
        generation->challenge_wanted = true;
        generation->challenge_delay = tf_link_rtt_pto(&link->routes[TF_ROUTE_DATAGRAM].rtt);
        generation->challenge_at = now + generation->challenge_delay;
    }
}

/* --- the route as a whole --- */

void tf_link_datagram_proved(tf_link *link, tf_time now)
{
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    tf_link_datagram *d = &link->datagram;
    bool revived = tf_link_route_proved(route, now);
    d->backoff = 0;
    d->proved = d->eliciting;
    if (route->verdict == TF_VERDICT_JOINING) {
        tf_link_route_start(route, now, TF_VERDICT_UP);
        revived = true;
    }
    if (revived) {
        tf_link_congestion_restart(&d->cc);
        tf_link_mtu_restart(&d->mtu);
    }
    if (route->verdict == TF_VERDICT_STALLED) {
        tf_link_route_set(route, now, TF_VERDICT_UP);
    }
    tf_link_route_progress(route, now);
}

void tf_link_datagram_lost(tf_link *link, tf_time now)
{
    tf_link_datagram *d = &link->datagram;
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        if (d->generations[i].keys != TF_LINK_KEYS_NONE && d->generations[i].keys != TF_LINK_KEYS_UNCONFIRMED) {
            tf_link_loss_all(link, now, &d->generations[i]);
        }
    }
    tf_link_mtu_forget(&d->mtu);
    d->probes = 0;
    d->backoff = 0;
}

void tf_link_datagram_down(tf_link *link, tf_time now)
{
    tf_link_enter(link, now);
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    if (route->verdict != TF_VERDICT_ABSENT) {
        tf_link_route_set(route, now, TF_VERDICT_DOWN);
        tf_link_datagram_lost(link, now);
    }
    tf_link_settle(link, now);
}

void tf_link_datagram_refused(tf_link *link, tf_time now, size_t size)
{
    tf_link_enter(link, now);
    tf_link_mtu_refused(&link->datagram.mtu, now, size);
    tf_link_loss_refused(link, now, size);
    tf_link_settle(link, now);
}

/* --- time --- */

tf_time tf_link_datagram_deadline(const tf_link *link)
{
    const tf_link_datagram *d = &link->datagram;
    tf_time due = tf_time_min(d->paced_at, tf_link_mtu_deadline(&d->mtu));
    due = tf_time_min(due, tf_link_datagram_overdue_at(link));
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        const tf_link_generation *generation = &d->generations[i];
        if (generation->keys == TF_LINK_KEYS_UNCONFIRMED) {
            due = tf_time_min(due, generation->challenge_at);
        } else if (generation->keys == TF_LINK_KEYS_RETIRING) {
            due = tf_time_min(due, generation->retire_at);
        }
    }
    return due;
}

static void tick_challenge(tf_link *link, tf_time now, tf_link_generation *generation)
{
    tf_time most = now - generation->challenge_since < TF_PROBE_SOON_SPAN ? TF_PROBE_DOWN_SOON : TF_PROBE_DOWN_LATE;
    generation->challenge_wanted = true;
    generation->challenge_delay = tf_time_min(2 * generation->challenge_delay, most);
    generation->challenge_at = now + generation->challenge_delay;
    generation->challenges++;
    tf_link_route *route = &link->routes[TF_ROUTE_DATAGRAM];
    if (route->verdict == TF_VERDICT_JOINING && generation->challenges >= TF_PROBES_DOWN) {
        tf_link_route_set(route, now, TF_VERDICT_DOWN);
    }
}

void tf_link_datagram_tick(tf_link *link, tf_time now)
{
    tf_link_datagram *d = &link->datagram;
    if (d->paced_at <= now) {
        d->paced_at = TF_NEVER;
    }
    tf_link_datagram_overdue(link, now);
    if (tf_link_mtu_tick(&d->mtu, now) && !link->routes[TF_ROUTE_DATAGRAM].probing) {
        tf_link_route_probe(&link->routes[TF_ROUTE_DATAGRAM], now);
    }
    for (size_t i = 0; i < TF_LINK_GENERATIONS; i++) {
        tf_link_generation *generation = &d->generations[i];
        if (generation->keys == TF_LINK_KEYS_UNCONFIRMED && generation->challenge_at <= now) {
            tick_challenge(link, now, generation);
        } else if (generation->keys == TF_LINK_KEYS_RETIRING && generation->retire_at <= now) {
            retire(link, now, generation);
        }
    }
}
