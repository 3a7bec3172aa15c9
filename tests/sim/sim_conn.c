/* Whole connections: two nodes with the random programs of sim_refs, whose messages go over two links and two lossy
 * routes that stall, break and come back, resumes after both were gone included. What sim_refs checks of references and
 * sim_link of links must hold together: messages in order once (P2, P6), nothing leaks or dangles (P5), and silence at the
 * end (P9).
 *
 *     sim_conn [--seeds A..B] [--verbose] */
#include <stdarg.h>
#include <stdlib.h>

#include "tests/sim/faults.h"
#include "tests/sim/refs/world.h"
#include "tests/sim/seeds.h"

#define SEEDS_DEFAULT 150u
#define TIMER_ACT 1u
#define TIMER_FAULT 2u
#define TIMER_DIAL 3u
#define TIMER_SESSION 4u
#define ACT_SPACING (60 * TF_MS) /* at most */
#define FAULTS_SPAN (12 * TF_SECOND)
#define QUIET_SPAN (300 * TF_SECOND)
#define ON_THE_WAY 65536u

typedef struct run_state {
    world world;
    ends ends;
    redial redial;
    faults faults;
    bool on; /* faults and programs go on */
    tf_time session_timer[NET_ENDS];
    uint64_t sums[NET_ENDS][ON_THE_WAY]; /* of messages sent and not yet come, by sender */
    uint64_t sent[NET_ENDS];
    uint64_t got[NET_ENDS];
} run_state;

static run_state now; /* the run that is going on: one at a time */

static void fail(run_state *c, const char *what)
{
    (void)fprintf(stderr, "seed %llu, at %llu us: %s; ", (unsigned long long)c->ends.seed,
                  (unsigned long long)net_now(c->ends.net), what);
    faults_print(&c->faults, stderr);
    ends_print(&c->ends, stderr);
    abort();
}

_Noreturn void world_fail(const world *w, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fprintf(stderr, "sim_conn: seed %llu: %s: ", (unsigned long long)w->plan.seed, what);
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\n");
    va_end(arguments);
    abort();
}

void world_say(const world *w, const char *format, ...)
{
    (void)w;
    (void)format;
}

/* --- one end --- */

static uint64_t sum_of(tf_slice bytes)
{
    uint64_t sum = bytes.len;
    for (size_t i = 0; i < bytes.len; i++) {
        sum = (sum ^ bytes.data[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

static conn_end *end_of(run_state *c, unsigned at)
{
    return &c->world.conns[0].ends[at];
}

static void message(void *ctx, unsigned at, tf_slice got, tf_route via)
{
    run_state *c = ctx;
    unsigned from = 1 - at;
    (void)via;
    if (c->got[from] == c->sent[from] || sum_of(got) != c->sums[from][c->got[from] % ON_THE_WAY]) {
        fail(c, "a message that was not sent, or not now");
    }
    c->got[from]++;
    c->world.now = net_now(c->ends.net);
    world_arrive(&c->world, end_of(c, at), got);
}

static void flush(run_state *c, unsigned at)
{
    tf_slice out;
    while (world_peek(end_of(c, at), &out)) {
        tf_err err = ends_queue(&c->ends, at, out);
        if (err == TF_ERR_AGAIN) {
            return;
        }
        if (err != TF_OK) {
            fail(c, tf_err_text(err));
        }
        c->sums[at][c->sent[at]++ % ON_THE_WAY] = sum_of(out);
        world_pop(end_of(c, at));
    }
}

/* What is due and what waits, whenever the end has its turn. */
static void turn(void *ctx, unsigned at)
{
    run_state *c = ctx;
    world_tick(&c->world, &c->world.nodes[at], net_now(c->ends.net));
    flush(c, at);
    tf_time due = world_deadline(&c->world, &c->world.nodes[at]);
    if (due != TF_NEVER && due != c->session_timer[at]) {
        c->session_timer[at] = due;
        net_timer(c->ends.net, at, tf_time_max(due, c->world.now), TIMER_SESSION);
    }
}

static uint64_t below(run_state *c, uint64_t bound)
{
    return tf_test_random_below(net_random(c->ends.net), bound);
}

/* One thing that an application does. */
static void act(run_state *c, unsigned at)
{
    const plan *p = &c->world.plan;
    unsigned total = 0;
    for (unsigned i = OP_SEND; i <= OP_REVOKE; i++) {
        total += p->weights[i];
    }
    uint64_t drawn = below(c, total);
    unsigned chosen = OP_SEND;
    for (; drawn >= p->weights[chosen]; chosen++) {
        drawn -= p->weights[chosen];
    }
    step s = {.op = (op)chosen, .pick = at, .salt = (uint32_t)below(c, UINT32_MAX)};
    world_step(&c->world, &s);
}

static void timer(void *ctx, unsigned at, uint64_t id)
{
    run_state *c = ctx;
    c->world.now = net_now(c->ends.net);
    if (id == TIMER_DIAL) {
        redial_timer(&c->redial);
    }
    if (!c->on || (id != TIMER_ACT && id != TIMER_FAULT)) {
        return;
    }
    if (id == TIMER_FAULT) {
        faults_one(&c->faults);
        net_timer(c->ends.net, at, c->world.now + 1 + below(c, 100 * TF_MS), id);
    } else {
        act(c, at);
        net_timer(c->ends.net, at, c->world.now + 1 + below(c, ACT_SPACING), id);
    }
}

/* --- a run --- */

static void configure(tf_link_config *config, unsigned at)
{
    config->send_data = now.faults.data[at];
    config->recv_data = now.faults.data[1 - at];
    config->standby = now.faults.standby[at];
}

static void run_for(run_state *c, tf_time span)
{
    tf_time until = net_now(c->ends.net) + span;
    while (net_now(c->ends.net) < until) {
        redial_look(&c->redial);
        ends_run_for(&c->ends, 10 * TF_MS);
    }
}

static bool is_quiet(run_state *c)
{
    for (unsigned at = 0; at < NET_ENDS; at++) {
        tf_slice out;
        if (!tf_link_is_quiet(c->ends.end[at].link) || world_peek(end_of(c, at), &out) ||
            world_deadline(&c->world, &c->world.nodes[at]) != TF_NEVER) {
            return false;
        }
    }
    return true;
}

static void settle(void *ctx)
{
    run_state *c = ctx;
    tf_time until = net_now(c->ends.net) + QUIET_SPAN;
    for (unsigned at = 0; at < NET_ENDS; at++) {
        flush(c, at);
        ends_pull(&c->ends, at);
    }
    while (!is_quiet(c)) {
        if (net_now(c->ends.net) >= until) {
            fail(c, "it does not fall silent");
        }
        run_for(c, 50 * TF_MS);
    }
    c->world.now = net_now(c->ends.net);
}

static uint64_t run(uint64_t seed, bool verbose)
{
    run_state *c = &now;
    memset(c, 0, sizeof(*c));
    c->on = true;
    plan p;
    plan_make(&p, seed, SHAPE_XY, false);
    world_init(&c->world, &p, false);
    c->world.settle = settle;
    c->world.settle_ctx = c;
    const ends_handlers handlers = {.ctx = c, .message = message, .timer = timer, .turn = turn};
    ends_init(&c->ends, seed, &handlers);
    redial_init(&c->redial, &c->ends, TIMER_DIAL);
    faults_draw(&c->faults, &c->ends, &c->redial);
    ends_start(&c->ends, configure);
    ends_connect(&c->ends);
    for (unsigned at = 0; at < NET_ENDS; at++) {
        net_timer(c->ends.net, at, net_now(c->ends.net), TIMER_ACT);
    }
    net_timer(c->ends.net, 0, net_now(c->ends.net), TIMER_FAULT);
    run_for(c, FAULTS_SPAN);
    c->on = false;
    faults_heal(&c->faults);
    world_end(&c->world);
    net_mix(c->ends.net, c->world.trace);
    uint64_t trace = net_trace(c->ends.net);
    if (verbose) {
        (void)printf("seed %llu: %llu + %llu messages, %llu dials, %llu generations; ", (unsigned long long)seed,
                     (unsigned long long)c->got[0], (unsigned long long)c->got[1], (unsigned long long)c->redial.dials,
                     (unsigned long long)c->ends.generation);
        faults_print(&c->faults, stdout);
    }
    ends_free(&c->ends);
    world_free(&c->world);
    return trace;
}

int main(int argc, char **argv)
{
    seeds asked = {.first = 1, .last = SEEDS_DEFAULT};
    if (!seeds_parse(&asked, "sim_conn", argc, argv)) {
        return 2;
    }
    (void)printf("sim_conn --seeds %llu..%llu\n", (unsigned long long)asked.first, (unsigned long long)asked.last);
    (void)fflush(stdout);
    for (uint64_t seed = asked.first; seed <= asked.last; seed++) {
        uint64_t trace = run(seed, asked.verbose);
        if (run(seed, false) != trace) {
            (void)fprintf(stderr, "seed %llu: two runs differ\n", (unsigned long long)seed);
            return 1;
        }
    }
    (void)printf("sim_conn: all well\n");
    return 0;
}
