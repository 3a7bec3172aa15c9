/* sub: prints the messages of a channel. */
#include <errno.h>
#include <stdlib.h>

#include "node/cli/cli.h"
#include "node/edge_mem.h"
#include "proto/limits.h"

typedef struct sub {
    tf_cli cli;
    tf_start start;
    uint64_t from;
    uint64_t count; /* 0: without end */
    tf_time wait;   /* TF_NEVER: no limit */
    bool raw;
    bool verify;
    bool escape;
    uint64_t seen;
    uint64_t next; /* verify: the seq that must come next; 0: not known yet */
    int code;      /* -1: goes on */
} sub;

static const tf_option options[] = {
    {0, "from", "WHERE", "new, first, or the SEQ to begin with (default: new)"},
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

static bool one_option(sub *s, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&s->cli, o, option, &ok)) {
        return ok;
    }
    if (strcmp(option->name, "from") == 0) {
        return from_value(s, o);
    }
    if (strcmp(option->name, "count") == 0) {
        return tf_value_count(o, "-n", 1, UINT64_MAX, &s->count);
    }
    if (strcmp(option->name, "wait") == 0) {
        return tf_value_seconds(o, "-W", &s->wait);
    }
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
        tf_out_activity_json(event, tf_remote_name(event->channel));
    } else {
        tf_out_body(event->body, !s->escape);
    }
    s->seen++;
    if (s->code < 0 && s->count != 0 && s->seen == s->count) {
        s->code = TF_EXIT_OK;
    }
}

static void gap(sub *s, const tf_node_event *event)
{
    tf_complain("sub", "gap: %.*s: seq %llu to %llu", (int)event->text.len, (const char *)event->text.data,
                (unsigned long long)event->first, (unsigned long long)(event->seq - 1));
    s->next = event->seq;
    if (s->verify) {
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
    }
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
            tf_node_run(s->cli.node, end == TF_NEVER ? TF_NEVER : end - now);
        }
        while (s->code < 0 && tf_node_next_event(s->cli.node, &event)) {
            handle(s, &event);
        }
        if (!tf_out_flush("sub", &broken_pipe)) {
            return broken_pipe ? TF_EXIT_OK : TF_EXIT_NEGATIVE;
        }
    }
    return s->code;
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
    if (o.operand_count != 2) {
        return tf_usage("sub", "needs a URI and a channel: twofold sub twofold://NODEID@HOST:PORT CHANNEL");
    }
    s.escape = tf_out_is_terminal() && !s.raw;
    int code = tf_cli_start(&s.cli, o.operands[0], o.operands[1]);
    if (code == TF_EXIT_OK) {
        tf_err err = tf_remote_subscribe(s.cli.channel, s.start, s.from);
        if (err != TF_OK) {
            tf_complain("sub", "%s", tf_err_text(err));
            code = TF_EXIT_INTERNAL;
        } else {
            code = run(&s);
        }
    }
    tf_cli_end(&s.cli);
    return code;
}
