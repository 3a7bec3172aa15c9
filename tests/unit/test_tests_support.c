/* tests/support: what all other tests lean on. */
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/support.h"

START_TEST(heap_counts_blocks_and_bytes)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    uint8_t *a = tf_alloc(&heap.mem, 100);
    void *b = tf_alloc(&heap.mem, 0);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_nonnull(b);
    for (size_t i = 0; i < 100; i++) {
        ck_assert_uint_eq(a[i], 0);
    }
    ck_assert_uint_eq(heap.live_blocks, 2);
    ck_assert_uint_eq(heap.live_bytes, 100);
    tf_free(&heap.mem, a, 100);
    tf_free(&heap.mem, b, 0);
    tf_free(&heap.mem, NULL, 7);
    ck_assert_uint_eq(heap.live_blocks, 0);
    ck_assert_uint_eq(heap.live_bytes, 0);
    ck_assert_uint_eq(heap.peak_bytes, 100);
    ck_assert_uint_eq(heap.calls, 2);
}
END_TEST

/* Five allocations; a bit of the result for each that succeeded. */
static unsigned five_allocations(tf_test_heap *heap)
{
    unsigned got = 0;
    for (unsigned i = 0; i < 5; i++) {
        void *block = tf_alloc(&heap->mem, 8);
        got |= block != NULL ? 1u << i : 0;
        tf_free(&heap->mem, block, 8);
    }
    return got;
}

START_TEST(heap_fails_at_k_once_or_for_ever)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    ck_assert_uint_eq(five_allocations(&heap), 0x1f);
    tf_test_heap_fail_at(&heap, 0, false);
    ck_assert_uint_eq(five_allocations(&heap), 0x1e);
    tf_test_heap_fail_at(&heap, 2, false);
    ck_assert_uint_eq(five_allocations(&heap), 0x1b);
    tf_test_heap_fail_at(&heap, 2, true);
    ck_assert_uint_eq(five_allocations(&heap), 0x03);
    ck_assert_uint_eq(five_allocations(&heap), 0);
    tf_test_heap_fail_never(&heap);
    ck_assert_uint_eq(five_allocations(&heap), 0x1f);
    ck_assert_uint_eq(heap.failures, 1 + 1 + 3 + 5);
}
END_TEST

START_TEST(heap_refuses_beyond_its_limit)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    heap.limit_bytes = 10;
    void *a = tf_alloc(&heap.mem, 10);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_null(tf_alloc(&heap.mem, 1));
    tf_free(&heap.mem, a, 10);
    ck_assert_ptr_null(tf_alloc(&heap.mem, 11));
}
END_TEST

START_TEST(random_same_seed_gives_the_same_bytes)
{
    uint8_t first[21];
    uint8_t second[21];
    const tf_rand *rand = tf_test_rand(0);
    rand->fill(rand->ctx, first, sizeof(first));
    rand = tf_test_rand(0);
    rand->fill(rand->ctx, second, sizeof(second));
    ck_assert_mem_eq(first, second, sizeof(first));
    /* splitmix64 from seed 0 begins with e220a8397b1dcdaf. */
    char text[17];
    ck_assert_str_eq(tf_test_hex(tf_slice_of(first, 8), text, sizeof(text)), "afcd1d7b39a820e2");
    rand = tf_test_rand(1);
    rand->fill(rand->ctx, second, sizeof(second));
    ck_assert_mem_ne(first, second, sizeof(first));
}
END_TEST

START_TEST(random_below_stays_below_and_meets_all)
{
    tf_test_random random;
    tf_test_random_init(&random, 7);
    unsigned seen = 0;
    for (int i = 0; i < 200; i++) {
        uint64_t value = tf_test_random_below(&random, 5);
        ck_assert_uint_lt(value, 5);
        seen |= 1u << value;
        ck_assert(!tf_test_random_chance(&random, 0, 3));
        ck_assert(tf_test_random_chance(&random, 3, 3));
    }
    ck_assert_uint_eq(seen, 0x1f);
}
END_TEST

START_TEST(hex_text_becomes_bytes_and_text_again)
{
    uint8_t bytes[4];
    char text[9];
    ck_assert_uint_eq(tf_test_unhex("", bytes, sizeof(bytes)), 0);
    ck_assert_uint_eq(tf_test_unhex(" 00 ff|\nAb cd ", bytes, sizeof(bytes)), 4);
    ck_assert_str_eq(tf_test_hex(tf_slice_of(bytes, 4), text, 9), "00ffabcd");
    ck_assert_str_eq(tf_test_hex(tf_slice_of(bytes, 4), text, 8), "00ff...");
    ck_assert_str_eq(tf_test_hex(tf_slice_of(bytes, 4), text, 4), "...");
    ck_assert_str_eq(tf_test_hex(tf_slice_of(NULL, 0), text, 4), "");
}
END_TEST

START_TEST(exact_copy_has_the_same_bytes)
{
    uint8_t *copy = tf_test_exact(tf_slice_str("abc"));
    ck_assert_mem_eq(copy, "abc", 3);
    free(copy);
    copy = tf_test_exact(tf_slice_of(NULL, 0));
    ck_assert_ptr_nonnull(copy);
    free(copy);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        heap_counts_blocks_and_bytes,
        heap_fails_at_k_once_or_for_ever,
        heap_refuses_beyond_its_limit,
        random_same_seed_gives_the_same_bytes,
        random_below_stays_below_and_meets_all,
        hex_text_becomes_bytes_and_text_again,
        exact_copy_has_the_same_bytes,
        NULL,
    };
    return tf_test_run("tests/support", tests);
}
