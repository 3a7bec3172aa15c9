/* The datagram keys of one generation of a connection, both directions: derived from the TLS exporter, sealing and
 * opening packets, key phases, replay window, forgery counting (PROTOCOL.md K1 to K9). OpenSSL as arithmetic; no socket,
 * no clock, no reaction: a packet that does not open moves a counter and nothing else.
 *
 * Packet: flags(1) = 0x40 | phase mod 4 ‖ receiver's connection id(8) ‖ packet number, low 32 bits(4) ‖
 * AEAD(plaintext) ‖ tag(16); the first 13 bytes are associated data.
 *
 * Phases: the send phase is the receive phase or one ahead of it. It is moved on by itself, at a seal, when its packets,
 * its age or the forgeries say so and the peer has followed the last move; and it follows the peer. A phase's secret is
 * erased when the phase begins (only the next one is kept), its receive key `grace` after the next one began.
 *
 * No allocation after _new. One thread at a time. */
#ifndef TF_HANDSHAKE_KEYS_H
#define TF_HANDSHAKE_KEYS_H

#include "handshake/offer.h"
#include "proto/limits.h"
#include "proto/types.h"

struct ssl_st; /* OpenSSL's SSL */

#define TF_KEYS_SECRET_LEN 64u /* 32 for dialler to acceptor, then 32 for acceptor to dialler */
#define TF_KEYS_EXPORTER_LABEL "EXPORTER-twofold-datagram-v1"
#define TF_KEYS_CONTEXT_LEN 98u
#define TF_PACKET_NUMBER_MAX (((uint64_t)1 << 62) - 1)

typedef struct tf_keys tf_keys;

/* When phases end. A field that is 0 takes the value of proto/limits.h (of the cipher). */
typedef struct tf_keys_limits {
    uint64_t phase_packets; /* sealed in one phase; a seal is refused at twice this */
    tf_time phase_age;
    uint64_t forgeries; /* in the generation; a quarter of it in one phase ends that phase */
} tf_keys_limits;

typedef struct tf_keys_params {
    bool dialler; /* whether we dialled the TLS connection */
    tf_cipher cipher;
    uint32_t version; /* agreed protocol version, below 2^16 */
    tf_node_id local;
    tf_node_id remote;
    uint64_t session;
    uint64_t generation;
    uint64_t local_connection_id;  /* in packets to us */
    uint64_t remote_connection_id; /* in packets to the peer */
    tf_keys_limits limits;
} tf_keys_params;

/* Keys from a finished TLS 1.3 handshake. TF_ERR_USAGE: not finished; TF_ERR_NOMEM, TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_keys_new_from_ssl(tf_keys **out, struct ssl_st *ssl, const tf_keys_params *params,
                                          const tf_mem *mem, tf_time now);

/* The same from the 64 bytes that the exporter would give (simulations and tests); the caller wipes its copy. */
TF_MUST_CHECK tf_err tf_keys_new_from_secret(tf_keys **out, const uint8_t secret[TF_KEYS_SECRET_LEN],
                                             const tf_keys_params *params, const tf_mem *mem, tf_time now);

/* Erases all keys and frees. NULL is fine. */
void tf_keys_free(tf_keys *keys);

/* The exporter's context for params (K1). */
void tf_keys_context(const tf_keys_params *params, uint8_t out[TF_KEYS_CONTEXT_LEN]);

/* The connection id in a datagram from the network, to find its keys by. False: no packet of this protocol. */
bool tf_keys_packet_connection_id(tf_slice packet, uint64_t *connection_id);

/* What a packet has besides its plaintext. */
#define TF_PACKET_OVERHEAD (TF_PACKET_HEADER + TF_PACKET_TAG)

/* Seals plain (1 byte at least) as packet number pn into the first plain.len + TF_PACKET_OVERHEAD bytes of out. plain may
 * lie at out + TF_PACKET_HEADER. pn must be above every one before (asserted). TF_ERR_LIMIT_BYTES: cap is too small;
 * TF_ERR_LIMIT_ITEMS: these keys are used up and the peer does not follow (tf_keys_is_exhausted); TF_ERR_CRYPTO. On an
 * error pn counts as used. */
TF_MUST_CHECK tf_err tf_keys_seal(tf_keys *keys, tf_time now, uint64_t pn, tf_slice plain, uint8_t *out, size_t cap);

typedef struct tf_opened {
    uint64_t pn;
    tf_slice plain; /* in the caller's out buffer */
    bool newest;    /* pn is above every one opened before (address changes are believed only then) */
} tf_opened;

/* Opens a packet into out (cap bytes; out may be packet.data + TF_PACKET_HEADER). On an error *opened is untouched,
 * nothing but a counter has moved, and out is of no use. TF_ERR_PEER_SYNTAX: too short or not for these keys;
 * TF_ERR_PEER_REPLAY: seen before or too old; TF_ERR_PEER_STATE: a key phase that cannot be; TF_ERR_PEER_AUTH: does not
 * open; TF_ERR_LIMIT_BYTES: out is too small; TF_ERR_CLOSED: exhausted. */
TF_MUST_CHECK tf_err tf_keys_open(tf_keys *keys, tf_time now, tf_slice packet, uint8_t *out, size_t cap,
                                  tf_opened *opened);

/* The peer has acked our packet pn (on whatever route). Tells that it has followed the send phase, even when none of its
 * datagrams get through. */
void tf_keys_acked(tf_keys *keys, tf_time now, uint64_t pn);

/* How long the receive key of the phase before is kept: 3 PTO. Until it is called: 1 s. */
void tf_keys_set_grace(tf_keys *keys, tf_time grace);

/* When tick has something to erase; TF_NEVER: nothing. Open and seal do it too. */
tf_time tf_keys_deadline(const tf_keys *keys);
void tf_keys_tick(tf_keys *keys, tf_time now);

/* The generation has to end: the forgery limit was reached, or a seal was refused. Never false again. */
bool tf_keys_is_exhausted(const tf_keys *keys);

typedef struct tf_keys_stats {
    uint64_t sealed;
    uint64_t opened;
    uint64_t malformed;  /* too short or not for these keys */
    uint64_t replayed;   /* seen before or too old */
    uint64_t misphased;  /* dropped by its key phase, without a trial */
    uint64_t forged;     /* did not open */
    uint64_t send_phase; /* from 0 */
    uint64_t receive_phase;
    tf_time created;
    tf_time phase_started; /* when the send phase began */
} tf_keys_stats;

void tf_keys_stats_get(const tf_keys *keys, tf_keys_stats *out);

#endif
