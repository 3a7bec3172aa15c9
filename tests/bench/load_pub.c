/* tf-load pub: sends on a schedule that does not wait for anybody, so that what comes late is seen as late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/edge_mem.h"
#include "tests/bench/load.h"
#include "tests/bench/measure.h"

typedef struct load_pub {
    tf_load_client client;
    const tf_load_options *options;
    uint8_t *body;
    uint64_t *sent_at; /* by seq */
    uint64_t begin;    /* ns; message i is due at begin + i / rate */
    bool begun;
    bool full;
    uint64_t taken;
    uint64_t acked;
    uint64_t refused;
    uint64_t by_route[TF_ROUTE_COUNT];
    tf_latency late;  /* sent after it was due */
    tf_latency ack;   /* from sent */
    tf_latency sched; /* the ack, from due */
    int status;       /* -1: goes on */
} load_pub;

static uint64_t due(const load_pub *p, uint64_t seq)
{
    return p->begin + (uint64_t)((double)seq * 1e9 / p->options->rate);
}

static bool may_send(const load_pub *p)
{
    uint64_t unacked = p->taken - p->acked - p->refused;
    return p->begun && !p->full && p->taken < p->options->count &&
           (p->options->max_in_flight == 0 || unacked < p->options->max_in_flight);
}

static void feed(load_pub *p)
{
    while (may_send(p)) {
        tf_stamp stamp = {.seq = p->taken, .sent = tf_measure_now()};
        stamp.due = p->options->rate > 0 ? due(p, p->taken) : stamp.sent;
        if (stamp.due > stamp.sent) {
            return;
        }
        memcpy(p->body, &stamp, sizeof(stamp));
        tf_remote_send_args send = {.body = {p->body, (size_t)p->options->size}, .cookie = p->taken};
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
        p->sent_at[p->taken] = stamp.sent;
        tf_latency_add(&p->late, stamp.sent - stamp.due);
        p->taken++;
    }
}

static void acked(load_pub *p, const tf_node_event *event, uint64_t now)
{
    p->acked++;
    p->by_route[event->via]++;
    tf_latency_add(&p->ack, now - p->sent_at[event->cookie]);
    if (p->options->rate > 0) {
        tf_latency_add(&p->sched, now - due(p, event->cookie));
    }
}

static void handle(load_pub *p, const tf_node_event *event, uint64_t now)
{
    p->status = tf_load_event(&p->client, event);
    if (event->type == TF_EVENT_ACK) {
        acked(p, event, now);
    } else if (event->type == TF_EVENT_REFUSED) {
        p->refused++;
        if (p->refused == 1) {
            (void)fprintf(stderr, "tf-load: refused: %.*s: %.*s\n", (int)event->code.len,
                          (const char *)event->code.data, (int)event->text.len, (const char *)event->text.data);
        }
    } else if (event->type == TF_EVENT_ROOM) {
        p->full = false;
    }
}

static tf_time wait_time(const load_pub *p)
{
    if (p->options->rate <= 0 || !may_send(p)) {
        return TF_NEVER;
    }
    uint64_t now = tf_measure_now();
    uint64_t next = due(p, p->taken);
    return next > now ? (next - now + 999) / 1000 : 0;
}

static void run(load_pub *p)
{
    tf_node_event event;
    while (p->status < 0 && p->acked + p->refused < p->options->count && !tf_load_is_over(&p->client)) {
        if (!p->begun && tf_load_settled(&p->client)) {
            p->begun = true;
            p->begin = tf_measure_now();
        }
        feed(p);
        if (p->status < 0) {
            tf_node_run(p->client.node, tf_load_wait(&p->client, wait_time(p)));
        }
        uint64_t now = tf_measure_now();
        while (p->status < 0 && tf_node_next_event(p->client.node, &event)) {
            handle(p, &event, now);
        }
    }
}

static void print(const load_pub *p)
{
    double seconds = (double)(tf_measure_now() - p->begin) / 1e9;
    tf_measure_print("sent", (double)p->taken);
    tf_measure_print("acked", (double)p->acked);
    tf_measure_print("refused", (double)p->refused);
    tf_measure_print("acked_per_s", (double)p->acked / seconds);
    tf_latency_print(&p->ack, "ack");
    tf_latency_print(&p->sched, "ack_sched");
    tf_latency_print(&p->late, "late");
    tf_measure_print("acked_by_stream", (double)p->by_route[TF_ROUTE_STREAM]);
    tf_measure_print("acked_by_datagram", (double)p->by_route[TF_ROUTE_DATAGRAM]);
    tf_load_print_routes(&p->client);
    if (p->acked > 0) {
        tf_measure_print("pub_cpu_s_per_M", tf_measure_cpu() / (double)p->acked * 1e6);
    }
}

int tf_load_pub(const tf_load_options *options)
{
    load_pub *p = calloc(1, sizeof(*p));
    uint8_t *body = calloc(1, (size_t)options->size);
    uint64_t *sent_at = calloc((size_t)options->count, sizeof(*sent_at));
    int status = TF_LOAD_INTERNAL;
    if (p != NULL && body != NULL && sent_at != NULL) {
        *p = (load_pub){.options = options, .body = body, .sent_at = sent_at, .status = -1};
        status = tf_load_start(&p->client, options);
    }
    if (status == TF_LOAD_OK) {
        run(p);
        if (p->begun) {
            print(p);
        }
        bool whole = p->acked == options->count;
        status = p->status >= 0 ? p->status : whole ? TF_LOAD_OK : TF_LOAD_WRONG;
    }
    if (p != NULL) {
        tf_load_end(&p->client);
    }
    free(sent_at);
    free(body);
    free(p);
    return status;
}
