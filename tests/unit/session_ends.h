/* What tests of proto/session over a pair of nodes share: the pair, side 0 called A and side 1 B, how it begins and ends. */
#ifndef TF_TESTS_UNIT_SESSION_ENDS_H
#define TF_TESTS_UNIT_SESSION_ENDS_H

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

#define A 0
#define B 1

static tf_pair pair;

/* B announces limits of its own. */
static inline void begin(const tf_session_limits *of_b)
{
    tf_session_limits limits[2] = {tf_pair_limits(), *of_b};
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), limits), TF_OK);
}

/* All is acked, nothing is left. */
static inline void settle_empty(void)
{
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}

static inline tf_mention new_ref(int side, bool promise)
{
    return (tf_mention){.local = promise ? tf_pair_new_promise(&pair, side) : tf_pair_new_object(&pair, side),
                        .kind = promise ? TF_REF_PROMISE : TF_REF_OBJECT};
}

/* A mentions so many new ones to B's root. */
static inline tf_err deliver(size_t objects, size_t promises, bool want)
{
    tf_mention refs[8];
    for (size_t i = 0; i < objects + promises; i++) {
        refs[i] = new_ref(A, i >= objects);
    }
    return tf_pair_send_refs(&pair, A, refs, objects + promises, want);
}

#endif
