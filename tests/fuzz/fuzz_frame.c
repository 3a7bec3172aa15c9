/* proto/frame: any bytes are read without a fault; what is read is written, and read again as the same.
 * Input: one byte of decisions, then frames. */
#include <stdlib.h>

#include "proto/frame.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

/* Writes a frame into a block of exactly that size; the caller frees it. */
static uint8_t *write_exact(const tf_frame *frame, size_t size)
{
    uint8_t *block = malloc(size);
    TF_ASSERT(block != NULL);
    tf_writer w;
    tf_wr_init(&w, block, size);
    TF_ASSERT(tf_frame_write(&w, frame));
    TF_ASSERT(tf_wr_len(&w) == size);
    return block;
}

static void assert_no_room(const tf_frame *frame, size_t cap)
{
    uint8_t *block = malloc(cap + 1);
    TF_ASSERT(block != NULL);
    tf_writer w;
    tf_wr_init(&w, block, cap);
    TF_ASSERT(!tf_frame_write(&w, frame));
    TF_ASSERT(tf_wr_ok(&w) && tf_wr_len(&w) == 0);
    free(block);
}

/* Read, written, read, written: the second bytes are the first. */
static void assert_comes_back(const tf_frame *frame, size_t was)
{
    size_t size = tf_frame_size(frame);
    TF_ASSERT(size <= was); /* the shortest form */
    uint8_t *first = write_exact(frame, size);
    tf_frame again;
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(first, size));
    TF_ASSERT(tf_frame_read(&r, &again) == TF_OK && tf_rd_left(&r) == 0);
    TF_ASSERT(again.type == frame->type && tf_frame_size(&again) == size);
    uint8_t *second = write_exact(&again, size);
    TF_ASSERT(memcmp(first, second, size) == 0);
    free(first);
    free(second);
}

/* A frame that is cut off anywhere waits for the rest. */
static void assert_cut_waits(tf_slice whole, size_t cut)
{
    uint8_t *part = tf_test_exact(tf_slice_of(whole.data, cut));
    tf_frame frame;
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(part, cut));
    TF_ASSERT(tf_frame_read(&r, &frame) == TF_ERR_AGAIN && tf_rd_left(&r) == cut);
    free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    uint8_t decision = tf_fuzz_u8(&input);
    uint8_t *exact = tf_test_exact(input);
    tf_reader r;
    tf_rd_init(&r, tf_slice_of(exact, input.len));
    for (;;) {
        tf_frame frame;
        const uint8_t *start = r.at;
        tf_err err = tf_frame_read(&r, &frame);
        if (err != TF_OK) {
            TF_ASSERT(r.at == start);
            TF_ASSERT(err == TF_ERR_PEER_SYNTAX || (err == TF_ERR_AGAIN && tf_rd_left(&r) < 3 + TF_FRAME_PAYLOAD_MAX));
            break;
        }
        tf_slice whole = tf_slice_of(start, (size_t)(r.at - start));
        assert_comes_back(&frame, whole.len);
        assert_no_room(&frame, decision % tf_frame_size(&frame));
        assert_cut_waits(whole, decision % whole.len);
    }
    free(exact);
    return 0;
}
