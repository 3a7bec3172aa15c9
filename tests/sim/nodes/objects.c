#include "tests/sim/nodes/objects.h"

#include "tests/sim/nodes/world.h"

static bool is_live(const member *m)
{
    return m->objects.on && m->node->state == NODE_UP && m->objects.caller.hub != NULL;
}

static void require_none(world *w, const member *m, const char *wrong)
{
    if (wrong != NULL) {
        world_fail(w, wrong, "%s", m->name);
    }
}

void objects_init(world *w)
{
    for (unsigned r = 0; r < w->plan.relays; r++) {
        unsigned count = 0;
        for (unsigned i = 0; i < w->plan.clients; i++) {
            count += w->members[i].homes[0] == r ? 1 : 0;
        }
        unsigned index = 0;
        for (unsigned i = 0; i < w->plan.clients; i++) {
            member *m = &w->members[i];
            if (m->homes[0] == r) {
                m->objects = (objects){.on = w->plan.objects && count > 1, .index = index++, .count = count};
            }
        }
    }
}

/* What the process before knew is gone; but what it said last may still arrive, and is told apart by its tags. */
void objects_start(world *w, member *m)
{
    objects *o = &m->objects;
    if (!o->on || o->caller.finished) {
        return;
    }
    uint32_t tags = o->caller.tags;
    uint64_t answered = o->caller.answered;
    o->caller = (caller){.hub = m->node->side.hub, .client = m->node->clients[0], .random = &w->random};
    o->caller.tags = tags;
    o->caller.answered = answered;
    if (!caller_begin(&o->caller, world_now(w), o->index, o->count)) {
        world_fail(w, "an object was not made", "%s", m->name);
    }
}

void objects_told(world *w, member *m, const tf_client_event *event)
{
    bool is_lookup = event->type != TF_CLIENT_ANSWER || event->asked == TF_ASK_LOOKUP;
    if (m->objects.on && is_lookup) {
        require_none(w, m, caller_told(&m->objects.caller, world_now(w), event));
    }
}

void objects_pull(world *w, member *m)
{
    if (is_live(m)) {
        require_none(w, m, caller_pull(&m->objects.caller, world_now(w)));
    }
}

tf_time objects_due(const world *w)
{
    tf_time at = TF_NEVER;
    for (unsigned i = 0; i < w->plan.clients && w->plan.objects && !w->objects_rest; i++) {
        if (is_live(&w->members[i])) {
            at = tf_time_min(at, w->members[i].objects.caller.act_at);
        }
    }
    return at;
}

void objects_act(world *w, tf_time now)
{
    for (unsigned i = 0; i < w->plan.clients && w->plan.objects && !w->objects_rest; i++) {
        member *m = &w->members[i];
        if (is_live(m) && m->objects.caller.act_at <= now) {
            require_none(w, m, caller_act(&m->objects.caller, now));
        }
    }
}

bool objects_all_answered(world *w)
{
    bool all = true;
    for (unsigned i = 0; i < w->plan.clients; i++) {
        objects *o = &w->members[i].objects;
        all = all && (!o->on || o->caller.answered > o->answered);
        o->answered = o->caller.answered;
    }
    return all;
}

void objects_finish(world *w)
{
    for (unsigned i = 0; i < w->plan.clients; i++) {
        if (w->members[i].objects.on) {
            caller_finish(&w->members[i].objects.caller, world_now(w));
        }
    }
    cluster_call_at(w->cluster, world_now(w));
}

bool objects_are_finished(const world *w)
{
    for (unsigned i = 0; i < w->plan.clients; i++) {
        const objects *o = &w->members[i].objects;
        if (o->on && o->caller.waiting_count > 0) {
            return false;
        }
    }
    return true;
}
