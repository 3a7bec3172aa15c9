/* The unacked ring of one direction: segments that were sent and are not yet acked by a link ack, in the order of their
 * seqs, with what each slot has to know of them. Both slots send from here; the bytes are stored once.
 *
 * Bounded by the peer's window: next - floor segments and their bytes, acked ones above the floor included.
 * A segment below the floor, or acked above it, is gone for both slots: tf_link_ring_is_acked is the one test.
 * Not for: what a slot may send when (link_stream, link_datagram). Not thread-safe. */
#ifndef TF_PATHS_LINK_RING_H
#define TF_PATHS_LINK_RING_H

#include "paths/link_pool.h"
#include "proto/frame.h"

/* The copy of a segment that goes by the datagram route. */
typedef enum tf_link_copy {
    TF_LINK_COPY_NEW,    /* at or after the slot's cursor */
    TF_LINK_COPY_NONE,   /* shed, or its packet was acked and it is not (yet) */
    TF_LINK_COPY_QUEUED, /* to be sent again */
    TF_LINK_COPY_FLYING  /* in at least one packet that is neither acked nor lost */
} tf_link_copy;

typedef struct tf_link_entry {
    uint8_t *data; /* NULL once acked */
    tf_time queued_at;
    uint16_t len;
    uint16_t flying; /* packets in flight that hold it */
    uint8_t flags;   /* TF_SEGMENT_* */
    uint8_t copy;    /* tf_link_copy */
    uint8_t repeats; /* while QUEUED: how many packets it still goes into */
    bool sent;       /* by the datagram route, at least once */
} tf_link_entry;

typedef struct tf_link_ring {
    tf_link_pool *pool;
    const tf_mem *mem;
    tf_link_entry *entries;
    size_t capacity; /* 0 or a power of two */
    uint64_t floor;  /* all below are acked */
    uint64_t next;   /* the seq of the next segment */
    size_t bytes;    /* of the segments floor .. next - 1 */
    size_t max_segments;
    size_t max_bytes;
    size_t queued;        /* entries in state QUEUED */
    uint64_t queued_low;  /* no QUEUED entry lies below, */
    uint64_t queued_high; /* nor above */
} tf_link_ring;

void tf_link_ring_init(tf_link_ring *ring, const tf_mem *mem, tf_link_pool *pool, uint64_t first);
void tf_link_ring_free(tf_link_ring *ring);

/* Is there room in the window for that many more? */
bool tf_link_ring_fits(const tf_link_ring *ring, size_t segments, size_t bytes);
/* Makes sure that the next pushes of `segments` find a place. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_link_ring_reserve(tf_link_ring *ring, size_t segments);
/* Adds one segment for which there is room and a place reserved (asserted); copies the data. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_link_ring_push(tf_link_ring *ring, tf_time now, uint8_t flags, tf_slice data);
/* Takes back the last `segments` pushes, none of which any slot has seen. */
void tf_link_ring_unpush(tf_link_ring *ring, size_t segments);

/* seq: below next. */
bool tf_link_ring_is_acked(const tf_link_ring *ring, uint64_t seq);
/* seq: floor .. next - 1. */
tf_link_entry *tf_link_ring_at(const tf_link_ring *ring, uint64_t seq);
/* As a frame; the data stays valid until the segment is acked. Only for one that is not acked. */
tf_segment tf_link_ring_segment(const tf_link_ring *ring, uint64_t seq);

/* Everything below floor is acked (floor <= next). True: something was. */
bool tf_link_ring_ack_below(tf_link_ring *ring, uint64_t floor);
/* first .. last are acked (last < next). True: something was. */
bool tf_link_ring_ack_range(tf_link_ring *ring, tf_range range);

/* Queues an unacked segment again for the datagram route, to go into `repeats` packets. */
void tf_link_ring_queue(tf_link_ring *ring, uint64_t seq, uint8_t repeats);
/* The lowest QUEUED seq at or after `from`; false: none. */
bool tf_link_ring_next_queued(tf_link_ring *ring, uint64_t from, uint64_t *seq);
/* A QUEUED one went into a packet. */
void tf_link_ring_queued_sent(tf_link_ring *ring, uint64_t seq);

/* Frees the table of an empty ring. */
void tf_link_ring_trim(tf_link_ring *ring);

#endif
