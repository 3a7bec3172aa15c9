#include "node/cli/stats.h"

#include <inttypes.h>

#define CELL TF_ADDRESS_TEXT_MAX

/* -- numbers as text ----------------------------------------------------------------------------------------------- */

/* Two units, the larger one first. */
static void two_units(char out[TF_TIME_TEXT_MAX], uint64_t value, uint64_t per, const char *large, const char *small)
{
    (void)snprintf(out, TF_TIME_TEXT_MAX, "%" PRIu64 " %s %" PRIu64 " %s", value / per, large, value % per, small);
}

const char *tf_time_text(tf_time span, char out[TF_TIME_TEXT_MAX])
{
    uint64_t seconds = span / TF_SECOND;
    double ms = (double)span / (double)TF_MS;
    if (span == TF_NEVER) {
        (void)snprintf(out, TF_TIME_TEXT_MAX, "never");
    } else if (span < TF_SECOND) {
        (void)snprintf(out, TF_TIME_TEXT_MAX, "%.*f ms", span < 10 * TF_MS ? 3 : 1, ms);
    } else if (seconds < 60) {
        (void)snprintf(out, TF_TIME_TEXT_MAX, "%.2f s", ms / 1000);
    } else if (seconds < 3600) {
        two_units(out, seconds, 60, "min", "s");
    } else if (seconds < 86400) {
        two_units(out, seconds / 60, 60, "h", "min");
    } else {
        two_units(out, seconds / 3600, 24, "d", "h");
    }
    return out;
}

bool tf_late_quantile(const uint64_t late[TF_LATE_BUCKETS], unsigned per_mille, tf_time *bound)
{
    uint64_t all = 0;
    uint64_t below = 0;
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        all += late[i];
    }
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        below += late[i];
        if (below > 0 && below * 1000 >= all * per_mille) {
            *bound = i < TF_LATE_BUCKETS - 1 ? tf_late_bounds[i] : TF_NEVER;
            return true;
        }
    }
    return false;
}

/* "5 ms" for a bound of a bucket: whole units. */
static const char *bound_text(tf_time bound, char out[TF_TIME_TEXT_MAX])
{
    if (bound < TF_MS) {
        (void)snprintf(out, TF_TIME_TEXT_MAX, "%" PRIu64 " us", bound);
    } else if (bound < TF_SECOND) {
        (void)snprintf(out, TF_TIME_TEXT_MAX, "%" PRIu64 " ms", bound / TF_MS);
    } else {
        (void)snprintf(out, TF_TIME_TEXT_MAX, "%" PRIu64 " s", bound / TF_SECOND);
    }
    return out;
}

/* "5 ms or less", "over 1 s". */
static void late_text(const uint64_t late[TF_LATE_BUCKETS], unsigned per_mille, char out[CELL])
{
    char text[TF_TIME_TEXT_MAX];
    tf_time bound = 0;
    if (!tf_late_quantile(late, per_mille, &bound)) {
        (void)snprintf(out, CELL, "-");
    } else if (bound == TF_NEVER) {
        (void)snprintf(out, CELL, "over %s", bound_text(tf_late_bounds[TF_LATE_BUCKETS - 2], text));
    } else {
        (void)snprintf(out, CELL, "within %s", bound_text(bound, text));
    }
}

/* -- the table ----------------------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name;
    void (*cell)(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL]);
} row;

static void cell_verdict(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    char age[TF_TIME_TEXT_MAX];
    const tf_route_stats *r = &route->stats;
    if (!stats->connected) {
        (void)snprintf(out, CELL, "no session");
    } else if (!route->agreed) {
        (void)snprintf(out, CELL, "not agreed");
    } else {
        (void)snprintf(out, CELL, "%s for %s", tf_verdict_name(r->verdict), tf_time_text(stats->now - r->since, age));
    }
}

static void cell_address(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    (void)stats;
    (void)snprintf(out, CELL, "%s", route->remote[0] != '\0' ? route->remote : "-");
}

#define CELL_COUNT(field)                                                                                              \
    static void cell_##field(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])                   \
    {                                                                                                                  \
        (void)stats;                                                                                                   \
        (void)snprintf(out, CELL, "%" PRIu64, route->stats.field);                                                     \
    }
CELL_COUNT(sent_segments)
CELL_COUNT(told_first)
CELL_COUNT(told_repeats)
CELL_COUNT(received_segments)
CELL_COUNT(first)
CELL_COUNT(repeats)
CELL_COUNT(only)
CELL_COUNT(shed)
CELL_COUNT(retired)
CELL_COUNT(repaired)
CELL_COUNT(lost)
CELL_COUNT(downs)

static void cell_late_median(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    (void)stats;
    late_text(route->stats.late, 500, out);
}

static void cell_late_p99(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    (void)stats;
    late_text(route->stats.late, 990, out);
}

static bool is_stream(const tf_peer_stats *stats, const tf_peer_route *route)
{
    return route == &stats->routes[TF_ROUTE_STREAM];
}

static void cell_loss(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    if (is_stream(stats, route)) {
        (void)snprintf(out, CELL, "-"); /* TCP does not tell */
    } else {
        (void)snprintf(out, CELL, "%.2f %%", (double)route->stats.loss_ppm / 1e4);
    }
}

static void cell_rtt(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    char text[TF_TIME_TEXT_MAX];
    (void)stats;
    (void)snprintf(out, CELL, "%s", route->stats.srtt == 0 ? "-" : tf_time_text(route->stats.srtt, text));
}

static void cell_rtt_min(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    char text[TF_TIME_TEXT_MAX];
    (void)stats;
    (void)snprintf(out, CELL, "%s", route->stats.rtt_min == 0 ? "-" : tf_time_text(route->stats.rtt_min, text));
}

static void cell_mtu(const tf_peer_stats *stats, const tf_peer_route *route, char out[CELL])
{
    (void)stats;
    if (route->stats.mtu == 0) {
        (void)snprintf(out, CELL, "-");
    } else {
        (void)snprintf(out, CELL, "%" PRIu64, route->stats.mtu);
    }
}

static const row rows[] = {
    {"verdict", cell_verdict},
    {"address", cell_address},
    {"copies sent", cell_sent_segments},
    {"  there first", cell_told_first},
    {"  there second", cell_told_repeats},
    {"copies received", cell_received_segments},
    {"  first", cell_first},
    {"  second", cell_repeats},
    {"  only", cell_only},
    {"second late by, half", cell_late_median},
    {"second late by, 99 %", cell_late_p99},
    {"shed", cell_shed},
    {"retired", cell_retired},
    {"repaired", cell_repaired},
    {"lost", cell_lost},
    {"loss of late", cell_loss},
    {"round trip", cell_rtt},
    {"least round trip", cell_rtt_min},
    {"packet size", cell_mtu},
    {"times down", cell_downs},
};

static void print_row(const char *name, char cells[TF_ROUTE_COUNT][CELL], FILE *out)
{
    (void)fprintf(out, "%-22s", name);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        (void)fprintf(out, " %24s", cells[i]);
    }
    (void)fputc('\n', out);
}

static void print_histogram(tf_route route, const uint64_t late[TF_LATE_BUCKETS], FILE *out)
{
    char text[TF_TIME_TEXT_MAX];
    tf_time bound = 0;
    if (!tf_late_quantile(late, 500, &bound)) {
        return;
    }
    (void)fprintf(out, "second copies by %s:", tf_route_name(route));
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        bool last = i == TF_LATE_BUCKETS - 1;
        if (late[i] > 0) {
            (void)fprintf(out, " %s %s: %" PRIu64, last ? "over" : "within",
                          bound_text(tf_late_bounds[last ? i - 1 : i], text), late[i]);
        }
    }
    (void)fputc('\n', out);
}

void tf_stats_print_route(const tf_peer_stats *stats, tf_route route, FILE *out)
{
    char cell[CELL];
    const tf_peer_route *r = &stats->routes[route];
    cell_verdict(stats, r, cell);
    (void)fprintf(out, "%s, %s", cell, r->remote[0] != '\0' ? r->remote : "-");
    cell_rtt(stats, r, cell);
    (void)fprintf(out, ", round trip %s", cell);
    if (route == TF_ROUTE_DATAGRAM) {
        cell_loss(stats, r, cell);
        (void)fprintf(out, ", loss %s", cell);
        cell_mtu(stats, r, cell);
        (void)fprintf(out, ", packet size %s", cell);
    }
}

void tf_stats_print_sessions(const tf_peer_stats *stats, FILE *out)
{
    char age[TF_TIME_TEXT_MAX];
    (void)fprintf(out, "sessions: %" PRIu64 ", resumed %" PRIu64 " times; dials: %" PRIu64 ", handshakes: %" PRIu64 "\n",
                  stats->sessions, stats->resumes, stats->dials, stats->handshakes);
    (void)fprintf(out, "datagram keys: ");
    if (stats->has_keys) {
        (void)fprintf(out, "%s old, phase %" PRIu64 "; ", tf_time_text(stats->now - stats->keys_since, age), stats->phase);
    } else {
        (void)fprintf(out, "none; ");
    }
    (void)fprintf(out,
                  "packets: %" PRIu64 " sealed, %" PRIu64 " opened, %" PRIu64 " forged, %" PRIu64 " replayed, %" PRIu64
                  " malformed\n",
                  stats->packets_sealed, stats->packets_opened, stats->packets_forged, stats->packets_replayed,
                  stats->packets_malformed);
}

void tf_stats_print(const tf_peer_stats *stats, FILE *out)
{
    char cells[TF_ROUTE_COUNT][CELL];
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        (void)snprintf(cells[i], CELL, "%s", tf_route_name((tf_route)i));
    }
    print_row("route", cells, out);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
            rows[r].cell(stats, &stats->routes[i], cells[i]);
        }
        print_row(rows[r].name, cells, out);
    }
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        print_histogram((tf_route)i, stats->routes[i].stats.late, out);
    }
    if (stats->sends + stats->refusals > 0) {
        (void)fprintf(out,
                      "sends: %" PRIu64 ", acked: %" PRIu64 " (%" PRIu64 " duplicates), refused: %" PRIu64
                      ", sent again: %" PRIu64 "\n",
                      stats->sends - stats->resends, stats->acks, stats->duplicates, stats->refusals, stats->resends);
    }
    if (stats->activities + stats->gaps > 0) {
        (void)fprintf(out, "messages: %" PRIu64 ", gaps: %" PRIu64 ", repeats (dropped): %" PRIu64 "\n",
                      stats->activities, stats->gaps, stats->repeats);
    }
    tf_stats_print_sessions(stats, out);
}

/* -- JSON ---------------------------------------------------------------------------------------------------------- */

/* The next field of an object that has one already. */
static void field(FILE *out, const char *name, uint64_t value)
{
    (void)fprintf(out, ",\"%s\":%" PRIu64, name, value);
}

static void field_text(FILE *out, const char *name, const char *value)
{
    (void)fprintf(out, ",\"%s\":\"%s\"", name, value); /* names of verdicts and addresses: nothing to escape */
}

static void field_bool(FILE *out, const char *name, bool value)
{
    (void)fprintf(out, ",\"%s\":%s", name, value ? "true" : "false");
}

static void json_late(FILE *out, const uint64_t late[TF_LATE_BUCKETS])
{
    (void)fprintf(out, ",\"late\":[");
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        (void)fprintf(out, "%s{\"within_us\":", i == 0 ? "" : ",");
        if (i < TF_LATE_BUCKETS - 1) {
            (void)fprintf(out, "%" PRIu64, tf_late_bounds[i]);
        } else {
            (void)fprintf(out, "null");
        }
        (void)fprintf(out, ",\"copies\":%" PRIu64 "}", late[i]);
    }
    (void)fputc(']', out);
}

static void json_counts(FILE *out, const tf_route_stats *r)
{
    field(out, "sent", r->sent_segments);
    field(out, "sent_bytes", r->sent_bytes);
    field(out, "sent_packets", r->sent_packets);
    field(out, "there_first", r->told_first);
    field(out, "there_second", r->told_repeats);
    field(out, "received", r->received_segments);
    field(out, "received_bytes", r->received_bytes);
    field(out, "first", r->first);
    field(out, "second", r->repeats);
    field(out, "only", r->only);
    field(out, "shed", r->shed);
    field(out, "retired", r->retired);
    field(out, "repaired", r->repaired);
    field(out, "lost", r->lost);
    field(out, "downs", r->downs);
    field(out, "probes", r->probes);
    json_late(out, r->late);
}

static void json_route(FILE *out, const tf_peer_stats *stats, tf_route which)
{
    const tf_peer_route *route = &stats->routes[which];
    const tf_route_stats *r = &route->stats;
    (void)fprintf(out, "{\"route\":\"%s\"", tf_route_name(which));
    field_bool(out, "agreed", route->agreed);
    field_bool(out, "carries", route->carries);
    field_text(out, "verdict", tf_verdict_name(r->verdict));
    field(out, "verdict_age_us", stats->sessions > 0 ? stats->now - r->since : 0);
    field_text(out, "local", route->local);
    field_text(out, "remote", route->remote);
    field(out, "generation", r->generation);
    field(out, "rtt_us", r->srtt);
    field(out, "rtt_latest_us", r->rtt_latest);
    field(out, "rtt_min_us", r->rtt_min);
    field(out, "rtt_var_us", r->rtt_var);
    field(out, "rtt_samples", r->rtt_samples);
    if (which == TF_ROUTE_DATAGRAM) {
        field(out, "loss_ppm", r->loss_ppm);
        field(out, "mtu", r->mtu);
        field(out, "mtu_falls", r->mtu_falls);
        field(out, "cwnd", r->cwnd);
        field(out, "in_flight", r->in_flight);
    }
    json_counts(out, r);
    (void)fputc('}', out);
}

static void json_keys(FILE *out, const tf_peer_stats *stats)
{
    (void)fprintf(out, ",\"keys\":{\"sealed\":%" PRIu64, stats->packets_sealed);
    field(out, "opened", stats->packets_opened);
    field(out, "forged", stats->packets_forged);
    field(out, "replayed", stats->packets_replayed);
    field(out, "malformed", stats->packets_malformed);
    if (stats->has_keys) {
        field(out, "age_us", stats->now - stats->keys_since);
        field(out, "phase", stats->phase);
        field(out, "phase_age_us", stats->now - stats->phase_since);
    }
    (void)fputc('}', out);
}

void tf_stats_print_json(const tf_peer_stats *stats, FILE *out)
{
    field_bool(out, "connected", stats->connected);
    field(out, "sessions", stats->sessions);
    field(out, "resumes", stats->resumes);
    field(out, "dials", stats->dials);
    field(out, "handshakes", stats->handshakes);
    field(out, "moves", stats->moves);
    field(out, "sends", stats->sends);
    field(out, "acks", stats->acks);
    field(out, "duplicates", stats->duplicates);
    field(out, "refusals", stats->refusals);
    field(out, "resends", stats->resends);
    field(out, "activities", stats->activities);
    field(out, "gaps", stats->gaps);
    field(out, "repeats", stats->repeats);
    field(out, "messages_sent", stats->messages_sent);
    field(out, "messages_received", stats->messages_received);
    field(out, "unacked_segments", stats->ring_segments);
    field(out, "unacked_bytes", stats->ring_bytes);
    (void)fprintf(out, ",\"routes\":[");
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        (void)fputs(i == 0 ? "" : ",", out);
        json_route(out, stats, (tf_route)i);
    }
    (void)fputc(']', out);
    json_keys(out, stats);
}
