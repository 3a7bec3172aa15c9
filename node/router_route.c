/* Where a message goes: to the application, over the session of who hosts its target, back as a rejection, or into the queue
 * of a promise (D8, D13, D15). */
#include "node/router_internal.h"

#define GUARDS_MAX 1024u

/* -- messages that wait -------------------------------------------------------------------------------------------- */

static size_t size_of(const tf_parcel *parcel)
{
    return sizeof(tf_held) + parcel->ref_count * sizeof(tf_record *) + parcel->method.len + parcel->args.len;
}

/* Of whoever pays for it: the node itself, or the peer that it came from. */
static tf_tally *tally_of(tf_router *r, tf_router_peer *from)
{
    return from == NULL ? &r->own : &from->waiting;
}

static void charge(tf_router *r, tf_held *held)
{
    tf_router_peer *from = held->parcel.from;
    tf_tally *tally = tally_of(r, from);
    tally->items++;
    tally->bytes += held->size;
    r->stats.held_items++;
    r->stats.held_bytes += held->size;
    if (from != NULL) {
        tf_list_append(&from->held, &held->in_peer);
    }
}

static void discharge(tf_router *r, tf_held *held)
{
    tf_tally *tally = tally_of(r, held->parcel.from);
    tally->items--;
    tally->bytes -= held->size;
    r->stats.held_items--;
    r->stats.held_bytes -= held->size;
    tf_list_remove(&held->in_peer);
}

static bool has_room(const tf_tally *tally, size_t size)
{
    return tally->items < TF_HELD_ITEMS_MAX && tally->bytes <= TF_HELD_BYTES_MAX &&
           (tally->items == 0 || size <= TF_HELD_BYTES_MAX - tally->bytes);
}

tf_err tf_router_held_new(tf_router *r, const tf_parcel *parcel, tf_held **out)
{
    size_t size = size_of(parcel);
    if (!has_room(tally_of(r, parcel->from), size)) {
        return TF_ERR_AGAIN;
    }
    tf_held *held = tf_alloc(r->mem, size);
    if (held == NULL) {
        return TF_ERR_NOMEM;
    }
    *held = (tf_held){.size = size, .parcel = *parcel};
    uint8_t *bytes = (uint8_t *)&held->refs[parcel->ref_count];
    memcpy(bytes, parcel->method.data, parcel->method.len);
    if (parcel->args.len > 0) {
        memcpy(bytes + parcel->method.len, parcel->args.data, parcel->args.len);
    }
    held->parcel.method = tf_slice_of(bytes, parcel->method.len);
    held->parcel.args = tf_slice_of(bytes + parcel->method.len, parcel->args.len);
    held->parcel.refs = held->refs;
    for (size_t i = 0; i < parcel->ref_count; i++) {
        held->refs[i] = parcel->refs[i];
        tf_refs_hold(held->refs[i]);
    }
    tf_refs_hold(parcel->target);
    if (parcel->result != NULL) {
        tf_refs_hold(parcel->result);
    }
    charge(r, held);
    *out = held;
    return TF_OK;
}

void tf_router_held_free(tf_router *r, tf_held *held)
{
    if (held == NULL) {
        return;
    }
    discharge(r, held);
    for (size_t i = 0; i < held->parcel.ref_count; i++) {
        tf_refs_release(&r->refs, held->refs[i]);
    }
    tf_refs_release(&r->refs, held->parcel.target);
    if (held->parcel.result != NULL) {
        tf_refs_release(&r->refs, held->parcel.result);
    }
    tf_free(r->mem, held, held->size);
}

/* It stays charged to the node: nobody else is left. */
void tf_router_disown_held(tf_router *r, tf_router_peer *peer)
{
    for (tf_list_node *node; (node = tf_list_first(&peer->held)) != NULL;) {
        tf_held *held = TF_CONTAINER(node, tf_held, in_peer);
        tf_list_remove(node);
        held->parcel.from = NULL;
    }
    r->own.items += peer->waiting.items;
    r->own.bytes += peer->waiting.bytes;
    peer->waiting = (tf_tally){0};
}

void tf_router_ready(tf_router *r, tf_held *held)
{
    held->next = NULL;
    *(r->ready == NULL ? &r->ready : &r->ready_last->next) = held;
    r->ready_last = held;
}

static void wait_for(tf_record *promise, tf_held *held)
{
    held->next = NULL;
    *(promise->first == NULL ? &promise->first : &promise->last->next) = held;
    promise->last = held;
}

/* -- the order guard (D15) ----------------------------------------------------------------------------------------- */

bool tf_router_is_guarded(tf_router_peer *from, tf_local target)
{
    uint64_t lifted = 0;
    uint64_t processed = tf_session_peer_processed(from->session);
    if (from->guard_last <= processed) { /* all of them are lifted */
        tf_map_clear(&from->guards);
        return false;
    }
    if (from->guard_all > processed) {
        return true;
    }
    if (!tf_map_get(&from->guards, target, &lifted)) {
        return false;
    }
    if (lifted <= processed) {
        (void)tf_map_remove(&from->guards, target);
        return false;
    }
    return true;
}

static void raise_guard(tf_router_peer *from, tf_local target)
{
    uint64_t until = tf_session_sent(from->session);
    bool room = from->guards.count < GUARDS_MAX || tf_map_get(&from->guards, target, NULL);
    from->guard_last = until;
    if (!room || tf_map_put(&from->guards, target, until) != TF_OK) {
        from->guard_all = until;
    }
}

/* The refusal goes out at once: the guard is up until the sender has processed it. A message that wants no answer is lost, and
 * nobody would know what to send again: it raises no guard. */
void tf_router_overloaded(tf_router *r, const tf_parcel *parcel)
{
    r->stats.overloaded++;
    if (parcel->result == NULL) {
        return;
    }
    tf_router_reject(r, parcel->result, tf_refs_standard(&r->refs, TF_CODE_OVERLOADED));
    tf_router_peer *from = parcel->from;
    if (from == NULL || from->failed) {
        return;
    }
    tf_session_announce(parcel->result);
    tf_err err = tf_session_flush(from->session, r->now);
    if (err != TF_OK) {
        tf_router_fail(from, err);
        return;
    }
    raise_guard(from, parcel->target->local);
}

/* -- the way ------------------------------------------------------------------------------------------------------- */

/* A second name for a result that the next hop knows already (D8). NULL: no memory. */
static tf_record *second_name(tf_router *r, tf_record *result)
{
    if (tf_refs_reserve(&r->refs, 1) != TF_OK) {
        return NULL;
    }
    tf_record *second = tf_refs_add(&r->refs, TF_REF_PROMISE);
    second->forwards = result;
    result->source = second;
    tf_refs_hold(second);
    return second;
}

void tf_router_part_names(tf_router *r, tf_record *result)
{
    tf_record *second = result->source;
    result->source = NULL;
    second->forwards = NULL;
    tf_refs_release(&r->refs, second);
}

static tf_err send_over(tf_router *r, tf_session *session, const tf_parcel *parcel, tf_record *target)
{
    tf_delivery delivery = {.target = target,
                            .method = parcel->method,
                            .args = parcel->args,
                            .refs = parcel->refs,
                            .ref_count = parcel->ref_count,
                            .result = parcel->result,
                            .share = parcel->from == NULL ? 0 : parcel->from->share};
    bool second = parcel->result != NULL && tf_session_knows(session, parcel->result);
    if (second) {
        delivery.result = second_name(r, parcel->result);
        if (delivery.result == NULL) {
            return TF_ERR_NOMEM;
        }
    }
    tf_err err = tf_session_deliver(session, r->now, &delivery);
    if (err != TF_OK && second) {
        tf_router_part_names(r, parcel->result);
    }
    if (err == TF_OK && !second && parcel->result != NULL && parcel->result->first != NULL) {
        tf_router_follow_later(r, parcel->result); /* before anything else that is for this result */
    }
    return err;
}

/* Over the session of who hosts or decides the target. What comes from a peer and cannot be sent on is rejected. */
static tf_routed forward(tf_router *r, const tf_parcel *parcel, tf_record *target, tf_err *err)
{
    tf_router_peer *to = tf_router_peer_of(target->owner);
    *err = to == NULL || to->failed ? TF_ERR_AGAIN : send_over(r, target->owner, parcel, target);
    if (*err == TF_OK) {
        r->stats.forwarded += parcel->from == NULL ? 0 : 1;
        return TF_ROUTED;
    }
    if (parcel->from == NULL) {
        return TF_ROUTED_BACK;
    }
    if (*err == TF_ERR_LIMIT_BYTES) {
        tf_router_reject(r, parcel->result, tf_refs_standard(&r->refs, TF_CODE_MESSAGE_TOO_LARGE));
    } else {
        tf_router_overloaded(r, parcel);
    }
    return TF_ROUTED;
}

static tf_routed hold(tf_router *r, const tf_parcel *parcel, tf_record *promise, tf_err *err)
{
    tf_held *held = NULL;
    *err = tf_router_held_new(r, parcel, &held);
    if (*err == TF_OK) {
        wait_for(promise, held);
        return TF_ROUTED;
    }
    if (parcel->from == NULL) {
        return TF_ROUTED_BACK;
    }
    tf_router_overloaded(r, parcel);
    return TF_ROUTED;
}

/* What a resolved promise stands for; NULL: nothing that can be sent to, *answer is what its sender gets. */
static tf_record *final_target(const tf_router *r, tf_record *target, tf_value **answer)
{
    if (target->state == TF_RECORD_RESOLVED) {
        *answer = target->value->kind == TF_RESOLUTION_DATA ? tf_refs_standard(&r->refs, TF_CODE_CANNOT_SEND_TO_DATA)
                                                            : target->value;
        target = target->value->kind == TF_RESOLUTION_OBJECT ? target->value->object : NULL;
    }
    if (target != NULL && target->state == TF_RECORD_REVOKED) {
        *answer = target->value;
        target = NULL;
    }
    return target;
}

tf_routed tf_router_route(tf_router *r, const tf_parcel *parcel, tf_record **out, tf_err *err)
{
    tf_value *answer = NULL;
    tf_record *target = final_target(r, parcel->target, &answer);
    *err = TF_OK;
    if (parcel->from != NULL && parcel->result != NULL && tf_router_is_guarded(parcel->from, parcel->target->local)) {
        tf_router_overloaded(r, parcel);
        return TF_ROUTED;
    }
    if (target == NULL) {
        tf_router_reject(r, parcel->result, answer);
        return TF_ROUTED;
    }
    if (target->owner != NULL) {
        return forward(r, parcel, target, err);
    }
    if (target->kind == TF_REF_PROMISE) {
        return hold(r, parcel, target, err);
    }
    *out = target;
    return TF_ROUTED_TO_APP;
}

void tf_router_route_held(tf_router *r, tf_held *held)
{
    tf_record *target = NULL;
    tf_err err = TF_OK;
    switch (tf_router_route(r, &held->parcel, &target, &err)) {
    case TF_ROUTED_TO_APP:
        tf_refs_hold(target);
        tf_refs_release(&r->refs, held->parcel.target);
        held->parcel.target = target;
        tf_router_ready(r, held);
        return;
    case TF_ROUTED_BACK: /* it was taken from the application before: its answer says that it did not arrive */
        tf_router_reject(r, held->parcel.result, tf_refs_standard(&r->refs, TF_CODE_OVERLOADED));
        tf_router_held_free(r, held);
        return;
    case TF_ROUTED:
        tf_router_held_free(r, held);
        return;
    }
    TF_UNREACHABLE();
}
