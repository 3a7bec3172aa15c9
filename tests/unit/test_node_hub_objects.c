/* node/hub_objects: objects and promises of a program that embeds the node. */
#include "tests/unit/app_objects.h"

/* -- calls --------------------------------------------------------------------------------------------------------- */

START_TEST(objects_call_comes_with_all_that_belongs_to_it_and_is_answered)
{
    static setup s;
    begin(&s);
    tf_local promise = raw_ask_text(s.peer, s.seen, "say", "hello", tf_router_new_object(s.peer->end->router));
    raw_settle(s.peer);
    tf_app_event event = next(&s, TF_APP_CALL);
    const tf_node_id from = world_id(99);
    ck_assert(event.local == s.own && event.user == &s.tag && event.has_from && tf_node_id_eq(&event.from, &from));
    ck_assert(tf_slice_eq(event.method, tf_slice_str("say")) && tf_slice_eq(event.args, tf_slice_str("hello")));
    ck_assert(event.ref_count == 1 && event.refs[0].kind == TF_REF_OBJECT && event.result != TF_LOCAL_NONE);
    tf_answer answer = {.promise = event.result, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("yes")};
    ck_assert_int_eq(tf_hub_resolve(s.node->hub, s.w.now, &answer, 1), TF_OK);
    raw_settle(s.peer);
    ck_assert(raw_is_text(raw_find(s.peer, promise), "yes"));
    nothing_more(&s);
    end(&s);
}
END_TEST

START_TEST(objects_call_is_rejected_with_a_code)
{
    static setup s;
    begin(&s);
    tf_local promise = raw_ask_text(s.peer, s.seen, "say", "", TF_LOCAL_NONE);
    raw_settle(s.peer);
    tf_local result = next(&s, TF_APP_CALL).result;
    ck_assert_int_eq(tf_hub_reject(s.node->hub, s.w.now, result, tf_slice_str(""), tf_slice_str("")), TF_ERR_USAGE);
    ck_assert_int_eq(tf_hub_reject(s.node->hub, s.w.now, result, tf_slice_str("mine"), tf_slice_str("no")), TF_OK);
    raw_settle(s.peer);
    ck_assert_str_eq(raw_outcome(s.peer, promise), "mine");
    end(&s);
}
END_TEST

START_TEST(objects_rejection_beyond_its_bounds_is_an_error)
{
    static setup s;
    static uint8_t text[TF_REFUSAL_MESSAGE_MAX + 1];
    static const struct {
        size_t code;
        size_t message;
        tf_err err;
    } rows[] = {{0, 0, TF_ERR_USAGE},
                {TF_REFUSAL_CODE_MAX + 1, 0, TF_ERR_USAGE},
                {1, TF_REFUSAL_MESSAGE_MAX + 1, TF_ERR_USAGE},
                {1, 0, TF_OK},
                {TF_REFUSAL_CODE_MAX, TF_REFUSAL_MESSAGE_MAX, TF_OK}};
    begin(&s);
    memset(text, 'x', sizeof(text));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local promise = raw_ask_text(s.peer, s.seen, "say", "hello", TF_LOCAL_NONE);
        raw_settle(s.peer);
        tf_local result = next(&s, TF_APP_CALL).result;
        tf_err err = tf_hub_reject(s.node->hub, s.w.now, result, tf_slice_of(text, rows[i].code),
                                   tf_slice_of(text, rows[i].message));
        ck_assert_int_eq(err, rows[i].err);
        raw_settle(s.peer);
        ck_assert_int_eq(raw_find(s.peer, promise) != NULL, err == TF_OK);
    }
    end(&s);
}
END_TEST

START_TEST(objects_answer_to_a_call_is_told_once_and_with_its_user)
{
    static setup s;
    begin(&s);
    tf_local result = call(&s, tf_hub_peer_root(raw_pair(s.peer)->end[1].conn), "ask", NULL, 0);
    nothing_more(&s);
    raw_answer_text(s.peer, raw_got(s.peer, "ask")->result, "answer", tf_router_new_object(s.peer->end->router));
    raw_settle(s.peer);
    tf_app_event event = next(&s, TF_APP_SETTLED);
    ck_assert(event.local == result && event.user == &s.w && event.kind == TF_RESOLUTION_DATA);
    ck_assert(tf_slice_eq(event.data, tf_slice_str("answer")) && event.ref_count == 1);
    nothing_more(&s);
    fall_silent(&s);
    ck_assert_uint_eq(records_of(&s), 3); /* two roots, the application's object */
    ck_assert_uint_eq(s.node->hub->app.held.count, 0);
    end(&s);
}
END_TEST

START_TEST(objects_call_without_anybody_is_an_error)
{
    static setup s;
    begin(&s);
    tf_local result = TF_LOCAL_NONE;
    tf_router_send send = {.target = 4711, .method = tf_slice_str("x"), .args = tf_slice_str(""), .want_result = true};
    ck_assert_int_eq(tf_hub_call(s.node->hub, s.w.now, &send, NULL, &result), TF_ERR_USAGE);
    ck_assert_int_eq(tf_hub_hold(s.node->hub, 4711, NULL), TF_ERR_USAGE);
    tf_hub_release(s.node->hub, s.w.now, 4711);
    end(&s);
}
END_TEST

/* -- what an event names ------------------------------------------------------------------------------------------- */

START_TEST(objects_what_a_call_names_is_let_go_with_it_unless_it_is_held)
{
    static setup s;
    begin(&s);
    tf_local kept = tf_router_new_object(s.peer->end->router);
    tf_local lost = tf_router_new_object(s.peer->end->router);
    (void)raw_ask_text(s.peer, s.seen, "give", "", kept);
    (void)raw_ask_text(s.peer, s.seen, "give", "", lost);
    fall_silent(&s);
    ck_assert(raw_knows(s.peer, kept) && raw_knows(s.peer, lost)); /* the events wait */
    tf_local held = next(&s, TF_APP_CALL).refs[0].local;
    ck_assert_int_eq(tf_hub_hold(s.node->hub, held, &s), TF_OK);
    (void)next(&s, TF_APP_CALL);
    nothing_more(&s);
    fall_silent(&s);
    ck_assert(raw_knows(s.peer, kept) && !raw_knows(s.peer, lost));
    tf_hub_release(s.node->hub, s.w.now, held);
    tf_hub_release(s.node->hub, s.w.now, held); /* once too often: no-op */
    fall_silent(&s);
    ck_assert(!raw_knows(s.peer, kept));
    end(&s);
}
END_TEST

START_TEST(objects_all_that_a_call_names_is_let_go_with_it)
{
    static setup s;
    tf_mention refs[3];
    begin(&s);
    for (size_t i = 0; i < 3; i++) {
        refs[i] = (tf_mention){tf_router_new_object(s.peer->end->router), TF_REF_OBJECT};
    }
    tf_router_send send = {.target = s.seen, .method = tf_slice_str("give"), .refs = refs, .ref_count = 3};
    ck_assert_int_eq(tf_router_deliver(s.peer->end->router, s.w.now, &send, NULL), TF_OK);
    raw_settle(s.peer);
    ck_assert_uint_eq(next(&s, TF_APP_CALL).ref_count, 3);
    nothing_more(&s);
    fall_silent(&s);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(!raw_knows(s.peer, refs[i].local));
    }
    end(&s);
}
END_TEST

static tf_local tell_promise(setup *s, tf_local promise)
{
    tf_mention mention = {promise, TF_REF_PROMISE};
    tf_router_send send = {.target = s->seen, .method = tf_slice_str("wait"), .refs = &mention, .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(s->peer->end->router, s->w.now, &send, NULL), TF_OK);
    raw_settle(s->peer);
    return promise;
}

/* It is resolved while the event that names it waits: the application, which holds it then, is told all the same. */
START_TEST(objects_promise_of_a_call_that_waits_is_told_when_it_is_held)
{
    static setup s;
    begin(&s);
    tf_router *router = s.peer->end->router;
    tf_local promise = tell_promise(&s, tf_router_new_promise(router));
    tf_local object = tf_router_new_object(router);
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {object, TF_REF_OBJECT}};
    ck_assert_int_eq(tf_router_resolve(router, s.w.now, &answer, 1), TF_OK);
    raw_settle(s.peer);
    tf_local named = next(&s, TF_APP_CALL).refs[0].local;
    ck_assert_int_eq(tf_hub_hold(s.node->hub, named, &s), TF_OK);
    (void)call(&s, named, "early", NULL, 0); /* it is the object, though nobody has told yet */
    ck_assert_uint_eq(raw_got(s.peer, "early")->promise, object);
    tf_app_event event = next(&s, TF_APP_SETTLED);
    ck_assert(event.local == named && event.user == &s && event.kind == TF_RESOLUTION_OBJECT);
    (void)call(&s, event.object.local, "later", NULL, 0);
    ck_assert_uint_eq(raw_got(s.peer, "later")->promise, object);
    ck_assert_int_eq(tf_hub_hold(s.node->hub, named, NULL), TF_ERR_USAGE); /* it is over */
    nothing_more(&s);
    end(&s);
}
END_TEST

/* Its answer names itself, so that it is still there while that event is looked at. */
START_TEST(objects_promise_that_was_told_is_not_held_again)
{
    static setup s;
    begin(&s);
    tf_local object = tf_router_new_object(s.peer->end->router);
    (void)raw_ask_text(s.peer, s.seen, "give", "", object);
    raw_settle(s.peer);
    tf_local target = next(&s, TF_APP_CALL).refs[0].local;
    ck_assert_int_eq(tf_hub_hold(s.node->hub, target, &s), TF_OK);
    tf_local promise = call(&s, target, "ask", NULL, 0);
    tf_local result = raw_got(s.peer, "ask")->result;
    tf_mention self = {result, TF_REF_PROMISE};
    tf_answer answer = {
        .promise = result, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("x"), .refs = &self, .ref_count = 1};
    ck_assert_int_eq(tf_router_resolve(s.peer->end->router, s.w.now, &answer, 1), TF_OK);
    raw_settle(s.peer);
    tf_app_event event = next(&s, TF_APP_SETTLED);
    ck_assert(event.local == promise && event.ref_count == 1 && event.refs[0].local == promise);
    ck_assert_int_eq(tf_hub_hold(s.node->hub, promise, &s), TF_ERR_USAGE);
    nothing_more(&s);
    tf_hub_release(s.node->hub, s.w.now, target);
    end(&s);
}
END_TEST

START_TEST(objects_promise_of_a_call_that_nobody_holds_is_not_told)
{
    static setup s;
    begin(&s);
    tf_local promise = tell_promise(&s, tf_router_new_promise(s.peer->end->router));
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("x")};
    ck_assert_int_eq(tf_router_resolve(s.peer->end->router, s.w.now, &answer, 1), TF_OK);
    raw_settle(s.peer);
    (void)next(&s, TF_APP_CALL);
    nothing_more(&s);
    end(&s);
}
END_TEST

START_TEST(objects_answer_that_waits_when_its_promise_is_let_go_is_not_told)
{
    static setup s;
    begin(&s);
    tf_local result = call(&s, tf_hub_peer_root(raw_pair(s.peer)->end[1].conn), "ask", NULL, 0);
    raw_answer_text(s.peer, raw_got(s.peer, "ask")->result, "answer", TF_LOCAL_NONE);
    raw_settle(s.peer);
    tf_hub_release(s.node->hub, s.w.now, result);
    nothing_more(&s);
    end(&s);
}
END_TEST

/* One of the application, of which the peer has been told; *seen is what it is to the peer. */
static tf_local own_promise(setup *s, tf_local *seen)
{
    tf_local promise = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_hub_promise_new(s->node->hub, s, &promise), TF_OK);
    (void)call(s, tf_hub_peer_root(raw_pair(s->peer)->end[1].conn), "later", &(tf_mention){promise, TF_REF_PROMISE}, 1);
    *seen = raw_got(s->peer, "later")->ref;
    return promise;
}

START_TEST(objects_own_promise_is_decided_here)
{
    static setup s;
    tf_local seen = TF_LOCAL_NONE;
    begin(&s);
    tf_local promise = own_promise(&s, &seen);
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("now")};
    ck_assert_int_eq(tf_hub_resolve(s.node->hub, s.w.now, &answer, 1), TF_OK);
    raw_settle(s.peer);
    ck_assert(raw_is_text(raw_find(s.peer, seen), "now"));
    nothing_more(&s);
    end(&s);
}
END_TEST

START_TEST(objects_own_promise_that_is_let_go_leaves_nothing)
{
    static setup s;
    tf_hub_ref_state state;
    tf_local promise = TF_LOCAL_NONE;
    begin(&s);
    size_t before = records_of(&s);
    ck_assert_int_eq(tf_hub_promise_new(s.node->hub, NULL, &promise), TF_OK);
    ck_assert(tf_hub_describe(s.node->hub, promise, &state));
    tf_hub_release(s.node->hub, s.w.now, promise);
    fall_silent(&s);
    ck_assert(!tf_hub_describe(s.node->hub, promise, &state));
    ck_assert_uint_eq(records_of(&s), before);
    end(&s);
}
END_TEST

/* -- the end of things --------------------------------------------------------------------------------------------- */

START_TEST(objects_host_that_goes_is_told_of_what_is_held)
{
    static setup s;
    begin(&s);
    (void)raw_ask_text(s.peer, s.seen, "give", "", tf_router_new_object(s.peer->end->router));
    raw_settle(s.peer);
    tf_local held = next(&s, TF_APP_CALL).refs[0].local;
    ck_assert_int_eq(tf_hub_hold(s.node->hub, held, &s), TF_OK);
    tf_local result = call(&s, held, "ask", NULL, 0);
    raw_lose(&s.peer);
    bool told[2] = {false, false};
    for (size_t i = 0; i < 2; i++) {
        tf_app_event event;
        ck_assert(tf_hub_next_app_event(s.node->hub, &event));
        ck_assert(tf_slice_eq(event.data, tf_code_rejection(TF_CODE_DISCONNECTED)));
        ck_assert(event.type == TF_APP_SETTLED ? event.local == result : event.local == held && event.user == &s);
        told[event.type == TF_APP_SETTLED] = true;
    }
    ck_assert(told[0] && told[1]);
    ck_assert_uint_eq(next(&s, TF_APP_GONE).local, s.own); /* it had the object */
    nothing_more(&s);
    tf_hub_ref_state state;
    ck_assert(tf_hub_describe(s.node->hub, held, &state) && state.is_revoked && state.conn == NULL && !state.is_own);
    tf_hub_release(s.node->hub, s.w.now, held);
    world_settle(&s.w);
    ck_assert(!tf_hub_describe(s.node->hub, held, &state));
    end(&s);
}
END_TEST

/* The name's watch holds it, too: who comes later is told all the same. */
START_TEST(objects_held_after_it_was_revoked_is_told)
{
    static setup s;
    begin(&s);
    tf_local object = tf_router_new_object(s.peer->end->router);
    (void)raw_ask_text(s.peer, s.seen, "give", "", object);
    (void)raw_ask_text(s.peer, s.seen, "give", "", object);
    raw_settle(s.peer);
    tf_local held = next(&s, TF_APP_CALL).refs[0].local;
    ck_assert_int_eq(tf_hub_hold(s.node->hub, held, &s), TF_OK);
    raw_lose(&s.peer);
    (void)next(&s, TF_APP_CALL);
    ck_assert_uint_eq(next(&s, TF_APP_REVOKED).local, held);
    ck_assert_uint_eq(next(&s, TF_APP_GONE).local, s.own);
    tf_router_hold(s.node->hub->router, held); /* somebody else */
    tf_hub_release(s.node->hub, s.w.now, held);
    ck_assert_int_eq(tf_hub_hold(s.node->hub, held, &s.tag), TF_OK);
    tf_hub_release(s.node->hub, s.w.now, held); /* before it is told */
    nothing_more(&s);
    ck_assert_int_eq(tf_hub_hold(s.node->hub, held, &s.tag), TF_OK);
    world_settle(&s.w);
    tf_app_event event = next(&s, TF_APP_REVOKED);
    ck_assert(event.user == &s.tag && tf_slice_eq(event.data, tf_code_rejection(TF_CODE_DISCONNECTED)));
    ck_assert_int_eq(event.kind, TF_RESOLUTION_REJECTION);
    nothing_more(&s);
    tf_router_release(s.node->hub->router, s.w.now, held);
    end(&s);
}
END_TEST

START_TEST(objects_that_nobody_refers_to_any_more_is_told_and_may_come_back)
{
    static setup s;
    tf_hub_ref_state state;
    begin(&s);
    ck_assert(tf_hub_describe(s.node->hub, s.own, &state) && state.is_own && state.exports == 1 && !state.is_revoked);
    raw_release(s.peer, s.seen);
    fall_silent(&s);
    tf_app_event event = next(&s, TF_APP_GONE);
    ck_assert(event.local == s.own && event.user == &s.tag);
    ck_assert(!tf_hub_describe(s.node->hub, s.own, &state));
    (void)call(&s, tf_hub_peer_root(raw_pair(s.peer)->end[1].conn), "again", &(tf_mention){s.own, TF_REF_OBJECT}, 1);
    (void)raw_ask_text(s.peer, raw_got(s.peer, "again")->ref, "say", "", TF_LOCAL_NONE);
    raw_settle(s.peer);
    ck_assert_uint_eq(next(&s, TF_APP_CALL).local, s.own);
    nothing_more(&s);
    end(&s);
}
END_TEST

START_TEST(objects_revoked_one_answers_no_call)
{
    static setup s;
    begin(&s);
    tf_result_refusal why = {.code = tf_slice_str("moved"), .message = tf_slice_str("elsewhere")};
    ck_assert_int_eq(tf_hub_revoke(s.node->hub, s.w.now, s.own, false, &why), TF_OK);
    ck_assert_int_eq(tf_hub_revoke(s.node->hub, s.w.now, s.own, false, &why), TF_ERR_USAGE);
    ck_assert_int_eq(tf_hub_revoke(s.node->hub, s.w.now, tf_hub_root(s.node->hub), false, &why), TF_ERR_USAGE);
    tf_local promise = raw_ask_text(s.peer, s.seen, "say", "", TF_LOCAL_NONE);
    raw_settle(s.peer);
    ck_assert_str_eq(raw_outcome(s.peer, promise), "moved");
    nothing_more(&s);
    end(&s);
}
END_TEST

START_TEST(objects_freed_one_is_revoked_and_its_waiting_calls_with_it)
{
    static setup s;
    begin(&s);
    tf_local before = raw_ask_text(s.peer, s.seen, "say", "", TF_LOCAL_NONE);
    raw_settle(s.peer);
    ck_assert(tf_hub_object_user(s.node->hub, s.own, NULL));
    tf_hub_object_free(s.node->hub, s.w.now, s.own);
    tf_hub_object_free(s.node->hub, s.w.now, s.own);
    ck_assert(!tf_hub_object_user(s.node->hub, s.own, NULL));
    tf_local after = raw_ask_text(s.peer, s.seen, "say", "", TF_LOCAL_NONE);
    nothing_more(&s);
    raw_settle(s.peer);
    ck_assert_str_eq(raw_outcome(s.peer, before), "revoked");
    ck_assert_str_eq(raw_outcome(s.peer, after), "revoked");
    end(&s);
}
END_TEST

START_TEST(objects_freed_one_is_not_told_to_be_gone)
{
    static setup s;
    begin(&s);
    raw_release(s.peer, s.seen);
    raw_settle(s.peer);
    ck_assert(tf_hub_has_app_events(s.node->hub));
    tf_hub_object_free(s.node->hub, s.w.now, s.own);
    nothing_more(&s);
    end(&s);
}
END_TEST

START_TEST(objects_call_that_waits_outlives_its_caller)
{
    static setup s;
    begin(&s);
    (void)raw_ask_text(s.peer, s.seen, "say", "hello", TF_LOCAL_NONE);
    raw_settle(s.peer);
    raw_lose(&s.peer);
    tf_app_event event = next(&s, TF_APP_CALL);
    ck_assert(!event.has_from && tf_slice_eq(event.args, tf_slice_str("hello")));
    tf_answer answer = {.promise = event.result, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("late")};
    ck_assert_int_eq(tf_hub_resolve(s.node->hub, s.w.now, &answer, 1), TF_OK); /* for nobody */
    ck_assert_uint_eq(next(&s, TF_APP_GONE).local, s.own);
    end(&s);
}
END_TEST

/* What waited at a promise here, and is for the node itself once that is decided: whoever would be served is gone. */
START_TEST(objects_request_that_waits_is_not_served_without_its_caller)
{
    static setup s;
    tf_local seen = TF_LOCAL_NONE;
    begin(&s);
    tf_local promise = own_promise(&s, &seen);
    (void)tell_promise(&s, raw_ask_text(s.peer, seen, "open", "", TF_LOCAL_NONE));
    tf_local result = next(&s, TF_APP_CALL).refs[0].local;
    ck_assert_int_eq(tf_hub_hold(s.node->hub, result, &s), TF_OK);
    raw_lose(&s.peer);
    tf_answer root = {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {s.node->hub->root.local, TF_REF_OBJECT}};
    ck_assert_int_eq(tf_hub_resolve(s.node->hub, s.w.now, &root, 1), TF_OK);
    world_settle(&s.w);
    bool told = false;
    tf_app_event event;
    while (tf_hub_next_app_event(s.node->hub, &event)) {
        told = told || (event.type == TF_APP_SETTLED && event.local == result &&
                        tf_slice_eq(event.data, tf_code_rejection(TF_CODE_DISCONNECTED)));
    }
    ck_assert(told);
    end(&s);
}
END_TEST

START_TEST(objects_failed_allocation_leaks_nothing)
{
    static setup s;
    for (uint64_t k = 0; k < 40; k++) {
        begin(&s);
        (void)raw_ask_text(s.peer, s.seen, "say", "hello", tf_router_new_object(s.peer->end->router));
        world_raw_pump(&s.w, s.peer->end);
        (void)world_move(&s.w, raw_pair(s.peer), 0);
        tf_test_heap_fail_at(&s.w.heap, k, true);
        world_end_turn(&s.w, s.node);
        tf_local made = TF_LOCAL_NONE;
        tf_err err = tf_hub_object_new(s.node->hub, NULL, &made);
        ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
        err = tf_hub_promise_new(s.node->hub, NULL, &made);
        ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
        tf_test_heap_fail_never(&s.w.heap);
        s.node->failures = 0;
        end(&s);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        objects_call_comes_with_all_that_belongs_to_it_and_is_answered,
        objects_call_is_rejected_with_a_code,
        objects_rejection_beyond_its_bounds_is_an_error,
        objects_answer_to_a_call_is_told_once_and_with_its_user,
        objects_call_without_anybody_is_an_error,
        objects_what_a_call_names_is_let_go_with_it_unless_it_is_held,
        objects_all_that_a_call_names_is_let_go_with_it,
        objects_promise_of_a_call_that_waits_is_told_when_it_is_held,
        objects_promise_that_was_told_is_not_held_again,
        objects_promise_of_a_call_that_nobody_holds_is_not_told,
        objects_answer_that_waits_when_its_promise_is_let_go_is_not_told,
        objects_own_promise_is_decided_here,
        objects_own_promise_that_is_let_go_leaves_nothing,
        objects_host_that_goes_is_told_of_what_is_held,
        objects_held_after_it_was_revoked_is_told,
        objects_that_nobody_refers_to_any_more_is_told_and_may_come_back,
        objects_revoked_one_answers_no_call,
        objects_freed_one_is_revoked_and_its_waiting_calls_with_it,
        objects_freed_one_is_not_told_to_be_gone,
        objects_call_that_waits_outlives_its_caller,
        objects_request_that_waits_is_not_served_without_its_caller,
        objects_failed_allocation_leaks_nothing,
        NULL,
    };
    return tf_test_run("node/hub objects", tests);
}
