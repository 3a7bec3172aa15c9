/* A peer that breaks a rule of the session: the code of the fault, and that nothing was applied. The peer is the
 * dialler (its numbers are written d), the session under test the acceptor (a). */
#include <inttypes.h>
#include <stdlib.h>

#include "proto/limits.h"
#include "proto/session.h"
#include "tests/support/check_main.h"
#include "tests/support/message_lines.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

#define A 0
#define B 1
#define OBJ(side, number) ((uint64_t)(number)*4 + (side))
#define PRO(side, number) ((uint64_t)(number)*4 + 2 + (side))
#define NONE UINT64_MAX
#define ALL UINT64_MAX /* ack-delta: all that was sent */

static tf_pair pair;
static uint8_t buffer[70000];

/* What the acceptor knows: d objects 1 (held), 2 (dropped, unacked); d promises 0 (a result, owed), 1 (the peer
 * decides it, held), 2 (a result, resolved, unacked). a objects 1 (exported), 2 (revoked, unacked), 3 (revoked hard,
 * unacked), a promises 0 (a result that the peer owes), 1 (exported), 2 (a result, dropped, unacked). Next numbers of
 * the peer: object 3, promise 3. */
static void revoke_two(void)
{
    tf_mention refs[2] = {{.local = tf_pair_new_object(&pair, B), .kind = TF_REF_OBJECT},
                          {.local = tf_pair_new_object(&pair, B), .kind = TF_REF_OBJECT}};
    ck_assert_int_eq(tf_pair_send_refs(&pair, B, refs, 2, false), TF_OK);
    tf_pair_revoke(&pair, B, refs[0].local, false, "soft");
    tf_pair_revoke(&pair, B, refs[1].local, true, "hard");
}

static void begin(void)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
    tf_mention refs[2] = {{.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT},
                          {.local = tf_pair_new_promise(&pair, A), .kind = TF_REF_PROMISE}};
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, refs, 2, true), TF_OK);
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    tf_pair_deliver_all(&pair, B);
    tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 1)->result, "");
    pair.side[B].holds = false;
    refs[0].local = tf_pair_new_object(&pair, A);
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, refs, 1, false), TF_OK);
    tf_pair_deliver_all(&pair, B);
    refs[0].local = tf_pair_new_object(&pair, B);
    refs[1].local = tf_pair_new_promise(&pair, B);
    ck_assert_int_eq(tf_pair_send_refs(&pair, B, refs, 2, true), TF_OK);
    tf_local result = tf_pair_send(&pair, B, TF_PAIR_PEER_ROOT, "m", true);
    tf_pair_release(&pair, B, result);
    revoke_two();
    (void)tf_pair_flush(&pair, B);
}

typedef struct row {
    const char *what;
    tf_err err;
    uint64_t ack;
    tf_message_kind kind;
    uint64_t target; /* DELIVER */
    uint64_t result; /* DELIVER */
    uint64_t refs[3];
    size_t ref_count;
    struct {
        uint64_t ref;     /* RESOLVE: a promise; REVOKE: an object, revoked softly */
        uint64_t refs[2]; /* data that mentions them; NONE: no more */
    } lines[3];
    size_t line_count;
    bool hard; /* REVOKE */
} row;

static void write_lines(tf_writer *w, const row *r)
{
    for (size_t i = 0; i < r->line_count; i++) {
        const uint64_t *refs = r->lines[i].refs;
        size_t count = refs[0] == NONE ? 0 : refs[1] == NONE ? 1 : 2;
        if (r->kind == TF_MESSAGE_RESOLVE) {
            tf_test_write_resolution(w, r->lines[i].ref, false, tf_slice_str("x"), refs, count);
        } else {
            tf_test_write_revocation(w, r->lines[i].ref, r->hard, tf_slice_str("x"), refs, count);
        }
    }
}

static tf_slice encode(const row *r)
{
    tf_session_stats stats = tf_pair_stats(&pair, B);
    uint64_t ack = r->ack == ALL ? stats.sent - stats.peer_processed : r->ack;
    tf_writer w;
    tf_wr_init(&w, buffer, sizeof(buffer));
    switch (r->kind) {
    case TF_MESSAGE_DELIVER: {
        tf_deliver deliver = {.target = r->target,
                              .method = tf_slice_str("m"),
                              .refs = r->refs,
                              .ref_count = r->ref_count,
                              .has_result = r->result != NONE,
                              .result = r->result};
        tf_message_write_deliver(&w, stats.received, ack, &deliver);
        break;
    }
    case TF_MESSAGE_RESOLVE:
        tf_message_write_resolve_head(&w, stats.received, ack, r->line_count);
        write_lines(&w, r);
        break;
    case TF_MESSAGE_REVOKE:
        tf_message_write_revoke_head(&w, stats.received, ack, r->line_count);
        write_lines(&w, r);
        break;
    case TF_MESSAGE_DROP:
        tf_message_write_drop(&w, stats.received, ack, r->refs, r->ref_count);
        break;
    case TF_MESSAGE_ACK:
        tf_message_write_ack(&w, stats.received, ack);
        break;
    }
    ck_assert(tf_wr_ok(&w));
    return tf_slice_of(buffer, tf_wr_len(&w));
}

static tf_err receive(tf_slice bytes)
{
    uint8_t *exact = tf_test_exact(bytes);
    tf_err err = tf_router_recv(pair.side[B].router, pair.side[B].session, pair.now, tf_slice_of(exact, bytes.len));
    if (err == TF_OK) {
        tf_pair_turn(&pair, B);
        ck_assert_int_eq(pair.side[B].err, TF_OK);
    }
    free(exact);
    return err;
}

#define DELIVER .kind = TF_MESSAGE_DELIVER, .target = OBJ(1, 0), .result = NONE
#define TO(ref) .kind = TF_MESSAGE_DELIVER, .target = (ref), .result = NONE
#define RESULT(ref) .kind = TF_MESSAGE_DELIVER, .target = OBJ(1, 0), .result = (ref)
#define RESOLVE .kind = TF_MESSAGE_RESOLVE
#define DROP .kind = TF_MESSAGE_DROP
#define REVOKE .kind = TF_MESSAGE_REVOKE
#define HARD .kind = TF_MESSAGE_REVOKE, .hard = true
#define ONLY(ref) .lines = {{(ref), {NONE, NONE}}}, .line_count = 1

static const row bad_rows[] = {
    {"target: object never issued", TF_ERR_PEER_REF, 0, TO(OBJ(1, 9))},
    {"target: promise never issued", TF_ERR_PEER_REF, 0, TO(PRO(1, 9))},
    {"target: own object never issued", TF_ERR_PEER_REF, 0, TO(OBJ(0, 3))},
    {"target: own object", TF_ERR_PEER_STATE, 0, TO(OBJ(0, 1))},
    {"target: own root", TF_ERR_PEER_STATE, 0, TO(OBJ(0, 0))},
    {"target: promise that the sender decides", TF_ERR_PEER_STATE, 0, TO(PRO(0, 1))},
    {"target: result that the sender owes", TF_ERR_PEER_STATE, 0, TO(PRO(1, 0))},
    {"target: resolved and acked", TF_ERR_PEER_REF, ALL, TO(PRO(0, 2))},
    {"target: its own result", TF_ERR_PEER_REF, 0, TF_MESSAGE_DELIVER, PRO(0, 3), PRO(0, 3), {0}, 0, {{0}}, 0, false},
    {"result: used before", TF_ERR_PEER_REF, 0, RESULT(PRO(0, 1))},
    {"result: beyond the next", TF_ERR_PEER_REF, 0, RESULT(PRO(0, 4))},
    {"result: number of the receiver", TF_ERR_PEER_REF, 0, RESULT(PRO(1, 3))},
    {"mention: object beyond the next", TF_ERR_PEER_REF, 0, DELIVER, .refs = {OBJ(0, 4)}, .ref_count = 1},
    {"mention: promise beyond the next", TF_ERR_PEER_REF, 0, DELIVER, .refs = {PRO(0, 4)}, .ref_count = 1},
    {"mention: out of order", TF_ERR_PEER_REF, 0, DELIVER, .refs = {OBJ(0, 4), OBJ(0, 3)}, .ref_count = 2},
    {"mention: the result's number", TF_ERR_PEER_REF, 0, TF_MESSAGE_DELIVER, OBJ(1, 0), PRO(0, 4), {PRO(0, 3)}, 1, {{0}}, 0, false},
    {"mention: object that was never issued", TF_ERR_PEER_REF, 0, DELIVER, .refs = {OBJ(1, 9)}, .ref_count = 1},
    {"mention: promise that was never issued", TF_ERR_PEER_REF, 0, DELIVER, .refs = {PRO(1, 3)}, .ref_count = 1},
    {"mention: dropped and acked", TF_ERR_PEER_REF, ALL, DELIVER, .refs = {OBJ(0, 2)}, .ref_count = 1},
    {"mention: result dropped and acked", TF_ERR_PEER_REF, ALL, DELIVER, .refs = {PRO(1, 2)}, .ref_count = 1},
    {"mention: resolved and acked", TF_ERR_PEER_REF, ALL, DELIVER, .refs = {PRO(0, 2)}, .ref_count = 1},
    {"mention: good ones, then a bad one", TF_ERR_PEER_REF, ALL, DELIVER, .refs = {OBJ(0, 3), PRO(0, 3), OBJ(0, 5)}, .ref_count = 3},
    {"resolve: result that the receiver owes", TF_ERR_PEER_STATE, 0, RESOLVE, ONLY(PRO(0, 0))},
    {"resolve: promise of the receiver", TF_ERR_PEER_STATE, 0, RESOLVE, ONLY(PRO(1, 1))},
    {"resolve: resolved by the receiver", TF_ERR_PEER_STATE, 0, RESOLVE, ONLY(PRO(0, 2))},
    {"resolve: never issued", TF_ERR_PEER_REF, 0, RESOLVE, ONLY(PRO(1, 3))},
    {"resolve: not introduced", TF_ERR_PEER_REF, 0, RESOLVE, ONLY(PRO(0, 3))},
    {"resolve: dropped and acked", TF_ERR_PEER_REF, ALL, RESOLVE, ONLY(PRO(1, 2))},
    {"resolve: twice", TF_ERR_PEER_STATE, 0, RESOLVE, .lines = {{PRO(0, 1), {NONE, NONE}}, {PRO(0, 1), {NONE, NONE}}}, .line_count = 2},
    {"resolve: introduced by its own data", TF_ERR_PEER_REF, 0, RESOLVE, .lines = {{PRO(0, 3), {PRO(0, 3), NONE}}}, .line_count = 1},
    {"resolve: before it is introduced", TF_ERR_PEER_REF, 0, RESOLVE, .lines = {{PRO(0, 3), {NONE, NONE}}, {PRO(0, 1), {PRO(0, 3), NONE}}}, .line_count = 2},
    {"resolve: introduced, twice", TF_ERR_PEER_REF, 0, RESOLVE, .lines = {{PRO(0, 1), {PRO(0, 3), NONE}}, {PRO(0, 3), {NONE, NONE}}, {PRO(0, 3), {NONE, NONE}}}, .line_count = 3},
    {"resolve: introduced, out of order", TF_ERR_PEER_REF, 0, RESOLVE, .lines = {{PRO(0, 1), {PRO(0, 3), PRO(0, 4)}}, {PRO(0, 4), {NONE, NONE}}, {PRO(0, 3), {NONE, NONE}}}, .line_count = 3},
    {"resolve: data mentions what was never issued", TF_ERR_PEER_REF, 0, RESOLVE, .lines = {{PRO(0, 1), {OBJ(1, 9), NONE}}}, .line_count = 1},
    {"drop: own object", TF_ERR_PEER_STATE, 0, DROP, .refs = {OBJ(0, 1)}, .ref_count = 1},
    {"drop: promise that the sender decides", TF_ERR_PEER_STATE, 0, DROP, .refs = {PRO(0, 1)}, .ref_count = 1},
    {"drop: never issued", TF_ERR_PEER_REF, 0, DROP, .refs = {OBJ(1, 9)}, .ref_count = 1},
    {"drop: twice", TF_ERR_PEER_STATE, 0, DROP, .refs = {OBJ(1, 1), OBJ(1, 1)}, .ref_count = 2},
    {"drop: a good one, then a bad one", TF_ERR_PEER_REF, 0, DROP, .refs = {OBJ(1, 1), OBJ(1, 9)}, .ref_count = 2},
    {"drop: resolved and acked", TF_ERR_PEER_REF, ALL, DROP, .refs = {PRO(0, 2)}, .ref_count = 1},
    {"target: revoked and acked", TF_ERR_PEER_STATE, ALL, TO(OBJ(1, 2))},
    {"target: revoked hard and acked", TF_ERR_PEER_REF, ALL, TO(OBJ(1, 3))},
    {"mention: revoked hard and acked", TF_ERR_PEER_REF, ALL, DELIVER, .refs = {OBJ(1, 3)}, .ref_count = 1},
    {"drop: revoked hard and acked", TF_ERR_PEER_REF, ALL, DROP, .refs = {OBJ(1, 3)}, .ref_count = 1},
    {"revoke: object of the receiver", TF_ERR_PEER_STATE, 0, REVOKE, ONLY(OBJ(1, 1))},
    {"revoke: root", TF_ERR_PEER_STATE, 0, REVOKE, ONLY(OBJ(0, 0))},
    {"revoke: never issued", TF_ERR_PEER_REF, 0, REVOKE, ONLY(OBJ(0, 4))},
    {"revoke: not introduced", TF_ERR_PEER_REF, 0, HARD, ONLY(OBJ(0, 3))},
    {"revoke: dropped and acked", TF_ERR_PEER_REF, ALL, REVOKE, ONLY(OBJ(0, 2))},
    {"revoke: twice", TF_ERR_PEER_STATE, 0, REVOKE, .lines = {{OBJ(0, 1), {NONE, NONE}}, {OBJ(0, 1), {NONE, NONE}}}, .line_count = 2},
    {"revoke: introduced by its own error", TF_ERR_PEER_REF, 0, REVOKE, .lines = {{OBJ(0, 3), {OBJ(0, 3), NONE}}}, .line_count = 1},
    {"revoke: introduced, out of order", TF_ERR_PEER_REF, 0, REVOKE, .lines = {{OBJ(0, 1), {OBJ(0, 3), OBJ(0, 4)}}, {OBJ(0, 4), {NONE, NONE}}, {OBJ(0, 3), {NONE, NONE}}}, .line_count = 3},
    {"revoke: error mentions what was never issued", TF_ERR_PEER_REF, 0, HARD, .lines = {{OBJ(0, 1), {OBJ(1, 9), NONE}}}, .line_count = 1},
    {"ack: more than was sent", TF_ERR_PEER_ACK, 9, TF_MESSAGE_ACK, 0, 0, {0}, 0, {{0}}, 0, false},
    {"ack: far more than was sent", TF_ERR_PEER_ACK, UINT64_MAX - 1, TF_MESSAGE_ACK, 0, 0, {0}, 0, {{0}}, 0, false},
};

/* All on one session: a refused message leaves everything as it was, so the next one meets the same state. */
START_TEST(bad_messages_are_refused_and_change_nothing)
{
    begin();
    tf_session_stats before = tf_pair_stats(&pair, B);
    tf_time deadline = tf_session_deadline(pair.side[B].session);
    ck_assert_uint_eq(before.sent, 8);
    size_t events = pair.side[B].event_count;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
            tf_err err = receive(encode(&bad_rows[i]));
            ck_assert_msg(err == bad_rows[i].err, "%s: %s", bad_rows[i].what, tf_err_text(err));
            bool of_a_number = err == TF_ERR_PEER_SEQ || err == TF_ERR_PEER_ACK;
            uint64_t expected = tf_session_get_fault(pair.side[B].session).expected;
            ck_assert_msg(of_a_number || expected == 0, "%s: expected %" PRIu64, bad_rows[i].what, expected);
            tf_session_stats after = tf_pair_stats(&pair, B);
            ck_assert_msg(memcmp(&before, &after, sizeof(before)) == 0, "%s: something changed", bad_rows[i].what);
        }
    }
    ck_assert_uint_eq(tf_session_deadline(pair.side[B].session), deadline);
    ck_assert_uint_eq(pair.side[B].event_count, events);
    ck_assert_uint_eq(tf_pair_flush(&pair, B), 0);
    tf_pair_settle(&pair); /* the real peer goes on as if nothing had been */
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_pair_free(&pair);
}
END_TEST

static const row good_rows[] = {
    {"mention: dropped, unacked", TF_OK, 0, DELIVER, .refs = {OBJ(0, 2)}, .ref_count = 1},
    {"mention: dropped, unacked, twice", TF_OK, 0, DELIVER, .refs = {OBJ(0, 2), OBJ(0, 2)}, .ref_count = 2},
    {"mention: result dropped, unacked", TF_OK, 0, DELIVER, .refs = {PRO(1, 2)}, .ref_count = 1},
    {"mention: resolved, unacked", TF_OK, 0, DELIVER, .refs = {PRO(0, 2)}, .ref_count = 1},
    {"mention: next ones, twice", TF_OK, 0, DELIVER, .refs = {OBJ(0, 3), OBJ(0, 3), OBJ(0, 4)}, .ref_count = 3},
    {"mention: its own result", TF_OK, 0, TF_MESSAGE_DELIVER, OBJ(1, 0), PRO(0, 3), {PRO(0, 3), PRO(0, 4)}, 2, {{0}}, 0, false},
    {"target: a result that is owed", TF_OK, 0, TO(PRO(0, 0))},
    {"target: an exported promise", TF_OK, 0, TO(PRO(1, 1))},
    {"target: resolved, unacked", TF_OK, 0, TO(PRO(0, 2))},
    {"resolve: what the sender decides", TF_OK, 0, RESOLVE, ONLY(PRO(0, 1))},
    {"resolve: a result", TF_OK, 0, RESOLVE, ONLY(PRO(1, 0))},
    {"resolve: dropped, unacked", TF_OK, 0, RESOLVE, .lines = {{PRO(1, 2), {OBJ(0, 3), NONE}}}, .line_count = 1},
    {"resolve: dropped, revived by the same message", TF_OK, 0, RESOLVE, .lines = {{PRO(1, 0), {PRO(1, 2), NONE}}, {PRO(1, 2), {PRO(1, 0), NONE}}}, .line_count = 2},
    {"resolve: cycle with introduced ones", TF_OK, 0, RESOLVE, .lines = {{PRO(0, 1), {PRO(0, 3), PRO(0, 4)}}, {PRO(0, 3), {PRO(0, 1), PRO(0, 4)}}, {PRO(0, 4), {NONE, NONE}}}, .line_count = 3},
    {"drop: object and promises", TF_OK, ALL, DROP, .refs = {OBJ(1, 1), PRO(1, 1), PRO(0, 0)}, .ref_count = 3},
    {"drop: before the mention was seen", TF_OK, 0, DROP, .refs = {OBJ(1, 1)}, .ref_count = 1},
    {"drop: resolved, unacked", TF_OK, 0, DROP, .refs = {PRO(0, 2)}, .ref_count = 1},
    {"drop: root", TF_OK, 0, DROP, .refs = {OBJ(1, 0)}, .ref_count = 1},
    {"target: revoked, unacked", TF_OK, 0, TO(OBJ(1, 2))},
    {"target: revoked hard, unacked", TF_OK, 0, TO(OBJ(1, 3))},
    {"mention: revoked, acked", TF_OK, ALL, DELIVER, .refs = {OBJ(1, 2)}, .ref_count = 1},
    {"mention: revoked hard, unacked", TF_OK, 0, DELIVER, .refs = {OBJ(1, 3)}, .ref_count = 1},
    {"drop: revoked, unacked and hard", TF_OK, 0, DROP, .refs = {OBJ(1, 2), OBJ(1, 3)}, .ref_count = 2},
    {"revoke: what the sender hosts", TF_OK, 0, REVOKE, ONLY(OBJ(0, 1))},
    {"revoke: hard", TF_OK, 0, HARD, ONLY(OBJ(0, 1))},
    {"revoke: dropped, unacked", TF_OK, 0, HARD, .lines = {{OBJ(0, 2), {OBJ(0, 3), NONE}}}, .line_count = 1},
    {"revoke: dropped, revived by its own error", TF_OK, 0, REVOKE, .lines = {{OBJ(0, 2), {OBJ(0, 2), NONE}}}, .line_count = 1},
    {"revoke: cycle with an introduced one", TF_OK, 0, HARD, .lines = {{OBJ(0, 1), {OBJ(0, 3), NONE}}, {OBJ(0, 3), {OBJ(0, 1), OBJ(0, 4)}}, {OBJ(0, 4), {NONE, NONE}}}, .line_count = 3},
    {"ack: all that was sent", TF_OK, ALL, TF_MESSAGE_ACK, 0, 0, {0}, 0, {{0}}, 0, false},
};

START_TEST(good_messages_at_the_edge_are_accepted)
{
    for (size_t i = 0; i < sizeof(good_rows) / sizeof(good_rows[0]); i++) {
        begin();
        tf_err err = receive(encode(&good_rows[i]));
        ck_assert_msg(err == TF_OK, "%s: %s", good_rows[i].what, tf_err_text(err));
        tf_pair_free(&pair);
    }
}
END_TEST

START_TEST(bad_bytes_are_refused)
{
    begin();
    static const uint8_t never_used[] = {0xc1};
    static const uint8_t too_much[] = {0x93, 5, 0xc0, 0, 0};
    static const uint8_t revoke[] = {0x94, 4, 0xc0, 0, 0x90};
    ck_assert_int_eq(receive(tf_slice_of(NULL, 0)), TF_ERR_PEER_SYNTAX);
    ck_assert_int_eq(receive(tf_slice_of(never_used, sizeof(never_used))), TF_ERR_PEER_SYNTAX);
    ck_assert_int_eq(receive(tf_slice_of(too_much, sizeof(too_much))), TF_ERR_PEER_SYNTAX);
    ck_assert_int_eq(receive(tf_slice_of(revoke, sizeof(revoke))), TF_ERR_PEER_SYNTAX);
    ck_assert_int_eq(receive(tf_slice_of(buffer, tf_pair_limits().max_message + 1)), TF_ERR_PEER_LIMIT);
    tf_pair_free(&pair);
}
END_TEST

/* What is encoded but not yet taken by the link cannot have been processed by anyone. */
START_TEST(ack_of_what_was_not_sent_yet_is_refused)
{
    begin();
    tf_session_stats stats = tf_pair_stats(&pair, B);
    (void)tf_pair_send(&pair, B, TF_PAIR_PEER_ROOT, "m", false);
    static const row ack = {"", TF_OK, ALL, TF_MESSAGE_ACK, 0, 0, {0}, 0, {{0}}, 0, false};
    ck_assert_int_eq(receive(encode(&ack)), TF_ERR_PEER_ACK);
    ck_assert_uint_eq(tf_session_get_fault(pair.side[B].session).expected, stats.sent);
    ck_assert_uint_eq(tf_session_get_fault(pair.side[B].session).got, stats.sent + 1);
    (void)tf_pair_flush(&pair, B);
    ck_assert_int_eq(receive(encode(&ack)), TF_OK);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(fault_names_the_ref)
{
    begin();
    static const row bad = {"", TF_ERR_PEER_REF, 0, TO(OBJ(1, 77))};
    ck_assert_int_eq(receive(encode(&bad)), TF_ERR_PEER_REF);
    ck_assert_uint_eq(tf_session_get_fault(pair.side[B].session).got, OBJ(1, 77));
    ck_assert_uint_eq(tf_session_get_fault(pair.side[B].session).expected, 0);
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        bad_messages_are_refused_and_change_nothing,
        good_messages_at_the_edge_are_accepted,
        bad_bytes_are_refused,
        ack_of_what_was_not_sent_yet_is_refused,
        fault_names_the_ref,
        NULL,
    };
    return tf_test_run("proto/session bad input", tests);
}
