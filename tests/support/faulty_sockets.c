#include "tests/support/faulty_sockets.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned failing; /* calls that count */
static uint64_t left;    /* of them, before the one that fails */
static int error;
static uint64_t failures;
static size_t most;

void tf_faulty_sockets_fail(unsigned calls, uint64_t k, int with)
{
    failing = calls;
    left = k;
    error = with;
    failures = 0;
}

void tf_faulty_sockets_cut(size_t bytes)
{
    most = bytes;
}

uint64_t tf_faulty_sockets_failures(void)
{
    return failures;
}

void tf_faulty_sockets_reset(void)
{
    failing = 0;
    failures = 0;
    most = 0;
}

static bool fails(unsigned call)
{
    if ((failing & call) == 0) {
        return false;
    }
    if (left > 0) {
        left--;
        return false;
    }
    failing = 0;
    failures++;
    errno = error;
    return true;
}

static size_t cut(size_t len)
{
    return most > 0 && len > most ? most : len;
}

/* -- in place of the C library's ----------------------------------------------------------------------------------- */

/* By the names that the linker sees: the headers declare some of them with types of their own. */
#define IN_PLACE_OF(name) __asm__(name) __attribute__((visibility("default")))

ssize_t faulty_send(int fd, const void *bytes, size_t len, int flags) IN_PLACE_OF("send");
ssize_t faulty_recv(int fd, void *bytes, size_t len, int flags) IN_PLACE_OF("recv");
int faulty_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags) IN_PLACE_OF("sendmmsg");
int faulty_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
    IN_PLACE_OF("recvmmsg");
int faulty_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags) IN_PLACE_OF("accept4");
int faulty_socket(int family, int type, int protocol) IN_PLACE_OF("socket");
int faulty_connect(int fd, const struct sockaddr *address, socklen_t len) IN_PLACE_OF("connect");

ssize_t faulty_send(int fd, const void *bytes, size_t len, int flags)
{
    return fails(TF_CALLS_SEND) ? -1 : syscall(SYS_sendto, fd, bytes, cut(len), flags, NULL, 0);
}

ssize_t faulty_recv(int fd, void *bytes, size_t len, int flags)
{
    return fails(TF_CALLS_RECV) ? -1 : syscall(SYS_recvfrom, fd, bytes, cut(len), flags, NULL, NULL);
}

int faulty_sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    count = most > 0 && count > 1 ? 1 : count;
    return fails(TF_CALLS_SENDMMSG) ? -1 : (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

int faulty_recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    count = most > 0 && count > 1 ? 1 : count;
    return fails(TF_CALLS_RECVMMSG) ? -1 : (int)syscall(SYS_recvmmsg, fd, messages, count, flags, timeout);
}

int faulty_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    return fails(TF_CALLS_ACCEPT) ? -1 : (int)syscall(SYS_accept4, fd, address, len, flags);
}

int faulty_socket(int family, int type, int protocol)
{
    return fails(TF_CALLS_SOCKET) ? -1 : (int)syscall(SYS_socket, family, type, protocol);
}

int faulty_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    return fails(TF_CALLS_CONNECT) ? -1 : (int)syscall(SYS_connect, fd, address, len);
}
