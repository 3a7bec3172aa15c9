/* The picture of a run: for each client a strip of bars, which route delivered how many first copies, and for each flow
 * a strip of how late its messages were, over one axis of time on which what was wrong is shaded. */
#include <inttypes.h>

#include "tests/harness/report.h"

#define WIDTH 1200.0
#define LEFT 130.0
#define PLOT (WIDTH - LEFT - 20.0)
#define HEAD 86.0 /* title and the names of what was wrong */
#define STRIP 84.0
#define GAP 26.0
#define FOOT 40.0
#define NAME_ROWS 3
#define BUCKETS_MAX 400u
#define BUCKET_MIN (100 * TF_MS)
#define TICKS_MAX 12
#define TEXT 32

static const char *const colours[TF_ROUTE_COUNT] = {"#2b6cb0", "#dd8a1f"};

typedef struct picture {
    const tf_lab_report *report;
    FILE *out;
    tf_time end; /* of the axis */
    tf_time bucket;
    size_t buckets;
    double y; /* of what comes next */
} picture;

static void put_text(FILE *out, const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        switch (*at) {
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '&':
            (void)fputs("&amp;", out);
            break;
        default:
            (void)fputc((unsigned char)*at < 0x20 ? ' ' : *at, out);
            break;
        }
    }
}

static void label(const picture *p, double x, double y, const char *attributes, const char *text)
{
    (void)fprintf(p->out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    put_text(p->out, text);
    (void)fputs("</text>\n", p->out);
}

static double x_of(const picture *p, tf_time at)
{
    tf_time within = tf_time_min(at, p->end);
    return LEFT + PLOT * (double)within / (double)p->end;
}

static void bar(const picture *p, size_t bucket, double top, double height, const char *colour)
{
    double width = x_of(p, (bucket + 1) * p->bucket) - x_of(p, bucket * p->bucket);
    if (height > 0) {
        (void)fprintf(p->out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n",
                      x_of(p, bucket * p->bucket), top, width, height, colour);
    }
}

static const char *shade_of(tf_routes routes)
{
    return routes == TF_ROUTES_BOTH ? "#808080" : colours[routes == TF_ROUTES_DATAGRAM ? 1 : 0];
}

/* What was wrong with one client's routes (client UINT32_MAX: with any), and when it or the relay did not run. */
static void shade(const picture *p, uint32_t client, double top, double height)
{
    const tf_scenario *s = p->report->s;
    for (uint32_t i = 0; i < s->step_count; i++) {
        const tf_scenario_step *step = &s->steps[i];
        bool meets = client == UINT32_MAX || step->client == UINT32_MAX || step->client == client;
        if (step->is_baseline || !meets || step->from >= p->end ||
            (client != UINT32_MAX && s->nodes[client].is_direct)) {
            continue;
        }
        double from = x_of(p, step->from);
        (void)fprintf(p->out,
                      "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\" opacity=\"0.18\"/>\n",
                      from, top, x_of(p, step->to) - from, height, shade_of(step->routes));
    }
    for (uint32_t i = 0; i < s->act_count; i++) {
        const tf_scenario_act *act = &s->acts[i];
        bool meets = client == UINT32_MAX || act->node == client || act->node == s->relay || act->node == UINT32_MAX;
        if (meets && act->at <= p->end) {
            (void)fprintf(p->out, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"#c53030\"/>\n",
                          x_of(p, act->at), top, x_of(p, act->at), top + height);
        }
    }
}

static void frame(const picture *p, const char *name, const char *scale)
{
    (void)fprintf(p->out,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"#aaa\"/>\n", LEFT,
                  p->y, PLOT, STRIP);
    label(p, LEFT, p->y - 5, "font-size=\"12\"", name);
    label(p, LEFT - 6, p->y + 10, "font-size=\"10\" text-anchor=\"end\"", scale);
    label(p, LEFT - 6, p->y + STRIP, "font-size=\"10\" text-anchor=\"end\"", "0");
}

/* First copies by a route within a bucket. */
static uint64_t won(const picture *p, uint32_t client, size_t bucket, tf_route route)
{
    tf_lab_sample from;
    tf_lab_sample to;
    tf_lab_verdict_sample_at(p->report->verdict, client, bucket * p->bucket, &from);
    tf_lab_verdict_sample_at(p->report->verdict, client, (bucket + 1) * p->bucket, &to);
    uint64_t before = tf_lab_wins(&from, route);
    uint64_t after = tf_lab_wins(&to, route);
    return after > before ? after - before : 0;
}

static void strip_of_client(picture *p, uint32_t client)
{
    uint64_t wins[BUCKETS_MAX][TF_ROUTE_COUNT];
    uint64_t most = 1;
    char name[128];
    char scale[TEXT];
    for (size_t i = 0; i < p->buckets; i++) {
        wins[i][0] = won(p, client, i, TF_ROUTE_STREAM);
        wins[i][1] = won(p, client, i, TF_ROUTE_DATAGRAM);
        most = wins[i][0] + wins[i][1] > most ? wins[i][0] + wins[i][1] : most;
    }
    (void)snprintf(name, sizeof(name), "%s: first copies in %.0f ms", p->report->s->nodes[client].name,
                   (double)p->bucket / (double)TF_MS);
    (void)snprintf(scale, sizeof(scale), "%" PRIu64, most);
    shade(p, client, p->y, STRIP);
    for (size_t i = 0; i < p->buckets; i++) {
        double bottom = p->y + STRIP;
        for (int route = 0; route < TF_ROUTE_COUNT; route++) {
            double height = STRIP * (double)wins[i][route] / (double)most;
            bottom -= height;
            bar(p, i, bottom, height, colours[route]);
        }
    }
    frame(p, name, scale);
    p->y += STRIP + GAP;
}

static void strip_of_pair(picture *p, size_t pair)
{
    tf_time delays[BUCKETS_MAX];
    tf_time most = TF_MS;
    char name[192];
    char scale[TEXT];
    const tf_lab_pair *sums = &p->report->results->pairs[pair];
    const tf_scenario *s = p->report->s;
    for (size_t i = 0; i < p->buckets; i++) {
        uint64_t count = 0;
        tf_lab_verdict_span(p->report->verdict, pair, i * p->bucket, (i + 1) * p->bucket, &delays[i], &count);
        most = tf_time_max(most, delays[i]);
    }
    (void)snprintf(name, sizeof(name), "%s -> %s -> %s: the longest delay", s->nodes[s->flows[sums->flow].client].name,
                   s->flows[sums->flow].channel, s->nodes[s->subs[sums->sub].client].name);
    shade(p, UINT32_MAX, p->y, STRIP);
    for (size_t i = 0; i < p->buckets; i++) {
        double height = STRIP * (double)delays[i] / (double)most;
        bar(p, i, p->y + STRIP - height, height, "#4a5568");
    }
    frame(p, name, tf_lab_time_text(most, scale));
    p->y += STRIP + GAP;
}

static void head(picture *p)
{
    char text[TF_SCENARIO_TITLE_MAX + 64];
    const tf_lab_report *report = p->report;
    (void)snprintf(text, sizeof(text), "%s (%s, routes: %s)", report->s->title, report->mode,
                   tf_lab_routes_name(report->routes));
    label(p, LEFT, p->y + 20, "font-size=\"15\" font-weight=\"bold\"", text);
    for (int route = 0; route < TF_ROUTE_COUNT; route++) {
        double x = LEFT + PLOT - 150 + 75 * route;
        (void)fprintf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, p->y + 11,
                      colours[route]);
        label(p, x + 14, p->y + 20, "font-size=\"12\"", tf_route_name((tf_route)route));
    }
    size_t row = 0;
    for (size_t i = 0; i < report->results->phase_count; i++) {
        const tf_scenario_phase *phase = &report->results->phases[i].when;
        if (phase->text[0] != '\0') {
            label(p, x_of(p, phase->from), p->y + 38 + 13 * (double)(row % NAME_ROWS),
                  "font-size=\"10\" fill=\"#9b2c2c\"", phase->text);
            row++;
        }
    }
    p->y += HEAD;
}

/* 1, 2 or 5 times a power of ten: the least of them that gives no more than so many ticks. */
static tf_time tick_of(tf_time end)
{
    static const tf_time steps[] = {1, 2, 5};
    for (tf_time power = 100 * TF_MS;; power *= 10) {
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            if (end / (steps[i] * power) <= TICKS_MAX) {
                return steps[i] * power;
            }
        }
    }
}

static void axis(picture *p)
{
    char text[TEXT];
    tf_time tick = tick_of(p->end);
    for (tf_time at = 0; at <= p->end; at += tick) {
        (void)snprintf(text, sizeof(text), "%g s", (double)at / (double)TF_SECOND);
        label(p, x_of(p, at), p->y - GAP + 14, "font-size=\"10\" text-anchor=\"middle\"", text);
    }
    p->y += FOOT - GAP;
}

static double height_of(const tf_lab_report *report)
{
    size_t strips = report->s->node_count - 1 + report->results->pair_count;
    return HEAD + (double)strips * (STRIP + GAP) + FOOT;
}

static void draw(picture *p)
{
    const tf_lab_report *report = p->report;
    head(p);
    p->y += 10;
    for (uint32_t i = 0; i < report->s->node_count; i++) {
        if (i != report->s->relay) {
            strip_of_client(p, i);
        }
    }
    for (size_t i = 0; i < report->results->pair_count; i++) {
        strip_of_pair(p, i);
    }
    axis(p);
}

void tf_lab_report_svg(const tf_lab_report *report, const tf_lab_report *other, FILE *out)
{
    const tf_lab_report *both[] = {report, other};
    double height = height_of(report) + (other != NULL ? height_of(other) : 0) + 20;
    (void)fprintf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                  "font-family=\"sans-serif\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                  WIDTH, height, WIDTH, height);
    double y = 0;
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]) && both[i] != NULL; i++) {
        tf_time end = tf_time_max(both[i]->results->end, TF_SECOND);
        picture p = {.report = both[i], .out = out, .end = end, .y = y};
        p.bucket = tf_time_max(BUCKET_MIN, end / BUCKETS_MAX + 1);
        p.buckets = (size_t)((end + p.bucket - 1) / p.bucket);
        draw(&p);
        y = p.y;
    }
    (void)fputs("</svg>\n", out);
}
