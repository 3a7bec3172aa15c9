#include "tests/sim/nodes/ledger.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/nodes/world.h"

void ledger_init(ledger *l, struct world *w, struct relay *r, unsigned index)
{
    memset(l, 0, offsetof(ledger, entries) + sizeof(l->entries[0]) * (l->made + 1)); /* no more were in use */
    l->w = w;
    l->relay = r;
    l->first = 1;
    (void)snprintf(l->name, sizeof(l->name), "ch/%u", index);
}

static tf_slice name_of(const ledger *l)
{
    return tf_slice_str(l->name);
}

bool ledger_peek(ledger *l, uint64_t seq, tf_stored *out)
{
    return disk_is_open(l->relay->disk) && disk_peek(l->relay->disk, name_of(l), seq, out);
}

bool ledger_is_own(const ledger *l, uint64_t seq, const struct view *v)
{
    const entry *e = &l->entries[seq <= LEDGER_MAX ? seq : 0];
    return e->by != NULL && e->by->member == v->member &&
           (e->instance == 0 || e->instance == v->member->node->side.instance);
}

bool ledger_may_expire(const ledger *l, uint64_t seq)
{
    const entry *e = &l->entries[seq];
    int64_t expires_ms = e->by == NULL ? 0 : e->by->pub.sends[e->number].expires_ms;
    return expires_ms != 0 && expires_ms <= l->relay->latest_ms;
}

/* -- which send is it? --------------------------------------------------------------------------------------------- */

/* The view and number that a body names; NULL: none. */
static view *parse(world *w, tf_slice body, unsigned *number)
{
    char text[40] = {0};
    unsigned view_index = 0;
    memcpy(text, body.data, body.len < sizeof(text) ? body.len : sizeof(text) - 1);
    if (sscanf(text, "v%u:%u;", &view_index, number) != 2) { /* NOLINT(cert-err34-c): compared whole afterwards */
        return NULL;
    }
    if (view_index >= w->view_count || *number == 0 || *number > w->views[view_index].pub.made) {
        return NULL;
    }
    return &w->views[view_index];
}

entry ledger_find(ledger *l, uint64_t seq, const tf_node_id *origin, tf_slice client_id, tf_slice body)
{
    char id[TF_CLIENT_ID_MAX];
    unsigned number = 0;
    view *v = parse(l->w, body, &number);
    if (v == NULL || v->ledger != l) {
        world_fail(l->w, "invented (P1)", "%s %s seq %" PRIu64 ": nobody sent that", l->relay->name, l->name, seq);
    }
    tf_slice made = publisher_body(v, number);
    if (!tf_slice_eq(made, body)) {
        world_fail(l->w, "another body (P1)", "%s %s seq %" PRIu64 ": %zu bytes for %zu", l->relay->name, l->name, seq,
                   body.len, made.len);
    }
    if (!tf_node_id_eq(origin, &v->member->node->side.id)) {
        world_fail(l->w, "another sender (P1)", "%s %s seq %" PRIu64, l->relay->name, l->name, seq);
    }
    size_t len = publisher_client_id(v, number, id);
    if (l->w->plan.own_ids && !tf_slice_eq(client_id, tf_slice_of(id, len))) {
        world_fail(l->w, "another client id (P1)", "%s %s seq %" PRIu64, l->relay->name, l->name, seq);
    }
    return (entry){.by = v, .number = number};
}

/* That send is the message of that seq, as the store or a client says. */
static void note(ledger *l, uint64_t seq, entry found)
{
    if (seq == 0 || seq > LEDGER_MAX) {
        world_fail(l->w, "invented (P1)", "%s %s seq %" PRIu64 ": more than were sent", l->relay->name, l->name, seq);
    }
    sent *s = &found.by->pub.sends[found.number];
    entry *e = &l->entries[seq];
    if (e->by != NULL && (e->by != found.by || e->number != found.number)) {
        world_fail(l->w, "another message under a seq (P1)", "%s %s seq %" PRIu64 ": %s %u was there, now %s %u",
                   l->relay->name, l->name, seq, e->by->member->name, e->number, found.by->member->name, found.number);
    }
    if (s->seq != 0 && s->seq != seq) {
        world_fail(l->w, "stored twice (P1)", "%s %s: %s %u is seq %" PRIu64 " and %" PRIu64, l->relay->name, l->name,
                   found.by->member->name, found.number, s->seq, seq);
    }
    if (s->state == SENT_REFUSED) {
        world_fail(l->w, "refused and stored", "%s %s seq %" PRIu64 ": %s %u", l->relay->name, l->name, seq,
                   found.by->member->name, found.number);
    }
    s->seq = seq;
    found.instance = found.instance == 0 ? e->instance : found.instance;
    *e = found;
}

/* -- what the store has -------------------------------------------------------------------------------------------- */

static void check_first(ledger *l, const tf_store_channel *found)
{
    uint64_t kept = l->relay->keep_least;
    uint64_t may = kept > 0 && found->head > kept ? found->head + 1 - kept : 1;
    may = may > l->trim_asked ? may : l->trim_asked;
    if (found->first > 1 && found->first > may) {
        world_fail(l->w, "trimmed too much (P1)", "%s %s: first is %" PRIu64 ", may be %" PRIu64, l->relay->name,
                   l->name, found->first, may);
    }
    l->first = found->first > l->first ? found->first : l->first;
}

static void check_epoch(ledger *l, uint64_t epoch)
{
    if (l->epoch_known && l->epoch != epoch) {
        world_fail(l->w, "another epoch", "%s %s: nothing was lost", l->relay->name, l->name);
    }
    l->epoch = epoch;
}

/* What is above `head` is gone: nobody may have known of it. */
static void cut_down(ledger *l, uint64_t head)
{
    if (l->known > head) {
        world_fail(l->w, "lost (P1)", "%s %s: seq %" PRIu64 " was told, the store ends at %" PRIu64, l->relay->name,
                   l->name, l->known, head);
    }
    for (uint64_t seq = head + 1; seq <= l->head && seq <= LEDGER_MAX; seq++) {
        entry *e = &l->entries[seq];
        if (e->by != NULL) {
            e->by->pub.sends[e->number].seq = 0;
            e->by->pub.last_stored = 0;
        }
        *e = (entry){0};
    }
    l->seen = l->seen < head ? l->seen : head;
}

/* Compares one message. False: not now. */
static bool look_at(ledger *l, uint64_t seq)
{
    tf_stored stored;
    if (!ledger_peek(l, seq, &stored)) {
        return false;
    }
    entry found = ledger_find(l, seq, &stored.origin, stored.client_id, stored.body);
    if (stored.seq != seq || stored.epoch != l->epoch) {
        world_fail(l->w, "another seq (P1)", "%s %s seq %" PRIu64, l->relay->name, l->name, seq);
    }
    found.instance = stored.instance;
    note(l, seq, found);
    return true;
}

/* It may have been refused for good by a process that ended before it heard so; the next one has sent it again. What is
 * rejected leaves the order of the rest. */
static bool may_be_sent_anew(const ledger *l, const entry *e, uint64_t last)
{
    return l->relay->forbade && (last > LEDGER_MAX || l->entries[last].instance != e->instance);
}

/* The sends of one view are stored in their order (P6). */
static void check_order(ledger *l, uint64_t seq)
{
    const entry *e = &l->entries[seq];
    if (e->by == NULL) {
        return;
    }
    publisher *p = &e->by->pub;
    uint64_t last = p->sends[p->last_stored].seq;
    if (e->number < p->last_stored && last < seq && !may_be_sent_anew(l, e, last)) {
        world_fail(l->w, "stored out of order (P6)", "%s %s seq %" PRIu64 ": %s %u behind %u", l->relay->name, l->name,
                   seq, e->by->member->name, e->number, p->last_stored);
    }
    p->last_stored = e->number > p->last_stored ? e->number : p->last_stored;
}

void ledger_look(ledger *l)
{
    tf_store_channel found;
    if (!disk_is_open(l->relay->disk)) {
        return;
    }
    if (!disk_peek_channel(l->relay->disk, name_of(l), &found)) {
        if (l->epoch_known) {
            world_fail(l->w, "lost (P1)", "%s %s: the channel", l->relay->name, l->name);
        }
        return;
    }
    uint64_t head = found.head;
    uint64_t first = found.first;
    check_epoch(l, found.epoch);
    check_first(l, &found);
    if (head < l->head) {
        cut_down(l, head);
    }
    l->head = head;
    while (l->seen < head && (l->seen + 1 < first || look_at(l, l->seen + 1))) {
        l->seen++;
        check_order(l, l->seen);
    }
}

void ledger_reopen(ledger *l)
{
    l->seen = 0;
    ledger_look(l);
    if (l->known > l->head) {
        world_fail(l->w, "lost (P1)", "%s %s: seq %" PRIu64 " was told, the store ends at %" PRIu64, l->relay->name,
                   l->name, l->known, l->head);
    }
}

void ledger_tell(ledger *l, struct view *by, unsigned number, uint64_t seq, uint64_t epoch)
{
    if (l->epoch != 0 && epoch != 0 && l->epoch != epoch) {
        world_fail(l->w, "another epoch", "%s %s: nothing was lost", l->relay->name, l->name);
    }
    note(l, seq, (entry){.by = by, .number = number});
    l->known = seq > l->known ? seq : l->known;
    l->epoch_known = l->epoch_known || l->epoch != 0;
}
