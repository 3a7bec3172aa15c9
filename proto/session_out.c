#include "proto/mp.h"
#include "proto/session_internal.h"

#define SMALL_MESSAGE 64u /* an ack; the head of any message */
#define REF_LEN 9u        /* of one ref in a list, at most */

bool tf_session_has_room(const tf_session *s)
{
    return s->out.items < TF_OUT_QUEUE_ITEMS && s->out.bytes < TF_OUT_QUEUE_BYTES;
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
    return s->out.items;
}

size_t tf_session_out_bytes(const tf_session *s)
{
    return s->out.bytes;
}

/* -- one message --------------------------------------------------------------------------------------------------- */

tf_err tf_session_begin(tf_session *s, size_t bound, tf_writer *w)
{
    tf_err err = tf_session_queue_reserve(&s->out, s->mem, bound);
    if (err == TF_OK) {
        tf_wr_init(w, tf_session_queue_room(&s->out), bound);
    }
    return err;
}

tf_err tf_session_finish(tf_session *s, const tf_writer *w)
{
    TF_ASSERT(tf_wr_ok(w));
    if (tf_wr_len(w) > s->remote.max_message) {
        return TF_ERR_LIMIT_BYTES;
    }
    tf_session_queue_push(&s->out, tf_wr_len(w));
    s->sent++;
    s->acked = s->processed;
    return TF_OK;
}

uint64_t tf_session_ack_delta(const tf_session *s)
{
    return s->processed - s->acked;
}

/* -- references ---------------------------------------------------------------------------------------------------- */

static tf_err allocate(tf_session *s, tf_ref_kind kind, tf_local local, tf_clist_role role, tf_clist_entry **out)
{
    size_t most = kind == TF_REF_OBJECT ? s->remote.max_refs : s->remote.max_promises;
    if (s->clist.known[s->side][kind] + s->turn.freed[kind] >= most) {
        return TF_ERR_LIMIT_ITEMS;
    }
    *out = tf_clist_add(&s->clist, tf_ref_make(s->next_out[kind]++, kind, s->side), local, role);
    return TF_OK;
}

void tf_session_undo(tf_session *s, const uint64_t before[2])
{
    static const tf_ref_kind kinds[] = {TF_REF_OBJECT, TF_REF_PROMISE};
    for (size_t i = 0; i < 2; i++) {
        tf_ref_kind kind = kinds[i];
        while (s->next_out[kind] > before[kind]) {
            tf_ref ref = tf_ref_make(--s->next_out[kind], kind, s->side);
            tf_clist_remove(&s->clist, tf_clist_by_ref(&s->clist, ref));
        }
    }
}

tf_err tf_session_mention(tf_session *s, const tf_mention *what)
{
    if (what->local == TF_LOCAL_NONE) {
        return TF_ERR_USAGE;
    }
    tf_clist_entry *entry = tf_clist_by_local(&s->clist, what->local);
    tf_err err = TF_OK;
    if (entry == NULL) {
        err = allocate(s, what->kind, what->local, TF_CLIST_EXPORT, &entry);
    }
    if (err == TF_OK) {
        ((tf_ref *)s->refs.items)[s->refs.count++] = entry->ref;
    }
    return err;
}

void tf_session_note_mentions(tf_session *s)
{
    const tf_ref *refs = s->refs.items;
    for (size_t i = 0; i < s->refs.count; i++) {
        tf_clist_entry *entry = tf_clist_by_ref(&s->clist, refs[i]);
        if (entry->role == TF_CLIST_EXPORT) {
            entry->mentioned = s->sent;
        }
    }
}

const tf_ref *tf_session_refs_at(const tf_session *s, size_t first)
{
    return s->refs.items == NULL ? NULL : (const tf_ref *)s->refs.items + first;
}

/* -- deliver ------------------------------------------------------------------------------------------------------- */

static tf_err check_delivery(const tf_session *s, const tf_delivery *delivery)
{
    if (s->ended) {
        return TF_ERR_CLOSED;
    }
    if (delivery->method.len == 0 || delivery->method.len > TF_METHOD_MAX || !tf_utf8_is_valid(delivery->method)) {
        return TF_ERR_USAGE;
    }
    if (delivery->args.len > s->remote.max_message) {
        return TF_ERR_LIMIT_BYTES;
    }
    if (delivery->ref_count > TF_REFS_PER_MESSAGE ||
        (delivery->want_result && s->clist.results[TF_CLIST_IMPORT] >= s->remote.max_results)) {
        return TF_ERR_LIMIT_ITEMS;
    }
    return tf_session_has_room(s) ? TF_OK : TF_ERR_AGAIN;
}

/* Gives everything in the delivery its ref: the result first, then what is mentioned (D4). */
static tf_err name_delivery(tf_session *s, const tf_delivery *delivery, tf_deliver *wire, tf_local *result)
{
    if (delivery->want_result) {
        tf_clist_entry *entry = NULL;
        tf_local local = tf_local_next(s->ids);
        tf_err err = allocate(s, TF_REF_PROMISE, local, TF_CLIST_IMPORT, &entry);
        if (err != TF_OK) {
            return err;
        }
        entry->holds = 1;
        wire->has_result = true;
        wire->result = entry->ref;
        *result = local;
    }
    for (size_t i = 0; i < delivery->ref_count; i++) {
        tf_err err = tf_session_mention(s, &delivery->refs[i]);
        if (err != TF_OK) {
            return err;
        }
    }
    wire->refs = tf_session_refs_at(s, 0);
    wire->ref_count = delivery->ref_count;
    return TF_OK;
}

static tf_err reserve_delivery(tf_session *s, const tf_delivery *delivery)
{
    s->refs.count = 0;
    tf_err err = tf_scratch_reserve(&s->refs, s->mem, delivery->ref_count);
    return err == TF_OK ? tf_clist_reserve(&s->clist, delivery->ref_count + 1) : err;
}

static tf_err write_delivery(tf_session *s, const tf_deliver *wire)
{
    tf_writer w;
    size_t bound = tf_message_deliver_bound(wire->method.len, wire->args.len, wire->ref_count);
    tf_err err = tf_session_begin(s, bound, &w);
    if (err != TF_OK) {
        return err;
    }
    tf_message_write_deliver(&w, s->sent, tf_session_ack_delta(s), wire);
    return tf_session_finish(s, &w);
}

tf_err tf_session_deliver(tf_session *s, tf_time now, const tf_delivery *delivery, tf_local *result)
{
    tf_session_clock(s, now);
    tf_err err = check_delivery(s, delivery);
    if (err != TF_OK) {
        return err;
    }
    const tf_clist_entry *target = tf_clist_by_local(&s->clist, delivery->target);
    if (target == NULL || target->role != TF_CLIST_IMPORT) {
        return TF_ERR_USAGE;
    }
    err = reserve_delivery(s, delivery);
    if (err != TF_OK) {
        return err;
    }
    const uint64_t before[2] = {s->next_out[0], s->next_out[1]};
    tf_deliver wire = {.target = target->ref, .method = delivery->method, .args = delivery->args};
    tf_local promise = TF_LOCAL_NONE;
    err = name_delivery(s, delivery, &wire, &promise);
    if (err == TF_OK) {
        err = write_delivery(s, &wire);
    }
    if (err != TF_OK) {
        tf_session_undo(s, before);
        return err;
    }
    tf_session_note_mentions(s);
    if (result != NULL) {
        *result = promise;
    }
    return TF_OK;
}

/* -- drop, ack ----------------------------------------------------------------------------------------------------- */

static bool is_needless(const tf_session *s, const tf_clist_entry *entry)
{
    return entry->state == TF_CLIST_LIVE && entry->role == TF_CLIST_IMPORT && entry->holds == 0 &&
           !tf_session_is_pinned(s, entry->local);
}

/* Takes touched entries off their list, up to `most` of which are needless: those are left in refs. */
static void collect_needless(tf_session *s, size_t most)
{
    s->refs.count = 0;
    for (tf_clist_entry *entry; s->refs.count < most && (entry = tf_clist_touched(&s->clist)) != NULL;) {
        if (is_needless(s, entry)) {
            ((tf_ref *)s->refs.items)[s->refs.count++] = entry->ref;
        }
        tf_clist_untouch(&s->clist);
    }
}

static tf_err drop_some(tf_session *s, size_t most)
{
    tf_writer w;
    tf_err err = tf_scratch_reserve(&s->refs, s->mem, most);
    if (err == TF_OK) {
        err = tf_retire_reserve(&s->retire, most, &s->clist);
    }
    if (err == TF_OK) {
        err = tf_session_begin(s, SMALL_MESSAGE + most * REF_LEN, &w);
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
    err = tf_session_finish(s, &w);
    TF_ASSERT(err == TF_OK);
    const tf_ref *refs = s->refs.items;
    for (size_t i = 0; i < s->refs.count; i++) {
        tf_clist_retire(&s->clist, tf_clist_by_ref(&s->clist, refs[i]), TF_CLIST_DROPPED, number);
        tf_retire_push(&s->retire, number, refs[i], TF_RETIRE_DROP);
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
    tf_err err = tf_session_begin(s, SMALL_MESSAGE, &w);
    if (err != TF_OK) {
        return err;
    }
    tf_message_write_ack(&w, s->sent, tf_session_ack_delta(s));
    return tf_session_finish(s, &w);
}
