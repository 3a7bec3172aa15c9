/* One run of the command that `serve` answers with: the body on its stdin, what it writes collected, its end noticed.
 *
 * It gets stdin, stdout and stderr and no other descriptor, default signals, and a process group of its own. When it
 * has ended, what is left of its group is killed, so that nothing outlives the message that it was started for. The
 * caller watches SIGCHLD and calls tf_child_look for each then. One thread. */
#ifndef TF_NODE_CLI_SERVE_CHILD_H
#define TF_NODE_CLI_SERVE_CHILD_H

#include "node/why.h"
#include "proto/types.h"

struct event_base;
typedef struct tf_child tf_child;

typedef struct tf_child_config {
    struct event_base *base;
    char *const *argv; /* ended by NULL; argv[0] is looked for in PATH */
    tf_slice body;     /* on its stdin, a file that can be read more than once */
    size_t out_max;    /* of stdout; more ends the command at once */
    size_t err_max;    /* of stderr; of more the last part is kept */
} tf_child_config;

typedef struct tf_child_result {
    bool too_large; /* stdout was longer than out_max */
    bool signalled; /* ended by a signal */
    unsigned code;  /* that it exited with, or of that signal */
    tf_slice out;   /* valid until tf_child_free */
    tf_slice err;
} tf_child_result;

/* TF_ERR_IO: it could not be started, why says for what reason; NOMEM. */
TF_MUST_CHECK tf_err tf_child_start(tf_child **out, const tf_child_config *config, char why[TF_WHY_MAX]);
/* True: it has ended; *result is filled. */
bool tf_child_look(tf_child *child, tf_child_result *result);
/* Kills its group if it runs, and forgets it. NULL is fine. */
void tf_child_free(tf_child *child);

#endif
