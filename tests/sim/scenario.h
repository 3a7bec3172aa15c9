/* What the named scenarios of the link share: two ends on a network that is changed by hand. One at a time. */
#ifndef TF_TESTS_SIM_SCENARIO_H
#define TF_TESTS_SIM_SCENARIO_H

#include "tests/sim/redial.h"
#include "tests/sim/traffic.h"
#include "tests/support/check_main.h"

#define RATE_INTERVAL 500 /* 2000 messages a second */
#define MESSAGE 100u
#define TIMER_DIAL 3u

static traffic *t;
static redial dialler;

/* --- set-up --- */

static inline void program(traffic *unused, uint64_t id)
{
    (void)unused;
    ck_assert_uint_eq(id, TIMER_DIAL);
    redial_timer(&dialler);
}

static inline void make(tf_time rtt)
{
    t = traffic_new(1);
    t->program = program;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(t->ends.net, end)->delay = rtt / 2;
        net_pipe_of(t->ends.net, end)->delay = rtt / 2;
        net_pipe_of(t->ends.net, end)->buffer = (size_t)256 * 1024;
    }
    redial_init(&dialler, &t->ends, TIMER_DIAL);
}

static inline void start(tf_time rtt)
{
    make(rtt);
    ends_start(&t->ends, NULL);
    ends_connect(&t->ends);
    ends_run_for(&t->ends, 300 * TF_MS);
}

static inline void flow(void)
{
    traffic_start(t, 0, RATE_INTERVAL, UINT64_MAX, MESSAGE, MESSAGE);
}

static inline void loss(unsigned permille)
{
    net_path_of(t->ends.net, 0)->loss = permille;
    net_path_of(t->ends.net, 1)->loss = permille;
}

static inline void stream_hole(bool on)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (on) {
            net_pipe_of(t->ends.net, end)->hole = true;
        } else {
            net_heal_stream(t->ends.net, end);
        }
    }
}

static inline void datagram_hole(bool on)
{
    net_path_of(t->ends.net, 0)->hole = on;
    net_path_of(t->ends.net, 1)->hole = on;
}

static inline void run_redialling(tf_time span)
{
    tf_time until = net_now(t->ends.net) + span;
    while (net_now(t->ends.net) < until) {
        redial_look(&dialler);
        ends_run_for(&t->ends, 10 * TF_MS);
    }
}

static inline tf_verdict verdict(unsigned end, tf_route route)
{
    return tf_link_verdict(t->ends.end[end].link, route);
}

static inline tf_route_stats stats(unsigned end, tf_route route)
{
    tf_link_stats all;
    tf_link_get_stats(t->ends.end[end].link, &all);
    return all.routes[route];
}

/* Stops the flows; everything must arrive within `span`. */
static inline void finish(tf_time span)
{
    traffic_stop(t, 0);
    traffic_stop(t, 1);
    run_redialling(span);
    ck_assert(traffic_is_done(t));
    ck_assert(tf_link_is_quiet(t->ends.end[0].link));
    traffic_free(t);
}

#endif
