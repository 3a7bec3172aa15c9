/* What the files of proto/session share. Reading order: session.c (life, turns, events), session_in.c (a message of the
 * peer: judged whole, then applied), session_out.c and session_resolve.c (what we send), session_held.c (what waits
 * inside), session_pin.c (what that names), session_queue.c (encoded messages). Nobody else includes this. */
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

/* Encoded messages in the order of their numbers, each whole in one piece of memory. */
typedef struct tf_session_queue {
    uint8_t *data;
    size_t capacity;
    size_t head;
    size_t tail;
    size_t items;
    size_t bytes; /* of messages */
} tf_session_queue;

TF_MUST_CHECK tf_err tf_session_queue_reserve(tf_session_queue *q, const tf_mem *mem, size_t len);
uint8_t *tf_session_queue_room(const tf_session_queue *q); /* where the next message goes; len bytes were reserved */
void tf_session_queue_push(tf_session_queue *q, size_t len);
bool tf_session_queue_peek(const tf_session_queue *q, tf_slice *out);
void tf_session_queue_pop(tf_session_queue *q, const tf_mem *mem);
void tf_session_queue_clear(tf_session_queue *q, const tf_mem *mem);

/* The data of a rejection, kept while the peer may still send to the rejected promise (D8). Counted: held deliveries
 * share it. Charged to kept_bytes. */
typedef struct tf_kept {
    size_t size;
    size_t users;
    tf_slice data;
    size_t ref_count;
    tf_mention refs[];
} tf_kept;

/* A delivery to a promise of ours: waiting (chained per promise), then ready (chained in one line), then an event or an
 * answer from inside. What it names is pinned. */
typedef struct tf_held {
    struct tf_held *next;
    struct tf_held *last; /* of a waiting chain: in its first */
    size_t size;
    tf_local target; /* waiting: the promise; ready: what it was resolved to, if that is an object */
    tf_resolution_kind kind; /* ready */
    tf_kept *kept;           /* ready, a rejection */
    tf_local result;
    tf_slice method;
    tf_slice args;
    size_t ref_count;
    tf_mention refs[];
} tf_held;

/* An answer that the session gives by itself. */
typedef struct tf_owed {
    tf_local result; /* TF_LOCAL_NONE: none owed */
    tf_resolution_kind kind;
    tf_kept *kept;
} tf_owed;

/* One answer of a resolve that is being made. */
typedef struct tf_session_named {
    const tf_answer *answer;
    tf_clist_entry *entry; /* NULL: the peer does not know the promise */
    size_t first_ref;      /* its refs, in tf_session.refs */
    tf_kept *kept;         /* a rejection */
    struct tf_session_named *next; /* in the order of the message */
} tf_session_named;

/* An event of the message of a turn. A promise that it resolves keeps its entry until the event is taken, so that an
 * application that has not heard of it yet speaks of it by its old ref: the decider still understands that (D8), for
 * nothing that is sent in this turn acks the RESOLVE. */
typedef struct tf_turn_event {
    tf_session_event event;
    tf_clist_entry *resolved; /* NULL: none */
} tf_turn_event;

typedef struct tf_turn {
    bool open;
    bool has_message;
    bool to_promise;      /* a deliver to a promise of ours */
    tf_ref promise;       /* that one */
    tf_scratch events;    /* tf_turn_event */
    size_t events_taken;
    tf_scratch mentions;  /* tf_mention: what the message mentions, translated, in order */
    tf_scratch gone;      /* tf_local: DROPPED events to come */
    size_t gone_taken;
    tf_owed owed;
    size_t freed[2];      /* by tf_ref_kind: numbers of ours that the peer may still count until this turn is acked */
} tf_turn;

struct tf_session {
    const tf_mem *mem;
    tf_local_ids *ids;
    tf_side side;
    tf_session_limits local;
    tf_session_limits remote;
    bool ended;
    tf_local ended_gone; /* the DROPPED event to come, once ended */
    tf_time now;
    tf_clist clist;
    tf_retire retire;
    uint64_t next_out[2]; /* by tf_ref_kind: the next number that we allocate */
    uint64_t next_in[2];  /* the next one that the peer may introduce */
    uint64_t judgements;  /* marks for tf_clist_entry.judged */
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
    tf_scratch refs;  /* tf_ref: of the message that is being made */
    tf_scratch order; /* tf_session_named */

    tf_map pins;      /* local -> how often held things name it, and PIN_* */
    size_t pins_due;  /* pins that stand for an event */
    size_t pins_at;   /* where the search for them goes on */
    tf_map waiting;   /* promise -> its first waiting tf_held */
    tf_held *ready, *ready_last;     /* events to come */
    tf_held *answers, *answers_last; /* to be answered from inside */
    tf_held *current;                /* what the last event showed */
    tf_kept *shown;                  /* likewise */
    tf_err failed;                   /* an answer from inside could not be given: done tells */
    size_t held_items;
    size_t held_bytes;
    size_t kept_bytes;

    tf_turn turn;
    uint64_t drops_executed;
    uint64_t drops_ignored;
};

/* -- session.c -- */

void tf_session_clock(tf_session *s, tf_time now);
/* The message of this turn must be acked within TF_SESSION_ACK_DELAY (D10). */
void tf_session_oblige_ack(tf_session *s);
/* The peer no longer refers to `local`: DROPPED comes, at once or when nothing pins it any more. Room in turn.gone. */
void tf_session_note_gone(tf_session *s, tf_local local);
/* Forgets a promise that the peer has resolved. */
void tf_session_forget_import(tf_session *s, tf_clist_entry *entry);
/* Forgets a RESOLVED entry and what was kept for it. Room in turn.gone. */
void tf_session_forget_resolved(tf_session *s, tf_clist_entry *entry);

/* -- session_out.c -- */

/* Room for messages that need not go now: drops and acks. */
bool tf_session_has_room(const tf_session *s);
/* Drops every touched import that nothing needs. NOMEM: the rest stays touched. */
TF_MUST_CHECK tf_err tf_session_flush_drops(tf_session *s);
TF_MUST_CHECK tf_err tf_session_send_ack(tf_session *s);

/* A message of at most `bound` bytes is written at *w, with number s->sent and this ack-delta, then finished. Number and
 * ack are those of this moment (D5). LIMIT_BYTES: too long for the peer; nothing changed. */
TF_MUST_CHECK tf_err tf_session_begin(tf_session *s, size_t bound, tf_writer *w);
uint64_t tf_session_ack_delta(const tf_session *s);
TF_MUST_CHECK tf_err tf_session_finish(tf_session *s, const tf_writer *w);

/* Appends to s->refs the ref of what is mentioned; an id that the peer does not know is exported. Room was reserved. */
TF_MUST_CHECK tf_err tf_session_mention(tf_session *s, const tf_mention *what);
const tf_ref *tf_session_refs_at(const tf_session *s, size_t first); /* NULL when there are none */
/* Forgets the references that were allocated since next_out was `before`: what introduces them is not sent. */
void tf_session_undo(tf_session *s, const uint64_t before[2]);
/* lastMentioned (D5) of every export in s->refs, by the message just finished. */
void tf_session_note_mentions(tf_session *s);

/* -- session_resolve.c -- */

/* tf_session_resolve without clock and state; inside: the answer is the session's own (MENTIONED). */
TF_MUST_CHECK tf_err tf_session_send_answers(tf_session *s, const tf_answer *answers, size_t count, bool inside);

/* -- session_pin.c -- */

/* Room for `extra` more pinned ids. */
TF_MUST_CHECK tf_err tf_session_reserve_pins(tf_session *s, size_t extra);
void tf_session_pin(tf_session *s, tf_local local);
void tf_session_unpin(tf_session *s, tf_local local);
bool tf_session_is_pinned(const tf_session *s, tf_local local); /* something inside names it */
bool tf_session_has_pin(const tf_session *s, tf_local local);   /* that, or an event is due for it */
/* The next MENTIONED or DROPPED event that a pin stands for. */
bool tf_session_take_pin(tf_session *s, tf_session_event *out);
void tf_session_pin_mentioned(tf_session *s, tf_local local); /* of a pinned id */
/* DROPPED is to come for it once nothing pins it. It has a pin, or room for one. */
void tf_session_owe_dropped(tf_session *s, tf_local local);

/* *out: NULL when it does not fit the budget. Its refs are pinned by keep. */
TF_MUST_CHECK tf_err tf_session_kept_new(tf_session *s, const tf_answer *answer, tf_kept **out);
void tf_session_kept_use(tf_kept *kept);                 /* NULL is fine */
void tf_session_kept_release(tf_session *s, tf_kept *kept); /* NULL is fine */

/* -- session_held.c -- */

/* A copy of a delivery; *out is NULL when it is beyond TF_HELD_*. Pins of what it names are reserved. */
TF_MUST_CHECK tf_err tf_session_held_new(tf_session *s, const tf_message *m, tf_held **out);
void tf_session_held_wait(tf_session *s, tf_held *held, tf_local promise, tf_local result, const tf_mention *refs);
void tf_session_held_free(tf_session *s, tf_held *held); /* NULL is fine */
/* The promise of the answer was resolved: what waits for it is ready. A pin of the object is reserved. */
void tf_session_held_release(tf_session *s, const tf_answer *answer, tf_kept *kept);
/* The next ready delivery as an event. */
bool tf_session_held_take(tf_session *s, tf_session_event *out);
/* Gives the next answer that is owed from inside; the event tells it. What fails is left in s->failed. */
bool tf_session_answer_take(tf_session *s, tf_session_event *out);
/* Frees what the last event showed. */
void tf_session_event_clear(tf_session *s);
void tf_session_held_clear(tf_session *s); /* all but what the last event showed */

/* The MessagePack map {"code", "message"} of the rejections that a session gives by itself. */
typedef enum tf_session_code {
    TF_SESSION_CANNOT_SEND_TO_DATA,
    TF_SESSION_DISCONNECTED,
    TF_SESSION_OVERLOADED
} tf_session_code;
tf_slice tf_session_rejection(tf_session_code code);

#endif
