#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "handshake/node_id.h"
#include "node/config_internal.h"

#define VALUE_MAX 5120u
#define NAME_MAX_LEN 64u

typedef struct parser {
    const char *path;
    tf_config *config;
    tf_config_errors *errors;
    bool no_memory;

    tf_slice text; /* not read yet */
    unsigned line;
    tf_slice rest;  /* of a line that is longer than what inih takes at once */
    bool continued; /* what inih has now is such a rest */
    bool mark;      /* the line was the head of a section, which inih would only tell with its first key */
    bool marked;    /* what inih has now is a key that was made up for that */

    bool in_section; /* a known one */
    config_section section;
    tf_config_peer *peer;           /* in CONFIG_PEER */
    unsigned seen[CONFIG_KEYS_MAX]; /* the line where a key was given; those of a peer begin anew with each */
    unsigned *peer_lines;           /* of each peer's head */

    char name[NAME_MAX_LEN]; /* the pair that is being put together */
    char value[VALUE_MAX];
    size_t value_len;
    unsigned pair_line; /* 0: none */
    bool too_long;
} parser;

static void complain(parser *p, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void complain(parser *p, unsigned line, const char *format, ...)
{
    if (p->errors->count == TF_CONFIG_ERRORS_MAX) {
        p->errors->more++;
        return;
    }
    struct tf_config_error *error = &p->errors->list[p->errors->count++];
    error->line = line;
    int n = line > 0 ? snprintf(error->text, sizeof(error->text), "%.200s:%u: ", p->path, line)
                     : snprintf(error->text, sizeof(error->text), "%.200s: ", p->path);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->text + n, sizeof(error->text) - (size_t)n, format, arguments);
    va_end(arguments);
}

/* -- lines --------------------------------------------------------------------------------------------------------- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static tf_slice trim(tf_slice text)
{
    while (text.len > 0 && is_blank(text.data[0])) {
        text = tf_slice_of(text.data + 1, text.len - 1);
    }
    while (text.len > 0 && is_blank(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

/* inih's rule for comments behind a value: a blank and a semicolon. */
static tf_slice without_comment(tf_slice line)
{
    for (size_t i = 1; i < line.len; i++) {
        if (line.data[i] == ';' && is_blank(line.data[i - 1])) {
            return trim(tf_slice_of(line.data, i));
        }
    }
    return line;
}

/* Gives a line that inih can do something with, or an empty one. */
static tf_slice check_line(parser *p, tf_slice line)
{
    static const tf_slice empty = {NULL, 0};
    if (line.len == 0 || line.data[0] == ';' || line.data[0] == '#') {
        return empty;
    }
    if (line.data[0] == '[') {
        p->mark = memchr(line.data, ']', line.len) != NULL;
        if (!p->mark) {
            complain(p, p->line, "%s has no closing bracket", tf_quote(line).text);
        }
        return p->mark ? line : empty;
    }
    line = without_comment(line);
    if (memchr(line.data, '=', line.len) == NULL && memchr(line.data, ':', line.len) == NULL) {
        complain(p, p->line, "%s: expected KEY = VALUE or [SECTION]", tf_quote(line).text);
        return empty;
    }
    return line;
}

static tf_slice take_line(parser *p)
{
    const uint8_t *end = memchr(p->text.data, '\n', p->text.len);
    size_t len = end == NULL ? p->text.len : (size_t)(end - p->text.data);
    tf_slice line = tf_slice_of(p->text.data, len);
    size_t taken = end == NULL ? len : len + 1;
    p->text = tf_slice_of(p->text.data + taken, p->text.len - taken);
    p->line++;
    return trim(line);
}

/* Where a long line can be cut so that inih takes both parts as they are: not at a blank, nor before what begins a
 * comment. */
static size_t cut_at(tf_slice line, size_t cap)
{
    size_t n = line.len;
    if (n > cap) {
        for (n = cap; n > 0; n--) {
            uint8_t next = line.data[n];
            if (!is_blank(line.data[n - 1]) && !is_blank(next) && next != ';' && next != '#') {
                break;
            }
        }
    }
    return n > 0 ? n : cap;
}

/* inih's source of lines. It keeps count of them, reports malformed ones, tells inih of heads of sections in a way that
 * inih passes on, and cuts lines that are too long for inih (200 bytes) in parts that inih takes for continuation lines.
 * (Those of the file are none: an indented line begins a key like any other.) */
static char *next_line(char *out, int size, void *stream)
{
    parser *p = stream;
    size_t cap = (size_t)size - 3; /* a blank in front, a newline and a NUL behind */
    char *at = out;
    p->marked = p->mark;
    p->mark = false;
    if (p->marked) {
        (void)snprintf(out, (size_t)size, "begin =\n");
        return out;
    }
    p->continued = p->rest.len > 0;
    if (p->continued) {
        *at++ = ' ';
    } else if (p->text.len == 0) {
        return NULL;
    } else {
        p->rest = check_line(p, take_line(p));
    }
    size_t n = cut_at(p->rest, cap);
    n = n < p->rest.len ? n : p->rest.len;
    if (n > 0) {
        memcpy(at, p->rest.data, n);
    }
    p->rest = tf_slice_of(p->rest.data == NULL ? NULL : p->rest.data + n, p->rest.len - n);
    at[n] = '\n';
    at[n + 1] = '\0';
    return out;
}

/* -- sections ------------------------------------------------------------------------------------------------------ */

static const char *const section_names[CONFIG_SECTIONS] = {"node", "listen", "peer", "limits", "log"};

static void unknown_section(parser *p, const char *head)
{
    char word[NAME_MAX_LEN];
    (void)snprintf(word, sizeof(word), "%.*s", (int)strcspn(head, " \""), head);
    const char *nearest = tf_config_nearest(word, section_names, CONFIG_SECTIONS);
    tf_quoted name = tf_quote(tf_slice_str(head));
    if (nearest != NULL) {
        complain(p, p->line, "unknown section %s: did you mean [%s]?", name.text, nearest);
    } else {
        complain(p, p->line, "unknown section %s: there are node, listen, peer \"name\", limits and log", name.text);
    }
}

static bool is_name(tf_slice name)
{
    bool ok = name.len > 0 && name.len <= TF_CONFIG_NAME_MAX;
    for (size_t i = 0; ok && i < name.len; i++) {
        ok = name.data[i] > ' ' && name.data[i] < 0x7f && name.data[i] != '"' && name.data[i] != '=';
    }
    return ok;
}

static bool add_peer(parser *p, tf_slice name)
{
    unsigned *lines = realloc(p->peer_lines, (p->config->peer_count + 1) * sizeof(*lines));
    if (lines == NULL) {
        p->no_memory = true;
        return false;
    }
    p->peer_lines = lines;
    p->peer = tf_config_add_peer(p->config);
    if (p->peer == NULL) {
        p->no_memory = true;
        return false;
    }
    memcpy(p->peer->name, name.data, name.len);
    lines[p->config->peer_count - 1] = p->line;
    return true;
}

/* The head `peer "name"`. */
static bool begin_peer(parser *p, const char *head)
{
    tf_slice name = trim(tf_slice_str(head + sizeof("peer") - 1));
    if (name.len < 2 || name.data[0] != '"' || name.data[name.len - 1] != '"' ||
        !is_name(tf_slice_of(name.data + 1, name.len - 2))) {
        complain(p, p->line, "[%.49s]: expected [peer \"NAME\"], NAME having 1 to %u printable characters and no blank",
                 head, TF_CONFIG_NAME_MAX);
        return false;
    }
    name = tf_slice_of(name.data + 1, name.len - 2);
    for (size_t i = 0; i < p->config->peer_count; i++) {
        if (tf_slice_eq(name, tf_slice_str(p->config->peers[i].name))) {
            complain(p, p->line, "peer %s is there already, on line %u", tf_quote(name).text, p->peer_lines[i]);
            return false;
        }
    }
    if (p->config->peer_count == TF_PEERS_MAX) {
        complain(p, p->line, "there are more than %u peers", TF_PEERS_MAX);
        return false;
    }
    size_t count = 0;
    const config_key *keys = tf_config_keys(&count);
    for (size_t i = 0; i < count; i++) {
        p->seen[i] = keys[i].section == CONFIG_PEER ? 0 : p->seen[i];
    }
    return add_peer(p, name);
}

static void begin_section(parser *p, const char *head)
{
    p->peer = NULL;
    p->in_section = false;
    if (strncmp(head, "peer", 4) == 0 && (head[4] == '\0' || head[4] == ' ' || head[4] == '"' || head[4] == '\t')) {
        p->section = CONFIG_PEER;
        p->in_section = begin_peer(p, head);
        return;
    }
    for (int i = 0; i < CONFIG_SECTIONS; i++) {
        if (strcmp(head, section_names[i]) == 0) {
            p->section = (config_section)i;
            p->in_section = true;
            return;
        }
    }
    unknown_section(p, head);
}

/* -- pairs --------------------------------------------------------------------------------------------------------- */

static void unknown_key(parser *p)
{
    const char *names[CONFIG_KEYS_MAX];
    size_t count = 0;
    size_t n = 0;
    const config_key *keys = tf_config_keys(&count);
    tf_quoted name = tf_quote(tf_slice_str(p->name));
    const char *section = section_names[p->section];
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, p->name) == 0) {
            complain(p, p->pair_line, "%s is a key of [%s], not of [%s]", name.text, section_names[keys[i].section],
                     section);
            return;
        }
        if (keys[i].section == p->section) {
            names[n++] = keys[i].name;
        }
    }
    const char *nearest = tf_config_nearest(p->name, names, n);
    if (nearest != NULL) {
        complain(p, p->pair_line, "unknown key %s in [%s]: did you mean \"%s\"?", name.text, section, nearest);
    } else {
        complain(p, p->pair_line, "unknown key %s in [%s]", name.text, section);
    }
}

static void set_key(parser *p, const config_key *key, unsigned *seen)
{
    char why[TF_WHY_MAX];
    void *record = key->section == CONFIG_PEER ? (void *)p->peer : (void *)p->config;
    if (*seen != 0 && key->type != CONFIG_TYPE_LISTEN) {
        complain(p, p->pair_line, "%s is given twice, first on line %u", key->name, *seen);
        return;
    }
    *seen = p->pair_line;
    if (tf_config_set(key, p->config, record, tf_slice_of(p->value, p->value_len), why) != TF_OK) {
        complain(p, p->pair_line, "%s: %s", key->name, why);
    }
}

/* The pair that was put together is whole. */
static void finish_pair(parser *p)
{
    size_t count = 0;
    const config_key *keys = tf_config_keys(&count);
    size_t i = 0;
    if (p->pair_line == 0) {
        return;
    }
    for (; i < count && (keys[i].section != p->section || strcmp(keys[i].name, p->name) != 0); i++) {
    }
    if (p->too_long) {
        complain(p, p->pair_line, "the line is longer than %u bytes", VALUE_MAX);
    } else if (i == count) {
        unknown_key(p);
    } else if (p->value_len > 0 && p->value[0] == '"') {
        complain(p, p->pair_line, "%s: write the value without quotes", p->name);
    } else {
        set_key(p, &keys[i], &p->seen[i]);
    }
    p->pair_line = 0;
}

static void append_value(parser *p, const char *value)
{
    size_t len = strlen(value);
    p->too_long = p->too_long || len > sizeof(p->value) - p->value_len;
    if (!p->too_long) {
        memcpy(p->value + p->value_len, value, len);
        p->value_len += len;
    }
}

/* inih's handler. */
static int on_pair(void *ctx, const char *section, const char *name, const char *value)
{
    parser *p = ctx;
    if (p->continued) {
        if (p->pair_line != 0) {
            append_value(p, value);
        }
        return 1;
    }
    finish_pair(p);
    if (p->marked) {
        begin_section(p, section);
        return 1;
    }
    if (section[0] == '\0') {
        complain(p, p->line, "%s stands before the first [SECTION]", tf_quote(tf_slice_str(name)).text);
    }
    if (section[0] == '\0' || !p->in_section) {
        return 1; /* its section was complained about */
    }
    (void)snprintf(p->name, sizeof(p->name), "%s", name);
    p->pair_line = p->line;
    p->value_len = 0;
    p->too_long = false;
    append_value(p, value);
    return 1;
}

/* -- the whole ----------------------------------------------------------------------------------------------------- */

static void check_peer(parser *p, size_t at)
{
    static const tf_node_id none;
    const tf_config_peer *peer = &p->config->peers[at];
    char node[TF_NODE_ID_TEXT_LEN + 1];
    if (tf_node_id_eq(&peer->key, &none)) {
        tf_node_id_format(&peer->uri.node, node);
        complain(p, p->peer_lines[at], "peer \"%s\" has no key: expected key = %s", peer->name,
                 peer->has_uri ? node : "NODEID");
        return;
    }
    if (peer->has_uri && !tf_node_id_eq(&peer->key, &peer->uri.node)) {
        complain(p, p->peer_lines[at], "peer \"%s\": its uri names another node than its key", peer->name);
    }
    if (peer->standby == TF_ROUTES_BOTH) {
        complain(p, p->peer_lines[at], "peer \"%s\": both routes are on standby: one has to carry", peer->name);
    }
    for (size_t i = 0; i < at; i++) {
        if (tf_node_id_eq(&p->config->peers[i].key, &peer->key)) {
            complain(p, p->peer_lines[at], "peer \"%s\" has the key of peer \"%s\" on line %u", peer->name,
                     p->config->peers[i].name, p->peer_lines[i]);
            return;
        }
    }
}

static void check_whole(parser *p)
{
    if (p->errors->count > 0) {
        return; /* what is missing may be what was wrong */
    }
    for (size_t i = 0; i < p->config->peer_count; i++) {
        check_peer(p, i);
    }
}

/* A pair is judged when the next line has been seen, so the errors are not in order yet. */
static void sort_errors(tf_config_errors *errors)
{
    for (size_t i = 1; i < errors->count; i++) {
        struct tf_config_error error = errors->list[i];
        size_t at = i;
        for (; at > 0 && errors->list[at - 1].line > error.line; at--) {
            errors->list[at] = errors->list[at - 1];
        }
        errors->list[at] = error;
    }
}

static tf_err parse(parser *p)
{
    int result = ini_parse_stream(next_line, p, on_pair, p);
    finish_pair(p);
    check_whole(p);
    free(p->peer_lines);
    if (p->no_memory || result == -2) {
        return TF_ERR_NOMEM;
    }
    if (result > 0 && p->errors->count == 0) {
        complain(p, (unsigned)result, "cannot be read");
    }
    sort_errors(p->errors);
    return p->errors->count == 0 ? TF_OK : TF_ERR_USAGE;
}

/* Less the byte order mark that some editors put in front. */
static tf_slice without_mark(const char *text)
{
    static const char mark[] = "\xef\xbb\xbf";
    return tf_slice_str(strncmp(text, mark, sizeof(mark) - 1) == 0 ? text + sizeof(mark) - 1 : text);
}

tf_err tf_config_parse(tf_config **out, const char *path, const char *text, tf_config_errors *errors)
{
    tf_config *config = NULL;
    parser *p = NULL;
    errors->count = 0;
    errors->more = 0;
    tf_err err = tf_config_new(&config);
    if (err != TF_OK) {
        goto out;
    }
    p = calloc(1, sizeof(*p));
    if (p == NULL) {
        err = TF_ERR_NOMEM;
        goto out;
    }
    p->path = path;
    p->config = config;
    p->errors = errors;
    p->text = without_mark(text);
    err = parse(p);
    if (err != TF_OK) {
        goto out;
    }
    *out = config;
    config = NULL; /* handed over */
out:
    free(p);
    tf_config_free(config);
    return err;
}
