/* The c-list of one connection: which local id is which reference (PROTOCOL.md D4).
 *
 * Two independent maps. The outbound half (local -> ref) says what may be spoken, the inbound half (ref -> entry) what
 * may still be heard. An entry whose reference was retired towards the peer (a promise resolved, an import dropped) has
 * lost its outbound half at once and keeps the inbound one until the peer acked that (proto/retire). So several
 * references may name one local id, but at most one of them is spoken.
 *
 * Only the table: when to add and retire is the session's business. Entries stay where they are until removed.
 * Memory: from `mem`; freed entries are kept for reuse, at most as many as are in use (and a few). Not thread-safe. */
#ifndef TF_PROTO_CLIST_H
#define TF_PROTO_CLIST_H

#include "proto/map.h"
#include "proto/message.h"
#include "proto/ref.h"
#include "proto/types.h"

typedef enum tf_clist_role {
    TF_CLIST_EXPORT, /* an object of ours, a promise that we decide */
    TF_CLIST_IMPORT  /* an object of the peer, a promise that the peer decides */
} tf_clist_role;

typedef enum tf_clist_state {
    TF_CLIST_LIVE,     /* both halves */
    TF_CLIST_RESOLVED, /* an export, a promise: our RESOLVE is unacked; inbound half only */
    TF_CLIST_DROPPED,  /* an import: our DROP is unacked; inbound half only */
    TF_CLIST_REMOVED   /* in no map; waits only to leave the list of touched entries */
} tf_clist_state;

struct tf_kept; /* the data of a rejection, session_internal.h */

typedef struct tf_clist_entry {
    tf_ref ref;
    tf_local local;
    uint64_t mentioned; /* export: 1 + the number of our last message that mentions it (lastMentioned, D5); 0 none */
    uint64_t retired;   /* RESOLVED, DROPPED: the number of our message that said so (D10) */
    uint64_t met;       /* 1 + the number of the peer's message that last introduced or mentioned it */
    uint64_t judged;    /* the session's mark against repeats within one message or call */
    uint32_t holds;     /* import: counts of the application */
    tf_clist_role role;
    tf_clist_state state;
    bool touched;
    tf_resolution_kind kind; /* RESOLVED: to what */
    tf_local object;         /* RESOLVED to an object */
    struct tf_kept *kept;    /* RESOLVED to a rejection */
    struct tf_clist_entry *previous, *next; /* all entries, oldest first; next also chains spare ones */
    struct tf_clist_entry *touched_next;
} tf_clist_entry;

typedef struct tf_clist {
    const tf_mem *mem;
    tf_side side; /* ours */
    tf_map by_ref;
    tf_map by_local;
    tf_clist_entry *first, *last;
    tf_clist_entry *touched_first, *touched_last;
    size_t touched_count;
    tf_clist_entry *spare;
    size_t spare_count;
    size_t count;             /* entries in by_ref */
    size_t known[2][2];       /* of them, by tf_side (who allocated the number) and tf_ref_kind */
    size_t live[2][2];        /* LIVE ones by tf_clist_role and tf_ref_kind */
    size_t results[2];        /* promises whose decider did not allocate them. EXPORT: LIVE; IMPORT: LIVE and DROPPED */
} tf_clist;

void tf_clist_init(tf_clist *c, tf_side side, const tf_mem *mem, uint64_t hash_key);
void tf_clist_clear(tf_clist *c); /* frees everything; `kept` is the caller's */

/* Gives back the spare entries and what the maps do not need. */
void tf_clist_trim(tf_clist *c);

/* Makes sure that the next `extra` calls of add or revive cannot fail. TF_ERR_NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_clist_reserve(tf_clist *c, size_t extra);

/* NULL when unknown. by_local sees only entries that have their outbound half. */
tf_clist_entry *tf_clist_by_ref(const tf_clist *c, tf_ref ref);
tf_clist_entry *tf_clist_by_local(const tf_clist *c, tf_local local);

/* A new LIVE entry; ref and local have none yet, room was reserved. */
tf_clist_entry *tf_clist_add(tf_clist *c, tf_ref ref, tf_local local, tf_clist_role role);
/* Takes the outbound half away: the message `number` of ours retires the ref. state: RESOLVED or DROPPED. */
void tf_clist_retire(tf_clist *c, tf_clist_entry *entry, tf_clist_state state, uint64_t number);
/* A DROPPED import is mentioned again: LIVE under a new local id, no holds. Room was reserved. */
void tf_clist_revive(tf_clist *c, tf_clist_entry *entry, tf_local local);
/* Forgets what is left of the entry, which is gone then; a touched one may be read until it is untouched. */
void tf_clist_remove(tf_clist *c, tf_clist_entry *entry);

/* The list of entries to be examined at the end of the turn (D6); an entry is in it at most once. */
void tf_clist_touch(tf_clist *c, tf_clist_entry *entry);
tf_clist_entry *tf_clist_touched(const tf_clist *c); /* the first, NULL when empty. May be a REMOVED one */
void tf_clist_untouch(tf_clist *c);                  /* takes the first off the list */

#endif
