/* Random programs of two hosts over proto/session, each direction delayed at will.
 *
 *     sim_session [--seeds A..B] [--steps N]
 *
 * Each seed is a world: it is run twice, and both runs must do the same. Steps are random; then either the connection is
 * lost for good in the middle of it (D14), or everything is delivered, both sides fall silent, let go of all they have,
 * fall silent again, and must be empty (P5, P9). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/session_host.h"

#define QUIET_STEPS 1000000u

typedef struct line {
    uint8_t *bytes;
    size_t capacity;
    size_t head;
    size_t tail;
} line;

typedef struct run {
    sim_world world;
    line to[2];
    size_t messages;
} run;

typedef struct options {
    uint64_t first;
    uint64_t last;
    size_t steps;
} options;

/* Takes what `from` wants to send to the line, at most `most` messages. */
static size_t flush(run *r, int from, size_t most)
{
    sim_world *w = &r->world;
    line *l = &r->to[1 - from];
    size_t count = 0;
    for (tf_slice out; count < most && tf_session_peek_out(w->host[from].session, &out); count++) {
        size_t len = out.len;
        l->bytes = sim_grow(w, l->bytes, &l->capacity, l->tail + sizeof(len) + len, 1);
        memcpy(l->bytes + l->tail, &len, sizeof(len));
        memcpy(l->bytes + l->tail + sizeof(len), out.data, len);
        l->tail += sizeof(len) + len;
        tf_session_pop_out(w->host[from].session);
    }
    r->messages += count;
    return count;
}

static bool receive(run *r, int side)
{
    line *l = &r->to[side];
    if (l->head == l->tail) {
        return false;
    }
    size_t len = 0;
    memcpy(&len, l->bytes + l->head, sizeof(len));
    tf_slice message = tf_slice_of(l->bytes + l->head + sizeof(len), len);
    sim_trace(&r->world, message.data, len);
    uint8_t *exact = tf_test_exact(message);
    sim_host_turn(&r->world, side, tf_slice_of(exact, len));
    free(exact);
    l->head += sizeof(len) + len;
    if (l->head == l->tail) {
        l->head = 0;
        l->tail = 0;
    }
    return true;
}

static bool tick(run *r, int side)
{
    sim_world *w = &r->world;
    if (tf_session_deadline(w->host[side].session) > w->now) {
        return false;
    }
    tf_err err = tf_session_tick(w->host[side].session, w->now);
    SIM_CHECK(w, err == TF_OK, tf_err_text(err));
    return true;
}

static void step(run *r)
{
    sim_world *w = &r->world;
    int side = (int)sim_below(w, 2);
    switch (sim_below(w, 8)) {
    case 0:
    case 1:
    case 2:
        sim_host_act(w, side);
        break;
    case 3:
        (void)flush(r, side, 1 + sim_below(w, 8));
        break;
    case 4:
    case 5:
    case 6:
        (void)receive(r, side);
        break;
    default:
        w->now += sim_below(w, 10) * TF_MS;
        if (tf_session_has_events(w->host[side].session)) {
            sim_host_turn(w, side, tf_slice_of(NULL, 0));
        }
        (void)tick(r, side);
        break;
    }
    sim_check(w);
}

/* Until nothing moves and no time is waited for. */
static void settle(run *r)
{
    sim_world *w = &r->world;
    for (size_t steps = 0; steps < QUIET_STEPS; steps++) {
        bool busy = false;
        tf_time next = TF_NEVER;
        for (int i = 0; i < 2; i++) {
            if (tf_session_has_events(w->host[i].session)) {
                sim_host_turn(w, i, tf_slice_of(NULL, 0));
                busy = true;
            }
            busy = flush(r, i, SIZE_MAX) > 0 || busy;
            busy = receive(r, i) || busy;
            next = tf_time_min(next, tf_session_deadline(w->host[i].session));
        }
        if (!busy && next == TF_NEVER) {
            return;
        }
        if (!busy) {
            w->now = tf_time_max(w->now, next);
            (void)tick(r, 0);
            (void)tick(r, 1);
        }
    }
    sim_fail(w, "never silent", __LINE__);
}

/* Resolves what is owed, lets go of everything. */
static void wind_down(run *r)
{
    sim_world *w = &r->world;
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < 2; i++) {
            while (sim_host_settle_one(w, i)) {
                busy = true;
            }
        }
        settle(r);
    }
    sim_check_quiet(w, false);
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < 2; i++) {
            while (sim_host_forget_one(w, i)) {
                busy = true;
            }
        }
        settle(r);
        sim_host_break_cycles(w, 0);
        sim_host_break_cycles(w, 1);
        settle(r);
    }
    sim_check_quiet(w, true);
}

static uint64_t run_seed(uint64_t seed, size_t steps, size_t *messages)
{
    static run r;
    r = (run){.messages = 0};
    sim_world *w = &r.world;
    sim_world_init(w, seed);
    bool lost = sim_chance(w, 2);
    steps = 1 + sim_below(w, steps);
    for (size_t i = 0; i < steps; i++) {
        step(&r);
    }
    w->host[0].closing = true;
    w->host[1].closing = true;
    if (lost) {
        sim_host_end(w, 0);
        sim_host_end(w, 1);
    } else {
        settle(&r);
        sim_check_quiet(w, false);
        wind_down(&r);
    }
    sim_world_free(w);
    free(r.to[0].bytes);
    free(r.to[1].bytes);
    *messages += r.messages;
    return w->trace;
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        char *end = NULL;
        if (strcmp(argv[i], "--seeds") == 0) {
            o->first = strtoull(argv[i + 1], &end, 10);
            o->last = o->first;
            if (strncmp(end, "..", 2) == 0) {
                o->last = strtoull(end + 2, &end, 10);
            }
        } else if (strcmp(argv[i], "--steps") == 0) {
            o->steps = (size_t)strtoull(argv[i + 1], &end, 10);
        }
        if (end == NULL || *end != '\0') {
            return false;
        }
    }
    return argc % 2 == 1 && o->steps > 0 && o->last >= o->first;
}

int main(int argc, char **argv)
{
    options o = {.first = 1, .last = 500, .steps = 1500};
    if (!parse(argc, argv, &o)) {
        (void)fprintf(stderr, "usage: sim_session [--seeds A..B] [--steps N]\n");
        return 2;
    }
    (void)printf("sim_session: seeds %" PRIu64 "..%" PRIu64 ", up to %zu steps\n", o.first, o.last, o.steps);
    (void)fflush(stdout);
    size_t messages = 0;
    for (uint64_t seed = o.first; seed <= o.last; seed++) {
        uint64_t trace = run_seed(seed, o.steps, &messages);
        if (run_seed(seed, o.steps, &messages) != trace) {
            (void)fprintf(stderr, "sim_session: seed %" PRIu64 ": two runs differ\n", seed);
            return 1;
        }
    }
    (void)printf("sim_session: %zu messages, nothing broken\n", messages);
    return 0;
}
