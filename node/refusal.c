#include "node/refusal.h"

typedef struct entry {
    const char *name;
    const char *text;
    uint32_t retry_after_ms;
    bool retryable;
} entry;

static const entry entries[TF_REFUSAL_COUNT] = {
#define X(code, wire, again, after, english) [TF_REFUSAL_##code] = {wire, english, after, again},
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
