/* What the tests of proto/message share: room to write to, bytes and refs to write. */
#ifndef TF_TESTS_UNIT_MESSAGE_ROOM_H
#define TF_TESTS_UNIT_MESSAGE_ROOM_H

#include <check.h>
#include <stdlib.h>

#include "proto/message.h"
#include "tests/support/support.h"

static uint8_t out[TF_MESSAGE_MAX + 64];
static uint8_t bytes[TF_MESSAGE_MAX];
static tf_ref many[TF_REFS_PER_MESSAGE + 1];

static inline tf_slice written(const tf_writer *w)
{
    ck_assert(tf_wr_ok(w));
    return tf_slice_of(out, tf_wr_len(w));
}

static inline tf_writer writer(void)
{
    tf_writer w;
    tf_wr_init(&w, out, sizeof(out));
    return w;
}

/* Reads from a block of exactly that size; the message must not be used for its slices afterwards. */
static inline tf_err read_exact(tf_slice in, tf_message *message)
{
    uint8_t *exact = tf_test_exact(in);
    tf_err err = tf_message_read(tf_slice_of(exact, in.len), message);
    free(exact);
    return err;
}

static inline void message_room_init(void)
{
    for (size_t i = 0; i <= TF_REFS_PER_MESSAGE; i++) {
        many[i] = (uint64_t)i << (i % 54);
    }
    memset(bytes, 'x', sizeof(bytes));
}

#endif
