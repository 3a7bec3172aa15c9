/* What the files of a dialled peer share: peer.c (its events and the library's calls on it), dialler.c (how it is reached,
 * again and again) and dialler_datagram.c (its datagram route). */
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
    tf_address addresses[TF_RESOLVE_ADDRESSES_MAX]; /* of the stream's host, as found for the last dial */
    size_t address_count;
    tf_address good; /* where the last stream went */
    tf_backoff backoff;
    bool restarted;        /* the dial that is under way: one before it was given up since the network had changed */
    bool wants_generation; /* a dial although the stream may be up: for new keys, or since it is not believed */
    struct event *rehandshake;
    /* the datagram route */
    tf_datagram *socket;
    int socket_family;
    unsigned socket_interface; /* the index of the interface it was bound to; 0: none */
    tf_address datagram_addresses[TF_RESOLVE_ADDRESSES_MAX];
    size_t datagram_count;
    size_t datagram_at; /* the one in use */
    struct event *reopen;
    uint32_t reopens; /* since the route was up */
    tf_time reopened_at;
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

/* The timers of the dialling. NOMEM. */
TF_MUST_CHECK tf_err tf_dialler_start(tf_peer *peer);
void tf_peer_network_changed(tf_peer *peer);
/* Nothing more is tried; frees what a try has open. */
void tf_dialler_stop(tf_peer *peer);

/* -- dialler_datagram.c -------------------------------------------------------------------------------------------- */

/* A handshake is over that has the datagram route: its addresses are looked for, unless it works. */
void tf_peer_find_datagram(tf_peer *peer);
/* Another socket and the next address, at once. */
void tf_peer_reopen_datagram(tf_peer *peer);
void tf_peer_datagram_verdict(tf_peer *peer, tf_verdict verdict);
void tf_peer_datagram_network_changed(tf_peer *peer);
/* The session is over. */
void tf_peer_datagram_over(tf_peer *peer);
/* Of the timer `reopen`. */
void tf_peer_on_reopen(evutil_socket_t fd, short what, void *ctx);

#endif
