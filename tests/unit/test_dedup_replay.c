/* dedup/replay: compared with a naive record of every packet number. */
#include <stdio.h>
#include <string.h>

#include "dedup/replay.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

/* Check notes the place of every assertion that holds with a system call: too slow for millions of them. */
#define TELL(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            ck_abort_msg(__VA_ARGS__);                                                                                 \
        }                                                                                                              \
    } while (0)
#define HOLDS(condition) TELL(condition, "line %d: %s", __LINE__, #condition)

#define W ((uint64_t)TF_REPLAY_WINDOW)

START_TEST(replay_first_number_is_new_whatever_it_is)
{
    static const uint64_t numbers[] = {0, 1, 63, 64, W - 1, W, W + 1, UINT64_C(1) << 32, UINT64_MAX - 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        tf_replay replay;
        tf_replay_init(&replay);
        HOLDS(tf_replay_next(&replay) == 0);
        HOLDS(tf_replay_check(&replay, numbers[i]) == TF_REPLAY_NEW);
        tf_replay_commit(&replay, numbers[i]);
        HOLDS(tf_replay_check(&replay, numbers[i]) == TF_REPLAY_REPEAT);
        HOLDS(tf_replay_next(&replay) == (numbers[i] == UINT64_MAX ? UINT64_MAX : numbers[i] + 1));
    }
}
END_TEST

/* Every offset of the head in its word: the whole window is open behind it, what is older is late. */
START_TEST(replay_window_is_whole_at_every_offset)
{
    for (uint64_t head = 3 * W; head < 3 * W + 130; head++) {
        tf_replay replay;
        tf_replay_init(&replay);
        tf_replay_commit(&replay, head);
        HOLDS(tf_replay_check(&replay, head - W) == TF_REPLAY_LATE);
        for (uint64_t back = 1; back < W; back++) {
            HOLDS(tf_replay_check(&replay, head - back) == TF_REPLAY_NEW);
            tf_replay_commit(&replay, head - back);
            HOLDS(tf_replay_check(&replay, head - back) == TF_REPLAY_REPEAT);
        }
        HOLDS(tf_replay_check(&replay, head + 1) == TF_REPLAY_NEW);
        HOLDS(tf_replay_next(&replay) == head + 1);
    }
}
END_TEST

START_TEST(replay_jump_forgets_what_it_passes_only)
{
    static const uint64_t jumps[] = {1, 2,     63,     64,     65,     W - 64, W - 1,
                                     W, W + 1, W + 63, W + 64, W + 65, 3 * W,  UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(jumps) / sizeof(jumps[0]); i++) {
        tf_replay replay;
        tf_replay_init(&replay);
        for (uint64_t n = 0; n < 2 * W; n++) {
            tf_replay_commit(&replay, n);
        }
        uint64_t head = 2 * W - 1 + jumps[i];
        tf_replay_commit(&replay, head);
        for (uint64_t back = 0; back < W; back++) {
            bool seen = back == 0 || back >= jumps[i];
            HOLDS(tf_replay_check(&replay, head - back) == (seen ? TF_REPLAY_REPEAT : TF_REPLAY_NEW));
        }
        HOLDS(tf_replay_check(&replay, head - W) == TF_REPLAY_LATE);
    }
}
END_TEST

START_TEST(replay_check_changes_nothing)
{
    tf_replay replay;
    tf_replay_init(&replay);
    tf_replay_commit(&replay, 100);
    tf_replay before;
    memcpy(&before, &replay, sizeof(before));
    for (uint64_t n = 0; n < 3 * W; n += 7) {
        (void)tf_replay_check(&replay, n);
    }
    HOLDS(memcmp(&before, &replay, sizeof(before)) == 0);
}
END_TEST

#define NUMBERS 200000u

/* Mostly within the window; the head moves by a little, seldom by much. */
static uint64_t any_number(tf_test_random *random, uint64_t highest)
{
    static const uint64_t spans[] = {4, 200, W + 2, 2 * W};
    uint64_t span = spans[tf_test_random_below(random, 4)];
    if (tf_test_random_chance(random, 1, 4000)) {
        return highest + tf_test_random_below(random, 2 * W);
    }
    if (tf_test_random_chance(random, 1, 4)) {
        return highest + 1 + tf_test_random_below(random, 3);
    }
    return highest < span ? tf_test_random_below(random, highest + 1) : highest - tf_test_random_below(random, span);
}

static void compare_with_model(uint64_t seed, uint64_t base)
{
    tf_test_random random;
    tf_test_random_init(&random, seed);
    bool *seen = calloc(NUMBERS, sizeof(*seen));
    ck_assert_ptr_nonnull(seen);
    tf_replay replay;
    tf_replay_init(&replay);
    uint64_t highest = 0;
    bool any = false;
    for (int step = 0; step < 100000; step++) {
        uint64_t n = any_number(&random, highest);
        if (n >= NUMBERS) {
            ck_assert_int_gt(step, 20000); /* else this test would test little */
            break;
        }
        bool late = any && n < highest && highest - n >= W;
        tf_replay_verdict expected = late ? TF_REPLAY_LATE : seen[n] ? TF_REPLAY_REPEAT : TF_REPLAY_NEW;
        TELL(tf_replay_check(&replay, base + n) == expected, "seed %llu step %d number %llu", (unsigned long long)seed,
             step, (unsigned long long)n);
        /* Some do not open: no commit, and they stay new. */
        if (expected == TF_REPLAY_NEW && tf_test_random_chance(&random, 9, 10)) {
            tf_replay_commit(&replay, base + n);
            seen[n] = true;
            highest = any && highest > n ? highest : n;
            any = true;
        }
    }
    free(seen);
}

START_TEST(replay_random_numbers_agree_with_a_naive_set)
{
    static const uint64_t bases[] = {0, 65536 - 100, (UINT64_C(1) << 32) - 100, UINT64_MAX - NUMBERS};
    printf("replay: seeds 1 to 24\n");
    for (uint64_t seed = 1; seed <= 24; seed++) {
        compare_with_model(seed, bases[seed % 4]);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        replay_first_number_is_new_whatever_it_is,    replay_window_is_whole_at_every_offset,
        replay_jump_forgets_what_it_passes_only,      replay_check_changes_nothing,
        replay_random_numbers_agree_with_a_naive_set, NULL,
    };
    return tf_test_run("dedup/replay", tests);
}
