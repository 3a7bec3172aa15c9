/* Subscriptions (S8, S10). Each is one position, `next`: all below is queued. While `next` is above the head it is live
 * and gets what is committed at once; else it lags and is fed from the store at its own pace, as far as the subscriber
 * said that it takes more. Nothing else is kept. */
#include "node/hub_internal.h"

#define FEED_TURN 16u /* messages for one subscription before the next one's turn */

bool tf_hub_has_room(const tf_conn *conn)
{
    const tf_hub_config *config = &conn->hub->config;
    return !conn->failed && conn->error == TF_OK && tf_session_out_items(conn->session) < config->out_queue_items &&
           tf_session_out_bytes(conn->session) < config->out_queue_bytes;
}

void tf_hub_activity(const tf_channel *channel, const tf_stored *stored, uint8_t id[TF_ACTIVITY_ID_MAX], tf_activity *out)
{
    *out = (tf_activity){.epoch = channel->epoch,
                         .seq = stored->seq,
                         .id = tf_slice_of(id, tf_stored_id(stored->epoch, stored->seq, id)),
                         .sender = stored->origin,
                         .client_id = stored->client_id,
                         .timestamp_ms = (uint64_t)stored->timestamp_ms,
                         .body = stored->body,
                         .meta = stored->meta,
                         .expires_ms = (uint64_t)stored->expires_ms};
}

/* The arguments, in the hub's scratch: encoded once for all subscribers. */
static tf_slice encode(tf_hub *hub, const tf_channel *channel, const tf_stored *stored)
{
    uint8_t id[TF_ACTIVITY_ID_MAX];
    tf_activity activity;
    tf_writer w;
    tf_hub_activity(channel, stored, id, &activity);
    tf_wr_init(&w, hub->scratch, hub->scratch_size);
    tf_activity_write(&w, &activity);
    TF_ASSERT(tf_wr_ok(&w));
    return tf_slice_of(hub->scratch, tf_wr_len(&w));
}

static void set_live(tf_subscription *subscription)
{
    tf_list_remove(&subscription->in_lagging);
    if (!tf_list_has(&subscription->in_channel)) {
        tf_list_append(&subscription->channel->live, &subscription->in_channel);
        subscription->conn->hub->live_count++;
    }
}

static void leave_live(tf_subscription *subscription)
{
    if (tf_list_has(&subscription->in_channel)) {
        tf_list_remove(&subscription->in_channel);
        subscription->conn->hub->live_count--;
    }
}

/* It lags, or waits until the subscriber takes more. */
static void set_lagging(tf_subscription *subscription)
{
    leave_live(subscription);
    if (subscription->sent >= subscription->limit) {
        tf_list_remove(&subscription->in_lagging);
    } else if (!tf_list_has(&subscription->in_lagging)) {
        tf_list_append(&subscription->conn->lagging, &subscription->in_lagging);
    }
    tf_hub_wake(subscription->conn);
}

/* Hands one message for the sink to the session. */
static tf_err deliver(tf_subscription *subscription, tf_slice method, tf_slice args)
{
    tf_conn *conn = subscription->conn;
    tf_delivery delivery = {.target = subscription->sink, .method = method, .args = args};
    tf_local none = TF_LOCAL_NONE;
    tf_hub_wake(conn);
    return tf_session_deliver(conn->session, conn->hub->now, &delivery, &none);
}

static tf_err deliver_gap(tf_subscription *subscription, uint64_t next, tf_slice reason)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_gap_write(&w, &(tf_gap){subscription->channel->epoch, next, reason});
    TF_ASSERT(tf_wr_ok(&w));
    tf_err err = deliver(subscription, tf_slice_str("gap"), tf_slice_of(bytes, tf_wr_len(&w)));
    if (err == TF_OK) {
        subscription->next = next;
        subscription->sent += tf_wr_len(&w);
    }
    return err;
}

/* One encoded activity. A body that the subscriber does not take is announced as a gap, never left out silently. */
static tf_err deliver_activity(tf_subscription *subscription, uint64_t seq, tf_slice args)
{
    tf_err err = deliver(subscription, tf_slice_str("activity"), args);
    if (err == TF_ERR_LIMIT_BYTES) {
        return deliver_gap(subscription, seq + 1, tf_slice_str("too_large"));
    }
    if (err == TF_OK) {
        subscription->next = seq + 1;
        subscription->sent += args.len;
        subscription->conn->hub->stats.delivered++;
    }
    return err;
}

/* -- live ---------------------------------------------------------------------------------------------------------- */

/* S8: the sender has its ack and moves over its own message by it. */
static bool is_own(const tf_subscription *subscription, const tf_pending *pending)
{
    return subscription->conn == pending->first.conn && pending->first.promise != TF_LOCAL_NONE && !pending->stated &&
           !subscription->echo;
}

/* May it get one more message at once? */
static bool takes_now(const tf_hub *hub, const tf_subscription *subscription)
{
    return hub->fan_out_left > 0 && subscription->sent < subscription->limit && tf_hub_has_room(subscription->conn);
}

static void deliver_live(tf_hub *hub, tf_subscription *subscription, uint64_t seq, tf_slice args)
{
    tf_err err = deliver_activity(subscription, seq, args);
    hub->fan_out_left--;
    if (err == TF_ERR_AGAIN) {
        set_lagging(subscription);
    } else if (err != TF_OK) {
        subscription->conn->error = err;
        tf_hub_wake(subscription->conn);
    }
}

void tf_hub_fan_out(tf_hub *hub, const tf_pending *pending)
{
    tf_channel *channel = pending->channel;
    tf_stored stored = {.seq = pending->seq,
                        .timestamp_ms = pending->timestamp_ms,
                        .epoch = channel->epoch,
                        .expires_ms = pending->expires_ms,
                        .origin = pending->origin,
                        .client_id = tf_hub_pending_client_id(pending),
                        .meta = tf_hub_pending_meta(pending),
                        .body = tf_hub_pending_body(pending)};
    tf_slice args = {NULL, 0};
    tf_list_node *node = channel->live.head.next;
    while (node != &channel->live.head) {
        tf_subscription *subscription = TF_CONTAINER(node, tf_subscription, in_channel);
        node = node->next;
        if (subscription->next > pending->seq) {
            continue; /* begins later */
        }
        if (is_own(subscription, pending)) {
            subscription->next = pending->seq + 1;
        } else if (!takes_now(hub, subscription)) {
            set_lagging(subscription);
        } else {
            args = args.len == 0 ? encode(hub, channel, &stored) : args;
            deliver_live(hub, subscription, pending->seq, args);
        }
    }
}

/* -- from the store ------------------------------------------------------------------------------------------------ */

typedef enum fed {
    FED_ONE,
    FED_OUT, /* it lags no more, or may not get more: it left the list */
    FED_LATER,
    FED_STOP
} fed;

static fed feed_one(tf_hub *hub, tf_subscription *subscription)
{
    const tf_channel *channel = subscription->channel;
    tf_stored stored;
    tf_err err = TF_OK;
    if (subscription->next > channel->head) {
        set_live(subscription);
        return FED_OUT;
    }
    if (subscription->sent >= subscription->limit) {
        set_lagging(subscription);
        return FED_OUT;
    }
    switch (hub->store.table->read(hub->store.ctx, channel->number, subscription->next, &stored)) {
    case TF_STORE_LATER:
        return FED_LATER;
    case TF_STORE_GONE:
        err = deliver_gap(subscription, stored.seq, tf_slice_str("trimmed"));
        break;
    case TF_STORE_DAMAGED:
        err = deliver_gap(subscription, stored.seq, tf_slice_str("damaged"));
        break;
    case TF_STORE_HERE:
        err = deliver_activity(subscription, stored.seq, encode(hub, channel, &stored));
        hub->stats.from_store += err == TF_OK ? 1u : 0u;
        break;
    }
    if (err == TF_OK) {
        return FED_ONE;
    }
    if (err != TF_ERR_AGAIN) {
        subscription->conn->error = err;
        tf_hub_wake(subscription->conn);
    }
    return FED_STOP;
}

/* One subscription's turn; *fed_count messages were fed. */
static fed feed_turn(tf_hub *hub, tf_subscription *subscription, size_t *fed_count)
{
    fed result = FED_ONE;
    for (size_t i = 0; i < FEED_TURN && result == FED_ONE && tf_hub_has_room(subscription->conn); i++) {
        result = feed_one(hub, subscription);
        *fed_count += result == FED_ONE ? 1u : 0u;
    }
    return result;
}

bool tf_hub_feed(tf_hub *hub, tf_conn *conn, size_t budget)
{
    size_t count = 0;
    size_t waiting = 0; /* subscriptions in a row that wait for the store */
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->lagging)) != NULL && tf_hub_has_room(conn)) {
        tf_subscription *subscription = TF_CONTAINER(node, tf_subscription, in_lagging);
        if (count >= budget) {
            return false;
        }
        fed result = feed_turn(hub, subscription, &count);
        if (result == FED_STOP) {
            return true;
        }
        if (result == FED_OUT) {
            waiting = 0;
            continue;
        }
        tf_list_remove(&subscription->in_lagging);
        tf_list_append(&conn->lagging, &subscription->in_lagging);
        waiting = result == FED_LATER ? waiting + 1 : 0;
        if (waiting > conn->subscription_count) {
            if (!tf_list_has(&conn->in_later)) {
                tf_list_append(&hub->later, &conn->in_later);
            }
            return true;
        }
    }
    return true;
}

/* -- subscribe and its end ----------------------------------------------------------------------------------------- */

void tf_hub_subscription_end(tf_hub *hub, tf_subscription *subscription)
{
    tf_conn *conn = subscription->conn;
    tf_list_remove(&subscription->in_conn);
    leave_live(subscription);
    tf_list_remove(&subscription->in_lagging);
    (void)tf_map_remove(&hub->objects, subscription->object.local);
    conn->subscription_count--;
    hub->subscription_count--;
    if (!conn->failed && conn->error == TF_OK) {
        tf_session_release(conn->session, hub->now, subscription->sink);
        tf_hub_wake(conn);
    }
    tf_hub_channel_release(hub, subscription->channel);
    tf_free(hub->config.mem, subscription, sizeof(*subscription));
}

void tf_hub_subscriptions_clear(tf_conn *conn)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->subscriptions)) != NULL) {
        tf_hub_subscription_end(conn->hub, TF_CONTAINER(node, tf_subscription, in_conn));
    }
}

/* Where it begins, and what the subscriber is told about it. */
static tf_err find_start(const tf_call *call, const tf_args_subscribe *args, tf_result_subscribe *out)
{
    const tf_hub *hub = call->hub;
    const tf_channel *channel = call->channel;
    tf_store_channel stored;
    tf_err err = hub->store.table->channel_find(hub->store.ctx, tf_channel_name(channel), &stored);
    if (err != TF_OK) {
        return err;
    }
    *out = (tf_result_subscribe){.epoch = channel->epoch, .head = channel->head, .first = stored.first};
    switch (args->from.kind) {
    case TF_FROM_NEW:
        out->next = channel->head + 1;
        return TF_OK;
    case TF_FROM_FIRST:
        out->next = stored.first;
        return TF_OK;
    case TF_FROM_SEQ:
        /* A position in another numbering says nothing here: all that there is comes (P2, the answer tells). */
        out->next = args->from.value;
        if (out->next < stored.first || (args->has_epoch && args->epoch != channel->epoch)) {
            out->next = stored.first;
        }
        return TF_OK;
    case TF_FROM_TIME:
        out->next = args->from.value > INT64_MAX
                        ? channel->head + 1
                        : hub->store.table->find_time(hub->store.ctx, channel->number, (int64_t)args->from.value);
        return TF_OK;
    }
    TF_UNREACHABLE();
}

static tf_subscription *make(const tf_call *call, const tf_args_subscribe *args, uint64_t next)
{
    tf_hub *hub = call->hub;
    tf_conn *conn = call->conn;
    tf_subscription *subscription = tf_alloc(hub->config.mem, sizeof(*subscription));
    if (subscription == NULL) {
        return NULL;
    }
    *subscription = (tf_subscription){.object = {TF_OBJECT_SUBSCRIPTION, tf_local_next(hub->config.ids)},
                                      .conn = conn,
                                      .channel = call->channel,
                                      .sink = call->event->refs[0].local,
                                      .next = next,
                                      .echo = args->echo,
                                      .limit = args->limit};
    if (tf_map_put(&hub->objects, subscription->object.local, (uintptr_t)subscription) != TF_OK) {
        tf_free(hub->config.mem, subscription, sizeof(*subscription));
        return NULL;
    }
    tf_session_hold(conn->session, subscription->sink);
    call->channel->uses++;
    conn->subscription_count++;
    hub->subscription_count++;
    tf_list_append(&conn->subscriptions, &subscription->in_conn);
    return subscription;
}

static tf_err answer(const tf_call *call, tf_subscription *subscription, const tf_result_subscribe *start)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_subscribe_write(&w, start);
    TF_ASSERT(tf_wr_ok(&w));
    tf_mention ref = {subscription->object.local, TF_REF_OBJECT};
    tf_err err = tf_hub_answer(call->conn, call->event->result, tf_slice_of(bytes, tf_wr_len(&w)), &ref, 1);
    if (err != TF_OK) {
        tf_hub_subscription_end(call->hub, subscription);
        return err == TF_ERR_NOMEM
                   ? err
                   : tf_hub_refuse(call->conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_OVERLOADED);
    }
    if (start->next > call->channel->head) {
        set_live(subscription);
    } else {
        set_lagging(subscription);
    }
    return TF_OK;
}

tf_err tf_hub_subscription_call(const tf_call *call, tf_subscription *subscription)
{
    tf_args_more more;
    if (!tf_slice_eq(call->event->method, tf_slice_str("more")) || subscription->conn != call->conn ||
        call->event->result != TF_LOCAL_NONE || tf_args_more_read(call->event->args, &more) != TF_OK) {
        return tf_hub_refuse(call->conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_BAD_REQUEST);
    }
    if (more.limit > subscription->limit) {
        subscription->limit = more.limit;
        if (!tf_list_has(&subscription->in_channel)) {
            set_lagging(subscription);
        }
    }
    return TF_OK;
}

tf_err tf_hub_subscribe(const tf_call *call, const tf_args_subscribe *args)
{
    const tf_mention *sink = &call->event->refs[0];
    tf_result_subscribe start;
    /* A sink is an object of the subscriber: not one of ours, and no promise. */
    if (sink->kind != TF_REF_OBJECT || tf_hub_object(call->hub, sink->local) != NULL) {
        return tf_hub_refuse(call->conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_BAD_REQUEST);
    }
    if (call->event->result == TF_LOCAL_NONE) {
        return TF_OK; /* nothing to end it by */
    }
    if (call->conn->subscription_count >= call->hub->config.subscriptions_per_peer) {
        return tf_hub_refuse(call->conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_OVERLOADED);
    }
    if (find_start(call, args, &start) != TF_OK) {
        return tf_hub_refuse(call->conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_UNAVAILABLE);
    }
    tf_subscription *subscription = make(call, args, start.next);
    return subscription == NULL ? TF_ERR_NOMEM : answer(call, subscription, &start);
}
