/* Tells when the network of this machine has changed: an interface, an address or a route came or went (Linux rtnetlink,
 * RTMGRP_LINK, _IPV4_IFADDR, _IPV6_IFADDR, _IPV4_ROUTE, _IPV6_ROUTE). What exactly changed is not told: whoever cares
 * looks.
 *
 * One call a turn of the loop whatever came, and after each a rest of TF_NETWATCH_REST in which the kernel gathers; what
 * it could not keep (ENOBUFS) is a change, too. On a machine where something changes all the time the rests grow: after
 * TF_NETWATCH_PATIENCE changes in a row each is twice as long as the one before, up to TF_NETWATCH_REST_MAX. At most TF_NETWATCH_TURN messages are read in a turn. Costs nothing while
 * nothing changes; needs no privilege. Belongs to the thread that runs its event_base. */
#ifndef TF_PATHS_NETWATCH_H
#define TF_PATHS_NETWATCH_H

#include "proto/types.h"

struct event_base;

#define TF_NETWATCH_TURN 64u
#define TF_NETWATCH_MESSAGE 8192u /* what is longer counts as a change, unread */
#define TF_NETWATCH_REST (250 * TF_MS)
#define TF_NETWATCH_REST_MAX (8 * TF_SECOND)
#define TF_NETWATCH_PATIENCE 8u

typedef struct tf_netwatch tf_netwatch;

typedef struct tf_netwatch_config {
    struct event_base *base;
    const tf_mem *mem;
    void (*changed)(void *ctx); /* may free the watch */
    void *ctx;
} tf_netwatch_config;

/* A netlink socket that is told of changes. -1 and errno: there is no such thing here, or no descriptor left. */
TF_MUST_CHECK int tf_netwatch_socket(void);

/* Watches a socket (tf_netwatch_socket), which belongs to it from here on, on errors too. TF_ERR_NOMEM, TF_ERR_IO. */
TF_MUST_CHECK tf_err tf_netwatch_new(tf_netwatch **out, int fd, const tf_netwatch_config *config);
/* NULL is fine. */
void tf_netwatch_free(tf_netwatch *watch);

#endif
