/* node/store/files over a system whose calls fail or do less than they were asked: cut reads and writes move everything; and a
 * commit log on real files keeps what it acked, whichever call fails with whatever error, and owes no descriptor. The linker
 * puts the calls below in place of the C library's (CMakeLists.txt). */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "node/store/commit_log.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

#define GROUPS 6u

static uint64_t left = UINT64_MAX; /* calls before the one that fails */
static int error;
static unsigned failed;
static size_t most; /* bytes of one read or write; 0: all */
static bool interrupted; /* each second one is, first */
static unsigned turn;

ssize_t real_pread(int fd, void *bytes, size_t len, off_t offset) __asm__("__real_pread");
ssize_t real_pwritev(int fd, const struct iovec *parts, int count, off_t offset) __asm__("__real_pwritev");
int real_fdatasync(int fd) __asm__("__real_fdatasync");
int real_fsync(int fd) __asm__("__real_fsync");
int real_openat(int dir, const char *name, int flags, mode_t mode) __asm__("__real_openat");
int real_renameat(int from_dir, const char *from, int to_dir, const char *to) __asm__("__real_renameat");
int real_fallocate(int fd, off_t from, off_t len) __asm__("__real_posix_fallocate");
ssize_t faulty_pread(int fd, void *bytes, size_t len, off_t offset) __asm__("__wrap_pread");
ssize_t faulty_pwritev(int fd, const struct iovec *parts, int count, off_t offset) __asm__("__wrap_pwritev");
int faulty_fdatasync(int fd) __asm__("__wrap_fdatasync");
int faulty_fsync(int fd) __asm__("__wrap_fsync");
int faulty_openat(int dir, const char *name, int flags, mode_t mode) __asm__("__wrap_openat");
int faulty_renameat(int from_dir, const char *from, int to_dir, const char *to) __asm__("__wrap_renameat");
int faulty_fallocate(int fd, off_t from, off_t len) __asm__("__wrap_posix_fallocate");

static bool fails(void)
{
    if (left > 0) {
        left -= left == UINT64_MAX ? 0 : 1;
        return false;
    }
    left = UINT64_MAX;
    failed++;
    errno = error;
    return true;
}

static bool is_interrupted(void)
{
    errno = EINTR;
    return interrupted && turn++ % 2 == 0;
}

ssize_t faulty_pread(int fd, void *bytes, size_t len, off_t offset)
{
    len = most > 0 && len > most ? most : len;
    return is_interrupted() || fails() ? -1 : real_pread(fd, bytes, len, offset);
}

ssize_t faulty_pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    struct iovec first = parts[0];
    if (is_interrupted() || fails()) {
        return -1;
    }
    if (most == 0) {
        return real_pwritev(fd, parts, count, offset);
    }
    first.iov_len = first.iov_len > most ? most : first.iov_len;
    return real_pwritev(fd, &first, 1, offset);
}

int faulty_fdatasync(int fd)
{
    return fails() ? -1 : real_fdatasync(fd);
}

int faulty_fsync(int fd)
{
    return fails() ? -1 : real_fsync(fd);
}

int faulty_openat(int dir, const char *name, int flags, mode_t mode)
{
    return fails() ? -1 : real_openat(dir, name, flags, mode);
}

int faulty_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return fails() ? -1 : real_renameat(from_dir, from, to_dir, to);
}

/* Which gives its error and leaves errno alone. */
int faulty_fallocate(int fd, off_t from, off_t len)
{
    return fails() ? error : real_fallocate(fd, from, len);
}

/* -- a folder ------------------------------------------------------------------------------------------------------ */

typedef struct world {
    char folder[64];
    tf_disk_files *disk;
    tf_files files;
    unsigned open_files;
} world;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void begin(world *w)
{
    (void)snprintf(w->folder, sizeof(w->folder), "/tmp/tf-test-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(w->folder));
    ck_assert_int_eq(tf_disk_files_new(&w->disk, w->folder, tf_test_mem()), TF_OK);
    w->files = tf_disk_files_get(w->disk);
    w->open_files = tf_test_open_files();
}

static void end(world *w)
{
    ck_assert_uint_eq(tf_test_open_files(), w->open_files);
    tf_disk_files_free(w->disk);
    ck_assert_int_eq(nftw(w->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    ck_assert_uint_eq(tf_test_heap_shared()->live_blocks, 0);
}

START_TEST(files_cut_and_interrupted_calls_move_everything)
{
    static const size_t cuts[] = {1, 2, 7, 64};
    uint8_t bytes[300];
    uint8_t read[400];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    const tf_slice parts[] = {{bytes, 10}, {bytes + 10, 0}, {bytes + 10, 91}, {bytes + 101, 199}};
    for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
        world w;
        tf_file *file = NULL;
        size_t got = 0;
        begin(&w);
        ck_assert_int_eq(tf_files_open(&w.files, "f", TF_FILE_CREATE, &file), TF_OK);
        most = cuts[i];
        interrupted = true;
        ck_assert_int_eq(w.files.table->write_at(w.files.ctx, file, 5, parts, 4), TF_OK);
        ck_assert_int_eq(tf_files_read(&w.files, file, 5, read, sizeof(read), &got), TF_OK);
        most = 0;
        interrupted = false;
        ck_assert_uint_eq(got, sizeof(bytes));
        ck_assert_int_eq(memcmp(read, bytes, sizeof(bytes)), 0);
        tf_files_close(&w.files, file);
        end(&w);
    }
}
END_TEST

/* -- a log --------------------------------------------------------------------------------------------------------- */

static tf_err open_log(world *w, tf_commit_log **log, uint64_t *records)
{
    const tf_commit_log_config config = {.files = w->files,
                                         .mem = tf_test_mem(),
                                         .rand = tf_test_rand(3),
                                         .segment_size = TF_LOG_SEGMENT_SIZE_MIN,
                                         .segments_max = TF_LOG_SEGMENTS_MIN};
    tf_log_item item;
    tf_err err = tf_commit_log_open(log, &config, 0, NULL);
    *records = 0;
    while (err == TF_OK && (err = tf_commit_log_next(*log, &item)) == TF_OK) {
        ck_assert_int_eq(item.type, TF_LOG_RECORD);
        ck_assert_uint_eq(item.record.lsn, ++*records);
    }
    if (err != TF_ERR_CLOSED) {
        tf_commit_log_close(*log);
        *log = NULL;
    }
    return err == TF_ERR_CLOSED ? TF_OK : err;
}

/* Groups of one record until one is not taken; how many were acked. */
static uint64_t append_some(tf_commit_log *log)
{
    uint8_t record[512];
    uint64_t acked = 0;
    for (unsigned i = 0; i < GROUPS; i++) {
        const tf_store_op op = {.kind = TF_STORE_TRIM, .channel = 1, .seq = i + 1};
        size_t len = tf_record_write(record, sizeof(record), tf_commit_log_key(log), tf_commit_log_next_lsn(log), &op);
        tf_err err = tf_commit_log_append(log, &(tf_commit_group){tf_slice_of(record, len), 1, false});
        for (int again = 0; err != TF_OK && tf_commit_log_is_pending(log) && again < 3; again++) {
            err = tf_commit_log_retry(log, NULL);
        }
        if (err != TF_OK) {
            return acked;
        }
        acked++;
    }
    return acked;
}

/* False: no call failed. */
static bool run_log(uint64_t k, int with)
{
    world w;
    tf_commit_log *log = NULL;
    uint64_t records = 0;
    uint64_t acked = 0;
    begin(&w);
    left = k;
    error = with;
    failed = 0;
    if (open_log(&w, &log, &records) == TF_OK) {
        acked = append_some(log);
        while (tf_commit_log_wants_prepare(log) && tf_commit_log_prepare(log) == TF_OK) {
        }
        tf_commit_log_close(log);
    }
    left = UINT64_MAX;
    ck_assert_int_eq(open_log(&w, &log, &records), TF_OK);
    ck_assert_msg(records == acked || (records == acked + 1 && failed > 0), "call %u, %s: %u acked, %u there",
                  (unsigned)k, strerror(with), (unsigned)acked, (unsigned)records);
    ck_assert_uint_eq(append_some(log), GROUPS);
    tf_commit_log_close(log);
    ck_assert_int_eq(open_log(&w, &log, &acked), TF_OK);
    ck_assert_uint_eq(acked, records + GROUPS);
    tf_commit_log_close(log);
    end(&w);
    return failed > 0;
}

START_TEST(log_on_real_files_keeps_what_it_acked_whichever_call_fails)
{
    static const int errors[] = {EIO, ENOSPC, EMFILE, EROFS, EDQUOT};
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        uint64_t k = 0;
        while (run_log(k, errors[i])) {
            k++;
        }
        ck_assert_uint_gt(k, 20);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {files_cut_and_interrupted_calls_move_everything,
                                  log_on_real_files_keeps_what_it_acked_whichever_call_fails, NULL};
    return tf_test_run_waiting("node/store/files_faults", tests);
}
