/* A store in memory: the relay's, until one on disk stands behind the same interface, and the model of what a store must
 * do. Bounded in bytes, nothing is ever dropped to make room (`store_full` instead), gone with the process. Groups are completed at once. Pure. */
#ifndef TF_NODE_STORE_MEMORY_H
#define TF_NODE_STORE_MEMORY_H

#include "node/store/store.h"

typedef struct tf_memory_store tf_memory_store;

typedef struct tf_memory_store_config {
    const tf_mem *mem;
    uint64_t hash_key;     /* random */
    uint64_t bytes_max;    /* messages, names, their index; 0: TF_STORE_MEMORY_BYTES */
    uint64_t channels_max; /* 0: TF_CHANNELS_MAX */
} tf_memory_store_config;

/* TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_memory_store_new(tf_memory_store **out, const tf_memory_store_config *config);
void tf_memory_store_free(tf_memory_store *memory); /* NULL is fine */
/* The table with its context; valid as long as the store. */
tf_store tf_memory_store_get(tf_memory_store *memory);

#endif
