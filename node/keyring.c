#include "node/keyring.h"

static void add_counts(tf_keys_stats *sum, const tf_keys *keys)
{
    tf_keys_stats stats;
    tf_keys_stats_get(keys, &stats);
    sum->sealed += stats.sealed;
    sum->opened += stats.opened;
    sum->malformed += stats.malformed;
    sum->replayed += stats.replayed;
    sum->misphased += stats.misphased;
    sum->forged += stats.forged;
}

static void drop(tf_keyring *ring, struct tf_keyring_entry *entry)
{
    if (entry->keys != NULL) {
        add_counts(&ring->gone, entry->keys);
        tf_keys_free(entry->keys);
    }
    *entry = (struct tf_keyring_entry){0};
}

static struct tf_keyring_entry *oldest(tf_keyring *ring)
{
    struct tf_keyring_entry *found = &ring->entries[0];
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        struct tf_keyring_entry *entry = &ring->entries[i];
        if (entry->keys == NULL) {
            return entry;
        }
        if (entry->generation < found->generation) {
            found = entry;
        }
    }
    return found;
}

void tf_keyring_add(tf_keyring *ring, tf_keys *keys, uint64_t generation, uint64_t connection_id, uint64_t *pushed_out)
{
    struct tf_keyring_entry *entry = oldest(ring);
    *pushed_out = entry->keys == NULL ? 0 : entry->connection_id;
    drop(ring, entry);
    *entry = (struct tf_keyring_entry){keys, generation, connection_id};
}

tf_keys *tf_keyring_get(const tf_keyring *ring, uint64_t generation)
{
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        if (ring->entries[i].keys != NULL && ring->entries[i].generation == generation) {
            return ring->entries[i].keys;
        }
    }
    return NULL;
}

const struct tf_keyring_entry *tf_keyring_find(const tf_keyring *ring, uint64_t connection_id)
{
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        if (ring->entries[i].keys != NULL && ring->entries[i].connection_id == connection_id) {
            return &ring->entries[i];
        }
    }
    return NULL;
}

uint64_t tf_keyring_newest(const tf_keyring *ring)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        if (ring->entries[i].keys != NULL && ring->entries[i].generation > newest) {
            newest = ring->entries[i].generation;
        }
    }
    return newest;
}

uint64_t tf_keyring_erase(tf_keyring *ring, uint64_t generation)
{
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        struct tf_keyring_entry *entry = &ring->entries[i];
        if (entry->keys != NULL && entry->generation == generation) {
            uint64_t connection_id = entry->connection_id;
            drop(ring, entry);
            return connection_id;
        }
    }
    return 0;
}

void tf_keyring_get_stats(const tf_keyring *ring, tf_keys_stats *out)
{
    *out = ring->gone;
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        if (ring->entries[i].keys != NULL) {
            add_counts(out, ring->entries[i].keys);
        }
    }
}

tf_time tf_keyring_deadline(const tf_keyring *ring)
{
    tf_time deadline = TF_NEVER;
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        if (ring->entries[i].keys != NULL) {
            deadline = tf_time_min(deadline, tf_keys_deadline(ring->entries[i].keys));
        }
    }
    return deadline;
}

void tf_keyring_tick(tf_keyring *ring, tf_time now, tf_time grace)
{
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        if (ring->entries[i].keys != NULL) {
            tf_keys_set_grace(ring->entries[i].keys, grace);
            tf_keys_tick(ring->entries[i].keys, now);
        }
    }
}
