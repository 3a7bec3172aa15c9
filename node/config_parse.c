#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "handshake/node_id.h"
#include "node/config_internal.h"

static const char inih_head[] = "[section]";

void tf_config_complain(config_parser *p, unsigned line, const char *format, ...)
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

tf_slice tf_config_trim(tf_slice text)
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
            return tf_config_trim(tf_slice_of(line.data, i));
        }
    }
    return line;
}

/* Keeps the head of a section, of which inih would cut all but the first 49 bytes. */
static bool take_head(config_parser *p, tf_slice line)
{
    const uint8_t *end = memchr(line.data, ']', line.len);
    size_t len = end == NULL ? 0 : (size_t)(end - line.data) - 1;
    if (end == NULL) {
        tf_config_complain(p, p->line, "%s has no closing bracket", tf_quote(line).text);
        return false;
    }
    if (len >= sizeof(p->head)) {
        len = sizeof(p->head) - 1; /* no section has such a name */
    }
    memcpy(p->head, line.data + 1, len);
    p->head[len] = '\0';
    return true;
}

/* Something that can be a key stands in front: no longer than any, so that it is in what inih gets of the line at once. */
static bool has_key(tf_slice line)
{
    size_t len = line.len < CONFIG_WORD_MAX ? line.len : CONFIG_WORD_MAX;
    return memchr(line.data, '=', len) != NULL || memchr(line.data, ':', len) != NULL;
}

/* Gives a line that inih can do something with, or an empty one. */
static tf_slice check_line(config_parser *p, tf_slice line)
{
    static const tf_slice empty = {NULL, 0};
    if (line.len == 0 || line.data[0] == ';' || line.data[0] == '#') {
        return empty;
    }
    if (line.data[0] == '[') {
        p->mark = take_head(p, line);
        return p->mark ? tf_slice_str(inih_head) : empty;
    }
    line = without_comment(line);
    if (!has_key(line)) {
        tf_config_complain(p, p->line, "%s: expected KEY = VALUE or [SECTION]", tf_quote(line).text);
        return empty;
    }
    return line;
}

static tf_slice take_line(config_parser *p)
{
    const uint8_t *end = memchr(p->text.data, '\n', p->text.len);
    size_t len = end == NULL ? p->text.len : (size_t)(end - p->text.data);
    tf_slice line = tf_slice_of(p->text.data, len);
    size_t taken = end == NULL ? len : len + 1;
    p->text = tf_slice_of(p->text.data + taken, p->text.len - taken);
    p->line++;
    return tf_config_trim(line);
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
    config_parser *p = stream;
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

/* -- pairs --------------------------------------------------------------------------------------------------------- */

static void unknown_key(config_parser *p)
{
    const char *names[CONFIG_KEYS_MAX];
    size_t count = 0;
    size_t n = 0;
    const config_key *keys = tf_config_keys(&count);
    tf_quoted name = tf_quote(tf_slice_str(p->name));
    const char *section = tf_config_section_name(p->section);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(keys[i].name, p->name) == 0) {
            tf_config_complain(p, p->pair_line, "%s is a key of [%s], not of [%s]", name.text, tf_config_section_name(keys[i].section),
                     section);
            return;
        }
        if (keys[i].section == p->section) {
            names[n++] = keys[i].name;
        }
    }
    const char *nearest = tf_config_nearest(p->name, names, n);
    if (nearest != NULL) {
        tf_config_complain(p, p->pair_line, "unknown key %s in [%s]: did you mean \"%s\"?", name.text, section, nearest);
    } else {
        tf_config_complain(p, p->pair_line, "unknown key %s in [%s]", name.text, section);
    }
}

/* Where the keys of the section at hand are noted, and what they are set in. */
static config_lines *section_at_hand(config_parser *p, void **record)
{
    tf_config *config = p->config;
    if (p->section == CONFIG_PEER) {
        *record = &config->peers[config->peer_count - 1];
        return &p->peer_lines[config->peer_count - 1];
    }
    if (p->section == CONFIG_CHANNEL) {
        *record = &config->channels[config->channel_count - 1];
        return &p->channel_lines[config->channel_count - 1];
    }
    *record = config;
    return &p->lines;
}

static void set_key(config_parser *p, const config_key *key, size_t index)
{
    char why[TF_WHY_MAX];
    void *record = NULL;
    unsigned *seen = &section_at_hand(p, &record)->keys[index];
    if (*seen != 0 && key->type != CONFIG_TYPE_LISTEN) {
        tf_config_complain(p, p->pair_line, "%s is given twice, first on line %u", key->name, *seen);
        return;
    }
    *seen = p->pair_line;
    tf_err err = tf_config_set(key, p->config, record, tf_slice_of(p->value, p->value_len), why);
    if (err == TF_ERR_NOMEM) {
        p->no_memory = true;
    } else if (err != TF_OK) {
        tf_config_complain(p, p->pair_line, "%s: %s", key->name, why);
    }
}

/* The pair that was put together is whole. */
static void finish_pair(config_parser *p)
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
        tf_config_complain(p, p->pair_line, "the line is longer than %u bytes", CONFIG_VALUE_MAX);
    } else if (i == count) {
        unknown_key(p);
    } else if (p->value_len > 0 && p->value[0] == '"') {
        tf_config_complain(p, p->pair_line, "%s: write the value without quotes", p->name);
    } else {
        set_key(p, &keys[i], i);
    }
    p->pair_line = 0;
}

static void append_value(config_parser *p, const char *value)
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
    config_parser *p = ctx;
    if (p->continued) {
        if (p->pair_line != 0) {
            append_value(p, value);
        }
        return 1;
    }
    finish_pair(p);
    if (p->marked) {
        tf_config_begin_section(p);
        return 1;
    }
    if (section[0] == '\0') {
        tf_config_complain(p, p->line, "%s stands before the first [SECTION]", tf_quote(tf_slice_str(name)).text);
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

static tf_err parse(config_parser *p)
{
    int result = ini_parse_stream(next_line, p, on_pair, p);
    finish_pair(p);
    if (p->errors->count == 0 && !p->no_memory) {
        tf_config_check(p); /* else what is missing may be what was wrong */
    }
    free(p->peer_lines);
    free(p->channel_lines);
    if (p->no_memory || result == -2) {
        return TF_ERR_NOMEM;
    }
    if (result > 0 && p->errors->count == 0) {
        tf_config_complain(p, (unsigned)result, "cannot be read");
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
    config_parser *p = NULL;
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
