/* One run of a scenario in virtual time: whole nodes in one process, on nets that are hurt as the file says. It follows
 * from the scenario and its seed, and takes as long as the nodes have to do, not as the day lasts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "tests/harness/lab_sim.h"

#define DRAIN_LIMIT (10 * TF_SECOND) /* as the relay has it */
#define END_SPAN TF_SECOND           /* in which CLOSE reaches the relay, and it ends */
/* How long a sync takes: a common disk. */
#define SYNC_LEAST 300u /* us */
#define SYNC_SPREAD 900u

typedef struct sim {
    const tf_scenario *s;
    const tf_lab_options *options;
    cluster *cluster;
    disk *disk;
    tf_lab_shared *shared;
    tf_lab_reader reader;
    tf_lab_timeline timeline;
    sim_node *relay;
    tf_lab_sim_client clients[TF_SCENARIO_NODES_MAX]; /* by node */
    tf_time set_up_until;
    tf_time drains_until; /* TF_NEVER: the relay does not drain */
    bool starts_again;    /* the relay, once it has drained and ended */
    tf_time ends_at;      /* since when the run is over; 0: it is not */
    char failure[TF_LAB_TEXT_MAX];
} sim;

/* Keeps the first one. */
static void fail(sim *m, const char *who, const char *what)
{
    if (m->failure[0] == '\0') {
        (void)snprintf(m->failure, sizeof(m->failure), "%s%.300s", who, what);
    }
}

static tf_lab_sim_client *client_of(sim *m, const sim_node *node)
{
    return node == m->relay ? NULL : node->config.user;
}

static sim_node *node_of(const sim *m, uint32_t node)
{
    return node == m->s->relay ? m->relay : m->clients[node].node;
}

/* -- routes and acts ----------------------------------------------------------------------------------------------- */

static void apply(void *ctx, uint32_t node, tf_route route, tf_scenario_way way, const tf_scenario_state *state)
{
    sim *m = ctx;
    tf_lab_sim_routes_apply(&m->clients[node].routes, route, way, state, cluster_random(m->cluster),
                            cluster_now(m->cluster));
}

static void rebind(sim *m, uint32_t node)
{
    for (uint32_t i = 0; i < m->s->node_count; i++) {
        if ((node == UINT32_MAX || node == i) && i != m->s->relay && !m->s->nodes[i].is_direct) {
            bearer_rebind(m->clients[i].routes.bearer);
        }
    }
}

static void accept_all(sim *m, bool on)
{
    for (uint32_t i = 0; i < m->s->node_count; i++) {
        if (i != m->s->relay) {
            tf_lab_sim_routes_close(&m->clients[i].routes, !on);
        }
    }
}

/* As the relay does it when it is asked to end: it takes nothing new, and goes once all is answered. */
static void drain(sim *m, tf_time now)
{
    if (m->relay->state == NODE_UP && m->drains_until == TF_NEVER) {
        tf_hub_drain(m->relay->side.hub);
        m->drains_until = now + DRAIN_LIMIT;
        accept_all(m, false);
    }
}

static void end_relay(sim *m, void (*how)(cluster *, sim_node *))
{
    bool again = m->starts_again;
    m->drains_until = TF_NEVER;
    m->starts_again = false;
    accept_all(m, true);
    how(m->cluster, m->relay);
    if (again) {
        cluster_start(m->cluster, m->relay);
    }
}

static bool is_drained(const sim *m)
{
    for (size_t i = 0; i < cluster_bearer_count(m->cluster); i++) {
        tf_conn *conn = bearer_conn(cluster_bearer(m->cluster, i), 1);
        if (conn != NULL && tf_link_is_busy(tf_conn_link(conn))) {
            return false;
        }
    }
    return tf_hub_is_drained(m->relay->side.hub);
}

static void go_on_draining(sim *m, tf_time now)
{
    bool drains = m->drains_until != TF_NEVER && m->relay->state == NODE_UP;
    if (drains && (now >= m->drains_until || is_drained(m))) {
        end_relay(m, cluster_stop);
    }
}

static void start(sim *m, sim_node *node)
{
    if (node == m->relay && m->drains_until != TF_NEVER) {
        m->starts_again = true;
    } else {
        cluster_start(m->cluster, node);
    }
}

static void kill_node(sim *m, sim_node *node)
{
    if (node == m->relay) {
        end_relay(m, cluster_kill);
    } else {
        cluster_kill(m->cluster, node);
    }
}

static void act(void *ctx, const tf_scenario_act *a)
{
    sim *m = ctx;
    switch (a->kind) {
    case TF_ACT_KILL:
        kill_node(m, node_of(m, a->node));
        return;
    case TF_ACT_TERM: /* a client has no ear for it: that ends it as well */
        if (a->node == m->s->relay) {
            drain(m, cluster_now(m->cluster));
        } else {
            kill_node(m, node_of(m, a->node));
        }
        return;
    case TF_ACT_START:
        start(m, node_of(m, a->node));
        return;
    case TF_ACT_PAUSE:
        cluster_pause(m->cluster, node_of(m, a->node));
        return;
    case TF_ACT_GO:
        cluster_go(m->cluster, node_of(m, a->node));
        return;
    case TF_ACT_REBIND:
        rebind(m, a->node);
        return;
    }
}

/* -- the steps of a run -------------------------------------------------------------------------------------------- */

static void set_up(sim *m, tf_time now)
{
    if (tf_lab_reader_is_ready(&m->reader)) {
        m->reader.start = now + TF_LAB_POLL;
    } else if (now > m->set_up_until) {
        fail(m, "", TF_LAB_NOT_READY);
    }
}

static void look_for_failures(sim *m)
{
    for (uint32_t i = 0; i < m->s->node_count; i++) {
        if (m->clients[i].player.failed) {
            char who[TF_SCENARIO_NAME_MAX + 32];
            (void)snprintf(who, sizeof(who), "%s ended by itself: ", m->s->nodes[i].name);
            fail(m, who, m->shared->clients[i].error);
        }
    }
}

static tf_time clients_go_on(sim *m, tf_time now)
{
    tf_time next = TF_NEVER;
    for (uint32_t i = 0; i < m->s->node_count; i++) {
        if (i != m->s->relay) {
            next = tf_time_min(next, tf_lab_sim_client_go_on(&m->clients[i], m->reader.start, now));
        }
    }
    return next;
}

static tf_time on_time(void *ctx, tf_time now)
{
    sim *m = ctx;
    tf_time next = now + TF_LAB_POLL;
    if (m->ends_at != 0) {
        return TF_NEVER;
    }
    tf_lab_reader_read(&m->reader);
    look_for_failures(m);
    if (m->failure[0] != '\0' || tf_lab_reader_is_over(&m->reader, now)) {
        m->ends_at = now;
        cluster_halt(m->cluster);
        return TF_NEVER;
    }
    go_on_draining(m, now);
    if (m->reader.start == 0) {
        set_up(m, now);
    } else if (now >= m->reader.start) {
        next =
            tf_time_min(next, tf_time_add(m->reader.start, tf_lab_timeline_play(&m->timeline, now - m->reader.start)));
    }
    return tf_time_min(next, clients_go_on(m, now));
}

/* -- what the cluster tells ---------------------------------------------------------------------------------------- */

static void on_started(void *ctx, sim_node *node)
{
    sim *m = ctx;
    tf_lab_sim_client *c = client_of(m, node);
    if (c != NULL) {
        tf_lab_sim_client_begin(c, cluster_now(m->cluster));
    }
}

static void on_ending(void *ctx, sim_node *node)
{
    (void)ctx;
    (void)node;
}

static void on_turn(void *ctx, sim_node *node)
{
    sim *m = ctx;
    tf_app_event event;
    tf_time now = cluster_now(m->cluster);
    tf_lab_sim_client *c = client_of(m, node);
    while (tf_hub_next_app_event(node->side.hub, &event)) {
        continue; /* nobody exports anything */
    }
    if (c != NULL) {
        bool was_full = c->player.full;
        tf_lab_sim_client_hear(c, now);
        if (was_full && !c->player.full) {
            cluster_call_at(m->cluster, now);
        }
    }
}

static void on_session(void *ctx, bearer *b, unsigned end, bearer_event_type type, const char *why)
{
    sim *m = ctx;
    (void)why;
    if (end == 0) {
        tf_lab_sim_client_session(client_of(m, cluster_end(m->cluster, b, 0)), type, cluster_now(m->cluster));
    }
}

/* A promise is broken: there is nothing to go on with. */
static void on_failed(void *ctx, const char *what)
{
    (void)ctx;
    (void)fprintf(stderr, "twofold-lab: %s\n", what);
    exit(TF_LAB_CANNOT);
}

/* Something in the process, the net or the disk found itself broken, and has said so. */
static void on_abort(int number)
{
    (void)number;
    _exit(TF_LAB_CANNOT);
}

/* -- around it ----------------------------------------------------------------------------------------------------- */

static sim_node *make_relay(sim *m)
{
    const tf_scenario_node *relay = &m->s->nodes[m->s->relay];
    sim_node_config config = {
        .name = relay->name, .disk = m->disk, .keepalive = relay->keepalive, .session_timeout = relay->session_timeout};
    config.hub.max_in_flight = relay->max_in_flight != 0 ? relay->max_in_flight : TF_LAB_IN_FLIGHT;
    return cluster_relay(m->cluster, &config);
}

static void make_client(sim *m, uint32_t node)
{
    tf_lab_sim_client *c = &m->clients[node];
    tf_lab_player *p = &c->player;
    tf_lab_player_init(p, m->s, node, m->options->routes, m->shared);
    sim_node_config config = {.name = m->s->nodes[node].name,
                              .routes = p->routes,
                              .standby = p->routes == TF_ROUTES_BOTH ? m->s->nodes[node].standby : 0,
                              .user = c};
    c->node = cluster_client(m->cluster, &config);
    tf_lab_sim_routes_init(&c->routes, cluster_join(m->cluster, c->node, m->relay));
    if (p->routes == 0) {
        tf_lab_player_fail(p, "cannot start", tf_slice_str("it may use no route"));
    }
}

static void make_world(sim *m)
{
    cluster_handlers handlers = {.ctx = m,
                                 .started = on_started,
                                 .ending = on_ending,
                                 .turn = on_turn,
                                 .act = on_time,
                                 .session = on_session,
                                 .failed = on_failed};
    disk_weather weather = {.least = SYNC_LEAST, .spread = SYNC_SPREAD};
    m->cluster = cluster_new(m->s->seed, &handlers);
    m->disk = disk_new(DISK_REAL, "lab", m->s->seed, tf_edge_mem());
    disk_set_weather(m->disk, cluster_now(m->cluster), &weather);
    m->relay = make_relay(m);
    for (uint32_t i = 0; i < m->s->node_count; i++) {
        if (i != m->s->relay) {
            make_client(m, i);
        }
    }
    m->timeline = (tf_lab_timeline){.s = m->s, .apply = apply, .act = act, .ctx = m};
    tf_lab_timeline_begin(&m->timeline);
}

static void run(sim *m)
{
    tf_time now = cluster_now(m->cluster);
    m->set_up_until = now + TF_LAB_SETUP;
    m->drains_until = TF_NEVER;
    for (size_t i = 0; i < cluster_node_count(m->cluster); i++) {
        cluster_start(m->cluster, cluster_node(m->cluster, i));
    }
    cluster_call_at(m->cluster, now);
    while (!cluster_run(m->cluster, cluster_now(m->cluster) + TF_SECOND)) {
        continue;
    }
}

/* The clients end, then the relay. */
static void end(sim *m)
{
    for (uint32_t i = 0; i < m->s->node_count; i++) {
        tf_lab_sim_client *c = &m->clients[i];
        if (i != m->s->relay && c->node->state == NODE_UP) {
            tf_lab_sim_client_sample(c, m->reader.start, m->ends_at);
            cluster_stop(m->cluster, c->node);
        }
    }
    (void)cluster_run(m->cluster, m->ends_at + END_SPAN);
    cluster_stop(m->cluster, m->relay);
    tf_lab_reader_read(&m->reader);
}

bool tf_lab_sim_run(const tf_scenario *s, const tf_lab_options *options, tf_lab_verdict **out,
                    const tf_lab_results **results, char why[TF_LAB_TEXT_MAX])
{
    sim *m = calloc(1, sizeof(*m));
    tf_lab_verdict *verdict = NULL;
    *out = NULL;
    (void)snprintf(why, TF_LAB_TEXT_MAX, "no memory");
    if (m == NULL) {
        return false;
    }
    *m = (sim){.s = s, .options = options, .shared = tf_lab_shared_new(s)};
    if (m->shared == NULL || tf_lab_verdict_new(&verdict, s, m->shared->clients[0].capacity, tf_edge_mem()) != TF_OK) {
        goto out;
    }
    m->reader = (tf_lab_reader){.s = s, .shared = m->shared, .verdict = verdict};
    (void)signal(SIGABRT, on_abort);
    make_world(m);
    run(m);
    end(m);
    *results = tf_lab_reader_end(&m->reader, m->ends_at);
    cluster_free(m->cluster);
    disk_free(m->disk);
    (void)snprintf(why, TF_LAB_TEXT_MAX, "%s", m->failure);
    if (m->failure[0] == '\0') {
        *out = verdict;
        verdict = NULL; /* handed over */
    }
out:
    tf_lab_verdict_free(verdict);
    tf_lab_shared_free(m->shared);
    free(m);
    return *out != NULL;
}
