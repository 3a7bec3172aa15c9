/* proto/frame: every rule of W1 to W9. */
#include <stdlib.h>

#include "proto/frame.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define VAR_MAX (((uint64_t)1 << 62) - 1)

static uint8_t out[TF_FRAME_HEADER + TF_FRAME_PAYLOAD_MAX + 1];
static uint8_t big[TF_FRAME_PAYLOAD_MAX + 1];

static size_t write_frame(const tf_frame *frame)
{
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    ck_assert(tf_frame_write(&w, frame));
    ck_assert_uint_eq(tf_wr_len(&w), tf_frame_size(frame));
    return tf_wr_len(&w);
}

/* Reads one frame out of a block of exactly that size, which the caller frees. */
static tf_err read_exact(tf_slice in, uint8_t **exact, tf_frame *frame)
{
    *exact = tf_test_exact(in);
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(*exact, in.len));
    tf_err err = tf_frame_read(&r, frame);
    ck_assert_uint_eq(tf_rd_left(&r), err == TF_OK ? 0 : in.len);
    return err;
}

static tf_err read_hex(const char *hex)
{
    uint8_t buf[128];
    uint8_t *exact = NULL;
    tf_frame frame;
    tf_err err = read_exact(tf_slice_of(buf, tf_test_unhex(hex, buf, sizeof(buf))), &exact, &frame);
    free(exact);
    return err;
}

/* One of each kind, most with more than the least in them. */
static tf_frame sample(tf_frame_type type)
{
    switch (type) {
    case TF_FRAME_PADDING:
    case TF_FRAME_HELLO:
    case TF_FRAME_WELCOME:
        return (tf_frame){.type = type, .u.payload = tf_slice_of("\0\0\0", 3)};
    case TF_FRAME_SEGMENT:
        return (tf_frame){.type = type, .u.segment = {7, TF_SEGMENT_LAST, tf_slice_of("abc", 3)}};
    case TF_FRAME_LINK_ACK:
        return (tf_frame){.type = type,
                          .u.link_ack = {.floor = 10,
                                         .range_count = 2,
                                         .ranges = {{11, 11}, {13, 500}},
                                         .route_count = 1,
                                         .routes = {{TF_ROUTE_DATAGRAM, 1, 2, 3, VAR_MAX}}}};
    case TF_FRAME_PACKET_ACK:
        return (tf_frame){
            .type = type,
            .u.packet_ack = {.generation = 9, .delay = 100, .range_count = 2, .ranges = {{90, 200}, {0, 88}}}};
    case TF_FRAME_PING:
    case TF_FRAME_PONG:
    case TF_FRAME_CHALLENGE:
    case TF_FRAME_RESPONSE:
        return (tf_frame){.type = type, .u.token = UINT64_MAX};
    case TF_FRAME_CLOSE:
        return (tf_frame){.type = type, .u.close = {TF_CLOSE_LIMIT, tf_slice_str("much")}};
    }
    TF_UNREACHABLE();
}

/* --- W1, W2 --- */

START_TEST(frame_cut_anywhere_waits_for_more)
{
    for (int type = 0; type <= TF_FRAME_CLOSE; type++) {
        tf_frame frame = sample((tf_frame_type)type);
        size_t len = write_frame(&frame);
        for (size_t cut = 0; cut <= len; cut++) {
            uint8_t *exact = NULL;
            tf_frame got;
            ck_assert_int_eq(read_exact(tf_slice_of(out, cut), &exact, &got), cut == len ? TF_OK : TF_ERR_AGAIN);
            free(exact);
        }
    }
}
END_TEST

START_TEST(frame_without_room_is_not_written)
{
    for (int type = 0; type <= TF_FRAME_CLOSE; type++) {
        tf_frame frame = sample((tf_frame_type)type);
        size_t len = tf_frame_size(&frame);
        for (size_t cap = 1; cap < len; cap++) {
            uint8_t *room = tf_test_exact(tf_slice_of(big, cap));
            tf_writer w;
            tf_wr_init(&w, room, cap);
            ck_assert(!tf_frame_write(&w, &frame));
            ck_assert(tf_wr_ok(&w));
            ck_assert_uint_eq(tf_wr_len(&w), 0);
            ck_assert_mem_eq(room, big, cap);
            free(room);
        }
    }
}
END_TEST

START_TEST(frame_one_behind_the_other_are_read_in_order)
{
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    for (int type = 0; type <= TF_FRAME_CLOSE; type++) {
        tf_frame frame = sample((tf_frame_type)type);
        ck_assert(tf_frame_write(&w, &frame));
    }
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(out, tf_wr_len(&w)));
    for (int type = 0; type <= TF_FRAME_CLOSE; type++) {
        tf_frame got;
        ck_assert_int_eq(tf_frame_read(&r, &got), TF_OK);
        ck_assert_int_eq((int)got.type, type);
    }
    ck_assert_int_eq(tf_rd_end(&r), TF_OK);
    tf_frame got;
    ck_assert_int_eq(tf_frame_read(&r, &got), TF_ERR_AGAIN);
    tf_rd_fail(&r);
    ck_assert_int_eq(tf_frame_read(&r, &got), TF_ERR_PEER_SYNTAX);
}
END_TEST

/* Payload lengths of each type around its bounds, judged from three bytes. */
START_TEST(frame_length_is_judged_by_the_header_alone)
{
    static const struct {
        tf_frame_type type;
        uint16_t min;
        uint16_t max;
    } rows[] = {
        {TF_FRAME_PADDING, 0, TF_FRAME_PAYLOAD_MAX},
        {TF_FRAME_HELLO, 1, TF_FRAME_PAYLOAD_MAX},
        {TF_FRAME_WELCOME, 1, TF_FRAME_PAYLOAD_MAX},
        {TF_FRAME_SEGMENT, 9, 9 + TF_SEGMENT_DATA_MAX},
        {TF_FRAME_LINK_ACK, 10, 1168},
        {TF_FRAME_PACKET_ACK, 5, 1168},
        {TF_FRAME_PING, 8, 8},
        {TF_FRAME_PONG, 8, 8},
        {TF_FRAME_CHALLENGE, 8, 8},
        {TF_FRAME_RESPONSE, 8, 8},
        {TF_FRAME_CLOSE, 1, 128},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t len = 0; len <= UINT16_MAX; len++) {
            uint8_t header[3] = {(uint8_t)rows[i].type, (uint8_t)(len >> 8), (uint8_t)len};
            tf_frame got;
            tf_reader r;
            tf_rd_init(&r, tf_slice_of(header, 3));
            bool legal = len >= rows[i].min && len <= rows[i].max;
            tf_err want = legal ? TF_ERR_AGAIN : TF_ERR_PEER_SYNTAX;
            ck_assert_int_eq(tf_frame_read(&r, &got), rows[i].min == 0 && len == 0 ? TF_OK : want);
        }
    }
    for (int type = TF_FRAME_CLOSE + 1; type <= UINT8_MAX; type++) {
        uint8_t header[3] = {(uint8_t)type, 0, 8};
        tf_frame got;
        tf_reader r;
        tf_rd_init(&r, tf_slice_of(header, 3));
        ck_assert_int_eq(tf_frame_read(&r, &got), TF_ERR_PEER_SYNTAX);
    }
}
END_TEST

static const char *const malformed[] = {
    "00 0002 00 01",               /* padding that is not zero */
    "03 0009 0000000000000001 00", /* no data, but more of the message elsewhere */
    "03 0009 0000000000000001 01",
    "03 0009 0000000000000001 02",
    "03 000a 0000000000000001 04 aa",
    "03 000a 0000000000000001 80 aa",
    "03 000a ffffffffffffffff 03 aa",                               /* seq 2^64 - 1 */
    "04 000b 0000000000000000 00 00 00",                            /* left over */
    "04 000a 0000000000000000 03 00",                               /* three routes */
    "04 000f 0000000000000000 01 02 00 00 00 00 00",                /* an unknown route */
    "04 0014 0000000000000000 02 00 00 00 00 00 00 00 00 00 00 00", /* the same route twice */
    "04 0014 0000000000000000 02 01 00 00 00 00 00 00 00 00 00 00", /* the wrong order */
    "04 000a 0000000000000000 01 00",                               /* a route cut off */
    "04 000a 0000000000000000 00 01",                               /* a range cut off */
    "04 000b 0000000000000000 00 01 00",
    "04 000a 0000000000000000 00 21",       /* 33 ranges */
    "04 000c ffffffffffffffff 00 01 00 00", /* above 2^64 - 2 */
    "04 000c fffffffffffffffe 00 01 00 00",
    "04 000c fffffffffffffffd 00 01 01 00",
    "04 000c fffffffffffffffd 00 01 00 01",
    "04 000e fffffffffffffffb 00 02 00 00 01 00",
    "04 000e fffffffffffffffb 00 02 00 00 00 01",
    "05 0005 00 00 05 00 00",    /* no ranges */
    "05 0005 00 00 05 01 06",    /* below 0 */
    "05 0005 00 00 40 05 01",    /* cut off */
    "05 0005 00 00 05 21 00",    /* 33 ranges */
    "05 0006 00 00 05 02 05 00", /* no room for the gap, and nothing behind it */
    "05 0007 00 00 05 02 05 00 00",
    "05 0007 00 00 05 02 04 00 00", /* no number left for a second range */
    "05 0007 00 00 05 02 02 02 00",
    "05 0007 00 00 05 02 02 01 01",
    "05 0006 00 00 05 01 05 00",
    "05 0006 00 00 05 02 00 00",
    "0a 0002 05 80", /* not UTF-8 */
    "0a 0001 40",    /* half a number */
};

START_TEST(frame_malformed_payload_is_refused)
{
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        ck_assert_msg(read_hex(malformed[i]) == TF_ERR_PEER_SYNTAX, "%s", malformed[i]);
    }
    memcpy(out, (const uint8_t[]){TF_FRAME_CLOSE, 0, 1 + TF_CLOSE_REASON_MAX + 1, 0}, 4);
    memset(out + 4, 'a', TF_CLOSE_REASON_MAX + 1);
    uint8_t *exact = NULL;
    tf_frame frame;
    ck_assert_int_eq(read_exact(tf_slice_of(out, 4 + TF_CLOSE_REASON_MAX + 1), &exact, &frame), TF_ERR_PEER_SYNTAX);
    free(exact);
}
END_TEST

/* The last that is allowed, next to what is refused above. */
START_TEST(frame_at_its_bounds_is_read)
{
    static const char *const rows[] = {
        "00 0000",
        "00 0002 00 00",
        "03 0009 0000000000000001 03",
        "03 000a fffffffffffffffe 00 aa",
        "04 000a ffffffffffffffff 00 00",
        "04 000c fffffffffffffffd 00 01 00 00",
        "04 000e fffffffffffffffb 00 02 00 00 00 00",
        "04 000c fffffffffffffffc 00 01 00 01",
        "05 0005 00 00 05 01 05",
        "05 0007 00 00 05 02 03 00 00",
        "05 0007 00 00 05 02 02 01 00",
        "05 0007 00 00 05 02 02 00 01",
        "0a 0001 00",
        "0a 0008 ffffffffffffffff",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(read_hex(rows[i]) == TF_OK, "%s", rows[i]);
    }
}
END_TEST

/* --- W3, W4, W7 to W9 --- */

START_TEST(frame_largest_of_each_kind_come_back)
{
    tf_frame frames[] = {
        {.type = TF_FRAME_PADDING, .u.payload = {big, TF_FRAME_PAYLOAD_MAX}},
        {.type = TF_FRAME_HELLO, .u.payload = {big, TF_FRAME_PAYLOAD_MAX}},
        {.type = TF_FRAME_WELCOME, .u.payload = {big, 1}},
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        uint8_t *exact = NULL;
        tf_frame got;
        ck_assert_int_eq(read_exact(tf_slice_of(out, write_frame(&frames[i])), &exact, &got), TF_OK);
        ck_assert_int_eq((int)got.type, (int)frames[i].type);
        ck_assert(tf_slice_eq(got.u.payload, frames[i].u.payload));
        free(exact);
    }
}
END_TEST

START_TEST(frame_segment_comes_back)
{
    static const tf_segment rows[] = {
        {0, TF_SEGMENT_FIRST | TF_SEGMENT_LAST, {big, 0}},
        {1, TF_SEGMENT_FIRST, {big, 1}},
        {UINT64_C(1) << 32, 0, {big, TF_SEGMENT_DATA_MAX - 1}},
        {UINT64_MAX - 1, TF_SEGMENT_LAST, {big, TF_SEGMENT_DATA_MAX}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_frame frame = {.type = TF_FRAME_SEGMENT, .u.segment = rows[i]};
        uint8_t *exact = NULL;
        tf_frame got;
        ck_assert_int_eq(read_exact(tf_slice_of(out, write_frame(&frame)), &exact, &got), TF_OK);
        ck_assert_uint_eq(got.u.segment.seq, rows[i].seq);
        ck_assert_uint_eq(got.u.segment.flags, rows[i].flags);
        ck_assert(tf_slice_eq(got.u.segment.data, rows[i].data));
        free(exact);
    }
    ck_assert_uint_eq(TF_FRAME_HEADER + TF_SEGMENT_HEADER + TF_SEGMENT_DATA_MAX, TF_PACKET_PLAIN_BASE);
}
END_TEST

START_TEST(frame_token_and_close_come_back)
{
    for (int type = TF_FRAME_PING; type <= TF_FRAME_RESPONSE; type++) {
        tf_frame frame = {.type = (tf_frame_type)type, .u.token = UINT64_C(0x8000000000000001)};
        uint8_t *exact = NULL;
        tf_frame got;
        ck_assert_int_eq(read_exact(tf_slice_of(out, write_frame(&frame)), &exact, &got), TF_OK);
        ck_assert_uint_eq(got.u.token, frame.u.token);
        free(exact);
    }
    static const size_t lens[] = {0, 1, TF_CLOSE_REASON_MAX - 1, TF_CLOSE_REASON_MAX};
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        tf_frame frame = {.type = TF_FRAME_CLOSE, .u.close = {VAR_MAX >> (8 * i), {big, lens[i]}}};
        uint8_t *exact = NULL;
        tf_frame got;
        ck_assert_int_eq(read_exact(tf_slice_of(out, write_frame(&frame)), &exact, &got), TF_OK);
        ck_assert_uint_eq(got.u.close.code, frame.u.close.code);
        ck_assert(tf_slice_eq(got.u.close.reason, frame.u.close.reason));
        free(exact);
    }
}
END_TEST

/* --- W5, W6: the ranges of random sets of 200 numbers --- */

#define SET 200

/* Ascending ranges of the members of the set above `from`; at most TF_ACK_RANGES_MAX. */
static size_t ranges_of(const bool set[SET], uint64_t base, size_t from, tf_range *ranges)
{
    size_t count = 0;
    for (size_t i = from; i < SET; i++) {
        if (!set[i]) {
            continue;
        }
        if (i > from && set[i - 1]) {
            ranges[count - 1].last = base + i;
        } else if (count == TF_ACK_RANGES_MAX) {
            break;
        } else {
            ranges[count++] = (tf_range){base + i, base + i};
        }
    }
    return count;
}

static void random_set(tf_test_random *random, bool set[SET])
{
    uint64_t stay = 1 + tf_test_random_below(random, 16);
    bool member = false;
    for (size_t i = 0; i < SET; i++) {
        if (tf_test_random_chance(random, 1, stay)) {
            member = !member;
        }
        set[i] = member;
    }
}

static void assert_ranges(const tf_range *got, size_t got_count, const tf_range *want, size_t want_count)
{
    ck_assert_uint_eq(got_count, want_count);
    for (size_t i = 0; i < want_count; i++) {
        ck_assert_uint_eq(got[i].first, want[i].first);
        ck_assert_uint_eq(got[i].last, want[i].last);
    }
}

START_TEST(frame_link_ack_of_any_set_comes_back)
{
    static const uint64_t floors[] = {0, 1, (1u << 30) - 7, UINT64_C(1) << 62, UINT64_MAX - SET};
    tf_test_random random;
    tf_test_random_init(&random, 5);
    for (size_t i = 0; i < 1000; i++) {
        bool set[SET];
        random_set(&random, set);
        set[0] = false; /* the floor itself is missing */
        tf_frame frame = {.type = TF_FRAME_LINK_ACK};
        tf_link_ack *ack = &frame.u.link_ack;
        ack->floor = floors[i % 5];
        ack->range_count = ranges_of(set, ack->floor, 1, ack->ranges);
        ack->route_count = i % 3;
        for (size_t k = 0; k < ack->route_count; k++) {
            uint64_t count = tf_test_random_u64(&random) & VAR_MAX >> tf_test_random_below(&random, 62);
            ack->routes[k] = (tf_route_count){(uint8_t)k, i, count, count / 2, count / 3};
        }
        uint8_t *exact = NULL;
        tf_frame got;
        ck_assert_int_eq(read_exact(tf_slice_of(out, write_frame(&frame)), &exact, &got), TF_OK);
        ck_assert_uint_eq(got.u.link_ack.floor, ack->floor);
        assert_ranges(got.u.link_ack.ranges, got.u.link_ack.range_count, ack->ranges, ack->range_count);
        ck_assert_uint_eq(got.u.link_ack.route_count, ack->route_count);
        for (size_t k = 0; k < ack->route_count; k++) {
            ck_assert_uint_eq(got.u.link_ack.routes[k].route, k);
            ck_assert_uint_eq(got.u.link_ack.routes[k].generation, i);
            ck_assert_uint_eq(got.u.link_ack.routes[k].bytes, ack->routes[k].bytes);
            ck_assert_uint_eq(got.u.link_ack.routes[k].first, ack->routes[k].first);
            ck_assert_uint_eq(got.u.link_ack.routes[k].repeats, ack->routes[k].repeats);
        }
        free(exact);
    }
}
END_TEST

START_TEST(frame_packet_ack_of_any_set_comes_back)
{
    static const uint64_t bases[] = {0, 1, (1u << 30) - 7, VAR_MAX - SET + 1};
    tf_test_random random;
    tf_test_random_init(&random, 6);
    for (size_t i = 0; i < 1000; i++) {
        bool set[SET];
        random_set(&random, set);
        tf_range ascending[TF_ACK_RANGES_MAX];
        size_t count = ranges_of(set, bases[i % 4], 0, ascending);
        if (count == 0) {
            continue;
        }
        tf_frame frame = {.type = TF_FRAME_PACKET_ACK,
                          .u.packet_ack = {.generation = i, .delay = i * i, .range_count = count}};
        for (size_t k = 0; k < count; k++) {
            frame.u.packet_ack.ranges[k] = ascending[count - 1 - k];
        }
        uint8_t *exact = NULL;
        tf_frame got;
        ck_assert_int_eq(read_exact(tf_slice_of(out, write_frame(&frame)), &exact, &got), TF_OK);
        ck_assert_uint_eq(got.u.packet_ack.generation, i);
        ck_assert_uint_eq(got.u.packet_ack.delay, i * i);
        assert_ranges(got.u.packet_ack.ranges, got.u.packet_ack.range_count, frame.u.packet_ack.ranges, count);
        free(exact);
    }
}
END_TEST

/* The largest acks there can be fit a base packet together. */
START_TEST(frame_largest_acks_fit_one_packet)
{
    tf_frame link = {.type = TF_FRAME_LINK_ACK, .u.link_ack = {.route_count = TF_ROUTE_COUNT}};
    tf_frame packet = {.type = TF_FRAME_PACKET_ACK, .u.packet_ack = {VAR_MAX, VAR_MAX, TF_ACK_RANGES_MAX, {{0, 0}}}};
    for (uint64_t i = 0; i < TF_ROUTE_COUNT; i++) {
        link.u.link_ack.routes[i] = (tf_route_count){(uint8_t)i, VAR_MAX, VAR_MAX, VAR_MAX, VAR_MAX};
    }
    link.u.link_ack.range_count = TF_ACK_RANGES_MAX;
    const uint64_t step = TF_WINDOW_SEGMENTS_MAX / TF_ACK_RANGES_MAX; /* a window bounds how far they can reach */
    for (uint64_t i = 0; i < TF_ACK_RANGES_MAX; i++) {
        tf_range range = {i * step + 1, i * step + step / 2};
        link.u.link_ack.ranges[i] = range;
        packet.u.packet_ack.ranges[TF_ACK_RANGES_MAX - 1 - i] = range;
    }
    size_t size = tf_frame_size(&link) + tf_frame_size(&packet);
    ck_assert_uint_le(size, TF_PACKET_PLAIN_BASE);
    ck_assert_uint_eq(write_frame(&link) + write_frame(&packet), size);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        frame_cut_anywhere_waits_for_more,
        frame_without_room_is_not_written,
        frame_one_behind_the_other_are_read_in_order,
        frame_length_is_judged_by_the_header_alone,
        frame_malformed_payload_is_refused,
        frame_at_its_bounds_is_read,
        frame_largest_of_each_kind_come_back,
        frame_segment_comes_back,
        frame_token_and_close_come_back,
        frame_link_ack_of_any_set_comes_back,
        frame_packet_ack_of_any_set_comes_back,
        frame_largest_acks_fit_one_packet,
        NULL,
    };
    return tf_test_run("proto/frame", tests);
}
