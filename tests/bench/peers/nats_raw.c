/* The NATS client protocol straight over OpenSSL, in one thread, so that the server and not a client library is the limit.
 * Without a rate PUBs are put together to records of 16 KiB, with one each is written when it is due. */
#include <fcntl.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include "tests/bench/peers/peer.h"

#define BUFFER ((size_t)128 * 1024)
#define RECORD ((size_t)16384)
#define POLL_MS 1000

typedef struct connection {
    SSL *ssl;
    size_t have;
    tf_receiver *receiver;
    char in[BUFFER];
} connection;

static void write_all(SSL *ssl, const char *bytes, size_t len)
{
    size_t done = 0;
    while (len > 0) {
        int result = SSL_write_ex(ssl, bytes, len, &done);
        if (result == 1) {
            bytes += done;
            len -= done;
            continue;
        }
        int error = SSL_get_error(ssl, result);
        struct pollfd fd = {SSL_get_fd(ssl), error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, 0};
        tf_peer_must(error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE, "SSL_write");
        (void)poll(&fd, 1, POLL_MS);
    }
}

static void expect_pong(SSL *ssl)
{
    char pong[6];
    size_t have = 0;
    while (have < sizeof(pong)) {
        size_t done = 0;
        tf_peer_must(SSL_read_ex(ssl, pong + have, sizeof(pong) - have, &done) == 1, "no PONG");
        have += done;
    }
    tf_peer_must(memcmp(pong, "PONG\r\n", sizeof(pong)) == 0, "something else than PONG");
}

static SSL *dial(const tf_peer_options *options, const char *hello)
{
    SSL *ssl = tf_peer_tls(options, 1);
    write_all(ssl, hello, strlen(hello));
    expect_pong(ssl);
    return ssl;
}

/* "MSG subject sid size\r\n": the size; 0: another line. */
static size_t message_size(const char *line, const char *end)
{
    const char *at = end;
    if (*line != 'M') {
        return 0;
    }
    while (at[-1] != ' ') {
        at--;
    }
    return strtoul(at, NULL, 10);
}

/* Takes every whole MSG and PING that is in the buffer. */
static void parse(connection *c, uint64_t now)
{
    char *at = c->in;
    char *end = c->in + c->have;
    char *line_end = NULL;
    while ((line_end = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        size_t size = message_size(at, line_end - 1);
        size_t whole = size > 0 ? size + 2 : 0;
        if ((size_t)(end - line_end - 1) < whole) {
            break;
        }
        if (size > 0) {
            tf_receiver_take(c->receiver, line_end + 1, now);
        } else if (memcmp(at, "PING", 4) == 0) {
            write_all(c->ssl, "PONG\r\n", 6);
        } else {
            tf_peer_must(*at != '-', "the server reports an error");
        }
        at = line_end + 1 + whole;
    }
    c->have = (size_t)(end - at);
    memmove(c->in, at, c->have);
}

static void read_some(connection *c)
{
    do {
        size_t done = 0;
        int result = SSL_read_ex(c->ssl, c->in + c->have, sizeof(c->in) - c->have, &done);
        if (result != 1) {
            tf_peer_must(SSL_get_error(c->ssl, result) == SSL_ERROR_WANT_READ, "SSL_read");
            return;
        }
        c->have += done;
        parse(c, tf_measure_now());
    } while (SSL_pending(c->ssl) > 0);
}

static bool all_have(const tf_receiver *receivers, const tf_peer_options *options)
{
    for (unsigned i = 0; i < options->connections; i++) {
        if (receivers[i].got < options->count) {
            return false;
        }
    }
    return true;
}

static int run_sub(const tf_peer_options *options)
{
    connection *all = tf_peer_alloc(options->connections, sizeof(*all));
    tf_receiver *receivers = tf_peer_alloc(options->connections, sizeof(*receivers));
    struct pollfd *fds = tf_peer_alloc(options->connections, sizeof(*fds));
    for (unsigned i = 0; i < options->connections; i++) {
        all[i].receiver = &receivers[i];
        all[i].ssl = dial(options, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB bench.t 1\r\nPING\r\n");
        fds[i] = (struct pollfd){SSL_get_fd(all[i].ssl), POLLIN, 0};
        tf_peer_must(fcntl(fds[i].fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    }
    tf_peer_ready(options);
    uint64_t end = tf_measure_now() + options->limit_ns;
    while (!all_have(receivers, options) && tf_measure_now() < end) {
        int ready = poll(fds, options->connections, POLL_MS);
        for (unsigned i = 0; ready > 0 && i < options->connections; i++) {
            if (fds[i].revents != 0) {
                read_some(&all[i]);
            }
        }
    }
    int status = tf_receivers_report(receivers, options);
    free(receivers);
    free(fds);
    free(all);
    return status;
}

static int run_pub(const tf_peer_options *options)
{
    char head[64];
    char record[RECORD];
    size_t len = 0;
    SSL *ssl = dial(options, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nPING\r\n");
    size_t head_len = (size_t)snprintf(head, sizeof(head), "PUB bench.t %zu\r\n", options->size);
    uint64_t begin = tf_measure_now();
    for (uint64_t i = 0; i < options->count; i++) {
        tf_peer_wait(tf_peer_due(options, begin, i));
        tf_stamp stamp = tf_peer_stamp(options, begin, i);
        if (len + head_len + options->size + 2 > sizeof(record)) {
            write_all(ssl, record, len);
            len = 0;
        }
        memcpy(record + len, head, head_len);
        memset(record + len + head_len, 'x', options->size);
        memcpy(record + len + head_len, &stamp, sizeof(stamp));
        len += head_len + options->size;
        record[len++] = '\r';
        record[len++] = '\n';
        if (options->rate > 0) {
            write_all(ssl, record, len);
            len = 0;
        }
    }
    write_all(ssl, record, len);
    write_all(ssl, "PING\r\n", 6);
    expect_pong(ssl);
    tf_sender_report(options, begin);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    tf_peer_options options;
    tf_peer_options_parse(&options, argc, argv);
    return options.is_sub ? run_sub(&options) : run_pub(&options);
}
