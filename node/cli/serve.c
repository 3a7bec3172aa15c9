/* serve: publishes an object; a command answers each message to it. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <event2/event.h>

#include "node/cli/cli.h"
#include "node/cli/serve_child.h"
#include "node/edge_mem.h"
#include "node/list.h"
#include "proto/limits.h"

#define RUNNING_DEFAULT 8u
#define RUNNING_MAX 1024u
#define WAITING_MAX 1024u /* messages that wait for their turn; beyond it they are rejected */
#define WAITING_BYTES ((size_t)16 * 1024 * 1024)
#define STOP_LIMIT (10 * TF_SECOND)
#define ERROR_MAX (TF_REJECTION_MAX - 256u) /* of stderr, in a rejection */

/* A message, from its arrival to its answer. */
typedef struct job {
    tf_list_node in_jobs; /* waiting or running */
    tf_child *child;
    tf_local result;
    tf_time started;
    size_t size; /* of this block */
    size_t body_len;
    char method[TF_METHOD_MAX + 1];
    uint8_t body[];
} job;

typedef struct serve {
    tf_cli cli;
    const char *name;
    char **command; /* ended by two NULLs, the first of which becomes the method */
    size_t command_len;
    uint64_t max_running;
    bool ready;
    bool quiet; /* nobody reads stdout any more */
    tf_list waiting;
    size_t waiting_count;
    size_t waiting_bytes;
    tf_list running;
    size_t running_count;
    struct event *child_signal;
    bool child_ended;
    bool stopping;
    tf_time stop_at;
    int code; /* -1: goes on */
} serve;

static const tf_option options[] = {
    {0, "max-running", "N", "so many commands at a time; what comes beyond waits (default: 8)"},
    {0, "ready", NULL, "print a line on stdout each time the name is published"},
    TF_CLI_COMMON_OPTIONS,
    {0, NULL, NULL, NULL},
};

const tf_option *tf_serve_options(void)
{
    return options;
}

static bool one_option(serve *s, const tf_options *o, const tf_option *option)
{
    bool ok = true;
    if (tf_cli_common_option(&s->cli, o, option, &ok)) {
        return ok;
    }
    if (strcmp(option->name, "max-running") == 0) {
        return tf_value_count(o, "--max-running", 1, RUNNING_MAX, &s->max_running);
    }
    s->ready = true;
    return true;
}

/* -- output -------------------------------------------------------------------------------------------------------- */

static void flush(serve *s)
{
    bool broken_pipe = false;
    if (!s->quiet && !tf_out_flush("serve", &broken_pipe)) {
        s->quiet = true; /* it goes on to serve */
    }
}

static void tell_published(serve *s, tf_slice name)
{
    TF_LOG(s->cli.log, TF_LOG_INFO, "published", NULL, tf_log_bytes("name", name));
    if (s->quiet) {
        return;
    }
    if (s->cli.json) {
        (void)fputs("{\"v\":1,\"type\":\"published\"", stdout);
        tf_out_field("name", name);
        (void)fputs("}\n", stdout);
    } else if (s->ready) {
        (void)printf("published %.*s\n", (int)name.len, (const char *)name.data);
    }
}

/* code: of the rejection that it was answered with; NULL: with what the command printed, out_len bytes. */
static void tell_answered(const serve *s, const job *j, const char *code, size_t out_len)
{
    tf_time took = tf_edge_now() - j->started;
    TF_LOG(s->cli.log, TF_LOG_INFO, "answered", NULL, tf_log_bytes("method", tf_slice_str(j->method)),
           tf_log_str("code", code == NULL ? "ok" : code), tf_log_uint("took_us", took));
    if (s->quiet || !s->cli.json) {
        return;
    }
    (void)fputs("{\"v\":1,\"type\":\"answered\"", stdout);
    tf_out_field("method", tf_slice_str(j->method));
    tf_out_field("code", tf_slice_str(code == NULL ? "ok" : code));
    (void)printf(",\"bytes_in\":%zu,\"bytes_out\":%zu,\"took_us\":%" PRIu64 "}\n", j->body_len, out_len, took);
}

/* -- answers ------------------------------------------------------------------------------------------------------- */

static void reject(const serve *s, tf_local result, const tf_rejection *rejection)
{
    uint8_t text[TF_REJECTION_MAX];
    tf_answer answer = {.promise = result, .kind = TF_RESOLUTION_REJECTION};
    answer.data = tf_slice_of(text, tf_rejection_write(text, rejection));
    if (result != TF_LOCAL_NONE && tf_node_resolve(s->cli.node, &answer, 1) != TF_OK) {
        tf_complain("serve", "an answer could not be given: out of memory");
    }
}

static void reject_as(const serve *s, tf_local result, const char *code, const char *message)
{
    reject(s, result, &(tf_rejection){.code = tf_slice_str(code), .message = tf_slice_str(message)});
}

/* Its last part may begin within a character. */
static tf_slice message_of(tf_slice err)
{
    tf_slice text = err;
    while (err.len == ERROR_MAX && text.len > 0 && (text.data[0] & 0xc0) == 0x80) {
        text = tf_slice_of(text.data + 1, text.len - 1);
    }
    return text.len > 0 && text.data[text.len - 1] == '\n' ? tf_slice_of(text.data, text.len - 1) : text;
}

static void answer_failed(const serve *s, const job *j, const tf_child_result *result)
{
    char words[64];
    tf_rejection rejection = {.code = tf_slice_str("failed"),
                              .message = message_of(result->err),
                              .has_status = true,
                              .status = result->signalled ? 128u + result->code : result->code};
    if (rejection.message.len == 0) {
        (void)snprintf(words, sizeof(words), "the command ended with %s %u", result->signalled ? "signal" : "status",
                       result->code);
        rejection.message = tf_slice_str(words);
    }
    reject(s, j->result, &rejection);
    tell_answered(s, j, "failed", 0);
}

static void answer_too_large(const serve *s, const job *j)
{
    reject_as(s, j->result, "message_too_large", "the answer is longer than a message can be");
    tell_answered(s, j, "message_too_large", 0);
}

static void answer(const serve *s, const job *j, const tf_child_result *result)
{
    if (result->too_large) {
        answer_too_large(s, j);
        return;
    }
    if (result->signalled || result->code != 0) {
        answer_failed(s, j, result);
        return;
    }
    tf_answer answer = {.promise = j->result, .kind = TF_RESOLUTION_DATA, .data = result->out};
    tf_err err = j->result == TF_LOCAL_NONE ? TF_OK : tf_node_resolve(s->cli.node, &answer, 1);
    if (err == TF_ERR_LIMIT_BYTES) {
        answer_too_large(s, j);
    } else if (err != TF_OK) {
        reject_as(s, j->result, "internal", tf_err_text(err));
        tell_answered(s, j, "internal", 0);
    } else {
        tell_answered(s, j, NULL, result->out.len);
    }
}

/* -- commands ------------------------------------------------------------------------------------------------------ */

static void job_free(job *j)
{
    tf_list_remove(&j->in_jobs);
    tf_child_free(j->child);
    tf_free(tf_edge_mem(), j, j->size);
}

static void start_job(serve *s, job *j)
{
    char why[TF_WHY_MAX];
    tf_child_config config = {.base = tf_node_loop(s->cli.node),
                              .argv = s->command,
                              .body = tf_slice_of(j->body, j->body_len),
                              .out_max = TF_BODY_MAX,
                              .err_max = ERROR_MAX};
    s->command[s->command_len] = j->method;
    j->started = tf_edge_now();
    tf_err err = tf_child_start(&j->child, &config, why);
    s->command[s->command_len] = NULL;
    if (err != TF_OK) {
        tf_complain("serve", "cannot start the command: %s", why);
        reject_as(s, j->result, "failed", why);
        tell_answered(s, j, "failed", 0);
        job_free(j);
        return;
    }
    tf_list_append(&s->running, &j->in_jobs);
    s->running_count++;
}

static void start_jobs(serve *s)
{
    while (s->running_count < s->max_running && !tf_list_is_empty(&s->waiting)) {
        job *j = TF_CONTAINER(s->waiting.head.next, job, in_jobs);
        tf_list_remove(&j->in_jobs);
        s->waiting_count--;
        s->waiting_bytes -= j->size;
        start_job(s, j);
    }
}

static void look_at_children(serve *s)
{
    tf_list_node *next = NULL;
    tf_child_result result;
    s->child_ended = false;
    for (tf_list_node *node = s->running.head.next; node != &s->running.head; node = next) {
        job *j = TF_CONTAINER(node, job, in_jobs);
        next = node->next;
        if (tf_child_look(j->child, &result)) {
            answer(s, j, &result);
            job_free(j);
            s->running_count--;
        }
    }
    start_jobs(s);
}

static void called(void *user, const tf_call_info *call)
{
    serve *s = user;
    size_t size = sizeof(job) + call->args.len;
    TF_LOG(s->cli.log, TF_LOG_INFO, "called", NULL, tf_log_bytes("method", call->method));
    if (s->stopping) {
        reject_as(s, call->result, "draining", "the command that serves this ends");
        return;
    }
    if (call->method.len > TF_METHOD_MAX || memchr(call->method.data, '\0', call->method.len) != NULL) {
        reject_as(s, call->result, "bad_request", "the method cannot be an argument of a command");
        return;
    }
    bool room = s->waiting_count < WAITING_MAX && s->waiting_bytes + size <= WAITING_BYTES;
    job *j = room ? tf_alloc(tf_edge_mem(), size) : NULL;
    if (j == NULL) {
        reject_as(s, call->result, "overloaded", "too many messages wait for their command");
        return;
    }
    j->result = call->result;
    j->size = size;
    j->body_len = call->args.len;
    memcpy(j->method, call->method.data, call->method.len);
    if (j->body_len > 0) {
        memcpy(j->body, call->args.data, j->body_len);
    }
    tf_list_append(&s->waiting, &j->in_jobs);
    s->waiting_count++;
    s->waiting_bytes += size;
    start_jobs(s);
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static void on_child(evutil_socket_t number, short what, void *ctx)
{
    (void)number;
    (void)what;
    serve *s = ctx;
    s->child_ended = true;
    tf_node_wake(s->cli.node);
}

/* What runs may end, what waits is not begun. */
static void begin_stop(serve *s)
{
    s->stopping = true;
    s->stop_at = tf_edge_now() + STOP_LIMIT;
    tf_peer_withdraw(s->cli.peer, tf_slice_str(s->name));
    tf_node_drain(s->cli.node);
    while (!tf_list_is_empty(&s->waiting)) {
        job *j = TF_CONTAINER(s->waiting.head.next, job, in_jobs);
        reject_as(s, j->result, "draining", "the command that serves this ends");
        job_free(j);
    }
    s->waiting_count = 0;
    s->waiting_bytes = 0;
}

static void handle(serve *s, const tf_node_event *event)
{
    s->code = tf_cli_event(&s->cli, event);
    if (s->code >= 0) {
        return;
    }
    if (event->type == TF_EVENT_PUBLISHED) {
        tell_published(s, event->name);
    } else if (event->type == TF_EVENT_PUBLISH_REFUSED) {
        tf_complain("serve", "%s cannot be published: %.*s: %.*s", s->name, (int)event->code.len,
                    (const char *)event->code.data, (int)event->text.len, (const char *)event->text.data);
        if (s->cli.json) {
            tf_out_refusal(event);
        }
        s->code = TF_EXIT_REFUSED;
    }
}

static void check_stop(serve *s)
{
    if (s->cli.stops == 0) {
        return;
    }
    if (!s->stopping) {
        begin_stop(s);
        return;
    }
    bool over = s->running_count == 0 && tf_node_is_drained(s->cli.node);
    if (over || s->cli.stops > 1 || tf_edge_now() >= s->stop_at) {
        s->code = s->cli.terminated ? TF_EXIT_OK : TF_EXIT_INTERRUPTED;
    }
}

static int run(serve *s)
{
    tf_node_event event;
    while (s->code < 0) {
        tf_node_run(s->cli.node, s->stopping ? 50 * TF_MS : TF_NEVER);
        check_stop(s); /* here all answers were handed to their routes */
        while (s->code < 0 && tf_node_next_event(s->cli.node, &event)) {
            handle(s, &event);
        }
        if (s->child_ended) {
            look_at_children(s);
        }
        flush(s);
    }
    return s->code;
}

/* Descriptors 0 to 2 are there, so that no pipe of a command becomes one of them. */
static void fill_standard(void)
{
    for (int fd = 0; fd < 3; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            (void)open("/dev/null", O_RDWR);
        }
    }
}

static int start(serve *s, const char *uri)
{
    fill_standard();
    int code = tf_cli_start(&s->cli, uri, NULL);
    if (code != TF_EXIT_OK) {
        return code;
    }
    tf_local object = TF_LOCAL_NONE;
    tf_object_handler handler = {.called = called, .user = s};
    s->child_signal = evsignal_new(tf_node_loop(s->cli.node), SIGCHLD, on_child, s);
    if (s->child_signal == NULL || event_add(s->child_signal, NULL) != 0) {
        return tf_cli_error(&s->cli, TF_ERR_NOMEM);
    }
    tf_err err = tf_node_export(s->cli.node, &handler, &object);
    if (err == TF_OK) {
        err = tf_peer_publish(s->cli.peer, tf_slice_str(s->name), object);
    }
    return err == TF_ERR_USAGE ? tf_cli_bad_object_name("serve", s->name) : tf_cli_error(&s->cli, err);
}

static void end(serve *s)
{
    tf_list *jobs[2] = {&s->waiting, &s->running};
    for (int i = 0; i < 2; i++) {
        while (!tf_list_is_empty(jobs[i])) {
            job_free(TF_CONTAINER(jobs[i]->head.next, job, in_jobs));
        }
    }
    if (s->child_signal != NULL) {
        event_free(s->child_signal);
    }
    tf_cli_end(&s->cli);
    free(s->command);
}

/* -- the command line ---------------------------------------------------------------------------------------------- */

/* Everything behind `--` is the command. Returns how many arguments are before it. */
static int take_command(serve *s, int argc, char **argv)
{
    int at = 1;
    while (at < argc && strcmp(argv[at], "--") != 0) {
        at++;
    }
    s->command_len = at < argc ? (size_t)(argc - at - 1) : 0;
    s->command = calloc(s->command_len + 2, sizeof(*s->command));
    for (size_t i = 0; s->command != NULL && i < s->command_len; i++) {
        s->command[i] = argv[(size_t)at + 1 + i];
    }
    return at;
}

static int check(const serve *s, const tf_options *o)
{
    if (o->failed) {
        return TF_EXIT_USAGE;
    }
    if (s->command == NULL) {
        return TF_EXIT_INTERNAL;
    }
    if (o->operand_count != 2 || s->command_len == 0 || s->command[0][0] == '\0') {
        return tf_usage("serve", "needs a URI, a name and a command: twofold serve twofold://NODEID@HOST:PORT NAME -- "
                                 "COMMAND [ARGUMENT]...");
    }
    return TF_EXIT_OK;
}

int tf_cmd_serve(int argc, char **argv)
{
    tf_options o;
    serve s = {.cli = {.command = "serve"}, .max_running = RUNNING_DEFAULT, .code = -1};
    int index = 0;
    tf_list_init(&s.waiting);
    tf_list_init(&s.running);
    tf_options_init(&o, "serve", options, take_command(&s, argc, argv), argv);
    while ((index = tf_options_next(&o)) >= 0) {
        if (!one_option(&s, &o, &options[index])) {
            free(s.command);
            return TF_EXIT_USAGE;
        }
    }
    int code = check(&s, &o);
    if (code == TF_EXIT_OK) {
        s.name = o.operands[1];
        code = start(&s, o.operands[0]);
    }
    if (code == TF_EXIT_OK) {
        code = run(&s);
    }
    end(&s);
    return code;
}
