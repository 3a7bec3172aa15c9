/* How large the packets of the datagram slot may be: path MTU discovery of datagrams (RFC 8899), by padded probes.
 *
 * A search tries the sizes of a table from the largest down, each three times, and takes the first that arrives. Probes
 * hold no data and are no signal of congestion. It begins with the first segments on a path, and again 600 s after it
 * ended below the top, once segments flow: an idle link does not probe.
 *
 * Black holes: when several packets above the base size in a row are lost and a smaller one that was sent among or after
 * them arrives, the base size is used at once and a new search begins. Loss that hits small ones as well is none. At the
 * base size the same rule finds a path that takes less than that.
 *
 * All sizes are bytes of UDP payload. Times are those of packets' sending. Plain struct. Not thread-safe. */
#ifndef TF_PATHS_LINK_MTU_H
#define TF_PATHS_LINK_MTU_H

#include "proto/limits.h"

typedef struct tf_link_mtu {
    uint16_t size;      /* that packets with segments may have now */
    uint16_t limit;     /* nothing larger is tried */
    uint16_t candidate; /* under test; 0: no search */
    unsigned tries;     /* of the candidate that were lost */
    bool flying;        /* a probe is neither acked nor lost */
    bool asked;         /* and was asked after */
    tf_time probe_at;
    tf_time ask_at;
    tf_time since;     /* the search began */
    tf_time search_at; /* no other one before */
    /* the black hole */
    unsigned run; /* large packets lost, none of those sent later acked */
    tf_time run_from;
    tf_time large_acked; /* when the latest of those acked were sent; */
    tf_time small_acked; /* 0: none yet */
    uint64_t falls;      /* from a larger size to the base one */
} tf_link_mtu;

typedef enum tf_link_mtu_verdict {
    TF_LINK_MTU_FINE,
    TF_LINK_MTU_TOO_SMALL /* the path does not even take the base packet */
} tf_link_mtu_verdict;

void tf_link_mtu_init(tf_link_mtu *mtu);
/* Another path, or one that was gone: nothing is known of it. */
void tf_link_mtu_restart(tf_link_mtu *mtu);

/* Segments went out: begins a search that is due. */
void tf_link_mtu_used(tf_link_mtu *mtu, tf_time now);
/* The size of a probe that is to go as soon as the path is seen to work; 0: none. */
size_t tf_link_mtu_wanted(const tf_link_mtu *mtu);
/* It went. */
void tf_link_mtu_probed(tf_link_mtu *mtu, tf_time now, tf_time pto);

/* One packet that obliged an ack was acked, or found lost by loss detection; probes as well. */
void tf_link_mtu_acked(tf_link_mtu *mtu, tf_time now, size_t size, tf_time sent_at);
void tf_link_mtu_lost(tf_link_mtu *mtu, tf_time now, size_t size, tf_time sent_at);
/* After all of those that were acked and lost together. */
tf_link_mtu_verdict tf_link_mtu_judge(tf_link_mtu *mtu, tf_time now);
/* What is in flight will tell nothing: its keys are gone, or the route is down. */
void tf_link_mtu_forget(tf_link_mtu *mtu);
/* The system refused a packet of that size. */
void tf_link_mtu_refused(tf_link_mtu *mtu, tf_time now, size_t size);

/* When the probe in flight is to be asked after; TF_NEVER: it is not. */
tf_time tf_link_mtu_deadline(const tf_link_mtu *mtu);
/* True, once a probe: it is time to send something small, so that loss detection can tell what became of it. */
bool tf_link_mtu_tick(tf_link_mtu *mtu, tf_time now);

#endif
