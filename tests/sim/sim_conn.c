/* Whole connections: two sessions with random programs on top of two links, over two lossy routes that stall, break and
 * come back, resumes after both were gone included. What sim_session checks of the sessions and sim_link of the links must
 * hold together: messages in order once (P2, P6), nothing leaks or dangles (P5), and silence at the end (P9).
 *
 *     sim_conn [--seeds A..B] [--verbose] */
#include <stdlib.h>

#include "tests/sim/faults.h"
#include "tests/sim/seeds.h"
#include "tests/sim/session_host.h"

#define SEEDS_DEFAULT 150u
#define TIMER_ACT 1u
#define TIMER_FAULT 2u
#define TIMER_DIAL 3u
#define TIMER_SESSION 4u
#define ACT_SPACING (60 * TF_MS) /* at most */
#define FAULTS_SPAN (12 * TF_SECOND)
#define QUIET_SPAN (300 * TF_SECOND)
#define ON_THE_WAY 65536u

typedef struct conn {
    sim_world world;
    ends ends;
    redial redial;
    faults faults;
    bool on; /* faults and programs go on */
    tf_time session_timer[NET_ENDS];
    uint64_t sums[NET_ENDS][ON_THE_WAY]; /* of messages sent and not yet come, by sender */
    uint64_t sent[NET_ENDS];
    uint64_t got[NET_ENDS];
} conn;

static conn now; /* the run that is going on: one at a time */

static void fail(conn *c, const char *what)
{
    (void)fprintf(stderr, "seed %llu, at %llu us: %s; ", (unsigned long long)c->ends.seed,
                  (unsigned long long)net_now(c->ends.net), what);
    faults_print(&c->faults, stderr);
    ends_print(&c->ends, stderr);
    abort();
}

/* --- one end --- */

static void session_turn(conn *c, unsigned end, tf_slice message)
{
    c->world.now = net_now(c->ends.net);
    sim_host_turn(&c->world, (int)end, message);
    sim_check(&c->world);
}

static uint64_t sum_of(tf_slice bytes)
{
    uint64_t sum = bytes.len;
    for (size_t i = 0; i < bytes.len; i++) {
        sum = (sum ^ bytes.data[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

static void message(void *ctx, unsigned end, tf_slice got, tf_route via)
{
    conn *c = ctx;
    unsigned from = 1 - end;
    (void)via;
    if (c->got[from] == c->sent[from] || sum_of(got) != c->sums[from][c->got[from] % ON_THE_WAY]) {
        fail(c, "a message that was not sent, or not now");
    }
    c->got[from]++;
    sim_trace(&c->world, got.data, got.len);
    session_turn(c, end, got);
}

static void flush(conn *c, unsigned end)
{
    tf_session *session = c->world.host[end].session;
    tf_slice out;
    while (tf_session_peek_out(session, &out)) {
        tf_err err = ends_queue(&c->ends, end, out);
        if (err == TF_ERR_AGAIN) {
            return;
        }
        if (err != TF_OK) {
            fail(c, tf_err_text(err));
        }
        c->sums[end][c->sent[end]++ % ON_THE_WAY] = sum_of(out);
        tf_session_pop_out(session);
    }
}

/* What is due and what waits, whenever the end has its turn. */
static void turn(void *ctx, unsigned end)
{
    conn *c = ctx;
    tf_session *session = c->world.host[end].session;
    c->world.now = net_now(c->ends.net);
    while (tf_session_has_events(session)) {
        session_turn(c, end, tf_slice_of(NULL, 0));
    }
    if (tf_session_deadline(session) <= c->world.now && tf_session_tick(session, c->world.now) != TF_OK) {
        fail(c, "tf_session_tick");
    }
    flush(c, end);
    tf_time due = tf_session_deadline(session);
    if (due != TF_NEVER && due != c->session_timer[end]) {
        c->session_timer[end] = due;
        net_timer(c->ends.net, end, tf_time_max(due, c->world.now), TIMER_SESSION);
    }
}

static uint64_t below(conn *c, uint64_t bound)
{
    return tf_test_random_below(net_random(c->ends.net), bound);
}

static void timer(void *ctx, unsigned end, uint64_t id)
{
    conn *c = ctx;
    c->world.now = net_now(c->ends.net);
    if (id == TIMER_DIAL) {
        redial_timer(&c->redial);
    }
    if (!c->on || (id != TIMER_ACT && id != TIMER_FAULT)) {
        return;
    }
    if (id == TIMER_FAULT) {
        faults_one(&c->faults);
        net_timer(c->ends.net, end, c->world.now + 1 + below(c, 100 * TF_MS), id);
    } else {
        sim_host_act(&c->world, (int)end);
        sim_check(&c->world);
        net_timer(c->ends.net, end, c->world.now + 1 + below(c, ACT_SPACING), id);
    }
}

/* --- a run --- */

static void configure(tf_link_config *config, unsigned end)
{
    config->send_data = now.faults.data[end];
    config->recv_data = now.faults.data[1 - end];
    config->standby = now.faults.standby[end];
}

static void run_for(conn *c, tf_time span)
{
    tf_time until = net_now(c->ends.net) + span;
    while (net_now(c->ends.net) < until) {
        redial_look(&c->redial);
        ends_run_for(&c->ends, 10 * TF_MS);
    }
}

static bool is_quiet(conn *c)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_session *session = c->world.host[end].session;
        tf_slice out;
        if (!tf_link_is_quiet(c->ends.end[end].link) || tf_session_peek_out(session, &out) ||
            tf_session_has_events(session) || tf_session_deadline(session) != TF_NEVER) {
            return false;
        }
    }
    return true;
}

static void settle(conn *c)
{
    tf_time until = net_now(c->ends.net) + QUIET_SPAN;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        ends_pull(&c->ends, end);
    }
    while (!is_quiet(c)) {
        if (net_now(c->ends.net) >= until) {
            fail(c, "it does not fall silent");
        }
        run_for(c, 50 * TF_MS);
    }
    c->world.now = net_now(c->ends.net);
}

/* As in sim_session: resolves what is owed, lets go of everything; nothing may be left. */
static void wind_down(conn *c)
{
    sim_world *w = &c->world;
    settle(c);
    sim_check_quiet(w, false);
    for (bool busy = true; busy; settle(c)) {
        bool first = sim_host_settle_one(w, 0);
        bool second = sim_host_settle_one(w, 1);
        busy = first || second;
    }
    sim_check_quiet(w, false);
    for (bool busy = true; busy;) {
        bool first = sim_host_forget_one(w, 0);
        bool second = sim_host_forget_one(w, 1);
        busy = first || second;
        if (!busy) {
            settle(c);
            sim_host_break_cycles(w, 0);
            sim_host_break_cycles(w, 1);
            settle(c);
        }
    }
    sim_check_quiet(w, true);
}

static uint64_t run(uint64_t seed, bool verbose)
{
    conn *c = &now;
    memset(c, 0, sizeof(*c));
    c->on = true;
    sim_world_init(&c->world, seed);
    const ends_handlers handlers = {.ctx = c, .message = message, .timer = timer, .turn = turn};
    ends_init(&c->ends, seed, &handlers);
    redial_init(&c->redial, &c->ends, TIMER_DIAL);
    faults_draw(&c->faults, &c->ends, &c->redial);
    ends_start(&c->ends, configure);
    ends_connect(&c->ends);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_timer(c->ends.net, end, net_now(c->ends.net), TIMER_ACT);
    }
    net_timer(c->ends.net, 0, net_now(c->ends.net), TIMER_FAULT);
    run_for(c, FAULTS_SPAN);
    c->on = false;
    c->world.host[0].closing = true;
    c->world.host[1].closing = true;
    faults_heal(&c->faults);
    wind_down(c);
    net_mix(c->ends.net, c->world.trace);
    uint64_t trace = net_trace(c->ends.net);
    if (verbose) {
        (void)printf("seed %llu: %llu + %llu messages, %llu dials, %llu generations; ", (unsigned long long)seed,
                     (unsigned long long)c->got[0], (unsigned long long)c->got[1], (unsigned long long)c->redial.dials,
                     (unsigned long long)c->ends.generation);
        faults_print(&c->faults, stdout);
    }
    ends_free(&c->ends);
    sim_world_free(&c->world);
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
