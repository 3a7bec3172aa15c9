/* What the load generators for other brokers share: options, the schedule of sending, what a receiver counts, and TLS 1.3
 * with a client certificate. They print the same lines as tf-load, so that tests/bench/compare can put them side by side.
 *
 *     PROGRAM sub|pub -p PORT -k CERTIFICATES -n COUNT [-c CONNECTIONS] [-s SIZE] [-r RATE] [-f READYFILE] [-t SECONDS]
 *
 * and those that measure acked messages, in the clear:
 *
 *     PROGRAM pub -p PORT -n COUNT | -T SECONDS [-w WINDOW] [-c CONNECTIONS] [-s SIZE] [-S SLICE_SECONDS]
 *     PROGRAM sub -p PORT -n COUNT          (from the first message that is held)
 *
 * CERTIFICATES is a folder with ca.pem, client.pem and client.key. What goes wrong ends the process with a word on stderr:
 * they have no other job than to measure. */
#ifndef TF_BENCH_PEER_H
#define TF_BENCH_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/bench/acks.h"
#include "tests/bench/measure.h"

#define TF_PEER_PATH_MAX 1024u

typedef struct tf_peer_options {
    bool is_sub;
    int port;
    unsigned connections;
    uint64_t count; /* of each connection; of acked messages: divided among them. UINT64_MAX: only send_ns ends it */
    size_t size;
    double rate; /* 0: as fast as they are taken */
    uint64_t window;   /* of each connection: messages without an ack */
    uint64_t send_ns;  /* sends for so long; 0: until the count is reached */
    uint64_t slice_ns; /* of tf_acks */
    const char *ready_file;
    uint64_t limit_ns;
    char ca[TF_PEER_PATH_MAX];
    char certificate[TF_PEER_PATH_MAX];
    char key[TF_PEER_PATH_MAX];
} tf_peer_options;

/* Ends the process with status 2 when they are wrong. */
void tf_peer_options_parse(tf_peer_options *options, int argc, char **argv);
/* Ends the process. */
_Noreturn void tf_peer_die(const char *what);
static inline void tf_peer_must(bool condition, const char *what)
{
    if (!condition) {
        tf_peer_die(what);
    }
}
/* Zeroed memory, or the end of the process. */
void *tf_peer_alloc(size_t count, size_t size) __attribute__((returns_nonnull));
/* Tells that all subscriptions stand. */
void tf_peer_ready(const tf_peer_options *options);

/* A receiver: one connection's. */
typedef struct tf_receiver {
    uint64_t got;
    uint64_t first_sent;
    uint64_t last;
    uint64_t gap;
    tf_latency net;
    tf_latency sched;
} tf_receiver;

/* body holds at least a stamp. */
void tf_receiver_take(tf_receiver *receiver, const void *body, uint64_t now);
/* Sums up `connections` receivers (into the first one) and prints the result. The exit status. */
int tf_receivers_report(tf_receiver *receivers, const tf_peer_options *options);

/* When message seq is due, from the beginning (ns); without a rate 0. */
uint64_t tf_peer_due(const tf_peer_options *options, uint64_t begin, uint64_t seq);
/* The stamp of a message that is handed over now. */
tf_stamp tf_peer_stamp(const tf_peer_options *options, uint64_t begin, uint64_t seq);
/* Waits until that time; 0: does not wait. */
void tf_peer_wait(uint64_t due);
void tf_sender_report(const tf_peer_options *options, uint64_t begin);

/* The share of connection `index` of the messages. */
uint64_t tf_peer_share(const tf_peer_options *options, unsigned index);
/* No message is sent from then on, having begun at `begin`. */
uint64_t tf_peer_end(const tf_peer_options *options, uint64_t begin);
void tf_acked_report(const tf_acks *acks);
/* What a subscriber from the first message took, having asked at `asked`. The exit status. */
int tf_replay_report(const tf_peer_options *options, uint64_t got, uint64_t asked, uint64_t last);

/* A socket that is connected to 127.0.0.1. */
int tf_peer_connect(const tf_peer_options *options);

/* An SSL on a new connection to 127.0.0.1, its handshake finished: TLS 1.3, AES-128-GCM. Before it begins, the lines that
 * the server says in the clear are read (NATS says one). */
struct ssl_st *tf_peer_tls(const tf_peer_options *options, unsigned clear_lines);

#endif
