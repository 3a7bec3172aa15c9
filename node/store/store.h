/* What the hub asks of a store of channels (S2, S3, S6, S10, S11, S12): a table of functions with a context.
 *
 * Writing is asynchronous: the hub hands over one group of changes at a time with `submit` and learns of its end by
 * `poll`; a group whose outcome is not known yet (a failed fsync, a lost reply) is not completed until it is. Reading is
 * by sequence number and may answer LATER; finding (by name, by key, by time) answers at once.
 * The hub serializes all calls; nothing calls back. Functions may not be NULL. Implementations: node/store/memory.h,
 * node/store/disk.h. */
#ifndef TF_NODE_STORE_STORE_H
#define TF_NODE_STORE_STORE_H

#include "node/refusal.h"
#include "proto/limits.h"
#include "proto/types.h"

/* One stored message. seq is dense from 1 per channel; timestamps of a channel never decrease. */
typedef struct tf_stored {
    uint64_t seq;
    uint64_t epoch; /* the numbering in which it got its seq: the two together are its id (tf_stored_id) */
    int64_t timestamp_ms;
    int64_t expires_ms; /* it need not be delivered from then on; 0: never expires */
    tf_node_id origin;
    uint64_t instance; /* of the origin */
    tf_slice client_id;
    tf_slice meta; /* at most TF_META_MAX */
    tf_slice body;
} tf_stored;

/* What is kept of an accepted send as long as its key lives (S2), also when the message was trimmed: enough to ack a
 * resend, and to know one from a conflict. */
typedef struct tf_store_key {
    uint64_t seq;
    uint64_t epoch;
    int64_t timestamp_ms;
    uint64_t digest; /* tf_store_digest of its body */
} tf_store_key;

/* Numbers of channels go from 1 and are below it: what is on a disk and says another is damaged. */
#define TF_STORE_NUMBER_END ((uint64_t)TF_CHANNELS_MAX * 16)

typedef struct tf_store_channel {
    uint64_t number; /* the store's name for it, never reused */
    uint64_t epoch;  /* identity of its numbering */
    uint64_t first;  /* the oldest seq that is kept; head + 1 when none is */
    uint64_t head;   /* the newest seq; 0: nothing was stored yet */
    int64_t timestamp_ms;     /* of the newest message, 0 when there was none */
    int64_t keys_since_ms;    /* keys of older messages are forgotten; 0: none was */
    uint64_t bytes;           /* client ids, metas and bodies of what is kept (S12); may lag behind by one trimmed block */
    bool closed;
    tf_slice name; /* valid until the next call on the store */
} tf_store_channel;

/* The position of a durable subscription. */
typedef struct tf_store_cursor {
    uint64_t channel;
    tf_node_id owner;
    tf_slice name;  /* 1 to TF_CURSOR_NAME_MAX bytes */
    uint64_t epoch; /* of `next` */
    uint64_t next;  /* the first seq that its owner has not confirmed; in an op 0: the cursor is deleted */
    int64_t moved_ms; /* when it was set last */
} tf_store_cursor;

typedef enum tf_store_op_kind {
    TF_STORE_CREATE,
    TF_STORE_APPEND,
    TF_STORE_CLOSE,
    TF_STORE_TRIM,   /* what is below `seq` is no longer kept; never moves back */
    TF_STORE_FORGET, /* the keys of messages with a timestamp below `time_ms` are forgotten; never moves back */
    TF_STORE_EPOCH,  /* the channel's numbering goes on under a new epoch */
    TF_STORE_CURSOR
} tf_store_op_kind;

typedef struct tf_store_op {
    tf_store_op_kind kind;
    uint64_t channel;   /* in; CREATE: out, set when the group is completed */
    tf_slice name;      /* CREATE */
    uint64_t epoch;     /* CREATE, EPOCH */
    uint64_t seq;       /* TRIM: 1 to head + 1 */
    int64_t time_ms;    /* FORGET */
    tf_stored message;  /* APPEND, complete: the hub gives seq, epoch and timestamp */
    tf_store_cursor cursor; /* CURSOR */
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

/* A range of a channel that cannot be read any more. */
typedef struct tf_store_damage {
    uint64_t channel;
    uint64_t first;
    uint64_t last;
} tf_store_damage;

typedef enum tf_store_state {
    TF_STORE_WRITABLE,
    TF_STORE_FULL,       /* appends are refused store_full; it tries again by itself */
    TF_STORE_UNAVAILABLE /* it cannot write for another reason (read-only, a failed fsync); it tries again by itself */
} tf_store_state;

typedef struct tf_store_stats {
    tf_store_state state;
    uint64_t channels;
    uint64_t messages; /* that are kept */
    uint64_t bytes;     /* used, overhead included */
    uint64_t bytes_max; /* 0: no bound of its own */
    uint64_t groups;    /* committed */
    uint64_t commits_failed; /* writes or syncs that failed */
    uint64_t unapplied;      /* ops that are committed and not yet in the index (S11) */
} tf_store_stats;

typedef struct tf_store_table {
    /* Takes a group (never while another is open). Every op is committed or refused by itself, with two rules: after a
     * refused append, later appends of the same channel in the group are refused, too (no hole in its numbers); a
     * refused op leaves nothing behind. Keys (channel, origin, client id) are unique: the hub has looked. A channel that
     * is created in a group is not named by other ops of it. What frees room (TRIM, FORGET, CLOSE, CURSOR) is taken also
     * when the store is full. */
    void (*submit)(void *ctx, tf_store_group *group);
    /* False: nothing has happened. */
    bool (*poll)(void *ctx, tf_store_event_type *out);
    /* TF_OK; TF_ERR_CLOSED: no such channel; TF_ERR_IO. Committed state only, as all that follows. */
    tf_err (*channel_find)(void *ctx, tf_slice name, tf_store_channel *out);
    /* The channels in the order of their numbers, beginning after *position (starts at 0, is moved to the number that
     * was given out); false at the end. */
    bool (*channel_next)(void *ctx, uint64_t *position, tf_store_channel *out);
    /* The key of a send: TF_OK; TF_ERR_CLOSED: none, or forgotten; TF_ERR_IO. */
    tf_err (*find)(void *ctx, uint64_t channel, const tf_node_id *origin, tf_slice client_id, tf_store_key *out);
    /* 1 <= seq <= head. Slices: valid until the next call on the store. */
    tf_store_presence (*read)(void *ctx, uint64_t channel, uint64_t seq, tf_stored *out);
    /* The first kept seq whose timestamp is not below; head + 1 when there is none. While that cannot be read, the first
     * that is kept: nothing is trimmed for a fault of the disk. */
    uint64_t (*find_time)(void *ctx, uint64_t channel, int64_t timestamp_ms);
    /* The smallest seq from which on the kept messages have together at most so many bytes (as tf_store_channel.bytes
     * counts); may be too small by one block. head + 1: not even the newest fits. While that cannot be
     * read, the first that is kept. */
    uint64_t (*find_bytes)(void *ctx, uint64_t channel, uint64_t bytes);
    /* The cursor of that channel, owner and name: TF_OK; TF_ERR_CLOSED: none. */
    tf_err (*cursor_find)(void *ctx, uint64_t channel, const tf_node_id *owner, tf_slice name, tf_store_cursor *out);
    /* The cursors of a channel in no particular order: *position starts at 0; false at the end. No submit meanwhile. */
    bool (*cursor_next)(void *ctx, uint64_t channel, size_t *position, tf_store_cursor *out);
    /* Damaged ranges that are known, of all channels: as cursor_next. */
    bool (*damage_next)(void *ctx, size_t *position, tf_store_damage *out);
    void (*get_stats)(void *ctx, tf_store_stats *out);
} tf_store_table;

typedef struct tf_store {
    const tf_store_table *table;
    void *ctx;
} tf_store;

/* What a key remembers of a body (XXH3, 64 bits, without a secret: only a sender's own sends are compared by it). */
uint64_t tf_store_digest(tf_slice body);
/* The id of a message (S1): the epoch in hexadecimal, '-', the seq in decimal. Returns its length. */
size_t tf_stored_id(uint64_t epoch, uint64_t seq, uint8_t out[TF_ACTIVITY_ID_MAX]);
/* What a message counts for in tf_store_channel.bytes. */
uint64_t tf_stored_bytes(const tf_stored *message);

#endif
