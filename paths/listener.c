#include "paths/listener.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/limits.h"

#define PAUSE_MIN (100 * TF_MS)
#define PAUSE_MAX (1 * TF_SECOND)
#define PORT_TRIES 64

struct tf_listener {
    const tf_mem *mem;
    tf_listener_accepted *accepted;
    void (*turned_away)(void *ctx);
    void *ctx;
    int fd;
    int spare; /* given up for a moment to turn a client away; -1: there is none */
    struct event readable;
    struct event resume;
    tf_time wait; /* of the next pause for want of descriptors */
    bool paused;  /* by the owner */
    bool busy;    /* in the callback */
    bool freed;
    tf_address local;
    tf_listener_stats stats;
};

/* -- sockets ------------------------------------------------------------------------------------------------------- */

/* Closes fd and keeps errno. */
static int give_up(int fd)
{
    int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

static int bound_socket(const tf_address *address, int type)
{
    int on = 1;
    int fd = socket(address->u.any.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* Not for UDP: there it would let a second process share the port. */
    if (type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0) {
        return give_up(fd);
    }
    if (address->u.any.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) {
        return give_up(fd);
    }
    return bind(fd, &address->u.any, address->len) == 0 ? fd : give_up(fd);
}

int tf_listen_tcp(const tf_address *address)
{
    int fd = bound_socket(address, SOCK_STREAM);
    if (fd < 0) {
        return -1;
    }
    return listen(fd, TF_BACKLOG) == 0 ? fd : give_up(fd);
}

int tf_listen_udp(const tf_address *address)
{
    return bound_socket(address, SOCK_DGRAM);
}

static int local_address(int fd, tf_address *out)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof(storage);
    if (getsockname(fd, (struct sockaddr *)&storage, &len) != 0) {
        return errno;
    }
    return tf_address_from_sockaddr(out, (struct sockaddr *)&storage, len) == TF_OK ? 0 : EAFNOSUPPORT;
}

static int pair_once(const tf_address *address, int *tcp, int *udp, tf_address *bound)
{
    int error = 0;
    int stream = tf_listen_tcp(address);
    if (stream < 0) {
        return errno;
    }
    error = local_address(stream, bound);
    int datagram = error == 0 ? tf_listen_udp(bound) : -1;
    if (datagram < 0) {
        error = error != 0 ? error : errno;
        (void)close(stream);
        return error;
    }
    *tcp = stream;
    *udp = datagram;
    return 0;
}

int tf_listen_pair(const tf_address *address, int *tcp, int *udp, tf_address *bound)
{
    tf_address unused = {.len = 0};
    int error = EADDRINUSE;
    int tries = tf_address_port(address) == 0 ? PORT_TRIES : 1;
    for (int i = 0; i < tries && error == EADDRINUSE; i++) {
        error = pair_once(address, tcp, udp, bound != NULL ? bound : &unused);
    }
    return error;
}

/* -- accepting ----------------------------------------------------------------------------------------------------- */

static int spare_open(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accepting_start(tf_listener *listener)
{
    if (!listener->paused && !evtimer_pending(&listener->resume, NULL)) {
        (void)event_add(&listener->readable, NULL);
    }
}

static void pause_for_a_while(tf_listener *listener)
{
    tf_time wait = listener->wait;
    struct timeval span = {.tv_sec = (time_t)(wait / TF_SECOND), .tv_usec = (suseconds_t)(wait % TF_SECOND)};
    listener->wait = tf_time_min(2 * wait, PAUSE_MAX);
    (void)event_del(&listener->readable);
    (void)evtimer_add(&listener->resume, &span);
}

/* One client is told by a close that there is no descriptor for it, rather than left in the backlog, and the rest wait. */
static void turn_away(tf_listener *listener, int fd)
{
    if (fd >= 0) {
        (void)close(fd);
        listener->stats.turned_away++;
        if (listener->turned_away != NULL) {
            listener->turned_away(listener->ctx);
        }
    }
    pause_for_a_while(listener);
}

static void use_spare(tf_listener *listener)
{
    int fd = -1;
    if (listener->spare >= 0) {
        (void)close(listener->spare);
        fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    }
    turn_away(listener, fd);
    listener->spare = spare_open();
}

/* The lowest free number is given out first: from here on there are fewer left than are kept. */
static bool is_kept(int fd)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return false;
    }
    rlim_t kept = limit.rlim_cur / 4 < TF_DESCRIPTORS_KEPT ? limit.rlim_cur / 4 : TF_DESCRIPTORS_KEPT;
    return (rlim_t)fd >= limit.rlim_cur - kept;
}

/* False: nothing more to accept in this turn. */
static bool accept_failed(tf_listener *listener, int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO: /* that client went away */
        return true;
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        use_spare(listener);
        return false;
    default: /* Linux passes on network errors of the new socket (accept(2)) */
        listener->stats.errors++;
        return true;
    }
}

static bool accept_one(tf_listener *listener)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof(storage);
    tf_address peer;
    int fd = accept4(listener->fd, (struct sockaddr *)&storage, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return accept_failed(listener, errno);
    }
    if (tf_address_from_sockaddr(&peer, (struct sockaddr *)&storage, len) != TF_OK) {
        (void)close(fd);
        return true;
    }
    if (is_kept(fd)) {
        turn_away(listener, fd);
        return false;
    }
    listener->wait = PAUSE_MIN;
    listener->stats.accepted++;
    if (listener->spare < 0) {
        listener->spare = spare_open();
    }
    listener->accepted(listener->ctx, fd, &peer);
    return !listener->freed && !listener->paused;
}

static void release(tf_listener *listener)
{
    tf_free(listener->mem, listener, sizeof(*listener));
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    tf_listener *listener = arg;
    listener->busy = true;
    for (unsigned i = 0; i < TF_ACCEPT_TURN && accept_one(listener); i++) {
    }
    listener->busy = false;
    if (listener->freed) {
        release(listener);
    }
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    accepting_start(arg);
}

tf_err tf_listener_new(tf_listener **out, int fd, const tf_listener_config *config)
{
    tf_listener *listener = tf_alloc(config->mem, sizeof(*listener));
    if (listener == NULL) {
        (void)close(fd);
        return TF_ERR_NOMEM;
    }
    *listener = (tf_listener){.mem = config->mem,
                              .accepted = config->accepted,
                              .turned_away = config->turned_away,
                              .ctx = config->ctx,
                              .fd = fd,
                              .spare = spare_open(),
                              .wait = PAUSE_MIN};
    TF_ASSERT(event_assign(&listener->readable, config->base, fd, EV_READ | EV_PERSIST, on_readable, listener) == 0);
    TF_ASSERT(evtimer_assign(&listener->resume, config->base, on_resume, listener) == 0);
    if (evutil_make_socket_nonblocking(fd) != 0 || local_address(fd, &listener->local) != 0 ||
        event_add(&listener->readable, NULL) != 0) {
        tf_listener_free(listener);
        return TF_ERR_IO;
    }
    *out = listener;
    return TF_OK;
}

void tf_listener_free(tf_listener *listener)
{
    if (listener == NULL) {
        return;
    }
    (void)event_del(&listener->readable);
    (void)event_del(&listener->resume);
    (void)close(listener->fd);
    if (listener->spare >= 0) {
        (void)close(listener->spare);
    }
    listener->freed = true;
    if (!listener->busy) {
        release(listener);
    }
}

void tf_listener_pause(tf_listener *listener, bool pause)
{
    listener->paused = pause;
    if (pause) {
        (void)event_del(&listener->readable);
    } else {
        accepting_start(listener);
    }
}

const tf_address *tf_listener_local(const tf_listener *listener)
{
    return &listener->local;
}

void tf_listener_get_stats(const tf_listener *listener, tf_listener_stats *out)
{
    *out = listener->stats;
}
