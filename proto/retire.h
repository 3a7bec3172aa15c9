/* The retirement table (PROTOCOL.md D10): which references wait for the peer's ack before they are forgotten.
 *
 * Entries in the order of our messages; each session ack takes a prefix. An entry is cancelled, and tolerated, when
 * its reference went or was revived meanwhile: the c-list says so. Bounded by the c-list: cancelled entries are
 * cleared away before the table grows. Memory: from `mem`. Not thread-safe. */
#ifndef TF_PROTO_RETIRE_H
#define TF_PROTO_RETIRE_H

#include "proto/clist.h"

typedef enum tf_retire_kind {
    TF_RETIRE_PROMISE, /* resolved by us */
    TF_RETIRE_DROP,    /* dropped by us */
    TF_RETIRE_REVOKED  /* an object of ours, revoked hard */
} tf_retire_kind;

typedef struct tf_retirement {
    uint64_t number; /* of our message that retires the reference */
    tf_ref ref;
    tf_retire_kind kind;
} tf_retirement;

typedef struct tf_retire {
    const tf_mem *mem;
    tf_retirement *ring;
    size_t capacity; /* 0 or a power of two */
    size_t head;
    size_t count;
} tf_retire;

void tf_retire_init(tf_retire *t, const tf_mem *mem);
void tf_retire_clear(tf_retire *t);
/* Gives back the room of a table that is empty. */
void tf_retire_trim(tf_retire *t);

/* Room for `extra` more entries. TF_ERR_NOMEM: nothing is lost. */
TF_MUST_CHECK tf_err tf_retire_reserve(tf_retire *t, size_t extra, const tf_clist *c);
/* Room was reserved; numbers never go back. */
void tf_retire_push(tf_retire *t, uint64_t number, tf_ref ref, tf_retire_kind kind);

/* How many entries an ack of `acked` messages of ours (numbers below it) takes. */
size_t tf_retire_due(const tf_retire *t, uint64_t acked);
/* The entry at `index` from the oldest, index < count. */
const tf_retirement *tf_retire_at(const tf_retire *t, size_t index);
void tf_retire_pop(tf_retire *t, size_t count);
/* The c-list entry that a retirement still speaks of; NULL when it is cancelled. */
tf_clist_entry *tf_retire_entry(const tf_retirement *retirement, const tf_clist *c);

#endif
