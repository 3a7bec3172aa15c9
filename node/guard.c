#include "node/guard.h"

#include <xxhash.h>

tf_guard_key tf_guard_key_of(uint64_t hash_key, tf_slice client_id)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(client_id.data, client_id.len, hash_key);
    return (tf_guard_key){hash.low64, hash.high64};
}

static bool key_eq(tf_guard_key a, tf_guard_key b)
{
    return a.low == b.low && a.high == b.high;
}

void tf_guard_init(tf_guard *guard, const tf_mem *mem, size_t max, size_t *room)
{
    *guard = (tf_guard){.mem = mem, .max = max, .room = room};
}

void tf_guard_clear(tf_guard *guard)
{
    *guard->room += guard->count;
    tf_free(guard->mem, guard->keys, guard->capacity * sizeof(*guard->keys));
    tf_guard_init(guard, guard->mem, guard->max, guard->room);
}

bool tf_guard_is_up(const tf_guard *guard)
{
    return guard->count > 0 || guard->overflowed;
}

static tf_guard_key *at(const tf_guard *guard, size_t index)
{
    return &guard->keys[(guard->start + index) % guard->capacity];
}

/* Index of the key in the list; count when it is not there. */
static size_t find(const tf_guard *guard, tf_guard_key key)
{
    for (size_t i = 0; i < guard->count; i++) {
        if (key_eq(*at(guard, i), key)) {
            return i;
        }
    }
    return guard->count;
}

bool tf_guard_allows(const tf_guard *guard, tf_guard_key key, uint64_t acked)
{
    if (!tf_guard_is_up(guard) || acked >= guard->acked_at) {
        return true;
    }
    return guard->count > 0 && key_eq(*at(guard, 0), key);
}

/* The oldest n leave the list. */
static void take_first(tf_guard *guard, size_t n)
{
    guard->count -= n;
    *guard->room += n;
    if (guard->count == 0) {
        guard->start = 0;
        tf_free(guard->mem, guard->keys, guard->capacity * sizeof(*guard->keys));
        guard->keys = NULL;
        guard->capacity = 0;
        return;
    }
    guard->start = (guard->start + n) % guard->capacity;
}

void tf_guard_accepted(tf_guard *guard, tf_guard_key key)
{
    if (!tf_guard_is_up(guard)) {
        return;
    }
    size_t index = find(guard, key);
    if (index < guard->count) {
        take_first(guard, index + 1); /* those before it were given up: its client knew of them */
        return;
    }
    take_first(guard, guard->count);
    guard->overflowed = false;
}

/* Room for one more entry; false when a bound or the memory says no. */
static bool reserve(tf_guard *guard)
{
    if (guard->count >= guard->max || *guard->room == 0) {
        return false;
    }
    if (guard->count < guard->capacity) {
        return true;
    }
    size_t capacity = guard->capacity == 0 ? 8 : guard->capacity * 2;
    tf_guard_key *keys = tf_alloc(guard->mem, capacity * sizeof(*keys));
    if (keys == NULL) {
        return false;
    }
    for (size_t i = 0; i < guard->count; i++) {
        keys[i] = *at(guard, i);
    }
    tf_free(guard->mem, guard->keys, guard->capacity * sizeof(*keys));
    guard->keys = keys;
    guard->capacity = capacity;
    guard->start = 0;
    return true;
}

static void raise(tf_guard *guard, tf_refusal code)
{
    if (!tf_guard_is_up(guard)) {
        guard->code = code;
    }
    guard->acked_at = UINT64_MAX; /* until tf_guard_told */
}

void tf_guard_refused(tf_guard *guard, tf_guard_key key, tf_refusal code)
{
    raise(guard, code);
    /* After an overflow nothing is added: it would overtake what the list lacks. */
    if (guard->overflowed || find(guard, key) < guard->count) {
        return;
    }
    if (!reserve(guard)) {
        guard->overflowed = true;
        return;
    }
    guard->count++;
    *guard->room -= 1;
    *at(guard, guard->count - 1) = key;
}

void tf_guard_refused_first(tf_guard *guard, tf_guard_key key, tf_refusal code)
{
    raise(guard, code);
    tf_guard_forget(guard, key);
    if (!reserve(guard)) {
        guard->overflowed = true;
        if (guard->count == 0) {
            return;
        }
        guard->count--; /* the newest makes room */
        *guard->room += 1;
    }
    guard->start = (guard->start + guard->capacity - 1) % guard->capacity;
    guard->count++;
    *guard->room -= 1;
    *at(guard, 0) = key;
}

void tf_guard_told(tf_guard *guard, uint64_t sent)
{
    guard->acked_at = sent;
}

void tf_guard_forget(tf_guard *guard, tf_guard_key key)
{
    size_t index = find(guard, key);
    if (index == guard->count) {
        return;
    }
    for (; index > 0; index--) {
        *at(guard, index) = *at(guard, index - 1);
    }
    take_first(guard, 1);
}
