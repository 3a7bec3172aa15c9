#include "proto/frame.h"

#include "proto/mp.h"

#define TOKEN_LEN 8u
#define LINK_ACK_MIN 10u  /* floor(8), no routes, no ranges */
#define PACKET_ACK_MIN 5u /* generation, delay, largest, one range */

/* W2: the payload lengths that a frame type may have at all; judged from the header alone. */
typedef struct frame_bounds {
    uint16_t min;
    uint16_t max;
} frame_bounds;

static const frame_bounds bounds[] = {
    [TF_FRAME_PADDING] = {0, TF_FRAME_PAYLOAD_MAX},
    [TF_FRAME_HELLO] = {1, TF_FRAME_PAYLOAD_MAX},
    [TF_FRAME_WELCOME] = {1, TF_FRAME_PAYLOAD_MAX},
    [TF_FRAME_SEGMENT] = {TF_SEGMENT_HEADER, TF_SEGMENT_HEADER + TF_SEGMENT_DATA_MAX},
    [TF_FRAME_LINK_ACK] = {LINK_ACK_MIN, TF_PACKET_PLAIN_BASE - TF_FRAME_HEADER},
    [TF_FRAME_PACKET_ACK] = {PACKET_ACK_MIN, TF_PACKET_PLAIN_BASE - TF_FRAME_HEADER},
    [TF_FRAME_PING] = {TOKEN_LEN, TOKEN_LEN},
    [TF_FRAME_PONG] = {TOKEN_LEN, TOKEN_LEN},
    [TF_FRAME_CHALLENGE] = {TOKEN_LEN, TOKEN_LEN},
    [TF_FRAME_RESPONSE] = {TOKEN_LEN, TOKEN_LEN},
    [TF_FRAME_CLOSE] = {1, 8 + TF_CLOSE_REASON_MAX},
};

/* --- reading --- */

/* W3 */
static void read_padding(tf_reader *r, tf_frame *out)
{
    out->u.payload = tf_rd_bytes(r, tf_rd_left(r));
    uint8_t seen = 0;
    for (size_t i = 0; i < out->u.payload.len; i++) {
        seen |= out->u.payload.data[i];
    }
    if (seen != 0) {
        tf_rd_fail(r);
    }
}

/* W4 */
static void read_segment(tf_reader *r, tf_segment *out)
{
    const uint8_t whole = TF_SEGMENT_FIRST | TF_SEGMENT_LAST;
    out->seq = tf_rd_u64(r);
    out->flags = tf_rd_u8(r);
    out->data = tf_rd_bytes(r, tf_rd_left(r));
    if (out->seq == UINT64_MAX || out->flags > whole || (out->data.len == 0 && out->flags != whole)) {
        tf_rd_fail(r);
    }
}

/* W5: one route count; routes come in ascending order, each once. */
static void read_route_count(tf_reader *r, tf_link_ack *out, size_t i)
{
    tf_route_count *count = &out->routes[i];
    count->route = tf_rd_u8(r);
    count->generation = tf_rd_var(r);
    count->bytes = tf_rd_var(r);
    count->first = tf_rd_var(r);
    count->repeats = tf_rd_var(r);
    if (count->route >= TF_ROUTE_COUNT || (i > 0 && count->route <= out->routes[i - 1].route)) {
        tf_rd_fail(r);
    }
}

/* W5: floor and the segment after each range are missing, so that a set of segments has one form. */
static void read_link_ack(tf_reader *r, tf_link_ack *out)
{
    out->floor = tf_rd_u64(r);
    out->route_count = tf_rd_len(r, TF_ROUTE_COUNT);
    for (size_t i = 0; i < out->route_count; i++) {
        read_route_count(r, out, i);
    }
    out->range_count = tf_rd_len(r, TF_ACK_RANGES_MAX);
    uint64_t missing = out->floor; /* a segment known to be missing: the range starts after it and `gap` more */
    for (size_t i = 0; i < out->range_count; i++) {
        uint64_t gap = tf_rd_var(r);
        uint64_t length = tf_rd_var(r); /* one less than the segments in it */
        uint64_t room = UINT64_MAX - missing;
        if (room < 2 || gap > room - 2 || length > room - 2 - gap) {
            tf_rd_fail(r);
            return;
        }
        out->ranges[i].first = missing + 1 + gap;
        out->ranges[i].last = out->ranges[i].first + length;
        missing = out->ranges[i].last + 1;
    }
}

/* W6: the same as RFC 9000 §19.3.1 lays its ranges out. */
static void read_packet_ack(tf_reader *r, tf_packet_ack *out)
{
    out->generation = tf_rd_var(r);
    out->delay = tf_rd_var(r);
    uint64_t last = tf_rd_var(r);
    out->range_count = tf_rd_len(r, TF_ACK_RANGES_MAX);
    if (out->range_count == 0) {
        tf_rd_fail(r);
    }
    for (size_t i = 0; i < out->range_count; i++) {
        uint64_t length = tf_rd_var(r); /* one less than the packets in it */
        if (length > last) {
            tf_rd_fail(r);
            return;
        }
        out->ranges[i] = (tf_range){.first = last - length, .last = last};
        if (i + 1 == out->range_count) {
            return;
        }
        uint64_t gap = tf_rd_var(r); /* one less than the packets missing */
        if (out->ranges[i].first < 2 || gap > out->ranges[i].first - 2) {
            tf_rd_fail(r);
            return;
        }
        last = out->ranges[i].first - 2 - gap;
    }
}

/* W9 */
static void read_close(tf_reader *r, tf_close *out)
{
    out->code = tf_rd_var(r);
    out->reason = tf_rd_bytes(r, tf_rd_left(r));
    if (out->reason.len > TF_CLOSE_REASON_MAX || !tf_utf8_is_valid(out->reason)) {
        tf_rd_fail(r);
    }
}

static void read_payload(tf_reader *r, tf_frame *out)
{
    switch (out->type) {
    case TF_FRAME_PADDING:
        read_padding(r, out);
        return;
    case TF_FRAME_HELLO:
    case TF_FRAME_WELCOME:
        out->u.payload = tf_rd_bytes(r, tf_rd_left(r));
        return;
    case TF_FRAME_SEGMENT:
        read_segment(r, &out->u.segment);
        return;
    case TF_FRAME_LINK_ACK:
        read_link_ack(r, &out->u.link_ack);
        return;
    case TF_FRAME_PACKET_ACK:
        read_packet_ack(r, &out->u.packet_ack);
        return;
    case TF_FRAME_PING:
    case TF_FRAME_PONG:
    case TF_FRAME_CHALLENGE:
    case TF_FRAME_RESPONSE:
        out->u.token = tf_rd_u64(r);
        return;
    case TF_FRAME_CLOSE:
        read_close(r, &out->u.close);
        return;
    }
    TF_UNREACHABLE();
}

tf_err tf_frame_read(tf_reader *r, tf_frame *out)
{
    if (!tf_rd_ok(r)) {
        return TF_ERR_PEER_SYNTAX;
    }
    tf_reader ahead = *r;
    uint8_t type = tf_rd_u8(&ahead);
    uint16_t len = tf_rd_u16(&ahead);
    if (!tf_rd_ok(&ahead)) {
        return TF_ERR_AGAIN;
    }
    if (type >= sizeof(bounds) / sizeof(bounds[0]) || len < bounds[type].min || len > bounds[type].max) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (tf_rd_left(&ahead) < len) {
        return TF_ERR_AGAIN;
    }
    tf_reader payload;
    tf_rd_init(&payload, tf_rd_bytes(&ahead, len));
    out->type = (tf_frame_type)type;
    read_payload(&payload, out);
    tf_err err = tf_rd_end(&payload);
    if (err == TF_OK) {
        *r = ahead;
    }
    return err;
}

/* --- writing --- */

static size_t link_ack_size(const tf_link_ack *ack)
{
    size_t size = 8 + tf_var_len(ack->route_count) + tf_var_len(ack->range_count);
    for (size_t i = 0; i < ack->route_count; i++) {
        const tf_route_count *count = &ack->routes[i];
        size += 1 + tf_var_len(count->generation) + tf_var_len(count->bytes) + tf_var_len(count->first) +
                tf_var_len(count->repeats);
    }
    uint64_t missing = ack->floor;
    for (size_t i = 0; i < ack->range_count; i++) {
        const tf_range *range = &ack->ranges[i];
        TF_ASSERT(range->first > missing && range->last >= range->first && range->last < UINT64_MAX);
        size += tf_var_len(range->first - missing - 1) + tf_var_len(range->last - range->first);
        missing = range->last + 1;
    }
    return size;
}

static size_t packet_ack_size(const tf_packet_ack *ack)
{
    TF_ASSERT(ack->range_count > 0);
    size_t size = tf_var_len(ack->generation) + tf_var_len(ack->delay) + tf_var_len(ack->ranges[0].last) +
                  tf_var_len(ack->range_count);
    for (size_t i = 0; i < ack->range_count; i++) {
        const tf_range *range = &ack->ranges[i];
        TF_ASSERT(range->last >= range->first);
        size += tf_var_len(range->last - range->first);
        if (i > 0) {
            uint64_t before = ack->ranges[i - 1].first;
            TF_ASSERT(before >= 2 && range->last <= before - 2);
            size += tf_var_len(before - range->last - 2);
        }
    }
    return size;
}

static size_t payload_size(const tf_frame *frame)
{
    switch (frame->type) {
    case TF_FRAME_PADDING:
    case TF_FRAME_HELLO:
    case TF_FRAME_WELCOME:
        return frame->u.payload.len;
    case TF_FRAME_SEGMENT:
        return TF_SEGMENT_HEADER + frame->u.segment.data.len;
    case TF_FRAME_LINK_ACK:
        TF_ASSERT(frame->u.link_ack.range_count <= TF_ACK_RANGES_MAX);
        TF_ASSERT(frame->u.link_ack.route_count <= TF_ROUTE_COUNT);
        return link_ack_size(&frame->u.link_ack);
    case TF_FRAME_PACKET_ACK:
        TF_ASSERT(frame->u.packet_ack.range_count <= TF_ACK_RANGES_MAX);
        return packet_ack_size(&frame->u.packet_ack);
    case TF_FRAME_PING:
    case TF_FRAME_PONG:
    case TF_FRAME_CHALLENGE:
    case TF_FRAME_RESPONSE:
        return TOKEN_LEN;
    case TF_FRAME_CLOSE:
        return tf_var_len(frame->u.close.code) + frame->u.close.reason.len;
    }
    TF_UNREACHABLE();
}

size_t tf_frame_size(const tf_frame *frame)
{
    size_t size = payload_size(frame);
    TF_ASSERT(size >= bounds[frame->type].min && size <= bounds[frame->type].max);
    return TF_FRAME_HEADER + size;
}

static void write_link_ack(tf_writer *w, const tf_link_ack *ack)
{
    tf_wr_u64(w, ack->floor);
    tf_wr_var(w, ack->route_count);
    for (size_t i = 0; i < ack->route_count; i++) {
        const tf_route_count *count = &ack->routes[i];
        tf_wr_u8(w, count->route);
        tf_wr_var(w, count->generation);
        tf_wr_var(w, count->bytes);
        tf_wr_var(w, count->first);
        tf_wr_var(w, count->repeats);
    }
    tf_wr_var(w, ack->range_count);
    uint64_t missing = ack->floor;
    for (size_t i = 0; i < ack->range_count; i++) {
        tf_wr_var(w, ack->ranges[i].first - missing - 1);
        tf_wr_var(w, ack->ranges[i].last - ack->ranges[i].first);
        missing = ack->ranges[i].last + 1;
    }
}

static void write_packet_ack(tf_writer *w, const tf_packet_ack *ack)
{
    tf_wr_var(w, ack->generation);
    tf_wr_var(w, ack->delay);
    tf_wr_var(w, ack->ranges[0].last);
    tf_wr_var(w, ack->range_count);
    for (size_t i = 0; i < ack->range_count; i++) {
        if (i > 0) {
            tf_wr_var(w, ack->ranges[i - 1].first - ack->ranges[i].last - 2);
        }
        tf_wr_var(w, ack->ranges[i].last - ack->ranges[i].first);
    }
}

static void write_payload(tf_writer *w, const tf_frame *frame)
{
    switch (frame->type) {
    case TF_FRAME_PADDING:
    case TF_FRAME_HELLO:
    case TF_FRAME_WELCOME:
        tf_wr_bytes(w, frame->u.payload);
        return;
    case TF_FRAME_SEGMENT:
        tf_wr_u64(w, frame->u.segment.seq);
        tf_wr_u8(w, frame->u.segment.flags);
        tf_wr_bytes(w, frame->u.segment.data);
        return;
    case TF_FRAME_LINK_ACK:
        write_link_ack(w, &frame->u.link_ack);
        return;
    case TF_FRAME_PACKET_ACK:
        write_packet_ack(w, &frame->u.packet_ack);
        return;
    case TF_FRAME_PING:
    case TF_FRAME_PONG:
    case TF_FRAME_CHALLENGE:
    case TF_FRAME_RESPONSE:
        tf_wr_u64(w, frame->u.token);
        return;
    case TF_FRAME_CLOSE:
        tf_wr_var(w, frame->u.close.code);
        tf_wr_bytes(w, frame->u.close.reason);
        return;
    }
    TF_UNREACHABLE();
}

bool tf_frame_write(tf_writer *w, const tf_frame *frame)
{
    size_t size = tf_frame_size(frame);
    if (size > tf_wr_left(w)) {
        return false;
    }
    size_t before = tf_wr_len(w);
    tf_wr_u8(w, (uint8_t)frame->type);
    tf_wr_u16(w, (uint16_t)(size - TF_FRAME_HEADER));
    write_payload(w, frame);
    TF_ASSERT(tf_wr_ok(w) && tf_wr_len(w) - before == size);
    return true;
}
