/* Round-trip time of one route, and the timers that are made of it (RFC 9002 §5, §6.2). Plain struct. */
#ifndef TF_PATHS_LINK_RTT_H
#define TF_PATHS_LINK_RTT_H

#include "proto/limits.h"

typedef struct tf_link_rtt {
    bool measured;
    tf_time smoothed;
    tf_time variation;
    tf_time latest;
    tf_time least;
    uint64_t samples; /* ever */
} tf_link_rtt;

void tf_link_rtt_init(tf_link_rtt *rtt);
/* Forgets what was measured; the next sample is the first. */
void tf_link_rtt_restart(tf_link_rtt *rtt);
/* delay: what the peer says it waited before the ack; taken off where that leaves a plausible time. */
void tf_link_rtt_add(tf_link_rtt *rtt, tf_time sample, tf_time delay);
/* When a packet that is not acked is asked after, delay of acks included. */
tf_time tf_link_rtt_pto(const tf_link_rtt *rtt);
/* When a packet below an acked one counts as lost: 9/8 RTT; with each `level` (at most 3) twice as much beyond the RTT. */
tf_time tf_link_rtt_loss(const tf_link_rtt *rtt, unsigned level);
/* No progress for so long: the route is stalled. */
tf_time tf_link_rtt_stall(const tf_link_rtt *rtt);
/* Between two probes. */
tf_time tf_link_rtt_probe(const tf_link_rtt *rtt);

#endif
