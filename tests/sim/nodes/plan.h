/* What a seed is: how large its world is, what it turns on, and a list of timed steps. Steps are independent of
 * each other, so that any of them may be left out (that is how a failure is shrunk): each draws what it needs
 * from its own salt. Printed, and read back. */
#ifndef TF_TESTS_SIM_NODES_PLAN_H
#define TF_TESTS_SIM_NODES_PLAN_H

#include <stdio.h>

#include "tests/sim/nodes/disk.h"

#define STEPS_MAX 1024u
#define PLAN_RELAYS_MAX 3u
#define PLAN_CLIENTS_MAX 30u
#define PLAN_CHANNELS_MAX 12u

#define STEP_MAP(X)                                                                                                    \
    X(SEND)    /* a client sends some messages to a channel */                                                         \
    X(PACKETS) /* weather of a datagram route */                                                                       \
    X(PIPE)    /* weather of a stream route */                                                                         \
    X(HOLE)    /* some routes of a connection let nothing through, one way or both */                                  \
    X(BURST)   /* the same in short holes, one after the other */                                                      \
    X(CUT)     /* a stream breaks, at some byte */                                                                     \
    X(CLOSED)  /* the port answers no dial */                                                                          \
    X(REBIND)  /* a NAT forgets */                                                                                     \
    X(KILL)    /* the process of a node is gone, and comes back */                                                     \
    X(CRASH)   /* its power is */                                                                                      \
    X(STOP)    /* it ends in order */                                                                                  \
    X(PAUSE)   /* it does not run */                                                                                   \
    X(CLOCK)   /* its wall clock jumps */                                                                              \
    X(DISK)    /* its disk is slow, has errors, is full */                                                             \
    X(SLOW)    /* an application takes its events late */                                                              \
    X(LEAVE)   /* a subscription ends, and begins again */                                                             \
    X(TRIM)    /* what is old in a channel goes */                                                                     \
    X(CLOSE)   /* a channel takes no more */                                                                           \
    X(KEEP)    /* a relay keeps fewer messages */                                                                      \
    X(RIGHTS)  /* a relay forbids some for a while */

typedef enum step_kind {
#define X(name) STEP_##name,
    STEP_MAP(X)
#undef X
        STEP_KIND_COUNT
} step_kind;

typedef struct step {
    tf_time at; /* since the world began */
    step_kind kind;
    unsigned target; /* which of those that there are */
    uint32_t salt;   /* all else */
    tf_time span;    /* it is over then */
} step;

#define KIND_BIT(kind) (1u << (kind))

typedef enum world_size { SIZE_ANY, SIZE_TINY, SIZE_SMALL, SIZE_LARGE } world_size;

typedef enum filter_kind { FILTER_NONE, FILTER_FAIR, FILTER_TINY, FILTER_FULL } filter_kind;

typedef struct plan {
    uint64_t seed;
    world_size size;
    disk_kind disk;
    bool any_disk; /* the disk was the seed's choice */
    unsigned relays;
    unsigned clients;
    unsigned channels; /* of each relay */
    unsigned homes;    /* relays that a client joins, at most */
    uint32_t kinds;    /* KIND_BIT: what happens */
    tf_time span;      /* of troubles */
    bool healthy;      /* P3: one route of each connection is well; it is the same for all */
    tf_route well;
    unsigned loss; /* of datagrams, in thousandths, though it is their route that is well */
    bool objects; /* clients call each other's */
    bool own_ids; /* client ids are the application's: it can send again after a restart */
    bool big_bodies;
    bool expires;
    bool small_store;
    bool tiny_queues;
    bool short_sessions; /* a session does not survive a longer hole */
    bool slow_commits;
    filter_kind filter;
    unsigned window;       /* sends in flight that a relay allows; 0: the default */
    unsigned rate;         /* sends a second of a client; 0: no limit */
    unsigned commit_bytes; /* of one client, being committed; 0: the default */
    tf_time longest;       /* delay of a route */
} plan;

/* size SIZE_ANY: the seed's choice. */
void plan_make(plan *p, uint64_t seed, world_size size);
void plan_set_disk(plan *p, disk_kind kind);
/* Returns how many; sorted by `at`. */
size_t plan_steps(const plan *p, step steps[STEPS_MAX]);

const char *step_name(step_kind kind);
const char *size_name(world_size size);
bool size_find(const char *name, world_size *out);

void plan_print(const plan *p, const step *steps, size_t count, FILE *to);
/* What plan_print wrote. False: not that. */
bool plan_read(FILE *from, plan *p, step steps[STEPS_MAX], size_t *count);

#endif
