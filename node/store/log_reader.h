/* Reads the segment files of a commit log in LSN order and says what is damaged (FORMAT.md L14 to L19): for the recovery
 * (commit_log.h), and for another process that copies the log while it is written (`live`).
 *
 * It changes nothing, but (not live) it syncs what it reads: what is handed out is durable. Segments are taken into memory
 * whole, one at a time. One thread. */
#ifndef TF_NODE_STORE_LOG_READER_H
#define TF_NODE_STORE_LOG_READER_H

#include "node/store/files.h"
#include "node/store/log_segment.h"
#include "node/store/record.h"
#include "node/why.h"

#define TF_LOG_FILES_MAX 65536u             /* more are not looked at: TF_ERR_USAGE */
#define TF_LOG_FILE_BYTES_MAX (128u << 20) /* a larger file is none of ours */
#define TF_LOG_RANGES 32u

typedef struct tf_log_reader tf_log_reader;

typedef enum tf_log_item_type {
    TF_LOG_RECORD,
    TF_LOG_DAMAGE
} tf_log_item_type;

typedef struct tf_log_item {
    tf_log_item_type type;
    tf_log_record record;    /* RECORD: its slices point into the reader's memory, as bytes does */
    tf_slice bytes;      /* RECORD: as it was written */
    tf_log_range damage; /* DAMAGE */
} tf_log_item;

typedef struct tf_log_report {
    uint64_t records;                  /* handed out */
    uint64_t damaged;                  /* LSNs, not handed out */
    tf_log_range ranges[TF_LOG_RANGES]; /* of these, ascending; the last one covers those that found no place */
    size_t range_count;
    uint64_t torn;       /* groups of the end of the log that were not whole: never acked, and left out */
    uint64_t unreadable; /* segments whose header is damaged, or of which a part could not be read */
} tf_log_report;

/* What is known of one file, after open. */
typedef struct tf_log_file {
    uint64_t number; /* in its name */
    uint64_t size;
    uint64_t first; /* LSN of the first record of its first group; 0: it has no group */
    uint64_t last;  /* LSN of the last record of its last group */
    uint64_t end;   /* of its records those below count: a later file has the rest again */
    bool begins_whole; /* its first group is */
    bool good;      /* its header is valid and names it, and all of it could be read */
    bool headless;  /* its header is damaged, or was never written */
    bool lost;      /* what it holds cannot be told: not all of it could be read, or no file has the log's key */
} tf_log_file;

typedef struct tf_log_reader_config {
    tf_files files;
    const tf_mem *mem;
    uint64_t from; /* records with a greater LSN are wanted, and the first missing one is damage */
    bool live;     /* the log is being written: stop at the first group that is not whole; do not name what is not there */
} tf_log_reader_config;

/* TF_ERR_USAGE: a later version wrote it (why, may be NULL); TF_ERR_NOMEM; TF_ERR_IO: the folder cannot be read.
 * A log that does not exist is empty. */
TF_MUST_CHECK tf_err tf_log_reader_new(tf_log_reader **out, const tf_log_reader_config *config, char why[TF_WHY_MAX]);
void tf_log_reader_free(tf_log_reader *reader);

/* The next record or range, valid until the next call. TF_ERR_CLOSED: that was all; TF_ERR_AGAIN (live only): what it
 * needs was recycled meanwhile: begin anew, with a newer copy of the index and its LSN; TF_ERR_USAGE: a record of a later
 * version; TF_ERR_NOMEM, TF_ERR_IO: call again or give up. */
TF_MUST_CHECK tf_err tf_log_reader_next(tf_log_reader *reader, tf_log_item *out);
const tf_log_report *tf_log_reader_report(const tf_log_reader *reader);

/* -- for the recovery ---------------------------------------------------------------------------------------------- */

/* The files, ascending by their first LSN (those without one first), then by number. */
size_t tf_log_reader_files(const tf_log_reader *reader, const tf_log_file **out);
/* The log's key: false: no file has a valid header. */
bool tf_log_reader_key(const tf_log_reader *reader, uint64_t *out);
/* The highest LSN that was known durable when the files were looked at (`from` at least): what is missing up to it is
 * damage, or (live) was recycled. */
uint64_t tf_log_reader_durable(const tf_log_reader *reader);
/* After next said TF_ERR_CLOSED: the highest LSN that was handed out, is damaged or was asked to be passed over. */
uint64_t tf_log_reader_last(const tf_log_reader *reader);
#endif
