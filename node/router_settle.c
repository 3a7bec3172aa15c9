/* Resolutions and revocations: when they count (D9), and what follows from them (D7, D8, D11 to D14). */
#include "node/router_internal.h"

#define FENCES_MIN 8u

/* -- what follows -------------------------------------------------------------------------------------------------- */

void tf_router_settle(tf_router *r, tf_record *record, tf_value *value)
{
    tf_refs_settle(&r->refs, record, value);
    tf_router_follow_later(r, record);
}

void tf_router_follow_later(tf_router *r, tf_record *record)
{
    if (record->is_settling) { /* soft, and now hard: once is enough */
        return;
    }
    tf_refs_hold(record);
    record->is_settling = true;
    record->settling_next = NULL;
    *(r->settling == NULL ? &r->settling : &r->settling_last->settling_next) = record;
    r->settling_last = record;
}

void tf_router_reject(tf_router *r, tf_record *result, tf_value *value)
{
    if (result != NULL && result->state == TF_RECORD_LIVE) {
        tf_router_settle(r, result, value);
    }
}

static void release_held(tf_router *r, tf_record *promise)
{
    tf_held *held = promise->first;
    promise->first = NULL;
    promise->last = NULL;
    while (held != NULL) {
        tf_held *next = held->next;
        tf_router_route_held(r, held);
        held = next;
    }
}

/* The result that this promise stands for at a next hop (D8). */
static void pass_on(tf_router *r, tf_record *second)
{
    tf_record *result = second->forwards;
    if (result == NULL) {
        return;
    }
    tf_router_part_names(r, result);
    if (result->state == TF_RECORD_LIVE) {
        tf_router_settle(r, result, second->value); /* idle at most, and there until somebody takes the idle ones */
    }
}

/* D9: the held messages go, then the announcement. */
static void follow(tf_router *r, tf_record *record)
{
    if (record->kind == TF_REF_PROMISE) {
        release_held(r, record);
    }
    record->is_settling = false; /* until now nobody was told (tf_session_note_named) */
    if (record->state == TF_RECORD_LIVE) { /* a result whose message has gone to its decider: what waited for that goes there */
        return;
    }
    if (record->kind == TF_REF_PROMISE) {
        pass_on(r, record);
    }
    if (record->holds > 0) {
        tf_router_note(r, record);
    }
    tf_session_announce(record);
}

bool tf_router_settle_all(tf_router *r)
{
    bool any = r->settling != NULL;
    while (r->settling != NULL) {
        tf_record *record = r->settling;
        r->settling = record->settling_next;
        follow(r, record);
        tf_refs_release(&r->refs, record);
    }
    return any;
}

/* -- fences (D9) --------------------------------------------------------------------------------------------------- */

static void swap(tf_fence *a, tf_fence *b)
{
    tf_fence fence = *a;
    *a = *b;
    *b = fence;
}

static void sift_up(tf_router_peer *peer, size_t at)
{
    tf_fence *heap = peer->fences;
    for (; at > 0 && heap[at].until < heap[(at - 1) / 2].until; at = (at - 1) / 2) {
        swap(&heap[at], &heap[(at - 1) / 2]);
    }
}

static void sift_down(tf_router_peer *peer)
{
    tf_fence *heap = peer->fences;
    size_t count = peer->fence_count;
    for (size_t at = 0, child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1].until < heap[child].until) {
            child++;
        }
        if (heap[at].until <= heap[child].until) {
            return;
        }
        swap(&heap[at], &heap[child]);
        at = child;
    }
}

static tf_err reserve_fence(tf_router *r, tf_router_peer *peer)
{
    if (peer->fence_count < peer->fence_capacity) {
        return TF_OK;
    }
    size_t capacity = peer->fence_capacity < FENCES_MIN ? FENCES_MIN : 2 * peer->fence_capacity;
    tf_fence *fences = tf_alloc(r->mem, capacity * sizeof(*fences));
    if (fences == NULL) {
        return TF_ERR_NOMEM;
    }
    if (peer->fence_count > 0) {
        memcpy(fences, peer->fences, peer->fence_count * sizeof(*fences));
    }
    tf_free(r->mem, peer->fences, peer->fence_capacity * sizeof(*fences));
    peer->fences = fences;
    peer->fence_capacity = capacity;
    return TF_OK;
}

static tf_err raise_fence(tf_router *r, tf_router_peer *peer, tf_record *promise, tf_value *value, uint64_t until)
{
    tf_err err = reserve_fence(r, peer);
    if (err != TF_OK) {
        return err;
    }
    tf_refs_hold(promise);
    promise->is_fenced = true;
    peer->fences[peer->fence_count] = (tf_fence){.until = until, .promise = promise, .value = tf_value_use(value)};
    sift_up(peer, peer->fence_count++);
    r->stats.fences++;
    return TF_OK;
}

/* The promise of the fence becomes `value`. */
static void take_fence(tf_router *r, tf_fence *fence, tf_value *value)
{
    fence->promise->is_fenced = false;
    tf_router_settle(r, fence->promise, value);
    tf_value_release(&r->refs, fence->value);
    tf_refs_release(&r->refs, fence->promise);
    r->stats.fences--;
}

void tf_router_lift_fences(tf_router *r, tf_router_peer *peer)
{
    uint64_t processed = tf_session_peer_processed(peer->session);
    while (peer->fence_count > 0 && peer->fences[0].until <= processed) {
        tf_fence fence = peer->fences[0];
        peer->fences[0] = peer->fences[--peer->fence_count];
        sift_down(peer);
        take_fence(r, &fence, fence.value);
    }
}

void tf_router_break_fences(tf_router *r, tf_router_peer *peer)
{
    for (size_t i = 0; i < peer->fence_count; i++) {
        take_fence(r, &peer->fences[i], tf_refs_standard(&r->refs, TF_CODE_DISCONNECTED));
    }
    tf_free(r->mem, peer->fences, peer->fence_capacity * sizeof(*peer->fences));
    peer->fences = NULL;
    peer->fence_count = 0;
    peer->fence_capacity = 0;
}

/* -- events of a session ------------------------------------------------------------------------------------------- */

/* Only the application waits for it: it gets what the message says without a copy. */
static bool is_for_app_only(const tf_record *promise, const tf_session_event *event)
{
    return promise->holds > 0 && promise->count == promise->holds && promise->forwards == NULL && !event->mentioned;
}

static bool needs_fence(const tf_router_peer *peer, const tf_session_event *event)
{
    return event->kind == TF_RESOLUTION_OBJECT && event->object->owner != peer->session &&
           event->piped > tf_session_peer_processed(peer->session);
}

/* How far the value of an event has come, with this node: what it names may come home round a ring of nodes as another name of
 * itself, which is resolved by that, and so on; the more it names, the sooner that must end (D13). */
static uint32_t hops_of(const tf_session_event *event)
{
    size_t names = 0;
    for (size_t i = 0; i < event->ref_count; i++) {
        names += event->type == TF_SESSION_REVOKED || event->refs[i]->kind == TF_REF_PROMISE ? 1 : 0;
    }
    uint32_t hops = event->hops + 1;
    for (; names > 0; names /= 2) {
        hops++;
    }
    return hops;
}

/* The value of an event. NULL: no memory. */
static tf_value *value_of(tf_router *r, const tf_session_event *event)
{
    uint32_t hops = hops_of(event);
    if (hops > TF_HOPS_MAX) {
        bool revoked = event->type == TF_SESSION_REVOKED;
        return tf_value_use(tf_refs_standard(&r->refs, revoked ? TF_CODE_REVOKED : TF_CODE_TOO_FAR));
    }
    tf_record *object = event->kind == TF_RESOLUTION_OBJECT ? event->object : NULL;
    tf_value *value = tf_value_new(&r->refs, event->kind, object, event->data, event->refs, event->ref_count);
    if (value != NULL) {
        value->hops = hops;
    }
    return value;
}

static tf_err show_resolved(tf_router *r, const tf_session_event *event, tf_router_event *out)
{
    tf_err err = tf_router_show(r, event->refs, event->ref_count);
    *out = (tf_router_event){.type = TF_ROUTER_RESOLVED,
                             .local = event->local,
                             .refs = r->mentions,
                             .ref_count = event->ref_count,
                             .kind = event->kind,
                             .data = event->data};
    if (event->kind == TF_RESOLUTION_OBJECT) {
        out->object = (tf_mention){event->object->local, TF_REF_OBJECT};
    }
    return err;
}

/* Memory ran out: the peer goes, and with it what it has said. */
static void give_up(tf_router *r, tf_router_peer *peer, tf_record *promise, tf_err err)
{
    tf_router_settle(r, promise, tf_refs_standard(&r->refs, TF_CODE_DISCONNECTED));
    tf_router_fail(peer, err);
}

static bool tell_app(tf_router *r, tf_router_peer *peer, const tf_session_event *event, tf_router_event *out)
{
    tf_record *promise = event->record;
    tf_err err = show_resolved(r, event, out);
    if (err != TF_OK) {
        give_up(r, peer, promise, err);
        return false;
    }
    tf_refs_settle(&r->refs, promise, tf_refs_standard(&r->refs, TF_CODE_DISCONNECTED)); /* nobody asks any more */
    promise->count = 0;
    promise->holds = 0;
    tf_refs_set_idle(&r->refs, promise);
    return true;
}

bool tf_router_resolved(tf_router *r, tf_router_peer *peer, const tf_session_event *event, tf_router_event *out)
{
    tf_record *promise = event->record;
    bool fenced = needs_fence(peer, event);
    if (!fenced && is_for_app_only(promise, event)) {
        return tell_app(r, peer, event, out);
    }
    tf_value *value = value_of(r, event);
    tf_err err = value == NULL ? TF_ERR_NOMEM : TF_OK;
    if (err == TF_OK && fenced) {
        err = raise_fence(r, peer, promise, value, event->piped);
    }
    if (err != TF_OK) {
        give_up(r, peer, promise, err);
    } else if (!fenced) {
        tf_router_settle(r, promise, value);
    }
    tf_value_release(&r->refs, value);
    return false;
}

void tf_router_revoked(tf_router *r, tf_router_peer *peer, const tf_session_event *event)
{
    tf_record *object = event->record;
    bool becomes_hard = event->hard && !object->hard;
    if (object->state == TF_RECORD_REVOKED && !becomes_hard) {
        return;
    }
    tf_value *value = value_of(r, event);
    if (value == NULL) {
        tf_router_fail(peer, TF_ERR_NOMEM);
        value = tf_value_use(tf_refs_standard(&r->refs, TF_CODE_DISCONNECTED));
    }
    object->hard = event->hard;
    tf_router_settle(r, object, value);
    tf_value_release(&r->refs, value);
}
