#include "paths/link_pool.h"

struct tf_link_buffer {
    tf_link_buffer *next;
};

static const size_t sizes[TF_LINK_POOL_SIZES] = {128, 384, ((size_t)TF_SEGMENT_DATA_MAX + 15u) / 16u * 16u};

_Static_assert(TF_SEGMENT_DATA_MAX > 384, "the sizes ascend");

static size_t size_index(size_t len)
{
    TF_ASSERT(len <= TF_SEGMENT_DATA_MAX);
    size_t i = 0;
    while (sizes[i] < len) {
        i++;
    }
    return i;
}

void tf_link_pool_init(tf_link_pool *pool, const tf_mem *mem)
{
    *pool = (tf_link_pool){.mem = mem};
}

uint8_t *tf_link_pool_take(tf_link_pool *pool, size_t len)
{
    size_t i = size_index(len);
    tf_link_buffer *spare = pool->spare[i];
    if (spare == NULL) {
        return tf_alloc(pool->mem, sizes[i]);
    }
    pool->spare[i] = spare->next;
    return (uint8_t *)spare;
}

void tf_link_pool_give(tf_link_pool *pool, uint8_t *buffer, size_t len)
{
    size_t i = size_index(len);
    tf_link_buffer *spare = (tf_link_buffer *)(void *)buffer;
    spare->next = pool->spare[i];
    pool->spare[i] = spare;
}

void tf_link_pool_trim(tf_link_pool *pool)
{
    for (size_t i = 0; i < TF_LINK_POOL_SIZES; i++) {
        while (pool->spare[i] != NULL) {
            tf_link_buffer *spare = pool->spare[i];
            pool->spare[i] = spare->next;
            tf_free(pool->mem, spare, sizes[i]);
        }
    }
}
