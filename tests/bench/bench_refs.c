/* What references cost through a relay: X - R - Y in one process, everything encoded and decoded, no sockets.
 *
 * Usage: bench_refs [COUNT, default 1000000]. Prints, for more and more references that stay alive: ns for an object that X
 * exports, mentions to Y through R, and that is dropped all the way back; ns for a call from X to Y through R with a result,
 * each pipelined to the result of the one before; and the bytes that a reference which stays alive takes, over all three nodes.
 * Ends with 1 when tables or heap are not back where they began. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/ref_nodes.h"
#include "tests/support/support.h"

#define BATCH 64u
#define LIVE_MAX 100000u

static tf_test_heap heap;
static tf_test_net net;
static size_t x, r, y;
static size_t line_x;       /* X - R */
static size_t line_y;       /* R - Y */
static tf_local service;    /* of Y, at Y */
static tf_local at_relay;   /* the same at R, */
static tf_local at_x;       /* and at X */
static bool y_keeps;
static tf_local kept[LIVE_MAX];
static size_t kept_count;
static size_t gone;
static size_t answered;

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_refs: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    must(clock_gettime(CLOCK_MONOTONIC, &ts) == 0, "no clock");
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void answer(size_t node, tf_local promise, tf_local object)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {object, TF_REF_OBJECT}};
    must(tf_router_resolve(net.nodes[node].router, net.now, &answer, 1) == TF_OK, "resolve");
}

/* R's root takes Y's service and gives it to X; the service answers with itself, and keeps what it gets if it is told to. */
static void on_event(tf_test_net *n, size_t node, const tf_router_event *event)
{
    if (event->type == TF_ROUTER_GONE && node == x) {
        gone++;
    }
    if (event->type == TF_ROUTER_RESOLVED && node == x) {
        answered++;
        at_x = event->object.local;
        tf_router_hold(n->nodes[x].router, at_x);
    }
    if (event->type != TF_ROUTER_DELIVER) {
        return;
    }
    if (node == r && event->ref_count == 1) {
        at_relay = event->refs[0].local;
        tf_router_hold(n->nodes[r].router, at_relay);
    } else if (node == r) {
        answer(r, event->result, at_relay);
    } else if (event->result != TF_LOCAL_NONE) {
        answer(y, event->result, service);
    } else if (y_keeps) {
        tf_router_hold(n->nodes[y].router, event->refs[0].local);
        kept[kept_count++] = event->refs[0].local;
    }
}

static tf_local send(size_t node, tf_local target, const tf_mention *ref, bool want_result)
{
    tf_router_send send = {.target = target,
                           .method = tf_slice_str("m"),
                           .args = tf_slice_str("0123456789abcdef"),
                           .refs = ref,
                           .ref_count = ref == NULL ? 0 : 1,
                           .want_result = want_result};
    tf_local result = TF_LOCAL_NONE;
    must(tf_router_deliver(net.nodes[node].router, net.now, &send, &result) == TF_OK, "deliver");
    return result;
}

static void begin(void)
{
    tf_test_heap_init(&heap);
    tf_test_net_init(&net, &heap.mem, on_event);
    x = tf_test_net_add(&net);
    r = tf_test_net_add(&net);
    y = tf_test_net_add(&net);
    line_x = tf_test_net_connect(&net, x, r);
    line_y = tf_test_net_connect(&net, r, y);
    service = tf_router_new_object(net.nodes[y].router);
    tf_mention mention = {service, TF_REF_OBJECT};
    (void)send(y, tf_test_net_root(&net, line_y, y), &mention, false);
    tf_test_net_run(&net);
    (void)send(x, tf_test_net_root(&net, line_x, x), NULL, true);
    tf_test_net_settle(&net, TF_NEVER - 1);
    must(answered == 1, "no service");
}

static void export_objects(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tf_mention mention = {tf_router_new_object(net.nodes[x].router), TF_REF_OBJECT};
        (void)send(x, at_x, &mention, false);
        if ((i + 1) % BATCH == 0 || i + 1 == count) {
            tf_test_net_run(&net);
        }
    }
    tf_test_net_settle(&net, TF_NEVER - 1);
}

static void call_pipelined(size_t count)
{
    tf_local first = at_x;
    tf_local target = first;
    for (size_t i = 0; i < count; i++) {
        target = send(x, target, NULL, true);
        if ((i + 1) % BATCH == 0 || i + 1 == count) {
            tf_test_net_run(&net);
            target = first;
            for (; answered > 1; answered--) { /* each answer is the service once more */
                tf_router_release(net.nodes[x].router, net.now, first);
            }
        }
    }
    tf_test_net_settle(&net, TF_NEVER - 1);
    must(at_x == first, "another service");
}

static void keep_alive(size_t count)
{
    y_keeps = true;
    export_objects(count - kept_count);
    y_keeps = false;
}

static void let_go(void)
{
    while (kept_count > 0) {
        tf_router_release(net.nodes[y].router, net.now, kept[--kept_count]);
    }
    tf_test_net_settle(&net, TF_NEVER - 1);
    tf_router_release(net.nodes[x].router, net.now, at_x);
    tf_router_release(net.nodes[r].router, net.now, at_relay);
    tf_test_net_settle(&net, TF_NEVER - 1);
}

static void trim(void)
{
    for (size_t i = 0; i < 2 * net.line_count; i++) {
        tf_session_trim(net.lines[i / 2].sessions[i % 2]);
    }
    for (size_t i = 0; i < net.node_count; i++) {
        tf_refs_trim(tf_router_refs(net.nodes[i].router));
    }
}

static void measure(size_t live, size_t count, size_t empty)
{
    keep_alive(live);
    trim();
    size_t bytes = heap.live_bytes;
    size_t before = gone;
    uint64_t at = now_ns();
    export_objects(count);
    uint64_t exported = now_ns() - at;
    must(gone - before == count, "objects were not dropped");
    at = now_ns();
    call_pipelined(count);
    uint64_t called = now_ns() - at;
    trim();
    (void)printf("%9zu %14.0f %14.0f %14.0f\n", live, (double)exported / (double)count, (double)called / (double)count,
                 live == 0 ? 0.0 : (double)(bytes - empty) / (double)live);
    must(heap.live_bytes <= bytes + bytes / 20, "the heap has grown");
}

int main(int argc, char **argv)
{
    static const size_t lives[] = {0, 1000, 10000, LIVE_MAX};
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000000u;
    begin();
    trim();
    size_t empty = heap.live_bytes;
    (void)printf("%9s %14s %14s %14s\n", "live refs", "ns/export+drop", "ns/call", "bytes/live ref");
    for (size_t i = 0; i < sizeof(lives) / sizeof(lives[0]); i++) {
        measure(lives[i], count, empty);
    }
    let_go();
    must(tf_test_net_is_clean(&net), "the tables are not back where they began");
    trim();
    must(heap.live_bytes <= empty, "the heap is not back where it began");
    tf_test_net_clear(&net);
    must(heap.live_bytes == 0, "something leaks");
    return EXIT_SUCCESS;
}
