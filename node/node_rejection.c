/* Rejections that nodes and commands give: MessagePack maps {"code", "message", "status"?}. */
#include "node/refusal.h"
#include "node/twofold.h"
#include "proto/mp.h"

#define PAIRS_MAX 64u
/* A map of three, its keys, the code, the head of the message, and the status. */
#define OVERHEAD (1u + 5u + 2u + TF_REFUSAL_CODE_MAX + 8u + 3u + 7u + 9u)

static tf_slice key(const char *name)
{
    return tf_slice_str(name);
}

static void read_pair(tf_reader *r, tf_rejection *out)
{
    tf_slice name = tf_mp_rd_str(r, TF_REJECTION_MAX);
    if (tf_slice_eq(name, key("code"))) {
        out->code = tf_mp_rd_str(r, TF_REJECTION_MAX);
    } else if (tf_slice_eq(name, key("message"))) {
        out->message = tf_mp_rd_str(r, TF_REJECTION_MAX);
    } else if (tf_slice_eq(name, key("status")) && tf_mp_peek(r) == TF_MP_UINT) {
        out->has_status = true;
        out->status = tf_mp_rd_uint(r);
    } else {
        tf_mp_skip(r);
    }
}

tf_err tf_rejection_read(tf_slice data, tf_rejection *out)
{
    tf_reader r;
    tf_rejection found = {.has_status = false};
    if (tf_mp_check(data, TF_MP_DEPTH_MAX, TF_MP_ITEMS_MAX) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    tf_rd_init(&r, data);
    size_t pairs = tf_mp_rd_map(&r, PAIRS_MAX);
    for (size_t i = 0; i < pairs && tf_rd_ok(&r); i++) {
        read_pair(&r, &found);
    }
    bool whole =
        tf_rd_end(&r) == TF_OK && found.code.len > 0 && tf_utf8_is_valid(found.code) && tf_utf8_is_valid(found.message);
    if (!whole) {
        return TF_ERR_PEER_SYNTAX;
    }
    *out = found;
    return TF_OK;
}

static bool continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* The message as it can be told: copied to out (of `room` bytes). */
static tf_slice sayable(uint8_t *out, size_t room, tf_slice message)
{
    size_t len = message.len < room ? message.len : room;
    bool text = tf_utf8_is_valid(message);
    while (text && len > 0 && len < message.len && continues(message.data[len])) {
        len--; /* not within a character */
    }
    for (size_t i = 0; i < len; i++) {
        out[i] = text || message.data[i] < 0x80 ? message.data[i] : (uint8_t)'?';
    }
    return tf_slice_of(out, len);
}

size_t tf_rejection_write(uint8_t out[TF_REJECTION_MAX], const tf_rejection *rejection)
{
    uint8_t text[TF_REJECTION_MAX - OVERHEAD];
    tf_writer w;
    TF_ASSERT(rejection->code.len > 0 && rejection->code.len <= TF_REFUSAL_CODE_MAX);
    tf_wr_init(&w, out, TF_REJECTION_MAX);
    tf_mp_wr_map(&w, rejection->has_status ? 3 : 2);
    tf_mp_wr_str(&w, key("code"));
    tf_mp_wr_str(&w, rejection->code);
    tf_mp_wr_str(&w, key("message"));
    tf_mp_wr_str(&w, sayable(text, sizeof(text), rejection->message));
    if (rejection->has_status) {
        tf_mp_wr_str(&w, key("status"));
        tf_mp_wr_uint(&w, rejection->status);
    }
    TF_ASSERT(tf_wr_ok(&w));
    return tf_wr_len(&w);
}
