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

tf_time tf_backoff_next(tf_backoff *backoff, const tf_rand *rand, tf_time now, tf_time cap)
{
    TF_ASSERT(cap <= TF_NEVER / 4); /* so that doubling cannot overflow */
    tf_time ceiling = ceiling_of(backoff->tries, cap);
    if (ceiling < cap) {
        backoff->tries++; /* beyond the cap there is nothing to count */
    }
    tf_time wait = tf_rand_u64(rand) % (ceiling + 1); /* the bias is below 2^-39 */
    return tf_time_max(wait, tf_backoff_until_allowed(backoff, now));
}

tf_time tf_backoff_until_allowed(const tf_backoff *backoff, tf_time now)
{
    tf_time allowed_at = backoff->full_at + TF_DIAL_SPACING;
    tf_time burst_end = tf_time_add(now, TF_DIAL_BURST * TF_DIAL_SPACING);
    return allowed_at > burst_end ? allowed_at - burst_end : 0;
}

void tf_backoff_dial(tf_backoff *backoff, tf_time now)
{
    backoff->full_at = tf_time_add(tf_time_max(backoff->full_at, now), TF_DIAL_SPACING);
}

void tf_backoff_up(tf_backoff *backoff, tf_time now)
{
    if (!backoff->up) {
        backoff->up = true;
        backoff->up_at = now;
    }
}

void tf_backoff_down(tf_backoff *backoff, tf_time now)
{
    if (!backoff->up) {
        return;
    }
    backoff->up = false;
    if (now - backoff->up_at >= TF_PROGRESS_SPAN) {
        backoff->tries = 0;
        return;
    }
    while (backoff->tries > 0 && ceiling_of(backoff->tries, TF_BACKOFF_MAX) > TF_BACKOFF_FLAPPING) {
        backoff->tries--;
    }
}
