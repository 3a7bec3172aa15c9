/* What fuzz targets share: the entry point that libFuzzer and driver.c call, and decisions taken from the input. */
#ifndef TF_TESTS_FUZZ_FUZZ_H
#define TF_TESTS_FUZZ_FUZZ_H

#include <stdlib.h>

#include "proto/wire.h"

/* One input, in a block of exactly its size. Returns 0; a fault is a trap (TF_ASSERT) or a report of a sanitizer. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Takes decisions off the front of the input: time, allocations that fail, room for output. Zero when it is used up. */
static inline uint8_t tf_fuzz_u8(tf_slice *input)
{
    if (input->len == 0) {
        return 0;
    }
    uint8_t value = input->data[0];
    *input = tf_slice_of(input->data + 1, input->len - 1);
    return value;
}

static inline uint32_t tf_fuzz_u32(tf_slice *input)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value = value << 8 | tf_fuzz_u8(input);
    }
    return value;
}

/* Takes up to len bytes off the front. */
static inline tf_slice tf_fuzz_bytes(tf_slice *input, size_t len)
{
    tf_slice taken = {input->data, len < input->len ? len : input->len};
    *input = tf_slice_of(input->data + taken.len, input->len - taken.len);
    return taken;
}

/* A text of the bytes up to their first NUL, in a block of exactly its size, for free(). */
static inline char *tf_fuzz_text(tf_slice input)
{
    size_t len = input.len == 0 ? 0 : strnlen((const char *)input.data, input.len);
    char *text = malloc(len + 1);
    TF_ASSERT(text != NULL);
    if (len > 0) {
        memcpy(text, input.data, len);
    }
    text[len] = '\0';
    return text;
}

#endif
