/* ping: asks a relay by both routes at once, again and again: which answers, and which first. */
#include "node/cli/cli.h"
#include "node/cli/ping_report.h"
#include "node/cli/stats.h"
#include "node/edge_mem.h"

#define PING_COUNT 5u
#define PING_INTERVAL (200 * TF_MS)
#define PING_INTERVAL_MIN (10 * TF_MS)
#define PING_PATIENCE TF_SECOND /* and twice the round trip: no answer, or not joined, by then */

typedef enum ping_state {
    PING_CONNECTING,
    PING_JOINING, /* connected; a route that was asked for is still to come */
    PING_ASKED,   /* an answer is still to come */
    PING_BETWEEN
} ping_state;

typedef struct pinger {
    tf_cli cli;
    ping_state state;
    uint64_t count; /* 0: without end */
    tf_time interval;
    tf_time wait;  /* TF_NEVER: no limit */
    tf_time until; /* the state ends then at the latest */
    tf_time next;  /* the next question */
    tf_ping ping;
    bool has_ping; /* there was a session to ask in */
    tf_ping_tally tally;
    tf_peer_stats stats; /* of this turn */
    int code;            /* -1: goes on */
} pinger;

static const tf_option options[] = {
    {'n', "count", "COUNT", "ask so often (default: 5; 0: until it is interrupted)"},
    {0, "interval", "DURATION", "between two questions (default: 200ms, at least 10ms)"},
    {'W', "wait", "SECONDS", "end after so long, with exit code 5"},
    TF_CLI_COMMON_OPTIONS,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_ping_options(void)
{
    return options;
}

static bool interval_value(pinger *p, const tf_options *o)
{
    if (!tf_value_duration(o, "--interval", &p->interval)) {
        return false;
    }
    if (p->interval < PING_INTERVAL_MIN) {
        (void)tf_usage("ping", "--interval: '%s' is too short; 10ms is the least", o->value);
        return false;
    }
    return true;
}

static bool one_option(pinger *p, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&p->cli, o, option, &ok)) {
        return ok;
    }
    if (strcmp(option->name, "count") == 0) {
        return tf_value_count(o, "-n", 0, UINT64_MAX, &p->count);
    }
    if (strcmp(option->name, "interval") == 0) {
        return interval_value(p, o);
    }
    return tf_value_seconds(o, "-W", &p->wait);
}

/* -- routes -------------------------------------------------------------------------------------------------------- */

static bool is_asked(const pinger *p, size_t route)
{
    return (p->cli.routes & (1u << route)) != 0;
}

static bool lives(const pinger *p, size_t route)
{
    tf_verdict verdict = p->stats.routes[route].stats.verdict;
    return p->stats.connected && (verdict == TF_VERDICT_UP || verdict == TF_VERDICT_STALLED);
}

/* As long as it takes until one may say that nothing comes. */
static tf_time patience(const pinger *p)
{
    tf_time longest = 0;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        longest = tf_time_max(longest, p->stats.routes[i].stats.srtt);
    }
    return PING_PATIENCE + 2 * longest;
}

/* All that was asked for and agreed is there. */
static bool has_joined(const pinger *p)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (is_asked(p, i) && p->stats.routes[i].agreed && !lives(p, i)) {
            return false;
        }
    }
    return true;
}

static tf_ping_answer answer_of(const pinger *p, tf_route route)
{
    tf_ping_answer answer = {.fate = TF_PING_FATE_NOT_SENT, .verdict = p->stats.routes[route].stats.verdict};
    tf_ping_state state = p->has_ping ? tf_peer_pinged(p->cli.peer, &p->ping, route, &answer.rtt) : TF_PING_WAITING;
    switch (state) {
    case TF_PING_WAITING:
        break;
    case TF_PING_SENT:
    case TF_PING_LOST:
        answer.fate = TF_PING_FATE_LOST;
        break;
    case TF_PING_ANSWERED:
        answer.fate = TF_PING_FATE_ANSWERED;
        break;
    }
    if (!p->stats.connected) {
        answer.verdict = TF_VERDICT_DOWN;
    }
    return answer;
}

/* Nothing more is to be waited for: each route has answered, or is not there. */
static bool is_answered(const pinger *p)
{
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (is_asked(p, i) && p->has_ping && lives(p, i) && answer_of(p, (tf_route)i).fate != TF_PING_FATE_ANSWERED) {
            return false;
        }
    }
    return true;
}

/* -- the questions ------------------------------------------------------------------------------------------------- */

static void ask(pinger *p, tf_time now)
{
    p->state = PING_ASKED;
    p->has_ping = tf_peer_ping(p->cli.peer, &p->ping);
    p->until = now + patience(p);
    p->next = now + p->interval;
}

static void report(pinger *p)
{
    tf_ping_result result = {.number = p->tally.pings + 1, .asked = p->cli.routes};
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (is_asked(p, i)) {
            result.routes[i] = answer_of(p, (tf_route)i);
        }
    }
    tf_ping_tally_add(&p->tally, &result);
    if (p->cli.json) {
        tf_ping_print_json(&result, stdout);
    } else {
        tf_ping_print(&result, stdout);
    }
}

/* What the time and the routes say now. */
static void step(pinger *p)
{
    tf_time now = tf_edge_now();
    tf_peer_get_stats(p->cli.peer, &p->stats);
    if (p->state == PING_JOINING && (has_joined(p) || now >= p->until)) {
        ask(p, now);
    } else if (p->state == PING_ASKED && (is_answered(p) || now >= p->until)) {
        report(p);
        p->state = PING_BETWEEN;
    }
    if (p->state == PING_BETWEEN && p->count != 0 && p->tally.pings == p->count) {
        p->code = TF_EXIT_OK;
    } else if (p->state == PING_BETWEEN && now >= p->next) {
        ask(p, now);
    }
}

static void handle(pinger *p, const tf_node_event *event)
{
    p->code = tf_cli_event(&p->cli, event);
    if (event->type == TF_EVENT_CONNECTED && p->state == PING_CONNECTING) {
        tf_peer_get_stats(p->cli.peer, &p->stats);
        p->state = PING_JOINING;
        p->until = tf_edge_now() + patience(p);
    }
}

static tf_time state_ends(const pinger *p)
{
    switch (p->state) {
    case PING_CONNECTING:
        return TF_NEVER;
    case PING_JOINING:
    case PING_ASKED:
        return p->until;
    case PING_BETWEEN:
        return p->next;
    }
    TF_UNREACHABLE();
}

static void run(pinger *p)
{
    tf_node_event event;
    bool broken_pipe = false;
    tf_time end = tf_time_add(tf_edge_now(), p->wait);
    while (p->code < 0) {
        tf_time now = tf_edge_now();
        tf_time due = tf_time_min(end, state_ends(p));
        tf_node_run(p->cli.node, due == TF_NEVER ? TF_NEVER : due > now ? due - now : 0);
        while (p->code < 0 && tf_node_next_event(p->cli.node, &event)) {
            handle(p, &event);
        }
        if (p->code < 0) {
            step(p);
        }
        if (p->code < 0 && (p->cli.interrupted || tf_edge_now() >= end)) {
            p->code = p->cli.interrupted ? TF_EXIT_INTERRUPTED : TF_EXIT_TIMEOUT;
        }
        if (!tf_out_flush("ping", &broken_pipe)) {
            p->code = broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
            return;
        }
    }
}

/* -- the end ------------------------------------------------------------------------------------------------------- */

/* Says which route is missing, and what may be the cause. */
static int judge(const pinger *p)
{
    char age[TF_TIME_TEXT_MAX];
    char where[TF_ENDPOINT_TEXT_MAX];
    tf_route route = TF_ROUTE_STREAM;
    switch (tf_ping_judge(&p->tally, &p->stats, &route)) {
    case TF_PING_VERDICT_OK:
        return TF_EXIT_OK;
    case TF_PING_VERDICT_SILENT:
        tf_complain("ping", "no ping was answered, by no route");
        return TF_EXIT_TIMEOUT;
    case TF_PING_VERDICT_DEGRADED:
        break;
    }
    const tf_peer_route *r = &p->stats.routes[route];
    if (!p->stats.connected) {
        tf_complain("ping", "degraded: the session is lost, and is being redialled");
    } else if (!r->agreed) {
        tf_complain("ping", "degraded: the peer offers no %s route", tf_route_name(route));
    } else {
        (void)tf_endpoint_format(route == TF_ROUTE_STREAM ? &p->cli.uri.stream : &p->cli.uri.datagram, where);
        tf_complain("ping", "degraded: the %s route is %s for %s; does %s get through to %s?", tf_route_name(route),
                    tf_verdict_name(r->stats.verdict), tf_time_text(p->stats.now - r->stats.since, age),
                    route == TF_ROUTE_STREAM ? "TCP" : "UDP", where);
    }
    return TF_EXIT_DEGRADED;
}

/* The summary, wherever it came that far; the exit code. */
static int finish(pinger *p)
{
    bool broken_pipe = false;
    if (p->state == PING_CONNECTING) {
        return p->code;
    }
    tf_peer_get_stats(p->cli.peer, &p->stats);
    tf_time span = p->stats.now - p->cli.started;
    if (p->cli.json) {
        tf_ping_print_summary_json(&p->tally, &p->stats, span, stdout);
    } else {
        tf_ping_print_summary(&p->tally, &p->stats, span, stdout);
    }
    if (!tf_out_flush("ping", &broken_pipe)) {
        return broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
    }
    return p->code == TF_EXIT_OK ? judge(p) : p->code;
}

int tf_cmd_ping(int argc, char **argv)
{
    tf_options o;
    pinger p = {.cli = {.command = "ping"}, .count = PING_COUNT, .interval = PING_INTERVAL, .wait = TF_NEVER, .code = -1};
    int index = 0;
    tf_options_init(&o, "ping", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&p, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    if (o.failed) {
        return TF_EXIT_USAGE;
    }
    if (o.operand_count != 1) {
        return tf_usage("ping", "needs a URI: twofold ping twofold://NODEID@HOST:PORT");
    }
    if (p.cli.routes == 0) {
        p.cli.routes = TF_ROUTES_BOTH;
    }
    int code = tf_cli_start(&p.cli, o.operands[0], NULL);
    if (code == TF_EXIT_OK) {
        run(&p);
        code = p.code >= 0 && !ferror(stdout) ? finish(&p) : p.code;
    }
    tf_cli_end(&p.cli);
    return code;
}
