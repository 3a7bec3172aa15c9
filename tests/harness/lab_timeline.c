/* The timeline of a scenario, played to whoever builds the routes and the nodes. */
#include "tests/harness/lab.h"

static void apply_client(tf_lab_timeline *t, uint32_t node, tf_time now)
{
    for (int route = 0; route < TF_ROUTE_COUNT; route++) {
        for (int way = 0; way < TF_WAY_COUNT; way++) {
            tf_scenario_state state;
            tf_scenario_state *before = &t->states[node][route][way];
            tf_scenario_state_at(t->s, node, (tf_route)route, (tf_scenario_way)way, now, &state);
            if (!t->applied || memcmp(&state, before, sizeof(state)) != 0) {
                *before = state;
                t->apply(t->ctx, node, (tf_route)route, (tf_scenario_way)way, &state);
            }
        }
    }
}

static void apply_all(tf_lab_timeline *t, tf_time now)
{
    for (uint32_t i = 0; i < t->s->node_count; i++) {
        if (!t->s->nodes[i].is_relay && !t->s->nodes[i].is_direct) {
            apply_client(t, i, now);
        }
    }
    t->applied = true;
    t->changed = now;
}

void tf_lab_timeline_begin(tf_lab_timeline *t)
{
    apply_all(t, TF_NEVER);
}

tf_time tf_lab_timeline_play(tf_lab_timeline *t, tf_time now)
{
    const tf_scenario *s = t->s;
    if (t->changed == TF_NEVER || tf_scenario_next_change(s, t->changed) <= now) {
        apply_all(t, now);
    }
    while (t->next_act < s->act_count && s->acts[t->next_act].at <= now) {
        t->act(t->ctx, &s->acts[t->next_act++]);
    }
    tf_time next = tf_scenario_next_change(s, now);
    return t->next_act < s->act_count ? tf_time_min(next, s->acts[t->next_act].at) : next;
}
