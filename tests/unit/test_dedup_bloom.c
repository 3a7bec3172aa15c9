/* dedup/bloom: what was inserted is found for two rotations; what was not is seldom a maybe. */
#include <string.h>

#include "dedup/bloom.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_bloom *bloom_of(size_t bytes, uint64_t fill, uint64_t key)
{
    tf_bloom *bloom = NULL;
    const tf_bloom_config config = {.bytes = bytes, .fill = fill, .key = key};
    ck_assert_int_eq(tf_bloom_new(&bloom, &config, tf_test_mem()), TF_OK);
    return bloom;
}

static uint64_t hash_of(const tf_bloom *bloom, uint64_t number)
{
    return tf_bloom_hash(bloom, tf_slice_of(&number, sizeof(number)));
}

START_TEST(bloom_size_that_is_not_whole_blocks_is_refused)
{
    static const size_t sizes[] = {0, 1, 63, 65, TF_BLOOM_BYTES_MAX + 64u, SIZE_MAX, SIZE_MAX - 63u};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        tf_bloom *bloom = NULL;
        const tf_bloom_config config = {.bytes = sizes[i]};
        ck_assert_int_eq(tf_bloom_new(&bloom, &config, tf_test_mem()), TF_ERR_USAGE);
        ck_assert_ptr_null(bloom);
    }
    tf_bloom_free(NULL);
}
END_TEST

START_TEST(bloom_without_memory_is_not_made)
{
    tf_test_heap *heap = tf_test_heap_shared();
    size_t blocks = heap->live_blocks;
    const tf_bloom_config config = {.bytes = 128};
    for (uint64_t k = 0; k < 2; k++) {
        tf_bloom *bloom = NULL;
        tf_test_heap_fail_at(heap, k, false);
        ck_assert_int_eq(tf_bloom_new(&bloom, &config, tf_test_mem()), TF_ERR_NOMEM);
        ck_assert_ptr_null(bloom);
        ck_assert_uint_eq(heap->live_blocks, blocks);
    }
    tf_bloom *largest = NULL; /* it may be, if there is so much */
    tf_test_heap_fail_at(heap, 0, true);
    ck_assert_int_eq(tf_bloom_new(&largest, &(tf_bloom_config){.bytes = TF_BLOOM_BYTES_MAX}, tf_test_mem()), TF_ERR_NOMEM);
    tf_test_heap_fail_never(heap);
}
END_TEST

/* With fill keys a rotation: the last fill keys and those before them in the older half are all found. */
START_TEST(bloom_key_is_found_for_two_rotations)
{
    static const uint64_t fills[] = {1, 2, 7, 100};
    for (size_t i = 0; i < sizeof(fills) / sizeof(fills[0]); i++) {
        uint64_t fill = fills[i];
        tf_bloom *bloom = bloom_of(64 * 5, fill, 3);
        for (uint64_t n = 0; n < 1000; n++) {
            tf_bloom_insert(bloom, hash_of(bloom, n));
            ck_assert_uint_eq(tf_bloom_rotation(bloom), n / fill);
            uint64_t oldest = n / fill < 1 ? 0 : (n / fill - 1) * fill;
            for (uint64_t back = oldest; back <= n; back++) {
                if (!tf_bloom_may_hold(bloom, hash_of(bloom, back))) {
                    ck_abort_msg("fill %u: %u is lost after %u", (unsigned)fill, (unsigned)back, (unsigned)n);
                }
            }
        }
        tf_bloom_free(bloom);
    }
}
END_TEST

static unsigned wrong_maybes(const tf_bloom *bloom, uint64_t from, unsigned tries)
{
    unsigned wrong = 0;
    for (uint64_t n = from; n < from + tries; n++) {
        wrong += tf_bloom_may_hold(bloom, hash_of(bloom, n)) ? 1u : 0u;
    }
    return wrong;
}

START_TEST(bloom_default_fill_gives_few_wrong_maybes)
{
    tf_bloom *bloom = bloom_of(64 * 1000, 0, 11);
    uint64_t n = 0;
    while (tf_bloom_rotation(bloom) < 2) {
        tf_bloom_insert(bloom, hash_of(bloom, n++));
    }
    ck_assert_uint_eq(n, 2 * 64 * 1000 * 8 / 16 + 1);
    for (uint64_t more = 1; more < 64 * 1000 * 8 / 16; more++) {
        tf_bloom_insert(bloom, hash_of(bloom, n++)); /* both halves full: the worst moment */
    }
    ck_assert_uint_eq(tf_bloom_rotation(bloom), 2);
    ck_assert_uint_lt(wrong_maybes(bloom, n, 100000), 500); /* 0.5 % */
    tf_bloom_free(bloom);
}
END_TEST

START_TEST(bloom_empty_holds_nothing_and_full_holds_all)
{
    tf_bloom *bloom = bloom_of(64, UINT64_MAX, 5);
    ck_assert_uint_eq(wrong_maybes(bloom, 0, 10000), 0);
    for (uint64_t n = 0; n < 20000; n++) {
        tf_bloom_insert(bloom, hash_of(bloom, n));
    }
    ck_assert_uint_eq(wrong_maybes(bloom, 1000000, 10000), 10000);
    tf_bloom_free(bloom);
}
END_TEST

START_TEST(bloom_hash_depends_on_the_key)
{
    tf_bloom *one = bloom_of(64, 0, 1);
    tf_bloom *same = bloom_of(64, 0, 1);
    tf_bloom *other = bloom_of(64, 0, 2);
    ck_assert_uint_eq(hash_of(one, 7), hash_of(same, 7));
    ck_assert_uint_ne(hash_of(one, 7), hash_of(other, 7));
    ck_assert_uint_ne(hash_of(one, 7), hash_of(one, 8));
    tf_bloom_free(one);
    tf_bloom_free(same);
    tf_bloom_free(other);
}
END_TEST

/* An allocator of one block at a time, that begins anywhere and ends exactly where it was asked to. */
typedef struct odd_place {
    _Alignas(64) uint8_t bytes[1024];
    size_t offset;
    size_t end;
} odd_place;

static void *odd_alloc(void *ctx, size_t size)
{
    odd_place *place = ctx;
    if (size < 256) {
        return tf_alloc(tf_test_mem(), size); /* not the halves */
    }
    memset(place->bytes, 0, sizeof(place->bytes));
    place->end = place->offset + size;
    memset(place->bytes + place->end, 0x5a, sizeof(place->bytes) - place->end);
    return place->bytes + place->offset;
}

static void odd_free(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    if (size < 256) {
        tf_free(tf_test_mem(), memory, size);
    }
}

START_TEST(bloom_keeps_within_its_memory_wherever_that_is)
{
    static odd_place place;
    const tf_mem mem = {.alloc = odd_alloc, .free = odd_free, .ctx = &place};
    const tf_bloom_config config = {.bytes = 256, .fill = 100};
    for (place.offset = 0; place.offset < 64; place.offset++) {
        tf_bloom *bloom = NULL;
        ck_assert_int_eq(tf_bloom_new(&bloom, &config, &mem), TF_OK);
        ck_assert_uint_lt(place.end - place.offset, 2 * config.bytes + TF_BLOOM_BLOCK);
        for (uint64_t n = 0; n < 1000; n++) { /* every bit of both halves, and rotations */
            tf_bloom_insert(bloom, hash_of(bloom, n));
            ck_assert(tf_bloom_may_hold(bloom, hash_of(bloom, n)));
        }
        for (size_t i = 0; i < sizeof(place.bytes); i++) {
            ck_assert(i >= place.offset || place.bytes[i] == 0);
            ck_assert(i < place.end || place.bytes[i] == 0x5a);
        }
        tf_bloom_free(bloom);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        bloom_size_that_is_not_whole_blocks_is_refused,
        bloom_without_memory_is_not_made,
        bloom_key_is_found_for_two_rotations,
        bloom_default_fill_gives_few_wrong_maybes,
        bloom_empty_holds_nothing_and_full_holds_all,
        bloom_hash_depends_on_the_key,
        bloom_keeps_within_its_memory_wherever_that_is,
        NULL,
    };
    return tf_test_run("dedup/bloom", tests);
}
