/* The bytes of HELLO and WELCOME, the first frame each way on a new stream (PROTOCOL.md H5 to H8): MessagePack maps.
 * What they say is in handshake/offer, what follows from it is handshake/negotiate's business. Pure.
 *
 * Limits: at most TF_NAMES_MAX names in a list and TF_KEYS_MAX keys in a map, 8 maps and lists in each other. Keys that
 * are not known are ignored, as are names in lists; a repeated key is malformed. Any thread. */
#ifndef TF_HANDSHAKE_HELLO_H
#define TF_HANDSHAKE_HELLO_H

#include "handshake/offer.h"

#define TF_KEYS_MAX 64u
#define TF_NAMES_MAX 32u /* names in one list: features, routes, ciphers */
#define TF_NAME_MAX 32u

/* Writes the map into buf. TF_ERR_LIMIT_BYTES: it does not fit cap (TF_FRAME_PAYLOAD_MAX is always enough);
 * TF_ERR_USAGE: a field is out of its bounds (tf_hello_judge), or the datagram route has no cipher. */
TF_MUST_CHECK tf_err tf_hello_encode(const tf_hello *hello, uint8_t *buf, size_t cap, size_t *len);
TF_MUST_CHECK tf_err tf_welcome_encode(const tf_welcome *welcome, uint8_t *buf, size_t cap, size_t *len);

/* Reads and validates a payload from the peer. TF_ERR_PEER_SYNTAX: not such a map; TF_ERR_PEER_LIMIT: a limit below the
 * least that is allowed; TF_ERR_NOMEM (msgpack-c's zone). *out is written only on TF_OK. */
TF_MUST_CHECK tf_err tf_hello_decode(tf_hello *out, tf_slice payload);
TF_MUST_CHECK tf_err tf_welcome_decode(tf_welcome *out, tf_slice payload);

#endif
