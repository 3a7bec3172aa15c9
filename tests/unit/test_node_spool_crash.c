/* node/spool: its promises, whatever operation of the disk was the last, failed, or found no memory. */
#include "tests/unit/spool_world.h"

/* What a short history has promised before it was cut off. */
typedef struct promise {
    unsigned put;     /* messages 1 to put were put, */
    unsigned durable; /* synced */
    unsigned taken;   /* and handed out, that is sent */
    unsigned done;    /* and answered */
    unsigned noted;   /* which is noted for good */
} promise;

static void history_sync(world *w, promise *p)
{
    if (tf_spool_sync(w->spool) == TF_OK) {
        p->durable = p->put;
    }
}

static void history_send(world *w, promise *p)
{
    tf_spool_message message;
    while (tf_spool_next(w->spool, NOW_MS + 100, &message) == TF_OK) {
        p->taken++;
        ck_assert_uint_eq(check_message(&message), p->taken);
        tf_spool_take(w->spool);
    }
}

static void history_answer(world *w, promise *p, unsigned to, bool durably)
{
    for (; p->done < to && p->done < p->taken; p->done++) {
        tf_spool_done(w->spool, p->done + 1);
    }
    if (tf_spool_note(w->spool, durably) == TF_OK && durably) {
        p->noted = p->done;
    }
}

/* Only as long as nothing failed: what comes after a failed sync is not this history any more. */
static void history_put(world *w, promise *p, bool at_once)
{
    if (p->durable == p->put && put(w, p->put + 1, 300, at_once) == TF_OK) {
        p->put++;
        history_sync(w, p);
    }
}

static void history(world *w, promise *p)
{
    *p = (promise){0};
    if (world_open(w) != TF_OK) {
        return;
    }
    history_put(w, p, false);
    history_put(w, p, false);
    history_send(w, p);
    history_answer(w, p, 1, false);
    history_put(w, p, true);
    history_send(w, p);
    history_answer(w, p, 2, true);
    history_put(w, p, true);
    history_send(w, p);
    history_answer(w, p, 3, false);
    history_put(w, p, false);
    history_answer(w, p, 4, true);
    history_put(w, p, false);
}

/* The next process finds a run from not behind what was noted as answered to not before what was durable. */
static void check_promise(world *w, const promise *p)
{
    tf_spool_message message;
    unsigned expected = 0;
    ck_assert_int_eq(world_open(w), TF_OK);
    ck_assert_uint_eq(stats_of(w).damaged, 0);
    while (tf_spool_next(w->spool, NOW_MS + 200, &message) == TF_OK) {
        unsigned number = check_message(&message);
        ck_assert(expected == 0 || number == expected);
        ck_assert(expected != 0 || (number > p->noted && number <= p->done + 1));
        ck_assert(number > p->taken || message.sent_ms != 0);
        expected = number + 1;
        tf_spool_take(w->spool);
    }
    ck_assert_uint_le(expected, p->put + 1);
    if (expected == 0) {
        ck_assert_uint_eq(p->durable, p->done);
    } else {
        ck_assert_uint_gt(expected, p->durable);
    }
    /* And it can be used. */
    ck_assert_int_eq(put(w, 77, 10, true), TF_OK);
    ck_assert_int_eq(tf_spool_sync(w->spool), TF_OK);
    ck_assert_int_eq(tf_spool_next(w->spool, NOW_MS + 200, &message), TF_OK);
    ck_assert_uint_eq(check_message(&message), 77);
}

START_TEST(spool_power_cut_at_every_operation_keeps_its_promises)
{
    for (uint64_t n = 0;; n++) {
        bool was_off = false;
        for (uint64_t seed = 0; seed < 4; seed++) {
            world w;
            promise p;
            world_begin(&w);
            tf_lossy_files_stop_at(w.lossy, n);
            history(&w, &p);
            world_close(&w);
            was_off = tf_lossy_files_is_off(w.lossy);
            tf_lossy_files_crash(w.lossy, n * 4 + seed);
            check_promise(&w, &p);
            world_end(&w);
        }
        if (!was_off) {
            ck_assert_uint_gt(n, 30);
            break;
        }
    }
}
END_TEST

/* A killed process: what it wrote is there, synced or not. */
START_TEST(spool_error_at_every_operation_keeps_its_promises)
{
    static const tf_lossy_fault faults[] = {TF_LOSSY_ERROR, TF_LOSSY_FULL};
    for (size_t k = 0; k < 2; k++) {
        for (uint64_t n = 0;; n++) {
            world w;
            promise p;
            tf_lossy_counts counts;
            world_begin(&w);
            tf_lossy_files_fail_at(w.lossy, n, faults[k], true);
            history(&w, &p);
            world_close(&w);
            tf_lossy_files_get_counts(w.lossy, &counts);
            tf_lossy_files_fail_at(w.lossy, UINT64_MAX, faults[k], true);
            check_promise(&w, &p);
            world_end(&w);
            if (counts.faults == 0) {
                ck_assert_uint_gt(n, 20);
                break;
            }
        }
    }
}
END_TEST

START_TEST(spool_without_memory_says_so_and_leaks_nothing)
{
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        for (uint64_t k = 0;; k++) {
            world w;
            promise p;
            tf_test_heap heap;
            tf_test_heap_init(&heap);
            world_begin(&w);
            w.mem = &heap.mem;
            tf_test_heap_fail_at(&heap, k, for_ever == 1);
            history(&w, &p);
            world_close(&w);
            uint64_t failures = heap.failures;
            tf_test_heap_fail_never(&heap);
            check_promise(&w, &p);
            world_end(&w);
            ck_assert_uint_eq(heap.live_blocks, 0);
            if (failures == 0) {
                break;
            }
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        spool_power_cut_at_every_operation_keeps_its_promises,
        spool_error_at_every_operation_keeps_its_promises,
        spool_without_memory_says_so_and_leaks_nothing,
        NULL,
    };
    return tf_test_run("node/spool, crashes", tests);
}
