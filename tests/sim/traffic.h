/* Numbered messages over two links on the virtual network, and the checker of promise P2: each arrives once, in order, as
 * it was sent, none is invented. What a message is follows from its direction and number alone. */
#ifndef TF_TESTS_SIM_TRAFFIC_H
#define TF_TESTS_SIM_TRAFFIC_H

#include "tests/sim/ends.h"

#define TRAFFIC_TIMES 65536u

typedef struct traffic_flow {
    bool on;
    tf_time interval; /* between messages */
    size_t size_min;
    size_t size_max;
    uint64_t limit; /* messages in all */
    uint64_t due;   /* asked for so far */
    uint64_t sent;  /* taken by the link */
    uint64_t got;   /* delivered to the other end */
    tf_time last_got;
    tf_time longest_gap;  /* between deliveries, while messages were outstanding */
    tf_time longest_late; /* from when a message was due to its delivery */
    tf_time late_limit;   /* set by the test: */
    uint64_t late;        /* messages that took longer */
    uint64_t via[TF_ROUTE_COUNT];
    tf_time due_at[TRAFFIC_TIMES]; /* by number */
    const tf_time *schedule;       /* when each message is due, by number (as many as the limit); NULL: by the interval */
    tf_time *arrived_at;           /* each message, by number, is noted here; NULL: not */
} traffic_flow;

typedef struct traffic {
    ends ends;
    traffic_flow flow[NET_ENDS];                     /* by sending end */
    void (*program)(struct traffic *t, uint64_t id); /* timers with ids from 2 on; may be NULL */
} traffic;

traffic *traffic_new(uint64_t seed);
void traffic_free(traffic *t);

/* From now on `end` sends `count` messages (UINT64_MAX: without end), one each interval, in sizes as given. */
void traffic_start(traffic *t, unsigned end, tf_time interval, uint64_t count, size_t size_min, size_t size_max);
void traffic_stop(traffic *t, unsigned end);
/* At `at` the program is called with the id (2 or more). */
void traffic_at(traffic *t, tf_time at, uint64_t id);
/* Has everything that was due come to the other end? */
bool traffic_is_done(const traffic *t);
/* Forgets gaps and delays up to now. */
void traffic_measure(traffic *t);

#endif
