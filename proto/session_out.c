#include "proto/mp.h"
#include "proto/session_internal.h"

#define SMALL_MESSAGE 64u /* an ack; the head of any message */
#define REF_LEN 9u        /* of one ref in a list, at most */

bool tf_session_has_room(const tf_session *s)
{
    return tf_session_queue_has_room(&s->out, 0);
}

bool tf_session_peek_out(const tf_session *s, tf_slice *out)
{
    return tf_session_queue_peek(&s->out, out);
}

void tf_session_pop_out(tf_session *s)
{
    tf_session_queue_pop(&s->out, s->mem);
    s->taken++;
}

size_t tf_session_out_items(const tf_session *s)
{
    return s->out.own_items;
}

size_t tf_session_out_bytes(const tf_session *s)
{
    return s->out.own_bytes;
}

/* -- one message --------------------------------------------------------------------------------------------------- */

tf_err tf_session_begin(tf_session *s, size_t bound, uint32_t share, tf_writer *w)
{
    tf_err err = tf_session_queue_reserve(&s->out, s->mem, bound, share);
    if (err == TF_OK) {
        tf_wr_init(w, tf_session_queue_room(&s->out), bound);
    }
    return err;
}

tf_err tf_session_finish(tf_session *s, const tf_writer *w, uint32_t share)
{
    TF_ASSERT(tf_wr_ok(w));
    if (tf_wr_len(w) > s->remote.max_message) {
        return TF_ERR_LIMIT_BYTES;
    }
    tf_session_queue_push(&s->out, tf_wr_len(w), share);
    s->sent++;
    s->acked = s->processed;
    tf_session_mark_written(s);
    return TF_OK;
}

uint64_t tf_session_ack_delta(const tf_session *s)
{
    return s->processed - s->acked;
}

/* -- references ---------------------------------------------------------------------------------------------------- */

static bool has_number(const tf_session *s, tf_ref_kind kind, size_t wanted)
{
    size_t most = kind == TF_REF_OBJECT ? s->remote.max_refs : s->remote.max_promises;
    size_t used = s->clist.known[s->side][kind] + s->turn.freed[kind];
    return used <= most && wanted <= most - used;
}

static tf_err allocate(tf_session *s, tf_record *record, tf_clist_role role, tf_clist_entry **out)
{
    tf_ref_kind kind = record->kind;
    if (!has_number(s, kind, 1)) {
        return TF_ERR_LIMIT_ITEMS;
    }
    *out = tf_clist_add(&s->clist, tf_ref_make(s->next_out[kind]++, kind, s->side), record, role);
    return TF_OK;
}

void tf_session_undo(tf_session *s, const uint64_t before[2], size_t names)
{
    static const tf_ref_kind kinds[] = {TF_REF_OBJECT, TF_REF_PROMISE};
    for (size_t i = 0; i < 2; i++) {
        tf_ref_kind kind = kinds[i];
        while (s->next_out[kind] > before[kind]) {
            tf_ref ref = tf_ref_make(--s->next_out[kind], kind, s->side);
            tf_clist_remove(&s->clist, tf_clist_by_ref(&s->clist, ref));
        }
    }
    s->refs.count = names;
    s->named.count = names;
}

tf_err tf_session_reserve_names(tf_session *s, size_t extra)
{
    tf_err err = tf_scratch_reserve(&s->refs, s->mem, s->refs.count + extra);
    if (err == TF_OK) {
        err = tf_scratch_reserve(&s->named, s->mem, s->named.count + extra);
    }
    return err == TF_OK && extra > 0 ? tf_clist_reserve(&s->clist, extra) : err;
}

static void push_name(tf_session *s, tf_clist_entry *entry)
{
    ((tf_ref *)s->refs.items)[s->refs.count++] = entry->ref;
    ((tf_clist_entry **)s->named.items)[s->named.count++] = entry;
}

tf_err tf_session_mention(tf_session *s, tf_record *record)
{
    tf_clist_entry *entry = tf_clist_of_record(&s->clist, record);
    tf_err err = entry == NULL ? allocate(s, record, TF_CLIST_EXPORT, &entry) : TF_OK;
    if (err == TF_OK) {
        push_name(s, entry);
    }
    return err;
}

void tf_session_note_mentions(tf_session *s)
{
    tf_clist_entry *const *named = s->named.items;
    for (size_t i = 0; i < s->named.count; i++) {
        if (named[i]->role == TF_CLIST_EXPORT) {
            named[i]->mentioned = s->sent;
        }
    }
}

const tf_ref *tf_session_refs_at(const tf_session *s, size_t first)
{
    return s->refs.items == NULL ? NULL : (const tf_ref *)s->refs.items + first;
}

bool tf_session_knows(const tf_session *s, const tf_record *record)
{
    return tf_clist_of_record(&s->clist, record) != NULL;
}

tf_err tf_session_can_announce(const tf_session *s, size_t data_len, size_t ref_count, size_t new_objects,
                               size_t new_promises)
{
    if (ref_count > TF_REFS_PER_MESSAGE || !has_number(s, TF_REF_OBJECT, new_objects) ||
        !has_number(s, TF_REF_PROMISE, new_promises)) {
        return TF_ERR_LIMIT_ITEMS;
    }
    bool fits =
        data_len <= s->remote.max_message && tf_message_resolution_bound(data_len, ref_count) <= s->remote.max_message;
    return fits ? TF_OK : TF_ERR_LIMIT_BYTES;
}

/* -- deliver ------------------------------------------------------------------------------------------------------- */

static bool is_fit_for_result(const tf_session *s, const tf_record *result)
{
    return result == NULL || (result->kind == TF_REF_PROMISE && result->state == TF_RECORD_LIVE &&
                              result->owner == NULL && !tf_session_knows(s, result));
}

/* D15: one sender that is relayed may wait for a quarter of the results that the peer may owe, at least for
 * TF_SHARE_RESULTS. */
static bool has_result_room(const tf_session *s, uint32_t share)
{
    size_t quarter = s->remote.max_results / 4;
    size_t most = quarter < TF_SHARE_RESULTS ? TF_SHARE_RESULTS : quarter;
    return s->clist.results[TF_CLIST_IMPORT] < s->remote.max_results &&
           (share == 0 || tf_clist_charged(&s->clist, share) < most);
}

static tf_err check_delivery(const tf_session *s, const tf_delivery *delivery)
{
    if (s->ended) {
        return TF_ERR_CLOSED;
    }
    const tf_clist_entry *target = delivery->target->import;
    if (target == NULL || target->session != s || !is_fit_for_result(s, delivery->result) ||
        delivery->method.len == 0 || delivery->method.len > TF_METHOD_MAX || !tf_utf8_is_valid(delivery->method)) {
        return TF_ERR_USAGE;
    }
    if (delivery->args.len > s->remote.max_message) {
        return TF_ERR_LIMIT_BYTES;
    }
    if (delivery->ref_count > TF_REFS_PER_MESSAGE ||
        (delivery->result != NULL && !has_result_room(s, delivery->share))) {
        return TF_ERR_LIMIT_ITEMS;
    }
    return tf_session_queue_has_room(&s->out, delivery->share) ? s->failed : TF_ERR_AGAIN;
}

/* Gives everything in the delivery its ref: the result first, then what is mentioned (D4). */
static tf_err name_delivery(tf_session *s, const tf_delivery *delivery, tf_deliver *wire)
{
    if (delivery->result != NULL) {
        tf_clist_entry *entry = NULL;
        tf_err err = allocate(s, delivery->result, TF_CLIST_IMPORT, &entry);
        if (err != TF_OK) {
            return err;
        }
        if (delivery->share != 0) {
            tf_clist_charge(&s->clist, entry, delivery->share);
        }
        wire->has_result = true;
        wire->result = entry->ref;
    }
    for (size_t i = 0; i < delivery->ref_count; i++) {
        tf_err err = tf_session_mention(s, delivery->refs[i]);
        if (err != TF_OK) {
            return err;
        }
    }
    wire->refs = tf_session_refs_at(s, 0);
    wire->ref_count = delivery->ref_count;
    return TF_OK;
}

static tf_err write_delivery(tf_session *s, const tf_deliver *wire, uint32_t share)
{
    tf_writer w;
    size_t bound = tf_message_deliver_bound(wire->method.len, wire->args.len, wire->ref_count);
    tf_err err = tf_session_begin(s, bound, share, &w);
    if (err != TF_OK) {
        return err;
    }
    tf_message_write_deliver(&w, s->sent, tf_session_ack_delta(s), wire);
    return tf_session_finish(s, &w, share);
}

/* The message is out. What it mentions that was resolved or revoked follows at once; should memory run out for that,
 * the next flush tells. */
static void note_delivery(tf_session *s, tf_clist_entry *target)
{
    tf_session_note_mentions(s);
    if (tf_ref_kind_of(target->ref) == TF_REF_PROMISE) {
        target->piped = s->sent;
    }
    tf_clist_entry *const *named = s->named.items;
    for (size_t i = 0; i < s->named.count; i++) {
        tf_session_note_named(s, named[i], 0);
    }
    if (tf_session_flush_announcements(s) != TF_OK) {
        tf_session_mark_due(s);
    }
}

tf_err tf_session_deliver(tf_session *s, tf_time now, const tf_delivery *delivery)
{
    tf_session_clock(s, now);
    tf_err err = check_delivery(s, delivery);
    s->refs.count = 0;
    s->named.count = 0;
    if (err == TF_OK) {
        err = tf_session_reserve_names(s, delivery->ref_count + 1);
    }
    if (err == TF_OK) {
        err = tf_clist_reserve_share(&s->clist);
    }
    if (err != TF_OK) {
        return err;
    }
    const uint64_t before[2] = {s->next_out[0], s->next_out[1]};
    tf_clist_entry *target = delivery->target->import;
    tf_deliver wire = {.target = target->ref, .method = delivery->method, .args = delivery->args};
    err = name_delivery(s, delivery, &wire);
    if (err == TF_OK) {
        err = write_delivery(s, &wire, delivery->share);
    }
    if (err != TF_OK) {
        tf_session_undo(s, before, 0);
        return err;
    }
    note_delivery(s, target);
    return TF_OK;
}

/* -- drop, ack ----------------------------------------------------------------------------------------------------- */

void tf_session_unneeded(tf_record *import)
{
    tf_session *s = import->owner;
    tf_clist_touch(&s->clist, import->import);
    tf_session_mark_due(s);
}

static bool is_needless(const tf_clist_entry *entry)
{
    return entry->state == TF_CLIST_LIVE && entry->record->count == 0;
}

/* Takes touched entries off their list, up to `most` of which are needless: those are left in named. */
static void collect_needless(tf_session *s, size_t most)
{
    s->refs.count = 0;
    s->named.count = 0;
    for (tf_clist_entry *entry; s->refs.count < most && (entry = tf_clist_touched(&s->clist)) != NULL;) {
        if (is_needless(entry)) {
            push_name(s, entry);
        }
        tf_clist_untouch(&s->clist);
    }
}

static tf_err drop_some(tf_session *s, size_t most)
{
    tf_writer w;
    s->refs.count = 0;
    s->named.count = 0;
    tf_err err = tf_scratch_reserve(&s->refs, s->mem, most);
    if (err == TF_OK) {
        err = tf_scratch_reserve(&s->named, s->mem, most);
    }
    if (err == TF_OK) {
        err = tf_retire_reserve(&s->retire, most, &s->clist);
    }
    if (err == TF_OK) {
        err = tf_session_begin(s, SMALL_MESSAGE + most * REF_LEN, 0, &w);
    }
    if (err != TF_OK) {
        return err;
    }
    collect_needless(s, most);
    if (s->refs.count == 0) {
        return TF_OK;
    }
    uint64_t number = s->sent;
    tf_message_write_drop(&w, number, tf_session_ack_delta(s), s->refs.items, s->refs.count);
    err = tf_session_finish(s, &w, 0);
    TF_ASSERT(err == TF_OK);
    tf_clist_entry *const *named = s->named.items;
    for (size_t i = 0; i < s->named.count; i++) {
        tf_clist_retire(&s->clist, named[i], number);
        tf_retire_push(&s->retire, number, named[i]->ref, TF_RETIRE_DROP);
    }
    return TF_OK;
}

tf_err tf_session_flush_drops(tf_session *s)
{
    size_t fitting = (s->remote.max_message - SMALL_MESSAGE) / REF_LEN;
    size_t most = fitting < TF_REFS_PER_MESSAGE ? fitting : TF_REFS_PER_MESSAGE;
    tf_err err = TF_OK;
    while (err == TF_OK && tf_clist_touched(&s->clist) != NULL && tf_session_has_room(s)) {
        size_t touched = s->clist.touched_count;
        err = drop_some(s, touched < most ? touched : most);
    }
    return err;
}

tf_err tf_session_send_ack(tf_session *s)
{
    tf_writer w;
    tf_err err = tf_session_begin(s, SMALL_MESSAGE, 0, &w);
    if (err != TF_OK) {
        return err;
    }
    tf_message_write_ack(&w, s->sent, tf_session_ack_delta(s));
    return tf_session_finish(s, &w, 0);
}
