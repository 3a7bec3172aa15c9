/* The configuration file: read once, validated whole, then constant. Every error is found and told, with its line and
 * the nearest known key; a file with any error gives no config at all. Any thread.
 *
 *     [node]     data = DIR, key = FILE, accept = pinned | any
 *     [listen]   address = HOST:PORT (may be repeated)
 *     [peer "name"]  key = NODEID, uri = twofold://..., relay = yes | no, stream_copy, datagram_copy = always | standby
 *     [channel "PATTERN"]  max_age, max_bytes, max_count, dedup_age: how long messages and client ids are kept (S12, S2);
 *                read, write = any, or names of peers, separated by blanks or commas. The first section whose pattern
 *                matches a channel's name counts, and only that one; * stands for any bytes, ? for one. Once any section
 *                names read or write, what no section allows is forbidden (tf_config_has_rights).
 *     [store]    kind = disk | memory, segment_size, log_size
 *     [limits]   max_in_flight, max_message, window_bytes, window_segments, session_timeout, keepalive, rehandshake,
 *                peers, handshakes, channels, rate, rate_bytes, store_bytes, key_phase_packets
 *     [log]      level = error | warn | info | debug, format = logfmt | json
 *
 * Durations: 250ms 10s 5m 1h 7d; sizes: 512B 16KiB 4MiB 1GiB kB MB GB, or a plain number of bytes. */
#ifndef TF_NODE_CONFIG_H
#define TF_NODE_CONFIG_H

#include "node/log.h"
#include "node/uri.h"
#include "proto/limits.h"
#include "proto/types.h"

#define TF_CONFIG_LISTEN_MAX 16u
#define TF_CONFIG_NAME_MAX 40u
#define TF_CONFIG_CHANNELS_MAX 1024u /* sections */
#define TF_CONFIG_FILE_MAX ((size_t)1024 * 1024)
#define TF_CONFIG_ERRORS_MAX 64u /* more are counted, not told */
#define TF_CONFIG_PATH_MAX 4096u
#define TF_CONFIG_TEXT_MAX 512u

typedef enum tf_accept { TF_ACCEPT_PINNED, TF_ACCEPT_ANY } tf_accept;

typedef struct tf_config_peer {
    char name[TF_CONFIG_NAME_MAX + 1];
    tf_node_id key;
    bool has_uri; /* it is dialled */
    tf_uri uri;
    bool relay;        /* may name other origins (S1) */
    tf_routes standby; /* routes by which our copies go to it only while no other one flows, its uri's among them */
} tf_config_peer;

typedef struct tf_config_limits {
    uint32_t max_in_flight;
    uint32_t max_message;
    uint32_t window_bytes;
    uint32_t window_segments;
    tf_time session_timeout;
    tf_time keepalive;
    tf_time rehandshake;
    uint32_t peers;
    uint32_t handshakes;
    uint32_t channels;
    uint32_t rate;       /* sends a second of one origin; 0: no limit */
    uint32_t rate_bytes; /* their bytes; 0: no limit */
    uint64_t store_bytes; /* of the store in memory */
    uint32_t key_phase_packets;
} tf_config_limits;

typedef enum tf_config_store_kind { TF_CONFIG_STORE_DISK, TF_CONFIG_STORE_MEMORY } tf_config_store_kind;

typedef struct tf_config_store {
    tf_config_store_kind kind;
    uint64_t segment_size; /* of the commit log: a multiple of 4096 */
    uint64_t log_size;     /* all its segments; 0: nothing was said */
} tf_config_store;

/* Who may do it, of those that are let in at all. */
typedef struct tf_config_access {
    char *text; /* as it was written; NULL: nothing was said */
    bool any;
    uint32_t *peers; /* count of them, indices of config->peers, in the order of the text */
    size_t count;
} tf_config_access;

/* Of retention 0 means: nothing was said. */
typedef struct tf_config_channel {
    char pattern[TF_CHANNEL_NAME_MAX + 1];
    tf_time max_age;
    uint64_t max_bytes;
    uint64_t max_count;
    tf_time dedup_age;
    tf_config_access read;
    tf_config_access write;
} tf_config_channel;

/* Paths are "" where nothing was said: the caller's defaults (node/keyfile). */
typedef struct tf_config {
    char data[TF_CONFIG_PATH_MAX];
    char key[TF_CONFIG_PATH_MAX];
    tf_accept accept;
    tf_endpoint listen[TF_CONFIG_LISTEN_MAX];
    size_t listen_count;
    tf_config_peer *peers; /* peer_count of them */
    size_t peer_count;
    tf_config_channel *channels; /* channel_count of them, in the order of the file */
    size_t channel_count;
    tf_config_store store;
    tf_config_limits limits;
    tf_log_level log_level;
    tf_log_format log_format;
} tf_config;

typedef struct tf_config_errors {
    size_t count; /* of those below */
    size_t more;  /* found beyond them */
    struct tf_config_error {
        unsigned line;                 /* 0: the whole file */
        char text[TF_CONFIG_TEXT_MAX]; /* "FILE:LINE: what is wrong, what would be right" */
    } list[TF_CONFIG_ERRORS_MAX];
} tf_config_errors;

/* The defaults. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_config_new(tf_config **out);
/* NULL is fine. */
void tf_config_free(tf_config *config);

/* Reads a file. TF_ERR_USAGE: *errors says why; TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_config_load(tf_config **out, const char *path, tf_config_errors *errors);
/* The same from text; `path` is only what errors call it. */
TF_MUST_CHECK tf_err tf_config_parse(tf_config **out, const char *path, const char *text, tf_config_errors *errors);

/* Lets a key in without a section of its own (--allow). A key that is there already is left as it is. TF_ERR_NOMEM,
 * TF_ERR_LIMIT_ITEMS. */
TF_MUST_CHECK tf_err tf_config_allow(tf_config *config, const tf_node_id *key);

/* The peer with this key, or NULL. */
const tf_config_peer *tf_config_find_peer(const tf_config *config, const tf_node_id *key);

/* Some [channel] section names read or write: what no section allows is forbidden. Else everything is allowed. */
bool tf_config_has_rights(const tf_config *config);

/* "250ms" and so on, "4MiB" and so on; also for flags of the command line. TF_ERR_USAGE. */
TF_MUST_CHECK tf_err tf_duration_parse(tf_time *out, tf_slice text);
TF_MUST_CHECK tf_err tf_size_parse(uint64_t *out, tf_slice text);

#endif
