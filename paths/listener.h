/* A listening TCP socket that hands over accepted, non-blocking sockets; and ports that are free for TCP and UDP alike.
 *
 * At most TF_ACCEPT_TURN sockets are accepted in one turn of the loop. When the process has no file descriptors left but
 * TF_DESCRIPTORS_KEPT (at most a quarter of what it may have), which others in it need more, one waiting client is turned
 * away and accepting pauses (100 ms, doubling up to 1 s); likewise, with a spare one, when it has none at all. Each listener
 * belongs to the thread that runs its event_base. */
#ifndef TF_PATHS_LISTENER_H
#define TF_PATHS_LISTENER_H

#include "paths/address.h"

struct event_base;

#define TF_ACCEPT_TURN 16u

typedef struct tf_listener tf_listener;

/* fd is the callee's. The listener may be freed in it. */
typedef void tf_listener_accepted(void *ctx, int fd, const tf_address *peer);

typedef struct tf_listener_config {
    struct event_base *base;
    const tf_mem *mem;
    tf_listener_accepted *accepted;
    void (*turned_away)(void *ctx); /* a client, for want of descriptors; NULL: nobody wants to know */
    void *ctx;
} tf_listener_config;

/* A socket that listens at the address (port 0: any free one). -1 and errno on failure. IPv6 sockets take IPv6 only. */
TF_MUST_CHECK int tf_listen_tcp(const tf_address *address);
/* A UDP socket bound to the address, prepared for tf_datagram_open. -1 and errno on failure. */
TF_MUST_CHECK int tf_listen_udp(const tf_address *address);
/* Both at once under one port number; where the address has port 0, one that is free for both. The fds are the
 * caller's. 0, or an errno. *bound (may be NULL) is the address with its port. */
TF_MUST_CHECK int tf_listen_pair(const tf_address *address, int *tcp, int *udp, tf_address *bound);

/* Starts accepting on a listening socket, which is the listener's from here on, on errors too. TF_ERR_NOMEM, TF_ERR_IO. */
TF_MUST_CHECK tf_err tf_listener_new(tf_listener **out, int fd, const tf_listener_config *config);
/* Closes the socket. NULL is fine. */
void tf_listener_free(tf_listener *listener);
/* Stops and starts accepting (too many handshakes, draining); waiting clients stay in the backlog. */
void tf_listener_pause(tf_listener *listener, bool pause);
const tf_address *tf_listener_local(const tf_listener *listener);

typedef struct tf_listener_stats {
    uint64_t accepted;
    uint64_t turned_away; /* for want of file descriptors */
    uint64_t errors;      /* of accept, others than a client that went away */
} tf_listener_stats;

void tf_listener_get_stats(const tf_listener *listener, tf_listener_stats *out);

#endif
