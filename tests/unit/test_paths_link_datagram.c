/* The datagram slot of paths/link (PROTOCOL.md L7, L9, L12): what it copies, sheds and carries, and what it pads. */
#include "paths/link_sent.h"
#include "tests/unit/link_peer.h"

static void ack_packets(link_peer *p)
{
    ck_assert_int_eq(link_peer_send_one(p, link_peer_packet_ack(1, 0, p->packet.number)), TF_OK);
}

static void make(link_peer *p)
{
    link_peer_defaults(p);
    p->config.send_window_segments = 1024;
    p->config.send_window_bytes = 1u << 20;
    link_peer_new(p);
    link_peer_up(p, 1);
    ack_packets(p);
}

/* The stream flows: the peer has all that went there; but none of it is acked. */
static void pull_stream(link_peer *p)
{
    while (link_peer_pull_stream(p) > 0) {
    }
    tf_frame ack = link_peer_ack(0);
    ack.u.link_ack.route_count = 1;
    ack.u.link_ack.routes[0] =
        (tf_route_count){.route = TF_ROUTE_STREAM, .generation = 1, .first = tf_link_send_next(p->link)};
    ck_assert_int_eq(link_peer_send_one(p, ack), TF_OK);
}

/* So many messages, each of which fills a base packet. */
static void say_many(link_peer *p, unsigned count)
{
    static const uint8_t bytes[TF_SEGMENT_DATA_MAX];
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_eq(tf_link_send(p->link, p->now, tf_slice_of(bytes, sizeof(bytes))), TF_OK);
    }
}

/* What goes out now, at once or as the pacer lets it within the next millisecond; how many segments that is. */
static size_t pull_segments(link_peer *p)
{
    size_t segments = 0;
    for (unsigned i = 0; i < 10; i++) {
        while (link_peer_pull_packet(p)) {
            segments += link_peer_count(p, TF_FRAME_SEGMENT);
        }
        p->now += 100;
    }
    return segments;
}

/* --- copies --- */

#define WINDOW 32u /* packets, at first */

/* More than the window holds, all of which the stream takes; `*said` is when. */
static void overfill(link_peer *p, tf_time *said)
{
    make(p);
    *said = p->now;
    say_many(p, WINDOW + 20);
    pull_stream(p);
    size_t segments = pull_segments(p);
    ck_assert_uint_ge(segments, WINDOW);
    ck_assert_uint_lt(segments, WINDOW + 10); /* and a trickle */
}

START_TEST(datagram_copy_is_shed_after_5_ms_without_room)
{
    link_peer p;
    tf_time said = 0;
    overfill(&p, &said);
    p.now = said + TF_COPY_WAIT - 1;
    (void)link_peer_pull_packet(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).shed, 0);
    p.now = said + TF_COPY_WAIT;
    ck_assert(!link_peer_pull_packet(&p));
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    ck_assert_uint_gt(stats.shed, 10);
    ck_assert_uint_eq(stats.shed + stats.sent_segments, WINDOW + 20);
    link_peer_free(&p);
}
END_TEST

START_TEST(datagram_copy_that_the_stream_has_not_taken_is_not_shed)
{
    link_peer p;
    make(&p);
    say_many(&p, WINDOW + 20);
    (void)pull_segments(&p);
    p.now += TF_COPY_WAIT;
    (void)link_peer_pull_packet(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).shed, 0);
    link_peer_free(&p);
}
END_TEST

/* One packet in a round trip goes whatever the window says. */
START_TEST(datagram_full_window_lets_a_trickle_through)
{
    link_peer p;
    tf_time said = 0;
    overfill(&p, &said);
    const tf_time srtt = link_peer_stats(&p, TF_ROUTE_DATAGRAM).srtt;
    p.now = said + 6 * TF_MS;
    for (unsigned i = 0; i < 5; i++) {
        say_many(&p, 3);
        pull_stream(&p);
        p.now += srtt;
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 1);
        p.now += srtt - 1;
        ck_assert(!link_peer_pull_packet(&p));
        p.now += TF_COPY_WAIT;
        (void)link_peer_pull_packet(&p);
    }
    link_peer_free(&p);
}
END_TEST

START_TEST(datagram_shed_copy_goes_after_all_when_it_does_not_arrive)
{
    link_peer p;
    tf_time said = 0;
    overfill(&p, &said);
    p.now = said + TF_COPY_WAIT;
    (void)pull_segments(&p);
    ack_packets(&p);
    (void)pull_segments(&p);
    ack_packets(&p);
    const uint64_t shed = link_peer_stats(&p, TF_ROUTE_DATAGRAM).shed;
    ck_assert_uint_gt(shed, 10);
    const tf_time due = said + 4 * link_peer_stats(&p, TF_ROUTE_DATAGRAM).srtt + TF_COPY_OVERDUE;
    ck_assert_uint_le(tf_link_deadline(p.link), due);
    p.now = due - 1;
    tf_link_tick(p.link, p.now);
    ck_assert(!link_peer_pull_packet(&p) || link_peer_find(&p, TF_FRAME_SEGMENT) == NULL);
    p.now = due;
    tf_link_tick(p.link, p.now);
    ck_assert_uint_eq(pull_segments(&p), shed); /* once, each */
    link_peer_free(&p);
}
END_TEST

/* --- carries --- */

START_TEST(datagram_carries_what_was_shed_when_the_stream_ends)
{
    link_peer p;
    tf_time said = 0;
    overfill(&p, &said);
    p.now = said + TF_COPY_WAIT;
    (void)pull_segments(&p);
    ack_packets(&p); /* the packets came; what the peer makes of their segments it has not said */
    const uint64_t next = tf_link_send_next(p.link);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(next - 5)), TF_OK);
    (void)pull_segments(&p);
    tf_link_stream_down(p.link, p.now);
    unsigned copies[5] = {0};
    for (unsigned i = 0; i < 30; i++) {
        p.now += 100;
        while (link_peer_pull_packet(&p)) {
            for (size_t k = 0; k < p.frame_count; k++) {
                if (p.frames[k].type == TF_FRAME_SEGMENT) {
                    ck_assert_uint_ge(p.frames[k].u.segment.seq, next - 5);
                    copies[p.frames[k].u.segment.seq - (next - 5)]++;
                }
            }
        }
    }
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(copies[i], 2);
    }
    link_peer_free(&p);
}
END_TEST

/* --- proving the path --- */

/* Whatever obliges an ack by a route that is down is a whole base packet, and nothing else is. */
START_TEST(datagram_route_that_is_down_asks_with_base_packets)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PING, 7)), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_lt(p.packet.len, 200); /* while it is up */
    tf_link_datagram_down(p.link, p.now);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PING, 8)), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PONG));
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_BASE);
    link_peer_wait(&p, TF_SECOND);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING));
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_BASE);
    link_peer_free(&p);
}
END_TEST

/* However long nobody answers, it asks, and keeps no record of all that. */
START_TEST(datagram_route_that_is_down_asks_for_ever)
{
    link_peer p;
    make(&p);
    tf_link_datagram_down(p.link, p.now);
    const uint64_t asked = link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes;
    size_t live = 0;
    for (unsigned i = 0; i < 2 * TF_LINK_SENT_MAX; i++) {
        link_peer_wait(&p, TF_KEEPALIVE);
        link_peer_drain(&p);
        live = i == 20 ? tf_test_heap_shared()->live_bytes : live;
    }
    ck_assert_uint_ge(link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes, asked + 2 * TF_LINK_SENT_MAX);
    ck_assert_uint_le(tf_test_heap_shared()->live_bytes, live);
    link_peer_free(&p);
}
END_TEST

/* Packets that only ack are not acked themselves: they leave no record. */
START_TEST(datagram_acks_alone_go_for_ever)
{
    link_peer p;
    make(&p);
    tf_link_stream_down(p.link, p.now);
    link_peer_drain(&p);
    for (unsigned i = 0; i < 2 * TF_LINK_SENT_MAX; i++) {
        for (unsigned k = 0; k < 2; k++) { /* every second one is acked at once */
            ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(2 * i + k, "x")), TF_OK);
            link_peer_expect(&p, "x", TF_ROUTE_DATAGRAM);
        }
        link_peer_wait(&p, 1);
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_LINK_ACK));
    }
    link_peer_free(&p);
}
END_TEST

/* --- the MTU --- */

START_TEST(datagram_mtu_probe_is_counted_and_asked_after)
{
    link_peer p;
    make(&p);
    uint64_t probes = link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes;
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    pull_stream(&p);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(1, 0, p.packet.number)), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_MAX);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes, probes + 1);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0); /* outside the window */
    const uint64_t number = p.packet.number;
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    const tf_time pto = stats.srtt + tf_time_max(4 * stats.rtt_var, TF_MS) + TF_LINK_ACK_DELAY;
    ck_assert_uint_eq(tf_link_deadline(p.link), p.now + pto);
    link_peer_wait(&p, pto - 1);
    ck_assert(!link_peer_pull_packet(&p));
    link_peer_wait(&p, 1);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING));
    ck_assert_uint_lt(p.packet.len, 200);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_packet_ack(1, number, number)), TF_OK);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).mtu, TF_PACKET_MAX);
    link_peer_free(&p);
}
END_TEST

START_TEST(datagram_mtu_of_a_route_that_was_down_is_looked_for_anew)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    ack_packets(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).mtu, TF_PACKET_MAX);
    tf_link_datagram_down(p.link, p.now);
    link_peer_wait(&p, TF_SECOND);
    ck_assert(link_peer_pull_packet(&p));
    uint64_t token = link_peer_get(&p, TF_FRAME_PING)->u.token;
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PONG, token)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).mtu, TF_PACKET_BASE);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).mtu_falls, 0);
    link_peer_free(&p);
}
END_TEST

START_TEST(datagram_mtu_probe_under_keys_that_are_gone_goes_again)
{
    link_peer p;
    make(&p);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    pull_stream(&p);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_MAX);
    tf_link_datagram_up(p.link, p.now, 2);
    tf_link_datagram_up(p.link, p.now, 3); /* 2 is gone, and 1 has no probe any more that will tell */
    bool again = false;
    while (link_peer_pull_packet(&p)) {
        again = again || p.packet.len == TF_PACKET_PLAIN_MAX;
    }
    ck_assert(again);
    link_peer_free(&p);
}
END_TEST

/* What the pacer holds back is due by the link's own deadline, and within a round trip. */
START_TEST(datagram_that_waits_for_the_pacer_is_due)
{
    link_peer p;
    make(&p);
    tf_link_stream_down(p.link, p.now);
    for (unsigned i = 0; i < 40; i++) { /* round trips of some 20 ms */
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
        link_peer_drain(&p);
        link_peer_wait(&p, 20 * TF_MS);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_packet_ack(1, 0, p.packet.number)), TF_OK);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_ack(tf_link_send_next(p.link))), TF_OK);
    }
    link_peer_drain(&p);
    const tf_time said = p.now;
    say_many(&p, 30);
    size_t segments = 0;
    unsigned waits = 0;
    while (segments < 30) {
        while (link_peer_pull_packet(&p)) {
            segments += link_peer_count(&p, TF_FRAME_SEGMENT);
        }
        tf_time due = tf_link_deadline(p.link);
        ck_assert_uint_gt(due, p.now);
        ck_assert_uint_le(due, said + link_peer_stats(&p, TF_ROUTE_DATAGRAM).srtt + 50 * TF_MS);
        if (segments < 30) {
            link_peer_wait(&p, 1); /* early does no harm */
            ck_assert_uint_le(tf_link_deadline(p.link), due);
            link_peer_wait(&p, due - p.now);
            waits++;
        }
    }
    ck_assert_uint_le(p.now, said + link_peer_stats(&p, TF_ROUTE_DATAGRAM).srtt);
    ck_assert_uint_gt(waits, 3);
    link_peer_free(&p);
}
END_TEST

/* --- what obliges an ack (L5) --- */

START_TEST(datagram_packet_of_acks_alone_is_not_waited_for)
{
    for (unsigned alone = 0; alone < 2; alone++) {
        link_peer p;
        make(&p);
        if (alone == 1) {
            tf_link_stream_down(p.link, p.now);
        }
        ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "x")), TF_OK);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(1, "x")), TF_OK);
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_LINK_ACK) + link_peer_count(&p, TF_FRAME_PACKET_ACK),
                          p.frame_count);
        ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PING, 7)), TF_OK);
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PONG));
        ck_assert_uint_gt(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_packet_ack(1, 0, p.packet.number)), TF_OK);
        ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_CHALLENGE, 7)), TF_OK);
        ck_assert(link_peer_pull_packet(&p));
        ck_assert_int_eq(link_peer_find(&p, TF_FRAME_RESPONSE) != NULL, alone == 1); /* else the stream has it */
        ck_assert_int_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight > 0, alone == 1);
        link_peer_free(&p);
    }
}
END_TEST

/* Without memory for the record of a packet none goes, and it is tried again soon. */
START_TEST(datagram_without_memory_waits_for_it)
{
    link_peer p;
    make(&p);
    link_peer_wait(&p, TF_MS);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    for (unsigned i = 0; i < 3; i++) {
        tf_test_heap_fail_at(tf_test_heap_shared(), 0, true);
        unsigned count = 0;
        while (link_peer_pull_packet(&p)) { /* there is room for some yet */
            ck_assert_int_eq(link_peer_say(&p, "x"), TF_ERR_NOMEM);
            tf_test_heap_fail_never(tf_test_heap_shared());
            ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
            tf_test_heap_fail_at(tf_test_heap_shared(), 0, true);
            ck_assert_uint_lt(count++, 100);
        }
        tf_test_heap_fail_never(tf_test_heap_shared());
        tf_time due = tf_link_deadline(p.link);
        ck_assert_uint_gt(due, p.now);
        ck_assert_uint_le(due, p.now + 20 * TF_MS);
        link_peer_wait(&p, due - p.now);
        ck_assert(link_peer_pull_packet(&p));
    }
    link_peer_free(&p);
}
END_TEST

/* However much it was: what the stream alone had goes when the stream ends (P3). */
START_TEST(datagram_carries_a_long_queue_that_was_shed)
{
    static bool seen[WINDOW + 200];
    link_peer p;
    make(&p);
    memset(seen, 0, sizeof(seen));
    const tf_time said = p.now;
    say_many(&p, WINDOW + 200);
    pull_stream(&p);
    (void)pull_segments(&p);
    p.now = said + TF_COPY_WAIT;
    (void)pull_segments(&p);
    ck_assert_uint_gt(link_peer_stats(&p, TF_ROUTE_DATAGRAM).shed, 150);
    uint64_t sent = link_peer_stats(&p, TF_ROUTE_DATAGRAM).sent_segments;
    ack_packets(&p);
    tf_link_stream_down(p.link, p.now);
    for (unsigned i = 0; i < 100; i++) {
        p.now += TF_MS;
        while (link_peer_pull_packet(&p)) {
            for (size_t k = 0; k < p.frame_count; k++) {
                if (p.frames[k].type == TF_FRAME_SEGMENT) {
                    seen[p.frames[k].u.segment.seq] = true;
                }
            }
        }
        tf_frame ack = link_peer_packet_ack(1, 0, p.packet.number);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, ack), TF_OK);
    }
    for (size_t i = sent; i < WINDOW + 200; i++) {
        ck_assert(seen[i]);
    }
    link_peer_free(&p);
}
END_TEST

/* P9: a keepalive goes a whole interval after whatever went last, acks too. */
START_TEST(datagram_keepalive_counts_from_the_last_packet)
{
    link_peer p;
    make(&p);
    link_peer_wait(&p, TF_MS);
    link_peer_drain(&p);
    const uint64_t probes = link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes;
    link_peer_wait(&p, 5 * TF_SECOND);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PONG, 7)), TF_OK);
    link_peer_wait(&p, TF_LINK_ACK_DELAY);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_PING), 0);
    link_peer_wait(&p, TF_KEEPALIVE - 1);
    link_peer_drain(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes, probes);
    link_peer_wait(&p, 1);
    link_peer_drain(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes, probes + 1);
    link_peer_free(&p);
}
END_TEST

/* After a PTO two packets go, however full the window and however much waits (RFC 9002 section 6.2.4). */
START_TEST(datagram_full_window_lets_two_probes_through_a_pto)
{
    link_peer p;
    make(&p);
    tf_link_stream_down(p.link, p.now);
    say_many(&p, 3 * WINDOW);
    while (pull_segments(&p) > 0) {
        link_peer_wait(&p, 0);
    }
    size_t most = 0; /* at once; a single one is the trickle */
    for (unsigned i = 0; i < 50; i++) {
        size_t packets = 0;
        link_peer_wait(&p, 10 * TF_MS);
        while (link_peer_pull_packet(&p)) {
            packets += link_peer_count(&p, TF_FRAME_SEGMENT) > 0 ? 1 : 0;
        }
        most = packets > most ? packets : most;
    }
    ck_assert_uint_eq(most, 2);
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        datagram_copy_is_shed_after_5_ms_without_room,
        datagram_copy_that_the_stream_has_not_taken_is_not_shed,
        datagram_full_window_lets_a_trickle_through,
        datagram_full_window_lets_two_probes_through_a_pto,
        datagram_shed_copy_goes_after_all_when_it_does_not_arrive,
        datagram_carries_what_was_shed_when_the_stream_ends,
        datagram_route_that_is_down_asks_with_base_packets,
        datagram_route_that_is_down_asks_for_ever,
        datagram_acks_alone_go_for_ever,
        datagram_mtu_probe_is_counted_and_asked_after,
        datagram_mtu_of_a_route_that_was_down_is_looked_for_anew,
        datagram_mtu_probe_under_keys_that_are_gone_goes_again,
        datagram_that_waits_for_the_pacer_is_due,
        datagram_packet_of_acks_alone_is_not_waited_for,
        datagram_without_memory_waits_for_it,
        datagram_carries_a_long_queue_that_was_shed,
        datagram_keepalive_counts_from_the_last_packet,
        NULL,
    };
    return tf_test_run("paths/link, datagrams", tests);
}
