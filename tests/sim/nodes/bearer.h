/* One connection of a dialling node to an accepting one over a net of its own (tests/sim/net.h): both routes, the
 * handshakes with their redials, resumes, lost sessions, keys, and both ends' links, driven as the edges drive them
 * (node/dialler, node/connection, node/acceptor; design §4, §5). What the edges decide by wall time and sockets is decided
 * here by virtual time and the net:
 *
 *  - A dial takes three trips of the stream route each way; it fails (nobody answers) while the stream has a hole or the
 *    acceptor is paused, at once (refused) while it is cut off or the acceptor is down. Back-off as node/backoff, the same
 *    limits (TF_DIAL_LIMIT…, TF_BACKOFF_…).
 *  - It resumes when both ends still have the session and are the same instances (the numbers in HELLO and WELCOME are
 *    those of the moment when they were written), else both begin a new one. An acceptor that has one with the same instance
 *    loses it first (D14); one with an instance that is gone without a CLOSE it keeps beside the new one, until its
 *    time-out; of TF_INSTANCES_PER_PEER one that has no route makes room for another, or the new one is refused. What is
 *    agreed is handshake/negotiate's. A stream redial within a session makes a new generation, with new datagram keys
 *    (offered routes permitting).
 *  - An end without any route for session_timeout loses the session; so does one whose link or session reports a fault
 *    (on_fault: in a world without hostile peers that is a broken promise), and one whose peer sent CLOSE.
 *  - The datagram route of a resumed or running session needs no stream; REDUNDANCY_LOST and a DOWN verdict of the stream
 *    make the dialler dial, a datagram route that stays down makes it take another socket, as node/dialler does.
 *  - A stream in which nothing moves for TF_TCP_USER_TIMEOUT_MS breaks. A node that was killed closes its sockets; one whose
 *    power is gone leaves its peer with half a stream.
 *
 * Not modelled: TLS and keys as such (packets go as they are, with their numbers), two nodes that dial each other,
 * `exclusive` places.
 *
 * Not thread-safe. Everything follows from the net's seed and the calls. */
#ifndef TF_TESTS_SIM_NODES_BEARER_H
#define TF_TESTS_SIM_NODES_BEARER_H

#include "node/backoff.h"
#include "node/hub.h"
#include "tests/sim/net.h"

/* What a node says of itself in a handshake, and how it is. */
typedef struct bearer_side {
    tf_hub *hub; /* NULL: the node is down */
    tf_node_id id;
    uint64_t instance;
    bool paused;   /* it neither answers nor reads; the sockets stay */
    bool dark;     /* its machine is off: nobody says that nobody listens */
    bool is_relay; /* its peers believe the origins that it states (S1) */
    const tf_mem *mem;
    const tf_rand *rand;
    tf_dedup *dedup; /* NULL: none */
    tf_time keepalive;
    tf_time session_timeout;
    uint32_t max_message;
    uint32_t window_segments;
    uint32_t window_bytes;
    tf_routes routes;  /* that may carry messages; the stream is there in any case */
    tf_routes standby; /* of what it sends */
} bearer_side;

typedef struct bearer bearer;

typedef enum bearer_event_type {
    BEARER_OPENED,  /* an end has a new session: its conn is attached and can be bound */
    BEARER_RESUMED, /* a new generation of the same session */
    BEARER_LOST     /* an end is about to forget its session, or to set it aside for one with a new instance; why (for people) */
} bearer_event_type;

/* How an end goes. */
typedef enum bearer_ending {
    BEARER_CLOSES,  /* in order: a CLOSE goes out, if there is room for it */
    BEARER_KILLED,  /* the process is gone, its sockets are closed; what it wrote still arrives */
    BEARER_VANISHES /* the machine is gone: nothing tells the peer */
} bearer_ending;

typedef struct bearer_handlers {
    void *ctx;
    void (*event)(void *ctx, bearer *b, unsigned end, bearer_event_type type, const char *why);
    /* A core found fault with bytes of its peer, or an end with itself. Must not return. */
    void (*fault)(void *ctx, bearer *b, unsigned end, const char *what);
} bearer_handlers;

typedef struct bearer_stats {
    uint64_t sessions;
    uint64_t resumes;
    uint64_t dials;
    uint64_t failed_dials;
    uint64_t sockets; /* addresses from which the dialler has sent datagrams */
    uint64_t moves;   /* of the dialler's address, as the acceptor saw it */
    size_t older;     /* sessions that the acceptor has now with instances of the dialler that are gone */
} bearer_stats;

/* sides: dialler, acceptor; borrowed, looked at whenever something happens (their hub comes and goes with the node). */
bearer *bearer_new(uint64_t seed, bearer_side *const sides[NET_ENDS], const bearer_handlers *handlers, void *user);
void bearer_free(bearer *b); /* both ends have lost their sessions */
void *bearer_user(const bearer *b);
net *bearer_net(bearer *b); /* its paths and pipes are the host's to change, and to heal */

/* -- what happens to it; the clock of the net is that of the world (bearer_advance, bearer_pull, net_move) --------- */

/* The dialler dials from now on (its node is up), or not any more. */
void bearer_set_dialling(bearer *b, bool on);
/* An end forgets its session and its part of the stream: its node ends. */
void bearer_lose(bearer *b, unsigned end, bearer_ending how);
/* The stream breaks now; `keep` bytes under way in each direction still arrive; each end learns of it after `learns`. */
void bearer_cut(bearer *b, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS]);
/* While closed new streams are refused at once (a port that nobody listens on). */
void bearer_set_closed(bearer *b, bool closed);
/* A NAT forgets the dialler: its datagrams come from another address, those to the old one are lost. */
void bearer_rebind(bearer *b);

/* -- the turn ------------------------------------------------------------------------------------------------------ */

/* Takes all events of the net up to now, and does what is due: dials, ticks, time-outs. Before the hubs run. */
void bearer_advance(bearer *b, tf_time now);
/* Pulls what a conn has to send and arms its timer: after its hub ran, if it gave this one out as dirty. */
void bearer_pull(bearer *b, const tf_conn *conn, tf_time now);
/* When the next thing happens; TF_NEVER. Changed by any call here, by changes of the net, and by the sides' `paused`. */
tf_time bearer_deadline(const bearer *b);

tf_conn *bearer_conn(const bearer *b, unsigned end); /* NULL: no session. Its owner is the bearer */
unsigned bearer_end_of(const bearer *b, const tf_conn *conn); /* also of older sessions */
bool bearer_is_carrying(const bearer *b); /* both ends have the session, and messages can flow both ways */
void bearer_get_stats(const bearer *b, bearer_stats *out);
/* Bytes of both routes and both directions so far (P9). */
uint64_t bearer_written(const bearer *b);
uint64_t bearer_trace(const bearer *b);

#endif
