/* HELLO and WELCOME, the first frame each way on a new stream (PROTOCOL.md H5 to H12): their MessagePack maps, and what
 * the two ends agree on. Pure: bytes and structs in, bytes and structs out; which session, which connection id and
 * which instance are the caller's to know.
 *
 *   dialler                                   acceptor
 *   tf_hello_encode            -- HELLO -->   tf_hello_decode, tf_negotiate_answer
 *   tf_welcome_decode,         <- WELCOME --  tf_welcome_encode
 *   tf_negotiate_accept
 *
 * Limits: at most TF_VERSIONS_MAX versions and TF_NAMES_MAX names in a list; texts as below; every number within the
 * bounds of proto/limits.h. Keys that are not known are ignored, a repeated key is malformed. Any thread. */
#ifndef TF_HANDSHAKE_NEGOTIATE_H
#define TF_HANDSHAKE_NEGOTIATE_H

#include "proto/limits.h"
#include "proto/types.h"

#define TF_PROTOCOL_VERSION 1u
#define TF_VERSIONS_MAX 16u
#define TF_NAMES_MAX 32u /* names in one list: features, routes, ciphers */
#define TF_NAME_MAX 32u
#define TF_SOFTWARE_MAX 64u
#define TF_HOST_MAX 255u
#define TF_WINDOW_SEGMENTS_MIN 64u
#define TF_WINDOW_BYTES_MIN (64u * 1024u)
#define TF_REFS_MIN 64u
#define TF_KEEPALIVE_MS_MIN 100u
#define TF_KEEPALIVE_MS_MAX 3600000u
#define TF_CONNECTION_GENERATION_MAX ((uint64_t)1 << 48)

/* What a node can do beyond the version; used when both say so. The names are on the wire. */
#define TF_FEATURE_MAP(X) X(REVOKE, 0, "revoke") /* takes session messages of kind 4 */

typedef enum tf_feature {
#define X(name, bit, text) TF_FEATURE_##name = 1 << (bit),
    TF_FEATURE_MAP(X)
#undef X
} tf_feature;
typedef uint32_t tf_features; /* a set of tf_feature */

/* AEADs of the datagram route, in order of preference. The names are on the wire. */
#define TF_CIPHER_MAP(X)                                                                                               \
    X(AES_128_GCM, 0, "aes-128-gcm")                                                                                   \
    X(CHACHA20_POLY1305, 1, "chacha20-poly1305")

typedef enum tf_cipher {
#define X(name, number, text) TF_CIPHER_##name = number,
    TF_CIPHER_MAP(X)
#undef X
} tf_cipher;
typedef uint8_t tf_ciphers; /* a set: bit 1 << cipher */
#define TF_CIPHERS_ALL ((tf_ciphers)(1u << TF_CIPHER_AES_128_GCM | 1u << TF_CIPHER_CHACHA20_POLY1305))

/* The name on the wire, static. */
const char *tf_cipher_name(tf_cipher cipher);

/* What the sender of the HELLO or WELCOME is ready to take; its peer keeps to it. */
typedef struct tf_peer_limits {
    uint32_t max_in_flight;   /* unacked sends per origin */
    uint32_t max_message;     /* bytes */
    uint32_t window_bytes;    /* unacked segment data */
    uint32_t window_segments; /* unacked segments */
    uint32_t max_refs;        /* live refs of this session that its peer exports */
    uint32_t max_promises;
    uint32_t max_results; /* unresolved results of delivers */
} tf_peer_limits;

/* Which routes may carry messages. up: dialler to acceptor; down: acceptor to dialler. */
typedef struct tf_data_routes {
    tf_routes up;
    tf_routes down;
} tf_data_routes;

typedef struct tf_datagram_offer {
    uint64_t connection_id;     /* random, fresh: the peer puts it in the packets that it sends to us */
    tf_ciphers ciphers;         /* HELLO: those offered (not empty); WELCOME: the one chosen */
    uint16_t port;              /* where to send to; 0: the port of the stream */
    char host[TF_HOST_MAX + 1]; /* a name or literal; "": the host of the stream */
} tf_datagram_offer;

typedef struct tf_resume {
    bool present;
    uint64_t session; /* HELLO only: the session to go on with */
    uint64_t next;    /* the link seq that the sender of this expects next: it holds all below */
} tf_resume;

/* What a HELLO says; also the form in which an acceptor's own configuration is handed to tf_negotiate_answer (its
 * `resume` is then not looked at). */
typedef struct tf_hello {
    size_t version_count; /* at least 1 */
    uint32_t versions[TF_VERSIONS_MAX];
    char software[TF_SOFTWARE_MAX + 1]; /* UTF-8, for people; may be "" */
    tf_features features;
    tf_routes routes; /* offered; always contains the stream */
    tf_data_routes data;
    tf_datagram_offer datagram; /* when routes contains TF_ROUTES_DATAGRAM */
    tf_peer_limits limits;
    uint32_t keepalive_ms; /* the longest that the sender will be silent on a route */
    uint64_t instance;
    bool exclusive;
    tf_resume resume;
} tf_hello;

typedef struct tf_welcome {
    uint32_t version;
    char software[TF_SOFTWARE_MAX + 1];
    tf_features features; /* those of both */
    tf_routes routes;     /* those of both */
    tf_data_routes data;
    tf_datagram_offer datagram; /* when routes contains TF_ROUTES_DATAGRAM */
    tf_peer_limits limits;
    uint32_t keepalive_ms;
    uint64_t instance;
    bool exclusive;
    uint64_t generation; /* from 1 */
    uint64_t session;
    tf_resume resume; /* not present: a new session */
} tf_welcome;

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

/* A HELLO with every field at its default: this version, both routes (with all ciphers) for all data, the limits and the
 * keepalive of proto/limits.h, no resume. software, instance and connection_id are the caller's to fill in. */
void tf_hello_init(tf_hello *hello);

/* Writes the map into buf. TF_ERR_LIMIT_BYTES: it does not fit cap (TF_FRAME_PAYLOAD_MAX is always enough);
 * TF_ERR_USAGE: a field is out of its bounds (as tf_hello_decode judges). */
TF_MUST_CHECK tf_err tf_hello_encode(const tf_hello *hello, uint8_t *buf, size_t cap, size_t *len);
TF_MUST_CHECK tf_err tf_welcome_encode(const tf_welcome *welcome, uint8_t *buf, size_t cap, size_t *len);

/* Reads and validates a payload from the peer. TF_ERR_PEER_SYNTAX: not such a map; TF_ERR_PEER_LIMIT: a limit below the
 * least that is allowed; TF_ERR_NOMEM (msgpack-c's zone). *out is written only on TF_OK. */
TF_MUST_CHECK tf_err tf_hello_decode(tf_hello *out, tf_slice payload);
TF_MUST_CHECK tf_err tf_welcome_decode(tf_welcome *out, tf_slice payload);

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
