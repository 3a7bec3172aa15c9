/* The client that all commands but `relay` and those on files are made of: identity, node, peer, channel, signals. */
#include <inttypes.h>
#include <signal.h>
#include <unistd.h>

#include <event2/event.h>

#include "handshake/node_id.h"
#include "node/cli/cli.h"
#include "node/cli/stats.h"
#include "node/edge_mem.h"

static bool routes_value(tf_cli *cli, const tf_options *o)
{
    if (strcmp(o->value, "both") == 0) {
        cli->routes = TF_ROUTES_BOTH;
    } else if (strcmp(o->value, "stream") == 0) {
        cli->routes = TF_ROUTES_STREAM;
    } else if (strcmp(o->value, "datagram") == 0) {
        cli->routes = TF_ROUTES_DATAGRAM;
    } else {
        (void)tf_usage(cli->command, "--routes: '%s' is none of stream, datagram, both", o->value);
        return false;
    }
    return true;
}

bool tf_cli_common_option(tf_cli *cli, const tf_options *o, const tf_option *option, bool *ok)
{
    *ok = true;
    if (option->letter == 'i') {
        cli->identity_path = o->value;
    } else if (option->letter == 'v') {
        cli->verbose = true;
    } else if (strcmp(option->name, "routes") == 0) {
        *ok = routes_value(cli, o);
    } else if (strcmp(option->name, "connect-timeout") == 0) {
        *ok = tf_value_duration(o, "--connect-timeout", &cli->connect_timeout);
    } else if (strcmp(option->name, "json") == 0) {
        cli->json = true;
    } else if (strcmp(option->name, "stats") == 0) {
        cli->stats = true;
    } else {
        return false;
    }
    return true;
}

/* What was done so far, on stderr: with --json one object on one line. */
static void print_stats(const tf_cli *cli)
{
    tf_peer_stats stats;
    char text[TF_TIME_TEXT_MAX];
    tf_peer_get_stats(cli->peer, &stats);
    tf_time span = stats.now - cli->started;
    if (cli->json) {
        (void)fprintf(stderr, "{\"v\":1,\"type\":\"stats\",\"command\":\"%s\",\"span_us\":%" PRIu64, cli->command, span);
        tf_stats_print_json(&stats, stderr);
        (void)fputs("}\n", stderr);
    } else {
        (void)fprintf(stderr, "twofold %s, after %s\n", cli->command, tf_time_text(span, text));
        tf_stats_print(&stats, stderr);
    }
}

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
    (void)what;
    tf_cli *cli = ctx;
    if (number != SIGUSR1) {
        cli->interrupted = true;
        cli->terminated = number == SIGTERM;
        cli->stops++;
        tf_node_wake(cli->node);
    } else if (cli->peer != NULL) {
        print_stats(cli);
    }
}

static int load_identity(tf_cli *cli)
{
    char path[TF_PATH_MAX];
    char why[TF_WHY_MAX];
    bool made = false;
    tf_err err = TF_OK;
    if (cli->identity_path != NULL) {
        (void)snprintf(path, sizeof(path), "%s", cli->identity_path);
    } else {
        err = tf_keyfile_default_path(path, why);
    }
    if (err == TF_OK) {
        err = tf_keyfile_load_or_create(&cli->identity, path, tf_edge_rand(), &made, why);
    }
    if (err != TF_OK) {
        tf_complain(cli->command, "%s", why);
        return TF_EXIT_USAGE;
    }
    return TF_EXIT_OK;
}

static tf_err make_node(tf_cli *cli)
{
    tf_log_config log = {.level = TF_LOG_INFO,
                         .format = TF_LOG_LOGFMT,
                         .fd = STDERR_FILENO,
                         .now = tf_edge_now,
                         .wall_ms = tf_edge_wall_ms,
                         .mem = tf_edge_mem()};
    tf_err err = cli->verbose ? tf_log_new(&cli->log, &log) : TF_OK;
    tf_node_config config = {.identity = cli->identity, .log = cli->log};
    if (err == TF_OK) {
        err = tf_node_new(&cli->node, &config, NULL);
    }
    if (err == TF_OK) {
        static const int numbers[] = {SIGINT, SIGTERM, SIGUSR1};
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            cli->signals[i] = evsignal_new(tf_node_loop(cli->node), numbers[i], on_signal, cli);
            if (cli->signals[i] == NULL || event_add(cli->signals[i], NULL) != 0) {
                return TF_ERR_NOMEM;
            }
        }
    }
    return err;
}

int tf_cli_start(tf_cli *cli, const char *uri, const char *channel)
{
    char why[TF_WHY_MAX];
    if (tf_uri_parse(&cli->uri, uri, why) != TF_OK) {
        return tf_usage(cli->command, "%s", why);
    }
    int code = load_identity(cli);
    if (code != TF_EXIT_OK) {
        return code;
    }
    tf_connect_options options = {.routes = cli->routes,
                                  .connect_timeout = cli->connect_timeout,
                                  .max_in_flight = cli->max_in_flight,
                                  .retry_limit = cli->retry_limit};
    cli->started = tf_edge_now();
    tf_err err = make_node(cli);
    if (err == TF_OK) {
        err = tf_node_connect(cli->node, &cli->uri, &options, &cli->peer);
        if (err == TF_ERR_USAGE) {
            tf_complain(cli->command, "%s",
                        tf_node_id_eq(&cli->uri.node, tf_identity_node_id(cli->identity))
                            ? "the URI names our own identity; choose another with -i"
                            : "stream-bind and datagram-bind name no address or interface of this machine");
            return TF_EXIT_USAGE;
        }
    }
    if (err == TF_OK && channel != NULL) {
        err = cli->existing_only ? tf_remote_find(cli->peer, tf_slice_str(channel), &cli->channel)
                                 : tf_remote_open(cli->peer, tf_slice_str(channel), &cli->channel);
        if (err == TF_ERR_USAGE) {
            return tf_usage(cli->command,
                            "'%s' is not a channel name: 1 to %u of A-Z a-z 0-9 . _ : ~ - and /", channel,
                            TF_CHANNEL_NAME_MAX);
        }
    }
    return tf_cli_error(cli, err);
}

int tf_cli_bad_object_name(const char *command, const char *name)
{
    return tf_usage(command, "'%s' is not a name: 1 to %u of A-Z a-z 0-9 . _ : ~ - and /", name, TF_CHANNEL_NAME_MAX);
}

int tf_cli_error(const tf_cli *cli, tf_err err)
{
    if (err != TF_OK) {
        tf_complain(cli->command, "%s", tf_err_text(err));
        return TF_EXIT_INTERNAL;
    }
    return TF_EXIT_OK;
}

/* What went wrong, without the address with which it may begin: that is told already. */
static tf_slice without_address(tf_slice text, const char *where)
{
    size_t len = strlen(where);
    bool repeated = text.len > len + 2 && memcmp(text.data, where, len) == 0 && memcmp(text.data + len, ": ", 2) == 0;
    return repeated ? tf_slice_of(text.data + len + 2, text.len - len - 2) : text;
}

static int connect_failed(const tf_cli *cli, const tf_node_event *event)
{
    tf_peer_stats stats;
    char id[TF_NODE_ID_TEXT_LEN + 1];
    char where[TF_ENDPOINT_TEXT_MAX];
    (void)tf_endpoint_format(&cli->uri.stream, where);
    tf_slice text = without_address(event->text, where);
    tf_peer_get_stats(cli->peer, &stats);
    if (event->err != TF_ERR_PEER_REFUSED && stats.connected) { /* the stream is up, but is to carry nothing */
        (void)tf_endpoint_format(&cli->uri.datagram, where);
        tf_complain(cli->command, "cannot reach %s by datagrams: none was answered; does UDP get through?", where);
        return TF_EXIT_UNREACHABLE;
    }
    if (event->err != TF_ERR_PEER_REFUSED) {
        tf_complain(cli->command, "cannot reach %s: %.*s", where, (int)text.len, (const char *)text.data);
        return TF_EXIT_UNREACHABLE;
    }
    tf_node_id_format(tf_identity_node_id(cli->identity), id);
    tf_complain(cli->command, "refused by %s: %.*s. Is it the node that the URI names, and does it allow our key %s?",
                where, (int)text.len, (const char *)text.data, id);
    return TF_EXIT_REFUSED;
}

int tf_cli_event(tf_cli *cli, const tf_node_event *event)
{
    if (event->type == TF_EVENT_CONNECT_FAILED) {
        return connect_failed(cli, event);
    }
    if (event->type == TF_EVENT_CHANNEL_REFUSED) {
        tf_complain(cli->command, "channel refused: %.*s: %.*s", (int)event->code.len, (const char *)event->code.data,
                    (int)event->text.len, (const char *)event->text.data);
        if (cli->json) {
            tf_out_refusal(event);
        }
        return TF_EXIT_REFUSED;
    }
    return -1;
}

int tf_cli_run(tf_cli *cli, int (*take)(void *ctx, const tf_node_event *event), void *ctx)
{
    tf_node_event event;
    bool broken_pipe = false;
    int code = -1;
    while (code < 0) {
        tf_node_run(cli->node, TF_NEVER);
        if (cli->interrupted) {
            code = TF_EXIT_INTERRUPTED;
        }
        while (code < 0 && tf_node_next_event(cli->node, &event)) {
            code = tf_cli_event(cli, &event);
            code = code < 0 ? take(ctx, &event) : code;
        }
        if (!tf_out_flush(cli->command, &broken_pipe)) {
            return broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
        }
    }
    return code;
}

void tf_cli_end(tf_cli *cli)
{
    if (cli->stats && cli->peer != NULL) {
        print_stats(cli);
    }
    for (size_t i = 0; i < sizeof(cli->signals) / sizeof(cli->signals[0]); i++) {
        if (cli->signals[i] != NULL) {
            event_free(cli->signals[i]);
        }
    }
    tf_node_free(cli->node);
    tf_log_free(cli->log);
    tf_identity_free(cli->identity);
}
