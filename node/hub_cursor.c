/* Positions of durable subscriptions (S10). One that its subscriber confirms goes to the store as an op; while it has only
 * gathered a later one replaces it, so that of each cursor one op is with the store and one gathers, at most. */
#include "node/hub_internal.h"

/* -- which there are ----------------------------------------------------------------------------------------------- */

static tf_durable *find(const tf_channel *channel, const tf_node_id *owner, tf_slice name, size_t *count)
{
    *count = 0;
    for (tf_list_node *node = channel->durables.head.next; node != &channel->durables.head; node = node->next) {
        tf_durable *durable = TF_CONTAINER(node, tf_durable, in_channel);
        if (tf_node_id_eq(&durable->owner, owner) && tf_slice_eq(tf_slice_of(durable->name, durable->name_len), name)) {
            return durable;
        }
        *count += 1;
    }
    return NULL;
}

static tf_durable *make(const tf_call *call, tf_slice name)
{
    tf_durable *durable = tf_alloc(call->hub->config.mem, sizeof(*durable));
    if (durable == NULL) {
        return NULL;
    }
    *durable = (tf_durable){.channel = call->channel, .owner = call->conn->config.link.peer, .name_len = name.len};
    memcpy(durable->name, name.data, name.len);
    tf_list_append(&call->channel->durables, &durable->in_channel);
    return durable;
}

tf_durable *tf_hub_durable_get(const tf_call *call, tf_slice name, bool *renumbered, tf_refusal *refusal)
{
    const tf_hub *hub = call->hub;
    const tf_channel *channel = call->channel;
    const tf_node_id *owner = &call->conn->config.link.peer;
    tf_store_cursor cursor;
    size_t count = 0;
    tf_durable *durable = find(channel, owner, name, &count);
    if (durable != NULL) {
        return durable;
    }
    tf_err err = hub->store.table->cursor_find(hub->store.ctx, channel->number, owner, name, &cursor);
    *refusal = err == TF_OK || err == TF_ERR_CLOSED ? TF_REFUSAL_OVERLOADED : TF_REFUSAL_UNAVAILABLE;
    if (*refusal == TF_REFUSAL_UNAVAILABLE || count >= TF_CURSORS_PER_CHANNEL) {
        return NULL;
    }
    durable = make(call, name);
    if (durable == NULL || err != TF_OK) {
        return durable;
    }
    *renumbered = cursor.epoch != channel->epoch;
    if (!*renumbered) {
        durable->next = cursor.next <= channel->head ? cursor.next : channel->head + 1;
        durable->committed = durable->next;
    }
    return durable;
}

void tf_hub_durable_release(tf_hub *hub, tf_durable *durable)
{
    if (durable->subscription == NULL && durable->gathered == NULL && durable->committing == NULL) {
        tf_list_remove(&durable->in_channel);
        tf_free(hub->config.mem, durable, sizeof(*durable));
    }
}

/* -- ops ----------------------------------------------------------------------------------------------------------- */

static tf_pending *new_op(tf_hub *hub, tf_conn *conn, tf_channel *channel, const tf_node_id *owner, tf_slice name)
{
    tf_pending *pending = tf_hub_pending_new(hub, conn, TF_STORE_CURSOR, channel, name.len);
    if (pending != NULL) {
        memcpy(pending->bytes, name.data, name.len);
        pending->client_id_len = name.len;
        pending->origin = *owner;
    }
    return pending;
}

/* Its position is to be `next`. False: no memory. */
static bool move(tf_hub *hub, tf_durable *durable, uint64_t next)
{
    if (durable->gathered == NULL) {
        tf_pending *pending = new_op(hub, NULL, durable->channel, &durable->owner,
                                     tf_slice_of(durable->name, durable->name_len));
        if (pending == NULL) {
            return false;
        }
        pending->durable = durable;
        durable->gathered = pending;
        tf_hub_gather(hub, pending);
    }
    durable->next = next;
    durable->gathered->seq = next;
    return true;
}

tf_pending *tf_hub_durable_begin(tf_hub *hub, tf_durable *durable, uint64_t next)
{
    if (durable->next == 0 && !move(hub, durable, next)) {
        return NULL;
    }
    return durable->gathered != NULL ? durable->gathered : durable->committing;
}

void tf_hub_cursor_goes(tf_pending *pending)
{
    if (pending->durable != NULL) {
        pending->durable->gathered = NULL;
        pending->durable->committing = pending;
    }
}

void tf_hub_cursor_left(tf_hub *hub, tf_pending *pending)
{
    tf_durable *durable = pending->durable;
    if (durable == NULL) {
        return;
    }
    if (durable->gathered == pending) {
        durable->gathered = NULL;
    }
    if (durable->committing == pending) {
        durable->committing = NULL;
    }
    if (pending->done) {
        durable->committed = pending->seq;
    } else if (durable->gathered == NULL) {
        durable->next = durable->committed; /* so that it may be confirmed again */
    }
    tf_hub_durable_release(hub, durable);
}

/* -- methods ------------------------------------------------------------------------------------------------------- */

static tf_err confirm(const tf_call *call, tf_durable *durable, uint64_t next)
{
    bool is_ahead = next > durable->next;
    tf_pending *on_way = durable->gathered != NULL ? durable->gathered : durable->committing;
    if (!is_ahead && on_way == NULL) {
        return tf_hub_answer_done(call->conn, call->event->result);
    }
    if (call->event->result != TF_LOCAL_NONE && call->conn->waiting_opens >= TF_HUB_OPENS_MAX) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    if (is_ahead && !move(call->hub, durable, next)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    return tf_hub_wait_call(call, is_ahead ? durable->gathered : on_way);
}

tf_err tf_hub_serve_confirm(const tf_call *call, tf_subscription *subscription)
{
    const tf_channel *channel = subscription->channel;
    tf_args_confirm args;
    if (subscription->over.len > 0) { /* which its subscriber is about to be told, and cannot know yet */
        return tf_hub_refuse_call(call, TF_REFUSAL_UNAVAILABLE);
    }
    if (tf_args_confirm_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0 ||
        subscription->durable == NULL || args.epoch != channel->epoch || args.next - 1 > channel->head) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    return confirm(call, subscription->durable, args.next);
}

/* What is on its way no longer speaks of it, and what comes is a new one. */
static void disown(tf_durable *durable)
{
    if (durable->gathered != NULL) {
        durable->gathered->durable = NULL;
        durable->gathered = NULL;
    }
    if (durable->committing != NULL) {
        durable->committing->durable = NULL;
        durable->committing = NULL;
    }
    durable->next = 0;
    durable->committed = 0;
}

tf_err tf_hub_serve_forget_cursor(const tf_call *call)
{
    tf_hub *hub = call->hub;
    tf_args_forget_cursor args;
    size_t count = 0;
    if (tf_args_forget_cursor_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    const tf_node_id *self = &call->conn->config.link.peer;
    const tf_node_id *owner = args.has_owner ? &args.owner : self;
    if (!tf_hub_may(call->conn, call->channel, tf_node_id_eq(owner, self) ? TF_RIGHT_READ : TF_RIGHT_WRITE)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_FORBIDDEN);
    }
    if (call->conn->waiting_opens >= TF_HUB_OPENS_MAX) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    tf_pending *pending = new_op(hub, call->conn, call->channel, owner, args.name);
    if (pending == NULL) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    pending->first.promise = call->event->result;
    call->conn->waiting_opens++;
    tf_durable *durable = find(call->channel, owner, args.name, &count);
    if (durable != NULL) {
        disown(durable);
        tf_hub_durable_release(hub, durable);
    }
    tf_hub_gather(hub, pending);
    return TF_OK;
}
