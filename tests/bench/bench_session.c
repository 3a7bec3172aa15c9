/* What one call costs in the session and the router of each side: deliver with a result at one, the answer at the other.
 *
 * Usage: bench_session [MILLIONS, default 1]. Prints ns a round (both sides together, encoding and decoding included), the
 * best of five runs: one round after the other, 64 in flight, and 64 in flight whose answers are objects. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node/router.h"
#include "tests/support/support.h"

#define RUNS 5
#define IN_FLIGHT_MAX 64u

static const uint8_t args[128];
static tf_router *routers[2];
static tf_session *sessions[2];
static tf_local object; /* the answer of the second side; none: data */
static tf_local owed[IN_FLIGHT_MAX];
static size_t owed_count;
static size_t answered;

static void must(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "bench_session: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;
    must(clock_gettime(CLOCK_MONOTONIC, &ts) == 0, "no clock");
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void hear(int side)
{
    for (tf_router_event event; tf_router_next_event(routers[side], &event);) {
        if (event.type == TF_ROUTER_DELIVER) {
            owed[owed_count++] = event.result;
        } else if (event.type == TF_ROUTER_RESOLVED) {
            answered++;
        }
    }
}

static void carry(int from)
{
    for (tf_slice message; tf_session_peek_out(sessions[from], &message);) {
        must(tf_router_recv(routers[1 - from], sessions[1 - from], 0, message) == TF_OK, "recv");
        hear(1 - from);
        tf_session_pop_out(sessions[from]);
    }
}

static void calls(size_t count)
{
    tf_router_send send = {.target = tf_session_peer_root(sessions[0]),
                           .method = {(const uint8_t *)"send", 4},
                           .args = {args, sizeof(args)},
                           .want_result = true};
    tf_local result = TF_LOCAL_NONE;
    for (size_t i = 0; i < count; i++) {
        must(tf_router_deliver(routers[0], 0, &send, &result) == TF_OK, "deliver");
    }
    carry(0);
    for (size_t i = 0; i < count; i++) {
        tf_answer answer = {.promise = owed[i], .kind = TF_RESOLUTION_DATA, .data = {args, 64}};
        if (object != TF_LOCAL_NONE) {
            answer.kind = TF_RESOLUTION_OBJECT;
            answer.object = (tf_mention){.local = object, .kind = TF_REF_OBJECT};
        }
        must(tf_router_resolve(routers[1], 0, &answer, 1) == TF_OK, "resolve");
    }
    hear(1);
    owed_count = 0;
    carry(1);
}

static void begin(const tf_mem *mem)
{
    tf_session_limits limits = {.max_message = 65536, .max_refs = 1000, .max_promises = 1000, .max_results = 1000};
    for (int i = 0; i < 2; i++) {
        must(tf_router_new(&routers[i], mem, 42) == TF_OK, "router");
        tf_session_config config = {.side = i == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
                                    .local = limits,
                                    .remote = limits,
                                    .refs = tf_router_refs(routers[i]),
                                    .root = tf_router_new_object(routers[i]),
                                    .hash_key = 42,
                                    .mem = mem};
        must(tf_session_new(&sessions[i], &config) == TF_OK, "new");
        must(tf_router_attach(routers[i], sessions[i], NULL) == TF_OK, "attach");
    }
}

static void end(void)
{
    for (int i = 0; i < 2; i++) {
        tf_router_detach(routers[i], 0, sessions[i]);
        hear(i);
        tf_session_free(sessions[i]);
        tf_router_free(routers[i]);
    }
}

static void measure(const char *what, const tf_mem *mem, size_t rounds, size_t in_flight, bool objects)
{
    uint64_t best = UINT64_MAX;
    for (int run = 0; run < RUNS; run++) {
        begin(mem);
        object = objects ? tf_router_new_object(routers[1]) : TF_LOCAL_NONE;
        answered = 0;
        uint64_t start = now_ns();
        for (size_t i = 0; i < rounds; i += in_flight) {
            calls(in_flight);
        }
        uint64_t taken = now_ns() - start;
        must(answered >= rounds, "an answer is missing");
        best = taken < best ? taken : best;
        end();
    }
    (void)printf("%-40s %7.1f ns\n", what, (double)best / (double)rounds);
}

int main(int argc, char **argv)
{
    size_t rounds = (argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 1) * 1000000;
    must(rounds > 0, "usage: bench_session [MILLIONS]");
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    measure("deliver + resolve, one at a time", &heap.mem, rounds, 1, false);
    measure("deliver + resolve, 64 in flight", &heap.mem, rounds, IN_FLIGHT_MAX, false);
    measure("deliver + resolve to an object, 64", &heap.mem, rounds, IN_FLIGHT_MAX, true);
    return EXIT_SUCCESS;
}
