#include "tests/harness/bloat.h"

#define EXCESS 4u /* the others send 1/EXCESS more than the link takes */
#define REST 3u   /* and rest until 1/REST of the queue has drained */
#define LENGTHS_MAX 16u

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t waiting(const tf_bloat *b, uint64_t now)
{
    return b->free_at > now ? b->free_at - now : 0;
}

/* What the others did since it was reckoned last: at most a few times filling and resting, more of it changes nothing. */
static void reckon(tf_bloat *b, uint64_t now, uint64_t length)
{
    uint64_t left = least(now - b->at, LENGTHS_MAX * length);
    left -= left % EXCESS;
    b->at = now - (now - b->at) % EXCESS - left;
    while (left > 0) {
        uint64_t fills = waiting(b, b->at);
        uint64_t low = length - length / REST;
        uint64_t until = b->rests ? (fills > low ? fills - low : 0) : EXCESS * (length > fills ? length - fills : 0);
        uint64_t step = least(left, until);
        b->at += step;
        left -= step;
        if (!b->rests) {
            b->free_at = b->at + fills + step / EXCESS;
        }
        b->rests = step == until ? !b->rests : b->rests;
    }
}

uint64_t tf_bloat_leaves(tf_bloat *b, uint64_t now, uint64_t length, uint64_t takes)
{
    if (length == 0 || !b->is_on) {
        b->is_on = length != 0;
        b->rests = false;
        b->at = now;
    }
    if (length != 0) {
        reckon(b, now, length);
        if (waiting(b, now) + takes > length) {
            b->rests = true;
            return TF_BLOAT_FULL;
        }
    }
    b->free_at = now + waiting(b, now) + (length != 0 ? takes : 0);
    return b->free_at;
}
