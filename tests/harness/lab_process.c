/* The processes of a laboratory: the relay is the installed program, a client is a fork of this one. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "node/uri.h"
#include "tests/harness/lab.h"

#define PATH_MAX_BYTES (TF_LAB_FOLDER_MAX + 64)
#define WORDS_MAX 200u

void tf_lab_fail(tf_lab *lab, const char *format, ...)
{
    va_list arguments;
    if (lab->failure[0] != '\0') {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(lab->failure, sizeof(lab->failure), format, arguments);
    va_end(arguments);
}

/* -- in the child -------------------------------------------------------------------------------------------------- */

/* A fresh process: its own signals, stderr to a log, and nothing of the parent's sockets, so that they end when it
 * closes them. It does not outlive the parent. */
static void become(const tf_lab *lab, uint32_t node, int out_fd)
{
    char path[PATH_MAX_BYTES];
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        (void)signal(signals[i], SIG_DFL);
    }
    (void)snprintf(path, sizeof(path), "%s/%s.log", lab->folder, lab->s->nodes[node].name);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int null = open("/dev/null", O_RDWR);
    if (log < 0 || null < 0 || dup2(log, STDERR_FILENO) < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(out_fd >= 0 ? out_fd : null, STDOUT_FILENO) < 0 || !lab->kind->enter(lab->net, node)) {
        _exit(70);
    }
    (void)close_range(STDERR_FILENO + 1, ~0u, 0);
}

static void write_config(const tf_lab *lab, char path[PATH_MAX_BYTES])
{
    const tf_scenario_node *relay = &lab->s->nodes[lab->s->relay];
    (void)snprintf(path, PATH_MAX_BYTES, "%s/relay.conf", lab->folder);
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        _exit(70);
    }
    uint32_t in_flight = relay->max_in_flight != 0 ? relay->max_in_flight : TF_LAB_IN_FLIGHT;
    (void)fprintf(file, "[store]\nsegment_size = 1MiB\n[limits]\nmax_in_flight = %u\n", (unsigned)in_flight);
    if (relay->session_timeout != 0) {
        (void)fprintf(file, "session_timeout = %llums\n", (unsigned long long)(relay->session_timeout / TF_MS));
    }
    if (relay->keepalive != 0) {
        (void)fprintf(file, "keepalive = %llums\n", (unsigned long long)(relay->keepalive / TF_MS));
    }
    if (fclose(file) != 0) {
        _exit(70);
    }
}

static void run_relay(const tf_lab *lab)
{
    char config[PATH_MAX_BYTES];
    char data[PATH_MAX_BYTES];
    char listen[80];
    write_config(lab, config);
    (void)snprintf(data, sizeof(data), "%s/relay", lab->folder);
    (void)snprintf(listen, sizeof(listen), "%s:%u", lab->kind->listen_host, (unsigned)lab->port);
    (void)execl(lab->options->twofold, "twofold", "relay", "-c", config, "--data", data, "--listen", listen, "--accept",
                "any", "--print-uri", (char *)NULL);
    (void)fprintf(stderr, "%s: %s\n", lab->options->twofold, strerror(errno));
    _exit(127);
}

static void run_client(const tf_lab *lab, uint32_t node)
{
    char uri[TF_URI_TEXT_MAX];
    char stream[64];
    char datagram[64];
    lab->kind->addresses(lab->net, node, stream, datagram);
    (void)snprintf(uri, sizeof(uri), "twofold://%s@%s?datagram=%s", lab->relay_id, stream, datagram);
    tf_lab_role role = {.s = lab->s,
                        .node = node,
                        .uri = uri,
                        .identity = lab->identities[node],
                        .routes = lab->options->routes,
                        .shared = lab->shared};
    _exit(tf_lab_client_run(&role));
}

/* -- in the parent ------------------------------------------------------------------------------------------------- */

static bool spawn(tf_lab *lab, uint32_t node, int out_fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        become(lab, node, out_fd);
        if (node == lab->s->relay) {
            run_relay(lab);
        } else {
            run_client(lab, node);
        }
    }
    if (pid < 0) {
        tf_lab_fail(lab, "no process for %s: %s", lab->s->nodes[node].name, strerror(errno));
        return false;
    }
    lab->processes[node] = (tf_lab_process){.pid = pid};
    return true;
}

void tf_lab_start(tf_lab *lab, uint32_t node)
{
    tf_lab_process *process = &lab->processes[node];
    if (process->pid == 0) {
        (void)spawn(lab, node, -1);
    } else if (process->is_ending) {
        process->starts_again = true;
    }
}

/* What a node said last, so that there is a reason beside a status. */
static const char *last_words(const tf_lab *lab, uint32_t node, char out[WORDS_MAX])
{
    char path[PATH_MAX_BYTES];
    (void)snprintf(path, sizeof(path), "%s/%s.log", lab->folder, lab->s->nodes[node].name);
    FILE *file = fopen(path, "re");
    out[0] = '\0';
    if (file == NULL) {
        return out;
    }
    (void)fseek(file, 0, SEEK_END);
    long end = ftell(file);
    (void)fseek(file, end > (long)WORDS_MAX - 1 ? end - ((long)WORDS_MAX - 1) : 0, SEEK_SET);
    size_t len = fread(out, 1, WORDS_MAX - 1, file);
    (void)fclose(file);
    while (len > 0 && out[len - 1] == '\n') {
        len--;
    }
    out[len] = '\0';
    char *line = strrchr(out, '\n');
    return line != NULL ? line + 1 : out;
}

/* The first line that comes, within TF_LAB_SETUP. */
static bool read_line(int fd, char *line, size_t cap)
{
    size_t len = 0;
    tf_time until = tf_edge_now() + TF_LAB_SETUP;
    for (tf_time now = tf_edge_now(); len < cap - 1 && now < until; now = tf_edge_now()) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, (int)((until - now) / TF_MS)) <= 0) {
            continue;
        }
        ssize_t got = read(fd, line + len, cap - 1 - len);
        if (got <= 0) {
            return false;
        }
        len += (size_t)got;
        line[len] = '\0';
        if (strchr(line, '\n') != NULL) {
            *strchr(line, '\n') = '\0';
            return true;
        }
    }
    return false;
}

bool tf_lab_start_relay(tf_lab *lab)
{
    char line[TF_URI_TEXT_MAX];
    char why[TF_WHY_MAX] = "";
    char words[WORDS_MAX];
    int ends[2];
    tf_uri uri;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        tf_lab_fail(lab, "no pipe: %s", strerror(errno));
        return false;
    }
    bool good = spawn(lab, lab->s->relay, ends[1]);
    (void)close(ends[1]);
    good = good && read_line(ends[0], line, sizeof(line)) && tf_uri_parse(&uri, line, why) == TF_OK;
    (void)close(ends[0]);
    if (!good) {
        tf_lab_fail(lab, "%s does not start: %s", lab->options->twofold,
                    why[0] != '\0' ? why : last_words(lab, lab->s->relay, words));
        return false;
    }
    const char *id = line + strlen("twofold://");
    (void)snprintf(lab->relay_id, sizeof(lab->relay_id), "%.*s", (int)strcspn(id, "@"), id);
    lab->port = (uint16_t)strtoul(strrchr(line, ':') + 1, NULL, 10);
    return true;
}

void tf_lab_signal(tf_lab *lab, uint32_t node, int number)
{
    tf_lab_process *process = &lab->processes[node];
    if (process->pid == 0) {
        return;
    }
    process->is_ending = process->is_ending || number == SIGKILL || number == SIGTERM;
    (void)kill(process->pid, number);
}

static void judge_end(tf_lab *lab, uint32_t node, int status)
{
    const char *name = lab->s->nodes[node].name;
    char words[WORDS_MAX];
    const char *error = lab->shared->clients[node].error;
    error = *error != '\0' ? error : last_words(lab, node, words);
    bool was_told = lab->processes[node].is_ending;
    if (WIFSIGNALED(status) && !(was_told && (WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGTERM))) {
        tf_lab_fail(lab, "%s ended by signal %d: %s", name, WTERMSIG(status), error);
    } else if (WIFEXITED(status) && (WEXITSTATUS(status) != 0 || !was_told)) {
        tf_lab_fail(lab, "%s ended by itself with status %d: %s", name, WEXITSTATUS(status), error);
    }
}

void tf_lab_reap(tf_lab *lab)
{
    for (uint32_t i = 0; i < lab->s->node_count; i++) {
        tf_lab_process *process = &lab->processes[i];
        int status = 0;
        if (process->pid == 0 || waitpid(process->pid, &status, WNOHANG) != process->pid) {
            continue;
        }
        bool again = process->starts_again;
        judge_end(lab, i, status);
        *process = (tf_lab_process){0};
        if (again) {
            (void)spawn(lab, i, -1);
        }
    }
}

bool tf_lab_runs_any(const tf_lab *lab, bool clients_only)
{
    for (uint32_t i = 0; i < lab->s->node_count; i++) {
        if (lab->processes[i].pid != 0 && !(clients_only && i == lab->s->relay)) {
            return true;
        }
    }
    return false;
}
