/* The stream route of a bearer: bytes in and out, and how an end learns that it is gone. */
#include <stdlib.h>

#include "tests/sim/nodes/bearer_internal.h"

#define USER_TIMEOUT (TF_TCP_USER_TIMEOUT_MS * TF_MS)

/* The stream that an end believes in is there. */
static bool is_whole(const bearer *b, const bearer_end *e)
{
    return net_is_open(b->net) && e->stream_id == b->stream_id;
}

/* -- out ----------------------------------------------------------------------------------------------------------- */

/* What is written to half a stream goes nowhere: the machine at the other end says that it knows nothing of it, if it can
 * be reached and is up, else nobody says anything. */
static void write_to_half(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    uint8_t buf[TF_STREAM_RECORD];
    size_t buffer = net_pipe_of(b->net, end)->buffer;
    size_t room = e->unheard < buffer ? buffer - e->unheard : 0;
    size_t len = tf_link_pull_stream(e->link, bearer_now(b), buf, room < sizeof(buf) ? room : sizeof(buf));
    if (len == 0) {
        return;
    }
    e->unheard += len;
    if (e->breaks_at == TF_NEVER) {
        bool hole = net_pipe_of(b->net, 0)->hole || net_pipe_of(b->net, 1)->hole;
        bool answers = !b->ends[1 - end].side->dark && !hole;
        e->breaks_at = bearer_now(b) + (answers ? bearer_delay(b, 0) + bearer_delay(b, 1) : USER_TIMEOUT);
    }
}

void bearer_flush_stream(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    uint8_t buf[TF_STREAM_RECORD];
    e->wants_write = false;
    if (e->stream && !is_whole(b, e)) {
        write_to_half(b, end);
        return;
    }
    while (e->stream) {
        size_t room = net_room(b->net, end);
        if (room == 0) {
            e->wants_write = true;
            return;
        }
        size_t len = tf_link_pull_stream(e->link, bearer_now(b), buf, room < sizeof(buf) ? room : sizeof(buf));
        if (len == 0) {
            return;
        }
        net_write(b->net, end, tf_slice_of(buf, len));
    }
}

/* -- in ------------------------------------------------------------------------------------------------------------ */

void bearer_take_bytes(bearer *b, unsigned end)
{
    bearer_end *e = &b->ends[end];
    size_t used = 0;
    if (!e->stream || e->in.len == 0) {
        return;
    }
    tf_err err = tf_link_recv_stream(e->link, bearer_now(b), tf_slice_of(e->in.data, e->in.len), &used);
    if (err != TF_OK) {
        bearer_fault(b, end, tf_err_text(err));
        return;
    }
    e->in.len -= used;
    memmove(e->in.data, e->in.data + used, e->in.len);
    bearer_touch(b, end);
}

void bearer_came_bytes(bearer *b, unsigned end, uint64_t stream_id, tf_slice bytes)
{
    bearer_end *e = &b->ends[end];
    bool answer = end == 0 && b->dial.state == DIAL_ANSWER && b->dial.stream_id == stream_id;
    if (!answer && (!e->stream || e->stream_id != stream_id)) {
        return;
    }
    bearer_append(answer ? &b->dial.in : &e->in, bytes);
    if (e->side->paused) {
        e->waits = true;
    } else if (answer) {
        bearer_dial_answered(b);
    } else {
        bearer_take_bytes(b, end);
    }
}

/* -- the end of it ------------------------------------------------------------------------------------------------- */

void bearer_broke(bearer *b, unsigned end, uint64_t stream_id)
{
    bearer_end *e = &b->ends[end];
    if (end == 0 && b->dial.state == DIAL_ANSWER && b->dial.stream_id == stream_id) {
        bearer_dial_failed(b);
        return;
    }
    if (!e->stream || e->stream_id != stream_id) {
        return;
    }
    if (e->side->paused) {
        e->waits = true;
        e->broke = true;
        return;
    }
    e->stream = false;
    e->broke = false;
    e->breaks_at = TF_NEVER;
    e->in.len = 0;
    tf_link_stream_down(e->link, bearer_now(b));
    bearer_touch(b, end);
    if (end == 0) {
        bearer_dial_stream_ended(b);
    }
}

/* When the kernel of an end gives up its stream. */
static tf_time gives_up_at(const bearer *b, unsigned end)
{
    const bearer_end *e = &b->ends[end];
    return e->stream && is_whole(b, e) ? tf_time_add(net_stuck_since(b->net, end), USER_TIMEOUT) : TF_NEVER;
}

void bearer_tick_stream(bearer *b, unsigned end)
{
    static const size_t nothing[NET_ENDS] = {0, 0};
    bearer_end *e = &b->ends[end];
    if (gives_up_at(b, end) <= bearer_now(b)) {
        const tf_time learns[NET_ENDS] = {end == 0 ? 0 : TF_NEVER, end == 1 ? 0 : TF_NEVER};
        net_cut(b->net, nothing, learns);
    }
    if (e->breaks_at <= bearer_now(b)) {
        e->breaks_at = TF_NEVER;
        bearer_broke(b, end, e->stream_id);
    }
}

tf_time bearer_stream_deadline(const bearer *b, unsigned end)
{
    return tf_time_min(gives_up_at(b, end), b->ends[end].breaks_at);
}

void bearer_cut(bearer *b, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS])
{
    if (net_is_open(b->net)) {
        net_cut(b->net, keep, learns);
    }
    if (b->dial.state == DIAL_TRIPS) {
        b->dial.refused = true; /* what it has so far is broken, too */
    }
}
