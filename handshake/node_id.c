#include "handshake/node_id.h"

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz234567";

_Static_assert((TF_NODE_ID_LEN * 8 + 4) / 5 == TF_NODE_ID_TEXT_LEN, "five bits a character");

void tf_node_id_format(const tf_node_id *id, char out[TF_NODE_ID_TEXT_LEN + 1])
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t at = 0;
    for (size_t i = 0; i < TF_NODE_ID_LEN; i++) {
        bits = (bits << 8 | id->bytes[i]) & 0xfffu;
        have += 8;
        while (have >= 5) {
            have -= 5;
            out[at++] = alphabet[bits >> have & 31u];
        }
    }
    out[at++] = alphabet[bits << (5 - have) & 31u];
    out[at] = '\0';
}

/* The value of a character, 32 for one that is not in the alphabet. */
static uint32_t digit_of(uint8_t c)
{
    if (c >= 'a' && c <= 'z') {
        return (uint32_t)c - 'a';
    }
    return c >= '2' && c <= '7' ? (uint32_t)c - '2' + 26u : 32u;
}

tf_err tf_node_id_parse(tf_node_id *out, tf_slice text)
{
    if (text.len != TF_NODE_ID_TEXT_LEN) {
        return TF_ERR_USAGE;
    }
    tf_node_id id = {{0}};
    uint32_t bits = 0;
    unsigned have = 0;
    size_t at = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint32_t digit = digit_of(text.data[i]);
        if (digit > 31) {
            return TF_ERR_USAGE;
        }
        bits = (bits << 5 | digit) & 0xfffu;
        have += 5;
        if (have >= 8) {
            have -= 8;
            id.bytes[at++] = (uint8_t)(bits >> have);
        }
    }
    if ((bits & ((1u << have) - 1u)) != 0) {
        return TF_ERR_USAGE; /* a second text for the same id */
    }
    *out = id;
    return TF_OK;
}

int tf_node_id_compare(const tf_node_id *a, const tf_node_id *b)
{
    return memcmp(a->bytes, b->bytes, TF_NODE_ID_LEN);
}
