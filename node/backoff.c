#include "node/backoff.h"

/* min(cap, TF_BACKOFF_MIN * 2^tries), without overflow. */
static tf_time ceiling_of(uint32_t tries, tf_time cap)
{
    tf_time ceiling = TF_BACKOFF_MIN;
    for (uint32_t i = 0; i < tries && ceiling < cap; i++) {
        ceiling *= 2;
    }
    return tf_time_min(ceiling, cap);
}

tf_time tf_backoff_next(tf_backoff *backoff, const tf_rand *rand, tf_time cap)
{
    TF_ASSERT(cap <= TF_NEVER / 4); /* so that doubling cannot overflow */
    tf_time ceiling = ceiling_of(backoff->tries, cap);
    if (ceiling < cap) {
        backoff->tries++; /* beyond the cap there is nothing to count */
    }
    return tf_rand_u64(rand) % (ceiling + 1); /* the bias is below 2^-39 */
}

void tf_backoff_reset(tf_backoff *backoff)
{
    backoff->tries = 0;
}
