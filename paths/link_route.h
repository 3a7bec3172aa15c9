/* What a link knows of one route: its verdict, its round trip, its probes and keepalives.
 *
 * A route is judged by what comes back: answers to probes, packet acks, the peer's counts of what it received here; for a
 * stream and for an idle one also by authenticated bytes received. Our own writes prove nothing. Progress of data, which
 * decides between UP and STALLED, is reported by the slots. Plain struct. Not thread-safe. */
#ifndef TF_PATHS_LINK_ROUTE_H
#define TF_PATHS_LINK_ROUTE_H

#include "paths/link.h"
#include "paths/link_rtt.h"

#define TF_LINK_PONGS 4u       /* answers that wait to be sent; an older one is displaced */
#define TF_LINK_PROBE_TIMES 8u /* probes of which the time is known when the answer comes, and the answer later */

typedef struct tf_link_route {
    tf_verdict verdict;
    tf_time since;
    tf_verdict shown; /* STALLED instead of UP while it is not trusted */
    tf_time shown_since;
    tf_verdict reported; /* the last one that an event told */
    unsigned flips;      /* how often it has ceased to be up, each within TF_FLIP_SPAN of the last */
    tf_time flip_at;
    tf_time wary_until; /* while UP: not trusted until then; TF_NEVER: trusted */
    tf_link_rtt rtt;
    tf_time keepalive;  /* we are never silent for longer */
    tf_time idle_limit; /* nor is the peer */
    tf_time last_sent;
    tf_time last_received; /* or when it came up */
    tf_time heard_at;      /* 0: never */
    /* probes of ours */
    bool reachable;      /* probes can be sent: a socket, or confirmed keys */
    bool probe_wanted;   /* goes with the next pull */
    bool probing;        /* one is not answered */
    bool traffic;        /* segments went or came since the last probe */
    unsigned unanswered; /* in a row */
    tf_time probe_at;    /* of the last probe */
    tf_time down_delay;  /* between probes of a DOWN route */
    uint64_t token;      /* of the first probe; each has the next */
    uint64_t probes;
    tf_time probe_times[TF_LINK_PROBE_TIMES];
    tf_time probe_rtts[TF_LINK_PROBE_TIMES]; /* TF_NEVER: not answered */
    tf_time clean_at; /* when an answer last told a round trip that no hole has stretched */
    bool stretched;   /* the round trip known is one that a hole may have stretched */
    /* probes of the peer */
    uint64_t pongs[TF_LINK_PONGS];
    size_t pong_count;
    /* data */
    bool outstanding;    /* the peer has not told that it received all that went here */
    tf_time progress_at; /* when it last told of more, or when there was first something outstanding */
    uint64_t downs;
} tf_link_route;

void tf_link_route_init(tf_link_route *route, const tf_link_config *config, tf_time now);

/* Has it a connection at all: UP or STALLED. */
bool tf_link_route_is_live(const tf_link_route *route);
void tf_link_route_set(tf_link_route *route, tf_time now, tf_verdict verdict);
/* A new socket, or first keys: our probes begin anew. What the peer asked is the slot's to forget. */
void tf_link_route_start(tf_link_route *route, tf_time now, tf_verdict verdict);

/* Authenticated bytes came by it. */
void tf_link_route_received(tf_link_route *route, tf_time now);
/* Something went out by it. */
void tf_link_route_sent(tf_link_route *route, tf_time now);
/* A segment went or came: there is traffic to probe for. */
void tf_link_route_traffic(tf_link_route *route);
/* The round trip works: answers what was asked. True: the route was DOWN, and is no longer. */
bool tf_link_route_proved(tf_link_route *route, tf_time now);

/* Asks for a probe now. */
void tf_link_route_probe(tf_link_route *route, tf_time now);
/* The token of a probe that goes out now. */
uint64_t tf_link_route_take_probe(tf_link_route *route, tf_time now);
/* Answers to probes sent before are to none of ours. */
void tf_link_route_forget_probes(tf_link_route *route);
/* An answer; false: to no probe of ours. */
bool tf_link_route_pong(tf_link_route *route, tf_time now, uint64_t token);
void tf_link_route_pinged(tf_link_route *route, uint64_t token);

/* Something is outstanding, or nothing. */
void tf_link_route_outstanding(tf_link_route *route, tf_time now, bool outstanding);
void tf_link_route_progress(tf_link_route *route, tf_time now);

tf_time tf_link_route_deadline(const tf_link_route *route);
void tf_link_route_tick(tf_link_route *route, tf_time now);

#endif
