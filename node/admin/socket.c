#include "node/admin/socket.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BACKLOG 16
#define NEW_NAME "admin.new" /* until it is whole; not longer than the name that it gets */

bool tf_admin_socket_address(struct sockaddr_un *out, const char *directory, const char *name)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int len = snprintf(out->sun_path, sizeof(out->sun_path), "%s/%s", directory, name);
    return len > 0 && (size_t)len < sizeof(out->sun_path);
}

static tf_err failed(char why[TF_WHY_MAX], const char *what, const struct sockaddr_un *address)
{
    (void)snprintf(why, TF_WHY_MAX, "%s %s: %s", what, address->sun_path, strerror(errno));
    return TF_ERR_IO;
}

static bool is_answered(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    bool answered = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    (void)close(fd);
    return answered;
}

/* What has the name now may be replaced. */
static tf_err check_name(const struct sockaddr_un *address, char why[TF_WHY_MAX])
{
    struct stat there;
    if (lstat(address->sun_path, &there) != 0) {
        return errno == ENOENT ? TF_OK : failed(why, "cannot look at", address);
    }
    if (!S_ISSOCK(there.st_mode)) {
        (void)snprintf(why, TF_WHY_MAX, "%s is in the way, and is no socket", address->sun_path);
        return TF_ERR_USAGE;
    }
    if (is_answered(address)) {
        (void)snprintf(why, TF_WHY_MAX, "another process listens at %s", address->sun_path);
        return TF_ERR_USAGE;
    }
    return TF_OK;
}

/* Nobody can connect before it listens: by then the mode is what it should be, whatever the umask. */
static tf_err listen_at(int fd, const struct sockaddr_un *address, char why[TF_WHY_MAX])
{
    (void)unlink(address->sun_path);
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        return failed(why, "cannot make", address);
    }
    if (chmod(address->sun_path, S_IRUSR | S_IWUSR) != 0 || listen(fd, BACKLOG) != 0) {
        return failed(why, "cannot listen at", address);
    }
    return TF_OK;
}

static tf_err put_in_place(tf_admin_socket *out, const struct sockaddr_un *made, const struct sockaddr_un *address,
                           char why[TF_WHY_MAX])
{
    struct stat file;
    if (lstat(made->sun_path, &file) != 0 || rename(made->sun_path, address->sun_path) != 0) {
        return failed(why, "cannot make", address);
    }
    memcpy(out->path, address->sun_path, sizeof(out->path));
    out->device = file.st_dev;
    out->inode = file.st_ino;
    return TF_OK;
}

tf_err tf_admin_socket_open(tf_admin_socket *out, const char *directory, const char *name, char why[TF_WHY_MAX])
{
    struct sockaddr_un address;
    struct sockaddr_un made;
    *out = (tf_admin_socket){.fd = -1};
    if (!tf_admin_socket_address(&address, directory, name) || !tf_admin_socket_address(&made, directory, NEW_NAME)) {
        (void)snprintf(why, TF_WHY_MAX, "the path of a socket has at most %zu bytes, and %s/%s is longer",
                       sizeof(address.sun_path) - 1, directory, name);
        return TF_ERR_USAGE;
    }
    tf_err err = check_name(&address, why);
    if (err != TF_OK) {
        return err;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return failed(why, "no socket for", &address);
    }
    err = listen_at(fd, &made, why);
    if (err == TF_OK) {
        err = put_in_place(out, &made, &address, why);
    }
    if (err != TF_OK) {
        (void)unlink(made.sun_path);
        (void)close(fd);
        return err;
    }
    out->fd = fd;
    return TF_OK;
}

void tf_admin_socket_close(tf_admin_socket *socket)
{
    struct stat there;
    if (socket->fd >= 0) {
        (void)close(socket->fd);
        socket->fd = -1;
    }
    if (socket->path[0] != '\0' && lstat(socket->path, &there) == 0 && there.st_dev == socket->device &&
        there.st_ino == socket->inode) {
        (void)unlink(socket->path);
    }
    socket->path[0] = '\0';
}
