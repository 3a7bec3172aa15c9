/* tf-load: messages through a relay, counted and timed at both ends (README.md says how it is used). One file for what
 * both sides need, one for each side. A client is one node with one connection; it belongs to one thread. */
#ifndef TF_BENCH_LOAD_H
#define TF_BENCH_LOAD_H

#include "node/twofold.h"

#define TF_LOAD_OK 0
#define TF_LOAD_WRONG 1 /* something is missing, came twice, or was not acked */
#define TF_LOAD_USAGE 2
#define TF_LOAD_UNREACHABLE 3
#define TF_LOAD_REFUSED 4
#define TF_LOAD_INTERNAL 70

typedef struct tf_load_options {
    const char *channel;
    const char *identity;     /* file; NULL: a new key for each connection */
    const char *ready_file;   /* made when all subscriptions stand */
    const char *latency_file; /* one line a message */
    tf_uri uri;
    uint64_t count; /* sub: of each connection; pub: of all together */
    uint64_t size;
    double rate;            /* messages a second; 0: as fast as they are taken */
    uint32_t connections;
    uint32_t max_in_flight; /* 0: what the relay announces and the library queues */
    tf_routes routes;
    tf_time limit;     /* of the whole run */
    tf_time send_time; /* pub: sends for so long; 0: until the count is reached */
    tf_time slice;     /* pub: acks are counted by slices of time, too; 0: not */
    tf_time keepalive; /* 0: the default */
    tf_time settle; /* waits at most so long for all routes before it begins */
} tf_load_options;

typedef struct tf_load_client {
    const tf_load_options *options;
    tf_identity *identity;
    tf_node *node;
    tf_peer *peer;
    tf_remote *channel;
    bool connected;
    bool settled;
    tf_time connected_at;
    tf_time until; /* end of the whole run */
} tf_load_client;

/* Starts to connect and opens the channel. TF_LOAD_OK, or the exit status (the user was told). */
int tf_load_start(tf_load_client *client, const tf_load_options *options);
void tf_load_end(tf_load_client *client); /* a client that is all zero is fine */

/* A connection event that ends the run: its exit status (the user was told); else -1. */
int tf_load_event(tf_load_client *client, const tf_node_event *event);

/* Whether all routes that were asked for are up, or were waited for long enough. */
bool tf_load_settled(tf_load_client *client);
/* What can be waited for, at most `wait` more. */
tf_time tf_load_wait(const tf_load_client *client, tf_time wait);
bool tf_load_is_over(const tf_load_client *client);
/* <route>_sent, _received, _first, _lost, _shed of the session (segments). */
void tf_load_print_routes(const tf_load_client *client);

/* Makes an empty file. False: it cannot be made (the user was told). */
bool tf_load_touch(const char *path);

int tf_load_idle(const tf_load_options *options);
int tf_load_pub(const tf_load_options *options);
int tf_load_replay(const tf_load_options *options);
int tf_load_sub(const tf_load_options *options);

#endif
