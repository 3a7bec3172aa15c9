/* Two links on a faulty network, one run a seed. Each seed turns on its own subset of faults and draws its own windows,
 * sizes and rates. While faults are on, every event is checked (P2: each message once, in order, none invented; P7: no
 * more is held than the windows allow; ends.c). Then the network heals: everything must arrive, and then it must fall
 * silent (P9). Every seed runs twice and both traces must be the same.
 *
 *     sim_link [--seeds A..B] [--verbose] */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/faults.h"
#include "tests/sim/seeds.h"
#include "tests/sim/traffic.h"

#define SEEDS_DEFAULT 90u
#define TIMER_FAULT 2u
#define TIMER_DIAL 3u
#define FAULTS_SPAN (12 * TF_SECOND)
#define HEAL_SPAN (120 * TF_SECOND)
#define SETTLE_SPAN (70 * TF_SECOND)
#define SILENT_SPAN (60 * TF_SECOND)

typedef struct world {
    traffic *traffic;
    redial redial;
    faults faults;
    bool on; /* faults go on */
} world;

static world now; /* the run that is going on: one at a time */

static uint64_t below(world *w, uint64_t bound)
{
    return tf_test_random_below(net_random(w->traffic->ends.net), bound);
}

static void fail(const world *w, const char *what)
{
    (void)fprintf(stderr, "seed %llu, at %llu us: %s; ", (unsigned long long)w->traffic->ends.seed,
                  (unsigned long long)net_now(w->traffic->ends.net), what);
    faults_print(&w->faults, stderr);
    ends_print(&w->traffic->ends, stderr);
    abort();
}

static void configure(tf_link_config *config, unsigned end)
{
    config->send_data = now.faults.data[end];
    config->recv_data = now.faults.data[1 - end];
    config->standby = now.faults.standby[end];
}

static void set_up_flows(world *w)
{
    uint64_t most_messages = faults_has(&w->faults, FAULT_TINY_WINDOW) ? 200 : 4000;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_time interval = (tf_time[]){300, 2000, 20000, 300000}[below(w, 4)];
        size_t most = (size_t[]){1, 100, 2000}[below(w, 3)];
        if (faults_has(&w->faults, FAULT_BIG_MESSAGES)) {
            most = faults_has(&w->faults, FAULT_TINY_WINDOW) ? 10000 : 100000;
            interval = 300 * TF_MS + interval;
        }
        uint64_t count = FAULTS_SPAN / interval;
        traffic_start(w->traffic, end, interval, count < most_messages ? count : most_messages,
                      below(w, 2) == 0 ? 0 : most, most);
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
        faults_one(&w->faults);
        traffic_at(t, net_now(t->ends.net) + 1 + below(w, 100 * TF_MS), TIMER_FAULT);
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
        if (e->end[end].heap.live_bytes > (size_t)20 * 1024) {
            fail(w, "an idle link holds much memory");
        }
    }
}

static void summary(const world *w)
{
    const traffic *t = w->traffic;
    (void)printf("seed %llu: %llu + %llu messages, %llu dials, %llu generations; ", (unsigned long long)t->ends.seed,
                 (unsigned long long)t->flow[0].got, (unsigned long long)t->flow[1].got,
                 (unsigned long long)w->redial.dials, (unsigned long long)t->ends.generation);
    faults_print(&w->faults, stdout);
    (void)fflush(stdout);
}

static uint64_t run(uint64_t seed, bool verbose)
{
    world *w = &now;
    *w = (world){.traffic = traffic_new(seed), .on = true};
    w->traffic->program = program;
    redial_init(&w->redial, &w->traffic->ends, TIMER_DIAL);
    faults_draw(&w->faults, &w->traffic->ends, &w->redial);
    ends_start(&w->traffic->ends, configure);
    ends_connect(&w->traffic->ends);
    set_up_flows(w);
    traffic_at(w->traffic, net_now(w->traffic->ends.net), TIMER_FAULT);
    run_to(w, net_now(w->traffic->ends.net) + FAULTS_SPAN);
    w->on = false;
    faults_heal(&w->faults);
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
    seeds asked = {.first = 1, .last = SEEDS_DEFAULT};
    if (!seeds_parse(&asked, "sim_link", argc, argv)) {
        return 2;
    }
    (void)printf("sim_link --seeds %llu..%llu\n", (unsigned long long)asked.first, (unsigned long long)asked.last);
    (void)fflush(stdout);
    for (uint64_t seed = asked.first; seed <= asked.last; seed++) {
        uint64_t trace = run(seed, asked.verbose);
        if (run(seed, false) != trace) {
            (void)fprintf(stderr, "seed %llu: two runs differ\n", (unsigned long long)seed);
            return 1;
        }
    }
    (void)printf("sim_link: all well\n");
    return 0;
}
