#include "dedup/bloom.h"

#include <xxhash.h>

#define WORDS 8u         /* of a block: one cache line */
#define BITS_PER_KEY 16u /* of the default fill */

_Static_assert(WORDS * sizeof(uint64_t) == TF_BLOOM_BLOCK, "a block is its words");

typedef struct bloom_block {
    uint64_t words[WORDS];
} bloom_block;

struct tf_bloom {
    const tf_mem *mem;
    void *memory; /* as allocated; the halves lie in it, aligned to a block */
    size_t memory_len;
    bloom_block *halves[2];
    size_t blocks; /* of a half */
    unsigned current;
    uint64_t count; /* keys in the current half */
    uint64_t fill;
    uint64_t rotation;
    uint64_t key;
};

/* Any odd numbers whose products differ in the upper bits would do: here, the fractional bits of the square roots of
 * the first eight primes, made odd. */
static const uint32_t salts[WORDS] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef373u, 0xa54ff53bu,
                                      0x510e527fu, 0x9b05688du, 0x1f83d9abu, 0x5be0cd19u};

tf_err tf_bloom_new(tf_bloom **out, const tf_bloom_config *config, const tf_mem *mem)
{
    size_t bytes = config->bytes;

    if (bytes == 0 || bytes > TF_BLOOM_BYTES_MAX || bytes % TF_BLOOM_BLOCK != 0) {
        return TF_ERR_USAGE;
    }
    tf_bloom *bloom = tf_alloc(mem, sizeof(*bloom));
    if (bloom == NULL) {
        return TF_ERR_NOMEM;
    }
    bloom->mem = mem;
    bloom->memory_len = 2 * bytes + TF_BLOOM_BLOCK - 1;
    bloom->memory = tf_alloc(mem, bloom->memory_len);
    if (bloom->memory == NULL) {
        tf_free(mem, bloom, sizeof(*bloom));
        return TF_ERR_NOMEM;
    }
    size_t over = (size_t)((uintptr_t)bloom->memory % TF_BLOOM_BLOCK);
    void *start = (uint8_t *)bloom->memory + (over == 0 ? 0 : TF_BLOOM_BLOCK - over);
    bloom->blocks = bytes / TF_BLOOM_BLOCK;
    bloom->halves[0] = start;
    bloom->halves[1] = bloom->halves[0] + bloom->blocks;
    bloom->fill = config->fill != 0 ? config->fill : (uint64_t)bytes * 8u / BITS_PER_KEY;
    bloom->key = config->key;
    *out = bloom;
    return TF_OK;
}

void tf_bloom_free(tf_bloom *bloom)
{
    if (bloom == NULL) {
        return;
    }
    tf_free(bloom->mem, bloom->memory, bloom->memory_len);
    tf_free(bloom->mem, bloom, sizeof(*bloom));
}

uint64_t tf_bloom_hash(const tf_bloom *bloom, tf_slice bytes)
{
    return XXH3_64bits_withSeed(bytes.data, bytes.len, bloom->key);
}

/* The upper half of the hash picks the block, the lower one a bit in each word. */
static size_t block_of(const tf_bloom *bloom, uint64_t hash)
{
    return (size_t)(((hash >> 32) * (uint64_t)bloom->blocks) >> 32);
}

static uint64_t bit_of(uint64_t hash, size_t word)
{
    return (uint64_t)1 << (((uint32_t)hash * salts[word]) >> 26);
}

static bool block_holds(const bloom_block *block, uint64_t hash)
{
    uint64_t missing = 0;

    for (size_t i = 0; i < WORDS; i++) {
        missing |= bit_of(hash, i) & ~block->words[i];
    }
    return missing == 0;
}

static void rotate(tf_bloom *bloom)
{
    bloom->current ^= 1u;
    memset(bloom->halves[bloom->current], 0, bloom->blocks * TF_BLOOM_BLOCK);
    bloom->count = 0;
    bloom->rotation++;
}

void tf_bloom_insert(tf_bloom *bloom, uint64_t hash)
{
    if (bloom->count >= bloom->fill) {
        rotate(bloom);
    }
    bloom->count++;
    bloom_block *block = &bloom->halves[bloom->current][block_of(bloom, hash)];
    for (size_t i = 0; i < WORDS; i++) {
        block->words[i] |= bit_of(hash, i);
    }
}

bool tf_bloom_may_hold(const tf_bloom *bloom, uint64_t hash)
{
    size_t at = block_of(bloom, hash);

    return block_holds(&bloom->halves[0][at], hash) || block_holds(&bloom->halves[1][at], hash);
}

uint64_t tf_bloom_rotation(const tf_bloom *bloom)
{
    return bloom->rotation;
}
