#include "tests/sim/nodes/sim_cluster_world.h"

#include <stdio.h>
#include <stdlib.h>

/* -- applications -------------------------------------------------------------------------------------------------- */

static world *the_world;

static app *app_of(const sim_node *node)
{
    return node->user;
}

static unsigned index_of(const app *a)
{
    return (unsigned)(a - the_world->apps);
}

static void send_number(app *a, unsigned number, bool was_sent)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%u:%u", index_of(a), number);
    tf_send send = {.client_id = tf_slice_str(text),
                    .body = tf_slice_str(text),
                    .was_sent = was_sent,
                    .sent_ago = was_sent ? cluster_now(the_world->cluster) : 0,
                    .cookie = number};
    ck_assert_int_eq(tf_client_send(a->node->clients[0], cluster_now(the_world->cluster), a->channel, &send), TF_OK);
}

static void started(void *ctx, sim_node *node)
{
    (void)ctx;
    app *a = app_of(node);
    tf_time now = cluster_now(the_world->cluster);
    if (node->is_relay) {
        return;
    }
    tf_subscribe subscribe = {.from = {a->next == 1 ? TF_FROM_FIRST : TF_FROM_SEQ, a->next}, .echo = true};
    ck_assert_int_eq(tf_client_open(node->clients[0], now, tf_slice_str("c"), &a->channel), TF_OK);
    ck_assert_int_eq(tf_client_subscribe(node->clients[0], now, a->channel, &subscribe), TF_OK);
    for (unsigned number = a->acked + 1; number <= a->sent; number++) {
        send_number(a, number, true);
    }
}

static void take_activity(app *a, const tf_client_event *event)
{
    char text[32];
    ck_assert_uint_lt(event->body.len, sizeof(text));
    memcpy(text, event->body.data, event->body.len);
    text[event->body.len] = '\0';
    unsigned long from = strtoul(text, NULL, 10);
    unsigned long number = strtoul(strchr(text, ':') + 1, NULL, 10);
    ck_assert_uint_lt(from, APPS);
    ck_assert_uint_eq(event->seq, a->next);
    ck_assert_uint_eq(number, a->got[from] + 1u);
    a->next++;
    a->got[from]++;
}

static void turn(void *ctx, sim_node *node)
{
    (void)ctx;
    app *a = app_of(node);
    tf_client_event event;
    while (!node->is_relay && tf_client_next_event(node->clients[0], &event)) {
        cluster_mix(the_world->cluster, (uint64_t)event.type * 1000003u + event.seq);
        switch (event.type) {
        case TF_CLIENT_ACK:
            ck_assert_uint_eq(event.cookie, a->acked + 1u);
            a->acked++;
            break;
        case TF_CLIENT_ACTIVITY:
            take_activity(a, &event);
            break;
        case TF_CLIENT_OPENED:
        case TF_CLIENT_SUBSCRIBED:
        case TF_CLIENT_ROOM:
            break;
        default:
            ck_abort_msg("an event that nobody asked for: %d", (int)event.type);
        }
    }
}

static tf_time act(void *ctx, tf_time now)
{
    world *w = ctx;
    for (unsigned i = 0; i < APPS; i++) {
        app *a = &w->apps[i];
        if (w->flows && a->node->state == NODE_UP && tf_client_has_room(a->node->clients[0])) {
            send_number(a, ++a->sent, false);
        }
    }
    return w->flows ? now + FLOW_STEP : TF_NEVER;
}

static void session(void *ctx, bearer *b, unsigned end, bearer_event_type type, const char *why)
{
    world *w = ctx;
    app *a = app_of(cluster_end(w->cluster, b, 0));
    ck_assert_ptr_nonnull(bearer_conn(b, end));
    a->told[end][type]++;
    if (type == BEARER_LOST) {
        (void)snprintf(a->why[end], sizeof(a->why[end]), "%s", why);
    }
}

static void failed(void *ctx, const char *what)
{
    (void)ctx;
    ck_abort_msg("%s", what);
}

/* -- the world ----------------------------------------------------------------------------------------------------- */

static void join(world *w, unsigned index, const sim_node_config *config, tf_time delay)
{
    static const char *const names[APPS] = {"A", "B"};
    app *a = &w->apps[index];
    sim_node_config own = *config;
    own.name = names[index];
    own.user = a;
    *a = (app){.node = cluster_client(w->cluster, &own), .next = 1};
    a->bearer = cluster_join(w->cluster, a->node, w->relay);
    for (unsigned end = 0; end < NET_ENDS; end++) {
        net_path_of(bearer_net(a->bearer), end)->delay = delay;
        net_pipe_of(bearer_net(a->bearer), end)->delay = delay;
    }
}

void world_make(world *w, uint64_t seed, const sim_node_config *config, tf_time delay)
{
    const cluster_handlers handlers = {
        .ctx = w, .started = started, .turn = turn, .act = act, .session = session, .failed = failed};
    memset(w, 0, sizeof(*w));
    the_world = w;
    tf_test_heap_init(&w->heap);
    w->disk = disk_new(DISK_SLOW, "R", seed, &w->heap.mem);
    disk_set_weather(w->disk, TF_SECOND, &(disk_weather){.least = TF_MS, .spread = 5 * TF_MS});
    w->cluster = cluster_new(seed, &handlers);
    sim_node_config relay = {.name = "R", .disk = w->disk, .session_timeout = config->session_timeout};
    w->relay = cluster_relay(w->cluster, &relay);
    for (unsigned i = 0; i < APPS; i++) {
        join(w, i, config, delay);
    }
}

void world_run(world *w, tf_time span)
{
    ck_assert(!cluster_run(w->cluster, cluster_now(w->cluster) + span));
}

void world_start(world *w)
{
    cluster_start(w->cluster, w->relay);
    for (unsigned i = 0; i < APPS; i++) {
        cluster_start(w->cluster, w->apps[i].node);
    }
    world_run(w, TF_SECOND);
    for (unsigned i = 0; i < APPS; i++) {
        ck_assert(bearer_is_carrying(w->apps[i].bearer));
    }
}

void world_flow(world *w, bool on)
{
    w->flows = on;
    if (on) {
        cluster_call_at(w->cluster, cluster_now(w->cluster));
    }
}

uint64_t world_finish(world *w, tf_time span)
{
    unsigned sent[APPS];
    world_flow(w, false);
    world_run(w, span);
    for (unsigned i = 0; i < APPS; i++) {
        sent[i] = w->apps[i].sent;
        ck_assert_uint_eq(w->apps[i].acked, sent[i]);
    }
    for (unsigned i = 0; i < APPS; i++) {
        for (unsigned from = 0; from < APPS; from++) {
            ck_assert_uint_eq(w->apps[i].got[from], sent[from]);
        }
    }
    uint64_t trace = cluster_trace(w->cluster);
    cluster_free(w->cluster);
    disk_free(w->disk);
    ck_assert_uint_eq(w->heap.live_blocks, 0);
    return trace;
}

/* -- changes ------------------------------------------------------------------------------------------------------- */

void world_stream_hole(app *a, bool on)
{
    for (unsigned end = 0; end < NET_ENDS; end++) {
        if (on) {
            net_pipe_of(bearer_net(a->bearer), end)->hole = true;
        } else {
            net_heal_stream(bearer_net(a->bearer), end);
        }
    }
}

void world_datagram_hole(app *a, bool on)
{
    net_path_of(bearer_net(a->bearer), 0)->hole = on;
    net_path_of(bearer_net(a->bearer), 1)->hole = on;
}

void world_cut(app *a)
{
    static const size_t nothing[NET_ENDS] = {0, 0};
    static const tf_time soon[NET_ENDS] = {20 * TF_MS, 30 * TF_MS};
    bearer_cut(a->bearer, nothing, soon);
}

tf_link_stats world_link_stats(const app *a, unsigned end)
{
    tf_link_stats stats;
    ck_assert_ptr_nonnull(bearer_conn(a->bearer, end));
    tf_link_get_stats(tf_conn_link(bearer_conn(a->bearer, end)), &stats);
    return stats;
}

bearer_stats world_bearer_stats(const app *a)
{
    bearer_stats stats;
    bearer_get_stats(a->bearer, &stats);
    return stats;
}
