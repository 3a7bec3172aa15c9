/* The inside of the configuration: what is known about its keys (config_keys.c), how a file is read (config_parse.c,
 * config_section.c), and what its values have to do with each other (config_check.c). */
#ifndef TF_NODE_CONFIG_INTERNAL_H
#define TF_NODE_CONFIG_INTERNAL_H

#include "node/config.h"

typedef enum config_section {
    CONFIG_NODE,
    CONFIG_LISTEN,
    CONFIG_PEER,
    CONFIG_CHANNEL,
    CONFIG_STORE,
    CONFIG_LIMITS,
    CONFIG_LOG,
    CONFIG_SECTIONS
} config_section;

typedef enum config_type {
    CONFIG_TYPE_PATH,
    CONFIG_TYPE_ACCEPT,
    CONFIG_TYPE_LISTEN,
    CONFIG_TYPE_NODE_ID,
    CONFIG_TYPE_URI,
    CONFIG_TYPE_BOOL,
    CONFIG_TYPE_COPY, /* tf_routes; max: the route */
    CONFIG_TYPE_STORE_KIND,
    CONFIG_TYPE_ACCESS,
    CONFIG_TYPE_COUNT, /* uint32_t */
    CONFIG_TYPE_COUNT64,
    CONFIG_TYPE_SIZE,  /* uint32_t */
    CONFIG_TYPE_SIZE64,
    CONFIG_TYPE_DURATION,
    CONFIG_TYPE_LEVEL,
    CONFIG_TYPE_FORMAT
} config_type;

typedef struct config_key {
    const char *name;
    config_section section;
    config_type type;
    size_t offset; /* in tf_config; of CONFIG_PEER in tf_config_peer, of CONFIG_CHANNEL in tf_config_channel */
    uint64_t min;  /* of numbers, sizes and durations */
    uint64_t max;
} config_key;

#define CONFIG_KEYS_MAX 48u
#define CONFIG_NUMBER_MAX 64u /* room for a number with its unit and a NUL */
#define CONFIG_VALUE_MAX 5120u
#define CONFIG_HEAD_MAX 256u /* of a section, between its brackets */
#define CONFIG_WORD_MAX 64u

/* The lines where a section begins and where its keys are. 0: not there. */
typedef struct config_lines {
    unsigned head;
    unsigned keys[CONFIG_KEYS_MAX]; /* as tf_config_keys counts */
} config_lines;

typedef struct config_parser {
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
    char head[CONFIG_HEAD_MAX]; /* that head */

    bool in_section; /* a known one */
    config_section section;
    config_lines lines; /* of the sections that have no name */
    config_lines *peer_lines;    /* of each peer */
    config_lines *channel_lines; /* of each channel */

    char name[CONFIG_WORD_MAX]; /* the pair that is being put together */
    char value[CONFIG_VALUE_MAX];
    size_t value_len;
    unsigned pair_line; /* 0: none */
    bool too_long;
} config_parser;

const config_key *tf_config_keys(size_t *count);

/* Sets one key. `record` is the tf_config, the tf_config_peer or the tf_config_channel. TF_ERR_USAGE: why; NOMEM. */
TF_MUST_CHECK tf_err tf_config_set(const config_key *key, tf_config *config, void *record, tf_slice value,
                                   char why[TF_WHY_MAX]);

/* The entry of `names` that looks most like `name`, or NULL when none does. */
const char *tf_config_nearest(const char *name, const char *const *names, size_t count);

/* A number, size or duration as people write it: in the largest unit that leaves no rest. */
const char *tf_config_number(char out[CONFIG_NUMBER_MAX], config_type type, uint64_t value);

/* A new one at the end, zeroed; NULL: no memory. */
tf_config_peer *tf_config_add_peer(tf_config *config);
tf_config_channel *tf_config_add_channel(tf_config *config);

/* Without the blanks around it. */
tf_slice tf_config_trim(tf_slice text);
/* One more error. */
void tf_config_complain(config_parser *p, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A section begins on p->line, with p->head. */
void tf_config_begin_section(config_parser *p);
const char *tf_config_section_name(config_section section);

/* What a whole file has to fulfil, once each line is right. */
void tf_config_check(config_parser *p);

#endif
