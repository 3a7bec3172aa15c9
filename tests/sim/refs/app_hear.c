#include "tests/sim/refs/app_internal.h"

static void hold_some(world *w, node *n, const mentions *heard)
{
    for (size_t i = 0; !w->closing && i < heard->count; i++) {
        bool again = observer_note(w, n, heard->items[i].local)->resolved; /* it hears the same again, and again */
        if (world_chance(w, w->plan.hold) && (!again || w->replies > 0)) {
            w->replies -= again ? 1 : 0;
            app_hold(w, n, heard->items[i].local);
        }
    }
}

static void copy_mentions(world *w, node *n, const tf_router_event *event, mentions *out)
{
    out->count = 0;
    for (size_t i = 0; i < event->ref_count && i < MENTIONS_MAX; i++) {
        out->items[out->count] = event->refs[i];
        out->things[out->count++] = observer_note(w, n, event->refs[i].local)->thing;
    }
}

static void hear_message(world *w, node *n, const tf_router_event *event)
{
    number at = observer_delivered(w, n, event);
    world_say(w, "node %u hears m%u", n->index, at);
    mentions heard;
    copy_mentions(w, n, event, &heard);
    tf_local result = event->result;
    if (result != TF_LOCAL_NONE) {
        app_push(&n->decided, &n->decided_count, &n->decided_capacity, (handle){result, w->messages[at].result, false});
    }
    hold_some(w, n, &heard);
    if (w->closing) {
        return;
    }
    if (result != TF_LOCAL_NONE && world_chance(w, 1)) {
        app_hold(w, n, result);
    }
    handle target;
    if (w->replies > 0 && world_chance(w, n->active ? w->plan.forward : 6) && app_pick_target(w, n, &target)) {
        w->replies--;
        app_send_to(w, n, target, &heard);
    }
    if (world_chance(w, n->active ? w->plan.answer : 6)) {
        app_resolve(w, n, 1 + world_below(w, 2));
    }
}

static void hear_resolved(world *w, node *n, const tf_router_event *event)
{
    observer_resolved(w, n, event);
    note *known = observer_note(w, n, event->local);
    world_say(w, "node %u hears that %u is resolved, kind %d", n->index, known->thing, (int)event->kind);
    CHECK(w, known->holds > 0, "something is resolved that the application does not hold", "node %u: %u", n->index,
          known->thing);
    known->holds = 0;
    known->resolved = true;
    for (size_t i = n->handle_count; i-- > 0;) {
        if (n->handles[i].local == event->local) {
            app_take_out(n->handles, &n->handle_count, i);
        }
    }
    mentions heard;
    copy_mentions(w, n, event, &heard);
    if (event->kind == TF_RESOLUTION_OBJECT) {
        app_mention(w, &heard, (handle){event->object.local, observer_note(w, n, event->object.local)->thing, false});
    }
    hold_some(w, n, &heard);
    if (!w->closing && w->replies > 0 && world_chance(w, w->plan.forward)) {
        w->replies--;
        app_send(w, n);
    }
}

static void hear_revoked(world *w, node *n, const tf_router_event *event)
{
    observer_revoked(w, n, event);
    const note *known = observer_note(w, n, event->local);
    world_say(w, "node %u hears that %u is revoked", n->index, known->thing);
    CHECK(w, known->holds > 0, "something is revoked that the application does not hold", "node %u: %u", n->index,
          known->thing);
    mentions heard;
    copy_mentions(w, n, event, &heard);
    hold_some(w, n, &heard);
}

static void hear_gone(world *w, node *n, tf_local local)
{
    const note *known = observer_note(w, n, local);
    thing *t = &w->things[known->thing];
    world_say(w, "node %u hears that nobody refers to %u", n->index, known->thing);
    CHECK(w, known->holds == 0, "nobody refers to what the application holds", "node %u: %u", n->index, known->thing);
    if (t->kind == TF_REF_PROMISE) {
        CHECK(w, app_is_decided(n, local), "a promise is gone that the application does not decide", "node %u: %u",
              n->index, known->thing);
        app_forget_decided(n, local);
        return;
    }
    CHECK(w, t->home == n->index && t->local == local && t->known, "an object is gone that nobody knew", "node %u: %u",
          n->index, known->thing);
    t->known = false;
    for (size_t i = 1; (t->soft != 0 || t->hard != 0) && i < n->own_count; i++) {
        if (n->own[i] == known->thing) { /* it stays revoked: it is never mentioned again */
            n->own_count--;
            memmove(n->own + i, n->own + i + 1, (n->own_count - i) * sizeof(*n->own));
        }
    }
}

void app_hear(world *w, node *n, const tf_router_event *event)
{
    world_trace(w, &event->type, sizeof(event->type));
    world_trace(w, &event->local, sizeof(event->local));
    switch (event->type) {
    case TF_ROUTER_DELIVER:
        hear_message(w, n, event);
        return;
    case TF_ROUTER_RESOLVED:
        hear_resolved(w, n, event);
        return;
    case TF_ROUTER_REVOKED:
        hear_revoked(w, n, event);
        return;
    case TF_ROUTER_DROPPED:
        observer_dropped(w, n, event);
        return;
    case TF_ROUTER_GONE:
        hear_gone(w, n, event->local);
        return;
    }
    TF_UNREACHABLE();
}
