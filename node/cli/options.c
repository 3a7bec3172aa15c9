/* Options by table: --name VALUE, --name=VALUE, -x VALUE, -xVALUE, and `--`. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "node/cli/cli.h"

void tf_complain(const char *command, const char *format, ...)
{
    va_list args;
    (void)fprintf(stderr, "twofold%s%s: ", command[0] == '\0' ? "" : " ", command);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

int tf_usage(const char *command, const char *format, ...)
{
    va_list args;
    (void)fprintf(stderr, "twofold%s%s: ", command[0] == '\0' ? "" : " ", command);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "\nSee `twofold help%s%s`.\n", command[0] == '\0' ? "" : " ", command);
    return TF_EXIT_USAGE;
}

tf_exit tf_exit_of(tf_err err)
{
    switch (err) {
    case TF_ERR_OK:
        return TF_EXIT_OK;
    case TF_ERR_USAGE:
    case TF_ERR_LIMIT_ITEMS:
    case TF_ERR_LIMIT_BYTES:
        return TF_EXIT_USAGE;
    case TF_ERR_TIMEOUT:
        return TF_EXIT_UNREACHABLE;
    case TF_ERR_PEER_REFUSED:
    case TF_ERR_PEER_AUTH:
    case TF_ERR_PEER_VERSION:
        return TF_EXIT_REFUSED;
    case TF_ERR_AGAIN:
    case TF_ERR_PEER_SYNTAX:
    case TF_ERR_PEER_LIMIT:
    case TF_ERR_PEER_SEQ:
    case TF_ERR_PEER_ACK:
    case TF_ERR_PEER_REF:
    case TF_ERR_PEER_STATE:
    case TF_ERR_PEER_CONFLICT:
    case TF_ERR_PEER_REPLAY:
    case TF_ERR_CLOSED:
    case TF_ERR_NOMEM:
    case TF_ERR_IO:
    case TF_ERR_CRYPTO:
    case TF_ERR_FULL:
        return TF_EXIT_INTERNAL;
    case TF_ERR_DAMAGED:
        return TF_EXIT_DAMAGED;
    }
    TF_UNREACHABLE();
}

void tf_options_init(tf_options *o, const char *command, const tf_option *table, int argc, char **argv)
{
    *o = (tf_options){.command = command, .table = table, .argc = argc, .argv = argv, .at = 1};
}

static bool is_end(const tf_option *option)
{
    return option->letter == '\0' && option->name == NULL;
}

static int find_long(const tf_option *table, const char *name, size_t len)
{
    for (int i = 0; !is_end(&table[i]); i++) {
        if (table[i].name != NULL && strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_letter(const tf_option *table, char letter)
{
    for (int i = 0; !is_end(&table[i]); i++) {
        if (table[i].letter == letter) {
            return i;
        }
    }
    return -1;
}

/* The known name that shares the longest beginning with the one that was given, for a hint. */
static const char *nearest(const tf_option *table, const char *name, size_t len)
{
    const char *best = NULL;
    size_t best_score = 1;
    for (int i = 0; !is_end(&table[i]); i++) {
        size_t score = 0;
        while (table[i].name != NULL && score < len && table[i].name[score] == name[score]) {
            score++;
        }
        if (score > best_score) {
            best = table[i].name;
            best_score = score;
        }
    }
    return best;
}

static int fail(tf_options *o)
{
    o->failed = true;
    return -1;
}

static int unknown_long(tf_options *o, const char *name, size_t len)
{
    const char *hint = nearest(o->table, name, len);
    if (hint != NULL) {
        (void)tf_usage(o->command, "unknown option --%.*s; did you mean --%s?", (int)len, name, hint);
    } else {
        (void)tf_usage(o->command, "unknown option --%.*s", (int)len, name);
    }
    return fail(o);
}

static int take_value(tf_options *o, int index, const char *attached, const char *shown)
{
    bool takes = o->table[index].value != NULL;
    o->value = attached;
    if (!takes && attached != NULL) {
        (void)tf_usage(o->command, "option %s takes no value", shown);
        return fail(o);
    }
    if (takes && attached == NULL) {
        if (o->at >= o->argc) {
            (void)tf_usage(o->command, "option %s needs a value: %s", shown, o->table[index].value);
            return fail(o);
        }
        o->value = o->argv[o->at++];
    }
    return index;
}

static int long_option(tf_options *o, const char *arg)
{
    const char *name = arg + 2;
    const char *equals = strchr(name, '=');
    size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    char shown[64];
    int index = find_long(o->table, name, len);
    if (index < 0) {
        return unknown_long(o, name, len);
    }
    (void)snprintf(shown, sizeof(shown), "--%s", o->table[index].name);
    return take_value(o, index, equals != NULL ? equals + 1 : NULL, shown);
}

static int short_option(tf_options *o, const char *arg)
{
    char shown[3] = {'-', arg[1], '\0'};
    int index = find_letter(o->table, arg[1]);
    if (index < 0) {
        (void)tf_usage(o->command, "unknown option %s", shown);
        return fail(o);
    }
    return take_value(o, index, arg[2] != '\0' ? arg + 2 : NULL, shown);
}

static bool operand(tf_options *o, const char *arg)
{
    if (o->operand_count >= (int)(sizeof(o->operands) / sizeof(o->operands[0]))) {
        (void)tf_usage(o->command, "too many arguments, from '%s' on", arg);
        o->failed = true;
        return false;
    }
    o->operands[o->operand_count++] = arg;
    return true;
}

int tf_options_next(tf_options *o)
{
    while (o->at < o->argc && !o->failed) {
        const char *arg = o->argv[o->at++];
        if (!o->only_operands && strcmp(arg, "--") == 0) {
            o->only_operands = true;
        } else if (o->only_operands || arg[0] != '-' || arg[1] == '\0') {
            if (!operand(o, arg)) {
                return -1;
            }
        } else {
            return arg[1] == '-' ? long_option(o, arg) : short_option(o, arg);
        }
    }
    return -1;
}

void tf_options_print(const tf_option *table, FILE *out)
{
    for (int i = 0; !is_end(&table[i]); i++) {
        char left[64];
        char letter[4] = "";
        if (table[i].letter != '\0') {
            (void)snprintf(letter, sizeof(letter), "-%c", table[i].letter);
        }
        (void)snprintf(left, sizeof(left), "%s%s%s%s%s%s", letter,
                       table[i].letter != '\0' && table[i].name != NULL ? ", " : "",
                       table[i].name != NULL ? "--" : "", table[i].name != NULL ? table[i].name : "",
                       table[i].value != NULL ? " " : "", table[i].value != NULL ? table[i].value : "");
        (void)fprintf(out, "  %-28s %s\n", left, table[i].help);
    }
}

bool tf_value_count(const tf_options *o, const char *name, uint64_t low, uint64_t high, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(o->value, &end, 10);
    bool digits = o->value[0] >= '0' && o->value[0] <= '9';
    if (!digits || *end != '\0' || errno != 0 || value < low || value > high) {
        (void)tf_usage(o->command, "%s: '%s' is not a whole number from %llu to %llu", name, o->value,
                       (unsigned long long)low, (unsigned long long)high);
        return false;
    }
    *out = value;
    return true;
}

bool tf_value_seconds(const tf_options *o, const char *name, tf_time *out)
{
    char *end = NULL;
    double seconds = strtod(o->value, &end);
    if (end == o->value || *end != '\0' || !(seconds > 0) || seconds > 1e9) {
        (void)tf_usage(o->command, "%s: '%s' is not a number of seconds above 0", name, o->value);
        return false;
    }
    *out = (tf_time)(seconds * (double)TF_SECOND);
    return true;
}

bool tf_value_duration(const tf_options *o, const char *name, tf_time *out)
{
    char *end = NULL;
    errno = 0;
    unsigned long long seconds = strtoull(o->value, &end, 10);
    bool plain = o->value[0] >= '0' && o->value[0] <= '9' && *end == '\0' && errno == 0 && seconds < 1000000000;
    tf_err err = TF_OK;
    if (plain) {
        *out = seconds * TF_SECOND; /* as with -W */
    } else {
        err = tf_duration_parse(out, tf_slice_str(o->value));
    }
    if (err != TF_OK || *out == 0) {
        (void)tf_usage(o->command, "%s: '%s' is not a duration above 0; such as 500ms, 10s (or 10), 5m or 1h", name, o->value);
        return false;
    }
    return true;
}

bool tf_value_size(const tf_options *o, const char *name, uint64_t high, uint64_t *out)
{
    if (tf_size_parse(out, tf_slice_str(o->value)) != TF_OK || *out > high) {
        (void)tf_usage(o->command, "%s: '%s' is not a size up to %llu bytes; such as 128, 4KiB or 1MB", name, o->value,
                       (unsigned long long)high);
        return false;
    }
    return true;
}
