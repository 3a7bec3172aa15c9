/* The examples of the section "Hub" of proto/PROTOCOL.md: read, compared with the values beside them, written again. */
#include "node/calls.h"
#include "tests/support/check_main.h"
#include "tests/support/protocol_md.h"
#include "tests/support/support.h"

#define EPOCH UINT64_C(0x0123456789abcdef)
#define TIMESTAMP UINT64_C(1700000000123)

typedef struct doc_bytes {
    uint8_t data[512];
    size_t len;
} doc_bytes;

static doc_bytes fetch(const char *name)
{
    doc_bytes bytes;
    ck_assert_msg(tf_doc_block(name, bytes.data, sizeof(bytes.data), &bytes.len), "no block %s", name);
    return bytes;
}

static tf_slice slice(const doc_bytes *bytes)
{
    return tf_slice_of(bytes->data, bytes->len);
}

/* What was written is what the document shows. */
static void check_written(const doc_bytes *bytes, const tf_writer *w)
{
    ck_assert(tf_wr_ok(w));
    ck_assert_uint_eq(tf_wr_len(w), bytes->len);
    ck_assert_mem_eq(w->start, bytes->data, bytes->len);
}

static bool is_text(tf_slice text, const char *expected)
{
    return tf_slice_eq(text, tf_slice_str(expected));
}

static tf_node_id sender(void)
{
    tf_node_id id;
    for (size_t i = 0; i < TF_NODE_ID_LEN; i++) {
        id.bytes[i] = (uint8_t)(0x20 + i);
    }
    return id;
}

START_TEST(protocol_md_open_and_its_result)
{
    uint8_t out[512];
    tf_writer w;
    tf_args_open args;
    tf_result_open result;
    doc_bytes asked = fetch("map arguments open");
    doc_bytes answered = fetch("map result open");
    ck_assert_int_eq(tf_args_open_read(slice(&asked), &args), TF_OK);
    ck_assert(is_text(args.channel, "room/1"));
    tf_wr_init(&w, out, sizeof(out));
    tf_args_open_write(&w, &args);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_result_open_read(slice(&answered), &result), TF_OK);
    ck_assert_uint_eq(result.epoch, EPOCH);
    ck_assert_uint_eq(result.max_in_flight, 32);
    ck_assert_uint_eq(result.max_body, 1044480);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_open_write(&w, &result);
    check_written(&answered, &w);
}
END_TEST

START_TEST(protocol_md_send_with_and_without_origin)
{
    static const char *const names[] = {"map arguments send", "map arguments send origin"};
    for (size_t i = 0; i < 2; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_args_send args;
        tf_node_id id = sender();
        doc_bytes bytes = fetch(names[i]);
        ck_assert_int_eq(tf_args_send_read(slice(&bytes), &args), TF_OK);
        ck_assert(is_text(args.client_id, "a1-7"));
        ck_assert(is_text(args.body, "hello"));
        ck_assert_int_eq(args.has_origin, i == 1);
        ck_assert(i == 0 || (tf_node_id_eq(&args.origin, &id) && args.instance == 258));
        tf_wr_init(&w, out, sizeof(out));
        tf_args_send_write(&w, &args);
        check_written(&bytes, &w);
        ck_assert_uint_le(bytes.len, tf_args_send_bound(&args));
    }
}
END_TEST

START_TEST(protocol_md_acks)
{
    static const char *const names[] = {"map result send", "map result send duplicate"};
    for (size_t i = 0; i < 2; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_result_ack ack;
        doc_bytes bytes = fetch(names[i]);
        ck_assert_int_eq(tf_result_ack_read(slice(&bytes), &ack), TF_OK);
        ck_assert(is_text(ack.client_id, "a1-7"));
        ck_assert(is_text(ack.id, "0123456789abcdef-42"));
        ck_assert_uint_eq(ack.seq, 42);
        ck_assert_uint_eq(ack.timestamp_ms, TIMESTAMP);
        ck_assert_int_eq(ack.duplicate, i == 1);
        tf_wr_init(&w, out, sizeof(out));
        tf_result_ack_write(&w, &ack);
        check_written(&bytes, &w);
    }
}
END_TEST

START_TEST(protocol_md_refusal)
{
    uint8_t out[512];
    tf_writer w;
    tf_result_refusal refusal;
    doc_bytes bytes = fetch("map refusal");
    ck_assert_int_eq(tf_result_refusal_read(slice(&bytes), &refusal), TF_OK);
    ck_assert(is_text(refusal.client_id, "a1-7"));
    ck_assert_int_eq(tf_refusal_find(refusal.code), TF_REFUSAL_TOO_MANY_IN_FLIGHT);
    ck_assert(is_text(refusal.message, tf_refusal_text(TF_REFUSAL_TOO_MANY_IN_FLIGHT)));
    ck_assert(refusal.retryable);
    ck_assert_uint_eq(refusal.retry_after_ms, tf_refusal_retry_after_ms(TF_REFUSAL_TOO_MANY_IN_FLIGHT));
    tf_wr_init(&w, out, sizeof(out));
    tf_result_refusal_write(&w, &refusal);
    check_written(&bytes, &w);
}
END_TEST

START_TEST(protocol_md_subscribe_and_its_result)
{
    static const struct {
        const char *name;
        tf_args_subscribe args;
    } rows[] = {
        {"map arguments subscribe", {.from = {TF_FROM_NEW, 0}, .limit = UINT64_MAX}},
        {"map arguments subscribe resume", {{TF_FROM_SEQ, 43}, true, EPOCH, true, 4194304}},
        {"map arguments subscribe time", {.from = {TF_FROM_TIME, TIMESTAMP}, .limit = UINT64_MAX}},
    };
    uint8_t out[512];
    tf_writer w;
    for (size_t i = 0; i < 3; i++) {
        tf_args_subscribe args;
        doc_bytes bytes = fetch(rows[i].name);
        ck_assert_int_eq(tf_args_subscribe_read(slice(&bytes), &args), TF_OK);
        ck_assert_int_eq(args.from.kind, rows[i].args.from.kind);
        ck_assert_uint_eq(args.from.value, rows[i].args.from.value);
        ck_assert_int_eq(args.has_epoch, rows[i].args.has_epoch);
        ck_assert(!args.has_epoch || args.epoch == rows[i].args.epoch);
        ck_assert_int_eq(args.echo, rows[i].args.echo);
        ck_assert_uint_eq(args.limit, rows[i].args.limit);
        tf_wr_init(&w, out, sizeof(out));
        tf_args_subscribe_write(&w, &args);
        check_written(&bytes, &w);
    }
    tf_result_subscribe result;
    doc_bytes bytes = fetch("map result subscribe");
    ck_assert_int_eq(tf_result_subscribe_read(slice(&bytes), &result), TF_OK);
    ck_assert(result.epoch == EPOCH && result.head == 42 && result.first == 1 && result.next == 43);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_subscribe_write(&w, &result);
    check_written(&bytes, &w);
}
END_TEST

START_TEST(protocol_md_what_a_sink_gets)
{
    uint8_t out[512];
    tf_writer w;
    tf_activity activity;
    tf_gap gap;
    tf_node_id id = sender();
    doc_bytes bytes = fetch("map arguments activity");
    ck_assert_int_eq(tf_activity_read(slice(&bytes), &activity), TF_OK);
    ck_assert(activity.epoch == EPOCH && activity.seq == 42 && activity.timestamp_ms == TIMESTAMP);
    ck_assert(is_text(activity.id, "0123456789abcdef-42"));
    ck_assert(is_text(activity.client_id, "a1-7"));
    ck_assert(is_text(activity.body, "hello"));
    ck_assert(tf_node_id_eq(&activity.sender, &id));
    tf_wr_init(&w, out, sizeof(out));
    tf_activity_write(&w, &activity);
    check_written(&bytes, &w);
    doc_bytes hole = fetch("map arguments gap");
    ck_assert_int_eq(tf_gap_read(slice(&hole), &gap), TF_OK);
    ck_assert(gap.epoch == EPOCH && gap.next == 50 && is_text(gap.reason, "trimmed"));
    tf_wr_init(&w, out, sizeof(out));
    tf_gap_write(&w, &gap);
    check_written(&hole, &w);
}
END_TEST

START_TEST(protocol_md_more_and_read)
{
    uint8_t out[512];
    tf_writer w;
    tf_args_more more;
    tf_args_read range;
    tf_activity activity;
    doc_bytes limit = fetch("map arguments more");
    doc_bytes asked = fetch("map arguments read");
    doc_bytes answered = fetch("map result read");
    doc_bytes item = fetch("map arguments activity");
    ck_assert_int_eq(tf_args_more_read(slice(&limit), &more), TF_OK);
    ck_assert_uint_eq(more.limit, 8388608);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_more_write(&w, &more);
    check_written(&limit, &w);
    ck_assert_int_eq(tf_args_read_read(slice(&asked), &range), TF_OK);
    ck_assert(range.from == 42 && range.to == 50);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_read_write(&w, &range);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_activity_read(slice(&item), &activity), TF_OK);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_read_write_head(&w, &(tf_result_subscribe){.epoch = EPOCH, .first = 1, .head = 42}, 1);
    tf_activity_write(&w, &activity);
    check_written(&answered, &w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        protocol_md_open_and_its_result,
        protocol_md_send_with_and_without_origin,
        protocol_md_acks,
        protocol_md_refusal,
        protocol_md_subscribe_and_its_result,
        protocol_md_what_a_sink_gets,
        protocol_md_more_and_read,
        NULL,
    };
    return tf_test_run("node/protocol_md", tests);
}
