/* The disk as the store sees it: one table of functions with a context, so that tests can put another disk below it
 * (tests/support/lossy_files.h). Implementation on real files: tf_disk_files below.
 *
 * Names are relative to one directory, of TF_FILE_NAME_MAX bytes at most, without "." and ".." parts; at most one
 * folder deep ("log/0000000000000001.log"); folders have no "/" at the end, and "" is the directory itself.
 *
 * Errors: TF_ERR_FULL (no room, or a quota), TF_ERR_CLOSED (there is no such file), TF_ERR_USAGE (it is there and should
 * not be, or another process holds the lock), TF_ERR_NOMEM, TF_ERR_IO (all else). With each of them errno says why
 * (strerror), until the thread's next call.
 * What is durable: bytes after `sync` of their file; that a name exists, is gone or is another after `sync_dir` of its
 * folder. After a sync that failed nothing is known of the bytes that it was for, whatever a later sync or read says.
 *
 * Any thread; calls on one tf_file by several threads at once are fine for read_at, write_at and sync. */
#ifndef TF_NODE_STORE_FILES_H
#define TF_NODE_STORE_FILES_H

#include "proto/types.h"

#define TF_FILE_NAME_MAX 127u

/* An open file. Belongs to the table that opened it. */
typedef struct tf_file tf_file;

typedef struct tf_file_name {
    char text[TF_FILE_NAME_MAX + 1];
} tf_file_name;

typedef enum tf_file_how {
    TF_FILE_READ,   /* must exist; for reading only */
    TF_FILE_WRITE,  /* must exist */
    TF_FILE_CREATE, /* must not exist: TF_ERR_USAGE */
    TF_FILE_ANY     /* is made if it does not exist */
} tf_file_how;

typedef struct tf_files_table {
    tf_err (*open)(void *ctx, const char *name, tf_file_how how, tf_file **out);
    void (*close)(void *ctx, tf_file *file);
    /* *got < len only at the end of the file. */
    tf_err (*read_at)(void *ctx, tf_file *file, uint64_t offset, void *out, size_t len, size_t *got);
    /* The parts one after the other, at most TF_FILE_PARTS_MAX, in one write as far as the system does it. On an error any
     * part of them may have been written. */
    tf_err (*write_at)(void *ctx, tf_file *file, uint64_t offset, const tf_slice *parts, size_t count);
    tf_err (*sync)(void *ctx, tf_file *file); /* the bytes and the size */
    tf_err (*size)(void *ctx, tf_file *file, uint64_t *out);
    tf_err (*set_size)(void *ctx, tf_file *file, uint64_t size);
    /* Makes an empty file `size` bytes of zeros that have their blocks and were really written: a commit into them needs
     * no change of the file's metadata. Slow. On an error the file has some size. */
    tf_err (*allocate)(void *ctx, tf_file *file, uint64_t size);
    /* The next reads come from the disk and not from a cache, as far as the system can do that. Not for unsynced bytes. */
    void (*uncache)(void *ctx, tf_file *file);
    tf_err (*remove)(void *ctx, const char *name);
    tf_err (*rename)(void *ctx, const char *from, const char *to); /* replaces `to` */
    tf_err (*make_dir)(void *ctx, const char *folder);             /* one that is there is fine */
    /* The plain files of a folder, in no order: up to `cap` names; *count: how many there are. Longer names than
     * TF_FILE_NAME_MAX are not ours and left out. */
    tf_err (*list)(void *ctx, const char *folder, tf_file_name *out, size_t cap, size_t *count);
    tf_err (*sync_dir)(void *ctx, const char *folder);
    /* What an unprivileged process may still write. */
    tf_err (*free_bytes)(void *ctx, uint64_t *out);
    /* Makes the file if need be, and holds its lock until it is closed (also by the end of the process). TF_ERR_USAGE:
     * another holds it. */
    tf_err (*lock)(void *ctx, const char *name, tf_file **out);
} tf_files_table;

#define TF_FILE_PARTS_MAX 8u

typedef struct tf_files {
    const tf_files_table *table;
    void *ctx;
} tf_files;

/* Shorter ways to write the calls. */
static inline tf_err tf_files_open(const tf_files *f, const char *name, tf_file_how how, tf_file **out)
{
    return f->table->open(f->ctx, name, how, out);
}

/* NULL is fine. errno stays what it was. */
static inline void tf_files_close(const tf_files *f, tf_file *file)
{
    if (file != NULL) {
        f->table->close(f->ctx, file);
    }
}

static inline tf_err tf_files_read(const tf_files *f, tf_file *file, uint64_t offset, void *out, size_t len, size_t *got)
{
    return f->table->read_at(f->ctx, file, offset, out, len, got);
}

static inline tf_err tf_files_write(const tf_files *f, tf_file *file, uint64_t offset, tf_slice bytes)
{
    return f->table->write_at(f->ctx, file, offset, &bytes, 1);
}

static inline tf_err tf_files_sync(const tf_files *f, tf_file *file)
{
    return f->table->sync(f->ctx, file);
}

/* The errors of files from an errno. */
tf_err tf_files_err(int error);

/* Real files below one directory. `path` must exist and be a directory (TF_ERR_CLOSED, TF_ERR_IO); files are made with
 * mode 0600, folders with 0700. mem is used by any thread. */
typedef struct tf_disk_files tf_disk_files;

TF_MUST_CHECK tf_err tf_disk_files_new(tf_disk_files **out, const char *path, const tf_mem *mem);
/* After all its files were closed. NULL is fine. */
void tf_disk_files_free(tf_disk_files *disk);
tf_files tf_disk_files_get(tf_disk_files *disk);

#endif
