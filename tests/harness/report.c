#include "tests/harness/report.h"

#include <inttypes.h>

#define TEXT 32
#define CELL_GAP "  "

const char *tf_lab_routes_name(tf_routes routes)
{
    return routes == TF_ROUTES_STREAM ? "stream" : routes == TF_ROUTES_DATAGRAM ? "datagram" : "both";
}

const char *tf_lab_time_text(tf_time span, char out[TEXT])
{
    if (span < 10 * TF_SECOND) {
        (void)snprintf(out, TEXT, "%.1f ms", (double)span / (double)TF_MS);
    } else {
        (void)snprintf(out, TEXT, "%.2f s", (double)span / (double)TF_SECOND);
    }
    return out;
}

static double seconds(tf_time at)
{
    return (double)at / (double)TF_SECOND;
}

static const char *node_name(const tf_lab_report *report, uint32_t node)
{
    return report->s->nodes[node].name;
}

/* -- the table ----------------------------------------------------------------------------------------------------- */

static void table_pairs(const tf_lab_report *report, FILE *out)
{
    char p50[TEXT];
    char p99[TEXT];
    char most[TEXT];
    char gap[TEXT];
    (void)fprintf(out, "%-28s %9s %9s %6s %8s %10s %10s %10s %10s %11s\n", "flow", "messages", "delivered", "lost",
                  "repeated", "misordered", "delay p50", "p99", "longest", "longest gap");
    for (size_t i = 0; i < report->results->pair_count; i++) {
        const tf_lab_pair *pair = &report->results->pairs[i];
        const tf_scenario_flow *flow = &report->s->flows[pair->flow];
        char name[3 * TF_SCENARIO_NAME_MAX];
        (void)snprintf(name, sizeof(name), "%s -> %s -> %s", node_name(report, flow->client), flow->channel,
                       node_name(report, report->s->subs[pair->sub].client));
        (void)fprintf(out,
                      "%-28s %9" PRIu32 " %9" PRIu64 " %6" PRIu64 " %8" PRIu64 " %10" PRIu64 " %10s %10s %10s %11s\n",
                      name, flow->count, pair->delivered, pair->lost, pair->repeated, pair->misordered,
                      tf_lab_time_text(pair->delay_p50, p50), tf_lab_time_text(pair->delay_p99, p99),
                      tf_lab_time_text(pair->delay_max, most), tf_lab_time_text(pair->gap, gap));
    }
}

/* The phase of another run of the same scenario. */
static const tf_lab_phase *phase_of(const tf_lab_report *report, size_t at)
{
    return report != NULL && at < report->results->phase_count ? &report->results->phases[at] : NULL;
}

static void table_phases(const tf_lab_report *report, const tf_lab_report *other, FILE *out)
{
    char gap[TEXT];
    char delay[TEXT];
    (void)fprintf(out, "\n%-16s %9s %11s %11s %10s %10s %10s %10s", "seconds", "delivered", "longest gap", "most delay",
                  "stream", "datagram", "rescued by", "rescued by");
    if (other != NULL) {
        (void)fprintf(out, " %14s", "gap");
    }
    (void)fprintf(out, "  what was wrong\n%-16s %9s %11s %11s %10s %10s %10s %10s", "", "", "", "", "first", "first",
                  "stream", "datagram");
    if (other != NULL) {
        (void)fprintf(out, " %9s only", tf_lab_routes_name(other->routes));
    }
    (void)fputc('\n', out);
    for (size_t i = 0; i < report->results->phase_count; i++) {
        const tf_lab_phase *phase = &report->results->phases[i];
        const tf_lab_phase *beside = phase_of(other, i);
        char when[TEXT];
        (void)snprintf(when, sizeof(when), "%.1f - %.1f", seconds(phase->when.from), seconds(phase->when.to));
        (void)fprintf(out, "%-16s %9" PRIu64 " %11s %11s %10" PRIu64 " %10" PRIu64 " %10" PRIu64 " %10" PRIu64, when,
                      phase->delivered, tf_lab_time_text(phase->gap, gap), tf_lab_time_text(phase->delay, delay),
                      phase->wins[0], phase->wins[1], phase->rescues[0], phase->rescues[1]);
        if (beside != NULL) {
            (void)fprintf(out, " %14s", tf_lab_time_text(beside->gap, gap));
        }
        (void)fprintf(out, "  %s\n", phase->when.text[0] != '\0' ? phase->when.text : "-");
    }
}

/* "5 ms" or "over 1 s": the bound below which so much of the second copies came. */
static const char *late_text(const uint64_t late[TF_LATE_BUCKETS], unsigned percent, char out[TEXT])
{
    uint64_t all = 0;
    uint64_t below = 0;
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        all += late[i];
    }
    (void)snprintf(out, TEXT, "-");
    for (size_t i = 0; i < TF_LATE_BUCKETS && all > 0; i++) {
        below += late[i];
        if (below * 100 >= all * percent) {
            bool last = i == TF_LATE_BUCKETS - 1;
            char text[TEXT];
            (void)snprintf(out, TEXT, "%s%.20s", last ? "> " : "",
                           tf_lab_time_text(tf_late_bounds[last ? i - 1 : i], text));
            break;
        }
    }
    return out;
}

static void table_routes(const tf_lab_report *report, FILE *out)
{
    char p50[TEXT];
    char p99[TEXT];
    (void)fprintf(out, "\n%-12s %-9s %9s %9s %9s %9s %7s %7s %11s %11s\n", "client", "route", "copies", "first",
                  "rescues", "second", "lost", "shed", "late by p50", "p99");
    for (uint32_t i = 0; i < report->s->node_count; i++) {
        tf_lab_sample last;
        tf_lab_verdict_sample_at(report->verdict, i, TF_NEVER, &last);
        for (int k = 0; k < TF_ROUTE_COUNT && i != report->s->relay; k++) {
            const tf_lab_route *r = &last.routes[k];
            (void)fprintf(
                out,
                "%-12s %-9s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %7" PRIu64 " %7" PRIu64 " %11s %11s\n",
                node_name(report, i), tf_route_name((tf_route)k), r->sent + r->received,
                tf_lab_wins(&last, (tf_route)k), tf_lab_rescues(&last, (tf_route)k), r->repeats + r->told_repeats,
                r->lost, r->shed, late_text(r->late, 50, p50), late_text(r->late, 99, p99));
        }
    }
}

static void value_text(tf_scenario_key key, uint64_t value, char out[TEXT])
{
    if (tf_scenario_key_is_time(key)) {
        (void)tf_lab_time_text(value, out);
    } else {
        (void)snprintf(out, TEXT, "%" PRIu64, value);
    }
}

static void table_verdict(const tf_lab_report *report, FILE *out)
{
    (void)fputc('\n', out);
    for (size_t i = 0; i < report->results->broken_count; i++) {
        const tf_lab_broken *broken = &report->results->broken[i];
        char wanted[TEXT];
        char got[TEXT];
        value_text(broken->expect.key, broken->expect.value, wanted);
        value_text(broken->expect.key, broken->got, got);
        if (broken->expect.line != 0) {
            (void)fprintf(out, "line %u: ", broken->expect.line);
        }
        (void)fprintf(out, "%s was to be %s %s, and is %s\n", tf_scenario_key_name(broken->expect.key),
                      tf_scenario_relation_name(broken->expect.relation), wanted, got);
    }
    if (report->results->broken_count == 0) {
        (void)fprintf(out, "held: all %u expectations\n", (unsigned)report->s->expect_count);
    } else {
        (void)fprintf(out, "broken: %zu of %u expectations\n", report->results->broken_count,
                      (unsigned)report->s->expect_count);
    }
}

void tf_lab_report_table(const tf_lab_report *report, const tf_lab_report *other, FILE *out)
{
    (void)fprintf(out, "%s\n%s, routes: %s, %.1f s\n\n", report->s->title[0] != '\0' ? report->s->title : "(no title)",
                  report->mode, tf_lab_routes_name(report->routes), seconds(report->results->end));
    table_pairs(report, out);
    if (other != NULL) {
        (void)fprintf(out, "\nthe same with routes: %s\n", tf_lab_routes_name(other->routes));
        table_pairs(other, out);
    }
    table_phases(report, other, out);
    table_routes(report, out);
    table_verdict(report, out);
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

static void json_text(const char *text, FILE *out)
{
    (void)fputc('"', out);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\') {
            (void)fputc('\\', out);
        }
        if ((unsigned char)*at < 0x20) {
            (void)fprintf(out, "\\u%04x", (unsigned)(unsigned char)*at);
        } else {
            (void)fputc(*at, out);
        }
    }
    (void)fputc('"', out);
}

static void json_number(const char *key, uint64_t value, FILE *out)
{
    (void)fprintf(out, ",\"%s\":%" PRIu64, key, value);
}

/* Keys of the file with `_` for `-`, and times by their unit. */
static void json_key(tf_scenario_key key, FILE *out)
{
    for (const char *at = tf_scenario_key_name(key); *at != '\0'; at++) {
        (void)fputc(*at == '-' ? '_' : *at, out);
    }
    (void)fputs(tf_scenario_key_is_time(key) ? "_us" : "", out);
}

static void json_totals(const tf_lab_report *report, FILE *out)
{
    (void)fputs(",\"totals\":{", out);
    for (int key = 0; key < TF_KEY_COUNT; key++) {
        (void)fputs(key == 0 ? "\"" : ",\"", out);
        json_key((tf_scenario_key)key, out);
        (void)fprintf(out, "\":%" PRIu64, report->results->totals[key]);
    }
    (void)fputc('}', out);
}

static void json_pairs(const tf_lab_report *report, FILE *out)
{
    (void)fputs(",\"flows\":[", out);
    for (size_t i = 0; i < report->results->pair_count; i++) {
        const tf_lab_pair *pair = &report->results->pairs[i];
        const tf_scenario_flow *flow = &report->s->flows[pair->flow];
        (void)fputs(i == 0 ? "{\"from\":" : ",{\"from\":", out);
        json_text(node_name(report, flow->client), out);
        (void)fputs(",\"channel\":", out);
        json_text(flow->channel, out);
        (void)fputs(",\"to\":", out);
        json_text(node_name(report, report->s->subs[pair->sub].client), out);
        json_number("messages", flow->count, out);
        json_number("delivered", pair->delivered, out);
        json_number("lost", pair->lost, out);
        json_number("repeated", pair->repeated, out);
        json_number("misordered", pair->misordered, out);
        json_number("altered", pair->altered, out);
        json_number("gap_us", pair->gap, out);
        json_number("gap_at_us", pair->gap_at, out);
        json_number("delay_p50_us", pair->delay_p50, out);
        json_number("delay_p99_us", pair->delay_p99, out);
        json_number("delay_max_us", pair->delay_max, out);
        (void)fputc('}', out);
    }
    (void)fputc(']', out);
}

static void json_phases(const tf_lab_report *report, FILE *out)
{
    (void)fputs(",\"phases\":[", out);
    for (size_t i = 0; i < report->results->phase_count; i++) {
        const tf_lab_phase *phase = &report->results->phases[i];
        (void)fputs(i == 0 ? "{\"wrong\":" : ",{\"wrong\":", out);
        json_text(phase->when.text, out);
        json_number("from_us", phase->when.from, out);
        json_number("to_us", phase->when.to, out);
        json_number("delivered", phase->delivered, out);
        json_number("gap_us", phase->gap, out);
        json_number("delay_max_us", phase->delay, out);
        json_number("stream_first", phase->wins[TF_ROUTE_STREAM], out);
        json_number("datagram_first", phase->wins[TF_ROUTE_DATAGRAM], out);
        json_number("stream_rescues", phase->rescues[TF_ROUTE_STREAM], out);
        json_number("datagram_rescues", phase->rescues[TF_ROUTE_DATAGRAM], out);
        (void)fputc('}', out);
    }
    (void)fputc(']', out);
}

static void json_route(const tf_lab_sample *sample, tf_route route, FILE *out)
{
    const tf_lab_route *r = &sample->routes[route];
    (void)fprintf(out, ",\"%s\":{\"copies_sent\":%" PRIu64, tf_route_name(route), r->sent);
    json_number("copies_received", r->received, out);
    json_number("first", tf_lab_wins(sample, route), out);
    json_number("rescues", tf_lab_rescues(sample, route), out);
    json_number("second", r->repeats + r->told_repeats, out);
    json_number("lost", r->lost, out);
    json_number("shed", r->shed, out);
    json_number("downs", r->downs, out);
    (void)fputs(",\"late\":[", out);
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        (void)fprintf(out, "%s%" PRIu64, i == 0 ? "" : ",", r->late[i]);
    }
    (void)fputs("]}", out);
}

static void json_clients(const tf_lab_report *report, FILE *out)
{
    bool first = true;
    (void)fputs(",\"clients\":[", out);
    for (uint32_t i = 0; i < report->s->node_count; i++) {
        tf_lab_sample last;
        if (i == report->s->relay) {
            continue;
        }
        tf_lab_verdict_sample_at(report->verdict, i, TF_NEVER, &last);
        (void)fputs(first ? "{\"name\":" : ",{\"name\":", out);
        json_text(node_name(report, i), out);
        json_number("sessions", last.sessions, out);
        json_number("resumes", last.resumes, out);
        json_route(&last, TF_ROUTE_STREAM, out);
        json_route(&last, TF_ROUTE_DATAGRAM, out);
        (void)fputc('}', out);
        first = false;
    }
    (void)fputc(']', out);
}

static void json_broken(const tf_lab_report *report, FILE *out)
{
    (void)fputs(",\"broken\":[", out);
    for (size_t i = 0; i < report->results->broken_count; i++) {
        const tf_lab_broken *broken = &report->results->broken[i];
        (void)fputs(i == 0 ? "{\"key\":\"" : ",{\"key\":\"", out);
        json_key(broken->expect.key, out);
        (void)fprintf(out, "\",\"relation\":\"%s\"", tf_scenario_relation_name(broken->expect.relation));
        json_number("value", broken->expect.value, out);
        json_number("got", broken->got, out);
        json_number("line", broken->expect.line, out);
        (void)fputc('}', out);
    }
    (void)fputc(']', out);
}

void tf_lab_report_json(const tf_lab_report *report, FILE *out)
{
    (void)fputs("{\"v\":1,\"title\":", out);
    json_text(report->s->title, out);
    (void)fprintf(out, ",\"mode\":\"%s\",\"routes\":\"%s\",\"held\":%s", report->mode,
                  tf_lab_routes_name(report->routes), report->results->broken_count == 0 ? "true" : "false");
    json_number("end_us", report->results->end, out);
    json_totals(report, out);
    json_pairs(report, out);
    json_phases(report, out);
    json_clients(report, out);
    json_broken(report, out);
    (void)fputs("}\n", out);
}
