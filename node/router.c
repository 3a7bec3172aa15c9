#include "node/router_internal.h"

#include "proto/clist.h"

#define MENTIONS_MIN 16u
#define COLLECT_DELAY (1 * TF_SECOND)

/* -- life ---------------------------------------------------------------------------------------------------------- */

tf_err tf_router_new(tf_router **out, const tf_mem *mem, uint64_t hash_key)
{
    tf_router *r = tf_alloc(mem, sizeof(*r));
    if (r == NULL) {
        return TF_ERR_NOMEM;
    }
    *r = (tf_router){.mem = mem, .hash_key = hash_key, .collect_at = TF_NEVER};
    tf_list_init(&r->peers);
    tf_list_init(&r->failed);
    tf_err err = tf_refs_init(&r->refs, mem, hash_key);
    if (err != TF_OK) {
        tf_free(mem, r, sizeof(*r));
        return err;
    }
    *out = r;
    return TF_OK;
}

static void free_chain(tf_router *r, tf_held **chain)
{
    while (*chain != NULL) {
        tf_held *held = *chain;
        *chain = held->next;
        tf_router_held_free(r, held);
    }
}

/* What still waits for promises of this node. */
static void free_waiting(tf_router *r)
{
    size_t position = 0;
    uint64_t local = 0;
    uint64_t value = 0;
    while (tf_map_next(&r->refs.by_local, &position, &local, &value)) {
        tf_record *record = (tf_record *)(uintptr_t)value;
        free_chain(r, &record->first);
    }
}

void tf_router_free(tf_router *r)
{
    if (r == NULL) {
        return;
    }
    TF_ASSERT(tf_list_is_empty(&r->peers));
    tf_router_held_free(r, r->current);
    free_chain(r, &r->ready);
    free_waiting(r);
    tf_refs_clear(&r->refs);
    tf_free(r->mem, r->mentions, r->mention_capacity * sizeof(*r->mentions));
    tf_free(r->mem, r->named, r->named_capacity * sizeof(*r->named));
    tf_free(r->mem, r, sizeof(*r));
}

tf_refs *tf_router_refs(tf_router *r)
{
    return &r->refs;
}

void tf_router_clock(tf_router *r, tf_time now)
{
    TF_ASSERT(now >= r->now);
    r->now = now;
}

/* -- sessions ------------------------------------------------------------------------------------------------------ */

tf_router_peer *tf_router_peer_of(const tf_session *session)
{
    return session == NULL ? NULL : tf_session_user(session);
}

void *tf_router_owner(const tf_session *session)
{
    const tf_router_peer *peer = tf_router_peer_of(session);
    return peer == NULL ? NULL : peer->owner;
}

tf_err tf_router_attach(tf_router *r, tf_session *session, void *owner)
{
    TF_ASSERT(tf_session_user(session) == NULL);
    tf_router_peer *peer = tf_alloc(r->mem, sizeof(*peer));
    if (peer == NULL) {
        return TF_ERR_NOMEM;
    }
    *peer = (tf_router_peer){.router = r, .session = session, .owner = owner, .share = ++r->last_share};
    tf_map_init(&peer->guards, r->mem, r->hash_key);
    tf_list_init(&peer->held);
    tf_list_append(&r->peers, &peer->in_peers);
    tf_session_set_user(session, peer);
    return TF_OK;
}

void tf_router_fail(tf_router_peer *peer, tf_err err)
{
    if (peer->failed) {
        return;
    }
    peer->failed = true;
    peer->failure = err;
    tf_list_append(&peer->router->failed, &peer->in_failed);
}

bool tf_router_next_failed(tf_router *r, tf_session **session, tf_err *err)
{
    tf_list_node *node = tf_list_first(&r->failed);
    if (node == NULL) {
        return false;
    }
    tf_list_remove(node);
    const tf_router_peer *peer = TF_CONTAINER(node, tf_router_peer, in_failed);
    *session = peer->session;
    *err = peer->failure;
    return true;
}

/* D14 */
static void end_session(tf_router *r, tf_router_peer *peer)
{
    tf_session_event event;
    tf_session_end(peer->session);
    while (tf_session_next_event(peer->session, &event)) {
        if (event.type == TF_SESSION_RESOLVED) {
            tf_router_settle(r, event.record, tf_refs_standard(&r->refs, TF_CODE_DISCONNECTED));
        } else if (event.type == TF_SESSION_REVOKED) {
            tf_router_revoked(r, peer, &event);
        }
    }
}

void tf_router_detach(tf_router *r, tf_time now, tf_session *session)
{
    tf_router_peer *peer = tf_router_peer_of(session);
    if (peer == NULL) {
        return;
    }
    tf_router_clock(r, now);
    if (r->turn == peer) {
        r->turn = NULL;
    }
    if (r->ended_turn == peer) {
        r->ended_turn = NULL;
    }
    peer->failed = true; /* nothing is sent to it any more */
    tf_router_release(r, now, tf_session_peer_root(session)); /* held since the session was made */
    tf_router_break_fences(r, peer);
    end_session(r, peer);
    tf_router_disown_held(r, peer);
    (void)tf_router_settle_all(r);
    tf_router_flush(r);
    tf_session_set_user(session, NULL);
    tf_list_remove(&peer->in_peers);
    tf_list_remove(&peer->in_failed);
    tf_map_clear(&peer->guards);
    tf_free(r->mem, peer, sizeof(*peer));
}

void tf_router_flush(tf_router *r)
{
    for (tf_session *session; (session = tf_session_take_due(&r->refs)) != NULL;) {
        tf_router_peer *peer = tf_router_peer_of(session);
        tf_err err = peer == NULL || peer->failed ? TF_OK : tf_session_flush(session, r->now);
        if (err != TF_OK) {
            tf_router_fail(peer, err);
        }
    }
}

/* -- events -------------------------------------------------------------------------------------------------------- */

tf_err tf_router_show(tf_router *r, tf_record *const *refs, size_t count)
{
    if (count > r->mention_capacity) {
        size_t capacity = count + MENTIONS_MIN;
        tf_mention *mentions = tf_alloc(r->mem, capacity * sizeof(*mentions));
        if (mentions == NULL) {
            return TF_ERR_NOMEM;
        }
        tf_free(r->mem, r->mentions, r->mention_capacity * sizeof(*mentions));
        r->mentions = mentions;
        r->mention_capacity = capacity;
    }
    for (size_t i = 0; i < count; i++) {
        r->mentions[i] = (tf_mention){refs[i]->local, refs[i]->kind};
    }
    return TF_OK;
}

static tf_router_event delivery(const tf_router *r, const tf_parcel *parcel, tf_record *target)
{
    if (parcel->result != NULL) {
        parcel->result->is_own = true;
    }
    return (tf_router_event){
        .type = TF_ROUTER_DELIVER,
        .session = parcel->from == NULL ? NULL : parcel->from->session,
        .local = target->local,
        .method = parcel->method,
        .args = parcel->args,
        .result = parcel->result == NULL ? TF_LOCAL_NONE : parcel->result->local,
        .refs = parcel->ref_count == 0 ? NULL : r->mentions,
        .ref_count = parcel->ref_count,
    };
}

/* What the last event showed is let go. */
static void clear_shown(tf_router *r)
{
    tf_router_held_free(r, r->current);
    r->current = NULL;
    if (r->shown != NULL) {
        tf_refs_release(&r->refs, r->shown);
        r->shown = NULL;
    }
}

/* A message that waited is for the application. */
static bool take_ready(tf_router *r, tf_router_event *out)
{
    while (r->ready != NULL) {
        tf_held *held = r->ready;
        r->ready = held->next;
        if (tf_router_show(r, held->parcel.refs, held->parcel.ref_count) != TF_OK) {
            tf_router_reject(r, held->parcel.result, tf_refs_standard(&r->refs, TF_CODE_OVERLOADED));
            tf_router_held_free(r, held);
            continue;
        }
        r->current = held;
        *out = delivery(r, &held->parcel, held->parcel.target);
        return true;
    }
    return false;
}

/* The holds of the application end with the RESOLVED event. */
static void give_back(tf_router *r, tf_record *record)
{
    for (; record->holds > 0;) {
        record->holds--;
        tf_refs_release(&r->refs, record);
    }
}

/* Without memory for what it mentions it is a rejection, or an error, of the node's own. */
static tf_router_event resolution(tf_router *r, const tf_record *record)
{
    const tf_value *value = record->value;
    if (tf_router_show(r, value->refs, value->ref_count) != TF_OK) {
        value = tf_refs_standard(&r->refs, record->kind == TF_REF_PROMISE ? TF_CODE_OVERLOADED : TF_CODE_REVOKED);
    }
    tf_router_event event = {.type = record->kind == TF_REF_PROMISE ? TF_ROUTER_RESOLVED : TF_ROUTER_REVOKED,
                             .local = record->local,
                             .refs = value->ref_count == 0 ? NULL : r->mentions,
                             .ref_count = value->ref_count,
                             .kind = value->kind,
                             .data = value->data,
                             .hard = record->hard};
    if (value->kind == TF_RESOLUTION_OBJECT) {
        event.object = (tf_mention){value->object->local, TF_REF_OBJECT};
    }
    return event;
}

static bool take_noted(tf_router *r, tf_router_event *out)
{
    while (r->noted != NULL) {
        tf_record *record = r->noted;
        r->noted = record->note_next;
        record->is_noted = false;
        r->shown = record; /* the note's hold goes over to it */
        if (record->holds == 0) {
            clear_shown(r);
            continue;
        }
        *out = resolution(r, record);
        if (record->kind == TF_REF_PROMISE) {
            give_back(r, record);
        }
        return true;
    }
    return false;
}

/* True: *out is a message for the application. */
static bool on_deliver(tf_router *r, tf_router_peer *peer, const tf_session_event *event, tf_router_event *out)
{
    tf_parcel parcel = {.from = peer,
                        .target = event->record,
                        .method = event->method,
                        .args = event->args,
                        .result = event->result,
                        .refs = event->refs,
                        .ref_count = event->ref_count};
    tf_record *target = NULL;
    tf_err err = TF_OK;
    if (tf_router_route(r, &parcel, &target, &err) != TF_ROUTED_TO_APP) {
        return false;
    }
    err = tf_router_show(r, parcel.refs, parcel.ref_count);
    if (err != TF_OK) {
        tf_router_fail(peer, err);
        return false;
    }
    *out = delivery(r, &parcel, target);
    return true;
}

static bool on_session_event(tf_router *r, tf_router_peer *peer, const tf_session_event *event, tf_router_event *out)
{
    switch (event->type) {
    case TF_SESSION_DELIVER:
        return on_deliver(r, peer, event, out);
    case TF_SESSION_RESOLVED:
        return tf_router_resolved(r, peer, event, out);
    case TF_SESSION_REVOKED:
        tf_router_revoked(r, peer, event);
        return false;
    case TF_SESSION_DROPPED:
        *out = (tf_router_event){.type = TF_ROUTER_DROPPED, .session = peer->session, .local = event->local};
        return true;
    }
    TF_UNREACHABLE();
}

/* -- the turn ------------------------------------------------------------------------------------------------------ */

tf_err tf_router_recv(tf_router *r, tf_session *session, tf_time now, tf_slice message)
{
    tf_router_peer *peer = tf_router_peer_of(session);
    TF_ASSERT(peer != NULL && r->turn == NULL && r->ended_turn == NULL);
    tf_router_clock(r, now);
    tf_err err = tf_session_recv(session, now, message);
    if (err == TF_OK) {
        r->turn = peer;
    }
    return err;
}

/* All of the message was acted on. */
static void end_turn(tf_router *r)
{
    r->ended_turn = r->turn;
    r->turn = NULL;
    tf_session_done(r->ended_turn->session, r->now);
}

/* The end of D3: the drops that the message caused, then the fences that its ack lifts. */
static void finish_turn(tf_router *r)
{
    tf_router_peer *peer = r->ended_turn;
    r->ended_turn = NULL;
    tf_err err = peer->failed ? TF_OK : tf_session_flush(peer->session, r->now);
    if (err != TF_OK) {
        tf_router_fail(peer, err);
    }
    tf_router_lift_fences(r, peer);
}

/* Events of the message in work. */
static bool take_turn(tf_router *r, tf_router_event *out)
{
    tf_session_event event;
    while (r->turn != NULL && tf_session_next_event(r->turn->session, &event)) {
        if (on_session_event(r, r->turn, &event, out)) {
            return true;
        }
    }
    return false;
}

static bool is_unwanted(const tf_record *record)
{
    return record->count == 0 && record->exports == NULL && !record->is_noted && !record->is_settling;
}

/* An idle record that nobody refers to. True: the application is to hear of it. */
static bool forget(tf_router *r, tf_record *record, tf_router_event *out)
{
    bool tell = record->is_own && (record->kind == TF_REF_OBJECT || record->state == TF_RECORD_LIVE);
    if (record->owner != NULL) {
        tf_session_unneeded(record);
        return false;
    }
    if (record->source != NULL) {
        tf_router_part_names(r, record);
    }
    *out = (tf_router_event){.type = TF_ROUTER_GONE, .local = record->local};
    tf_refs_remove(&r->refs, record);
    return tell;
}

static bool sweep(tf_router *r, tf_router_event *out)
{
    for (tf_record *record; (record = tf_refs_take_idle(&r->refs)) != NULL;) {
        if (is_unwanted(record) && forget(r, record, out)) {
            return true;
        }
    }
    return false;
}

static bool collect(tf_router *r)
{
    if (!tf_refs_collect_is_due(&r->refs)) {
        return false;
    }
    size_t found = tf_refs_collect_cycles(&r->refs);
    r->stats.cycles += found;
    return found > 0;
}

/* What is due once no event is left. False: nothing was. */
static bool go_on(tf_router *r)
{
    tf_router_flush(r); /* what was resolved is told before the turn ends */
    if (r->turn != NULL) {
        end_turn(r);
        return true;
    }
    return false;
}

static bool settle_down(tf_router *r)
{
    bool collected = collect(r);
    tf_router_flush(r); /* what nobody needs is dropped, and nobody's then */
    if (r->refs.idle == NULL && r->ended_turn != NULL) {
        finish_turn(r);
        return true;
    }
    return collected || r->refs.idle != NULL || r->settling != NULL;
}

/* What was resolved or let go since may have left a dead cycle behind: it is looked for later, when it is quiet. */
static void arm_collector(tf_router *r)
{
    if (r->refs.linked_count == 0 || !r->refs.linked_since) {
        r->collect_at = TF_NEVER;
    } else if (r->collect_at == TF_NEVER) {
        r->collect_at = tf_time_add(r->now, COLLECT_DELAY);
    }
}

bool tf_router_next_event(tf_router *r, tf_router_event *out)
{
    clear_shown(r);
    do {
        do {
            if (take_ready(r, out) || take_noted(r, out) || take_turn(r, out)) {
                return true;
            }
        } while (tf_router_settle_all(r) || go_on(r));
        if (sweep(r, out)) {
            return true;
        }
    } while (settle_down(r));
    arm_collector(r);
    return false;
}

bool tf_router_has_events(const tf_router *r)
{
    return r->ready != NULL || r->noted != NULL || r->turn != NULL || r->ended_turn != NULL || r->settling != NULL || r->refs.idle != NULL ||
           r->refs.due != NULL || r->current != NULL || r->shown != NULL;
}

tf_time tf_router_deadline(const tf_router *r)
{
    return r->collect_at;
}

void tf_router_tick(tf_router *r, tf_time now)
{
    tf_router_clock(r, now);
    if (now >= r->collect_at) {
        r->stats.cycles += tf_refs_collect_cycles(&r->refs);
        arm_collector(r);
    }
}

/* -- what it tells ------------------------------------------------------------------------------------------------- */

void tf_router_get_stats(const tf_router *r, tf_router_stats *out)
{
    *out = r->stats;
    out->records = r->refs.count;
    out->resolved = r->refs.resolved_count;
}

bool tf_router_describe(const tf_router *r, tf_local local, tf_session **owner, size_t *exports, bool *revoked)
{
    const tf_record *record = tf_refs_find(&r->refs, local);
    if (record == NULL) {
        return false;
    }
    *owner = record->owner;
    *revoked = record->state == TF_RECORD_REVOKED;
    *exports = 0;
    for (const tf_clist_entry *entry = record->exports; entry != NULL; entry = entry->export_next) {
        *exports += 1;
    }
    return true;
}
