#include "tests/sim/refs/world.h"

#include <stdarg.h>
#include <stdlib.h>

#define MARK 0x7e /* nothing that a node says by itself begins with it */
#define HEAD_LEN 6u

/* -- what there is ------------------------------------------------------------------------------------------------- */

number observer_new_thing(world *w, tf_ref_kind kind, unsigned home, tf_local local)
{
    w->things = world_grow(w->things, &w->thing_capacity, w->thing_count + 1, sizeof(*w->things));
    w->things[w->thing_count] = (thing){.kind = kind, .home = home, .local = local};
    return (number)w->thing_count++;
}

number observer_new_message(world *w, const said_message *m)
{
    w->messages = world_grow(w->messages, &w->message_capacity, w->message_count + 1, sizeof(*w->messages));
    w->messages[w->message_count] = *m;
    return (number)w->message_count++;
}

number observer_new_outcome(world *w, const outcome *o)
{
    w->outcomes = world_grow(w->outcomes, &w->outcome_capacity, w->outcome_count + 1, sizeof(*w->outcomes));
    w->outcomes[w->outcome_count] = *o;
    return (number)w->outcome_count++;
}

note *observer_note(world *w, node *n, tf_local local)
{
    CHECK(w, local != TF_LOCAL_NONE && local < UINT32_MAX, "no local id", "node %u", n->index);
    n->notes = world_grow(n->notes, &n->note_capacity, (size_t)local + 1, sizeof(*n->notes));
    return &n->notes[local];
}

void observer_meet(world *w, node *n, tf_local local, number known_as)
{
    note *known = observer_note(w, n, local);
    CHECK(w, known->thing == 0 || known->thing == known_as, "something arrives as something else",
          "node %u: local %llu was %u, is %u", n->index, (unsigned long long)local, known->thing, known_as);
    known->thing = known_as;
    const thing *t = &w->things[known_as];
    CHECK(w, t->kind == TF_REF_PROMISE || t->home != n->index || t->local == local || t->hard != 0 || w->has_aliases,
          "an object comes home as another", "node %u: %u is local %llu, not %llu", n->index, known_as,
          (unsigned long long)t->local, (unsigned long long)local);
}

/* -- bodies -------------------------------------------------------------------------------------------------------- */

#define PAD_SHORT 58u

static size_t pad_of(const world *w, number n)
{
    switch (w->plan.pad) {
    case 0:
        return 0;
    case 1:
        return n % PAD_SHORT;
    default:
        return n * 37 % (BODY_MAX - HEAD_LEN);
    }
}

static tf_slice write_body(const world *w, char type, number n, uint8_t buffer[BODY_MAX])
{
    size_t len = HEAD_LEN + pad_of(w, n);
    memset(buffer, 0, len);
    buffer[0] = MARK;
    buffer[1] = (uint8_t)type;
    for (unsigned i = 0; i < 4; i++) {
        buffer[2 + i] = (uint8_t)(n >> (8 * i));
    }
    return tf_slice_of(buffer, len);
}

tf_slice observer_message_body(world *w, number m, uint8_t buffer[BODY_MAX])
{
    return write_body(w, 'm', m, buffer);
}

tf_slice observer_outcome_body(world *w, number o, uint8_t buffer[BODY_MAX])
{
    return write_body(w, 'o', o, buffer);
}

/* 0: not one of ours. */
static number read_body(const world *w, char type, tf_slice bytes)
{
    if (bytes.len < HEAD_LEN || bytes.data[0] != MARK || bytes.data[1] != (uint8_t)type) {
        return 0;
    }
    number n = 0;
    for (unsigned i = 0; i < 4; i++) {
        n |= (number)bytes.data[2 + i] << (8 * i);
    }
    uint8_t buffer[BODY_MAX];
    CHECK(w, tf_slice_eq(bytes, write_body(w, type, n, buffer)), "other bytes than were sent", "%c%u", type, n);
    return n;
}

/* -- what arrives -------------------------------------------------------------------------------------------------- */

static void check_mentions(world *w, node *n, const tf_router_event *event, const number *refs, size_t count)
{
    CHECK(w, event->ref_count == count, "other mentions than were sent", "node %u: %zu, not %zu", n->index,
          event->ref_count, count);
    for (size_t i = 0; i < count; i++) {
        CHECK(w, event->refs[i].kind == w->things[refs[i]].kind, "a mention of another kind", "node %u", n->index);
        observer_meet(w, n, event->refs[i].local, refs[i]);
    }
}

/* Where messages to a thing go: 0 when they go nowhere (now). */
static number destination(const world *w, number target)
{
    const thing *t = &w->things[target];
    if (t->kind == TF_REF_OBJECT) {
        return target;
    }
    return w->outcomes[t->outcome].object; /* outcome 0 has none */
}

/* P6 */
static void check_order(world *w, const said_message *m, number at)
{
    note *via = observer_note(w, &w->nodes[m->from], m->via);
    CHECK(w, m->stamp > via->got, "out of order", "m%u, the %u. of node %u to its local %llu (%u), after its %u.", at,
          m->stamp, m->from, (unsigned long long)m->via, m->target, via->got);
    via->got = m->stamp;
}

number observer_delivered(world *w, node *n, const tf_router_event *event)
{
    number at = read_body(w, 'm', event->args);
    CHECK(w, at != 0 && at < w->message_count, "a message that nobody sent", "node %u", n->index);
    said_message *m = &w->messages[at];
    number target = observer_note(w, n, event->local)->thing;
    CHECK(w,
          target != 0 && w->things[target].kind == TF_REF_OBJECT && w->things[target].home == n->index &&
              w->things[target].local == event->local,
          "a message for what is not an object of the application", "node %u: m%u", n->index, at);
    CHECK(w, destination(w, m->target) == target, "a message for something else", "node %u: m%u to %u arrives at %u",
          n->index, at, m->target, target);
    const thing *t = &w->things[target];
    CHECK(w, t->known, "a message for what nobody refers to", "node %u: m%u at %u", n->index, at, target);
    CHECK(w, t->soft == 0 && t->hard == 0, "a message for something revoked", "node %u: m%u at %u", n->index, at,
          target);
    CHECK(w, !m->delivered, "a message arrives twice", "node %u: m%u", n->index, at);
    CHECK(w, !m->rejected, "a message arrives that was answered already", "node %u: m%u", n->index, at);
    CHECK(w, (event->result != TF_LOCAL_NONE) == (m->result != 0), "a result that is not wanted, or not there",
          "node %u: m%u", n->index, at);
    check_order(w, m, at);
    m->delivered = true;
    if (m->result != 0) {
        observer_meet(w, n, event->result, m->result);
    }
    check_mentions(w, n, event, m->refs, m->ref_count);
    return at;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

static bool is_code(tf_slice data, tf_code code)
{
    return tf_slice_eq(data, tf_code_rejection(code));
}

/* Whether a message that arrived nowhere may be rejected with `given` (an outcome; 0: cannot_send_to_data). A message
 * to the result of one that was rejected shares its fate. */
static bool is_fate(const world *w, number at, number given)
{
    for (;;) {
        number target = w->messages[at].target;
        const thing *t = &w->things[target];
        if (t->kind == TF_REF_PROMISE && t->outcome == 0) {
            if (t->asked == 0 || w->messages[t->asked].delivered) {
                return false; /* it is not resolved */
            }
            at = t->asked;
            continue;
        }
        const outcome *o = &w->outcomes[t->outcome];
        if (t->kind == TF_REF_PROMISE && o->kind == TF_RESOLUTION_DATA) {
            return given == 0;
        }
        if (t->kind == TF_REF_PROMISE && o->kind == TF_RESOLUTION_REJECTION) {
            return given == t->outcome;
        }
        const thing *object = &w->things[destination(w, target)];
        return given != 0 && (given == object->soft || given == object->hard);
    }
}

/* The answer that a node gave to a message in place of the application. */
static void check_rejected(world *w, node *n, const tf_router_event *event, number asked)
{
    number given = read_body(w, 'o', event->data);
    CHECK(w, asked != 0, "a promise of an application has another outcome", "node %u", n->index);
    said_message *m = &w->messages[asked];
    CHECK(w, given != 0 || is_code(event->data, TF_CODE_CANNOT_SEND_TO_DATA), "a rejection that is not allowed here",
          "node %u: m%u: %zu bytes", n->index, asked, event->data.len);
    CHECK(w, !m->delivered, "a message that arrived is rejected", "node %u: m%u", n->index, asked);
    CHECK(w, is_fate(w, asked, given), "a rejection of something else", "node %u: m%u with o%u", n->index, asked,
          given);
    m->rejected = true;
    if (given != 0) {
        check_mentions(w, n, event, w->outcomes[given].refs, w->outcomes[given].ref_count);
    }
}

/* What any promise and object may come to where connections are lost, limits are low, or what goes round a ring would
 * go round for ever. */
static bool is_excuse(const world *w, const tf_router_event *event)
{
    if (event->kind != TF_RESOLUTION_REJECTION) {
        return false;
    }
    bool starved = w->heap.failures > 0; /* a session is about to fail, or what is told is not all */
    return ((w->cuts > 0 || starved) && is_code(event->data, TF_CODE_DISCONNECTED)) ||
           (starved && (is_code(event->data, TF_CODE_OVERLOADED) || is_code(event->data, TF_CODE_REVOKED))) ||
           (w->has_cycles && (is_code(event->data, TF_CODE_TOO_FAR) || is_code(event->data, TF_CODE_REVOKED))) ||
           (w->is_lean && (is_code(event->data, TF_CODE_MESSAGE_TOO_LARGE) || is_code(event->data, TF_CODE_REVOKED)));
}

/* D15: what has not arrived does not arrive any more. (An answer may become this, too, where it cannot be told.) */
static bool is_overload(world *w, const tf_router_event *event, number promise)
{
    const thing *t = &w->things[promise];
    if (!w->is_lean || event->kind != TF_RESOLUTION_REJECTION || !is_code(event->data, TF_CODE_OVERLOADED)) {
        return false;
    }
    if (t->asked != 0) {
        said_message *m = &w->messages[t->asked];
        m->rejected = !m->delivered;
    }
    return true;
}

void observer_resolved(world *w, node *n, const tf_router_event *event)
{
    number promise = observer_note(w, n, event->local)->thing;
    CHECK(w, promise != 0 && w->things[promise].kind == TF_REF_PROMISE, "something unknown is resolved",
          "node %u: local %llu", n->index, (unsigned long long)event->local);
    if (is_excuse(w, event) || is_overload(w, event, promise)) {
        return;
    }
    const thing *t = &w->things[promise];
    if (t->outcome == 0) {
        CHECK(w, event->kind == TF_RESOLUTION_REJECTION, "an answer that nobody gave", "node %u: %u", n->index,
              promise);
        check_rejected(w, n, event, t->asked);
        return;
    }
    const outcome *o = &w->outcomes[t->outcome];
    CHECK(w, event->kind == o->kind, "an answer of another kind", "node %u: %u, %d, not %d", n->index, promise,
          event->kind, o->kind);
    if (o->kind == TF_RESOLUTION_OBJECT) {
        observer_meet(w, n, event->object.local, o->object);
        return;
    }
    CHECK(w, read_body(w, 'o', event->data) == t->outcome, "another answer than was given", "node %u: %u: o%u, not o%u",
          n->index, promise, read_body(w, 'o', event->data), t->outcome);
    check_mentions(w, n, event, o->refs, o->ref_count);
}

void observer_revoked(world *w, node *n, const tf_router_event *event)
{
    number object = observer_note(w, n, event->local)->thing;
    CHECK(w, object != 0 && w->things[object].kind == TF_REF_OBJECT, "something unknown is revoked",
          "node %u: local %llu", n->index, (unsigned long long)event->local);
    if (is_excuse(w, event)) {
        return;
    }
    const thing *t = &w->things[object];
    number given = read_body(w, 'o', event->data);
    CHECK(w, given != 0 && (given == t->soft || given == t->hard), "an object is revoked that was not, or otherwise",
          "node %u: %u with o%u, not o%u or o%u", n->index, object, given, t->soft, t->hard);
    CHECK(w, !event->hard || t->hard != 0, "revoked hard, but was not", "node %u: %u", n->index, object);
    check_mentions(w, n, event, w->outcomes[given].refs, w->outcomes[given].ref_count);
}

void observer_dropped(world *w, node *n, const tf_router_event *event)
{
    const conn_end *e = tf_router_owner(event->session);
    uint64_t cursor = 0;
    tf_session_entry entry;
    while (tf_session_next_entry(event->session, &cursor, &entry)) {
        CHECK(w, entry.local != event->local || !entry.is_export || entry.is_retired,
              "told that an export is gone that is not", "node %u: local %llu, ref %llu", n->index,
              (unsigned long long)event->local, (unsigned long long)entry.ref);
    }
    observer_note(w, n, event->local)->exported &= ~(1u << (e->conn - w->conns));
}

/* -- when nothing moves -------------------------------------------------------------------------------------------- */

/* A message that arrived nowhere: whether there is a reason. */
static bool is_excused(const world *w, number at)
{
    const said_message *m = &w->messages[at];
    const thing *t = &w->things[m->target];
    if (m->rejected || w->is_lean) {
        return true;
    }
    if (t->kind == TF_REF_PROMISE && t->outcome == 0) {
        return t->asked != 0 && !w->messages[t->asked].delivered; /* the same is asked of that one */
    }
    number object = destination(w, m->target);
    return object == 0 || w->things[object].soft != 0 || w->things[object].hard != 0;
}

void observer_check_arrived(world *w)
{
    for (number i = 1; i < w->message_count && w->cuts == 0; i++) {
        CHECK(w, w->messages[i].delivered || is_excused(w, i), "a message is lost", "m%u of node %u to %u", i,
              w->messages[i].from, w->messages[i].target);
    }
}
