/* paths/link_ring by itself, against a list of flags. */
#include "paths/link_ring.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define RING_MAX 200u

typedef struct ring_model {
    bool acked[1u << 16];
    uint64_t first;
    uint64_t floor;
    uint64_t next;
} ring_model;

static ring_model ring_is;

static void check_ring(const tf_link_ring *ring)
{
    size_t bytes = 0;
    size_t queued = 0;
    ck_assert_uint_eq(ring->floor, ring_is.floor);
    ck_assert_uint_eq(ring->next, ring_is.next);
    for (uint64_t seq = ring->floor; seq < ring->next; seq++) {
        ck_assert_int_eq(tf_link_ring_is_acked(ring, seq), ring_is.acked[seq - ring_is.first]);
        bytes += tf_link_ring_at(ring, seq)->len;
        queued += tf_link_ring_at(ring, seq)->copy == TF_LINK_COPY_QUEUED ? 1 : 0;
    }
    ck_assert_uint_eq(ring->bytes, bytes);
    ck_assert_uint_eq(ring->queued, queued);
}

static void push_one(tf_link_ring *ring)
{
    uint8_t byte = (uint8_t)ring->next;
    if (!tf_link_ring_fits(ring, 1, 1)) {
        ck_assert_uint_eq(ring->next - ring->floor, RING_MAX);
        return;
    }
    ck_assert_int_eq(tf_link_ring_reserve(ring, 1), TF_OK);
    ck_assert_int_eq(tf_link_ring_push(ring, 0, 3, tf_slice_of(&byte, 1)), TF_OK);
    ring_is.acked[ring_is.next++ - ring_is.first] = false;
}

static void ack_some(tf_link_ring *ring, tf_test_random *random)
{
    uint64_t first = ring->floor + tf_test_random_below(random, ring->next - ring->floor);
    uint64_t last = first + tf_test_random_below(random, ring->next - first);
    (void)tf_link_ring_ack_range(ring, (tf_range){first, last});
    for (uint64_t seq = first; seq <= last; seq++) {
        ring_is.acked[seq - ring_is.first] = true;
    }
}

static void queue_one(tf_link_ring *ring, tf_test_random *random)
{
    uint64_t seq = ring->floor + tf_test_random_below(random, ring->next - ring->floor);
    if (!tf_link_ring_is_acked(ring, seq)) {
        ck_assert_uint_eq(tf_link_ring_segment(ring, seq).data.data[0], (uint8_t)seq);
        tf_link_ring_queue(ring, seq, 1);
    }
}

static void step_ring(tf_link_ring *ring, tf_test_random *random)
{
    uint64_t what = tf_test_random_below(random, 5);
    uint64_t used = ring->next - ring->floor;
    if (what < 2 || used == 0) {
        push_one(ring);
    } else if (what == 2) {
        ack_some(ring, random);
    } else if (what == 3) {
        ring_is.floor += tf_test_random_below(random, used + 1) / 4;
        (void)tf_link_ring_ack_below(ring, ring_is.floor);
    } else {
        queue_one(ring, random);
    }
}

static void begin(tf_link_ring *ring, tf_link_pool *pool, uint64_t first, size_t max_segments, size_t max_bytes)
{
    tf_link_pool_init(pool, tf_test_mem());
    tf_link_ring_init(ring, tf_test_mem(), pool, first);
    ring->max_segments = max_segments;
    ring->max_bytes = max_bytes;
}

static void end(tf_link_ring *ring, tf_link_pool *pool)
{
    tf_link_ring_free(ring);
    tf_link_pool_trim(pool);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

START_TEST(ring_is_like_a_list_of_flags)
{
    static const uint64_t firsts[] = {0, 7, UINT64_C(1) << 32, UINT64_MAX - 60000};
    tf_link_pool pool;
    tf_link_ring ring;
    begin(&ring, &pool, firsts[_i], RING_MAX, 1000);
    ring_is = (ring_model){.first = firsts[_i], .floor = firsts[_i], .next = firsts[_i]};
    tf_test_random random;
    tf_test_random_init(&random, (uint64_t)_i);
    for (unsigned i = 0; i < 20000; i++) {
        step_ring(&ring, &random);
        if (i % 100 == 0) {
            check_ring(&ring);
        }
    }
    uint64_t last = 0;
    uint64_t seq = 0;
    size_t count = 0;
    for (uint64_t from = 0; tf_link_ring_next_queued(&ring, from, &seq); from = seq + 1) {
        ck_assert(count == 0 || seq > last);
        last = seq;
        count++;
    }
    ck_assert_uint_eq(count, ring.queued);
    end(&ring, &pool);
}
END_TEST

START_TEST(ring_queued_goes_as_often_as_asked)
{
    tf_link_pool pool;
    tf_link_ring ring;
    begin(&ring, &pool, 0, 4, 4);
    ck_assert_int_eq(tf_link_ring_reserve(&ring, 2), TF_OK);
    ck_assert_int_eq(tf_link_ring_push(&ring, 0, 3, tf_slice_str("a")), TF_OK);
    ck_assert_int_eq(tf_link_ring_push(&ring, 0, 3, tf_slice_str("b")), TF_OK);
    uint64_t seq = 99;
    ck_assert(!tf_link_ring_next_queued(&ring, 0, &seq));
    tf_link_ring_queue(&ring, 1, 2);
    tf_link_ring_queue(&ring, 0, 1);
    ck_assert(tf_link_ring_next_queued(&ring, 0, &seq));
    ck_assert_uint_eq(seq, 0);
    tf_link_ring_queued_sent(&ring, 0);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert(tf_link_ring_next_queued(&ring, 0, &seq));
        ck_assert_uint_eq(seq, 1);
        tf_link_ring_queued_sent(&ring, 1);
    }
    ck_assert(!tf_link_ring_next_queued(&ring, 0, &seq));
    end(&ring, &pool);
}
END_TEST

/* For what was acked before, the answer is no. */
START_TEST(ring_ack_says_whether_it_was_news)
{
    tf_link_pool pool;
    tf_link_ring ring;
    begin(&ring, &pool, 5, 8, 8);
    ck_assert_int_eq(tf_link_ring_reserve(&ring, 4), TF_OK);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(tf_link_ring_push(&ring, 0, 3, tf_slice_str("a")), TF_OK);
    }
    ck_assert(!tf_link_ring_ack_below(&ring, 5));
    ck_assert(tf_link_ring_ack_range(&ring, (tf_range){5, 6}));
    ck_assert(!tf_link_ring_ack_range(&ring, (tf_range){5, 6}));
    ck_assert(tf_link_ring_ack_range(&ring, (tf_range){6, 7}));
    ck_assert(!tf_link_ring_ack_below(&ring, 7)); /* it moves, and nothing is news */
    ck_assert_uint_eq(ring.floor, 7);
    ck_assert_uint_eq(ring.bytes, 2);
    ck_assert(tf_link_ring_ack_below(&ring, 9));
    ck_assert(!tf_link_ring_ack_below(&ring, 9));
    end(&ring, &pool);
}
END_TEST

START_TEST(ring_that_gave_its_memory_back_goes_on)
{
    tf_link_pool pool;
    tf_link_ring ring;
    begin(&ring, &pool, 0, 8, 8);
    for (uint64_t i = 0; i < 3; i++) {
        ck_assert_int_eq(tf_link_ring_reserve(&ring, 1), TF_OK);
        ck_assert_int_eq(tf_link_ring_push(&ring, 0, 3, tf_slice_str("a")), TF_OK);
        tf_link_ring_trim(&ring); /* not while there is something in it */
        ck_assert_uint_eq(tf_link_ring_segment(&ring, i).data.len, 1);
        ck_assert(tf_link_ring_ack_below(&ring, i + 1));
        tf_link_ring_trim(&ring);
        tf_link_pool_trim(&pool);
        ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
    }
    end(&ring, &pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link_ring");
    TCase *tcase = tcase_create("paths/link_ring");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, ring_is_like_a_list_of_flags, 0, 4);
    tcase_add_test(tcase, ring_queued_goes_as_often_as_asked);
    tcase_add_test(tcase, ring_ack_says_whether_it_was_news);
    tcase_add_test(tcase, ring_that_gave_its_memory_back_goes_on);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
