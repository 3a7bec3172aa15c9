/* The order of messages to a reference (P6) where a message and what waits for its answer are both held: found by
 * tests/sim/refs. */
#include "node/router.h"

#include "tests/support/check_main.h"
#include "tests/support/ref_nodes.h"
#include "tests/support/support.h"

static tf_test_net net;
static char heard[64]; /* the methods of what arrived at `listener`, in order */
static size_t listener;
static tf_local asked;     /* the result of the last message that wanted one, where it arrived */
static tf_local mentioned; /* what the last message mentioned first, where it arrived */

static void on_event(tf_test_net *n, size_t at, const tf_router_event *event)
{
    if (event->type != TF_ROUTER_DELIVER) {
        return;
    }
    asked = event->result != TF_LOCAL_NONE ? event->result : asked;
    if (event->ref_count > 0) {
        mentioned = event->refs[0].local;
        tf_router_hold(n->nodes[at].router, mentioned);
    }
    if (at == listener) {
        size_t len = strlen(heard);
        ck_assert_uint_lt(len + event->method.len + 1, sizeof(heard));
        memcpy(heard + len, event->method.data, event->method.len);
        memcpy(heard + len + event->method.len, " ", 2);
    }
}

static void begin(size_t who_listens)
{
    tf_test_net_init(&net, tf_test_mem(), on_event);
    listener = who_listens;
    heard[0] = '\0';
}

static void end(void)
{
    tf_test_net_clear(&net);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

static void send_with(size_t from, tf_local target, const char *method, const tf_mention *with, tf_local *result)
{
    tf_router_send send = {
        .target = target,
        .method = tf_slice_str(method),
        .refs = with,
        .ref_count = with == NULL ? 0 : 1,
        .want_result = result != NULL,
    };
    ck_assert_int_eq(tf_router_deliver(net.nodes[from].router, net.now, &send, result), TF_OK);
}

static void resolve_to(size_t at, tf_local promise, tf_local object)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {object, TF_REF_OBJECT}};
    ck_assert_int_eq(tf_router_resolve(net.nodes[at].router, net.now, &answer, 1), TF_OK);
    tf_test_net_take(&net, at);
}

/* Two messages to the answer of one that waits: the second is sent when the first one knows its way. */
START_TEST(router_queue_of_a_result_follows_its_message)
{
    begin(1);
    tf_test_net_connect(&net, tf_test_net_add(&net), tf_test_net_add(&net));
    tf_local remote = tf_test_net_root(&net, 0, 0);
    tf_local promise = tf_router_new_promise(net.nodes[0].router);
    tf_local answer = TF_LOCAL_NONE;
    send_with(0, promise, "ask", NULL, &answer);
    send_with(0, answer, "first", NULL, NULL);
    resolve_to(0, promise, remote);
    send_with(0, answer, "second", NULL, NULL);
    tf_test_net_run(&net);
    ck_assert_str_eq(heard, "ask ");
    resolve_to(1, asked, net.nodes[1].root);
    tf_test_net_run(&net);
    ck_assert_str_eq(heard, "ask first second ");
    end();
}
END_TEST

/* What waits for a promise mentions it. It is resolved to an object of the node on the other side of a relay, and
 * nobody is told before all that waits has gone. */
START_TEST(router_held_message_that_mentions_its_promise_does_not_tell_of_it)
{
    begin(0);
    for (size_t i = 0; i < 3; i++) {
        (void)tf_test_net_add(&net);
    }
    tf_test_net_connect(&net, 0, 1);
    tf_test_net_connect(&net, 1, 2);
    tf_mention far = {tf_test_net_root(&net, 1, 1), TF_REF_OBJECT};
    send_with(1, tf_test_net_root(&net, 0, 1), "here", &far, NULL);
    tf_test_net_run(&net);
    tf_local answer = TF_LOCAL_NONE;
    tf_mention near = {net.nodes[0].root, TF_REF_OBJECT};
    send_with(0, mentioned, "ask", &near, &answer);
    tf_test_net_run(&net);
    tf_mention itself = {asked, TF_REF_PROMISE};
    send_with(2, asked, "itself", &itself, NULL);
    send_with(0, answer, "first", NULL, NULL);
    tf_test_net_run(&net);
    resolve_to(2, asked, mentioned);
    ck_assert(tf_test_net_carry(&net, 1, 1) && tf_test_net_carry(&net, 1, 1));
    send_with(0, answer, "second", NULL, NULL);
    ck_assert(tf_test_net_carry(&net, 0, 0));
    tf_test_net_run(&net);
    ck_assert_str_eq(heard, "here itself first second ");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        router_queue_of_a_result_follows_its_message,
        router_held_message_that_mentions_its_promise_does_not_tell_of_it,
        NULL,
    };
    return tf_test_run("node/router", tests);
}
