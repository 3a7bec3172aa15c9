/* What paths/link makes of packets that are not acked (PROTOCOL.md L5, L8): when they are lost, what goes again, and when
 * it asks. All times are exact: they are the test's own. */
#include "tests/unit/link_peer.h"

static void ack_packets(link_peer *p, uint64_t first, uint64_t last)
{
    ck_assert_int_eq(link_peer_send_packet_one(p, 1, link_peer_packet_ack(1, first, last)), TF_OK);
}

static void ack_all(link_peer *p)
{
    ack_packets(p, 0, p->packet.number);
    ck_assert_int_eq(link_peer_send_packet_one(p, 1, link_peer_ack(tf_link_send_next(p->link))), TF_OK);
}

/* Both routes are up, round trips of datagrams take `rtt` (as good as) always, and no search for the MTU goes on. */
static void make(link_peer *p, tf_routes send_data, tf_time rtt)
{
    link_peer_defaults(p);
    p->now = 100 * TF_SECOND;
    p->config.send_data = send_data;
    p->config.send_window_segments = 1024;
    p->config.send_window_bytes = 1u << 20;
    link_peer_new(p);
    link_peer_up(p, 1);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_int_eq(link_peer_say(p, "x"), TF_OK);
        link_peer_drain(p);
        link_peer_wait(p, rtt);
        ack_all(p);
    }
    tf_link_stream_up(p->link, p->now, 2); /* a fresh one: its probes were not answered */
    link_peer_drain(p);
    link_peer_wait(p, 0);
    ck_assert_uint_eq(link_peer_stats(p, TF_ROUTE_DATAGRAM).mtu, TF_PACKET_MAX);
    ck_assert_uint_eq(link_peer_stats(p, TF_ROUTE_DATAGRAM).in_flight, 0);
    ck_assert_uint_eq(link_peer_stats(p, TF_ROUTE_DATAGRAM).loss_ppm, 0);
}

/* One message, in a packet of its own; the number of that. */
static uint64_t send_one(link_peer *p)
{
    ck_assert_int_eq(link_peer_say(p, "x"), TF_OK);
    for (unsigned i = 0; !link_peer_pull_packet(p); i++) { /* the pacer has it wait */
        ck_assert_uint_lt(i, 10);
        link_peer_wait(p, tf_link_deadline(p->link) - p->now);
    }
    ck_assert_uint_eq(link_peer_count(p, TF_FRAME_SEGMENT), 1);
    return p->packet.number;
}

/* How many segments the packets hold that go out now, and how many packets with segments these are. */
static unsigned pull_segments(link_peer *p, unsigned *packets)
{
    unsigned segments = 0;
    *packets = 0;
    while (link_peer_pull_packet(p)) {
        unsigned count = (unsigned)link_peer_count(p, TF_FRAME_SEGMENT);
        segments += count;
        *packets += count > 0 ? 1 : 0;
        ck_assert(p->packet.len <= TF_PACKET_PLAIN_BASE || count == 0);
    }
    return segments;
}

/* --- lost --- */

START_TEST(loss_is_seen_by_three_later_numbers_or_by_time)
{
    link_peer p;
    unsigned packets = 0;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    const tf_time sent = p.now;
    const uint64_t first = send_one(&p);
    for (unsigned i = 0; i < 3; i++) {
        (void)send_one(&p);
    }
    ck_assert_uint_eq(p.now, sent);
    p.now += 20 * TF_MS;
    ack_packets(&p, first + 2, first + 2);
    ck_assert_uint_eq(pull_segments(&p, &packets), 0);
    ack_packets(&p, first + 3, first + 3);
    ck_assert_uint_eq(pull_segments(&p, &packets), 2); /* the first one, in two packets */
    ck_assert_uint_eq(packets, 2);
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    ck_assert_uint_eq(stats.lost, 1);
    ck_assert_uint_gt(stats.loss_ppm, 0);
    const tf_time longest = tf_time_max(stats.srtt, stats.rtt_latest);
    const tf_time due = sent + longest + longest / 8;
    ck_assert_uint_le(tf_link_deadline(p.link), due);
    link_peer_wait(&p, due - 1 - p.now);
    ck_assert_uint_eq(pull_segments(&p, &packets), 0);
    link_peer_wait(&p, 1);
    ck_assert_uint_eq(pull_segments(&p, &packets), 2); /* and the second */
    ck_assert_uint_eq(packets, 2);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 2);
    link_peer_free(&p);
}
END_TEST

/* Sends `count` packets, of which the last is acked a round trip later; was the first one lost by that? */
static bool is_lost_by(link_peer *p, uint64_t count, uint64_t *first)
{
    *first = send_one(p);
    for (uint64_t i = 1; i < count; i++) {
        (void)send_one(p);
    }
    uint64_t before = link_peer_stats(p, TF_ROUTE_DATAGRAM).lost;
    p->now += 20 * TF_MS;
    ack_packets(p, *first + count - 1, *first + count - 1);
    return link_peer_stats(p, TF_ROUTE_DATAGRAM).lost > before;
}

/* What counted as lost and came after all: four times as many numbers are allowed for, up to three times, for 10 s. */
START_TEST(loss_allows_for_more_where_packets_are_overtaken)
{
    static const uint64_t thresholds[] = {3, 12, 48};
    link_peer p;
    uint64_t first = 0;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    for (size_t i = 0; i < sizeof(thresholds) / sizeof(thresholds[0]); i++) {
        ck_assert(!is_lost_by(&p, thresholds[i], &first));
        ack_all(&p);
        link_peer_drain(&p);
        ck_assert(is_lost_by(&p, thresholds[i] + 1, &first));
        p.now += TF_MS;
        ack_packets(&p, first, first); /* late */
        p.now += 20 * TF_MS;
        ack_all(&p);
        link_peer_drain(&p);
        p.now += 20 * TF_MS;
    }
    ck_assert(!is_lost_by(&p, 49, &first));
    ack_all(&p);
    p.now += 10 * TF_SECOND;
    link_peer_drain(&p);
    ack_all(&p);
    link_peer_drain(&p);
    ck_assert(is_lost_by(&p, 4, &first));
    link_peer_free(&p);
}
END_TEST

/* What was taken from the window comes back when all that seemed lost has come, and not before. */
START_TEST(loss_that_was_none_gives_the_window_back)
{
    link_peer p;
    uint64_t first = 0;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    const uint64_t window = link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd;
    const uint64_t repaired = link_peer_stats(&p, TF_ROUTE_DATAGRAM).repaired;
    ck_assert(is_lost_by(&p, 6, &first)); /* three of them: three later numbers are allowed for */
    const uint64_t less = link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd;
    ck_assert_uint_lt(less, window);
    link_peer_drain(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).repaired - repaired, 6); /* twice each */
    for (uint64_t number = first; number < first + 3; number++) {
        ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd, less);
        ack_packets(&p, number, number);
    }
    ck_assert_uint_ge(link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd, window);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_forgets_packets_of_a_route_that_is_down)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    (void)send_one(&p);
    ck_assert_uint_gt(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
    tf_link_datagram_down(p.link, p.now);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 1);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_of_the_route_gives_its_flight_up)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    (void)send_one(&p);
    for (unsigned i = 0; tf_link_verdict(p.link, TF_ROUTE_DATAGRAM) != TF_VERDICT_DOWN; i++) {
        ck_assert_uint_lt(i, 200);
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        if (tf_link_verdict(p.link, TF_ROUTE_DATAGRAM) != TF_VERDICT_DOWN) {
            link_peer_drain(&p);
        }
    }
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_of_what_the_system_refused_is_repaired_at_once)
{
    link_peer p;
    unsigned packets = 0;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    static const uint8_t bytes[700];
    (void)send_one(&p);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, sizeof(bytes))), TF_OK);
    }
    ck_assert(link_peer_pull_packet(&p)); /* both in a packet that is larger than a base packet */
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    ck_assert_uint_gt(p.packet.len, TF_PACKET_PLAIN_BASE);
    tf_link_datagram_refused(p.link, p.now, p.packet.len + TF_PACKET_HEADER + TF_PACKET_TAG);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).mtu, TF_PACKET_BASE);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).mtu_falls, 1);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 1);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 1); /* one fits */
    ck_assert_uint_le(p.packet.len, TF_PACKET_PLAIN_BASE);
    (void)pull_segments(&p, &packets);
    ck_assert_uint_eq(packets, 3);
    link_peer_free(&p);
}
END_TEST

/* --- asked after --- */

/* Nothing is acked: the times between what goes out then, and what that is. */
START_TEST(loss_of_everything_is_asked_after_at_each_pto)
{
    for (unsigned copies = 0; copies < 2; copies++) {
        link_peer p;
        unsigned packets = 0;
        make(&p, copies == 1 ? TF_ROUTES_BOTH : TF_ROUTES_DATAGRAM, 20 * TF_MS);
        tf_time last = p.now;
        (void)send_one(&p);
        ck_assert_int_eq(link_peer_find(&p, TF_FRAME_PADDING) == NULL, copies == 1);
        const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
        tf_time pto = stats.srtt + tf_time_max(4 * stats.rtt_var, TF_MS) + (copies == 1 ? 20 : 5) * TF_MS;
        const tf_time spans[] = {pto, pto, 2 * pto, 4 * pto};
        for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
            while (p.now < last + spans[i]) {
                ck_assert_uint_eq(pull_segments(&p, &packets), 0);
                ck_assert_uint_gt(tf_link_deadline(p.link), p.now);
                link_peer_wait(&p, tf_time_min(tf_link_deadline(p.link), last + spans[i]) - p.now);
            }
            ck_assert_uint_eq(pull_segments(&p, &packets), 2);
            ck_assert_uint_eq(packets, 2);
            last = p.now;
            if (copies == 1 || i == 0) {
                break; /* it has stalled, or is asked without PADDING, from here on */
            }
        }
        link_peer_free(&p);
    }
}
END_TEST

/* Its copies were lost, and it asks more and more rarely; once it is the only one it begins anew. */
START_TEST(loss_of_copies_delays_nothing_when_the_stream_has_gone)
{
    link_peer p;
    make(&p, TF_ROUTES_BOTH, 20 * TF_MS);
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    const tf_time pto = stats.srtt + tf_time_max(4 * stats.rtt_var, TF_MS) + TF_LINK_ACK_DELAY;
    (void)send_one(&p);
    tf_time begin = p.now;
    while (p.now < begin + 8 * pto) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        link_peer_drain(&p);
    }
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_STALLED);
    tf_link_stream_down(p.link, p.now);
    link_peer_drain(&p);
    ck_assert_uint_le(tf_link_deadline(p.link), p.now + pto);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_of_an_ack_makes_it_ask_with_a_ping)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    tf_link_probe(p.link, p.now); /* so that none is due for another reason */
    ck_assert(link_peer_pull_packet(&p));
    ack_all(&p);
    (void)send_one(&p);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_ack(tf_link_send_next(p.link))), TF_OK);
    link_peer_drain(&p);
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    const tf_time pto = stats.srtt + tf_time_max(4 * stats.rtt_var, TF_MS) + TF_ASKED_DELAY;
    ck_assert_uint_le(tf_link_deadline(p.link), p.now + pto);
    link_peer_wait(&p, pto - 1);
    link_peer_drain(&p);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes, stats.probes);
    link_peer_wait(&p, 1);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_ptr_nonnull(link_peer_find(&p, TF_FRAME_PING));
    ck_assert_ptr_null(link_peer_find(&p, TF_FRAME_SEGMENT));
    ck_assert(!link_peer_pull_packet(&p)); /* one is enough */
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).probes, stats.probes + 1);
    link_peer_free(&p);
}
END_TEST

/* What the oldest packets hold and is not acked goes again, not what is acked. */
START_TEST(loss_repair_takes_the_oldest_that_is_not_acked)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    const uint64_t seq = tf_link_send_next(p.link);
    for (unsigned i = 0; i < 6; i++) {
        (void)send_one(&p);
    }
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_ack(seq + 3)), TF_OK); /* but no packet ack */
    link_peer_wait(&p, 40 * TF_MS);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_SEGMENT)->u.segment.seq, seq + 3);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_of_many_in_a_row_closes_the_window)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    (void)send_one(&p);
    ck_assert_uint_ge(link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd, (size_t)(TF_CWND_INITIAL));
    for (unsigned i = 0; i < 60; i++) {
        link_peer_wait(&p, 10 * TF_MS);
        link_peer_drain(&p);
    }
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).cwnd, (size_t)(TF_CWND_MIN));
    link_peer_free(&p);
}
END_TEST

/* --- stalled --- */

/* When the route stalls after `count` packets of which none is acked. */
static tf_time stalls_after(link_peer *p, unsigned count)
{
    tf_time sent = p->now;
    for (unsigned i = 0; i < count; i++) {
        (void)send_one(p);
    }
    ck_assert_uint_eq(p->now, sent);
    while (tf_link_verdict(p->link, TF_ROUTE_DATAGRAM) == TF_VERDICT_UP) {
        tf_time due = tf_link_deadline(p->link);
        ck_assert_uint_gt(due, p->now);
        link_peer_wait(p, due - p->now);
        link_peer_drain(p);
    }
    ck_assert_int_eq(tf_link_verdict(p->link, TF_ROUTE_DATAGRAM), TF_VERDICT_STALLED);
    return p->now - sent;
}

START_TEST(loss_of_eight_packets_stalls_the_route)
{
    for (unsigned count = 5; count < 7; count++) { /* and the two packets of the first PTO */
        link_peer p;
        make(&p, TF_ROUTES_BOTH, TF_MS);
        const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
        const tf_time pto = stats.srtt + tf_time_max(4 * stats.rtt_var, TF_MS) + TF_LINK_ACK_DELAY;
        const tf_time stall = tf_time_max(2 * stats.srtt + 4 * stats.rtt_var + 25 * TF_MS, 30 * TF_MS);
        ck_assert_uint_lt(stall, 2 * pto);
        ck_assert_uint_eq(stalls_after(&p, count), count == 6 ? stall : 2 * pto);
        link_peer_free(&p);
    }
}
END_TEST

/* From the last ack on, not from the first packet. */
START_TEST(loss_of_those_after_an_ack_stalls_the_route_later)
{
    link_peer p;
    make(&p, TF_ROUTES_BOTH, TF_MS);
    const uint64_t first = send_one(&p);
    (void)send_one(&p);
    p.now += TF_MS;
    ack_packets(&p, first, first);
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    const tf_time stall = tf_time_max(2 * stats.srtt + 4 * stats.rtt_var + 25 * TF_MS, 30 * TF_MS);
    ck_assert_uint_eq(stalls_after(&p, 8), stall);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_of_one_packet_stalls_the_route_after_the_second_pto)
{
    link_peer p;
    make(&p, TF_ROUTES_BOTH, TF_MS);
    const tf_route_stats stats = link_peer_stats(&p, TF_ROUTE_DATAGRAM);
    ck_assert_uint_eq(stalls_after(&p, 1), 2 * (stats.srtt + TF_MS + TF_LINK_ACK_DELAY));
    ack_all(&p);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    link_peer_free(&p);
}
END_TEST

/* Between packets that are lost may lie some that are not. */
START_TEST(loss_of_several_is_seen_at_once)
{
    link_peer p;
    unsigned packets = 0;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    const uint64_t seq = tf_link_send_next(p.link);
    const uint64_t first = send_one(&p);
    for (unsigned i = 0; i < 5; i++) {
        (void)send_one(&p);
    }
    p.now += 20 * TF_MS;
    ack_packets(&p, first + 1, first + 1);
    ck_assert_uint_eq(pull_segments(&p, &packets), 0);
    ack_packets(&p, first + 5, first + 5);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 2);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    const tf_frame *again = link_peer_get(&p, TF_FRAME_SEGMENT);
    ck_assert_uint_eq(again[0].u.segment.seq, seq);
    ck_assert_uint_eq(again[1].u.segment.seq, seq + 2);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_is_none_of_any_range_that_is_acked)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    const uint64_t first = send_one(&p);
    for (unsigned i = 0; i < 4; i++) {
        (void)send_one(&p);
    }
    tf_frame ack = link_peer_packet_ack(1, first + 4, first + 4);
    ack.u.packet_ack.range_count = 3;
    ack.u.packet_ack.ranges[1] = (tf_range){first + 2, first + 2};
    ack.u.packet_ack.ranges[2] = (tf_range){first, first};
    p.now += 20 * TF_MS;
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, ack), TF_OK);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 1); /* the second */
    ack_packets(&p, first + 3, first + 3);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 1);
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).in_flight, 0);
    link_peer_free(&p);
}
END_TEST

START_TEST(loss_is_none_before_a_later_packet_was_acked)
{
    link_peer p;
    make(&p, TF_ROUTES_DATAGRAM, 20 * TF_MS);
    const uint64_t first = send_one(&p);
    link_peer_wait(&p, TF_MS);
    (void)send_one(&p);
    link_peer_wait(&p, 19 * TF_MS);
    ack_packets(&p, first, first);
    for (unsigned i = 0; i < 20; i++) {
        link_peer_wait(&p, 2 * TF_MS);
        link_peer_drain(&p); /* it is asked after, no more */
        ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).lost, 0);
    }
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        loss_is_seen_by_three_later_numbers_or_by_time,
        loss_allows_for_more_where_packets_are_overtaken,
        loss_that_was_none_gives_the_window_back,
        loss_forgets_packets_of_a_route_that_is_down,
        loss_of_the_route_gives_its_flight_up,
        loss_of_what_the_system_refused_is_repaired_at_once,
        loss_of_everything_is_asked_after_at_each_pto,
        loss_of_copies_delays_nothing_when_the_stream_has_gone,
        loss_of_an_ack_makes_it_ask_with_a_ping,
        loss_repair_takes_the_oldest_that_is_not_acked,
        loss_of_many_in_a_row_closes_the_window,
        loss_of_eight_packets_stalls_the_route,
        loss_of_those_after_an_ack_stalls_the_route_later,
        loss_of_one_packet_stalls_the_route_after_the_second_pto,
        loss_of_several_is_seen_at_once,
        loss_is_none_of_any_range_that_is_acked,
        loss_is_none_before_a_later_packet_was_acked,
        NULL,
    };
    return tf_test_run("paths/link, loss", tests);
}
