/* The key file: never half written, never replaced, never open to others. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/keyfile.h"
#include "tests/support/check_main.h"
#include "tests/support/support.h"

static char dir[64];
static char path[128];
static char why[TF_WHY_MAX];
static tf_identity *identity;
static mode_t old_mask;

static void set_up(void)
{
    old_mask = umask(022);
    (void)snprintf(dir, sizeof(dir), "/tmp/twofold-key-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/a/b/key", dir);
    ck_assert_int_eq(tf_identity_generate(&identity, tf_test_rand(3)), TF_OK);
}

static int remove_one(const char *name, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(name);
}

static void tear_down(void)
{
    ck_assert_int_eq(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    tf_identity_free(identity);
    umask(old_mask);
}

static mode_t mode_of(const char *name)
{
    struct stat status;
    ck_assert_int_eq(stat(name, &status), 0);
    return status.st_mode & 07777;
}

static void write_file(const char *text, size_t len, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static unsigned files_beside_the_key(void)
{
    char parent[140];
    unsigned n = 0;
    (void)snprintf(parent, sizeof(parent), "%s/a/b", dir);
    DIR *list = opendir(parent);
    ck_assert_ptr_nonnull(list);
    while (readdir(list) != NULL) {
        n++;
    }
    closedir(list);
    return n - 2; /* less "." and ".." */
}

START_TEST(keyfile_created_is_private_and_loads_again)
{
    set_up();
    tf_identity *loaded = NULL;
    ck_assert_msg(tf_keyfile_create(path, identity, why) == TF_OK, "%s", why);
    ck_assert_uint_eq(mode_of(path), 0600);
    char parent[140];
    (void)snprintf(parent, sizeof(parent), "%s/a", dir);
    ck_assert_uint_eq(mode_of(parent), 0700);
    ck_assert_uint_eq(files_beside_the_key(), 1);
    ck_assert_msg(tf_keyfile_load(&loaded, path, why) == TF_OK, "%s", why);
    ck_assert(tf_node_id_eq(tf_identity_node_id(loaded), tf_identity_node_id(identity)));
    tf_identity_free(loaded);
    tear_down();
}
END_TEST

START_TEST(keyfile_that_is_there_is_never_replaced)
{
    set_up();
    tf_identity *other = NULL;
    tf_identity *loaded = NULL;
    ck_assert_int_eq(tf_identity_generate(&other, tf_test_rand(4)), TF_OK);
    ck_assert_int_eq(tf_keyfile_create(path, identity, why), TF_OK);
    ck_assert_int_eq(tf_keyfile_create(path, other, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "is there already"));
    ck_assert_uint_eq(files_beside_the_key(), 1);
    ck_assert_int_eq(tf_keyfile_load(&loaded, path, why), TF_OK);
    ck_assert(tf_node_id_eq(tf_identity_node_id(loaded), tf_identity_node_id(identity)));
    tf_identity_free(loaded);
    tf_identity_free(other);
    tear_down();
}
END_TEST

START_TEST(keyfile_missing_is_told_apart_and_made)
{
    set_up();
    tf_identity *first = NULL;
    tf_identity *second = NULL;
    bool made = false;
    errno = 0;
    ck_assert_int_eq(tf_keyfile_load(&first, path, why), TF_ERR_IO);
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_int_eq(tf_keyfile_load_or_create(&first, path, tf_test_rand(9), &made, why), TF_OK);
    ck_assert(made);
    ck_assert_int_eq(tf_keyfile_load_or_create(&second, path, tf_test_rand(10), &made, why), TF_OK);
    ck_assert(!made);
    ck_assert(tf_node_id_eq(tf_identity_node_id(first), tf_identity_node_id(second)));
    tf_identity_free(first);
    tf_identity_free(second);
    tear_down();
}
END_TEST

START_TEST(keyfile_open_to_others_is_refused)
{
    static const struct {
        mode_t mode;
        tf_err err;
    } rows[] = {{0600, TF_OK},        {0400, TF_OK},        {0640, TF_OK},        {0440, TF_OK},
                {0604, TF_ERR_USAGE}, {0644, TF_ERR_USAGE}, {0620, TF_ERR_USAGE}, {0666, TF_ERR_USAGE}};
    char text[TF_IDENTITY_TEXT_LEN + 1];
    set_up();
    ck_assert_int_eq(tf_keyfile_create(path, identity, why), TF_OK);
    tf_identity_format(identity, text);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_identity *loaded = NULL;
        ck_assert_int_eq(chmod(path, 0600), 0);
        write_file(text, TF_IDENTITY_TEXT_LEN, rows[i].mode);
        ck_assert_int_eq(tf_keyfile_load(&loaded, path, why), rows[i].err);
        ck_assert(rows[i].err == TF_OK || strstr(why, "chmod 600") != NULL);
        tf_identity_free(loaded);
    }
    tear_down();
}
END_TEST

START_TEST(keyfile_that_holds_no_key_is_refused)
{
    static char text[300];
    set_up();
    ck_assert_int_eq(tf_keyfile_create(path, identity, why), TF_OK);
    tf_identity *loaded = NULL;
    write_file("", 0, 0600);
    ck_assert_int_eq(tf_keyfile_load(&loaded, path, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "holds no key"));
    write_file("nonsense\n", 9, 0600);
    ck_assert_int_eq(tf_keyfile_load(&loaded, path, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "twofold keygen"));
    write_file(text, sizeof(text), 0600);
    ck_assert_int_eq(tf_keyfile_load(&loaded, path, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "too long"));
    ck_assert_int_eq(tf_keyfile_load(&loaded, dir, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "is not a file"));
    tear_down();
}
END_TEST

START_TEST(keyfile_that_cannot_be_written_leaves_nothing)
{
    set_up();
    char blocked[160];
    ck_assert_int_eq(tf_keyfile_create(path, identity, why), TF_OK);
    (void)snprintf(blocked, sizeof(blocked), "%s/below", path);
    ck_assert_int_eq(tf_keyfile_create(blocked, identity, why), TF_ERR_USAGE);
    ck_assert_ptr_nonnull(strstr(why, "is not a directory"));
    ck_assert_int_eq(tf_keyfile_create("/proc/self/key", identity, why), TF_ERR_IO);
    ck_assert_uint_eq(files_beside_the_key(), 1);
    tear_down();
}
END_TEST

START_TEST(directory_is_made_with_all_above_it)
{
    set_up();
    char deep[128];
    (void)snprintf(deep, sizeof(deep), "%s//x/y///z/", dir);
    ck_assert_msg(tf_directory_make(deep, why) == TF_OK, "%s", why);
    ck_assert_uint_eq(mode_of(deep), 0700);
    ck_assert_int_eq(tf_directory_make(deep, why), TF_OK);
    ck_assert_int_eq(tf_directory_make("", why), TF_ERR_USAGE);
    tear_down();
}
END_TEST

static void set_environment(const char *config, const char *state, const char *directory, const char *home)
{
    const char *const pairs[][2] = {
        {"XDG_CONFIG_HOME", config}, {"XDG_STATE_HOME", state}, {"STATE_DIRECTORY", directory}, {"HOME", home}};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pairs[i][1] != NULL ? setenv(pairs[i][0], pairs[i][1], 1) : unsetenv(pairs[i][0]), 0);
    }
}

START_TEST(keyfile_default_paths_follow_the_environment)
{
    static const struct {
        const char *config, *state, *directory, *home;
        const char *key, *data; /* NULL: an error */
    } rows[] = {
        {"/c", "/s", "/d", "/h", "/c/twofold/key", "/d"},
        {NULL, NULL, NULL, "/h", "/h/.config/twofold/key", "/h/.local/state/twofold"},
        {NULL, "/s", NULL, "/h", "/h/.config/twofold/key", "/s/twofold"},
        {"relative", "", "", "/h", "/h/.config/twofold/key", "/h/.local/state/twofold"},
        {NULL, NULL, "/d1:/d2", NULL, NULL, "/d1"},
        {NULL, NULL, NULL, NULL, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char out[TF_PATH_MAX] = "";
        set_environment(rows[i].config, rows[i].state, rows[i].directory, rows[i].home);
        ck_assert_int_eq(tf_keyfile_default_path(out, why), rows[i].key != NULL ? TF_OK : TF_ERR_USAGE);
        ck_assert_str_eq(out, rows[i].key != NULL ? rows[i].key : "");
        out[0] = '\0';
        ck_assert_int_eq(tf_data_default_path(out, why), rows[i].data != NULL ? TF_OK : TF_ERR_USAGE);
        ck_assert_str_eq(out, rows[i].data != NULL ? rows[i].data : "");
    }
}
END_TEST

START_TEST(keyfile_overlong_paths_are_refused)
{
    static char longest[TF_PATH_MAX + 1];
    char out[TF_PATH_MAX];
    memset(longest, '/', sizeof(longest) - 1);
    set_environment(longest, NULL, NULL, NULL);
    ck_assert_int_eq(tf_keyfile_default_path(out, why), TF_ERR_USAGE);
    ck_assert_int_eq(tf_directory_make(longest, why), TF_ERR_USAGE);
    longest[TF_PATH_MAX - 3] = '\0';
    ck_assert_int_eq(tf_keyfile_create(longest, NULL, why), TF_ERR_USAGE);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        keyfile_created_is_private_and_loads_again, keyfile_that_is_there_is_never_replaced,
        keyfile_missing_is_told_apart_and_made,     keyfile_open_to_others_is_refused,
        keyfile_that_holds_no_key_is_refused,       keyfile_that_cannot_be_written_leaves_nothing,
        directory_is_made_with_all_above_it,        keyfile_default_paths_follow_the_environment,
        keyfile_overlong_paths_are_refused,         NULL};
    return tf_test_run("node/keyfile", tests);
}
