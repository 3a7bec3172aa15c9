#include "paths/tls_io.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include "handshake/identity.h"

/* -- the socket as a BIO ------------------------------------------------------------------------------------------- */

static CRYPTO_ONCE method_once = CRYPTO_ONCE_STATIC_INIT;
static BIO_METHOD *method;

static bool is_later(int error)
{
    return error == EAGAIN || error == EINTR;
}

static int socket_write(BIO *bio, const char *data, size_t len, size_t *done)
{
    tf_tls_io *io = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(io->fd, data, len, MSG_NOSIGNAL);
    if (sent > 0) {
        *done = (size_t)sent;
        return 1;
    }
    *done = 0;
    if (sent < 0 && is_later(errno)) {
        BIO_set_retry_write(bio);
    } else {
        io->system_error = errno;
    }
    return 0;
}

static int socket_read(BIO *bio, char *data, size_t len, size_t *done)
{
    tf_tls_io *io = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (io->drained) {
        *done = 0;
        BIO_set_retry_read(bio);
        return 0;
    }
    ssize_t got = recv(io->fd, data, len, 0);
    io->drained = got > 0 && (size_t)got < len;
    if (got > 0) {
        *done = (size_t)got;
        return 1;
    }
    *done = 0;
    if (got == 0) {
        io->ended = true;
    } else if (is_later(errno)) {
        BIO_set_retry_read(bio);
    } else {
        io->system_error = errno;
    }
    return 0;
}

static long socket_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    const tf_tls_io *io = BIO_get_data(bio);
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return io->ended ? 1 : 0;
    default: /* every other control is optional */
        return 0;
    }
}

static int socket_create(BIO *bio)
{
    BIO_set_init(bio, 1);
    return 1;
}

static void method_init(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "twofold socket");
    bool ok = method != NULL && BIO_meth_set_write_ex(method, socket_write) == 1 &&
              BIO_meth_set_read_ex(method, socket_read) == 1 && BIO_meth_set_ctrl(method, socket_ctrl) == 1 &&
              BIO_meth_set_create(method, socket_create) == 1;
    if (!ok) {
        BIO_meth_free(method);
        method = NULL;
    }
}

tf_err tf_tls_io_attach(tf_tls_io *io, SSL *ssl)
{
    if (CRYPTO_THREAD_run_once(&method_once, method_init) != 1 || method == NULL) {
        return TF_ERR_CRYPTO;
    }
    BIO *bio = BIO_new(method);
    if (bio == NULL) {
        return TF_ERR_NOMEM;
    }
    BIO_set_data(bio, io);
    SSL_set_bio(ssl, bio, bio); /* takes the one reference for both directions */
    return TF_OK;
}

void tf_tls_io_move(tf_tls_io *io, SSL *ssl)
{
    BIO_set_data(SSL_get_rbio(ssl), io);
}

/* -- outcomes ------------------------------------------------------------------------------------------------------ */

static tf_tls_result ended(tf_stream_reason reason, int system_error, const char *text)
{
    return (tf_tls_result){TF_TLS_ENDED, reason, system_error, text};
}

/* OpenSSL met a fault: ours, an alert of the peer's, or bytes that are no TLS. */
static tf_tls_result of_protocol(const tf_tls_io *io)
{
    unsigned long error = ERR_peek_error();
    const char *text = ERR_reason_error_string(error);
    text = text != NULL ? text : "TLS error";
    if (tf_identity_error_is_refusal(error)) {
        return ended(TF_STREAM_REFUSED, 0, text);
    }
    if (ERR_GET_LIB(error) != ERR_LIB_SSL) {
        return ended(ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE ? TF_STREAM_INTERNAL : TF_STREAM_PROTOCOL, 0, text);
    }
    switch (ERR_GET_REASON(error)) {
    case SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return ended(TF_STREAM_TRUNCATED, 0, "the connection ended without a TLS close");
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return ended(TF_STREAM_AUTH, 0, "the peer's key is not let in");
    case ERR_R_MALLOC_FAILURE:
    case ERR_R_INTERNAL_ERROR:
        return ended(TF_STREAM_INTERNAL, io->system_error, text);
    default: /* OpenSSL has some hundred other ways to say that the peer's bytes are wrong */
        return ended(TF_STREAM_PROTOCOL, 0, text);
    }
}

static tf_tls_result of_system(const tf_tls_io *io)
{
    if (io->system_error != 0) {
        return ended(TF_STREAM_RESET, io->system_error, "the connection broke");
    }
    return ended(TF_STREAM_TRUNCATED, 0, "the connection ended without a TLS close");
}

/* The one place where SSL_get_error is read. */
static tf_tls_result outcome_of(const tf_tls_io *io, const SSL *ssl, int result)
{
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_NONE:
        return (tf_tls_result){.outcome = TF_TLS_DONE};
    case SSL_ERROR_WANT_READ:
        return (tf_tls_result){.outcome = TF_TLS_WANT_READ};
    case SSL_ERROR_WANT_WRITE:
        return (tf_tls_result){.outcome = TF_TLS_WANT_WRITE};
    case SSL_ERROR_ZERO_RETURN:
        return ended(TF_STREAM_CLOSED, 0, "closed by the peer");
    case SSL_ERROR_SYSCALL:
        return of_system(io);
    case SSL_ERROR_SSL:
        return of_protocol(io);
    default: /* asynchronous engines and callbacks, which are not used */
        return ended(TF_STREAM_INTERNAL, 0, "unexpected state of the TLS library");
    }
}

void tf_tls_io_ready(tf_tls_io *io)
{
    io->drained = false;
}

tf_tls_result tf_tls_handshake(tf_tls_io *io, SSL *ssl)
{
    tf_tls_io_ready(io);
    ERR_clear_error();
    return outcome_of(io, ssl, SSL_do_handshake(ssl));
}

tf_tls_result tf_tls_read(tf_tls_io *io, SSL *ssl, uint8_t *buf, size_t cap, size_t *done)
{
    *done = 0;
    ERR_clear_error();
    return outcome_of(io, ssl, SSL_read_ex(ssl, buf, cap, done));
}

tf_tls_result tf_tls_write(tf_tls_io *io, SSL *ssl, tf_slice bytes, size_t *done)
{
    *done = 0;
    ERR_clear_error();
    return outcome_of(io, ssl, SSL_write_ex(ssl, bytes.data, bytes.len, done));
}

tf_tls_result tf_tls_shutdown(tf_tls_io *io, SSL *ssl)
{
    ERR_clear_error();
    int result = SSL_shutdown(ssl);
    if (result >= 0) {
        return (tf_tls_result){.outcome = TF_TLS_DONE};
    }
    return outcome_of(io, ssl, result);
}
