#include "node/channel.h"

#include <xxhash.h>

#include "node/name.h"

void tf_channels_init(tf_channels *channels, const tf_mem *mem, uint64_t hash_key, size_t max)
{
    *channels = (tf_channels){.mem = mem, .hash_key = hash_key, .max = max};
    tf_map_init(&channels->by_name, mem, hash_key);
}

void tf_channels_clear(tf_channels *channels)
{
    TF_ASSERT(channels->count == 0);
    tf_map_clear(&channels->by_name);
}

static uint64_t hash_name(const tf_channels *channels, tf_slice name)
{
    return XXH3_64bits_withSeed(name.data, name.len, channels->hash_key);
}

tf_channel *tf_channels_find(const tf_channels *channels, tf_slice name)
{
    for (tf_chain *at = tf_chain_first(&channels->by_name, hash_name(channels, name)); at != NULL; at = at->next) {
        tf_channel *channel = TF_CONTAINER(at, tf_channel, same_hash);
        if (tf_slice_eq(tf_channel_name(channel), name)) {
            return channel;
        }
    }
    return NULL;
}

tf_err tf_channels_add(tf_channels *channels, tf_slice name, tf_local local, tf_channel **out)
{
    uint64_t hash = hash_name(channels, name);
    TF_ASSERT(name.len <= TF_CHANNEL_NAME_MAX && tf_channels_find(channels, name) == NULL);
    if (channels->count >= channels->max) {
        return TF_ERR_LIMIT_ITEMS;
    }
    tf_channel *channel = tf_alloc(channels->mem, sizeof(*channel));
    if (channel == NULL) {
        return TF_ERR_NOMEM;
    }
    *channel = (tf_channel){.object = {TF_OBJECT_CHANNEL, local}, .name_len = name.len};
    memcpy(channel->name, name.data, name.len);
    tf_list_init(&channel->live);
    tf_list_init(&channel->durables);
    channel->first = 1;
    tf_err err = tf_chain_add(&channels->by_name, hash, &channel->same_hash);
    if (err != TF_OK) {
        tf_free(channels->mem, channel, sizeof(*channel));
        return err;
    }
    channels->count++;
    *out = channel;
    return TF_OK;
}

void tf_channels_remove(tf_channels *channels, tf_channel *channel)
{
    tf_chain_remove(&channels->by_name, hash_name(channels, tf_channel_name(channel)), &channel->same_hash);
    channels->count--;
    tf_free(channels->mem, channel, sizeof(*channel));
}

tf_slice tf_channel_name(const tf_channel *channel)
{
    return tf_slice_of(channel->name, channel->name_len);
}

void tf_channel_load(tf_channel *channel, const tf_store_channel *stored)
{
    channel->stored = true;
    channel->number = stored->number;
    channel->epoch = stored->epoch;
    channel->first = stored->first;
    channel->head = stored->head;
    channel->bytes = stored->bytes;
    channel->timestamp_ms = stored->timestamp_ms;
    channel->closed = stored->closed;
    channel->given = stored->head;
    channel->given_ms = stored->timestamp_ms;
}
