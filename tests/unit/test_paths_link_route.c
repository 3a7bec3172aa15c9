/* paths/link_route by itself (PROTOCOL.md L8): when it probes, what answers a probe, and how long its verdicts take. */
#include "paths/link_route.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define PEER_KEEPALIVE (7 * TF_SECOND)
#define START (100 * TF_SECOND)

/* Up at START, with round trips of `rtt` always; 0: not measured. The first probe was answered at once. */
static tf_link_route route_with(tf_time rtt)
{
    const tf_link_config config = {
        .rand = tf_test_rand(1), .keepalive = TF_KEEPALIVE, .peer_keepalive = PEER_KEEPALIVE};
    tf_link_route route;
    tf_link_route_init(&route, &config, START);
    route.reachable = true;
    for (unsigned i = 0; rtt > 0 && i < 100; i++) {
        tf_link_rtt_add(&route.rtt, rtt, 0);
    }
    tf_link_route_start(&route, START, TF_VERDICT_UP);
    (void)tf_link_route_take_probe(&route, START);
    (void)tf_link_route_proved(&route, START);
    return route;
}

/* Ticks at every deadline until a probe is wanted or the verdict is another one; then takes the probe. */
static tf_time next_probe(tf_link_route *route, tf_time *now)
{
    tf_time before = *now;
    tf_verdict verdict = route->verdict;
    while (!route->probe_wanted && route->verdict == verdict) {
        tf_time due = tf_link_route_deadline(route);
        ck_assert_uint_gt(due, *now);
        tf_link_route_tick(route, due - 1);
        ck_assert(!route->probe_wanted && route->verdict == verdict);
        *now = due;
        tf_link_route_tick(route, due);
    }
    if (route->probe_wanted) {
        (void)tf_link_route_take_probe(route, *now);
        tf_link_route_sent(route, *now);
    }
    return *now - before;
}

/* --- probes --- */

START_TEST(route_that_comes_up_is_probed_at_once)
{
    static const tf_verdict others[] = {TF_VERDICT_ABSENT, TF_VERDICT_JOINING, TF_VERDICT_STALLED, TF_VERDICT_DOWN};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        tf_link_route route = route_with(0);
        tf_link_route_set(&route, START + 1, others[i]);
        ck_assert(!route.probe_wanted);
        tf_link_route_set(&route, START + 2, TF_VERDICT_UP);
        ck_assert(route.probe_wanted);
    }
}
END_TEST

START_TEST(route_without_traffic_is_probed_once_a_keepalive)
{
    tf_link_route route = route_with(0);
    tf_time now = START;
    tf_link_route_sent(&route, now);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_uint_eq(next_probe(&route, &now), TF_KEEPALIVE);
        tf_link_route_received(&route, now); /* what comes does not put it off, */
        ck_assert(!tf_link_route_proved(&route, now));
    }
    now += TF_SECOND;
    tf_link_route_sent(&route, now); /* what goes does */
    ck_assert_uint_eq(next_probe(&route, &now), TF_KEEPALIVE);
}
END_TEST

/* Asked for and not pulled: it is not asked for all the time. */
START_TEST(route_keepalive_that_cannot_go_is_due_a_keepalive_later)
{
    tf_link_route route = route_with(0);
    tf_link_route_traffic(&route);
    tf_link_route_tick(&route, START + TF_SECOND);
    ck_assert(route.probe_wanted);
    ck_assert_uint_eq(route.last_sent, START); /* a probe that was only asked for is none */
    tf_link_route_tick(&route, START + TF_KEEPALIVE);
    ck_assert_uint_gt(tf_link_route_deadline(&route), START + TF_KEEPALIVE);
}
END_TEST

START_TEST(route_with_traffic_is_probed_every_2_pto_or_250_ms)
{
    static const struct {
        tf_time rtt;
        tf_time interval;
    } rows[] = {{TF_MS, TF_PROBE_MIN}, {0, 640 * TF_MS}, {200 * TF_MS, 442 * TF_MS}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_link_route route = route_with(rows[i].rtt);
        tf_time now = START;
        for (unsigned k = 0; k < 4; k++) {
            tf_link_route_traffic(&route);
            tf_link_route_received(&route, now);
            ck_assert_uint_eq(next_probe(&route, &now), rows[i].interval);
            (void)tf_link_route_proved(&route, now);
        }
        ck_assert_uint_eq(next_probe(&route, &now), TF_KEEPALIVE); /* the traffic is over */
    }
}
END_TEST

START_TEST(route_without_transport_is_not_probed)
{
    tf_link_route route = route_with(0);
    route.reachable = false;
    tf_link_route_traffic(&route);
    tf_link_route_tick(&route, START + PEER_KEEPALIVE);
    ck_assert(!route.probe_wanted);
    tf_link_route_set(&route, START + PEER_KEEPALIVE, TF_VERDICT_DOWN);
    ck_assert_uint_eq(tf_link_route_deadline(&route), TF_NEVER);
}
END_TEST

/* --- down --- */

START_TEST(route_is_down_after_three_probes_without_an_answer)
{
    tf_link_route route = route_with(0);
    tf_time now = START;
    for (unsigned i = 0; i < 10; i++) { /* two are not enough, however often */
        tf_link_route_probe(&route, now);
        (void)tf_link_route_take_probe(&route, now);
        ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
        ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
        tf_link_route_received(&route, now);
        ck_assert(!tf_link_route_proved(&route, now));
        ck_assert_int_eq(route.verdict, TF_VERDICT_UP);
    }
    tf_link_route_probe(&route, now);
    (void)tf_link_route_take_probe(&route, now);
    for (unsigned i = 0; i < TF_PROBES_DOWN; i++) {
        ck_assert_int_eq(route.verdict, TF_VERDICT_UP);
        ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
    }
    ck_assert_int_eq(route.verdict, TF_VERDICT_DOWN);
    ck_assert_uint_eq(route.downs, 1);
}
END_TEST

START_TEST(route_is_down_after_three_keepalives_of_the_peer)
{
    for (unsigned stalled = 0; stalled < 2; stalled++) {
        tf_link_route route = route_with(0);
        tf_time heard = START + TF_SECOND;
        tf_link_route_set(&route, START, stalled == 1 ? TF_VERDICT_STALLED : TF_VERDICT_UP);
        tf_link_route_received(&route, heard);
        for (tf_time now = heard; now < heard + 3 * PEER_KEEPALIVE; now = tf_link_route_deadline(&route)) {
            tf_link_route_tick(&route, now);
            (void)tf_link_route_take_probe(&route, now);
            tf_link_route_sent(&route, now);
            (void)tf_link_route_proved(&route, now); /* an answer by another way is no silence broken here */
            ck_assert(tf_link_route_is_live(&route));
        }
        tf_link_route_tick(&route, heard + 3 * PEER_KEEPALIVE - 1);
        ck_assert(tf_link_route_is_live(&route));
        tf_link_route_tick(&route, heard + 3 * PEER_KEEPALIVE);
        ck_assert_int_eq(route.verdict, TF_VERDICT_DOWN);
    }
}
END_TEST

START_TEST(route_that_is_down_is_probed_more_and_more_rarely)
{
    static const struct {
        tf_time rtt;
        tf_time first[4];
    } rows[] = {{TF_MS, {250 * TF_MS, 500 * TF_MS, TF_SECOND, TF_SECOND}},
                {0, {640 * TF_MS, TF_SECOND, TF_SECOND, TF_SECOND}},
                {TF_SECOND, {TF_SECOND, TF_SECOND, TF_SECOND, TF_SECOND}}};
    static const tf_time late[] = {2 * TF_SECOND, 4 * TF_SECOND, 8 * TF_SECOND, 10 * TF_SECOND, 10 * TF_SECOND};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_link_route route = route_with(rows[i].rtt);
        tf_time now = START;
        now += 3 * TF_SECOND;
        tf_link_route_probe(&route, now - TF_SECOND);
        tf_link_route_set(&route, now, TF_VERDICT_DOWN);
        ck_assert(!route.probe_wanted);
        for (size_t k = 0; k < 4; k++) {
            ck_assert_uint_eq(next_probe(&route, &now), rows[i].first[k]);
        }
        while (now < route.since + TF_PROBE_SOON_SPAN) {
            ck_assert_uint_eq(next_probe(&route, &now), TF_SECOND);
        }
        for (size_t k = 0; k < sizeof(late) / sizeof(late[0]); k++) {
            ck_assert_uint_eq(next_probe(&route, &now), late[k]);
        }
        ck_assert(tf_link_route_proved(&route, now)); /* and an answer revives it */
        ck_assert_int_eq(route.verdict, TF_VERDICT_UP);
        ck_assert_uint_eq(route.last_received, now);
        ck_assert_uint_eq(route.progress_at, now);
    }
}
END_TEST

/* Only a probe that had its time without an answer counts. */
START_TEST(route_keepalive_is_no_probe_without_an_answer)
{
    tf_link_route route = route_with(0);
    tf_time now = START;
    ck_assert_uint_eq(next_probe(&route, &now), TF_KEEPALIVE);
    for (unsigned i = 0; i < TF_PROBES_DOWN; i++) {
        ck_assert_int_eq(route.verdict, TF_VERDICT_UP);
        ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
    }
    ck_assert_int_eq(route.verdict, TF_VERDICT_DOWN);
    route = route_with(0);
    for (unsigned i = 1; i <= 4; i++) { /* asked for while a keepalive is due */
        now = START + i * TF_KEEPALIVE;
        tf_link_route_received(&route, now - 1);
        tf_link_route_probe(&route, now - 1);
        tf_link_route_tick(&route, now);
        ck_assert_int_eq(route.verdict, TF_VERDICT_UP);
    }
}
END_TEST

START_TEST(route_of_a_peer_without_keepalives_is_never_too_silent)
{
    static const tf_time spans[] = {TF_NEVER, TF_NEVER - 1, TF_NEVER / 2, TF_NEVER / 3 + 1};
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        const tf_link_config config = {.rand = tf_test_rand(1), .keepalive = TF_KEEPALIVE, .peer_keepalive = spans[i]};
        tf_link_route route;
        tf_link_route_init(&route, &config, START);
        ck_assert_uint_eq(route.idle_limit, TF_NEVER);
        tf_link_route_start(&route, START, TF_VERDICT_UP);
        ck_assert_uint_eq(tf_link_route_deadline(&route), TF_NEVER);
    }
}
END_TEST

START_TEST(route_that_is_not_there_yet_has_nothing_due)
{
    static const tf_verdict verdicts[] = {TF_VERDICT_ABSENT, TF_VERDICT_JOINING};
    for (size_t i = 0; i < 2; i++) {
        tf_link_route route = route_with(0);
        tf_link_route_set(&route, START, verdicts[i]);
        ck_assert_uint_eq(tf_link_route_deadline(&route), TF_NEVER);
    }
}
END_TEST

START_TEST(route_that_starts_anew_owes_and_is_owed_nothing)
{
    tf_link_route route = route_with(0);
    tf_time now = START;
    tf_link_route_probe(&route, now);
    ck_assert_uint_eq(next_probe(&route, &now), 0);
    ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
    ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
    tf_link_route_outstanding(&route, now, true);
    now += TF_SECOND / 2;
    tf_link_route_start(&route, now, TF_VERDICT_UP);
    ck_assert_uint_eq(route.since, START); /* it has been up all the time */
    ck_assert(!route.outstanding);
    ck_assert_uint_eq(route.last_received, now);
    ck_assert_uint_eq(next_probe(&route, &now), TF_KEEPALIVE - TF_SECOND / 2); /* a keepalive after the last one */
    for (unsigned i = 0; i < TF_PROBES_DOWN; i++) {
        ck_assert_int_eq(route.verdict, TF_VERDICT_UP);
        ck_assert_uint_eq(next_probe(&route, &now), 640 * TF_MS);
    }
}
END_TEST

/* --- not trusted --- */

/* Ceases to be up, and is up again 10 ms later; how long it is not trusted then. */
static tf_time wary_for(tf_link_route *route, tf_time now)
{
    tf_link_route_set(route, now, TF_VERDICT_STALLED);
    tf_link_route_set(route, now + 10 * TF_MS, TF_VERDICT_UP);
    tf_link_route_received(route, now + 10 * TF_MS);
    (void)tf_link_route_proved(route, now + 10 * TF_MS);
    if (route->shown == TF_VERDICT_UP) {
        return 0;
    }
    ck_assert_int_eq(route->shown, TF_VERDICT_STALLED);
    tf_time until = route->wary_until;
    ck_assert_uint_le(tf_link_route_deadline(route), until);
    tf_link_route_received(route, until - 1);
    tf_link_route_sent(route, until - 1);
    tf_link_route_tick(route, until - 1);
    ck_assert_int_eq(route->shown, TF_VERDICT_STALLED);
    tf_link_route_tick(route, until);
    ck_assert_int_eq(route->shown, TF_VERDICT_UP);
    ck_assert_uint_eq(route->shown_since, until);
    return until - now - 10 * TF_MS;
}

START_TEST(route_that_stalls_again_and_again_is_not_trusted_for_longer_and_longer)
{
    static const tf_time spans[] = {0, 0, TF_WARY_MIN, 2 * TF_WARY_MIN, 4 * TF_WARY_MIN, TF_WARY_MAX, TF_WARY_MAX};
    tf_link_route route = route_with(0);
    tf_time now = START;
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        now += TF_FLIP_SPAN - 1;
        ck_assert_uint_eq(wary_for(&route, now), spans[i]);
    }
    now += TF_FLIP_SPAN;
    ck_assert_uint_eq(wary_for(&route, now), 0); /* so long without: it begins anew */
    ck_assert_uint_eq(wary_for(&route, now + TF_SECOND), 0);
    ck_assert_uint_eq(wary_for(&route, now + 2 * TF_SECOND), TF_WARY_MIN);
}
END_TEST

START_TEST(route_that_is_told_the_verdict_it_has_is_not_changed)
{
    tf_link_route route = route_with(0);
    for (unsigned i = 1; i < 10; i++) {
        tf_link_route_set(&route, START + i, TF_VERDICT_UP);
        ck_assert_uint_eq(route.since, START);
        ck_assert(!route.probe_wanted);
    }
    ck_assert_uint_eq(wary_for(&route, START + TF_SECOND), 0); /* and none of these was a stall */
}
END_TEST

START_TEST(route_that_was_away_for_long_is_trusted_at_once)
{
    for (unsigned i = 0; i < 2; i++) {
        tf_link_route route = route_with(0);
        (void)wary_for(&route, START);
        (void)wary_for(&route, START + TF_SECOND);
        tf_link_route_set(&route, START + 2 * TF_SECOND, TF_VERDICT_DOWN);
        tf_link_route_set(&route, START + 2 * TF_SECOND + TF_FLIP_SPAN - i, TF_VERDICT_UP);
        ck_assert_int_eq(route.shown, i == 0 ? TF_VERDICT_UP : TF_VERDICT_STALLED);
    }
}
END_TEST

/* --- answers --- */

START_TEST(route_takes_answers_to_its_own_probes_only)
{
    tf_link_route route = route_with(0);
    uint64_t token = route.token;
    ck_assert(!tf_link_route_pong(&route, START, token + 1));
    ck_assert_uint_eq(tf_link_route_take_probe(&route, START), token + 1);
    ck_assert(tf_link_route_pong(&route, START, token + 1));
    ck_assert(tf_link_route_pong(&route, START, token)); /* a late one is none the less an answer */
    ck_assert(!tf_link_route_pong(&route, START, token + 2));
    ck_assert(!tf_link_route_pong(&route, START, token - 1));
    tf_link_route_forget_probes(&route);
    ck_assert(!tf_link_route_pong(&route, START, token));
    ck_assert(!tf_link_route_pong(&route, START, token + 1));
    ck_assert_uint_eq(tf_link_route_take_probe(&route, START), token + 2);
    ck_assert(tf_link_route_pong(&route, START, token + 2));
}
END_TEST

START_TEST(route_knows_the_times_of_its_last_probes)
{
    tf_link_route route = route_with(0);
    uint64_t first = route.token + 1;
    uint64_t samples = route.rtt.samples;
    for (tf_time i = 0; i <= TF_LINK_PROBE_TIMES; i++) {
        ck_assert_uint_eq(tf_link_route_take_probe(&route, START + i * TF_MS), first + i);
    }
    tf_time now = START + 50 * TF_MS;
    ck_assert(tf_link_route_pong(&route, now, first)); /* too long ago to be measured */
    ck_assert_uint_eq(route.rtt.samples, samples);
    ck_assert(tf_link_route_pong(&route, now, first + 1));
    ck_assert_uint_eq(route.rtt.samples, samples + 1);
    ck_assert_uint_eq(route.rtt.latest, 49 * TF_MS);
    ck_assert(tf_link_route_pong(&route, now, first + TF_LINK_PROBE_TIMES));
    ck_assert_uint_eq(route.rtt.least, 50 * TF_MS - TF_LINK_PROBE_TIMES * TF_MS);
}
END_TEST

/* The answer to a probe that waited in a hole counts only when there was no better one for long, and until there is. */
START_TEST(route_hole_does_not_stretch_the_round_trip)
{
    tf_link_route route = route_with(0);
    uint64_t probe = tf_link_route_take_probe(&route, START);
    ck_assert(tf_link_route_pong(&route, START + 20 * TF_MS, probe));
    probe = tf_link_route_take_probe(&route, START);
    ck_assert(tf_link_route_pong(&route, START + 20 * TF_MS, probe));
    probe = tf_link_route_take_probe(&route, START);
    ck_assert(tf_link_route_pong(&route, START + 28 * TF_MS, probe));
    ck_assert_uint_eq(route.rtt.latest, 28 * TF_MS);
    ck_assert_uint_eq(route.rtt.smoothed, 21 * TF_MS);
    tf_link_route_set(&route, START + TF_SECOND, TF_VERDICT_DOWN);
    probe = tf_link_route_take_probe(&route, START + TF_SECOND);
    tf_link_route_set(&route, START + 4 * TF_SECOND, TF_VERDICT_UP);
    ck_assert(tf_link_route_pong(&route, START + 4 * TF_SECOND, probe));
    ck_assert_uint_eq(route.rtt.smoothed, 21 * TF_MS);
    tf_link_route_set(&route, START + 5 * TF_SECOND, TF_VERDICT_STALLED);
    probe = tf_link_route_take_probe(&route, START + 19 * TF_SECOND);
    ck_assert(tf_link_route_pong(&route, START + 20 * TF_SECOND, probe));
    ck_assert_uint_gt(route.rtt.smoothed, 21 * TF_MS);
    uint64_t samples = route.rtt.samples;
    tf_link_route_set(&route, START + 20 * TF_SECOND, TF_VERDICT_UP);
    probe = tf_link_route_take_probe(&route, START + 20 * TF_SECOND); /* as soon as it is up */
    ck_assert(tf_link_route_pong(&route, START + 20 * TF_SECOND + 30 * TF_MS, probe));
    ck_assert_uint_eq(route.rtt.smoothed, 30 * TF_MS);
    ck_assert_uint_eq(route.rtt.least, 30 * TF_MS);
    ck_assert_uint_eq(route.rtt.samples, samples + 1);
}
END_TEST

START_TEST(route_answers_the_latest_probes_of_the_peer)
{
    tf_link_route route = route_with(0);
    for (uint64_t token = 0; token < 10; token++) {
        tf_link_route_pinged(&route, token);
        ck_assert_uint_eq(route.pong_count, token < TF_LINK_PONGS ? token + 1 : TF_LINK_PONGS);
        for (uint64_t i = 0; i < route.pong_count; i++) {
            ck_assert_uint_eq(route.pongs[route.pong_count - 1 - i], token - i);
        }
    }
}
END_TEST

/* --- data --- */

START_TEST(route_progress_counts_from_what_was_outstanding_first)
{
    tf_link_route route = route_with(0);
    tf_link_route_outstanding(&route, START + 1, false);
    ck_assert_uint_eq(route.progress_at, START);
    tf_link_route_outstanding(&route, START + 2, true);
    tf_link_route_outstanding(&route, START + 3, true);
    ck_assert_uint_eq(route.progress_at, START + 2);
    tf_link_route_progress(&route, START + 4);
    ck_assert_uint_eq(route.progress_at, START + 4);
    tf_link_route_outstanding(&route, START + 5, false);
    tf_link_route_outstanding(&route, START + 6, true);
    ck_assert_uint_eq(route.progress_at, START + 6);
    tf_link_route_start(&route, START + 7, TF_VERDICT_UP);
    ck_assert(!route.outstanding);
    ck_assert_uint_eq(route.progress_at, START + 7);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        route_that_comes_up_is_probed_at_once,
        route_without_traffic_is_probed_once_a_keepalive,
        route_keepalive_that_cannot_go_is_due_a_keepalive_later,
        route_with_traffic_is_probed_every_2_pto_or_250_ms,
        route_without_transport_is_not_probed,
        route_is_down_after_three_probes_without_an_answer,
        route_is_down_after_three_keepalives_of_the_peer,
        route_that_is_down_is_probed_more_and_more_rarely,
        route_keepalive_is_no_probe_without_an_answer,
        route_of_a_peer_without_keepalives_is_never_too_silent,
        route_that_is_not_there_yet_has_nothing_due,
        route_that_starts_anew_owes_and_is_owed_nothing,
        route_that_stalls_again_and_again_is_not_trusted_for_longer_and_longer,
        route_that_is_told_the_verdict_it_has_is_not_changed,
        route_that_was_away_for_long_is_trusted_at_once,
        route_takes_answers_to_its_own_probes_only,
        route_knows_the_times_of_its_last_probes,
        route_hole_does_not_stretch_the_round_trip,
        route_answers_the_latest_probes_of_the_peer,
        route_progress_counts_from_what_was_outstanding_first,
        NULL,
    };
    return tf_test_run("paths/link_route", tests);
}
