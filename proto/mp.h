/* MessagePack through the bounded reader and writer: the shape check that every byte of a peer passes first, and the
 * few typed reads and writes that the fixed envelopes on the hot path need (msgpack-c is the oracle in the tests; the
 * open-ended maps of HELLO and WELCOME are read with msgpack-c itself, after the shape check).
 *
 * Reader calls are sticky like proto/wire.h: a wrong type marks the reader bad. Any thread. */
#ifndef TF_PROTO_MP_H
#define TF_PROTO_MP_H

#include "proto/limits.h"
#include "proto/wire.h"

/* Exactly one MessagePack value, no ext types, no 0xc1, at most max_depth nested containers (<= TF_MP_DEPTH_MAX) and
 * max_items values in all, every claimed length within the bytes there are, ending exactly at the end of `in`.
 * Iterative, allocates nothing. TF_OK or TF_ERR_PEER_SYNTAX. */
TF_MUST_CHECK tf_err tf_mp_check(tf_slice in, size_t max_depth, size_t max_items);

typedef enum tf_mp_type {
    TF_MP_END, /* nothing left, or the reader is bad */
    TF_MP_NIL,
    TF_MP_BOOL,
    TF_MP_UINT, /* a non-negative integer */
    TF_MP_INT,  /* a negative integer */
    TF_MP_FLOAT,
    TF_MP_STR,
    TF_MP_BIN,
    TF_MP_ARRAY,
    TF_MP_MAP
} tf_mp_type;

tf_mp_type tf_mp_peek(const tf_reader *r);
uint64_t tf_mp_rd_uint(tf_reader *r); /* any encoding of a non-negative integer */
int64_t tf_mp_rd_int(tf_reader *r);
bool tf_mp_rd_bool(tf_reader *r);
void tf_mp_rd_nil(tf_reader *r);
tf_slice tf_mp_rd_str(tf_reader *r, size_t max); /* valid UTF-8 is not checked here: tf_utf8_is_valid */
tf_slice tf_mp_rd_bin(tf_reader *r, size_t max);
size_t tf_mp_rd_array(tf_reader *r, size_t max); /* the number of elements that follow */
size_t tf_mp_rd_map(tf_reader *r, size_t max);   /* the number of pairs that follow */
void tf_mp_skip(tf_reader *r);                   /* one whole value, iterative, bounded by TF_MP_DEPTH_MAX */
/* The bytes of one whole value, left as they are. */
tf_slice tf_mp_rd_raw(tf_reader *r);

/* Shortest encoding each. */
void tf_mp_wr_nil(tf_writer *w);
void tf_mp_wr_bool(tf_writer *w, bool value);
void tf_mp_wr_uint(tf_writer *w, uint64_t value);
void tf_mp_wr_int(tf_writer *w, int64_t value);
void tf_mp_wr_long_str(tf_writer *w, tf_slice text); /* of 32 bytes and more */
/* Inline: a message has a dozen short ones. */
static inline void tf_mp_wr_str(tf_writer *w, tf_slice text)
{
    if (text.len >= 32) {
        tf_mp_wr_long_str(w, text);
        return;
    }
    tf_wr_u8(w, (uint8_t)(0xa0 | text.len));
    tf_wr_bytes(w, text);
}
void tf_mp_wr_bin(tf_writer *w, tf_slice bytes);
void tf_mp_wr_array(tf_writer *w, size_t count);
void tf_mp_wr_map(tf_writer *w, size_t pairs);

bool tf_utf8_is_valid(tf_slice text);

#endif
