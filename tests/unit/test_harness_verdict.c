/* The verdict on a run: what is missing, twice, late or out of order is counted as such, by phase and by route, and
 * what was expected is compared with it. */
#include "tests/harness/body.h"
#include "tests/harness/report.h"
#include "tests/harness/verdict.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define FILE_TEXT                                                                                                      \
    "[nodes]\nrelay R\nclient A\nclient B direct\n[traffic]\nA -> c rate 10/s count 10\nc -> B\n"                      \
    "[timeline]\nat 300ms for 400ms stream cut\n[expect]\nrescues >= 1\nlongest-gap <= 250ms\n"

static tf_scenario s;

static tf_lab_verdict *begin(const char *text)
{
    tf_scenario_errors errors;
    tf_lab_verdict *v = NULL;
    ck_assert(tf_scenario_parse(&s, tf_slice_str(text), &errors));
    ck_assert_int_eq(tf_lab_verdict_new(&v, &s, 4, tf_test_mem()), TF_OK);
    return v;
}

/* Message i is sent and acked, and delivered 20 ms after it was due. */
static void pass(tf_lab_verdict *v, uint32_t number)
{
    tf_lab_verdict_sent(v, 0, number);
    tf_lab_verdict_acked(v, 0, number);
    tf_lab_verdict_delivered(v, 0, 0, number, tf_scenario_due(&s, 0, number) + 20 * TF_MS, true);
}

static void sample(tf_lab_verdict *v, uint32_t client, tf_time at, uint64_t first, uint64_t told)
{
    tf_lab_sample one = {.at = at, .sessions = 1};
    one.routes[TF_ROUTE_DATAGRAM] =
        (tf_lab_route){.first = first, .only = first / 2, .told_first = told, .sent = 3 * told, .received = first};
    one.routes[TF_ROUTE_STREAM] = (tf_lab_route){.told_repeats = told / 2};
    tf_lab_verdict_sample(v, client, &one);
}

START_TEST(verdict_run_that_is_whole_holds)
{
    tf_lab_verdict *v = begin(FILE_TEXT);
    for (uint32_t i = 0; i < 10; i++) {
        ck_assert(!tf_lab_verdict_is_complete(v, 0));
        pass(v, i);
    }
    ck_assert(tf_lab_verdict_is_complete(v, 0));
    sample(v, 1, 900 * TF_MS, 2, 0);
    const tf_lab_results *r = tf_lab_verdict_end(v, TF_SECOND);
    ck_assert_uint_eq(r->broken_count, 0);
    ck_assert_uint_eq(r->totals[TF_KEY_DELIVERED], 10);
    ck_assert_uint_eq(r->totals[TF_KEY_LONGEST_GAP], 100 * TF_MS);
    ck_assert_uint_eq(r->totals[TF_KEY_LONGEST_DELAY], 20 * TF_MS);
    ck_assert_uint_eq(r->pairs[0].delay_p50, 20 * TF_MS);
    tf_lab_verdict_free(v);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}
END_TEST

START_TEST(verdict_each_kind_of_fault_is_counted_as_itself)
{
    tf_lab_verdict *v = begin(FILE_TEXT);
    for (uint32_t i = 0; i < 6; i++) {
        pass(v, i);
    }
    tf_lab_verdict_delivered(v, 0, 0, 3, 600 * TF_MS, true); /* again */
    pass(v, 7);
    pass(v, 6);                   /* late */
    tf_lab_verdict_sent(v, 0, 8); /* lost, and not acked */
    tf_lab_verdict_delivered(v, 0, 0, 8, 850 * TF_MS, false);
    tf_lab_verdict_delivered(v, 0, 99, 0, 850 * TF_MS, false); /* of no flow */
    tf_lab_verdict_delivered(v, 0, 0, 10, 850 * TF_MS, true);  /* of no number */
    const tf_lab_results *r = tf_lab_verdict_end(v, TF_SECOND);
    ck_assert_uint_eq(r->totals[TF_KEY_DELIVERED], 8);
    ck_assert_uint_eq(r->totals[TF_KEY_LOST], 1);
    ck_assert_uint_eq(r->totals[TF_KEY_REPEATED], 1);
    ck_assert_uint_eq(r->totals[TF_KEY_MISORDERED], 1);
    ck_assert_uint_eq(r->totals[TF_KEY_ALTERED], 3);
    ck_assert_uint_eq(r->totals[TF_KEY_UNACKED], 1);
    ck_assert_uint_eq(r->totals[TF_KEY_UNSENT], 1);
    ck_assert_uint_eq(r->broken_count, 8); /* these, no rescue, and nothing after 0.62 s */
    ck_assert_int_eq(r->broken[0].expect.key, TF_KEY_RESCUES);
    tf_lab_verdict_free(v);
}
END_TEST

START_TEST(verdict_refused_message_is_refused_and_not_lost)
{
    tf_lab_verdict *v = begin(FILE_TEXT);
    for (uint32_t i = 0; i < 9; i++) {
        pass(v, i);
    }
    tf_lab_verdict_sent(v, 0, 9);
    tf_lab_verdict_refused(v, 0, 9);
    const tf_lab_results *r = tf_lab_verdict_end(v, TF_SECOND);
    ck_assert_uint_eq(r->totals[TF_KEY_LOST], 0);
    ck_assert_uint_eq(r->totals[TF_KEY_UNACKED], 0);
    ck_assert_uint_eq(r->totals[TF_KEY_REFUSED], 1);
    tf_lab_verdict_free(v);
}
END_TEST

START_TEST(verdict_gap_belongs_to_every_phase_in_which_it_lies)
{
    tf_lab_verdict *v = begin(FILE_TEXT); /* phases: 0 to 0.3 s, to 0.7 s, to the end */
    for (uint32_t i = 0; i < 10; i++) {
        tf_lab_verdict_sent(v, 0, i);
        tf_lab_verdict_acked(v, 0, i);
        tf_time due = tf_scenario_due(&s, 0, i);
        tf_lab_verdict_delivered(v, 0, 0, i, i >= 4 && i <= 7 ? 750 * TF_MS : due, true);
    }
    const tf_lab_results *r = tf_lab_verdict_end(v, TF_SECOND);
    ck_assert_uint_eq(r->phase_count, 3);
    ck_assert_uint_eq(r->phases[0].gap, 100 * TF_MS);
    ck_assert_uint_eq(r->phases[1].gap, 450 * TF_MS);
    ck_assert_uint_eq(r->phases[2].gap, 450 * TF_MS);
    ck_assert_uint_eq(r->pairs[0].gap_at, 300 * TF_MS);
    ck_assert_uint_eq(r->phases[0].delivered, 3);
    ck_assert_uint_eq(r->phases[1].delivered, 1);
    ck_assert_uint_eq(r->phases[2].delivered, 6);
    ck_assert_uint_eq(r->phases[2].delay, 350 * TF_MS);
    tf_lab_verdict_free(v);
}
END_TEST

START_TEST(verdict_missing_end_counts_as_a_gap)
{
    tf_lab_verdict *v = begin(FILE_TEXT);
    for (uint32_t i = 0; i < 5; i++) {
        pass(v, i);
    }
    const tf_lab_results *r = tf_lab_verdict_end(v, 5 * TF_SECOND);
    ck_assert_uint_eq(r->totals[TF_KEY_LONGEST_GAP], 5 * TF_SECOND - 420 * TF_MS);
    ck_assert_uint_eq(r->totals[TF_KEY_UNSENT], 5);
    tf_lab_verdict_free(v);
}
END_TEST

START_TEST(verdict_wins_and_rescues_are_those_of_their_phase_and_route)
{
    tf_lab_verdict *v = begin(FILE_TEXT);
    sample(v, 1, 100 * TF_MS, 10, 0);
    sample(v, 1, 200 * TF_MS, 20, 0);
    sample(v, 1, 700 * TF_MS, 50, 100);
    sample(v, 2, 700 * TF_MS, 1000, 1000); /* direct: does not count */
    const tf_lab_results *r = tf_lab_verdict_end(v, TF_SECOND);
    ck_assert_uint_eq(r->phases[0].wins[TF_ROUTE_DATAGRAM], 20);
    ck_assert_uint_eq(r->phases[0].rescues[TF_ROUTE_DATAGRAM], 10);
    ck_assert_uint_eq(r->phases[1].wins[TF_ROUTE_DATAGRAM], 130);
    ck_assert_uint_eq(r->phases[1].rescues[TF_ROUTE_DATAGRAM], 15 + 50);
    ck_assert_uint_eq(r->phases[1].wins[TF_ROUTE_STREAM], 0);
    ck_assert_uint_eq(r->totals[TF_KEY_RESCUES], 25 + 50);
    ck_assert_uint_eq(r->totals[TF_KEY_SESSIONS], 2);
    ck_assert_uint_eq(r->totals[TF_KEY_COPIES], 300 + 50);
    tf_lab_verdict_free(v);
}
END_TEST

START_TEST(verdict_samples_beyond_the_room_keep_the_last)
{
    tf_lab_verdict *v = begin(FILE_TEXT);
    for (uint64_t i = 1; i <= 9; i++) {
        sample(v, 1, i * TF_MS, i, 0);
    }
    tf_lab_sample at;
    tf_lab_verdict_sample_at(v, 1, TF_NEVER, &at);
    ck_assert_uint_eq(at.routes[TF_ROUTE_DATAGRAM].first, 9);
    tf_lab_verdict_sample_at(v, 1, 2 * TF_MS, &at);
    ck_assert_uint_eq(at.routes[TF_ROUTE_DATAGRAM].first, 2);
    tf_lab_verdict_sample_at(v, 1, 0, &at);
    ck_assert_uint_eq(at.routes[TF_ROUTE_DATAGRAM].first, 0);
    tf_lab_verdict_free(v);
}
END_TEST

START_TEST(verdict_relations_hold_at_their_edges)
{
    static const struct {
        const char *relation;
        bool below;
        bool equal;
        bool above;
    } rows[] = {{"=", false, true, false}, {"", false, true, false},  {"<=", true, true, false},
                {">=", false, true, true}, {"<", true, false, false}, {">", false, false, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool wanted[] = {rows[i].below, rows[i].equal, rows[i].above};
        for (unsigned got = 0; got < 3; got++) {
            char text[512];
            (void)snprintf(text, sizeof(text),
                           "[nodes]\nrelay R\nclient A\nclient B\n[traffic]\nA -> c rate 10/s count 3\nc -> B\n"
                           "[expect]\ndelivered %s 1\nunsent < 9\nlost < 9\n",
                           rows[i].relation);
            tf_lab_verdict *v = begin(text);
            for (unsigned k = 0; k < got; k++) {
                pass(v, k);
            }
            ck_assert_msg((tf_lab_verdict_end(v, TF_SECOND)->broken_count == 0) == wanted[got], "'%s' %u",
                          rows[i].relation, got);
            tf_lab_verdict_free(v);
        }
    }
}
END_TEST

START_TEST(verdict_failed_allocations_leave_nothing)
{
    tf_scenario_errors errors;
    ck_assert(tf_scenario_parse(&s, tf_slice_str(FILE_TEXT), &errors));
    for (uint64_t k = 0;; k++) {
        tf_lab_verdict *v = NULL;
        tf_test_heap_fail_at(tf_test_heap_shared(), k, false);
        tf_err err = tf_lab_verdict_new(&v, &s, 4, tf_test_mem());
        tf_test_heap_fail_never(tf_test_heap_shared());
        tf_lab_verdict_free(v);
        ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
        if (err == TF_OK) {
            ck_assert_uint_gt(k, 3);
            break;
        }
        ck_assert_int_eq(err, TF_ERR_NOMEM);
    }
}
END_TEST

START_TEST(body_that_is_not_as_it_was_sent_is_seen)
{
    uint8_t body[200];
    uint8_t other[200];
    uint32_t flow = 9;
    uint32_t number = 9;
    tf_lab_verdict_free(begin(FILE_TEXT));
    tf_lab_body_write(body, sizeof(body), 0, 3);
    ck_assert(tf_lab_body_read(tf_slice_of(body, sizeof(body)), &s, &flow, &number));
    ck_assert_uint_eq(flow, 0);
    ck_assert_uint_eq(number, 3);
    for (size_t i = 0; i < sizeof(body); i++) { /* each byte counts */
        body[i] ^= 1;
        ck_assert_msg(!tf_lab_body_read(tf_slice_of(body, sizeof(body)), &s, &flow, &number), "byte %zu", i);
        body[i] ^= 1;
        ck_assert(!tf_lab_body_read(tf_slice_of(body, i), &s, &flow, &number));
    }
    tf_lab_body_write(other, sizeof(other), 0, 4);
    memcpy(body + 100, other + 100, 100);
    ck_assert(!tf_lab_body_read(tf_slice_of(body, sizeof(body)), &s, &flow, &number));
    tf_lab_body_write(body, sizeof(body), 0, 10); /* beyond the flow */
    ck_assert(!tf_lab_body_read(tf_slice_of(body, sizeof(body)), &s, &flow, &number));
}
END_TEST

START_TEST(report_says_what_the_verdict_does)
{
    static char text[65536];
    tf_lab_verdict *v = begin(FILE_TEXT);
    for (uint32_t i = 0; i < 9; i++) {
        pass(v, i);
    }
    tf_lab_report report = {.s = &s, .verdict = v, .mode = "forwarders", .routes = TF_ROUTES_BOTH};
    report.results = tf_lab_verdict_end(v, TF_SECOND);
    void (*const kinds[])(const tf_lab_report *, const tf_lab_report *, FILE *) = {tf_lab_report_table,
                                                                                   tf_lab_report_svg};
    static const char *const words[][3] = {{"rescues was to be >= 1, and is 0", "broken: ", "stream cut"},
                                           {"<svg ", "stream cut", "</svg>"}};
    for (size_t i = 0; i < 2; i++) {
        FILE *out = fmemopen(text, sizeof(text), "w");
        ck_assert_ptr_nonnull(out);
        kinds[i](&report, &report, out);
        ck_assert_int_eq(fclose(out), 0);
        for (size_t k = 0; k < 3; k++) {
            ck_assert_msg(strstr(text, words[i][k]) != NULL, "%s", words[i][k]);
        }
    }
    FILE *out = fmemopen(text, sizeof(text), "w");
    ck_assert_ptr_nonnull(out);
    tf_lab_report_json(&report, out);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"held\":false"));
    ck_assert_ptr_nonnull(strstr(text, "\"unsent\":1,"));
    ck_assert_ptr_eq(strchr(text, '\n') + 1, text + strlen(text));
    tf_lab_verdict_free(v);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        verdict_run_that_is_whole_holds,
        verdict_each_kind_of_fault_is_counted_as_itself,
        verdict_refused_message_is_refused_and_not_lost,
        verdict_gap_belongs_to_every_phase_in_which_it_lies,
        verdict_missing_end_counts_as_a_gap,
        verdict_wins_and_rescues_are_those_of_their_phase_and_route,
        verdict_samples_beyond_the_room_keep_the_last,
        verdict_relations_hold_at_their_edges,
        verdict_failed_allocations_leave_nothing,
        body_that_is_not_as_it_was_sent_is_seen,
        report_says_what_the_verdict_does,
        NULL,
    };
    return tf_test_run("tests/harness/verdict", tests);
}
