/* The replay window of the datagram packets of one generation and direction (RFC 6479): exact over the last
 * TF_REPLAY_WINDOW packet numbers; what is older is refused.
 *
 * Check before opening the packet if you like (it is const), commit only after it has opened: nothing unauthenticated
 * moves the window. Between a check and its commit no other commit may come, or check again.
 * A plain value: embed it, zeroed (or tf_replay_init). Packet numbers do not wrap: 0 to 2^64 - 1. Pure. One thread. */
#ifndef TF_DEDUP_REPLAY_H
#define TF_DEDUP_REPLAY_H

#include "proto/limits.h"
#include "proto/types.h"

#define TF_REPLAY_WORDS (TF_REPLAY_WINDOW / 64u + 1u) /* one to spare, so that the window is whole at every offset */

typedef struct tf_replay {
    uint64_t highest; /* committed; means nothing while !any */
    bool any;
    uint64_t words[TF_REPLAY_WORDS]; /* ring of bits, by packet number / 64 */
} tf_replay;

typedef enum tf_replay_verdict {
    TF_REPLAY_NEW,
    TF_REPLAY_REPEAT, /* committed before, for certain */
    TF_REPLAY_LATE    /* older than the window: refused, but counted apart, it may never have been seen */
} tf_replay_verdict;

void tf_replay_init(tf_replay *replay);

/* Decides, changes nothing. */
tf_replay_verdict tf_replay_check(const tf_replay *replay, uint64_t number);
/* Marks number as seen. Only for one that checks NEW (asserted). */
void tf_replay_commit(tf_replay *replay, uint64_t number);

/* The number after the highest committed one, 0 before the first: from it the short number of the next packet is
 * expanded (RFC 9000 A.3). A packet with number >= this is newer than all before. Stays at 2^64 - 1 at the end. */
uint64_t tf_replay_next(const tf_replay *replay);

#endif
