/* The messages of one channel and what is kept of them for their keys, in pages: found by seq, trimmed and forgotten from
 * the front, a bounded number at a time. Part of the store in memory. Pure. */
#ifndef TF_NODE_STORE_MEMORY_LOG_H
#define TF_NODE_STORE_MEMORY_LOG_H

#include "node/chain.h"
#include "node/store/arena.h"
#include "node/store/store.h"

#define TF_KEY_SHARDS 64u /* tables that share the keys: one grows at a time, so nobody waits for a large one to be moved */

/* What stays of a message until it is trimmed and its key is forgotten. */
typedef struct tf_memlog_entry {
    tf_chain same_hash;
    uint64_t channel;
    uint64_t seq;
    uint64_t epoch;
    int64_t timestamp_ms;
    int64_t expires_ms;
    uint64_t instance;
    uint64_t hash;   /* of its key */
    uint64_t digest; /* of its body */
    uint64_t before; /* bytes (tf_stored_bytes) of all messages before it */
    tf_node_id origin;
    uint8_t *text; /* meta and body; NULL: trimmed */
    uint32_t client_id_len;
    uint32_t meta_len;
    uint32_t body_len;
    uint8_t client_id[];
} tf_memlog_entry;

/* The keys of all channels: hash -> tf_memlog_entry, chained by same_hash, the newest first. */
typedef struct tf_memkeys {
    uint64_t hash_key;
    tf_map shards[TF_KEY_SHARDS];
} tf_memkeys;

void tf_memkeys_init(tf_memkeys *keys, const tf_mem *mem, uint64_t hash_key);
void tf_memkeys_clear(tf_memkeys *keys);
/* The newest record of that key; NULL: none. */
const tf_memlog_entry *tf_memkeys_find(tf_memkeys *keys, uint64_t channel, const tf_node_id *origin, tf_slice client_id);

typedef struct tf_memlog_page tf_memlog_page;

typedef struct tf_memlog {
    const tf_mem *mem;
    tf_memlog_page **pages; /* pages[begin] holds the seqs from base * (a page) + 1 on */
    size_t begin;
    size_t end;
    size_t capacity;
    uint64_t base;
    uint64_t head;
    uint64_t first;        /* the oldest seq that is kept */
    uint64_t texts_from;   /* the texts below are freed; follows first */
    uint64_t keys_from;    /* the keys below are forgotten; follows keys_since_ms */
    int64_t keys_since_ms;
    int64_t timestamp_ms;  /* of head */
    uint64_t appended;     /* bytes, ever */
    uint64_t used;         /* memory, about */
} tf_memlog;

void tf_memlog_init(tf_memlog *log, const tf_mem *mem);
void tf_memlog_clear(tf_memlog *log); /* its keys have gone before */

/* What an append of that message takes, about. */
uint64_t tf_memlog_cost(const tf_stored *message);
/* Its seq is head + 1. False: no memory, nothing changed. */
bool tf_memlog_append(tf_memlog *log, tf_memkeys *keys, uint64_t channel, const tf_stored *message);
/* first <= seq <= head */
void tf_memlog_read(const tf_memlog *log, uint64_t seq, tf_stored *out);
/* Bytes of what is kept. */
uint64_t tf_memlog_bytes(const tf_memlog *log);
/* As in tf_store_table. */
uint64_t tf_memlog_find_time(const tf_memlog *log, int64_t timestamp_ms);
uint64_t tf_memlog_find_bytes(const tf_memlog *log, uint64_t bytes);
/* Gives back what is no longer needed after first or keys_since_ms have moved: of at most so many messages. True: there is
 * more. */
bool tf_memlog_tidy(tf_memlog *log, tf_memkeys *keys, size_t budget);

#endif
