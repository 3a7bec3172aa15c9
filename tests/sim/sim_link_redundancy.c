/* Named scenarios, continued: standby routes, redundancy that is lost without a sign, and routes that come and go. Times are
 * virtual, so the bounds are exact and hold on any machine. */
#include "tests/sim/scenario.h"

static uint64_t lost_in_all(void)
{
    uint64_t sum = 0;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        for (unsigned route = 0; route < TF_ROUTE_COUNT; route++) {
            sum += t->ends.end[end].redundancy_lost[route];
        }
    }
    return sum;
}

/* --- standby --- */

static tf_route standby_route;

static void with_standby(tf_link_config *config, unsigned end)
{
    if (end == 0) {
        config->standby = (tf_routes)(1u << standby_route);
    }
}

static void start_standby(tf_route route, tf_time rtt)
{
    standby_route = route;
    make(rtt);
    ends_start(&t->ends, with_standby);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 1500 * TF_MS);
}

static void hole(tf_route route, bool on)
{
    if (route == TF_ROUTE_STREAM) {
        stream_hole(on);
    } else {
        datagram_hole(on);
    }
}

START_TEST(link_standby_route_gets_no_segments_while_the_other_flows)
{
    tf_route standby = (tf_route)_i;
    tf_route other = standby == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
    start_standby(standby, 20 * TF_MS);
    traffic_start(t, 1, RATE_INTERVAL, UINT64_MAX, MESSAGE, MESSAGE);
    flow();
    ends_run_for(&t->ends, 30 * TF_SECOND);
    ck_assert_uint_eq(stats(0, standby).sent_segments, 0);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    ck_assert_uint_ge(stats(0, standby).probes, 28);
    ck_assert_uint_le(stats(0, standby).probes, 130); /* the peer's copies come by it, too */
    ck_assert_int_eq(verdict(0, standby), TF_VERDICT_UP);
    ck_assert_int_eq(verdict(1, standby), TF_VERDICT_UP);
    /* the peer copies by both: none of its copies is missed, and ours are not missed by it */
    ck_assert_uint_eq(stats(0, standby).only + stats(0, other).only, 0);
    ck_assert_uint_eq(stats(1, standby).only + stats(1, other).only, 0);
    ck_assert_uint_eq(lost_in_all(), 0);
    finish(TF_SECOND);
}
END_TEST

/* What comes by one route is not acked by the other one, if that is on standby. */
START_TEST(link_standby_route_is_silent_but_for_probes)
{
    tf_route standby = (tf_route)_i;
    start_standby(standby, 20 * TF_MS);
    net_path_of(t->ends.net, 1)->loss = 0;
    flow();
    uint64_t packets = t->ends.end[0].packets;
    uint64_t written = net_written(t->ends.net, 0);
    ends_run_for(&t->ends, 30 * TF_SECOND);
    if (standby == TF_ROUTE_DATAGRAM) {
        ck_assert_uint_le(t->ends.end[0].packets - packets, 180); /* a probe a second, answers to the peer's */
    } else {
        ck_assert_uint_le(net_written(t->ends.net, 0) - written, 30u * 400);
    }
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_standby_route_carries_when_the_other_stalls)
{
    static const tf_time rtts[] = {TF_MS, 20 * TF_MS, 80 * TF_MS};
    tf_route standby = (tf_route)(_i % 2);
    tf_route other = standby == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
    tf_time rtt = rtts[_i / 2];
    start_standby(standby, rtt);
    flow();
    ends_run_for(&t->ends, 2 * TF_SECOND);
    ck_assert_uint_eq(stats(0, standby).sent_segments, 0);
    traffic_measure(t);
    hole(other, true);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    ck_assert_uint_ge(stats(0, standby).sent_segments, 7600);
    ck_assert_uint_le(t->flow[0].longest_late, 4 * rtt + 100 * TF_MS); /* the stall is seen, then the backlog goes */
    hole(other, false);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    ck_assert_int_eq(verdict(0, other), TF_VERDICT_UP);
    uint64_t sent = stats(0, standby).sent_segments;
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_eq(stats(0, standby).sent_segments, sent);
    finish(2 * TF_SECOND);
}
END_TEST

/* A route that is up only now and then is not gone back to each time. */
START_TEST(link_standby_route_stays_while_the_other_flaps)
{
    tf_route standby = (tf_route)_i;
    tf_route other = standby == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
    start_standby(standby, 20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    for (unsigned i = 0; i < 40; i++) {
        hole(other, i % 2 == 0);
        run_redialling(500 * TF_MS);
        if (i == 6) {
            traffic_measure(t);
        }
    }
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS); /* the standby route carries throughout */
    ck_assert_uint_le(t->ends.end[0].verdicts[other][TF_VERDICT_UP], 6);
    finish(5 * TF_SECOND);
}
END_TEST

START_TEST(link_standby_route_alone_is_none)
{
    standby_route = TF_ROUTE_STREAM;
    make(20 * TF_MS);
    t->ends.config.send_data = TF_ROUTES_STREAM;
    ends_start(&t->ends, with_standby);
    ends_connect(&t->ends);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_ge(t->flow[0].got, 1900);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    finish(TF_SECOND);
}
END_TEST

/* --- lost redundancy --- */

static void one_way_hole(unsigned end, tf_route route, bool on)
{
    if (route == TF_ROUTE_DATAGRAM) {
        net_path_of(t->ends.net, end)->hole = on;
    } else if (on) {
        net_pipe_of(t->ends.net, end)->hole = true;
    } else {
        net_heal_stream(t->ends.net, end);
    }
}

/* One direction of one route dies. The end that sends there judges the route DOWN, and if it has messages to send tells that they do
 * not arrive; the other one tells that nothing comes. Traffic goes from end 0, at high and low rates. */
START_TEST(link_one_way_hole_is_told)
{
    static const tf_time intervals[] = {RATE_INTERVAL, 100 * TF_MS, 700 * TF_MS};
    tf_time interval = intervals[_i / 4];
    unsigned end = (unsigned)_i % 2;
    tf_route route = (_i / 2) % 2 == 0 ? TF_ROUTE_STREAM : TF_ROUTE_DATAGRAM;
    tf_route other = route == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
    start(20 * TF_MS);
    traffic_start(t, 0, interval, UINT64_MAX, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_eq(lost_in_all(), 0);
    one_way_hole(end, route, true);
    ends_run_for(&t->ends, interval + 2 * TF_SECOND);
    ck_assert_int_eq(verdict(end, route), TF_VERDICT_DOWN);
    ck_assert_uint_eq(lost_in_all(), 0); /* it was not long enough yet */
    ends_run_for(&t->ends, 1500 * TF_MS);
    ck_assert_uint_eq(t->ends.end[1 - end].inbound_lost[route], 1);
    ck_assert_uint_eq(t->ends.end[1 - end].redundancy_lost[route], 1);
    ck_assert_uint_eq(t->ends.end[end].redundancy_lost[route], end == 0 ? 1 : 0);
    ck_assert_uint_eq(t->ends.end[end].inbound_lost[route], 0);
    ends_run_for(&t->ends, 20 * TF_SECOND);
    ck_assert_uint_eq(lost_in_all(), end == 0 ? 2 : 1); /* once */
    ck_assert_int_eq(verdict(0, other), TF_VERDICT_UP);
    ck_assert_int_eq(verdict(1, other), TF_VERDICT_UP);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    one_way_hole(end, route, false);
    ends_run_for(&t->ends, 5 * TF_SECOND);
    ck_assert_int_eq(verdict(0, route), TF_VERDICT_UP);
    ck_assert_int_eq(verdict(1, route), TF_VERDICT_UP);
    finish(2 * TF_SECOND);
}
END_TEST

START_TEST(link_loss_is_no_lost_redundancy)
{
    static const tf_time intervals[] = {RATE_INTERVAL * 10, 100 * TF_MS, 700 * TF_MS, 3 * TF_SECOND};
    start(20 * TF_MS);
    loss(200);
    traffic_start(t, 0, intervals[_i], UINT64_MAX, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, _i == 0 ? 60 * TF_SECOND : 3600 * TF_SECOND);
    ck_assert_uint_eq(lost_in_all(), 0);
    loss(0);
    finish(TF_SECOND);
}
END_TEST

/* --- routes that come and go --- */

START_TEST(link_flapping_route_is_not_noticed)
{
    static const struct {
        tf_route route;
        tf_time half;
    } rows[] = {{TF_ROUTE_STREAM, 250 * TF_MS},
                {TF_ROUTE_STREAM, 500 * TF_MS},
                {TF_ROUTE_DATAGRAM, 250 * TF_MS},
                {TF_ROUTE_DATAGRAM, 500 * TF_MS}};
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    uint64_t packets = t->ends.end[0].packets;
    uint64_t written = net_written(t->ends.net, 0);
    tf_time began = net_now(t->ends.net);
    for (unsigned i = 0; i < 80; i++) {
        hole(rows[_i].route, i % 2 == 0);
        run_redialling(rows[_i].half);
    }
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    ck_assert_uint_eq(dialler.dials, 0);
    ck_assert_uint_le(t->ends.end[0].verdicts[rows[_i].route][TF_VERDICT_UP], 6);
    /* no storm: hardly more than each message once by each route, and acks */
    uint64_t messages = (net_now(t->ends.net) - began) / RATE_INTERVAL;
    ck_assert_uint_le(t->ends.end[0].packets - packets, messages + messages / 10);
    ck_assert_uint_le(net_written(t->ends.net, 0) - written, messages * (MESSAGE + 12) * 11 / 10);
    ck_assert_uint_eq(lost_in_all(), 0);
    finish(10 * TF_SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link, redundancy");
    TCase *tcase = tcase_create("paths/link, redundancy");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, link_standby_route_gets_no_segments_while_the_other_flows, 0, 2);
    tcase_add_loop_test(tcase, link_standby_route_is_silent_but_for_probes, 0, 2);
    tcase_add_loop_test(tcase, link_standby_route_carries_when_the_other_stalls, 0, 6);
    tcase_add_loop_test(tcase, link_standby_route_stays_while_the_other_flaps, 0, 2);
    tcase_add_test(tcase, link_standby_route_alone_is_none);
    tcase_add_loop_test(tcase, link_one_way_hole_is_told, 0, 12);
    tcase_add_loop_test(tcase, link_loss_is_no_lost_redundancy, 0, 4);
    tcase_add_loop_test(tcase, link_flapping_route_is_not_noticed, 0, 4);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
