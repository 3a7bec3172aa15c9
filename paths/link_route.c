#include "paths/link_route.h"

#define IDLE_KEEPALIVES 3u
#define WARY_DOUBLINGS 3u
_Static_assert(TF_WARY_MIN << WARY_DOUBLINGS == TF_WARY_MAX, "it doubles up to the maximum");
#define CLEAN_SPAN (5 * TF_SECOND) /* without a clean round trip for so long any other is better than none */

void tf_link_route_init(tf_link_route *route, const tf_link_config *config, tf_time now)
{
    *route = (tf_link_route){
        .verdict = TF_VERDICT_ABSENT,
        .since = now,
        .shown = TF_VERDICT_ABSENT,
        .shown_since = now,
        .reported = TF_VERDICT_ABSENT,
        .wary_until = TF_NEVER,
        .keepalive = config->keepalive,
        .idle_limit =
            config->peer_keepalive > TF_NEVER / IDLE_KEEPALIVES ? TF_NEVER : IDLE_KEEPALIVES * config->peer_keepalive,
        .last_sent = now,
        .last_received = now,
        .token = tf_rand_u64(config->rand),
    };
    tf_link_rtt_init(&route->rtt);
}

bool tf_link_route_is_live(const tf_link_route *route)
{
    return route->verdict == TF_VERDICT_UP || route->verdict == TF_VERDICT_STALLED;
}

static void show(tf_link_route *route, tf_time now)
{
    bool wary = route->verdict == TF_VERDICT_UP && route->wary_until != TF_NEVER;
    tf_verdict shown = wary ? TF_VERDICT_STALLED : route->verdict;
    if (route->shown != shown) {
        route->shown = shown;
        route->shown_since = now;
    }
}

/* One that was up and is no more. */
static void count_flip(tf_link_route *route, tf_time now)
{
    route->flips = route->flips > 0 && now - route->flip_at < TF_FLIP_SPAN ? route->flips + 1 : 1;
    route->flip_at = now;
}

/* For how long one that comes up again is not trusted. */
static tf_time wary_span(const tf_link_route *route)
{
    unsigned doublings = route->flips - TF_FLIPS;
    return doublings < WARY_DOUBLINGS ? TF_WARY_MIN << doublings : TF_WARY_MAX;
}

void tf_link_route_set(tf_link_route *route, tf_time now, tf_verdict verdict)
{
    if (route->verdict == verdict) {
        return;
    }
    if (route->verdict == TF_VERDICT_UP) {
        count_flip(route, now);
    }
    route->verdict = verdict;
    route->since = now;
    bool wary = verdict == TF_VERDICT_UP && route->flips >= TF_FLIPS && now - route->flip_at < TF_FLIP_SPAN;
    route->wary_until = wary ? now + wary_span(route) : TF_NEVER;
    show(route, now);
    if (verdict == TF_VERDICT_DOWN) {
        route->downs++;
        route->down_delay = tf_time_min(tf_link_rtt_probe(&route->rtt), TF_PROBE_DOWN_SOON);
        route->probe_at = now;
        route->probe_wanted = false;
    }
    if (verdict == TF_VERDICT_UP) {
        tf_link_route_probe(route, now);
    }
}

void tf_link_route_start(tf_link_route *route, tf_time now, tf_verdict verdict)
{
    route->last_received = now;
    route->probing = false;
    route->unanswered = 0;
    tf_link_route_set(route, now, verdict);
    route->outstanding = false;
    route->progress_at = now;
}

void tf_link_route_received(tf_link_route *route, tf_time now)
{
    route->last_received = now;
    route->heard_at = now;
}

void tf_link_route_sent(tf_link_route *route, tf_time now)
{
    route->last_sent = now;
}

void tf_link_route_traffic(tf_link_route *route)
{
    route->traffic = true;
}

bool tf_link_route_proved(tf_link_route *route, tf_time now)
{
    route->probing = false;
    route->unanswered = 0;
    if (route->verdict != TF_VERDICT_DOWN) {
        return false;
    }
    route->last_received = now;
    route->progress_at = now;
    tf_link_route_set(route, now, TF_VERDICT_UP);
    return true;
}

/* --- probes --- */

void tf_link_route_probe(tf_link_route *route, tf_time now)
{
    route->probe_wanted = true;
    route->probing = true;
    route->traffic = false;
    route->probe_at = now;
}

uint64_t tf_link_route_take_probe(tf_link_route *route, tf_time now)
{
    uint64_t probe = route->probes++;
    route->probe_wanted = false;
    route->probe_times[probe % TF_LINK_PROBE_TIMES] = now;
    route->probe_rtts[probe % TF_LINK_PROBE_TIMES] = TF_NEVER;
    return route->token + probe;
}

void tf_link_route_forget_probes(tf_link_route *route)
{
    route->token += route->probes;
    route->probes = 0;
}

/* The answer to a probe that waited in a hole tells the length of the hole. One is clean if the route was up all the time
 * in between; the first clean one after others starts the estimate anew. */
static void measure(tf_link_route *route, tf_time now, tf_time sent_at)
{
    bool clean = route->verdict == TF_VERDICT_UP && sent_at >= route->since;
    if (!clean && route->rtt.measured && now - route->clean_at < CLEAN_SPAN) {
        return;
    }
    if (clean && route->stretched) {
        tf_link_rtt_restart(&route->rtt);
    }
    route->stretched = !clean;
    route->clean_at = clean ? now : route->clean_at;
    tf_link_rtt_add(&route->rtt, now - sent_at, 0);
}

bool tf_link_route_pong(tf_link_route *route, tf_time now, uint64_t token)
{
    uint64_t probe = token - route->token;
    if (probe >= route->probes) {
        return false;
    }
    if (route->probes - probe <= TF_LINK_PROBE_TIMES) {
        tf_time sent_at = route->probe_times[probe % TF_LINK_PROBE_TIMES];
        tf_time *rtt = &route->probe_rtts[probe % TF_LINK_PROBE_TIMES];
        *rtt = tf_time_min(*rtt, now - sent_at);
        measure(route, now, sent_at);
    }
    return true;
}

void tf_link_route_pinged(tf_link_route *route, uint64_t token)
{
    if (route->pong_count == TF_LINK_PONGS) {
        memmove(&route->pongs[0], &route->pongs[1], (TF_LINK_PONGS - 1) * sizeof(route->pongs[0]));
        route->pong_count--;
    }
    route->pongs[route->pong_count++] = token;
}

/* --- data --- */

void tf_link_route_outstanding(tf_link_route *route, tf_time now, bool outstanding)
{
    if (outstanding && !route->outstanding) {
        route->progress_at = now;
    }
    route->outstanding = outstanding;
}

void tf_link_route_progress(tf_link_route *route, tf_time now)
{
    route->progress_at = now;
}

/* --- time --- */

static tf_time probe_due(const tf_link_route *route)
{
    if (!route->reachable) {
        return TF_NEVER;
    }
    if (route->verdict == TF_VERDICT_DOWN) {
        return route->probe_at + route->down_delay;
    }
    if (!tf_link_route_is_live(route)) {
        return TF_NEVER;
    }
    tf_time due = tf_time_add(route->last_sent, route->keepalive);
    if (route->probing || route->traffic) {
        due = tf_time_min(due, route->probe_at + tf_link_rtt_probe(&route->rtt));
    }
    return due;
}

tf_time tf_link_route_deadline(const tf_link_route *route)
{
    tf_time due = tf_time_min(probe_due(route), route->wary_until);
    if (tf_link_route_is_live(route)) {
        due = tf_time_min(due, tf_time_add(route->last_received, route->idle_limit));
    }
    return due;
}

static void tick_down(tf_link_route *route, tf_time now)
{
    tf_time most = now - route->since < TF_PROBE_SOON_SPAN ? TF_PROBE_DOWN_SOON : TF_PROBE_DOWN_LATE;
    route->down_delay = tf_time_min(2 * route->down_delay, most);
    tf_link_route_probe(route, now);
}

static void tick_live(tf_link_route *route, tf_time now)
{
    if (route->probing && now - route->probe_at >= tf_link_rtt_probe(&route->rtt)) {
        route->unanswered++;
        if (route->unanswered >= TF_PROBES_DOWN) {
            tf_link_route_set(route, now, TF_VERDICT_DOWN);
            return;
        }
    }
    tf_link_route_probe(route, now);
    if (now - route->last_sent >= route->keepalive) {
        route->last_sent = now; /* asked for: the next one is due a whole interval later, sent or not */
    }
}

void tf_link_route_tick(tf_link_route *route, tf_time now)
{
    if (route->wary_until <= now) {
        route->wary_until = TF_NEVER;
        show(route, now);
    }
    if (tf_link_route_is_live(route) && now - route->last_received >= route->idle_limit) {
        tf_link_route_set(route, now, TF_VERDICT_DOWN);
        return;
    }
    if (probe_due(route) > now) {
        return;
    }
    if (route->verdict == TF_VERDICT_DOWN) {
        tick_down(route, now);
    } else {
        tick_live(route, now);
    }
}
