/* call: sends a message to an object that was published under a name, and prints the answer. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "node/cli/cli.h"
#include "node/edge_mem.h"
#include "proto/limits.h"
#include "proto/mp.h"

typedef struct call {
    tf_cli cli;
    const char *name;
    const char *method;
    tf_slice body;
    uint8_t *read; /* what stdin had; NULL: not read */
    tf_time timeout;
    tf_local promise;
    int code; /* -1: goes on */
} call;

static const tf_option options[] = {
    {0, "timeout", "DURATION", "end when there is no answer after so long, with exit code 5 (default: none)"},
    TF_CLI_COMMON_OPTIONS,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_call_options(void)
{
    return options;
}

static bool one_option(call *c, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&c->cli, o, option, &ok)) {
        return ok;
    }
    return tf_value_duration(o, "--timeout", &c->timeout);
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

static void begin_json(const call *c)
{
    (void)fputs("{\"v\":1", stdout);
    tf_out_field("name", tf_slice_str(c->name));
    tf_out_field("method", tf_slice_str(c->method));
}

/* Text of others, on stderr: no control bytes but newlines and tabs. */
static void complain_of(tf_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.data[i];
        bool control = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f;
        (void)fputc(control ? '?' : byte, stderr);
    }
}

static void complain_rejected(tf_slice data, const tf_rejection *rejection)
{
    (void)fputs("twofold call: ", stderr);
    if (rejection != NULL) {
        complain_of(rejection->code);
        (void)fputs(rejection->message.len > 0 ? ": " : "", stderr);
        complain_of(rejection->message);
    } else if (tf_utf8_is_valid(data)) {
        complain_of(data);
    } else {
        (void)fprintf(stderr, "rejected, with %zu bytes that are no text", data.len);
    }
    (void)fputc('\n', stderr);
}

static int rejected(const call *c, tf_slice data)
{
    tf_rejection rejection;
    bool known = tf_rejection_read(data, &rejection) == TF_OK;
    complain_rejected(data, known ? &rejection : NULL);
    if (!c->cli.json) {
        return TF_EXIT_REFUSED;
    }
    begin_json(c);
    if (known) {
        tf_out_field("code", rejection.code);
        tf_out_field("message", rejection.message);
    } else {
        tf_out_bytes_field("rejection", data);
    }
    if (known && rejection.has_status) {
        (void)printf(",\"status\":%llu", (unsigned long long)rejection.status);
    }
    (void)fputs("}\n", stdout);
    return TF_EXIT_REFUSED;
}

static int answered(const call *c, tf_slice data)
{
    if (c->cli.json) {
        begin_json(c);
        tf_out_bytes_field("body", data);
        (void)fputs("}\n", stdout);
    } else {
        (void)fwrite(data.data, 1, data.len, stdout);
    }
    return TF_EXIT_OK;
}

static int settled(const call *c, const tf_node_event *event)
{
    switch (event->resolution) {
    case TF_RESOLUTION_DATA:
        return answered(c, event->data);
    case TF_RESOLUTION_REJECTION:
        return rejected(c, event->data);
    case TF_RESOLUTION_OBJECT:
        tf_complain("call", "the answer is a reference, of which nothing can be printed");
        return TF_EXIT_OK;
    }
    TF_UNREACHABLE();
}

static int refused(const call *c, const tf_node_event *event)
{
    tf_complain("call", "%.*s: %.*s", (int)event->code.len, (const char *)event->code.data, (int)event->text.len,
                (const char *)event->text.data);
    if (c->cli.json) {
        begin_json(c);
        tf_out_field("code", event->code);
        tf_out_field("message", event->text);
        (void)fputs("}\n", stdout);
    }
    return TF_EXIT_REFUSED;
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static int send_to(call *c, tf_local object)
{
    tf_node_message message = {.target = object, .method = tf_slice_str(c->method), .args = c->body};
    tf_err err = tf_node_send(c->cli.node, &message, &c->promise);
    tf_node_drop(c->cli.node, object);
    if (err == TF_ERR_LIMIT_BYTES) {
        tf_complain("call", "the body is larger than the relay takes");
        return TF_EXIT_REFUSED;
    }
    return err == TF_OK ? -1 : tf_cli_error(&c->cli, err);
}

static void handle(call *c, const tf_node_event *event)
{
    c->code = tf_cli_event(&c->cli, event);
    if (c->code >= 0) {
        return;
    }
    if (event->type == TF_EVENT_FOUND) {
        c->code = event->code.len > 0 ? refused(c, event) : send_to(c, event->local);
    } else if (event->type == TF_EVENT_SETTLED && event->local == c->promise) {
        c->code = settled(c, event);
    }
}

static int run(call *c)
{
    tf_node_event event;
    bool broken_pipe = false;
    tf_time end = tf_time_add(tf_edge_now(), c->timeout);
    while (c->code < 0) {
        tf_time now = tf_edge_now();
        if (c->cli.interrupted) {
            c->code = TF_EXIT_INTERRUPTED;
        } else if (now >= end) {
            tf_complain("call", "there was no answer in time");
            c->code = TF_EXIT_TIMEOUT;
        } else {
            tf_node_run(c->cli.node, end == TF_NEVER ? TF_NEVER : end - now);
        }
        while (c->code < 0 && tf_node_next_event(c->cli.node, &event)) {
            handle(c, &event);
        }
    }
    if (!tf_out_flush("call", &broken_pipe) && !broken_pipe) {
        return TF_EXIT_NEGATIVE;
    }
    return c->code;
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

static int too_long(void)
{
    return tf_usage("call", "the body is longer than %u bytes", TF_BODY_MAX);
}

static int read_stdin(call *c)
{
    size_t room = (size_t)TF_BODY_MAX + 1;
    c->read = malloc(room);
    if (c->read == NULL) {
        return tf_cli_error(&c->cli, TF_ERR_NOMEM);
    }
    ssize_t got = 1;
    while (got != 0 && c->body.len < room) {
        got = read(STDIN_FILENO, c->read + c->body.len, room - c->body.len);
        if (got < 0 && errno != EINTR) {
            tf_complain("call", "stdin cannot be read: %s", strerror(errno));
            return TF_EXIT_NEGATIVE;
        }
        c->body.len += got > 0 ? (size_t)got : 0;
    }
    c->body.data = c->read;
    return c->body.len > TF_BODY_MAX ? too_long() : TF_EXIT_OK;
}

static int check(call *c, const tf_options *o)
{
    if (o->failed) {
        return TF_EXIT_USAGE;
    }
    if (o->operand_count < 3 || o->operand_count > 4) {
        return tf_usage("call", "needs a URI, a name and a method: twofold call twofold://NODEID@HOST:PORT NAME METHOD "
                                "[BODY]");
    }
    c->name = o->operands[1];
    c->method = o->operands[2];
    tf_slice method = tf_slice_str(c->method);
    if (method.len == 0 || method.len > TF_METHOD_MAX || !tf_utf8_is_valid(method)) {
        return tf_usage("call", "'%s' is not a method: 1 to %u bytes of UTF-8", c->method, TF_METHOD_MAX);
    }
    if (o->operand_count == 4 && strcmp(o->operands[3], "-") == 0) {
        return read_stdin(c);
    }
    c->body = o->operand_count == 4 ? tf_slice_str(o->operands[3]) : (tf_slice){NULL, 0};
    return c->body.len > TF_BODY_MAX ? too_long() : TF_EXIT_OK;
}

static int start(call *c, const char *uri)
{
    int code = tf_cli_start(&c->cli, uri, NULL);
    if (code != TF_EXIT_OK) {
        return code;
    }
    tf_err err = tf_peer_lookup(c->cli.peer, tf_slice_str(c->name), 0);
    return err == TF_ERR_USAGE ? tf_cli_bad_object_name("call", c->name) : tf_cli_error(&c->cli, err);
}

int tf_cmd_call(int argc, char **argv)
{
    tf_options o;
    call c = {.cli = {.command = "call"}, .timeout = TF_NEVER, .code = -1};
    int index = 0;
    tf_options_init(&o, "call", options, argc, argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&c, &o, &options[index])) {
            return TF_EXIT_USAGE;
        }
    }
    int code = check(&c, &o);
    if (code == TF_EXIT_OK) {
        code = start(&c, o.operands[0]);
    }
    if (code == TF_EXIT_OK) {
        code = run(&c);
    }
    tf_cli_end(&c.cli);
    free(c.read);
    return code;
}
