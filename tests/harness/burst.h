/* Loss that comes in bursts, as radio has it: a way is good or bad for a while (Gilbert's model). Pure. */
#ifndef TF_TESTS_HARNESS_BURST_H
#define TF_TESTS_HARNESS_BURST_H

#include "tests/support/support.h"

#define TF_BURST_MILLION 1000000u

/* One way. Embed it; zero bytes are a good one. */
typedef struct tf_burst {
    bool is_bad;
} tf_burst;

/* Whether the next packet is lost: `odds` millionths of all are, `length` in a row on average (0 and 1: each by itself). */
bool tf_burst_loses(tf_burst *burst, tf_test_random *random, uint64_t odds, uint64_t length);

#endif
