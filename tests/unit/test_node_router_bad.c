/* What a peer may not say, at a relay that others use: it ends that peer's connection with its own code, changes nothing, and
 * the calls of the others go on. X and Y call each other through R, Z at R is the one that says it. */
#include "proto/message.h"
#include "tests/support/check_main.h"
#include "tests/support/message_lines.h"
#include "tests/support/ref_chain.h"
#include "tests/support/support.h"

#define R 1u

static tf_chain chain;
static size_t z;
static size_t line;      /* R - Z: R is the dialler */
static uint8_t bytes[65536];
static tf_local taboo;   /* an object of R that Z knew as number 1 of R's, revoked hard, and acked */
static tf_local waiting; /* a promise of R's, number 0 of R's, that Z knows */

static tf_writer begin_message(void)
{
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    return w;
}

static uint64_t sent_by_z(void)
{
    return tf_session_sent(tf_test_net_session(&chain.net, line, z));
}

static void begin(void)
{
    tf_chain_begin(&chain, 3);
    tf_chain_branch(&chain);
    z = chain.branch;
    line = chain.net.line_count - 1;
    tf_router *r = chain.net.nodes[R].router;
    taboo = tf_router_new_object(r);
    waiting = tf_router_new_promise(r);
    tf_mention refs[] = {{taboo, TF_REF_OBJECT}, {waiting, TF_REF_PROMISE}};
    tf_router_send send = {.target = tf_test_net_root(&chain.net, line, R),
                           .method = tf_slice_str("give"),
                           .refs = refs,
                           .ref_count = 2};
    ck_assert_int_eq(tf_router_deliver(r, chain.net.now, &send, NULL), TF_OK);
    tf_chain_settle(&chain);
    tf_revocation revocation = {.object = taboo, .hard = true, .data = tf_slice_str("gone")};
    ck_assert_int_eq(tf_router_revoke(r, chain.net.now, &revocation), TF_OK);
    tf_chain_settle(&chain);
    chain.event_count = 0;
}

/* X calls Y's object, and the answer comes. */
static void check_calls_go_on(void)
{
    chain.event_count = 0;
    tf_local result = tf_chain_ask(&chain, 0, chain.y_at_x, "call");
    tf_chain_settle(&chain);
    const tf_chain_event *call = tf_chain_find(&chain, chain.last, TF_ROUTER_DELIVER, "call", 0);
    ck_assert_ptr_nonnull(call);
    tf_chain_resolve(&chain, chain.last, call->result, "answer", NULL, 0);
    tf_chain_settle(&chain);
    const tf_chain_event *answer = tf_chain_find(&chain, 0, TF_ROUTER_RESOLVED, "answer", 0);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(answer->local, result);
}

/* The message of Z gets R's session with it that error, and that close code; R knows what it knew. */
static void check_refused(tf_writer *w, tf_err err, tf_close_code code)
{
    tf_router_stats before;
    tf_router_stats after;
    tf_session_stats session_before;
    tf_session_stats session_after;
    tf_session *session = tf_test_net_session(&chain.net, line, R);
    ck_assert(tf_wr_ok(w));
    tf_router_get_stats(chain.net.nodes[R].router, &before);
    tf_session_get_stats(session, &session_before);
    ck_assert_int_eq(tf_router_recv(chain.net.nodes[R].router, session, chain.net.now, tf_slice_of(bytes, tf_wr_len(w))),
                     err);
    ck_assert_int_eq(tf_close_from_err(err), code);
    tf_router_get_stats(chain.net.nodes[R].router, &after);
    tf_session_get_stats(session, &session_after);
    ck_assert_mem_eq(&before, &after, sizeof(before));
    ck_assert_mem_eq(&session_before, &session_after, sizeof(session_before));
    check_calls_go_on();
    tf_test_net_cut(&chain.net, line);
    check_calls_go_on();
    tf_router_release(chain.net.nodes[R].router, chain.net.now, waiting);
    ck_assert(tf_chain_end(&chain));
    ck_assert_uint_eq(tf_test_heap_shared()->live_bytes, 0);
}

static void write_deliver(tf_writer *w, uint64_t number, uint64_t ack, const tf_ref *refs, size_t count)
{
    tf_deliver deliver = {.target = tf_ref_make(0, TF_REF_OBJECT, TF_SIDE_DIALLER),
                          .method = tf_slice_str("m"),
                          .refs = refs,
                          .ref_count = count};
    tf_message_write_deliver(w, number, ack, &deliver);
}

START_TEST(bad_number_ends_with_bad_sequence)
{
    begin();
    tf_writer w = begin_message();
    write_deliver(&w, sent_by_z() + 1, 0, NULL, 0);
    check_refused(&w, TF_ERR_PEER_SEQ, TF_CLOSE_BAD_SEQUENCE);
}
END_TEST

START_TEST(bad_ack_of_the_unsent_ends_with_bad_ack)
{
    begin();
    tf_writer w = begin_message();
    write_deliver(&w, sent_by_z(), 1, NULL, 0);
    check_refused(&w, TF_ERR_PEER_ACK, TF_CLOSE_BAD_ACK);
}
END_TEST

START_TEST(bad_mention_of_a_taboo_ends_with_bad_ref)
{
    begin();
    tf_ref ref = tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_DIALLER);
    tf_writer w = begin_message();
    write_deliver(&w, sent_by_z(), 0, &ref, 1);
    check_refused(&w, TF_ERR_PEER_REF, TF_CLOSE_BAD_REF);
}
END_TEST

START_TEST(bad_resolve_by_a_non_decider_ends_with_bad_state)
{
    begin();
    tf_writer w = begin_message();
    tf_message_write_resolve_head(&w, sent_by_z(), 0, 1);
    tf_test_write_resolution(&w, tf_ref_make(0, TF_REF_PROMISE, TF_SIDE_DIALLER), false, tf_slice_str("mine"),
                                     NULL, 0);
    check_refused(&w, TF_ERR_PEER_STATE, TF_CLOSE_BAD_STATE);
}
END_TEST

START_TEST(bad_ref_in_the_third_slot_imports_none_of_the_others)
{
    begin();
    tf_ref refs[] = {tf_ref_make(2, TF_REF_OBJECT, TF_SIDE_ACCEPTOR), tf_ref_make(3, TF_REF_OBJECT, TF_SIDE_ACCEPTOR),
                     tf_ref_make(7, TF_REF_OBJECT, TF_SIDE_ACCEPTOR)};
    tf_writer w = begin_message();
    write_deliver(&w, sent_by_z(), 0, refs, 3);
    check_refused(&w, TF_ERR_PEER_REF, TF_CLOSE_BAD_REF);
}
END_TEST

START_TEST(bad_revoke_of_what_is_not_its_own_ends_with_bad_state)
{
    begin();
    tf_writer w = begin_message();
    tf_message_write_revoke_head(&w, sent_by_z(), 0, 1);
    tf_test_write_revocation(&w, tf_ref_make(0, TF_REF_OBJECT, TF_SIDE_DIALLER), false, tf_slice_str("mine"), NULL, 0);
    check_refused(&w, TF_ERR_PEER_STATE, TF_CLOSE_BAD_STATE);
}
END_TEST

/* As deliver, by hand: 10 000 refs. */
START_TEST(bad_message_of_10000_refs_ends_with_limit)
{
    begin();
    tf_writer w = begin_message();
    const uint8_t head[] = {0x98, 0x01, 0xc0, 0x00, 0x01, 0xa1, 'm', 0xc4, 0x00, 0xdd, 0x00, 0x00, 0x27, 0x10};
    tf_wr_bytes(&w, tf_slice_of(head, sizeof(head)));
    for (uint64_t i = 0; i < 10000; i++) {
        const uint8_t ref[] = {0xce, 0x00, (uint8_t)((i + 1) * 4 >> 16), (uint8_t)((i + 1) * 4 >> 8), (uint8_t)((i + 1) * 4)};
        tf_wr_bytes(&w, tf_slice_of(ref, sizeof(ref)));
    }
    tf_wr_u8(&w, 0xc0);
    check_refused(&w, TF_ERR_PEER_LIMIT, TF_CLOSE_LIMIT);
}
END_TEST

START_TEST(bad_trailing_byte_ends_with_malformed)
{
    begin();
    tf_writer w = begin_message();
    write_deliver(&w, sent_by_z(), 0, NULL, 0);
    tf_wr_u8(&w, 0);
    check_refused(&w, TF_ERR_PEER_SYNTAX, TF_CLOSE_MALFORMED);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        bad_number_ends_with_bad_sequence,
        bad_ack_of_the_unsent_ends_with_bad_ack,
        bad_mention_of_a_taboo_ends_with_bad_ref,
        bad_resolve_by_a_non_decider_ends_with_bad_state,
        bad_ref_in_the_third_slot_imports_none_of_the_others,
        bad_revoke_of_what_is_not_its_own_ends_with_bad_state,
        bad_message_of_10000_refs_ends_with_limit,
        bad_trailing_byte_ends_with_malformed,
        NULL,
    };
    return tf_test_run("node/router bad", tests);
}
