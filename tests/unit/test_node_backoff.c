/* Full jitter: the ceiling doubles up to the cap, waits are anywhere below it. */
#include "node/backoff.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

/* Randomness that is all ones, or all zeros. */
static void fill_with(void *ctx, void *out, size_t len)
{
    memset(out, *(const int *)ctx, len);
}

START_TEST(backoff_ceiling_doubles_up_to_the_cap)
{
    for (unsigned n = 0; n < 12; n++) {
        tf_backoff backoff = {0};
        tf_test_random random;
        tf_time most = 0;
        tf_time least = TF_NEVER;
        tf_time ceiling = TF_BACKOFF_MIN << n < TF_BACKOFF_MAX ? TF_BACKOFF_MIN << n : TF_BACKOFF_MAX;
        tf_test_random_init(&random, n);
        for (unsigned i = 0; i < 2000; i++) {
            tf_backoff_reset(&backoff);
            for (unsigned skip = 0; skip < n; skip++) {
                (void)tf_backoff_next(&backoff, &random.rand, TF_BACKOFF_MAX);
            }
            tf_time wait = tf_backoff_next(&backoff, &random.rand, TF_BACKOFF_MAX);
            most = tf_time_max(most, wait);
            least = tf_time_min(least, wait);
        }
        ck_assert_uint_le(most, ceiling);
        ck_assert_uint_gt(most, ceiling - ceiling / 50);
        ck_assert_uint_lt(least, ceiling / 50);
    }
}
END_TEST

START_TEST(backoff_never_waits_longer_than_the_cap)
{
    static int ones = 0xff;
    static int zeros = 0;
    const tf_rand high = {fill_with, &ones};
    const tf_rand low = {fill_with, &zeros};
    tf_backoff backoff = {0};
    for (unsigned i = 0; i < 100000; i++) {
        ck_assert_uint_le(tf_backoff_next(&backoff, i % 2 == 0 ? &high : &low, TF_BACKOFF_MAX_REDUNDANT),
                          TF_BACKOFF_MAX_REDUNDANT);
    }
    ck_assert_uint_eq(tf_backoff_next(&backoff, &high, 0), 0);
    ck_assert_uint_le(tf_backoff_next(&backoff, &high, 1), 1);
}
END_TEST

START_TEST(backoff_higher_cap_goes_on_where_the_lower_one_was)
{
    tf_backoff backoff = {0};
    tf_test_random random;
    tf_time most = 0;
    tf_test_random_init(&random, 1);
    for (unsigned i = 0; i < 50; i++) {
        (void)tf_backoff_next(&backoff, &random.rand, TF_BACKOFF_MAX_REDUNDANT);
    }
    for (unsigned i = 0; i < 50; i++) {
        most = tf_time_max(most, tf_backoff_next(&backoff, &random.rand, TF_BACKOFF_MAX));
    }
    ck_assert_uint_gt(most, TF_BACKOFF_MAX_REDUNDANT);
    tf_backoff_reset(&backoff);
    ck_assert_uint_le(tf_backoff_next(&backoff, &random.rand, TF_BACKOFF_MAX), TF_BACKOFF_MIN);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {backoff_ceiling_doubles_up_to_the_cap, backoff_never_waits_longer_than_the_cap,
                                  backoff_higher_cap_goes_on_where_the_lower_one_was, NULL};
    return tf_test_run("node/backoff", tests);
}
