/* A small network in virtual time between two ends, 0 and 1: one stream (ordered, reliable, bounded buffers, can stall and
 * break) and one datagram path (loss, repeats, reordering, holes, stalls, rate and queue). Everything follows from one seed:
 * events are ordered by (time, sequence), odds are integers, nothing depends on addresses.
 *
 * The host pulls: net_next moves the clock to the next event and gives it. A running hash of all events is the trace; two
 * runs of one seed must end with the same. Faults of use abort. */
#ifndef TF_TESTS_SIM_NET_H
#define TF_TESTS_SIM_NET_H

#include "proto/types.h"
#include "tests/support/support.h"

#define NET_ENDS 2u
#define NET_PIECE 1400u

/* The datagram path in one direction. */
typedef struct net_path {
    tf_time delay;
    tf_time jitter; /* up to so much more, each packet for itself: reorders */
    unsigned of;    /* odds are of so many; 0: 1000 */
    unsigned loss;
    unsigned burst; /* so many packets in a row are lost on average, with the same loss in all; 0, 1: each for itself */
    unsigned repeat;
    unsigned late; /* packets that take late_by more */
    tf_time late_by;
    uint64_t rate; /* bytes a second; 0: no bound */
    size_t queue;  /* bytes that wait for the rate, or in a stall; more is lost */
    tf_time bloat; /* the queue is so long instead, and others fill it (tests/harness/bloat.h); 0: off */
    bool hole;     /* nothing arrives */
    bool stall;    /* what is sent waits until net_heal_path */
    size_t mtu;    /* longer packets do not arrive, in bytes of UDP payload; 0: no bound */
} net_path;

/* The stream in one direction. */
typedef struct net_pipe {
    tf_time delay;
    tf_time jitter;  /* each write takes up to so much longer, and all behind it waits */
    uint64_t rate;   /* bytes a second; 0: no bound */
    size_t buffer;   /* bytes written and not yet known to have arrived */
    size_t queue;    /* with a rate: so many of them wait for it at most, as they do in front of a slow line: what is on its
                        way is a round trip's worth and this; 0: as many as the buffer takes */
    tf_time bloat;   /* as of the path; what finds the queue full comes a round trip later */
    bool hole;       /* nothing arrives, nothing is lost */
    tf_time penalty; /* after the hole it takes so much longer, as TCP's backed-off timers do */
    unsigned of;     /* odds are of so many; 0: 1000 */
    unsigned loss;   /* of the pieces of NET_PIECE bytes: comes late by a round trip, as TCP repairs it at once if others
                        follow, or by timers that double, if it is lost again; all behind it waits */
} net_pipe;

typedef enum net_event_type {
    NET_PACKET,   /* a datagram came to `end` */
    NET_BYTES,    /* stream bytes came to `end` */
    NET_WRITABLE, /* there is room again to write to the stream from `end` */
    NET_BROKEN,   /* `end` learns that the stream `generation` is gone */
    NET_TIMER     /* what net_timer asked for */
} net_event_type;

typedef struct net_event {
    net_event_type type;
    unsigned end;
    uint64_t generation; /* of the stream; of the keys of a packet */
    uint64_t number;     /* of the packet; the id of the timer */
    uint8_t *data;       /* owned by the net until the next net_next */
    size_t len;
} net_event;

typedef struct net net;

net *net_new(uint64_t seed);
void net_free(net *n);
tf_time net_now(const net *n);
tf_test_random *net_random(net *n);
uint64_t net_trace(const net *n);
void net_mix(net *n, uint64_t value); /* into the trace */

/* The path out of `end`, to be changed at any time. */
net_path *net_path_of(net *n, unsigned end);
net_pipe *net_pipe_of(net *n, unsigned end);

/* The next event not after `until`; false: none, and the clock stands at `until`. */
bool net_next(net *n, tf_time until, net_event *out);
/* When the next event is; TF_NEVER: there is none. */
tf_time net_peek(const net *n);

/* The clock is set to `now`, which is not after the next event, so that what is sent or changed leaves then. */
void net_move(net *n, tf_time now);

/* A NET_TIMER for `end` at `at` (not before now). */
void net_timer(net *n, unsigned end, tf_time at, uint64_t id);

void net_send(net *n, unsigned end, uint64_t generation, uint64_t number, tf_slice packet);
/* Ends a stall: what waited leaves now. */
void net_heal_path(net *n, unsigned end);

/* A new stream, writable at once at both ends; the one before must be gone. */
void net_open(net *n, uint64_t generation);
bool net_is_open(const net *n);
/* What can be written from `end` now. */
size_t net_room(const net *n, unsigned end);
void net_write(net *n, unsigned end, tf_slice bytes);
/* The stream breaks: of what is under way, `keep` bytes in each direction still arrive; each end learns of it after its
 * own delay (TF_NEVER: it does not). */
void net_cut(net *n, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS]);
/* `end` has closed its socket: what it wrote still arrives, then the other end learns that the stream is gone. Nothing more
 * comes to `end`, and it writes nothing more. */
void net_finish(net *n, unsigned end);
/* Since when nothing of what was written from `end` has become known to have arrived; TF_NEVER: all has. */
tf_time net_stuck_since(const net *n, unsigned end);
/* Ends holes of the stream: what was stuck goes on after the penalty. */
void net_heal_stream(net *n, unsigned end);
/* Bytes written to the stream from `end`, over all generations. */
uint64_t net_written(const net *n, unsigned end);
/* Bytes of the packets sent from `end`, lost ones included. */
uint64_t net_sent(const net *n, unsigned end);

#endif
