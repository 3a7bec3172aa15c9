/* proto/session, without its router: what a caller may not say of a delivery, and calls at a moment at which they do
 * nothing. Side 0 is called A, side 1 B. */
#include "proto/session.h"

#include "tests/unit/session_ends.h"

static tf_record *record_of(const tf_pair *of, int side, tf_local local)
{
    tf_record *record = tf_refs_find(tf_router_refs(of->side[side].router), local);
    ck_assert_ptr_nonnull(record);
    return record;
}

static void check_delivery(const tf_delivery *delivery, tf_err expected)
{
    tf_session_stats before = tf_pair_stats(&pair, A);
    ck_assert_int_eq(tf_session_deliver(pair.side[A].session, pair.now, delivery), expected);
    tf_session_stats after = tf_pair_stats(&pair, A);
    ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
}

START_TEST(session_delivery_to_what_is_not_imported_here_is_refused)
{
    static tf_pair other;
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    ck_assert_int_eq(tf_pair_init(&other, tf_test_mem(), NULL), TF_OK);
    tf_slice m = tf_slice_str("m");
    check_delivery(&(tf_delivery){.target = record_of(&pair, A, TF_PAIR_ROOT), .method = m}, TF_ERR_USAGE);
    check_delivery(&(tf_delivery){.target = record_of(&other, A, TF_PAIR_PEER_ROOT), .method = m}, TF_ERR_USAGE);
    tf_pair_free(&other);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_delivery_with_a_method_or_refs_that_cannot_be_is_refused)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    static const uint8_t not_utf8[] = {0xff};
    static char text[TF_METHOD_MAX + 1];
    tf_record *root = record_of(&pair, A, TF_PAIR_PEER_ROOT);
    memset(text, 'm', sizeof(text));
    check_delivery(&(tf_delivery){.target = root}, TF_ERR_USAGE);
    check_delivery(&(tf_delivery){.target = root, .method = tf_slice_of(text, sizeof(text))}, TF_ERR_USAGE);
    check_delivery(&(tf_delivery){.target = root, .method = tf_slice_of(not_utf8, 1)}, TF_ERR_USAGE);
    check_delivery(
        &(tf_delivery){.target = root, .method = tf_slice_str("m"), .ref_count = TF_REFS_PER_MESSAGE + 1},
        TF_ERR_LIMIT_ITEMS);
    tf_pair_free(&pair);
}
END_TEST

/* D4: the result is a new promise of this side, that nobody has resolved and the peer does not know. */
START_TEST(session_delivery_with_a_result_that_cannot_be_is_refused)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    tf_local known = tf_pair_send_promise(&pair, A, "known");
    tf_local resolved = tf_pair_send_promise(&pair, A, "resolved");
    (void)tf_pair_send_promise(&pair, B, "theirs");
    tf_pair_deliver_all(&pair, A);
    tf_local theirs = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0)->refs[0].local;
    tf_pair_resolve_data(&pair, A, resolved, "x");
    const tf_local wrong[] = {TF_PAIR_ROOT, known, resolved, theirs};
    for (size_t i = 0; i < 4; i++) {
        check_delivery(&(tf_delivery){.target = record_of(&pair, A, TF_PAIR_PEER_ROOT),
                                      .method = tf_slice_str("m"),
                                      .result = record_of(&pair, A, wrong[i])},
                       TF_ERR_USAGE);
    }
    tf_pair_free(&pair);
}
END_TEST

START_TEST(session_that_has_ended_counts_and_trims_nothing)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    tf_session *b = pair.side[B].session;
    (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", false);
    (void)tf_pair_flush(&pair, A);
    ck_assert_int_eq(tf_session_recv(b, pair.now, tf_pair_next(&pair, B)), TF_OK);
    tf_session_trim(b); /* in a turn: what it needs stays */
    tf_session_event event;
    ck_assert(tf_session_next_event(b, &event));
    ck_assert(tf_slice_eq(event.method, tf_slice_str("m")));
    ck_assert_uint_eq(tf_session_deadline(b), TF_NEVER);
    ck_assert_int_eq(tf_session_tick(b, pair.now), TF_OK);
    tf_session_end(b);
    tf_session_done(b, pair.now); /* of the turn that the end has ended */
    tf_session_trim(b);
    while (tf_session_next_event(b, &event)) {
        ck_assert_int_ne(event.type, TF_SESSION_DELIVER);
    }
    tf_pair_free(&pair);
}
END_TEST

/* An ack that is due goes when there is memory for it. */
START_TEST(session_ack_without_memory_goes_later)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    tf_session *b = pair.side[B].session;
    tf_slice message;
    tf_local promise = tf_pair_send_promise(&pair, A, "p");
    tf_pair_deliver_all(&pair, B);
    tf_pair_resolve_data(&pair, A, promise, "x");
    tf_pair_deliver_all(&pair, B); /* a RESOLVE obliges to ack */
    while (tf_session_peek_out(b, &message)) {
        tf_session_pop_out(b);
    }
    tf_session_trim(b);
    tf_time due = tf_session_deadline(b);
    ck_assert_uint_ne(due, TF_NEVER);
    tf_test_heap_fail_at(tf_test_heap_shared(), 0, false);
    ck_assert_int_eq(tf_session_tick(b, due), TF_ERR_NOMEM);
    tf_test_heap_fail_never(tf_test_heap_shared());
    ck_assert(!tf_session_peek_out(b, &message));
    ck_assert_int_eq(tf_session_tick(b, due), TF_OK);
    ck_assert(tf_session_peek_out(b, &message));
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        session_delivery_to_what_is_not_imported_here_is_refused,
        session_delivery_with_a_method_or_refs_that_cannot_be_is_refused,
        session_delivery_with_a_result_that_cannot_be_is_refused,
        session_that_has_ended_counts_and_trims_nothing,
        session_ack_without_memory_goes_later,
        NULL,
    };
    return tf_test_run("proto/session, as its router uses it", tests);
}
