/* tf-hostile: peers of a relay that nobody wants, and many honest ones at once (README.md). They speak the protocol with
 * the product's own codecs, stream and link, but by the stream alone and without a session behind it: what comes is
 * thrown away, and nothing is acked but by the link. One thread; everything that goes wrong with a connection is counted,
 * and dialled again. */
#ifndef TF_HARNESS_HOSTILE_H
#define TF_HARNESS_HOSTILE_H

#include <event2/event.h>

#include "handshake/identity.h"
#include "handshake/negotiate.h"
#include "node/uri.h"
#include "paths/link.h"
#include "paths/stream.h"
#include "proto/ref.h"

#define TF_HOSTILE_OK 0
#define TF_HOSTILE_WRONG 1
#define TF_HOSTILE_USAGE 2

typedef enum tf_hostile_mode {
    TF_HOSTILE_HOLD,         /* connects, and answers what keeps the connection up */
    TF_HOSTILE_NEVER_ACK,    /* subscribes, takes all segments, acks none */
    TF_HOSTILE_ACK_SEGMENTS, /* acks segments that were never sent */
    TF_HOSTILE_ACK_MESSAGES, /* acks messages that were never sent */
    TF_HOSTILE_REFS,         /* mentions objects of its own, and never acks that they were dropped */
    TF_HOSTILE_PROMISES      /* asks for results, and never acks them */
} tf_hostile_mode;

typedef struct tf_hostile_options {
    tf_hostile_mode mode;
    tf_uri uri;
    const char *identity; /* file; NULL: a new key for each peer */
    const char *channel;
    uint32_t peers;
    uint64_t count;        /* of refs or promises, of each peer */
    uint32_t window_bytes; /* announced; 0: the default */
    tf_time keepalive;     /* announced, and kept; 0: the default */
    tf_time span;          /* in which all of them begin */
} tf_hostile_options;

/* What has happened to all of them together. */
typedef struct tf_hostile_counts {
    uint32_t served; /* have been welcomed at least once */
    uint32_t up;     /* now */
    uint64_t dials;
    uint64_t failed;  /* ended before they were welcomed */
    uint64_t lost;    /* ended after that, without a CLOSE */
    uint64_t closed;  /* by a CLOSE of the relay */
    uint64_t code;    /* of the last CLOSE */
    uint64_t said;    /* refs or promises */
    uint64_t segments; /* that came, */
    uint64_t bytes;    /* and what was in them, each seq once */
} tf_hostile_counts;

typedef struct tf_hostile {
    const tf_hostile_options *options;
    struct event_base *base;
    tf_stream_buffers buffers;
    tf_address address;
    tf_hostile_counts counts;
    bool wrong; /* the relay has sent what it may not */
} tf_hostile;

typedef struct tf_hostile_peer {
    tf_hostile *all;
    tf_identity *identity;
    struct ssl_ctx_st *tls;
    tf_stream *stream; /* NULL: waits for its next try */
    tf_hello hello;
    tf_agreed agreed;
    tf_link *link; /* NULL: not welcomed */
    struct event *timer;
    uint64_t number; /* of its next message */
    uint64_t said;
    uint64_t next_segment; /* that it has not seen yet */
    tf_ref channel;        /* the answer to its `open`; 0: not yet */
    unsigned tries;
    bool served;
    bool ended; /* a CLOSE came: it does not come back */
} tf_hostile_peer;

/* -- hostile_peer.c ------------------------------------------------------------------------------------------------ */

/* A peer that has its key. False: it cannot be made (the user was told). */
bool tf_hostile_peer_init(tf_hostile_peer *peer, tf_hostile *all);
/* Ends its session with a CLOSE, as far as that goes at once. */
void tf_hostile_peer_leave(tf_hostile_peer *peer);
void tf_hostile_peer_free(tf_hostile_peer *peer); /* one that is all zero is fine */
void tf_hostile_peer_dial(tf_hostile_peer *peer);
/* Writes what its link has to say. */
void tf_hostile_peer_flush(tf_hostile_peer *peer);

/* -- hostile_acts.c ------------------------------------------------------------------------------------------------ */

/* What a peer says once it is welcomed, and whenever there is room for more. */
void tf_hostile_act(tf_hostile_peer *peer);
/* Takes whole frames of the stream as its mode does; how many bytes were used. */
size_t tf_hostile_take(tf_hostile_peer *peer, tf_slice in);

/* -- hostile_clients.c --------------------------------------------------------------------------------------------- */

/* As many clients as there are peers, of the product, each with a subscription to the channel: says `served` when all of
 * them have it, and whenever all of them have it anew. Until standard input ends. TF_HOSTILE_*. */
int tf_hostile_clients(const tf_hostile_options *options);

#endif
