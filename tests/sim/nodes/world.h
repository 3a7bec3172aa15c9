/* One seed's world: its relays and clients on a cluster (cluster.h), what the applications on them do, what the
 * plan's steps do to it, and what must be true. Failures end the process (world_fail). One world at a time. */
#ifndef TF_TESTS_SIM_NODES_WORLD_H
#define TF_TESTS_SIM_NODES_WORLD_H

#include "tests/sim/nodes/cluster.h"
#include "tests/sim/nodes/ledger.h"
#include "tests/sim/nodes/objects.h"
#include "tests/sim/nodes/plan.h"
#include "tests/sim/nodes/publisher.h"
#include "tests/sim/nodes/subscriber.h"

#define WORLD_HOMES_MAX 2u
#define WORLD_NAME_MAX 16u
#define WORLD_MOMENTS_MAX (STEPS_MAX * 8)
#define WORLD_VIEWS_MAX (PLAN_CLIENTS_MAX * WORLD_HOMES_MAX * PLAN_CHANNELS_MAX)

typedef struct world world;
typedef struct member member;

/* What one client knows of one channel of one relay: an application that sends there, and one that listens. */
typedef struct view {
    world *w;
    member *member;
    unsigned home;
    unsigned channel;
    ledger *ledger;
    size_t handle;
    bool refused; /* the channel, in this process */
    publisher pub;
    subscriber sub;
} view;

typedef struct relay {
    sim_node *node;
    disk *disk;
    tf_test_heap heap; /* of its store */
    char name[WORLD_NAME_MAX];
    ledger *ledgers; /* plan.channels */
    bool changed;    /* its store may have more */
    bool forbids;    /* now, */
    bool forbade;    /* or at any time */
    uint32_t rights_salt;
    uint64_t keep;       /* messages that it keeps of a channel now; 0: all */
    uint64_t keep_least; /* and at any time */
    int64_t latest_ms;   /* its wall clock was never later */
} relay;

typedef struct route_base {
    net_path path;
    net_pipe pipe;
} route_base;

struct member {
    sim_node *node;
    char name[WORLD_NAME_MAX];
    unsigned home_count;
    unsigned homes[WORLD_HOMES_MAX]; /* relays */
    bearer *bearers[WORLD_HOMES_MAX];
    route_base *bases[WORLD_HOMES_MAX];            /* of these, by end */
    view *views[WORLD_HOMES_MAX];                  /* plan.channels each */
    bool away[WORLD_HOMES_MAX][PLAN_CHANNELS_MAX]; /* it does not want to listen there now */
    tf_time pull_at;                               /* its application takes events then */
    objects objects;
};

/* A step begins, or is over. */
typedef struct moment {
    tf_time at;
    size_t step;
    bool begins;
} moment;

struct world {
    plan plan;
    const step *steps;
    bool verbose;
    bool ends; /* all is well, and taken down */
    cluster *cluster;
    tf_test_random random;
    cluster_handlers handlers;
    bool objects_rest; /* nobody calls */
    tf_time begin;     /* steps count from here */
    relay relays[PLAN_RELAYS_MAX];
    member members[PLAN_CLIENTS_MAX];
    view *views;
    size_t view_count;
    route_base base[CLUSTER_BEARERS_MAX][NET_ENDS]; /* what the weather of each connection goes back to */
    tf_dedup *filter;
    tf_test_heap heap; /* of the filter */
    moment moments[WORLD_MOMENTS_MAX];
    size_t moment_count;
    size_t next_moment;
    size_t turn; /* events, to look at one connection after the other */
    uint64_t deliveries;
    uint64_t acks;
    uint64_t losses; /* of sessions */
    tf_time latest;  /* by how much something came later than the way takes, where P3 is checked and nothing lost */
};

/* Runs a world to its end; the trace. */
uint64_t world_run(world *w, const plan *p, const step *steps, size_t count, bool verbose);

/* The process ends. `what` names the broken promise, and is the class of the failure; the rest is for people. */
_Noreturn void world_fail(const world *w, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void world_say(const world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

tf_time world_now(const world *w);
relay *world_relay_of(const view *v);
/* How long something takes from that client to its relay (end 0), or back. */
tf_time world_way(const view *v, unsigned end);
/* P3: it came now, was begun then, and took that way. */
void world_check_late(world *w, const view *v, tf_time begun, tf_time way);
tf_client *world_client_of(const view *v); /* NULL: its node is down */
void world_pull(world *w, member *m);      /* its application takes what there is */

/* world_cast.c */
void world_cast(world *w);
tf_time world_session_timeout(const world *w);

/* world_steps.c */
void world_begin_step(world *w, const step *s);
void world_end_step(world *w, const step *s);
void world_heal(world *w);            /* all weather is fair, all nodes run */
void world_restart_refused(world *w); /* whose channels were: once all is allowed they may open them again */
void world_apply_rights(world *w, relay *r);
void world_apply_keep(world *w, relay *r);

#endif
