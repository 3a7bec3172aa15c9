/* What goes wrong on the virtual network: a set of kinds of faults, drawn for a seed, and one fault after the other. */
#ifndef TF_TESTS_SIM_FAULTS_H
#define TF_TESTS_SIM_FAULTS_H

#include <stdio.h>

#include "tests/sim/redial.h"

typedef enum fault {
    FAULT_LOSS,
    FAULT_REPEAT,
    FAULT_LATE,
    FAULT_JITTER,
    FAULT_RATE,          /* of the datagram path, with a queue */
    FAULT_DATAGRAM_HOLE, /* one way or both */
    FAULT_STREAM_HOLE,
    FAULT_STREAM_CUT,
    FAULT_STREAM_RATE,
    FAULT_NO_DIAL, /* the stream cannot be had for a while */
    FAULT_KEYS,    /* generations that never get a stream */
    FAULT_TINY_WINDOW,
    FAULT_BIG_MESSAGES, /* for who makes the messages */
    FAULT_DATA_ROUTES,  /* messages by one route only, in a direction */
    FAULT_MTU,          /* of the datagram path, in a direction */
    FAULT_STANDBY,      /* one route is on standby, at an end */
    FAULT_COUNT
} fault;

typedef struct faults {
    ends *ends;
    redial *redial;
    uint32_t set;
    tf_routes data[NET_ENDS]; /* by sending end */
    tf_routes standby[NET_ENDS];
} faults;

/* Draws the set, and the network and windows that go with it (before ends_start). */
void faults_draw(faults *f, ends *e, redial *r);
bool faults_has(const faults *f, fault kind);
/* Draws one kind; if the set has it, it happens now. */
void faults_one(faults *f);
/* All is well from now on. */
void faults_heal(faults *f);
void faults_print(const faults *f, FILE *to);

#endif
