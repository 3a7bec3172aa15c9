#include "tests/bench/peers/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000u

_Noreturn void tf_peer_die(const char *what)
{
    (void)fprintf(stderr, "%s (errno %d: %s)\n", what, errno, strerror(errno));
    exit(EXIT_FAILURE);
}

void *tf_peer_alloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    tf_peer_must(memory != NULL, "memory");
    return memory;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

static double number(const char *text, double low, double high)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= low) || !(value <= high)) {
        (void)fprintf(stderr, "'%s' is not a number from %g to %g\n", text, low, high);
        exit(2);
    }
    return value;
}

static void one_option(tf_peer_options *options, int option, const char *text)
{
    switch (option) {
    case 'p':
        options->port = (int)number(text, 1, 65535);
        return;
    case 'c':
        options->connections = (unsigned)number(text, 1, 1000);
        return;
    case 'n':
        options->count = (uint64_t)number(text, 1, 1e9);
        return;
    case 's':
        options->size = (size_t)number(text, sizeof(tf_stamp), 8192);
        return;
    case 'r':
        options->rate = number(text, 0.001, 1e7);
        return;
    case 'w':
        options->window = (uint64_t)number(text, 1, 1e6);
        return;
    case 'T':
        options->send_ns = (uint64_t)(number(text, 0.001, 1e6) * SECOND_NS);
        return;
    case 'S':
        options->slice_ns = (uint64_t)(number(text, 0.001, 1e6) * SECOND_NS);
        return;
    case 't':
        options->limit_ns = (uint64_t)number(text, 1, 1e6) * SECOND_NS;
        return;
    case 'f':
        options->ready_file = text;
        return;
    case 'k':
        (void)snprintf(options->ca, sizeof(options->ca), "%s/ca.pem", text);
        (void)snprintf(options->certificate, sizeof(options->certificate), "%s/client.pem", text);
        (void)snprintf(options->key, sizeof(options->key), "%s/client.key", text);
        return;
    default:
        exit(2);
    }
}

void tf_peer_options_parse(tf_peer_options *options, int argc, char **argv)
{
    int option = 0;
    *options = (tf_peer_options){.connections = 1, .size = 128, .window = 1, .limit_ns = (uint64_t)60 * SECOND_NS};
    if (argc < 2 || (strcmp(argv[1], "sub") != 0 && strcmp(argv[1], "pub") != 0)) {
        (void)fprintf(stderr, "usage: %s sub|pub -p PORT ... (tests/bench/peers/peer.h)\n", argv[0]);
        exit(2);
    }
    options->is_sub = strcmp(argv[1], "sub") == 0;
    while ((option = getopt(argc - 1, argv + 1, "p:c:n:s:r:t:f:k:w:T:S:")) != -1) {
        one_option(options, option, optarg);
    }
    if (options->count == 0 && options->send_ns > 0 && !options->is_sub) {
        options->count = UINT64_MAX;
    }
    tf_peer_must(options->port != 0 && options->count != 0, "-p and -n are needed");
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
}

void tf_peer_ready(const tf_peer_options *options)
{
    if (options->ready_file != NULL) {
        FILE *file = fopen(options->ready_file, "w");
        tf_peer_must(file != NULL && fclose(file) == 0, options->ready_file);
    }
}

/* -- receiving ----------------------------------------------------------------------------------------------------- */

void tf_receiver_take(tf_receiver *receiver, const void *body, uint64_t now)
{
    tf_stamp stamp;
    memcpy(&stamp, body, sizeof(stamp));
    if (receiver->got == 0) {
        receiver->first_sent = stamp.sent;
    } else if (now - receiver->last > receiver->gap) {
        receiver->gap = now - receiver->last;
    }
    receiver->got++;
    receiver->last = now;
    tf_latency_add(&receiver->net, now - stamp.sent);
    tf_latency_add(&receiver->sched, now - stamp.due);
}

int tf_receivers_report(tf_receiver *receivers, const tf_peer_options *options)
{
    tf_receiver *sum = &receivers[0];
    for (unsigned i = 1; i < options->connections; i++) {
        const tf_receiver *r = &receivers[i];
        sum->got += r->got;
        sum->last = r->last > sum->last ? r->last : sum->last;
        sum->gap = r->gap > sum->gap ? r->gap : sum->gap;
        if (r->got > 0 && r->first_sent < sum->first_sent) {
            sum->first_sent = r->first_sent;
        }
        tf_latency_merge(&sum->net, &r->net);
        tf_latency_merge(&sum->sched, &r->sched);
    }
    uint64_t wanted = options->count * options->connections;
    tf_measure_print("delivered", (double)sum->got);
    tf_measure_print("missing", (double)(wanted - sum->got));
    if (sum->got > 0) {
        tf_measure_print("delivered_per_s", (double)sum->got * 1e9 / (double)(sum->last - sum->first_sent));
        tf_latency_print(&sum->net, "e2e");
        tf_latency_print(&sum->sched, "e2e_sched");
        tf_measure_print("gap_max_us", (double)sum->gap / 1e3);
        tf_measure_print("sub_cpu_s_per_M", tf_measure_cpu() / (double)sum->got * 1e6);
    }
    return sum->got == wanted ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

uint64_t tf_peer_due(const tf_peer_options *options, uint64_t begin, uint64_t seq)
{
    return options->rate > 0 ? begin + (uint64_t)((double)seq * 1e9 / options->rate) : 0;
}

tf_stamp tf_peer_stamp(const tf_peer_options *options, uint64_t begin, uint64_t seq)
{
    tf_stamp stamp = {.seq = seq, .sent = tf_measure_now()};
    stamp.due = options->rate > 0 ? tf_peer_due(options, begin, seq) : stamp.sent;
    return stamp;
}

void tf_peer_wait(uint64_t due)
{
    struct timespec at = {(time_t)(due / SECOND_NS), (long)(due % SECOND_NS)};
    while (due > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

void tf_sender_report(const tf_peer_options *options, uint64_t begin)
{
    double seconds = (double)(tf_measure_now() - begin) / 1e9;
    tf_measure_print("sent", (double)options->count);
    tf_measure_print("sent_per_s", (double)options->count / seconds);
    tf_measure_print("pub_cpu_s_per_M", tf_measure_cpu() / (double)options->count * 1e6);
}

uint64_t tf_peer_share(const tf_peer_options *options, unsigned index)
{
    uint64_t rest = options->count % options->connections;
    return options->count == UINT64_MAX ? UINT64_MAX : options->count / options->connections + (index < rest);
}

uint64_t tf_peer_end(const tf_peer_options *options, uint64_t begin)
{
    return options->send_ns > 0 ? begin + options->send_ns : UINT64_MAX;
}

void tf_acked_report(const tf_acks *acks)
{
    tf_acks_print(acks);
    if (acks->count > 0) {
        tf_measure_print("pub_cpu_s_per_M", tf_measure_cpu() / (double)acks->count * 1e6);
    }
}

int tf_replay_report(const tf_peer_options *options, uint64_t got, uint64_t asked, uint64_t last)
{
    tf_measure_print("replayed", (double)got);
    if (got > 0) {
        tf_measure_print("replayed_per_s", (double)got * 1e9 / (double)(last - asked));
        tf_measure_print("sub_cpu_s_per_M", tf_measure_cpu() / (double)got * 1e6);
    }
    return got >= options->count ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* -- connections --------------------------------------------------------------------------------------------------- */

static SSL_CTX *context(const tf_peer_options *options)
{
    static SSL_CTX *ctx;
    if (ctx == NULL) {
        ctx = SSL_CTX_new(TLS_client_method());
        tf_peer_must(ctx != NULL && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
                         SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1 &&
                         SSL_CTX_use_certificate_chain_file(ctx, options->certificate) == 1 &&
                         SSL_CTX_use_PrivateKey_file(ctx, options->key, SSL_FILETYPE_PEM) == 1 &&
                         SSL_CTX_load_verify_locations(ctx, options->ca, NULL) == 1,
                     "the certificates cannot be used");
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
        (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    }
    return ctx;
}

int tf_peer_connect(const tf_peer_options *options)
{
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)options->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    tf_peer_must(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0, "connect");
    tf_peer_must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "TCP_NODELAY");
    return fd;
}

SSL *tf_peer_tls(const tf_peer_options *options, unsigned clear_lines)
{
    char c = '\0';
    int fd = tf_peer_connect(options);
    while (clear_lines > 0) {
        tf_peer_must(read(fd, &c, 1) == 1, "the server's first line");
        clear_lines -= c == '\n';
    }
    SSL *ssl = SSL_new(context(options));
    tf_peer_must(ssl != NULL && SSL_set_fd(ssl, fd) == 1 && SSL_connect(ssl) == 1, "TLS handshake");
    return ssl;
}
