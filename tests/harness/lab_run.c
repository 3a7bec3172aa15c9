/* One run of a scenario, from the first process to the verdict. */
#include <errno.h>
#include <event2/event.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/edge_mem.h"
#include "tests/harness/lab.h"

typedef struct run {
    tf_lab lab;
    tf_lab_reader reader;
    struct event *timer;
    struct event *signals[3];
    tf_lab_timeline timeline;
    tf_time set_up_until;
    tf_time ends_at;  /* since when the clients are to end; 0: they are not */
    bool is_one_gone; /* a client at the end, killed for good: the relay would wait for it before it ends */
    bool interrupted;
} run;

/* -- routes and acts ----------------------------------------------------------------------------------------------- */

static void apply(void *ctx, uint32_t node, tf_route route, tf_scenario_way way, const tf_scenario_state *state)
{
    const run *r = ctx;
    r->lab.kind->apply(r->lab.net, node, route, way, state);
}

static void rebind(const run *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        if (node == UINT32_MAX || node == i) {
            r->lab.kind->rebind(r->lab.net, i);
        }
    }
}

static void act(void *ctx, const tf_scenario_act *a)
{
    run *r = ctx;
    switch (a->kind) {
    case TF_ACT_KILL:
        tf_lab_signal(&r->lab, a->node, SIGKILL);
        return;
    case TF_ACT_TERM:
        tf_lab_signal(&r->lab, a->node, SIGTERM);
        return;
    case TF_ACT_START:
        tf_lab_start(&r->lab, a->node);
        return;
    case TF_ACT_PAUSE:
        tf_lab_signal(&r->lab, a->node, SIGSTOP);
        return;
    case TF_ACT_GO:
        tf_lab_signal(&r->lab, a->node, SIGCONT);
        return;
    case TF_ACT_REBIND:
        rebind(r, a->node);
        return;
    }
}

/* -- the steps of a run -------------------------------------------------------------------------------------------- */

static void set_up(run *r, tf_time now)
{
    if (tf_lab_reader_is_ready(&r->reader)) {
        r->reader.start = now + TF_LAB_POLL;
        atomic_store(&r->lab.shared->start, r->reader.start);
    } else if (now > r->set_up_until) {
        tf_lab_fail(&r->lab, TF_LAB_NOT_READY);
    }
}

static void begin_end(run *r, tf_time now)
{
    r->ends_at = now;
    atomic_store(&r->lab.shared->stop, true);
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        r->is_one_gone = r->is_one_gone || r->lab.processes[i].pid == 0;
        r->lab.processes[i].starts_again = false;
        r->lab.processes[i].is_ending = r->lab.processes[i].is_ending || i != r->lab.s->relay;
    }
}

static void signal_all(run *r, int number, bool clients_only)
{
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        if (!(clients_only && i == r->lab.s->relay)) {
            tf_lab_signal(&r->lab, i, number);
        }
    }
}

/* First the clients end, then the relay. True: all have. */
static bool go_on_ending(run *r, tf_time now)
{
    if (!tf_lab_runs_any(&r->lab, false)) {
        return true;
    }
    if (now > r->ends_at + 2 * TF_LAB_GRACE) {
        tf_lab_fail(&r->lab, "a process did not end, and was killed");
        signal_all(r, SIGKILL, false);
    } else if (!tf_lab_runs_any(&r->lab, true)) {
        if (!r->lab.processes[r->lab.s->relay].is_ending) {
            tf_lab_signal(&r->lab, r->lab.s->relay, r->is_one_gone ? SIGKILL : SIGTERM);
        }
    } else if (now > r->ends_at + TF_LAB_GRACE) {
        tf_lab_fail(&r->lab, "a client did not end, and was killed");
        signal_all(r, SIGKILL, true);
    }
    return false;
}

static void on_timer(int fd, short what, void *ctx)
{
    run *r = ctx;
    tf_time now = tf_edge_now();
    tf_time next = now + TF_LAB_POLL;
    (void)fd;
    (void)what;
    tf_lab_reap(&r->lab);
    tf_lab_reader_read(&r->reader);
    if (r->ends_at != 0) {
        if (go_on_ending(r, now)) {
            (void)event_base_loopbreak(r->lab.base);
            return;
        }
    } else if (r->lab.failure[0] != '\0' || r->interrupted || tf_lab_reader_is_over(&r->reader, tf_edge_now())) {
        begin_end(r, now);
    } else if (r->reader.start == 0) {
        set_up(r, now);
    } else if (now >= r->reader.start) {
        next =
            tf_time_min(next, tf_time_add(r->reader.start, tf_lab_timeline_play(&r->timeline, now - r->reader.start)));
    }
    now = tf_edge_now();
    tf_time wait = next > now ? next - now : 0;
    struct timeval after = {.tv_sec = (time_t)(wait / TF_SECOND), .tv_usec = (suseconds_t)(wait % TF_SECOND)};
    (void)event_add(r->timer, &after);
}

static void on_signal(int number, short what, void *ctx)
{
    run *r = ctx;
    (void)what;
    if (number != SIGCHLD) {
        r->interrupted = true;
        tf_lab_fail(&r->lab, "interrupted");
    }
    event_active(r->timer, EV_TIMEOUT, 0);
}

/* -- around it ----------------------------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void close_run(run *r)
{
    if (tf_lab_runs_any(&r->lab, false)) {
        signal_all(r, SIGKILL, false);
        for (int i = 0; i < 1000 && tf_lab_runs_any(&r->lab, false); i++) {
            (void)usleep(10000);
            tf_lab_reap(&r->lab);
        }
    }
    for (size_t i = 0; i < sizeof(r->signals) / sizeof(r->signals[0]); i++) {
        if (r->signals[i] != NULL) {
            event_free(r->signals[i]);
        }
    }
    if (r->timer != NULL) {
        event_free(r->timer);
    }
    if (r->lab.net != NULL) {
        r->lab.kind->destroy(r->lab.net);
    }
    if (r->lab.base != NULL) {
        event_base_free(r->lab.base);
    }
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        tf_identity_free(r->lab.identities[i]);
    }
    tf_lab_shared_free(r->lab.shared);
    if (r->lab.folder[0] != '\0' && !r->lab.options->keep) {
        (void)nftw(r->lab.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
}

static bool make_folder(tf_lab *lab)
{
    const char *root = getenv("TMPDIR");
    (void)snprintf(lab->folder, sizeof(lab->folder), "%s/twofold-lab-XXXXXX",
                   root != NULL && *root != '\0' ? root : "/tmp");
    if (mkdtemp(lab->folder) == NULL) {
        tf_lab_fail(lab, "%s: %s", lab->folder, strerror(errno));
        lab->folder[0] = '\0';
        return false;
    }
    return true;
}

static bool make_loop(run *r)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM};
    struct event_config *config = event_config_new();
    if (config != NULL) {
        (void)event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
        r->lab.base = event_base_new_with_config(config);
        event_config_free(config);
    }
    bool whole = r->lab.base != NULL;
    if (whole) {
        r->timer = evtimer_new(r->lab.base, on_timer, r);
        whole = r->timer != NULL;
    }
    for (size_t i = 0; whole && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        r->signals[i] = evsignal_new(r->lab.base, numbers[i], on_signal, r);
        whole = r->signals[i] != NULL && event_add(r->signals[i], NULL) == 0;
    }
    return whole;
}

/* Everything up to the first turn of the loop. */
static bool open_run(run *r)
{
    char why[TF_WHY_MAX] = "";
    tf_lab *lab = &r->lab;
    size_t samples = 0;
    lab->shared = tf_lab_shared_new(lab->s);
    if (lab->shared != NULL) {
        samples = lab->shared->clients[0].capacity;
    }
    r->reader = (tf_lab_reader){.s = lab->s, .shared = lab->shared};
    if (lab->shared == NULL || !make_loop(r) ||
        tf_lab_verdict_new(&r->reader.verdict, lab->s, samples, tf_edge_mem()) != TF_OK) {
        tf_lab_fail(lab, "no memory");
        return false;
    }
    for (uint32_t i = 0; i < lab->s->node_count; i++) {
        if (tf_identity_generate(&lab->identities[i], tf_edge_rand()) != TF_OK) {
            tf_lab_fail(lab, "no keys");
            return false;
        }
    }
    if (!make_folder(lab)) {
        return false;
    }
    lab->net = lab->kind->create(lab->s, lab->base, why);
    if (lab->net == NULL) {
        tf_lab_fail(lab, "%s", why);
        return false;
    }
    if (!tf_lab_start_relay(lab)) {
        return false;
    }
    if (!lab->kind->open(lab->net, lab->port, why)) {
        tf_lab_fail(lab, "%s", why);
        return false;
    }
    return true;
}

static void start_clients(run *r)
{
    tf_lab_timeline_begin(&r->timeline);
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        if (i != r->lab.s->relay) {
            tf_lab_start(&r->lab, i);
        }
    }
    r->set_up_until = tf_edge_now() + TF_LAB_SETUP;
}

bool tf_lab_run(const tf_scenario *s, const tf_lab_options *options, tf_lab_verdict **out,
                const tf_lab_results **results, char why[TF_LAB_TEXT_MAX])
{
    run *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        (void)snprintf(why, TF_LAB_TEXT_MAX, "no memory");
        return false;
    }
    r->lab = (tf_lab){.s = s, .options = options};
    r->lab.kind = options->mode == TF_LAB_NAMESPACES ? &tf_lab_namespaces : &tf_lab_forwarders;
    r->timeline = (tf_lab_timeline){.s = s, .apply = apply, .act = act, .ctx = r};
    if (open_run(r)) {
        start_clients(r);
        on_timer(-1, 0, r);
        (void)event_base_dispatch(r->lab.base);
        *results = tf_lab_reader_end(&r->reader, r->ends_at);
    }
    (void)snprintf(why, TF_LAB_TEXT_MAX, "%s", r->lab.failure);
    bool good = r->lab.failure[0] == '\0';
    *out = good ? r->reader.verdict : NULL;
    if (!good) {
        tf_lab_verdict_free(r->reader.verdict);
    }
    if (options->keep && r->lab.folder[0] != '\0') {
        (void)fprintf(stderr, "twofold-lab: logs and the store are in %s\n", r->lab.folder);
    }
    close_run(r);
    free(r);
    return good;
}
