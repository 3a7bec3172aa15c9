/* node/router without memory: X - R - Y. Whatever allocation fails costs at most the sessions that fail by it, and each
 * result that X waits for comes once. */
#include <stdlib.h>

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/ref_nodes.h"
#include "tests/support/support.h"

#define CALLS 16u
#define MANY 40u /* objects in one message */

static tf_test_heap heap;
static tf_test_net net;
static size_t x, r, y;
static size_t line_x, line_y;
static tf_local at_relay; /* the service of Y at R, */
static tf_local at_x;     /* and at X */
static tf_local pending;  /* decided by R, */
static tf_local mine;     /* and by X */
static tf_local calls[CALLS];
static size_t call_count;
static size_t came[CALLS]; /* answers of them */
static bool unanswered;    /* Y leaves what it is asked */

static tf_router *router(size_t node)
{
    return net.nodes[node].router;
}

/* False: without memory nothing is done, and the promise is not resolved. */
static bool resolve(size_t node, const tf_answer *answer)
{
    tf_err err = tf_router_resolve(router(node), net.now, answer, 1);
    ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
    return err == TF_OK;
}

static bool resolve_with(size_t node, tf_local promise, tf_mention object)
{
    return resolve(node, &(tf_answer){.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = object});
}

static void answered(const tf_router_event *event)
{
    for (size_t i = 0; i < call_count; i++) {
        came[i] += calls[i] == event->local ? 1 : 0;
    }
    if (event->kind == TF_RESOLUTION_OBJECT && at_x == TF_LOCAL_NONE) {
        at_x = event->object.local;
        tf_router_hold(router(x), at_x);
    }
}

/* What R was asked for and has not decided, if that came. */
static void decide(tf_local object)
{
    if (pending != TF_LOCAL_NONE) {
        (void)resolve_with(r, pending, (tf_mention){object, TF_REF_OBJECT});
        pending = TF_LOCAL_NONE;
    }
}

/* What waited for it at X goes to Y, or comes back. */
static void decide_mine(void)
{
    if (mine != TF_LOCAL_NONE && resolve_with(x, mine, (tf_mention){at_x, TF_REF_OBJECT})) {
        mine = TF_LOCAL_NONE;
    }
}

static void called(size_t node, const tf_router_event *event)
{
    if (tf_slice_eq(event->method, tf_slice_str("take"))) {
        at_relay = event->refs[0].local;
        tf_router_hold(router(node), at_relay);
    } else if (tf_slice_eq(event->method, tf_slice_str("service"))) {
        (void)resolve_with(node, event->result, (tf_mention){at_relay, TF_REF_OBJECT});
    } else if (tf_slice_eq(event->method, tf_slice_str("promise"))) {
        pending = event->result;
    } else if (tf_slice_eq(event->method, tf_slice_str("echo"))) {
        (void)resolve_with(node, event->result, event->refs[0]);
    } else if (event->result != TF_LOCAL_NONE && !unanswered) {
        (void)resolve(node, &(tf_answer){
                                .promise = event->result, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("ok")});
    }
}

static void on_event(tf_test_net *n, size_t node, const tf_router_event *event)
{
    (void)n;
    if (event->type == TF_ROUTER_DELIVER) {
        called(node, event);
    } else if (event->type == TF_ROUTER_RESOLVED && node == x) {
        answered(event);
    }
}

/* A send of X whose result counts; TF_LOCAL_NONE: it could not be sent. */
static tf_local ask(tf_local target, const char *method, const tf_mention *refs, size_t count)
{
    tf_local result = TF_LOCAL_NONE;
    tf_router_send send = {
        .target = target, .method = tf_slice_str(method), .refs = refs, .ref_count = count, .want_result = true};
    if (target == TF_LOCAL_NONE || tf_router_deliver(router(x), net.now, &send, &result) != TF_OK) {
        return TF_LOCAL_NONE;
    }
    ck_assert_uint_lt(call_count, CALLS);
    calls[call_count++] = result;
    return result;
}

static void begin(void)
{
    tf_test_heap_init(&heap);
    at_relay = TF_LOCAL_NONE;
    at_x = TF_LOCAL_NONE;
    pending = TF_LOCAL_NONE;
    mine = TF_LOCAL_NONE;
    call_count = 0;
    memset(came, 0, sizeof(came));
    unanswered = false;
    tf_test_net_init(&net, &heap.mem, on_event);
    x = tf_test_net_add(&net);
    r = tf_test_net_add(&net);
    y = tf_test_net_add(&net);
    line_x = tf_test_net_connect(&net, x, r);
}

/* R and Y are joined; R has a service of Y, and X has it from R. */
static void join(void)
{
    line_y = tf_test_net_connect(&net, r, y);
    tf_mention service = {tf_router_new_object(router(y)), TF_REF_OBJECT};
    tf_router_send give = {.target = tf_test_net_root(&net, line_y, y),
                           .method = tf_slice_str("take"),
                           .refs = &service,
                           .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(router(y), net.now, &give, NULL), TF_OK);
    tf_test_net_run(&net);
    (void)ask(tf_test_net_root(&net, line_x, x), "service", NULL, 0);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_ne(at_x, TF_LOCAL_NONE);
}

/* Connections end whose session has failed, or that did not take a message. */
static void end_failed(bool all)
{
    for (size_t line = 0; line < net.line_count; line++) {
        tf_session *session = NULL;
        tf_err err = TF_OK;
        bool failed = all || net.last_error != TF_OK;
        for (size_t i = 0; i < 2 && !failed; i++) {
            failed = tf_router_next_failed(router(net.lines[line].nodes[i]), &session, &err);
        }
        if (failed) {
            tf_test_net_cut(&net, line);
        }
    }
    net.last_error = TF_OK;
}

static void carry(size_t line, size_t from)
{
    while (tf_test_net_carry(&net, line, from)) {
    }
}

static tf_local root_at_x(void)
{
    return tf_test_net_session(&net, line_x, x) == NULL ? TF_LOCAL_NONE : tf_test_net_root(&net, line_x, x);
}

/* Calls wait at R for a promise, one with a result that Y knows already; an answer of Y is an object of X, which X has
 * sent to meanwhile; and a message with many objects waits. */
static void tell_story(void)
{
    tf_mention many[MANY];
    mine = tf_router_new_promise(router(x));
    (void)ask(mine, "call", NULL, 0);
    decide_mine();
    tf_local promise = ask(root_at_x(), "promise", NULL, 0);
    tf_local held = ask(promise, "call", NULL, 0);
    tf_mention known = {held, TF_REF_PROMISE};
    (void)ask(held == TF_LOCAL_NONE ? held : at_x, "keep", &known, 1);
    carry(line_x, 0);
    carry(line_y, 0);
    decide(at_relay);
    tf_mention own = {tf_router_new_object(router(x)), TF_REF_OBJECT};
    tf_local echo = ask(at_x, "echo", &own, 1);
    (void)ask(echo, "call", NULL, 0);
    carry(line_x, 0);
    carry(line_y, 0);
    carry(line_y, 1);
    for (size_t i = 0; i < MANY; i++) {
        many[i] = (tf_mention){tf_router_new_object(router(x)), TF_REF_OBJECT};
    }
    promise = ask(root_at_x(), "promise", NULL, 0);
    (void)ask(promise, "call", many, MANY);
    carry(line_x, 0);
    decide(net.nodes[r].root);
    tf_test_net_run(&net);
}

static void end(void)
{
    decide_mine();
    end_failed(true);
    for (size_t i = 0; i < call_count; i++) {
        ck_assert_uint_eq(came[i], 1);
    }
    tf_router_release(router(x), net.now, at_x);
    tf_router_release(router(r), net.now, at_relay);
    tf_test_net_settle(&net, TF_NEVER - 1);
    tf_test_net_clear(&net);
    ck_assert_uint_eq(heap.live_blocks, 0);
}

START_TEST(router_failed_allocation_costs_at_most_sessions_and_no_answer)
{
    for (unsigned for_ever = 0; for_ever < 2; for_ever++) {
        bool failed = true;
        uint64_t k = 0;
        for (; failed; k++) {
            begin();
            join();
            tf_test_heap_fail_at(&heap, k, for_ever == 1);
            tell_story();
            failed = heap.failures > 0;
            tf_test_heap_fail_never(&heap);
            end_failed(false);
            tf_test_net_run(&net);
            ck_assert(failed || (root_at_x() != TF_LOCAL_NONE && tf_test_net_session(&net, line_y, y) != NULL));
            end();
        }
        ck_assert_uint_gt(k, 20);
    }
}
END_TEST

/* Calls wait at R whose results Y knows already. When they go to Y after all each needs a second name there, for which
 * there is no memory at some time. */
START_TEST(router_call_without_memory_for_a_second_name_is_refused)
{
    size_t refused = 0;
    for (uint64_t k = 0; k < 8; k++) {
        tf_router_stats stats;
        begin();
        join();
        for (size_t i = 0; i < 100; i++) { /* so that no room is left from before */
            ck_assert_uint_ne(tf_router_new_promise(router(r)), TF_LOCAL_NONE);
        }
        tf_local promise = ask(root_at_x(), "promise", NULL, 0);
        for (size_t i = 0; i < 3; i++) {
            tf_mention known = {ask(promise, "call", NULL, 0), TF_REF_PROMISE};
            (void)ask(at_x, "keep", &known, 1);
        }
        carry(line_x, 0);
        carry(line_y, 0);
        tf_test_heap_fail_at(&heap, k, true);
        decide(at_relay);
        tf_test_heap_fail_never(&heap);
        tf_router_get_stats(router(r), &stats);
        refused += stats.overloaded;
        end_failed(false);
        tf_test_net_run(&net);
        end();
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* Five calls of X that Y may owe four answers to, and one to R before R's refusal is known: how many R refuses, when
 * allocation k fails while it refuses the fifth; 0: that failed in another way. */
static uint64_t refused_without(uint64_t k)
{
    tf_router_stats stats = {.overloaded = 0};
    begin();
    net.limits.max_results = 4;
    join();
    unanswered = true;
    for (size_t i = 0; i < 4; i++) {
        (void)ask(at_x, "call", NULL, 0);
    }
    carry(line_x, 0);
    (void)ask(at_x, "call", NULL, 0);
    tf_test_heap_fail_at(&heap, k, false);
    bool taken = tf_test_net_carry(&net, line_x, 0);
    tf_test_heap_fail_never(&heap);
    end_failed(false);
    if (taken && root_at_x() != TF_LOCAL_NONE) {
        (void)ask(root_at_x(), "promise", NULL, 0);
        carry(line_x, 0);
        tf_router_get_stats(router(r), &stats);
    }
    end();
    return stats.overloaded;
}

/* A guard that finds no memory for its target stands for all of them. */
START_TEST(router_guard_without_memory_is_for_all_targets)
{
    bool for_all = false;
    for (uint64_t k = 0; k < 40; k++) {
        for_all = refused_without(k) == 2 || for_all;
    }
    ck_assert(for_all);
    ck_assert_uint_eq(refused_without(40), 1); /* nothing fails any more */
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        router_failed_allocation_costs_at_most_sessions_and_no_answer,
        router_call_without_memory_for_a_second_name_is_refused,
        router_guard_without_memory_is_for_all_targets,
        NULL,
    };
    return tf_test_run("node/router without memory", tests);
}
