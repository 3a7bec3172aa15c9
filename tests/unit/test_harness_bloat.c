/* The queue that others fill: it grows to its length and saws below it, and what leaves it leaves in order. */
#include "tests/harness/bloat.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define LENGTH (300 * TF_MS)
#define STEP (TF_MS / 2)

START_TEST(bloat_queue_fills_in_four_lengths_and_then_saws_between_two_thirds_and_full)
{
    tf_bloat b = {0};
    tf_time begin = 7 * TF_SECOND;
    tf_time most = 0;
    tf_time least = TF_NEVER;
    for (tf_time at = 0; at < 5 * TF_SECOND; at += STEP) {
        tf_time wait = tf_bloat_leaves(&b, begin + at, LENGTH, 0) - (begin + at);
        if (at <= 4 * LENGTH) {
            ck_assert_uint_eq(wait, at / 4);
            continue;
        }
        ck_assert_uint_le(wait, LENGTH);
        most = tf_time_max(most, wait);
        least = tf_time_min(least, wait);
    }
    ck_assert_uint_ge(most, LENGTH - STEP);
    ck_assert_uint_ge(least, LENGTH * 2 / 3);
    ck_assert_uint_le(least, LENGTH * 2 / 3 + STEP);
}
END_TEST

START_TEST(bloat_full_queue_takes_nothing_until_the_others_rest)
{
    tf_bloat b = {0};
    ck_assert_uint_eq(tf_bloat_leaves(&b, TF_SECOND, LENGTH, LENGTH + 1), TF_BLOAT_FULL);
    ck_assert_uint_eq(tf_bloat_leaves(&b, TF_SECOND, LENGTH, LENGTH), TF_SECOND + LENGTH);
    ck_assert_uint_eq(tf_bloat_leaves(&b, TF_SECOND, LENGTH, 1), TF_BLOAT_FULL);
    ck_assert_uint_eq(tf_bloat_leaves(&b, TF_SECOND + 4, LENGTH, 4), TF_SECOND + 4 + LENGTH);
}
END_TEST

START_TEST(bloat_that_ends_drains_and_begins_anew_with_what_is_left)
{
    tf_bloat b = {0};
    ck_assert_uint_eq(tf_bloat_leaves(&b, 100, 0, 50), 100); /* nobody fills it: no queue */
    ck_assert_uint_eq(tf_bloat_leaves(&b, 100, LENGTH, 1000), 1100);
    ck_assert_uint_eq(tf_bloat_leaves(&b, 300, LENGTH, 0), 1350); /* a quarter more than the 200 that left */
    ck_assert_uint_eq(tf_bloat_leaves(&b, 400, 0, 1000), 1350);   /* the last ones drain, at the end of the queue */
    ck_assert_uint_eq(tf_bloat_leaves(&b, 1350, 0, 1000), 1350);
    ck_assert_uint_eq(tf_bloat_leaves(&b, 2000, 0, 0), 2000);
    ck_assert_uint_eq(tf_bloat_leaves(&b, 9000, LENGTH, 10), 9010); /* the silence before was not filled */
}
END_TEST

/* Whatever comes, and whenever: it leaves in order, within the length, and it does not matter whether somebody looked in
 * between. */
START_TEST(bloat_random_packets_leave_in_order_and_in_time)
{
    tf_test_random random;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        tf_bloat b = {0};
        tf_time now = TF_SECOND;
        tf_time before = 0;
        tf_test_random_init(&random, seed);
        for (unsigned i = 0; i < 500; i++) {
            bool is_on = i % 200 < 150;
            now += tf_test_random_below(&random, i % 50 == 0 ? 100 * TF_SECOND : 5 * TF_MS);
            tf_time takes = tf_test_random_below(&random, 12 * TF_MS);
            tf_time leaves = tf_bloat_leaves(&b, now, is_on ? LENGTH : 0, takes);
            if (leaves == TF_BLOAT_FULL) {
                ck_assert(is_on);
                continue;
            }
            ck_assert_uint_ge(leaves, tf_time_max(now, before));
            ck_assert_uint_le(leaves, now + LENGTH);
            before = leaves;
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        bloat_queue_fills_in_four_lengths_and_then_saws_between_two_thirds_and_full,
        bloat_full_queue_takes_nothing_until_the_others_rest,
        bloat_that_ends_drains_and_begins_anew_with_what_is_left,
        bloat_random_packets_leave_in_order_and_in_time,
        NULL,
    };
    return tf_test_run("tests/harness/bloat", tests);
}
