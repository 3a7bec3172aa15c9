/* The drop/retire protocol of one connection between two nodes (PROTOCOL.md "Session", D1 to D12, D14): its c-list,
 * its retirement table, its numbers and acks. Pure: messages and time in; messages, a deadline and events out; it
 * never calls back.
 *
 * It translates between the peer's references and the records of the node (proto/refs.h). What is done with a message,
 * who waits for a promise and in which order, is the router's business (node/router.h), which is the only one that
 * calls this.
 *
 * One inbound message is one turn, in the order of D3:
 *     tf_session_recv(s, now, message)            number, ack, body: validated whole, then applied
 *     while (tf_session_next_event(s, &event))    the router acts; it may call anything here meanwhile, but recv
 *     tf_session_done(s, now)                     counts it as processed
 *     tf_session_flush(s, now)                    what it must announce; then the drops that the turn caused, batched
 * Between turns deliver, announce and flush may be called at any time. What is to be sent is pulled with
 * tf_session_peek_out / tf_session_pop_out, in order, and handed to the link at once: number and ack are fixed when a
 * message is encoded.
 *
 * Memory: everything from `mem`, bounded by the announced limits. Not thread-safe. */
#ifndef TF_PROTO_SESSION_H
#define TF_PROTO_SESSION_H

#include "proto/message.h"
#include "proto/ref.h"
#include "proto/refs.h"
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
    tf_refs *refs;       /* the node's; outlives the session */
    tf_local root;       /* our root object: exported as number 0 from the start, lastMentioned none (D5) */
    bool without_revoke; /* not both have the feature `revoke` (H6): none is sent, one that comes is malformed (D11) */
    uint64_t hash_key;   /* random */
    const tf_mem *mem;
} tf_session_config;

TF_MUST_CHECK tf_err tf_session_new(tf_session **out, const tf_session_config *config);
/* Also without tf_session_end: its entries give back their counts, silently. Records that it owned have no owner then. */
void tf_session_free(tf_session *s);

/* The router's own; NULL at first. */
void tf_session_set_user(tf_session *s, void *user);
void *tf_session_user(const tf_session *s);

/* The peer's root object: imported from the start, held once for the application. */
tf_local tf_session_peer_root(const tf_session *s);

/* -- inbound ------------------------------------------------------------------------------------------------------- */

/* PEER_*: nothing was applied; the connection must end with tf_close_from_err. NOMEM likewise (INTERNAL). CLOSED: after
 * tf_session_end. message must stay valid until tf_session_done. */
TF_MUST_CHECK tf_err tf_session_recv(tf_session *s, tf_time now, tf_slice message);

/* What the last PEER_SEQ (D1), PEER_ACK, PEER_REF, PEER_STATE of recv was about, for the CLOSE reason and the log. */
typedef struct tf_session_fault {
    uint64_t expected; /* SEQ: the number that was due; ACK: the most that can be processed; else 0 */
    uint64_t got; /* SEQ: the number that came; ACK: what the ack-deltas add up to (at most 2^64 - 1); else the ref */
} tf_session_fault;

tf_session_fault tf_session_get_fault(const tf_session *s);

typedef enum tf_session_event_type {
    TF_SESSION_DELIVER,  /* a message for something that is not the peer's: record is its target, in any state */
    TF_SESSION_RESOLVED, /* a promise was resolved by the peer that decided it (or by tf_session_end: `disconnected`).
                            The record has no owner any more: this node decides it now, and has yet to settle it */
    TF_SESSION_REVOKED,  /* an object was revoked by the peer that hosts it (or by tf_session_end: `disconnected`, soft).
                            Hard, or by the end: the record has no owner any more. It is the router that settles it */
    TF_SESSION_DROPPED   /* this session's export half of the object `local` is gone: the peer dropped it (D5), or acked
                            its retirement (D10), or the session ended (D14) */
} tf_session_event_type;

typedef struct tf_session_event {
    tf_session_event_type type;
    tf_record *record; /* not DROPPED */
    tf_local local;    /* of the record; DROPPED: of what was one */
    /* DELIVER */
    tf_slice method;
    tf_slice args;
    tf_record *result; /* NULL: none wanted. Unresolved, decided by this node, exported to the peer */
    /* DELIVER, RESOLVED as data or rejection, REVOKED: what the message mentions, in order */
    tf_record *const *refs; /* NULL when ref_count is 0 */
    size_t ref_count;
    /* RESOLVED, REVOKED (there kind is REJECTION) */
    tf_resolution_kind kind;
    tf_record *object;
    tf_slice data;
    uint32_t hops;  /* how far it has come (D13) */
    bool hard;      /* REVOKED */
    bool mentioned; /* RESOLVED: this very message mentions the promise, too */
    uint64_t piped; /* RESOLVED: 1 + the number of our last delivery to the promise; 0: there was none (D9) */
} tf_session_event;

/* All events of a turn must be taken before done. Slices and refs point into the message and the session: valid until
 * done. Records are valid until the next time somebody takes idle records (tf_refs_take_idle). For a RESOLVE or REVOKE
 * of what this side has dropped no event comes (D7). */
bool tf_session_next_event(tf_session *s, tf_session_event *out);

/* Ends the turn: the message is processed. */
void tf_session_done(tf_session *s, tf_time now);

/* How many of our messages the peer has processed, by its acks so far. */
uint64_t tf_session_peer_processed(const tf_session *s);
/* How many of ours were encoded: the number of the next one. */
uint64_t tf_session_sent(const tf_session *s);

/* -- outbound ------------------------------------------------------------------------------------------------------ */

typedef struct tf_delivery {
    tf_record *target; /* this session's import */
    tf_slice method;
    tf_slice args;
    tf_record *const *refs;
    size_t ref_count;
    tf_record *result; /* NULL: none. An unresolved promise that has no owner and is not exported to this peer: the peer
                          decides it then, this session is its owner */
    uint32_t share;    /* who pays for the room in the out queue: 0 this node, else another session's number (D15) */
} tf_delivery;

/* Sends a message; what it mentions that is resolved or revoked already is announced right after it (D8, D11). LIMIT_*
 * (the peer's limits; a promise counts until the turn of its resolution is done), USAGE (target not imported here,
 * result not as above, a method that is none), AGAIN (the out queue is beyond TF_OUT_QUEUE_*, or the share beyond
 * TF_SHARE_*: later), CLOSED, or NOMEM: nothing was sent or changed. */
TF_MUST_CHECK tf_err tf_session_deliver(tf_session *s, tf_time now, const tf_delivery *delivery);

/* The record was settled (tf_refs_settle), and hard is set if it is: every session that exports it will tell its peer
 * at its next flush: RESOLVE, REVOKE soft, or, of what is exported by now, REVOKE hard. Marks those sessions due. */
void tf_session_announce(tf_record *record);
/* Nothing refers to the import any more (count 0): its owner drops it at its next flush. Marks the owner due. */
void tf_session_unneeded(tf_record *import);

/* RESOLVE and REVOKE of all that is due, each batch in as few messages as fit, what they mention that is itself
 * resolved or revoked included, cycles too (D7); never refused for lack of room in the out queue. What does not fit
 * the peer's limits is replaced by a rejection that says so. Then, if no turn is open, one DROP for the unneeded
 * imports, as far as the queue has room. NOMEM: the connection must end. */
TF_MUST_CHECK tf_err tf_session_flush(tf_session *s, tf_time now);

/* Whether a resolution of this size and with these mentions would be within the peer's limits now: OK, LIMIT_ITEMS,
 * LIMIT_BYTES. */
tf_err tf_session_can_announce(const tf_session *s, size_t data_len, size_t ref_count, size_t new_objects,
                               size_t new_promises);
/* Whether the peer knows it under a ref that we may speak. */
bool tf_session_knows(const tf_session *s, const tf_record *record);

/* The next session with something due; NULL: none. It stays the caller's to flush. */
tf_session *tf_session_take_due(tf_refs *refs);
/* The next session that has encoded a message since it was last taken here. */
tf_session *tf_session_take_written(tf_refs *refs);

/* The oldest encoded message not yet taken; false when there is none. Valid until the next call that changes s. */
bool tf_session_peek_out(const tf_session *s, tf_slice *out);
void tf_session_pop_out(tf_session *s);
/* What waits there of share 0, for back-pressure: the caller stops offering optional traffic beyond TF_OUT_QUEUE_*. */
size_t tf_session_out_items(const tf_session *s);
size_t tf_session_out_bytes(const tf_session *s);

/* Gives back memory that only traffic needs; for a connection that has become idle. Between turns. */
void tf_session_trim(tf_session *s);

/* When tick has something to do (the `ack` message of D2, drops that found no room), TF_NEVER when nothing is pending. */
tf_time tf_session_deadline(const tf_session *s);
TF_MUST_CHECK tf_err tf_session_tick(tf_session *s, tf_time now);

/* D14: ends for good. Afterwards only next_event (RESOLVED, REVOKED of what was imported and live, DROPPED of what was
 * exported) and free are allowed. */
void tf_session_end(tf_session *s);

typedef struct tf_session_stats {
    uint64_t sent;           /* messages encoded */
    uint64_t received;       /* messages processed */
    uint64_t peer_processed; /* how many of ours the peer has processed */
    size_t imports;          /* objects of the peer, its root included */
    size_t exports;          /* objects of ours that the peer knows, the root included */
    size_t promises_ours;    /* that we decide, unresolved */
    size_t promises_theirs;  /* that the peer decides, unresolved */
    size_t retirements;      /* entries of the retirement table (D10) */
    size_t kept_bytes;       /* of values that wait there for the peer's ack */
    uint64_t drops_executed; /* of the peer's drops */
    uint64_t drops_ignored;  /* a mention was in flight */
} tf_session_stats;

void tf_session_get_stats(const tf_session *s, tf_session_stats *out);

/* One entry of the c-list, for people (`ref ls`). */
typedef struct tf_session_entry {
    tf_ref ref;
    tf_local local; /* TF_LOCAL_NONE: an import that was dropped */
    bool is_export;
    bool is_retired;  /* resolved, revoked hard or dropped, and the peer has not acked that */
    uint64_t retired; /* the number of our message that said so */
    bool is_revoked;  /* soft: our REVOKE was sent (an export) or came (an import) */
    bool is_mentioned;
    uint64_t mentioned; /* export: number of our last message that mentions it (lastMentioned) */
    uint32_t count;     /* what refers to the record here */
} tf_session_entry;

/* *cursor starts at 0, which is before the oldest entry; false: no more. Entries may come and go between two calls. */
bool tf_session_next_entry(const tf_session *s, uint64_t *cursor, tf_session_entry *out);

#endif
