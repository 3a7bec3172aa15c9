#include "proto/session_internal.h"

#define SCRATCH_KEPT ((size_t)64 * 1024)

static uint32_t at_most(uint32_t value, uint32_t most)
{
    return value < most ? value : most;
}

static tf_session_limits clamp(const tf_session_limits *limits)
{
    return (tf_session_limits){
        .max_message = at_most(limits->max_message, TF_MESSAGE_MAX),
        .max_refs = at_most(limits->max_refs, TF_REFS_MAX),
        .max_promises = at_most(limits->max_promises, TF_PROMISES_MAX),
        .max_results = at_most(limits->max_results, TF_RESULTS_MAX),
    };
}

static void init(tf_session *s, const tf_session_config *config)
{
    *s = (tf_session){
        .mem = config->mem,
        .ids = config->ids,
        .side = config->side,
        .local = clamp(&config->local),
        .remote = clamp(&config->remote),
        .next_out = {[TF_REF_OBJECT] = 1},
        .next_in = {[TF_REF_OBJECT] = 1},
        .refs.size = sizeof(tf_ref),
        .order.size = sizeof(tf_session_named),
        .turn.events.size = sizeof(tf_turn_event),
        .turn.mentions.size = sizeof(tf_mention),
        .turn.gone.size = sizeof(tf_local),
    };
    tf_clist_init(&s->clist, config->side, config->mem, config->hash_key);
    tf_retire_init(&s->retire, config->mem);
    tf_map_init(&s->pins, config->mem, config->hash_key);
    tf_map_init(&s->waiting, config->mem, config->hash_key);
}

tf_err tf_session_new(tf_session **out, const tf_session_config *config)
{
    if (config->remote.max_message < TF_MESSAGE_MIN_LIMIT || config->local.max_message < TF_MESSAGE_MIN_LIMIT ||
        config->root == TF_LOCAL_NONE) {
        return TF_ERR_USAGE;
    }
    tf_err err = TF_ERR_NOMEM;
    tf_session *s = tf_alloc(config->mem, sizeof(*s));
    if (s == NULL) {
        goto out;
    }
    init(s, config);
    err = tf_clist_reserve(&s->clist, 2);
    if (err != TF_OK) {
        goto out;
    }
    tf_side other = tf_side_other(s->side);
    (void)tf_clist_add(&s->clist, tf_ref_make(0, TF_REF_OBJECT, s->side), config->root, TF_CLIST_EXPORT);
    s->peer_root = tf_local_next(s->ids);
    tf_clist_add(&s->clist, tf_ref_make(0, TF_REF_OBJECT, other), s->peer_root, TF_CLIST_IMPORT)->holds = 1;
    *out = s;
    s = NULL; /* handed over */
out:
    tf_session_free(s);
    return err;
}

static void free_scratch(tf_session *s)
{
    tf_scratch_trim(&s->refs, s->mem, 0);
    tf_scratch_trim(&s->order, s->mem, 0);
    tf_scratch_trim(&s->turn.events, s->mem, 0);
    tf_scratch_trim(&s->turn.mentions, s->mem, 0);
    tf_scratch_trim(&s->turn.gone, s->mem, 0);
}

void tf_session_free(tf_session *s)
{
    if (s == NULL) {
        return;
    }
    tf_session_held_clear(s);
    tf_session_event_clear(s);
    for (tf_clist_entry *entry = s->clist.first; entry != NULL; entry = entry->next) {
        tf_session_kept_release(s, entry->kept);
    }
    tf_session_kept_release(s, s->turn.owed.kept);
    tf_clist_clear(&s->clist);
    tf_retire_clear(&s->retire);
    tf_map_clear(&s->pins);
    tf_map_clear(&s->waiting);
    tf_session_queue_clear(&s->out, s->mem);
    free_scratch(s);
    tf_free(s->mem, s, sizeof(*s));
}

tf_local tf_session_peer_root(const tf_session *s)
{
    return s->peer_root;
}

tf_session_fault tf_session_get_fault(const tf_session *s)
{
    return s->fault;
}

void tf_session_clock(tf_session *s, tf_time now)
{
    TF_ASSERT(now >= s->now);
    s->now = now;
}

/* -- counts of the application ------------------------------------------------------------------------------------- */

static tf_clist_entry *find_import(const tf_session *s, tf_local import)
{
    tf_clist_entry *entry = tf_clist_by_local(&s->clist, import);
    return entry != NULL && entry->role == TF_CLIST_IMPORT ? entry : NULL;
}

void tf_session_hold(tf_session *s, tf_local import)
{
    tf_clist_entry *entry = find_import(s, import);
    if (entry != NULL) {
        TF_ASSERT(entry->holds < UINT32_MAX);
        entry->holds++;
    }
}

void tf_session_release(tf_session *s, tf_time now, tf_local import)
{
    tf_session_clock(s, now);
    tf_clist_entry *entry = find_import(s, import);
    if (entry == NULL || s->ended) {
        return;
    }
    TF_ASSERT(entry->holds > 0);
    entry->holds--;
    if (entry->holds > 0) {
        return;
    }
    tf_clist_touch(&s->clist, entry);
    if (!s->turn.open && tf_session_flush_drops(s) != TF_OK) {
        return; /* it stays touched: tick tries again, and tells */
    }
}

/* -- events -------------------------------------------------------------------------------------------------------- */

void tf_session_note_gone(tf_session *s, tf_local local)
{
    if (s->ended) {
        s->ended_gone = local;
        return;
    }
    tf_scratch *gone = &s->turn.gone;
    TF_ASSERT(gone->count < gone->capacity);
    ((tf_local *)gone->items)[gone->count++] = local;
}

void tf_session_forget_import(tf_session *s, tf_clist_entry *entry)
{
    if (tf_ref_side_of(entry->ref) == s->side) {
        s->turn.freed[TF_REF_PROMISE]++;
    }
    tf_clist_remove(&s->clist, entry);
}

void tf_session_forget_resolved(tf_session *s, tf_clist_entry *entry)
{
    tf_local local = entry->local;
    bool own = tf_ref_side_of(entry->ref) == s->side;
    if (entry->object != TF_LOCAL_NONE) {
        tf_session_unpin(s, entry->object);
    }
    tf_session_kept_release(s, entry->kept);
    entry->kept = NULL;
    tf_clist_remove(&s->clist, entry);
    if (own) { /* it pinned its own id: several such refs may name one promise */
        tf_session_owe_dropped(s, local);
        tf_session_unpin(s, local);
    } else {
        tf_session_note_gone(s, local);
    }
}

/* Whether nothing refers to a local id after all: since the peer let go of it, it may have been mentioned again. */
static bool is_gone(tf_session *s, tf_local local)
{
    if (tf_session_has_pin(s, local)) {
        tf_session_owe_dropped(s, local);
        return false;
    }
    return tf_clist_by_local(&s->clist, local) == NULL;
}

static bool take_gone(tf_session *s, tf_session_event *out)
{
    tf_turn *turn = &s->turn;
    while (turn->gone_taken < turn->gone.count) {
        tf_local local = ((tf_local *)turn->gone.items)[turn->gone_taken++];
        if (is_gone(s, local)) {
            *out = (tf_session_event){.type = TF_SESSION_DROPPED, .local = local};
            return true;
        }
    }
    return false;
}

static bool take_message_event(tf_session *s, tf_session_event *out)
{
    tf_turn *turn = &s->turn;
    if (turn->events_taken == turn->events.count) {
        return false;
    }
    const tf_turn_event *next = (tf_turn_event *)turn->events.items + turn->events_taken++;
    *out = next->event;
    if (next->resolved != NULL) {
        tf_session_forget_import(s, next->resolved);
    }
    return true;
}

/* One entry of the c-list of a session that ended goes; true when *out tells of it (D14). */
static bool end_entry(tf_session *s, tf_clist_entry *entry, tf_session_event *out)
{
    s->ended_gone = TF_LOCAL_NONE;
    tf_local local = entry->local;
    if (entry->role == TF_CLIST_IMPORT) {
        bool told = entry->state == TF_CLIST_LIVE && tf_ref_kind_of(entry->ref) == TF_REF_PROMISE && entry->holds > 0;
        tf_clist_remove(&s->clist, entry);
        *out = (tf_session_event){.type = TF_SESSION_RESOLVED,
                                  .local = local,
                                  .kind = TF_RESOLUTION_REJECTION,
                                  .data = tf_session_rejection(TF_SESSION_DISCONNECTED)};
        return told;
    }
    if (entry->state == TF_CLIST_RESOLVED) {
        tf_session_forget_resolved(s, entry);
    } else {
        tf_clist_remove(&s->clist, entry);
        tf_session_note_gone(s, local);
    }
    *out = (tf_session_event){.type = TF_SESSION_DROPPED, .local = local};
    return s->ended_gone != TF_LOCAL_NONE && is_gone(s, local);
}

static bool take_end(tf_session *s, tf_session_event *out)
{
    while (s->clist.first != NULL) {
        if (end_entry(s, s->clist.first, out)) {
            return true;
        }
    }
    return false;
}

bool tf_session_next_event(tf_session *s, tf_session_event *out)
{
    tf_session_event_clear(s);
    if (tf_session_held_take(s, out) || take_message_event(s, out) || tf_session_answer_take(s, out)) {
        s->turn.open = true;
        return true;
    }
    return take_gone(s, out) || (s->ended && take_end(s, out)) || tf_session_take_pin(s, out);
}

bool tf_session_has_events(const tf_session *s)
{
    return s->ready != NULL || s->answers != NULL || s->pins_due > 0;
}

static void close_turn(tf_session *s)
{
    tf_turn *turn = &s->turn;
    turn->open = false;
    turn->has_message = false;
    turn->to_promise = false;
    turn->freed[TF_REF_OBJECT] = 0;
    turn->freed[TF_REF_PROMISE] = 0;
    turn->events_taken = 0;
    turn->gone_taken = 0;
    tf_scratch_trim(&turn->events, s->mem, SCRATCH_KEPT);
    tf_scratch_trim(&turn->mentions, s->mem, SCRATCH_KEPT);
    tf_scratch_trim(&turn->gone, s->mem, SCRATCH_KEPT);
}

void tf_session_oblige_ack(tf_session *s)
{
    if (s->ack_wanted <= s->acked) {
        s->ack_due = tf_time_add(s->now, TF_SESSION_ACK_DELAY);
    }
    s->ack_wanted = s->processed + 1;
}

/* A deliver to a promise that is resolved by now, and whose RESOLVE is unacked: its sender may wait for our ack before it
 * acts on the resolution. */
static void oblige_ack_to_sender(tf_session *s)
{
    if (s->turn.has_message && s->turn.to_promise) {
        const tf_clist_entry *entry = tf_clist_by_ref(&s->clist, s->turn.promise);
        if (entry != NULL && entry->state == TF_CLIST_RESOLVED) {
            tf_session_oblige_ack(s);
        }
    }
}

tf_err tf_session_done(tf_session *s, tf_time now)
{
    tf_session_clock(s, now);
    if (s->ended) {
        return TF_OK;
    }
    TF_ASSERT(s->turn.events_taken == s->turn.events.count && s->turn.gone_taken == s->turn.gone.count);
    tf_session_event_clear(s);
    if (s->failed != TF_OK) {
        return s->failed;
    }
    oblige_ack_to_sender(s);
    if (s->turn.has_message) {
        s->processed++;
    }
    close_turn(s);
    return tf_session_flush_drops(s);
}

void tf_session_end(tf_session *s)
{
    s->ended = true;
    s->turn.events_taken = s->turn.events.count;
    tf_session_kept_release(s, s->turn.owed.kept);
    s->turn.owed = (tf_owed){0};
    tf_session_held_clear(s);
}

void tf_session_trim(tf_session *s)
{
    if (s->turn.open || s->ended) {
        return;
    }
    tf_clist_trim(&s->clist);
    tf_retire_trim(&s->retire);
    tf_map_trim(&s->pins);
    tf_map_trim(&s->waiting);
    if (s->out.items == 0) {
        tf_session_queue_clear(&s->out, s->mem);
    }
    free_scratch(s);
}

/* -- time ---------------------------------------------------------------------------------------------------------- */

static bool is_ack_pending(const tf_session *s)
{
    return s->ack_wanted > s->acked && s->ack_wanted <= s->processed;
}

tf_time tf_session_deadline(const tf_session *s)
{
    if (s->ended || s->turn.open || !tf_session_has_room(s)) {
        return TF_NEVER;
    }
    if (tf_clist_touched(&s->clist) != NULL) {
        return s->now;
    }
    return is_ack_pending(s) ? s->ack_due : TF_NEVER;
}

tf_err tf_session_tick(tf_session *s, tf_time now)
{
    tf_session_clock(s, now);
    if (s->ended || s->turn.open || !tf_session_has_room(s)) {
        return TF_OK;
    }
    tf_err err = tf_session_flush_drops(s);
    if (err == TF_OK && is_ack_pending(s) && now >= s->ack_due) {
        err = tf_session_send_ack(s);
    }
    return err;
}

void tf_session_get_stats(const tf_session *s, tf_session_stats *out)
{
    *out = (tf_session_stats){
        .sent = s->sent,
        .received = s->processed,
        .peer_processed = s->peer_processed,
        .imports = s->clist.live[TF_CLIST_IMPORT][TF_REF_OBJECT],
        .exports = s->clist.live[TF_CLIST_EXPORT][TF_REF_OBJECT],
        .promises_ours = s->clist.live[TF_CLIST_EXPORT][TF_REF_PROMISE],
        .promises_theirs = s->clist.live[TF_CLIST_IMPORT][TF_REF_PROMISE],
        .retirements = s->retire.count,
        .held_items = s->held_items,
        .held_bytes = s->held_bytes,
        .drops_executed = s->drops_executed,
        .drops_ignored = s->drops_ignored,
    };
}
