/* The embedded store of a relay (S11): a commit log in front (commit_log.h), SQLite behind it (db.h), and in memory the
 * channels, the newest messages and what tells new keys from old ones (catalog.h, key_filter.h).
 *
 * The caller's thread never waits for the disk, but for the look-up of a key that may be an old one and of a position by
 * time or bytes. Four threads do: the writer commits groups, the applier moves what is committed into SQLite and frees
 * the log, the reader fetches what is replayed, and one fills the filter of keys after the start, then ends.
 * With nothing to do all of them sleep (P9).
 *
 * A directory belongs to one store at a time. Files in it: `lock`, `log/`, `index.db` with SQLite's own
 * beside it, `spare` (room that is kept for freeing room). All calls by one thread, the one that calls the table. */
#ifndef TF_NODE_STORE_DISK_H
#define TF_NODE_STORE_DISK_H

#include "node/store/commit_log.h"
#include "node/store/files.h"
#include "node/store/store.h"
#include "node/why.h"

typedef struct tf_disk_store tf_disk_store;

/* A limit of 0 means its default. */
typedef struct tf_disk_store_config {
    const char *directory; /* exists; for SQLite. "": its names are those of `vfs` */
    const tf_files *files; /* the same directory, for all else; NULL: its real files */
    const char *vfs;       /* SQLite's; NULL: its default */
    const tf_mem *mem;     /* used by the caller's thread only */
    const tf_rand *rand;   /* at open only */
    uint64_t segment_size; /* of the log: TF_LOG_SEGMENT_SIZE */
    uint64_t segments_max; /* TF_LOG_SEGMENTS */
    uint64_t tail_bytes;   /* of messages that are in memory although the index has them: 16 MiB */
    uint64_t cache_bytes;  /* of blocks of the index that are being read: 16 MiB */
    uint64_t channels_max; /* TF_CHANNELS_MAX */
} tf_disk_store_config;

/* What the start found. */
typedef struct tf_disk_report {
    uint64_t replayed;      /* records of the log that the index had not */
    uint64_t torn;          /* groups at the log's end that were cut off: never acked */
    uint64_t damaged;       /* LSNs of acked changes that are lost */
    uint64_t new_epochs;    /* channels that got another epoch, since the end of their numbering may be lost (S10) */
    uint64_t channels;
    uint64_t messages;
} tf_disk_report;

/* Opens or makes the store. TF_ERR_USAGE: another process has it, it was written by a later version, a limit is out of
 * its bounds; TF_ERR_DAMAGED: SQLite's file cannot be used at all (`twofold store repair`); TF_ERR_FULL, TF_ERR_IO,
 * TF_ERR_NOMEM. why says what was wrong, and what would be right. */
TF_MUST_CHECK tf_err tf_disk_store_open(tf_disk_store **out, const tf_disk_store_config *config, char why[TF_WHY_MAX]);
/* Waits until what is committed is in SQLite (as far as the disk lets it; else the next start replays the log), and ends
 * the threads. A group that is open stays without an outcome. NULL is fine. */
void tf_disk_store_close(tf_disk_store *store);

tf_store tf_disk_store_get(tf_disk_store *store);
const tf_disk_report *tf_disk_store_report(const tf_disk_store *store);
/* A descriptor that can be read from when `poll` may have something to say. The store's; poll empties it. */
int tf_disk_store_fd(const tf_disk_store *store);
/* How often the state (tf_store_stats) has changed: cheap to ask. */
uint64_t tf_disk_store_turns(const tf_disk_store *store);
/* What saves a latency-bound load two changes of threads: true while a group of few changes is with the writer, so that
 * its end is near and worth looking for (poll) instead of sleeping. */
bool tf_disk_store_is_brisk(const tf_disk_store *store);
/* poll would have a group to give. */
bool tf_disk_store_has_news(const tf_disk_store *store);
/* Call with true before waiting for the descriptor, and look at has_news once more then; with false when awake: it is not
 * written to meanwhile. Begins as true. */
void tf_disk_store_set_sleeping(tf_disk_store *store, bool sleeping);
/* Why the store is not writable, or could not apply what is committed: errno of the last failure; 0: none. */
int tf_disk_store_errno(tf_disk_store *store);

#endif
