/* How long to wait before the next dial of a peer: exponential back-off with full jitter, and under it a bound on how
 * many dials there are, whatever the reasons for them. Pure, a value to embed. `now` never goes back.
 *
 * The n-th wait after real progress is uniform in [0, min(cap, TF_BACKOFF_MIN * 2^n)]. Real progress is a stream that
 * stayed up for TF_PROGRESS_SPAN. One that came up and went again keeps the count, but no higher than TF_BACKOFF_FLAPPING
 * allows: a path that flaps is damped and not given up.
 *
 * The bound: in any span of n seconds at most n / TF_DIAL_SPACING + TF_DIAL_BURST dials. */
#ifndef TF_NODE_BACKOFF_H
#define TF_NODE_BACKOFF_H

#include "proto/limits.h"
#include "proto/types.h"

typedef struct tf_backoff {
    uint32_t tries;  /* since real progress; {0} is a fresh one */
    bool up;         /* the stream is */
    tf_time up_at;   /* since then */
    tf_time full_at; /* when the whole burst is there again */
} tf_backoff;

/* The next wait: what jitter says below `cap` (TF_BACKOFF_MAX; TF_BACKOFF_MAX_REDUNDANT in the first minute while another
 * route lives), or until a dial is allowed, whichever is longer. */
tf_time tf_backoff_next(tf_backoff *backoff, const tf_rand *rand, tf_time now, tf_time cap);

/* How long to wait before a dial for which there is a reason to make it at once: 0, or until the bound allows one. */
tf_time tf_backoff_until_allowed(const tf_backoff *backoff, tf_time now);

/* A dial begins. */
void tf_backoff_dial(tf_backoff *backoff, tf_time now);

/* The stream is up, or is gone. Repeats change nothing. */
void tf_backoff_up(tf_backoff *backoff, tf_time now);
void tf_backoff_down(tf_backoff *backoff, tf_time now);

#endif
