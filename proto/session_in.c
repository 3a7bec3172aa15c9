#include "proto/session_internal.h"

/* What is found out about a message before anything is changed. */
typedef struct judgement {
    const tf_message *m;
    uint64_t acked;    /* how many messages of ours are processed, with this message's ack */
    size_t due;        /* retirements that the ack takes */
    uint64_t next[2];  /* next_in after this message */
    size_t additions;  /* entries that are made or revived */
    size_t mentions;
    uint64_t resolvable; /* the lowest number of a promise introduced here that may be resolved next (D7) */
    bool counted;        /* popped is valid */
    size_t popped[2];    /* the peer's numbers that the ack frees */
    tf_clist_entry *target;
    tf_held *held; /* where the delivery waits; NULL: no room */
} judgement;

static tf_err fault(tf_session *s, tf_err err, uint64_t expected, uint64_t got)
{
    s->fault = (tf_session_fault){.expected = expected, .got = got};
    return err;
}

/* D1, D2 */
static tf_err judge_head(tf_session *s, judgement *j)
{
    const tf_message *m = j->m;
    if (m->has_number && m->number != s->processed) {
        return fault(s, TF_ERR_PEER_SEQ, s->processed, m->number);
    }
    if (m->ack_delta > s->taken - s->peer_processed) {
        bool wraps = m->ack_delta > UINT64_MAX - s->peer_processed;
        return fault(s, TF_ERR_PEER_ACK, s->taken, wraps ? UINT64_MAX : s->peer_processed + m->ack_delta);
    }
    j->acked = s->peer_processed + m->ack_delta;
    j->due = tf_retire_due(&s->retire, j->acked);
    return TF_OK;
}

/* The entry of a ref as it will be when the message's ack has been applied (D3). */
static tf_clist_entry *find(const tf_session *s, const judgement *j, tf_ref ref)
{
    tf_clist_entry *entry = tf_clist_by_ref(&s->clist, ref);
    bool retired = entry != NULL && entry->state != TF_CLIST_LIVE && entry->retired < j->acked;
    return retired ? NULL : entry;
}

/* How many numbers of the peer are known after the ack. Asked only near the limit, so the count is taken only then. */
static size_t count_known(const tf_session *s, judgement *j, tf_ref_kind kind)
{
    tf_side side = tf_side_other(s->side);
    for (size_t i = 0; !j->counted && i < j->due; i++) {
        const tf_clist_entry *entry = tf_retire_entry(tf_retire_at(&s->retire, i), &s->clist);
        if (entry != NULL && tf_ref_side_of(entry->ref) == side) {
            j->popped[tf_ref_kind_of(entry->ref)]++;
        }
    }
    j->counted = true;
    return s->clist.known[side][kind] + (size_t)(j->next[kind] - s->next_in[kind]) - j->popped[kind];
}

/* The next number of the peer (D4). */
static tf_err judge_new(const tf_session *s, judgement *j, tf_ref_kind kind)
{
    size_t most = kind == TF_REF_OBJECT ? s->local.max_refs : s->local.max_promises;
    size_t fresh = (size_t)(j->next[kind] - s->next_in[kind]);
    if (s->clist.known[tf_side_other(s->side)][kind] + fresh >= most && count_known(s, j, kind) >= most) {
        return TF_ERR_PEER_LIMIT;
    }
    j->next[kind]++;
    j->additions++;
    return TF_OK;
}

/* Whether ref is a number of the peer that this very message introduces. */
static bool is_introduced(const tf_session *s, const judgement *j, tf_ref ref)
{
    tf_ref_kind kind = tf_ref_kind_of(ref);
    uint64_t number = tf_ref_number(ref);
    return tf_ref_side_of(ref) != s->side && number >= s->next_in[kind] && number < j->next[kind];
}

static tf_err judge_mention(tf_session *s, judgement *j, tf_ref ref)
{
    tf_ref_kind kind = tf_ref_kind_of(ref);
    j->mentions++;
    if (tf_ref_side_of(ref) != s->side && tf_ref_number(ref) == j->next[kind]) {
        return judge_new(s, j, kind);
    }
    if (is_introduced(s, j, ref)) {
        return TF_OK;
    }
    const tf_clist_entry *entry = find(s, j, ref);
    if (entry == NULL) {
        return fault(s, TF_ERR_PEER_REF, 0, ref);
    }
    if (entry->state == TF_CLIST_DROPPED) {
        j->additions++;
    }
    return TF_OK;
}

static tf_err judge_mentions(tf_session *s, judgement *j, tf_ref_list refs)
{
    tf_err err = TF_OK;
    for (tf_ref ref; err == TF_OK && tf_refs_next(&refs, &ref);) {
        err = judge_mention(s, j, ref);
    }
    return err;
}

static tf_err judge_result(tf_session *s, judgement *j, tf_ref result)
{
    if (tf_ref_side_of(result) == s->side || tf_ref_number(result) != j->next[TF_REF_PROMISE]) {
        return fault(s, TF_ERR_PEER_REF, 0, result);
    }
    if (s->clist.results[TF_CLIST_EXPORT] >= s->local.max_results) {
        return TF_ERR_PEER_LIMIT;
    }
    return judge_new(s, j, TF_REF_PROMISE);
}

static tf_err judge_deliver(tf_session *s, judgement *j)
{
    const tf_message *m = j->m;
    j->target = find(s, j, m->target);
    if (j->target == NULL) {
        return fault(s, TF_ERR_PEER_REF, 0, m->target);
    }
    if (j->target->role != TF_CLIST_EXPORT) {
        return fault(s, TF_ERR_PEER_STATE, 0, m->target);
    }
    tf_err err = m->has_result ? judge_result(s, j, m->result) : TF_OK;
    return err == TF_OK ? judge_mentions(s, j, m->refs) : err;
}

/* What is resolved is known, or was introduced by an earlier resolution of the message; each at most once. */
static tf_err judge_promise(tf_session *s, judgement *j, tf_ref promise)
{
    if (is_introduced(s, j, promise) && tf_ref_number(promise) >= j->resolvable) {
        j->resolvable = tf_ref_number(promise) + 1;
        return TF_OK;
    }
    tf_clist_entry *entry = is_introduced(s, j, promise) ? NULL : find(s, j, promise);
    if (entry == NULL) {
        return fault(s, TF_ERR_PEER_REF, 0, promise);
    }
    if (entry->role != TF_CLIST_IMPORT || entry->judged == s->judgements) {
        return fault(s, TF_ERR_PEER_STATE, 0, promise);
    }
    entry->judged = s->judgements;
    return TF_OK;
}

static tf_err judge_resolve(tf_session *s, judgement *j)
{
    tf_resolution_list list = j->m->resolutions;
    tf_err err = TF_OK;
    for (tf_resolution r; err == TF_OK && tf_resolutions_next(&list, &r);) {
        err = judge_promise(s, j, r.promise);
        if (err == TF_OK) {
            err = r.kind == TF_RESOLUTION_OBJECT ? judge_mention(s, j, r.object) : judge_mentions(s, j, r.refs);
        }
    }
    return err;
}

static tf_err judge_drop(tf_session *s, const judgement *j)
{
    tf_ref_list refs = j->m->refs;
    for (tf_ref ref; tf_refs_next(&refs, &ref);) {
        tf_clist_entry *entry = find(s, j, ref);
        if (entry == NULL) {
            return fault(s, TF_ERR_PEER_REF, 0, ref);
        }
        if (entry->role != TF_CLIST_EXPORT || entry->judged == s->judgements) {
            return fault(s, TF_ERR_PEER_STATE, 0, ref);
        }
        entry->judged = s->judgements;
    }
    return TF_OK;
}

static tf_err judge(tf_session *s, judgement *j)
{
    s->judgements++;
    j->next[TF_REF_OBJECT] = s->next_in[TF_REF_OBJECT];
    j->next[TF_REF_PROMISE] = s->next_in[TF_REF_PROMISE];
    tf_err err = judge_head(s, j);
    if (err != TF_OK) {
        return err;
    }
    switch (j->m->kind) {
    case TF_MESSAGE_DELIVER:
        return judge_deliver(s, j);
    case TF_MESSAGE_RESOLVE:
        return judge_resolve(s, j);
    case TF_MESSAGE_DROP:
        return judge_drop(s, j);
    case TF_MESSAGE_ACK:
        return TF_OK;
    }
    TF_UNREACHABLE();
}

/* -- reserve: what can run out ------------------------------------------------------------------------------------- */

static bool is_to_be_held(const judgement *j)
{
    const tf_clist_entry *target = j->target;
    return target != NULL && target->state == TF_CLIST_LIVE && tf_ref_kind_of(target->ref) == TF_REF_PROMISE;
}

static tf_err reserve(tf_session *s, judgement *j)
{
    const tf_message *m = j->m;
    tf_turn *turn = &s->turn;
    bool drop = m->kind == TF_MESSAGE_DROP;
    tf_err err = j->additions == 0 ? TF_OK : tf_clist_reserve(&s->clist, j->additions);
    if (err == TF_OK) {
        err = tf_scratch_reserve(&turn->mentions, s->mem, j->mentions);
    }
    if (err == TF_OK) {
        err = tf_scratch_reserve(&turn->events, s->mem, m->resolutions.count + 1);
    }
    if (err == TF_OK) {
        err = tf_scratch_reserve(&turn->gone, s->mem, j->due + (drop ? m->refs.count : 0));
    }
    if (err == TF_OK && is_to_be_held(j)) {
        err = tf_session_held_new(s, m, &j->held);
    }
    return err;
}

/* -- apply: nothing here can fail ---------------------------------------------------------------------------------- */

/* A ref of the peer's message as a local id. */
static void translate(tf_session *s, tf_ref ref)
{
    tf_ref_kind kind = tf_ref_kind_of(ref);
    tf_clist_entry *entry = tf_clist_by_ref(&s->clist, ref);
    if (entry == NULL) {
        entry = tf_clist_add(&s->clist, ref, tf_local_next(s->ids), TF_CLIST_IMPORT);
        s->next_in[kind]++;
    } else if (entry->state == TF_CLIST_DROPPED) { /* D5: a new import, its retirement is cancelled */
        tf_clist_revive(&s->clist, entry, tf_local_next(s->ids));
    }
    if (entry->role == TF_CLIST_IMPORT) { /* D6 */
        entry->met = s->processed + 1;
        tf_clist_touch(&s->clist, entry);
    }
    tf_scratch *mentions = &s->turn.mentions;
    ((tf_mention *)mentions->items)[mentions->count++] = (tf_mention){.local = entry->local, .kind = kind};
}

static void translate_list(tf_session *s, tf_ref_list refs)
{
    for (tf_ref ref; tf_refs_next(&refs, &ref);) {
        translate(s, ref);
    }
}

static const tf_mention *mentions_at(const tf_session *s, size_t first)
{
    return s->turn.mentions.count == 0 ? NULL : (const tf_mention *)s->turn.mentions.items + first;
}

/* Every ref that the message introduces or mentions, in the order of D4. Gives the local id of its result. */
static tf_local translate_message(tf_session *s, const tf_message *m)
{
    tf_local result = TF_LOCAL_NONE;
    if (m->kind == TF_MESSAGE_DELIVER) {
        if (m->has_result) {
            result = tf_local_next(s->ids);
            (void)tf_clist_add(&s->clist, m->result, result, TF_CLIST_EXPORT);
            s->next_in[TF_REF_PROMISE]++;
        }
        translate_list(s, m->refs);
    }
    tf_resolution_list list = m->resolutions;
    for (tf_resolution r; tf_resolutions_next(&list, &r);) {
        if (r.kind == TF_RESOLUTION_OBJECT) {
            translate(s, r.object);
        } else {
            translate_list(s, r.refs);
        }
    }
    return result;
}

/* D10 */
static void apply_ack(tf_session *s, const judgement *j)
{
    for (size_t i = 0; i < j->due; i++) {
        tf_clist_entry *entry = tf_retire_entry(tf_retire_at(&s->retire, i), &s->clist);
        if (entry == NULL) {
            continue;
        }
        if (entry->state == TF_CLIST_RESOLVED) {
            tf_session_forget_resolved(s, entry);
        } else {
            tf_clist_remove(&s->clist, entry);
        }
    }
    tf_retire_pop(&s->retire, j->due);
    s->peer_processed = j->acked;
}

static void push_event(tf_session *s, const tf_session_event *event, tf_clist_entry *resolved)
{
    tf_scratch *events = &s->turn.events;
    ((tf_turn_event *)events->items)[events->count++] = (tf_turn_event){.event = *event, .resolved = resolved};
}

static void push_delivery(tf_session *s, const tf_message *m, tf_local target, tf_local result)
{
    tf_session_event event = {
        .type = TF_SESSION_DELIVER,
        .local = target,
        .method = m->method,
        .args = m->args,
        .result = result,
        .refs = mentions_at(s, 0),
        .ref_count = s->turn.mentions.count,
    };
    push_event(s, &event, NULL);
}

/* D8: to an object of ours; to a promise, unresolved or not yet known to be resolved. */
static void apply_deliver(tf_session *s, judgement *j, tf_local result)
{
    const tf_clist_entry *target = j->target;
    s->turn.to_promise = tf_ref_kind_of(target->ref) == TF_REF_PROMISE;
    s->turn.promise = target->ref;
    if (is_to_be_held(j)) {
        if (j->held != NULL) {
            tf_session_held_wait(s, j->held, target->local, result, mentions_at(s, 0));
        } else {
            s->turn.owed = (tf_owed){.result = result, .kind = TF_RESOLUTION_REJECTION};
        }
        j->held = NULL;
        return;
    }
    if (target->state == TF_CLIST_LIVE || target->kind == TF_RESOLUTION_OBJECT) {
        push_delivery(s, j->m, target->state == TF_CLIST_LIVE ? target->local : target->object, result);
    } else if (result != TF_LOCAL_NONE) {
        tf_session_kept_use(target->kept);
        s->turn.owed = (tf_owed){.result = result, .kind = target->kind, .kept = target->kept};
    }
}

/* Whether the application knows the promise, or has met it in this very message. */
static bool is_wanted(const tf_session *s, const tf_clist_entry *entry)
{
    return entry->state == TF_CLIST_LIVE &&
           (entry->holds > 0 || entry->met == s->processed + 1 || tf_session_is_pinned(s, entry->local));
}

/* The RESOLVED event of an import. Its mentions begin at `first`. */
static void tell_resolved(tf_session *s, tf_clist_entry *entry, const tf_resolution *r, size_t first)
{
    tf_session_event event = {.type = TF_SESSION_RESOLVED, .local = entry->local, .kind = r->kind};
    event.until_dropped = tf_session_is_pinned(s, entry->local);
    if (r->kind == TF_RESOLUTION_OBJECT) {
        event.object = ((const tf_mention *)s->turn.mentions.items)[first];
    } else {
        event.data = r->data;
        event.refs = mentions_at(s, first);
        event.ref_count = r->refs.count;
    }
    push_event(s, &event, entry);
    if (event.until_dropped) {
        tf_session_owe_dropped(s, entry->local);
    }
}

/* D7 */
static void apply_resolve(tf_session *s, const judgement *j)
{
    size_t first = 0;
    tf_resolution_list list = j->m->resolutions;
    for (tf_resolution r; tf_resolutions_next(&list, &r);) {
        tf_clist_entry *entry = tf_clist_by_ref(&s->clist, r.promise);
        if (is_wanted(s, entry)) {
            tell_resolved(s, entry, &r, first);
        } else {
            tf_session_forget_import(s, entry);
        }
        first += r.kind == TF_RESOLUTION_OBJECT ? 1 : r.refs.count;
    }
}

/* D5: lastSeen is the ack, this message's included. */
static void apply_drop(tf_session *s, const judgement *j)
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
        if (entry->state == TF_CLIST_RESOLVED) {
            tf_session_forget_resolved(s, entry);
            continue;
        }
        tf_local local = entry->local;
        tf_clist_remove(&s->clist, entry);
        tf_session_note_gone(s, local);
    }
}

/* D3: number, ack, body. References are made before the ack takes others away: which are which was judged already. */
static void apply(tf_session *s, judgement *j)
{
    s->turn.open = true;
    s->turn.has_message = true;
    tf_local result = translate_message(s, j->m);
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
    judgement j = {.m = &m};
    err = judge(s, &j);
    if (err == TF_OK) {
        err = reserve(s, &j);
    }
    if (err == TF_OK) {
        apply(s, &j);
    }
    return err;
}
