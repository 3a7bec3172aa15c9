/* The manifest of a backup: a text of lines "key value" that says what the backup holds and by which sums it is known.
 *
 *     twofold-backup 1                      version of this format
 *     twofold 0.3.0                         the program that wrote it
 *     created 2026-11-30T03:14:15Z
 *     applied-lsn 4711                      changes of the store up to this one are in it
 *     channels 2
 *     messages 1000
 *     file store.db 1064960 SHA256          name, bytes, sum in hexadecimal
 *     sum SHA256                            of all above
 *
 * Not for: what the file holds. One thread per value. */
#ifndef TF_NODE_STORE_MANIFEST_H
#define TF_NODE_STORE_MANIFEST_H

#include "node/store/files.h"
#include "node/why.h"

#define TF_MANIFEST_NAME "manifest"
#define TF_MANIFEST_DB "store.db" /* the one file */
#define TF_MANIFEST_VERSION 1u
#define TF_MANIFEST_MAX 4096u /* bytes */
#define TF_SUM_TEXT 65u       /* with its NUL */

typedef struct tf_manifest {
    char twofold[32];
    char created[32];
    uint64_t applied_lsn;
    uint64_t channels;
    uint64_t messages;
    uint64_t size; /* of the file */
    char sum[TF_SUM_TEXT];
} tf_manifest;

/* Its bytes into out; their number. */
size_t tf_manifest_format(const tf_manifest *manifest, char out[TF_MANIFEST_MAX]);
/* TF_ERR_USAGE: a later version wrote it (why names both); TF_ERR_DAMAGED: it is no manifest, or not as it was written. */
TF_MUST_CHECK tf_err tf_manifest_parse(tf_manifest *out, tf_slice text, char why[TF_WHY_MAX]);

/* Size and SHA-256 of a file; `to` (may be NULL) gets a copy of its bytes. Errors of files, TF_ERR_NOMEM, TF_ERR_CRYPTO. */
TF_MUST_CHECK tf_err tf_manifest_sum(const tf_files *files, const char *name, const tf_files *to_files, tf_file *to,
                                     tf_manifest *out);

#endif
