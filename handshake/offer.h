/* What HELLO and WELCOME say (PROTOCOL.md H6 to H8), as plain values: the words of the handshake, their defaults and
 * their bounds. Not for: the bytes (handshake/hello), what follows from them (handshake/negotiate).
 * Pure. Any thread. */
#ifndef TF_HANDSHAKE_OFFER_H
#define TF_HANDSHAKE_OFFER_H

#include "proto/limits.h"
#include "proto/types.h"

#define TF_PROTOCOL_VERSION 1u
#define TF_VERSIONS_MAX 16u
#define TF_SOFTWARE_MAX 64u
#define TF_HOST_MAX 255u
#define TF_WINDOW_SEGMENTS_MIN 64u
#define TF_WINDOW_BYTES_MIN (64u * 1024u)
#define TF_REFS_MIN 64u
#define TF_KEEPALIVE_MS_MIN 100u
#define TF_KEEPALIVE_MS_MAX 3600000u
#define TF_VERSION_MAX 65535u
#define TF_GENERATION_MAX ((uint64_t)1 << 48)

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
#define X(name, number, text) TF_CIPHER_##name = (number),
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

/* What both HELLO and WELCOME say. In a WELCOME features, routes, data and ciphers are what both ends have. */
typedef struct tf_offer {
    char software[TF_SOFTWARE_MAX + 1]; /* UTF-8 without control characters, for people; may be "" */
    tf_features features;
    tf_routes routes; /* always contains the stream */
    tf_data_routes data;
    tf_datagram_offer datagram; /* when routes contains TF_ROUTES_DATAGRAM */
    tf_peer_limits limits;
    uint32_t keepalive_ms; /* the longest that the sender will be silent on a route */
    uint64_t instance;
    bool exclusive;
    tf_resume resume;
} tf_offer;

/* A HELLO; also the form in which an acceptor's own configuration is handed to tf_negotiate_answer (resume is then not
 * looked at). */
typedef struct tf_hello {
    size_t version_count; /* at least 1 */
    uint32_t versions[TF_VERSIONS_MAX];
    tf_offer offer;
} tf_hello;

typedef struct tf_welcome {
    uint32_t version;
    uint64_t generation; /* from 1 */
    uint64_t session;    /* not 0 */
    tf_offer offer;      /* without offer.resume: a new session */
} tf_welcome;

/* A HELLO with every field at its default: this version, both routes (with all ciphers) for all data, the limits and the
 * keepalive of proto/limits.h, no resume. software, instance and connection_id are the caller's to fill in. */
void tf_hello_init(tf_hello *hello);

/* Whether every field is within its bounds, whoever wrote it. TF_ERR_PEER_SYNTAX; TF_ERR_PEER_LIMIT: a limit below the
 * least that is allowed, or a keepalive out of range. */
TF_MUST_CHECK tf_err tf_hello_judge(const tf_hello *hello);
TF_MUST_CHECK tf_err tf_welcome_judge(const tf_welcome *welcome);

/* The defaults of what both say: also what a key that is left out stands for. */
void tf_offer_init(tf_offer *offer);

#endif
