#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "handshake/negotiate.h"
#include "handshake/node_id.h"
#include "node/config_internal.h"

#define KIB ((uint64_t)1024)
#define TIB (KIB * KIB * KIB * KIB)
#define DAY (86400 * TF_SECOND)
#define LOG_SIZE_MIN ((uint64_t)TF_LOG_SEGMENTS_MIN * TF_LOG_SEGMENT_SIZE_MIN)
#define KEEPALIVE_MIN (TF_KEEPALIVE_MS_MIN * TF_MS)
#define KEEPALIVE_MAX (TF_KEEPALIVE_MS_MAX * TF_MS)
#define RATE_MAX ((uint64_t)1000 * 1000 * 1000)
#define COUNT_MAX ((uint64_t)1000 * 1000 * 1000 * 1000 * 1000)
#define WORD_MAX 64u

#define IN_CONFIG(field) offsetof(tf_config, field)
#define IN_PEER(field) offsetof(tf_config_peer, field)
#define IN_CHANNEL(field) offsetof(tf_config_channel, field)
#define IN_STORE(field) (offsetof(tf_config, store) + offsetof(tf_config_store, field))
#define IN_LIMITS(field) (offsetof(tf_config, limits) + offsetof(tf_config_limits, field))

static const config_key keys[] = {
    {"data", CONFIG_NODE, CONFIG_TYPE_PATH, IN_CONFIG(data), 0, 0},
    {"key", CONFIG_NODE, CONFIG_TYPE_PATH, IN_CONFIG(key), 0, 0},
    {"accept", CONFIG_NODE, CONFIG_TYPE_ACCEPT, IN_CONFIG(accept), 0, 0},
    {"address", CONFIG_LISTEN, CONFIG_TYPE_LISTEN, IN_CONFIG(listen), 0, 0},
    {"key", CONFIG_PEER, CONFIG_TYPE_NODE_ID, IN_PEER(key), 0, 0},
    {"uri", CONFIG_PEER, CONFIG_TYPE_URI, IN_PEER(uri), 0, 0},
    {"relay", CONFIG_PEER, CONFIG_TYPE_BOOL, IN_PEER(relay), 0, 0},
    {"stream_copy", CONFIG_PEER, CONFIG_TYPE_COPY, IN_PEER(standby), 0, TF_ROUTES_STREAM},
    {"datagram_copy", CONFIG_PEER, CONFIG_TYPE_COPY, IN_PEER(standby), 0, TF_ROUTES_DATAGRAM},
    {"max_age", CONFIG_CHANNEL, CONFIG_TYPE_DURATION, IN_CHANNEL(max_age), TF_SECOND, 36500 * DAY},
    {"max_bytes", CONFIG_CHANNEL, CONFIG_TYPE_SIZE64, IN_CHANNEL(max_bytes), 1, 1024 * TIB},
    {"max_count", CONFIG_CHANNEL, CONFIG_TYPE_COUNT64, IN_CHANNEL(max_count), 1, COUNT_MAX},
    {"dedup_age", CONFIG_CHANNEL, CONFIG_TYPE_DURATION, IN_CHANNEL(dedup_age), 3600 * TF_SECOND, 36500 * DAY},
    {"read", CONFIG_CHANNEL, CONFIG_TYPE_ACCESS, IN_CHANNEL(read), 0, 0},
    {"write", CONFIG_CHANNEL, CONFIG_TYPE_ACCESS, IN_CHANNEL(write), 0, 0},
    {"kind", CONFIG_STORE, CONFIG_TYPE_STORE_KIND, IN_STORE(kind), 0, 0},
    {"segment_size", CONFIG_STORE, CONFIG_TYPE_SIZE64, IN_STORE(segment_size), TF_LOG_SEGMENT_SIZE_MIN,
     TF_LOG_SEGMENT_SIZE_MAX},
    {"log_size", CONFIG_STORE, CONFIG_TYPE_SIZE64, IN_STORE(log_size), LOG_SIZE_MIN, TIB},
    {"max_in_flight", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(max_in_flight), 1, TF_MAX_IN_FLIGHT_MAX},
    {"max_message", CONFIG_LIMITS, CONFIG_TYPE_SIZE, IN_LIMITS(max_message), TF_MESSAGE_MIN_LIMIT,
     (uint64_t)TF_MESSAGE_MAX},
    {"window_bytes", CONFIG_LIMITS, CONFIG_TYPE_SIZE, IN_LIMITS(window_bytes), (uint64_t)TF_WINDOW_BYTES_MIN,
     (uint64_t)TF_WINDOW_BYTES_MAX},
    {"window_segments", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(window_segments), TF_WINDOW_SEGMENTS_MIN,
     TF_WINDOW_SEGMENTS_MAX},
    {"session_timeout", CONFIG_LIMITS, CONFIG_TYPE_DURATION, IN_LIMITS(session_timeout), TF_SECOND, 30 * DAY},
    {"keepalive", CONFIG_LIMITS, CONFIG_TYPE_DURATION, IN_LIMITS(keepalive), KEEPALIVE_MIN, KEEPALIVE_MAX},
    {"rehandshake", CONFIG_LIMITS, CONFIG_TYPE_DURATION, IN_LIMITS(rehandshake), TF_SECOND, 30 * DAY},
    {"peers", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(peers), 1, TF_CONNECTIONS_MAX},
    {"handshakes", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(handshakes), 1, TF_HANDSHAKES_MAX},
    {"channels", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(channels), 1, TF_CHANNELS_MAX},
    {"rate", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(rate), 0, RATE_MAX},
    {"rate_bytes", CONFIG_LIMITS, CONFIG_TYPE_SIZE, IN_LIMITS(rate_bytes), 0, 2 * KIB * KIB * KIB},
    {"store_bytes", CONFIG_LIMITS, CONFIG_TYPE_SIZE64, IN_LIMITS(store_bytes), 1024 * KIB, TIB},
    {"key_phase_packets", CONFIG_LIMITS, CONFIG_TYPE_COUNT, IN_LIMITS(key_phase_packets), TF_KEY_PHASE_PACKETS_MIN,
     TF_KEY_PHASE_PACKETS},
    {"level", CONFIG_LOG, CONFIG_TYPE_LEVEL, IN_CONFIG(log_level), 0, 0},
    {"format", CONFIG_LOG, CONFIG_TYPE_FORMAT, IN_CONFIG(log_format), 0, 0},
};

_Static_assert(sizeof(keys) / sizeof(keys[0]) <= CONFIG_KEYS_MAX, "there is a place for each key");

const config_key *tf_config_keys(size_t *count)
{
    *count = sizeof(keys) / sizeof(keys[0]);
    return keys;
}

/* -- values -------------------------------------------------------------------------------------------------------- */

static tf_err set_path(char *out, tf_slice value, char why[TF_WHY_MAX])
{
    if (value.len == 0 || value.len >= TF_CONFIG_PATH_MAX) {
        return tf_why(why, "expected a path of 1 to %u bytes", TF_CONFIG_PATH_MAX - 1);
    }
    memcpy(out, value.data, value.len);
    out[value.len] = '\0';
    return TF_OK;
}

static tf_err set_accept(tf_accept *out, tf_slice value, char why[TF_WHY_MAX])
{
    bool pinned = tf_slice_eq(value, tf_slice_str("pinned"));
    if (!pinned && !tf_slice_eq(value, tf_slice_str("any"))) {
        return tf_why(why, "%s: expected pinned or any", tf_quote(value).text);
    }
    *out = pinned ? TF_ACCEPT_PINNED : TF_ACCEPT_ANY;
    return TF_OK;
}

static tf_err set_bool(bool *out, tf_slice value, char why[TF_WHY_MAX])
{
    bool yes = tf_slice_eq(value, tf_slice_str("yes")) || tf_slice_eq(value, tf_slice_str("true"));
    if (!yes && !tf_slice_eq(value, tf_slice_str("no")) && !tf_slice_eq(value, tf_slice_str("false"))) {
        return tf_why(why, "%s: expected yes or no", tf_quote(value).text);
    }
    *out = yes;
    return TF_OK;
}

static tf_err set_copy(tf_routes *out, const config_key *key, tf_slice value, char why[TF_WHY_MAX])
{
    bool standby = tf_slice_eq(value, tf_slice_str("standby"));
    if (!standby && !tf_slice_eq(value, tf_slice_str("always"))) {
        return tf_why(why, "%s: expected always or standby", tf_quote(value).text);
    }
    *out |= standby ? (tf_routes)key->max : 0;
    return TF_OK;
}

static tf_err add_listen(tf_config *config, tf_slice value, char why[TF_WHY_MAX])
{
    if (config->listen_count == TF_CONFIG_LISTEN_MAX) {
        return tf_why(why, "there are more than %u addresses", TF_CONFIG_LISTEN_MAX);
    }
    tf_err err = tf_endpoint_parse(&config->listen[config->listen_count], value, true, why);
    config->listen_count += err == TF_OK;
    return err;
}

static tf_err set_uri(tf_config_peer *peer, tf_slice value, char why[TF_WHY_MAX])
{
    char text[TF_URI_TEXT_MAX + 1];
    if (value.len > TF_URI_TEXT_MAX) {
        return tf_why(why, "longer than %u bytes", TF_URI_TEXT_MAX);
    }
    memcpy(text, value.data, value.len);
    text[value.len] = '\0';
    tf_err err = tf_uri_parse(&peer->uri, text, why);
    peer->has_uri = err == TF_OK;
    peer->standby |= peer->uri.standby;
    return err;
}

static tf_err set_node_id(tf_node_id *out, tf_slice value, char why[TF_WHY_MAX])
{
    return tf_node_id_parse(out, value) == TF_OK
               ? TF_OK
               : tf_why(why, "%s is no node id: expected %u characters a-z and 2-7, as printed by 'twofold pubkey'",
                        tf_quote(value).text, TF_NODE_ID_TEXT_LEN);
}

static tf_err set_store_kind(tf_config_store_kind *out, tf_slice value, char why[TF_WHY_MAX])
{
    bool memory = tf_slice_eq(value, tf_slice_str("memory"));
    if (!memory && !tf_slice_eq(value, tf_slice_str("disk"))) {
        return tf_why(why, "%s: expected disk or memory", tf_quote(value).text);
    }
    *out = memory ? TF_CONFIG_STORE_MEMORY : TF_CONFIG_STORE_DISK;
    return TF_OK;
}

/* Whom the names mean is known once the whole file was read. */
static tf_err set_access(tf_config_access *out, tf_slice value, char why[TF_WHY_MAX])
{
    if (value.len == 0) {
        return tf_why(why, "expected any, or names of [peer] sections; without the key it is nobody");
    }
    out->text = malloc(value.len + 1);
    if (out->text == NULL) {
        return TF_ERR_NOMEM;
    }
    memcpy(out->text, value.data, value.len);
    out->text[value.len] = '\0';
    return TF_OK;
}

static tf_err parse_level(tf_log_level *out, tf_slice value, char why[TF_WHY_MAX])
{
    return tf_log_level_parse(out, value) == TF_OK
               ? TF_OK
               : tf_why(why, "%s: expected error, warn, info or debug", tf_quote(value).text);
}

static tf_err parse_format(tf_log_format *out, tf_slice value, char why[TF_WHY_MAX])
{
    return tf_log_format_parse(out, value) == TF_OK ? TF_OK
                                                    : tf_why(why, "%s: expected logfmt or json", tf_quote(value).text);
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

static bool is_count(config_type type)
{
    return type == CONFIG_TYPE_COUNT || type == CONFIG_TYPE_COUNT64;
}

const char *tf_config_number(char out[CONFIG_NUMBER_MAX], config_type type, uint64_t value)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } sizes[] = {{"TiB", TIB}, {"GiB", KIB * KIB * KIB}, {"MiB", KIB * KIB}, {"KiB", KIB}, {"B", 1}},
      times[] = {{"d", DAY}, {"h", 3600 * TF_SECOND}, {"m", 60 * TF_SECOND}, {"s", TF_SECOND}, {"ms", TF_MS}};
    size_t i = 0;
    if (is_count(type) || value == 0) {
        (void)snprintf(out, CONFIG_NUMBER_MAX, "%" PRIu64, value);
    } else if (type == CONFIG_TYPE_DURATION) {
        for (; value % times[i].factor != 0; i++) {
        }
        (void)snprintf(out, CONFIG_NUMBER_MAX, "%" PRIu64 "%s", value / times[i].factor, times[i].name);
    } else {
        for (; value % sizes[i].factor != 0; i++) {
        }
        (void)snprintf(out, CONFIG_NUMBER_MAX, "%" PRIu64 "%s", value / sizes[i].factor, sizes[i].name);
    }
    return out;
}

static tf_err parse_number(uint64_t *out, const config_key *key, tf_slice value, char why[TF_WHY_MAX])
{
    char min[CONFIG_NUMBER_MAX];
    char max[CONFIG_NUMBER_MAX];
    tf_err err = TF_OK;
    const char *kind = "a number";
    if (key->type == CONFIG_TYPE_DURATION) {
        err = tf_duration_parse(out, value);
        kind = "a duration with its unit (ms, s, m, h or d)";
    } else if (is_count(key->type)) {
        err = value.len > 0 && value.data[value.len - 1] <= '9' ? tf_size_parse(out, value) : TF_ERR_USAGE;
    } else {
        err = tf_size_parse(out, value);
        kind = "a size (in bytes, or with B, KiB, MiB, GiB, kB, MB or GB)";
    }
    if (err == TF_OK && *out >= key->min && *out <= key->max) {
        return TF_OK;
    }
    return tf_why(why, "%s: expected %s from %s to %s", tf_quote(value).text, kind,
                  tf_config_number(min, key->type, key->min), tf_config_number(max, key->type, key->max));
}

static tf_err set_number(const config_key *key, void *field, tf_slice value, char why[TF_WHY_MAX])
{
    uint64_t number = 0;
    tf_err err = parse_number(&number, key, value, why);
    if (err != TF_OK) {
        return err;
    }
    if (key->type == CONFIG_TYPE_COUNT || key->type == CONFIG_TYPE_SIZE) {
        uint32_t narrow = (uint32_t)number; /* the maximum of each key fits */
        memcpy(field, &narrow, sizeof(narrow));
    } else {
        memcpy(field, &number, sizeof(number));
    }
    return TF_OK;
}

tf_err tf_config_set(const config_key *key, tf_config *config, void *record, tf_slice value, char why[TF_WHY_MAX])
{
    void *field = (uint8_t *)record + key->offset;
    switch (key->type) {
    case CONFIG_TYPE_PATH:
        return set_path(field, value, why);
    case CONFIG_TYPE_ACCEPT:
        return set_accept(field, value, why);
    case CONFIG_TYPE_LISTEN:
        return add_listen(config, value, why);
    case CONFIG_TYPE_NODE_ID:
        return set_node_id(field, value, why);
    case CONFIG_TYPE_URI:
        return set_uri(record, value, why);
    case CONFIG_TYPE_BOOL:
        return set_bool(field, value, why);
    case CONFIG_TYPE_COPY:
        return set_copy(field, key, value, why);
    case CONFIG_TYPE_STORE_KIND:
        return set_store_kind(field, value, why);
    case CONFIG_TYPE_ACCESS:
        return set_access(field, value, why);
    case CONFIG_TYPE_COUNT:
    case CONFIG_TYPE_COUNT64:
    case CONFIG_TYPE_SIZE:
    case CONFIG_TYPE_SIZE64:
    case CONFIG_TYPE_DURATION:
        return set_number(key, field, value, why);
    case CONFIG_TYPE_LEVEL:
        return parse_level(field, value, why);
    case CONFIG_TYPE_FORMAT:
        return parse_format(field, value, why);
    }
    TF_UNREACHABLE();
}

/* -- names --------------------------------------------------------------------------------------------------------- */

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Levenshtein's distance; both shorter than WORD_MAX. */
static size_t distance_of(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t row[WORD_MAX];
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

const char *tf_config_nearest(const char *name, const char *const *names, size_t count)
{
    size_t len = strlen(name);
    size_t best = len / 3 + 2; /* further away is no misspelling */
    const char *nearest = NULL;
    for (size_t i = 0; i < count && len < WORD_MAX; i++) {
        size_t other = strlen(names[i]);
        size_t distance = other < WORD_MAX ? distance_of(name, len, names[i], other) : best;
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}
