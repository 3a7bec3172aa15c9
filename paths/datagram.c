#include "paths/datagram.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/udp.h>
#include <unistd.h>

#define RECEIVE_MESSAGES 8u       /* in one system call; each may hold many packets (UDP_GRO) */
#define RECEIVE_SIZE 65536u       /* of one of them */
#define SEGMENTS_MAX 64u          /* packets in one message to send (UDP_SEGMENT) */
#define SEGMENTED_BYTES_MAX 65000 /* of such a message: with headers below 2^16 */

typedef struct control {
    _Alignas(struct cmsghdr) uint8_t bytes[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(int))];
} control;

typedef struct outgoing {
    tf_datagram_path to;
    size_t len;
    uint8_t data[TF_DATAGRAM_MAX];
} outgoing;

typedef struct incoming {
    struct sockaddr_storage from[RECEIVE_MESSAGES];
    control controls[RECEIVE_MESSAGES];
    uint8_t data[RECEIVE_MESSAGES][RECEIVE_SIZE];
} incoming;

typedef struct soft_error {
    tf_address peer;
    int system_error;
    size_t len;
} soft_error;

struct tf_datagram {
    const tf_mem *mem;
    const tf_datagram_ops *ops;
    void *ctx;
    int fd;
    tf_address local;
    struct event readable;
    struct event writable;
    struct event tell; /* soft errors, a turn later */
    bool busy;
    bool freed;
    bool refused;   /* a packet was refused since `writable` was called */
    bool segments;  /* UDP_SEGMENT works */
    size_t singles; /* so many packets from first on go one by one */
    size_t first;   /* packets first to count - 1 of out wait */
    size_t count;
    size_t soft_count;
    soft_error soft[TF_DATAGRAM_SOFT_ERRORS];
    tf_datagram_stats stats;
    incoming in;
    outgoing out[TF_DATAGRAM_BATCH];
};

/* -- sending ------------------------------------------------------------------------------------------------------- */

/* One call of sendmmsg. */
typedef struct send_burst {
    struct mmsghdr messages[TF_DATAGRAM_BATCH];
    struct iovec pieces[TF_DATAGRAM_BATCH];
    control controls[TF_DATAGRAM_BATCH];
    size_t packets[TF_DATAGRAM_BATCH]; /* in each message */
    unsigned count;
} send_burst;

static void put_control(struct msghdr *message, int level, int type, const void *value, size_t len)
{
    uint8_t *at = (uint8_t *)message->msg_control + message->msg_controllen;
    struct cmsghdr header;
    memset(&header, 0, sizeof(header));
    header.cmsg_level = level;
    header.cmsg_type = type;
    header.cmsg_len = CMSG_LEN(len);
    memcpy(at, &header, sizeof(header));
    memcpy(at + CMSG_LEN(0), value, len);
    message->msg_controllen += CMSG_SPACE(len);
}

static void put_source(struct msghdr *message, const tf_datagram_path *to)
{
    if (!tf_address_is_set(&to->local) || to->local.u.any.sa_family != to->peer.u.any.sa_family) {
        return;
    }
    if (to->local.u.any.sa_family == AF_INET) {
        struct in_pktinfo info = {.ipi_spec_dst = to->local.u.v4.sin_addr};
        put_control(message, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
        return;
    }
    bool link_local = IN6_IS_ADDR_LINKLOCAL(&to->local.u.v6.sin6_addr);
    struct in6_pktinfo info = {.ipi6_addr = to->local.u.v6.sin6_addr, .ipi6_ifindex = link_local ? to->interface : 0};
    put_control(message, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
}

static bool same_path(const tf_datagram_path *a, const tf_datagram_path *b)
{
    return tf_address_eq(&a->peer, &b->peer) && tf_address_same_host(&a->local, &b->local);
}

/* How many packets from `at` on can leave as one message: same way, same size (the last one may be shorter). */
static size_t run_length(const tf_datagram *datagram, size_t at)
{
    const outgoing *head = &datagram->out[at];
    size_t bytes = head->len;
    size_t n = 1;
    if (!datagram->segments || datagram->singles > at - datagram->first) {
        return 1;
    }
    while (at + n < datagram->count && n < SEGMENTS_MAX) {
        const outgoing *next = &datagram->out[at + n];
        bytes += next->len;
        if (next->len > head->len || bytes > SEGMENTED_BYTES_MAX || !same_path(&next->to, &head->to)) {
            break;
        }
        n++;
        if (next->len < head->len) {
            break;
        }
    }
    return n;
}

static void burst_build(tf_datagram *datagram, send_burst *burst)
{
    burst->count = 0;
    for (size_t at = datagram->first; at < datagram->count;) {
        unsigned m = burst->count++;
        size_t n = run_length(datagram, at);
        size_t base = at - datagram->first;
        outgoing *head = &datagram->out[at];
        for (size_t i = 0; i < n; i++) {
            outgoing *packet = &datagram->out[at + i];
            burst->pieces[base + i] = (struct iovec){.iov_base = packet->data, .iov_len = packet->len};
        }
        memset(&burst->controls[m], 0, sizeof(burst->controls[m]));
        struct msghdr message = {.msg_name = &head->to.peer.u,
                                 .msg_namelen = head->to.peer.len,
                                 .msg_iov = &burst->pieces[base],
                                 .msg_iovlen = n,
                                 .msg_control = &burst->controls[m]};
        put_source(&message, &head->to);
        if (n > 1) {
            uint16_t size = (uint16_t)head->len;
            put_control(&message, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
        }
        if (message.msg_controllen == 0) {
            message.msg_control = NULL;
        }
        burst->messages[m] = (struct mmsghdr){.msg_hdr = message};
        burst->packets[m] = n;
        at += n;
    }
}

static void packets_done(tf_datagram *datagram, size_t n)
{
    datagram->first += n;
    datagram->singles -= n < datagram->singles ? n : datagram->singles;
}

static void packets_sent(tf_datagram *datagram, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        datagram->stats.sent_bytes += datagram->out[datagram->first + i].len;
    }
    datagram->stats.sent += n;
    packets_done(datagram, n);
}

static void note_soft_error(tf_datagram *datagram, const outgoing *packet, int system_error)
{
    const tf_address *peer = &packet->to.peer;
    size_t at = 0;
    while (at < datagram->soft_count && !tf_address_eq(&datagram->soft[at].peer, peer)) {
        at++;
    }
    if (datagram->ops->soft_error == NULL || at == TF_DATAGRAM_SOFT_ERRORS) {
        return;
    }
    soft_error *soft = &datagram->soft[at];
    bool known = at < datagram->soft_count && soft->system_error == EMSGSIZE && system_error == EMSGSIZE;
    *soft = (soft_error){*peer, system_error, known && soft->len < packet->len ? soft->len : packet->len};
    if (at == datagram->soft_count) {
        datagram->soft_count++;
        const struct timeval at_once = {0, 0};
        (void)evtimer_add(&datagram->tell, &at_once);
    }
}

/* The first n packets, one message, were not taken. False: later. */
static bool send_failed(tf_datagram *datagram, int error, size_t n)
{
    if (error == EAGAIN || error == EINTR) {
        return false;
    }
    if (n > 1) { /* perhaps it is only the segmentation; EIO and EOPNOTSUPP: the device cannot */
        datagram->segments = error != EIO && error != EOPNOTSUPP;
        datagram->singles = n;
        return true;
    }
    if (error == EMSGSIZE) {
        datagram->stats.too_large++;
    } else {
        datagram->stats.send_errors++;
    }
    note_soft_error(datagram, &datagram->out[datagram->first], error);
    packets_done(datagram, 1);
    return true;
}

tf_err tf_datagram_flush(tf_datagram *datagram)
{
    send_burst burst;
    bool later = false;
    while (datagram->first < datagram->count && !later) {
        burst_build(datagram, &burst);
        int sent = sendmmsg(datagram->fd, burst.messages, burst.count, MSG_NOSIGNAL);
        datagram->stats.system_calls++;
        for (int i = 0; i < sent; i++) {
            packets_sent(datagram, burst.packets[i]);
        }
        later = sent <= 0 && !send_failed(datagram, errno, burst.packets[0]);
    }
    if (later) {
        (void)event_add(&datagram->writable, NULL);
        return TF_ERR_AGAIN;
    }
    datagram->first = datagram->count = datagram->singles = 0;
    return TF_OK;
}

/* Room for one more packet at the end of out. */
static bool make_room(tf_datagram *datagram)
{
    if (datagram->count < TF_DATAGRAM_BATCH) {
        return true;
    }
    if (!event_pending(&datagram->writable, EV_WRITE, NULL)) {
        (void)tf_datagram_flush(datagram);
    }
    if (datagram->first > 0) {
        datagram->count -= datagram->first;
        memmove(datagram->out, datagram->out + datagram->first, datagram->count * sizeof(datagram->out[0]));
        datagram->first = 0;
    }
    return datagram->count < TF_DATAGRAM_BATCH;
}

tf_err tf_datagram_send(tf_datagram *datagram, const tf_datagram_path *to, tf_slice packet)
{
    if (packet.len > TF_DATAGRAM_MAX) {
        return TF_ERR_LIMIT_BYTES;
    }
    if (!tf_address_is_set(&to->peer) || to->peer.u.any.sa_family != datagram->local.u.any.sa_family) {
        return TF_ERR_USAGE;
    }
    if (!make_room(datagram)) {
        datagram->refused = true;
        datagram->stats.refused++;
        return TF_ERR_AGAIN;
    }
    outgoing *out = &datagram->out[datagram->count++];
    out->to = *to;
    out->len = packet.len;
    memcpy(out->data, packet.data, packet.len);
    return TF_OK;
}

/* -- receiving ----------------------------------------------------------------------------------------------------- */

typedef struct packet_arrival {
    tf_datagram_path from;
    size_t segment; /* size of each packet but the last; 0: one packet */
} packet_arrival;

static void set_local_v4(packet_arrival *arrival, const struct cmsghdr *header)
{
    struct in_pktinfo info;
    memcpy(&info, CMSG_DATA(header), sizeof(info));
    arrival->from.interface = (unsigned)info.ipi_ifindex;
    arrival->from.local.u.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = info.ipi_spec_dst};
    arrival->from.local.len = sizeof(struct sockaddr_in);
}

static void set_local_v6(packet_arrival *arrival, const struct cmsghdr *header)
{
    struct in6_pktinfo info;
    memcpy(&info, CMSG_DATA(header), sizeof(info));
    arrival->from.interface = info.ipi6_ifindex;
    if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) {
        return; /* no address to answer from */
    }
    uint32_t scope = IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr) ? info.ipi6_ifindex : 0;
    arrival->from.local.u.v6 =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = info.ipi6_addr, .sin6_scope_id = scope};
    arrival->from.local.len = sizeof(struct sockaddr_in6);
}

static void read_controls(packet_arrival *arrival, struct msghdr *message)
{
    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at != NULL; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
            set_local_v4(arrival, at);
        } else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
            set_local_v6(arrival, at);
        } else if (at->cmsg_level == IPPROTO_UDP && at->cmsg_type == UDP_GRO) {
            int size = 0;
            memcpy(&size, CMSG_DATA(at), sizeof(size));
            arrival->segment = size > 0 ? (size_t)size : 0;
        }
    }
}

/* Hands out the packets of one message; gives how many there were. */
static size_t deliver(tf_datagram *datagram, struct mmsghdr *message, const uint8_t *data)
{
    packet_arrival arrival;
    memset(&arrival, 0, sizeof(arrival));
    size_t left = message->msg_len;
    size_t n = 0;
    if (tf_address_from_sockaddr(&arrival.from.peer, message->msg_hdr.msg_name, message->msg_hdr.msg_namelen) !=
        TF_OK) {
        datagram->stats.receive_errors++;
        return 1;
    }
    read_controls(&arrival, &message->msg_hdr);
    do {
        size_t len = arrival.segment > 0 && arrival.segment < left ? arrival.segment : left;
        n++;
        datagram->stats.received++;
        datagram->stats.received_bytes += len;
        if (len > TF_DATAGRAM_MAX || (message->msg_hdr.msg_flags & MSG_TRUNC) != 0) {
            datagram->stats.truncated++;
        } else {
            datagram->ops->packet(datagram->ctx, &arrival.from, tf_slice_of(data, len));
        }
        data += len;
        left -= len;
    } while (left > 0 && !datagram->freed);
    return n;
}

/* One system call. Gives the number of packets; *more says whether the socket may hold others. */
static size_t receive_some(tf_datagram *datagram, bool *more)
{
    struct mmsghdr messages[RECEIVE_MESSAGES];
    struct iovec pieces[RECEIVE_MESSAGES];
    size_t n = 0;
    for (size_t i = 0; i < RECEIVE_MESSAGES; i++) {
        pieces[i] = (struct iovec){.iov_base = datagram->in.data[i], .iov_len = RECEIVE_SIZE};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &datagram->in.from[i],
                                                   .msg_namelen = sizeof(datagram->in.from[i]),
                                                   .msg_iov = &pieces[i],
                                                   .msg_iovlen = 1,
                                                   .msg_control = &datagram->in.controls[i],
                                                   .msg_controllen = sizeof(datagram->in.controls[i])}};
    }
    int got = recvmmsg(datagram->fd, messages, RECEIVE_MESSAGES, MSG_DONTWAIT, NULL);
    *more = got == (int)RECEIVE_MESSAGES;
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        datagram->stats.receive_errors++;
    }
    for (int i = 0; i < got && !datagram->freed; i++) {
        n += deliver(datagram, &messages[i], datagram->in.data[i]);
    }
    return n;
}

/* -- handlers ------------------------------------------------------------------------------------------------------ */

static void release(tf_datagram *datagram)
{
    tf_free(datagram->mem, datagram, sizeof(*datagram));
}

static void receive_turn(tf_datagram *datagram)
{
    size_t n = 0;
    bool more = true;
    while (more && n < TF_DATAGRAM_TURN && !datagram->freed) {
        n += receive_some(datagram, &more);
    }
    if (n > 0 && !datagram->freed) {
        datagram->ops->batch(datagram->ctx);
    }
}

static void writable_turn(tf_datagram *datagram)
{
    if (tf_datagram_flush(datagram) != TF_OK) {
        return;
    }
    (void)event_del(&datagram->writable);
    if (datagram->refused) {
        datagram->refused = false;
        datagram->ops->writable(datagram->ctx);
    }
}

static void tell_turn(tf_datagram *datagram)
{
    soft_error soft[TF_DATAGRAM_SOFT_ERRORS];
    size_t count = datagram->soft_count;
    memcpy(soft, datagram->soft, sizeof(soft));
    datagram->soft_count = 0;
    for (size_t i = 0; i < count && !datagram->freed; i++) {
        datagram->ops->soft_error(datagram->ctx, &soft[i].peer, soft[i].system_error, soft[i].len);
    }
}

/* Runs a handler; if the owner frees the socket meanwhile, it is released after it. */
static void handle(tf_datagram *datagram, void (*handler)(tf_datagram *))
{
    datagram->busy = true;
    handler(datagram);
    datagram->busy = false;
    if (datagram->freed) {
        release(datagram);
    }
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, receive_turn);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, writable_turn);
}

static void on_tell(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    handle(arg, tell_turn);
}

/* -- making -------------------------------------------------------------------------------------------------------- */

int tf_datagram_socket(int family, const tf_bind *bind_to)
{
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int on = 1;
    int error = 0;
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0) {
        error = errno;
    }
    error = error != 0 || bind_to == NULL ? error : tf_bind_apply(bind_to, fd, family);
    if (error == 0 && (bind_to == NULL || !tf_address_is_set(&bind_to->address))) {
        /* A port from the start. EINVAL: tf_bind_apply has bound it to an interface's address. */
        tf_address any = {.u.v6 = {.sin6_family = (sa_family_t)family},
                          .len = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)};
        error = bind(fd, &any.u.any, any.len) == 0 || errno == EINVAL ? 0 : errno;
    }
    if (error != 0) {
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static bool set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/* What must work, and (the casts) what had better. */
static tf_err prepare(tf_datagram *datagram)
{
    int fd = datagram->fd;
    struct sockaddr_storage storage;
    socklen_t len = sizeof(storage);
    if (evutil_make_socket_nonblocking(fd) != 0 || getsockname(fd, (struct sockaddr *)&storage, &len) != 0 ||
        tf_address_from_sockaddr(&datagram->local, (struct sockaddr *)&storage, len) != TF_OK) {
        return TF_ERR_IO;
    }
    bool v4 = datagram->local.u.any.sa_family == AF_INET;
    bool ok =
        v4 ? set_option(fd, IPPROTO_IP, IP_PKTINFO, 1) && set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
           : set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
                 set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
    (void)set_option(fd, SOL_SOCKET, SO_RCVBUF, TF_DATAGRAM_SOCKET_BUFFER);
    (void)set_option(fd, SOL_SOCKET, SO_SNDBUF, TF_DATAGRAM_SOCKET_BUFFER);
    (void)set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
    datagram->segments = true;
    return ok ? TF_OK : TF_ERR_IO;
}

tf_err tf_datagram_open(tf_datagram **out, int fd, const tf_datagram_config *config)
{
    tf_datagram *datagram = tf_alloc(config->mem, sizeof(*datagram));
    if (datagram == NULL) {
        (void)close(fd);
        return TF_ERR_NOMEM;
    }
    datagram->mem = config->mem;
    datagram->ops = config->ops;
    datagram->ctx = config->ctx;
    datagram->fd = fd;
    TF_ASSERT(event_assign(&datagram->readable, config->base, fd, EV_READ | EV_PERSIST, on_readable, datagram) == 0);
    TF_ASSERT(event_assign(&datagram->writable, config->base, fd, EV_WRITE | EV_PERSIST, on_writable, datagram) == 0);
    TF_ASSERT(evtimer_assign(&datagram->tell, config->base, on_tell, datagram) == 0);
    tf_err err = prepare(datagram);
    if (err == TF_OK && event_add(&datagram->readable, NULL) != 0) {
        err = TF_ERR_IO;
    }
    if (err != TF_OK) {
        tf_datagram_free(datagram);
        return err;
    }
    *out = datagram;
    return TF_OK;
}

void tf_datagram_free(tf_datagram *datagram)
{
    if (datagram == NULL) {
        return;
    }
    (void)tf_datagram_flush(datagram);
    (void)event_del(&datagram->readable);
    (void)event_del(&datagram->writable);
    (void)event_del(&datagram->tell);
    (void)close(datagram->fd);
    datagram->freed = true;
    if (!datagram->busy) {
        release(datagram);
    }
}

const tf_address *tf_datagram_local(const tf_datagram *datagram)
{
    return &datagram->local;
}

void tf_datagram_get_stats(const tf_datagram *datagram, tf_datagram_stats *out)
{
    *out = datagram->stats;
}
