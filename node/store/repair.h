/* Makes a damaged store usable again: `twofold store repair`. What can be read of the index is saved into a new one, the old
 * one is kept beside it under another name; what the commit log has beyond it is moved into it; channels that lost messages go
 * on under new epochs (S10). Of a sound store nothing is touched. Not for: what the command prints. Blocks; one thread. */
#ifndef TF_NODE_STORE_REPAIR_H
#define TF_NODE_STORE_REPAIR_H

#include "node/store/check.h"
#include "node/store/disk.h"

#define TF_REPAIR_PATH_MAX 4400u

typedef struct tf_repair_config {
    const char *directory; /* of the store */
    uint64_t segment_size; /* of the log; 0: the default */
    const tf_mem *mem;
    const tf_rand *rand;
} tf_repair_config;

typedef struct tf_repair_report {
    bool needed;            /* false: it was sound, or nothing but lost messages could be found; nothing was done */
    char aside[TF_REPAIR_PATH_MAX]; /* where the old index is kept; "": it was left as it was */
    tf_check_report before; /* what was found, and what saving it gave up or changed */
    tf_check_report after;  /* what is found now */
    uint64_t replayed;      /* changes of the log that the index had not */
    uint64_t new_epochs;    /* channels that got another epoch by what the log has lost */
} tf_repair_report;

/* TF_OK: it can be used, less what report->after says is lost. TF_ERR_USAGE: there is no store, a relay uses it, or a later
 * version wrote it; TF_ERR_DAMAGED: it is still damaged; TF_ERR_FULL, TF_ERR_IO, TF_ERR_NOMEM. why says what was wrong. */
TF_MUST_CHECK tf_err tf_repair_store(const tf_repair_config *config, tf_repair_report *report, char why[TF_WHY_MAX]);

#endif
