/* Buffers for the data of segments, in three sizes, shared by both directions of a link.
 *
 * What is given back is kept for the next segment, so that a busy link does not allocate; an idle one calls trim.
 * Bounded by what is taken: the windows of the link. Not thread-safe. */
#ifndef TF_PATHS_LINK_POOL_H
#define TF_PATHS_LINK_POOL_H

#include "proto/limits.h"
#include "proto/types.h"

#define TF_LINK_POOL_SIZES 3u

typedef struct tf_link_buffer tf_link_buffer; /* a buffer that waits to be used */

typedef struct tf_link_pool {
    const tf_mem *mem;
    tf_link_buffer *spare[TF_LINK_POOL_SIZES];
} tf_link_pool;

void tf_link_pool_init(tf_link_pool *pool, const tf_mem *mem);
/* A buffer for len bytes (0 to TF_SEGMENT_DATA_MAX); NULL: out of memory. Give it back with the same len. */
uint8_t *tf_link_pool_take(tf_link_pool *pool, size_t len);
void tf_link_pool_give(tf_link_pool *pool, uint8_t *buffer, size_t len);
/* Frees what waits. */
void tf_link_pool_trim(tf_link_pool *pool);

#endif
