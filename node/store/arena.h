/* Memory for things that are kept until all of them go: taken from blocks that grow with what was taken, so that a million
 * messages are a handful of allocations. Pure. */
#ifndef TF_NODE_STORE_ARENA_H
#define TF_NODE_STORE_ARENA_H

#include "proto/types.h"

#define TF_ARENA_BLOCK_MIN ((size_t)1 << 10)
#define TF_ARENA_BLOCK_MAX ((size_t)1 << 20) /* larger ones would be felt as a pause when they are first touched */

typedef struct tf_arena_block tf_arena_block;

typedef struct tf_arena {
    const tf_mem *mem;
    tf_arena_block *blocks; /* the newest first */
    size_t left;            /* in it */
} tf_arena;

void tf_arena_init(tf_arena *arena, const tf_mem *mem);
/* Frees everything that was taken; the arena can be used again. */
void tf_arena_clear(tf_arena *arena);
/* Zeroed, aligned for any type. NULL: no memory, nothing changed. */
void *tf_arena_take(tf_arena *arena, size_t size);
/* What it has from its allocator, in bytes. */
size_t tf_arena_bytes(const tf_arena *arena);

#endif
