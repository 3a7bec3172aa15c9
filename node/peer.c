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

static tf_slice gap_text(tf_slice reason)
{
    static const char *const texts[][2] = {
        {"trimmed", "a range was trimmed"},
        {"damaged", "a range is damaged"},
        {"too_large", "messages are larger than we take"},
        {"expired", "messages have expired"},
        {"epoch", "another channel epoch begins"},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (tf_slice_eq(reason, tf_slice_str(texts[i][0]))) {
            return tf_slice_str(texts[i][1]);
        }
    }
    return reason;
}

static tf_slice ended_text(tf_slice reason)
{
    if (tf_slice_eq(reason, tf_slice_str("taken_over"))) {
        return tf_slice_str("another subscriber of ours took it over");
    }
    if (tf_slice_eq(reason, tf_slice_str("forbidden"))) {
        return tf_slice_str("we may no longer read the channel");
    }
    return tf_slice_str("the subscription is over");
}

static tf_asked asked_of(tf_ask_kind kind)
{
    static const tf_asked asked[] = {[TF_ASK_CHANNELS] = TF_ASKED_CHANNELS, [TF_ASK_INFO] = TF_ASKED_INFO,
                                     [TF_ASK_TRIM] = TF_ASKED_TRIM,         [TF_ASK_GAPS] = TF_ASKED_GAPS,
                                     [TF_ASK_READ] = TF_ASKED_READ,         [TF_ASK_FORGET] = TF_ASKED_FORGET,
                                     [TF_ASK_REFS] = TF_ASKED_REFS};
    return asked[kind];
}

/* Of the peer itself, not of one of its channels. */
static bool is_of_peer(const tf_client_event *event)
{
    bool asked = event->asked == TF_ASK_CHANNELS || event->asked == TF_ASK_LOOKUP || event->asked == TF_ASK_REFS;
    return event->type == TF_CLIENT_ROOM || event->type == TF_CLIENT_PUBLISHED ||
           event->type == TF_CLIENT_PUBLISH_REFUSED || event->type == TF_CLIENT_WITHDRAWN ||
           (event->type == TF_CLIENT_ANSWER && asked);
}

static void answered(const tf_client_event *in, tf_node_event *out)
{
    if (in->asked == TF_ASK_LOOKUP) {
        out->type = TF_EVENT_FOUND;
        out->local = in->object;
        return;
    }
    out->type = TF_EVENT_ANSWER;
    out->asked = asked_of(in->asked);
}

/* What events of all kinds may have. */
static void fill(tf_peer *peer, const tf_client_event *in, tf_node_event *out)
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
                           .meta = in->meta,
                           .expires_ms = in->expires_ms,
                           .data = in->data,
                           .code = in->code,
                           .text = in->message,
                           .name = in->name};
    out->channel = is_of_peer(in) ? NULL : channel_at(peer, in->channel);
}

static bool translate(tf_peer *peer, const tf_client_event *in, tf_node_event *out)
{
    fill(peer, in, out);
    switch (in->type) {
    case TF_CLIENT_OPENED:
        return false;
    case TF_CLIENT_CLOSED:
        out->type = TF_EVENT_CLOSED;
        return true;
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
        out->text = gap_text(in->code);
        return true;
    case TF_CLIENT_ENDED:
        out->type = TF_EVENT_ENDED;
        out->text = ended_text(in->code);
        return true;
    case TF_CLIENT_CONFIRMED:
        out->type = TF_EVENT_CONFIRMED;
        return true;
    case TF_CLIENT_ANSWER:
        answered(in, out);
        return true;
    case TF_CLIENT_PUBLISHED:
        out->type = TF_EVENT_PUBLISHED;
        return true;
    case TF_CLIENT_PUBLISH_REFUSED:
        out->type = TF_EVENT_PUBLISH_REFUSED;
        return true;
    case TF_CLIENT_WITHDRAWN:
        out->type = TF_EVENT_WITHDRAWN;
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
    tf_client_config config = {.instance = peer->node->instance,
                               .max_in_flight = o->max_in_flight,
                               .retry_limit = o->retry_limit,
                               .session_timeout = peer->node->config.limits.session_timeout};
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

/* The handle of a channel of the client. */
static tf_err remote_get(tf_peer *peer, size_t index, tf_remote **out)
{
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

tf_err tf_remote_open(tf_peer *peer, tf_slice name, tf_remote **out)
{
    size_t index = 0;
    tf_err err = tf_client_open(peer->client, tf_edge_now(), name, &index);
    return err == TF_OK ? remote_get(peer, index, out) : err;
}

tf_err tf_remote_find(tf_peer *peer, tf_slice name, tf_remote **out)
{
    size_t index = 0;
    tf_err err = tf_client_find(peer->client, tf_edge_now(), name, &index);
    return err == TF_OK ? remote_get(peer, index, out) : err;
}

tf_err tf_remote_send(tf_remote *channel, const tf_remote_send_args *send)
{
    tf_send args = {.client_id = send->client_id,
                    .body = send->body,
                    .meta = send->meta,
                    .expires_ms = send->expires_ms,
                    .was_sent = send->was_sent,
                    .sent_ago = send->sent_ago,
                    .cookie = send->cookie};
    return tf_client_send(channel->peer->client, tf_edge_now(), channel->index, &args);
}

size_t tf_peer_make_client_id(tf_peer *peer, uint8_t out[TF_CLIENT_ID_MAX])
{
    return tf_client_make_id(peer->client, out);
}

tf_err tf_remote_subscribe_durable(tf_remote *channel, tf_start start, uint64_t value, tf_slice name)
{
    static const tf_from_kind kinds[] = {[TF_START_NEW] = TF_FROM_NEW,
                                         [TF_START_FIRST] = TF_FROM_FIRST,
                                         [TF_START_SEQ] = TF_FROM_SEQ,
                                         [TF_START_TIME] = TF_FROM_TIME};
    tf_subscribe subscribe = {.from = {.kind = kinds[start], .value = value}, .durable = name};
    return tf_client_subscribe(channel->peer->client, tf_edge_now(), channel->index, &subscribe);
}

tf_err tf_remote_subscribe(tf_remote *channel, tf_start start, uint64_t value)
{
    return tf_remote_subscribe_durable(channel, start, value, (tf_slice){NULL, 0});
}

tf_err tf_remote_confirm(tf_remote *channel, uint64_t seq)
{
    return tf_client_confirm(channel->peer->client, tf_edge_now(), channel->index, seq);
}

bool tf_remote_is_confirming(const tf_remote *channel)
{
    return tf_client_is_confirming(channel->peer->client, channel->index);
}

/* -- questions ----------------------------------------------------------------------------------------------------- */

static tf_err ask(tf_remote *channel, tf_ask question)
{
    return tf_client_ask(channel->peer->client, tf_edge_now(), channel->index, &question);
}

tf_err tf_peer_ask_channels(tf_peer *peer, uint64_t after, uint64_t cookie)
{
    tf_ask question = {.kind = TF_ASK_CHANNELS, .from = after, .cookie = cookie};
    return tf_client_ask(peer->client, tf_edge_now(), 0, &question);
}

tf_err tf_peer_ask_refs(tf_peer *peer, uint64_t after, uint64_t cookie)
{
    tf_ask question = {.kind = TF_ASK_REFS, .from = after, .cookie = cookie};
    return tf_client_ask(peer->client, tf_edge_now(), 0, &question);
}

tf_err tf_peer_lookup(tf_peer *peer, tf_slice name, uint64_t cookie)
{
    tf_ask question = {.kind = TF_ASK_LOOKUP, .name = name, .cookie = cookie};
    return tf_client_ask(peer->client, tf_edge_now(), 0, &question);
}

tf_err tf_peer_publish(tf_peer *peer, tf_slice name, tf_local object)
{
    return tf_client_publish(peer->client, tf_edge_now(), name, object);
}

void tf_peer_withdraw(tf_peer *peer, tf_slice name)
{
    tf_client_withdraw(peer->client, tf_edge_now(), name);
}

tf_err tf_remote_ask_info(tf_remote *channel, uint64_t cookie)
{
    return ask(channel, (tf_ask){.kind = TF_ASK_INFO, .cookie = cookie});
}

tf_err tf_remote_ask_trim(tf_remote *channel, uint64_t before, uint64_t cookie)
{
    return ask(channel, (tf_ask){.kind = TF_ASK_TRIM, .from = before, .cookie = cookie});
}

tf_err tf_remote_ask_gaps(tf_remote *channel, uint64_t from, uint64_t cookie)
{
    return ask(channel, (tf_ask){.kind = TF_ASK_GAPS, .from = from, .cookie = cookie});
}

tf_err tf_remote_ask_read(tf_remote *channel, uint64_t from, uint64_t to, uint64_t cookie)
{
    return ask(channel, (tf_ask){.kind = TF_ASK_READ, .from = from, .to = to, .cookie = cookie});
}

tf_err tf_remote_ask_forget(tf_remote *channel, tf_slice name, uint64_t cookie)
{
    return ask(channel, (tf_ask){.kind = TF_ASK_FORGET, .name = name, .cookie = cookie});
}

tf_err tf_remote_close(tf_remote *channel)
{
    return tf_client_close_channel(channel->peer->client, tf_edge_now(), channel->index);
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
