/* A message of the peer: judged whole, its needs reserved, then applied (D3). */
#include "proto/session_internal.h"

static tf_err reserve(tf_session *s, const tf_judgement *j)
{
    const tf_message *m = j->m;
    tf_turn *turn = &s->turn;
    tf_err err = j->additions == 0 ? TF_OK : tf_clist_reserve(&s->clist, j->additions);
    if (err == TF_OK && j->additions > 0) {
        err = tf_refs_reserve(s->node, j->additions);
    }
    if (err == TF_OK) {
        err = tf_scratch_reserve(&turn->mentions, s->mem, j->mentions);
    }
    if (err == TF_OK) {
        err = tf_scratch_reserve(&turn->events, s->mem, m->resolutions.count + m->revocations.count + 1);
    }
    if (err == TF_OK) {
        size_t drops = m->kind == TF_MESSAGE_DROP ? m->refs.count : 0;
        err = tf_scratch_reserve(&turn->gone, s->mem, j->due + drops);
    }
    return err;
}

/* -- apply: nothing here can fail ---------------------------------------------------------------------------------- */

/* A ref of the peer's message as a record. */
static void translate(tf_session *s, tf_ref ref)
{
    tf_ref_kind kind = tf_ref_kind_of(ref);
    tf_clist_entry *entry = tf_clist_by_ref(&s->clist, ref);
    if (entry == NULL) {
        entry = tf_clist_add(&s->clist, ref, tf_refs_add(s->node, kind), TF_CLIST_IMPORT);
        s->next_in[kind]++;
    } else if (entry->state == TF_CLIST_DROPPED) { /* D5: a new import, its retirement is cancelled */
        tf_clist_revive(&s->clist, entry, tf_refs_add(s->node, kind));
    }
    if (entry->role == TF_CLIST_IMPORT) { /* D6 */
        entry->met = s->processed + 1;
        tf_clist_touch(&s->clist, entry);
    }
    tf_scratch *mentions = &s->turn.mentions;
    ((tf_record **)mentions->items)[mentions->count++] = entry->record;
}

static void translate_list(tf_session *s, tf_ref_list refs)
{
    for (tf_ref ref; tf_refs_next(&refs, &ref);) {
        translate(s, ref);
    }
}

static tf_record *const *mentions_at(const tf_session *s, size_t first)
{
    return s->turn.mentions.count == 0 ? NULL : (tf_record *const *)s->turn.mentions.items + first;
}

static tf_record *translate_result(tf_session *s, const tf_message *m)
{
    if (!m->has_result) {
        return NULL;
    }
    tf_record *result = tf_refs_add(s->node, TF_REF_PROMISE);
    (void)tf_clist_add(&s->clist, m->result, result, TF_CLIST_EXPORT);
    s->next_in[TF_REF_PROMISE]++;
    return result;
}

/* Every ref that the message introduces or mentions, in the order of D4. Gives its result. */
static tf_record *translate_message(tf_session *s, const tf_message *m)
{
    if (m->kind == TF_MESSAGE_DELIVER) {
        tf_record *result = translate_result(s, m);
        translate_list(s, m->refs);
        return result;
    }
    tf_resolution_list resolutions = m->resolutions;
    for (tf_resolution r; tf_resolutions_next(&resolutions, &r);) {
        if (r.kind == TF_RESOLUTION_OBJECT) {
            translate(s, r.object);
        } else {
            translate_list(s, r.refs);
        }
    }
    tf_revocation_list revocations = m->revocations;
    for (tf_revoked r; tf_revocations_next(&revocations, &r);) {
        translate_list(s, r.refs);
    }
    return NULL;
}

/* D10 */
static void apply_ack(tf_session *s, const tf_judgement *j)
{
    for (size_t i = 0; i < j->due; i++) {
        tf_clist_entry *entry = tf_retire_entry(tf_retire_at(&s->retire, i), &s->clist);
        if (entry == NULL) {
            continue;
        }
        if (entry->role == TF_CLIST_EXPORT) {
            tf_session_forget_export(s, entry);
        } else {
            tf_clist_remove(&s->clist, entry);
        }
    }
    tf_retire_pop(&s->retire, j->due);
    s->peer_processed = j->acked;
}

/* To something of ours or of another peer, in whatever state: the router knows what to do with it (D8). */
static void apply_deliver(tf_session *s, const tf_judgement *j, tf_record *result)
{
    const tf_clist_entry *target = j->target;
    s->turn.to_promise = tf_ref_kind_of(target->ref) == TF_REF_PROMISE;
    s->turn.promise = target->ref;
    tf_session_event event = {
        .type = TF_SESSION_DELIVER,
        .record = target->record,
        .local = target->record->local,
        .method = j->m->method,
        .args = j->m->args,
        .result = result,
        .refs = mentions_at(s, 0),
        .ref_count = s->turn.mentions.count,
    };
    tf_session_push_event(s, &event, NULL);
}

static bool is_met(const tf_session *s, const tf_clist_entry *entry)
{
    return entry->met == s->processed + 1;
}

/* The RESOLVED event of an import. Its mentions begin at `first`. */
static void tell_resolved(tf_session *s, tf_clist_entry *entry, const tf_resolution *r, size_t first)
{
    tf_session_event event = {
        .type = TF_SESSION_RESOLVED,
        .record = entry->record,
        .local = entry->local,
        .kind = r->kind,
        .mentioned = is_met(s, entry),
    };
    if (r->kind == TF_RESOLUTION_OBJECT) {
        event.object = ((tf_record *const *)s->turn.mentions.items)[first];
    } else {
        event.data = r->data;
        event.refs = r->refs.count == 0 ? NULL : mentions_at(s, first);
        event.ref_count = r->refs.count;
        event.hops = r->hops;
    }
    tf_session_push_event(s, &event, entry);
}

/* D7 */
static void apply_resolve(tf_session *s, const tf_judgement *j)
{
    size_t first = 0;
    tf_resolution_list list = j->m->resolutions;
    for (tf_resolution r; tf_resolutions_next(&list, &r);) {
        tf_clist_entry *entry = tf_clist_by_ref(&s->clist, r.promise);
        if (entry->state == TF_CLIST_LIVE) {
            tell_resolved(s, entry, &r, first);
        } else {
            tf_session_forget_import(s, entry);
        }
        first += r.kind == TF_RESOLUTION_OBJECT ? 1 : r.refs.count;
    }
}

static void tell_revoked(tf_session *s, tf_clist_entry *entry, const tf_revoked *r, size_t first)
{
    tf_session_event event = {
        .type = TF_SESSION_REVOKED,
        .record = entry->record,
        .local = entry->local,
        .kind = TF_RESOLUTION_REJECTION,
        .data = r->data,
        .refs = r->refs.count == 0 ? NULL : mentions_at(s, first),
        .ref_count = r->refs.count,
        .hops = r->hops,
        .hard = r->hard,
    };
    tf_session_push_event(s, &event, entry);
}

/* D11, D12. What this side has dropped is revoked again after its next mention. */
static void apply_revoke(tf_session *s, const tf_judgement *j)
{
    size_t first = 0;
    tf_revocation_list list = j->m->revocations;
    for (tf_revoked r; tf_revocations_next(&list, &r);) {
        tf_clist_entry *entry = tf_clist_by_ref(&s->clist, r.object);
        if (entry->state == TF_CLIST_LIVE) {
            entry->revoked = 1;
            tell_revoked(s, entry, &r, first);
        } else if (r.hard) {
            tf_session_forget_import(s, entry);
        }
        first += r.refs.count;
    }
}

/* D5: lastSeen is the ack, this message's included. */
static void apply_drop(tf_session *s, const tf_judgement *j)
{
    tf_ref_list refs = j->m->refs;
    for (tf_ref ref; tf_refs_next(&refs, &ref);) {
        tf_clist_entry *entry = tf_clist_by_ref(&s->clist, ref);
        if (entry->mentioned > j->acked) {
            s->drops_ignored++;
            continue;
        }
        s->drops_executed++;
        if (tf_ref_side_of(ref) == s->side) {
            s->turn.freed[tf_ref_kind_of(ref)]++;
        }
        tf_session_forget_export(s, entry);
    }
}

/* D3: number, ack, body. References are made before the ack takes others away: which are which was judged already. */
static void apply(tf_session *s, const tf_judgement *j)
{
    s->turn.open = true;
    tf_record *result = translate_message(s, j->m);
    apply_ack(s, j);
    switch (j->m->kind) {
    case TF_MESSAGE_DELIVER:
        apply_deliver(s, j, result);
        return;
    case TF_MESSAGE_RESOLVE:
        apply_resolve(s, j);
        tf_session_oblige_ack(s);
        return;
    case TF_MESSAGE_DROP:
        apply_drop(s, j);
        tf_session_oblige_ack(s);
        return;
    case TF_MESSAGE_REVOKE:
        apply_revoke(s, j);
        tf_session_oblige_ack(s);
        return;
    case TF_MESSAGE_ACK:
        return;
    }
    TF_UNREACHABLE();
}

tf_err tf_session_recv(tf_session *s, tf_time now, tf_slice message)
{
    tf_session_clock(s, now);
    if (s->ended) {
        return TF_ERR_CLOSED;
    }
    TF_ASSERT(!s->turn.open);
    if (message.len > s->local.max_message) {
        return TF_ERR_PEER_LIMIT;
    }
    tf_message m;
    tf_err err = tf_message_read(message, &m);
    if (err != TF_OK) {
        return err;
    }
    tf_judgement j = {.m = &m};
    err = tf_session_judge(s, &j);
    if (err == TF_OK) {
        err = reserve(s, &j);
    }
    if (err == TF_OK) {
        apply(s, &j);
    }
    return err;
}
