/* Full jitter: the ceiling doubles up to the cap, waits are anywhere below it. A path that flaps is damped. */
#include "node/backoff.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define HOUR (3600 * TF_SECOND)

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
            backoff = (tf_backoff){0};
            for (unsigned skip = 0; skip < n; skip++) {
                (void)tf_backoff_next(&backoff, &random.rand, 0, TF_BACKOFF_MAX);
            }
            tf_time wait = tf_backoff_next(&backoff, &random.rand, 0, TF_BACKOFF_MAX);
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
        ck_assert_uint_le(tf_backoff_next(&backoff, i % 2 == 0 ? &high : &low, 0, TF_BACKOFF_MAX_REDUNDANT),
                          TF_BACKOFF_MAX_REDUNDANT);
    }
    ck_assert_uint_eq(tf_backoff_next(&backoff, &high, 0, 0), 0);
    ck_assert_uint_le(tf_backoff_next(&backoff, &high, 0, 1), 1);
}
END_TEST

START_TEST(backoff_higher_cap_goes_on_where_the_lower_one_was)
{
    tf_backoff backoff = {0};
    tf_test_random random;
    tf_time most = 0;
    tf_test_random_init(&random, 1);
    for (unsigned i = 0; i < 50; i++) {
        (void)tf_backoff_next(&backoff, &random.rand, 0, TF_BACKOFF_MAX_REDUNDANT);
    }
    for (unsigned i = 0; i < 50; i++) {
        most = tf_time_max(most, tf_backoff_next(&backoff, &random.rand, 0, TF_BACKOFF_MAX));
    }
    ck_assert_uint_gt(most, TF_BACKOFF_MAX_REDUNDANT);
    tf_backoff_up(&backoff, TF_SECOND);
    tf_backoff_down(&backoff, TF_SECOND + TF_PROGRESS_SPAN);
    ck_assert_uint_le(tf_backoff_next(&backoff, &random.rand, 0, TF_BACKOFF_MAX), TF_BACKOFF_MIN);
}
END_TEST

/* -- flapping ------------------------------------------------------------------------------------------------------ */

#define SPAN (120 * TF_SECOND)

/* A path that is there for the first half of each period. How a dialler behaves on it: it dials when it may, each dial
 * takes `dial`, and its stream ends with the half. */
typedef struct flap {
    tf_time period;
    tf_time dial;
    tf_time cap;
    bool eager; /* every loss is a reason to dial at once */
} flap;

static tf_time end_of_half(const flap *f, tf_time now)
{
    return now - now % f->period + f->period / 2;
}

static bool is_there(const flap *f, tf_time now)
{
    return now % f->period < f->period / 2;
}

/* The times of its dials, at most `room`; how many there were. */
static size_t run_flap(const flap *f, uint64_t seed, tf_time *dials, size_t room)
{
    tf_backoff backoff = {0};
    tf_test_random random;
    tf_time now = TF_SECOND;
    size_t count = 0;
    tf_test_random_init(&random, seed);
    while (now < SPAN) {
        ck_assert_uint_lt(count, room);
        ck_assert_uint_eq(tf_backoff_until_allowed(&backoff, now), 0);
        tf_backoff_dial(&backoff, now);
        dials[count++] = now;
        bool reached = is_there(f, now) && end_of_half(f, now) > now + f->dial;
        now += f->dial;
        if (reached) {
            tf_backoff_up(&backoff, now);
            now = end_of_half(f, now);
            tf_backoff_down(&backoff, now);
        }
        now += f->eager ? tf_backoff_until_allowed(&backoff, now) : tf_backoff_next(&backoff, &random.rand, now, f->cap);
    }
    return count;
}

START_TEST(backoff_flapping_path_is_dialled_less_than_once_a_second_and_not_given_up)
{
    static const flap flaps[] = {
        {500 * TF_MS, 1 * TF_MS, TF_BACKOFF_MAX_REDUNDANT, false},   /* 2 Hz */
        {500 * TF_MS, 1 * TF_MS, TF_BACKOFF_MAX_REDUNDANT, true},
        {1000 * TF_MS, 20 * TF_MS, TF_BACKOFF_MAX_REDUNDANT, true},  /* 1 Hz */
        {2 * TF_MS, 0, TF_BACKOFF_MAX_REDUNDANT, true},              /* each stream dies at once */
        {500 * TF_MS, 1 * TF_MS, TF_BACKOFF_MAX, false},             /* without another route */
        {8 * TF_SECOND, 20 * TF_MS, TF_BACKOFF_MAX, false},
    };
    static tf_time dials[(size_t)(SPAN / TF_SECOND) * 2];
    for (size_t i = 0; i < sizeof(flaps) / sizeof(flaps[0]); i++) {
        size_t count = run_flap(&flaps[i], i, dials, sizeof(dials) / sizeof(dials[0]));
        for (size_t a = 0; a < count; a++) {
            for (size_t b = a; b < count; b++) {
                ck_assert_uint_le(b - a + 1, (dials[b] - dials[a]) / TF_DIAL_SPACING + TF_DIAL_BURST + 1);
            }
            ck_assert(a == 0 || dials[a] - dials[a - 1] <= flaps[i].period + flaps[i].cap + TF_SECOND);
        }
        ck_assert_uint_le(count, SPAN / TF_SECOND + TF_DIAL_BURST);
    }
}
END_TEST

START_TEST(backoff_burst_is_there_again_after_quiet)
{
    tf_backoff backoff = {0};
    tf_time now = 1000 * TF_SECOND;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < TF_DIAL_BURST; i++) {
            ck_assert_uint_eq(tf_backoff_until_allowed(&backoff, now), 0);
            tf_backoff_dial(&backoff, now);
        }
        ck_assert_uint_eq(tf_backoff_until_allowed(&backoff, now), TF_DIAL_SPACING);
        ck_assert_uint_eq(tf_backoff_until_allowed(&backoff, now + TF_DIAL_SPACING - 1), 1);
        now += TF_DIAL_SPACING;
        ck_assert_uint_eq(tf_backoff_until_allowed(&backoff, now), 0);
        tf_backoff_dial(&backoff, now);
        ck_assert_uint_eq(tf_backoff_until_allowed(&backoff, now), TF_DIAL_SPACING);
        now += TF_DIAL_BURST * TF_DIAL_SPACING;
    }
}
END_TEST

START_TEST(backoff_short_life_of_a_stream_keeps_the_count_within_what_flapping_may_cost)
{
    static int ones = 0xff;
    const tf_rand high = {fill_with, &ones};
    static const struct {
        tf_time life;
        tf_time most;
    } rows[] = {{0, TF_BACKOFF_FLAPPING}, {TF_PROGRESS_SPAN - 1, TF_BACKOFF_FLAPPING}, {TF_PROGRESS_SPAN, TF_BACKOFF_MIN}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_backoff backoff = {0};
        for (unsigned k = 0; k < 20; k++) {
            (void)tf_backoff_next(&backoff, &high, 0, TF_BACKOFF_MAX);
        }
        tf_backoff_up(&backoff, TF_SECOND);
        tf_backoff_up(&backoff, 2 * TF_SECOND); /* a repeat does not begin anew */
        tf_backoff_down(&backoff, TF_SECOND + rows[i].life);
        uint32_t tries = backoff.tries;
        tf_backoff_down(&backoff, HOUR); /* nor does it end twice */
        ck_assert_uint_eq(backoff.tries, tries);
        ck_assert((tries > 0) == (rows[i].life < TF_PROGRESS_SPAN));
        ck_assert_uint_le(TF_BACKOFF_MIN << tries, rows[i].most);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {backoff_ceiling_doubles_up_to_the_cap,
                                  backoff_never_waits_longer_than_the_cap,
                                  backoff_higher_cap_goes_on_where_the_lower_one_was,
                                  backoff_flapping_path_is_dialled_less_than_once_a_second_and_not_given_up,
                                  backoff_burst_is_there_again_after_quiet,
                                  backoff_short_life_of_a_stream_keeps_the_count_within_what_flapping_may_cost,
                                  NULL};
    return tf_test_run("node/backoff", tests);
}
