/* What paths/link tells: each event once, in the order in which things happened, and nothing that did not. */
#include "tests/unit/link_peer.h"

/* Takes events up to the first of this type; false: there is none. */
static bool told(link_peer *p, tf_link_event_type type, tf_link_event *event)
{
    while (tf_link_next_event(p->link, event)) {
        if (event->type == type) {
            return true;
        }
    }
    return false;
}

static bool told_unreachable(link_peer *p)
{
    tf_link_event event;
    return told(p, TF_LINK_EVENT_UNREACHABLE, &event);
}

START_TEST(report_of_a_new_link_is_empty)
{
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    ck_assert(!tf_link_next_event(p.link, &event));
    ck_assert_uint_eq(tf_link_deadline(p.link), TF_NEVER);
    link_peer_wait(&p, 100 * TF_SECOND); /* and never to have been there is no failure */
    ck_assert(!tf_link_next_event(p.link, &event));
    ck_assert_uint_eq(tf_link_deadline(p.link), TF_NEVER);
    link_peer_free(&p);
}
END_TEST

START_TEST(report_tells_a_verdict_and_the_one_before)
{
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 3);
    ck_assert(tf_link_next_event(p.link, &event));
    ck_assert_int_eq(event.type, TF_LINK_EVENT_VERDICT);
    ck_assert_int_eq(event.route, TF_ROUTE_STREAM);
    ck_assert_int_eq(event.before, TF_VERDICT_ABSENT);
    ck_assert_int_eq(event.verdict, TF_VERDICT_UP);
    ck_assert_uint_eq(event.generation, 3);
    tf_link_datagram_up(p.link, p.now, 3);
    ck_assert(tf_link_next_event(p.link, &event));
    ck_assert_int_eq(event.route, TF_ROUTE_DATAGRAM);
    ck_assert_int_eq(event.before, TF_VERDICT_ABSENT);
    ck_assert_int_eq(event.verdict, TF_VERDICT_JOINING);
    tf_link_stream_down(p.link, p.now);
    tf_link_stream_up(p.link, p.now, 4); /* what changed in between is no news any more */
    ck_assert(!tf_link_next_event(p.link, &event));
    tf_link_stream_down(p.link, p.now);
    ck_assert(tf_link_next_event(p.link, &event));
    ck_assert_int_eq(event.before, TF_VERDICT_UP);
    ck_assert_int_eq(event.verdict, TF_VERDICT_DOWN);
    ck_assert_uint_eq(event.generation, 4);
    tf_link_stats stats;
    const tf_time down = p.now;
    link_peer_wait(&p, TF_MS);
    tf_link_get_stats(p.link, &stats);
    ck_assert_int_eq(stats.routes[TF_ROUTE_STREAM].verdict, TF_VERDICT_DOWN);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].since, down);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].downs, 2);
    link_peer_free(&p);
}
END_TEST

START_TEST(report_names_every_generation_that_is_retired)
{
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    for (uint64_t generation = 1; generation <= 4; generation++) {
        tf_link_datagram_up(p.link, p.now, generation); /* the one before was not confirmed */
    }
    for (uint64_t generation = 1; generation <= 3; generation++) {
        ck_assert(tf_link_next_event(p.link, &event));
        ck_assert_int_eq(event.type, TF_LINK_EVENT_RETIRED);
        ck_assert_uint_eq(event.generation, generation);
    }
    ck_assert(!told(&p, TF_LINK_EVENT_RETIRED, &event));
    link_peer_free(&p);
}
END_TEST

/* --- nobody is there (L8) --- */

START_TEST(report_unreachable_comes_after_2_s_without_any_route)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.routes = TF_ROUTES_STREAM;
    link_peer_new(&p);
    for (uint64_t generation = 1; generation < 4; generation++) {
        tf_link_stream_up(p.link, p.now, generation);
        link_peer_drain(&p);
        ck_assert(!told_unreachable(&p));
        p.now += TF_SECOND;
        tf_link_stream_down(p.link, p.now);
        tf_time down = p.now;
        for (unsigned i = 1; i < 200; i++) { /* however often it looks */
            link_peer_wait(&p, 10 * TF_MS);
            ck_assert_uint_le(tf_link_deadline(p.link), down + 2 * TF_SECOND);
            ck_assert(!told_unreachable(&p));
        }
        link_peer_wait(&p, 10 * TF_MS);
        ck_assert_uint_eq(p.now, down + 2 * TF_SECOND);
        ck_assert(told_unreachable(&p));
        ck_assert(!told_unreachable(&p));
        ck_assert_uint_eq(tf_link_deadline(p.link), TF_NEVER);
        link_peer_wait(&p, 100 * TF_SECOND); /* once */
        ck_assert(!told_unreachable(&p));
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(report_unreachable_does_not_come_when_a_route_came_back)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.routes = TF_ROUTES_STREAM;
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 1);
    for (uint64_t generation = 2; generation < 9; generation++) {
        tf_link_stream_down(p.link, p.now);
        link_peer_wait(&p, 2 * TF_SECOND - 1);
        tf_link_stream_up(p.link, p.now, generation);
        link_peer_wait(&p, TF_MS);
        ck_assert(!told_unreachable(&p));
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(report_unreachable_does_not_come_while_a_route_is_up)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 1);
    tf_link_stream_down(p.link, p.now);
    link_peer_wait(&p, TF_SECOND / 2);
    tf_link_stream_up(p.link, p.now, 2);
    for (unsigned i = 0; i < 40; i++) {
        (void)link_peer_pull_stream(&p);
        const tf_frame *ping = link_peer_find(&p, TF_FRAME_PING);
        if (ping != NULL) {
            ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, ping->u.token)), TF_OK);
        }
        link_peer_wait(&p, TF_SECOND / 2);
        ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
        ck_assert(!told_unreachable(&p));
    }
    link_peer_free(&p);
}
END_TEST

/* One route that comes and goes does not hide that the other one never does. */
START_TEST(report_unreachable_comes_when_all_routes_failed_three_times)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    for (uint64_t generation = 1; generation <= TF_UNREACHABLE_FAILURES; generation++) {
        ck_assert(!told_unreachable(&p));
        tf_link_stream_up(p.link, p.now, generation);
        link_peer_drain(&p);
        tf_link_stream_down(p.link, p.now);
    }
    ck_assert(told_unreachable(&p));
    tf_link_stream_up(p.link, p.now, 9);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(1)), TF_OK); /* data that arrived is real progress */
    tf_link_stream_down(p.link, p.now);
    ck_assert(!told_unreachable(&p));
    link_peer_wait(&p, TF_SECOND);
    ck_assert(!told_unreachable(&p));
    link_peer_wait(&p, TF_SECOND);
    ck_assert(told_unreachable(&p));
    link_peer_free(&p);
}
END_TEST

/* However often it fails after that, until something arrived. */
START_TEST(report_unreachable_comes_once)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    for (uint64_t generation = 1; generation <= 3 * TF_UNREACHABLE_FAILURES; generation++) {
        tf_link_stream_up(p.link, p.now, generation);
        link_peer_drain(&p);
        tf_link_stream_down(p.link, p.now);
        ck_assert_int_eq(told_unreachable(&p), generation == TF_UNREACHABLE_FAILURES);
    }
    link_peer_free(&p);
}
END_TEST

/* --- the end --- */

START_TEST(report_of_a_closed_link_is_over)
{
    link_peer p;
    tf_link_event event;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    tf_link_close(p.link, p.now, TF_CLOSE_DRAINING, tf_slice_str("bye"));
    for (unsigned i = 0; i < 10; i++) {
        link_peer_wait(&p, 10 * TF_SECOND);
        ck_assert(!tf_link_next_event(p.link, &event));
        ck_assert_uint_eq(tf_link_deadline(p.link), TF_NEVER);
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(report_of_the_peers_end_has_its_reason)
{
    static const char reason[] = "abc";
    for (size_t len = 0; len <= 3; len++) {
        link_peer p;
        tf_link_event event = {.type = TF_LINK_EVENT_VERDICT};
        tf_frame frame = {.type = TF_FRAME_CLOSE};
        frame.u.close = (tf_close){.code = TF_CLOSE_DRAINING, .reason = tf_slice_of(reason, len)};
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        ck_assert_int_eq(link_peer_send_one(&p, frame), TF_OK);
        while (event.type != TF_LINK_EVENT_CLOSED) {
            ck_assert(tf_link_next_event(p.link, &event));
        }
        ck_assert(event.code == TF_CLOSE_DRAINING && tf_slice_eq(event.reason, tf_slice_of(reason, len)));
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(report_of_the_end_is_as_long_as_it_may_be)
{
    char reason[TF_CLOSE_REASON_MAX + 1];
    memset(reason, 'a', sizeof(reason));
    for (size_t len = TF_CLOSE_REASON_MAX - 1; len <= TF_CLOSE_REASON_MAX + 1; len++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        tf_link_close(p.link, p.now, TF_CLOSE_DRAINING, tf_slice_of(reason, len));
        ck_assert_uint_eq(link_peer_pull_stream(&p), 1);
        ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_CLOSE)->u.close.reason.len,
                          len < TF_CLOSE_REASON_MAX ? len : TF_CLOSE_REASON_MAX);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(report_of_the_end_is_the_first)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_link_close(p.link, p.now, TF_CLOSE_DRAINING, tf_slice_str("bye"));
    tf_link_close(p.link, p.now, TF_CLOSE_REFUSED, tf_slice_str("and stay away"));
    ck_assert_uint_eq(link_peer_pull_stream(&p), 1);
    const tf_close *end = &link_peer_get(&p, TF_FRAME_CLOSE)->u.close;
    ck_assert(end->code == TF_CLOSE_DRAINING && tf_slice_eq(end->reason, tf_slice_str("bye")));
    ck_assert(link_peer_pull_packet(&p));
    tf_link_close(p.link, p.now, TF_CLOSE_REFUSED, tf_slice_str("once more"));
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert(!link_peer_pull_packet(&p));
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        report_of_a_new_link_is_empty,
        report_tells_a_verdict_and_the_one_before,
        report_names_every_generation_that_is_retired,
        report_unreachable_comes_after_2_s_without_any_route,
        report_unreachable_does_not_come_when_a_route_came_back,
        report_unreachable_does_not_come_while_a_route_is_up,
        report_unreachable_comes_when_all_routes_failed_three_times,
        report_unreachable_comes_once,
        report_of_a_closed_link_is_over,
        report_of_the_peers_end_has_its_reason,
        report_of_the_end_is_as_long_as_it_may_be,
        report_of_the_end_is_the_first,
        NULL,
    };
    return tf_test_run("paths/link, reports", tests);
}
