/* The options of tf-load, and the client that both sides are made of. */
#include "tests/bench/load.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "handshake/offer.h"
#include "node/edge_mem.h"
#include "node/keyfile.h"
#include "proto/limits.h"
#include "tests/bench/measure.h"

#define LIMIT_DEFAULT 60.0
#define SETTLE_DEFAULT 2.0
#define SECONDS_MAX 1e6

static const char usage_text[] =
    "usage: tf-load sub URI CHANNEL -n N [-c CONNECTIONS] [-f READYFILE] [-l LATENCYFILE] [common options]\n"
    "       tf-load pub URI CHANNEL -n N | -T SECONDS [-c CONNECTIONS] [-s SIZE] [-r RATE] [-w WINDOW] [common options]\n"
    "       tf-load replay URI CHANNEL -n N [common options]\n"
    "       tf-load idle URI CHANNEL -c CONNECTIONS [-f READYFILE] [common options], until standard input ends\n"
    "  -n, --count N            messages (sub: for each connection; pub: of all connections together)\n"
    "  -c, --connections N      sub, pub: so many, each with a thread of its own\n"
    "  -f, --ready FILE         sub: makes this file when all subscriptions stand\n"
    "  -l, --latencies FILE     sub: writes a line for each message: seq sent_ns received_ns due_ns\n"
    "  -s, --size BYTES         pub: of a body, at least 24 (default 128)\n"
    "  -r, --rate R             pub: messages a second (default: as fast as they are taken)\n"
    "  -w, --max-in-flight N    pub: at most so many without an ack, on each connection\n"
    "  -T, --seconds S          pub: sends for so long, or until it has sent N\n"
    "  -S, --slice SECONDS      pub: prints the acks of each such part of the run, too\n"
    "common: --routes stream|datagram|both (both)   -i, --identity FILE (default: new keys)\n"
    "        -t, --limit SECONDS of the whole run (60)   --settle SECONDS to wait for all routes (2)\n"
    "        --keepalive SECONDS (10)\n";

/* -- the client ---------------------------------------------------------------------------------------------------- */

static tf_err load_identity(tf_load_client *client)
{
    char why[TF_WHY_MAX];
    if (client->options->identity == NULL) {
        return tf_identity_generate(&client->identity, tf_edge_rand());
    }
    tf_err err = tf_keyfile_load(&client->identity, client->options->identity, why);
    if (err != TF_OK) {
        (void)fprintf(stderr, "tf-load: %s\n", why);
    }
    return err;
}

int tf_load_start(tf_load_client *client, const tf_load_options *options)
{
    *client = (tf_load_client){.options = options, .until = tf_time_add(tf_edge_now(), options->limit)};
    tf_err err = load_identity(client);
    if (err == TF_OK) {
        tf_node_config config = {.identity = client->identity, .limits = {.keepalive = options->keepalive}};
        err = tf_node_new(&client->node, &config, NULL);
    }
    if (err == TF_OK) {
        tf_connect_options connect = {.routes = options->routes, .max_in_flight = options->max_in_flight};
        err = tf_node_connect(client->node, &options->uri, &connect, &client->peer);
    }
    if (err == TF_OK) {
        err = tf_remote_open(client->peer, tf_slice_str(options->channel), &client->channel);
    }
    if (err == TF_OK) {
        return TF_LOAD_OK;
    }
    (void)fprintf(stderr, "tf-load: cannot start: %s\n", tf_err_text(err));
    return err == TF_ERR_USAGE ? TF_LOAD_USAGE : TF_LOAD_INTERNAL;
}

void tf_load_end(tf_load_client *client)
{
    tf_node_free(client->node);
    tf_identity_free(client->identity);
    *client = (tf_load_client){0};
}

int tf_load_event(tf_load_client *client, const tf_node_event *event)
{
    if (event->type == TF_EVENT_CONNECTED) {
        client->connected_at = client->connected ? client->connected_at : tf_edge_now();
        client->connected = true;
    } else if (event->type == TF_EVENT_CONNECT_FAILED) {
        (void)fprintf(stderr, "tf-load: no connection: %.*s\n", (int)event->text.len, (const char *)event->text.data);
        return event->err == TF_ERR_PEER_REFUSED ? TF_LOAD_REFUSED : TF_LOAD_UNREACHABLE;
    } else if (event->type == TF_EVENT_CHANNEL_REFUSED) {
        (void)fprintf(stderr, "tf-load: the channel was refused: %.*s: %.*s\n", (int)event->code.len,
                      (const char *)event->code.data, (int)event->text.len, (const char *)event->text.data);
        return TF_LOAD_REFUSED;
    }
    return -1;
}

bool tf_load_settled(tf_load_client *client)
{
    tf_peer_stats stats;
    if (client->settled || !client->connected) {
        return client->settled;
    }
    tf_peer_get_stats(client->peer, &stats);
    bool datagram = stats.connected && ((client->options->routes & TF_ROUTES_DATAGRAM) == 0 ||
                                        stats.routes[TF_ROUTE_DATAGRAM].stats.verdict == TF_VERDICT_UP);
    bool stream = stats.connected && stats.routes[TF_ROUTE_STREAM].stats.verdict == TF_VERDICT_UP;
    client->settled =
        (datagram && stream) || tf_edge_now() >= tf_time_add(client->connected_at, client->options->settle);
    return client->settled;
}

bool tf_load_is_over(const tf_load_client *client)
{
    return tf_edge_now() >= client->until;
}

tf_time tf_load_wait(const tf_load_client *client, tf_time wait)
{
    tf_time now = tf_edge_now();
    tf_time end = client->until;
    if (client->connected && !client->settled) {
        tf_time settled = tf_time_add(client->connected_at, client->options->settle);
        end = settled < end ? settled : end;
    }
    tf_time left = end > now ? end - now : 0;
    return wait < left ? wait : left;
}

void tf_load_print_routes(const tf_load_client *client)
{
    tf_peer_stats stats;
    tf_peer_get_stats(client->peer, &stats);
    for (int i = 0; i < TF_ROUTE_COUNT; i++) {
        const tf_route_stats *r = &stats.routes[i].stats;
        const char *name = tf_route_name((tf_route)i);
        (void)printf("%s_sent %" PRIu64 "\n%s_received %" PRIu64 "\n%s_first %" PRIu64 "\n%s_lost %" PRIu64
                     "\n%s_shed %" PRIu64 "\n",
                     name, r->sent_segments, name, r->received_segments, name, r->first, name, r->lost, name, r->shed);
    }
}

bool tf_load_touch(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fclose(file) != 0) {
        (void)fprintf(stderr, "tf-load: %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

enum { OPTION_ROUTES = 256, OPTION_SETTLE, OPTION_KEEPALIVE };

static const struct option long_options[] = {
    {"count", required_argument, NULL, 'n'},
    {"connections", required_argument, NULL, 'c'},
    {"ready", required_argument, NULL, 'f'},
    {"latencies", required_argument, NULL, 'l'},
    {"size", required_argument, NULL, 's'},
    {"rate", required_argument, NULL, 'r'},
    {"max-in-flight", required_argument, NULL, 'w'},
    {"identity", required_argument, NULL, 'i'},
    {"limit", required_argument, NULL, 't'},
    {"seconds", required_argument, NULL, 'T'},
    {"slice", required_argument, NULL, 'S'},
    {"routes", required_argument, NULL, OPTION_ROUTES},
    {"settle", required_argument, NULL, OPTION_SETTLE},
    {"keepalive", required_argument, NULL, OPTION_KEEPALIVE},
    {NULL, 0, NULL, 0},
};

static bool number(const char *text, double low, double high, double *out)
{
    char *end = NULL;
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(value >= low) || !(value <= high)) {
        (void)fprintf(stderr, "tf-load: '%s' is not a number from %g to %g\n", text, low, high);
        return false;
    }
    *out = value;
    return true;
}

static bool seconds(const char *text, double low, double high, tf_time *out)
{
    double value = 0;
    bool ok = number(text, low, high, &value);
    *out = ok ? (tf_time)(value * (double)TF_SECOND) : *out;
    return ok;
}

static bool routes_value(tf_load_options *options, const char *text)
{
    options->routes = strcmp(text, "stream") == 0     ? TF_ROUTES_STREAM
                      : strcmp(text, "datagram") == 0 ? TF_ROUTES_DATAGRAM
                      : strcmp(text, "both") == 0     ? TF_ROUTES_BOTH
                                                      : 0;
    return options->routes != 0;
}

static bool one_number(tf_load_options *options, int option, const char *text)
{
    double value = 0;
    switch (option) {
    case 'n':
        if (!number(text, 1, 1e9, &value)) {
            return false;
        }
        options->count = (uint64_t)value;
        return true;
    case 'c':
        if (!number(text, 1, 4096, &value)) {
            return false;
        }
        options->connections = (uint32_t)value;
        return true;
    case 's':
        if (!number(text, sizeof(tf_stamp), TF_BODY_MAX, &value)) {
            return false;
        }
        options->size = (uint64_t)value;
        return true;
    case 'w':
        if (!number(text, 1, TF_MAX_IN_FLIGHT_MAX, &value)) {
            return false;
        }
        options->max_in_flight = (uint32_t)value;
        return true;
    case 'r':
        return number(text, 0.001, 1e7, &options->rate);
    case OPTION_KEEPALIVE:
        return seconds(text, (double)TF_KEEPALIVE_MS_MIN / 1e3, (double)TF_KEEPALIVE_MS_MAX / 1e3, &options->keepalive);
    case 't':
        return seconds(text, 0, SECONDS_MAX, &options->limit);
    case OPTION_SETTLE:
        return seconds(text, 0, SECONDS_MAX, &options->settle);
    case 'T':
        return seconds(text, 0.001, SECONDS_MAX, &options->send_time);
    case 'S':
        return seconds(text, 0.001, SECONDS_MAX, &options->slice);
    default: /* getopt has complained */
        return false;
    }
}

static bool one_option(tf_load_options *options, int option, const char *text)
{
    switch (option) {
    case 'f':
        options->ready_file = text;
        return true;
    case 'l':
        options->latency_file = text;
        return true;
    case 'i':
        options->identity = text;
        return true;
    case OPTION_ROUTES:
        return routes_value(options, text);
    default:
        return one_number(options, option, text);
    }
}

static bool parse(tf_load_options *options, int argc, char **argv)
{
    char why[TF_WHY_MAX];
    int option = 0;
    while ((option = getopt_long(argc, argv, "n:c:f:l:s:r:w:i:t:T:S:", long_options, NULL)) != -1) {
        if (!one_option(options, option, optarg)) {
            return false;
        }
    }
    if (options->count == 0 && options->send_time > 0 && strcmp(argv[0], "pub") == 0) {
        options->count = UINT64_MAX;
    }
    if (argc - optind != 2 || options->count == 0) {
        return false;
    }
    options->channel = argv[optind + 1];
    if (tf_uri_parse(&options->uri, argv[optind], why) != TF_OK) {
        (void)fprintf(stderr, "tf-load: %s\n", why);
        return false;
    }
    if (options->identity != NULL && options->connections > TF_INSTANCES_PER_PEER) {
        (void)fprintf(stderr, "tf-load: a relay takes at most %u connections of one key\n", TF_INSTANCES_PER_PEER);
        return false;
    }
    return true;
}

typedef struct load_mode {
    const char *name;
    int (*run)(const tf_load_options *options);
} load_mode;

static const load_mode modes[] = {
    {"pub", tf_load_pub}, {"sub", tf_load_sub}, {"replay", tf_load_replay}, {"idle", tf_load_idle}};

int main(int argc, char **argv)
{
    tf_load_options options = {.count = argc > 1 && strcmp(argv[1], "idle") == 0,
                               .size = 128,
                               .connections = 1,
                               .routes = TF_ROUTES_BOTH,
                               .limit = (tf_time)(LIMIT_DEFAULT * (double)TF_SECOND),
                               .settle = (tf_time)(SETTLE_DEFAULT * (double)TF_SECOND)};
    for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0 && parse(&options, argc - 1, argv + 1)) {
            (void)prctl(PR_SET_TIMERSLACK, 1UL); /* the kernel may wake others late by 50 us, the schedule not */
            return modes[i].run(&options);
        }
    }
    (void)fputs(usage_text, stderr);
    return TF_LOAD_USAGE;
}
