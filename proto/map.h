/* Open-addressing hash table from 64-bit keys to 64-bit values on the caller's allocator. The hash has a secret key, so
 * that a peer that chooses keys (refs, ids) does not choose where they go. The one hash table of the pure cores.
 *
 * Grows at 3/4. Shrinks when it was mostly empty for so long that moving what is left costs nothing beside the removals
 * (all but 6 KiB), or at once by tf_map_trim. Not thread-safe. */
#ifndef TF_PROTO_MAP_H
#define TF_PROTO_MAP_H

#include "proto/types.h"

typedef struct tf_map_slot tf_map_slot;

typedef struct tf_map {
    const tf_mem *mem;
    uint64_t hash_key;
    tf_map_slot *slots;
    size_t capacity; /* 0 or a power of two */
    size_t count;
    size_t reserved; /* puts of new keys that are sure of their room */
    size_t removed;  /* since the table was moved */
} tf_map;

void tf_map_init(tf_map *map, const tf_mem *mem, uint64_t hash_key);
void tf_map_clear(tf_map *map); /* frees; the map can be used again */
/* False when key is absent; *value is then untouched. value may be NULL. */
bool tf_map_get(const tf_map *map, uint64_t key, uint64_t *value);
/* Makes sure that the next `extra` puts of new keys cannot fail, whatever is removed in between. A later call replaces
 * an earlier one, it does not add to it. TF_ERR_NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_map_reserve(tf_map *map, size_t extra);
/* Adds or replaces. TF_ERR_NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_map_put(tf_map *map, uint64_t key, uint64_t value);
/* False when key was absent. */
bool tf_map_remove(tf_map *map, uint64_t key);
/* Gives back what the members and the reserved room do not need. Failing to is no fault. */
void tf_map_trim(tf_map *map);
/* Iteration in no particular order: *position starts at 0; false at the end. No put or remove meanwhile. */
bool tf_map_next(const tf_map *map, size_t *position, uint64_t *key, uint64_t *value); /* neither may be NULL */

#endif
