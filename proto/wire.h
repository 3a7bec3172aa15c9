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
uint8_t tf_rd_u8(tf_reader *r);
uint16_t tf_rd_u16(tf_reader *r);
uint32_t tf_rd_u32(tf_reader *r);
uint64_t tf_rd_u64(tf_reader *r);
/* Variable-length integer, RFC 9000 §16 (1, 2, 4 or 8 bytes, below 2^62). */
uint64_t tf_rd_var(tf_reader *r);
/* A length, count or index: a variable-length integer that must be <= max. */
size_t tf_rd_len(tf_reader *r, size_t max);
tf_slice tf_rd_bytes(tf_reader *r, size_t len);
size_t tf_rd_left(const tf_reader *r);
void tf_rd_fail(tf_reader *r);
bool tf_rd_ok(const tf_reader *r);
/* TF_OK when nothing was overrun and nothing is left; else TF_ERR_PEER_SYNTAX. */
TF_MUST_CHECK tf_err tf_rd_end(const tf_reader *r);

typedef struct tf_writer {
    uint8_t *start;
    uint8_t *at;
    uint8_t *end;
    bool full;
} tf_writer;

void tf_wr_init(tf_writer *w, uint8_t *buf, size_t cap);
void tf_wr_u8(tf_writer *w, uint8_t value);
void tf_wr_u16(tf_writer *w, uint16_t value);
void tf_wr_u32(tf_writer *w, uint32_t value);
void tf_wr_u64(tf_writer *w, uint64_t value);
/* value < 2^62, asserted. */
void tf_wr_var(tf_writer *w, uint64_t value);
void tf_wr_bytes(tf_writer *w, tf_slice bytes);
size_t tf_wr_len(const tf_writer *w);
size_t tf_wr_left(const tf_writer *w);
bool tf_wr_ok(const tf_writer *w);
/* Bytes that tf_wr_var takes for value. */
size_t tf_var_len(uint64_t value);

#endif
