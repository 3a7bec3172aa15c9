/* node/cli/stats, node/cli/ping_report: counting, and the lines that are printed. */
#include "node/cli/ping_report.h"
#include "node/cli/stats.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

/* What is printed. */
typedef struct paper {
    char *text;
    size_t len;
    FILE *file;
} paper;

static void paper_open(paper *p)
{
    *p = (paper){0};
    p->file = open_memstream(&p->text, &p->len);
    ck_assert_ptr_nonnull(p->file);
}

static void paper_says(paper *p, const char *text)
{
    ck_assert_int_eq(fclose(p->file), 0);
    ck_assert_str_eq(p->text, text);
    free(p->text);
}

static void paper_has(paper *p, const char *const *texts)
{
    ck_assert_int_eq(fclose(p->file), 0);
    for (size_t i = 0; texts[i] != NULL; i++) {
        ck_assert_msg(strstr(p->text, texts[i]) != NULL, "'%s' is not in: %s", texts[i], p->text);
    }
    free(p->text);
}

/* -- times --------------------------------------------------------------------------------------------------------- */

START_TEST(stats_times_have_units_that_fit)
{
    static const struct {
        tf_time span;
        const char *text;
    } rows[] = {
        {0, "0.000 ms"},
        {1, "0.001 ms"},
        {9999, "9.999 ms"},
        {10 * TF_MS, "10.0 ms"},
        {TF_SECOND - 100, "999.9 ms"},
        {TF_SECOND, "1.00 s"},
        {60 * TF_SECOND - 10 * TF_MS, "59.99 s"},
        {60 * TF_SECOND, "1 min 0 s"},
        {3599 * TF_SECOND, "59 min 59 s"},
        {3600 * TF_SECOND, "1 h 0 min"},
        {86400 * TF_SECOND - 1, "23 h 59 min"},
        {51 * 3600 * TF_SECOND, "2 d 3 h"},
        {TF_NEVER, "never"},
        {TF_NEVER - 1, "213503982 d 8 h"},
    };
    char text[TF_TIME_TEXT_MAX];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_str_eq(tf_time_text(rows[i].span, text), rows[i].text);
    }
}
END_TEST

/* Against the naive way: all copies in a row, each with the bound of its bucket. */
START_TEST(stats_quantile_is_the_bound_of_the_copy_at_that_place)
{
    uint64_t late[TF_LATE_BUCKETS] = {0};
    tf_time bound = 7;
    ck_assert(!tf_late_quantile(late, 500, &bound));
    ck_assert_uint_eq(bound, 7);
    for (unsigned round = 1; round <= 200; round++) {
        size_t row[200];
        size_t count = 0;
        late[(round * 7u) % TF_LATE_BUCKETS]++;
        for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
            for (uint64_t k = 0; k < late[i]; k++) {
                row[count++] = i;
            }
        }
        static const unsigned parts[] = {0, 1, 500, 990, 1000};
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            size_t place = (count * parts[i] + 999) / 1000;
            size_t bucket = row[place == 0 ? 0 : place - 1];
            ck_assert(tf_late_quantile(late, parts[i], &bound));
            ck_assert_uint_eq(bound, bucket < TF_LATE_BUCKETS - 1 ? tf_late_bounds[bucket] : TF_NEVER);
        }
    }
}
END_TEST

/* -- statistics ---------------------------------------------------------------------------------------------------- */

static tf_peer_stats some_stats(void)
{
    tf_peer_stats stats = {.now = 100 * TF_SECOND, .connected = true, .sessions = 1, .dials = 2, .handshakes = 1};
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_peer_route *route = &stats.routes[i];
        route->agreed = true;
        route->carries = true;
        route->stats.verdict = TF_VERDICT_UP;
        route->stats.since = 90 * TF_SECOND;
        (void)snprintf(route->local, sizeof(route->local), "127.0.0.2:%zu", 1000 + i);
        (void)snprintf(route->remote, sizeof(route->remote), "127.0.0.1:%zu", 2000 + i);
    }
    tf_route_stats *stream = &stats.routes[TF_ROUTE_STREAM].stats;
    stream->sent_segments = 500;
    stream->told_first = 480;
    stream->told_repeats = 20;
    stream->only = 3;
    stream->srtt = 1500;
    tf_route_stats *datagram = &stats.routes[TF_ROUTE_DATAGRAM].stats;
    datagram->verdict = TF_VERDICT_STALLED;
    datagram->loss_ppm = 12300;
    datagram->mtu = 1472;
    datagram->mtu_falls = 2;
    datagram->late[0] = 90;
    datagram->late[TF_LATE_BUCKETS - 1] = 10;
    stats.has_keys = true;
    stats.keys_since = 30 * TF_SECOND;
    stats.phase = 2;
    stats.packets_forged = 4;
    return stats;
}

START_TEST(stats_table_has_a_column_for_each_route)
{
    tf_peer_stats stats = some_stats();
    paper p;
    paper_open(&p);
    tf_stats_print(&stats, p.file);
    static const char *const expected[] = {
        "route                                    stream                 datagram\n",
        "verdict                          up for 10.00 s      stalled for 10.00 s\n",
        "address                          127.0.0.1:2000           127.0.0.1:2001\n",
        "copies sent                                 500                        0\n",
        "  there first                               480                        0\n",
        "  only                                        3                        0\n",
        "second late by, half                          -            within 250 us\n",
        "second late by, 99 %                          -                 over 1 s\n",
        "loss of late                                  -                   1.23 %\n",
        "round trip                             1.500 ms                        -\n",
        "packet size                                   -                     1472\n",
        "second copies by datagram: within 250 us: 90 over 1 s: 10\n",
        "datagram keys: 1 min 10 s old, phase 2; packets: 0 sealed, 0 opened, 4 forged, 0 replayed, 0 malformed\n",
        NULL};
    paper_has(&p, expected);
    stats.connected = false;
    stats.has_keys = false;
    paper_open(&p);
    tf_stats_print(&stats, p.file);
    static const char *const lost[] = {"no session               no session\n", "datagram keys: none; packets: ", NULL};
    paper_has(&p, lost);
}
END_TEST

START_TEST(stats_json_names_each_route_and_the_keys)
{
    tf_peer_stats stats = some_stats();
    paper p;
    paper_open(&p);
    tf_stats_print_json(&stats, p.file);
    static const char *const expected[] = {
        ",\"connected\":true,\"sessions\":1,\"resumes\":0,\"dials\":2,\"handshakes\":1,",
        "\"routes\":[{\"route\":\"stream\",\"agreed\":true,\"carries\":true,\"verdict\":\"up\",\"verdict_age_us\":10000000,"
        "\"local\":\"127.0.0.2:1000\",\"remote\":\"127.0.0.1:2000\",",
        ",{\"route\":\"datagram\",\"agreed\":true,\"carries\":true,\"verdict\":\"stalled\",",
        "\"loss_ppm\":12300,\"mtu\":1472,\"mtu_falls\":2,",
        "\"late\":[{\"within_us\":250,\"copies\":90},",
        "{\"within_us\":null,\"copies\":10}]}]",
        ",\"keys\":{\"sealed\":0,\"opened\":0,\"forged\":4,\"replayed\":0,\"malformed\":0,\"age_us\":70000000,\"phase\":2,"
        "\"phase_age_us\":100000000}",
        NULL};
    paper_has(&p, expected);
}
END_TEST

/* -- ping ---------------------------------------------------------------------------------------------------------- */

#define ANSWERED(time) {TF_PING_FATE_ANSWERED, (time), TF_VERDICT_UP}
#define LOST {TF_PING_FATE_LOST, 0, TF_VERDICT_UP}
#define NOT_SENT(why) {TF_PING_FATE_NOT_SENT, 0, (why)}

START_TEST(ping_line_says_who_won_and_by_how_much)
{
    static const struct {
        tf_ping_result result;
        const char *text;
        const char *json;
    } rows[] = {
        {{1, TF_ROUTES_BOTH, {ANSWERED(412), ANSWERED(280)}},
         "ping 1: stream 0.412 ms, datagram 0.280 ms; datagram won by 0.132 ms\n",
         "{\"v\":1,\"type\":\"ping\",\"number\":1,\"routes\":[{\"route\":\"stream\",\"result\":\"answered\",\"verdict\":"
         "\"up\",\"rtt_us\":412},{\"route\":\"datagram\",\"result\":\"answered\",\"verdict\":\"up\",\"rtt_us\":280}],"
         "\"won\":\"datagram\",\"by_us\":132}\n"},
        {{2, TF_ROUTES_BOTH, {ANSWERED(1000), LOST}},
         "ping 2: stream 1.000 ms, datagram no answer\n",
         "{\"v\":1,\"type\":\"ping\",\"number\":2,\"routes\":[{\"route\":\"stream\",\"result\":\"answered\",\"verdict\":"
         "\"up\",\"rtt_us\":1000},{\"route\":\"datagram\",\"result\":\"lost\",\"verdict\":\"up\"}],\"won\":\"stream\"}\n"},
        {{3, TF_ROUTES_BOTH, {NOT_SENT(TF_VERDICT_DOWN), LOST}},
         "ping 3: stream down, datagram no answer\n",
         "{\"v\":1,\"type\":\"ping\",\"number\":3,\"routes\":[{\"route\":\"stream\",\"result\":\"not_sent\",\"verdict\":"
         "\"down\"},{\"route\":\"datagram\",\"result\":\"lost\",\"verdict\":\"up\"}]}\n"},
        {{4, TF_ROUTES_BOTH, {ANSWERED(5), ANSWERED(5)}},
         "ping 4: stream 0.005 ms, datagram 0.005 ms\n",
         "{\"v\":1,\"type\":\"ping\",\"number\":4,\"routes\":[{\"route\":\"stream\",\"result\":\"answered\",\"verdict\":"
         "\"up\",\"rtt_us\":5},{\"route\":\"datagram\",\"result\":\"answered\",\"verdict\":\"up\",\"rtt_us\":5}]}\n"},
        {{5, TF_ROUTES_STREAM, {ANSWERED(5), ANSWERED(4)}},
         "ping 5: stream 0.005 ms\n",
         "{\"v\":1,\"type\":\"ping\",\"number\":5,\"routes\":[{\"route\":\"stream\",\"result\":\"answered\",\"verdict\":"
         "\"up\",\"rtt_us\":5}]}\n"},
        {{6, TF_ROUTES_DATAGRAM, {LOST, NOT_SENT(TF_VERDICT_UP)}},
         "ping 6: datagram not sent\n",
         "{\"v\":1,\"type\":\"ping\",\"number\":6,\"routes\":[{\"route\":\"datagram\",\"result\":\"not_sent\",\"verdict\":"
         "\"up\"}]}\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        paper p;
        paper_open(&p);
        tf_ping_print(&rows[i].result, p.file);
        paper_says(&p, rows[i].text);
        paper_open(&p);
        tf_ping_print_json(&rows[i].result, p.file);
        paper_says(&p, rows[i].json);
    }
}
END_TEST

static tf_ping_tally some_tally(void)
{
    static const tf_ping_result results[] = {
        {1, TF_ROUTES_BOTH, {ANSWERED(400), ANSWERED(300)}},
        {2, TF_ROUTES_BOTH, {ANSWERED(200), ANSWERED(500)}},
        {3, TF_ROUTES_BOTH, {LOST, ANSWERED(100)}},
        {4, TF_ROUTES_BOTH, {NOT_SENT(TF_VERDICT_DOWN), LOST}},
    };
    tf_ping_tally tally = {0};
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        tf_ping_tally_add(&tally, &results[i]);
    }
    return tally;
}

START_TEST(ping_tally_counts_each_route)
{
    tf_ping_tally tally = some_tally();
    const tf_ping_count *stream = &tally.routes[TF_ROUTE_STREAM];
    const tf_ping_count *datagram = &tally.routes[TF_ROUTE_DATAGRAM];
    ck_assert_uint_eq(tally.pings, 4);
    ck_assert_uint_eq(stream->sent, 3);
    ck_assert_uint_eq(stream->answered, 2);
    ck_assert_uint_eq(stream->least, 200);
    ck_assert_uint_eq(stream->most, 400);
    ck_assert_uint_eq(stream->sum, 600);
    ck_assert_uint_eq(stream->won, 1);
    ck_assert_uint_eq(stream->won_by, 300);
    ck_assert_uint_eq(datagram->sent, 4);
    ck_assert_uint_eq(datagram->answered, 3);
    ck_assert_uint_eq(datagram->least, 100);
    ck_assert_uint_eq(datagram->won, 2);
    ck_assert_uint_eq(datagram->won_by, 100);
    ck_assert_uint_eq(datagram->won_against, 1); /* the other win was over nobody */
}
END_TEST

START_TEST(ping_summary_has_a_part_for_each_route)
{
    tf_ping_tally tally = some_tally();
    tf_peer_stats stats = some_stats();
    paper p;
    paper_open(&p);
    tf_ping_print_summary(&tally, &stats, 2 * TF_SECOND, p.file);
    static const char *const expected[] = {
        "4 pings in 2.00 s\n",
        "stream: up for 10.00 s, 127.0.0.1:2000, round trip 1.500 ms\n"
        "  asked 3, answered 2, lost 33.3 %; least 0.200 ms, mean 0.300 ms, most 0.400 ms; won 1, on average by 0.300 ms\n",
        "datagram: stalled for 10.00 s, 127.0.0.1:2001, round trip -, loss 1.23 %, packet size 1472\n"
        "  asked 4, answered 3, lost 25.0 %; least 0.100 ms, mean 0.300 ms, most 0.500 ms; won 2, on average by 0.100 ms\n",
        "sessions: 1, ",
        "datagram keys: 1 min 10 s old",
        NULL};
    paper_has(&p, expected);
    paper_open(&p);
    tf_ping_print_summary_json(&tally, &stats, 2 * TF_SECOND, p.file);
    static const char *const json[] = {
        "{\"v\":1,\"type\":\"summary\",\"span_us\":2000000,\"pings\":4,\"answers\":[{\"route\":\"stream\",\"asked\":3,"
        "\"answered\":2,\"won\":1,\"least_us\":200,\"mean_us\":300,\"most_us\":400,\"won_by_us\":300},"
        "{\"route\":\"datagram\",\"asked\":4,\"answered\":3,\"won\":2,",
        "],\"connected\":true,",
        NULL};
    paper_has(&p, json);
}
END_TEST

START_TEST(ping_verdict_is_of_all_that_was_asked)
{
    static const struct {
        uint64_t answered[TF_ROUTE_COUNT];
        tf_verdict verdicts[TF_ROUTE_COUNT];
        tf_routes asked;
        bool connected;
        tf_ping_verdict verdict;
        tf_route route; /* DEGRADED */
    } rows[] = {
        {{5, 5}, {TF_VERDICT_UP, TF_VERDICT_UP}, TF_ROUTES_BOTH, true, TF_PING_VERDICT_OK, 0},
        {{5, 1}, {TF_VERDICT_STALLED, TF_VERDICT_UP}, TF_ROUTES_BOTH, true, TF_PING_VERDICT_OK, 0},
        {{5, 0}, {TF_VERDICT_UP, TF_VERDICT_UP}, TF_ROUTES_BOTH, true, TF_PING_VERDICT_DEGRADED, TF_ROUTE_DATAGRAM},
        {{5, 5}, {TF_VERDICT_UP, TF_VERDICT_DOWN}, TF_ROUTES_BOTH, true, TF_PING_VERDICT_DEGRADED, TF_ROUTE_DATAGRAM},
        {{0, 5}, {TF_VERDICT_UP, TF_VERDICT_UP}, TF_ROUTES_BOTH, true, TF_PING_VERDICT_DEGRADED, TF_ROUTE_STREAM},
        {{5, 5}, {TF_VERDICT_UP, TF_VERDICT_UP}, TF_ROUTES_BOTH, false, TF_PING_VERDICT_DEGRADED, TF_ROUTE_STREAM},
        {{5, 0}, {TF_VERDICT_UP, TF_VERDICT_ABSENT}, TF_ROUTES_STREAM, true, TF_PING_VERDICT_OK, 0},
        {{0, 0}, {TF_VERDICT_UP, TF_VERDICT_UP}, TF_ROUTES_BOTH, true, TF_PING_VERDICT_SILENT, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_ping_tally tally = {.pings = 5, .asked = rows[i].asked};
        tf_peer_stats stats = some_stats();
        tf_route route = TF_ROUTE_STREAM;
        stats.connected = rows[i].connected;
        for (size_t r = 0; r < TF_ROUTE_COUNT; r++) {
            tally.routes[r].answered = rows[i].answered[r];
            stats.routes[r].stats.verdict = rows[i].verdicts[r];
        }
        ck_assert_int_eq(tf_ping_judge(&tally, &stats, &route), rows[i].verdict);
        if (rows[i].verdict == TF_PING_VERDICT_DEGRADED) {
            ck_assert_int_eq(route, rows[i].route);
        }
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        stats_times_have_units_that_fit,
        stats_quantile_is_the_bound_of_the_copy_at_that_place,
        stats_table_has_a_column_for_each_route,
        stats_json_names_each_route_and_the_keys,
        ping_line_says_who_won_and_by_how_much,
        ping_tally_counts_each_route,
        ping_summary_has_a_part_for_each_route,
        ping_verdict_is_of_all_that_was_asked,
        NULL,
    };
    return tf_test_run("node/cli reports", tests);
}
