/* The tables of the database, and how an older database becomes a present one.
 *
 *     state       one row: the LSN up to which all is applied, the secret of the key hashes, the next number of a part
 *     channels    `bytes` counts all that was ever appended; `collected`: blocks below were deleted
 *     blocks      the index of a channel's messages: which block holds them (db_block.h), their times, and the bytes of
 *                 the channel before them, so that a time or an amount of bytes is found by bisection
 *     block_data  the blocks
 *     key_runs    the dedup keys (S2): a run is a set of keys, sorted by hash, cut into 1 << bits parts (db_part.h) by
 *                 the upper bits; a batch makes a run, TF_DB_FANOUT runs of a level are merged into one of the next.
 *                 A key is in one run, or in none; while a run is made of others, they are read
 *     key_parts   the parts; those of a run have consecutive numbers, an empty part has no row
 *     key_counts  keys of a channel in a run, and the newest time among them: what was forgotten
 *     key_garbage parts of runs that are no more
 *     cursors     positions of durable subscriptions
 *
 * PRAGMA application_id and user_version (the version of the tables) name the file. */
#ifndef TF_NODE_STORE_DB_SCHEMA_H
#define TF_NODE_STORE_DB_SCHEMA_H

#include "node/store/db.h"

#define TF_DB_APPLICATION_ID 0x74776f66 /* "twof" */
#define TF_DB_VERSION 1

/* Makes or migrates the tables and sets the connection up; see tf_db_open for errors. */
TF_MUST_CHECK tf_err tf_db_schema_prepare(tf_db *db, const char *path, char why[TF_WHY_MAX]);

#endif
