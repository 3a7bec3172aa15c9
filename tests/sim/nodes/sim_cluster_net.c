/* What the net of tests/sim/net.h does with what is sent: bursts of loss, stalls, queues, closed sockets. */
#include "tests/sim/net.h"
#include "tests/support/check_main.h"

#define PACKETS 20000u

static net *make(tf_time delay)
{
    net *n = net_new(7);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(n, end)->delay = delay;
        net_pipe_of(n, end)->delay = delay;
    }
    return n;
}

/* Packets that come of so many, and how long the runs of lost ones are on average, in hundredths. */
static unsigned count_arrivals(net *n, unsigned *run)
{
    static bool came[PACKETS];
    unsigned runs = 0;
    unsigned arrivals = 0;
    net_event event;
    memset(came, 0, sizeof(came));
    for (unsigned i = 0; i < PACKETS; i++) {
        net_send(n, 0, 1, i, tf_slice_str("x"));
    }
    while (net_next(n, net_now(n) + TF_SECOND, &event)) {
        came[event.number] = true;
    }
    for (unsigned i = 0; i < PACKETS; i++) {
        arrivals += came[i];
        runs += !came[i] && (i == 0 || came[i - 1]);
    }
    *run = runs == 0 ? 0 : (PACKETS - arrivals) * 100 / runs;
    return arrivals;
}

START_TEST(net_loss_in_bursts_has_the_same_share)
{
    static const struct {
        unsigned of, loss, burst, least_run, most_run;
    } cases[] = {{0, 100, 0, 100, 125}, {0, 100, 1, 100, 125}, {0, 100, 8, 700, 900}, {1000000, 100000, 20, 1700, 2300}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned run = 0;
        net *n = make(TF_MS);
        net_path_of(n, 0)->of = cases[i].of;
        net_path_of(n, 0)->loss = cases[i].loss;
        net_path_of(n, 0)->burst = cases[i].burst;
        unsigned arrivals = count_arrivals(n, &run);
        ck_assert_uint_ge(arrivals, PACKETS * 88 / 100);
        ck_assert_uint_le(arrivals, PACKETS * 92 / 100);
        ck_assert_uint_ge(run, cases[i].least_run);
        ck_assert_uint_le(run, cases[i].most_run);
        net_free(n);
    }
}
END_TEST

START_TEST(net_stall_keeps_packets_until_it_heals)
{
    net *n = make(TF_MS);
    net_event event;
    net_path_of(n, 0)->stall = true;
    net_path_of(n, 0)->queue = 3;
    for (unsigned i = 0; i < 5; i++) {
        net_send(n, 0, 1, i, tf_slice_str("x"));
    }
    ck_assert(!net_next(n, 2 * TF_SECOND, &event));
    net_heal_path(n, 0);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(net_next(n, 3 * TF_SECOND, &event));
        ck_assert_uint_eq(event.number, i);
        ck_assert_uint_eq(net_now(n), 2 * TF_SECOND + TF_MS);
    }
    ck_assert(!net_next(n, 3 * TF_SECOND, &event));
    net_free(n);
}
END_TEST

/* A writer that fills what it may: with a queue of 50 kB in front of 100 kB/s bytes come half a second later. */
START_TEST(net_queue_of_the_stream_delays_what_is_written)
{
    static const uint8_t bytes[NET_PIECE];
    net *n = make(10 * TF_MS);
    net_event event;
    tf_time longest = 0;
    net_pipe_of(n, 0)->rate = 100000;
    net_pipe_of(n, 0)->queue = 50000;
    net_pipe_of(n, 0)->buffer = 1000000;
    net_open(n, 1);
    size_t under_way = 0;
    while (net_now(n) < 5 * TF_SECOND) {
        while (net_room(n, 0) >= sizeof(bytes)) {
            net_write(n, 0, tf_slice_of(bytes, sizeof(bytes)));
            under_way += sizeof(bytes);
        }
        ck_assert(net_next(n, TF_NEVER, &event));
        under_way -= event.type == NET_BYTES ? event.len : 0;
        longest = tf_time_max(longest, under_way * TF_SECOND / 100000);
    }
    ck_assert_uint_ge(net_written(n, 0), 390000); /* the line is full all the time */
    ck_assert_uint_ge(longest, 480 * TF_MS);
    ck_assert_uint_le(longest, 560 * TF_MS);
    net_free(n);
}
END_TEST

/* In a queue of 300 ms that others fill packets wait for it, or find it full, and none overtakes another. */
START_TEST(net_bloat_delays_packets_and_drops_some)
{
    net *n = make(10 * TF_MS);
    net_event event;
    unsigned came = 0;
    uint64_t last = 0;
    tf_time sum = 0;
    net_path_of(n, 0)->bloat = 300 * TF_MS;
    for (unsigned i = 1; i <= 2000; i++) {
        net_send(n, 0, 1, i, tf_slice_str("x"));
        while (net_next(n, TF_SECOND + i * 5 * TF_MS, &event)) {
            ck_assert_uint_gt(event.number, last);
            last = event.number;
            sum += net_now(n) - (TF_SECOND + (last - 1) * 5 * TF_MS);
            came++;
        }
    }
    ck_assert_uint_ge(came, 1000);
    ck_assert_uint_le(came, 1999);
    ck_assert_uint_ge(sum / came, 100 * TF_MS);
    ck_assert_uint_le(sum / came, 310 * TF_MS);
    net_free(n);
}
END_TEST

START_TEST(net_closed_socket_ends_behind_what_was_written)
{
    net *n = make(10 * TF_MS);
    net_event event;
    net_open(n, 1);
    net_write(n, 1, tf_slice_str("unheard"));
    net_write(n, 0, tf_slice_str("bye"));
    net_finish(n, 0);
    ck_assert_uint_eq(net_room(n, 0), 0);
    ck_assert(net_next(n, TF_NEVER, &event));
    ck_assert(event.type == NET_BYTES && event.end == 1 && event.len == 3);
    ck_assert(net_next(n, TF_NEVER, &event));
    ck_assert(event.type == NET_BROKEN && event.end == 1);
    ck_assert(!net_is_open(n));
    ck_assert(!net_next(n, net_now(n) + TF_SECOND, &event));
    net_free(n);
}
END_TEST

START_TEST(net_stuck_stream_is_known_by_its_last_progress)
{
    net *n = make(10 * TF_MS);
    net_event event;
    net_open(n, 1);
    ck_assert_uint_eq(net_stuck_since(n, 0), TF_NEVER);
    net_write(n, 0, tf_slice_str("x"));
    ck_assert_uint_eq(net_stuck_since(n, 0), TF_SECOND);
    while (net_next(n, 2 * TF_SECOND, &event)) {
    }
    ck_assert_uint_eq(net_stuck_since(n, 0), TF_NEVER);
    net_pipe_of(n, 1)->hole = true; /* on the way back */
    net_write(n, 0, tf_slice_str("x"));
    while (net_next(n, 4 * TF_SECOND, &event)) {
    }
    ck_assert_uint_eq(net_stuck_since(n, 0), 2 * TF_SECOND);
    net_heal_stream(n, 1);
    ck_assert_uint_eq(net_stuck_since(n, 0), TF_NEVER);
    net_free(n);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {net_loss_in_bursts_has_the_same_share,
                                  net_stall_keeps_packets_until_it_heals,
                                  net_queue_of_the_stream_delays_what_is_written,
                                  net_bloat_delays_packets_and_drops_some,
                                  net_closed_socket_ends_behind_what_was_written,
                                  net_stuck_stream_is_known_by_its_last_progress,
                                  NULL};
    return tf_test_run("tests/sim/net", tests);
}
