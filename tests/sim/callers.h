/* What clients do with objects, through a relay: each publishes one, looks up the next one's, calls
 * it, and sends to what it is promised before it is there. What must be true: every call gets one answer, its own or a
 * rejection; what comes over one reference comes in the order sent, also when a promise becomes an object (P6). */
#ifndef TF_TESTS_SIM_CALLERS_H
#define TF_TESTS_SIM_CALLERS_H

#include "node/client.h"
#include "node/hub_objects.h"
#include "tests/support/support.h"

#define CALLER_WAITING_MAX 64u
#define CALLER_LINES 64u /* references that a callee tells apart */

/* A reference that numbered messages go over. */
typedef struct caller_line {
    tf_local target; /* TF_LOCAL_NONE: there is none */
    uint32_t tag;
    uint32_t number;
} caller_line;

typedef struct caller_call {
    tf_local promise;
    uint32_t tag;
    uint32_t number;
    bool makes_line; /* its answer is an object */
} caller_call;

typedef struct caller {
    tf_hub *hub;
    tf_client *client;
    tf_test_random *random;
    char name[16];
    char wanted[16];
    tf_local own;
    bool asking;
    bool finished;
    tf_time act_at; /* TF_NEVER: no more */
    caller_line found;
    caller_line promised; /* a promise, or what it was resolved to, which is held then */
    bool promised_held;
    uint32_t tags;
    caller_call waiting[CALLER_WAITING_MAX];
    size_t waiting_count;
    struct {
        uint32_t tag;
        uint32_t number;
    } heard[CALLER_LINES];
    uint64_t answered;
    uint64_t lost;  /* calls that were rejected */
    uint64_t trace; /* of what came */
} caller;

/* The index-th of count; hub and client are its own. False: no memory. */
bool caller_begin(caller *c, tf_time now, unsigned index, unsigned count);
/* One random thing. NULL, or what is wrong. */
const char *caller_act(caller *c, tf_time now);
/* What the client or the hub tells. NULL, or what is wrong. */
const char *caller_told(caller *c, tf_time now, const tf_client_event *event);
const char *caller_pull(caller *c, tf_time now);
/* Begins nothing more, and lets go of everything. */
void caller_finish(caller *c, tf_time now);

#endif
