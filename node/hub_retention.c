/* What is kept how long (S12): trims and forgets by the policies of the config. Two ways lead to it: appends to a channel
 * that has grown an eighth beyond its bounds, and a walk over all channels, a page at a time, when something falls due.
 * Nothing falls due where nothing is kept, so without messages, or policies, nobody is woken (P9). */
#include "node/hub_internal.h"
#include "node/pattern.h"

#define PAGE 64u                              /* channels of a walk in one run */
#define OPS_MAX ((size_t)2 * TF_HUB_GROUP_OPS) /* that wait for the store: more are not added by the walk */
#define SOON (10 * TF_SECOND)                 /* between walks, at least */
#define AGE_LATE (60 * TF_SECOND)             /* something is kept beyond its age so long, at most, */
#define KEYS_LATE (3600 * TF_SECOND)          /* and a key; and at least SOON or a sixteenth of its age */
#define SLACK_COUNT 64u
#define SLACK_BYTES 65536u

void tf_hub_retention_clear(tf_hub *hub)
{
    tf_hub_retention *retention = &hub->retention;
    tf_free(hub->config.mem, retention->policies, retention->count * sizeof(*retention->policies));
}

const tf_retention *tf_hub_retention_of(const tf_hub *hub, tf_slice name)
{
    for (size_t i = 0; i < hub->retention.count; i++) {
        if (tf_pattern_matches(hub->retention.policies[i].keeps.pattern, name)) {
            return &hub->retention.policies[i].keeps;
        }
    }
    return NULL;
}

/* What applies to the channels in memory from now on. */
static void update_channels(tf_hub *hub)
{
    size_t position = 0;
    uint64_t hash = 0;
    uint64_t value = 0;
    while (tf_map_next(&hub->channels.by_name, &position, &hash, &value)) {
        for (tf_chain *at = tf_chain_of(value); at != NULL; at = at->next) {
            tf_channel *channel = TF_CONTAINER(at, tf_channel, same_hash);
            channel->keeps = tf_hub_retention_of(hub, tf_channel_name(channel));
        }
    }
}

static bool is_valid(const tf_retention *list, size_t count)
{
    bool valid = count <= TF_RETENTIONS_MAX;
    for (size_t i = 0; valid && i < count; i++) {
        valid = tf_pattern_is_valid(list[i].pattern);
    }
    return valid;
}

tf_err tf_hub_retention_set(tf_hub *hub, const tf_retention *list, size_t count)
{
    tf_policy *policies = NULL;
    if (!is_valid(list, count)) {
        return TF_ERR_USAGE;
    }
    if (count > 0) {
        policies = tf_alloc(hub->config.mem, count * sizeof(*policies));
        if (policies == NULL) {
            return TF_ERR_NOMEM;
        }
    }
    for (size_t i = 0; i < count; i++) {
        policies[i].keeps = list[i];
        memcpy(policies[i].pattern, list[i].pattern.data, list[i].pattern.len);
        policies[i].keeps.pattern.data = policies[i].pattern;
    }
    tf_hub_retention_clear(hub);
    hub->retention = (tf_hub_retention){.policies = policies, .count = count, .next = count == 0 ? TF_NEVER : 0};
    update_channels(hub);
    return TF_OK;
}

/* The walk comes then, or earlier. */
static void due(tf_hub_retention *retention, tf_time at)
{
    tf_time *next = retention->walking ? &retention->soonest : &retention->next;
    *next = tf_time_min(*next, at);
}

static tf_time interval(uint64_t age_ms, tf_time most)
{
    tf_time part = age_ms / 16u < most / TF_MS ? age_ms / 16u * TF_MS : most;
    return tf_time_max(part, SOON);
}

/* -- one channel --------------------------------------------------------------------------------------------------- */

/* Where what is kept has to begin. */
static uint64_t first_wanted(const tf_hub *hub, const tf_store_channel *stored, const tf_retention *keeps)
{
    const tf_store *store = &hub->store;
    uint64_t first = stored->first;
    uint64_t count = stored->head + 1 - stored->first;
    if (keeps->max_count != 0 && count > keeps->max_count) {
        first = stored->head + 1 - keeps->max_count;
    }
    if (keeps->max_bytes != 0 && stored->bytes > keeps->max_bytes) {
        uint64_t fits = store->table->find_bytes(store->ctx, stored->number, keeps->max_bytes);
        first = fits > first ? fits : first;
    }
    if (keeps->max_age_ms != 0 && count > 0 && keeps->max_age_ms < (uint64_t)hub->wall_ms) {
        int64_t oldest = hub->wall_ms - (int64_t)keeps->max_age_ms;
        uint64_t young = store->table->find_time(store->ctx, stored->number, oldest);
        first = young > first ? young : first;
    }
    return first;
}

/* Keys from then on are to be kept; 0: there is nothing to forget yet. */
static int64_t keys_wanted(const tf_hub *hub, const tf_store_channel *stored, const tf_retention *keeps)
{
    bool has_keys = stored->head > 0 && stored->timestamp_ms >= stored->keys_since_ms;
    if (keeps->dedup_age_ms == 0 || !has_keys || keeps->dedup_age_ms >= (uint64_t)hub->wall_ms) {
        return 0;
    }
    int64_t since = hub->wall_ms - (int64_t)keeps->dedup_age_ms;
    int64_t step = (int64_t)(interval(keeps->dedup_age_ms, KEYS_LATE) / TF_MS);
    return since - stored->keys_since_ms >= step ? since : 0;
}

static bool forget_keys(tf_hub *hub, tf_channel *channel, int64_t since)
{
    if (channel->forgetting) {
        return true;
    }
    tf_pending *pending = tf_hub_pending_new(hub, NULL, TF_STORE_FORGET, channel, 0);
    if (pending == NULL) {
        return false;
    }
    pending->timestamp_ms = since;
    channel->forgetting = true;
    tf_hub_gather(hub, pending);
    return true;
}

/* Brings the channel into memory if it is not there: it stays until its changes are done. */
static void apply_to(tf_hub *hub, const tf_store_channel *stored, uint64_t first, int64_t since)
{
    tf_channel *channel = tf_channels_find(&hub->channels, stored->name);
    if (channel == NULL) {
        if (tf_hub_channel_bring(hub, stored->name, &channel) != TF_OK) {
            return;
        }
        tf_channel_load(channel, stored);
    }
    channel->uses++;
    if (first > stored->first) {
        (void)tf_hub_trim(hub, channel, first); /* without memory: at the next walk */
    }
    if (since != 0) {
        (void)forget_keys(hub, channel, since);
    }
    tf_hub_channel_release(hub, channel);
}

static void look_at(tf_hub *hub, const tf_store_channel *found, const tf_retention *keeps)
{
    uint8_t name[TF_CHANNEL_NAME_MAX];
    tf_store_channel stored = *found;
    memcpy(name, found->name.data, found->name.len); /* what follows asks the store */
    stored.name = tf_slice_of(name, found->name.len);
    uint64_t first = first_wanted(hub, &stored, keeps);
    int64_t since = keys_wanted(hub, &stored, keeps);
    if (first > stored.first || since != 0) {
        apply_to(hub, &stored, first, since);
        due(&hub->retention, hub->now + SOON); /* to see that it was done */
    }
    if (keeps->max_age_ms != 0 && first <= stored.head) {
        due(&hub->retention, hub->now + interval(keeps->max_age_ms, AGE_LATE));
    }
    if (keeps->dedup_age_ms != 0 && stored.head > 0 && stored.timestamp_ms >= stored.keys_since_ms) {
        due(&hub->retention, hub->now + interval(keeps->dedup_age_ms, KEYS_LATE));
    }
}

/* -- when ---------------------------------------------------------------------------------------------------------- */

void tf_hub_retention_tick(tf_hub *hub)
{
    tf_hub_retention *retention = &hub->retention;
    tf_store_channel stored;
    if (!hub->has_store || hub->now < retention->next) {
        return;
    }
    if (!retention->walking) {
        retention->walking = true;
        retention->position = 0;
        retention->soonest = TF_NEVER;
    }
    retention->next = hub->now;
    for (size_t i = 0; i < PAGE; i++) {
        if (hub->committing >= OPS_MAX) {
            retention->next = hub->now + 50 * TF_MS;
            return;
        }
        if (!hub->store.table->channel_next(hub->store.ctx, &retention->position, &stored)) {
            retention->walking = false;
            retention->next = retention->soonest;
            return;
        }
        const tf_retention *keeps = tf_hub_retention_of(hub, stored.name);
        if (keeps != NULL) {
            look_at(hub, &stored, keeps);
        }
    }
}

tf_time tf_hub_retention_deadline(const tf_hub *hub)
{
    return hub->has_store ? hub->retention.next : TF_NEVER;
}

void tf_hub_retention_appended(tf_hub *hub, tf_channel *channel, uint64_t bytes)
{
    const tf_retention *keeps = channel->keeps;
    if (keeps == NULL) {
        return;
    }
    due(&hub->retention, hub->now + SOON);
    channel->grown += bytes;
    if (channel->trim_to > channel->first) {
        return; /* one is on its way */
    }
    uint64_t count = channel->head + 1 - channel->first;
    if (keeps->max_count != 0 && count > keeps->max_count + keeps->max_count / 8 + SLACK_COUNT) {
        (void)tf_hub_trim(hub, channel, channel->head + 1 - keeps->max_count);
    }
    if (keeps->max_bytes != 0 && channel->grown > keeps->max_bytes / 8 + SLACK_BYTES) {
        tf_hub_channel_look(hub, channel);
        if (channel->bytes > keeps->max_bytes) {
            uint64_t first = hub->store.table->find_bytes(hub->store.ctx, channel->number, keeps->max_bytes);
            (void)tf_hub_trim(hub, channel, first);
        }
    }
}
