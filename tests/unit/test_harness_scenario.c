/* The scenario's file: what it says is what is read, every mistake is told with its line, and what is wrong at a time
 * is what the file says. */
#include <stdio.h>

#include "tests/harness/scenario.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define NODES "[nodes]\nrelay R\nclient A\nclient B direct\n"
#define TRAFFIC "[traffic]\nA -> c rate 100/s count 10\nc -> B\n"

static tf_scenario s;
static tf_scenario_errors errors;

static bool parse(const char *text)
{
    return tf_scenario_parse(&s, tf_slice_str(text), &errors);
}

static uint64_t value_at(tf_route route, tf_scenario_way way, tf_time now, tf_scenario_fault fault)
{
    tf_scenario_state state;
    tf_scenario_state_at(&s, 1, route, way, now, &state);
    return state.value[fault];
}

START_TEST(scenario_whole_file_is_read)
{
    ck_assert(parse("# a comment\n[scenario]\ntitle Bad  day\nseed 9\nsettle 0\npatience 1.5s\n"
                    "[nodes]\nrelay R max-in-flight 7 session-timeout 2s keepalive 5s\nclient A routes stream\r\n"
                    "client B direct standby datagram # here, too\n"
                    "[traffic]\nA -> c rate 0.5/s size 1KiB count 3 from 2s\nc -> B\n"
                    "[expect]\nlost <= 3\nlongest-gap < 500ms\n"));
    ck_assert_str_eq(s.title, "Bad day");
    ck_assert_uint_eq(s.seed, 9);
    ck_assert_uint_eq(s.settle, 0);
    ck_assert_uint_eq(s.patience, 1500 * TF_MS);
    ck_assert_uint_eq(s.node_count, 3);
    ck_assert_uint_eq(s.relay, 0);
    ck_assert_uint_eq(s.nodes[0].max_in_flight, 7);
    ck_assert_uint_eq(s.nodes[0].session_timeout, 2 * TF_SECOND);
    ck_assert_uint_eq(s.nodes[0].keepalive, 5 * TF_SECOND);
    ck_assert_uint_eq(s.nodes[1].routes, TF_ROUTES_STREAM);
    ck_assert(!s.nodes[1].is_direct && s.nodes[2].is_direct);
    ck_assert_uint_eq(s.nodes[2].standby, TF_ROUTES_DATAGRAM);
    ck_assert_uint_eq(s.flows[0].size, 1024);
    ck_assert_uint_eq(s.flows[0].count, 3);
    ck_assert_uint_eq(tf_scenario_due(&s, 0, 1), 4 * TF_SECOND);
    ck_assert_uint_eq(tf_scenario_length(&s), 8 * TF_SECOND);
    ck_assert(tf_scenario_feeds(&s, 0, 0));
    ck_assert_uint_eq(s.expect_count, 2 + TF_KEYS_ALWAYS - 1);
    ck_assert_int_eq(s.expects[1].relation, TF_RELATION_BELOW);
    ck_assert_uint_eq(s.expects[1].value, 500 * TF_MS);
}
END_TEST

START_TEST(scenario_mistake_is_told_with_its_line_and_what_would_be_right)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *words;
    } rows[] = {
        {"relay R\n", 1, "[nodes]"},
        {"[node]\n", 1, "[nodes]"},
        {"[nodes] x\n", 1, "line of its own"},
        {"[nodes x]\n", 1, "nothing is expected"},
        {"[scenario]\nname x\n", 2, "title TEXT"},
        {"[scenario]\nseed x\n", 2, "a number"},
        {"[scenario]\nseed 1 2\n", 2, "nothing is expected"},
        {"[scenario]\npatience 5\n", 2, "250ms"},
        {"[scenario]\npatience\n", 2, "250ms"},
        {"[nodes]\nrely R\n", 2, "relay NAME"},
        {"[nodes]\nrelay\n", 2, "letters"},
        {"[nodes]\nrelay R!\n", 2, "letters"},
        {"[nodes]\nrelay R\nclient R\n", 3, "its own"},
        {"[nodes]\nrelay R\nrelay S\n", 3, "one relay"},
        {"[nodes]\nrelay R max-in-flight 0\n", 2, "too small; 1 is the least"},
        {"[nodes]\nrelay R windows 1\n", 2, "session-timeout"},
        {"[nodes]\nclient A routes tcp\n", 2, "stream or datagram or both"},
        {"[nodes]\nclient A standby both\n", 2, "stream or datagram"},
        {"[nodes]\nclient A slow\n", 2, "direct"},
        {NODES "[traffic]\nA c rate 1/s count 1\n", 6, "CLIENT -> CHANNEL"},
        {NODES "[traffic]\nR -> c rate 1/s count 1\n", 6, "relay"},
        {NODES "[traffic]\nA -> c count 1\n", 6, "rate 500/s"},
        {NODES "[traffic]\nA -> c rate 1/s\n", 6, "count N"},
        {NODES "[traffic]\nA -> c rate 1/s count 1 for 1s\n", 6, "count N"},
        {NODES "[traffic]\nA -> c rate 5000000/s for 1h\n", 6, "too large; 100000/s is the most"},
        {NODES "[traffic]\nA -> c rate 1/s count 5 colour red\n", 6, "size BYTES"},
        {NODES "[traffic]\nA -> c rate 1/s size 39 count 5\n", 6, "too small; 40B is the least"},
        {NODES "[traffic]\nc -> R\n", 6, "no client"},
        {NODES "[traffic]\nc -> X\n", 6, "no client"},
        {NODES TRAFFIC "A -> d rate 1/s count 1\nd -> A\n", 0, "its own messages"},
        {NODES TRAFFIC "c -> B\n", 0, "twice"},
        {NODES TRAFFIC "d -> B\n", 0, "neither a client nor a channel"},
        {NODES, 0, "no traffic"},
        {"[nodes]\nclient A\n[traffic]\nA -> c rate 1/s count 1\n", 0, "no relay"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(!parse(rows[i].text), "row %zu was taken", i);
        ck_assert_msg(errors.list[0].line == rows[i].line && strstr(errors.list[0].text, rows[i].words) != NULL,
                      "row %zu: line %u: %s", i, errors.list[0].line, errors.list[0].text);
    }
}
END_TEST

START_TEST(scenario_mistake_in_what_goes_wrong_is_told)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"[route tcp]\n", "[route stream]"},
        {"[route stream B]\n", "with routes"},
        {"[route stream R]\n", "with routes"},
        {"[route stream A B]\n", "[route stream]"},
        {"[route stream]\nspeed 1mbit\n", "delay, jitter"},
        {"[route stream]\nrate 5\n", "10mbit"},
        {"[route stream]\nloss 5\n", "5%"},
        {"[route stream]\nloss 101%\n", "too large; 100% is the most"},
        {"[route stream]\nloss 5% up\n", "in (to the client) or out"},
        {"[route stream]\ncut in\n", "no direction"},
        {"[route stream]\nflap 1ms\n", "too small; 10ms is the least"},
        {"[route stream]\nbufferbloat 999us\n", "too small; 1ms is the least"},
        {"[route stream]\nbufferbloat\n", "250ms"},
        {"[route stream]\nburst 5 packets\n", "in (to the client) or out"},
        {"[route stream]\nburst\n", "a number"},
        {"[timeline]\n5s stream cut\n", "at TIME"},
        {"[timeline]\nat five stream cut\n", "250ms"},
        {"[timeline]\nat 25h stream cut\n", "too large; 24h is the most"},
        {"[timeline]\nat 5s for x stream cut\n", "250ms"},
        {"[timeline]\nat 5s tcp cut\n", "stream, datagram, both"},
        {"[timeline]\nat 5s stream B cut\n", "no routes of its own"},
        {"[timeline]\nat 5s stream X cut\n", "delay, jitter"},
        {"[timeline]\nat 5s kill X\n", "no node"},
        {"[timeline]\nat 5s kill A now\n", "nothing is expected"},
        {"[timeline]\nat 5s for 1s start A\n", "without 'for'"},
        {"[timeline]\nat 5s pause A\n", "needs an end"},
        {"[timeline]\nat 5s rebind R\n", "no client"},
        {"[expect]\nloss 0\n", "lost, repeated"},
        {"[expect]\nlost\n", "<="},
        {"[expect]\nlost == 0\n", "<="},
        {"[expect]\nlost many\n", "<="},
        {"[expect]\nlost 0 0\n", "nothing is expected"},
        {"[expect]\nlongest-gap <= 5\n", "250ms"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), NODES TRAFFIC "%s", rows[i].text);
        ck_assert_msg(!parse(text), "row %zu was taken", i);
        ck_assert_msg(errors.count == 1 && errors.list[0].line > 7 &&
                          strstr(errors.list[0].text, rows[i].words) != NULL,
                      "row %zu: %u errors, line %u: %s", i, errors.count, errors.list[0].line, errors.list[0].text);
    }
}
END_TEST

START_TEST(scenario_all_mistakes_are_told_not_only_the_first)
{
    ck_assert(!parse("[nodes]\nrelay\nclient A fast\n[expect]\nlost x\n"));
    ck_assert_uint_eq(errors.count, 3);
    ck_assert_uint_eq(errors.list[2].line, 5);
    static char many[4000] = "[nodes]\n";
    for (size_t i = 0; i < 2 * TF_SCENARIO_ERRORS_MAX; i++) {
        memcpy(many + strlen(many), "nonsense\n", 10);
    }
    ck_assert(!parse(many));
    ck_assert_uint_eq(errors.count, 2 * TF_SCENARIO_ERRORS_MAX);
}
END_TEST

START_TEST(scenario_bytes_that_are_no_text_are_refused)
{
    static char line[TF_SCENARIO_LINE_MAX + 16];
    memset(line, '#', sizeof(line) - 1);
    ck_assert(!parse(line));
    ck_assert(!tf_scenario_parse(&s, tf_slice_of("[nodes]\0\n", 9), &errors));
    ck_assert_uint_eq(errors.list[0].line, 1);
    memset(line, 0, sizeof(line));
    for (size_t i = 0; i + 2 < sizeof(line); i += 2) {
        line[i] = 'a';
        line[i + 1] = ' ';
    }
    line[200] = '\n';
    ck_assert(!parse(line));
    ck_assert_ptr_nonnull(strstr(errors.list[0].text, "words"));
}
END_TEST

START_TEST(scenario_timeline_stands_above_the_baseline_and_later_lines_above_earlier)
{
    ck_assert(parse(NODES
                    "[timeline]\nat 1s for 2s stream delay 50ms\nat 2s for 2s both delay 80ms in\n"
                    "[traffic]\nA -> c rate 1/s count 1\n[route both]\ndelay 10ms\n[route stream A]\nloss 1.5% out\n"));
    static const struct {
        tf_time at;
        uint64_t out_ms;
        uint64_t in_ms;
    } rows[] = {{0, 10, 10},    {999, 10, 10},  {1000, 50, 50}, {1999, 50, 50},
                {2000, 50, 80}, {2999, 50, 80}, {3000, 10, 80}, {4000, 10, 10}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_time at = rows[i].at * TF_MS;
        ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_OUT, at, TF_FAULT_DELAY), rows[i].out_ms * TF_MS);
        ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_IN, at, TF_FAULT_DELAY), rows[i].in_ms * TF_MS);
    }
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_OUT, TF_NEVER, TF_FAULT_DELAY), 10 * TF_MS);
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_OUT, TF_NEVER, TF_FAULT_LOSS), 15000);
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_IN, TF_NEVER, TF_FAULT_LOSS), 0);
    ck_assert_uint_eq(value_at(TF_ROUTE_DATAGRAM, TF_WAY_OUT, TF_NEVER, TF_FAULT_LOSS), 0);
    tf_scenario_state direct;
    tf_scenario_state_at(&s, 2, TF_ROUTE_STREAM, TF_WAY_OUT, 0, &direct);
    ck_assert_uint_eq(direct.value[TF_FAULT_DELAY], 0);
}
END_TEST

START_TEST(scenario_changes_come_at_every_edge_and_then_no_more)
{
    ck_assert(parse(NODES TRAFFIC "[timeline]\nat 1s for 2s stream cut\nat 2s datagram loss 1%\n"
                                  "at 5s for 1s stream flap 300ms\n"));
    static const tf_time edges[] = {1000, 2000, 3000, 5000, 5300, 5600, 5900, 6000};
    tf_time now = 0;
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        now = tf_scenario_next_change(&s, now);
        ck_assert_uint_eq(now, edges[i] * TF_MS);
    }
    ck_assert_uint_eq(tf_scenario_next_change(&s, now), TF_NEVER);
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_IN, 5299 * TF_MS, TF_FAULT_BLACKHOLE), 1);
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_IN, 5300 * TF_MS, TF_FAULT_BLACKHOLE), 0);
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_IN, 5600 * TF_MS, TF_FAULT_BLACKHOLE), 1);
    ck_assert_uint_eq(value_at(TF_ROUTE_STREAM, TF_WAY_IN, 5300 * TF_MS, TF_FAULT_FLAP), 0);
    ck_assert_uint_eq(value_at(TF_ROUTE_DATAGRAM, TF_WAY_IN, 3600 * TF_SECOND, TF_FAULT_LOSS), 10000);
    ck_assert_uint_eq(tf_scenario_length(&s), 6 * TF_SECOND);
}
END_TEST

START_TEST(scenario_acts_are_in_the_order_of_time_with_their_ends)
{
    ck_assert(parse(NODES TRAFFIC "[timeline]\nat 5s for 1s kill R\nat 2s for 4s pause A\nat 6s rebind\nat 1s term B\n"
                                  "at 3s start B\n"));
    static const struct {
        tf_time at;
        tf_scenario_act_kind kind;
        uint32_t node;
    } rows[] = {{1, TF_ACT_TERM, 2},  {2, TF_ACT_PAUSE, 1}, {3, TF_ACT_START, 2},          {5, TF_ACT_KILL, 0},
                {6, TF_ACT_START, 0}, {6, TF_ACT_GO, 1},    {6, TF_ACT_REBIND, UINT32_MAX}};
    ck_assert_uint_eq(s.act_count, sizeof(rows) / sizeof(rows[0]));
    for (size_t i = 0; i < s.act_count; i++) {
        ck_assert_uint_eq(s.acts[i].at, rows[i].at * TF_SECOND);
        ck_assert_int_eq(s.acts[i].kind, rows[i].kind);
        ck_assert_uint_eq(s.acts[i].node, rows[i].node);
    }
}
END_TEST

START_TEST(scenario_phases_cover_the_run_and_say_what_was_wrong)
{
    static tf_scenario_phase phases[TF_SCENARIO_PHASES_MAX];
    ck_assert(parse(NODES TRAFFIC "[route both]\ndelay 1ms\n[timeline]\nat 1s for 2s stream cut\n"
                                  "at 2s for 2s datagram A loss 5% in\nat 6s for 1s kill R\nat 8s start R\n"));
    static const struct {
        tf_time to;
        const char *text;
    } rows[] = {{1000, ""},
                {2000, "stream cut"},
                {3000, "stream cut; datagram A loss 5% in"},
                {4000, "datagram A loss 5% in"},
                {6000, ""},
                {7000, "kill R"},
                {8000, ""},
                {9500, "start R"}};
    ck_assert_uint_eq(tf_scenario_phases(&s, 9500 * TF_MS, phases), sizeof(rows) / sizeof(rows[0]));
    tf_time from = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_uint_eq(phases[i].from, from);
        ck_assert_uint_eq(phases[i].to, rows[i].to * TF_MS);
        ck_assert_str_eq(phases[i].text, rows[i].text);
        from = phases[i].to;
    }
    ck_assert_uint_eq(tf_scenario_phases(&s, 0, phases), 1);
}
END_TEST

START_TEST(scenario_numbers_have_the_units_that_are_theirs)
{
    static const struct {
        const char *line;
        uint64_t value; /* 0: refused */
    } rows[] = {
        {"delay 1us", 1},
        {"delay 1.5ms", 1500},
        {"delay 2s", 2000000},
        {"delay 1m", 60000000},
        {"delay 1.ms", 0},
        {"delay -1ms", 0},
        {"delay 1kbit", 0},
        {"delay 99999999999999999999s", 0},
        {"loss 0.01%", 100},
        {"loss 100%", 1000000},
        {"rate 300kbit", 300000},
        {"rate 1.5mbit", 1500000},
        {"rate 1gbit", 1000000000},
        {"queue 10", 10},
        {"queue 2KiB", 2048},
        {"queue 2kB", 2000},
        {"queue 1MiB", 1048576},
        {"queue 65MiB", 0},
        {"burst 5", 5},
        {"burst 1001", 0},
        {"burst 5%", 0},
        {"bufferbloat 300ms", 300000},
        {"bufferbloat 300", 0},
        {"bufferbloat 11s", 0},
        {"bufferbloat 0", 0},
        {"mtu 1280", 1280},
        {"mtu 65536", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), NODES TRAFFIC "[route stream]\n%s\n", rows[i].line);
        ck_assert_msg(parse(text) == (rows[i].value != 0), "%s", rows[i].line);
        ck_assert_msg(rows[i].value == 0 || s.steps[0].value == rows[i].value, "%s: %llu", rows[i].line,
                      (unsigned long long)s.steps[0].value);
    }
}
END_TEST

/* A good file with bytes changed, left out and put in: it is read or refused, and what is read can be asked. */
START_TEST(scenario_random_bytes_do_no_harm)
{
    static const char good[] =
        NODES TRAFFIC "[scenario]\nseed 5\n[route stream A]\nloss 5% in\ndelay 1.5ms\n[timeline]\n"
                      "at 1s for 2s both flap 300ms\nat 5s for 1s kill R\n[expect]\nlost <= 5\n";
    static const char alphabet[] = " \n\t#[]->=<.%0159amskit/\\\"\r";
    static tf_scenario_phase phases[TF_SCENARIO_PHASES_MAX];
    tf_test_random random;
    unsigned taken = 0;
    tf_test_random_init(&random, 1);
    for (unsigned i = 0; i < 5000; i++) {
        char text[sizeof(good)];
        memcpy(text, good, sizeof(good));
        for (uint64_t n = 1 + tf_test_random_below(&random, 2); n > 0; n--) {
            size_t at = tf_test_random_below(&random, sizeof(good) - 1);
            text[at] = alphabet[tf_test_random_below(&random, sizeof(alphabet))];
        }
        size_t len = sizeof(good) - 1 - (size_t)tf_test_random_below(&random, 3);
        uint8_t *exact = tf_test_exact(tf_slice_of(text, len));
        if (tf_scenario_parse(&s, tf_slice_of(exact, len), &errors)) {
            taken++;
            ck_assert_uint_ge(tf_scenario_phases(&s, tf_scenario_length(&s), phases), 1);
            (void)tf_scenario_next_change(&s, 0);
        } else {
            ck_assert_uint_gt(errors.count, 0);
        }
        free(exact);
    }
    ck_assert_uint_gt(taken, 20);
    ck_assert_uint_lt(taken, 4500);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        scenario_whole_file_is_read,
        scenario_mistake_is_told_with_its_line_and_what_would_be_right,
        scenario_mistake_in_what_goes_wrong_is_told,
        scenario_all_mistakes_are_told_not_only_the_first,
        scenario_bytes_that_are_no_text_are_refused,
        scenario_timeline_stands_above_the_baseline_and_later_lines_above_earlier,
        scenario_changes_come_at_every_edge_and_then_no_more,
        scenario_acts_are_in_the_order_of_time_with_their_ends,
        scenario_phases_cover_the_run_and_say_what_was_wrong,
        scenario_numbers_have_the_units_that_are_theirs,
        scenario_random_bytes_do_no_harm,
        NULL,
    };
    return tf_test_run("tests/harness/scenario", tests);
}
