/* What is told when the network changes: messages through a pair of sockets, hostile ones too. (The real socket: tests/integration/test_roaming.py.) */
#include "paths/netwatch.h"

#include <event2/event.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define GIVE_UP 20 /* seconds */

static struct event_base *base;
static tf_netwatch *watch;
static int far_end;
static unsigned changes;
static bool free_in_callback;

static void on_changed(void *ctx)
{
    ck_assert_ptr_eq(ctx, &changes);
    changes++;
    if (free_in_callback) {
        tf_netwatch_free(watch);
        watch = NULL;
    }
}

static void set_up_with(int fd)
{
    const tf_netwatch_config config = {.base = base, .mem = tf_test_mem(), .changed = on_changed, .ctx = &changes};
    ck_assert_int_eq(tf_netwatch_new(&watch, fd, &config), TF_OK);
}

static void set_up(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    base = event_base_new();
    changes = 0;
    free_in_callback = false;
    far_end = pair[0];
    set_up_with(pair[1]);
}

static void tear_down(void)
{
    tf_netwatch_free(watch);
    watch = NULL;
    close(far_end);
    event_base_free(base);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

/* One turn of the loop, without waiting. */
static void turn(void)
{
    ck_assert_int_ge(event_base_loop(base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
}

static void on_give_up(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    ck_abort_msg("it did not happen in time");
}

static void run_until_changes(unsigned count)
{
    struct event *guard = evtimer_new(base, on_give_up, NULL);
    const struct timeval span = {GIVE_UP, 0};
    evtimer_add(guard, &span);
    while (changes < count) {
        ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
    }
    event_free(guard);
}

/* A message of that type; `claims` is the length that its header gives, 0: the true one. */
static size_t put_message(uint8_t *out, uint16_t type, unsigned char flags, uint32_t claims)
{
    struct nlmsghdr header = {.nlmsg_type = type, .nlmsg_len = claims};
    struct rtmsg route = {.rtm_family = AF_INET, .rtm_flags = flags};
    header.nlmsg_len = claims != 0 ? claims : (uint32_t)(sizeof(header) + sizeof(route));
    memcpy(out, &header, sizeof(header));
    memcpy(out + sizeof(header), &route, sizeof(route));
    return sizeof(header) + sizeof(route);
}

static void tell(uint16_t type)
{
    uint8_t bytes[64];
    size_t len = put_message(bytes, type, 0, 0);
    ck_assert_int_eq(send(far_end, bytes, len, 0), (ssize_t)len);
}

START_TEST(netwatch_each_kind_of_change_is_told)
{
    static const uint16_t types[] = {RTM_NEWLINK, RTM_DELLINK,  RTM_NEWADDR,
                                     RTM_DELADDR, RTM_NEWROUTE, RTM_DELROUTE};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        set_up();
        tell(types[i]);
        turn();
        ck_assert_uint_eq(changes, 1);
        tear_down();
    }
}
END_TEST

START_TEST(netwatch_other_kinds_are_not_told)
{
    static const uint16_t types[] = {0, NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, RTM_NEWNEIGH, RTM_GETLINK, UINT16_MAX};
    set_up();
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        tell(types[i]);
    }
    turn();
    ck_assert_uint_eq(changes, 0);
    tell(RTM_NEWLINK);
    turn();
    ck_assert_uint_eq(changes, 1);
    tear_down();
}
END_TEST

START_TEST(netwatch_burst_is_one_change_and_what_follows_another)
{
    set_up();
    for (int i = 0; i < 5; i++) {
        tell(RTM_NEWADDR);
    }
    turn();
    ck_assert_uint_eq(changes, 1);
    for (int i = 0; i < 3; i++) {
        tell(RTM_DELADDR);
        turn();
    }
    ck_assert_uint_eq(changes, 1); /* it rests */
    run_until_changes(2);
    ck_assert_uint_eq(changes, 2);
    tear_down();
}
END_TEST

/* What changes all the time is told ever more seldom, and at once again after it was quiet. (Timers are never early.) */
START_TEST(netwatch_rests_grow_while_changes_do_not_end)
{
    struct timeval began, ended;
    set_up();
    tf_time least = 0;
    gettimeofday(&began, NULL);
    for (unsigned i = 0; i < TF_NETWATCH_PATIENCE + 2; i++) {
        tell(RTM_NEWLINK);
        run_until_changes(i + 1);
        least += i < TF_NETWATCH_PATIENCE ? TF_NETWATCH_REST : (TF_NETWATCH_REST << (i - TF_NETWATCH_PATIENCE + 1));
    }
    tell(RTM_NEWLINK);
    run_until_changes(TF_NETWATCH_PATIENCE + 3);
    gettimeofday(&ended, NULL);
    tf_time span = (tf_time)(ended.tv_sec - began.tv_sec) * TF_SECOND + (tf_time)ended.tv_usec - (tf_time)began.tv_usec;
    ck_assert_uint_ge(span, least - 50 * TF_MS);
    tear_down();
}
END_TEST

START_TEST(netwatch_flood_costs_a_bounded_turn)
{
    set_up();
    size_t sent = 0;
    uint8_t bytes[64];
    size_t len = put_message(bytes, RTM_NEWNEIGH, 0, 0);
    while (sent < 4 * TF_NETWATCH_TURN && send(far_end, bytes, len, 0) == (ssize_t)len) {
        sent++; /* the queue of such a pair may be shorter than a turn */
    }
    ck_assert_uint_gt(sent, 0);
    for (size_t i = 0; i <= sent / TF_NETWATCH_TURN; i++) {
        turn();
    }
    tell(RTM_NEWLINK);
    run_until_changes(1);
    tear_down();
}
END_TEST

START_TEST(netwatch_cached_routes_are_no_change)
{
    uint8_t bytes[64];
    set_up();
    size_t len = put_message(bytes, RTM_NEWROUTE, 0, 0);
    struct rtmsg route = {.rtm_flags = RTM_F_CLONED};
    memcpy(bytes + sizeof(struct nlmsghdr), &route, sizeof(route));
    ck_assert_int_eq(send(far_end, bytes, len, 0), (ssize_t)len);
    turn();
    ck_assert_uint_eq(changes, 0);
    tear_down();
}
END_TEST

/* Lengths that lie, messages that are cut off, garbage: nothing is told, and the next good one is. */
START_TEST(netwatch_malformed_messages_are_ignored)
{
    static const uint32_t claims[] = {1, 15, 29, 4096, 0x7fffffffu, 0xfffffff0u, 0xffffffffu};
    uint8_t bytes[TF_NETWATCH_MESSAGE];
    tf_test_random random;
    tf_test_random_init(&random, 5);
    set_up();
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        size_t len = put_message(bytes, RTM_NEWLINK, 0, claims[i]);
        ck_assert_int_eq(send(far_end, bytes, len, 0), (ssize_t)len);
        turn();
    }
    for (size_t len = 0; len < sizeof(struct nlmsghdr); len++) {
        (void)put_message(bytes, RTM_NEWLINK, 0, 0);
        ck_assert_int_eq(send(far_end, bytes, len, 0), (ssize_t)len);
        turn();
    }
    ck_assert_uint_eq(changes, 0);
    for (int i = 0; i < 2000; i++) {
        size_t len = tf_rand_u64(&random.rand) % 200;
        random.rand.fill(random.rand.ctx, bytes, len);
        ck_assert_int_eq(send(far_end, bytes, len, 0), (ssize_t)len);
        turn();
    }
    unsigned before = changes;
    tell(RTM_NEWLINK);
    run_until_changes(before + 1);
    tear_down();
}
END_TEST

START_TEST(netwatch_change_behind_others_in_one_message_is_found)
{
    uint8_t bytes[256];
    set_up();
    size_t len = put_message(bytes, RTM_NEWNEIGH, 0, 0);
    len += put_message(bytes + len, NLMSG_NOOP, 0, 0);
    len += put_message(bytes + len, RTM_DELLINK, 0, 0);
    ck_assert_int_eq(send(far_end, bytes, len, 0), (ssize_t)len);
    turn();
    ck_assert_uint_eq(changes, 1);
    tear_down();
}
END_TEST

START_TEST(netwatch_message_that_is_too_long_counts_as_a_change)
{
    static uint8_t bytes[2 * TF_NETWATCH_MESSAGE];
    set_up();
    (void)put_message(bytes, RTM_NEWNEIGH, 0, sizeof(bytes));
    ck_assert_int_eq(send(far_end, bytes, sizeof(bytes), 0), sizeof(bytes));
    turn();
    ck_assert_uint_eq(changes, 1);
    tear_down();
}
END_TEST

START_TEST(netwatch_may_be_freed_in_its_callback_and_while_it_rests)
{
    set_up();
    free_in_callback = true;
    tell(RTM_NEWLINK);
    turn();
    ck_assert_uint_eq(changes, 1);
    ck_assert_ptr_null(watch);
    tear_down();
    set_up();
    tell(RTM_NEWLINK);
    turn();
    tear_down();
}
END_TEST

START_TEST(netwatch_without_memory_closes_the_socket)
{
    const tf_netwatch_config config = {.mem = tf_test_mem(), .changed = on_changed};
    int pair[2];
    uint8_t byte = 0;
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, true);
    ck_assert_int_eq(tf_netwatch_new(&watch, pair[1], &config), TF_ERR_NOMEM);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert_int_eq(recv(pair[0], &byte, 1, 0), 0);
    close(pair[0]);
    watch = NULL;
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {netwatch_each_kind_of_change_is_told,
                                  netwatch_other_kinds_are_not_told,
                                  netwatch_burst_is_one_change_and_what_follows_another,
                                  netwatch_rests_grow_while_changes_do_not_end,
                                  netwatch_flood_costs_a_bounded_turn,
                                  netwatch_cached_routes_are_no_change,
                                  netwatch_malformed_messages_are_ignored,
                                  netwatch_change_behind_others_in_one_message_is_found,
                                  netwatch_message_that_is_too_long_counts_as_a_change,
                                  netwatch_may_be_freed_in_its_callback_and_while_it_rests,
                                  netwatch_without_memory_closes_the_socket,
                                  NULL};
    return tf_test_run("paths/netwatch", tests);
}
