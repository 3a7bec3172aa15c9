/* Looks at all that a store holds and names what of it is damaged or lost: the index (structure, the checksum of every
 * block, seqs without a hole, keys, cursors), and whether the commit log goes on where it ends. Changes nothing. One thread
 * per report. */
#ifndef TF_NODE_STORE_CHECK_H
#define TF_NODE_STORE_CHECK_H

#include "node/store/db.h"
#include "node/store/files.h"

#define TF_CHECK_FINDINGS 256u

typedef enum tf_check_kind {
    TF_CHECK_DAMAGED, /* messages that are there and cannot be read */
    TF_CHECK_LOST,    /* messages that are not there */
    TF_CHECK_KEYS,    /* dedup keys: resends of these may be taken twice, or their sends be refused */
    TF_CHECK_CURSORS, /* of a channel */
    TF_CHECK_INDEX,   /* SQLite's file */
    TF_CHECK_LOG      /* LSNs of the commit log */
} tf_check_kind;

typedef struct tf_check_finding {
    tf_check_kind kind;
    char channel[TF_CHANNEL_NAME_MAX + 1]; /* "": of no one channel */
    uint64_t first; /* of seqs, LOG: of LSNs; 0: no range */
    uint64_t last;
    char text[TF_WHY_MAX]; /* what it is, for people */
} tf_check_finding;

typedef struct tf_check_report tf_check_report;
struct tf_check_report {
    uint64_t channels;
    uint64_t messages; /* that can be read */
    uint64_t applied_lsn;
    uint64_t log_records; /* that the index has not yet */
    uint64_t found;       /* findings, those that found no place here included */
    size_t count;
    tf_check_finding findings[TF_CHECK_FINDINGS];
};

void tf_check_add(tf_check_report *report, const tf_check_finding *finding);
/* "damaged", "lost", ... */
const char *tf_check_kind_name(tf_check_kind kind);

/* The messages and cursors of every channel, and all keys. Errors: those that keep it from being looked at
 * (TF_ERR_IO, TF_ERR_AGAIN, TF_ERR_NOMEM); damage is in the report. Nobody else may be writing to the database. */
TF_MUST_CHECK tf_err tf_check_db(tf_db *db, tf_check_report *report);

/* A whole store, whose lock it takes. TF_ERR_USAGE: there is none, a relay uses it, or a later version wrote it; others as
 * above. why says what was wrong. */
TF_MUST_CHECK tf_err tf_check_store(const char *directory, const tf_mem *mem, tf_check_report *report,
                                    char why[TF_WHY_MAX]);

/* The two steps with which that begins: the files of a directory that has a store; its lock. Errors as above. */
TF_MUST_CHECK tf_err tf_check_open(const char *directory, const tf_mem *mem, tf_disk_files **out, char why[TF_WHY_MAX]);
TF_MUST_CHECK tf_err tf_check_lock(const char *directory, const tf_files *files, tf_file **out, char why[TF_WHY_MAX]);

#endif
