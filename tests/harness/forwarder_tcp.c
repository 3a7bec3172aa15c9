#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/harness/forwarder.h"

#define READ_BYTES 16384u
#define CUT_WITHIN_BYTES 4096u /* a connection whose time is over is closed within that many bytes */

typedef struct chunk {
    struct chunk *next;
    tf_time due;
    size_t at;
    size_t len;
    uint8_t bytes[];
} chunk;

/* One direction of a connection: from side[direction] to the other side. */
typedef struct pipe_state {
    chunk *first;
    chunk *last;
    size_t bytes;       /* of the chunks, with what they cost */
    bool ended;         /* the source has sent its FIN */
    bool passed_end;    /* the sink has got it */
    tf_time free_at;    /* when the last byte that waits for the rate has left */
    bool is_cut;        /* cut_after counts */
    uint64_t cut_after; /* bytes that may still pass */
} pipe_state;

typedef struct side {
    int fd;
    struct event *readable;
    struct event *writable;
} side;

typedef struct connection {
    struct connection *next;
    struct connection *previous;
    tf_fwd_tcp *tcp;
    bool connected;
    side sides[2];
    pipe_state pipes[TF_FWD_DIRECTIONS];
    struct event *timer;
    tf_time ends; /* when its time is over, TF_NEVER: never */
} connection;

struct tf_fwd_tcp {
    tf_fwd_common *common;
    int fd;
    struct event *acceptable;
    connection *connections;
    size_t open;
    bool cut;
    bool stalled[TF_FWD_DIRECTIONS];
    uint64_t faults[TF_FWD_DIRECTIONS][TF_FWD_FAULTS];
    tf_bloat bloats[TF_FWD_DIRECTIONS];
    tf_burst bursts[TF_FWD_DIRECTIONS];
    tf_time close_every;
    uint64_t bytes[TF_FWD_DIRECTIONS];
    uint64_t accepted;
    uint64_t refused; /* beyond the limit, or the relay cannot be reached */
    uint64_t was_cut;
    uint64_t resent; /* segments that came late as if they had been lost */
};

static void side_close(side *s, bool reset)
{
    if (s->readable != NULL) {
        event_free(s->readable);
    }
    if (s->writable != NULL) {
        event_free(s->writable);
    }
    if (s->fd >= 0) {
        struct linger linger = {.l_onoff = 1, .l_linger = 0};
        if (reset) {
            (void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        }
        (void)close(s->fd);
    }
}

static void connection_free(connection *c, bool reset)
{
    for (int i = 0; i < 2; i++) {
        side_close(&c->sides[i], reset);
        while (c->pipes[i].first != NULL) {
            chunk *next = c->pipes[i].first->next;
            free(c->pipes[i].first);
            c->pipes[i].first = next;
        }
    }
    if (c->timer != NULL) {
        event_free(c->timer);
    }
    if (c->next != NULL) {
        c->next->previous = c->previous;
    }
    if (c->previous != NULL) {
        c->previous->next = c->next;
    } else if (c->tcp->connections == c) {
        c->tcp->connections = c->next;
    }
    c->tcp->open--;
    free(c);
}

static void cut_connection(connection *c)
{
    c->tcp->was_cut++;
    connection_free(c, true);
}

static void want(struct event *event, bool wanted)
{
    if (wanted) {
        (void)event_add(event, NULL);
    } else {
        (void)event_del(event);
    }
}

/* Bytes that may wait: those of the queue before a rate, and those that are on their way. */
static size_t pipe_limit(const uint64_t faults[TF_FWD_FAULTS])
{
    if (faults[TF_FWD_RATE] != 0 && faults[TF_FWD_BLOAT] == 0) {
        uint64_t queue = faults[TF_FWD_QUEUE] != 0 ? faults[TF_FWD_QUEUE] : TF_FWD_QUEUE_BYTES;
        uint64_t limit = queue + faults[TF_FWD_RATE] / 8 * faults[TF_FWD_DELAY] / TF_SECOND;
        limit = limit < TF_FWD_PIPE_BYTES ? TF_FWD_PIPE_BYTES : limit;
        return limit < TF_FWD_PACKET_BYTES_MAX ? (size_t)limit : TF_FWD_PACKET_BYTES_MAX;
    }
    bool waits = (faults[TF_FWD_DELAY] | faults[TF_FWD_JITTER] | faults[TF_FWD_DROP] | faults[TF_FWD_BLOAT]) != 0;
    return waits ? TF_FWD_PIPE_BYTES_DELAYED : TF_FWD_PIPE_BYTES;
}

/* When bytes that come now have passed the rate, or the queue that others fill: what finds that full comes when it was
 * sent again. */
static tf_time leaves_at(connection *c, int d, size_t len, tf_time now)
{
    const uint64_t *faults = c->tcp->faults[d];
    pipe_state *p = &c->pipes[d];
    uint64_t rate = faults[TF_FWD_RATE];
    tf_time bloat = faults[TF_FWD_BLOAT];
    tf_time takes = len * 8 * TF_SECOND / (rate != 0 ? rate : TF_BLOAT_RATE);
    tf_time leaves = tf_bloat_leaves(&c->tcp->bloats[d], now, bloat, takes);
    if (leaves == TF_BLOAT_FULL) {
        c->tcp->resent++;
        return now + bloat + TF_FWD_RESEND + 2 * faults[TF_FWD_DELAY];
    }
    if (rate == 0 || bloat != 0) {
        return leaves;
    }
    p->free_at = tf_time_max(p->free_at, now) + takes;
    return tf_time_max(p->free_at, leaves);
}

/* When bytes that come now leave. Those behind them wait for them whatever their own time is. */
static tf_time due_of(connection *c, int d, size_t len)
{
    const uint64_t *faults = c->tcp->faults[d];
    tf_test_random *random = &c->tcp->common->random;
    tf_time due = leaves_at(c, d, len, tf_fwd_now()) + faults[TF_FWD_DELAY];
    if (faults[TF_FWD_JITTER] != 0) {
        due += tf_test_random_below(random, faults[TF_FWD_JITTER] + 1);
    }
    for (size_t at = 0; at < len && faults[TF_FWD_DROP] != 0; at += TF_FWD_SEGMENT) {
        if (tf_burst_loses(&c->tcp->bursts[d], random, faults[TF_FWD_DROP], faults[TF_FWD_BURST])) {
            c->tcp->resent++;
            due += TF_FWD_RESEND + 2 * faults[TF_FWD_DELAY];
        }
    }
    return due;
}

/* Arms what the state asks for. Both ends passed on: frees the connection. */
static void connection_update(connection *c)
{
    tf_fwd_tcp *tcp = c->tcp;
    tf_time now = tf_fwd_now();
    tf_time wake = c->ends;
    for (int d = 0; d < TF_FWD_DIRECTIONS; d++) {
        pipe_state *p = &c->pipes[d];
        side *sink = &c->sides[1 - d];
        bool flows = c->connected && !tcp->stalled[d];
        size_t limit = pipe_limit(tcp->faults[d]);
        if (flows && p->ended && p->first == NULL && !p->passed_end) {
            (void)shutdown(sink->fd, SHUT_WR);
            p->passed_end = true;
        }
        want(c->sides[d].readable, flows && !p->ended && p->bytes < limit);
        bool due = p->first != NULL && p->first->due <= now;
        want(sink->writable, (flows && due) || (!c->connected && d == TF_FWD_UP));
        if (flows && p->first != NULL && !due) {
            wake = tf_time_min(wake, p->first->due);
        }
    }
    if (c->pipes[TF_FWD_UP].passed_end && c->pipes[TF_FWD_DOWN].passed_end) {
        connection_free(c, false);
        return;
    }
    tf_fwd_arm(c->timer, wake);
}

/* Reads one chunk from the source of a direction. False: the connection is gone. */
static bool pipe_fill(connection *c, int d)
{
    pipe_state *p = &c->pipes[d];
    uint8_t bytes[READ_BYTES];
    ssize_t got = recv(c->sides[d].fd, bytes, sizeof(bytes), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    chunk *fresh = got > 0 ? calloc(1, sizeof(*fresh) + (size_t)got) : NULL;
    if (got < 0 || (got > 0 && fresh == NULL)) {
        connection_free(c, true);
        return false;
    }
    if (got == 0) {
        p->ended = true;
        return true;
    }
    memcpy(fresh->bytes, bytes, (size_t)got);
    fresh->len = (size_t)got;
    fresh->due = due_of(c, d, fresh->len);
    if (p->first != NULL) {
        p->last->next = fresh;
    } else {
        p->first = fresh;
    }
    p->last = fresh;
    p->bytes += sizeof(*fresh) + fresh->len;
    return true;
}

/* Writes what is due of one chunk to the sink of a direction. False: the connection is gone. */
static bool pipe_drain(connection *c, int d)
{
    pipe_state *p = &c->pipes[d];
    chunk *head = p->first;
    if (head == NULL || head->due > tf_fwd_now()) {
        return true;
    }
    size_t len = head->len - head->at;
    if (p->is_cut && p->cut_after < len) {
        len = (size_t)p->cut_after;
    }
    ssize_t put = send(c->sides[1 - d].fd, head->bytes + head->at, len, MSG_NOSIGNAL);
    if (put < 0) {
        if (errno == EAGAIN || errno == EINTR) {
            return true;
        }
        connection_free(c, true);
        return false;
    }
    head->at += (size_t)put;
    c->tcp->bytes[d] += (uint64_t)put;
    if (p->is_cut) {
        p->cut_after -= (uint64_t)put;
        if (p->cut_after == 0) {
            cut_connection(c);
            return false;
        }
    }
    if (head->at == head->len) {
        p->first = head->next;
        p->bytes -= sizeof(*head) + head->len;
        free(head);
    }
    return true;
}

static void on_client_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    if (pipe_fill(ctx, TF_FWD_UP)) {
        connection_update(ctx);
    }
}

static void on_relay_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    if (pipe_fill(ctx, TF_FWD_DOWN)) {
        connection_update(ctx);
    }
}

static void on_client_writable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    if (pipe_drain(ctx, TF_FWD_DOWN)) {
        connection_update(ctx);
    }
}

static void on_relay_writable(evutil_socket_t fd, short what, void *ctx)
{
    connection *c = ctx;
    (void)what;
    if (!c->connected) {
        int error = 0;
        socklen_t len = sizeof(error);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error != 0) {
            c->tcp->refused++;
            connection_free(c, true);
            return;
        }
        c->connected = true;
    } else if (!pipe_drain(c, TF_FWD_UP)) {
        return;
    }
    connection_update(c);
}

static tf_time lifetime(tf_fwd_tcp *tcp)
{
    if (tcp->close_every == 0) {
        return TF_NEVER;
    }
    tf_time half = tcp->close_every / 2;
    return tf_fwd_now() + half + tf_test_random_below(&tcp->common->random, tcp->close_every + 1);
}

/* Either delayed bytes are due, or the time of the connection is over: then it is closed at a random byte of a random
 * direction, or at the latest when its time is over once more. */
static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    connection *c = ctx;
    (void)fd;
    (void)what;
    if (tf_fwd_now() >= c->ends) {
        if (c->pipes[TF_FWD_UP].is_cut || c->pipes[TF_FWD_DOWN].is_cut) {
            cut_connection(c);
            return;
        }
        tf_test_random *random = &c->tcp->common->random;
        pipe_state *p = &c->pipes[tf_test_random_below(random, TF_FWD_DIRECTIONS)];
        p->is_cut = true;
        p->cut_after = 1 + tf_test_random_below(random, CUT_WITHIN_BYTES);
        c->ends = lifetime(c->tcp);
    }
    connection_update(c);
}

static int dial(const tf_fwd_address *to)
{
    int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    int size = TF_FWD_SOCKET_BUFFER;
    int segment = TF_FWD_SEGMENT;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    if (connect(fd, (const struct sockaddr *)&to->storage, to->len) != 0 && errno != EINPROGRESS) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Takes the accepted socket, also when it fails. */
static void connection_new(tf_fwd_tcp *tcp, int fd)
{
    struct event_base *base = tcp->common->base;
    connection *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        (void)close(fd);
        return;
    }
    *c = (connection){.tcp = tcp, .next = tcp->connections, .ends = lifetime(tcp)};
    c->sides[0].fd = fd;
    c->sides[1].fd = dial(&tcp->common->to);
    if (c->next != NULL) {
        c->next->previous = c;
    }
    tcp->connections = c;
    tcp->open++;
    c->sides[0].readable = event_new(base, fd, EV_READ, on_client_readable, c);
    c->sides[0].writable = event_new(base, fd, EV_WRITE, on_client_writable, c);
    c->timer = evtimer_new(base, on_timer, c);
    if (c->sides[1].fd >= 0) {
        c->sides[1].readable = event_new(base, c->sides[1].fd, EV_READ, on_relay_readable, c);
        c->sides[1].writable = event_new(base, c->sides[1].fd, EV_WRITE, on_relay_writable, c);
    }
    bool whole = c->timer != NULL;
    for (int i = 0; i < 2; i++) {
        whole = whole && c->sides[i].readable != NULL && c->sides[i].writable != NULL;
    }
    if (!whole) {
        tcp->refused++;
        connection_free(c, true);
        return;
    }
    connection_update(c);
}

static void on_acceptable(evutil_socket_t listener, short what, void *ctx)
{
    tf_fwd_tcp *tcp = ctx;
    (void)what;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    int size = TF_FWD_SOCKET_BUFFER;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    tcp->accepted++;
    if (tcp->open >= TF_FWD_CONNECTIONS_MAX) {
        tcp->refused++;
        (void)close(fd);
        return;
    }
    connection_new(tcp, fd);
}

static void update_all(tf_fwd_tcp *tcp)
{
    bool stalled = tcp->stalled[TF_FWD_UP] || tcp->stalled[TF_FWD_DOWN];
    want(tcp->acceptable, !tcp->cut && !stalled);
    for (connection *c = tcp->connections; c != NULL;) {
        connection *next = c->next;
        connection_update(c);
        c = next;
    }
}

tf_fwd_tcp *tf_fwd_tcp_new(tf_fwd_common *common, int fd)
{
    tf_fwd_tcp *tcp = calloc(1, sizeof(*tcp));
    if (tcp == NULL) {
        (void)close(fd);
        return NULL;
    }
    *tcp = (tf_fwd_tcp){.common = common, .fd = fd};
    tcp->acceptable = event_new(common->base, fd, EV_READ | EV_PERSIST, on_acceptable, tcp);
    if (tcp->acceptable == NULL || listen(fd, SOMAXCONN) != 0) {
        tf_fwd_tcp_free(tcp);
        return NULL;
    }
    update_all(tcp);
    return tcp;
}

void tf_fwd_tcp_free(tf_fwd_tcp *tcp)
{
    if (tcp == NULL) {
        return;
    }
    while (tcp->connections != NULL) {
        connection_free(tcp->connections, true);
    }
    if (tcp->acceptable != NULL) {
        event_free(tcp->acceptable);
    }
    (void)close(tcp->fd);
    free(tcp);
}

void tf_fwd_tcp_stall(tf_fwd_tcp *tcp, tf_fwd_directions directions, bool stalled)
{
    for (unsigned d = 0; d < TF_FWD_DIRECTIONS; d++) {
        if ((directions & (1u << d)) != 0) {
            tcp->stalled[d] = stalled;
        }
    }
    update_all(tcp);
}

void tf_fwd_tcp_cut(tf_fwd_tcp *tcp, bool cut)
{
    if (cut && !tcp->cut) {
        (void)shutdown(tcp->fd, SHUT_RD); /* ends the listening, keeps the port (Linux) */
    } else if (!cut && tcp->cut) {
        (void)listen(tcp->fd, SOMAXCONN);
    }
    tcp->cut = cut;
    while (cut && tcp->connections != NULL) {
        cut_connection(tcp->connections);
    }
    update_all(tcp);
}

void tf_fwd_tcp_fault(tf_fwd_tcp *tcp, tf_fwd_directions directions, tf_fwd_fault fault, uint64_t value)
{
    for (unsigned d = 0; d < TF_FWD_DIRECTIONS; d++) {
        if ((directions & (1u << d)) != 0) {
            tcp->faults[d][fault] = value;
        }
    }
    update_all(tcp);
}

void tf_fwd_tcp_close_every(tf_fwd_tcp *tcp, tf_time every)
{
    tcp->close_every = every;
    for (connection *c = tcp->connections; c != NULL; c = c->next) {
        c->ends = lifetime(tcp);
        c->pipes[TF_FWD_UP].is_cut = false;
        c->pipes[TF_FWD_DOWN].is_cut = false;
    }
    update_all(tcp);
}

void tf_fwd_tcp_stats(const tf_fwd_tcp *tcp, FILE *out)
{
    (void)fprintf(out,
                  "stream_up_bytes=%" PRIu64 " stream_down_bytes=%" PRIu64 " stream_accepted=%" PRIu64
                  " stream_refused=%" PRIu64 " stream_cut=%" PRIu64 " stream_resent=%" PRIu64 " stream_open=%zu",
                  tcp->bytes[TF_FWD_UP], tcp->bytes[TF_FWD_DOWN], tcp->accepted, tcp->refused, tcp->was_cut,
                  tcp->resent, tcp->open);
}
