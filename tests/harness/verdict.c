#include "tests/harness/verdict.h"

#include <stdlib.h>

#define FLAG_SENT 1u
#define FLAG_ACKED 2u
#define FLAG_REFUSED 4u

typedef struct arrival {
    tf_time at;
    tf_time delay;
} arrival;

/* What is kept of one flow at one subscription. */
typedef struct pair_data {
    tf_lab_pair sums;
    uint8_t *seen;     /* by number */
    arrival *arrivals; /* of messages that had not come yet */
    uint32_t highest;  /* number, once something came */
} pair_data;

typedef struct client_data {
    tf_lab_sample *samples;
    size_t count;
} client_data;

struct tf_lab_verdict {
    const tf_mem *mem;
    const tf_scenario *s;
    uint8_t *flags[TF_SCENARIO_FLOWS_MAX]; /* by number */
    pair_data pairs[TF_LAB_PAIRS_MAX];
    size_t pair_count;
    client_data clients[TF_SCENARIO_NODES_MAX];
    size_t samples_max;
    tf_scenario_phase phases[TF_SCENARIO_PHASES_MAX];
    tf_lab_results results;
};

/* -- memory -------------------------------------------------------------------------------------------------------- */

static bool pairs_new(tf_lab_verdict *v)
{
    for (uint32_t flow = 0; flow < v->s->flow_count; flow++) {
        uint32_t count = v->s->flows[flow].count;
        for (uint32_t sub = 0; sub < v->s->sub_count; sub++) {
            if (!tf_scenario_feeds(v->s, flow, sub)) {
                continue;
            }
            pair_data *pair = &v->pairs[v->pair_count++];
            pair->sums = (tf_lab_pair){.flow = flow, .sub = sub};
            pair->seen = tf_alloc(v->mem, count);
            pair->arrivals = tf_alloc(v->mem, count * sizeof(*pair->arrivals));
            if (pair->seen == NULL || pair->arrivals == NULL) {
                return false;
            }
        }
    }
    return true;
}

tf_err tf_lab_verdict_new(tf_lab_verdict **out, const tf_scenario *scenario, size_t samples_max, const tf_mem *mem)
{
    tf_lab_verdict *v = tf_alloc(mem, sizeof(*v));
    if (v == NULL) {
        return TF_ERR_NOMEM;
    }
    v->mem = mem;
    v->s = scenario;
    v->samples_max = samples_max;
    bool whole = pairs_new(v);
    for (uint32_t i = 0; i < scenario->flow_count && whole; i++) {
        v->flags[i] = tf_alloc(mem, scenario->flows[i].count);
        whole = v->flags[i] != NULL;
    }
    for (uint32_t i = 0; i < scenario->node_count && whole; i++) {
        v->clients[i].samples = tf_alloc(mem, samples_max * sizeof(tf_lab_sample));
        whole = v->clients[i].samples != NULL;
    }
    if (!whole) {
        tf_lab_verdict_free(v);
        return TF_ERR_NOMEM;
    }
    *out = v;
    return TF_OK;
}

void tf_lab_verdict_free(tf_lab_verdict *v)
{
    if (v == NULL) {
        return;
    }
    for (size_t i = 0; i < v->pair_count; i++) {
        uint32_t count = v->s->flows[v->pairs[i].sums.flow].count;
        tf_free(v->mem, v->pairs[i].seen, count);
        tf_free(v->mem, v->pairs[i].arrivals, count * sizeof(arrival));
    }
    for (uint32_t i = 0; i < v->s->flow_count; i++) {
        tf_free(v->mem, v->flags[i], v->s->flows[i].count);
    }
    for (uint32_t i = 0; i < v->s->node_count; i++) {
        tf_free(v->mem, v->clients[i].samples, v->samples_max * sizeof(tf_lab_sample));
    }
    tf_free(v->mem, v, sizeof(*v));
}

/* -- what happens -------------------------------------------------------------------------------------------------- */

static void flag(tf_lab_verdict *v, uint32_t flow, uint32_t number, uint8_t what)
{
    v->flags[flow][number] = (uint8_t)(v->flags[flow][number] | what);
}

void tf_lab_verdict_sent(tf_lab_verdict *v, uint32_t flow, uint32_t number)
{
    flag(v, flow, number, FLAG_SENT);
}

void tf_lab_verdict_acked(tf_lab_verdict *v, uint32_t flow, uint32_t number)
{
    flag(v, flow, number, FLAG_ACKED);
}

void tf_lab_verdict_refused(tf_lab_verdict *v, uint32_t flow, uint32_t number)
{
    flag(v, flow, number, FLAG_REFUSED);
}

static pair_data *pair_of(tf_lab_verdict *v, uint32_t sub, uint32_t flow)
{
    for (size_t i = 0; i < v->pair_count; i++) {
        if (v->pairs[i].sums.sub == sub && v->pairs[i].sums.flow == flow) {
            return &v->pairs[i];
        }
    }
    return NULL;
}

void tf_lab_verdict_delivered(tf_lab_verdict *v, uint32_t sub, uint32_t flow, uint32_t number, tf_time at, bool intact)
{
    pair_data *pair = flow < v->s->flow_count ? pair_of(v, sub, flow) : NULL;
    if (pair == NULL || number >= v->s->flows[flow].count || !intact) {
        pair = pair != NULL ? pair : pair_of(v, sub, 0);
        if (pair != NULL) {
            pair->sums.altered++;
        }
        return;
    }
    if (pair->seen[number] != 0) {
        pair->sums.repeated++;
        return;
    }
    tf_time due = tf_scenario_due(v->s, flow, number);
    pair->seen[number] = 1;
    pair->arrivals[pair->sums.delivered] = (arrival){.at = at, .delay = at > due ? at - due : 0};
    pair->sums.misordered += pair->sums.delivered > 0 && number < pair->highest ? 1 : 0;
    pair->highest = pair->sums.delivered == 0 || number > pair->highest ? number : pair->highest;
    pair->sums.delivered++;
}

bool tf_lab_verdict_is_complete(const tf_lab_verdict *v, uint32_t sub)
{
    for (size_t i = 0; i < v->pair_count; i++) {
        const tf_lab_pair *sums = &v->pairs[i].sums;
        if (sums->sub == sub && sums->delivered < v->s->flows[sums->flow].count) {
            return false;
        }
    }
    return true;
}

void tf_lab_verdict_sample(tf_lab_verdict *v, uint32_t client, const tf_lab_sample *sample)
{
    client_data *c = &v->clients[client];
    c->count -= c->count == v->samples_max ? 1 : 0;
    c->samples[c->count++] = *sample;
}

/* -- routes -------------------------------------------------------------------------------------------------------- */

void tf_lab_verdict_sample_at(const tf_lab_verdict *v, uint32_t client, tf_time at, tf_lab_sample *out)
{
    const client_data *c = &v->clients[client];
    size_t low = 0;
    size_t high = c->count;
    while (low < high) { /* the first that is later than `at` */
        size_t middle = low + (high - low) / 2;
        if (c->samples[middle].at <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memset(out, 0, sizeof(*out));
    if (low > 0) {
        *out = c->samples[low - 1];
    }
}

uint64_t tf_lab_wins(const tf_lab_sample *sample, tf_route route)
{
    return sample->routes[route].first + sample->routes[route].told_first;
}

/* What the relay got is told as first and second copies: first ones by a route that no second one by the other
 * followed. */
uint64_t tf_lab_rescues(const tf_lab_sample *sample, tf_route route)
{
    const tf_lab_route *r = &sample->routes[route];
    const tf_lab_route *other = &sample->routes[1 - (int)route];
    return r->only + (r->told_first > other->told_repeats ? r->told_first - other->told_repeats : 0);
}

static uint64_t grown(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

static void phase_routes(const tf_lab_verdict *v, tf_lab_phase *phase)
{
    for (uint32_t client = 0; client < v->s->node_count; client++) {
        tf_lab_sample from;
        tf_lab_sample to;
        if (v->s->nodes[client].is_direct) {
            continue;
        }
        tf_lab_verdict_sample_at(v, client, phase->when.from, &from);
        tf_lab_verdict_sample_at(v, client, phase->when.to, &to);
        for (int route = 0; route < TF_ROUTE_COUNT; route++) {
            phase->wins[route] += grown(tf_lab_wins(&from, (tf_route)route), tf_lab_wins(&to, (tf_route)route));
            phase->rescues[route] +=
                grown(tf_lab_rescues(&from, (tf_route)route), tf_lab_rescues(&to, (tf_route)route));
        }
    }
}

/* -- the judgement ------------------------------------------------------------------------------------------------- */

void tf_lab_verdict_span(const tf_lab_verdict *v, size_t pair, tf_time from, tf_time to, tf_time *delay,
                         uint64_t *count)
{
    const pair_data *p = &v->pairs[pair];
    *delay = 0;
    *count = 0;
    size_t low = 0;
    size_t high = p->sums.delivered;
    while (low < high) { /* arrivals are in the order of time */
        size_t middle = low + (high - low) / 2;
        if (p->arrivals[middle].at < from) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t i = low; i < p->sums.delivered && p->arrivals[i].at < to; i++) {
        *delay = tf_time_max(*delay, p->arrivals[i].delay);
        ++*count;
    }
}

/* Times without an arrival, each told to the phases in which it lies. The flow's beginning counts as one, and the end
 * of the run where something is missing. */
static void add_gap(tf_lab_results *r, tf_lab_pair *sums, tf_time from, tf_time to)
{
    if (to <= from) {
        return;
    }
    if (to - from > sums->gap) {
        sums->gap = to - from;
        sums->gap_at = from;
    }
    for (size_t i = 0; i < r->phase_count; i++) {
        tf_lab_phase *phase = &r->phases[i];
        if (from < phase->when.to && phase->when.from < to) {
            phase->gap = tf_time_max(phase->gap, to - from);
        }
    }
}

static void judge_gaps(tf_lab_verdict *v, pair_data *pair)
{
    tf_time before = v->s->flows[pair->sums.flow].from;
    for (size_t i = 0; i < pair->sums.delivered; i++) {
        add_gap(&v->results, &pair->sums, before, pair->arrivals[i].at);
        before = pair->arrivals[i].at;
    }
    if (pair->sums.delivered < v->s->flows[pair->sums.flow].count) {
        add_gap(&v->results, &pair->sums, before, v->results.end);
    }
}

static int by_delay(const void *a, const void *b)
{
    tf_time x = ((const arrival *)a)->delay;
    tf_time y = ((const arrival *)b)->delay;
    return (x > y) - (x < y);
}

/* Leaves the arrivals as they are. Without memory the middle figures stay 0. */
static void judge_delays(tf_lab_verdict *v, pair_data *pair)
{
    size_t count = (size_t)pair->sums.delivered;
    arrival *sorted = count == 0 ? NULL : tf_alloc(v->mem, count * sizeof(*sorted));
    if (sorted == NULL) {
        return;
    }
    memcpy(sorted, pair->arrivals, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_delay);
    pair->sums.delay_p50 = sorted[count / 2].delay;
    pair->sums.delay_p99 = sorted[count * 99 / 100].delay;
    pair->sums.delay_max = sorted[count - 1].delay;
    tf_free(v->mem, sorted, count * sizeof(*sorted));
}

static void judge_pair(tf_lab_verdict *v, size_t at)
{
    tf_lab_results *r = &v->results;
    pair_data *pair = &v->pairs[at];
    const uint8_t *flags = v->flags[pair->sums.flow];
    for (uint32_t i = 0; i < v->s->flows[pair->sums.flow].count; i++) {
        bool counts = (flags[i] & FLAG_SENT) != 0 && (flags[i] & FLAG_REFUSED) == 0;
        pair->sums.lost += counts && pair->seen[i] == 0 ? 1 : 0;
    }
    judge_gaps(v, pair);
    judge_delays(v, pair);
    for (size_t i = 0; i < r->phase_count; i++) {
        tf_time delay = 0;
        uint64_t count = 0;
        tf_lab_verdict_span(v, at, r->phases[i].when.from, r->phases[i].when.to, &delay, &count);
        r->phases[i].delay = tf_time_max(r->phases[i].delay, delay);
        r->phases[i].delivered += count;
    }
    r->pairs[at] = pair->sums;
    r->totals[TF_KEY_LOST] += pair->sums.lost;
    r->totals[TF_KEY_REPEATED] += pair->sums.repeated;
    r->totals[TF_KEY_MISORDERED] += pair->sums.misordered;
    r->totals[TF_KEY_ALTERED] += pair->sums.altered;
    r->totals[TF_KEY_DELIVERED] += pair->sums.delivered;
    r->totals[TF_KEY_LONGEST_GAP] = tf_time_max(r->totals[TF_KEY_LONGEST_GAP], pair->sums.gap);
    r->totals[TF_KEY_LONGEST_DELAY] = tf_time_max(r->totals[TF_KEY_LONGEST_DELAY], pair->sums.delay_max);
}

static void judge_flows(tf_lab_verdict *v)
{
    uint64_t *totals = v->results.totals;
    for (uint32_t flow = 0; flow < v->s->flow_count; flow++) {
        for (uint32_t i = 0; i < v->s->flows[flow].count; i++) {
            uint8_t flags = v->flags[flow][i];
            totals[TF_KEY_UNSENT] += (flags & FLAG_SENT) == 0 ? 1 : 0;
            totals[TF_KEY_REFUSED] += (flags & FLAG_REFUSED) != 0 ? 1 : 0;
            totals[TF_KEY_UNACKED] += flags == FLAG_SENT ? 1 : 0;
        }
    }
}

static bool holds(const tf_scenario_expect *expect, uint64_t got)
{
    switch (expect->relation) {
    case TF_RELATION_EQUAL:
        return got == expect->value;
    case TF_RELATION_AT_MOST:
        return got <= expect->value;
    case TF_RELATION_AT_LEAST:
        return got >= expect->value;
    case TF_RELATION_BELOW:
        return got < expect->value;
    case TF_RELATION_ABOVE:
        return got > expect->value;
    }
    return false;
}

static void judge_expects(tf_lab_verdict *v)
{
    tf_lab_results *r = &v->results;
    for (uint32_t i = 0; i < v->s->expect_count; i++) {
        const tf_scenario_expect *expect = &v->s->expects[i];
        if (!holds(expect, r->totals[expect->key])) {
            r->broken[r->broken_count++] = (tf_lab_broken){.expect = *expect, .got = r->totals[expect->key]};
        }
    }
}

const tf_lab_results *tf_lab_verdict_end(tf_lab_verdict *v, tf_time end)
{
    tf_lab_results *r = &v->results;
    r->end = end;
    r->pair_count = v->pair_count;
    r->phase_count = tf_scenario_phases(v->s, end, v->phases);
    for (size_t i = 0; i < r->phase_count; i++) {
        r->phases[i].when = v->phases[i];
        phase_routes(v, &r->phases[i]);
    }
    for (size_t i = 0; i < v->pair_count; i++) {
        judge_pair(v, i);
    }
    judge_flows(v);
    for (uint32_t client = 0; client < v->s->node_count; client++) {
        tf_lab_sample last;
        tf_lab_verdict_sample_at(v, client, TF_NEVER, &last);
        for (int route = 0; route < TF_ROUTE_COUNT && !v->s->nodes[client].is_direct; route++) {
            r->totals[TF_KEY_RESCUES] += tf_lab_rescues(&last, (tf_route)route);
            r->totals[TF_KEY_COPIES] += last.routes[route].sent + last.routes[route].received;
        }
        r->totals[TF_KEY_SESSIONS] += last.sessions;
        r->totals[TF_KEY_RESUMES] += last.resumes;
    }
    judge_expects(v);
    return r;
}
