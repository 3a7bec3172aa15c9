/* The life of a node: its loop, its listeners, its turn, its events. */
#include <stdio.h>
#include <stdlib.h>

#include "node/hub_objects.h"
#include "node/node_internal.h"
#include "proto/version.h"

#define NODE_DEDUP_BYTES ((size_t)128 << 10) /* of each half of the shared filter: 64 Ki segments */
#define NODE_RUNS_TURN 64u         /* runs of the hub between two looks at the sockets */

static void set_defaults(tf_node_limits *limits)
{
#define DEFAULT(field, value)                                                                                          \
    do {                                                                                                               \
        if (limits->field == 0) {                                                                                      \
            limits->field = (value);                                                                                   \
        }                                                                                                              \
    } while (0)
    DEFAULT(max_in_flight, TF_MAX_IN_FLIGHT);
    DEFAULT(max_message, TF_MESSAGE_MAX);
    DEFAULT(window_segments, TF_WINDOW_SEGMENTS);
    DEFAULT(window_bytes, TF_WINDOW_BYTES);
    DEFAULT(peers, TF_CONNECTIONS);
    DEFAULT(handshakes, TF_HANDSHAKES);
    DEFAULT(channels, TF_CHANNELS_MAX);
    DEFAULT(store_bytes, TF_STORE_MEMORY_BYTES);
    DEFAULT(session_timeout, TF_SESSION_TIMEOUT);
    DEFAULT(keepalive, TF_KEEPALIVE);
    DEFAULT(rehandshake, TF_REHANDSHAKE_AGE);
    DEFAULT(key_phase_packets, TF_KEY_PHASE_PACKETS);
#undef DEFAULT
}

static int compare_grants(const void *a, const void *b)
{
    return memcmp(((const tf_node_grant *)a)->id.bytes, ((const tf_node_grant *)b)->id.bytes, TF_NODE_ID_LEN);
}

static const tf_node_grant *find_grant(const tf_node *node, const tf_node_id *id)
{
    tf_node_grant key = {.id = *id};
    return node->grant_count == 0 ? NULL
                                  : bsearch(&key, node->grants, node->grant_count, sizeof(key), compare_grants);
}

bool tf_node_allows(const tf_node *node, const tf_node_id *id)
{
    return node->config.accept_any || find_grant(node, id) != NULL;
}

bool tf_node_trusts_as_relay(const tf_node *node, const tf_node_id *id)
{
    const tf_node_grant *grant = find_grant(node, id);
    return grant != NULL && grant->relay;
}

tf_routes tf_node_standby(const tf_node *node, const tf_node_id *id)
{
    const tf_node_grant *grant = find_grant(node, id);
    return grant != NULL ? grant->standby : 0;
}

static bool allow(void *ctx, const tf_node_id *id)
{
    return tf_node_allows(ctx, id);
}

void tf_node_hello(tf_node *node, tf_hello *hello, tf_routes routes, tf_routes data)
{
    const tf_node_limits *limits = &node->config.limits;
    tf_hello_init(hello);
    tf_offer *offer = &hello->offer;
    (void)snprintf(offer->software, sizeof(offer->software), "twofold/%s", TF_VERSION);
    offer->features = TF_FEATURE_REVOKE;
    offer->routes = routes;
    offer->data = (tf_data_routes){data, data};
    while (offer->datagram.connection_id == 0 ||
           tf_map_get(&node->connection_ids, offer->datagram.connection_id, NULL)) {
        offer->datagram.connection_id = tf_rand_u64(node->rand);
    }
    offer->limits.max_in_flight = limits->max_in_flight;
    offer->limits.max_message = limits->max_message;
    offer->limits.window_bytes = limits->window_bytes;
    offer->limits.window_segments = limits->window_segments;
    offer->keepalive_ms = (uint32_t)(limits->keepalive / TF_MS);
    offer->instance = node->instance;
    offer->exclusive = node->config.exclusive;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void on_wait(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_node *node = ctx;
    node->awake = true; /* also where the loop was only looked at */
}

static void on_trim(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_node *node = ctx;
    tf_mem_cache_trim(node->mem_cache);
    tf_edge_mem_trim();
}

static tf_err make_cores(tf_node *node)
{
    tf_hub_config hub_config = {.mem = node->mem,
                                .rand = node->rand,
                                .store = &node->store,
                                .node_id = *tf_identity_node_id(node->config.identity),
                                .instance = node->instance,
                                .max_in_flight = node->config.limits.max_in_flight,
                                .max_message = node->config.limits.max_message,
                                .max_channels = node->config.limits.channels};
    tf_err err = tf_hub_new(&node->hub, &hub_config);
    if (err != TF_OK) {
        return err;
    }
    tf_bloom_config bloom = {.bytes = NODE_DEDUP_BYTES, .key = tf_rand_u64(node->rand)};
    return tf_dedup_new(&node->dedup, &bloom, node->mem);
}

/* Whoever lives is asked to answer, and whatever is down is tried again, at once. */
static void on_network_changed(void *ctx)
{
    tf_node *node = ctx;
    tf_log_event(node->config.log, TF_LOG_INFO, "network_changed", NULL);
    for (tf_connection *c = node->connections; c != NULL; c = c->next) {
        tf_link_probe(c->link, tf_edge_now());
        tf_hub_touch(node->hub, c->conn);
    }
    tf_peer_network_changed_all(node);
}

/* Without one a route that is lost is noticed by its probes alone. */
static void make_netwatch(tf_node *node)
{
    const tf_netwatch_config config = {
        .base = node->base, .mem = node->mem, .changed = on_network_changed, .ctx = node};
    int fd = tf_netwatch_socket();
    if (fd < 0 || tf_netwatch_new(&node->netwatch, fd, &config) != TF_OK) {
        node->netwatch = NULL;
        tf_log_event(node->config.log, TF_LOG_DEBUG, "no_network_events", NULL);
    }
}

static tf_err make_edges(tf_node *node)
{
    struct event_config *config = event_config_new();
    if (config == NULL) {
        return TF_ERR_NOMEM;
    }
    (void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    node->base = event_base_new_with_config(config);
    event_config_free(config);
    if (node->base == NULL) {
        return TF_ERR_NOMEM;
    }
    node->wait = event_new(node->base, -1, 0, on_wait, node);
    node->hub_timer = event_new(node->base, -1, 0, on_wait, node);
    node->summary = event_new(node->base, -1, 0, on_wait, node);
    node->trim = event_new(node->base, -1, 0, on_trim, node);
    if (node->wait == NULL || node->hub_timer == NULL || node->summary == NULL || node->trim == NULL) {
        return TF_ERR_NOMEM;
    }
    make_netwatch(node);
    tf_err err = tf_acceptor_init(node);
    if (err == TF_OK) {
        err = tf_identity_ssl_ctx(&node->server_ctx, node->config.identity, true, allow, node);
    }
    return err != TF_OK ? err : tf_identity_ssl_ctx(&node->client_ctx, node->config.identity, false, NULL, NULL);
}

static void free_grants(tf_node *node)
{
    tf_free(node->mem, node->grants, node->grant_count * sizeof(*node->grants));
    node->grants = NULL;
    node->grant_count = 0;
}

tf_err tf_node_set_grants(tf_node *node, const tf_node_grant *grants, size_t count, bool accept_any)
{
    tf_node_grant *copy = NULL;
    tf_connection *next = NULL;
    if (count > 0) {
        copy = tf_alloc(node->mem, count * sizeof(*copy));
        if (copy == NULL) {
            return TF_ERR_NOMEM;
        }
        memcpy(copy, grants, count * sizeof(*copy));
        qsort(copy, count, sizeof(*copy), compare_grants);
    }
    free_grants(node);
    node->grants = copy;
    node->grant_count = count;
    node->config.accept_any = accept_any;
    for (tf_connection *c = node->connections; c != NULL; c = next) {
        next = c->next;
        if (c->peer == NULL && !tf_node_allows(node, &c->peer_id)) {
            tf_connection_close(c, TF_CLOSE_REFUSED, "this key is no longer let in");
        }
    }
    return TF_OK;
}

tf_err tf_node_new(tf_node **out, const tf_node_config *config, char why[TF_WHY_MAX])
{
    char reason[TF_WHY_MAX] = "";
    tf_mem_cache *cache = NULL;
    tf_err err = tf_mem_cache_new(&cache);
    if (err != TF_OK) {
        return err;
    }
    const tf_mem *mem = tf_mem_cache_get(cache);
    tf_node *node = tf_alloc(mem, sizeof(*node));
    if (node == NULL) {
        tf_mem_cache_free(cache);
        return TF_ERR_NOMEM;
    }
    *node = (tf_node){.config = *config, .mem_cache = cache, .mem = mem, .rand = tf_edge_rand()};
    set_defaults(&node->config.limits);
    while (node->instance == 0) {
        node->instance = tf_rand_u64(node->rand);
    }
    tf_list_init(&node->objects);
    tf_list_init(&node->handshakes);
    tf_list_init(&node->lingers);
    tf_map_init(&node->sessions, mem, tf_rand_u64(node->rand));
    tf_map_init(&node->connection_ids, mem, tf_rand_u64(node->rand));
    tf_map_init(&node->keys, mem, tf_rand_u64(node->rand));
    tf_stream_buffers_init(&node->buffers, mem);
    err = tf_node_set_grants(node, config->grants, config->grant_count, config->accept_any);
    if (err == TF_OK) {
        err = make_edges(node);
    }
    if (err == TF_OK) {
        err = tf_node_store_open(node, reason);
    }
    if (err == TF_OK) {
        err = make_cores(node);
    }
    if (err != TF_OK) {
        tf_node_free(node);
        if (why != NULL) {
            (void)snprintf(why, TF_WHY_MAX, "%s", reason[0] != '\0' ? reason : tf_err_text(err));
        }
        return err;
    }
    *out = node;
    return TF_OK;
}

static void free_listens(tf_node *node)
{
    while (node->listens != NULL) {
        tf_listen *listen = node->listens;
        node->listens = listen->next;
        tf_listener_free(listen->listener);
        tf_datagram_free(listen->socket);
        tf_free(node->mem, listen, sizeof(*listen));
    }
}

void tf_node_free(tf_node *node)
{
    if (node == NULL) {
        return;
    }
    node->draining = true; /* nobody redials */
    while (node->connections != NULL) {
        tf_connection_close(node->connections, TF_CLOSE_NORMAL, "the node ends");
    }
    tf_peer_free_all(node);
    tf_acceptor_free_all(node);
    free_listens(node);
    tf_stream_buffers_clear(&node->buffers);
    tf_node_store_close(node); /* first: what its threads still commit is the hub's memory */
    tf_hub_free(node->hub);
    tf_node_objects_free(node);
    tf_dedup_free(node->dedup);
    tf_map_clear(&node->sessions);
    tf_map_clear(&node->connection_ids);
    tf_map_clear(&node->keys);
    SSL_CTX_free(node->server_ctx);
    SSL_CTX_free(node->client_ctx);
    tf_netwatch_free(node->netwatch);
    tf_node_free_timer(node->wait);
    tf_node_free_timer(node->hub_timer);
    tf_node_free_timer(node->summary);
    tf_node_free_timer(node->relief);
    tf_node_free_timer(node->trim);
    if (node->base != NULL) {
        (void)event_base_loop(node->base, EVLOOP_NONBLOCK); /* a look-up that was cancelled is freed by the loop */
        event_base_free(node->base);
    }
    free_grants(node);
    tf_mem_cache *cache = node->mem_cache;
    tf_free(node->mem, node, sizeof(*node));
    tf_mem_cache_free(cache);
}

/* -- listeners ----------------------------------------------------------------------------------------------------- */

static void on_accepted(void *ctx, int fd, const tf_address *peer)
{
    (void)peer;
    tf_listen *listen = ctx;
    tf_acceptor_accepted(listen->node, fd);
}

static void on_turned_away(void *ctx)
{
    const tf_listen *listen = ctx;
    tf_log_event(listen->node->config.log, TF_LOG_WARN, "descriptors_used_up", NULL);
}

static void on_packet(void *ctx, const tf_datagram_path *from, tf_slice packet)
{
    tf_listen *listen = ctx;
    tf_connection_packet(listen->node, listen->socket, from, packet);
}

static void on_batch(void *ctx)
{
    (void)ctx; /* the turn of the loop ends in tf_node_settle */
}

static void on_writable(void *ctx)
{
    tf_listen *listen = ctx;
    for (tf_connection *c = listen->node->connections; c != NULL; c = c->next) {
        if (c->socket == listen->socket) {
            tf_hub_touch(listen->node->hub, c->conn);
        }
    }
}

static void on_unsent(void *ctx, const tf_address *to, int system_error, size_t len)
{
    tf_listen *listen = ctx;
    tf_connection_unsent(listen->node, listen->socket, to, system_error, len);
}

static const tf_datagram_ops listen_datagram_ops = {
    .packet = on_packet, .batch = on_batch, .writable = on_writable, .soft_error = on_unsent};

static tf_err open_listen(tf_node *node, tf_listen *listen, const tf_address *address)
{
    int tcp = -1;
    int udp = -1;
    listen->node = node;
    int failure = tf_listen_pair(address, &tcp, &udp, &listen->address);
    if (failure != 0) {
        listen->failure = failure;
        return TF_ERR_IO;
    }
    tf_listener_config config = {.base = node->base,
                                 .mem = node->mem,
                                 .accepted = on_accepted,
                                 .turned_away = on_turned_away,
                                 .ctx = listen};
    tf_datagram_config datagram = {
        .base = node->base, .mem = node->mem, .ops = &listen_datagram_ops, .ctx = listen};
    tf_err err = tf_listener_new(&listen->listener, tcp, &config);
    tf_err datagram_err = tf_datagram_open(&listen->socket, udp, &datagram);
    return err != TF_OK ? err : datagram_err;
}

static void listen_failed(tf_err err, int failure, const char *address, char *why, size_t cap)
{
    if (failure == EADDRINUSE) {
        (void)snprintf(why, cap, "cannot listen on %s: the port is taken; another number, or port 0 for a free one",
                       address);
    } else if (failure == EACCES) {
        (void)snprintf(why, cap, "cannot listen on %s: ports below 1024 need a privilege; choose a higher one", address);
    } else if (failure == EADDRNOTAVAIL) {
        (void)snprintf(why, cap, "cannot listen on %s: this machine has no such address", address);
    } else {
        (void)snprintf(why, cap, "cannot listen on %s: %s", address,
                       failure != 0 ? strerror(failure) : tf_err_text(err));
    }
}

tf_err tf_node_listen(tf_node *node, const char *address, char *why, size_t cap)
{
    tf_endpoint endpoint;
    tf_address literal;
    char text[TF_WHY_MAX];
    if (tf_endpoint_parse(&endpoint, tf_slice_str(address), true, text) != TF_OK) {
        (void)snprintf(why, cap, "%s", text);
        return TF_ERR_USAGE;
    }
    if (tf_endpoint_literal(&endpoint, &literal) != TF_OK) {
        (void)snprintf(why, cap, "'%s' is a name; give the address to listen on, such as 127.0.0.1:7420 or [::]:7420",
                       endpoint.host);
        return TF_ERR_USAGE;
    }
    tf_listen *listen = tf_alloc(node->mem, sizeof(*listen));
    if (listen == NULL) {
        (void)snprintf(why, cap, "out of memory");
        return TF_ERR_NOMEM;
    }
    tf_err err = open_listen(node, listen, &literal);
    if (err != TF_OK) {
        listen_failed(err, listen->failure, address, why, cap);
        tf_listener_free(listen->listener);
        tf_datagram_free(listen->socket);
        tf_free(node->mem, listen, sizeof(*listen));
        return err;
    }
    tf_listen **last = &node->listens;
    while (*last != NULL) {
        last = &(*last)->next;
    }
    *last = listen;
    TF_LOG(node->config.log, TF_LOG_INFO, "listening", NULL, tf_log_address("address", &listen->address));
    return TF_OK;
}

bool tf_node_uri(const tf_node *node, char *out, size_t cap)
{
    tf_uri uri = {0};
    char text[TF_URI_TEXT_MAX];
    if (node->listens == NULL) {
        return false;
    }
    uri.node = *tf_identity_node_id(node->config.identity);
    tf_endpoint_from_address(&uri.stream, &node->listens->address);
    uri.datagram = uri.stream;
    (void)snprintf(out, cap, "%s", tf_uri_format(&uri, text));
    return true;
}

/* -- the turn ------------------------------------------------------------------------------------------------------ */

void tf_node_free_timer(struct event *timer)
{
    if (timer != NULL) {
        event_free(timer);
    }
}

void tf_node_arm(struct event *timer, tf_time deadline)
{
    if (deadline == TF_NEVER) {
        (void)event_del(timer);
        return;
    }
    tf_time now = tf_edge_now();
    tf_time wait = deadline > now ? deadline - now : 0;
    struct timeval tv = {.tv_sec = (time_t)(wait / TF_SECOND), .tv_usec = (suseconds_t)(wait % TF_SECOND)};
    (void)event_add(timer, &tv);
}

static void flush_sockets(tf_node *node)
{
    for (tf_listen *listen = node->listens; listen != NULL; listen = listen->next) {
        (void)tf_datagram_flush(listen->socket);
    }
    tf_peer_flush_all(node);
}

void tf_node_settle(tf_node *node)
{
    bool more = true;
    for (unsigned i = 0; i < NODE_RUNS_TURN && more; i++) {
        tf_hub_event event;
        tf_conn *conn = NULL;
        more = tf_hub_run(node->hub, tf_edge_now(), tf_edge_wall_ms());
        while (tf_hub_next_event(node->hub, &event)) {
            tf_connection_failed(tf_conn_owner(event.conn), event.code, event.text);
        }
        while (tf_hub_next_dirty(node->hub, &conn)) {
            tf_connection_flush(tf_conn_owner(conn));
        }
    }
    flush_sockets(node);
    if (more) {
        node->awake = true;
    }
    tf_node_arm(node->hub_timer, tf_hub_deadline(node->hub));
    tf_log_tick(node->config.log, tf_edge_now());
    tf_node_arm(node->summary, tf_log_deadline(node->config.log));
}

void tf_node_run(tf_node *node, tf_time max_wait)
{
    int flags = EVLOOP_ONCE;
    tf_node_settle(node);
    node->awake = node->awake || tf_hub_has_app_events(node->hub);
    if (node->awake || max_wait == 0 || tf_node_store_watch(node)) {
        flags = EVLOOP_ONCE | EVLOOP_NONBLOCK; /* NONBLOCK alone goes on while any socket is ready */
    } else if (max_wait != TF_NEVER) {
        tf_node_arm(node->wait, tf_time_add(tf_edge_now(), max_wait));
    }
    node->awake = false;
    node->turns++;
    (void)event_base_loop(node->base, flags);
    tf_node_store_awake(node);
    (void)event_del(node->wait);
    tf_node_settle(node);
}

bool tf_node_next_event(tf_node *node, tf_node_event *out)
{
    for (tf_peer *peer = node->peers; peer != NULL; peer = tf_peer_next(peer)) {
        if (tf_peer_next_event(peer, out)) {
            return true;
        }
    }
    return tf_node_next_object_event(node, out);
}

struct event_base *tf_node_loop(tf_node *node)
{
    return node->base;
}

void tf_node_wake(tf_node *node)
{
    node->awake = true;
}

void tf_node_drain(tf_node *node)
{
    node->draining = true;
    tf_hub_drain(node->hub);
    for (tf_listen *listen = node->listens; listen != NULL; listen = listen->next) {
        tf_listener_pause(listen->listener, true);
    }
}

bool tf_node_is_drained(const tf_node *node)
{
    for (const tf_connection *c = node->connections; c != NULL; c = c->next) {
        if (tf_link_is_busy(c->link)) { /* who has gone does not come back to a node that drains */
            return false;
        }
    }
    return tf_hub_is_drained(node->hub);
}

void tf_node_get_stats(const tf_node *node, tf_node_stats *out)
{
    *out = node->stats;
    out->sessions_now = node->connection_count;
}
