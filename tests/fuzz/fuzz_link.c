/* paths/link: one hostile peer, and an edge that does what the input says. What the peer sends is refused and has then
 * changed nothing, or it is applied; everything stays within the windows; a deadline lies in the future once its tick is
 * done; packet numbers never repeat; at the end nothing is lost.
 * Input: operations of one byte, each with what it needs behind it. */
#include <stdlib.h>

#include "paths/link.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define WINDOW_SEGMENTS 12u
#define WINDOW_BYTES 4000u
#define MESSAGE_MAX 5000u
#define FIRST_SEQ UINT64_C(1000)
#define MEMORY_MAX ((size_t)4 * 1024 * 1024)
#define GENERATIONS 256u

typedef struct world {
    tf_slice input;
    tf_test_heap heap;
    tf_test_random random;
    tf_link *link;
    tf_time now;
    uint64_t generation;
    uint64_t numbers[GENERATIONS]; /* the next of ours and of the peer's, by generation */
    uint64_t peer_numbers[GENERATIONS];
    bool ended; /* by a PEER_ error or out of memory */
} world;

static tf_link_stats stats_of(const world *w)
{
    tf_link_stats stats;
    tf_link_get_stats(w->link, &stats);
    return stats;
}

static void check_bounds(const world *w)
{
    tf_link_stats stats = stats_of(w);
    TF_ASSERT(stats.ring_segments <= WINDOW_SEGMENTS && stats.ring_bytes <= WINDOW_BYTES);
    TF_ASSERT(stats.reorder_segments <= WINDOW_SEGMENTS && stats.reorder_bytes <= WINDOW_BYTES);
    TF_ASSERT(w->heap.live_bytes <= MEMORY_MAX);
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static void check_frames(tf_slice bytes)
{
    tf_reader r;
    tf_rd_init(&r, bytes);
    while (tf_rd_left(&r) > 0) {
        tf_frame frame;
        TF_ASSERT(tf_frame_read(&r, &frame) == TF_OK);
    }
}

static void pull_stream(world *w)
{
    uint8_t buf[TF_STREAM_RECORD];
    size_t cap = (size_t)tf_fuzz_u8(&w->input) * 64;
    size_t len = tf_link_pull_stream(w->link, w->now, buf, cap);
    TF_ASSERT(len <= cap);
    check_frames(tf_slice_of(buf, len));
}

static void pull_packets(world *w)
{
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_link_packet packet;
    for (unsigned i = 0; i < 100 && tf_link_pull_packet(w->link, w->now, buf, sizeof(buf), &packet); i++) {
        TF_ASSERT(packet.len > 0 && packet.len <= sizeof(buf) && packet.generation < GENERATIONS);
        TF_ASSERT(packet.number >= w->numbers[packet.generation]);
        w->numbers[packet.generation] = packet.number + 1;
        check_frames(tf_slice_of(buf, packet.len));
    }
}

static void take(world *w)
{
    tf_slice message;
    tf_route via;
    uint8_t sum = 0;
    while (tf_link_next_message(w->link, &message, &via)) {
        TF_ASSERT(message.len <= MESSAGE_MAX && via < TF_ROUTE_COUNT);
        for (size_t i = 0; i < message.len; i++) {
            sum ^= message.data[i];
        }
    }
    tf_link_event event;
    for (unsigned i = 0; tf_link_next_event(w->link, &event); i++) {
        TF_ASSERT(i < 32);
        for (size_t k = 0; k < event.reason.len; k++) {
            sum ^= event.reason.data[k];
        }
    }
    volatile uint8_t sink = sum;
    (void)sink;
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static void check_refused(const world *w, const tf_link_stats *before, uint64_t expected)
{
    tf_link_stats after = stats_of(w);
    TF_ASSERT(after.ring_segments == before->ring_segments && after.ring_bytes == before->ring_bytes);
    TF_ASSERT(after.reorder_segments == before->reorder_segments && after.reorder_bytes == before->reorder_bytes);
    TF_ASSERT(after.messages_received == before->messages_received);
    TF_ASSERT(tf_link_next_expected(w->link) == expected);
}

static void give_packet(world *w, tf_slice bytes)
{
    uint64_t generation = w->generation - (tf_fuzz_u8(&w->input) & 3u) % (w->generation + 1);
    uint64_t number = w->peer_numbers[generation] + (tf_fuzz_u8(&w->input) & 3u);
    w->peer_numbers[generation] = number + 1;
    tf_link_stats before = stats_of(w);
    uint64_t expected = tf_link_next_expected(w->link);
    uint8_t *exact = tf_test_exact(bytes);
    tf_err err = tf_link_recv_packet(w->link, w->now, generation, number, tf_slice_of(exact, bytes.len));
    free(exact);
    w->ended = err != TF_OK;
    if (err != TF_OK && err != TF_ERR_NOMEM) {
        check_refused(w, &before, expected);
    }
}

static void give_stream(world *w, tf_slice bytes)
{
    uint8_t *exact = tf_test_exact(bytes);
    size_t used = 0;
    tf_err err = tf_link_recv_stream(w->link, w->now, tf_slice_of(exact, bytes.len), &used);
    TF_ASSERT(used <= bytes.len);
    free(exact);
    w->ended = err != TF_OK;
}

static void give(world *w, tf_slice bytes)
{
    if ((tf_fuzz_u8(&w->input) & 1u) != 0) {
        give_packet(w, bytes);
    } else {
        give_stream(w, bytes);
    }
}

static void give_frame(world *w, const tf_frame *frame)
{
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_writer tw;
    tf_wr_init(&tw, buf, sizeof(buf));
    TF_ASSERT(tf_frame_write(&tw, frame));
    give(w, tf_slice_of(buf, tf_wr_len(&tw)));
}

/* Near the window, and mostly the same contents under the same seq. */
static void give_segment(world *w)
{
    static const uint8_t text[] = "the same bytes under every number, more or less of them";
    uint8_t at = tf_fuzz_u8(&w->input);
    uint8_t how = tf_fuzz_u8(&w->input);
    tf_frame frame;
    frame.type = TF_FRAME_SEGMENT;
    frame.u.segment.seq = tf_link_next_expected(w->link) + at % 16 - (at >= 0xc0 ? 8 : 0);
    frame.u.segment.flags = (how & 0x10u) == 0 ? TF_SEGMENT_FIRST | TF_SEGMENT_LAST : how & 3u;
    frame.u.segment.data = tf_slice_of(text, 1 + (how & 0x80u ? how % 50u : frame.u.segment.seq % 50u));
    give_frame(w, &frame);
}

static void give_link_ack(world *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_LINK_ACK;
    tf_link_ack *ack = &frame.u.link_ack;
    ack->floor = tf_link_send_next(w->link) + 1 - tf_fuzz_u8(&w->input) % 16;
    ack->range_count = tf_fuzz_u8(&w->input) % 4;
    uint64_t missing = ack->floor;
    for (size_t i = 0; i < ack->range_count; i++) {
        ack->ranges[i].first = missing + 1 + tf_fuzz_u8(&w->input) % 4;
        ack->ranges[i].last = ack->ranges[i].first + tf_fuzz_u8(&w->input) % 4;
        missing = ack->ranges[i].last + 1;
    }
    ack->route_count = tf_fuzz_u8(&w->input) % (TF_ROUTE_COUNT + 1);
    for (size_t i = 0; i < ack->route_count; i++) {
        ack->routes[i] = (tf_route_count){.route = (uint8_t)i,
                                          .generation = w->generation,
                                          .bytes = tf_fuzz_u8(&w->input),
                                          .first = tf_fuzz_u8(&w->input),
                                          .repeats = tf_fuzz_u8(&w->input)};
    }
    give_frame(w, &frame);
}

static void give_packet_ack(world *w)
{
    tf_frame frame;
    frame.type = TF_FRAME_PACKET_ACK;
    tf_packet_ack *ack = &frame.u.packet_ack;
    ack->generation = w->generation - (tf_fuzz_u8(&w->input) & 1u) % (w->generation + 1);
    uint64_t next = w->numbers[ack->generation];
    ack->delay = tf_fuzz_u32(&w->input);
    ack->range_count = 1;
    ack->ranges[0].last = next + 1 - tf_fuzz_u8(&w->input) % (next < 16 ? next + 2 : 16);
    ack->ranges[0].first = ack->ranges[0].last - tf_fuzz_u8(&w->input) % (ack->ranges[0].last + 1);
    give_frame(w, &frame);
}

static void give_token(world *w)
{
    static const tf_frame_type types[] = {TF_FRAME_PING, TF_FRAME_PONG, TF_FRAME_CHALLENGE, TF_FRAME_RESPONSE};
    tf_frame frame;
    frame.type = types[tf_fuzz_u8(&w->input) % 4];
    frame.u.token = tf_fuzz_u32(&w->input);
    give_frame(w, &frame);
}

static void give_raw(world *w)
{
    size_t len = (size_t)tf_fuzz_u8(&w->input) * 4;
    give(w, tf_fuzz_bytes(&w->input, len));
}

/* -- the edge ------------------------------------------------------------------------------------------------------ */

static void act_send(world *w)
{
    static const uint8_t zeroes[MESSAGE_MAX];
    size_t len = (size_t)tf_fuzz_u8(&w->input) * (MESSAGE_MAX / 255);
    bool room = tf_link_has_room(w->link, len);
    uint64_t next = tf_link_send_next(w->link);
    tf_err err = tf_link_send(w->link, w->now, tf_slice_of(zeroes, len));
    TF_ASSERT(room || err != TF_OK);
    TF_ASSERT(err == TF_OK || tf_link_send_next(w->link) == next);
}

static void act_wait(world *w)
{
    tf_time due = tf_link_deadline(w->link);
    uint8_t how = tf_fuzz_u8(&w->input);
    tf_time to = w->now + (tf_time)tf_fuzz_u8(&w->input) * (how % 2 == 0 ? TF_MS : 200 * TF_MS);
    if (how >= 0x80 && due != TF_NEVER && due > w->now) {
        to = due;
    }
    w->now = to;
    tf_link_tick(w->link, w->now);
    TF_ASSERT(tf_link_deadline(w->link) > w->now);
}

static void act_route(world *w)
{
    switch (tf_fuzz_u8(&w->input) % 6) {
    case 0:
        w->generation = w->generation + 1 < GENERATIONS ? w->generation + 1 : w->generation;
        tf_link_stream_up(w->link, w->now, w->generation);
        tf_link_datagram_up(w->link, w->now, w->generation);
        return;
    case 1:
        w->generation = w->generation + 1 < GENERATIONS ? w->generation + 1 : w->generation;
        tf_link_datagram_up(w->link, w->now, w->generation);
        return;
    case 2:
        tf_link_stream_down(w->link, w->now);
        return;
    case 3:
        tf_link_datagram_down(w->link, w->now);
        return;
    case 4:
        tf_link_datagram_moved(w->link, w->now);
        return;
    default:
        (void)!tf_link_resume(w->link, w->now, tf_link_send_next(w->link) - tf_fuzz_u8(&w->input) % 16);
    }
}

static void step(world *w)
{
    static void (*const operations[])(world *) = {
        give_raw, give_segment, give_segment, give_link_ack, give_packet_ack, give_token,   act_send,
        act_send, act_wait,     act_wait,     act_route,     pull_stream,     pull_packets, take};
    uint8_t operation = tf_fuzz_u8(&w->input);
    if (operation == 0xff) {
        tf_link_close(w->link, w->now, TF_CLOSE_NORMAL, tf_slice_str("done"));
        return;
    }
    if (operation >= 0xf0) {
        tf_test_heap_fail_at(&w->heap, operation - 0xf0u, (tf_fuzz_u8(&w->input) & 1u) != 0);
        return;
    }
    operations[operation % (sizeof(operations) / sizeof(operations[0]))](w);
    tf_link_event event;
    while (tf_link_next_event(w->link, &event)) {
        TF_ASSERT(event.type <= TF_LINK_EVENT_CLOSED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world *w = calloc(1, sizeof(*w));
    TF_ASSERT(w != NULL);
    w->input = tf_slice_of(data, size);
    w->now = TF_SECOND;
    tf_test_heap_init(&w->heap);
    tf_test_random_init(&w->random, 1);
    uint8_t routes = tf_fuzz_u8(&w->input);
    const tf_link_config config = {
        .mem = &w->heap.mem,
        .rand = &w->random.rand,
        .session = 1,
        .routes = TF_ROUTES_BOTH,
        .send_data = (tf_routes)(routes % 3 + 1),
        .recv_data = (tf_routes)(routes / 3 % 3 + 1),
        .recv_window_segments = WINDOW_SEGMENTS,
        .recv_window_bytes = WINDOW_BYTES,
        .send_window_segments = WINDOW_SEGMENTS,
        .send_window_bytes = WINDOW_BYTES,
        .recv_max_message = MESSAGE_MAX,
        .keepalive = TF_KEEPALIVE,
        .peer_keepalive = TF_KEEPALIVE,
        .first_seq = FIRST_SEQ,
    };
    TF_ASSERT(tf_link_new(&w->link, &config, w->now) == TF_OK);
    while (w->input.len > 0 && !w->ended) {
        step(w);
        check_bounds(w);
    }
    tf_link_free(w->link);
    TF_ASSERT(w->heap.live_blocks == 0);
    free(w);
    return 0;
}
