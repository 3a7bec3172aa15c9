/* The datagram route of a connection: packets in and out, and where its peer is. */
#include <errno.h>

#include "node/keyring.h"
#include "node/node_internal.h"

#define PACKETS_TURN 1024u /* packets pulled in one flush; the rest comes in the next turn */

void tf_connection_set_datagram(tf_connection *c, tf_datagram *socket, const tf_address *to, const tf_address *from)
{
    bool first = !c->has_to;
    c->candidate = (tf_address){0}; /* what it came by may be closed */
    c->candidate_socket = NULL;
    c->socket = socket;
    c->to = *to;
    c->from = from == NULL ? (tf_address){0} : *from;
    c->has_to = true;
    uint64_t newest = c->keyring == NULL ? 0 : tf_keyring_newest(c->keyring);
    if (first && newest != 0) {
        tf_link_datagram_up(c->link, tf_edge_now(), newest);
        tf_hub_touch(c->node->hub, c->conn);
    }
}

void tf_connection_forget_socket(tf_node *node, const tf_datagram *socket)
{
    for (tf_connection *c = node->connections; c != NULL; c = c->next) {
        if (c->socket == socket) {
            c->socket = NULL;
        }
        if (c->candidate_socket == socket) {
            c->candidate = (tf_address){0};
            c->candidate_socket = NULL;
        }
    }
}

/* A new address counts only once it has answered a challenge and the old one has not, so that one who races copies of
 * our peer's packets from elsewhere wins nothing. Until then copies go to both. */
static void moved(tf_connection *c, tf_datagram *socket, const tf_datagram_path *from, size_t len)
{
    if (tf_address_eq(&from->peer, &c->to)) {
        return;
    }
    if (!tf_address_is_set(&c->candidate)) {
        c->candidate = from->peer;
        c->candidate_from = from->local;
        c->candidate_socket = socket;
        c->candidate_credit = 0;
        tf_link_datagram_moved(c->link, tf_edge_now());
    }
    if (tf_address_eq(&from->peer, &c->candidate)) {
        c->candidate_credit += 3 * len;
    }
}

void tf_connection_decide_candidate(tf_connection *c, bool takes_it)
{
    tf_log_peer who = tf_connection_log_peer(c);
    if (!tf_address_is_set(&c->candidate)) {
        return; /* another address was set meanwhile */
    }
    TF_LOG(c->node->config.log, TF_LOG_INFO, takes_it ? "address_moved" : "address_kept", &who,
           tf_log_address("from", &c->to), tf_log_address("to", &c->candidate));
    if (takes_it) {
        c->moves++;
        c->to = c->candidate;
        c->from = c->candidate_from;
        c->socket = c->candidate_socket;
    }
    c->candidate = (tf_address){0};
    c->candidate_credit = 0;
}

/* Its keys are used up: nothing goes by datagram until a new handshake brings others. */
static void end_generation(tf_connection *c)
{
    tf_link_datagram_down(c->link, tf_edge_now());
    if (c->peer != NULL) {
        tf_peer_new_generation(c->peer, "keys_used_up");
    }
}

static void count_bad_packet(tf_node *node, tf_err err)
{
    if (err == TF_ERR_PEER_REPLAY) {
        node->stats.packets_replayed++;
    } else if (err == TF_ERR_PEER_SYNTAX) {
        node->stats.packets_unknown++;
    } else {
        node->stats.packets_forged++;
    }
}

void tf_connection_packet(tf_node *node, tf_datagram *socket, const tf_datagram_path *from, tf_slice packet)
{
    uint8_t plain[TF_DATAGRAM_MAX];
    uint64_t id = 0;
    uint64_t found = 0;
    tf_opened opened;
    node->stats.packets_received++;
    if (!tf_keys_packet_connection_id(packet, &id) || !tf_map_get(&node->connection_ids, id, &found)) {
        node->stats.packets_unknown++;
        return;
    }
    tf_connection *c = (tf_connection *)(uintptr_t)found;
    const struct tf_keyring_entry *entry = tf_keyring_find(c->keyring, id);
    if (entry == NULL || c->failed) {
        node->stats.packets_unknown++;
        return;
    }
    uint64_t generation = entry->generation;
    tf_err err = tf_keys_open(entry->keys, tf_edge_now(), packet, plain, sizeof(plain), &opened);
    if (err != TF_OK) {
        count_bad_packet(node, err);
        if (tf_keys_is_exhausted(entry->keys)) {
            end_generation(c);
        }
        return;
    }
    if (!c->has_to || c->socket == NULL) {
        tf_connection_set_datagram(c, socket, &from->peer, &from->local);
    } else if (opened.newest && generation == tf_keyring_newest(c->keyring)) {
        moved(c, socket, from, packet.len);
    }
    err = tf_link_recv_packet(c->link, tf_edge_now(), generation, opened.pn, opened.plain);
    if (err != TF_OK) {
        tf_connection_fail(c, err);
    }
    tf_hub_touch(node->hub, c->conn);
}

/* False: the socket is full. */
static bool send_packet(tf_connection *c, const tf_link_packet *packet, uint8_t *buf, size_t cap)
{
    tf_keys *keys = tf_keyring_get(c->keyring, packet->generation);
    if (keys == NULL) {
        return true; /* erased meanwhile: counts as lost */
    }
    size_t len = packet->len + TF_PACKET_OVERHEAD;
    tf_slice plain = tf_slice_of(buf + TF_PACKET_HEADER, packet->len);
    tf_err err = tf_keys_seal(keys, tf_edge_now(), packet->number, plain, buf, cap);
    if (err != TF_OK) {
        if (tf_keys_is_exhausted(keys)) {
            end_generation(c);
        }
        return true;
    }
    tf_err sent = TF_OK;
    /* One that has not yet answered gets no more than it could send itself. */
    bool in_credit = len <= c->candidate_credit || tf_link_datagram_move_answered(c->link);
    if (!packet->to_current_only && tf_address_is_set(&c->candidate) && in_credit) {
        tf_datagram_path to = {.peer = c->candidate, .local = c->candidate_from};
        c->candidate_credit -= len < c->candidate_credit ? len : c->candidate_credit;
        sent = tf_datagram_send(c->candidate_socket, &to, tf_slice_of(buf, len));
    }
    if (!packet->to_candidate) {
        tf_datagram_path to = {.peer = c->to, .local = c->from};
        sent = tf_datagram_send(c->socket, &to, tf_slice_of(buf, len));
    }
    return sent != TF_ERR_AGAIN;
}

/* Only a size that is refused is news: whether a route works is judged by what comes back. */
void tf_connection_unsent(tf_node *node, const tf_datagram *socket, const tf_address *to, int system_error, size_t len)
{
    for (tf_connection *c = node->connections; c != NULL && system_error == EMSGSIZE; c = c->next) {
        if (c->socket == socket && tf_address_eq(&c->to, to)) {
            tf_link_datagram_refused(c->link, tf_edge_now(), len);
            tf_hub_touch(node->hub, c->conn);
        }
    }
}

void tf_connection_flush_datagrams(tf_connection *c)
{
    uint8_t buf[TF_PACKET_MAX];
    tf_link_packet packet;
    if (c->keyring == NULL || !c->has_to || c->socket == NULL) {
        return;
    }
    for (unsigned i = 0; i < PACKETS_TURN; i++) {
        if (!tf_link_pull_packet(c->link, tf_edge_now(), buf + TF_PACKET_HEADER, TF_PACKET_PLAIN_MAX, &packet)) {
            return;
        }
        if (!send_packet(c, &packet, buf, sizeof(buf))) {
            return;
        }
    }
    tf_hub_touch(c->node->hub, c->conn);
}
