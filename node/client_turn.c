/* What comes from the peer, and what is due to go out. */
#include "node/client_internal.h"

#define RETRY_LEAST (50 * TF_MS) /* before anything but a send is asked for again, whatever the peer says */

/* -- requests ------------------------------------------------------------------------------------------------------ */

tf_time tf_client_retry_at(const tf_client *client, const tf_result_refusal *refusal)
{
    uint64_t after_ms = refusal->retry_after_ms < 60000u ? refusal->retry_after_ms : 60000u;
    return tf_time_add(client->hub->now, tf_time_max(after_ms * TF_MS, RETRY_LEAST));
}

tf_err tf_client_request(tf_client *client, tf_request *request, const tf_router_send *send)
{
    tf_hub *hub = client->hub;
    tf_local promise = TF_LOCAL_NONE;
    tf_err err = tf_map_reserve(&hub->requests, 1);
    if (err != TF_OK) {
        return err;
    }
    err = tf_router_deliver(hub->router, hub->now, send, &promise);
    if (err == TF_ERR_LIMIT_ITEMS) {
        return TF_ERR_AGAIN; /* as many results as the peer owes at a time */
    }
    if (err == TF_OK) {
        request->client = client;
        request->promise = promise;
        tf_list_append(&client->requests, &request->in_requests);
        err = tf_map_put(&hub->requests, promise, (uintptr_t)request);
        TF_ASSERT(err == TF_OK);
    }
    return err;
}

static tf_err request_open(tf_client_channel *channel)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_client *client = channel->client;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_open_write(&w, &(tf_args_open){.channel = tf_slice_of(channel->name, channel->name_len),
                                            .existing_only = !channel->creates});
    TF_ASSERT(tf_wr_ok(&w));
    tf_router_send send = {.target = tf_session_peer_root(client->conn->session),
                           .method = tf_slice_str("open"),
                           .args = tf_slice_of(bytes, tf_wr_len(&w)),
                           .want_result = true};
    tf_err err = tf_client_request(client, &channel->open_request, &send);
    if (err == TF_OK) {
        channel->open = TF_OPEN_REQUESTED;
    }
    return err;
}

static tf_err request_close(tf_client_channel *channel)
{
    static const uint8_t empty_map[] = {0x80};
    tf_router_send send = {.target = channel->remote,
                           .method = tf_slice_str("close"),
                           .args = tf_slice_of(empty_map, sizeof(empty_map)),
                           .want_result = true};
    tf_err err = tf_client_request(channel->client, &channel->close_request, &send);
    if (err == TF_OK) {
        channel->close_requested = true;
    }
    return err;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static bool is_close_due(const tf_client_channel *channel)
{
    return channel->close_wanted && !channel->close_requested && tf_list_is_empty(&channel->sends);
}

/* One request of the channel, if one is due. */
static tf_step step(tf_client_channel *channel, tf_err *err)
{
    if (channel->open == TF_OPEN_REFUSED || channel->open == TF_OPEN_REQUESTED) {
        return TF_STEP_IDLE;
    }
    if (channel->waiting) {
        if (channel->client->hub->now < channel->retry_at) {
            return channel->open == TF_OPEN_DONE ? tf_client_send_step(channel, err) : TF_STEP_IDLE;
        }
        channel->waiting = false;
        channel->retry_at = TF_NEVER;
    }
    if (channel->open == TF_OPEN_NONE) {
        *err = request_open(channel);
    } else if (channel->sub == TF_SUB_WANTED) {
        *err = tf_client_sub_request(channel);
    } else if (tf_client_sub_wants_more(channel)) {
        *err = tf_client_sub_more(channel);
    } else if (tf_client_cursor_is_due(channel)) {
        *err = tf_client_cursor_request(channel);
    } else if (is_close_due(channel)) {
        *err = request_close(channel);
    } else {
        return tf_client_send_step(channel, err);
    }
    if (*err == TF_OK) {
        return TF_STEP_SENT;
    }
    return *err == TF_ERR_AGAIN ? TF_STEP_BLOCKED : TF_STEP_ERROR;
}

tf_err tf_client_push(tf_client *client)
{
    tf_list_node *node = NULL;
    tf_err asked = tf_client_asks_push(client);
    if (asked == TF_OK) {
        asked = tf_client_names_push(client);
    }
    if (asked != TF_OK) {
        return asked;
    }
    while ((node = tf_list_first(&client->active)) != NULL) {
        tf_client_channel *channel = TF_CONTAINER(node, tf_client_channel, in_active);
        tf_err err = TF_OK;
        switch (step(channel, &err)) {
        case TF_STEP_BLOCKED:
            return TF_OK; /* an answer, or room in the queue, brings us here again */
        case TF_STEP_ERROR:
            return err;
        case TF_STEP_IDLE:
            tf_list_remove(node);
            break;
        case TF_STEP_SENT: /* the others first */
            tf_list_remove(node);
            tf_list_append(&client->active, node);
            break;
        }
    }
    return TF_OK;
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

static tf_err opened(tf_client_channel *channel, const tf_router_event *event)
{
    tf_result_open result;
    if (event->kind != TF_RESOLUTION_DATA || event->ref_count != 1 || event->refs[0].kind != TF_REF_OBJECT ||
        tf_result_open_read(event->data, &result) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    tf_note *note = tf_client_note(channel, TF_CLIENT_OPENED, 0);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    note->event.epoch = result.epoch;
    tf_client_queue(channel->client, note);
    channel->open = TF_OPEN_DONE;
    channel->remote = event->refs[0].local;
    tf_client_sends_age(channel, result.dedup_age_ms);
    tf_router_hold(channel->client->hub->router, channel->remote);
    tf_client_activate(channel);
    return TF_OK;
}

static tf_err closed(tf_client_channel *channel)
{
    tf_note *note = tf_client_note(channel, TF_CLIENT_CLOSED, 0);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_client_queue(channel->client, note);
    channel->close_wanted = false;
    channel->close_requested = false;
    return TF_OK;
}

/* For good: with all that waits for it. Without memory for that the next session asks, and hears it, again. */
static tf_err refuse_channel(tf_client_channel *channel, const tf_result_refusal *refusal)
{
    tf_err err = tf_client_sends_refuse(channel, refusal);
    if (err == TF_OK) {
        err = tf_client_asks_refuse(channel, refusal);
    }
    if (err == TF_OK) {
        channel->open = TF_OPEN_REFUSED;
    }
    return err;
}

/* open, subscribe, confirm or close was refused: later again, or never. */
static tf_err request_refused(tf_request *request, const tf_result_refusal *refusal)
{
    tf_client_channel *channel = request->channel;
    tf_note *note = NULL;
    bool is_open = request->kind == TF_REQUEST_OPEN;
    if (request->kind == TF_REQUEST_CONFIRM && !tf_client_cursor_landed(channel)) {
        return TF_OK; /* its subscription ended meanwhile: nobody asks any more */
    }
    if (!refusal->retryable) {
        tf_err err = tf_client_note_refusal(channel, TF_CLIENT_CHANNEL_REFUSED, refusal, &note);
        if (err != TF_OK) {
            return err;
        }
        tf_client_queue(channel->client, note);
    } else {
        channel->waiting = true;
        channel->retry_at = tf_client_retry_at(channel->client, refusal);
        tf_client_wake_at(channel->client, channel->retry_at);
    }
    if (is_open) {
        channel->open = TF_OPEN_NONE;
        return refusal->retryable ? TF_OK : refuse_channel(channel, refusal);
    }
    if (request->kind == TF_REQUEST_CONFIRM) {
        channel->confirm_sent = 0;
        channel->confirmed = refusal->retryable ? channel->confirmed : channel->confirm_durable;
        return TF_OK;
    }
    if (request->kind == TF_REQUEST_CLOSE) {
        channel->close_requested = false;
        channel->close_wanted = refusal->retryable;
        return TF_OK;
    }
    channel->sub = refusal->retryable && channel->sub == TF_SUB_REQUESTED ? TF_SUB_WANTED : TF_SUB_NONE;
    return TF_OK;
}

static tf_err answered(tf_request *request, const tf_router_event *event)
{
    switch (request->kind) {
    case TF_REQUEST_OPEN:
        return opened(request->channel, event);
    case TF_REQUEST_SUBSCRIBE:
        return tf_client_sub_answered(request->channel, event);
    case TF_REQUEST_CLOSE:
        return closed(request->channel);
    case TF_REQUEST_CONFIRM:
        return tf_client_cursor_answered(request->channel);
    case TF_REQUEST_ASK:
        return tf_client_ask_answered(request, event);
    case TF_REQUEST_PUBLISH:
        return tf_client_name_answered(request);
    case TF_REQUEST_SEND:
        return tf_client_send_acked(TF_CONTAINER(request, tf_item, request), event);
    }
    TF_UNREACHABLE();
}

static tf_err refused(tf_request *request, const tf_result_refusal *refusal)
{
    switch (request->kind) {
    case TF_REQUEST_OPEN:
    case TF_REQUEST_SUBSCRIBE:
    case TF_REQUEST_CLOSE:
    case TF_REQUEST_CONFIRM:
        return request_refused(request, refusal);
    case TF_REQUEST_ASK:
        return tf_client_ask_refused(request, refusal);
    case TF_REQUEST_PUBLISH:
        return tf_client_name_refused(request, refusal);
    case TF_REQUEST_SEND:
        return tf_client_send_refused(TF_CONTAINER(request, tf_item, request), refusal);
    }
    TF_UNREACHABLE();
}

tf_err tf_client_resolved(tf_request *request, const tf_router_event *event)
{
    tf_result_refusal refusal;
    tf_list_remove(&request->in_requests);
    (void)tf_map_remove(&request->client->hub->requests, event->local);
    tf_hub_wake(request->client->conn); /* an answer makes room for the next request */
    if (event->kind != TF_RESOLUTION_REJECTION) {
        return answered(request, event);
    }
    return tf_result_refusal_read(event->data, &refusal) == TF_OK ? refused(request, &refusal) : TF_ERR_PEER_SYNTAX;
}

tf_err tf_client_delivered(const tf_call *call, tf_object *sink)
{
    tf_client_channel *channel = (tf_client_channel *)sink;
    const tf_router_event *event = call->event;
    if (channel->client->conn == call->conn && event->result == TF_LOCAL_NONE) {
        if (tf_slice_eq(event->method, tf_slice_str("activity"))) {
            return tf_client_sub_activity(channel, event->args);
        }
        if (tf_slice_eq(event->method, tf_slice_str("gap"))) {
            return tf_client_sub_gap(channel, event->args);
        }
        if (tf_slice_eq(event->method, tf_slice_str("ended"))) {
            return tf_client_sub_ended(channel, event->args);
        }
    }
    return tf_hub_refuse(call->conn, event->result, (tf_slice){NULL, 0}, TF_REFUSAL_BAD_REQUEST);
}

void tf_client_sink_dropped(tf_conn *conn, tf_object *sink)
{
    tf_client_channel *channel = (tf_client_channel *)sink;
    tf_client *client = channel->client;
    if (client->conn != conn || channel->sub != TF_SUB_LIVE) {
        return;
    }
    /* The peer ended it: it is asked for again where it was. */
    tf_router_release(client->hub->router, client->hub->now, channel->subscription);
    channel->subscription = TF_LOCAL_NONE;
    channel->confirm_sent = 0; /* it is told to the next one */
    channel->sub = TF_SUB_WANTED;
    channel->waiting = true;
    channel->retry_at = tf_time_add(client->hub->now, TF_SECOND);
    tf_client_wake_at(client, channel->retry_at);
}

/* -- time ---------------------------------------------------------------------------------------------------------- */

static void tick(tf_client *client)
{
    tf_time now = client->hub->now;
    if (now < client->wake_at) {
        return;
    }
    client->wake_at = TF_NEVER;
    tf_client_asks_tick(client);
    tf_client_names_tick(client);
    for (size_t i = 0; i < client->channel_count; i++) {
        tf_client_channel *channel = client->channels[i];
        tf_client_sends_tick(channel);
        if (channel->waiting && now >= channel->retry_at) {
            tf_client_activate(channel);
        } else if (channel->waiting) {
            tf_client_wake_at(client, channel->retry_at);
        }
    }
}

void tf_clients_tick(tf_hub *hub)
{
    for (tf_list_node *node = hub->clients.head.next; node != &hub->clients.head; node = node->next) {
        tick(TF_CONTAINER(node, tf_client, in_clients));
    }
}

tf_time tf_clients_deadline(const tf_hub *hub)
{
    tf_time deadline = TF_NEVER;
    for (tf_list_node *node = hub->clients.head.next; node != &hub->clients.head; node = node->next) {
        deadline = tf_time_min(deadline, TF_CONTAINER(node, tf_client, in_clients)->wake_at);
    }
    return deadline;
}
