/* How long to wait before the next dial: exponential back-off with full jitter. Pure, a value to embed.
 *
 * The n-th wait after a reset is uniform in [0, min(cap, TF_BACKOFF_MIN * 2^n)]. */
#ifndef TF_NODE_BACKOFF_H
#define TF_NODE_BACKOFF_H

#include "proto/limits.h"
#include "proto/types.h"

typedef struct tf_backoff {
    uint32_t tries; /* since the last reset; {0} is a fresh one */
} tf_backoff;

/* The next wait, at most `cap` (TF_BACKOFF_MAX; TF_BACKOFF_MAX_REDUNDANT in the first minute while another route lives). */
tf_time tf_backoff_next(tf_backoff *backoff, const tf_rand *rand, tf_time cap);

/* Real progress was made: the next wait is short again. */
void tf_backoff_reset(tf_backoff *backoff);

#endif
