#include "proto/map.h"

#define CAPACITY_MIN 8u
#define CAPACITY_KEPT 256u /* not shrunk below, */
#define REMOVALS_KEPT 8u   /* nor before that many removals for each slot: a table that fills and empties must not be moved */

struct tf_map_slot {
    uint64_t key;
    uint64_t value;
    uint32_t hash; /* kept, so that moving slots costs no hashing */
    bool used;
};

__extension__ typedef unsigned __int128 wide;

/* Both halves of a product, folded: every bit of either factor reaches every bit. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two rounds of a folded multiplication, the second with another multiplier, so that the one key that makes a factor zero
 * is nobody's to find. Not cryptographic: where the hash goes stays inside. */
static uint64_t hash(uint64_t hash_key, uint64_t key)
{
    return fold(fold(key ^ hash_key, UINT64_C(0x9e3779b97f4a7c15)) ^ ~hash_key, hash_key | 1u);
}

static uint32_t hash_of(const tf_map *map, uint64_t key)
{
    return (uint32_t)hash(map->hash_key, key);
}

static size_t home_of(const tf_map *map, uint32_t hash)
{
    return (size_t)hash & (map->capacity - 1);
}

/* Where key is, or the free slot where it would go. The map has slots, and one of them is free. */
static size_t find(const tf_map *map, uint64_t key, uint32_t hash)
{
    size_t i = home_of(map, hash);
    while (map->slots[i].used && map->slots[i].key != key) {
        i = (i + 1) & (map->capacity - 1);
    }
    return i;
}

/* The capacity that holds count keys at no more than 3/4; 0 when there is none. */
static size_t capacity_for(size_t count)
{
    size_t capacity = CAPACITY_MIN;
    while (capacity - capacity / 4 < count) {
        if (capacity > SIZE_MAX / 2 / sizeof(tf_map_slot)) {
            return 0;
        }
        capacity *= 2;
    }
    return capacity;
}

static tf_err resize(tf_map *map, size_t capacity)
{
    tf_map bigger = *map;
    bigger.capacity = capacity;
    bigger.removed = 0;
    bigger.slots = tf_alloc(map->mem, capacity * sizeof(tf_map_slot));
    if (bigger.slots == NULL) {
        return TF_ERR_NOMEM;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].used) {
            bigger.slots[find(&bigger, map->slots[i].key, map->slots[i].hash)] = map->slots[i];
        }
    }
    tf_free(map->mem, map->slots, map->capacity * sizeof(tf_map_slot));
    *map = bigger;
    return TF_OK;
}

/* Room for `extra` keys more than there are. */
static tf_err make_room(tf_map *map, size_t extra)
{
    if (extra <= map->capacity - map->capacity / 4 - map->count) {
        return TF_OK;
    }
    size_t capacity = extra > SIZE_MAX - map->count ? 0 : capacity_for(map->count + extra);
    if (capacity == 0) {
        return TF_ERR_NOMEM;
    }
    return resize(map, capacity);
}

void tf_map_init(tf_map *map, const tf_mem *mem, uint64_t hash_key)
{
    *map = (tf_map){.mem = mem, .hash_key = hash_key};
}

void tf_map_clear(tf_map *map)
{
    tf_free(map->mem, map->slots, map->capacity * sizeof(tf_map_slot));
    tf_map_init(map, map->mem, map->hash_key);
}

bool tf_map_get(const tf_map *map, uint64_t key, uint64_t *value)
{
    if (map->count == 0) {
        return false;
    }
    const tf_map_slot *slot = &map->slots[find(map, key, hash_of(map, key))];
    if (slot->used && value != NULL) {
        *value = slot->value;
    }
    return slot->used;
}

tf_err tf_map_reserve(tf_map *map, size_t extra)
{
    tf_err err = make_room(map, extra);
    if (err == TF_OK) {
        map->reserved = extra;
    }
    return err;
}

tf_err tf_map_put(tf_map *map, uint64_t key, uint64_t value)
{
    uint32_t hash = hash_of(map, key);
    size_t at = map->capacity == 0 ? 0 : find(map, key, hash);
    if (map->capacity > 0 && map->slots[at].used) {
        map->slots[at].value = value;
        return TF_OK;
    }
    size_t capacity = map->capacity;
    tf_err err = make_room(map, 1);
    if (err != TF_OK) {
        return err;
    }
    at = map->capacity == capacity ? at : find(map, key, hash);
    map->slots[at] = (tf_map_slot){.key = key, .value = value, .hash = hash, .used = true};
    map->count++;
    if (map->reserved > 0) {
        map->reserved--;
    }
    return TF_OK;
}

/* Halves the table when it is at most 1/8 full, less what is reserved. Failing to is no fault. */
static void shrink(tf_map *map)
{
    size_t half = map->capacity / 2;
    bool full = map->count > map->capacity / 8 || half < capacity_for(map->count + map->reserved);
    if (map->capacity > CAPACITY_KEPT && !full && map->removed / REMOVALS_KEPT >= map->capacity) {
        (void)resize(map, half);
    }
}

void tf_map_trim(tf_map *map)
{
    size_t needed = map->count + map->reserved;
    if (needed == 0) {
        tf_map_clear(map);
    } else if (capacity_for(needed) < map->capacity) {
        (void)resize(map, capacity_for(needed));
    }
}

bool tf_map_remove(tf_map *map, uint64_t key)
{
    if (map->count == 0) {
        return false;
    }
    size_t hole = find(map, key, hash_of(map, key));
    if (!map->slots[hole].used) {
        return false;
    }
    /* Later members of the run move back into the hole, unless that would put them before their home. */
    size_t mask = map->capacity - 1;
    for (size_t i = (hole + 1) & mask; map->slots[i].used; i = (i + 1) & mask) {
        size_t home = home_of(map, map->slots[i].hash);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (tf_map_slot){0};
    map->count--;
    map->removed++;
    shrink(map);
    return true;
}

bool tf_map_next(const tf_map *map, size_t *position, uint64_t *key, uint64_t *value)
{
    for (; *position < map->capacity; ++*position) {
        const tf_map_slot *slot = &map->slots[*position];
        if (slot->used) {
            *key = slot->key;
            *value = slot->value;
            ++*position;
            return true;
        }
    }
    return false;
}
