/* proto/session_queue: encoded messages in order against a naive model, who pays for their room, and its memory. */
#include "proto/session_internal.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static tf_session_queue queue;
static tf_test_heap heap;

static void begin(void)
{
    tf_test_heap_init(&heap);
    tf_session_queue_init(&queue, &heap.mem, 7);
}

static void end(void)
{
    tf_session_queue_clear(&queue, &heap.mem);
    ck_assert_uint_eq(heap.live_bytes, 0);
}

static void push(size_t len, uint32_t share, uint8_t fill)
{
    ck_assert_int_eq(tf_session_queue_reserve(&queue, &heap.mem, len, share), TF_OK);
    memset(tf_session_queue_room(&queue), fill, len);
    tf_session_queue_push(&queue, len, share);
}

static void pop(size_t len, uint8_t fill)
{
    tf_slice message;
    ck_assert(tf_session_queue_peek(&queue, &message));
    ck_assert_uint_eq(message.len, len);
    for (size_t i = 0; i < len; i += len - 1) {
        ck_assert_uint_eq(message.data[i], fill);
    }
    tf_session_queue_pop(&queue, &heap.mem);
}

/* Of lengths and shares that the number of a message decides. */
static size_t len_of(unsigned number)
{
    return 2 + (number * 2654435761u >> 8) % 300;
}

static uint32_t share_of(unsigned number)
{
    return (number * 2246822519u >> 16) % 4;
}

/* What shares of 1 to 3 pay for, and 0 by itself, counted anew from the messages first ... last - 1. */
static void assert_counts(unsigned first, unsigned last)
{
    uint64_t items[4] = {0};
    uint64_t bytes[4] = {0};
    for (unsigned number = first; number < last; number++) {
        items[share_of(number)]++;
        bytes[share_of(number)] += len_of(number);
    }
    size_t paying = 0;
    ck_assert_uint_eq(queue.items, last - first);
    ck_assert_uint_eq(queue.own_items, items[0]);
    ck_assert_uint_eq(queue.own_bytes, bytes[0]);
    for (uint32_t share = 1; share < 4; share++) {
        uint64_t used = 0;
        ck_assert_int_eq(tf_map_get(&queue.shares, share, &used), items[share] > 0);
        ck_assert_uint_eq(used, items[share] << 40 | bytes[share]);
        paying += items[share] > 0 ? 1 : 0;
    }
    ck_assert_uint_eq(queue.shares.count, paying);
}

/* Fills and empties in waves, so that the messages move within the memory and into more of it. */
START_TEST(session_queue_random_waves_agree_with_the_model)
{
    begin();
    tf_test_random random;
    tf_test_random_init(&random, 3);
    unsigned first = 0;
    unsigned last = 0;
    for (size_t step = 0; step < 20000; step++) {
        bool growing = step / 500 % 2 == 0;
        if (first == last || tf_test_random_chance(&random, growing ? 3 : 1, 4)) {
            push(len_of(last), share_of(last), (uint8_t)last);
            last++;
        } else {
            pop(len_of(first), (uint8_t)first);
            first++;
        }
        if (step % 100 == 0) {
            assert_counts(first, last);
        }
    }
    for (; first < last; first++) {
        pop(len_of(first), (uint8_t)first);
    }
    assert_counts(first, last);
    ck_assert(!tf_session_queue_peek(&queue, &(tf_slice){0}));
    end();
}
END_TEST

/* A queue that is never empty but never long takes the room that was taken from it again. */
START_TEST(session_queue_that_stays_short_stays_small)
{
    begin();
    push(100, 0, 0);
    for (unsigned i = 1; i <= 2000; i++) {
        push(100, 0, (uint8_t)i);
        pop(100, (uint8_t)(i - 1));
    }
    ck_assert_uint_eq(heap.peak_bytes, 4096);
    ck_assert_uint_eq(heap.calls, 1);
    end();
}
END_TEST

/* Share 0 is the session's own; every other pays by itself. */
START_TEST(session_queue_room_ends_with_items_or_bytes)
{
    static const struct {
        uint32_t share;
        size_t len;
        size_t count; /* that go in */
    } rows[] = {
        {0, 2, TF_OUT_QUEUE_ITEMS},
        {5, 2, TF_SHARE_ITEMS},
        {0, 1u << 20, TF_OUT_QUEUE_BYTES >> 20},
        {0, (1u << 20) - 1, (TF_OUT_QUEUE_BYTES >> 20) + 1},
        {5, 1u << 16, TF_SHARE_BYTES >> 16},
        {5, (1u << 16) - 1, (TF_SHARE_BYTES >> 16) + 1},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        for (size_t k = 0; k < rows[i].count; k++) {
            ck_assert_msg(tf_session_queue_has_room(&queue, rows[i].share), "row %zu: %zu", i, k);
            push(rows[i].len, rows[i].share, 1);
        }
        ck_assert(!tf_session_queue_has_room(&queue, rows[i].share));
        ck_assert(tf_session_queue_has_room(&queue, 5 - rows[i].share));
        ck_assert(tf_session_queue_has_room(&queue, 77));
        pop(rows[i].len, 1);
        ck_assert(tf_session_queue_has_room(&queue, rows[i].share));
        end();
    }
}
END_TEST

/* Many that send to one who takes nothing: from so many bytes of all on, each may have less. */
START_TEST(session_queue_that_is_crowded_gives_each_less)
{
    begin();
    push(TF_SHARE_BYTES_LEAST - 1, 1, 1);
    push(TF_SHARE_BYTES_LEAST, 2, 1);
    push(1u << 20, 0, 1); /* the session's own do not count */
    size_t left = TF_SHARES_BYTES - (queue.tail - queue.head - queue.own_bytes);
    for (uint32_t share = 3; left > TF_SHARE_BYTES; share++) {
        push(TF_SHARE_BYTES - sizeof(uint64_t), share, 1);
        left -= TF_SHARE_BYTES;
    }
    push(left - 1 - sizeof(uint64_t), 100, 1);
    ck_assert(tf_session_queue_has_room(&queue, 2));
    push(2, 101, 1);
    ck_assert(!tf_session_queue_has_room(&queue, 2));
    ck_assert(tf_session_queue_has_room(&queue, 1));
    ck_assert(tf_session_queue_has_room(&queue, 102));
    ck_assert(tf_session_queue_has_room(&queue, 0));
    end();
}
END_TEST

/* A large one at once, a small one when the session is idle. */
START_TEST(session_queue_that_is_empty_gives_its_memory_back)
{
    begin();
    push(2, 3, 1);
    tf_session_queue_trim(&queue, &heap.mem); /* not empty: nothing happens */
    pop(2, 1);
    ck_assert_uint_gt(heap.live_bytes, 0);
    tf_session_queue_trim(&queue, &heap.mem);
    ck_assert_uint_eq(heap.live_bytes, 0);
    push((1u << 20) - 8, 0, 1); /* the largest that stays */
    pop((1u << 20) - 8, 1);
    ck_assert_uint_eq(heap.live_bytes, 1u << 20);
    push(1u << 20, 0, 1);
    pop(1u << 20, 1);
    ck_assert_uint_eq(heap.live_bytes, 0);
    push(2, 0, 9);
    pop(2, 9);
    end();
}
END_TEST

START_TEST(session_queue_without_memory_changes_nothing)
{
    begin();
    push(2000, 4, 1);
    tf_test_heap_fail_at(&heap, 0, true);
    ck_assert_int_eq(tf_session_queue_reserve(&queue, &heap.mem, 4000, 0), TF_ERR_NOMEM);
    ck_assert_uint_eq(queue.items, 1);
    tf_test_heap_fail_never(&heap);
    push(4000, 0, 2);
    pop(2000, 1);
    pop(4000, 2);
    tf_session_queue_trim(&queue, &heap.mem);
    tf_test_heap_fail_at(&heap, 0, true);
    ck_assert_int_eq(tf_session_queue_reserve(&queue, &heap.mem, 2, 4), TF_ERR_NOMEM);
    tf_test_heap_fail_never(&heap);
    end();
}
END_TEST

/* tf_scratch: grows without loss, and goes when it is larger than it may be. */
START_TEST(session_scratch_grows_and_is_given_back)
{
    begin();
    tf_scratch scratch = {.size = sizeof(uint32_t)};
    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(tf_scratch_reserve(&scratch, &heap.mem, scratch.count + 1), TF_OK);
        ((uint32_t *)scratch.items)[scratch.count++] = i;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        ck_assert_uint_eq(((uint32_t *)scratch.items)[i], i);
    }
    ck_assert_uint_le(heap.calls, 20);
    ck_assert_int_eq(tf_scratch_reserve(&scratch, &heap.mem, SIZE_MAX / 4), TF_ERR_NOMEM);
    ck_assert_int_eq(tf_scratch_reserve(&scratch, &heap.mem, SIZE_MAX / 2 + 1), TF_ERR_NOMEM);
    size_t bytes = heap.live_bytes;
    tf_scratch_trim(&scratch, &heap.mem, bytes);
    ck_assert_uint_eq(scratch.count, 0);
    ck_assert_uint_eq(heap.live_bytes, bytes);
    tf_scratch_trim(&scratch, &heap.mem, bytes - 1);
    ck_assert_uint_eq(heap.live_bytes, 0);
    ck_assert_int_eq(tf_scratch_reserve(&scratch, &heap.mem, 1), TF_OK);
    tf_scratch_trim(&scratch, &heap.mem, 0);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        session_queue_random_waves_agree_with_the_model,
        session_queue_that_stays_short_stays_small,
        session_queue_room_ends_with_items_or_bytes,
        session_queue_that_is_crowded_gives_each_less,
        session_queue_that_is_empty_gives_its_memory_back,
        session_queue_without_memory_changes_nothing,
        session_scratch_grows_and_is_given_back,
        NULL,
    };
    return tf_test_run("proto/session_queue", tests);
}
