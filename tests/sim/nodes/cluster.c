/* A cluster: the cast, and the events in their order. */
#include "tests/sim/nodes/cluster.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/nodes/cluster_internal.h"

#define EVENTS_AT_ONCE 1000000u /* at one time: it does not go on */
#define SETTLES_MAX 1000u       /* rounds of the hubs after one event */

/* -- helpers ------------------------------------------------------------------------------------------------------- */

void *cluster_must(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "tests/sim/nodes/cluster: out of memory\n");
        abort();
    }
    return memory;
}

void cluster_fail(const cluster *c, const sim_node *node, const sim_node *peer, const char *what)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "node %s%s%s, at %llu us: %s", node->config.name,
                   peer == NULL ? "" : ", with ", peer == NULL ? "" : peer->config.name, (unsigned long long)c->now, what);
    c->handlers.failed(c->handlers.ctx, text);
    abort();
}

static uint64_t mixed(uint64_t trace, uint64_t value)
{
    trace = (trace ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return trace ^ trace >> 29;
}

void cluster_mix(cluster *c, uint64_t value)
{
    c->trace = mixed(c->trace, value);
}

size_t cluster_index_of(const cluster *c, const bearer *b)
{
    return (size_t)((const cluster_item *)bearer_user(b) - c->bearer_items);
}

/* -- what bearers tell --------------------------------------------------------------------------------------------- */

static void bind_client(cluster *c, sim_node *node, bearer *b)
{
    for (size_t i = 0; i < node->peer_count; i++) {
        if (node->dialled[i] == b) {
            tf_client_bind(node->clients[i], c->now, bearer_conn(b, 0));
        }
    }
}

static void on_session(void *ctx, bearer *b, unsigned end, bearer_event_type type, const char *why)
{
    cluster *c = ctx;
    sim_node *node = cluster_end(c, b, end);
    c->node_items[node->index].touched = true;
    if (end == 0 && type == BEARER_OPENED) {
        bind_client(c, node, b);
    }
    if (c->handlers.session != NULL) {
        c->handlers.session(c->handlers.ctx, b, end, type, why);
    }
}

static void on_fault(void *ctx, bearer *b, unsigned end, const char *what)
{
    const cluster *c = ctx;
    cluster_fail(c, cluster_end(c, b, end), cluster_end(c, b, 1 - end), what);
}

/* -- the cast ------------------------------------------------------------------------------------------------------ */

cluster *cluster_new(uint64_t seed, const cluster_handlers *handlers)
{
    cluster *c = cluster_must(calloc(1, sizeof(*c)));
    c->handlers = *handlers;
    c->now = TF_SECOND;
    c->call_at = TF_NEVER;
    c->stale = true;
    tf_test_random_init(&c->random, seed);
    cluster_mix(c, seed);
    return c;
}

void cluster_free(cluster *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->node_count; i++) {
        cluster_kill(c, c->nodes[i]);
    }
    for (size_t i = 0; i < c->bearer_count; i++) {
        bearer_free(c->bearers[i]);
    }
    for (size_t i = 0; i < c->node_count; i++) {
        cluster_node_free(c->nodes[i]);
    }
    free(c);
}

sim_node *cluster_relay(cluster *c, const sim_node_config *config)
{
    return cluster_node_new(c, config, true);
}

sim_node *cluster_client(cluster *c, const sim_node_config *config)
{
    return cluster_node_new(c, config, false);
}

bearer *cluster_join(cluster *c, sim_node *dialler, sim_node *acceptor)
{
    const bearer_handlers handlers = {.ctx = c, .event = on_session, .fault = on_fault};
    size_t index = c->bearer_count;
    if (index == CLUSTER_BEARERS_MAX || dialler->peer_count == CLUSTER_PEERS_MAX) {
        cluster_fail(c, dialler, acceptor, "too many connections");
    }
    bearer_side *const sides[NET_ENDS] = {&dialler->side, &acceptor->side};
    bearer *b = bearer_new(tf_test_random_u64(&c->random), sides, &handlers, &c->bearer_items[index]);
    c->bearers[index] = b;
    c->ends[index][0] = dialler;
    c->ends[index][1] = acceptor;
    c->bearer_count++;
    dialler->dialled[dialler->peer_count++] = b;
    return b;
}

size_t cluster_node_count(const cluster *c)
{
    return c->node_count;
}

sim_node *cluster_node(const cluster *c, size_t index)
{
    return c->nodes[index];
}

size_t cluster_bearer_count(const cluster *c)
{
    return c->bearer_count;
}

bearer *cluster_bearer(const cluster *c, size_t index)
{
    return c->bearers[index];
}

sim_node *cluster_end(const cluster *c, const bearer *b, unsigned end)
{
    return c->ends[cluster_index_of(c, b)][end];
}

/* -- events -------------------------------------------------------------------------------------------------------- */

void cluster_move_nets(cluster *c)
{
    for (size_t i = 0; i < c->bearer_count; i++) {
        net_move(bearer_net(c->bearers[i]), c->now);
    }
}

static void refresh_bearer(cluster *c, size_t index)
{
    c->bearer_items[index].at = bearer_deadline(c->bearers[index]);
}

static void refresh_all(cluster *c)
{
    c->stale = false;
    for (size_t i = 0; i < c->bearer_count; i++) {
        refresh_bearer(c, i);
    }
    for (size_t i = 0; i < c->node_count; i++) {
        c->node_items[i].at = cluster_node_deadline(c, c->nodes[i]);
    }
}

/* What one disk does may give another something to do: the threads of all of them run in one order. */
static void refresh_disks(cluster *c)
{
    for (size_t i = 0; i < c->node_count; i++) {
        if (c->nodes[i]->config.disk != NULL) {
            c->node_items[i].at = cluster_node_deadline(c, c->nodes[i]);
        }
    }
}

/* What comes next: a bearer, a node (counted on), or the host (after all nodes). */
static size_t next_item(const cluster *c, tf_time *at)
{
    size_t found = c->bearer_count + c->node_count;
    *at = c->call_at;
    for (size_t i = c->node_count; i-- > 0;) {
        if (c->node_items[i].at <= *at && c->node_items[i].at != TF_NEVER) {
            *at = c->node_items[i].at;
            found = c->bearer_count + i;
        }
    }
    for (size_t i = c->bearer_count; i-- > 0;) {
        if (c->bearer_items[i].at <= *at && c->bearer_items[i].at != TF_NEVER) {
            *at = c->bearer_items[i].at;
            found = i;
        }
    }
    return found;
}

static void bearer_event(cluster *c, size_t index)
{
    bearer_advance(c->bearers[index], c->now);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        const sim_node *node = c->ends[index][end];
        if (node->side.hub != NULL && tf_hub_has_work(node->side.hub)) {
            c->node_items[node->index].touched = true;
        }
    }
    refresh_bearer(c, index);
}

static void host_event(cluster *c)
{
    c->call_at = TF_NEVER;
    cluster_move_nets(c);
    tf_time next = c->handlers.act == NULL ? TF_NEVER : c->handlers.act(c->handlers.ctx, c->now);
    c->call_at = tf_time_min(c->call_at, next);
    c->stale = true;
    for (size_t i = 0; i < c->node_count; i++) {
        c->node_items[i].touched = true;
    }
}

/* Runs the hubs that were touched, until none is any more. */
static void settle(cluster *c)
{
    bool ran = true;
    for (unsigned rounds = 0; ran; rounds++) {
        ran = false;
        for (size_t i = 0; i < c->node_count; i++) {
            if (c->node_items[i].touched && c->nodes[i]->state == NODE_UP) {
                cluster_node_run(c, c->nodes[i]);
                ran = true;
            }
        }
        if (rounds > SETTLES_MAX) {
            cluster_fail(c, c->nodes[0], NULL, "the world does not come to rest");
        }
    }
}

/* False: nothing more until then. */
static bool step(cluster *c, tf_time until, unsigned *at_once)
{
    tf_time at = TF_NEVER;
    settle(c);
    if (c->stale) {
        refresh_all(c);
    } else {
        refresh_disks(c);
    }
    size_t index = next_item(c, &at);
    if (at > until || at == TF_NEVER) {
        return false;
    }
    *at_once = at > c->now ? 0 : *at_once + 1;
    if (*at_once > EVENTS_AT_ONCE) {
        cluster_fail(c, c->nodes[0], NULL, "the time does not go on");
    }
    c->now = tf_time_max(c->now, at);
    c->events++;
    if (index < c->bearer_count) {
        bearer_event(c, index);
    } else if (index < c->bearer_count + c->node_count) {
        cluster_node_event(c, c->nodes[index - c->bearer_count]);
    } else {
        host_event(c);
    }
    settle(c);
    if (c->handlers.check != NULL) {
        c->handlers.check(c->handlers.ctx);
    }
    return true;
}

bool cluster_run(cluster *c, tf_time until)
{
    unsigned at_once = 0;
    c->halted = false;
    c->stale = true;
    while (!c->halted && step(c, until, &at_once)) {
        continue;
    }
    if (!c->halted) {
        c->now = tf_time_max(c->now, until);
    }
    cluster_move_nets(c);
    return c->halted;
}

void cluster_halt(cluster *c)
{
    c->halted = true;
}

tf_time cluster_now(const cluster *c)
{
    return c->now;
}

void cluster_call_at(cluster *c, tf_time at)
{
    c->call_at = tf_time_min(c->call_at, tf_time_max(at, c->now));
}

tf_test_random *cluster_random(cluster *c)
{
    return &c->random;
}

uint64_t cluster_trace(const cluster *c)
{
    uint64_t trace = c->trace;
    for (size_t i = 0; i < c->bearer_count; i++) {
        trace = mixed(trace, bearer_trace(c->bearers[i]));
    }
    for (size_t i = 0; i < c->node_count; i++) {
        const disk *d = c->nodes[i]->config.disk;
        trace = mixed(trace, d == NULL ? 0 : disk_trace(d));
    }
    return trace;
}

uint64_t cluster_written(const cluster *c)
{
    uint64_t written = 0;
    for (size_t i = 0; i < c->bearer_count; i++) {
        written += bearer_written(c->bearers[i]);
    }
    return written;
}

uint64_t cluster_events(const cluster *c)
{
    return c->events;
}
