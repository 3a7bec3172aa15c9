/* The cheap kind: the store in memory, which outlives the process that has it. */
#include <stdlib.h>

#include "tests/sim/nodes/disk_internal.h"
#include "tests/sim/slow_store.h"

struct disk_slow {
    slow_store store;
};

void disk_slow_new(disk *d)
{
    d->slow = disk_get(sizeof(*d->slow));
    slow_init(&d->slow->store, &d->random, d->mem);
}

void disk_slow_free(disk *d)
{
    slow_free(&d->slow->store);
    free(d->slow);
}

void disk_slow_weather(disk *d)
{
    slow_store *s = &d->slow->store;
    s->least = d->weather.least;
    s->spread = d->weather.spread;
    s->refusals = d->weather.refusals;
    s->later = d->weather.later;
    s->refuses = d->weather.failing ? TF_REFUSAL_UNAVAILABLE : d->weather.full ? TF_REFUSAL_STORE_FULL : TF_REFUSAL_NONE;
}

bool disk_slow_start(disk *d)
{
    d->slow->store.now = d->now;
    return !d->weather.failing;
}

tf_store disk_slow_store(disk *d)
{
    return slow_get(&d->slow->store);
}

void disk_slow_advance(disk *d)
{
    d->slow->store.now = d->now;
    disk_mix(d, d->random.state); /* drawn from by each submit, read and commit */
}

tf_time disk_slow_deadline(const disk *d)
{
    return slow_deadline(&d->slow->store);
}

void disk_slow_end(disk *d)
{
    slow_crash(&d->slow->store);
}

tf_store disk_slow_inner(disk *d)
{
    return d->slow->store.inner;
}
