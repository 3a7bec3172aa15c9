/* Events of a turn, and of the end. */
#include "proto/session_internal.h"

void tf_session_push_event(tf_session *s, const tf_session_event *event, tf_clist_entry *entry)
{
    tf_scratch *events = &s->turn.events;
    TF_ASSERT(events->count < events->capacity);
    ((tf_turn_event *)events->items)[events->count++] = (tf_turn_event){.event = *event, .entry = entry};
}

void tf_session_forget_import(tf_session *s, tf_clist_entry *entry)
{
    if (tf_ref_side_of(entry->ref) == s->side) {
        s->turn.freed[tf_ref_kind_of(entry->ref)]++;
    }
    tf_clist_remove(&s->clist, entry);
}

void tf_session_forget_export(tf_session *s, tf_clist_entry *entry)
{
    tf_local local = entry->local;
    bool is_told = !s->ended && tf_ref_kind_of(entry->ref) == TF_REF_OBJECT;
    s->kept_bytes -= entry->kept;
    tf_clist_remove(&s->clist, entry);
    if (is_told) {
        tf_scratch *gone = &s->turn.gone;
        TF_ASSERT(gone->count < gone->capacity);
        ((tf_local *)gone->items)[gone->count++] = local;
    }
}

static bool take_message_event(tf_session *s, tf_session_event *out)
{
    tf_turn *turn = &s->turn;
    if (turn->events_taken == turn->events.count) {
        return false;
    }
    const tf_turn_event *next = (tf_turn_event *)turn->events.items + turn->events_taken++;
    *out = next->event;
    if (out->type == TF_SESSION_RESOLVED) {
        out->piped = next->entry->piped;
        tf_session_forget_import(s, next->entry);
    } else if (out->type == TF_SESSION_REVOKED && out->hard) {
        tf_session_forget_import(s, next->entry);
    }
    return true;
}

static bool is_exported(const tf_session *s, tf_local local)
{
    const tf_record *record = tf_refs_find(s->node, local);
    return record != NULL && tf_session_knows(s, record);
}

/* Since the peer let go of it, it may have been mentioned again. */
static bool take_gone(tf_session *s, tf_session_event *out)
{
    tf_turn *turn = &s->turn;
    while (turn->gone_taken < turn->gone.count) {
        tf_local local = ((tf_local *)turn->gone.items)[turn->gone_taken++];
        if (!is_exported(s, local)) {
            *out = (tf_session_event){.type = TF_SESSION_DROPPED, .local = local};
            return true;
        }
    }
    return false;
}

/* One entry of the c-list of a session that ended goes; true when *out tells of it (D14). */
static bool end_entry(tf_session *s, tf_clist_entry *entry, tf_session_event *out)
{
    if (entry->role == TF_CLIST_EXPORT) {
        bool is_object = tf_ref_kind_of(entry->ref) == TF_REF_OBJECT;
        *out = (tf_session_event){.type = TF_SESSION_DROPPED, .local = entry->local};
        tf_session_forget_export(s, entry);
        return is_object && !is_exported(s, out->local);
    }
    *out = (tf_session_event){
        .type = tf_ref_kind_of(entry->ref) == TF_REF_PROMISE ? TF_SESSION_RESOLVED : TF_SESSION_REVOKED,
        .record = entry->record,
        .local = entry->local,
        .kind = TF_RESOLUTION_REJECTION,
        .data = tf_code_rejection(TF_CODE_DISCONNECTED),
    };
    tf_clist_remove(&s->clist, entry);
    return out->record != NULL && out->record->count > 0;
}

static bool take_end(tf_session *s, tf_session_event *out)
{
    for (tf_clist_entry *entry; (entry = tf_clist_first(&s->clist)) != NULL;) {
        if (end_entry(s, entry, out)) {
            return true;
        }
    }
    return false;
}

bool tf_session_next_event(tf_session *s, tf_session_event *out)
{
    return take_message_event(s, out) || take_gone(s, out) || (s->ended && take_end(s, out));
}
