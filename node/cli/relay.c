/* relay: the daemon, in the foreground. */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <event2/event.h>

#include "node/admin/admin.h"
#include "node/cli/relay.h"
#include "node/edge_mem.h"
#include "proto/limits.h"

#define RELAY_LISTEN_DEFAULT "127.0.0.1:7420"
#define RELAY_DRAIN_LIMIT (10 * TF_SECOND)

typedef struct relay {
    const char *config_path;
    const char *data_flag;
    const char *listen[TF_CONFIG_LISTEN_MAX];
    size_t listen_count;
    tf_node_id allow[64];
    size_t allow_count;
    bool accept_given;
    tf_accept accept;
    uint32_t max_in_flight;
    bool print_uri;
    char data[TF_PATH_MAX];
    char store[TF_PATH_MAX + 8]; /* its directory */
    tf_config *config;
    tf_identity *identity;
    tf_log *log;
    tf_node *node;
    tf_admin *admin; /* NULL: none */
    struct event *signals[3];
    unsigned stops; /* TERM and INT so far */
    bool interrupted;
    bool reload;
} relay;

static const tf_option options[] = {
    {'c', "config", "FILE", "configuration file"},
    {0, "listen", "HOST:PORT", "address for TCP and UDP; port 0: a free one (default: 127.0.0.1:7420)"},
    {0, "data", "DIR", "data directory (default: $STATE_DIRECTORY, else $XDG_STATE_HOME/twofold)"},
    {0, "accept", "WHOM", "pinned: keys of [peer] sections and --allow; any: every key (default: pinned)"},
    {0, "allow", "NODEID", "let this key in; may be repeated"},
    {0, "max-in-flight", "N", "unacked sends per origin, announced to clients (default: 32)"},
    {0, "print-uri", NULL, "print the relay's address on stdout once it is ready"},
    {0, NULL, NULL, NULL},
};

const tf_option *tf_relay_options(void)
{
    return options;
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

static bool accept_value(relay *r, const tf_options *o)
{
    r->accept_given = true;
    r->accept = strcmp(o->value, "any") == 0 ? TF_ACCEPT_ANY : TF_ACCEPT_PINNED;
    if (r->accept == TF_ACCEPT_PINNED && strcmp(o->value, "pinned") != 0) {
        (void)tf_usage("relay", "--accept: '%s' is neither pinned nor any", o->value);
        return false;
    }
    return true;
}

static bool allow_value(relay *r, const tf_options *o)
{
    if (r->allow_count == sizeof(r->allow) / sizeof(r->allow[0])) {
        (void)tf_usage("relay", "--allow: more than %zu keys; put them into [peer] sections", r->allow_count);
        return false;
    }
    if (tf_node_id_parse(&r->allow[r->allow_count], tf_slice_str(o->value)) != TF_OK) {
        (void)tf_usage("relay", "--allow: '%s' is not a node id: 52 characters a-z 2-7, as `twofold pubkey` prints",
                       o->value);
        return false;
    }
    r->allow_count++;
    return true;
}

static bool listen_value(relay *r, const tf_options *o)
{
    tf_endpoint endpoint;
    char why[TF_WHY_MAX];
    if (r->listen_count == TF_CONFIG_LISTEN_MAX) {
        (void)tf_usage("relay", "--listen: more than %u addresses", TF_CONFIG_LISTEN_MAX);
        return false;
    }
    if (tf_endpoint_parse(&endpoint, tf_slice_str(o->value), true, why) != TF_OK) {
        (void)tf_usage("relay", "--listen: %s", why);
        return false;
    }
    r->listen[r->listen_count++] = o->value;
    return true;
}

static bool one_option(relay *r, const tf_options *o, const char *name)
{
    uint64_t value = 0;
    if (strcmp(name, "config") == 0) {
        r->config_path = o->value;
    } else if (strcmp(name, "listen") == 0) {
        return listen_value(r, o);
    } else if (strcmp(name, "data") == 0) {
        r->data_flag = o->value;
    } else if (strcmp(name, "accept") == 0) {
        return accept_value(r, o);
    } else if (strcmp(name, "allow") == 0) {
        return allow_value(r, o);
    } else if (strcmp(name, "max-in-flight") == 0) {
        if (!tf_value_count(o, "--max-in-flight", 1, TF_MAX_IN_FLIGHT_MAX, &value)) {
            return false;
        }
        r->max_in_flight = (uint32_t)value;
    } else {
        r->print_uri = true;
    }
    return true;
}

/* -- the configuration --------------------------------------------------------------------------------------------- */

/* The file with what the flags say on top. TF_EXIT_OK or the exit code; the user was told. */
static int load_config(const relay *r, tf_config **out)
{
    tf_config_errors *errors = calloc(1, sizeof(*errors));
    tf_err err = errors == NULL ? TF_ERR_NOMEM : TF_OK;
    if (err == TF_OK) {
        err = r->config_path == NULL ? tf_config_new(out) : tf_config_load(out, r->config_path, errors);
    }
    for (size_t i = 0; errors != NULL && i < errors->count; i++) {
        (void)fprintf(stderr, "%s\n", errors->list[i].text);
    }
    if (errors != NULL && errors->more > 0) {
        (void)fprintf(stderr, "and %zu more errors\n", errors->more);
    }
    free(errors);
    for (size_t i = 0; err == TF_OK && i < r->allow_count; i++) {
        err = tf_config_allow(*out, &r->allow[i]);
    }
    if (err == TF_OK) {
        (*out)->accept = r->accept_given ? r->accept : (*out)->accept;
        (*out)->limits.max_in_flight = r->max_in_flight != 0 ? r->max_in_flight : (*out)->limits.max_in_flight;
        return TF_EXIT_OK;
    }
    tf_config_free(*out);
    *out = NULL;
    return err == TF_ERR_USAGE ? TF_EXIT_CONFIG : TF_EXIT_INTERNAL;
}

static tf_node_grant *grants_of(const tf_config *config)
{
    tf_node_grant *grants = calloc(config->peer_count + 1, sizeof(*grants));
    for (size_t i = 0; grants != NULL && i < config->peer_count; i++) {
        const tf_config_peer *peer = &config->peers[i];
        grants[i] = (tf_node_grant){.id = peer->key, .relay = peer->relay, .standby = peer->standby};
    }
    return grants;
}

static int load_identity(relay *r)
{
    char *data = r->data;
    char path[TF_PATH_MAX + 8];
    char why[TF_WHY_MAX];
    bool made = false;
    tf_err err = TF_OK;
    TF_ASSERT(r->config != NULL);
    if (r->data_flag != NULL || r->config->data[0] != '\0') {
        (void)snprintf(data, sizeof(r->data), "%s", r->data_flag != NULL ? r->data_flag : r->config->data);
    } else {
        err = tf_data_default_path(data, why);
    }
    if (err == TF_OK) {
        err = tf_directory_make(data, why);
    }
    (void)snprintf(path, sizeof(path), "%s/key", data);
    (void)snprintf(r->store, sizeof(r->store), "%s/store", data);
    if (err == TF_OK && r->config->store.kind == TF_CONFIG_STORE_DISK) {
        err = tf_directory_make(r->store, why);
    }
    if (err == TF_OK) {
        err = tf_keyfile_load_or_create(&r->identity, r->config->key[0] != '\0' ? r->config->key : path,
                                        tf_edge_rand(), &made, why);
    }
    if (err != TF_OK) {
        tf_complain("relay", "%s", why);
        return TF_EXIT_NEGATIVE;
    }
    return TF_EXIT_OK;
}

/* -- signals ------------------------------------------------------------------------------------------------------- */

static void on_stop(evutil_socket_t number, short what, void *ctx)
{
    (void)what;
    relay *r = ctx;
    r->stops++;
    r->interrupted = r->interrupted || number == SIGINT;
    tf_node_wake(r->node);
}

static void on_hup(evutil_socket_t number, short what, void *ctx)
{
    (void)number;
    (void)what;
    relay *r = ctx;
    r->reload = true;
    tf_node_wake(r->node);
}

static bool watch_signals(relay *r)
{
    struct event_base *base = tf_node_loop(r->node);
    r->signals[0] = evsignal_new(base, SIGTERM, on_stop, r);
    r->signals[1] = evsignal_new(base, SIGINT, on_stop, r);
    r->signals[2] = evsignal_new(base, SIGHUP, on_hup, r);
    for (int i = 0; i < 3; i++) {
        if (r->signals[i] == NULL || event_add(r->signals[i], NULL) != 0) {
            return false;
        }
    }
    return true;
}

static bool limits_differ(const tf_config_limits *a, const tf_config_limits *b)
{
    return a->max_in_flight != b->max_in_flight || a->max_message != b->max_message ||
           a->window_bytes != b->window_bytes || a->window_segments != b->window_segments ||
           a->session_timeout != b->session_timeout || a->keepalive != b->keepalive ||
           a->rehandshake != b->rehandshake || a->peers != b->peers || a->handshakes != b->handshakes ||
           a->channels != b->channels ||
           a->store_bytes != b->store_bytes || a->key_phase_packets != b->key_phase_packets;
}

static bool stores_differ(const tf_config_store *a, const tf_config_store *b)
{
    return a->kind != b->kind || a->segment_size != b->segment_size || a->log_size != b->log_size;
}

static bool listens_differ(const tf_config *a, const tf_config *b)
{
    bool differ = a->listen_count != b->listen_count;
    for (size_t i = 0; !differ && i < a->listen_count; i++) {
        differ = !tf_endpoint_eq(&a->listen[i], &b->listen[i]);
    }
    return differ;
}

/* What a reload cannot change is said; everything else is applied, or (a bad file) nothing. */
static void do_reload(relay *r)
{
    tf_config *config = NULL;
    r->reload = false;
    if (load_config(r, &config) != TF_EXIT_OK) {
        tf_log_event(r->log, TF_LOG_ERROR, "reload_failed", NULL);
        return;
    }
    tf_node_grant *grants = grants_of(config);
    if (grants == NULL || tf_relay_set_policies(r->node, config) != TF_OK ||
        tf_node_set_grants(r->node, grants, config->peer_count, config->accept == TF_ACCEPT_ANY) != TF_OK) {
        tf_log_event(r->log, TF_LOG_ERROR, "reload_failed", NULL);
        tf_config_free(config);
        free(grants);
        return;
    }
    free(grants);
    tf_log_set(r->log, config->log_level, config->log_format);
    bool restart = limits_differ(&config->limits, &r->config->limits) ||
                   stores_differ(&config->store, &r->config->store) || listens_differ(config, r->config) || strcmp(config->data, r->config->data) != 0 ||
                   strcmp(config->key, r->config->key) != 0;
    TF_LOG(r->log, TF_LOG_INFO, "reloaded", NULL, tf_log_uint("peers", config->peer_count),
           tf_log_uint("channel_sections", config->channel_count),
           tf_log_bool("needs_restart", restart));
    tf_config_free(r->config);
    r->config = config;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err make_node(relay *r, char why[TF_WHY_MAX])
{
    const tf_config_limits *l = &r->config->limits;
    tf_log_config log = {.level = r->config->log_level,
                         .format = r->config->log_format,
                         .fd = STDERR_FILENO,
                         .priorities = tf_log_is_journal(STDERR_FILENO),
                         .now = tf_edge_now,
                         .wall_ms = tf_edge_wall_ms,
                         .mem = tf_edge_mem()};
    tf_node_grant *grants = grants_of(r->config);
    tf_err err = grants == NULL ? TF_ERR_NOMEM : tf_log_new(&r->log, &log);
    tf_node_config config = {.identity = r->identity,
                             .exclusive = true,
                             .accept_any = r->config->accept == TF_ACCEPT_ANY,
                             .grants = grants,
                             .grant_count = r->config->peer_count,
                             .limits = {.max_in_flight = l->max_in_flight,
                                        .max_message = l->max_message,
                                        .window_segments = l->window_segments,
                                        .window_bytes = l->window_bytes,
                                        .peers = l->peers,
                                        .handshakes = l->handshakes,
                                        .channels = l->channels,
                                        .store_bytes = l->store_bytes,
                                        .key_phase_packets = l->key_phase_packets,
                                        .session_timeout = l->session_timeout,
                                        .keepalive = l->keepalive,
                                        .rehandshake = l->rehandshake},
                             .store = {.directory = r->config->store.kind == TF_CONFIG_STORE_DISK ? r->store : NULL,
                                       .segment_size = r->config->store.segment_size,
                                       .log_bytes = r->config->store.log_size},
                             .log = r->log};
    if (err == TF_OK) {
        err = tf_node_new(&r->node, &config, why);
    }
    free(grants);
    return err == TF_OK ? tf_relay_set_policies(r->node, r->config) : err;
}

static int open_listeners(relay *r)
{
    char why[TF_WHY_MAX];
    char text[TF_ENDPOINT_TEXT_MAX];
    size_t count = r->listen_count != 0 ? r->listen_count : r->config->listen_count;
    for (size_t i = 0; i < count || (count == 0 && i == 0); i++) {
        const char *address = RELAY_LISTEN_DEFAULT;
        if (r->listen_count != 0) {
            address = r->listen[i];
        } else if (count != 0) {
            address = tf_endpoint_format(&r->config->listen[i], text);
        }
        tf_err err = tf_node_listen(r->node, address, why, sizeof(why));
        if (err != TF_OK) {
            tf_complain("relay", "%s", why);
            return err == TF_ERR_USAGE ? TF_EXIT_USAGE : TF_EXIT_NEGATIVE;
        }
    }
    return TF_EXIT_OK;
}

static int dial_peers(relay *r)
{
    for (size_t i = 0; i < r->config->peer_count; i++) {
        const tf_config_peer *peer = &r->config->peers[i];
        tf_peer *dialled = NULL;
        tf_connect_options how = {.connect_timeout = TF_NEVER};
        if (!peer->has_uri) {
            continue;
        }
        tf_err err = tf_node_connect(r->node, &peer->uri, &how, &dialled);
        if (err != TF_OK) {
            tf_complain("relay", "peer \"%s\": its uri cannot be used: %s", peer->name, tf_err_text(err));
            return err == TF_ERR_USAGE ? TF_EXIT_CONFIG : TF_EXIT_INTERNAL;
        }
    }
    return TF_EXIT_OK;
}

static int print_uri(const relay *r)
{
    char uri[TF_URI_TEXT_MAX];
    bool broken_pipe = false;
    if (r->print_uri && tf_node_uri(r->node, uri, sizeof(uri))) {
        (void)printf("%s\n", uri);
        return tf_out_flush("relay", &broken_pipe) || broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
    }
    return TF_EXIT_OK;
}

static bool next_ref(void *ctx, tf_node_refs_cursor *cursor, tf_node_ref *out)
{
    return tf_node_refs_next(ctx, cursor, out);
}

static void refs_stats(void *ctx, tf_router_stats *out)
{
    tf_node_refs_stats(ctx, out);
}

/* Without it a relay is one all the same: it says why there is none, and goes on. */
static void open_admin(relay *r)
{
    char why[TF_WHY_MAX];
    tf_admin_config config = {.base = tf_node_loop(r->node),
                              .mem = tf_edge_mem(),
                              .directory = r->data,
                              .source = {.next_ref = next_ref, .refs_stats = refs_stats, .ctx = r->node}};
    if (tf_admin_new(&r->admin, &config, why) != TF_OK) {
        TF_LOG(r->log, TF_LOG_WARN, "no_admin_socket", NULL, tf_log_str("why", why));
    }
}

static void serve(relay *r)
{
    tf_node_event event;
    tf_time end = TF_NEVER;
    while (r->stops < 2) {
        tf_time now = tf_edge_now();
        if (r->reload) {
            do_reload(r);
        }
        if (r->stops == 1 && end == TF_NEVER) {
            tf_log_event(r->log, TF_LOG_INFO, "draining", NULL);
            tf_node_drain(r->node);
            end = tf_time_add(now, RELAY_DRAIN_LIMIT);
        }
        if (end != TF_NEVER && (now >= end || tf_node_is_drained(r->node))) {
            break;
        }
        tf_node_run(r->node, end == TF_NEVER ? TF_NEVER : tf_time_min(end - now, 100 * TF_MS));
        while (tf_node_next_event(r->node, &event)) {
            continue; /* what its peers' connections do is in the log */
        }
    }
    TF_LOG(r->log, TF_LOG_INFO, "stopped", NULL, tf_log_bool("drained", tf_node_is_drained(r->node)));
}

/* Each connection takes one, and what a process may have at first is often less than what it may ask for. */
static void allow_descriptors(const relay *r)
{
    const tf_config_limits *l = &r->config->limits;
    rlim_t needed = (rlim_t)l->peers + l->handshakes + TF_LINGERS_MAX + TF_DESCRIPTORS_KEPT;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < needed) {
        TF_LOG(r->log, TF_LOG_INFO, "few_descriptors", NULL, tf_log_uint("limit", limit.rlim_cur),
               tf_log_uint("needed", needed));
    }
}

static int start(relay *r)
{
    int code = load_config(r, &r->config);
    if (code == TF_EXIT_OK) {
        code = load_identity(r);
    }
    if (code == TF_EXIT_OK) {
        char why[TF_WHY_MAX] = "out of memory";
        tf_err err = make_node(r, why);
        if (err != TF_OK) {
            tf_complain("relay", "%s", why);
            return tf_cli_store_exit(err);
        }
        allow_descriptors(r);
        code = watch_signals(r) ? open_listeners(r) : TF_EXIT_INTERNAL;
    }
    if (code == TF_EXIT_OK) {
        open_admin(r);
    }
    if (code == TF_EXIT_OK) {
        code = dial_peers(r);
    }
    return code == TF_EXIT_OK ? print_uri(r) : code;
}

int tf_cmd_relay(int argc, char **argv)
{
    tf_options o;
    relay r = {.print_uri = false};
    int index = 0;
    tf_options_init(&o, "relay", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&r, &o, options[index].name)) {
            return TF_EXIT_USAGE;
        }
    }
    if (o.failed || o.operand_count > 0) {
        return o.failed ? TF_EXIT_USAGE : tf_usage("relay", "takes no '%s'; a config is named with -c", o.operands[0]);
    }
    int code = start(&r);
    if (code == TF_EXIT_OK) {
        serve(&r);
        code = r.interrupted ? TF_EXIT_INTERRUPTED : TF_EXIT_OK;
    }
    for (int i = 0; i < 3; i++) {
        if (r.signals[i] != NULL) {
            event_free(r.signals[i]);
        }
    }
    tf_admin_free(r.admin);
    tf_node_free(r.node);
    tf_log_free(r.log);
    tf_identity_free(r.identity);
    tf_config_free(r.config);
    return code;
}
