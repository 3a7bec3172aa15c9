#include "node/config.h"

/* A unit and how many of the smallest one it is. */
typedef struct unit {
    const char *name;
    uint64_t factor;
} unit;

/* Splits "250ms" into number and unit. False: no number in front, or it is beyond 64 bits. */
static bool split_number(tf_slice text, uint64_t *number, tf_slice *rest)
{
    size_t at = 0;
    uint64_t value = 0;
    for (; at < text.len && text.data[at] >= '0' && text.data[at] <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.data[at] - '0'), &value)) {
            return false;
        }
    }
    *number = value;
    *rest = tf_slice_of(text.data + at, text.len - at);
    return at > 0;
}

static tf_err parse_with_unit(uint64_t *out, tf_slice text, const unit *units, size_t count)
{
    uint64_t number = 0;
    tf_slice rest = {NULL, 0};
    if (!split_number(text, &number, &rest)) {
        return TF_ERR_USAGE;
    }
    while (rest.len > 0 && rest.data[0] == ' ') {
        rest = tf_slice_of(rest.data + 1, rest.len - 1);
    }
    for (size_t i = 0; i < count; i++) {
        if (tf_slice_eq(rest, tf_slice_str(units[i].name))) {
            return __builtin_mul_overflow(number, units[i].factor, out) ? TF_ERR_USAGE : TF_OK;
        }
    }
    return TF_ERR_USAGE;
}

tf_err tf_duration_parse(tf_time *out, tf_slice text)
{
    static const unit units[] = {
        {"ms", TF_MS}, {"s", TF_SECOND}, {"m", 60 * TF_SECOND}, {"h", 3600 * TF_SECOND}, {"d", 86400 * TF_SECOND}};
    tf_time value = 0;
    tf_err err = parse_with_unit(&value, text, units, sizeof(units) / sizeof(units[0]));
    if (err == TF_OK && value == TF_NEVER) {
        err = TF_ERR_USAGE;
    }
    if (err == TF_OK) {
        *out = value;
    }
    return err;
}

tf_err tf_size_parse(uint64_t *out, tf_slice text)
{
    static const uint64_t k = 1000;
    static const uint64_t kib = 1024;
    const unit units[] = {{"", 1},
                          {"B", 1},
                          {"kB", k},
                          {"MB", k * k},
                          {"GB", k * k * k},
                          {"TB", k * k * k * k},
                          {"KiB", kib},
                          {"MiB", kib * kib},
                          {"GiB", kib * kib * kib},
                          {"TiB", kib * kib * kib * kib}};
    uint64_t value = 0;
    tf_err err = parse_with_unit(&value, text, units, sizeof(units) / sizeof(units[0]));
    if (err == TF_OK) {
        *out = value;
    }
    return err;
}
