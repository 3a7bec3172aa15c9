/* How late each message comes, in virtual time: two links with a round trip of 20 ms, 500 and 2000 messages a second, and for
 * 4 of 12 seconds something that is wrong with a path (P2, P3). Times are virtual, so what is printed is exact, and what is
 * promised can be asserted: none lost; the median is the path's own delay; the 99.9th percentile within 3 round trips, the
 * longest within 5; in a hole of one path no gap that is 5 ms longer than without; a path that is squeezed costs nothing.
 *
 * With two hops what one link delivered is sent on by the next, with troubles of its own.
 *
 *     sim_latency [--seeds A..B] [--verbose] */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/redial.h"
#include "tests/sim/seeds.h"
#include "tests/sim/traffic.h"

#define SEEDS_DEFAULT 10u
#define TIMER_ON 2u
#define TIMER_DIAL 3u
#define TIMER_FLAP 4u
#define RTT (20 * TF_MS)
#define SPAN (12 * TF_SECOND)
#define ON_AT (4 * TF_SECOND)
#define OFF_AT (8 * TF_SECOND)
#define MESSAGE 100u
#define MESSAGES_MAX 24000u
#define SPARSE (20 * TF_MS) /* beyond it a run has too few messages for a 99.9th percentile */
#define FLAP_HALF (250 * TF_MS)

/* What is wrong, and how it may show. */
typedef struct scenario {
    const char *name;
    unsigned stream_holes;   /* bits: out of end 0, out of end 1 */
    unsigned datagram_holes; /* likewise */
    unsigned stream_loss;    /* in 1/1000, both directions */
    unsigned datagram_loss;
    uint64_t stream_rate; /* bytes a second, with a deep buffer, from end 0 */
    uint64_t datagram_rate;
    tf_time jitter; /* of the datagram path */
    unsigned most;  /* the longest in round trips, where it is beyond what is promised; then nothing else is asserted */
    bool flapping;  /* the holes come and go */
    bool unnoticed; /* no message may come later than without */
} scenario;

static const scenario scenarios[] = {
    {.name = "clean", .unnoticed = true},
    {.name = "stream hole", .stream_holes = 3, .unnoticed = true},
    {.name = "datagram hole", .datagram_holes = 3, .unnoticed = true},
    {.name = "stream hole, 5 % datagram loss", .stream_holes = 3, .datagram_loss = 50},
    {.name = "stream 20 % loss", .stream_loss = 200, .stream_rate = 100000, .unnoticed = true},
    {.name = "datagram 20 % loss", .datagram_loss = 200, .unnoticed = true},
    {.name = "5 % loss on both", .stream_loss = 50, .datagram_loss = 50},
    {.name = "stream hole one way out", .stream_holes = 1, .unnoticed = true},
    {.name = "stream hole one way back", .stream_holes = 2, .unnoticed = true},
    {.name = "datagram hole one way out", .datagram_holes = 1, .unnoticed = true},
    {.name = "datagram hole one way back", .datagram_holes = 2, .unnoticed = true},
    {.name = "stream at 300 kbit/s", .stream_rate = 37500, .unnoticed = true},
    {.name = "datagram at 300 kbit/s", .datagram_rate = 37500, .unnoticed = true},
    {.name = "stream flaps", .stream_holes = 3, .flapping = true, .unnoticed = true},
    {.name = "datagram flaps", .datagram_holes = 3, .flapping = true, .unnoticed = true},
    {.name = "stream hole, datagram jitter", .stream_holes = 3, .jitter = RTT / 2},
    {.name = "stream hole, 20 % datagram loss", .stream_holes = 3, .datagram_loss = 200, .most = 15},
    {.name = "20 % loss on both", .stream_loss = 200, .stream_rate = 100000, .datagram_loss = 200, .most = 15},
};

typedef struct result {
    tf_time p50;
    tf_time p99;
    tf_time p999;
    tf_time longest;
    tf_time gap;
} result;

typedef struct run {
    const scenario *scenario;
    traffic *traffic;
    redial redial;
    bool holes;
} run;

static run now; /* one at a time */
static tf_time due_at[MESSAGES_MAX];
static tf_time between[MESSAGES_MAX]; /* when it was at the middle node */
static tf_time arrived_at[MESSAGES_MAX];
static tf_time late[MESSAGES_MAX];

/* --- what is wrong --- */

static void set_holes(bool on)
{
    net *n = now.traffic->ends.net;
    now.holes = on;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(n, end)->hole = on && (now.scenario->datagram_holes & (1u << end)) != 0;
        if (on && (now.scenario->stream_holes & (1u << end)) != 0) {
            net_pipe_of(n, end)->hole = true;
        } else {
            net_heal_stream(n, end);
        }
    }
}

static void set_wrong(bool on)
{
    net *n = now.traffic->ends.net;
    const scenario *s = now.scenario;
    set_holes(on);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(n, end)->loss = on ? s->datagram_loss : 0;
        net_path_of(n, end)->jitter = on ? s->jitter : 0;
        net_pipe_of(n, end)->loss = on ? s->stream_loss : 0;
    }
    net_path_of(n, 0)->rate = on ? s->datagram_rate : 0;
    net_path_of(n, 0)->queue = (size_t)30000;
    net_pipe_of(n, 0)->rate = on ? s->stream_rate : 0;
}

static void program(traffic *t, uint64_t id)
{
    if (id == TIMER_DIAL) {
        redial_timer(&now.redial);
    } else if (id == TIMER_FLAP) {
        set_holes(!now.holes && net_now(t->ends.net) < TF_SECOND + OFF_AT);
        if (net_now(t->ends.net) < TF_SECOND + OFF_AT) {
            traffic_at(t, net_now(t->ends.net) + FLAP_HALF, TIMER_FLAP);
        }
    } else {
        bool on = net_now(t->ends.net) < TF_SECOND + OFF_AT;
        set_wrong(on);
        if (on && now.scenario->flapping) {
            traffic_at(t, net_now(t->ends.net) + FLAP_HALF, TIMER_FLAP);
        }
    }
}

/* --- one link --- */

/* Sends `count` messages over one link when they are due, and notes when they arrive. */
static void hop(const scenario *s, uint64_t seed, uint64_t count, const tf_time *due, tf_time *arrived)
{
    traffic *t = traffic_new(seed);
    now = (run){.scenario = s, .traffic = t};
    t->program = program;
    redial_init(&now.redial, &t->ends, TIMER_DIAL);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(t->ends.net, end)->delay = RTT / 2;
        net_pipe_of(t->ends.net, end)->delay = RTT / 2;
        net_pipe_of(t->ends.net, end)->buffer = (size_t)64 * 1024;
    }
    ends_start(&t->ends, NULL);
    ends_connect(&t->ends);
    traffic_at(t, TF_SECOND + ON_AT + tf_test_random_below(net_random(t->ends.net), 10 * TF_MS), TIMER_ON);
    traffic_at(t, TF_SECOND + OFF_AT, TIMER_ON);
    ends_run(&t->ends, due[0]);
    t->flow[0].schedule = due;
    t->flow[0].arrived_at = arrived;
    traffic_start(t, 0, 0, count, MESSAGE, MESSAGE);
    tf_time until = due[count - 1] + 10 * TF_SECOND;
    while (net_now(t->ends.net) < until) {
        redial_look(&now.redial);
        ends_run_for(&t->ends, 10 * TF_MS);
    }
    if (t->flow[0].got != count) {
        (void)fprintf(stderr, "%s, seed %llu: %llu of %llu messages arrived\n", s->name, (unsigned long long)seed,
                      (unsigned long long)t->flow[0].got, (unsigned long long)count);
        abort();
    }
    traffic_free(t);
}

/* --- many messages --- */

static int compare(const void *a, const void *b)
{
    tf_time x = *(const tf_time *)a;
    tf_time y = *(const tf_time *)b;
    return x < y ? -1 : x > y;
}

static result judge(uint64_t count)
{
    result r = {0};
    for (uint64_t i = 0; i < count; i++) {
        late[i] = arrived_at[i] - due_at[i];
        r.gap = i == 0 ? 0 : tf_time_max(r.gap, arrived_at[i] - arrived_at[i - 1]);
    }
    qsort(late, count, sizeof(late[0]), compare);
    r.p50 = late[count / 2];
    r.p99 = late[count * 99 / 100];
    r.p999 = late[count * 999 / 1000];
    r.longest = late[count - 1];
    return r;
}

static result measure(const scenario *s, uint64_t seed, tf_time interval, unsigned hops)
{
    uint64_t count = (SPAN - TF_SECOND) / interval;
    for (uint64_t i = 0; i < count; i++) {
        due_at[i] = 2 * TF_SECOND + i * interval;
    }
    hop(s, seed, count, due_at, hops == 1 ? arrived_at : between);
    if (hops == 2) {
        hop(s, seed + 1000000, count, between, arrived_at);
    }
    return judge(count);
}

static void print(const char *what, tf_time interval, unsigned hops, const result *r)
{
    (void)printf("%-32s %4llu/s %u hop%s  p50 %6.2f  p99 %6.2f  p99.9 %6.2f  max %6.2f  gap %6.2f ms\n", what,
                 (unsigned long long)(TF_SECOND / interval), hops, hops == 1 ? " " : "s", (double)r->p50 / 1000,
                 (double)r->p99 / 1000, (double)r->p999 / 1000, (double)r->longest / 1000, (double)r->gap / 1000);
}

/* Is it as promised? Bounds are those of one link, for each hop. */
static bool is_kept(const scenario *s, unsigned hops, tf_time interval, const result *r)
{
    if (s->most > 0) {
        return r->longest <= s->most * RTT * hops;
    }
    tf_time delay = hops * RTT / 2;
    bool kept = r->p50 <= delay + TF_MS / 10 && r->longest <= 5 * RTT * hops;
    kept = kept && (s->jitter == 0 || r->p99 <= delay + s->jitter * hops);
    kept = kept && (interval > SPARSE || r->p999 <= 3 * RTT * hops);
    if (s->unnoticed) {
        kept = kept && r->p99 <= delay + delay / 5 && r->gap <= interval + 5 * TF_MS;
    }
    return kept;
}

static void worst_of(result *worst, const result *r)
{
    worst->p50 = tf_time_max(worst->p50, r->p50);
    worst->p99 = tf_time_max(worst->p99, r->p99);
    worst->p999 = tf_time_max(worst->p999, r->p999);
    worst->longest = tf_time_max(worst->longest, r->longest);
    worst->gap = tf_time_max(worst->gap, r->gap);
}

static bool run_seeds(const scenario *s, uint64_t first, uint64_t last, tf_time interval, unsigned hops, bool verbose)
{
    result worst = {0};
    bool kept = true;
    for (uint64_t seed = first; seed <= last; seed++) {
        result r = measure(s, seed, interval, hops);
        worst_of(&worst, &r);
        bool well = is_kept(s, hops, interval, &r);
        if (!well || verbose) {
            (void)printf("%sseed %llu: ", well ? "" : "NOT AS PROMISED, ", (unsigned long long)seed);
            print(s->name, interval, hops, &r);
        }
        kept = kept && well;
    }
    print(s->name, interval, hops, &worst);
    (void)fflush(stdout);
    return kept;
}

int main(int argc, char **argv)
{
    seeds asked = {.first = 1, .last = SEEDS_DEFAULT};
    if (!seeds_parse(&asked, "sim_latency", argc, argv)) {
        return 2;
    }
    (void)printf("sim_latency --seeds %llu..%llu; the worst of all seeds in each column\n",
                 (unsigned long long)asked.first, (unsigned long long)asked.last);
    bool kept = true;
    uint64_t few = asked.first + (asked.last - asked.first) / 4;
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        kept = run_seeds(&scenarios[i], asked.first, asked.last, 50 * TF_MS, 1, asked.verbose) && kept;
        kept = run_seeds(&scenarios[i], asked.first, asked.last, 2 * TF_MS, 1, asked.verbose) && kept;
        kept = run_seeds(&scenarios[i], asked.first, few, 2 * TF_MS, 2, asked.verbose) && kept;
        kept = run_seeds(&scenarios[i], asked.first, few, TF_MS / 2, 1, asked.verbose) && kept;
    }
    (void)printf("sim_latency: %s\n", kept ? "all well" : "not as promised");
    return kept ? 0 : 1;
}
