/* Programs: the steps of a world, drawn from a seed, printed, read back, and cut down to what is needed to fail. */
#ifndef TF_TESTS_SIM_REFS_PROGRAM_H
#define TF_TESTS_SIM_REFS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define STEPS_MAX 5000u

#define OP_MAP(X)                                                                                                      \
    X(RECV)    /* the next message of a line arrives */                                                                \
    X(SEND)    /* an application sends to something that it holds, hosts or decides */                                 \
    X(PROMISE) /* one makes a promise */                                                                               \
    X(RESOLVE) /* one resolves some that it decides */                                                                 \
    X(RELEASE) /* one lets go of something */                                                                          \
    X(REVOKE)  /* one revokes an object */                                                                             \
    X(TIME)    /* time passes */                                                                                       \
    X(BURST)   /* a whole line arrives */                                                                              \
    X(SETTLE)  /* everything arrives, everything that is waited for happens */                                         \
    X(CUT)     /* a connection is lost for good */                                                                     \
    X(JOIN)    /* two nodes that lost one make another */                                                              \
    X(STARVE)  /* soon, memory runs out once */

typedef enum op {
#define X(name) OP_##name,
    OP_MAP(X)
#undef X
        OP_COUNT
} op;

typedef struct step {
    op op;
    unsigned pick; /* which line, node or connection, of those that there are */
    uint32_t salt; /* all else */
} step;

#define SHAPE_MAP(X)                                                                                                   \
    X(XY, "xy")                                                                                                        \
    X(XRY, "xry")                                                                                                      \
    X(XRRY, "xrry")                                                                                                    \
    X(STAR, "star")                                                                                                    \
    X(GRAPH, "graph")

typedef enum shape {
#define X(name, text) SHAPE_##name,
    SHAPE_MAP(X)
#undef X
        SHAPE_COUNT
} shape;

const char *shape_name(shape s);
bool shape_find(const char *name, shape *out);

/* What a seed is, and what it turns on: odds are of eight. */
typedef struct plan {
    uint64_t seed;
    shape shape;
    bool order; /* only what matters for the order of messages */
    unsigned weights[OP_COUNT];
    unsigned hold, want, answer, forward, mention, fresh, fresh_promise, passive, pad, recent;
    unsigned object, rejection;                                /* of outcomes */
    unsigned max_message, max_refs, max_promises, max_results; /* what a node announces; 0: the most there is */
    bool drops_roots, releases_first;
    bool wild_errors; /* one node revokes, softly, with errors that mention anything; else any node, with plain ones */
} plan;

void plan_make(plan *p, uint64_t seed, shape s, bool order);
void program_make(const plan *p, step *steps, size_t count);
void program_print(const plan *p, const step *steps, size_t count, FILE *to);
/* What program_print wrote. False: not that. */
bool program_read(FILE *from, plan *p, step *steps, size_t *count);

#endif
