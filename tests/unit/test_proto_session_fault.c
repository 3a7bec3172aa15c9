/* Allocations that fail, one after the other, in a script that meets every path that allocates: a call that says NOMEM
 * has changed nothing, so that it can be made again; and nothing is ever lost. */
#include "proto/limits.h"
#include "proto/session.h"
#include "tests/support/check_main.h"
#include "tests/support/session_pair.h"
#include "tests/support/support.h"

#define A 0
#define B 1

static tf_pair pair;
static tf_local promises[4]; /* decided by A */
static tf_local result;      /* of A's first call */
static tf_local object;      /* of A */

static tf_err send(int side, tf_local target, const tf_mention *refs, size_t count, tf_local *out)
{
    tf_router_send message = {.target = target,
                              .method = tf_slice_str("method"),
                              .args = tf_slice_str("arguments"),
                              .refs = refs,
                              .ref_count = count,
                              .want_result = out != NULL};
    return tf_router_deliver(pair.side[side].router, pair.now, &message, out);
}

/* The whole line, each message again until it is taken. A session that fails must end: then the rest is not run. */
static tf_err receive(int side)
{
    (void)tf_pair_flush(&pair, 1 - side);
    tf_pair_side *s = &pair.side[side];
    while (s->line != NULL && s->err == TF_OK) {
        tf_err err = tf_router_recv(s->router, s->session, pair.now, tf_pair_next(&pair, side));
        if (err != TF_OK) {
            return err;
        }
        tf_pair_turn(&pair, side);
        tf_pair_lose(&pair, side);
    }
    return s->err;
}

static tf_err start(void)
{
    tf_err err = tf_pair_init(&pair, tf_test_mem(), NULL);
    for (size_t i = 0; i < 4 && err == TF_OK; i++) {
        promises[i] = tf_router_new_promise(pair.side[A].router);
        err = promises[i] == TF_LOCAL_NONE ? TF_ERR_NOMEM : TF_OK;
    }
    object = err == TF_OK ? tf_pair_new_object(&pair, A) : TF_LOCAL_NONE;
    return err;
}

static tf_err a_calls(void)
{
    tf_mention refs[6];
    for (size_t i = 0; i < 4; i++) {
        refs[i] = (tf_mention){.local = promises[i], .kind = TF_REF_PROMISE};
    }
    refs[4] = (tf_mention){.local = object, .kind = TF_REF_OBJECT};
    refs[5] = refs[4];
    return send(A, TF_PAIR_PEER_ROOT, refs, 6, &result);
}

static tf_err a_pipelines(void)
{
    tf_mention refs[2] = {{.local = object, .kind = TF_REF_OBJECT}, {.local = promises[0], .kind = TF_REF_PROMISE}};
    tf_local deeper = TF_LOCAL_NONE;
    tf_err err = send(A, result, refs, 2, &deeper);
    return err == TF_OK ? send(A, deeper, NULL, 0, NULL) : err;
}

static tf_err b_receives(void)
{
    return receive(B);
}

static tf_err a_receives(void)
{
    return receive(A);
}

static tf_err a_resolves_a_cycle(void)
{
    tf_mention refs[2] = {{.local = promises[1], .kind = TF_REF_PROMISE}, {.local = object, .kind = TF_REF_OBJECT}};
    tf_mention back = {.local = promises[0], .kind = TF_REF_PROMISE};
    tf_answer answers[3] = {
        {.promise = promises[0], .kind = TF_RESOLUTION_DATA, .refs = refs, .ref_count = 2},
        {.promise = promises[1], .kind = TF_RESOLUTION_REJECTION, .data = tf_slice_str("no"), .refs = &back, .ref_count = 1},
        {.promise = promises[2], .kind = TF_RESOLUTION_OBJECT, .object = refs[1]},
    };
    return tf_router_resolve(pair.side[A].router, pair.now, answers, 3);
}

static tf_err b_sends_to_what_is_resolved(void)
{
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    for (size_t i = 0; i < 3; i++) {
        tf_local answer = TF_LOCAL_NONE;
        tf_err err = send(B, call->refs[i].local, NULL, 0, &answer);
        if (err != TF_OK) {
            return err;
        }
    }
    return TF_OK;
}

static tf_err b_rejects_the_call(void)
{
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    tf_answer answer = {.promise = call->result,
                        .kind = TF_RESOLUTION_REJECTION,
                        .data = tf_slice_str("never"),
                        .refs = &call->refs[4],
                        .ref_count = 1};
    return tf_router_resolve(pair.side[B].router, pair.now, &answer, 1);
}

static tf_err a_revokes(void)
{
    tf_mention refs[2] = {{.local = object, .kind = TF_REF_OBJECT}, {.local = promises[3], .kind = TF_REF_PROMISE}};
    tf_revocation soft = {.object = object, .data = tf_slice_str("soft"), .refs = refs, .ref_count = 2};
    return tf_router_revoke(pair.side[A].router, pair.now, &soft);
}

static tf_err a_revokes_hard(void)
{
    tf_revocation hard = {.object = object, .hard = true, .data = tf_slice_str("hard")};
    return tf_router_revoke(pair.side[A].router, pair.now, &hard);
}

static tf_err b_sends_to_what_is_revoked(void)
{
    tf_local answer = TF_LOCAL_NONE;
    return send(B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->refs[4].local, NULL, 0, &answer);
}

static tf_err b_lets_go(void)
{
    const tf_pair_event *call = tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0);
    for (size_t i = 0; i < call->ref_count; i++) {
        tf_router_release(pair.side[B].router, pair.now, call->refs[i].local);
    }
    return TF_OK;
}

static tf_err time_passes(void)
{
    pair.now += TF_SECOND;
    tf_err err = tf_session_tick(pair.side[A].session, pair.now);
    return err == TF_OK ? tf_session_tick(pair.side[B].session, pair.now) : err;
}

typedef struct stage {
    tf_err (*run)(void);
    bool whole; /* NOMEM leaves it undone: it can be run again */
} stage;

static const stage stages[] = {
    {start, false},
    {a_calls, true},
    {a_pipelines, false},
    {b_receives, false},
    {b_sends_to_what_is_resolved, false},
    {a_resolves_a_cycle, true},
    {a_receives, false},
    {b_receives, false},
    {b_rejects_the_call, true},
    {a_receives, false},
    {a_revokes, true},
    {b_receives, false},
    {b_sends_to_what_is_revoked, true},
    {a_revokes_hard, true},
    {b_lets_go, false},
    {time_passes, true},
    {a_receives, false},
    {b_receives, false},
    {time_passes, true},
};

/* A call that found no memory has changed nothing, so it can be made again. */
static tf_err run_again(const stage *at, const tf_session_stats before[2])
{
    for (int side = 0; side < 2 && at->run != time_passes; side++) { /* time makes two calls */
        tf_session_stats after = tf_pair_stats(&pair, side);
        ck_assert_int_eq(memcmp(&before[side], &after, sizeof(after)), 0);
    }
    tf_err err = at->run();
    ck_assert_int_eq(err, TF_OK);
    return err;
}

/* What follows from it, and whether a session had to end for want of memory. */
static tf_err take_events(void)
{
    for (int side = 0; side < 2; side++) {
        tf_pair_turn(&pair, side);
    }
    return pair.side[A].err == TF_OK ? pair.side[B].err : pair.side[A].err;
}

/* False: the script did not come to its end. */
static bool run_script(bool for_ever)
{
    pair = (tf_pair){.now = 0};
    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        tf_session_stats before[2] = {{0}};
        for (int side = 0; i > 0 && side < 2; side++) {
            before[side] = tf_pair_stats(&pair, side);
        }
        tf_err err = stages[i].run();
        if (err == TF_ERR_NOMEM && stages[i].whole && !for_ever) {
            err = run_again(&stages[i], before);
        }
        err = err == TF_OK ? take_events() : err;
        if (err != TF_OK) {
            ck_assert_msg(err == TF_ERR_NOMEM, "stage %zu: %s", i, tf_err_text(err));
            return false;
        }
    }
    return true;
}

static void fail_one_after_the_other(bool for_ever)
{
    tf_test_heap *heap = tf_test_heap_shared();
    size_t live = heap->live_blocks;
    uint64_t k = 0;
    for (bool failed = true; failed; k++) {
        ck_assert_uint_lt(k, 1000);
        uint64_t failures = heap->failures;
        tf_test_heap_fail_at(heap, k, for_ever);
        bool whole = run_script(for_ever);
        failed = heap->failures > failures;
        tf_test_heap_fail_never(heap);
        ck_assert(whole || failed);
        tf_pair_free(&pair);
        ck_assert_uint_eq(heap->live_blocks, live);
    }
    ck_assert_uint_gt(k, 20);
}

START_TEST(session_one_failed_allocation_loses_nothing)
{
    fail_one_after_the_other(false);
}
END_TEST

START_TEST(session_no_memory_any_more_loses_nothing)
{
    fail_one_after_the_other(true);
}
END_TEST

/* recv that found no memory has applied nothing: with memory the same message is taken. */
START_TEST(session_recv_without_memory_can_be_repeated)
{
    for (uint64_t k = 0;; k++) {
        ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
        result = tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
        (void)tf_pair_send_ref(&pair, A, result, "m", tf_pair_new_object(&pair, A), TF_REF_OBJECT);
        (void)tf_pair_flush(&pair, A);
        ck_assert(tf_pair_step(&pair, B));
        tf_session_stats before = tf_pair_stats(&pair, B);
        tf_test_heap_fail_at(tf_test_heap_shared(), k, true);
        tf_err err = tf_router_recv(pair.side[B].router, pair.side[B].session, pair.now, tf_pair_next(&pair, B));
        tf_test_heap_fail_never(tf_test_heap_shared());
        if (err == TF_ERR_NOMEM) {
            tf_session_stats after = tf_pair_stats(&pair, B);
            ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
            ck_assert(tf_pair_step(&pair, B));
            ck_assert_int_eq(pair.side[B].err, TF_OK);
            ck_assert_uint_eq(tf_pair_node(&pair, B).held_items, 1);
        }
        tf_pair_free(&pair);
        if (err == TF_OK) {
            ck_assert_uint_gt(k, 2);
            return;
        }
    }
}
END_TEST

static void call_and_answer(size_t in_flight)
{
    for (size_t i = 0; i < in_flight; i++) {
        (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "m", true);
    }
    tf_pair_deliver_all(&pair, B);
    for (size_t i = 0; i < in_flight; i++) {
        tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, i)->result, "x");
    }
    tf_pair_deliver_all(&pair, A);
    tf_pair_forget_events(&pair);
}

/* Calls and answers cost no allocation once everything has its size, but the value of each answer. */
START_TEST(session_steady_calls_allocate_only_their_values)
{
    static const size_t rows[] = {1, 2, 60};
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
        uint64_t calls = 0;
        for (int i = 0; i < 300; i++) {
            calls = i == 20 ? tf_test_heap_shared()->calls : calls;
            call_and_answer(rows[row]);
        }
        ck_assert_uint_eq(tf_test_heap_shared()->calls, calls + 280 * rows[row]);
        tf_pair_free(&pair);
    }
}
END_TEST

/* A call for another session's share, which is counted as a result and as room: all or nothing. */
START_TEST(session_call_of_a_share_without_memory_can_be_repeated)
{
    for (uint64_t k = 0;; k++) {
        ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
        tf_session *a = pair.side[A].session;
        tf_refs *refs = tf_router_refs(pair.side[A].router);
        ck_assert_int_eq(tf_refs_reserve(refs, 1), TF_OK);
        tf_delivery call = {.target = tf_refs_find(refs, tf_session_peer_root(a)),
                            .method = tf_slice_str("m"),
                            .result = tf_refs_add(refs, TF_REF_PROMISE),
                            .share = 7};
        tf_session_stats before = tf_pair_stats(&pair, A);
        tf_test_heap_fail_at(tf_test_heap_shared(), k, true);
        tf_err err = tf_session_deliver(a, pair.now, &call);
        tf_test_heap_fail_never(tf_test_heap_shared());
        tf_session_stats after = tf_pair_stats(&pair, A);
        if (err == TF_ERR_NOMEM) {
            ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
            ck_assert_int_eq(tf_session_deliver(a, pair.now, &call), TF_OK);
        }
        tf_pair_deliver_all(&pair, B);
        ck_assert_uint_eq(tf_pair_count(&pair, B, TF_ROUTER_DELIVER), 1);
        tf_pair_free(&pair);
        if (err == TF_OK) {
            ck_assert_uint_gt(k, 3);
            return;
        }
        ck_assert_int_eq(err, TF_ERR_NOMEM);
    }
}
END_TEST

/* The message is out, but what it mentions cannot be announced: the next flush of the session says that it must end. */
START_TEST(session_that_cannot_announce_what_it_mentions_is_due)
{
    size_t failed = 0;
    for (uint64_t k = 0;; k++) {
        ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), NULL), TF_OK);
        tf_session *a = pair.side[A].session;
        tf_local promise = tf_pair_new_promise(&pair, A);
        tf_mention mention = {.local = promise, .kind = TF_REF_PROMISE};
        tf_router_hold(pair.side[A].router, promise);
        tf_pair_resolve_data(&pair, A, promise, "x");
        ck_assert_ptr_null(tf_session_take_due(tf_router_refs(pair.side[A].router)));
        tf_refs *refs = tf_router_refs(pair.side[A].router);
        tf_record *named = tf_refs_find(refs, mention.local);
        tf_delivery call = {.target = tf_refs_find(refs, tf_session_peer_root(a)),
                            .method = tf_slice_str("m"),
                            .refs = &named,
                            .ref_count = 1};
        tf_test_heap_fail_at(tf_test_heap_shared(), k, true);
        tf_err err = tf_session_deliver(a, pair.now, &call);
        tf_test_heap_fail_never(tf_test_heap_shared());
        bool whole = err == TF_OK && tf_pair_stats(&pair, A).sent == 2;
        if (err == TF_OK && !whole) {
            failed++;
            ck_assert_ptr_eq(tf_session_take_due(refs), a);
            ck_assert_int_eq(tf_session_flush(a, pair.now), TF_ERR_NOMEM);
        }
        ck_assert_ptr_null(tf_session_take_due(refs));
        tf_pair_free(&pair);
        if (whole) {
            ck_assert_uint_gt(failed, 0);
            return;
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        session_one_failed_allocation_loses_nothing,
        session_no_memory_any_more_loses_nothing,
        session_recv_without_memory_can_be_repeated,
        session_steady_calls_allocate_only_their_values,
        session_call_of_a_share_without_memory_can_be_repeated,
        session_that_cannot_announce_what_it_mentions_is_due,
        NULL,
    };
    return tf_test_run("proto/session memory", tests);
}
