#include "node/calls.h"

#include "proto/mp.h"

#define DEPTH_MAX 4u
#define ITEMS_MAX 64u
#define BODY_READ_MAX TF_MESSAGE_MAX
#define TEXT_MAX 1024u

/* A literal as a slice; as the first two members of a field. Lengths are known to the compiler: no strlen here. */
#define LIT(text) tf_slice_of(text, sizeof(text) - 1)
#define NAME(text) text, sizeof(text) - 1

typedef enum field_type { UINT, BOOL, STR, BIN, NODE, RAW } field_type;

/* A field of a map: where in the struct its value goes. */
typedef struct field {
    const char *name;
    size_t name_len;
    field_type type;
    bool optional;
    size_t offset;
} field;

static void store(void *out, size_t offset, const void *value, size_t len)
{
    memcpy((uint8_t *)out + offset, value, len);
}

static void read_node(tf_reader *r, void *out, size_t offset)
{
    tf_slice bytes = tf_mp_rd_bin(r, TF_NODE_ID_LEN);
    if (bytes.len != TF_NODE_ID_LEN) {
        tf_rd_fail(r);
        return;
    }
    store(out, offset, bytes.data, TF_NODE_ID_LEN);
}

static void read_value(tf_reader *r, const field *f, void *out)
{
    tf_slice bytes = {NULL, 0};
    uint64_t number = 0;
    bool flag = false;
    switch (f->type) {
    case UINT:
        number = tf_mp_rd_uint(r);
        store(out, f->offset, &number, sizeof(number));
        return;
    case BOOL:
        flag = tf_mp_rd_bool(r);
        store(out, f->offset, &flag, sizeof(flag));
        return;
    case NODE:
        read_node(r, out, f->offset);
        return;
    case STR:
        bytes = tf_mp_rd_str(r, TEXT_MAX);
        break;
    case BIN:
        bytes = tf_mp_rd_bin(r, BODY_READ_MAX);
        break;
    case RAW:
        bytes = tf_mp_rd_raw(r);
        break;
    }
    store(out, f->offset, &bytes, sizeof(bytes));
}

static size_t field_of(const field *fields, size_t count, tf_slice key)
{
    size_t i = 0;
    while (i < count && !tf_slice_eq(key, tf_slice_of(fields[i].name, fields[i].name_len))) {
        i++;
    }
    return i;
}

/* Reads one map into *out. *present: bit i for fields[i]. strict: unknown keys are refused. */
static tf_err read_map(tf_slice in, const field *fields, size_t count, bool strict, void *out, unsigned *present)
{
    tf_reader r;
    unsigned seen = 0;
    if (tf_mp_check(in, DEPTH_MAX, ITEMS_MAX) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    tf_rd_init(&r, in);
    size_t pairs = tf_mp_rd_map(&r, ITEMS_MAX);
    for (size_t i = 0; i < pairs && tf_rd_ok(&r); i++) {
        size_t index = field_of(fields, count, tf_mp_rd_str(&r, TEXT_MAX));
        if (index == count) {
            if (strict) {
                return TF_ERR_PEER_SYNTAX;
            }
            tf_mp_skip(&r);
            continue;
        }
        if ((seen & (1u << index)) != 0) {
            return TF_ERR_PEER_SYNTAX;
        }
        seen |= 1u << index;
        read_value(&r, &fields[index], out);
    }
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].optional && (seen & (1u << i)) == 0) {
            return TF_ERR_PEER_SYNTAX;
        }
    }
    if (present != NULL) {
        *present = seen;
    }
    return tf_rd_end(&r);
}

#define FIELDS(array) array, sizeof(array) / sizeof((array)[0])
#define STRICT true
#define LENIENT false

/* -- arguments ----------------------------------------------------------------------------------------------------- */

static void write_key(tf_writer *w, tf_slice key)
{
    tf_mp_wr_str(w, key);
}

static void write_str(tf_writer *w, tf_slice key, tf_slice value)
{
    write_key(w, key);
    tf_mp_wr_str(w, value);
}

static void write_uint(tf_writer *w, tf_slice key, uint64_t value)
{
    write_key(w, key);
    tf_mp_wr_uint(w, value);
}

static void write_bin(tf_writer *w, tf_slice key, tf_slice value)
{
    write_key(w, key);
    tf_mp_wr_bin(w, value);
}

static void write_bool(tf_writer *w, tf_slice key, bool value)
{
    write_key(w, key);
    tf_mp_wr_bool(w, value);
}

tf_err tf_args_open_read(tf_slice in, tf_args_open *out)
{
    static const field fields[] = {{NAME("channel"), STR, false, offsetof(tf_args_open, channel)}};
    return read_map(in, FIELDS(fields), STRICT, out, NULL);
}

void tf_args_open_write(tf_writer *w, const tf_args_open *args)
{
    tf_mp_wr_map(w, 1);
    write_str(w, LIT("channel"), args->channel);
}

typedef struct origin_map {
    tf_node_id node;
    uint64_t instance;
} origin_map;

tf_err tf_args_send_read(tf_slice in, tf_args_send *out)
{
    typedef struct send_map {
        tf_slice client_id;
        tf_slice body;
        tf_slice origin;
    } send_map;
    static const field fields[] = {{NAME("client_id"), STR, false, offsetof(send_map, client_id)},
                                   {NAME("body"), BIN, false, offsetof(send_map, body)},
                                   {NAME("origin"), RAW, true, offsetof(send_map, origin)}};
    static const field origin_fields[] = {{NAME("node"), NODE, false, offsetof(origin_map, node)},
                                          {NAME("instance"), UINT, false, offsetof(origin_map, instance)}};
    send_map map = {.client_id = {NULL, 0}};
    origin_map origin = {.instance = 0};
    unsigned present = 0;
    tf_err err = read_map(in, FIELDS(fields), STRICT, &map, &present);
    bool has_origin = (present & 4u) != 0;
    if (err == TF_OK && has_origin) {
        err = read_map(map.origin, FIELDS(origin_fields), STRICT, &origin, NULL);
    }
    if (err == TF_OK) {
        *out = (tf_args_send){map.client_id, map.body, has_origin, origin.node, origin.instance};
    }
    return err;
}

void tf_args_send_write(tf_writer *w, const tf_args_send *args)
{
    tf_mp_wr_map(w, args->has_origin ? 3 : 2);
    write_str(w, LIT("client_id"), args->client_id);
    write_bin(w, LIT("body"), args->body);
    if (args->has_origin) {
        write_key(w, LIT("origin"));
        tf_mp_wr_map(w, 2);
        write_bin(w, LIT("node"), tf_slice_of(args->origin.bytes, TF_NODE_ID_LEN));
        write_uint(w, LIT("instance"), args->instance);
    }
}

size_t tf_args_send_bound(const tf_args_send *args)
{
    return args->client_id.len + args->body.len + 128u;
}

/* "new" | "first" | seq | {"time": milliseconds} */
static tf_err read_from(tf_slice in, tf_from *out)
{
    static const field fields[] = {{NAME("time"), UINT, false, 0}};
    tf_reader r;
    tf_rd_init(&r, in);
    switch (tf_mp_peek(&r)) {
    case TF_MP_UINT:
        *out = (tf_from){TF_FROM_SEQ, tf_mp_rd_uint(&r)};
        return out->value >= 1 ? tf_rd_end(&r) : TF_ERR_PEER_SYNTAX;
    case TF_MP_STR: {
        tf_slice word = tf_mp_rd_str(&r, TEXT_MAX);
        bool is_new = tf_slice_eq(word, tf_slice_str("new"));
        *out = (tf_from){is_new ? TF_FROM_NEW : TF_FROM_FIRST, 0};
        return is_new || tf_slice_eq(word, tf_slice_str("first")) ? tf_rd_end(&r) : TF_ERR_PEER_SYNTAX;
    }
    case TF_MP_MAP:
        out->kind = TF_FROM_TIME;
        return read_map(in, FIELDS(fields), STRICT, &out->value, NULL);
    case TF_MP_END:
    case TF_MP_NIL:
    case TF_MP_BOOL:
    case TF_MP_INT:
    case TF_MP_FLOAT:
    case TF_MP_BIN:
    case TF_MP_ARRAY:
        return TF_ERR_PEER_SYNTAX;
    }
    TF_UNREACHABLE();
}

tf_err tf_args_subscribe_read(tf_slice in, tf_args_subscribe *out)
{
    typedef struct subscribe_map {
        tf_slice from;
        uint64_t epoch;
        bool echo;
        uint64_t limit;
    } subscribe_map;
    static const field fields[] = {{NAME("from"), RAW, false, offsetof(subscribe_map, from)},
                                   {NAME("epoch"), UINT, true, offsetof(subscribe_map, epoch)},
                                   {NAME("echo"), BOOL, true, offsetof(subscribe_map, echo)},
                                   {NAME("limit"), UINT, true, offsetof(subscribe_map, limit)}};
    subscribe_map map = {.limit = UINT64_MAX};
    tf_from from = {TF_FROM_NEW, 0};
    unsigned present = 0;
    tf_err err = read_map(in, FIELDS(fields), STRICT, &map, &present);
    if (err == TF_OK) {
        err = read_from(map.from, &from);
    }
    if (err == TF_OK) {
        *out = (tf_args_subscribe){from, (present & 2u) != 0, map.epoch, map.echo, map.limit};
    }
    return err;
}

static void write_from(tf_writer *w, const tf_from *from)
{
    switch (from->kind) {
    case TF_FROM_NEW:
        tf_mp_wr_str(w, tf_slice_str("new"));
        return;
    case TF_FROM_FIRST:
        tf_mp_wr_str(w, tf_slice_str("first"));
        return;
    case TF_FROM_SEQ:
        tf_mp_wr_uint(w, from->value);
        return;
    case TF_FROM_TIME:
        tf_mp_wr_map(w, 1);
        write_uint(w, LIT("time"), from->value);
        return;
    }
    TF_UNREACHABLE();
}

void tf_args_subscribe_write(tf_writer *w, const tf_args_subscribe *args)
{
    bool has_limit = args->limit != UINT64_MAX;
    tf_mp_wr_map(w, 1u + (args->has_epoch ? 1u : 0u) + (args->echo ? 1u : 0u) + (has_limit ? 1u : 0u));
    write_key(w, LIT("from"));
    write_from(w, &args->from);
    if (args->has_epoch) {
        write_uint(w, LIT("epoch"), args->epoch);
    }
    if (args->echo) {
        write_bool(w, LIT("echo"), true);
    }
    if (has_limit) {
        write_uint(w, LIT("limit"), args->limit);
    }
}

tf_err tf_args_read_read(tf_slice in, tf_args_read *out)
{
    static const field fields[] = {{NAME("from"), UINT, false, offsetof(tf_args_read, from)},
                                   {NAME("to"), UINT, false, offsetof(tf_args_read, to)}};
    tf_err err = read_map(in, FIELDS(fields), STRICT, out, NULL);
    return err == TF_OK && (out->from < 1 || out->to < out->from) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_args_read_write(tf_writer *w, const tf_args_read *args)
{
    tf_mp_wr_map(w, 2);
    write_uint(w, LIT("from"), args->from);
    write_uint(w, LIT("to"), args->to);
}

tf_err tf_args_more_read(tf_slice in, tf_args_more *out)
{
    static const field fields[] = {{NAME("limit"), UINT, false, offsetof(tf_args_more, limit)}};
    return read_map(in, FIELDS(fields), STRICT, out, NULL);
}

void tf_args_more_write(tf_writer *w, const tf_args_more *args)
{
    tf_mp_wr_map(w, 1);
    write_uint(w, LIT("limit"), args->limit);
}

tf_err tf_args_none_read(tf_slice in)
{
    return read_map(in, NULL, 0, STRICT, NULL, NULL);
}

/* -- results ------------------------------------------------------------------------------------------------------- */

tf_err tf_result_open_read(tf_slice in, tf_result_open *out)
{
    static const field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_result_open, epoch)},
                                   {NAME("max_in_flight"), UINT, false, offsetof(tf_result_open, max_in_flight)},
                                   {NAME("max_body"), UINT, false, offsetof(tf_result_open, max_body)}};
    return read_map(in, FIELDS(fields), LENIENT, out, NULL);
}

void tf_result_open_write(tf_writer *w, const tf_result_open *result)
{
    tf_mp_wr_map(w, 3);
    write_uint(w, LIT("epoch"), result->epoch);
    write_uint(w, LIT("max_in_flight"), result->max_in_flight);
    write_uint(w, LIT("max_body"), result->max_body);
}

tf_err tf_result_ack_read(tf_slice in, tf_result_ack *out)
{
    static const field fields[] = {{NAME("client_id"), STR, false, offsetof(tf_result_ack, client_id)},
                                   {NAME("id"), STR, false, offsetof(tf_result_ack, id)},
                                   {NAME("seq"), UINT, false, offsetof(tf_result_ack, seq)},
                                   {NAME("timestamp"), UINT, false, offsetof(tf_result_ack, timestamp_ms)},
                                   {NAME("duplicate"), BOOL, true, offsetof(tf_result_ack, duplicate)}};
    out->duplicate = false;
    tf_err err = read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->id.len > TF_ACTIVITY_ID_MAX || out->timestamp_ms > INT64_MAX || out->seq == 0)
               ? TF_ERR_PEER_SYNTAX
               : err;
}

void tf_result_ack_write(tf_writer *w, const tf_result_ack *result)
{
    tf_mp_wr_map(w, result->duplicate ? 5 : 4);
    write_str(w, LIT("client_id"), result->client_id);
    write_str(w, LIT("id"), result->id);
    write_uint(w, LIT("seq"), result->seq);
    write_uint(w, LIT("timestamp"), result->timestamp_ms);
    if (result->duplicate) {
        write_bool(w, LIT("duplicate"), true);
    }
}

tf_err tf_result_subscribe_read(tf_slice in, tf_result_subscribe *out)
{
    static const field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_result_subscribe, epoch)},
                                   {NAME("head"), UINT, false, offsetof(tf_result_subscribe, head)},
                                   {NAME("first"), UINT, false, offsetof(tf_result_subscribe, first)},
                                   {NAME("next"), UINT, false, offsetof(tf_result_subscribe, next)}};
    tf_err err = read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->next == 0 || out->first == 0) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_result_subscribe_write(tf_writer *w, const tf_result_subscribe *result)
{
    tf_mp_wr_map(w, 4);
    write_uint(w, LIT("epoch"), result->epoch);
    write_uint(w, LIT("head"), result->head);
    write_uint(w, LIT("first"), result->first);
    write_uint(w, LIT("next"), result->next);
}

tf_err tf_result_refusal_read(tf_slice in, tf_result_refusal *out)
{
    static const field fields[] = {{NAME("client_id"), STR, true, offsetof(tf_result_refusal, client_id)},
                                   {NAME("code"), STR, false, offsetof(tf_result_refusal, code)},
                                   {NAME("message"), STR, true, offsetof(tf_result_refusal, message)},
                                   {NAME("retryable"), BOOL, true, offsetof(tf_result_refusal, retryable)},
                                   {NAME("retry_after_ms"), UINT, true, offsetof(tf_result_refusal, retry_after_ms)}};
    unsigned present = 0;
    *out = (tf_result_refusal){.retryable = false};
    tf_err err = read_map(in, FIELDS(fields), LENIENT, out, &present);
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
        write_str(w, LIT("client_id"), result->client_id);
    }
    write_str(w, LIT("code"), result->code);
    write_str(w, LIT("message"), result->message);
    write_bool(w, LIT("retryable"), result->retryable);
    if (result->retry_after_ms > 0) {
        write_uint(w, LIT("retry_after_ms"), result->retry_after_ms);
    }
}

void tf_result_read_write_head(tf_writer *w, const tf_result_subscribe *state, size_t items)
{
    tf_mp_wr_map(w, 4);
    write_uint(w, LIT("epoch"), state->epoch);
    write_uint(w, LIT("first"), state->first);
    write_uint(w, LIT("head"), state->head);
    write_key(w, LIT("items"));
    tf_mp_wr_array(w, items);
}

/* -- what a sink gets ---------------------------------------------------------------------------------------------- */

tf_err tf_activity_read(tf_slice in, tf_activity *out)
{
    static const field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_activity, epoch)},
                                   {NAME("seq"), UINT, false, offsetof(tf_activity, seq)},
                                   {NAME("id"), STR, false, offsetof(tf_activity, id)},
                                   {NAME("sender"), NODE, false, offsetof(tf_activity, sender)},
                                   {NAME("client_id"), STR, false, offsetof(tf_activity, client_id)},
                                   {NAME("timestamp"), UINT, false, offsetof(tf_activity, timestamp_ms)},
                                   {NAME("body"), BIN, false, offsetof(tf_activity, body)}};
    tf_err err = read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && (out->seq == 0 || out->id.len > TF_ACTIVITY_ID_MAX || out->timestamp_ms > INT64_MAX)
               ? TF_ERR_PEER_SYNTAX
               : err;
}

void tf_activity_write(tf_writer *w, const tf_activity *activity)
{
    tf_mp_wr_map(w, 7);
    write_uint(w, LIT("epoch"), activity->epoch);
    write_uint(w, LIT("seq"), activity->seq);
    write_str(w, LIT("id"), activity->id);
    write_bin(w, LIT("sender"), tf_slice_of(activity->sender.bytes, TF_NODE_ID_LEN));
    write_str(w, LIT("client_id"), activity->client_id);
    write_uint(w, LIT("timestamp"), activity->timestamp_ms);
    write_bin(w, LIT("body"), activity->body);
}

tf_err tf_gap_read(tf_slice in, tf_gap *out)
{
    static const field fields[] = {{NAME("epoch"), UINT, false, offsetof(tf_gap, epoch)},
                                   {NAME("next"), UINT, false, offsetof(tf_gap, next)},
                                   {NAME("reason"), STR, false, offsetof(tf_gap, reason)}};
    tf_err err = read_map(in, FIELDS(fields), LENIENT, out, NULL);
    return err == TF_OK && out->next == 0 ? TF_ERR_PEER_SYNTAX : err;
}

void tf_gap_write(tf_writer *w, const tf_gap *gap)
{
    tf_mp_wr_map(w, 3);
    write_uint(w, LIT("epoch"), gap->epoch);
    write_uint(w, LIT("next"), gap->next);
    write_str(w, LIT("reason"), gap->reason);
}
