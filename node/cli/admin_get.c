#include "node/cli/admin_get.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/cli/cli.h"

#define WAIT_SECONDS 10
#define HEAD_LINES_MAX 64

static int cannot_reach(const char *command, const char *path, int error)
{
    tf_complain(command, "no relay answers at %s: %s", path, strerror(error));
    return TF_EXIT_UNREACHABLE;
}

/* A stream to read the answer from; NULL: *code says why not. */
static FILE *ask(const char *command, const char *path, const char *resource, int *code)
{
    static const struct timeval wait = {.tv_sec = WAIT_SECONDS};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char request[256];
    size_t len = (size_t)snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n", resource);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
    } else if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0 &&
               setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) == 0 &&
               connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
               send(fd, request, len, MSG_NOSIGNAL) == (ssize_t)len) {
        FILE *stream = fdopen(fd, "r");
        if (stream != NULL) {
            return stream;
        }
    }
    *code = cannot_reach(command, path, errno);
    if (fd >= 0) {
        (void)close(fd);
    }
    return NULL;
}

/* A line in buf; false: the end, or no whole line. */
static bool next_line(FILE *stream, char buf[TF_ADMIN_LINE_MAX], size_t *len)
{
    if (fgets(buf, TF_ADMIN_LINE_MAX, stream) == NULL) {
        return false;
    }
    *len = strlen(buf);
    return *len > 0 && buf[*len - 1] == '\n';
}

/* True: the answer is a good one, and its lines follow. */
static bool read_head(FILE *stream, char buf[TF_ADMIN_LINE_MAX])
{
    size_t len = 0;
    if (!next_line(stream, buf, &len) || strncmp(buf, "HTTP/1.", 7) != 0 || strncmp(buf + 8, " 200 ", 5) != 0) {
        return false;
    }
    for (int i = 0; i < HEAD_LINES_MAX && next_line(stream, buf, &len); i++) {
        if (strcmp(buf, "\r\n") == 0) {
            return true;
        }
    }
    return false;
}

int tf_admin_get(const char *command, const char *path, const char *resource, tf_admin_line *line, void *ctx)
{
    char buf[TF_ADMIN_LINE_MAX];
    size_t len = 0;
    int code = TF_EXIT_OK;
    FILE *stream = ask(command, path, resource, &code);
    if (stream == NULL) {
        return code;
    }
    bool more = read_head(stream, buf);
    if (!more) {
        tf_complain(command, "what answers at %s is no relay that has %s", path, resource);
        code = TF_EXIT_NEGATIVE;
    }
    while (more && next_line(stream, buf, &len)) {
        more = line(ctx, buf, len);
    }
    if (ferror(stream) != 0) {
        tf_complain(command, "%s: %s", path, strerror(errno));
        code = TF_EXIT_NEGATIVE;
    }
    (void)fclose(stream);
    return code;
}
