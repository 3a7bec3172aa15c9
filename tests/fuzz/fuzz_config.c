/* node/config: any text is refused, with errors that name its lines and can be shown on a terminal, and then nothing
 * comes out; or it gives a config that is within its bounds, and that comes back the same when it is written as a file.
 * Input: the text, up to its first NUL. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "handshake/node_id.h"
#include "node/config.h"
#include "node/pattern.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define ROOM ((size_t)1024 * 1024)

/* -- as a file ----------------------------------------------------------------------------------------------------- */

static void put(FILE *out, const char *key, const char *value)
{
    if (value != NULL && value[0] != '\0') {
        (void)fprintf(out, "%s=%s\n", key, value);
    }
}

static void put_number(FILE *out, const char *key, uint64_t value, uint64_t unit, const char *unit_name)
{
    TF_ASSERT(value % unit == 0);
    if (value != 0) {
        (void)fprintf(out, "%s=%" PRIu64 "%s\n", key, value / unit, unit_name);
    }
}

static void put_peer(FILE *out, const tf_config_peer *peer)
{
    char node[TF_NODE_ID_TEXT_LEN + 1];
    char uri[TF_URI_TEXT_MAX];
    tf_node_id_format(&peer->key, node);
    (void)fprintf(out, "[peer \"%s\"]\nkey=%s\nrelay=%s\n", peer->name, node, peer->relay ? "yes" : "no");
    put(out, "uri", peer->has_uri ? tf_uri_format(&peer->uri, uri) : NULL);
    put(out, "stream_copy", (peer->standby & TF_ROUTES_STREAM) != 0 ? "standby" : "always");
    put(out, "datagram_copy", (peer->standby & TF_ROUTES_DATAGRAM) != 0 ? "standby" : "always");
}

static void put_channel(FILE *out, const tf_config_channel *channel)
{
    (void)fprintf(out, "[channel \"%s\"]\n", channel->pattern);
    put_number(out, "max_age", channel->max_age, TF_MS, "ms");
    put_number(out, "max_bytes", channel->max_bytes, 1, "");
    put_number(out, "max_count", channel->max_count, 1, "");
    put_number(out, "dedup_age", channel->dedup_age, TF_MS, "ms");
    put(out, "read", channel->read.text);
    put(out, "write", channel->write.text);
}

static void put_limits(FILE *out, const tf_config_limits *l)
{
    (void)fprintf(out, "[limits]\nrate=%" PRIu32 "\nrate_bytes=%" PRIu32 "\n", l->rate, l->rate_bytes);
    put_number(out, "max_in_flight", l->max_in_flight, 1, "");
    put_number(out, "max_message", l->max_message, 1, "");
    put_number(out, "window_bytes", l->window_bytes, 1, "");
    put_number(out, "window_segments", l->window_segments, 1, "");
    put_number(out, "session_timeout", l->session_timeout, TF_MS, "ms");
    put_number(out, "keepalive", l->keepalive, TF_MS, "ms");
    put_number(out, "rehandshake", l->rehandshake, TF_MS, "ms");
    put_number(out, "peers", l->peers, 1, "");
    put_number(out, "channels", l->channels, 1, "");
    put_number(out, "store_bytes", l->store_bytes, 1, "");
    put_number(out, "key_phase_packets", l->key_phase_packets, 1, "");
}

static void put_config(FILE *out, const tf_config *config)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    char text[TF_ENDPOINT_TEXT_MAX];
    (void)fprintf(out, "[node]\naccept=%s\n", config->accept == TF_ACCEPT_ANY ? "any" : "pinned");
    put(out, "data", config->data);
    put(out, "key", config->key);
    (void)fprintf(out, "[listen]\n");
    for (size_t i = 0; i < config->listen_count; i++) {
        put(out, "address", tf_endpoint_format(&config->listen[i], text));
    }
    for (size_t i = 0; i < config->peer_count; i++) {
        put_peer(out, &config->peers[i]);
    }
    for (size_t i = 0; i < config->channel_count; i++) {
        put_channel(out, &config->channels[i]);
    }
    (void)fprintf(out, "[store]\nkind=%s\n", config->store.kind == TF_CONFIG_STORE_MEMORY ? "memory" : "disk");
    put_number(out, "segment_size", config->store.segment_size, 1, "");
    put_number(out, "log_size", config->store.log_size, 1, "");
    put_limits(out, &config->limits);
    TF_ASSERT((unsigned)config->log_level < sizeof(levels) / sizeof(levels[0]));
    (void)fprintf(out, "[log]\nlevel=%s\nformat=%s\n", levels[config->log_level],
                  config->log_format == TF_LOG_JSON ? "json" : "logfmt");
}

/* For free(). */
static char *text_of(const tf_config *config)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    TF_ASSERT(out != NULL);
    put_config(out, config);
    TF_ASSERT(fclose(out) == 0);
    return text;
}

/* -- what must hold ------------------------------------------------------------------------------------------------ */

static void check_access(const tf_config *config, const tf_config_access *access)
{
    TF_ASSERT(access->text != NULL || (access->count == 0 && !access->any));
    TF_ASSERT(access->text == NULL || access->any == (access->count == 0));
    for (size_t i = 0; i < access->count; i++) {
        TF_ASSERT(access->peers[i] < config->peer_count);
    }
}

static void check_config(const tf_config *config)
{
    TF_ASSERT(config->listen_count <= TF_CONFIG_LISTEN_MAX && config->peer_count <= TF_PEERS_MAX);
    TF_ASSERT(config->channel_count <= TF_CONFIG_CHANNELS_MAX);
    for (size_t i = 0; i < config->peer_count; i++) {
        const tf_config_peer *peer = &config->peers[i];
        TF_ASSERT(tf_config_find_peer(config, &peer->key) == peer && peer->standby != TF_ROUTES_BOTH);
        TF_ASSERT(!peer->has_uri || tf_node_id_eq(&peer->uri.node, &peer->key));
    }
    for (size_t i = 0; i < config->channel_count; i++) {
        const tf_config_channel *channel = &config->channels[i];
        TF_ASSERT(tf_pattern_is_valid(tf_slice_str(channel->pattern)));
        TF_ASSERT(channel->dedup_age == 0 || channel->dedup_age > config->limits.session_timeout);
        check_access(config, &channel->read);
        check_access(config, &channel->write);
    }
    TF_ASSERT(config->limits.max_message <= TF_MESSAGE_MAX && config->limits.peers <= TF_CONNECTIONS_MAX);
    TF_ASSERT(config->store.segment_size % 4096 == 0);
}

static unsigned lines_of(const char *text)
{
    unsigned lines = 1;
    for (; *text != '\0'; text++) {
        lines += *text == '\n';
    }
    return lines;
}

static void check_errors(const tf_config_errors *errors, const char *text)
{
    unsigned before = 0;
    TF_ASSERT(errors->count > 0 && errors->count <= TF_CONFIG_ERRORS_MAX);
    TF_ASSERT(errors->more == 0 || errors->count == TF_CONFIG_ERRORS_MAX);
    for (size_t i = 0; i < errors->count; i++) {
        const struct tf_config_error *error = &errors->list[i];
        size_t len = strlen(error->text);
        TF_ASSERT(len > 0 && len < TF_CONFIG_TEXT_MAX && error->line >= before && error->line <= lines_of(text));
        for (size_t k = 0; k < len; k++) {
            TF_ASSERT((uint8_t)error->text[k] >= 0x20 && error->text[k] != 0x7f);
        }
        before = error->line;
    }
}

/* NULL: it was refused. */
static tf_config *parse(const char *text)
{
    static tf_config_errors errors;
    static tf_config untouched;
    tf_config *config = &untouched;
    tf_err err = tf_config_parse(&config, "file", text, &errors);
    if (err == TF_OK) {
        TF_ASSERT(config != &untouched && errors.count == 0 && errors.more == 0);
        return config;
    }
    TF_ASSERT(err == TF_ERR_USAGE && config == &untouched);
    check_errors(&errors, text);
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > ROOM) {
        return 0;
    }
    char *exact = tf_fuzz_text(tf_slice_of(data, size));
    tf_config *config = parse(exact);
    if (config != NULL) {
        check_config(config);
        char *text = text_of(config);
        tf_config *again = parse(text);
        TF_ASSERT(again != NULL);
        char *text_again = text_of(again);
        TF_ASSERT(strcmp(text, text_again) == 0);
        free(text_again);
        tf_config_free(again);
        free(text);
        tf_config_free(config);
    }
    free(exact);
    return 0;
}
