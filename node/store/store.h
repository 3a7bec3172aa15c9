/* What the hub asks of a store of channels (S2, S3, S6, S10, S11): a table of functions with a context.
 *
 * Writing is asynchronous: the hub hands over one group of changes at a time with `submit` and learns of its end by
 * `poll`; a group whose outcome is not known yet (a failed fsync, a lost reply) is not completed until it is. Reading is
 * by sequence number and may answer LATER; finding (by name, by key, by time) answers at once.
 * The hub serializes all calls; nothing calls back. Functions may not be NULL. Implementations: node/store/memory.h. */
#ifndef TF_NODE_STORE_STORE_H
#define TF_NODE_STORE_STORE_H

#include "node/refusal.h"
#include "proto/limits.h"
#include "proto/types.h"

/* One stored message. seq is dense from 1 per channel; timestamps of a channel never decrease. */
typedef struct tf_stored {
    uint64_t seq;
    int64_t timestamp_ms;
    tf_slice id; /* opaque, stable, at most TF_ACTIVITY_ID_MAX */
    tf_node_id origin;
    uint64_t instance; /* of the origin */
    tf_slice client_id;
    tf_slice body;
} tf_stored;

typedef struct tf_store_channel {
    uint64_t number; /* the store's name for it, never reused */
    uint64_t epoch;  /* identity of its numbering */
    uint64_t first;  /* the oldest seq that is kept; head + 1 when none is */
    uint64_t head;   /* the newest seq; 0: nothing was stored yet */
    int64_t timestamp_ms; /* of the newest message, 0 when there was none */
    bool closed;
    tf_slice name; /* valid until the next call on the store */
} tf_store_channel;

typedef enum tf_store_op_kind { TF_STORE_CREATE, TF_STORE_APPEND, TF_STORE_CLOSE } tf_store_op_kind;

typedef struct tf_store_op {
    tf_store_op_kind kind;
    uint64_t channel;  /* APPEND, CLOSE: in. CREATE: out, set when the group is completed */
    tf_slice name;     /* CREATE */
    uint64_t epoch;    /* CREATE */
    tf_stored message; /* APPEND, complete: the hub gives seq, timestamp and id */
    tf_refusal outcome; /* out: TF_REFUSAL_NONE when it is durable */
} tf_store_op;

/* Belongs to the hub; it and all its slices stay valid until it is completed. */
typedef struct tf_store_group {
    tf_store_op *ops;
    size_t count;
} tf_store_group;

typedef enum tf_store_event_type {
    TF_STORE_GROUP_DONE, /* the group that was submitted: every op has its outcome */
    TF_STORE_READ_READY  /* what answered LATER may answer now */
} tf_store_event_type;

typedef enum tf_store_presence {
    TF_STORE_HERE,
    TF_STORE_LATER,  /* being fetched: ask again after TF_STORE_READ_READY */
    TF_STORE_GONE,   /* trimmed; out->seq: the next one that is kept, or head + 1 */
    TF_STORE_DAMAGED /* its bytes are damaged; out->seq: the next one that is not, or head + 1 */
} tf_store_presence;

typedef struct tf_store_stats {
    uint64_t channels;
    uint64_t messages;
    uint64_t bytes;     /* used, overhead included */
    uint64_t bytes_max; /* 0: no bound of its own */
    bool full;          /* the last append that was refused, was for want of room */
} tf_store_stats;

typedef struct tf_store_table {
    /* Takes a group (never while another is open). Every op is committed or refused by itself, with two rules: after a
     * refused append, later appends of the same channel in the group are refused, too (no hole in its numbers); a
     * refused op leaves nothing behind. Keys (channel, origin, client id) are unique: the hub has looked. */
    void (*submit)(void *ctx, tf_store_group *group);
    /* False: nothing has happened. */
    bool (*poll)(void *ctx, tf_store_event_type *out);
    /* TF_OK; TF_ERR_CLOSED: no such channel; TF_ERR_IO. Committed state only, as all that follows. */
    tf_err (*channel_find)(void *ctx, tf_slice name, tf_store_channel *out);
    /* The channels in no particular order: *position starts at 0; false at the end. No submit meanwhile. */
    bool (*channel_next)(void *ctx, size_t *position, tf_store_channel *out);
    /* The message of that key: TF_OK; TF_ERR_CLOSED: none; TF_ERR_IO. Slices: valid until the next call on the store. */
    tf_err (*find)(void *ctx, uint64_t channel, const tf_node_id *origin, tf_slice client_id, tf_stored *out);
    /* 1 <= seq <= head. Slices: valid until the next call on the store. */
    tf_store_presence (*read)(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out);
    /* The first kept seq whose timestamp is not below; head + 1 when there is none. */
    uint64_t (*find_time)(void *ctx, uint64_t channel, int64_t timestamp_ms);
    void (*get_stats)(void *ctx, tf_store_stats *out);
} tf_store_table;

typedef struct tf_store {
    const tf_store_table *table;
    void *ctx;
} tf_store;

#endif
