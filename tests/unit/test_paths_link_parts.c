/* The parts of paths/link by themselves: the ring, the merge point, packet numbers, records of packets, round trips and
 * the congestion window; against naive models where these are short. */
#include "paths/link_congestion.h"
#include "paths/link_numbers.h"
#include "paths/link_recv.h"
#include "paths/link_ring.h"
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

/* --- ring --- */

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

START_TEST(ring_is_like_a_list_of_flags)
{
    static const uint64_t firsts[] = {0, 7, UINT64_C(1) << 32, UINT64_MAX - 60000};
    tf_link_pool pool;
    tf_link_pool_init(&pool, tf_test_mem());
    tf_link_ring ring;
    tf_link_ring_init(&ring, tf_test_mem(), &pool, firsts[_i]);
    ring.max_segments = RING_MAX;
    ring.max_bytes = 1000;
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
    tf_link_ring_free(&ring);
    tf_link_pool_trim(&pool);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}
END_TEST

START_TEST(ring_queued_goes_as_often_as_asked)
{
    tf_link_pool pool;
    tf_link_pool_init(&pool, tf_test_mem());
    tf_link_ring ring;
    tf_link_ring_init(&ring, tf_test_mem(), &pool, 0);
    ring.max_segments = 4;
    ring.max_bytes = 4;
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
    tf_link_ring_free(&ring);
    tf_link_pool_trim(&pool);
}
END_TEST

/* --- merge point --- */

#define MERGE_MESSAGES 400u
#define MERGE_WINDOW 40u

typedef struct merge {
    tf_link_pool pool;
    tf_link_recv recv;
    uint8_t bytes[MERGE_MESSAGES * 4];
    tf_segment segments[MERGE_MESSAGES * 4];
    size_t segment_count;
    size_t ends[MERGE_MESSAGES]; /* of each message in bytes */
    size_t messages;
    size_t got;
} merge;

static merge m;

/* Messages of 1 to 3 segments of 0 to 2 bytes (0 only for one alone). */
static void make_messages(tf_test_random *random)
{
    size_t at = 0;
    for (m.messages = 0; m.messages < MERGE_MESSAGES; m.messages++) {
        size_t parts = 1 + (size_t)tf_test_random_below(random, 3);
        for (size_t k = 0; k < parts; k++) {
            size_t len = parts == 1 ? (size_t)tf_test_random_below(random, 3) : 1;
            uint8_t flags = (uint8_t)((k == 0 ? TF_SEGMENT_FIRST : 0u) | (k + 1 == parts ? TF_SEGMENT_LAST : 0u));
            m.segments[m.segment_count] =
                (tf_segment){.seq = m.segment_count, .flags = flags, .data = tf_slice_of(m.bytes + at, len)};
            m.segment_count++;
            at += len;
        }
        m.ends[m.messages] = at;
    }
    for (size_t i = 0; i < at; i++) {
        m.bytes[i] = (uint8_t)tf_test_random_u64(random);
    }
}

static void take_messages(void)
{
    tf_slice message;
    tf_route via;
    while (tf_link_recv_next(&m.recv, &message, &via)) {
        size_t start = m.got == 0 ? 0 : m.ends[m.got - 1];
        ck_assert(tf_slice_eq(message, tf_slice_of(m.bytes + start, m.ends[m.got] - start)));
        m.got++;
    }
}

static void give_segment(const tf_segment *segment, tf_route route)
{
    tf_link_judgement j = tf_link_recv_judge_begin(&m.recv);
    tf_link_judged judged;
    const tf_link_arrival arrival = {.route = route, .generation = 0, .other_up = true};
    ck_assert_int_eq(tf_link_recv_judge(&m.recv, &j, segment, &judged), TF_OK);
    ck_assert_int_eq(tf_link_recv_accept(&m.recv, &arrival, segment, &judged), TF_OK);
    ck_assert_int_eq(tf_link_recv_judge_commit(&m.recv, &j), TF_OK);
}

static uint64_t check_ack(void)
{
    tf_link_ack ack;
    tf_link_recv_fill_ack(&m.recv, &ack);
    uint64_t held = 0;
    uint64_t missing = ack.floor;
    for (size_t i = 0; i < ack.range_count; i++) {
        ck_assert_uint_gt(ack.ranges[i].first, missing);
        missing = ack.ranges[i].last + 1;
        held += missing - ack.ranges[i].first;
    }
    ck_assert_uint_eq(held, m.recv.held_segments);
    return ack.floor;
}

START_TEST(recv_any_order_within_the_window_gives_all_once)
{
    memset(&m, 0, sizeof(m));
    tf_test_random random;
    tf_test_random_init(&random, (uint64_t)_i);
    make_messages(&random);
    tf_link_pool_init(&m.pool, tf_test_mem());
    const tf_link_recv_config config = {
        .rand = &random.rand, .max_segments = MERGE_WINDOW, .max_bytes = 1000, .max_message = 100};
    ck_assert_int_eq(tf_link_recv_init(&m.recv, &config, tf_test_mem(), &m.pool), TF_OK);
    for (uint64_t floor = 0; floor < m.segment_count; floor = check_ack()) {
        uint64_t seq = floor + tf_test_random_below(&random, MERGE_WINDOW);
        uint64_t back = tf_test_random_below(&random, 5) == 0 ? tf_test_random_below(&random, 100) : 0;
        seq = seq >= back ? seq - back : 0;
        if (seq < m.segment_count) {
            give_segment(&m.segments[seq], (tf_route)tf_test_random_below(&random, 2));
            take_messages();
        }
    }
    ck_assert_uint_eq(m.got, MERGE_MESSAGES);
    ck_assert_uint_eq(m.recv.routes[0].total_first + m.recv.routes[1].total_first, m.segment_count);
    tf_link_recv_trim(&m.recv);
    tf_link_recv_free(&m.recv);
    tf_link_pool_trim(&m.pool);
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
        packet->at = i;
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
    tf_link_sent_trim(&sent);
    ck_assert_uint_gt(sent.capacity, 0);
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

/* --- round trips and the window --- */

START_TEST(rtt_follows_rfc_9002)
{
    tf_link_rtt rtt;
    tf_link_rtt_init(&rtt);
    ck_assert(!rtt.measured);
    ck_assert_uint_eq(tf_link_rtt_pto(&rtt), TF_RTT_INITIAL + 2 * TF_RTT_INITIAL + TF_LINK_ACK_DELAY);
    tf_link_rtt_add(&rtt, 40 * TF_MS, 0);
    ck_assert_uint_eq(rtt.smoothed, 40 * TF_MS);
    ck_assert_uint_eq(rtt.variation, 20 * TF_MS);
    tf_link_rtt_add(&rtt, 60 * TF_MS, 12 * TF_MS); /* 48 */
    ck_assert_uint_eq(rtt.smoothed, 41 * TF_MS);
    ck_assert_uint_eq(rtt.variation, 17 * TF_MS);
    tf_link_rtt_add(&rtt, 41 * TF_MS, 30 * TF_MS); /* the delay does not fit: not taken off */
    ck_assert_uint_eq(rtt.latest, 41 * TF_MS);
    static const tf_time losses[] = {46125, 51250, 61500}; /* 1/8 more than 41 ms, 2/8, 4/8 */
    for (unsigned level = 0; level < 3; level++) {
        ck_assert_uint_eq(tf_link_rtt_loss(&rtt, level), losses[level]);
    }
    for (unsigned i = 0; i < 100; i++) {
        tf_link_rtt_add(&rtt, 40, 0);
    }
    ck_assert_uint_eq(tf_link_rtt_stall(&rtt), TF_STALL_MIN);
    ck_assert_uint_eq(tf_link_rtt_probe(&rtt), TF_PROBE_MIN);
    ck_assert_uint_eq(tf_link_rtt_loss(&rtt, 0), TF_GRANULARITY);
}
END_TEST

static const size_t initial = (size_t)(TF_CWND_INITIAL);

static tf_link_rtt steady(tf_time rtt_time)
{
    tf_link_rtt rtt;
    tf_link_rtt_init(&rtt);
    for (unsigned i = 0; i < 50; i++) {
        tf_link_rtt_add(&rtt, rtt_time, 0);
    }
    return rtt;
}

START_TEST(congestion_window_grows_only_when_it_is_the_bound)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    for (unsigned i = 0; i < 100; i++) {
        tf_link_congestion_sent(&cc, &rtt, TF_SECOND + i, 1200);
        tf_link_congestion_acked(&cc, TF_SECOND + i, 1200);
    }
    ck_assert_uint_eq(cc.window, initial);
    cc.limited = true;
    tf_link_congestion_sent(&cc, &rtt, 2 * TF_SECOND, 1200);
    tf_link_congestion_acked(&cc, 2 * TF_SECOND, 1200);
    ck_assert_uint_eq(cc.window, initial + 1200);
    ck_assert_uint_eq(cc.in_flight, 0);
}
END_TEST

START_TEST(congestion_answers_a_queue_once_a_round_trip)
{
    tf_link_rtt rtt = steady(20 * TF_MS);
    for (unsigned i = 0; i < 20; i++) {
        tf_link_rtt_add(&rtt, 60 * TF_MS, 0);
    }
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    size_t before = cc.window;
    tf_link_congestion_lost(&cc, &rtt, 5 * TF_SECOND, 4 * TF_SECOND);
    ck_assert_uint_eq(cc.window, before * 7 / 10);
    tf_link_congestion_lost(&cc, &rtt, 5 * TF_SECOND + 1, 5 * TF_SECOND); /* sent before the answer */
    ck_assert_uint_eq(cc.window, before * 7 / 10);
    for (unsigned i = 0; i < 100; i++) {
        tf_link_congestion_lost(&cc, &rtt, (6 + i) * TF_SECOND, (6 + i) * TF_SECOND);
    }
    ck_assert_uint_eq(cc.window, (size_t)(TF_CWND_MIN));
}
END_TEST

static void lose(tf_link_congestion *cc, const tf_link_rtt *rtt, tf_time now, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        tf_link_congestion_sent(cc, rtt, now, 1200);
        tf_link_congestion_missed(cc, 1200);
    }
    tf_link_congestion_lost(cc, rtt, now + 1, now);
}

START_TEST(congestion_answer_to_what_was_only_late_is_taken_back)
{
    tf_link_rtt rtt = steady(20 * TF_MS);
    for (unsigned i = 0; i < 20; i++) {
        tf_link_rtt_add(&rtt, 60 * TF_MS, 0);
    }
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    lose(&cc, &rtt, TF_SECOND, 3);
    lose(&cc, &rtt, TF_SECOND, 1); /* has the same answer */
    tf_link_congestion_came(&cc, 3);
    ck_assert_uint_eq(cc.window, initial * 7 / 10);
    tf_link_congestion_came(&cc, 1);
    ck_assert_uint_eq(cc.window, initial);
    ck_assert_uint_eq(cc.threshold, SIZE_MAX);
    lose(&cc, &rtt, 2 * TF_SECOND, 2);
    tf_link_congestion_came(&cc, 1); /* the other one is lost */
    const size_t after = cc.window;
    ck_assert_uint_eq(after, initial * 7 / 10);
    lose(&cc, &rtt, 3 * TF_SECOND, 1);
    tf_link_congestion_came(&cc, 5);
    ck_assert_uint_eq(cc.window, after);
    lose(&cc, &rtt, 4 * TF_SECOND, 1);
    tf_link_congestion_collapse(&cc);
    tf_link_congestion_came(&cc, 1);
    ck_assert_uint_eq(cc.window, (size_t)(TF_CWND_MIN));
}
END_TEST

START_TEST(congestion_noise_does_not_close_the_window)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    for (unsigned i = 0; i < 1000; i++) {
        tf_time now = (10 + i) * TF_SECOND;
        tf_link_congestion_sent(&cc, &rtt, now, 1200);
        if (i % 10 == 0) {
            tf_link_congestion_missed(&cc, 1200);
            tf_link_congestion_lost(&cc, &rtt, now + 1, now);
        } else {
            tf_link_congestion_acked(&cc, now, 1200);
        }
    }
    ck_assert_uint_ge(cc.window, initial);
    for (unsigned i = 0; i < 1000; i++) { /* a policer takes every second one */
        tf_time now = (2000 + i) * TF_SECOND;
        tf_link_congestion_sent(&cc, &rtt, now, 1200);
        if (i % 2 == 0) {
            tf_link_congestion_missed(&cc, 1200);
        } else {
            tf_link_congestion_acked(&cc, now, 1200);
        }
        if (i % 50 == 0) {
            tf_link_congestion_lost(&cc, &rtt, now + 1, now);
        }
    }
    ck_assert_uint_lt(cc.window, initial / 2);
}
END_TEST

START_TEST(congestion_pacer_spreads_a_window)
{
    const tf_link_rtt rtt = steady(100 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    tf_time now = TF_SECOND;
    unsigned at_once = 0;
    while (tf_link_congestion_pace(&cc) <= now && at_once < 1000) {
        tf_link_congestion_sent(&cc, &rtt, now, 1200);
        at_once++;
    }
    ck_assert_uint_ge(at_once, 10);
    ck_assert_uint_le(at_once, 12);
    tf_time next = tf_link_congestion_pace(&cc) - now;
    ck_assert_uint_gt(next, 0);
    ck_assert_uint_lt(next, 10 * TF_MS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link parts");
    TCase *tcase = tcase_create("paths/link parts");
    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, pool_buffer_given_back_is_used_again);
    tcase_add_loop_test(tcase, ring_is_like_a_list_of_flags, 0, 4);
    tcase_add_test(tcase, ring_queued_goes_as_often_as_asked);
    tcase_add_loop_test(tcase, recv_any_order_within_the_window_gives_all_once, 0, 8);
    tcase_add_loop_test(tcase, numbers_are_a_set_of_the_latest, 0, 8);
    tcase_add_test(tcase, numbers_told_often_enough_are_left_out);
    tcase_add_test(tcase, sent_records_move_and_are_bounded);
    tcase_add_test(tcase, sent_packet_holds_runs_of_segments);
    tcase_add_test(tcase, rtt_follows_rfc_9002);
    tcase_add_test(tcase, congestion_window_grows_only_when_it_is_the_bound);
    tcase_add_test(tcase, congestion_answers_a_queue_once_a_round_trip);
    tcase_add_test(tcase, congestion_answer_to_what_was_only_late_is_taken_back);
    tcase_add_test(tcase, congestion_noise_does_not_close_the_window);
    tcase_add_test(tcase, congestion_pacer_spreads_a_window);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
