/* What the values of a configuration have to do with each other: peers and their keys, rights and the names in them, sizes
 * and times that one key gives and another bounds. */
#include <stdio.h>
#include <stdlib.h>

#include "handshake/node_id.h"
#include "node/config_internal.h"
#include "node/store/log_reader.h"

#define DEDUP_EXTRA (3600 * TF_SECOND) /* S2: so much longer than a session is kept */
#define SEGMENT_UNIT 4096u

/* -- peers --------------------------------------------------------------------------------------------------------- */

static void check_peer(config_parser *p, size_t at)
{
    static const tf_node_id none;
    const tf_config_peer *peer = &p->config->peers[at];
    unsigned line = p->peer_lines[at].head;
    char node[TF_NODE_ID_TEXT_LEN + 1];
    if (tf_node_id_eq(&peer->key, &none)) {
        tf_node_id_format(&peer->uri.node, node);
        tf_config_complain(p, line, "peer \"%s\" has no key: expected key = %s", peer->name,
                           peer->has_uri ? node : "NODEID");
        return;
    }
    if (peer->has_uri && !tf_node_id_eq(&peer->key, &peer->uri.node)) {
        tf_config_complain(p, line, "peer \"%s\": its uri names another node than its key", peer->name);
    }
    if (peer->standby == TF_ROUTES_BOTH) {
        tf_config_complain(p, line, "peer \"%s\": both routes are on standby: one has to carry", peer->name);
    }
    for (size_t i = 0; i < at; i++) {
        if (tf_node_id_eq(&p->config->peers[i].key, &peer->key)) {
            tf_config_complain(p, line, "peer \"%s\" has the key of peer \"%s\" on line %u", peer->name,
                               p->config->peers[i].name, p->peer_lines[i].head);
            return;
        }
    }
}

/* -- numbers ------------------------------------------------------------------------------------------------------- */

static size_t key_index(config_section section, const char *name)
{
    size_t count = 0;
    size_t i = 0;
    const config_key *keys = tf_config_keys(&count);
    for (; keys[i].section != section || strcmp(keys[i].name, name) != 0; i++) {
        TF_ASSERT(i + 1 < count);
    }
    return i;
}

/* "NAME = VALUE (line 7)" */
typedef struct given {
    char text[2 * CONFIG_NUMBER_MAX];
} given;

static given say(config_section section, const char *name, const config_lines *lines, uint64_t value)
{
    given out;
    char number[CONFIG_NUMBER_MAX];
    size_t index = key_index(section, name);
    size_t count = 0;
    tf_config_number(number, tf_config_keys(&count)[index].type, value);
    if (lines->keys[index] == 0) {
        (void)snprintf(out.text, sizeof(out.text), "%s = %s (the default)", name, number);
    } else {
        (void)snprintf(out.text, sizeof(out.text), "%s = %s (line %u)", name, number, lines->keys[index]);
    }
    return out;
}

static unsigned line_of(config_section section, const char *name, const config_lines *lines)
{
    return lines->keys[key_index(section, name)];
}

/* S2: as long as a session can come back, its client may send again what it does not know to be acked. */
static void check_dedup_age(config_parser *p, size_t at)
{
    const tf_config_channel *channel = &p->config->channels[at];
    const config_lines *lines = &p->channel_lines[at];
    tf_time timeout = p->config->limits.session_timeout;
    char least[CONFIG_NUMBER_MAX];
    if (channel->dedup_age == 0 || channel->dedup_age >= timeout + DEDUP_EXTRA) {
        return;
    }
    tf_config_complain(p, line_of(CONFIG_CHANNEL, "dedup_age", lines),
                       "%s is too short: with %s it is %s at least, an hour more than that",
                       say(CONFIG_CHANNEL, "dedup_age", lines, channel->dedup_age).text,
                       say(CONFIG_LIMITS, "session_timeout", &p->lines, timeout).text,
                       tf_config_number(least, CONFIG_TYPE_DURATION, timeout + DEDUP_EXTRA));
}

static void check_store(config_parser *p)
{
    const tf_config_store *store = &p->config->store;
    unsigned segment_line = line_of(CONFIG_STORE, "segment_size", &p->lines);
    given segment = say(CONFIG_STORE, "segment_size", &p->lines, store->segment_size);
    uint64_t least = TF_LOG_SEGMENTS_MIN * store->segment_size;
    uint64_t fitting = store->log_size / TF_LOG_SEGMENTS_MIN / SEGMENT_UNIT * SEGMENT_UNIT;
    char text[2][CONFIG_NUMBER_MAX];
    if (store->segment_size % SEGMENT_UNIT != 0) {
        tf_config_complain(p, segment_line, "%s is no multiple of 4KiB: %s would be one", segment.text,
                           tf_config_number(text[0], CONFIG_TYPE_SIZE64,
                                            store->segment_size / SEGMENT_UNIT * SEGMENT_UNIT));
    } else if (store->log_size != 0 && store->log_size < least) {
        tf_config_complain(p, line_of(CONFIG_STORE, "log_size", &p->lines),
                           "%s is less than %u segments of %s: log_size is %s at least, or segment_size %s at most",
                           say(CONFIG_STORE, "log_size", &p->lines, store->log_size).text, TF_LOG_SEGMENTS_MIN,
                           segment.text, tf_config_number(text[0], CONFIG_TYPE_SIZE64, least),
                           tf_config_number(text[1], CONFIG_TYPE_SIZE64, fitting));
    } else if (store->log_size / store->segment_size > TF_LOG_FILES_MAX) {
        tf_config_complain(p, line_of(CONFIG_STORE, "log_size", &p->lines),
                           "%s is more than %u segments of %s: log_size is %s at most, or segment_size larger",
                           say(CONFIG_STORE, "log_size", &p->lines, store->log_size).text, TF_LOG_FILES_MAX,
                           segment.text,
                           tf_config_number(text[0], CONFIG_TYPE_SIZE64, TF_LOG_FILES_MAX * store->segment_size));
    }
}

/* -- rights -------------------------------------------------------------------------------------------------------- */

/* The next name of a list; empty: no more. */
static tf_slice next_name(const char **at)
{
    static const char between[] = " \t\r\f\v,";
    const char *from = *at + strspn(*at, between);
    size_t len = strcspn(from, between);
    *at = from + len;
    return tf_slice_of((const uint8_t *)from, len);
}

static size_t find_peer(const tf_config *config, tf_slice name)
{
    size_t i = 0;
    while (i < config->peer_count && !tf_slice_eq(name, tf_slice_str(config->peers[i].name))) {
        i++;
    }
    return i;
}

/* A name in read or write: what is wrong with it, or one more peer. */
static void add_name(config_parser *p, tf_config_access *access, const char *key, unsigned line, tf_slice name)
{
    const char *names[TF_PEERS_MAX];
    char word[CONFIG_WORD_MAX];
    tf_config *config = p->config;
    size_t at = find_peer(config, name);
    if (at < config->peer_count) {
        access->peers[access->count++] = (uint32_t)at;
        return;
    }
    for (size_t i = 0; i < config->peer_count; i++) {
        names[i] = config->peers[i].name;
    }
    (void)snprintf(word, sizeof(word), "%.*s", (int)(name.len < sizeof(word) ? name.len : sizeof(word) - 1),
                   (const char *)name.data);
    const char *nearest = tf_config_nearest(word, names, config->peer_count);
    if (nearest != NULL) {
        tf_config_complain(p, line, "%s: no [peer %s]: did you mean \"%s\"?", key, tf_quote(name).text, nearest);
    } else {
        tf_config_complain(p, line, "%s: no [peer %s]: expected any, or names of [peer] sections", key,
                           tf_quote(name).text);
    }
}

static void check_access(config_parser *p, size_t channel, const char *key, tf_config_access *access)
{
    unsigned line = line_of(CONFIG_CHANNEL, key, &p->channel_lines[channel]);
    size_t count = 0;
    if (access->text == NULL) {
        return;
    }
    for (const char *at = access->text; next_name(&at).len > 0;) {
        count++;
    }
    if (count == 0) {
        tf_config_complain(p, line, "%s: expected any, or names of [peer] sections", key);
        return;
    }
    access->peers = calloc(count, sizeof(*access->peers));
    if (access->peers == NULL) {
        p->no_memory = true;
        return;
    }
    const char *at = access->text;
    for (tf_slice name = next_name(&at); name.len > 0; name = next_name(&at)) {
        if (!tf_slice_eq(name, tf_slice_str("any"))) {
            add_name(p, access, key, line, name);
        } else if (count == 1) {
            access->any = true;
        } else {
            tf_config_complain(p, line, "%s: any lets everybody in who is let in at all: it stands alone", key);
        }
    }
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

void tf_config_check(config_parser *p)
{
    for (size_t i = 0; i < p->config->peer_count; i++) {
        check_peer(p, i);
    }
    for (size_t i = 0; i < p->config->channel_count; i++) {
        tf_config_channel *channel = &p->config->channels[i];
        check_dedup_age(p, i);
        check_access(p, i, "read", &channel->read);
        check_access(p, i, "write", &channel->write);
    }
    check_store(p);
}
