/* A queue that somebody else fills: the one before the narrowest link of a way, which a download of others shares. They
 * send a quarter more than the link takes until the queue is full, then rest until a third of it has drained, and so on,
 * as TCP does: so what comes waits for up to the queue's length, and what finds it full is dropped. Whatever leaves,
 * leaves in order. Pure.
 *
 * Times are in any unit that the caller likes, the same everywhere; for a queue that is at least 12 units long. */
#ifndef TF_TESTS_HARNESS_BLOAT_H
#define TF_TESTS_HARNESS_BLOAT_H

#include "proto/types.h"

#define TF_BLOAT_RATE UINT64_C(20000000) /* bits a second of such a link, unless it has a rate of its own */
#define TF_BLOAT_FULL UINT64_MAX

/* One way. Embed it; zero bytes are an empty queue. */
typedef struct tf_bloat {
    bool is_on;
    bool rests;       /* the others do, until there is room again */
    uint64_t at;      /* up to when it is reckoned */
    uint64_t free_at; /* when the last byte that waits will have left */
} tf_bloat;

/* A packet comes at `now`, which never goes back, and takes the link for `takes`. When it has left; TF_BLOAT_FULL: the
 * queue, `length` long, is full. length 0: nobody fills it (any more), and the packet only waits for what is still in it. */
uint64_t tf_bloat_leaves(tf_bloat *bloat, uint64_t now, uint64_t length, uint64_t takes);

#endif
