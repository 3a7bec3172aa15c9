/* The merge point of a link: segments from all routes, de-duplicated, put in order and assembled to messages.
 *
 * What may be held is the announced window, counted from the floor (the next segment that the assembler takes); it is
 * never dropped. Judging and accepting are apart, so that a packet is judged whole before any of it is applied:
 *
 *     tf_link_judgement j = tf_link_recv_judge_begin(recv);
 *     for each segment:  tf_link_recv_judge(recv, &j, &segment, &judged)
 *     for each segment:  tf_link_recv_accept(recv, &arrival, &segment, &judged)
 *     tf_link_recv_judge_commit(recv, &j)
 *
 * Not for: acks (link_ack). Not thread-safe. */
#ifndef TF_PATHS_LINK_RECV_H
#define TF_PATHS_LINK_RECV_H

#include "dedup/dedup.h"
#include "paths/link.h"
#include "paths/link_pool.h"
#include "proto/frame.h"

#define TF_LINK_RECENT 1024u /* segments for which the second copy is waited for */

typedef struct tf_link_held {
    uint8_t *data; /* NULL: not here */
    uint16_t len;
    uint8_t flags;
    uint8_t via; /* tf_route of the first copy */
} tf_link_held;

/* Received on one route, in one generation (what a link ack tells) and in all. */
typedef struct tf_link_received {
    uint64_t generation;
    uint64_t bytes;
    uint64_t first;
    uint64_t repeats;
    uint64_t total_segments;
    uint64_t total_bytes;
    uint64_t total_first;
    uint64_t total_repeats;
    uint64_t only;
    uint64_t lately; /* `news` when a segment last came */
    uint64_t late[TF_LATE_BUCKETS];
} tf_link_received;

typedef struct tf_link_recv {
    const tf_mem *mem;
    tf_link_pool *pool;
    tf_dedup_stream *seen;
    size_t max_segments;
    size_t max_bytes;
    size_t max_message;
    /* order */
    tf_link_held *held;
    size_t capacity; /* of held: 0 or a power of two */
    size_t held_segments;
    size_t held_bytes;
    uint64_t floor; /* the next seq for the assembler */
    uint64_t whole; /* all below are held or were taken; >= floor */
    bool open;      /* a message goes on at `whole` */
    size_t length;  /* its bytes so far */
    /* assembler */
    uint8_t *message;
    size_t message_room;
    size_t message_len;
    bool message_done; /* it was handed out */
    uint8_t *lent;     /* a buffer of the pool that was handed out */
    size_t lent_len;
    /* counts */
    tf_link_received routes[TF_ROUTE_COUNT];
    uint8_t recent[TF_LINK_RECENT];    /* by seq: RECENT_* */
    uint32_t first_at[TF_LINK_RECENT]; /* when the first copy came, in units of 32 us, modulo 2^32 */
    uint64_t news; /* first copies */
    uint64_t messages;
} tf_link_recv;

typedef struct tf_link_recv_config {
    tf_dedup *dedup;
    const tf_rand *rand;
    tf_node_id sender;
    uint64_t instance;
    uint64_t session;
    uint64_t first;
    size_t max_segments;
    size_t max_bytes;
    size_t max_message;
} tf_link_recv_config;

/* TF_ERR_NOMEM, TF_ERR_USAGE. */
TF_MUST_CHECK tf_err tf_link_recv_init(tf_link_recv *recv, const tf_link_recv_config *config, const tf_mem *mem,
                                       tf_link_pool *pool);
void tf_link_recv_free(tf_link_recv *recv);

/* What is known while the frames of a packet are judged. */
typedef struct tf_link_judgement {
    uint64_t whole;
    bool open;
    size_t length;
    size_t longest; /* of the messages of several segments: what the assembler needs */
    size_t bytes;   /* of new segments */
    bool any;       /* a segment was judged */
    uint64_t last;  /* its seq, */
    uint8_t flags;  /* its flags */
} tf_link_judgement;

typedef struct tf_link_judged {
    uint32_t tag;
    bool repeat;
} tf_link_judged;

typedef struct tf_link_arrival {
    tf_route route;
    uint64_t generation;
    tf_time now;
    bool other_up; /* another route claims to be up: a second copy can be expected, if it brings any at all */
} tf_link_arrival;

tf_link_judgement tf_link_recv_judge_begin(const tf_link_recv *recv);
/* Segments of a packet ascend. PEER_LIMIT: beyond the window, or a message longer than max_message; PEER_CONFLICT;
 * PEER_SYNTAX: not ascending, or flags that do not fit its neighbours. */
TF_MUST_CHECK tf_err tf_link_recv_judge(const tf_link_recv *recv, tf_link_judgement *j, const tf_segment *segment,
                                        tf_link_judged *judged);
/* NOMEM: the connection must end. */
TF_MUST_CHECK tf_err tf_link_recv_accept(tf_link_recv *recv, const tf_link_arrival *arrival, const tf_segment *segment,
                                         const tf_link_judged *judged);
/* NOMEM as above. */
TF_MUST_CHECK tf_err tf_link_recv_judge_commit(tf_link_recv *recv, const tf_link_judgement *j);

/* The next whole message; valid until the next call of this, accept, commit or trim. */
bool tf_link_recv_next(tf_link_recv *recv, tf_slice *message, tf_route *via);

/* Counts of `route` start anew with a newer generation. */
void tf_link_recv_generation(tf_link_recv *recv, tf_route route, uint64_t generation);

/* Fills floor and ranges of an ack. */
void tf_link_recv_fill_ack(const tf_link_recv *recv, tf_link_ack *ack);

/* Frees what an idle link does not need, and settles which copies came alone. */
void tf_link_recv_trim(tf_link_recv *recv);

#endif
