/* The file "spool" of a spool: whose it is, and how far it was answered. Not for: the messages (node/spool.h).
 *
 * Three blocks of 4096 bytes, big-endian. The first is written once: "TFSPOOL\n", version u32, identity and relay (32 bytes
 * each), length of the channel's name u8, the name; the other two take turns: serial u64, answered u64, sent_to u64,
 * sent_ms u64. At byte 504 of each block stands the XXH3 (64 bits) of the 504 bytes before it. The valid one with the higher
 * serial counts. A block that was synced is not written again before the other one was synced, so a torn write costs
 * nothing that was promised; writes that were not synced survive the end of the process, but not of the machine.
 * One thread. */
#ifndef TF_NODE_SPOOL_STATE_H
#define TF_NODE_SPOOL_STATE_H

#include "node/store/files.h"
#include "node/why.h"
#include "proto/limits.h"

#define TF_SPOOL_STATE_FILE "spool"
#define TF_SPOOL_VERSION 1u

/* The sends of a spool are pending for one identity on one channel of one relay. */
typedef struct tf_spool_owner {
    tf_node_id identity;
    tf_node_id relay;
    tf_slice channel;
} tf_spool_owner;

/* How far its messages are; their numbers go from 1. */
typedef struct tf_spool_progress {
    uint64_t answered; /* this one and all before it need not be sent any more */
    uint64_t sent_to;  /* this one and all before it may have been sent, */
    int64_t sent_ms;   /* but none that is not answered before this time; milliseconds since 1970 */
} tf_spool_progress;

typedef struct tf_spool_state {
    tf_files files;
    tf_file *file;
    uint64_t serial;
    bool dirty; /* what was written last is not synced */
    tf_spool_progress progress;
} tf_spool_state;

/* Opens the file, or makes it for this owner. TF_ERR_USAGE: it is another owner's, or of a later version; TF_ERR_DAMAGED;
 * TF_ERR_NOMEM, IO, FULL. why says what was wrong. The caller holds the spool's lock. */
TF_MUST_CHECK tf_err tf_spool_state_open(tf_spool_state *state, const tf_files *files, const tf_spool_owner *owner,
                                         char why[TF_WHY_MAX]);
void tf_spool_state_close(tf_spool_state *state);

/* Writes state->progress, and syncs it if it is to be durable. TF_ERR_IO, FULL, NOMEM: nothing that was synced before is
 * lost. */
TF_MUST_CHECK tf_err tf_spool_state_keep(tf_spool_state *state, bool durably);

#endif
