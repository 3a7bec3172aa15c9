#include "tests/sim/refs/app_internal.h"

#include <stdlib.h>

#define OWN_MAX 64u

/* -- what it has --------------------------------------------------------------------------------------------------- */

void app_push(handle **list, size_t *count, size_t *capacity, handle item)
{
    *list = world_grow(*list, capacity, *count + 1, sizeof(**list));
    (*list)[(*count)++] = item;
}

void app_take_out(handle *list, size_t *count, size_t at)
{
    (*count)--;
    memmove(list + at, list + at + 1, (*count - at) * sizeof(*list));
}

static void keep(world *w, node *n, tf_local local, number known_as)
{
    app_push(&n->handles, &n->handle_count, &n->handle_capacity, (handle){local, known_as, false});
    observer_note(w, n, local)->holds++;
}

void app_hold(world *w, node *n, tf_local local)
{
    tf_router_hold(n->router, local);
    keep(w, n, local, observer_note(w, n, local)->thing);
}

void app_forget_decided(node *n, tf_local local)
{
    for (size_t i = 0; i < n->decided_count; i++) {
        if (n->decided[i].local == local) {
            app_take_out(n->decided, &n->decided_count, i);
            return;
        }
    }
}

bool app_is_decided(const node *n, tf_local local)
{
    for (size_t i = 0; i < n->decided_count; i++) {
        if (n->decided[i].local == local) {
            return true;
        }
    }
    return false;
}

static number new_object(world *w, node *n)
{
    tf_local local = tf_router_new_object(n->router);
    number made = observer_new_thing(w, TF_REF_OBJECT, n->index, local);
    observer_meet(w, n, local, made);
    n->own = world_grow(n->own, &n->own_capacity, n->own_count + 1, sizeof(*n->own));
    n->own[n->own_count++] = made;
    return made;
}

void app_begin(world *w, node *n)
{
    number root = new_object(w, n);
    w->things[root].known = true;
    n->root = w->things[root].local;
}

bool app_may_release(const world *w, const handle *h)
{
    return w->plan.drops_roots || !h->fixed;
}

void app_take_root(world *w, node *n, tf_session *session, node *peer)
{
    tf_local local = tf_session_peer_root(session);
    number root = observer_note(w, peer, peer->root)->thing;
    w->things[root].known = true;
    observer_meet(w, n, local, root);
    keep(w, n, local, root);
    n->handles[n->handle_count - 1].fixed = true;
}

void app_lose(world *w, node *n, const tf_session *session)
{
    tf_local root = tf_session_peer_root(session);
    for (size_t i = 0; i < n->handle_count; i++) {
        if (n->handles[i].local == root && n->handles[i].fixed) {
            app_take_out(n->handles, &n->handle_count, i);
            observer_note(w, n, root)->holds--;
            return;
        }
    }
}

void app_promise(world *w, node *n)
{
    tf_local local = tf_router_new_promise(n->router);
    if (local == TF_LOCAL_NONE && w->is_lean) { /* memory runs out once */
        local = tf_router_new_promise(n->router);
    }
    CHECK(w, local != TF_LOCAL_NONE, "no promise", "node %u", n->index);
    number made = observer_new_thing(w, TF_REF_PROMISE, n->index, local);
    observer_meet(w, n, local, made);
    keep(w, n, local, made);
    app_push(&n->decided, &n->decided_count, &n->decided_capacity, (handle){local, made, false});
    world_say(w, "node %u makes promise %u", n->index, made);
}

/* -- what it mentions ---------------------------------------------------------------------------------------------- */

static bool is_live_record(const node *n, tf_local local)
{
    return tf_router_is_known(n->router, local);
}

/* One of its own objects; one that it revoked only as long as others know it. */
static number pick_own(world *w, const node *n)
{
    number own = n->own[world_below(w, n->own_count)];
    const thing *t = &w->things[own];
    return (t->soft != 0 || t->hard != 0) && !is_live_record(n, t->local) ? w->nodes[n->index].own[0] : own;
}

static handle pick_anything(world *w, node *n)
{
    if (!w->closing && world_chance(w, w->plan.fresh)) {
        if (world_chance(w, w->plan.fresh_promise)) {
            app_promise(w, n);
            return n->handles[n->handle_count - 1];
        }
        if (n->own_count < OWN_MAX) {
            number made = new_object(w, n);
            return (handle){w->things[made].local, made, false};
        }
    }
    size_t at = world_below(w, n->handle_count + n->decided_count + 2);
    if (at < n->handle_count) {
        return n->handles[at];
    }
    if (at < n->handle_count + n->decided_count) {
        return n->decided[at - n->handle_count];
    }
    number own = pick_own(w, n);
    return (handle){w->things[own].local, own, false};
}

void app_mention(world *w, mentions *m, handle picked)
{
    m->items[m->count] = (tf_mention){picked.local, w->things[picked.thing].kind};
    m->things[m->count++] = picked.thing;
}

static void pick_mentions(world *w, node *n, mentions *m)
{
    m->count = 0;
    if (!world_chance(w, w->plan.mention)) {
        return;
    }
    for (size_t count = 1 + world_below(w, MENTIONS_MAX); count > 0; count--) {
        app_mention(w, m, pick_anything(w, n));
    }
}

/* They were said. */
static void note_mentions(world *w, const mentions *m, const node *n)
{
    for (size_t i = 0; i < m->count; i++) {
        thing *t = &w->things[m->things[i]];
        if (t->kind == TF_REF_OBJECT && t->home == n->index && t->local == m->items[i].local) {
            t->known = true;
        }
    }
}

static void say_mentions(const world *w, const mentions *m, char *text, size_t cap)
{
    text[0] = '\0';
    for (size_t i = 0; w->verbose && i < m->count; i++) {
        size_t len = strlen(text);
        (void)snprintf(text + len, cap - len, " %u", m->things[i]);
    }
}

/* -- what it does -------------------------------------------------------------------------------------------------- */

void app_send_to(world *w, node *n, handle target, const mentions *all)
{
    note *via = observer_note(w, n, target.local);
    said_message m = {.from = n->index, .via = target.local, .target = target.thing, .ref_count = all->count};
    memcpy(m.refs, all->things, sizeof(m.refs));
    m.stamp = ++via->sent;
    bool want = world_chance(w, w->plan.want);
    number at = observer_new_message(w, &m);
    if (want) {
        m.result = observer_new_thing(w, TF_REF_PROMISE, 0, TF_LOCAL_NONE);
        w->things[m.result].asked = at;
        w->messages[at].result = m.result;
    }
    char text[64];
    say_mentions(w, all, text, sizeof(text));
    world_say(w, "node %u sends m%u to %u (local %llu), result %u, with%s", n->index, at, target.thing,
              (unsigned long long)target.local, m.result, text);
    uint8_t buffer[BODY_MAX];
    tf_router_send send = {
        .target = target.local,
        .method = tf_slice_str("m"),
        .args = observer_message_body(w, at, buffer),
        .refs = all->items,
        .ref_count = all->count,
        .want_result = want,
    };
    note_mentions(w, all, n);
    tf_local result = TF_LOCAL_NONE;
    tf_err err = tf_router_deliver(n->router, w->now, &send, &result);
    bool over = err == TF_ERR_NOMEM || err == TF_ERR_LIMIT_ITEMS || err == TF_ERR_LIMIT_BYTES || err == TF_ERR_AGAIN;
    if (w->is_lean && over) {
        world_say(w, "    not taken");
        w->messages[at].rejected = true;
        return;
    }
    CHECK(w, err == TF_OK, "tf_router_deliver", "node %u: %s", n->index, tf_err_text(err));
    if (want) {
        observer_meet(w, n, result, m.result);
        keep(w, n, result, m.result);
    }
}

#define RECENT 6u

bool app_pick_target(world *w, node *n, handle *out)
{
    if (n->handle_count > 0 && world_chance(w, w->plan.recent)) {
        size_t back = n->handle_count < RECENT ? n->handle_count : RECENT;
        *out = n->handles[n->handle_count - 1 - world_below(w, back)];
        return true;
    }
    size_t at = world_below(w, n->handle_count + n->decided_count + 1);
    if (at < n->handle_count) {
        *out = n->handles[at];
        return true;
    }
    if (at < n->handle_count + n->decided_count) {
        *out = n->decided[at - n->handle_count];
        return true;
    }
    number own = pick_own(w, n);
    *out = (handle){w->things[own].local, own, false};
    return is_live_record(n, out->local);
}

void app_send(world *w, node *n)
{
    handle target;
    if (!app_pick_target(w, n, &target)) {
        return;
    }
    mentions all;
    pick_mentions(w, n, &all);
    if (all.count > 0 && world_chance(w, 1)) { /* what goes to a reference may mention that */
        all.count--;
        app_mention(w, &all, target);
    }
    app_send_to(w, n, target, &all);
}

/* An object, its own or another's. */
static handle pick_object(world *w, node *n)
{
    handle picked = pick_anything(w, n);
    for (unsigned i = 0; i < 4 && w->things[picked.thing].kind == TF_REF_PROMISE && n->handle_count > 0; i++) {
        picked = n->handles[world_below(w, n->handle_count)]; /* rather another's, where order matters most (D9) */
    }
    if (w->things[picked.thing].kind == TF_REF_PROMISE) {
        number own = pick_own(w, n);
        picked = (handle){w->things[own].local, own, false};
    }
    return picked;
}

static void pick_outcome(world *w, node *n, bool plain, outcome *o, mentions *all)
{
    *o = (outcome){.kind = TF_RESOLUTION_DATA};
    all->count = 0;
    if (plain) {
        return;
    }
    if (world_chance(w, w->plan.object)) {
        handle object = pick_object(w, n);
        o->kind = TF_RESOLUTION_OBJECT;
        o->object = object.thing;
        app_mention(w, all, object);
        return;
    }
    if (world_chance(w, w->plan.rejection)) {
        o->kind = TF_RESOLUTION_REJECTION;
    }
    pick_mentions(w, n, all);
    o->ref_count = all->count;
    memcpy(o->refs, all->things, sizeof(o->refs));
}

#define BATCH_MAX 8u

static void answer(world *w, node *n, const handle *promise, tf_answer *a, mentions *all, uint8_t buffer[BODY_MAX])
{
    outcome o;
    pick_outcome(w, n, w->things[promise->thing].plain, &o, all);
    number at = observer_new_outcome(w, &o);
    char text[64];
    say_mentions(w, all, text, sizeof(text));
    world_say(w, "node %u resolves %u: o%u, kind %d,%s", n->index, promise->thing, at, (int)o.kind, text);
    *a = (tf_answer){.promise = promise->local, .kind = o.kind};
    if (o.kind == TF_RESOLUTION_OBJECT) {
        a->object = all->items[0];
    } else {
        a->data = observer_outcome_body(w, at, buffer);
        a->refs = all->items;
        a->ref_count = all->count;
    }
    CHECK(w, w->things[promise->thing].outcome == 0, "a promise is decided twice", "node %u: %u", n->index,
          promise->thing);
    w->things[promise->thing].outcome = at;
}

/* What fits any limit, in place of what did not. */
static void answer_shortly(world *w, const node *n, const handle *promise)
{
    outcome o = {.kind = TF_RESOLUTION_DATA};
    number at = observer_new_outcome(w, &o);
    w->things[promise->thing].outcome = at;
    uint8_t buffer[BODY_MAX];
    tf_answer a = {.promise = promise->local, .kind = o.kind, .data = observer_outcome_body(w, at, buffer)};
    world_say(w, "    node %u resolves %u: o%u, plain", n->index, promise->thing, at);
    tf_err err = tf_router_resolve(n->router, w->now, &a, 1);
    if (err == TF_ERR_NOMEM) { /* memory runs out once */
        err = tf_router_resolve(n->router, w->now, &a, 1);
    }
    CHECK(w, err == TF_OK, "tf_router_resolve shortly", "node %u: %s", n->index, tf_err_text(err));
}

/* Some of what it decides, in the order in which it was asked, from any place on. */
void app_resolve(world *w, node *n, size_t at_most)
{
    handle chosen[BATCH_MAX];
    tf_answer answers[BATCH_MAX];
    mentions all[BATCH_MAX];
    uint8_t buffers[BATCH_MAX][BODY_MAX];
    size_t first = world_below(w, n->decided_count);
    size_t count = 0;
    while (count < at_most && count < BATCH_MAX && first + count < n->decided_count) {
        chosen[count] = n->decided[first + count];
        count++;
    }
    if (count == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        answer(w, n, &chosen[i], &answers[i], &all[i], buffers[i]);
        note_mentions(w, &all[i], n);
    }
    tf_err err = tf_router_resolve(n->router, w->now, answers, count);
    if (w->is_lean && (err == TF_ERR_LIMIT_ITEMS || err == TF_ERR_LIMIT_BYTES)) {
        for (size_t i = 0; i < count; i++) {
            answer_shortly(w, n, &chosen[i]);
        }
        err = TF_OK;
    }
    if (w->is_lean && err == TF_ERR_NOMEM) {
        for (size_t i = 0; i < count; i++) {
            w->things[chosen[i].thing].outcome = 0; /* another time */
        }
        return;
    }
    CHECK(w, err == TF_OK, "tf_router_resolve", "node %u: %s", n->index, tf_err_text(err));
    for (size_t i = 0; i < count; i++) {
        app_forget_decided(n, chosen[i].local);
    }
}

void app_release_at(world *w, node *n, size_t i)
{
    handle gone = n->handles[i];
    app_take_out(n->handles, &n->handle_count, i);
    observer_note(w, n, gone.local)->holds--;
    world_say(w, "node %u lets go of %u (local %llu)", n->index, gone.thing, (unsigned long long)gone.local);
    tf_router_release(n->router, w->now, gone.local);
}

void app_release(world *w, node *n)
{
    if (n->handle_count == 0) {
        return;
    }
    size_t i = world_below(w, n->handle_count);
    if (app_may_release(w, &n->handles[i])) {
        app_release_at(w, n, i);
    }
}

/* Errors of objects at several nodes that mention each other would be a cycle of objects, which nobody collects (P5).
 */
static void pick_error_mentions(world *w, node *n, mentions *m)
{
    m->count = 0;
    if (w->plan.wild_errors) {
        pick_mentions(w, n, m);
        return;
    }
    if (world_chance(w, 4)) {
        app_mention(w, m, (handle){n->root, n->own[0], false});
    }
    if (world_chance(w, 2)) {
        app_promise(w, n);
        app_mention(w, m, n->handles[n->handle_count - 1]);
        w->things[m->things[m->count - 1]].plain = true;
    }
    if (world_chance(w, 2)) {
        number made = new_object(w, n);
        w->things[made].plain = true;
        app_mention(w, m, (handle){w->things[made].local, made, false});
    }
}

static bool may_revoke(const world *w, const node *n, const thing *t, bool hard)
{
    bool again = t->hard != 0 || (t->soft != 0 && !hard);
    bool wild = w->plan.wild_errors && (w->has_cycles || n->index != w->node_count - 1);
    return t->local != n->root && !t->plain && !again && !wild && is_live_record(n, t->local);
}

void app_revoke(world *w, node *n)
{
    number object = n->own[world_below(w, n->own_count)];
    bool hard = world_chance(w, 4) && !w->plan.wild_errors;
    if (!may_revoke(w, n, &w->things[object], hard)) {
        return;
    }
    mentions all;
    pick_error_mentions(w, n, &all);
    thing *t = &w->things[object];
    outcome o = {.kind = TF_RESOLUTION_REJECTION, .ref_count = all.count};
    memcpy(o.refs, all.things, sizeof(o.refs));
    number at = observer_new_outcome(w, &o);
    *(hard ? &t->hard : &t->soft) = at;
    char text[64];
    say_mentions(w, &all, text, sizeof(text));
    world_say(w, "node %u revokes %u %s: o%u,%s", n->index, object, hard ? "hard" : "softly", at, text);
    uint8_t buffer[BODY_MAX];
    tf_revocation revocation = {
        .object = t->local,
        .hard = hard,
        .data = observer_outcome_body(w, at, buffer),
        .refs = all.items,
        .ref_count = all.count,
    };
    note_mentions(w, &all, n);
    tf_err err = tf_router_revoke(n->router, w->now, &revocation);
    if (w->is_lean && err == TF_ERR_NOMEM) {
        *(hard ? &w->things[object].hard : &w->things[object].soft) = 0;
        return;
    }
    CHECK(w, err == TF_OK, "tf_router_revoke", "node %u: %s", n->index, tf_err_text(err));
}
