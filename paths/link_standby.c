/* The copy policy: a standby route takes our segments only while no other route flows, and goes back some time after one
 * flows again. It is our choice alone; the peer is not told, and does not need to be (link_watch.c). */
#include "paths/link_private.h"

/* A route that is the only one for messages is no standby. */
static bool is_standby(const tf_link *link, tf_route route)
{
    tf_routes standby = link->config.standby & link->config.send_data;
    return standby != link->config.send_data && (standby & (1u << route)) != 0;
}

bool tf_link_standby_holds(const tf_link *link, tf_route route)
{
    return is_standby(link, route) && !link->standby[route].released;
}

bool tf_link_is_flowing(const tf_link *link, tf_route route)
{
    bool transport = route == TF_ROUTE_STREAM ? link->stream.up : link->routes[route].reachable;
    return tf_link_may_send_data(link, route) && transport && link->routes[route].shown == TF_VERDICT_UP;
}

/* It begins with what is unacked now: what was acked meanwhile was never meant for it. */
static void release(tf_link *link, tf_time now, tf_route route)
{
    link->standby[route].released = true;
    uint64_t *next = route == TF_ROUTE_STREAM ? &link->stream.next : &link->datagram.next;
    if (*next < link->ring.floor) {
        *next = link->ring.floor;
    }
    tf_link_stream_outstanding(link, now);
}

static void update(tf_link *link, tf_time now, tf_route route)
{
    tf_link_standby *standby = &link->standby[route];
    bool others = false;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        others = others || (i != (size_t)route && tf_link_is_flowing(link, (tf_route)i));
    }
    if (!others) {
        standby->back_at = TF_NEVER;
        if (!standby->released) {
            release(link, now, route);
        }
    } else if (standby->released && standby->back_at == TF_NEVER) {
        standby->back_at = now + TF_STANDBY_BACK;
    } else if (standby->back_at <= now) {
        standby->back_at = TF_NEVER;
        standby->released = false;
        tf_link_stream_outstanding(link, now);
    }
}

void tf_link_standby_update(tf_link *link, tf_time now)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (is_standby(link, (tf_route)i)) {
            update(link, now, (tf_route)i);
        }
    }
}

void tf_link_standby_measure(tf_link *link, tf_time now)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_link_route *route = &link->routes[i];
        if (tf_link_standby_holds(link, (tf_route)i) && tf_link_route_is_live(route) && !route->probing &&
            now - route->probe_at >= TF_STANDBY_PROBE) {
            tf_link_route_probe(route, now);
        }
    }
}

tf_time tf_link_standby_deadline(const tf_link *link)
{
    tf_time due = TF_NEVER;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        due = tf_time_min(due, link->standby[i].back_at);
    }
    return due;
}
