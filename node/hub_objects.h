/* Objects and promises of a program that embeds the node (PROTOCOL.md "Session"): it exports objects, is called,
 * calls objects of peers, and holds what it was given, all by local ids (proto/ref.h). The hub keeps channels and names
 * beside it; what is sent to them does not come here. Pure.
 *
 * What happens is queued, copied, and pulled:
 *     tf_hub_run(hub, …)
 *     while (tf_hub_next_app_event(hub, &event))  …    everything here may be called meanwhile
 * After any call run the hub. What an event names is held until the next one is asked for: to keep it, tf_hub_hold.
 *
 * Bounds (P7): of calls that wait, TF_APP_ITEMS and TF_APP_BYTES, of one connection a quarter of that; beyond it a call
 * is refused `overloaded`, and so are the later ones of that connection until its peer has processed the refusal. An
 * answer for which there is no room (TF_APP_BYTES, apart from calls) reads as the rejection `overloaded`. Not
 * thread-safe. */
#ifndef TF_NODE_HUB_OBJECTS_H
#define TF_NODE_HUB_OBJECTS_H

#include "node/calls.h"
#include "node/hub.h"
#include "node/router.h"

#define TF_APP_ITEMS 4096u
#define TF_APP_BYTES ((size_t)16 * 1024 * 1024)
#define TF_APP_OBJECTS_MAX 65536u /* of the application */
#define TF_APP_HELD_MAX 65536u    /* objects and promises that it holds */

/* -- objects of the application ------------------------------------------------------------------------------------ */

/* An object that others may call once it was mentioned to them. `user` comes with its events. LIMIT_ITEMS, NOMEM. */
TF_MUST_CHECK tf_err tf_hub_object_new(tf_hub *hub, void *user, tf_local *out);
/* It is no object any more: revoked, if somebody still refers to it and it was not; calls of it that wait are refused.
 * No further event of it comes. Unknown: no-op. */
void tf_hub_object_free(tf_hub *hub, tf_time now, tf_local object);
/* False: not an object of the application. user may be NULL. */
bool tf_hub_object_user(const tf_hub *hub, tf_local object, void **user);

/* A promise that the application decides; held as if by tf_hub_hold until tf_hub_resolve, which ends that without an
 * event. LIMIT_ITEMS, NOMEM. */
TF_MUST_CHECK tf_err tf_hub_promise_new(tf_hub *hub, void *user, tf_local *out);

/* -- what it does -------------------------------------------------------------------------------------------------- */

/* Sends a message to anything it holds, hosts or decides. *result (with want_result): the promise for the answer, held
 * with `user`; SETTLED comes for it. AGAIN: a queue is full, later; LIMIT_*; USAGE: unknown target or promise, a method
 * that is none; NOMEM: nothing was sent. A promise that is settled is not known any more, but as a target until its
 * event was pulled, if it was resolved to an object. */
TF_MUST_CHECK tf_err tf_hub_call(tf_hub *hub, tf_time now, const tf_router_send *send, void *user, tf_local *result);

/* As tf_router_resolve: `result` of a CALL, or promises of tf_hub_promise_new. */
TF_MUST_CHECK tf_err tf_hub_resolve(tf_hub *hub, tf_time now, const tf_answer *answers, size_t count);
/* The same for one, with the map that refusals are (S9). USAGE also: longer than TF_REFUSAL_CODE_MAX or
 * TF_REFUSAL_MESSAGE_MAX, or no code. */
TF_MUST_CHECK tf_err tf_hub_reject(tf_hub *hub, tf_time now, tf_local promise, tf_slice code, tf_slice message);
/* As tf_router_revoke, of an object of the application, with such a map. It stays one until tf_hub_object_free. */
TF_MUST_CHECK tf_err tf_hub_revoke(tf_hub *hub, tf_time now, tf_local object, bool hard, const tf_result_refusal *why);

/* Keeps what an event named, or what else this node knows, until so many calls of release; `user` comes with its
 * events from now on. What is resolved or revoked already is told by the event for that. USAGE: unknown, or settled and
 * told; LIMIT_ITEMS; NOMEM. */
TF_MUST_CHECK tf_err tf_hub_hold(tf_hub *hub, tf_local local, void *user);
/* Not held: no-op. */
void tf_hub_release(tf_hub *hub, tf_time now, tf_local local);

/* -- what happens -------------------------------------------------------------------------------------------------- */

typedef enum tf_app_event_type {
    TF_APP_CALL,    /* a message for an object of the application */
    TF_APP_SETTLED, /* a promise that it holds was resolved, and is not held any more */
    TF_APP_REVOKED, /* an object that it holds was revoked, or its host is gone (`disconnected`). It stays held */
    TF_APP_GONE     /* nobody refers to an object of the application any more; it may be mentioned again */
} tf_app_event_type;

typedef struct tf_app_event {
    tf_app_event_type type;
    tf_local local; /* the object; SETTLED: the promise */
    void *user;     /* its own */
    /* CALL */
    bool has_from; /* false: from this node, or from a peer that is gone */
    tf_node_id from; /* the peer that it came from: of a relay, not who sent it there */
    tf_slice method;
    tf_slice args;
    tf_local result; /* TF_LOCAL_NONE: none wanted */
    /* CALL; SETTLED as data or rejection; REVOKED: what it mentions, in order */
    const tf_mention *refs;
    size_t ref_count;
    /* SETTLED; REVOKED: a rejection */
    tf_resolution_kind kind;
    tf_mention object; /* SETTLED as an object */
    tf_slice data;     /* a rejection: the map of a refusal, mostly (tf_result_refusal_read) */
    bool hard;         /* REVOKED */
} tf_app_event;

/* Slices and refs are valid until the next call of this function. */
bool tf_hub_next_app_event(tf_hub *hub, tf_app_event *out);
bool tf_hub_has_app_events(const tf_hub *hub);

/* -- what it is ---------------------------------------------------------------------------------------------------- */

typedef struct tf_hub_ref_state {
    bool is_own;     /* of this node: an object of the application, a channel, a promise that this node decides */
    tf_conn *conn;   /* who hosts or decides it; NULL: this node, or nobody any more */
    size_t exports;  /* connections whose peers may speak of it */
    bool is_revoked;
} tf_hub_ref_state;

/* For people. False: unknown, nobody refers to it. */
bool tf_hub_describe(const tf_hub *hub, tf_local local, tf_hub_ref_state *out);
/* The root object of the conn's peer, to send to; valid as long as the conn is attached. */
tf_local tf_hub_peer_root(const tf_conn *conn);

#endif
