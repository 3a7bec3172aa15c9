/* What a client of a laboratory does, whatever it is made of (a process with sockets, a node of the simulator): it
 * sends what is due, notes what comes, and counts. All that it has to know when it is killed and started again is in
 * the shared memory: it goes on with the first message that was not answered, and at the position that it had. */
#ifndef TF_TESTS_HARNESS_LAB_PLAYER_H
#define TF_TESTS_HARNESS_LAB_PLAYER_H

#include "node/twofold.h"
#include "tests/harness/lab.h"

typedef struct tf_lab_player {
    const tf_scenario *s;
    uint32_t node;
    tf_routes routes; /* that it may use */
    tf_lab_shared *shared;
    tf_lab_shared_client *own; /* of these */
    /* Sends on that flow's channel; TF_ERR_AGAIN: later, once `full` was cleared. */
    tf_err (*send)(void *ctx, uint32_t flow, const tf_remote_send_args *send);
    void *ctx;
    uint32_t next[TF_SCENARIO_FLOWS_MAX]; /* message; by flow */
    bool subscribed[TF_SCENARIO_SUBS_MAX];
    bool full;
    bool failed;          /* own->error says why */
    tf_time connected_at; /* TF_NEVER: not yet */
    tf_time sample_at;    /* the next one */
    tf_lab_sample before; /* what earlier lives of this client had counted */
    uint8_t body[TF_SCENARIO_BODY_MAX];
} tf_lab_player;

/* Begins a life of the client. send and ctx are the caller's to set. */
void tf_lab_player_init(tf_lab_player *p, const tf_scenario *s, uint32_t node, tf_routes most, tf_lab_shared *shared);
/* It cannot go on. */
void tf_lab_player_fail(tf_lab_player *p, const char *what, tf_slice text);

/* Whether a flow or a subscription is this client's. */
bool tf_lab_player_sends(const tf_lab_player *p, uint32_t flow);
bool tf_lab_player_hears(const tf_lab_player *p, uint32_t sub);
/* The seq with which a subscription goes on; 0: with the first there is. */
uint64_t tf_lab_player_position(const tf_lab_player *p, uint32_t sub);

/* Sends what is due. When the next one is; TF_NEVER: none is, or there is no room. */
tf_time tf_lab_player_feed(tf_lab_player *p, tf_time start, tf_time now);
/* Of the cookie of a send. */
void tf_lab_player_answered(tf_lab_player *p, uint64_t cookie, tf_lab_message state);
void tf_lab_player_heard(tf_lab_player *p, uint32_t sub, uint64_t seq, tf_slice body, tf_time now);

/* What this life counted so far. */
typedef struct tf_lab_counts {
    const tf_route_stats *routes[TF_ROUTE_COUNT];
    uint64_t sessions;
    uint64_t resumes;
    bool connected;
} tf_lab_counts;

/* What is counted of a session, but for `sessions`, begins anew: it is kept. */
void tf_lab_player_keep(tf_lab_player *p, const tf_lab_counts *counts);
void tf_lab_player_sample(tf_lab_player *p, const tf_lab_counts *counts, tf_time start, tf_time now);
/* Tells, once it is so, that the traffic may begin: it is connected, has subscribed, and has all routes or has waited
 * for them long enough. */
void tf_lab_player_look(tf_lab_player *p, const tf_lab_counts *counts, tf_time now);

#endif
