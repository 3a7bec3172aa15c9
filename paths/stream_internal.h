/* The inside of a stream, shared by its beginning (stream_dial.c), its life (stream.c) and its end (stream_end.c). For
 * these only. */
#ifndef TF_PATHS_STREAM_INTERNAL_H
#define TF_PATHS_STREAM_INTERNAL_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <openssl/ssl.h>

#include "paths/stream.h"
#include "paths/tls_io.h"

typedef enum stream_state {
    STREAM_DIALLING,  /* addresses are tried, up to the end of the first TLS handshake */
    STREAM_SHAKING,   /* TLS handshake of an accepted socket */
    STREAM_OPEN,      /* bytes flow */
    STREAM_CLOSING,   /* the last bytes and the closing alert go out */
    STREAM_LINGERING, /* the peer's end is awaited */
    STREAM_ENDED      /* `ended` is due or was called */
} stream_state;

typedef struct stream_failure {
    tf_stream_reason reason;
    int system_error;
    char text[TF_STREAM_TEXT_MAX];
} stream_failure;

/* One address that is being tried. */
typedef struct dial_attempt {
    tf_stream *stream;
    SSL *ssl;           /* NULL: TCP is not connected yet */
    tf_tls_io io;       /* io.fd is -1: this place is free */
    struct event ready; /* whichever readiness it waits for */
    tf_address remote;
    size_t number; /* in the order in which they began */
} dial_attempt;

/* Where a dialler goes, until it has got there. */
typedef struct stream_dial {
    tf_address addresses[TF_STREAM_ADDRESSES_MAX];
    size_t count;
    size_t next; /* of those not tried yet */
    dial_attempt attempts[TF_STREAM_ATTEMPTS_MAX];
    size_t running; /* of those */
    bool pinned;
    tf_node_id pin;
    tf_bind bind;
    tf_time deadline;
    bool failed; /* `failure` of the stream is that of the address which got furthest */
} stream_dial;

struct tf_stream {
    const tf_mem *mem;
    struct event_base *base;
    SSL_CTX *tls;
    const tf_stream_ops *ops;
    void *ctx;
    stream_state state;
    bool busy;  /* inside one of its handlers: the memory is released after that */
    bool freed; /* by the owner */
    bool has_opened;
    stream_dial *dial; /* NULL: accepted, or open */

    SSL *ssl;
    tf_tls_io io; /* io.fd is -1 while there is no socket */
    struct event readable;
    struct event writable;
    struct event again; /* a turn of the loop later: input that TLS holds, a verdict that is due; the next address */
    struct event limit;

    tf_stream_buffers *buffers;
    uint8_t *in; /* NULL: nothing waits for the owner */
    size_t in_from;
    size_t in_to;
    uint8_t *out; /* the rest of a record that the socket did not take; NULL: none */
    size_t out_from;
    size_t out_to;
    uint8_t *last; /* what follows that when the stream closes; NULL: nothing */
    size_t last_len;
    size_t turn_written;
    bool want_write;
    bool write_needs_read; /* TLS goes on writing after it has read, and the other way round */
    bool read_needs_write;
    bool write_failed; /* as `failure` says; what can still be read comes first */

    stream_failure failure;
    tf_address local;
    tf_address remote;
    tf_stream_stats stats;
};

/* Which readiness matters now, by the state. */
void tf_stream_arm(tf_stream *stream);
/* Goes on in the next turn of the loop. */
void tf_stream_again(tf_stream *stream);
void tf_stream_again_in(tf_stream *stream, tf_time delay);
/* Around each handler: what the owner frees meanwhile is released by _leave, and not touched after it. */
void tf_stream_enter(tf_stream *stream);
void tf_stream_leave(tf_stream *stream);
void tf_stream_set_limit(tf_stream *stream, tf_time delay);
/* The handshake is over. */
void tf_stream_begin(tf_stream *stream);
/* Whether the rest of a record waits for the socket. */
bool tf_stream_has_output(const tf_stream *stream);
/* Makes these bytes (at most TF_STREAM_RECORD) that rest, where there is none. False: no memory. */
TF_MUST_CHECK bool tf_stream_set_output(tf_stream *stream, tf_slice bytes);
/* Writes that rest. True: nothing waits any more; else `write_failed` or later. */
bool tf_stream_flush(tf_stream *stream);
/* A stream without a socket; its memory goes with tf_stream_free. */
TF_MUST_CHECK tf_err tf_stream_new(tf_stream **out, const tf_stream_env *env, const tf_stream_ops *ops, void *ctx);
/* Makes events of the socket fd. */
void tf_stream_use_socket(tf_stream *stream, int fd);

/* -- stream_end.c -------------------------------------------------------------------------------------------------- */

void tf_stream_set_failure(tf_stream *stream, tf_stream_reason reason, int system_error, const char *text);
/* The end: `ended` will be called with what _set_failure said. */
void tf_stream_finish(tf_stream *stream);
/* Ends TLS and TCP as politely as is possible without waiting. */
void tf_stream_drop_socket(tf_stream *stream);
/* Closes a socket so that our last bytes, or the alert that says why, are not lost to a reset. */
void tf_stream_close_socket(int fd);
/* What is to be done in these two states when the socket is ready. */
void tf_stream_closing_turn(tf_stream *stream);
void tf_stream_linger_turn(tf_stream *stream);
/* Frees the bytes that were to follow the output. */
void tf_stream_forget_last(tf_stream *stream);

/* -- stream_dial.c ------------------------------------------------------------------------------------------------- */

/* It is the next address's turn, if there is one. */
void tf_stream_dial_next(tf_stream *stream);
/* The time for dial and handshake is over. */
void tf_stream_dial_late(tf_stream *stream);
/* Closes the sockets of all attempts; none, also when it does not dial. */
void tf_stream_dial_stop(tf_stream *stream);
/* Goes on with the handshake of an accepted socket. */
void tf_stream_shake(tf_stream *stream);

#endif
