/* The end of a session (PROTOCOL.md D14). Side 0 is called A, side 1 B. */
#include "proto/session.h"

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

#define A 0
#define B 1

static tf_pair pair;

static void begin(void)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
}

/* What a session that has ended tells. */
typedef struct told {
    size_t resolved, revoked, dropped;
} told;

static told end_session(int side)
{
    told count = {0, 0, 0};
    tf_session_end(pair.side[side].session);
    for (tf_session_event event; tf_session_next_event(pair.side[side].session, &event);) {
        count.resolved += event.type == TF_SESSION_RESOLVED ? 1 : 0;
        count.revoked += event.type == TF_SESSION_REVOKED ? 1 : 0;
        count.dropped += event.type == TF_SESSION_DROPPED ? 1 : 0;
        if (event.type != TF_SESSION_DROPPED) {
            ck_assert_int_eq(event.kind, TF_RESOLUTION_REJECTION);
            ck_assert(tf_slice_eq(event.data, tf_code_rejection(TF_CODE_DISCONNECTED)));
            ck_assert_uint_eq(event.record->local, event.local);
            ck_assert_ptr_null(event.record->owner);
            ck_assert(!event.hard);
        }
    }
    return count;
}

/* D14 */
START_TEST(session_end_rejects_revokes_and_drops_everything)
{
    begin();
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    (void)tf_pair_send_promise(&pair, A, "m");
    tf_local other = tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", tf_pair_new_object(&pair, A), TF_REF_OBJECT);
    tf_router_release(pair.side[A].router, pair.now, other); /* nobody waits for that one */
    told count = end_session(A);
    ck_assert_uint_eq(count.resolved, 2);
    ck_assert_uint_eq(count.revoked, 1); /* the peer's root */
    ck_assert_uint_eq(count.dropped, 2); /* our root, the object */
    tf_session *a = pair.side[A].session;
    ck_assert_int_eq(tf_session_recv(a, pair.now, tf_slice_str("x")), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_session_tick(a, pair.now), TF_OK);
    ck_assert_int_eq(tf_session_flush(a, pair.now), TF_OK);
    ck_assert_uint_eq(tf_session_deadline(a), TF_NEVER);
    tf_record *root = tf_refs_find(tf_router_refs(pair.side[A].router), TF_PAIR_PEER_ROOT);
    tf_delivery delivery = {.target = root, .method = tf_slice_str("m")};
    ck_assert_int_eq(tf_session_deliver(a, pair.now, &delivery), TF_ERR_CLOSED);
    tf_pair_free(&pair);
}
END_TEST

/* What was resolved and is unacked is given back, every ref of it. */
START_TEST(session_end_gives_back_unacked_resolutions)
{
    begin();
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    tf_pair_deliver_all(&pair, B);
    tf_local promise = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->result;
    tf_pair_reject(&pair, B, promise, "no");
    for (int i = 0; i < 3; i++) {
        (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "m", promise, TF_REF_PROMISE);
    }
    ck_assert_uint_eq(tf_pair_stats(&pair, B).retirements, 4);
    told count = end_session(B);
    ck_assert_uint_eq(count.dropped, 1); /* the root */
    ck_assert_uint_eq(count.resolved, 3);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).kept_bytes, 0);
    tf_pair_turn(&pair, B);
    ck_assert_ptr_null(tf_refs_find(tf_router_refs(pair.side[B].router), promise));
    tf_pair_free(&pair);
}
END_TEST

/* What the message of an open turn has resolved, and was not told, ends like anything else. */
START_TEST(session_end_within_a_turn_tells_the_rest)
{
    begin();
    (void)tf_pair_send(&pair, B, TF_PAIR_PEER_ROOT, "m", true);
    tf_pair_deliver_all(&pair, A);
    tf_pair_resolve_data(&pair, A, tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->result, "x");
    (void)tf_pair_flush(&pair, A);
    ck_assert_int_eq(tf_session_recv(pair.side[B].session, pair.now, tf_pair_next(&pair, B)), TF_OK);
    told count = end_session(B);
    ck_assert_uint_eq(count.resolved, 1);
    ck_assert_uint_eq(count.revoked, 1);
    ck_assert_uint_eq(count.dropped, 1);
    tf_pair_free(&pair);
}
END_TEST

/* The same through the router: the application hears of what it holds, and nothing is left. */
START_TEST(session_cut_tells_the_application)
{
    begin();
    tf_local result = tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "m", tf_pair_new_object(&pair, B), TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    tf_local theirs = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local;
    tf_pair_cut(&pair, A);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 0)->local, result);
    ck_assert_ptr_nonnull(strstr(tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 0)->text, "disconnected"));
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_REVOKED, 0)->local, theirs);
    tf_pair_release(&pair, A, theirs);
    ck_assert_uint_eq(tf_pair_node(&pair, A).records, 0);
    tf_pair_free(&pair);
}
END_TEST

/* One that has written something, and has something due. */
static tf_session *writing_session(tf_refs *refs, tf_local root)
{
    tf_session_config config = {
        .local = tf_pair_limits(), .remote = tf_pair_limits(), .refs = refs, .root = root, .mem = tf_test_mem()};
    tf_session *session = NULL;
    ck_assert_int_eq(tf_session_new(&session, &config), TF_OK);
    tf_record *theirs = tf_refs_find(refs, tf_session_peer_root(session));
    tf_delivery delivery = {.target = theirs, .method = tf_slice_str("m")};
    ck_assert_int_eq(tf_session_deliver(session, 0, &delivery), TF_OK);
    tf_session_unneeded(theirs);
    return session;
}

/* A session may be freed at any time: whoever goes through those that have written, or have something due, meets it no
 * more. */
START_TEST(session_freed_leaves_the_lists_of_its_node)
{
    enum { COUNT = 3 };
    for (size_t gone = 0; gone < COUNT; gone++) {
        tf_refs refs;
        ck_assert_int_eq(tf_refs_init(&refs, tf_test_mem(), 5), TF_OK);
        tf_local root = tf_refs_next_local(&refs);
        tf_session *sessions[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            sessions[i] = writing_session(&refs, root);
        }
        tf_session_free(sessions[gone]);
        for (size_t i = 0; i < COUNT; i++) {
            if (i != gone) {
                ck_assert_ptr_eq(tf_session_take_written(&refs), sessions[i]);
                ck_assert_ptr_eq(tf_session_take_due(&refs), sessions[i]);
                tf_session_unneeded(tf_refs_find(&refs, tf_session_peer_root(sessions[i]))); /* again, at the end */
            }
        }
        ck_assert_ptr_null(tf_session_take_written(&refs));
        for (size_t i = 0; i < COUNT; i++) {
            if (i != gone) {
                ck_assert_ptr_eq(tf_session_take_due(&refs), sessions[i]);
                tf_session_free(sessions[i]);
            }
        }
        ck_assert_ptr_null(tf_session_take_due(&refs));
        tf_refs_clear(&refs);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        session_end_rejects_revokes_and_drops_everything,
        session_end_gives_back_unacked_resolutions,
        session_end_within_a_turn_tells_the_rest,
        session_cut_tells_the_application,
        session_freed_leaves_the_lists_of_its_node,
        NULL,
    };
    return tf_test_run("proto/session end", tests);
}
