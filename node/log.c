#include "node/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "handshake/node_id.h"

#define FINGERPRINT_LEN 8u
#define PROBES 8u   /* places where a bucket may be */
#define EVENTS 256u /* buckets of events about nobody; more than there are events in the code */

/* How often an event was seen about one peer. */
typedef struct bucket {
    const char *event; /* NULL: unused. Literals: the same event need not have the same address */
    bool has_peer;
    tf_node_id peer;
    tf_log_level level;
    unsigned written;    /* since the last summary */
    uint64_t suppressed; /* since the last summary */
    tf_time due;         /* of the summary; then the counting begins anew */
} bucket;

struct tf_log {
    tf_log_config config;
    tf_time next_due;               /* the earliest of the buckets'; TF_NEVER */
    bucket buckets[TF_LOG_BUCKETS]; /* of known peers: whoever fills them shares those below */
    bucket events[EVENTS];
};

/* -- names --------------------------------------------------------------------------------------------------------- */

const char *tf_log_level_name(tf_log_level level)
{
    switch (level) {
    case TF_LOG_ERROR:
        return "error";
    case TF_LOG_WARN:
        return "warn";
    case TF_LOG_INFO:
        return "info";
    case TF_LOG_DEBUG:
        return "debug";
    }
    TF_UNREACHABLE();
}

const char *tf_log_format_name(tf_log_format format)
{
    switch (format) {
    case TF_LOG_LOGFMT:
        return "logfmt";
    case TF_LOG_JSON:
        return "json";
    }
    TF_UNREACHABLE();
}

tf_err tf_log_level_parse(tf_log_level *out, tf_slice text)
{
    for (int i = TF_LOG_ERROR; i <= TF_LOG_DEBUG; i++) {
        if (tf_slice_eq(text, tf_slice_str(tf_log_level_name((tf_log_level)i)))) {
            *out = (tf_log_level)i;
            return TF_OK;
        }
    }
    return TF_ERR_USAGE;
}

tf_err tf_log_format_parse(tf_log_format *out, tf_slice text)
{
    for (int i = TF_LOG_LOGFMT; i <= TF_LOG_JSON; i++) {
        if (tf_slice_eq(text, tf_slice_str(tf_log_format_name((tf_log_format)i)))) {
            *out = (tf_log_format)i;
            return TF_OK;
        }
    }
    return TF_ERR_USAGE;
}

/* Of syslog, as the journal reads them. */
static int priority_of(tf_log_level level)
{
    switch (level) {
    case TF_LOG_ERROR:
        return 3;
    case TF_LOG_WARN:
        return 4;
    case TF_LOG_INFO:
        return 6;
    case TF_LOG_DEBUG:
        return 7;
    }
    TF_UNREACHABLE();
}

/* -- a line -------------------------------------------------------------------------------------------------------- */

/* Room is kept at the end for what closes a line. */
#define TAIL 8u

typedef struct line {
    char text[TF_LOG_LINE_MAX];
    size_t len;
    tf_log_format format;
    bool full;
} line;

/* All or nothing, so that what is cut is cut between values. */
static void put(line *l, const char *text, size_t len)
{
    if (l->full || len > sizeof(l->text) - TAIL - l->len) {
        l->full = true;
        return;
    }
    memcpy(l->text + l->len, text, len);
    l->len += len;
}

static void put_str(line *l, const char *text)
{
    put(l, text, strlen(text));
}

static void put_key(line *l, const char *key)
{
    if (l->format == TF_LOG_JSON) {
        put_str(l, l->len > 0 && l->text[l->len - 1] != '{' ? ",\"" : "\"");
        put_str(l, key);
        put_str(l, "\":");
        return;
    }
    if (l->len > 0 && l->text[l->len - 1] != '>') {
        put_str(l, " ");
    }
    put_str(l, key);
    put_str(l, "=");
}

/* The length of the UTF-8 sequence that text begins with, 0 when it is none (RFC 3629) or a control character. */
static size_t utf8_len(tf_slice text)
{
    uint8_t c = text.data[0];
    if (c >= 0x20 && c < 0x7f) {
        return 1;
    }
    size_t len = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
    if (len == 0 || text.len < len) {
        return 0;
    }
    for (size_t i = 1; i < len; i++) {
        if ((text.data[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    uint8_t second = text.data[1];
    bool bad = (c == 0xc2 && second < 0xa0) /* C1 controls */ || (c == 0xe0 && second < 0xa0) ||
               (c == 0xed && second > 0x9f) || (c == 0xf0 && second < 0x90) || (c == 0xf4 && second > 0x8f);
    return bad ? 0 : len;
}

static bool needs_quotes(tf_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c >= 0x7f) {
            return true;
        }
    }
    return text.len == 0;
}

/* Escaped as in JSON, which readers of logfmt understand; bytes that are no text become U+FFFD. */
static size_t put_escaped(line *l, tf_slice rest)
{
    char escape[8];
    uint8_t c = rest.data[0];
    size_t len = utf8_len(rest);
    if (c == '"' || c == '\\') {
        escape[0] = '\\';
        escape[1] = (char)c;
        put(l, escape, 2);
        return 1;
    }
    if (len > 0) {
        put(l, (const char *)rest.data, len);
        return len;
    }
    if (c == '\n' || c == '\t' || c == '\r') {
        put_str(l, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
    } else if (c < 0x80) {
        (void)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)c);
        put(l, escape, 6);
    } else {
        put_str(l, "\xef\xbf\xbd");
    }
    return 1;
}

static void put_text(line *l, tf_slice text)
{
    bool quotes = l->format == TF_LOG_JSON || needs_quotes(text);
    bool cut = text.len > TF_LOG_VALUE_MAX;
    size_t end = cut ? TF_LOG_VALUE_MAX : text.len;
    put(l, "\"", quotes ? 1 : 0);
    for (size_t at = 0; at < end;) {
        at += put_escaped(l, tf_slice_of(text.data + at, text.len - at));
    }
    put_str(l, cut ? "..." : "");
    put(l, "\"", quotes ? 1 : 0);
}

static void put_field(line *l, const tf_log_field *field)
{
    char text[TF_ADDRESS_TEXT_MAX + TF_NODE_ID_TEXT_LEN];
    put_key(l, field->key);
    switch (field->type) {
    case TF_LOG_TEXT:
        put_text(l, field->value.text);
        return;
    case TF_LOG_UINT:
        (void)snprintf(text, sizeof(text), "%" PRIu64, field->value.number);
        put_str(l, text);
        return;
    case TF_LOG_INT:
        (void)snprintf(text, sizeof(text), "%" PRId64, field->value.integer);
        put_str(l, text);
        return;
    case TF_LOG_BOOL:
        put_str(l, field->value.flag ? "true" : "false");
        return;
    case TF_LOG_ADDRESS:
        put_text(l, tf_slice_str(tf_address_format(field->value.address, text)));
        return;
    case TF_LOG_NODE:
        tf_node_id_format(field->value.node, text);
        put_text(l, tf_slice_str(text));
        return;
    }
    TF_UNREACHABLE();
}

static void put_time(line *l, int64_t wall_ms)
{
    char text[40];
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm tm;
    if (gmtime_r(&seconds, &tm) == NULL) {
        memset(&tm, 0, sizeof(tm));
    }
    size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(text + len, sizeof(text) - len, ".%03dZ", (int)(wall_ms % 1000));
    put_key(l, "time");
    put_text(l, tf_slice_str(text));
}

/* "name:fingerprint", or the fingerprint alone. */
static void put_peer(line *l, const char *name, const tf_node_id *id)
{
    char text[128];
    char node[TF_NODE_ID_TEXT_LEN + 1];
    bool named = name != NULL && name[0] != '\0';
    tf_node_id_format(id, node);
    node[FINGERPRINT_LEN] = '\0';
    (void)snprintf(text, sizeof(text), "%.100s%s%s", named ? name : "", named ? ":" : "", node);
    put_key(l, "peer");
    put_text(l, tf_slice_str(text));
}

static void line_begin(line *l, const tf_log *log, tf_log_level level, const char *event)
{
    l->len = 0;
    l->full = false;
    l->format = log->config.format;
    if (log->config.priorities) {
        char prefix[8];
        (void)snprintf(prefix, sizeof(prefix), "<%d>", priority_of(level));
        put_str(l, prefix);
    }
    if (l->format == TF_LOG_JSON) {
        put_str(l, "{");
    }
    put_time(l, log->config.wall_ms());
    put_key(l, "level");
    put_text(l, tf_slice_str(tf_log_level_name(level)));
    put_key(l, "event");
    put_text(l, tf_slice_str(event));
}

/* One write, so that lines of several processes on one pipe do not mix. A log that nobody takes is no reason to stop. */
static void line_end(line *l, const tf_log *log)
{
    if (l->format == TF_LOG_JSON) {
        l->text[l->len++] = '}'; /* TAIL has the room */
    }
    l->text[l->len++] = '\n';
    const char *at = l->text;
    size_t left = l->len;
    while (left > 0) {
        ssize_t done = write(log->config.fd, at, left);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return;
        }
        at += done;
        left -= (size_t)done;
    }
}

/* A field that does not fit is left out whole. */
static void put_whole(line *l, const tf_log_field *field)
{
    size_t before = l->len;
    put_field(l, field);
    if (l->full) {
        l->len = before;
        l->full = false;
    }
}

/* -- limits -------------------------------------------------------------------------------------------------------- */

static size_t hash_of(const char *event, const tf_log_peer *peer)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a; whoever finds colliding keys only shares limits with himself */
    for (; *event != '\0'; event++) {
        hash = (hash ^ (uint8_t)*event) * 1099511628211u;
    }
    for (size_t i = 0; peer != NULL && i < TF_NODE_ID_LEN; i++) {
        hash = (hash ^ peer->id.bytes[i]) * 1099511628211u;
    }
    return (size_t)(hash ^ hash >> 32);
}

static bool is_of(const bucket *b, const char *event, const tf_log_peer *peer)
{
    return b->event != NULL && b->has_peer == (peer != NULL) && strcmp(b->event, event) == 0 &&
           (peer == NULL || tf_node_id_eq(&b->peer, &peer->id));
}

/* NULL: there is no place left for a new one. */
static bucket *find(tf_log *log, const char *event, const tf_log_peer *peer)
{
    size_t at = hash_of(event, peer);
    size_t probes = peer != NULL ? PROBES : EVENTS;
    bucket *unused = NULL;
    for (size_t i = 0; i < probes; i++) {
        bucket *b = peer != NULL ? &log->buckets[(at + i) % TF_LOG_BUCKETS] : &log->events[(at + i) % EVENTS];
        if (is_of(b, event, peer)) {
            return b;
        }
        if (b->event == NULL && unused == NULL) {
            unused = b;
        }
    }
    if (unused != NULL) {
        *unused = (bucket){.event = event, .has_peer = peer != NULL};
        unused->due = tf_time_add(log->config.now(), TF_LOG_SUMMARY);
        log->next_due = tf_time_min(log->next_due, unused->due);
        if (peer != NULL) {
            unused->peer = peer->id;
        }
    }
    return unused;
}

/* Whether a line may be written; else it is counted. */
static bool admit(tf_log *log, tf_log_level level, const char *event, const tf_log_peer *peer)
{
    bucket *b = find(log, event, peer);
    if (b == NULL && peer != NULL) {
        b = find(log, event, NULL);
    }
    TF_ASSERT(b != NULL);
    b->level = level;
    if (b->written < TF_LOG_BURST) {
        b->written++;
        return true;
    }
    b->suppressed++;
    return false;
}

static void summarise(tf_log *log, const bucket *b)
{
    line l;
    line_begin(&l, log, b->level, b->event);
    if (b->has_peer) {
        put_peer(&l, NULL, &b->peer);
    }
    const tf_log_field suppressed = tf_log_uint("suppressed", b->suppressed);
    put_whole(&l, &suppressed);
    line_end(&l, log);
}

tf_time tf_log_deadline(const tf_log *log)
{
    return log == NULL ? TF_NEVER : log->next_due;
}

/* A bucket with nothing suppressed is given back; one with a summary counts on from 0, and is given back next time. */
static void bucket_tick(tf_log *log, bucket *b, tf_time now)
{
    if (b->event == NULL || b->due > now) {
        return;
    }
    if (b->suppressed == 0) {
        b->event = NULL;
        return;
    }
    summarise(log, b);
    b->suppressed = 0;
    b->written = 0;
    b->due = tf_time_add(now, TF_LOG_SUMMARY);
}

static void buckets_tick(tf_log *log, bucket *buckets, size_t count, tf_time now)
{
    for (size_t i = 0; i < count; i++) {
        bucket_tick(log, &buckets[i], now);
        if (buckets[i].event != NULL) {
            log->next_due = tf_time_min(log->next_due, buckets[i].due);
        }
    }
}

void tf_log_tick(tf_log *log, tf_time now)
{
    if (log == NULL || now < log->next_due) {
        return;
    }
    log->next_due = TF_NEVER;
    buckets_tick(log, log->buckets, TF_LOG_BUCKETS, now);
    buckets_tick(log, log->events, EVENTS, now);
}

/* -- the log ------------------------------------------------------------------------------------------------------- */

tf_err tf_log_new(tf_log **out, const tf_log_config *config)
{
    tf_log *log = tf_alloc(config->mem, sizeof(*log));
    if (log == NULL) {
        return TF_ERR_NOMEM;
    }
    log->config = *config;
    log->next_due = TF_NEVER;
    *out = log;
    return TF_OK;
}

void tf_log_free(tf_log *log)
{
    if (log == NULL) {
        return;
    }
    tf_log_tick(log, TF_NEVER);
    tf_free(log->config.mem, log, sizeof(*log));
}

void tf_log_set(tf_log *log, tf_log_level level, tf_log_format format)
{
    log->config.level = level;
    log->config.format = format;
}

bool tf_log_is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    uintmax_t device = 0;
    uintmax_t inode = 0;
    struct stat status;
    return stream != NULL && sscanf(stream, "%" SCNuMAX ":%" SCNuMAX, &device, &inode) == 2 &&
           fstat(fd, &status) == 0 && device == (uintmax_t)status.st_dev && inode == (uintmax_t)status.st_ino;
}

void tf_log_write(tf_log *log, tf_log_level level, const char *event, const tf_log_peer *peer,
                  const tf_log_field *fields, size_t count)
{
    line l;
    if (log == NULL || level > log->config.level || !admit(log, level, event, peer)) {
        return;
    }
    line_begin(&l, log, level, event);
    if (peer != NULL) {
        put_peer(&l, peer->name, &peer->id);
    }
    for (size_t i = 0; i < count; i++) {
        put_whole(&l, &fields[i]);
    }
    line_end(&l, log);
}
