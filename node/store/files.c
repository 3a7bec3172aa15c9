#include "node/store/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#define ZEROS (64u << 10) /* written at a time */

struct tf_file {
    int fd;
};

struct tf_disk_files {
    const tf_mem *mem;
    int dir;
};

tf_err tf_files_err(int error)
{
    switch (error) {
    case 0:
        return TF_OK;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return TF_ERR_FULL;
    case ENOENT:
    case ENOTDIR:
        return TF_ERR_CLOSED;
    case EEXIST:
    case EWOULDBLOCK:
        return TF_ERR_USAGE;
    case ENOMEM:
        return TF_ERR_NOMEM;
    default:
        return TF_ERR_IO;
    }
}

static tf_err failed(void)
{
    tf_err err = tf_files_err(errno);
    return err == TF_OK ? TF_ERR_IO : err; /* a call that failed has an errno */
}

/* Of what gives -1 on an error. */
static tf_err outcome(int result)
{
    return result < 0 ? failed() : TF_OK;
}

static void close_fd(int fd)
{
    int error = errno;
    (void)close(fd);
    errno = error;
}

/* -- files --------------------------------------------------------------------------------------------------------- */

static int flags_of(tf_file_how how)
{
    switch (how) {
    case TF_FILE_READ:
        return O_RDONLY;
    case TF_FILE_WRITE:
        return O_RDWR;
    case TF_FILE_CREATE:
        return O_RDWR | O_CREAT | O_EXCL;
    case TF_FILE_ANY:
        return O_RDWR | O_CREAT;
    }
    TF_UNREACHABLE();
}

static tf_err disk_open(void *ctx, const char *name, tf_file_how how, tf_file **out)
{
    const tf_disk_files *disk = ctx;
    tf_file *file = tf_alloc(disk->mem, sizeof(*file));
    if (file == NULL) {
        errno = ENOMEM;
        return TF_ERR_NOMEM;
    }
    file->fd = openat(disk->dir, name, flags_of(how) | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->fd < 0) {
        tf_err err = failed();
        tf_free(disk->mem, file, sizeof(*file));
        return err;
    }
    *out = file;
    return TF_OK;
}

static void disk_close(void *ctx, tf_file *file)
{
    const tf_disk_files *disk = ctx;
    close_fd(file->fd);
    tf_free(disk->mem, file, sizeof(*file));
}

static tf_err disk_read_at(void *ctx, tf_file *file, uint64_t offset, void *out, size_t len, size_t *got)
{
    (void)ctx;
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(file->fd, (uint8_t *)out + done, len - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return failed();
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *got = done;
    return TF_OK;
}

/* Takes what was written from the front of the parts; returns the index of the first that has bytes left. */
static size_t advance(struct iovec *parts, size_t first, size_t count, size_t written)
{
    while (first < count && written >= parts[first].iov_len) {
        written -= parts[first++].iov_len;
    }
    if (first < count) {
        parts[first].iov_base = (uint8_t *)parts[first].iov_base + written;
        parts[first].iov_len -= written;
    }
    return first;
}

static tf_err disk_write_at(void *ctx, tf_file *file, uint64_t offset, const tf_slice *parts, size_t count)
{
    (void)ctx;
    struct iovec left[TF_FILE_PARTS_MAX];
    TF_ASSERT(count <= TF_FILE_PARTS_MAX);
    for (size_t i = 0; i < count; i++) {
        left[i] = (struct iovec){.iov_base = (void *)(uintptr_t)parts[i].data, .iov_len = parts[i].len};
    }
    size_t first = advance(left, 0, count, 0);
    while (first < count) {
        ssize_t n = pwritev(file->fd, left + first, (int)(count - first), (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? EIO : errno;
            return failed();
        }
        offset += (uint64_t)n;
        first = advance(left, first, count, (size_t)n);
    }
    return TF_OK;
}

static tf_err disk_sync(void *ctx, tf_file *file)
{
    (void)ctx;
    return outcome(fdatasync(file->fd));
}

static tf_err disk_size(void *ctx, tf_file *file, uint64_t *out)
{
    (void)ctx;
    struct stat st;
    if (fstat(file->fd, &st) < 0) {
        return failed();
    }
    *out = (uint64_t)st.st_size;
    return TF_OK;
}

static tf_err disk_set_size(void *ctx, tf_file *file, uint64_t size)
{
    (void)ctx;
    return outcome(ftruncate(file->fd, (off_t)size));
}

/* The blocks first: that tells of a full disk before anything was written. A filesystem that cannot do that is told by
 * the zeros. */
static tf_err disk_allocate(void *ctx, tf_file *file, uint64_t size)
{
    static const uint8_t zeros[ZEROS];
    int error = posix_fallocate(file->fd, 0, (off_t)size);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
        errno = error;
        return failed();
    }
    for (uint64_t at = 0; at < size;) {
        const tf_slice part = tf_slice_of(zeros, size - at < ZEROS ? (size_t)(size - at) : ZEROS);
        tf_err err = disk_write_at(ctx, file, at, &part, 1);
        if (err != TF_OK) {
            return err;
        }
        at += part.len;
    }
    return TF_OK;
}

static void disk_uncache(void *ctx, tf_file *file)
{
    (void)ctx;
    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* -- names --------------------------------------------------------------------------------------------------------- */

static tf_err disk_remove(void *ctx, const char *name)
{
    const tf_disk_files *disk = ctx;
    return outcome(unlinkat(disk->dir, name, 0));
}

static tf_err disk_rename(void *ctx, const char *from, const char *to)
{
    const tf_disk_files *disk = ctx;
    return outcome(renameat(disk->dir, from, disk->dir, to));
}

static tf_err disk_make_dir(void *ctx, const char *folder)
{
    const tf_disk_files *disk = ctx;
    struct stat st;
    if (mkdirat(disk->dir, folder, 0700) == 0) {
        return TF_OK;
    }
    if (fstatat(disk->dir, folder, &st, 0) == 0 && S_ISDIR(st.st_mode)) {
        return TF_OK; /* also on a disk that cannot be written */
    }
    return failed();
}

static int open_folder(const tf_disk_files *disk, const char *folder)
{
    return openat(disk->dir, folder[0] == '\0' ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_plain_file(int dir, const struct dirent *entry)
{
    struct stat st;
    if (entry->d_type != DT_UNKNOWN) {
        return entry->d_type == DT_REG;
    }
    return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static tf_err list_entries(DIR *dir, tf_file_name *out, size_t cap, size_t *count)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            return errno == 0 ? TF_OK : failed();
        }
        size_t len = strlen(entry->d_name);
        if (len > TF_FILE_NAME_MAX || !is_plain_file(dirfd(dir), entry)) {
            continue;
        }
        if (*count < cap) {
            memcpy(out[*count].text, entry->d_name, len + 1);
        }
        ++*count;
    }
}

static tf_err disk_list(void *ctx, const char *folder, tf_file_name *out, size_t cap, size_t *count)
{
    int fd = open_folder(ctx, folder);
    if (fd < 0) {
        return failed();
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close_fd(fd);
        return failed();
    }
    *count = 0;
    tf_err err = list_entries(dir, out, cap, count);
    int error = errno;
    (void)closedir(dir);
    errno = error;
    return err;
}

static tf_err disk_sync_dir(void *ctx, const char *folder)
{
    int fd = open_folder(ctx, folder);
    if (fd < 0) {
        return failed();
    }
    tf_err err = outcome(fsync(fd));
    close_fd(fd);
    return err;
}

static tf_err disk_free_bytes(void *ctx, uint64_t *out)
{
    const tf_disk_files *disk = ctx;
    struct statvfs st;
    if (fstatvfs(disk->dir, &st) < 0) {
        return failed();
    }
    *out = (uint64_t)st.f_bavail * st.f_frsize;
    return TF_OK;
}

static tf_err disk_lock(void *ctx, const char *name, tf_file **out)
{
    tf_file *file = NULL;
    tf_err err = disk_open(ctx, name, TF_FILE_ANY, &file);
    if (err != TF_OK) {
        return err;
    }
    err = outcome(flock(file->fd, LOCK_EX | LOCK_NB));
    if (err != TF_OK) {
        disk_close(ctx, file);
        return err;
    }
    *out = file;
    return TF_OK;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

tf_err tf_disk_files_new(tf_disk_files **out, const char *path, const tf_mem *mem)
{
    tf_disk_files *disk = tf_alloc(mem, sizeof(*disk));
    if (disk == NULL) {
        errno = ENOMEM;
        return TF_ERR_NOMEM;
    }
    *disk = (tf_disk_files){.mem = mem, .dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (disk->dir < 0) {
        tf_err err = failed();
        tf_free(mem, disk, sizeof(*disk));
        return err;
    }
    *out = disk;
    return TF_OK;
}

void tf_disk_files_free(tf_disk_files *disk)
{
    if (disk == NULL) {
        return;
    }
    close_fd(disk->dir);
    tf_free(disk->mem, disk, sizeof(*disk));
}

tf_files tf_disk_files_get(tf_disk_files *disk)
{
    static const tf_files_table table = {
        .open = disk_open,
        .close = disk_close,
        .read_at = disk_read_at,
        .write_at = disk_write_at,
        .sync = disk_sync,
        .size = disk_size,
        .set_size = disk_set_size,
        .allocate = disk_allocate,
        .uncache = disk_uncache,
        .remove = disk_remove,
        .rename = disk_rename,
        .make_dir = disk_make_dir,
        .list = disk_list,
        .sync_dir = disk_sync_dir,
        .free_bytes = disk_free_bytes,
        .lock = disk_lock,
    };
    return (tf_files){&table, disk};
}
