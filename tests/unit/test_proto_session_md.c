/* proto/PROTOCOL.md, section Session: two sessions say what its dialogues show, byte for byte. */
#include "proto/limits.h"
#include "proto/mp.h"
#include "proto/session.h"
#include "tests/support/check_main.h"
#include "tests/support/protocol_md.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

#define A 0 /* the dialler */
#define B 1 /* the acceptor */

static tf_pair pair;

/* The next message that `from` has said is the block of that name; it stays on the line. */
static void says(int from, const char *name)
{
    uint8_t block[256];
    size_t len = 0;
    ck_assert_msg(tf_doc_block(name, block, sizeof(block), &len), "no block %s", name);
    (void)tf_pair_flush(&pair, from);
    char got[600];
    char want[600];
    ck_assert_str_eq(tf_test_hex(tf_pair_next(&pair, 1 - from), got, sizeof(got)),
                     tf_test_hex(tf_slice_of(block, len), want, sizeof(want)));
}

static void hears(int side)
{
    ck_assert(tf_pair_step(&pair, side));
    ck_assert_int_eq(pair.side[side].err, TF_OK);
}

static void wait_for_ack(int side)
{
    pair.now += TF_SESSION_ACK_DELAY;
    ck_assert_int_eq(tf_session_tick(pair.side[side].session, pair.now), TF_OK);
}

START_TEST(protocol_md_drop_that_crosses_a_mention)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
    tf_mention object = {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT};
    tf_router_send take = {
        .target = TF_PAIR_PEER_ROOT, .method = tf_slice_str("take"), .refs = &object, .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(pair.side[A].router, pair.now, &take, NULL), TF_OK);
    says(A, "message session dialler 0: takes ref 4 along");
    hears(B);
    tf_local import = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local;
    tf_pair_release(&pair, B, import);
    says(B, "message session acceptor 0: drop");
    ck_assert_int_eq(tf_router_deliver(pair.side[A].router, pair.now, &take, NULL), TF_OK);
    says(A, "message session dialler 1: crosses the drop");
    hears(A);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_ignored, 1);
    pair.side[B].holds = false;
    hears(B);
    wait_for_ack(A);
    says(A, "message session dialler 2: ack of the drop");
    says(B, "message session acceptor 1: drop of the new import");
    hears(B);
    hears(A);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

START_TEST(protocol_md_message_to_a_result)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
    tf_local answer = tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "get", true);
    says(A, "message session dialler 0: get");
    hears(B);
    (void)tf_pair_send(&pair, A, answer, "name", true);
    says(A, "message session dialler 1: name");
    tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->result, "hi");
    says(B, "message session acceptor 0: the answer");
    hears(B);
    hears(A);
    says(B, "message session acceptor 1: no target");
    hears(A);
    wait_for_ack(A);
    says(A, "message session dialler 2: ack of both");
    hears(B);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

START_TEST(protocol_md_message_to_an_object_that_is_being_revoked)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
    tf_local object = tf_pair_new_object(&pair, A);
    tf_mention mention = {.local = object, .kind = TF_REF_OBJECT};
    tf_router_send give = {
        .target = TF_PAIR_PEER_ROOT, .method = tf_slice_str("give"), .refs = &mention, .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(pair.side[A].router, pair.now, &give, NULL), TF_OK);
    says(A, "message session dialler 0: gives ref 4");
    hears(B);
    tf_local import = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local;
    (void)tf_pair_send(&pair, B, import, "use", true);
    says(B, "message session acceptor 0: use");
    tf_pair_revoke(&pair, A, object, false, "gone");
    says(A, "message session dialler 1: revoke");
    hears(A);
    hears(B);
    says(A, "message session dialler 2: the error");
    hears(B);
    wait_for_ack(B);
    says(B, "message session acceptor 1: ack of revoke and error");
    hears(A);
    tf_pair_release(&pair, B, import);
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

static tf_slice str_after(tf_reader *r, const char *key)
{
    ck_assert(tf_slice_eq(tf_mp_rd_str(r, 64), tf_slice_str(key)));
    return tf_mp_rd_str(r, 256);
}

/* The form of the rejections that a session makes by itself: {"code", "message"}. */
START_TEST(protocol_md_rejections_are_maps_of_code_and_message)
{
    static const char *const codes[] = {"cannot_send_to_data", "overloaded", "disconnected"};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
        tf_local answer = tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "get", true);
        for (size_t k = 0; i == 1 && k < TF_HELD_ITEMS_MAX; k++) {
            (void)tf_pair_send(&pair, A, answer, "m", false);
        }
        tf_local rejected = tf_pair_send(&pair, A, answer, "m", true);
        tf_pair_deliver_all(&pair, B);
        if (i == 0) {
            tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->result, "");
        }
        if (i < 2) {
            tf_pair_settle(&pair);
        } else {
            tf_pair_cut(&pair, A);
        }
        const tf_pair_event *event = tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, i == 1 ? 0 : 1);
        ck_assert_uint_eq(event->local, rejected);
        tf_reader r;
        tf_rd_init(&r, tf_slice_str(event->text));
        ck_assert_uint_eq(tf_mp_rd_map(&r, 2), 2);
        ck_assert(tf_slice_eq(str_after(&r, "code"), tf_slice_str(codes[i])));
        ck_assert(tf_utf8_is_valid(str_after(&r, "message")));
        ck_assert_int_eq(tf_rd_end(&r), TF_OK);
        tf_pair_free(&pair);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        protocol_md_drop_that_crosses_a_mention,
        protocol_md_message_to_a_result,
        protocol_md_message_to_an_object_that_is_being_revoked,
        protocol_md_rejections_are_maps_of_code_and_message,
        NULL,
    };
    return tf_test_run("PROTOCOL.md, session", tests);
}
