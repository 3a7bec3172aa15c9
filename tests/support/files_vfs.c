#include "tests/support/files_vfs.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/files_vfs_internal.h"

static _Thread_local int last_error;

static tf_vfs_file *file_of(sqlite3_file *base)
{
    return (tf_vfs_file *)(void *)base;
}

static tf_files_vfs *vfs_of(sqlite3_vfs *base)
{
    return (tf_files_vfs *)(void *)base;
}

/* `code` is what SQLite calls an error of that operation. */
static int result(tf_err err, int code)
{
    if (err == TF_OK) {
        return SQLITE_OK;
    }
    last_error = errno;
    return err == TF_ERR_FULL ? SQLITE_FULL : err == TF_ERR_NOMEM ? SQLITE_NOMEM : code;
}

/* -- a file -------------------------------------------------------------------------------------------------------- */

static int file_close(sqlite3_file *base)
{
    tf_vfs_file *f = file_of(base);
    (void)tf_vfs_unlock(base, SQLITE_LOCK_NONE);
    if (f->node != NULL) {
        tf_vfs_node_close(f->vfs, f->node);
    }
    tf_files_close(&f->vfs->files, f->file);
    f->file = NULL;
    return SQLITE_OK;
}

static int file_read(sqlite3_file *base, void *out, int len, sqlite3_int64 offset)
{
    tf_vfs_file *f = file_of(base);
    size_t got = 0;
    tf_err err = tf_files_read(&f->vfs->files, f->file, (uint64_t)offset, out, (size_t)len, &got);
    if (err != TF_OK) {
        return result(err, SQLITE_IOERR_READ);
    }
    memset((uint8_t *)out + got, 0, (size_t)len - got);
    return got < (size_t)len ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

static int file_write(sqlite3_file *base, const void *bytes, int len, sqlite3_int64 offset)
{
    tf_vfs_file *f = file_of(base);
    tf_slice slice = tf_slice_of(bytes, (size_t)len);
    return result(tf_files_write(&f->vfs->files, f->file, (uint64_t)offset, slice), SQLITE_IOERR_WRITE);
}

static int file_truncate(sqlite3_file *base, sqlite3_int64 size)
{
    tf_vfs_file *f = file_of(base);
    const tf_files *files = &f->vfs->files;
    return result(files->table->set_size(files->ctx, f->file, (uint64_t)size), SQLITE_IOERR_TRUNCATE);
}

static int file_sync(sqlite3_file *base, int flags)
{
    (void)flags;
    tf_vfs_file *f = file_of(base);
    const tf_files *files = &f->vfs->files;
    tf_err err = tf_files_sync(files, f->file);
    if (err == TF_OK && f->sync_folder) {
        err = files->table->sync_dir(files->ctx, "");
        f->sync_folder = err != TF_OK;
    }
    return result(err, SQLITE_IOERR_FSYNC);
}

static int file_size(sqlite3_file *base, sqlite3_int64 *out)
{
    tf_vfs_file *f = file_of(base);
    uint64_t size = 0;
    const tf_files *files = &f->vfs->files;
    tf_err err = files->table->size(files->ctx, f->file, &size);
    *out = (sqlite3_int64)size;
    return result(err, SQLITE_IOERR_FSTAT);
}

static int file_control(sqlite3_file *base, int what, void *argument)
{
    (void)base, (void)what, (void)argument;
    return SQLITE_NOTFOUND;
}

static int file_sector_size(sqlite3_file *base)
{
    (void)base;
    return 4096;
}

static int file_characteristics(sqlite3_file *base)
{
    (void)base;
    return SQLITE_IOCAP_POWERSAFE_OVERWRITE; /* a torn write spoils no byte beside it */
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = tf_vfs_lock,
    .xUnlock = tf_vfs_unlock,
    .xCheckReservedLock = tf_vfs_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = tf_vfs_shm_map,
    .xShmLock = tf_vfs_shm_lock,
    .xShmBarrier = tf_vfs_shm_barrier,
    .xShmUnmap = tf_vfs_shm_unmap,
};

/* -- the disk ------------------------------------------------------------------------------------------------------ */

static int vfs_open(sqlite3_vfs *base, const char *name, sqlite3_file *out, int flags, int *out_flags)
{
    tf_files_vfs *vfs = vfs_of(base);
    tf_vfs_file *f = file_of(out);
    *f = (tf_vfs_file){.vfs = vfs};
    TF_ASSERT(name != NULL); /* temporary files are kept in memory */
    tf_file_how how = (flags & SQLITE_OPEN_CREATE) != 0     ? TF_FILE_ANY
                      : (flags & SQLITE_OPEN_READWRITE) != 0 ? TF_FILE_WRITE
                                                             : TF_FILE_READ;
    int code = result(tf_files_open(&vfs->files, name, how, &f->file), SQLITE_CANTOPEN);
    if (code != SQLITE_OK) {
        return code;
    }
    f->base.pMethods = &methods;
    f->node = (flags & SQLITE_OPEN_MAIN_DB) != 0 ? tf_vfs_node_open(vfs, name) : NULL;
    f->sync_folder = (flags & SQLITE_OPEN_CREATE) != 0 && (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
    if (out_flags != NULL) {
        *out_flags = flags;
    }
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *base, const char *name, int sync_folder)
{
    tf_files_vfs *vfs = vfs_of(base);
    const tf_files *files = &vfs->files;
    tf_err err = files->table->remove(files->ctx, name);
    if (err == TF_ERR_CLOSED) {
        return SQLITE_IOERR_DELETE_NOENT;
    }
    if (err == TF_OK && sync_folder != 0) {
        err = files->table->sync_dir(files->ctx, "");
    }
    return result(err, SQLITE_IOERR_DELETE);
}

static int vfs_access(sqlite3_vfs *base, const char *name, int flags, int *out)
{
    (void)flags;
    tf_files_vfs *vfs = vfs_of(base);
    tf_file *file = NULL;
    tf_err err = tf_files_open(&vfs->files, name, TF_FILE_READ, &file);
    tf_files_close(&vfs->files, file);
    *out = err == TF_OK ? 1 : 0;
    return err == TF_ERR_CLOSED ? SQLITE_OK : result(err, SQLITE_IOERR_ACCESS);
}

static int vfs_full_path(sqlite3_vfs *base, const char *name, int cap, char *out)
{
    (void)base;
    if (strlen(name) >= (size_t)cap) {
        return SQLITE_CANTOPEN;
    }
    memcpy(out, name, strlen(name) + 1);
    return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *base, int len, char *out)
{
    (void)base;
    memset(out, 42, (size_t)len); /* a test is the same each time */
    return len;
}

static int vfs_sleep(sqlite3_vfs *base, int microseconds)
{
    (void)base;
    const struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000L};
    (void)nanosleep(&time, NULL);
    return microseconds;
}

static int vfs_time(sqlite3_vfs *base, sqlite3_int64 *out)
{
    (void)base;
    *out = 0; /* nothing that we ask of SQLite has a time in it */
    return SQLITE_OK;
}

static int vfs_last_error(sqlite3_vfs *base, int cap, char *out)
{
    (void)base, (void)cap, (void)out;
    return last_error;
}

tf_files_vfs *tf_files_vfs_new(const char *name, tf_files files)
{
    tf_files_vfs *vfs = calloc(1, sizeof(*vfs));
    TF_ASSERT(vfs != NULL && pthread_mutex_init(&vfs->mutex, NULL) == 0);
    vfs->files = files;
    vfs->base = (sqlite3_vfs){.iVersion = 2,
                              .szOsFile = sizeof(tf_vfs_file),
                              .mxPathname = TF_FILE_NAME_MAX,
                              .zName = name,
                              .xOpen = vfs_open,
                              .xDelete = vfs_delete,
                              .xAccess = vfs_access,
                              .xFullPathname = vfs_full_path,
                              .xRandomness = vfs_randomness,
                              .xSleep = vfs_sleep,
                              .xGetLastError = vfs_last_error,
                              .xCurrentTimeInt64 = vfs_time};
    TF_ASSERT(sqlite3_vfs_register(&vfs->base, 0) == SQLITE_OK);
    return vfs;
}

void tf_files_vfs_free(tf_files_vfs *vfs)
{
    if (vfs == NULL) {
        return;
    }
    TF_ASSERT(vfs->nodes == NULL && sqlite3_vfs_unregister(&vfs->base) == SQLITE_OK);
    TF_ASSERT(pthread_mutex_destroy(&vfs->mutex) == 0);
    free(vfs);
}
