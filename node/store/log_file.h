/* One segment file of the commit log: its name, and what is done to it as a whole. Not for: appending groups
 * (commit_log.h), which files there are (log_room.h, log_reader.h). All calls go to the disk and are slow; errors as
 * files.h has them, with errno. Any thread, one at a time per file. */
#ifndef TF_NODE_STORE_LOG_FILE_H
#define TF_NODE_STORE_LOG_FILE_H

#include "node/store/files.h"
#include "node/store/log_segment.h"

#define TF_LOG_FOLDER "log"

/* What all files of a log have in common. */
typedef struct tf_log_files {
    tf_files files;
    const tf_mem *mem;
    uint64_t key;
} tf_log_files;

/* Below the directory of `files`. */
void tf_log_file_name(uint64_t number, tf_file_name *out);
TF_MUST_CHECK tf_err tf_log_file_open(const tf_log_files *log, uint64_t number, tf_file_how how, tf_file **out);

/* The first `size` bytes of a file; what cannot be read is zeros. True: all of it could. */
bool tf_log_file_read(const tf_files *files, tf_file *file, uint8_t *out, size_t size);

/* Makes a segment of zeros; it and its name are durable after TF_OK. On an error it was removed, if that could be done. */
TF_MUST_CHECK tf_err tf_log_file_make(const tf_log_files *log, uint64_t number, uint64_t size);

/* Gives a segment another number, so that nothing in it is believed any more; durable after TF_OK. On an error *number is
 * what its file is called now, and *touched tells whether anything was written. */
TF_MUST_CHECK tf_err tf_log_file_renumber(const tf_log_files *log, uint64_t *number, uint64_t to, uint64_t size,
                                          bool *touched);

/* Overwrites the headers of all groups that end at the LSN `from` or above it, so that these LSNs can be given again;
 * durable after TF_OK. */
TF_MUST_CHECK tf_err tf_log_file_void(const tf_log_files *log, uint64_t number, uint64_t from);

/* Reads from the disk, not from its cache, and gives the range of those LSNs of `wanted` that are not there: {0, 0}: all
 * of them are. */
tf_log_range tf_log_file_missing(const tf_log_files *log, uint64_t number, tf_log_range wanted);

#endif
