/* What the files of the database share: statements by name, rows, errors. Not for others than node/store/db*.c. */
#ifndef TF_NODE_STORE_DB_INTERNAL_H
#define TF_NODE_STORE_DB_INTERNAL_H

#include <sqlite3.h>

#include "node/store/db.h"
#include "node/store/db_part.h"

#define TF_DB_SPARE_PAGES 256u /* that are free are kept for what comes */
#define TF_DB_VACUUM_PAGES 16  /* are cut off at a time */
#define TF_DB_TEXT_OF(number) #number
#define TF_DB_TEXT(number) TF_DB_TEXT_OF(number)

/* Every statement, prepared when it is used for the first time. */
#define TF_DB_SQL_MAP(X)                                                                                               \
    X(BEGIN_READ, "BEGIN")                                                                                             \
    X(BEGIN_WRITE, "BEGIN IMMEDIATE")                                                                                  \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(GET_STATE, "SELECT applied_lsn, key_secret, next_part FROM state")                                               \
    X(SET_STATE, "UPDATE state SET applied_lsn = ?1, next_part = ?2")                                                  \
    X(CHANNEL_NEXT, "SELECT number, epoch, first, head, timestamp_ms, keys_since_ms, bytes, closed, name "             \
                    "FROM channels WHERE number > ?1 ORDER BY number LIMIT 1")                                         \
    X(CHANNEL_GET, "SELECT first, head, timestamp_ms, bytes FROM channels WHERE number = ?1")                          \
    X(CHANNEL_PUT, "INSERT INTO channels(number, name, epoch, first, head, timestamp_ms, keys_since_ms, bytes, "       \
                   "closed, collected) VALUES (?1, ?2, ?3, 1, 0, 0, 0, 0, 0, 1)")                                      \
    X(CHANNEL_APPEND, "UPDATE channels SET head = ?2, timestamp_ms = ?3, bytes = ?4 WHERE number = ?1")                \
    X(CHANNEL_CLOSE, "UPDATE channels SET closed = 1 WHERE number = ?1")                                               \
    X(CHANNEL_TRIM, "UPDATE channels SET first = max(first, min(?2, max(head, ?3) + 1)) WHERE number = ?1")            \
    X(CHANNEL_FORGET, "UPDATE channels SET keys_since_ms = max(keys_since_ms, ?2) WHERE number = ?1")                  \
    X(CHANNEL_EPOCH, "UPDATE channels SET epoch = ?2 WHERE number = ?1")                                               \
    X(CHANNEL_SINCE, "SELECT keys_since_ms FROM channels WHERE number = ?1")                                           \
    X(CHANNEL_TRIMMED, "SELECT number, first FROM channels WHERE collected < first ORDER BY number LIMIT 1")           \
    X(CHANNEL_COLLECTED, "UPDATE channels SET collected = ?2 WHERE number = ?1")                                       \
    X(CHANNEL_COUNT, "SELECT count(*), sum(head + 1 - first) FROM channels")                                           \
    X(BLOCK_AT, "SELECT first, count, time_last, bytes_before, data FROM blocks "                                      \
                "WHERE channel = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1")                                      \
    X(BLOCK_AFTER, "SELECT first, count, time_last, bytes_before, data FROM blocks "                                   \
                   "WHERE channel = ?1 AND first > ?2 ORDER BY first LIMIT 1")                                         \
    X(BLOCK_TAIL, "SELECT first, count, time_last, bytes_before, data, len FROM blocks "                               \
                  "WHERE channel = ?1 ORDER BY first DESC LIMIT 1")                                                    \
    X(BLOCK_PUT, "INSERT INTO blocks(channel, first, count, time_first, time_last, bytes_before, len, data) "          \
                 "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                                            \
    X(BLOCK_DROP, "DELETE FROM blocks WHERE channel = ?1 AND first = ?2")                                              \
    X(DATA_GET, "SELECT data FROM block_data WHERE id = ?1")                                                           \
    X(DATA_PUT, "INSERT INTO block_data(data) VALUES (?1)")                                                            \
    X(DATA_DROP, "DELETE FROM block_data WHERE id = ?1")                                                               \
    X(DATA_NEXT, "SELECT id, data FROM block_data WHERE id > ?1 ORDER BY id LIMIT 1")                                  \
    X(CHANNEL_RAISE, "UPDATE channels SET head = max(head, ?2), timestamp_ms = max(timestamp_ms, ?3) "                 \
                     "WHERE number = ?1")                                                                              \
    X(STRUCTURE_CHECK, "PRAGMA integrity_check(100)")                                                                  \
    X(CURSOR_FIND, "SELECT id, channel, owner, name, epoch, next, moved_ms FROM cursors "                              \
                   "WHERE channel = ?1 AND owner = ?2 AND name = ?3")                                                  \
    X(CURSOR_NEXT, "SELECT id, channel, owner, name, epoch, next, moved_ms FROM cursors "                              \
                   "WHERE channel = ?1 AND id > ?2 ORDER BY id LIMIT 1")                                               \
    X(CURSOR_PUT, "INSERT INTO cursors(channel, owner, name, epoch, next, moved_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6) "  \
                  "ON CONFLICT(channel, owner, name) DO UPDATE SET epoch = ?4, next = ?5, moved_ms = ?6")              \
    X(CURSOR_DROP, "DELETE FROM cursors WHERE channel = ?1 AND owner = ?2 AND name = ?3")                              \
    X(RUN_LIST, "SELECT id, level, bits, keys, first_part, parts_done, merged_into, damaged, "                         \
                "(SELECT next_part FROM state) FROM key_runs ORDER BY id DESC")                                        \
    X(RUN_PUT, "INSERT INTO key_runs(level, bits, keys, first_part, parts_done, merged_into, damaged) "                \
               "VALUES (?1, ?2, ?3, ?4, ?5, 0, 0)")                                                                    \
    X(RUN_PROGRESS, "UPDATE key_runs SET parts_done = ?2, keys = ?3 WHERE id = ?1")                                    \
    X(RUN_MERGED_INTO, "UPDATE key_runs SET merged_into = ?2 WHERE id = ?1")                                           \
    X(RUN_DAMAGED, "UPDATE key_runs SET damaged = 1 WHERE id = ?1")                                                    \
    X(RUN_DEAD, "SELECT r.id FROM key_runs r WHERE r.merged_into = 0 AND r.damaged = 0 AND "                           \
                "r.parts_done = (1 << r.bits) AND 2 * (SELECT total(c.keys) FROM key_counts c "                        \
                "JOIN channels h ON h.number = c.channel "                                                             \
                "WHERE c.run = r.id AND c.time_last < h.keys_since_ms) >= r.keys LIMIT 1")                             \
    X(RUN_DROP, "DELETE FROM key_runs WHERE id = ?1")                                                                  \
    X(COUNT_ADD, "INSERT INTO key_counts(run, channel, keys, time_last) VALUES (?1, ?2, ?3, ?4) "                      \
                 "ON CONFLICT(run, channel) DO UPDATE SET keys = keys + ?3, time_last = max(time_last, ?4)")           \
    X(COUNT_DROP, "DELETE FROM key_counts WHERE run = ?1")                                                             \
    X(PART_GET, "SELECT data FROM key_parts WHERE id = ?1")                                                            \
    X(PART_PUT, "INSERT INTO key_parts(id, data) VALUES (?1, ?2)")                                                     \
    X(PART_DROP, "DELETE FROM key_parts WHERE id >= ?1 AND id < ?2")                                                   \
    X(GARBAGE_GET, "SELECT id, first_part, parts FROM key_garbage LIMIT 1")                                            \
    X(GARBAGE_PUT, "INSERT INTO key_garbage(first_part, parts) VALUES (?1, ?2)")                                       \
    X(GARBAGE_CUT, "UPDATE key_garbage SET first_part = ?2, parts = ?3 WHERE id = ?1")                                 \
    X(GARBAGE_DROP, "DELETE FROM key_garbage WHERE id = ?1")                                                           \
    X(RUN_COUNT, "SELECT count(*), sum(keys) FROM key_runs WHERE parts_done = (1 << bits)")                            \
    X(VACUUM, "PRAGMA incremental_vacuum(" TF_DB_TEXT(TF_DB_VACUUM_PAGES) ")")                                         \
    X(FREE_PAGES, "SELECT freelist_count FROM pragma_freelist_count")                                                  \
    X(PAGE_COUNT, "SELECT page_count FROM pragma_page_count")                                                          \
    X(PAGE_SIZE, "SELECT page_size FROM pragma_page_size")

typedef enum tf_db_sql {
#define X(name, text) TF_DB_##name,
    TF_DB_SQL_MAP(X)
#undef X
        TF_DB_SQL_COUNT
} tf_db_sql;

/* An append of the batch, to be sorted. */
typedef struct tf_db_append {
    uint64_t channel;
    tf_stored message;
} tf_db_append;

/* Bytes that grow. */
typedef struct tf_db_buffer {
    uint8_t *bytes;
    size_t len;
    size_t capacity;
} tf_db_buffer;

struct tf_db {
    const tf_mem *mem;
    sqlite3 *sqlite;
    sqlite3_stmt *stmts[TF_DB_SQL_COUNT];
    bool read_only;
    const char *vfs;
    unsigned depth; /* transactions for reading within the open one */
    uint64_t checkpoint_bytes;
    uint64_t key_secret;
    char error[TF_WHY_MAX];

    /* The open batch. */
    bool in_batch;
    uint64_t applied; /* the newest LSN in the batch, or the committed one */
    uint64_t next_part;
    tf_db_append *appends;
    size_t append_count;
    size_t append_capacity;

    tf_db_block_writer writer;
    tf_db_entries entries; /* of the part of a run that is made */
    tf_db_buffer read;     /* parts that are merged, which the entries refer to */
    tf_db_buffer part;     /* where a part is written */
    uint8_t name[TF_CHANNEL_NAME_MAX]; /* of the channel or cursor given last */
};

/* -- statements ---------------------------------------------------------------------------------------------------- */

/* The error for a result code of SQLite, with its text kept. */
tf_err tf_db_fail(tf_db *db, int code);

/* The statement, reset and ready to be bound. On an error *out is NULL. */
TF_MUST_CHECK tf_err tf_db_use(tf_db *db, tf_db_sql which, sqlite3_stmt **out);
/* One row: TF_OK, and the statement is to be ended with tf_db_end; TF_ERR_CLOSED: there is none (more), it has ended. */
TF_MUST_CHECK tf_err tf_db_row(tf_db *db, sqlite3_stmt *stmt);
void tf_db_end(sqlite3_stmt *stmt);
/* Runs a statement without rows to its end. */
TF_MUST_CHECK tf_err tf_db_exec(tf_db *db, sqlite3_stmt *stmt);
/* The same for one without parameters. */
TF_MUST_CHECK tf_err tf_db_do(tf_db *db, tf_db_sql which);

void tf_db_bind_u64(sqlite3_stmt *stmt, int at, uint64_t value);
void tf_db_bind_bytes(sqlite3_stmt *stmt, int at, tf_slice bytes); /* valid until the statement has ended */
uint64_t tf_db_u64(sqlite3_stmt *stmt, int column);
tf_slice tf_db_bytes(sqlite3_stmt *stmt, int column); /* valid until the statement goes on */

/* A transaction for reading (several statements see one state), or for writing. One for reading may be opened within
 * another: the outermost counts. */
TF_MUST_CHECK tf_err tf_db_begin(tf_db *db, bool write);
/* Commits if err is TF_OK, else rolls back; gives err, or what went wrong at the commit. */
TF_MUST_CHECK tf_err tf_db_finish(tf_db *db, tf_err err);

/* Room for `extra` more bytes behind len; the bytes may move. */
TF_MUST_CHECK tf_err tf_db_buffer_room(tf_db *db, tf_db_buffer *buffer, size_t extra);
/* A larger array for one more item of that size, if it is full. */
TF_MUST_CHECK tf_err tf_db_grow(const tf_mem *mem, void **array, size_t count, size_t *capacity, size_t size);

struct tf_db_keys {
    const tf_mem *mem;
    tf_db_entries entries;
    tf_db_buffer bytes;
};

/* Takes applied_lsn and next_part from the database, and puts them back. */
TF_MUST_CHECK tf_err tf_db_state_load(tf_db *db);
TF_MUST_CHECK tf_err tf_db_state_save(tf_db *db);

/* -- db_runs.c ----------------------------------------------------------------------------------------------------- */

#define TF_DB_FANOUT 8u /* so many runs of a level are merged into one of the next */

typedef struct tf_db_run {
    uint64_t id;
    uint64_t level;
    uint64_t bits; /* it has 1 << bits parts, by the upper bits of the hash */
    uint64_t keys;
    uint64_t first_part;
    uint64_t parts_done; /* fewer than it has: it is being made */
    uint64_t merged_into; /* the run that is made of it; 0: none */
    bool damaged;         /* it cannot be merged */
} tf_db_run;

/* The runs, newest first: an array of db->mem, the caller's (tf_db_runs_free). */
typedef struct tf_db_runs {
    tf_db_run *at;
    size_t count;
    size_t capacity;
} tf_db_runs;

TF_MUST_CHECK tf_err tf_db_runs_list(tf_db *db, tf_db_runs *out);
void tf_db_runs_free(tf_db *db, tf_db_runs *runs);

static inline bool tf_db_run_is_whole(const tf_db_run *run)
{
    return run->parts_done == (uint64_t)1 << run->bits;
}

/* The part of a run in which a hash is. */
static inline uint64_t tf_db_run_part(const tf_db_run *run, uint64_t hash)
{
    return run->bits == 0 ? 0 : hash >> (64 - run->bits);
}

/* Keys of the channel with an older timestamp are forgotten. TF_ERR_CLOSED: no such channel. */
TF_MUST_CHECK tf_err tf_db_channel_floor(tf_db *db, uint64_t channel, int64_t *out);

/* Stores the keys of the appends of the batch as a new run, and merges what is due for so many keys. */
TF_MUST_CHECK tf_err tf_db_keys_store(tf_db *db);

/* -- db_merge.c ---------------------------------------------------------------------------------------------------- */

/* Enters a new run (level and bits are given) and its numbers; no part of it is written. */
TF_MUST_CHECK tf_err tf_db_run_put(tf_db *db, tf_db_run *run);
/* Writes the parts from run->parts_done to `to` of a run, of entries sorted by their hashes that all belong there, and
 * counts them. */
TF_MUST_CHECK tf_err tf_db_run_write(tf_db *db, tf_db_run *run, const tf_db_entries *entries, uint64_t to);
/* A copy of a part, behind what db->read holds, until db->read.len is set back. TF_ERR_CLOSED: the part is empty. */
TF_MUST_CHECK tf_err tf_db_part_load(tf_db *db, uint64_t id, tf_slice *out);
/* Sorts by hash; of entries with the same key the newest stays. */
void tf_db_entries_sort(tf_db_entries *entries);
/* The bits of a run of so many keys. */
uint64_t tf_db_run_bits(uint64_t keys);
/* The run is no more; its parts are garbage to be collected. */
TF_MUST_CHECK tf_err tf_db_run_drop(tf_db *db, const tf_db_run *run);
/* Drops parts that are garbage and merges, about *budget parts; *budget is what is left: not 0 when nothing is to do.
 * `dead`: also looks for runs half of which was forgotten. */
TF_MUST_CHECK tf_err tf_db_merge(tf_db *db, bool dead, size_t *budget);

/* -- db_apply.c ---------------------------------------------------------------------------------------------------- */

/* One op into the open batch, whatever its LSN. On an error the batch is still open. */
TF_MUST_CHECK tf_err tf_db_apply_any(tf_db *db, const tf_store_op *op);

/* -- db_blocks.c --------------------------------------------------------------------------------------------------- */

/* Stores the messages of the appends of the batch. */
TF_MUST_CHECK tf_err tf_db_blocks_store(tf_db *db);

#endif
