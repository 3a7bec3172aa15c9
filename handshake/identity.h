/* A node's identity: its Ed25519 key, the text forms, the self-signed certificate and the TLS rules that go with it
 * (PROTOCOL.md H1 to H4). OpenSSL as arithmetic; no sockets, no files, no clock.
 *
 * Trust is the peer's raw public key and nothing else: names, dates, chains and extensions of certificates are
 * ignored. A key that is not let in gets a TLS alert in the middle of the handshake (P8).
 *
 * An identity is immutable after _new; SSL_CTXs made from it hold their own references to the key and certificate.
 * Everything here may be used from any thread, one object by one thread at a time. */
#ifndef TF_HANDSHAKE_IDENTITY_H
#define TF_HANDSHAKE_IDENTITY_H

#include "handshake/node_id.h"
#include "proto/types.h"

struct ssl_st;     /* OpenSSL's SSL */
struct ssl_ctx_st; /* OpenSSL's SSL_CTX */

#define TF_SEED_LEN 32u
#define TF_IDENTITY_TEXT_LEN 44u /* base64 of the seed */
#define TF_ALPN "twofold/1"
#define TF_CERTIFICATE_MESSAGE_MAX 4096 /* bytes of a peer's TLS Certificate message */

typedef struct tf_identity tf_identity;

/* An identity from its 32 secret bytes (the Ed25519 seed of RFC 8032), which the caller still owns and wipes.
 * TF_ERR_NOMEM, TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_identity_new(tf_identity **out, const uint8_t seed[TF_SEED_LEN]);

/* A new identity from 32 random bytes. */
TF_MUST_CHECK tf_err tf_identity_generate(tf_identity **out, const tf_rand *rand);

/* From the private text: 44 characters of canonical base64, white space before and after allowed (a key file).
 * TF_ERR_USAGE when it is anything else. */
TF_MUST_CHECK tf_err tf_identity_parse(tf_identity **out, tf_slice text);

/* Wipes the secret and frees. NULL is fine. */
void tf_identity_free(tf_identity *identity);

/* Writes the private text and a NUL. It is a secret: the caller wipes it with tf_wipe. */
void tf_identity_format(const tf_identity *identity, char out[TF_IDENTITY_TEXT_LEN + 1]);

const tf_node_id *tf_identity_node_id(const tf_identity *identity);

/* Overwrites secret bytes; the compiler may not leave it out. */
void tf_wipe(void *secret, size_t len);

/* Whether this key may complete a handshake. Called in the middle of it, before the peer has proved that it holds the
 * key: it must answer only, and change nothing. */
typedef bool tf_tls_allow(void *ctx, const tf_node_id *peer);

/* An SSL_CTX for one end, the caller frees it with SSL_CTX_free: TLS 1.3 only, Ed25519 both ways, client certificate
 * required, ALPN "twofold/1" required, no tickets, no session cache, no 0-RTT, partial and moving writes, released
 * buffers. allow may be NULL: then only keys pinned with tf_identity_ssl get in. TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_identity_ssl_ctx(struct ssl_ctx_st **out, const tf_identity *identity, bool server,
                                         tf_tls_allow *allow, void *allow_ctx);

/* An SSL of a context made above, in its accept or connect state; the caller frees it with SSL_free. pin (copied): the
 * one key that is accepted, instead of asking `allow`; NULL: ask. TF_ERR_NOMEM, TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_identity_ssl(struct ssl_st **out, struct ssl_ctx_st *ctx, const tf_node_id *pin);

/* The key that the peer has proved to hold. TF_ERR_PEER_AUTH before the handshake is finished. */
TF_MUST_CHECK tf_err tf_identity_peer_id(const struct ssl_st *ssl, tf_node_id *out);

/* Whether a code of the OpenSSL error queue is an alert by which the peer says that it does not let us in or does not
 * speak our protocol. In TLS 1.3 a dialler meets it at its first read. It means "refused", not "unreachable". */
bool tf_identity_error_is_refusal(unsigned long openssl_error);

/* Whether it says that we did not accept the key that the peer showed: another node than the pinned one is there. */
bool tf_identity_error_is_wrong_key(unsigned long openssl_error);

#endif
