/* proto/map: against a naive model, with failing allocations, and its memory. */
#include "proto/map.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define KEYS 600

/* The naive model: an array indexed by a small key. */
typedef struct model {
    bool there[KEYS];
    uint64_t value[KEYS];
    size_t count;
} model;

/* Small numbers, and numbers that differ in the high bits only. */
static uint64_t key_of(size_t i)
{
    return i % 2 == 0 ? i : (uint64_t)i << 48;
}

static void assert_same(const tf_map *map, const model *m)
{
    ck_assert_uint_eq(map->count, m->count);
    for (size_t i = 0; i < KEYS; i++) {
        uint64_t value = 77;
        ck_assert_int_eq(tf_map_get(map, key_of(i), &value), m->there[i]);
        ck_assert_uint_eq(value, m->there[i] ? m->value[i] : 77);
    }
    size_t position = 0;
    size_t seen = 0;
    uint64_t key = 0;
    uint64_t value = 0;
    while (tf_map_next(map, &position, &key, &value)) {
        size_t i = (size_t)((key & 0xffff) | key >> 48);
        ck_assert_uint_lt(i, KEYS);
        ck_assert_uint_eq(key, key_of(i));
        ck_assert(m->there[i]);
        ck_assert_uint_eq(value, m->value[i]);
        seen++;
    }
    ck_assert_uint_eq(seen, m->count);
}

static void model_put(model *m, size_t i, uint64_t value)
{
    m->count += m->there[i] ? 0 : 1;
    m->there[i] = true;
    m->value[i] = value;
}

static void put_both(tf_map *map, model *m, size_t i, uint64_t value)
{
    tf_err err = tf_map_put(map, key_of(i), value);
    if (err == TF_OK) {
        model_put(m, i, value);
        return;
    }
    ck_assert_int_eq(err, TF_ERR_NOMEM);
    ck_assert(!m->there[i]);
}

static void remove_both(tf_map *map, model *m, size_t i)
{
    ck_assert_int_eq(tf_map_remove(map, key_of(i)), m->there[i]);
    m->count -= m->there[i] ? 1 : 0;
    m->there[i] = false;
}

/* One random step on both; grows for a while, then shrinks. */
static void step(tf_map *map, model *m, tf_test_random *random, bool growing)
{
    size_t i = tf_test_random_below(random, KEYS);
    if (tf_test_random_chance(random, growing ? 3 : 1, 4)) {
        put_both(map, m, i, tf_test_random_u64(random));
    } else {
        remove_both(map, m, i);
    }
}

static void run_against_model(uint64_t seed, bool failing)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_test_random random;
    tf_test_random_init(&random, seed);
    tf_map map;
    tf_map_init(&map, &heap.mem, tf_test_random_u64(&random));
    model m = {.count = 0};
    for (int i = 0; i < 8000; i++) {
        if (failing && i % 16 == 0) {
            tf_test_heap_fail_at(&heap, tf_test_random_below(&random, 2), tf_test_random_chance(&random, 1, 2));
        }
        step(&map, &m, &random, i / 1000 % 2 == 0);
        if (i % 250 == 0) {
            assert_same(&map, &m);
        }
    }
    ck_assert_int_eq(heap.failures > 0, failing);
    tf_map_clear(&map);
    ck_assert_uint_eq(heap.live_blocks, 0);
}

START_TEST(map_random_steps_agree_with_the_model)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        run_against_model(seed, false);
    }
}
END_TEST

START_TEST(map_failing_allocations_change_nothing)
{
    for (uint64_t seed = 100; seed < 110; seed++) {
        run_against_model(seed, true);
    }
}
END_TEST

START_TEST(map_empty_has_nothing)
{
    tf_map map;
    tf_map_init(&map, tf_test_mem(), 1);
    size_t position = 0;
    uint64_t key = 0;
    uint64_t value = 5;
    ck_assert(!tf_map_get(&map, 0, &value));
    ck_assert_uint_eq(value, 5);
    ck_assert(!tf_map_remove(&map, 0));
    ck_assert(!tf_map_next(&map, &position, &key, &value));
    tf_map_clear(&map);
    ck_assert_int_eq(tf_map_put(&map, UINT64_MAX, 1), TF_OK);
    ck_assert_int_eq(tf_map_put(&map, 0, 2), TF_OK);
    ck_assert(tf_map_get(&map, UINT64_MAX, &value));
    ck_assert_uint_eq(value, 1);
    ck_assert(tf_map_get(&map, 0, NULL));
    ck_assert_int_eq(tf_map_put(&map, 0, 3), TF_OK);
    ck_assert_uint_eq(map.count, 2);
    tf_map_clear(&map);
    ck_assert_uint_eq(map.count, 0);
    ck_assert(!tf_map_get(&map, 0, NULL));
}
END_TEST

/* Reserve, fail every allocation from then on, remove a lot, and put what was reserved. */
static void reserve_and_put(uint64_t before, size_t extra)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_map map;
    tf_map_init(&map, &heap.mem, 3);
    for (uint64_t key = 0; key < before; key++) {
        ck_assert_int_eq(tf_map_put(&map, key, key), TF_OK);
    }
    ck_assert_int_eq(tf_map_reserve(&map, extra), TF_OK);
    for (uint64_t key = 0; key < before; key++) {
        ck_assert(tf_map_remove(&map, key)); /* may make the table smaller, but not too small */
    }
    tf_test_heap_fail_at(&heap, 0, true);
    for (uint64_t key = 0; key < extra; key++) {
        ck_assert_int_eq(tf_map_put(&map, 1000 + key, key), TF_OK);
    }
    ck_assert_uint_eq(map.count, extra);
    tf_map_clear(&map);
}

START_TEST(map_reserved_puts_cannot_fail)
{
    static const size_t extras[] = {0, 1, 5, 6, 7, 100, 1000};
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        for (uint64_t before = 0; before < 400; before += 57) {
            reserve_and_put(before, extras[i]);
        }
    }
}
END_TEST

START_TEST(map_reserve_beyond_memory_is_refused)
{
    static const size_t extras[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, SIZE_MAX / 24, SIZE_MAX / 32};
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    heap.limit_bytes = 1u << 20;
    tf_map map;
    tf_map_init(&map, &heap.mem, 3);
    ck_assert_int_eq(tf_map_put(&map, 1, 2), TF_OK);
    for (size_t i = 0; i < sizeof(extras) / sizeof(extras[0]); i++) {
        ck_assert_int_eq(tf_map_reserve(&map, extras[i]), TF_ERR_NOMEM);
        ck_assert_uint_eq(map.count, 1);
        ck_assert_uint_eq(map.reserved, 0);
        ck_assert(tf_map_get(&map, 1, NULL));
    }
    tf_map_clear(&map);
}
END_TEST

START_TEST(map_gives_its_memory_back)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_map map;
    tf_map_init(&map, &heap.mem, 3);
    ck_assert_int_eq(tf_map_put(&map, 0, 0), TF_OK);
    ck_assert_uint_le(heap.live_bytes, 256);
    for (uint64_t key = 1; key < 10000; key++) {
        ck_assert_int_eq(tf_map_put(&map, key, key), TF_OK);
    }
    ck_assert_uint_ge(heap.live_bytes, 10000 * sizeof(uint64_t[2]));
    for (uint64_t key = 1; key < 10000; key++) {
        ck_assert(tf_map_remove(&map, key));
    }
    tf_map_trim(&map);
    ck_assert(tf_map_get(&map, 0, NULL));
    ck_assert_uint_le(heap.live_bytes, 256);
    ck_assert_uint_eq(heap.live_blocks, 1);
    ck_assert_int_eq(tf_map_reserve(&map, 1000), TF_OK);
    tf_map_trim(&map); /* what is reserved stays */
    tf_test_heap_fail_at(&heap, 0, true);
    for (uint64_t key = 1; key <= 1000; key++) {
        ck_assert_int_eq(tf_map_put(&map, key, key), TF_OK);
    }
    tf_map_clear(&map);
    ck_assert_uint_eq(heap.live_bytes, 0);
    tf_map_trim(&map);
    ck_assert_uint_eq(heap.live_bytes, 0);
}
END_TEST

/* `rounds` times full and empty again; how often the table was moved. */
static size_t moves_of(size_t rounds, size_t members, size_t *live_bytes)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_map map;
    tf_map_init(&map, &heap.mem, 3);
    bool ok = true; /* asked once: an assertion of Check takes longer than what it looks at */
    for (size_t round = 0; round < rounds; round++) {
        for (uint64_t key = 0; key < members; key++) {
            ok = ok && tf_map_put(&map, key, key) == TF_OK;
        }
        for (uint64_t key = 0; key < members; key++) {
            ok = ok && tf_map_remove(&map, key);
        }
    }
    ck_assert(ok);
    size_t moves = (size_t)heap.calls;
    *live_bytes = heap.live_bytes;
    tf_map_clear(&map);
    return moves;
}

START_TEST(map_filled_and_emptied_again_and_again_is_seldom_moved)
{
    size_t bytes = 0;
    size_t first = moves_of(1, 1024, &bytes); /* 8, 16, 32 ... 2048 */
    ck_assert_uint_eq(first, 9);
    ck_assert_uint_le(moves_of(160, 1024, &bytes), first + 160 / 8); /* 163 840 removals, 2 048 slots */
}
END_TEST

START_TEST(map_that_stays_nearly_empty_becomes_small)
{
    size_t bytes = 0;
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_map map;
    tf_map_init(&map, &heap.mem, 3);
    ck_assert_int_eq(tf_map_reserve(&map, 1500), TF_OK);
    ck_assert_int_eq(tf_map_reserve(&map, 0), TF_OK);
    bytes = heap.live_bytes;
    bool ok = true;
    for (uint64_t key = 0; key < 40000; key++) {
        ok = ok && tf_map_put(&map, key, key) == TF_OK && tf_map_remove(&map, key);
    }
    ck_assert(ok);
    ck_assert_uint_le(heap.live_bytes, bytes / 8);
    tf_map_clear(&map);
}
END_TEST

/* The order of the table depends on the hash key: a peer cannot know which keys collide. */
START_TEST(map_hash_key_changes_the_order)
{
    uint64_t first[2][16];
    for (uint64_t k = 0; k < 2; k++) {
        tf_map map;
        tf_map_init(&map, tf_test_mem(), k);
        for (uint64_t key = 0; key < 16; key++) {
            ck_assert_int_eq(tf_map_put(&map, key, 0), TF_OK);
        }
        size_t position = 0;
        uint64_t value = 0;
        for (size_t i = 0; i < 16; i++) {
            ck_assert(tf_map_next(&map, &position, &first[k][i], &value));
        }
        tf_map_clear(&map);
    }
    ck_assert_mem_ne(first[0], first[1], sizeof(first[0]));
}
END_TEST

/* What was reserved and has come is no longer kept room for. */
START_TEST(map_reserved_room_is_used_up)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_map map;
    tf_map_init(&map, &heap.mem, 3);
    ck_assert_int_eq(tf_map_reserve(&map, 100), TF_OK);
    for (uint64_t key = 0; key < 100; key++) {
        ck_assert_uint_eq(map.reserved, 100 - key);
        ck_assert_int_eq(tf_map_put(&map, key, key), TF_OK);
        ck_assert_int_eq(tf_map_put(&map, key, key), TF_OK); /* replaces: takes no room */
    }
    for (uint64_t key = 0; key < 100; key++) {
        ck_assert(tf_map_remove(&map, key));
    }
    tf_map_trim(&map);
    ck_assert_uint_eq(heap.live_bytes, 0);
}
END_TEST

/* The longest run of full slots, with half of them full of keys that differ only from bit `shift` on. */
static size_t longest_run(uint64_t hash_key, unsigned shift)
{
    tf_map map;
    tf_map_init(&map, tf_test_mem(), hash_key);
    for (uint64_t i = 0; i < 128; i++) {
        ck_assert_int_eq(tf_map_put(&map, i << shift, i), TF_OK);
    }
    ck_assert_uint_eq(map.capacity, 256);
    size_t longest = 0;
    size_t run = 0;
    size_t last = SIZE_MAX;
    size_t position = 0;
    for (uint64_t key, value; tf_map_next(&map, &position, &key, &value); last = position) {
        run = position == last + 1 ? run + 1 : 1;
        longest = run > longest ? run : longest;
    }
    tf_map_clear(&map);
    return longest;
}

/* Keys that a peer chooses do not pile up, whichever bits they differ in. */
START_TEST(map_regular_keys_are_spread)
{
    for (uint64_t hash_key = 1; hash_key < UINT64_MAX / 8; hash_key *= 7) {
        for (unsigned shift = 0; shift <= 56; shift++) {
            ck_assert_uint_le(longest_run(hash_key * UINT64_C(0x2545f4914f6cdd1d), shift), 48);
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        map_random_steps_agree_with_the_model,
        map_failing_allocations_change_nothing,
        map_empty_has_nothing,
        map_reserved_puts_cannot_fail,
        map_reserve_beyond_memory_is_refused,
        map_gives_its_memory_back,
        map_filled_and_emptied_again_and_again_is_seldom_moved,
        map_that_stays_nearly_empty_becomes_small,
        map_hash_key_changes_the_order,
        map_reserved_room_is_used_up,
        map_regular_keys_are_spread,
        NULL,
    };
    return tf_test_run("proto/map", tests);
}
