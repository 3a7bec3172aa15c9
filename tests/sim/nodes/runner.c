#include "tests/sim/nodes/runner.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/nodes/world.h"

#define SHRINK_RUNS 3000u
#define HANG_SECONDS 300u /* ends what hangs, judges nothing */
#define KEPT_BYTES (512 * 1024 * 1024)
#define DIFFER "two runs differ"

static verdict *board; /* of the process that runs worlds */

_Noreturn void world_fail(const world *w, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(board->detail, sizeof(board->detail), format, arguments);
    va_end(arguments);
    (void)snprintf(board->what, sizeof(board->what), "%s", what);
    board->at = w->cluster == NULL ? 0 : world_now(w);
    (void)fflush(NULL);
    _exit(1);
}

void world_say(const world *w, const char *format, ...)
{
    if (!w->verbose) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    (void)printf("%10" PRIu64 "  ", (uint64_t)world_now(w));
    (void)vprintf(format, arguments);
    (void)printf("\n");
    (void)fflush(stdout);
    va_end(arguments);
}

/* -- in the process of the worlds ---------------------------------------------------------------------------------- */

static uint64_t run(const plan *p, const step *steps, size_t count, bool verbose)
{
    static world w;
    (void)alarm(HANG_SECONDS);
    uint64_t trace = world_run(&w, p, steps, count, verbose);
    board->acks += w.acks;
    board->deliveries += w.deliveries;
    board->losses += w.losses;
    board->latest = tf_time_max(board->latest, w.latest);
    return trace;
}

static void run_twice(const plan *p, const step *steps, size_t count)
{
    uint64_t trace = run(p, steps, count, false);
    if (run(p, steps, count, false) != trace) {
        (void)snprintf(board->what, sizeof(board->what), DIFFER);
        _exit(1);
    }
}

void batch_plan(const batch *b, uint64_t seed, plan *p)
{
    plan_make(p, seed, b->size);
    if (!b->any_disk) {
        plan_set_disk(p, b->disk);
    }
}

static void run_batch(const batch *b, const bool *stop)
{
    static step steps[STEPS_MAX];
    while (board->seed <= b->last && (b->until == 0 || time(NULL) < b->until) && !*(const volatile bool *)stop) {
        plan p;
        batch_plan(b, board->seed, &p);
        run_twice(&p, steps, plan_steps(&p, steps));
        board->runs++;
        board->seed += b->jobs;
    }
}

/* -- outside ------------------------------------------------------------------------------------------------------- */

static void *share(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}

/* Forks; 0 in the child, which must leave by _exit. */
static pid_t enter(verdict *shared)
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        abort();
    }
    if (child == 0) {
        board = shared;
        (void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES); /* what is large is taken and given back all the time */
        (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    }
    return child;
}

/* It ended: how, if it could not say so itself. */
static void judge(verdict *shared, int status)
{
    if (status != 0 && shared->what[0] == '\0') {
        (void)snprintf(shared->what, sizeof(shared->what), "it died: %s %d", WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

void runner_once(const plan *p, const step *steps, size_t count, bool verbose, bool twice, verdict *v)
{
    verdict *shared = share(sizeof(*shared));
    int status = 0;
    pid_t child = enter(shared);
    if (child == 0) {
        if (twice) {
            run_twice(p, steps, count);
        } else {
            (void)run(p, steps, count, verbose);
        }
        (void)fflush(NULL);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child) {
        abort();
    }
    judge(shared, status);
    *v = *shared;
    (void)munmap(shared, sizeof(*shared));
}

/* -- many ---------------------------------------------------------------------------------------------------------- */

typedef struct crew {
    verdict boards[RUNNER_JOBS_MAX];
    bool stop;
} crew;

static pid_t begin(const batch *b, crew *c, unsigned job)
{
    pid_t child = enter(&c->boards[job]);
    if (child == 0) {
        run_batch(b, &c->stop);
        _exit(0);
    }
    return child;
}

/* True: the job has more to do, behind the seed that failed. */
static bool take_failure(const batch *b, crew *c, unsigned job, outcome *out)
{
    verdict *v = &c->boards[job];
    if (v->what[0] == '\0') {
        return false;
    }
    out->failures[out->failed++] = *v;
    if (out->failed == RUNNER_FAILURES_MAX) {
        c->stop = true;
    }
    v->what[0] = '\0';
    v->detail[0] = '\0';
    v->seed += b->jobs;
    return !c->stop;
}

static void add_up(outcome *out, const crew *c, unsigned jobs)
{
    for (unsigned job = 0; job < jobs; job++) {
        const verdict *v = &c->boards[job];
        out->sum.runs += v->runs;
        out->sum.acks += v->acks;
        out->sum.deliveries += v->deliveries;
        out->sum.losses += v->losses;
        out->sum.latest = tf_time_max(out->sum.latest, v->latest);
    }
}

void runner_batch(const batch *b, outcome *out)
{
    pid_t children[RUNNER_JOBS_MAX];
    crew *c = share(sizeof(*c));
    unsigned left = b->jobs;
    *out = (outcome){0};
    for (unsigned job = 0; job < b->jobs; job++) {
        c->boards[job].seed = b->first + job;
        children[job] = begin(b, c, job);
    }
    while (left > 0) {
        int status = 0;
        pid_t child = waitpid(-1, &status, 0);
        unsigned job = 0;
        while (job < b->jobs && children[job] != child) {
            job++;
        }
        if (child < 0 || job == b->jobs) {
            abort();
        }
        judge(&c->boards[job], status);
        if (take_failure(b, c, job, out)) {
            children[job] = begin(b, c, job);
        } else {
            left--;
        }
    }
    add_up(out, c, b->jobs);
    (void)munmap(c, sizeof(*c));
}

/* -- shrinking ----------------------------------------------------------------------------------------------------- */

static bool fails(const plan *p, const step *steps, size_t count, const char *what)
{
    verdict v;
    runner_once(p, steps, count, false, strcmp(what, DIFFER) == 0, &v);
    return strcmp(v.what, what) == 0;
}

/* Without the steps from `at` to `at + chunk`: true when it still fails, and then they are gone. */
static bool try_without(const plan *p, step *steps, size_t *count, size_t at, size_t chunk, const char *what)
{
    static step fewer[STEPS_MAX];
    size_t behind = at + chunk < *count ? at + chunk : *count;
    memcpy(fewer, steps, at * sizeof(*steps));
    memcpy(fewer + at, steps + behind, (*count - behind) * sizeof(*steps));
    size_t left = *count - (behind - at);
    if (!fails(p, fewer, left, what)) {
        return false;
    }
    memcpy(steps, fewer, left * sizeof(*steps));
    *count = left;
    return true;
}

/* What a sanitizer says each time is not for the reader. */
static int mute(void)
{
    (void)fflush(NULL);
    int kept = dup(STDERR_FILENO);
    int nowhere = memfd_create("nowhere", 0);
    if (kept < 0 || nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0) {
        abort();
    }
    (void)close(nowhere);
    return kept;
}

/* Once through the steps with pieces of that size. */
static bool try_chunks(const plan *p, step *steps, size_t *count, size_t chunk, size_t *runs, const char *what)
{
    bool smaller = false;
    for (size_t at = 0; at < *count && *runs < SHRINK_RUNS; (*runs)++) {
        if (try_without(p, steps, count, at, chunk, what)) {
            smaller = true;
        } else {
            at += chunk;
        }
    }
    return smaller;
}

size_t runner_shrink(const plan *p, step *steps, size_t count, const char *what)
{
    int kept = mute();
    size_t runs = 0;
    for (bool smaller = true; smaller && runs < SHRINK_RUNS;) {
        smaller = false;
        for (size_t chunk = count / 2 + 1; chunk > 0; chunk /= 2) {
            smaller = try_chunks(p, steps, &count, chunk, &runs, what) || smaller;
        }
    }
    (void)dup2(kept, STDERR_FILENO);
    (void)close(kept);
    return count;
}
