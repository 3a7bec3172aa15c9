/* One way of an emulated path: every packet is counted once, and what others fill is felt and kept in order. */
#include <stdlib.h>

#include "tests/harness/path.h"
#include "tests/support/check_main.h"

#define NS_PER_MS UINT64_C(1000000)
#define PACKETS 4000u

typedef struct outcome {
    uint64_t most; /* ns late */
    unsigned came;
    bool in_order;
} outcome;

/* A packet of 1000 bytes every 500 us for two seconds, those that are due taken as the time goes on. */
static outcome run(tf_path_way *way)
{
    static uint8_t bytes[1000];
    outcome out = {.in_order = true};
    uint32_t expected = 0;
    for (uint32_t i = 0; i < PACKETS || way->count > 0; i++) {
        uint64_t now = (uint64_t)(i + 1) * NS_PER_MS / 2;
        while (tf_path_way_due(way) <= now) {
            tf_path_packet packet = tf_path_way_take(way);
            uint32_t number;
            memcpy(&number, packet.bytes, sizeof(number));
            free(packet.bytes);
            out.in_order = out.in_order && number >= expected;
            expected = number;
            out.came++;
            uint64_t late = now - (uint64_t)(number + 1) * NS_PER_MS / 2;
            out.most = late > out.most ? late : out.most;
        }
        if (i < PACKETS) {
            memcpy(bytes, &i, sizeof(i));
            tf_path_way_admit(way, now, tf_slice_of(bytes, sizeof(bytes)));
        }
    }
    ck_assert_uint_eq(way->in, PACKETS);
    ck_assert_uint_eq(out.came + way->lost + way->overflow, PACKETS);
    return out;
}

START_TEST(path_way_that_others_fill_is_late_by_up_to_the_queue_and_in_order)
{
    static const struct {
        uint64_t rate;
        uint64_t queue; /* does not count */
        bool drops;     /* the rate is less than what comes */
    } rows[] = {{0, 0, false}, {40000000, 1, false}, {8000000, 0, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_path_way way = {0};
        tf_test_random_init(&way.random, 1);
        way.faults[TF_PATH_BLOAT] = 200 * NS_PER_MS;
        way.faults[TF_PATH_RATE] = rows[i].rate;
        way.faults[TF_PATH_QUEUE] = rows[i].queue;
        way.faults[TF_PATH_DELAY] = 5 * NS_PER_MS;
        outcome out = run(&way);
        ck_assert_msg(out.in_order, "row %zu", i);
        ck_assert_msg(out.most > 190 * NS_PER_MS && out.most <= 206 * NS_PER_MS, "row %zu: %llu ns", i,
                      (unsigned long long)out.most);
        ck_assert_msg((way.overflow > PACKETS / 3) == rows[i].drops, "row %zu: %llu dropped", i,
                      (unsigned long long)way.overflow);
        tf_path_way_free(&way);
    }
}
END_TEST

START_TEST(path_way_loss_in_bursts_is_counted_as_loss)
{
    tf_path_way way = {0};
    tf_test_random_init(&way.random, 1);
    way.faults[TF_PATH_LOSS] = 200000;
    way.faults[TF_PATH_BURST] = 10;
    outcome out = run(&way);
    ck_assert(out.in_order);
    ck_assert_uint_gt(way.lost, PACKETS / 10);
    ck_assert_uint_lt(way.lost, PACKETS / 3);
    tf_path_way_free(&way);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        path_way_that_others_fill_is_late_by_up_to_the_queue_and_in_order,
        path_way_loss_in_bursts_is_counted_as_loss,
        NULL,
    };
    return tf_test_run("tests/harness/path_way", tests);
}
