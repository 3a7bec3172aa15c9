/* How much the datagram slot may have in flight, and how fast it may send: NewReno as in RFC 9002 §7, less harsh where
 * the round trip shows no queue (then a loss is taken for noise, as in TCP Veno), with a pacer. Belongs to the slot, not
 * to a generation of keys. Plain struct. */
#ifndef TF_PATHS_LINK_CONGESTION_H
#define TF_PATHS_LINK_CONGESTION_H

#include "paths/link_rtt.h"

typedef struct tf_link_congestion {
    size_t window;
    size_t threshold;   /* of slow start */
    size_t in_flight;   /* bytes */
    tf_time recovery;   /* losses of packets sent before were answered already */
    size_t round_acked; /* bytes since then */
    size_t round_lost;
    size_t missed;           /* packets that are lost and not yet answered */
    size_t unproved;         /* those that were answered last, less those that came after all; once all have, */
    size_t before_window;    /* it was no loss, and the window is as it was before the answer, */
    size_t before_threshold; /* and this, too */
    bool limited;            /* the window, not the sender, was the bound since the last ack */
    tf_time pace_at;         /* the next packet may go then */
} tf_link_congestion;

void tf_link_congestion_init(tf_link_congestion *cc);
/* The path is another one, or was gone: start anew, with what is in flight. */
void tf_link_congestion_restart(tf_link_congestion *cc);

bool tf_link_congestion_has_room(const tf_link_congestion *cc);
/* When the pacer lets the next packet go; at or before now: at once. */
tf_time tf_link_congestion_pace(const tf_link_congestion *cc);

void tf_link_congestion_sent(tf_link_congestion *cc, const tf_link_rtt *rtt, tf_time now, size_t bytes);
void tf_link_congestion_acked(tf_link_congestion *cc, tf_time sent_at, size_t bytes);
/* One packet is lost; then, once for all that were found lost together, the answer. sent_at: of the latest of them. */
void tf_link_congestion_missed(tf_link_congestion *cc, size_t bytes);
void tf_link_congestion_lost(tf_link_congestion *cc, const tf_link_rtt *rtt, tf_time now, tf_time sent_at);
/* So many that counted as lost were only late. An answer to none but such is taken back (as in RFC 9438 §4.9). */
void tf_link_congestion_came(tf_link_congestion *cc, size_t count);
/* Left the flight, and is neither acked nor lost on the path. */
void tf_link_congestion_gone(tf_link_congestion *cc, size_t bytes);
/* Nothing was heard for several PTO. */
void tf_link_congestion_collapse(tf_link_congestion *cc);

#endif
