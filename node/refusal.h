/* Refusals (S9): the answers to a request that is not done. On the wire they are rejections that carry the name of the
 * code, so the names never change (PROTOCOL.md "Refusals").
 *
 * A retryable refusal says nothing against the request: the same one, under the same client id, may be sent again later.
 * Not for: errors that end a connection (proto/err.h). Pure. Any thread. */
#ifndef TF_NODE_REFUSAL_H
#define TF_NODE_REFUSAL_H

#include "proto/types.h"

/* name, text on the wire, retryable, milliseconds to wait before the first retry (0: nothing is said), English text */
#define TF_REFUSAL_MAP(X)                                                                                              \
    X(NONE, "none", false, 0, "not refused")                                                                           \
    X(BAD_REQUEST, "bad_request", false, 0, "malformed arguments, or no such object or method")                        \
    X(INVALID_MESSAGE, "invalid_message", false, 0, "the message is not valid")                                        \
    X(MESSAGE_TOO_LARGE, "message_too_large", false, 0, "the body or meta is larger than the channel takes")           \
    X(CLIENT_ID_CONFLICT, "client_id_conflict", false, 0, "this client id was used for another body")                  \
    X(UNAUTHORIZED, "unauthorized", false, 0, "not authenticated")                                                     \
    X(FORBIDDEN, "forbidden", false, 0, "not allowed")                                                                 \
    X(RATE_LIMITED, "rate_limited", true, 100, "too many requests")                                                    \
    X(TOO_MANY_IN_FLIGHT, "too_many_in_flight", true, 20, "more unacked sends than the window holds")                  \
    X(OVERLOADED, "overloaded", true, 100, "no room for this request now")                                             \
    X(CHANNEL_CLOSED, "channel_closed", false, 0, "the channel takes no more sends")                                   \
    X(CHANNEL_NOT_FOUND, "channel_not_found", false, 0, "no such channel")                                             \
    X(NOT_FOUND, "not_found", false, 0, "nothing has this name")                                                       \
    X(NAME_TAKEN, "name_taken", false, 0, "another node has published this name")                                      \
    X(STORE_FULL, "store_full", true, 1000, "the store is full")                                                       \
    X(UNAVAILABLE, "unavailable", true, 500, "not available now")                                                      \
    X(DRAINING, "draining", true, 1000, "the node is shutting down")                                                   \
    X(INTERNAL, "internal", true, 1000, "an error of the node")

typedef enum tf_refusal {
#define X(name, text, retryable, after, english) TF_REFUSAL_##name,
    TF_REFUSAL_MAP(X)
#undef X
    TF_REFUSAL_COUNT
} tf_refusal;

#define TF_REFUSAL_CODE_MAX 64u     /* bytes of a code on the wire */
#define TF_REFUSAL_MESSAGE_MAX 256u /* bytes of the text on the wire */

/* "too_many_in_flight": static, never NULL. */
const char *tf_refusal_name(tf_refusal refusal);
/* English text, static, never NULL. */
const char *tf_refusal_text(tf_refusal refusal);
/* The same as slices, for the wire. */
tf_slice tf_refusal_code(tf_refusal refusal);
tf_slice tf_refusal_message(tf_refusal refusal);
bool tf_refusal_is_retryable(tf_refusal refusal);
/* Milliseconds that the refused side should wait before it tries again; 0 for final refusals. */
uint32_t tf_refusal_retry_after_ms(tf_refusal refusal);
/* The refusal of that name; TF_REFUSAL_NONE for a name that is not in the list. */
tf_refusal tf_refusal_find(tf_slice name);

#endif
