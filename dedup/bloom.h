/* A cache-line-blocked Bloom filter in two rotating halves: "surely never inserted of late" or "maybe".
 *
 * Each key sets 8 bits in one 64-byte block (one a word), so an insert or a query touches one cache line a half.
 * Inserts go to the current half, queries ask both. Once the current half has had its fill, the older half is cleared
 * and becomes the current one (a rotation). A key inserted at rotation r is found at least up to rotation r + 1; from
 * r + 2 on "surely new" says nothing about it: whoever keeps keys for longer compares tf_bloom_rotation.
 * A positive is a guess and must never drop anything (P4); that all bits are set may change speed only.
 * Source of the shape: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007).
 * Pure. One thread. */
#ifndef TF_DEDUP_BLOOM_H
#define TF_DEDUP_BLOOM_H

#include "proto/types.h"

#define TF_BLOOM_BLOCK 64u              /* bytes */
#define TF_BLOOM_BYTES_MAX (256u << 20) /* of one half */

typedef struct tf_bloom tf_bloom;

typedef struct tf_bloom_config {
    size_t bytes; /* of one half: whole blocks, 1 block to TF_BLOOM_BYTES_MAX */
    uint64_t
        fill; /* keys a half takes before the halves rotate; 0: one key for every 16 bits (about 0.1 % wrong maybes) */
    uint64_t key; /* random, per process: who does not know it cannot choose keys that collide */
} tf_bloom_config;

/* TF_ERR_USAGE: bytes is no size as above. TF_ERR_NOMEM. mem must outlive the filter. Takes 2 * bytes and a little. */
TF_MUST_CHECK tf_err tf_bloom_new(tf_bloom **out, const tf_bloom_config *config, const tf_mem *mem);
void tf_bloom_free(tf_bloom *bloom); /* NULL is fine */

/* The keyed hash of some bytes (XXH3), for the two calls below. Hashes of different filters are not interchangeable. */
uint64_t tf_bloom_hash(const tf_bloom *bloom, tf_slice bytes);

/* May rotate first: that clears one half (`bytes` long), once in `fill` inserts. */
void tf_bloom_insert(tf_bloom *bloom, uint64_t hash);
/* False: surely not inserted in this rotation or the one before. True: maybe. */
bool tf_bloom_may_hold(const tf_bloom *bloom, uint64_t hash);
/* Rotations so far. */
uint64_t tf_bloom_rotation(const tf_bloom *bloom);

#endif
