/* Runs worlds in processes of their own, so that a failure of any kind is only found out, and shrinks what fails. */
#ifndef TF_TESTS_SIM_NODES_RUNNER_H
#define TF_TESTS_SIM_NODES_RUNNER_H

#include <time.h>

#include "tests/sim/nodes/plan.h"

#define RUNNER_FAILURES_MAX 10u
#define RUNNER_JOBS_MAX 256u

/* What came of a run. Shared by the processes. */
typedef struct verdict {
    char what[80];    /* class of the failure; "": none */
    char detail[256]; /* for people */
    tf_time at;
    uint64_t seed; /* the last one begun */
    uint64_t runs; /* seeds that were run twice */
    uint64_t acks;
    uint64_t deliveries;
    uint64_t losses;
    tf_time latest; /* by how much something was late, where P3 is checked */
} verdict;

/* Which seeds: until `last` is done or `until` has come. */
typedef struct batch {
    uint64_t first, last;
    world_size size;
    bool any_disk;
    disk_kind disk;
    unsigned jobs;
    time_t until; /* 0: no limit */
} batch;

typedef struct outcome {
    verdict sum; /* of those that passed */
    uint64_t failed;
    verdict failures[RUNNER_FAILURES_MAX]; /* after so many it ends */
} outcome;

void batch_plan(const batch *b, uint64_t seed, plan *p);
/* All seeds, each twice. */
void runner_batch(const batch *b, outcome *out);
/* One world; twice, if its failure is that two runs differ. */
void runner_once(const plan *p, const step *steps, size_t count, bool verbose, bool twice, verdict *v);
/* Takes away what is not needed to fail in the same way. Returns how many steps are left. */
size_t runner_shrink(const plan *p, step *steps, size_t count, const char *what);

#endif
