/* node/router, what an application may not say: it is refused, and nothing has changed. Side 0 is called A, side 1 B. */
#include "node/router.h"

#include "tests/unit/session_ends.h"

static tf_session_limits limits;

static void begin_pair(void)
{
    limits = tf_pair_limits();
    begin(&limits);
}

static tf_err revoke(const tf_revocation *revocation)
{
    return tf_router_revoke(pair.side[A].router, pair.now, revocation);
}

START_TEST(router_send_answers_and_revocation_beyond_the_limits_are_refused)
{
    static uint8_t data[TF_MESSAGE_MAX + 1];
    static tf_answer answers[TF_REFS_PER_MESSAGE + 1];
    static tf_mention refs[TF_REFS_PER_MESSAGE + 1];
    begin_pair();
    tf_router *router = pair.side[A].router;
    tf_router_stats before = tf_pair_node(&pair, A);
    tf_router_send send = {
        .target = TF_PAIR_ROOT, .method = tf_slice_str("m"), .args = tf_slice_of(data, sizeof(data))};
    ck_assert_int_eq(tf_router_deliver(router, pair.now, &send, NULL), TF_ERR_LIMIT_BYTES);
    ck_assert_int_eq(tf_router_resolve(router, pair.now, answers, TF_REFS_PER_MESSAGE + 1), TF_ERR_LIMIT_ITEMS);
    tf_local object = TF_LOCAL_NONE;
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "take", object = tf_pair_new_object(&pair, A), TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, B);
    tf_revocation large = {.object = object, .data = tf_slice_of(data, TF_REJECTION_MAX + 1)};
    ck_assert_int_eq(revoke(&large), TF_ERR_LIMIT_BYTES);
    tf_revocation many = {.object = object, .refs = refs, .ref_count = TF_REFS_PER_MESSAGE + 1};
    ck_assert_int_eq(revoke(&many), TF_ERR_LIMIT_ITEMS);
    tf_mention unknown = {tf_pair_new_promise(&pair, B) + 1000, TF_REF_PROMISE};
    tf_revocation odd = {.object = object, .refs = &unknown, .ref_count = 1};
    ck_assert_int_eq(revoke(&odd), TF_ERR_USAGE);
    tf_session *owner = NULL;
    size_t exports = 0;
    bool revoked = true;
    ck_assert(tf_router_describe(router, object, &owner, &exports, &revoked));
    ck_assert(owner == NULL && exports == 1 && !revoked);
    ck_assert(!tf_router_describe(router, object + 1000, &owner, &exports, &revoked));
    ck_assert_uint_eq(tf_pair_node(&pair, A).records, before.records + 2); /* the object, and the result of "take" */
    tf_pair_free(&pair);
}
END_TEST

START_TEST(router_object_that_was_never_made_cannot_be_mentioned)
{
    begin_pair();
    tf_mention refs[] = {{tf_pair_new_object(&pair, A) + 1, TF_REF_OBJECT}, {TF_LOCAL_NONE, TF_REF_OBJECT}};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_pair_send_refs(&pair, A, &refs[i], 1, false), TF_ERR_USAGE);
    }
    ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 1); /* its root */
    tf_pair_free(&pair);
}
END_TEST

START_TEST(router_revokes_only_objects_of_its_own)
{
    begin_pair();
    tf_local promise = tf_pair_send_promise(&pair, A, "p");
    tf_local theirs = TF_LOCAL_NONE;
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "take", theirs = tf_pair_new_object(&pair, B), TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    theirs = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local;
    const tf_local wrong[] = {promise, theirs, TF_PAIR_ROOT, TF_PAIR_PEER_ROOT};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(revoke(&(tf_revocation){.object = wrong[i], .data = tf_slice_str("x")}), TF_ERR_USAGE);
    }
    tf_pair_free(&pair);
}
END_TEST

/* Whoever holds an object of its own hears once of what came in one go. */
START_TEST(router_object_revoked_twice_before_it_was_told_is_told_once_and_hard)
{
    begin_pair();
    tf_local object = tf_pair_new_object(&pair, A);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "take", object, TF_REF_OBJECT);
    tf_router_hold(pair.side[A].router, object);
    ck_assert_int_eq(revoke(&(tf_revocation){.object = object, .data = tf_slice_str("soft")}), TF_OK);
    ck_assert_int_eq(revoke(&(tf_revocation){.object = object, .hard = true, .data = tf_slice_str("hard")}), TF_OK);
    ck_assert_int_eq(revoke(&(tf_revocation){.object = object, .hard = true, .data = tf_slice_str("hard")}),
                     TF_ERR_USAGE);
    size_t told = 0;
    for (tf_router_event event; tf_router_next_event(pair.side[A].router, &event);) {
        told += event.type == TF_ROUTER_REVOKED ? 1 : 0;
        ck_assert(event.type != TF_ROUTER_REVOKED || (event.hard && tf_slice_eq(event.data, tf_slice_str("hard"))));
    }
    ck_assert_uint_eq(told, 1);
    tf_router_release(pair.side[A].router, pair.now, object);
    tf_pair_free(&pair);
}
END_TEST

/* It was taken from the application when it waited at this node: its answer says that it could not go on. */
START_TEST(router_call_that_waited_and_cannot_go_on_is_refused)
{
    limits = tf_pair_limits();
    limits.max_results = 2;
    begin(&limits);
    for (size_t i = 0; i < 2; i++) {
        (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    }
    tf_local promise = tf_pair_new_promise(&pair, A);
    tf_local result = tf_pair_send(&pair, A, promise, "waits", true);
    tf_pair_resolve_object(&pair, A, promise, TF_PAIR_PEER_ROOT);
    size_t told = 0;
    for (tf_router_event event; tf_router_next_event(pair.side[A].router, &event);) {
        if (event.type == TF_ROUTER_RESOLVED && event.local == result) {
            ck_assert(tf_slice_eq(event.data, tf_code_rejection(TF_CODE_OVERLOADED)));
            told++;
        }
    }
    ck_assert_uint_eq(told, 1);
    ck_assert_uint_eq(tf_pair_node(&pair, A).held_items, 0);
    tf_pair_free(&pair);
}
END_TEST

/* The last event of a turn is of what nobody needs any more: then the session may end like at any other. */
START_TEST(router_session_may_end_with_the_last_event_of_its_turn)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_router *router = pair.side[A].router;
    tf_router_event event = {.type = TF_ROUTER_DELIVER};
    pair.side[B].holds = false;
    tf_pair_settle(&pair);
    tf_pair_release(&pair, B, import);
    (void)tf_pair_flush(&pair, B);
    ck_assert_int_eq(tf_router_recv(router, pair.side[A].session, pair.now, tf_pair_next(&pair, A)), TF_OK);
    while (event.type != TF_ROUTER_GONE) {
        ck_assert(tf_router_next_event(router, &event));
    }
    ck_assert_uint_eq(event.local, object);
    tf_router_detach(router, pair.now, pair.side[A].session);
    while (tf_router_next_event(router, &event)) {
        ck_assert_uint_ne(event.local, object);
    }
    ck_assert(!tf_router_has_events(router));
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        router_send_answers_and_revocation_beyond_the_limits_are_refused,
        router_object_that_was_never_made_cannot_be_mentioned,
        router_revokes_only_objects_of_its_own,
        router_object_revoked_twice_before_it_was_told_is_told_once_and_hard,
        router_call_that_waited_and_cannot_go_on_is_refused,
        router_session_may_end_with_the_last_event_of_its_turn,
        NULL,
    };
    return tf_test_run("node/router wrongly used", tests);
}
