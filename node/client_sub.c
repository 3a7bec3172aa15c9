/* The subscription of one channel: one integer, `next`, decides what is new (P2). */
#include "node/client_internal.h"
#include "node/name.h"

tf_err tf_client_subscribe(tf_client *client, tf_time now, size_t channel, const tf_subscribe *subscribe)
{
    TF_ASSERT(channel < client->channel_count);
    tf_hub_clock(client->hub, now);
    tf_client_channel *ch = client->channels[channel];
    bool is_durable = subscribe->durable.len > 0;
    if (ch->sub != TF_SUB_NONE || (subscribe->from.kind == TF_FROM_SEQ && subscribe->from.value == 0) ||
        (is_durable && !tf_cursor_name_is_valid(subscribe->durable))) {
        return TF_ERR_USAGE;
    }
    if (ch->open == TF_OPEN_REFUSED) {
        return TF_ERR_CLOSED;
    }
    ch->sub = TF_SUB_WANTED;
    ch->from = subscribe->from;
    ch->echo = subscribe->echo;
    ch->next = 0;
    tf_client_cursor_reset(ch);
    ch->durable_len = subscribe->durable.len;
    if (is_durable) {
        memcpy(ch->durable, subscribe->durable.data, subscribe->durable.len);
    }
    tf_client_activate(ch);
    return TF_OK;
}

void tf_client_unsubscribe(tf_client *client, tf_time now, size_t channel)
{
    TF_ASSERT(channel < client->channel_count);
    tf_hub_clock(client->hub, now);
    tf_client_channel *ch = client->channels[channel];
    switch (ch->sub) {
    case TF_SUB_NONE:
    case TF_SUB_ENDING:
        return;
    case TF_SUB_WANTED:
        ch->sub = TF_SUB_NONE;
        return;
    case TF_SUB_REQUESTED:
        ch->sub = TF_SUB_ENDING;
        return;
    case TF_SUB_LIVE:
        ch->sub = TF_SUB_NONE;
        tf_router_release(client->hub->router, client->hub->now, ch->subscription);
        ch->subscription = TF_LOCAL_NONE;
        tf_hub_wake(client->conn);
        return;
    }
    TF_UNREACHABLE();
}

/* The peer may send what fits beside the events that wait. */
static uint64_t limit_of(const tf_client_channel *channel)
{
    uint64_t room = channel->backlog < TF_CLIENT_EVENT_BYTES ? TF_CLIENT_EVENT_BYTES - channel->backlog : 0;
    return channel->received + room;
}

bool tf_client_sub_wants_more(const tf_client_channel *channel)
{
    return channel->sub == TF_SUB_LIVE && limit_of(channel) >= channel->limit + TF_CLIENT_EVENT_BYTES / 4u;
}

tf_err tf_client_sub_more(tf_client_channel *channel)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_client *client = channel->client;
    tf_args_more more = {limit_of(channel)};
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_more_write(&w, &more);
    TF_ASSERT(tf_wr_ok(&w));
    tf_router_send send = {.target = channel->subscription,
                           .method = tf_slice_str("more"),
                           .args = tf_slice_of(bytes, tf_wr_len(&w))};
    tf_err err = tf_router_deliver(client->hub->router, client->hub->now, &send, NULL);
    if (err == TF_OK) {
        channel->limit = more.limit;
    }
    return err;
}

tf_err tf_client_sub_request(tf_client_channel *channel)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    channel->received = 0;
    channel->limit = limit_of(channel);
    tf_args_subscribe args = {.from = channel->from,
                              .echo = channel->echo,
                              .limit = channel->limit,
                              .durable = tf_slice_of(channel->durable, channel->durable_len)};
    if (channel->next != 0) { /* it goes on where it was */
        args.from = (tf_from){TF_FROM_SEQ, channel->next};
        args.has_epoch = true;
        args.epoch = channel->epoch;
    }
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_subscribe_write(&w, &args);
    TF_ASSERT(tf_wr_ok(&w));
    tf_mention sink = {channel->sink.local, TF_REF_OBJECT};
    tf_router_send send = {.target = channel->remote,
                           .method = tf_slice_str("subscribe"),
                           .args = tf_slice_of(bytes, tf_wr_len(&w)),
                           .refs = &sink,
                           .ref_count = 1,
                           .want_result = true};
    tf_err err = tf_client_request(channel->client, &channel->subscribe_request, &send);
    if (err == TF_OK) {
        channel->sub = TF_SUB_REQUESTED;
    }
    return err;
}

static bool is_epoch(const tf_gap *gap)
{
    return tf_slice_eq(gap->reason, tf_slice_str("epoch"));
}

/* What a gap, in the middle or at a (new) start, does to the position. Room for the reason is in the note. */
static void announce(tf_client_channel *channel, tf_note *note, const tf_gap *gap)
{
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.epoch = gap->epoch;
    note->event.expected = channel->next != 0 ? channel->next : channel->from.value;
    note->event.got = gap->next;
    note->event.epoch_changed = is_epoch(gap);
    note->event.code = tf_client_keep(&at, gap->reason);
    channel->epoch_told = note->event.epoch_changed;
    channel->client->stats.gaps++;
    tf_client_queue(channel->client, note);
}

/* Is the beginning another one than was asked for? */
static bool is_gap(const tf_client_channel *channel, const tf_result_subscribe *start)
{
    if (channel->next != 0) {
        return channel->epoch != start->epoch || start->next > channel->next;
    }
    return channel->from.kind == TF_FROM_SEQ && !start->resumed && start->next != channel->from.value;
}

static tf_err begin(tf_client_channel *channel, const tf_result_subscribe *start)
{
    tf_client *client = channel->client;
    bool is_other = channel->next != 0 && channel->epoch != start->epoch;
    tf_gap what = {.epoch = start->epoch, .reason = is_other ? tf_slice_str("epoch") : tf_slice_str("trimmed")};
    tf_note *note = tf_client_note(channel, TF_CLIENT_SUBSCRIBED, 0);
    tf_note *gap = tf_client_note(channel, TF_CLIENT_GAP, what.reason.len);
    if (note == NULL || gap == NULL) {
        tf_free(client->hub->config.mem, note, sizeof(*note));
        tf_free(client->hub->config.mem, gap, sizeof(*gap) + what.reason.len);
        return TF_ERR_NOMEM;
    }
    bool goes_on = channel->next != 0 && !is_other && start->next <= channel->next;
    uint64_t next = goes_on ? channel->next : start->next;
    note->event.epoch = start->epoch;
    note->event.head = start->head;
    note->event.first = start->first;
    note->event.next = next;
    note->event.resumed = start->resumed;
    tf_client_queue(client, note);
    channel->epoch_told = false;
    what.next = next;
    if (is_gap(channel, start)) {
        announce(channel, gap, &what);
    } else {
        tf_free(client->hub->config.mem, gap, gap->size);
    }
    if (is_other) {
        tf_client_cursor_reset(channel);
    }
    channel->epoch = start->epoch;
    channel->next = next;
    return TF_OK;
}

tf_err tf_client_sub_answered(tf_client_channel *channel, const tf_router_event *event)
{
    tf_result_subscribe start;
    if (event->kind != TF_RESOLUTION_DATA || event->ref_count != 1 || event->refs[0].kind != TF_REF_OBJECT ||
        tf_result_subscribe_read(event->data, &start) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (channel->sub == TF_SUB_ENDING) {
        channel->sub = TF_SUB_NONE; /* not held: so it is dropped, which ends it there */
        tf_client_activate(channel);
        return TF_OK;
    }
    tf_err err = begin(channel, &start);
    if (err == TF_OK) {
        channel->sub = TF_SUB_LIVE;
        channel->subscription = event->refs[0].local;
        tf_router_hold(channel->client->hub->router, channel->subscription);
        tf_client_activate(channel); /* something may be confirmed that the last session did not hear of */
    }
    return err;
}

/* What came is within what the peer was told. */
static bool take(tf_client_channel *channel, size_t bytes)
{
    bool fits = channel->received < channel->limit;
    channel->received += bytes;
    return fits;
}

static tf_err queue_activity(tf_client_channel *channel, const tf_activity *activity, size_t weight)
{
    tf_note *note = tf_client_note(channel, TF_CLIENT_ACTIVITY,
                                   activity->id.len + activity->client_id.len + activity->body.len + activity->meta.len);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.epoch = activity->epoch;
    note->event.seq = activity->seq;
    note->event.timestamp_ms = (int64_t)activity->timestamp_ms;
    note->event.sender = activity->sender;
    note->event.id = tf_client_keep(&at, activity->id);
    note->event.client_id = tf_client_keep(&at, activity->client_id);
    note->event.body = tf_client_keep(&at, activity->body);
    note->event.meta = tf_client_keep(&at, activity->meta);
    note->event.expires_ms = (int64_t)activity->expires_ms;
    note->weight = weight;
    channel->backlog += weight;
    tf_client_queue(channel->client, note);
    return TF_OK;
}

tf_err tf_client_sub_activity(tf_client_channel *channel, tf_slice args)
{
    tf_activity activity;
    if (tf_activity_read(args, &activity) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (channel->sub != TF_SUB_LIVE) {
        return TF_OK; /* of a subscription that we have ended */
    }
    if (!take(channel, args.len)) {
        return TF_ERR_PEER_LIMIT;
    }
    if (activity.epoch == channel->epoch && activity.seq < channel->next) {
        channel->client->stats.repeats++;
        if (tf_client_sub_wants_more(channel)) {
            tf_client_activate(channel);
        }
        return TF_OK;
    }
    /* A hole that nobody announced: never passed on. A new session reads it again. */
    if (activity.epoch != channel->epoch || activity.seq != channel->next) {
        return TF_ERR_PEER_STATE;
    }
    tf_err err = queue_activity(channel, &activity, args.len);
    if (err == TF_OK) {
        channel->next = activity.seq + 1;
        channel->client->stats.activities++;
    }
    return err;
}

tf_err tf_client_sub_gap(tf_client_channel *channel, tf_slice args)
{
    tf_gap gap;
    if (tf_gap_read(args, &gap) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (channel->sub != TF_SUB_LIVE) {
        return TF_OK;
    }
    if (!take(channel, args.len)) {
        return TF_ERR_PEER_LIMIT;
    }
    if (gap.epoch != channel->epoch) {
        return TF_ERR_PEER_STATE;
    }
    bool is_known = is_epoch(&gap) ? channel->epoch_told || gap.next < channel->next
                                                   : gap.next <= channel->next;
    if (is_known) {
        return TF_OK;
    }
    tf_note *note = tf_client_note(channel, TF_CLIENT_GAP, gap.reason.len);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    note->weight = args.len;
    channel->backlog += args.len;
    announce(channel, note, &gap);
    channel->next = gap.next;
    return TF_OK;
}

tf_err tf_client_sub_ended(tf_client_channel *channel, tf_slice args)
{
    tf_ended ended;
    tf_client *client = channel->client;
    if (tf_ended_read(args, &ended) != TF_OK) {
        return TF_ERR_PEER_SYNTAX;
    }
    if (channel->sub != TF_SUB_LIVE) {
        return TF_OK;
    }
    tf_note *note = tf_client_note(channel, TF_CLIENT_ENDED, ended.reason.len);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    uint8_t *at = (uint8_t *)(note + 1);
    note->event.code = tf_client_keep(&at, ended.reason);
    tf_client_queue(client, note);
    channel->sub = TF_SUB_NONE;
    tf_router_release(client->hub->router, client->hub->now, channel->subscription);
    channel->subscription = TF_LOCAL_NONE;
    tf_client_cursor_reset(channel);
    return TF_OK;
}

void tf_client_sub_own(tf_client_channel *channel, uint64_t seq)
{
    if (channel->sub == TF_SUB_LIVE && !channel->echo && channel->next == seq) {
        channel->next = seq + 1;
    }
}
