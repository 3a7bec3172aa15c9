/* Results, and what a sink gets. */
#include "node/calls.h"
#include "node/calls_map.h"
#include "proto/ref.h"

/* -- results ------------------------------------------------------------------------------------------------------- */

/* -- lists --- */

bool tf_items_next(tf_items *items, tf_slice *item)
{
    if (items->left == 0) {
        return false;
    }
    items->left--;
    *item = tf_mp_rd_raw(&items->r);
    return tf_rd_ok(&items->r);
}

/* An array; `in` empty: it was not there, and is an empty one. */
static tf_err read_items(tf_slice in, tf_items *out)
{
    *out = (tf_items){.left = 0};
    tf_rd_init(&out->r, in);
    if (in.len > 0) {
        out->left = tf_mp_rd_array(&out->r, TF_MP_ITEMS_MAX);
    }
    return tf_rd_ok(&out->r) ? TF_OK : TF_ERR_PEER_SYNTAX;
}

/* -- of the root --- */

tf_err tf_result_open_read(tf_slice in, tf_result_open *out)
{
    static const tf_field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_result_open, epoch)},
                                      {NAME("max_in_flight"), UINT, false, offsetof(tf_result_open, max_in_flight)},
                                      {NAME("max_body"), UINT, false, offsetof(tf_result_open, max_body)},
                                      {NAME("dedup_age_ms"), UINT, true, offsetof(tf_result_open, dedup_age_ms)}};
    *out = (tf_result_open){.dedup_age_ms = 0};
    return tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
}

void tf_result_open_write(tf_writer *w, const tf_result_open *result)
{
    tf_mp_wr_map(w, result->dedup_age_ms != 0 ? 4 : 3);
    tf_calls_write_uint(w, LIT("epoch"), result->epoch);
    tf_calls_write_uint(w, LIT("max_in_flight"), result->max_in_flight);
    tf_calls_write_uint(w, LIT("max_body"), result->max_body);
    if (result->dedup_age_ms != 0) {
        tf_calls_write_uint(w, LIT("dedup_age_ms"), result->dedup_age_ms);
    }
}

tf_err tf_channel_state_read(tf_slice in, tf_channel_state *out)
{
    static const tf_field fields[] = {{NAME("name"), STR, false, offsetof(tf_channel_state, name)},
                                      {NAME("epoch"), UINT, false, offsetof(tf_channel_state, epoch)},
                                      {NAME("first"), UINT, false, offsetof(tf_channel_state, first)},
                                      {NAME("head"), UINT, false, offsetof(tf_channel_state, head)},
                                      {NAME("bytes"), UINT, false, offsetof(tf_channel_state, bytes)},
                                      {NAME("timestamp"), UINT, false, offsetof(tf_channel_state, timestamp_ms)},
                                      {NAME("closed"), BOOL, false, offsetof(tf_channel_state, closed)}};
    return tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
}

static void write_state(tf_writer *w, const tf_channel_state *state)
{
    tf_calls_write_str(w, LIT("name"), state->name);
    tf_calls_write_uint(w, LIT("epoch"), state->epoch);
    tf_calls_write_uint(w, LIT("first"), state->first);
    tf_calls_write_uint(w, LIT("head"), state->head);
    tf_calls_write_uint(w, LIT("bytes"), state->bytes);
    tf_calls_write_uint(w, LIT("timestamp"), state->timestamp_ms);
    tf_calls_write_bool(w, LIT("closed"), state->closed);
}

void tf_channel_state_write(tf_writer *w, const tf_channel_state *state)
{
    tf_mp_wr_map(w, 7);
    write_state(w, state);
}

typedef struct page_map {
    uint64_t next;
    tf_slice items;
} page_map;

static tf_err read_page(tf_slice in, uint64_t *next, tf_items *items)
{
    static const tf_field fields[] = {{NAME("next"), UINT, true, offsetof(page_map, next)},
                                      {NAME("items"), RAW, false, offsetof(page_map, items)}};
    page_map map = {.next = 0};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, &map, NULL);
    *next = map.next;
    return err == TF_OK ? read_items(map.items, items) : err;
}

static void write_page(tf_writer *w, uint64_t next, size_t items)
{
    tf_mp_wr_map(w, next != 0 ? 2 : 1);
    if (next != 0) {
        tf_calls_write_uint(w, LIT("next"), next);
    }
    tf_mp_wr_str(w, LIT("items"));
    tf_mp_wr_array(w, items);
}

tf_err tf_result_channels_read(tf_slice in, tf_result_channels *out)
{
    return read_page(in, &out->next, &out->items);
}

void tf_result_channels_write_head(tf_writer *w, const tf_result_channels *result, size_t items)
{
    write_page(w, result->next, items);
}

tf_err tf_result_refs_read(tf_slice in, tf_result_refs *out)
{
    return read_page(in, &out->next, &out->items);
}

void tf_result_refs_write_head(tf_writer *w, const tf_result_refs *result, size_t items)
{
    write_page(w, result->next, items);
}

typedef struct ref_map {
    tf_ref_state state;
    tf_slice kind;
    tf_slice role;
} ref_map;

static tf_slice kind_of(uint64_t ref)
{
    return tf_ref_kind_of(ref) == TF_REF_PROMISE ? LIT("promise") : LIT("object");
}

tf_err tf_ref_state_read(tf_slice in, tf_ref_state *out)
{
    static const tf_field fields[] = {{NAME("ref"), UINT, false, offsetof(ref_map, state.ref)},
                                      {NAME("kind"), STR, false, offsetof(ref_map, kind)},
                                      {NAME("role"), STR, false, offsetof(ref_map, role)},
                                      {NAME("local"), UINT, true, offsetof(ref_map, state.local)},
                                      {NAME("mentioned"), UINT, true, offsetof(ref_map, state.mentioned)},
                                      {NAME("retired"), UINT, true, offsetof(ref_map, state.retired)},
                                      {NAME("revoked"), BOOL, true, offsetof(ref_map, state.is_revoked)},
                                      {NAME("count"), UINT, false, offsetof(ref_map, state.count)}};
    ref_map map = {.kind = {NULL, 0}};
    unsigned present = 0;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, &map, &present);
    map.state.is_export = tf_slice_eq(map.role, LIT("export"));
    map.state.is_mentioned = (present & 16u) != 0;
    map.state.is_retired = (present & 32u) != 0;
    *out = map.state;
    bool known = (map.state.is_export || tf_slice_eq(map.role, LIT("import"))) &&
                 tf_slice_eq(map.kind, kind_of(map.state.ref));
    return err == TF_OK && !known ? TF_ERR_PEER_SYNTAX : err;
}

void tf_ref_state_write(tf_writer *w, const tf_ref_state *state)
{
    tf_mp_wr_map(w, 4u + (state->local != 0 ? 1u : 0u) + (state->is_mentioned ? 1u : 0u) +
                        (state->is_retired ? 1u : 0u) + (state->is_revoked ? 1u : 0u));
    tf_calls_write_uint(w, LIT("ref"), state->ref);
    tf_calls_write_str(w, LIT("kind"), kind_of(state->ref));
    tf_calls_write_str(w, LIT("role"), state->is_export ? LIT("export") : LIT("import"));
    if (state->local != 0) {
        tf_calls_write_uint(w, LIT("local"), state->local);
    }
    if (state->is_mentioned) {
        tf_calls_write_uint(w, LIT("mentioned"), state->mentioned);
    }
    if (state->is_retired) {
        tf_calls_write_uint(w, LIT("retired"), state->retired);
    }
    if (state->is_revoked) {
        tf_calls_write_bool(w, LIT("revoked"), true);
    }
    tf_calls_write_uint(w, LIT("count"), state->count);
}

/* -- of a channel --- */

tf_err tf_cursor_state_read(tf_slice in, tf_cursor_state *out)
{
    static const tf_field fields[] = {{NAME("name"), STR, false, offsetof(tf_cursor_state, name)},
                                      {NAME("owner"), NODE, false, offsetof(tf_cursor_state, owner)},
                                      {NAME("epoch"), UINT, false, offsetof(tf_cursor_state, epoch)},
                                      {NAME("next"), UINT, false, offsetof(tf_cursor_state, next)},
                                      {NAME("moved"), UINT, false, offsetof(tf_cursor_state, moved_ms)}};
    return tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
}

void tf_cursor_state_write(tf_writer *w, const tf_cursor_state *state)
{
    tf_mp_wr_map(w, 5);
    tf_calls_write_str(w, LIT("name"), state->name);
    tf_calls_write_bin(w, LIT("owner"), tf_slice_of(state->owner.bytes, TF_NODE_ID_LEN));
    tf_calls_write_uint(w, LIT("epoch"), state->epoch);
    tf_calls_write_uint(w, LIT("next"), state->next);
    tf_calls_write_uint(w, LIT("moved"), state->moved_ms);
}

typedef struct info_map {
    tf_result_info info;
    tf_slice cursors;
} info_map;

tf_err tf_result_info_read(tf_slice in, tf_result_info *out)
{
    static const tf_field fields[] = {{NAME("keys_since"), UINT, true, offsetof(info_map, info.keys_since_ms)},
                                      {NAME("max_age_ms"), UINT, true, offsetof(info_map, info.max_age_ms)},
                                      {NAME("max_bytes"), UINT, true, offsetof(info_map, info.max_bytes)},
                                      {NAME("max_count"), UINT, true, offsetof(info_map, info.max_count)},
                                      {NAME("dedup_age_ms"), UINT, true, offsetof(info_map, info.dedup_age_ms)},
                                      {NAME("subscriptions"), UINT, false, offsetof(info_map, info.subscriptions)},
                                      {NAME("cursor_count"), UINT, false, offsetof(info_map, info.cursor_count)},
                                      {NAME("cursors"), RAW, false, offsetof(info_map, cursors)}};
    info_map map = {.cursors = {NULL, 0}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, &map, NULL);
    if (err == TF_OK) {
        err = tf_channel_state_read(in, &map.info.state);
    }
    if (err == TF_OK) {
        err = read_items(map.cursors, &map.info.cursors);
    }
    *out = map.info;
    return err;
}

void tf_result_info_write_head(tf_writer *w, const tf_result_info *result, size_t cursors)
{
    const struct {
        tf_slice key;
        uint64_t value;
    } rows[] = {{LIT("keys_since"), result->keys_since_ms},
                {LIT("max_age_ms"), result->max_age_ms},
                {LIT("max_bytes"), result->max_bytes},
                {LIT("max_count"), result->max_count},
                {LIT("dedup_age_ms"), result->dedup_age_ms}};
    size_t pairs = 10;
    for (size_t i = 0; i < 5; i++) {
        pairs += rows[i].value != 0 ? 1u : 0u;
    }
    tf_mp_wr_map(w, pairs);
    write_state(w, &result->state);
    for (size_t i = 0; i < 5; i++) {
        if (rows[i].value != 0) {
            tf_calls_write_uint(w, rows[i].key, rows[i].value);
        }
    }
    tf_calls_write_uint(w, LIT("subscriptions"), result->subscriptions);
    tf_calls_write_uint(w, LIT("cursor_count"), result->cursor_count);
    tf_mp_wr_str(w, LIT("cursors"));
    tf_mp_wr_array(w, cursors);
}

tf_err tf_result_trim_read(tf_slice in, tf_result_trim *out)
{
    static const tf_field fields[] = {{NAME("first"), UINT, false, offsetof(tf_result_trim, first)}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && out->first == 0 ? TF_ERR_PEER_SYNTAX : err;
}

void tf_result_trim_write(tf_writer *w, const tf_result_trim *result)
{
    tf_mp_wr_map(w, 1);
    tf_calls_write_uint(w, LIT("first"), result->first);
}

tf_err tf_hole_read(tf_slice in, tf_hole *out)
{
    static const tf_field fields[] = {{NAME("first"), UINT, false, offsetof(tf_hole, first)},
                                      {NAME("last"), UINT, false, offsetof(tf_hole, last)},
                                      {NAME("reason"), STR, false, offsetof(tf_hole, reason)}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->first == 0 || out->last < out->first) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_hole_write(tf_writer *w, const tf_hole *range)
{
    tf_mp_wr_map(w, 3);
    tf_calls_write_uint(w, LIT("first"), range->first);
    tf_calls_write_uint(w, LIT("last"), range->last);
    tf_calls_write_str(w, LIT("reason"), range->reason);
}

tf_err tf_result_gaps_read(tf_slice in, tf_result_gaps *out)
{
    return read_page(in, &out->next, &out->items);
}

void tf_result_gaps_write_head(tf_writer *w, const tf_result_gaps *result, size_t items)
{
    write_page(w, result->next, items);
}

typedef struct read_map {
    tf_result_read result;
    tf_slice items;
    tf_slice gaps;
} read_map;

tf_err tf_result_read_read(tf_slice in, tf_result_read *out)
{
    static const tf_field fields[] = {{NAME("epoch"), UINT, false, offsetof(read_map, result.epoch)},
                                      {NAME("first"), UINT, false, offsetof(read_map, result.first)},
                                      {NAME("head"), UINT, false, offsetof(read_map, result.head)},
                                      {NAME("next"), UINT, false, offsetof(read_map, result.next)},
                                      {NAME("items"), RAW, false, offsetof(read_map, items)},
                                      {NAME("gaps"), RAW, true, offsetof(read_map, gaps)}};
    read_map map = {.gaps = {NULL, 0}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, &map, NULL);
    if (err == TF_OK) {
        err = read_items(map.items, &map.result.items);
    }
    if (err == TF_OK) {
        err = read_items(map.gaps, &map.result.gaps);
    }
    *out = map.result;
    return err == TF_OK && (out->first == 0 || out->next == 0) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_result_read_write_head(tf_writer *w, const tf_result_read *result, size_t items, size_t gaps)
{
    tf_mp_wr_map(w, gaps > 0 ? 6 : 5);
    tf_calls_write_uint(w, LIT("epoch"), result->epoch);
    tf_calls_write_uint(w, LIT("first"), result->first);
    tf_calls_write_uint(w, LIT("head"), result->head);
    tf_calls_write_uint(w, LIT("next"), result->next);
    tf_mp_wr_str(w, LIT("items"));
    tf_mp_wr_array(w, items);
}

void tf_result_read_write_gaps(tf_writer *w, size_t gaps)
{
    tf_mp_wr_str(w, LIT("gaps"));
    tf_mp_wr_array(w, gaps);
}

tf_err tf_result_ack_read(tf_slice in, tf_result_ack *out)
{
    static const tf_field fields[] = {{NAME("client_id"), STR, false, offsetof(tf_result_ack, client_id)},
                                      {NAME("id"), STR, false, offsetof(tf_result_ack, id)},
                                      {NAME("seq"), UINT, false, offsetof(tf_result_ack, seq)},
                                      {NAME("timestamp"), UINT, false, offsetof(tf_result_ack, timestamp_ms)},
                                      {NAME("duplicate"), BOOL, true, offsetof(tf_result_ack, duplicate)}};
    out->duplicate = false;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->id.len > TF_ACTIVITY_ID_MAX || out->timestamp_ms > INT64_MAX || out->seq == 0)
               ? TF_ERR_PEER_SYNTAX
               : err;
}

void tf_result_ack_write(tf_writer *w, const tf_result_ack *result)
{
    tf_mp_wr_map(w, result->duplicate ? 5 : 4);
    tf_calls_write_str(w, LIT("client_id"), result->client_id);
    tf_calls_write_str(w, LIT("id"), result->id);
    tf_calls_write_uint(w, LIT("seq"), result->seq);
    tf_calls_write_uint(w, LIT("timestamp"), result->timestamp_ms);
    if (result->duplicate) {
        tf_calls_write_bool(w, LIT("duplicate"), true);
    }
}

tf_err tf_result_subscribe_read(tf_slice in, tf_result_subscribe *out)
{
    static const tf_field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_result_subscribe, epoch)},
                                      {NAME("head"), UINT, false, offsetof(tf_result_subscribe, head)},
                                      {NAME("first"), UINT, false, offsetof(tf_result_subscribe, first)},
                                      {NAME("next"), UINT, false, offsetof(tf_result_subscribe, next)},
                                      {NAME("resumed"), BOOL, true, offsetof(tf_result_subscribe, resumed)}};
    out->resumed = false;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->next == 0 || out->first == 0) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_result_subscribe_write(tf_writer *w, const tf_result_subscribe *result)
{
    tf_mp_wr_map(w, result->resumed ? 5 : 4);
    tf_calls_write_uint(w, LIT("epoch"), result->epoch);
    tf_calls_write_uint(w, LIT("head"), result->head);
    tf_calls_write_uint(w, LIT("first"), result->first);
    tf_calls_write_uint(w, LIT("next"), result->next);
    if (result->resumed) {
        tf_calls_write_bool(w, LIT("resumed"), true);
    }
}

tf_err tf_result_refusal_read(tf_slice in, tf_result_refusal *out)
{
    static const tf_field fields[] = {{NAME("client_id"), STR, true, offsetof(tf_result_refusal, client_id)},
                                      {NAME("code"), STR, false, offsetof(tf_result_refusal, code)},
                                      {NAME("message"), STR, true, offsetof(tf_result_refusal, message)},
                                      {NAME("retryable"), BOOL, true, offsetof(tf_result_refusal, retryable)},
                                      {NAME("retry_after_ms"), UINT, true, offsetof(tf_result_refusal, retry_after_ms)}};
    unsigned present = 0;
    *out = (tf_result_refusal){.retryable = false};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, &present);
    if (err == TF_OK && (present & 8u) == 0) {
        out->retryable = tf_refusal_is_retryable(tf_refusal_find(out->code)); /* a session's own says no more */
    }
    return err == TF_OK && (out->code.len == 0 || out->code.len > TF_REFUSAL_CODE_MAX ||
                            out->message.len > TF_REFUSAL_MESSAGE_MAX)
               ? TF_ERR_PEER_SYNTAX
               : err;
}

void tf_result_refusal_write(tf_writer *w, const tf_result_refusal *result)
{
    tf_mp_wr_map(w, 3u + (result->client_id.len > 0 ? 1u : 0u) + (result->retry_after_ms > 0 ? 1u : 0u));
    if (result->client_id.len > 0) {
        tf_calls_write_str(w, LIT("client_id"), result->client_id);
    }
    tf_calls_write_str(w, LIT("code"), result->code);
    tf_calls_write_str(w, LIT("message"), result->message);
    tf_calls_write_bool(w, LIT("retryable"), result->retryable);
    if (result->retry_after_ms > 0) {
        tf_calls_write_uint(w, LIT("retry_after_ms"), result->retry_after_ms);
    }
}

/* -- what a sink gets ---------------------------------------------------------------------------------------------- */

tf_err tf_activity_read(tf_slice in, tf_activity *out)
{
    static const tf_field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_activity, epoch)},
                                      {NAME("seq"), UINT, false, offsetof(tf_activity, seq)},
                                      {NAME("id"), STR, false, offsetof(tf_activity, id)},
                                      {NAME("sender"), NODE, false, offsetof(tf_activity, sender)},
                                      {NAME("client_id"), STR, false, offsetof(tf_activity, client_id)},
                                      {NAME("timestamp"), UINT, false, offsetof(tf_activity, timestamp_ms)},
                                      {NAME("body"), BIN, false, offsetof(tf_activity, body)},
                                      {NAME("meta"), BIN, true, offsetof(tf_activity, meta)},
                                      {NAME("expires"), UINT, true, offsetof(tf_activity, expires_ms)}};
    out->meta = (tf_slice){NULL, 0};
    out->expires_ms = 0;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->seq == 0 || out->id.len > TF_ACTIVITY_ID_MAX || out->timestamp_ms > INT64_MAX)
               ? TF_ERR_PEER_SYNTAX
               : err;
}

void tf_activity_write(tf_writer *w, const tf_activity *activity)
{
    tf_mp_wr_map(w, 7u + (activity->meta.len > 0 ? 1u : 0u) + (activity->expires_ms != 0 ? 1u : 0u));
    tf_calls_write_uint(w, LIT("epoch"), activity->epoch);
    tf_calls_write_uint(w, LIT("seq"), activity->seq);
    tf_calls_write_str(w, LIT("id"), activity->id);
    tf_calls_write_bin(w, LIT("sender"), tf_slice_of(activity->sender.bytes, TF_NODE_ID_LEN));
    tf_calls_write_str(w, LIT("client_id"), activity->client_id);
    tf_calls_write_uint(w, LIT("timestamp"), activity->timestamp_ms);
    tf_calls_write_bin(w, LIT("body"), activity->body);
    if (activity->meta.len > 0) {
        tf_calls_write_bin(w, LIT("meta"), activity->meta);
    }
    if (activity->expires_ms != 0) {
        tf_calls_write_uint(w, LIT("expires"), activity->expires_ms);
    }
}

tf_err tf_gap_read(tf_slice in, tf_gap *out)
{
    static const tf_field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_gap, epoch)},
                                      {NAME("next"), UINT, false, offsetof(tf_gap, next)},
                                      {NAME("reason"), STR, false, offsetof(tf_gap, reason)}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && out->next == 0 ? TF_ERR_PEER_SYNTAX : err;
}

void tf_gap_write(tf_writer *w, const tf_gap *gap)
{
    tf_mp_wr_map(w, 3);
    tf_calls_write_uint(w, LIT("epoch"), gap->epoch);
    tf_calls_write_uint(w, LIT("next"), gap->next);
    tf_calls_write_str(w, LIT("reason"), gap->reason);
}

tf_err tf_ended_read(tf_slice in, tf_ended *out)
{
    static const tf_field fields[] = {{NAME("reason"), STR, false, offsetof(tf_ended, reason)}};
    return tf_calls_read_map(in, FIELDS(fields), LENIENT, out, NULL);
}

void tf_ended_write(tf_writer *w, const tf_ended *ended)
{
    tf_mp_wr_map(w, 1);
    tf_calls_write_str(w, LIT("reason"), ended->reason);
}
