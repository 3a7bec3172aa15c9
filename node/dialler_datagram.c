/* The datagram route to a peer that we dial: which of its addresses, by which socket of ours. A route that stays down gets
 * another socket (a NAT may have forgotten the old one) and the next address, and now and then a new generation (the peer
 * may have forgotten its keys, or be elsewhere), again and again with back-off while the session lives. */
#include <stdio.h>

#include "node/peer_internal.h"

static void datagram_packet(void *ctx, const tf_datagram_path *from, tf_slice packet)
{
    tf_peer *peer = ctx;
    tf_connection_packet(peer->node, peer->socket, from, packet);
}

static void datagram_writable(void *ctx)
{
    tf_peer *peer = ctx;
    if (peer->connection != NULL) {
        tf_hub_touch(peer->node->hub, peer->connection->conn);
    }
}

static void datagram_batch(void *ctx)
{
    (void)ctx; /* the turn of the loop ends in tf_node_settle */
}

static void datagram_unsent(void *ctx, const tf_address *to, int system_error, size_t len)
{
    tf_peer *peer = ctx;
    tf_connection_unsent(peer->node, peer->socket, to, system_error, len);
}

static const tf_datagram_ops peer_datagram_ops = {.packet = datagram_packet,
                                                  .batch = datagram_batch,
                                                  .writable = datagram_writable,
                                                  .soft_error = datagram_unsent};

/* -- the socket ---------------------------------------------------------------------------------------------------- */

/* False: it cannot be had now, and the old one, if any, stays. */
static bool open_socket(tf_peer *peer, int family)
{
    tf_datagram_config config = {
        .base = peer->node->base, .mem = peer->node->mem, .ops = &peer_datagram_ops, .ctx = peer};
    tf_datagram *socket = NULL;
    unsigned interface = if_nametoindex(peer->datagram_bind.interface);
    int fd = tf_datagram_socket(family, &peer->datagram_bind);
    if (fd < 0 || tf_datagram_open(&socket, fd, &config) != TF_OK) {
        return false;
    }
    if (peer->socket != NULL) {
        tf_connection_forget_socket(peer->node, peer->socket);
        tf_datagram_free(peer->socket);
    }
    peer->socket = socket;
    peer->socket_family = family;
    peer->socket_interface = interface;
    return true;
}

/* The first address, from the one at datagram_at on, for which there is a socket. */
static void use_address(tf_peer *peer)
{
    tf_log_peer who = {.id = peer->uri.node};
    peer->reopened_at = tf_edge_now();
    for (size_t tried = 0; tried < peer->datagram_count; tried++) {
        const tf_address *to = &peer->datagram_addresses[peer->datagram_at];
        if (open_socket(peer, to->u.any.sa_family)) {
            TF_LOG(peer->node->config.log, TF_LOG_INFO, "datagram_socket", &who, tf_log_address("to", to),
                   tf_log_address("from", tf_datagram_local(peer->socket)), tf_log_uint("reopened", peer->reopens));
            tf_connection_set_datagram(peer->connection, peer->socket, to, NULL);
            tf_link_probe(peer->connection->link, tf_edge_now());
            tf_hub_touch(peer->node->hub, peer->connection->conn);
            return;
        }
        TF_LOG(peer->node->config.log, TF_LOG_WARN, "datagram_socket_failed", &who, tf_log_address("to", to));
        peer->datagram_at = (peer->datagram_at + 1) % peer->datagram_count;
    }
}

/* -- the addresses ------------------------------------------------------------------------------------------------- */

/* 0: the host to which the stream goes; 1: its family, which has a way there; 2: any other. */
static int rank_of(const tf_peer *peer, const tf_address *address)
{
    const tf_stream *stream = peer->connection->stream;
    if (stream != NULL && tf_address_same_host(address, tf_stream_remote(stream))) {
        return 0;
    }
    return stream != NULL && address->u.any.sa_family == tf_stream_remote(stream)->u.any.sa_family ? 1 : 2;
}

static bool are_known(const tf_peer *peer, const tf_address *addresses, size_t count)
{
    bool same = count == peer->datagram_count;
    for (size_t i = 0; same && i < count; i++) {
        same = tf_address_eq(&addresses[i], &peer->datagram_addresses[i]);
    }
    return same;
}

/* The best one, or the one after that which was tried last. */
static void take_addresses(tf_peer *peer, const tf_address *found, size_t count)
{
    tf_address sorted[TF_RESOLVE_ADDRESSES_MAX];
    size_t n = 0;
    for (int rank = 0; rank <= 2; rank++) {
        for (size_t i = 0; i < count; i++) {
            if (rank_of(peer, &found[i]) == rank) {
                sorted[n++] = found[i];
            }
        }
    }
    bool known = peer->connection->has_to && are_known(peer, sorted, count);
    memcpy(peer->datagram_addresses, sorted, count * sizeof(sorted[0]));
    peer->datagram_count = count;
    peer->datagram_at = known ? (peer->datagram_at + 1) % count : 0;
    use_address(peer);
}

static void datagram_resolved(void *ctx, const tf_address *addresses, size_t count, const char *error)
{
    tf_peer *peer = ctx;
    tf_log_peer who = {.id = peer->uri.node};
    if (count == 0) {
        TF_LOG(peer->node->config.log, TF_LOG_WARN, "datagram_name_failed", &who, tf_log_str("reason", error));
    } else if (peer->connection != NULL) {
        take_addresses(peer, addresses, count);
    }
    tf_resolve_free(peer->datagram_resolve);
    peer->datagram_resolve = NULL;
}

static void look_up(tf_peer *peer, const tf_endpoint *endpoint)
{
    tf_resolve_config config = {.base = peer->node->base, .mem = peer->node->mem};
    tf_address literal;
    tf_resolve_free(peer->datagram_resolve);
    peer->datagram_resolve = NULL;
    if (tf_endpoint_literal(endpoint, &literal) == TF_OK) {
        take_addresses(peer, &literal, 1);
    } else if (tf_resolve_start(&peer->datagram_resolve, &config, endpoint, datagram_resolved, peer) != TF_OK) {
        peer->datagram_resolve = NULL;
    }
}

/* The host that the URI names, or the peer in its WELCOME, or the addresses that were found for the stream. */
static void find_address(tf_peer *peer)
{
    const tf_agreed *agreed = &peer->connection->agreed;
    tf_address addresses[TF_RESOLVE_ADDRESSES_MAX];
    tf_endpoint endpoint = peer->uri.datagram;
    if (peer->uri.has_datagram) {
        look_up(peer, &endpoint);
        return;
    }
    if (agreed->remote_host[0] != '\0') {
        (void)snprintf(endpoint.host, sizeof(endpoint.host), "%s", agreed->remote_host);
        endpoint.port = agreed->remote_port != 0 ? agreed->remote_port : peer->uri.stream.port;
        look_up(peer, &endpoint);
        return;
    }
    memcpy(addresses, peer->addresses, peer->address_count * sizeof(addresses[0]));
    for (size_t i = 0; i < peer->address_count && agreed->remote_port != 0; i++) {
        tf_address_set_port(&addresses[i], agreed->remote_port);
    }
    take_addresses(peer, addresses, peer->address_count);
}

/* -- when ---------------------------------------------------------------------------------------------------------- */

/* It is ours to open it: we have dialled, and both have agreed to have one. */
static bool is_ours(const tf_peer *peer)
{
    const tf_connection *c = peer->connection;
    return c != NULL && !c->failed && c->agreed.dialler && c->keyring != NULL;
}

static bool is_live(const tf_peer *peer)
{
    tf_verdict verdict = tf_link_verdict(peer->connection->link, TF_ROUTE_DATAGRAM);
    return verdict == TF_VERDICT_UP || verdict == TF_VERDICT_STALLED;
}

/* All addresses once, then with back-off. */
static tf_time next_wait(const tf_peer *peer)
{
    tf_time wait = TF_REOPEN_MIN;
    for (uint32_t i = (uint32_t)peer->datagram_count; i < peer->reopens && wait < TF_REOPEN_MAX; i++) {
        wait *= 2;
    }
    wait = tf_time_min(wait, TF_REOPEN_MAX);
    return wait - tf_rand_u64(peer->node->rand) % (wait / 2 + 1);
}

/* Every so often, and ever more seldom, what is new is a whole generation. */
static bool is_generations_turn(const tf_peer *peer)
{
    uint32_t n = peer->reopens;
    return n > peer->datagram_count && (n & (n - 1)) == 0 && peer->connection->stream != NULL;
}

static void reopen(tf_peer *peer)
{
    peer->reopens++;
    tf_node_arm(peer->reopen, tf_time_add(tf_edge_now(), next_wait(peer)));
    if (is_generations_turn(peer)) {
        tf_peer_new_generation(peer, "datagram_down");
    } else {
        find_address(peer);
    }
}

void tf_peer_on_reopen(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    tf_peer *peer = ctx;
    if (is_ours(peer) && !is_live(peer)) {
        reopen(peer);
    }
}

void tf_peer_find_datagram(tf_peer *peer)
{
    if (!is_ours(peer) || (is_live(peer) && peer->connection->socket != NULL)) {
        return;
    }
    if (event_pending(peer->reopen, EV_TIMEOUT, NULL) == 0) {
        tf_node_arm(peer->reopen, tf_time_add(tf_edge_now(), TF_REOPEN_FIRST));
    }
    find_address(peer);
}

void tf_peer_reopen_datagram(tf_peer *peer)
{
    if (is_ours(peer) && event_pending(peer->reopen, EV_TIMEOUT, NULL) == 0) {
        reopen(peer);
    }
}

void tf_peer_datagram_verdict(tf_peer *peer, tf_verdict verdict)
{
    if (verdict == TF_VERDICT_UP) {
        peer->reopens = 0;
        (void)event_del(peer->reopen);
    } else if (verdict == TF_VERDICT_DOWN && is_ours(peer)) {
        bool others = peer->reopens + 1 < peer->datagram_count;
        tf_node_arm(peer->reopen, tf_time_add(tf_edge_now(), others ? 0 : TF_REOPEN_FIRST));
    }
}

/* What it is bound to has gone, or is there again under another index: it would send nothing any more. */
static bool is_stranded(const tf_peer *peer)
{
    const char *name = peer->datagram_bind.interface;
    return peer->socket == NULL || (name[0] != '\0' && if_nametoindex(name) != peer->socket_interface) ||
           !tf_address_is_here(tf_datagram_local(peer->socket));
}

void tf_peer_datagram_network_changed(tf_peer *peer)
{
    tf_time now = tf_edge_now();
    if (!is_ours(peer) || (is_live(peer) && !is_stranded(peer))) {
        return;
    }
    if (now - peer->reopened_at >= TF_REOPEN_MIN) {
        find_address(peer);
    } else {
        tf_node_arm(peer->reopen, tf_time_add(peer->reopened_at, TF_REOPEN_MIN));
    }
}

void tf_peer_datagram_over(tf_peer *peer)
{
    peer->reopens = 0;
    (void)event_del(peer->reopen);
    tf_resolve_free(peer->datagram_resolve);
    peer->datagram_resolve = NULL;
}
