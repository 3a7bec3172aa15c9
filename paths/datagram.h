/* A datagram route's socket: UDP packets in and out, in batches. Shared by all peers of a node.
 *
 * It neither seals nor opens packets, knows no peers and judges nothing: errors of sending are counted and told, never
 * fatal (the route's verdict comes from what is received). Packets to one peer of one size leave as one system call and
 * one kernel traversal where the system can (UDP_SEGMENT, UDP_GRO); else 32 at a time (sendmmsg, recvmmsg).
 *
 * Limits: TF_DATAGRAM_TURN packets are taken in one turn of the loop; TF_DATAGRAM_BATCH packets wait to be sent. A full
 * batch that the socket does not take refuses the newest (TF_ERR_AGAIN). Packets are never fragmented: do-not-fragment
 * is set, one that is too large for the path is counted. Each socket belongs to the thread that runs its event_base. */
#ifndef TF_PATHS_DATAGRAM_H
#define TF_PATHS_DATAGRAM_H

#include "paths/address.h"
#include "proto/limits.h"

struct event_base;

#define TF_DATAGRAM_MAX TF_PACKET_MAX
#define TF_DATAGRAM_BATCH 64u
#define TF_DATAGRAM_TURN 256u
#define TF_DATAGRAM_SOFT_ERRORS 8u
#define TF_DATAGRAM_SOCKET_BUFFER (4 * 1024 * 1024)

typedef struct tf_datagram tf_datagram;

/* The two ends of a packet. Received: where it came from and where it was sent to, so that the answer leaves from there.
 * To send: local may be left empty (the system chooses); its port is not looked at. */
typedef struct tf_datagram_path {
    tf_address peer;
    tf_address local;
    unsigned interface; /* by whose index it came in, 0: unknown; to send it matters only for a link-local `local` */
} tf_datagram_path;

/* The socket may be freed in any of them. None is called from inside tf_datagram_send or tf_datagram_flush. */
typedef struct tf_datagram_ops {
    /* One packet, valid in the callback. */
    void (*packet)(void *ctx, const tf_datagram_path *from, tf_slice packet);
    /* After all packets of this turn: the time to answer and to flush. */
    void (*batch)(void *ctx);
    /* After tf_datagram_send or _flush said TF_ERR_AGAIN: it goes on. */
    void (*writable)(void *ctx);
    /* Sending a packet of len bytes to peer failed with this errno (EHOSTUNREACH, ENETUNREACH, EMSGSIZE, EPERM ...). Of
     * several failures in one turn of the loop each peer's last is told (of EMSGSIZE the shortest packet), of at most
     * TF_DATAGRAM_SOFT_ERRORS peers. May be NULL. */
    void (*soft_error)(void *ctx, const tf_address *peer, int system_error, size_t len);
} tf_datagram_ops;

typedef struct tf_datagram_config {
    struct event_base *base;
    const tf_mem *mem;
    const tf_datagram_ops *ops; /* outlives the socket */
    void *ctx;
} tf_datagram_config;

/* A socket for a client: an unused port, `family` AF_INET or AF_INET6, bound as `bind` says (NULL: not). -1 and errno on
 * failure. */
TF_MUST_CHECK int tf_datagram_socket(int family, const tf_bind *bind);

/* Starts receiving on a UDP socket (tf_listen_udp, tf_listen_pair, tf_datagram_socket), which belongs to it from here on,
 * on errors too. TF_ERR_NOMEM, TF_ERR_IO. */
TF_MUST_CHECK tf_err tf_datagram_open(tf_datagram **out, int fd, const tf_datagram_config *config);
/* Sends what waits, as far as the socket takes it, and closes. NULL is fine. */
void tf_datagram_free(tf_datagram *datagram);

/* Puts a packet (at most TF_DATAGRAM_MAX bytes, copied) into the batch; a full batch is flushed first. TF_ERR_AGAIN: no
 * room, the packet was not taken, wait for `writable`. TF_ERR_LIMIT_BYTES: too long. TF_ERR_USAGE: a peer of another
 * family than the socket. */
TF_MUST_CHECK tf_err tf_datagram_send(tf_datagram *datagram, const tf_datagram_path *to, tf_slice packet);
/* Sends the batch. TF_ERR_AGAIN: the socket did not take all; `writable` comes, the rest is kept. */
tf_err tf_datagram_flush(tf_datagram *datagram);

/* The bound address with its port (0.0.0.0 or :: when it is bound to none). */
const tf_address *tf_datagram_local(const tf_datagram *datagram);

typedef struct tf_datagram_stats {
    uint64_t received;
    uint64_t received_bytes;
    uint64_t truncated; /* longer than TF_DATAGRAM_MAX: dropped */
    uint64_t receive_errors;
    uint64_t sent;
    uint64_t sent_bytes;
    uint64_t send_errors;  /* packets lost to a soft error, too large ones not among them */
    uint64_t too_large;    /* EMSGSIZE */
    uint64_t refused;      /* TF_ERR_AGAIN */
    uint64_t system_calls; /* of sending */
} tf_datagram_stats;

void tf_datagram_get_stats(const tf_datagram *datagram, tf_datagram_stats *out);

#endif
