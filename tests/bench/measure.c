#include "tests/bench/measure.h"

#include <stdio.h>
#include <time.h>

#include "proto/types.h"

/* A latency below 2^7 has a cell of its own; above, each power of two is cut into 2^7 cells. */
#define CELL_BITS 7u
#define CELL_HALF ((uint64_t)1 << CELL_BITS)
#define LATENCY_BITS 43u /* 2.4 hours */

_Static_assert((LATENCY_BITS - CELL_BITS + 1) * CELL_HALF <= TF_LATENCY_CELLS, "every latency has a cell");

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec at;
    TF_ASSERT(clock_gettime(clock, &at) == 0);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

uint64_t tf_measure_now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

double tf_measure_cpu(void)
{
    return (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9;
}

static size_t cell_of(uint64_t ns)
{
    unsigned shift = 0;
    if (ns >= (uint64_t)1 << LATENCY_BITS) {
        ns = ((uint64_t)1 << LATENCY_BITS) - 1;
    }
    while (ns >> shift >= 2 * CELL_HALF) {
        shift++;
    }
    return (size_t)(shift * CELL_HALF + (ns >> shift));
}

static uint64_t cell_end(size_t cell)
{
    if (cell < 2 * CELL_HALF) {
        return cell;
    }
    uint64_t shift = cell / CELL_HALF - 1;
    return ((cell - shift * CELL_HALF + 1) << shift) - 1;
}

void tf_latency_add(tf_latency *latency, uint64_t ns)
{
    latency->cells[cell_of(ns)]++;
    latency->count++;
    latency->max = ns > latency->max ? ns : latency->max;
}

void tf_latency_merge(tf_latency *into, const tf_latency *from)
{
    for (size_t i = 0; i < TF_LATENCY_CELLS; i++) {
        into->cells[i] += from->cells[i];
    }
    into->count += from->count;
    into->max = from->max > into->max ? from->max : into->max;
}

uint64_t tf_latency_at(const tf_latency *latency, double part)
{
    uint64_t below = 0;
    uint64_t wanted = (uint64_t)((double)latency->count * part);
    for (size_t i = 0; i < TF_LATENCY_CELLS; i++) {
        below += latency->cells[i];
        if (below > wanted) {
            return cell_end(i) < latency->max ? cell_end(i) : latency->max;
        }
    }
    return latency->max;
}

void tf_latency_print(const tf_latency *latency, const char *name)
{
    if (latency->count == 0) {
        return;
    }
    (void)printf("%s_p50_us %.5g\n", name, (double)tf_latency_at(latency, 0.5) / 1e3);
    (void)printf("%s_p99_us %.5g\n", name, (double)tf_latency_at(latency, 0.99) / 1e3);
    (void)printf("%s_p999_us %.5g\n", name, (double)tf_latency_at(latency, 0.999) / 1e3);
    (void)printf("%s_max_us %.6g\n", name, (double)latency->max / 1e3);
}

void tf_measure_print(const char *key, double value)
{
    (void)printf("%s %.8g\n", key, value);
}
