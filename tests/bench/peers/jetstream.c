/* NATS JetStream by libnats: asynchronous publishing into a stream of one replica on disk, and a push consumer (no acks, flow
 * control) from its first message. Each connection publishes in a thread of its own, as the library wants it. */
#include <nats/nats.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/peer.h"

#define STREAM "bench"
#define SUBJECT "bench.t"
#define HEARTBEAT_NS ((int64_t)5000000000)
#define SMALL_WINDOW 100u /* up to here the library writes at once: its flusher may wait a millisecond for more */

typedef struct connection {
    const tf_peer_options *options;
    natsConnection *nats;
    jsCtx *stream;
    uint64_t share;
    uint64_t end;
    char *body;
    tf_acks acks; /* belongs to the library's thread that hands out acks, until all are there */
    pthread_t thread;
} connection;

static void must(natsStatus status, const char *what)
{
    if (status != NATS_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, natsStatus_GetText(status), nats_GetLastError(NULL));
        exit(EXIT_FAILURE);
    }
}

static void on_ack(jsCtx *stream, natsMsg *message, jsPubAck *ack, jsPubAckErr *error, void *arg)
{
    (void)stream;
    connection *c = arg;
    if (ack == NULL) {
        (void)fprintf(stderr, "not acked: %s\n", error != NULL && error->ErrText != NULL ? error->ErrText : "no reason");
        exit(EXIT_FAILURE);
    }
    tf_stamp stamp;
    memcpy(&stamp, natsMsg_GetData(message), sizeof(stamp));
    tf_acks_add(&c->acks, stamp.sent, tf_measure_now());
    natsMsg_Destroy(message);
}

static void dial(connection *c, const tf_peer_options *options)
{
    char url[64];
    natsOptions *o = NULL;
    jsOptions js;
    c->options = options;
    (void)snprintf(url, sizeof(url), "nats://127.0.0.1:%d", options->port);
    must(natsOptions_Create(&o), "options");
    must(natsOptions_SetURL(o, url), "URL");
    must(natsOptions_SetAllowReconnect(o, false), "options");
    must(natsOptions_SetSendAsap(o, options->window <= SMALL_WINDOW), "SendAsap");
    must(natsConnection_Connect(&c->nats, o), "connect");
    natsOptions_Destroy(o);
    must(jsOptions_Init(&js), "options");
    js.PublishAsync.MaxPending = (int64_t)options->window;
    js.PublishAsync.StallWait = (int64_t)(options->limit_ns / 1000000u);
    js.PublishAsync.AckHandler = on_ack;
    js.PublishAsync.AckHandlerClosure = c;
    must(natsConnection_JetStream(&c->stream, c->nats, &js), "JetStream");
}

static void hang_up(connection *c)
{
    jsCtx_Destroy(c->stream);
    natsConnection_Destroy(c->nats);
}

/* Makes the stream, unless it is there. */
static void make_stream(const connection *c)
{
    const char *subjects[] = {SUBJECT};
    jsStreamConfig config;
    jsErrCode code = 0;
    must(jsStreamConfig_Init(&config), "configuration");
    config.Name = STREAM;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    config.Replicas = 1;
    must(js_AddStream(NULL, c->stream, &config, NULL, &code), "stream");
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

static void *send_all(void *arg)
{
    connection *c = arg;
    jsPubOptions wait;
    for (uint64_t i = 0; i < c->share; i++) {
        tf_stamp stamp = tf_peer_stamp(c->options, c->acks.begin, i);
        if (stamp.sent >= c->end) {
            break;
        }
        memcpy(c->body, &stamp, sizeof(stamp));
        must(js_PublishAsync(c->stream, SUBJECT, c->body, (int)c->options->size, NULL), "publish");
    }
    must(jsPubOptions_Init(&wait), "options");
    wait.MaxWait = (int64_t)(c->options->limit_ns / 1000000u);
    must(js_PublishAsyncComplete(c->stream, &wait), "acks");
    return NULL;
}

static int run_pub(const tf_peer_options *options)
{
    connection *all = tf_peer_alloc(options->connections, sizeof(*all));
    for (unsigned i = 0; i < options->connections; i++) {
        dial(&all[i], options);
        all[i].share = tf_peer_share(options, i);
        all[i].body = tf_peer_alloc(1, options->size);
    }
    make_stream(&all[0]);
    uint64_t begin = tf_measure_now();
    for (unsigned i = 0; i < options->connections; i++) {
        all[i].acks.begin = begin;
        all[i].acks.slice = options->slice_ns;
        all[i].end = tf_peer_end(options, begin);
        tf_peer_must(pthread_create(&all[i].thread, NULL, send_all, &all[i]) == 0, "thread");
    }
    for (unsigned i = 0; i < options->connections; i++) {
        (void)pthread_join(all[i].thread, NULL);
    }
    for (unsigned i = 1; i < options->connections; i++) {
        tf_acks_merge(&all[0].acks, &all[i].acks);
    }
    tf_acked_report(&all[0].acks);
    for (unsigned i = 0; i < options->connections; i++) {
        hang_up(&all[i]);
        free(all[i].body);
    }
    free(all);
    return EXIT_SUCCESS;
}

/* -- reading ------------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool whole;

typedef struct reader {
    uint64_t count;
    uint64_t got;
    uint64_t last;
} reader;

static void on_message(natsConnection *nats, natsSubscription *subscription, natsMsg *message, void *arg)
{
    (void)nats, (void)subscription;
    reader *r = arg;
    natsMsg_Destroy(message);
    r->got++;
    if (r->got == r->count) {
        r->last = tf_measure_now();
        (void)pthread_mutex_lock(&lock);
        whole = true;
        (void)pthread_cond_signal(&changed);
        (void)pthread_mutex_unlock(&lock);
    }
}

static void wait_for_all(const tf_peer_options *options)
{
    struct timespec end;
    int result = clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(options->limit_ns / 1000000000u);
    (void)pthread_mutex_lock(&lock);
    while (!whole && result == 0) {
        result = pthread_cond_timedwait(&changed, &lock, &end);
    }
    tf_peer_must(whole, "the stream does not give as many messages");
    (void)pthread_mutex_unlock(&lock);
}

static int run_sub(const tf_peer_options *options)
{
    connection c = {0};
    reader r = {.count = options->count};
    natsSubscription *subscription = NULL;
    jsSubOptions from_first;
    jsErrCode code = 0;
    dial(&c, options);
    must(jsSubOptions_Init(&from_first), "options");
    from_first.Config.DeliverPolicy = js_DeliverAll;
    from_first.Config.AckPolicy = js_AckNone;
    from_first.Config.FlowControl = true;
    from_first.Config.Heartbeat = HEARTBEAT_NS;
    uint64_t asked = tf_measure_now();
    must(js_Subscribe(&subscription, c.stream, SUBJECT, on_message, &r, NULL, &from_first, &code), "subscribe");
    must(natsSubscription_SetPendingLimits(subscription, -1, -1), "limits");
    wait_for_all(options);
    int status = tf_replay_report(options, r.count, asked, r.last);
    must(natsSubscription_Unsubscribe(subscription), "unsubscribe");
    hang_up(&c);
    return status;
}

int main(int argc, char **argv)
{
    tf_peer_options options;
    tf_peer_options_parse(&options, argc, argv);
    return options.is_sub ? run_sub(&options) : run_pub(&options);
}
