/* Subscriptions: their beginning, what their subscriber says to them, their end (S10). */
#include "node/hub_internal.h"

/* Whoever asked for it need not wait any more. */
static void give_up_waiting(tf_hub *hub, tf_subscription *subscription)
{
    tf_waiter *waiter = subscription->begins;
    if (waiter != NULL) {
        tf_hub_abandon(hub, waiter->promise, TF_CODE_DISCONNECTED);
        waiter->promise = TF_LOCAL_NONE;
        waiter->subscription = NULL;
        subscription->begins = NULL;
    }
}

void tf_hub_subscription_end(tf_hub *hub, tf_subscription *subscription)
{
    tf_conn *conn = subscription->conn;
    give_up_waiting(hub, subscription);
    tf_list_remove(&subscription->in_conn);
    tf_hub_set_off(subscription);
    if (subscription->durable != NULL) {
        subscription->durable->subscription = NULL;
        tf_hub_durable_release(hub, subscription->durable);
    }
    subscription->channel->subscriptions--;
    (void)tf_map_remove(&hub->objects, subscription->object.local);
    conn->subscription_count--;
    hub->subscription_count--;
    tf_hub_unwatch(hub, &subscription->sink);
    tf_hub_channel_release(hub, subscription->channel);
    tf_free(hub->config.mem, subscription, sizeof(*subscription));
}

void tf_hub_subscription_lost(tf_hub *hub, tf_watch *sink)
{
    tf_hub_subscription_end(hub, TF_CONTAINER(sink, tf_subscription, sink));
}

/* One that is not answered yet is told after its answer. */
static void make_over(tf_subscription *subscription, tf_slice reason)
{
    subscription->over = reason;
    if (subscription->begins == NULL) {
        tf_hub_set_lagging(subscription);
    }
}

void tf_hub_subscription_over(tf_hub *hub, tf_subscription *subscription, tf_slice reason)
{
    if (subscription->durable != NULL) {
        subscription->durable->subscription = NULL;
        tf_hub_durable_release(hub, subscription->durable);
        subscription->durable = NULL;
    }
    if (subscription->over.len == 0) {
        make_over(subscription, reason);
    }
}

void tf_hub_subscriptions_clear(tf_conn *conn)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->subscriptions)) != NULL) {
        tf_hub_subscription_end(conn->hub, TF_CONTAINER(node, tf_subscription, in_conn));
    }
}

/* Where it begins by what was asked for, and what the subscriber is told about it. */
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

/* Where a durable one begins: at its cursor, or at what its subscriber got above that before it lost its session. */
static void resume(const tf_call *call, const tf_args_subscribe *args, const tf_durable *durable,
                   tf_result_subscribe *start)
{
    const tf_channel *channel = call->channel;
    bool is_own = args->from.kind == TF_FROM_SEQ && args->has_epoch && args->epoch == channel->epoch;
    if (durable->next == 0 || (is_own && args->from.value > durable->next)) {
        return;
    }
    start->next = durable->next;
    start->resumed = true;
}

static tf_subscription *make(const tf_call *call, const tf_args_subscribe *args, const tf_result_subscribe *start)
{
    tf_hub *hub = call->hub;
    tf_conn *conn = call->conn;
    tf_subscription *subscription = tf_alloc(hub->config.mem, sizeof(*subscription));
    if (subscription == NULL) {
        return NULL;
    }
    *subscription = (tf_subscription){.object = {TF_OBJECT_SUBSCRIPTION, tf_router_new_object(hub->router)},
                                      .conn = conn,
                                      .channel = call->channel,
                                      .next = start->next,
                                      .start = *start,
                                      .echo = args->echo,
                                      .limit = args->limit};
    if (tf_map_put(&hub->objects, subscription->object.local, (uintptr_t)subscription) != TF_OK) {
        tf_free(hub->config.mem, subscription, sizeof(*subscription));
        return NULL;
    }
    if (tf_hub_watch(hub, &subscription->sink, TF_WATCH_SINK, call->event->refs[0].local) != TF_OK) {
        (void)tf_map_remove(&hub->objects, subscription->object.local);
        tf_free(hub->config.mem, subscription, sizeof(*subscription));
        return NULL;
    }
    call->channel->uses++;
    call->channel->subscriptions++;
    conn->subscription_count++;
    hub->subscription_count++;
    tf_list_append(&conn->subscriptions, &subscription->in_conn);
    return subscription;
}

static tf_err answer(tf_subscription *subscription, tf_local promise)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_conn *conn = subscription->conn;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_subscribe_write(&w, &subscription->start);
    TF_ASSERT(tf_wr_ok(&w));
    tf_mention ref = {subscription->object.local, TF_REF_OBJECT};
    tf_err err = tf_hub_answer(conn, promise, tf_slice_of(bytes, tf_wr_len(&w)), &ref, 1);
    if (err != TF_OK) {
        tf_hub_subscription_end(conn->hub, subscription);
        return err == TF_ERR_NOMEM ? err : tf_hub_refuse(conn, promise, (tf_slice){NULL, 0}, TF_REFUSAL_OVERLOADED);
    }
    bool is_at_end = subscription->start.next > subscription->channel->head;
    if (is_at_end && !subscription->renumbered && subscription->over.len == 0) {
        tf_hub_set_live(subscription);
    } else {
        tf_hub_set_lagging(subscription);
    }
    return TF_OK;
}

/* The one that has the name ends: nothing but `ended` comes to it any more. */
static void take_over(tf_subscription *before)
{
    before->durable->subscription = NULL;
    before->durable = NULL;
    make_over(before, tf_slice_str("taken_over"));
}

/* A position that the next start of this node would not know is none (P2): the answer waits until the store has it. */
static tf_err begin_when_durable(const tf_call *call, tf_subscription *subscription)
{
    tf_pending *pending = tf_hub_durable_begin(call->hub, subscription->durable, subscription->start.next);
    tf_err err = pending == NULL ? TF_ERR_NOMEM : tf_hub_wait(call->conn, pending, call->event->result, NULL);
    if (err != TF_OK) {
        tf_hub_subscription_end(call->hub, subscription);
        return err;
    }
    subscription->begins = pending->resends;
    subscription->begins->subscription = subscription;
    return TF_OK;
}

tf_err tf_hub_subscription_begin(const tf_waiter *waiter)
{
    tf_subscription *subscription = waiter->subscription;
    subscription->begins->subscription = NULL;
    subscription->begins = NULL;
    return answer(subscription, waiter->promise);
}

static tf_err begin_durable(const tf_call *call, const tf_args_subscribe *args, tf_result_subscribe *start)
{
    bool renumbered = false;
    tf_refusal refusal = TF_REFUSAL_NONE;
    tf_durable *durable = tf_hub_durable_get(call, args->durable, &renumbered, &refusal);
    if (durable == NULL) {
        return tf_hub_refuse_call(call, refusal);
    }
    if (renumbered) {
        start->next = start->first;
    }
    resume(call, args, durable, start);
    bool is_new = durable->committed == 0;
    bool is_full = is_new && call->conn->waiting_opens >= TF_HUB_OPENS_MAX;
    tf_subscription *subscription = is_full ? NULL : make(call, args, start);
    if (subscription == NULL) {
        tf_hub_durable_release(call->hub, durable);
        return is_full ? tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED) : TF_ERR_NOMEM;
    }
    if (durable->subscription != NULL) {
        take_over(durable->subscription);
    }
    durable->subscription = subscription;
    subscription->durable = durable;
    subscription->renumbered = renumbered;
    return is_new ? begin_when_durable(call, subscription) : answer(subscription, call->event->result);
}

/* A sink is an object of the subscriber: not one of ours or of somebody else, and no promise. */
static bool is_sink(const tf_call *call, const tf_mention *sink)
{
    tf_session *owner = NULL;
    size_t exports = 0;
    bool revoked = false;
    return sink->kind == TF_REF_OBJECT &&
           tf_router_describe(call->hub->router, sink->local, &owner, &exports, &revoked) && !revoked &&
           owner == call->conn->session;
}

tf_err tf_hub_subscribe(const tf_call *call, const tf_args_subscribe *args)
{
    tf_result_subscribe start;
    if (!is_sink(call, &call->event->refs[0])) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (call->event->result == TF_LOCAL_NONE) {
        return TF_OK; /* nothing to end it by */
    }
    if (call->conn->subscription_count >= call->hub->config.subscriptions_per_peer) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    if (find_start(call, args, &start) != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_UNAVAILABLE);
    }
    if (args->durable.len > 0) {
        return begin_durable(call, args, &start);
    }
    tf_subscription *subscription = make(call, args, &start);
    return subscription == NULL ? TF_ERR_NOMEM : answer(subscription, call->event->result);
}

/* -- what its subscriber says to it -------------------------------------------------------------------------------- */

static tf_err serve_more(const tf_call *call, tf_subscription *subscription)
{
    tf_args_more more;
    if (call->event->result != TF_LOCAL_NONE || tf_args_more_read(call->event->args, &more) != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (more.limit > subscription->limit) {
        subscription->limit = more.limit;
        if (!tf_list_has(&subscription->in_channel)) {
            tf_hub_set_lagging(subscription);
        }
    }
    return TF_OK;
}

tf_err tf_hub_subscription_call(const tf_call *call, tf_subscription *subscription)
{
    if (subscription->conn == call->conn && tf_slice_eq(call->event->method, tf_slice_str("more"))) {
        return serve_more(call, subscription);
    }
    if (subscription->conn == call->conn && tf_slice_eq(call->event->method, tf_slice_str("confirm"))) {
        return tf_hub_serve_confirm(call, subscription);
    }
    return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
}
