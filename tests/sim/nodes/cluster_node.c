/* A node of a cluster: its life and its turn. */
#include <stdlib.h>

#include "tests/sim/nodes/cluster_internal.h"

#define WALL_START_MS INT64_C(1700000000000)
#define TURNS_MAX 10000u /* of one node at one time */

/* -- making -------------------------------------------------------------------------------------------------------- */

static void set_defaults(sim_node_config *config)
{
    config->keepalive = config->keepalive == 0 ? TF_KEEPALIVE : config->keepalive;
    config->session_timeout = config->session_timeout == 0 ? TF_SESSION_TIMEOUT : config->session_timeout;
    config->window_segments = config->window_segments == 0 ? TF_WINDOW_SEGMENTS : config->window_segments;
    config->window_bytes = config->window_bytes == 0 ? TF_WINDOW_BYTES : config->window_bytes;
    config->routes = config->routes == 0 ? TF_ROUTES_BOTH : config->routes;
    if (config->client.session_timeout == 0) {
        config->client.session_timeout = config->session_timeout;
    }
}

sim_node *cluster_node_new(cluster *c, const sim_node_config *config, bool is_relay)
{
    sim_node *node = cluster_must(calloc(1, sizeof(*node)));
    node->config = *config;
    node->is_relay = is_relay;
    node->index = (unsigned)c->node_count;
    node->user = config->user;
    if (c->node_count == CLUSTER_NODES_MAX) {
        cluster_fail(c, node, NULL, "too many nodes");
    }
    set_defaults(&node->config);
    tf_test_heap_init(&node->heap);
    tf_test_random_init(&node->random, tf_test_random_u64(&c->random));
    uint32_t max_message = node->config.hub.max_message;
    node->side = (bearer_side){.is_relay = is_relay,
                               .mem = &node->heap.mem,
                               .rand = &node->random.rand,
                               .dedup = node->config.dedup,
                               .keepalive = node->config.keepalive,
                               .session_timeout = node->config.session_timeout,
                               .max_message = max_message == 0 ? TF_MESSAGE_MAX : max_message,
                               .window_segments = node->config.window_segments,
                               .window_bytes = node->config.window_bytes,
                               .routes = node->config.routes,
                               .standby = node->config.standby};
    memset(node->side.id.bytes, (int)node->index + 1, TF_NODE_ID_LEN);
    c->node_items[node->index] = (cluster_item){.at = TF_NEVER};
    c->retry_at[node->index] = TF_NEVER;
    c->nodes[c->node_count++] = node;
    return node;
}

void cluster_node_free(sim_node *node)
{
    free(node);
}

/* -- the turn ------------------------------------------------------------------------------------------------------ */

int64_t cluster_wall_ms(const cluster *c, const sim_node *node)
{
    return WALL_START_MS + (int64_t)(c->now / TF_MS) + node->clock_offset_ms;
}

tf_time cluster_node_deadline(const cluster *c, const sim_node *node)
{
    if (node->state != NODE_UP) {
        return c->retry_at[node->index];
    }
    tf_time at = tf_hub_deadline(node->side.hub);
    return node->config.disk == NULL ? at : tf_time_min(at, disk_deadline(node->config.disk));
}

static void pull(cluster *c, tf_conn *conn)
{
    bearer *b = tf_conn_owner(conn);
    bearer_pull(b, conn, c->now);
    c->bearer_items[cluster_index_of(c, b)].at = bearer_deadline(b);
}

static void take_failure(const cluster *c, const sim_node *node, const tf_hub_event *event)
{
    const bearer *b = tf_conn_owner(event->conn);
    cluster_fail(c, node, cluster_end(c, b, 1 - bearer_end_of(b, event->conn)), event->text);
}

/* One run of the hub. True: it did something for a connection, or has more to do. */
static bool run_once(cluster *c, sim_node *node)
{
    tf_hub *hub = node->side.hub;
    tf_hub_event event;
    tf_conn *conn = NULL;
    bool worked = tf_hub_run(hub, c->now, cluster_wall_ms(c, node));
    while (tf_hub_next_event(hub, &event)) {
        take_failure(c, node, &event);
    }
    while (tf_hub_next_dirty(hub, &conn)) {
        pull(c, conn);
        worked = true;
    }
    return worked;
}

void cluster_node_run(cluster *c, sim_node *node)
{
    disk *d = node->config.disk;
    if (d != NULL) {
        disk_advance(d, c->now);
    }
    bool worked = true;
    for (unsigned turns = 0; worked; turns++) {
        c->node_items[node->index].touched = false;
        worked = run_once(c, node);
        if (c->handlers.turn != NULL && (worked || turns == 0)) {
            c->handlers.turn(c->handlers.ctx, node);
            worked = true;
        }
        if (turns > TURNS_MAX) {
            cluster_fail(c, node, NULL, "it does not come to rest");
        }
    }
    if (d != NULL) {
        disk_advance(d, c->now);
    }
    c->node_items[node->index].at = cluster_node_deadline(c, node);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void require_ok(const cluster *c, const sim_node *node, tf_err err)
{
    if (err != TF_OK) {
        cluster_fail(c, node, NULL, tf_err_text(err));
    }
}

static void make_cores(cluster *c, sim_node *node)
{
    tf_store store = {0};
    tf_hub_config config = node->config.hub;
    tf_client_config client = node->config.client;
    node->side.instance = tf_test_random_u64(&node->random) | 1;
    config.mem = &node->heap.mem;
    config.rand = &node->random.rand;
    config.node_id = node->side.id;
    config.instance = node->side.instance;
    config.store = NULL;
    if (node->config.disk != NULL) {
        store = disk_store(node->config.disk);
        config.store = &store;
    }
    require_ok(c, node, tf_hub_new(&node->side.hub, &config));
    client.instance = node->side.instance;
    for (size_t i = 0; i < node->peer_count; i++) {
        require_ok(c, node, tf_client_new(&node->clients[i], node->side.hub, &client));
    }
}

static void changed(cluster *c, sim_node *node, unsigned what)
{
    cluster_mix(c, c->now * 16 + what);
    cluster_mix(c, node->index);
    c->stale = true;
    c->node_items[node->index].touched = true;
}

static void try_start(cluster *c, sim_node *node)
{
    disk *d = node->config.disk;
    c->stale = true;
    node->waits_for_disk = d != NULL && !disk_start(d, c->now, node->config.small_store);
    c->retry_at[node->index] = node->waits_for_disk ? tf_time_add(c->now, CLUSTER_DISK_RETRY) : TF_NEVER;
    if (node->waits_for_disk) {
        return;
    }
    make_cores(c, node);
    node->state = NODE_UP;
    node->side.dark = false;
    node->starts++;
    cluster_move_nets(c);
    for (size_t i = 0; i < node->peer_count; i++) {
        bearer_set_dialling(node->dialled[i], true);
    }
    changed(c, node, 1);
    if (c->handlers.started != NULL) {
        c->handlers.started(c->handlers.ctx, node);
    }
}

void cluster_start(cluster *c, sim_node *node)
{
    if (node->state == NODE_DOWN && !node->waits_for_disk) {
        try_start(c, node);
    }
}

void cluster_node_event(cluster *c, sim_node *node)
{
    if (node->waits_for_disk) {
        try_start(c, node);
    } else {
        c->node_items[node->index].touched = true;
    }
}

static void end_disk(cluster *c, disk *d, bearer_ending how)
{
    switch (how) {
    case BEARER_CLOSES:
        disk_stop(d, c->now);
        return;
    case BEARER_KILLED:
        disk_kill(d, c->now);
        return;
    case BEARER_VANISHES:
        disk_crash(d, c->now);
        return;
    }
    TF_UNREACHABLE();
}

static void lose_sessions(cluster *c, sim_node *node, bearer_ending how)
{
    cluster_move_nets(c);
    for (size_t i = 0; i < c->bearer_count; i++) {
        for (unsigned end = 0; end < NET_ENDS; end++) {
            if (c->ends[i][end] != node) {
                continue;
            }
            bearer_lose(c->bearers[i], end, how);
            if (end == 0) {
                bearer_set_dialling(c->bearers[i], false);
            }
        }
    }
}

/* The disk ends before the hub: what it has not committed yet is the hub's memory. */
static void end_node(cluster *c, sim_node *node, bearer_ending how)
{
    if (node->waits_for_disk) {
        node->waits_for_disk = false;
        c->retry_at[node->index] = TF_NEVER;
        return;
    }
    if (node->state == NODE_DOWN) {
        return;
    }
    if (c->handlers.ending != NULL) {
        c->handlers.ending(c->handlers.ctx, node);
    }
    lose_sessions(c, node, how);
    for (size_t i = 0; i < node->peer_count; i++) {
        tf_client_free(node->clients[i]);
        node->clients[i] = NULL;
    }
    if (node->config.disk != NULL) {
        end_disk(c, node->config.disk, how);
    }
    tf_hub_free(node->side.hub);
    node->side.hub = NULL;
    node->side.dark = how == BEARER_VANISHES;
    node->side.paused = false;
    node->state = NODE_DOWN;
    changed(c, node, 2 + (unsigned)how);
    if (node->heap.live_blocks != 0) {
        cluster_fail(c, node, NULL, "memory is left when it has ended");
    }
}

void cluster_stop(cluster *c, sim_node *node)
{
    if (node->state != NODE_PAUSED) {
        end_node(c, node, BEARER_CLOSES);
    }
}

void cluster_kill(cluster *c, sim_node *node)
{
    end_node(c, node, BEARER_KILLED);
}

void cluster_crash(cluster *c, sim_node *node)
{
    end_node(c, node, BEARER_VANISHES);
}

void cluster_pause(cluster *c, sim_node *node)
{
    if (node->state == NODE_UP) {
        node->state = NODE_PAUSED;
        node->side.paused = true;
        changed(c, node, 8);
    }
}

void cluster_go(cluster *c, sim_node *node)
{
    if (node->state == NODE_PAUSED) {
        node->state = NODE_UP;
        node->side.paused = false;
        changed(c, node, 9);
    }
}
