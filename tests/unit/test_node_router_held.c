/* What waits inside a node: deliveries to promises that are not resolved yet (PROTOCOL.md D8), and what they name.
 * And that nothing stays of what came with them (D6). Side 0 is called A, side 1 B. */
#include "node/router.h"

#include "tests/unit/session_ends.h"

START_TEST(held_deliveries_come_in_order_and_before_later_ones)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    static const char *const names[] = {"1", "2", "3", "4"};
    for (size_t i = 0; i < 3; i++) {
        (void)tf_pair_send(&pair, A, result, names[i], false);
    }
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_DELIVER), 0);
    tf_pair_resolve_object(&pair, B, theirs, TF_PAIR_ROOT);
    ck_assert(tf_router_has_events(pair.side[B].router));
    (void)tf_pair_send(&pair, A, result, names[3], false); /* crosses the resolve, finds the others not yet heard */
    tf_pair_deliver_all(&pair, B);
    for (size_t i = 0; i < 4; i++) {
        const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, i);
        ck_assert_ptr_nonnull(call);
        ck_assert_str_eq(call->text, names[i]);
        ck_assert_uint_eq(call->local, TF_PAIR_ROOT);
    }
    ck_assert(!tf_router_has_events(pair.side[B].router));
    tf_pair_settle(&pair);
    tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT);
    settle_empty();
}
END_TEST

/* What a held delivery names stays: the peer's object is not dropped, ours is not told as dropped. */
START_TEST(held_delivery_keeps_what_it_names)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    tf_local ours = tf_pair_new_object(&pair, B);
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "take", ours, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    const tf_pair_event *took = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0);
    tf_local theirs_at_a = took->refs[0].local;
    tf_mention refs[2] = {{.local = theirs_at_a, .kind = TF_REF_OBJECT},
                          {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT}};
    tf_router_send send = {
        .target = result, .method = tf_slice_str("held"), .refs = refs, .ref_count = 2, .want_result = false};
    ck_assert_int_eq(tf_router_deliver(pair.side[A].router, pair.now, &send, NULL), TF_OK);
    tf_pair_resolve_data(&pair, A, took->result, "");
    tf_pair_release(&pair, A, theirs_at_a);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_node(&pair, B).held_items, 1);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).imports, 2);
    ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_GONE), 0);
    tf_pair_resolve_object(&pair, B, theirs, TF_PAIR_ROOT);
    pair.side[B].holds = false;
    tf_pair_settle(&pair);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    ck_assert_uint_eq(call->refs[0].local, ours);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_GONE, 0)->local, refs[1].local); /* at last */
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_GONE, 0)->local, ours);
    tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT);
    settle_empty();
}
END_TEST

static tf_local mentioned_again;

static void mention_in_turn(tf_pair *with, int side)
{
    if (mentioned_again != TF_LOCAL_NONE) {
        (void)tf_pair_send_ref(with, side, TF_PAIR_PEER_ROOT, "again", mentioned_again, TF_REF_OBJECT);
        mentioned_again = TF_LOCAL_NONE;
    }
}

/* A drop is executed, but before its event the application mentions the object again: it is not told after all. */
START_TEST(drop_is_not_told_when_its_turn_mentions_the_object_again)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_local promise = tf_pair_send_promise(&pair, A, "p");
    tf_pair_deliver_all(&pair, B);
    (void)tf_pair_send(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local, "held", false);
    tf_pair_deliver_all(&pair, A);
    tf_pair_release(&pair, B, import);
    (void)tf_pair_flush(&pair, B);
    tf_pair_resolve_object(&pair, A, promise, TF_PAIR_ROOT); /* "held" is ready */
    mentioned_again = object;
    pair.side[A].on_event = mention_in_turn;
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DELIVER), 1);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 0);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_GONE), 0);
    pair.side[B].holds = false;
    tf_pair_deliver_all(&pair, B);
    tf_pair_answer_all(&pair, B);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_GONE, 0)->local, object);
    settle_empty();
}
END_TEST

static tf_local spoken_of;

static void speak_in_turn(tf_pair *with, int side)
{
    if (spoken_of != TF_LOCAL_NONE) {
        (void)tf_pair_send_ref(with, side, spoken_of, "to it", spoken_of, TF_REF_PROMISE);
        spoken_of = TF_LOCAL_NONE;
    }
}

/* The peer's RESOLVE is there, but the application has not heard of it: it goes on speaking of the promise, and is
 * understood. */
START_TEST(promise_can_be_spoken_of_until_its_resolution_was_told)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    tf_local promise = tf_pair_send_promise(&pair, A, "p");
    tf_pair_deliver_all(&pair, B);
    (void)tf_pair_send(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local, "held", false);
    tf_pair_answer_all(&pair, B);
    tf_pair_deliver_all(&pair, A);
    tf_pair_resolve_object(&pair, B, theirs, TF_PAIR_ROOT);
    (void)tf_pair_flush(&pair, B);
    tf_pair_resolve_object(&pair, A, promise, TF_PAIR_ROOT); /* "held" comes first in the next turn */
    tf_pair_forget_events(&pair);
    spoken_of = result;
    pair.side[A].on_event = speak_in_turn;
    while (tf_pair_step(&pair, A)) {
    }
    ck_assert_str_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->text, "held");
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 0)->local, result);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    ck_assert_uint_eq(call->local, TF_PAIR_ROOT);
    ck_assert_uint_eq(call->refs[0].local, theirs);
    tf_pair_resolve_data(&pair, B, call->result, "");
    tf_pair_settle(&pair);
    tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT);
    settle_empty();
}
END_TEST

START_TEST(send_to_a_resolved_promise_obliges_an_ack)
{
    for (int in_turn = 0; in_turn < 2; in_turn++) {
        tf_local theirs = TF_LOCAL_NONE;
        tf_local result = tf_pair_ask(&pair, &theirs);
        (void)tf_pair_send(&pair, A, result, "m", false);
        (void)tf_pair_flush(&pair, A);
        if (in_turn == 0) {
            tf_pair_resolve_object(&pair, B, theirs, TF_PAIR_ROOT);
            ck_assert(tf_pair_step(&pair, B));
        } else { /* the application resolves it while this very message is being processed */
            tf_slice message = tf_pair_next(&pair, B);
            ck_assert_int_eq(tf_router_recv(pair.side[B].router, pair.side[B].session, pair.now, message), TF_OK);
            tf_pair_resolve_object(&pair, B, theirs, TF_PAIR_ROOT);
            tf_pair_turn(&pair, B);
            tf_pair_lose(&pair, B);
        }
        ck_assert_uint_eq(tf_session_deadline(pair.side[B].session), pair.now + TF_SESSION_ACK_DELAY);
        tf_pair_settle(&pair);
        tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT);
        settle_empty();
    }
}
END_TEST

START_TEST(held_target_dropped_by_the_peer_is_still_served)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    (void)tf_pair_send(&pair, A, result, "m", true);
    tf_pair_release(&pair, A, result);
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).drops_executed, 1);
    ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_GONE), 0);
    tf_pair_resolve_object(&pair, B, theirs, TF_PAIR_ROOT);
    tf_pair_turn(&pair, B);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->local, TF_PAIR_ROOT);
    tf_pair_answer_all(&pair, B);
    settle_empty();
}
END_TEST

START_TEST(held_deliveries_beyond_the_bound_are_rejected)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    for (size_t i = 0; i < TF_HELD_ITEMS_MAX; i++) {
        (void)tf_pair_send(&pair, A, result, "m", false);
    }
    (void)tf_pair_send(&pair, A, result, "too many", true);
    (void)tf_pair_send(&pair, A, result, "nobody is told", false);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_node(&pair, B).held_items, TF_HELD_ITEMS_MAX);
    ck_assert_ptr_nonnull(strstr(tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 0)->text, "overloaded"));
    tf_pair_resolve_data(&pair, B, theirs, "");
    settle_empty();
}
END_TEST

/* B3, D6: what came with a message that was answered with an error is dropped like anything else. */
START_TEST(imports_of_a_rejected_delivery_are_dropped)
{
    for (int held = 0; held < 2; held++) {
        tf_local theirs = TF_LOCAL_NONE;
        tf_local result = tf_pair_ask(&pair, &theirs);
        tf_local object = tf_pair_new_object(&pair, A);
        (void)tf_pair_send_ref(&pair, A, result, "m", object, TF_REF_OBJECT);
        if (held == 1) {
            tf_pair_deliver_all(&pair, B);
        }
        tf_pair_resolve_data(&pair, B, theirs, "");
        tf_pair_settle(&pair);
        ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_GONE, 0)->local, object);
        settle_empty();
    }
}
END_TEST

/* B2: nothing stays of a hundred objects that came and went. */
START_TEST(objects_that_come_and_go_leave_no_memory)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_pair_release(&pair, B, import);
    tf_pair_settle(&pair);
    pair.side[B].holds = false;
    size_t before = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++) {
            (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", tf_pair_new_object(&pair, A), TF_REF_OBJECT);
        }
        tf_pair_deliver_all(&pair, B);
        tf_pair_answer_all(&pair, B);
        tf_pair_settle(&pair);
        tf_pair_forget_events(&pair);
        ck_assert(tf_pair_is_empty(&pair));
        before = round == 1 ? tf_test_heap_shared()->live_bytes : before;
    }
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, before);
    settle_empty();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        held_deliveries_come_in_order_and_before_later_ones,
        held_delivery_keeps_what_it_names,
        drop_is_not_told_when_its_turn_mentions_the_object_again,
        promise_can_be_spoken_of_until_its_resolution_was_told,
        send_to_a_resolved_promise_obliges_an_ack,
        held_target_dropped_by_the_peer_is_still_served,
        held_deliveries_beyond_the_bound_are_rejected,
        imports_of_a_rejected_delivery_are_dropped,
        objects_that_come_and_go_leave_no_memory,
        NULL,
    };
    return tf_test_run("node/router held", tests);
}
