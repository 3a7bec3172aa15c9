/* The parts of tf-forwarder, a user-space forwarder of TCP and UDP between a client and a relay that can hurt both on
 * demand. Needs no privileges. Directions: up is from the client to the relay, down is back.
 *
 * Every queue is bounded; what does not fit is not read (TCP) or dropped and counted (UDP). Errors of single sockets
 * end that socket; faults at the start are told on stderr and end the program. One thread, one event loop. */
#ifndef TF_TESTS_HARNESS_FORWARDER_H
#define TF_TESTS_HARNESS_FORWARDER_H

#include <event2/event.h>
#include <stdio.h>
#include <sys/socket.h>

#include "tests/harness/bloat.h"
#include "tests/harness/burst.h"

#define TF_FWD_CONNECTIONS_MAX 1024u         /* TCP connections at a time */
#define TF_FWD_CLIENTS_MAX 256u              /* UDP client addresses at a time; the longest idle one makes room */
#define TF_FWD_CLIENT_IDLE (60 * TF_SECOND)  /* after which a UDP client address is forgotten */
#define TF_FWD_PACKETS_MAX 8192u             /* UDP packets that wait */
#define TF_FWD_PACKET_BYTES_MAX (16u << 20)  /* and their bytes */
#define TF_FWD_PIPE_BYTES (16u << 10)        /* bytes that wait in one direction of a TCP connection ... */
#define TF_FWD_PIPE_BYTES_DELAYED (1u << 20) /* ... and while there is a delay */
#define TF_FWD_SEGMENT 1400       /* TCP_MAXSEG: one of loopback is larger than the buffer, and would crawl */
#define TF_FWD_SOCKET_BUFFER 8192 /* SO_RCVBUF, so that a stall is felt by the sender soon */
#define TF_FWD_RECORD_BYTES_MAX (256u << 20) /* of --udp-record */
#define TF_FWD_REORDER_HOLD (5 * TF_MS)      /* up to this longer than the others waits a packet that is reordered */
#define TF_FWD_DELAY_MAX_MS 60000u
#define TF_FWD_QUEUE_BYTES (64u << 10) /* that wait for a rate, unless it is set */
#define TF_FWD_RESEND (200 * TF_MS)    /* the least time after which TCP sends again what nothing followed */

typedef enum tf_fwd_direction { TF_FWD_UP = 0, TF_FWD_DOWN = 1 } tf_fwd_direction;
#define TF_FWD_DIRECTIONS 2

/* A set of directions: bit 1 << direction. */
typedef unsigned tf_fwd_directions;
#define TF_FWD_BOTH 3u

typedef struct tf_fwd_address {
    struct sockaddr_storage storage;
    socklen_t len;
} tf_fwd_address;

typedef struct tf_fwd_tcp tf_fwd_tcp;
typedef struct tf_fwd_udp tf_fwd_udp;
typedef struct tf_fwd_control tf_fwd_control;

/* What all parts use; outlives them. */
typedef struct tf_fwd_common {
    struct event_base *base;
    tf_test_random random;
    tf_fwd_address listen; /* with the port that was chosen */
    tf_fwd_address to;
} tf_fwd_common;

/* Microseconds of CLOCK_MONOTONIC. */
tf_time tf_fwd_now(void);
/* Arms a timer for `at`; at <= now: as soon as possible; TF_NEVER: disarms it. */
void tf_fwd_arm(struct event *timer, tf_time at);

/* The port of an address. */
uint16_t tf_fwd_port(const tf_fwd_address *address);
/* Binds both sockets to common->listen, which gets the port: with port 0 one that is free for both. -1 on failure. */
int tf_fwd_bind(tf_fwd_common *common, int *tcp_fd, int *udp_fd);

/* Takes the bound socket and listens. NULL on failure. */
tf_fwd_tcp *tf_fwd_tcp_new(tf_fwd_common *common, int fd);
void tf_fwd_tcp_free(tf_fwd_tcp *tcp);
/* While stalled, nothing is read, written or accepted in that direction; the sockets stay open. */
void tf_fwd_tcp_stall(tf_fwd_tcp *tcp, tf_fwd_directions directions, bool stalled);
/* Resets all connections and refuses new ones (the kernel answers), until healed. */
void tf_fwd_tcp_cut(tf_fwd_tcp *tcp, bool cut);
/* Each connection is closed at a random byte, after 1/2 to 3/2 of `every`; 0: none is. */
void tf_fwd_tcp_close_every(tf_fwd_tcp *tcp, tf_time every);
void tf_fwd_tcp_stats(const tf_fwd_tcp *tcp, FILE *out);

typedef enum tf_fwd_fault {
    TF_FWD_DROP,    /* odds in millionths */
    TF_FWD_BURST,   /* packets in a row that are dropped on average; 0 and 1: each by itself */
    TF_FWD_REPEAT,  /* odds in millionths */
    TF_FWD_REORDER, /* odds in millionths */
    TF_FWD_DELAY,   /* tf_time */
    TF_FWD_JITTER,  /* tf_time; up to so much more */
    TF_FWD_RATE,    /* bits a second; 0: any */
    TF_FWD_QUEUE,   /* bytes that wait for the rate; 0: TF_FWD_QUEUE_BYTES */
    TF_FWD_BLOAT,   /* tf_time; others fill a queue of that length (bloat.h), in place of QUEUE */
    TF_FWD_MTU,     /* longest payload that passes; 0: any */
    TF_FWD_CUT,     /* 0 or 1 */
    TF_FWD_FAULTS
} tf_fwd_fault;

/* A stream has DROP, BURST, DELAY, JITTER, RATE, QUEUE and BLOAT, no other fault. Its bytes stay in order: what is late
 * holds back what is behind it, and a dropped segment comes after TF_FWD_RESEND and a round trip, as if it had been sent
 * again; so does what finds a queue full that others fill. */
void tf_fwd_tcp_fault(tf_fwd_tcp *tcp, tf_fwd_directions directions, tf_fwd_fault fault, uint64_t value);

/* Takes the bound socket, and the open file for --udp-record (may be NULL). NULL on failure. */
tf_fwd_udp *tf_fwd_udp_new(tf_fwd_common *common, int fd, FILE *record);
void tf_fwd_udp_free(tf_fwd_udp *udp);
void tf_fwd_udp_fault(tf_fwd_udp *udp, tf_fwd_directions directions, tf_fwd_fault fault, uint64_t value);
/* The relay sees every client at a new port from now on, as after a NAT has forgotten it. */
void tf_fwd_udp_rebind(tf_fwd_udp *udp);
void tf_fwd_udp_stats(const tf_fwd_udp *udp, FILE *out);

/* Commands, one a line; each is answered by one line: "ok", "error: ..." or what was asked for. */
typedef struct tf_fwd_target {
    tf_fwd_common *common;
    tf_fwd_tcp *tcp;
    tf_fwd_udp *udp;
} tf_fwd_target;

/* False when the command is none. Writes one line to answer, if that is not NULL. The line is split up in place. */
bool tf_fwd_command(const tf_fwd_target *target, char *line, FILE *answer);
/* Listens on the unix stream socket at path (NULL: none; an old socket there is replaced) and, if asked for, on stdin,
 * whose end then ends the program. NULL on failure. */
tf_fwd_control *tf_fwd_control_new(const tf_fwd_target *target, const char *path, bool from_stdin);
void tf_fwd_control_free(tf_fwd_control *control);

#endif
