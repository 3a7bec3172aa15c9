/* What a node does with references: it brings messages to what they are for, over the sessions of its connections and to the
 * application on this node, keeps their order across resolution, and forgets what nobody refers to (PROTOCOL.md D3, D6 to
 * D15). A node that relays is one whose records are imported by one session and exported by another. Pure.
 *
 * "The application" is whoever serves and uses objects on this node: the hub's channels, its clients, objects of programs that
 * embed the node. It knows objects and promises by local ids (proto/ref.h). An object of the application needs no
 * registration: a local id from tf_router_new_object that nobody knows yet is introduced by mentioning it.
 *
 * One inbound message:
 *     tf_router_recv(router, session, now, message)
 *     while (tf_router_next_event(router, &event))  …     the application acts; it may call everything here but recv
 * which also does what is due at the end of the turn. After any other call, and after attach or detach, take events too if
 * tf_router_has_events. Then pull what sessions have written (tf_session_take_written of tf_router_refs), and see
 * tf_router_next_failed.
 *
 * Bounds: what waits for a promise, and what waits in the out queue of a connection, is charged to the session that it came
 * from (TF_HELD_*, TF_SHARE_*); beyond it a message is rejected `overloaded`, and so are the later ones of that sender to the
 * same target until the sender has processed the refusal (D15). Not thread-safe. */
#ifndef TF_NODE_ROUTER_H
#define TF_NODE_ROUTER_H

#include "proto/session.h"

typedef struct tf_router tf_router;

/* TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_router_new(tf_router **out, const tf_mem *mem, uint64_t hash_key);
/* All sessions are detached and freed. NULL is fine. */
void tf_router_free(tf_router *router);

/* For tf_session_config. */
tf_refs *tf_router_refs(tf_router *router);

/* owner comes back with tf_router_owner. TF_ERR_NOMEM: not attached. */
TF_MUST_CHECK tf_err tf_router_attach(tf_router *router, tf_session *session, void *owner);
/* D14, for good: the application's hold of the peer's root (tf_session_peer_root) is given back by this, and by nothing else;
 * what the peer decided is rejected `disconnected`, what it hosted is revoked with that, its imports count as
 * dropped. Also in the middle of a turn, which ends then. Events may be due. The session is the caller's to free. */
void tf_router_detach(tf_router *router, tf_time now, tf_session *session);
void *tf_router_owner(const tf_session *session); /* NULL: not attached */

/* A local id as it is mentioned. kind matters only for an id that this node does not know yet: it is the application's own
 * object then (a promise must be known: USAGE). */
typedef struct tf_mention {
    tf_local local;
    tf_ref_kind kind;
} tf_mention;

/* -- inbound ------------------------------------------------------------------------------------------------------- */

/* As tf_session_recv. All events of the message before must have been taken. */
TF_MUST_CHECK tf_err tf_router_recv(tf_router *router, tf_session *session, tf_time now, tf_slice message);

typedef enum tf_router_event_type {
    TF_ROUTER_DELIVER,  /* a message for an object of the application */
    TF_ROUTER_RESOLVED, /* a promise that the application holds was resolved. All its holds are given back by this */
    TF_ROUTER_REVOKED,  /* an object that the application holds was revoked by its host, or its host is gone. It stays held */
    TF_ROUTER_DROPPED,  /* `session` no longer exports the object `local`: its peer dropped it, or acked that it was revoked
                           hard. Who detaches a session knows that all of its are gone */
    TF_ROUTER_GONE      /* nobody refers to an object or promise of the application any more; it may be mentioned anew (an
                           object), and answers to it are for nobody (a promise) */
} tf_router_event_type;

typedef struct tf_router_event {
    tf_router_event_type type;
    tf_session *session; /* DELIVER: whom it came from; NULL: from this node, or from one that is gone. DROPPED */
    tf_local local;
    /* DELIVER */
    tf_slice method;
    tf_slice args;
    tf_local result; /* TF_LOCAL_NONE: none wanted. To be resolved with tf_router_resolve */
    /* DELIVER, RESOLVED as data or rejection, REVOKED: what it mentions, in order. To be held by whoever keeps them */
    const tf_mention *refs;
    size_t ref_count;
    /* RESOLVED; REVOKED: a rejection */
    tf_resolution_kind kind;
    tf_mention object;
    tf_slice data;
    bool hard;
} tf_router_event;

/* Slices and refs are valid until the next call of next_event. */
bool tf_router_next_event(tf_router *router, tf_router_event *out);
bool tf_router_has_events(const tf_router *router);

/* When tick has something to do: dead cycles of promises are looked for once more when nothing was resolved for a while (D13).
 * TF_NEVER: nothing. After tick, events may be due. */
tf_time tf_router_deadline(const tf_router *router);
void tf_router_tick(tf_router *router, tf_time now);

/* A session that ran out of memory or limits of its own: its connection must end with *err (then tf_router_detach). */
bool tf_router_next_failed(tf_router *router, tf_session **session, tf_err *err);

/* -- the application ----------------------------------------------------------------------------------------------- */

tf_local tf_router_new_object(tf_router *router);
/* A promise that the application decides, held once. TF_LOCAL_NONE: no memory. */
tf_local tf_router_new_promise(tf_router *router);

typedef struct tf_router_send {
    tf_local target; /* what the application holds, hosts or decides */
    tf_slice method;
    tf_slice args;
    const tf_mention *refs;
    size_t ref_count;
    bool want_result;
} tf_router_send;

/* Sends a message to an object or promise, wherever it is. *result (may be NULL without want_result): the promise for its
 * answer, held once; a RESOLVED event comes for it, always later than this call. LIMIT_*, USAGE (unknown target or promise, a
 * method that is none), AGAIN (a queue is full: later) or NOMEM: nothing was sent or changed. */
TF_MUST_CHECK tf_err tf_router_deliver(tf_router *router, tf_time now, const tf_router_send *send, tf_local *result);

typedef struct tf_answer {
    tf_local promise; /* decided by the application */
    tf_resolution_kind kind;
    tf_mention object;
    tf_slice data; /* DATA; REJECTION (at most TF_REJECTION_MAX) */
    const tf_mention *refs;
    size_t ref_count;
} tf_answer;

/* Resolves promises; several at once may mention each other, cycles included, and are told to each peer in one message if
 * they fit. A promise that nobody refers to (any more) is skipped. USAGE: decided by a peer, resolved already, to a promise, or
 * twice; LIMIT_*: more than a peer that waits for it takes; NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_router_resolve(tf_router *router, tf_time now, const tf_answer *answers, size_t count);

typedef struct tf_revocation {
    tf_local object; /* of the application */
    bool hard;       /* its identity goes, too (D12) */
    tf_slice data;   /* the rejection that sends are answered with; at most TF_REJECTION_MAX */
    const tf_mention *refs;
    size_t ref_count;
} tf_revocation;

/* D11, D12. An object that nobody refers to is skipped. Again: only from soft to hard, else USAGE; so is a root. */
TF_MUST_CHECK tf_err tf_router_revoke(tf_router *router, tf_time now, const tf_revocation *revocation);

/* Whether anybody refers to it, the application included. */
bool tf_router_is_known(const tf_router *router, tf_local local);

/* Counts of the application. What it does not hold may be forgotten at the end of the turn that mentioned it. Who begins to hold
 * what is resolved or revoked already is told by the event for that. An unknown id is ignored. */
void tf_router_hold(tf_router *router, tf_local local);
void tf_router_release(tf_router *router, tf_time now, tf_local local);

typedef struct tf_router_stats {
    size_t records;
    size_t resolved;    /* of these: resolved promises */
    size_t held_items;  /* messages that wait for a resolution */
    size_t held_bytes;
    size_t fences;
    uint64_t forwarded; /* deliveries from one session to another */
    uint64_t overloaded;
    uint64_t cycles;    /* records of dead cycles that were collected */
} tf_router_stats;

void tf_router_get_stats(const tf_router *router, tf_router_stats *out);

/* For people: the peer a record is imported from (NULL: this node), and in how many c-lists it is exported. False: unknown. */
bool tf_router_describe(const tf_router *router, tf_local local, tf_session **owner, size_t *exports, bool *revoked);

#endif
