#include "node/client.h"

#include <xxhash.h>

#include "node/client_internal.h"
#include "node/name.h"

#define QUEUE_ITEMS 4096u
#define QUEUE_BYTES ((uint64_t)16 * 1024 * 1024)

/* -- life ---------------------------------------------------------------------------------------------------------- */

tf_err tf_client_new(tf_client **out, tf_hub *hub, const tf_client_config *config)
{
    tf_client *client = tf_alloc(hub->config.mem, sizeof(*client));
    if (client == NULL) {
        return TF_ERR_NOMEM;
    }
    *client = (tf_client){.config = *config, .hub = hub, .wake_at = TF_NEVER};
    if (config->queue_items == 0) {
        client->config.queue_items = QUEUE_ITEMS;
    }
    if (config->queue_bytes == 0) {
        client->config.queue_bytes = QUEUE_BYTES;
    }
    if (config->session_timeout == 0) {
        client->config.session_timeout = TF_SESSION_TIMEOUT;
    }
    tf_list_init(&client->requests);
    tf_map_init(&client->ids, hub->config.mem, hub->hash_key);
    tf_list_init(&client->active);
    tf_list_init(&client->asks);
    tf_list_init(&client->names);
    tf_list_init(&client->events);
    tf_list_append(&hub->clients, &client->in_clients);
    *out = client;
    return TF_OK;
}

static void free_current(tf_client *client)
{
    if (client->current != NULL) {
        tf_free(client->hub->config.mem, client->current, client->current->size);
        client->current = NULL;
    }
}

static void free_channel(tf_client *client, tf_client_channel *channel)
{
    tf_client_sends_clear(channel);
    tf_list_remove(&channel->in_active);
    (void)tf_map_remove(&client->hub->objects, channel->sink.local);
    tf_free(client->hub->config.mem, channel, sizeof(*channel));
}

void tf_client_free(tf_client *client)
{
    if (client == NULL) {
        return;
    }
    const tf_mem *mem = client->hub->config.mem;
    tf_list_node *node = NULL;
    tf_client_unbind(client, client->hub->now);
    free_current(client);
    tf_client_asks_clear(client);
    tf_client_names_clear(client);
    while ((node = tf_list_first(&client->events)) != NULL) {
        tf_note *note = TF_CONTAINER(node, tf_note, in_events);
        tf_list_remove(node);
        if (note->holds) {
            tf_hub_release(client->hub, client->hub->now, note->event.object);
        }
        tf_free(mem, note, note->size);
    }
    for (size_t i = 0; i < client->channel_count; i++) {
        free_channel(client, client->channels[i]);
    }
    tf_free(mem, client->channels, client->channel_capacity * sizeof(tf_client_channel *));
    tf_map_clear(&client->ids);
    tf_list_remove(&client->in_clients);
    tf_free(mem, client, sizeof(*client));
}

/* -- binding ------------------------------------------------------------------------------------------------------- */

void tf_client_bind(tf_client *client, tf_time now, tf_conn *conn)
{
    TF_ASSERT(client->conn == NULL && conn->client == NULL && conn->hub == client->hub);
    tf_hub_clock(client->hub, now);
    client->conn = conn;
    conn->client = client;
    client->stats.sessions++;
    for (size_t i = 0; i < client->channel_count; i++) {
        tf_client_activate(client->channels[i]);
    }
    tf_hub_wake(conn);
}

static void unbind_channel(tf_client_channel *channel)
{
    const tf_hub *hub = channel->client->hub;
    if (channel->open != TF_OPEN_REFUSED) {
        channel->open = TF_OPEN_NONE;
    }
    tf_router_release(hub->router, hub->now, channel->remote);
    tf_router_release(hub->router, hub->now, channel->subscription);
    channel->remote = TF_LOCAL_NONE;
    channel->retry_at = TF_NEVER;
    channel->waiting = false;
    channel->close_requested = false;
    channel->confirm_waits = false;
    channel->confirm_sent = 0;
    channel->subscription = TF_LOCAL_NONE;
    if (channel->sub == TF_SUB_REQUESTED || channel->sub == TF_SUB_LIVE) {
        channel->sub = TF_SUB_WANTED;
    } else if (channel->sub == TF_SUB_ENDING) {
        channel->sub = TF_SUB_NONE;
    }
    tf_client_sends_reset(channel);
}

/* Their answers are not waited for any more. */
static void forget_requests(tf_client *client)
{
    tf_hub *hub = client->hub;
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&client->requests)) != NULL) {
        tf_request *request = TF_CONTAINER(node, tf_request, in_requests);
        tf_list_remove(node);
        (void)tf_map_remove(&hub->requests, request->promise);
        tf_router_release(hub->router, hub->now, request->promise);
    }
}

void tf_client_unbind(tf_client *client, tf_time now)
{
    if (client->conn == NULL) {
        return;
    }
    tf_hub_clock(client->hub, now);
    client->conn->client = NULL;
    client->conn = NULL;
    forget_requests(client);
    for (size_t i = 0; i < client->channel_count; i++) {
        unbind_channel(client->channels[i]);
    }
    tf_client_asks_reset(client);
    tf_client_names_reset(client);
    TF_ASSERT(client->in_flight == 0);
}

bool tf_client_is_bound(const tf_client *client)
{
    return client->conn != NULL;
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

static bool grow(tf_client *client)
{
    const tf_mem *mem = client->hub->config.mem;
    if (client->channel_count < client->channel_capacity) {
        return true;
    }
    size_t capacity = client->channel_capacity == 0 ? 4 : client->channel_capacity * 2;
    tf_client_channel **channels = tf_alloc(mem, capacity * sizeof(*channels));
    if (channels == NULL) {
        return false;
    }
    if (client->channel_count > 0) {
        memcpy(channels, client->channels, client->channel_count * sizeof(*channels));
    }
    tf_free(mem, client->channels, client->channel_capacity * sizeof(*channels));
    client->channels = channels;
    client->channel_capacity = capacity;
    return true;
}

static tf_err make_channel(tf_client *client, tf_slice name)
{
    tf_hub *hub = client->hub;
    tf_client_channel *channel = grow(client) ? tf_alloc(hub->config.mem, sizeof(*channel)) : NULL;
    if (channel == NULL) {
        return TF_ERR_NOMEM;
    }
    uint64_t index = client->channel_count;
    *channel = (tf_client_channel){.sink = {TF_OBJECT_SINK, tf_router_new_object(hub->router)},
                                   .client = client,
                                   .index = client->channel_count,
                                   .id_seed = XXH3_64bits_withSeed(&index, sizeof(index), hub->hash_key),
                                   .retry_at = TF_NEVER,
                                   .resend_at = TF_NEVER,
                                   .resend_limit = TF_NEVER,
                                   .window = UINT32_MAX,
                                   .open_request = {.kind = TF_REQUEST_OPEN, .channel = channel},
                                   .subscribe_request = {.kind = TF_REQUEST_SUBSCRIBE, .channel = channel},
                                   .close_request = {.kind = TF_REQUEST_CLOSE, .channel = channel},
                                   .confirm_request = {.kind = TF_REQUEST_CONFIRM, .channel = channel},
                                   .name_len = name.len};
    memcpy(channel->name, name.data, name.len);
    tf_list_init(&channel->sends);
    channel->cursor = &channel->sends.head;
    if (tf_map_put(&hub->objects, channel->sink.local, (uintptr_t)&channel->sink) != TF_OK) {
        tf_free(hub->config.mem, channel, sizeof(*channel));
        return TF_ERR_NOMEM;
    }
    client->channels[client->channel_count++] = channel;
    tf_client_activate(channel);
    return TF_OK;
}

tf_err tf_client_find(tf_client *client, tf_time now, tf_slice name, size_t *channel)
{
    tf_hub_clock(client->hub, now);
    if (!tf_channel_name_is_valid(name)) {
        return TF_ERR_USAGE;
    }
    for (size_t i = 0; i < client->channel_count; i++) {
        if (tf_slice_eq(tf_client_channel_name(client, i), name)) {
            *channel = i;
            return TF_OK;
        }
    }
    if (client->channel_count >= TF_CLIENT_CHANNELS_MAX) {
        return TF_ERR_LIMIT_ITEMS;
    }
    tf_err err = make_channel(client, name);
    if (err == TF_OK) {
        *channel = client->channel_count - 1;
    }
    return err;
}

tf_err tf_client_open(tf_client *client, tf_time now, tf_slice name, size_t *channel)
{
    tf_err err = tf_client_find(client, now, name, channel);
    if (err == TF_OK) {
        client->channels[*channel]->creates = true;
    }
    return err;
}

tf_slice tf_client_channel_name(const tf_client *client, size_t channel)
{
    TF_ASSERT(channel < client->channel_count);
    return tf_slice_of(client->channels[channel]->name, client->channels[channel]->name_len);
}

tf_err tf_client_close_channel(tf_client *client, tf_time now, size_t channel)
{
    TF_ASSERT(channel < client->channel_count);
    tf_hub_clock(client->hub, now);
    tf_client_channel *ch = client->channels[channel];
    if (ch->open == TF_OPEN_REFUSED) {
        return TF_ERR_CLOSED;
    }
    ch->close_wanted = true;
    tf_client_activate(ch);
    return TF_OK;
}

void tf_client_activate(tf_client_channel *channel)
{
    tf_client *client = channel->client;
    if (!tf_list_has(&channel->in_active)) {
        tf_list_append(&client->active, &channel->in_active);
    }
    if (client->conn != NULL) {
        tf_hub_wake(client->conn);
    }
}

void tf_client_wake_at(tf_client *client, tf_time when)
{
    client->wake_at = tf_time_min(client->wake_at, when);
}

/* -- events -------------------------------------------------------------------------------------------------------- */

tf_note *tf_client_note(const tf_client_channel *channel, tf_client_event_type type, size_t bytes)
{
    tf_note *note = tf_alloc(channel->client->hub->config.mem, sizeof(*note) + bytes);
    if (note != NULL) {
        *note = (tf_note){.event = {.type = type, .channel = channel->index}, .size = sizeof(*note) + bytes};
    }
    return note;
}

void tf_client_queue(tf_client *client, tf_note *note)
{
    tf_list_append(&client->events, &note->in_events);
}

tf_slice tf_client_keep(uint8_t **at, tf_slice bytes)
{
    tf_slice kept = tf_slice_of(*at, bytes.len);
    if (bytes.len > 0) {
        memcpy(*at, bytes.data, bytes.len);
    }
    *at += bytes.len;
    return kept;
}

tf_err tf_client_note_refusal(const tf_client_channel *channel, tf_client_event_type type,
                              const tf_result_refusal *refusal, tf_note **out)
{
    tf_note *note = tf_client_note(channel, type, refusal->code.len + refusal->message.len + refusal->client_id.len);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.code = tf_client_keep(&at, refusal->code);
    note->event.message = tf_client_keep(&at, refusal->message);
    note->event.client_id = tf_client_keep(&at, refusal->client_id);
    note->event.retryable = refusal->retryable;
    note->event.retry_after_ms = refusal->retry_after_ms;
    *out = note;
    return TF_OK;
}

/* The send has its answer, and the application has it now. */
static void give_back(tf_client *client, const tf_note *note)
{
    client->queued_items--;
    client->queued_bytes -= note->weight;
    bool has_room = client->queued_items <= client->config.queue_items / 2 &&
                    client->queued_bytes <= client->config.queue_bytes / 2;
    if (client->wants_room && has_room) {
        client->wants_room = false;
        client->has_room_event = true;
    }
}

bool tf_client_next_event(tf_client *client, tf_client_event *out)
{
    free_current(client);
    if (client->has_room_event) {
        client->has_room_event = false;
        *out = (tf_client_event){.type = TF_CLIENT_ROOM};
        return true;
    }
    tf_list_node *node = tf_list_first(&client->events);
    if (node == NULL) {
        return false;
    }
    tf_note *note = TF_CONTAINER(node, tf_note, in_events);
    tf_list_remove(node);
    client->current = note;
    if (note->event.type == TF_CLIENT_ACTIVITY || note->event.type == TF_CLIENT_GAP) {
        tf_client_channel *channel = client->channels[note->event.channel];
        channel->backlog -= note->weight;
        if (tf_client_sub_wants_more(channel)) {
            tf_client_activate(channel);
        }
    }
    if (note->event.type == TF_CLIENT_ACTIVITY || note->event.type == TF_CLIENT_GAP ||
        note->event.type == TF_CLIENT_SUBSCRIBED) {
        tf_client_cursor_handed(client->channels[note->event.channel], &note->event);
    }
    if (note->event.type == TF_CLIENT_ACK || note->event.type == TF_CLIENT_REFUSED) {
        give_back(client, note);
    }
    client->ask_count -= note->event.type == TF_CLIENT_ANSWER ? 1u : 0u;
    *out = note->event;
    return true;
}

/* -- what it tells ------------------------------------------------------------------------------------------------- */

bool tf_client_has_room(const tf_client *client)
{
    return client->queued_items < client->config.queue_items && client->queued_bytes < client->config.queue_bytes;
}

bool tf_client_has_unacked(const tf_client *client)
{
    return client->queued_items > 0;
}

uint32_t tf_client_window(const tf_client *client)
{
    if (client->conn == NULL) {
        return 0;
    }
    uint32_t announced = client->conn->config.peer_max_in_flight;
    uint32_t wanted = client->config.max_in_flight;
    return wanted == 0 || wanted > announced ? announced : wanted;
}

size_t tf_client_in_flight(const tf_client *client)
{
    return client->in_flight;
}

void tf_client_get_stats(const tf_client *client, tf_client_stats *out)
{
    *out = client->stats;
    out->queued_items = client->queued_items;
    out->queued_bytes = client->queued_bytes;
}
