/* Session events: which object, which method; answers and refusals. */
#include "node/client_internal.h"
#include "node/hub_internal.h"

#define REFUSAL_BYTES 1024u

tf_object *tf_hub_object(const tf_hub *hub, tf_local local)
{
    uint64_t value = 0;
    return tf_map_get(&hub->objects, local, &value) ? (tf_object *)(uintptr_t)value : NULL;
}

tf_err tf_hub_answer(tf_conn *conn, tf_local promise, tf_slice data, const tf_mention *refs, size_t count)
{
    if (promise == TF_LOCAL_NONE) {
        return TF_OK;
    }
    tf_answer answer = {
        .promise = promise, .kind = TF_RESOLUTION_DATA, .data = data, .refs = refs, .ref_count = count};
    tf_hub_wake(conn);
    return tf_session_resolve(conn->session, conn->hub->now, &answer, 1);
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
    tf_answer answer = {
        .promise = promise, .kind = TF_RESOLUTION_REJECTION, .data = tf_slice_of(bytes, tf_wr_len(&w))};
    tf_hub_wake(conn);
    return tf_session_resolve(conn->session, conn->hub->now, &answer, 1);
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

static tf_err on_deliver(tf_hub *hub, tf_conn *conn, const tf_session_event *event)
{
    tf_object *object = tf_hub_object(hub, event->local);
    tf_call call = {.hub = hub, .conn = conn, .event = event};
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
        }
    }
    return tf_hub_refuse_call(&call, TF_REFUSAL_BAD_REQUEST);
}

static void on_dropped(tf_hub *hub, tf_conn *conn, tf_local local)
{
    tf_object *object = tf_hub_object(hub, local);
    if (object == NULL) {
        return;
    }
    switch (object->kind) {
    case TF_OBJECT_ROOT:
        return;
    case TF_OBJECT_CHANNEL:
        tf_hub_port_dropped(conn, local);
        return;
    case TF_OBJECT_SUBSCRIPTION:
        tf_hub_subscription_end(hub, (tf_subscription *)object);
        return;
    case TF_OBJECT_SINK:
        tf_client_sink_dropped(conn, object);
        return;
    }
    TF_UNREACHABLE();
}

static tf_err on_event(tf_hub *hub, tf_conn *conn, const tf_session_event *event)
{
    switch (event->type) {
    case TF_SESSION_DELIVER:
        return on_deliver(hub, conn, event);
    case TF_SESSION_RESOLVED:
        return conn->client == NULL ? TF_OK : tf_client_resolved(conn->client, event);
    case TF_SESSION_DROPPED:
        on_dropped(hub, conn, event->local);
        return TF_OK;
    case TF_SESSION_MENTIONED:
        return TF_OK; /* no rejection of ours names a promise */
    }
    TF_UNREACHABLE();
}

tf_err tf_hub_turn(tf_hub *hub, tf_conn *conn, const tf_slice *message)
{
    tf_session_event event;
    tf_err err = message == NULL ? TF_OK : tf_session_recv(conn->session, hub->now, *message);
    if (err != TF_OK) {
        return err;
    }
    if (message != NULL) {
        tf_conn_used(conn, hub->now);
    }
    while (tf_session_next_event(conn->session, &event)) {
        err = on_event(hub, conn, &event);
        if (err != TF_OK) {
            return err;
        }
    }
    return tf_session_done(conn->session, hub->now);
}
