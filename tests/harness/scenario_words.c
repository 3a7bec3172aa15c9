/* Words and numbers of a scenario's lines. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/harness/scenario_internal.h"

typedef struct unit {
    const char *suffix;
    uint64_t scale;
} unit;

#define UNITS_MAX 7

static const struct {
    const char *example;
    unit units[UNITS_MAX];
} kinds[] = {
    [TF_UNIT_NONE] = {"nothing", {{NULL, 0}}},
    [TF_UNIT_TIME] = {"a duration such as 250ms, 1.5s or 2m",
                      {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"min", 60000000}, {"h", 3600000000}}},
    [TF_UNIT_PERCENT] = {"a percentage such as 5%", {{"%", 10000}}},
    [TF_UNIT_BITS] = {"a rate such as 300kbit or 10mbit", {{"kbit", 1000}, {"mbit", 1000000}, {"gbit", 1000000000}}},
    [TF_UNIT_BYTES] = {"a size such as 200, 64KiB or 1MB",
                       {{"", 1}, {"B", 1}, {"kB", 1000}, {"KiB", 1024}, {"MB", 1000000}, {"MiB", 1048576}}},
    [TF_UNIT_COUNT] = {"a number", {{"", 1}}},
    [TF_UNIT_PER_SECOND] = {"a rate such as 500/s", {{"/s", 1000}}},
};

const char *tf_scenario_unit_example(tf_scenario_unit which)
{
    return kinds[which].example;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static uint64_t scale_of(const char *suffix, tf_scenario_unit which)
{
    for (size_t i = 0; i < UNITS_MAX && kinds[which].units[i].suffix != NULL; i++) {
        if (tf_scenario_is_word(suffix, kinds[which].units[i].suffix)) {
            return kinds[which].units[i].scale;
        }
    }
    return 0;
}

bool tf_scenario_number(const char *word, tf_scenario_unit which, uint64_t *out)
{
    uint64_t whole = 0;
    const char *at = word;
    if (!is_digit(*at)) {
        return false;
    }
    for (; is_digit(*at); at++) {
        if (whole > UINT64_C(100000000000)) {
            return false;
        }
        whole = 10 * whole + (uint64_t)(*at - '0');
    }
    const char *fraction = at;
    if (*at == '.') {
        fraction = ++at;
        while (is_digit(*at)) {
            at++;
        }
        if (at == fraction) {
            return false;
        }
    }
    uint64_t scale = scale_of(at, which);
    bool is_bare_zero = whole == 0 && *at == '\0';
    if (scale == 0 && !is_bare_zero) {
        return false;
    }
    uint64_t part = scale;
    *out = scale == 0 ? 0 : whole > UINT64_MAX / 2 / scale ? UINT64_MAX : whole * scale;
    for (; *out != UINT64_MAX && is_digit(*fraction); fraction++) {
        part /= 10;
        *out += part * (uint64_t)(*fraction - '0');
    }
    return true;
}

bool tf_scenario_is_word(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

const char *tf_scenario_peek(const tf_scenario_parser *p)
{
    return p->at < p->count ? p->words[p->at] : "";
}

const char *tf_scenario_next(tf_scenario_parser *p)
{
    return p->at < p->count ? p->words[p->at++] : "";
}

bool tf_scenario_take(tf_scenario_parser *p, const char *word)
{
    bool is_it = p->at < p->count && tf_scenario_is_word(p->words[p->at], word);
    p->at += is_it ? 1 : 0;
    return is_it;
}

void tf_scenario_error(tf_scenario_parser *p, const char *format, ...)
{
    tf_scenario_errors *errors = p->errors;
    if (errors->count < TF_SCENARIO_ERRORS_MAX) {
        va_list arguments;
        va_start(arguments, format);
        errors->list[errors->count].line = p->line;
        (void)vsnprintf(errors->list[errors->count].text, TF_SCENARIO_ERROR_TEXT_MAX, format, arguments);
        va_end(arguments);
    }
    errors->count++;
}

/* A bound as its users would write it: in the largest unit that it is whole in. */
static void tell_bound(tf_scenario_parser *p, const char *what, const char *word, tf_scenario_unit which, uint64_t bound,
                       bool is_least)
{
    const unit *units = kinds[which].units;
    size_t best = 0;
    for (size_t i = 1; i < UNITS_MAX && units[i].suffix != NULL; i++) {
        best = bound % units[i].scale == 0 ? i : best;
    }
    tf_scenario_error(p, "%s %s: too %s; %" PRIu64 "%s is the %s", what, word, is_least ? "small" : "large",
                      bound / units[best].scale, units[best].suffix, is_least ? "least" : "most");
}

bool tf_scenario_take_number(tf_scenario_parser *p, const char *what, tf_scenario_unit which, const uint64_t range[2],
                             uint64_t *out)
{
    const char *word = tf_scenario_next(p);
    if (*word == '\0') {
        tf_scenario_error(p, "%s: needs %s behind it", what, kinds[which].example);
        return false;
    }
    if (!tf_scenario_number(word, which, out)) {
        tf_scenario_error(p, "%s %s: needs %s", what, word, kinds[which].example);
        return false;
    }
    if (*out < range[0] || *out > range[1]) {
        bool is_low = *out < range[0];
        tell_bound(p, what, word, which, range[is_low ? 0 : 1], is_low);
        return false;
    }
    return true;
}

bool tf_scenario_name(tf_scenario_parser *p, const char *what, const char *word, char out[TF_SCENARIO_NAME_MAX])
{
    size_t len = strlen(word);
    size_t good = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./");
    if (len == 0 || len >= TF_SCENARIO_NAME_MAX || good != len) {
        tf_scenario_error(p, "%s '%.40s': needs a name of 1 to %u letters, digits and -_./", what, word,
                          TF_SCENARIO_NAME_MAX - 1);
        return false;
    }
    memcpy(out, word, len + 1);
    return true;
}

uint32_t tf_scenario_node_of(const tf_scenario *s, const char *name)
{
    for (uint32_t i = 0; i < s->node_count; i++) {
        if (tf_scenario_is_word(s->nodes[i].name, name)) {
            return i;
        }
    }
    return UINT32_MAX;
}

tf_routes tf_scenario_routes_of(const char *word)
{
    return tf_scenario_is_word(word, "stream")     ? TF_ROUTES_STREAM
           : tf_scenario_is_word(word, "datagram") ? TF_ROUTES_DATAGRAM
           : tf_scenario_is_word(word, "both")     ? TF_ROUTES_BOTH
                                                   : 0;
}

void tf_scenario_line_end(tf_scenario_parser *p)
{
    if (p->at < p->count) {
        tf_scenario_error(p, "'%.60s': nothing is expected here", p->words[p->at]);
    }
}
