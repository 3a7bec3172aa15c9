/* What the peers of tf-hostile do that is not fair. */
#include <stdio.h>

#include "node/calls.h"
#include "node/edge_mem.h"
#include "proto/frame.h"
#include "proto/message.h"
#include "tests/harness/hostile.h"

#define NEVER_SENT ((uint64_t)1 << 40)
#define MESSAGE_MAX ((size_t)TF_REFS_PER_MESSAGE * 10u)

static const tf_ref root_of_relay = 1; /* object 0 of the acceptor */

/* -- in ------------------------------------------------------------------------------------------------------------ */

/* The first answer that mentions something: the channel that was opened. */
static void look_for_channel(tf_hostile_peer *peer, tf_slice data)
{
    tf_message message;
    tf_resolution resolution;
    if (peer->channel != 0 || tf_message_read(data, &message) != TF_OK || message.kind != TF_MESSAGE_RESOLVE) {
        return;
    }
    while (tf_resolutions_next(&message.resolutions, &resolution)) {
        if (resolution.kind == TF_RESOLUTION_DATA && resolution.refs.count > 0) {
            (void)tf_refs_next(&resolution.refs, &peer->channel);
        }
    }
}

/* Segments are counted and not passed on to the link, which would ack them; the rest keeps the connection up. */
static bool is_for_link(tf_hostile_peer *peer, const tf_frame *frame)
{
    const tf_segment *segment = &frame->u.segment;
    if (frame->type != TF_FRAME_SEGMENT) {
        return true;
    }
    if (segment->seq >= peer->next_segment) {
        peer->next_segment = segment->seq + 1;
        peer->all->counts.segments++;
        peer->all->counts.bytes += segment->data.len;
        look_for_channel(peer, segment->data);
    }
    return peer->all->options->mode != TF_HOSTILE_NEVER_ACK;
}

size_t tf_hostile_take(tf_hostile_peer *peer, tf_slice in)
{
    tf_reader r;
    tf_frame frame;
    tf_slice message;
    tf_route via;
    size_t used = 0;
    tf_rd_init(&r, in);
    while (tf_frame_read(&r, &frame) == TF_OK) {
        size_t taken = 0;
        size_t end = in.len - tf_rd_left(&r);
        tf_slice bytes = tf_slice_of(in.data + used, end - used);
        if (is_for_link(peer, &frame) && tf_link_recv_stream(peer->link, tf_edge_now(), bytes, &taken) != TF_OK) {
            (void)fputs("tf-hostile: the relay does not keep to the protocol\n", stderr);
            peer->all->wrong = true;
            (void)event_base_loopbreak(peer->all->base);
        }
        while (tf_link_next_message(peer->link, &message, &via)) {
        }
        used = end;
    }
    return used;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

static void say(tf_hostile_peer *peer, const tf_deliver *deliver)
{
    uint8_t bytes[MESSAGE_MAX + 1024];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_message_write_deliver(&w, peer->number, 0, deliver);
    TF_ASSERT(tf_wr_ok(&w));
    if (tf_link_send(peer->link, tf_edge_now(), tf_slice_of(bytes, tf_wr_len(&w))) == TF_OK) {
        peer->number++;
    }
}

static void open_channel(tf_hostile_peer *peer)
{
    uint8_t bytes[TF_CHANNEL_NAME_MAX + 64];
    tf_writer w;
    tf_args_open open = {.channel = tf_slice_str(peer->all->options->channel)};
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_open_write(&w, &open);
    say(peer, &(tf_deliver){.target = root_of_relay,
                            .method = tf_slice_str("open"),
                            .args = tf_slice_of(bytes, tf_wr_len(&w)),
                            .has_result = true,
                            .result = tf_ref_make(0, TF_REF_PROMISE, TF_SIDE_DIALLER)});
}

static void subscribe(tf_hostile_peer *peer)
{
    uint8_t bytes[64];
    tf_writer w;
    tf_args_subscribe args = {.from = {.kind = TF_FROM_FIRST}, .limit = UINT64_MAX};
    tf_ref sink = tf_ref_make(1, TF_REF_OBJECT, TF_SIDE_DIALLER);
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_subscribe_write(&w, &args);
    say(peer, &(tf_deliver){.target = peer->channel,
                            .method = tf_slice_str("subscribe"),
                            .args = tf_slice_of(bytes, tf_wr_len(&w)),
                            .refs = &sink,
                            .ref_count = 1,
                            .has_result = true,
                            .result = tf_ref_make(1, TF_REF_PROMISE, TF_SIDE_DIALLER)});
}

static void ack_segments(tf_hostile_peer *peer)
{
    uint8_t bytes[64];
    tf_writer w;
    tf_frame frame = {.type = TF_FRAME_LINK_ACK, .u.link_ack = {.floor = NEVER_SENT}};
    tf_wr_init(&w, bytes, sizeof(bytes));
    TF_ASSERT(tf_frame_write(&w, &frame));
    if (tf_stream_room(peer->stream) >= tf_wr_len(&w)) {
        tf_stream_write(peer->stream, tf_slice_of(bytes, tf_wr_len(&w)));
    }
}

static void ack_messages(tf_hostile_peer *peer)
{
    uint8_t bytes[64];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_message_write_ack(&w, peer->number, NEVER_SENT);
    TF_ASSERT(tf_wr_ok(&w));
    if (tf_link_send(peer->link, tf_edge_now(), tf_slice_of(bytes, tf_wr_len(&w))) == TF_OK) {
        peer->number++;
    }
}

/* As many as fit a message. A relay drops what it does not know at once; but that is never acked. */
static void mention(tf_hostile_peer *peer)
{
    tf_ref refs[TF_REFS_PER_MESSAGE];
    uint64_t left = peer->all->options->count - peer->said;
    size_t count = left < TF_REFS_PER_MESSAGE ? (size_t)left : TF_REFS_PER_MESSAGE;
    for (size_t i = 0; i < count; i++) {
        refs[i] = tf_ref_make(peer->said + i + 1, TF_REF_OBJECT, TF_SIDE_DIALLER);
    }
    say(peer, &(tf_deliver){
                  .target = root_of_relay, .method = tf_slice_str("nothing"), .refs = refs, .ref_count = count});
    peer->said += count;
    peer->all->counts.said += count;
}

static void ask(tf_hostile_peer *peer)
{
    say(peer, &(tf_deliver){.target = root_of_relay,
                            .method = tf_slice_str("nothing"),
                            .has_result = true,
                            .result = tf_ref_make(peer->said, TF_REF_PROMISE, TF_SIDE_DIALLER)});
    peer->said++;
    peer->all->counts.said++;
}

static void say_more(tf_hostile_peer *peer, void (*more)(tf_hostile_peer *))
{
    while (peer->said < peer->all->options->count && tf_link_has_room(peer->link, MESSAGE_MAX)) {
        more(peer);
    }
}

void tf_hostile_act(tf_hostile_peer *peer)
{
    bool first = peer->number == 0;
    switch (peer->all->options->mode) {
    case TF_HOSTILE_HOLD:
        break;
    case TF_HOSTILE_NEVER_ACK:
        if (first) {
            open_channel(peer);
        } else if (peer->number == 1 && peer->channel != 0) {
            subscribe(peer);
        }
        break;
    case TF_HOSTILE_ACK_SEGMENTS:
        ack_segments(peer);
        break;
    case TF_HOSTILE_ACK_MESSAGES:
        if (first) {
            ack_messages(peer);
        }
        break;
    case TF_HOSTILE_REFS:
        say_more(peer, mention);
        break;
    case TF_HOSTILE_PROMISES:
        say_more(peer, ask);
        break;
    }
    tf_hostile_peer_flush(peer);
}
