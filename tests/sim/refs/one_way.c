#include "tests/sim/refs/one_way.h"

#include <stdio.h>
#include <stdlib.h>

#include "node/router.h"
#include "tests/support/support.h"

/* D10: the `ack` message keeps one-way traffic from pinning what was resolved. */
#define PROMISES 100000u
#define PER_MS 1000u
#define MS_MAX 100u /* from the last resolution until all is forgotten */

typedef struct side {
    tf_router *router;
    tf_session *session;
    tf_local root;
} side;

static void must(bool ok, const char *what)
{
    if (!ok) {
        (void)fprintf(stderr, "sim_refs --one-way: %s\n", what);
        exit(1);
    }
}

static void begin(side *s, tf_side which, const tf_mem *mem)
{
    static const tf_session_limits LIMITS = {TF_MESSAGE_MAX, TF_REFS_MAX, TF_PROMISES_MAX, TF_RESULTS_MAX};
    must(tf_router_new(&s->router, mem, 1) == TF_OK, "tf_router_new");
    s->root = tf_router_new_object(s->router);
    tf_session_config config = {
        .side = which,
        .local = LIMITS,
        .remote = LIMITS,
        .refs = tf_router_refs(s->router),
        .root = s->root,
        .hash_key = 2,
        .mem = mem,
    };
    must(tf_session_new(&s->session, &config) == TF_OK, "tf_session_new");
    must(tf_router_attach(s->router, s->session, s) == TF_OK, "tf_router_attach");
}

static void end(side *s, tf_time now)
{
    tf_router_detach(s->router, now, s->session);
    tf_session_free(s->session);
    tf_router_free(s->router);
}

static void take_events(side *s)
{
    tf_router_event event;
    while (tf_router_next_event(s->router, &event)) {
        if (event.type == TF_ROUTER_DELIVER) { /* else it would say that it drops it */
            tf_router_hold(s->router, event.refs[0].local);
        }
    }
    tf_session *ignored = NULL;
    tf_err err = TF_OK;
    must(!tf_router_next_failed(s->router, &ignored, &err), tf_err_text(err));
    while (tf_session_take_written(tf_router_refs(s->router)) != NULL) {
    }
}

/* What one has written arrives at the other. */
static void carry(side *from, side *to, tf_time now)
{
    tf_slice bytes;
    while (tf_session_peek_out(from->session, &bytes)) {
        uint8_t *copy = tf_test_exact(bytes);
        tf_session_pop_out(from->session);
        must(tf_router_recv(to->router, to->session, now, tf_slice_of(copy, bytes.len)) == TF_OK, "tf_router_recv");
        take_events(to);
        free(copy);
    }
}

static void tick(side *s, tf_time now)
{
    if (tf_session_deadline(s->session) <= now) {
        must(tf_session_tick(s->session, now) == TF_OK, "tf_session_tick");
        take_events(s);
    }
}

static void send_and_resolve(side *s, tf_time now)
{
    tf_local promise = tf_router_new_promise(s->router);
    must(promise != TF_LOCAL_NONE, "tf_router_new_promise");
    tf_mention mention = {promise, TF_REF_PROMISE};
    tf_router_send send = {
        .target = tf_session_peer_root(s->session), .method = tf_slice_str("m"), .refs = &mention, .ref_count = 1};
    must(tf_router_deliver(s->router, now, &send, NULL) == TF_OK, "tf_router_deliver");
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_DATA};
    must(tf_router_resolve(s->router, now, &answer, 1) == TF_OK, "tf_router_resolve");
    take_events(s);
}

static size_t retirements(const side *s)
{
    tf_session_stats stats;
    tf_session_get_stats(s->session, &stats);
    return stats.retirements + stats.promises_ours;
}

int one_way(void)
{
    side talker = {.root = 0};
    side listener = {.root = 0};
    tf_test_heap heap;
    tf_test_heap_init(&heap);
    begin(&talker, TF_SIDE_DIALLER, &heap.mem);
    begin(&listener, TF_SIDE_ACCEPTOR, &heap.mem);
    tf_time now = TF_SECOND;
    tf_time last = 0;
    size_t most = 0;
    for (unsigned i = 0; i < PROMISES || retirements(&talker) > 0; now += TF_MS) {
        for (unsigned k = 0; k < PER_MS && i < PROMISES; k++, i++) {
            send_and_resolve(&talker, now);
            last = now;
        }
        most = retirements(&talker) > most ? retirements(&talker) : most;
        carry(&talker, &listener, now);
        carry(&listener, &talker, now);
        tick(&talker, now);
        tick(&listener, now);
        must(now <= last + MS_MAX * TF_MS, "not forgotten in time");
    }
    (void)printf("sim_refs: %u promises, at most %zu of them kept, forgotten %llu ms after the last one\n", PROMISES,
                 most, (unsigned long long)((now - last) / TF_MS));
    end(&talker, now);
    end(&listener, now);
    must(heap.live_blocks == 0, "memory is left");
    return 0;
}
