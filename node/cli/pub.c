/* pub: sends messages and waits until each is acked. */
#include <stdlib.h>

#include <openssl/sha.h>

#include "node/cli/pub_input.h"
#include "node/cli/pub_spool.h"
#include "node/edge_mem.h"
#include "node/name.h"
#include "proto/limits.h"

#define PUB_COMPLAINTS_MAX 10u

typedef enum pub_ids { PUB_IDS_MADE, PUB_IDS_GIVEN, PUB_IDS_LINE, PUB_IDS_SHA256 } pub_ids;

typedef struct pub {
    tf_cli cli;
    tf_pub_input input;
    tf_pub_spool spool;
    pub_ids ids;
    const char *id;
    const char *meta;
    tf_time expires; /* after it was read; 0: never */
    double rate;    /* messages per second, 0: as fast as they are taken */
    bool full;      /* the window and the queue behind it */
    bool online;
    bool connected; /* once; so that no input at all, too, is only well when the relay was there */
    uint64_t answered;
    uint64_t refused;
    uint64_t unknown;
    tf_time started;
    int code; /* -1: goes on */
} pub;

static const tf_option options[] = {
    {'f', "file", "FILE", "one send per line of FILE instead of stdin"},
    {'0', "null", NULL, "messages end with a NUL byte instead of a newline"},
    {0, "id", "ID", "client id of the one message"},
    {0, "id-from", "HOW", "line: the line is the client id; sha256: its hash is"},
    {0, "count", "N", "make N messages; reads no input"},
    {0, "size", "SIZE", "with --count: pad each to SIZE"},
    {0, "rate", "R", "at most R messages per second"},
    {0, "max-in-flight", "N", "at most N unacked sends (and what the relay announces)"},
    {0, "retry-limit", "DURATION", "give a send up so long after its first refusal, and exit 1 (default: never)"},
    {0, "expires", "DURATION", "a message is not delivered any more so long after it was read"},
    {0, "meta", "TEXT", "goes with each message, beside its body"},
    {0, "spool", "DIR", "keep in DIR what is not acked yet, and send first what an earlier pub left there"},
    {0, "spool-size", "SIZE", "at most so much in DIR (default: 64MiB); no input is read while it is full"},
    TF_CLI_COMMON_OPTIONS,
    TF_CLI_STATS_OPTION,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_pub_options(void)
{
    return options;
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

static bool id_from_value(pub *p, const tf_options *o)
{
    if (strcmp(o->value, "line") == 0) {
        p->ids = PUB_IDS_LINE;
    } else if (strcmp(o->value, "sha256") == 0) {
        p->ids = PUB_IDS_SHA256;
    } else {
        (void)tf_usage("pub", "--id-from: '%s' is neither line nor sha256", o->value);
        return false;
    }
    return true;
}

static bool rate_value(pub *p, const tf_options *o)
{
    char *end = NULL;
    p->rate = strtod(o->value, &end);
    if (end == o->value || *end != '\0' || !(p->rate > 0) || p->rate > 1e9) {
        (void)tf_usage("pub", "--rate: '%s' is not a number of messages per second above 0", o->value);
        return false;
    }
    return true;
}

static bool in_flight_value(pub *p, const tf_options *o)
{
    uint64_t value = 0;
    if (!tf_value_count(o, "--max-in-flight", 1, TF_MAX_IN_FLIGHT_MAX, &value)) {
        return false;
    }
    p->cli.max_in_flight = (uint32_t)value;
    return true;
}

static bool meta_value(pub *p, const tf_options *o)
{
    p->meta = o->value;
    if (p->meta[0] == '\0' || strlen(p->meta) > TF_META_MAX) {
        (void)tf_usage("pub", "--meta: 1 to %u bytes, not %zu", TF_META_MAX, strlen(p->meta));
        return false;
    }
    return true;
}

static bool spool_size_value(pub *p, const tf_options *o)
{
    uint64_t *size = &p->spool.bytes_max;
    if (!tf_value_size(o, "--spool-size", TF_SPOOL_BYTES_MAX, size)) {
        return false;
    }
    if (*size < TF_SPOOL_BYTES_MIN) {
        (void)tf_usage("pub", "--spool-size: '%s' is below the least one, %llu bytes", o->value,
                       (unsigned long long)TF_SPOOL_BYTES_MIN);
        return false;
    }
    return true;
}

static bool number_option(pub *p, const tf_options *o, const char *name)
{
    if (strcmp(name, "count") == 0) {
        p->input.source = TF_PUB_MADE;
        return tf_value_count(o, "--count", 1, UINT64_MAX, &p->input.count);
    }
    if (strcmp(name, "size") == 0) {
        return tf_value_size(o, "--size", TF_BODY_MAX, &p->input.size);
    }
    if (strcmp(name, "rate") == 0) {
        return rate_value(p, o);
    }
    if (strcmp(name, "max-in-flight") == 0) {
        return in_flight_value(p, o);
    }
    if (strcmp(name, "spool-size") == 0) {
        return spool_size_value(p, o);
    }
    if (strcmp(name, "expires") == 0) {
        return tf_value_duration(o, "--expires", &p->expires);
    }
    return tf_value_duration(o, "--retry-limit", &p->cli.retry_limit);
}

static bool one_option(pub *p, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&p->cli, o, option, &ok)) {
        return ok;
    }
    if (strcmp(option->name, "file") == 0) {
        p->input.path = o->value;
    } else if (strcmp(option->name, "null") == 0) {
        p->input.delimiter = '\0';
    } else if (strcmp(option->name, "id") == 0) {
        p->id = o->value;
        p->ids = PUB_IDS_GIVEN;
    } else if (strcmp(option->name, "spool") == 0) {
        p->spool.dir = o->value;
    } else if (strcmp(option->name, "id-from") == 0) {
        return id_from_value(p, o);
    } else if (strcmp(option->name, "meta") == 0) {
        return meta_value(p, o);
    } else {
        return number_option(p, o, option->name);
    }
    return true;
}

static int check(pub *p, const tf_options *o)
{
    if (o->operand_count < 2 || o->operand_count > 3) {
        return tf_usage("pub", "needs a URI and a channel, and perhaps a message: "
                               "twofold pub twofold://NODEID@HOST:PORT CHANNEL [MESSAGE]");
    }
    if (o->operand_count == 3) {
        if (p->input.source == TF_PUB_MADE || p->input.path != NULL) {
            return tf_usage("pub", "a message, -f and --count exclude each other");
        }
        p->input.source = TF_PUB_ONE;
        p->input.message = o->operands[2];
    }
    if (p->input.source == TF_PUB_MADE && p->input.path != NULL) {
        return tf_usage("pub", "-f and --count exclude each other");
    }
    if (p->input.size != 0 && p->input.source != TF_PUB_MADE) {
        return tf_usage("pub", "--size goes with --count");
    }
    if (p->spool.bytes_max != 0 && p->spool.dir == NULL) {
        return tf_usage("pub", "--spool-size goes with --spool");
    }
    if (p->ids == PUB_IDS_GIVEN && p->input.source == TF_PUB_MADE && p->input.count != 1) {
        return tf_usage("pub", "--id names one message, --count makes %llu", (unsigned long long)p->input.count);
    }
    return TF_EXIT_OK;
}

/* -- sending ------------------------------------------------------------------------------------------------------- */

static tf_slice client_id(const pub *p, tf_slice body, char hash[2 * SHA256_DIGEST_LENGTH + 1])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    switch (p->ids) {
    case PUB_IDS_MADE:
        return tf_slice_of(NULL, 0);
    case PUB_IDS_GIVEN:
        return tf_slice_str(p->id);
    case PUB_IDS_LINE:
        return body;
    case PUB_IDS_SHA256:
        (void)SHA256(body.data, body.len, digest);
        for (size_t i = 0; i < sizeof(digest); i++) {
            (void)snprintf(hash + 2 * i, 3, "%02x", digest[i]);
        }
        return tf_slice_str(hash);
    }
    TF_UNREACHABLE();
}

static void bad_id(pub *p, tf_slice id)
{
    p->code = tf_usage("pub", "'%.*s' is not a client id: 1 to %u of A-Z a-z 0-9 . _ : ~ -",
                       (int)(id.len < 200 ? id.len : 200), (const char *)id.data, TF_CLIENT_ID_MAX);
}

static void too_long(pub *p)
{
    tf_complain("pub", "message %llu is longer than %u bytes", (unsigned long long)p->input.taken + 1, TF_BODY_MAX);
    p->code = TF_EXIT_REFUSED;
}

/* False: it was not taken. */
static bool send_one(pub *p, const tf_remote_send_args *send)
{
    tf_err err = tf_remote_send(p->cli.channel, send);
    if (err == TF_OK) {
        return true;
    }
    if (err == TF_ERR_AGAIN) {
        p->full = true;
    } else if (err == TF_ERR_USAGE) {
        bad_id(p, send->client_id);
    } else if (err == TF_ERR_LIMIT_BYTES) {
        too_long(p);
    } else if (err != TF_ERR_CLOSED) { /* closed: the channel was refused, its event comes */
        tf_complain("pub", "%s", tf_err_text(err));
        p->code = TF_EXIT_INTERNAL;
    }
    return false;
}

static bool spool_one(pub *p, const tf_remote_send_args *send)
{
    uint8_t made[TF_CLIENT_ID_MAX];
    tf_spool_message message = {
        .client_id = send->client_id, .meta = send->meta, .body = send->body, .expires_ms = send->expires_ms};
    if (p->ids == PUB_IDS_MADE) {
        message.client_id = tf_slice_of(made, tf_peer_make_client_id(p->cli.peer, made));
    } else if (!tf_client_id_is_valid(send->client_id)) {
        bad_id(p, send->client_id);
        return false;
    }
    if (send->body.len > TF_BODY_MAX) {
        too_long(p);
        return false;
    }
    return tf_pub_spool_put(&p->spool, &message, p->online);
}

/* Takes the message that the input gave. */
static bool take(pub *p, tf_slice body)
{
    char hash[2 * SHA256_DIGEST_LENGTH + 1];
    if (p->ids == PUB_IDS_GIVEN && p->input.taken > 0) {
        p->code = tf_usage("pub", "--id names one message, and there is more than one; --id-from names many");
        return false;
    }
    tf_remote_send_args send = {.client_id = client_id(p, body, hash),
                                .meta = tf_slice_str(p->meta),
                                .body = body,
                                .expires_ms = p->expires == 0 ? 0 : tf_edge_wall_ms() + (int64_t)(p->expires / TF_MS),
                                .cookie = p->input.taken + 1};
    if (p->ids != PUB_IDS_MADE && send.client_id.len == 0) {
        bad_id(p, send.client_id);
        return false;
    }
    if (!(p->spool.dir != NULL ? spool_one(p, &send) : send_one(p, &send))) {
        return false;
    }
    tf_pub_input_take(&p->input);
    return true;
}

/* What is in the spool goes out, as far as there is room for it. */
static void send_spooled(pub *p)
{
    tf_spool_message message;
    while (p->code < 0 && p->online && !p->full && tf_pub_spool_next(&p->spool, &message)) {
        int64_t ago_ms = message.sent_ms == 0 ? 0 : tf_edge_wall_ms() - message.sent_ms;
        tf_remote_send_args send = {.client_id = message.client_id,
                                    .meta = message.meta,
                                    .body = message.body,
                                    .expires_ms = message.expires_ms,
                                    .was_sent = message.sent_ms != 0,
                                    .sent_ago = ago_ms < 0 ? 0 : (tf_time)ago_ms * TF_MS,
                                    .cookie = message.number};
        if (!send_one(p, &send)) {
            return;
        }
        tf_spool_take(p->spool.spool);
    }
}

/* When the next message is due: a rate counts from the connection on, or what waited for it would come in a burst. */
static tf_time due(const pub *p)
{
    if (p->rate <= 0) {
        return 0;
    }
    return p->connected ? p->started + (tf_time)((double)p->input.taken * (double)TF_SECOND / p->rate) : TF_NEVER;
}

/* No more input is to be taken now. */
static bool is_held(const pub *p)
{
    return p->spool.dir != NULL ? p->spool.blocked : p->full;
}

/* Takes what one read brings. Returns when there is more to do, if nothing happens before; TF_NEVER: nothing. */
static tf_time take_input(pub *p)
{
    tf_slice body;
    bool reads = true;
    while (p->code < 0 && !is_held(p) && tf_pub_input_next(&p->input, &reads, &body)) {
        tf_time when = due(p);
        if (when > tf_edge_now()) {
            return when;
        }
        if (!take(p, body)) {
            break;
        }
    }
    return !is_held(p) && tf_pub_input_is_ready(&p->input) ? 0 : TF_NEVER;
}

static tf_time feed(pub *p)
{
    tf_time when = take_input(p);
    p->code = p->code < 0 ? p->input.code : p->code;
    if (p->spool.dir != NULL) {
        tf_pub_spool_sync(&p->spool);
        when = p->spool.blocked ? p->spool.retry_at : when;
        send_spooled(p);
        p->code = p->code < 0 ? p->spool.code : p->code;
    }
    tf_time now = tf_edge_now();
    return when == TF_NEVER ? TF_NEVER : when - tf_time_min(when, now);
}

static void answered(pub *p, const tf_node_event *event)
{
    p->answered++;
    if (p->spool.dir != NULL) {
        tf_spool_done(p->spool.spool, event->cookie);
    }
}

static void refused(pub *p, const tf_node_event *event)
{
    if (!event->retryable) {
        answered(p, event); /* it leaves the spool, too: else it would be in the way for ever */
    }
    if (tf_slice_eq(event->code, tf_slice_str("unknown"))) {
        p->unknown++;
    }
    p->refused++;
    if (p->cli.json) {
        tf_out_refusal(event);
    }
    if (p->refused <= PUB_COMPLAINTS_MAX || event->retryable) {
        tf_complain("pub", "send %.*s %s: %.*s: %.*s", (int)event->client_id.len, (const char *)event->client_id.data,
                    event->retryable ? "was not accepted within the retry limit" : "was refused", (int)event->code.len,
                    (const char *)event->code.data, (int)event->text.len, (const char *)event->text.data);
    }
    if (event->retryable) {
        p->code = TF_EXIT_NEGATIVE;
    }
}

static void handle(pub *p, const tf_node_event *event)
{
    p->code = tf_cli_event(&p->cli, event);
    if (p->code >= 0) {
        return;
    }
    if (event->type == TF_EVENT_ACK) {
        answered(p, event);
        if (p->cli.json) {
            tf_out_ack(event);
        }
    } else if (event->type == TF_EVENT_REFUSED) {
        refused(p, event);
    } else if (event->type == TF_EVENT_ROOM) {
        p->full = false;
    } else if (event->type == TF_EVENT_CONNECTED) {
        p->started = p->connected ? p->started : tf_edge_now();
        p->connected = true;
        p->online = true;
    } else if (event->type == TF_EVENT_DISCONNECTED) {
        p->online = false;
    }
}

/* Messages that were taken and are not answered. */
static uint64_t pending(const pub *p)
{
    tf_spool_stats stats;
    if (p->spool.dir == NULL) {
        return p->input.taken - p->answered;
    }
    tf_spool_get_stats(p->spool.spool, &stats);
    return stats.waiting + stats.unsynced;
}

static bool is_all_answered(const pub *p)
{
    return tf_pub_input_is_over(&p->input) && pending(p) == 0;
}

static bool flush(pub *p)
{
    bool broken_pipe = false;
    if (tf_out_flush("pub", &broken_pipe)) {
        return true;
    }
    p->code = broken_pipe && is_all_answered(p) ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
    return false;
}

static int verdict(const pub *p)
{
    if (p->unknown > 0 || p->spool.damaged) {
        return TF_EXIT_NEGATIVE;
    }
    return p->refused > 0 ? TF_EXIT_REFUSED : TF_EXIT_OK;
}

static void interrupted(pub *p)
{
    bool kept = p->spool.dir != NULL;
    tf_complain("pub", "interrupted: %llu sends were not acked%s%s", (unsigned long long)pending(p),
                kept ? "; they are kept in " : "", kept ? p->spool.dir : "");
    p->code = TF_EXIT_INTERRUPTED;
}

static void turn(pub *p)
{
    tf_node_event event;
    tf_time wait = feed(p);
    if (p->code < 0 && p->connected && is_all_answered(p)) {
        p->code = verdict(p);
    } else if (p->code < 0 && p->cli.interrupted) {
        interrupted(p);
    } else if (p->code < 0) {
        tf_node_run(p->cli.node, wait);
    }
    while (p->code < 0 && tf_node_next_event(p->cli.node, &event)) {
        handle(p, &event);
    }
}

static int run(pub *p)
{
    while (p->code < 0) {
        turn(p);
        if (!flush(p)) {
            break;
        }
        if (p->spool.dir != NULL && p->code < 0) {
            tf_pub_spool_note(&p->spool, false);
        }
    }
    if (p->refused > PUB_COMPLAINTS_MAX) {
        tf_complain("pub", "%llu sends were refused in all", (unsigned long long)p->refused);
    }
    return p->code;
}

static int start(pub *p, const tf_options *o)
{
    int code = check(p, o);
    if (code == TF_EXIT_OK) {
        code = tf_pub_input_open(&p->input);
    }
    if (code == TF_EXIT_OK) {
        code = tf_cli_start(&p->cli, o->operands[0], o->operands[1]);
    }
    if (code == TF_EXIT_OK && p->spool.dir != NULL) {
        code = tf_pub_spool_open(&p->spool, &p->cli);
    }
    if (code == TF_EXIT_OK && !tf_pub_input_watch(&p->input, p->cli.node)) {
        tf_complain("pub", "out of memory");
        code = TF_EXIT_INTERNAL;
    }
    return code;
}

int tf_cmd_pub(int argc, char **argv)
{
    tf_options o;
    pub p = {.cli = {.command = "pub"},
             .input = {.source = TF_PUB_LINES, .delimiter = '\n', .fd = -1, .code = -1},
             .spool = {.retry_at = TF_NEVER, .code = -1},
             .code = -1};
    int index = 0;
    tf_options_init(&o, "pub", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&p, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    if (o.failed) {
        return TF_EXIT_USAGE;
    }
    int code = start(&p, &o);
    if (code == TF_EXIT_OK) {
        code = run(&p);
    }
    tf_pub_spool_close(&p.spool);
    tf_pub_input_close(&p.input);
    tf_cli_end(&p.cli);
    return code;
}
