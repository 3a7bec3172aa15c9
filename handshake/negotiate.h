/* What the two ends of a new stream agree on (PROTOCOL.md H9 to H12). Pure: structs in, structs out; which session,
 * which connection id and which instance are the caller's to know.
 *
 *   dialler                                   acceptor
 *   tf_hello_encode            -- HELLO -->   tf_hello_decode, tf_negotiate_answer
 *   tf_welcome_decode,         <- WELCOME --  tf_welcome_encode
 *   tf_negotiate_accept
 *
 * Any thread. */
#ifndef TF_HANDSHAKE_NEGOTIATE_H
#define TF_HANDSHAKE_NEGOTIATE_H

#include "handshake/hello.h"

/* What an end knows of the session of the peer's instance when it makes (dialler) or answers (acceptor) a HELLO. */
typedef struct tf_negotiate_session {
    bool resumable;           /* there is one, it is not in an error state */
    uint64_t session;         /* its id; 0 if there is none */
    uint64_t last_generation; /* the highest assigned (acceptor) or accepted (dialler); 0: none */
    uint64_t receive_next;    /* the link seq that we expect next */
    uint64_t send_floor;      /* our ring holds send_floor .. send_next - 1 */
    uint64_t send_next;
    uint64_t new_session; /* acceptor: the id for a session that is not resumed; random, not 0 */
} tf_negotiate_session;

/* The outcome, the same on both ends (seen from each). */
typedef struct tf_agreed {
    bool dialler;
    uint32_t version;
    tf_features features;
    tf_routes routes;
    tf_routes send_routes; /* that may carry our messages */
    tf_routes receive_routes;
    tf_cipher cipher;                /* this and the next four: when routes contains TF_ROUTES_DATAGRAM */
    uint64_t local_connection_id;    /* in packets to us */
    uint64_t remote_connection_id;   /* in packets to the peer */
    uint16_t remote_port;            /* as tf_datagram_offer */
    char remote_host[TF_HOST_MAX + 1];
    tf_peer_limits peer_limits; /* what we keep to: the peer's, cut to our own upper bounds */
    tf_peer_limits own_limits;  /* what the peer keeps to */
    tf_time peer_keepalive;     /* how long the peer may be silent */
    uint64_t peer_instance;
    bool peer_exclusive;
    char peer_software[TF_SOFTWARE_MAX + 1];
    uint64_t generation;
    uint64_t session;
    bool resumed;       /* false: a new session; what was known of an older one with this instance is over (D14) */
    uint64_t peer_next; /* resumed: the peer holds our segments below this */
} tf_agreed;

/* The acceptor's side: theirs is what came, ours the own configuration (with a fresh connection id). Fills in the
 * WELCOME to send and what is agreed. TF_ERR_PEER_VERSION: no version in common; TF_ERR_PEER_REFUSED: no route in common
 * that may carry data in some direction (close with TF_CLOSE_UNSUPPORTED_VERSION, TF_CLOSE_REFUSED). */
TF_MUST_CHECK tf_err tf_negotiate_answer(const tf_hello *theirs, const tf_hello *ours, const tf_negotiate_session *state,
                                         tf_welcome *welcome, tf_agreed *agreed);

/* The dialler's side: ours is the HELLO that was sent. TF_ERR_PEER_STATE: an answer that does not fit what was offered
 * or the session; TF_ERR_PEER_VERSION: a version that was not offered. *agreed is written only on TF_OK. */
TF_MUST_CHECK tf_err tf_negotiate_accept(const tf_hello *ours, const tf_welcome *welcome,
                                         const tf_negotiate_session *state, tf_agreed *agreed);

/* Two nodes dialled each other at once: whether the connection that `dialler` made is the one that is kept (the one of
 * the lower node id). */
bool tf_negotiate_keeps_dial(const tf_node_id *dialler, const tf_node_id *acceptor);

#endif
