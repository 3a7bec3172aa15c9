/* The part of a node that keeps the stream: redials when it is gone or judged dead, through a handshake that takes its
 * round trips and whose resume numbers are as old as that, by a network that may be closed to it. */
#ifndef TF_TESTS_SIM_REDIAL_H
#define TF_TESTS_SIM_REDIAL_H

#include "tests/sim/ends.h"

typedef struct redial {
    ends *ends;
    bool closed; /* dials fail */
    bool dialling;
    uint64_t expected[NET_ENDS]; /* what each end has said in the handshake that is going on */
    tf_time backoff;
    uint64_t dials;
    uint64_t timer; /* its id */
} redial;

void redial_init(redial *r, ends *e, uint64_t timer);
/* Looks whether a dial is needed; called after every event and when the timer comes. */
void redial_look(redial *r);
void redial_timer(redial *r);

#endif
