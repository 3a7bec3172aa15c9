/* Errors, close codes and assertions shared by every layer.
 *
 * The class of an error fixes the reaction (PROTOCOL.md "Errors"):
 *   AGAIN     wait, nothing is wrong
 *   PEER_*    the bytes or behaviour of a peer: drop that packet and, if it was authenticated, that connection
 *   LIMIT_*   a bound of ours was met: refuse that request, change nothing
 *   TIMEOUT   give up that attempt
 *   USAGE     the caller (a user, a config file) asked for something that cannot be
 *   FULL      the disk has no room: refuse what needs room, go on with the rest, try again later
 *   DAMAGED   stored bytes are not what was written: name the range, serve the rest
 *   NOMEM, IO, CRYPTO   pass up unchanged
 *
 * Not for: refusals of sends (those are codes on the wire, node/refusal.h). */
#ifndef TF_PROTO_ERR_H
#define TF_PROTO_ERR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TF_ERR_MAP(X)                                                                                                  \
    X(OK, "ok")                                                                                                        \
    X(AGAIN, "nothing to do yet")                                                                                      \
    X(PEER_SYNTAX, "malformed bytes from the peer")                                                                    \
    X(PEER_LIMIT, "the peer went beyond an announced limit")                                                           \
    X(PEER_SEQ, "a message number other than the expected one")                                                        \
    X(PEER_ACK, "an acknowledgement of what was never sent")                                                           \
    X(PEER_REF, "a reference that does not exist or is retired")                                                       \
    X(PEER_STATE, "a valid message at a time when it is not allowed")                                                  \
    X(PEER_CONFLICT, "two different contents under one sequence number")                                               \
    X(PEER_VERSION, "no protocol version in common")                                                                   \
    X(PEER_AUTH, "authentication failed")                                                                              \
    X(PEER_REPLAY, "a packet that was seen before or is too old")                                                      \
    X(PEER_REFUSED, "refused by the peer")                                                                             \
    X(LIMIT_ITEMS, "too many items")                                                                                   \
    X(LIMIT_BYTES, "too many bytes")                                                                                   \
    X(TIMEOUT, "timed out")                                                                                            \
    X(CLOSED, "closed")                                                                                                \
    X(USAGE, "invalid argument")                                                                                       \
    X(NOMEM, "out of memory")                                                                                          \
    X(IO, "input or output error")                                                                                     \
    X(CRYPTO, "cryptographic library error")                                                                           \
    X(FULL, "no room left on the disk")                                                                                \
    X(DAMAGED, "stored bytes are damaged")

typedef enum tf_err {
#define X(name, text) TF_ERR_##name,
    TF_ERR_MAP(X)
#undef X
} tf_err;

#define TF_OK TF_ERR_OK

/* Codes of a CLOSE frame (PROTOCOL.md W9). The number is on the wire and never changes its meaning. */
#define TF_CLOSE_MAP(X)                                                                                                \
    X(NORMAL, 0, "normal")                                                                                             \
    X(MALFORMED, 1, "malformed")                                                                                       \
    X(LIMIT, 2, "limit")                                                                                               \
    X(BAD_SEQUENCE, 3, "bad_sequence")                                                                                 \
    X(BAD_ACK, 4, "bad_ack")                                                                                           \
    X(BAD_REF, 5, "bad_ref")                                                                                           \
    X(BAD_STATE, 6, "bad_state")                                                                                       \
    X(CONTENT_CONFLICT, 7, "content_conflict")                                                                         \
    X(UNSUPPORTED_VERSION, 8, "unsupported_version")                                                                   \
    X(REFUSED, 9, "refused")                                                                                           \
    X(KEY_IN_USE, 10, "key_in_use")                                                                                    \
    X(DRAINING, 11, "draining")                                                                                        \
    X(TOO_MANY, 12, "too_many")                                                                                        \
    X(INTERNAL, 13, "internal")

typedef enum tf_close_code {
#define X(name, number, text) TF_CLOSE_##name = (number),
    TF_CLOSE_MAP(X)
#undef X
} tf_close_code;

/* English text of an error, static, never NULL. Any thread. */
const char *tf_err_text(tf_err err);

/* Stable name of a close code ("malformed"), static; "unknown" for a number that is not in the list. Any thread. */
const char *tf_close_text(uint64_t code);

/* The close code that a PEER_* error ends a connection with; INTERNAL for every other error. Any thread. */
tf_close_code tf_close_from_err(tf_err err);

#define TF_MUST_CHECK __attribute__((warn_unused_result))

/* For faults of ours only, never for what a peer, a user or the network can cause. On in release builds too. */
#define TF_ASSERT(condition) ((void)((condition) || (__builtin_trap(), 0)))
#define TF_UNREACHABLE() __builtin_trap()

#endif
