/* What a sender of acked messages counts, and the lines in which all load generators report it: acked, acked_per_s (from
 * `begin` to the last ack), ack_p50_us and the like, and slice_<K>_per_s for each whole slice of time. One object a thread;
 * those of several threads are merged. */
#ifndef TF_BENCH_ACKS_H
#define TF_BENCH_ACKS_H

#include "tests/bench/measure.h"

#define TF_ACK_SLICES 1024u /* what comes after so many is in no slice */

typedef struct tf_acks {
    uint64_t begin; /* ns: when the first message may be sent. Set by the caller, the same for all that are merged */
    uint64_t slice; /* ns; 0: no slices. Likewise */
    uint64_t count;
    uint64_t last; /* ns: the last ack */
    tf_latency latency;
    uint64_t slices[TF_ACK_SLICES];
} tf_acks;

/* An ack came at `now` for what was sent at `sent`, neither before `begin`. */
void tf_acks_add(tf_acks *acks, uint64_t sent, uint64_t now);
void tf_acks_merge(tf_acks *into, const tf_acks *from);
void tf_acks_print(const tf_acks *acks);

#endif
