/* The other half of session_host.h: what a host hears, and what must be true. */
#include <stdlib.h>

#include "tests/sim/session_host.h"

/* -- worlds -------------------------------------------------------------------------------------------------------- */

static void add_root(sim_world *w, int side, tf_local local, int owner)
{
    sim_record *r = sim_record_new(w, side, local, side == owner ? SIM_OWN : SIM_IMPORT, (size_t)owner);
    r->uses = 1;
    r->exported = side == owner;
    r->shown = true;
    sim_keep(w, side, local);
}

void sim_world_init(sim_world *w, uint64_t seed)
{
    *w = (sim_world){.seed = seed, .now = 1};
    tf_test_heap_init(&w->heap);
    tf_test_random_init(&w->random, seed);
    w->hold_odds = (unsigned)sim_below(w, 9);
    w->want_odds = (unsigned)sim_below(w, 9);
    w->act_odds = (unsigned)sim_below(w, 7);
    tf_session_limits limits = {
        .max_message = 65536, .max_refs = 100000, .max_promises = 50000, .max_results = sim_chance(w, 2) ? 3 : 5000};
    for (int i = 0; i < 2; i++) {
        sim_host *h = &w->host[i];
        tf_session_config config = {
            .side = i == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
            .local = limits,
            .remote = limits,
            .ids = &h->ids,
            .root = tf_local_next(&h->ids),
            .hash_key = tf_test_random_u64(&w->random),
            .mem = &w->heap.mem,
        };
        (void)sim_new_thing(w, i, TF_REF_OBJECT, config.root);
        tf_err err = tf_session_new(&h->session, &config);
        SIM_CHECK(w, err == TF_OK, "session");
    }
    for (int i = 0; i < 2; i++) {
        add_root(w, i, w->things[i].local, i);
        add_root(w, i, tf_session_peer_root(w->host[i].session), 1 - i);
    }
}

void sim_world_free(sim_world *w)
{
    for (int i = 0; i < 2; i++) {
        tf_session_free(w->host[i].session);
        free(w->host[i].records);
        free(w->host[i].kept);
        free(w->host[i].shown);
    }
    free(w->things);
    SIM_CHECK(w, w->heap.live_blocks == 0, "memory was lost");
}

/* -- events -------------------------------------------------------------------------------------------------------- */

static void set_thing(sim_world *w, sim_record *r, size_t thing)
{
    SIM_CHECK(w, thing < w->thing_count && w->things[thing].kind == r->kind, "another kind than was meant");
    SIM_CHECK(w, !r->has_thing || r->thing == thing, "another thing than was meant");
    r->has_thing = true;
    r->thing = thing;
    sim_thing *t = &w->things[thing];
    if (r->resolved && !t->resolved) { /* by the session itself, before anybody knew which one it is */
        SIM_CHECK(w, r->resolution.kind == TF_RESOLUTION_REJECTION, "a resolution that nobody gave");
        t->resolved = true;
        t->inside = true;
        t->resolution = TF_RESOLUTION_REJECTION;
    }
}

/* A local id that was never seen: an import, or the result of a delivery that this host has not seen yet. */
static void meet(sim_world *w, int side, sim_record *r, tf_ref_kind kind, uint32_t thing)
{
    SIM_CHECK(w, !r->has_thing, "something forgotten is mentioned");
    r->kind = kind;
    r->role = SIM_IMPORT;
    if (thing == SIM_NO_THING || w->things[thing].owner != side || w->things[thing].resolved) {
        return;
    }
    SIM_CHECK(w, kind == TF_REF_PROMISE, "an object of our own comes as an import");
    r->role = SIM_OWN;
    r->exported = true;
}

/* Something is mentioned; thing: what was meant, SIM_NO_THING when the message does not say. */
static void see(sim_world *w, int side, tf_mention mention, uint32_t thing)
{
    sim_record *r = sim_record_of(w, side, mention.local);
    if (r->role == SIM_NONE) {
        meet(w, side, r, mention.kind, thing);
    }
    SIM_CHECK(w, r->kind == mention.kind, "another kind than before");
    if (thing != SIM_NO_THING) {
        set_thing(w, r, thing);
    }
}

static bool get_payload(tf_slice bytes, sim_payload *out)
{
    if (bytes.len != sizeof(*out)) {
        return false;
    }
    memcpy(out, bytes.data, sizeof(*out));
    return out->mark == 0;
}

static void see_refs(sim_world *w, int side, const tf_session_event *event, const sim_payload *p)
{
    SIM_CHECK(w, p->count == event->ref_count, "other refs than were meant");
    for (size_t i = 0; i < event->ref_count; i++) {
        see(w, side, event->refs[i], p->refs[i]);
    }
}

/* P6, and that it is the target that was meant. */
static void check_target(sim_world *w, int side, const tf_session_event *event, const sim_payload *p)
{
    const sim_record *r = sim_record_of(w, side, event->local);
    sim_thing *t = &w->things[p->thing];
    SIM_CHECK(w, r->role != SIM_NONE && r->has_thing && r->kind == TF_REF_OBJECT, "a message to something forgotten");
    bool resolved = t->resolved && t->resolution == TF_RESOLUTION_OBJECT && t->object == r->thing;
    SIM_CHECK(w, r->thing == p->thing || resolved, "a message to another target than was meant");
    uint32_t *received = &t->received[1 - side];
    SIM_CHECK(w, p->stamp > *received, "order per reference");
    SIM_CHECK(w, t->kind == TF_REF_PROMISE || p->stamp == *received + 1, "a message was lost");
    *received = p->stamp;
}

static void take_result(sim_world *w, int side, tf_local result, uint32_t thing)
{
    SIM_CHECK(w, (result != TF_LOCAL_NONE) == (thing != SIM_NO_THING), "a result is wanted or not");
    if (result == TF_LOCAL_NONE) {
        return;
    }
    sim_record *r = sim_record_of(w, side, result);
    if (r->role == SIM_NONE) {
        SIM_CHECK(w, !r->has_thing, "a result was known");
        r = sim_record_new(w, side, result, SIM_OWN, thing);
    }
    set_thing(w, r, thing);
    SIM_CHECK(w, r->role == SIM_OWN && !r->shown && !r->resolved, "a result that is none");
    r->shown = true;
    r->exported = true;
    sim_use(w, side, result);
    sim_keep(w, side, result);
}

static void hear_deliver(sim_world *w, int side, const tf_session_event *event, bool act)
{
    sim_payload p = {0};
    SIM_CHECK(w, get_payload(event->args, &p), "arguments");
    check_target(w, side, event, &p);
    take_result(w, side, event->result, p.result);
    see_refs(w, side, event, &p);
    for (size_t i = 0; i < event->ref_count; i++) {
        if (sim_chance(w, w->hold_odds)) {
            sim_use(w, side, event->refs[i].local);
            sim_keep(w, side, event->refs[i].local);
        }
    }
    if (act && event->result != TF_LOCAL_NONE && sim_chance(w, 4)) {
        sim_resolve(w, side, event->result);
    } else if (act) {
        sim_host_act(w, side);
    }
}

/* A promise that the peer decided, or a result that the session answered by itself: is it what the decider said? */
static void check_resolution(sim_world *w, sim_record *r, const tf_session_event *event, bool inside)
{
    if (!r->has_thing || w->ending) {
        return;
    }
    sim_thing *t = &w->things[r->thing];
    if (!t->resolved) {
        SIM_CHECK(w, event->kind == TF_RESOLUTION_REJECTION, "a resolution that nobody gave");
        t->resolved = true;
        t->inside = true;
        t->resolution = event->kind;
    }
    SIM_CHECK(w, event->kind == t->resolution, "another kind of resolution than was given");
    SIM_CHECK(w, !inside || t->inside, "another rejection than was given");
}

static void hear_resolved(sim_world *w, int side, const tf_session_event *event)
{
    sim_host *h = &w->host[side];
    sim_record *r = sim_record_of(w, side, event->local);
    if (r->role == SIM_NONE) {
        SIM_CHECK(w, !r->has_thing, "something forgotten is resolved");
        r->kind = TF_REF_PROMISE;
    }
    SIM_CHECK(w, r->kind == TF_REF_PROMISE && !r->resolved && !r->shown, "what is resolved is no promise of the peer");
    SIM_CHECK(w, r->role != SIM_OWN || event->until_dropped, "a promise of ours is resolved by others");
    sim_payload p = {0};
    bool says = get_payload(event->data, &p);
    check_resolution(w, r, event, event->kind != TF_RESOLUTION_OBJECT && !says);
    if (event->kind == TF_RESOLUTION_OBJECT) {
        bool known = r->has_thing && w->things[r->thing].resolved;
        see(w, side, event->object, known ? (uint32_t)w->things[r->thing].object : SIM_NO_THING);
    } else if (says) {
        see_refs(w, side, event, &p);
    }
    r = sim_record_of(w, side, event->local);
    r->role = SIM_OWN; /* from now on this host decides it */
    r->shown = true;
    r->exported = r->exported || event->until_dropped;
    r->resolved = true;
    r->resolution = (sim_resolution){.kind = event->kind, .object = event->object, .ref_count = event->ref_count};
    r->resolution.len = event->data.len;
    SIM_CHECK(w, event->data.len <= sizeof(r->resolution.data), "data");
    for (size_t i = 0; i < event->data.len; i++) {
        r->resolution.data[i] = event->data.data[i];
    }
    for (size_t i = 0; i < event->ref_count; i++) {
        r->resolution.refs[i] = event->refs[i];
    }
    tf_local names[SIM_REFS_MAX + 1];
    size_t count = sim_names_of(&r->resolution, names);
    for (size_t i = 0; i < count; i++) {
        sim_use(w, side, names[i]);
    }
    sim_use(w, side, event->local); /* until the turn ends: later events of it may name it */
    h->shown = sim_grow(w, h->shown, &h->shown_capacity, h->shown_count + 1, sizeof(*h->shown));
    h->shown[h->shown_count++] = event->local;
}

static void hear_dropped(sim_world *w, int side, tf_local local)
{
    sim_record *r = sim_record_of(w, side, local);
    if (w->ending && r->role == SIM_NONE && !r->has_thing) {
        return; /* the result of a delivery that was still held */
    }
    SIM_CHECK(w, r->role == SIM_OWN && r->exported, "what is dropped was not known to the peer");
    r->exported = false;
    if (r->uses == 0) {
        sim_forget(w, side, local);
    }
}

static void hear_mentioned(sim_world *w, int side, tf_local local)
{
    sim_record *r = sim_record_of(w, side, local);
    SIM_CHECK(w, r->role == SIM_OWN && r->kind == TF_REF_PROMISE, "mentioned is no promise of ours");
    r->exported = true;
    sim_announce(w, side, &(tf_mention){.local = local, .kind = TF_REF_PROMISE}, 1);
}

static void hear(sim_world *w, int side, const tf_session_event *event, bool act)
{
    sim_trace(w, &event->type, sizeof(event->type));
    sim_trace(w, &event->local, sizeof(event->local));
    switch (event->type) {
    case TF_SESSION_DELIVER:
        hear_deliver(w, side, event, act);
        return;
    case TF_SESSION_RESOLVED:
        hear_resolved(w, side, event);
        if (act) {
            sim_host_act(w, side);
        }
        return;
    case TF_SESSION_MENTIONED:
        hear_mentioned(w, side, event->local);
        return;
    case TF_SESSION_DROPPED:
        hear_dropped(w, side, event->local);
        return;
    }
    TF_UNREACHABLE();
}

/* What was resolved in this turn and nobody uses is of no use any more. */
static void end_turn(sim_world *w, int side)
{
    sim_host *h = &w->host[side];
    while (h->shown_count > 0) {
        sim_unuse(w, side, h->shown[--h->shown_count]);
    }
}

void sim_host_turn(sim_world *w, int side, tf_slice message)
{
    tf_session *session = w->host[side].session;
    if (message.len > 0) {
        tf_err err = tf_session_recv(session, w->now, message);
        SIM_CHECK(w, err == TF_OK, tf_err_text(err));
    }
    for (tf_session_event event; tf_session_next_event(session, &event);) {
        hear(w, side, &event, !w->host[side].closing && sim_chance(w, w->act_odds));
    }
    end_turn(w, side);
    tf_err err = tf_session_done(session, w->now);
    SIM_CHECK(w, err == TF_OK, tf_err_text(err));
}

void sim_host_break_cycles(sim_world *w, int side)
{
    for (tf_local local = 1; local <= w->host[side].ids.last; local++) {
        sim_record *r = sim_record_of(w, side, local);
        if (r->role != SIM_OWN || !r->resolved || r->exported) {
            continue;
        }
        tf_local names[SIM_REFS_MAX + 1];
        size_t count = sim_names_of(&r->resolution, names);
        r->resolution = (sim_resolution){.kind = TF_RESOLUTION_DATA};
        for (size_t i = 0; i < count; i++) {
            sim_unuse(w, side, names[i]);
        }
    }
}

/* -- invariants ---------------------------------------------------------------------------------------------------- */

/* What a host knows, by kind: its own that the peer knows, imports in use. */
typedef struct census {
    size_t own[2];
    size_t imports[2];
} census;

/* P5: an import in use is known to its owner. */
static void check_import(sim_world *w, const sim_record *r)
{
    if (r->kind == TF_REF_OBJECT && r->has_thing) {
        const sim_thing *t = &w->things[r->thing];
        const sim_record *there = sim_record_of(w, t->owner, t->local);
        SIM_CHECK(w, there->role == SIM_OWN && there->exported, "a reference dangles");
    }
}

static census take_census(sim_world *w, int side)
{
    census c = {{0}, {0}};
    for (tf_local local = 1; local <= w->host[side].ids.last; local++) {
        const sim_record *r = sim_record_of(w, side, local);
        if (r->role == SIM_OWN && r->exported && !r->resolved) {
            c.own[r->kind]++;
        }
        if (r->role == SIM_IMPORT && r->uses > 0) {
            c.imports[r->kind]++;
            check_import(w, r);
        }
    }
    return c;
}

static tf_session_stats stats_of(const sim_world *w, int side)
{
    tf_session_stats stats;
    tf_session_get_stats(w->host[side].session, &stats);
    return stats;
}

void sim_check(sim_world *w)
{
    for (int side = 0; side < 2; side++) {
        census c = take_census(w, side);
        tf_session_stats stats = stats_of(w, side);
        SIM_CHECK(w, stats.imports >= c.imports[TF_REF_OBJECT], "an import in use is not in the c-list");
        SIM_CHECK(w, stats.promises_theirs >= c.imports[TF_REF_PROMISE], "a promise in use is not in the c-list");
        SIM_CHECK(w, stats.exports <= c.own[TF_REF_OBJECT], "an export that the host does not know of");
        SIM_CHECK(w, stats.retirements == 0 || stats.sent > stats.peer_processed, "a retirement that was acked");
    }
}

/* The c-lists agree with what the hosts know, and with each other. */
static void check_agreement(sim_world *w, int side, bool held)
{
    census c = take_census(w, side);
    tf_session_stats here = stats_of(w, side);
    tf_session_stats there = stats_of(w, 1 - side);
    SIM_CHECK(w, here.exports == there.imports, "exports here are not imports there");
    SIM_CHECK(w, here.promises_ours == there.promises_theirs, "promises here are not promises there");
    SIM_CHECK(w, held || here.imports == c.imports[TF_REF_OBJECT], "an import that nobody uses");
    SIM_CHECK(w, held || here.promises_theirs == c.imports[TF_REF_PROMISE], "a promise that nobody uses");
    SIM_CHECK(w, held || here.exports == c.own[TF_REF_OBJECT], "an export that nobody knows");
    SIM_CHECK(w, held || here.promises_ours == c.own[TF_REF_PROMISE], "a promise that nobody decides");
}

static void check_empty(sim_world *w, int side)
{
    tf_session_stats stats = stats_of(w, side);
    SIM_CHECK(w, stats.held_items == 0 && stats.held_bytes == 0, "a delivery is still held");
    SIM_CHECK(w, stats.imports == 1 && stats.exports == 1 && stats.promises_ours == 0, "something is left");
    for (tf_local local = 1; local <= w->host[side].ids.last; local++) {
        const sim_record *r = sim_record_of(w, side, local);
        bool root = r->has_thing && r->thing < 2;
        SIM_CHECK(w, root || r->role == SIM_NONE || (r->role == SIM_IMPORT && r->uses == 0), "a host still waits");
    }
}

void sim_check_quiet(sim_world *w, bool empty)
{
    bool held = stats_of(w, 0).held_items + stats_of(w, 1).held_items > 0;
    for (int side = 0; side < 2; side++) {
        SIM_CHECK(w, stats_of(w, side).retirements == 0, "a retirement that was not acked");
        SIM_CHECK(w, !tf_session_has_events(w->host[side].session), "events are left");
        check_agreement(w, side, held);
        if (empty) {
            check_empty(w, side);
        }
    }
}

void sim_host_end(sim_world *w, int side)
{
    w->ending = true;
    tf_session *session = w->host[side].session;
    tf_session_end(session);
    for (tf_session_event event; tf_session_next_event(session, &event);) {
        hear(w, side, &event, false);
    }
    end_turn(w, side);
    for (tf_local local = 1; local <= w->host[side].ids.last; local++) {
        const sim_record *r = sim_record_of(w, side, local);
        bool waits = r->role == SIM_IMPORT && r->kind == TF_REF_PROMISE && r->uses > 0;
        SIM_CHECK(w, !waits, "a promise of a lost peer was not rejected");
        SIM_CHECK(w, r->role != SIM_OWN || !r->exported, "a lost peer still refers to something");
    }
}
