/* pub: sends messages and waits until each is acked. */
#include <stdlib.h>

#include <openssl/sha.h>

#include "node/cli/pub_input.h"
#include "node/edge_mem.h"
#include "proto/limits.h"

#define PUB_COMPLAINTS_MAX 10u

typedef enum pub_ids { PUB_IDS_MADE, PUB_IDS_GIVEN, PUB_IDS_LINE, PUB_IDS_SHA256 } pub_ids;

typedef struct pub {
    tf_cli cli;
    tf_pub_input input;
    pub_ids ids;
    const char *id;
    double rate;    /* messages per second, 0: as fast as they are taken */
    bool full;      /* the window and the queue behind it */
    bool connected; /* so that no input at all, too, is only well when the relay was there */
    uint64_t answered;
    uint64_t refused;
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
    } else if (strcmp(option->name, "id-from") == 0) {
        return id_from_value(p, o);
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

/* False: it was not taken. */
static bool send_one(pub *p, tf_slice body)
{
    char hash[2 * SHA256_DIGEST_LENGTH + 1];
    if (p->ids == PUB_IDS_GIVEN && p->input.taken > 0) {
        p->code = tf_usage("pub", "--id names one message, and there is more than one; --id-from names many");
        return false;
    }
    tf_remote_send_args send = {.client_id = client_id(p, body, hash), .body = body, .cookie = p->input.taken + 1};
    bool empty_id = p->ids != PUB_IDS_MADE && send.client_id.len == 0;
    tf_err err = empty_id ? TF_ERR_USAGE : tf_remote_send(p->cli.channel, &send);
    if (err == TF_OK) {
        tf_pub_input_take(&p->input);
        return true;
    }
    if (err == TF_ERR_AGAIN) {
        p->full = true;
    } else if (err == TF_ERR_USAGE) {
        bad_id(p, send.client_id);
    } else if (err == TF_ERR_LIMIT_BYTES) {
        tf_complain("pub", "message %llu is longer than %u bytes", (unsigned long long)p->input.taken + 1, TF_BODY_MAX);
        p->code = TF_EXIT_REFUSED;
    } else if (err != TF_ERR_CLOSED) { /* closed: the channel was refused, its event comes */
        tf_complain("pub", "%s", tf_err_text(err));
        p->code = TF_EXIT_INTERNAL;
    }
    return false;
}

/* When the next message is due: a rate counts from the connection on, or what waited for it would come in a burst. */
static tf_time due(const pub *p)
{
    if (p->rate <= 0) {
        return 0;
    }
    return p->connected ? p->started + (tf_time)((double)p->input.taken * (double)TF_SECOND / p->rate) : TF_NEVER;
}

/* Takes what one read brings. Returns how long there is nothing more to do unless something happens. */
static tf_time feed(pub *p)
{
    tf_slice body;
    bool reads = true;
    while (p->code < 0 && !p->full && tf_pub_input_next(&p->input, &reads, &body)) {
        tf_time now = tf_edge_now();
        tf_time when = due(p);
        if (when > now) {
            return when == TF_NEVER ? TF_NEVER : when - now;
        }
        if (!send_one(p, body)) {
            break;
        }
    }
    p->code = p->input.code >= 0 ? p->input.code : p->code;
    return !p->full && tf_pub_input_is_ready(&p->input) ? 0 : TF_NEVER;
}

static void refused(pub *p, const tf_node_event *event)
{
    p->answered++;
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
        p->answered++;
        if (p->cli.json) {
            tf_out_ack(event);
        }
    } else if (event->type == TF_EVENT_REFUSED) {
        refused(p, event);
    } else if (event->type == TF_EVENT_ROOM) {
        p->full = false;
    } else if (event->type == TF_EVENT_CONNECTED && !p->connected) {
        p->connected = true;
        p->started = tf_edge_now();
    }
}

static bool is_all_answered(const pub *p)
{
    return tf_pub_input_is_over(&p->input) && p->answered == p->input.taken;
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

static int run(pub *p)
{
    tf_node_event event;
    while (p->code < 0) {
        tf_time wait = feed(p);
        if (p->code < 0 && p->connected && is_all_answered(p)) {
            p->code = p->refused > 0 ? TF_EXIT_REFUSED : TF_EXIT_OK;
        } else if (p->code < 0 && p->cli.interrupted) {
            tf_complain("pub", "interrupted: %llu sends were not acked",
                        (unsigned long long)(p->input.taken - p->answered));
            p->code = TF_EXIT_INTERRUPTED;
        } else if (p->code < 0) {
            tf_node_run(p->cli.node, wait);
        }
        while (p->code < 0 && tf_node_next_event(p->cli.node, &event)) {
            handle(p, &event);
        }
        if (!flush(p)) {
            break;
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
    tf_pub_input_close(&p.input);
    tf_cli_end(&p.cli);
    return code;
}
