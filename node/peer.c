/* A peer that we dial, as the library shows it: its events, its channels, its sends. */
#include <stdio.h>

#include "node/peer_internal.h"

/* -- events -------------------------------------------------------------------------------------------------------- */

void tf_peer_push_event(tf_peer *peer, const tf_peer_event_record *event)
{
    if (peer->event_count == PEER_EVENTS_MAX) { /* nobody pulls: the oldest goes */
        peer->event_first = (peer->event_first + 1) % PEER_EVENTS_MAX;
        peer->event_count--;
    }
    peer->events[(peer->event_first + peer->event_count++) % PEER_EVENTS_MAX] = *event;
    peer->node->awake = true;
}

void tf_peer_push_failure(tf_peer *peer, tf_node_event_type type, tf_err err, const char *text)
{
    tf_peer_event_record event = {.type = type, .err = err};
    (void)snprintf(event.text, sizeof(event.text), "%s", text);
    tf_peer_push_event(peer, &event);
}

static tf_remote *channel_at(const tf_peer *peer, size_t index)
{
    tf_remote *channel = peer->channels;
    while (channel != NULL && channel->index != index) {
        channel = channel->next;
    }
    return channel;
}

static bool translate(tf_peer *peer, const tf_client_event *in, tf_node_event *out)
{
    *out = (tf_node_event){.peer = peer,
                           .cookie = in->cookie,
                           .client_id = in->client_id,
                           .id = in->id,
                           .seq = in->seq,
                           .epoch = in->epoch,
                           .timestamp_ms = in->timestamp_ms,
                           .duplicate = in->duplicate,
                           .retryable = in->retryable,
                           .retry_after_ms = in->retry_after_ms,
                           .via = in->via,
                           .sender = in->sender,
                           .body = in->body,
                           .code = in->code,
                           .text = in->message};
    out->channel = in->type == TF_CLIENT_ROOM ? NULL : channel_at(peer, in->channel);
    switch (in->type) {
    case TF_CLIENT_OPENED:
    case TF_CLIENT_CLOSED:
        return false;
    case TF_CLIENT_CHANNEL_REFUSED:
        out->type = TF_EVENT_CHANNEL_REFUSED;
        return true;
    case TF_CLIENT_ACK:
        out->type = TF_EVENT_ACK;
        return true;
    case TF_CLIENT_REFUSED:
        out->type = TF_EVENT_REFUSED;
        return true;
    case TF_CLIENT_SUBSCRIBED:
        out->type = TF_EVENT_SUBSCRIBED;
        out->head = in->head;
        out->first = in->first;
        out->seq = in->next;
        return true;
    case TF_CLIENT_ACTIVITY:
        out->type = TF_EVENT_ACTIVITY;
        return true;
    case TF_CLIENT_GAP:
        out->type = TF_EVENT_GAP;
        out->first = in->expected;
        out->seq = in->got;
        out->text = tf_slice_str(in->epoch_changed ? "another channel epoch begins" : "a range was trimmed");
        return true;
    case TF_CLIENT_ROOM:
        out->type = TF_EVENT_ROOM;
        return true;
    }
    TF_UNREACHABLE();
}

bool tf_peer_next_event(tf_peer *peer, tf_node_event *out)
{
    tf_client_event event;
    if (peer->event_count > 0) {
        peer->current = peer->events[peer->event_first];
        peer->event_first = (peer->event_first + 1) % PEER_EVENTS_MAX;
        peer->event_count--;
        *out = (tf_node_event){.type = peer->current.type,
                               .peer = peer,
                               .err = peer->current.err,
                               .resumed = peer->current.resumed,
                               .route = peer->current.route,
                               .verdict = peer->current.verdict,
                               .text = tf_slice_str(peer->current.text)};
        return true;
    }
    while (tf_client_next_event(peer->client, &event)) {
        if (translate(peer, &event, out)) {
            return true;
        }
    }
    return false;
}

/* -- the library --------------------------------------------------------------------------------------------------- */

static void peer_free(tf_peer *peer)
{
    tf_node *node = peer->node;
    tf_dialler_stop(peer);
    tf_client_free(peer->client);
    while (peer->channels != NULL) {
        tf_remote *channel = peer->channels;
        peer->channels = channel->next;
        tf_free(node->mem, channel, sizeof(*channel));
    }
    tf_free(node->mem, peer, sizeof(*peer));
}

void tf_peer_free_all(tf_node *node)
{
    while (node->peers != NULL) {
        tf_peer *peer = node->peers;
        node->peers = peer->next;
        peer_free(peer);
    }
}

tf_peer *tf_peer_next(const tf_peer *peer)
{
    return peer->next;
}

void tf_peer_flush_all(tf_node *node)
{
    for (tf_peer *peer = node->peers; peer != NULL; peer = peer->next) {
        if (peer->socket != NULL) {
            (void)tf_datagram_flush(peer->socket);
        }
    }
}

void tf_peer_network_changed_all(tf_node *node)
{
    for (tf_peer *peer = node->peers; peer != NULL; peer = peer->next) {
        tf_peer_network_changed(peer);
    }
}

static tf_err peer_start(tf_peer *peer)
{
    const tf_connect_options *o = &peer->options;
    tf_client_config config = {
        .instance = peer->node->instance, .max_in_flight = o->max_in_flight, .retry_limit = o->retry_limit};
    tf_err err = tf_client_new(&peer->client, peer->node->hub, &config);
    if (err == TF_OK && peer->uri.stream_bind[0] != '\0') {
        err = tf_bind_parse(&peer->stream_bind, tf_slice_str(peer->uri.stream_bind));
    }
    if (err == TF_OK && peer->uri.datagram_bind[0] != '\0') {
        err = tf_bind_parse(&peer->datagram_bind, tf_slice_str(peer->uri.datagram_bind));
    }
    return err == TF_OK ? tf_dialler_start(peer) : err;
}

static bool is_dialled(const tf_node *node, const tf_node_id *id)
{
    for (const tf_peer *peer = node->peers; peer != NULL; peer = peer->next) {
        if (tf_node_id_eq(&peer->uri.node, id)) {
            return true;
        }
    }
    return false;
}

tf_err tf_node_connect(tf_node *node, const tf_uri *uri, const tf_connect_options *options, tf_peer **out)
{
    if (tf_node_id_eq(&uri->node, tf_identity_node_id(node->config.identity)) || is_dialled(node, &uri->node)) {
        return TF_ERR_USAGE;
    }
    tf_peer *peer = tf_alloc(node->mem, sizeof(*peer));
    if (peer == NULL) {
        return TF_ERR_NOMEM;
    }
    *peer = (tf_peer){.node = node, .uri = *uri, .options = *options};
    if (peer->options.routes == 0) {
        peer->options.routes = TF_ROUTES_BOTH;
    }
    if (peer->options.connect_timeout == 0) {
        peer->options.connect_timeout = TF_CONNECT_TIMEOUT;
    }
    tf_err err = peer_start(peer);
    if (err != TF_OK) {
        peer_free(peer);
        return err;
    }
    peer->next = node->peers;
    node->peers = peer;
    *out = peer;
    return TF_OK;
}

tf_err tf_remote_open(tf_peer *peer, tf_slice name, tf_remote **out)
{
    size_t index = 0;
    tf_err err = tf_client_open(peer->client, tf_edge_now(), name, &index);
    if (err != TF_OK) {
        return err;
    }
    *out = channel_at(peer, index);
    if (*out != NULL) {
        return TF_OK;
    }
    tf_remote *channel = tf_alloc(peer->node->mem, sizeof(*channel));
    if (channel == NULL) {
        return TF_ERR_NOMEM;
    }
    *channel = (tf_remote){.next = peer->channels, .peer = peer, .index = index};
    peer->channels = channel;
    *out = channel;
    return TF_OK;
}

tf_err tf_remote_send(tf_remote *channel, const tf_remote_send_args *send)
{
    tf_send args = {.client_id = send->client_id, .body = send->body, .cookie = send->cookie};
    return tf_client_send(channel->peer->client, tf_edge_now(), channel->index, &args);
}

tf_err tf_remote_subscribe(tf_remote *channel, tf_start start, uint64_t value)
{
    static const tf_from_kind kinds[] = {[TF_START_NEW] = TF_FROM_NEW,
                                         [TF_START_FIRST] = TF_FROM_FIRST,
                                         [TF_START_SEQ] = TF_FROM_SEQ,
                                         [TF_START_TIME] = TF_FROM_TIME};
    tf_from from = {.kind = kinds[start], .value = value};
    return tf_client_subscribe(channel->peer->client, tf_edge_now(), channel->index, from, false);
}

size_t tf_peer_unacked(const tf_peer *peer)
{
    tf_client_stats stats;
    tf_client_get_stats(peer->client, &stats);
    return stats.queued_items;
}

const tf_node_id *tf_peer_id(const tf_peer *peer)
{
    return &peer->uri.node;
}

tf_slice tf_remote_name(const tf_remote *channel)
{
    return tf_client_channel_name(channel->peer->client, channel->index);
}
