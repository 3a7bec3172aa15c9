/* What the files of a cluster share: cluster.c (the cast and the events), cluster_node.c (the life and the turn of a
 * node). */
#ifndef TF_TESTS_SIM_NODES_CLUSTER_INTERNAL_H
#define TF_TESTS_SIM_NODES_CLUSTER_INTERNAL_H

#include "tests/sim/nodes/cluster.h"

/* What is known of a node or bearer between its events. */
typedef struct cluster_item {
    tf_time at;   /* when it has something to do, as of its last event */
    bool touched; /* of a node: its hub is to run */
} cluster_item;

struct cluster {
    cluster_handlers handlers;
    tf_test_random random;
    tf_time now;
    uint64_t trace;
    uint64_t events;
    sim_node *nodes[CLUSTER_NODES_MAX];
    cluster_item node_items[CLUSTER_NODES_MAX];
    tf_time retry_at[CLUSTER_NODES_MAX]; /* of the disk; TF_NEVER */
    size_t node_count;
    bearer *bearers[CLUSTER_BEARERS_MAX];
    cluster_item bearer_items[CLUSTER_BEARERS_MAX];
    sim_node *ends[CLUSTER_BEARERS_MAX][NET_ENDS];
    size_t bearer_count;
    tf_time call_at;
    bool stale; /* the host may have changed anything */
    bool halted;
};

/* Ends in the host's `failed`. bearer: NULL is fine; then `end` does not count. */
void cluster_fail(const cluster *c, const sim_node *node, const sim_node *peer, const char *what);
void *cluster_must(void *memory);
/* The index of a bearer. */
size_t cluster_index_of(const cluster *c, const bearer *b);
/* The clocks of all nets are set to the time. */
void cluster_move_nets(cluster *c);

/* cluster_node.c */
sim_node *cluster_node_new(cluster *c, const sim_node_config *config, bool is_relay);
void cluster_node_free(sim_node *node);
/* The event of a node: its deadline has come. */
void cluster_node_event(cluster *c, sim_node *node);
/* Runs its hub until it has nothing more to do at this time. */
void cluster_node_run(cluster *c, sim_node *node);
tf_time cluster_node_deadline(const cluster *c, const sim_node *node);

#endif
