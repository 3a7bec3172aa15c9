#include "node/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/config_internal.h"

tf_err tf_config_new(tf_config **out)
{
    tf_config *config = calloc(1, sizeof(*config));
    if (config == NULL) {
        return TF_ERR_NOMEM;
    }
    config->accept = TF_ACCEPT_PINNED;
    config->store = (tf_config_store){.kind = TF_CONFIG_STORE_DISK, .segment_size = TF_LOG_SEGMENT_SIZE};
    config->limits = (tf_config_limits){.max_in_flight = TF_MAX_IN_FLIGHT,
                                        .max_message = TF_MESSAGE_MAX,
                                        .window_bytes = TF_WINDOW_BYTES,
                                        .window_segments = TF_WINDOW_SEGMENTS,
                                        .session_timeout = TF_SESSION_TIMEOUT,
                                        .keepalive = TF_KEEPALIVE,
                                        .rehandshake = TF_REHANDSHAKE_AGE,
                                        .peers = TF_CONNECTIONS,
                                        .handshakes = TF_HANDSHAKES,
                                        .channels = TF_CHANNELS_MAX,
                                        .store_bytes = TF_STORE_MEMORY_BYTES,
                                        .key_phase_packets = TF_KEY_PHASE_PACKETS};
    config->log_level = TF_LOG_INFO;
    config->log_format = TF_LOG_LOGFMT;
    *out = config;
    return TF_OK;
}

static void free_access(tf_config_access *access)
{
    free(access->text);
    free(access->peers);
}

void tf_config_free(tf_config *config)
{
    if (config == NULL) {
        return;
    }
    for (size_t i = 0; i < config->channel_count; i++) {
        free_access(&config->channels[i].read);
        free_access(&config->channels[i].write);
    }
    free(config->channels);
    free(config->peers);
    free(config);
}

/* One more entry, zeroed. NULL: no memory, the old array stays. */
static void *add_entry(void *array, size_t count, size_t size)
{
    uint8_t *bytes = realloc(array, (count + 1) * size);
    if (bytes != NULL) {
        memset(bytes + count * size, 0, size);
    }
    return bytes;
}

tf_config_peer *tf_config_add_peer(tf_config *config)
{
    tf_config_peer *peers = add_entry(config->peers, config->peer_count, sizeof(*peers));
    if (peers == NULL) {
        return NULL;
    }
    config->peers = peers;
    return &peers[config->peer_count++];
}

tf_config_channel *tf_config_add_channel(tf_config *config)
{
    tf_config_channel *channels = add_entry(config->channels, config->channel_count, sizeof(*channels));
    if (channels == NULL) {
        return NULL;
    }
    config->channels = channels;
    return &channels[config->channel_count++];
}

bool tf_config_has_rights(const tf_config *config)
{
    for (size_t i = 0; i < config->channel_count; i++) {
        if (config->channels[i].read.text != NULL || config->channels[i].write.text != NULL) {
            return true;
        }
    }
    return false;
}

tf_err tf_config_allow(tf_config *config, const tf_node_id *key)
{
    if (tf_config_find_peer(config, key) != NULL) {
        return TF_OK;
    }
    if (config->peer_count >= TF_PEERS_MAX) {
        return TF_ERR_LIMIT_ITEMS;
    }
    tf_config_peer *peer = tf_config_add_peer(config);
    if (peer == NULL) {
        return TF_ERR_NOMEM;
    }
    peer->key = *key;
    return TF_OK;
}

const tf_config_peer *tf_config_find_peer(const tf_config *config, const tf_node_id *key)
{
    for (size_t i = 0; i < config->peer_count; i++) {
        if (tf_node_id_eq(&config->peers[i].key, key)) {
            return &config->peers[i];
        }
    }
    return NULL;
}

static tf_err cannot_read(tf_config_errors *errors, const char *path, const char *what)
{
    *errors = (tf_config_errors){.count = 1};
    (void)snprintf(errors->list[0].text, sizeof(errors->list[0].text), "%.300s: %s", path, what);
    return TF_ERR_USAGE;
}

/* The text of a file, for free(). */
static tf_err read_file(char **out, FILE *file, const char *path, tf_config_errors *errors)
{
    char *text = malloc(TF_CONFIG_FILE_MAX + 1);
    if (text == NULL) {
        return TF_ERR_NOMEM;
    }
    tf_err err = TF_OK;
    size_t len = fread(text, 1, TF_CONFIG_FILE_MAX + 1, file);
    if (ferror(file) != 0) {
        err = cannot_read(errors, path, strerror(errno));
    } else if (len > TF_CONFIG_FILE_MAX) {
        err = cannot_read(errors, path, "larger than 1 MiB, which is no configuration");
    } else if (memchr(text, '\0', len) != NULL) {
        err = cannot_read(errors, path, "holds NUL bytes, which is no configuration");
    }
    if (err != TF_OK) {
        free(text);
        return err;
    }
    text[len] = '\0';
    *out = text;
    return TF_OK;
}

tf_err tf_config_load(tf_config **out, const char *path, tf_config_errors *errors)
{
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return cannot_read(errors, path, strerror(errno));
    }
    tf_err err = read_file(&text, file, path, errors);
    (void)fclose(file);
    if (err == TF_OK) {
        err = tf_config_parse(out, path, text, errors);
    }
    free(text);
    return err;
}
