/* What there is, and what is kept of it: channels, info, gaps; trim. Answers are bounded, and lists go on in the next. */
#include "node/hub_internal.h"

#define HOLES_MAX 64u /* of one answer */
#define LOOKS_MAX 1024u /* at channels that are not listed, for one answer */

tf_hub_list tf_hub_list_begin(const tf_call *call)
{
    uint32_t announced = call->conn->config.session.remote.max_message;
    size_t most = announced < TF_HUB_READ_BYTES ? announced : TF_HUB_READ_BYTES;
    tf_hub_list items = {.bytes_max = most - 256u - TF_HUB_LIST_HEAD};
    tf_wr_init(&items.w, call->hub->scratch + TF_HUB_LIST_HEAD, call->hub->scratch_size - TF_HUB_LIST_HEAD);
    return items;
}

bool tf_hub_list_has_room(const tf_hub_list *items)
{
    return tf_wr_len(&items->w) + TF_RESULT_SMALL_MAX <= items->bytes_max;
}

tf_err tf_hub_list_finish(const tf_call *call, const tf_writer *head, const tf_hub_list *items)
{
    uint8_t *scratch = call->hub->scratch;
    size_t len = tf_wr_len(head);
    TF_ASSERT(tf_wr_ok(head) && tf_wr_ok(&items->w));
    memcpy(scratch + TF_HUB_LIST_HEAD - len, head->start, len);
    tf_slice data = tf_slice_of(scratch + TF_HUB_LIST_HEAD - len, len + tf_wr_len(&items->w));
    tf_err err = tf_hub_answer(call->conn, call->event->result, data, NULL, 0);
    if (err == TF_ERR_LIMIT_BYTES) { /* for somebody else who waits for it, too */
        return tf_hub_refuse_call(call, TF_REFUSAL_MESSAGE_TOO_LARGE);
    }
    return err;
}

static tf_channel_state state_of(const tf_store_channel *stored)
{
    return (tf_channel_state){.name = stored->name,
                              .epoch = stored->epoch,
                              .first = stored->first,
                              .head = stored->head,
                              .bytes = stored->bytes,
                              .timestamp_ms = (uint64_t)stored->timestamp_ms,
                              .closed = stored->closed};
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

tf_err tf_hub_serve_channels(const tf_call *call)
{
    uint8_t bytes[TF_HUB_LIST_HEAD];
    tf_writer head;
    const tf_hub *hub = call->hub;
    tf_args_channels args;
    tf_store_channel stored;
    tf_result_channels result = {.next = 0};
    if (tf_args_channels_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_has_room(call->conn)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    tf_hub_list items = tf_hub_list_begin(call);
    uint64_t position = args.after;
    size_t looks = 0;
    while (hub->has_store && hub->store.table->channel_next(hub->store.ctx, &position, &stored)) {
        bool listed = tf_hub_may_by_name(call->conn, stored.name, TF_RIGHT_READ | TF_RIGHT_WRITE);
        if (!listed && ++looks < LOOKS_MAX) {
            args.after = position;
            continue;
        }
        if (!listed || !tf_hub_list_has_room(&items) || (args.limit != 0 && items.count >= args.limit)) {
            result.next = args.after;
            break;
        }
        tf_channel_state state = state_of(&stored);
        tf_channel_state_write(&items.w, &state);
        items.count++;
        args.after = position; /* of the last one that is listed */
    }
    tf_wr_init(&head, bytes, sizeof(bytes));
    tf_result_channels_write_head(&head, &result, items.count);
    return tf_hub_list_finish(call, &head, &items);
}

/* -- info ---------------------------------------------------------------------------------------------------------- */

/* As many as fit; how many there are. */
static uint64_t list_cursors(const tf_call *call, tf_hub_list *items)
{
    const tf_hub *hub = call->hub;
    tf_store_cursor cursor;
    size_t position = 0;
    uint64_t all = 0;
    while (hub->store.table->cursor_next(hub->store.ctx, call->channel->number, &position, &cursor)) {
        all++;
        if (tf_hub_list_has_room(items)) {
            tf_cursor_state_write(&items->w, &(tf_cursor_state){.name = cursor.name,
                                                                .owner = cursor.owner,
                                                                .epoch = cursor.epoch,
                                                                .next = cursor.next,
                                                                .moved_ms = (uint64_t)cursor.moved_ms});
            items->count++;
        }
    }
    return all;
}

tf_err tf_hub_serve_info(const tf_call *call)
{
    uint8_t bytes[TF_HUB_LIST_HEAD];
    tf_writer head;
    const tf_hub *hub = call->hub;
    tf_store_channel stored;
    tf_slice name = tf_channel_name(call->channel);
    if (tf_args_none_read(call->event->args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_has_room(call->conn)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    tf_hub_list items = tf_hub_list_begin(call);
    uint64_t cursors = list_cursors(call, &items);
    if (hub->store.table->channel_find(hub->store.ctx, name, &stored) != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_UNAVAILABLE);
    }
    tf_result_info result = {.state = state_of(&stored),
                             .keys_since_ms = (uint64_t)stored.keys_since_ms,
                             .subscriptions = call->channel->subscriptions,
                             .cursor_count = cursors};
    const tf_retention *keeps = call->channel->keeps;
    if (keeps != NULL) {
        result.max_age_ms = keeps->max_age_ms;
        result.max_bytes = keeps->max_bytes;
        result.max_count = keeps->max_count;
        result.dedup_age_ms = keeps->dedup_age_ms;
    }
    tf_wr_init(&head, bytes, sizeof(bytes));
    tf_result_info_write_head(&head, &result, items.count);
    return tf_hub_list_finish(call, &head, &items);
}

/* -- gaps ---------------------------------------------------------------------------------------------------------- */

/* The lowest ranges, ascending. */
typedef struct holes {
    tf_hole at[HOLES_MAX + 1u];
    size_t count;
} holes;

/* Sorts it in; what is beyond the last place falls out. */
static void sort_in(holes *found, const tf_hole *hole)
{
    size_t i = found->count;
    while (i > 0 && found->at[i - 1].first > hole->first) {
        i--;
    }
    if (i > HOLES_MAX) {
        return;
    }
    size_t last = found->count <= HOLES_MAX ? found->count : HOLES_MAX;
    for (size_t k = last; k > i; k--) {
        found->at[k] = found->at[k - 1];
    }
    found->at[i] = *hole;
    found->count += found->count <= HOLES_MAX ? 1u : 0u;
}

/* One more than is given out, to know whether there is more. */
static void find_holes(const tf_call *call, uint64_t from, const tf_store_channel *stored, holes *found)
{
    const tf_hub *hub = call->hub;
    tf_store_damage damage;
    size_t position = 0;
    *found = (holes){.count = 0};
    if (stored->first > 1 && stored->first > from) {
        sort_in(found, &(tf_hole){1, stored->first - 1, tf_slice_str("trimmed")});
    }
    while (hub->store.table->damage_next(hub->store.ctx, &position, &damage)) {
        uint64_t first = damage.first > stored->first ? damage.first : stored->first;
        if (damage.channel == stored->number && damage.last >= from && damage.last >= first) {
            sort_in(found, &(tf_hole){first, damage.last, tf_slice_str("damaged")});
        }
    }
}

tf_err tf_hub_serve_gaps(const tf_call *call)
{
    uint8_t bytes[TF_HUB_LIST_HEAD];
    tf_writer head;
    const tf_hub *hub = call->hub;
    tf_args_gaps args;
    tf_store_channel stored;
    holes found;
    if (tf_args_gaps_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (!tf_hub_has_room(call->conn)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    if (hub->store.table->channel_find(hub->store.ctx, tf_channel_name(call->channel), &stored) != TF_OK) {
        return tf_hub_refuse_call(call, TF_REFUSAL_UNAVAILABLE);
    }
    tf_hub_list items = tf_hub_list_begin(call);
    tf_result_gaps result = {.next = 0};
    find_holes(call, args.from, &stored, &found);
    while (items.count < found.count && items.count < HOLES_MAX && tf_hub_list_has_room(&items)) {
        tf_hole_write(&items.w, &found.at[items.count++]);
    }
    if (items.count < found.count) {
        result.next = found.at[items.count].first;
    }
    tf_wr_init(&head, bytes, sizeof(bytes));
    tf_result_gaps_write_head(&head, &result, items.count);
    return tf_hub_list_finish(call, &head, &items);
}

/* -- trim ---------------------------------------------------------------------------------------------------------- */

tf_err tf_hub_answer_trim(tf_conn *conn, tf_local promise, const tf_channel *channel)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_result_trim_write(&w, &(tf_result_trim){channel->first});
    TF_ASSERT(tf_wr_ok(&w));
    return tf_hub_answer(conn, promise, tf_slice_of(bytes, tf_wr_len(&w)), NULL, 0);
}

bool tf_hub_trim(tf_hub *hub, tf_channel *channel, uint64_t before)
{
    if (channel->trim == NULL) {
        tf_pending *pending = tf_hub_pending_new(hub, NULL, TF_STORE_TRIM, channel, 0);
        if (pending == NULL) {
            return false;
        }
        channel->trim = pending;
        tf_hub_gather(hub, pending);
    }
    if (channel->trim->seq < before) {
        channel->trim->seq = before;
    }
    if (channel->trim_to < before) {
        channel->trim_to = before;
    }
    return true;
}

tf_err tf_hub_serve_trim(const tf_call *call)
{
    tf_args_trim args;
    if (tf_args_trim_read(call->event->args, &args) != TF_OK || call->event->ref_count != 0) {
        return tf_hub_refuse_call(call, TF_REFUSAL_BAD_REQUEST);
    }
    if (args.before <= call->channel->first) {
        return tf_hub_answer_trim(call->conn, call->event->result, call->channel);
    }
    if (call->conn->waiting_opens >= TF_HUB_OPENS_MAX || !tf_hub_trim(call->hub, call->channel, args.before)) {
        return tf_hub_refuse_call(call, TF_REFUSAL_OVERLOADED);
    }
    return tf_hub_wait_call(call, call->channel->trim);
}
