/* Named scenarios of two links on the virtual network, each with the bound that it has to keep (P3: one route is enough).
 * Times are virtual, so the bounds are exact and hold on any machine. */
#include "tests/sim/scenario.h"

/* --- one route is enough --- */

START_TEST(link_stream_hole_leaves_no_gap)
{
    static const tf_time rtts[] = {TF_MS, 20 * TF_MS};
    tf_time rtt = rtts[_i];
    start(rtt);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    stream_hole(true);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    stream_hole(false);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_STREAM), TF_VERDICT_UP);
    ck_assert_uint_le(t->flow[0].longest_gap, rtt / 2 + TF_MS);
    ck_assert_uint_le(t->flow[0].longest_late, rtt / 2 + TF_MS);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_stream_hole_at_any_moment_leaves_no_gap_of_50_ms)
{
    for (unsigned i = 0; i < 40; i++) {
        start(TF_MS);
        loss(10 * (i % 6)); /* 0 to 5 % */
        flow();
        ends_run_for(&t->ends, 200 * TF_MS + i * (tf_time)137);
        traffic_measure(t);
        stream_hole(true);
        ends_run_for(&t->ends, 700 * TF_MS);
        ck_assert_uint_lt(t->flow[0].longest_gap, 50 * TF_MS);
        stream_hole(false);
        finish(5 * TF_SECOND);
    }
}
END_TEST

START_TEST(link_stream_hole_and_loss_costs_round_trips)
{
    static const tf_time rtts[] = {TF_MS, 20 * TF_MS, 80 * TF_MS};
    tf_time rtt = rtts[_i];
    start(rtt);
    loss(50);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    stream_hole(true);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    stream_hole(false);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    ck_assert_uint_le(t->flow[0].longest_late, 5 * rtt + 50 * TF_MS);
    finish(2 * TF_SECOND);
}
END_TEST

START_TEST(link_tail_lost_while_stream_is_silent_is_repaired)
{
    static const tf_time rtts[] = {TF_MS, 20 * TF_MS, 80 * TF_MS};
    tf_time rtt = rtts[_i];
    start(rtt);
    traffic_start(t, 0, RATE_INTERVAL, 400, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 195 * TF_MS);
    traffic_measure(t);
    stream_hole(true);
    datagram_hole(true); /* it takes the last 10 messages */
    ends_run_for(&t->ends, 5 * TF_MS);
    datagram_hole(false);
    ends_run_for(&t->ends, 4 * rtt + 50 * TF_MS);
    ck_assert_uint_eq(t->flow[0].due, 400);
    ck_assert(traffic_is_done(t));
    ck_assert_uint_le(t->flow[0].longest_late, 4 * rtt + 50 * TF_MS);
    traffic_free(t);
}
END_TEST

START_TEST(link_single_messages_in_stream_hole_arrive_despite_loss)
{
    start(TF_MS);
    stream_hole(true);
    loss(50);
    traffic_start(t, 0, 97 * TF_MS, 300, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 40 * TF_SECOND);
    ck_assert_uint_eq(t->flow[0].got, 300);
    ck_assert_uint_le(t->flow[0].longest_late, 4 * TF_MS + 50 * TF_MS);
    traffic_free(t);
}
END_TEST

START_TEST(link_datagram_hole_is_not_noticed)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    datagram_hole(true);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    ck_assert_uint_le(t->flow[0].longest_late, 10 * TF_MS + TF_MS);
    datagram_hole(false);
    ends_run_for(&t->ends, 1500 * TF_MS);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert_int_eq(verdict(1, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    traffic_measure(t);
    uint64_t first = stats(1, TF_ROUTE_DATAGRAM).received_segments;
    ends_run_for(&t->ends, 500 * TF_MS);
    ck_assert_uint_ge(stats(1, TF_ROUTE_DATAGRAM).received_segments - first, 900);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    finish(TF_SECOND);
}
END_TEST

/* One direction of one route only: whatever the acks took, they take the other way. */
START_TEST(link_one_way_hole_leaves_no_gap)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    unsigned end = (unsigned)_i % 2;
    if (_i < 2) {
        net_pipe_of(t->ends.net, end)->hole = true;
    } else {
        net_path_of(t->ends.net, end)->hole = true;
    }
    ends_run_for(&t->ends, 4 * TF_SECOND);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    net_heal_stream(t->ends.net, end);
    datagram_hole(false);
    finish(5 * TF_SECOND);
}
END_TEST

START_TEST(link_slow_stream_does_not_slow_the_datagram)
{
    start(20 * TF_MS);
    net_pipe_of(t->ends.net, 0)->rate = 6000;
    net_pipe_of(t->ends.net, 0)->buffer = (size_t)16 * 1024;
    flow();
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    finish(10 * TF_SECOND);
}
END_TEST

START_TEST(link_slow_datagram_sheds_and_does_not_slow_the_stream)
{
    start(20 * TF_MS);
    net_path_of(t->ends.net, 0)->rate = 37500;
    net_path_of(t->ends.net, 0)->queue = 30000;
    flow();
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    ck_assert_uint_gt(stats(0, TF_ROUTE_DATAGRAM).shed, 10000);
    ck_assert_uint_gt(stats(1, TF_ROUTE_DATAGRAM).received_segments, 1000);
    finish(5 * TF_SECOND);
}
END_TEST

/* What the datagram had shed while it was slow is with a stream that is slow now and makes progress: it is no stall, and all
 * that follows by the datagram would wait for it. */
START_TEST(link_what_was_shed_does_not_wait_for_a_slow_stream)
{
    start(10 * TF_MS);
    traffic_start(t, 0, 2 * TF_MS, UINT64_MAX, 400, 400);
    ends_run_for(&t->ends, 300 * TF_MS);
    net_path_of(t->ends.net, 0)->rate = 37500;
    net_path_of(t->ends.net, 0)->queue = 30000;
    ends_run_for(&t->ends, 200 * TF_MS);
    net_pipe_of(t->ends.net, 0)->rate = 25000;
    net_pipe_of(t->ends.net, 0)->buffer = (size_t)64 * 1024;
    ends_run_for(&t->ends, 50 * TF_MS);
    net_path_of(t->ends.net, 0)->rate = 0;
    ck_assert_uint_gt(stats(0, TF_ROUTE_DATAGRAM).shed, 10);
    ends_run_for(&t->ends, TF_SECOND);
    traffic_measure(t);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_STREAM), TF_VERDICT_UP);
    ck_assert_uint_le(t->flow[0].longest_late, 4 * 10 * TF_MS + TF_COPY_OVERDUE);
    finish(5 * TF_SECOND);
}
END_TEST

/* --- one route only --- */

static void only_datagrams(tf_link_config *config, unsigned end)
{
    (void)end;
    config->send_data = TF_ROUTES_DATAGRAM;
    config->recv_data = TF_ROUTES_DATAGRAM;
}

static void only_stream(tf_link_config *config, unsigned end)
{
    (void)end;
    config->routes = TF_ROUTES_STREAM;
    config->send_data = TF_ROUTES_STREAM;
    config->recv_data = TF_ROUTES_STREAM;
}

START_TEST(link_datagrams_alone_carry_all_despite_loss_repeats_and_reordering)
{
    static const tf_time rtts[] = {TF_MS, 20 * TF_MS};
    tf_time rtt = rtts[_i];
    make(rtt);
    ends_start(&t->ends, only_datagrams);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
    loss(200);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path *path = net_path_of(t->ends.net, end);
        path->repeat = 100;
        path->late = 100;
        path->late_by = rtt;
    }
    flow();
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_ge(t->flow[0].got, 19800);
    ck_assert_uint_eq(t->flow[0].via[TF_ROUTE_STREAM], 0);
    ck_assert_uint_eq(stats(0, TF_ROUTE_STREAM).sent_segments, 0);
    ck_assert_uint_le(t->flow[0].longest_gap, rtt == TF_MS ? 50 * TF_MS - 1 : 5 * rtt + 50 * TF_MS);
    finish(2 * TF_SECOND);
}
END_TEST

START_TEST(link_datagrams_alone_go_on_without_the_stream)
{
    make(TF_MS);
    ends_start(&t->ends, only_datagrams);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    ends_cut(&t->ends, (const size_t[NET_ENDS]){0, 0}, (const tf_time[NET_ENDS]){TF_MS, TF_MS});
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_le(t->flow[0].longest_late, TF_MS);
    finish(2 * TF_SECOND);
}
END_TEST

START_TEST(link_stream_alone_is_supported)
{
    make(20 * TF_MS);
    t->ends.config.routes = TF_ROUTES_STREAM;
    ends_start(&t->ends, only_stream);
    ends_connect(&t->ends);
    traffic_start(t, 1, RATE_INTERVAL, UINT64_MAX, 0, 3000);
    flow();
    ends_run_for(&t->ends, 5 * TF_SECOND);
    ck_assert_uint_ge(t->flow[0].got, 9900);
    ck_assert_uint_ge(t->flow[1].got, 9900);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_ABSENT);
    ck_assert_uint_eq(t->ends.end[0].packets, 0);
    ck_assert_uint_eq(stats(0, TF_ROUTE_STREAM).repaired, 0);
    finish(2 * TF_SECOND);
}
END_TEST

/* --- both routes --- */

START_TEST(link_both_routes_dead_is_told_and_resumed)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    dialler.closed = true;
    stream_hole(true);
    datagram_hole(true);
    run_redialling(20 * TF_SECOND);
    ck_assert_uint_eq(t->ends.end[0].unreachable, 1);
    ck_assert_uint_eq(t->ends.end[1].unreachable, 1);
    ck_assert_uint_lt(t->flow[0].sent, t->flow[0].due); /* the ring is full, the rest waits */
    dialler.closed = false;
    stream_hole(false);
    datagram_hole(false);
    run_redialling(4 * TF_SECOND);
    tf_link_stats all;
    tf_link_get_stats(t->ends.end[0].link, &all);
    ck_assert_uint_eq(all.routes[TF_ROUTE_STREAM].verdict, TF_VERDICT_UP);
    ck_assert_uint_eq(all.routes[TF_ROUTE_DATAGRAM].verdict, TF_VERDICT_UP);
    traffic_stop(t, 0);
    run_redialling(2 * TF_SECOND);
    ck_assert(traffic_is_done(t));
    traffic_free(t);
}
END_TEST

START_TEST(link_flapping_routes_lose_nothing)
{
    start(20 * TF_MS);
    traffic_start(t, 1, 3 * TF_MS, UINT64_MAX, 0, 3000);
    flow();
    for (unsigned i = 0; i < 60; i++) {
        stream_hole(i % 2 == 0);
        datagram_hole(i % 2 == 1 && i % 4 == 1);
        run_redialling(500 * TF_MS);
    }
    stream_hole(false);
    datagram_hole(false);
    ck_assert_uint_lt(dialler.dials, 61);
    finish(5 * TF_SECOND);
}
END_TEST

START_TEST(link_new_keys_in_traffic_are_not_noticed)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    for (unsigned i = 0; i < 5; i++) {
        ends_connect(&t->ends); /* another generation of both routes */
        ends_run_for(&t->ends, TF_SECOND);
        ck_assert_uint_eq(t->ends.end[0].confirmed, t->ends.generation);
        ck_assert_uint_eq(t->ends.end[1].confirmed, t->ends.generation);
        ck_assert_uint_eq(t->ends.end[0].retired, i + 1);
        ck_assert_uint_eq(t->ends.end[1].retired, i + 1);
    }
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).lost, 0);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_unconfirmed_keys_never_cost_working_ones)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    stream_hole(true);
    for (unsigned i = 0; i < 20; i++) {
        ends_keys(&t->ends);
        ends_run_for(&t->ends, 5 * TF_MS); /* the next comes before the challenge can be answered */
    }
    ck_assert_uint_eq(t->ends.end[0].confirmed, 1);
    ck_assert_uint_eq(t->ends.end[0].retired, 19);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_eq(t->ends.end[0].confirmed, 21);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    stream_hole(false);
    finish(5 * TF_SECOND);
}
END_TEST

/* --- sizes --- */

START_TEST(link_largest_message_passes_by_any_route)
{
    make(TF_MS);
    ends_start(&t->ends, _i == 1 ? only_datagrams : _i == 2 ? only_stream : NULL);
    t->ends.config.routes = _i == 2 ? TF_ROUTES_STREAM : TF_ROUTES_BOTH;
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
    loss(_i == 2 ? 0 : 10);
    traffic_start(t, 0, 100 * TF_MS, 5, TF_MESSAGE_MAX, TF_MESSAGE_MAX);
    ends_run_for(&t->ends, 20 * TF_SECOND);
    ck_assert_uint_eq(t->flow[0].got, 5);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_message_larger_than_the_window_passes)
{
    make(TF_MS);
    tf_link_config *config = &t->ends.config;
    config->send_window_segments = _i == 0 ? 1 : 5;
    config->recv_window_segments = config->send_window_segments;
    config->send_window_bytes = _i == 0 ? TF_SEGMENT_DATA_MAX : 4000;
    config->recv_window_bytes = config->send_window_bytes;
    ends_start(&t->ends, NULL);
    ends_connect(&t->ends);
    traffic_start(t, 0, 50 * TF_MS, 20, 0, 30000);
    ends_run_for(&t->ends, 60 * TF_SECOND);
    ck_assert_uint_eq(t->flow[0].got, 20);
    finish(TF_SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link, one route is enough");
    TCase *tcase = tcase_create("paths/link, one route is enough");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, link_stream_hole_leaves_no_gap, 0, 2);
    tcase_add_test(tcase, link_stream_hole_at_any_moment_leaves_no_gap_of_50_ms);
    tcase_add_loop_test(tcase, link_stream_hole_and_loss_costs_round_trips, 0, 3);
    tcase_add_loop_test(tcase, link_tail_lost_while_stream_is_silent_is_repaired, 0, 3);
    tcase_add_test(tcase, link_single_messages_in_stream_hole_arrive_despite_loss);
    tcase_add_test(tcase, link_datagram_hole_is_not_noticed);
    tcase_add_loop_test(tcase, link_one_way_hole_leaves_no_gap, 0, 4);
    tcase_add_test(tcase, link_slow_stream_does_not_slow_the_datagram);
    tcase_add_test(tcase, link_slow_datagram_sheds_and_does_not_slow_the_stream);
    tcase_add_test(tcase, link_what_was_shed_does_not_wait_for_a_slow_stream);
    tcase_add_loop_test(tcase, link_datagrams_alone_carry_all_despite_loss_repeats_and_reordering, 0, 2);
    tcase_add_test(tcase, link_datagrams_alone_go_on_without_the_stream);
    tcase_add_test(tcase, link_stream_alone_is_supported);
    tcase_add_test(tcase, link_both_routes_dead_is_told_and_resumed);
    tcase_add_test(tcase, link_flapping_routes_lose_nothing);
    tcase_add_test(tcase, link_new_keys_in_traffic_are_not_noticed);
    tcase_add_test(tcase, link_unconfirmed_keys_never_cost_working_ones);
    tcase_add_loop_test(tcase, link_largest_message_passes_by_any_route, 0, 3);
    tcase_add_loop_test(tcase, link_message_larger_than_the_window_passes, 0, 2);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
