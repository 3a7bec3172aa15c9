#include "paths/stream_buffers.h"

#include "paths/stream.h"

void tf_stream_buffers_init(tf_stream_buffers *buffers, const tf_mem *mem)
{
    *buffers = (tf_stream_buffers){.mem = mem, .in = {.size = TF_STREAM_IN}, .out = {.size = TF_STREAM_RECORD}};
}

uint8_t *tf_stream_buffers_take(tf_stream_buffers *buffers, tf_stream_spares *from)
{
    if (from->count > 0) {
        return from->waiting[--from->count];
    }
    return tf_alloc(buffers->mem, from->size);
}

void tf_stream_buffers_give(tf_stream_buffers *buffers, tf_stream_spares *to, uint8_t *buffer)
{
    if (buffer != NULL && to->count < TF_STREAM_SPARES) {
        to->waiting[to->count++] = buffer;
        return;
    }
    tf_free(buffers->mem, buffer, to->size);
}

static void clear(tf_stream_buffers *buffers, tf_stream_spares *spares)
{
    while (spares->count > 0) {
        tf_free(buffers->mem, spares->waiting[--spares->count], spares->size);
    }
}

void tf_stream_buffers_clear(tf_stream_buffers *buffers)
{
    clear(buffers, &buffers->in);
    clear(buffers, &buffers->out);
}
