/* paths/link_recv by itself: the merge point. */
#include "paths/link_recv.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

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
    ck_assert_uint_eq(m.recv.messages, MERGE_MESSAGES);
    ck_assert_uint_eq(m.recv.held_segments, 0);
    ck_assert_uint_eq(m.recv.held_bytes, 0);
    ck_assert_uint_eq(m.recv.routes[0].total_first + m.recv.routes[1].total_first, m.segment_count);
    tf_link_recv_trim(&m.recv);
    tf_link_recv_free(&m.recv);
    tf_link_pool_trim(&m.pool);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}
END_TEST

static void recv_start(size_t max_segments, size_t max_message)
{
    static tf_test_random random;
    memset(&m, 0, sizeof(m));
    tf_test_random_init(&random, 1);
    tf_link_pool_init(&m.pool, tf_test_mem());
    const tf_link_recv_config config = {
        .rand = &random.rand, .max_segments = max_segments, .max_bytes = 20000, .max_message = max_message};
    ck_assert_int_eq(tf_link_recv_init(&m.recv, &config, tf_test_mem(), &m.pool), TF_OK);
}

static void recv_end(void)
{
    tf_link_recv_trim(&m.recv);
    tf_link_recv_free(&m.recv);
    tf_link_pool_trim(&m.pool);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

static tf_segment segment_of(uint64_t seq, uint8_t flags, const char *text)
{
    return (tf_segment){.seq = seq, .flags = flags, .data = tf_slice_str(text)};
}

static void give(uint64_t seq, uint8_t flags, const char *text, uint64_t generation)
{
    const tf_segment segment = segment_of(seq, flags, text);
    tf_link_judgement j = tf_link_recv_judge_begin(&m.recv);
    tf_link_judged judged;
    const tf_link_arrival arrival = {.route = TF_ROUTE_STREAM, .generation = generation};
    ck_assert_int_eq(tf_link_recv_judge(&m.recv, &j, &segment, &judged), TF_OK);
    ck_assert_int_eq(tf_link_recv_accept(&m.recv, &arrival, &segment, &judged), TF_OK);
    ck_assert_int_eq(tf_link_recv_judge_commit(&m.recv, &j), TF_OK);
}

START_TEST(recv_counts_of_a_route_begin_anew_with_a_generation)
{
    const uint8_t whole = TF_SEGMENT_FIRST | TF_SEGMENT_LAST;
    recv_start(MERGE_WINDOW, 100);
    const tf_link_received *received = &m.recv.routes[TF_ROUTE_STREAM];
    tf_link_recv_generation(&m.recv, TF_ROUTE_STREAM, 1);
    for (uint64_t generation = 1; generation < 4; generation++) {
        give(generation, whole, "abc", generation);
        give(generation, whole, "abc", generation);
        give(generation, whole, "abc", generation);
        tf_link_recv_generation(&m.recv, TF_ROUTE_STREAM, generation - 1); /* an old one is none */
        tf_link_recv_generation(&m.recv, TF_ROUTE_STREAM, generation);
        ck_assert_uint_eq(received->first, 1);
        ck_assert_uint_eq(received->repeats, 2);
        ck_assert_uint_eq(received->bytes, 9);
        tf_link_recv_generation(&m.recv, TF_ROUTE_STREAM, generation + 1);
        give(generation, whole, "abc", generation); /* late, by the old one */
        ck_assert_uint_eq(received->first + received->repeats + received->bytes, 0);
        ck_assert_uint_eq(received->total_first, generation);
        ck_assert_uint_eq(received->total_repeats, 3 * generation);
        ck_assert_uint_eq(received->total_segments, 4 * generation);
        ck_assert_uint_eq(received->total_bytes, 12 * generation);
    }
    recv_end();
}
END_TEST

/* After idleness there is memory again for what comes, and an empty last segment needs none. */
START_TEST(recv_that_gave_its_memory_back_goes_on)
{
    recv_start(MERGE_WINDOW, 100);
    for (uint64_t seq = 0; seq < 6; seq += 2) {
        tf_slice message;
        tf_route via;
        give(seq, TF_SEGMENT_FIRST, "a", 0);
        ck_assert(!tf_link_recv_next(&m.recv, &message, &via));
        tf_link_recv_trim(&m.recv); /* not what is held */
        give(seq + 1, TF_SEGMENT_LAST, "", 0);
        tf_link_recv_trim(&m.recv);
        ck_assert(tf_link_recv_next(&m.recv, &message, &via));
        ck_assert(tf_slice_eq(message, tf_slice_str("a")));
        tf_link_recv_trim(&m.recv);
        tf_link_recv_trim(&m.recv);
        ck_assert_ptr_null(m.recv.message);
        ck_assert_ptr_null(m.recv.held);
    }
    recv_end();
}
END_TEST

/* Judged with what is held and with what is in the same packet. */
START_TEST(recv_judges_bounds_and_neighbours)
{
    static const struct {
        tf_segment before; /* comes first, or */
        bool together;     /* in the same packet */
        tf_segment segment;
        tf_err err;
    } rows[] = {
        {{.seq = 9, .flags = 3}, false, {.seq = MERGE_WINDOW - 1, .flags = 3}, TF_OK},
        {{.seq = 9, .flags = 3}, false, {.seq = MERGE_WINDOW, .flags = 3}, TF_ERR_PEER_LIMIT},
        {{.seq = 9, .flags = 3}, false, {.seq = 8, .flags = 3}, TF_OK},
        {{.seq = 9, .flags = 3}, false, {.seq = 10, .flags = 3}, TF_OK},
        {{.seq = 9, .flags = 3}, false, {.seq = 8, .flags = TF_SEGMENT_FIRST}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = 3}, false, {.seq = 8, .flags = TF_SEGMENT_LAST}, TF_OK},
        {{.seq = 9, .flags = 3}, false, {.seq = 10, .flags = TF_SEGMENT_LAST}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = TF_SEGMENT_FIRST}, false, {.seq = 10, .flags = TF_SEGMENT_LAST}, TF_OK},
        {{.seq = 9, .flags = TF_SEGMENT_FIRST}, false, {.seq = 10, .flags = 3}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = 3}, true, {.seq = 10, .flags = TF_SEGMENT_LAST}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = TF_SEGMENT_FIRST}, true, {.seq = 10, .flags = TF_SEGMENT_LAST}, TF_OK},
        {{.seq = 9, .flags = 3}, true, {.seq = 11, .flags = TF_SEGMENT_LAST}, TF_OK},
        {{.seq = 9, .flags = 3}, true, {.seq = 9, .flags = 3}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = 3}, true, {.seq = 8, .flags = 3}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = 3}, true, {.seq = 0, .flags = 3}, TF_ERR_PEER_SYNTAX},
        {{.seq = 9, .flags = 3}, false, {.seq = 0, .flags = TF_SEGMENT_LAST}, TF_ERR_PEER_SYNTAX},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        recv_start(MERGE_WINDOW, 100);
        tf_link_judgement j = tf_link_recv_judge_begin(&m.recv);
        tf_link_judged judged;
        ck_assert_int_eq(tf_link_recv_judge(&m.recv, &j, &rows[i].before, &judged), TF_OK);
        if (!rows[i].together) {
            give(9, rows[i].before.flags, "", 0);
            j = tf_link_recv_judge_begin(&m.recv);
        }
        ck_assert_msg(tf_link_recv_judge(&m.recv, &j, &rows[i].segment, &judged) == rows[i].err, "row %u", (unsigned)i);
        recv_end();
    }
}
END_TEST

/* From the oldest segment that is kept, though all behind it is there up to the middle of its message. */
START_TEST(recv_window_begins_with_what_is_kept)
{
    recv_start(MERGE_WINDOW, 100);
    tf_link_judged judged;
    give(0, TF_SEGMENT_FIRST, "", 0);
    give(1, 0, "", 0);
    for (uint64_t i = 0; i < 2; i++) {
        const tf_segment segment = {.seq = MERGE_WINDOW - 1 + i, .flags = 3};
        tf_link_judgement j = tf_link_recv_judge_begin(&m.recv);
        ck_assert_int_eq(tf_link_recv_judge(&m.recv, &j, &segment, &judged), i == 0 ? TF_OK : TF_ERR_PEER_LIMIT);
    }
    recv_end();
}
END_TEST

/* A message is no longer than was announced, however it is cut and whatever came first. */
START_TEST(recv_message_has_its_longest_length_and_no_more)
{
    for (size_t max = 6; max < 8; max++) {
        recv_start(MERGE_WINDOW, max);
        tf_link_judgement j = tf_link_recv_judge_begin(&m.recv);
        tf_link_judged judged;
        const tf_segment single = segment_of(0, 3, "1234567");
        ck_assert_int_eq(tf_link_recv_judge(&m.recv, &j, &single, &judged), max == 7 ? TF_OK : TF_ERR_PEER_LIMIT);
        give(2, TF_SEGMENT_LAST, "34567", 0);
        give(0, TF_SEGMENT_FIRST, "1", 0);
        j = tf_link_recv_judge_begin(&m.recv);
        const tf_segment middle = segment_of(1, 0, "2");
        ck_assert_int_eq(tf_link_recv_judge(&m.recv, &j, &middle, &judged), max == 7 ? TF_OK : TF_ERR_PEER_LIMIT);
        recv_end();
    }
}
END_TEST

START_TEST(recv_long_message_is_joined)
{
    static char text[TF_SEGMENT_DATA_MAX + 1];
    memset(text, 'a', TF_SEGMENT_DATA_MAX);
    recv_start(MERGE_WINDOW, (size_t)16 * TF_SEGMENT_DATA_MAX);
    for (uint64_t seq = 0; seq < 16; seq++) {
        tf_slice message;
        tf_route via;
        give(seq, seq == 0 ? TF_SEGMENT_FIRST : seq == 15 ? TF_SEGMENT_LAST : 0, text, 0);
        ck_assert_int_eq(tf_link_recv_next(&m.recv, &message, &via), seq == 15);
        if (seq == 15) {
            ck_assert_uint_eq(message.len, (size_t)16 * TF_SEGMENT_DATA_MAX);
            ck_assert_mem_eq(message.data, text, TF_SEGMENT_DATA_MAX);
            ck_assert_mem_eq(message.data + 15 * TF_SEGMENT_DATA_MAX, text, TF_SEGMENT_DATA_MAX);
        }
    }
    recv_end();
}
END_TEST

/* Each has a place of its own, however far ahead it is: what is held when there is no room left moves. */
START_TEST(recv_far_ahead_displaces_nothing)
{
    static const uint64_t firsts[] = {63, 64, 65, 127, 128, 129, 255, 256};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        tf_slice message;
        tf_route via;
        recv_start(300, 100);
        const size_t idle = tf_test_heap_shared()->live_blocks;
        give(1, TF_SEGMENT_FIRST | TF_SEGMENT_LAST, "b", 0);
        give(firsts[i], TF_SEGMENT_FIRST | TF_SEGMENT_LAST, "last", 0);
        for (uint64_t seq = 0; seq < firsts[i]; seq++) {
            const char text[2] = {(char)('a' + seq % 26), 0};
            give(seq, TF_SEGMENT_FIRST | TF_SEGMENT_LAST, text, 0);
        }
        for (uint64_t seq = 0; seq < firsts[i]; seq++) {
            const char text[2] = {(char)('a' + seq % 26), 0};
            ck_assert(tf_link_recv_next(&m.recv, &message, &via));
            ck_assert(tf_slice_eq(message, tf_slice_str(text)));
        }
        ck_assert(tf_link_recv_next(&m.recv, &message, &via));
        ck_assert(tf_slice_eq(message, tf_slice_str("last")));
        ck_assert(!tf_link_recv_next(&m.recv, &message, &via));
        tf_link_recv_trim(&m.recv);
        tf_link_pool_trim(&m.pool);
        ck_assert_uint_le(tf_test_heap_shared()->live_blocks, idle + 1); /* where the window goes on */
        recv_end();
    }
}
END_TEST

/* What was lent goes back to where it came from, whatever its size; the heap of the test looks at that. */
START_TEST(recv_messages_of_any_size_are_lent)
{
    static char text[1000];
    static const size_t lens[] = {0, 1, 128, 129, 384, 385, 999, 1, 500, 0};
    recv_start(MERGE_WINDOW, 1000);
    for (uint64_t seq = 0; seq < sizeof(lens) / sizeof(lens[0]); seq++) {
        tf_slice message;
        tf_route via;
        memset(text, 'a', lens[seq]);
        text[lens[seq]] = 0;
        give(seq, TF_SEGMENT_FIRST | TF_SEGMENT_LAST, text, 0);
        ck_assert(tf_link_recv_next(&m.recv, &message, &via));
        ck_assert_uint_eq(message.len, lens[seq]);
    }
    recv_end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("paths/link_recv");
    TCase *tcase = tcase_create("paths/link_recv");
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, recv_any_order_within_the_window_gives_all_once, 0, 8);
    tcase_add_test(tcase, recv_counts_of_a_route_begin_anew_with_a_generation);
    tcase_add_test(tcase, recv_that_gave_its_memory_back_goes_on);
    tcase_add_test(tcase, recv_judges_bounds_and_neighbours);
    tcase_add_test(tcase, recv_window_begins_with_what_is_kept);
    tcase_add_test(tcase, recv_message_has_its_longest_length_and_no_more);
    tcase_add_test(tcase, recv_long_message_is_joined);
    tcase_add_test(tcase, recv_far_ahead_displaces_nothing);
    tcase_add_test(tcase, recv_messages_of_any_size_are_lent);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
