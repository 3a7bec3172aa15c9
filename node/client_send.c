/* The queue of sends of one channel: in order, within the window, retried after a retryable refusal (S7).
 *
 * Before the cursor everything is in flight, from it on nothing is. After a retryable refusal nothing more goes until all
 * that is in flight has its answer; then the oldest goes alone, and with every ack one more may be in flight. */
#include <xxhash.h>

#include "node/client_internal.h"
#include "node/name.h"

static tf_slice client_id_of(const tf_item *item)
{
    return tf_slice_of(item->bytes, item->client_id_len);
}

static tf_slice meta_of(const tf_item *item)
{
    return tf_slice_of(item->bytes + item->client_id_len, item->meta_len);
}

static tf_slice body_of(const tf_item *item)
{
    return tf_slice_of(item->bytes + item->client_id_len + item->meta_len, item->body_len);
}

/* In client->ids while it is in flight. Two with one hash go one after the other, no more. */
static uint64_t hash_of(const tf_item *item)
{
    return XXH3_64bits_withSeed(item->bytes, item->client_id_len, item->request.channel->id_seed);
}

static tf_item *item_at(tf_list_node *node)
{
    return TF_CONTAINER(node, tf_item, in_channel);
}

/* -- into the queue ------------------------------------------------------------------------------------------------ */

/* S2: instance, counter: unique for this node id for ever. */
size_t tf_client_make_id(tf_client *client, uint8_t out[TF_CLIENT_ID_MAX])
{
    tf_hex16(client->config.instance, out);
    out[16] = '-';
    return 17u + tf_decimal(++client->made, out + 17);
}

static tf_item *make_item(tf_client_channel *channel, tf_time now, tf_slice client_id, const tf_send *send)
{
    size_t size = sizeof(tf_item) + client_id.len + send->meta.len + send->body.len;
    tf_item *item = tf_alloc(channel->client->hub->config.mem, size);
    if (item == NULL) {
        return NULL;
    }
    *item = (tf_item){.note = {.event = {.channel = channel->index, .cookie = send->cookie}, .size = size, .weight = size},
                      .request = {.kind = TF_REQUEST_SEND, .channel = channel},
                      .was_sent = send->was_sent,
                      .sent_since = now,
                      .sent_before = send->sent_ago,
                      .refused_since = TF_NEVER,
                      .cookie = send->cookie,
                      .expires_ms = send->expires_ms,
                      .client_id_len = client_id.len,
                      .meta_len = send->meta.len,
                      .body_len = send->body.len};
    uint8_t *at = item->bytes;
    (void)tf_client_keep(&at, client_id);
    (void)tf_client_keep(&at, send->meta);
    (void)tf_client_keep(&at, send->body);
    return item;
}

static bool is_queue_full(const tf_client *client, size_t size)
{
    return client->queued_items > 0 && (client->queued_items >= client->config.queue_items ||
                                        client->queued_bytes + size > client->config.queue_bytes);
}

tf_err tf_client_send(tf_client *client, tf_time now, size_t channel, const tf_send *send)
{
    uint8_t made[TF_CLIENT_ID_MAX];
    tf_slice client_id = send->client_id;
    TF_ASSERT(channel < client->channel_count);
    tf_hub_clock(client->hub, now);
    tf_client_channel *ch = client->channels[channel];
    if (client_id.len > 0 && !tf_client_id_is_valid(client_id)) {
        return TF_ERR_USAGE;
    }
    if (send->body.len > TF_BODY_MAX || send->meta.len > TF_META_MAX) {
        return TF_ERR_LIMIT_BYTES;
    }
    if (ch->open == TF_OPEN_REFUSED) {
        return TF_ERR_CLOSED;
    }
    if (is_queue_full(client, sizeof(tf_item) + TF_CLIENT_ID_MAX + send->meta.len + send->body.len)) {
        client->wants_room = true;
        return TF_ERR_AGAIN;
    }
    if (client_id.len == 0) {
        client_id = tf_slice_of(made, tf_client_make_id(client, made));
    }
    tf_item *item = make_item(ch, now, client_id, send);
    if (item == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_list_append(&ch->sends, &item->in_channel);
    if (ch->cursor == &ch->sends.head) {
        ch->cursor = &item->in_channel;
    }
    client->queued_items++;
    client->queued_bytes += item->note.weight;
    tf_client_activate(ch);
    return TF_OK;
}

/* -- out of the queue ---------------------------------------------------------------------------------------------- */

/* The item leaves the queue; it still counts until its event is pulled. */
static void unlink_item(tf_item *item)
{
    tf_client_channel *channel = item->request.channel;
    if (channel->cursor == &item->in_channel) {
        channel->cursor = item->in_channel.next;
    }
    tf_list_remove(&item->in_channel);
}

/* Its answer came, or will not come in this session. */
static void land(tf_item *item)
{
    tf_client_channel *channel = item->request.channel;
    if (item->in_flight) {
        item->in_flight = false;
        channel->in_flight--;
        channel->client->in_flight--;
        (void)tf_map_remove(&channel->client->ids, hash_of(item));
    }
}

static tf_err report_refused(tf_item *item, const tf_result_refusal *refusal)
{
    tf_client_channel *channel = item->request.channel;
    tf_client *client = channel->client;
    tf_result_refusal told = *refusal;
    tf_note *note = NULL;
    told.client_id = client_id_of(item);
    tf_err err = tf_client_note_refusal(channel, TF_CLIENT_REFUSED, &told, &note);
    if (err != TF_OK) {
        return err;
    }
    note->event.cookie = item->cookie;
    note->weight = item->note.weight;
    tf_client_queue(client, note);
    unlink_item(item);
    tf_free(client->hub->config.mem, item, item->note.size);
    return TF_OK;
}

static tf_result_refusal own_refusal(tf_refusal refusal)
{
    return (tf_result_refusal){.code = tf_refusal_code(refusal),
                               .message = tf_refusal_message(refusal),
                               .retryable = tf_refusal_is_retryable(refusal)};
}

/* When a send that is not in flight is given up; TF_NEVER: not. *why: with which refusal. */
static tf_time gives_up_at(const tf_item *item, tf_result_refusal *why)
{
    const tf_client_channel *channel = item->request.channel;
    tf_time retry_limit = channel->client->config.retry_limit;
    tf_time limit = channel->resend_limit;
    tf_time refused = TF_NEVER;
    tf_time forgotten = TF_NEVER;
    if (retry_limit != 0 && item->refused_since != TF_NEVER) {
        refused = tf_time_add(item->refused_since, retry_limit);
    }
    if (item->was_sent && limit != TF_NEVER) {
        forgotten = tf_time_add(item->sent_since, limit > item->sent_before ? limit - item->sent_before : 0);
    }
    if (forgotten < refused) {
        *why = (tf_result_refusal){.code = tf_slice_str("unknown"),
                                   .message = tf_slice_str("no answer came while the peer remembered the send")};
        return forgotten;
    }
    if (refused != TF_NEVER) {
        *why = own_refusal(item->refused_for); /* what kept it from being accepted */
    }
    return refused;
}

/* All that is in flight has its answer and the time has come: the oldest goes alone. */
static bool may_recover(tf_client_channel *channel)
{
    if (channel->in_flight > 0 || channel->client->hub->now < channel->resend_at) {
        return false;
    }
    channel->recovering = false;
    channel->resend_at = TF_NEVER;
    channel->window = 1;
    channel->cursor = channel->sends.head.next;
    return true;
}

/* TF_ERR_LIMIT_BYTES: never, nor anything larger. */
static tf_err encode_and_send(tf_client *client, tf_item *item)
{
    tf_hub *hub = client->hub;
    tf_writer w;
    tf_args_send args = {.client_id = client_id_of(item),
                         .body = body_of(item),
                         .meta = meta_of(item),
                         .expires_ms = (uint64_t)item->expires_ms};
    TF_ASSERT(tf_args_send_bound(&args) <= hub->scratch_size);
    tf_wr_init(&w, hub->scratch, hub->scratch_size);
    tf_args_send_write(&w, &args);
    TF_ASSERT(tf_wr_ok(&w));
    tf_router_send send = {.target = item->request.channel->remote,
                           .method = tf_slice_str("send"),
                           .args = tf_slice_of(hub->scratch, tf_wr_len(&w)),
                           .want_result = true};
    return tf_client_request(client, &item->request, &send);
}

/* It will not be sent, not again or not at all. */
static tf_step give_up(tf_item *item, const tf_result_refusal *refusal, tf_err *err)
{
    *err = report_refused(item, refusal);
    return *err == TF_OK ? TF_STEP_SENT : TF_STEP_ERROR;
}

static void sent(tf_item *item)
{
    tf_client_channel *channel = item->request.channel;
    tf_client *client = channel->client;
    client->stats.sent++;
    if (item->was_sent) {
        client->stats.resent++;
    } else {
        item->was_sent = true;
        item->sent_since = client->hub->now;
    }
    item->in_flight = true;
    channel->in_flight++;
    client->in_flight++;
    channel->cursor = item->in_channel.next;
}

tf_step tf_client_send_step(tf_client_channel *channel, tf_err *err)
{
    tf_client *client = channel->client;
    tf_result_refusal refusal;
    if (channel->recovering && !may_recover(channel)) {
        return TF_STEP_IDLE;
    }
    if (channel->cursor == &channel->sends.head || channel->in_flight >= channel->window) {
        return TF_STEP_IDLE;
    }
    if (client->in_flight >= tf_client_window(client)) {
        return TF_STEP_BLOCKED;
    }
    tf_item *item = item_at(channel->cursor);
    if (tf_map_get(&client->ids, hash_of(item), NULL)) {
        return TF_STEP_IDLE; /* one at a time under one client id: the answer of the one before comes first */
    }
    if (client->hub->now >= gives_up_at(item, &refusal)) {
        return give_up(item, &refusal, err);
    }
    *err = tf_map_reserve(&client->ids, 1);
    if (*err == TF_OK) {
        *err = encode_and_send(client, item);
    }
    if (*err == TF_ERR_AGAIN) {
        return TF_STEP_BLOCKED;
    }
    if (*err == TF_ERR_LIMIT_BYTES) {
        refusal = own_refusal(TF_REFUSAL_MESSAGE_TOO_LARGE);
        return give_up(item, &refusal, err);
    }
    if (*err != TF_OK) {
        return TF_STEP_ERROR;
    }
    *err = tf_map_put(&client->ids, hash_of(item), 1);
    TF_ASSERT(*err == TF_OK);
    sent(item);
    return TF_STEP_SENT;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

tf_err tf_client_send_acked(tf_item *item, const tf_router_event *event)
{
    tf_client_channel *channel = item->request.channel;
    tf_client *client = channel->client;
    tf_result_ack ack;
    if (event->kind != TF_RESOLUTION_DATA || tf_result_ack_read(event->data, &ack) != TF_OK ||
        !tf_slice_eq(ack.client_id, client_id_of(item))) {
        return TF_ERR_PEER_SYNTAX;
    }
    memcpy(item->id, ack.id.data, ack.id.len);
    tf_client_event *out = &item->note.event;
    out->type = TF_CLIENT_ACK;
    out->client_id = client_id_of(item);
    out->id = tf_slice_of(item->id, ack.id.len);
    out->seq = ack.seq;
    out->timestamp_ms = (int64_t)ack.timestamp_ms;
    out->duplicate = ack.duplicate;
    out->via = client->conn->via;
    land(item);
    unlink_item(item);
    if (channel->window < tf_client_window(client)) {
        channel->window++;
    } else {
        channel->window = UINT32_MAX;
    }
    client->stats.acked++;
    client->stats.duplicates += ack.duplicate ? 1u : 0u;
    tf_client_queue(client, &item->note);
    if (!ack.duplicate) {
        tf_client_sub_own(channel, ack.seq);
    }
    tf_client_activate(channel);
    return TF_OK;
}

tf_err tf_client_send_refused(tf_item *item, const tf_result_refusal *refusal)
{
    tf_client_channel *channel = item->request.channel;
    tf_client *client = channel->client;
    tf_time now = client->hub->now;
    client->stats.refusals++;
    land(item);
    if (item->refused_since == TF_NEVER) {
        item->refused_since = now;
    }
    tf_refusal cause = tf_refusal_find(refusal->code);
    item->refused_for = cause != TF_REFUSAL_NONE ? cause : TF_REFUSAL_UNAVAILABLE;
    tf_result_refusal given_up = {.retryable = true};
    tf_time gives_up = gives_up_at(item, &given_up);
    if (!refusal->retryable || now >= gives_up) {
        tf_client_activate(channel);
        return report_refused(item, refusal->retryable && !given_up.retryable ? &given_up : refusal);
    }
    uint64_t after_ms = refusal->retry_after_ms < 60000u ? refusal->retry_after_ms : 60000u;
    tf_time due = tf_time_add(now, after_ms * TF_MS);
    channel->resend_at = channel->recovering ? tf_time_max(channel->resend_at, due) : due;
    channel->recovering = true;
    tf_client_wake_at(client, channel->resend_at);
    tf_client_wake_at(client, gives_up);
    tf_client_activate(channel);
    return TF_OK;
}

/* -- time, and the end --------------------------------------------------------------------------------------------- */

void tf_client_sends_reset(tf_client_channel *channel)
{
    for (tf_list_node *node = channel->sends.head.next; node != &channel->sends.head; node = node->next) {
        land(item_at(node));
    }
    channel->cursor = channel->sends.head.next;
    channel->recovering = false;
    channel->resend_at = TF_NEVER;
    channel->window = UINT32_MAX;
    tf_list_node *first = tf_list_first(&channel->sends);
    if (first != NULL) {
        tf_result_refusal given_up;
        tf_client_wake_at(channel->client, gives_up_at(item_at(first), &given_up));
    }
}

/* Refuses those that have waited too long; they did so in their order. */
static void refuse_overdue(tf_client_channel *channel)
{
    tf_client *client = channel->client;
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&channel->sends)) != NULL && !item_at(node)->in_flight) {
        tf_result_refusal refusal;
        tf_time when = gives_up_at(item_at(node), &refusal);
        if (client->hub->now < when || report_refused(item_at(node), &refusal) != TF_OK) {
            tf_client_wake_at(client, tf_time_max(when, tf_time_add(client->hub->now, TF_MS)));
            return;
        }
    }
}

void tf_client_sends_age(tf_client_channel *channel, uint64_t dedup_age_ms)
{
    tf_time timeout = channel->client->config.session_timeout;
    tf_time age = dedup_age_ms == 0 || dedup_age_ms >= TF_NEVER / TF_MS ? TF_NEVER : dedup_age_ms * TF_MS;
    channel->resend_limit = age == TF_NEVER ? TF_NEVER : age - tf_time_min(age, timeout);
}

void tf_client_sends_tick(tf_client_channel *channel)
{
    tf_client *client = channel->client;
    refuse_overdue(channel);
    if (!channel->recovering) {
        return;
    }
    if (client->hub->now < channel->resend_at) {
        tf_client_wake_at(client, channel->resend_at); /* also while some are in flight: their answers may come before */
    } else if (channel->in_flight == 0) {
        tf_client_activate(channel);
    }
}

tf_err tf_client_sends_refuse(tf_client_channel *channel, const tf_result_refusal *refusal)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&channel->sends)) != NULL) {
        land(item_at(node));
        tf_err err = report_refused(item_at(node), refusal);
        if (err != TF_OK) {
            return err;
        }
    }
    return TF_OK;
}

void tf_client_sends_clear(tf_client_channel *channel)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&channel->sends)) != NULL) {
        tf_item *item = item_at(node);
        tf_list_remove(node);
        tf_free(channel->client->hub->config.mem, item, item->note.size);
    }
}
