/* The inside of the configuration: what is known about its keys (config_keys.c), and how a file is read
 * (config_parse.c). */
#ifndef TF_NODE_CONFIG_INTERNAL_H
#define TF_NODE_CONFIG_INTERNAL_H

#include "node/config.h"

typedef enum config_section {
    CONFIG_NODE,
    CONFIG_LISTEN,
    CONFIG_PEER,
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
    CONFIG_TYPE_COUNT, /* uint32_t */
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
    size_t offset; /* in tf_config; of CONFIG_PEER in tf_config_peer */
    uint64_t min;  /* of numbers, sizes and durations */
    uint64_t max;
} config_key;

#define CONFIG_KEYS_MAX 32u

const config_key *tf_config_keys(size_t *count);

/* Sets one key. `record` is the tf_config or the tf_config_peer. TF_ERR_USAGE: why. */
TF_MUST_CHECK tf_err tf_config_set(const config_key *key, tf_config *config, void *record, tf_slice value,
                                   char why[TF_WHY_MAX]);

/* The entry of `names` that looks most like `name`, or NULL when none does. */
const char *tf_config_nearest(const char *name, const char *const *names, size_t count);

/* A new peer at the end, zeroed; NULL: no memory. */
tf_config_peer *tf_config_add_peer(tf_config *config);

#endif
