/* The heads of sections: [limits], [peer "NAME"], [channel "PATTERN"]. */
#include <stdio.h>
#include <stdlib.h>

#include "node/config_internal.h"
#include "node/pattern.h"

static const char *const section_names[CONFIG_SECTIONS] = {"node", "listen", "peer", "channel", "store", "limits", "log"};

const char *tf_config_section_name(config_section section)
{
    return section_names[section];
}

static void unknown_section(config_parser *p)
{
    char word[CONFIG_WORD_MAX];
    (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(p->head, " \""), p->head);
    const char *nearest = tf_config_nearest(word, section_names, CONFIG_SECTIONS);
    tf_quoted name = tf_quote(tf_slice_str(p->head));
    if (nearest != NULL) {
        tf_config_complain(p, p->line, "unknown section %s: did you mean [%s]?", name.text, nearest);
    } else {
        tf_config_complain(p, p->line,
                           "unknown section %s: there are node, listen, peer \"name\", channel \"pattern\", store, "
                           "limits and log",
                           name.text);
    }
}

/* The head, fit for a terminal: control bytes as '?'. */
static const char *shown(char out[CONFIG_HEAD_MAX], const char *head)
{
    size_t len = strlen(head);
    for (size_t i = 0; i <= len; i++) {
        out[i] = head[i];
        if (i < len && ((uint8_t)head[i] < 0x20 || head[i] == 0x7f)) {
            out[i] = '?';
        }
    }
    return out;
}

/* The head begins with the word, and then comes a name, or what should be one. */
static bool is_named(const char *head, const char *word)
{
    size_t len = strlen(word);
    return strncmp(head, word, len) == 0 && strchr(" \t\"", head[len]) != NULL;
}

/* What stands in quotes behind the word; empty: nothing does. */
static tf_slice quoted(const char *head, const char *word)
{
    tf_slice name = tf_config_trim(tf_slice_str(head + strlen(word)));
    if (name.len < 2 || name.data[0] != '"' || name.data[name.len - 1] != '"') {
        return tf_slice_of(name.data, 0);
    }
    return tf_slice_of(name.data + 1, name.len - 2);
}

/* One more entry for the lines of a section. */
static bool add_lines(config_parser *p, config_lines **lines, size_t count)
{
    config_lines *more = realloc(*lines, (count + 1) * sizeof(*more));
    if (more == NULL) {
        p->no_memory = true;
        return false;
    }
    *lines = more;
    more[count] = (config_lines){.head = p->line};
    return true;
}

/* -- peers --------------------------------------------------------------------------------------------------------- */

static bool is_peer_name(tf_slice name)
{
    bool ok = name.len > 0 && name.len <= TF_CONFIG_NAME_MAX;
    for (size_t i = 0; ok && i < name.len; i++) {
        ok = name.data[i] > ' ' && name.data[i] < 0x7f && strchr("\"=,", name.data[i]) == NULL;
    }
    return ok;
}

static bool begin_peer(config_parser *p)
{
    char head[CONFIG_HEAD_MAX];
    tf_config *config = p->config;
    tf_slice name = quoted(p->head, "peer");
    if (!is_peer_name(name)) {
        tf_config_complain(p, p->line,
                           "[%.49s]: expected [peer \"NAME\"], NAME having 1 to %u printable characters, no blank and "
                           "no comma",
                           shown(head, p->head), TF_CONFIG_NAME_MAX);
        return false;
    }
    if (tf_slice_eq(name, tf_slice_str("any"))) {
        tf_config_complain(p, p->line, "no peer can be called any, which means every key in read and write");
        return false;
    }
    for (size_t i = 0; i < config->peer_count; i++) {
        if (tf_slice_eq(name, tf_slice_str(config->peers[i].name))) {
            tf_config_complain(p, p->line, "peer %s is there already, on line %u", tf_quote(name).text,
                               p->peer_lines[i].head);
            return false;
        }
    }
    if (config->peer_count == TF_PEERS_MAX) {
        tf_config_complain(p, p->line, "there are more than %u peers", TF_PEERS_MAX);
        return false;
    }
    tf_config_peer *peer = add_lines(p, &p->peer_lines, config->peer_count) ? tf_config_add_peer(config) : NULL;
    if (peer == NULL) {
        p->no_memory = true;
        return false;
    }
    memcpy(peer->name, name.data, name.len);
    return true;
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

static bool begin_channel(config_parser *p)
{
    char head[CONFIG_HEAD_MAX];
    tf_config *config = p->config;
    tf_slice pattern = quoted(p->head, "channel");
    if (!tf_pattern_is_valid(pattern)) {
        tf_config_complain(p, p->line,
                           "[%.80s]: expected [channel \"PATTERN\"], PATTERN having 1 to %u characters of A-Z a-z 0-9 . "
                           "_ : ~ - / and * (any characters) and ? (one)",
                           shown(head, p->head), TF_CHANNEL_NAME_MAX);
        return false;
    }
    for (size_t i = 0; i < config->channel_count; i++) {
        if (tf_slice_eq(pattern, tf_slice_str(config->channels[i].pattern))) {
            tf_config_complain(p, p->line, "channel %s is there already, on line %u", tf_quote(pattern).text,
                               p->channel_lines[i].head);
            return false;
        }
    }
    if (config->channel_count == TF_CONFIG_CHANNELS_MAX) {
        tf_config_complain(p, p->line, "there are more than %u sections of channels", TF_CONFIG_CHANNELS_MAX);
        return false;
    }
    tf_config_channel *channel =
        add_lines(p, &p->channel_lines, config->channel_count) ? tf_config_add_channel(config) : NULL;
    if (channel == NULL) {
        p->no_memory = true;
        return false;
    }
    memcpy(channel->pattern, pattern.data, pattern.len);
    return true;
}

/* -- all ----------------------------------------------------------------------------------------------------------- */

void tf_config_begin_section(config_parser *p)
{
    p->in_section = false;
    if (is_named(p->head, "peer")) {
        p->section = CONFIG_PEER;
        p->in_section = begin_peer(p);
        return;
    }
    if (is_named(p->head, "channel")) {
        p->section = CONFIG_CHANNEL;
        p->in_section = begin_channel(p);
        return;
    }
    for (int i = 0; i < CONFIG_SECTIONS; i++) {
        if (strcmp(p->head, section_names[i]) == 0) {
            p->section = (config_section)i;
            p->in_section = true;
            return;
        }
    }
    unknown_section(p);
}
