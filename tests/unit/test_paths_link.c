/* paths/link, one end of it, against a peer played by the test: what is sent when, and what is made of what comes. The
 * two ends together, on a network with faults: tests/sim/sim_link*.c. */
#include "tests/unit/link_peer.h"

/* --- sending --- */

START_TEST(link_message_goes_out_by_both_routes_once)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "hello"), TF_OK);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 1);
    const tf_frame *frame = link_peer_get(&p, TF_FRAME_SEGMENT);
    ck_assert_uint_eq(frame->u.segment.seq, 0);
    ck_assert_uint_eq(frame->u.segment.flags, TF_SEGMENT_FIRST | TF_SEGMENT_LAST);
    ck_assert(tf_slice_eq(frame->u.segment.data, tf_slice_str("hello")));
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 1);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert(link_peer_pull_packet(&p)); /* once there are segments the path's MTU is looked for */
    ck_assert_uint_eq(p.packet.len, TF_PACKET_PLAIN_MAX);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 0);
    ck_assert(!link_peer_pull_packet(&p));
    link_peer_free(&p);
}
END_TEST

START_TEST(link_message_is_cut_into_segments)
{
    static const struct {
        size_t len;
        size_t segments;
    } rows[] = {{0, 1},
                {1, 1},
                {TF_SEGMENT_DATA_MAX - 1, 1},
                {TF_SEGMENT_DATA_MAX, 1},
                {TF_SEGMENT_DATA_MAX + 1, 2},
                {(size_t)3 * TF_SEGMENT_DATA_MAX, 3},
                {(size_t)3 * TF_SEGMENT_DATA_MAX + 1, 4}};
    static uint8_t bytes[4 * TF_SEGMENT_DATA_MAX];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        tf_link_stream_up(p.link, p.now, 1);
        link_peer_drain(&p);
        ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, rows[i].len)), TF_OK);
        ck_assert_uint_eq(link_peer_pull_stream(&p), rows[i].segments);
        size_t len = 0;
        for (size_t k = 0; k < p.frame_count; k++) {
            const tf_segment *segment = &p.frames[k].u.segment;
            ck_assert_uint_eq(segment->seq, k);
            ck_assert_int_eq((segment->flags & TF_SEGMENT_FIRST) != 0, k == 0);
            ck_assert_int_eq((segment->flags & TF_SEGMENT_LAST) != 0, k + 1 == p.frame_count);
            len += segment->data.len;
        }
        ck_assert_uint_eq(len, rows[i].len);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(link_full_window_says_again_until_an_ack)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.send_window_segments = 3;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert(tf_link_has_room(p.link, 1));
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    link_peer_drain(&p);
    ck_assert(!tf_link_has_room(p.link, 1));
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_ERR_AGAIN);
    tf_frame ack = link_peer_ack(0);
    ack.u.link_ack.range_count = 1;
    ack.u.link_ack.ranges[0] = (tf_range){1, 2};
    ck_assert_int_eq(link_peer_send_one(&p, ack), TF_OK);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_ERR_AGAIN); /* the window counts from the floor */
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(3)), TF_OK);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_ERR_AGAIN);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_window_of_bytes_is_kept)
{
    static uint8_t bytes[2 * TF_SEGMENT_DATA_MAX];
    link_peer p;
    link_peer_defaults(&p);
    p.config.send_window_bytes = sizeof(bytes);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, sizeof(bytes) - 1)), TF_OK);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, 2)), TF_ERR_AGAIN);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, 1)), TF_OK);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, 1)), TF_ERR_AGAIN);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, 0)), TF_OK);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_message_beyond_the_window_is_taken_piece_by_piece)
{
    static uint8_t bytes[5 * TF_SEGMENT_DATA_MAX];
    link_peer p;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i / TF_SEGMENT_DATA_MAX + i % 251);
    }
    link_peer_defaults(&p);
    p.config.send_window_segments = 2;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert(tf_link_has_room(p.link, sizeof(bytes)));
    uint8_t *borrowed = tf_test_exact(tf_slice_of(bytes, sizeof(bytes)));
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(borrowed, sizeof(bytes))), TF_OK);
    free(borrowed);
    ck_assert_int_eq(link_peer_say(&p, "after it"), TF_ERR_AGAIN);
    ck_assert(!tf_link_has_room(p.link, sizeof(bytes)));
    for (uint64_t seq = 0; seq < 5; seq++) {
        ck_assert_uint_eq(tf_link_send_next(p.link), seq + 2 < 5 ? seq + 2 : 5);
        (void)link_peer_pull_stream(&p);
        for (size_t i = 0; i < p.frame_count; i++) {
            const tf_segment *segment = &p.frames[i].u.segment;
            ck_assert(tf_slice_eq(segment->data,
                                  tf_slice_of(bytes + segment->seq * TF_SEGMENT_DATA_MAX, TF_SEGMENT_DATA_MAX)));
        }
        link_peer_drain(&p);
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(seq + 1)), TF_OK);
    }
    ck_assert(tf_link_is_quiet(p.link));
    ck_assert_int_eq(link_peer_say(&p, "after it"), TF_OK);
    ck_assert_int_eq(tf_link_send(p.link, p.now, tf_slice_of(bytes, TF_MESSAGE_MAX + 1)), TF_ERR_LIMIT_BYTES);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_numbers_end_before_2_to_the_64)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.first_seq = UINT64_MAX - 3;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    link_peer_drain(&p);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(UINT64_MAX - 1)), TF_OK);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_ERR_AGAIN);
    link_peer_free(&p);
}
END_TEST

/* Which are counted, all of them. */
START_TEST(link_copies_of_what_came_by_the_stream_are_not_made)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 6; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    ck_assert_uint_eq(link_peer_pull_stream(&p), 6);
    tf_frame ack = link_peer_ack(3);
    ack.u.link_ack.range_count = 1;
    ack.u.link_ack.ranges[0] = (tf_range){4, 4};
    ck_assert_int_eq(link_peer_send_one(&p, ack), TF_OK);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2); /* 3 and 5 */
    ck_assert_uint_eq(link_peer_stats(&p, TF_ROUTE_DATAGRAM).retired, 4);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(6)), TF_OK);
    link_peer_free(&p);
}
END_TEST

/* Messages flow by a route that may have them, once it is there. */
START_TEST(link_that_carries_is_one_with_a_route_for_messages)
{
    static const uint8_t routes[] = {TF_ROUTES_STREAM, TF_ROUTES_DATAGRAM, TF_ROUTES_BOTH};
    for (size_t i = 0; i < 3; i++) {
        link_peer p;
        link_peer_defaults(&p);
        p.config.send_data = routes[i];
        link_peer_new(&p);
        ck_assert(!tf_link_is_carrying(p.link));
        tf_link_stream_up(p.link, p.now, 1);
        ck_assert(tf_link_is_carrying(p.link) == ((routes[i] & TF_ROUTES_STREAM) != 0));
        link_peer_up(&p, 1);
        ck_assert(tf_link_is_carrying(p.link));
        tf_link_stream_down(p.link, p.now);
        ck_assert(tf_link_is_carrying(p.link) == ((routes[i] & TF_ROUTES_DATAGRAM) != 0));
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(link_acked_segment_is_sent_by_no_route)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "zero"), TF_OK);
    ck_assert_int_eq(link_peer_say(&p, "one"), TF_OK);
    ck_assert(link_peer_pull_packet(&p)); /* both, in one packet */
    tf_frame ack = link_peer_ack(0);
    ack.u.link_ack.range_count = 1;
    ack.u.link_ack.ranges[0] = (tf_range){1, 1};
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, ack), TF_OK);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 1);
    ck_assert_uint_eq(p.frames[0].u.segment.seq, 0);
    tf_link_stats stats;
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].retired, 1);
    ck_assert_uint_eq(stats.ring_segments, 2);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(2)), TF_OK);
    ck_assert(tf_link_is_quiet(p.link));
    link_peer_free(&p);
}
END_TEST

START_TEST(link_is_busy_while_a_route_may_bring_what_is_missing)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert(!tf_link_is_busy(p.link));
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    link_peer_drain(&p);
    ck_assert(tf_link_is_busy(p.link));
    tf_link_stream_down(p.link, p.now);
    ck_assert(tf_link_is_busy(p.link));
    tf_link_datagram_down(p.link, p.now);
    ck_assert(!tf_link_is_busy(p.link));
    ck_assert(!tf_link_is_quiet(p.link));
    tf_link_stream_up(p.link, p.now, 2);
    ck_assert(tf_link_is_busy(p.link));
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(1)), TF_OK);
    ck_assert(!tf_link_is_busy(p.link));
    link_peer_free(&p);
}
END_TEST

START_TEST(link_new_stream_begins_with_the_first_unacked)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    link_peer_drain(&p);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(2)), TF_OK);
    tf_link_stream_down(p.link, p.now);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert_int_eq(tf_link_resume(p.link, p.now, 3), TF_OK);
    tf_link_stream_up(p.link, p.now, 2);
    (void)link_peer_pull_stream(&p);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 2);
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_SEGMENT)->u.segment.seq, 3);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_small_room_is_filled_with_whole_frames)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 10; i++) {
        ck_assert_int_eq(link_peer_say(&p, "0123456789"), TF_OK); /* 22 bytes a frame */
    }
    uint64_t seq = 0;
    for (size_t cap = 0; cap < 50; cap++) {
        p.out_len = tf_link_pull_stream(p.link, p.now, p.out, cap);
        ck_assert_uint_le(p.out_len, cap);
        link_peer_parse(&p);
        for (size_t i = 0; i < p.frame_count; i++) {
            ck_assert_uint_eq(p.frames[i].u.segment.seq, seq++);
        }
    }
    ck_assert_uint_eq(seq, 10);
    link_peer_free(&p);
}
END_TEST

/* --- receiving --- */

START_TEST(link_messages_are_given_in_order_once)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(1, "one")), TF_OK);
    link_peer_expect_none(&p);
    ck_assert_uint_eq(tf_link_next_expected(p.link), 0);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(1, "one")), TF_OK);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "zero")), TF_OK);
    link_peer_expect(&p, "zero", TF_ROUTE_DATAGRAM);
    link_peer_expect(&p, "one", TF_ROUTE_STREAM);
    link_peer_expect_none(&p);
    ck_assert_uint_eq(tf_link_next_expected(p.link), 2);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(0, "zero")), TF_OK);
    link_peer_expect_none(&p);
    tf_link_stats stats;
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.messages_received, 2);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_segments_of_a_message_are_joined)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    const tf_frame last = link_peer_segment(2, TF_SEGMENT_LAST, tf_slice_str("c"));
    const tf_frame middle = link_peer_segment(1, 0, tf_slice_str("b"));
    const tf_frame first = link_peer_segment(0, TF_SEGMENT_FIRST, tf_slice_str("a"));
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, last), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, first), TF_OK);
    link_peer_expect_none(&p);
    ck_assert_uint_eq(tf_link_next_expected(p.link), 1); /* the assembler has it */
    ck_assert_int_eq(link_peer_send_one(&p, middle), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(3, "d")), TF_OK);
    link_peer_expect(&p, "abc", TF_ROUTE_DATAGRAM);
    link_peer_expect(&p, "d", TF_ROUTE_STREAM);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(4, "")), TF_OK);
    link_peer_expect(&p, "", TF_ROUTE_STREAM);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_partial_frame_waits_for_the_rest)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    uint8_t buf[100];
    tf_writer w;
    tf_wr_init(&w, buf, sizeof(buf));
    const tf_frame frames[] = {link_peer_message(0, "zero"), link_peer_message(1, "one")};
    ck_assert(tf_frame_write(&w, &frames[0]));
    size_t first = tf_wr_len(&w);
    ck_assert(tf_frame_write(&w, &frames[1]));
    size_t used = 99;
    for (size_t len = 0; len < first; len++) {
        ck_assert_int_eq(tf_link_recv_stream(p.link, p.now, tf_slice_of(buf, len), &used), TF_OK);
        ck_assert_uint_eq(used, 0);
    }
    ck_assert_int_eq(tf_link_recv_stream(p.link, p.now, tf_slice_of(buf, tf_wr_len(&w) - 1), &used), TF_OK);
    ck_assert_uint_eq(used, first);
    link_peer_expect(&p, "zero", TF_ROUTE_STREAM);
    link_peer_expect_none(&p);
    link_peer_free(&p);
}
END_TEST

/* --- the end --- */

START_TEST(link_close_goes_once_by_each_route)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    char reason[200];
    memset(reason, 'a', sizeof(reason));
    reason[TF_CLOSE_REASON_MAX - 1] = (char)0xc3; /* a character across the limit is left out */
    reason[TF_CLOSE_REASON_MAX] = (char)0xa9;
    tf_link_close(p.link, p.now, TF_CLOSE_DRAINING, tf_slice_of(reason, sizeof(reason)));
    ck_assert_uint_eq(link_peer_pull_stream(&p), 1);
    ck_assert_int_eq(p.frames[0].type, TF_FRAME_CLOSE);
    ck_assert_uint_eq(p.frames[0].u.close.code, TF_CLOSE_DRAINING);
    ck_assert(tf_slice_eq(p.frames[0].u.close.reason, tf_slice_of(reason, TF_CLOSE_REASON_MAX - 1)));
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(p.frame_count, 1);
    ck_assert_int_eq(p.frames[0].type, TF_FRAME_CLOSE);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert(!link_peer_pull_packet(&p));
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_ERR_CLOSED);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_message(0, "late")), TF_OK); /* and nothing comes of it */
    link_peer_expect_none(&p);
    ck_assert_uint_eq(tf_link_deadline(p.link), TF_NEVER);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_close_of_the_peer_is_told)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_frame frames[] = {link_peer_message(0, "last words"), {.type = TF_FRAME_CLOSE}, link_peer_message(1, "no more")};
    frames[1].u.close = (tf_close){.code = 99, .reason = tf_slice_str("gone fishing")};
    ck_assert_int_eq(link_peer_send(&p, frames, 3), TF_OK);
    link_peer_expect(&p, "last words", TF_ROUTE_STREAM);
    link_peer_expect_none(&p);
    tf_link_event event;
    ck_assert(tf_link_next_event(p.link, &event));
    ck_assert_int_eq(event.type, TF_LINK_EVENT_CLOSED);
    ck_assert_uint_eq(event.code, 99);
    ck_assert(tf_slice_eq(event.reason, tf_slice_str("gone fishing")));
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert(!link_peer_pull_packet(&p));
    link_peer_free(&p);
}
END_TEST

START_TEST(link_what_follows_a_close_is_ignored)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    tf_frame frames[] = {link_peer_message(0, "last words"), {.type = TF_FRAME_CLOSE}, link_peer_message(1, "no more")};
    frames[1].u.close.reason = tf_slice_str("");
    ck_assert_int_eq(link_peer_send_packet(&p, 1, frames, 3), TF_OK);
    link_peer_expect(&p, "last words", TF_ROUTE_DATAGRAM);
    link_peer_expect_none(&p);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(1, "no more")), TF_OK);
    link_peer_expect_none(&p);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_message_not_taken_survives_idleness)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_segment(0, TF_SEGMENT_FIRST, tf_slice_str("a"))), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_segment(1, TF_SEGMENT_LAST, tf_slice_str("b"))), TF_OK);
    for (unsigned i = 0; i < 100; i++) {
        link_peer_wait(&p, TF_SECOND);
    }
    link_peer_expect(&p, "ab", TF_ROUTE_STREAM);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_resume_takes_what_was_sent_and_no_more)
{
    link_peer p;
    link_peer_defaults(&p);
    p.config.first_seq = 10;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    }
    link_peer_drain(&p);
    ck_assert_uint_eq(tf_link_send_floor(p.link), 10);
    ck_assert_uint_eq(tf_link_send_next(p.link), 14);
    ck_assert_int_eq(tf_link_resume(p.link, p.now, 15), TF_ERR_PEER_ACK);
    ck_assert_int_eq(tf_link_resume(p.link, p.now, 9), TF_ERR_PEER_ACK);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_ack(12)), TF_OK);
    ck_assert_int_eq(tf_link_resume(p.link, p.now, 11), TF_OK); /* said before that ack */
    tf_link_stats stats;
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.ring_segments, 2);
    ck_assert_int_eq(tf_link_resume(p.link, p.now, 14), TF_OK);
    ck_assert(tf_link_is_quiet(p.link));
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.resumes, 2);
    link_peer_free(&p);
}
END_TEST

/* What is told of each route is its own. */
START_TEST(link_generations_are_told_per_route)
{
    link_peer p;
    tf_link_stats stats;
    link_peer_defaults(&p);
    link_peer_new(&p);
    link_peer_up(&p, 7);
    tf_link_stream_up(p.link, p.now, 8);
    tf_link_get_stats(p.link, &stats);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].generation, 8);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_DATAGRAM].generation, 7);
    ck_assert_uint_eq(stats.routes[TF_ROUTE_STREAM].downs, 1);
    link_peer_free(&p);
}
END_TEST

/* P3: what was on its way by a socket that died goes again, as soon as a probe comes through. */
START_TEST(link_dead_datagram_socket_costs_no_message)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    tf_link_datagram_down(p.link, p.now); /* there is none yet */
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_ABSENT);
    link_peer_up(&p, 1);
    tf_link_stream_down(p.link, p.now);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_STREAM), TF_VERDICT_DOWN);
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert_uint_eq(link_peer_pull_stream(&p), 0);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_SEGMENT)->u.segment.seq, 0);
    link_peer_drain(&p);
    tf_link_datagram_down(p.link, p.now);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_DOWN);
    const tf_frame *ping = NULL;
    for (size_t i = 0; i < 10 && ping == NULL; i++) {
        link_peer_wait(&p, tf_link_deadline(p.link) - p.now);
        ping = link_peer_pull_packet(&p) ? link_peer_find(&p, TF_FRAME_PING) : NULL;
    }
    ck_assert_ptr_nonnull(ping);
    ck_assert_uint_eq(link_peer_count(&p, TF_FRAME_SEGMENT), 0);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_PONG, ping->u.token)), TF_OK);
    ck_assert_int_eq(tf_link_verdict(p.link, TF_ROUTE_DATAGRAM), TF_VERDICT_UP);
    ck_assert(link_peer_pull_packet(&p));
    ck_assert_uint_eq(link_peer_get(&p, TF_FRAME_SEGMENT)->u.segment.seq, 0);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_is_busy_while_an_ack_can_come)
{
    link_peer p;
    link_peer_defaults(&p);
    link_peer_new(&p);
    ck_assert(!tf_link_is_busy(p.link));
    link_peer_up(&p, 1);
    ck_assert(!tf_link_is_busy(p.link));
    ck_assert_int_eq(link_peer_say(&p, "x"), TF_OK);
    ck_assert(tf_link_is_busy(p.link));
    tf_link_stream_down(p.link, p.now);
    ck_assert(tf_link_is_busy(p.link)); /* by the other route */
    tf_link_datagram_down(p.link, p.now);
    ck_assert(!tf_link_is_busy(p.link));
    tf_link_stream_up(p.link, p.now, 2);
    ck_assert(tf_link_is_busy(p.link));
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_ack(1)), TF_OK);
    ck_assert(!tf_link_is_busy(p.link));
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        link_message_goes_out_by_both_routes_once,
        link_message_is_cut_into_segments,
        link_full_window_says_again_until_an_ack,
        link_window_of_bytes_is_kept,
        link_message_beyond_the_window_is_taken_piece_by_piece,
        link_numbers_end_before_2_to_the_64,
        link_copies_of_what_came_by_the_stream_are_not_made,
        link_that_carries_is_one_with_a_route_for_messages,
        link_acked_segment_is_sent_by_no_route,
        link_is_busy_while_a_route_may_bring_what_is_missing,
        link_new_stream_begins_with_the_first_unacked,
        link_small_room_is_filled_with_whole_frames,
        link_messages_are_given_in_order_once,
        link_segments_of_a_message_are_joined,
        link_partial_frame_waits_for_the_rest,
        link_close_goes_once_by_each_route,
        link_close_of_the_peer_is_told,
        link_what_follows_a_close_is_ignored,
        link_message_not_taken_survives_idleness,
        link_resume_takes_what_was_sent_and_no_more,
        link_generations_are_told_per_route,
        link_dead_datagram_socket_costs_no_message,
        link_is_busy_while_an_ack_can_come,
        NULL,
    };
    return tf_test_run("paths/link", tests);
}
