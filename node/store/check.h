/* Looks at all that a store holds and names what of it is damaged or lost: the index (structure, the checksum of every
 * block, seqs without a hole, keys), and whether the commit log goes on where it ends. Changes nothing. One thread
 * per report. */
#ifndef TF_NODE_STORE_CHECK_H
#define TF_NODE_STORE_CHECK_H

#include "node/store/db_care.h"
#include "node/store/files.h"

#define TF_CHECK_FINDINGS 256u

typedef enum tf_check_kind {
    TF_CHECK_DAMAGED, /* messages that are there and cannot be read */
    TF_CHECK_LOST,    /* messages that are not there */
    TF_CHECK_NUMBERS, /* head or times of a channel are not those of its messages */
    TF_CHECK_KEYS,    /* dedup keys: resends of these may be taken twice, or their sends be refused */
    TF_CHECK_INDEX,   /* SQLite's file */
    TF_CHECK_LOG,     /* LSNs of the commit log */
    TF_CHECK_NAME,    /* repair: a channel whose name was lost has got another */
    TF_CHECK_EPOCH    /* repair: a channel goes on under another epoch (S10) */
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
    const tf_mem *mem;
    uint64_t channels;
    uint64_t messages; /* that can be read */
    uint64_t applied_lsn;
    uint64_t log_records; /* that the index has not yet */
    uint64_t found;       /* findings, those that found no place here included */
    unsigned kinds;       /* of all of these: bits 1 << kind */
    size_t count;
    tf_check_finding findings[TF_CHECK_FINDINGS];
};

void tf_check_add(tf_check_report *report, const tf_check_finding *finding);
static inline bool tf_check_has(const tf_check_report *report, tf_check_kind kind)
{
    return (report->kinds & 1u << kind) != 0;
}

/* "damaged", "lost", ... */
const char *tf_check_kind_name(tf_check_kind kind);

/* All that the index holds. Errors: those that keep it from being looked at (TF_ERR_IO, TF_ERR_AGAIN, TF_ERR_NOMEM);
 * damage is in the report. */
TF_MUST_CHECK tf_err tf_check_db(tf_db *db, tf_check_report *report);
/* Enters the findings of db_care.h, with the names that channels have in db (NULL: by their numbers). */
void tf_check_take(tf_check_report *report, tf_db *db, const tf_db_report *found);
/* One of a kind without a range or a channel. */
void tf_check_add_text(tf_check_report *report, tf_check_kind kind, const char *text);

/* A whole store, whose lock it takes. TF_ERR_USAGE: there is none, a relay uses it, or a later version wrote it; others as
 * above. why says what was wrong. */
TF_MUST_CHECK tf_err tf_check_store(const char *directory, const tf_mem *mem, tf_check_report *report,
                                    char why[TF_WHY_MAX]);

/* The steps of that: the files of a directory that has a store; its lock; the check. Errors as above. */
TF_MUST_CHECK tf_err tf_check_open(const char *directory, const tf_mem *mem, tf_disk_files **out, char why[TF_WHY_MAX]);
TF_MUST_CHECK tf_err tf_check_lock(const char *directory, const tf_files *files, tf_file **out, char why[TF_WHY_MAX]);
TF_MUST_CHECK tf_err tf_check_parts(const char *directory, const tf_files *files, const tf_mem *mem,
                                    tf_check_report *report, char why[TF_WHY_MAX]);

#endif
