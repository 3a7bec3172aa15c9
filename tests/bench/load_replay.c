/* tf-load replay: one subscriber that takes what a channel holds, from its first message, and sees that nothing is missing. */
#include <inttypes.h>
#include <stdio.h>

#include "node/edge_mem.h"
#include "tests/bench/load.h"
#include "tests/bench/measure.h"

typedef struct load_replay {
    tf_load_client client;
    uint64_t count;
    uint64_t got;
    uint64_t next;  /* seq */
    uint64_t asked; /* ns: when it subscribed */
    uint64_t first; /* ns */
    uint64_t last;  /* ns */
    int status;     /* -1: goes on */
} load_replay;

static void wrong(load_replay *r, const char *what, uint64_t seq)
{
    (void)fprintf(stderr, "tf-load: %s at seq %" PRIu64 ", after %" PRIu64 " messages\n", what, seq, r->got);
    r->status = TF_LOAD_WRONG;
}

static void activity(load_replay *r, uint64_t seq, uint64_t now)
{
    if (r->got > 0 && seq != r->next) {
        wrong(r, "something is missing or came twice", seq);
        return;
    }
    r->first = r->got == 0 ? now : r->first;
    r->last = now;
    r->next = seq + 1;
    r->got++;
}

static void turn(load_replay *r)
{
    tf_node_event event;
    tf_node_run(r->client.node, tf_load_wait(&r->client, TF_NEVER));
    uint64_t now = tf_measure_now();
    while (r->status < 0 && r->got < r->count && tf_node_next_event(r->client.node, &event)) {
        r->status = tf_load_event(&r->client, &event);
        if (event.type == TF_EVENT_ACTIVITY) {
            activity(r, event.seq, now);
        } else if (event.type == TF_EVENT_GAP) {
            wrong(r, "a gap was announced", event.first);
        } else if (event.type == TF_EVENT_DISCONNECTED) {
            wrong(r, "the connection was lost", r->next);
        }
    }
}

static void print(const load_replay *r)
{
    tf_measure_print("replayed", (double)r->got);
    if (r->got > 0) {
        tf_measure_print("replayed_per_s", (double)r->got * 1e9 / (double)(r->last - r->asked));
        tf_measure_print("first_us", (double)(r->first - r->asked) / 1e3);
        tf_measure_print("sub_cpu_s_per_M", tf_measure_cpu() / (double)r->got * 1e6);
    }
}

int tf_load_replay(const tf_load_options *options)
{
    load_replay r = {.count = options->count, .status = -1};
    int status = tf_load_start(&r.client, options);
    while (status == TF_LOAD_OK && r.status < 0 && !tf_load_settled(&r.client) && !tf_load_is_over(&r.client)) {
        turn(&r);
    }
    if (status == TF_LOAD_OK && r.client.settled) {
        r.asked = tf_measure_now();
        status = tf_remote_subscribe(r.client.channel, TF_START_FIRST, 0) == TF_OK ? TF_LOAD_OK : TF_LOAD_INTERNAL;
        while (status == TF_LOAD_OK && r.status < 0 && r.got < r.count && !tf_load_is_over(&r.client)) {
            turn(&r);
        }
        print(&r);
    }
    tf_load_end(&r.client);
    if (status == TF_LOAD_OK) {
        status = r.status >= 0 ? r.status : r.got < r.count ? TF_LOAD_WRONG : TF_LOAD_OK;
    }
    return status;
}
