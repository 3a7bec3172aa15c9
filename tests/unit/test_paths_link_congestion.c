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

/* --- as in RFC 9002 §7 --- */

/* Sends and acks `bytes` in packets, with the window as the bound. */
static void acked(tf_link_congestion *cc, const tf_link_rtt *rtt, tf_time now, size_t bytes)
{
    for (size_t done = 0; done < bytes; done += 1200) {
        cc->limited = true;
        tf_link_congestion_sent(cc, rtt, now, 1200);
        tf_link_congestion_acked(cc, now, 1200);
    }
}

START_TEST(congestion_window_grows_by_a_packet_in_a_round_trip_after_a_loss)
{
    tf_link_rtt rtt = steady(20 * TF_MS);
    for (unsigned i = 0; i < 20; i++) {
        tf_link_rtt_add(&rtt, 60 * TF_MS, 0);
    }
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    lose(&cc, &rtt, TF_SECOND, 1);
    const size_t window = cc.window;
    acked(&cc, &rtt, TF_SECOND, window); /* sent before the answer: it says nothing of the new window */
    ck_assert_uint_eq(cc.window, window);
    for (unsigned i = 1; i < 5; i++) {
        const size_t before = cc.window;
        acked(&cc, &rtt, TF_SECOND + i * TF_MS, before);
        ck_assert_uint_ge(cc.window, before + 1100);
        ck_assert_uint_le(cc.window, before + 1300);
    }
    ck_assert_uint_eq(cc.in_flight, 0);
}
END_TEST

START_TEST(congestion_window_has_a_largest_size)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    acked(&cc, &rtt, TF_SECOND, (size_t)2 * TF_CWND_MAX);
    ck_assert_uint_eq(cc.window, (size_t)TF_CWND_MAX);
}
END_TEST

START_TEST(congestion_room_is_for_whole_packets)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    tf_link_congestion_sent(&cc, &rtt, TF_SECOND, initial - TF_PACKET_BASE);
    ck_assert(tf_link_congestion_has_room(&cc));
    tf_link_congestion_sent(&cc, &rtt, TF_SECOND, 1);
    ck_assert(!tf_link_congestion_has_room(&cc));
    tf_link_congestion_gone(&cc, 1);
    ck_assert(tf_link_congestion_has_room(&cc));
    ck_assert_uint_eq(cc.window, initial); /* it was neither acked nor lost */
}
END_TEST

/* Another path: it begins anew with what is in flight. */
START_TEST(congestion_restart_forgets_all_but_the_flight)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    acked(&cc, &rtt, TF_SECOND, 20000);
    tf_link_congestion_sent(&cc, &rtt, 2 * TF_SECOND, 2 * initial);
    tf_link_congestion_gone(&cc, 2 * initial - 5000);
    ck_assert_uint_gt(tf_link_congestion_pace(&cc), 2 * TF_SECOND);
    lose(&cc, &rtt, 2 * TF_SECOND, 3);
    tf_link_congestion_sent(&cc, &rtt, 2 * TF_SECOND, 1200);
    tf_link_congestion_missed(&cc, 1200);
    cc.limited = true;
    tf_link_congestion_restart(&cc);
    ck_assert_uint_eq(cc.window, initial);
    ck_assert_uint_eq(cc.threshold, SIZE_MAX);
    ck_assert_uint_eq(cc.in_flight, 5000);
    ck_assert(!cc.limited);
    ck_assert_uint_le(tf_link_congestion_pace(&cc), 2 * TF_SECOND);
    tf_link_congestion_came(&cc, 3); /* what came late by the old path changes nothing */
    ck_assert_uint_eq(cc.window, initial);
    tf_link_rtt queue = rtt;
    for (unsigned i = 0; i < 20; i++) {
        tf_link_rtt_add(&queue, 60 * TF_MS, 0);
    }
    lose(&cc, &queue, 3 * TF_SECOND, 1);
    ck_assert_uint_lt(cc.window, initial);
    tf_link_congestion_came(&cc, 1); /* and what was lost there is not waited for here */
    ck_assert_uint_eq(cc.window, initial);
}
END_TEST

/* After a collapse it is in slow start again, but not up to where it was. */
START_TEST(congestion_collapse_begins_with_slow_start)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    tf_link_congestion cc;
    tf_link_congestion_init(&cc);
    acked(&cc, &rtt, TF_SECOND, 4 * initial);
    const size_t before = cc.window;
    tf_link_congestion_collapse(&cc);
    ck_assert_uint_eq(cc.window, (size_t)(TF_CWND_MIN));
    ck_assert_uint_lt(cc.threshold, before);
    acked(&cc, &rtt, TF_SECOND + TF_MS, 2400);
    ck_assert_uint_eq(cc.window, (size_t)(TF_CWND_MIN) + 2400);
}
END_TEST

/* Later packets go one by one, a window of them in not more than a round trip, but in a good part of one. */
START_TEST(congestion_pacer_needs_no_more_than_a_round_trip_for_a_window)
{
    const tf_link_rtt rtt = steady(100 * TF_MS);
    for (unsigned avoids = 0; avoids < 2; avoids++) {
        tf_link_congestion cc;
        tf_link_congestion_init(&cc);
        cc.threshold = avoids == 1 ? cc.window : SIZE_MAX;
        tf_time now = TF_SECOND;
        while (tf_link_congestion_pace(&cc) <= now) {
            tf_link_congestion_sent(&cc, &rtt, now, 1200);
        }
        for (unsigned i = 0; i < 32; i++) {
            ck_assert_uint_gt(tf_link_congestion_pace(&cc), now);
            now = tf_link_congestion_pace(&cc);
            tf_link_congestion_sent(&cc, &rtt, now, 1200);
        }
        ck_assert_uint_le(now, TF_SECOND + 100 * TF_MS);
        ck_assert_uint_ge(now, TF_SECOND + (avoids == 1 ? 60 : 30) * TF_MS);
    }
}
END_TEST

/* One in ten is noise, however many that are at once; one in two is none. */
START_TEST(congestion_many_losses_among_many_packets_are_noise)
{
    const tf_link_rtt rtt = steady(20 * TF_MS);
    for (unsigned noise = 0; noise < 2; noise++) {
        tf_link_congestion cc;
        tf_link_congestion_init(&cc);
        for (unsigned i = 0; i < (noise == 1 ? 200 : 20); i++) {
            tf_link_congestion_sent(&cc, &rtt, TF_SECOND, 1200);
            tf_link_congestion_acked(&cc, TF_SECOND, 1200);
        }
        lose(&cc, &rtt, TF_SECOND, 20);
        if (noise == 1) {
            ck_assert_uint_eq(cc.window, initial);
        } else {
            ck_assert_uint_lt(cc.window, initial);
        }
    }
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
        congestion_window_grows_by_a_packet_in_a_round_trip_after_a_loss,
        congestion_window_has_a_largest_size,
        congestion_room_is_for_whole_packets,
        congestion_restart_forgets_all_but_the_flight,
        congestion_collapse_begins_with_slow_start,
        congestion_pacer_needs_no_more_than_a_round_trip_for_a_window,
        congestion_many_losses_among_many_packets_are_noise,
        NULL,
    };
    return tf_test_run("paths/link_congestion", tests);
}
