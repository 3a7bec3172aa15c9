#include "tests/sim/net.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/limits.h"

/* Of a stream that loses: others that follow show the loss so soon, else timers do. */
#define REPAIR_SEEN (5 * TF_MS)
#define REPAIR_TIMER_MIN (200 * TF_MS)
#define REPAIR_TIMER_MAX (1 * TF_SECOND)

typedef enum kind {
    KIND_PACKET,
    KIND_ARRIVAL, /* of the first chunk of a pipe */
    KIND_CONFIRM, /* the writer learns that bytes have arrived */
    KIND_BROKEN,
    KIND_TIMER
} kind;

typedef struct queued {
    tf_time at;
    uint64_t sequence;
    kind kind;
    unsigned end;
    uint64_t generation;
    uint64_t number;
    uint8_t *data;
    size_t len;
} queued;

typedef struct chunk {
    struct chunk *next;
    tf_time at;
    size_t len;
    uint8_t data[];
} chunk;

typedef struct pipe_state {
    net_pipe set;
    size_t unconfirmed;
    bool full; /* the writer was told that there is no room */
    chunk *first;
    chunk *last;
    tf_time busy_until;
    tf_time last_at; /* when the latest chunk arrives: order */
    bool scheduled;
    uint64_t written;
} pipe_state;

typedef struct path_state {
    net_path set;
    tf_time busy_until;
} path_state;

struct net {
    tf_test_random random;
    tf_time now;
    uint64_t sequence;
    uint64_t trace;
    queued *heap;
    size_t count;
    size_t room;
    path_state paths[NET_ENDS];
    pipe_state pipes[NET_ENDS]; /* by the writing end */
    bool open;
    uint64_t generation;
    uint8_t *lent;
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "tests/sim/net: %s\n", what);
    abort();
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fail("out of memory");
    }
    return memory;
}

net *net_new(uint64_t seed)
{
    net *n = must(calloc(1, sizeof(*n)));
    tf_test_random_init(&n->random, seed);
    n->trace = UINT64_C(14695981039346656037);
    n->now = TF_SECOND;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        n->paths[end].set = (net_path){.delay = TF_MS, .queue = SIZE_MAX};
        n->pipes[end].set = (net_pipe){.delay = TF_MS, .buffer = (size_t)64 * 1024};
    }
    return n;
}

static void clear_pipe(pipe_state *pipe)
{
    while (pipe->first != NULL) {
        chunk *c = pipe->first;
        pipe->first = c->next;
        free(c);
    }
    pipe->last = NULL;
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
        clear_pipe(&n->pipes[end]);
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

/* --- events in order --- */

static bool before(const queued *a, const queued *b)
{
    return a->at < b->at || (a->at == b->at && a->sequence < b->sequence);
}

static void swap(queued *a, queued *b)
{
    queued held = *a;
    *a = *b;
    *b = held;
}

static void push(net *n, tf_time at, queued event)
{
    if (at < n->now) {
        fail("an event in the past");
    }
    if (n->count == n->room) {
        n->room = n->room == 0 ? 256 : 2 * n->room;
        n->heap = must(realloc(n->heap, n->room * sizeof(*n->heap)));
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

static queued pop(net *n)
{
    queued first = n->heap[0];
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

void net_timer(net *n, unsigned end, tf_time at, uint64_t id)
{
    push(n, at, (queued){.kind = KIND_TIMER, .end = end, .number = id});
}

/* --- datagrams --- */

static tf_time transmission(uint64_t rate, size_t len)
{
    return rate == 0 ? 0 : (tf_time)len * TF_SECOND / rate;
}

static void send_copy(net *n, unsigned end, uint64_t generation, uint64_t number, tf_slice packet)
{
    path_state *path = &n->paths[end];
    tf_time start = tf_time_max(n->now, path->busy_until);
    if (path->set.rate != 0 && (start - n->now) * path->set.rate / TF_SECOND > path->set.queue) {
        return;
    }
    path->busy_until = start + transmission(path->set.rate, packet.len);
    tf_time at = path->busy_until + path->set.delay;
    if (path->set.jitter > 0) {
        at += tf_test_random_below(&n->random, path->set.jitter);
    }
    if (tf_test_random_chance(&n->random, path->set.late, 1000)) {
        at += path->set.late_by;
    }
    push(n, at,
         (queued){.kind = KIND_PACKET,
                  .end = 1 - end,
                  .generation = generation,
                  .number = number,
                  .data = tf_test_exact(packet),
                  .len = packet.len});
}

void net_send(net *n, unsigned end, uint64_t generation, uint64_t number, tf_slice packet)
{
    const net_path *set = &n->paths[end].set;
    bool lost = tf_test_random_chance(&n->random, set->loss, 1000);
    bool repeated = tf_test_random_chance(&n->random, set->repeat, 1000);
    bool too_long = set->mtu != 0 && packet.len + TF_PACKET_HEADER + TF_PACKET_TAG > set->mtu;
    if (set->hole || lost || too_long) {
        return;
    }
    send_copy(n, end, generation, number, packet);
    if (repeated) {
        send_copy(n, end, generation, number, packet);
    }
}

/* --- the stream --- */

void net_open(net *n, uint64_t generation)
{
    if (n->open) {
        fail("a stream is open");
    }
    n->open = true;
    n->generation = generation;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        pipe_state *pipe = &n->pipes[end];
        clear_pipe(pipe);
        pipe->unconfirmed = 0;
        pipe->full = false;
        pipe->busy_until = n->now;
        pipe->last_at = n->now;
        pipe->scheduled = false;
    }
}

bool net_is_open(const net *n)
{
    return n->open;
}

size_t net_room(const net *n, unsigned end)
{
    const pipe_state *pipe = &n->pipes[end];
    return n->open && pipe->unconfirmed < pipe->set.buffer ? pipe->set.buffer - pipe->unconfirmed : 0;
}

static void schedule(net *n, unsigned end)
{
    pipe_state *pipe = &n->pipes[end];
    if (pipe->first == NULL || pipe->scheduled || pipe->set.hole) {
        return;
    }
    pipe->scheduled = true;
    push(n, tf_time_max(n->now, pipe->first->at),
         (queued){.kind = KIND_ARRIVAL, .end = end, .generation = n->generation});
}

/* How much later a chunk arrives for being lost on the way. */
static tf_time repair_time(net *n, unsigned end, size_t len)
{
    const net_pipe *set = &n->pipes[end].set;
    tf_time longest = 0;
    for (size_t at = 0; set->loss > 0 && at < len; at += NET_PIECE) {
        tf_time timer = REPAIR_TIMER_MIN;
        tf_time late = 0;
        for (bool first = true; tf_test_random_chance(&n->random, set->loss, 1000); first = false) {
            late += first ? n->pipes[0].set.delay + n->pipes[1].set.delay + REPAIR_SEEN : timer;
            timer = first ? timer : tf_time_min(2 * timer, REPAIR_TIMER_MAX);
        }
        longest = tf_time_max(longest, late);
    }
    return longest;
}

void net_write(net *n, unsigned end, tf_slice bytes)
{
    pipe_state *pipe = &n->pipes[end];
    if (bytes.len > net_room(n, end)) {
        fail("more is written than there is room");
    }
    chunk *c = must(malloc(sizeof(*c) + bytes.len));
    c->next = NULL;
    c->len = bytes.len;
    memcpy(c->data, bytes.data, bytes.len);
    pipe->busy_until = tf_time_max(n->now, pipe->busy_until) + transmission(pipe->set.rate, bytes.len);
    tf_time late = repair_time(n, end, bytes.len);
    pipe->last_at = tf_time_max(pipe->last_at, pipe->busy_until + pipe->set.delay + late);
    c->at = pipe->last_at;
    if (pipe->last == NULL) {
        pipe->first = c;
    } else {
        pipe->last->next = c;
    }
    pipe->last = c;
    pipe->unconfirmed += bytes.len;
    pipe->written += bytes.len;
    pipe->full = net_room(n, end) == 0;
    schedule(n, end);
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
    schedule(n, end);
}

static void break_end(net *n, unsigned end, tf_time learns, uint64_t generation)
{
    push(n, n->now + learns, (queued){.kind = KIND_BROKEN, .end = end, .generation = generation});
}

void net_cut(net *n, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS])
{
    if (!n->open) {
        return;
    }
    for (unsigned end = 0; end < NET_ENDS; end++) {
        pipe_state *pipe = &n->pipes[end];
        size_t left = pipe->set.hole ? 0 : keep[end];
        for (chunk *c = pipe->first; c != NULL && left > 0; c = c->next) {
            size_t len = c->len < left ? c->len : left;
            left -= len;
            push(n, n->now,
                 (queued){.kind = KIND_PACKET,
                          .end = 1 - end,
                          .generation = n->generation,
                          .number = UINT64_MAX, /* stream bytes */
                          .data = tf_test_exact(tf_slice_of(c->data, len)),
                          .len = len});
        }
        clear_pipe(pipe);
        break_end(n, end, learns[end], n->generation);
    }
    n->open = false;
}

uint64_t net_written(const net *n, unsigned end)
{
    return n->pipes[end].written;
}

static bool arrival(net *n, const queued *event, net_event *out)
{
    pipe_state *pipe = &n->pipes[event->end];
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
    pipe->first = c->next;
    pipe->last = pipe->first == NULL ? NULL : pipe->last;
    n->lent = tf_test_exact(tf_slice_of(c->data, c->len));
    *out = (net_event){
        .type = NET_BYTES, .end = 1 - event->end, .generation = n->generation, .data = n->lent, .len = c->len};
    push(n, n->now + n->pipes[1 - event->end].set.delay,
         (queued){.kind = KIND_CONFIRM, .end = event->end, .generation = n->generation, .len = c->len});
    free(c);
    schedule(n, event->end);
    return true;
}

static bool confirm(net *n, const queued *event, net_event *out)
{
    pipe_state *pipe = &n->pipes[event->end];
    if (!n->open || event->generation != n->generation) {
        return false;
    }
    pipe->unconfirmed -= event->len;
    *out = (net_event){.type = NET_WRITABLE, .end = event->end, .generation = n->generation};
    return true;
}

static bool give(net *n, queued *event, net_event *out)
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
        return arrival(n, event, out);
    case KIND_CONFIRM:
        return confirm(n, event, out);
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
        queued event = pop(n);
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
