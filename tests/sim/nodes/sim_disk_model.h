/* What a store that is driven alone must hold: channels with their messages, keys and cursors, changed by the ops of one
 * group at a time. Of a group whose end nobody learned of, the store itself says afterwards how much of it is there; what
 * it may say is checked. A channel's messages are told apart by the number of the attempt that stored them.
 *
 * Checks return NULL, or what is wrong. */
#ifndef TF_TESTS_SIM_NODES_SIM_DISK_MODEL_H
#define TF_TESTS_SIM_NODES_SIM_DISK_MODEL_H

#include "node/store/store.h"
#include "tests/support/support.h"

#define MODEL_CHANNELS 3u
#define MODEL_MESSAGES 400u /* of a channel; then it gets no more */
#define MODEL_CURSORS 4u
#define MODEL_OPS 24u /* of a group */

typedef struct model_message {
    int64_t time_ms;
    uint64_t epoch;
    size_t len; /* of the body */
    uint64_t attempt;
} model_message;

typedef struct model_channel {
    uint64_t number; /* 0: not there */
    uint64_t epoch;
    uint64_t first;
    uint64_t head;
    uint64_t attempts; /* appends that were asked for, ever */
    int64_t keys_since_ms;
    bool closed;
    struct {
        uint64_t next; /* 0: not there */
        int64_t moved_ms;
    } cursors[MODEL_CURSORS];
    model_message messages[MODEL_MESSAGES + 1];
} model_channel;

typedef struct model_note {
    unsigned channel;
    unsigned cursor;
    uint64_t attempt;
    char id[32];
} model_note;

typedef struct model {
    tf_test_random *random;
    size_t body_max;
    bool is_tight; /* one group may be more than the log holds: then what comes late in it is refused as full */
    bool is_blind; /* reading the disk fails now and then: it may be said that this is so */
    int64_t clock_ms;
    model_channel channels[MODEL_CHANNELS];
    tf_store_op ops[MODEL_OPS]; /* of the group, */
    model_note notes[MODEL_OPS]; /* and what the op does not say */
    tf_store_group group;        /* count 0: there is none */
    uint64_t done;               /* ops that were acked */
    uint64_t refused;
} model;

void model_init(model *m, tf_test_random *random);
tf_slice model_name(unsigned channel);
/* A new group, of at most `most` ops; it is the model's. */
tf_store_group *model_draw(model *m, size_t most);
/* It has its outcomes. `clean`: there was no reason to refuse anything. */
const char *model_complete(model *m, bool clean);
/* The store was opened again: takes over what it has of a group without outcomes. `clean`: then it is the first so many ops
 * of it, but for those that were refused. */
const char *model_resolve(model *m, tf_store store, bool clean);

/* Channels, their bounds and cursors. */
const char *model_check(const model *m, tf_store store);
/* All is in the index, and what was trimmed is gone, but for a block: so the sizes are right. */
const char *model_check_silent(const model *m, tf_store store);
/* What a read (or a look) of an existing seq answered: not LATER. */
const char *model_check_read(const model *m, unsigned channel, uint64_t seq, tf_store_presence presence,
                             const tf_stored *stored);
/* The key of the message of that seq, and one that no message has. */
const char *model_check_key(const model *m, tf_store store, unsigned channel, uint64_t seq);
/* Where the store finds a time and a number of bytes, drawn. */
const char *model_check_positions(const model *m, tf_store store, unsigned channel);

#endif
