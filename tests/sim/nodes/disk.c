#include "tests/sim/nodes/disk.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/nodes/disk_internal.h"

void disk_mix(disk *d, uint64_t value)
{
    d->trace = (d->trace ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    d->trace ^= d->trace >> 29;
}

void *disk_get(size_t size)
{
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void disk_die(const disk *d, const char *what)
{
    (void)fprintf(stderr, "disk %s of seed %llu, at %llu us: %s\n", d->name, (unsigned long long)d->seed,
                  (unsigned long long)d->now, what);
    abort();
}

disk *disk_new(disk_kind kind, const char *name, uint64_t seed, const tf_mem *mem)
{
    disk *d = disk_get(sizeof(*d));
    *d = (disk){.kind = kind, .name = name, .seed = seed, .mem = mem};
    tf_test_random_init(&d->random, seed);
    switch (kind) {
    case DISK_SLOW:
        disk_slow_new(d);
        return d;
    case DISK_REAL:
        disk_real_new(d);
        return d;
    }
    TF_UNREACHABLE();
}

void disk_free(disk *d)
{
    if (d == NULL) {
        return;
    }
    TF_ASSERT(!d->is_open);
    if (d->kind == DISK_SLOW) {
        disk_slow_free(d);
    } else {
        disk_real_free(d);
    }
    free(d);
}

void disk_set_weather(disk *d, tf_time now, const disk_weather *weather)
{
    d->now = now;
    d->weather = *weather;
    if (d->kind == DISK_SLOW) {
        disk_slow_weather(d);
    } else {
        disk_real_weather(d);
    }
}

bool disk_start_cut(disk *d, tf_time now, bool small, uint64_t n)
{
    TF_ASSERT(!d->is_open);
    d->now = now;
    d->is_open = d->kind == DISK_SLOW ? n == UINT64_MAX && disk_slow_start(d) : disk_real_start(d, small, n);
    disk_mix(d, d->is_open ? 1 : 2);
    return d->is_open;
}

bool disk_start(disk *d, tf_time now, bool small)
{
    return disk_start_cut(d, now, small, UINT64_MAX);
}

bool disk_is_open(const disk *d)
{
    return d->is_open;
}

tf_store disk_store(disk *d)
{
    TF_ASSERT(d->is_open);
    return d->kind == DISK_SLOW ? disk_slow_store(d) : disk_real_store(d);
}

void disk_advance(disk *d, tf_time now)
{
    d->now = now;
    if (!d->is_open) {
        return;
    }
    if (d->kind == DISK_SLOW) {
        disk_slow_advance(d);
    } else {
        disk_real_advance(d);
    }
}

tf_time disk_deadline(const disk *d)
{
    if (!d->is_open) {
        return TF_NEVER;
    }
    return d->kind == DISK_SLOW ? disk_slow_deadline(d) : disk_real_deadline(d);
}

static void end(disk *d, tf_time now, disk_end how)
{
    TF_ASSERT(d->is_open);
    d->now = now;
    if (d->kind == DISK_SLOW) {
        disk_slow_end(d);
    } else {
        disk_real_end(d, how);
    }
    d->is_open = false;
    disk_mix(d, 3 + (uint64_t)how);
}

void disk_stop(disk *d, tf_time now)
{
    end(d, now, DISK_STOP);
}

void disk_kill(disk *d, tf_time now)
{
    end(d, now, DISK_KILL);
}

void disk_crash(disk *d, tf_time now)
{
    end(d, now, DISK_CRASH);
}

bool disk_peek_channel(disk *d, tf_slice channel, tf_store_channel *out)
{
    if (!d->is_open) {
        return false;
    }
    tf_store store = d->kind == DISK_SLOW ? disk_slow_inner(d) : disk_real_store(d);
    return store.table->channel_find(store.ctx, channel, out) == TF_OK;
}

bool disk_peek(disk *d, tf_slice channel, uint64_t seq, tf_stored *out)
{
    tf_store_channel found;
    if (!disk_peek_channel(d, channel, &found) || seq < found.first || seq > found.head) {
        return false;
    }
    if (d->kind == DISK_REAL) {
        return disk_real_peek(d, found.number, seq, out);
    }
    tf_store store = disk_slow_inner(d);
    return store.table->read(store.ctx, found.number, seq, out) == TF_STORE_HERE;
}

uint64_t disk_trace(const disk *d)
{
    return d->trace;
}
