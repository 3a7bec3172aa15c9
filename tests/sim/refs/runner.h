/* Runs programs in processes of their own, so that a failure of any kind is only found out, and shrinks what fails. */
#ifndef TF_TESTS_SIM_REFS_RUNNER_H
#define TF_TESTS_SIM_REFS_RUNNER_H

#include <time.h>

#include "tests/sim/refs/program.h"

/* What came of a run. Shared by the processes. */
typedef struct verdict {
    char what[80];    /* class of the failure; "": none */
    char detail[256]; /* for people */
    size_t step;      /* steps begun */
    uint64_t seed;    /* the last one begun */
    uint64_t runs;    /* programs that were run twice */
    uint64_t messages;
    uint64_t held, fenced; /* steps */
} verdict;

/* Which seeds: until `last` is done or `until` has come. */
typedef struct batch {
    uint64_t first, last;
    size_t steps;
    bool any_shape; /* each seed its own */
    shape shape;
    bool order;
    time_t until; /* 0: no limit */
} batch;

shape batch_shape(const batch *b, uint64_t seed);

/* False: a seed failed, v says which and why. */
bool runner_batch(const batch *b, verdict *v);
/* One program, once. */
void runner_once(const plan *p, const step *steps, size_t count, bool verbose, verdict *v);
/* Takes away what is not needed to fail in the same way. Returns how many steps are left. */
size_t runner_shrink(const plan *p, step *steps, size_t count, const char *what);

#endif
