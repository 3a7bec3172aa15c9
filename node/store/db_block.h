/* A block: up to TF_DB_BLOCK_MESSAGES messages of one channel with consecutive seqs, as bytes with a checksum. Pure.
 *
 *     version u8 (1) | channel u64 | first seq u64 | messages u32 | first timestamp u64 | message... |
 *     XXH3-64 of all before u64
 *     message: flags u8 | origin var [node id 32, instance u64] | epoch var [u64] | timestamp - the one before var |
 *              [expires u64] | client id: len u8, bytes | [meta: len var, bytes] | body: len var, bytes
 *
 * Integers as proto/wire.h has them. An origin or epoch is a number in the order of appearance within the block; a number
 * that was not there yet is followed by what it stands for. Flags say which of the optional fields are there. */
#ifndef TF_NODE_STORE_DB_BLOCK_H
#define TF_NODE_STORE_DB_BLOCK_H

#include "node/store/store.h"

#define TF_DB_BLOCK_MESSAGES 512u
#define TF_DB_BLOCK_BYTES (64u << 10) /* a block takes no more messages from then on */

/* Writes one block into a buffer that grows. A plain value; not thread-safe. */
typedef struct tf_db_block_writer {
    const tf_mem *mem;
    uint8_t *bytes;
    size_t len;
    size_t capacity;
    uint64_t channel;
    uint64_t first; /* seq */
    size_t count;
    int64_t time_first;
    int64_t time_last;
    uint64_t content; /* the sum of tf_stored_bytes */
    size_t origins;
    size_t epochs;
    struct tf_db_block_origin {
        tf_node_id id;
        uint64_t instance;
    } origin[TF_DB_BLOCK_MESSAGES];
    uint64_t epoch[TF_DB_BLOCK_MESSAGES];
} tf_db_block_writer;

void tf_db_block_writer_init(tf_db_block_writer *writer, const tf_mem *mem);
void tf_db_block_writer_clear(tf_db_block_writer *writer); /* frees */
/* Starts over: a block of that channel whose first message is the next one added. */
void tf_db_block_writer_start(tf_db_block_writer *writer, uint64_t channel);
/* seq: the one after the last; timestamp: not below the last; sizes within TF_..._MAX. All asserted.
 * TF_ERR_LIMIT_ITEMS: the block is full, nothing changed; TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_db_block_writer_add(tf_db_block_writer *writer, const tf_stored *message);
/* Ends a block of at least one message; the bytes are valid until the next call. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_db_block_writer_end(tf_db_block_writer *writer, tf_slice *out);

typedef struct tf_db_block tf_db_block;

/* Checks the bytes and takes a copy. TF_ERR_DAMAGED: they are not what was written for that channel, first seq and
 * count; TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_db_block_read(tf_db_block **out, const tf_mem *mem, uint64_t channel, uint64_t first,
                                      uint64_t count, tf_slice bytes);
/* What bytes with a right checksum say they are. False: it is not right. */
TF_MUST_CHECK bool tf_db_block_describe(tf_slice bytes, uint64_t *channel, uint64_t *first, uint64_t *count);
void tf_db_block_free(tf_db_block *block); /* NULL is fine */
uint64_t tf_db_block_channel(const tf_db_block *block);
uint64_t tf_db_block_first(const tf_db_block *block);
uint64_t tf_db_block_last(const tf_db_block *block);
/* What it takes in memory. */
size_t tf_db_block_size(const tf_db_block *block);
/* False: it does not hold that seq. Slices live as long as the block. */
bool tf_db_block_message(const tf_db_block *block, uint64_t seq, tf_stored *out);

#endif
