/* The one path of a send up to its acceptance (S1 to S4, S7). The order of the checks is the rule S3: what was accepted
 * before is acked again whatever else is wrong by now. */
#include "node/hub_internal.h"
#include "node/name.h"

/* One send in judgement. */
typedef struct judged {
    const tf_call *call;
    tf_args_send args;
    tf_origin *origin;
    tf_guard_key key;
    uint64_t acked; /* messages of ours that its sender had processed */
} judged;

static uint64_t size_of(const judged *send)
{
    return send->args.body.len + send->args.meta.len;
}

static tf_time rate_wait(const judged *send)
{
    return tf_hub_rate_wait(send->call->conn, send->origin, size_of(send));
}

static tf_err refuse(const judged *send, tf_refusal refusal)
{
    tf_conn *conn = send->call->conn;
    uint64_t channel = send->call->channel->number;
    tf_guard *guard = NULL;
    if (tf_refusal_is_retryable(refusal)) {
        guard = tf_hub_guard_get(conn, send->origin, channel);
        if (guard == NULL) {
            return conn->guard_count >= TF_HUB_GUARDS_MAX ? TF_ERR_PEER_LIMIT : TF_ERR_NOMEM;
        }
        tf_guard_refused(guard, send->key, refusal);
    } else {
        guard = tf_hub_guard_find(conn, send->origin, channel);
        if (guard != NULL) {
            tf_guard_forget(guard, send->key);
            tf_hub_guard_release(conn, send->origin, channel);
            guard = NULL;
        }
    }
    uint64_t after = refusal == TF_REFUSAL_RATE_LIMITED ? (rate_wait(send) + TF_MS - 1) / TF_MS : 0;
    tf_err err = tf_hub_refuse_after(conn, send->call->event->result, send->args.client_id, refusal, after);
    if (guard != NULL) {
        tf_guard_told(guard, tf_session_sent(conn->session));
    }
    return err;
}

/* It was accepted before, and is acked again: no longer something to wait for. */
static void forget_refusal(const judged *send)
{
    tf_conn *conn = send->call->conn;
    tf_guard *guard = tf_hub_guard_find(conn, send->origin, send->call->channel->number);
    if (guard != NULL) {
        tf_guard_forget(guard, send->key);
        tf_hub_guard_release(conn, send->origin, send->call->channel->number);
    }
}

/* -- S2, S3: was it there before? ---------------------------------------------------------------------------------- */

static bool waits_already(const tf_conn *conn, const tf_pending *pending)
{
    for (const tf_waiter *waiter = pending->resends; waiter != NULL; waiter = waiter->next) {
        if (waiter->conn == conn) {
            return true;
        }
    }
    return false;
}

/* The original is being committed. */
static tf_err join(const judged *send, tf_pending *pending)
{
    tf_conn *conn = send->call->conn;
    if (!tf_slice_eq(send->args.body, tf_hub_pending_body(pending))) {
        return refuse(send, TF_REFUSAL_CLIENT_ID_CONFLICT);
    }
    forget_refusal(send);
    if (send->call->event->result == TF_LOCAL_NONE) {
        return TF_OK;
    }
    if (waits_already(conn, pending)) {
        /* Its place in the order is taken already, so this refusal raises no guard. */
        return tf_hub_refuse(conn, send->call->event->result, send->args.client_id, TF_REFUSAL_TOO_MANY_IN_FLIGHT);
    }
    return tf_hub_wait(conn, pending, send->call->event->result, send->origin);
}

static tf_err ack_again(const judged *send, const tf_store_key *key)
{
    uint8_t id[TF_ACTIVITY_ID_MAX];
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    if (tf_store_digest(send->args.body) != key->digest) {
        return refuse(send, TF_REFUSAL_CLIENT_ID_CONFLICT);
    }
    forget_refusal(send);
    send->call->hub->stats.duplicates++;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_ack_write(&w, &(tf_result_ack){.client_id = send->args.client_id,
                                             .id = tf_slice_of(id, tf_stored_id(key->epoch, key->seq, id)),
                                             .seq = key->seq,
                                             .timestamp_ms = (uint64_t)key->timestamp_ms,
                                             .duplicate = true});
    TF_ASSERT(tf_wr_ok(&w));
    return tf_hub_answer(send->call->conn, send->call->event->result, tf_slice_of(bytes, tf_wr_len(&w)), NULL, 0);
}

/* -- may it be accepted? ------------------------------------------------------------------------------------------- */

static tf_refusal judge_room(const judged *send)
{
    const tf_hub *hub = send->call->hub;
    const tf_conn *conn = send->call->conn;
    uint32_t total = conn->config.relay ? TF_MAX_IN_FLIGHT_MAX : hub->config.max_in_flight;
    if (send->origin->in_flight >= hub->config.max_in_flight || conn->in_flight >= total) {
        return TF_REFUSAL_TOO_MANY_IN_FLIGHT;
    }
    uint64_t bytes = size_of(send);
    if ((conn->committing_bytes > 0 && conn->committing_bytes + bytes > hub->config.commit_bytes_per_peer) ||
        (hub->committing_bytes > 0 && hub->committing_bytes + bytes > hub->config.commit_bytes)) {
        return TF_REFUSAL_OVERLOADED;
    }
    return rate_wait(send) > 0 ? TF_REFUSAL_RATE_LIMITED : TF_REFUSAL_NONE;
}

static tf_refusal judge(const judged *send)
{
    const tf_call *call = send->call;
    if (!tf_hub_may(call->conn, call->channel, TF_RIGHT_WRITE)) {
        return TF_REFUSAL_FORBIDDEN;
    }
    if (send->args.body.len > call->hub->max_body || send->args.meta.len > TF_META_MAX) {
        return TF_REFUSAL_MESSAGE_TOO_LARGE;
    }
    if (call->channel->closed) {
        return TF_REFUSAL_CHANNEL_CLOSED;
    }
    const tf_guard *guard = tf_hub_guard_find(call->conn, send->origin, call->channel->number);
    if (guard != NULL && !tf_guard_allows(guard, send->key, send->acked)) {
        return guard->code;
    }
    if (call->hub->draining) {
        return TF_REFUSAL_DRAINING;
    }
    return judge_room(send);
}

static void fill(tf_pending *pending, const tf_args_send *args)
{
    uint8_t *at = pending->bytes;
    memcpy(at, args->client_id.data, args->client_id.len);
    at += args->client_id.len;
    if (args->body.len > 0) {
        memcpy(at, args->body.data, args->body.len);
    }
    at += args->body.len;
    if (args->meta.len > 0) {
        memcpy(at, args->meta.data, args->meta.len);
    }
    pending->client_id_len = args->client_id.len;
    pending->body_len = args->body.len;
    pending->meta_len = args->meta.len;
    pending->expires_ms = (int64_t)args->expires_ms;
}

static tf_err accept(const judged *send)
{
    const tf_call *call = send->call;
    const tf_args_send *args = &send->args;
    size_t bytes = args->client_id.len + args->body.len + args->meta.len;
    tf_pending *pending = tf_hub_pending_new(call->hub, call->conn, TF_STORE_APPEND, call->channel, bytes);
    if (pending == NULL) {
        return refuse(send, TF_REFUSAL_OVERLOADED);
    }
    fill(pending, args);
    pending->key = send->key;
    pending->origin = send->origin->node;
    pending->instance = send->origin->instance;
    pending->stated = send->origin != &call->conn->self;
    if (tf_hub_pending_index(call->hub, pending) != TF_OK) {
        tf_hub_pending_free(call->hub, pending);
        return refuse(send, TF_REFUSAL_OVERLOADED);
    }
    tf_guard *guard = tf_hub_guard_find(call->conn, send->origin, call->channel->number);
    if (guard != NULL) {
        tf_guard_accepted(guard, send->key);
        tf_hub_guard_release(call->conn, send->origin, call->channel->number);
    }
    pending->first.promise = call->event->result;
    pending->first.origin = send->origin;
    tf_hub_rate_take(call->conn, send->origin, size_of(send));
    send->origin->in_flight++;
    call->conn->in_flight++;
    tf_hub_gather(call->hub, pending);
    return TF_OK;
}

static tf_err decide(const judged *send)
{
    const tf_call *call = send->call;
    const tf_node_id *node = &send->origin->node;
    tf_store_key key;
    tf_pending *pending =
        tf_hub_pending_find(call->hub, &(tf_send_key){call->channel, node, send->args.client_id, send->key});
    if (pending != NULL) {
        return join(send, pending);
    }
    tf_err err = call->hub->store.table->find(call->hub->store.ctx, call->channel->number, node, send->args.client_id,
                                              &key);
    if (err == TF_OK) {
        return ack_again(send, &key);
    }
    tf_refusal refusal = err == TF_ERR_CLOSED ? judge(send) : TF_REFUSAL_UNAVAILABLE;
    return refusal == TF_REFUSAL_NONE ? accept(send) : refuse(send, refusal);
}

tf_err tf_hub_serve_send(const tf_call *call)
{
    tf_conn *conn = call->conn;
    judged send = {.call = call};
    call->hub->stats.sends++;
    if (tf_args_send_read(call->event->args, &send.args) != TF_OK || call->event->ref_count != 0 ||
        !tf_client_id_is_valid(send.args.client_id)) {
        return tf_hub_refuse(conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_BAD_REQUEST);
    }
    /* S1: what a peer without the right says of the origin is not looked at. */
    tf_who who = {conn->config.link.peer, conn->config.link.peer_instance};
    if (send.args.has_origin && conn->config.relay) {
        who = (tf_who){send.args.origin, send.args.instance};
    }
    send.origin = tf_hub_origin_get(conn, &who);
    if (send.origin == NULL) {
        return TF_ERR_NOMEM;
    }
    send.key = tf_guard_key_of(call->hub->hash_key, send.args.client_id);
    send.acked = tf_session_peer_processed(conn->session);
    tf_err err = decide(&send);
    tf_hub_origin_release(conn, send.origin);
    return err;
}
