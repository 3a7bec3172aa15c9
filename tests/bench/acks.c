#include "tests/bench/acks.h"

#include <inttypes.h>
#include <stdio.h>

void tf_acks_add(tf_acks *acks, uint64_t sent, uint64_t now)
{
    acks->count++;
    acks->last = now;
    tf_latency_add(&acks->latency, now - sent);
    if (acks->slice > 0 && (now - acks->begin) / acks->slice < TF_ACK_SLICES) {
        acks->slices[(now - acks->begin) / acks->slice]++;
    }
}

void tf_acks_merge(tf_acks *into, const tf_acks *from)
{
    into->count += from->count;
    into->last = from->last > into->last ? from->last : into->last;
    tf_latency_merge(&into->latency, &from->latency);
    for (unsigned i = 0; i < TF_ACK_SLICES; i++) {
        into->slices[i] += from->slices[i];
    }
}

void tf_acks_print(const tf_acks *acks)
{
    tf_measure_print("acked", (double)acks->count);
    if (acks->count == 0) {
        return;
    }
    uint64_t span = acks->last - acks->begin;
    tf_measure_print("acked_per_s", (double)acks->count * 1e9 / (double)span);
    tf_latency_print(&acks->latency, "ack");
    for (uint64_t i = 0; acks->slice > 0 && i < span / acks->slice && i < TF_ACK_SLICES; i++) {
        (void)printf("slice_%" PRIu64 "_per_s %.8g\n", i, (double)acks->slices[i] * 1e9 / (double)acks->slice);
    }
}
