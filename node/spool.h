/* Sends that are to outlive the process: a directory of its own in which they are written and synced before they go, and
 * kept until they were answered (P1 as the sender sees it). Not for: sending them.
 *
 * Life: open; what an earlier process left comes out first. put any number of messages and sync: then they are durable, in
 * this order, and next hands them out, oldest first. done when one was acked, or refused for good; when all before it are
 * done, too, it is gone. What was handed out and not done is handed out again by the next process, under its client id: at
 * most its ack says `duplicate` then.
 *
 * Bytes on disk: a commit log (node/store/commit_log.h, one append a message: the LSN is its number, the epoch is 1 if it
 * could be sent at once) and the file of node/spool_state.h. All messages that are not done are in memory, too: both are
 * bounded by bytes_max. Calls wait for the disk. One thread. */
#ifndef TF_NODE_SPOOL_H
#define TF_NODE_SPOOL_H

#include "node/spool_state.h"
#include "node/store/files.h"
#include "node/why.h"

typedef struct tf_spool tf_spool;

#define TF_SPOOL_BYTES ((uint64_t)64 << 20)
#define TF_SPOOL_BYTES_MIN ((uint64_t)4 << 20)
#define TF_SPOOL_BYTES_MAX ((uint64_t)4 << 30)

typedef struct tf_spool_config {
    tf_files files;      /* outlives the spool */
    const tf_mem *mem;
    const tf_rand *rand; /* used by open only */
    uint64_t bytes_max;  /* of the log's files; 0: TF_SPOOL_BYTES; from TF_SPOOL_BYTES_MIN to TF_SPOOL_BYTES_MAX */
    tf_spool_owner owner;
} tf_spool_config;

typedef struct tf_spool_message {
    uint64_t number; /* out: from 1, ascending */
    tf_slice client_id;
    tf_slice meta;
    tf_slice body;
    int64_t expires_ms; /* 0: never */
    int64_t sent_ms;    /* out: it may have been sent, but not before this time; 0: it was not sent yet */
} tf_spool_message;

/* TF_ERR_AGAIN: another process has it open; TF_ERR_USAGE: it is another owner's or a later version's; TF_ERR_DAMAGED: it
 * cannot be told whose it is, or how far it was answered; TF_ERR_NOMEM, IO, FULL. why says what was wrong. */
TF_MUST_CHECK tf_err tf_spool_open(tf_spool **out, const tf_spool_config *config, char why[TF_WHY_MAX]);
/* What was put and not synced is lost. NULL is fine. */
void tf_spool_close(tf_spool *spool);

/* Takes a message (bytes are copied); durable after the next sync that says so. now_ms: the time; at_once: it is sent as
 * soon as it is durable, so that next need not note it. TF_ERR_AGAIN: sync first; TF_ERR_NOMEM: not taken. Client id, meta
 * and body are within their limits, asserted. */
TF_MUST_CHECK tf_err tf_spool_put(tf_spool *spool, const tf_spool_message *message, int64_t now_ms, bool at_once);
/* Makes durable all that was put. TF_ERR_FULL: the disk has no room; TF_ERR_AGAIN: bytes_max is met, something must be done
 * first; TF_ERR_NOMEM: what was put stays put, sync again later. TF_ERR_IO: the disk failed, the spool cannot be used any
 * more (what was put may or may not be found by the next process; it has not been handed out). */
TF_MUST_CHECK tf_err tf_spool_sync(tf_spool *spool);

/* The oldest durable message that was not taken; valid until the next call. TF_ERR_CLOSED: none. TF_ERR_IO, FULL, NOMEM:
 * it could not be noted that it is sent: do not send it, ask again later. */
TF_MUST_CHECK tf_err tf_spool_next(tf_spool *spool, int64_t now_ms, tf_spool_message *out);
/* It was sent. */
void tf_spool_take(tf_spool *spool);
/* The message of that number was answered for good. One that is done or unknown: no-op. */
void tf_spool_done(tf_spool *spool, uint64_t number);
/* Notes how far all is done, and frees what it can. Cheap when there is nothing new; durable only when that frees something,
 * or if asked for. TF_ERR_IO, FULL, NOMEM: some may come as duplicates in the next process, nothing worse. */
TF_MUST_CHECK tf_err tf_spool_note(tf_spool *spool, bool durably);

typedef struct tf_spool_stats {
    size_t waiting;    /* durable and not done */
    size_t unsynced;   /* put and not synced */
    uint64_t damaged;  /* messages of an earlier process that cannot be read any more */
    uint64_t bytes;    /* on disk */
} tf_spool_stats;

void tf_spool_get_stats(const tf_spool *spool, tf_spool_stats *out);
/* Of the last call on the disk that failed for sync. */
int tf_spool_errno(const tf_spool *spool);

#endif
