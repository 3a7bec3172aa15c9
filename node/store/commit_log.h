/* The commit log of the embedded store (S6, S11): groups of records (record.h), each durable with one write and one
 * sync, in pre-written segment files below the folder "log" (bytes: FORMAT.md). Not for: what a record means, when a
 * group is full, the index behind the log.
 *
 * Life: open, next until TF_ERR_CLOSED (the recovery), then append, prepare, release; close.
 *
 * Threads. open, next, report, close: one thread, with no other call on this log at the time. After the recovery:
 *   append, retry             one thread, the writer
 *   prepare                   one other thread
 *   release, all the rest     any thread
 * These run concurrently. A mutex inside is never held over a read, write or sync, so no call waits for the disk on
 * behalf of another, but for one case: append, when it needs a segment and none is prepared, makes one (or waits for the
 * prepare that is making one). */
#ifndef TF_NODE_STORE_COMMIT_LOG_H
#define TF_NODE_STORE_COMMIT_LOG_H

#include "node/store/files.h"
#include "node/store/log_reader.h"
#include "node/store/record.h"
#include "node/why.h"

typedef struct tf_commit_log tf_commit_log;

typedef struct tf_commit_log_config {
    tf_files files; /* outlives the log */
    const tf_mem *mem; /* used by any thread */
    const tf_rand *rand; /* used by open only: the key of a new log */
    uint64_t segment_size; /* 0: TF_LOG_SEGMENT_SIZE; from TF_LOG_SEGMENT_SIZE_MIN to .._MAX, a multiple of 4096 */
    uint64_t segments_max; /* bound of the log's files, in segments of segment_size, but never less than the reserve and
                              one largest group need; 0: TF_LOG_SEGMENTS; TF_LOG_SEGMENTS_MIN at least */
    uint64_t reserve;      /* prepared segments that only what frees room may take; 0: 1; below segments_max / 2 */
    uint64_t ahead;        /* prepared segments beyond the reserve that prepare keeps ready; 0: 1; likewise */
    uint64_t spare;        /* released segments that are kept to be recycled; 0: TF_LOG_SPARE */
    uint64_t keep_free;    /* bytes of the disk that new segments leave to others (the index); else TF_ERR_FULL */
} tf_commit_log_config;

/* Opens or makes the log and finds what it holds. The caller holds the lock of the data directory. `applied_lsn`: all up
 * to it is durable in the index (0: nothing is), and not handed out. A damaged log opens, too.
 * TF_ERR_USAGE: it was written by a later version, or the config is out of its bounds (why, which may be NULL, says so);
 * TF_ERR_NOMEM, TF_ERR_IO, TF_ERR_FULL (it could not be read, or the folder not be made; errno says why). Nothing was
 * changed then, but for the folder. */
TF_MUST_CHECK tf_err tf_commit_log_open(tf_commit_log **out, const tf_commit_log_config *config, uint64_t applied_lsn,
                                        char why[TF_WHY_MAX]);
/* NULL is fine. What append answered is durable already; a pending group may be found by the next open, or not. */
void tf_commit_log_close(tf_commit_log *log);

/* -- recovery ------------------------------------------------------------------------------------------------------ */

/* What comes next in LSN order, above applied_lsn: a record, or a range of LSNs that is damaged. Valid until the next
 * call. TF_ERR_CLOSED: that was all; the log may be appended to from now on. TF_ERR_USAGE: a record of a later version;
 * TF_ERR_NOMEM, TF_ERR_IO: call again or give up. */
TF_MUST_CHECK tf_err tf_commit_log_next(tf_commit_log *log, tf_log_item *out);
/* What the recovery found; complete after next said TF_ERR_CLOSED, valid until close. */
const tf_log_report *tf_commit_log_report(const tf_commit_log *log);

/* -- the writer ---------------------------------------------------------------------------------------------------- */

/* The secret with which records are written. Stays the same as long as the log is open. */
uint64_t tf_commit_log_key(const tf_commit_log *log);
/* The LSN of the first record of the next group; records have consecutive ones. */
uint64_t tf_commit_log_next_lsn(tf_commit_log *log);
/* Bytes of records that a group may have. Up to the first a group fits into an ordinary segment; a larger one gets a
 * segment file of its own size, which costs an allocation in the middle of the append. One record of TF_RECORD_MAX fits
 * the second with every segment_size. */
size_t tf_commit_log_group_usual(const tf_commit_log *log);
size_t tf_commit_log_group_max(const tf_commit_log *log);

typedef struct tf_commit_group {
    tf_slice records; /* written by tf_record_write with the key and consecutive LSNs from next_lsn on */
    uint32_t count;   /* of them, 1 at least */
    bool frees_room;  /* only trims, forgotten keys, closes and cursors: it may use the reserve */
} tf_commit_group;

/* Makes a group durable. TF_OK: it is. Nothing was written, the LSNs are free, and the call may come again with another
 * group, after: TF_ERR_LIMIT_BYTES: it is larger than group_max; TF_ERR_FULL: the disk is full (it is tried anew at each
 * call); TF_ERR_AGAIN: the log has segments_max and something must be released first (what frees room may still pass);
 * TF_ERR_IO, TF_ERR_NOMEM: a segment cannot be made or opened.
 * TF_ERR_IO with tf_commit_log_is_pending: a write or sync failed, and the outcome of this group is unknown: the records
 * stay valid and unchanged until retry said TF_OK, and nothing else is appended until then. */
TF_MUST_CHECK tf_err tf_commit_log_append(tf_commit_log *log, const tf_commit_group *group);
bool tf_commit_log_is_pending(const tf_commit_log *log);

/* Writes the pending group again, into a fresh segment (also one of the reserve), and reads back what the segment that
 * failed holds of earlier groups that are not released. TF_OK: the group is durable; *lost (may be NULL) is the range of
 * earlier, acked LSNs that could not be read back ({0, 0}: none): apply these to the index before they leave the memory.
 * Any other error, as append has them: still pending; call again, after some time. */
TF_MUST_CHECK tf_err tf_commit_log_retry(tf_commit_log *log, tf_log_range *lost);

/* errno of the last write, sync or other call on the disk that failed for the writer or prepare; 0: none has. */
int tf_commit_log_errno(tf_commit_log *log);

/* -- room ---------------------------------------------------------------------------------------------------------- */

/* Everything up to lsn is durable in the index: segments that hold nothing else are free. Only marks them: prepare
 * does the work. An lsn that is not above the last one changes nothing. */
void tf_commit_log_release(tf_commit_log *log, uint64_t lsn);

/* True while prepare has something to do. */
bool tf_commit_log_wants_prepare(tf_commit_log *log);
/* Makes one segment ready (from a free one, or a new file) if reserve + ahead are not, or removes one free file that is
 * too many. Call it while wants_prepare. TF_OK; TF_ERR_AGAIN: the bound is met, something must be released first;
 * TF_ERR_FULL, TF_ERR_IO, TF_ERR_NOMEM: nothing was made; try again later. */
TF_MUST_CHECK tf_err tf_commit_log_prepare(tf_commit_log *log);

typedef struct tf_commit_log_stats {
    uint64_t bytes;      /* of all its files */
    uint64_t bytes_max;
    uint64_t used;       /* segments that hold what is not released; the current one included */
    uint64_t ready;      /* prepared segments */
    uint64_t free;       /* released, to be recycled or removed */
    uint64_t given_up;   /* segments that were given up after a failed write or sync, ever */
    uint64_t groups;     /* durable since open */
    uint64_t syncs;      /* of groups */
    uint64_t failures;   /* writes, syncs and preparations that failed */
    uint64_t last_lsn;   /* of the last group that was written, durable or not */
    uint64_t durable_lsn;
    uint64_t released_lsn;
} tf_commit_log_stats;

void tf_commit_log_get_stats(tf_commit_log *log, tf_commit_log_stats *out);

#endif
