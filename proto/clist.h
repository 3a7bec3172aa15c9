/* The c-list of one connection: which record of the node is which reference (PROTOCOL.md D4).
 *
 * Two independent maps. The outbound half (local id -> ref) says what may be spoken, the inbound half (ref -> entry)
 * what may still be heard. An entry whose reference was retired towards the peer (a promise resolved, an object
 * revoked hard, an import dropped) has lost its outbound half at once and keeps the inbound one until the peer acked
 * that (proto/retire). So several references may name one record, but at most one of them is spoken.
 *
 * An export counts as one reference to its record as long as it has its inbound half; the record knows its LIVE
 * exports. An import counts nothing: a LIVE one is what its record knows as `import`, of its `owner`. So the record
 * itself is the outbound half of nearly all entries: its import, or the oldest of its exports. Only those that came
 * later are in a map.
 *
 * Only the table: when to add and retire is the session's business. Entries stay where they are until removed. Memory:
 * from `mem`; freed entries are kept for reuse, at most as many as are in use (and a few). Not thread-safe. */
#ifndef TF_PROTO_CLIST_H
#define TF_PROTO_CLIST_H

#include "proto/map.h"
#include "proto/ref.h"
#include "proto/refs.h"
#include "proto/types.h"

typedef enum tf_clist_role {
    TF_CLIST_EXPORT, /* an object of ours, a promise that we decide; towards this peer */
    TF_CLIST_IMPORT  /* an object of the peer, a promise that the peer decides */
} tf_clist_role;

typedef enum tf_clist_state {
    TF_CLIST_LIVE,    /* both halves */
    TF_CLIST_RETIRED, /* an export: our RESOLVE or hard REVOKE is unacked; inbound half only */
    TF_CLIST_DROPPED, /* an import: our DROP is unacked; inbound half only, no record */
    TF_CLIST_REMOVED  /* in no map, no record; waits only to leave the lists of touched and due entries */
} tf_clist_state;

typedef struct tf_clist_entry {
    tf_ref ref;
    tf_local local; /* of its record; what it was, once that is gone */
    tf_record *record;
    struct tf_session *session;
    uint64_t mentioned; /* export: 1 + the number of our last message that mentions it (lastMentioned, D5); 0 none */
    uint64_t retired;   /* RETIRED, DROPPED: the number of our message that said so (D10) */
    uint64_t revoked;   /* export: 1 + the number of our last message that revoked it softly (D11); import: 1, it was */
    uint64_t piped;     /* import, a promise: 1 + the number of our last delivery to it (D9); 0 none */
    uint64_t met;       /* 1 + the number of the peer's message that last introduced or mentioned it */
    uint64_t judged;    /* the session's mark against repeats within one message */
    uint64_t named;     /* the session's mark of what the message that is being made has made due */
    uint64_t told;      /* export: the session's mark of the flush in which its error was told */
    size_t kept;        /* RETIRED: bytes that the session charges for its record's value */
    uint32_t share;     /* import, a result: the session that pays for it; 0 this node (D15) */
    uint32_t depth;     /* due: how many messages in a row led to it, each naming what the next one tells */
    tf_clist_role role;
    tf_clist_state state;
    bool is_later; /* in tf_clist.later */
    bool touched;
    bool due;
    bool due_hard;                          /* due: its identity goes, too (D12) */
    struct tf_clist_entry *previous, *next; /* all of its kind and side, oldest first; next also chains spare ones */
    struct tf_clist_entry *touched_next;
    struct tf_clist_entry *due_next;
    struct tf_clist_entry *export_previous, *export_next; /* LIVE exports of its record */
} tf_clist_entry;

typedef struct tf_clist_list {
    tf_clist_entry *first, *last;
} tf_clist_list;

typedef struct tf_clist {
    const tf_mem *mem;
    tf_refs *refs;
    struct tf_session *session;
    tf_side side; /* ours */
    tf_map by_ref;
    tf_map later; /* local id -> LIVE export of a record that another session exports, too, since before */
    tf_clist_list entries[2][2]; /* by tf_side (who allocated the number) and tf_ref_kind */
    tf_clist_list touched;
    size_t touched_count;
    tf_clist_list due[2]; /* by tf_ref_kind */
    tf_clist_entry *spare;
    size_t spare_count;
    size_t count;         /* entries in by_ref */
    size_t known[2][2];   /* of them, by tf_side and tf_ref_kind */
    size_t live[2][2];    /* LIVE ones by tf_clist_role and tf_ref_kind */
    size_t results[2];    /* promises whose decider did not allocate them. EXPORT: LIVE; IMPORT: LIVE and DROPPED */
    tf_map result_shares; /* share -> how many of results[IMPORT] it pays for, if any */
} tf_clist;

/* session: whose c-list it is, for entries and records to point at; not looked into. */
void tf_clist_init(tf_clist *c, struct tf_session *session, tf_side side, tf_refs *refs, const tf_mem *mem,
                   uint64_t hash_key);
void tf_clist_clear(tf_clist *c); /* removes and frees everything */

/* Gives back the spare entries and what the maps do not need. */
void tf_clist_trim(tf_clist *c);

/* Makes sure that the next `extra` calls of add or revive cannot fail. TF_ERR_NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_clist_reserve(tf_clist *c, size_t extra);

/* NULL when unknown. of_record sees only entries that have their outbound half. */
tf_clist_entry *tf_clist_by_ref(const tf_clist *c, tf_ref ref);
tf_clist_entry *tf_clist_of_record(const tf_clist *c, const tf_record *record);
/* All entries, those of one side and kind in the order of their numbers. after: ref may have gone meanwhile. NULL: no
 * more. */
tf_clist_entry *tf_clist_first(const tf_clist *c);
tf_clist_entry *tf_clist_after(const tf_clist *c, tf_ref ref);

/* A new LIVE entry; neither ref nor record has one yet, numbers grow, room was reserved. IMPORT: the record had no
 * owner. */
tf_clist_entry *tf_clist_add(tf_clist *c, tf_ref ref, tf_record *record, tf_clist_role role);
/* Charges a result, just added, to a share other than 0 until its entry goes; room for its share was reserved. */
TF_MUST_CHECK tf_err tf_clist_reserve_share(tf_clist *c);
void tf_clist_charge(tf_clist *c, tf_clist_entry *entry, uint32_t share);
size_t tf_clist_charged(const tf_clist *c, uint32_t share);
/* Takes the outbound half away: the message `number` of ours retires the ref. An export keeps its record; an import is
 * DROPPED, its record has no owner any more. */
void tf_clist_retire(tf_clist *c, tf_clist_entry *entry, uint64_t number);
/* A RETIRED export lets go of its record and takes another one for it. */
void tf_clist_replace(tf_clist *c, tf_clist_entry *entry, tf_record *record);
/* A DROPPED import is mentioned again: LIVE, of a record without owner. Room was reserved. */
void tf_clist_revive(tf_clist *c, tf_clist_entry *entry, tf_record *record);
/* Forgets what is left of the entry, which is gone then; one in a list may be read until it leaves that. */
void tf_clist_remove(tf_clist *c, tf_clist_entry *entry);

/* The list of imports to be examined at the end of the turn (D6); an entry is in it at most once. */
void tf_clist_touch(tf_clist *c, tf_clist_entry *entry);
tf_clist_entry *tf_clist_touched(const tf_clist *c); /* the first, NULL when empty. May be a REMOVED one */
void tf_clist_untouch(tf_clist *c);                  /* takes the first off the list */

/* The lists of exports of which the peer is to be told something; an entry is in one at most once, in the order of
 * set. */
void tf_clist_set_due(tf_clist *c, tf_clist_entry *entry);
/* The first, or the one behind `entry`, which is due; NULL: none. Never a REMOVED one. */
tf_clist_entry *tf_clist_due(const tf_clist *c, tf_ref_kind kind);
tf_clist_entry *tf_clist_due_after(const tf_clist_entry *entry);
/* Takes the first off the list. */
void tf_clist_take_due(tf_clist *c, tf_ref_kind kind);

#endif
