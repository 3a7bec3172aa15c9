#include "node/store/arena.h"

#define ALIGNMENT _Alignof(max_align_t)

struct tf_arena_block {
    tf_arena_block *next;
    size_t size; /* of bytes */
    _Alignas(max_align_t) uint8_t bytes[];
};

void tf_arena_init(tf_arena *arena, const tf_mem *mem)
{
    *arena = (tf_arena){.mem = mem};
}

void tf_arena_clear(tf_arena *arena)
{
    while (arena->blocks != NULL) {
        tf_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        tf_free(arena->mem, block, sizeof(*block) + block->size);
    }
    arena->left = 0;
}

/* Each block is twice the one before, and holds at least size. */
static bool grow(tf_arena *arena, size_t size)
{
    size_t last = arena->blocks == NULL ? 0 : sizeof(tf_arena_block) + arena->blocks->size;
    size_t whole = last == 0 ? TF_ARENA_BLOCK_MIN : last < TF_ARENA_BLOCK_MAX / 2 ? 2 * last : TF_ARENA_BLOCK_MAX;
    if (size > SIZE_MAX - sizeof(tf_arena_block)) {
        return false;
    }
    if (whole < sizeof(tf_arena_block) + size) {
        whole = sizeof(tf_arena_block) + size;
    }
    tf_arena_block *block = tf_alloc(arena->mem, whole);
    if (block == NULL) {
        return false;
    }
    block->next = arena->blocks;
    block->size = whole - sizeof(tf_arena_block);
    arena->blocks = block;
    arena->left = block->size;
    return true;
}

void *tf_arena_take(tf_arena *arena, size_t size)
{
    size_t wanted = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (wanted < size || (wanted > arena->left && !grow(arena, wanted))) {
        return NULL;
    }
    uint8_t *taken = arena->blocks->bytes + (arena->blocks->size - arena->left);
    arena->left -= wanted;
    return taken;
}

size_t tf_arena_bytes(const tf_arena *arena)
{
    size_t bytes = 0;
    for (const tf_arena_block *block = arena->blocks; block != NULL; block = block->next) {
        bytes += sizeof(*block) + block->size;
    }
    return bytes;
}
