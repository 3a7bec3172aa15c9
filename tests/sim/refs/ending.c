#include "tests/sim/refs/world.h"

/* True: there was something to resolve. */
static bool resolve_all(world *w)
{
    bool any = false;
    for (unsigned i = 0; i < w->node_count; i++) {
        node *n = &w->nodes[i];
        while (n->decided_count > 0) {
            app_resolve(w, n, 1 + world_below(w, 6));
            world_drain(w, n);
            any = true;
        }
    }
    return any;
}

static bool release_all(world *w)
{
    bool any = false;
    for (unsigned i = 0; i < w->node_count; i++) {
        node *n = &w->nodes[i];
        for (size_t k = n->handle_count; k-- > 0;) {
            if (k < n->handle_count && app_may_release(w, &n->handles[k])) {
                app_release_at(w, n, k);
                world_drain(w, n);
                any = true;
            }
        }
    }
    return any;
}

static void check_promises(const world *w, const node *n)
{
    for (size_t k = 0; k < n->handle_count; k++) {
        CHECK(w, w->things[n->handles[k].thing].kind == TF_REF_OBJECT, "a promise is stuck", "node %u waits for %u",
              n->index, n->handles[k].thing);
    }
}

void world_end(world *w)
{
    tf_test_heap_fail_never(&w->heap);
    tf_test_random_init(&w->random, w->plan.seed);
    w->closing = true;
    world_settle(w);
    if (w->plan.releases_first) {
        while (release_all(w)) {
            world_settle(w);
        }
    }
    while (resolve_all(w)) {
        world_settle(w);
    }
    for (unsigned i = 0; i < w->node_count; i++) {
        check_promises(w, &w->nodes[i]);
    }
    observer_check_arrived(w);
    do {
        world_settle(w);
    } while (release_all(w) || resolve_all(w));
    recount_empty(w);
}
