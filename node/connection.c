/* Sessions and their sockets: what the network brings goes to the link, what the link has to say goes out. */
#include <stdio.h>

#include "node/keyring.h"
#include "node/node_internal.h"
#include "proto/frame.h"

#define CONNECTIONS_GONE 256u /* fewer leave little behind */

tf_log_peer tf_connection_log_peer(const tf_connection *c)
{
    return (tf_log_peer){.id = c->peer_id};
}

tf_connection *tf_connection_by_session(const tf_node *node, uint64_t session)
{
    uint64_t found = 0;
    return tf_map_get(&node->sessions, session, &found) ? (tf_connection *)(uintptr_t)found : NULL;
}

/* -- by the peer's key --------------------------------------------------------------------------------------------- */

static uint64_t beginning_of(const tf_node_id *id)
{
    uint64_t value = 0;
    memcpy(&value, id->bytes, sizeof(value));
    return value;
}

tf_connection *tf_connection_next_of(const tf_node *node, const tf_node_id *peer, const tf_connection *after)
{
    tf_chain *at = after == NULL ? tf_chain_first(&node->keys, beginning_of(peer)) : after->same_key.next;
    for (; at != NULL; at = at->next) {
        tf_connection *c = TF_CONTAINER(at, tf_connection, same_key);
        if (!c->failed && tf_node_id_eq(&c->peer_id, peer)) {
            return c;
        }
    }
    return NULL;
}

tf_connection *tf_connection_find(const tf_node *node, const tf_node_id *peer, const uint64_t *instance)
{
    tf_connection *c = tf_connection_next_of(node, peer, NULL);
    while (c != NULL && instance != NULL && c->agreed.peer_instance != *instance) {
        c = tf_connection_next_of(node, peer, c);
    }
    return c;
}

tf_negotiate_session tf_connection_state(const tf_connection *c)
{
    return (tf_negotiate_session){.resumable = true,
                                  .session = c->session,
                                  .last_generation = c->generation,
                                  .receive_next = tf_link_next_expected(c->link),
                                  .send_floor = tf_link_send_floor(c->link),
                                  .send_next = tf_link_send_next(c->link)};
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void unlink_connection(tf_connection *c)
{
    tf_node *node = c->node;
    if (c->prev != NULL) {
        c->prev->next = c->next;
    } else if (node->connections == c) {
        node->connections = c->next;
    }
    if (c->next != NULL) {
        c->next->prev = c->prev;
    }
    tf_chain_remove(&node->keys, beginning_of(&c->peer_id), &c->same_key);
    node->connection_count--;
    node->connections_gone++;
}

/* After many have gone: what they took is not to be kept for others that may never come. Their streams go a little later. */
static void give_back(tf_node *node)
{
    if (node->connections_gone >= CONNECTIONS_GONE && node->connection_count <= node->connections_most / 2) {
        node->connections_gone = 0;
        node->connections_most = node->connection_count;
        tf_node_arm(node->trim, tf_time_add(tf_edge_now(), 2 * TF_STREAM_LINGER));
    }
}

static void forget_id(tf_node *node, uint64_t connection_id)
{
    if (connection_id != 0) {
        (void)tf_map_remove(&node->connection_ids, connection_id);
    }
}

static void connection_free(tf_connection *c)
{
    tf_node *node = c->node;
    (void)tf_map_remove(&node->sessions, c->session);
    if (c->keyring != NULL) {
        for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
            forget_id(node, c->keyring->entries[i].connection_id);
            tf_keys_free(c->keyring->entries[i].keys);
        }
        tf_free(node->mem, c->keyring, sizeof(*c->keyring));
    }
    tf_stream_free(c->stream);
    tf_node_free_timer(c->timer);
    if (c->conn != NULL) {
        tf_hub_detach(node->hub, tf_edge_now(), c->conn);
        tf_conn_free(c->conn);
    }
    unlink_connection(c);
    tf_free(node->mem, c, sizeof(*c));
    give_back(node);
}

/* The keys learn that the peer has followed their phase, even when none of its datagrams get through. */
static void tell_acked(tf_connection *c, tf_time now)
{
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        const struct tf_keyring_entry *entry = &c->keyring->entries[i];
        uint64_t number = 0;
        if (entry->keys != NULL && tf_link_packet_acked(c->link, entry->generation, &number)) {
            tf_keys_acked(entry->keys, now, number);
        }
    }
}

static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_connection *c = ctx;
    tf_time now = tf_edge_now();
    tf_conn_tick(c->conn, now);
    if (c->keyring != NULL) {
        tell_acked(c, now);
        tf_keyring_tick(c->keyring, now, 3 * tf_time_max(tf_link_srtt(c->link, TF_ROUTE_DATAGRAM), TF_RTT_INITIAL));
    }
    tf_hub_touch(c->node->hub, c->conn);
}

static tf_conn_config conn_config(tf_node *node, const tf_connection_start *start)
{
    const tf_agreed *agreed = start->agreed;
    const tf_peer_limits *own = &agreed->own_limits;
    const tf_peer_limits *theirs = &agreed->peer_limits;
    tf_side side = agreed->dialler ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR;
    return (tf_conn_config){
        .link = {.mem = node->mem,
                 .rand = node->rand,
                 .dedup = node->dedup,
                 .peer = start->peer_id,
                 .peer_instance = agreed->peer_instance,
                 .session = agreed->session,
                 .routes = agreed->routes,
                 .send_data = agreed->send_routes,
                 .recv_data = agreed->receive_routes,
                 .standby = start->standby,
                 .recv_window_segments = own->window_segments,
                 .recv_window_bytes = own->window_bytes,
                 .send_window_segments = theirs->window_segments,
                 .send_window_bytes = theirs->window_bytes,
                 .recv_max_message = own->max_message,
                 .keepalive = node->config.limits.keepalive,
                 .peer_keepalive = agreed->peer_keepalive},
        .session = {.side = side,
                    .local = {own->max_message, own->max_refs, own->max_promises, own->max_results},
                    .remote = {theirs->max_message, theirs->max_refs, theirs->max_promises, theirs->max_results},
                    .refs = tf_hub_refs(node->hub),
                    .root = tf_hub_root(node->hub),
                    .without_revoke = (agreed->features & TF_FEATURE_REVOKE) == 0,
                    .hash_key = tf_rand_u64(node->rand),
                    .mem = node->mem},
        .relay = tf_node_trusts_as_relay(node, &start->peer_id),
        .peer_max_in_flight = theirs->max_in_flight,
        .mem = node->mem,
    };
}

static tf_err connection_start(tf_connection *c, const tf_connection_start *start)
{
    tf_node *node = c->node;
    tf_time now = tf_edge_now();
    c->timer = event_new(node->base, -1, 0, on_timer, c);
    if (c->timer == NULL) {
        return TF_ERR_NOMEM;
    }
    if ((start->agreed->routes & TF_ROUTES_DATAGRAM) != 0) {
        c->keyring = tf_alloc(node->mem, sizeof(*c->keyring));
        if (c->keyring == NULL) {
            return TF_ERR_NOMEM;
        }
    }
    tf_conn_config config = conn_config(node, start);
    config.owner = c;
    tf_err err = tf_conn_new(&c->conn, &config, now);
    if (err != TF_OK) {
        return err;
    }
    c->link = tf_conn_link(c->conn);
    err = tf_chain_add(&node->keys, beginning_of(&c->peer_id), &c->same_key);
    if (err != TF_OK) {
        return err;
    }
    err = tf_map_put(&node->sessions, c->session, (uint64_t)(uintptr_t)c);
    if (err != TF_OK) {
        return err;
    }
    return tf_hub_attach(node->hub, now, c->conn);
}

tf_err tf_connection_new(tf_connection **out, tf_node *node, const tf_connection_start *start)
{
    if (node->connection_count >= node->config.limits.peers) {
        return TF_ERR_LIMIT_ITEMS;
    }
    tf_connection *c = tf_alloc(node->mem, sizeof(*c));
    if (c == NULL) {
        return TF_ERR_NOMEM;
    }
    *c = (tf_connection){.node = node,
                         .peer = start->peer,
                         .peer_id = start->peer_id,
                         .session = start->agreed->session,
                         .agreed = *start->agreed,
                         .lost_since = tf_edge_now(),
                         .next = node->connections};
    if (node->connections != NULL) {
        node->connections->prev = c;
    }
    node->connections = c;
    node->connection_count++;
    if (node->connection_count > node->connections_most) {
        node->connections_most = node->connection_count;
    }
    tf_err err = connection_start(c, start);
    if (err != TF_OK) {
        connection_free(c);
        return err;
    }
    node->stats.sessions++;
    tf_log_peer who = tf_connection_log_peer(c);
    TF_LOG(node->config.log, TF_LOG_INFO, "session_started", &who, tf_log_uint("instance", c->agreed.peer_instance),
           tf_log_str("role", c->agreed.dialler ? "dialler" : "acceptor"),
           tf_log_str("software", c->agreed.peer_software));
    *out = c;
    return TF_OK;
}

/* -- the stream ---------------------------------------------------------------------------------------------------- */

void tf_connection_failed(tf_connection *c, tf_close_code code, const char *reason)
{
    tf_log_peer who = tf_connection_log_peer(c);
    if (c->failed) {
        return;
    }
    c->failed = true;
    c->node->stats.connections_failed++;
    (void)snprintf(c->why, sizeof(c->why), "%s", reason);
    TF_LOG(c->node->config.log, TF_LOG_WARN, "session_failed", &who,
           tf_log_str("code", tf_close_text((uint64_t)code)), tf_log_str("reason", c->why));
    tf_hub_touch(c->node->hub, c->conn);
}

void tf_connection_fail(tf_connection *c, tf_err err)
{
    if (!c->failed) {
        tf_link_close(c->link, tf_edge_now(), tf_close_from_err(err), tf_slice_str(tf_err_text(err)));
        tf_connection_failed(c, tf_close_from_err(err), tf_err_text(err));
    }
}

static void take_stream_bytes(tf_connection *c)
{
    size_t consumed = 0;
    if (c->stream == NULL || c->failed) {
        return;
    }
    tf_err err = tf_link_recv_stream(c->link, tf_edge_now(), tf_stream_in(c->stream), &consumed);
    tf_stream_consume(c->stream, consumed);
    if (err != TF_OK) {
        tf_connection_fail(c, err);
    }
    tf_hub_touch(c->node->hub, c->conn);
}

static void on_readable(void *ctx, tf_stream *stream)
{
    (void)stream;
    take_stream_bytes(ctx);
}

static void on_writable(void *ctx, tf_stream *stream)
{
    (void)stream;
    tf_connection *c = ctx;
    tf_hub_touch(c->node->hub, c->conn);
}

static void on_ended(void *ctx, tf_stream *stream, const tf_stream_end *end)
{
    tf_connection *c = ctx;
    tf_log_peer who = tf_connection_log_peer(c);
    TF_LOG(c->node->config.log, TF_LOG_INFO, "stream_ended", &who,
           tf_log_str("reason", tf_stream_reason_name(end->reason)), tf_log_str("text", end->text));
    TF_ASSERT(stream == c->stream);
    c->stream = NULL;
    tf_stream_free(stream);
    tf_link_stream_down(c->link, tf_edge_now());
    tf_hub_touch(c->node->hub, c->conn);
    if (c->peer != NULL && !c->failed) {
        tf_peer_stream_ended(c->peer, end->text);
    }
}

static const tf_stream_ops connection_stream_ops = {
    .readable = on_readable, .writable = on_writable, .ended = on_ended};

static tf_err make_keys(tf_connection *c)
{
    const tf_agreed *agreed = &c->agreed;
    tf_node *node = c->node;
    tf_keys *keys = NULL;
    uint64_t pushed_out = 0;
    tf_keys_params params = {.dialler = agreed->dialler,
                             .cipher = agreed->cipher,
                             .version = agreed->version,
                             .local = *tf_identity_node_id(node->config.identity),
                             .remote = c->peer_id,
                             .session = c->session,
                             .generation = agreed->generation,
                             .local_connection_id = agreed->local_connection_id,
                             .remote_connection_id = agreed->remote_connection_id,
                             .limits = {.phase_packets = node->config.limits.key_phase_packets}};
    tf_err err = tf_keys_new_from_ssl(&keys, tf_stream_ssl(c->stream), &params, node->mem, tf_edge_now());
    if (err != TF_OK) {
        return err;
    }
    err = tf_map_put(&node->connection_ids, agreed->local_connection_id, (uint64_t)(uintptr_t)c);
    if (err != TF_OK) {
        tf_keys_free(keys);
        return err;
    }
    tf_keyring_add(c->keyring, keys, agreed->generation, agreed->local_connection_id, &pushed_out);
    forget_id(node, pushed_out);
    if (c->has_to) {
        tf_link_datagram_up(c->link, tf_edge_now(), agreed->generation);
    }
    return TF_OK;
}

tf_err tf_connection_adopt(tf_connection *c, tf_stream **stream, const tf_agreed *agreed)
{
    tf_err err = TF_OK;
    tf_log_peer who = tf_connection_log_peer(c);
    c->agreed = *agreed;
    c->generation = agreed->generation;
    if (c->stream != NULL) {
        tf_stream_free(c->stream); /* the same route of the same session: the newer one has it now */
    }
    c->stream = *stream;
    *stream = NULL;
    tf_stream_set_owner(c->stream, &connection_stream_ops, c);
    if (agreed->resumed) {
        c->node->stats.sessions_resumed++;
    }
    TF_LOG(c->node->config.log, TF_LOG_INFO, "stream_up", &who, tf_log_uint("generation", agreed->generation),
           tf_log_bool("resumed", agreed->resumed), tf_log_address("address", tf_stream_remote(c->stream)));
    tf_link_stream_up(c->link, tf_edge_now(), agreed->generation);
    if (c->keyring != NULL && (agreed->routes & TF_ROUTES_DATAGRAM) != 0) {
        err = make_keys(c);
        if (err != TF_OK) {
            TF_LOG(c->node->config.log, TF_LOG_ERROR, "datagram_keys_failed", &who,
                   tf_log_str("reason", tf_err_text(err)));
        }
    }
    take_stream_bytes(c);
    tf_hub_touch(c->node->hub, c->conn);
    return err;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static void flush_stream(tf_connection *c)
{
    bool more = false;
    while (c->stream != NULL && tf_stream_is_open(c->stream)) {
        size_t room = tf_stream_room(c->stream);
        if (room == 0) {
            more = true;
            break;
        }
        size_t len = tf_link_pull_stream(c->link, tf_edge_now(), c->node->scratch, room);
        if (len == 0) {
            break;
        }
        tf_stream_write(c->stream, tf_slice_of(c->node->scratch, len));
    }
    if (c->stream != NULL) {
        tf_stream_want_write(c->stream, more);
    }
}

static void handle_verdict(tf_connection *c, const tf_link_event *event)
{
    tf_log_peer who = tf_connection_log_peer(c);
    TF_LOG(c->node->config.log, TF_LOG_INFO, "route", &who, tf_log_str("route", tf_route_name(event->route)),
           tf_log_str("verdict", tf_verdict_name(event->verdict)), tf_log_str("before", tf_verdict_name(event->before)));
    if (c->peer != NULL) {
        tf_peer_verdict(c->peer, event->route, event->verdict, event->before);
    }
}

static void handle_event(tf_connection *c, const tf_link_event *event)
{
    tf_log_peer who = tf_connection_log_peer(c);
    tf_log *log = c->node->config.log;
    switch (event->type) {
    case TF_LINK_EVENT_VERDICT:
        handle_verdict(c, event);
        return;
    case TF_LINK_EVENT_CONFIRMED:
        TF_LOG(log, TF_LOG_DEBUG, "datagram_keys", &who, tf_log_uint("generation", event->generation));
        return;
    case TF_LINK_EVENT_RETIRED:
        if (c->keyring != NULL) {
            forget_id(c->node, tf_keyring_erase(c->keyring, event->generation));
        }
        return;
    case TF_LINK_EVENT_MOVED:
        tf_connection_decide_candidate(c, event->moved);
        return;
    case TF_LINK_EVENT_UNREACHABLE:
        tf_log_event(log, TF_LOG_WARN, "peer_unreachable", &who);
        return;
    case TF_LINK_EVENT_REDUNDANCY_LOST:
        TF_LOG(log, TF_LOG_WARN, "redundancy_lost", &who, tf_log_str("route", tf_route_name(event->route)));
        if (c->peer != NULL) {
            tf_peer_redundancy_lost(c->peer, event->route);
        }
        return;
    case TF_LINK_EVENT_CLOSED:
        c->failed = true;
        c->closed_by_peer = true;
        c->close_code = event->code;
        (void)snprintf(c->why, sizeof(c->why), "%.*s", (int)event->reason.len, (const char *)event->reason.data);
        TF_LOG(log, TF_LOG_INFO, "session_closed", &who, tf_log_str("code", tf_close_text(event->code)),
               tf_log_bytes("reason", event->reason));
        return;
    }
    TF_UNREACHABLE();
}

static void watch_loss(tf_connection *c, tf_time now)
{
    bool carries = c->stream != NULL || tf_link_verdict(c->link, TF_ROUTE_DATAGRAM) == TF_VERDICT_UP ||
                   tf_link_verdict(c->link, TF_ROUTE_DATAGRAM) == TF_VERDICT_STALLED;
    if (carries) {
        c->lost_since = TF_NEVER;
    } else if (c->lost_since == TF_NEVER) {
        c->lost_since = now;
    }
}

static void set_timer(tf_connection *c)
{
    tf_time deadline = tf_conn_deadline(c->conn);
    if (c->keyring != NULL) {
        deadline = tf_time_min(deadline, tf_keyring_deadline(c->keyring));
    }
    if (c->lost_since != TF_NEVER) {
        deadline = tf_time_min(deadline, tf_time_add(c->lost_since, c->node->config.limits.session_timeout));
    }
    tf_node_arm(c->timer, deadline);
}

static void over(tf_connection *c)
{
    tf_node *node = c->node;
    if (c->peer != NULL) {
        tf_peer_session_over(c->peer, c->closed_by_peer ? c->close_code : (uint64_t)TF_CLOSE_INTERNAL, c->why);
    }
    if (c->stream != NULL) { /* a CLOSE for which there was no room follows what was written */
        size_t len = tf_link_pull_stream(c->link, tf_edge_now(), node->scratch, TF_STREAM_RECORD);
        tf_pending_linger(node, &c->stream, tf_slice_of(node->scratch, len));
    }
    connection_free(c);
}

void tf_connection_flush(tf_connection *c)
{
    tf_link_event event;
    flush_stream(c);
    tf_connection_flush_datagrams(c);
    while (tf_link_next_event(c->link, &event)) {
        handle_event(c, &event);
    }
    if (c->failed) {
        over(c);
        return;
    }
    tf_time now = tf_edge_now();
    watch_loss(c, now);
    if (c->lost_since != TF_NEVER && now >= tf_time_add(c->lost_since, c->node->config.limits.session_timeout)) {
        tf_log_peer who = tf_connection_log_peer(c);
        tf_log_event(c->node->config.log, TF_LOG_WARN, "session_timeout", &who);
        (void)snprintf(c->why, sizeof(c->why), "session timeout");
        over(c);
        return;
    }
    if (!c->announced && tf_link_is_carrying(c->link)) {
        c->announced = true;
        if (c->peer != NULL) {
            tf_peer_carrying(c->peer);
        }
    }
    set_timer(c);
}

void tf_connection_close(tf_connection *c, tf_close_code code, const char *reason)
{
    tf_link_close(c->link, tf_edge_now(), code, tf_slice_str(reason));
    flush_stream(c);
    tf_connection_flush_datagrams(c);
    c->failed = true;
    (void)snprintf(c->why, sizeof(c->why), "%s", reason);
    over(c);
}
