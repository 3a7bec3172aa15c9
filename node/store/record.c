#include "node/store/record.h"

#include <xxhash.h>

#include "proto/wire.h"

/* checksum(8) size(4) version(1) kind(1) lsn(8), then what the kind has (L20). */
#define CHECKED_FROM 8u
#define VERSION 1u
#define FLAG_EXPIRES 1u
#define FLAG_META 2u

/* Numbers of kinds on the disk (L22): they never change their meaning. */
#define KIND_CREATE 1u
#define KIND_APPEND 2u
#define KIND_CLOSE 3u
#define KIND_TRIM 4u
#define KIND_FORGET 5u
#define KIND_EPOCH 6u
#define KIND_CURSOR 7u

static uint64_t checksum(const uint8_t *record, size_t size, uint64_t key)
{
    return XXH3_64bits_withSeed(record + CHECKED_FROM, size - CHECKED_FROM, key);
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

size_t tf_record_bound(const tf_store_op *op)
{
    const tf_stored *m = &op->message;
    size_t bound = TF_RECORD_HEADER + 128u;
    switch (op->kind) {
    case TF_STORE_CREATE:
        return bound + op->name.len;
    case TF_STORE_APPEND:
        return bound + m->client_id.len + m->meta.len + m->body.len;
    case TF_STORE_CURSOR:
        return bound + op->cursor.name.len;
    case TF_STORE_CLOSE:
    case TF_STORE_TRIM:
    case TF_STORE_FORGET:
    case TF_STORE_EPOCH:
        return bound;
    }
    TF_UNREACHABLE();
}

static unsigned kind_number(tf_store_op_kind kind)
{
    switch (kind) {
    case TF_STORE_CREATE:
        return KIND_CREATE;
    case TF_STORE_APPEND:
        return KIND_APPEND;
    case TF_STORE_CLOSE:
        return KIND_CLOSE;
    case TF_STORE_TRIM:
        return KIND_TRIM;
    case TF_STORE_FORGET:
        return KIND_FORGET;
    case TF_STORE_EPOCH:
        return KIND_EPOCH;
    case TF_STORE_CURSOR:
        return KIND_CURSOR;
    }
    TF_UNREACHABLE();
}

static void write_name(tf_writer *w, tf_slice name, size_t max)
{
    TF_ASSERT(name.len >= 1 && name.len <= max);
    tf_wr_u8(w, (uint8_t)name.len);
    tf_wr_bytes(w, name);
}

static void write_message(tf_writer *w, const tf_stored *m)
{
    TF_ASSERT(m->meta.len <= TF_META_MAX && m->body.len <= TF_BODY_MAX);
    tf_wr_u8(w, (uint8_t)((m->expires_ms != 0 ? FLAG_EXPIRES : 0) | (m->meta.len != 0 ? FLAG_META : 0)));
    tf_wr_var(w, m->seq);
    tf_wr_u64(w, m->epoch);
    tf_wr_u64(w, (uint64_t)m->timestamp_ms);
    if (m->expires_ms != 0) {
        tf_wr_u64(w, (uint64_t)m->expires_ms);
    }
    tf_wr_bytes(w, tf_slice_of(m->origin.bytes, TF_NODE_ID_LEN));
    tf_wr_u64(w, m->instance);
    write_name(w, m->client_id, TF_CLIENT_ID_MAX);
    if (m->meta.len != 0) {
        tf_wr_var(w, m->meta.len);
        tf_wr_bytes(w, m->meta);
    }
    tf_wr_bytes(w, m->body);
}

static void write_cursor(tf_writer *w, const tf_store_cursor *c)
{
    tf_wr_bytes(w, tf_slice_of(c->owner.bytes, TF_NODE_ID_LEN));
    write_name(w, c->name, TF_CURSOR_NAME_MAX);
    tf_wr_u64(w, c->epoch);
    tf_wr_var(w, c->next);
    tf_wr_u64(w, (uint64_t)c->moved_ms);
}

static void write_fields(tf_writer *w, const tf_store_op *op)
{
    tf_wr_var(w, op->kind == TF_STORE_CURSOR ? op->cursor.channel : op->channel);
    switch (op->kind) {
    case TF_STORE_CREATE:
        tf_wr_u64(w, op->epoch);
        write_name(w, op->name, TF_CHANNEL_NAME_MAX);
        return;
    case TF_STORE_APPEND:
        write_message(w, &op->message);
        return;
    case TF_STORE_CLOSE:
        return;
    case TF_STORE_TRIM:
        tf_wr_var(w, op->seq);
        return;
    case TF_STORE_FORGET:
        tf_wr_u64(w, (uint64_t)op->time_ms);
        return;
    case TF_STORE_EPOCH:
        tf_wr_u64(w, op->epoch);
        return;
    case TF_STORE_CURSOR:
        write_cursor(w, &op->cursor);
        return;
    }
    TF_UNREACHABLE();
}

size_t tf_record_write(uint8_t *out, size_t cap, uint64_t key, uint64_t lsn, const tf_store_op *op)
{
    tf_writer w;
    TF_ASSERT(cap >= tf_record_bound(op));
    tf_wr_init(&w, out + TF_RECORD_HEADER, cap - TF_RECORD_HEADER);
    write_fields(&w, op);
    TF_ASSERT(tf_wr_ok(&w));
    size_t size = TF_RECORD_HEADER + tf_wr_len(&w);
    tf_wr_init(&w, out + CHECKED_FROM, TF_RECORD_HEADER - CHECKED_FROM);
    tf_wr_u32(&w, (uint32_t)size);
    tf_wr_u8(&w, VERSION);
    tf_wr_u8(&w, (uint8_t)kind_number(op->kind));
    tf_wr_u64(&w, lsn);
    tf_wr_init(&w, out, CHECKED_FROM);
    tf_wr_u64(&w, checksum(out, size, key));
    return size;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* A reader of the record's own bytes that stands behind its size; false: they cannot be one. */
static bool begin(tf_reader *r, tf_slice in, size_t *size)
{
    tf_rd_init(r, in);
    (void)tf_rd_bytes(r, CHECKED_FROM);
    *size = tf_rd_u32(r);
    return tf_rd_ok(r) && *size >= TF_RECORD_HEADER && *size <= TF_RECORD_MAX && *size <= in.len;
}

bool tf_record_peek(tf_slice in, size_t *size, uint64_t *lsn)
{
    tf_reader r;
    if (!begin(&r, in, size)) {
        return false;
    }
    (void)tf_rd_u16(&r);
    *lsn = tf_rd_u64(&r);
    return true;
}

static tf_slice read_name(tf_reader *r, size_t max)
{
    tf_slice name = tf_rd_bytes(r, tf_rd_u8(r));
    if (name.len == 0 || name.len > max) {
        tf_rd_fail(r);
    }
    return name;
}

static void read_node_id(tf_reader *r, tf_node_id *out)
{
    tf_slice bytes = tf_rd_bytes(r, TF_NODE_ID_LEN);
    if (bytes.len == TF_NODE_ID_LEN) {
        memcpy(out->bytes, bytes.data, TF_NODE_ID_LEN);
    }
}

/* A time, or a part that is there only if its flag is: 0 would be another record of the same op. */
static int64_t read_expires(tf_reader *r)
{
    int64_t expires_ms = (int64_t)tf_rd_u64(r);
    if (expires_ms == 0) {
        tf_rd_fail(r);
    }
    return expires_ms;
}

static tf_slice read_meta(tf_reader *r)
{
    tf_slice meta = tf_rd_bytes(r, tf_rd_len(r, TF_META_MAX));
    if (meta.len == 0) {
        tf_rd_fail(r);
    }
    return meta;
}

static void read_message(tf_reader *r, tf_stored *m)
{
    unsigned flags = tf_rd_u8(r);
    if ((flags & ~(FLAG_EXPIRES | FLAG_META)) != 0) {
        tf_rd_fail(r);
    }
    m->seq = tf_rd_var(r);
    m->epoch = tf_rd_u64(r);
    m->timestamp_ms = (int64_t)tf_rd_u64(r);
    m->expires_ms = (flags & FLAG_EXPIRES) != 0 ? read_expires(r) : 0;
    read_node_id(r, &m->origin);
    m->instance = tf_rd_u64(r);
    m->client_id = read_name(r, TF_CLIENT_ID_MAX);
    m->meta = (flags & FLAG_META) != 0 ? read_meta(r) : tf_slice_of(NULL, 0);
    m->body = tf_rd_bytes(r, tf_rd_left(r));
    if (m->body.len > TF_BODY_MAX) {
        tf_rd_fail(r);
    }
}

static void read_cursor(tf_reader *r, tf_store_cursor *c)
{
    read_node_id(r, &c->owner);
    c->name = read_name(r, TF_CURSOR_NAME_MAX);
    c->epoch = tf_rd_u64(r);
    c->next = tf_rd_var(r);
    c->moved_ms = (int64_t)tf_rd_u64(r);
}

static tf_err read_fields(tf_reader *r, unsigned kind, tf_store_op *op)
{
    op->channel = tf_rd_var(r);
    switch (kind) {
    case KIND_CREATE:
        op->kind = TF_STORE_CREATE;
        op->epoch = tf_rd_u64(r);
        op->name = read_name(r, TF_CHANNEL_NAME_MAX);
        break;
    case KIND_APPEND:
        op->kind = TF_STORE_APPEND;
        read_message(r, &op->message);
        break;
    case KIND_CLOSE:
        op->kind = TF_STORE_CLOSE;
        break;
    case KIND_TRIM:
        op->kind = TF_STORE_TRIM;
        op->seq = tf_rd_var(r);
        break;
    case KIND_FORGET:
        op->kind = TF_STORE_FORGET;
        op->time_ms = (int64_t)tf_rd_u64(r);
        break;
    case KIND_EPOCH:
        op->kind = TF_STORE_EPOCH;
        op->epoch = tf_rd_u64(r);
        break;
    case KIND_CURSOR:
        op->kind = TF_STORE_CURSOR;
        op->cursor.channel = op->channel;
        read_cursor(r, &op->cursor);
        break;
    default: /* a number from the disk, no enumeration */
        return TF_ERR_DAMAGED;
    }
    return tf_rd_end(r) == TF_OK ? TF_OK : TF_ERR_DAMAGED;
}

tf_err tf_record_read_trusted(tf_slice in, tf_log_record *out)
{
    tf_reader r;
    size_t size = 0;
    if (!begin(&r, in, &size)) {
        return TF_ERR_DAMAGED;
    }
    r.end = in.data + size;
    unsigned version = tf_rd_u8(&r);
    unsigned kind = tf_rd_u8(&r);
    if (version != VERSION) {
        return version > VERSION ? TF_ERR_USAGE : TF_ERR_DAMAGED;
    }
    *out = (tf_log_record){.size = size, .lsn = tf_rd_u64(&r)};
    return read_fields(&r, kind, &out->op);
}

tf_err tf_record_read(tf_slice in, uint64_t key, tf_log_record *out)
{
    tf_reader r;
    size_t size = 0;
    if (!begin(&r, in, &size)) {
        return TF_ERR_DAMAGED;
    }
    tf_rd_init(&r, tf_slice_of(in.data, CHECKED_FROM));
    if (tf_rd_u64(&r) != checksum(in.data, size, key)) {
        return TF_ERR_DAMAGED;
    }
    return tf_record_read_trusted(in, out);
}
