/* Packets of one generation that were sent and are neither acked nor lost, by number, with the segments that they hold
 * (RFC 9002 §A.1). Bounded: TF_LINK_SENT_MAX records. Not thread-safe. */
#ifndef TF_PATHS_LINK_SENT_H
#define TF_PATHS_LINK_SENT_H

#include "proto/frame.h"

#define TF_LINK_SENT_MAX 4096u
#define TF_LINK_SENT_RUNS 6u

/* Successive segments in one packet. */
typedef struct tf_link_run {
    uint64_t first;
    uint64_t count;
} tf_link_run;

typedef struct tf_link_sent_packet {
    tf_time at;
    uint16_t bytes; /* that count against the window */
    uint16_t size;  /* UDP payload */
    uint8_t runs_used;
    bool eliciting; /* obliges an ack; else it is only a number */
    bool open;      /* neither acked nor lost */
    bool probe;     /* of the path MTU: outside the window, and no signal of congestion */
    bool small;     /* where base packets were to be proved: its ack does not prove them */
    tf_link_run runs[TF_LINK_SENT_RUNS];
} tf_link_sent_packet;

typedef struct tf_link_sent {
    const tf_mem *mem;
    tf_link_sent_packet *packets;
    size_t capacity; /* 0 or a power of two */
    uint64_t oldest; /* no open packet lies below */
    uint64_t next;   /* the next packet number */
    bool any_acked;
    uint64_t largest_acked;
} tf_link_sent;

void tf_link_sent_init(tf_link_sent *sent, const tf_mem *mem);
void tf_link_sent_free(tf_link_sent *sent);

/* Makes room for one more. False: TF_LINK_SENT_MAX are open, or out of memory. */
bool tf_link_sent_reserve(tf_link_sent *sent);
/* The record of packet number `next`, zeroed; counts it as sent. Room was reserved (asserted). */
tf_link_sent_packet *tf_link_sent_push(tf_link_sent *sent);
/* number: oldest .. next - 1. */
tf_link_sent_packet *tf_link_sent_at(const tf_link_sent *sent, uint64_t number);
/* Moves `oldest` over what is no longer open. */
void tf_link_sent_settle(tf_link_sent *sent);
/* Adds seq to a packet; false: it holds as many runs as it can. */
bool tf_link_sent_add(tf_link_sent_packet *packet, uint64_t seq);
/* Frees the table when nothing is open. */
void tf_link_sent_trim(tf_link_sent *sent);

#endif
