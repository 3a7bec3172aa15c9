/* One link and a peer that is played by the test: frames written by hand go in, what comes out is read frame by frame. */
#ifndef TF_TESTS_UNIT_LINK_PEER_H
#define TF_TESTS_UNIT_LINK_PEER_H

#include "paths/link.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define LINK_FRAMES_MAX 512u

typedef struct link_peer {
    tf_link *link;
    tf_link_config config;
    tf_time now;
    uint64_t number; /* of the next packet to the link */
    /* the last output */
    uint8_t out[TF_STREAM_RECORD];
    size_t out_len;
    tf_link_packet packet;
    tf_frame frames[LINK_FRAMES_MAX];
    size_t frame_count;
} link_peer;

static inline void link_peer_defaults(link_peer *p)
{
    *p = (link_peer){.now = TF_SECOND};
    p->config = (tf_link_config){
        .mem = tf_test_mem(),
        .rand = tf_test_rand(1),
        .session = 1,
        .routes = TF_ROUTES_BOTH,
        .send_data = TF_ROUTES_BOTH,
        .recv_data = TF_ROUTES_BOTH,
        .recv_window_segments = 64,
        .recv_window_bytes = 16384,
        .send_window_segments = 64,
        .send_window_bytes = 16384,
        .recv_max_message = 8192,
        .keepalive = TF_KEEPALIVE,
        .peer_keepalive = TF_KEEPALIVE,
    };
}

static inline void link_peer_new(link_peer *p)
{
    ck_assert_int_eq(tf_link_new(&p->link, &p->config, p->now), TF_OK);
}

static inline void link_peer_free(link_peer *p)
{
    tf_link_free(p->link);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static inline tf_route_stats link_peer_stats(const link_peer *p, tf_route route)
{
    tf_link_stats stats;
    tf_link_get_stats(p->link, &stats);
    return stats.routes[route];
}

/* --- out --- */

static inline void link_peer_parse(link_peer *p)
{
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(p->out, p->out_len));
    p->frame_count = 0;
    while (tf_rd_left(&r) > 0) {
        ck_assert_uint_lt(p->frame_count, LINK_FRAMES_MAX);
        ck_assert_int_eq(tf_frame_read(&r, &p->frames[p->frame_count]), TF_OK);
        p->frame_count++;
    }
}

/* What the link writes to the stream now; frames in p->frames. */
static inline size_t link_peer_pull_stream(link_peer *p)
{
    p->out_len = tf_link_pull_stream(p->link, p->now, p->out, sizeof(p->out));
    link_peer_parse(p);
    return p->frame_count;
}

static inline bool link_peer_pull_packet(link_peer *p)
{
    p->out_len = 0;
    bool any = tf_link_pull_packet(p->link, p->now, p->out, sizeof(p->out), &p->packet);
    if (any) {
        ck_assert_uint_gt(p->packet.len, 0);
        ck_assert_uint_le(p->packet.len, TF_PACKET_PLAIN_MAX);
        p->out_len = p->packet.len;
    }
    link_peer_parse(p);
    return any;
}

/* The first frame of that type in the last output; NULL: none. */
static inline const tf_frame *link_peer_find(const link_peer *p, tf_frame_type type)
{
    for (size_t i = 0; i < p->frame_count; i++) {
        if (p->frames[i].type == type) {
            return &p->frames[i];
        }
    }
    return NULL;
}

/* The same, where there must be one. */
static inline const tf_frame *link_peer_get(const link_peer *p, tf_frame_type type)
{
    const tf_frame *frame = link_peer_find(p, type);
    if (frame == NULL) {
        ck_abort_msg("no frame of type %d in the output", (int)type);
        return &p->frames[0];
    }
    return frame;
}

static inline size_t link_peer_count(const link_peer *p, tf_frame_type type)
{
    size_t count = 0;
    for (size_t i = 0; i < p->frame_count; i++) {
        count += p->frames[i].type == type ? 1 : 0;
    }
    return count;
}

/* Throws away all that waits to go out. */
static inline void link_peer_drain(link_peer *p)
{
    while (link_peer_pull_stream(p) > 0) {
    }
    while (link_peer_pull_packet(p)) {
    }
}

/* --- in --- */

static inline tf_frame link_peer_segment(uint64_t seq, uint8_t flags, tf_slice data)
{
    tf_frame frame = {.type = TF_FRAME_SEGMENT};
    frame.u.segment = (tf_segment){.seq = seq, .flags = flags, .data = data};
    return frame;
}

static inline tf_frame link_peer_message(uint64_t seq, const char *text)
{
    return link_peer_segment(seq, TF_SEGMENT_FIRST | TF_SEGMENT_LAST, tf_slice_str(text));
}

static inline tf_frame link_peer_ack(uint64_t floor)
{
    tf_frame frame = {.type = TF_FRAME_LINK_ACK};
    frame.u.link_ack.floor = floor;
    return frame;
}

static inline tf_frame link_peer_packet_ack(uint64_t generation, uint64_t first, uint64_t last)
{
    tf_frame frame = {.type = TF_FRAME_PACKET_ACK};
    frame.u.packet_ack = (tf_packet_ack){.generation = generation, .range_count = 1, .ranges = {{first, last}}};
    return frame;
}

static inline tf_frame link_peer_token(tf_frame_type type, uint64_t token)
{
    tf_frame frame = {.type = type};
    frame.u.token = token;
    return frame;
}

static inline tf_err link_peer_send_raw(link_peer *p, tf_slice bytes)
{
    size_t used = 0;
    uint8_t *exact = tf_test_exact(bytes);
    tf_err err = tf_link_recv_stream(p->link, p->now, tf_slice_of(exact, bytes.len), &used);
    free(exact);
    if (err == TF_OK) {
        ck_assert_uint_eq(used, bytes.len);
    }
    return err;
}

/* Frames by the stream. */
static inline tf_err link_peer_send(link_peer *p, const tf_frame *frames, size_t count)
{
    uint8_t buf[TF_STREAM_RECORD];
    tf_writer w;
    tf_wr_init(&w, buf, sizeof(buf));
    for (size_t i = 0; i < count; i++) {
        ck_assert(tf_frame_write(&w, &frames[i]));
    }
    return link_peer_send_raw(p, tf_slice_of(buf, tf_wr_len(&w)));
}

static inline tf_err link_peer_send_one(link_peer *p, tf_frame frame)
{
    return link_peer_send(p, &frame, 1);
}

static inline tf_err link_peer_send_packet_raw(link_peer *p, uint64_t generation, tf_slice bytes)
{
    uint8_t *exact = tf_test_exact(bytes);
    tf_err err = tf_link_recv_packet(p->link, p->now, generation, p->number++, tf_slice_of(exact, bytes.len));
    free(exact);
    return err;
}

/* Frames in one packet. */
static inline tf_err link_peer_send_packet(link_peer *p, uint64_t generation, const tf_frame *frames, size_t count)
{
    uint8_t buf[TF_PACKET_PLAIN_MAX];
    tf_writer w;
    tf_wr_init(&w, buf, sizeof(buf));
    for (size_t i = 0; i < count; i++) {
        ck_assert(tf_frame_write(&w, &frames[i]));
    }
    return link_peer_send_packet_raw(p, generation, tf_slice_of(buf, tf_wr_len(&w)));
}

static inline tf_err link_peer_send_packet_one(link_peer *p, uint64_t generation, tf_frame frame)
{
    return link_peer_send_packet(p, generation, &frame, 1);
}

/* --- both routes, up --- */

static inline void link_peer_up(link_peer *p, uint64_t generation)
{
    tf_link_stream_up(p->link, p->now, generation);
    link_peer_drain(p);
    tf_link_datagram_up(p->link, p->now, generation);
    ck_assert(link_peer_pull_packet(p));
    ck_assert_uint_eq(p->packet.generation, generation);
    p->now += TF_MS;
    ck_assert_int_eq(link_peer_send_packet_one(p, generation, link_peer_packet_ack(generation, 0, p->packet.number)),
                     TF_OK);
    tf_link_event event;
    while (tf_link_next_event(p->link, &event)) {
    }
    link_peer_drain(p);
}

/* Sets the clock on and ticks. */
static inline void link_peer_wait(link_peer *p, tf_time span)
{
    p->now += span;
    tf_link_tick(p->link, p->now);
}

static inline tf_err link_peer_say(link_peer *p, const char *text)
{
    return tf_link_send(p->link, p->now, tf_slice_str(text));
}

static inline void link_peer_expect(link_peer *p, const char *text, tf_route via)
{
    tf_slice message;
    tf_route route = TF_ROUTE_COUNT;
    ck_assert(tf_link_next_message(p->link, &message, &route));
    ck_assert(tf_slice_eq(message, tf_slice_str(text)));
    ck_assert_int_eq(route, via);
}

static inline void link_peer_expect_none(link_peer *p)
{
    tf_slice message;
    tf_route route;
    ck_assert(!tf_link_next_message(p->link, &message, &route));
}

#endif
