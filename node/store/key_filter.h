/* Which keys of sends were surely never stored (S3): Bloom filters that grow with what is put in, layer by layer, so that
 * the keys of new sends are seldom looked up on the disk. "Maybe" decides nothing (P4). Pure. One thread. */
#ifndef TF_NODE_STORE_KEY_FILTER_H
#define TF_NODE_STORE_KEY_FILTER_H

#include "dedup/bloom.h"

#define TF_KEY_FILTER_LAYERS 8u /* the last one holds 2^31 keys in 8 GiB; beyond it more answers are "maybe" */

typedef struct tf_key_filter {
    const tf_mem *mem;
    uint64_t key; /* of the hashes of all layers, random */
    size_t count;
    struct tf_key_filter_layer {
        tf_bloom *bloom;
        uint64_t left; /* keys that it may still take */
    } layers[TF_KEY_FILTER_LAYERS];
    bool saturated; /* no memory for a layer: everything is "maybe" */
} tf_key_filter;

void tf_key_filter_init(tf_key_filter *filter, const tf_mem *mem, uint64_t key);
void tf_key_filter_clear(tf_key_filter *filter);
/* hash: of the key, any 64 bits that nobody chooses at will. Without memory everything becomes "maybe". */
void tf_key_filter_insert(tf_key_filter *filter, uint64_t hash);
/* False: surely never inserted. */
bool tf_key_filter_may_hold(const tf_key_filter *filter, uint64_t hash);

#endif
