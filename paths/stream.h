/* A stream route: one TLS 1.3 connection over TCP, on a non-blocking socket.
 *
 * libevent only tells when the socket is ready; TLS is read and written by hand (a bufferevent costs up to three times
 * the CPU). It carries bytes; frames and their meaning are the owner's. Nothing is queued here but one TLS record that
 * the socket did not take: the owner is asked for bytes when they can leave (tf_stream_room), so what an ack made
 * needless is never written.
 *
 * Limits: TF_STREAM_IN bytes of input wait for the owner; TF_STREAM_TURN bytes are read, and written, in one turn of
 * the loop. While no bytes wait it has no buffers (stream_buffers.h). Each stream belongs to the thread that runs its
 * event_base.
 *
 * In every callback the owner may free the stream. */
#ifndef TF_PATHS_STREAM_H
#define TF_PATHS_STREAM_H

#include "paths/address.h"
#include "paths/stream_buffers.h"
#include "proto/limits.h"
#include "proto/types.h"

struct event_base;
struct ssl_st;
struct ssl_ctx_st;

#define TF_STREAM_IN ((size_t)4 * TF_STREAM_RECORD)
#define TF_STREAM_TURN ((size_t)256 * 1024)
#define TF_STREAM_TEXT_MAX 160u
#define TF_STREAM_LINGER (2 * TF_SECOND)

_Static_assert(TF_STREAM_IN >= TF_FRAME_HEADER + TF_FRAME_PAYLOAD_MAX + TF_STREAM_RECORD, "a whole frame always fits");

typedef struct tf_stream tf_stream;

typedef enum tf_stream_reason {
    TF_STREAM_CLOSED,      /* the peer closed it in an orderly way */
    TF_STREAM_TRUNCATED,   /* the peer's TCP ended without the closing alert of TLS */
    TF_STREAM_REFUSED,     /* an alert of the peer's: it does not let us in. In TLS 1.3 it may come after `opened` */
    TF_STREAM_AUTH,        /* we do not let the peer in */
    TF_STREAM_PROTOCOL,    /* no TLS, bad TLS, or another alert */
    TF_STREAM_RESET,       /* a socket error once connected, TCP_USER_TIMEOUT among them */
    TF_STREAM_TIMEOUT,     /* dial and handshake were not over at the limit */
    TF_STREAM_UNREACHABLE, /* no address could be connected to */
    TF_STREAM_INTERNAL     /* no memory, no file descriptors, or the TLS library failed */
} tf_stream_reason;

/* Stable name: "closed", "truncated", "refused", ... */
const char *tf_stream_reason_name(tf_stream_reason reason);

typedef struct tf_stream_end {
    tf_stream_reason reason;
    bool opened;      /* the handshake had been finished on our side */
    int system_error; /* errno, or 0 */
    const char *text; /* for people; valid in the callback */
} tf_stream_end;

/* `ended` is the last callback and comes once, unless the owner frees the stream before. None is called from inside
 * tf_stream_dial, _accept, _write, _consume or _want_write. One that is NULL is left out (`ended` must not be). */
typedef struct tf_stream_ops {
    /* The handshake is finished on our side; the peer's key: tf_stream_peer_id. */
    void (*opened)(void *ctx, tf_stream *stream);
    /* There are new bytes in tf_stream_in. Take whole frames and consume them; what is left comes again with more. */
    void (*readable)(void *ctx, tf_stream *stream);
    /* tf_stream_room is above 0 (only after tf_stream_want_write). */
    void (*writable)(void *ctx, tf_stream *stream);
    void (*ended)(void *ctx, tf_stream *stream, const tf_stream_end *end);
} tf_stream_ops;

/* What streams are made from. Copied; what it points to outlives the streams. */
typedef struct tf_stream_env {
    struct event_base *base;
    struct ssl_ctx_st *tls; /* tf_identity_ssl_ctx: of a client to dial, of a server to accept */
    const tf_mem *mem;
    tf_stream_buffers *buffers;
} tf_stream_env;

typedef struct tf_stream_target {
    const tf_address *addresses; /* borrowed for the call, copied */
    size_t count;                /* 1 to TF_STREAM_ADDRESSES_MAX, more are ignored */
    const tf_node_id *pin;       /* the one key that is accepted; NULL: the context's rule */
    const tf_bind *bind;         /* NULL: none */
    tf_time limit;               /* for dial and handshake together, of all addresses */
} tf_stream_target;

#define TF_STREAM_ADDRESSES_MAX 16u
#define TF_STREAM_ATTEMPTS_MAX 8u /* addresses tried at a time: one more takes the place of the oldest */

/* Starts to dial as RFC 8305 says: families in turn, the next address TF_DIAL_STAGGER after the one before (sooner when
 * there are many, at once when an attempt has failed), and the first whose TLS handshake ends with the pinned key wins;
 * the others are closed. What goes wrong with the network is told by `ended`: of several failures the one that got
 * furthest. TF_ERR_USAGE: no address; TF_ERR_NOMEM,
 * TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_stream_dial(tf_stream **out, const tf_stream_env *env, const tf_stream_target *target,
                                    const tf_stream_ops *ops, void *ctx);

/* Takes over a connected socket and starts the server's handshake, which must be over within `limit`. The fd is the
 * stream's from here on, on errors too (it is then closed). TF_ERR_NOMEM, TF_ERR_CRYPTO, TF_ERR_IO. */
TF_MUST_CHECK tf_err tf_stream_accept(tf_stream **out, const tf_stream_env *env, int fd, tf_time limit,
                                      const tf_stream_ops *ops, void *ctx);

/* Another owner for the callbacks from now on (after HELLO it is known whose stream it is). Bytes that wait in tf_stream_in
 * are not told to it again before more come: look at them. */
void tf_stream_set_owner(tf_stream *stream, const tf_stream_ops *ops, void *ctx);

/* Ends it now, telling the peer by TLS and TCP as far as the socket takes it. No callback follows. NULL is fine. */
void tf_stream_free(tf_stream *stream);

/* Says goodbye: what was written goes out, then TLS and TCP are closed for writing; input is thrown away until the peer
 * closes too or TF_STREAM_LINGER is over. Then `ended` comes (CLOSED, or what went wrong). So the last bytes are not lost to
 * a reset. tf_stream_free cuts it short.
 * last: at most TF_STREAM_RECORD bytes (asserted) that follow what was written, whether there was room for them or not; they
 * are copied. Empty: none. Without memory for them they do not go out. */
void tf_stream_close(tf_stream *stream, tf_slice last);

/* Bytes that came in and were not consumed. Valid until the callback returns (outside of one: until the loop runs), also
 * when they are consumed before. */
tf_slice tf_stream_in(const tf_stream *stream);
/* n <= tf_stream_in().len, asserted. */
void tf_stream_consume(tf_stream *stream, size_t n);

/* Bytes that may be written now: 0 or TF_STREAM_RECORD. 0 before `opened`, while a record waits for the socket, and when
 * this turn's share is used up: ask for `writable` then. */
size_t tf_stream_room(const tf_stream *stream);
/* Writes bytes as one TLS record; bytes.len <= tf_stream_room, asserted. Errors are told by `ended`, later. Fill the
 * record: each costs 0.7 us to send and 1 us to receive, whatever is in it. */
void tf_stream_write(tf_stream *stream, tf_slice bytes);
/* Whether `writable` is to be called when there is room, again and again until it is called off. */
void tf_stream_want_write(tf_stream *stream, bool want);

bool tf_stream_is_open(const tf_stream *stream);
/* The peer's proved key. TF_ERR_PEER_AUTH before `opened`. */
TF_MUST_CHECK tf_err tf_stream_peer_id(const tf_stream *stream, tf_node_id *out);
/* For tf_keys_new_from_ssl. */
struct ssl_st *tf_stream_ssl(tf_stream *stream);
/* Not set before the socket is connected. */
const tf_address *tf_stream_local(const tf_stream *stream);
const tf_address *tf_stream_remote(const tf_stream *stream);
/* The smoothed RTT of the kernel; 0: unknown. */
tf_time tf_stream_rtt(const tf_stream *stream);

typedef struct tf_stream_stats {
    uint64_t read_bytes; /* of payload */
    uint64_t read_records;
    uint64_t written_bytes;
    uint64_t written_records;
} tf_stream_stats;

void tf_stream_get_stats(const tf_stream *stream, tf_stream_stats *out);

#endif
