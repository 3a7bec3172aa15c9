/* What goes wrong: lines of [route] sections and of [timeline]. */
#include <stdio.h>

#include "tests/harness/scenario_internal.h"

typedef struct fault_row {
    const char *name;
    tf_scenario_unit unit;
    uint64_t range[2];
} fault_row;

static const fault_row rows[TF_FAULT_COUNT] = {
    [TF_FAULT_DELAY] = {"delay", TF_UNIT_TIME, {0, 60 * TF_SECOND}},
    [TF_FAULT_JITTER] = {"jitter", TF_UNIT_TIME, {0, 60 * TF_SECOND}},
    [TF_FAULT_LOSS] = {"loss", TF_UNIT_PERCENT, {0, 1000000}},
    [TF_FAULT_BURST] = {"burst", TF_UNIT_COUNT, {0, 1000}},
    [TF_FAULT_REPEAT] = {"repeat", TF_UNIT_PERCENT, {0, 1000000}},
    [TF_FAULT_RATE] = {"rate", TF_UNIT_BITS, {0, UINT64_C(100000000000)}},
    [TF_FAULT_QUEUE] = {"queue", TF_UNIT_BYTES, {0, 64u << 20}},
    [TF_FAULT_BLOAT] = {"bufferbloat", TF_UNIT_TIME, {TF_MS, 10 * TF_SECOND}},
    [TF_FAULT_MTU] = {"mtu", TF_UNIT_BYTES, {0, 65535}},
    [TF_FAULT_BLACKHOLE] = {"blackhole", TF_UNIT_NONE, {0, 0}},
    [TF_FAULT_STALL] = {"stall", TF_UNIT_NONE, {0, 0}},
    [TF_FAULT_CUT] = {"cut", TF_UNIT_NONE, {0, 0}},
    [TF_FAULT_FLAP] = {"flap", TF_UNIT_TIME, {10 * TF_MS, 3600 * TF_SECOND}},
};

static const struct {
    const char *name;
    tf_scenario_act_kind kind;
    tf_scenario_act_kind end; /* at the end of its `for`; the same as kind: it has none */
} act_rows[] = {
    {"kill", TF_ACT_KILL, TF_ACT_START},      {"term", TF_ACT_TERM, TF_ACT_START},
    {"start", TF_ACT_START, TF_ACT_START},    {"pause", TF_ACT_PAUSE, TF_ACT_GO},
    {"rebind", TF_ACT_REBIND, TF_ACT_REBIND},
};
#define ACT_ROWS (sizeof(act_rows) / sizeof(act_rows[0]))

const char *tf_scenario_fault_name(tf_scenario_fault fault)
{
    return rows[fault].name;
}

static void unknown_fault(tf_scenario_parser *p, const char *word)
{
    tf_scenario_error(p,
                      "'%.40s': a route has delay, jitter, loss, burst, repeat, rate, queue, bufferbloat, mtu, "
                      "blackhole, stall, cut, "
                      "flap",
                      word);
}

/* FAULT [VALUE] [in|out], to the end of the line. False: an error was told. */
static bool parse_fault(tf_scenario_parser *p, tf_scenario_step *step)
{
    const char *word = tf_scenario_next(p);
    int fault = 0;
    while (fault < TF_FAULT_COUNT && !tf_scenario_is_word(word, rows[fault].name)) {
        fault++;
    }
    if (fault == TF_FAULT_COUNT) {
        unknown_fault(p, word);
        return false;
    }
    step->fault = (tf_scenario_fault)fault;
    step->value = 1;
    if (rows[fault].unit != TF_UNIT_NONE &&
        !tf_scenario_take_number(p, rows[fault].name, rows[fault].unit, rows[fault].range, &step->value)) {
        return false;
    }
    step->ways = (1u << TF_WAY_OUT) | (1u << TF_WAY_IN);
    if (tf_scenario_take(p, "in")) {
        step->ways = 1u << TF_WAY_IN;
    } else if (tf_scenario_take(p, "out")) {
        step->ways = 1u << TF_WAY_OUT;
    }
    if (step->fault == TF_FAULT_CUT && step->ways != ((1u << TF_WAY_OUT) | (1u << TF_WAY_IN))) {
        tf_scenario_error(p, "cut has no direction: both end; blackhole and stall have one");
        return false;
    }
    if (p->at < p->count) {
        tf_scenario_error(p, "'%.60s': only in (to the client) or out (from it) may stand here", tf_scenario_peek(p));
        return false;
    }
    return true;
}

static void join(const tf_scenario_parser *p, size_t from, char out[TF_SCENARIO_STEP_TEXT_MAX])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = from; i < p->count; i++) {
        int more = snprintf(out + len, TF_SCENARIO_STEP_TEXT_MAX - len, "%s%s", i == from ? "" : " ", p->words[i]);
        if (more < 0 || (size_t)more >= TF_SCENARIO_STEP_TEXT_MAX - len) {
            return;
        }
        len += (size_t)more;
    }
}

static void add_step(tf_scenario_parser *p, const tf_scenario_step *step)
{
    if (p->s->step_count == TF_SCENARIO_STEPS_MAX) {
        tf_scenario_error(p, "too many faults: %u are the most", TF_SCENARIO_STEPS_MAX);
        return;
    }
    p->s->steps[p->s->step_count++] = *step;
}

void tf_scenario_parse_baseline(tf_scenario_parser *p)
{
    tf_scenario_step step = {
        .line = p->line, .is_baseline = true, .to = TF_NEVER, .routes = p->routes, .client = p->client};
    join(p, 0, step.text);
    if (parse_fault(p, &step)) {
        add_step(p, &step);
    }
}

/* Acts stay in the order of their times, those of one time in the order of the file. */
static void add_act(tf_scenario_parser *p, const tf_scenario_act *act)
{
    tf_scenario *s = p->s;
    uint32_t at = s->act_count;
    if (at == TF_SCENARIO_ACTS_MAX) {
        tf_scenario_error(p, "too much happens to nodes: %u acts are the most", TF_SCENARIO_ACTS_MAX);
        return;
    }
    while (at > 0 && s->acts[at - 1].at > act->at) {
        s->acts[at] = s->acts[at - 1];
        at--;
    }
    s->acts[at] = *act;
    s->act_count++;
}

/* The node behind an act; a rebinding may have none. False: an error was told. */
static bool parse_act_node(tf_scenario_parser *p, tf_scenario_act *act)
{
    const char *name = tf_scenario_next(p);
    act->node = tf_scenario_node_of(p->s, name);
    if (act->kind == TF_ACT_REBIND) {
        bool fits = *name == '\0' || (act->node != UINT32_MAX && act->node != p->s->relay);
        if (!fits) {
            tf_scenario_error(p, "rebind %.40s: no client of [nodes], which must stand above", name);
        }
        return fits;
    }
    if (act->node == UINT32_MAX) {
        tf_scenario_error(p, "'%.40s': no node of [nodes], which must stand above", name);
        return false;
    }
    return true;
}

/* From the act's own word on. */
static void parse_act(tf_scenario_parser *p, size_t row, tf_time at, tf_time span)
{
    tf_scenario_act act = {.line = p->line, .at = at, .until = at, .kind = act_rows[row].kind};
    join(p, p->at - 1, act.text);
    if (!parse_act_node(p, &act)) {
        return;
    }
    bool has_end = act_rows[row].end != act_rows[row].kind;
    if (span != TF_NEVER && !has_end) {
        tf_scenario_error(p, "%s: happens at one time, without 'for'", act_rows[row].name);
        return;
    }
    if (act.kind == TF_ACT_PAUSE && span == TF_NEVER) {
        tf_scenario_error(p, "pause: needs an end: 'at 5s for 2s pause NODE'");
        return;
    }
    if (p->at < p->count) {
        tf_scenario_line_end(p);
        return;
    }
    act.until = span == TF_NEVER ? at : at + span;
    add_act(p, &act);
    if (span != TF_NEVER) {
        act.at = act.until;
        act.kind = act_rows[row].end;
        add_act(p, &act);
    }
}

/* ROUTE [CLIENT] FAULT ... */
static void parse_step(tf_scenario_parser *p, tf_time at, tf_time span)
{
    tf_scenario_step step = {.line = p->line,
                             .from = at,
                             .to = span == TF_NEVER ? TF_NEVER : at + span,
                             .routes = tf_scenario_routes_of(tf_scenario_peek(p)),
                             .client = TF_SCENARIO_ALL};
    join(p, p->at, step.text);
    if (step.routes == 0) {
        tf_scenario_error(p, "'%.40s': stream, datagram, both, kill, term, start, pause or rebind stands here",
                          tf_scenario_peek(p));
        return;
    }
    (void)tf_scenario_next(p);
    uint32_t node = tf_scenario_node_of(p->s, tf_scenario_peek(p));
    if (node != UINT32_MAX) {
        if (node == p->s->relay || p->s->nodes[node].is_direct) {
            tf_scenario_error(p, "'%s' has no routes of its own; clients that are not direct have",
                              tf_scenario_peek(p));
            return;
        }
        (void)tf_scenario_next(p);
        step.client = node;
    }
    if (parse_fault(p, &step)) {
        add_step(p, &step);
    }
}

void tf_scenario_parse_timeline(tf_scenario_parser *p)
{
    static const uint64_t times[2] = {0, TF_SCENARIO_TIME_MAX};
    static const uint64_t spans[2] = {0, TF_SCENARIO_TIME_MAX};
    tf_time at = 0;
    tf_time span = TF_NEVER;
    if (!tf_scenario_take(p, "at")) {
        tf_scenario_error(p, "'%.60s': a line is 'at TIME [for DURATION] WHAT'", tf_scenario_peek(p));
        return;
    }
    if (!tf_scenario_take_number(p, "at", TF_UNIT_TIME, times, &at) ||
        (tf_scenario_take(p, "for") && !tf_scenario_take_number(p, "for", TF_UNIT_TIME, spans, &span))) {
        return;
    }
    for (size_t i = 0; i < ACT_ROWS; i++) {
        if (tf_scenario_take(p, act_rows[i].name)) {
            parse_act(p, i, at, span);
            return;
        }
    }
    parse_step(p, at, span);
}
