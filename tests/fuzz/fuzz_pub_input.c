/* node/cli/pub_input: lines as they come out of a pipe, in pieces of any size. What is given out are the lines that
 * went in, in order, each the same until it is taken; the last one without its end, too. A line that no message has
 * room for ends it, and nothing behind it is given out.
 * Input: one byte of decisions, seven sizes of pieces, then what goes through the pipe. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/cli/pub_input.h"
#include "proto/limits.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define PIECES 7u
#define PIPE_PIECE 4096u /* fits into an empty pipe whatever its size */

/* What else of the command line it calls (node/cli/options.c): talk, which is not looked at here. */
void tf_complain(const char *command, const char *format, ...)
{
    TF_ASSERT(command != NULL && format != NULL);
}

int tf_usage(const char *command, const char *format, ...)
{
    TF_ASSERT(command != NULL && format != NULL);
    return TF_EXIT_USAGE;
}

typedef struct world {
    tf_pub_input input;
    int to;         /* the pipe's end */
    tf_slice sent;  /* all that goes through it */
    size_t written; /* of that */
    size_t at;      /* where the next line begins */
    uint8_t sizes[PIECES];
    size_t turn;
    bool look_twice;
} world;

/* The line at w->at; *next: where the one behind it begins. False: there is none. */
static bool expected_line(const world *w, tf_slice *line, size_t *next)
{
    size_t left = w->sent.len - w->at;
    const uint8_t *start = w->sent.data + w->at;
    const uint8_t *end = left == 0 ? NULL : memchr(start, w->input.delimiter, left);
    *line = tf_slice_of(start, end == NULL ? left : (size_t)(end - start));
    *next = w->at + line->len + (end != NULL);
    return left > 0;
}

static void take_lines(world *w)
{
    bool reads = true;
    tf_slice got;
    tf_slice line;
    size_t next = 0;
    while (tf_pub_input_next(&w->input, &reads, &got)) {
        TF_ASSERT(expected_line(w, &line, &next) && next <= w->written && tf_slice_eq(got, line));
        if (w->look_twice) {
            TF_ASSERT(tf_pub_input_next(&w->input, &reads, &got) && tf_slice_eq(got, line));
        }
        tf_pub_input_take(&w->input);
        w->at = next;
    }
}

/* Puts the next piece into the pipe. False: that was all. */
static bool write_piece(world *w)
{
    size_t left = w->sent.len - w->written;
    size_t size = (size_t)w->sizes[w->turn++ % PIECES] * (PIPE_PIECE / 256) + 1;
    size = size < left ? size : left;
    if (left == 0) {
        return false;
    }
    TF_ASSERT(write(w->to, w->sent.data + w->written, size) == (ssize_t)size);
    w->written += size;
    return true;
}

static void run(world *w)
{
    while (w->input.code < 0 && write_piece(w)) {
        w->input.ready = true;
        take_lines(w);
        TF_ASSERT(!tf_pub_input_is_over(&w->input));
    }
    (void)close(w->to);
    for (unsigned i = 0; i < 3 && w->input.code < 0; i++) { /* what is left, and the end */
        w->input.ready = true;
        take_lines(w);
    }
    tf_slice line;
    size_t next = 0;
    bool more = expected_line(w, &line, &next);
    if (w->input.code < 0) {
        TF_ASSERT(!more && tf_pub_input_is_over(&w->input) && !tf_pub_input_is_ready(&w->input));
    } else {
        TF_ASSERT(w->input.code == TF_EXIT_REFUSED && more && line.len > TF_BODY_MAX);
    }
}

/* The bytes, behind so many others that together they are about the longest message. For free(). */
static uint8_t *prefixed(tf_slice bytes, size_t prefix, uint8_t with)
{
    uint8_t *all = malloc(prefix + bytes.len + 1);
    TF_ASSERT(all != NULL);
    memset(all, with, prefix);
    if (bytes.len > 0) {
        memcpy(all + prefix, bytes.data, bytes.len);
    }
    return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tf_slice input = tf_slice_of(data, size);
    uint8_t decisions = tf_fuzz_u8(&input);
    int ends[2];
    world w = {.input = {.source = TF_PUB_LINES,
                         .delimiter = (decisions & 1u) != 0 ? '\0' : '\n',
                         .fd = -1,
                         .code = -1,
                         .path = "/dev/null"},
               .look_twice = (decisions & 2u) != 0};
    for (size_t i = 0; i < PIECES; i++) {
        w.sizes[i] = tf_fuzz_u8(&input);
    }
    bool is_long = (decisions & 0xf0u) == 0xf0u; /* seldom: it takes long */
    size_t prefix = is_long ? TF_BODY_MAX - (decisions & 12u) : 0;
    memset(w.sizes, is_long ? 0xff : w.sizes[0], is_long ? PIECES : 1);
    uint8_t *all = prefixed(input, prefix, 'x');
    w.sent = tf_slice_of(all, prefix + input.len);
    TF_ASSERT(tf_pub_input_open(&w.input) == TF_EXIT_OK);
    TF_ASSERT(close(w.input.fd) == 0 && pipe2(ends, O_NONBLOCK | O_CLOEXEC) == 0);
    w.input.fd = ends[0];
    w.to = ends[1];
    run(&w);
    tf_pub_input_close(&w.input);
    free(all);
    return 0;
}
