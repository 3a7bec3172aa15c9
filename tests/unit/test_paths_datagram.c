/* Datagram sockets over loopback. */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "paths/datagram.h"
#include "paths/listener.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define GIVE_UP_S 20
#define MANY 2000u

/* -- a system that fails on demand --------------------------------------------------------------------------------- */

static int fail_with;         /* errno of the calls to come */
static unsigned fail_calls;   /* so many of them fail */
static bool fail_segmented;   /* only those whose first message is segmented */
static unsigned take_at_most; /* messages in one call; 0: all */

/* In place of the C library's. */
int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    bool segmented = count > 0 && messages[0].msg_hdr.msg_iovlen > 1;
    if (fail_calls > 0 && (segmented || !fail_segmented)) {
        fail_calls--;
        errno = fail_with;
        return -1;
    }
    count = take_at_most > 0 && count > take_at_most ? take_at_most : count;
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

static void sending_fails(int error, unsigned calls, bool only_segmented)
{
    fail_with = error;
    fail_calls = calls;
    fail_segmented = only_segmented;
}

/* -- two sockets --------------------------------------------------------------------------------------------------- */

typedef struct end {
    tf_datagram *socket;
    bool echo;
    bool free_in_packet;
    bool free_in_batch;
    unsigned packets;
    unsigned batches;
    unsigned writables;
    unsigned soft_errors;
    int system_error;
    tf_address soft_peer;
    size_t soft_len;
    tf_datagram_path from;
    uint32_t next; /* number that the next packet must carry */
    bool wrong;
    size_t len; /* of the last */
} end;

static struct event_base *base;
static end server;
static end client;

static void release_end(end *e)
{
    tf_datagram *socket = e->socket;
    e->socket = NULL;
    tf_datagram_free(socket);
}

static void on_packet(void *ctx, const tf_datagram_path *from, tf_slice packet)
{
    end *e = ctx;
    uint32_t number = 0;
    e->packets++;
    e->from = *from;
    e->len = packet.len;
    memcpy(&number, packet.data, packet.len < sizeof(number) ? packet.len : sizeof(number));
    e->wrong = e->wrong || number != e->next++;
    if (e->free_in_packet) {
        release_end(e);
    } else if (e->echo) {
        ck_assert_int_eq(tf_datagram_send(e->socket, from, packet), TF_OK);
    }
}

static void on_batch(void *ctx)
{
    end *e = ctx;
    e->batches++;
    if (e->free_in_batch) {
        release_end(e);
    } else if (e->echo) {
        ck_assert_int_eq(tf_datagram_flush(e->socket), TF_OK);
    }
}

static void on_writable(void *ctx)
{
    end *e = ctx;
    e->writables++;
}

static void on_soft_error(void *ctx, const tf_address *peer, int system_error, size_t len)
{
    end *e = ctx;
    e->soft_len = len;
    e->soft_errors++;
    e->soft_peer = *peer;
    e->system_error = system_error;
}

static const tf_datagram_ops ops = {on_packet, on_batch, on_writable, on_soft_error};

static tf_address literal(const char *text, uint16_t port)
{
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str(text), port), TF_OK);
    return address;
}

static void open_end(end *e, int fd)
{
    const tf_datagram_config config = {base, tf_test_mem(), &ops, e};
    memset(e, 0, sizeof(*e));
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(tf_datagram_open(&e->socket, fd, &config), TF_OK);
}

static void set_up(const char *server_address, int family)
{
    base = event_base_new();
    tf_address address = literal(server_address, 0);
    open_end(&server, tf_listen_udp(&address));
    open_end(&client, tf_datagram_socket(family, NULL));
}

static void tear_down(void)
{
    release_end(&server);
    release_end(&client);
    event_base_free(base);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static void on_give_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ck_abort_msg("it did not happen in time");
}

static void run_until(const unsigned *counter, unsigned value)
{
    struct event *guard = evtimer_new(base, on_give_up, NULL);
    const struct timeval span = {GIVE_UP_S, 0};
    evtimer_add(guard, &span);
    while (*counter < value) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    event_free(guard);
}

static tf_datagram_path path_to(const char *host)
{
    return (tf_datagram_path){.peer = literal(host, tf_address_port(tf_datagram_local(server.socket)))};
}

/* Numbered packets of the given size; gives how many were taken. */
static unsigned send_numbered(end *e, const tf_datagram_path *to, unsigned from, unsigned count, size_t size)
{
    uint8_t packet[TF_DATAGRAM_MAX];
    memset(packet, 0xaa, sizeof(packet));
    for (unsigned i = from; i < from + count; i++) {
        memcpy(packet, &i, sizeof(i));
        if (tf_datagram_send(e->socket, to, tf_slice_of(packet, size)) != TF_OK) {
            return i - from;
        }
    }
    return count;
}

/* -- paths --------------------------------------------------------------------------------------------------------- */

/* A server bound to no address answers from the address at which it was addressed. */
static void check_answer_address(const char *any, int family, const char *host)
{
    set_up(any, family);
    server.echo = true;
    tf_datagram_path to = path_to(host);
    ck_assert_uint_eq(send_numbered(&client, &to, 0, 1, 100), 1);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    run_until(&client.packets, 1);
    ck_assert(tf_address_same_host(&server.from.local, &to.peer));
    ck_assert(tf_address_eq(&client.from.peer, &to.peer));
    ck_assert_uint_ne(server.from.interface, 0);
    ck_assert_uint_eq(client.len, 100);
    ck_assert(!client.wrong);
    tear_down();
}

START_TEST(datagram_answer_leaves_from_the_address_that_was_addressed)
{
    check_answer_address("0.0.0.0", AF_INET, "127.0.0.1");
    check_answer_address("0.0.0.0", AF_INET, "127.0.0.42");
    check_answer_address("127.0.0.7", AF_INET, "127.0.0.7");
}
END_TEST

static bool has_v6_loopback(void)
{
    tf_address v6 = literal("::1", 0);
    int fd = tf_listen_udp(&v6);
    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

START_TEST(datagram_answer_by_ipv6_leaves_from_the_address_that_was_addressed)
{
    if (has_v6_loopback()) {
        check_answer_address("::", AF_INET6, "::1");
    }
}
END_TEST

START_TEST(datagram_leaves_by_the_bound_address)
{
    set_up("127.0.0.1", AF_INET);
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("127.0.0.3")), TF_OK);
    release_end(&client);
    open_end(&client, tf_datagram_socket(AF_INET, &bind));
    tf_datagram_path to = path_to("127.0.0.1");
    ck_assert_uint_eq(send_numbered(&client, &to, 0, 1, 10), 1);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    run_until(&server.packets, 1);
    ck_assert(tf_address_eq(&server.from.peer, tf_datagram_local(client.socket)));
    ck_assert(tf_address_same_host(&server.from.peer, &bind.address));
    tear_down();
}
END_TEST

START_TEST(datagram_socket_bound_to_another_family_is_refused)
{
    tf_bind bind;
    ck_assert_int_eq(tf_bind_parse(&bind, tf_slice_str("::1")), TF_OK);
    ck_assert_int_eq(tf_datagram_socket(AF_INET, &bind), -1);
    ck_assert_int_eq(errno, EADDRNOTAVAIL);
}
END_TEST

START_TEST(datagram_to_another_family_or_too_long_is_refused)
{
    static const uint8_t packet[TF_DATAGRAM_MAX + 1];
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = {.peer = literal("::1", 7)};
    ck_assert_int_eq(tf_datagram_send(client.socket, &to, tf_slice_of(packet, 1)), TF_ERR_USAGE);
    memset(&to, 0, sizeof(to));
    ck_assert_int_eq(tf_datagram_send(client.socket, &to, tf_slice_of(packet, 1)), TF_ERR_USAGE);
    to = path_to("127.0.0.1");
    ck_assert_int_eq(tf_datagram_send(client.socket, &to, tf_slice_of(packet, sizeof(packet))), TF_ERR_LIMIT_BYTES);
    tear_down();
}
END_TEST

/* -- batches ------------------------------------------------------------------------------------------------------- */

START_TEST(datagram_packets_of_one_size_share_system_calls)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = path_to("127.0.0.1");
    for (unsigned sent = 0; sent < MANY; sent += 40) {
        ck_assert_uint_eq(send_numbered(&client, &to, sent, 40, 1200), 40);
        ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
        run_until(&server.packets, sent + 40);
    }
    ck_assert(!server.wrong);
    tf_datagram_stats stats;
    tf_datagram_get_stats(client.socket, &stats);
    ck_assert_uint_eq(stats.sent, MANY);
    ck_assert_uint_eq(stats.sent_bytes, MANY * 1200u);
    ck_assert_uint_le(stats.system_calls, MANY / 40 + 4);
    tf_datagram_get_stats(server.socket, &stats);
    ck_assert_uint_eq(stats.received, MANY);
    ck_assert_uint_eq(stats.received_bytes, MANY * 1200u);
    tear_down();
}
END_TEST

/* Sizes up and down and peers in turn: every packet arrives as it was, in order. */
START_TEST(datagram_packets_of_mixed_sizes_arrive_whole_and_in_order)
{
    static const size_t sizes[] = {1200, 1200, 1200, 700, 1200, 4,  4,   5, 1472,
                                   1472, 1471, 1472, 100, 100,  99, 100, 1, 1};
    set_up("0.0.0.0", AF_INET);
    const tf_datagram_path paths[] = {path_to("127.0.0.1"), path_to("127.0.0.5")};
    unsigned n = 0;
    for (unsigned round = 0; round < 20; round++) {
        uint8_t packet[TF_DATAGRAM_MAX];
        memset(packet, 0, sizeof(packet));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++, n++) {
            uint32_t number = sizes[i] >= 4 ? n : n & 0xffu;
            memcpy(packet, &number, sizeof(number));
            tf_slice slice = tf_slice_of(packet, sizes[i]);
            ck_assert_int_eq(tf_datagram_send(client.socket, &paths[round / 10], slice), TF_OK);
        }
        server.wrong = false;
        ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
        run_until(&server.packets, n);
        ck_assert(!server.wrong || n > 0xff); /* a byte cannot carry more */
        ck_assert_uint_eq(server.len, 1);
    }
    tear_down();
}
END_TEST

START_TEST(datagram_full_batch_is_flushed_by_itself)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = path_to("127.0.0.1");
    ck_assert_uint_eq(send_numbered(&client, &to, 0, TF_DATAGRAM_BATCH + 1, 64), TF_DATAGRAM_BATCH + 1);
    run_until(&server.packets, TF_DATAGRAM_BATCH);
    ck_assert_uint_eq(server.packets, TF_DATAGRAM_BATCH);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    run_until(&server.packets, TF_DATAGRAM_BATCH + 1);
    ck_assert(!server.wrong);
    tear_down();
}
END_TEST

START_TEST(datagram_too_long_packet_is_dropped_and_counted)
{
    static uint8_t big[TF_DATAGRAM_MAX + 1];
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = path_to("127.0.0.1");
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ck_assert_int_eq(sendto(fd, big, sizeof(big), 0, &to.peer.u.any, to.peer.len), sizeof(big));
    ck_assert_int_eq(sendto(fd, big, sizeof(big) - 1, 0, &to.peer.u.any, to.peer.len), sizeof(big) - 1);
    ck_assert_int_eq(sendto(fd, big, 0, 0, &to.peer.u.any, to.peer.len), 0);
    run_until(&server.packets, 2);
    tf_datagram_stats stats;
    tf_datagram_get_stats(server.socket, &stats);
    ck_assert_uint_eq(stats.truncated, 1);
    ck_assert_uint_eq(stats.received, 3);
    ck_assert_uint_eq(server.len, 0);
    close(fd);
    tear_down();
}
END_TEST

/* -- errors -------------------------------------------------------------------------------------------------------- */

START_TEST(datagram_error_of_one_peer_is_told_and_the_others_get_theirs)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path good = path_to("127.0.0.1");
    tf_datagram_path bad = {.peer = literal("127.0.0.1", 9), .local = literal("203.0.113.77", 0)}; /* not ours */
    ck_assert_uint_eq(send_numbered(&client, &good, 0, 1, 20), 1);
    ck_assert_uint_eq(send_numbered(&client, &bad, 0, 3, 20), 3);
    ck_assert_uint_eq(send_numbered(&client, &good, 1, 2, 20), 2);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    ck_assert_uint_eq(client.soft_errors, 0); /* not from inside */
    run_until(&client.soft_errors, 1);
    run_until(&server.packets, 3);
    ck_assert(!server.wrong);
    ck_assert(tf_address_eq(&client.soft_peer, &bad.peer));
    ck_assert_int_ne(client.system_error, 0);
    ck_assert_uint_eq(client.soft_len, 20);
    tf_datagram_stats stats;
    tf_datagram_get_stats(client.socket, &stats);
    ck_assert_uint_eq(stats.send_errors, 3);
    ck_assert_uint_eq(stats.sent, 3);
    tear_down();
}
END_TEST

START_TEST(datagram_may_be_freed_in_its_callbacks)
{
    for (int which = 0; which < 2; which++) {
        set_up("127.0.0.1", AF_INET);
        server.free_in_packet = which == 0;
        server.free_in_batch = which == 1;
        tf_datagram_path to = path_to("127.0.0.1");
        ck_assert_uint_eq(send_numbered(&client, &to, 0, 10, 50), 10);
        ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
        run_until(&server.packets, which == 0 ? 1 : 10);
        while (server.socket != NULL) {
            ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
        }
        ck_assert_uint_eq(server.packets, which == 0 ? 1 : 10);
        tear_down();
    }
}
END_TEST

START_TEST(datagram_free_sends_what_waits)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = path_to("127.0.0.1");
    ck_assert_uint_eq(send_numbered(&client, &to, 0, 5, 50), 5);
    release_end(&client);
    run_until(&server.packets, 5);
    tear_down();
}
END_TEST

START_TEST(datagram_without_memory_is_not_made_and_closes_the_fd)
{
    base = event_base_new();
    tf_datagram *socket = NULL;
    int fd = tf_datagram_socket(AF_INET, NULL);
    const tf_datagram_config config = {base, tf_test_mem(), &ops, NULL};
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, false);
    ck_assert_int_eq(tf_datagram_open(&socket, fd, &config), TF_ERR_NOMEM);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert_int_eq(close(fd), -1);
    event_base_free(base);
}
END_TEST

START_TEST(datagram_full_socket_refuses_the_newest_and_goes_on)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = path_to("127.0.0.1");
    sending_fails(EAGAIN, 1, false);
    ck_assert_uint_eq(send_numbered(&client, &to, 0, TF_DATAGRAM_BATCH + 10, 100), TF_DATAGRAM_BATCH);
    ck_assert_uint_eq(client.writables, 0);
    run_until(&client.writables, 1);
    ck_assert_uint_eq(send_numbered(&client, &to, TF_DATAGRAM_BATCH, 10, 100), 10);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    run_until(&server.packets, TF_DATAGRAM_BATCH + 10);
    ck_assert(!server.wrong);
    ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
    ck_assert_uint_eq(client.writables, 1);
    tf_datagram_stats stats;
    tf_datagram_get_stats(client.socket, &stats);
    ck_assert_uint_eq(stats.refused, 1);
    tear_down();
}
END_TEST

START_TEST(datagram_half_a_batch_is_kept_until_the_socket_takes_it)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to[2] = {path_to("127.0.0.1"), path_to("127.0.0.1")};
    to[1].local = literal("127.0.0.1", 0);
    for (unsigned i = 0; i < 40; i++) { /* 40 messages: no two neighbours go the same way */
        ck_assert_uint_eq(send_numbered(&client, &to[i % 2], i, 1, 100), 1);
    }
    take_at_most = 7;
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    ck_assert_uint_eq(send_numbered(&client, &to[0], 40, 1, 100), 1);
    ck_assert_uint_eq(send_numbered(&client, &to[1], 41, 1, 100), 1);
    sending_fails(EAGAIN, 1, false);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_ERR_AGAIN);
    ck_assert_uint_eq(send_numbered(&client, &to[0], 42, 1, 100), 1);
    run_until(&server.packets, 43);
    take_at_most = 0;
    ck_assert(!server.wrong);
    ck_assert_uint_eq(client.writables, 0); /* nothing was refused */
    tear_down();
}
END_TEST

/* Segmentation may be unknown to the device (EIO: for ever), or too large for the path (the others: try one by one). */
START_TEST(datagram_refused_segmentation_sends_one_by_one)
{
    static const int errors[] = {EIO, EOPNOTSUPP, EINVAL, EMSGSIZE};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        set_up("127.0.0.1", AF_INET);
        tf_datagram_path to = path_to("127.0.0.1");
        sending_fails(errors[i], 1, true);
        ck_assert_uint_eq(send_numbered(&client, &to, 0, 30, 1200), 30);
        ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
        run_until(&server.packets, 30);
        ck_assert_uint_eq(fail_calls, 0);
        sending_fails(EINVAL, 100, true);
        ck_assert_uint_eq(send_numbered(&client, &to, 30, 30, 1200), 30);
        ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
        bool for_ever = errors[i] == EIO || errors[i] == EOPNOTSUPP;
        ck_assert_uint_eq(fail_calls, for_ever ? 100 : 99);
        sending_fails(0, 0, false);
        run_until(&server.packets, 60);
        ck_assert(!server.wrong);
        ck_assert_uint_eq(client.soft_errors, 0);
        tear_down();
    }
}
END_TEST

START_TEST(datagram_packet_too_large_for_the_path_is_counted_and_told)
{
    set_up("127.0.0.1", AF_INET);
    tf_datagram_path to = path_to("127.0.0.1");
    sending_fails(EMSGSIZE, 1, false);
    ck_assert_uint_eq(send_numbered(&client, &to, 0, 1, 1400), 1);
    ck_assert_int_eq(tf_datagram_flush(client.socket), TF_OK);
    run_until(&client.soft_errors, 1);
    ck_assert_int_eq(client.system_error, EMSGSIZE);
    tf_datagram_stats stats;
    tf_datagram_get_stats(client.socket, &stats);
    ck_assert_uint_eq(stats.too_large, 1);
    ck_assert_uint_eq(stats.send_errors, 0);
    tear_down();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {datagram_answer_leaves_from_the_address_that_was_addressed,
                                  datagram_answer_by_ipv6_leaves_from_the_address_that_was_addressed,
                                  datagram_leaves_by_the_bound_address,
                                  datagram_socket_bound_to_another_family_is_refused,
                                  datagram_to_another_family_or_too_long_is_refused,
                                  datagram_packets_of_one_size_share_system_calls,
                                  datagram_packets_of_mixed_sizes_arrive_whole_and_in_order,
                                  datagram_full_batch_is_flushed_by_itself,
                                  datagram_too_long_packet_is_dropped_and_counted,
                                  datagram_error_of_one_peer_is_told_and_the_others_get_theirs,
                                  datagram_may_be_freed_in_its_callbacks,
                                  datagram_free_sends_what_waits,
                                  datagram_without_memory_is_not_made_and_closes_the_fd,
                                  datagram_full_socket_refuses_the_newest_and_goes_on,
                                  datagram_half_a_batch_is_kept_until_the_socket_takes_it,
                                  datagram_refused_segmentation_sends_one_by_one,
                                  datagram_packet_too_large_for_the_path_is_counted_and_told,
                                  NULL};
    return tf_test_run("paths/datagram", tests);
}
