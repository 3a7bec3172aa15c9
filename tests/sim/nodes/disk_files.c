/* What the store has for a disk: the lossy one, behind operations that take time and fail. Their odds are 0 in good weather,
 * in which nothing is drawn for them. */
#include "tests/sim/nodes/disk_internal.h"
#include "tests/sim/nodes/threads.h"

#define WRITE_SPAN 20u /* microseconds, of a write that is waited for at all */

typedef enum operation {
    OPERATION_READ,
    OPERATION_WRITE,
    OPERATION_SYNC
} operation;

static void pass_time(disk_files *f, operation what)
{
    disk *d = f->disk;
    if (f->hurries || threads_is_main()) {
        return;
    }
    switch (what) {
    case OPERATION_READ:
        return;
    case OPERATION_WRITE:
        if (tf_test_random_chance(&d->random, 1, 8)) {
            threads_sleep(d, tf_test_random_below(&d->random, WRITE_SPAN));
        }
        return;
    case OPERATION_SYNC:
        threads_sleep(d, d->weather.least + tf_test_random_below(&d->random, d->weather.spread + 1));
        return;
    }
    TF_UNREACHABLE();
}

static bool draws_fault(disk *d, operation what)
{
    if (what == OPERATION_READ) {
        return d->is_open && d->weather.unreadable > 0 && tf_test_random_chance(&d->random, d->weather.unreadable, 1000);
    }
    return d->weather.failing || (d->weather.errors > 0 && tf_test_random_chance(&d->random, d->weather.errors, 1000));
}

/* Before each operation; no other thread comes between it and the operation. */
static void begin(disk_files *f, operation what)
{
    disk *d = f->disk;
    pass_time(f, what);
    disk_mix(d, threads_now() << 2 | (uint64_t)what);
    threads_hold(true);
    if (draws_fault(d, what) && !tf_lossy_files_is_off(f->lossy)) {
        tf_lossy_files_fail_at(f->lossy, 0, TF_LOSSY_ERROR, false);
    }
}

static tf_err end(tf_err err)
{
    threads_hold(false);
    return err;
}

static tf_err files_open(void *ctx, const char *name, tf_file_how how, tf_file **out)
{
    disk_files *f = ctx;
    begin(f, how == TF_FILE_CREATE ? OPERATION_WRITE : OPERATION_READ);
    return end(f->inner.table->open(f->inner.ctx, name, how, out));
}

static void files_close(void *ctx, tf_file *file)
{
    const disk_files *f = ctx;
    f->inner.table->close(f->inner.ctx, file);
}

static tf_err files_read_at(void *ctx, tf_file *file, uint64_t offset, void *out, size_t len, size_t *got)
{
    disk_files *f = ctx;
    begin(f, OPERATION_READ);
    return end(f->inner.table->read_at(f->inner.ctx, file, offset, out, len, got));
}

static tf_err files_write_at(void *ctx, tf_file *file, uint64_t offset, const tf_slice *parts, size_t count)
{
    disk_files *f = ctx;
    begin(f, OPERATION_WRITE);
    return end(f->inner.table->write_at(f->inner.ctx, file, offset, parts, count));
}

static tf_err files_sync(void *ctx, tf_file *file)
{
    disk_files *f = ctx;
    begin(f, OPERATION_SYNC);
    return end(f->inner.table->sync(f->inner.ctx, file));
}

static tf_err files_size(void *ctx, tf_file *file, uint64_t *out)
{
    const disk_files *f = ctx;
    return f->inner.table->size(f->inner.ctx, file, out);
}

static tf_err files_set_size(void *ctx, tf_file *file, uint64_t size)
{
    disk_files *f = ctx;
    begin(f, OPERATION_WRITE);
    return end(f->inner.table->set_size(f->inner.ctx, file, size));
}

static tf_err files_allocate(void *ctx, tf_file *file, uint64_t size)
{
    disk_files *f = ctx;
    begin(f, OPERATION_SYNC); /* as long as one */
    return end(f->inner.table->allocate(f->inner.ctx, file, size));
}

static void files_uncache(void *ctx, tf_file *file)
{
    const disk_files *f = ctx;
    f->inner.table->uncache(f->inner.ctx, file);
}

static tf_err files_remove(void *ctx, const char *name)
{
    disk_files *f = ctx;
    begin(f, OPERATION_WRITE);
    return end(f->inner.table->remove(f->inner.ctx, name));
}

static tf_err files_rename(void *ctx, const char *from, const char *to)
{
    disk_files *f = ctx;
    begin(f, OPERATION_WRITE);
    return end(f->inner.table->rename(f->inner.ctx, from, to));
}

static tf_err files_make_dir(void *ctx, const char *folder)
{
    const disk_files *f = ctx;
    return f->inner.table->make_dir(f->inner.ctx, folder);
}

static tf_err files_list(void *ctx, const char *folder, tf_file_name *out, size_t cap, size_t *count)
{
    const disk_files *f = ctx;
    return f->inner.table->list(f->inner.ctx, folder, out, cap, count);
}

static tf_err files_sync_dir(void *ctx, const char *folder)
{
    disk_files *f = ctx;
    begin(f, OPERATION_SYNC);
    return end(f->inner.table->sync_dir(f->inner.ctx, folder));
}

static tf_err files_free_bytes(void *ctx, uint64_t *out)
{
    const disk_files *f = ctx;
    return f->inner.table->free_bytes(f->inner.ctx, out);
}

static tf_err files_lock(void *ctx, const char *name, tf_file **out)
{
    const disk_files *f = ctx;
    return f->inner.table->lock(f->inner.ctx, name, out);
}

void disk_files_init(disk_files *f, disk *d)
{
    *f = (disk_files){.disk = d, .lossy = tf_lossy_files_new(UINT64_MAX)};
    f->inner = tf_lossy_files_get(f->lossy);
    tf_lossy_files_seed(f->lossy, tf_test_random_u64(&d->random));
}

void disk_files_clear(disk_files *f)
{
    tf_lossy_files_free(f->lossy);
}

tf_files disk_files_get(disk_files *f)
{
    static const tf_files_table table = {
        .open = files_open,
        .close = files_close,
        .read_at = files_read_at,
        .write_at = files_write_at,
        .sync = files_sync,
        .size = files_size,
        .set_size = files_set_size,
        .allocate = files_allocate,
        .uncache = files_uncache,
        .remove = files_remove,
        .rename = files_rename,
        .make_dir = files_make_dir,
        .list = files_list,
        .sync_dir = files_sync_dir,
        .free_bytes = files_free_bytes,
        .lock = files_lock,
    };
    return (tf_files){&table, f};
}
