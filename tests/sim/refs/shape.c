#include "tests/sim/refs/world.h"

static void connect_side(world *w, conn *c, tf_side side, unsigned at)
{
    const plan *p = &w->plan;
    tf_session_limits limits = {
        .max_message = p->max_message == 0 ? TF_MESSAGE_MAX : p->max_message,
        .max_refs = p->max_refs == 0 ? TF_REFS_MAX : p->max_refs,
        .max_promises = p->max_promises == 0 ? TF_PROMISES_MAX : p->max_promises,
        .max_results = p->max_results == 0 ? TF_RESULTS_MAX : p->max_results,
    };
    node *n = &w->nodes[at];
    conn_end *e = &c->ends[side];
    *e = (conn_end){.conn = c, .self = e, .side = side, .node = n};
    tf_session_config config = {
        .side = side,
        .local = limits,
        .remote = limits,
        .refs = tf_router_refs(n->router),
        .root = n->root,
        .hash_key = 0x5eed,
        .mem = &w->heap.mem,
    };
    CHECK(w, tf_session_new(&e->session, &config) == TF_OK, "tf_session_new", "node %u", at);
    CHECK(w, tf_router_attach(n->router, e->session, e) == TF_OK, "tf_router_attach", "node %u", at);
}

void world_connect_nodes(world *w, unsigned a, unsigned b)
{
    conn *c = &w->conns[w->conn_count++];
    c->open = true;
    monitor_init(&c->monitor);
    connect_side(w, c, TF_SIDE_DIALLER, a);
    connect_side(w, c, TF_SIDE_ACCEPTOR, b);
}

bool world_are_connected(const world *w, unsigned a, unsigned b)
{
    for (unsigned i = 0; i < w->conn_count; i++) {
        unsigned x = w->conns[i].ends[0].node->index;
        unsigned y = w->conns[i].ends[1].node->index;
        if (w->conns[i].open && ((x == a && y == b) || (x == b && y == a))) {
            return true;
        }
    }
    return false;
}

/* A tree, and some connections more. */
static void connect_graph(world *w)
{
    for (unsigned i = 1; i < w->node_count; i++) {
        unsigned other = (unsigned)world_below(w, i);
        bool turned = world_chance(w, 4);
        world_connect_nodes(w, turned ? i : other, turned ? other : i);
    }
    for (size_t extra = world_below(w, 4); extra > 0; extra--) {
        unsigned a = (unsigned)world_below(w, w->node_count);
        unsigned b = (unsigned)world_below(w, w->node_count);
        if (a != b && !world_are_connected(w, a, b)) {
            world_connect_nodes(w, a, b);
            w->has_cycles = true;
        }
    }
}

unsigned world_nodes_of(world *w)
{
    switch (w->plan.shape) {
    case SHAPE_XY:
        return 2;
    case SHAPE_XRY:
        return 3;
    case SHAPE_XRRY:
    case SHAPE_STAR:
        return 4;
    case SHAPE_GRAPH:
        return 2 + (unsigned)world_below(w, NODES_MAX - 1);
    case SHAPE_COUNT:
        break;
    }
    TF_UNREACHABLE();
}

void world_connect(world *w)
{
    if (w->plan.shape == SHAPE_GRAPH) {
        connect_graph(w);
        return;
    }
    for (unsigned i = 1; i < w->node_count; i++) {
        world_connect_nodes(w, w->plan.shape == SHAPE_STAR ? 0 : i - 1, i);
    }
}

void world_take_roots(world *w, conn *c)
{
    conn_end *e = c->ends;
    app_take_root(w, e[0].node, e[0].session, e[1].node);
    app_take_root(w, e[1].node, e[1].session, e[0].node);
}
