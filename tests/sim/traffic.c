#include "tests/sim/traffic.h"

#include <stdio.h>
#include <stdlib.h>

static void fail(const traffic *t, unsigned end, uint64_t number, const char *what)
{
    (void)fprintf(stderr, "seed %llu, to end %u, message %llu, at %llu us: %s\n", (unsigned long long)t->ends.seed, end,
                  (unsigned long long)number, (unsigned long long)net_now(t->ends.net), what);
    abort();
}

/* --- what a message is --- */

static uint64_t scramble(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static size_t message_size(const traffic_flow *flow, unsigned end, uint64_t number)
{
    uint64_t r = scramble(number * 2 + end + 1);
    return flow->size_min + (size_t)(r % (flow->size_max - flow->size_min + 1));
}

static void message_fill(unsigned end, uint64_t number, uint8_t *out, size_t len)
{
    uint64_t state = scramble(~number * 2 + end);
    for (size_t i = 0; i < len; i++) {
        if (i % 8 == 0) {
            state = scramble(state + i + 1);
        }
        out[i] = (uint8_t)(state >> (8 * (i % 8)));
    }
}

/* --- sending --- */

static bool send_one(traffic *t, unsigned end)
{
    traffic_flow *flow = &t->flow[end];
    size_t len = message_size(flow, end, flow->sent);
    uint8_t *message = malloc(len == 0 ? 1 : len);
    if (message == NULL) {
        abort();
    }
    message_fill(end, flow->sent, message, len);
    tf_err err = ends_queue(&t->ends, end, tf_slice_of(message, len));
    free(message);
    if (err == TF_ERR_AGAIN || err == TF_ERR_NOMEM) {
        return false;
    }
    if (err != TF_OK) {
        fail(t, 1 - end, flow->sent, tf_err_text(err));
    }
    flow->sent++;
    return true;
}

static void turn(void *ctx, unsigned end)
{
    traffic *t = ctx;
    traffic_flow *flow = &t->flow[end];
    while (flow->sent < flow->due && send_one(t, end)) {
    }
}

static void timer(void *ctx, unsigned end, uint64_t id)
{
    traffic *t = ctx;
    if (id >= 2) {
        t->program(t, id);
        return;
    }
    traffic_flow *flow = &t->flow[end];
    if (!flow->on || flow->due == flow->limit) {
        flow->on = false;
        return;
    }
    if (flow->due == flow->got) {
        flow->last_got = net_now(t->ends.net);
    }
    flow->due_at[flow->due % TRAFFIC_TIMES] = net_now(t->ends.net);
    flow->due++;
    tf_time next = net_now(t->ends.net) + flow->interval;
    if (flow->schedule != NULL && flow->due < flow->limit) {
        next = tf_time_max(net_now(t->ends.net), flow->schedule[flow->due]);
    }
    net_timer(t->ends.net, end, next, 1);
}

/* --- receiving --- */

static void message(void *ctx, unsigned end, tf_slice got, tf_route via)
{
    traffic *t = ctx;
    unsigned from = 1 - end;
    traffic_flow *flow = &t->flow[from];
    tf_time now = net_now(t->ends.net);
    if (flow->got >= flow->sent) {
        fail(t, end, flow->got, "a message that was not sent");
    }
    size_t len = message_size(flow, from, flow->got);
    uint8_t *expected = malloc(len == 0 ? 1 : len);
    if (expected == NULL) {
        abort();
    }
    message_fill(from, flow->got, expected, len);
    if (got.len != len || (len > 0 && memcmp(got.data, expected, len) != 0)) {
        fail(t, end, flow->got, "another message than the expected one");
    }
    free(expected);
    flow->longest_gap = tf_time_max(flow->longest_gap, now - flow->last_got);
    tf_time took = now - flow->due_at[flow->got % TRAFFIC_TIMES];
    flow->longest_late = tf_time_max(flow->longest_late, took);
    flow->late += took > flow->late_limit ? 1 : 0;
    flow->last_got = now;
    if (flow->arrived_at != NULL) {
        flow->arrived_at[flow->got] = now;
    }
    flow->got++;
    flow->via[via]++;
    net_mix(t->ends.net, flow->got * TF_ROUTE_COUNT + via);
}

/* --- running --- */

traffic *traffic_new(uint64_t seed)
{
    traffic *t = calloc(1, sizeof(*t));
    if (t == NULL) {
        abort();
    }
    const ends_handlers handlers = {.ctx = t, .message = message, .timer = timer, .turn = turn};
    ends_init(&t->ends, seed, &handlers);
    return t;
}

void traffic_free(traffic *t)
{
    ends_free(&t->ends);
    free(t);
}

void traffic_start(traffic *t, unsigned end, tf_time interval, uint64_t count, size_t size_min, size_t size_max)
{
    traffic_flow *flow = &t->flow[end];
    bool on = flow->on;
    flow->on = true;
    flow->interval = interval;
    flow->limit = count == UINT64_MAX ? UINT64_MAX : flow->due + count;
    flow->size_min = size_min;
    flow->size_max = size_max;
    flow->last_got = net_now(t->ends.net);
    if (!on) {
        net_timer(t->ends.net, end, net_now(t->ends.net), 1);
    }
}

void traffic_stop(traffic *t, unsigned end)
{
    t->flow[end].on = false;
}

void traffic_at(traffic *t, tf_time at, uint64_t id)
{
    net_timer(t->ends.net, 0, at, id);
}

bool traffic_is_done(const traffic *t)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (t->flow[end].got != t->flow[end].due) {
            return false;
        }
    }
    return true;
}

void traffic_measure(traffic *t)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        t->flow[end].longest_gap = 0;
        t->flow[end].longest_late = 0;
        t->flow[end].late = 0;
    }
}
