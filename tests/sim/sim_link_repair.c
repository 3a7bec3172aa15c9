/* How long the repair of a lost datagram takes when no stream carries: in the midst of a flow, at the end of a burst, alone.
 * Times are virtual, so the bounds are exact and hold on any machine. */
#include "tests/sim/scenario.h"

#define RTT (20 * TF_MS)

static void only_datagrams(tf_link_config *config, unsigned end)
{
    (void)end;
    config->send_data = TF_ROUTES_DATAGRAM;
    config->recv_data = TF_ROUTES_DATAGRAM;
}

static void start_without_stream(bool dead)
{
    make(RTT);
    ends_start(&t->ends, dead ? NULL : only_datagrams);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
    if (dead) {
        traffic_start(t, 0, 2 * TF_MS, 400, MESSAGE, MESSAGE);
        ends_run_for(&t->ends, 200 * TF_MS);
        stream_hole(true);
        ends_run_for(&t->ends, TF_SECOND);
    }
    traffic_measure(t);
}

/* 5 % loss both ways: 999 of 1000 messages within 3 round trips, all within 5. */
START_TEST(link_loss_costs_a_round_trip)
{
    static const struct {
        tf_time interval;
        bool dead;
    } rows[] = {{2 * TF_MS, false}, {500, false}, {2 * TF_MS, true}, {500, true}};
    start_without_stream(rows[_i].dead);
    loss(50);
    t->flow[0].late_limit = 3 * RTT;
    uint64_t before = t->flow[0].got;
    uint64_t count = 20 * TF_SECOND / rows[_i].interval;
    traffic_start(t, 0, rows[_i].interval, count, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 21 * TF_SECOND);
    ck_assert_uint_eq(t->flow[0].got, before + count);
    ck_assert_uint_le(t->flow[0].late * 1000, count);
    ck_assert_uint_le(t->flow[0].longest_late, 5 * RTT);
    stream_hole(false);
    finish(3 * TF_SECOND);
}
END_TEST

/* Nothing follows that could show the loss. */
START_TEST(link_single_message_that_is_lost_costs_little_more)
{
    start_without_stream(false);
    loss(50);
    t->flow[0].late_limit = 2 * RTT;
    traffic_start(t, 0, 97 * TF_MS, 2000, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 200 * TF_SECOND);
    ck_assert_uint_eq(t->flow[0].got, 2000);
    ck_assert_uint_le(t->flow[0].late, 20); /* some 100 are lost once, and of the repairs (two copies) hardly one */
    ck_assert_uint_le(t->flow[0].longest_late, 4 * RTT);
    finish(TF_SECOND);
}
END_TEST

/* Nothing is lost, but most packets are overtaken: the answer to a loss that was none may not keep the window closed. */
START_TEST(link_reordering_costs_no_more_than_the_delay_of_the_last)
{
    make(RTT);
    ends_start(&t->ends, only_datagrams);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
    traffic_measure(t);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(t->ends.net, end)->jitter = 4 * RTT;
    }
    traffic_start(t, 0, 2 * TF_MS, 5000, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, 11 * TF_SECOND);
    ck_assert_uint_eq(t->flow[0].got, 5000);
    ck_assert_uint_le(t->flow[0].longest_late, 5 * RTT);
    finish(3 * TF_SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link, repair");
    TCase *tcase = tcase_create("paths/link, repair");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, link_loss_costs_a_round_trip, 0, 4);
    tcase_add_test(tcase, link_single_message_that_is_lost_costs_little_more);
    tcase_add_test(tcase, link_reordering_costs_no_more_than_the_delay_of_the_last);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
