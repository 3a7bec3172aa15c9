/* proto/PROTOCOL.md: what the specification shows is what the code reads and writes (sections W, M, Errors). */
#include <stdio.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/message.h"
#include "tests/support/check_main.h"
#include "tests/support/message_lines.h"
#include "tests/support/protocol_md.h"
#include "tests/support/support.h"

static uint8_t block[4096];
static size_t block_len;

static tf_slice fetch(const char *name)
{
    ck_assert_msg(tf_doc_block(name, block, sizeof(block), &block_len), "no block %s", name);
    return tf_slice_of(block, block_len);
}

static tf_frame frame_of(const char *name)
{
    tf_frame frame;
    tf_reader r;
    tf_rd_init(&r, fetch(name));
    ck_assert_msg(tf_frame_read(&r, &frame) == TF_OK, "%s", name);
    ck_assert_msg(tf_rd_end(&r) == TF_OK, "%s", name);
    return frame;
}

static tf_message message_of(const char *name)
{
    tf_message message;
    ck_assert_msg(tf_message_read(fetch(name), &message) == TF_OK, "%s", name);
    return message;
}

static void assert_text(tf_slice got, const char *want)
{
    ck_assert(tf_slice_eq(got, tf_slice_str(want)));
}

static void assert_range(tf_range got, uint64_t first, uint64_t last)
{
    ck_assert_uint_eq(got.first, first);
    ck_assert_uint_eq(got.last, last);
}

START_TEST(protocol_md_every_frame_block_is_what_the_writer_writes)
{
    char name[TF_DOC_NAME_MAX];
    unsigned seen = 0;
    for (size_t i = 0; tf_doc_block_name(i, name); i++) {
        if (strncmp(name, "frame ", 6) != 0) {
            continue;
        }
        tf_frame frame = frame_of(name);
        uint8_t out[sizeof(block)];
        tf_writer w;
        tf_wr_init(&w, out, sizeof(out));
        ck_assert_msg(tf_frame_write(&w, &frame), "%s", name);
        ck_assert_msg(tf_wr_len(&w) == block_len && memcmp(out, block, block_len) == 0, "%s", name);
        seen |= 1u << frame.type;
    }
    ck_assert_uint_eq(seen, (1u << (TF_FRAME_CLOSE + 1)) - 1);
}
END_TEST

START_TEST(protocol_md_every_message_block_is_read)
{
    char name[TF_DOC_NAME_MAX];
    unsigned seen = 0;
    for (size_t i = 0; tf_doc_block_name(i, name); i++) {
        if (strncmp(name, "message ", 8) == 0) {
            tf_message message = message_of(name);
            seen |= 1u << message.kind;
        }
    }
    ck_assert_uint_eq(seen, 1u << TF_MESSAGE_DELIVER | 1u << TF_MESSAGE_RESOLVE | 1u << TF_MESSAGE_DROP |
                                1u << TF_MESSAGE_REVOKE | 1u << TF_MESSAGE_ACK);
}
END_TEST

START_TEST(protocol_md_plain_frames_have_their_payload)
{
    ck_assert_uint_eq(frame_of("frame padding").u.payload.len, 5);
    tf_frame hello = frame_of("frame hello");
    ck_assert_uint_eq(hello.type, TF_FRAME_HELLO);
    ck_assert(tf_slice_eq(hello.u.payload, tf_slice_of("\x80", 1)));
    ck_assert_uint_eq(frame_of("frame welcome").type, TF_FRAME_WELCOME);
    ck_assert_uint_eq(frame_of("frame ping").u.token, UINT64_C(0x0123456789abcdef));
    ck_assert_uint_eq(frame_of("frame pong").u.token, UINT64_C(0x0123456789abcdef));
    ck_assert_uint_eq(frame_of("frame challenge").u.token, UINT64_C(0xfedcba9876543210));
    ck_assert_uint_eq(frame_of("frame response").u.token, UINT64_C(0xfedcba9876543210));
}
END_TEST

START_TEST(protocol_md_segments_have_seq_flags_and_data)
{
    tf_segment segment = frame_of("frame segment").u.segment;
    ck_assert_uint_eq(segment.seq, 258);
    ck_assert_uint_eq(segment.flags, TF_SEGMENT_FIRST | TF_SEGMENT_LAST);
    ck_assert(tf_slice_eq(segment.data, tf_slice_of("\x93\x05\x07", 3)));
    segment = frame_of("frame segment middle").u.segment;
    ck_assert_uint_eq(segment.seq, UINT64_MAX - 1);
    ck_assert_uint_eq(segment.flags, 0);
    ck_assert_uint_eq(segment.data.len, 1);
}
END_TEST

START_TEST(protocol_md_link_acks_have_their_segments)
{
    tf_link_ack ack = frame_of("frame link_ack").u.link_ack;
    ck_assert_uint_eq(ack.floor, 100);
    ck_assert_uint_eq(ack.route_count, 2);
    ck_assert_uint_eq(ack.routes[0].route, TF_ROUTE_STREAM);
    ck_assert_uint_eq(ack.routes[0].generation, 3);
    ck_assert_uint_eq(ack.routes[0].bytes, 256);
    ck_assert_uint_eq(ack.routes[0].first, 10);
    ck_assert_uint_eq(ack.routes[0].repeats, 0);
    ck_assert_uint_eq(ack.routes[1].route, TF_ROUTE_DATAGRAM);
    ck_assert_uint_eq(ack.range_count, 2);
    assert_range(ack.ranges[0], 101, 102);
    assert_range(ack.ranges[1], 168, 168);
    ack = frame_of("frame link_ack floor").u.link_ack;
    ck_assert_uint_eq(ack.floor, UINT64_C(1) << 32);
    ck_assert_uint_eq(ack.route_count + ack.range_count, 0);
}
END_TEST

START_TEST(protocol_md_packet_ack_and_close_have_their_fields)
{
    tf_packet_ack ack = frame_of("frame packet_ack").u.packet_ack;
    ck_assert_uint_eq(ack.generation, 2);
    ck_assert_uint_eq(ack.delay, 1000);
    ck_assert_uint_eq(ack.range_count, 2);
    assert_range(ack.ranges[0], 197, 200);
    assert_range(ack.ranges[1], 190, 195);
    tf_close close = frame_of("frame close").u.close;
    ck_assert_uint_eq(close.code, TF_CLOSE_BAD_REF);
    assert_text(close.reason, "ref 37!\xe2\x9c\x93");
}
END_TEST

START_TEST(protocol_md_deliver_is_what_the_writer_writes)
{
    const tf_ref refs[] = {tf_ref_make(5, TF_REF_OBJECT, TF_SIDE_DIALLER),
                           tf_ref_make(6, TF_REF_OBJECT, TF_SIDE_DIALLER)};
    const tf_deliver deliver = {
        .target = tf_ref_make(0, TF_REF_OBJECT, TF_SIDE_ACCEPTOR),
        .method = tf_slice_str("open"),
        .args = tf_slice_of("\xa1m1", 3),
        .refs = refs,
        .ref_count = 2,
        .has_result = true,
        .result = tf_ref_make(64, TF_REF_PROMISE, TF_SIDE_DIALLER),
    };
    uint8_t out[128];
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    tf_message_write_deliver(&w, 5, 1, &deliver);
    ck_assert(tf_slice_eq(fetch("message deliver"), tf_slice_of(out, tf_wr_len(&w))));
}
END_TEST

START_TEST(protocol_md_deliver_has_its_fields)
{
    tf_message message = message_of("message deliver");
    ck_assert(message.has_number && message.has_result);
    ck_assert_uint_eq(message.number, 5);
    ck_assert_uint_eq(message.ack_delta, 1);
    ck_assert_uint_eq(message.target, 1);
    assert_text(message.method, "open");
    ck_assert_uint_eq(message.refs.count, 2);
    ck_assert_uint_eq(message.result, 258);
    message = message_of("message deliver without number and result");
    ck_assert(!message.has_number && !message.has_result);
    ck_assert_uint_eq(message.target, 2);
    ck_assert_uint_eq(message.args.len + message.refs.count, 0);
}
END_TEST

START_TEST(protocol_md_resolve_is_what_the_writer_writes)
{
    const tf_ref mentioned = tf_ref_make(2, TF_REF_OBJECT, TF_SIDE_ACCEPTOR);
    const tf_ref object = tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_ACCEPTOR);
    tf_ref promises[3];
    for (uint64_t i = 0; i < 3; i++) {
        promises[i] = tf_ref_make(i, TF_REF_PROMISE, TF_SIDE_DIALLER);
    }
    uint8_t out[128];
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    tf_message_write_resolve_head(&w, 0, 128, 3);
    tf_message_write_resolution_object(&w, promises[0], object);
    tf_test_write_resolution(&w, promises[1], false, tf_slice_str("hi"), &mentioned, 1);
    tf_test_write_resolution(&w, promises[2], true, tf_slice_str("!"), NULL, 0);
    ck_assert(tf_slice_eq(fetch("message resolve"), tf_slice_of(out, tf_wr_len(&w))));
}
END_TEST

START_TEST(protocol_md_revoke_is_what_the_writer_writes)
{
    const tf_ref mentioned = tf_ref_make(2, TF_REF_OBJECT, TF_SIDE_ACCEPTOR);
    uint8_t out[128];
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    tf_message_write_revoke_head(&w, 9, 0, 2);
    tf_test_write_revocation(&w, tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_ACCEPTOR), false, tf_slice_str("no"), &mentioned, 1);
    tf_test_write_revocation(&w, tf_ref_make(3, TF_REF_OBJECT, TF_SIDE_ACCEPTOR), true, tf_slice_str(""), NULL, 0);
    ck_assert(tf_slice_eq(fetch("message revoke"), tf_slice_of(out, tf_wr_len(&w))));
}
END_TEST

START_TEST(protocol_md_drop_and_ack_are_what_the_writer_writes)
{
    const tf_ref refs[] = {5, 9};
    uint8_t out[128];
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    tf_message_write_drop(&w, UINT64_C(1) << 32, 0, refs, 2);
    ck_assert(tf_slice_eq(fetch("message drop"), tf_slice_of(out, tf_wr_len(&w))));
    tf_wr_init(&w, out, sizeof(out));
    tf_message_write_ack(&w, 7, 2);
    ck_assert(tf_slice_eq(fetch("message ack"), tf_slice_of(out, tf_wr_len(&w))));
}
END_TEST

/* True when the document has a line that begins with that text. */
static bool doc_has_line(const char *start)
{
    char line[1024];
    bool found = false;
    FILE *file = fopen(TF_PROTOCOL_MD, "r");
    ck_assert_ptr_nonnull(file);
    while (!found && fgets(line, sizeof(line), file) != NULL) {
        found = strncmp(line, start, strlen(start)) == 0;
    }
    ck_assert_int_eq(fclose(file), 0);
    return found;
}

START_TEST(protocol_md_every_close_code_is_listed)
{
    static const struct {
        unsigned number;
        const char *text;
    } codes[] = {
#define X(name, number, text) {number, text},
        TF_CLOSE_MAP(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        char start[64];
        ck_assert_int_gt(snprintf(start, sizeof(start), "| %u | `%s` |", codes[i].number, codes[i].text), 0);
        ck_assert_msg(doc_has_line(start), "%s", start);
    }
}
END_TEST

START_TEST(protocol_md_limits_are_those_of_the_code)
{
    static const struct {
        const char *text;
        size_t value;
    } rows[] = {
        {"| UDP payload of a base packet | %zu bytes |", TF_PACKET_BASE},
        {"| UDP payload of a packet | %zu bytes |", TF_PACKET_MAX},
        {"| frame payload | %zu bytes |", TF_FRAME_PAYLOAD_MAX},
        {"| data of a segment | %zu bytes |", TF_SEGMENT_DATA_MAX},
        {"| ranges in a LINK_ACK or PACKET_ACK | %zu |", TF_ACK_RANGES_MAX},
        {"| reason of a CLOSE | %zu bytes |", TF_CLOSE_REASON_MAX},
        {"| message | %zu bytes |", TF_MESSAGE_MAX},
        {"| method | %zu bytes |", TF_METHOD_MAX},
        {"| refs of a message; resolutions of a resolve | %zu |", TF_REFS_PER_MESSAGE},
        {"| data of a rejection | %zu bytes |", TF_REJECTION_MAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[128];
        const char *hole = strstr(rows[i].text, "%zu");
        ck_assert_int_gt(snprintf(line, sizeof(line), "%.*s%zu%s", (int)(hole - rows[i].text), rows[i].text,
                                  rows[i].value, hole + 3),
                         0);
        ck_assert_msg(doc_has_line(line), "%s", line);
    }
}
END_TEST

START_TEST(protocol_md_unknown_block_is_not_found)
{
    ck_assert(!tf_doc_block("frame of mind", block, sizeof(block), &block_len));
    ck_assert(!tf_doc_block("frame ping", block, 10, &block_len));
    ck_assert(tf_doc_block("frame ping", block, 11, &block_len));
    ck_assert_uint_eq(block_len, 11);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        protocol_md_every_frame_block_is_what_the_writer_writes,
        protocol_md_every_message_block_is_read,
        protocol_md_plain_frames_have_their_payload,
        protocol_md_segments_have_seq_flags_and_data,
        protocol_md_link_acks_have_their_segments,
        protocol_md_packet_ack_and_close_have_their_fields,
        protocol_md_deliver_is_what_the_writer_writes,
        protocol_md_deliver_has_its_fields,
        protocol_md_resolve_is_what_the_writer_writes,
        protocol_md_revoke_is_what_the_writer_writes,
        protocol_md_drop_and_ack_are_what_the_writer_writes,
        protocol_md_every_close_code_is_listed,
        protocol_md_limits_are_those_of_the_code,
        protocol_md_unknown_block_is_not_found,
        NULL,
    };
    return tf_test_run("proto/protocol_md", tests);
}
