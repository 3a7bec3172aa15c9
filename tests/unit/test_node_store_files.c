/* node/store/files: what the table promises, of real files and of the lossy disk alike; and what the lossy disk loses. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/store/files.h"
#include "tests/support/check_main.h"
#include "tests/support/lossy_files.h"
#include "tests/support/support.h"

/* One of the two disks. */
typedef struct place {
    tf_disk_files *disk; /* NULL: lossy */
    tf_lossy_files *lossy;
    tf_files files;
    char path[64];
} place;

static void open_place(place *p, bool real)
{
    *p = (place){.path = "/tmp/tf-test-files-XXXXXX"};
    if (!real) {
        p->lossy = tf_lossy_files_new(1u << 20);
        p->files = tf_lossy_files_get(p->lossy);
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(p->path));
    ck_assert_int_eq(tf_disk_files_new(&p->disk, p->path, tf_test_mem()), TF_OK);
    p->files = tf_disk_files_get(p->disk);
}

static void remove_all(const place *p, const char *folder)
{
    static tf_file_name names[64];
    char name[200];
    size_t count = 0;
    if (p->files.table->list(p->files.ctx, folder, names, 64, &count) != TF_OK) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "%s%s%.127s", folder, folder[0] == '\0' ? "" : "/", names[i].text);
        ck_assert_int_eq(p->files.table->remove(p->files.ctx, name), TF_OK);
    }
}

static void close_place(place *p)
{
    if (p->disk != NULL) {
        char folder[80];
        remove_all(p, "");
        remove_all(p, "log");
        (void)snprintf(folder, sizeof(folder), "%s/log", p->path);
        (void)rmdir(folder);
        ck_assert_int_eq(rmdir(p->path), 0);
    }
    tf_disk_files_free(p->disk);
    tf_lossy_files_free(p->lossy);
}

static tf_file *make(const place *p, const char *name, const char *text)
{
    tf_file *file = NULL;
    ck_assert_int_eq(tf_files_open(&p->files, name, TF_FILE_CREATE, &file), TF_OK);
    ck_assert_int_eq(tf_files_write(&p->files, file, 0, tf_slice_str(text)), TF_OK);
    return file;
}

static void check_text(const place *p, tf_file *file, uint64_t offset, const char *text)
{
    char out[64] = "";
    size_t got = 0;
    ck_assert_int_eq(tf_files_read(&p->files, file, offset, out, sizeof(out) - 1, &got), TF_OK);
    ck_assert_str_eq(out, text);
    ck_assert_uint_eq(got, strlen(text));
}

START_TEST(files_open_tells_what_is_there)
{
    place p;
    tf_file *file = NULL;
    open_place(&p, _i == 1);
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_READ, &file), TF_ERR_CLOSED);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_WRITE, &file), TF_ERR_CLOSED);
    ck_assert_int_eq(tf_files_open(&p.files, "log/a", TF_FILE_CREATE, &file), TF_ERR_CLOSED);
    file = make(&p, "a", "one");
    tf_files_close(&p.files, file);
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_CREATE, &file), TF_ERR_USAGE);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_ANY, &file), TF_OK);
    check_text(&p, file, 0, "one");
    tf_files_close(&p.files, file);
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_READ, &file), TF_OK);
    check_text(&p, file, 1, "ne");
    ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("two")), TF_ERR_IO);
    tf_files_close(&p.files, file);
    ck_assert_int_eq(tf_files_open(&p.files, "b", TF_FILE_ANY, &file), TF_OK);
    tf_files_close(&p.files, file);
    tf_files_close(&p.files, NULL);
    close_place(&p);
}
END_TEST

START_TEST(files_parts_are_written_one_after_the_other)
{
    const tf_slice parts[] = {tf_slice_str("ab"), tf_slice_str(""), tf_slice_str("cde"), tf_slice_str("f")};
    const tf_slice nothing[] = {tf_slice_str("")};
    uint64_t size = 0;
    place p;
    open_place(&p, _i == 1);
    tf_file *file = make(&p, "a", "0123456789");
    const tf_files_table *t = p.files.table;
    ck_assert_int_eq(t->write_at(p.files.ctx, file, 2, parts, 4), TF_OK);
    ck_assert_int_eq(t->write_at(p.files.ctx, file, 0, nothing, 1), TF_OK);
    check_text(&p, file, 0, "01abcdef89");
    ck_assert_int_eq(t->write_at(p.files.ctx, file, 9, parts, 4), TF_OK);
    check_text(&p, file, 0, "01abcdef8abcdef");
    ck_assert_int_eq(t->set_size(p.files.ctx, file, 4), TF_OK);
    check_text(&p, file, 0, "01ab");
    check_text(&p, file, 4, "");
    check_text(&p, file, 400, "");
    ck_assert_int_eq(t->size(p.files.ctx, file, &size), TF_OK);
    ck_assert_uint_eq(size, 4);
    ck_assert_int_eq(tf_files_sync(&p.files, file), TF_OK);
    t->uncache(p.files.ctx, file);
    check_text(&p, file, 0, "01ab");
    tf_files_close(&p.files, file);
    close_place(&p);
}
END_TEST

START_TEST(files_allocated_bytes_are_zeros_with_their_blocks)
{
    static uint8_t bytes[200001];
    size_t got = 0;
    tf_file *file = NULL;
    place p;
    open_place(&p, _i == 1);
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_CREATE, &file), TF_OK);
    ck_assert_int_eq(p.files.table->allocate(p.files.ctx, file, 200000), TF_OK);
    ck_assert_int_eq(tf_files_sync(&p.files, file), TF_OK);
    memset(bytes, 1, sizeof(bytes));
    ck_assert_int_eq(tf_files_read(&p.files, file, 0, bytes, sizeof(bytes), &got), TF_OK);
    ck_assert_uint_eq(got, 200000);
    for (size_t i = 0; i < got; i++) {
        ck_assert_uint_eq(bytes[i], 0);
    }
    if (p.disk != NULL) {
        struct stat st;
        char name[80];
        (void)snprintf(name, sizeof(name), "%s/a", p.path);
        ck_assert_int_eq(stat(name, &st), 0);
        ck_assert_uint_ge((uint64_t)st.st_blocks * 512, 200000);
        ck_assert_uint_eq(st.st_mode & 0777, 0600);
    }
    tf_files_close(&p.files, file);
    close_place(&p);
}
END_TEST

static bool lists(const tf_file_name *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i].text, name) == 0) {
            return true;
        }
    }
    return false;
}

START_TEST(files_names_are_listed_moved_and_removed)
{
    static tf_file_name names[8];
    size_t count = 0;
    place p;
    open_place(&p, _i == 1);
    const tf_files_table *t = p.files.table;
    void *ctx = p.files.ctx;
    ck_assert_int_eq(t->list(ctx, "log", names, 8, &count), TF_ERR_CLOSED);
    ck_assert_int_eq(t->make_dir(ctx, "log"), TF_OK);
    ck_assert_int_eq(t->make_dir(ctx, "log"), TF_OK);
    tf_files_close(&p.files, make(&p, "top", "x"));
    tf_files_close(&p.files, make(&p, "log/a", "aa"));
    tf_files_close(&p.files, make(&p, "log/b", "bb"));
    tf_files_close(&p.files, make(&p, "log/c", "cc"));
    ck_assert_int_eq(t->list(ctx, "log", names, 2, &count), TF_OK);
    ck_assert_uint_eq(count, 3); /* more than fit */
    ck_assert_int_eq(t->rename(ctx, "log/a", "log/b"), TF_OK);
    ck_assert_int_eq(t->rename(ctx, "log/a", "log/d"), TF_ERR_CLOSED);
    ck_assert_int_eq(t->remove(ctx, "log/c"), TF_OK);
    ck_assert_int_eq(t->remove(ctx, "log/c"), TF_ERR_CLOSED);
    ck_assert_int_eq(t->sync_dir(ctx, "log"), TF_OK);
    ck_assert_int_eq(t->sync_dir(ctx, ""), TF_OK);
    ck_assert_int_eq(t->list(ctx, "log", names, 8, &count), TF_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert(lists(names, count, "b"));
    tf_file *file = NULL;
    ck_assert_int_eq(tf_files_open(&p.files, "log/b", TF_FILE_READ, &file), TF_OK);
    check_text(&p, file, 0, "aa");
    tf_files_close(&p.files, file);
    ck_assert_int_eq(t->list(ctx, "", names, 8, &count), TF_OK);
    ck_assert_uint_eq(count, 1); /* folders are none */
    ck_assert(lists(names, count, "top"));
    close_place(&p);
}
END_TEST

START_TEST(files_lock_is_held_by_one)
{
    tf_file *lock = NULL;
    tf_file *other = NULL;
    uint64_t free_bytes = 0;
    place p;
    open_place(&p, _i == 1);
    ck_assert_int_eq(p.files.table->lock(p.files.ctx, "lock", &lock), TF_OK);
    ck_assert_int_eq(p.files.table->lock(p.files.ctx, "lock", &other), TF_ERR_USAGE);
    ck_assert_int_eq(errno, EWOULDBLOCK);
    tf_files_close(&p.files, lock);
    ck_assert_int_eq(p.files.table->lock(p.files.ctx, "lock", &lock), TF_OK);
    tf_files_close(&p.files, lock);
    ck_assert_int_eq(p.files.table->free_bytes(p.files.ctx, &free_bytes), TF_OK);
    ck_assert_uint_gt(free_bytes, 1000);
    close_place(&p);
}
END_TEST

START_TEST(files_errors_have_their_class)
{
    static const struct {
        int error;
        tf_err err;
    } rows[] = {{0, TF_OK},
                {ENOSPC, TF_ERR_FULL},
                {EDQUOT, TF_ERR_FULL},
                {ENOENT, TF_ERR_CLOSED},
                {EEXIST, TF_ERR_USAGE},
                {EWOULDBLOCK, TF_ERR_USAGE},
                {ENOMEM, TF_ERR_NOMEM},
                {EIO, TF_ERR_IO},
                {EROFS, TF_ERR_IO},
                {EACCES, TF_ERR_IO}};
    tf_disk_files *disk = NULL;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_int_eq(tf_files_err(rows[i].error), rows[i].err);
    }
    ck_assert_int_eq(tf_disk_files_new(&disk, "/nonexistent/folder", tf_test_mem()), TF_ERR_CLOSED);
}
END_TEST

/* -- the lossy disk -------------------------------------------------------------------------------------------------- */

/* What is at the front of a file after a crash: 'o' old, 'n' new, 't' torn, '-' there is no such file. */
static char survivor(tf_lossy_files *lossy, const char *name, tf_slice old, tf_slice new)
{
    tf_slice bytes = tf_lossy_files_bytes(lossy, name);
    if (bytes.len == 0) {
        return '-';
    }
    if (tf_slice_eq(bytes, old)) {
        return 'o';
    }
    return tf_slice_eq(bytes, new) ? 'n' : 't';
}

START_TEST(lossy_files_crash_loses_keeps_or_tears_what_was_not_synced)
{
    static uint8_t old[2000];
    static uint8_t new[2000];
    unsigned seen[128] = {0};
    memset(old, 'o', sizeof(old));
    memset(new, 'n', sizeof(new));
    for (uint64_t seed = 0; seed < 200; seed++) {
        tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
        const place p = {.files = tf_lossy_files_get(lossy)};
        tf_file *file = make(&p, "a", "");
        ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_of(old, sizeof(old))), TF_OK);
        ck_assert_int_eq(tf_files_sync(&p.files, file), TF_OK);
        ck_assert_int_eq(p.files.table->sync_dir(p.files.ctx, ""), TF_OK);
        ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_of(new, sizeof(new))), TF_OK);
        tf_files_close(&p.files, file);
        tf_files_close(&p.files, make(&p, "b", "b"));
        tf_lossy_files_crash(lossy, seed);
        char what = survivor(lossy, "a", tf_slice_of(old, sizeof(old)), tf_slice_of(new, sizeof(new)));
        seen[(unsigned char)what]++;
        seen['b'] += tf_lossy_files_bytes(lossy, "b").len > 0 ? 1 : 0;
        tf_lossy_files_free(lossy);
    }
    ck_assert_uint_eq(seen['-'], 0);
    ck_assert_uint_gt(seen['o'], 10);
    ck_assert_uint_gt(seen['n'], 10);
    ck_assert_uint_gt(seen['t'], 10);
    ck_assert_uint_gt(seen['b'], 10);
    ck_assert_uint_lt(seen['b'], 190);
}
END_TEST

START_TEST(lossy_files_failed_sync_drops_what_it_was_for)
{
    unsigned lost = 0;
    tf_lossy_files *lossy = tf_lossy_files_new(UINT64_MAX);
    const place p = {.files = tf_lossy_files_get(lossy)};
    tf_file *file = make(&p, "a", "old");
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("old")), TF_OK);
        ck_assert_int_eq(tf_files_sync(&p.files, file), TF_OK);
        ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("new")), TF_OK);
        tf_lossy_files_fail_sync_at(lossy, 0);
        ck_assert_int_eq(tf_files_sync(&p.files, file), TF_ERR_IO);
        ck_assert_int_eq(errno, EIO);
        check_text(&p, file, 0, "new"); /* it is still in the cache, */
        ck_assert_int_eq(tf_files_sync(&p.files, file), TF_OK);
        p.files.table->uncache(p.files.ctx, file); /* and perhaps not on the disk */
        lost += memcmp(tf_lossy_files_bytes(lossy, "a").data, "old", 3) == 0 ? 1 : 0;
    }
    ck_assert_uint_gt(lost, 2);
    ck_assert_uint_lt(lost, 38);
    tf_files_close(&p.files, file);
    tf_lossy_files_free(lossy);
}
END_TEST

START_TEST(lossy_files_full_disk_and_faults_fail_as_real_ones)
{
    tf_lossy_counts counts;
    tf_file *dead = NULL;
    tf_lossy_files *lossy = tf_lossy_files_new(10);
    const place p = {.files = tf_lossy_files_get(lossy)};
    tf_file *file = make(&p, "a", "12345678");
    ck_assert_int_eq(tf_files_write(&p.files, file, 8, tf_slice_str("123")), TF_ERR_FULL);
    ck_assert_int_eq(errno, ENOSPC);
    ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("abc")), TF_OK);
    tf_lossy_files_fail_at(lossy, 1, TF_LOSSY_READ_ONLY, true);
    ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("x")), TF_OK);
    ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("y")), TF_ERR_IO);
    ck_assert_int_eq(errno, EROFS);
    ck_assert_int_eq(p.files.table->remove(p.files.ctx, "a"), TF_ERR_IO);
    check_text(&p, file, 0, "xbc456781"); /* with a part of what found no room */
    tf_lossy_files_stop_at(lossy, 0);
    ck_assert_int_eq(tf_files_sync(&p.files, file), TF_ERR_IO);
    ck_assert(tf_lossy_files_is_off(lossy));
    ck_assert_int_eq(tf_files_open(&p.files, "a", TF_FILE_READ, &dead), TF_ERR_IO);
    tf_lossy_files_kill(lossy);
    ck_assert(!tf_lossy_files_is_off(lossy));
    ck_assert_int_eq(tf_files_write(&p.files, file, 0, tf_slice_str("z")), TF_ERR_IO); /* opened before */
    tf_files_close(&p.files, file);
    tf_lossy_files_get_counts(lossy, &counts);
    ck_assert_uint_eq(counts.open, 0);
    ck_assert_uint_eq(counts.faults, 2);
    tf_lossy_files_free(lossy);
}
END_TEST

int main(void)
{
    const TTest *const both[] = {files_open_tells_what_is_there,
                                        files_parts_are_written_one_after_the_other,
                                        files_allocated_bytes_are_zeros_with_their_blocks,
                                        files_names_are_listed_moved_and_removed,
                                        files_lock_is_held_by_one};
    const TTest *const others[] = {
        files_errors_have_their_class, lossy_files_crash_loses_keeps_or_tears_what_was_not_synced,
        lossy_files_failed_sync_drops_what_it_was_for, lossy_files_full_disk_and_faults_fail_as_real_ones};
    Suite *suite = suite_create("node/store/files");
    TCase *tcase = tcase_create("node/store/files");
    suite_add_tcase(suite, tcase);
    for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
        tcase_add_loop_test(tcase, both[i], 0, 2); /* lossy, real */
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        tcase_add_test(tcase, others[i]);
    }
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
