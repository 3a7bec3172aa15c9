/* Members of a table that may share a key: a tf_map holds the newest of each key, and each member the link to the one
 * before it. Keys are hashes of what names a member, which is compared by the caller as it goes along. Pure.
 *
 *     for (tf_chain *at = tf_chain_first(&map, hash); at != NULL; at = at->next) { … TF_CONTAINER(at, type, link) … } */
#ifndef TF_NODE_CHAIN_H
#define TF_NODE_CHAIN_H

#include "node/list.h"
#include "proto/map.h"

/* In each member. */
typedef struct tf_chain {
    struct tf_chain *next; /* an older one of the same key */
} tf_chain;

/* A value of the map, in tf_map_next. */
static inline tf_chain *tf_chain_of(uint64_t value)
{
    return (tf_chain *)(uintptr_t)value;
}

/* The newest; NULL: there is none. */
static inline tf_chain *tf_chain_first(const tf_map *map, uint64_t key)
{
    uint64_t value = 0;
    return tf_map_get(map, key, &value) ? tf_chain_of(value) : NULL;
}

/* TF_ERR_NOMEM (not after tf_map_reserve): nothing changed. */
TF_MUST_CHECK static inline tf_err tf_chain_add(tf_map *map, uint64_t key, tf_chain *link)
{
    link->next = tf_chain_first(map, key);
    return tf_map_put(map, key, (uintptr_t)link);
}

/* No-op for one that is not there. */
static inline void tf_chain_remove(tf_map *map, uint64_t key, tf_chain *link)
{
    tf_chain *before = tf_chain_first(map, key);
    if (before == link && link->next == NULL) {
        (void)tf_map_remove(map, key);
        return;
    }
    if (before == link) {
        tf_err err = tf_map_put(map, key, (uintptr_t)link->next);
        TF_ASSERT(err == TF_OK); /* it replaces */
        return;
    }
    while (before != NULL && before->next != link) {
        before = before->next;
    }
    if (before != NULL) {
        before->next = link->next;
    }
}

#endif
