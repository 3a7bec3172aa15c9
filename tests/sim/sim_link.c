/* Two links on a faulty network, one run a seed. Each seed turns on its own subset of faults and draws its own windows,
 * sizes and rates. While faults are on, every event is checked (P2: each message once, in order, none invented; P7: no
 * more is held than the windows allow; ends.c). Then the network heals: everything must arrive, and then it must fall
 * silent (P9). Every seed runs twice and both traces must be the same.
 *
 *     sim_link [--seeds A..B] [--verbose] */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/redial.h"
#include "tests/sim/traffic.h"

#define SEEDS_DEFAULT 90u
#define TIMER_FAULT 2u
#define TIMER_DIAL 3u
#define FAULTS_SPAN (12 * TF_SECOND)
#define HEAL_SPAN (60 * TF_SECOND)
#define SETTLE_SPAN (70 * TF_SECOND)
#define SILENT_SPAN (60 * TF_SECOND)

typedef enum fault {
    FAULT_LOSS,
    FAULT_REPEAT,
    FAULT_LATE,
    FAULT_JITTER,
    FAULT_RATE,          /* of the datagram path, with a queue */
    FAULT_DATAGRAM_HOLE, /* one way or both */
    FAULT_STREAM_HOLE,
    FAULT_STREAM_CUT,
    FAULT_STREAM_RATE,
    FAULT_NO_DIAL, /* the stream cannot be had for a while */
    FAULT_KEYS,    /* generations that never get a stream */
    FAULT_TINY_WINDOW,
    FAULT_BIG_MESSAGES,
    FAULT_DATA_ROUTES, /* messages by one route only, in a direction */
    FAULT_COUNT
} fault;

static const char *const fault_names[FAULT_COUNT] = {
    "loss",       "repeat",      "late",    "jitter", "rate",        "datagram-hole", "stream-hole",
    "stream-cut", "stream-rate", "no-dial", "keys",   "tiny-window", "big-messages",  "data-routes"};

typedef struct world {
    traffic *traffic;
    redial redial;
    uint32_t faults;
    bool on;                  /* faults go on */
    tf_routes data[NET_ENDS]; /* by sending end */
} world;

static world now; /* the run that is going on: one at a time */

static bool has(const world *w, fault f)
{
    return (w->faults & (1u << f)) != 0;
}

static uint64_t below(world *w, uint64_t bound)
{
    return tf_test_random_below(net_random(w->traffic->ends.net), bound);
}

static void fail(const world *w, const char *what)
{
    (void)fprintf(stderr, "seed %llu, at %llu us: %s; faults:", (unsigned long long)w->traffic->ends.seed,
                  (unsigned long long)net_now(w->traffic->ends.net), what);
    for (unsigned f = 0; f < FAULT_COUNT; f++) {
        (void)fprintf(stderr, "%s%s", has(w, (fault)f) ? " " : "", has(w, (fault)f) ? fault_names[f] : "");
    }
    (void)fprintf(stderr, "\n");
    abort();
}

/* --- the network of a seed --- */

static void set_up_network(world *w)
{
    net *n = w->traffic->ends.net;
    tf_time delay = (tf_time[]){50, 500, 5000, 10000, 60000}[below(w, 5)];
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path *path = net_path_of(n, end);
        net_pipe *pipe = net_pipe_of(n, end);
        *path = (net_path){.delay = delay + below(w, delay), .queue = SIZE_MAX};
        *pipe = (net_pipe){.delay = delay + below(w, delay), .buffer = (size_t)2048 << below(w, 7)};
        path->loss = has(w, FAULT_LOSS) ? (unsigned)below(w, 300) : 0;
        path->repeat = has(w, FAULT_REPEAT) ? (unsigned)below(w, 300) : 0;
        path->late = has(w, FAULT_LATE) ? (unsigned)below(w, 200) : 0;
        path->late_by = below(w, 8 * delay);
        path->jitter = has(w, FAULT_JITTER) ? below(w, 4 * delay) + 1 : 0;
        if (has(w, FAULT_RATE)) {
            path->rate = 20000 + below(w, 400000);
            path->queue = 4000 + below(w, 60000);
        }
        if (has(w, FAULT_STREAM_RATE)) {
            pipe->rate = 20000 + below(w, 400000);
        }
    }
}

static void configure(tf_link_config *config, unsigned end)
{
    config->send_data = now.data[end];
    config->recv_data = now.data[1 - end];
}

static void set_up_links(world *w)
{
    tf_link_config *config = &w->traffic->ends.config;
    if (has(w, FAULT_TINY_WINDOW)) {
        config->recv_window_segments = 2 + (uint32_t)below(w, 30);
        config->recv_window_bytes = TF_SEGMENT_DATA_MAX + (uint32_t)below(w, 20000);
        config->send_window_segments = config->recv_window_segments;
        config->send_window_bytes = config->recv_window_bytes;
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        w->data[end] = TF_ROUTES_BOTH;
        if (has(w, FAULT_DATA_ROUTES) && below(w, 2) == 0) {
            w->data[end] = below(w, 2) == 0 ? TF_ROUTES_STREAM : TF_ROUTES_DATAGRAM;
        }
    }
    config->first_seq = (uint64_t[]){0, 0, UINT64_MAX - 1000000, UINT64_C(1) << 32}[below(w, 4)];
    ends_start(&w->traffic->ends, configure);
}

static void set_up_flows(world *w)
{
    uint64_t most_messages = has(w, FAULT_TINY_WINDOW) ? 300 : 4000;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_time interval = (tf_time[]){300, 2000, 20000, 300000}[below(w, 4)];
        size_t most = (size_t[]){1, 100, 2000}[below(w, 3)];
        if (has(w, FAULT_BIG_MESSAGES)) {
            most = has(w, FAULT_TINY_WINDOW) ? 10000 : 100000;
            interval = 300 * TF_MS + interval;
        }
        uint64_t count = FAULTS_SPAN / interval;
        traffic_start(w->traffic, end, interval, count < most_messages ? count : most_messages,
                      below(w, 2) == 0 ? 0 : most, most);
    }
}

/* --- faults --- */

static void toggle_datagram_hole(world *w)
{
    unsigned end = (unsigned)below(w, 2);
    net *n = w->traffic->ends.net;
    net_path_of(n, end)->hole = !net_path_of(n, end)->hole;
    if (below(w, 2) == 0) {
        net_path_of(n, 1 - end)->hole = net_path_of(n, end)->hole;
    }
}

static void toggle_stream_hole(world *w)
{
    net *n = w->traffic->ends.net;
    unsigned end = (unsigned)below(w, 2);
    net_pipe *pipe = net_pipe_of(n, end);
    if (pipe->hole) {
        pipe->penalty = below(w, TF_SECOND);
        net_heal_stream(n, end);
        net_heal_stream(n, 1 - end);
        return;
    }
    pipe->hole = true;
    net_pipe_of(n, 1 - end)->hole = below(w, 2) == 0;
}

static void cut(world *w)
{
    const size_t keep[NET_ENDS] = {below(w, 3) == 0 ? SIZE_MAX : below(w, 30000), below(w, 3000)};
    const tf_time learns[NET_ENDS] = {below(w, 500 * TF_MS), below(w, 500 * TF_MS)};
    ends_cut(&w->traffic->ends, keep, learns);
}

static void one_fault(world *w)
{
    fault f = (fault)below(w, FAULT_COUNT);
    if (!has(w, f)) {
        return;
    }
    switch (f) {
    case FAULT_DATAGRAM_HOLE:
        toggle_datagram_hole(w);
        break;
    case FAULT_STREAM_HOLE:
        toggle_stream_hole(w);
        break;
    case FAULT_STREAM_CUT:
        cut(w);
        break;
    case FAULT_NO_DIAL:
        w->redial.closed = !w->redial.closed;
        break;
    case FAULT_KEYS:
        ends_keys(&w->traffic->ends);
        break;
    case FAULT_LOSS:
    case FAULT_REPEAT:
    case FAULT_LATE:
    case FAULT_JITTER:
    case FAULT_RATE:
    case FAULT_STREAM_RATE:
    case FAULT_TINY_WINDOW:
    case FAULT_BIG_MESSAGES:
    case FAULT_DATA_ROUTES:
    case FAULT_COUNT:
        break;
    }
}

static void program(traffic *t, uint64_t id)
{
    world *w = &now;
    if (id == TIMER_DIAL) {
        redial_timer(&w->redial);
        return;
    }
    if (w->on) {
        one_fault(w);
        traffic_at(t, net_now(t->ends.net) + 1 + below(w, 100 * TF_MS), TIMER_FAULT);
    }
}

static void heal(world *w)
{
    net *n = w->traffic->ends.net;
    w->on = false;
    w->redial.closed = false;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path *path = net_path_of(n, end);
        *path = (net_path){.delay = path->delay, .queue = SIZE_MAX};
        net_pipe *pipe = net_pipe_of(n, end);
        pipe->penalty = 0;
        pipe->rate = 0;
        pipe->buffer = 256u * 1024u;
        net_heal_stream(n, end);
    }
}

/* --- a run --- */

static void run_to(world *w, tf_time until)
{
    tf_time step = 10 * TF_MS;
    for (tf_time at = net_now(w->traffic->ends.net); at < until; at += step) {
        redial_look(&w->redial);
        ends_run(&w->traffic->ends, at + step);
    }
}

static void check_silence(world *w)
{
    ends *e = &w->traffic->ends;
    uint64_t before[NET_ENDS];
    uint64_t written[NET_ENDS];
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (!tf_link_is_quiet(e->end[end].link)) {
            fail(w, "the ring is not empty");
        }
        for (size_t route = 0; route < TF_ROUTE_COUNT; route++) {
            if (tf_link_verdict(e->end[end].link, (tf_route)route) != TF_VERDICT_UP) {
                fail(w, "a route is not up");
            }
        }
        before[end] = e->end[end].packets;
        written[end] = net_written(e->net, end);
    }
    run_to(w, net_now(e->net) + SILENT_SPAN);
    uint64_t keepalives = SILENT_SPAN / e->config.keepalive + 1;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (e->end[end].packets - before[end] > 4 * keepalives ||
            net_written(e->net, end) - written[end] > 200 * keepalives) {
            fail(w, "it does not fall silent");
        }
        if (e->end[end].heap.live_bytes > 20u * 1024u) {
            fail(w, "an idle link holds much memory");
        }
    }
}

static void summary(const world *w)
{
    const traffic *t = w->traffic;
    (void)printf(
        "seed %llu: %llu + %llu messages, %llu dials, %llu generations; faults:", (unsigned long long)t->ends.seed,
        (unsigned long long)t->flow[0].got, (unsigned long long)t->flow[1].got, (unsigned long long)w->redial.dials,
        (unsigned long long)t->ends.generation);
    for (unsigned f = 0; f < FAULT_COUNT; f++) {
        (void)printf("%s%s", has(w, (fault)f) ? " " : "", has(w, (fault)f) ? fault_names[f] : "");
    }
    (void)printf("\n");
    (void)fflush(stdout);
}

static uint64_t run(uint64_t seed, bool verbose)
{
    world *w = &now;
    *w = (world){.traffic = traffic_new(seed), .on = true};
    w->traffic->program = program;
    w->faults = (uint32_t)(below(w, 1u << FAULT_COUNT) & below(w, 1u << FAULT_COUNT));
    if (seed % 3 == 0) {
        w->faults |= (uint32_t)below(w, 1u << FAULT_COUNT);
    }
    set_up_network(w);
    set_up_links(w);
    redial_init(&w->redial, &w->traffic->ends, TIMER_DIAL);
    ends_connect(&w->traffic->ends);
    set_up_flows(w);
    traffic_at(w->traffic, net_now(w->traffic->ends.net), TIMER_FAULT);
    run_to(w, net_now(w->traffic->ends.net) + FAULTS_SPAN);
    heal(w);
    tf_time until = net_now(w->traffic->ends.net) + HEAL_SPAN;
    while (!traffic_is_done(w->traffic) || w->traffic->flow[0].on || w->traffic->flow[1].on) {
        if (net_now(w->traffic->ends.net) >= until) {
            fail(w, "messages do not arrive after the network has healed");
        }
        run_to(w, net_now(w->traffic->ends.net) + 100 * TF_MS);
    }
    run_to(w, net_now(w->traffic->ends.net) + SETTLE_SPAN);
    check_silence(w);
    if (verbose) {
        summary(w);
    }
    uint64_t trace = net_trace(w->traffic->ends.net);
    traffic_free(w->traffic);
    return trace;
}

int main(int argc, char **argv)
{
    uint64_t first = 1;
    uint64_t last = SEEDS_DEFAULT;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--verbose") == 0) {
            verbose = true;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            i++;
            first = strtoull(argv[i], &end, 10);
            last = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : first;
        } else {
            (void)fprintf(stderr, "usage: sim_link [--seeds A..B] [--verbose]\n");
            return 2;
        }
    }
    (void)printf("sim_link --seeds %llu..%llu\n", (unsigned long long)first, (unsigned long long)last);
    (void)fflush(stdout);
    for (uint64_t seed = first; seed <= last; seed++) {
        uint64_t trace = run(seed, verbose);
        if (run(seed, false) != trace) {
            (void)fprintf(stderr, "seed %llu: two runs differ\n", (unsigned long long)seed);
            return 1;
        }
    }
    (void)printf("%llu seeds, all well\n", (unsigned long long)(last - first + 1));
    return 0;
}
