/* The order guard of one origin on one channel (S7): after a retryable refusal nothing of that origin is accepted there
 * until what was refused has come back, in order; or its client shows by a session ack that it knew of every refusal.
 *
 * A list of what was refused, oldest first, by a keyed 128-bit hash of the client id, bounded; when it overflowed, what
 * it lacks can come back only the second way. Pure. A plain struct to embed. */
#ifndef TF_NODE_GUARD_H
#define TF_NODE_GUARD_H

#include "node/refusal.h"
#include "proto/types.h"

typedef struct tf_guard_key {
    uint64_t low;
    uint64_t high;
} tf_guard_key;

tf_guard_key tf_guard_key_of(uint64_t hash_key, tf_slice client_id);

typedef struct tf_guard {
    const tf_mem *mem;
    size_t *room;    /* entries that all guards of a connection may still take, shared */
    size_t max;      /* entries of this one */
    tf_guard_key *keys;
    size_t capacity;
    size_t start;    /* index of the oldest */
    size_t count;
    bool overflowed; /* something was refused that is not in the list */
    tf_refusal code; /* of the refusal that raised the guard */
    uint64_t acked_at; /* a session ack of this many messages covers every refusal given */
} tf_guard;

void tf_guard_init(tf_guard *guard, const tf_mem *mem, size_t max, size_t *room);
void tf_guard_clear(tf_guard *guard);

bool tf_guard_is_up(const tf_guard *guard);
/* May this send be accepted? acked: how many of our messages its sender had processed when it sent it. */
bool tf_guard_allows(const tf_guard *guard, tf_guard_key key, uint64_t acked);
/* It was: only where tf_guard_allows said so. */
void tf_guard_accepted(tf_guard *guard, tf_guard_key key);
/* A retryable refusal of something that arrived now. Raises the guard. Cannot fail: without memory it overflows. */
void tf_guard_refused(tf_guard *guard, tf_guard_key key, tf_refusal code);
/* A retryable refusal of something that had been accepted, and so is older than all in the list. */
void tf_guard_refused_first(tf_guard *guard, tf_guard_key key, tf_refusal code);
/* The message that carries the refusal was the sent-th of the session (counted from 1). */
void tf_guard_told(tf_guard *guard, uint64_t sent);
/* It will not come back: acked as a duplicate, or refused for good. */
void tf_guard_forget(tf_guard *guard, tf_guard_key key);

#endif
