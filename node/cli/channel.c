/* channel: sees and changes the channels of a relay. One question, or one a page, and its answer. */
#include <inttypes.h>
#include <time.h>

#include "handshake/node_id.h"
#include "node/cli/cli.h"
#include "proto/limits.h"

typedef enum verb { VERB_LS, VERB_INFO, VERB_CREATE, VERB_CLOSE, VERB_TRIM, VERB_GAPS } verb;

static const char *const verbs[] = {[VERB_LS] = "ls",       [VERB_INFO] = "info", [VERB_CREATE] = "create",
                                    [VERB_CLOSE] = "close", [VERB_TRIM] = "trim", [VERB_GAPS] = "gaps"};

typedef struct channel {
    tf_cli cli;
    verb verb;
    uint64_t before; /* trim; 0: not said */
    bool has_header; /* of a table */
} channel;

static const tf_option options[] = {
    {0, "before", "SEQ", "of trim: what is below SEQ is no longer kept"},
    TF_CLI_COMMON_OPTIONS,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_channel_options(void)
{
    return options;
}

static bool one_option(channel *c, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&c->cli, o, option, &ok)) {
        return ok;
    }
    return tf_value_count(o, "--before", 1, (uint64_t)INT64_MAX, &c->before);
}

/* -- output -------------------------------------------------------------------------------------------------------- */

static void put_time(uint64_t ms)
{
    struct tm utc;
    char text[32] = "-";
    time_t seconds = (time_t)(ms / 1000u);
    if (ms != 0 && gmtime_r(&seconds, &utc) != NULL && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) {
        text[0] = '\0';
    }
    (void)fputs(text, stdout);
}

static void put_state_fields(const tf_channel_state *state)
{
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("channel", state->name);
    tf_out_epoch_field(state->epoch);
    (void)printf(",\"first\":%" PRIu64 ",\"head\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"timestamp\":%" PRIu64
                 ",\"closed\":%s",
                 state->first, state->head, state->bytes, state->timestamp_ms, state->closed ? "true" : "false");
}

static void put_state(channel *c, const tf_channel_state *state)
{
    if (c->cli.json) {
        put_state_fields(state);
        (void)fputs("}\n", stdout);
        return;
    }
    if (!c->has_header) {
        (void)printf("%-32s %12s %12s %14s %-20s %s\n", "CHANNEL", "FIRST", "HEAD", "BYTES", "NEWEST", "STATE");
        c->has_header = true;
    }
    (void)printf("%-32.*s %12" PRIu64 " %12" PRIu64 " %14" PRIu64 " ", (int)state->name.len, (const char *)state->name.data,
                 state->first, state->head, state->bytes);
    put_time(state->timestamp_ms);
    (void)printf("%*s %s\n", state->timestamp_ms == 0 ? 19 : 0, "", state->closed ? "closed" : "open");
}

static void put_limit_json(const char *name, uint64_t value)
{
    if (value != 0) {
        (void)printf(",\"%s\":%" PRIu64, name, value);
    }
}

static void put_info_json(const tf_result_info *info)
{
    tf_slice bytes;
    tf_cursor_state cursor;
    tf_items cursors = info->cursors;
    put_state_fields(&info->state);
    put_limit_json("keys_since", info->keys_since_ms);
    put_limit_json("max_age_ms", info->max_age_ms);
    put_limit_json("max_bytes", info->max_bytes);
    put_limit_json("max_count", info->max_count);
    put_limit_json("dedup_age_ms", info->dedup_age_ms);
    (void)printf(",\"subscriptions\":%" PRIu64 ",\"cursor_count\":%" PRIu64 ",\"cursors\":[", info->subscriptions,
                 info->cursor_count);
    for (bool first = true; tf_items_next(&cursors, &bytes) && tf_cursor_state_read(bytes, &cursor) == TF_OK;
         first = false) {
        (void)printf("%s{\"next\":%" PRIu64 ",\"moved\":%" PRIu64, first ? "" : ",", cursor.next, cursor.moved_ms);
        tf_out_field("name", cursor.name);
        tf_out_node_field("owner", &cursor.owner);
        tf_out_epoch_field(cursor.epoch);
        (void)putchar_unlocked('}');
    }
    (void)fputs("]}\n", stdout);
}

static void put_limit(const char *name, uint64_t value, const char *unit)
{
    if (value != 0) {
        (void)printf("%-14s %" PRIu64 "%s\n", name, value, unit);
    }
}

static void put_cursors(const tf_result_info *info)
{
    tf_slice bytes;
    tf_cursor_state cursor;
    tf_items cursors = info->cursors;
    while (tf_items_next(&cursors, &bytes) && tf_cursor_state_read(bytes, &cursor) == TF_OK) {
        char owner[TF_NODE_ID_TEXT_LEN + 1];
        tf_node_id_format(&cursor.owner, owner);
        (void)printf("cursor         %.*s of %s: seq %" PRIu64 " is next%s, moved ", (int)cursor.name.len,
                     (const char *)cursor.name.data, owner, cursor.next,
                     cursor.epoch == info->state.epoch ? "" : " in another channel epoch");
        put_time(cursor.moved_ms);
        (void)putchar_unlocked('\n');
    }
}

static void put_info(channel *c, const tf_result_info *info)
{
    const tf_channel_state *state = &info->state;
    if (c->cli.json) {
        put_info_json(info);
        return;
    }
    (void)printf("channel        %.*s\nepoch          %016" PRIx64 "\nfirst          %" PRIu64 "\nhead           %" PRIu64 "\n",
                 (int)state->name.len, (const char *)state->name.data, state->epoch, state->first, state->head);
    (void)printf("bytes          %" PRIu64 "\nnewest         ", state->bytes);
    put_time(state->timestamp_ms);
    (void)printf("\nstate          %s\n", state->closed ? "closed" : "open");
    put_limit("max age", info->max_age_ms, " ms");
    put_limit("max bytes", info->max_bytes, "");
    put_limit("max count", info->max_count, "");
    put_limit("dedup age", info->dedup_age_ms, " ms");
    (void)printf("subscriptions  %" PRIu64 "\ncursors        %" PRIu64 "\n", info->subscriptions, info->cursor_count);
    put_cursors(info);
}

static void put_hole(channel *c, const tf_hole *hole)
{
    if (c->cli.json) {
        (void)fputs("{\"v\":1", stdout);
        tf_out_field("channel", tf_remote_name(c->cli.channel));
        (void)printf(",\"first\":%" PRIu64 ",\"last\":%" PRIu64, hole->first, hole->last);
        tf_out_field("reason", hole->reason);
        (void)fputs("}\n", stdout);
        return;
    }
    if (!c->has_header) {
        (void)printf("%12s %12s REASON\n", "FIRST", "LAST");
        c->has_header = true;
    }
    (void)printf("%12" PRIu64 " %12" PRIu64 " ", hole->first, hole->last);
    tf_out_body(hole->reason, false);
}

static void put_trimmed(const channel *c, uint64_t first)
{
    tf_slice name = tf_remote_name(c->cli.channel);
    if (!c->cli.json) {
        (void)printf("%.*s is kept from seq %" PRIu64 " on\n", (int)name.len, (const char *)name.data, first);
        return;
    }
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("channel", name);
    (void)printf(",\"first\":%" PRIu64 "}\n", first);
}

/* -- questions and answers ----------------------------------------------------------------------------------------- */

static tf_err ask(channel *c)
{
    switch (c->verb) {
    case VERB_LS:
        return tf_peer_ask_channels(c->cli.peer, 0, 0);
    case VERB_INFO:
    case VERB_CREATE: /* it is made when it is opened; then it is looked at */
        return tf_remote_ask_info(c->cli.channel, 0);
    case VERB_CLOSE:
        return tf_remote_close(c->cli.channel);
    case VERB_TRIM:
        return tf_remote_ask_trim(c->cli.channel, c->before, 0);
    case VERB_GAPS:
        return tf_remote_ask_gaps(c->cli.channel, 1, 0);
    }
    TF_UNREACHABLE();
}

/* One page; the code to exit with, -1: there is another. */
static int channels_answered(channel *c, tf_slice data)
{
    tf_result_channels page;
    tf_channel_state state;
    tf_slice bytes;
    if (tf_result_channels_read(data, &page) != TF_OK) {
        return tf_cli_error(&c->cli, TF_ERR_PEER_SYNTAX);
    }
    while (tf_items_next(&page.items, &bytes) && tf_channel_state_read(bytes, &state) == TF_OK) {
        put_state(c, &state);
    }
    if (page.next == 0) {
        return TF_EXIT_OK;
    }
    tf_err err = tf_peer_ask_channels(c->cli.peer, page.next, 0);
    return err == TF_OK ? -1 : tf_cli_error(&c->cli, err);
}

static int gaps_answered(channel *c, tf_slice data)
{
    tf_result_gaps page;
    tf_hole hole;
    tf_slice bytes;
    if (tf_result_gaps_read(data, &page) != TF_OK) {
        return tf_cli_error(&c->cli, TF_ERR_PEER_SYNTAX);
    }
    while (tf_items_next(&page.items, &bytes) && tf_hole_read(bytes, &hole) == TF_OK) {
        put_hole(c, &hole);
    }
    if (page.next == 0) {
        return TF_EXIT_OK;
    }
    tf_err err = tf_remote_ask_gaps(c->cli.channel, page.next, 0);
    return err == TF_OK ? -1 : tf_cli_error(&c->cli, err);
}

static int info_answered(channel *c, tf_slice data)
{
    tf_result_info info;
    if (tf_result_info_read(data, &info) != TF_OK) {
        return tf_cli_error(&c->cli, TF_ERR_PEER_SYNTAX);
    }
    if (c->verb == VERB_INFO) {
        put_info(c, &info);
    } else if (c->cli.json) {
        put_state(c, &info.state);
    }
    return TF_EXIT_OK;
}

static int trim_answered(channel *c, tf_slice data)
{
    tf_result_trim trim;
    if (tf_result_trim_read(data, &trim) != TF_OK) {
        return tf_cli_error(&c->cli, TF_ERR_PEER_SYNTAX);
    }
    put_trimmed(c, trim.first);
    return TF_EXIT_OK;
}

static int closed(const channel *c)
{
    if (c->cli.json) {
        (void)fputs("{\"v\":1", stdout);
        tf_out_field("channel", tf_remote_name(c->cli.channel));
        (void)fputs(",\"closed\":true}\n", stdout);
    }
    return TF_EXIT_OK;
}

static int answered(channel *c, const tf_node_event *event)
{
    if (event->code.len > 0) {
        tf_complain("channel", "%s was refused: %.*s: %.*s", verbs[c->verb], (int)event->code.len,
                    (const char *)event->code.data, (int)event->text.len, (const char *)event->text.data);
        if (c->cli.json) {
            tf_out_refusal(event);
        }
        return TF_EXIT_REFUSED;
    }
    switch (event->asked) {
    case TF_ASKED_CHANNELS:
        return channels_answered(c, event->data);
    case TF_ASKED_INFO:
        return info_answered(c, event->data);
    case TF_ASKED_TRIM:
        return trim_answered(c, event->data);
    case TF_ASKED_GAPS:
        return gaps_answered(c, event->data);
    case TF_ASKED_READ:
    case TF_ASKED_FORGET:
    case TF_ASKED_REFS:
        return -1; /* not asked here */
    }
    TF_UNREACHABLE();
}

static int take(void *ctx, const tf_node_event *event)
{
    if (event->type == TF_EVENT_ANSWER) {
        return answered(ctx, event);
    }
    return event->type == TF_EVENT_CLOSED ? closed(ctx) : -1;
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

static int check(channel *c, const tf_options *o)
{
    size_t count = sizeof(verbs) / sizeof(verbs[0]);
    size_t found = 0;
    while (o->operand_count > 0 && found < count && strcmp(verbs[found], o->operands[0]) != 0) {
        found++;
    }
    if (o->operand_count == 0 || found == count) {
        return tf_usage("channel", "'%s' is none of ls, info, create, close, trim, gaps",
                        o->operand_count == 0 ? "" : o->operands[0]);
    }
    c->verb = (verb)found;
    bool lists = c->verb == VERB_LS;
    if (o->operand_count != (lists ? 2 : 3)) {
        return tf_usage("channel", "%s needs a URI%s: twofold channel %s twofold://NODEID@HOST:PORT%s", verbs[c->verb],
                        lists ? " and nothing else" : " and a channel", verbs[c->verb], lists ? "" : " CHANNEL");
    }
    if ((c->verb == VERB_TRIM) != (c->before != 0)) {
        return tf_usage("channel", "--before SEQ goes with trim, and trim needs it");
    }
    c->cli.existing_only = c->verb != VERB_CREATE;
    return TF_EXIT_OK;
}

int tf_cmd_channel(int argc, char **argv)
{
    tf_options o;
    channel c = {.cli = {.command = "channel"}};
    int index = 0;
    tf_options_init(&o, "channel", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&c, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    int code = o.failed ? TF_EXIT_USAGE : check(&c, &o);
    if (code == TF_EXIT_OK) {
        code = tf_cli_start(&c.cli, o.operands[1], c.verb == VERB_LS ? NULL : o.operands[2]);
    }
    if (code == TF_EXIT_OK) {
        code = tf_cli_error(&c.cli, ask(&c));
    }
    if (code == TF_EXIT_OK) {
        code = tf_cli_run(&c.cli, take, &c);
    }
    tf_cli_end(&c.cli);
    return code;
}
