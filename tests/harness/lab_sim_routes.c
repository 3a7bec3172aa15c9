/* Faults of the file as those of a simulated net. */
#include "tests/harness/forwarder.h"
#include "tests/harness/lab_sim.h"

#define OWN_DELAY 50u /* us: what loopback and a forwarder take */
#define MILLION 1000000u
#define UDP_HEADERS 28u
#define BITS 8u
#define PIPE_BYTES ((size_t)64 << 10)     /* of a socket's buffer, */
#define PIPE_BYTES_LATE ((size_t)1 << 20) /* which grows where bytes are long on their way */
#define TCP_TIMER (200 * TF_MS)
#define TCP_TIMER_MAX (120 * TF_SECOND)
#define CUT_WITHIN 4096u

/* The end of the net out of which a way leads: the client dials. */
static unsigned end_of(tf_scenario_way way)
{
    return way == TF_WAY_OUT ? 0 : 1;
}

static uint64_t rate_of(const uint64_t value[TF_FAULT_COUNT])
{
    uint64_t rate = value[TF_FAULT_RATE];
    return rate == 0 ? 0 : rate < BITS ? 1 : rate / BITS;
}

static size_t queue_of(const uint64_t value[TF_FAULT_COUNT])
{
    return value[TF_FAULT_QUEUE] != 0 ? (size_t)value[TF_FAULT_QUEUE] : TF_FWD_QUEUE_BYTES;
}

static void set_path(net_path *path, const uint64_t value[TF_FAULT_COUNT])
{
    uint64_t mtu = value[TF_FAULT_MTU];
    *path = (net_path){.of = MILLION,
                       .delay = OWN_DELAY + value[TF_FAULT_DELAY],
                       .jitter = value[TF_FAULT_JITTER],
                       .loss = (unsigned)value[TF_FAULT_LOSS],
                       .burst = (unsigned)value[TF_FAULT_BURST],
                       .repeat = (unsigned)value[TF_FAULT_REPEAT],
                       .rate = rate_of(value),
                       .queue = queue_of(value),
                       .bloat = value[TF_FAULT_BLOAT],
                       .mtu = mtu == 0            ? 0
                              : mtu > UDP_HEADERS ? (size_t)mtu - UDP_HEADERS
                                                  : 1};
    path->hole = (value[TF_FAULT_BLACKHOLE] | value[TF_FAULT_STALL] | value[TF_FAULT_CUT]) != 0;
}

/* TCP has tried at its timers, which double, since nothing got through; it goes on at the next one. */
static tf_time penalty_of(tf_time stuck_since, tf_time now)
{
    tf_time timer = TCP_TIMER;
    tf_time next = stuck_since == TF_NEVER ? now : stuck_since + timer;
    while (next < now) {
        timer = tf_time_min(2 * timer, TCP_TIMER_MAX);
        next += timer;
    }
    return next - now;
}

static void set_pipe(net *n, unsigned end, const uint64_t value[TF_FAULT_COUNT], tf_time now)
{
    net_pipe *pipe = net_pipe_of(n, end);
    bool hole = (value[TF_FAULT_BLACKHOLE] | value[TF_FAULT_STALL]) != 0;
    bool is_late = (value[TF_FAULT_DELAY] | value[TF_FAULT_JITTER] | value[TF_FAULT_LOSS] | value[TF_FAULT_RATE] |
                    value[TF_FAULT_BLOAT]) != 0;
    bool heals = pipe->hole && !hole;
    *pipe = (net_pipe){.of = MILLION,
                       .delay = OWN_DELAY + value[TF_FAULT_DELAY],
                       .jitter = value[TF_FAULT_JITTER],
                       .loss = (unsigned)value[TF_FAULT_LOSS],
                       .rate = rate_of(value),
                       .queue = queue_of(value),
                       .bloat = value[TF_FAULT_BLOAT],
                       .buffer = is_late ? PIPE_BYTES_LATE : PIPE_BYTES,
                       .hole = hole || heals};
    if (heals) {
        pipe->penalty = penalty_of(net_stuck_since(n, end), now);
        net_heal_stream(n, end);
    }
}

static void cut(bearer *b, tf_test_random *random)
{
    static const tf_time learns[NET_ENDS] = {OWN_DELAY, OWN_DELAY};
    size_t keep[NET_ENDS];
    for (unsigned end = 0; end < NET_ENDS; end++) {
        keep[end] = tf_test_random_below(random, CUT_WITHIN);
    }
    bearer_cut(b, keep, learns);
}

static bool is_cut(const tf_lab_sim_routes *r)
{
    return r->states[TF_ROUTE_STREAM][TF_WAY_OUT].value[TF_FAULT_CUT] != 0;
}

void tf_lab_sim_routes_apply(tf_lab_sim_routes *r, tf_route route, tf_scenario_way way, const tf_scenario_state *state,
                             tf_test_random *random, tf_time now)
{
    net *n = bearer_net(r->bearer);
    bool was_cut = is_cut(r);
    r->states[route][way] = *state;
    net_move(n, now);
    if (route == TF_ROUTE_DATAGRAM) {
        set_path(net_path_of(n, end_of(way)), state->value);
        return;
    }
    set_pipe(n, end_of(way), state->value, now);
    if (is_cut(r) && !was_cut) {
        cut(r->bearer, random);
    }
    tf_lab_sim_routes_close(r, r->is_closed);
}

void tf_lab_sim_routes_close(tf_lab_sim_routes *r, bool closed)
{
    r->is_closed = closed;
    bearer_set_closed(r->bearer, closed || is_cut(r));
}

void tf_lab_sim_routes_init(tf_lab_sim_routes *r, bearer *b)
{
    net *n = bearer_net(b);
    *r = (tf_lab_sim_routes){.bearer = b};
    for (int way = 0; way < TF_WAY_COUNT; way++) {
        unsigned end = end_of((tf_scenario_way)way);
        set_path(net_path_of(n, end), r->states[TF_ROUTE_DATAGRAM][way].value);
        set_pipe(n, end, r->states[TF_ROUTE_STREAM][way].value, net_now(n));
    }
}
