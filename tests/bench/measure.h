/* What the measuring programs share: a clock, the CPU time of this process, latencies with their percentiles, and the
 * "key value" lines in which all of them report (README.md lists the keys). Not thread-safe, one object a thread. */
#ifndef TF_BENCH_MEASURE_H
#define TF_BENCH_MEASURE_H

#include <stdint.h>

/* Nanoseconds of CLOCK_MONOTONIC: one clock for all processes of a machine. */
uint64_t tf_measure_now(void);

/* Seconds of CPU that this process has used, user and system, all threads. */
double tf_measure_cpu(void);

/* At the beginning of every body, in the byte order of the machine: all ends run on one. */
typedef struct tf_stamp {
    uint64_t seq;  /* from 0 */
    uint64_t sent; /* tf_measure_now when it was handed over */
    uint64_t due;  /* when the schedule wanted it; without a rate the same as sent */
} tf_stamp;

/* Latencies in nanoseconds, counted in cells of less than 1 % width, so that any number of them takes the same room. */
#define TF_LATENCY_CELLS 4736u

typedef struct tf_latency {
    uint64_t count;
    uint64_t max;
    uint32_t cells[TF_LATENCY_CELLS];
} tf_latency;

void tf_latency_add(tf_latency *latency, uint64_t ns);
void tf_latency_merge(tf_latency *into, const tf_latency *from);
/* The upper end of the cell in which that part (0 to 1) of all latencies is reached; 0: there are none. */
uint64_t tf_latency_at(const tf_latency *latency, double part);
/* NAME_p50_us, NAME_p99_us, NAME_p999_us, NAME_max_us; nothing when there are none. */
void tf_latency_print(const tf_latency *latency, const char *name);

void tf_measure_print(const char *key, double value);

#endif
