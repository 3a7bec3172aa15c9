/* The buffers of streams, which only those have whose bytes wait: input that is not consumed yet, and the rest of a record
 * that the socket did not take. So a thousand streams that say nothing hold none (P9), and busy ones need not allocate.
 *
 * Few are kept for the next that asks; what is in them is not cleared. Bounded by what is taken. Not thread-safe. */
#ifndef TF_PATHS_STREAM_BUFFERS_H
#define TF_PATHS_STREAM_BUFFERS_H

#include "proto/types.h"

#define TF_STREAM_SPARES 4u

typedef struct tf_stream_spares {
    size_t size; /* of each */
    size_t count;
    uint8_t *waiting[TF_STREAM_SPARES];
} tf_stream_spares;

typedef struct tf_stream_buffers {
    const tf_mem *mem;
    tf_stream_spares in;  /* TF_STREAM_IN bytes */
    tf_stream_spares out; /* TF_STREAM_RECORD bytes */
} tf_stream_buffers;

void tf_stream_buffers_init(tf_stream_buffers *buffers, const tf_mem *mem);
/* NULL: out of memory. Give it back to the same spares. */
uint8_t *tf_stream_buffers_take(tf_stream_buffers *buffers, tf_stream_spares *from);
void tf_stream_buffers_give(tf_stream_buffers *buffers, tf_stream_spares *to, uint8_t *buffer); /* NULL is fine */
/* Frees those that wait. */
void tf_stream_buffers_clear(tf_stream_buffers *buffers);

#endif
