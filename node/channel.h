/* The channels that a hub has in memory: those that somebody has open, is subscribed to, or writes to just now. By name,
 * bounded. What is stored in them is the store's business. Pure. Part of the hub. */
#ifndef TF_NODE_CHANNEL_H
#define TF_NODE_CHANNEL_H

#include "node/chain.h"
#include "node/store/store.h"
#include "proto/ref.h"

/* What a local id of this node stands for. First member of the structs that have one. */
typedef enum tf_object_kind {
    TF_OBJECT_ROOT,
    TF_OBJECT_CHANNEL,
    TF_OBJECT_SUBSCRIPTION,
    TF_OBJECT_SINK, /* of a client of ours */
    TF_OBJECT_APP   /* of a program that embeds the node */
} tf_object_kind;

typedef struct tf_object {
    tf_object_kind kind;
    tf_local local;
} tf_object;

typedef struct tf_channel {
    tf_object object;
    tf_chain same_hash;
    bool stored;  /* false: its creation is being committed */
    uint64_t number;
    uint64_t epoch;
    uint64_t head; /* of what is committed */
    int64_t timestamp_ms;
    bool closed;
    uint64_t given; /* the last seq given to a message: head, or more while a group is with the store */
    int64_t given_ms;
    bool closing; /* the group with the store closes it */
    bool refused; /* marked while a group is completed */
    uint64_t first; /* the oldest seq that is kept */
    uint64_t bytes; /* of what was kept when it was looked at last (S12), */
    uint64_t grown; /* and what came since */
    uint64_t trim_to; /* a trim up to it is on its way; 0: none */
    bool forgetting;  /* so is a forgetting of keys */
    bool mentioned;   /* somebody refers to it: a peer that has it open, or one that it was passed on to */
    const struct tf_retention *keeps; /* NULL: everything, for ever */
    struct tf_pending *change; /* its creation or its end, while it waits for its commit */
    struct tf_pending *trim;   /* the trim that has gathered: it may still grow */
    size_t uses;  /* connections that have it open, subscriptions, changes that wait, that somebody refers to it */
    size_t subscriptions;
    tf_list live; /* subscriptions that get what is committed at once */
    tf_list durables; /* positions of durable subscriptions (S10) */
    size_t name_len;
    uint8_t name[TF_CHANNEL_NAME_MAX];
} tf_channel;

typedef struct tf_channels {
    const tf_mem *mem;
    uint64_t hash_key;
    size_t max;
    size_t count;
    tf_map by_name; /* hash -> tf_channel, chained by same_hash */
} tf_channels;

void tf_channels_init(tf_channels *channels, const tf_mem *mem, uint64_t hash_key, size_t max);
/* All were removed. */
void tf_channels_clear(tf_channels *channels);

/* NULL when it is not in memory. */
tf_channel *tf_channels_find(const tf_channels *channels, tf_slice name);
/* A new one, not stored yet, unused. TF_ERR_LIMIT_ITEMS, NOMEM. */
TF_MUST_CHECK tf_err tf_channels_add(tf_channels *channels, tf_slice name, tf_local local, tf_channel **out);
void tf_channels_remove(tf_channels *channels, tf_channel *channel);

tf_slice tf_channel_name(const tf_channel *channel);
/* Takes what the store knows of it. */
void tf_channel_load(tf_channel *channel, const tf_store_channel *stored);

#endif
