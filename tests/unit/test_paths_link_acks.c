/* paths/link, one end of it, against a peer played by the test: acks, and verdicts on routes. */
#include "tests/unit/link_peer.h"

/* --- acks --- */

START_TEST(link_acks_are_delayed_merged_and_go_by_both_routes)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "zero")), TF_OK);
    link_peer_expect(&p, "zero", TF_ROUTE_DATAGRAM);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert(!link_peer_pull_packet(&p));
    tf_time due = tf_link_deadline(p.link);
    ck_assert_uint_eq(due, p.now + TF_LINK_ACK_DELAY);
    link_peer_wait(&p, TF_LINK_ACK_DELAY);
    ck_assert(link_peer_pull_packet(&p));
    const tf_frame *ack = link_peer_get(&p, TF_FRAME_LINK_ACK);
    ck_assert_ptr_nonnull(ack);
    ck_assert_uint_eq(ack->u.link_ack.floor, 1);
    ck_assert_uint_eq(ack->u.link_ack.route_count, 1);
    ck_assert_uint_eq(ack->u.link_ack.routes[0].route, TF_ROUTE_DATAGRAM);
    ck_assert_uint_eq(ack->u.link_ack.routes[0].generation, 1);
    ck_assert_uint_eq(ack->u.link_ack.routes[0].first, 1);
    ck_assert_uint_eq(ack->u.link_ack.routes[0].bytes, 4);
    const tf_frame *packets = link_peer_get(&p, TF_FRAME_PACKET_ACK);
    ck_assert_ptr_nonnull(packets);
    ck_assert_uint_eq(packets->u.packet_ack.ranges[0].last, p.number - 1);
    ck_assert_uint_eq(packets->u.packet_ack.delay, TF_LINK_ACK_DELAY);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 2);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_LINK_ACK)->u.link_ack.floor, 1);
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PACKET_ACK));
    ck_assert(!link_peer_pull_packet(&p)); /* an ack is not acked, and not repeated */
    link_peer_free(&p);
}
END_TEST

START_TEST(link_acks_every_2_packets_and_32_segments)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "x")), TF_OK);
    ck_assert(!link_peer_pull_packet(&p));
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(1, "x")), TF_OK);
    link_peer_expect(&p, "x", TF_ROUTE_DATAGRAM);
    link_peer_expect(&p, "x", TF_ROUTE_DATAGRAM);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_LINK_ACK)->u.link_ack.floor, 2);
    for (uint64_t seq = 2; seq < 2 + TF_LINK_ACK_SEGMENTS; seq++) {
        ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(seq, "x")), TF_OK);
        link_peer_expect(&p, "x", TF_ROUTE_STREAM);
    }
    ck_assert_uint_ge(link_peer_pull_stream(&p), 1);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_LINK_ACK)->u.link_ack.floor, 2 + TF_LINK_ACK_SEGMENTS);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_gap_in_packet_numbers_is_acked_at_once)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    p.number += 2;
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(1, "x")), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    const tf_frame *ack = link_peer_get(&p, TF_FRAME_LINK_ACK);
    ck_assert_uint_eq(ack->u.link_ack.floor, 0);
    ck_assert_uint_eq(ack->u.link_ack.range_count, 1);
    ck_assert_uint_eq(ack->u.link_ack.ranges[0].first, 1);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_PACKET_ACK)->u.packet_ack.range_count, 2);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_probe_is_answered_at_once_with_an_ack)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PING, 77)), TF_OK);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 2);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_PONG)->u.token, 77);
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_LINK_ACK));
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PING, 78)), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_PONG)->u.token, 78);
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_LINK_ACK));
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PACKET_ACK));
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_CHALLENGE, 79)), TF_OK);
    (void)link_peer_pull_stream(&p);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_RESPONSE)->u.token, 79); /* by the stream: it is up */
    link_peer_free(&p);
}
END_TEST

START_TEST(link_padding_is_acked_at_once)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_frame frames[2] = {link_peer_message(0, "x"), {.type = TF_FRAME_PADDING}};
    ck_assert_int_eq(link_peer_send_packet(&p, 1, frames, 2), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_PACKET_ACK)->u.packet_ack.delay, 0);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, frames[1]), TF_OK); /* nothing in it obliges one */
    ck_assert(!link_peer_pull_packet(&p));
    link_peer_free(&p);
}
END_TEST

/* Where no stream carries, the last packet of a burst asks for an ack at once. */
START_TEST(link_last_packet_of_a_burst_asks_for_its_ack)
{
    static const uint8_t bytes[3 * TF_SEGMENT_DATA_MAX];
    for (unsigned carries = 0; carries < 2; carries++) {
        link_peer p;
        link_peer_defaults(&p);
        p.config.send_data = carries == 1 ? TF_ROUTES_DATAGRAM : TF_ROUTES_BOTH;
        link_peer_new(&p);
        link_peer_up(&p, 1);
        ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, sizeof(bytes) - 5)), TF_OK);
        (void)link_peer_pull_stream(&p);
        for (unsigned i = 0; i < 3; i++) {
            ck_assert(link_peer_pull_packet(&p));
            ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 1);
            bool asks = link_peer_find(&p, TF_FRAME_PADDING) != NULL;
            ck_assert_int_eq(asks, carries == 1 && i == 2);
        }
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(link_old_acks_change_nothing)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    link_peer_drain(&p);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(3)), TF_OK);
    tf_frame old = link_peer_ack(0);
    old.u.link_ack.range_count = 2;
    old.u.link_ack.ranges[0] = (tf_range){1, 1};
    old.u.link_ack.ranges[1] = (tf_range){3, 3};
    ck_assert_int_eq(link_peer_send_one(&p, old), TF_OK); /* merged: 3 is news */
    tf_link_stats stats;
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.ring_segments, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(4)), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(2)), TF_OK);
    ck_assert(tf_link_is_quiet(p.link));
    link_peer_free(&p);
}
END_TEST

/* --- verdicts --- */

START_TEST(link_unanswered_probes_take_a_route_down)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    unsigned probes = 0;
    for (unsigned i = 0; i < 200 && tf_link_verdict(p.link, TF_ROUTE_STREAM) != TF_VERDICT_DOWN; i++) {
        link_peer_wait(&p, 10 * TF_MS);
        while (link_peer_pull_stream(&p) > 0) {
            probes += link_peer_count(&p, TF_FRAME_PING) > 0 ? 1 : 0;
        }
    }
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    ck_assert_uint_eq(probes, TF_PROBES_DOWN - 1); /* the first one went when the stream came up */
    /* its bytes show one direction only: it is asked at once, and the answer revives it */
    p.now += 100 * TF_MS;
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(0)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    link_peer_pull_stream(&p);
    tf_frame pong = link_peer_token(TF_FRAME_PONG, link_peer_get(&p, TF_FRAME_PING)->u.token);
    ck_assert_int_eq(link_peer_send_one(&p, pong), TF_OK);
    ck_assert_int_ne(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_asked_for_probe_goes_by_every_route)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    ck_assert_uint_eq(tf_link_heard(p.link), 0);
    link_peer_up(&p, 1);
    ck_assert_uint_eq(tf_link_heard(p.link), p.now);
    tf_link_stats before;
    tf_link_stats after;
    tf_link_get_stats(p.link, &before);
    tf_link_probe(p.link, p.now);
    (void)link_peer_pull_stream(&p);
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING));
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING));
    tf_link_get_stats(p.link, &after);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        ck_assert_uint_eq(after.routes[i].probes, before.routes[i].probes + 1);
    }
    uint64_t number = 99;
    ck_assert(tf_link_packet_acked(p.link, 1, &number));
    ck_assert_uint_eq(number, 0);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(1, p.packet.number, p.packet.number)), TF_OK);
    ck_assert(tf_link_packet_acked(p.link, 1, &number));
    ck_assert_uint_eq(number, p.packet.number);
    ck_assert(!tf_link_packet_acked(p.link, 2, &number));
    link_peer_free(&p);
}
END_TEST

START_TEST(link_each_probe_has_its_own_round_trip)
{
    link_peer p;
    tf_time rtt = 0;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    uint64_t first = tf_link_next_probe(p.link, TF_ROUTE_STREAM);
    uint64_t tokens[10];
    for (size_t i = 0; i < 10; i++) {
        ck_assert_uint_eq(tf_link_next_probe(p.link, TF_ROUTE_STREAM), first + i);
        ck_assert(!tf_link_probe_rtt(p.link, TF_ROUTE_STREAM, first + i, &rtt));
        tf_link_probe(p.link, p.now);
        (void)link_peer_pull_stream(&p);
        tokens[i] = link_peer_get(&p, TF_FRAME_PING)->u.token;
        ck_assert(!tf_link_probe_rtt(p.link, TF_ROUTE_STREAM, first + i, &rtt));
        p.now += TF_MS;
    }
    static const size_t answered[] = {9, 2, 9,
                                      0}; /* in any order; a second answer and one that is too late tell nothing */
    for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++) {
        p.now += 100 * TF_MS;
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, tokens[answered[i]])), TF_OK);
    }
    ck_assert(tf_link_probe_rtt(p.link, TF_ROUTE_STREAM, first + 9, &rtt));
    ck_assert_uint_eq(rtt, 101 * TF_MS);
    ck_assert(tf_link_probe_rtt(p.link, TF_ROUTE_STREAM, first + 2, &rtt));
    ck_assert_uint_eq(rtt, 208 * TF_MS);
    ck_assert(!tf_link_probe_rtt(p.link, TF_ROUTE_STREAM, first, &rtt));
    ck_assert(!tf_link_probe_rtt(p.link, TF_ROUTE_STREAM, first + 5, &rtt));
    ck_assert(!tf_link_probe_rtt(p.link, TF_ROUTE_DATAGRAM, first + 9, &rtt));
    link_peer_free(&p);
}
END_TEST

static void tell(link_peer *p, uint8_t route, uint64_t generation, uint64_t first, uint64_t repeats)
{
    tf_frame ack = link_peer_ack(0);
    ack.u.link_ack.route_count = 1;
    ack.u.link_ack.routes[0] =
        (tf_route_count){.route = route, .generation = generation, .first = first, .repeats = repeats};
    ck_assert_int_eq(link_peer_send_one(p, ack), TF_OK);
}

START_TEST(link_tells_which_of_its_copies_won_at_the_peer)
{
    link_peer p;
    tf_link_stats stats;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tell(&p, TF_ROUTE_STREAM, 1, 10, 2);
    tell(&p, TF_ROUTE_DATAGRAM, 1, 2, 10);
    tell(&p, TF_ROUTE_STREAM, 1, 9, 1); /* an older one */
    tell(&p, TF_ROUTE_STREAM, 3, 5, 1); /* they begin anew with the generation */
    tell(&p, TF_ROUTE_STREAM, 1, 99, 99);
    tell(&p, TF_ROUTE_STREAM, 3, 5, 2);
    tell(&p, TF_ROUTE_STREAM, 3, 6, 2);
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].told_first, 16);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].told_repeats, 4);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_DATAGRAM].told_first, 2);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_DATAGRAM].told_repeats, 10);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_silent_peer_is_down_after_its_idle_limit)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.keepalive = 3600 * TF_SECOND; /* we do not ask */
    p.config.routes = TF_ROUTES_STREAM;
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 1);
    (void)link_peer_pull_stream(&p);
    uint64_t token = link_peer_get(&p, TF_FRAME_PING)->u.token;
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, token)), TF_OK);
    link_peer_wait(&p, 3 * TF_KEEPALIVE - 1);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_wait(&p, 1);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_stalls_when_the_peer_counts_nothing)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    tf_frame ack = link_peer_ack(1); /* it came by the other route; the stream is silent */
    ack.u.link_ack.route_count = 1;
    ack.u.link_ack.routes[0] = (tf_route_count){.route = TF_ROUTE_DATAGRAM, .generation = 1, .bytes = 1, .first = 1};
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, ack), TF_OK);
    link_peer_wait(&p, TF_SECOND);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_STALLED);
    tf_frame late = link_peer_ack(1);
    late.u.link_ack.route_count = 1;
    late.u.link_ack.routes[0] = (tf_route_count){.route = TF_ROUTE_STREAM, .generation = 1, .bytes = 1, .repeats = 1};
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, late), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

/* What nobody looks at in between is due by the link's own deadline. */
START_TEST(link_silence_is_noticed_by_the_deadline)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.keepalive = 3600 * TF_SECOND;
    p.config.routes = TF_ROUTES_STREAM;
    link_peer_new(&p);
    tf_link_stream_up(p.link, p.now, 1);
    (void)link_peer_pull_stream(&p);
    uint64_t token = link_peer_get(&p, TF_FRAME_PING)->u.token;
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PONG, token)), TF_OK);
    tf_time heard = p.now;
    while (tf_link_verdict(p.link, TF_ROUTE_STREAM) == TF_VERDICT_UP) {
        tf_time due = tf_link_deadline(p.link);
        ck_assert_uint_gt(due, p.now);
        ck_assert_uint_le(due, heard + 3 * TF_KEEPALIVE);
        link_peer_wait(&p, due - p.now);
        link_peer_drain(&p);
    }
    ck_assert_uint_eq(p.now, heard + 3 * TF_KEEPALIVE);
    link_peer_free(&p);
}
END_TEST

/* As many repeats as first copies are two numbers, not none. */
START_TEST(link_ack_counts_first_copies_and_repeats)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "zero")), TF_OK);
    }
    ck_assert(link_peer_pull_packet(&p));
    const tf_link_ack *ack = &link_peer_get(&p, TF_FRAME_LINK_ACK)->u.link_ack;
    ck_assert_uint_eq(ack->route_count, 1);
    ck_assert_uint_eq(ack->routes[0].first, 1);
    ck_assert_uint_eq(ack->routes[0].repeats, 1);
    ck_assert_uint_eq(ack->routes[0].bytes, 8);
    link_peer_free(&p);
}
END_TEST

/* An ack that finds no room is owed until it has gone, and then no more (P9). */
START_TEST(link_ack_without_room_goes_with_the_next)
{
    for (unsigned packets = 0; packets < 2; packets++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        if (packets == 1) {
            p.number += 2; /* two ranges, of which one goes where there is not more room */
            ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PING, 7)), TF_OK);
        } else {
            ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(0, "x")), TF_OK);
        }
        link_peer_wait(&p, TF_LINK_ACK_DELAY);
        size_t acks = 0;
        for (size_t cap = 0; cap < 200; cap++) {
            p.out_len = tf_link_pull_stream(p.link, p.now, p.out, cap);
            link_peer_parse(&p);
            acks += link_peer_count(&p, packets == 1 ? TF_FRAME_PACKET_ACK : TF_FRAME_LINK_ACK);
        }
        ck_assert_uint_eq(acks, 1);
        link_peer_drain(&p);
        ck_assert_uint_gt(tf_link_deadline(p.link), p.now);
        for (unsigned i = 0; i < 10; i++) {
            link_peer_wait(&p, TF_LINK_ACK_DELAY);
            (void)link_peer_pull_stream(&p);
            ck_assert_ptr_null(link_peer_find(&p, TF_FRAME_LINK_ACK));
            (void)link_peer_pull_packet(&p);
            ck_assert_ptr_null(link_peer_find(&p, TF_FRAME_LINK_ACK));
        }
        link_peer_free(&p);
    }
}
END_TEST

/* Each ack begins the count anew. */
START_TEST(link_acks_go_after_every_second_packet_again)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (uint64_t seq = 0; seq < 10; seq++) {
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(seq, "x")), TF_OK);
        link_peer_expect(&p, "x", TF_ROUTE_DATAGRAM);
        ck_assert_int_eq(link_peer_pull_packet(&p), seq % 2 == 1);
    }
    for (uint64_t seq = 10; seq < 10 + 3 * (uint64_t)TF_LINK_ACK_SEGMENTS; seq++) {
        if (seq == 10) {
            link_peer_drain(&p);
        }
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(seq, "x")), TF_OK);
        link_peer_expect(&p, "x", TF_ROUTE_STREAM);
        ck_assert_int_eq(link_peer_pull_stream(&p) > 0, (seq - 9) % TF_LINK_ACK_SEGMENTS == 0);
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(link_ack_counts_are_those_of_the_newest_generation)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (uint64_t generation = 2; generation < 5; generation++) {
        tf_link_stream_up(p.link, p.now, generation);
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(generation, "abc")), TF_OK);
        link_peer_wait(&p, TF_LINK_ACK_DELAY);
        (void)link_peer_pull_stream(&p);
        const tf_link_ack *ack = &link_peer_get(&p, TF_FRAME_LINK_ACK)->u.link_ack;
        ck_assert_uint_eq(ack->route_count, 1);
        ck_assert_uint_eq(ack->routes[0].generation, generation);
        ck_assert_uint_eq(ack->routes[0].first, 1);
        ck_assert_uint_eq(ack->routes[0].bytes, 3);
    }
    link_peer_free(&p);
}
END_TEST

/* L4: what asks for an answer has its ack at once; an answer may wait. */
START_TEST(link_ack_of_what_asks_does_not_wait)
{
    static const struct {
        tf_frame_type type;
        bool at_once;
    } rows[] = {{TF_FRAME_PING, true}, {TF_FRAME_CHALLENGE, true}, {TF_FRAME_PONG, false}, {TF_FRAME_RESPONSE, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(rows[i].type, 7)), TF_OK);
        bool any = link_peer_pull_packet(&p);
        ck_assert_int_eq(any && link_peer_find(&p, TF_FRAME_PACKET_ACK) != NULL, rows[i].at_once);
        ck_assert_int_eq(any && link_peer_find(&p, TF_FRAME_LINK_ACK) != NULL, rows[i].at_once);
        link_peer_wait(&p, TF_LINK_ACK_DELAY);
        any = link_peer_pull_packet(&p);
        ck_assert_int_eq(any && link_peer_find(&p, TF_FRAME_PACKET_ACK) != NULL, !rows[i].at_once);
        link_peer_free(&p);
    }
}
END_TEST

/* What a route owes that is not there is due at no time: nobody could ever send it (P9). */
START_TEST(link_ack_by_a_route_that_is_not_there_is_not_due)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        if (i == TF_ROUTE_STREAM) {
            tf_link_stream_up(p.link, p.now, 1);
            link_peer_wait(&p, 0);
            ck_assert_uint_eq(link_peer_pull_stream(&p), 1); /* a probe: nothing is owed yet */
            ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING));
            ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(0, "x")), TF_OK);
        } else {
            link_peer_up(&p, 1);
            tf_link_stream_down(p.link, p.now);
            ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "x")), TF_OK);
        }
        ck_assert_uint_le(tf_link_deadline(p.link), p.now + TF_LINK_ACK_DELAY);
        link_peer_wait(&p, TF_LINK_ACK_DELAY);
        ck_assert_int_eq(link_peer_pull_stream(&p) > 0, i == TF_ROUTE_STREAM);
        ck_assert_int_eq(link_peer_pull_packet(&p), i == TF_ROUTE_DATAGRAM);
        ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_LINK_ACK), i == TF_ROUTE_DATAGRAM ? 1 : 0);
        ck_assert_uint_gt(tf_link_deadline(p.link), p.now);
        link_peer_free(&p);
    }
}
END_TEST

/* L4: by a route that is down only when none is up. */
START_TEST(link_ack_goes_by_a_route_that_is_down_only_without_another)
{
    for (unsigned other = 0; other < 2; other++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        tf_link_datagram_down(p.link, p.now);
        if (other == 0) {
            tf_link_stream_down(p.link, p.now);
        }
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "x")), TF_OK);
        link_peer_wait(&p, TF_LINK_ACK_DELAY);
        size_t acks = 0;
        while (link_peer_pull_packet(&p)) {
            acks += link_peer_count(&p, TF_FRAME_LINK_ACK);
        }
        ck_assert_uint_eq(acks, other == 0 ? 1 : 0);
        ck_assert_int_eq(link_peer_pull_stream(&p) > 0, other == 1);
        link_peer_free(&p);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        link_acks_are_delayed_merged_and_go_by_both_routes,
        link_acks_every_2_packets_and_32_segments,
        link_gap_in_packet_numbers_is_acked_at_once,
        link_probe_is_answered_at_once_with_an_ack,
        link_padding_is_acked_at_once,
        link_last_packet_of_a_burst_asks_for_its_ack,
        link_old_acks_change_nothing,
        link_unanswered_probes_take_a_route_down,
        link_asked_for_probe_goes_by_every_route,
        link_each_probe_has_its_own_round_trip,
        link_tells_which_of_its_copies_won_at_the_peer,
        link_silent_peer_is_down_after_its_idle_limit,
        link_stalls_when_the_peer_counts_nothing,
        link_silence_is_noticed_by_the_deadline,
        link_ack_counts_first_copies_and_repeats,
        link_ack_without_room_goes_with_the_next,
        link_acks_go_after_every_second_packet_again,
        link_ack_counts_are_those_of_the_newest_generation,
        link_ack_of_what_asks_does_not_wait,
        link_ack_by_a_route_that_is_not_there_is_not_due,
        link_ack_goes_by_a_route_that_is_down_only_without_another,
        NULL,
    };
    return tf_test_run("paths/link acks", tests);
}
