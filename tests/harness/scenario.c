#include "tests/harness/scenario.h"

#include <stdio.h>

const char *tf_scenario_key_name(tf_scenario_key key)
{
    static const char *const names[TF_KEY_COUNT] = {
        [TF_KEY_LOST] = "lost",
        [TF_KEY_REPEATED] = "repeated",
        [TF_KEY_MISORDERED] = "misordered",
        [TF_KEY_ALTERED] = "altered",
        [TF_KEY_UNSENT] = "unsent",
        [TF_KEY_UNACKED] = "unacked",
        [TF_KEY_REFUSED] = "refused",
        [TF_KEY_DELIVERED] = "delivered",
        [TF_KEY_RESCUES] = "rescues",
        [TF_KEY_SESSIONS] = "sessions",
        [TF_KEY_RESUMES] = "resumes",
        [TF_KEY_COPIES] = "copies",
        [TF_KEY_LONGEST_GAP] = "longest-gap",
        [TF_KEY_LONGEST_DELAY] = "longest-delay",
    };
    return names[key];
}

const char *tf_scenario_relation_name(tf_scenario_relation relation)
{
    static const char *const names[] = {"=", "<=", ">=", "<", ">"};
    return names[relation];
}

bool tf_scenario_key_is_time(tf_scenario_key key)
{
    return key == TF_KEY_LONGEST_GAP || key == TF_KEY_LONGEST_DELAY;
}

bool tf_scenario_feeds(const tf_scenario *s, uint32_t flow, uint32_t sub)
{
    return strcmp(s->flows[flow].channel, s->subs[sub].channel) == 0;
}

tf_time tf_scenario_due(const tf_scenario *s, uint32_t flow, uint32_t number)
{
    return s->flows[flow].from + (tf_time)((double)number / s->flows[flow].rate * (double)TF_SECOND);
}

/* -- what is wrong when -------------------------------------------------------------------------------------------- */

static bool step_meets(const tf_scenario_step *step, uint32_t client, tf_route route, tf_scenario_way way)
{
    return (step->client == UINT32_MAX || step->client == client) && (step->routes & (1u << route)) != 0 &&
           (step->ways & (1u << way)) != 0;
}

static bool step_is_on(const tf_scenario_step *step, tf_time now)
{
    return step->is_baseline || (step->from <= now && now < step->to && now != TF_NEVER);
}

/* A flap begins with the blackhole. One of the baseline flaps from 0 on. */
static void apply(const tf_scenario_step *step, tf_time now, tf_scenario_state *out)
{
    if (step->fault != TF_FAULT_FLAP) {
        out->value[step->fault] = step->value;
    } else if (now != TF_NEVER && (now - step->from) / step->value % 2 == 0) {
        out->value[TF_FAULT_BLACKHOLE] = 1;
    }
}

void tf_scenario_state_at(const tf_scenario *s, uint32_t client, tf_route route, tf_scenario_way way, tf_time now,
                          tf_scenario_state *out)
{
    memset(out, 0, sizeof(*out));
    if (s->nodes[client].is_direct) {
        return;
    }
    for (int baseline = 1; baseline >= 0; baseline--) { /* so that the timeline counts over the baseline */
        for (uint32_t i = 0; i < s->step_count; i++) {
            const tf_scenario_step *step = &s->steps[i];
            if (step->is_baseline == (baseline == 1) && step_meets(step, client, route, way) && step_is_on(step, now)) {
                apply(step, now, out);
            }
        }
    }
}

static tf_time step_next_change(const tf_scenario_step *step, tf_time now)
{
    if (now < step->from) {
        return step->from;
    }
    if (now >= step->to) {
        return TF_NEVER;
    }
    if (step->fault != TF_FAULT_FLAP) {
        return step->to;
    }
    return tf_time_min(step->to, step->from + ((now - step->from) / step->value + 1) * step->value);
}

tf_time tf_scenario_next_change(const tf_scenario *s, tf_time now)
{
    tf_time next = TF_NEVER;
    for (uint32_t i = 0; i < s->step_count; i++) {
        next = tf_time_min(next, step_next_change(&s->steps[i], now));
    }
    return next;
}

tf_time tf_scenario_length(const tf_scenario *s)
{
    tf_time length = 0;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        length = tf_time_max(length, tf_scenario_due(s, i, s->flows[i].count));
    }
    for (uint32_t i = 0; i < s->step_count; i++) {
        const tf_scenario_step *step = &s->steps[i];
        length = tf_time_max(length, step->to != TF_NEVER ? step->to : step->from);
    }
    for (uint32_t i = 0; i < s->act_count; i++) {
        length = tf_time_max(length, s->acts[i].at);
    }
    return length;
}

/* -- phases -------------------------------------------------------------------------------------------------------- */

/* The first beginning or end of anything after now. */
static tf_time next_edge(const tf_scenario *s, tf_time now)
{
    tf_time next = TF_NEVER;
    for (uint32_t i = 0; i < s->step_count; i++) {
        const tf_scenario_step *step = &s->steps[i];
        tf_time edge = step->is_baseline ? TF_NEVER : now < step->from ? step->from : step->to;
        next = edge > now ? tf_time_min(next, edge) : next;
    }
    for (uint32_t i = 0; i < s->act_count; i++) {
        next = s->acts[i].at > now ? tf_time_min(next, s->acts[i].at) : next;
    }
    return next;
}

static void add_text(tf_scenario_phase *phase, const char *text)
{
    size_t len = strlen(phase->text);
    (void)snprintf(phase->text + len, sizeof(phase->text) - len, "%s%s", len == 0 ? "" : "; ", text);
}

static void describe(const tf_scenario *s, tf_scenario_phase *phase)
{
    phase->text[0] = '\0';
    for (uint32_t i = 0; i < s->step_count; i++) {
        if (!s->steps[i].is_baseline && step_is_on(&s->steps[i], phase->from)) {
            add_text(phase, s->steps[i].text);
        }
    }
    for (uint32_t i = 0; i < s->act_count; i++) {
        const tf_scenario_act *act = &s->acts[i];
        bool begins = act->at == phase->from && (act->until == act->at || act->at < act->until);
        bool is_end = act->at == act->until && (act->kind == TF_ACT_GO || act->kind == TF_ACT_START) &&
                      strncmp(act->text, "start", 5) != 0;
        bool lasts = act->at < phase->from && phase->from < act->until;
        if ((begins && !is_end) || lasts) {
            add_text(phase, act->text);
        }
    }
}

size_t tf_scenario_phases(const tf_scenario *s, tf_time end, tf_scenario_phase out[TF_SCENARIO_PHASES_MAX])
{
    size_t count = 0;
    tf_time from = 0;
    do {
        tf_time to = tf_time_min(next_edge(s, from), end);
        out[count] = (tf_scenario_phase){.from = from, .to = to};
        describe(s, &out[count]);
        count++;
        from = to;
    } while (from < end && count < TF_SCENARIO_PHASES_MAX);
    return count;
}
