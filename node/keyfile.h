/* The file that holds a node's identity, and where a node keeps its things. The file is one line, the private text of
 * handshake/identity.h. Secrets are wiped from every buffer. Any thread. */
#ifndef TF_NODE_KEYFILE_H
#define TF_NODE_KEYFILE_H

#include "handshake/identity.h"
#include "node/endpoint.h"
#include "proto/types.h"

#define TF_PATH_MAX 4096u

/* Reads an identity. TF_ERR_IO: not there (errno is ENOENT) or not readable; TF_ERR_USAGE: no key in it, or others than the
 * owner (and, to read, the group) may use it; `why` says what is wrong and what to do about it. */
TF_MUST_CHECK tf_err tf_keyfile_load(tf_identity **out, const char *path, char why[TF_WHY_MAX]);

/* Writes a new file, mode 0600, whole or not at all; missing directories are made, mode 0700. Never replaces a file:
 * TF_ERR_USAGE when there is one. TF_ERR_IO. */
TF_MUST_CHECK tf_err tf_keyfile_create(const char *path, const tf_identity *identity, char why[TF_WHY_MAX]);

/* Loads it; where there is no file, makes an identity and the file first (*made says so). When two processes do this at
 * once, both end with the same identity. */
TF_MUST_CHECK tf_err tf_keyfile_load_or_create(tf_identity **out, const char *path, const tf_rand *rand, bool *made,
                                               char why[TF_WHY_MAX]);

/* $XDG_CONFIG_HOME/twofold/key, else ~/.config/twofold/key. TF_ERR_USAGE: neither variable is set (relative values do not
 * count), or too long. */
TF_MUST_CHECK tf_err tf_keyfile_default_path(char out[TF_PATH_MAX], char why[TF_WHY_MAX]);

/* $STATE_DIRECTORY (the first of its paths), else $XDG_STATE_HOME/twofold, else ~/.local/state/twofold. */
TF_MUST_CHECK tf_err tf_data_default_path(char out[TF_PATH_MAX], char why[TF_WHY_MAX]);

/* Makes a directory and the missing ones above it, mode 0700. TF_ERR_IO, TF_ERR_USAGE (something else is in the way). */
TF_MUST_CHECK tf_err tf_directory_make(const char *path, char why[TF_WHY_MAX]);

#endif
