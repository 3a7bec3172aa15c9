/* What a TLS record costs: two streams (paths/stream) on loopback in one process, one writes, the other reads.
 *
 * Usage: bench_stream [THOUSANDS of records, default 100]. Prints ns of CPU a record in the writer and in the reader (which
 * has the loop's costs, too), the best of five runs. */
#include <event2/event.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>

#include "handshake/identity.h"
#include "node/edge_mem.h"
#include "paths/listener.h"
#include "paths/stream.h"
#include "tests/bench/measure.h"

#define RUNS 5
#define PUMP 16u /* records written between two turns of the loop */

static struct event_base *base;
static tf_stream_buffers buffers;
static SSL_CTX *tls[2]; /* the dialler's, the acceptor's */
static tf_stream *streams[2];
static unsigned opened;
static uint64_t received;

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_stream: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static bool allow(void *ctx, const tf_node_id *peer)
{
    (void)ctx, (void)peer;
    return true;
}

static void on_opened(void *ctx, tf_stream *stream)
{
    (void)ctx, (void)stream;
    opened++;
}

static void on_readable(void *ctx, tf_stream *stream)
{
    (void)ctx;
    size_t len = tf_stream_in(stream).len;
    received += len;
    tf_stream_consume(stream, len);
}

static void on_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    (void)ctx, (void)stream;
    must(false, end->text);
}

static const tf_stream_ops ops = {.opened = on_opened, .readable = on_readable, .ended = on_ended};

static tf_stream_env env_of(int side)
{
    return (tf_stream_env){.base = base, .tls = tls[side], .mem = tf_edge_mem(), .buffers = &buffers};
}

static void on_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx, (void)peer;
    tf_stream_env env = env_of(1);
    must(tf_stream_accept(&streams[1], &env, fd, TF_DIAL_LIMIT, &ops, NULL) == TF_OK, "accept");
}

static void connect_both(const tf_identity *acceptor)
{
    tf_address any;
    tf_listener *listener = NULL;
    tf_listener_config config = {.base = base, .mem = tf_edge_mem(), .accepted = on_accepted};
    must(tf_address_parse(&any, tf_slice_str("127.0.0.1"), 0) == TF_OK, "address");
    must(tf_listener_new(&listener, tf_listen_tcp(&any), &config) == TF_OK, "listen");
    tf_stream_env env = env_of(0);
    tf_stream_target target = {.addresses = tf_listener_local(listener),
                               .count = 1,
                               .pin = tf_identity_node_id(acceptor),
                               .limit = TF_DIAL_LIMIT};
    must(tf_stream_dial(&streams[0], &env, &target, &ops, NULL) == TF_OK, "dial");
    while (opened < 2) {
        must(event_base_loop(base, EVLOOP_ONCE) == 0, "loop");
    }
    tf_listener_free(listener);
}

/* Seconds of CPU: of writing, and of all. */
static void run(size_t size, uint64_t records, double spent[2])
{
    static const uint8_t record[TF_STREAM_RECORD];
    uint64_t wanted = received + size * records;
    double begin = tf_measure_cpu();
    double writing = 0;
    while (received < wanted) {
        double before = tf_measure_cpu();
        for (unsigned i = 0; i < PUMP && records > 0 && tf_stream_room(streams[0]) >= size; i++, records--) {
            tf_stream_write(streams[0], tf_slice_of(record, size));
        }
        writing += tf_measure_cpu() - before;
        tf_stream_want_write(streams[0], records > 0); /* so that a turn's share of writing begins anew */
        must(event_base_loop(base, EVLOOP_ONCE) == 0, "loop");
    }
    spent[0] = writing;
    spent[1] = tf_measure_cpu() - begin;
}

static void measure(size_t size, uint64_t records)
{
    double best[2] = {1e12, 1e12};
    for (int i = 0; i < RUNS; i++) {
        double spent[2];
        run(size, records, spent);
        double write = spent[0] / (double)records * 1e9;
        double read = (spent[1] - spent[0]) / (double)records * 1e9;
        best[0] = write < best[0] ? write : best[0];
        best[1] = read < best[1] ? read : best[1];
    }
    (void)printf("record of %5zu bytes: write %7.0f ns, read %7.0f ns\n", size, best[0], best[1]);
}

int main(int argc, char **argv)
{
    uint64_t records = (argc > 1 ? strtoull(argv[1], NULL, 10) : 100) * 1000;
    tf_identity *identities[2] = {NULL, NULL};
    must(records > 0, "usage: bench_stream [THOUSANDS]");
    base = event_base_new();
    must(base != NULL, "memory");
    tf_stream_buffers_init(&buffers, tf_edge_mem());
    for (int i = 0; i < 2; i++) {
        must(tf_identity_generate(&identities[i], tf_edge_rand()) == TF_OK &&
                 tf_identity_ssl_ctx(&tls[i], identities[i], i == 1, allow, NULL) == TF_OK,
             "identity");
    }
    connect_both(identities[1]);
    measure(128, records);
    measure(TF_STREAM_RECORD, records / 10 + 1);
    for (int i = 0; i < 2; i++) {
        tf_stream_free(streams[i]);
        SSL_CTX_free(tls[i]);
        tf_identity_free(identities[i]);
    }
    tf_stream_buffers_clear(&buffers);
    event_base_free(base);
    return EXIT_SUCCESS;
}
