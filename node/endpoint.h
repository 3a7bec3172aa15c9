/* HOST:PORT as people write it: a name or a literal, IPv6 in brackets. Nothing is looked up. Any thread. */
#ifndef TF_NODE_ENDPOINT_H
#define TF_NODE_ENDPOINT_H

#include "node/why.h"
#include "paths/address.h"
#include "proto/types.h"

#define TF_ENDPOINT_HOST_MAX 255u
#define TF_ENDPOINT_TEXT_MAX 264u

typedef struct tf_endpoint {
    char host[TF_ENDPOINT_HOST_MAX + 1]; /* without brackets, with scope if any */
    uint16_t port;
} tf_endpoint;

/* TF_ERR_USAGE: `why` says what was wrong and what would be right. Port 0 only where allow_zero says so. */
TF_MUST_CHECK tf_err tf_endpoint_parse(tf_endpoint *out, tf_slice text, bool allow_zero, char why[TF_WHY_MAX]);

/* Returns out. */
const char *tf_endpoint_format(const tf_endpoint *endpoint, char out[TF_ENDPOINT_TEXT_MAX]);

/* From an address. */
void tf_endpoint_from_address(tf_endpoint *out, const tf_address *address);

/* A literal as an address. TF_ERR_USAGE: it is a name (node/resolve looks it up). */
TF_MUST_CHECK tf_err tf_endpoint_literal(const tf_endpoint *endpoint, tf_address *out);

bool tf_endpoint_eq(const tf_endpoint *a, const tf_endpoint *b);

#endif
