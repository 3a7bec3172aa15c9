/* The host of sim_cluster: a relay R and two clients A and B that send numbered messages to one channel and are subscribed
 * to it. What they know survives their restarts, as an application's file would. One world at a time; a broken promise
 * fails the test (Check). */
#ifndef TF_TESTS_SIM_NODES_SIM_CLUSTER_WORLD_H
#define TF_TESTS_SIM_NODES_SIM_CLUSTER_WORLD_H

#include "tests/sim/nodes/cluster.h"
#include "tests/support/check_main.h"

#define APPS 2u
#define EVENT_TYPES 3u /* of bearers */

typedef struct app {
    sim_node *node;
    bearer *bearer;
    size_t channel;
    unsigned sent;           /* numbers 1 .. sent */
    unsigned acked;          /* of them */
    uint64_t next;           /* seq of the next activity */
    unsigned got[APPS];      /* numbers of each client, so far */
    unsigned told[NET_ENDS][EVENT_TYPES]; /* of its bearer's sessions */
    char why[NET_ENDS][128]; /* of the last loss */
} app;

typedef struct world {
    cluster *cluster;
    tf_test_heap heap; /* of the disk */
    disk *disk;
    sim_node *relay;
    app apps[APPS];
    bool flows; /* every client sends each FLOW_STEP */
} world;

#define FLOW_STEP (10 * TF_MS)

/* Both clients as `config`, less name and user; one way takes `delay`. Nothing runs yet. */
void world_make(world *w, uint64_t seed, const sim_node_config *config, tf_time delay);
void world_start(world *w); /* all three, and until all are connected */
void world_run(world *w, tf_time span);
void world_flow(world *w, bool on);
/* Stops the flow; within `span` all must be acked and delivered to all. Frees the world, gives its trace. */
uint64_t world_finish(world *w, tf_time span);

/* Changes of both directions of a client's connection. */
void world_stream_hole(app *a, bool on);
void world_datagram_hole(app *a, bool on);
void world_cut(app *a);
tf_link_stats world_link_stats(const app *a, unsigned end);
bearer_stats world_bearer_stats(const app *a);

#endif
