/* Which packet numbers of one generation were received: what a packet ack says (RFC 9000 §13.2.3 in spirit).
 *
 * At most TF_ACK_RANGES_MAX ranges; the oldest is forgotten first, and so is one that was told often enough. A number that
 * is forgotten makes the peer send again what is then a repeat, never more. Plain struct. Not thread-safe. */
#ifndef TF_PATHS_LINK_NUMBERS_H
#define TF_PATHS_LINK_NUMBERS_H

#include "proto/frame.h"

typedef struct tf_link_numbers {
    size_t count;
    tf_range ranges[TF_ACK_RANGES_MAX]; /* descending, not touching */
    uint8_t told[TF_ACK_RANGES_MAX];    /* acks that the range was in since it changed */
    tf_time largest_at;                 /* when the largest number came */
} tf_link_numbers;

/* True: the number is not the successor of the largest one, something is missing or came late: ack at once. */
bool tf_link_numbers_add(tf_link_numbers *numbers, tf_time now, uint64_t number);
/* Fills ranges and delay; at least one number was added. */
void tf_link_numbers_fill(tf_link_numbers *numbers, tf_time now, tf_packet_ack *ack);

#endif
