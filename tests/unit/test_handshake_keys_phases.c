/* handshake/keys: key phases, in order, out of it, and over a lossy network. */
#include "tests/unit/keys_ends.h"

/* -- phases -------------------------------------------------------------------------------------------------------- */

START_TEST(keys_phase_ends_after_its_packets_and_the_peer_follows)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 3});
    tf_keys *b = keys_of(false, (tf_keys_limits){.phase_packets = 100});
    for (uint64_t pn = 0; pn < 3; pn++) {
        packet p = seal(a, 0, pn);
        ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
    }
    ck_assert_uint_eq(stats_of(a).send_phase, 0);
    packet p = seal(a, 0, 3);
    ck_assert_uint_eq(stats_of(a).send_phase, 1);
    ck_assert_uint_eq(stats_of(a).receive_phase, 0);
    ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
    ck_assert_uint_eq(stats_of(b).send_phase, 1);
    ck_assert_uint_eq(stats_of(b).receive_phase, 1);
    packet back = seal(b, 0, 0);
    ck_assert_int_eq(open_only(a, 0, &back), TF_OK);
    ck_assert_uint_eq(stats_of(a).receive_phase, 1);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_both_begin_a_phase_at_once_and_stay_together)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 1});
    tf_keys *b = keys_of(false, (tf_keys_limits){.phase_packets = 1});
    for (uint64_t pn = 0; pn < 100; pn++) {
        packet up = seal(a, pn, pn);
        packet down = seal(b, pn, pn);
        ck_assert_int_eq(open_only(b, pn, &up), TF_OK);
        ck_assert_int_eq(open_only(a, pn, &down), TF_OK);
        ck_assert_uint_eq(stats_of(a).send_phase, pn);
        ck_assert_uint_eq(stats_of(a).receive_phase, pn);
        ck_assert_uint_eq(stats_of(b).send_phase, pn);
        ck_assert_uint_eq(stats_of(b).receive_phase, pn);
    }
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_phase_ends_with_its_age)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_age = 10 * TF_SECOND});
    (void)seal(a, 10 * TF_SECOND - 1, 0);
    ck_assert_uint_eq(stats_of(a).send_phase, 0);
    (void)seal(a, 10 * TF_SECOND, 1);
    ck_assert_uint_eq(stats_of(a).send_phase, 1);
    ck_assert_uint_eq(stats_of(a).phase_started, 10 * TF_SECOND);
    (void)seal(a, 30 * TF_SECOND, 2); /* the peer has not followed: it goes on */
    ck_assert_uint_eq(stats_of(a).send_phase, 1);
    tf_keys_free(a);
}
END_TEST

START_TEST(keys_peer_that_never_follows_uses_them_up)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 5});
    uint8_t buf[64];
    for (uint64_t pn = 0; pn < 15; pn++) { /* 5 of phase 0, 10 of phase 1 */
        (void)seal(a, 0, pn);
    }
    ck_assert(!tf_keys_is_exhausted(a));
    ck_assert_int_eq(tf_keys_seal(a, 0, 15, tf_slice_str("x"), buf, sizeof(buf)), TF_ERR_LIMIT_ITEMS);
    ck_assert(tf_keys_is_exhausted(a));
    tf_keys_free(a);
}
END_TEST

START_TEST(keys_ack_by_another_route_tells_that_the_peer_followed)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 5});
    for (uint64_t pn = 0; pn < 6; pn++) {
        (void)seal(a, 0, pn);
    }
    tf_keys_acked(a, 1, 4); /* of phase 0 */
    tf_keys_acked(a, 1, 6); /* never sent */
    ck_assert_uint_eq(stats_of(a).receive_phase, 0);
    tf_keys_acked(a, 1, 5);
    ck_assert_uint_eq(stats_of(a).receive_phase, 1);
    tf_keys_acked(a, 1, 5);
    ck_assert_uint_eq(stats_of(a).receive_phase, 1);
    for (uint64_t pn = 6; pn < 11; pn++) {
        (void)seal(a, 1, pn);
    }
    ck_assert_uint_eq(stats_of(a).send_phase, 2);
    tf_keys_free(a);
}
END_TEST

/* a in phase 0 (twin) and in phase 1, b in phase 1 after packet 10. */
typedef struct moved {
    tf_keys *a;
    tf_keys *twin;
    tf_keys *b;
} moved;

static moved moved_new(tf_time now)
{
    moved m = {keys_of(true, (tf_keys_limits){.phase_packets = 1}), keys_of(true, (tf_keys_limits){0}),
               keys_of(false, (tf_keys_limits){0})};
    packet p = seal(m.a, now, 5);
    ck_assert_int_eq(open_only(m.b, now, &p), TF_OK);
    p = seal(m.a, now, 10);
    ck_assert_int_eq(open_only(m.b, now, &p), TF_OK);
    ck_assert_uint_eq(stats_of(m.b).receive_phase, 1);
    return m;
}

static void moved_free(moved *m)
{
    tf_keys_free(m->a);
    tf_keys_free(m->twin);
    tf_keys_free(m->b);
}

START_TEST(keys_late_packet_of_the_phase_before_opens_within_the_grace)
{
    moved m = moved_new(100);
    packet in_time = seal(m.twin, 100, 6);
    packet too_late = seal(m.twin, 100, 7);
    tf_time end = 100 + 1 * TF_SECOND; /* until set_grace is called */
    ck_assert_uint_eq(tf_keys_deadline(m.b), end);
    ck_assert_int_eq(open_only(m.b, end - 1, &in_time), TF_OK);
    ck_assert_int_eq(open_only(m.b, end, &too_late), TF_ERR_PEER_STATE);
    ck_assert_uint_eq(tf_keys_deadline(m.b), TF_NEVER);
    ck_assert_uint_eq(stats_of(m.b).misphased, 1);
    ck_assert_uint_eq(stats_of(m.b).forged, 0);
    moved_free(&m);
}
END_TEST

START_TEST(keys_grace_is_what_was_set)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 1});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    tf_keys_set_grace(b, 30 * TF_MS);
    for (uint64_t pn = 0; pn < 2; pn++) {
        packet p = seal(a, 0, pn);
        ck_assert_int_eq(open_only(b, 7, &p), TF_OK);
    }
    ck_assert_uint_eq(tf_keys_deadline(b), 7 + 30 * TF_MS);
    tf_keys_tick(b, 6 + 30 * TF_MS);
    ck_assert_uint_eq(tf_keys_deadline(b), 7 + 30 * TF_MS);
    tf_keys_tick(b, 7 + 30 * TF_MS);
    ck_assert_uint_eq(tf_keys_deadline(b), TF_NEVER);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_higher_number_under_an_older_phase_is_dropped)
{
    moved m = moved_new(0);
    packet between = seal(m.twin, 0, 9);
    packet higher = seal(m.twin, 0, 11);
    ck_assert_int_eq(open_only(m.b, 0, &higher), TF_ERR_PEER_STATE);
    ck_assert_int_eq(open_only(m.b, 0, &between), TF_OK);
    ck_assert_uint_eq(stats_of(m.b).misphased, 1);
    moved_free(&m);
}
END_TEST

START_TEST(keys_number_below_one_of_the_phase_before_is_dropped)
{
    moved m = moved_new(0);
    tf_keys *ahead = keys_of(true, (tf_keys_limits){.phase_packets = 1});
    packet of_before = seal(m.twin, 0, 8);
    (void)seal(ahead, 0, 0);
    packet lower = seal(ahead, 0, 7); /* phase 1 */
    ck_assert_int_eq(open_only(m.b, 0, &of_before), TF_OK);
    ck_assert_int_eq(open_only(m.b, 0, &lower), TF_ERR_PEER_STATE);
    tf_keys_free(ahead);
    moved_free(&m);
}
END_TEST

START_TEST(keys_lower_number_under_a_newer_phase_is_dropped)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){0});
    tf_keys *twin = keys_of(true, (tf_keys_limits){.phase_packets = 1});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    packet p = seal(a, 0, 20);
    ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
    (void)seal(twin, 0, 0);
    p = seal(twin, 0, 19); /* phase 1 */
    ck_assert_int_eq(open_only(b, 0, &p), TF_ERR_PEER_STATE);
    p = seal(twin, 0, 21);
    ck_assert_int_eq(open_only(b, 0, &p), TF_OK);
    ck_assert_uint_eq(stats_of(b).receive_phase, 1);
    tf_keys_free(a);
    tf_keys_free(twin);
    tf_keys_free(b);
}
END_TEST

START_TEST(keys_phase_too_far_ahead_costs_no_trial)
{
    tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 1});
    tf_keys *b = keys_of(false, (tf_keys_limits){0});
    for (uint64_t pn = 0; pn < 9; pn++) {
        packet p = seal(a, 0, pn);
        unsigned ahead = (unsigned)(pn % 4); /* as b sees it, which stays in phase 0 */
        if (ahead == 2 || ahead == 3) {
            ck_assert_int_eq(open_only(b, 0, &p), TF_ERR_PEER_STATE);
        }
        tf_keys_acked(a, 0, pn);
    }
    ck_assert_uint_eq(stats_of(a).send_phase, 8);
    ck_assert_uint_eq(stats_of(b).misphased, 4);
    ck_assert_uint_eq(stats_of(b).forged, 0);
    ck_assert_uint_eq(stats_of(b).receive_phase, 0);
    tf_keys_free(a);
    tf_keys_free(b);
}
END_TEST

/* -- a lossy network ----------------------------------------------------------------------------------------------- */

#define FLIGHT 64u

typedef struct way {
    tf_keys *from;
    tf_keys *to;
    uint64_t next;
    size_t count;
    packet flying[FLIGHT];
    uint64_t highest_acked;
    uint64_t delivered;
} way;

static void way_step(way *w, tf_test_random *random, tf_time now)
{
    tf_opened opened;
    if (w->count < FLIGHT && tf_test_random_chance(random, 1, 2)) {
        w->next += 1 + tf_test_random_below(random, 3);
        w->flying[w->count++] = seal(w->from, now, w->next);
    }
    if (w->count == 0 || tf_test_random_chance(random, 1, 3)) {
        return;
    }
    size_t pick = tf_test_random_below(random, w->count);
    tf_err err = open_at(w->to, now, &w->flying[pick], &opened);
    ck_assert(err == TF_OK || err == TF_ERR_PEER_REPLAY || err == TF_ERR_PEER_STATE);
    if (err == TF_OK) {
        w->delivered++;
        w->highest_acked = opened.pn > w->highest_acked ? opened.pn : w->highest_acked;
    }
    if (tf_test_random_chance(random, 3, 4)) { /* else it comes again */
        w->flying[pick] = w->flying[--w->count];
    }
    if (tf_test_random_chance(random, 1, 4)) {
        tf_keys_acked(w->from, now, w->highest_acked);
    }
}

static void assert_together(const tf_keys *keys)
{
    tf_keys_stats stats = stats_of(keys);
    ck_assert(stats.send_phase == stats.receive_phase || stats.send_phase == stats.receive_phase + 1);
    ck_assert_uint_eq(stats.forged, 0);
    ck_assert_uint_eq(stats.malformed, 0);
}

START_TEST(keys_random_traffic_follows_phases)
{
    static way up;
    static way down;
    for (uint64_t seed = 0; seed < 8; seed++) {
        tf_test_random random;
        tf_test_random_init(&random, seed);
        tf_keys *a = keys_of(true, (tf_keys_limits){.phase_packets = 50});
        tf_keys *b = keys_of(false, (tf_keys_limits){.phase_packets = 70});
        up = (way){.from = a, .to = b};
        down = (way){.from = b, .to = a};
        tf_keys_set_grace(a, 40);
        tf_keys_set_grace(b, 40);
        for (tf_time now = 0; now < 4000; now++) {
            way_step(&up, &random, now);
            way_step(&down, &random, now);
            assert_together(a);
            assert_together(b);
        }
        ck_assert_uint_gt(stats_of(a).send_phase, 10);
        ck_assert_uint_gt(up.delivered, 1000);
        ck_assert_uint_gt(down.delivered, 1000);
        ck_assert(!tf_keys_is_exhausted(a) && !tf_keys_is_exhausted(b));
        tf_keys_free(a);
        tf_keys_free(b);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        keys_phase_ends_after_its_packets_and_the_peer_follows,
        keys_both_begin_a_phase_at_once_and_stay_together,
        keys_phase_ends_with_its_age,
        keys_peer_that_never_follows_uses_them_up,
        keys_ack_by_another_route_tells_that_the_peer_followed,
        keys_late_packet_of_the_phase_before_opens_within_the_grace,
        keys_grace_is_what_was_set,
        keys_higher_number_under_an_older_phase_is_dropped,
        keys_number_below_one_of_the_phase_before_is_dropped,
        keys_lower_number_under_a_newer_phase_is_dropped,
        keys_phase_too_far_ahead_costs_no_trial,
        keys_random_traffic_follows_phases,
        NULL,
    };
    return tf_test_run("handshake/keys phases", tests);
}
