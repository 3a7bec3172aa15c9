/* tf-load pub: sends on a schedule that does not wait for anybody, so that what comes late is seen as late. Each of its
 * connections has a node and a thread; of the messages 0, 1, 2 ... connection i of C sends i, i + C, i + 2 C ... */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/edge_mem.h"
#include "proto/limits.h"
#include "tests/bench/acks.h"
#include "tests/bench/load.h"
#include "tests/bench/measure.h"

/* More sends can be neither in flight nor in the queue behind it. */
#define SLOTS_MAX (TF_OUT_QUEUE_ITEMS + TF_MAX_IN_FLIGHT_MAX)

typedef struct load_slot {
    uint64_t sent;
    uint64_t due;
} load_slot;

typedef struct load_pub {
    tf_load_client client;
    const tf_load_options *options;
    pthread_t thread;
    uint8_t *body;
    load_slot *slots; /* of sends that are neither acked nor refused; the cookie is the slot */
    uint32_t *unused; /* slots, a stack */
    uint32_t unused_count;
    uint64_t next; /* message */
    uint64_t end;  /* ns: nothing is sent from then on */
    bool full;
    uint64_t taken;
    uint64_t refused;
    uint64_t by_route[TF_ROUTE_COUNT];
    tf_acks acks;
    tf_latency late;  /* sent after it was due */
    tf_latency sched; /* the ack, from due */
    int status;       /* -1: goes on */
} load_pub;

/* Message i is due at the beginning + i / rate. */
static uint64_t due(const load_pub *p, uint64_t now)
{
    return p->options->rate > 0 ? p->acks.begin + (uint64_t)((double)p->next * 1e9 / p->options->rate) : now;
}

static bool is_sent(const load_pub *p, uint64_t now)
{
    return p->next >= p->options->count || due(p, now) >= p->end;
}

static void feed(load_pub *p)
{
    while (!p->full && p->unused_count > 0) {
        tf_stamp stamp = {.seq = p->next, .sent = tf_measure_now()};
        stamp.due = due(p, stamp.sent);
        if (stamp.due > stamp.sent || is_sent(p, stamp.sent)) {
            return;
        }
        memcpy(p->body, &stamp, sizeof(stamp));
        uint32_t slot = p->unused[p->unused_count - 1];
        tf_remote_send_args send = {.body = {p->body, (size_t)p->options->size}, .cookie = slot};
        tf_err err = tf_remote_send(p->client.channel, &send);
        if (err == TF_ERR_AGAIN) {
            p->full = true;
            return;
        }
        if (err != TF_OK) {
            (void)fprintf(stderr, "tf-load: send: %s\n", tf_err_text(err));
            p->status = TF_LOAD_INTERNAL;
            return;
        }
        p->slots[slot] = (load_slot){stamp.sent, stamp.due};
        p->unused_count--;
        p->next += p->options->connections;
        p->taken++;
        tf_latency_add(&p->late, stamp.sent - stamp.due);
    }
}

static void acked(load_pub *p, const tf_node_event *event, uint64_t now)
{
    const load_slot *slot = &p->slots[event->cookie];
    p->by_route[event->via]++;
    p->unused[p->unused_count++] = (uint32_t)event->cookie;
    tf_acks_add(&p->acks, slot->sent, now);
    if (p->options->rate > 0) {
        tf_latency_add(&p->sched, now - slot->due);
    }
}

static void refused(load_pub *p, const tf_node_event *event)
{
    p->unused[p->unused_count++] = (uint32_t)event->cookie;
    p->refused++;
    if (p->refused == 1) {
        (void)fprintf(stderr, "tf-load: refused: %.*s: %.*s\n", (int)event->code.len, (const char *)event->code.data,
                      (int)event->text.len, (const char *)event->text.data);
    }
}

static void turn(load_pub *p, tf_time wait)
{
    tf_node_event event;
    tf_node_run(p->client.node, tf_load_wait(&p->client, wait));
    uint64_t now = tf_measure_now();
    while (p->status < 0 && tf_node_next_event(p->client.node, &event)) {
        p->status = tf_load_event(&p->client, &event);
        if (event.type == TF_EVENT_ACK) {
            acked(p, &event, now);
        } else if (event.type == TF_EVENT_REFUSED) {
            refused(p, &event);
        } else if (event.type == TF_EVENT_ROOM) {
            p->full = false;
        }
    }
}

static tf_time wait_time(const load_pub *p, uint64_t now)
{
    if (p->options->rate <= 0 || p->full || p->unused_count == 0 || is_sent(p, now)) {
        return TF_NEVER;
    }
    uint64_t next = due(p, now);
    return next > now ? (next - now + 999) / 1000 : 0;
}

static void *run(void *arg)
{
    load_pub *p = arg;
    uint64_t now = tf_measure_now();
    while (p->status < 0 && !(is_sent(p, now) && p->acks.count + p->refused == p->taken) && !tf_load_is_over(&p->client)) {
        feed(p);
        if (p->status < 0) {
            turn(p, wait_time(p, tf_measure_now()));
        }
        now = tf_measure_now();
    }
    return NULL;
}

/* Connects, and waits for the routes. */
static int start(load_pub *p, const tf_load_options *options, uint32_t index)
{
    uint32_t slots = options->max_in_flight > 0 ? options->max_in_flight : SLOTS_MAX;
    *p = (load_pub){.options = options, .next = index, .unused_count = slots, .status = -1};
    p->body = calloc(1, (size_t)options->size);
    p->slots = calloc(slots, sizeof(*p->slots));
    p->unused = calloc(slots, sizeof(*p->unused));
    if (p->body == NULL || p->slots == NULL || p->unused == NULL) {
        return TF_LOAD_INTERNAL;
    }
    for (uint32_t i = 0; i < slots; i++) {
        p->unused[i] = i;
    }
    int status = tf_load_start(&p->client, options);
    while (status == TF_LOAD_OK && p->status < 0 && !tf_load_settled(&p->client) && !tf_load_is_over(&p->client)) {
        turn(p, TF_NEVER);
    }
    if (status == TF_LOAD_OK && !p->client.settled) {
        status = p->status >= 0 ? p->status : TF_LOAD_UNREACHABLE;
    }
    return status;
}

static void merge(load_pub *sum, const load_pub *p)
{
    sum->taken += p->taken;
    sum->refused += p->refused;
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        sum->by_route[i] += p->by_route[i];
    }
    tf_acks_merge(&sum->acks, &p->acks);
    tf_latency_merge(&sum->late, &p->late);
    tf_latency_merge(&sum->sched, &p->sched);
}

static void print(const load_pub *p)
{
    tf_measure_print("sent", (double)p->taken);
    tf_measure_print("refused", (double)p->refused);
    tf_acks_print(&p->acks);
    tf_latency_print(&p->sched, "ack_sched");
    tf_latency_print(&p->late, "late");
    tf_measure_print("acked_by_stream", (double)p->by_route[TF_ROUTE_STREAM]);
    tf_measure_print("acked_by_datagram", (double)p->by_route[TF_ROUTE_DATAGRAM]);
    tf_load_print_routes(&p->client);
    if (p->acks.count > 0) {
        tf_measure_print("pub_cpu_s_per_M", tf_measure_cpu() / (double)p->acks.count * 1e6);
    }
}

/* All connections were made in this thread, one after the other; now they begin, each in its own. */
static int run_all(load_pub *pubs, const tf_load_options *options)
{
    int status = TF_LOAD_OK;
    uint64_t begin = tf_measure_now();
    for (uint32_t i = 0; i < options->connections; i++) {
        pubs[i].acks.begin = begin;
        pubs[i].acks.slice = options->slice * 1000;
        pubs[i].end = options->send_time > 0 ? begin + options->send_time * 1000 : UINT64_MAX;
        if (pthread_create(&pubs[i].thread, NULL, run, &pubs[i]) != 0) {
            (void)fprintf(stderr, "tf-load: no more threads\n");
            exit(TF_LOAD_INTERNAL);
        }
    }
    for (uint32_t i = 0; i < options->connections; i++) {
        (void)pthread_join(pubs[i].thread, NULL);
        status = pubs[i].status > status ? pubs[i].status : status;
    }
    for (uint32_t i = 1; i < options->connections; i++) {
        merge(&pubs[0], &pubs[i]);
    }
    print(&pubs[0]);
    bool whole = pubs[0].acks.count == pubs[0].taken && (options->send_time > 0 || pubs[0].taken == options->count);
    return status == TF_LOAD_OK && !whole ? TF_LOAD_WRONG : status;
}

int tf_load_pub(const tf_load_options *options)
{
    int status = TF_LOAD_OK;
    load_pub *pubs = calloc(options->connections, sizeof(*pubs));
    if (pubs == NULL) {
        return TF_LOAD_INTERNAL;
    }
    for (uint32_t i = 0; i < options->connections && status == TF_LOAD_OK; i++) {
        status = start(&pubs[i], options, i);
    }
    if (status == TF_LOAD_OK) {
        status = run_all(pubs, options);
    }
    for (uint32_t i = 0; i < options->connections; i++) {
        tf_load_end(&pubs[i].client);
        free(pubs[i].body);
        free(pubs[i].slots);
        free(pubs[i].unused);
    }
    free(pubs);
    return status;
}
