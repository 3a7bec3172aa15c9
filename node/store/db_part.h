/* A part of the dedup keys (S2), packed: the keys of a run whose hashes have the same upper bits, as bytes with a
 * checksum. Pure.
 *
 *     version u8 (1) | key... | XXH3-64 of all before u64
 *     key: hash u64 | seq u64 | epoch u64 | timestamp u64 | digest u64 | channel u64 | origin var [node id 32] |
 *          client id: len u8, bytes
 *
 * Keys stand in the order of their hashes. An origin is a number in the order of appearance within the part; a number
 * that was not there yet is followed by its node id. */
#ifndef TF_NODE_STORE_DB_PART_H
#define TF_NODE_STORE_DB_PART_H

#include "node/store/store.h"

#define TF_DB_PART_KEYS 64u /* on average, at most */

/* A key as it stands in a part, with the slice and the origin in the bytes of that part. */
typedef struct tf_db_entry {
    uint64_t hash;
    uint64_t channel;
    const uint8_t *origin; /* TF_NODE_ID_LEN bytes */
    tf_slice client_id;
    tf_store_key key;
} tf_db_entry;

/* The tuple, hashed with a secret of the database, so that nobody chooses where a key goes. */
uint64_t tf_db_entry_hash(uint64_t secret, uint64_t channel, const tf_node_id *origin, tf_slice client_id);
bool tf_db_entry_is_same(const tf_db_entry *a, const tf_db_entry *b); /* the same key, whatever it says */

/* Bytes that so many entries take at most. */
size_t tf_db_part_room(size_t count);
/* Writes count > 0 entries, sorted by their hashes; cap >= tf_db_part_room(count). Returns the length. */
size_t tf_db_part_write(const tf_db_entry *entries, size_t count, uint8_t *out, size_t cap);

/* A list of entries that grows. */
typedef struct tf_db_entries {
    const tf_mem *mem;
    tf_db_entry *at;
    size_t count;
    size_t capacity;
} tf_db_entries;

TF_MUST_CHECK tf_err tf_db_entries_add(tf_db_entries *entries, const tf_db_entry *entry); /* TF_ERR_NOMEM */
void tf_db_entries_clear(tf_db_entries *entries); /* frees */

/* Adds the entries of a part to the list. They refer to `bytes`. TF_ERR_DAMAGED; TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_db_part_read(tf_slice bytes, tf_db_entries *out);
/* Looks for one key: TF_OK; TF_ERR_CLOSED: it is not there; TF_ERR_DAMAGED. */
TF_MUST_CHECK tf_err tf_db_part_find(tf_slice bytes, const tf_db_entry *wanted, tf_store_key *out);

#endif
