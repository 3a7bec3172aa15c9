/* A scenario's file: lines, sections, nodes, traffic and what must hold. */
#include <stdio.h>

#include "tests/harness/scenario_internal.h"

#define ROUTE_SECTIONS                                                                                                 \
    "[route stream], [route datagram] or [route both], with a client's name if it is only of that one"

static const uint64_t up_to_day[2] = {0, TF_SCENARIO_TIME_MAX};

/* -- [nodes] ------------------------------------------------------------------------------------------------------- */

static void parse_relay(tf_scenario_parser *p, tf_scenario_node *node)
{
    static const uint64_t in_flight[2] = {1, 65536};
    static const uint64_t timeouts[2] = {TF_SECOND, TF_SCENARIO_TIME_MAX};
    uint64_t value = 0;
    node->is_relay = true;
    while (p->at < p->count) {
        if (tf_scenario_take(p, "max-in-flight")) {
            if (tf_scenario_take_number(p, "max-in-flight", TF_UNIT_COUNT, in_flight, &value)) {
                node->max_in_flight = (uint32_t)value;
            }
        } else if (tf_scenario_take(p, "session-timeout")) {
            (void)tf_scenario_take_number(p, "session-timeout", TF_UNIT_TIME, timeouts, &node->session_timeout);
        } else if (tf_scenario_take(p, "keepalive")) {
            (void)tf_scenario_take_number(p, "keepalive", TF_UNIT_TIME, timeouts, &node->keepalive);
        } else {
            tf_scenario_error(p, "'%.60s': a relay has max-in-flight N, session-timeout DURATION, keepalive DURATION",
                              tf_scenario_next(p));
            return;
        }
    }
}

static void parse_client(tf_scenario_parser *p, tf_scenario_node *node)
{
    while (p->at < p->count) {
        tf_routes *set = NULL;
        if (tf_scenario_take(p, "direct")) {
            node->is_direct = true;
            continue;
        }
        if (tf_scenario_take(p, "routes")) {
            set = &node->routes;
        } else if (tf_scenario_take(p, "standby")) {
            set = &node->standby;
        } else {
            tf_scenario_error(p, "'%.60s': a client has direct, routes stream|datagram|both, standby stream|datagram",
                              tf_scenario_next(p));
            return;
        }
        *set = tf_scenario_routes_of(tf_scenario_next(p));
        if (*set == 0 || (set == &node->standby && *set == TF_ROUTES_BOTH)) {
            tf_scenario_error(p, "%s: needs stream or datagram%s behind it",
                              set == &node->routes ? "routes" : "standby", set == &node->routes ? " or both" : "");
        }
    }
}

void tf_scenario_parse_node(tf_scenario_parser *p)
{
    tf_scenario *s = p->s;
    bool is_relay = tf_scenario_take(p, "relay");
    tf_scenario_node node = {.routes = TF_ROUTES_BOTH};
    if (!is_relay && !tf_scenario_take(p, "client")) {
        tf_scenario_error(p, "'%.60s': [nodes] has lines 'relay NAME' and 'client NAME'", tf_scenario_next(p));
        return;
    }
    if (!tf_scenario_name(p, is_relay ? "relay" : "client", tf_scenario_next(p), node.name)) {
        return;
    }
    if (tf_scenario_node_of(s, node.name) != UINT32_MAX) {
        tf_scenario_error(p, "'%s': there is a node of that name; each needs its own", node.name);
        return;
    }
    if (is_relay) {
        parse_relay(p, &node);
    } else {
        parse_client(p, &node);
    }
    if (is_relay && s->relay != UINT32_MAX) {
        tf_scenario_error(p, "relay %s: one relay is all there may be; it is %s", node.name, s->nodes[s->relay].name);
    } else if (s->node_count == TF_SCENARIO_NODES_MAX) {
        tf_scenario_error(p, "too many nodes: %u are the most", TF_SCENARIO_NODES_MAX);
    } else {
        s->relay = is_relay ? s->node_count : s->relay;
        s->nodes[s->node_count++] = node;
    }
}

/* -- [traffic] ----------------------------------------------------------------------------------------------------- */

/* "CHANNEL -> CLIENT...". */
static void parse_subs(tf_scenario_parser *p, const char *channel)
{
    tf_scenario *s = p->s;
    while (p->at < p->count) {
        const char *name = tf_scenario_next(p);
        tf_scenario_sub sub = {.client = tf_scenario_node_of(s, name)};
        if (sub.client == UINT32_MAX || sub.client == s->relay) {
            tf_scenario_error(
                p, "'%.60s': no client of [nodes], which must stand above; 'CHANNEL -> CLIENT...' subscribes", name);
        } else if (!tf_scenario_name(p, "channel", channel, sub.channel)) {
            return;
        } else if (s->sub_count == TF_SCENARIO_SUBS_MAX) {
            tf_scenario_error(p, "too many subscriptions: %u are the most", TF_SCENARIO_SUBS_MAX);
            return;
        } else {
            s->subs[s->sub_count++] = sub;
        }
    }
}

/* rate, size, count or for, from, in any order. */
static bool parse_flow_options(tf_scenario_parser *p, tf_scenario_flow *flow, uint64_t *rate, uint64_t *span)
{
    static const uint64_t rates[2] = {1, 100000000};
    static const uint64_t sizes[2] = {TF_SCENARIO_BODY_MIN, TF_SCENARIO_BODY_MAX};
    static const uint64_t counts[2] = {1, TF_SCENARIO_COUNT_MAX};
    while (p->at < p->count) {
        uint64_t value = 0;
        bool good;
        if (tf_scenario_take(p, "rate")) {
            good = tf_scenario_take_number(p, "rate", TF_UNIT_PER_SECOND, rates, rate);
        } else if (tf_scenario_take(p, "size")) {
            good = tf_scenario_take_number(p, "size", TF_UNIT_BYTES, sizes, &value);
            flow->size = (uint32_t)value;
        } else if (tf_scenario_take(p, "count")) {
            good = tf_scenario_take_number(p, "count", TF_UNIT_COUNT, counts, &value);
            flow->count = (uint32_t)value;
        } else if (tf_scenario_take(p, "for")) {
            good = tf_scenario_take_number(p, "for", TF_UNIT_TIME, up_to_day, span);
        } else if (tf_scenario_take(p, "from")) {
            good = tf_scenario_take_number(p, "from", TF_UNIT_TIME, up_to_day, &flow->from);
        } else {
            tf_scenario_error(p, "'%.60s': a flow has rate N/s, size BYTES, count N or for DURATION, from DURATION",
                              tf_scenario_next(p));
            good = false;
        }
        if (!good) {
            return false;
        }
    }
    return true;
}

/* "CLIENT -> CHANNEL rate ...". */
static void parse_flow(tf_scenario_parser *p, uint32_t client)
{
    tf_scenario *s = p->s;
    uint64_t rate = 0;
    uint64_t span = 0;
    tf_scenario_flow flow = {.client = client, .size = 200};
    if (!tf_scenario_name(p, "channel", tf_scenario_next(p), flow.channel) ||
        !parse_flow_options(p, &flow, &rate, &span)) {
        return;
    }
    if (rate == 0 || (flow.count == 0) == (span == 0)) {
        tf_scenario_error(p, "a flow needs a rate such as 'rate 500/s', and either 'count N' or 'for DURATION'");
        return;
    }
    flow.rate = (double)rate / 1000;
    if (flow.count == 0) {
        double count = flow.rate * (double)span / (double)TF_SECOND;
        flow.count = count > TF_SCENARIO_COUNT_MAX ? TF_SCENARIO_COUNT_MAX + 1 : (uint32_t)count;
    }
    if (flow.count == 0 || flow.count > TF_SCENARIO_COUNT_MAX ||
        (double)flow.count / flow.rate * (double)TF_SECOND > (double)TF_SCENARIO_TIME_MAX) {
        tf_scenario_error(p, "a flow has 1 to %u messages, within a day", TF_SCENARIO_COUNT_MAX);
    } else if (s->flow_count == TF_SCENARIO_FLOWS_MAX) {
        tf_scenario_error(p, "too many flows: %u are the most", TF_SCENARIO_FLOWS_MAX);
    } else {
        s->flows[s->flow_count++] = flow;
    }
}

void tf_scenario_parse_traffic(tf_scenario_parser *p)
{
    const char *from = tf_scenario_next(p);
    uint32_t client = tf_scenario_node_of(p->s, from);
    if (!tf_scenario_take(p, "->") || p->at == p->count) {
        tf_scenario_error(p, "[traffic] has lines 'CLIENT -> CHANNEL rate N/s count N' and 'CHANNEL -> CLIENT...'");
    } else if (client != UINT32_MAX && client == p->s->relay) {
        tf_scenario_error(p, "'%s' is the relay; clients send and subscribe", from);
    } else if (client != UINT32_MAX) {
        parse_flow(p, client);
    } else {
        parse_subs(p, from);
    }
}

/* -- [expect] ------------------------------------------------------------------------------------------------------ */

static bool parse_relation(tf_scenario_parser *p, tf_scenario_relation *out)
{
    for (int i = 0; i <= TF_RELATION_ABOVE; i++) {
        if (tf_scenario_take(p, tf_scenario_relation_name((tf_scenario_relation)i))) {
            *out = (tf_scenario_relation)i;
            return true;
        }
    }
    *out = TF_RELATION_EQUAL;
    return p->at < p->count && p->words[p->at][0] >= '0' && p->words[p->at][0] <= '9';
}

static void add_expect(tf_scenario_parser *p, const tf_scenario_expect *expect)
{
    if (p->s->expect_count == TF_SCENARIO_EXPECTS_MAX) {
        tf_scenario_error(p, "too many expectations: %u are the most", TF_SCENARIO_EXPECTS_MAX);
        return;
    }
    p->s->expects[p->s->expect_count++] = *expect;
}

static void unknown_key(tf_scenario_parser *p, const char *word)
{
    char known[TF_SCENARIO_ERROR_TEXT_MAX] = "";
    size_t len = 0;
    for (int key = 0; key < TF_KEY_COUNT; key++) {
        int more = snprintf(known + len, sizeof(known) - len, "%s%s", key == 0 ? "" : ", ",
                            tf_scenario_key_name((tf_scenario_key)key));
        len += more > 0 && (size_t)more < sizeof(known) - len ? (size_t)more : 0;
    }
    tf_scenario_error(p, "'%.40s': nothing is counted under that name; there are %s", word, known);
}

void tf_scenario_parse_expect(tf_scenario_parser *p)
{
    static const uint64_t any[2] = {0, UINT64_MAX - 1};
    const char *word = tf_scenario_next(p);
    tf_scenario_expect expect = {.line = p->line, .key = TF_KEY_COUNT};
    for (int key = 0; key < TF_KEY_COUNT; key++) {
        if (tf_scenario_is_word(word, tf_scenario_key_name((tf_scenario_key)key))) {
            expect.key = (tf_scenario_key)key;
        }
    }
    if (expect.key == TF_KEY_COUNT) {
        unknown_key(p, word);
        return;
    }
    if (!parse_relation(p, &expect.relation)) {
        tf_scenario_error(p, "%s %.40s: needs =, <=, >=, < or > and a number", word, tf_scenario_peek(p));
        return;
    }
    tf_scenario_unit unit = tf_scenario_key_is_time(expect.key) ? TF_UNIT_TIME : TF_UNIT_COUNT;
    if (tf_scenario_take_number(p, word, unit, any, &expect.value)) {
        add_expect(p, &expect);
        tf_scenario_line_end(p);
    }
}

/* What must be 0 unless the file has its own line for it. */
static void always_expected(tf_scenario_parser *p)
{
    for (int key = 0; key < TF_KEYS_ALWAYS; key++) {
        bool said = false;
        for (uint32_t i = 0; i < p->s->expect_count; i++) {
            said = said || p->s->expects[i].key == (tf_scenario_key)key;
        }
        if (!said) {
            add_expect(p, &(tf_scenario_expect){.key = (tf_scenario_key)key});
        }
    }
}

/* -- the file ------------------------------------------------------------------------------------------------------ */

static void parse_scenario(tf_scenario_parser *p)
{
    static const uint64_t any[2] = {0, UINT64_MAX - 1};
    tf_scenario *s = p->s;
    if (tf_scenario_take(p, "title")) {
        size_t len = 0;
        while (p->at < p->count && len < sizeof(s->title) - 1) {
            int more =
                snprintf(s->title + len, sizeof(s->title) - len, "%s%s", len == 0 ? "" : " ", tf_scenario_next(p));
            len += more > 0 ? (size_t)more : 0;
        }
        return;
    }
    if (tf_scenario_take(p, "seed")) {
        (void)tf_scenario_take_number(p, "seed", TF_UNIT_COUNT, any, &s->seed);
    } else if (tf_scenario_take(p, "settle")) {
        (void)tf_scenario_take_number(p, "settle", TF_UNIT_TIME, up_to_day, &s->settle);
    } else if (tf_scenario_take(p, "patience")) {
        (void)tf_scenario_take_number(p, "patience", TF_UNIT_TIME, up_to_day, &s->patience);
    } else {
        tf_scenario_error(p, "'%.60s': [scenario] has title TEXT, seed N, settle DURATION, patience DURATION",
                          tf_scenario_next(p));
        return;
    }
    tf_scenario_line_end(p);
}

/* "[route stream A]", of which the brackets are gone. */
static void begin_route(tf_scenario_parser *p)
{
    p->routes = tf_scenario_routes_of(tf_scenario_next(p));
    p->client = TF_SCENARIO_ALL;
    if (p->routes == 0 || p->count > p->at + 1) {
        tf_scenario_error(p, "there are sections " ROUTE_SECTIONS);
        p->section = TF_SECTION_BAD;
        return;
    }
    if (p->at < p->count) {
        p->client = tf_scenario_node_of(p->s, p->words[p->at]);
        if (p->client == UINT32_MAX || p->client == p->s->relay || p->s->nodes[p->client].is_direct) {
            tf_scenario_error(p, "'%.60s': no client of [nodes] (which must stand above) with routes", p->words[p->at]);
            p->section = TF_SECTION_BAD;
        }
    }
}

static void begin_section(tf_scenario_parser *p)
{
    static const struct {
        const char *name;
        tf_scenario_section section;
    } sections[] = {
        {"scenario", TF_SECTION_SCENARIO}, {"nodes", TF_SECTION_NODES},       {"traffic", TF_SECTION_TRAFFIC},
        {"route", TF_SECTION_ROUTE},       {"timeline", TF_SECTION_TIMELINE}, {"expect", TF_SECTION_EXPECT},
    };
    const char *name = tf_scenario_next(p);
    p->section = TF_SECTION_BAD;
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        if (tf_scenario_is_word(name, sections[i].name)) {
            p->section = sections[i].section;
        }
    }
    if (p->section == TF_SECTION_ROUTE) {
        begin_route(p);
    } else if (p->section == TF_SECTION_BAD) {
        tf_scenario_error(p, "[%.60s]: there are [scenario], [nodes], [traffic], [route ...], [timeline] and [expect]",
                          name);
    } else {
        tf_scenario_line_end(p);
    }
}

/* Words of the line in p->text, without a comment. False: there are too many. */
static bool split(tf_scenario_parser *p)
{
    char *at = p->text;
    p->count = 0;
    p->at = 0;
    for (;;) {
        at += strspn(at, " \t\r");
        if (*at == '\0' || *at == '#') {
            return true;
        }
        if (p->count == TF_SCENARIO_WORDS_MAX) {
            return false;
        }
        p->words[p->count++] = at;
        at += strcspn(at, " \t\r");
        if (*at != '\0') {
            *at++ = '\0';
        }
    }
}

/* "[name ...]" without its brackets; false: it is no header of a section. */
static bool unbracket(tf_scenario_parser *p)
{
    char *last = p->count > 0 ? p->words[p->count - 1] : NULL;
    size_t len = last == NULL ? 0 : strlen(last);
    if (last == NULL || p->words[0][0] != '[' || last[len - 1] != ']') {
        return false;
    }
    last[len - 1] = '\0';
    p->words[0]++;
    return true;
}

static void parse_words(tf_scenario_parser *p)
{
    switch (p->section) {
    case TF_SECTION_NONE:
        tf_scenario_error(p, "'%.60s': a section such as [nodes] must stand above", p->words[0]);
        return;
    case TF_SECTION_SCENARIO:
        parse_scenario(p);
        return;
    case TF_SECTION_NODES:
        tf_scenario_parse_node(p);
        return;
    case TF_SECTION_TRAFFIC:
        tf_scenario_parse_traffic(p);
        return;
    case TF_SECTION_ROUTE:
        tf_scenario_parse_baseline(p);
        return;
    case TF_SECTION_TIMELINE:
        tf_scenario_parse_timeline(p);
        return;
    case TF_SECTION_EXPECT:
        tf_scenario_parse_expect(p);
        return;
    case TF_SECTION_BAD:
        return;
    }
}

static void parse_line(tf_scenario_parser *p, tf_slice line)
{
    if (line.len >= sizeof(p->text) || (line.len > 0 && memchr(line.data, '\0', line.len) != NULL)) {
        tf_scenario_error(p, "a line is text of at most %u bytes", TF_SCENARIO_LINE_MAX - 1);
        return;
    }
    if (line.len > 0) {
        memcpy(p->text, line.data, line.len);
    }
    p->text[line.len] = '\0';
    if (!split(p)) {
        tf_scenario_error(p, "more than %u words in a line", TF_SCENARIO_WORDS_MAX);
    } else if (unbracket(p)) {
        begin_section(p);
    } else if (p->count > 0 && p->words[0][0] == '[') {
        tf_scenario_error(p, "the name of a section stands in a line of its own, between [ and ]");
        p->section = TF_SECTION_BAD;
    } else if (p->count > 0) {
        parse_words(p);
    }
}

static void check_sub(tf_scenario_parser *p, uint32_t sub)
{
    const tf_scenario *s = p->s;
    const char *channel = s->subs[sub].channel;
    const char *client = s->nodes[s->subs[sub].client].name;
    bool fed = false;
    for (uint32_t flow = 0; flow < s->flow_count; flow++) {
        fed = fed || tf_scenario_feeds(s, flow, sub);
        if (tf_scenario_feeds(s, flow, sub) && s->flows[flow].client == s->subs[sub].client) {
            tf_scenario_error(p, "%s sends to %s and subscribes to it: a sender is not handed its own messages", client,
                              channel);
        }
    }
    for (uint32_t other = 0; other < sub; other++) {
        if (s->subs[other].client == s->subs[sub].client && strcmp(s->subs[other].channel, channel) == 0) {
            tf_scenario_error(p, "%s subscribes to %s twice", client, channel);
        }
    }
    if (!fed && s->flow_count > 0) {
        tf_scenario_error(p, "'%s' is neither a client nor a channel that anybody sends to", channel);
    }
}

/* What no single line can show. */
static void check_whole(tf_scenario_parser *p)
{
    p->line = 0;
    if (p->s->relay == UINT32_MAX) {
        tf_scenario_error(p, "there is no relay: [nodes] needs a line 'relay NAME'");
    }
    if (p->s->flow_count == 0) {
        tf_scenario_error(p, "there is no traffic: [traffic] needs a line 'CLIENT -> CHANNEL rate N/s count N'");
    }
    for (uint32_t i = 0; i < p->s->sub_count; i++) {
        check_sub(p, i);
    }
}

bool tf_scenario_parse(tf_scenario *out, tf_slice text, tf_scenario_errors *errors)
{
    tf_scenario_parser p = {.s = out, .errors = errors, .client = TF_SCENARIO_ALL};
    memset(out, 0, sizeof(*out));
    memset(errors, 0, sizeof(*errors));
    out->seed = 1;
    out->relay = UINT32_MAX;
    out->settle = 3 * TF_SECOND;
    out->patience = 30 * TF_SECOND;
    if (text.len > TF_SCENARIO_FILE_MAX) {
        tf_scenario_error(&p, "the file is larger than %u bytes", TF_SCENARIO_FILE_MAX);
        return false;
    }
    for (size_t at = 0; at < text.len;) {
        const uint8_t *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end == NULL ? text.len - at : (size_t)(end - (text.data + at));
        p.line++;
        parse_line(&p, tf_slice_of(text.data + at, len));
        at += len + 1;
    }
    if (errors->count == 0) {
        check_whole(&p);
    }
    always_expected(&p);
    return errors->count == 0;
}
