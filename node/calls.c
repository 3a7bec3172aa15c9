#include "node/calls.h"

#include "node/calls_map.h"
#include "node/name.h"

tf_err tf_args_open_read(tf_slice in, tf_args_open *out)
{
    typedef struct open_map {
        tf_slice channel;
        bool create;
    } open_map;
    static const tf_field fields[] = {{NAME("channel"), STR, false, offsetof(open_map, channel)},
                                      {NAME("create"), BOOL, true, offsetof(open_map, create)}};
    open_map map = {.create = true};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, &map, NULL);
    *out = (tf_args_open){.channel = map.channel, .existing_only = !map.create};
    return err;
}

void tf_args_open_write(tf_writer *w, const tf_args_open *args)
{
    tf_mp_wr_map(w, args->existing_only ? 2 : 1);
    tf_calls_write_str(w, LIT("channel"), args->channel);
    if (args->existing_only) {
        tf_calls_write_bool(w, LIT("create"), false);
    }
}

/* A page of a list: after, limit. */
typedef struct page_map {
    uint64_t after;
    uint64_t limit;
} page_map;

static tf_err read_page(tf_slice in, page_map *out)
{
    static const tf_field fields[] = {{NAME("after"), UINT, true, offsetof(page_map, after)},
                                      {NAME("limit"), UINT, true, offsetof(page_map, limit)}};
    unsigned present = 0;
    *out = (page_map){.after = 0};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, out, &present);
    return err == TF_OK && (present & 2u) != 0 && out->limit == 0 ? TF_ERR_PEER_SYNTAX : err;
}

static void write_page(tf_writer *w, page_map page)
{
    tf_mp_wr_map(w, (page.after != 0 ? 1u : 0u) + (page.limit != 0 ? 1u : 0u));
    if (page.after != 0) {
        tf_calls_write_uint(w, LIT("after"), page.after);
    }
    if (page.limit != 0) {
        tf_calls_write_uint(w, LIT("limit"), page.limit);
    }
}

tf_err tf_args_channels_read(tf_slice in, tf_args_channels *out)
{
    page_map page;
    tf_err err = read_page(in, &page);
    *out = (tf_args_channels){page.after, page.limit};
    return err;
}

void tf_args_channels_write(tf_writer *w, const tf_args_channels *args)
{
    write_page(w, (page_map){args->after, args->limit});
}

tf_err tf_args_refs_read(tf_slice in, tf_args_refs *out)
{
    page_map page;
    tf_err err = read_page(in, &page);
    *out = (tf_args_refs){page.after, page.limit};
    return err;
}

void tf_args_refs_write(tf_writer *w, const tf_args_refs *args)
{
    write_page(w, (page_map){args->after, args->limit});
}

tf_err tf_args_name_read(tf_slice in, tf_args_name *out)
{
    static const tf_field fields[] = {{NAME("name"), STR, false, offsetof(tf_args_name, name)}};
    return tf_calls_read_map(in, FIELDS(fields), STRICT, out, NULL);
}

void tf_args_name_write(tf_writer *w, const tf_args_name *args)
{
    tf_mp_wr_map(w, 1);
    tf_calls_write_str(w, LIT("name"), args->name);
}

typedef struct origin_map {
    tf_node_id node;
    uint64_t instance;
} origin_map;

typedef struct send_map {
    tf_slice client_id;
    tf_slice body;
    tf_slice origin;
    tf_slice meta;
    uint64_t expires;
} send_map;

tf_err tf_args_send_read(tf_slice in, tf_args_send *out)
{
    static const tf_field fields[] = {{NAME("client_id"), STR, false, offsetof(send_map, client_id)},
                                      {NAME("body"), BIN, false, offsetof(send_map, body)},
                                      {NAME("origin"), RAW, true, offsetof(send_map, origin)},
                                      {NAME("meta"), BIN, true, offsetof(send_map, meta)},
                                      {NAME("expires"), UINT, true, offsetof(send_map, expires)}};
    static const tf_field origin_fields[] = {{NAME("node"), NODE, false, offsetof(origin_map, node)},
                                             {NAME("instance"), UINT, false, offsetof(origin_map, instance)}};
    send_map map = {.client_id = {NULL, 0}};
    origin_map origin = {.instance = 0};
    unsigned present = 0;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, &map, &present);
    bool has_origin = (present & 4u) != 0;
    bool has_expires = (present & 16u) != 0;
    if (err == TF_OK && has_expires && (map.expires == 0 || map.expires > INT64_MAX)) {
        err = TF_ERR_PEER_SYNTAX;
    }
    if (err == TF_OK && has_origin) {
        err = tf_calls_read_map(map.origin, FIELDS(origin_fields), STRICT, &origin, NULL);
    }
    if (err == TF_OK) {
        *out = (tf_args_send){.client_id = map.client_id,
                              .body = map.body,
                              .has_origin = has_origin,
                              .origin = origin.node,
                              .instance = origin.instance,
                              .meta = map.meta,
                              .expires_ms = map.expires};
    }
    return err;
}

void tf_args_send_write(tf_writer *w, const tf_args_send *args)
{
    tf_mp_wr_map(w, 2u + (args->has_origin ? 1u : 0u) + (args->meta.len > 0 ? 1u : 0u) +
                        (args->expires_ms != 0 ? 1u : 0u));
    tf_calls_write_str(w, LIT("client_id"), args->client_id);
    tf_calls_write_bin(w, LIT("body"), args->body);
    if (args->has_origin) {
        tf_mp_wr_str(w, LIT("origin"));
        tf_mp_wr_map(w, 2);
        tf_calls_write_bin(w, LIT("node"), tf_slice_of(args->origin.bytes, TF_NODE_ID_LEN));
        tf_calls_write_uint(w, LIT("instance"), args->instance);
    }
    if (args->meta.len > 0) {
        tf_calls_write_bin(w, LIT("meta"), args->meta);
    }
    if (args->expires_ms != 0) {
        tf_calls_write_uint(w, LIT("expires"), args->expires_ms);
    }
}

size_t tf_args_send_bound(const tf_args_send *args)
{
    return args->client_id.len + args->body.len + args->meta.len + 160u;
}

/* "new" | "first" | seq | {"time": milliseconds} */
static tf_err read_from(tf_slice in, tf_from *out)
{
    static const tf_field fields[] = {{NAME("time"), UINT, false, 0}};
    tf_reader r;
    tf_rd_init(&r, in);
    switch (tf_mp_peek(&r)) {
    case TF_MP_UINT:
        *out = (tf_from){TF_FROM_SEQ, tf_mp_rd_uint(&r)};
        return out->value >= 1 ? tf_rd_end(&r) : TF_ERR_PEER_SYNTAX;
    case TF_MP_STR: {
        tf_slice word = tf_mp_rd_str(&r, TF_CALLS_TEXT_MAX);
        bool is_new = tf_slice_eq(word, tf_slice_str("new"));
        *out = (tf_from){is_new ? TF_FROM_NEW : TF_FROM_FIRST, 0};
        return is_new || tf_slice_eq(word, tf_slice_str("first")) ? tf_rd_end(&r) : TF_ERR_PEER_SYNTAX;
    }
    case TF_MP_MAP:
        out->kind = TF_FROM_TIME;
        return tf_calls_read_map(in, FIELDS(fields), STRICT, &out->value, NULL);
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

typedef struct subscribe_map {
    tf_slice from;
    uint64_t epoch;
    bool echo;
    uint64_t limit;
    tf_slice durable;
} subscribe_map;

tf_err tf_args_subscribe_read(tf_slice in, tf_args_subscribe *out)
{
    static const tf_field fields[] = {{NAME("from"), RAW, false, offsetof(subscribe_map, from)},
                                      {NAME("epoch"), UINT, true, offsetof(subscribe_map, epoch)},
                                      {NAME("echo"), BOOL, true, offsetof(subscribe_map, echo)},
                                      {NAME("limit"), UINT, true, offsetof(subscribe_map, limit)},
                                      {NAME("durable"), STR, true, offsetof(subscribe_map, durable)}};
    subscribe_map map = {.limit = UINT64_MAX};
    tf_from from = {TF_FROM_NEW, 0};
    unsigned present = 0;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, &map, &present);
    if (err == TF_OK && (present & 16u) != 0 && !tf_cursor_name_is_valid(map.durable)) {
        err = TF_ERR_PEER_SYNTAX;
    }
    if (err == TF_OK) {
        err = read_from(map.from, &from);
    }
    if (err == TF_OK) {
        *out = (tf_args_subscribe){.from = from,
                                   .has_epoch = (present & 2u) != 0,
                                   .epoch = map.epoch,
                                   .echo = map.echo,
                                   .limit = map.limit,
                                   .durable = map.durable};
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
        tf_calls_write_uint(w, LIT("time"), from->value);
        return;
    }
    TF_UNREACHABLE();
}

void tf_args_subscribe_write(tf_writer *w, const tf_args_subscribe *args)
{
    bool has_limit = args->limit != UINT64_MAX;
    bool is_durable = args->durable.len > 0;
    tf_mp_wr_map(w, 1u + (args->has_epoch ? 1u : 0u) + (args->echo ? 1u : 0u) + (has_limit ? 1u : 0u) +
                        (is_durable ? 1u : 0u));
    tf_mp_wr_str(w, LIT("from"));
    write_from(w, &args->from);
    if (args->has_epoch) {
        tf_calls_write_uint(w, LIT("epoch"), args->epoch);
    }
    if (args->echo) {
        tf_calls_write_bool(w, LIT("echo"), true);
    }
    if (has_limit) {
        tf_calls_write_uint(w, LIT("limit"), args->limit);
    }
    if (is_durable) {
        tf_calls_write_str(w, LIT("durable"), args->durable);
    }
}

tf_err tf_args_read_read(tf_slice in, tf_args_read *out)
{
    static const tf_field fields[] = {{NAME("from"), UINT, false, offsetof(tf_args_read, from)},
                                      {NAME("to"), UINT, false, offsetof(tf_args_read, to)}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, out, NULL);
    return err == TF_OK && (out->from < 1 || out->to < out->from) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_args_read_write(tf_writer *w, const tf_args_read *args)
{
    tf_mp_wr_map(w, 2);
    tf_calls_write_uint(w, LIT("from"), args->from);
    tf_calls_write_uint(w, LIT("to"), args->to);
}

tf_err tf_args_more_read(tf_slice in, tf_args_more *out)
{
    static const tf_field fields[] = {{NAME("limit"), UINT, false, offsetof(tf_args_more, limit)}};
    return tf_calls_read_map(in, FIELDS(fields), STRICT, out, NULL);
}

void tf_args_more_write(tf_writer *w, const tf_args_more *args)
{
    tf_mp_wr_map(w, 1);
    tf_calls_write_uint(w, LIT("limit"), args->limit);
}

tf_err tf_args_confirm_read(tf_slice in, tf_args_confirm *out)
{
    static const tf_field fields[] = {{NAME("next"), UINT, false, offsetof(tf_args_confirm, next)},
                                      {NAME("epoch"), UINT, false, offsetof(tf_args_confirm, epoch)}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, out, NULL);
    return err == TF_OK && out->next == 0 ? TF_ERR_PEER_SYNTAX : err;
}

void tf_args_confirm_write(tf_writer *w, const tf_args_confirm *args)
{
    tf_mp_wr_map(w, 2);
    tf_calls_write_uint(w, LIT("next"), args->next);
    tf_calls_write_uint(w, LIT("epoch"), args->epoch);
}

tf_err tf_args_trim_read(tf_slice in, tf_args_trim *out)
{
    static const tf_field fields[] = {{NAME("before"), UINT, false, offsetof(tf_args_trim, before)}};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, out, NULL);
    return err == TF_OK && out->before == 0 ? TF_ERR_PEER_SYNTAX : err;
}

void tf_args_trim_write(tf_writer *w, const tf_args_trim *args)
{
    tf_mp_wr_map(w, 1);
    tf_calls_write_uint(w, LIT("before"), args->before);
}

tf_err tf_args_gaps_read(tf_slice in, tf_args_gaps *out)
{
    static const tf_field fields[] = {{NAME("from"), UINT, true, offsetof(tf_args_gaps, from)}};
    *out = (tf_args_gaps){.from = 1};
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, out, NULL);
    return err == TF_OK && out->from == 0 ? TF_ERR_PEER_SYNTAX : err;
}

void tf_args_gaps_write(tf_writer *w, const tf_args_gaps *args)
{
    tf_mp_wr_map(w, args->from > 1 ? 1 : 0);
    if (args->from > 1) {
        tf_calls_write_uint(w, LIT("from"), args->from);
    }
}

tf_err tf_args_forget_cursor_read(tf_slice in, tf_args_forget_cursor *out)
{
    static const tf_field fields[] = {{NAME("name"), STR, false, offsetof(tf_args_forget_cursor, name)},
                                      {NAME("owner"), NODE, true, offsetof(tf_args_forget_cursor, owner)}};
    unsigned present = 0;
    tf_err err = tf_calls_read_map(in, FIELDS(fields), STRICT, out, &present);
    out->has_owner = (present & 2u) != 0;
    return err == TF_OK && !tf_cursor_name_is_valid(out->name) ? TF_ERR_PEER_SYNTAX : err;
}

void tf_args_forget_cursor_write(tf_writer *w, const tf_args_forget_cursor *args)
{
    tf_mp_wr_map(w, args->has_owner ? 2 : 1);
    tf_calls_write_str(w, LIT("name"), args->name);
    if (args->has_owner) {
        tf_calls_write_bin(w, LIT("owner"), tf_slice_of(args->owner.bytes, TF_NODE_ID_LEN));
    }
}

tf_err tf_args_none_read(tf_slice in)
{
    return tf_calls_read_map(in, NULL, 0, STRICT, NULL, NULL);
}

void tf_args_none_write(tf_writer *w)
{
    tf_mp_wr_map(w, 0);
}
