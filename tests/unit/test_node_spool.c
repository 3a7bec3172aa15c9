/* node/spool: what was synced and not answered outlives the process and the machine, in order, once; whatever fails. */
#include <stdio.h>

#include "node/spool.h"
#include "tests/support/check_main.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

#define MESSAGES 4096u
#define NOW_MS 1700000000000

typedef struct world {
    tf_lossy_files *lossy;
    tf_spool *spool;
    char why[TF_WHY_MAX];
    uint64_t bytes_max;
    const char *channel;
    uint8_t relay;
    const tf_mem *mem;
} world;

static void world_begin(world *w)
{
    *w = (world){.lossy = tf_lossy_files_new(UINT64_MAX), .channel = "room", .relay = 2, .mem = tf_test_mem()};
}

static tf_err world_open(world *w)
{
    tf_spool_config config = {.files = tf_lossy_files_get(w->lossy),
                              .mem = w->mem,
                              .rand = tf_test_rand(3),
                              .bytes_max = w->bytes_max,
                              .owner = {.channel = tf_slice_str(w->channel)}};
    memset(config.owner.identity.bytes, 1, TF_NODE_ID_LEN);
    memset(config.owner.relay.bytes, w->relay, TF_NODE_ID_LEN);
    w->why[0] = '\0';
    w->spool = NULL;
    return tf_spool_open(&w->spool, &config, w->why);
}

static void world_close(world *w)
{
    tf_spool_close(w->spool);
    w->spool = NULL;
}

static void world_end(world *w)
{
    world_close(w);
    tf_lossy_files_free(w->lossy);
}

/* The message with that number, of some size. */
static tf_spool_message message_of(unsigned number, size_t size)
{
    static char id[32];
    static uint8_t body[TF_BODY_MAX];
    (void)snprintf(id, sizeof(id), "c-%u", number);
    memset(body, (int)(number % 251), size);
    return (tf_spool_message){.client_id = tf_slice_str(id),
                              .meta = tf_slice_of(body, number % 3),
                              .body = tf_slice_of(body, size),
                              .expires_ms = (int64_t)number};
}

static tf_err put(world *w, unsigned number, size_t size, bool at_once)
{
    tf_spool_message message = message_of(number, size);
    return tf_spool_put(w->spool, &message, NOW_MS + (int64_t)number, at_once);
}

static void put_range(world *w, unsigned from, unsigned to, bool at_once)
{
    for (unsigned i = from; i <= to; i++) {
        ck_assert_int_eq(put(w, i, 10 + i % 50, at_once), TF_OK);
    }
}

/* The number in the client id, all else being right. */
static unsigned check_message(const tf_spool_message *message)
{
    unsigned number = 0;
    for (size_t i = 2; i < message->client_id.len; i++) {
        number = number * 10 + (unsigned)(message->client_id.data[i] - '0');
    }
    tf_spool_message expected = message_of(number, message->body.len);
    ck_assert(tf_slice_eq(message->client_id, expected.client_id) && tf_slice_eq(message->meta, expected.meta) &&
              tf_slice_eq(message->body, expected.body));
    ck_assert_int_eq(message->expires_ms, expected.expires_ms);
    return number;
}

/* Takes what there is; the numbers in the client ids, and those that done wants. */
static size_t take_all(world *w, unsigned numbers[MESSAGES], uint64_t handles[MESSAGES])
{
    tf_spool_message message;
    size_t count = 0;
    while (tf_spool_next(w->spool, NOW_MS, &message) == TF_OK) {
        ck_assert_uint_lt(count, MESSAGES);
        numbers[count] = check_message(&message);
        handles[count++] = message.number;
        tf_spool_take(w->spool);
    }
    return count;
}

static void check_holds(world *w, unsigned from, unsigned to)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    size_t count = take_all(w, numbers, handles);
    ck_assert_uint_eq(count, to + 1 - from);
    for (size_t i = 0; i < count; i++) {
        ck_assert_uint_eq(numbers[i], from + i);
    }
}

static tf_spool_stats stats_of(const world *w)
{
    tf_spool_stats stats;
    tf_spool_get_stats(w->spool, &stats);
    return stats;
}

static void reopen(world *w)
{
    world_close(w);
    ck_assert_int_eq(world_open(w), TF_OK);
}

/* -- what it does -------------------------------------------------------------------------------------------------- */

START_TEST(spool_hands_out_what_is_durable_in_order)
{
    world w;
    tf_spool_message message;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS, &message), TF_ERR_CLOSED);
    put_range(&w, 1, 5, true);
    ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS, &message), TF_ERR_CLOSED);
    ck_assert_uint_eq(stats_of(&w).unsynced, 5);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    ck_assert_uint_eq(stats_of(&w).unsynced, 0);
    ck_assert_uint_eq(stats_of(&w).waiting, 5);
    check_holds(&w, 1, 5);
    put_range(&w, 6, 7, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    check_holds(&w, 6, 7);
    world_end(&w);
}
END_TEST

START_TEST(spool_group_of_messages_costs_one_sync)
{
    world w;
    tf_lossy_counts before;
    tf_lossy_counts after;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 2, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK); /* the first one may prepare segments */
    tf_lossy_files_get_counts(w.lossy, &before);
    put_range(&w, 3, 1000, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    check_holds(&w, 1, 1000);
    tf_lossy_files_get_counts(w.lossy, &after);
    ck_assert_uint_eq(after.syncs - before.syncs, 1);
    world_end(&w);
}
END_TEST

START_TEST(spool_gives_the_next_process_what_was_not_answered)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 10, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    ck_assert_uint_eq(take_all(&w, numbers, handles), 10);
    for (size_t i = 0; i < 4; i++) {
        tf_spool_done(w.spool, handles[i]);
    }
    tf_spool_done(w.spool, handles[0]); /* once more, and one that is none: nothing */
    tf_spool_done(w.spool, 1000);
    tf_spool_done(w.spool, handles[7]); /* out of order: kept until those before it are done */
    ck_assert_uint_eq(stats_of(&w).waiting, 5);
    ck_assert_int_eq(tf_spool_note(w.spool, false), TF_OK);
    reopen(&w);
    ck_assert_uint_eq(stats_of(&w).waiting, 6);
    check_holds(&w, 5, 10);
    put_range(&w, 11, 12, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    reopen(&w);
    check_holds(&w, 5, 12);
    world_end(&w);
}
END_TEST

START_TEST(spool_that_is_done_is_empty_for_the_next_process)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned round = 0; round < 3; round++) {
        put_range(&w, 1, 10, true);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
        size_t count = take_all(&w, numbers, handles);
        for (size_t i = 0; i < count; i++) {
            tf_spool_done(w.spool, handles[i]);
        }
        ck_assert_int_eq(tf_spool_note(w.spool, true), TF_OK);
        world_close(&w);
        tf_lossy_files_crash(w.lossy, round); /* it was durable */
        ck_assert_int_eq(world_open(&w), TF_OK);
        ck_assert_uint_eq(stats_of(&w).waiting, 0);
    }
    world_end(&w);
}
END_TEST

/* What a process that went offline left was not sent, which the next one must know (S2). */
START_TEST(spool_knows_what_may_have_been_sent_and_since_when)
{
    world w;
    tf_spool_message message;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 1, false);
    put_range(&w, 2, 2, true); /* it goes as soon as it is durable */
    put_range(&w, 3, 4, false);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    reopen(&w);
    static const int64_t at_first[] = {0, NOW_MS + 2, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS + 100, &message), TF_OK);
        ck_assert_int_eq(message.sent_ms, at_first[i]);
        tf_spool_take(w.spool);
    }
    put_range(&w, 5, 5, false);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    world_close(&w);
    tf_lossy_files_crash(w.lossy, 1); /* it was noted before they were handed out */
    ck_assert_int_eq(world_open(&w), TF_OK);
    static const int64_t then[] = {NOW_MS + 100, NOW_MS + 2, NOW_MS + 100, NOW_MS + 100, 0};
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(tf_spool_next(w.spool, NOW_MS + 200, &message), TF_OK);
        ck_assert_int_eq(message.sent_ms, then[i]);
        tf_spool_take(w.spool);
    }
    world_end(&w);
}
END_TEST

/* -- whose it is --------------------------------------------------------------------------------------------------- */

START_TEST(spool_of_another_channel_relay_or_process_is_refused)
{
    world w;
    tf_files files;
    tf_file *lock = NULL;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    put_range(&w, 1, 3, true);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    world_close(&w);
    w.channel = "other";
    ck_assert_int_eq(world_open(&w), TF_ERR_USAGE);
    ck_assert_str_eq(w.why, "it holds sends for channel 'room', not for 'other'");
    w.channel = "room";
    w.relay = 3;
    ck_assert_int_eq(world_open(&w), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(w.why, "for the relay aiba"));
    ck_assert_ptr_nonnull(strstr(w.why, "not amb"));
    w.relay = 2;
    files = tf_lossy_files_get(w.lossy);
    ck_assert_int_eq(files.table->lock(files.ctx, "lock", &lock), TF_OK);
    ck_assert_int_eq(world_open(&w), TF_ERR_AGAIN);
    ck_assert_str_eq(w.why, "another process has it open");
    tf_files_close(&files, lock);
    ck_assert_int_eq(world_open(&w), TF_OK);
    check_holds(&w, 1, 3);
    world_end(&w);
}
END_TEST

START_TEST(spool_whose_owner_cannot_be_told_is_refused)
{
    static const struct {
        uint64_t offset;
        tf_err err;
    } rows[] = {{0, TF_ERR_DAMAGED}, {20, TF_ERR_DAMAGED}, {505, TF_ERR_DAMAGED}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        world w;
        world_begin(&w);
        ck_assert_int_eq(world_open(&w), TF_OK);
        world_close(&w);
        ck_assert(tf_lossy_files_flip(w.lossy, TF_SPOOL_STATE_FILE, rows[i].offset, 0x40));
        ck_assert_int_eq(world_open(&w), rows[i].err);
        ck_assert_str_eq(w.why, "its file spool is damaged");
        world_end(&w);
    }
}
END_TEST

/* One of the two blocks that take turns is always good. */
START_TEST(spool_with_one_damaged_note_goes_on_with_the_other)
{
    for (uint64_t block = 1; block <= 2; block++) {
        static unsigned numbers[MESSAGES];
        static uint64_t handles[MESSAGES];
        world w;
        world_begin(&w);
        ck_assert_int_eq(world_open(&w), TF_OK);
        put_range(&w, 1, 9, true);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
        size_t count = take_all(&w, numbers, handles);
        for (size_t i = 0; i < 4; i++) {
            tf_spool_done(w.spool, handles[i]);
            ck_assert_int_eq(tf_spool_note(w.spool, true), TF_OK);
        }
        world_close(&w);
        ck_assert(tf_lossy_files_flip(w.lossy, TF_SPOOL_STATE_FILE, block * 4096 + 9, 1));
        ck_assert_int_eq(world_open(&w), TF_OK);
        size_t left = take_all(&w, numbers, handles);
        ck_assert(left == count - 4 || left == count - 3);
        ck_assert_uint_eq(numbers[left - 1], 9);
        world_end(&w);
    }
}
END_TEST

/* -- what fails ---------------------------------------------------------------------------------------------------- */

START_TEST(spool_that_is_full_goes_on_when_something_is_answered)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    tf_err err = TF_OK;
    unsigned next = 1;
    unsigned done = 0;
    world_begin(&w);
    w.bytes_max = TF_SPOOL_BYTES_MIN;
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned round = 0; round < 5; round++) {
        for (err = TF_OK; err == TF_OK && next < MESSAGES; next++) {
            ck_assert_int_eq(put(&w, next, 50000, true), TF_OK);
            err = tf_spool_sync(w.spool);
        }
        ck_assert_int_eq(err, TF_ERR_AGAIN);
        ck_assert_uint_eq(stats_of(&w).unsynced, 1); /* it stays put */
        ck_assert_uint_le(stats_of(&w).bytes, TF_SPOOL_BYTES_MIN);
        size_t count = take_all(&w, numbers, handles);
        ck_assert_uint_gt(count, round == 0 ? 30 : 0);
        for (size_t i = 0; i < count; i++) {
            ck_assert_uint_eq(numbers[i], ++done);
            tf_spool_done(w.spool, handles[i]);
        }
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    }
    world_end(&w);
}
END_TEST

START_TEST(spool_takes_the_largest_message_within_the_least_bound)
{
    world w;
    world_begin(&w);
    w.bytes_max = TF_SPOOL_BYTES_MIN;
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned i = 1; i <= 2; i++) {
        ck_assert_int_eq(put(&w, i, TF_BODY_MAX, true), TF_OK);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    }
    reopen(&w);
    check_holds(&w, 1, 2);
    world_end(&w);
}
END_TEST

START_TEST(spool_on_a_full_disk_keeps_what_it_has_and_goes_on_when_there_is_room)
{
    world w;
    tf_lossy_counts counts;
    unsigned next = 1;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    tf_lossy_files_get_counts(w.lossy, &counts);
    tf_lossy_files_set_capacity(w.lossy, counts.bytes + 100000);
    tf_err err = TF_OK;
    while (err == TF_OK && next < 1000) {
        ck_assert_int_eq(put(&w, next++, 20000, true), TF_OK);
        err = tf_spool_sync(w.spool);
    }
    ck_assert_int_eq(err, TF_ERR_FULL);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_ERR_FULL);
    tf_lossy_files_set_capacity(w.lossy, UINT64_MAX);
    ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    check_holds(&w, 1, next - 1);
    reopen(&w);
    check_holds(&w, 1, next - 1);
    world_end(&w);
}
END_TEST

START_TEST(spool_damaged_message_is_counted_and_the_others_are_there)
{
    static unsigned numbers[MESSAGES];
    static uint64_t handles[MESSAGES];
    world w;
    world_begin(&w);
    ck_assert_int_eq(world_open(&w), TF_OK);
    for (unsigned i = 1; i <= 5; i++) { /* each in a group of its own */
        ck_assert_int_eq(put(&w, i, 2000, true), TF_OK);
        ck_assert_int_eq(tf_spool_sync(w.spool), TF_OK);
    }
    world_close(&w);
    ck_assert(tf_lossy_files_flip(w.lossy, "log/0000000000000001.log", 4096 + 2560 * 2 + 1000, 0x10));
    ck_assert_int_eq(world_open(&w), TF_OK);
    ck_assert_uint_eq(stats_of(&w).damaged, 1);
    ck_assert_uint_eq(take_all(&w, numbers, handles), 4);
    for (size_t i = 0; i < 4; i++) {
        static const unsigned rest[] = {1, 2, 4, 5};
        ck_assert_uint_eq(numbers[i], rest[i]);
        tf_spool_done(w.spool, handles[i]);
    }
    ck_assert_int_eq(tf_spool_note(w.spool, true), TF_OK);
    reopen(&w);
    ck_assert_uint_eq(stats_of(&w).damaged, 0); /* told once */
    ck_assert_uint_eq(stats_of(&w).waiting, 0);
    world_end(&w);
}
END_TEST

/* -- crashes ------------------------------------------------------------------------------------------------------- */

/* What a short history has promised before it was cut off. */
typedef struct promise {
    unsigned put;     /* messages 1 to put were put, */
    unsigned durable; /* synced */
    unsigned taken;   /* and handed out, that is sent */
    unsigned done;    /* and answered */
    unsigned noted;   /* which is noted for good */
    bool opened;
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
    p->opened = true;
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
        spool_hands_out_what_is_durable_in_order,
        spool_group_of_messages_costs_one_sync,
        spool_gives_the_next_process_what_was_not_answered,
        spool_that_is_done_is_empty_for_the_next_process,
        spool_knows_what_may_have_been_sent_and_since_when,
        spool_of_another_channel_relay_or_process_is_refused,
        spool_whose_owner_cannot_be_told_is_refused,
        spool_with_one_damaged_note_goes_on_with_the_other,
        spool_that_is_full_goes_on_when_something_is_answered,
        spool_takes_the_largest_message_within_the_least_bound,
        spool_on_a_full_disk_keeps_what_it_has_and_goes_on_when_there_is_room,
        spool_damaged_message_is_counted_and_the_others_are_there,
        spool_power_cut_at_every_operation_keeps_its_promises,
        spool_error_at_every_operation_keeps_its_promises,
        spool_without_memory_says_so_and_leaks_nothing,
        NULL,
    };
    return tf_test_run("node/spool", tests);
}
