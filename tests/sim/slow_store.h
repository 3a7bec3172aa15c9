/* A store whose commits take time, fail now and then, and survive a crash of the node as a disk would: what was under way
 * is there afterwards, or not, and nobody knows. On top of the store in memory. */
#ifndef TF_TESTS_SIM_SLOW_STORE_H
#define TF_TESTS_SIM_SLOW_STORE_H

#include "node/store/memory.h"
#include "tests/support/support.h"

typedef struct slow_store {
    tf_memory_store *memory;
    tf_store inner;
    tf_test_random *random;
    tf_time now;       /* set by the host before it runs the hub */
    tf_time least;     /* a commit takes so long, */
    tf_time spread;    /* and up to so much more */
    unsigned refusals; /* in 1/1000: of a group; after some ops, all the rest is refused */
    unsigned later;    /* in 1/1000: of a read */
    tf_refusal refuses; /* STORE_FULL: of what takes room, UNAVAILABLE: of all, from the next commit on; NONE */
    tf_store_group *group;
    tf_time due; /* of the group, or of the reads that wait; TF_NEVER */
    bool reads_wait;
    tf_time reads_due;
} slow_store;

void slow_init(slow_store *s, tf_test_random *random, const tf_mem *mem);
void slow_free(slow_store *s);
tf_store slow_get(slow_store *s);
/* When it has something to tell; TF_NEVER. */
tf_time slow_deadline(const slow_store *s);
/* The node is gone: the group under way is committed, or not. */
void slow_crash(slow_store *s);

#endif
