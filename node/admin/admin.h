/* The socket by which a relay's own machine asks it what it has: `admin.sock` in the data directory, mode 0600,
 * HTTP/1.
 *
 *     GET /refs      application/x-ndjson: the references of every connection (node/admin/ref_line.h)
 *     GET /version   text/plain
 *
 * Anything else is 404, other methods are 405; each request is the last of its connection. At most
 * TF_ADMIN_CONNECTIONS at a time, TF_ADMIN_SPAN for a request to be there and for a reader to go on reading; an answer
 * is made piece by piece, as fast as it is read, so that neither its length nor a slow reader costs memory or a turn
 * of the loop. It belongs to the loop's thread. */
#ifndef TF_NODE_ADMIN_ADMIN_H
#define TF_NODE_ADMIN_ADMIN_H

#include "node/twofold.h"

#define TF_ADMIN_CONNECTIONS 16u
#define TF_ADMIN_SPAN (10 * TF_SECOND)
#define TF_ADMIN_PIECE 16384u /* of an answer */
#define TF_ADMIN_NAME "admin.sock"

typedef struct tf_admin tf_admin;

/* Where what is told comes from. */
typedef struct tf_admin_source {
    bool (*next_ref)(void *ctx, tf_node_refs_cursor *cursor, tf_node_ref *out); /* as tf_node_refs_next */
    void (*refs_stats)(void *ctx, tf_router_stats *out);
    void *ctx;
} tf_admin_source;

typedef struct tf_admin_config {
    struct event_base *base;
    const tf_mem *mem;
    const char *directory;
    tf_admin_source source;
} tf_admin_config;

/* Makes the socket; one that a process which is gone has left is replaced. USAGE: somebody answers by it, or its path
 * is longer than a socket's can be; IO; NOMEM. why says what is wrong and what would be right. */
TF_MUST_CHECK tf_err tf_admin_new(tf_admin **out, const tf_admin_config *config, char why[TF_WHY_MAX]);
/* Ends all connections, removes the socket unless it is another's by now. NULL is fine. */
void tf_admin_free(tf_admin *admin);

#endif
