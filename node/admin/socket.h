/* A listening unix socket under a name in a directory, for the owner of the process only. */
#ifndef TF_NODE_ADMIN_SOCKET_H
#define TF_NODE_ADMIN_SOCKET_H

#include <sys/types.h>
#include <sys/un.h>

#include "node/why.h"
#include "proto/types.h"

typedef struct tf_admin_socket {
    int fd; /* listening, not blocking; -1: none */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    dev_t device; /* of the file, to know it again */
    ino_t inode;
} tf_admin_socket;

/* The name appears with mode 0600, in place of one that nobody listens at any more. USAGE: a path that no socket can
 * have, somebody listens there, or something else is in the way; IO. why says it. On an error there is nothing to
 * close. */
TF_MUST_CHECK tf_err tf_admin_socket_open(tf_admin_socket *out, const char *directory, const char *name,
                                          char why[TF_WHY_MAX]);
/* Closes it, removes its name if it is still its own. */
void tf_admin_socket_close(tf_admin_socket *socket);
/* The address of that name. False: it is too long. */
bool tf_admin_socket_address(struct sockaddr_un *out, const char *directory, const char *name);

#endif
