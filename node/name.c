#include "node/name.h"

/* The alphabet of S2, a bit for each byte. */
static const uint64_t id_bytes[4] = {UINT64_C(0x07ff600000000000), UINT64_C(0x47fffffe87fffffe), 0, 0};

static bool is_id_byte(uint8_t c)
{
    return (id_bytes[c >> 6] >> (c & 63u) & 1u) != 0;
}

static bool is_id(tf_slice id, size_t len_max)
{
    for (size_t i = 0; i < id.len; i++) {
        if (!is_id_byte(id.data[i])) {
            return false;
        }
    }
    return id.len >= 1 && id.len <= len_max;
}

bool tf_client_id_is_valid(tf_slice id)
{
    return is_id(id, TF_CLIENT_ID_MAX);
}

bool tf_cursor_name_is_valid(tf_slice name)
{
    return is_id(name, TF_CURSOR_NAME_MAX);
}

bool tf_channel_name_is_valid(tf_slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!is_id_byte(name.data[i]) && name.data[i] != '/') {
            return false;
        }
    }
    return name.len >= 1 && name.len <= TF_CHANNEL_NAME_MAX;
}

void tf_hex16(uint64_t value, uint8_t out[16])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 16; i > 0; i--) {
        out[i - 1] = (uint8_t)digits[value & 15u];
        value >>= 4;
    }
}

size_t tf_decimal(uint64_t value, uint8_t out[20])
{
    uint8_t reversed[20];
    size_t len = 0;
    do {
        reversed[len++] = (uint8_t)('0' + value % 10u);
        value /= 10u;
    } while (value > 0);
    for (size_t i = 0; i < len; i++) {
        out[i] = reversed[len - 1 - i];
    }
    return len;
}
