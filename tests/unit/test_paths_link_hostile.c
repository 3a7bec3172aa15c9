/* paths/link and a peer that does not keep to the rules: the right error, and nothing of the faulty frame or packet was
 * applied; and an allocator that fails. */
#include "tests/unit/link_peer.h"

#define WHOLE (TF_SEGMENT_FIRST | TF_SEGMENT_LAST)

/* A link that has sent segments 0 to 4 in packets 1 and 2 of generation 1, and holds 0, 1 (taken) and 3 of the peer's. */
static void make(link_peer *p)
{
    link_peer_defaults(p);
    p->config.recv_window_segments = 8;
    p->config.recv_window_bytes = 2 * TF_SEGMENT_DATA_MAX;
    p->config.recv_max_message = 2000;
    link_peer_new(p);
    link_peer_up(p, 1);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(link_peer_say(p, "x"), TF_OK);
    }
    link_peer_drain(p);
    ck_assert_int_eq(link_peer_send_one(p, link_peer_message(0, "zero")), TF_OK);
    link_peer_expect(p, "zero", TF_ROUTE_STREAM);
    ck_assert_int_eq(link_peer_send_one(p, link_peer_segment(1, TF_SEGMENT_FIRST, tf_slice_str("one"))), TF_OK);
    link_peer_expect_none(p);
    ck_assert_int_eq(link_peer_send_one(p, link_peer_message(3, "three")), TF_OK);
}

static tf_link_stats stats_of(const link_peer *p)
{
    tf_link_stats stats;
    memset(&stats, 0, sizeof(stats));
    tf_link_get_stats(p->link, &stats);
    return stats;
}

static void check_unchanged(link_peer *p, const tf_link_stats *before)
{
    tf_link_stats after = stats_of(p);
    ck_assert_uint_eq(after.ring_segments, before->ring_segments);
    ck_assert_uint_eq(after.reorder_segments, before->reorder_segments);
    ck_assert_uint_eq(after.reorder_bytes, before->reorder_bytes);
    ck_assert_uint_eq(after.messages_received, before->messages_received);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        ck_assert_uint_eq(after.routes[i].received_segments, before->routes[i].received_segments);
        ck_assert_uint_eq(after.routes[i].first, before->routes[i].first);
        ck_assert_uint_eq(after.routes[i].repeats, before->routes[i].repeats);
        ck_assert_uint_eq(after.routes[i].srtt, before->routes[i].srtt);
    }
    ck_assert_uint_eq(tf_link_next_expected(p->link), 2);
    link_peer_expect_none(p);
}

static tf_frame bad_segment(size_t i, tf_err *err)
{
    const struct {
        uint64_t seq;
        tf_slice data;
        uint8_t flags;
        tf_err err;
    } rows[] = {
        {10, tf_slice_str("beyond the window"), WHOLE, TF_ERR_PEER_LIMIT},
        {UINT64_MAX - 1, tf_slice_str("far beyond"), WHOLE, TF_ERR_PEER_LIMIT},
        {3, tf_slice_str("other"), WHOLE, TF_ERR_PEER_CONFLICT},
        {3, tf_slice_str("three"), TF_SEGMENT_FIRST, TF_ERR_PEER_CONFLICT},
        {1, tf_slice_str("two"), TF_SEGMENT_FIRST, TF_ERR_PEER_CONFLICT},
        {0, tf_slice_str("other"), WHOLE, TF_ERR_PEER_CONFLICT}, /* taken, but its tag is kept */
        {2, tf_slice_str("begins inside a message"), WHOLE, TF_ERR_PEER_SYNTAX},
        {2, tf_slice_str("likewise"), TF_SEGMENT_FIRST, TF_ERR_PEER_SYNTAX},
        {2, tf_slice_str("3 begins another"), 0, TF_ERR_PEER_SYNTAX},
        {4, tf_slice_str("3 was whole"), TF_SEGMENT_LAST, TF_ERR_PEER_SYNTAX},
        {4, tf_slice_str("likewise"), 0, TF_ERR_PEER_SYNTAX},
    };
    if (i >= sizeof(rows) / sizeof(rows[0])) {
        *err = TF_OK;
        return link_peer_segment(0, 0, tf_slice_str(""));
    }
    *err = rows[i].err;
    return link_peer_segment(rows[i].seq, rows[i].flags, rows[i].data);
}

START_TEST(link_bad_segment_is_refused_and_not_applied)
{
    for (size_t i = 0;; i++) {
        tf_err expected = TF_OK;
        tf_frame bad = bad_segment(i, &expected);
        if (expected == TF_OK) {
            break;
        }
        for (unsigned route = 0; route < 2; route++) {
            link_peer p;
            make(&p);
            tf_link_stats before = stats_of(&p);
            const tf_frame frames[] = {link_peer_ack(5), link_peer_message(5, "five"), bad};
            tf_err err = route == 0 ? link_peer_send_one(&p, bad)
                                    : link_peer_send_packet(&p, 1, bad.u.segment.seq > 5 ? frames : &bad,
                                                            bad.u.segment.seq > 5 ? 3 : 1);
            ck_assert_int_eq(err, expected);
            check_unchanged(&p, &before);
            link_peer_free(&p);
        }
    }
}
END_TEST

START_TEST(link_window_of_bytes_holds_for_the_peer)
{
    static uint8_t bytes[TF_SEGMENT_DATA_MAX];
    link_peer p;
    make(&p); /* holds "three" */
    ck_assert_int_eq(link_peer_send_one(&p, link_peer_segment(4, WHOLE, tf_slice_of(bytes, sizeof(bytes)))), TF_OK);
    tf_frame frames[] = {link_peer_segment(5, WHOLE, tf_slice_of(bytes, sizeof(bytes) - 6)),
                         link_peer_segment(6, WHOLE, tf_slice_of(bytes, 1)),
                         link_peer_segment(7, WHOLE, tf_slice_of(bytes, 1))};
    tf_link_stats before = stats_of(&p);
    ck_assert_int_eq(link_peer_send(&p, frames, 2), TF_OK);
    ck_assert_uint_eq(stats_of(&p).reorder_bytes, before.reorder_bytes + sizeof(bytes) - 5);
    ck_assert_int_eq(link_peer_send_packet(&p, 1, &frames[2], 1), TF_ERR_PEER_LIMIT);
    link_peer_free(&p);
}
END_TEST

/* What one packet brings is counted together. */
START_TEST(link_window_of_bytes_holds_within_a_packet)
{
    static uint8_t bytes[1000];
    link_peer p;
    link_peer_defaults(&p);
    p.config.recv_window_bytes = 2000;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_segment(1, WHOLE, tf_slice_of(bytes, 1000))), TF_OK);
    tf_frame frames[] = {link_peer_segment(2, WHOLE, tf_slice_of(bytes, 500)),
                         link_peer_segment(3, WHOLE, tf_slice_of(bytes, 501))};
    ck_assert_int_eq(link_peer_send_packet(&p, 1, frames, 2), TF_ERR_PEER_LIMIT);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_message_beyond_max_message_is_refused)
{
    static uint8_t bytes[1000];
    link_peer p;
    link_peer_defaults(&p);
    p.config.recv_max_message = 2000;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    const tf_frame frames[] = {link_peer_segment(0, TF_SEGMENT_FIRST, tf_slice_of(bytes, 1000)),
                               link_peer_segment(1, 0, tf_slice_of(bytes, 1000)),
                               link_peer_segment(2, TF_SEGMENT_LAST, tf_slice_of(bytes, 1))};
    ck_assert_int_eq(link_peer_send(&p, frames, 2), TF_OK);
    ck_assert_int_eq(link_peer_send_one(&p, frames[2]), TF_ERR_PEER_LIMIT);
    link_peer_expect_none(&p);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_ack_of_the_unsent_is_refused)
{
    for (unsigned i = 0; i < 5; i++) {
        link_peer p;
        make(&p);
        tf_link_stats before = stats_of(&p);
        tf_frame bad = link_peer_ack(i == 0 ? 6 : 0);
        if (i == 1) {
            bad.u.link_ack.range_count = 1;
            bad.u.link_ack.ranges[0] = (tf_range){3, 5};
        } else if (i == 2) {
            bad = link_peer_packet_ack(1, 0, 1000);
        } else if (i == 3) {
            bad = link_peer_packet_ack(2, 0, 0); /* a generation that does not exist */
        } else if (i == 4) {
            bad = link_peer_ack(UINT64_MAX);
        }
        const tf_frame frames[] = {link_peer_ack(5), bad};
        ck_assert_int_eq(link_peer_send_one(&p, bad), TF_ERR_PEER_ACK);
        check_unchanged(&p, &before);
        ck_assert_int_eq(link_peer_send_packet(&p, 1, frames, 2), TF_ERR_PEER_ACK);
        check_unchanged(&p, &before); /* nor the good one before it */
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(link_malformed_bytes_are_refused)
{
    static const struct {
        const char *hex;
        tf_err stream;
        tf_err packet;
    } rows[] = {
        {"ff0000", TF_ERR_PEER_SYNTAX, TF_ERR_PEER_SYNTAX},                   /* unknown type */
        {"06000100", TF_ERR_PEER_SYNTAX, TF_ERR_PEER_SYNTAX},                 /* PING of 1 byte */
        {"0100020000", TF_ERR_PEER_STATE, TF_ERR_PEER_SYNTAX},                /* HELLO */
        {"0200020000", TF_ERR_PEER_STATE, TF_ERR_PEER_SYNTAX},                /* WELCOME */
        {"0000020000", TF_ERR_PEER_SYNTAX, TF_OK},                            /* PADDING */
        {"0000020001", TF_ERR_PEER_SYNTAX, TF_ERR_PEER_SYNTAX},               /* not of zeroes */
        {"0800080000000000000001", TF_ERR_PEER_SYNTAX, TF_OK},                /* CHALLENGE */
        {"06000800000000000000", TF_OK, TF_ERR_PEER_SYNTAX},                  /* ends inside a frame */
        {"030009000000000000000200", TF_ERR_PEER_SYNTAX, TF_ERR_PEER_SYNTAX}, /* no data, not whole */
        {"", TF_OK, TF_ERR_PEER_SYNTAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        link_peer p;
        make(&p);
        tf_link_stats before = stats_of(&p);
        uint8_t bytes[64];
        size_t len = tf_test_unhex(rows[i].hex, bytes, sizeof(bytes));
        size_t used = 0;
        ck_assert_int_eq(tf_link_recv_stream(p.link, p.now, tf_slice_of(bytes, len), &used), rows[i].stream);
        check_unchanged(&p, &before);
        ck_assert_int_eq(link_peer_send_packet_raw(&p, 1, tf_slice_of(bytes, len)), rows[i].packet);
        check_unchanged(&p, &before);
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(link_segments_of_a_packet_ascend)
{
    link_peer p;
    make(&p);
    tf_link_stats before = stats_of(&p);
    const tf_frame twice[] = {link_peer_message(5, "five"), link_peer_message(5, "five")};
    const tf_frame down[] = {link_peer_message(6, "six"), link_peer_message(5, "five")};
    const tf_frame apart[] = {link_peer_segment(5, TF_SEGMENT_FIRST, tf_slice_str("a")),
                              link_peer_segment(6, TF_SEGMENT_FIRST, tf_slice_str("b"))};
    ck_assert_int_eq(link_peer_send_packet(&p, 1, twice, 2), TF_ERR_PEER_SYNTAX);
    check_unchanged(&p, &before);
    ck_assert_int_eq(link_peer_send_packet(&p, 1, down, 2), TF_ERR_PEER_SYNTAX);
    check_unchanged(&p, &before);
    ck_assert_int_eq(link_peer_send_packet(&p, 1, apart, 2), TF_ERR_PEER_SYNTAX);
    check_unchanged(&p, &before);
    link_peer_free(&p);
}
END_TEST

START_TEST(link_unknown_answers_are_ignored)
{
    link_peer p;
    make(&p);
    tf_link_stats before = stats_of(&p);
    const tf_frame frames[] = {link_peer_token(TF_FRAME_PONG, 1), link_peer_token(TF_FRAME_RESPONSE, 2)};
    ck_assert_int_eq(link_peer_send(&p, frames, 2), TF_OK);
    ck_assert_int_eq(link_peer_send_packet(&p, 1, frames, 2), TF_OK);
    check_unchanged(&p, &before);
    link_peer_free(&p);
}
END_TEST

/* A peer that asks without end gets no more than a few answers at a time. */
START_TEST(link_flood_of_probes_is_bounded)
{
    link_peer p;
    make(&p);
    size_t live = tf_test_heap_shared()->live_bytes;
    for (uint64_t i = 0; i < 10000; i++) {
        ck_assert_int_eq(link_peer_send_one(&p, link_peer_token(TF_FRAME_PING, i)), TF_OK);
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_CHALLENGE, i)), TF_OK);
    }
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, live);
    ck_assert_uint_le(link_peer_pull_stream(&p), 12);
    link_peer_free(&p);
}
END_TEST

/* --- memory --- */

static tf_err exchange(link_peer *p)
{
    static uint8_t bytes[3000];
    tf_err err = tf_link_new(&p->link, &p->config, p->now);
    if (err != TF_OK) {
        p->link = NULL;
        return err;
    }
    tf_link_stream_up(p->link, p->now, 1);
    tf_link_datagram_up(p->link, p->now, 1);
    uint64_t before = tf_link_send_next(p->link);
    err = tf_link_send(p->link, p->now, tf_slice_of(bytes, sizeof(bytes)));
    if (err != TF_OK) {
        ck_assert_uint_eq(tf_link_send_next(p->link), before);
        return err;
    }
    link_peer_drain(p); /* without memory for a packet's record there is no packet, and no error */
    const tf_frame frames[] = {link_peer_segment(2, TF_SEGMENT_LAST, tf_slice_of(bytes, 900)),
                               link_peer_segment(0, TF_SEGMENT_FIRST, tf_slice_of(bytes, 1100)),
                               link_peer_segment(1, 0, tf_slice_of(bytes, 1100))};
    for (size_t i = 0; i < 3; i++) {
        err = link_peer_send_one(p, frames[i]);
        if (err != TF_OK) {
            return err;
        }
    }
    tf_slice message;
    tf_route via;
    ck_assert(tf_link_next_message(p->link, &message, &via));
    ck_assert_uint_eq(message.len, 3100);
    return link_peer_send_one(p, link_peer_ack(3));
}

START_TEST(link_failing_allocation_loses_nothing)
{
    tf_test_heap *heap = tf_test_heap_shared();
    for (uint64_t k = 0;; k++) {
        link_peer p;
        link_peer_defaults(&p);
        size_t live = heap->live_bytes;
        uint64_t failures = heap->failures;
        tf_test_heap_fail_at(heap, k, _i == 1);
        tf_err err = exchange(&p);
        tf_test_heap_fail_never(heap);
        link_peer_free(&p);
        ck_assert_uint_eq(heap->live_bytes, live);
        ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
        if (heap->failures == failures) {
            ck_assert_int_eq(err, TF_OK);
            ck_assert_uint_gt(k, 5);
            return;
        }
    }
}
END_TEST

/* Out of order, so that they are kept. */
START_TEST(link_packet_without_memory_ends_the_link_or_is_there)
{
    tf_test_heap *heap = tf_test_heap_shared();
    bool failed = true;
    for (uint64_t k = 0; failed; k++) {
        link_peer p;
        link_peer_defaults(&p);
        link_peer_new(&p);
        link_peer_up(&p, 1);
        uint64_t failures = heap->failures;
        tf_test_heap_fail_at(heap, k, false);
        tf_err err = link_peer_send_packet_one(&p, 1, link_peer_message(1, "one"));
        failed = heap->failures > failures;
        tf_test_heap_fail_never(heap);
        ck_assert_int_eq(err, failed ? TF_ERR_NOMEM : TF_OK);
        ck_assert(k > 0 || failed);
        if (!failed) {
            ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_message(0, "zero")), TF_OK);
            link_peer_expect(&p, "zero", TF_ROUTE_DATAGRAM);
            link_peer_expect(&p, "one", TF_ROUTE_DATAGRAM);
        }
        link_peer_free(&p);
    }
}
END_TEST

START_TEST(link_idle_is_small)
{
    size_t live = tf_test_heap_shared()->live_bytes;
    link_peer p;
    link_peer_defaults(&p);
    p.config.recv_window_segments = TF_WINDOW_SEGMENTS;
    p.config.recv_window_bytes = TF_WINDOW_BYTES;
    p.config.send_window_segments = TF_WINDOW_SEGMENTS;
    p.config.send_window_bytes = TF_WINDOW_BYTES;
    link_peer_new(&p);
    link_peer_up(&p, 1);
    ck_assert_uint_lt(tf_test_heap_shared()->live_bytes - live, 16384);
    link_peer_free(&p);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, live);
}
END_TEST

/* Of more challenges than are kept, the latest are answered, the very latest first. */
START_TEST(link_latest_challenges_are_answered)
{
    link_peer p;
    make(&p);
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert_int_eq(link_peer_send_packet_one(&p, 1, link_peer_token(TF_FRAME_CHALLENGE, i)), TF_OK);
    }
    (void)link_peer_pull_stream(&p);
    uint64_t last = 100;
    for (size_t i = 0; i < p.frame_count; i++) {
        if (p.frames[i].type == TF_FRAME_RESPONSE) {
            ck_assert_uint_eq(p.frames[i].u.token, --last);
        }
    }
    ck_assert_uint_eq(last, 96);
    link_peer_free(&p);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link hostile");
    TCase *tcase = tcase_create("paths/link hostile");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, link_bad_segment_is_refused_and_not_applied);
    tcase_add_test(tcase, link_window_of_bytes_holds_for_the_peer);
    tcase_add_test(tcase, link_window_of_bytes_holds_within_a_packet);
    tcase_add_test(tcase, link_message_beyond_max_message_is_refused);
    tcase_add_test(tcase, link_ack_of_the_unsent_is_refused);
    tcase_add_test(tcase, link_malformed_bytes_are_refused);
    tcase_add_test(tcase, link_segments_of_a_packet_ascend);
    tcase_add_test(tcase, link_unknown_answers_are_ignored);
    tcase_add_test(tcase, link_flood_of_probes_is_bounded);
    tcase_add_test(tcase, link_latest_challenges_are_answered);
    tcase_add_loop_test(tcase, link_failing_allocation_loses_nothing, 0, 2);
    tcase_add_test(tcase, link_packet_without_memory_ends_the_link_or_is_there);
    tcase_add_test(tcase, link_idle_is_small);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
