#include "tests/harness/body.h"

#define HEADER 16u

_Static_assert(HEADER <= TF_SCENARIO_BODY_MIN, "a body has room for what is in it");

static const uint8_t magic[4] = {'t', 'f', 'l', 'b'};

/* Bytes that are others in each message, so that one with a part of another is seen. */
static uint8_t filling(uint32_t flow, uint32_t number, size_t at)
{
    return (uint8_t)((number * 2654435761u) >> (8 * (at % 4))) ^ (uint8_t)(at + flow);
}

void tf_lab_body_write(uint8_t *out, size_t size, uint32_t flow, uint32_t number)
{
    uint32_t length = (uint32_t)size;
    memcpy(out, magic, 4);
    memcpy(out + 4, &flow, 4);
    memcpy(out + 8, &number, 4);
    memcpy(out + 12, &length, 4);
    for (size_t i = HEADER; i < size; i++) {
        out[i] = filling(flow, number, i);
    }
}

bool tf_lab_body_read(tf_slice body, const tf_scenario *s, uint32_t *flow, uint32_t *number)
{
    *flow = 0;
    *number = 0;
    if (body.len < HEADER || memcmp(body.data, magic, 4) != 0) {
        return false;
    }
    uint32_t who;
    memcpy(&who, body.data + 4, 4);
    if (who >= s->flow_count) {
        return false;
    }
    *flow = who;
    uint32_t length;
    memcpy(number, body.data + 8, 4);
    memcpy(&length, body.data + 12, 4);
    if (length != body.len || *number >= s->flows[who].count || body.len != s->flows[who].size) {
        return false;
    }
    for (size_t i = HEADER; i < body.len; i++) {
        if (body.data[i] != filling(who, *number, i)) {
            return false;
        }
    }
    return true;
}
