#include "tests/sim/nodes/subscriber.h"

#include <inttypes.h>
#include <stdio.h>

#include "tests/sim/nodes/world.h"

static void fail(const view *v, const char *what, const tf_client_event *event)
{
    const subscriber *s = &v->sub;
    world_fail(v->w, what,
               "%s %s: next is %" PRIu64 "; came seq %" PRIu64 ", next %" PRIu64 ", gap %" PRIu64 " to %" PRIu64
               " for %.*s",
               v->member->name, v->ledger->name, s->next, event->seq, event->next, event->expected, event->got,
               (int)event->code.len, (const char *)event->code.data);
}

static void require(const view *v, bool condition, const char *what, const tf_client_event *event)
{
    if (!condition) {
        fail(v, what, event);
    }
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

void subscriber_join(struct view *v)
{
    char name[TF_CURSOR_NAME_MAX];
    subscriber *s = &v->sub;
    if (world_client_of(v) == NULL || !s->wanted || s->asked || v->refused) {
        return;
    }
    tf_subscribe subscribe = {.from = s->from, .echo = s->echo};
    if (s->has_next && !s->durable) {
        subscribe.from = (tf_from){TF_FROM_SEQ, s->next};
    }
    if (s->durable) {
        int len = snprintf(name, sizeof(name), "d-%u", v->channel);
        subscribe.durable = tf_slice_of(name, len > 0 ? (size_t)len : 0);
    }
    tf_err err = tf_client_subscribe(world_client_of(v), world_now(v->w), v->handle, &subscribe);
    if (err == TF_ERR_USAGE && s->left) {
        return; /* the one before has not ended yet: later */
    }
    if (err != TF_OK) {
        world_fail(v->w, "a subscription was not taken", "%s %s: %s", v->member->name, v->ledger->name,
                   tf_err_text(err));
    }
    s->known = s->durable && s->was_asked ? s->known : v->ledger->known; /* its cursor is of the first time, perhaps */
    s->was_asked = true;
    s->told = false;
    s->ended = false;
    s->asked = true;
}

void subscriber_leave(struct view *v)
{
    if (world_client_of(v) != NULL && v->sub.asked) {
        tf_client_unsubscribe(world_client_of(v), world_now(v->w), v->handle);
    }
    v->sub.asked = false;
    v->sub.left = true;
}

void subscriber_start(struct view *v)
{
    v->sub.asked = false;
    v->sub.told = false;
    v->sub.left = false;
    subscriber_join(v);
}

void subscriber_end(struct view *v)
{
    v->sub.asked = false;
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

/* Where a subscription begins: the first answer in a process, or since it was asked for again. */
static void begin(view *v, const tf_client_event *event)
{
    subscriber *s = &v->sub;
    if (s->durable && s->has_next) {
        require(v, event->next >= s->confirmed && event->next <= s->confirming, "a cursor is elsewhere (P2)", event);
        s->next = event->next;
    } else if (s->has_next) {
        require(v, event->next >= s->next, "a subscription that goes back (P2)", event);
    } else if (s->from.kind == TF_FROM_NEW || event->resumed) { /* the cursor of a process that never heard of it */
        require(v, event->next > s->known || event->resumed, "new is not new", event);
        require(v, event->next <= event->head + 1, "new is not new", event);
        s->next = event->next;
    } else {
        require(v, event->next == event->first && event->first <= v->ledger->first, "first is not the first", event);
        s->next = event->next;
    }
    if (!s->has_next) {
        s->confirmed = s->next;
        s->confirming = s->next;
    }
    s->told = true;
    s->has_next = true;
}

void subscriber_told(struct view *v, const tf_client_event *event)
{
    ledger *l = v->ledger;
    world_say(v->w, "%s %s: subscribed, next %" PRIu64 ", head %" PRIu64, v->member->name, l->name, event->next,
              event->head);
    require(v, l->epoch == 0 || l->epoch == event->epoch, "another epoch", event);
    l->epoch_known = l->epoch_known || l->epoch != 0;
    require(v, v->sub.asked, "an answer to nothing", event);
    if (!v->sub.told) {
        begin(v, event);
    } else {
        require(v, event->next >= v->sub.next, "a subscription that goes back (P2)", event);
    }
}

/* All from `next` up to `seq` may be left out, since it is this node's own (S8). */
static bool may_skip(const view *v, uint64_t seq)
{
    for (uint64_t i = v->sub.next; i < seq; i++) {
        if (v->sub.echo || !ledger_is_own(v->ledger, i, v)) {
            return false;
        }
    }
    return seq >= v->sub.next;
}

static void confirm(view *v, uint64_t seq)
{
    subscriber *s = &v->sub;
    if (!s->durable || s->confirms == 0 || seq % s->confirms != 0) {
        return;
    }
    s->confirming = seq + 1 > s->confirming ? seq + 1 : s->confirming;
    tf_err err = tf_client_confirm(world_client_of(v), world_now(v->w), v->handle, seq);
    if (err != TF_OK && err != TF_ERR_USAGE) { /* USAGE: the event that it has ended comes next */
        world_fail(v->w, "a confirm was not taken", "%s %s %" PRIu64 ": %s", v->member->name, v->ledger->name, seq,
                   tf_err_text(err));
    }
}

void subscriber_came(struct view *v, const tf_client_event *event)
{
    subscriber *s = &v->sub;
    require(v, s->has_next && (s->told || !s->asked), "an activity before the answer", event);
    require(v, event->seq >= s->next, "a repeat (P2)", event);
    require(v, may_skip(v, event->seq), "a gap (P2)", event);
    entry e = ledger_find(v->ledger, event->seq, &event->sender, event->client_id, event->body);
    ledger_tell(v->ledger, e.by, e.number, event->seq, event->epoch);
    world_check_late(v->w, v, e.by->pub.sends[e.number].handed_at, world_way(e.by, 0) + world_way(v, 1));
    s->next = event->seq + 1;
    v->w->deliveries++;
    world_say(v->w, "%s %s: got %" PRIu64 ", %u of %s", v->member->name, v->ledger->name, event->seq, e.number,
              e.by->member->name);
    confirm(v, event->seq);
}

/* Is it true what is said of why these do not come? */
static bool is_true(const view *v, const tf_client_event *event)
{
    if (tf_slice_eq(event->code, tf_slice_str("trimmed"))) {
        return event->got <= v->ledger->first;
    }
    if (!tf_slice_eq(event->code, tf_slice_str("expired"))) {
        return false;
    }
    for (uint64_t seq = event->expected; seq < event->got; seq++) {
        if (!ledger_may_expire(v->ledger, seq) && seq >= v->ledger->first) {
            return false;
        }
    }
    return true;
}

void subscriber_gap(struct view *v, const tf_client_event *event)
{
    require(v, v->sub.has_next && (v->sub.told || !v->sub.asked), "a gap before the answer", event);
    require(v, may_skip(v, event->expected) && event->got > event->expected && !event->epoch_changed,
            "a gap elsewhere (P2)", event);
    require(v, is_true(v, event), "a gap for nothing (P2)", event);
    world_say(v->w, "%s %s: %" PRIu64 " to %" PRIu64 " do not come: %.*s", v->member->name, v->ledger->name,
              event->expected, event->got, (int)event->code.len, (const char *)event->code.data);
    v->sub.next = event->got;
}

void subscriber_ended(struct view *v, const tf_client_event *event)
{
    bool taken = tf_slice_eq(event->code, tf_slice_str("taken_over")) && v->member->node->starts > 1;
    bool forbidden = tf_slice_eq(event->code, tf_slice_str("forbidden")) && v->ledger->relay->forbade;
    require(v, (taken && v->sub.durable) || forbidden, "ended for nothing", event);
    world_say(v->w, "%s %s: ended: %.*s", v->member->name, v->ledger->name, (int)event->code.len,
              (const char *)event->code.data);
    v->sub.ended = true;
}

void subscriber_confirmed(struct view *v, const tf_client_event *event)
{
    subscriber *s = &v->sub;
    require(v, s->durable && event->seq + 1 <= s->confirming, "confirmed what was not asked", event);
    s->confirmed = event->seq + 1 > s->confirmed ? event->seq + 1 : s->confirmed;
}

bool subscriber_is_done(const struct view *v)
{
    const subscriber *s = &v->sub;
    return !s->wanted || (s->asked && s->told && !s->ended && may_skip(v, v->ledger->head + 1));
}
