/* The head of an HTTP/1 request, as far as `admin` needs it: which method, which path, which version. Pure. Any thread.
 *
 * (evhttp of libevent 2.1 does not tell how many connections it has, so they could not be bounded.) */
#ifndef TF_NODE_ADMIN_HTTP_H
#define TF_NODE_ADMIN_HTTP_H

#include "proto/types.h"

#define TF_HTTP_HEAD_MAX 8192u

typedef struct tf_http_request {
    tf_slice method;
    tf_slice path;  /* as it was sent, a query included */
    unsigned minor; /* of the version: HTTP/1.minor; 0 or 1 */
} tf_http_request;

/* head: all up to the empty line, included. Slices point into it. False: no request of HTTP/1. Header lines are not
 * looked at: a request has no body here, and each is the last of its connection. */
bool tf_http_parse(tf_slice head, tf_http_request *out);

#endif
