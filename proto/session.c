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
        .node = config->refs,
        .side = config->side,
        .local = clamp(&config->local),
        .remote = clamp(&config->remote),
        .without_revoke = config->without_revoke,
        .next_out = {[TF_REF_OBJECT] = 1},
        .next_in = {[TF_REF_OBJECT] = 1},
        .refs.size = sizeof(tf_ref),
        .named.size = sizeof(tf_clist_entry *),
        .lines.size = sizeof(tf_session_line),
        .turn.events.size = sizeof(tf_turn_event),
        .turn.mentions.size = sizeof(tf_record *),
        .turn.gone.size = sizeof(tf_local),
    };
    tf_clist_init(&s->clist, s, config->side, config->refs, config->mem, config->hash_key);
    tf_retire_init(&s->retire, config->mem);
    tf_session_queue_init(&s->out, config->mem, config->hash_key);
}

/* Both roots, which no message introduces. Room was reserved. */
static void add_roots(tf_session *s, tf_local root)
{
    tf_record *own = tf_refs_find(s->node, root);
    if (own == NULL) {
        own = tf_refs_add_local(s->node, root, TF_REF_OBJECT);
    }
    (void)tf_clist_add(&s->clist, tf_ref_make(0, TF_REF_OBJECT, s->side), own, TF_CLIST_EXPORT);
    tf_record *peers = tf_refs_add(s->node, TF_REF_OBJECT);
    (void)tf_clist_add(&s->clist, tf_ref_make(0, TF_REF_OBJECT, tf_side_other(s->side)), peers, TF_CLIST_IMPORT);
    tf_refs_hold(peers);
    peers->holds = 1;
    s->peer_root = peers->local;
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
    if (err == TF_OK) {
        err = tf_refs_reserve(s->node, 2);
    }
    if (err != TF_OK) {
        goto out;
    }
    add_roots(s, config->root);
    *out = s;
    s = NULL; /* handed over */
out:
    tf_session_free(s);
    return err;
}

/* -- the lists of the node ----------------------------------------------------------------------------------------- */

void tf_session_mark_due(tf_session *s)
{
    if (s->is_due) {
        return;
    }
    s->is_due = true;
    s->due_next = NULL;
    *(s->node->due == NULL ? &s->node->due : &s->node->due_last->due_next) = s;
    s->node->due_last = s;
}

void tf_session_mark_written(tf_session *s)
{
    if (s->is_written) {
        return;
    }
    s->is_written = true;
    s->written_next = NULL;
    *(s->node->written == NULL ? &s->node->written : &s->node->written_last->written_next) = s;
    s->node->written_last = s;
}

tf_session *tf_session_take_due(tf_refs *refs)
{
    tf_session *s = refs->due;
    if (s != NULL) {
        refs->due = s->due_next;
        s->is_due = false;
    }
    return s;
}

tf_session *tf_session_take_written(tf_refs *refs)
{
    tf_session *s = refs->written;
    if (s != NULL) {
        refs->written = s->written_next;
        s->is_written = false;
    }
    return s;
}

static void leave_due(tf_session *s)
{
    tf_session *previous = NULL;
    tf_session **at = &s->node->due;
    for (; s->is_due && *at != s; at = &previous->due_next) {
        previous = *at;
    }
    if (s->is_due) {
        *at = s->due_next;
        s->node->due_last = s->node->due_last == s ? previous : s->node->due_last;
        s->is_due = false;
    }
}

static void leave_written(tf_session *s)
{
    tf_session *previous = NULL;
    tf_session **at = &s->node->written;
    for (; s->is_written && *at != s; at = &previous->written_next) {
        previous = *at;
    }
    if (s->is_written) {
        *at = s->written_next;
        s->node->written_last = s->node->written_last == s ? previous : s->node->written_last;
        s->is_written = false;
    }
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void free_scratch(tf_session *s)
{
    tf_scratch_trim(&s->refs, s->mem, 0);
    tf_scratch_trim(&s->named, s->mem, 0);
    tf_scratch_trim(&s->lines, s->mem, 0);
    tf_scratch_trim(&s->turn.events, s->mem, 0);
    tf_scratch_trim(&s->turn.mentions, s->mem, 0);
    tf_scratch_trim(&s->turn.gone, s->mem, 0);
}

void tf_session_free(tf_session *s)
{
    if (s == NULL) {
        return;
    }
    leave_due(s);
    leave_written(s);
    tf_clist_clear(&s->clist);
    tf_retire_clear(&s->retire);
    tf_session_queue_clear(&s->out, s->mem);
    free_scratch(s);
    tf_free(s->mem, s, sizeof(*s));
}

void tf_session_set_user(tf_session *s, void *user)
{
    s->user = user;
}

void *tf_session_user(const tf_session *s)
{
    return s->user;
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
    s->now = tf_time_max(s->now, now); /* it may be ticked on its own, before its node hears what time it is */
}

void tf_session_trim(tf_session *s)
{
    if (s->turn.open || s->ended) {
        return;
    }
    tf_clist_trim(&s->clist);
    tf_retire_trim(&s->retire);
    tf_session_queue_trim(&s->out, s->mem);
    free_scratch(s);
}

/* -- turns --------------------------------------------------------------------------------------------------------- */

static void close_turn(tf_session *s)
{
    tf_turn *turn = &s->turn;
    turn->open = false;
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

/* A deliver to a promise that is resolved by now, and whose RESOLVE is unacked: its sender may wait for our ack before
 * it acts on the resolution (D9). */
static void oblige_ack_to_sender(tf_session *s)
{
    if (s->turn.to_promise) {
        const tf_clist_entry *entry = tf_clist_by_ref(&s->clist, s->turn.promise);
        if (entry != NULL && entry->state == TF_CLIST_RETIRED) {
            tf_session_oblige_ack(s);
        }
    }
}

void tf_session_done(tf_session *s, tf_time now)
{
    tf_session_clock(s, now);
    if (s->ended) {
        return;
    }
    TF_ASSERT(s->turn.open && s->turn.events_taken == s->turn.events.count && s->turn.gone_taken == s->turn.gone.count);
    oblige_ack_to_sender(s);
    s->processed++;
    close_turn(s);
}

tf_err tf_session_flush(tf_session *s, tf_time now)
{
    tf_session_clock(s, now);
    if (s->ended) {
        return TF_OK;
    }
    tf_err err = tf_session_flush_announcements(s);
    return err == TF_OK && !s->turn.open ? tf_session_flush_drops(s) : err;
}

void tf_session_end(tf_session *s)
{
    s->ended = true;
    s->turn.open = false;
    s->turn.events_taken = s->turn.events.count;
}

uint64_t tf_session_peer_processed(const tf_session *s)
{
    return s->peer_processed;
}

uint64_t tf_session_sent(const tf_session *s)
{
    return s->sent;
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

/* -- for people ---------------------------------------------------------------------------------------------------- */

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
        .kept_bytes = s->kept_bytes,
        .drops_executed = s->drops_executed,
        .drops_ignored = s->drops_ignored,
    };
}

bool tf_session_next_entry(const tf_session *s, uint64_t *cursor, tf_session_entry *out)
{
    const tf_clist_entry *entry = *cursor == 0 ? tf_clist_first(&s->clist) : tf_clist_after(&s->clist, *cursor - 1);
    if (entry == NULL) {
        return false;
    }
    bool is_export = entry->role == TF_CLIST_EXPORT;
    *cursor = entry->ref + 1;
    *out = (tf_session_entry){
        .ref = entry->ref,
        .local = entry->record == NULL ? TF_LOCAL_NONE : entry->local,
        .is_export = is_export,
        .is_retired = entry->state != TF_CLIST_LIVE,
        .retired = entry->retired,
        .is_revoked = entry->revoked != 0,
        .is_mentioned = entry->mentioned != 0,
        .mentioned = entry->mentioned == 0 ? 0 : entry->mentioned - 1,
        .count = entry->record == NULL ? 0 : entry->record->count,
    };
    return true;
}
