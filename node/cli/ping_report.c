#include "node/cli/ping_report.h"

#include <inttypes.h>

#include "node/cli/stats.h"

static bool was_asked(tf_routes asked, size_t route)
{
    return (asked & (1u << route)) != 0;
}

bool tf_ping_winner(const tf_ping_result *result, tf_route *winner, tf_time *by)
{
    tf_time best = TF_NEVER;
    tf_time second = TF_NEVER;
    unsigned asked = 0;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_ping_answer *answer = &result->routes[i];
        asked += was_asked(result->asked, i) ? 1u : 0u;
        if (!was_asked(result->asked, i) || answer->fate != TF_PING_FATE_ANSWERED) {
            continue;
        }
        if (answer->rtt < best) {
            second = best;
            best = answer->rtt;
            *winner = (tf_route)i;
        } else {
            second = tf_time_min(second, answer->rtt);
        }
    }
    *by = second == TF_NEVER || asked < 2 ? 0 : second - best;
    return best != second && asked > 1;
}

/* -- counting ------------------------------------------------------------------------------------------------------ */

static void count_answer(tf_ping_count *count, const tf_ping_answer *answer)
{
    count->sent += answer->fate == TF_PING_FATE_NOT_SENT ? 0u : 1u;
    if (answer->fate == TF_PING_FATE_ANSWERED) {
        count->least = count->answered == 0 ? answer->rtt : tf_time_min(count->least, answer->rtt);
        count->most = tf_time_max(count->most, answer->rtt);
        count->sum += answer->rtt;
        count->answered++;
    }
}

void tf_ping_tally_add(tf_ping_tally *tally, const tf_ping_result *result)
{
    tf_route winner = TF_ROUTE_STREAM;
    tf_time by = 0;
    tally->pings++;
    tally->asked |= result->asked;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (was_asked(result->asked, i)) {
            count_answer(&tally->routes[i], &result->routes[i]);
        }
    }
    if (tf_ping_winner(result, &winner, &by)) {
        tf_ping_count *count = &tally->routes[winner];
        count->won++;
        count->won_by += by;
        count->won_against += by > 0 ? 1u : 0u;
    }
}

tf_ping_verdict tf_ping_judge(const tf_ping_tally *tally, const tf_peer_stats *stats, tf_route *route)
{
    bool any = false;
    bool degraded = false;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_verdict verdict = stats->routes[i].stats.verdict;
        bool lives = stats->connected && (verdict == TF_VERDICT_UP || verdict == TF_VERDICT_STALLED);
        any = any || tally->routes[i].answered > 0;
        if (was_asked(tally->asked, i) && !degraded && (tally->routes[i].answered == 0 || !lives)) {
            degraded = true;
            *route = (tf_route)i;
        }
    }
    if (!any) {
        return TF_PING_VERDICT_SILENT;
    }
    return degraded ? TF_PING_VERDICT_DEGRADED : TF_PING_VERDICT_OK;
}

/* -- a line -------------------------------------------------------------------------------------------------------- */

static void print_answer(const tf_ping_answer *answer, FILE *out)
{
    char text[TF_TIME_TEXT_MAX];
    switch (answer->fate) {
    case TF_PING_FATE_ANSWERED:
        (void)fputs(tf_time_text(answer->rtt, text), out);
        return;
    case TF_PING_FATE_LOST:
        (void)fputs("no answer", out);
        return;
    case TF_PING_FATE_NOT_SENT:
        (void)fprintf(out, "%s", answer->verdict == TF_VERDICT_UP ? "not sent" : tf_verdict_name(answer->verdict));
        return;
    }
    TF_UNREACHABLE();
}

void tf_ping_print(const tf_ping_result *result, FILE *out)
{
    char text[TF_TIME_TEXT_MAX];
    tf_route winner = TF_ROUTE_STREAM;
    tf_time by = 0;
    const char *before = ": ";
    (void)fprintf(out, "ping %" PRIu64, result->number);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (was_asked(result->asked, i)) {
            (void)fprintf(out, "%s%s ", before, tf_route_name((tf_route)i));
            print_answer(&result->routes[i], out);
            before = ", ";
        }
    }
    if (tf_ping_winner(result, &winner, &by) && by > 0) {
        (void)fprintf(out, "; %s won by %s", tf_route_name(winner), tf_time_text(by, text));
    }
    (void)fputc('\n', out);
}

static const char *fate_name(tf_ping_fate fate)
{
    switch (fate) {
    case TF_PING_FATE_ANSWERED:
        return "answered";
    case TF_PING_FATE_LOST:
        return "lost";
    case TF_PING_FATE_NOT_SENT:
        return "not_sent";
    }
    TF_UNREACHABLE();
}

void tf_ping_print_json(const tf_ping_result *result, FILE *out)
{
    tf_route winner = TF_ROUTE_STREAM;
    tf_time by = 0;
    const char *before = "";
    (void)fprintf(out, "{\"v\":1,\"type\":\"ping\",\"number\":%" PRIu64 ",\"routes\":[", result->number);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_ping_answer *answer = &result->routes[i];
        if (!was_asked(result->asked, i)) {
            continue;
        }
        (void)fprintf(out, "%s{\"route\":\"%s\",\"result\":\"%s\",\"verdict\":\"%s\"", before, tf_route_name((tf_route)i),
                      fate_name(answer->fate), tf_verdict_name(answer->verdict));
        if (answer->fate == TF_PING_FATE_ANSWERED) {
            (void)fprintf(out, ",\"rtt_us\":%" PRIu64, answer->rtt);
        }
        (void)fputc('}', out);
        before = ",";
    }
    (void)fputc(']', out);
    if (tf_ping_winner(result, &winner, &by)) {
        (void)fprintf(out, ",\"won\":\"%s\"", tf_route_name(winner));
    }
    if (by > 0) {
        (void)fprintf(out, ",\"by_us\":%" PRIu64, by);
    }
    (void)fputs("}\n", out);
}

/* -- the summary --------------------------------------------------------------------------------------------------- */

static tf_time mean(tf_time sum, uint64_t count)
{
    return count == 0 ? 0 : sum / count;
}

static double lost_part(const tf_ping_count *count)
{
    return count->sent == 0 ? 0 : 100 * (double)(count->sent - count->answered) / (double)count->sent;
}

static void print_count(const tf_ping_tally *tally, tf_route route, const tf_peer_stats *stats, FILE *out)
{
    const tf_ping_count *count = &tally->routes[route];
    bool several = (tally->asked & (tally->asked - 1u)) != 0;
    char text[3][TF_TIME_TEXT_MAX];
    (void)fprintf(out, "%s: ", tf_route_name(route));
    tf_stats_print_route(stats, route, out);
    (void)fprintf(out, "\n  asked %" PRIu64 ", answered %" PRIu64 ", lost %.1f %%", count->sent, count->answered,
                  lost_part(count));
    if (count->answered > 0) {
        (void)fprintf(out, "; least %s, mean %s, most %s", tf_time_text(count->least, text[0]),
                      tf_time_text(mean(count->sum, count->answered), text[1]), tf_time_text(count->most, text[2]));
    }
    if (several) {
        (void)fprintf(out, "; won %" PRIu64, count->won);
    }
    if (count->won_against > 0) {
        (void)fprintf(out, ", on average by %s", tf_time_text(mean(count->won_by, count->won_against), text[0]));
    }
    (void)fputc('\n', out);
}

void tf_ping_print_summary(const tf_ping_tally *tally, const tf_peer_stats *stats, tf_time span, FILE *out)
{
    char text[TF_TIME_TEXT_MAX];
    (void)fprintf(out, "%" PRIu64 " pings in %s\n", tally->pings, tf_time_text(span, text));
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        if (was_asked(tally->asked, i)) {
            print_count(tally, (tf_route)i, stats, out);
        }
    }
    tf_stats_print_sessions(stats, out);
}

void tf_ping_print_summary_json(const tf_ping_tally *tally, const tf_peer_stats *stats, tf_time span, FILE *out)
{
    const char *before = "";
    (void)fprintf(out, "{\"v\":1,\"type\":\"summary\",\"span_us\":%" PRIu64 ",\"pings\":%" PRIu64 ",\"answers\":[", span,
                  tally->pings);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_ping_count *count = &tally->routes[i];
        if (!was_asked(tally->asked, i)) {
            continue;
        }
        (void)fprintf(out, "%s{\"route\":\"%s\",\"asked\":%" PRIu64 ",\"answered\":%" PRIu64 ",\"won\":%" PRIu64, before,
                      tf_route_name((tf_route)i), count->sent, count->answered, count->won);
        if (count->answered > 0) {
            (void)fprintf(out, ",\"least_us\":%" PRIu64 ",\"mean_us\":%" PRIu64 ",\"most_us\":%" PRIu64, count->least,
                          mean(count->sum, count->answered), count->most);
        }
        if (count->won_against > 0) {
            (void)fprintf(out, ",\"won_by_us\":%" PRIu64, mean(count->won_by, count->won_against));
        }
        (void)fputc('}', out);
        before = ",";
    }
    (void)fputc(']', out);
    tf_stats_print_json(stats, out);
    (void)fputs("}\n", out);
}
