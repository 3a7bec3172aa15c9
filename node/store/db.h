/* The index of the embedded store (S2, S3, S10, S11, S12): what the commit log holds, applied to one SQLite database.
 *
 * A tf_db is one connection, used by one thread at a time; several may be open on one file, one of them for writing.
 * Writing: ops in the order of their LSNs, in batches; a batch and its LSN become durable together when
 * tf_db_apply_commit returns TF_OK (WAL, synchronous=FULL), and what was applied before is skipped, so that a log may be
 * replayed from any earlier point. Reading sees committed batches only.
 * Messages of a channel lie in blocks, dedup keys packed by hash in runs that are merged (db_schema.h): chosen by
 * tests/bench/bench_store_layout. Every block of messages or keys carries a checksum.
 * Not for: what is in the log and not applied yet, and when to apply (node/store/disk.h).
 *
 * Errors of all functions: TF_ERR_FULL no room on the disk; TF_ERR_IO; TF_ERR_DAMAGED the file, or the ops do not fit
 * what it holds; TF_ERR_AGAIN another connection was in the way for longer than TF_DB_BUSY_MS; TF_ERR_NOMEM. After any
 * of them, nothing of the batch has happened and everything may be tried again. */
#ifndef TF_NODE_STORE_DB_H
#define TF_NODE_STORE_DB_H

#include "node/store/db_block.h"
#include "node/store/store.h"
#include "node/why.h"

#define TF_DB_BUSY_MS 5000
#define TF_DB_WAL_BYTES (4u << 20) /* what the write-ahead log keeps of the disk between checkpoints */

typedef struct tf_db tf_db;

typedef struct tf_db_config {
    const char *path;
    const char *vfs; /* SQLite's name of one; NULL: the default */
    bool read_only;  /* the file must exist, with the present version */
    uint64_t checkpoint_bytes; /* of the write-ahead log, after which an apply moves it into the database; it can grow beyond, by
                                  a batch and while readers are in the way. 0: TF_DB_CHECKPOINT_BYTES */
    const tf_mem *mem; /* called only by the thread that uses the tf_db */
} tf_db_config;

/* Opens the database, making or migrating it unless read_only. why (may be NULL) says more on any error.
 * TF_ERR_USAGE: it belongs to another program or to a version from the future (both versions are named); TF_ERR_DAMAGED:
 * it is no database, or one that cannot be read at all. */
TF_MUST_CHECK tf_err tf_db_open(tf_db **out, const tf_db_config *config, char why[TF_WHY_MAX]);
void tf_db_free(tf_db *db);

/* What SQLite says of the last error, for a log line; valid until the next call. */
const char *tf_db_error_text(const tf_db *db);

/* The LSN up to which everything is applied, 0: nothing yet. */
TF_MUST_CHECK tf_err tf_db_applied(tf_db *db, uint64_t *lsn);

/* -- writing ------------------------------------------------------------------------------------------------------- */

TF_MUST_CHECK tf_err tf_db_apply_begin(tf_db *db);
/* Takes one op (not its outcome); op may go, its slices must stay valid until the batch ends. LSNs grow within a batch; an
 * LSN that was applied is skipped. CREATE: op->channel is its number. TF_ERR_DAMAGED: the op does not fit (an unknown channel, a
 * seq or a time that goes back). On an error the batch has ended, as by _abort. */
TF_MUST_CHECK tf_err tf_db_apply_op(tf_db *db, uint64_t lsn, const tf_store_op *op);
/* Ends the batch. TF_OK: it is durable. An error: nothing of it has happened (after TF_ERR_IO it may have: ask
 * tf_db_applied). */
TF_MUST_CHECK tf_err tf_db_apply_commit(tf_db *db);
void tf_db_apply_abort(tf_db *db);
/* Within a batch: applies a TRIM or FORGET that is further on in the log, so that it can free room for what comes before it
 * (any other op: nothing). The LSN does not move: it comes again in its turn, and then changes nothing. Errors as above. */
TF_MUST_CHECK tf_err tf_db_apply_early(tf_db *db, const tf_store_op *op);

/* Moves what was written from the write-ahead log into the database, syncs both, and lets the log start again, without
 * waiting for readers (passive), or also cuts it to nothing (`truncate`: at shutdown; TF_ERR_AGAIN: a reader is in the
 * way). Nothing depends on it but the size of the write-ahead log: after checkpoint_bytes an apply does it by
 * itself. */
#define TF_DB_CHECKPOINT_BYTES (16u << 20)
TF_MUST_CHECK tf_err tf_db_checkpoint(tf_db *db, bool truncate);

/* Gives room back, in at most about `budget` pieces of up to 64 KiB and three transactions: blocks below the trim floors,
 * runs of keys to be merged or freed of forgotten keys, free pages of the file. *more: there is more to do. */
TF_MUST_CHECK tf_err tf_db_collect(tf_db *db, unsigned budget, bool *more);

/* -- reading ------------------------------------------------------------------------------------------------------- */

/* The channels in the order of their numbers: the one after *position (starts at 0, is moved to its number). The name is
 * valid until the next call. TF_ERR_CLOSED: no more. */
TF_MUST_CHECK tf_err tf_db_channel_next(tf_db *db, uint64_t *position, tf_store_channel *out);

/* TF_ERR_CLOSED: there is none, or it was forgotten. TF_ERR_DAMAGED: a part of the keys that may have held it cannot be
 * read. */
TF_MUST_CHECK tf_err tf_db_find_key(tf_db *db, uint64_t channel, const tf_node_id *origin, tf_slice client_id,
                                    tf_store_key *out);

/* What is not there around a seq: first <= seq <= last. What comes next is last + 1. */
typedef struct tf_db_gap {
    uint64_t first;
    uint64_t last;
} tf_db_gap;

/* The block that holds a message, checked, the caller's (tf_db_block_free). TF_ERR_CLOSED: it is not there: trimmed, or a
 * range that was lost; *gap says what is missing around it (up to UINT64_MAX behind the newest). TF_ERR_DAMAGED: *gap cannot be read. */
TF_MUST_CHECK tf_err tf_db_load(tf_db *db, uint64_t channel, uint64_t seq, tf_db_block **out, tf_db_gap *gap);

/* The first seq whose timestamp is not below; head + 1 when there is none. */
TF_MUST_CHECK tf_err tf_db_find_time(tf_db *db, uint64_t channel, int64_t timestamp_ms, uint64_t *seq);
/* The smallest seq from which on the messages (of the database) have together at most so many bytes. */
TF_MUST_CHECK tf_err tf_db_find_bytes(tf_db *db, uint64_t channel, uint64_t bytes, uint64_t *seq);

/* The next range between the oldest kept message and head that is not there, at or after *position (starts at 0, is
 * moved behind it). TF_ERR_CLOSED: no more. */
TF_MUST_CHECK tf_err tf_db_hole_next(tf_db *db, uint64_t channel, uint64_t *position, tf_store_damage *out);

/* TF_ERR_CLOSED: there is none. The name in *out is valid until the next call. */
TF_MUST_CHECK tf_err tf_db_cursor_find(tf_db *db, uint64_t channel, const tf_node_id *owner, tf_slice name,
                                       tf_store_cursor *out);
/* As tf_db_channel_next; cursors that are made, moved or deleted meanwhile may come or not. */
TF_MUST_CHECK tf_err tf_db_cursor_next(tf_db *db, uint64_t channel, uint64_t *position, tf_store_cursor *out);

/* All keys, some thousands at a time in no order, while others are added and merged: a key that was there at the
 * beginning is given at least once (unless it is forgotten). A key that was forgotten may still come. */
typedef struct tf_db_key {
    uint64_t channel;
    tf_node_id origin;
    tf_slice client_id;
} tf_db_key;

typedef struct tf_db_keys tf_db_keys;

/* *position starts at 0 and is moved on. TF_ERR_CLOSED: no more. TF_ERR_DAMAGED: some of these cannot be read; it goes on
 * as with TF_OK. The chunk is the caller's; it may be empty. */
TF_MUST_CHECK tf_err tf_db_keys_load(tf_db *db, uint64_t *position, tf_db_keys **out);
size_t tf_db_keys_count(const tf_db_keys *keys);
/* index < count; the slice lives as long as the chunk. */
void tf_db_keys_get(const tf_db_keys *keys, size_t index, tf_db_key *out);
void tf_db_keys_free(tf_db_keys *keys);

typedef struct tf_db_stats {
    uint64_t channels;
    uint64_t messages;   /* that are kept */
    uint64_t bytes;      /* of the database file, what is free in it left out */
    uint64_t free_bytes; /* of the database file */
    uint64_t key_runs;
    uint64_t keys; /* some of which may be forgotten and not yet collected */
} tf_db_stats;

TF_MUST_CHECK tf_err tf_db_get_stats(tf_db *db, tf_db_stats *out);

#endif
