#include "proto/wire.h"

/* A variable-length integer of 1 << k bytes has k in its two top bits, above var_bits[k] bits of value. */
static const uint8_t var_bits[4] = {6, 14, 30, 62};

/* What an empty slice without an address points at: arithmetic on NULL is undefined. */
static const uint8_t nothing[1];

void tf_rd_init(tf_reader *r, tf_slice in)
{
    const uint8_t *data = in.data;
    if (data == NULL) {
        TF_ASSERT(in.len == 0);
        data = nothing;
    }
    *r = (tf_reader){.at = data, .end = data + in.len, .bad = false};
}

void tf_rd_fail(tf_reader *r)
{
    r->bad = true;
    r->at = r->end;
}

size_t tf_rd_left(const tf_reader *r)
{
    return (size_t)(r->end - r->at);
}

bool tf_rd_ok(const tf_reader *r)
{
    return !r->bad;
}

tf_err tf_rd_end(const tf_reader *r)
{
    return !r->bad && r->at == r->end ? TF_OK : TF_ERR_PEER_SYNTAX;
}

/* The next `width` bytes as a big-endian integer. */
static uint64_t rd_be(tf_reader *r, size_t width)
{
    if (tf_rd_left(r) < width) {
        tf_rd_fail(r);
        return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++) {
        value = (value << 8) | r->at[i];
    }
    r->at += width;
    return value;
}

uint8_t tf_rd_u8(tf_reader *r)
{
    return (uint8_t)rd_be(r, 1);
}

uint16_t tf_rd_u16(tf_reader *r)
{
    return (uint16_t)rd_be(r, 2);
}

uint32_t tf_rd_u32(tf_reader *r)
{
    return (uint32_t)rd_be(r, 4);
}

uint64_t tf_rd_u64(tf_reader *r)
{
    return rd_be(r, 8);
}

uint64_t tf_rd_var(tf_reader *r)
{
    if (r->at == r->end) {
        tf_rd_fail(r);
        return 0;
    }
    unsigned k = *r->at >> 6;
    return rd_be(r, (size_t)1 << k) & (((uint64_t)1 << var_bits[k]) - 1);
}

size_t tf_rd_len(tf_reader *r, size_t max)
{
    uint64_t value = tf_rd_var(r);
    if (value > max) {
        tf_rd_fail(r);
        return 0;
    }
    return (size_t)value;
}

tf_slice tf_rd_bytes(tf_reader *r, size_t len)
{
    if (tf_rd_left(r) < len) {
        tf_rd_fail(r);
        len = 0;
    }
    tf_slice bytes = {r->at, len};
    r->at += len;
    return bytes;
}

void tf_wr_init(tf_writer *w, uint8_t *buf, size_t cap)
{
    TF_ASSERT(buf != NULL);
    *w = (tf_writer){.start = buf, .at = buf, .end = buf + cap, .full = false};
}

size_t tf_wr_len(const tf_writer *w)
{
    return (size_t)(w->at - w->start);
}

size_t tf_wr_left(const tf_writer *w)
{
    return w->full ? 0 : (size_t)(w->end - w->at);
}

bool tf_wr_ok(const tf_writer *w)
{
    return !w->full;
}

static void wr_be(tf_writer *w, uint64_t value, size_t width)
{
    if (tf_wr_left(w) < width) {
        w->full = true;
        return;
    }
    for (size_t i = width; i > 0; i--) {
        w->at[i - 1] = (uint8_t)value;
        value >>= 8;
    }
    w->at += width;
}

void tf_wr_u8(tf_writer *w, uint8_t value)
{
    wr_be(w, value, 1);
}

void tf_wr_u16(tf_writer *w, uint16_t value)
{
    wr_be(w, value, 2);
}

void tf_wr_u32(tf_writer *w, uint32_t value)
{
    wr_be(w, value, 4);
}

void tf_wr_u64(tf_writer *w, uint64_t value)
{
    wr_be(w, value, 8);
}

/* The k of the shortest form. */
static unsigned var_form(uint64_t value)
{
    for (unsigned k = 0; k < 4; k++) {
        if (value >> var_bits[k] == 0) {
            return k;
        }
    }
    TF_UNREACHABLE(); /* 2^62 or more */
}

size_t tf_var_len(uint64_t value)
{
    return (size_t)1 << var_form(value);
}

void tf_wr_var(tf_writer *w, uint64_t value)
{
    unsigned k = var_form(value);
    wr_be(w, value | (uint64_t)k << var_bits[k], (size_t)1 << k);
}

void tf_wr_bytes(tf_writer *w, tf_slice bytes)
{
    if (tf_wr_left(w) < bytes.len) {
        w->full = true;
        return;
    }
    if (bytes.len > 0) {
        memcpy(w->at, bytes.data, bytes.len);
        w->at += bytes.len;
    }
}
