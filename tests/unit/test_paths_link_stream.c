/* The stream slot of paths/link (PROTOCOL.md L6, L8): when it stalls and flows again, and what it counts. */
#include "tests/unit/link_peer.h"

/* A stream alone, with round trips of 20 ms. */
static void make(link_peer *p)
{
    link_peer_defaults(p);
    p->config.routes = TF_ROUTES_STREAM;
    link_peer_new(p);
    tf_link_stream_up(p->link, p->now, 1);
    for (unsigned i = 0; i < 100; i++) {
        tf_link_probe(p->link, p->now);
        (void)link_peer_pull_stream(p);
        tf_frame pong = link_peer_token(TF_FRAME_PONG, link_peer_get(p, TF_FRAME_PING)->u.token);
        link_peer_wait(p, 20 * TF_MS);
        ck_assert_int_eq(link_peer_send_one(p, pong), TF_OK);
    }
    link_peer_drain(p);
}

/* The peer has `count` of the segments that this generation of the stream brought. */
static void tell(link_peer *p, uint64_t generation, uint64_t count)
{
    tf_frame ack = link_peer_ack(0);
    ack.u.link_ack.route_count = 1;
    ack.u.link_ack.routes[0] = (tf_route_count){
        .route = TF_ROUTE_STREAM, .generation = generation, .first = count / 2, .repeats = count - count / 2};
    ck_assert_int_eq(link_peer_send_one(p, ack), TF_OK);
}

/* Nothing but time passes until the verdict is another one; for how long. */
static tf_time wait_for_verdict(link_peer *p, tf_verdict verdict)
{
    tf_time before = p->now;
    while (tf_link_verdict(p->link, TF_ROUTE_STREAM) == TF_VERDICT_UP) {
        tf_time due = tf_link_deadline(p->link);
        ck_assert_uint_gt(due, p->now);
        link_peer_wait(p, due - p->now);
    }
    ck_assert_int_eq(tf_link_verdict(p->link, TF_ROUTE_STREAM), verdict);
    return p->now - before;
}

static tf_time stall_span(const link_peer *p)
{
    const tf_route_stats stats = link_peer_stats(p, TF_ROUTE_STREAM);
    return tf_time_max(2 * stats.srtt + 4 * stats.rtt_var + 25 * TF_MS, 30 * TF_MS);
}

START_TEST(stream_stalls_when_what_was_written_is_not_counted)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    (void)link_peer_pull_stream(&p);
    p.now += 5 * TF_MS;
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    (void)link_peer_pull_stream(&p);
    tell(&p, 1, 1); /* it makes progress: from here on it counts */
    p.now += 5 * TF_MS;
    tell(&p, 1, 1); /* none, */
    tell(&p, 2, 9); /* nor is that of another stream */
    ck_assert_uint_eq(wait_for_verdict(&p, TF_VERDICT_STALLED), stall_span(&p) - 5 * TF_MS);
    (void)link_peer_pull_stream(&p);
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING)); /* it is asked */
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    (void)link_peer_pull_stream(&p);
    tell(&p, 1, 1);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_STALLED);
    tell(&p, 1, 2); /* all that was written before it stalled */
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

START_TEST(stream_stalls_when_the_socket_takes_nothing)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert_uint_eq(wait_for_verdict(&p, TF_VERDICT_STALLED), stall_span(&p));
    link_peer_free(&p);
}
END_TEST

/* Also with what waited for it. */
START_TEST(stream_that_is_new_stalls_when_the_socket_takes_nothing)
{
    link_peer p;
    make(&p);
    tf_link_stream_down(p.link, p.now);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    tf_link_stream_up(p.link, p.now, 2);
    ck_assert_uint_eq(wait_for_verdict(&p, TF_VERDICT_STALLED), stall_span(&p));
    link_peer_free(&p);
}
END_TEST

START_TEST(stream_without_anything_outstanding_does_not_stall)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    (void)link_peer_pull_stream(&p);
    tell(&p, 1, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(1)), TF_OK);
    for (unsigned i = 0; i < 20; i++) {
        link_peer_wait(&p, 10 * TF_MS);
        ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    }
    link_peer_free(&p);
}
END_TEST

/* The other route has brought it meanwhile. */
START_TEST(stream_that_need_not_write_any_more_does_not_stall)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(1)), TF_OK);
    link_peer_wait(&p, stall_span(&p) + TF_MS);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

/* One that revives and has not brought yet what it had before is not trusted with messages alone. */
START_TEST(stream_that_revives_flows_when_it_has_caught_up)
{
    link_peer p;
    make(&p);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    (void)link_peer_pull_stream(&p);
    uint64_t token = 0;
    while (tf_link_verdict(p.link, TF_ROUTE_STREAM) != TF_VERDICT_DOWN) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        (void)link_peer_pull_stream(&p);
        token = link_peer_find(&p, TF_FRAME_PING) != NULL ? link_peer_get(&p, TF_FRAME_PING)->u.token : token;
    }
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, token)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_STALLED);
    tell(&p, 1, 2);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_STALLED);
    tell(&p, 1, 3);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

START_TEST(stream_that_revives_with_nothing_outstanding_flows)
{
    link_peer p;
    make(&p);
    uint64_t token = 0;
    tf_link_probe(p.link, p.now);
    while (tf_link_verdict(p.link, TF_ROUTE_STREAM) != TF_VERDICT_DOWN) {
        (void)link_peer_pull_stream(&p);
        token = link_peer_find(&p, TF_FRAME_PING) != NULL ? link_peer_get(&p, TF_FRAME_PING)->u.token : token;
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
    }
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, token)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

START_TEST(stream_down_stops_what_it_was_waited_for)
{
    link_peer p;
    make(&p);
    tf_link_probe(p.link, p.now);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    (void)link_peer_pull_stream(&p);
    const uint64_t token = link_peer_get(&p, TF_FRAME_PING)->u.token;
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    tf_link_stream_down(p.link, p.now);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).lost, 1); /* the other one never went */
    ck_assert_uint_eq(tf_link_deadline(p.link), p.now + TF_SECOND);  /* until it is unreachable */
    tf_link_stream_down(p.link, p.now);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).lost, 1);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).downs, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, token)), TF_OK); /* read before its end */
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    link_peer_free(&p);
}
END_TEST

START_TEST(stream_counts_what_went_twice_and_what_need_not_go)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.first_seq = 10;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    ck_assert(link_peer_pull_packet(&p));
    tf_link_stats stats;
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_DATAGRAM].retired, 0); /* numbers before the first were none */
    tf_frame ack = link_peer_ack(13);
    ack.u.link_ack.range_count = 1;
    ack.u.link_ack.ranges[0] = (tf_range){14, 14};
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, ack), TF_OK);
    (void)link_peer_pull_stream(&p);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).retired, 4);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).sent_segments, 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).sent_bytes, 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).repaired, 0);
    tf_link_stream_up(p.link, p.now, 2);
    (void)link_peer_pull_stream(&p);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).repaired, 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).lost, 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).retired, 5);
    link_peer_free(&p);
}
END_TEST

/* P3, and "a message may be larger than the window": what the peer says it has in a resume makes room like any ack. */
START_TEST(stream_resume_lets_a_waiting_message_go_on)
{
    static uint8_t bytes[5 * TF_SEGMENT_DATA_MAX];
    link_peer p;
    link_peer_defaults(&p);
    p.config.send_window_segments = 2;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, sizeof(bytes))), TF_OK);
    link_peer_drain(&p);
    tf_link_stream_down(p.link, p.now);
    ck_assert_uint_eq(tf_link_send_next(p.link), 2);
    ck_assert_int_eq(tf_link_resume(p.link, p.now, 2), TF_OK);
    ck_assert_uint_eq(tf_link_send_next(p.link), 4);
    link_peer_free(&p);
}
END_TEST

/* What came by the one before is no progress of this one. */
START_TEST(stream_that_is_new_is_judged_by_its_own_counts)
{
    link_peer p;
    make(&p);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    (void)link_peer_pull_stream(&p);
    tell(&p, 1, 3);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(3)), TF_OK);
    tf_link_stream_up(p.link, p.now, 2);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    (void)link_peer_pull_stream(&p);
    tell(&p, 1, 9); /* late */
    ck_assert_uint_eq(wait_for_verdict(&p, TF_VERDICT_STALLED), stall_span(&p));
    tell(&p, 2, 1);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

/* What fits the window waits until it has room; what is larger goes piece by piece, and is taken when nothing else waits. */
START_TEST(stream_room_is_that_of_the_window)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    const size_t window = p.config.send_window_bytes;
    ck_assert(tf_link_has_room(p.link, window));
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert(tf_link_has_room(p.link, window - 1));
    ck_assert(!tf_link_has_room(p.link, window));
    ck_assert(tf_link_has_room(p.link, window + 1));
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        stream_stalls_when_what_was_written_is_not_counted,
        stream_stalls_when_the_socket_takes_nothing,
        stream_that_is_new_stalls_when_the_socket_takes_nothing,
        stream_without_anything_outstanding_does_not_stall,
        stream_that_need_not_write_any_more_does_not_stall,
        stream_that_revives_flows_when_it_has_caught_up,
        stream_that_revives_with_nothing_outstanding_flows,
        stream_down_stops_what_it_was_waited_for,
        stream_counts_what_went_twice_and_what_need_not_go,
        stream_resume_lets_a_waiting_message_go_on,
        stream_that_is_new_is_judged_by_its_own_counts,
        stream_room_is_that_of_the_window,
        NULL,
    };
    return tf_test_run("paths/link, stream", tests);
}
