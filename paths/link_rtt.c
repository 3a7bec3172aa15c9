#include "paths/link_rtt.h"

void tf_link_rtt_init(tf_link_rtt *rtt)
{
    *rtt = (tf_link_rtt){.smoothed = TF_RTT_INITIAL, .variation = TF_RTT_INITIAL / 2, .latest = TF_RTT_INITIAL};
}

void tf_link_rtt_restart(tf_link_rtt *rtt)
{
    uint64_t samples = rtt->samples;
    tf_link_rtt_init(rtt);
    rtt->samples = samples;
}

void tf_link_rtt_add(tf_link_rtt *rtt, tf_time sample, tf_time delay)
{
    rtt->samples++;
    if (!rtt->measured) {
        rtt->measured = true;
        rtt->smoothed = sample;
        rtt->variation = sample / 2;
        rtt->latest = sample;
        rtt->least = sample;
        return;
    }
    rtt->least = tf_time_min(rtt->least, sample);
    delay = tf_time_min(delay, TF_LINK_ACK_DELAY);
    rtt->latest = sample >= rtt->least + delay ? sample - delay : sample;
    tf_time off = rtt->smoothed > rtt->latest ? rtt->smoothed - rtt->latest : rtt->latest - rtt->smoothed;
    rtt->variation = (3 * rtt->variation + off) / 4;
    rtt->smoothed = (7 * rtt->smoothed + rtt->latest) / 8;
}

tf_time tf_link_rtt_pto(const tf_link_rtt *rtt)
{
    return rtt->smoothed + tf_time_max(4 * rtt->variation, TF_GRANULARITY) + TF_LINK_ACK_DELAY;
}

tf_time tf_link_rtt_loss(const tf_link_rtt *rtt, unsigned level)
{
    tf_time longest = tf_time_max(rtt->smoothed, rtt->latest);
    return tf_time_max(longest + (longest << level) / 8, TF_GRANULARITY);
}

tf_time tf_link_rtt_stall(const tf_link_rtt *rtt)
{
    return tf_time_max(2 * rtt->smoothed + 4 * rtt->variation + TF_STALL_EXTRA, TF_STALL_MIN);
}

tf_time tf_link_rtt_probe(const tf_link_rtt *rtt)
{
    return tf_time_max(2 * tf_link_rtt_pto(rtt), TF_PROBE_MIN);
}
