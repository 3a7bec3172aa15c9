/* Small parts of paths/link by themselves: buffers, packet numbers, records of packets. */
#include "paths/link_numbers.h"
#include "paths/link_pool.h"
#include "paths/link_sent.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

/* --- pool --- */

START_TEST(pool_buffer_given_back_is_used_again)
{
    tf_link_pool pool;
    tf_link_pool_init(&pool, tf_test_mem());
    static const size_t lens[] = {0, 1, 128, 129, 384, 385, TF_SEGMENT_DATA_MAX};
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        uint8_t *a = tf_link_pool_take(&pool, lens[i]);
        memset(a, 0xaa, lens[i]);
        tf_link_pool_give(&pool, a, lens[i]);
        uint64_t calls = tf_test_heap_shared()->calls;
        uint8_t *b = tf_link_pool_take(&pool, lens[i]);
        ck_assert_ptr_eq(a, b);
        ck_assert_uint_eq(tf_test_heap_shared()->calls, calls);
        tf_link_pool_give(&pool, b, lens[i]);
    }
    tf_link_pool_trim(&pool);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}
END_TEST

/* --- packet numbers --- */

/* Exactly what was seen, from the top down to where the oldest ranges were forgotten. */
static bool is_set_of(const tf_link_numbers *numbers, const bool *seen)
{
    bool good = true;
    uint64_t above = numbers->ranges[0].last + 1;
    for (size_t k = 0; k < numbers->count; k++) {
        const tf_range *range = &numbers->ranges[k];
        for (uint64_t n = range->last + 1; k > 0 && n < above; n++) {
            good = good && !seen[n];
        }
        for (uint64_t n = range->first; n <= range->last; n++) {
            good = good && seen[n];
        }
        good = good && (k == 0 || range->last + 1 < above);
        above = range->first;
    }
    return good;
}

START_TEST(numbers_are_a_set_of_the_latest)
{
    static bool seen[4096];
    memset(seen, 0, sizeof(seen));
    tf_test_random random;
    tf_test_random_init(&random, (uint64_t)_i);
    tf_link_numbers numbers = {0};
    uint64_t largest = 0;
    for (unsigned i = 0; i < 3000 && largest + 4 < sizeof(seen); i++) {
        uint64_t number = largest + tf_test_random_below(&random, 4);
        uint64_t back = tf_test_random_below(&random, 3) == 0 ? tf_test_random_below(&random, 50) : 0;
        number = number > back ? number - back : 0;
        bool in_order = numbers.count == 0 || number == largest + 1;
        ck_assert_int_eq(tf_link_numbers_add(&numbers, i, number), !in_order);
        seen[number] = true;
        largest = number > largest ? number : largest;
        ck_assert_uint_le(numbers.count, TF_ACK_RANGES_MAX);
        ck_assert_uint_eq(numbers.ranges[0].last, largest);
        ck_assert(is_set_of(&numbers, seen));
    }
}
END_TEST

START_TEST(numbers_told_often_enough_are_left_out)
{
    tf_link_numbers numbers = {0};
    (void)tf_link_numbers_add(&numbers, 0, 0);
    (void)tf_link_numbers_add(&numbers, 5, 2);
    tf_packet_ack ack;
    unsigned told = 0;
    for (unsigned i = 0; i < 100; i++) {
        tf_link_numbers_fill(&numbers, 5 + i, &ack);
        ck_assert_uint_eq(ack.delay, i);
        ck_assert_uint_eq(ack.ranges[0].last, 2);
        told += ack.range_count == 2 ? 1 : 0;
    }
    ck_assert_uint_ge(told, 4);
    ck_assert_uint_le(told, 16);
    ck_assert(tf_link_numbers_add(&numbers, 200, 0)); /* a repeat of what is forgotten does no harm */
    tf_link_numbers_fill(&numbers, 200, &ack);
    ck_assert_uint_eq(ack.range_count, 2);
}
END_TEST

/* --- records of packets --- */

START_TEST(sent_records_move_and_are_bounded)
{
    tf_link_sent sent;
    tf_link_sent_init(&sent, tf_test_mem());
    for (unsigned i = 0; i < TF_LINK_SENT_MAX; i++) {
        ck_assert(tf_link_sent_reserve(&sent));
        tf_link_sent_packet *packet = tf_link_sent_push(&sent);
        packet->open = true;
        packet->eliciting = true;
        packet->at = i;
        ck_assert(tf_link_sent_add(packet, i));
    }
    ck_assert(!tf_link_sent_reserve(&sent));
    tf_link_sent_at(&sent, 1)->open = false;
    tf_link_sent_settle(&sent);
    ck_assert_uint_eq(sent.oldest, 0);
    tf_link_sent_at(&sent, 0)->open = false;
    tf_link_sent_settle(&sent);
    ck_assert_uint_eq(sent.oldest, 2);
    ck_assert(tf_link_sent_reserve(&sent));
    ck_assert_uint_eq(tf_link_sent_at(&sent, 4095)->at, 4095);
    const tf_link_sent_packet *again = tf_link_sent_push(&sent); /* in the place of one that was used */
    ck_assert(!again->open && !again->eliciting && again->runs_used == 0);
    tf_link_sent_trim(&sent);
    ck_assert_uint_gt(sent.capacity, 0);
    for (uint64_t number = sent.oldest; number < sent.next; number++) {
        tf_link_sent_at(&sent, number)->open = false;
    }
    tf_link_sent_trim(&sent); /* gives all memory back, and goes on */
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
    ck_assert(tf_link_sent_reserve(&sent));
    (void)tf_link_sent_push(&sent);
    tf_link_sent_free(&sent);
}
END_TEST

START_TEST(sent_packet_holds_runs_of_segments)
{
    tf_link_sent_packet packet = {0};
    for (uint64_t seq = 5; seq < 9; seq++) {
        ck_assert(tf_link_sent_add(&packet, seq));
    }
    ck_assert_uint_eq(packet.runs_used, 1);
    ck_assert_uint_eq(packet.runs[0].count, 4);
    for (uint64_t i = 1; i < TF_LINK_SENT_RUNS; i++) {
        ck_assert(tf_link_sent_add(&packet, 10 * i + 5));
    }
    ck_assert(!tf_link_sent_add(&packet, 1000));
    ck_assert(tf_link_sent_add(&packet, 10 * (TF_LINK_SENT_RUNS - 1) + 6));
}
END_TEST

START_TEST(numbers_delay_is_that_of_the_largest)
{
    tf_link_numbers numbers = {0};
    tf_packet_ack ack;
    for (uint64_t number = 0; number < 20; number += 4) {
        const tf_time came = 100 + number;
        ck_assert_int_eq(tf_link_numbers_add(&numbers, came, number), number > 0);
        tf_link_numbers_fill(&numbers, came + 1, &ack);
        ck_assert_uint_eq(ack.delay, 1);
        (void)tf_link_numbers_add(&numbers, came + 2, number); /* a repeat, and one that is late */
        (void)tf_link_numbers_add(&numbers, came + 2, number > 0 ? number - 2 : 0);
        tf_link_numbers_fill(&numbers, came + 3, &ack);
        ck_assert_uint_eq(ack.delay, 3);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link parts");
    TCase *tcase = tcase_create("paths/link parts");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, pool_buffer_given_back_is_used_again);
    tcase_add_loop_test(tcase, numbers_are_a_set_of_the_latest, 0, 8);
    tcase_add_test(tcase, numbers_told_often_enough_are_left_out);
    tcase_add_test(tcase, sent_records_move_and_are_bounded);
    tcase_add_test(tcase, sent_packet_holds_runs_of_segments);
    tcase_add_test(tcase, numbers_delay_is_that_of_the_largest);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
