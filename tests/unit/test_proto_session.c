/* The rules of proto/session one by one (PROTOCOL.md D1 to D7, D10), seen over the router of each side. Crossings,
 * ends, bad input, limits and failing allocations have files of their own. Side 0 is called A here, side 1 B. */
#include "proto/session.h"

#include "proto/limits.h"
#include "tests/support/check_main.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

#define A 0
#define B 1

#define OURS(number) ((tf_ref)(number)*4) /* an object of A */

static tf_pair pair;

static void begin(void)
{
    ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
}

static void end_empty(void)
{
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}

/* The next message on the line to a side, read. */
static tf_message next_message(int to)
{
    tf_message m;
    ck_assert_int_eq(tf_message_read(tf_pair_next(&pair, to), &m), TF_OK);
    return m;
}

static tf_ref ref_at(tf_ref_list list, size_t index)
{
    tf_ref ref = 0;
    for (size_t i = 0; i <= index; i++) {
        ck_assert(tf_refs_next(&list, &ref));
    }
    return ref;
}

START_TEST(session_call_and_answer_leaves_nothing)
{
    begin();
    tf_local result = tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "ping", true);
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    ck_assert_ptr_nonnull(call);
    ck_assert_uint_eq(call->local, TF_PAIR_ROOT);
    ck_assert_str_eq(call->text, "ping");
    tf_pair_resolve_data(&pair, B, call->result, "pong");
    tf_pair_deliver_all(&pair, A);
    const tf_pair_event *answer = tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 0);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(answer->local, result);
    ck_assert_int_eq(answer->kind, TF_RESOLUTION_DATA);
    ck_assert_str_eq(answer->text, "pong");
    end_empty();
}
END_TEST

/* D1 */
START_TEST(session_messages_are_numbered_from_0)
{
    begin();
    for (uint64_t i = 0; i < 3; i++) {
        (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", false);
    }
    (void)tf_pair_flush(&pair, A);
    for (uint64_t i = 0; i < 3; i++) {
        tf_message m = next_message(B);
        ck_assert(m.has_number);
        ck_assert_uint_eq(m.number, i);
        ck_assert_uint_eq(m.ack_delta, 0);
        ck_assert(tf_pair_step(&pair, B));
        ck_assert_int_eq(pair.side[B].err, TF_OK);
    }
    end_empty();
}
END_TEST

START_TEST(session_number_may_be_left_out)
{
    static const uint8_t unnumbered[] = {0x93, 5, 0xc0, 0};
    static const uint8_t numbered[] = {0x93, 5, 1, 0};
    begin();
    tf_pair_put(&pair, B, tf_slice_of(unnumbered, sizeof(unnumbered)));
    tf_pair_put(&pair, B, tf_slice_of(numbered, sizeof(numbered)));
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).received, 2);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_wrong_number_names_both)
{
    static const struct {
        uint8_t number;
        uint64_t expected;
    } rows[] = {{1, 0}, {0x7f, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        const uint8_t ack[] = {0x93, 5, rows[i].number, 0};
        tf_pair_put(&pair, B, tf_slice_of(ack, sizeof(ack)));
        ck_assert(tf_pair_step(&pair, B));
        ck_assert_int_eq(pair.side[B].err, TF_ERR_PEER_SEQ);
        ck_assert_uint_eq(tf_session_get_fault(pair.side[B].session).expected, rows[i].expected);
        ck_assert_uint_eq(tf_session_get_fault(pair.side[B].session).got, rows[i].number);
        ck_assert_uint_eq(tf_pair_stats(&pair, B).received, 0);
        tf_pair_free(&pair);
    }
}
END_TEST

/* D2 */
START_TEST(session_ack_deltas_add_up)
{
    begin();
    for (int i = 0; i < 5; i++) {
        (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", false);
    }
    tf_pair_deliver_all(&pair, B);
    (void)tf_pair_send(&pair, B, TF_PAIR_PEER_ROOT, "m", false);
    (void)tf_pair_send(&pair, B, TF_PAIR_PEER_ROOT, "m", false);
    (void)tf_pair_flush(&pair, B);
    ck_assert_uint_eq(next_message(A).ack_delta, 5);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_uint_eq(next_message(A).ack_delta, 0);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_uint_eq(tf_pair_stats(&pair, A).peer_processed, 5);
    tf_pair_free(&pair);
}
END_TEST

/* D3: what is sent within a turn does not ack the message of that turn; the drops at its end do. */
START_TEST(session_ack_covers_only_what_is_fully_processed)
{
    begin();
    pair.side[B].holds = false;
    tf_local object = tf_pair_new_object(&pair, A);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", object, TF_REF_OBJECT);
    (void)tf_pair_flush(&pair, A);
    tf_router *b = pair.side[B].router;
    ck_assert_int_eq(tf_router_recv(b, pair.side[B].session, pair.now, tf_pair_next(&pair, B)), TF_OK);
    tf_router_event event;
    ck_assert(tf_router_next_event(b, &event));
    tf_pair_resolve_data(&pair, B, event.result, "x");
    ck_assert(!tf_router_next_event(b, &event));
    tf_pair_lose(&pair, B);
    (void)tf_pair_flush(&pair, B);
    ck_assert_int_eq(next_message(A).kind, TF_MESSAGE_RESOLVE);
    ck_assert_uint_eq(next_message(A).ack_delta, 0);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_int_eq(next_message(A).kind, TF_MESSAGE_DROP);
    ck_assert_uint_eq(next_message(A).ack_delta, 1);
    ck_assert(tf_pair_step(&pair, A));
    ck_assert_uint_eq(tf_pair_stats(&pair, A).drops_executed, 1);
    end_empty();
}
END_TEST

/* D4: numbers from 1 (objects, after the root) and 0 (promises), without a gap; the result before what is mentioned. */
START_TEST(session_refs_are_allocated_in_order)
{
    begin();
    tf_mention refs[3] = {{.local = tf_pair_new_promise(&pair, A), .kind = TF_REF_PROMISE},
                          {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT},
                          {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT}};
    tf_router_send delivery = {.target = TF_PAIR_PEER_ROOT,
                            .method = tf_slice_str("m"),
                            .refs = refs,
                            .ref_count = 3,
                            .want_result = true};
    tf_local result = TF_LOCAL_NONE;
    ck_assert_int_eq(tf_router_deliver(pair.side[A].router, pair.now, &delivery, &result), TF_OK);
    (void)tf_pair_flush(&pair, A);
    tf_message m = next_message(B);
    ck_assert_uint_eq(m.target, tf_ref_make(0, TF_REF_OBJECT, TF_SIDE_ACCEPTOR));
    ck_assert_uint_eq(m.result, tf_ref_make(0, TF_REF_PROMISE, TF_SIDE_DIALLER));
    ck_assert_uint_eq(ref_at(m.refs, 0), tf_ref_make(1, TF_REF_PROMISE, TF_SIDE_DIALLER));
    ck_assert_uint_eq(ref_at(m.refs, 1), tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_DIALLER));
    ck_assert_uint_eq(ref_at(m.refs, 2), tf_ref_make(2, TF_REF_OBJECT, TF_SIDE_DIALLER));
    ck_assert(tf_pair_step(&pair, B));
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_same_object_has_the_same_ref_and_local_id)
{
    begin();
    tf_local object = tf_pair_new_object(&pair, A);
    for (int i = 0; i < 2; i++) {
        (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", object, TF_REF_OBJECT);
    }
    tf_pair_deliver_all(&pair, B);
    tf_local first = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local;
    ck_assert_uint_eq(tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 1)->refs[0].local, first);
    /* and comes home as what it is */
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "back", first, TF_REF_OBJECT);
    (void)tf_pair_send(&pair, B, first, "call", false);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local, object);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 1)->local, object);
    tf_pair_free(&pair);
}
END_TEST

/* D5 */
START_TEST(session_dropped_object_is_forgotten_and_told)
{
    begin();
    tf_local object = tf_pair_new_object(&pair, A);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", object, TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    tf_pair_resolve_data(&pair, B, call->result, "");
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 2);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 0);
    tf_pair_release(&pair, B, call->refs[0].local);
    ck_assert_uint_eq(tf_pair_flush(&pair, B), 1); /* at once */
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 1);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DROPPED, 0)->local, object);
    end_empty();
}
END_TEST

START_TEST(session_every_hold_keeps)
{
    begin();
    pair.side[B].holds = false;
    tf_local object = tf_pair_new_object(&pair, A);
    (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", object, TF_REF_OBJECT);
    (void)tf_pair_flush(&pair, A);
    tf_router *b = pair.side[B].router;
    ck_assert_int_eq(tf_router_recv(b, pair.side[B].session, pair.now, tf_pair_next(&pair, B)), TF_OK);
    tf_router_event event;
    ck_assert(tf_router_next_event(b, &event));
    tf_local import = event.refs[0].local;
    tf_pair_resolve_data(&pair, B, event.result, "");
    tf_router_hold(b, import);
    tf_router_hold(b, import);
    tf_pair_turn(&pair, B);
    tf_pair_lose(&pair, B);
    tf_pair_release(&pair, B, import);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).imports, 2);
    tf_pair_release(&pair, B, import);
    tf_router_hold(b, import); /* unknown now: ignored, and so is what was never one */
    tf_pair_release(&pair, B, import);
    tf_pair_release(&pair, B, 12345);
    end_empty();
}
END_TEST

/* B4: what is exported without a message can be dropped before the exporter has said anything. */
START_TEST(session_root_can_be_dropped_before_any_message)
{
    begin();
    tf_pair_release(&pair, B, TF_PAIR_PEER_ROOT);
    tf_pair_deliver_all(&pair, A);
    ck_assert_int_eq(pair.side[A].err, TF_OK);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 1);
    ck_assert_uint_eq(tf_pair_find(&pair, A, TF_ROUTER_DROPPED, 0)->local, TF_PAIR_ROOT);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 0);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).imports, 0);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).retirements, 0);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_drops_of_a_turn_are_one_message)
{
    begin();
    pair.side[B].holds = false;
    tf_mention refs[4];
    for (size_t i = 0; i < 4; i++) {
        bool object = i < 2;
        refs[i] = (tf_mention){.local = object ? tf_pair_new_object(&pair, A) : tf_pair_new_promise(&pair, A),
                               .kind = object ? TF_REF_OBJECT : TF_REF_PROMISE};
    }
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, refs, 4, false), TF_OK);
    tf_pair_release(&pair, A, refs[2].local);
    tf_pair_release(&pair, A, refs[3].local);
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_eq(tf_pair_flush(&pair, B), 1);
    ck_assert_int_eq(next_message(A).kind, TF_MESSAGE_DROP);
    ck_assert_uint_eq(next_message(A).refs.count, 4);
    tf_pair_settle(&pair);
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_DROPPED), 2); /* of promises nobody needs to hear, */
    ck_assert_uint_eq(tf_pair_count(&pair, A, TF_ROUTER_GONE), 4);    /* but nobody waits for them any more */
    end_empty();
}
END_TEST

/* D7 */
START_TEST(session_promise_is_resolved_once_and_gone)
{
    begin();
    tf_local promise = tf_pair_send_promise(&pair, A, "m");
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    tf_pair_resolve_data(&pair, B, call->result, "");
    tf_pair_settle(&pair);
    tf_pair_resolve_object(&pair, A, promise, TF_PAIR_ROOT);
    tf_answer again = {.promise = promise, .kind = TF_RESOLUTION_DATA};
    ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, &again, 1), TF_ERR_USAGE);
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 1);
    tf_pair_deliver_all(&pair, B);
    const tf_pair_event *resolved = tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0);
    ck_assert_ptr_nonnull(resolved);
    ck_assert_uint_eq(resolved->local, call->refs[0].local);
    ck_assert_uint_eq(resolved->object.local, TF_PAIR_PEER_ROOT);
    tf_pair_release(&pair, B, TF_PAIR_PEER_ROOT); /* the helper held it */
    ck_assert_uint_eq(tf_pair_stats(&pair, B).promises_theirs, 0);
    tf_pair_settle(&pair);
    tf_pair_resolve_object(&pair, A, promise, TF_PAIR_ROOT); /* known to nobody any more: skipped */
    end_empty();
}
END_TEST

/* p0 -> data [p1, p2], p1 -> data [p0], p2 rejected with [p2]; the peer knows p0 alone. Given in any order. */
static void resolve_cycle(const tf_local p[3], const size_t order[3])
{
    tf_mention refs[3];
    for (size_t i = 0; i < 3; i++) {
        refs[i] = (tf_mention){.local = p[i], .kind = TF_REF_PROMISE};
    }
    const tf_answer answers[3] = {
        {.promise = p[0], .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("0"), .refs = &refs[1], .ref_count = 2},
        {.promise = p[1], .kind = TF_RESOLUTION_DATA, .data = tf_slice_str("1"), .refs = &refs[0], .ref_count = 1},
        {.promise = p[2], .kind = TF_RESOLUTION_REJECTION, .data = tf_slice_str("2"), .refs = &refs[2], .ref_count = 1},
    };
    tf_answer given[3];
    for (size_t i = 0; i < 3; i++) {
        given[i] = answers[order[i]];
    }
    ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, given, 3), TF_OK);
}

/* D7, B5: a batch whose promises name each other, one of them rejected with itself. */
START_TEST(session_cycle_is_resolved_in_one_message)
{
    static const size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t row = 0; row < 6; row++) {
        begin();
        const tf_local p[3] = {tf_pair_new_promise(&pair, A), tf_pair_new_promise(&pair, A), tf_pair_new_promise(&pair, A)};
        (void)tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", p[0], TF_REF_PROMISE);
        tf_pair_deliver_all(&pair, B);
        tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->result, "");
        tf_pair_settle(&pair);
        tf_pair_forget_events(&pair);
        resolve_cycle(p, orders[row]);
        ck_assert_uint_eq(tf_pair_flush(&pair, A), 1);
        tf_pair_deliver_all(&pair, B);
        ck_assert_int_eq(pair.side[B].err, TF_OK);
        const tf_pair_event *told[3];
        static const char *const texts[3] = {"0", "1", "2"}; /* each is met before it is resolved */
        for (size_t i = 0; i < 3; i++) {
            told[i] = tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, i);
            ck_assert_str_eq(told[i]->text, texts[i]);
        }
        ck_assert_uint_eq(told[0]->refs[0].local, told[1]->local);
        ck_assert_uint_eq(told[0]->refs[1].local, told[2]->local);
        ck_assert_uint_eq(told[1]->refs[0].local, told[0]->local);
        ck_assert_uint_eq(told[2]->refs[0].local, told[2]->local);
        tf_pair_settle(&pair);
        end_empty();
    }
}
END_TEST

START_TEST(session_resolve_wrongly_used_changes_nothing)
{
    begin();
    tf_local promise = tf_pair_new_promise(&pair, A);
    tf_local result = tf_pair_send_ref(&pair, A, TF_PAIR_PEER_ROOT, "m", promise, TF_REF_PROMISE);
    (void)tf_pair_flush(&pair, A);
    static uint8_t big[65536];
    tf_mention self = {.local = promise, .kind = TF_REF_PROMISE};
    const tf_answer rows[] = {
        {.promise = result, .kind = TF_RESOLUTION_DATA},                         /* decided by the peer */
        {.promise = TF_PAIR_ROOT, .kind = TF_RESOLUTION_DATA},                   /* an object */
        {.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = self},      /* to a promise */
        {.promise = promise, .kind = TF_RESOLUTION_OBJECT},                      /* to nothing */
        {.promise = promise, .kind = TF_RESOLUTION_DATA, .data = {big, 65536}},  /* beyond max_message */
        {.promise = promise, .kind = TF_RESOLUTION_REJECTION, .data = {big, TF_REJECTION_MAX + 1}},
        {.promise = promise, .kind = TF_RESOLUTION_DATA, .refs = &self, .ref_count = TF_REFS_PER_MESSAGE + 1},
    };
    static const tf_err errors[] = {TF_ERR_USAGE,       TF_ERR_USAGE,       TF_ERR_USAGE,      TF_ERR_USAGE,
                                    TF_ERR_LIMIT_BYTES, TF_ERR_LIMIT_BYTES, TF_ERR_LIMIT_ITEMS};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, &rows[i], 1), errors[i]);
        ck_assert_uint_eq(tf_pair_flush(&pair, A), 0);
    }
    tf_answer twice[2] = {{.promise = promise, .kind = TF_RESOLUTION_DATA}, {.promise = promise, .kind = TF_RESOLUTION_DATA}};
    ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, twice, 2), TF_ERR_USAGE);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).promises_ours, 1);
    tf_pair_free(&pair);
}
END_TEST

/* D10 and B6: one-way traffic is acked after 20 ms, by an ack that nobody answers. */
START_TEST(session_one_way_resolves_are_acked_when_idle)
{
    begin();
    for (int i = 0; i < 100; i++) {
        tf_pair_resolve_data(&pair, A, tf_pair_send_promise(&pair, A, "m"), "x");
    }
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).retirements, 100);
    ck_assert_uint_eq(tf_session_deadline(pair.side[B].session), pair.now + TF_SESSION_ACK_DELAY);
    ck_assert_int_eq(tf_session_tick(pair.side[B].session, pair.now + TF_SESSION_ACK_DELAY - 1), TF_OK);
    ck_assert_uint_eq(tf_pair_flush(&pair, B), 0);
    pair.now += TF_SESSION_ACK_DELAY;
    ck_assert_int_eq(tf_session_tick(pair.side[B].session, pair.now), TF_OK);
    ck_assert_uint_eq(tf_pair_flush(&pair, B), 1);
    ck_assert_int_eq(next_message(A).kind, TF_MESSAGE_ACK);
    ck_assert_uint_eq(next_message(A).ack_delta, 200);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).retirements, 0);
    ck_assert_uint_eq(tf_session_deadline(pair.side[A].session), TF_NEVER);
    ck_assert_uint_eq(tf_session_deadline(pair.side[B].session), TF_NEVER);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_only_what_retires_obliges_an_ack)
{
    begin();
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_eq(tf_session_deadline(pair.side[B].session), TF_NEVER); /* deliver */
    tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->result, "");
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_ne(tf_session_deadline(pair.side[A].session), TF_NEVER); /* resolve */
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", false);
    ck_assert_uint_eq(tf_session_deadline(pair.side[A].session), TF_NEVER); /* something else took the ack along */
    tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT);
    tf_pair_deliver_all(&pair, B);
    ck_assert_uint_ne(tf_session_deadline(pair.side[B].session), TF_NEVER); /* drop */
    pair.now += TF_SESSION_ACK_DELAY;
    ck_assert_int_eq(tf_session_tick(pair.side[B].session, pair.now), TF_OK);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_session_deadline(pair.side[A].session), TF_NEVER); /* ack */
    tf_pair_free(&pair);
}
END_TEST

/* What `ref ls` shows: every entry once, and its state. */
START_TEST(session_entries_are_listed)
{
    begin();
    tf_mention refs[3] = {{.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT},
                          {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT},
                          {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT}};
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, refs, 3, true), TF_OK);
    tf_pair_revoke(&pair, A, refs[0].local, false, "soft");
    tf_pair_revoke(&pair, A, refs[1].local, true, "hard");
    static const struct {
        tf_ref ref;
        bool is_export, is_retired, is_revoked, is_mentioned;
        uint64_t retired;
    } rows[] = {{OURS(0), true, false, false, false, 0}, {OURS(1), true, false, true, true, 0},
                {OURS(2), true, true, false, true, 2},   {OURS(3), true, false, false, true, 0},
                {2, false, false, false, false, 0},      {1, false, false, false, false, 0}};
    uint64_t cursor = 0;
    tf_session_entry entry;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert(tf_session_next_entry(pair.side[A].session, &cursor, &entry));
        ck_assert_uint_eq(entry.ref, rows[i].ref);
        ck_assert_int_eq(entry.is_export, rows[i].is_export);
        ck_assert_int_eq(entry.is_retired, rows[i].is_retired);
        ck_assert_uint_eq(entry.retired, rows[i].retired);
        ck_assert_int_eq(entry.is_revoked, rows[i].is_revoked);
        ck_assert_int_eq(entry.is_mentioned, rows[i].is_mentioned);
        ck_assert_uint_eq(entry.mentioned, 0); /* by the first message */
        ck_assert_uint_eq(entry.count, 1);
    }
    ck_assert_uint_eq(entry.local, TF_PAIR_PEER_ROOT);
    ck_assert(!tf_session_next_entry(pair.side[A].session, &cursor, &entry));
    tf_pair_release(&pair, A, TF_PAIR_PEER_ROOT); /* dropped: there is a ref, but nothing that it stands for */
    cursor = 2 + 1;
    ck_assert(tf_session_next_entry(pair.side[A].session, &cursor, &entry));
    ck_assert_uint_eq(entry.local, TF_LOCAL_NONE);
    ck_assert(entry.is_retired);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_needs_a_root_and_sane_limits)
{
    tf_refs refs;
    ck_assert_int_eq(tf_refs_init(&refs, tf_test_mem(), 5), TF_OK);
    tf_session *s = NULL;
    tf_session_config config = {
        .local = tf_pair_limits(), .remote = tf_pair_limits(), .refs = &refs, .mem = tf_test_mem()};
    ck_assert_int_eq(tf_session_new(&s, &config), TF_ERR_USAGE);
    config.root = tf_refs_next_local(&refs);
    config.remote.max_message = TF_MESSAGE_MIN_LIMIT - 1;
    ck_assert_int_eq(tf_session_new(&s, &config), TF_ERR_USAGE);
    config.remote.max_message = TF_MESSAGE_MIN_LIMIT;
    ck_assert_int_eq(tf_session_new(&s, &config), TF_OK);
    tf_session_free(s);
    tf_session_free(NULL);
    tf_refs_clear(&refs);
}
END_TEST

/* D9: only the turn of a delivery to a resolved promise obliges an ack for it, not a later one. */
START_TEST(session_ack_for_a_delivery_to_a_promise_is_not_owed_again)
{
    begin();
    tf_local promises[2] = {tf_pair_send_promise(&pair, A, "p"), tf_pair_send_promise(&pair, A, "q")};
    tf_pair_deliver_all(&pair, B);
    (void)tf_pair_send(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[0].local, "m", false);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_session_deadline(pair.side[A].session), TF_NEVER); /* it is not resolved */
    tf_pair_resolve_data(&pair, A, promises[1], "");
    tf_pair_deliver_all(&pair, B);
    tf_pair_resolve_data(&pair, A, promises[0], "");
    (void)tf_pair_flush(&pair, A); /* on its way */
    pair.now += TF_SESSION_ACK_DELAY;
    ck_assert_int_eq(tf_session_tick(pair.side[B].session, pair.now), TF_OK);
    (void)tf_pair_flush(&pair, B);
    ck_assert_int_eq(next_message(A).kind, TF_MESSAGE_ACK);
    tf_pair_deliver_all(&pair, A);
    ck_assert_uint_eq(tf_session_deadline(pair.side[A].session), TF_NEVER);
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        session_call_and_answer_leaves_nothing,
        session_messages_are_numbered_from_0,
        session_number_may_be_left_out,
        session_wrong_number_names_both,
        session_ack_deltas_add_up,
        session_ack_covers_only_what_is_fully_processed,
        session_refs_are_allocated_in_order,
        session_same_object_has_the_same_ref_and_local_id,
        session_dropped_object_is_forgotten_and_told,
        session_every_hold_keeps,
        session_root_can_be_dropped_before_any_message,
        session_drops_of_a_turn_are_one_message,
        session_promise_is_resolved_once_and_gone,
        session_cycle_is_resolved_in_one_message,
        session_resolve_wrongly_used_changes_nothing,
        session_one_way_resolves_are_acked_when_idle,
        session_only_what_retires_obliges_an_ack,
        session_entries_are_listed,
        session_needs_a_root_and_sane_limits,
        session_ack_for_a_delivery_to_a_promise_is_not_owed_again,
        NULL,
    };
    return tf_test_run("proto/session", tests);
}
