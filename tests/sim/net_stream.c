/* The stream of a net. */
#include <stdlib.h>

#include "tests/sim/net_internal.h"

/* Of a stream that loses: others that follow show the loss so soon, else timers do. */
#define REPAIR_SEEN (5 * TF_MS)
#define REPAIR_TIMER_MIN (200 * TF_MS)
#define REPAIR_TIMER_MAX (1 * TF_SECOND)

void net_clear_pipe(pipe_state *pipe)
{
    while (pipe->first != NULL) {
        chunk *c = pipe->first;
        pipe->first = c->next;
        free(c);
    }
    pipe->last = NULL;
}

void net_open(net *n, uint64_t generation)
{
    if (n->open) {
        net_fail("a stream is open");
    }
    n->open = true;
    n->generation = generation;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        pipe_state *pipe = &n->pipes[end];
        net_clear_pipe(pipe);
        pipe->unconfirmed = 0;
        pipe->stuck_since = TF_NEVER;
        pipe->finished = false;
        pipe->busy_until = n->now;
        pipe->last_at = n->now;
        pipe->scheduled = false;
    }
}

bool net_is_open(const net *n)
{
    return n->open;
}

/* How much a writer may have on its way. */
static size_t most_under_way(const net *n, unsigned end)
{
    const net_pipe *set = &n->pipes[end].set;
    if (set->rate == 0 || set->queue == 0) {
        return set->buffer;
    }
    tf_time trip = n->pipes[0].set.delay + n->pipes[1].set.delay;
    size_t most = (size_t)(set->rate * trip / TF_SECOND) + set->queue + NET_PIECE;
    return most < set->buffer ? most : set->buffer;
}

size_t net_room(const net *n, unsigned end)
{
    const pipe_state *pipe = &n->pipes[end];
    size_t most = most_under_way(n, end);
    return n->open && !pipe->finished && pipe->unconfirmed < most ? most - pipe->unconfirmed : 0;
}

tf_time net_stuck_since(const net *n, unsigned end)
{
    return n->open ? n->pipes[end].stuck_since : TF_NEVER;
}

static void schedule(net *n, unsigned end)
{
    pipe_state *pipe = &n->pipes[end];
    if (pipe->first == NULL || pipe->scheduled || pipe->set.hole) {
        return;
    }
    pipe->scheduled = true;
    net_push(n, tf_time_max(n->now, pipe->first->at),
         (net_queued){.kind = KIND_ARRIVAL, .end = end, .generation = n->generation});
}

/* How much later a chunk arrives for being lost on the way. */
static tf_time repair_time(net *n, unsigned end, size_t len)
{
    const net_pipe *set = &n->pipes[end].set;
    tf_time longest = set->jitter == 0 ? 0 : tf_test_random_below(&n->random, set->jitter);
    for (size_t at = 0; set->loss > 0 && at < len; at += NET_PIECE) {
        tf_time timer = REPAIR_TIMER_MIN;
        tf_time late = 0;
        for (bool first = true; net_happens(n, set->loss, set->of); first = false) {
            late += first ? n->pipes[0].set.delay + n->pipes[1].set.delay + REPAIR_SEEN : timer;
            timer = first ? timer : tf_time_min(2 * timer, REPAIR_TIMER_MAX);
        }
        longest = tf_time_max(longest, late);
    }
    return longest;
}

/* Until when the line is busy with it. How much later it comes for having found the queue full. */
static tf_time pass_queue(net *n, unsigned end, size_t len)
{
    pipe_state *pipe = &n->pipes[end];
    if (pipe->set.bloat == 0 && !pipe->bloat.is_on) {
        pipe->busy_until = tf_time_max(n->now, pipe->busy_until) + net_transmission(pipe->set.rate, len);
        return 0;
    }
    tf_time left = net_bloated(n, &pipe->bloat, pipe->set.bloat, pipe->set.rate, len);
    bool full = left == TF_NEVER;
    pipe->busy_until = tf_time_max(pipe->busy_until, full ? n->now + pipe->set.bloat : left);
    return full ? n->pipes[0].set.delay + n->pipes[1].set.delay + REPAIR_SEEN : 0;
}

static void append(net *n, unsigned end, chunk *c)
{
    pipe_state *pipe = &n->pipes[end];
    c->at = pipe->last_at;
    c->next = NULL;
    if (pipe->last == NULL) {
        pipe->first = c;
    } else {
        pipe->last->next = c;
    }
    pipe->last = c;
    schedule(n, end);
}

void net_write(net *n, unsigned end, tf_slice bytes)
{
    pipe_state *pipe = &n->pipes[end];
    if (bytes.len > net_room(n, end)) {
        net_fail("more is written than there is room");
    }
    chunk *c = net_must(malloc(sizeof(*c) + bytes.len));
    c->is_end = false;
    c->len = bytes.len;
    memcpy(c->data, bytes.data, bytes.len);
    tf_time late = repair_time(n, end, bytes.len) + pass_queue(n, end, bytes.len);
    pipe->last_at = tf_time_max(pipe->last_at, pipe->busy_until + pipe->set.delay + late);
    pipe->stuck_since = tf_time_min(pipe->stuck_since, n->now);
    pipe->unconfirmed += bytes.len;
    pipe->written += bytes.len;
    append(n, end, c);
}

void net_finish(net *n, unsigned end)
{
    pipe_state *pipe = &n->pipes[end];
    if (!n->open || pipe->finished) {
        return;
    }
    chunk *c = net_must(malloc(sizeof(*c)));
    c->is_end = true;
    c->len = 0;
    pipe->finished = true;
    pipe->last_at = tf_time_max(pipe->last_at, tf_time_max(n->now, pipe->busy_until) + pipe->set.delay);
    append(n, end, c);
}

/* What arrived is known to have, unless the way back has a hole. */
static void progress(net *n, unsigned end)
{
    pipe_state *pipe = &n->pipes[end];
    if (!n->pipes[1 - end].set.hole) {
        pipe->stuck_since = pipe->unconfirmed == 0 ? TF_NEVER : n->now;
    }
}

void net_heal_stream(net *n, unsigned end)
{
    pipe_state *pipe = &n->pipes[end];
    pipe->set.hole = false;
    tf_time from = n->now + pipe->set.penalty;
    for (chunk *c = pipe->first; c != NULL; c = c->next) {
        c->at = tf_time_max(c->at, from);
    }
    pipe->last_at = tf_time_max(pipe->last_at, from);
    progress(n, 1 - end);
    schedule(n, end);
}

static void break_end(net *n, unsigned end, tf_time learns, uint64_t generation)
{
    if (learns == TF_NEVER) {
        return;
    }
    net_push(n, n->now + learns, (net_queued){.kind = KIND_BROKEN, .end = end, .generation = generation});
}

void net_cut(net *n, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS])
{
    if (!n->open) {
        return;
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        pipe_state *pipe = &n->pipes[end];
        size_t left = pipe->set.hole ? 0 : keep[end];
        for (chunk *c = pipe->first; c != NULL && !c->is_end && left > 0; c = c->next) {
            size_t len = c->len < left ? c->len : left;
            left -= len;
            net_push(n, n->now,
                 (net_queued){.kind = KIND_PACKET,
                          .end = 1 - end,
                          .generation = n->generation,
                          .number = UINT64_MAX, /* stream bytes */
                          .data = tf_test_exact(tf_slice_of(c->data, len)),
                          .len = len});
        }
        net_clear_pipe(pipe);
        break_end(n, end, learns[end], n->generation);
    }
    n->open = false;
}

uint64_t net_written(const net *n, unsigned end)
{
    return n->pipes[end].written;
}

/* The writer's end of the stream has come. */
static bool end_of_stream(net *n, unsigned writer, net_event *out)
{
    *out = (net_event){.type = NET_BROKEN, .end = 1 - writer, .generation = n->generation};
    net_clear_pipe(&n->pipes[0]);
    net_clear_pipe(&n->pipes[1]);
    n->open = false;
    return true;
}

bool net_arrival(net *n, const net_queued *event, net_event *out)
{
    pipe_state *pipe = &n->pipes[event->end];
    const pipe_state *back = &n->pipes[1 - event->end];
    if (!n->open || event->generation != n->generation) {
        return false;
    }
    pipe->scheduled = false;
    chunk *c = pipe->first;
    if (c == NULL || pipe->set.hole) {
        return false;
    }
    if (c->at > n->now) {
        schedule(n, event->end);
        return false;
    }
    if (c->is_end) {
        return end_of_stream(n, event->end, out);
    }
    pipe->first = c->next;
    pipe->last = pipe->first == NULL ? NULL : pipe->last;
    net_push(n, n->now + back->set.delay,
             (net_queued){.kind = KIND_CONFIRM, .end = event->end, .generation = n->generation, .len = c->len});
    if (!back->finished) {
        n->lent = tf_test_exact(tf_slice_of(c->data, c->len));
        *out = (net_event){
            .type = NET_BYTES, .end = 1 - event->end, .generation = n->generation, .data = n->lent, .len = c->len};
    }
    free(c);
    schedule(n, event->end);
    return !back->finished;
}

bool net_confirm(net *n, const net_queued *event, net_event *out)
{
    pipe_state *pipe = &n->pipes[event->end];
    if (!n->open || event->generation != n->generation) {
        return false;
    }
    pipe->unconfirmed -= event->len;
    progress(n, event->end);
    *out = (net_event){.type = NET_WRITABLE, .end = event->end, .generation = n->generation};
    return true;
}
