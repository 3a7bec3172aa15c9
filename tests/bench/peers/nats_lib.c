/* NATS as its users have it, by libnats. With a rate it writes every message at once (SendAsap) instead of by its flusher
 * thread, which may wait a millisecond for more. */
#include <nats/nats.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/peers/peer.h"

static const tf_peer_options *options;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned whole; /* connections that have all of theirs */

static void must(natsStatus status, const char *what)
{
    if (status != NATS_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(status));
        exit(EXIT_FAILURE);
    }
}

static natsConnection *dial(void)
{
    char url[64];
    natsOptions *o = NULL;
    natsConnection *connection = NULL;
    (void)snprintf(url, sizeof(url), "tls://localhost:%d", options->port);
    must(natsOptions_Create(&o), "options");
    must(natsOptions_SetURL(o, url), "URL");
    must(natsOptions_SetSecure(o, true), "secure");
    must(natsOptions_LoadCATrustedCertificates(o, options->ca), "CA");
    must(natsOptions_LoadCertificatesChain(o, options->certificate, options->key), "certificate");
    must(natsOptions_SetSendAsap(o, options->rate > 0), "SendAsap");
    must(natsConnection_Connect(&connection, o), "connect");
    natsOptions_Destroy(o);
    return connection;
}

static void on_message(natsConnection *connection, natsSubscription *subscription, natsMsg *message, void *arg)
{
    (void)connection;
    (void)subscription;
    tf_receiver *receiver = arg;
    tf_receiver_take(receiver, natsMsg_GetData(message), tf_measure_now());
    natsMsg_Destroy(message);
    if (receiver->got == options->count) {
        (void)pthread_mutex_lock(&lock);
        whole++;
        (void)pthread_cond_signal(&changed);
        (void)pthread_mutex_unlock(&lock);
    }
}

static void wait_for_all(void)
{
    struct timespec end;
    int result = clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(options->limit_ns / 1000000000u);
    (void)pthread_mutex_lock(&lock);
    while (whole < options->connections && result == 0) {
        result = pthread_cond_timedwait(&changed, &lock, &end);
    }
    (void)pthread_mutex_unlock(&lock);
}

static int run_sub(void)
{
    tf_receiver *receivers = tf_peer_alloc(options->connections, sizeof(*receivers));
    for (unsigned i = 0; i < options->connections; i++) {
        natsConnection *connection = dial();
        natsSubscription *subscription = NULL;
        must(natsConnection_Subscribe(&subscription, connection, "bench.t", on_message, &receivers[i]), "subscribe");
        must(natsSubscription_SetPendingLimits(subscription, -1, -1), "limits");
        must(natsConnection_Flush(connection), "flush");
    }
    tf_peer_ready(options);
    wait_for_all();
    return tf_receivers_report(receivers, options);
}

static int run_pub(void)
{
    natsConnection *connection = dial();
    char *body = tf_peer_alloc(1, options->size);
    uint64_t begin = tf_measure_now();
    for (uint64_t i = 0; i < options->count; i++) {
        tf_peer_wait(tf_peer_due(options, begin, i));
        tf_stamp stamp = tf_peer_stamp(options, begin, i);
        memcpy(body, &stamp, sizeof(stamp));
        must(natsConnection_Publish(connection, "bench.t", body, (int)options->size), "publish");
    }
    must(natsConnection_FlushTimeout(connection, (int64_t)(options->limit_ns / 1000000u)), "flush");
    tf_sender_report(options, begin);
    free(body);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static tf_peer_options parsed;
    tf_peer_options_parse(&parsed, argc, argv);
    options = &parsed;
    int status = parsed.is_sub ? run_sub() : run_pub();
    (void)fflush(stdout);
    _exit(status); /* without waiting for the threads of the library */
}
