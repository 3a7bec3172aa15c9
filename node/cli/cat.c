/* cat: prints what is stored of a channel, and ends. */
#include <errno.h>
#include <stdlib.h>

#include "node/cli/cli.h"
#include "proto/limits.h"

typedef struct cat {
    tf_cli cli;
    uint64_t from;  /* 0: the first that is kept */
    uint64_t to;    /* 0: the last that is stored when it begins */
    uint64_t count; /* 0: without end */
    bool raw;
    bool escape;
    bool holes;     /* something in the range cannot be had */
    uint64_t epoch; /* as it was when it began */
    uint64_t next;  /* to be asked for */
    uint64_t seen;
} cat;

static const tf_option options[] = {
    {0, "from", "WHERE", "first, or the SEQ to begin with (default: first)"},
    {0, "to", "WHERE", "last, or the SEQ to end with (default: last)"},
    {'n', "count", "COUNT", "end after so many messages"},
    {0, "raw", NULL, "control bytes as they are, on a terminal too"},
    TF_CLI_COMMON_OPTIONS,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_cat_options(void)
{
    return options;
}

/* A seq, or the word that stands for 0. */
static bool seq_value(const tf_options *o, const char *name, const char *word, uint64_t *out)
{
    char *end = NULL;
    if (strcmp(o->value, word) == 0) {
        *out = 0;
        return true;
    }
    errno = 0;
    *out = strtoull(o->value, &end, 10);
    if (o->value[0] < '0' || o->value[0] > '9' || *end != '\0' || errno != 0 || *out == 0 || *out > (uint64_t)INT64_MAX) {
        (void)tf_usage("cat", "%s: '%s' is neither %s nor a seq from 1", name, o->value, word);
        return false;
    }
    return true;
}

static bool one_option(cat *c, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&c->cli, o, option, &ok)) {
        return ok;
    }
    if (strcmp(option->name, "from") == 0) {
        return seq_value(o, "--from", "first", &c->from);
    }
    if (strcmp(option->name, "to") == 0) {
        return seq_value(o, "--to", "last", &c->to);
    }
    if (strcmp(option->name, "count") == 0) {
        return tf_value_count(o, "-n", 1, UINT64_MAX, &c->count);
    }
    c->raw = true;
    return true;
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

/* The code to exit with when all of the range was looked at. */
static int verdict(const cat *c)
{
    return c->holes ? TF_EXIT_NEGATIVE : TF_EXIT_OK;
}

static int ask_on(cat *c)
{
    if (c->next > c->to) {
        return verdict(c);
    }
    tf_err err = tf_remote_ask_read(c->cli.channel, c->next, c->to, 0);
    return err == TF_OK ? -1 : tf_cli_error(&c->cli, err);
}

/* What there is says what the range is. */
static int begin(cat *c, tf_slice data)
{
    tf_result_info info;
    if (tf_result_info_read(data, &info) != TF_OK) {
        return tf_cli_error(&c->cli, TF_ERR_PEER_SYNTAX);
    }
    c->epoch = info.state.epoch;
    c->next = c->from != 0 ? c->from : info.state.first;
    if (c->to == 0 || c->to > info.state.head) {
        c->to = info.state.head;
    }
    return ask_on(c);
}

static void tell_hole(cat *c, const tf_hole *hole)
{
    tf_complain("cat", "gap: %.*s: seq %llu to %llu", (int)hole->reason.len, (const char *)hole->reason.data,
                (unsigned long long)hole->first, (unsigned long long)hole->last);
    c->holes = true;
}

static void print(cat *c, const tf_activity *activity)
{
    if (c->cli.json) {
        tf_out_activity_json(activity, tf_remote_name(c->cli.channel));
    } else {
        tf_out_body(activity->body, !c->escape);
    }
    c->seen++;
}

static int page_answered(cat *c, tf_slice data)
{
    tf_result_read page;
    tf_activity activity;
    tf_hole hole;
    tf_slice bytes;
    if (tf_result_read_read(data, &page) != TF_OK) {
        return tf_cli_error(&c->cli, TF_ERR_PEER_SYNTAX);
    }
    if (page.epoch != c->epoch || page.next <= c->next) {
        tf_complain("cat", "the channel was made anew while it was read");
        return TF_EXIT_NEGATIVE;
    }
    while (tf_items_next(&page.gaps, &bytes) && tf_hole_read(bytes, &hole) == TF_OK) {
        tell_hole(c, &hole);
    }
    while (tf_items_next(&page.items, &bytes) && tf_activity_read(bytes, &activity) == TF_OK) {
        print(c, &activity);
        if (c->count != 0 && c->seen == c->count) {
            return verdict(c);
        }
    }
    c->next = page.next;
    return ask_on(c);
}

static int answered(cat *c, const tf_node_event *event)
{
    if (event->code.len > 0) {
        tf_complain("cat", "refused: %.*s: %.*s", (int)event->code.len, (const char *)event->code.data,
                    (int)event->text.len, (const char *)event->text.data);
        return TF_EXIT_REFUSED;
    }
    return event->asked == TF_ASKED_INFO ? begin(c, event->data) : page_answered(c, event->data);
}

static int take(void *ctx, const tf_node_event *event)
{
    return event->type == TF_EVENT_ANSWER ? answered(ctx, event) : -1;
}

static int check(cat *c, const tf_options *o)
{
    if (o->operand_count != 2) {
        return tf_usage("cat", "needs a URI and a channel: twofold cat twofold://NODEID@HOST:PORT CHANNEL");
    }
    if (c->from != 0 && c->to != 0 && c->from > c->to) {
        return tf_usage("cat", "--from %llu is behind --to %llu", (unsigned long long)c->from, (unsigned long long)c->to);
    }
    c->escape = tf_out_is_terminal() && !c->raw;
    c->cli.existing_only = true;
    return TF_EXIT_OK;
}

int tf_cmd_cat(int argc, char **argv)
{
    tf_options o;
    cat c = {.cli = {.command = "cat"}};
    int index = 0;
    tf_options_init(&o, "cat", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&c, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    int code = o.failed ? TF_EXIT_USAGE : check(&c, &o);
    if (code == TF_EXIT_OK) {
        code = tf_cli_start(&c.cli, o.operands[0], o.operands[1]);
    }
    if (code == TF_EXIT_OK) {
        code = tf_cli_error(&c.cli, tf_remote_ask_info(c.cli.channel, 0));
    }
    if (code == TF_EXIT_OK) {
        code = tf_cli_run(&c.cli, take, &c);
    }
    tf_cli_end(&c.cli);
    return code;
}
