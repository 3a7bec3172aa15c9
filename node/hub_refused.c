/* What the store did not take: refusals of sends that had been accepted (S6, S7). They are older than everything in the
 * order guards, and what the same origin sent to the same channel behind them must not pass them. */
#include "node/hub_internal.h"

/* Raises the guard of one who waits for a refused send. */
static void guard_waiter(const tf_waiter *waiter, tf_refusal refusal)
{
    const tf_pending *pending = waiter->pending;
    tf_conn *conn = waiter->conn;
    if (conn == NULL || conn->error != TF_OK) {
        return;
    }
    tf_guard *guard = tf_hub_guard_get(conn, waiter->origin, pending->channel->number);
    if (guard == NULL) {
        conn->error = TF_ERR_NOMEM;
        tf_hub_wake(conn);
        return;
    }
    tf_guard_refused_first(guard, pending->key, refusal);
}

static void guard_pending(tf_pending *pending, tf_refusal refusal)
{
    guard_waiter(&pending->first, refusal);
    for (const tf_waiter *waiter = pending->resends; waiter != NULL; waiter = waiter->next) {
        guard_waiter(waiter, refusal);
    }
}

/* A final refusal: it will not come back. */
static void forget(const tf_waiter *waiter, tf_guard *guard)
{
    tf_guard_forget(guard, waiter->pending->key);
    tf_hub_guard_release(waiter->conn, waiter->origin, waiter->pending->channel->number);
}

/* One that was to begin with what is refused does not. */
static void end_subscription(tf_waiter *waiter)
{
    if (waiter->subscription != NULL) {
        waiter->promise = TF_LOCAL_NONE; /* answered */
        tf_hub_subscription_end(waiter->conn->hub, waiter->subscription);
    }
}

static void tell(tf_waiter *waiter, tf_refusal refusal)
{
    const tf_pending *pending = waiter->pending;
    tf_conn *conn = waiter->conn;
    bool is_send = pending->kind == TF_STORE_APPEND;
    if (conn == NULL || conn->error != TF_OK) {
        return;
    }
    tf_slice client_id = is_send ? tf_hub_pending_client_id(pending) : (tf_slice){NULL, 0};
    tf_err err = tf_hub_refuse(conn, waiter->promise, client_id, refusal);
    end_subscription(waiter);
    if (err != TF_OK) {
        conn->error = err;
        tf_hub_wake(conn);
        return; /* it ends at its next visit, and its guards with it */
    }
    tf_guard *guard = is_send ? tf_hub_guard_find(conn, waiter->origin, pending->channel->number) : NULL;
    if (guard == NULL) {
        return;
    }
    if (tf_refusal_is_retryable(refusal)) {
        tf_guard_told(guard, tf_session_sent(conn->session));
    } else {
        forget(waiter, guard);
    }
}

void tf_hub_refuse_pending(tf_hub *hub, tf_pending *pending, tf_refusal refusal)
{
    tell(&pending->first, refusal);
    for (tf_waiter *waiter = pending->resends; waiter != NULL; waiter = waiter->next) {
        tell(waiter, refusal);
    }
    tf_hub_pending_free(hub, pending);
}

/* Is a place in one order with it, of the process that sent it or of one that has sent it again (S3)? */
static bool is_same_order(const tf_pending *refused, const tf_pending *pending)
{
    if (refused->channel != pending->channel || !tf_node_id_eq(&refused->origin, &pending->origin)) {
        return false;
    }
    bool same = refused->instance == pending->instance;
    for (const tf_waiter *waiter = refused->resends; waiter != NULL && !same; waiter = waiter->next) {
        same = waiter->origin != NULL && waiter->origin->instance == pending->instance;
    }
    return same;
}

/* S6: the guard is asked again. Is there a refused one in the group whose place in the order is before this one's? */
static tf_refusal judge_again(const tf_hub *hub, const tf_pending *pending)
{
    if (pending->kind != TF_STORE_APPEND || !pending->channel->refused) {
        return TF_REFUSAL_NONE;
    }
    for (size_t i = 0; i < hub->group.count; i++) {
        const tf_store_op *op = &hub->group.ops[i];
        if (op->outcome != TF_REFUSAL_NONE && op->kind == TF_STORE_APPEND &&
            is_same_order(hub->group_pending[i], pending)) {
            return op->outcome;
        }
    }
    return TF_REFUSAL_NONE;
}

/* Marks what is refused; true if there is any. The numbers given to it are taken back. */
static bool mark(tf_hub *hub)
{
    bool any = false;
    for (size_t i = 0; i < hub->group.count; i++) {
        tf_pending *pending = hub->group_pending[i];
        if (hub->group.ops[i].outcome == TF_REFUSAL_NONE) {
            continue;
        }
        any = true;
        pending->refused = true;
        pending->channel->closing = false;
        if (pending->kind == TF_STORE_APPEND) {
            tf_channel *channel = pending->channel;
            channel->given = channel->refused ? channel->given : pending->seq - 1;
            channel->refused = true;
        }
    }
    return any;
}

/* Newest first, since each goes to the front of its guard. */
static void raise_guards(tf_hub *hub)
{
    for (tf_list_node *node = hub->gathered.head.prev; node != &hub->gathered.head; node = node->prev) {
        tf_pending *pending = TF_CONTAINER(node, tf_pending, in_queue);
        tf_refusal refusal = judge_again(hub, pending);
        pending->refused = refusal != TF_REFUSAL_NONE;
        if (pending->refused && tf_refusal_is_retryable(refusal)) {
            guard_pending(pending, refusal);
        }
    }
    for (size_t i = hub->group.count; i > 0; i--) {
        tf_pending *pending = hub->group_pending[i - 1];
        if (pending->refused && pending->kind == TF_STORE_APPEND &&
            tf_refusal_is_retryable(hub->group.ops[i - 1].outcome)) {
            guard_pending(pending, hub->group.ops[i - 1].outcome);
        }
    }
}

static void refuse_gathered(tf_hub *hub)
{
    tf_list_node *node = hub->gathered.head.next;
    while (node != &hub->gathered.head) {
        tf_pending *pending = TF_CONTAINER(node, tf_pending, in_queue);
        node = node->next;
        if (pending->refused) {
            tf_hub_refuse_pending(hub, pending, judge_again(hub, pending));
        }
    }
}

void tf_hub_refuse_group(tf_hub *hub)
{
    if (!mark(hub)) {
        return;
    }
    raise_guards(hub);
    /* The gathered ones first in memory, last in time: what they are compared with is still there. */
    for (size_t i = 0; i < hub->group.count; i++) {
        tf_pending *pending = hub->group_pending[i];
        if (pending->refused) {
            tell(&pending->first, hub->group.ops[i].outcome);
            for (tf_waiter *waiter = pending->resends; waiter != NULL; waiter = waiter->next) {
                tell(waiter, hub->group.ops[i].outcome);
            }
        }
    }
    refuse_gathered(hub);
    for (size_t i = 0; i < hub->group.count; i++) {
        tf_pending *pending = hub->group_pending[i];
        pending->channel->refused = false;
        if (pending->refused) {
            tf_hub_pending_free(hub, pending);
            hub->group_pending[i] = NULL;
        }
    }
}
