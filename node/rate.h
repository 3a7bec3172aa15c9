/* A token bucket in virtual time, in integers (S7, S9): at most `burst` at once, `per_second` in the long run. A small value
 * to embed. Pure. */
#ifndef TF_NODE_RATE_H
#define TF_NODE_RATE_H

#include "proto/types.h"

#define TF_RATE_BURST_MAX (UINT64_C(1) << 43)

/* per_second 0: no limit. burst: 1 to TF_RATE_BURST_MAX. */
typedef struct tf_rate_limit {
    uint64_t per_second;
    uint64_t burst;
} tf_rate_limit;

typedef struct tf_rate {
    uint64_t level; /* millionths of a token, at `at` */
    tf_time at;
} tf_rate;

/* Full. */
void tf_rate_init(tf_rate *rate, const tf_rate_limit *limit, tf_time now);
/* How long until so much may be taken; 0: now. More than the burst counts as the burst. */
tf_time tf_rate_wait(const tf_rate *rate, const tf_rate_limit *limit, tf_time now, uint64_t amount);
/* Takes it: what is there, if it is less. */
void tf_rate_take(tf_rate *rate, const tf_rate_limit *limit, tf_time now, uint64_t amount);
/* As good as a new one? */
bool tf_rate_is_full(const tf_rate *rate, const tf_rate_limit *limit, tf_time now);

#endif
