/* Copies of a store that are consistent and whole: `twofold backup` and `twofold restore` (P1, S10).
 *
 * A backup is a directory with `store.db`, the index brought up to what the commit log holds beyond it, and `manifest`
 * (manifest.h), which is written last: a directory without one is no backup. It is made while a relay writes the store or
 * not, without its lock and without asking it; all that was acked before the call is in it. The identity of the node is
 * not.
 * Everything in it is durable when the call is over. Its modes are what the umask of the process leaves (0077 makes 0600). Not for: what the command prints. Blocks; any thread. */
#ifndef TF_NODE_STORE_BACKUP_H
#define TF_NODE_STORE_BACKUP_H

#include "node/store/check.h"
#include "node/store/manifest.h"
#include "node/why.h"

typedef struct tf_backup_config {
    const char *store;  /* directory of the store */
    const char *backup; /* directory of the backup */
    bool damaged_too;   /* what can be read is copied although there is damage */
    const tf_mem *mem;
    const tf_rand *rand; /* restore: the new epochs */
} tf_backup_config;

/* Makes the directory, or takes an empty one. `check` is what was found in the copy. TF_ERR_USAGE: it is not empty, there is
 * no store, or one of another version; TF_ERR_DAMAGED: the store is damaged (check->count > 0: this is where; else why
 * says it); TF_ERR_FULL, TF_ERR_IO, TF_ERR_NOMEM, TF_ERR_AGAIN (the store could not be read in peace). why says what was
 * wrong; nothing is left behind then. */
TF_MUST_CHECK tf_err tf_backup_write(const tf_backup_config *config, tf_manifest *out, tf_check_report *check,
                                     char why[TF_WHY_MAX]);

/* Makes a store of a backup, in a directory that does not exist or is empty (the one above it exists), with all channels
 * under new epochs. TF_ERR_USAGE: it is not empty, or a later version wrote the backup; TF_ERR_DAMAGED: the backup is not
 * as it was written, or was never finished; other errors as above. The directory comes into being as a whole, at the end:
 * nothing is left behind but, after a crash, one beside it ("NAME.new") that the next call takes. */
TF_MUST_CHECK tf_err tf_backup_restore(const tf_backup_config *config, tf_manifest *out, char why[TF_WHY_MAX]);

/* True: it is a directory without entries, or there is nothing of that name (*exists tells). */
bool tf_backup_is_empty(const char *path, bool *exists);

#endif
