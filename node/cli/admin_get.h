/* Asks a relay on this machine, by its admin.sock (node/admin): one GET, an answer of lines. Blocks; 10 s without a
 * byte end it. */
#ifndef TF_NODE_CLI_ADMIN_GET_H
#define TF_NODE_CLI_ADMIN_GET_H

#include <stdbool.h>
#include <stddef.h>

#define TF_ADMIN_LINE_MAX 4096u

/* Each line of the answer, with its newline; false: no more are wanted. */
typedef bool tf_admin_line(void *ctx, const char *line, size_t len);

/* The exit code: OK, or UNREACHABLE (nobody listens at that path), NEGATIVE (the answer is none); the user was told. */
int tf_admin_get(const char *command, const char *path, const char *resource, tf_admin_line *line, void *ctx);

#endif
