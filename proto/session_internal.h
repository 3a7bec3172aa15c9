/* What the files of proto/session share. Reading order: session.c (life, turns, time), session_events.c,
 * session_judge.c and session_in.c (a message of the peer: judged whole, then applied), session_out.c and
 * session_announce.c (what we send), session_queue.c (encoded messages). Nobody else includes this. */
#ifndef TF_PROTO_SESSION_INTERNAL_H
#define TF_PROTO_SESSION_INTERNAL_H

#include "proto/clist.h"
#include "proto/limits.h"
#include "proto/retire.h"
#include "proto/session.h"

/* A reusable array: grows, never moves within a turn once reserved, given back at the end of a turn when large. */
typedef struct tf_scratch {
    void *items;
    size_t size; /* of one item */
    size_t capacity;
    size_t count;
} tf_scratch;

TF_MUST_CHECK tf_err tf_scratch_reserve(tf_scratch *scratch, const tf_mem *mem, size_t capacity);
void tf_scratch_trim(tf_scratch *scratch, const tf_mem *mem, size_t bytes); /* frees it if it is larger than that */

/* Encoded messages in the order of their numbers, each whole in one piece of memory, and who pays for their room. */
typedef struct tf_session_queue {
    uint8_t *data;
    size_t capacity;
    size_t head;
    size_t tail;
    size_t items;     /* all */
    size_t own_items; /* share 0 */
    size_t own_bytes;
    tf_map shares; /* share -> items << 40 | bytes; those that have any */
} tf_session_queue;

void tf_session_queue_init(tf_session_queue *q, const tf_mem *mem, uint64_t hash_key);
bool tf_session_queue_has_room(const tf_session_queue *q, uint32_t share);
TF_MUST_CHECK tf_err tf_session_queue_reserve(tf_session_queue *q, const tf_mem *mem, size_t len, uint32_t share);
uint8_t *tf_session_queue_room(const tf_session_queue *q); /* where the next message goes; len bytes were reserved */
void tf_session_queue_push(tf_session_queue *q, size_t len, uint32_t share);
bool tf_session_queue_peek(const tf_session_queue *q, tf_slice *out);
void tf_session_queue_pop(tf_session_queue *q, const tf_mem *mem);
void tf_session_queue_trim(tf_session_queue *q, const tf_mem *mem); /* an empty one */
void tf_session_queue_clear(tf_session_queue *q, const tf_mem *mem);

/* One line of a RESOLVE or REVOKE that is being made. */
typedef struct tf_session_line {
    tf_clist_entry *entry;
    const tf_value *value; /* what is told: its record's, or one of the node's own */
    size_t first_ref;      /* in tf_session.refs */
} tf_session_line;

/* An event of the message of a turn. An import that it resolves or revokes hard keeps its entry until the event is
 * taken: so whoever has not heard of it yet speaks of it by its old ref, which the peer still understands (D8), for
 * nothing that is sent in this turn acks the message; and if the session ends first, it ends like any other import. */
typedef struct tf_turn_event {
    tf_session_event event;
    tf_clist_entry *entry; /* NULL: DELIVER */
} tf_turn_event;

typedef struct tf_turn {
    bool open;
    bool to_promise;   /* a deliver to a promise of ours */
    tf_ref promise;    /* that one */
    tf_scratch events; /* tf_turn_event */
    size_t events_taken;
    tf_scratch mentions; /* tf_record *: what the message mentions, in order */
    tf_scratch gone;     /* tf_local: DROPPED events to come */
    size_t gone_taken;
    size_t freed[2]; /* by tf_ref_kind: numbers of ours that the peer may still count until this turn is acked */
} tf_turn;

struct tf_session {
    const tf_mem *mem;
    tf_refs *node;
    tf_side side;
    tf_session_limits local;
    tf_session_limits remote;
    void *user;
    bool without_revoke;
    bool ended;
    tf_err failed; /* memory ran out in the middle of an announcement: the connection must end */
    tf_time now;
    tf_clist clist;
    tf_retire retire;
    uint64_t next_out[2]; /* by tf_ref_kind: the next number that we allocate */
    uint64_t next_in[2];  /* the next one that the peer may introduce */
    uint64_t judgements;  /* marks for tf_clist_entry.judged */
    uint64_t batches;     /* marks for tf_clist_entry.named */
    uint64_t flushes;     /* marks for tf_clist_entry.told */
    tf_local peer_root;

    uint64_t processed;      /* messages of the peer, fully */
    uint64_t acked;          /* of them, what our last encoded message said */
    uint64_t sent;           /* messages of ours, encoded */
    uint64_t taken;          /* of them, taken by the link */
    uint64_t peer_processed; /* of them, what the peer's acks add up to */
    uint64_t ack_wanted;     /* 1 + the number of the last message that obliges an ack */
    tf_time ack_due;
    tf_session_fault fault;

    tf_session_queue out;
    tf_scratch refs;  /* tf_ref: what the message that is being made names, in order */
    tf_scratch named; /* tf_clist_entry *: the same */
    tf_scratch lines; /* tf_session_line */
    size_t kept_bytes;

    bool is_due, is_written; /* in the lists of the node */
    tf_session *due_next, *written_next;

    tf_turn turn;
    uint64_t drops_executed;
    uint64_t drops_ignored;
};

/* What is found out about a message before anything is changed. */
typedef struct tf_judgement {
    const tf_message *m;
    uint64_t acked;   /* how many messages of ours are processed, with this message's ack */
    size_t due;       /* retirements that the ack takes */
    uint64_t next[2]; /* next_in after this message */
    size_t additions; /* entries and records that are made */
    size_t mentions;
    uint64_t tellable; /* the lowest number introduced here that may be resolved or revoked next (D7) */
    bool counted;      /* popped is valid */
    size_t popped[2];  /* the peer's numbers that the ack frees */
    tf_clist_entry *target;
} tf_judgement;

/* -- session.c -- */

void tf_session_clock(tf_session *s, tf_time now);
/* The message of this turn must be acked within TF_SESSION_ACK_DELAY (D10). */
void tf_session_oblige_ack(tf_session *s);
/* Something is to be announced or dropped. */
void tf_session_mark_due(tf_session *s);
/* A message was encoded. */
void tf_session_mark_written(tf_session *s);

/* -- session_events.c -- */

void tf_session_push_event(tf_session *s, const tf_session_event *event, tf_clist_entry *entry);
/* Forgets what the peer has resolved or revoked hard. */
void tf_session_forget_import(tf_session *s, tf_clist_entry *entry);
/* Forgets an export; DROPPED comes for it. Room in turn.gone, unless the session ended. */
void tf_session_forget_export(tf_session *s, tf_clist_entry *entry);

/* -- session_judge.c -- */

TF_MUST_CHECK tf_err tf_session_judge(tf_session *s, tf_judgement *j);

/* -- session_out.c -- */

/* Room for messages that need not go now: drops and acks. */
bool tf_session_has_room(const tf_session *s);
/* Drops every touched import that nothing needs. NOMEM: the rest stays touched. */
TF_MUST_CHECK tf_err tf_session_flush_drops(tf_session *s);
TF_MUST_CHECK tf_err tf_session_send_ack(tf_session *s);

/* A message of at most `bound` bytes is written at *w, with number s->sent and this ack-delta, then finished, for the
 * same share. Number and ack are those of this moment (D5). LIMIT_BYTES: too long for the peer; nothing changed. */
TF_MUST_CHECK tf_err tf_session_begin(tf_session *s, size_t bound, uint32_t share, tf_writer *w);
uint64_t tf_session_ack_delta(const tf_session *s);
TF_MUST_CHECK tf_err tf_session_finish(tf_session *s, const tf_writer *w, uint32_t share);

/* Room to name `extra` records more. */
TF_MUST_CHECK tf_err tf_session_reserve_names(tf_session *s, size_t extra);
/* Appends what is mentioned to s->refs and s->named; what the peer does not know is exported. Room was reserved. */
TF_MUST_CHECK tf_err tf_session_mention(tf_session *s, tf_record *record);
const tf_ref *tf_session_refs_at(const tf_session *s, size_t first); /* NULL when there are none */
/* Forgets the references that were allocated since next_out was `before`, and all names but `names`: what introduces
 * them is not sent. */
void tf_session_undo(tf_session *s, const uint64_t before[2], size_t names);
/* lastMentioned (D5) of every export in s->named, by the message just finished. */
void tf_session_note_mentions(tf_session *s);

/* -- session_announce.c -- */

/* An export was mentioned, `depth` messages after the one that led to it: if it was resolved or revoked, that is due. */
void tf_session_note_named(tf_session *s, tf_clist_entry *entry, uint32_t depth);
/* RESOLVE and REVOKE of all that is due. NOMEM: s->failed says so from then on. */
TF_MUST_CHECK tf_err tf_session_flush_announcements(tf_session *s);

#endif
