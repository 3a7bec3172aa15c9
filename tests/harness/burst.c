#include "tests/harness/burst.h"

bool tf_burst_loses(tf_burst *burst, tf_test_random *random, uint64_t odds, uint64_t length)
{
    if (odds == 0 || odds >= TF_BURST_MILLION || length <= 1) {
        burst->is_bad = false;
        return odds != 0 && tf_test_random_chance(random, odds, TF_BURST_MILLION);
    }
    /* It stays bad for `length` packets, and good for as many as make that the share that is asked for: at least for one,
     * so that for a larger share it stays bad for longer. */
    uint64_t passed = TF_BURST_MILLION - odds;
    uint64_t lasts = odds > length * passed ? odds : length * passed; /* bad, in packets, times `passed` */
    bool turns = tf_test_random_chance(random, burst->is_bad ? passed : odds, lasts);
    burst->is_bad = turns ? !burst->is_bad : burst->is_bad;
    return burst->is_bad;
}
