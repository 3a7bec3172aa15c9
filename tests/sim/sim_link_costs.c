/* Named scenarios, continued: what the link sends beyond what is needed, that it falls silent (P9), and what it tells (P10).
 * Times are virtual, so the bounds are exact and hold on any machine. */
#include "tests/sim/scenario.h"

/* --- what it costs --- */

START_TEST(link_after_a_hole_stream_sends_only_what_is_unacked)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    net_pipe_of(t->ends.net, 0)->buffer = (size_t)64 * 1024;
    stream_hole(true);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    traffic_stop(t, 0);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    uint64_t before = net_written(t->ends.net, 0);
    stream_hole(false);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    /* all was acked by the other route: probes and acks only */
    ck_assert_uint_le(net_written(t->ends.net, 0) - before, 2000);
    ck_assert_uint_gt(stats(0, TF_ROUTE_STREAM).retired, 2000);
    finish(TF_SECOND);
}
END_TEST

/* 100 kB/s through a hole of 4 s, and on: of what was acked meanwhile the stream gets nothing from the link; what the socket
 * had is the kernel's. */
START_TEST(link_after_a_hole_stream_goes_on_at_the_first_unacked_segment)
{
    start(20 * TF_MS);
    net_pipe_of(t->ends.net, 0)->buffer = (size_t)16 * 1024;
    traffic_start(t, 0, TF_MS, UINT64_MAX, MESSAGE, MESSAGE);
    ends_run_for(&t->ends, TF_SECOND);
    stream_hole(true);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    tf_link_stats before;
    tf_link_get_stats(t->ends.end[0].link, &before);
    ck_assert_uint_le(before.ring_segments, 50);
    stream_hole(false);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    tf_link_stats after;
    tf_link_get_stats(t->ends.end[0].link, &after);
    uint64_t written = after.routes[TF_ROUTE_STREAM].sent_segments - before.routes[TF_ROUTE_STREAM].sent_segments;
    ck_assert_uint_le(written, after.messages_sent - before.messages_sent + before.ring_segments);
    ck_assert_uint_ge(written, (after.messages_sent - before.messages_sent) * 9 / 10); /* it does its work again */
    ck_assert_uint_ge(after.routes[TF_ROUTE_STREAM].retired, 3500); /* of the 4000 in the hole */
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_new_stream_begins_at_the_first_unacked_segment)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    uint64_t before = stats(0, TF_ROUTE_STREAM).repaired;
    ends_cut(&t->ends, (const size_t[NET_ENDS]){0, 0}, (const tf_time[NET_ENDS]){TF_MS, TF_MS});
    ends_run_for(&t->ends, 3 * TF_SECOND);
    uint64_t unacked = tf_link_send_next(t->ends.end[0].link);
    ends_resume(&t->ends);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_gt(unacked, 0);
    ck_assert_uint_le(stats(0, TF_ROUTE_STREAM).repaired - before, 60); /* one round trip of messages */
    ck_assert_uint_le(t->flow[0].longest_late, 11 * TF_MS);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_falls_silent_and_gives_memory_back)
{
    start(20 * TF_MS);
    traffic_start(t, 1, RATE_INTERVAL, UINT64_MAX, 0, 20000);
    flow();
    ends_run_for(&t->ends, 2 * TF_SECOND);
    traffic_stop(t, 0);
    traffic_stop(t, 1);
    ends_run_for(&t->ends, 60 * TF_SECOND);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        ck_assert_uint_lt(t->ends.end[end].heap.live_bytes, 16384);
    }
    uint64_t packets = t->ends.end[0].packets;
    uint64_t written = net_written(t->ends.net, 0);
    uint64_t probes = stats(0, TF_ROUTE_DATAGRAM).probes + stats(0, TF_ROUTE_STREAM).probes;
    ends_run_for(&t->ends, 10 * TF_KEEPALIVE);
    ck_assert_uint_le(stats(0, TF_ROUTE_DATAGRAM).probes + stats(0, TF_ROUTE_STREAM).probes - probes, 20);
    ck_assert_uint_le(t->ends.end[0].packets - packets, 30); /* probe, answer, ack */
    ck_assert_uint_le(net_written(t->ends.net, 0) - written, 1200);
    finish(TF_SECOND);
}
END_TEST

/* --- what it tells --- */

static void silent_datagrams(tf_link_config *config, unsigned end)
{
    if (end == 0) {
        config->send_data = TF_ROUTES_STREAM; /* end 1 does not know */
    }
}

/* What the peer does not send is its choice, as long as something comes. */
START_TEST(link_peer_without_copies_is_not_judged)
{
    make(TF_MS);
    ends_start(&t->ends, silent_datagrams);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
    traffic_start(t, 0, 10 * TF_MS, UINT64_MAX, MESSAGE, MESSAGE);
    uint64_t probes = stats(1, TF_ROUTE_DATAGRAM).probes;
    ends_run_for(&t->ends, 60 * TF_SECOND);
    probes = stats(1, TF_ROUTE_DATAGRAM).probes - probes;
    ck_assert_uint_le(probes, 90);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        ck_assert_uint_eq(t->ends.end[end].redundancy_lost[TF_ROUTE_DATAGRAM], 0);
        ck_assert_uint_eq(t->ends.end[end].redundancy_lost[TF_ROUTE_STREAM], 0);
    }
    ck_assert_uint_eq(stats(1, TF_ROUTE_STREAM).only, 0);
    finish(TF_SECOND);
}
END_TEST

START_TEST(link_counts_first_copies_repeats_and_rescues)
{
    start(TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    loss(200);
    ends_run_for(&t->ends, 4 * TF_SECOND);
    traffic_stop(t, 0);
    ends_run_for(&t->ends, 60 * TF_SECOND);
    tf_route_stats stream = stats(1, TF_ROUTE_STREAM);
    tf_route_stats datagram = stats(1, TF_ROUTE_DATAGRAM);
    uint64_t messages = t->flow[0].due;
    ck_assert_uint_eq(stream.first + datagram.first, messages);
    ck_assert_uint_eq(stream.received_segments, messages);
    ck_assert_uint_eq(stream.first + stream.repeats, stream.received_segments);
    ck_assert_uint_eq(datagram.first + datagram.repeats, datagram.received_segments);
    ck_assert_uint_eq(stats(0, TF_ROUTE_STREAM).sent_segments, messages);
    ck_assert_uint_eq(stats(0, TF_ROUTE_STREAM).sent_bytes, messages * MESSAGE);
    ck_assert_uint_eq(datagram.received_bytes, datagram.received_segments * MESSAGE);
    uint64_t missing = messages - datagram.received_segments; /* some 20 % of 8000 */
    ck_assert_uint_gt(missing, 1400);
    ck_assert_uint_eq(stream.only, missing);
    ck_assert_uint_eq(datagram.only, 0);
    uint64_t lost = stats(0, TF_ROUTE_DATAGRAM).lost;
    ck_assert_uint_ge(lost, missing);
    ck_assert_uint_le(lost, missing + missing / 10); /* probes were lost as well */
    traffic_free(t);
}
END_TEST

START_TEST(link_tells_round_trip_loss_and_flight)
{
    start(20 * TF_MS);
    flow();
    ends_run_for(&t->ends, TF_SECOND);
    tf_route_stats clean = stats(0, TF_ROUTE_DATAGRAM);
    ck_assert_uint_eq(clean.rtt_min, 20 * TF_MS);
    ck_assert_uint_ge(clean.rtt_latest, clean.rtt_min);
    ck_assert_uint_ge(clean.srtt, clean.rtt_min);
    ck_assert_uint_le(clean.rtt_var, 10 * TF_MS);
    ck_assert_uint_gt(clean.rtt_samples, 100);
    ck_assert_uint_eq(clean.loss_ppm, 0);
    ck_assert_uint_gt(clean.in_flight, 0);
    ck_assert_uint_le(clean.in_flight, clean.cwnd);
    tf_route_stats stream = stats(0, TF_ROUTE_STREAM);
    ck_assert_uint_eq(stream.rtt_min, 20 * TF_MS);
    ck_assert_uint_eq(stream.loss_ppm, 0);
    ck_assert_uint_eq(stream.cwnd, 0);
    loss(200);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 100; i++) {
        ends_run_for(&t->ends, 100 * TF_MS);
        sum += i < 10 ? 0 : stats(0, TF_ROUTE_DATAGRAM).loss_ppm;
    }
    ck_assert_uint_gt(sum / 90, 170000);
    ck_assert_uint_lt(sum / 90, 230000);
    loss(0);
    ends_run_for(&t->ends, 2 * TF_SECOND);
    ck_assert_uint_lt(stats(0, TF_ROUTE_DATAGRAM).loss_ppm, 1000);
    finish(TF_SECOND);
}
END_TEST

/* --- the peer's address --- */

START_TEST(link_new_address_is_taken_unless_the_old_one_answers)
{
    static const struct {
        bool old_dead;
        bool new_dead;
        bool moved;
    } rows[] = {{false, false, false}, {true, false, true}, {false, true, false}, {true, true, false}};
    start(20 * TF_MS);
    ends_end *end = &t->ends.end[0];
    end->old_address_dead = rows[_i].old_dead;
    end->candidate_dead = rows[_i].new_dead;
    uint64_t packets = end->packets;
    tf_link_datagram_moved(end->link, net_now(t->ends.net));
    tf_link_datagram_moved(end->link, net_now(t->ends.net)); /* a test goes on already */
    ends_pull(&t->ends, 0);
    ck_assert_uint_eq(end->packets - packets, 2);
    ck_assert_uint_eq(end->candidates, 1);
    ends_run_for(&t->ends, TF_SECOND);
    ck_assert_uint_eq(end->moved[0], rows[_i].moved ? 0 : 1);
    ck_assert_uint_eq(end->moved[1], rows[_i].moved ? 1 : 0);
    end->old_address_dead = false;
    finish(15 * TF_SECOND);
}
END_TEST

START_TEST(link_old_address_has_time_to_answer_however_short_round_trips_were)
{
    start(5 * TF_MS);
    ends_end *end = &t->ends.end[0];
    end->old_address_dead = true;
    tf_link_datagram_moved(end->link, net_now(t->ends.net));
    ends_run_for(&t->ends, 600 * TF_MS);
    ck_assert_uint_eq(end->moved[0] + end->moved[1], 0);
    ck_assert(tf_link_datagram_move_answered(end->link));
    end->old_address_dead = false;
    ends_run_for(&t->ends, 300 * TF_MS);
    ck_assert_uint_eq(end->moved[0], 1);
    ck_assert_uint_eq(end->moved[1], 0);
    finish(15 * TF_SECOND);
}
END_TEST

START_TEST(link_address_under_test_is_asked_under_the_newest_keys_too)
{
    start(20 * TF_MS);
    ends_end *end = &t->ends.end[0];
    net_path_of(t->ends.net, 0)->hole = true;
    ends_connect(&t->ends); /* another generation, which cannot be confirmed yet */
    ends_run_for(&t->ends, 5 * TF_MS);
    uint64_t packets = end->packets;
    tf_link_datagram_moved(end->link, net_now(t->ends.net));
    ends_pull(&t->ends, 0);
    ck_assert_uint_eq(end->packets - packets, 5); /* the peer may have no other keys any more */
    ck_assert_uint_eq(end->candidates, 2);
    net_path_of(t->ends.net, 0)->hole = false;
    finish(15 * TF_SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link, costs and reports");
    TCase *tcase = tcase_create("paths/link, costs and reports");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, link_after_a_hole_stream_sends_only_what_is_unacked);
    tcase_add_test(tcase, link_after_a_hole_stream_goes_on_at_the_first_unacked_segment);
    tcase_add_test(tcase, link_new_stream_begins_at_the_first_unacked_segment);
    tcase_add_test(tcase, link_falls_silent_and_gives_memory_back);
    tcase_add_test(tcase, link_peer_without_copies_is_not_judged);
    tcase_add_test(tcase, link_counts_first_copies_repeats_and_rescues);
    tcase_add_test(tcase, link_tells_round_trip_loss_and_flight);
    tcase_add_loop_test(tcase, link_new_address_is_taken_unless_the_old_one_answers, 0, 4);
    tcase_add_test(tcase, link_old_address_has_time_to_answer_however_short_round_trips_were);
    tcase_add_test(tcase, link_address_under_test_is_asked_under_the_newest_keys_too);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
