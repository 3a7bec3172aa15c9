#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/net_internal.h"

void net_fail(const char *what)
{
    (void)fprintf(stderr, "tests/sim/net: %s\n", what);
    abort();
}

void *net_must(void *memory)
{
    if (memory == NULL) {
        net_fail("out of memory");
    }
    return memory;
}

net *net_new(uint64_t seed)
{
    net *n = net_must(calloc(1, sizeof(*n)));
    tf_test_random_init(&n->random, seed);
    n->trace = UINT64_C(14695981039346656037);
    n->now = TF_SECOND;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        n->paths[end].set = (net_path){.delay = TF_MS, .queue = SIZE_MAX};
        n->pipes[end].set = (net_pipe){.delay = TF_MS, .buffer = (size_t)64 * 1024};
    }
    return n;
}

void net_free(net *n)
{
    if (n == NULL) {
        return;
    }
    for (size_t i = 0; i < n->count; i++) {
        free(n->heap[i].data);
    }
    free(n->heap);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_clear_pipe(&n->pipes[end]);
        net_clear_path(&n->paths[end]);
    }
    free(n->lent);
    free(n);
}

tf_time net_now(const net *n)
{
    return n->now;
}

tf_test_random *net_random(net *n)
{
    return &n->random;
}

uint64_t net_trace(const net *n)
{
    return n->trace;
}

void net_mix(net *n, uint64_t value)
{
    for (unsigned i = 0; i < 8; i++) {
        n->trace ^= (value >> (8 * i)) & 0xffu;
        n->trace *= UINT64_C(1099511628211);
    }
}

net_path *net_path_of(net *n, unsigned end)
{
    return &n->paths[end].set;
}

net_pipe *net_pipe_of(net *n, unsigned end)
{
    return &n->pipes[end].set;
}

bool net_happens(net *n, unsigned odds, unsigned of)
{
    return tf_test_random_chance(&n->random, odds, of == 0 ? ODDS : of);
}

tf_time net_transmission(uint64_t rate, size_t len)
{
    return rate == 0 ? 0 : (tf_time)len * TF_SECOND / rate;
}

tf_time net_bloated(const net *n, tf_bloat *queue, tf_time length, uint64_t rate, size_t len)
{
    uint64_t left = tf_bloat_leaves(queue, n->now, length, net_transmission(rate == 0 ? TF_BLOAT_RATE / 8 : rate, len));
    return left == TF_BLOAT_FULL ? TF_NEVER : left;
}

/* --- events in order --- */

static bool before(const net_queued *a, const net_queued *b)
{
    return a->at < b->at || (a->at == b->at && a->sequence < b->sequence);
}

static void swap(net_queued *a, net_queued *b)
{
    net_queued held = *a;
    *a = *b;
    *b = held;
}

void net_push(net *n, tf_time at, net_queued event)
{
    if (at < n->now) {
        net_fail("an event in the past");
    }
    if (n->count == n->room) {
        n->room = n->room == 0 ? 256 : 2 * n->room;
        n->heap = net_must(realloc(n->heap, n->room * sizeof(*n->heap)));
    }
    event.at = at;
    event.sequence = n->sequence++;
    size_t i = n->count++;
    n->heap[i] = event;
    while (i > 0 && before(&n->heap[i], &n->heap[(i - 1) / 2])) {
        swap(&n->heap[i], &n->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static net_queued pop(net *n)
{
    net_queued first = n->heap[0];
    n->heap[0] = n->heap[--n->count];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < n->count; k++) {
            least = before(&n->heap[k], &n->heap[least]) ? k : least;
        }
        if (least == i) {
            return first;
        }
        swap(&n->heap[i], &n->heap[least]);
        i = least;
    }
}

tf_time net_peek(const net *n)
{
    return n->count == 0 ? TF_NEVER : n->heap[0].at;
}

void net_move(net *n, tf_time now)
{
    if (now < n->now || now > net_peek(n)) {
        net_fail("the clock is set back, or beyond what is to happen");
    }
    n->now = now;
}

void net_timer(net *n, unsigned end, tf_time at, uint64_t id)
{
    net_push(n, at, (net_queued){.kind = KIND_TIMER, .end = end, .number = id});
}

static bool give(net *n, net_queued *event, net_event *out)
{
    switch (event->kind) {
    case KIND_PACKET:
        n->lent = event->data;
        *out = (net_event){.type = event->number == UINT64_MAX ? NET_BYTES : NET_PACKET,
                           .end = event->end,
                           .generation = event->generation,
                           .number = event->number,
                           .data = event->data,
                           .len = event->len};
        return true;
    case KIND_ARRIVAL:
        return net_arrival(n, event, out);
    case KIND_CONFIRM:
        return net_confirm(n, event, out);
    case KIND_BROKEN:
        *out = (net_event){.type = NET_BROKEN, .end = event->end, .generation = event->generation};
        return true;
    case KIND_TIMER:
        *out = (net_event){.type = NET_TIMER, .end = event->end, .number = event->number};
        return true;
    }
    TF_UNREACHABLE();
}

bool net_next(net *n, tf_time until, net_event *out)
{
    free(n->lent);
    n->lent = NULL;
    while (n->count > 0 && n->heap[0].at <= until) {
        net_queued event = pop(n);
        n->now = event.at;
        if (give(n, &event, out)) {
            net_mix(n, n->now);
            net_mix(n, (uint64_t)out->type * NET_ENDS + out->end);
            net_mix(n, out->number ^ out->len << 32);
            return true;
        }
    }
    n->now = until == TF_NEVER ? n->now : until;
    return false;
}
