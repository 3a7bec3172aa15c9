/* Events of the router: which object, which method; answers and refusals. */
#include "node/client_internal.h"
#include "node/hub_internal.h"

#define REFUSAL_BYTES 1024u

tf_object *tf_hub_object(const tf_hub *hub, tf_local local)
{
    uint64_t value = 0;
    return tf_map_get(&hub->objects, local, &value) ? (tf_object *)(uintptr_t)value : NULL;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

tf_err tf_hub_answer(tf_conn *conn, tf_local promise, tf_slice data, const tf_mention *refs, size_t count)
{
    if (promise == TF_LOCAL_NONE) {
        return TF_OK;
    }
    tf_answer answer = {
        .promise = promise, .kind = TF_RESOLUTION_DATA, .data = data, .refs = refs, .ref_count = count};
    return tf_router_resolve(conn->hub->router, conn->hub->now, &answer, 1);
}

static tf_err reject(tf_hub *hub, tf_local promise, tf_slice data)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_REJECTION, .data = data};
    return tf_router_resolve(hub->router, hub->now, &answer, 1);
}

tf_err tf_hub_refuse(tf_conn *conn, tf_local promise, tf_slice client_id, tf_refusal refusal)
{
    return tf_hub_refuse_after(conn, promise, client_id, refusal, 0);
}

tf_err tf_hub_refuse_after(tf_conn *conn, tf_local promise, tf_slice client_id, tf_refusal refusal,
                           uint64_t retry_after_ms)
{
    uint8_t bytes[REFUSAL_BYTES];
    tf_writer w;
    uint64_t after = retry_after_ms != 0 ? retry_after_ms : tf_refusal_retry_after_ms(refusal);
    conn->hub->stats.refused[refusal]++;
    if (promise == TF_LOCAL_NONE) {
        return TF_OK;
    }
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_refusal_write(&w, &(tf_result_refusal){.client_id = client_id,
                                                     .code = tf_refusal_code(refusal),
                                                     .message = tf_refusal_message(refusal),
                                                     .retryable = tf_refusal_is_retryable(refusal),
                                                     .retry_after_ms = after});
    TF_ASSERT(tf_wr_ok(&w));
    return reject(conn->hub, promise, tf_slice_of(bytes, tf_wr_len(&w)));
}

void tf_hub_abandon(tf_hub *hub, tf_local promise, tf_code code)
{
    if (promise != TF_LOCAL_NONE && tf_router_is_known(hub->router, promise)) {
        (void)reject(hub, promise, tf_code_rejection(code)); /* no memory: it stays without an answer */
    }
}

tf_err tf_hub_answer_done(tf_conn *conn, tf_local promise)
{
    static const uint8_t empty_map[] = {0x80};
    return tf_hub_answer(conn, promise, tf_slice_of(empty_map, sizeof(empty_map)), NULL, 0);
}

tf_err tf_hub_refuse_call(const tf_call *call, tf_refusal refusal)
{
    return tf_hub_refuse(call->conn, call->event->result, (tf_slice){NULL, 0}, refusal);
}

/* -- who hears of revocations -------------------------------------------------------------------------------------- */

tf_err tf_hub_watch(tf_hub *hub, tf_watch *watch, tf_watch_kind kind, tf_local local)
{
    *watch = (tf_watch){.local = local, .kind = kind};
    tf_err err = tf_chain_add(&hub->watches, local, &watch->same_local);
    if (err == TF_OK) {
        tf_router_hold(hub->router, local);
    }
    return err;
}

void tf_hub_unwatch(tf_hub *hub, tf_watch *watch)
{
    tf_chain_remove(&hub->watches, watch->local, &watch->same_local);
    tf_router_release(hub->router, hub->now, watch->local);
}

static void on_revoked(tf_hub *hub, const tf_router_event *event)
{
    for (tf_chain *first; (first = tf_chain_first(&hub->watches, event->local)) != NULL;) {
        tf_watch *watch = TF_CONTAINER(first, tf_watch, same_local);
        switch (watch->kind) {
        case TF_WATCH_SINK:
            tf_hub_subscription_lost(hub, watch);
            break;
        case TF_WATCH_NAME:
            tf_hub_name_lost(hub, watch);
            break;
        }
    }
    tf_hub_app_revoked(hub, event);
}

/* -- events -------------------------------------------------------------------------------------------------------- */

static tf_err on_deliver(tf_hub *hub, tf_conn *conn, const tf_router_event *event)
{
    tf_object *object = tf_hub_object(hub, event->local);
    tf_call call = {.hub = hub, .conn = conn, .event = event};
    if (object != NULL && object->kind == TF_OBJECT_APP) {
        return tf_hub_app_call(hub, conn, (tf_app_object *)object, event);
    }
    if (conn == NULL) {
        tf_hub_abandon(hub, event->result, TF_CODE_DISCONNECTED);
        return TF_OK;
    }
    if (object != NULL) {
        switch (object->kind) {
        case TF_OBJECT_ROOT:
            return tf_hub_serve_root(&call);
        case TF_OBJECT_CHANNEL:
            call.channel = (tf_channel *)object;
            return tf_hub_serve_channel(&call);
        case TF_OBJECT_SINK:
            return tf_client_delivered(&call, object);
        case TF_OBJECT_SUBSCRIPTION:
            return tf_hub_subscription_call(&call, (tf_subscription *)object);
        case TF_OBJECT_APP:
            break; /* see above */
        }
    }
    return tf_hub_refuse_call(&call, TF_REFUSAL_BAD_REQUEST);
}

static void on_dropped(tf_hub *hub, tf_conn *conn, tf_local local)
{
    tf_object *object = tf_hub_object(hub, local);
    if (object == NULL || conn == NULL) {
        return;
    }
    if (object->kind == TF_OBJECT_CHANNEL) {
        tf_hub_port_dropped(conn, local);
    } else if (object->kind == TF_OBJECT_SINK) {
        tf_client_sink_dropped(conn, object);
    }
}

static void on_gone(tf_hub *hub, tf_local local)
{
    tf_object *object = tf_hub_object(hub, local);
    if (object == NULL) {
        return; /* a promise: its answer is for nobody */
    }
    switch (object->kind) {
    case TF_OBJECT_ROOT:
    case TF_OBJECT_SINK:
        return;
    case TF_OBJECT_CHANNEL:
        tf_hub_channel_gone(hub, (tf_channel *)object);
        return;
    case TF_OBJECT_SUBSCRIPTION:
        tf_hub_subscription_end(hub, (tf_subscription *)object);
        return;
    case TF_OBJECT_APP:
        tf_hub_app_gone(hub, (tf_app_object *)object);
        return;
    }
    TF_UNREACHABLE();
}

static void on_resolved(tf_hub *hub, const tf_router_event *event)
{
    uint64_t value = 0;
    if (!tf_map_get(&hub->requests, event->local, &value)) {
        tf_hub_app_settled(hub, event);
        return;
    }
    tf_request *request = (tf_request *)(uintptr_t)value;
    tf_conn *conn = request->client->conn;
    tf_err err = tf_client_resolved(request, event);
    if (err != TF_OK) {
        tf_hub_fail(conn, err);
    }
}

/* Over which connection an event came; NULL: over none, or one that is gone. */
static tf_conn *conn_of(const tf_router_event *event)
{
    return event->session == NULL ? NULL : tf_router_owner(event->session);
}

static void on_event(tf_hub *hub, const tf_router_event *event)
{
    tf_conn *conn = NULL;
    tf_err err = TF_OK;
    switch (event->type) {
    case TF_ROUTER_DELIVER:
        conn = conn_of(event);
        err = on_deliver(hub, conn, event);
        if (err != TF_OK && conn != NULL) {
            tf_hub_fail(conn, err);
        }
        return;
    case TF_ROUTER_RESOLVED:
        on_resolved(hub, event);
        return;
    case TF_ROUTER_REVOKED:
        on_revoked(hub, event);
        return;
    case TF_ROUTER_DROPPED:
        on_dropped(hub, conn_of(event), event->local);
        return;
    case TF_ROUTER_GONE:
        on_gone(hub, event->local);
        return;
    }
    TF_UNREACHABLE();
}

static void end_failed(tf_hub *hub)
{
    tf_session *failed = NULL;
    tf_err err = TF_OK;
    while (tf_router_next_failed(hub->router, &failed, &err)) {
        tf_hub_fail(tf_router_owner(failed), err);
    }
}

void tf_hub_settle(tf_hub *hub)
{
    tf_router_event event;
    do {
        while (tf_router_next_event(hub->router, &event)) {
            end_failed(hub); /* a client asks again in its next session: an answer that only tells of the end is none */
            on_event(hub, &event);
        }
        end_failed(hub);
    } while (tf_router_has_events(hub->router));
}

tf_err tf_hub_turn(tf_hub *hub, tf_conn *conn, tf_slice message)
{
    tf_err err = tf_router_recv(hub->router, conn->session, hub->now, message);
    if (err == TF_OK) {
        tf_conn_used(conn, hub->now);
        tf_hub_settle(hub);
    }
    return err;
}
