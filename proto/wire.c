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

tf_err tf_rd_end(const tf_reader *r)
{
    return !r->bad && r->at == r->end ? TF_OK : TF_ERR_PEER_SYNTAX;
}

uint64_t tf_rd_var(tf_reader *r)
{
    if (r->at == r->end) {
        tf_rd_fail(r);
        return 0;
    }
    switch (*r->at >> 6) {
    case 0:
        return tf_rd_u8(r);
    case 1:
        return tf_rd_u16(r) & 0x3fffu;
    case 2:
        return tf_rd_u32(r) & 0x3fffffffu;
    default:
        return tf_rd_u64(r) & (UINT64_MAX >> 2);
    }
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

void tf_wr_init(tf_writer *w, uint8_t *buf, size_t cap)
{
    TF_ASSERT(buf != NULL);
    *w = (tf_writer){.start = buf, .at = buf, .end = buf + cap, .full = false};
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
    value |= (uint64_t)k << var_bits[k];
    switch (k) {
    case 0:
        tf_wr_u8(w, (uint8_t)value);
        return;
    case 1:
        tf_wr_u16(w, (uint16_t)value);
        return;
    case 2:
        tf_wr_u32(w, (uint32_t)value);
        return;
    default:
        tf_wr_u64(w, value);
        return;
    }
}
