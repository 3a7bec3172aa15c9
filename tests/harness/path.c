/* tf-path: one emulated path between two network namespaces. See usage() and tests/harness/README.md. */
#include "tests/harness/path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#define LINE_MAX_BYTES 256
#define NS_PER_SECOND 1000000000u

typedef struct tool {
    tf_path path;
    char line[LINE_MAX_BYTES]; /* what of a command has come */
    size_t line_len;
} tool;

static void usage(FILE *out)
{
    (void)fputs(
        "usage: tf-path NAMESPACE:DEVICE NAMESPACE:DEVICE SEED\n"
        "Makes a TUN device in each namespace (below /run/netns) and a path between them: ab from the first to\n"
        "the second, ba back. Prints \"ready\". Commands on stdin, one a line, answered by one line; the end of\n"
        "stdin ends the program:\n"
        "  delay MS, jitter MS, loss PERCENT, burst PACKETS (lost in a row), repeat PERCENT, rate KBIT/S, queue "
        "BYTES,\n"
        "  bloat MS (a queue that others fill), mtu BYTES, hole 0|1\n"
        "      each may be followed by ab or ba; 0 takes it back\n"
        "  rebind (a NAT at the first end forgets: UDP from there comes from other ports, and what comes for those it\n"
        "      came from so far is dropped; it changes nothing before the first time)\n"
        "  stats\n",
        out);
}

/* Enters the namespace and makes the device there. -1 on failure, which is told. */
static int open_end(const char *text)
{
    char file[256];
    const char *colon = strchr(text, ':');
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    int len = snprintf(file, sizeof(file), "/run/netns/%.*s", colon == NULL ? 0 : (int)(colon - text), text);
    if (colon == NULL || len < 0 || (size_t)len >= sizeof(file) || strlen(colon + 1) >= sizeof(request.ifr_name)) {
        (void)fprintf(stderr, "tf-path: %s: not NAMESPACE:DEVICE\n", text);
        return -1;
    }
    memcpy(request.ifr_name, colon + 1, strlen(colon + 1));
    int space = open(file, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        perror(file);
        return -1;
    }
    (void)close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0) {
        perror("tf-path: /dev/net/tun");
        return -1;
    }
    return fd;
}

/* False: stdin has ended. */
static bool read_commands(tool *t)
{
    ssize_t len = read(STDIN_FILENO, t->line + t->line_len, sizeof(t->line) - 1 - t->line_len);
    if (len <= 0) {
        return false;
    }
    t->line_len += (size_t)len;
    t->line[t->line_len] = '\0';
    for (char *end = strchr(t->line, '\n'); end != NULL; end = strchr(t->line, '\n')) {
        size_t used = (size_t)(end + 1 - t->line);
        *end = '\0';
        if (!tf_path_command(&t->path, t->line, stdout)) {
            (void)fputs("error: no such command, or its number is out of range\n", stdout);
        }
        (void)fflush(stdout);
        t->line_len -= used;
        memmove(t->line, t->line + used, t->line_len + 1);
    }
    return t->line_len < sizeof(t->line) - 1;
}

static int serve(tool *t)
{
    tf_path *p = &t->path;
    for (;;) {
        uint64_t due = tf_path_deliver(p);
        uint64_t now = tf_path_now();
        uint64_t wait = due > now ? due - now : 0;
        struct timespec after = {.tv_sec = (time_t)(wait / NS_PER_SECOND), .tv_nsec = (long)(wait % NS_PER_SECOND)};
        struct pollfd ready[] = {{.fd = p->ends[0], .events = POLLIN},
                                 {.fd = p->ends[1], .events = POLLIN},
                                 {.fd = STDIN_FILENO, .events = POLLIN}};
        if (ppoll(ready, 3, due == TF_PATH_NEVER ? NULL : &after, NULL) < 0 && errno != EINTR) {
            perror("tf-path: ppoll");
            return 70;
        }
        for (size_t i = 0; i < TF_PATH_WAYS; i++) {
            if ((ready[i].revents & POLLIN) != 0) {
                tf_path_read(p, i);
            }
        }
        if (ready[2].revents != 0 && !read_commands(t)) {
            return 0;
        }
    }
}

int main(int argc, char **argv)
{
    static tool t = {.path.ends = {-1, -1}};
    tf_path *p = &t.path;
    char *end = NULL;
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    uint64_t seed = argc == 4 ? strtoull(argv[3], &end, 10) : 0;
    if (argc != 4 || end == argv[3] || *end != '\0') {
        usage(stderr);
        return 2;
    }
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        p->ends[i] = open_end(argv[1 + i]);
        if (p->ends[i] < 0) {
            return 70;
        }
    }
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        tf_test_random_init(&p->ways[i].random, TF_PATH_WAYS * seed + i);
    }
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    (void)puts("ready");
    (void)fflush(stdout);
    int status = serve(&t);
    for (size_t i = 0; i < TF_PATH_WAYS; i++) {
        tf_path_way_free(&p->ways[i]);
        (void)close(p->ends[i]);
    }
    return status;
}
