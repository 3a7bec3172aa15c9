/* Redundancy that is lost and does not show: what we send by a route does not arrive, or nothing of what the peer sends
 * comes by it, while the other route does its work. (IEEE 802.1CB calls the like of it a latent error test.)
 *
 * Each direction is judged for itself. Outwards by the peer's packet acks and counts, so that the other end's choices do
 * not matter. Inwards by anything at all that comes: copies that do not come may be a standby route of the peer, or shed, but
 * an answer to a probe must. First there is suspicion, which is answered by probes; if that goes on, it is told, once. */
#include "paths/link_private.h"

static void watch_begin(tf_link_watch *watch, tf_time now, uint64_t tries)
{
    if (watch->since == TF_NEVER) {
        watch->since = now;
        watch->tries = tries;
        watch->fed_at = now;
        watch->check_at = now + TF_REDUNDANCY_SUSPECT;
    }
}

static void watch_end(tf_link_watch *watch)
{
    *watch = (tf_link_watch){.since = TF_NEVER, .check_at = TF_NEVER};
}

void tf_link_watch_reset(tf_link *link, tf_route route)
{
    watch_end(&link->watch_out[route]);
    watch_end(&link->watch_in[route]);
}

void tf_link_watch_init(tf_link *link)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_link_watch_reset(link, (tf_route)i);
    }
}

void tf_link_watch_sent(tf_link *link, tf_time now, tf_route route)
{
    watch_begin(&link->watch_out[route], now, link->datagram.with_data);
    link->watch_out[route].fed_at = now;
}

void tf_link_watch_arrived(tf_link *link, tf_route route)
{
    watch_end(&link->watch_out[route]);
}

void tf_link_watch_received(tf_link *link, tf_time now, tf_route route)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        bool expected = link->routes[i].reachable && (link->config.recv_data & (1u << i)) != 0;
        if (i != (size_t)route && expected) {
            watch_begin(&link->watch_in[i], now, link->routes[i].probes);
            link->watch_in[i].fed_at = now;
        }
    }
}

void tf_link_watch_probed(tf_link *link, tf_time now, tf_route route)
{
    watch_begin(&link->watch_in[route], now, link->routes[route].probes);
}

void tf_link_watch_heard(tf_link *link, tf_route route)
{
    watch_end(&link->watch_in[route]);
}

/* --- judging --- */

/* So many packets are not lost by chance: of those with segments, or of any since the route last answered. A stream loses
 * nothing by itself. */
static bool is_proved_out(const tf_link *link, tf_route route)
{
    const tf_link_datagram *d = &link->datagram;
    return route == TF_ROUTE_STREAM || d->with_data - link->watch_out[route].tries >= TF_REDUNDANCY_TRIES ||
           d->eliciting - d->proved >= TF_REDUNDANCY_TRIES;
}

static bool is_proved_in(const tf_link *link, tf_route route)
{
    return link->routes[route].probes - link->watch_in[route].tries >= TF_REDUNDANCY_PROBES;
}

static bool others_heard(const tf_link *link, tf_route route, tf_time since)
{
    bool any = false;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        any = any || (i != (size_t)route && link->routes[i].heard_at > since);
    }
    return any;
}

static tf_time span(const tf_link *link, tf_route route)
{
    return tf_time_max(TF_REDUNDANCY_SPAN, TF_REDUNDANCY_PROBES * tf_link_rtt_probe(&link->routes[route].rtt));
}

static void check(tf_link *link, tf_time now, tf_route route, tf_link_watch *watch, bool proved)
{
    tf_link_route *r = &link->routes[route];
    watch->check_at = now + TF_PROBE_MIN;
    if (now - watch->fed_at >= 2 * span(link, route)) {
        watch_end(watch); /* there is no more traffic to judge by */
    } else if (now - watch->since >= span(link, route) && proved && others_heard(link, route, watch->since)) {
        watch->check_at = TF_NEVER;
        tf_routes *told = watch == &link->watch_in[route] ? &link->events.lost_in : &link->events.lost_out;
        *told |= (tf_routes)(1u << route);
    } else if (tf_link_route_is_live(r) && !r->probing) {
        tf_link_route_probe(r, now);
    }
}

tf_time tf_link_watch_deadline(const tf_link *link)
{
    tf_time due = TF_NEVER;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        due = tf_time_min(due, tf_time_min(link->watch_out[i].check_at, link->watch_in[i].check_at));
    }
    return due;
}

void tf_link_watch_tick(tf_link *link, tf_time now)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_route route = (tf_route)i;
        if (link->watch_out[i].check_at <= now) {
            check(link, now, route, &link->watch_out[i], is_proved_out(link, route));
        }
        if (link->watch_in[i].check_at <= now) {
            check(link, now, route, &link->watch_in[i], is_proved_in(link, route));
        }
    }
}
