/* A route on standby (PROTOCOL.md L7): it has probes and answers only, carries as soon as no other route flows, and for
 * 1 s after another one flows again. */
#include "tests/unit/link_peer.h"

static void make(link_peer *p, tf_routes standby)
{
    link_peer_defaults(p);
    p->config.standby = standby;
    link_peer_new(p);
    link_peer_up(p, 1);
}

/* How many segments go by the route now. */
static size_t pulled(link_peer *p, tf_route route)
{
    size_t segments = 0;
    if (route == TF_ROUTE_STREAM) {
        while (link_peer_pull_stream(p) > 0) {
            segments += link_peer_count(p, TF_FRAME_SEGMENT);
        }
        return segments;
    }
    while (link_peer_pull_packet(p)) {
        segments += link_peer_count(p, TF_FRAME_SEGMENT);
    }
    return segments;
}

/* The peer holds all, and its acks and answers come by the stream. */
static void ack_all(link_peer *p)
{
    tf_frame ack = link_peer_ack(tf_link_send_next(p->link));
    ack.u.link_ack.route_count = 1;
    ack.u.link_ack.routes[0] = (tf_route_count){.route = TF_ROUTE_STREAM, .generation = 1, .first = 1u << 20};
    ck_assert_int_eq(link_peer_send_one(p, ack), TF_OK);
    ck_assert_int_eq(link_peer_send_one(p, link_peer_packet_ack(1, 0, p->packet.number)), TF_OK);
}

START_TEST(standby_route_has_no_segments_while_another_flows)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link_peer p;
        tf_route route = (tf_route)i;
        tf_route other = route == TF_ROUTE_STREAM ? TF_ROUTE_DATAGRAM : TF_ROUTE_STREAM;
        make(&p, (tf_routes)(1u << i));
        link_peer_wait(&p, 2 * TF_SECOND); /* it carried until the other one was up */
        for (unsigned k = 0; k < 5; k++) {
            ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
            ck_assert_uint_eq(pulled(&p, route), 0);
            ck_assert_uint_ge(pulled(&p, other), 1);
            ack_all(&p);
        }
        ck_assert_uint_eq(link_peer_stats(&p, route).sent_segments, 0);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(standby_route_that_is_the_only_one_carries)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link_peer p;
        link_peer_defaults(&p);
        p.config.send_data = (tf_routes)(1u << i);
        p.config.standby = TF_ROUTES_BOTH;
        link_peer_new(&p);
        link_peer_up(&p, 1);
        link_peer_wait(&p, 2 * TF_SECOND);
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
        ck_assert_uint_eq(pulled(&p, (tf_route)i), 1);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(standby_datagrams_carry_without_a_stream_and_a_second_longer)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM);
    link_peer_wait(&p, 2 * TF_SECOND);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    ck_assert_uint_eq(pulled(&p, TF_ROUTE_STREAM), 4);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(2)), TF_OK);
    ck_assert_uint_eq(pulled(&p, TF_ROUTE_DATAGRAM), 0);
    tf_link_stream_down(p.link, p.now);
    ck_assert(link_peer_pull_packet(&p)); /* at once, from the first that is not acked */
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_SEGMENT)->u.segment.seq, 2);
    link_peer_drain(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).retired, 0); /* what was acked was never meant for it */
    tf_link_stream_up(p.link, p.now, 1);
    ack_all(&p);
    link_peer_drain(&p);
    const tf_time flows = p.now;
    ck_assert_uint_le(tf_link_deadline(p.link), flows + TF_STANDBY_BACK);
    link_peer_wait(&p, TF_STANDBY_BACK - 1);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert_uint_ge(pulled(&p, TF_ROUTE_DATAGRAM), 1);
    ck_assert_uint_eq(pulled(&p, TF_ROUTE_STREAM), 1);
    ack_all(&p);
    link_peer_wait(&p, 1);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
        ck_assert_uint_eq(pulled(&p, TF_ROUTE_DATAGRAM), 0);
        ck_assert_uint_eq(pulled(&p, TF_ROUTE_STREAM), 1);
        ack_all(&p);
        link_peer_wait(&p, 10 * TF_MS);
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(standby_stream_carries_when_datagrams_are_down)
{
    link_peer p;
    make(&p, TF_ROUTES_STREAM);
    link_peer_wait(&p, 2 * TF_SECOND);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    ck_assert_uint_ge(pulled(&p, TF_ROUTE_DATAGRAM), 4);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(2)), TF_OK);
    ck_assert_uint_eq(pulled(&p, TF_ROUTE_STREAM), 0);
    tf_link_datagram_down(p.link, p.now);
    (void)link_peer_pull_stream(&p);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_SEGMENT)->u.segment.seq, 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_STREAM).retired, 0);
    link_peer_free(&p);
}
END_TEST

/* Takes what goes out now, and answers its probes. */
static void answer(link_peer *p)
{
    while (link_peer_pull_stream(p) > 0) {
        const tf_frame *ping = link_peer_find(p, TF_FRAME_PING);
        if (ping != NULL) {
            ck_assert_int_eq(link_peer_send_one(p, link_peer_token(TF_FRAME_PONG, ping->u.token)), TF_OK);
        }
    }
    while (link_peer_pull_packet(p)) {
        const tf_frame *ping = link_peer_find(p, TF_FRAME_PING);
        if (ping != NULL) {
            ck_assert_int_eq(link_peer_send_packet_one(p, 1, link_peer_token(TF_FRAME_PONG, ping->u.token)), TF_OK);
        }
    }
    ack_all(p);
}

START_TEST(standby_route_has_no_acks_while_another_flows)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link_peer p;
        make(&p, (tf_routes)(1u << i));
        link_peer_wait(&p, 2 * TF_SECOND);
        answer(&p);
        link_peer_wait(&p, 100 * TF_MS); /* what came with the answers is acked */
        link_peer_drain(&p);
        tf_frame message = link_peer_message(0, "x");
        tf_err err = i == TF_ROUTE_DATAGRAM ? link_peer_send_one(&p, message) : link_peer_send_packet_one(&p, 1, message);
        ck_assert_int_eq(err, TF_OK);
        link_peer_wait(&p, 2 * TF_LINK_ACK_DELAY);
        (void)link_peer_pull_stream(&p);
        ck_assert_int_eq(link_peer_find(&p, TF_FRAME_LINK_ACK) != NULL, i == TF_ROUTE_DATAGRAM);
        (void)link_peer_pull_packet(&p);
        ck_assert_int_eq(link_peer_find(&p, TF_FRAME_LINK_ACK) != NULL, i == TF_ROUTE_STREAM);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(standby_route_is_probed_once_a_second_while_there_is_traffic)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link_peer p;
        tf_route route = (tf_route)i;
        make(&p, (tf_routes)(1u << i));
        link_peer_wait(&p, 2 * TF_SECOND);
        answer(&p);
        uint64_t before = link_peer_stats(&p, route).probes;
        for (unsigned k = 0; k < 2000; k++) {
            ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
            answer(&p);
            link_peer_wait(&p, 10 * TF_MS);
        }
        uint64_t probes = link_peer_stats(&p, route).probes - before;
        ck_assert_uint_ge(probes, 19);
        ck_assert_uint_le(probes, 24);
        before += probes;
        for (unsigned k = 0; k < 500; k++) {
            link_peer_wait(&p, 10 * TF_MS);
            answer(&p);
        }
        ck_assert_uint_le(link_peer_stats(&p, route).probes - before, 1);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(standby_route_goes_back_at_its_time_where_nothing_else_is_due)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM);
    link_peer_wait(&p, 2 * TF_SECOND);
    answer(&p);
    tf_link_stream_down(p.link, p.now);
    answer(&p);
    tf_link_stream_up(p.link, p.now, 2);
    answer(&p);
    const tf_time back = p.now + TF_STANDBY_BACK;
    while (tf_link_deadline(p.link) < back) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        answer(&p);
    }
    ck_assert_uint_eq(tf_link_deadline(p.link), back);
    link_peer_free(&p);
}
END_TEST

/* What flows by the other route does so whether there is a stream or not. */
START_TEST(standby_stream_that_is_new_is_on_standby_at_once)
{
    link_peer p;
    make(&p, TF_ROUTES_STREAM);
    link_peer_wait(&p, 2 * TF_SECOND);
    link_peer_drain(&p);
    ack_all(&p);
    for (uint64_t generation = 2; generation < 5; generation++) {
        tf_link_stream_down(p.link, p.now);
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
        ck_assert_uint_ge(pulled(&p, TF_ROUTE_DATAGRAM), 1);
        link_peer_wait(&p, TF_MS);
        tf_link_stream_up(p.link, p.now, generation);
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
        ck_assert_uint_eq(pulled(&p, TF_ROUTE_STREAM), 0);
        ck_assert_uint_ge(pulled(&p, TF_ROUTE_DATAGRAM), 1);
        ack_all(&p);
    }
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        standby_route_has_no_segments_while_another_flows,
        standby_route_that_is_the_only_one_carries,
        standby_route_has_no_acks_while_another_flows,
        standby_datagrams_carry_without_a_stream_and_a_second_longer,
        standby_stream_carries_when_datagrams_are_down,
        standby_route_is_probed_once_a_second_while_there_is_traffic,
        standby_route_goes_back_at_its_time_where_nothing_else_is_due,
        standby_stream_that_is_new_is_on_standby_at_once,
        NULL,
    };
    return tf_test_run("paths/link, standby", tests);
}
