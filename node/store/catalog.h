/* What the store on disk has in memory of its channels: their state, their cursors, known damage, and the tail: the
 * newest messages, all those that are not in the index yet among them (S11). Pure. One thread.
 *
 * A tail block is one group of records as the log has it. Blocks are added in the order of their LSNs and leave in it;
 * a channel's part of the tail is a row of pointers to its records, the newest last. */
#ifndef TF_NODE_STORE_CATALOG_H
#define TF_NODE_STORE_CATALOG_H

#include "node/chain.h"
#include "node/store/record.h"

struct tf_catalog_channel;

/* A message in the tail. */
typedef struct tf_tail_entry {
    const uint8_t *record;
    uint32_t size;
    bool is_message;
    bool is_void;  /* it changes nothing: what it names was lost, or is newer */
    uint64_t hash; /* of its key */
    tf_chain same_hash;
    struct tf_catalog_channel *channel;
} tf_tail_entry;

typedef struct tf_tail_block {
    struct tf_tail_block *next; /* the newer one */
    struct tf_tail_block *next_to_apply;
    uint64_t first_lsn;
    uint64_t last_lsn;
    size_t size; /* of this block, in all */
    uint8_t *bytes; /* the records, one after the other; in this block */
    size_t len;
    size_t count;
    tf_tail_entry entries[]; /* one a record */
} tf_tail_block;

typedef struct tf_catalog_cursor {
    struct tf_catalog_cursor *next;
    tf_store_cursor position;
    uint8_t name[TF_CURSOR_NAME_MAX];
} tf_catalog_cursor;

typedef struct tf_catalog_channel {
    tf_chain same_hash;
    tf_store_channel state; /* its name is below */
    uint64_t measure_at;    /* when the index has this LSN, state.bytes is asked of it; 0: it is right */
    uint64_t refused_in;    /* the last group in which an append was refused */
    bool is_suspect;        /* the end of its numbering may be lost (disk.c, at the start) */
    tf_catalog_cursor *cursors;
    size_t cursor_count;
    tf_tail_entry **tail; /* a ring; NULL in it: lost */
    size_t tail_capacity; /* a power of two, or 0 */
    size_t tail_start;
    size_t reserved;   /* appends that are to come */
    size_t tail_count; /* head - tail_count + 1 is the first seq that is in the tail */
    size_t recent;     /* the place of the last block that was read from the index (disk_read.c) */
    uint8_t name[TF_CHANNEL_NAME_MAX];
} tf_catalog_channel;

typedef struct tf_catalog {
    const tf_mem *mem;
    uint64_t hash_key;
    uint64_t channels_max;
    tf_map names; /* hash -> tf_catalog_channel, chained */
    tf_map keys;  /* hash -> tf_tail_entry, chained: of the tail */
    tf_catalog_channel **channels; /* [number - 1]; NULL: no such number */
    size_t channel_capacity;
    uint64_t last_number;
    uint64_t channel_count;
    tf_tail_block *oldest;
    tf_tail_block *newest;
    size_t tail_bytes;
    size_t reserved;   /* of all channels */
    uint64_t messages; /* that are kept */
    tf_store_damage *damage; /* sorted by nothing */
    size_t damage_count;
    size_t damage_capacity;
} tf_catalog;

#define TF_CATALOG_DAMAGE_MAX 65536u /* ranges; what is found beyond is answered, but not remembered */

void tf_catalog_init(tf_catalog *catalog, const tf_mem *mem, uint64_t hash_key, uint64_t channels_max);
void tf_catalog_clear(tf_catalog *catalog);

/* A channel with that state (state->number says which). TF_ERR_NOMEM; LIMIT_ITEMS: there are channels_max. */
TF_MUST_CHECK tf_err tf_catalog_add(tf_catalog *catalog, const tf_store_channel *state, tf_catalog_channel **out);
/* NULL: there is none. */
tf_catalog_channel *tf_catalog_by_name(const tf_catalog *catalog, tf_slice name);
tf_catalog_channel *tf_catalog_by_number(const tf_catalog *catalog, uint64_t number);

/* The hash of a key of S2, for the tail and the filter. */
uint64_t tf_catalog_key_hash(const tf_catalog *catalog, uint64_t channel, const tf_node_id *origin, tf_slice client_id);

/* Makes room for one more append to that channel, beside those that were reserved and not applied yet, so that applying
 * it cannot fail. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_catalog_reserve(tf_catalog *catalog, tf_catalog_channel *channel);
/* All reservations of the channel are over: what was reserved was applied or refused. */
void tf_catalog_unreserve(tf_catalog *catalog, tf_catalog_channel *channel);
/* Applies a block of committed records, which becomes the newest of the tail; it is the catalog's from now on. What a
 * replay must survive: an append beyond head + 1 leaves a damaged range, a record of a channel that is not there is
 * skipped. TF_ERR_NOMEM, LIMIT_ITEMS: part of it was not applied (what was not reserved). */
TF_MUST_CHECK tf_err tf_catalog_apply(tf_catalog *catalog, tf_tail_block *block);
/* The oldest block leaves the tail: it is in the index. Not freed. */
tf_tail_block *tf_catalog_evict(tf_catalog *catalog);

/* The message in the tail, or NULL. */
const tf_tail_entry *tf_catalog_tail(const tf_catalog_channel *channel, uint64_t seq);
/* The first seq of the tail; head + 1 when it is empty. */
uint64_t tf_catalog_tail_first(const tf_catalog_channel *channel);
/* TF_OK; TF_ERR_CLOSED: not in the tail. */
tf_err tf_catalog_find(const tf_catalog *catalog, const tf_catalog_channel *channel, const tf_node_id *origin,
                       tf_slice client_id, uint64_t hash, tf_store_key *out);

/* Where the pointer to that cursor is, or would be. */
tf_catalog_cursor **tf_catalog_cursor_place(tf_catalog_channel *channel, const tf_node_id *owner, tf_slice name);
/* Sets it, or deletes it (next 0). TF_ERR_NOMEM, LIMIT_ITEMS. */
TF_MUST_CHECK tf_err tf_catalog_set_cursor(tf_catalog *catalog, const tf_store_cursor *cursor);

/* Remembers that a range is lost; what is known already is not doubled. */
void tf_catalog_add_damage(tf_catalog *catalog, const tf_store_damage *damage);
/* The known damaged range that holds the seq; NULL: none. */
const tf_store_damage *tf_catalog_damage_at(const tf_catalog *catalog, uint64_t channel, uint64_t seq);

/* The decoded message of an entry. */
void tf_tail_read(const tf_tail_entry *entry, tf_stored *out);

#endif
