#include "node/pattern.h"

#include "node/name.h"

static bool is_wild(uint8_t c)
{
    return c == '*' || c == '?';
}

bool tf_pattern_is_valid(tf_slice pattern)
{
    for (size_t i = 0; i < pattern.len; i++) {
        if (!is_wild(pattern.data[i]) && !tf_channel_name_is_valid(tf_slice_of(pattern.data + i, 1))) {
            return false;
        }
    }
    return pattern.len >= 1 && pattern.len <= TF_CHANNEL_NAME_MAX;
}

/* Where a byte does not fit, the last * takes one more: what earlier ones took need not be tried again. */
bool tf_pattern_matches(tf_slice pattern, tf_slice name)
{
    size_t p = 0;
    size_t n = 0;
    size_t star = pattern.len; /* where the last * is; pattern.len: there was none */
    size_t taken = 0;          /* where what it does not take begins */
    while (n < name.len) {
        if (p < pattern.len && pattern.data[p] == '*') {
            star = p++;
            taken = n;
        } else if (p < pattern.len && (pattern.data[p] == '?' || pattern.data[p] == name.data[n])) {
            p++;
            n++;
        } else if (star < pattern.len) {
            p = star + 1;
            n = ++taken;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.data[p] == '*') {
        p++;
    }
    return p == pattern.len;
}
