#include "tests/sim/nodes/checks.h"

#include <inttypes.h>

#define SLACK ((size_t)64 * 1024)
#define SILENT_BYTES 12000u /* keepalives, probes and their answers of one connection, with the default keepalive */
#define FIXED_BYTES ((size_t)1536 * 1024) /* a hub is large by itself */
#define CONN_BYTES ((size_t)256 * 1024) /* tables, records, sends that wait for their commit */
#define EVENTS_BETWEEN 3u                 /* a look costs more than most events */

static const char *name_of(const world *w, const bearer *b, unsigned end)
{
    return cluster_end(w->cluster, b, end)->config.name;
}

static void check_link(world *w, const bearer *b, unsigned end)
{
    tf_link_stats stats;
    const sim_node_config *config = &cluster_end(w->cluster, b, end)->config;
    tf_link_get_stats(tf_conn_link(bearer_conn(b, end)), &stats);
    if (stats.ring_segments > config->window_segments || stats.reorder_segments > config->window_segments ||
        stats.ring_bytes > config->window_bytes || stats.reorder_bytes > config->window_bytes) {
        world_fail(w, "a link holds more than its window (P7)",
                   "%s: ring %" PRIu64 " of %" PRIu64 " bytes, reorder %" PRIu64 " of %" PRIu64 " bytes", config->name,
                   stats.ring_segments, stats.ring_bytes, stats.reorder_segments, stats.reorder_bytes);
    }
}

static size_t queue_of(const sim_node *node)
{
    return node->config.hub.out_queue_bytes == 0 ? TF_OUT_QUEUE_BYTES : node->config.hub.out_queue_bytes;
}

/* What a node may take: windows both ways and the queue of each connection, what is being committed or sent, and what an
 * application has not taken. */
static size_t bound_of(const world *w, const sim_node *node)
{
    size_t conns = node->is_relay ? cluster_bearer_count(w->cluster) : node->peer_count;
    size_t slow = (w->plan.kinds & KIND_BIT(STEP_SLOW)) != 0 && !node->is_relay ? TF_CLIENT_EVENT_BYTES : 0;
    size_t bodies = w->plan.big_bodies ? (size_t)TF_MAX_IN_FLIGHT * PUBLISHER_BODY_MAX : 0;
    size_t conn = 2 * (size_t)node->config.window_bytes + queue_of(node) + bodies + CONN_BYTES;
    return FIXED_BYTES + conns * (conn + slow * w->plan.channels);
}

static void check_end(world *w, const bearer *b, unsigned end)
{
    const sim_node *node = cluster_end(w->cluster, b, end);
    const tf_conn *conn = bearer_conn(b, end);
    if (conn == NULL || node->state == NODE_DOWN) {
        return;
    }
    size_t most = queue_of(node);
    size_t waits = tf_session_out_bytes(tf_conn_session(conn));
    if (waits > most + SLACK) {
        world_fail(w, "more waits than the queue may hold (P7)", "%s: %zu bytes", node->config.name, waits);
    }
    check_link(w, b, end);
    if (node->heap.live_bytes > bound_of(w, node)) {
        world_fail(w, "a node takes more memory than its limits (P7)", "%s: %zu bytes", node->config.name,
                   node->heap.live_bytes);
    }
}

void checks_bounds(world *w)
{
    w->turn++;
    if (w->turn % EVENTS_BETWEEN != 0) {
        return;
    }
    const bearer *b = cluster_bearer(w->cluster, w->turn / EVENTS_BETWEEN % cluster_bearer_count(w->cluster));
    for (unsigned end = 0; end < NET_ENDS; end++) {
        check_end(w, b, end);
    }
}

/* -- in the end ---------------------------------------------------------------------------------------------------- */

static size_t subscriptions_of(const world *w, const member *m, unsigned home)
{
    size_t count = 0;
    for (unsigned i = 0; i < w->plan.channels; i++) {
        count += m->views[home][i].sub.asked ? 1 : 0;
    }
    return count;
}

static void check_session(world *w, const member *m, unsigned home, unsigned end)
{
    const bearer *b = m->bearers[home];
    tf_session_stats stats;
    if (bearer_conn(b, end) == NULL) {
        world_fail(w, "no session, and all is well", "%s", name_of(w, b, end));
    }
    tf_session_get_stats(tf_conn_session(bearer_conn(b, end)), &stats);
    size_t refs = 2 + w->plan.channels + 2 * subscriptions_of(w, m, home);
    if (stats.promises_ours + stats.promises_theirs + stats.retirements > 0 || stats.imports + stats.exports != refs) {
        world_fail(w, "something is left of a session (P5)",
                   "%s with %s: %zu + %zu promises, %zu retirements, %zu + %zu"
                   " references for %zu",
                   name_of(w, b, end), name_of(w, b, 1 - end), stats.promises_ours, stats.promises_theirs,
                   stats.retirements, stats.imports, stats.exports, refs);
    }
    if (!tf_link_is_quiet(tf_conn_link(bearer_conn(b, end)))) {
        world_fail(w, "something is not acked in the end (P9)", "%s with %s", name_of(w, b, end),
                   name_of(w, b, 1 - end));
    }
}

static void check_relay(world *w, const relay *r)
{
    tf_hub_stats stats;
    tf_hub_get_stats(r->node->side.hub, &stats);
    if (stats.committing + stats.committing_bytes > 0 || stats.lagging > 0) {
        world_fail(w, "a relay is not quiet (P9)", "%s: %" PRIu64 " committing, %" PRIu64 " lagging", r->name,
                   stats.committing, stats.lagging);
    }
}

void checks_quiet(world *w)
{
    for (size_t i = 0; i < cluster_node_count(w->cluster); i++) {
        const sim_node *node = cluster_node(w->cluster, i);
        if (tf_hub_has_work(node->side.hub)) {
            world_fail(w, "a hub has work in the end (P9)", "%s", node->config.name);
        }
    }
    for (unsigned i = 0; i < w->plan.relays; i++) {
        check_relay(w, &w->relays[i]);
    }
    for (unsigned i = 0; i < w->plan.clients; i++) {
        const member *m = &w->members[i];
        for (unsigned home = 0; home < m->home_count; home++) {
            check_session(w, m, home, 0);
            check_session(w, m, home, 1);
        }
    }
}

uint64_t checks_silent_bytes(const world *w)
{
    uint64_t each = SILENT_BYTES;
    if (w->plan.short_sessions) {
        each = SILENT_BYTES * (TF_KEEPALIVE / TF_SECOND);
    }
    return each * cluster_bearer_count(w->cluster);
}
