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
    static const char *const asks[] = {"map arguments open", "map arguments open existing"};
    static const char *const results[] = {"map result open", "map result open dedup"};
    for (size_t i = 0; i < 2; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_args_open args;
        tf_result_open result;
        doc_bytes asked = fetch(asks[i]);
        doc_bytes answered = fetch(results[i]);
        ck_assert_int_eq(tf_args_open_read(slice(&asked), &args), TF_OK);
        ck_assert(is_text(args.channel, "room/1") && args.existing_only == (i == 1));
        tf_wr_init(&w, out, sizeof(out));
        tf_args_open_write(&w, &args);
        check_written(&asked, &w);
        ck_assert_int_eq(tf_result_open_read(slice(&answered), &result), TF_OK);
        ck_assert(result.epoch == EPOCH && result.max_in_flight == 32 && result.max_body == 1044480);
        ck_assert_uint_eq(result.dedup_age_ms, i == 1 ? 86400000 : 0);
        tf_wr_init(&w, out, sizeof(out));
        tf_result_open_write(&w, &result);
        check_written(&answered, &w);
    }
}
END_TEST

START_TEST(protocol_md_send_with_and_without_origin_and_meta)
{
    static const char *const names[] = {"map arguments send", "map arguments send origin", "map arguments send meta"};
    for (size_t i = 0; i < 3; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_args_send args;
        tf_node_id id = sender();
        doc_bytes bytes = fetch(names[i]);
        ck_assert_int_eq(tf_args_send_read(slice(&bytes), &args), TF_OK);
        ck_assert(is_text(args.client_id, "a1-7"));
        ck_assert(is_text(args.body, "hello"));
        ck_assert_int_eq(args.has_origin, i == 1);
        ck_assert(i != 1 || (tf_node_id_eq(&args.origin, &id) && args.instance == 258));
        ck_assert(is_text(args.meta, i == 2 ? "m1" : "") && args.expires_ms == (i == 2 ? TIMESTAMP : 0));
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

START_TEST(protocol_md_subscribe)
{
    static const struct {
        const char *name;
        tf_args_subscribe args;
    } rows[] = {
        {"map arguments subscribe", {.from = {TF_FROM_NEW, 0}, .limit = UINT64_MAX}},
        {"map arguments subscribe resume", {{TF_FROM_SEQ, 43}, true, EPOCH, true, 4194304, {NULL, 0}}},
        {"map arguments subscribe time", {.from = {TF_FROM_TIME, TIMESTAMP}, .limit = UINT64_MAX}},
        {"map arguments subscribe durable",
         {.from = {TF_FROM_FIRST, 0}, .limit = UINT64_MAX, .durable = {(const uint8_t *)"billing", 7}}},
    };
    uint8_t out[512];
    tf_writer w;
    for (size_t i = 0; i < 4; i++) {
        tf_args_subscribe args;
        doc_bytes bytes = fetch(rows[i].name);
        ck_assert_int_eq(tf_args_subscribe_read(slice(&bytes), &args), TF_OK);
        ck_assert_int_eq(args.from.kind, rows[i].args.from.kind);
        ck_assert_uint_eq(args.from.value, rows[i].args.from.value);
        ck_assert_int_eq(args.has_epoch, rows[i].args.has_epoch);
        ck_assert(!args.has_epoch || args.epoch == rows[i].args.epoch);
        ck_assert_int_eq(args.echo, rows[i].args.echo);
        ck_assert_uint_eq(args.limit, rows[i].args.limit);
        ck_assert(tf_slice_eq(args.durable, rows[i].args.durable));
        tf_wr_init(&w, out, sizeof(out));
        tf_args_subscribe_write(&w, &args);
        check_written(&bytes, &w);
    }
}
END_TEST

START_TEST(protocol_md_result_of_subscribe)
{
    static const char *const names[] = {"map result subscribe", "map result subscribe resumed"};
    for (size_t i = 0; i < 2; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_result_subscribe result;
        doc_bytes bytes = fetch(names[i]);
        ck_assert_int_eq(tf_result_subscribe_read(slice(&bytes), &result), TF_OK);
        ck_assert(result.epoch == EPOCH && result.head == 42 && result.first == 1);
        ck_assert(result.next == (i == 0 ? 43u : 17u) && result.resumed == (i == 1));
        tf_wr_init(&w, out, sizeof(out));
        tf_result_subscribe_write(&w, &result);
        check_written(&bytes, &w);
    }
}
END_TEST

START_TEST(protocol_md_activities)
{
    static const char *const names[] = {"map arguments activity", "map arguments activity meta"};
    for (size_t i = 0; i < 2; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_activity activity;
        tf_node_id id = sender();
        doc_bytes bytes = fetch(names[i]);
        ck_assert_int_eq(tf_activity_read(slice(&bytes), &activity), TF_OK);
        ck_assert(activity.epoch == EPOCH && activity.seq == 42 && activity.timestamp_ms == TIMESTAMP);
        ck_assert(is_text(activity.id, "0123456789abcdef-42"));
        ck_assert(is_text(activity.client_id, "a1-7"));
        ck_assert(is_text(activity.body, "hello"));
        ck_assert(tf_node_id_eq(&activity.sender, &id));
        ck_assert(is_text(activity.meta, i == 0 ? "" : "m1"));
        ck_assert_uint_eq(activity.expires_ms, i == 0 ? 0 : TIMESTAMP + 1000);
        tf_wr_init(&w, out, sizeof(out));
        tf_activity_write(&w, &activity);
        check_written(&bytes, &w);
    }
}
END_TEST

START_TEST(protocol_md_what_else_a_sink_gets)
{
    uint8_t out[512];
    tf_writer w;
    tf_gap gap;
    tf_ended ended;
    doc_bytes hole = fetch("map arguments gap");
    doc_bytes over = fetch("map arguments ended");
    ck_assert_int_eq(tf_gap_read(slice(&hole), &gap), TF_OK);
    ck_assert(gap.epoch == EPOCH && gap.next == 50 && is_text(gap.reason, "trimmed"));
    tf_wr_init(&w, out, sizeof(out));
    tf_gap_write(&w, &gap);
    check_written(&hole, &w);
    ck_assert_int_eq(tf_ended_read(slice(&over), &ended), TF_OK);
    ck_assert(is_text(ended.reason, "taken_over"));
    tf_wr_init(&w, out, sizeof(out));
    tf_ended_write(&w, &ended);
    check_written(&over, &w);
}
END_TEST

START_TEST(protocol_md_more_and_confirm)
{
    uint8_t out[512];
    tf_writer w;
    tf_args_more more;
    tf_args_confirm confirm;
    doc_bytes limit = fetch("map arguments more");
    doc_bytes position = fetch("map arguments confirm");
    ck_assert_int_eq(tf_args_more_read(slice(&limit), &more), TF_OK);
    ck_assert_uint_eq(more.limit, 8388608);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_more_write(&w, &more);
    check_written(&limit, &w);
    ck_assert_int_eq(tf_args_confirm_read(slice(&position), &confirm), TF_OK);
    ck_assert(confirm.epoch == EPOCH && confirm.next == 43);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_confirm_write(&w, &confirm);
    check_written(&position, &w);
}
END_TEST

START_TEST(protocol_md_forget_cursor)
{
    static const char *const names[] = {"map arguments forget_cursor", "map arguments forget_cursor owner"};
    for (size_t i = 0; i < 2; i++) {
        uint8_t out[512];
        tf_writer w;
        tf_args_forget_cursor args;
        tf_node_id id = sender();
        doc_bytes bytes = fetch(names[i]);
        ck_assert_int_eq(tf_args_forget_cursor_read(slice(&bytes), &args), TF_OK);
        ck_assert(is_text(args.name, "billing") && args.has_owner == (i == 1));
        ck_assert(i == 0 || tf_node_id_eq(&args.owner, &id));
        tf_wr_init(&w, out, sizeof(out));
        tf_args_forget_cursor_write(&w, &args);
        check_written(&bytes, &w);
    }
}
END_TEST

/* The only gap of a list: written again. */
static void copy_hole(tf_items *items, tf_writer *w, const tf_hole *expected)
{
    tf_slice item;
    tf_hole hole;
    ck_assert(tf_items_next(items, &item));
    ck_assert_int_eq(tf_hole_read(item, &hole), TF_OK);
    ck_assert(hole.first == expected->first && hole.last == expected->last &&
              tf_slice_eq(hole.reason, expected->reason));
    tf_hole_write(w, &hole);
}

START_TEST(protocol_md_read_and_its_results)
{
    uint8_t out[512];
    tf_writer w;
    tf_slice item;
    tf_args_read range;
    tf_activity activity;
    tf_result_read result;
    doc_bytes asked = fetch("map arguments read");
    doc_bytes answered = fetch("map result read");
    doc_bytes trimmed = fetch("map result read gaps");
    ck_assert_int_eq(tf_args_read_read(slice(&asked), &range), TF_OK);
    ck_assert(range.from == 42 && range.to == 50);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_read_write(&w, &range);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_result_read_read(slice(&answered), &result), TF_OK);
    ck_assert(result.epoch == EPOCH && result.first == 1 && result.head == 42 && result.next == 43);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_read_write_head(&w, &result, 1, 0);
    ck_assert(tf_items_next(&result.items, &item) && tf_activity_read(item, &activity) == TF_OK);
    ck_assert(!tf_items_next(&result.items, &item) && !tf_items_next(&result.gaps, &item));
    tf_activity_write(&w, &activity);
    check_written(&answered, &w);
    ck_assert_int_eq(tf_result_read_read(slice(&trimmed), &result), TF_OK);
    ck_assert(result.first == 40 && result.next == 40 && !tf_items_next(&result.items, &item));
    tf_wr_init(&w, out, sizeof(out));
    tf_result_read_write_head(&w, &result, 0, 1);
    tf_result_read_write_gaps(&w, 1);
    copy_hole(&result.gaps, &w, &(tf_hole){1, 39, tf_slice_str("trimmed")});
    check_written(&trimmed, &w);
}
END_TEST

static void check_state(const tf_channel_state *state)
{
    ck_assert(is_text(state->name, "room/1") && state->epoch == EPOCH && state->first == 40 && state->head == 42);
    ck_assert(state->bytes == 5000 && state->timestamp_ms == TIMESTAMP && !state->closed);
}

START_TEST(protocol_md_channels_and_its_result)
{
    uint8_t out[512];
    tf_writer w;
    tf_slice item;
    tf_args_channels args;
    tf_result_channels result;
    tf_channel_state state;
    doc_bytes asked = fetch("map arguments channels");
    doc_bytes answered = fetch("map result channels");
    ck_assert_int_eq(tf_args_channels_read(slice(&asked), &args), TF_OK);
    ck_assert(args.after == 7 && args.limit == 1);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_channels_write(&w, &args);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_result_channels_read(slice(&answered), &result), TF_OK);
    ck_assert_uint_eq(result.next, 9);
    ck_assert(tf_items_next(&result.items, &item) && tf_channel_state_read(item, &state) == TF_OK);
    check_state(&state);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_channels_write_head(&w, &result, 1);
    tf_channel_state_write(&w, &state);
    check_written(&answered, &w);
}
END_TEST

START_TEST(protocol_md_result_of_info)
{
    uint8_t out[512];
    tf_writer w;
    tf_slice item;
    tf_result_info info;
    tf_cursor_state cursor;
    tf_node_id id = sender();
    doc_bytes bytes = fetch("map result info");
    ck_assert_int_eq(tf_result_info_read(slice(&bytes), &info), TF_OK);
    check_state(&info.state);
    ck_assert(info.keys_since_ms == 1699999000123 && info.max_count == 1000 && info.subscriptions == 3);
    ck_assert(info.max_age_ms == 0 && info.max_bytes == 0 && info.dedup_age_ms == 0 && info.cursor_count == 1);
    ck_assert(tf_items_next(&info.cursors, &item) && tf_cursor_state_read(item, &cursor) == TF_OK);
    ck_assert(is_text(cursor.name, "billing") && tf_node_id_eq(&cursor.owner, &id) && cursor.epoch == EPOCH);
    ck_assert(cursor.next == 41 && cursor.moved_ms == TIMESTAMP);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_info_write_head(&w, &info, 1);
    tf_cursor_state_write(&w, &cursor);
    check_written(&bytes, &w);
}
END_TEST

START_TEST(protocol_md_trim_and_its_result)
{
    uint8_t out[512];
    tf_writer w;
    tf_args_trim args;
    tf_result_trim result;
    doc_bytes asked = fetch("map arguments trim");
    doc_bytes answered = fetch("map result trim");
    ck_assert_int_eq(tf_args_trim_read(slice(&asked), &args), TF_OK);
    ck_assert_uint_eq(args.before, 40);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_trim_write(&w, &args);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_result_trim_read(slice(&answered), &result), TF_OK);
    ck_assert_uint_eq(result.first, 40);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_trim_write(&w, &result);
    check_written(&answered, &w);
}
END_TEST

START_TEST(protocol_md_gaps_and_its_result)
{
    uint8_t out[512];
    tf_writer w;
    tf_args_gaps args;
    tf_result_gaps result;
    doc_bytes asked = fetch("map arguments gaps");
    doc_bytes answered = fetch("map result gaps");
    ck_assert_int_eq(tf_args_gaps_read(slice(&asked), &args), TF_OK);
    ck_assert_uint_eq(args.from, 2);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_gaps_write(&w, &args);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_result_gaps_read(slice(&answered), &result), TF_OK);
    ck_assert_uint_eq(result.next, 100);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_gaps_write_head(&w, &result, 2);
    copy_hole(&result.items, &w, &(tf_hole){1, 39, tf_slice_str("trimmed")});
    copy_hole(&result.items, &w, &(tf_hole){51, 60, tf_slice_str("damaged")});
    check_written(&answered, &w);
}
END_TEST

START_TEST(protocol_md_names_and_refs)
{
    static const tf_ref_state expected[] = {
        {.ref = 5, .is_export = true, .local = 9, .is_mentioned = true, .mentioned = 4, .count = 2},
        {.ref = 14, .is_export = true, .local = 11, .is_retired = true, .retired = 6, .count = 1},
    };
    uint8_t out[512];
    tf_writer w;
    tf_args_name name;
    tf_args_refs asks;
    tf_result_refs result;
    tf_slice item;
    doc_bytes published = fetch("map arguments publish");
    doc_bytes asked = fetch("map arguments refs");
    doc_bytes answered = fetch("map result refs");
    ck_assert_int_eq(tf_args_name_read(slice(&published), &name), TF_OK);
    ck_assert(is_text(name.name, "echo/1"));
    tf_wr_init(&w, out, sizeof(out));
    tf_args_name_write(&w, &name);
    check_written(&published, &w);
    ck_assert_int_eq(tf_args_refs_read(slice(&asked), &asks), TF_OK);
    ck_assert(asks.after == 23 && asks.limit == 100);
    tf_wr_init(&w, out, sizeof(out));
    tf_args_refs_write(&w, &asks);
    check_written(&asked, &w);
    ck_assert_int_eq(tf_result_refs_read(slice(&answered), &result), TF_OK);
    ck_assert_uint_eq(result.next, 15);
    tf_wr_init(&w, out, sizeof(out));
    tf_result_refs_write_head(&w, &result, 2);
    for (size_t i = 0; tf_items_next(&result.items, &item); i++) {
        tf_ref_state state = {.ref = 0};
        ck_assert_int_eq(tf_ref_state_read(item, &state), TF_OK);
        ck_assert(state.ref == expected[i].ref && state.is_export == expected[i].is_export);
        ck_assert(state.local == expected[i].local && state.count == expected[i].count);
        tf_ref_state_write(&w, &expected[i]);
    }
    check_written(&answered, &w);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        protocol_md_open_and_its_result,
        protocol_md_send_with_and_without_origin_and_meta,
        protocol_md_acks,
        protocol_md_refusal,
        protocol_md_subscribe,
        protocol_md_result_of_subscribe,
        protocol_md_activities,
        protocol_md_what_else_a_sink_gets,
        protocol_md_more_and_confirm,
        protocol_md_forget_cursor,
        protocol_md_read_and_its_results,
        protocol_md_channels_and_its_result,
        protocol_md_result_of_info,
        protocol_md_trim_and_its_result,
        protocol_md_gaps_and_its_result,
        protocol_md_names_and_refs,
        NULL,
    };
    return tf_test_run("node/protocol_md", tests);
}
