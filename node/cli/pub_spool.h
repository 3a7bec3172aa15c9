/* The spool of pub (node/spool.h), as a directory of the command line: made when it is missing, and told on stderr what is
 * wrong with it. One thread. */
#ifndef TF_NODE_CLI_PUB_SPOOL_H
#define TF_NODE_CLI_PUB_SPOOL_H

#include "node/cli/cli.h"
#include "node/spool.h"

typedef struct tf_pub_spool {
    const char *dir; /* NULL: there is none */
    uint64_t bytes_max;
    tf_disk_files *disk;
    tf_files files;
    tf_spool *spool;
    bool damaged;     /* messages in it are lost */
    bool blocked;     /* what was put is not durable yet: no more is read */
    bool told_full;   /* the disk is full, and the user knows */
    bool told_note;   /* the same, of what was answered */
    tf_time retry_at; /* TF_NEVER: when something was answered */
    int code;         /* -1: all is well; else what to exit with (the user was told) */
} tf_pub_spool;

/* Opens it for the identity, relay and channel of a client that was started. TF_EXIT_OK, or the code to exit with. */
int tf_pub_spool_open(tf_pub_spool *s, const tf_cli *cli);
/* Notes what was answered and frees everything. */
void tf_pub_spool_close(tf_pub_spool *s);

/* Takes a message. False: not now (blocked), or code is set. at_once: there is a connection. */
bool tf_pub_spool_put(tf_pub_spool *s, const tf_spool_message *message, bool at_once);
/* Makes durable what was put, as far as the disk and the bound allow. */
void tf_pub_spool_sync(tf_pub_spool *s);
/* Notes what was answered, so that the next pub does not send it again; where it cannot, it comes as a duplicate. */
void tf_pub_spool_note(tf_pub_spool *s, bool durably);
/* The oldest message that may be sent and was not taken. */
bool tf_pub_spool_next(tf_pub_spool *s, tf_spool_message *out);

#endif
