/* RESOLVE and REVOKE, outbound (D7, D11, D12): what is due is named and measured line by line until a message is full,
 * then written, and only then anything is retired. What a line names and was resolved or revoked itself joins the end
 * of the line, so what belongs together goes in one message, cycles included; what finds no room there goes in the
 * next one. */
#include "proto/session_internal.h"

/* The RESOLVE or REVOKE that is being made. */
typedef struct batch {
    tf_ref_kind kind; /* PROMISE: RESOLVE; OBJECT: REVOKE */
    size_t room;      /* bytes of lines that the message has room for */
} batch;

typedef enum fit {
    FIT_YES,
    FIT_NO_ROOM, /* not in this message */
    FIT_NEVER    /* beyond the numbers that the peer grants us */
} fit;

/* -- what is due --------------------------------------------------------------------------------------------------- */

static void set_due(tf_session *s, tf_clist_entry *entry, uint32_t depth, uint64_t named)
{
    bool untold = s->without_revoke && tf_ref_kind_of(entry->ref) == TF_REF_OBJECT;
    if (entry->due || untold) {
        return;
    }
    entry->depth = depth;
    entry->named = named;
    tf_clist_set_due(&s->clist, entry);
}

void tf_session_note_named(tf_session *s, tf_clist_entry *entry, uint32_t depth)
{
    if (entry->role == TF_CLIST_EXPORT && entry->record->state != TF_RECORD_LIVE && !entry->record->is_settling) {
        set_due(s, entry, depth, s->batches);
    }
}

void tf_session_announce(tf_record *record)
{
    for (tf_clist_entry *entry = record->exports; entry != NULL; entry = entry->export_next) {
        entry->due_hard = record->hard;
        set_due(entry->session, entry, 0, 0);
        tf_session_mark_due(entry->session);
    }
}

/* -- one line ------------------------------------------------------------------------------------------------------ */

static size_t names_of(const tf_value *value)
{
    return value->kind == TF_RESOLUTION_OBJECT ? 1 : value->ref_count;
}

static tf_err name(tf_session *s, const tf_value *value)
{
    if (value->kind == TF_RESOLUTION_OBJECT) {
        return tf_session_mention(s, value->object);
    }
    tf_err err = TF_OK;
    for (size_t i = 0; err == TF_OK && i < value->ref_count; i++) {
        err = tf_session_mention(s, value->refs[i]);
    }
    return err;
}

/* A line with data, or of a REVOKE. */
static tf_told told_of(const tf_session *s, const tf_clist_entry *entry, const tf_value *value, size_t first)
{
    bool revoked = tf_ref_kind_of(entry->ref) == TF_REF_OBJECT;
    return (tf_told){
        .ref = entry->ref,
        .mode = revoked ? (entry->due_hard ? 1u : 0u) : (unsigned)value->kind,
        .data = value->data,
        .refs = tf_session_refs_at(s, first),
        .ref_count = value->ref_count,
        .hops = value->hops,
    };
}

static size_t line_len(const tf_session *s, const tf_clist_entry *entry, const tf_value *value, size_t first)
{
    if (value->kind == TF_RESOLUTION_OBJECT) {
        return tf_message_resolution_object_len(entry->ref, tf_session_refs_at(s, first)[0]);
    }
    tf_told told = told_of(s, entry, value, first);
    return tf_message_told_len(&told);
}

/* From 16 lines on their count takes more than one byte. */
static size_t count_growth(const tf_session *s)
{
    return s->lines.count == 15 ? 2 : 0;
}

/* Adds a line, unless the message or the peer has no room for it. NOMEM is left in s->failed. */
static fit add_line(tf_session *s, batch *b, tf_clist_entry *entry, const tf_value *value)
{
    size_t names = names_of(value);
    size_t first = s->refs.count;
    if (first + names > TF_REFS_PER_MESSAGE || s->lines.count == TF_REFS_PER_MESSAGE || value->data.len > b->room) {
        return FIT_NO_ROOM;
    }
    s->failed = tf_session_reserve_names(s, names);
    if (s->failed == TF_OK) {
        s->failed = tf_scratch_reserve(&s->lines, s->mem, s->lines.count + 1);
    }
    if (s->failed != TF_OK) {
        return FIT_NEVER;
    }
    const uint64_t before[2] = {s->next_out[0], s->next_out[1]};
    fit fits = name(s, value) == TF_OK ? FIT_YES : FIT_NEVER;
    size_t len = fits == FIT_YES ? line_len(s, entry, value, first) + count_growth(s) : 0;
    if (len > b->room) {
        fits = FIT_NO_ROOM;
    }
    if (fits != FIT_YES) {
        tf_session_undo(s, before, first);
        return fits;
    }
    b->room -= len;
    tf_session_line line = {.entry = entry, .value = value, .first_ref = first};
    ((tf_session_line *)s->lines.items)[s->lines.count++] = line;
    return FIT_YES;
}

static const tf_value *instead(const tf_session *s, const batch *b, tf_code code)
{
    return tf_refs_standard(s->node, b->kind == TF_REF_PROMISE ? code : TF_CODE_REVOKED);
}

/* A cycle that fits into no message would be told for ever. */
static bool is_too_deep(const tf_session *s, const tf_clist_entry *entry, uint32_t depth)
{
    return depth > TF_UNROLL_MAX || (depth > 0 && entry->record->value->size > TF_KEPT_BYTES_MAX - s->kept_bytes);
}

/* Its error has just been told, and leads back to it, by a promise: a REVOKE closes no circle with a RESOLVE. */
static bool was_told(const tf_session *s, const tf_clist_entry *entry)
{
    return entry->told == s->flushes && !entry->due_hard && entry->record->value->ref_count > 0;
}

static fit add_entry(tf_session *s, batch *b, tf_clist_entry *entry)
{
    bool led_here = entry->named == s->batches && entry->depth > 0; /* by a line of this very message */
    uint32_t depth = led_here ? entry->depth - 1 : entry->depth;
    bool cut = is_too_deep(s, entry, depth) || was_told(s, entry);
    fit fits = add_line(s, b, entry, cut ? instead(s, b, TF_CODE_OVERLOADED) : entry->record->value);
    if (s->failed == TF_OK && fits == FIT_NEVER) {
        fits = add_line(s, b, entry, instead(s, b, TF_CODE_OVERLOADED));
    } else if (fits == FIT_NO_ROOM && s->lines.count == 0) {
        fits = add_line(s, b, entry, instead(s, b, TF_CODE_MESSAGE_TOO_LARGE));
    }
    if (fits == FIT_YES) {
        entry->depth = depth;
    }
    return fits;
}

/* -- one message --------------------------------------------------------------------------------------------------- */

static tf_err gather(tf_session *s, batch *b)
{
    s->refs.count = 0;
    s->named.count = 0;
    s->lines.count = 0;
    s->batches++;
    for (tf_clist_entry *entry = tf_clist_due(&s->clist, b->kind); entry != NULL; entry = tf_clist_due_after(entry)) {
        size_t first = s->named.count;
        if (add_entry(s, b, entry) != FIT_YES) {
            break;
        }
        for (size_t i = first; i < s->named.count; i++) {
            tf_session_note_named(s, ((tf_clist_entry **)s->named.items)[i], entry->depth + 1);
        }
    }
    return s->failed;
}

static void write_line(tf_writer *w, const tf_session *s, const tf_session_line *line)
{
    if (line->value->kind == TF_RESOLUTION_OBJECT) {
        tf_message_write_resolution_object(w, line->entry->ref, tf_session_refs_at(s, line->first_ref)[0]);
        return;
    }
    tf_told told = told_of(s, line->entry, line->value, line->first_ref);
    tf_message_write_told(w, &told);
}

static tf_err write_batch(tf_session *s, const batch *b, size_t bound)
{
    tf_writer w;
    size_t count = s->lines.count;
    tf_err err = tf_retire_reserve(&s->retire, count, &s->clist);
    if (err == TF_OK) {
        err = tf_session_begin(s, bound, 0, &w);
    }
    if (err != TF_OK) {
        return err;
    }
    if (b->kind == TF_REF_PROMISE) {
        tf_message_write_resolve_head(&w, s->sent, tf_session_ack_delta(s), count);
    } else {
        tf_message_write_revoke_head(&w, s->sent, tf_session_ack_delta(s), count);
    }
    for (size_t i = 0; i < count; i++) {
        write_line(&w, s, (tf_session_line *)s->lines.items + i);
    }
    return tf_session_finish(s, &w, 0);
}

/* What the peer may still send to a promise needs its value (D8): charged until the ack, and given up beyond a limit. */
static void keep(tf_session *s, tf_clist_entry *entry)
{
    size_t size = entry->record->value->size;
    if (size > TF_KEPT_BYTES_MAX - s->kept_bytes) {
        tf_clist_replace(&s->clist, entry, s->node->overloaded);
        return;
    }
    entry->kept = size;
    s->kept_bytes += size;
}

/* The message is out: what it resolves or revokes hard is retired (D7, D10). */
static void retire_batch(tf_session *s, const batch *b)
{
    uint64_t number = s->sent - 1;
    tf_session_note_mentions(s);
    for (size_t i = 0; i < s->lines.count; i++) {
        tf_clist_entry *entry = ((tf_session_line *)s->lines.items)[i].entry;
        tf_clist_take_due(&s->clist, b->kind);
        if (b->kind == TF_REF_OBJECT && !entry->due_hard) {
            entry->revoked = s->sent;
            entry->told = s->flushes;
            continue;
        }
        tf_clist_retire(&s->clist, entry, number);
        tf_retire_push(&s->retire, number, entry->ref,
                       b->kind == TF_REF_PROMISE ? TF_RETIRE_PROMISE : TF_RETIRE_REVOKED);
        if (b->kind == TF_REF_PROMISE) {
            keep(s, entry);
        }
    }
}

static tf_err tell_batch(tf_session *s, tf_ref_kind kind)
{
    size_t head = tf_message_list_head_len(s->sent, tf_session_ack_delta(s));
    batch b = {.kind = kind, .room = s->remote.max_message - head};
    tf_err err = gather(s, &b);
    if (err == TF_OK) {
        err = write_batch(s, &b, s->remote.max_message - b.room);
    }
    if (err == TF_OK) {
        retire_batch(s, &b);
    }
    return err;
}

tf_err tf_session_flush_announcements(tf_session *s)
{
    static const tf_ref_kind kinds[] = {TF_REF_PROMISE, TF_REF_OBJECT};
    s->flushes++;
    for (size_t i = 0; i < 2 && s->failed == TF_OK; i++) {
        while (s->failed == TF_OK && tf_clist_due(&s->clist, kinds[i]) != NULL) {
            s->failed = tell_batch(s, kinds[i]);
            i = 0;
        }
    }
    return s->failed;
}
