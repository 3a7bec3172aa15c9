/* Objects of the clients of a relay, which call each other's through it (callers.h), over restarts. */
#ifndef TF_TESTS_SIM_NODES_OBJECTS_H
#define TF_TESTS_SIM_NODES_OBJECTS_H

#include "tests/sim/callers.h"

struct member;
struct world;

typedef struct objects {
    bool on;
    unsigned index; /* of those of its relay */
    unsigned count;
    caller caller;
    uint64_t answered; /* before the last look */
} objects;

void objects_init(struct world *w);
void objects_start(struct world *w, struct member *m);
void objects_told(struct world *w, struct member *m, const tf_client_event *event);
void objects_pull(struct world *w, struct member *m);
/* When something is to be done. */
tf_time objects_due(const struct world *w);
void objects_act(struct world *w, tf_time now);
/* Everybody reaches everybody since the last call of this. */
bool objects_all_answered(struct world *w);
void objects_finish(struct world *w);
bool objects_are_finished(const struct world *w);

#endif
