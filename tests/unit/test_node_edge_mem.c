/* What the edges hand to the cores. */
#include "node/edge_mem.h"
#include "tests/support/check_main.h"

START_TEST(edge_mem_is_zeroed_and_freed)
{
    const tf_mem *mem = tf_edge_mem();
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        uint8_t *memory = tf_alloc(mem, size);
        ck_assert_ptr_nonnull(memory);
        for (size_t i = 0; i < size; i++) {
            ck_assert_uint_eq(memory[i], 0);
            memory[i] = 0xff;
        }
        tf_free(mem, memory, size);
    }
}
END_TEST

START_TEST(edge_rand_fills_every_byte_and_no_more)
{
    uint8_t bytes[2002];
    uint8_t seen[2000] = {0};
    bytes[0] = bytes[2001] = 0x5a;
    for (int round = 0; round < 20; round++) {
        tf_edge_rand()->fill(tf_edge_rand()->ctx, bytes + 1, 2000);
        for (size_t i = 0; i < 2000; i++) {
            seen[i] |= bytes[i + 1];
        }
    }
    for (size_t i = 0; i < 2000; i++) {
        ck_assert_uint_ne(seen[i], 0); /* untouched with odds of 2^-160 only */
    }
    ck_assert_uint_eq(bytes[0], 0x5a);
    ck_assert_uint_eq(bytes[2001], 0x5a);
    ck_assert_uint_ne(tf_rand_u64(tf_edge_rand()), tf_rand_u64(tf_edge_rand()));
}
END_TEST

START_TEST(edge_now_never_goes_back)
{
    tf_time last = tf_edge_now();
    for (int i = 0; i < 1000; i++) {
        tf_time now = tf_edge_now();
        ck_assert_uint_ge(now, last);
        last = now;
    }
    ck_assert_int_gt(tf_edge_wall_ms(), 1600000000000);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {edge_mem_is_zeroed_and_freed, edge_rand_fills_every_byte_and_no_more,
                                  edge_now_never_goes_back, NULL};
    return tf_test_run("node/edge_mem", tests);
}
