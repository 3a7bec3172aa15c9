/* One node and its application: sends that stay on it, counts, what it is told. */
#include "node/router.h"

#include "tests/support/check_main.h"
#include "tests/support/ref_nodes.h"
#include "tests/support/support.h"

#define SEEN_MAX 16u

typedef struct seen {
    tf_router_event event;
    size_t node;
    tf_mention refs[4];
    char data[128]; /* of a delivery: its method */
} seen;

static tf_test_net net;
static seen events[SEEN_MAX];
static size_t event_count;

static void copy_text(char out[128], tf_slice text)
{
    ck_assert_uint_lt(text.len, 128);
    memcpy(out, text.len == 0 ? (const uint8_t *)"" : text.data, text.len);
    out[text.len] = 0;
}

static void on_event(tf_test_net *n, size_t node, const tf_router_event *event)
{
    (void)n;
    ck_assert_uint_lt(event_count, SEEN_MAX);
    seen *s = &events[event_count++];
    s->event = *event;
    s->node = node;
    ck_assert_uint_le(event->ref_count, 4);
    for (size_t i = 0; i < event->ref_count; i++) {
        s->refs[i] = event->refs[i];
    }
    copy_text(s->data, event->type == TF_ROUTER_DELIVER ? event->method : event->data);
}

static void begin(void)
{
    event_count = 0;
    tf_test_net_init(&net, tf_test_mem(), on_event);
}

static void end(void)
{
    tf_test_net_clear(&net);
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

static tf_router *router(size_t node)
{
    return net.nodes[node].router;
}

static tf_err send(size_t node, tf_local target, const char *method, tf_local *result)
{
    tf_router_send send = {
        .target = target, .method = tf_slice_str(method), .want_result = result != NULL};
    return tf_router_deliver(router(node), net.now, &send, result);
}

static tf_err resolve(size_t node, tf_local promise, const char *data, const tf_mention *refs, size_t count)
{
    tf_answer answer = {
        .promise = promise, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str(data), .refs = refs, .ref_count = count};
    return tf_router_resolve(router(node), net.now, &answer, 1);
}

static tf_err resolve_to(size_t node, tf_local promise, tf_local object)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {object, TF_REF_OBJECT}};
    return tf_router_resolve(router(node), net.now, &answer, 1);
}

/* The events of a type; *last is one of them. */
static size_t count_events(tf_router_event_type type, const seen **last)
{
    size_t count = 0;
    for (size_t i = 0; i < event_count; i++) {
        if (events[i].event.type == type) {
            count++;
            *last = &events[i];
        }
    }
    return count;
}

/* An object of the application that somebody refers to: a promise of its own that was resolved to it. */
static tf_local known_object(size_t node)
{
    tf_local object = tf_router_new_object(router(node));
    tf_local promise = tf_router_new_promise(router(node));
    tf_mention mention = {object, TF_REF_OBJECT};
    tf_router_hold(router(node), promise);
    ck_assert_int_eq(resolve(node, promise, "it", &mention, 1), TF_OK);
    return object;
}

START_TEST(router_send_to_own_object_comes_back_as_an_event)
{
    const seen *last = NULL;
    tf_local result = TF_LOCAL_NONE;
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local object = known_object(a);
    ck_assert_int_eq(send(a, object, "hello", &result), TF_OK);
    tf_test_net_run(&net);
    ck_assert_uint_eq(count_events(TF_ROUTER_DELIVER, &last), 1);
    ck_assert_uint_eq(last->event.local, object);
    ck_assert_ptr_null(last->event.session);
    ck_assert_str_eq(last->data, "hello");
    ck_assert_int_eq(resolve(a, last->event.result, "answer", NULL, 0), TF_OK);
    tf_test_net_run(&net);
    ck_assert_uint_eq(count_events(TF_ROUTER_RESOLVED, &last), 2); /* that of known_object is one */
    ck_assert_uint_eq(last->event.local, result);
    ck_assert_str_eq(last->data, "answer");
    end();
}
END_TEST

START_TEST(router_object_that_nobody_refers_to_is_gone_once)
{
    const seen *last = NULL;
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local object = known_object(a);
    tf_test_net_run(&net);
    ck_assert_uint_eq(count_events(TF_ROUTER_GONE, &last), 1);
    ck_assert_uint_eq(last->event.local, object);
    ck_assert(!tf_router_is_known(router(a), object));
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

START_TEST(router_unknown_target_or_promise_is_a_usage_error)
{
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local promise = tf_router_new_promise(router(a));
    tf_mention bad = {promise + 100, TF_REF_PROMISE};
    ck_assert_int_eq(send(a, tf_router_new_object(router(a)), "m", NULL), TF_ERR_USAGE);
    ck_assert_int_eq(send(a, promise, "", NULL), TF_ERR_USAGE);
    ck_assert_int_eq(send(a, promise, "\xff", NULL), TF_ERR_USAGE);
    ck_assert_int_eq(resolve(a, promise, "x", &bad, 1), TF_ERR_USAGE);
    ck_assert_int_eq(resolve_to(a, promise, promise), TF_ERR_USAGE);
    ck_assert_int_eq(resolve(a, promise, "x", NULL, 0), TF_OK);
    ck_assert_int_eq(resolve(a, promise, "x", NULL, 0), TF_ERR_USAGE);
    end();
}
END_TEST

START_TEST(router_answers_that_name_a_promise_twice_change_nothing)
{
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local promise = tf_router_new_promise(router(a));
    tf_answer answers[2] = {{.promise = promise, .kind = TF_RESOLUTION_DATA}, {.promise = promise}};
    answers[1].kind = TF_RESOLUTION_DATA;
    ck_assert_int_eq(tf_router_resolve(router(a), 0, answers, 2), TF_ERR_USAGE);
    ck_assert_int_eq(tf_router_resolve(router(a), 0, answers, 1), TF_OK);
    end();
}
END_TEST

START_TEST(router_messages_to_an_own_promise_wait_and_keep_their_order)
{
    static const char *const methods[] = {"one", "two", "three"};
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local promise = tf_router_new_promise(router(a));
    tf_local object = tf_router_new_object(router(a));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(send(a, promise, methods[i], NULL), TF_OK);
    }
    tf_test_net_run(&net);
    ck_assert_uint_eq(event_count, 0);
    ck_assert_int_eq(resolve_to(a, promise, object), TF_OK);
    ck_assert_int_eq(send(a, promise, "last", NULL), TF_OK);
    tf_test_net_run(&net);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_str_eq(events[i].data, methods[i]);
        ck_assert_uint_eq(events[i].event.local, object);
    }
    ck_assert_str_eq(events[3].data, "last");
    end();
}
END_TEST

START_TEST(router_messages_to_data_are_rejected)
{
    const seen *last = NULL;
    tf_local result = TF_LOCAL_NONE;
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local promise = tf_router_new_promise(router(a));
    tf_router_hold(router(a), promise);
    ck_assert_int_eq(send(a, promise, "m", &result), TF_OK);
    ck_assert_int_eq(resolve(a, promise, "data", NULL, 0), TF_OK);
    tf_test_net_run(&net);
    ck_assert_uint_eq(count_events(TF_ROUTER_RESOLVED, &last), 2);
    ck_assert_uint_eq(last->event.local, result);
    ck_assert_int_eq(last->event.kind, TF_RESOLUTION_REJECTION);
    ck_assert_ptr_nonnull(strstr(last->data, "cannot_send_to_data"));
    end();
}
END_TEST

START_TEST(router_who_begins_to_hold_what_is_resolved_is_told)
{
    const seen *last = NULL;
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local inner = tf_router_new_promise(router(a));
    tf_local outer = tf_router_new_promise(router(a));
    tf_mention mention = {inner, TF_REF_PROMISE};
    ck_assert_int_eq(resolve(a, outer, "outer", &mention, 1), TF_OK);
    ck_assert_int_eq(resolve(a, inner, "inner", NULL, 0), TF_OK);
    tf_router_event event;
    ck_assert(tf_router_next_event(router(a), &event));
    ck_assert_uint_eq(event.local, outer);
    tf_router_hold(router(a), event.refs[0].local); /* its own hold ends with the next event */
    tf_test_net_run(&net);
    ck_assert_uint_eq(count_events(TF_ROUTER_RESOLVED, &last), 1);
    ck_assert_uint_eq(last->event.local, inner);
    tf_test_net_run(&net);
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

START_TEST(router_held_messages_of_the_node_itself_are_bounded)
{
    begin();
    size_t a = tf_test_net_add(&net);
    tf_local promise = tf_router_new_promise(router(a));
    size_t sent = 0;
    while (send(a, promise, "m", NULL) == TF_OK) {
        sent++;
    }
    ck_assert_uint_eq(sent, TF_HELD_ITEMS_MAX);
    ck_assert_int_eq(send(a, promise, "m", NULL), TF_ERR_AGAIN);
    tf_router_stats stats;
    tf_router_get_stats(router(a), &stats);
    ck_assert_uint_eq(stats.held_items, TF_HELD_ITEMS_MAX);
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_DATA};
    ck_assert_int_eq(tf_router_resolve(router(a), 0, &answer, 1), TF_OK);
    tf_test_net_run(&net);
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

START_TEST(router_dead_cycle_is_collected_after_a_while)
{
    begin();
    size_t a = tf_test_net_add(&net);
    for (int i = 0; i < 2; i++) { /* the second is below what doubling would find */
        tf_local promise = tf_router_new_promise(router(a));
        tf_mention itself = {promise, TF_REF_PROMISE};
        ck_assert_int_eq(resolve(a, promise, "self", &itself, 1), TF_OK);
        tf_test_net_settle(&net, TF_NEVER - 1);
        ck_assert(tf_test_net_is_clean(&net));
        ck_assert_uint_eq(tf_router_deadline(router(a)), TF_NEVER);
    }
    tf_router_stats stats;
    tf_router_get_stats(router(a), &stats);
    ck_assert_uint_eq(stats.cycles, 2);
    end();
}
END_TEST

START_TEST(router_release_and_hold_of_the_unknown_are_ignored)
{
    begin();
    size_t a = tf_test_net_add(&net);
    tf_router_hold(router(a), 12345);
    tf_router_release(router(a), 0, 12345);
    tf_local promise = tf_router_new_promise(router(a));
    tf_router_release(router(a), 0, promise);
    tf_router_release(router(a), 0, promise);
    tf_test_net_run(&net);
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

START_TEST(router_calls_over_a_line_leave_nothing)
{
    const seen *last = NULL;
    tf_local result = TF_LOCAL_NONE;
    begin();
    size_t a = tf_test_net_add(&net);
    size_t b = tf_test_net_add(&net);
    size_t line = tf_test_net_connect(&net, a, b);
    ck_assert_int_eq(send(a, tf_test_net_root(&net, line, a), "call", &result), TF_OK);
    tf_test_net_run(&net);
    ck_assert_uint_eq(count_events(TF_ROUTER_DELIVER, &last), 1);
    ck_assert_ptr_eq(last->event.session, tf_test_net_session(&net, line, b));
    ck_assert_int_eq(resolve(b, last->event.result, "done", NULL, 0), TF_OK);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count_events(TF_ROUTER_RESOLVED, &last), 1);
    ck_assert_str_eq(last->data, "done");
    ck_assert(tf_test_net_is_clean(&net));
    tf_test_net_cut(&net, line);
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

/* A promise that comes home round a ring of three nodes, and is resolved to data that names what came home. */
START_TEST(router_resolution_that_goes_round_a_ring_ends)
{
    tf_local home = TF_LOCAL_NONE;
    begin();
    net.handler = NULL;
    size_t nodes[3] = {tf_test_net_add(&net), tf_test_net_add(&net), tf_test_net_add(&net)};
    size_t lines[3];
    for (size_t i = 0; i < 3; i++) {
        lines[i] = tf_test_net_connect(&net, nodes[i], nodes[(i + 1) % 3]);
    }
    tf_local promise = tf_router_new_promise(router(nodes[0]));
    tf_local passed = promise;
    for (size_t i = 0; i < 3; i++) { /* each mentions it to the root of the next, which holds it */
        tf_mention mention = {passed, TF_REF_PROMISE};
        tf_router_send send = {.target = tf_test_net_root(&net, lines[i], nodes[i]),
                               .method = tf_slice_str("take"),
                               .refs = &mention,
                               .ref_count = 1};
        ck_assert_int_eq(tf_router_deliver(router(nodes[i]), net.now, &send, NULL), TF_OK);
        tf_slice message;
        tf_router_event event;
        tf_session *from = tf_test_net_session(&net, lines[i], nodes[i]);
        size_t next = nodes[(i + 1) % 3];
        ck_assert(tf_session_peek_out(from, &message));
        ck_assert_int_eq(tf_router_recv(router(next), tf_test_net_session(&net, lines[i], next), net.now, message), TF_OK);
        ck_assert(tf_router_next_event(router(next), &event));
        home = passed = event.refs[0].local;
        tf_router_hold(router(next), passed);
        tf_test_net_take(&net, next);
        tf_session_pop_out(from);
    }
    ck_assert_uint_ne(home, promise);
    tf_mention itself = {home, TF_REF_PROMISE};
    ck_assert_int_eq(resolve(nodes[0], promise, "round", &itself, 1), TF_OK);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_lt(net.carried, 200);
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

/* A peer without the feature is told nothing, and what it sends is rejected all the same. */
START_TEST(router_revokes_without_telling_who_does_not_take_it)
{
    const seen *last = NULL;
    begin();
    net.without_revoke = true;
    size_t a = tf_test_net_add(&net);
    size_t b = tf_test_net_add(&net);
    size_t line = tf_test_net_connect(&net, a, b);
    tf_mention mention = {tf_router_new_object(router(a)), TF_REF_OBJECT};
    tf_router_send give = {.target = tf_test_net_root(&net, line, a), .method = tf_slice_str("m"), .refs = &mention,
                           .ref_count = 1};
    tf_router_event event;
    tf_slice message;
    ck_assert_int_eq(tf_router_deliver(router(a), 0, &give, NULL), TF_OK);
    ck_assert(tf_session_peek_out(tf_test_net_session(&net, line, a), &message));
    ck_assert_int_eq(tf_router_recv(router(b), tf_test_net_session(&net, line, b), 0, message), TF_OK);
    ck_assert(tf_router_next_event(router(b), &event));
    tf_local import = event.refs[0].local;
    tf_router_hold(router(b), import);
    tf_test_net_take(&net, b);
    tf_session_pop_out(tf_test_net_session(&net, line, a));
    tf_revocation revocation = {.object = mention.local, .hard = true, .data = tf_slice_str("gone")};
    ck_assert_int_eq(tf_router_revoke(router(a), 0, &revocation), TF_OK);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count_events(TF_ROUTER_REVOKED, &last), 0);
    tf_local result = TF_LOCAL_NONE;
    ck_assert_int_eq(send(b, import, "call", &result), TF_OK);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert_uint_eq(count_events(TF_ROUTER_RESOLVED, &last), 1);
    ck_assert_str_eq(last->data, "gone");
    static const uint8_t revoke[] = {0x94, 0x04, 0xc0, 0x00, 0x91, 0x94, 0x04, 0x00, 0xc4, 0x00, 0x90};
    ck_assert_int_eq(tf_router_recv(router(b), tf_test_net_session(&net, line, b), net.now,
                                    tf_slice_of(revoke, sizeof(revoke))), TF_ERR_PEER_SYNTAX);
    tf_router_release(router(b), net.now, import);
    tf_test_net_settle(&net, TF_NEVER - 1);
    ck_assert(tf_test_net_is_clean(&net));
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        router_send_to_own_object_comes_back_as_an_event,
        router_object_that_nobody_refers_to_is_gone_once,
        router_unknown_target_or_promise_is_a_usage_error,
        router_answers_that_name_a_promise_twice_change_nothing,
        router_messages_to_an_own_promise_wait_and_keep_their_order,
        router_messages_to_data_are_rejected,
        router_who_begins_to_hold_what_is_resolved_is_told,
        router_held_messages_of_the_node_itself_are_bounded,
        router_dead_cycle_is_collected_after_a_while,
        router_release_and_hold_of_the_unknown_are_ignored,
        router_calls_over_a_line_leave_nothing,
        router_resolution_that_goes_round_a_ring_ends,
        router_revokes_without_telling_who_does_not_take_it,
        NULL,
    };
    return tf_test_run("node/router", tests);
}
