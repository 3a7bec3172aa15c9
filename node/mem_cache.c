#include "node/mem_cache.h"

#include <stdlib.h>

#define STEPS ((size_t)4) /* sizes between two powers of two: at most a quarter of a block is waste */
#define SIZE_MIN 32u
#define CLASSES 29u /* 32, 40, 48, 56, 64, 80 ... 4096 */

#if defined(__SANITIZE_ADDRESS__)
#define KEEPS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS false
#else
#define KEEPS true
#endif
#else
#define KEEPS true
#endif

typedef struct spare {
    struct spare *next;
} spare;

struct tf_mem_cache {
    tf_mem mem;
    size_t kept;
    spare *spares[CLASSES];
};

/* The class of a size up to TF_MEM_CACHE_SMALL, and the size that its blocks have. */
static size_t class_of(size_t size, size_t *rounded)
{
    size_t wanted = size < SIZE_MIN ? SIZE_MIN : size;
    unsigned power = 63u - (unsigned)__builtin_clzll((unsigned long long)(wanted - 1)); /* 2^power < wanted <= 2^(power + 1) */
    if (wanted == SIZE_MIN) {
        *rounded = SIZE_MIN;
        return 0;
    }
    size_t step = ((size_t)1 << power) / STEPS;
    size_t steps = (wanted - ((size_t)1 << power) + step - 1) / step; /* 1 to STEPS */
    *rounded = ((size_t)1 << power) + steps * step;
    return (power - 5u) * STEPS + steps;
}

static void *cache_alloc(void *ctx, size_t size)
{
    tf_mem_cache *cache = ctx;
    size_t rounded = 0;
    if (!KEEPS || size > TF_MEM_CACHE_SMALL) {
        return calloc(1, size);
    }
    size_t i = class_of(size, &rounded);
    spare *block = cache->spares[i];
    if (block == NULL) {
        return calloc(1, rounded);
    }
    cache->spares[i] = block->next;
    cache->kept -= rounded;
    memset(block, 0, size);
    return block;
}

static void cache_free(void *ctx, void *memory, size_t size)
{
    tf_mem_cache *cache = ctx;
    size_t rounded = 0;
    if (!KEEPS || size > TF_MEM_CACHE_SMALL) {
        free(memory);
        return;
    }
    size_t i = class_of(size, &rounded);
    if (cache->kept + rounded > TF_MEM_CACHE_BYTES) {
        free(memory);
        return;
    }
    spare *block = memory;
    block->next = cache->spares[i];
    cache->spares[i] = block;
    cache->kept += rounded;
}

tf_err tf_mem_cache_new(tf_mem_cache **out)
{
    tf_mem_cache *cache = calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return TF_ERR_NOMEM;
    }
    cache->mem = (tf_mem){cache_alloc, cache_free, cache};
    *out = cache;
    return TF_OK;
}

void tf_mem_cache_trim(tf_mem_cache *cache)
{
    for (size_t i = 0; i < CLASSES; i++) {
        while (cache->spares[i] != NULL) {
            spare *block = cache->spares[i];
            cache->spares[i] = block->next;
            free(block);
        }
    }
    cache->kept = 0;
}

void tf_mem_cache_free(tf_mem_cache *cache)
{
    if (cache != NULL) {
        tf_mem_cache_trim(cache);
        free(cache);
    }
}

const tf_mem *tf_mem_cache_get(const tf_mem_cache *cache)
{
    return &cache->mem;
}

size_t tf_mem_cache_kept(const tf_mem_cache *cache)
{
    return cache->kept;
}
