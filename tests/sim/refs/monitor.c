#include "tests/sim/refs/monitor.h"

#include <stdlib.h>

static void *need_room(void *items, size_t *capacity, size_t count, size_t size)
{
    if (count < *capacity) {
        return items;
    }
    size_t more = *capacity * 2 + 16;
    uint8_t *bigger = realloc(items, more * size);
    if (bigger == NULL) {
        abort();
    }
    memset(bigger + *capacity * size, 0, (more - *capacity) * size);
    *capacity = more;
    return bigger;
}

static bool fault(monitor *m, const char *what, tf_ref ref)
{
    if (m->fault == NULL) {
        m->fault = what;
        m->fault_ref = ref;
    }
    return false;
}

/* -- the model ----------------------------------------------------------------------------------------------------- */

static monitor_ref *find(const monitor *m, tf_ref ref)
{
    const monitor_table *t = &m->tables[tf_ref_side_of(ref)][tf_ref_kind_of(ref)];
    return tf_ref_number(ref) < t->count ? &t->refs[tf_ref_number(ref)] : NULL;
}

/* Of what was judged when it was sent. */
static monitor_ref *must_find(const monitor *m, tf_ref ref)
{
    monitor_ref *r = find(m, ref);
    TF_ASSERT(r != NULL);
    return r;
}

const monitor_ref *monitor_find(const monitor *m, tf_ref ref)
{
    return find(m, ref);
}

static void list(monitor *m, tf_side side, monitor_ref *r)
{
    m->sides[side].listed += r->listed[side] ? 0 : 1;
    r->listed[side] = true;
}

static void unlist(monitor *m, tf_side side, monitor_ref *r)
{
    m->sides[side].listed -= r->listed[side] ? 1 : 0;
    r->listed[side] = false;
}

static void retire(monitor *m, tf_side side, uint64_t at, tf_ref ref)
{
    monitor_side *s = &m->sides[side];
    s->retirements = need_room(s->retirements, &s->retirement_capacity, s->retirement_count, sizeof(*s->retirements));
    s->retirements[s->retirement_count++] = (monitor_retirement){at, ref};
}

/* D4: the next number of its kind, introduced by its allocator. */
static bool introduce(monitor *m, tf_side side, tf_ref ref, tf_side owner)
{
    monitor_table *t = &m->tables[side][tf_ref_kind_of(ref)];
    if (tf_ref_side_of(ref) != side || tf_ref_number(ref) != t->count) {
        return fault(m, "a ref that was never issued", ref);
    }
    t->refs = need_room(t->refs, &t->capacity, t->count, sizeof(*t->refs));
    t->refs[t->count++] = (monitor_ref){.owner = owner, .introduced = {side == 0, side == 1}};
    list(m, side, &t->refs[t->count - 1]);
    return true;
}

void monitor_init(monitor *m)
{
    *m = (monitor){0};
    for (int i = 0; i < 2; i++) {
        tf_side side = i == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR;
        tf_ref root = tf_ref_make(0, TF_REF_OBJECT, side);
        (void)introduce(m, side, root, side);
        monitor_ref *r = must_find(m, root);
        r->introduced[1 - i] = true;
        list(m, tf_side_other(side), r);
    }
}

void monitor_free(monitor *m)
{
    for (int i = 0; i < 2; i++) {
        free(m->tables[i][0].refs);
        free(m->tables[i][1].refs);
        free(m->sides[i].retirements);
    }
    free(m->owed);
    *m = (monitor){0};
}

/* -- what is said -------------------------------------------------------------------------------------------------- */

/* The side speaks of something of its peer's: what it has processed is what its acks say. */
static bool says_import(monitor *m, tf_side side, tf_ref ref)
{
    const monitor_ref *r = find(m, ref);
    if (r == NULL || !r->introduced[side]) {
        return fault(m, "a ref that the side does not know", ref);
    }
    if (r->dropped) {
        return fault(m, "a ref that the side has dropped", ref);
    }
    if (r->retired != 0 && r->retired <= m->sides[side].says) {
        return fault(m, "a ref whose retirement the side has acked", ref);
    }
    return true;
}

static bool says_target(monitor *m, tf_side side, tf_ref ref)
{
    const monitor_ref *r = find(m, ref);
    if (r != NULL && r->owner == side) {
        return fault(m, "a message to something of its sender", ref);
    }
    if (r == NULL || !says_import(m, side, ref)) {
        return fault(m, "a message to what does not exist", ref);
    }
    if (r->heard != 0 && r->heard <= m->sides[side].says) {
        return fault(m, "a message to something revoked", ref); /* D11 */
    }
    return true;
}

static bool says_mention(monitor *m, tf_side side, tf_ref ref, uint64_t at)
{
    monitor_ref *r = find(m, ref);
    if (r == NULL) {
        if (!introduce(m, side, ref, side)) {
            return false;
        }
        r = must_find(m, ref);
    }
    if (r->owner != side) {
        return says_import(m, side, ref);
    }
    if (r->forgotten) {
        return fault(m, "a mention of a ref that was dropped by the peer", ref);
    }
    if (r->retired != 0 && r->retired != at) { /* its own message may mention it (D7) */
        return fault(m, "a mention of a ref that the side has retired", ref);
    }
    r->mentioned = at;
    if (r->revoked != 0) {
        m->owed = need_room(m->owed, &m->owed_capacity, m->owed_count, sizeof(*m->owed));
        m->owed[m->owed_count++] = ref;
    }
    return true;
}

static bool says_mentions(monitor *m, tf_side side, tf_ref_list refs, uint64_t at)
{
    tf_ref ref;
    while (tf_refs_next(&refs, &ref)) {
        if (!says_mention(m, side, ref, at)) {
            return false;
        }
    }
    return true;
}

/* D7, D12: the side ends a ref of its own. */
static bool says_retired(monitor *m, tf_side side, tf_ref ref, uint64_t at)
{
    monitor_ref *r = find(m, ref);
    if (r == NULL || !r->introduced[side] || r->owner != side) {
        return fault(m, "a retirement of what is not its own", ref);
    }
    if (r->retired != 0 || r->forgotten) {
        return fault(m, "a retirement of what is retired or forgotten", ref);
    }
    r->retired = at;
    retire(m, side, at, ref);
    return true;
}

static bool says_resolutions(monitor *m, tf_side side, tf_resolution_list resolutions, uint64_t at)
{
    tf_resolution each;
    while (tf_resolutions_next(&resolutions, &each)) {
        if (!says_retired(m, side, each.promise, at)) {
            return false;
        }
        bool ok = each.kind == TF_RESOLUTION_OBJECT ? says_mention(m, side, each.object, at)
                                                    : says_mentions(m, side, each.refs, at);
        if (!ok) {
            return false;
        }
    }
    return true;
}

static bool says_drops(monitor *m, tf_side side, tf_ref_list refs, uint64_t at)
{
    tf_ref ref;
    while (tf_refs_next(&refs, &ref)) {
        monitor_ref *r = find(m, ref);
        if (r != NULL && r->owner == side) {
            return fault(m, "a drop of what the side exports", ref);
        }
        if (r == NULL || !says_import(m, side, ref)) {
            return fault(m, "a drop of what does not exist", ref);
        }
        r->dropped = true;
        r->drop = at;
        retire(m, side, at, ref);
    }
    return true;
}

static bool says_revocation(monitor *m, tf_side side, const tf_revoked *each, uint64_t at)
{
    monitor_ref *r = find(m, each->object);
    if (each->hard && !says_retired(m, side, each->object, at)) {
        return false;
    }
    if (r == NULL || !r->introduced[side] || r->owner != side || r->forgotten || (r->retired != 0 && !each->hard)) {
        return fault(m, "a revocation of what is not its own, or gone", each->object);
    }
    r->revoked = at;
    return says_mentions(m, side, each->refs, at);
}

static bool says_revocations(monitor *m, tf_side side, tf_revocation_list revocations, uint64_t at)
{
    tf_revoked each;
    while (tf_revocations_next(&revocations, &each)) {
        if (!says_revocation(m, side, &each, at)) {
            return false;
        }
    }
    return true;
}

static bool says_deliver(monitor *m, tf_side side, const tf_message *message, uint64_t at)
{
    if (!says_target(m, side, message->target)) {
        return false;
    }
    if (message->has_result && !introduce(m, side, message->result, tf_side_other(side))) {
        return false;
    }
    return says_mentions(m, side, message->refs, at);
}

bool monitor_sent(monitor *m, tf_side side, tf_slice bytes)
{
    tf_message message;
    if (tf_message_read(bytes, &message) != TF_OK) {
        return fault(m, "a malformed message", 0);
    }
    monitor_side *s = &m->sides[side];
    if (message.has_number && message.number != s->sent) {
        return fault(m, "a wrong number", message.number);
    }
    uint64_t at = ++s->sent;
    s->says += message.ack_delta;
    if (s->says > s->received) {
        return fault(m, "an ack of what did not arrive", s->says);
    }
    switch (message.kind) {
    case TF_MESSAGE_DELIVER:
        return says_deliver(m, side, &message, at);
    case TF_MESSAGE_RESOLVE:
        return says_resolutions(m, side, message.resolutions, at);
    case TF_MESSAGE_DROP:
        return says_drops(m, side, message.refs, at);
    case TF_MESSAGE_REVOKE:
        return says_revocations(m, side, message.revocations, at);
    case TF_MESSAGE_ACK:
        return true;
    }
    TF_UNREACHABLE();
}

/* -- what is heard ------------------------------------------------------------------------------------------------- */

/* D10: what the other side's acks cover is forgotten. */
static void hears_ack(monitor *m, tf_side side)
{
    monitor_side *s = &m->sides[side];
    while (s->retirement_head < s->retirement_count && s->retirements[s->retirement_head].number <= s->said) {
        const monitor_retirement *each = &s->retirements[s->retirement_head++];
        monitor_ref *r = must_find(m, each->ref);
        if (r->owner == side ? r->retired == each->number : r->dropped && r->drop == each->number) {
            unlist(m, side, r);
        }
    }
}

static void hears_mention(monitor *m, tf_side side, tf_ref ref)
{
    monitor_ref *r = must_find(m, ref);
    if (r->owner == side) {
        return;
    }
    r->introduced[side] = true;
    r->dropped = false;
    r->heard = 0;
    list(m, side, r);
}

static void hears_mentions(monitor *m, tf_side side, tf_ref_list refs)
{
    tf_ref ref;
    while (tf_refs_next(&refs, &ref)) {
        hears_mention(m, side, ref);
    }
}

static void hears_retired(monitor *m, tf_side side, tf_ref ref)
{
    unlist(m, side, must_find(m, ref)); /* also when it was dropped: it is not mentioned again */
}

static void hears_resolutions(monitor *m, tf_side side, const tf_message *message)
{
    tf_resolution each;
    tf_resolution_list all = message->resolutions;
    while (tf_resolutions_next(&all, &each)) {
        if (each.kind == TF_RESOLUTION_OBJECT) {
            hears_mention(m, side, each.object);
        } else {
            hears_mentions(m, side, each.refs);
        }
    }
    all = message->resolutions;
    while (tf_resolutions_next(&all, &each)) {
        hears_retired(m, side, each.promise);
    }
}

static void hears_drops(monitor *m, tf_side side, tf_ref_list refs)
{
    tf_ref ref;
    while (tf_refs_next(&refs, &ref)) {
        monitor_ref *r = must_find(m, ref);
        if (r->mentioned <= m->sides[side].said) { /* D5 */
            r->forgotten = true;
            unlist(m, side, r);
        }
    }
}

static void hears_revocations(monitor *m, tf_side side, const tf_message *message, uint64_t at)
{
    tf_revoked each;
    tf_revocation_list all = message->revocations;
    while (tf_revocations_next(&all, &each)) {
        hears_mentions(m, side, each.refs);
    }
    all = message->revocations;
    while (tf_revocations_next(&all, &each)) {
        must_find(m, each.object)->heard = at;
        if (each.hard) {
            hears_retired(m, side, each.object);
        }
    }
}

bool monitor_received(monitor *m, tf_side side, tf_slice bytes)
{
    tf_message message;
    if (tf_message_read(bytes, &message) != TF_OK) {
        return fault(m, "a malformed message", 0);
    }
    uint64_t at = ++m->sides[side].received;
    m->sides[side].said += message.ack_delta;
    hears_ack(m, side);
    switch (message.kind) {
    case TF_MESSAGE_DELIVER:
        if (message.has_result) {
            monitor_ref *r = must_find(m, message.result);
            r->introduced[side] = true;
            list(m, side, r);
        }
        hears_mentions(m, side, message.refs);
        return true;
    case TF_MESSAGE_RESOLVE:
        hears_resolutions(m, side, &message);
        return true;
    case TF_MESSAGE_DROP:
        hears_drops(m, side, message.refs);
        return true;
    case TF_MESSAGE_REVOKE:
        hears_revocations(m, side, &message, at);
        return true;
    case TF_MESSAGE_ACK:
        return true;
    }
    TF_UNREACHABLE();
}

bool monitor_turn_ended(monitor *m)
{
    for (size_t i = 0; i < m->owed_count; i++) {
        const monitor_ref *r = must_find(m, m->owed[i]);
        if (r->revoked < r->mentioned && r->retired == 0 && !r->forgotten) {
            return fault(m, "a mention of a revoked object without a REVOKE behind it", m->owed[i]);
        }
    }
    m->owed_count = 0;
    return true;
}
