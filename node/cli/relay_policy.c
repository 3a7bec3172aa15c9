/* The [channel] sections of a relay's configuration, as the node takes them. */
#include "node/cli/relay.h"

#include <stdlib.h>

/* Whose keys the names mean; they are put into *keys, which moves on. */
static tf_hub_access access_of(const tf_config *config, const tf_config_access *access, tf_node_id **keys)
{
    tf_hub_access out = {.any = access->any, .keys = *keys, .count = access->count};
    for (size_t i = 0; i < access->count; i++) {
        *(*keys)++ = config->peers[access->peers[i]].key;
    }
    return out;
}

static size_t count_names(const tf_config *config)
{
    size_t count = 0;
    for (size_t i = 0; i < config->channel_count; i++) {
        count += config->channels[i].read.count + config->channels[i].write.count;
    }
    return count;
}

tf_err tf_relay_set_policies(tf_node *node, const tf_config *config)
{
    tf_err err = TF_ERR_NOMEM;
    tf_node_policy *list = calloc(config->channel_count + 1, sizeof(*list));
    tf_node_id *keys = calloc(count_names(config) + 1, sizeof(*keys));
    tf_node_id *at = keys;
    if (list == NULL || keys == NULL) {
        goto out;
    }
    for (size_t i = 0; i < config->channel_count; i++) {
        const tf_config_channel *channel = &config->channels[i];
        list[i] = (tf_node_policy){.rule = {.pattern = tf_slice_str(channel->pattern)},
                                   .max_age_ms = channel->max_age / TF_MS,
                                   .max_bytes = channel->max_bytes,
                                   .max_count = channel->max_count,
                                   .dedup_age_ms = channel->dedup_age / TF_MS};
        list[i].rule.read = access_of(config, &channel->read, &at);
        list[i].rule.write = access_of(config, &channel->write, &at);
    }
    err = tf_node_set_policies(node, &(tf_node_policies){.list = list,
                                                         .count = config->channel_count,
                                                         .restricted = tf_config_has_rights(config),
                                                         .rate = config->limits.rate,
                                                         .rate_bytes = config->limits.rate_bytes});
out:
    free(list);
    free(keys);
    return err;
}
