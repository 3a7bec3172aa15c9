/* What pub sends, one message after the other: the one of the command line, lines of stdin or a file, or made ones. Told
 * on stderr is what cannot be read or sent; then `code` is set. One thread. */
#ifndef TF_NODE_CLI_PUB_INPUT_H
#define TF_NODE_CLI_PUB_INPUT_H

#include "node/cli/cli.h"

typedef enum tf_pub_source { TF_PUB_ONE, TF_PUB_LINES, TF_PUB_MADE } tf_pub_source;

typedef struct tf_pub_input {
    tf_pub_source source;
    const char *message; /* ONE */
    const char *path;    /* LINES: a file; NULL: stdin */
    uint8_t delimiter;   /* LINES */
    uint64_t count;      /* MADE */
    uint64_t size;       /* MADE: padded to it */
    uint64_t taken;      /* messages */
    int code;            /* -1: all is well; else what to exit with */
    int fd;
    bool always_ready; /* a file: no readiness to wait for */
    bool ready;
    bool eof;
    struct event *readable;
    uint8_t *buf;
    size_t cap;
    size_t at;
    size_t len;
    size_t used; /* by the message that was given out last, with its end */
} tf_pub_input;

/* TF_EXIT_OK, or the code to exit with (the user was told). */
int tf_pub_input_open(tf_pub_input *input);
/* Lets the loop of the node end its wait when something can be read. False: no memory. */
bool tf_pub_input_watch(tf_pub_input *input, tf_node *node);
void tf_pub_input_close(tf_pub_input *input);

/* The next message, the same until it is taken; valid until the next call. False: none now (or for ever, or code is set).
 * `reads`: whether it may read once for it, if it has no whole one; set false when it has. */
bool tf_pub_input_next(tf_pub_input *input, bool *reads, tf_slice *body);
void tf_pub_input_take(tf_pub_input *input);
/* All that there is was taken. */
bool tf_pub_input_is_over(const tf_pub_input *input);
/* The input is not over, and nothing has to be waited for to go on. */
bool tf_pub_input_is_ready(const tf_pub_input *input);

#endif
