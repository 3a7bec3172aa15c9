/* Windows, rates and order guards of a connection (S7): what belongs to one origin of sends on it. */
#include <xxhash.h>

#include "node/hub_internal.h"

/* -- origins ------------------------------------------------------------------------------------------------------- */

static bool is_origin(const tf_origin *origin, const tf_who *who)
{
    return origin->instance == who->instance && tf_node_id_eq(&origin->node, &who->node);
}

static uint64_t hash_who(const tf_conn *conn, const tf_who *who)
{
    return XXH3_64bits_withSeed(who->node.bytes, TF_NODE_ID_LEN, conn->hub->hash_key ^ who->instance);
}

static void fill_rates(const tf_conn *conn, tf_rate *rates, const tf_rate_limit *limits)
{
    for (size_t i = 0; i < TF_RATES; i++) {
        tf_rate_init(&rates[i], &limits[i], conn->hub->now);
    }
}

void tf_hub_rates_changed(tf_conn *conn)
{
    size_t position = 0;
    uint64_t hash = 0;
    uint64_t value = 0;
    fill_rates(conn, conn->self.rates, conn->hub->rates);
    fill_rates(conn, conn->rates, conn->hub->relay_rates);
    while (tf_map_next(&conn->origins, &position, &hash, &value)) {
        for (tf_chain *at = tf_chain_of(value); at != NULL; at = at->next) {
            fill_rates(conn, TF_CONTAINER(at, tf_origin, same_hash)->rates, conn->hub->rates);
        }
    }
}

void tf_hub_rates_init(tf_conn *conn)
{
    tf_list_init(&conn->idle_origins);
    tf_hub_rates_changed(conn);
}

static tf_origin *make_origin(tf_conn *conn, const tf_who *who, uint64_t hash)
{
    const tf_mem *mem = conn->hub->config.mem;
    tf_origin *origin = tf_alloc(mem, sizeof(*origin));
    if (origin == NULL) {
        return NULL;
    }
    *origin = (tf_origin){
        .node = who->node, .instance = who->instance, .hash = hash, .serial = ++conn->origin_serial};
    fill_rates(conn, origin->rates, conn->hub->rates);
    if (tf_chain_add(&conn->origins, hash, &origin->same_hash) != TF_OK) {
        tf_free(mem, origin, sizeof(*origin));
        return NULL;
    }
    return origin;
}

static void leave_idle(tf_conn *conn, tf_origin *origin)
{
    if (tf_list_has(&origin->in_idle)) {
        tf_list_remove(&origin->in_idle);
        conn->idle_count--;
    }
}

tf_origin *tf_hub_origin_get(tf_conn *conn, const tf_who *who)
{
    if (is_origin(&conn->self, who)) {
        return &conn->self;
    }
    uint64_t hash = hash_who(conn, who);
    for (tf_chain *at = tf_chain_first(&conn->origins, hash); at != NULL; at = at->next) {
        tf_origin *origin = TF_CONTAINER(at, tf_origin, same_hash);
        if (is_origin(origin, who)) {
            leave_idle(conn, origin);
            return origin;
        }
    }
    return make_origin(conn, who, hash);
}

static void free_origin(tf_conn *conn, tf_origin *origin)
{
    leave_idle(conn, origin);
    tf_chain_remove(&conn->origins, origin->hash, &origin->same_hash);
    tf_free(conn->hub->config.mem, origin, sizeof(*origin));
}

static bool has_full_rates(const tf_conn *conn, const tf_origin *origin)
{
    const tf_hub *hub = conn->hub;
    return tf_rate_is_full(&origin->rates[TF_RATE_SENDS], &hub->rates[TF_RATE_SENDS], hub->now) &&
           tf_rate_is_full(&origin->rates[TF_RATE_BYTES], &hub->rates[TF_RATE_BYTES], hub->now);
}

/* Frees two that have been idle for so long that they are as good as new ones; and the oldest if there are too many. */
static void free_idle(tf_conn *conn)
{
    for (size_t i = 0; i < 2 && conn->idle_count > 0; i++) {
        tf_origin *oldest = TF_CONTAINER(tf_list_first(&conn->idle_origins), tf_origin, in_idle);
        if (conn->idle_count <= TF_HUB_IDLE_ORIGINS && !has_full_rates(conn, oldest)) {
            return;
        }
        free_origin(conn, oldest);
    }
}

void tf_hub_origin_release(tf_conn *conn, tf_origin *origin)
{
    if (origin == &conn->self || origin->in_flight > 0 || origin->holds > 0) {
        return;
    }
    if (has_full_rates(conn, origin)) {
        free_origin(conn, origin);
        return;
    }
    if (!tf_list_has(&origin->in_idle)) {
        tf_list_append(&conn->idle_origins, &origin->in_idle);
        conn->idle_count++;
    }
    free_idle(conn);
}

/* -- rates --------------------------------------------------------------------------------------------------------- */

tf_time tf_hub_rate_wait(const tf_conn *conn, const tf_origin *origin, uint64_t bytes)
{
    const tf_hub *hub = conn->hub;
    const uint64_t amounts[TF_RATES] = {[TF_RATE_SENDS] = 1, [TF_RATE_BYTES] = bytes};
    tf_time wait = 0;
    for (size_t i = 0; i < TF_RATES; i++) {
        wait = tf_time_max(wait, tf_rate_wait(&origin->rates[i], &hub->rates[i], hub->now, amounts[i]));
        if (conn->config.relay) {
            wait = tf_time_max(wait, tf_rate_wait(&conn->rates[i], &hub->relay_rates[i], hub->now, amounts[i]));
        }
    }
    return wait;
}

void tf_hub_rate_take(tf_conn *conn, tf_origin *origin, uint64_t bytes)
{
    const tf_hub *hub = conn->hub;
    const uint64_t amounts[TF_RATES] = {[TF_RATE_SENDS] = 1, [TF_RATE_BYTES] = bytes};
    for (size_t i = 0; i < TF_RATES; i++) {
        tf_rate_take(&origin->rates[i], &hub->rates[i], hub->now, amounts[i]);
        if (conn->config.relay) {
            tf_rate_take(&conn->rates[i], &hub->relay_rates[i], hub->now, amounts[i]);
        }
    }
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
    uint64_t hash = hash_guard(conn, origin, channel);
    for (tf_chain *at = tf_chain_first(&conn->guards, hash); at != NULL; at = at->next) {
        tf_origin_guard *found = TF_CONTAINER(at, tf_origin_guard, same_hash);
        if (found->origin == origin && found->channel == channel) {
            return found;
        }
    }
    return NULL;
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
    *found = (tf_origin_guard){.origin = origin, .channel = channel, .hash = hash};
    tf_guard_init(&found->guard, mem, 4u * (size_t)conn->hub->config.max_in_flight, &conn->guard_room);
    if (tf_chain_add(&conn->guards, hash, &found->same_hash) != TF_OK) {
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
    tf_chain_remove(&conn->guards, found->hash, &found->same_hash);
    free_guard(conn, found);
}

void tf_hub_origins_clear(tf_conn *conn)
{
    size_t position = 0;
    uint64_t key = 0;
    uint64_t value = 0;
    while (tf_map_next(&conn->guards, &position, &key, &value)) {
        for (tf_chain *at = tf_chain_of(value), *next = NULL; at != NULL; at = next) {
            next = at->next;
            free_guard(conn, TF_CONTAINER(at, tf_origin_guard, same_hash));
        }
    }
    tf_map_clear(&conn->guards);
    position = 0;
    while (tf_map_next(&conn->origins, &position, &key, &value)) {
        for (tf_chain *at = tf_chain_of(value), *next = NULL; at != NULL; at = next) {
            next = at->next;
            tf_free(conn->hub->config.mem, TF_CONTAINER(at, tf_origin, same_hash), sizeof(tf_origin));
        }
    }
    tf_map_clear(&conn->origins);
    tf_list_init(&conn->idle_origins);
    conn->idle_count = 0;
}
