#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/harness/forwarder.h"

#define PACKETS_AT_ONCE 64
#define PACKET_MAX 65535u

/* One client address and the socket by which the relay knows it. */
typedef struct client {
    struct client *next;
    tf_fwd_udp *udp;
    uint64_t number; /* never used again, so a packet that waits cannot reach another client */
    tf_fwd_address address;
    int fd;
    struct event *readable;
    tf_time last_used;
} client;

typedef struct packet {
    struct packet *next;
    tf_time due;
    uint64_t client;
    tf_fwd_direction direction;
    size_t len;
    uint8_t bytes[];
} packet;

typedef struct counts {
    uint64_t packets; /* forwarded, repeats included */
    uint64_t bytes;
    uint64_t dropped;
    uint64_t repeated;
    uint64_t reordered;
    uint64_t cut;      /* dropped because of "datagram cut" */
    uint64_t too_long; /* dropped because of "udp-mtu" */
    uint64_t overflow; /* dropped because a queue was full, or the system would not take it */
} counts;

struct tf_fwd_udp {
    tf_fwd_common *common;
    int fd;
    struct event *readable;
    struct event *timer;
    client *clients;
    size_t client_count;
    uint64_t clients_ever;
    uint64_t rebinds;
    packet *waiting; /* by due time, equal ones in order of arrival */
    packet *last_waiting;
    size_t waiting_count;
    size_t waiting_bytes;
    uint64_t faults[TF_FWD_DIRECTIONS][TF_FWD_FAULTS];
    tf_time free_at[TF_FWD_DIRECTIONS]; /* when the last byte that waits for the rate has left */
    tf_bloat bloats[TF_FWD_DIRECTIONS];
    tf_burst bursts[TF_FWD_DIRECTIONS];
    counts counts[TF_FWD_DIRECTIONS];
    FILE *record;
    size_t recorded;
    uint8_t buffer[PACKET_MAX];
};

static void client_free(client *c)
{
    if (c->readable != NULL) {
        event_free(c->readable);
    }
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    free(c);
}

static client *client_by_number(tf_fwd_udp *udp, uint64_t number)
{
    client *c = udp->clients;
    while (c != NULL && c->number != number) {
        c = c->next;
    }
    return c;
}

static void transmit(tf_fwd_udp *udp, client *c, tf_fwd_direction direction, tf_slice bytes)
{
    counts *count = &udp->counts[direction];
    ssize_t put;
    if (direction == TF_FWD_UP) {
        put = send(c->fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    } else {
        put = sendto(udp->fd, bytes.data, bytes.len, MSG_NOSIGNAL, (const struct sockaddr *)&c->address.storage,
                     c->address.len);
    }
    if (put < 0) {
        count->overflow++; /* also ECONNREFUSED of an earlier packet: a datagram more or less */
        return;
    }
    count->packets++;
    count->bytes += (uint64_t)put;
}

/* Puts a packet into the queue where its time is; mostly that is the end. */
static void queue_insert(tf_fwd_udp *udp, packet *fresh)
{
    packet **at = &udp->waiting;
    if (udp->last_waiting != NULL && udp->last_waiting->due <= fresh->due) {
        at = &udp->last_waiting->next;
    }
    while (*at != NULL && (*at)->due <= fresh->due) {
        at = &(*at)->next;
    }
    fresh->next = *at;
    *at = fresh;
    if (fresh->next == NULL) {
        udp->last_waiting = fresh;
    }
    udp->waiting_count++;
    udp->waiting_bytes += fresh->len;
}

static void later(tf_fwd_udp *udp, client *c, tf_fwd_direction direction, tf_slice bytes, tf_time due)
{
    bool full = udp->waiting_count >= TF_FWD_PACKETS_MAX || bytes.len > TF_FWD_PACKET_BYTES_MAX - udp->waiting_bytes;
    packet *fresh = full ? NULL : calloc(1, sizeof(*fresh) + bytes.len);
    if (fresh == NULL) {
        udp->counts[direction].overflow++;
        return;
    }
    *fresh = (packet){.due = due, .client = c->number, .direction = direction, .len = bytes.len};
    if (bytes.len > 0) {
        memcpy(fresh->bytes, bytes.data, bytes.len);
    }
    queue_insert(udp, fresh);
    tf_fwd_arm(udp->timer, udp->waiting->due);
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    tf_fwd_udp *udp = ctx;
    tf_time now = tf_fwd_now();
    (void)fd;
    (void)what;
    while (udp->waiting != NULL && udp->waiting->due <= now) {
        packet *head = udp->waiting;
        client *c = client_by_number(udp, head->client);
        if (c != NULL) {
            transmit(udp, c, head->direction, tf_slice_of(head->bytes, head->len));
        }
        udp->waiting = head->next;
        udp->last_waiting = head->next == NULL ? NULL : udp->last_waiting;
        udp->waiting_count--;
        udp->waiting_bytes -= head->len;
        free(head);
    }
    tf_fwd_arm(udp->timer, udp->waiting == NULL ? TF_NEVER : udp->waiting->due);
}

static bool happens(tf_fwd_udp *udp, tf_fwd_direction direction, tf_fwd_fault fault)
{
    uint64_t odds = udp->faults[direction][fault];
    return odds != 0 && tf_test_random_chance(&udp->common->random, odds, TF_BURST_MILLION);
}

/* How long the packet waits for the rate; TF_NEVER: the queue is full. */
static tf_time wait_for_rate(tf_fwd_udp *udp, tf_fwd_direction direction, size_t len)
{
    const uint64_t *faults = udp->faults[direction];
    uint64_t rate = faults[TF_FWD_RATE];
    uint64_t queue = faults[TF_FWD_QUEUE] != 0 ? faults[TF_FWD_QUEUE] : TF_FWD_QUEUE_BYTES;
    tf_time bloat = faults[TF_FWD_BLOAT];
    tf_time now = tf_fwd_now();
    tf_time takes = len * 8 * TF_SECOND / (rate != 0 ? rate : TF_BLOAT_RATE);
    tf_time leaves = tf_bloat_leaves(&udp->bloats[direction], now, bloat, takes);
    if (rate == 0 || bloat != 0) {
        return leaves == TF_BLOAT_FULL ? TF_NEVER : leaves - now;
    }
    tf_time from = tf_time_max(udp->free_at[direction], now);
    if ((double)(from - now) * (double)rate / 8 / (double)TF_SECOND + (double)len > (double)queue) {
        return TF_NEVER;
    }
    udp->free_at[direction] = from + takes;
    return tf_time_max(udp->free_at[direction], leaves) - now;
}

/* One copy: at once, after the delay, or held a little longer so that later ones overtake it. */
static void forward_copy(tf_fwd_udp *udp, client *c, tf_fwd_direction direction, tf_slice bytes)
{
    uint64_t jitter = udp->faults[direction][TF_FWD_JITTER];
    tf_time delay = wait_for_rate(udp, direction, bytes.len);
    if (delay == TF_NEVER) {
        udp->counts[direction].overflow++;
        return;
    }
    delay += udp->faults[direction][TF_FWD_DELAY];
    delay += jitter != 0 ? tf_test_random_below(&udp->common->random, jitter + 1) : 0;
    if (happens(udp, direction, TF_FWD_REORDER)) {
        udp->counts[direction].reordered++;
        delay += TF_MS + tf_test_random_below(&udp->common->random, TF_FWD_REORDER_HOLD);
    }
    if (delay == 0) {
        transmit(udp, c, direction, bytes);
    } else {
        later(udp, c, direction, bytes, tf_fwd_now() + delay);
    }
}

static void forward(tf_fwd_udp *udp, client *c, tf_fwd_direction direction, tf_slice bytes)
{
    counts *count = &udp->counts[direction];
    uint64_t longest = udp->faults[direction][TF_FWD_MTU];
    c->last_used = tf_fwd_now();
    if (udp->faults[direction][TF_FWD_CUT] != 0) {
        count->cut++;
        return;
    }
    if (longest != 0 && bytes.len > longest) {
        count->too_long++;
        return;
    }
    if (tf_burst_loses(&udp->bursts[direction], &udp->common->random, udp->faults[direction][TF_FWD_DROP],
                       udp->faults[direction][TF_FWD_BURST])) {
        count->dropped++;
        return;
    }
    forward_copy(udp, c, direction, bytes);
    if (happens(udp, direction, TF_FWD_REPEAT)) {
        count->repeated++;
        forward_copy(udp, c, direction, bytes);
    }
}

static void on_relay_readable(evutil_socket_t fd, short what, void *ctx)
{
    client *c = ctx;
    tf_fwd_udp *udp = c->udp;
    (void)what;
    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        ssize_t got = recv(fd, udp->buffer, sizeof(udp->buffer), 0);
        if (got < 0) {
            return; /* nothing more, or an ICMP error of an earlier packet */
        }
        forward(udp, c, TF_FWD_DOWN, tf_slice_of(udp->buffer, (size_t)got));
    }
}

/* A fresh socket towards the relay. False: there is none, and the client is as before. */
static bool client_dial(client *c)
{
    const tf_fwd_address *to = &c->udp->common->to;
    int fd = socket(to->storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    struct event *readable = event_new(c->udp->common->base, fd, EV_READ | EV_PERSIST, on_relay_readable, c);
    if (readable == NULL || connect(fd, (const struct sockaddr *)&to->storage, to->len) != 0) {
        if (readable != NULL) {
            event_free(readable);
        }
        (void)close(fd);
        return false;
    }
    if (c->readable != NULL) {
        event_free(c->readable);
        (void)close(c->fd);
    }
    c->fd = fd;
    c->readable = readable;
    (void)event_add(readable, NULL);
    return true;
}

/* Forgets the idle ones and, when there are too many, the one that has been idle for longest. */
static void clients_expire(tf_fwd_udp *udp)
{
    tf_time now = tf_fwd_now();
    tf_time oldest = TF_NEVER;
    for (client *c = udp->clients; c != NULL; c = c->next) {
        oldest = tf_time_min(oldest, c->last_used);
    }
    bool full = udp->client_count >= TF_FWD_CLIENTS_MAX;
    for (client **at = &udp->clients; *at != NULL;) {
        client *c = *at;
        if (now - c->last_used < TF_FWD_CLIENT_IDLE && !(full && c->last_used == oldest)) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        udp->client_count--;
        full = false;
        client_free(c);
    }
}

static client *client_of(tf_fwd_udp *udp, const tf_fwd_address *address)
{
    for (client *c = udp->clients; c != NULL; c = c->next) {
        if (c->address.len == address->len && memcmp(&c->address.storage, &address->storage, address->len) == 0) {
            return c;
        }
    }
    clients_expire(udp);
    client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    *c = (client){.udp = udp, .number = ++udp->clients_ever, .address = *address, .fd = -1};
    if (!client_dial(c)) {
        client_free(c);
        return NULL;
    }
    c->next = udp->clients;
    udp->clients = c;
    udp->client_count++;
    return c;
}

static void record(tf_fwd_udp *udp, tf_slice bytes)
{
    uint8_t head[2] = {(uint8_t)(bytes.len >> 8), (uint8_t)bytes.len};
    if (udp->record == NULL || bytes.len + sizeof(head) > TF_FWD_RECORD_BYTES_MAX - udp->recorded) {
        return;
    }
    udp->recorded += bytes.len + sizeof(head);
    bool failed = fwrite(head, 1, sizeof(head), udp->record) != sizeof(head) ||
                  fwrite(bytes.data, 1, bytes.len, udp->record) != bytes.len || fflush(udp->record) != 0;
    if (failed) {
        perror("tf-forwarder: --udp-record");
        (void)fclose(udp->record);
        udp->record = NULL;
    }
}

static void on_client_readable(evutil_socket_t fd, short what, void *ctx)
{
    tf_fwd_udp *udp = ctx;
    (void)what;
    for (int i = 0; i < PACKETS_AT_ONCE; i++) {
        tf_fwd_address from = {.len = sizeof(from.storage)};
        ssize_t got = recvfrom(fd, udp->buffer, sizeof(udp->buffer), 0, (struct sockaddr *)&from.storage, &from.len);
        if (got < 0) {
            return;
        }
        tf_slice bytes = tf_slice_of(udp->buffer, (size_t)got);
        record(udp, bytes);
        client *c = client_of(udp, &from);
        if (c == NULL) {
            udp->counts[TF_FWD_UP].overflow++;
        } else {
            forward(udp, c, TF_FWD_UP, bytes);
        }
    }
}

tf_fwd_udp *tf_fwd_udp_new(tf_fwd_common *common, int fd, FILE *record_to)
{
    tf_fwd_udp *udp = calloc(1, sizeof(*udp));
    if (udp == NULL) {
        (void)close(fd);
        return NULL;
    }
    udp->common = common;
    udp->fd = fd;
    udp->record = record_to;
    udp->readable = event_new(common->base, fd, EV_READ | EV_PERSIST, on_client_readable, udp);
    udp->timer = evtimer_new(common->base, on_timer, udp);
    if (udp->readable == NULL || udp->timer == NULL || event_add(udp->readable, NULL) != 0) {
        tf_fwd_udp_free(udp);
        return NULL;
    }
    return udp;
}

void tf_fwd_udp_free(tf_fwd_udp *udp)
{
    if (udp == NULL) {
        return;
    }
    while (udp->clients != NULL) {
        client *next = udp->clients->next;
        client_free(udp->clients);
        udp->clients = next;
    }
    while (udp->waiting != NULL) {
        packet *next = udp->waiting->next;
        free(udp->waiting);
        udp->waiting = next;
    }
    if (udp->readable != NULL) {
        event_free(udp->readable);
    }
    if (udp->timer != NULL) {
        event_free(udp->timer);
    }
    if (udp->record != NULL) {
        (void)fclose(udp->record);
    }
    (void)close(udp->fd);
    free(udp);
}

void tf_fwd_udp_fault(tf_fwd_udp *udp, tf_fwd_directions directions, tf_fwd_fault fault, uint64_t value)
{
    for (unsigned d = 0; d < TF_FWD_DIRECTIONS; d++) {
        if ((directions & (1u << d)) != 0) {
            udp->faults[d][fault] = value;
        }
    }
}

void tf_fwd_udp_rebind(tf_fwd_udp *udp)
{
    for (client *c = udp->clients; c != NULL; c = c->next) {
        udp->rebinds += client_dial(c) ? 1 : 0;
    }
}

void tf_fwd_udp_stats(const tf_fwd_udp *udp, FILE *out)
{
    static const char *const names[TF_FWD_DIRECTIONS] = {"up", "down"};
    for (int d = 0; d < TF_FWD_DIRECTIONS; d++) {
        const counts *n = &udp->counts[d];
        (void)fprintf(out, "datagram_%s_packets=%" PRIu64 " datagram_%s_bytes=%" PRIu64 " ", names[d], n->packets,
                      names[d], n->bytes);
        (void)fprintf(out, "datagram_%s_dropped=%" PRIu64 " datagram_%s_repeated=%" PRIu64 " ", names[d], n->dropped,
                      names[d], n->repeated);
        (void)fprintf(out, "datagram_%s_reordered=%" PRIu64 " datagram_%s_cut=%" PRIu64 " ", names[d], n->reordered,
                      names[d], n->cut);
        (void)fprintf(out, "datagram_%s_too_long=%" PRIu64 " datagram_%s_overflow=%" PRIu64 " ", names[d], n->too_long,
                      names[d], n->overflow);
    }
    (void)fprintf(out, "datagram_clients=%zu datagram_waiting=%zu datagram_rebinds=%" PRIu64, udp->client_count,
                  udp->waiting_count, udp->rebinds);
}
