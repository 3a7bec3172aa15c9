/* node/store/arena: what is taken stays apart, and costs few allocations. */
#include <stdalign.h>

#include "node/store/arena.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

START_TEST(arena_pieces_are_zeroed_aligned_and_apart)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_arena arena;
    tf_arena_init(&arena, &heap.mem);
    uint8_t *pieces[400];
    for (size_t i = 0; i < 400; i++) {
        pieces[i] = tf_arena_take(&arena, i * 7);
        ck_assert_ptr_nonnull(pieces[i]);
        ck_assert_uint_eq((uintptr_t)pieces[i] % alignof(max_align_t), 0);
        bool zeroed = true;
        for (size_t k = 0; k < i * 7; k++) {
            zeroed = zeroed && pieces[i][k] == 0;
        }
        ck_assert(zeroed);
        memset(pieces[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 400; i++) {
        bool kept = true;
        for (size_t k = 0; k < i * 7; k++) {
            kept = kept && pieces[i][k] == (uint8_t)i;
        }
        ck_assert(kept);
    }
    ck_assert_uint_eq(tf_arena_bytes(&arena), heap.live_bytes);
    tf_arena_clear(&arena);
    ck_assert_uint_eq(heap.live_blocks, 0);
    ck_assert_uint_eq(tf_arena_bytes(&arena), 0);
    ck_assert_ptr_nonnull(tf_arena_take(&arena, 1));
    tf_arena_clear(&arena);
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

START_TEST(arena_blocks_grow_up_to_a_limit)
{
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    tf_arena arena;
    tf_arena_init(&arena, &heap.mem);
    for (size_t i = 0; i < 100000; i++) { /* 20 MB */
        ck_assert_ptr_nonnull(tf_arena_take(&arena, 200));
    }
    ck_assert_uint_le(heap.live_blocks, 31); /* 1 KiB, 2 KiB ... 1 MiB, and the rest in such */
    ck_assert_uint_le(heap.live_bytes, (size_t)100000 * 208 + 2 * TF_ARENA_BLOCK_MAX);
    ck_assert_ptr_nonnull(tf_arena_take(&arena, 2 * TF_ARENA_BLOCK_MAX)); /* one that is larger than a block */
    ck_assert_ptr_nonnull(tf_arena_take(&arena, 200));
    tf_arena_clear(&arena);
}
END_TEST

START_TEST(arena_without_memory_changes_nothing)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 100, SIZE_MAX / 2};
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    heap.limit_bytes = 64u << 10;
    tf_arena arena;
    tf_arena_init(&arena, &heap.mem);
    ck_assert_ptr_nonnull(tf_arena_take(&arena, 100));
    size_t bytes = tf_arena_bytes(&arena);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ck_assert_ptr_null(tf_arena_take(&arena, sizes[i]));
        ck_assert_uint_eq(tf_arena_bytes(&arena), bytes);
    }
    ck_assert_ptr_null(tf_arena_take(&arena, 64u << 10));
    ck_assert_ptr_nonnull(tf_arena_take(&arena, 100)); /* the block is still good */
    ck_assert_uint_eq(tf_arena_bytes(&arena), bytes);
    tf_arena_clear(&arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {arena_pieces_are_zeroed_aligned_and_apart, arena_blocks_grow_up_to_a_limit,
                                  arena_without_memory_changes_nothing, NULL};
    return tf_test_run("node/store/arena", tests);
}
