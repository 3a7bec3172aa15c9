/* The log: one line an event on stderr, logfmt or JSON. Never payloads, never secrets.
 *
 *     time=2026-01-02T03:04:05.678Z level=info event=route_up peer=alice:q3r7x2aa route=stream srtt_us=812
 *
 * `event` names are stable. Lines are limited per (event, peer): the first 5, then a summary every 30 s with
 * `suppressed=N`. The table of limits is bounded (TF_LOG_BUCKETS); when it is full, events of new peers share one bucket
 * per event. A line is at most TF_LOG_LINE_MAX bytes and written whole; longer values are cut ("...").
 * One thread at a time. */
#ifndef TF_NODE_LOG_H
#define TF_NODE_LOG_H

#include "paths/address.h"
#include "proto/types.h"

#define TF_LOG_LINE_MAX 2048u
#define TF_LOG_VALUE_MAX 512u
#define TF_LOG_BUCKETS 1024u
#define TF_LOG_BURST 5u
#define TF_LOG_SUMMARY (30 * TF_SECOND)

typedef struct tf_log tf_log;

typedef enum tf_log_level { TF_LOG_ERROR, TF_LOG_WARN, TF_LOG_INFO, TF_LOG_DEBUG } tf_log_level;
typedef enum tf_log_format { TF_LOG_LOGFMT, TF_LOG_JSON } tf_log_format;

/* "error" and so on, "logfmt" and so on; TF_ERR_USAGE otherwise. */
TF_MUST_CHECK tf_err tf_log_level_parse(tf_log_level *out, tf_slice text);
TF_MUST_CHECK tf_err tf_log_format_parse(tf_log_format *out, tf_slice text);
const char *tf_log_level_name(tf_log_level level);
const char *tf_log_format_name(tf_log_format format);

typedef struct tf_log_config {
    tf_log_level level;
    tf_log_format format;
    int fd;                   /* STDERR_FILENO; not closed by the log */
    bool priorities;          /* each line begins with <N> for the journal; see tf_log_is_journal */
    tf_time (*now)(void);     /* tf_edge_now */
    int64_t (*wall_ms)(void); /* tf_edge_wall_ms */
    const tf_mem *mem;
} tf_log_config;

TF_MUST_CHECK tf_err tf_log_new(tf_log **out, const tf_log_config *config);
/* Writes the summaries that are due to come, too. NULL is fine. */
void tf_log_free(tf_log *log);
void tf_log_set(tf_log *log, tf_log_level level, tf_log_format format);
/* Whether fd is the journal's (JOURNAL_STREAM of systemd). */
bool tf_log_is_journal(int fd);

/* Whom an event is about. NULL: nobody known; all such lines of one event share one limit. */
typedef struct tf_log_peer {
    const char *name; /* of the config; NULL or "": none */
    tf_node_id id;
} tf_log_peer;

/* Key and value of a line; made by the functions below. Borrowed until the call returns. */
typedef struct tf_log_field {
    const char *key; /* a literal of a-z and _ */
    enum { TF_LOG_TEXT, TF_LOG_UINT, TF_LOG_INT, TF_LOG_BOOL, TF_LOG_ADDRESS, TF_LOG_NODE } type;
    union {
        tf_slice text;
        uint64_t number;
        int64_t integer;
        bool flag;
        const tf_address *address;
        const tf_node_id *node;
    } value;
} tf_log_field;

static inline tf_log_field tf_log_str(const char *key, const char *value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_TEXT, .value.text = tf_slice_str(value)};
}

/* Bytes of any kind, escaped where they are not printable text. */
static inline tf_log_field tf_log_bytes(const char *key, tf_slice value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_TEXT, .value.text = value};
}

static inline tf_log_field tf_log_uint(const char *key, uint64_t value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_UINT, .value.number = value};
}

static inline tf_log_field tf_log_int(const char *key, int64_t value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_INT, .value.integer = value};
}

static inline tf_log_field tf_log_bool(const char *key, bool value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_BOOL, .value.flag = value};
}

static inline tf_log_field tf_log_address(const char *key, const tf_address *value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_ADDRESS, .value.address = value};
}

static inline tf_log_field tf_log_node(const char *key, const tf_node_id *value)
{
    return (tf_log_field){.key = key, .type = TF_LOG_NODE, .value.node = value};
}

/* Writes one line, or counts it. log NULL: nothing (an embedded library that is not to talk). event is a literal of a-z
 * and _. */
void tf_log_write(tf_log *log, tf_log_level level, const char *event, const tf_log_peer *peer,
                  const tf_log_field *fields, size_t count);

/* TF_LOG(log, TF_LOG_INFO, "route_up", &peer, tf_log_str("route", "stream"), tf_log_uint("srtt_us", 812)); */
#define TF_LOG(log, level, event, peer, ...)                                                                           \
    tf_log_write(log, level, event, peer, (const tf_log_field[]){__VA_ARGS__},                                         \
                 sizeof((const tf_log_field[]){__VA_ARGS__}) / sizeof(tf_log_field))

/* A line without fields. */
static inline void tf_log_event(tf_log *log, tf_log_level level, const char *event, const tf_log_peer *peer)
{
    tf_log_write(log, level, event, peer, NULL, 0);
}

/* When summaries are due; TF_NEVER: none. log NULL: TF_NEVER. */
tf_time tf_log_deadline(const tf_log *log);
void tf_log_tick(tf_log *log, tf_time now);

#endif
