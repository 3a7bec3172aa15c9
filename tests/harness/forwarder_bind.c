/* What every part of the forwarder uses: its clock, its timers, a port that is free for TCP and UDP. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "tests/harness/forwarder.h"

#define BIND_TRIES 64

tf_time tf_fwd_now(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        abort();
    }
    return (tf_time)now.tv_sec * TF_SECOND + (tf_time)now.tv_nsec / 1000;
}

void tf_fwd_arm(struct event *timer, tf_time at)
{
    if (at == TF_NEVER) {
        (void)event_del(timer);
        return;
    }
    tf_time now = tf_fwd_now();
    tf_time wait = at > now ? at - now : 0;
    struct timeval after = {.tv_sec = (time_t)(wait / TF_SECOND), .tv_usec = (suseconds_t)(wait % TF_SECOND)};
    (void)event_add(timer, &after);
}

static in_port_t *port_of(tf_fwd_address *address)
{
    if (address->storage.ss_family == AF_INET6) {
        return &((struct sockaddr_in6 *)(void *)&address->storage)->sin6_port;
    }
    return &((struct sockaddr_in *)(void *)&address->storage)->sin_port;
}

static int open_bound(const tf_fwd_address *address, int type)
{
    int fd = socket(address->storage.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    int size = TF_FWD_SOCKET_BUFFER;
    if (fd < 0) {
        return -1;
    }
    if (type == SOCK_STREAM) {
        /* Before listen, so that what is accepted inherits them. */
        int segment = TF_FWD_SEGMENT;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (bind(fd, (const struct sockaddr *)&address->storage, address->len) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* One try. With port 0 another process may have the TCP port that belongs to the UDP port the kernel chose. */
static bool bind_both(tf_fwd_address *address, int *tcp_fd, int *udp_fd)
{
    *udp_fd = open_bound(address, SOCK_DGRAM);
    if (*udp_fd < 0) {
        return false;
    }
    address->len = sizeof(address->storage);
    if (getsockname(*udp_fd, (struct sockaddr *)&address->storage, &address->len) == 0) {
        *tcp_fd = open_bound(address, SOCK_STREAM);
        if (*tcp_fd >= 0) {
            return true;
        }
    }
    int error = errno;
    (void)close(*udp_fd);
    errno = error;
    return false;
}

uint16_t tf_fwd_port(const tf_fwd_address *address)
{
    tf_fwd_address copy = *address;
    return ntohs(*port_of(&copy));
}

int tf_fwd_bind(tf_fwd_common *common, int *tcp_fd, int *udp_fd)
{
    int tries = *port_of(&common->listen) == 0 ? BIND_TRIES : 1;
    for (int i = 0; i < tries; i++) {
        tf_fwd_address address = common->listen;
        if (bind_both(&address, tcp_fd, udp_fd)) {
            common->listen = address;
            return 0;
        }
    }
    return -1;
}
