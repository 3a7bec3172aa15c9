/* What the files of the scenario's parser share. */
#ifndef TF_TESTS_HARNESS_SCENARIO_INTERNAL_H
#define TF_TESTS_HARNESS_SCENARIO_INTERNAL_H

#include "tests/harness/scenario.h"

#define TF_SCENARIO_WORDS_MAX 48u
#define TF_SCENARIO_ALL UINT32_MAX /* clients */

typedef enum tf_scenario_section {
    TF_SECTION_NONE,
    TF_SECTION_SCENARIO,
    TF_SECTION_NODES,
    TF_SECTION_TRAFFIC,
    TF_SECTION_ROUTE,
    TF_SECTION_TIMELINE,
    TF_SECTION_EXPECT,
    TF_SECTION_BAD /* its lines say nothing more */
} tf_scenario_section;

typedef struct tf_scenario_parser {
    tf_scenario *s;
    tf_scenario_errors *errors;
    unsigned line;
    tf_scenario_section section;
    tf_routes routes; /* of a [route] section */
    uint32_t client;
    char text[TF_SCENARIO_LINE_MAX]; /* of the line, cut up */
    char *words[TF_SCENARIO_WORDS_MAX];
    size_t count;
    size_t at; /* the next word */
} tf_scenario_parser;

/* What a number counts. */
typedef enum tf_scenario_unit {
    TF_UNIT_NONE,    /* no number */
    TF_UNIT_TIME,    /* us */
    TF_UNIT_PERCENT, /* millionths */
    TF_UNIT_BITS,    /* a second */
    TF_UNIT_BYTES,
    TF_UNIT_COUNT,
    TF_UNIT_PER_SECOND /* thousandths */
} tf_scenario_unit;

/* A word as a number with its unit; false: it is none. */
bool tf_scenario_number(const char *word, tf_scenario_unit unit, uint64_t *out);
/* How such a number is written. */
const char *tf_scenario_unit_example(tf_scenario_unit unit);

/* The next word, "" when there is none; it is used up. */
const char *tf_scenario_next(tf_scenario_parser *p);
/* The same, but it stays the next. */
const char *tf_scenario_peek(const tf_scenario_parser *p);
/* Uses up the next word if it is that one. */
bool tf_scenario_take(tf_scenario_parser *p, const char *word);
bool tf_scenario_is_word(const char *a, const char *b);

__attribute__((format(printf, 2, 3))) void tf_scenario_error(tf_scenario_parser *p, const char *format, ...);
/* The next word as a number from min to max, after `what`; else an error, and false. */
bool tf_scenario_take_number(tf_scenario_parser *p, const char *what, tf_scenario_unit unit, const uint64_t range[2],
                             uint64_t *out);
/* Copies a name of letters, digits, `-`, `_`, `.`, `/`; else an error, and false. */
bool tf_scenario_name(tf_scenario_parser *p, const char *what, const char *word, char out[TF_SCENARIO_NAME_MAX]);
/* The node of that name, or UINT32_MAX and no error. */
uint32_t tf_scenario_node_of(const tf_scenario *s, const char *name);
/* "stream", "datagram" or "both"; 0: none of them. */
tf_routes tf_scenario_routes_of(const char *word);
/* An error unless the line is used up. */
void tf_scenario_line_end(tf_scenario_parser *p);

/* One line of that section. */
void tf_scenario_parse_node(tf_scenario_parser *p);
void tf_scenario_parse_traffic(tf_scenario_parser *p);
void tf_scenario_parse_baseline(tf_scenario_parser *p);
void tf_scenario_parse_timeline(tf_scenario_parser *p);
void tf_scenario_parse_expect(tf_scenario_parser *p);

#endif
