/* A message of the peer is judged whole, as if its ack had been applied (D3), before anything is changed. */
#include "proto/session_internal.h"

static tf_err fault(tf_session *s, tf_err err, uint64_t expected, uint64_t got)
{
    s->fault = (tf_session_fault){.expected = expected, .got = got};
    return err;
}

/* D1, D2 */
static tf_err judge_head(tf_session *s, tf_judgement *j)
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
static tf_clist_entry *find(const tf_session *s, const tf_judgement *j, tf_ref ref)
{
    tf_clist_entry *entry = tf_clist_by_ref(&s->clist, ref);
    bool retired = entry != NULL && entry->state != TF_CLIST_LIVE && entry->retired < j->acked;
    return retired ? NULL : entry;
}

/* How many numbers of the peer are known after the ack. Asked only near the limit, so the count is taken only then. */
static size_t count_known(const tf_session *s, tf_judgement *j, tf_ref_kind kind)
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
static tf_err judge_new(const tf_session *s, tf_judgement *j, tf_ref_kind kind)
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
static bool is_introduced(const tf_session *s, const tf_judgement *j, tf_ref ref)
{
    tf_ref_kind kind = tf_ref_kind_of(ref);
    uint64_t number = tf_ref_number(ref);
    return tf_ref_side_of(ref) != s->side && number >= s->next_in[kind] && number < j->next[kind];
}

static tf_err judge_mention(tf_session *s, tf_judgement *j, tf_ref ref)
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

static tf_err judge_mentions(tf_session *s, tf_judgement *j, tf_ref_list refs)
{
    tf_err err = TF_OK;
    for (tf_ref ref; err == TF_OK && tf_refs_next(&refs, &ref);) {
        err = judge_mention(s, j, ref);
    }
    return err;
}

static tf_err judge_result(tf_session *s, tf_judgement *j, tf_ref result)
{
    if (tf_ref_side_of(result) == s->side || tf_ref_number(result) != j->next[TF_REF_PROMISE]) {
        return fault(s, TF_ERR_PEER_REF, 0, result);
    }
    if (s->clist.results[TF_CLIST_EXPORT] >= s->local.max_results) {
        return TF_ERR_PEER_LIMIT;
    }
    return judge_new(s, j, TF_REF_PROMISE);
}

static tf_err judge_deliver(tf_session *s, tf_judgement *j)
{
    const tf_message *m = j->m;
    j->target = find(s, j, m->target);
    if (j->target == NULL) {
        return fault(s, TF_ERR_PEER_REF, 0, m->target);
    }
    bool disowned = j->target->revoked != 0 && j->target->revoked <= j->acked; /* D11: it knows that this is revoked */
    if (j->target->role != TF_CLIST_EXPORT || disowned) {
        return fault(s, TF_ERR_PEER_STATE, 0, m->target);
    }
    tf_err err = m->has_result ? judge_result(s, j, m->result) : TF_OK;
    return err == TF_OK ? judge_mentions(s, j, m->refs) : err;
}

/* What is resolved or revoked is known, or was introduced by an earlier line of the message; each at most once. */
static tf_err judge_told(tf_session *s, tf_judgement *j, tf_ref ref)
{
    if (is_introduced(s, j, ref) && tf_ref_number(ref) >= j->tellable) {
        j->tellable = tf_ref_number(ref) + 1;
        return TF_OK;
    }
    tf_clist_entry *entry = is_introduced(s, j, ref) ? NULL : find(s, j, ref);
    if (entry == NULL) {
        return fault(s, TF_ERR_PEER_REF, 0, ref);
    }
    if (entry->role != TF_CLIST_IMPORT || entry->judged == s->judgements) {
        return fault(s, TF_ERR_PEER_STATE, 0, ref);
    }
    entry->judged = s->judgements;
    return TF_OK;
}

static tf_err judge_resolve(tf_session *s, tf_judgement *j)
{
    tf_resolution_list list = j->m->resolutions;
    tf_err err = TF_OK;
    for (tf_resolution r; err == TF_OK && tf_resolutions_next(&list, &r);) {
        err = judge_told(s, j, r.promise);
        if (err == TF_OK) {
            err = r.kind == TF_RESOLUTION_OBJECT ? judge_mention(s, j, r.object) : judge_mentions(s, j, r.refs);
        }
    }
    return err;
}

/* D11, D12. A root is never revoked. */
static tf_err judge_revoke(tf_session *s, tf_judgement *j)
{
    tf_revocation_list list = j->m->revocations;
    tf_err err = TF_OK;
    for (tf_revoked r; err == TF_OK && tf_revocations_next(&list, &r);) {
        err = tf_ref_number(r.object) == 0 ? fault(s, TF_ERR_PEER_STATE, 0, r.object) : judge_told(s, j, r.object);
        if (err == TF_OK) {
            err = judge_mentions(s, j, r.refs);
        }
    }
    return err;
}

static tf_err judge_drop(tf_session *s, const tf_judgement *j)
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

tf_err tf_session_judge(tf_session *s, tf_judgement *j)
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
    case TF_MESSAGE_REVOKE:
        return s->without_revoke ? TF_ERR_PEER_SYNTAX : judge_revoke(s, j);
    case TF_MESSAGE_ACK:
        return TF_OK;
    }
    TF_UNREACHABLE();
}
