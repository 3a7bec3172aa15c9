#include "node/rate.h"

#define UNIT UINT64_C(1000000) /* millionths: a microsecond brings per_second of them */

static uint64_t level_at(const tf_rate *rate, const tf_rate_limit *limit, tf_time now)
{
    uint64_t most = limit->burst * UNIT;
    uint64_t missing = most - rate->level;
    uint64_t elapsed = now - rate->at;
    if (elapsed >= missing / limit->per_second + 1) {
        return most;
    }
    uint64_t brought = elapsed * limit->per_second;
    return brought < missing ? rate->level + brought : most;
}

static uint64_t cost(const tf_rate_limit *limit, uint64_t amount)
{
    return (amount < limit->burst ? amount : limit->burst) * UNIT;
}

void tf_rate_init(tf_rate *rate, const tf_rate_limit *limit, tf_time now)
{
    *rate = (tf_rate){limit->burst * UNIT, now};
}

tf_time tf_rate_wait(const tf_rate *rate, const tf_rate_limit *limit, tf_time now, uint64_t amount)
{
    if (limit->per_second == 0) {
        return 0;
    }
    uint64_t level = level_at(rate, limit, now);
    uint64_t wanted = cost(limit, amount);
    return level >= wanted ? 0 : (wanted - level + limit->per_second - 1) / limit->per_second;
}

void tf_rate_take(tf_rate *rate, const tf_rate_limit *limit, tf_time now, uint64_t amount)
{
    if (limit->per_second == 0) {
        return;
    }
    uint64_t level = level_at(rate, limit, now);
    uint64_t wanted = cost(limit, amount);
    *rate = (tf_rate){level > wanted ? level - wanted : 0, now};
}

bool tf_rate_is_full(const tf_rate *rate, const tf_rate_limit *limit, tf_time now)
{
    return limit->per_second == 0 || level_at(rate, limit, now) == limit->burst * UNIT;
}
