#include "node/refusal.h"

typedef struct entry {
    const char *name;
    const char *text;
    size_t name_len;
    size_t text_len;
    uint32_t retry_after_ms;
    bool retryable;
} entry;

static const entry entries[TF_REFUSAL_COUNT] = {
#define X(code, wire, again, after, english) [TF_REFUSAL_##code] = {wire, english, sizeof(wire) - 1, sizeof(english) - 1, after, again},
    TF_REFUSAL_MAP(X)
#undef X
};

const char *tf_refusal_name(tf_refusal refusal)
{
    TF_ASSERT(refusal < TF_REFUSAL_COUNT);
    return entries[refusal].name;
}

const char *tf_refusal_text(tf_refusal refusal)
{
    TF_ASSERT(refusal < TF_REFUSAL_COUNT);
    return entries[refusal].text;
}

tf_slice tf_refusal_code(tf_refusal refusal)
{
    TF_ASSERT(refusal < TF_REFUSAL_COUNT);
    return tf_slice_of(entries[refusal].name, entries[refusal].name_len);
}

tf_slice tf_refusal_message(tf_refusal refusal)
{
    TF_ASSERT(refusal < TF_REFUSAL_COUNT);
    return tf_slice_of(entries[refusal].text, entries[refusal].text_len);
}

bool tf_refusal_is_retryable(tf_refusal refusal)
{
    TF_ASSERT(refusal < TF_REFUSAL_COUNT);
    return entries[refusal].retryable;
}

uint32_t tf_refusal_retry_after_ms(tf_refusal refusal)
{
    TF_ASSERT(refusal < TF_REFUSAL_COUNT);
    return entries[refusal].retry_after_ms;
}

tf_refusal tf_refusal_find(tf_slice name)
{
#define X(code, wire, again, after, english)                                                                           \
    if (tf_slice_eq(name, tf_slice_of(wire, sizeof(wire) - 1)) && TF_REFUSAL_##code != TF_REFUSAL_NONE) {              \
        return TF_REFUSAL_##code;                                                                                      \
    }
    TF_REFUSAL_MAP(X)
#undef X
    return TF_REFUSAL_NONE;
}
