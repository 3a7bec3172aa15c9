#include "node/store/key_filter.h"

#define FIRST_BYTES ((size_t)128 * 1024) /* of each half of the first layer */
#define LAYER_GROWTH 4u
#define BITS_PER_KEY 16u

void tf_key_filter_init(tf_key_filter *filter, const tf_mem *mem, uint64_t key)
{
    *filter = (tf_key_filter){.mem = mem, .key = key};
}

void tf_key_filter_clear(tf_key_filter *filter)
{
    for (size_t i = 0; i < filter->count; i++) {
        tf_bloom_free(filter->layers[i].bloom);
    }
    *filter = (tf_key_filter){.mem = filter->mem, .key = filter->key};
}

/* Both halves of a filter are filled before the older one would be cleared: so it forgets nothing. */
static bool add_layer(tf_key_filter *filter)
{
    size_t bytes = FIRST_BYTES;
    for (size_t i = 0; i < filter->count && bytes * LAYER_GROWTH <= TF_BLOOM_BYTES_MAX; i++) {
        bytes *= LAYER_GROWTH;
    }
    uint64_t fill = bytes * 8u / BITS_PER_KEY;
    tf_bloom_config config = {.bytes = bytes, .fill = fill, .key = filter->key};
    if (filter->count == TF_KEY_FILTER_LAYERS ||
        tf_bloom_new(&filter->layers[filter->count].bloom, &config, filter->mem) != TF_OK) {
        return false;
    }
    filter->layers[filter->count++].left = 2u * fill;
    return true;
}

void tf_key_filter_insert(tf_key_filter *filter, uint64_t hash)
{
    if (filter->saturated) {
        return;
    }
    if ((filter->count == 0 || filter->layers[filter->count - 1].left == 0) && !add_layer(filter)) {
        filter->saturated = true;
        return;
    }
    tf_bloom_insert(filter->layers[filter->count - 1].bloom, hash);
    filter->layers[filter->count - 1].left--;
}

bool tf_key_filter_may_hold(const tf_key_filter *filter, uint64_t hash)
{
    bool maybe = filter->saturated;
    for (size_t i = filter->count; i > 0 && !maybe; i--) {
        maybe = tf_bloom_may_hold(filter->layers[i - 1].bloom, hash);
    }
    return maybe;
}
