/* The datagram keys of one connection, by generation and by our connection id: those confirmed last, those of the newest
 * handshake, and those that retire. Bounded: a fifth generation pushes out the oldest. One thread at a time. */
#ifndef TF_NODE_KEYRING_H
#define TF_NODE_KEYRING_H

#include "handshake/keys.h"
#include "proto/types.h"

#define TF_KEYRING_MAX 4u

typedef struct tf_keyring {
    struct tf_keyring_entry {
        tf_keys *keys; /* NULL: free */
        uint64_t generation;
        uint64_t connection_id; /* ours, in packets to us */
    } entries[TF_KEYRING_MAX];
    tf_keys_stats gone; /* counts of those that were erased */
} tf_keyring;

/* Takes the keys. *pushed_out: the connection id of a generation that had to make room, 0 if none. */
void tf_keyring_add(tf_keyring *ring, tf_keys *keys, uint64_t generation, uint64_t connection_id, uint64_t *pushed_out);
/* NULL: erased already, or never there. */
tf_keys *tf_keyring_get(const tf_keyring *ring, uint64_t generation);
const struct tf_keyring_entry *tf_keyring_find(const tf_keyring *ring, uint64_t connection_id);
/* The newest generation, 0: none. */
uint64_t tf_keyring_newest(const tf_keyring *ring);
/* Erases one generation; its connection id, 0 when it was not there. */
uint64_t tf_keyring_erase(tf_keyring *ring, uint64_t generation);
/* The counts of all keys, those that were erased included; phases and times are 0. */
void tf_keyring_get_stats(const tf_keyring *ring, tf_keys_stats *out);
tf_time tf_keyring_deadline(const tf_keyring *ring);
void tf_keyring_tick(tf_keyring *ring, tf_time now, tf_time grace);

#endif
