/* Bounds of what is relayed (D15): X - R - Y, and a second sender Z - R. */
#include "node/router.h"

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/ref_nodes.h"
#include "tests/support/support.h"

#define CALLS_MAX 4096u

static tf_test_net net;
static size_t x, z, r, y;
static size_t line_x, line_z, line_y;
static tf_local service;  /* of Y */
static tf_local at_relay; /* the same at R */
static tf_local at_x, at_z;
static uint8_t body[16384];

/* What came of the calls of X and Z, and what came to Y, by the number in args. */
static char answers[2][CALLS_MAX]; /* 0: nothing, 'd'ata, 'o'verloaded, 'l'arge, '?' */
static tf_local results[2][CALLS_MAX];
static size_t arrived[CALLS_MAX * 2];
static size_t arrived_count;
static tf_local pending; /* promise of R that it gives to X: unresolved */

static tf_router *router(size_t node)
{
    return net.nodes[node].router;
}

static void answer_with(size_t node, tf_local promise, tf_mention object)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = object};
    ck_assert_int_eq(tf_router_resolve(router(node), net.now, &answer, 1), TF_OK);
}

static void on_answer(size_t who, const tf_router_event *event)
{
    for (size_t i = 0; i < CALLS_MAX; i++) {
        if (results[who][i] == event->local) {
            bool data = event->kind == TF_RESOLUTION_DATA;
            const char *text = (const char *)event->data.data;
            bool overloaded = !data && memmem(text, event->data.len, "overloaded", 10) != NULL;
            bool large = !data && memmem(text, event->data.len, "message_too_large", 17) != NULL;
            ck_assert_int_eq(answers[who][i], 0);
            answers[who][i] = data ? 'd' : overloaded ? 'o' : large ? 'l' : '?';
        }
    }
}

static void on_call(const tf_router_event *event)
{
    uint16_t number = 0;
    ck_assert_uint_ge(event->args.len, sizeof(number));
    memcpy(&number, event->args.data, sizeof(number));
    arrived[arrived_count++] = number;
    if (event->result != TF_LOCAL_NONE) {
        tf_answer answer = {.promise = event->result, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("ok")};
        ck_assert_int_eq(tf_router_resolve(router(y), net.now, &answer, 1), TF_OK);
    }
}

/* R's root takes Y's service; who asks for "service" gets it, who asks for "promise" one that R decides. */
static void on_relay(const tf_router_event *event)
{
    if (event->ref_count == 1) {
        at_relay = event->refs[0].local;
        tf_router_hold(router(r), at_relay);
    } else if (tf_slice_eq(event->method, tf_slice_str("service"))) {
        answer_with(r, event->result, (tf_mention){at_relay, TF_REF_OBJECT});
    } else {
        pending = event->result;
    }
}

static void on_event(tf_test_net *n, size_t node, const tf_router_event *event)
{
    (void)n;
    if (event->type == TF_ROUTER_RESOLVED && event->kind == TF_RESOLUTION_OBJECT) {
        *(node == x ? &at_x : &at_z) = event->object.local;
        tf_router_hold(router(node), event->object.local);
    } else if (event->type == TF_ROUTER_RESOLVED) {
        on_answer(node == x ? 0 : 1, event);
    } else if (event->type == TF_ROUTER_DELIVER && node == y) {
        on_call(event);
    } else if (event->type == TF_ROUTER_DELIVER) {
        on_relay(event);
    }
}

static tf_err send(size_t node, tf_local target, const char *method, tf_slice args, tf_local *result)
{
    tf_router_send send = {
        .target = target, .method = tf_slice_str(method), .args = args, .want_result = result != NULL};
    return tf_router_deliver(router(node), net.now, &send, result);
}

static void begin(void)
{
    memset(answers, 0, sizeof(answers));
    memset(results, 0, sizeof(results));
    arrived_count = 0;
    tf_test_net_init(&net, tf_test_mem(), on_event);
    x = tf_test_net_add(&net);
    r = tf_test_net_add(&net);
    y = tf_test_net_add(&net);
    z = tf_test_net_add(&net);
    line_x = tf_test_net_connect(&net, x, r);
    line_z = tf_test_net_connect(&net, z, r);
    line_y = tf_test_net_connect(&net, r, y);
    service = tf_router_new_object(router(y));
    tf_mention mention = {service, TF_REF_OBJECT};
    tf_router_send give = {.target = tf_test_net_root(&net, line_y, y),
                           .method = tf_slice_str("take"),
                           .refs = &mention,
                           .ref_count = 1};
    tf_local result = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_router_deliver(router(y), 0, &give, NULL), TF_OK);
    tf_test_net_run(&net);
    ck_assert_int_eq(send(x, tf_test_net_root(&net, line_x, x), "service", tf_slice_str(""), &result), TF_OK);
    ck_assert_int_eq(send(z, tf_test_net_root(&net, line_z, z), "service", tf_slice_str(""), &result), TF_OK);
    tf_test_net_settle(&net, TF_NEVER - 1);
}

static void end(void)
{
    tf_test_net_settle(&net, TF_NEVER - 1);
    tf_router_release(router(x), net.now, at_x);
    tf_router_release(router(z), net.now, at_z);
    tf_router_release(router(r), net.now, at_relay);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert(tf_test_net_is_clean(&net));
    tf_test_net_clear(&net);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

/* An object of another node takes the place of the service, at R and X and Z. */
static void offer(size_t node, size_t line)
{
    tf_mention mention = {tf_router_new_object(router(node)), TF_REF_OBJECT};
    tf_router_send give = {.target = tf_test_net_root(&net, line, node),
                           .method = tf_slice_str("take"),
                           .refs = &mention,
                           .ref_count = 1};
    tf_local result = TF_LOCAL_NONE;
    tf_router_release(router(r), net.now, at_relay);
    tf_router_release(router(x), net.now, at_x);
    tf_router_release(router(z), net.now, at_z);
    ck_assert_int_eq(tf_router_deliver(router(node), net.now, &give, NULL), TF_OK);
    tf_test_net_run(&net);
    ck_assert_int_eq(send(x, tf_test_net_root(&net, line_x, x), "service", tf_slice_str(""), &result), TF_OK);
    ck_assert_int_eq(send(z, tf_test_net_root(&net, line_z, z), "service", tf_slice_str(""), &result), TF_OK);
    tf_test_net_settle(&net, TF_NEVER - 1);
}

/* Call `number` of X (0) or Z (1), to `target`. */
static void call_to(size_t who, tf_local target, uint16_t number, size_t size)
{
    memcpy(body, &number, sizeof(number));
    size_t node = who == 0 ? x : z;
    ck_assert_int_eq(send(node, target, "call", tf_slice_of(body, size), &results[who][number]), TF_OK);
}

static void call(size_t who, uint16_t number, size_t size)
{
    call_to(who, who == 0 ? at_x : at_z, number, size);
}

/* Everything that X and Z have sent is at R. */
static void carry_to_relay(void)
{
    while (tf_test_net_carry(&net, line_x, 0) || tf_test_net_carry(&net, line_z, 0)) {
    }
}

/* Refusals come back to X and Z. */
static void carry_back(void)
{
    while (tf_test_net_carry(&net, line_x, 1) || tf_test_net_carry(&net, line_z, 1)) {
    }
}

static size_t count(size_t who, char kind)
{
    size_t n = 0;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        n += answers[who][i] == kind ? 1 : 0;
    }
    return n;
}

START_TEST(router_share_of_a_sender_is_bounded_in_items)
{
    begin();
    for (uint16_t i = 0; i < TF_SHARE_ITEMS + 100; i++) {
        call(0, i, 16);
    }
    carry_to_relay(); /* Y takes nothing */
    carry_back();
    ck_assert_uint_eq(count(0, 'o'), 100);
    call(1, 0, 16); /* it costs the other sender nothing */
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count(1, 'd'), 1);
    ck_assert_uint_eq(count(0, 'd'), TF_SHARE_ITEMS);
    for (uint16_t i = 0; i < TF_SHARE_ITEMS; i++) {
        ck_assert_uint_eq(arrived[i], i);
    }
    end();
}
END_TEST

START_TEST(router_share_of_a_sender_is_bounded_in_bytes)
{
    begin();
    uint16_t fitting = TF_SHARE_BYTES / sizeof(body);
    for (uint16_t i = 0; i < fitting + 50; i++) {
        call(0, i, sizeof(body));
    }
    carry_to_relay();
    ck_assert_uint_le(tf_session_out_bytes(tf_test_net_session(&net, line_y, r)), TF_OUT_QUEUE_BYTES);
    carry_back();
    ck_assert_uint_ge(count(0, 'o'), 50 - 1);
    ck_assert_uint_le(count(0, 'o'), 50 + 1);
    end();
}
END_TEST

START_TEST(router_after_a_refusal_later_calls_are_refused_until_it_was_processed)
{
    begin();
    for (uint16_t i = 0; i < TF_SHARE_ITEMS + 1; i++) {
        call(0, i, 16);
    }
    carry_to_relay();
    while (tf_test_net_carry(&net, line_y, 0)) { /* there is room again, */
    }
    call(0, 2000, 16); /* but X does not know of its refusal */
    carry_to_relay();
    carry_back();
    ck_assert_int_eq(answers[0][2000], 'o');
    call(0, 2001, 16); /* now it does */
    carry_to_relay();
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_int_eq(answers[0][2001], 'd');
    ck_assert_uint_eq(count(0, 'o'), 2);
    ck_assert_uint_eq(arrived[arrived_count - 1], 2001);
    end();
}
END_TEST

START_TEST(router_guard_is_per_target)
{
    begin();
    tf_local result = TF_LOCAL_NONE;
    ck_assert_int_eq(send(x, tf_test_net_root(&net, line_x, x), "promise", tf_slice_str(""), &result), TF_OK);
    carry_to_relay();
    for (uint16_t i = 0; i < TF_SHARE_ITEMS + 1; i++) {
        call(0, i, 16);
    }
    carry_to_relay(); /* one was refused, and X has not heard of it */
    call_to(0, result, 3000, 16);
    carry_to_relay();
    answer_with(r, pending, (tf_mention){net.nodes[r].root, TF_REF_OBJECT});
    tf_test_net_take(&net, r);
    tf_router_stats stats;
    tf_router_get_stats(router(r), &stats);
    ck_assert_uint_eq(stats.overloaded, 1);
    ck_assert_uint_ne(pending, TF_LOCAL_NONE);
    answer_with(r, pending, (tf_mention){net.nodes[r].root, TF_REF_OBJECT}); /* call 3000 came to R itself */
    tf_test_net_settle(&net, TF_NEVER - 1);
    tf_router_release(router(x), net.now, at_x);
    at_x = TF_LOCAL_NONE;
    tf_test_net_clear(&net);
}
END_TEST

/* Two guards; X knows of the first refusal, and not of the second: what it sends to the first target goes on. */
START_TEST(router_guard_is_lifted_when_its_own_refusal_was_processed)
{
    tf_router_stats stats;
    tf_local result = TF_LOCAL_NONE;
    begin();
    ck_assert_int_eq(send(x, tf_test_net_root(&net, line_x, x), "promise", tf_slice_str(""), &result), TF_OK);
    for (uint16_t i = 0; i < TF_SHARE_ITEMS + 1; i++) {
        call(0, i, 16);
    }
    for (uint16_t i = 0; i < TF_HELD_ITEMS_MAX + 1; i++) {
        call_to(0, result, (uint16_t)(1100 + i), 16);
    }
    carry_to_relay();
    tf_router_get_stats(router(r), &stats);
    ck_assert_uint_eq(stats.overloaded, 2);
    ck_assert(tf_test_net_carry(&net, line_x, 1)); /* the first refusal */
    ck_assert_uint_eq(count(0, 'o'), 1);
    while (tf_test_net_carry(&net, line_y, 0)) {
    }
    call(0, 3000, 16);
    call_to(0, result, 3001, 16);
    carry_to_relay();
    tf_router_get_stats(router(r), &stats);
    ck_assert_uint_eq(stats.overloaded, 3);
    while (tf_test_net_carry(&net, line_y, 0)) {
    }
    ck_assert_uint_eq(arrived[arrived_count - 1], 3000);
    tf_test_net_clear(&net);
}
END_TEST

START_TEST(router_messages_held_for_a_promise_are_bounded_by_sender)
{
    begin();
    tf_local result = TF_LOCAL_NONE;
    ck_assert_int_eq(send(x, tf_test_net_root(&net, line_x, x), "promise", tf_slice_str(""), &result), TF_OK);
    for (uint16_t i = 0; i < TF_HELD_ITEMS_MAX + 10; i++) {
        call_to(0, result, i, 16);
    }
    carry_to_relay();
    carry_back();
    ck_assert_uint_eq(count(0, 'o'), 10);
    call(1, 0, 16);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count(1, 'd'), 1);
    answer_with(r, pending, (tf_mention){at_relay, TF_REF_OBJECT});
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count(0, 'd'), TF_HELD_ITEMS_MAX);
    for (uint16_t i = 0; i < TF_HELD_ITEMS_MAX; i++) {
        ck_assert_uint_eq(arrived[i + 1], i); /* behind that of Z */
    }
    tf_router_release(router(x), net.now, at_x); /* it came as the answer, too */
    end();
}
END_TEST

START_TEST(router_message_that_a_next_hop_does_not_take_is_rejected_as_too_large)
{
    begin();
    net.limits.max_message = TF_MESSAGE_MIN_LIMIT;
    size_t small = tf_test_net_add(&net);
    size_t line = tf_test_net_connect(&net, r, small);
    offer(small, line);
    call(0, 0, sizeof(body));
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_int_eq(answers[0][0], 'l');
    ck_assert_uint_eq(arrived_count, 0);
    end();
}
END_TEST

START_TEST(router_results_that_a_next_hop_owes_are_bounded)
{
    begin();
    net.limits.max_results = 4;
    size_t slow = tf_test_net_add(&net);
    size_t line = tf_test_net_connect(&net, r, slow);
    offer(slow, line);
    for (uint16_t i = 0; i < 6; i++) {
        call(0, i, 16);
    }
    carry_to_relay();
    carry_back();
    ck_assert_uint_eq(count(0, 'o'), 2);
    tf_test_net_cut(&net, line); /* and what it owed is answered */
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count(0, '?'), 4);
    end();
}
END_TEST

/* A call of X that Y leaves unanswered. */
START_TEST(router_results_that_one_sender_waits_for_are_its_share)
{
    begin();
    net.limits.max_results = 4 * TF_SHARE_RESULTS;
    size_t slow = tf_test_net_add(&net);
    size_t line = tf_test_net_connect(&net, r, slow);
    offer(slow, line);
    for (uint16_t i = 0; i < TF_SHARE_RESULTS + 3; i++) {
        call(0, i, 16);
        if (i < 5) {
            call(1, i, 16);
        }
    }
    carry_to_relay();
    carry_back();
    ck_assert_uint_eq(count(0, 'o'), 3);
    ck_assert_uint_eq(count(1, 'o'), 0);
    tf_test_net_cut(&net, line);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count(0, '?'), TF_SHARE_RESULTS);
    ck_assert_uint_eq(count(1, '?'), 5);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        router_share_of_a_sender_is_bounded_in_items,
        router_share_of_a_sender_is_bounded_in_bytes,
        router_after_a_refusal_later_calls_are_refused_until_it_was_processed,
        router_guard_is_per_target,
        router_guard_is_lifted_when_its_own_refusal_was_processed,
        router_messages_held_for_a_promise_are_bounded_by_sender,
        router_message_that_a_next_hop_does_not_take_is_rejected_as_too_large,
        router_results_that_a_next_hop_owes_are_bounded,
        router_results_that_one_sender_waits_for_are_its_share,
        NULL,
    };
    return tf_test_run("node/router pressure", tests);
}
