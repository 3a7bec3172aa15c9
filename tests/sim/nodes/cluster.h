/* Whole nodes in virtual time: relays (hub, sessions, links, store) and clients (hub, session, link, tf_client), joined by
 * bearers; the same objects that the programs link. It runs them; what they are to do, what goes wrong, and what must
 * hold, is the host's: a random world (sim_nodes) or a scenario file (twofold-lab --mode sim).
 *
 *     cluster *c = cluster_new(seed, &handlers);
 *     sim_node *r = cluster_relay(c, &(sim_node_config){.name = "R", .disk = d});
 *     sim_node *a = cluster_client(c, &(sim_node_config){.name = "A"});
 *     bearer *b = cluster_join(c, a, r);          -- change net_path_of / net_pipe_of (bearer_net(b), end) at any time
 *     cluster_start(c, r); cluster_start(c, a);
 *     cluster_run(c, until);
 *
 * One event after the other, in the order of (time, index: bearers, nodes, the host). Everything follows from the seed and
 * the calls: cluster_trace of two runs must be the same. Not thread-safe. Times: tf_time of the world; it begins at
 * TF_SECOND. */
#ifndef TF_TESTS_SIM_NODES_CLUSTER_H
#define TF_TESTS_SIM_NODES_CLUSTER_H

#include "node/client.h"
#include "node/hub_objects.h"
#include "tests/sim/nodes/bearer.h"
#include "tests/sim/nodes/disk.h"

#define CLUSTER_NODES_MAX 64u
#define CLUSTER_BEARERS_MAX 256u
#define CLUSTER_PEERS_MAX 8u /* of a dialling node */
#define CLUSTER_DISK_RETRY (1 * TF_SECOND) /* a store that could not be opened is tried again after so long */

typedef struct cluster cluster;

typedef enum sim_node_state { NODE_DOWN, NODE_UP, NODE_PAUSED } sim_node_state;

typedef struct sim_node_config {
    const char *name; /* borrowed */
    disk *disk;       /* of a relay; borrowed; NULL: it serves no channels */
    bool small_store; /* see disk_start */
    tf_hub_config hub; /* its limits; mem, rand, store, node_id and instance are filled in at each start */
    tf_client_config client; /* of each tf_client; instance is filled in */
    tf_dedup *dedup; /* borrowed; NULL: none */
    /* 0: the defaults of proto/limits.h; routes 0: both */
    tf_time keepalive;
    tf_time session_timeout;
    uint32_t window_segments;
    uint32_t window_bytes;
    tf_routes routes;
    tf_routes standby;
    void *user;
} sim_node_config;

/* Open to the host for reading; written by the cluster only, but for clock_offset_ms, user, and what the next start is to
 * use: config.hub, .client, .small_store. */
typedef struct sim_node {
    sim_node_config config;
    unsigned index;
    bool is_relay;
    sim_node_state state;
    bearer_side side; /* hub: NULL while it is down */
    tf_test_heap heap; /* all memory of its cores */
    tf_test_random random;
    tf_client *clients[CLUSTER_PEERS_MAX]; /* one a bearer that it dials, in the order of cluster_join; NULL while down */
    bearer *dialled[CLUSTER_PEERS_MAX];
    size_t peer_count;
    int64_t clock_offset_ms; /* of its wall clock: may jump */
    uint64_t starts;
    bool waits_for_disk; /* it was started, but its store cannot be opened in this weather: tried again (it is DOWN) */
    void *user;
} sim_node;

typedef struct cluster_handlers {
    void *ctx;
    /* The node runs: its hub is new, its clients are new and not bound: open, subscribe, resend. */
    void (*started)(void *ctx, sim_node *node);
    /* It is about to end (anyhow): its hub and clients go after this; the application's memory that is to survive is the
     * host's. */
    void (*ending)(void *ctx, sim_node *node);
    /* Its hub ran: pull tf_client_next_event and tf_hub_next_app_event. Work done here makes it run again. */
    void (*turn)(void *ctx, sim_node *node);
    /* The time has come that the host asked for. Returns when it wants to be called next (TF_NEVER). What it did to any
     * node's clients or hub makes that node run. */
    tf_time (*act)(void *ctx, tf_time now);
    /* After each event, once all hubs that had work ran: invariants. NULL is fine. */
    void (*check)(void *ctx);
    /* As bearer_handlers; when it is told of BEARER_LOST the conn is still there. NULL is fine. */
    void (*session)(void *ctx, bearer *b, unsigned end, bearer_event_type type, const char *why);
    /* A broken promise that the cluster itself found; must not return. */
    void (*failed)(void *ctx, const char *what);
} cluster_handlers;

/* Handlers of which nothing is said may be NULL but for failed. */
cluster *cluster_new(uint64_t seed, const cluster_handlers *handlers);
/* All nodes are killed first. Ends in `failed` if a node's heap is not empty when it has ended. */
void cluster_free(cluster *c);

/* All nodes and bearers are made before the first start. */
sim_node *cluster_relay(cluster *c, const sim_node_config *config);
sim_node *cluster_client(cluster *c, const sim_node_config *config);
/* The first one dials. */
bearer *cluster_join(cluster *c, sim_node *dialler, sim_node *acceptor);
size_t cluster_node_count(const cluster *c);
sim_node *cluster_node(const cluster *c, size_t index);
size_t cluster_bearer_count(const cluster *c);
bearer *cluster_bearer(const cluster *c, size_t index);
/* Its nodes: 0 dialler, 1 acceptor. */
sim_node *cluster_end(const cluster *c, const bearer *b, unsigned end);

/* -- what happens to nodes; each a no-op in a state that it does not fit; from within act, or between runs --------- */

void cluster_start(cluster *c, sim_node *node); /* a new instance, on the disk as it is */
void cluster_stop(cluster *c, sim_node *node);  /* in order, without a drain: CLOSE to its peers, the store closed */
void cluster_kill(cluster *c, sim_node *node);  /* the process is gone; its disk has what was written */
void cluster_crash(cluster *c, sim_node *node); /* the power is gone; its disk loses what was not synced */
void cluster_pause(cluster *c, sim_node *node); /* it does not run; its sockets stay */
void cluster_go(cluster *c, sim_node *node);

/* Runs until the time is `until`, or (true) until the host called cluster_halt. */
bool cluster_run(cluster *c, tf_time until);
void cluster_halt(cluster *c);
tf_time cluster_now(const cluster *c);
/* The wall clock of a node, milliseconds since 1970. */
int64_t cluster_wall_ms(const cluster *c, const sim_node *node);
/* The host wants to be called at `at` if it is sooner than what it asked for last. */
void cluster_call_at(cluster *c, tf_time at);
tf_test_random *cluster_random(cluster *c);
uint64_t cluster_trace(const cluster *c);
void cluster_mix(cluster *c, uint64_t value);
/* Bytes that all bearers wrote so far. */
uint64_t cluster_written(const cluster *c);
/* Events so far. */
uint64_t cluster_events(const cluster *c);

#endif
