/* tf-load idle: many connections of different keys that do nothing, until standard input ends. Each has a thread of its
 * own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>

#include "node/edge_mem.h"
#include "tests/bench/load.h"

#define IDLE_STACK ((size_t)256 << 10)

typedef struct load_idle {
    tf_load_client client;
    const tf_load_options *options;
    pthread_t thread;
    struct event *end; /* standard input, which all of them watch */
    bool over;
    bool subscribed;
    bool up;
    int status;
} load_idle;

static void on_end(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    load_idle *idle = ctx;
    idle->over = true;
    tf_node_wake(idle->client.node);
}

static void turn(load_idle *idle, tf_time wait)
{
    tf_node_event event;
    tf_node_run(idle->client.node, wait);
    while (idle->status < 0 && tf_node_next_event(idle->client.node, &event)) {
        idle->status = tf_load_event(&idle->client, &event);
        idle->subscribed = idle->subscribed || event.type == TF_EVENT_SUBSCRIBED;
        if (event.type == TF_EVENT_DISCONNECTED) {
            (void)fprintf(stderr, "tf-load: a connection was lost\n");
            idle->status = TF_LOAD_WRONG;
        }
    }
}

static bool start(load_idle *idle, const tf_load_options *options)
{
    *idle = (load_idle){.options = options, .status = -1};
    int status = tf_load_start(&idle->client, options);
    if (status == TF_LOAD_OK && tf_remote_subscribe(idle->client.channel, TF_START_NEW, 0) != TF_OK) {
        status = TF_LOAD_INTERNAL;
    }
    if (status != TF_LOAD_OK) {
        idle->status = status;
        return false;
    }
    idle->end = event_new(tf_node_loop(idle->client.node), STDIN_FILENO, EV_READ | EV_PERSIST, on_end, idle);
    if (idle->end == NULL || event_add(idle->end, NULL) != 0) {
        idle->status = TF_LOAD_INTERNAL;
        return false;
    }
    while (idle->status < 0 && !idle->over && !(idle->subscribed && tf_load_settled(&idle->client))) {
        turn(idle, tf_load_wait(&idle->client, TF_NEVER));
        if (tf_load_is_over(&idle->client)) {
            (void)fprintf(stderr, "tf-load: not connected in time\n");
            idle->status = TF_LOAD_UNREACHABLE;
        }
    }
    return idle->status < 0;
}

static void *run(void *arg)
{
    load_idle *idle = arg;
    while (idle->status < 0 && !idle->over) {
        turn(idle, TF_NEVER);
    }
    return NULL;
}

static void finish(load_idle *idle)
{
    if (idle->up) {
        (void)pthread_join(idle->thread, NULL);
    }
    if (idle->end != NULL) {
        event_free(idle->end);
    }
    tf_load_end(&idle->client);
}

static void all_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* what is not granted shows at the connection that does not fit */
    }
}

int tf_load_idle(const tf_load_options *options)
{
    pthread_attr_t small;
    load_idle *all = calloc(options->connections, sizeof(*all));
    bool ok = all != NULL && pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, IDLE_STACK) == 0;
    uint32_t started = 0;
    int status = ok ? TF_LOAD_OK : TF_LOAD_INTERNAL;
    all_descriptors();
    while (ok && started < options->connections) { /* one after the other: the relay is not to be flooded */
        load_idle *idle = &all[started++];
        ok = start(idle, options);
        idle->up = ok && pthread_create(&idle->thread, &small, run, idle) == 0;
        ok = idle->up;
        if (!ok && idle->status < 0) {
            idle->status = TF_LOAD_INTERNAL;
        }
    }
    if (ok && options->ready_file != NULL && !tf_load_touch(options->ready_file)) {
        status = TF_LOAD_INTERNAL;
    }
    for (uint32_t i = 0; i < started; i++) {
        finish(&all[i]);
        status = all[i].status > status ? all[i].status : status;
    }
    free(all);
    return status;
}
