/* paths/link_rtt and paths/link_congestion by themselves: round trips, the timers made of them, and the window. */
#include "paths/link_congestion.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

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
    const TTest *const tests[] = {
        rtt_follows_rfc_9002,
        congestion_window_grows_only_when_it_is_the_bound,
        congestion_answers_a_queue_once_a_round_trip,
        congestion_answer_to_what_was_only_late_is_taken_back,
        congestion_noise_does_not_close_the_window,
        congestion_pacer_spreads_a_window,
        NULL,
    };
    return tf_test_run("paths/link_congestion", tests);
}
