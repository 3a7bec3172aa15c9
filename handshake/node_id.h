/* The text form of a node id: 52 characters of lower-case base32 (RFC 4648 alphabet), no padding (PROTOCOL.md H1).
 *
 * Pure: what the pure cores and the CLI need to show and read ids without OpenSSL. Any thread. */
#ifndef TF_HANDSHAKE_NODE_ID_H
#define TF_HANDSHAKE_NODE_ID_H

#include "proto/types.h"

#define TF_NODE_ID_TEXT_LEN 52u

/* Writes TF_NODE_ID_TEXT_LEN characters and a NUL. */
void tf_node_id_format(const tf_node_id *id, char out[TF_NODE_ID_TEXT_LEN + 1]);

/* Exactly the text that tf_node_id_format writes, nothing else (one id has one text): TF_ERR_USAGE for another length,
 * upper case, another alphabet, or trailing bits that are not zero; *out is then untouched. */
TF_MUST_CHECK tf_err tf_node_id_parse(tf_node_id *out, tf_slice text);

/* Order of node ids as big-endian numbers: below, equal to or above zero, like memcmp. */
int tf_node_id_compare(const tf_node_id *a, const tf_node_id *b);

#endif
