/* What the two files of a dialled peer share: peer.c (its events and the library's calls on it) and dialler.c (how it is
 * reached, again and again). */
#ifndef TF_NODE_PEER_INTERNAL_H
#define TF_NODE_PEER_INTERNAL_H

#include "node/backoff.h"
#include "node/node_internal.h"
#include "node/resolve.h"

#define PEER_EVENTS_MAX 64u

typedef enum tf_peer_state {
    PEER_WAITING,   /* for the redial timer, or for a reason to dial */
    PEER_RESOLVING, /* the name of the stream's host */
    PEER_DIALLING,  /* TCP, TLS, then HELLO */
    PEER_STOPPED    /* the first connection was refused or came too late */
} tf_peer_state;

typedef struct tf_peer_event_record {
    tf_node_event_type type;
    tf_err err;
    bool resumed;
    tf_route route;
    tf_verdict verdict;
    char text[TF_STREAM_TEXT_MAX];
} tf_peer_event_record;

struct tf_remote {
    tf_remote *next;
    tf_peer *peer;
    size_t index; /* in the client */
};

struct tf_peer {
    tf_peer *next;
    tf_node *node;
    tf_uri uri;
    tf_connect_options options;
    tf_client *client;
    tf_remote *channels;
    tf_connection *connection;
    tf_peer_state state;
    tf_bind stream_bind;
    tf_bind datagram_bind;
    tf_resolve *resolve;
    tf_resolve *datagram_resolve;
    tf_stream *dial;
    tf_hello hello; /* the one that was sent */
    tf_negotiate_session hello_state;
    tf_datagram *socket;
    int socket_family;
    tf_backoff backoff;
    struct event *redial;
    struct event *give_up;
    tf_time lost_at; /* the stream, while the session lives */
    unsigned refusals;
    bool connected; /* once */
    uint64_t dials;
    uint64_t handshakes;
    tf_peer_stats past; /* of the sessions that are over */
    char why[TF_STREAM_TEXT_MAX]; /* the last failure of a dial */
    tf_peer_event_record events[PEER_EVENTS_MAX];
    size_t event_first;
    size_t event_count;
    tf_peer_event_record current;
};

void tf_peer_push_event(tf_peer *peer, const tf_peer_event_record *event);
void tf_peer_push_failure(tf_peer *peer, tf_node_event_type type, tf_err err, const char *text);

/* Its session ends: what it did is added to what those before did. */
void tf_peer_keep_stats(tf_peer *peer);

/* Both timers of the redialling. NOMEM. */
TF_MUST_CHECK tf_err tf_dialler_start(tf_peer *peer);
/* Nothing more is tried; frees what a try has open. */
void tf_dialler_stop(tf_peer *peer);

#endif
