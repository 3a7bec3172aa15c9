#include "tests/sim/refs/world.h"

#include <stdlib.h>

#define SETTLE_MAX 100000u
#define RECOUNT_EVERY 16u
#define BURST_MAX 64u
#define REPLIES_MAX 12u

/* -- small things -------------------------------------------------------------------------------------------------- */

size_t world_below(world *w, size_t bound)
{
    return bound == 0 ? 0 : (size_t)tf_test_random_below(&w->random, bound);
}

bool world_chance(world *w, unsigned of_eight)
{
    return world_below(w, 8) < of_eight;
}

void *world_grow(void *items, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) {
        return items;
    }
    size_t more = need * 2 + 16;
    uint8_t *bigger = realloc(items, more * size);
    if (bigger == NULL) {
        abort();
    }
    memset(bigger + *capacity * size, 0, (more - *capacity) * size);
    *capacity = more;
    return bigger;
}

void world_trace(world *w, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) { /* FNV-1a */
        w->trace = (w->trace ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
}

/* -- lines --------------------------------------------------------------------------------------------------------- */

static void line_push(line *l, tf_slice bytes)
{
    if (l->head + l->count == l->capacity && l->head > 0) {
        memmove(l->items, l->items + l->head, l->count * sizeof(*l->items));
        l->head = 0;
    }
    l->items = world_grow(l->items, &l->capacity, l->head + l->count + 1, sizeof(*l->items));
    l->items[l->head + l->count++] = (line_item){tf_test_exact(bytes), bytes.len};
}

static line_item line_pop(line *l)
{
    l->count--;
    return l->items[l->head++];
}

static void line_clear(line *l)
{
    while (l->count > 0) {
        free(line_pop(l).bytes);
    }
    free(l->items);
    *l = (line){0};
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static bool is_leaf(const world *w, unsigned at)
{
    unsigned count = 0;
    for (unsigned i = 0; i < w->conn_count; i++) {
        count += w->conns[i].ends[0].node->index == at ? 1 : 0;
        count += w->conns[i].ends[1].node->index == at ? 1 : 0;
    }
    return count == 1;
}

void world_init(world *w, const plan *p, bool verbose)
{
    *w = (world){.plan = *p,
                 .is_lean = p->max_message + p->max_refs + p->max_promises + p->max_results + p->weights[OP_STARVE] > 0,
                 .verbose = verbose,
                 .now = TF_SECOND,
                 .trace = UINT64_C(0xcbf29ce484222325)};
    tf_test_heap_init(&w->heap);
    tf_test_random_init(&w->random, p->seed * 2 + 7);
    w->node_count = world_nodes_of(w);
    (void)observer_new_thing(w, TF_REF_OBJECT, 0, TF_LOCAL_NONE); /* number 0 is none */
    w->messages = world_grow(w->messages, &w->message_capacity, 1, sizeof(*w->messages));
    w->outcomes = world_grow(w->outcomes, &w->outcome_capacity, 1, sizeof(*w->outcomes));
    w->message_count = 1;
    w->outcome_count = 1;
    for (unsigned i = 0; i < w->node_count; i++) {
        w->nodes[i].index = i;
        CHECK(w, tf_router_new(&w->nodes[i].router, &w->heap.mem, 0x5eed + i) == TF_OK, "tf_router_new", "node %u", i);
        app_begin(w, &w->nodes[i]);
    }
    world_connect(w);
    bool any_leaf = false;
    for (unsigned i = 0; i < w->node_count; i++) {
        any_leaf = any_leaf || is_leaf(w, i);
        w->nodes[i].value_bytes = tf_router_refs(w->nodes[i].router)->value_bytes;
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        w->nodes[i].active = is_leaf(w, i) || p->passive == 0 || !any_leaf;
    }
    for (unsigned i = 0; i < w->conn_count; i++) {
        world_take_roots(w, &w->conns[i]);
    }
    w->has_aliases = w->has_cycles;
}

conn_end *world_next_end(const world *w, size_t *cursor)
{
    while (*cursor < 2 * (size_t)w->conn_count) {
        size_t at = (*cursor)++;
        const conn *c = &w->conns[at / 2];
        if (c->open) {
            return c->ends[at % 2].self;
        }
    }
    return NULL;
}

static void node_free(node *n)
{
    tf_router_free(n->router);
    free(n->handles);
    free(n->decided);
    free(n->own);
    free(n->notes);
    *n = (node){0};
}

static void conn_free(world *w, conn *c)
{
    for (unsigned k = 0; k < 2 && c->open; k++) {
        tf_router_detach(c->ends[k].node->router, w->now, c->ends[k].session);
        tf_session_free(c->ends[k].session);
    }
}

void world_free(world *w)
{
    for (unsigned i = 0; i < w->conn_count; i++) {
        conn *c = &w->conns[i];
        conn_free(w, c);
        line_clear(&c->ends[0].out);
        line_clear(&c->ends[1].out);
        monitor_free(&c->monitor);
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        node_free(&w->nodes[i]);
    }
    free(w->things);
    free(w->messages);
    free(w->outcomes);
    CHECK(w, w->heap.live_blocks == 0, "memory is left", "%zu blocks, %zu bytes", w->heap.live_blocks,
          w->heap.live_bytes);
}

/* -- turns --------------------------------------------------------------------------------------------------------- */

static void check_monitor(world *w, const conn *c, bool ok)
{
    CHECK(w, ok, c->monitor.fault, "on the wire between nodes %u and %u, ref %llu", c->ends[0].node->index,
          c->ends[1].node->index, (unsigned long long)c->monitor.fault_ref);
}

static void collect(world *w, conn_end *e)
{
    tf_slice bytes;
    while (tf_session_peek_out(e->session, &bytes)) {
        world_trace(w, bytes.data, bytes.len);
        world_say_message(w, e, bytes);
        check_monitor(w, e->conn, monitor_sent(&e->conn->monitor, e->side, bytes));
        line_push(&e->out, bytes);
        tf_session_pop_out(e->session);
    }
}

/* It must end, at the end of the step: it could not say something. */
static void session_failed(world *w, conn_end *e, tf_err err)
{
    CHECK(w, err == TF_ERR_NOMEM && w->plan.weights[OP_STARVE] > 0, "a session failed", "node %u: %s", e->node->index,
          tf_err_text(err));
    e->conn->failed = true;
    w->cuts++;
    w->has_aliases = true;
}

void world_drain(world *w, node *n)
{
    tf_router_event event;
    while (tf_router_next_event(n->router, &event)) {
        app_hear(w, n, &event);
    }
    tf_session *session = NULL;
    tf_err err = TF_OK;
    while (tf_router_next_failed(n->router, &session, &err)) {
        session_failed(w, tf_router_owner(session), err);
    }
    while ((session = tf_session_take_written(tf_router_refs(n->router))) != NULL) {
        conn_end *e = tf_router_owner(session);
        if (e != NULL && e->conn->open) {
            collect(w, e);
        }
    }
}

static void check_turn(world *w, conn *c)
{
    if (!c->failed) {
        check_monitor(w, c, monitor_turn_ended(&c->monitor));
    }
}

void world_arrive(world *w, conn_end *to, tf_slice bytes)
{
    w->received++;
    check_monitor(w, to->conn, monitor_received(&to->conn->monitor, to->side, bytes));
    tf_err err = tf_router_recv(to->node->router, to->session, w->now, bytes);
    if (err == TF_ERR_NOMEM) {
        session_failed(w, to, err);
    } else if (err != TF_OK) {
        tf_session_fault fault = tf_session_get_fault(to->session);
        world_fail(w, "a message is refused", "node %u: %s (expected %llu, got %llu)", to->node->index,
                   tf_err_text(err), (unsigned long long)fault.expected, (unsigned long long)fault.got);
    }
    world_drain(w, to->node);
    check_turn(w, to->conn);
}

bool world_peek(const conn_end *e, tf_slice *out)
{
    if (e->out.count == 0) {
        return false;
    }
    *out = tf_slice_of(e->out.items[e->out.head].bytes, e->out.items[e->out.head].len);
    return true;
}

void world_pop(conn_end *e)
{
    free(line_pop(&e->out).bytes);
}

/* The next message from e arrives at the other end. */
static void receive(world *w, conn_end *e)
{
    line_item item = line_pop(&e->out);
    world_arrive(w, &e->conn->ends[1 - e->side], tf_slice_of(item.bytes, item.len));
    free(item.bytes);
}

static conn_end *pick_line(world *w, unsigned pick)
{
    conn_end *waiting[2 * CONNS_MAX];
    size_t count = 0;
    size_t cursor = 0;
    for (conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        if (!e->conn->failed && e->out.count > 0) {
            waiting[count++] = e;
        }
    }
    return count == 0 ? NULL : waiting[pick % count];
}

tf_time world_deadline(const world *w, const node *n)
{
    tf_time next = tf_router_deadline(n->router);
    size_t cursor = 0;
    for (const conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        if (e->node == n && !e->conn->failed) {
            next = tf_time_min(next, tf_session_deadline(e->session));
        }
    }
    return next;
}

void world_tick(world *w, node *n, tf_time now)
{
    w->now = tf_time_max(w->now, now);
    tf_router_tick(n->router, w->now);
    world_drain(w, n);
    size_t cursor = 0;
    for (conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        if (e->node != n || e->conn->failed || tf_session_deadline(e->session) > w->now) {
            continue;
        }
        tf_err err = tf_session_tick(e->session, w->now);
        if (err != TF_OK) {
            session_failed(w, e, err);
        }
        world_drain(w, n);
    }
}

static tf_time next_deadline(const world *w)
{
    tf_time next = TF_NEVER;
    for (unsigned i = 0; i < w->node_count; i++) {
        next = tf_time_min(next, world_deadline(w, &w->nodes[i]));
    }
    return next;
}

static void pass_time(world *w, tf_time now)
{
    for (unsigned i = 0; i < w->node_count; i++) {
        world_tick(w, &w->nodes[i], now);
    }
}

static void recount(world *w)
{
    for (unsigned i = 0; i < w->node_count; i++) {
        recount_node(w, &w->nodes[i]);
    }
    for (unsigned i = 0; i < w->conn_count; i++) {
        if (w->conns[i].open) {
            recount_lists(w, &w->conns[i]);
        }
    }
}

/* D14 */
static void cut(world *w, conn *c)
{
    if (!c->open) {
        return;
    }
    world_say(w, "the connection of nodes %u and %u is lost", c->ends[0].node->index, c->ends[1].node->index);
    c->open = false;
    w->cuts++;
    w->has_aliases = true;
    for (unsigned i = 0; i < 2; i++) {
        conn_end *e = &c->ends[i];
        line_clear(&e->out);
        app_lose(w, e->node, e->session);
        tf_router_detach(e->node->router, w->now, e->session);
        world_drain(w, e->node);
        tf_session_free(e->session);
        e->session = NULL;
    }
}

static bool cut_failed(world *w)
{
    bool any = false;
    for (unsigned i = 0; i < w->conn_count; i++) {
        if (w->conns[i].open && w->conns[i].failed) {
            cut(w, &w->conns[i]);
            any = true;
        }
    }
    return any;
}

/* On its own lines. */
static void settle(world *w)
{
    for (size_t i = 0; i < SETTLE_MAX; i++) {
        conn_end *e = pick_line(w, (unsigned)i);
        if (e != NULL) {
            receive(w, e);
            continue;
        }
        if (cut_failed(w)) {
            continue;
        }
        tf_time next = next_deadline(w);
        if (next == TF_NEVER) {
            return;
        }
        pass_time(w, next);
    }
    world_fail(w, "never silent", "after %u messages and timers", SETTLE_MAX);
}

void world_settle(world *w)
{
    if (w->settle == NULL) {
        settle(w);
    } else {
        w->settle(w->settle_ctx);
    }
    recount(w);
    recount_silent(w);
}

/* -- steps --------------------------------------------------------------------------------------------------------- */

static void join(world *w, unsigned pick)
{
    tf_test_heap_fail_never(&w->heap);
    const conn *lost = &w->conns[pick % w->conn_count];
    unsigned a = lost->ends[0].node->index;
    unsigned b = lost->ends[1].node->index;
    if (!world_are_connected(w, a, b) && w->conn_count < CONNS_MAX) {
        world_say(w, "nodes %u and %u connect again", a, b);
        world_connect_nodes(w, b, a);
        world_take_roots(w, &w->conns[w->conn_count - 1]);
    }
}

static node *pick_node(world *w, unsigned pick)
{
    node *active[NODES_MAX];
    size_t count = 0;
    for (unsigned i = 0; i < w->node_count; i++) {
        if (w->nodes[i].active) {
            active[count++] = &w->nodes[i];
        }
    }
    TF_ASSERT(count > 0);
    return active[pick % count];
}

static void trim(world *w)
{
    size_t cursor = 0;
    for (conn_end *e = world_next_end(w, &cursor); e != NULL; e = world_next_end(w, &cursor)) {
        tf_session_trim(e->session);
        tf_refs_trim(tf_router_refs(e->node->router));
    }
}

static void burst(world *w, unsigned pick)
{
    conn_end *e = pick_line(w, pick);
    for (unsigned i = 0; e != NULL && !e->conn->failed && e->out.count > 0 && i < BURST_MAX; i++) {
        receive(w, e);
    }
}

static void act(world *w, const step *s)
{
    node *n = pick_node(w, s->pick);
    switch (s->op) {
    case OP_SEND:
        app_send(w, n);
        break;
    case OP_PROMISE:
        app_promise(w, n);
        break;
    case OP_RESOLVE:
        app_resolve(w, n, 1 + world_below(w, 4));
        break;
    case OP_RELEASE:
        app_release(w, n);
        break;
    case OP_REVOKE:
        app_revoke(w, n);
        break;
    case OP_RECV:
    case OP_TIME:
    case OP_BURST:
    case OP_SETTLE:
    case OP_CUT:
    case OP_JOIN:
    case OP_STARVE:
    case OP_COUNT:
        return;
    }
    world_drain(w, n);
}

static void count_waiting(world *w)
{
    bool held = false;
    bool fenced = false;
    for (unsigned i = 0; i < w->node_count; i++) {
        tf_router_stats stats;
        tf_router_get_stats(w->nodes[i].router, &stats);
        held = held || stats.held_items > 0;
        fenced = fenced || stats.fences > 0;
    }
    w->held += held ? 1 : 0;
    w->fenced += fenced ? 1 : 0;
}

void world_step(world *w, const step *s)
{
    tf_test_random_init(&w->random, s->salt);
    w->step++;
    w->replies = REPLIES_MAX;
    conn_end *e = NULL;
    switch (s->op) {
    case OP_RECV:
        e = pick_line(w, s->pick);
        if (e != NULL) {
            receive(w, e);
        }
        break;
    case OP_TIME:
        if (world_chance(w, 1)) {
            trim(w);
        }
        pass_time(w, world_chance(w, 2) && next_deadline(w) != TF_NEVER ? next_deadline(w)
                                                                        : w->now + world_below(w, 5) * TF_MS);
        break;
    case OP_BURST:
        burst(w, s->pick);
        break;
    case OP_SETTLE:
        world_settle(w);
        break;
    case OP_CUT:
        cut(w, &w->conns[s->pick % w->conn_count]);
        break;
    case OP_JOIN:
        join(w, s->pick);
        break;
    case OP_STARVE:
        tf_test_heap_fail_at(&w->heap, world_below(w, 40), false);
        break;
    case OP_SEND:
    case OP_PROMISE:
    case OP_RESOLVE:
    case OP_RELEASE:
    case OP_REVOKE:
        act(w, s);
        break;
    case OP_COUNT:
        TF_UNREACHABLE();
    }
    (void)cut_failed(w);
    count_waiting(w);
    for (unsigned i = 0; i < w->conn_count; i++) {
        if (w->conns[i].open) {
            check_turn(w, &w->conns[i]);
        }
    }
    if (w->thorough || w->step % RECOUNT_EVERY == 0) {
        recount(w);
    }
}
