/* paths/link_mtu by itself: what a search finds, when it begins, and what it takes for a black hole. */
#include "paths/link_mtu.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define PTO (50 * TF_MS)
#define SMALL 100u

typedef struct path {
    tf_link_mtu mtu;
    tf_time now;
    size_t takes; /* 0: nothing at all */
    unsigned probes;
} path;

static path path_of(size_t takes)
{
    path p = {.now = TF_SECOND, .takes = takes};
    tf_link_mtu_init(&p.mtu);
    return p;
}

/* One packet, of which is known at once what became of it. */
static tf_link_mtu_verdict packet(path *p, size_t size, bool arrives)
{
    p->now += TF_MS;
    if (arrives) {
        tf_link_mtu_acked(&p->mtu, p->now + TF_MS, size, p->now);
    } else {
        tf_link_mtu_lost(&p->mtu, p->now + TF_MS, size, p->now);
    }
    p->now += TF_MS;
    return tf_link_mtu_judge(&p->mtu, p->now);
}

/* Sends the probe that is wanted; false: none is. */
static bool probe(path *p)
{
    size_t size = tf_link_mtu_wanted(&p->mtu);
    if (size == 0) {
        return false;
    }
    p->probes++;
    tf_link_mtu_probed(&p->mtu, p->now + TF_MS, PTO);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p->mtu), 0);
    (void)packet(p, size, size <= p->takes);
    return true;
}

/* Segments go out, and a search that this begins is done; the size that packets may have then. */
static size_t search(path *p)
{
    p->probes = 0;
    tf_link_mtu_used(&p->mtu, p->now);
    while (probe(p)) {
        ck_assert_uint_le(p->probes, 100);
    }
    return p->mtu.size;
}

/* --- the search --- */

START_TEST(link_mtu_search_finds_the_largest_size_that_passes)
{
    static const struct {
        size_t takes;
        size_t found;
        unsigned probes;
    } rows[] = {{9000, 1472, 1},  {1472, 1472, 1},  {1471, 1452, 4},  {1452, 1452, 4},
                {1451, 1392, 7},  {1392, 1392, 7},  {1391, 1252, 10}, {1252, 1252, 10},
                {1251, 1200, 12}, {1200, 1200, 12}, {0, 1200, 12}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        path p = path_of(rows[i].takes);
        ck_assert_uint_eq(p.mtu.size, TF_PACKET_BASE);
        ck_assert_uint_eq(search(&p), rows[i].found);
        ck_assert_uint_eq(p.probes, rows[i].probes);
    }
}
END_TEST

START_TEST(link_mtu_search_begins_with_data_only)
{
    path p = path_of(9000);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), 0);
    ck_assert_uint_eq(tf_link_mtu_deadline(&p.mtu), TF_NEVER);
    tf_link_mtu_used(&p.mtu, p.now);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_MAX);
    ck_assert_uint_eq(tf_link_mtu_deadline(&p.mtu), TF_NEVER);
}
END_TEST

START_TEST(link_mtu_lost_probe_is_tried_three_times)
{
    path p = path_of(9000);
    tf_link_mtu_used(&p.mtu, p.now);
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_MAX);
        p.takes = 0;
        ck_assert(probe(&p));
    }
    p.takes = 9000;
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
    ck_assert_uint_eq(p.probes, 1);
}
END_TEST

START_TEST(link_mtu_larger_size_is_tried_again_after_600_s_with_data)
{
    path p = path_of(1400);
    ck_assert_uint_eq(search(&p), 1392);
    tf_time ended = p.now;
    p.takes = 1460;
    p.now = ended + TF_MTU_RAISE - 2 * TF_MS;
    ck_assert_uint_eq(search(&p), 1392);
    ck_assert_uint_eq(p.probes, 0);
    p.now = ended + TF_MTU_RAISE;
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), 0); /* not by itself */
    ck_assert_uint_eq(search(&p), 1452);
    ck_assert_uint_eq(p.probes, 4);
    p.takes = 9000;
    p.now += TF_MTU_RAISE;
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
    p.now += 10 * TF_MTU_RAISE;
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
    ck_assert_uint_eq(p.probes, 0); /* there is nothing above it */
}
END_TEST

START_TEST(link_mtu_probe_in_flight_is_asked_after_once)
{
    path p = path_of(9000);
    tf_link_mtu_used(&p.mtu, p.now);
    tf_link_mtu_probed(&p.mtu, p.now, PTO);
    ck_assert_uint_eq(tf_link_mtu_deadline(&p.mtu), p.now + PTO);
    ck_assert(!tf_link_mtu_tick(&p.mtu, p.now + PTO - 1));
    ck_assert(tf_link_mtu_tick(&p.mtu, p.now + PTO));
    ck_assert(!tf_link_mtu_tick(&p.mtu, p.now + 2 * PTO));
    ck_assert_uint_eq(tf_link_mtu_deadline(&p.mtu), TF_NEVER);
    tf_link_mtu_acked(&p.mtu, p.now + 3 * PTO, TF_PACKET_MAX, p.now);
    ck_assert_uint_eq(p.mtu.size, TF_PACKET_MAX);
}
END_TEST

START_TEST(link_mtu_probe_of_gone_keys_is_sent_again)
{
    path p = path_of(9000);
    tf_link_mtu_used(&p.mtu, p.now);
    for (unsigned i = 0; i < 10; i++) {
        tf_link_mtu_probed(&p.mtu, p.now, PTO);
        tf_link_mtu_forget(&p.mtu);
        ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_MAX);
    }
}
END_TEST

START_TEST(link_mtu_of_another_path_is_not_known)
{
    path p = path_of(9000);
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
    tf_link_mtu_restart(&p.mtu);
    ck_assert_uint_eq(p.mtu.size, TF_PACKET_BASE);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), 0);
    p.takes = 1460;
    ck_assert_uint_eq(search(&p), 1452);
}
END_TEST

/* --- EMSGSIZE --- */

START_TEST(link_mtu_refused_size_is_left_at_once)
{
    static const struct {
        size_t takes;
        size_t refused;
        size_t at_once;
        size_t found;
    } rows[] = {{9000, 1472, 1200, 1452}, {9000, 1453, 1200, 1452}, {9000, 1201, 1200, 1200}, {9000, 1200, 1472, 1472},
                {1460, 1472, 1452, 1452}, {1460, 1452, 1200, 1392}, {9000, 9000, 1472, 1472}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        path p = path_of(rows[i].takes);
        (void)search(&p);
        tf_link_mtu_refused(&p.mtu, p.now, rows[i].refused);
        ck_assert_uint_eq(p.mtu.size, rows[i].at_once);
        ck_assert_uint_eq(search(&p), rows[i].found);
        ck_assert_uint_eq(p.mtu.falls, rows[i].at_once == TF_PACKET_BASE ? 1 : 0);
    }
}
END_TEST

START_TEST(link_mtu_refused_probe_needs_no_further_tries)
{
    path p = path_of(9000);
    tf_link_mtu_used(&p.mtu, p.now);
    tf_link_mtu_probed(&p.mtu, p.now, PTO);
    tf_link_mtu_refused(&p.mtu, p.now, TF_PACKET_MAX);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), 1452);
    ck_assert_uint_eq(search(&p), 1452);
    p.now += TF_MTU_RAISE; /* the device may be another one by then */
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
}
END_TEST

/* --- black holes --- */

START_TEST(link_mtu_black_hole_falls_to_the_base_size_and_searches_below)
{
    path p = path_of(9000);
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
    p.takes = 1300;
    for (unsigned i = 0; i < TF_MTU_LOST; i++) {
        ck_assert_uint_eq(p.mtu.size, TF_PACKET_MAX);
        (void)packet(&p, 1201 + i, false);
    }
    ck_assert_uint_eq(p.mtu.size, TF_PACKET_MAX); /* nothing arrived: it may be a hole */
    (void)packet(&p, SMALL, true);
    ck_assert_uint_eq(p.mtu.size, TF_PACKET_BASE);
    ck_assert_uint_eq(p.mtu.falls, 1);
    (void)packet(&p, TF_PACKET_MAX, false); /* one more that was on its way says nothing of the base size */
    ck_assert_uint_eq(p.mtu.run, 0);
    ck_assert_uint_eq(search(&p), 1252);
    ck_assert_uint_eq(p.probes, 10);
}
END_TEST

/* Each row is a string of packets: L large, s small, in capitals those that arrive. */
START_TEST(link_mtu_loss_that_is_none_of_size_is_no_black_hole)
{
    static const struct {
        const char *packets;
        bool falls;
    } rows[] = {
        {"llllS", true},     {"lSlll", true},    {"SSSllll", false},    {"llllsS", false},
        {"lllLllS", false},  {"lllsllS", false}, {"llllllllll", false}, {"lllS", false},
        {"slSlSlSlS", true}, {"lsllllS", true},  {"llllssssLS", false}, {"LLLLllllS", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        path p = path_of(9000);
        ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
        for (const char *c = rows[i].packets; *c != '\0'; c++) {
            bool large = *c == 'l' || *c == 'L';
            (void)packet(&p, large ? TF_PACKET_MAX : SMALL, *c == 'L' || *c == 'S');
        }
        ck_assert_msg(p.mtu.falls == (rows[i].falls ? 1 : 0), "%s", rows[i].packets);
    }
}
END_TEST

/* One in five of all packets is lost, probes too: a fall is rare, and what it costs are a few probes. */
START_TEST(link_mtu_random_loss_does_not_lower_it)
{
    tf_test_random random;
    tf_test_random_init(&random, 1);
    path p = path_of(9000);
    unsigned lower = 0;
    for (unsigned i = 0; i < 100000; i++) {
        tf_link_mtu_used(&p.mtu, p.now);
        size_t size = tf_link_mtu_wanted(&p.mtu);
        if (size != 0) {
            tf_link_mtu_probed(&p.mtu, p.now + TF_MS, PTO);
        } else {
            size = tf_test_random_chance(&random, 1, 2) ? p.mtu.size : SMALL;
        }
        ck_assert_int_eq(packet(&p, size, !tf_test_random_chance(&random, 1, 5)), TF_LINK_MTU_FINE);
        lower += p.mtu.size < 1452 ? 1 : 0;
    }
    ck_assert_uint_le(p.mtu.falls, 40);
    ck_assert_uint_le(lower, 300);
}
END_TEST

/* A hole of any length, into which packets of both sizes go. */
START_TEST(link_mtu_hole_of_the_path_does_not_lower_it)
{
    for (unsigned length = 1; length < 100; length++) {
        path p = path_of(9000);
        ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
        for (unsigned i = 0; i < length; i++) {
            (void)packet(&p, i % 3 == 2 ? SMALL : TF_PACKET_MAX, false);
        }
        (void)packet(&p, SMALL, true);
        (void)packet(&p, TF_PACKET_MAX, true);
        ck_assert_uint_eq(p.mtu.size, TF_PACKET_MAX);
        ck_assert_uint_eq(p.mtu.falls, 0);
    }
}
END_TEST

/* --- below the base size --- */

static tf_link_mtu_verdict lose_base(path *p, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        (void)packet(p, TF_PACKET_BASE, false);
    }
    return packet(p, SMALL, true);
}

START_TEST(link_mtu_path_below_the_base_size_is_told)
{
    path p = path_of(TF_PACKET_BASE);
    (void)search(&p);
    p.takes = 1000;
    ck_assert_int_eq(lose_base(&p, TF_MTU_LOST), TF_LINK_MTU_FINE);
    p.probes = 0;
    while (tf_link_mtu_judge(&p.mtu, p.now) == TF_LINK_MTU_FINE) {
        ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_BASE);
        ck_assert(probe(&p));
    }
    ck_assert_uint_eq(p.probes, TF_MTU_BASE_PROBES);
    ck_assert_uint_eq(p.mtu.falls, 0);
}
END_TEST

START_TEST(link_mtu_base_size_that_passes_ends_its_test)
{
    path p = path_of(9000);
    (void)search(&p);
    p.takes = 1252;
    ck_assert_int_eq(lose_base(&p, 0), TF_LINK_MTU_FINE);
    for (unsigned i = 0; i < TF_MTU_LOST; i++) {
        (void)packet(&p, TF_PACKET_MAX, false);
    }
    (void)packet(&p, SMALL, true);
    ck_assert_uint_eq(p.mtu.falls, 1);
    ck_assert_int_eq(lose_base(&p, TF_MTU_LOST), TF_LINK_MTU_FINE); /* while it searches */
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_BASE);
    ck_assert(probe(&p));
    ck_assert_int_eq(tf_link_mtu_judge(&p.mtu, p.now), TF_LINK_MTU_FINE);
    ck_assert_uint_eq(search(&p), 1252); /* the search was not given up */
}
END_TEST

/* --- packets that are told of in another order than they were sent --- */

START_TEST(link_mtu_large_packet_that_arrived_later_excuses_those_before_it)
{
    path p = path_of(9000);
    ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
    const tf_time first = p.now;
    tf_link_mtu_acked(&p.mtu, first + 20, TF_PACKET_MAX, first + 9);
    tf_link_mtu_acked(&p.mtu, first + 20, TF_PACKET_MAX, first + 1); /* an older one changes nothing */
    for (tf_time i = 2; i < 9; i++) {
        tf_link_mtu_lost(&p.mtu, first + 20, TF_PACKET_MAX, first + i);
    }
    tf_link_mtu_acked(&p.mtu, first + 20, SMALL, first + 10);
    tf_link_mtu_acked(&p.mtu, first + 20, SMALL, first + 1);
    ck_assert_int_eq(tf_link_mtu_judge(&p.mtu, first + 20), TF_LINK_MTU_FINE);
    ck_assert_uint_eq(p.mtu.falls, 0);
    for (tf_time i = 11; i < 15; i++) {
        tf_link_mtu_lost(&p.mtu, first + 20, TF_PACKET_MAX, first + i);
    }
    tf_link_mtu_acked(&p.mtu, first + 20, SMALL, first + 11);
    tf_link_mtu_acked(&p.mtu, first + 20, SMALL, first + 1); /* nor does a small one */
    ck_assert_int_eq(tf_link_mtu_judge(&p.mtu, first + 20), TF_LINK_MTU_FINE);
    ck_assert_uint_eq(p.mtu.falls, 1);
}
END_TEST

START_TEST(link_mtu_that_grew_is_judged_by_what_is_lost_then)
{
    path p = path_of(9000);
    tf_link_mtu_used(&p.mtu, p.now);
    tf_link_mtu_probed(&p.mtu, p.now, PTO);
    const tf_time probed = p.now;
    for (unsigned i = 0; i < TF_MTU_LOST - 1; i++) {
        (void)packet(&p, TF_PACKET_BASE, false);
    }
    tf_link_mtu_acked(&p.mtu, p.now, TF_PACKET_MAX, probed);
    ck_assert_uint_eq(p.mtu.size, TF_PACKET_MAX);
    (void)packet(&p, TF_PACKET_MAX, false);
    (void)packet(&p, SMALL, true);
    ck_assert_uint_eq(p.mtu.size, TF_PACKET_MAX);
    ck_assert_uint_eq(p.mtu.falls, 0);
}
END_TEST

START_TEST(link_mtu_base_size_is_not_proved_by_what_went_before_its_test)
{
    path p = path_of(TF_PACKET_BASE);
    (void)search(&p);
    const tf_time before = p.now;
    ck_assert_int_eq(lose_base(&p, TF_MTU_LOST), TF_LINK_MTU_FINE);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_BASE);
    tf_link_mtu_acked(&p.mtu, p.now, TF_PACKET_BASE, before);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_BASE);
    (void)packet(&p, TF_MTU_SMALL, true);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), TF_PACKET_BASE);
    (void)packet(&p, TF_MTU_SMALL + 1, true);
    ck_assert_uint_eq(tf_link_mtu_wanted(&p.mtu), 0);
}
END_TEST

/* One of exactly the base size is a small one: its loss shows that size is not what matters. */
START_TEST(link_mtu_lost_base_packet_excuses_the_large_ones)
{
    for (size_t over = 0; over < 2; over++) {
        path p = path_of(9000);
        ck_assert_uint_eq(search(&p), TF_PACKET_MAX);
        for (unsigned i = 0; i < TF_MTU_LOST; i++) {
            (void)packet(&p, TF_PACKET_MAX, false);
        }
        (void)packet(&p, TF_PACKET_BASE + over, false);
        (void)packet(&p, TF_PACKET_BASE, true);
        ck_assert_uint_eq(p.mtu.falls, over);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        link_mtu_search_finds_the_largest_size_that_passes,
        link_mtu_search_begins_with_data_only,
        link_mtu_lost_probe_is_tried_three_times,
        link_mtu_larger_size_is_tried_again_after_600_s_with_data,
        link_mtu_probe_in_flight_is_asked_after_once,
        link_mtu_probe_of_gone_keys_is_sent_again,
        link_mtu_of_another_path_is_not_known,
        link_mtu_refused_size_is_left_at_once,
        link_mtu_refused_probe_needs_no_further_tries,
        link_mtu_black_hole_falls_to_the_base_size_and_searches_below,
        link_mtu_loss_that_is_none_of_size_is_no_black_hole,
        link_mtu_random_loss_does_not_lower_it,
        link_mtu_hole_of_the_path_does_not_lower_it,
        link_mtu_path_below_the_base_size_is_told,
        link_mtu_base_size_that_passes_ends_its_test,
        link_mtu_large_packet_that_arrived_later_excuses_those_before_it,
        link_mtu_that_grew_is_judged_by_what_is_lost_then,
        link_mtu_base_size_is_not_proved_by_what_went_before_its_test,
        link_mtu_lost_base_packet_excuses_the_large_ones,
        NULL,
    };
    return tf_test_run("paths/link_mtu", tests);
}
