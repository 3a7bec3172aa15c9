/* What deciding "is this segment new?" costs, with and without the Bloom filter in front of the exact window.
 *
 * Usage: bench_dedup [ARRIVALS in millions, default 4]. Prints ns an arrival (test, and accept where it is new) for each
 * pattern of arrivals and each filter; the best of five runs. Content tags are measured apart: they cost the same with
 * every filter. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dedup/dedup.h"
#include "proto/limits.h"
#include "tests/support/support.h"

#define STREAMS_MAX 4096u
#define RUNS 5
#define LAG 32u /* seqs by which the slower route's copy comes later */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct pattern {
    const char *name;
    unsigned streams; /* arrivals go round them: many make the caches cold */
    bool twice;       /* both routes deliver every segment */
    bool gap;         /* every 64th seq comes LAG later only: seqs are held above the floor */
} pattern;

typedef struct filter {
    const char *name;
    tf_bloom_config config; /* bytes 0: none */
} filter;

static const pattern patterns[] = {
    {"1 stream, one copy, in order", 1, false, false},
    {"1 stream, two copies, in order", 1, true, false},
    {"1 stream, two copies, gaps", 1, true, true},
    {"64 streams, two copies, gaps", 64, true, true},
    {"4096 streams, one copy, in order", 4096, false, false},
    {"4096 streams, two copies, gaps", 4096, true, true},
};

static const filter filters[] = {
    {"no filter", {.bytes = 0}},
    {"2*32 KiB", {.bytes = 32u << 10, .key = 1}},
    {"2*512 KiB", {.bytes = 512u << 10, .key = 1}},
    {"all bits set", {.bytes = 64, .fill = UINT64_MAX, .key = 1}},
};

static uint64_t now_ns(void)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0) {
        abort();
    }
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_dedup: %s\n", what);
        exit(1);
    }
}

/* One arrival; returns 1 if it was new. */
static uint64_t arrive(tf_dedup_stream *stream, uint64_t seq)
{
    tf_window_verdict verdict = tf_dedup_stream_test(stream, seq, (uint32_t)seq);
    if (verdict != TF_WINDOW_NEW) {
        must(verdict == TF_WINDOW_REPEAT, "a verdict that cannot be");
        return 0;
    }
    must(tf_dedup_stream_accept(stream, seq, (uint32_t)seq) == TF_OK, "out of memory");
    return 1;
}

/* What arrives at each stream in round n: seq n by the faster route (unless it lost it), seq n - LAG by the slower. */
static uint64_t arrivals_of_round(const pattern *p, tf_dedup_stream *stream, uint64_t n, uint64_t *arrivals)
{
    uint64_t fresh = 0;
    if (!p->gap || n % 64 != 0) {
        fresh += arrive(stream, n);
        ++*arrivals;
    }
    if (p->twice && n >= LAG) {
        fresh += arrive(stream, n - LAG);
        ++*arrivals;
    }
    return fresh;
}

/* ns an arrival of one run. */
static double run(const pattern *p, const filter *f, uint64_t wanted, tf_dedup_counts *counts)
{
    static tf_dedup_stream *streams[STREAMS_MAX];
    tf_dedup *dedup = NULL;
    if (f->config.bytes != 0) {
        must(tf_dedup_new(&dedup, &f->config, tf_test_mem()) == TF_OK, "no filter");
    }
    for (unsigned i = 0; i < p->streams; i++) {
        const tf_dedup_stream_config config = {.dedup = dedup, .instance = i, .segments = TF_WINDOW_SEGMENTS};
        must(tf_dedup_stream_new(&streams[i], &config, tf_test_mem()) == TF_OK, "no stream");
    }
    uint64_t arrivals = 0;
    uint64_t fresh = 0;
    uint64_t rounds = 0;
    uint64_t start = now_ns();
    while (arrivals < wanted) {
        for (unsigned i = 0; i < p->streams; i++) {
            fresh += arrivals_of_round(p, streams[i], rounds, &arrivals);
        }
        rounds++;
    }
    uint64_t spent = now_ns() - start;
    uint64_t late = p->twice ? LAG : 0;
    must(fresh >= (rounds - late) * p->streams && fresh <= rounds * p->streams, "lost or repeated");
    for (unsigned i = 0; i < p->streams; i++) {
        tf_dedup_stream_free(streams[i]);
    }
    if (dedup != NULL) {
        *counts = tf_dedup_get_counts(dedup);
    }
    tf_dedup_free(dedup);
    return (double)spent / (double)arrivals;
}

static void measure(const pattern *p, uint64_t wanted)
{
    printf("%-34s", p->name);
    for (size_t i = 0; i < COUNT(filters); i++) {
        tf_dedup_counts counts = {0};
        double best = 0;
        for (int k = 0; k < RUNS; k++) {
            double ns = run(p, &filters[i], wanted, &counts);
            best = k == 0 || ns < best ? ns : best;
        }
        uint64_t asked = counts.surely_new + counts.maybe + counts.unsure;
        double decided = asked == 0 ? 0 : 100.0 * (double)counts.surely_new / (double)asked;
        printf(" %7.1f (%3.0f%%)", best, decided);
    }
    printf("\n");
}

static void measure_tags(void)
{
    static const size_t sizes[] = {32, 256, TF_SEGMENT_DATA_MAX};
    static uint8_t bytes[TF_SEGMENT_DATA_MAX];
    tf_dedup_stream *stream = NULL;
    const tf_dedup_stream_config config = {.segments = 1};
    must(tf_dedup_stream_new(&stream, &config, tf_test_mem()) == TF_OK, "no stream");
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint32_t sum = 0;
        uint64_t start = now_ns();
        for (uint32_t k = 0; k < 1000000; k++) {
            bytes[0] = (uint8_t)sum;
            const tf_segment segment = {.data = tf_slice_of(bytes, sizes[i])};
            sum += tf_dedup_stream_tag(stream, &segment);
        }
        printf("content tag of %4zu bytes: %.1f ns\n", sizes[i], (double)(now_ns() - start) / 1e6);
    }
    tf_dedup_stream_free(stream);
}

int main(int argc, char **argv)
{
    uint64_t millions = argc > 1 ? strtoull(argv[1], NULL, 10) : 4;
    must(argc <= 2 && millions > 0 && millions <= 1000, "usage: bench_dedup [millions of arrivals]");
    printf("ns an arrival (share of the questions to the filter that it decided)\n%-34s", "");
    for (size_t i = 0; i < COUNT(filters); i++) {
        printf(" %14s", filters[i].name);
    }
    printf("\n");
    for (size_t i = 0; i < COUNT(patterns); i++) {
        measure(&patterns[i], millions * 1000000u);
    }
    measure_tags();
    return 0;
}
