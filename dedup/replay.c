#include "dedup/replay.h"

static size_t word_of(uint64_t number)
{
    return (size_t)((number / 64u) % TF_REPLAY_WORDS);
}

static uint64_t bit_of(uint64_t number)
{
    return (uint64_t)1 << (number % 64u);
}

void tf_replay_init(tf_replay *replay)
{
    memset(replay, 0, sizeof(*replay));
}

tf_replay_verdict tf_replay_check(const tf_replay *replay, uint64_t number)
{
    if (!replay->any || number > replay->highest) {
        return TF_REPLAY_NEW;
    }
    if (replay->highest - number >= TF_REPLAY_WINDOW) {
        return TF_REPLAY_LATE;
    }
    return (replay->words[word_of(number)] & bit_of(number)) != 0 ? TF_REPLAY_REPEAT : TF_REPLAY_NEW;
}

/* Clears the words that the window enters when its head goes from `highest` to `number`. */
static void advance(tf_replay *replay, uint64_t number)
{
    uint64_t from = replay->highest / 64u;
    uint64_t steps = number / 64u - from;

    if (steps >= TF_REPLAY_WORDS) {
        memset(replay->words, 0, sizeof(replay->words));
    } else {
        for (uint64_t i = 1; i <= steps; i++) {
            replay->words[(size_t)((from + i) % TF_REPLAY_WORDS)] = 0;
        }
    }
    replay->highest = number;
}

void tf_replay_commit(tf_replay *replay, uint64_t number)
{
    TF_ASSERT(tf_replay_check(replay, number) == TF_REPLAY_NEW);
    if (!replay->any) {
        replay->any = true;
        replay->highest = number;
    } else if (number > replay->highest) {
        advance(replay, number);
    }
    replay->words[word_of(number)] |= bit_of(number);
}

uint64_t tf_replay_next(const tf_replay *replay)
{
    if (!replay->any) {
        return 0;
    }
    return replay->highest == UINT64_MAX ? UINT64_MAX : replay->highest + 1;
}
