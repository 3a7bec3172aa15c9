/* The parts of tf-path, an emulated point-to-point IP path between two network namespaces: a TUN device in each, and
 * between them delay, jitter, loss, a rate with a queue, repeats, a longest length and holes, each direction by itself;
 * at end a a NAT that can forget (path_nat.h).
 * For kernels without netem; needs CAP_NET_ADMIN. Way 0 goes from end a to end b, way 1 back.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. Every queue is bounded in packets and bytes: what does not fit is dropped
 * and counted. One thread. Not for packets of which the path should know more than IP, TCP and UDP headers. */
#ifndef TF_TESTS_HARNESS_PATH_H
#define TF_TESTS_HARNESS_PATH_H

#include <stdio.h>

#include "tests/harness/bloat.h"
#include "tests/harness/burst.h"
#include "tests/harness/path_nat.h"

#define TF_PATH_WAYS 2
#define TF_PATH_PACKETS_MAX 65536u    /* that wait in one way */
#define TF_PATH_BYTES_MAX (64u << 20) /* and their bytes */
#define TF_PATH_PACKET_MAX 65535u
#define TF_PATH_DELAY_MAX_MS 60000u
#define TF_PATH_QUEUE_BYTES (64u << 10) /* of a rate, unless it is set */
#define TF_PATH_NEVER UINT64_MAX

/* What is wrong with one way; all 0: a perfect one. */
typedef enum tf_path_fault {
    TF_PATH_DELAY,  /* ns */
    TF_PATH_JITTER, /* ns; each packet is up to so much earlier or later, so they overtake each other */
    TF_PATH_LOSS,   /* millionths */
    TF_PATH_BURST,  /* packets in a row that are lost on average; 0 and 1: each by itself */
    TF_PATH_REPEAT, /* millionths */
    TF_PATH_RATE,   /* bits a second; 0: any */
    TF_PATH_QUEUE,  /* bytes that wait for the rate */
    TF_PATH_BLOAT,  /* ns; others fill a queue of that length before the rate (bloat.h); QUEUE does not count then */
    TF_PATH_MTU,    /* longest IP packet that passes, others are dropped silently; 0: any */
    TF_PATH_HOLE,   /* 1: all are dropped */
    TF_PATH_FAULTS
} tf_path_fault;

typedef struct tf_path_packet {
    uint64_t due;
    uint64_t order; /* of those due at the same time */
    size_t len;
    uint8_t *bytes; /* malloc */
} tf_path_packet;

/* One way. Embed it; zero bytes but for the seed are an empty one. */
typedef struct tf_path_way {
    tf_test_random random; /* to be seeded */
    uint64_t faults[TF_PATH_FAULTS];
    uint64_t free_at; /* when the last byte that waits for the rate has left */
    tf_bloat bloat;
    tf_burst burst;
    uint64_t orders;
    tf_path_packet *heap; /* by due and order */
    size_t count;
    size_t capacity;
    size_t bytes;
    uint64_t in, out, lost, repeated, holed, too_long, overflow;
    uint64_t unmapped;       /* dropped by the NAT: they were for a port that is nobody's */
    uint64_t udp, udp_bytes; /* of what came in, with IP headers */
    uint64_t tcp, tcp_bytes; /* tcp_bytes: payload only, repeats among it */
    uint64_t syns;           /* TCP connections that were begun, each try */
} tf_path_way;

void tf_path_way_free(tf_path_way *way);
/* A packet comes in at `now`: it is copied, or dropped and counted. Aborts without memory. */
void tf_path_way_admit(tf_path_way *way, uint64_t now, tf_slice packet);
/* When the next packet is due, TF_PATH_NEVER if none waits. */
uint64_t tf_path_way_due(const tf_path_way *way);
/* Takes the next one, whose bytes are the caller's to free; there is one. */
tf_path_packet tf_path_way_take(tf_path_way *way);

#define TF_PATH_NAT_END 0u

/* A whole path, its devices with it. */
typedef struct tf_path {
    tf_path_way ways[TF_PATH_WAYS];
    tf_path_nat nat;        /* at TF_PATH_NAT_END */
    int ends[TF_PATH_WAYS]; /* TUN devices, not blocking; way i comes out of end i and goes to the other */
} tf_path;

/* CLOCK_MONOTONIC. */
uint64_t tf_path_now(void);
/* Takes in what has come out of an end; not all, if it is so much that others would wait. */
void tf_path_read(tf_path *path, size_t end);
/* What is due goes out; a device that is down or full loses it. When the next is due, TF_PATH_NEVER if none waits. */
uint64_t tf_path_deliver(tf_path *path);

/* One command line, split up in place; false: it is none, and nothing was changed. "stats" answers one line to out. */
bool tf_path_command(tf_path *path, char *line, FILE *out);

#endif
