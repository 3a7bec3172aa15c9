/* A client of a laboratory: one node with its publishers and subscriptions, in a process of its own. Whatever it has to
 * know when it is killed and started again is in the shared memory. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/twofold.h"
#include "tests/harness/body.h"
#include "tests/harness/lab.h"

#define BATCH 256 /* sends between two looks at what came */

typedef struct publisher {
    uint32_t flow;
    uint32_t next; /* message */
    tf_remote *channel;
} publisher;

typedef struct subscriber {
    uint32_t sub;
    bool subscribed;
    tf_remote *channel;
} subscriber;

typedef struct client {
    const tf_lab_role *role;
    tf_lab_shared_client *shared;
    tf_node *node;
    tf_peer *peer;
    tf_log *log;
    publisher publishers[TF_SCENARIO_FLOWS_MAX];
    size_t publisher_count;
    subscriber subscribers[TF_SCENARIO_SUBS_MAX];
    size_t subscriber_count;
    tf_remote *channels[TF_SCENARIO_FLOWS_MAX + TF_SCENARIO_SUBS_MAX];
    size_t channel_count;
    bool full;
    tf_time connected_at; /* TF_NEVER: not yet */
    tf_time sample_at;
    tf_lab_sample before; /* what earlier processes of this client had counted */
    uint8_t body[TF_SCENARIO_BODY_MAX];
    int status; /* -1: goes on */
} client;

/* -- the beginning ------------------------------------------------------------------------------------------------- */

static int give_up(client *c, const char *what, tf_slice text)
{
    (void)snprintf(c->shared->error, sizeof(c->shared->error), "%s: %.*s", what, (int)text.len,
                   (const char *)text.data);
    c->status = 1;
    return 1;
}

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

/* Publishers that were killed go on with the first message that was not answered. */
static bool make_publishers(client *c)
{
    const tf_scenario *s = c->role->s;
    for (uint32_t i = 0; i < s->flow_count; i++) {
        if (s->flows[i].client != c->role->node) {
            continue;
        }
        publisher *p = &c->publishers[c->publisher_count++];
        *p = (publisher){.flow = i, .channel = open_channel(c, s->flows[i].channel)};
        if (p->channel == NULL) {
            return false;
        }
    }
    return true;
}

static bool make_subscribers(client *c)
{
    const tf_scenario *s = c->role->s;
    for (uint32_t i = 0; i < s->sub_count; i++) {
        if (s->subs[i].client != c->role->node) {
            continue;
        }
        subscriber *sub = &c->subscribers[c->subscriber_count++];
        tf_lab_shared_sub *shared = &c->role->shared->subs[i];
        size_t count = atomic_load(&shared->count);
        tf_start start = count == 0 ? TF_START_FIRST : TF_START_SEQ;
        uint64_t seq =
            count == 0 ? 0 : shared->records[(count < shared->capacity ? count : shared->capacity) - 1].seq + 1;
        *sub = (subscriber){.sub = i, .channel = open_channel(c, s->subs[i].channel)};
        if (sub->channel == NULL || tf_remote_subscribe(sub->channel, start, seq) != TF_OK) {
            return false;
        }
    }
    return true;
}

static bool begin(client *c)
{
    char why[TF_WHY_MAX] = "";
    tf_uri uri;
    const tf_lab_role *role = c->role;
    const tf_scenario_node *node = &role->s->nodes[role->node];
    tf_log_config log = {.level = TF_LOG_INFO,
                         .fd = STDERR_FILENO,
                         .now = tf_edge_now,
                         .wall_ms = tf_edge_wall_ms,
                         .mem = tf_edge_mem()};
    tf_node_config config = {.identity = role->identity};
    tf_connect_options options = {.routes = role->routes & node->routes, .connect_timeout = TF_NEVER};
    if (tf_log_new(&c->log, &log) != TF_OK || tf_uri_parse(&uri, role->uri, why) != TF_OK) {
        return false;
    }
    uri.standby = options.routes == TF_ROUTES_BOTH ? node->standby : 0;
    config.log = c->log;
    return options.routes != 0 && tf_node_new(&c->node, &config, why) == TF_OK &&
           tf_node_connect(c->node, &uri, &options, &c->peer) == TF_OK && make_publishers(c) && make_subscribers(c);
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

/* True: it was taken, or needs nothing. */
static bool send_one(client *c, publisher *p, tf_time due, tf_time now)
{
    const tf_scenario_flow *flow = &c->role->s->flows[p->flow];
    uint8_t *state = &c->role->shared->flows[p->flow].messages[p->next];
    char id[48];
    if (*state == TF_LAB_ACKED || *state == TF_LAB_REFUSED) {
        return true;
    }
    int len = snprintf(id, sizeof(id), "lab-%" PRIu32 "-%" PRIu32, p->flow, p->next);
    tf_lab_body_write(c->body, flow->size, p->flow, p->next);
    tf_remote_send_args send = {.client_id = tf_slice_of(id, (size_t)len),
                                .body = tf_slice_of(c->body, flow->size),
                                .was_sent = *state == TF_LAB_SENT,
                                .sent_ago = now > due ? now - due : 0,
                                .cookie = (uint64_t)p->flow << 32 | p->next};
    tf_err err = tf_remote_send(p->channel, &send);
    if (err == TF_OK) {
        *state = TF_LAB_SENT;
        return true;
    }
    if (err == TF_ERR_AGAIN) {
        c->full = true;
    } else {
        (void)give_up(c, "a send was not taken", tf_slice_str(tf_err_text(err)));
    }
    return false;
}

/* Sends what is due. When the next one is. */
static tf_time feed(client *c, tf_time start, tf_time now)
{
    tf_time next = TF_NEVER;
    const tf_scenario *s = c->role->s;
    for (size_t i = 0; i < c->publisher_count; i++) {
        publisher *p = &c->publishers[i];
        for (int n = 0; p->next < s->flows[p->flow].count && !c->full && c->status < 0; n++) {
            tf_time due = start + tf_scenario_due(s, p->flow, p->next);
            if (due > now || n == BATCH) {
                next = tf_time_min(next, due);
                break;
            }
            if (send_one(c, p, due, now)) {
                p->next++;
            }
        }
    }
    return next;
}

/* -- what comes ---------------------------------------------------------------------------------------------------- */

static void answered(client *c, const tf_node_event *event, tf_lab_message state)
{
    tf_lab_shared_flow *flow = &c->role->shared->flows[event->cookie >> 32];
    uint8_t *message = &flow->messages[(uint32_t)event->cookie];
    if (*message != TF_LAB_ACKED && *message != TF_LAB_REFUSED) {
        *message = (uint8_t)state;
        (void)atomic_fetch_add(&flow->answered, 1);
    }
}

static subscriber *subscriber_of(client *c, const tf_remote *channel)
{
    for (size_t i = 0; i < c->subscriber_count; i++) {
        if (c->subscribers[i].channel == channel) {
            return &c->subscribers[i];
        }
    }
    return NULL;
}

static void activity(client *c, const tf_node_event *event, tf_time now)
{
    const subscriber *sub = subscriber_of(c, event->channel);
    if (sub == NULL) {
        return;
    }
    uint32_t flow = 0;
    uint32_t number = 0;
    bool intact = tf_lab_body_read(event->body, c->role->s, &flow, &number);
    tf_lab_shared_sub *shared = &c->role->shared->subs[sub->sub];
    size_t count = atomic_load(&shared->count);
    if (count < shared->capacity) {
        shared->records[count] =
            (tf_lab_record){.at = now, .seq = event->seq, .number = number, .flow = (uint16_t)flow, .intact = intact};
    }
    atomic_store(&shared->count, count + 1);
}

static void subscribed(client *c, const tf_node_event *event)
{
    subscriber *sub = subscriber_of(c, event->channel);
    if (sub != NULL) {
        sub->subscribed = true;
    }
}

static void on_event(client *c, const tf_node_event *event, tf_time now)
{
    switch (event->type) {
    case TF_EVENT_CONNECTED:
        c->connected_at = c->connected_at == TF_NEVER ? now : c->connected_at;
        break;
    case TF_EVENT_CONNECT_FAILED:
        (void)give_up(c, "no connection", event->text);
        break;
    case TF_EVENT_CHANNEL_REFUSED:
    case TF_EVENT_ENDED:
        (void)give_up(c, "the channel was refused", event->code);
        break;
    case TF_EVENT_ACK:
        answered(c, event, TF_LAB_ACKED);
        break;
    case TF_EVENT_REFUSED:
        answered(c, event, TF_LAB_REFUSED);
        break;
    case TF_EVENT_SUBSCRIBED:
        subscribed(c, event);
        break;
    case TF_EVENT_ACTIVITY:
        activity(c, event, now);
        break;
    case TF_EVENT_ROOM:
        c->full = false;
        break;
    default: /* what a client of this kind need not know */
        break;
    }
}

/* -- what it tells ------------------------------------------------------------------------------------------------- */

static void add_route(tf_lab_route *out, const tf_route_stats *r)
{
    out->sent += r->sent_segments;
    out->received += r->received_segments;
    out->first += r->first;
    out->repeats += r->repeats;
    out->only += r->only;
    out->told_first += r->told_first;
    out->told_repeats += r->told_repeats;
    out->shed += r->shed;
    out->lost += r->lost;
    out->downs += r->downs;
    memcpy(out->late, r->late, sizeof(out->late));
}

static void sample(client *c, tf_time start, tf_time now)
{
    tf_peer_stats stats;
    tf_lab_sample s = c->before;
    size_t count = atomic_load(&c->shared->count);
    tf_peer_get_stats(c->peer, &stats);
    s.at = start != 0 && now > start ? now - start : 0;
    s.sessions += stats.sessions;
    s.resumes += stats.resumes;
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        add_route(&s.routes[i], &stats.routes[i].stats);
    }
    if (count < c->shared->capacity) {
        c->shared->samples[count] = s;
        atomic_store(&c->shared->count, count + 1);
    } else {
        c->shared->samples[count - 1] = s;
    }
    c->sample_at = now + TF_LAB_SAMPLE;
}

static bool has_all_routes(const client *c)
{
    tf_peer_stats stats;
    tf_routes routes = c->role->routes & c->role->s->nodes[c->role->node].routes;
    tf_peer_get_stats(c->peer, &stats);
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        bool wanted = (routes & (1u << i)) != 0 || i == TF_ROUTE_STREAM; /* the stream is there in any case */
        if (wanted && stats.routes[i].stats.verdict != TF_VERDICT_UP) {
            return false;
        }
    }
    return stats.connected;
}

static void say_ready(client *c, tf_time now)
{
    bool ready = c->connected_at != TF_NEVER;
    for (size_t i = 0; i < c->subscriber_count; i++) {
        ready = ready && c->subscribers[i].subscribed;
    }
    if (ready && (has_all_routes(c) || now - c->connected_at >= c->role->s->settle)) {
        atomic_store(&c->shared->ready, true);
    }
}

/* -- the loop ------------------------------------------------------------------------------------------------------ */

static void turn(client *c)
{
    tf_node_event event;
    tf_time start = atomic_load(&c->role->shared->start);
    tf_time now = tf_edge_now();
    tf_time next = now + TF_LAB_POLL;
    if (!atomic_load(&c->shared->ready)) {
        say_ready(c, now);
    }
    if (start != 0) {
        next = tf_time_min(next, feed(c, start, now));
    }
    if (now >= c->sample_at) {
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
    *c = (client){.role = role, .shared = &role->shared->clients[role->node], .connected_at = TF_NEVER, .status = -1};
    size_t count = atomic_load(&c->shared->count);
    if (count > 0) {
        c->before = c->shared->samples[count - 1];
    }
    if (!begin(c)) {
        (void)give_up(c, "cannot start", tf_slice_str("see its log"));
    }
    while (c->status < 0 && !atomic_load(&role->shared->stop)) {
        turn(c);
    }
    if (c->peer != NULL) {
        sample(c, atomic_load(&role->shared->start), tf_edge_now());
    }
    tf_node_free(c->node);
    tf_log_free(c->log);
    int status = c->status < 0 ? 0 : c->status;
    free(c);
    return status;
}
