/* Revocation (PROTOCOL.md D11, D12), and what crosses it. Side 0 is called A, side 1 B. */
#include "proto/session.h"
#include "tests/unit/session_ends.h"

/* Identity stays: it can be mentioned and dropped like any other, and who targets it is answered by this side. */
START_TEST(soft_revoked_object_keeps_its_identity)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_pair_revoke(&pair, A, object, false, "gone");
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *revoked = tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 0);
    ck_assert_uint_eq(revoked->local, import);
    ck_assert_str_eq(revoked->text, "gone");
    ck_assert(!revoked->hard);
    tf_local answer = tf_pair_send(&pair, B, import, "m", true);
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "it", import, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DELIVER), 1); /* the other one was not sent */
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local, object);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0)->local, answer);
    ck_assert_str_eq(tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0)->text, "gone");
    ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 2);
    tf_pair_answer_all(&pair, A);
    tf_pair_release(&pair, B, import);
    settle_empty();
}
END_TEST

START_TEST(send_crossing_a_revoke_is_rejected_with_its_error)
{
    for (int hard = 0; hard < 2; hard++) {
        tf_local object = TF_LOCAL_NONE;
        tf_local import = tf_pair_export(&pair, &object);
        tf_local answer = tf_pair_send(&pair, B, import, "m", true);
        (void)tf_pair_flush(&pair, B);
        tf_pair_revoke(&pair, A, object, hard == 1, "gone");
        (void)tf_pair_flush(&pair, A);
        ck_assert(tf_pair_step(&pair, A));
        ck_assert_int_eq(pair.side[A].err, TF_OK);
        tf_pair_deliver_all(&pair, B);
        ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DELIVER), 0);
        ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0)->local, answer);
        ck_assert_str_eq(tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0)->text, "gone");
        tf_pair_release(&pair, B, import);
        settle_empty();
    }
}
END_TEST

/* REVOKE is no mention: a drop that crosses it is executed, and the REVOKE ignored. */
START_TEST(revoke_crossing_a_drop_is_ignored)
{
    for (int hard = 0; hard < 2; hard++) {
        tf_local object = TF_LOCAL_NONE;
        tf_local import = tf_pair_export(&pair, &object);
        tf_pair_release(&pair, B, import);
        (void)tf_pair_flush(&pair, B);
        tf_local other = tf_pair_new_object(&pair, A);
        tf_mention named = {.local = other, .kind = TF_REF_OBJECT};
        tf_revocation revocation = {
            .object = object, .hard = hard == 1, .data = tf_slice_str("gone"), .refs = &named, .ref_count = 1};
        ck_assert_int_eq(tf_router_revoke(pair.side[A].router, pair.now, &revocation), TF_OK);
        (void)tf_pair_flush(&pair, A);
        ck_assert(tf_pair_step(&pair, A));
        ck_assert_int_eq(pair.side[A].err, TF_OK);
        ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
        ck_assert(tf_pair_step(&pair, B));
        ck_assert_int_eq(pair.side[B].err, TF_OK);
        ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_REVOKED), 0);
        tf_pair_settle(&pair); /* what its error names was imported, and dropped (D6) */
        ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_GONE), 2);
        settle_empty();
    }
}
END_TEST

START_TEST(mention_of_a_soft_revoked_object_is_followed_by_revoke)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_pair_revoke(&pair, A, object, false, "gone");
    tf_pair_settle(&pair);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 2);
    ck_assert(tf_pair_step(&pair, B));
    tf_message m;
    ck_assert_int_eq(tf_message_read(tf_pair_next(&pair, B), &m), TF_OK);
    ck_assert_int_eq((int)m.kind, TF_MESSAGE_REVOKE);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local, import);
    tf_pair_answer_all(&pair, B);
    tf_pair_release(&pair, B, import);
    settle_empty();
}
END_TEST

/* Until the ack a mention of the old ref is passed on as a fresh, revoked object; then both have forgotten the ref. */
START_TEST(mention_crossing_a_hard_revoke_is_a_fresh_revoked_object)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "late", import, TF_REF_OBJECT);
    (void)tf_pair_flush(&pair, B);
    tf_pair_revoke(&pair, A, object, true, "gone");
    (void)tf_pair_flush(&pair, A);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).retirements, 1);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    const tf_pair_event *late = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0);
    ck_assert_uint_eq(late->refs[0].local, object);
    tf_pair_forget_events(&pair);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "back", object, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert(tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 0)->hard);
    const tf_pair_event *back = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    ck_assert_uint_ne(back->refs[0].local, import);
    const tf_pair_event *fresh = tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 1);
    ck_assert_uint_eq(fresh->local, back->refs[0].local);
    ck_assert(!fresh->hard);
    /* what was revoked hard goes to its old owner, too, as a fresh object of this side */
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "home", import, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    ck_assert_uint_ne(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local, object);
    tf_pair_free(&pair);
}
END_TEST

/* First soft, then hard: each is told, and each ref ends on its own. */
START_TEST(soft_revoke_can_become_hard)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_pair_revoke(&pair, A, object, false, "soft");
    tf_pair_revoke(&pair, A, object, true, "hard");
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 2);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_str_eq(tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 0)->text, "soft");
    ck_assert_str_eq(tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 1)->text, "hard");
    ck_assert_uint_eq(tf_pair_stats(&pair, B).imports, 1);
    tf_pair_release(&pair, B, import);
    settle_empty();
}
END_TEST

/* Several in one message, each error with its own mentions. */
START_TEST(revocations_of_one_message_keep_their_mentions_apart)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_mention dead[2];
    tf_mention named[2];
    for (size_t i = 0; i < 2; i++) {
        dead[i] = (tf_mention){.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT};
        named[i] = (tf_mention){.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT};
        tf_router *a = pair.side[A].router;
        ck_assert_int_eq(tf_pair_send_refs(&pair, A, &dead[i], 1, false), TF_OK);
        tf_revocation revocation = {.object = dead[i].local, .refs = &named[i], .ref_count = 1};
        ck_assert_int_eq(tf_router_revoke(a, pair.now, &revocation), TF_OK);
        tf_router_hold(a, dead[i].local);
    }
    pair.side[B].holds = false;
    tf_pair_settle(&pair); /* dropped by B */
    pair.side[B].holds = true;
    tf_pair_forget_events(&pair);
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, dead, 2, false), TF_OK);
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 2);
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *first = tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 0);
    const tf_pair_event *second = tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 1);
    (void)tf_pair_send(&pair, B, first->refs[0].local, "1", false);
    (void)tf_pair_send(&pair, B, second->refs[0].local, "2", false);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->local, named[0].local);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 1)->local, named[1].local);
    ck_assert_uint_ne(import, first->refs[0].local);
    tf_pair_free(&pair);
}
END_TEST

/* Objects whose errors name each other, and promises: told in turn until nothing is due. */
START_TEST(revocations_that_name_each_other_end)
{
    tf_local object = TF_LOCAL_NONE;
    tf_local import = tf_pair_export(&pair, &object);
    tf_local other = tf_pair_new_object(&pair, A);
    tf_mention refs[2] = {{.local = other, .kind = TF_REF_OBJECT}, {.local = object, .kind = TF_REF_OBJECT}};
    tf_revocation first = {.object = object, .data = tf_slice_str("1"), .refs = &refs[0], .ref_count = 1};
    tf_revocation second = {.object = other, .data = tf_slice_str("2"), .refs = &refs[1], .ref_count = 1};
    ck_assert_int_eq(tf_router_revoke(pair.side[A].router, pair.now, &first), TF_OK);
    ck_assert_int_eq(tf_router_revoke(pair.side[A].router, pair.now, &second), TF_OK);
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 2); /* the second one names the first again: both in one message */
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 0)->local, import);
    tf_local theirs = tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 0)->refs[0].local;
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_REVOKED, 1)->local, theirs);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).imports, 3); /* cycles of objects are not collected */
    tf_pair_free(&pair);
}
END_TEST

/* A mention gives the right to target back, until the REVOKE that follows it is acked. */
START_TEST(mention_of_a_revoked_object_gives_the_right_to_target_back)
{
    tf_local object = TF_LOCAL_NONE;
    (void)tf_pair_export(&pair, &object);
    tf_pair_revoke(&pair, A, object, false, "gone");
    tf_pair_settle(&pair); /* acked: B may not target it any more */
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "again", object, TF_REF_OBJECT);
    (void)tf_pair_flush(&pair, A);
    ck_assert(tf_pair_step(&pair, B)); /* the mention, not yet the REVOKE */
    static const uint8_t targets[] = {0x98, 1, 0xc0, 1, 4, 0xa1, 'm', 0xc4, 0, 0x90, 0xc0};
    (void)tf_pair_flush(&pair, B);
    for (int i = 0; i < 2; i++) { /* all of what B has said so far, then this; the second one acks the REVOKE */
        while (tf_pair_step(&pair, A)) {
        }
        tf_pair_put(&pair, A, tf_slice_of(targets, sizeof(targets)));
        ck_assert(tf_pair_step(&pair, A));
        ck_assert_int_eq(pair.side[A].err, i == 0 ? TF_OK : TF_ERR_PEER_STATE);
    }
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        soft_revoked_object_keeps_its_identity,
        send_crossing_a_revoke_is_rejected_with_its_error,
        revoke_crossing_a_drop_is_ignored,
        mention_of_a_soft_revoked_object_is_followed_by_revoke,
        mention_crossing_a_hard_revoke_is_a_fresh_revoked_object,
        soft_revoke_can_become_hard,
        revocations_of_one_message_keep_their_mentions_apart,
        revocations_that_name_each_other_end,
        mention_of_a_revoked_object_gives_the_right_to_target_back,
        NULL,
    };
    return tf_test_run("proto/session revocation", tests);
}
