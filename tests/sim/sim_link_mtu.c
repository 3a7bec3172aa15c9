/* Named scenarios of the path MTU: two links on a datagram path whose MTU differs by direction and changes in mid-run.
 * Times are virtual, so the bounds are exact and hold on any machine. */
#include "tests/sim/scenario.h"

#define IP_1280 (1280u - 28u) /* UDP payload that an IP packet of 1280 bytes holds */
#define LARGE_MIN 1250u       /* messages that fill one packet above the base size */
#define LARGE_MAX 1400u

static void set_mtu(size_t mtu)
{
    net_path_of(t->ends.net, 0)->mtu = mtu;
    net_path_of(t->ends.net, 1)->mtu = mtu;
}

static uint64_t mtu(unsigned end)
{
    return stats(end, TF_ROUTE_DATAGRAM).mtu;
}

static uint64_t falls(unsigned end)
{
    return stats(end, TF_ROUTE_DATAGRAM).mtu_falls;
}

static void only_datagrams(tf_link_config *config, unsigned end)
{
    (void)end;
    config->send_data = TF_ROUTES_DATAGRAM;
    config->recv_data = TF_ROUTES_DATAGRAM;
}

static void start_with(tf_time rtt, bool datagrams_alone)
{
    make(rtt);
    ends_start(&t->ends, datagrams_alone ? only_datagrams : NULL);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
}

static void large_flow(tf_time interval)
{
    traffic_start(t, 0, interval, UINT64_MAX, LARGE_MIN, LARGE_MAX);
}

START_TEST(link_mtu_is_found_for_each_direction_once_data_flows)
{
    make(20 * TF_MS);
    net_path_of(t->ends.net, 0)->mtu = 1400;
    net_path_of(t->ends.net, 1)->mtu = 1472;
    ends_start(&t->ends, NULL);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 60 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), TF_PACKET_BASE);
    ck_assert_uint_eq(mtu(1), TF_PACKET_BASE);
    traffic_start(t, 0, TF_MS, 1, MESSAGE, MESSAGE);
    traffic_start(t, 1, TF_MS, 1, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), 1392);
    ck_assert_uint_eq(mtu(1), 1472);
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).lost, 0); /* probes are no loss, */
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).loss_ppm, 0);
    ck_assert_uint_ge(stats(0, TF_ROUTE_DATAGRAM).cwnd, TF_CWND_INITIAL); /* and no congestion */
    ck_assert_uint_eq(falls(0) + falls(1), 0);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_mtu_of_a_path_lets_packets_carry_several_segments)
{
    start_with(20 * TF_MS, true);
    large_flow(TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
    tf_route_stats before = stats(0, TF_ROUTE_DATAGRAM);
    ends_run_for(&t->ends, TF_SECOND);
    tf_route_stats after = stats(0, TF_ROUTE_DATAGRAM);
    ck_assert_uint_ge(after.sent_segments - before.sent_segments, 1990);
    ck_assert_uint_le(after.sent_packets - before.sent_packets, 1100); /* else 2 for each message */
    finish(TF_SECOND);
}
END_TEST

/* Idle links send no probes; a larger size is tried after 600 s, if there was data. */
START_TEST(link_mtu_is_raised_with_data_only)
{
    start_with(20 * TF_MS, false);
    set_mtu(1300);
    traffic_start(t, 0, TF_MS, 1, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 20 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), 1252);
    set_mtu(0);
    uint64_t bytes = t->ends.end[0].frames_bytes;
    ends_run_for(&t->ends, 2 * TF_MTU_RAISE);
    ck_assert_uint_eq(mtu(0), 1252);
    ck_assert_uint_le(t->ends.end[0].frames_bytes - bytes, 2 * TF_MTU_RAISE / TF_KEEPALIVE * 1000);
    traffic_start(t, 0, TF_MS, 2, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
    finish(TF_SECOND);
}
END_TEST

/* While the stream flows nobody notices; alone, each loss costs what a loss costs. */
START_TEST(link_mtu_hole_in_mid_run_heals)
{
    static const struct {
        tf_time rtt;
        tf_time interval;
        bool alone;
    } rows[] = {{20 * TF_MS, TF_MS, false},     {20 * TF_MS, TF_MS, true},       {TF_MS, TF_MS, true},
                {20 * TF_MS, 50 * TF_MS, true}, {20 * TF_MS, 500 * TF_MS, true}, {80 * TF_MS, 5 * TF_MS, true}};
    tf_time rtt = rows[_i].rtt;
    start_with(rtt, rows[_i].alone);
    large_flow(rows[_i].interval);
    ends_run_for(&t->ends, 3 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
    traffic_measure(t);
    set_mtu(IP_1280);
    ends_run_for(&t->ends, 10 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), 1252);
    ck_assert_uint_eq(falls(0), 1);
    ck_assert_uint_le(t->flow[0].longest_late, rows[_i].alone ? 4 * rtt + 50 * TF_MS : rtt / 2 + TF_MS);
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).downs, 0);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_mtu_hole_with_a_stream_hole_costs_round_trips)
{
    start_with(20 * TF_MS, false);
    large_flow(2 * TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    traffic_measure(t);
    set_mtu(IP_1280);
    stream_hole(true);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    ck_assert_uint_le(t->flow[0].longest_late, 5 * 20 * TF_MS + 50 * TF_MS);
    ck_assert_uint_eq(mtu(0), 1252);
    stream_hole(false);
    finish(5 * TF_SECOND);
}
END_TEST

START_TEST(link_mtu_is_not_lowered_by_random_loss)
{
    start_with(20 * TF_MS, _i == 1);
    ends_run_for(&t->ends, 100 * TF_MS);
    large_flow(5 * TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    loss(200);
    uint64_t lower = 0;
    for (unsigned i = 0; i < 3000; i++) {
        ends_run_for(&t->ends, 10 * TF_MS);
        lower += mtu(0) < 1452 ? 1 : 0;
    }
    ck_assert_uint_le(lower, 90); /* 3 % of the time */
    ck_assert_uint_ge(mtu(0), 1452);
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).downs, 0);
    finish(5 * TF_SECOND);
}
END_TEST

/* A hole takes packets of all sizes. A short one may take no small one: then the size comes back with the first probe. */
START_TEST(link_mtu_is_not_lowered_by_holes_of_the_path)
{
    start_with(20 * TF_MS, _i == 1);
    large_flow(2 * TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    for (unsigned i = 1; i < 30; i++) {
        uint64_t before = falls(0);
        datagram_hole(true);
        ends_run_for(&t->ends, i * 10 * TF_MS);
        ck_assert_uint_eq(falls(0), before);
        datagram_hole(false);
        ends_run_for(&t->ends, TF_SECOND);
        ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
        ck_assert_uint_le(falls(0), before + 1);
    }
    finish(5 * TF_SECOND);
}
END_TEST

/* --- below the base size --- */

START_TEST(link_mtu_below_the_base_packet_leaves_all_to_the_stream)
{
    make(20 * TF_MS);
    net_path_of(t->ends.net, 0)->mtu = 1000;
    ends_start(&t->ends, NULL);
    ends_connect(&t->ends);
    large_flow(TF_MS);
    ends_run_for(&t->ends, 5 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).sent_segments, 0);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    set_mtu(0);
    ends_run_for(&t->ends, 1500 * TF_MS);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
    finish(TF_SECOND);
}
END_TEST

/* Small packets still pass, and the probes of the route among them. */
START_TEST(link_mtu_that_falls_below_the_base_packet_takes_the_route_down)
{
    start(20 * TF_MS);
    large_flow(TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    net_path_of(t->ends.net, 0)->mtu = 1000;
    ends_run_for(&t->ends, 2 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    ends_run_for(&t->ends, 60 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).downs, 1);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    ck_assert_int_eq(verdict(1, TF_ROUTE_DATAGRAM), TF_VERDICT_UP); /* the other direction is well */
    set_mtu(0);
    ends_run_for(&t->ends, 12 * TF_SECOND);
    ck_assert_int_eq(verdict(0, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
    finish(TF_SECOND);
}
END_TEST

/* --- what begins anew --- */

START_TEST(link_mtu_is_unknown_at_a_new_address)
{
    start(20 * TF_MS);
    large_flow(TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_eq(mtu(0), TF_PACKET_MAX);
    t->ends.end[0].old_address_dead = true;
    tf_link_datagram_moved(t->ends.end[0].link, net_now(t->ends.net));
    ends_pull(&t->ends, 0);
    set_mtu(1400);
    net_path_of(t->ends.net, 0)->delay = 30 * TF_MS;
    ck_assert_uint_eq(stats(0, TF_ROUTE_DATAGRAM).rtt_min, 20 * TF_MS);
    for (unsigned i = 0; i < 2000 && t->ends.end[0].moved[1] == 0; i++) {
        ends_run_for(&t->ends, TF_MS);
    }
    ck_assert_uint_eq(t->ends.end[0].moved[1], 1);
    ck_assert_uint_eq(mtu(0), TF_PACKET_BASE);
    t->ends.end[0].old_address_dead = false;
    ends_run_for(&t->ends, 3 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), 1392);
    ck_assert_uint_ge(stats(0, TF_ROUTE_DATAGRAM).rtt_min, 40 * TF_MS); /* nor is the round trip */
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    finish(15 * TF_SECOND);
}
END_TEST

START_TEST(link_mtu_is_unknown_under_new_keys)
{
    start(20 * TF_MS);
    large_flow(TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    set_mtu(1300);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 3 * TF_SECOND);
    ck_assert_uint_eq(mtu(0), 1252);
    ck_assert_uint_eq(falls(0), 0);
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    finish(TF_SECOND);
}
END_TEST

/* The device refuses what is larger: told, it is as if these packets had never been sent. */
START_TEST(link_mtu_that_the_system_refuses_costs_no_time)
{
    start_with(20 * TF_MS, true);
    large_flow(2 * TF_MS);
    ends_run_for(&t->ends, TF_SECOND);
    traffic_measure(t);
    set_mtu(1300);
    ends_run_for(&t->ends, 5 * TF_MS);
    tf_link_datagram_refused(t->ends.end[0].link, net_now(t->ends.net), 1301);
    ends_pull(&t->ends, 0);
    ck_assert_uint_eq(mtu(0), TF_PACKET_BASE);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_eq(mtu(0), 1252);
    ck_assert_uint_le(t->flow[0].longest_late, 18 * TF_MS);
    finish(TF_SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link, path MTU");
    TCase *tcase = tcase_create("paths/link, path MTU");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, link_mtu_is_found_for_each_direction_once_data_flows);
    tcase_add_test(tcase, link_mtu_of_a_path_lets_packets_carry_several_segments);
    tcase_add_test(tcase, link_mtu_is_raised_with_data_only);
    tcase_add_loop_test(tcase, link_mtu_hole_in_mid_run_heals, 0, 6);
    tcase_add_test(tcase, link_mtu_hole_with_a_stream_hole_costs_round_trips);
    tcase_add_loop_test(tcase, link_mtu_is_not_lowered_by_random_loss, 0, 2);
    tcase_add_loop_test(tcase, link_mtu_is_not_lowered_by_holes_of_the_path, 0, 2);
    tcase_add_test(tcase, link_mtu_below_the_base_packet_leaves_all_to_the_stream);
    tcase_add_test(tcase, link_mtu_that_falls_below_the_base_packet_takes_the_route_down);
    tcase_add_test(tcase, link_mtu_is_unknown_at_a_new_address);
    tcase_add_test(tcase, link_mtu_is_unknown_under_new_keys);
    tcase_add_test(tcase, link_mtu_that_the_system_refuses_costs_no_time);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
