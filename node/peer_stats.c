/* What the routes to a peer did, over all its sessions; and asking by each of them whether it is there. */
#include "node/keyring.h"
#include "node/peer_internal.h"

/* -- one session --------------------------------------------------------------------------------------------------- */

static void add_counters(tf_route_stats *sum, const tf_route_stats *more)
{
    sum->sent_segments += more->sent_segments;
    sum->sent_bytes += more->sent_bytes;
    sum->sent_packets += more->sent_packets;
    sum->received_segments += more->received_segments;
    sum->received_bytes += more->received_bytes;
    sum->first += more->first;
    sum->repeats += more->repeats;
    sum->only += more->only;
    sum->lost += more->lost;
    sum->shed += more->shed;
    sum->retired += more->retired;
    sum->repaired += more->repaired;
    sum->probes += more->probes;
    sum->downs += more->downs;
    sum->told_first += more->told_first;
    sum->told_repeats += more->told_repeats;
    sum->rtt_samples += more->rtt_samples;
    sum->mtu_falls += more->mtu_falls;
    for (size_t i = 0; i < TF_LATE_BUCKETS; i++) {
        sum->late[i] += more->late[i];
    }
}

static void describe_addresses(const tf_connection *c, tf_peer_stats *out)
{
    const tf_address none = {0};
    const tf_stream *stream = c->stream;
    (void)tf_address_format(stream != NULL ? tf_stream_local(stream) : &none, out->routes[TF_ROUTE_STREAM].local);
    (void)tf_address_format(stream != NULL ? tf_stream_remote(stream) : &none, out->routes[TF_ROUTE_STREAM].remote);
    const tf_address *local = &none;
    if (c->socket != NULL) { /* the address that the peer uses; of a dialled peer's own socket it is not known */
        local = tf_address_is_set(&c->from) ? &c->from : tf_datagram_local(c->socket);
    }
    (void)tf_address_format(local, out->routes[TF_ROUTE_DATAGRAM].local);
    (void)tf_address_format(c->has_to ? &c->to : &none, out->routes[TF_ROUTE_DATAGRAM].remote);
}

/* The keys in use: the newest under which a packet of ours was acked, or, before that, the newest. */
static const tf_keys *keys_in_use(const tf_connection *c)
{
    const struct tf_keyring_entry *found = NULL;
    bool found_acked = false;
    for (size_t i = 0; i < TF_KEYRING_MAX; i++) {
        const struct tf_keyring_entry *entry = &c->keyring->entries[i];
        uint64_t number = 0;
        if (entry->keys == NULL) {
            continue;
        }
        bool acked = tf_link_packet_acked(c->link, entry->generation, &number);
        bool newer = found == NULL || entry->generation > found->generation;
        if ((acked && !found_acked) || (acked == found_acked && newer)) {
            found = entry;
            found_acked = acked;
        }
    }
    return found == NULL ? NULL : found->keys;
}

static void describe_keys(const tf_connection *c, tf_peer_stats *out)
{
    tf_keys_stats stats;
    tf_keyring_get_stats(c->keyring, &stats);
    out->packets_sealed += stats.sealed;
    out->packets_opened += stats.opened;
    out->packets_forged += stats.forged;
    out->packets_replayed += stats.replayed;
    out->packets_malformed += stats.malformed + stats.misphased;
    const tf_keys *keys = keys_in_use(c);
    out->has_keys = keys != NULL;
    if (keys != NULL) {
        tf_keys_stats_get(keys, &stats);
        out->keys_since = stats.created;
        out->phase = stats.send_phase;
        out->phase_since = stats.phase_started;
    }
}

/* Adds a session to what is in *out. */
static void add_session(const tf_connection *c, tf_peer_stats *out)
{
    tf_link_stats link;
    tf_link_get_stats(c->link, &link);
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        tf_peer_route *route = &out->routes[i];
        add_counters(&link.routes[i], &route->stats);
        route->stats = link.routes[i];
        route->agreed = (c->agreed.routes & (1u << i)) != 0;
        route->carries = ((c->agreed.send_routes | c->agreed.receive_routes) & (1u << i)) != 0;
    }
    out->connected = true;
    out->messages_sent += link.messages_sent;
    out->messages_received += link.messages_received;
    out->resumes += link.resumes;
    out->moves += c->moves;
    out->ring_segments = link.ring_segments;
    out->ring_bytes = link.ring_bytes;
    describe_addresses(c, out);
    if (c->keyring != NULL) {
        describe_keys(c, out);
    }
}

/* -- a peer -------------------------------------------------------------------------------------------------------- */

void tf_peer_get_stats(const tf_peer *peer, tf_peer_stats *out)
{
    tf_client_stats client;
    *out = peer->past;
    if (peer->connection != NULL) {
        add_session(peer->connection, out);
    }
    tf_client_get_stats(peer->client, &client);
    out->now = tf_edge_now();
    out->dials = peer->dials;
    out->handshakes = peer->handshakes;
    out->sessions = client.sessions;
    out->sends = client.sent;
    out->resends = client.resent;
    out->acks = client.acked;
    out->duplicates = client.duplicates;
    out->refusals = client.refusals;
    out->activities = client.activities;
    out->repeats = client.repeats;
    out->gaps = client.gaps;
}

void tf_peer_keep_stats(tf_peer *peer)
{
    tf_peer_stats all;
    tf_peer_get_stats(peer, &all);
    all.connected = false;
    all.has_keys = false;
    all.ring_segments = 0;
    all.ring_bytes = 0;
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        all.routes[i].agreed = false;
        all.routes[i].carries = false;
    }
    peer->past = all;
}

bool tf_peer_ping(tf_peer *peer, tf_ping *out)
{
    tf_connection *c = peer->connection;
    if (c == NULL || c->failed) {
        return false;
    }
    tf_link_probe(c->link, tf_edge_now());
    *out = (tf_ping){.session = c->session};
    for (size_t i = 0; i < TF_ROUTE_COUNT; i++) {
        out->probes[i] = tf_link_next_probe(c->link, (tf_route)i);
    }
    tf_hub_touch(peer->node->hub, c->conn);
    return true;
}

tf_ping_state tf_peer_pinged(const tf_peer *peer, const tf_ping *ping, tf_route route, tf_time *rtt)
{
    const tf_connection *c = peer->connection;
    if (c == NULL || c->session != ping->session) {
        return TF_PING_LOST;
    }
    if (tf_link_probe_rtt(c->link, route, ping->probes[route], rtt)) {
        return TF_PING_ANSWERED;
    }
    return tf_link_next_probe(c->link, route) > ping->probes[route] ? TF_PING_SENT : TF_PING_WAITING;
}
