#include "paths/netwatch.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <limits.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

struct tf_netwatch {
    tf_netwatch_config config;
    int fd;
    struct event readable;
    struct event rest;
    bool resting;     /* else, while `rest` runs, it is seen whether all stays quiet */
    unsigned changes; /* in a row */
    uint8_t message[TF_NETWATCH_MESSAGE];
};

/* -- messages ------------------------------------------------------------------------------------------------------ */

/* Routes to single hosts that the kernel keeps for itself (an MTU that was found, a redirect) are no change. */
static bool is_cached_route(tf_slice body)
{
    struct rtmsg route;
    if (body.len < sizeof(route)) {
        return true;
    }
    memcpy(&route, body.data, sizeof(route));
    return (route.rtm_flags & RTM_F_CLONED) != 0;
}

static bool is_change(const struct nlmsghdr *header, tf_slice body)
{
    switch (header->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
    case RTM_NEWADDR:
    case RTM_DELADDR:
        return true;
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
        return !is_cached_route(body);
    default: /* not asked for */
        return false;
    }
}

static bool holds_change(tf_slice bytes)
{
    struct nlmsghdr header;
    while (bytes.len >= sizeof(header)) {
        memcpy(&header, bytes.data, sizeof(header));
        if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > bytes.len) {
            return false;
        }
        if (is_change(&header, tf_slice_of(bytes.data + sizeof(header), header.nlmsg_len - sizeof(header)))) {
            return true;
        }
        size_t taken = NLMSG_ALIGN((size_t)header.nlmsg_len);
        taken = taken < bytes.len ? taken : bytes.len;
        bytes = tf_slice_of(bytes.data + taken, bytes.len - taken);
    }
    return false;
}

typedef enum outcome { OUTCOME_NOTHING, OUTCOME_CHANGE, OUTCOME_EMPTY, OUTCOME_BROKEN } outcome;

static outcome read_one(tf_netwatch *watch)
{
    struct sockaddr_nl from;
    struct iovec part = {.iov_base = watch->message, .iov_len = sizeof(watch->message)};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1};
    memset(&from, 0, sizeof(from));
    ssize_t got = recvmsg(watch->fd, &message, MSG_DONTWAIT);
    if (got < 0) {
        bool later = errno == EAGAIN || errno == EINTR;
        bool lost = errno == ENOBUFS || errno == ENOMEM;
        return later ? OUTCOME_EMPTY : lost ? OUTCOME_CHANGE : OUTCOME_BROKEN;
    }
    if (message.msg_namelen == sizeof(from) && from.nl_pid != 0) {
        return OUTCOME_NOTHING; /* not from the kernel */
    }
    bool change = (message.msg_flags & MSG_TRUNC) != 0 || holds_change(tf_slice_of(watch->message, (size_t)got));
    return change ? OUTCOME_CHANGE : OUTCOME_NOTHING;
}

/* -- events -------------------------------------------------------------------------------------------------------- */

static void run_rest(tf_netwatch *watch)
{
    tf_time rest = TF_NETWATCH_REST;
    for (unsigned i = TF_NETWATCH_PATIENCE; i < watch->changes && rest < TF_NETWATCH_REST_MAX; i++) {
        rest *= 2;
    }
    const struct timeval span = {(time_t)(rest / TF_SECOND), (suseconds_t)(rest % TF_SECOND)};
    (void)event_add(&watch->rest, &span);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    tf_netwatch *watch = arg;
    bool changed = false;
    outcome result = OUTCOME_NOTHING;
    for (unsigned i = 0; i < TF_NETWATCH_TURN && result < OUTCOME_EMPTY; i++) {
        result = read_one(watch);
        changed = changed || result == OUTCOME_CHANGE;
    }
    if (result == OUTCOME_BROKEN || changed) {
        (void)event_del(&watch->readable);
    }
    if (result != OUTCOME_BROKEN && changed) {
        watch->changes += watch->changes < UINT_MAX;
        watch->resting = true;
        run_rest(watch);
    }
    if (changed) {
        watch->config.changed(watch->config.ctx);
    }
}

static void on_rested(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    tf_netwatch *watch = arg;
    if (!watch->resting) {
        watch->changes = 0;
        return;
    }
    watch->resting = false;
    (void)event_add(&watch->readable, NULL);
    run_rest(watch);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

int tf_netwatch_socket(void)
{
    const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
                                       .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR |
                                                    RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&groups, sizeof(groups)) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

tf_err tf_netwatch_new(tf_netwatch **out, int fd, const tf_netwatch_config *config)
{
    tf_netwatch *watch = tf_alloc(config->mem, sizeof(*watch));
    if (watch == NULL) {
        (void)close(fd);
        return TF_ERR_NOMEM;
    }
    watch->config = *config;
    watch->fd = fd;
    TF_ASSERT(event_assign(&watch->readable, config->base, fd, EV_READ | EV_PERSIST, on_readable, watch) == 0);
    TF_ASSERT(evtimer_assign(&watch->rest, config->base, on_rested, watch) == 0);
    if (event_add(&watch->readable, NULL) != 0) {
        tf_netwatch_free(watch);
        return TF_ERR_IO;
    }
    *out = watch;
    return TF_OK;
}

void tf_netwatch_free(tf_netwatch *watch)
{
    if (watch == NULL) {
        return;
    }
    (void)event_del(&watch->readable);
    (void)event_del(&watch->rest);
    (void)close(watch->fd);
    tf_free(watch->config.mem, watch, sizeof(*watch));
}
