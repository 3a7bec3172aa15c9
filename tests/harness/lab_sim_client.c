/* A client of a laboratory as a node of the simulator: the same player on the same tf_client. */
#include "tests/harness/lab_sim.h"

static tf_client *client_of(const tf_lab_sim_client *c)
{
    return c->node->clients[0];
}

static tf_err send_on(void *ctx, uint32_t flow, const tf_remote_send_args *send)
{
    tf_lab_sim_client *c = ctx;
    tf_send what = {.client_id = send->client_id,
                    .body = send->body,
                    .was_sent = send->was_sent,
                    .sent_ago = send->sent_ago,
                    .cookie = send->cookie};
    return tf_client_send(client_of(c), net_now(bearer_net(c->routes.bearer)), c->flows[flow], &what);
}

/* -- the beginning ------------------------------------------------------------------------------------------------- */

static bool open_channel(tf_lab_sim_client *c, tf_time now, const char *name, size_t *channel)
{
    return tf_client_open(client_of(c), now, tf_slice_str(name), channel) == TF_OK;
}

static bool subscribe(tf_lab_sim_client *c, tf_time now, uint32_t sub)
{
    uint64_t seq = tf_lab_player_position(&c->player, sub);
    tf_subscribe what = {.from = {.kind = seq == 0 ? TF_FROM_FIRST : TF_FROM_SEQ, .value = seq}};
    return open_channel(c, now, c->player.s->subs[sub].channel, &c->subs[sub]) &&
           tf_client_subscribe(client_of(c), now, c->subs[sub], &what) == TF_OK;
}

void tf_lab_sim_client_begin(tf_lab_sim_client *c, tf_time now)
{
    const tf_scenario *s = c->player.s;
    bool good = true;
    tf_lab_player_init(&c->player, s, c->player.node, c->player.routes, c->player.shared);
    c->player.send = send_on;
    c->player.ctx = c;
    for (uint32_t i = 0; i < s->flow_count && good; i++) {
        good = !tf_lab_player_sends(&c->player, i) || open_channel(c, now, s->flows[i].channel, &c->flows[i]);
    }
    for (uint32_t i = 0; i < s->sub_count && good; i++) {
        good = !tf_lab_player_hears(&c->player, i) || subscribe(c, now, i);
    }
    if (!good) {
        tf_lab_player_fail(&c->player, "cannot start", tf_slice_str("a channel cannot be opened"));
    }
}

/* -- what comes ---------------------------------------------------------------------------------------------------- */

static void on_subscription(tf_lab_sim_client *c, const tf_client_event *event, tf_time now)
{
    uint32_t sub = 0;
    while (sub < c->player.s->sub_count && !(tf_lab_player_hears(&c->player, sub) && c->subs[sub] == event->channel)) {
        sub++;
    }
    if (sub == c->player.s->sub_count) {
        return;
    }
    if (event->type == TF_CLIENT_SUBSCRIBED) {
        c->player.subscribed[sub] = true;
    } else {
        tf_lab_player_heard(&c->player, sub, event->seq, event->body, now);
    }
}

static void on_event(tf_lab_sim_client *c, const tf_client_event *event, tf_time now)
{
    tf_lab_player *p = &c->player;
    switch (event->type) {
    case TF_CLIENT_CHANNEL_REFUSED:
    case TF_CLIENT_ENDED:
        tf_lab_player_fail(p, "the channel was refused", event->code);
        break;
    case TF_CLIENT_ACK:
        tf_lab_player_answered(p, event->cookie, TF_LAB_ACKED);
        break;
    case TF_CLIENT_REFUSED:
        tf_lab_player_answered(p, event->cookie, TF_LAB_REFUSED);
        break;
    case TF_CLIENT_SUBSCRIBED:
    case TF_CLIENT_ACTIVITY:
        on_subscription(c, event, now);
        break;
    case TF_CLIENT_ROOM:
        p->full = false;
        break;
    default: /* what a client of this kind need not know */
        break;
    }
}

void tf_lab_sim_client_hear(tf_lab_sim_client *c, tf_time now)
{
    tf_client_event event;
    while (client_of(c) != NULL && tf_client_next_event(client_of(c), &event)) {
        on_event(c, &event, now);
    }
}

/* -- what it tells ------------------------------------------------------------------------------------------------- */

static void count(const tf_lab_sim_client *c, tf_link_stats *link, tf_lab_counts *out)
{
    tf_client_stats client;
    tf_conn *conn = bearer_conn(c->routes.bearer, 0);
    tf_client_get_stats(client_of(c), &client);
    *link = (tf_link_stats){.resumes = 0};
    if (conn != NULL) {
        tf_link_get_stats(tf_conn_link(conn), link);
    }
    *out = (tf_lab_counts){.sessions = client.sessions, .resumes = link->resumes, .connected = conn != NULL};
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        out->routes[i] = &link->routes[i];
    }
}

void tf_lab_sim_client_sample(tf_lab_sim_client *c, tf_time start, tf_time now)
{
    tf_link_stats link;
    tf_lab_counts counts;
    count(c, &link, &counts);
    tf_lab_player_sample(&c->player, &counts, start, now);
}

void tf_lab_sim_client_session(tf_lab_sim_client *c, bearer_event_type type, tf_time now)
{
    tf_link_stats link;
    tf_lab_counts counts;
    switch (type) {
    case BEARER_OPENED:
        c->player.connected_at = tf_time_min(c->player.connected_at, now);
        return;
    case BEARER_RESUMED:
        return;
    case BEARER_LOST:
        count(c, &link, &counts);
        tf_lab_player_keep(&c->player, &counts);
        return;
    }
}

/* -- its turn ------------------------------------------------------------------------------------------------------ */

tf_time tf_lab_sim_client_go_on(tf_lab_sim_client *c, tf_time start, tf_time now)
{
    tf_link_stats link;
    tf_lab_counts counts;
    if (c->node->state != NODE_UP || c->player.failed) {
        return TF_NEVER;
    }
    if (!atomic_load(&c->player.own->ready)) {
        count(c, &link, &counts);
        tf_lab_player_look(&c->player, &counts, now);
    }
    if (now >= c->player.sample_at) {
        tf_lab_sim_client_sample(c, start, now);
    }
    tf_time next = start == 0 || now < start ? start : tf_lab_player_feed(&c->player, start, now);
    return tf_time_min(next == 0 ? TF_NEVER : next, c->player.sample_at);
}
