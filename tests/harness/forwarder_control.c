#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/harness/forwarder.h"

#define LINE_MAX_BYTES 256u
#define WORDS_MAX 4
#define SESSIONS_MAX 32u
#define ANSWER_MAX 4096u
#define INPUT_MAX 65536u   /* commands of one session that wait */
#define UNREAD_MAX 262144u /* answers that one session has not read */

/* One who gives commands: a connection to the unix socket, or stdin. */
typedef struct session {
    struct session *next;
    tf_fwd_control *control;
    struct bufferevent *in;
    bool is_stdin;
} session;

struct tf_fwd_control {
    const tf_fwd_target *target;
    const char *path;
    int fd;
    struct event *acceptable;
    session *sessions;
    size_t session_count;
};

typedef struct words {
    const char *word[WORDS_MAX];
    size_t count;
} words;

static words split(char *line)
{
    words w = {.count = 0};
    char *rest = NULL;
    for (char *at = strtok_r(line, " \t\r", &rest); at != NULL; at = strtok_r(NULL, " \t\r", &rest)) {
        if (w.count == WORDS_MAX) {
            w.count = 0; /* too many: no command has as many */
            return w;
        }
        w.word[w.count++] = at;
    }
    return w;
}

static bool is(const words *w, size_t at, const char *text)
{
    return at < w->count && strcmp(w->word[at], text) == 0;
}

/* The directions named by the word at the end, both if there is none. False: it names no direction. */
static bool directions_of(const words *w, size_t at, tf_fwd_directions *directions)
{
    *directions = TF_FWD_BOTH;
    if (w->count <= at) {
        return true;
    }
    if (is(w, at, "up")) {
        *directions = 1u << TF_FWD_UP;
    } else if (is(w, at, "down")) {
        *directions = 1u << TF_FWD_DOWN;
    } else {
        return false;
    }
    return w->count == at + 1;
}

/* A number from 0 to max, times scale. */
static bool number_of(const words *w, size_t at, double max, double scale, uint64_t *value)
{
    if (at >= w->count) {
        return false;
    }
    char *end = NULL;
    errno = 0;
    double number = strtod(w->word[at], &end);
    if (errno != 0 || end == w->word[at] || *end != '\0' || !(number >= 0 && number <= max)) {
        return false;
    }
    *value = (uint64_t)(number * scale + 0.5);
    return true;
}

static bool command_stream(const tf_fwd_target *target, const words *w)
{
    tf_fwd_directions directions;
    if (!directions_of(w, 2, &directions)) {
        return false;
    }
    if (is(w, 1, "stall") || is(w, 1, "flow")) {
        tf_fwd_tcp_stall(target->tcp, directions, is(w, 1, "stall"));
        return true;
    }
    if (w->count == 2 && (is(w, 1, "cut") || is(w, 1, "heal"))) {
        tf_fwd_tcp_cut(target->tcp, is(w, 1, "cut"));
        return true;
    }
    return false;
}

static bool command_datagram(const tf_fwd_target *target, const words *w)
{
    tf_fwd_directions directions;
    if (!directions_of(w, 2, &directions)) {
        return false;
    }
    if (is(w, 1, "cut") || is(w, 1, "heal")) {
        tf_fwd_udp_fault(target->udp, directions, TF_FWD_CUT, is(w, 1, "cut") ? 1 : 0);
        return true;
    }
    if (w->count == 2 && is(w, 1, "rebind")) {
        tf_fwd_udp_rebind(target->udp);
        return true;
    }
    return false;
}

static bool command_number(const tf_fwd_target *target, const words *w)
{
    static const struct {
        const char *name;
        tf_fwd_fault fault; /* TF_FWD_FAULTS: none of them, but the time after which streams are closed */
        bool of_stream;
        double max;
        double scale;
    } rows[] = {
        {"udp-drop", TF_FWD_DROP, false, 100, 10000},
        {"udp-burst", TF_FWD_BURST, false, 1000, 1},
        {"udp-repeat", TF_FWD_REPEAT, false, 100, 10000},
        {"udp-reorder", TF_FWD_REORDER, false, 100, 10000},
        {"udp-delay", TF_FWD_DELAY, false, TF_FWD_DELAY_MAX_MS, 1000},
        {"udp-jitter", TF_FWD_JITTER, false, TF_FWD_DELAY_MAX_MS, 1000},
        {"udp-rate", TF_FWD_RATE, false, 1e8, 1000},
        {"udp-queue", TF_FWD_QUEUE, false, TF_FWD_PACKET_BYTES_MAX, 1},
        {"udp-bloat", TF_FWD_BLOAT, false, TF_FWD_DELAY_MAX_MS, 1000},
        {"udp-mtu", TF_FWD_MTU, false, 65535, 1},
        {"tcp-drop", TF_FWD_DROP, true, 100, 10000},
        {"tcp-burst", TF_FWD_BURST, true, 1000, 1},
        {"tcp-delay", TF_FWD_DELAY, true, TF_FWD_DELAY_MAX_MS, 1000},
        {"tcp-jitter", TF_FWD_JITTER, true, TF_FWD_DELAY_MAX_MS, 1000},
        {"tcp-rate", TF_FWD_RATE, true, 1e8, 1000},
        {"tcp-queue", TF_FWD_QUEUE, true, TF_FWD_PACKET_BYTES_MAX, 1},
        {"tcp-bloat", TF_FWD_BLOAT, true, TF_FWD_DELAY_MAX_MS, 1000},
        {"tcp-close-every", TF_FWD_FAULTS, true, TF_FWD_DELAY_MAX_MS, 1000},
    };
    tf_fwd_directions directions;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t value;
        if (!is(w, 0, rows[i].name) || !number_of(w, 1, rows[i].max, rows[i].scale, &value) ||
            !directions_of(w, 2, &directions)) {
            continue;
        }
        if (!rows[i].of_stream) {
            tf_fwd_udp_fault(target->udp, directions, rows[i].fault, value);
        } else if (rows[i].fault != TF_FWD_FAULTS) {
            tf_fwd_tcp_fault(target->tcp, directions, rows[i].fault, value);
        } else if (w->count == 2) {
            tf_fwd_tcp_close_every(target->tcp, value);
        } else {
            return false;
        }
        return true;
    }
    return false;
}

static void answer_stats(const tf_fwd_target *target, FILE *answer)
{
    tf_fwd_tcp_stats(target->tcp, answer);
    (void)fputc(' ', answer);
    tf_fwd_udp_stats(target->udp, answer);
    (void)fputc('\n', answer);
}

bool tf_fwd_command(const tf_fwd_target *target, char *line, FILE *answer)
{
    words w = split(line);
    bool done;
    if (w.count == 1 && is(&w, 0, "stats") && answer != NULL) {
        answer_stats(target, answer);
        return true;
    }
    if (w.count == 1 && is(&w, 0, "quit")) {
        done = event_base_loopexit(target->common->base, NULL) == 0;
    } else if (is(&w, 0, "stream")) {
        done = command_stream(target, &w);
    } else if (is(&w, 0, "datagram")) {
        done = command_datagram(target, &w);
    } else {
        done = command_number(target, &w);
    }
    if (answer != NULL) {
        (void)fputs(done ? "ok\n" : "error: no such command, or its number is out of range\n", answer);
    }
    return done;
}

static void session_free(session *s)
{
    tf_fwd_control *control = s->control;
    for (session **at = &control->sessions; *at != NULL; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    control->session_count--;
    bufferevent_free(s->in);
    free(s);
}

static void session_answer(session *s, char *line)
{
    char text[ANSWER_MAX];
    FILE *answer = fmemopen(text, sizeof(text), "w");
    if (answer == NULL) {
        return;
    }
    (void)tf_fwd_command(s->control->target, line, answer);
    long len = ftell(answer);
    (void)fclose(answer);
    if (len <= 0) {
        return;
    }
    if (s->is_stdin) {
        (void)fwrite(text, 1, (size_t)len, stdout);
        (void)fflush(stdout);
    } else {
        (void)bufferevent_write(s->in, text, (size_t)len);
    }
}

static void on_lines(struct bufferevent *in, void *ctx)
{
    session *s = ctx;
    struct evbuffer *input = bufferevent_get_input(in);
    char *line;
    while ((line = evbuffer_readln(input, NULL, EVBUFFER_EOL_LF)) != NULL) {
        session_answer(s, line);
        free(line);
    }
    bool silly =
        evbuffer_get_length(input) > LINE_MAX_BYTES || evbuffer_get_length(bufferevent_get_output(in)) > UNREAD_MAX;
    if (silly && !s->is_stdin) {
        session_free(s);
    } else if (silly) {
        (void)evbuffer_drain(input, evbuffer_get_length(input));
    }
}

static void on_end(struct bufferevent *in, short what, void *ctx)
{
    session *s = ctx;
    (void)in;
    (void)what;
    if (s->is_stdin) {
        (void)event_base_loopexit(s->control->target->common->base, NULL);
    }
    session_free(s);
}

/* Takes the descriptor, also when it fails. */
static bool session_new(tf_fwd_control *control, int fd, bool is_stdin)
{
    session *s = calloc(1, sizeof(*s));
    int options = is_stdin ? 0 : BEV_OPT_CLOSE_ON_FREE;
    struct bufferevent *in = s == NULL || control->session_count >= SESSIONS_MAX
                                 ? NULL
                                 : bufferevent_socket_new(control->target->common->base, fd, options);
    if (in == NULL) {
        free(s);
        (void)close(fd);
        return false;
    }
    *s = (session){.next = control->sessions, .control = control, .in = in, .is_stdin = is_stdin};
    control->sessions = s;
    control->session_count++;
    bufferevent_setwatermark(in, EV_READ, 0, INPUT_MAX);
    bufferevent_setcb(in, on_lines, NULL, on_end, s);
    return bufferevent_enable(in, EV_READ) == 0;
}

static void on_acceptable(evutil_socket_t listener, short what, void *ctx)
{
    (void)what;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        (void)session_new(ctx, fd, false);
    }
}

static bool listen_unix(tf_fwd_control *control)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    size_t len = strlen(control->path);
    if (len >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(address.sun_path, control->path, len);
    if (lstat(control->path, &status) == 0 && S_ISSOCK(status.st_mode)) {
        (void)unlink(control->path);
    }
    control->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (control->fd < 0 || bind(control->fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(control->fd, (int)SESSIONS_MAX) != 0) {
        return false;
    }
    struct event_base *base = control->target->common->base;
    control->acceptable = event_new(base, control->fd, EV_READ | EV_PERSIST, on_acceptable, control);
    return control->acceptable != NULL && event_add(control->acceptable, NULL) == 0;
}

tf_fwd_control *tf_fwd_control_new(const tf_fwd_target *target, const char *path, bool from_stdin)
{
    tf_fwd_control *control = calloc(1, sizeof(*control));
    if (control == NULL) {
        return NULL;
    }
    *control = (tf_fwd_control){.target = target, .path = path, .fd = -1};
    bool whole = path == NULL || listen_unix(control);
    if (whole && from_stdin) {
        whole = evutil_make_socket_nonblocking(STDIN_FILENO) == 0 && session_new(control, STDIN_FILENO, true);
    }
    if (!whole) {
        perror("tf-forwarder: control");
        tf_fwd_control_free(control);
        return NULL;
    }
    return control;
}

void tf_fwd_control_free(tf_fwd_control *control)
{
    if (control == NULL) {
        return;
    }
    for (session *s = control->sessions; s != NULL;) {
        session *next = s->next;
        session_free(s);
        s = next;
    }
    if (control->acceptable != NULL) {
        event_free(control->acceptable);
        (void)unlink(control->path);
    }
    if (control->fd >= 0) {
        (void)close(control->fd);
    }
    free(control);
}
