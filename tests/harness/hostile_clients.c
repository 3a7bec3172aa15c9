/* tf-hostile clients: many clients of the product that lose their relay and come back, all at once. Each has a thread of
 * its own; when all of them have a subscription for the first, second, third time, that is said. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/twofold.h"
#include "tests/harness/hostile.h"

#define STACK ((size_t)256 << 10)
#define TIMES 16u /* more are not told */

typedef struct hostile_client {
    const tf_hostile_options *options;
    tf_identity *identity;
    tf_node *node;
    tf_remote *channel;
    struct event *input; /* standard input, which all of them watch */
    pthread_t thread;
    bool has_thread;
    unsigned times; /* that it was given its subscription */
    bool over;
    bool failed;
} hostile_client;

static atomic_uint subscribed[TIMES]; /* clients that had theirs so often */

static void count(hostile_client *c)
{
    uint32_t peers = c->options->peers;
    if (c->times < TIMES && atomic_fetch_add(&subscribed[c->times], 1) + 1 == peers) {
        (void)printf("served peers=%u times=%u\n", peers, c->times + 1);
        (void)fflush(stdout);
    }
    c->times++;
}

static void on_input(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    hostile_client *c = ctx;
    c->over = true;
    tf_node_wake(c->node);
}

static void *run(void *arg)
{
    hostile_client *c = arg;
    tf_node_event event;
    while (!c->over && !c->failed) {
        tf_node_run(c->node, TF_NEVER);
        while (!c->failed && tf_node_next_event(c->node, &event)) {
            if (event.type == TF_EVENT_SUBSCRIBED) {
                count(c);
            } else if (event.type == TF_EVENT_CONNECT_FAILED || event.type == TF_EVENT_CHANNEL_REFUSED) {
                (void)fprintf(stderr, "tf-hostile: a client was not served: %.*s\n", (int)event.text.len,
                              (const char *)event.text.data);
                c->failed = true;
            }
        }
    }
    return NULL;
}

static bool start(hostile_client *c, const tf_hostile_options *options)
{
    tf_peer *peer = NULL;
    *c = (hostile_client){.options = options};
    tf_err err = tf_identity_generate(&c->identity, tf_edge_rand());
    if (err == TF_OK) {
        tf_node_config config = {.identity = c->identity, .limits = {.keepalive = options->keepalive}};
        err = tf_node_new(&c->node, &config, NULL);
    }
    if (err == TF_OK) {
        tf_connect_options connect = {.connect_timeout = TF_NEVER};
        err = tf_node_connect(c->node, &options->uri, &connect, &peer);
    }
    if (err == TF_OK) {
        err = tf_remote_open(peer, tf_slice_str(options->channel), &c->channel);
    }
    if (err == TF_OK) {
        err = tf_remote_subscribe(c->channel, TF_START_NEW, 0);
    }
    if (err == TF_OK) {
        c->input = event_new(tf_node_loop(c->node), STDIN_FILENO, EV_READ | EV_PERSIST, on_input, c);
        err = c->input != NULL && event_add(c->input, NULL) == 0 ? TF_OK : TF_ERR_NOMEM;
    }
    if (err != TF_OK) {
        (void)fprintf(stderr, "tf-hostile: cannot start a client: %s\n", tf_err_text(err));
    }
    return err == TF_OK;
}

static void finish(hostile_client *c)
{
    if (c->has_thread) {
        (void)pthread_join(c->thread, NULL);
    }
    if (c->input != NULL) {
        event_free(c->input);
    }
    tf_node_free(c->node);
    tf_identity_free(c->identity);
}

int tf_hostile_clients(const tf_hostile_options *options)
{
    pthread_attr_t small;
    hostile_client *all = calloc(options->peers, sizeof(*all));
    bool ok = all != NULL && pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, STACK) == 0;
    uint32_t started = 0;
    while (ok && started < options->peers) {
        hostile_client *c = &all[started++];
        ok = start(c, options) && pthread_create(&c->thread, &small, run, c) == 0;
        c->has_thread = ok;
    }
    for (uint32_t i = 0; i < started; i++) {
        finish(&all[i]);
        ok = ok && !all[i].failed;
    }
    free(all);
    return ok ? TF_HOSTILE_OK : TF_HOSTILE_WRONG;
}
