/* Bounded reader and writer of bytes: the only code that touches bytes from or for the wire.
 *
 * Both are sticky: after the first overrun every further call gives zero / writes nothing, and _end tells once. A value
 * that was read may be used only after tf_rd_end (or tf_rd_ok) said TF_OK. All integers are big-endian. Any thread. */
#ifndef TF_PROTO_WIRE_H
#define TF_PROTO_WIRE_H

#include "proto/types.h"

typedef struct tf_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
} tf_reader;

void tf_rd_init(tf_reader *r, tf_slice in);

/* The small ones are inline: a message is a dozen of them. */
static inline size_t tf_rd_left(const tf_reader *r)
{
    return (size_t)(r->end - r->at);
}

static inline void tf_rd_fail(tf_reader *r)
{
    r->bad = true;
    r->at = r->end;
}

static inline bool tf_rd_ok(const tf_reader *r)
{
    return !r->bad;
}

/* len bytes, or an empty slice and a bad reader. */
static inline tf_slice tf_rd_bytes(tf_reader *r, size_t len)
{
    if (tf_rd_left(r) < len) {
        tf_rd_fail(r);
        len = 0;
    }
    tf_slice bytes = {r->at, len};
    r->at += len;
    return bytes;
}

static inline uint8_t tf_rd_u8(tf_reader *r)
{
    tf_slice b = tf_rd_bytes(r, 1);
    return b.len == 0 ? 0 : b.data[0];
}

static inline uint16_t tf_rd_u16(tf_reader *r)
{
    tf_slice b = tf_rd_bytes(r, 2);
    uint32_t value = b.len == 0 ? 0 : (uint32_t)b.data[0] << 8 | b.data[1];
    return (uint16_t)value;
}

static inline uint32_t tf_rd_u32(tf_reader *r)
{
    tf_slice b = tf_rd_bytes(r, 4);
    return b.len == 0 ? 0
                      : (uint32_t)b.data[0] << 24 | (uint32_t)b.data[1] << 16 | (uint32_t)b.data[2] << 8 | b.data[3];
}

static inline uint64_t tf_rd_u64(tf_reader *r)
{
    if (tf_rd_left(r) < 8) {
        tf_rd_fail(r);
        return 0;
    }
    uint64_t high = tf_rd_u32(r);
    return high << 32 | tf_rd_u32(r);
}

/* Variable-length integer, RFC 9000 §16 (1, 2, 4 or 8 bytes, below 2^62). */
uint64_t tf_rd_var(tf_reader *r);
/* A length, count or index: a variable-length integer that must be <= max. */
size_t tf_rd_len(tf_reader *r, size_t max);
/* TF_OK when nothing was overrun and nothing is left; else TF_ERR_PEER_SYNTAX. */
TF_MUST_CHECK tf_err tf_rd_end(const tf_reader *r);

typedef struct tf_writer {
    uint8_t *start;
    uint8_t *at;
    uint8_t *end;
    bool full;
} tf_writer;

void tf_wr_init(tf_writer *w, uint8_t *buf, size_t cap);

static inline size_t tf_wr_len(const tf_writer *w)
{
    return (size_t)(w->at - w->start);
}

static inline size_t tf_wr_left(const tf_writer *w)
{
    return w->full ? 0 : (size_t)(w->end - w->at);
}

static inline bool tf_wr_ok(const tf_writer *w)
{
    return !w->full;
}

static inline void tf_wr_u8(tf_writer *w, uint8_t value)
{
    if (tf_wr_left(w) == 0) {
        w->full = true;
        return;
    }
    *w->at++ = value;
}

/* len bytes, or nothing and a full writer. */
static inline void tf_wr_bytes(tf_writer *w, tf_slice bytes)
{
    if (tf_wr_left(w) < bytes.len) {
        w->full = true;
    } else if (bytes.len > 0) {
        memcpy(w->at, bytes.data, bytes.len);
        w->at += bytes.len;
    }
}

static inline void tf_wr_u16(tf_writer *w, uint16_t value)
{
    const uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};
    tf_wr_bytes(w, tf_slice_of(bytes, sizeof(bytes)));
}

static inline void tf_wr_u32(tf_writer *w, uint32_t value)
{
    const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    tf_wr_bytes(w, tf_slice_of(bytes, sizeof(bytes)));
}

static inline void tf_wr_u64(tf_writer *w, uint64_t value)
{
    const uint8_t bytes[8] = {(uint8_t)(value >> 56), (uint8_t)(value >> 48), (uint8_t)(value >> 40),
                              (uint8_t)(value >> 32), (uint8_t)(value >> 24), (uint8_t)(value >> 16),
                              (uint8_t)(value >> 8),  (uint8_t)value};
    tf_wr_bytes(w, tf_slice_of(bytes, sizeof(bytes)));
}

/* value < 2^62, asserted. */
void tf_wr_var(tf_writer *w, uint64_t value);
/* Bytes that tf_wr_var takes for value. */
size_t tf_var_len(uint64_t value);

#endif
