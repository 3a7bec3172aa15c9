/* From a host to its addresses, without blocking. Literals never touch the resolver; names go to /etc/hosts and then to
 * the servers of /etc/resolv.conf, both read anew at each look-up, so that a machine that has moved finds its new
 * servers, and nothing is kept (no socket, no cache) between look-ups.
 *
 * Runs on the event_base's thread. */
#ifndef TF_NODE_RESOLVE_H
#define TF_NODE_RESOLVE_H

#include "node/endpoint.h"
#include "paths/address.h"
#include "proto/types.h"

struct event_base;

#define TF_RESOLVE_ADDRESSES_MAX 16u
#define TF_RESOLVE_LIMIT (5 * TF_SECOND)

typedef struct tf_resolve tf_resolve;

/* The answer, once, never from inside tf_resolve_start: addresses with the endpoint's port, in the order in which they
 * should be tried (valid in the callback), at most TF_RESOLVE_ADDRESSES_MAX; or count 0 and what went wrong. The look-up
 * may be freed in it, and must be freed at some time. */
typedef void tf_resolve_done(void *ctx, const tf_address *addresses, size_t count, const char *error);

typedef struct tf_resolve_config {
    struct event_base *base;
    const tf_mem *mem;
    const char *hosts;       /* NULL: /etc/hosts */
    const char *resolv_conf; /* NULL: /etc/resolv.conf */
    tf_time limit;           /* 0: TF_RESOLVE_LIMIT */
} tf_resolve_config;

/* TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_resolve_start(tf_resolve **out, const tf_resolve_config *config, const tf_endpoint *endpoint,
                                      tf_resolve_done *done, void *ctx);

/* Cancels a look-up that is not answered; no callback follows. evdns clears up in the next turn of the loop: an event_base
 * that ends right after this is run once more first (EVLOOP_NONBLOCK), or it leaks that. NULL is fine. */
void tf_resolve_free(tf_resolve *resolve);

#endif
