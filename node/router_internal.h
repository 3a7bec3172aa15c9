/* What the files of the router share. Reading order: router.c (life, turns, events), router_route.c (where a message goes),
 * router_settle.c (resolutions, revocations, fences), router_app.c (what the application does). Nobody else includes this. */
#ifndef TF_NODE_ROUTER_INTERNAL_H
#define TF_NODE_ROUTER_INTERNAL_H

#include "node/list.h"
#include "node/router.h"
#include "proto/limits.h"

/* D9: a resolution that waits until the peer has processed what was pipelined to the promise. */
typedef struct tf_fence {
    uint64_t until; /* peer_processed of the session must come to this */
    tf_record *promise; /* held */
    tf_value *value;
} tf_fence;

/* Messages that wait. */
typedef struct tf_tally {
    size_t items;
    size_t bytes;
} tf_tally;

/* A session that is attached. */
typedef struct tf_router_peer {
    tf_router *router;
    tf_session *session;
    void *owner;
    uint32_t share; /* its number, never 0 */
    bool failed;
    tf_err failure;
    tf_list_node in_peers;
    tf_list_node in_failed;
    tf_fence *fences; /* a heap by `until` */
    size_t fence_count;
    size_t fence_capacity;
    tf_list held; /* messages of its peer that wait */
    tf_tally waiting;
    tf_map guards;     /* target -> peer_processed that lifts the guard (D15) */
    uint64_t guard_all; /* the same, for targets that found no room there */
    uint64_t guard_last;
} tf_router_peer;

/* A message on its way: borrowed from a session's event, from the application, or from a tf_held. */
typedef struct tf_parcel {
    tf_router_peer *from; /* NULL: this node */
    tf_record *target;
    tf_slice method;
    tf_slice args;
    tf_record *result; /* NULL: none; decided by this node */
    tf_record *const *refs;
    size_t ref_count;
} tf_parcel;

/* A message that waits: for a resolution (chained in the promise), or for the application (chained in `ready`). It counts as
 * a reference to all that it names. */
typedef struct tf_held {
    struct tf_held *next;
    tf_list_node in_peer; /* none: of this node, or of a peer that is gone */
    size_t size;
    tf_parcel parcel; /* everything in it points into this block */
    tf_record *refs[];
} tf_held;

struct tf_router {
    const tf_mem *mem;
    uint64_t hash_key;
    tf_refs refs;
    tf_time now;
    tf_time collect_at; /* TF_NEVER: nothing to be looked for */
    tf_list peers;
    tf_list failed;
    uint32_t last_share;
    tf_router_peer *turn; /* whose message is in work */
    tf_router_peer *ended_turn; /* whose message was acted on; what follows from it is not done */
    tf_record *settling, *settling_last;
    tf_held *ready, *ready_last;  /* for the application */
    tf_record *noted, *noted_last; /* likewise */
    tf_held *current;             /* what the last event showed */
    tf_record *shown;             /* likewise; held for it */
    tf_tally own; /* messages of this node that wait */
    tf_mention *mentions; /* of the last event */
    size_t mention_capacity;
    tf_record **named; /* of the call in work */
    size_t named_capacity;
    tf_router_stats stats;
};

/* -- router.c -- */

void tf_router_clock(tf_router *r, tf_time now);
/* The peer's connection must end. */
void tf_router_fail(tf_router_peer *peer, tf_err err);
/* Announcements of all sessions; drops of those without an open turn. */
void tf_router_flush(tf_router *r);
tf_router_peer *tf_router_peer_of(const tf_session *session); /* NULL is fine */

/* -- router_route.c -- */

typedef enum tf_routed {
    TF_ROUTED,        /* sent on, answered, or held */
    TF_ROUTED_TO_APP, /* it is for the application; *target is the object */
    TF_ROUTED_BACK    /* the application's own: *err says why it could not be taken */
} tf_routed;

/* Brings a message to where it belongs, now. */
tf_routed tf_router_route(tf_router *r, const tf_parcel *parcel, tf_record **target, tf_err *err);
/* A message that waited goes on; it is consumed. */
void tf_router_route_held(tf_router *r, tf_held *held);
/* Copies a message. AGAIN: it has no room beside what waits of the same sender; NOMEM. */
TF_MUST_CHECK tf_err tf_router_held_new(tf_router *r, const tf_parcel *parcel, tf_held **out);
void tf_router_held_free(tf_router *r, tf_held *held);
void tf_router_ready(tf_router *r, tf_held *held);
/* A result and its second name (D8), its source, have nothing to do with each other any more. */
void tf_router_part_names(tf_router *r, tf_record *result);
/* The peer is gone: what it sent and waits is nobody's. */
void tf_router_disown_held(tf_router *r, tf_router_peer *peer);
/* D15: a send of this peer to the target is to be refused. */
bool tf_router_is_guarded(tf_router_peer *from, tf_local target);
void tf_router_overloaded(tf_router *r, const tf_parcel *parcel);

/* -- router_settle.c -- */

/* The record has its value; who waits for it, and who knows it, follows in settle_all. */
void tf_router_settle(tf_router *r, tf_record *record, tf_value *value);
/* What waits for the record can go on, or it was settled: settle_all sees to it. */
void tf_router_follow_later(tf_router *r, tf_record *record);
void tf_router_reject(tf_router *r, tf_record *result, tf_value *value); /* result NULL: nothing to do */
/* Everything that follows from settled records. False: there was nothing. */
bool tf_router_settle_all(tf_router *r);
/* Events of a session. True: *out is one for the application. */
bool tf_router_resolved(tf_router *r, tf_router_peer *peer, const tf_session_event *event, tf_router_event *out);
void tf_router_revoked(tf_router *r, tf_router_peer *peer, const tf_session_event *event);
/* What the peer has processed by now lifts its fences. */
void tf_router_lift_fences(tf_router *r, tf_router_peer *peer);
/* The peer is gone: what waits for it is rejected. */
void tf_router_break_fences(tf_router *r, tf_router_peer *peer);

/* -- router_app.c -- */

/* The records of mentions, made if need be (r->named). */
TF_MUST_CHECK tf_err tf_router_name(tf_router *r, const tf_mention *mentions, size_t count);
/* The application is to be told that the record was resolved or revoked. */
void tf_router_note(tf_router *r, tf_record *record);
/* As tf_mention, in r->mentions; room was reserved or is made; NOMEM. */
TF_MUST_CHECK tf_err tf_router_show(tf_router *r, tf_record *const *refs, size_t count);

#endif
