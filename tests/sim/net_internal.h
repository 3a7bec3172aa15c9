/* What the files of the net share: net.c (the clock and the events), net_path.c (datagrams), net_stream.c. */
#ifndef TF_TESTS_SIM_NET_INTERNAL_H
#define TF_TESTS_SIM_NET_INTERNAL_H

#include "proto/limits.h"
#include "tests/harness/bloat.h"
#include "tests/sim/net.h"

#define ODDS 1000u

typedef enum net_kind {
    KIND_PACKET,
    KIND_ARRIVAL, /* of the first chunk of a pipe */
    KIND_CONFIRM, /* the writer learns that bytes have arrived */
    KIND_BROKEN,
    KIND_TIMER
} net_kind;

typedef struct net_queued {
    tf_time at;
    uint64_t sequence;
    net_kind kind;
    unsigned end;
    uint64_t generation;
    uint64_t number;
    uint8_t *data;
    size_t len;
} net_queued;

typedef struct chunk {
    struct chunk *next;
    tf_time at;
    bool is_end; /* no bytes: the writer has closed its socket */
    size_t len;
    uint8_t data[];
} chunk;

typedef struct pipe_state {
    net_pipe set;
    size_t unconfirmed;
    tf_time stuck_since; /* TF_NEVER: the writer knows that all has arrived */
    bool finished; /* the writer has closed its socket */
    chunk *first;
    chunk *last;
    tf_time busy_until;
    tf_bloat bloat;
    tf_time last_at; /* when the latest chunk arrives: order */
    bool scheduled;
    uint64_t written;
} pipe_state;

/* A packet in a stall. */
typedef struct waiting {
    struct waiting *next;
    uint64_t generation;
    uint64_t number;
    size_t len;
    uint8_t data[];
} waiting;

typedef struct path_state {
    net_path set;
    tf_time busy_until;
    bool losing; /* in a burst */
    tf_bloat bloat;
    waiting *first;
    waiting *last;
    size_t waiting_bytes;
    uint64_t sent;
} path_state;

struct net {
    tf_test_random random;
    tf_time now;
    uint64_t sequence;
    uint64_t trace;
    net_queued *heap;
    size_t count;
    size_t room;
    path_state paths[NET_ENDS];
    pipe_state pipes[NET_ENDS]; /* by the writing end */
    bool open;
    uint64_t generation;
    uint8_t *lent;
};

/* Ends the program. */
void net_fail(const char *what);
void *net_must(void *memory);
/* One of the net's odds. */
bool net_happens(net *n, unsigned odds, unsigned of);
/* How long so many bytes take at a rate. */
tf_time net_transmission(uint64_t rate, size_t len);
/* When so many bytes have left a queue that others fill; TF_NEVER: it is full. */
tf_time net_bloated(const net *n, tf_bloat *queue, tf_time length, uint64_t rate, size_t len);
void net_push(net *n, tf_time at, net_queued event);

/* net_path.c */
void net_clear_path(path_state *path);
/* net_stream.c: what comes of an event; false: nothing for the host. */
void net_clear_pipe(pipe_state *pipe);
bool net_arrival(net *n, const net_queued *event, net_event *out);
bool net_confirm(net *n, const net_queued *event, net_event *out);

#endif
