#include "tests/sim/nodes/world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/nodes/checks.h"

#define BEGIN_AFTER (50 * TF_MS)
#define BEGIN_AFTER_HEALTHY (2500 * TF_MS)
#define CONVERGE_STEP (500 * TF_MS)
#define CONVERGE_STEPS 900u
#define QUIET_AFTER (25 * TF_SECOND)
#define SILENT_SPAN (60 * TF_SECOND)
/* A keepalive (10 s) may be the first that a peer sends from a new address; what fills a slow pipe has to drain; and a
 * route that has flapped is not trusted for up to TF_WARY_MAX, perhaps twice. */
#define ROUTES_STEPS 45u
#define SETTLE_STEPS 180u
#define LATE_MAX (5 * TF_MS)
#define REPAIRS 15u /* 1 + 2 + 4 + 8: five losses of the same are too rare to be seen */
#define REPAIR_LEAST (30 * TF_MS)
#define LOOKUP_SPAN TF_SECOND
#define ALL_SPAN TF_SECOND

tf_time world_now(const world *w)
{
    return cluster_now(w->cluster);
}

relay *world_relay_of(const view *v)
{
    return &v->w->relays[v->member->homes[v->home]];
}

tf_client *world_client_of(const view *v)
{
    return v->member->node->clients[v->home];
}

tf_time world_way(const view *v, unsigned end)
{
    return v->member->bases[v->home][end].path.delay;
}

/* A datagram route that is well may have had more to copy than its pace allows, and has left that to the stream; what does
 * not come by it is sent after all, a little later. */
static tf_time left_to_stream(const world *w)
{
    tf_time most = 0;
    for (size_t i = 0; w->plan.well == TF_ROUTE_DATAGRAM && i < cluster_bearer_count(w->cluster); i++) {
        const bearer *b = cluster_bearer(w->cluster, i);
        for (unsigned end = 0; end < NET_ENDS && bearer_conn(b, end) != NULL; end++) {
            tf_link_stats stats;
            tf_link_get_stats(tf_conn_link(bearer_conn(b, end)), &stats);
            const tf_route_stats *datagram = &stats.routes[TF_ROUTE_DATAGRAM];
            most = datagram->shed > 0 ? tf_time_max(most, 4 * datagram->srtt + TF_COPY_OVERDUE) : most;
        }
    }
    return most;
}

/* What is lost is repaired after a round trip and a bit, and after twice as long each time that the repair is lost as well. */
static tf_time repaired(const world *w)
{
    tf_time most = 0;
    if (w->plan.loss == 0) {
        return 0;
    }
    for (size_t i = 0; i < cluster_bearer_count(w->cluster); i++) {
        most = tf_time_max(most, w->base[i][0].path.delay + w->base[i][1].path.delay);
    }
    return REPAIRS * (most * 5 / 4 + REPAIR_LEAST);
}

void world_check_late(world *w, const view *v, tf_time begun, tf_time way)
{
    tf_time took = world_now(w) - begun;
    if (!w->plan.healthy) {
        return;
    }
    tf_time late = took > way ? took - way : 0;
    if (w->plan.loss == 0) {
        w->latest = tf_time_max(w->latest, late);
    }
    if (late > LATE_MAX && late > LATE_MAX + left_to_stream(w) + repaired(w)) {
        world_fail(w, "something is late (P3)", "%s %s: by %" PRIu64 " us, on a way of %" PRIu64 " us", v->member->name,
                   v->ledger->name, (uint64_t)late, (uint64_t)way);
    }
}

/* -- what applications do ------------------------------------------------------------------------------------------ */

static void refused(view *v, const tf_client_event *event)
{
    bool forbidden = tf_slice_eq(event->code, tf_refusal_code(TF_REFUSAL_FORBIDDEN)) ||
                     tf_slice_eq(event->code, tf_refusal_code(TF_REFUSAL_CHANNEL_NOT_FOUND)); /* nor may it make one */
    if (!forbidden || !v->ledger->relay->forbade) {
        world_fail(v->w, "a channel is refused", "%s %s: %.*s", v->member->name, v->ledger->name, (int)event->code.len,
                   (const char *)event->code.data);
    }
    world_say(v->w, "%s %s is refused", v->member->name, v->ledger->name);
    v->refused = true;
}

static void handle(world *w, view *v, const tf_client_event *event)
{
    switch (event->type) {
    case TF_CLIENT_ACK:
        publisher_acked(v, event);
        break;
    case TF_CLIENT_REFUSED:
        publisher_refused(v, event);
        break;
    case TF_CLIENT_CHANNEL_REFUSED:
        refused(v, event);
        break;
    case TF_CLIENT_SUBSCRIBED:
        subscriber_told(v, event);
        break;
    case TF_CLIENT_ACTIVITY:
        subscriber_came(v, event);
        break;
    case TF_CLIENT_GAP:
        subscriber_gap(v, event);
        break;
    case TF_CLIENT_ENDED:
        subscriber_ended(v, event);
        break;
    case TF_CLIENT_CONFIRMED:
        subscriber_confirmed(v, event);
        break;
    case TF_CLIENT_OPENED:
    case TF_CLIENT_CLOSED:
    case TF_CLIENT_ROOM:
        break;
    case TF_CLIENT_ANSWER:
    case TF_CLIENT_PUBLISHED:
    case TF_CLIENT_PUBLISH_REFUSED:
    case TF_CLIENT_WITHDRAWN:
        objects_told(w, v->member, event);
        break;
    }
}

/* The view of that handle; the first one for what is of no channel. */
static view *view_of(const world *w, member *m, unsigned home, size_t handle)
{
    for (unsigned i = 0; i < w->plan.channels; i++) {
        if (m->views[home][i].handle == handle) {
            return &m->views[home][i];
        }
    }
    return &m->views[home][0];
}

/* What was ended for nothing that lasts is asked for again. */
static void go_on(view *v)
{
    publisher_flush(v);
    if (v->sub.ended && !v->ledger->relay->forbids) {
        subscriber_leave(v);
    }
    if (!v->member->away[v->home][v->channel]) {
        subscriber_join(v);
    }
}

void world_pull(world *w, member *m)
{
    tf_client_event event;
    for (unsigned home = 0; home < m->home_count && m->node->state == NODE_UP; home++) {
        while (tf_client_next_event(m->node->clients[home], &event)) {
            cluster_mix(w->cluster, (uint64_t)event.type * 1000003u + event.seq);
            handle(w, view_of(w, m, home, event.channel), &event);
        }
        for (unsigned i = 0; i < w->plan.channels; i++) {
            go_on(&m->views[home][i]);
        }
    }
    objects_pull(w, m);
}

/* -- what the cluster tells ---------------------------------------------------------------------------------------- */

static void start_relay(world *w, relay *r)
{
    world_apply_rights(w, r);
    world_apply_keep(w, r);
    for (unsigned i = 0; i < w->plan.channels; i++) {
        ledger_reopen(&r->ledgers[i]);
    }
}

static void start_view(view *v)
{
    tf_err err = tf_client_open(world_client_of(v), world_now(v->w), tf_slice_str(v->ledger->name), &v->handle);
    if (err != TF_OK) {
        world_fail(v->w, "a channel was not opened", "%s", tf_err_text(err));
    }
    v->refused = false;
    subscriber_start(v);
    publisher_start(v);
}

static void on_started(void *ctx, sim_node *node)
{
    world *w = ctx;
    world_say(w, "%s starts", node->config.name);
    if (node->is_relay) {
        start_relay(w, node->config.user);
        return;
    }
    member *m = node->config.user;
    for (unsigned home = 0; home < m->home_count; home++) {
        for (unsigned i = 0; i < w->plan.channels; i++) {
            start_view(&m->views[home][i]);
        }
    }
    objects_start(w, m);
}

static void on_ending(void *ctx, sim_node *node)
{
    world *w = ctx;
    world_say(w, "%s ends", node->config.name);
    if (node->is_relay) {
        return;
    }
    member *m = node->config.user;
    for (unsigned home = 0; home < m->home_count; home++) {
        for (unsigned i = 0; i < w->plan.channels; i++) {
            publisher_end(&m->views[home][i]);
            subscriber_end(&m->views[home][i]);
        }
    }
}

static void on_turn(void *ctx, sim_node *node)
{
    world *w = ctx;
    if (node->is_relay) {
        relay *r = node->config.user;
        r->changed = true;
        return;
    }
    member *m = node->config.user;
    if (world_now(w) >= m->pull_at) {
        world_pull(w, m);
    }
}

static void on_session(void *ctx, bearer *b, unsigned end, bearer_event_type type, const char *why)
{
    static const char *const names[] = {"has a new session", "goes on with its session", "has lost its session"};
    world *w = ctx;
    world_say(w, "%s %s with %s%s%s", cluster_end(w->cluster, b, end)->config.name, names[type],
              cluster_end(w->cluster, b, 1 - end)->config.name, why == NULL ? "" : ": ", why == NULL ? "" : why);
    if (type != BEARER_LOST) {
        return;
    }
    w->losses++;
    if (w->plan.healthy && w->begin != TF_NEVER && !w->ends) {
        world_fail(w, "a session is lost (P3)", "%s with %s: %s", cluster_end(w->cluster, b, end)->config.name,
                   cluster_end(w->cluster, b, 1 - end)->config.name, why == NULL ? "" : why);
    }
}

static void on_failed(void *ctx, const char *what)
{
    world_fail(ctx, "the cluster", "%s", what);
}

static void on_check(void *ctx)
{
    world *w = ctx;
    for (unsigned i = 0; i < w->plan.relays; i++) {
        relay *r = &w->relays[i];
        int64_t wall_ms = cluster_wall_ms(w->cluster, r->node);
        r->latest_ms = wall_ms > r->latest_ms ? wall_ms : r->latest_ms;
        for (unsigned k = 0; r->changed && k < w->plan.channels; k++) {
            ledger_look(&r->ledgers[k]);
        }
        r->changed = false;
    }
    checks_bounds(w);
}

/* What is due of the steps; when the next one is. */
static tf_time play(world *w, tf_time now)
{
    while (w->begin != TF_NEVER && w->next_moment < w->moment_count) {
        const moment *m = &w->moments[w->next_moment];
        if (m->at + w->begin > now) {
            return m->at + w->begin;
        }
        w->next_moment++;
        if (m->begins) {
            world_begin_step(w, &w->steps[m->step]);
        } else {
            world_end_step(w, &w->steps[m->step]);
        }
    }
    return TF_NEVER;
}

static tf_time on_act(void *ctx, tf_time now)
{
    world *w = ctx;
    tf_time next = play(w, now);
    objects_act(w, now);
    next = tf_time_min(next, objects_due(w));
    for (unsigned i = 0; i < w->plan.clients; i++) {
        member *m = &w->members[i];
        if (m->pull_at > now) {
            next = tf_time_min(next, m->pull_at);
        } else if (m->pull_at > 0) {
            m->pull_at = 0;
            world_pull(w, m);
        }
    }
    return next;
}

/* -- a seed -------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    const moment *x = a;
    const moment *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->step < y->step ? -1 : x->step > y->step;
}

/* A burst is some short holes: as many moments. */
static void make_moments(world *w, size_t count)
{
    w->moment_count = 0;
    w->next_moment = 0;
    for (size_t i = 0; i < count; i++) {
        const step *s = &w->steps[i];
        unsigned times = s->kind == STEP_BURST ? 4 : 1;
        tf_time part = s->span / times + 2;
        for (unsigned k = 0; k < times; k++) {
            w->moments[w->moment_count++] = (moment){s->at + k * part, i, true};
            w->moments[w->moment_count++] = (moment){s->at + k * part + (times > 1 ? part / 2 : part), i, false};
        }
    }
    qsort(w->moments, w->moment_count, sizeof(w->moments[0]), compare);
}

static void set_up(world *w)
{
    w->handlers = (cluster_handlers){.ctx = w,
                                     .started = on_started,
                                     .ending = on_ending,
                                     .turn = on_turn,
                                     .act = on_act,
                                     .check = on_check,
                                     .session = on_session,
                                     .failed = on_failed};
    w->begin = TF_NEVER;
    world_cast(w);
    objects_init(w);
    for (size_t i = 0; i < cluster_node_count(w->cluster); i++) {
        cluster_start(w->cluster, cluster_node(w->cluster, i));
    }
}

static void run_for(world *w, tf_time span)
{
    (void)cluster_run(w->cluster, world_now(w) + span);
}

static const view *not_done(const world *w)
{
    for (size_t i = 0; i < w->view_count; i++) {
        const view *v = &w->views[i];
        if (!publisher_is_done(v) || !subscriber_is_done(v)) {
            return v;
        }
    }
    return NULL;
}

static const bearer *not_joined(const world *w)
{
    for (size_t i = 0; i < cluster_bearer_count(w->cluster); i++) {
        const bearer *b = cluster_bearer(w->cluster, i);
        if (!bearer_is_carrying(b)) {
            return b;
        }
    }
    return NULL;
}

static void converge(world *w)
{
    unsigned steps = 0;
    do { /* at least one, so that what was asked before has its answer */
        world_restart_refused(w);
        run_for(w, CONVERGE_STEP);
        steps++;
    } while (steps < CONVERGE_STEPS && (not_done(w) != NULL || not_joined(w) != NULL));
    world_restart_refused(w);
    const bearer *apart = not_joined(w);
    if (apart != NULL) {
        world_fail(w, "never joined again", "%s with %s", cluster_end(w->cluster, apart, 0)->config.name,
                   cluster_end(w->cluster, apart, 1)->config.name);
    }
    const view *v = not_done(w);
    if (v == NULL) {
        return;
    }
    for (unsigned i = 1; i <= v->pub.made; i++) {
        if (v->pub.sends[i].state == SENT_WAITING) {
            world_fail(w, "never answered", "%s %s: send %u of %u", v->member->name, v->ledger->name, i, v->pub.made);
        }
    }
    world_fail(w, "never delivered (P2)", "%s %s: next %" PRIu64 ", head %" PRIu64 "%s%s", v->member->name,
               v->ledger->name, v->sub.next, v->ledger->head, v->sub.told ? "" : ", not subscribed",
               v->sub.ended ? ", ended" : "");
}

/* Sessions of instances that are gone. */
static size_t older_sessions(const world *w)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster_bearer_count(w->cluster); i++) {
        bearer_stats stats;
        bearer_get_stats(cluster_bearer(w->cluster, i), &stats);
        count += stats.older;
    }
    return count;
}

/* Routes that do not flow yet, of either end. */
static size_t missing_routes(const world *w)
{
    size_t count = 0;
    for (size_t i = 0; i < cluster_bearer_count(w->cluster); i++) {
        const bearer *b = cluster_bearer(w->cluster, i);
        for (unsigned end = 0; end < NET_ENDS && bearer_conn(b, end) != NULL; end++) {
            const tf_link *link = tf_conn_link(bearer_conn(b, end));
            count += tf_link_verdict(link, TF_ROUTE_STREAM) == TF_VERDICT_UP ? 0 : 1;
            count += tf_link_verdict(link, TF_ROUTE_DATAGRAM) == TF_VERDICT_UP ? 0 : 1;
        }
    }
    return count;
}

/* Until relays forget who was there before, and its names, and all routes are there again. */
static void settle(world *w)
{
    for (unsigned i = 0; i < ROUTES_STEPS && missing_routes(w) > 0; i++) {
        run_for(w, TF_SECOND);
    }
    if (missing_routes(w) > 0) {
        world_fail(w, "a route does not come back (P3)", "%zu do not", missing_routes(w));
    }
    for (unsigned i = 0; i < SETTLE_STEPS && older_sessions(w) > 0; i++) {
        run_for(w, TF_SECOND);
    }
    if (older_sessions(w) > 0) {
        world_fail(w, "a session outlives its time-out (P9)", "%zu do", older_sessions(w));
    }
}

static void end_objects(world *w)
{
    if (!w->plan.objects) {
        return;
    }
    w->objects_rest = false;
    cluster_call_at(w->cluster, world_now(w));
    run_for(w, LOOKUP_SPAN);
    (void)objects_all_answered(w);
    run_for(w, ALL_SPAN);
    if (!objects_all_answered(w)) {
        world_fail(w, "an object cannot be called", "within %u s of peace", (unsigned)(ALL_SPAN / TF_SECOND));
    }
    objects_finish(w);
}

static void fall_silent(world *w)
{
    run_for(w, QUIET_AFTER);
    if (!objects_are_finished(w)) {
        world_fail(w, "a call was never answered", "within %u s of peace", (unsigned)(QUIET_AFTER / TF_SECOND));
    }
    uint64_t before = cluster_written(w->cluster);
    run_for(w, SILENT_SPAN);
    uint64_t written = cluster_written(w->cluster) - before;
    world_say(w, "a silent minute: %" PRIu64 " bytes over %zu connections", written, cluster_bearer_count(w->cluster));
    if (written > checks_silent_bytes(w)) {
        world_fail(w, "it does not fall silent (P9)", "%" PRIu64 " bytes in a minute, %" PRIu64 " may be", written,
                   checks_silent_bytes(w));
    }
    checks_quiet(w);
}

static void take_down(world *w)
{
    w->ends = true;
    cluster_free(w->cluster);
    for (unsigned i = 0; i < w->plan.relays; i++) {
        relay *r = &w->relays[i];
        disk_free(r->disk);
        if (r->heap.live_blocks != 0) {
            world_fail(w, "memory is left", "of the store of %s", r->name);
        }
    }
    tf_dedup_free(w->filter);
    if (w->heap.live_blocks != 0) {
        world_fail(w, "memory is left", "of the filter");
    }
}

/* From now on so many datagrams of all connections, whatever else happens to them. */
static void lose(world *w, unsigned loss)
{
    for (size_t i = 0; i < cluster_bearer_count(w->cluster); i++) {
        for (unsigned end = 0; end < NET_ENDS; end++) {
            w->base[i][end].path.loss = loss;
            net_path_of(bearer_net(cluster_bearer(w->cluster, i)), end)->loss = loss;
        }
    }
}

uint64_t world_run(world *w, const plan *p, const step *steps, size_t count, bool verbose)
{
    *w = (world){.plan = *p, .steps = steps, .verbose = verbose};
    set_up(w);
    make_moments(w, count);
    run_for(w, p->healthy ? BEGIN_AFTER_HEALTHY : BEGIN_AFTER);
    w->begin = world_now(w);
    lose(w, p->loss);
    cluster_call_at(w->cluster, w->begin);
    run_for(w, p->span + TF_SECOND);
    lose(w, 0);
    world_heal(w);
    converge(w);
    w->objects_rest = true;
    settle(w);
    end_objects(w);
    fall_silent(w);
    for (unsigned i = 0; i < p->relays; i++) {
        cluster_mix(w->cluster, disk_trace(w->relays[i].disk));
    }
    uint64_t trace = cluster_trace(w->cluster);
    take_down(w);
    return trace;
}
