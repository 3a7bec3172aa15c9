/* node/store/key_filter: "surely new" is never wrong, and "maybe" is seldom said of what is new. */
#include "node/store/key_filter.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

START_TEST(key_filter_empty_holds_nothing)
{
    tf_key_filter filter;
    tf_key_filter_init(&filter, tf_test_mem(), 1);
    ck_assert(!tf_key_filter_may_hold(&filter, 0));
    ck_assert(!tf_key_filter_may_hold(&filter, UINT64_MAX));
    tf_key_filter_clear(&filter);
}
END_TEST

START_TEST(key_filter_grown_over_layers_forgets_nothing)
{
    enum { KEYS = 1000000 };
    tf_key_filter filter;
    tf_test_random random;
    size_t maybe = 0;
    tf_key_filter_init(&filter, tf_test_mem(), 7);
    tf_test_random_init(&random, 42);
    for (size_t i = 0; i < KEYS; i++) {
        tf_key_filter_insert(&filter, tf_test_random_u64(&random));
    }
    ck_assert_uint_gt(filter.count, 1);
    ck_assert(!filter.saturated);
    tf_test_random_init(&random, 42);
    bool all = true;
    for (size_t i = 0; i < KEYS; i++) {
        all = tf_key_filter_may_hold(&filter, tf_test_random_u64(&random)) && all;
    }
    ck_assert(all);
    for (size_t i = 0; i < KEYS; i++) {
        maybe += tf_key_filter_may_hold(&filter, tf_test_random_u64(&random)) ? 1u : 0u;
    }
    ck_assert_uint_lt(maybe, KEYS / 50);
    tf_key_filter_clear(&filter);
}
END_TEST

START_TEST(key_filter_without_memory_says_maybe_to_all)
{
    tf_test_heap heap;
    tf_key_filter filter;
    tf_test_heap_init(&heap);
    tf_key_filter_init(&filter, &heap.mem, 3);
    tf_test_heap_fail_at(&heap, 0, true);
    tf_key_filter_insert(&filter, 5);
    ck_assert(filter.saturated);
    ck_assert(tf_key_filter_may_hold(&filter, 5) && tf_key_filter_may_hold(&filter, 6));
    tf_key_filter_insert(&filter, 7);
    tf_key_filter_clear(&filter);
    ck_assert(!filter.saturated);
    ck_assert_uint_eq(heap.live_blocks, 0);
}
END_TEST

/* As if all layers were there and full: there is no further one. */
START_TEST(key_filter_with_all_layers_full_says_maybe_to_all)
{
    tf_key_filter filter;
    tf_key_filter_init(&filter, tf_test_mem(), 3);
    filter.count = TF_KEY_FILTER_LAYERS;
    tf_key_filter_insert(&filter, 5);
    ck_assert(filter.saturated && filter.count == TF_KEY_FILTER_LAYERS);
    ck_assert(tf_key_filter_may_hold(&filter, 6));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {key_filter_empty_holds_nothing, key_filter_grown_over_layers_forgets_nothing,
                                  key_filter_without_memory_says_maybe_to_all,
                                  key_filter_with_all_layers_full_says_maybe_to_all, NULL};
    return tf_test_run("node/store/key_filter", tests);
}
