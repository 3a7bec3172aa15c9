/* Changes on their way through the store: groups, acks (S5, S6). */
#include "node/hub_internal.h"

/* -- a group goes -------------------------------------------------------------------------------------------------- */

static void give_number(const tf_hub *hub, tf_pending *pending)
{
    tf_channel *channel = pending->channel;
    if (hub->wall_ms > channel->given_ms) {
        channel->given_ms = hub->wall_ms;
    }
    pending->seq = ++channel->given;
    pending->timestamp_ms = channel->given_ms;
}

static void fill_op(const tf_hub *hub, const tf_pending *pending, tf_store_op *op)
{
    const tf_channel *channel = pending->channel;
    *op = (tf_store_op){.kind = pending->kind, .channel = channel->number, .outcome = TF_REFUSAL_NONE};
    switch (pending->kind) {
    case TF_STORE_CREATE:
        op->name = tf_channel_name(channel);
        op->epoch = channel->epoch;
        return;
    case TF_STORE_APPEND:
        op->message = (tf_stored){.seq = pending->seq,
                                  .timestamp_ms = pending->timestamp_ms,
                                  .epoch = channel->epoch,
                                  .expires_ms = pending->expires_ms,
                                  .origin = pending->origin,
                                  .instance = pending->instance,
                                  .client_id = tf_hub_pending_client_id(pending),
                                  .meta = tf_hub_pending_meta(pending),
                                  .body = tf_hub_pending_body(pending)};
        return;
    case TF_STORE_TRIM:
        op->seq = pending->seq <= channel->head ? pending->seq : channel->head + 1;
        return;
    case TF_STORE_FORGET:
        op->time_ms = pending->timestamp_ms;
        return;
    case TF_STORE_CURSOR:
        op->cursor = (tf_store_cursor){.channel = channel->number,
                                       .owner = pending->origin,
                                       .name = tf_hub_pending_client_id(pending),
                                       .epoch = channel->epoch,
                                       .next = pending->seq,
                                       .moved_ms = hub->wall_ms};
        return;
    case TF_STORE_CLOSE:
    case TF_STORE_EPOCH:
        return;
    }
    TF_UNREACHABLE();
}

/* What it was in while it could still be changed. */
static void leave_gathered(tf_pending *pending)
{
    tf_list_remove(&pending->in_queue);
    if (pending->channel->trim == pending) {
        pending->channel->trim = NULL;
    }
    tf_hub_cursor_goes(pending);
}

bool tf_hub_hand_over(tf_hub *hub)
{
    tf_list_node *node = NULL;
    size_t bytes = 0;
    if (hub->group_open) {
        return false;
    }
    hub->group.count = 0;
    while ((node = tf_list_first(&hub->gathered)) != NULL && hub->group.count < TF_HUB_GROUP_OPS) {
        tf_pending *pending = TF_CONTAINER(node, tf_pending, in_queue);
        if (pending->kind == TF_STORE_APPEND && pending->channel->closed) {
            tf_hub_refuse_pending(hub, pending, TF_REFUSAL_CHANNEL_CLOSED); /* it arrived behind the close */
            continue;
        }
        bool is_behind_close = pending->kind == TF_STORE_APPEND && pending->channel->closing;
        if (is_behind_close || (bytes > 0 && bytes + pending->body_len > TF_HUB_GROUP_BYTES)) {
            break;
        }
        leave_gathered(pending);
        if (pending->kind == TF_STORE_APPEND) {
            give_number(hub, pending);
        }
        if (pending->kind == TF_STORE_CLOSE) {
            pending->channel->closing = true;
        }
        bytes += pending->body_len;
        fill_op(hub, pending, &hub->group.ops[hub->group.count]);
        hub->group_pending[hub->group.count++] = pending;
    }
    if (hub->group.count == 0) {
        return false;
    }
    hub->group_open = true;
    hub->store.table->submit(hub->store.ctx, &hub->group);
    return true;
}

/* -- a group comes back -------------------------------------------------------------------------------------------- */

/* Answers to one conn that go in one message. */
typedef struct batch {
    tf_conn *conn;
    tf_answer answers[TF_HUB_ANSWERS];
    size_t count;
    uint8_t bytes[TF_HUB_ANSWER_BYTES];
    size_t used;
} batch;

static void flush(batch *b)
{
    if (b->count == 0) {
        return;
    }
    tf_err err = tf_router_resolve(b->conn->hub->router, b->conn->hub->now, b->answers, b->count);
    if (err != TF_OK) {
        b->conn->error = err; /* ends at its next visit */
        tf_hub_wake(b->conn);
    }
    b->count = 0;
    b->used = 0;
}

static void ack_one(batch *b, const tf_waiter *waiter, bool duplicate)
{
    const tf_pending *pending = waiter->pending;
    uint8_t id[TF_ACTIVITY_ID_MAX];
    tf_writer w;
    if (waiter->conn == NULL || waiter->conn->error != TF_OK || waiter->promise == TF_LOCAL_NONE) {
        return;
    }
    size_t id_len = tf_stored_id(pending->channel->epoch, pending->seq, id);
    if (b->conn != waiter->conn || b->count == TF_HUB_ANSWERS || b->used + TF_RESULT_SMALL_MAX > sizeof(b->bytes)) {
        flush(b);
    }
    tf_wr_init(&w, b->bytes + b->used, sizeof(b->bytes) - b->used);
    tf_result_ack_write(&w, &(tf_result_ack){.client_id = tf_hub_pending_client_id(pending),
                                             .id = tf_slice_of(id, id_len),
                                             .seq = pending->seq,
                                             .timestamp_ms = (uint64_t)pending->timestamp_ms,
                                             .duplicate = duplicate});
    TF_ASSERT(tf_wr_ok(&w));
    b->conn = waiter->conn;
    b->answers[b->count++] = (tf_answer){.promise = waiter->promise,
                                         .kind = TF_RESOLUTION_DATA,
                                         .data = tf_slice_of(b->bytes + b->used, tf_wr_len(&w))};
    b->used += tf_wr_len(&w);
}

static void ack_all(tf_hub *hub, batch *b, const tf_pending *pending)
{
    hub->stats.accepted++;
    ack_one(b, &pending->first, false);
    for (const tf_waiter *waiter = pending->resends; waiter != NULL; waiter = waiter->next) {
        hub->stats.duplicates++;
        ack_one(b, waiter, true);
    }
}

static void answer_change(const tf_pending *pending, const tf_waiter *waiter)
{
    tf_err err = TF_OK;
    if (waiter->conn == NULL || waiter->conn->error != TF_OK) {
        return;
    }
    if (pending->kind == TF_STORE_CREATE) {
        err = tf_hub_answer_open(waiter->conn, waiter->promise, pending->channel);
    } else if (pending->kind == TF_STORE_TRIM) {
        err = tf_hub_answer_trim(waiter->conn, waiter->promise, pending->channel);
    } else if (waiter->subscription != NULL) {
        err = tf_hub_subscription_begin(waiter);
    } else {
        err = tf_hub_answer_done(waiter->conn, waiter->promise);
    }
    if (err != TF_OK) {
        waiter->conn->error = err;
        tf_hub_wake(waiter->conn);
    }
}

static void answer_changes(const tf_pending *pending)
{
    answer_change(pending, &pending->first);
    for (const tf_waiter *waiter = pending->resends; waiter != NULL; waiter = waiter->next) {
        answer_change(pending, waiter);
    }
}

/* The change is durable: it is so here, too, and those who wait are told. */
static void apply(tf_hub *hub, tf_pending *pending, const tf_store_op *op, batch *b)
{
    tf_channel *channel = pending->channel;
    pending->done = true;
    switch (pending->kind) {
    case TF_STORE_CREATE:
        channel->stored = true;
        channel->number = op->channel;
        answer_changes(pending);
        return;
    case TF_STORE_CLOSE:
        channel->closed = true;
        channel->closing = false;
        answer_changes(pending);
        return;
    case TF_STORE_TRIM:
        tf_hub_channel_look(hub, channel);
        answer_changes(pending);
        return;
    case TF_STORE_FORGET:
    case TF_STORE_EPOCH:
    case TF_STORE_CURSOR:
        answer_changes(pending);
        return;
    case TF_STORE_APPEND:
        TF_ASSERT(pending->seq == channel->head + 1);
        channel->head = pending->seq;
        channel->timestamp_ms = pending->timestamp_ms;
        ack_all(hub, b, pending);
        tf_hub_retention_appended(hub, channel,
                                  (uint64_t)pending->client_id_len + pending->body_len + pending->meta_len);
        return;
    }
    TF_UNREACHABLE();
}

/* Where the run that begins at `first` ends: changes that one connection asked for, one after the other. */
static size_t run_end(const tf_hub *hub, size_t first)
{
    const tf_conn *conn = NULL;
    size_t i = first;
    for (; i < hub->group.count; i++) {
        const tf_pending *pending = hub->group_pending[i];
        if (pending == NULL) {
            continue; /* refused */
        }
        if (conn != NULL && pending->first.conn != conn) {
            return i;
        }
        conn = pending->first.conn;
        if (conn == NULL) {
            return i + 1;
        }
    }
    return i;
}

/* S5: acks, then fan-out. In runs of one sender, so that when an ack is queued all below it is, too, and a sender that does
 * not get its own copies has no hole before them (S8). */
static void complete_run(tf_hub *hub, size_t first, size_t end)
{
    batch b = {.conn = NULL};
    for (size_t i = first; i < end; i++) {
        if (hub->group_pending[i] != NULL) {
            apply(hub, hub->group_pending[i], &hub->group.ops[i], &b);
        }
    }
    flush(&b);
    for (size_t i = first; i < end; i++) {
        if (hub->group_pending[i] != NULL && hub->group_pending[i]->kind == TF_STORE_APPEND) {
            tf_hub_fan_out(hub, hub->group_pending[i]);
        }
    }
}

static void complete(tf_hub *hub)
{
    TF_ASSERT(hub->group_open);
    hub->group_open = false;
    tf_hub_refuse_group(hub);
    for (size_t first = 0; first < hub->group.count;) {
        size_t end = run_end(hub, first);
        complete_run(hub, first, end);
        first = end;
    }
    for (size_t i = 0; i < hub->group.count; i++) {
        if (hub->group_pending[i] != NULL) {
            tf_hub_pending_free(hub, hub->group_pending[i]);
        }
    }
    hub->group.count = 0;
}

bool tf_hub_poll_store(tf_hub *hub)
{
    tf_store_event_type type = TF_STORE_READ_READY;
    bool any = false;
    while (hub->has_store && hub->store.table->poll(hub->store.ctx, &type)) {
        any = true;
        if (type == TF_STORE_GROUP_DONE) {
            complete(hub);
            continue;
        }
        tf_list_node *node = NULL;
        while ((node = tf_list_first(&hub->later)) != NULL) {
            tf_list_remove(node);
            tf_hub_wake(TF_CONTAINER(node, tf_conn, in_later));
        }
    }
    return any;
}
