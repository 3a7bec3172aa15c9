/* The mode `sim` of twofold-lab: relay and clients as nodes of a cluster (tests/sim/nodes/cluster.h), in one process
 * and in virtual time. What the files of that mode share. */
#ifndef TF_TESTS_HARNESS_LAB_SIM_H
#define TF_TESTS_HARNESS_LAB_SIM_H

#include "tests/harness/lab_player.h"
#include "tests/sim/nodes/cluster.h"

/* -- routes -------------------------------------------------------------------------------------------------------- */

/* What a client's routes are like. */
typedef struct tf_lab_sim_routes {
    bearer *bearer;
    tf_scenario_state states[TF_ROUTE_COUNT][TF_WAY_COUNT];
    bool is_closed; /* the relay accepts nobody any more, whatever the routes are like */
} tf_lab_sim_routes;

/* Routes without faults. */
void tf_lab_sim_routes_init(tf_lab_sim_routes *r, bearer *b);
/* random: for the byte at which a stream is cut. */
void tf_lab_sim_routes_apply(tf_lab_sim_routes *r, tf_route route, tf_scenario_way way, const tf_scenario_state *state,
                             tf_test_random *random, tf_time now);
void tf_lab_sim_routes_close(tf_lab_sim_routes *r, bool closed);

/* -- a client ------------------------------------------------------------------------------------------------------ */

typedef struct tf_lab_sim_client {
    tf_lab_player player;
    sim_node *node;
    tf_lab_sim_routes routes;
    size_t flows[TF_SCENARIO_FLOWS_MAX]; /* channels */
    size_t subs[TF_SCENARIO_SUBS_MAX];
} tf_lab_sim_client;

/* Its node was started. */
void tf_lab_sim_client_begin(tf_lab_sim_client *c, tf_time now);
/* Takes what came. */
void tf_lab_sim_client_hear(tf_lab_sim_client *c, tf_time now);
/* Sends and counts what is due, while its node runs. When it is to be called again. */
tf_time tf_lab_sim_client_go_on(tf_lab_sim_client *c, tf_time start, tf_time now);
void tf_lab_sim_client_sample(tf_lab_sim_client *c, tf_time start, tf_time now);
/* A session began, or is about to be forgotten. */
void tf_lab_sim_client_session(tf_lab_sim_client *c, bearer_event_type type, tf_time now);

#endif
