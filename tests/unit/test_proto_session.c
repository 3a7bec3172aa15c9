/* The rules D1 to D7, D10 and D14 of proto/session, one by one. Crossings: test_proto_session_crossing.c. */
#include "proto/session.h"

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

static tf_pair pair;

static void begin(void)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
}

START_TEST(session_call_and_answer_leaves_nothing)
{
    begin();
    tf_local result = tf_pair_send(&pair, 0, TF_PAIR_PEER_ROOT, "ping", true);
    tf_pair_deliver_all(&pair, 1);
    const tf_pair_event *call = tf_pair_find(&pair, 1, TF_SESSION_DELIVER, 0);
    ck_assert_ptr_nonnull(call);
    ck_assert_uint_eq(call->local, TF_PAIR_ROOT);
    ck_assert_str_eq(call->text, "ping");
    tf_pair_resolve_data(&pair, 1, call->result, "pong");
    tf_pair_deliver_all(&pair, 0);
    const tf_pair_event *answer = tf_pair_find(&pair, 0, TF_SESSION_RESOLVED, 0);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(answer->local, result);
    ck_assert_str_eq(answer->text, "pong");
    ck_assert_uint_eq(tf_pair_stats(&pair, 1).retirements, 1);
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    ck_assert_uint_eq(tf_pair_stats(&pair, 0).sent, 2);
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {session_call_and_answer_leaves_nothing, NULL};
    return tf_test_run("proto/session", tests);
}
