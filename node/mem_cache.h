/* The allocator of one node: calloc and free, but small blocks that were freed are kept for the next one of their size, up
 * to TF_MEM_CACHE_BYTES in all. The cores take and give back a few for each message, and glibc's calloc goes past its own
 * cache.
 *
 * Under AddressSanitizer nothing is kept, so that it sees every block. Belongs to the thread of its node. */
#ifndef TF_NODE_MEM_CACHE_H
#define TF_NODE_MEM_CACHE_H

#include "proto/types.h"

#define TF_MEM_CACHE_BYTES ((size_t)1 << 20)
#define TF_MEM_CACHE_SMALL ((size_t)4096) /* the largest block that is kept */

typedef struct tf_mem_cache tf_mem_cache;

/* TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_mem_cache_new(tf_mem_cache **out);
/* Everything that was taken from it has been given back. NULL is fine. */
void tf_mem_cache_free(tf_mem_cache *cache);
/* Frees what it keeps: a few blocks here and there would hold a page each. */
void tf_mem_cache_trim(tf_mem_cache *cache);
/* Valid as long as the cache. */
const tf_mem *tf_mem_cache_get(const tf_mem_cache *cache);
/* Bytes of the freed blocks that it keeps. */
size_t tf_mem_cache_kept(const tf_mem_cache *cache);

#endif
