/* MQTT at QoS 0 by libmosquitto, each side in one thread with a poll loop of its own. */
#include <mosquitto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/peers/peer.h"

#define TOPIC "bench/t"
#define BURST 256u
#define POLL_MS 1000

typedef struct client {
    struct mosquitto *mosquitto;
    const tf_peer_options *options;
    tf_receiver *receiver;
    bool connected;
    bool subscribed;
} client;

static void must(int result, const char *what)
{
    if (result != MOSQ_ERR_SUCCESS) {
        (void)fprintf(stderr, "%s: %s\n", what, mosquitto_strerror(result));
        exit(EXIT_FAILURE);
    }
}

static void on_connect(struct mosquitto *mosquitto, void *arg, int result)
{
    client *c = arg;
    must(result, "connack");
    c->connected = true;
    if (c->options->is_sub) {
        must(mosquitto_subscribe(mosquitto, NULL, TOPIC, 0), "subscribe");
    }
}

static void on_subscribe(struct mosquitto *mosquitto, void *arg, int id, int count, const int *granted)
{
    (void)mosquitto, (void)id, (void)count, (void)granted;
    ((client *)arg)->subscribed = true;
}

static void on_message(struct mosquitto *mosquitto, void *arg, const struct mosquitto_message *message)
{
    (void)mosquitto;
    tf_receiver_take(((client *)arg)->receiver, message->payload, tf_measure_now());
}

static void dial(client *c)
{
    const tf_peer_options *o = c->options;
    c->mosquitto = mosquitto_new(NULL, true, c);
    tf_peer_must(c->mosquitto != NULL, "memory");
    must(mosquitto_tls_set(c->mosquitto, o->ca, NULL, o->certificate, o->key, NULL), "TLS");
    mosquitto_connect_callback_set(c->mosquitto, on_connect);
    mosquitto_subscribe_callback_set(c->mosquitto, on_subscribe);
    mosquitto_message_callback_set(c->mosquitto, on_message);
    must(mosquitto_int_option(c->mosquitto, MOSQ_OPT_TCP_NODELAY, 1), "TCP_NODELAY");
    must(mosquitto_connect(c->mosquitto, "localhost", o->port, 60), "connect");
}

static struct pollfd interest(const client *c)
{
    short events = mosquitto_want_write(c->mosquitto) ? POLLIN | POLLOUT : POLLIN;
    return (struct pollfd){mosquitto_socket(c->mosquitto), events, 0};
}

static void serve(const client *c, short events)
{
    if ((events & (POLLIN | POLLERR | POLLHUP)) != 0) {
        must(mosquitto_loop_read(c->mosquitto, 100), "read");
    }
    if (mosquitto_want_write(c->mosquitto)) {
        must(mosquitto_loop_write(c->mosquitto, 100), "write");
    }
}

static bool all_subscribed(const client *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (!clients[i].subscribed) {
            return false;
        }
    }
    return true;
}

static bool all_have(const tf_receiver *receivers, const tf_peer_options *options)
{
    for (unsigned i = 0; i < options->connections; i++) {
        if (receivers[i].got < options->count) {
            return false;
        }
    }
    return true;
}

static void turn(const client *clients, struct pollfd *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        fds[i] = interest(&clients[i]);
    }
    int ready = poll(fds, count, POLL_MS);
    for (unsigned i = 0; i < count; i++) {
        if (ready > 0 && fds[i].revents != 0) {
            serve(&clients[i], fds[i].revents);
        } else if (ready == 0) {
            must(mosquitto_loop_misc(clients[i].mosquitto), "keepalive");
        }
    }
}

static int run_sub(const tf_peer_options *options)
{
    client *clients = tf_peer_alloc(options->connections, sizeof(*clients));
    tf_receiver *receivers = tf_peer_alloc(options->connections, sizeof(*receivers));
    struct pollfd *fds = tf_peer_alloc(options->connections, sizeof(*fds));
    for (unsigned i = 0; i < options->connections; i++) {
        clients[i].options = options;
        clients[i].receiver = &receivers[i];
        dial(&clients[i]);
    }
    bool told = false;
    uint64_t end = tf_measure_now() + options->limit_ns;
    while (!all_have(receivers, options) && tf_measure_now() < end) {
        turn(clients, fds, options->connections);
        if (!told && all_subscribed(clients, options->connections)) {
            tf_peer_ready(options);
            told = true;
        }
    }
    int status = tf_receivers_report(receivers, options);
    free(receivers);
    free(fds);
    free(clients);
    return status;
}

/* How long to wait for the socket: until it takes more, or the next message is due. */
static struct timespec wait_time(const client *c, uint64_t due)
{
    uint64_t now = tf_measure_now();
    uint64_t wait = mosquitto_want_write(c->mosquitto) ? (uint64_t)POLL_MS * 1000000u : due > now ? due - now : 0;
    return (struct timespec){(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
}

static int run_pub(const tf_peer_options *options)
{
    client c = {.options = options};
    char *body = tf_peer_alloc(1, options->size);
    uint64_t sent = 0;
    dial(&c);
    while (!c.connected) {
        must(mosquitto_loop(c.mosquitto, POLL_MS, 1), "connect");
    }
    uint64_t begin = tf_measure_now();
    while (sent < options->count || mosquitto_want_write(c.mosquitto)) {
        for (unsigned burst = 0; burst < BURST && sent < options->count && !mosquitto_want_write(c.mosquitto) &&
                                 tf_peer_due(options, begin, sent) <= tf_measure_now();
             burst++) {
            tf_stamp stamp = tf_peer_stamp(options, begin, sent++);
            memcpy(body, &stamp, sizeof(stamp));
            must(mosquitto_publish(c.mosquitto, NULL, TOPIC, (int)options->size, body, 0, false), "publish");
        }
        struct pollfd fd = interest(&c);
        struct timespec wait = wait_time(&c, sent < options->count ? tf_peer_due(options, begin, sent) : 0);
        if (ppoll(&fd, 1, &wait, NULL) > 0) {
            serve(&c, fd.revents);
        }
    }
    tf_sender_report(options, begin);
    must(mosquitto_disconnect(c.mosquitto), "disconnect");
    (void)mosquitto_loop(c.mosquitto, 100, 1);
    mosquitto_destroy(c.mosquitto);
    free(body);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    tf_peer_options options;
    tf_peer_options_parse(&options, argc, argv);
    must(mosquitto_lib_init(), "init");
    return options.is_sub ? run_sub(&options) : run_pub(&options);
}
