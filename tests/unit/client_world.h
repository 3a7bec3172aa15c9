/* A server and clients in a small world, and what came out of each client (for the tests of node/client and of what the
 * hub does for it). */
#ifndef TF_TESTS_UNIT_CLIENT_WORLD_H
#define TF_TESTS_UNIT_CLIENT_WORLD_H

#include "tests/unit/hub_world.h"

#define LOG_MAX 8192u
#define LOG_CLIENTS 3u

/* The events of one client, checked as they come: P2, and acks in the order of the sends. */
typedef struct client_log {
    size_t counts[TF_CLIENT_ROOM + 1];
    uint64_t next;  /* of the channel, once subscribed */
    uint64_t epoch;
    bool skips_own; /* no echo: own messages may be missing in the middle */
    uint64_t seqs[LOG_MAX]; /* of activities */
    size_t activities;
    uint64_t acked_cookies[LOG_MAX];
    uint64_t acked_seqs[LOG_MAX];
    size_t acks;
    size_t duplicates;
    tf_client_event last[TF_CLIENT_ROOM + 1]; /* slices void, but code and message */
    char code[TF_REFUSAL_CODE_MAX + 1];
    char last_client_id[TF_CLIENT_ID_MAX + 1];
    char last_body[64];
} client_log;

typedef struct client_world {
    world w;
    world_node *server;
    world_node *nodes[LOG_CLIENTS];
    tf_client *clients[LOG_CLIENTS];
    world_pair *pairs[LOG_CLIENTS];
    client_log logs[LOG_CLIENTS];
    size_t count;
} client_world;

static inline void cw_begin(client_world *cw, uint64_t seed, const tf_hub_config *server)
{
    memset(cw, 0, sizeof(*cw));
    world_init(&cw->w, seed);
    cw->server = world_add(&cw->w, true, server);
}

static inline tf_client *cw_client(client_world *cw, const tf_client_config *config)
{
    size_t i = cw->count++;
    tf_client_config filled = config == NULL ? (tf_client_config){0} : *config;
    filled.instance = 0xabcdef00u + i;
    cw->nodes[i] = world_add(&cw->w, false, NULL);
    ck_assert_int_eq(tf_client_new(&cw->clients[i], cw->nodes[i]->hub, &filled), TF_OK);
    return cw->clients[i];
}

static inline void cw_connect(client_world *cw, size_t i)
{
    cw->pairs[i] = world_connect(&cw->w, cw->nodes[i], cw->server, 0xabcdef00u + i);
    tf_client_bind(cw->clients[i], cw->w.now, cw->pairs[i]->end[0].conn);
}

static inline void cw_lose(client_world *cw, size_t i)
{
    if (cw->pairs[i] != NULL) {
        world_disconnect(&cw->w, cw->pairs[i]);
        cw->pairs[i] = NULL;
    }
}

static inline void cw_end(client_world *cw)
{
    for (size_t i = 0; i < cw->count; i++) {
        cw_lose(cw, i);
        tf_client_free(cw->clients[i]);
    }
    world_free(&cw->w);
}

static inline void log_activity(client_log *log, const tf_client_event *event)
{
    ck_assert_uint_lt(log->activities, LOG_MAX);
    ck_assert_uint_eq(event->epoch, log->epoch);
    if (log->skips_own) {
        ck_assert_uint_ge(event->seq, log->next);
    } else {
        ck_assert_uint_eq(event->seq, log->next);
    }
    log->next = event->seq + 1;
    log->seqs[log->activities++] = event->seq;
    size_t len = event->body.len < sizeof(log->last_body) - 1 ? event->body.len : sizeof(log->last_body) - 1;
    memcpy(log->last_body, event->body.data, len);
    log->last_body[len] = 0;
}

static inline void log_event(client_log *log, const tf_client_event *event)
{
    log->counts[event->type]++;
    log->last[event->type] = *event;
    if (event->type == TF_CLIENT_SUBSCRIBED) {
        ck_assert(log->next == 0 || event->epoch != log->epoch || event->next >= log->next);
        log->next = event->next;
        log->epoch = event->epoch;
    }
    if (event->type == TF_CLIENT_GAP) {
        log->next = event->got;
    }
    if (event->type == TF_CLIENT_ACTIVITY) {
        log_activity(log, event);
    }
    if (event->type == TF_CLIENT_ACK) {
        ck_assert_uint_lt(log->acks, LOG_MAX);
        log->acked_cookies[log->acks] = event->cookie;
        log->acked_seqs[log->acks++] = event->seq;
        log->duplicates += event->duplicate ? 1 : 0;
    }
    if (event->client_id.len > 0 && event->client_id.len <= TF_CLIENT_ID_MAX) {
        memcpy(log->last_client_id, event->client_id.data, event->client_id.len);
        log->last_client_id[event->client_id.len] = 0;
    }
    if (event->code.len > 0) {
        memcpy(log->code, event->code.data, event->code.len);
        log->code[event->code.len] = 0;
    }
}

/* Takes all events of a client. */
static inline void cw_pull(client_world *cw, size_t i)
{
    tf_client_event event;
    while (tf_client_next_event(cw->clients[i], &event)) {
        log_event(&cw->logs[i], &event);
    }
}

/* Settles, with all clients' events taken. */
static inline void cw_settle(client_world *cw)
{
    size_t before = 0;
    size_t after = 0;
    do {
        before = after;
        world_settle(&cw->w);
        after = 0;
        for (size_t i = 0; i < cw->count; i++) {
            cw_pull(cw, i);
            for (size_t k = 0; k <= TF_CLIENT_ROOM; k++) {
                after += cw->logs[i].counts[k];
            }
        }
    } while (after != before);
}

static inline void cw_pass(client_world *cw, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        world_pass(&cw->w, 1);
        cw_settle(cw);
    }
}

static inline size_t cw_open(client_world *cw, size_t i, const char *name)
{
    size_t channel = 0;
    ck_assert_int_eq(tf_client_open(cw->clients[i], cw->w.now, tf_slice_str(name), &channel), TF_OK);
    return channel;
}

/* Sends "c-<number>" with the number as its cookie and a made client id. */
static inline tf_err cw_send(client_world *cw, size_t i, size_t channel, unsigned number)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "c-%u", number);
    return tf_client_send(cw->clients[i], cw->w.now, channel,
                          &(tf_send){.body = tf_slice_str(text), .cookie = number});
}

static inline void cw_send_range(client_world *cw, size_t i, size_t channel, unsigned from, unsigned to)
{
    for (unsigned number = from; number <= to; number++) {
        ck_assert_int_eq(cw_send(cw, i, channel, number), TF_OK);
    }
}

static inline void cw_subscribe(client_world *cw, size_t i, size_t channel, tf_from_kind kind, uint64_t value, bool echo)
{
    cw->logs[i].skips_own = !echo;
    tf_subscribe subscribe = {.from = {kind, value}, .echo = echo};
    ck_assert_int_eq(tf_client_subscribe(cw->clients[i], cw->w.now, channel, &subscribe), TF_OK);
}

/* The acks came in the order of the sends from ... to, each once. */
static inline bool log_acked(const client_log *log, unsigned from, unsigned to)
{
    if (log->acks != to - from + 1) {
        return false;
    }
    for (size_t i = 0; i < log->acks; i++) {
        if (log->acked_cookies[i] != from + i) {
            return false;
        }
    }
    return true;
}

#endif
