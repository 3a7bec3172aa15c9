#include "tests/sim/faults.h"

static const char *const fault_names[FAULT_COUNT] = {
    "loss",        "repeat",  "late", "jitter",      "rate",         "datagram-hole", "stream-hole", "stream-cut",
    "stream-rate", "no-dial", "keys", "tiny-window", "big-messages", "data-routes",   "mtu",         "standby"};

static uint64_t below(faults *f, uint64_t bound)
{
    return tf_test_random_below(net_random(f->ends->net), bound);
}

bool faults_has(const faults *f, fault kind)
{
    return (f->set & (1u << kind)) != 0;
}

void faults_print(const faults *f, FILE *to)
{
    (void)fprintf(to, "faults:");
    for (unsigned kind = 0; kind < FAULT_COUNT; kind++) {
        if (faults_has(f, (fault)kind)) {
            (void)fprintf(to, " %s", fault_names[kind]);
        }
    }
    (void)fprintf(to, "\n");
}

/* --- the network of a seed --- */

/* Mostly one that takes base packets. */
static void change_mtu(faults *f, unsigned end)
{
    size_t lowest = below(f, 8) == 0 ? 300 : TF_PACKET_BASE;
    net_path_of(f->ends->net, end)->mtu = below(f, 3) == 0 ? 0 : lowest + below(f, TF_PACKET_MAX - lowest);
}

static void set_up_network(faults *f)
{
    net *n = f->ends->net;
    tf_time delay = (tf_time[]){50, 500, 5000, 10000, 60000}[below(f, 5)];
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path *path = net_path_of(n, end);
        net_pipe *pipe = net_pipe_of(n, end);
        *path = (net_path){.delay = delay + below(f, delay), .queue = SIZE_MAX};
        *pipe = (net_pipe){.delay = delay + below(f, delay), .buffer = (size_t)2048 << below(f, 7)};
        path->loss = faults_has(f, FAULT_LOSS) ? (unsigned)below(f, 300) : 0;
        path->repeat = faults_has(f, FAULT_REPEAT) ? (unsigned)below(f, 300) : 0;
        path->late = faults_has(f, FAULT_LATE) ? (unsigned)below(f, 200) : 0;
        path->late_by = below(f, 8 * delay);
        if (faults_has(f, FAULT_MTU)) {
            change_mtu(f, end);
        }
        path->jitter = faults_has(f, FAULT_JITTER) ? below(f, 4 * delay) + 1 : 0;
        if (faults_has(f, FAULT_RATE)) {
            path->rate = 20000 + below(f, 400000);
            path->queue = 4000 + below(f, 60000);
        }
        if (faults_has(f, FAULT_STREAM_RATE)) {
            pipe->rate = 20000 + below(f, 400000);
        }
    }
}

static void set_up_links(faults *f)
{
    tf_link_config *config = &f->ends->config;
    if (faults_has(f, FAULT_TINY_WINDOW)) {
        config->recv_window_segments = 2 + (uint32_t)below(f, 30);
        config->recv_window_bytes = TF_SEGMENT_DATA_MAX + (uint32_t)below(f, 20000);
        config->send_window_segments = config->recv_window_segments;
        config->send_window_bytes = config->recv_window_bytes;
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        f->data[end] = TF_ROUTES_BOTH;
        if (faults_has(f, FAULT_DATA_ROUTES) && below(f, 2) == 0) {
            f->data[end] = below(f, 2) == 0 ? TF_ROUTES_STREAM : TF_ROUTES_DATAGRAM;
        }
        if (faults_has(f, FAULT_STANDBY) && below(f, 3) > 0) {
            f->standby[end] = below(f, 2) == 0 ? TF_ROUTES_STREAM : TF_ROUTES_DATAGRAM;
        }
    }
    config->first_seq = (uint64_t[]){0, 0, UINT64_MAX - 1000000, UINT64_C(1) << 32}[below(f, 4)];
}

void faults_draw(faults *f, ends *e, redial *r)
{
    *f = (faults){.ends = e, .redial = r};
    f->set = (uint32_t)(below(f, 1u << FAULT_COUNT) & below(f, 1u << FAULT_COUNT));
    if (below(f, 3) == 0) {
        f->set |= (uint32_t)below(f, 1u << FAULT_COUNT);
    }
    set_up_network(f);
    set_up_links(f);
}

/* --- one after the other --- */

static void toggle_datagram_hole(faults *f)
{
    unsigned end = (unsigned)below(f, 2);
    net *n = f->ends->net;
    net_path_of(n, end)->hole = !net_path_of(n, end)->hole;
    if (below(f, 2) == 0) {
        net_path_of(n, 1 - end)->hole = net_path_of(n, end)->hole;
    }
}

static void toggle_stream_hole(faults *f)
{
    net *n = f->ends->net;
    unsigned end = (unsigned)below(f, 2);
    net_pipe *pipe = net_pipe_of(n, end);
    if (pipe->hole) {
        pipe->penalty = below(f, TF_SECOND);
        net_heal_stream(n, end);
        net_heal_stream(n, 1 - end);
        return;
    }
    pipe->hole = true;
    net_pipe_of(n, 1 - end)->hole = below(f, 2) == 0;
}

static void cut(faults *f)
{
    const size_t keep[NET_ENDS] = {below(f, 3) == 0 ? SIZE_MAX : below(f, 30000), below(f, 3000)};
    const tf_time learns[NET_ENDS] = {below(f, 500 * TF_MS), below(f, 500 * TF_MS)};
    ends_cut(f->ends, keep, learns);
}

void faults_one(faults *f)
{
    fault kind = (fault)below(f, FAULT_COUNT);
    if (!faults_has(f, kind)) {
        return;
    }
    switch (kind) {
    case FAULT_DATAGRAM_HOLE:
        toggle_datagram_hole(f);
        break;
    case FAULT_STREAM_HOLE:
        toggle_stream_hole(f);
        break;
    case FAULT_STREAM_CUT:
        cut(f);
        break;
    case FAULT_NO_DIAL:
        f->redial->closed = !f->redial->closed;
        break;
    case FAULT_KEYS:
        ends_keys(f->ends);
        break;
    case FAULT_MTU:
        change_mtu(f, (unsigned)below(f, NET_ENDS));
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
    case FAULT_STANDBY:
    case FAULT_COUNT:
        break;
    }
}

void faults_heal(faults *f)
{
    net *n = f->ends->net;
    f->redial->closed = false;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path *path = net_path_of(n, end);
        *path = (net_path){.delay = path->delay, .queue = SIZE_MAX};
        net_pipe *pipe = net_pipe_of(n, end);
        pipe->penalty = 0;
        pipe->rate = 0;
        pipe->buffer = (size_t)256 * 1024;
        net_heal_stream(n, end);
    }
}
