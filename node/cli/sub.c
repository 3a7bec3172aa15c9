/* sub: prints the messages of a channel. */
#include <errno.h>
#include <stdlib.h>

#include "node/cli/cli.h"
#include "node/edge_mem.h"
#include "node/name.h"
#include "proto/limits.h"

#define CONFIRM_EVERY (200 * TF_MS)
#define CONFIRM_LAST TF_SECOND /* so long the end waits until the last position is known to be kept */

typedef struct sub {
    tf_cli cli;
    tf_start start;
    uint64_t from;
    uint64_t count; /* 0: without end */
    tf_time wait;   /* TF_NEVER: no limit */
    const char *durable; /* NULL: not durable */
    bool forget;
    bool raw;
    bool verify;
    bool escape;
    uint64_t seen;
    uint64_t next; /* verify: the seq that must come next; 0: not known yet */
    uint64_t dealt;     /* durable: all up to it was printed, or told as a gap */
    uint64_t confirmed; /* of that, what the relay was told */
    tf_time confirm_at; /* the next time */
    int code;      /* -1: goes on */
} sub;

static const tf_option options[] = {
    {0, "from", "WHERE", "new, first, or the SEQ to begin with (default: new)"},
    {0, "durable", "NAME", "the relay keeps the position under NAME; --from counts only when there is none yet"},
    {0, "forget", NULL, "with --durable: delete the position, print nothing"},
    {'n', "count", "COUNT", "end after so many messages"},
    {'W', "wait", "SECONDS", "end after so long, with exit code 5"},
    {0, "raw", NULL, "control bytes as they are, on a terminal too"},
    {0, "verify", NULL, "exit 1 at the first gap or repeat"},
    TF_CLI_COMMON_OPTIONS,
    TF_CLI_STATS_OPTION,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_sub_options(void)
{
    return options;
}

static bool from_value(sub *s, const tf_options *o)
{
    char *end = NULL;
    if (strcmp(o->value, "new") == 0) {
        s->start = TF_START_NEW;
        return true;
    }
    if (strcmp(o->value, "first") == 0) {
        s->start = TF_START_FIRST;
        return true;
    }
    errno = 0;
    s->start = TF_START_SEQ;
    s->from = strtoull(o->value, &end, 10);
    if (o->value[0] < '0' || o->value[0] > '9' || *end != '\0' || errno != 0 || s->from == 0) {
        (void)tf_usage("sub", "--from: '%s' is none of new, first, or a seq from 1", o->value);
        return false;
    }
    return true;
}

static bool durable_value(sub *s, const tf_options *o)
{
    s->durable = o->value;
    if (!tf_cursor_name_is_valid(tf_slice_str(o->value))) {
        (void)tf_usage("sub", "--durable: '%s' is not a name: 1 to %u of A-Z a-z 0-9 . _ : ~ -", o->value,
                       TF_CURSOR_NAME_MAX);
        return false;
    }
    return true;
}

static bool one_option(sub *s, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&s->cli, o, option, &ok)) {
        return ok;
    }
    if (strcmp(option->name, "from") == 0) {
        return from_value(s, o);
    }
    if (strcmp(option->name, "durable") == 0) {
        return durable_value(s, o);
    }
    if (strcmp(option->name, "count") == 0) {
        return tf_value_count(o, "-n", 1, UINT64_MAX, &s->count);
    }
    if (strcmp(option->name, "wait") == 0) {
        return tf_value_seconds(o, "-W", &s->wait);
    }
    s->forget = s->forget || strcmp(option->name, "forget") == 0;
    s->raw = s->raw || strcmp(option->name, "raw") == 0;
    s->verify = s->verify || strcmp(option->name, "verify") == 0;
    return true;
}

static void verify(sub *s, uint64_t seq)
{
    if (s->next != 0 && seq != s->next) {
        tf_complain("sub", "%s: seq %llu came where %llu was due", seq < s->next ? "repeat" : "gap",
                    (unsigned long long)seq, (unsigned long long)s->next);
        s->code = TF_EXIT_NEGATIVE;
    }
    s->next = seq + 1;
}

static void activity(sub *s, const tf_node_event *event)
{
    if (s->verify) {
        verify(s, event->seq);
    }
    if (s->cli.json) {
        tf_activity shown = {.seq = event->seq,
                             .id = event->id,
                             .sender = event->sender,
                             .client_id = event->client_id,
                             .timestamp_ms = (uint64_t)event->timestamp_ms,
                             .body = event->body,
                             .meta = event->meta,
                             .expires_ms = (uint64_t)event->expires_ms};
        tf_out_activity_json(&shown, tf_remote_name(event->channel));
    } else {
        tf_out_body(event->body, !s->escape);
    }
    s->dealt = event->seq;
    s->seen++;
    if (s->code < 0 && s->count != 0 && s->seen == s->count) {
        s->code = TF_EXIT_OK;
    }
}

static void gap(sub *s, const tf_node_event *event)
{
    bool expired = tf_slice_eq(event->code, tf_slice_str("expired"));
    if (tf_slice_eq(event->code, tf_slice_str("epoch"))) {
        tf_complain("sub", "gap: %.*s: seq %llu is next", (int)event->text.len, (const char *)event->text.data,
                    (unsigned long long)event->seq);
        s->confirmed = 0; /* its numbers are others */
    } else {
        tf_complain("sub", "%s: %.*s: seq %llu to %llu", expired ? "skipped" : "gap", (int)event->text.len,
                    (const char *)event->text.data, (unsigned long long)event->first,
                    (unsigned long long)(event->seq - 1));
    }
    s->next = event->seq;
    s->dealt = event->seq - 1;
    if (s->verify && !expired) {
        s->code = TF_EXIT_NEGATIVE;
    }
}

static void handle(sub *s, const tf_node_event *event)
{
    s->code = tf_cli_event(&s->cli, event);
    if (s->code >= 0) {
        return;
    }
    if (event->type == TF_EVENT_ACTIVITY) {
        activity(s, event);
    } else if (event->type == TF_EVENT_GAP) {
        gap(s, event);
    } else if (event->type == TF_EVENT_SUBSCRIBED && s->next == 0) {
        s->next = event->seq;
    } else if (event->type == TF_EVENT_ENDED) {
        tf_complain("sub", "ended: %.*s: %.*s", (int)event->code.len, (const char *)event->code.data,
                    (int)event->text.len, (const char *)event->text.data);
        s->durable = NULL; /* the position is no longer ours */
        s->code = TF_EXIT_REFUSED;
    } else if (event->type == TF_EVENT_ANSWER) { /* to --forget */
        s->code = event->code.len == 0 ? TF_EXIT_OK : TF_EXIT_REFUSED;
        if (event->code.len > 0) {
            tf_complain("sub", "%s was not forgotten: %.*s: %.*s", s->durable, (int)event->code.len,
                        (const char *)event->code.data, (int)event->text.len, (const char *)event->text.data);
        }
    }
}

/* Tells the relay what was printed and flushed. */
static void confirm(sub *s, bool now)
{
    tf_time time = tf_edge_now();
    if (s->durable == NULL || s->dealt <= s->confirmed || (!now && time < s->confirm_at)) {
        return;
    }
    if (tf_remote_confirm(s->cli.channel, s->dealt) == TF_OK) {
        s->confirmed = s->dealt;
        s->confirm_at = time + CONFIRM_EVERY;
    }
}

/* The last position, and a while for its answer: without it some come again, no more. */
static void confirm_last(sub *s)
{
    tf_node_event event;
    if (s->durable == NULL || s->cli.channel == NULL || s->forget) {
        return;
    }
    confirm(s, true);
    tf_time end = tf_edge_now() + CONFIRM_LAST;
    for (tf_time now = tf_edge_now(); now < end && tf_remote_is_confirming(s->cli.channel); now = tf_edge_now()) {
        tf_node_run(s->cli.node, end - now);
        while (tf_node_next_event(s->cli.node, &event)) { /* what else comes now is not printed, and comes again */
        }
    }
}

static tf_time wait_time(const sub *s, tf_time end, tf_time now)
{
    tf_time until = s->durable != NULL && s->dealt > s->confirmed ? tf_time_min(end, s->confirm_at) : end;
    return until == TF_NEVER ? TF_NEVER : until - tf_time_min(until, now);
}

static int run(sub *s)
{
    tf_node_event event;
    bool broken_pipe = false;
    tf_time end = tf_time_add(tf_edge_now(), s->wait);
    while (s->code < 0) {
        tf_time now = tf_edge_now();
        if (s->cli.interrupted) {
            s->code = TF_EXIT_INTERRUPTED;
        } else if (now >= end) {
            s->code = TF_EXIT_TIMEOUT;
        } else {
            tf_node_run(s->cli.node, wait_time(s, end, now));
        }
        while (s->code < 0 && tf_node_next_event(s->cli.node, &event)) {
            handle(s, &event);
        }
        if (!tf_out_flush("sub", &broken_pipe)) {
            return broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
        }
        confirm(s, false);
    }
    confirm_last(s);
    return s->code;
}

static int start(sub *s, const tf_options *o)
{
    if (o->operand_count != 2) {
        return tf_usage("sub", "needs a URI and a channel: twofold sub twofold://NODEID@HOST:PORT CHANNEL");
    }
    if (s->forget && s->durable == NULL) {
        return tf_usage("sub", "--forget goes with --durable");
    }
    s->escape = tf_out_is_terminal() && !s->raw;
    s->cli.existing_only = s->forget;
    int code = tf_cli_start(&s->cli, o->operands[0], o->operands[1]);
    if (code != TF_EXIT_OK) {
        return code;
    }
    if (s->forget) {
        return tf_cli_error(&s->cli, tf_remote_ask_forget(s->cli.channel, tf_slice_str(s->durable), 0));
    }
    return tf_cli_error(&s->cli, s->durable == NULL ? tf_remote_subscribe(s->cli.channel, s->start, s->from)
                                                    : tf_remote_subscribe_durable(s->cli.channel, s->start, s->from,
                                                                                  tf_slice_str(s->durable)));
}

int tf_cmd_sub(int argc, char **argv)
{
    tf_options o;
    sub s = {.cli = {.command = "sub"}, .wait = TF_NEVER, .code = -1};
    int index = 0;
    tf_options_init(&o, "sub", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&s, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    if (o.failed) {
        return TF_EXIT_USAGE;
    }
    int code = start(&s, &o);
    if (code == TF_EXIT_OK) {
        code = run(&s);
    }
    tf_cli_end(&s.cli);
    return code;
}
