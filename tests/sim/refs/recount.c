#include "tests/sim/refs/world.h"

#include <stdlib.h>

/* -- counts -------------------------------------------------------------------------------------------------------- */

#define SEEN_SIZE 65536u /* a power of two, beyond what a run can have */

/* Values that were met in this recount: they are shared. */
static const tf_value *seen[SEEN_SIZE];

static bool see(world *w, const tf_value *value)
{
    size_t at = ((uintptr_t)value >> 4) * 31 % SEEN_SIZE;
    for (size_t i = 0; i < SEEN_SIZE; i++, at = (at + 1) % SEEN_SIZE) {
        if (seen[at] == value) {
            return false;
        }
        if (seen[at] == NULL) {
            seen[at] = value;
            return true;
        }
    }
    world_fail(w, "too many values", "%u", SEEN_SIZE);
}

static void expect(world *w, node *n, const tf_record *record)
{
    observer_note(w, n, record->local)->expected++;
}

static void expect_value(world *w, node *n, const tf_value *value)
{
    if (value == NULL || !see(w, value)) {
        return;
    }
    if (value->kind == TF_RESOLUTION_OBJECT) {
        expect(w, n, value->object);
    }
    for (size_t i = 0; i < value->ref_count; i++) {
        expect(w, n, value->refs[i]);
    }
}

static void expect_exports(world *w, node *n, const tf_session *s)
{
    uint64_t cursor = 0;
    tf_session_entry entry;
    while (tf_session_next_entry(s, &cursor, &entry)) {
        if (entry.is_export) {
            observer_note(w, n, entry.local)->expected++;
        }
    }
}

static const tf_record *next_record(const tf_refs *refs, size_t *position)
{
    uint64_t local = 0;
    uint64_t ignored = 0;
    while (tf_map_next(&refs->by_local, position, &local, &ignored)) {
        const tf_record *record = tf_refs_find(refs, local);
        if (record != refs->overloaded) {
            return record;
        }
    }
    return NULL;
}

static void expect_all(world *w, node *n)
{
    const tf_refs *refs = tf_router_refs(n->router);
    size_t position = 0;
    for (const tf_record *r = next_record(refs, &position); r != NULL; r = next_record(refs, &position)) {
        note *known = observer_note(w, n, r->local);
        CHECK(w, r->holds == known->holds, "other holds than the application has", "node %u: local %llu, %u, not %u",
              n->index, (unsigned long long)r->local, r->holds, known->holds);
        known->expected = known->holds;
    }
    memset(seen, 0, sizeof(seen));
    position = 0;
    for (const tf_record *r = next_record(refs, &position); r != NULL; r = next_record(refs, &position)) {
        expect_value(w, n, r->value);
        if (r->source != NULL) {
            expect(w, n, r->source);
        }
    }
    size_t cursor = 0;
    for (const conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        if (e->node == n) {
            expect_exports(w, n, e->session);
        }
    }
}

void recount_node(world *w, node *n)
{
    const tf_refs *refs = tf_router_refs(n->router);
    tf_router_stats stats;
    tf_router_get_stats(n->router, &stats);
    expect_all(w, n);
    bool exact = stats.held_items == 0 && stats.fences == 0; /* what waits counts, too */
    size_t position = 0;
    size_t count = 0;
    for (const tf_record *r = next_record(refs, &position); r != NULL; r = next_record(refs, &position)) {
        uint32_t expected = observer_note(w, n, r->local)->expected;
        CHECK(w, exact ? r->count == expected : r->count >= expected, "a wrong count",
              "node %u: local %llu (%u), %u, not %u", n->index, (unsigned long long)r->local,
              observer_note(w, n, r->local)->thing, r->count, expected);
        CHECK(w, r->count > 0, "a record that nobody refers to", "node %u: local %llu (%u)", n->index,
              (unsigned long long)r->local, observer_note(w, n, r->local)->thing);
        count++;
    }
    CHECK(w, count == refs->count, "a wrong number of records", "node %u: %zu, not %zu", n->index, refs->count, count);
    for (size_t i = 0; i < n->handle_count; i++) {
        CHECK(w, tf_refs_find(refs, n->handles[i].local) != NULL, "what the application holds is gone", "node %u: %u",
              n->index, n->handles[i].thing);
    }
}

/* -- c-lists ------------------------------------------------------------------------------------------------------- */

static bool has_entry(const tf_session *s, tf_ref ref)
{
    uint64_t cursor = 0;
    tf_session_entry entry;
    while (tf_session_next_entry(s, &cursor, &entry)) {
        if (entry.ref == ref) {
            return true;
        }
    }
    return false;
}

static void check_listed(const world *w, const conn_end *e, tf_ref ref)
{
    const monitor_ref *r = monitor_find(&e->conn->monitor, ref);
    CHECK(w, !r->listed[e->side] || has_entry(e->session, ref), "a c-list lacks something", "node %u: ref %llu%s%s%s",
          e->node->index, (unsigned long long)ref, r->owner == e->side ? ", an export" : ", an import",
          r->dropped ? ", dropped" : "", r->retired != 0 ? ", retired" : "");
}

/* Which one it is. */
_Noreturn static void fail_lacking(const world *w, const conn_end *e)
{
    for (unsigned i = 0; i < 4; i++) {
        tf_side side = i % 2 == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR;
        tf_ref_kind kind = i < 2 ? TF_REF_OBJECT : TF_REF_PROMISE;
        for (uint64_t k = 0; k < e->conn->monitor.tables[side][kind].count; k++) {
            check_listed(w, e, tf_ref_make(k, kind, side));
        }
    }
    world_fail(w, "a c-list lacks something", "node %u", e->node->index);
}

static void recount_list(world *w, const conn_end *e)
{
    const monitor *m = &e->conn->monitor;
    uint64_t cursor = 0;
    tf_session_entry entry;
    size_t count = 0;
    while (tf_session_next_entry(e->session, &cursor, &entry)) {
        const monitor_ref *r = monitor_find(m, entry.ref);
        CHECK(w, r != NULL && r->listed[e->side], "a c-list has what it should not have", "node %u: ref %llu",
              e->node->index, (unsigned long long)entry.ref);
        CHECK(w, entry.is_export == (r->owner == e->side), "an import is an export", "node %u: ref %llu",
              e->node->index, (unsigned long long)entry.ref);
        CHECK(w, entry.is_retired == (entry.is_export ? r->retired != 0 : r->dropped),
              "a retirement that was not, or was", "node %u: ref %llu", e->node->index, (unsigned long long)entry.ref);
        count++;
    }
    if (count != m->sides[e->side].listed) {
        fail_lacking(w, e);
    }
}

void recount_lists(world *w, conn *c)
{
    recount_list(w, &c->ends[0]);
    recount_list(w, &c->ends[1]);
}

/* -- when nothing moves -------------------------------------------------------------------------------------------- */

static bool is_own(const world *w, const node *n, tf_local local, const note *known)
{
    const thing *t = &w->things[known->thing];
    return known->thing != 0 && t->kind == TF_REF_OBJECT && t->home == n->index && t->local == local;
}

/* Which of its objects an application's node exports where: it was told of those that it does not any more. */
static void recount_exports(world *w, node *n)
{
    uint32_t open = 0;
    size_t cursor = 0;
    for (const conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        uint32_t mark = e->node == n ? 1u << (e->conn - w->conns) : 0;
        open |= mark;
        uint64_t at = 0;
        tf_session_entry entry;
        while (mark != 0 && tf_session_next_entry(e->session, &at, &entry)) {
            observer_note(w, n, entry.local)->exported_now |= entry.is_export ? mark : 0;
        }
    }
    for (tf_local local = 1; local < n->note_capacity; local++) {
        note *known = &n->notes[local];
        CHECK(w, !is_own(w, n, local, known) || (known->exported & open & ~known->exported_now) == 0,
              "not told that an export is gone", "node %u: %u", n->index, known->thing);
        known->exported = known->exported_now;
        known->exported_now = 0;
    }
}

/* What nobody refers to any more, the application was told of. */
static void recount_gone(const world *w, const node *n)
{
    for (size_t i = 1; i < n->own_count; i++) { /* 0 is the root, which sessions export without its application */
        const thing *t = &w->things[n->own[i]];
        CHECK(w, w->is_lean || !t->known || tf_router_is_known(n->router, t->local), "not told that an object is gone",
              "node %u: %u", n->index, n->own[i]);
    }
    for (size_t i = 0; i < n->decided_count; i++) {
        CHECK(w, tf_router_is_known(n->router, n->decided[i].local), "not told that a promise is gone", "node %u: %u",
              n->index, n->decided[i].thing);
    }
}

void recount_silent(world *w)
{
    size_t cursor = 0;
    for (const conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        tf_session_stats stats;
        tf_session_get_stats(e->session, &stats);
        CHECK(w, stats.retirements == 0, "silent, but with retirements", "node %u: %zu", e->node->index,
              stats.retirements);
        CHECK(w, stats.kept_bytes == 0, "silent, but values are kept", "node %u: %zu", e->node->index,
              stats.kept_bytes);
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        tf_router_stats stats;
        tf_router_get_stats(w->nodes[i].router, &stats);
        CHECK(w, stats.fences == 0, "silent, but with fences", "node %u: %zu", i, stats.fences);
        recount_exports(w, &w->nodes[i]);
        recount_gone(w, &w->nodes[i]);
    }
}

static size_t roots_of(const world *w, const node *n)
{
    bool exported = false;
    size_t cursor = 0;
    for (const conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        tf_ref root = tf_ref_make(0, TF_REF_OBJECT, e->side);
        exported = exported || (e->node == n && monitor_find(&e->conn->monitor, root)->listed[e->side]);
    }
    return n->handle_count + (exported ? 1 : 0); /* only peers' roots are held */
}

static void check_list_empty(world *w, const conn_end *e)
{
    uint64_t cursor = 0;
    tf_session_entry entry;
    while (tf_session_next_entry(e->session, &cursor, &entry)) {
        CHECK(w, tf_ref_number(entry.ref) == 0 && tf_ref_kind_of(entry.ref) == TF_REF_OBJECT, "a reference leaks",
              "node %u: ref %llu, local %llu (%u)", e->node->index, (unsigned long long)entry.ref,
              (unsigned long long)entry.local, entry.local == 0 ? 0 : observer_note(w, e->node, entry.local)->thing);
    }
}

/* What is there, for people. */
static void say_records(world *w, node *n)
{
    const tf_refs *refs = tf_router_refs(n->router);
    size_t position = 0;
    for (const tf_record *r = next_record(refs, &position); r != NULL; r = next_record(refs, &position)) {
        world_say(w, "node %u has %u (local %llu): %s, count %u, holds %u%s%s%s", n->index,
                  observer_note(w, n, r->local)->thing, (unsigned long long)r->local,
                  r->kind == TF_REF_OBJECT ? "object" : "promise", r->count, r->holds,
                  r->owner != NULL ? ", imported" : "", r->exports != NULL ? ", exported" : "",
                  r->state != TF_RECORD_LIVE ? ", settled" : "");
        if (r->value != NULL && r->value->kind == TF_RESOLUTION_OBJECT) {
            world_say(w, "    is %u (local %llu)", observer_note(w, n, r->value->object->local)->thing,
                      (unsigned long long)r->value->object->local);
        }
        for (size_t i = 0; r->value != NULL && i < r->value->ref_count; i++) {
            world_say(w, "    names %u (local %llu)", observer_note(w, n, r->value->refs[i]->local)->thing,
                      (unsigned long long)r->value->refs[i]->local);
        }
    }
}

void recount_empty(world *w)
{
    for (unsigned i = 0; i < w->node_count && w->verbose; i++) {
        say_records(w, &w->nodes[i]);
    }
    size_t cursor = 0;
    for (const conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        check_list_empty(w, e);
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        node *n = &w->nodes[i];
        tf_router_stats stats;
        tf_router_get_stats(n->router, &stats);
        CHECK(w, stats.held_items == 0 && stats.held_bytes == 0, "messages are left", "node %u: %zu", i,
              stats.held_items);
        CHECK(w, stats.resolved == 0, "resolved promises are left", "node %u: %zu", i, stats.resolved);
        CHECK(w, w->is_lean || stats.overloaded == 0, "something was overloaded", "node %u", i);
        CHECK(w, stats.records == roots_of(w, n), "records are left", "node %u: %zu, not %zu", i, stats.records,
              roots_of(w, n));
        size_t value_bytes = tf_router_refs(n->router)->value_bytes;
        CHECK(w, w->cuts > 0 || value_bytes == n->value_bytes, "values are left", "node %u: %zu, not %zu", i,
              value_bytes, n->value_bytes);
    }
}
