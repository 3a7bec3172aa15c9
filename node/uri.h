/* The address of a node, with its key:
 *
 *     twofold://NODEID@HOST:PORT?datagram=HOST:PORT&stream-bind=ADDR&datagram-bind=ADDR
 *                               &stream-copy=always|standby&datagram-copy=always|standby
 *
 * The node id is the pin. Options may be left out; each at most once; unknown ones are errors. Nothing is
 * percent-encoded: no part of it needs to be. Any thread. */
#ifndef TF_NODE_URI_H
#define TF_NODE_URI_H

#include "node/endpoint.h"
#include "proto/types.h"

#define TF_URI_BIND_MAX 64u
#define TF_URI_TEXT_MAX 1024u

typedef struct tf_uri {
    tf_node_id node;
    tf_endpoint stream;
    tf_endpoint datagram;              /* the same as stream unless datagram= says otherwise */
    bool has_datagram;                 /* datagram= was given */
    char stream_bind[TF_URI_BIND_MAX]; /* an address or interface, for tf_bind_parse; "": none */
    char datagram_bind[TF_URI_BIND_MAX];
    tf_routes standby; /* routes by which our copies go only while no other one flows; never both */
} tf_uri;

/* TF_ERR_USAGE: `why` says what was wrong, where, and what would be right; *out is then untouched. */
TF_MUST_CHECK tf_err tf_uri_parse(tf_uri *out, const char *text, char why[TF_WHY_MAX]);

/* Writes the shortest text that parses to the same; no "?" part unless something differs. Returns out. */
const char *tf_uri_format(const tf_uri *uri, char out[TF_URI_TEXT_MAX]);

#endif
