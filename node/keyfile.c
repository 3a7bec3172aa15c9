#include "node/keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 256u /* a key and some white space */

/* -- paths --------------------------------------------------------------------------------------------------------- */

/* An environment variable that holds an absolute path (XDG Base Directory: others are to be ignored). */
static const char *directory_of(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && value[0] == '/' ? value : NULL;
}

static tf_err join(char out[TF_PATH_MAX], const char *directory, size_t len, const char *rest, char why[TF_WHY_MAX])
{
    int n = len < TF_PATH_MAX ? snprintf(out, TF_PATH_MAX, "%.*s%s", (int)len, directory, rest) : -1;
    return n >= 0 && (size_t)n < TF_PATH_MAX ? TF_OK : tf_why(why, "a path is longer than %u bytes", TF_PATH_MAX - 1);
}

static tf_err below_home(char out[TF_PATH_MAX], const char *variable, const char *home_rest, const char *rest,
                         char why[TF_WHY_MAX])
{
    const char *directory = directory_of(variable);
    const char *home = directory_of("HOME");
    char both[64];
    if (directory != NULL) {
        return join(out, directory, strlen(directory), rest, why);
    }
    if (home == NULL) {
        return tf_why(why, "neither $%s nor $HOME is set to an absolute path: say where with an option", variable);
    }
    (void)snprintf(both, sizeof(both), "%s%s", home_rest, rest);
    return join(out, home, strlen(home), both, why);
}

tf_err tf_keyfile_default_path(char out[TF_PATH_MAX], char why[TF_WHY_MAX])
{
    return below_home(out, "XDG_CONFIG_HOME", "/.config", "/twofold/key", why);
}

tf_err tf_data_default_path(char out[TF_PATH_MAX], char why[TF_WHY_MAX])
{
    const char *state = directory_of("STATE_DIRECTORY");
    if (state != NULL) {
        return join(out, state, strcspn(state, ":"), "", why); /* systemd separates several with colons */
    }
    return below_home(out, "XDG_STATE_HOME", "/.local/state", "/twofold", why);
}

static tf_err failed(char why[TF_WHY_MAX], const char *what, const char *path)
{
    int error = errno;
    (void)tf_why(why, "%s %s: %s", what, tf_quote(tf_slice_str(path)).text, strerror(error));
    errno = error;
    return TF_ERR_IO;
}

static tf_err make_one(const char *path, char why[TF_WHY_MAX])
{
    struct stat status;
    if (mkdir(path, S_IRWXU) == 0) {
        return TF_OK;
    }
    if (errno != EEXIST) {
        return failed(why, "cannot make the directory", path);
    }
    if (stat(path, &status) != 0) {
        return failed(why, "cannot look at", path);
    }
    return S_ISDIR(status.st_mode) ? TF_OK : tf_why(why, "%s is not a directory", tf_quote(tf_slice_str(path)).text);
}

tf_err tf_directory_make(const char *path, char why[TF_WHY_MAX])
{
    char part[TF_PATH_MAX] = "";
    tf_err err = join(part, path, strlen(path), "", why);
    if (err == TF_OK && part[0] == '\0') {
        err = tf_why(why, "the path of a directory is empty");
    }
    for (char *at = part + 1; err == TF_OK && *at != '\0'; at++) {
        if (*at == '/' && at[1] != '/' && at[1] != '\0') {
            *at = '\0';
            err = make_one(part, why);
            *at = '/';
        }
    }
    return err != TF_OK ? err : make_one(part, why);
}

/* The directory that a file lies in, with all above it. */
static tf_err make_parent(const char *path, char why[TF_WHY_MAX])
{
    char parent[TF_PATH_MAX];
    tf_err err = join(parent, path, strlen(path), "", why);
    if (err != TF_OK) {
        return err;
    }
    char *slash = strrchr(parent, '/');
    if (slash == NULL || slash == parent) {
        return TF_OK;
    }
    *slash = '\0';
    return tf_directory_make(parent, why);
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static tf_err check_file(int fd, const char *path, char why[TF_WHY_MAX])
{
    struct stat status;
    if (fstat(fd, &status) != 0) {
        return failed(why, "cannot look at the key file", path);
    }
    tf_quoted name = tf_quote(tf_slice_str(path));
    if (!S_ISREG(status.st_mode)) {
        return tf_why(why, "%s is not a file", name.text);
    }
    if ((status.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
        return tf_why(why, "the key file %s is open to others (mode %04o): make it yours alone with 'chmod 600'",
                      name.text, (unsigned)(status.st_mode & 07777));
    }
    if (status.st_size >= (off_t)FILE_MAX) {
        return tf_why(why, "%s is too long for a key file: expected one line as from 'twofold keygen'", name.text);
    }
    return TF_OK;
}

static tf_err read_identity(tf_identity **out, int fd, const char *path, char why[TF_WHY_MAX])
{
    char text[FILE_MAX];
    size_t len = 0;
    ssize_t got = 1;
    tf_err err = TF_OK;
    while (got > 0 && len < sizeof(text)) {
        got = read(fd, text + len, sizeof(text) - len);
        len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0) {
        err = failed(why, "cannot read the key file", path);
        goto out;
    }
    err = tf_identity_parse(out, tf_slice_of(text, len));
    if (err != TF_OK) {
        (void)tf_why(why, "%s holds no key: expected one line of %u characters as from 'twofold keygen'",
                     tf_quote(tf_slice_str(path)).text, TF_IDENTITY_TEXT_LEN);
    }
out:
    tf_wipe(text, sizeof(text));
    return err;
}

tf_err tf_keyfile_load(tf_identity **out, const char *path, char why[TF_WHY_MAX])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return failed(why, "cannot open the key file", path);
    }
    tf_err err = check_file(fd, path, why);
    err = err != TF_OK ? err : read_identity(out, fd, path, why);
    (void)close(fd);
    return err;
}

/* -- writing ------------------------------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t done = write(fd, text, len);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        text += done;
        len -= (size_t)done;
    }
    return true;
}

static bool write_identity(int fd, const tf_identity *identity)
{
    char text[TF_IDENTITY_TEXT_LEN + 2];
    tf_identity_format(identity, text);
    text[TF_IDENTITY_TEXT_LEN] = '\n';
    bool ok = write_all(fd, text, TF_IDENTITY_TEXT_LEN + 1) && fsync(fd) == 0;
    tf_wipe(text, sizeof(text));
    return ok;
}

/* So that the name is still there after a power cut. */
static void sync_parent(const char *path)
{
    char parent[TF_PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    if (join(parent, len == 0 ? "." : path, len == 0 ? 1 : len, "", NULL) != TF_OK) {
        return;
    }
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd); /* some file systems cannot; the file itself is synced */
        (void)close(fd);
    }
}

/* For file systems without hard links. */
static bool rename_new(const char *from, const char *to)
{
    return errno != EEXIST && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0;
}

/* Under a name of its own; linked, not renamed, so that a file that is there is never replaced. */
static tf_err write_and_link(const char *path, char *temporary, const tf_identity *identity, char why[TF_WHY_MAX])
{
    tf_err err = TF_OK;
    int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
    if (fd < 0) {
        return failed(why, "cannot write", temporary);
    }
    if (!write_identity(fd, identity)) {
        err = failed(why, "cannot write", temporary);
    } else if (link(temporary, path) != 0 && !rename_new(temporary, path)) {
        err = errno == EEXIST
                  ? tf_why(why, "%s is there already and is not replaced", tf_quote(tf_slice_str(path)).text)
                  : failed(why, "cannot write", path);
    }
    (void)close(fd);
    (void)unlink(temporary);
    return err;
}

tf_err tf_keyfile_create(const char *path, const tf_identity *identity, char why[TF_WHY_MAX])
{
    char temporary[TF_PATH_MAX];
    tf_err err = join(temporary, path, strlen(path), ".XXXXXX", why);
    err = err != TF_OK ? err : make_parent(path, why);
    err = err != TF_OK ? err : write_and_link(path, temporary, identity, why);
    if (err == TF_OK) {
        sync_parent(path);
    }
    return err;
}

tf_err tf_keyfile_load_or_create(tf_identity **out, const char *path, const tf_rand *rand, bool *made,
                                 char why[TF_WHY_MAX])
{
    tf_identity *identity = NULL;
    *made = false;
    tf_err err = tf_keyfile_load(out, path, why);
    if (err != TF_ERR_IO || errno != ENOENT) {
        return err;
    }
    err = tf_identity_generate(&identity, rand);
    if (err != TF_OK) {
        (void)tf_why(why, "cannot make a key: %s", tf_err_text(err));
        return err;
    }
    err = tf_keyfile_create(path, identity, why);
    if (err == TF_OK) {
        *made = true;
        *out = identity;
        return TF_OK;
    }
    tf_identity_free(identity);
    /* Another process may have been faster: then its key is the one. */
    return err == TF_ERR_USAGE ? tf_keyfile_load(out, path, why) : err;
}
