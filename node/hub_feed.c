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

void tf_hub_set_live(tf_subscription *subscription)
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

void tf_hub_set_off(tf_subscription *subscription)
{
    leave_live(subscription);
    tf_list_remove(&subscription->in_lagging);
}

void tf_hub_set_lagging(tf_subscription *subscription)
{
    leave_live(subscription);
    if (subscription->sent >= subscription->limit && subscription->over.len == 0) {
        tf_list_remove(&subscription->in_lagging);
    } else if (!tf_list_has(&subscription->in_lagging)) {
        tf_list_append(&subscription->conn->lagging, &subscription->in_lagging);
    }
    tf_hub_wake(subscription->conn);
}

/* Hands one message for the sink to the session of its host. */
static tf_err deliver(tf_subscription *subscription, tf_slice method, tf_slice args)
{
    const tf_hub *hub = subscription->conn->hub;
    tf_router_send send = {.target = subscription->sink.local, .method = method, .args = args};
    return tf_router_deliver(hub->router, hub->now, &send, NULL);
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

static tf_err deliver_ended(tf_subscription *subscription)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_ended_write(&w, &(tf_ended){subscription->over});
    TF_ASSERT(tf_wr_ok(&w));
    return deliver(subscription, tf_slice_str("ended"), tf_slice_of(bytes, tf_wr_len(&w)));
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
        tf_hub_set_lagging(subscription);
    } else if (err != TF_OK) {
        subscription->conn->error = err;
        tf_hub_wake(subscription->conn);
    }
}

static bool has_expired(const tf_hub *hub, int64_t expires_ms)
{
    return expires_ms != 0 && expires_ms <= hub->wall_ms;
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
        } else if (has_expired(hub, pending->expires_ms) || !takes_now(hub, subscription)) {
            tf_hub_set_lagging(subscription);
        } else {
            args = args.len == 0 ? encode(hub, channel, &stored) : args;
            deliver_live(hub, subscription, pending->seq, args);
        }
    }
}

/* -- from the store ------------------------------------------------------------------------------------------------ */

typedef enum fed {
    FED_ONE,
    FED_OUT, /* it lags no more, or may not get more: it left the list; or it is gone */
    FED_LATER,
    FED_STOP
} fed;

static fed fed_of(tf_subscription *subscription, tf_err err)
{
    if (err == TF_OK) {
        return FED_ONE;
    }
    if (err != TF_ERR_AGAIN) {
        subscription->conn->error = err;
        tf_hub_wake(subscription->conn);
    }
    return FED_STOP;
}

/* What comes before anything else. */
static fed feed_notice(tf_hub *hub, tf_subscription *subscription)
{
    if (subscription->over.len == 0) {
        tf_err err = deliver_gap(subscription, subscription->next, tf_slice_str("epoch"));
        subscription->renumbered = err != TF_OK;
        return fed_of(subscription, err);
    }
    fed result = fed_of(subscription, deliver_ended(subscription));
    if (result != FED_ONE) {
        return result;
    }
    tf_hub_subscription_end(hub, subscription);
    return FED_OUT;
}

/* What has been skipped is announced before what follows. */
static fed feed_expired(tf_subscription *subscription)
{
    return fed_of(subscription, deliver_gap(subscription, subscription->ahead, tf_slice_str("expired")));
}

static fed feed_stored(tf_hub *hub, tf_subscription *subscription)
{
    const tf_channel *channel = subscription->channel;
    bool has_skipped = subscription->ahead > subscription->next;
    tf_stored stored;
    tf_err err = TF_OK;
    switch (hub->store.table->read(hub->store.ctx, channel->number, subscription->ahead, &stored)) {
    case TF_STORE_LATER:
        return FED_LATER;
    case TF_STORE_GONE:
        return has_skipped ? feed_expired(subscription)
                           : fed_of(subscription, deliver_gap(subscription, stored.seq, tf_slice_str("trimmed")));
    case TF_STORE_DAMAGED:
        return has_skipped ? feed_expired(subscription)
                           : fed_of(subscription, deliver_gap(subscription, stored.seq, tf_slice_str("damaged")));
    case TF_STORE_HERE:
        if (has_expired(hub, stored.expires_ms)) {
            subscription->ahead++;
            return FED_ONE;
        }
        if (has_skipped) {
            return feed_expired(subscription);
        }
        err = deliver_activity(subscription, stored.seq, encode(hub, channel, &stored));
        hub->stats.from_store += err == TF_OK ? 1u : 0u;
        return fed_of(subscription, err);
    }
    TF_UNREACHABLE();
}

static fed feed_one(tf_hub *hub, tf_subscription *subscription)
{
    const tf_channel *channel = subscription->channel;
    if (subscription->over.len > 0 || subscription->renumbered) {
        return feed_notice(hub, subscription);
    }
    if (subscription->next > channel->head) {
        tf_hub_set_live(subscription);
        return FED_OUT;
    }
    if (subscription->sent >= subscription->limit) {
        tf_hub_set_lagging(subscription);
        return FED_OUT;
    }
    if (subscription->ahead < subscription->next) {
        subscription->ahead = subscription->next;
    }
    return subscription->ahead > channel->head ? feed_expired(subscription) : feed_stored(hub, subscription);
}

/* One subscription's turn; *fed_count messages were fed. */
static fed feed_turn(tf_hub *hub, tf_subscription *subscription, size_t *fed_count)
{
    const tf_conn *conn = subscription->conn;
    fed result = FED_ONE;
    for (size_t i = 0; i < FEED_TURN && result == FED_ONE && tf_hub_has_room(conn); i++) {
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
