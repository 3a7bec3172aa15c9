/* What a message costs from one link to another: cutting, both slots, de-duplication, order, acks. No TLS, no AEAD, no
 * socket: what is pulled from one is given to the other at once.
 *
 * Usage: bench_link [MESSAGES in millions, default 1]. Prints ns and allocations a message for each set of routes, size
 * and batch (messages sent before anything is pulled); the best of three runs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "paths/link.h"
#include "tests/support/support.h"

#define RUNS 3
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct pattern {
    const char *name;
    size_t size;
    unsigned batch;
    tf_routes data;
} pattern;

static const pattern patterns[] = {
    {"both routes, 100 bytes, batch 1", 100, 1, TF_ROUTES_BOTH},
    {"both routes, 100 bytes, batch 32", 100, 32, TF_ROUTES_BOTH},
    {"both routes, 1000 bytes, batch 32", 1000, 32, TF_ROUTES_BOTH},
    {"both routes, 20000 bytes, batch 2", 20000, 2, TF_ROUTES_BOTH},
    {"stream, 100 bytes, batch 32", 100, 32, TF_ROUTES_STREAM},
    {"datagram, 100 bytes, batch 32", 100, 32, TF_ROUTES_DATAGRAM},
};

typedef struct world {
    tf_test_heap heap;
    tf_test_random random;
    tf_link *links[2];
    tf_time now;
    uint64_t got;
} world;

static uint64_t now_ns(void)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0) {
        abort();
    }
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_link: %s\n", what);
        exit(1);
    }
}

static void take(world *w, unsigned to)
{
    tf_slice message;
    tf_route via;
    while (tf_link_next_message(w->links[to], &message, &via)) {
        w->got++;
    }
    tf_link_event event;
    while (tf_link_next_event(w->links[to], &event)) {
    }
}

static bool move(world *w, unsigned from)
{
    static uint8_t buf[TF_STREAM_RECORD];
    bool any = false;
    unsigned to = 1 - from;
    for (size_t len = tf_link_pull_stream(w->links[from], w->now, buf, sizeof(buf)); len > 0;
         len = tf_link_pull_stream(w->links[from], w->now, buf, sizeof(buf))) {
        size_t used = 0;
        must(tf_link_recv_stream(w->links[to], w->now, tf_slice_of(buf, len), &used) == TF_OK && used == len, "stream");
        take(w, to);
        any = true;
    }
    tf_link_packet packet;
    while (tf_link_pull_packet(w->links[from], w->now, buf, sizeof(buf), &packet)) {
        must(tf_link_recv_packet(w->links[to], w->now, packet.generation, packet.number,
                                 tf_slice_of(buf, packet.len)) == TF_OK,
             "packet");
        take(w, to);
        any = true;
    }
    return any;
}

static void move_all(world *w)
{
    w->now += 50;
    for (unsigned end = 0; end < 2; end++) {
        if (tf_link_deadline(w->links[end]) <= w->now) {
            tf_link_tick(w->links[end], w->now);
        }
    }
    while (move(w, 0) || move(w, 1)) {
    }
}

static void set_up(world *w, const pattern *p)
{
    *w = (world){.now = TF_SECOND};
    tf_test_heap_init(&w->heap);
    tf_test_random_init(&w->random, 1);
    const tf_link_config config = {
        .mem = &w->heap.mem,
        .rand = &w->random.rand,
        .session = 1,
        .routes = TF_ROUTES_BOTH,
        .send_data = p->data,
        .recv_data = p->data,
        .recv_window_segments = TF_WINDOW_SEGMENTS,
        .recv_window_bytes = TF_WINDOW_BYTES,
        .send_window_segments = TF_WINDOW_SEGMENTS,
        .send_window_bytes = TF_WINDOW_BYTES,
        .recv_max_message = TF_MESSAGE_MAX,
        .keepalive = TF_KEEPALIVE,
        .peer_keepalive = TF_KEEPALIVE,
    };
    for (unsigned end = 0; end < 2; end++) {
        must(tf_link_new(&w->links[end], &config, w->now) == TF_OK, "tf_link_new");
        tf_link_stream_up(w->links[end], w->now, 1);
        tf_link_datagram_up(w->links[end], w->now, 1);
    }
    for (unsigned i = 0; i < 100; i++) {
        move_all(w);
    }
}

static void run(const pattern *p, uint64_t messages, double *ns, double *allocations)
{
    static uint8_t bytes[20000];
    world w;
    set_up(&w, p);
    uint64_t calls = w.heap.calls;
    uint64_t start = now_ns();
    for (uint64_t sent = 0; sent < messages;) {
        for (unsigned k = 0; k < p->batch; k++) {
            sent += tf_link_send(w.links[0], w.now, tf_slice_of(bytes, p->size)) == TF_OK ? 1 : 0;
        }
        move_all(&w);
    }
    while (w.got < messages) {
        move_all(&w);
    }
    *ns = (double)(now_ns() - start) / (double)w.got;
    *allocations = (double)(w.heap.calls - calls) / (double)w.got;
    tf_link_free(w.links[0]);
    tf_link_free(w.links[1]);
    must(w.heap.live_blocks == 0, "memory is left");
}

int main(int argc, char **argv)
{
    double millions = argc > 1 ? strtod(argv[1], NULL) : 1.0;
    must(millions > 0.0, "how many millions of messages?");
    (void)printf("%-36s %10s %12s\n", "", "ns", "allocations");
    for (size_t i = 0; i < COUNT(patterns); i++) {
        double best = 0;
        double allocations = 0;
        for (int k = 0; k < RUNS; k++) {
            double ns = 0;
            run(&patterns[i], (uint64_t)(millions * 1e6 / (patterns[i].size > 1000 ? 20 : 1)), &ns, &allocations);
            best = k == 0 || ns < best ? ns : best;
        }
        (void)printf("%-36s %10.0f %12.4f\n", patterns[i].name, best, allocations);
    }
    return 0;
}
