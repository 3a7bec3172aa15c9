/* A compact copy of the index as of one moment, while another process may be writing it (VACUUM INTO in one reading
 * transaction), and SQLite's own check of its structure. Not for: what the blocks hold (check.h). One thread per tf_db. */
#ifndef TF_NODE_STORE_DB_COPY_H
#define TF_NODE_STORE_DB_COPY_H

#include "node/store/db.h"

/* Writes it to `path`: a file that does not exist (then its mode is SQLite's) or is empty. Not synced. Errors as db.h has
 * them; the file is of no use then. */
TF_MUST_CHECK tf_err tf_db_copy(tf_db *db, const char *path);

/* TF_OK: the structure is sound. TF_ERR_DAMAGED: why says what was found first. */
TF_MUST_CHECK tf_err tf_db_check_structure(tf_db *db, char why[TF_WHY_MAX]);

#endif
