/* What the application has dealt with of a durable subscription (S10): told to the peer one position at a time, the newest
 * there is by then. */
#include "node/client_internal.h"

void tf_client_cursor_reset(tf_client_channel *channel)
{
    channel->confirmed = 0;
    channel->confirm_sent = 0;
    channel->confirm_durable = 0;
}

void tf_client_cursor_handed(tf_client_channel *channel, const tf_client_event *event)
{
    channel->handed_epoch = event->epoch;
    if (event->type == TF_CLIENT_ACTIVITY) {
        channel->handed = event->seq + 1;
    } else {
        channel->handed = event->type == TF_CLIENT_GAP ? event->got : event->next;
    }
}

tf_err tf_client_confirm(tf_client *client, tf_time now, size_t channel, uint64_t seq)
{
    TF_ASSERT(channel < client->channel_count);
    tf_hub_clock(client->hub, now);
    tf_client_channel *ch = client->channels[channel];
    if (ch->durable_len == 0 || ch->sub == TF_SUB_NONE || seq >= ch->handed) {
        return TF_ERR_USAGE;
    }
    if (ch->handed_epoch == ch->epoch && seq + 1 > ch->confirmed) {
        ch->confirmed = seq + 1;
        tf_client_activate(ch);
    }
    return TF_OK;
}

bool tf_client_is_confirming(const tf_client *client, size_t channel)
{
    TF_ASSERT(channel < client->channel_count);
    const tf_client_channel *ch = client->channels[channel];
    return ch->confirmed > ch->confirm_durable;
}

bool tf_client_cursor_is_due(const tf_client_channel *channel)
{
    return channel->sub == TF_SUB_LIVE && !channel->confirm_waits && channel->confirmed > channel->confirm_durable;
}

tf_err tf_client_cursor_request(tf_client_channel *channel)
{
    uint8_t bytes[TF_RESULT_SMALL_MAX];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_confirm_write(&w, &(tf_args_confirm){.epoch = channel->epoch, .next = channel->confirmed});
    TF_ASSERT(tf_wr_ok(&w));
    tf_router_send send = {.target = channel->subscription,
                           .method = tf_slice_str("confirm"),
                           .args = tf_slice_of(bytes, tf_wr_len(&w)),
                           .want_result = true};
    tf_err err = tf_client_request(channel->client, &channel->confirm_request, &send);
    if (err == TF_OK) {
        channel->confirm_waits = true;
        channel->confirm_sent = channel->confirmed;
    }
    return err;
}

bool tf_client_cursor_landed(tf_client_channel *channel)
{
    channel->confirm_waits = false;
    if (channel->confirm_sent == 0) {
        tf_client_activate(channel); /* what is confirmed by now waited for it */
    }
    return channel->confirm_sent != 0;
}

tf_err tf_client_cursor_answered(tf_client_channel *channel)
{
    if (!tf_client_cursor_landed(channel)) {
        return TF_OK;
    }
    tf_note *note = tf_client_note(channel, TF_CLIENT_CONFIRMED, 0);
    if (note == NULL) {
        return TF_ERR_NOMEM;
    }
    channel->confirm_durable = channel->confirm_sent;
    channel->confirm_sent = 0;
    note->event.epoch = channel->epoch;
    note->event.seq = channel->confirm_durable - 1;
    tf_client_queue(channel->client, note);
    tf_client_activate(channel);
    return TF_OK;
}
