/* Who is in a world: its relays with their disks, its clients with their applications, the connections between them. */
#include <stdlib.h>
#include <string.h>

#include "handshake/offer.h"
#include "tests/sim/nodes/world.h"

static uint64_t draw(world *w, uint64_t bound)
{
    return tf_test_random_below(&w->random, bound);
}

/* P4: all nodes ask the same filter before their exact windows, if any; one that is wrong about nearly all that is new, and one
 * that is wrong about all, lose nothing. */
static void make_filter(world *w)
{
    static const tf_bloom_config configs[] = {
        [FILTER_FAIR] = {.bytes = (size_t)16 * 1024},
        [FILTER_TINY] = {.bytes = TF_BLOOM_BLOCK},
        [FILTER_FULL] = {.bytes = TF_BLOOM_BLOCK, .fill = 1u << 30}, /* soon has all its bits set, and keeps them */
    };
    w->filter = NULL;
    if (w->plan.filter == FILTER_NONE) {
        return;
    }
    tf_bloom_config config = configs[w->plan.filter];
    config.key = tf_test_random_u64(&w->random);
    if (tf_dedup_new(&w->filter, &config, &w->heap.mem) != TF_OK) {
        abort();
    }
}

tf_time world_session_timeout(const world *w)
{
    return w->plan.short_sessions ? 3 * TF_SECOND : 20 * TF_SECOND;
}

static void fill_config(world *w, sim_node_config *config)
{
    config->dedup = w->filter;
    config->window_segments = w->plan.tiny_queues ? TF_WINDOW_SEGMENTS_MIN : 256;
    config->window_bytes = w->plan.tiny_queues ? TF_WINDOW_BYTES_MIN : 256u * 1024u;
    config->keepalive = w->plan.short_sessions ? TF_SECOND : 0;
    config->session_timeout = world_session_timeout(w);
}

static void make_relay(world *w, unsigned index)
{
    relay *r = &w->relays[index];
    ledger *ledgers = r->ledgers;
    *r = (relay){.ledgers = ledgers};
    (void)snprintf(r->name, sizeof(r->name), "R%u", index);
    tf_test_heap_init(&r->heap);
    r->disk = disk_new(w->plan.disk, r->name, tf_test_random_u64(&w->random), &r->heap.mem);
    sim_node_config config = {.name = r->name, .disk = r->disk, .small_store = w->plan.small_store, .user = r};
    config.hub.max_in_flight = w->plan.window;
    config.hub.rate = w->plan.rate;
    config.hub.commit_bytes_per_peer = w->plan.commit_bytes;
    if (w->plan.tiny_queues) {
        config.hub.out_queue_items = 8;
        config.hub.out_queue_bytes = 4096;
    }
    fill_config(w, &config);
    r->node = cluster_relay(w->cluster, &config);
    for (unsigned i = 0; i < w->plan.channels; i++) {
        ledger_init(&r->ledgers[i], w, r, i);
    }
    if (w->plan.slow_commits) {
        disk_set_weather(r->disk, world_now(w), &(disk_weather){.least = TF_MS, .spread = 40 * TF_MS});
    }
}

static void make_view(world *w, member *m, unsigned home, unsigned channel)
{
    view *v = &m->views[home][channel];
    unsigned made = v->pub.made;
    memset(v->pub.sends, 0, sizeof(v->pub.sends[0]) * (made + 1));
    v->w = w;
    v->member = m;
    v->home = home;
    v->channel = channel;
    v->ledger = &w->relays[m->homes[home]].ledgers[channel];
    v->pub.made = 0;
    v->pub.last_stored = 0;
    v->sub = (subscriber){.wanted = draw(w, 4) != 0, .echo = draw(w, 2) == 0, .durable = draw(w, 3) == 0};
    v->sub.from.kind = draw(w, 2) == 0 ? TF_FROM_FIRST : TF_FROM_NEW;
    v->sub.confirms = (unsigned)draw(w, 5);
}

static void make_member(world *w, unsigned index)
{
    member *m = &w->members[index];
    *m = (member){0};
    (void)snprintf(m->name, sizeof(m->name), "c%u", index);
    sim_node_config config = {.name = m->name, .user = m};
    config.client.queue_items = 64;
    config.client.queue_bytes = 256u * 1024u;
    config.client.session_timeout = world_session_timeout(w);
    fill_config(w, &config);
    m->node = cluster_client(w->cluster, &config);
    m->home_count = 1 + (unsigned)draw(w, w->plan.homes);
    unsigned first = (unsigned)draw(w, w->plan.relays);
    for (unsigned home = 0; home < m->home_count; home++) {
        m->homes[home] = (first + home) % w->plan.relays;
        m->views[home] = &w->views[w->view_count];
        w->view_count += w->plan.channels;
        for (unsigned channel = 0; channel < w->plan.channels; channel++) {
            make_view(w, m, home, channel);
        }
    }
}

static void join(world *w, member *m, unsigned home)
{
    m->bearers[home] = cluster_join(w->cluster, m->node, w->relays[m->homes[home]].node);
    route_base *base = w->base[cluster_bearer_count(w->cluster) - 1];
    net *n = bearer_net(m->bearers[home]);
    m->bases[home] = base;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_time delay = 200 + draw(w, w->plan.longest);
        base[end].path = (net_path){.delay = delay, .queue = SIZE_MAX};
        base[end].pipe = (net_pipe){.delay = delay, .buffer = 65536};
        *net_path_of(n, end) = base[end].path;
        *net_pipe_of(n, end) = base[end].pipe;
    }
}

void world_cast(world *w)
{
    static view views[WORLD_VIEWS_MAX];
    static ledger ledgers[PLAN_RELAYS_MAX][PLAN_CHANNELS_MAX];
    w->views = views;
    tf_test_random_init(&w->random, w->plan.seed ^ UINT64_C(0x74776f666f6c64));
    tf_test_heap_init(&w->heap);
    make_filter(w);
    w->cluster = cluster_new(w->plan.seed, &w->handlers);
    for (unsigned i = 0; i < w->plan.relays; i++) {
        w->relays[i].ledgers = ledgers[i];
        make_relay(w, i);
    }
    for (unsigned i = 0; i < w->plan.clients; i++) {
        make_member(w, i);
    }
    for (unsigned i = 0; i < w->plan.clients; i++) {
        for (unsigned home = 0; home < w->members[i].home_count; home++) {
            join(w, &w->members[i], home);
        }
    }
}
