/* Looking after the index of the embedded store: is it whole, what can be saved of it, a copy of it. These take as long as
 * the database is large; all but _repair may run while another connection writes.
 * Errors as in db.h. */
#ifndef TF_NODE_STORE_DB_CARE_H
#define TF_NODE_STORE_DB_CARE_H

#include "node/store/db.h"

#define TF_DB_FINDINGS_MAX 10000u /* are kept; more are counted */

typedef enum tf_db_finding_kind {
    TF_DB_BAD_STRUCTURE, /* what SQLite finds; of no channel */
    TF_DB_BAD_MESSAGES,  /* `first` to `last` of the channel cannot be read */
    TF_DB_LOST_MESSAGES, /* they are not there, and should be */
    TF_DB_BAD_NUMBERS,   /* the channel's head or times are not those of its messages */
    TF_DB_BAD_KEYS,      /* keys of `first` to `last` are missing or wrong; channel 0: a part of the keys cannot be read */
    TF_DB_NEW_NAME,      /* repair: the channel's name was lost; it is called lost-found/NUMBER */
    TF_DB_NEW_EPOCH      /* repair: the channel goes on under another epoch, since it lost messages (S10) */
} tf_db_finding_kind;

typedef struct tf_db_finding {
    tf_db_finding_kind kind;
    uint64_t channel;
    uint64_t first;
    uint64_t last;
    char text[160]; /* for people */
} tf_db_finding;

typedef struct tf_db_report {
    const tf_mem *mem;
    tf_db_finding *findings;
    size_t count;
    size_t capacity;
    uint64_t left_out; /* findings beyond TF_DB_FINDINGS_MAX */
    uint64_t channels; /* that were looked at, or saved */
    uint64_t messages; /* likewise, readable ones */
    uint64_t keys;
} tf_db_report;

void tf_db_report_init(tf_db_report *report, const tf_mem *mem);
void tf_db_report_clear(tf_db_report *report); /* frees */
TF_MUST_CHECK tf_err tf_db_report_add(tf_db_report *report, const tf_db_finding *finding); /* TF_ERR_NOMEM */
/* A range of a channel, "channel N, first to last: text"; and what belongs to none. */
TF_MUST_CHECK tf_err tf_db_report_range(tf_db_report *report, tf_db_finding_kind kind, const tf_store_damage *range,
                                        const char *text);
TF_MUST_CHECK tf_err tf_db_report_text(tf_db_report *report, tf_db_finding_kind kind, const char *text);

/* Reads everything, as of one moment: the structure, every block and part with its checksum, whether seqs are dense and
 * times do not go back, whether each kept message has its key. TF_OK: the report is complete; without findings all is well. */
TF_MUST_CHECK tf_err tf_db_check(tf_db *db, tf_db_report *report);

/* A consistent copy of the database as of one moment, durable when TF_OK is returned. TF_ERR_USAGE: `path` exists already.
 * After an error there is nothing at `path`. why (may be NULL) says more. */
TF_MUST_CHECK tf_err tf_db_backup(tf_db *db, const char *path, char why[TF_WHY_MAX]);

/* Saves what can be read into a new database in the place of the old one, which is kept as `path`.damaged-N (its name is
 * put into aside). Keys of messages that were lost are saved, too: a resend of such a message is still acked as what it
 * is. What was lost is reported as BAD_MESSAGES and LOST_MESSAGES.
 * Nobody else may have the database open; config->vfs is NULL and path a real file, asserted. TF_ERR_DAMAGED: nothing can
 * be read of it at all. After an error the old one is as it was (the new one, if there is something of it, is
 * `path`.repair). */
#define TF_DB_ASIDE_MAX 512u
TF_MUST_CHECK tf_err tf_db_repair(const tf_db_config *config, tf_db_report *report, char aside[TF_DB_ASIDE_MAX],
                                  char why[TF_WHY_MAX]);

#endif
