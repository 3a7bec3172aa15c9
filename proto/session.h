/* The drop/retire protocol of one connection between two nodes (PROTOCOL.md "Session", D1 to D7, the first half of D8,
 * D10 and D14). Pure: messages and time in; messages, a deadline and events out; it never calls back.
 *
 * The session knows local ids (proto/ref.h) and the peer's wire references; what an object *is* is the hub's business.
 *
 * One inbound message is one turn, in the order of D3:
 *     tf_session_recv(s, now, message)            number, ack, body: validated whole, then applied
 *     while (tf_session_next_event(s, &event))    the hub acts; it may call deliver, resolve, hold, release meanwhile
 *     tf_session_done(s, now)                     counts it as processed, examines what it mentioned, batches the drops
 * Between turns the hub may call deliver, resolve, hold and release at any time (drops are then encoded at once).
 * What is to be sent is pulled with tf_session_peek_out / tf_session_pop_out, in order, and handed to the link at once:
 * number and ack are fixed when a message is encoded.
 *
 * Memory: everything from `mem`, bounded by the announced limits. Not thread-safe. */
#ifndef TF_PROTO_SESSION_H
#define TF_PROTO_SESSION_H

#include "proto/message.h"
#include "proto/ref.h"
#include "proto/types.h"

typedef struct tf_session tf_session;

/* Announced in HELLO/WELCOME by the side that receives (`local`), kept by the side that sends (`remote`). */
typedef struct tf_session_limits {
    uint32_t max_message;  /* bytes of one message */
    uint32_t max_refs;     /* objects that the other side may export to us */
    uint32_t max_promises; /* unresolved or unacked promises in one c-list */
    uint32_t max_results;  /* results that we owe the other side */
} tf_session_limits;

typedef struct tf_session_config {
    tf_side side;
    tf_session_limits local;
    tf_session_limits remote;
    tf_local_ids *ids;   /* shared by the node, outlives the session */
    tf_local root;       /* our root object: exported as number 0 from the start, lastMentioned none (D5) */
    uint64_t hash_key;   /* random */
    const tf_mem *mem;
} tf_session_config;

TF_MUST_CHECK tf_err tf_session_new(tf_session **out, const tf_session_config *config);
void tf_session_free(tf_session *s);

/* The local id of the peer's root object: imported from the start, held once for the application. */
tf_local tf_session_peer_root(const tf_session *s);

/* A local id as it is mentioned in a message. kind matters only for an id that this session does not know yet. */
typedef struct tf_mention {
    tf_local local;
    tf_ref_kind kind;
} tf_mention;

/* -- inbound ------------------------------------------------------------------------------------------------------- */

/* PEER_*: nothing was applied; the connection must end with tf_close_from_err. NOMEM likewise (INTERNAL). CLOSED: after
 * tf_session_end. message must stay valid until tf_session_done. */
TF_MUST_CHECK tf_err tf_session_recv(tf_session *s, tf_time now, tf_slice message);

/* What the last PEER_SEQ (D1), PEER_ACK, PEER_REF, PEER_STATE of recv was about, for the CLOSE reason and the log. */
typedef struct tf_session_fault {
    uint64_t expected; /* SEQ: the number that was due; ACK: the most that can be processed; else 0 */
    uint64_t got;      /* SEQ: the number that came; ACK: what the ack-deltas add up to (at most 2^64 - 1); else the ref */
} tf_session_fault;

tf_session_fault tf_session_get_fault(const tf_session *s);

typedef enum tf_session_event_type {
    TF_SESSION_DELIVER,  /* a message for one of our objects (or for one that a promise of ours was resolved to, D8) */
    TF_SESSION_RESOLVED, /* a promise decided by the peer was resolved (also by tf_session_end: rejection `disconnected`);
                            or the session itself has rejected the result of a delivery to a promise of ours (D8) */
    TF_SESSION_MENTIONED, /* a rejection with which this session answered (D8) names a promise of ours, under a fresh ref:
                             resolve it (again). Only for those who put promises into rejections */
    TF_SESSION_DROPPED    /* nothing of this session refers to that local id of ours any more: the peer dropped it (D5) or
                             acked its resolution (D10), nothing held mentions it; or the session ended (D14) */
} tf_session_event_type;

typedef struct tf_session_event {
    tf_session_event_type type;
    tf_local local; /* DELIVER: the target; RESOLVED: the promise; DROPPED: the export */
    /* DELIVER */
    tf_slice method;
    tf_slice args;
    tf_local result; /* TF_LOCAL_NONE: none wanted. To be resolved by us with tf_session_resolve */
    /* DELIVER, RESOLVED as data or rejection: what the message mentions, in order */
    const tf_mention *refs;
    size_t ref_count;
    /* RESOLVED */
    tf_resolution_kind kind;
    tf_mention object;
    tf_slice data;
    bool until_dropped; /* a DROPPED follows for the promise: something held may mention it first, so keep what it is */
} tf_session_event;

/* All events of a turn must be taken before done; a later one may name again what an earlier one has shown. A RESOLVED
 * may come for a promise that was never seen (a held delivery will mention it; the result of one that was answered from
 * inside): until_dropped says so. A mention of a promise of ours that was resolved already is normal until DROPPED comes
 * for it (D8). What a successful deliver or resolve mentions of ours gets a DROPPED after its last mention, sooner or
 * later, and so does what it resolves. What the peer has resolved can be spoken of, and to, until its RESOLVED was taken.
 * Slices and refs point into the message and the session: valid until the next call of next_event or done. A DELIVER to
 * a promise of ours that is not resolved yet is held inside (bounded by TF_HELD_*; beyond: rejected `overloaded`) and
 * comes as an event of a later turn, in order, once the promise is resolved: to the object, or answered from inside with
 * `cannot_send_to_data` or the rejection. */
bool tf_session_next_event(tf_session *s, tf_session_event *out);

/* Ends the turn. NOMEM: the connection must end. */
TF_MUST_CHECK tf_err tf_session_done(tf_session *s, tf_time now);

/* True while held deliveries became deliverable outside a turn: run a turn of next_event ... done without recv. */
bool tf_session_has_events(const tf_session *s);

/* -- outbound ------------------------------------------------------------------------------------------------------ */

typedef struct tf_delivery {
    tf_local target;
    tf_slice method;
    tf_slice args;
    const tf_mention *refs;
    size_t ref_count;
    bool want_result;
} tf_delivery;

/* Sends a message. *result: the promise for its answer, decided by the peer (TF_LOCAL_NONE when not wanted); a
 * TF_SESSION_RESOLVED event comes for it. LIMIT_* (the peer's limits; a promise counts until the turn of its resolution
 * is done), USAGE (target unknown to this session: dropped, or resolved; or a method that is none), AGAIN (the out queue is
 * beyond TF_OUT_QUEUE_*: later) or NOMEM: nothing was sent or changed. A mention of a promise that was resolved already
 * goes under a fresh ref, which is then ours to resolve again (D8). */
TF_MUST_CHECK tf_err tf_session_deliver(tf_session *s, tf_time now, const tf_delivery *delivery, tf_local *result);

typedef struct tf_answer {
    tf_local promise; /* decided by us */
    tf_resolution_kind kind;
    tf_mention object;
    tf_slice data; /* DATA; REJECTION (at most TF_REJECTION_MAX) */
    const tf_mention *refs;
    size_t ref_count;
} tf_answer;

/* Resolves and retires promises in one message (D7). The answers may mention each other's promises, cycles included; one
 * that the peer does not know is resolved if another answer mentions it, and else only releases what is held for it: so
 * one that the peer has dropped is skipped. LIMIT_* (too much for one message: give them singly, those that mention before
 * those that are mentioned; or beyond the peer's limits), USAGE (decided by the peer, twice, or to a promise), NOMEM:
 * nothing changed. */
TF_MUST_CHECK tf_err tf_session_resolve(tf_session *s, tf_time now, const tf_answer *answers, size_t count);

/* Counts of the application on what this session imports (any other id is ignored). An import that has none at the end of
 * the turn that mentioned it, or at the release of its last one, is dropped (D5, D6). A released promise is dropped too:
 * its RESOLVED event does not come. deliver with want_result holds the result once for the caller; RESOLVED gives that
 * back. */
void tf_session_hold(tf_session *s, tf_local import);
void tf_session_release(tf_session *s, tf_time now, tf_local import);

/* The oldest encoded message not yet taken; false when there is none. Valid until the next call that changes s. */
bool tf_session_peek_out(const tf_session *s, tf_slice *out);
void tf_session_pop_out(tf_session *s);
/* What waits there, for back-pressure: the caller stops offering optional traffic beyond TF_OUT_QUEUE_*. */
size_t tf_session_out_items(const tf_session *s);
size_t tf_session_out_bytes(const tf_session *s);

/* Gives back memory that only traffic needs; for a connection that has become idle. Between turns. */
void tf_session_trim(tf_session *s);

/* When tick has something to do (the `ack` message of D2), TF_NEVER when nothing is pending. */
tf_time tf_session_deadline(const tf_session *s);
TF_MUST_CHECK tf_err tf_session_tick(tf_session *s, tf_time now);

/* D14: ends for good. Afterwards only next_event (rejections `disconnected` of what the peer decides, DROPPED of what it
 * held) and free are allowed. */
void tf_session_end(tf_session *s);

typedef struct tf_session_stats {
    uint64_t sent;               /* messages encoded */
    uint64_t received;           /* messages processed */
    uint64_t peer_processed;     /* how many of ours the peer has processed */
    size_t imports;              /* objects of the peer, its root included */
    size_t exports;              /* objects of ours that the peer knows, the root included */
    size_t promises_ours;        /* that we decide, unresolved */
    size_t promises_theirs;      /* that the peer decides, unresolved */
    size_t retirements;          /* entries of the retirement table (D10) */
    size_t held_items;
    size_t held_bytes;
    uint64_t drops_executed;     /* of the peer's drops */
    uint64_t drops_ignored;      /* a mention was in flight */
} tf_session_stats;

void tf_session_get_stats(const tf_session *s, tf_session_stats *out);

#endif
