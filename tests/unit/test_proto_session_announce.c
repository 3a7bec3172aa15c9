/* Resolutions as they are told (PROTOCOL.md D7): in batches, within the peer's limits, and kept until they are acked. */
#include "proto/session.h"
#include "tests/unit/session_ends.h"

static tf_err resolve(tf_local promise, tf_slice data, const tf_mention *refs, size_t count)
{
    tf_answer answer = {
        .promise = promise, .kind = TF_RESOLUTION_DATA, .data = data, .refs = refs, .ref_count = count};
    return tf_router_resolve(pair.side[A].router, pair.now, &answer, 1);
}

/* What does not fit one message goes in several, and is named before it is told. */
START_TEST(batch_beyond_a_message_goes_in_several)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    static uint8_t bytes[40000];
    tf_mention p[3] = {new_ref(A, true), new_ref(A, true), new_ref(A, true)};
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, p, 1, false), TF_OK);
    tf_answer answers[3];
    for (size_t i = 0; i < 3; i++) { /* a cycle */
        answers[i] = (tf_answer){.promise = p[i].local,
                                 .kind = TF_RESOLUTION_DATA,
                                 .data = tf_slice_of(bytes, sizeof(bytes)),
                                 .refs = &p[(i + 1) % 3],
                                 .ref_count = 1};
    }
    ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, answers, 3), TF_OK);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_gt(tf_pair_stats(&pair, B).received, 3);
    for (size_t i = 0; i < 3; i++) {
        const tf_pair_event *told = tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, i);
        ck_assert_int_eq(told->kind, TF_RESOLUTION_DATA);
        ck_assert_uint_eq(told->refs[0].local, tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, i + 1)->local);
    }
    tf_pair_free(&pair);
}
END_TEST

static bool says(const tf_pair_event *event, const char *code)
{
    return event != NULL && event->kind == TF_RESOLUTION_REJECTION && strstr(event->text, code) != NULL;
}

/* A cycle that fits into no message is told a number of times, then ends in a rejection. */
START_TEST(cycle_that_fits_into_no_message_ends)
{
    tf_session_limits limits = tf_pair_limits();
    limits.max_message = TF_MESSAGE_MIN_LIMIT;
    limits.max_promises = 2000;
    begin(&limits);
    pair.side[A].holds = false;
    static uint8_t bytes[3000];
    tf_mention p[2] = {new_ref(A, true), new_ref(A, true)};
    ck_assert_int_eq(resolve(p[0].local, tf_slice_of(bytes, sizeof(bytes)), &p[1], 1), TF_OK);
    tf_router_hold(pair.side[A].router, p[0].local);
    ck_assert_int_eq(resolve(p[1].local, tf_slice_of(bytes, sizeof(bytes)), &p[0], 1), TF_OK);
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, p, 1, false), TF_OK);
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 1 + 1 + TF_UNROLL_MAX + 1);
    pair.side[B].holds = false;
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

/* So does one of large values, before they would take more than is kept for a peer. */
START_TEST(cycle_of_large_values_ends_early)
{
    tf_session_limits limits = tf_pair_limits();
    limits.max_message = TF_MESSAGE_MAX;
    limits.max_promises = 2000;
    begin(&limits);
    pair.side[A].holds = false;
    static uint8_t bytes[600000];
    tf_mention p[2] = {new_ref(A, true), new_ref(A, true)};
    ck_assert_int_eq(resolve(p[0].local, tf_slice_of(bytes, sizeof(bytes)), &p[1], 1), TF_OK);
    tf_router_hold(pair.side[A].router, p[0].local);
    ck_assert_int_eq(resolve(p[1].local, tf_slice_of(bytes, sizeof(bytes)), &p[0], 1), TF_OK);
    ck_assert_int_eq(tf_pair_send_refs(&pair, A, p, 1, false), TF_OK);
    ck_assert_uint_le(tf_pair_stats(&pair, A).kept_bytes, TF_KEPT_BYTES_MAX);
    size_t told = TF_KEPT_BYTES_MAX / sizeof(bytes);
    size_t sent = tf_pair_flush(&pair, A);
    ck_assert_msg(sent > told - 5 && sent < told + 5, "%zu messages, not about %zu", sent, told);
    pair.side[B].holds = false;
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

/* The refs of one message are at most 1024; what is more goes in the next one, in order. */
START_TEST(resolutions_beyond_the_numbers_of_a_message_go_in_several)
{
    static const struct {
        size_t promises, refs; /* of each */
    } rows[] = {{2, 512}, {3, 400}, {2, 513}, {2, TF_REFS_PER_MESSAGE}};
    static const size_t messages[] = {1, 2, 2, 2};
    static tf_mention refs[TF_REFS_PER_MESSAGE];
    tf_mention p[3];
    tf_answer answers[3];
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        tf_session_limits limits = {.max_message = 65536, .max_refs = 2000, .max_promises = 2000, .max_results = 1};
        begin(&limits);
        pair.side[A].holds = false;
        pair.side[B].holds = false;
        for (size_t i = 0; i < rows[row].refs; i++) {
            refs[i] = new_ref(A, false);
        }
        for (size_t i = 0; i < rows[row].promises; i++) {
            p[i] = new_ref(A, true);
            ck_assert_int_eq(tf_pair_send_refs(&pair, A, &p[i], 1, false), TF_OK);
            answers[i] = (tf_answer){.promise = p[i].local, .kind = TF_RESOLUTION_DATA, .refs = refs, .ref_count = rows[row].refs};
            tf_router_release(pair.side[A].router, pair.now, p[i].local);
        }
        (void)tf_pair_flush(&pair, A);
        ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, answers, rows[row].promises), TF_OK);
        ck_assert_uint_eq(tf_pair_flush(&pair, A), messages[row]);
        while (tf_pair_step(&pair, B)) {
            ck_assert_int_eq(pair.side[B].err, TF_OK);
        }
        tf_pair_free(&pair);
    }
}
END_TEST

/* More than 1024 lines that are due at once. */
START_TEST(resolutions_due_at_once_go_in_several)
{
    enum { COUNT = TF_REFS_PER_MESSAGE + 2 };
    tf_session_limits limits = {.max_message = 65536, .max_refs = 9, .max_promises = 2000, .max_results = 1};
    begin(&limits);
    pair.side[B].holds = false;
    static tf_mention p[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        p[i] = new_ref(A, true);
        ck_assert_int_eq(tf_pair_send_refs(&pair, A, &p[i], 1, false), TF_OK);
        tf_router_release(pair.side[A].router, pair.now, p[i].local);
    }
    (void)tf_pair_flush(&pair, A);
    tf_refs *refs = tf_router_refs(pair.side[A].router);
    for (size_t i = 0; i < COUNT; i++) {
        tf_record *promise = tf_refs_find(refs, p[i].local);
        tf_refs_settle(refs, promise, tf_refs_standard(refs, TF_CODE_DISCONNECTED));
        tf_session_announce(promise);
    }
    ck_assert_int_eq(tf_session_flush(pair.side[A].session, pair.now), TF_OK);
    ck_assert_uint_eq(tf_pair_flush(&pair, A), 2);
    while (tf_pair_step(&pair, B)) {
        ck_assert_int_eq(pair.side[B].err, TF_OK);
    }
    tf_pair_free(&pair);
}
END_TEST

/* However the lines fall: no message is longer than the limit, also where the count of its lines takes more bytes. */
START_TEST(resolutions_fill_messages_to_the_limit_and_not_beyond)
{
    enum { COUNT = 17 };
    static uint8_t bytes[TF_MESSAGE_MIN_LIMIT];
    for (size_t len = 200; len < 260; len++) {
        tf_session_limits limits = tf_pair_limits();
        limits.max_message = TF_MESSAGE_MIN_LIMIT;
        begin(&limits);
        tf_mention p[COUNT];
        tf_answer answers[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            p[i] = new_ref(A, true);
            answers[i] = (tf_answer){.promise = p[i].local, .kind = TF_RESOLUTION_DATA, .data = tf_slice_of(bytes, len)};
        }
        ck_assert_int_eq(tf_pair_send_refs(&pair, A, p, COUNT, false), TF_OK);
        answers[0].data.len = len - 200; /* of all lengths, so that the sum is any number */
        ck_assert_int_eq(tf_router_resolve(pair.side[A].router, pair.now, answers, COUNT), TF_OK);
        tf_pair_turn(&pair, A);
        ck_assert_int_eq(pair.side[A].err, TF_OK);
        pair.side[B].holds = false;
        tf_pair_deliver_all(&pair, B);
        ck_assert_int_eq(pair.side[B].err, TF_OK);
        ck_assert_uint_eq(tf_pair_stats(&pair, B).promises_theirs, 0);
        tf_pair_free(&pair);
    }
}
END_TEST

/* What the peer's limits do not let us tell is replaced by a rejection that says so; what it would have named is not. */
START_TEST(announcement_beyond_the_peers_limits_is_a_rejection)
{
    static uint8_t bytes[5000];
    for (int row = 0; row < 3; row++) {
        tf_session_limits limits = tf_pair_limits();
        limits.max_message = TF_MESSAGE_MIN_LIMIT;
        limits.max_refs = 3;
        limits.max_promises = 3;
        begin(&limits);
        tf_mention refs[4];
        for (size_t i = 0; i < 4; i++) {
            refs[i] = new_ref(A, row == 2);
        }
        tf_mention p = new_ref(A, true);
        ck_assert_int_eq(resolve(p.local, tf_slice_of(bytes, row == 0 ? 5000 : 5), refs, row == 0 ? 0 : 4), TF_OK);
        ck_assert_int_eq(tf_pair_send_refs(&pair, A, &p, 1, false), TF_OK);
        tf_pair_deliver_all(&pair, B);
        ck_assert_int_eq(pair.side[B].err, TF_OK);
        ck_assert(says(tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0), row == 0 ? "message_too_large" : "overloaded"));
        ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 1);
        ck_assert_int_eq(deliver(2, 0, false), TF_OK); /* no number was lost */
        tf_pair_deliver_all(&pair, B);
        ck_assert_int_eq(pair.side[B].err, TF_OK);
        tf_pair_free(&pair);
    }
}
END_TEST

/* A resolution that is exactly as long as the limit is told; one byte more is too large. */
START_TEST(resolution_as_long_as_the_limit_is_told)
{
    static uint8_t bytes[TF_MESSAGE_MIN_LIMIT];
    static const size_t around = 4 + 1 + 3 + 4; /* head, count, line, bin */
    for (size_t more = 0; more < 2; more++) {
        tf_session_limits limits = tf_pair_limits();
        limits.max_message = TF_MESSAGE_MIN_LIMIT;
        begin(&limits);
        tf_mention p = new_ref(A, true);
        ck_assert_int_eq(resolve(p.local, tf_slice_of(bytes, TF_MESSAGE_MIN_LIMIT - around + more), NULL, 0), TF_OK);
        ck_assert_int_eq(tf_pair_send_refs(&pair, A, &p, 1, false), TF_OK);
        (void)tf_pair_flush(&pair, A);
        ck_assert(tf_pair_step(&pair, B));
        if (more == 0) {
            ck_assert_uint_eq(tf_pair_next(&pair, B).len, TF_MESSAGE_MIN_LIMIT);
        }
        ck_assert(tf_pair_step(&pair, B));
        const tf_pair_event *told = tf_pair_find(&pair, B, TF_ROUTER_RESOLVED, 0);
        ck_assert_int_eq(told->kind == TF_RESOLUTION_DATA, more == 0);
        ck_assert_int_eq(says(told, "message_too_large"), more == 1);
        tf_pair_free(&pair);
    }
}
END_TEST

/* Values of what was resolved are kept within a budget until the ack; beyond it a message to one is `overloaded`. */
START_TEST(kept_values_are_bounded)
{
    enum { COUNT = 300 }; /* more than TF_KEPT_BYTES_MAX in all, the peer acks nothing */
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    static char data[65000];
    static tf_local results[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        results[i] = tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    }
    tf_pair_deliver_all(&pair, B);
    for (size_t i = 0; i < COUNT; i++) {
        tf_answer answer = {.promise = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, i)->result,
                            .kind = TF_RESOLUTION_DATA,
                            .data = tf_slice_of(data, sizeof(data))};
        ck_assert_int_eq(tf_router_resolve(pair.side[B].router, pair.now, &answer, 1), TF_OK);
    }
    ck_assert_uint_le(tf_pair_stats(&pair, B).kept_bytes, TF_KEPT_BYTES_MAX);
    ck_assert_uint_gt(tf_pair_stats(&pair, B).kept_bytes, TF_KEPT_BYTES_MAX - sizeof(data) - 1000);
    tf_local kept = tf_pair_send(&pair, A, results[0], "kept", true);
    tf_local other = tf_pair_send(&pair, A, results[COUNT - 1], "not kept", true);
    tf_pair_deliver_all(&pair, B);
    tf_pair_forget_events(&pair);
    tf_pair_deliver_all(&pair, A);
    const tf_pair_event *last[2] = {tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, COUNT),
                                    tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, COUNT + 1)};
    ck_assert(last[0]->local == kept && says(last[0], "cannot_send_to_data"));
    ck_assert(last[1]->local == other && says(last[1], "overloaded"));
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        batch_beyond_a_message_goes_in_several,
        cycle_that_fits_into_no_message_ends,
        cycle_of_large_values_ends_early,
        resolutions_beyond_the_numbers_of_a_message_go_in_several,
        resolutions_due_at_once_go_in_several,
        resolutions_fill_messages_to_the_limit_and_not_beyond,
        announcement_beyond_the_peers_limits_is_a_rejection,
        resolution_as_long_as_the_limit_is_told,
        kept_values_are_bounded,
        NULL,
    };
    return tf_test_run("proto/session announcements", tests);
}
