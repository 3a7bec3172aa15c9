/* tf-load sub: takes what comes, says what is missing or came twice and how long it took. Each connection has a thread. */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/edge_mem.h"
#include "tests/bench/load.h"
#include "tests/bench/measure.h"

typedef struct load_sample {
    tf_stamp stamp;
    uint64_t received;
} load_sample;

typedef struct load_sub {
    tf_load_client client;
    const tf_load_options *options;
    atomic_uint *waiting; /* connections without a subscription */
    pthread_t thread;
    uint64_t *seen; /* bits, by seq */
    load_sample *samples;
    bool subscribed;
    bool ready;
    uint64_t distinct;
    uint64_t repeated;
    uint64_t disorder; /* came after one with a higher seq */
    uint64_t next;
    uint64_t first_sent;
    uint64_t last;
    uint64_t gap;
    tf_latency net;   /* from sent */
    tf_latency sched; /* from due */
    int status;       /* -1: goes on */
} load_sub;

static void activity(load_sub *s, const tf_node_event *event, uint64_t now)
{
    tf_stamp stamp;
    if (event->body.len < sizeof(stamp)) {
        (void)fprintf(stderr, "tf-load: a message that is not ours is in the channel\n");
        s->status = TF_LOAD_WRONG;
        return;
    }
    memcpy(&stamp, event->body.data, sizeof(stamp));
    if (stamp.seq >= s->options->count) {
        return; /* the publisher sends more than was asked for here */
    }
    uint64_t bit = (uint64_t)1 << (stamp.seq % 64);
    if ((s->seen[stamp.seq / 64] & bit) != 0) {
        s->repeated++;
        return;
    }
    s->seen[stamp.seq / 64] |= bit;
    if (s->samples != NULL) {
        s->samples[s->distinct] = (load_sample){stamp, now};
    }
    s->distinct++;
    s->disorder += stamp.seq < s->next;
    s->next = stamp.seq + 1 > s->next ? stamp.seq + 1 : s->next;
    if (s->last == 0) {
        s->first_sent = stamp.sent;
    } else if (now - s->last > s->gap) {
        s->gap = now - s->last;
    }
    s->last = now;
    tf_latency_add(&s->net, now - stamp.sent);
    tf_latency_add(&s->sched, now - stamp.due);
}

static void say_ready(load_sub *s)
{
    if (s->ready || !s->subscribed || !tf_load_settled(&s->client)) {
        return;
    }
    s->ready = true;
    bool last = atomic_fetch_sub(s->waiting, 1) == 1;
    if (last && s->options->ready_file != NULL && !tf_load_touch(s->options->ready_file)) {
        s->status = TF_LOAD_INTERNAL;
    }
}

static void *run(void *arg)
{
    load_sub *s = arg;
    tf_node_event event;
    while (s->status < 0 && s->distinct < s->options->count && !tf_load_is_over(&s->client)) {
        say_ready(s);
        tf_node_run(s->client.node, tf_load_wait(&s->client, TF_NEVER));
        uint64_t now = tf_measure_now();
        while (s->status < 0 && tf_node_next_event(s->client.node, &event)) {
            s->status = tf_load_event(&s->client, &event);
            s->subscribed = s->subscribed || event.type == TF_EVENT_SUBSCRIBED;
            if (event.type == TF_EVENT_ACTIVITY) {
                activity(s, &event, now);
            }
        }
    }
    return NULL;
}

static int start(load_sub *s, const tf_load_options *options, atomic_uint *waiting)
{
    *s = (load_sub){.options = options, .waiting = waiting, .status = -1};
    s->seen = calloc((size_t)options->count / 64 + 1, sizeof(*s->seen));
    if (options->latency_file != NULL) {
        s->samples = calloc((size_t)options->count, sizeof(*s->samples));
    }
    if (s->seen == NULL || (options->latency_file != NULL && s->samples == NULL)) {
        return TF_LOAD_INTERNAL;
    }
    int status = tf_load_start(&s->client, options);
    if (status == TF_LOAD_OK && tf_remote_subscribe(s->client.channel, TF_START_NEW, 0) != TF_OK) {
        status = TF_LOAD_INTERNAL;
    }
    return status;
}

static int write_latencies(const load_sub *subs, const tf_load_options *options)
{
    FILE *file = fopen(options->latency_file, "w");
    bool ok = file != NULL;
    for (uint32_t i = 0; ok && i < options->connections; i++) {
        for (uint64_t k = 0; k < subs[i].distinct; k++) {
            const load_sample *at = &subs[i].samples[k];
            (void)fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", at->stamp.seq, at->stamp.sent,
                          at->received, at->stamp.due);
        }
    }
    ok = ok && ferror(file) == 0;
    if (file != NULL && fclose(file) != 0) {
        ok = false;
    }
    if (!ok) {
        (void)fprintf(stderr, "tf-load: %s: %s\n", options->latency_file, strerror(errno));
    }
    return ok ? TF_LOAD_OK : TF_LOAD_INTERNAL;
}

/* Sums over all connections into the first one. */
static void merge(load_sub *sum, const load_sub *s)
{
    sum->distinct += s->distinct;
    sum->repeated += s->repeated;
    sum->disorder += s->disorder;
    sum->gap = s->gap > sum->gap ? s->gap : sum->gap;
    sum->last = s->last > sum->last ? s->last : sum->last;
    if (s->first_sent != 0 && (sum->first_sent == 0 || s->first_sent < sum->first_sent)) {
        sum->first_sent = s->first_sent;
    }
    tf_latency_merge(&sum->net, &s->net);
    tf_latency_merge(&sum->sched, &s->sched);
}

static int report(load_sub *subs, const tf_load_options *options)
{
    int status = options->latency_file != NULL ? write_latencies(subs, options) : TF_LOAD_OK;
    load_sub *sum = &subs[0];
    for (uint32_t i = 1; i < options->connections; i++) {
        merge(sum, &subs[i]);
    }
    uint64_t wanted = options->count * options->connections;
    tf_measure_print("delivered", (double)sum->distinct);
    tf_measure_print("missing", (double)(wanted - sum->distinct));
    tf_measure_print("repeated", (double)sum->repeated);
    tf_measure_print("disorder", (double)sum->disorder);
    if (sum->distinct > 0) {
        tf_measure_print("delivered_per_s", (double)sum->distinct * 1e9 / (double)(sum->last - sum->first_sent));
        tf_latency_print(&sum->net, "e2e");
        tf_latency_print(&sum->sched, "e2e_sched");
        tf_measure_print("gap_max_us", (double)sum->gap / 1e3);
        tf_load_print_routes(&sum->client);
        tf_measure_print("sub_cpu_s_per_M", tf_measure_cpu() / (double)sum->distinct * 1e6);
    }
    bool whole = sum->distinct == wanted && sum->repeated == 0 && sum->disorder == 0;
    return status != TF_LOAD_OK ? status : whole ? TF_LOAD_OK : TF_LOAD_WRONG;
}

/* All connections start in this thread, and then go on in their own. */
static int run_all(load_sub *subs, const tf_load_options *options, atomic_uint *waiting)
{
    int status = TF_LOAD_OK;
    uint32_t running = 0;
    for (uint32_t i = 0; i < options->connections && status == TF_LOAD_OK; i++) {
        status = start(&subs[i], options, waiting);
    }
    for (; status == TF_LOAD_OK && running < options->connections; running++) {
        if (pthread_create(&subs[running].thread, NULL, run, &subs[running]) != 0) {
            (void)fprintf(stderr, "tf-load: no more threads\n");
            return TF_LOAD_INTERNAL; /* the process ends, and with it those that run */
        }
    }
    for (uint32_t i = 0; i < running; i++) {
        (void)pthread_join(subs[i].thread, NULL);
        status = subs[i].status > status ? subs[i].status : status;
    }
    return status;
}

int tf_load_sub(const tf_load_options *options)
{
    atomic_uint waiting = options->connections;
    load_sub *subs = calloc(options->connections, sizeof(*subs));
    if (subs == NULL) {
        return TF_LOAD_INTERNAL;
    }
    int status = run_all(subs, options, &waiting);
    if (status == TF_LOAD_OK) {
        status = report(subs, options);
    }
    for (uint32_t i = 0; i < options->connections; i++) {
        tf_load_end(&subs[i].client);
        free(subs[i].seen);
        free(subs[i].samples);
    }
    free(subs);
    return status;
}
