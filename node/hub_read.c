/* `read`: a bounded part of a channel as an answer. Reads wait in a short queue while the connection's queue is full. */
#include "node/hub_internal.h"

#define HEAD_MAX 96u /* of the answer, before its items */
#define GAPS_MAX 8u  /* in one answer */
#define GAP_BYTES ((size_t)48) /* of one, and of what is before the first */

static void end_request(tf_conn *conn, tf_read_request *request)
{
    tf_list_remove(&request->in_conn);
    conn->read_count--;
    tf_hub_channel_release(conn->hub, request->channel);
    tf_free(conn->hub->config.mem, request, sizeof(*request));
}

void tf_hub_reads_clear(tf_conn *conn)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->reads)) != NULL) {
        tf_read_request *request = TF_CONTAINER(node, tf_read_request, in_conn);
        tf_hub_abandon(conn->hub, request->promise, TF_CODE_DISCONNECTED);
        end_request(conn, request);
    }
}

tf_err tf_hub_reads_forbid(tf_conn *conn)
{
    tf_list_node *next = NULL;
    for (tf_list_node *node = conn->reads.head.next; node != &conn->reads.head; node = next) {
        tf_read_request *request = TF_CONTAINER(node, tf_read_request, in_conn);
        next = node->next;
        if (tf_hub_may(conn, request->channel, TF_RIGHT_READ)) {
            continue;
        }
        tf_err err = tf_hub_refuse(conn, request->promise, (tf_slice){NULL, 0}, TF_REFUSAL_FORBIDDEN);
        if (err != TF_OK) {
            return err;
        }
        end_request(conn, request);
    }
    return TF_OK;
}

/* An answer in the making. */
typedef struct items {
    tf_writer w;
    size_t count;
    size_t bytes_max; /* that the peer takes in one message */
    uint64_t next;    /* all that was asked for below it is in items or gaps */
    tf_hole gaps[GAPS_MAX];
    size_t gap_count;
    tf_refusal refusal; /* why there is not even one */
    bool later;
} items;

static size_t used(const items *found)
{
    return tf_wr_len(&found->w) + (found->gap_count == 0 ? 0 : (found->gap_count + 1) * GAP_BYTES);
}

/* Adds one message; false when the answer ends before it. */
static bool add(const tf_channel *channel, const tf_stored *stored, items *out)
{
    uint8_t id[TF_ACTIVITY_ID_MAX];
    tf_activity activity;
    size_t size = used(out) + stored->body.len + stored->meta.len + TF_ACTIVITY_OVERHEAD;
    if (size > out->bytes_max || (out->count > 0 && size > TF_HUB_READ_BYTES)) {
        out->refusal = TF_REFUSAL_MESSAGE_TOO_LARGE;
        return false;
    }
    tf_hub_activity(channel, stored, id, &activity);
    tf_activity_write(&out->w, &activity);
    TF_ASSERT(tf_wr_ok(&out->w));
    out->count++;
    out->next = stored->seq + 1;
    return true;
}

/* Notes that there is nothing up to next; false when the answer ends before it. */
static bool skip(items *out, uint64_t next, uint64_t last, tf_slice reason)
{
    if (out->gap_count == GAPS_MAX || used(out) + 2 * GAP_BYTES > out->bytes_max) {
        return false;
    }
    uint64_t end = next - 1 < last ? next - 1 : last;
    out->gaps[out->gap_count++] = (tf_hole){out->next, end, reason};
    out->next = end + 1;
    return true;
}

static void collect(const tf_hub *hub, const tf_read_request *request, items *out)
{
    const tf_channel *channel = request->channel;
    uint64_t last = request->range.to < channel->head ? request->range.to : channel->head;
    tf_stored stored;
    bool goes_on = true;
    out->next = request->range.from;
    while (goes_on && out->next <= last) {
        switch (hub->store.table->read(hub->store.ctx, channel->number, out->next, &stored)) {
        case TF_STORE_LATER:
            out->later = true;
            return;
        case TF_STORE_GONE:
            goes_on = skip(out, stored.seq, last, tf_slice_str("trimmed"));
            break;
        case TF_STORE_DAMAGED:
            goes_on = skip(out, stored.seq, last, tf_slice_str("damaged"));
            break;
        case TF_STORE_HERE:
            goes_on = add(channel, &stored, out);
            break;
        }
    }
}

/* Puts the head of the answer right before its items, and the gaps behind them. */
static tf_slice compose(tf_hub *hub, const tf_read_request *request, items *found)
{
    uint8_t head[HEAD_MAX];
    tf_writer w;
    tf_store_channel stored = {.first = 1};
    tf_err err = hub->store.table->channel_find(hub->store.ctx, tf_channel_name(request->channel), &stored);
    tf_result_read state = {.epoch = request->channel->epoch,
                            .head = request->channel->head,
                            .first = err == TF_OK ? stored.first : 1,
                            .next = found->next};
    tf_wr_init(&w, head, sizeof(head));
    tf_result_read_write_head(&w, &state, found->count, found->gap_count);
    TF_ASSERT(tf_wr_ok(&w));
    size_t len = tf_wr_len(&w);
    memcpy(hub->scratch + HEAD_MAX - len, head, len);
    if (found->gap_count > 0) {
        tf_result_read_write_gaps(&found->w, found->gap_count);
    }
    for (size_t i = 0; i < found->gap_count; i++) {
        tf_hole_write(&found->w, &found->gaps[i]);
    }
    TF_ASSERT(tf_wr_ok(&found->w));
    return tf_slice_of(hub->scratch + HEAD_MAX - len, len + tf_wr_len(&found->w));
}

/* TF_ERR_AGAIN: the store has to fetch something first. */
static tf_err answer(tf_hub *hub, tf_conn *conn, const tf_read_request *request)
{
    uint32_t announced = conn->config.session.remote.max_message;
    size_t peer_max = announced < TF_MESSAGE_MAX ? announced : TF_MESSAGE_MAX;
    items found = {.bytes_max = peer_max - 256u - HEAD_MAX};
    tf_wr_init(&found.w, hub->scratch + HEAD_MAX, hub->scratch_size - HEAD_MAX);
    collect(hub, request, &found);
    if (found.later) {
        return TF_ERR_AGAIN;
    }
    if (found.count == 0 && found.gap_count == 0 && found.refusal != TF_REFUSAL_NONE) {
        return tf_hub_refuse(conn, request->promise, (tf_slice){NULL, 0}, found.refusal);
    }
    tf_err err = tf_hub_answer(conn, request->promise, compose(hub, request, &found), NULL, 0);
    if (err == TF_ERR_LIMIT_BYTES) { /* for somebody else who waits for it, too */
        return tf_hub_refuse(conn, request->promise, (tf_slice){NULL, 0}, TF_REFUSAL_MESSAGE_TOO_LARGE);
    }
    return err;
}

tf_err tf_hub_serve_reads(tf_hub *hub, tf_conn *conn)
{
    tf_list_node *node = NULL;
    while ((node = tf_list_first(&conn->reads)) != NULL && tf_hub_has_room(conn)) {
        tf_read_request *request = TF_CONTAINER(node, tf_read_request, in_conn);
        tf_err err = answer(hub, conn, request);
        if (err == TF_ERR_AGAIN) {
            if (!tf_list_has(&conn->in_later)) {
                tf_list_append(&hub->later, &conn->in_later);
            }
            return TF_OK;
        }
        if (err != TF_OK) {
            return err;
        }
        end_request(conn, request);
    }
    return TF_OK;
}

tf_err tf_hub_read(const tf_call *call, const tf_args_read *range)
{
    tf_conn *conn = call->conn;
    if (call->event->result == TF_LOCAL_NONE) {
        return TF_OK;
    }
    if (conn->read_count >= TF_HUB_READS_MAX) {
        return tf_hub_refuse(conn, call->event->result, (tf_slice){NULL, 0}, TF_REFUSAL_OVERLOADED);
    }
    tf_read_request *request = tf_alloc(call->hub->config.mem, sizeof(*request));
    if (request == NULL) {
        return TF_ERR_NOMEM;
    }
    *request =
        (tf_read_request){.channel = call->channel, .promise = call->event->result, .range = *range};
    call->channel->uses++;
    conn->read_count++;
    tf_list_append(&conn->reads, &request->in_conn);
    tf_hub_wake(conn);
    return TF_OK;
}
