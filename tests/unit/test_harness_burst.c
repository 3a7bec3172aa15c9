/* Loss in bursts: as much is lost as is asked for, and as many in a row. */
#include "tests/harness/burst.h"
#include "tests/support/check_main.h"

#define PACKETS 400000u

typedef struct outcome {
    unsigned lost;
    unsigned runs;
} outcome;

static outcome run(uint64_t odds, uint64_t length)
{
    tf_burst burst = {0};
    tf_test_random random;
    outcome out = {0};
    bool before = false;
    tf_test_random_init(&random, 5);
    for (unsigned i = 0; i < PACKETS; i++) {
        bool loses = tf_burst_loses(&burst, &random, odds, length);
        out.lost += loses ? 1 : 0;
        out.runs += loses && !before ? 1 : 0;
        before = loses;
    }
    return out;
}

START_TEST(burst_loses_the_share_and_the_length_that_are_asked_for)
{
    static const struct {
        uint64_t odds;
        uint64_t length;
        double in_a_row; /* those by themselves follow each other by chance */
    } rows[] = {{200000, 0, 1.25}, {200000, 1, 1.25}, {200000, 5, 5},   {50000, 20, 20},
                {500000, 3, 3},    {990000, 2, 100},  {10000, 100, 100}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        outcome out = run(rows[i].odds, rows[i].length);
        double share = (double)out.lost / PACKETS * TF_BURST_MILLION / (double)rows[i].odds;
        double in_a_row = (double)out.lost / out.runs / rows[i].in_a_row;
        ck_assert_msg(share > 0.8 && share < 1.2, "row %zu: %u lost", i, out.lost);
        ck_assert_msg(in_a_row > 0.8 && in_a_row < 1.25, "row %zu: %u lost in %u runs", i, out.lost, out.runs);
    }
}
END_TEST

START_TEST(burst_none_and_all_are_exact)
{
    ck_assert_uint_eq(run(0, 5).lost, 0);
    ck_assert_uint_eq(run(0, 0).lost, 0);
    ck_assert_uint_eq(run(TF_BURST_MILLION, 5).lost, PACKETS);
    tf_burst burst = {.is_bad = true};
    tf_test_random random;
    tf_test_random_init(&random, 1);
    ck_assert(!tf_burst_loses(&burst, &random, 0, 5));
    ck_assert(!burst.is_bad);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        burst_loses_the_share_and_the_length_that_are_asked_for,
        burst_none_and_all_are_exact,
        NULL,
    };
    return tf_test_run("tests/harness/burst", tests);
}
