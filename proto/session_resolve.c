/* RESOLVE, outbound (D7): answers are checked, named, encoded, and only then anything is retired. */
#include "proto/session_internal.h"

/* What a call of resolve needs at most. */
typedef struct needs {
    size_t refs;
    size_t bytes;
} needs;

static tf_err check_object(const tf_session *s, const tf_mention *object)
{
    const tf_clist_entry *entry = tf_clist_by_local(&s->clist, object->local);
    tf_ref_kind kind = entry == NULL ? object->kind : tf_ref_kind_of(entry->ref);
    return object->local == TF_LOCAL_NONE || kind != TF_REF_OBJECT ? TF_ERR_USAGE : TF_OK;
}

static tf_err check_data(const tf_session *s, const tf_answer *answer)
{
    bool rejection = answer->kind == TF_RESOLUTION_REJECTION;
    if (answer->ref_count > TF_REFS_PER_MESSAGE) {
        return TF_ERR_LIMIT_ITEMS;
    }
    if (answer->data.len > (rejection ? TF_REJECTION_MAX : s->remote.max_message)) {
        return TF_ERR_LIMIT_BYTES;
    }
    /* A rejection may have to be given again, for other promises (D8). */
    size_t bound = tf_message_resolution_bound(answer->data.len, answer->ref_count);
    return rejection && bound > s->remote.max_message ? TF_ERR_LIMIT_BYTES : TF_OK;
}

static tf_err check_answer(tf_session *s, const tf_answer *answer, needs *need)
{
    tf_clist_entry *entry = tf_clist_by_local(&s->clist, answer->promise);
    if (entry != NULL) {
        if (entry->role != TF_CLIST_EXPORT || tf_ref_kind_of(entry->ref) != TF_REF_PROMISE ||
            entry->judged == s->judgements) {
            return TF_ERR_USAGE;
        }
        entry->judged = s->judgements;
    }
    bool to_object = answer->kind == TF_RESOLUTION_OBJECT;
    tf_err err = to_object ? check_object(s, &answer->object) : check_data(s, answer);
    if (err == TF_OK) {
        need->refs += to_object ? 1 : answer->ref_count;
        need->bytes += tf_message_resolution_bound(to_object ? 0 : answer->data.len, to_object ? 1 : answer->ref_count);
    }
    return err;
}

static tf_err check_answers(tf_session *s, const tf_answer *answers, size_t count, needs *need)
{
    s->judgements++;
    if (count > TF_REFS_PER_MESSAGE) {
        return TF_ERR_LIMIT_ITEMS;
    }
    for (size_t i = 0; i < count; i++) {
        tf_err err = check_answer(s, &answers[i], need);
        if (err != TF_OK) {
            return err;
        }
    }
    return need->refs > TF_REFS_PER_MESSAGE ? TF_ERR_LIMIT_ITEMS : TF_OK;
}

/* Everything that may run out, but the rejections' own memory. */
static tf_err reserve(tf_session *s, size_t count, const needs *need)
{
    s->refs.count = 0;
    s->order.count = 0;
    tf_err err = tf_scratch_reserve(&s->refs, s->mem, need->refs);
    if (err == TF_OK) {
        err = tf_scratch_reserve(&s->order, s->mem, count);
    }
    if (err == TF_OK && need->refs > 0) {
        err = tf_clist_reserve(&s->clist, need->refs);
    }
    if (err == TF_OK) {
        err = tf_retire_reserve(&s->retire, count, &s->clist);
    }
    if (err == TF_OK) { /* refs of rejections, objects, own promises */
        err = tf_session_reserve_pins(s, need->refs + count);
    }
    if (err == TF_OK) {
        err = tf_session_queue_reserve(&s->out, s->mem, need->bytes);
    }
    return err;
}

static tf_session_named *named(const tf_session *s, size_t index)
{
    return (tf_session_named *)s->order.items + index;
}

/* The answers in their order, with what is kept of rejections. */
static tf_err keep(tf_session *s, const tf_answer *answers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tf_session_named *n = named(s, s->order.count++);
        *n = (tf_session_named){.answer = &answers[i]};
        if (answers[i].kind == TF_RESOLUTION_REJECTION) {
            tf_err err = tf_session_kept_new(s, &answers[i], &n->kept);
            if (err != TF_OK) {
                return err;
            }
        }
    }
    return TF_OK;
}

/* The answers that go into the message, in its order. */
typedef struct batch {
    tf_session_named *first, *last;
    size_t count;
    uint64_t before[2]; /* next_out */
} batch;

/* Gives what an answer mentions its refs and puts it into the message. */
static tf_err name(tf_session *s, batch *b, tf_session_named *n, tf_clist_entry *entry)
{
    const tf_answer *answer = n->answer;
    n->entry = entry;
    n->first_ref = s->refs.count;
    *(b->last == NULL ? &b->first : &b->last->next) = n;
    b->last = n;
    b->count++;
    if (answer->kind == TF_RESOLUTION_OBJECT) {
        tf_err err = tf_session_mention(s, &answer->object);
        bool promise = err == TF_OK && tf_ref_kind_of(*tf_session_refs_at(s, n->first_ref)) == TF_REF_PROMISE;
        return promise ? TF_ERR_USAGE : err; /* another answer has just mentioned it as a promise */
    }
    for (size_t i = 0; i < answer->ref_count; i++) {
        tf_err err = tf_session_mention(s, &answer->refs[i]);
        if (err != TF_OK) {
            return err;
        }
    }
    return TF_OK;
}

static bool is_new(const tf_session *s, const batch *b, const tf_clist_entry *entry)
{
    return tf_ref_side_of(entry->ref) == s->side && tf_ref_number(entry->ref) >= b->before[TF_REF_PROMISE];
}

static tf_session_named *find_unnamed(const tf_session *s, tf_local promise)
{
    for (size_t i = 0; i < s->order.count; i++) {
        tf_session_named *n = named(s, i);
        if (n->entry == NULL && n->answer->promise == promise) {
            return n;
        }
    }
    return NULL;
}

/* First the promises that the peer knows, then those that the message itself introduces, in the order of their numbers
 * (D7): so a receiver meets each before its resolution. */
static tf_err name_all(tf_session *s, batch *b)
{
    for (size_t i = 0; i < s->order.count; i++) {
        tf_clist_entry *entry = tf_clist_by_local(&s->clist, named(s, i)->answer->promise);
        if (entry != NULL && tf_ref_kind_of(entry->ref) != TF_REF_PROMISE) {
            return TF_ERR_USAGE; /* another answer has just mentioned it as an object */
        }
        if (entry != NULL && !is_new(s, b, entry)) {
            tf_err err = name(s, b, named(s, i), entry);
            if (err != TF_OK) {
                return err;
            }
        }
    }
    for (uint64_t number = b->before[TF_REF_PROMISE]; number < s->next_out[TF_REF_PROMISE]; number++) {
        tf_clist_entry *entry = tf_clist_by_ref(&s->clist, tf_ref_make(number, TF_REF_PROMISE, s->side));
        tf_session_named *n = find_unnamed(s, entry->local);
        tf_err err = n == NULL ? TF_OK : name(s, b, n, entry);
        if (err != TF_OK) {
            return err;
        }
    }
    return TF_OK;
}

static tf_err write_batch(tf_session *s, const batch *b, size_t bound)
{
    tf_writer w;
    tf_err err = tf_session_begin(s, bound, &w);
    if (err != TF_OK) {
        return err;
    }
    tf_message_write_resolve_head(&w, s->sent, tf_session_ack_delta(s), b->count);
    for (const tf_session_named *n = b->first; n != NULL; n = n->next) {
        const tf_ref *refs = tf_session_refs_at(s, n->first_ref);
        const tf_answer *answer = n->answer;
        if (answer->kind == TF_RESOLUTION_OBJECT) {
            tf_message_write_resolution_object(&w, n->entry->ref, refs[0]);
        } else {
            tf_message_write_resolution_data(&w, n->entry->ref, answer->kind == TF_RESOLUTION_REJECTION, answer->data,
                                             refs, answer->ref_count);
        }
    }
    return tf_session_finish(s, &w);
}

/* The message is out: what it resolves is retired (D7, D10), and remembered until the ack (D8). */
static void retire_batch(tf_session *s, const batch *b, bool inside)
{
    uint64_t number = s->sent - 1;
    tf_session_note_mentions(s);
    for (const tf_session_named *n = b->first; n != NULL; n = n->next) {
        tf_clist_entry *entry = n->entry;
        entry->kind = n->answer->kind;
        if (entry->kind == TF_RESOLUTION_OBJECT) {
            entry->object = n->answer->object.local;
            tf_session_pin(s, entry->object);
        }
        entry->kept = n->kept;
        tf_session_kept_use(n->kept);
        if (tf_ref_side_of(entry->ref) == s->side) {
            tf_session_pin(s, entry->local);
        }
        tf_clist_retire(&s->clist, entry, TF_CLIST_RESOLVED, number);
        tf_retire_push(&s->retire, number, entry->ref, TF_RETIRE_PROMISE);
    }
    for (uint64_t i = b->before[TF_REF_PROMISE]; inside && i < s->next_out[TF_REF_PROMISE]; i++) {
        tf_ref ref = tf_ref_make(i, TF_REF_PROMISE, s->side);
        tf_session_pin_mentioned(s, tf_clist_by_ref(&s->clist, ref)->local);
    }
}

/* Whether the peer may still name a local id by a ref that was retired: only a resolved promise. */
static bool has_inbound_half(const tf_session *s, tf_local local)
{
    for (size_t i = 0; i < s->retire.count; i++) {
        const tf_clist_entry *entry = tf_retire_entry(tf_retire_at(&s->retire, i), &s->clist);
        if (entry != NULL && entry->state == TF_CLIST_RESOLVED && entry->local == local) {
            return true;
        }
    }
    return false;
}

static void owe_skipped(tf_session *s, const tf_mention *refs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tf_local local = refs[i].local;
        bool known = tf_clist_by_local(&s->clist, local) != NULL ||
                     (refs[i].kind == TF_REF_PROMISE && has_inbound_half(s, local));
        if (!known) {
            tf_session_owe_dropped(s, local);
        }
    }
}

/* The application cannot know that an answer was skipped: what it names gets its DROPPED all the same. */
static void skip(tf_session *s, const tf_answer *answer)
{
    bool to_object = answer->kind == TF_RESOLUTION_OBJECT;
    owe_skipped(s, to_object ? &answer->object : answer->refs, to_object ? 1 : answer->ref_count);
}

/* Releases what keep took; on success after what is held was made ready with it. */
static void release_kept(tf_session *s, bool resolved)
{
    for (size_t i = 0; i < s->order.count; i++) {
        tf_session_named *n = named(s, i);
        if (resolved) {
            tf_session_held_release(s, n->answer, n->kept);
        }
        if (resolved && n->entry == NULL) {
            skip(s, n->answer);
        }
        tf_session_kept_release(s, n->kept);
    }
    s->order.count = 0;
}

tf_err tf_session_send_answers(tf_session *s, const tf_answer *answers, size_t count, bool inside)
{
    needs need = {0};
    tf_err err = check_answers(s, answers, count, &need);
    if (err == TF_OK) {
        err = reserve(s, count, &need);
    }
    if (err != TF_OK) {
        return err;
    }
    batch b = {.before = {s->next_out[0], s->next_out[1]}};
    err = keep(s, answers, count);
    if (err == TF_OK) {
        err = name_all(s, &b);
    }
    if (err == TF_OK && b.count > 0) {
        err = write_batch(s, &b, need.bytes);
    }
    if (err != TF_OK) {
        tf_session_undo(s, b.before);
    } else if (b.count > 0) {
        retire_batch(s, &b, inside);
    }
    release_kept(s, err == TF_OK);
    return err;
}

tf_err tf_session_resolve(tf_session *s, tf_time now, const tf_answer *answers, size_t count)
{
    tf_session_clock(s, now);
    return s->ended ? TF_ERR_CLOSED : tf_session_send_answers(s, answers, count, false);
}
