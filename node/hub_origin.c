/* Windows and order guards of a connection (S7): what belongs to one origin of sends on it. */
#include <xxhash.h>

#include "node/hub_internal.h"

static void *map_pointer(const tf_map *map, uint64_t key)
{
    uint64_t value = 0;
    return tf_map_get(map, key, &value) ? (void *)(uintptr_t)value : NULL;
}

/* -- origins ------------------------------------------------------------------------------------------------------- */

static bool is_origin(const tf_origin *origin, const tf_who *who)
{
    return origin->instance == who->instance && tf_node_id_eq(&origin->node, &who->node);
}

static uint64_t hash_who(const tf_conn *conn, const tf_who *who)
{
    return XXH3_64bits_withSeed(who->node.bytes, TF_NODE_ID_LEN, conn->hub->hash_key ^ who->instance);
}

static tf_origin *make_origin(tf_conn *conn, const tf_who *who, uint64_t hash)
{
    const tf_mem *mem = conn->hub->config.mem;
    tf_origin *origin = tf_alloc(mem, sizeof(*origin));
    if (origin == NULL) {
        return NULL;
    }
    *origin = (tf_origin){.same_hash = map_pointer(&conn->origins, hash),
                          .node = who->node,
                          .instance = who->instance,
                          .hash = hash,
                          .serial = ++conn->origin_serial};
    if (tf_map_put(&conn->origins, hash, (uintptr_t)origin) != TF_OK) {
        tf_free(mem, origin, sizeof(*origin));
        return NULL;
    }
    return origin;
}

tf_origin *tf_hub_origin_get(tf_conn *conn, const tf_who *who)
{
    if (is_origin(&conn->self, who)) {
        return &conn->self;
    }
    uint64_t hash = hash_who(conn, who);
    tf_origin *origin = map_pointer(&conn->origins, hash);
    while (origin != NULL && !is_origin(origin, who)) {
        origin = origin->same_hash;
    }
    return origin != NULL ? origin : make_origin(conn, who, hash);
}

void tf_hub_origin_release(tf_conn *conn, tf_origin *origin)
{
    if (origin == &conn->self || origin->in_flight > 0 || origin->holds > 0) {
        return;
    }
    tf_origin *before = map_pointer(&conn->origins, origin->hash);
    if (before == origin && origin->same_hash == NULL) {
        (void)tf_map_remove(&conn->origins, origin->hash);
    } else if (before == origin) {
        tf_err err = tf_map_put(&conn->origins, origin->hash, (uintptr_t)origin->same_hash);
        TF_ASSERT(err == TF_OK); /* replaces */
    } else {
        while (before->same_hash != origin) {
            before = before->same_hash;
        }
        before->same_hash = origin->same_hash;
    }
    tf_free(conn->hub->config.mem, origin, sizeof(*origin));
}

/* -- guards -------------------------------------------------------------------------------------------------------- */

static uint64_t hash_guard(const tf_conn *conn, const tf_origin *origin, uint64_t channel)
{
    uint64_t parts[2] = {origin->serial, channel};
    return XXH3_64bits_withSeed(parts, sizeof(parts), conn->hub->hash_key);
}

static tf_origin_guard *find_guard(const tf_conn *conn, const tf_origin *origin, uint64_t channel)
{
    if (conn->guard_count == 0) {
        return NULL;
    }
    tf_origin_guard *found = map_pointer(&conn->guards, hash_guard(conn, origin, channel));
    while (found != NULL && !(found->origin == origin && found->channel == channel)) {
        found = found->same_hash;
    }
    return found;
}

tf_guard *tf_hub_guard_find(const tf_conn *conn, const tf_origin *origin, uint64_t channel)
{
    tf_origin_guard *found = find_guard(conn, origin, channel);
    return found == NULL ? NULL : &found->guard;
}

tf_guard *tf_hub_guard_get(tf_conn *conn, tf_origin *origin, uint64_t channel)
{
    const tf_mem *mem = conn->hub->config.mem;
    tf_origin_guard *found = find_guard(conn, origin, channel);
    if (found != NULL) {
        return &found->guard;
    }
    if (conn->guard_count >= TF_HUB_GUARDS_MAX) {
        return NULL;
    }
    found = tf_alloc(mem, sizeof(*found));
    if (found == NULL) {
        return NULL;
    }
    uint64_t hash = hash_guard(conn, origin, channel);
    *found = (tf_origin_guard){
        .same_hash = map_pointer(&conn->guards, hash), .origin = origin, .channel = channel, .hash = hash};
    tf_guard_init(&found->guard, mem, 4u * (size_t)conn->hub->config.max_in_flight, &conn->guard_room);
    if (tf_map_put(&conn->guards, hash, (uintptr_t)found) != TF_OK) {
        tf_free(mem, found, sizeof(*found));
        return NULL;
    }
    origin->holds++;
    conn->guard_count++;
    return &found->guard;
}

static void free_guard(tf_conn *conn, tf_origin_guard *found)
{
    found->origin->holds--;
    conn->guard_count--;
    tf_guard_clear(&found->guard);
    tf_free(conn->hub->config.mem, found, sizeof(*found));
}

void tf_hub_guard_release(tf_conn *conn, const tf_origin *origin, uint64_t channel)
{
    tf_origin_guard *found = find_guard(conn, origin, channel);
    if (found == NULL || tf_guard_is_up(&found->guard)) {
        return;
    }
    tf_origin_guard *before = map_pointer(&conn->guards, found->hash);
    if (before == found && found->same_hash == NULL) {
        (void)tf_map_remove(&conn->guards, found->hash);
    } else if (before == found) {
        tf_err err = tf_map_put(&conn->guards, found->hash, (uintptr_t)found->same_hash);
        TF_ASSERT(err == TF_OK); /* replaces */
    } else {
        while (before->same_hash != found) {
            before = before->same_hash;
        }
        before->same_hash = found->same_hash;
    }
    free_guard(conn, found);
}

void tf_hub_origins_clear(tf_conn *conn)
{
    size_t position = 0;
    uint64_t key = 0;
    uint64_t value = 0;
    while (tf_map_next(&conn->guards, &position, &key, &value)) {
        tf_origin_guard *guard = (tf_origin_guard *)(uintptr_t)value;
        while (guard != NULL) {
            tf_origin_guard *next = guard->same_hash;
            free_guard(conn, guard);
            guard = next;
        }
    }
    tf_map_clear(&conn->guards);
    position = 0;
    while (tf_map_next(&conn->origins, &position, &key, &value)) {
        tf_origin *origin = (tf_origin *)(uintptr_t)value;
        while (origin != NULL) {
            tf_origin *next = origin->same_hash;
            tf_free(conn->hub->config.mem, origin, sizeof(*origin));
            origin = next;
        }
    }
    tf_map_clear(&conn->origins);
}
