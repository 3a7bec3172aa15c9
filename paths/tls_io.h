/* TLS over a non-blocking socket: OpenSSL's reads and writes of the socket, and what their outcome means. For
 * paths/stream only.
 *
 * OpenSSL's own socket BIO is not used: it may raise SIGPIPE and forgets which errno it met. */
#ifndef TF_PATHS_TLS_IO_H
#define TF_PATHS_TLS_IO_H

#include "paths/stream.h"

/* The socket as OpenSSL sees it. Lives longer than the SSL it was given to. */
typedef struct tf_tls_io {
    int fd;
    int system_error; /* of the last read or write that failed for good */
    bool ended;       /* a read has met the end of the TCP stream */
    bool drained;     /* the last read got less than it asked for: there is no more before the socket is ready again */
} tf_tls_io;

/* Makes ssl read and write io->fd. TF_ERR_NOMEM, TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_tls_io_attach(tf_tls_io *io, struct ssl_st *ssl);

/* The same for an ssl that was attached before and goes on with another copy of what it had. */
void tf_tls_io_move(tf_tls_io *io, struct ssl_st *ssl);

typedef enum tf_tls_outcome { TF_TLS_DONE, TF_TLS_WANT_READ, TF_TLS_WANT_WRITE, TF_TLS_ENDED } tf_tls_outcome;

typedef struct tf_tls_result {
    tf_tls_outcome outcome;
    tf_stream_reason reason; /* ENDED: and the rest too */
    int system_error;
    const char *text; /* static */
} tf_tls_result;

/* The socket is ready, or may be: the next read asks it. Each stream says so once in a turn of the loop, which saves the
 * call that would find nothing. */
void tf_tls_io_ready(tf_tls_io *io);

/* Each call empties OpenSSL's error queue before it begins. *done: bytes read or written. */
tf_tls_result tf_tls_handshake(tf_tls_io *io, struct ssl_st *ssl);
tf_tls_result tf_tls_read(tf_tls_io *io, struct ssl_st *ssl, uint8_t *buf, size_t cap, size_t *done);
tf_tls_result tf_tls_write(tf_tls_io *io, struct ssl_st *ssl, tf_slice bytes, size_t *done);
/* Sends the closing alert. DONE once it is sent; nothing is read. */
tf_tls_result tf_tls_shutdown(tf_tls_io *io, struct ssl_st *ssl);

#endif
