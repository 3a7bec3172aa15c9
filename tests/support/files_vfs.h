/* SQLite on any disk of node/store/files.h, such as one that loses what was not synced (lossy_files.h): a VFS. So the
 * database and the commit log can lie on one disk, and lose their power at one moment.
 *
 *     tf_lossy_files *lossy = tf_lossy_files_new(SIZE_MAX);
 *     tf_files_vfs *vfs = tf_files_vfs_new("lossy", tf_lossy_files_get(lossy));
 *     tf_db_config config = {.path = "index.db", .vfs = "lossy", ...};       -- names are those of the disk
 *     ...
 *     tf_lossy_files_stop_at(lossy, n);
 *     ... work, until an error; free every tf_db (which can write nothing any more) ...
 *     tf_lossy_files_crash(lossy, seed);
 *     ... open again ...
 *     tf_files_vfs_free(vfs); tf_lossy_files_free(lossy);
 *
 * Locks and the index of the write-ahead log are in memory, shared by the connections of this process. As SQLite's own
 * VFS does, it syncs the folder when a new journal or write-ahead log is synced for the first time. Any thread; out of
 * memory ends the program. */
#ifndef TF_TESTS_SUPPORT_FILES_VFS_H
#define TF_TESTS_SUPPORT_FILES_VFS_H

#include "node/store/files.h"

typedef struct tf_files_vfs tf_files_vfs;

/* `name` must live as long as the VFS, and be that of no other. */
tf_files_vfs *tf_files_vfs_new(const char *name, tf_files files);
/* When every connection was closed; asserted. */
void tf_files_vfs_free(tf_files_vfs *vfs);

#endif
