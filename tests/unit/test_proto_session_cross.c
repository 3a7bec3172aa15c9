/* What crosses on the way (PROTOCOL.md D5, D7, D8, D10), in both orders. Side 0 is called A, side 1 B. */
#include "proto/session.h"
#include "tests/unit/session_ends.h"

/* -- drop x mention ------------------------------------------------------------------------------------------------ */

START_TEST(drop_crossing_a_mention_is_ignored_and_revived)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    (void)tf_pair_flush(&pair, A);
    tf_pair_release(&pair, B, import);
    (void)tf_pair_flush(&pair, B);
    ck_assert(tf_pair_step(&pair, A)); /* the drop, which has not seen the mention */
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_ignored, 1);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 2);
    ck_assert(tf_pair_step(&pair, B)); /* the mention: a new import */
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_local revived = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local;
    ck_assert_uint_ne(revived, import);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 0);
    (void)tf_pair_send(&pair, B, revived, "call", false); /* it can be spoken to again */
    tf_pair_answer_all(&pair, B);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->local, object);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 1);
    settle_empty();
}
END_TEST

/* A resolution mentions what its data names, like a message. */
START_TEST(drop_crossing_a_resolution_that_mentions_is_ignored)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    (void)tf_pair_send(&pair, B, TF_PAIR_PEER_ROOT, "get", true);
    tf_pair_deliver_all(&pair, A);
    tf_local result = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->result;
    tf_pair_release(&pair, B, import);
    (void)tf_pair_flush(&pair, B);
    tf_pair_resolve_object(&pair, A, result, object);
    (void)tf_pair_flush(&pair, A);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_ignored, 1);
    ck_assert(tf_pair_step(&pair, B));
    tf_local revived = tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0)->object.local;
    (void)tf_pair_send(&pair, B, revived, "call", false);
    tf_pair_deliver_all(&pair, A);
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 1)->local, object);
    tf_pair_release(&pair, B, revived);
    settle_empty();
}
END_TEST

START_TEST(drop_after_a_mention_was_seen_is_executed)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, B); /* held twice now */
    tf_pair_answer_all(&pair, B);
    tf_pair_release(&pair, B, import);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_ignored, 0);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DROPPED, 0)->local, object);
    settle_empty();
}
END_TEST

START_TEST(drop_executed_then_a_mention_uses_a_new_ref)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_pair_release(&pair, B, import);
    tf_pair_deliver_all(&pair, A);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    (void)tf_pair_flush(&pair, A);
    tf_message m;
    ck_assert_int_eq(tf_message_read(tf_pair_next(&pair, B), &m), TF_OK);
    tf_ref ref = 0;
    ck_assert(tf_refs_next(&m.refs, &ref));
    ck_assert_uint_eq(ref, tf_ref_make(2, TF_REF_OBJECT, TF_SIDE_DIALLER));
    tf_pair_deliver_all(&pair, B);
    tf_pair_answer_all(&pair, B);
    settle_empty();
}
END_TEST

/* Two drops and two mentions under way at once: each drop is judged by its own ack, a cancelled retirement is
 * harmless. */
START_TEST(drop_revive_drop_ends_empty)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    pair.side[B].holds = false;
    tf_pair_release(&pair, B, import);
    for (int i = 0; i < 3; i++) {
        (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    }
    tf_pair_deliver_all(&pair, B); /* three times revived, three times dropped */
    ck_assert_uint_eq(tf_pair_stats(&pair, B).retirements, 4);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).imports, 1);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_ignored, 3);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
    tf_pair_answer_all(&pair, B);
    settle_empty();
}
END_TEST

/* The ack of a drop is that of the moment when it was decided, however late its bytes leave. */
START_TEST(drop_waiting_to_be_sent_keeps_its_ack)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_pair_release(&pair, B, import); /* encoded, not sent */
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, B);
    tf_local revived = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local;
    tf_pair_deliver_all(&pair, A); /* now the drop arrives */
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_ignored, 1);
    (void)tf_pair_send(&pair, B, revived, "call", false);
    tf_pair_deliver_all(&pair, A);
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    tf_pair_answer_all(&pair, B);
    settle_empty();
}
END_TEST

/* -- drop x drop --------------------------------------------------------------------------------------------------- */

START_TEST(drops_of_both_sides_cross)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_local back = tf_pair_new_object(&pair, B);
    (void)tf_pair_send_ref(&pair, B, import, "m", back, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    tf_local theirs = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local;
    tf_pair_resolve_data(&pair, A, tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->result, "");
    tf_pair_settle(&pair);
    tf_pair_release(&pair, A, theirs);
    tf_pair_release(&pair, B, import);
    (void)tf_pair_flush(&pair, A);
    (void)tf_pair_flush(&pair, B);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert(tf_pair_step(&pair, B));
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).drops_executed, 1);
    settle_empty();
}
END_TEST

/* -- resolve x drop ------------------------------------------------------------------------------------------------ */

START_TEST(resolve_crossing_a_drop_is_ignored_but_its_refs_are_dropped)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    tf_local object = tf_pair_new_object(&pair, B);
    tf_pair_release(&pair, A, result);
    (void)tf_pair_flush(&pair, A);
    tf_pair_resolve_object(&pair, B, theirs, object);
    (void)tf_pair_flush(&pair, B);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_RESOLVED), 0);
    ck_assert(tf_pair_step(&pair, B)); /* a drop of a ref with a retirement to come */
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_DROPPED, 0)->local, object);
    settle_empty();
}
END_TEST

START_TEST(resolve_after_a_drop_is_skipped)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    tf_local object = tf_pair_new_object(&pair, B);
    tf_pair_release(&pair, A, result);
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_GONE, 0)->local, theirs);
    tf_pair_resolve_object(&pair, B, theirs, object);
    ck_assert_uint_eq(tf_pair_flush(&pair, B), 0);
    tf_pair_settle(&pair); /* the application cannot know: it hears of the object's end all the same */
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_GONE, 1)->local, object);
    settle_empty();
}
END_TEST

/* -- resolve x mention --------------------------------------------------------------------------------------------- */

START_TEST(mention_crossing_a_resolve_names_the_promise)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "it", result, TF_REF_PROMISE);
    (void)tf_pair_flush(&pair, A);
    tf_pair_resolve_data(&pair, B, theirs, "x");
    (void)tf_pair_flush(&pair, B);
    ck_assert(tf_pair_step(&pair, B));
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    ck_assert_uint_eq(call->refs[0].local, theirs);
    ck_assert_int_eq(call->refs[0].kind, TF_REF_PROMISE);
    tf_pair_resolve_data(&pair, B, call->result, "");
    tf_pair_settle(&pair);
    ck_assert(!tf_router_is_known(pair.side[B].router, theirs)); /* now it cannot be named any more */
    settle_empty();
}
END_TEST

/* B1: while the resolve is unacked the promise is mentioned again, to the peer that allocated its number. */
START_TEST(mention_of_a_resolved_promise_uses_a_fresh_ref)
{
    tf_local theirs = TF_LOCAL_NONE;
    (void)tf_pair_ask(&pair, &theirs);
    tf_mention again = {.local = theirs, .kind = TF_REF_PROMISE};
    tf_pair_resolve_data(&pair, B, theirs, "x");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(tf_pair_send_refs(&pair, B, &again, 1, false), TF_OK);
    }
    ck_assert_uint_eq(tf_pair_stats(&pair, B).retirements, 4); /* several refs, one promise */
    tf_pair_deliver_all(&pair, A);
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_RESOLVED), 4);
    for (size_t i = 0; i < 3; i++) {
        const tf_pair_event *call = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, i);
        ck_assert_uint_eq(call->refs[0].local, tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, i + 1)->local);
    }
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "innocent", false); /* carries the ack, and is not lost */
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).retirements, 0);
    ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_DELIVER), 1);
    settle_empty();
}
END_TEST

START_TEST(mention_of_an_import_that_was_resolved_is_resolved_again)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    tf_router_hold(pair.side[A].router, TF_PAIR_PEER_ROOT);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "keep", result, TF_REF_PROMISE);
    tf_pair_resolve_data(&pair, B, theirs, "x");
    (void)tf_pair_flush(&pair, B);
    ck_assert_int_eq(tf_router_recv(pair.side[A].router, pair.side[A].session, pair.now, tf_pair_next(&pair, A)), TF_OK);
    tf_router_event event;
    ck_assert(tf_router_next_event(pair.side[A].router, &event));
    ck_assert_int_eq(event.type, TF_ROUTER_RESOLVED);
    tf_pair_lose(&pair, A);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "it", result, TF_REF_PROMISE);
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 1);
    ck_assert_uint_ne(call->refs[0].local, theirs);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 1)->local, call->refs[0].local);
    tf_pair_answer_all(&pair, B);
    tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT);
    settle_empty();
}
END_TEST

/* -- resolve x send-to (D8) ---------------------------------------------------------------------------------------- */

START_TEST(send_crossing_a_resolve_to_an_object_goes_there)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    tf_local object = tf_pair_new_object(&pair, B);
    (void)tf_pair_send(&pair, A, result, "first", false);
    (void)tf_pair_send(&pair, A, result, "second", true);
    (void)tf_pair_flush(&pair, A);
    tf_pair_resolve_object(&pair, B, theirs, object);
    (void)tf_pair_flush(&pair, B);
    ck_assert(tf_pair_step(&pair, B));
    ck_assert(tf_pair_step(&pair, B));
    const tf_pair_event *first = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    const tf_pair_event *second = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 1);
    ck_assert_uint_eq(first->local, object);
    ck_assert_str_eq(first->text, "first");
    ck_assert_uint_eq(second->local, object);
    ck_assert_str_eq(second->text, "second");
    tf_pair_resolve_data(&pair, B, second->result, "");
    tf_pair_settle(&pair);
    tf_pair_release(&pair, A, tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 0)->object.local);
    settle_empty();
}
END_TEST

/* In both orders: the resolve comes first (held deliveries) or the delivery does (the D8 window). */
START_TEST(send_to_what_is_no_object_is_rejected)
{
    static const struct {
        bool rejected;
        bool resolved_first;
        const char *says;
    } rows[] = {{false, false, "cannot_send_to_data"},
                {false, true, "cannot_send_to_data"},
                {true, false, "because"},
                {true, true, "because"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local theirs = TF_LOCAL_NONE;
        tf_local result = tf_pair_ask(&pair, &theirs);
        tf_local answer = tf_pair_send(&pair, A, result, "m", true);
        (void)tf_pair_send(&pair, A, answer, "deeper", true); /* to the result of what is rejected */
        (void)tf_pair_send(&pair, A, result, "unanswered", false);
        if (!rows[i].resolved_first) {
            tf_pair_deliver_all(&pair, B);
            ck_assert_uint_eq(tf_pair_node(&pair, B).held_items, 3);
        }
        if (rows[i].rejected) {
            tf_pair_reject(&pair, B, theirs, "because");
        } else {
            tf_pair_resolve_data(&pair, B, theirs, "data");
        }
        tf_pair_settle(&pair);
        ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_DELIVER), 0);
        ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_RESOLVED), 3);
        for (size_t k = 1; k < 3; k++) {
            const tf_pair_event *rejection = tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, k);
            ck_assert_int_eq(rejection->kind, TF_RESOLUTION_REJECTION);
            ck_assert_ptr_nonnull(strstr(rejection->text, rows[i].says));
        }
        settle_empty();
    }
}
END_TEST

START_TEST(send_to_a_rejection_that_names_a_promise_names_it_again)
{
    tf_local theirs = TF_LOCAL_NONE;
    tf_local result = tf_pair_ask(&pair, &theirs);
    (void)tf_pair_send(&pair, A, result, "m", true);
    (void)tf_pair_flush(&pair, A);
    tf_mention self = {.local = theirs, .kind = TF_REF_PROMISE};
    tf_answer answer = {.promise = theirs,
                        .kind = TF_RESOLUTION_REJECTION,
                        .data = tf_slice_str("self"),
                        .refs = &self,
                        .ref_count = 1};
    ck_assert_int_eq(tf_router_resolve(pair.side[B].router, pair.now, &answer, 1), TF_OK);
    tf_pair_deliver_all(&pair, B); /* answered with the same: it names the promise, under a fresh ref */
    tf_pair_deliver_all(&pair, A);
    const tf_pair_event *rejected = tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 1);
    ck_assert_str_eq(rejected->text, "self");
    ck_assert_uint_ne(rejected->refs[0].local, result);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 2)->local, rejected->refs[0].local);
    settle_empty();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        drop_crossing_a_mention_is_ignored_and_revived,
        drop_crossing_a_resolution_that_mentions_is_ignored,
        drop_after_a_mention_was_seen_is_executed,
        drop_executed_then_a_mention_uses_a_new_ref,
        drop_revive_drop_ends_empty,
        drop_waiting_to_be_sent_keeps_its_ack,
        drops_of_both_sides_cross,
        resolve_crossing_a_drop_is_ignored_but_its_refs_are_dropped,
        resolve_after_a_drop_is_skipped,
        mention_crossing_a_resolve_names_the_promise,
        mention_of_a_resolved_promise_uses_a_fresh_ref,
        mention_of_an_import_that_was_resolved_is_resolved_again,
        send_crossing_a_resolve_to_an_object_goes_there,
        send_to_what_is_no_object_is_rejected,
        send_to_a_rejection_that_names_a_promise_names_it_again,
        NULL,
    };
    return tf_test_run("proto/session crossings", tests);
}
