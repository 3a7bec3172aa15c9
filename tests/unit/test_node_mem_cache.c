/* node/mem_cache: memory as every core expects it, whatever was kept. */
#include "node/mem_cache.h"
#include "tests/support/check_main.h"

static uint8_t *take(const tf_mem *mem, size_t size)
{
    uint8_t *memory = tf_alloc(mem, size);
    ck_assert_ptr_nonnull(memory);
    bool zeroed = true;
    for (size_t i = 0; i < size; i++) {
        zeroed = zeroed && memory[i] == 0;
    }
    ck_assert(zeroed);
    memset(memory, 0xa5, size);
    return memory;
}

START_TEST(mem_cache_blocks_of_every_size_are_zeroed_again_and_again)
{
    tf_mem_cache *cache = NULL;
    ck_assert_int_eq(tf_mem_cache_new(&cache), TF_OK);
    const tf_mem *mem = tf_mem_cache_get(cache);
    for (int round = 0; round < 3; round++) {
        for (size_t size = 0; size <= TF_MEM_CACHE_SMALL + 9; size += 1 + size / 64) {
            uint8_t *one = take(mem, size);
            uint8_t *two = take(mem, size);
            bool kept = true;
            for (size_t i = 0; i < size; i++) {
                kept = kept && one[i] == 0xa5;
            }
            ck_assert(kept);
            tf_free(mem, one, size);
            tf_free(mem, two, size);
        }
    }
    tf_mem_cache_free(cache);
}
END_TEST

START_TEST(mem_cache_large_blocks_come_and_go)
{
    tf_mem_cache *cache = NULL;
    ck_assert_int_eq(tf_mem_cache_new(&cache), TF_OK);
    const tf_mem *mem = tf_mem_cache_get(cache);
    tf_free(mem, take(mem, (size_t)9 << 20), (size_t)9 << 20);
    ck_assert_uint_eq(tf_mem_cache_kept(cache), 0);
    tf_mem_cache_free(cache);
}
END_TEST

START_TEST(mem_cache_keeps_no_more_than_it_may)
{
    enum { COUNT = 2000 };
    static void *blocks[COUNT];
    tf_mem_cache *cache = NULL;
    ck_assert_int_eq(tf_mem_cache_new(&cache), TF_OK);
    const tf_mem *mem = tf_mem_cache_get(cache);
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = tf_alloc(mem, 1000);
        ck_assert_ptr_nonnull(blocks[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        tf_free(mem, blocks[i], 1000);
        ck_assert_uint_le(tf_mem_cache_kept(cache), TF_MEM_CACHE_BYTES);
    }
    tf_mem_cache_free(cache);
    tf_mem_cache_free(NULL);
}
END_TEST

START_TEST(mem_cache_trimmed_keeps_nothing_and_goes_on)
{
    tf_mem_cache *cache = NULL;
    ck_assert_int_eq(tf_mem_cache_new(&cache), TF_OK);
    const tf_mem *mem = tf_mem_cache_get(cache);
    for (int i = 0; i < 2; i++) {
        void *small = take(mem, 40);
        void *other = take(mem, 4000);
        tf_free(mem, small, 40);
        tf_mem_cache_trim(cache);
        ck_assert_uint_eq(tf_mem_cache_kept(cache), 0);
        tf_free(mem, other, 4000);
    }
    tf_mem_cache_free(cache);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {mem_cache_blocks_of_every_size_are_zeroed_again_and_again,
                                  mem_cache_large_blocks_come_and_go, mem_cache_keeps_no_more_than_it_may,
                                  mem_cache_trimmed_keeps_nothing_and_goes_on, NULL};
    return tf_test_run("node/mem_cache", tests);
}
