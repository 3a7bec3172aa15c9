/* Changes that wait for their commit, and who waits for them. */
#include "node/hub_internal.h"

tf_slice tf_hub_pending_client_id(const tf_pending *pending)
{
    return tf_slice_of(pending->bytes, pending->client_id_len);
}

tf_slice tf_hub_pending_body(const tf_pending *pending)
{
    return tf_slice_of(pending->bytes + pending->client_id_len, pending->body_len);
}

tf_slice tf_hub_pending_meta(const tf_pending *pending)
{
    return tf_slice_of(pending->bytes + pending->client_id_len + pending->body_len, pending->meta_len);
}

tf_pending *tf_hub_pending_new(tf_hub *hub, tf_conn *conn, tf_store_op_kind kind, tf_channel *channel, size_t bytes)
{
    tf_pending *pending = tf_alloc(hub->config.mem, sizeof(*pending) + bytes);
    if (pending == NULL) {
        return NULL;
    }
    *pending = (tf_pending){.kind = kind, .channel = channel, .size = sizeof(*pending) + bytes};
    pending->first.conn = conn;
    pending->first.pending = pending;
    if (conn != NULL) {
        tf_list_append(&conn->waiting, &pending->first.in_conn);
    }
    channel->uses++;
    return pending;
}

static size_t weight(const tf_pending *pending)
{
    return pending->body_len + pending->meta_len;
}

/* Where a key of S2 is looked for: of the client id a keyed hash, of the origin, a public key, 64 bits, both of which nobody
 * chooses at will. What is found is compared part by part. */
static uint64_t hash_of(const tf_channel *channel, const tf_node_id *origin, tf_guard_key client_id)
{
    uint64_t node = 0;
    memcpy(&node, origin->bytes, sizeof(node));
    return client_id.low ^ node ^ channel->number;
}

tf_pending *tf_hub_pending_find(const tf_hub *hub, const tf_send_key *key)
{
    uint64_t hash = hash_of(key->channel, key->origin, key->hash);
    for (tf_chain *at = tf_chain_first(&hub->pending, hash); at != NULL; at = at->next) {
        tf_pending *pending = TF_CONTAINER(at, tf_pending, same_hash);
        if (pending->channel == key->channel && tf_node_id_eq(&pending->origin, key->origin) &&
            tf_slice_eq(tf_hub_pending_client_id(pending), key->client_id)) {
            return pending;
        }
    }
    return NULL;
}

tf_err tf_hub_pending_index(tf_hub *hub, tf_pending *pending)
{
    pending->hash = hash_of(pending->channel, &pending->origin, pending->key);
    tf_err err = tf_chain_add(&hub->pending, pending->hash, &pending->same_hash);
    pending->indexed = err == TF_OK;
    return err;
}

void tf_hub_gather(tf_hub *hub, tf_pending *pending)
{
    tf_list_append(&hub->gathered, &pending->in_queue);
    pending->counted = true;
    hub->committing++;
    hub->committing_bytes += weight(pending);
    if (pending->first.conn != NULL) {
        pending->first.conn->committing_bytes += weight(pending);
    }
}

tf_err tf_hub_wait(tf_conn *conn, tf_pending *pending, tf_local promise, tf_origin *origin)
{
    tf_waiter *waiter = tf_alloc(conn->hub->config.mem, sizeof(*waiter));
    if (waiter == NULL) {
        return TF_ERR_NOMEM;
    }
    *waiter = (tf_waiter){
        .next = pending->resends, .pending = pending, .conn = conn, .promise = promise, .origin = origin};
    pending->resends = waiter;
    tf_list_append(&conn->waiting, &waiter->in_conn);
    if (origin != NULL) {
        origin->holds++;
    } else {
        conn->waiting_opens++;
    }
    return TF_OK;
}

/* The conn no longer waits here. */
static void leave(tf_waiter *waiter)
{
    tf_conn *conn = waiter->conn;
    bool is_first = waiter == &waiter->pending->first;
    if (conn == NULL) {
        return;
    }
    tf_list_remove(&waiter->in_conn);
    waiter->conn = NULL;
    if (waiter->subscription != NULL) { /* which ends with its connection */
        waiter->subscription->begins = NULL;
        waiter->subscription = NULL;
    }
    if (is_first && waiter->pending->counted) {
        conn->committing_bytes -= weight(waiter->pending);
    }
    if (waiter->origin == NULL) {
        conn->waiting_opens -= waiter->pending->kind == TF_STORE_APPEND ? 0u : 1u;
        return;
    }
    if (is_first) {
        waiter->origin->in_flight--;
        conn->in_flight--;
    } else {
        waiter->origin->holds--;
    }
    tf_hub_origin_release(conn, waiter->origin);
}

void tf_hub_waiters_clear(tf_conn *conn)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->waiting)) != NULL) {
        tf_waiter *waiter = TF_CONTAINER(node, tf_waiter, in_conn);
        tf_pending *pending = waiter->pending;
        tf_hub *hub = conn->hub;
        leave(waiter);
        tf_hub_abandon(hub, waiter->promise, TF_CODE_DISCONNECTED); /* others may wait for that answer, too */
        if (waiter == &pending->first) {
            continue; /* what was accepted is committed all the same */
        }
        tf_waiter **at = &pending->resends;
        while (*at != waiter) {
            at = &(*at)->next;
        }
        *at = waiter->next;
        tf_free(hub->config.mem, waiter, sizeof(*waiter));
    }
}

static void leave_channel(const tf_pending *pending)
{
    tf_channel *channel = pending->channel;
    if (channel->change == pending) {
        channel->change = NULL;
    }
    if (channel->trim == pending) {
        channel->trim = NULL;
    }
    if (pending->kind == TF_STORE_TRIM && channel->trim == NULL) {
        channel->trim_to = 0;
    }
    if (pending->kind == TF_STORE_FORGET) {
        channel->forgetting = false;
    }
}

void tf_hub_pending_free(tf_hub *hub, tf_pending *pending)
{
    const tf_mem *mem = hub->config.mem;
    leave(&pending->first);
    while (pending->resends != NULL) {
        tf_waiter *waiter = pending->resends;
        pending->resends = waiter->next;
        leave(waiter);
        tf_free(mem, waiter, sizeof(*waiter));
    }
    if (pending->indexed) {
        tf_chain_remove(&hub->pending, pending->hash, &pending->same_hash);
    }
    if (pending->counted) {
        hub->committing--;
        hub->committing_bytes -= weight(pending);
    }
    tf_list_remove(&pending->in_queue);
    leave_channel(pending);
    tf_hub_cursor_left(hub, pending);
    tf_hub_channel_release(hub, pending->channel);
    tf_free(mem, pending, pending->size);
}

void tf_hub_pending_clear(tf_hub *hub)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&hub->gathered)) != NULL) {
        tf_hub_pending_free(hub, TF_CONTAINER(node, tf_pending, in_queue));
    }
    for (size_t i = 0; i < hub->group.count; i++) {
        tf_hub_pending_free(hub, hub->group_pending[i]);
    }
    hub->group.count = 0;
}
