/* What the application does: it sends, resolves, revokes, holds and releases, by local ids. */
#include "node/router_internal.h"
#include "proto/clist.h"
#include "proto/mp.h"

#define NAMED_MIN 16u

/* -- names --------------------------------------------------------------------------------------------------------- */

static tf_err reserve_named(tf_router *r, size_t count)
{
    if (count <= r->named_capacity) {
        return TF_OK;
    }
    size_t capacity = count + NAMED_MIN;
    tf_record **named = tf_alloc(r->mem, capacity * sizeof(tf_record *));
    if (named == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_free(r->mem, r->named, r->named_capacity * sizeof(tf_record *));
    r->named = named;
    r->named_capacity = capacity;
    return TF_OK;
}

static tf_record *name_one(tf_router *r, const tf_mention *mention)
{
    tf_record *record = tf_refs_find(&r->refs, mention->local);
    bool can_be_new = mention->kind == TF_REF_OBJECT && mention->local != TF_LOCAL_NONE && mention->local <= r->refs.last;
    if (record == NULL && can_be_new) {
        record = tf_refs_add_local(&r->refs, mention->local, TF_REF_OBJECT);
        record->is_fresh = true;
    }
    if (record != NULL && record->kind == TF_REF_OBJECT && record->owner == NULL && record->state == TF_RECORD_LIVE) {
        record->is_own = true;
    }
    return record;
}

/* The call is over. What was made for one that failed is not to be told of when it goes. */
static void end_names(tf_router *r, size_t count, tf_err err)
{
    for (size_t i = 0; i < count; i++) {
        if (r->named[i]->is_fresh) {
            r->named[i]->is_fresh = false;
            r->named[i]->is_own = err == TF_OK || r->named[i]->count > 0;
        }
    }
}

tf_err tf_router_name(tf_router *r, const tf_mention *mentions, size_t count)
{
    tf_err err = reserve_named(r, count);
    if (err == TF_OK && count > 0) {
        err = tf_refs_reserve(&r->refs, count + 1);
    }
    for (size_t i = 0; err == TF_OK && i < count; i++) {
        r->named[i] = name_one(r, &mentions[i]);
        if (r->named[i] == NULL) {
            err = TF_ERR_USAGE;
            end_names(r, i, err);
        }
    }
    return err;
}

tf_local tf_router_new_object(tf_router *r)
{
    return tf_refs_next_local(&r->refs);
}

static void hold(tf_record *record)
{
    tf_refs_hold(record);
    record->holds++;
}

static tf_record *new_promise(tf_router *r)
{
    if (tf_refs_reserve(&r->refs, 1) != TF_OK) {
        return NULL;
    }
    tf_record *promise = tf_refs_add(&r->refs, TF_REF_PROMISE);
    hold(promise);
    return promise;
}

tf_local tf_router_new_promise(tf_router *r)
{
    tf_record *promise = new_promise(r);
    if (promise == NULL) {
        return TF_LOCAL_NONE;
    }
    promise->is_own = true;
    return promise->local;
}

/* -- send ---------------------------------------------------------------------------------------------------------- */

static tf_err check_send(const tf_router_send *send)
{
    if (send->method.len == 0 || send->method.len > TF_METHOD_MAX || !tf_utf8_is_valid(send->method)) {
        return TF_ERR_USAGE;
    }
    if (send->ref_count > TF_REFS_PER_MESSAGE) {
        return TF_ERR_LIMIT_ITEMS;
    }
    return send->args.len > TF_MESSAGE_MAX ? TF_ERR_LIMIT_BYTES : TF_OK;
}

/* To an object of this node: it comes as an event, like any other. */
static tf_err to_app(tf_router *r, const tf_parcel *parcel, tf_record *target)
{
    tf_parcel own = *parcel;
    own.target = target;
    tf_held *held = NULL;
    tf_err err = tf_router_held_new(r, &own, &held);
    if (err == TF_OK) {
        tf_router_ready(r, held);
    }
    return err;
}

static tf_err send_parcel(tf_router *r, const tf_parcel *parcel)
{
    tf_record *target = NULL;
    tf_err err = TF_OK;
    switch (tf_router_route(r, parcel, &target, &err)) {
    case TF_ROUTED:
        return TF_OK;
    case TF_ROUTED_TO_APP:
        return to_app(r, parcel, target);
    case TF_ROUTED_BACK:
        return err;
    }
    TF_UNREACHABLE();
}

/* What it mentions is named. */
static tf_err send_named(tf_router *r, const tf_router_send *send, tf_record **promise)
{
    tf_record *target = tf_refs_find(&r->refs, send->target);
    if (target == NULL) {
        return TF_ERR_USAGE;
    }
    *promise = send->want_result ? new_promise(r) : NULL;
    if (send->want_result && *promise == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_parcel parcel = {.target = target,
                        .method = send->method,
                        .args = send->args,
                        .result = *promise,
                        .refs = r->named,
                        .ref_count = send->ref_count};
    tf_err err = send_parcel(r, &parcel);
    if (err != TF_OK && *promise != NULL) {
        (*promise)->holds = 0;
        tf_refs_release(&r->refs, *promise);
        *promise = NULL;
    }
    return err;
}

tf_err tf_router_deliver(tf_router *r, tf_time now, const tf_router_send *send, tf_local *result)
{
    tf_router_clock(r, now);
    tf_err err = check_send(send);
    if (err == TF_OK) {
        err = tf_router_name(r, send->refs, send->ref_count);
    }
    if (err != TF_OK) {
        return err;
    }
    tf_record *promise = NULL;
    err = send_named(r, send, &promise);
    end_names(r, send->ref_count, err);
    (void)tf_router_settle_all(r);
    tf_router_flush(r);
    if (result != NULL) {
        *result = promise == NULL ? TF_LOCAL_NONE : promise->local;
    }
    return err;
}

/* -- resolve, revoke ----------------------------------------------------------------------------------------------- */

static tf_err check_value(const tf_answer *answer)
{
    if (answer->kind == TF_RESOLUTION_OBJECT) {
        return answer->object.kind == TF_REF_OBJECT ? TF_OK : TF_ERR_USAGE;
    }
    if (answer->ref_count > TF_REFS_PER_MESSAGE) {
        return TF_ERR_LIMIT_ITEMS;
    }
    size_t most = answer->kind == TF_RESOLUTION_REJECTION ? TF_REJECTION_MAX : TF_MESSAGE_MAX;
    return answer->data.len > most ? TF_ERR_LIMIT_BYTES : TF_OK;
}

/* Whether the application may resolve it. `found` marks what is in this call already. */
static tf_err check_promise(tf_record *promise)
{
    bool can = promise->kind == TF_REF_PROMISE && promise->state == TF_RECORD_LIVE && promise->owner == NULL &&
               !promise->is_fenced && promise->source == NULL && promise->found == NULL;
    promise->found = can ? promise : promise->found;
    return can ? TF_OK : TF_ERR_USAGE;
}

/* Whether a peer that waits for it would get it. */
static tf_err check_peer(const tf_router *r, const tf_session *session, const tf_answer *answer)
{
    bool to_object = answer->kind == TF_RESOLUTION_OBJECT;
    const tf_mention *refs = to_object ? &answer->object : answer->refs;
    size_t count = to_object ? 1 : answer->ref_count;
    size_t fresh[2] = {0, 0};
    for (size_t i = 0; i < count; i++) {
        const tf_record *record = tf_refs_find(&r->refs, refs[i].local);
        if (record == NULL || !tf_session_knows(session, record)) {
            fresh[record == NULL ? TF_REF_OBJECT : record->kind]++;
        }
    }
    return tf_session_can_announce(session, to_object ? 0 : answer->data.len, count, fresh[TF_REF_OBJECT],
                                   fresh[TF_REF_PROMISE]);
}

static tf_err check_waiting(const tf_router *r, const tf_record *promise, const tf_answer *answer)
{
    tf_err err = TF_OK;
    for (const tf_clist_entry *entry = promise->exports; err == TF_OK && entry != NULL; entry = entry->export_next) {
        err = check_peer(r, entry->session, answer);
    }
    return err;
}

/* What an answer comes to. */
typedef struct settlement {
    tf_record *promise; /* NULL: nobody waits for it */
    tf_value *value;
} settlement;

static tf_err check_answer(const tf_router *r, const tf_answer *answer, tf_record *promise)
{
    tf_err err = check_value(answer);
    if (err == TF_OK && promise != NULL) {
        err = check_promise(promise);
    }
    return err == TF_OK && promise != NULL ? check_waiting(r, promise, answer) : err;
}

static tf_err check_answers(const tf_router *r, const tf_answer *answers, size_t count, settlement *settlements)
{
    for (size_t i = 0; i < count; i++) {
        settlements[i] = (settlement){.promise = tf_refs_find(&r->refs, answers[i].promise)};
        if (settlements[i].promise != NULL) {
            settlements[i].promise->found = NULL;
        }
    }
    tf_err err = TF_OK;
    for (size_t i = 0; err == TF_OK && i < count; i++) {
        err = check_answer(r, &answers[i], settlements[i].promise);
    }
    return err;
}

/* What it mentions is named. */
static tf_err make_value(tf_router *r, const tf_answer *answer, settlement *s)
{
    bool to_object = answer->kind == TF_RESOLUTION_OBJECT;
    if (to_object && r->named[0]->kind != TF_REF_OBJECT) {
        return TF_ERR_USAGE;
    }
    if (s->promise == NULL) {
        return TF_OK;
    }
    tf_slice data = to_object ? (tf_slice){NULL, 0} : answer->data;
    s->value = tf_value_new(&r->refs, answer->kind, to_object ? r->named[0] : NULL, data, r->named,
                            to_object ? 0 : answer->ref_count);
    return s->value == NULL ? TF_ERR_NOMEM : TF_OK;
}

/* Objects that an answer names are made even if nobody waits for it: their end (GONE) is the application's to hear of. */
static tf_err settle_answer(tf_router *r, const tf_answer *answer, settlement *s)
{
    bool to_object = answer->kind == TF_RESOLUTION_OBJECT;
    size_t count = to_object ? 1 : answer->ref_count;
    tf_err err = tf_router_name(r, to_object ? &answer->object : answer->refs, count);
    if (err == TF_OK) {
        err = make_value(r, answer, s);
        end_names(r, count, err);
    }
    return err;
}

static tf_err resolve_all(tf_router *r, const tf_answer *answers, size_t count, settlement *settlements)
{
    tf_err err = check_answers(r, answers, count, settlements);
    for (size_t i = 0; err == TF_OK && i < count; i++) {
        err = settle_answer(r, &answers[i], &settlements[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (err == TF_OK && settlements[i].promise != NULL) {
            tf_router_settle(r, settlements[i].promise, settlements[i].value);
        }
        tf_value_release(&r->refs, settlements[i].value);
    }
    return err;
}

tf_err tf_router_resolve(tf_router *r, tf_time now, const tf_answer *answers, size_t count)
{
    tf_router_clock(r, now);
    if (count > TF_REFS_PER_MESSAGE) {
        return TF_ERR_LIMIT_ITEMS;
    }
    settlement one;
    settlement *settlements = count <= 1 ? &one : tf_alloc(r->mem, count * sizeof(*settlements));
    if (settlements == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_err err = resolve_all(r, answers, count, settlements);
    if (count > 1) {
        tf_free(r->mem, settlements, count * sizeof(*settlements));
    }
    (void)tf_router_settle_all(r);
    tf_router_flush(r);
    return err;
}

/* Peers have it from the start: it cannot be revoked (D11). */
static bool is_root(const tf_record *object)
{
    for (const tf_clist_entry *entry = object->exports; entry != NULL; entry = entry->export_next) {
        if (tf_ref_number(entry->ref) == 0) {
            return true;
        }
    }
    return false;
}

/* What its error mentions is named. */
static tf_err revoke_named(tf_router *r, const tf_revocation *revocation)
{
    tf_record *object = tf_refs_find(&r->refs, revocation->object);
    if (object == NULL) {
        return TF_OK;
    }
    bool again = object->state == TF_RECORD_REVOKED && (object->hard || !revocation->hard);
    if (object->kind != TF_REF_OBJECT || !object->is_own || again || is_root(object)) {
        return TF_ERR_USAGE;
    }
    tf_value *value = tf_value_new(&r->refs, TF_RESOLUTION_REJECTION, NULL, revocation->data, r->named,
                                   revocation->ref_count);
    if (value == NULL) {
        return TF_ERR_NOMEM;
    }
    object->hard = revocation->hard;
    tf_router_settle(r, object, value);
    tf_value_release(&r->refs, value);
    return TF_OK;
}

tf_err tf_router_revoke(tf_router *r, tf_time now, const tf_revocation *revocation)
{
    tf_router_clock(r, now);
    if (revocation->data.len > TF_REJECTION_MAX || revocation->ref_count > TF_REFS_PER_MESSAGE) {
        return revocation->data.len > TF_REJECTION_MAX ? TF_ERR_LIMIT_BYTES : TF_ERR_LIMIT_ITEMS;
    }
    tf_err err = tf_router_name(r, revocation->refs, revocation->ref_count);
    if (err != TF_OK) {
        return err;
    }
    err = revoke_named(r, revocation);
    end_names(r, revocation->ref_count, err);
    (void)tf_router_settle_all(r);
    tf_router_flush(r);
    return err;
}

/* -- counts -------------------------------------------------------------------------------------------------------- */

void tf_router_note(tf_router *r, tf_record *record)
{
    if (record->is_noted) {
        return;
    }
    tf_refs_hold(record);
    record->is_noted = true;
    record->note_next = NULL;
    *(r->noted == NULL ? &r->noted : &r->noted_last->note_next) = record;
    r->noted_last = record;
}

bool tf_router_is_known(const tf_router *r, tf_local local)
{
    return tf_refs_find(&r->refs, local) != NULL;
}

void tf_router_hold(tf_router *r, tf_local local)
{
    tf_record *record = tf_refs_find(&r->refs, local);
    if (record == NULL) {
        return;
    }
    hold(record);
    if (record->holds == 1 && record->state != TF_RECORD_LIVE && !record->is_settling) {
        tf_router_note(r, record);
    }
}

void tf_router_release(tf_router *r, tf_time now, tf_local local)
{
    tf_router_clock(r, now);
    tf_record *record = tf_refs_find(&r->refs, local);
    if (record == NULL || record->holds == 0) {
        return;
    }
    record->holds--;
    tf_refs_release(&r->refs, record);
}
