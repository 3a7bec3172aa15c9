#include "tests/sim/session_host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCH_MAX 512u

void sim_fail(const sim_world *w, const char *what, int line)
{
    (void)fprintf(stderr, "sim_session: seed %" PRIu64 ": %s (line %d)\n", w->seed, what, line);
    abort();
}

void sim_trace(sim_world *w, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) { /* FNV-1a */
        w->trace = (w->trace ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
}

size_t sim_below(sim_world *w, size_t bound)
{
    return (size_t)tf_test_random_below(&w->random, bound);
}

bool sim_chance(sim_world *w, unsigned odds)
{
    return sim_below(w, 8) < odds;
}

void *sim_grow(const sim_world *w, void *items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) {
        return items;
    }
    size_t wanted = need * 2 + 16;
    uint8_t *bigger = realloc(items, wanted * size);
    SIM_CHECK(w, bigger != NULL, "out of memory");
    memset(bigger + *capacity * size, 0, (wanted - *capacity) * size);
    *capacity = wanted;
    return bigger;
}

/* -- records ------------------------------------------------------------------------------------------------------- */

sim_record *sim_record_of(sim_world *w, int side, tf_local local)
{
    sim_host *h = &w->host[side];
    SIM_CHECK(w, local != TF_LOCAL_NONE && local <= h->ids.last, "a local id that was never given out");
    h->records = sim_grow(w, h->records, &h->record_capacity, (size_t)local + 1, sizeof(*h->records));
    return &h->records[local];
}

void sim_use(sim_world *w, int side, tf_local local)
{
    sim_record *r = sim_record_of(w, side, local);
    r->uses++;
    if (r->role == SIM_IMPORT) {
        tf_session_hold(w->host[side].session, local);
    }
}

/* Gives one use back. False: that was the last one of something of the host's own that nobody refers to. */
static bool unuse_one(sim_world *w, int side, tf_local local)
{
    sim_record *r = sim_record_of(w, side, local);
    SIM_CHECK(w, r->uses > 0, "the host uses what it does not use");
    r->uses--;
    if (r->role == SIM_IMPORT) {
        tf_session_release(w->host[side].session, w->now, local);
        return true;
    }
    return r->uses > 0 || r->exported;
}

void sim_unuse(sim_world *w, int side, tf_local local)
{
    if (!unuse_one(w, side, local)) {
        sim_forget(w, side, local);
    }
}

/* Takes what a resolution names into list, whose uses are to be given back. */
size_t sim_names_of(const sim_resolution *resolution, tf_local list[SIM_REFS_MAX + 1])
{
    size_t count = 0;
    if (resolution->kind == TF_RESOLUTION_OBJECT) {
        list[count++] = resolution->object.local;
    }
    for (size_t i = 0; i < resolution->ref_count; i++) {
        list[count++] = resolution->refs[i].local;
    }
    return count;
}

/* Forgets something of the host's own, and what only its resolution keeps. */
void sim_forget(sim_world *w, int side, tf_local local)
{
    tf_local *list = NULL;
    size_t capacity = 0;
    size_t count = 0;
    list = sim_grow(w, list, &capacity, 1, sizeof(*list));
    list[count++] = local;
    while (count > 0) {
        tf_local next = list[--count];
        sim_record *r = sim_record_of(w, side, next);
        tf_local names[SIM_REFS_MAX + 1];
        size_t named = r->resolved ? sim_names_of(&r->resolution, names) : 0;
        *r = (sim_record){.has_thing = r->has_thing, .thing = r->thing, .kind = r->kind};
        list = sim_grow(w, list, &capacity, count + named, sizeof(*list));
        for (size_t i = 0; i < named; i++) {
            if (!unuse_one(w, side, names[i])) {
                list[count++] = names[i];
            }
        }
    }
    free(list);
}

/* Adds to what the host may use; it has a use for it already. */
void sim_keep(sim_world *w, int side, tf_local local)
{
    sim_host *h = &w->host[side];
    h->kept = sim_grow(w, h->kept, &h->kept_capacity, h->kept_count + 1, sizeof(*h->kept));
    h->kept[h->kept_count++] = local;
}

size_t sim_new_thing(sim_world *w, int owner, tf_ref_kind kind, tf_local local)
{
    w->things = sim_grow(w, w->things, &w->thing_capacity, w->thing_count + 1, sizeof(*w->things));
    w->things[w->thing_count] = (sim_thing){.owner = owner, .kind = kind, .local = local};
    return w->thing_count++;
}

sim_record *sim_record_new(sim_world *w, int side, tf_local local, sim_role role, size_t thing)
{
    sim_record *r = sim_record_of(w, side, local);
    *r = (sim_record){.role = role, .kind = w->things[thing].kind, .has_thing = true, .thing = thing};
    return r;
}

/* -- what a host says ---------------------------------------------------------------------------------------------- */

static tf_local new_own(sim_world *w, int side, tf_ref_kind kind)
{
    tf_local local = tf_local_next(&w->host[side].ids);
    sim_record *r = sim_record_new(w, side, local, SIM_OWN, sim_new_thing(w, side, kind, local));
    r->shown = true;
    /* A promise is kept, since it must be resolved; an object may be known to the peer alone. */
    if (kind == TF_REF_PROMISE || sim_chance(w, 4)) {
        sim_use(w, side, local);
        sim_keep(w, side, local);
    }
    return local;
}

static tf_mention pick_mention(sim_world *w, int side)
{
    sim_host *h = &w->host[side];
    if (!h->closing && sim_chance(w, 2)) {
        tf_ref_kind kind = sim_chance(w, 3) ? TF_REF_PROMISE : TF_REF_OBJECT;
        return (tf_mention){.local = new_own(w, side, kind), .kind = kind};
    }
    tf_local local = h->kept[sim_below(w, h->kept_count)];
    return (tf_mention){.local = local, .kind = sim_record_of(w, side, local)->kind};
}

static size_t pick_mentions(sim_world *w, int side, tf_mention *refs)
{
    size_t count = sim_chance(w, 4) ? 0 : sim_below(w, SIM_REFS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        refs[i] = pick_mention(w, side);
    }
    return count;
}

static sim_payload describe(sim_world *w, int side, const tf_mention *refs, size_t count)
{
    sim_payload p = {.result = SIM_NO_THING, .count = (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        p.refs[i] = (uint32_t)sim_record_of(w, side, refs[i].local)->thing;
    }
    return p;
}

/* Mentioned in a message that went out: of its own things a host will hear when nobody refers to them. */
static void note_mentioned(sim_world *w, int side, const tf_mention *refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sim_record *r = sim_record_of(w, side, refs[i].local);
        if (r->role == SIM_OWN) {
            r->exported = true;
        }
    }
}

typedef struct closure {
    tf_local list[BATCH_MAX];
    size_t count;
} closure;

static void closure_add(sim_world *w, int side, closure *c, tf_local local)
{
    const sim_record *r = sim_record_of(w, side, local);
    if (r->role != SIM_OWN || !r->resolved) {
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        if (c->list[i] == local) {
            return;
        }
    }
    SIM_CHECK(w, c->count < BATCH_MAX, "a batch that is too large for the simulation");
    c->list[c->count++] = local;
}

static tf_answer answer_of(tf_local promise, const sim_resolution *resolution)
{
    return (tf_answer){
        .promise = promise,
        .kind = resolution->kind,
        .object = resolution->object,
        .data = tf_slice_of(resolution->data, resolution->len),
        .refs = resolution->refs,
        .ref_count = resolution->ref_count,
    };
}

/* Tells the peer what promises are resolved to, with all that this names (D7, ancillary). */
static void send_resolutions(sim_world *w, int side, closure *c)
{
    if (c->count == 0) {
        return;
    }
    static tf_answer answers[BATCH_MAX];
    for (size_t i = 0; i < c->count; i++) {
        const sim_resolution *resolution = &sim_record_of(w, side, c->list[i])->resolution;
        for (size_t k = 0; k < resolution->ref_count; k++) {
            closure_add(w, side, c, resolution->refs[k].local);
        }
    }
    for (size_t i = 0; i < c->count; i++) {
        answers[i] = answer_of(c->list[i], &sim_record_of(w, side, c->list[i])->resolution);
    }
    tf_err err = tf_session_resolve(w->host[side].session, w->now, answers, c->count);
    SIM_CHECK(w, err == TF_OK, tf_err_text(err));
    for (size_t i = 0; i < c->count; i++) {
        const sim_resolution *resolution = &sim_record_of(w, side, c->list[i])->resolution;
        note_mentioned(w, side, resolution->refs, resolution->ref_count);
        if (resolution->kind == TF_RESOLUTION_OBJECT) {
            note_mentioned(w, side, &resolution->object, 1);
        }
    }
}

void sim_announce(sim_world *w, int side, const tf_mention *refs, size_t count)
{
    closure c = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        closure_add(w, side, &c, refs[i].local);
    }
    send_resolutions(w, side, &c);
}

/* New things that were not said after all. */
static void take_back(sim_world *w, int side, const tf_mention *refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const sim_record *r = sim_record_of(w, side, refs[i].local);
        if (r->role == SIM_OWN && r->uses == 0 && !r->exported) {
            sim_forget(w, side, refs[i].local);
        }
    }
}

void sim_send(sim_world *w, int side, tf_local target)
{
    sim_host *h = &w->host[side];
    tf_mention refs[SIM_REFS_MAX];
    size_t count = pick_mentions(w, side, refs);
    size_t thing = sim_record_of(w, side, target)->thing;
    bool want = sim_chance(w, w->want_odds);
    sim_payload p = describe(w, side, refs, count);
    p.stamp = w->things[thing].sent[side] + 1;
    p.thing = (uint32_t)thing;
    p.result = want ? (uint32_t)w->thing_count : SIM_NO_THING;
    tf_delivery delivery = {.target = target,
                            .method = tf_slice_str("m"),
                            .args = tf_slice_of(&p, sizeof(p)),
                            .refs = refs,
                            .ref_count = count,
                            .want_result = want};
    tf_local result = TF_LOCAL_NONE;
    tf_err err = tf_session_deliver(h->session, w->now, &delivery, &result);
    if (err != TF_OK) {
        SIM_CHECK(w, err == TF_ERR_LIMIT_ITEMS, tf_err_text(err));
        take_back(w, side, refs, count);
        return;
    }
    w->things[thing].sent[side]++;
    if (want) {
        sim_record *r = sim_record_new(w, side, result, SIM_IMPORT, sim_new_thing(w, 1 - side, TF_REF_PROMISE, 0));
        r->uses = 1; /* the session's hold */
        sim_keep(w, side, result);
    }
    note_mentioned(w, side, refs, count);
    sim_announce(w, side, refs, count);
}

bool sim_is_owed(const sim_record *r)
{
    return r->role == SIM_OWN && r->kind == TF_REF_PROMISE && !r->resolved && r->shown && r->uses > 0;
}

static tf_mention pick_object(sim_world *w, int side)
{
    sim_host *h = &w->host[side];
    for (int tries = 0; tries < 8; tries++) {
        tf_local local = h->kept[sim_below(w, h->kept_count)];
        if (sim_record_of(w, side, local)->kind == TF_REF_OBJECT) {
            return (tf_mention){.local = local, .kind = TF_REF_OBJECT};
        }
    }
    return (tf_mention){.local = h->kept[0], .kind = TF_REF_OBJECT}; /* the root */
}

void sim_resolve(sim_world *w, int side, tf_local promise)
{
    sim_resolution resolution = {.kind = (tf_resolution_kind)sim_below(w, 3)};
    if (resolution.kind == TF_RESOLUTION_OBJECT) {
        resolution.object = pick_object(w, side);
        sim_use(w, side, resolution.object.local);
    } else {
        resolution.ref_count = pick_mentions(w, side, resolution.refs);
    }
    for (size_t i = 0; i < resolution.ref_count; i++) {
        sim_use(w, side, resolution.refs[i].local);
    }
    sim_payload p = describe(w, side, resolution.refs, resolution.ref_count);
    size_t index = sim_record_of(w, side, promise)->thing;
    p.thing = (uint32_t)index;
    memcpy(resolution.data, &p, sizeof(p));
    resolution.len = resolution.kind == TF_RESOLUTION_OBJECT ? 0 : sizeof(p);
    sim_thing *thing = &w->things[index];
    thing->resolved = true;
    thing->resolution = resolution.kind;
    if (resolution.kind == TF_RESOLUTION_OBJECT) {
        thing->object = sim_record_of(w, side, resolution.object.local)->thing;
    }
    sim_record *r = sim_record_of(w, side, promise);
    r->resolved = true;
    r->resolution = resolution;
    sim_announce(w, side, &(tf_mention){.local = promise, .kind = TF_REF_PROMISE}, 1);
}

/* -- what a host does ---------------------------------------------------------------------------------------------- */

static void let_go(sim_world *w, int side, size_t index)
{
    sim_host *h = &w->host[side];
    tf_local local = h->kept[index];
    h->kept[index] = h->kept[--h->kept_count];
    sim_unuse(w, side, local);
}

/* The first two are its own root and the peer's. */
bool sim_host_forget_one(sim_world *w, int side)
{
    sim_host *h = &w->host[side];
    for (size_t tries = 0; h->kept_count > 2 && tries < h->kept_count; tries++) {
        size_t index = 2 + sim_below(w, h->kept_count - 2);
        if (!sim_is_owed(sim_record_of(w, side, h->kept[index]))) {
            let_go(w, side, index);
            return true;
        }
    }
    return false;
}

bool sim_host_settle_one(sim_world *w, int side)
{
    sim_host *h = &w->host[side];
    for (size_t i = 2; i < h->kept_count; i++) {
        if (sim_is_owed(sim_record_of(w, side, h->kept[i]))) {
            sim_resolve(w, side, h->kept[i]);
            return true;
        }
    }
    return false;
}

void sim_host_act(sim_world *w, int side)
{
    sim_host *h = &w->host[side];
    size_t index = sim_below(w, h->kept_count);
    tf_local local = h->kept[index];
    const sim_record *r = sim_record_of(w, side, local);
    switch (sim_below(w, 4)) {
    case 0:
    case 1:
        sim_send(w, side, r->role == SIM_IMPORT ? local : h->kept[1]);
        return;
    case 2:
        if (sim_is_owed(r)) {
            sim_resolve(w, side, local);
        }
        return;
    default:
        if (index >= 2 && !sim_is_owed(r)) {
            let_go(w, side, index);
        }
        return;
    }
}
