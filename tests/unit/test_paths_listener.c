/* Accepting, also when file descriptors run out; and one port for TCP and UDP. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "paths/listener.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define CLIENTS 100u
#define GIVE_UP_S 20

static struct event_base *base;
static tf_listener *listener;
static unsigned accepted;
static bool free_in_callback;
static bool pause_in_callback;
static int kept[CLIENTS];

static void on_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)ctx;
    ck_assert(tf_address_is_loopback(peer));
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    kept[accepted++] = fd;
    if (free_in_callback) {
        tf_listener_free(listener);
        listener = NULL;
    } else if (pause_in_callback) {
        tf_listener_pause(listener, true);
    }
}

static tf_address any_port(void)
{
    tf_address address;
    ck_assert_int_eq(tf_address_parse(&address, tf_slice_str("127.0.0.1"), 0), TF_OK);
    return address;
}

static void set_up(void)
{
    base = event_base_new();
    accepted = 0;
    free_in_callback = pause_in_callback = false;
    tf_address address = any_port();
    const tf_listener_config config = {.base = base, .mem = tf_test_mem(), .accepted = on_accepted};
    ck_assert_int_eq(tf_listener_new(&listener, tf_listen_tcp(&address), &config), TF_OK);
}

static void tear_down(void)
{
    tf_listener_free(listener);
    listener = NULL;
    for (unsigned i = 0; i < accepted; i++) {
        close(kept[i]);
    }
    event_base_free(base);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static int connect_one(void)
{
    const tf_address *to = tf_listener_local(listener);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, &to->u.any, to->len), 0);
    return fd;
}

static void on_give_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ck_abort_msg("it did not happen in time");
}

static void run_until_accepted(unsigned n)
{
    struct event *guard = evtimer_new(base, on_give_up, NULL);
    const struct timeval span = {GIVE_UP_S, 0};
    evtimer_add(guard, &span);
    while (accepted < n) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    event_free(guard);
}

START_TEST(listener_hands_over_every_client_a_bounded_number_a_turn)
{
    int clients[CLIENTS];
    set_up();
    for (unsigned i = 0; i < CLIENTS; i++) {
        clients[i] = connect_one();
    }
    ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    ck_assert_uint_eq(accepted, TF_ACCEPT_TURN);
    run_until_accepted(CLIENTS);
    tf_listener_stats stats;
    tf_listener_get_stats(listener, &stats);
    ck_assert_uint_eq(stats.accepted, CLIENTS);
    ck_assert_uint_eq(stats.turned_away + stats.errors, 0);
    for (unsigned i = 0; i < CLIENTS; i++) {
        close(clients[i]);
    }
    tear_down();
}
END_TEST

START_TEST(listener_paused_accepts_nobody_until_it_goes_on)
{
    set_up();
    pause_in_callback = true;
    int clients[] = {connect_one(), connect_one()};
    run_until_accepted(1);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    }
    ck_assert_uint_eq(accepted, 1);
    tf_listener_pause(listener, false);
    run_until_accepted(2);
    close(clients[0]);
    close(clients[1]);
    tear_down();
}
END_TEST

START_TEST(listener_may_be_freed_in_its_callback)
{
    set_up();
    free_in_callback = true;
    int clients[] = {connect_one(), connect_one()};
    run_until_accepted(1);
    ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    ck_assert_uint_eq(accepted, 1);
    close(clients[0]);
    close(clients[1]);
    tear_down();
}
END_TEST

/* With no descriptor left one client is turned away and the loop does not spin; with some again, the rest get in. */
START_TEST(listener_without_descriptors_turns_one_away_and_goes_on_later)
{
    struct rlimit old;
    struct rlimit few;
    tf_listener_stats stats;
    set_up();
    int clients[] = {connect_one(), connect_one(), connect_one()};
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = (rlim_t)clients[2] + 1; /* 0 to clients[2] are in use, all of them */
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0 && fd < clients[2]; fd = open("/dev/null", O_RDONLY)) {
        kept[accepted++] = fd; /* gaps below, if any */
    }
    unsigned gaps = accepted;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    int over = open("/dev/null", O_RDONLY);
    ck_assert_int_eq(over, -1);
    ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
    }
    tf_listener_get_stats(listener, &stats);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    ck_assert_uint_eq(stats.turned_away, 1);
    ck_assert_uint_eq(accepted, gaps);
    char byte;
    ck_assert_int_le(read(clients[0], &byte, 1), 0); /* told by a close */
    run_until_accepted(gaps + 2);
    for (int i = 0; i < 3; i++) {
        close(clients[i]);
    }
    tear_down();
}
END_TEST

static unsigned told;

static void on_turned_away(void *ctx)
{
    (void)ctx;
    told++;
}

/* A quarter of what the process may have is left to others in it, and that is told. */
START_TEST(listener_leaves_some_descriptors_to_others)
{
    struct rlimit old;
    tf_listener_stats stats;
    set_up();
    tf_address address = any_port();
    const tf_listener_config config = {
        .base = base, .mem = tf_test_mem(), .accepted = on_accepted, .turned_away = on_turned_away};
    tf_listener_free(listener);
    ck_assert_int_eq(tf_listener_new(&listener, tf_listen_tcp(&address), &config), TF_OK);
    int clients[] = {connect_one(), connect_one()};
    told = 0;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit few = {.rlim_cur = ((rlim_t)clients[1] + 1) * 4 / 3, .rlim_max = old.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0); /* the next number is of the last quarter */
    ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    int other = open("/dev/null", O_RDONLY);
    ck_assert_int_ge(other, 0);
    close(other);
    tf_listener_get_stats(listener, &stats);
    ck_assert_uint_eq(stats.turned_away, 1);
    ck_assert_uint_eq(told, 1);
    ck_assert_uint_eq(accepted, 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
    run_until_accepted(1);
    close(clients[0]);
    close(clients[1]);
    tear_down();
}
END_TEST

START_TEST(listen_pair_is_one_number_for_both)
{
    tf_address any = any_port();
    tf_address bound;
    tf_address udp_at;
    socklen_t len = sizeof(udp_at.u.v4);
    int tcp = -1;
    int udp = -1;
    ck_assert_int_eq(tf_listen_pair(&any, &tcp, &udp, &bound), 0);
    ck_assert_uint_ne(tf_address_port(&bound), 0);
    ck_assert_int_eq(getsockname(udp, &udp_at.u.any, &len), 0);
    udp_at.len = len;
    ck_assert(tf_address_eq(&bound, &udp_at));
    int tcp2 = -1;
    int udp2 = -1;
    ck_assert_int_eq(tf_listen_pair(&bound, &tcp2, &udp2, NULL), EADDRINUSE);
    ck_assert_int_eq(tcp2, -1);
    close(tcp);
    ck_assert_int_eq(tf_listen_pair(&bound, &tcp2, &udp2, NULL), EADDRINUSE); /* half of it is taken */
    close(udp);
    ck_assert_int_eq(tf_listen_pair(&bound, &tcp2, &udp2, NULL), 0);
    close(tcp2);
    close(udp2);
}
END_TEST

START_TEST(listener_without_memory_is_not_made_and_closes_the_fd)
{
    base = event_base_new();
    tf_address any = any_port();
    int fd = tf_listen_tcp(&any);
    const tf_listener_config config = {.base = base, .mem = tf_test_mem(), .accepted = on_accepted};
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, false);
    ck_assert_int_eq(tf_listener_new(&listener, fd, &config), TF_ERR_NOMEM);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert_int_eq(close(fd), -1);
    event_base_free(base);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {listener_hands_over_every_client_a_bounded_number_a_turn,
                                  listener_paused_accepts_nobody_until_it_goes_on,
                                  listener_may_be_freed_in_its_callback,
                                  listener_without_descriptors_turns_one_away_and_goes_on_later,
                                  listener_leaves_some_descriptors_to_others,
                                  listen_pair_is_one_number_for_both,
                                  listener_without_memory_is_not_made_and_closes_the_fd,
                                  NULL};
    return tf_test_run("paths/listener", tests);
}
