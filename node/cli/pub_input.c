#include "node/cli/pub_input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

#include "proto/limits.h"

#define READ_MAX ((size_t)64 << 10)

static const char *name_of(const tf_pub_input *input)
{
    return input->path == NULL ? "stdin" : input->path;
}

static void fail(tf_pub_input *input, int code, const char *what)
{
    tf_complain("pub", "%s", what);
    input->code = code;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

int tf_pub_input_open(tf_pub_input *input)
{
    struct stat st;
    if (input->source != TF_PUB_LINES) {
        return TF_EXIT_OK;
    }
    input->fd = input->path == NULL ? STDIN_FILENO : open(input->path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0 || fstat(input->fd, &st) != 0 || S_ISDIR(st.st_mode)) {
        return tf_usage("pub", "%s cannot be read: %s", name_of(input),
                        input->fd >= 0 && S_ISDIR(st.st_mode) ? "it is a directory" : strerror(errno));
    }
    input->always_ready = S_ISREG(st.st_mode);
    input->cap = READ_MAX + TF_BODY_MAX + 1;
    input->buf = malloc(input->cap);
    if (input->buf == NULL) {
        tf_complain("pub", "out of memory");
        return TF_EXIT_INTERNAL;
    }
    return TF_EXIT_OK;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_pub_input *input = ctx;
    input->ready = true;
}

bool tf_pub_input_watch(tf_pub_input *input, tf_node *node)
{
    if (input->source != TF_PUB_LINES || input->always_ready) {
        return true;
    }
    input->readable = event_new(tf_node_loop(node), input->fd, EV_READ, on_readable, input);
    if (input->readable == NULL) {
        return false;
    }
    if (event_add(input->readable, NULL) != 0) { /* a descriptor that cannot be waited for, such as /dev/null */
        event_free(input->readable);
        input->readable = NULL;
        input->always_ready = true;
    }
    return true;
}

void tf_pub_input_close(tf_pub_input *input)
{
    if (input->readable != NULL) {
        event_free(input->readable);
        input->readable = NULL;
    }
    if (input->fd > STDERR_FILENO) {
        (void)close(input->fd);
        input->fd = -1;
    }
    free(input->buf);
    input->buf = NULL;
}

/* -- lines --------------------------------------------------------------------------------------------------------- */

/* Reads once. */
static void fill(tf_pub_input *input)
{
    if (input->at > 0) {
        memmove(input->buf, input->buf + input->at, input->len - input->at);
        input->len -= input->at;
        input->at = 0;
    }
    size_t room = input->cap - input->len;
    ssize_t got = read(input->fd, input->buf + input->len, room < READ_MAX ? room : READ_MAX);
    if (got < 0 && errno != EINTR && errno != EAGAIN) {
        tf_complain("pub", "%s cannot be read: %s", name_of(input), strerror(errno));
        input->code = TF_EXIT_USAGE;
    }
    input->eof = got == 0;
    input->len += got > 0 ? (size_t)got : 0;
    input->ready = false;
    if (!input->eof && input->readable != NULL) {
        (void)event_add(input->readable, NULL);
    }
}

/* A whole line of what was read; `used`: what it takes with its end. */
static bool read_line(tf_pub_input *input, tf_slice *line)
{
    size_t have = input->len - input->at;
    const uint8_t *start = input->buf + input->at;
    const uint8_t *end = have == 0 ? NULL : memchr(start, input->delimiter, have);
    if (end != NULL) {
        *line = tf_slice_of(start, (size_t)(end - start));
        input->used = line->len + 1;
        return true;
    }
    if (input->eof && have > 0) {
        *line = tf_slice_of(start, have);
        input->used = have;
        return true;
    }
    if (have > TF_BODY_MAX) {
        tf_complain("pub", "message %llu is longer than %u bytes", (unsigned long long)input->taken + 1, TF_BODY_MAX);
        input->code = TF_EXIT_REFUSED;
    }
    return false;
}

static bool next_line(tf_pub_input *input, bool *reads, tf_slice *line)
{
    while (!read_line(input, line)) {
        if (input->code >= 0 || input->eof || !*reads || !(input->always_ready || input->ready)) {
            return false;
        }
        *reads = false;
        fill(input);
        if (input->code >= 0) {
            return false;
        }
    }
    return true;
}

/* -- messages ------------------------------------------------------------------------------------------------------ */

static bool made_message(tf_pub_input *input, tf_slice *body)
{
    size_t need = input->size < 24 ? 24 : (size_t)input->size;
    if (input->buf == NULL) {
        input->cap = need;
        input->buf = malloc(need);
        if (input->buf == NULL) {
            fail(input, TF_EXIT_INTERNAL, "out of memory");
            return false;
        }
    }
    int len = snprintf((char *)input->buf, input->cap, "%llu", (unsigned long long)input->taken + 1);
    size_t used = (size_t)len;
    if (used < input->size) {
        memset(input->buf + used, '.', (size_t)input->size - used);
        used = (size_t)input->size;
    }
    *body = tf_slice_of(input->buf, used);
    return true;
}

bool tf_pub_input_next(tf_pub_input *input, bool *reads, tf_slice *body)
{
    if (input->code >= 0) {
        return false;
    }
    input->used = 0;
    switch (input->source) {
    case TF_PUB_ONE:
        *body = tf_slice_str(input->message);
        return input->taken == 0;
    case TF_PUB_MADE:
        return input->taken < input->count && made_message(input, body);
    case TF_PUB_LINES:
        return next_line(input, reads, body);
    }
    TF_UNREACHABLE();
}

void tf_pub_input_take(tf_pub_input *input)
{
    input->taken++;
    input->at += input->used;
    input->used = 0;
}

bool tf_pub_input_is_over(const tf_pub_input *input)
{
    switch (input->source) {
    case TF_PUB_ONE:
        return input->taken == 1;
    case TF_PUB_MADE:
        return input->taken == input->count;
    case TF_PUB_LINES:
        return input->eof && input->at == input->len;
    }
    TF_UNREACHABLE();
}

bool tf_pub_input_is_ready(const tf_pub_input *input)
{
    return !tf_pub_input_is_over(input) && (input->source != TF_PUB_LINES || input->always_ready || input->ready);
}
