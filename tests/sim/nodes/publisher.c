#include "tests/sim/nodes/publisher.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/sim/nodes/world.h"

tf_slice publisher_body(const struct view *v, unsigned number)
{
    static uint8_t body[PUBLISHER_BODY_MAX];
    static const char filling[] = "twofold and once. ";
    int len = snprintf((char *)body, sizeof(body), "v%zu:%u;", (size_t)(v - v->w->views), number);
    size_t used = len > 0 ? (size_t)len : 0;
    size_t whole = v->pub.sends[number].len > used ? v->pub.sends[number].len : used;
    for (size_t i = used; i < whole; i++) {
        body[i] = (uint8_t)filling[i % (sizeof(filling) - 1)];
    }
    return tf_slice_of(body, whole);
}

size_t publisher_client_id(const struct view *v, unsigned number, char out[TF_CLIENT_ID_MAX])
{
    int len = snprintf(out, TF_CLIENT_ID_MAX, "%s-%u-%u", v->member->name, v->channel, number);
    return len > 0 ? (size_t)len : 0;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

void publisher_make(struct view *v, unsigned count, uint32_t len, int64_t expires_in_ms)
{
    publisher *p = &v->pub;
    for (; count > 0 && p->made < PUBLISHER_SENDS_MAX && v->ledger->made < LEDGER_MAX; count--) {
        p->made++;
        v->ledger->made++;
        int64_t expires_ms = expires_in_ms == 0 ? 0 : cluster_wall_ms(v->w->cluster, v->member->node) + expires_in_ms;
        p->sends[p->made] = (sent){.len = len, .expires_ms = expires_ms};
    }
    publisher_flush(v);
}

/* False: no room. */
static bool hand_out(view *v, unsigned number)
{
    char id[TF_CLIENT_ID_MAX];
    sent *s = &v->pub.sends[number];
    tf_time now = world_now(v->w);
    tf_send send = {.body = publisher_body(v, number), .expires_ms = s->expires_ms, .cookie = number};
    if (v->w->plan.own_ids) {
        send.client_id = tf_slice_of(id, publisher_client_id(v, number, id));
        send.was_sent = s->was_handed;
        send.sent_ago = s->was_handed ? now - s->handed_at : 0;
    }
    tf_err err = tf_client_send(world_client_of(v), now, v->handle, &send);
    world_say(v->w, "%s %s: %u is handed out: %s", v->member->name, v->ledger->name, number, tf_err_text(err));
    if (err == TF_ERR_AGAIN) {
        return false;
    }
    bool is_refused = v->refused || (err == TF_ERR_CLOSED && v->ledger->relay->forbade); /* as an event will tell */
    if (err != TF_OK && !is_refused) {
        world_fail(v->w, "a send was not taken", "%s %s %u: %s", v->member->name, v->ledger->name, number,
                   tf_err_text(err));
    }
    if (err != TF_OK) { /* the channel is refused: in the next process */
        return false;
    }
    s->handed_at = s->was_handed ? s->handed_at : now;
    s->was_handed = true;
    return true;
}

void publisher_flush(struct view *v)
{
    publisher *p = &v->pub;
    if (world_client_of(v) == NULL || v->refused) {
        return;
    }
    while (p->handed < p->made) {
        sent *s = &p->sends[p->handed + 1];
        if (s->state == SENT_WAITING && !hand_out(v, p->handed + 1)) {
            return;
        }
        p->handed++;
    }
}

void publisher_start(struct view *v)
{
    v->pub.handed = 0;
    v->pub.last_acked = 0;
    publisher_flush(v);
}

void publisher_end(struct view *v)
{
    publisher *p = &v->pub;
    for (unsigned i = 1; i <= p->handed && !v->w->plan.own_ids; i++) {
        sent *s = &p->sends[i];
        s->state = s->state == SENT_WAITING ? SENT_UNKNOWN : s->state;
    }
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

static sent *answered(view *v, const tf_client_event *event)
{
    publisher *p = &v->pub;
    if (event->cookie == 0 || event->cookie > p->handed || p->sends[event->cookie].state != SENT_WAITING) {
        world_fail(v->w, "an answer to nothing", "%s %s %" PRIu64, v->member->name, v->ledger->name, event->cookie);
    }
    return &p->sends[event->cookie];
}

/* What the relay has under that seq is what was acked, word for word. */
static void check_stored(view *v, const tf_client_event *event)
{
    uint8_t id[TF_ACTIVITY_ID_MAX];
    tf_stored stored;
    if (!ledger_peek(v->ledger, event->seq, &stored)) {
        return; /* its relay is down, or it was trimmed: looked at when it starts */
    }
    if (!tf_slice_eq(tf_slice_of(id, tf_stored_id(stored.epoch, stored.seq, id)), event->id)) {
        world_fail(v->w, "another id (P1)", "%s %s %" PRIu64, v->member->name, v->ledger->name, event->cookie);
    }
    if (stored.timestamp_ms != event->timestamp_ms) {
        world_fail(v->w, "another timestamp (P1)", "%s %s %" PRIu64, v->member->name, v->ledger->name, event->cookie);
    }
    (void)ledger_find(v->ledger, event->seq, &stored.origin, stored.client_id, stored.body);
}

void publisher_acked(struct view *v, const tf_client_event *event)
{
    world *w = v->w;
    publisher *p = &v->pub;
    sent *s = answered(v, event);
    unsigned number = (unsigned)event->cookie;
    if (number < p->last_acked) {
        world_fail(w, "an ack out of turn", "%s %s %u behind %u", v->member->name, v->ledger->name, number,
                   p->last_acked);
    }
    if (!event->duplicate || !v->ledger->relay->forbade) { /* else those before it may have been refused (ledger.c) */
        p->last_acked = number;
    }
    ledger_tell(v->ledger, v, number, event->seq, 0);
    check_stored(v, event);
    s->state = SENT_ACKED;
    w->acks++;
    world_say(w, "%s %s: %u is acked as %" PRIu64 "%s", v->member->name, v->ledger->name, number, event->seq,
              event->duplicate ? ", a duplicate" : "");
    world_check_late(w, v, s->handed_at, world_way(v, 0) + world_way(v, 1));
}

/* May a send to that channel be refused for good like that? */
static bool may_refuse(const view *v, tf_slice code)
{
    return (v->ledger->close_asked && tf_slice_eq(code, tf_refusal_code(TF_REFUSAL_CHANNEL_CLOSED))) ||
           (v->ledger->relay->forbade && (tf_slice_eq(code, tf_refusal_code(TF_REFUSAL_FORBIDDEN)) ||
                                          tf_slice_eq(code, tf_refusal_code(TF_REFUSAL_CHANNEL_NOT_FOUND))));
}

void publisher_refused(struct view *v, const tf_client_event *event)
{
    sent *s = answered(v, event);
    world_say(v->w, "%s %s: %u is refused: %.*s", v->member->name, v->ledger->name, (unsigned)event->cookie,
              (int)event->code.len, (const char *)event->code.data);
    if (event->retryable || !may_refuse(v, event->code)) {
        world_fail(v->w, "refused for nothing", "%s %s %" PRIu64 ": %.*s", v->member->name, v->ledger->name,
                   event->cookie, (int)event->code.len, (const char *)event->code.data);
    }
    bool closed = tf_slice_eq(event->code, tf_refusal_code(TF_REFUSAL_CHANNEL_CLOSED));
    if (closed && s->seq != 0) {
        world_fail(v->w, "refused and stored", "%s %s %" PRIu64, v->member->name, v->ledger->name, event->cookie);
    }
    s->state = closed ? SENT_REFUSED : SENT_UNKNOWN; /* what is forbidden was perhaps taken before it was */
}

bool publisher_is_done(const struct view *v)
{
    for (unsigned i = 1; i <= v->pub.made; i++) {
        if (v->pub.sends[i].state == SENT_WAITING) {
            return false;
        }
    }
    return true;
}
