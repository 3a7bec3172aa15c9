#include "paths/link_congestion.h"

#define PACKET ((size_t)TF_PACKET_BASE)
#define WINDOW_INITIAL ((size_t)(TF_CWND_INITIAL))
#define WINDOW_MIN ((size_t)(TF_CWND_MIN))
#define WINDOW_MAX ((size_t)(TF_CWND_MAX))
#define WINDOW_NOISY WINDOW_INITIAL /* losses that look like noise do not take it below */
#define QUEUE_PACKETS 3u            /* Veno: fewer of ours in the queue of the path are none */
#define NOISE_PARTS 4u              /* where one in so many bytes is lost, it is no noise (a policer has no queue) */
#define BURST_PACKETS 10u
#define BURST_TIME (2 * TF_MS)

void tf_link_congestion_init(tf_link_congestion *cc)
{
    *cc = (tf_link_congestion){.window = WINDOW_INITIAL, .threshold = SIZE_MAX};
}

void tf_link_congestion_restart(tf_link_congestion *cc)
{
    cc->window = WINDOW_INITIAL;
    cc->threshold = SIZE_MAX;
    cc->missed = 0;
    cc->unproved = 0;
    cc->limited = false;
    cc->pace_at = 0;
}

bool tf_link_congestion_has_room(const tf_link_congestion *cc)
{
    return cc->in_flight + PACKET <= cc->window;
}

tf_time tf_link_congestion_pace(const tf_link_congestion *cc)
{
    return cc->pace_at;
}

/* The time that `bytes` take at 5/4 of window per round trip, twice that in slow start. */
static tf_time spacing(const tf_link_congestion *cc, const tf_link_rtt *rtt, size_t bytes)
{
    uint64_t quarters = cc->window < cc->threshold ? 10 : 5;
    return bytes * rtt->smoothed * 4 / (quarters * cc->window);
}

void tf_link_congestion_sent(tf_link_congestion *cc, const tf_link_rtt *rtt, tf_time now, size_t bytes)
{
    tf_time burst = tf_time_max(spacing(cc, rtt, BURST_PACKETS * PACKET), BURST_TIME);
    if (now > burst && cc->pace_at < now - burst) {
        cc->pace_at = now - burst;
    }
    cc->pace_at += spacing(cc, rtt, bytes);
    cc->in_flight += bytes;
}

void tf_link_congestion_gone(tf_link_congestion *cc, size_t bytes)
{
    TF_ASSERT(bytes <= cc->in_flight);
    cc->in_flight -= bytes;
}

void tf_link_congestion_missed(tf_link_congestion *cc, size_t bytes)
{
    tf_link_congestion_gone(cc, bytes);
    cc->round_lost += bytes;
    cc->missed++;
}

void tf_link_congestion_acked(tf_link_congestion *cc, tf_time sent_at, size_t bytes)
{
    tf_link_congestion_gone(cc, bytes);
    cc->round_acked += bytes;
    if (!cc->limited || sent_at <= cc->recovery) {
        return;
    }
    if (cc->window < cc->threshold) {
        cc->window += bytes;
    } else {
        cc->window += PACKET * bytes / cc->window;
    }
    if (cc->window > WINDOW_MAX) {
        cc->window = WINDOW_MAX;
    }
    if (cc->in_flight + 2 * PACKET < cc->window) {
        cc->limited = false;
    }
}

/* Does the loss come from a full queue or a policer, or is it noise? */
static bool is_congested(const tf_link_congestion *cc, const tf_link_rtt *rtt)
{
    tf_time waiting = rtt->smoothed > rtt->least ? rtt->smoothed - rtt->least : 0;
    if (rtt->smoothed > 0 && cc->window * waiting / rtt->smoothed >= QUEUE_PACKETS * PACKET) {
        return true;
    }
    return cc->round_lost >= WINDOW_NOISY / NOISE_PARTS && cc->round_lost * (NOISE_PARTS - 1) > cc->round_acked;
}

void tf_link_congestion_lost(tf_link_congestion *cc, const tf_link_rtt *rtt, tf_time now, tf_time sent_at)
{
    size_t missed = cc->missed;
    cc->missed = 0;
    if (sent_at <= cc->recovery) {
        cc->unproved += cc->unproved > 0 ? missed : 0;
        return;
    }
    cc->recovery = now;
    cc->unproved = missed;
    cc->before_window = cc->window;
    cc->before_threshold = cc->threshold;
    bool congested = is_congested(cc, rtt);
    size_t window = congested ? cc->window * 7 / 10 : cc->window * 9 / 10;
    size_t least = congested ? WINDOW_MIN : WINDOW_NOISY;
    if (window < least) {
        window = cc->window < least ? cc->window : least;
    }
    cc->window = window;
    cc->threshold = window > least ? window : least;
    cc->round_acked = 0;
    cc->round_lost = 0;
}

void tf_link_congestion_came(tf_link_congestion *cc, size_t count)
{
    if (cc->unproved > count) {
        cc->unproved -= count;
    } else if (cc->unproved > 0) {
        cc->unproved = 0;
        cc->window = cc->window > cc->before_window ? cc->window : cc->before_window;
        cc->threshold = cc->threshold > cc->before_threshold ? cc->threshold : cc->before_threshold;
    }
}

void tf_link_congestion_collapse(tf_link_congestion *cc)
{
    cc->unproved = 0;
    cc->threshold = cc->window / 2 > WINDOW_NOISY ? cc->window / 2 : WINDOW_NOISY;
    cc->window = WINDOW_MIN;
}
