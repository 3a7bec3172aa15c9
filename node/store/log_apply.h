/* Moves what a commit log holds beyond an index into that index, outside of a relay: for a backup, from a log that is
 * being written. What a start of the relay would pass over (of a channel that was lost, or that is there already) is
 * passed over here, too. One thread. */
#ifndef TF_NODE_STORE_LOG_APPLY_H
#define TF_NODE_STORE_LOG_APPLY_H

#include "node/store/check.h"
#include "node/store/db.h"
#include "node/store/files.h"

typedef struct tf_log_apply_report {
    uint64_t records;
    uint64_t last;    /* LSN up to which the index has all */
    uint64_t durable; /* LSN up to which the log, as it was found, should have had all */
} tf_log_apply_report;

/* `files`: of the directory that has the folder of the log; db: open for writing; `mem`: of the tf_db. Applies in order and
 * stops at the first LSN that is not there (any more). TF_OK: as far as report->last; TF_ERR_USAGE: a later version wrote the log;
 * errors of db.h and files.h. */
TF_MUST_CHECK tf_err tf_log_apply(tf_db *db, const tf_files *files, const tf_mem *mem, tf_log_apply_report *report,
                                  char why[TF_WHY_MAX]);

/* Only looks, past what is damaged: the same numbers for an index that has all up to `applied`. TF_ERR_AGAIN: what comes
 * behind it is being recycled, so the index has more by now. */
TF_MUST_CHECK tf_err tf_log_look(uint64_t applied, const tf_files *files, const tf_mem *mem, tf_log_apply_report *report,
                                 char why[TF_WHY_MAX]);

/* Does the log, which nobody is writing, go on where the index ends? Counts its records and messages in the report, and
 * enters what is damaged or lost. Errors as tf_log_apply has them. */
TF_MUST_CHECK tf_err tf_log_check(tf_db *db, const tf_files *files, const tf_mem *mem, tf_check_report *report,
                                  char why[TF_WHY_MAX]);

#endif
