/* Order per reference across resolution (P6; PROTOCOL.md D9, and second names of D8): X at the left end sends to a promise that Y
 * at the right end decides, and Y resolves it to an object of X's. */
#include <stdio.h>
#include <string.h>

#include "tests/support/check_main.h"
#include "tests/support/ref_chain.h"
#include "tests/support/support.h"

#define NODES_MAX 4u
#define X 0u
#define Y (chain.last)

static tf_chain chain;
static tf_local promise; /* at X */
static tf_local result;  /* the same at Y */

/* -- what is common ------------------------------------------------------------------------------------------------ */

static void begin(size_t nodes)
{
    tf_chain_begin(&chain, nodes);
    promise = tf_chain_ask(&chain, X, chain.y_at_x, "get");
    tf_chain_settle(&chain);
    result = tf_chain_find(&chain, Y, TF_ROUTER_DELIVER, "get", 0)->result;
}

static void end(void)
{
    tf_chain_answer_all(&chain, X, "");
    tf_chain_answer_all(&chain, Y, "");
    ck_assert(tf_chain_end(&chain));
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

static tf_router_stats stats(size_t node)
{
    tf_router_stats s;
    tf_router_get_stats(chain.net.nodes[node].router, &s);
    return s;
}

static void send(tf_local target, const char *method)
{
    tf_chain_send(&chain, X, target, method, NULL, 0);
}

static const tf_chain_event *find(size_t node, tf_router_event_type type, const char *text)
{
    const tf_chain_event *e = tf_chain_find(&chain, node, type, text, 0);
    ck_assert_msg(e != NULL && tf_chain_count(&chain, node, type, text) == 1, "%s is not there once", text);
    return e;
}

static void assert_heard(size_t node, const char *methods)
{
    ck_assert_str_eq(tf_chain_heard(&chain, node), methods);
}

/* -- two parties --------------------------------------------------------------------------------------------------- */

/* `first` goes to Y and back, `second` must not overtake it. */
START_TEST(order_second_waits_for_first_to_come_back)
{
    begin(2);
    tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
    send(promise, "first");
    ck_assert(tf_chain_left_one(&chain, Y)); /* the resolution */
    send(promise, "second");
    ck_assert_uint_eq(stats(X).fences, 1);
    ck_assert_uint_eq(stats(X).held_items, 1);
    tf_chain_right(&chain, X); /* first */
    tf_chain_left(&chain, Y);  /* turned round; the ack of it is not there */
    assert_heard(X, "first ");
    ck_assert_uint_eq(tf_chain_count(&chain, X, TF_ROUTER_RESOLVED, NULL), 0);
    send(promise, "third");
    ck_assert_uint_eq(stats(X).held_items, 2);
    tf_chain_settle(&chain);
    assert_heard(X, "first second third ");
    const tf_chain_event *told = find(X, TF_ROUTER_RESOLVED, NULL);
    ck_assert_uint_eq(told->object.local, chain.x);
    ck_assert(told > find(X, TF_ROUTER_DELIVER, "third")); /* they go, then it is told */
    end();
}
END_TEST

START_TEST(order_without_a_message_under_way_there_is_no_fence)
{
    begin(2);
    send(promise, "first");
    tf_chain_right(&chain, X);
    tf_chain_resolve_to(&chain, Y, result, chain.x_at_y); /* its RESOLVE acks the message */
    assert_heard(Y, "get ");
    tf_chain_left(&chain, Y);
    ck_assert_uint_eq(stats(X).fences, 0);
    assert_heard(X, "first ");
    (void)find(X, TF_ROUTER_RESOLVED, NULL);
    end();
}
END_TEST

/* Nothing can overtake where nothing goes another way. */
START_TEST(order_resolutions_that_stay_at_the_peer_need_no_fence)
{
    for (int kind = 0; kind < 3; kind++) {
        begin(2);
        send(promise, "first");
        if (kind == 0) {
            tf_chain_resolve_to(&chain, Y, result, tf_chain_object(&chain, Y));
        } else if (kind == 1) {
            tf_chain_resolve(&chain, Y, result, "data", NULL, 0);
        } else {
            tf_chain_reject(&chain, Y, result, "no", NULL, 0);
        }
        tf_chain_left(&chain, Y);
        ck_assert_uint_eq(stats(X).fences, 0);
        (void)find(X, TF_ROUTER_RESOLVED, NULL);
        end();
    }
}
END_TEST

/* A message to the result of one that waits, waits, too: X does not know yet who will decide it. */
START_TEST(order_messages_to_results_of_held_ones_wait)
{
    begin(2);
    tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
    send(promise, "first");
    ck_assert(tf_chain_left_one(&chain, Y));
    tf_local answer = tf_chain_ask(&chain, X, promise, "second");
    send(answer, "to_answer");
    ck_assert_uint_eq(stats(X).held_items, 2);
    tf_chain_settle(&chain);
    assert_heard(X, "first second ");
    ck_assert_uint_eq(stats(X).held_items, 1);
    tf_local object = tf_chain_object(&chain, X);
    tf_chain_resolve_to(&chain, X, find(X, TF_ROUTER_DELIVER, "second")->result, object);
    tf_chain_settle(&chain);
    assert_heard(X, "first second to_answer ");
    ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "to_answer")->local, object);
    end();
}
END_TEST

/* From the resolution on X decides the promise. To Y it is another one then, which is told when the fence is lifted. */
START_TEST(order_promise_behind_a_fence_is_mentioned_under_a_fresh_ref)
{
    begin(2);
    tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
    send(promise, "first");
    ck_assert(tf_chain_left_one(&chain, Y));
    tf_chain_send(&chain, X, chain.y_at_x, "take", &(tf_mention){promise, TF_REF_PROMISE}, 1);
    tf_chain_right(&chain, X);
    tf_local taken = find(Y, TF_ROUTER_DELIVER, "take")->refs[0].local;
    ck_assert_uint_ne(taken, result);
    ck_assert_uint_eq(tf_chain_count(&chain, Y, TF_ROUTER_RESOLVED, NULL), 0);
    tf_chain_send(&chain, Y, taken, "by_y", NULL, 0); /* waits at X, behind first */
    tf_chain_settle(&chain);
    assert_heard(X, "first by_y ");
    ck_assert_uint_eq(find(Y, TF_ROUTER_RESOLVED, NULL)->local, taken);
    ck_assert_uint_eq(find(Y, TF_ROUTER_RESOLVED, NULL)->object.local, chain.x_at_y);
    end();
}
END_TEST

/* -- through relays ------------------------------------------------------------------------------------------------ */

/* An innocent X: it has sent two messages to one promise over one connection. The relay has sent the first one on when it hears
 * what the promise is. */
START_TEST(order_relay_holds_what_would_overtake)
{
    begin(3);
    tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
    send(promise, "first");
    send(promise, "second");
    ck_assert(tf_chain_right_one(&chain, X));
    ck_assert(tf_chain_left_one(&chain, Y)); /* the resolution, at the relay */
    ck_assert(tf_chain_right_one(&chain, X));
    ck_assert_uint_eq(stats(1).fences, 1);
    ck_assert_uint_eq(stats(1).held_items, 1);
    tf_chain_right(&chain, 1); /* first, at Y */
    tf_chain_left(&chain, Y);
    tf_chain_left(&chain, 1);
    assert_heard(X, "first ");
    ck_assert_uint_eq(stats(X).fences, 0); /* nobody has told X */
    send(promise, "third");
    tf_chain_settle(&chain);
    assert_heard(X, "first second third ");
    end();
}
END_TEST

/* The resolution meets `first` on each line in turn; the ones behind it on each line of the way back. */
START_TEST(order_holds_over_two_relays_wherever_they_meet)
{
    for (size_t meet = 0; meet < NODES_MAX - 1; meet++) {
        for (size_t more = 0; more <= NODES_MAX - 1; more++) {
            begin(NODES_MAX);
            tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
            send(promise, "first");
            for (size_t i = 0; i < meet; i++) {
                tf_chain_right(&chain, i);
            }
            send(promise, "second");
            for (size_t i = Y; i > 0; i--) {
                tf_chain_left(&chain, i);
                if (i == more) {
                    send(promise, "third");
                    tf_chain_right(&chain, X);
                }
            }
            send(promise, "fourth");
            tf_chain_settle(&chain);
            assert_heard(X, more == 0 ? "first second fourth " : "first second third fourth ");
            end();
        }
    }
}
END_TEST

/* The object is a third node's: the two ways to it part at the relay. */
START_TEST(order_holds_on_the_way_to_a_third_node)
{
    begin(3);
    tf_chain_branch(&chain);
    tf_chain_resolve_to(&chain, Y, result, chain.z_at_y);
    send(promise, "first");
    tf_chain_right(&chain, X);
    ck_assert(tf_chain_left_one(&chain, Y));
    send(promise, "second");
    tf_chain_right(&chain, X);
    ck_assert_uint_eq(stats(1).held_items, 1);
    tf_test_net_run(&chain.net);
    assert_heard(chain.branch, "first ");
    tf_chain_settle(&chain);
    assert_heard(chain.branch, "first second ");
    end();
}
END_TEST

/* -- the awaited peer is lost -------------------------------------------------------------------------------------- */

/* The fence is at X, or at the relay next to it. */
START_TEST(order_what_waits_for_a_lost_peer_is_rejected)
{
    for (size_t nodes = 2; nodes <= 3; nodes++) {
        begin(nodes);
        size_t fence = nodes - 2;
        tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
        (void)tf_chain_ask(&chain, X, promise, "first");
        for (size_t i = 0; i < fence; i++) {
            tf_chain_right(&chain, i);
        }
        ck_assert(tf_chain_left_one(&chain, Y));
        tf_local second = tf_chain_ask(&chain, X, promise, "second");
        for (size_t i = 0; i < fence; i++) {
            tf_chain_right(&chain, i);
        }
        ck_assert_uint_eq(stats(fence).fences, 1);
        ck_assert_uint_eq(stats(fence).held_items, 1);
        tf_test_net_cut(&chain.net, fence);
        tf_chain_settle(&chain);
        ck_assert_uint_eq(tf_chain_count(&chain, X, TF_ROUTER_RESOLVED, "disconnected"), 3);
        bool told[2] = {false, false};
        for (size_t i = 0; i < 3; i++) {
            const tf_chain_event *e = tf_chain_find(&chain, X, TF_ROUTER_RESOLVED, "disconnected", i);
            ck_assert_int_eq(e->kind, TF_RESOLUTION_REJECTION);
            told[0] = told[0] || e->local == promise;
            told[1] = told[1] || e->local == second;
        }
        ck_assert(told[0] && told[1]);
        assert_heard(X, "");
        end();
    }
}
END_TEST

/* The sender is lost instead: what it has sent goes on, and its order stays. */
START_TEST(order_what_a_lost_sender_has_sent_goes_on)
{
    begin(3);
    tf_local own = tf_chain_object(&chain, Y);
    tf_chain_resolve_to(&chain, Y, result, own);
    (void)tf_chain_ask(&chain, X, promise, "first");
    send(promise, "second");
    tf_chain_right(&chain, X);
    tf_test_net_cut(&chain.net, 0);
    tf_chain_settle(&chain);
    assert_heard(Y, "get first second ");
    end();
}
END_TEST

/* -- second names (D8) --------------------------------------------------------------------------------------------- */

/* X asks, and the question comes back to its own object: to answer it is to answer the one that asked. */
START_TEST(order_question_that_comes_back_has_a_second_name)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        begin(nodes);
        tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
        tf_local asked = tf_chain_ask(&chain, X, promise, "first");
        tf_chain_settle(&chain);
        tf_local second = find(X, TF_ROUTER_DELIVER, "first")->result;
        ck_assert_uint_ne(second, asked);
        tf_chain_resolve(&chain, X, second, "done", NULL, 0);
        tf_chain_settle(&chain);
        ck_assert_uint_eq(find(X, TF_ROUTER_RESOLVED, "done")->local, asked);
        end();
    }
}
END_TEST

/* Messages to the first name go after the question; its resolution by the second one is behind a fence like any other. */
START_TEST(order_messages_to_the_first_name_stay_in_order)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        begin(nodes);
        tf_local object = tf_chain_object(&chain, X);
        tf_chain_resolve_to(&chain, Y, result, chain.x_at_y);
        tf_local asked = tf_chain_ask(&chain, X, promise, "question");
        send(asked, "first");
        for (size_t i = 0; i < Y; i++) {
            tf_chain_right(&chain, i);
        }
        for (size_t i = Y; i > 0; i--) {
            tf_chain_left(&chain, i);
        }
        tf_chain_resolve_to(&chain, X, find(X, TF_ROUTER_DELIVER, "question")->result, object);
        send(asked, "second");
        tf_test_net_run(&chain.net);
        send(asked, "third");
        tf_chain_settle(&chain);
        assert_heard(X, "question first second third ");
        ck_assert_uint_eq(find(X, TF_ROUTER_DELIVER, "third")->local, object);
        end();
    }
}
END_TEST

/* -- every other order --------------------------------------------------------------------------------------------- */

#define MESSAGES 5u
#define RUNS 150u

/* Whether any line has moved. */
static bool move_something(tf_test_random *random)
{
    size_t first = (size_t)tf_test_random_below(random, 2 * Y);
    for (size_t i = 0; i < 2 * Y; i++) {
        size_t at = (first + i) % (2 * Y);
        if (tf_test_net_carry(&chain.net, at / 2, at % 2)) {
            return true;
        }
    }
    return false;
}

static void resolve_somehow(uint64_t how)
{
    if (how == 0) {
        tf_chain_resolve(&chain, Y, result, "hi", NULL, 0);
    } else {
        tf_chain_resolve_to(&chain, Y, result, how == 1 ? tf_chain_object(&chain, Y) : chain.x_at_y);
    }
}

/* X sends while it can, Y resolves somewhere in between. How many X has sent. */
static size_t run_order(tf_test_random *random, uint64_t how)
{
    size_t sent = 0;
    bool resolved = false;
    while (sent < MESSAGES || !resolved) {
        char method[32];
        uint64_t deed = tf_test_random_below(random, 4);
        if (deed == 0 && sent < MESSAGES && tf_router_is_known(chain.net.nodes[X].router, promise)) {
            (void)snprintf(method, sizeof(method), "m%zu", sent++);
            (void)tf_chain_ask(&chain, X, promise, method);
        } else if (deed == 1 && !resolved) {
            resolve_somehow(how);
            resolved = true;
        } else if (!move_something(random) && resolved) {
            break;
        }
    }
    tf_chain_settle(&chain);
    return sent;
}

/* All have come, in order; or all were rejected. */
static void assert_in_order(uint64_t how, size_t sent)
{
    size_t seen = 0;
    for (size_t i = 0; i < chain.event_count; i++) {
        const tf_chain_event *e = &chain.events[i];
        char method[32];
        (void)snprintf(method, sizeof(method), "m%zu", seen);
        if (e->type == TF_ROUTER_DELIVER && e->text[0] == 'm') {
            ck_assert_uint_ne(how, 0);
            ck_assert_uint_eq(e->node, how == 1 ? Y : X);
            ck_assert_str_eq(e->text, method);
            seen++;
        }
    }
    ck_assert_uint_eq(seen, how == 0 ? 0 : sent);
    ck_assert_uint_eq(tf_chain_count(&chain, X, TF_ROUTER_RESOLVED, "cannot_send_to_data"), how == 0 ? sent : 0);
}

START_TEST(order_holds_in_random_orders)
{
    for (size_t nodes = 2; nodes <= NODES_MAX; nodes++) {
        for (uint64_t seed = 0; seed < RUNS; seed++) {
            tf_test_random random;
            tf_test_random_init(&random, seed);
            begin(nodes);
            assert_in_order(seed % 3, run_order(&random, seed % 3));
            end();
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        order_second_waits_for_first_to_come_back,
        order_without_a_message_under_way_there_is_no_fence,
        order_resolutions_that_stay_at_the_peer_need_no_fence,
        order_messages_to_results_of_held_ones_wait,
        order_promise_behind_a_fence_is_mentioned_under_a_fresh_ref,
        order_relay_holds_what_would_overtake,
        order_holds_over_two_relays_wherever_they_meet,
        order_holds_on_the_way_to_a_third_node,
        order_what_waits_for_a_lost_peer_is_rejected,
        order_what_a_lost_sender_has_sent_goes_on,
        order_question_that_comes_back_has_a_second_name,
        order_messages_to_the_first_name_stay_in_order,
        order_holds_in_random_orders,
        NULL,
    };
    return tf_test_run("node/router, order", tests);
}
