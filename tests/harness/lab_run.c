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
    tf_lab_verdict *verdict;
    struct event *timer;
    struct event *signals[3];
    tf_time start;   /* 0: not yet */
    tf_time changed; /* for when the routes are as they should be, from the start; TF_NEVER: as before it */
    tf_scenario_state states[TF_SCENARIO_NODES_MAX][TF_ROUTE_COUNT][TF_WAY_COUNT]; /* as they were applied */
    bool applied;
    uint32_t next_act;
    size_t records_read[TF_SCENARIO_SUBS_MAX];
    size_t samples_read[TF_SCENARIO_NODES_MAX];
    tf_time set_up_until;
    tf_time complete_at; /* since when all is there; 0: it is not */
    tf_time ends_at;     /* since when the clients are to end; 0: they are not */
    bool is_one_gone;    /* a client at the end, killed for good: the relay would wait for it before it ends */
    bool interrupted;
} run;

/* -- routes and acts ----------------------------------------------------------------------------------------------- */

static void apply_client(run *r, uint32_t node, tf_time now)
{
    for (int route = 0; route < TF_ROUTE_COUNT; route++) {
        for (int way = 0; way < TF_WAY_COUNT; way++) {
            tf_scenario_state state;
            tf_scenario_state *before = &r->states[node][route][way];
            tf_scenario_state_at(r->lab.s, node, (tf_route)route, (tf_scenario_way)way, now, &state);
            if (!r->applied || memcmp(&state, before, sizeof(state)) != 0) {
                *before = state;
                r->lab.kind->apply(r->lab.net, node, (tf_route)route, (tf_scenario_way)way, &state);
            }
        }
    }
}

static void apply_all(run *r, tf_time now)
{
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        if (!r->lab.s->nodes[i].is_relay && !r->lab.s->nodes[i].is_direct) {
            apply_client(r, i, now);
        }
    }
    r->applied = true;
    r->changed = now;
}

static void rebind(run *r, uint32_t node)
{
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        if ((node == UINT32_MAX || node == i) && r->lab.kind->rebind != NULL) {
            r->lab.kind->rebind(r->lab.net, i);
        }
    }
}

static void act(run *r, const tf_scenario_act *a)
{
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

/* Does what is due by now. When the next thing is. */
static tf_time play(run *r, tf_time now)
{
    const tf_scenario *s = r->lab.s;
    if (r->changed == TF_NEVER || tf_scenario_next_change(s, r->changed) <= now) {
        apply_all(r, now);
    }
    while (r->next_act < s->act_count && s->acts[r->next_act].at <= now) {
        act(r, &s->acts[r->next_act++]);
    }
    tf_time next = tf_scenario_next_change(s, now);
    return r->next_act < s->act_count ? tf_time_min(next, s->acts[r->next_act].at) : next;
}

/* -- what the clients saw ------------------------------------------------------------------------------------------ */

static void read_records(run *r)
{
    for (uint32_t i = 0; i < r->lab.s->sub_count; i++) {
        const tf_lab_shared_sub *sub = &r->lab.shared->subs[i];
        size_t count = atomic_load(&sub->count);
        for (size_t *at = &r->records_read[i]; *at < count; ++*at) {
            const tf_lab_record *record = &sub->records[*at < sub->capacity ? *at : sub->capacity - 1];
            tf_time when = record->at > r->start ? record->at - r->start : 0;
            tf_lab_verdict_delivered(r->verdict, i, record->flow, record->number, when, record->intact);
        }
    }
}

static void read_samples(run *r)
{
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        const tf_lab_shared_client *client = &r->lab.shared->clients[i];
        size_t count = atomic_load(&client->count);
        for (; r->samples_read[i] < count; r->samples_read[i]++) {
            tf_lab_verdict_sample(r->verdict, i, &client->samples[r->samples_read[i]]);
        }
    }
}

static void read_messages(run *r)
{
    for (uint32_t i = 0; i < r->lab.s->flow_count; i++) {
        for (uint32_t k = 0; k < r->lab.s->flows[i].count; k++) {
            uint8_t state = r->lab.shared->flows[i].messages[k];
            if (state != TF_LAB_UNSENT) {
                tf_lab_verdict_sent(r->verdict, i, k);
            }
            if (state == TF_LAB_ACKED) {
                tf_lab_verdict_acked(r->verdict, i, k);
            } else if (state == TF_LAB_REFUSED) {
                tf_lab_verdict_refused(r->verdict, i, k);
            }
        }
    }
}

static bool is_complete(const run *r)
{
    bool complete = true;
    for (uint32_t i = 0; i < r->lab.s->flow_count && complete; i++) {
        complete = atomic_load(&r->lab.shared->flows[i].answered) >= r->lab.s->flows[i].count;
    }
    for (uint32_t i = 0; i < r->lab.s->sub_count && complete; i++) {
        complete = tf_lab_verdict_is_complete(r->verdict, i);
    }
    return complete;
}

/* -- the steps of a run -------------------------------------------------------------------------------------------- */

static bool clients_are_ready(const run *r)
{
    for (uint32_t i = 0; i < r->lab.s->node_count; i++) {
        if (i != r->lab.s->relay && !atomic_load(&r->lab.shared->clients[i].ready)) {
            return false;
        }
    }
    return true;
}

static void set_up(run *r, tf_time now)
{
    if (clients_are_ready(r)) {
        r->start = now + TF_LAB_POLL;
        atomic_store(&r->lab.shared->start, r->start);
    } else if (now > r->set_up_until) {
        tf_lab_fail(&r->lab, "a client could not connect and subscribe within %d s", (int)(TF_LAB_SETUP / TF_SECOND));
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

/* Whether the run is over, for better or worse. */
static bool is_over(run *r, tf_time now)
{
    tf_time length = tf_scenario_length(r->lab.s);
    if (r->start == 0 || now < r->start + length) {
        return false;
    }
    if (!is_complete(r)) {
        r->complete_at = 0;
        return now > r->start + length + r->lab.s->patience;
    }
    /* Not `now`: what was read meanwhile may have come after it. */
    r->complete_at = r->complete_at == 0 ? tf_edge_now() : r->complete_at;
    return now >= r->complete_at + TF_LAB_LINGER;
}

static void on_timer(int fd, short what, void *ctx)
{
    run *r = ctx;
    tf_time now = tf_edge_now();
    tf_time next = now + TF_LAB_POLL;
    (void)fd;
    (void)what;
    tf_lab_reap(&r->lab);
    read_records(r);
    read_samples(r);
    if (r->ends_at != 0) {
        if (go_on_ending(r, now)) {
            (void)event_base_loopbreak(r->lab.base);
            return;
        }
    } else if (r->lab.failure[0] != '\0' || r->interrupted || is_over(r, now)) {
        begin_end(r, now);
    } else if (r->start == 0) {
        set_up(r, now);
    } else if (now >= r->start) {
        next = tf_time_min(next, tf_time_add(r->start, play(r, now - r->start)));
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
    if (lab->shared == NULL || !make_loop(r) ||
        tf_lab_verdict_new(&r->verdict, lab->s, samples, tf_edge_mem()) != TF_OK) {
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
    apply_all(r, TF_NEVER);
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
    r->changed = TF_NEVER;
    if (open_run(r)) {
        start_clients(r);
        on_timer(-1, 0, r);
        (void)event_base_dispatch(r->lab.base);
        read_messages(r);
        tf_time end = r->complete_at != 0 ? r->complete_at : r->ends_at;
        *results = tf_lab_verdict_end(r->verdict, r->start != 0 && end > r->start ? end - r->start : 0);
    }
    (void)snprintf(why, TF_LAB_TEXT_MAX, "%s", r->lab.failure);
    bool good = r->lab.failure[0] == '\0';
    *out = good ? r->verdict : NULL;
    if (!good) {
        tf_lab_verdict_free(r->verdict);
    }
    if (options->keep && r->lab.folder[0] != '\0') {
        (void)fprintf(stderr, "twofold-lab: logs and the store are in %s\n", r->lab.folder);
    }
    close_run(r);
    free(r);
    return good;
}
