/* What a node knows of objects and promises, under its one local id space (PROTOCOL.md D13): records, counted, and the
 * values that promises were resolved to. Shared by all sessions of the node and by its router (node/router.h).
 *
 * Only the table: what a count means is the session's and the router's business. A record whose count falls to zero is not
 * freed, it becomes idle: a count may touch zero and come back within one message (D3). Whoever ends the turn takes the idle
 * ones and decides.
 *
 * Memory: from `mem`. Not thread-safe. */
#ifndef TF_PROTO_REFS_H
#define TF_PROTO_REFS_H

#include "proto/map.h"
#include "proto/message.h"
#include "proto/ref.h"
#include "proto/types.h"

struct tf_session;
struct tf_clist_entry;
struct tf_held;

typedef struct tf_record tf_record;

/* What a promise was resolved to, or what sends to a revoked object are answered with. Immutable and shared; it counts as a
 * reference to each record that it names, once for each time. */
typedef struct tf_value {
    uint32_t users;
    uint32_t hops; /* how far it has come (D13); at most TF_HOPS_MAX */
    tf_resolution_kind kind;
    tf_record *object; /* OBJECT */
    tf_slice data;     /* DATA, REJECTION */
    size_t size;       /* of this block, data included */
    size_t ref_count;
    uint32_t linked; /* the collector's: how many of its users it looks into */
    tf_record *refs[];
} tf_value;

typedef enum tf_record_state {
    TF_RECORD_LIVE,     /* an object that can be sent to; a promise that is not resolved (or whose resolution is fenced) */
    TF_RECORD_RESOLVED, /* a promise: value */
    TF_RECORD_REVOKED   /* an object: value, a rejection */
} tf_record_state;

struct tf_record {
    tf_local local;
    tf_ref_kind kind;
    tf_record_state state;
    bool is_idle; /* in tf_refs.idle */
    bool hard;    /* REVOKED: its identity went, too (D12) */
    uint32_t count; /* references: c-list export halves, unacked inbound ones included; values; held messages; fences; holds */
    uint32_t holds; /* of these, the application's */
    struct tf_session *owner;       /* who hosts the object or decides the promise; NULL: this node */
    struct tf_clist_entry *import;  /* owner's entry of it, LIVE; NULL without owner */
    struct tf_clist_entry *exports; /* LIVE entries of it, of all sessions; chained by entry->export_next */
    tf_value *value;                /* RESOLVED, REVOKED */
    tf_record *idle_next;
    tf_record *previous_linked, *next_linked; /* tf_refs.linked */
    bool is_linked;
    /* Of the router (node/router.h) */
    struct tf_held *first, *last; /* messages that wait for the resolution, in order */
    tf_record *forwards; /* a second name of a result (D8): when this promise is resolved, so is that one, */
    tf_record *source;   /* which counts as a reference to this one */
    tf_record *settling_next;
    bool is_settling;
    tf_record *note_next;
    bool is_noted;    /* the application is to be told: resolved, or revoked */
    bool is_own;      /* the application's object, or a promise that it decides */
    bool is_fresh;    /* made for a call that is not over */
    bool is_fenced;   /* resolved, but nobody may know yet (D9) */
    uint32_t outside; /* the collector's: references from outside of what it looks at; */
    tf_record *found; /* and its list */
};

/* The rejections that a node gives by itself: MessagePack maps {"code", "message"}. */
typedef enum tf_code {
    TF_CODE_CANNOT_SEND_TO_DATA,
    TF_CODE_DISCONNECTED,
    TF_CODE_OVERLOADED,
    TF_CODE_MESSAGE_TOO_LARGE,
    TF_CODE_REVOKED, /* an object was revoked with an error that could not be passed on */
    TF_CODE_TOO_FAR, /* a resolution went over too many nodes: round a ring (D13) */
    TF_CODE_COUNT
} tf_code;

typedef struct tf_refs {
    const tf_mem *mem;
    tf_local last; /* the last local id given out */
    tf_map by_local;
    tf_record *spare;
    size_t spare_count;
    size_t count; /* records, the one of `overloaded` not counted */
    tf_record *idle, *idle_last;
    tf_record *linked; /* records whose value names others: only they can be in a cycle */
    size_t linked_count;
    size_t collect_at; /* cycles are looked for when there are so many */
    bool linked_since; /* one came, or is less referred to, since they were last looked for */
    size_t resolved_count;
    size_t value_bytes;
    tf_value *standard[TF_CODE_COUNT];
    tf_record *overloaded; /* a promise that was rejected with TF_CODE_OVERLOADED: stands in for one that cannot be kept */
    struct tf_session *due, *due_last;         /* sessions with something to announce or to drop (session.h) */
    struct tf_session *written, *written_last; /* sessions that encoded a message since they were last taken */
} tf_refs;

/* TF_ERR_NOMEM: nothing is held. */
TF_MUST_CHECK tf_err tf_refs_init(tf_refs *refs, const tf_mem *mem, uint64_t hash_key);
/* All sessions are freed, nothing of the router is left. Frees every record and value. */
void tf_refs_clear(tf_refs *refs);
/* Gives back memory that only traffic needs. */
void tf_refs_trim(tf_refs *refs);

/* A local id for an object of the application. A record of it exists only while somebody refers to it. */
static inline tf_local tf_refs_next_local(tf_refs *refs)
{
    return ++refs->last;
}

/* Makes sure that the next `extra` calls of add or add_local cannot fail. A later call replaces an earlier one. NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_refs_reserve(tf_refs *refs, size_t extra);
/* A LIVE record without count or owner, under a new local id; idle. Room was reserved. */
tf_record *tf_refs_add(tf_refs *refs, tf_ref_kind kind);
/* The same under a local id that has none. */
tf_record *tf_refs_add_local(tf_refs *refs, tf_local local, tf_ref_kind kind);
/* NULL when nobody refers to it. */
tf_record *tf_refs_find(const tf_refs *refs, tf_local local);

void tf_refs_hold(tf_record *record);
/* The count falls; at zero the record is idle. */
void tf_refs_release(tf_refs *refs, tf_record *record);
/* Puts a record among the idle ones, to be looked at, if it is not. */
void tf_refs_set_idle(tf_refs *refs, tf_record *record);
/* Takes the oldest idle record; its count may be above zero by now. NULL: none. */
tf_record *tf_refs_take_idle(tf_refs *refs);
/* Frees a record: no count, owner, exports, held messages or notes; not idle. Its value is released (so others may become idle). */
void tf_refs_remove(tf_refs *refs, tf_record *record);

/* A value with one user; it holds what it names. NULL: no memory. */
tf_value *tf_value_new(tf_refs *refs, tf_resolution_kind kind, tf_record *object, tf_slice data, tf_record *const *named,
                       size_t ref_count);
/* One of those that the node gives by itself; borrowed. */
tf_value *tf_refs_standard(const tf_refs *refs, tf_code code);
tf_slice tf_code_rejection(tf_code code);
tf_value *tf_value_use(tf_value *value);
void tf_value_release(tf_refs *refs, tf_value *value); /* NULL is fine */

/* LIVE becomes RESOLVED (a promise) or REVOKED (an object; one that is REVOKED already gets the new value): the record uses
 * the value. */
void tf_refs_settle(tf_refs *refs, tf_record *record, tf_value *value);

/* D13: trial deletion of cycles of resolved promises and revoked objects (whose errors may name them). What nothing outside of
 * such cycles refers to loses its value, so that counts fall; it is idle then. Returns how many records were found so. Time:
 * linear in linked records and what they name. */
size_t tf_refs_collect_cycles(tf_refs *refs);
/* There are twice as many that can be in a cycle as were left the last time. */
bool tf_refs_collect_is_due(const tf_refs *refs);

#endif
