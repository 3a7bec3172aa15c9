/* A client of a laboratory as a process of its own: one node on the library, as any application has. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "tests/harness/lab_player.h"

typedef struct client {
    const tf_lab_role *role;
    tf_lab_player player;
    tf_node *node;
    tf_peer *peer;
    tf_log *log;
    tf_remote *flows[TF_SCENARIO_FLOWS_MAX]; /* channels; NULL: another client's */
    tf_remote *subs[TF_SCENARIO_SUBS_MAX];
    tf_remote *channels[TF_SCENARIO_FLOWS_MAX + TF_SCENARIO_SUBS_MAX];
    size_t channel_count;
} client;

/* -- the beginning ------------------------------------------------------------------------------------------------- */

/* A channel is opened once, by whoever of this client needs it first. */
static tf_remote *open_channel(client *c, const char *name)
{
    tf_slice wanted = tf_slice_str(name);
    for (size_t i = 0; i < c->channel_count; i++) {
        if (tf_slice_eq(tf_remote_name(c->channels[i]), wanted)) {
            return c->channels[i];
        }
    }
    tf_remote *channel = NULL;
    if (tf_remote_open(c->peer, wanted, &channel) != TF_OK) {
        return NULL;
    }
    c->channels[c->channel_count++] = channel;
    return channel;
}

static bool make_channels(client *c)
{
    const tf_scenario *s = c->role->s;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        if (tf_lab_player_sends(&c->player, i)) {
            c->flows[i] = open_channel(c, s->flows[i].channel);
            if (c->flows[i] == NULL) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < s->sub_count; i++) {
        if (tf_lab_player_hears(&c->player, i)) {
            uint64_t seq = tf_lab_player_position(&c->player, i);
            c->subs[i] = open_channel(c, s->subs[i].channel);
            if (c->subs[i] == NULL ||
                tf_remote_subscribe(c->subs[i], seq == 0 ? TF_START_FIRST : TF_START_SEQ, seq) != TF_OK) {
                return false;
            }
        }
    }
    return true;
}

static bool begin(client *c)
{
    char why[TF_WHY_MAX] = "";
    tf_uri uri;
    const tf_lab_role *role = c->role;
    tf_log_config log = {.level = TF_LOG_INFO,
                         .fd = STDERR_FILENO,
                         .now = tf_edge_now,
                         .wall_ms = tf_edge_wall_ms,
                         .mem = tf_edge_mem()};
    tf_node_config config = {.identity = role->identity};
    tf_connect_options options = {.routes = c->player.routes, .connect_timeout = TF_NEVER};
    if (tf_log_new(&c->log, &log) != TF_OK || tf_uri_parse(&uri, role->uri, why) != TF_OK) {
        return false;
    }
    uri.standby = options.routes == TF_ROUTES_BOTH ? role->s->nodes[role->node].standby : 0;
    config.log = c->log;
    return options.routes != 0 && tf_node_new(&c->node, &config, why) == TF_OK &&
           tf_node_connect(c->node, &uri, &options, &c->peer) == TF_OK && make_channels(c);
}

static tf_err send_on(void *ctx, uint32_t flow, const tf_remote_send_args *send)
{
    client *c = ctx;
    return tf_remote_send(c->flows[flow], send);
}

/* -- what comes ---------------------------------------------------------------------------------------------------- */

/* The subscription of an event; TF_SCENARIO_SUBS_MAX: none. */
static uint32_t sub_of(const client *c, const tf_remote *channel)
{
    uint32_t sub = 0;
    while (sub < TF_SCENARIO_SUBS_MAX && (channel == NULL || c->subs[sub] != channel)) {
        sub++;
    }
    return sub;
}

static void on_subscription(client *c, const tf_node_event *event, tf_time now)
{
    uint32_t sub = sub_of(c, event->channel);
    if (sub == TF_SCENARIO_SUBS_MAX) {
        return;
    }
    if (event->type == TF_EVENT_SUBSCRIBED) {
        c->player.subscribed[sub] = true;
    } else {
        tf_lab_player_heard(&c->player, sub, event->seq, event->body, now);
    }
}

static void on_event(client *c, const tf_node_event *event, tf_time now)
{
    tf_lab_player *p = &c->player;
    switch (event->type) {
    case TF_EVENT_CONNECTED:
        p->connected_at = p->connected_at == TF_NEVER ? now : p->connected_at;
        break;
    case TF_EVENT_CONNECT_FAILED:
        tf_lab_player_fail(p, "no connection", event->text);
        break;
    case TF_EVENT_CHANNEL_REFUSED:
    case TF_EVENT_ENDED:
        tf_lab_player_fail(p, "the channel was refused", event->code);
        break;
    case TF_EVENT_ACK:
        tf_lab_player_answered(p, event->cookie, TF_LAB_ACKED);
        break;
    case TF_EVENT_REFUSED:
        tf_lab_player_answered(p, event->cookie, TF_LAB_REFUSED);
        break;
    case TF_EVENT_SUBSCRIBED:
    case TF_EVENT_ACTIVITY:
        on_subscription(c, event, now);
        break;
    case TF_EVENT_ROOM:
        p->full = false;
        break;
    default: /* what a client of this kind need not know */
        break;
    }
}

/* -- what it tells ------------------------------------------------------------------------------------------------- */

static void count(const client *c, tf_peer_stats *stats, tf_lab_counts *out)
{
    tf_peer_get_stats(c->peer, stats);
    *out = (tf_lab_counts){.sessions = stats->sessions, .resumes = stats->resumes, .connected = stats->connected};
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        out->routes[i] = &stats->routes[i].stats;
    }
}

static void sample(client *c, tf_time start, tf_time now)
{
    tf_peer_stats stats;
    tf_lab_counts counts;
    count(c, &stats, &counts);
    tf_lab_player_sample(&c->player, &counts, start, now);
}

static void look(client *c, tf_time now)
{
    tf_peer_stats stats;
    tf_lab_counts counts;
    count(c, &stats, &counts);
    tf_lab_player_look(&c->player, &counts, now);
}

/* -- the loop ------------------------------------------------------------------------------------------------------ */

static void turn(client *c)
{
    tf_node_event event;
    tf_time start = atomic_load(&c->role->shared->start);
    tf_time now = tf_edge_now();
    tf_time next = now + TF_LAB_POLL;
    if (!atomic_load(&c->player.own->ready)) {
        look(c, now);
    }
    if (start != 0) {
        next = tf_time_min(next, tf_lab_player_feed(&c->player, start, now));
    }
    if (now >= c->player.sample_at) {
        sample(c, start, now);
    }
    now = tf_edge_now();
    tf_node_run(c->node, next > now ? next - now : 0);
    now = tf_edge_now();
    while (tf_node_next_event(c->node, &event)) {
        on_event(c, &event, now);
    }
}

int tf_lab_client_run(const tf_lab_role *role)
{
    client *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return 70;
    }
    c->role = role;
    tf_lab_player_init(&c->player, role->s, role->node, role->routes, role->shared);
    c->player.send = send_on;
    c->player.ctx = c;
    if (!begin(c)) {
        tf_lab_player_fail(&c->player, "cannot start", tf_slice_str("see its log"));
    }
    while (!c->player.failed && !atomic_load(&role->shared->stop)) {
        turn(c);
    }
    if (c->peer != NULL) {
        sample(c, atomic_load(&role->shared->start), tf_edge_now());
    }
    tf_node_free(c->node);
    tf_log_free(c->log);
    int status = c->player.failed ? 1 : 0;
    free(c);
    return status;
}
