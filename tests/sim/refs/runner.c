#include "tests/sim/refs/runner.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/sim/refs/world.h"

#define SHRINK_RUNS 4000u

static verdict *board; /* of the process that runs a world */

_Noreturn void world_fail(const world *w, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(board->detail, sizeof(board->detail), format, arguments);
    va_end(arguments);
    (void)snprintf(board->what, sizeof(board->what), "%s", what);
    board->step = w->step;
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
    (void)printf("%6zu  ", w->step);
    (void)vprintf(format, arguments);
    (void)printf("\n");
    va_end(arguments);
}

/* -- in the process of the world ----------------------------------------------------------------------------------- */

static uint64_t run(const plan *p, const step *steps, size_t count, bool alone, bool verbose)
{
    static world w;
    world_init(&w, p, verbose);
    w.thorough = alone;
    for (size_t i = 0; i < count; i++) {
        board->step = i;
        world_step(&w, &steps[i]);
    }
    board->step = count;
    world_end(&w);
    board->messages += w.received;
    board->held += w.held;
    board->fenced += w.fenced;
    world_free(&w);
    return w.trace;
}

shape batch_shape(const batch *b, uint64_t seed)
{
    return b->any_shape ? (shape)(seed % SHAPE_COUNT) : b->shape;
}

static void run_batch(const batch *b)
{
    static step steps[STEPS_MAX];
    for (uint64_t seed = b->first; seed <= b->last && (b->until == 0 || time(NULL) < b->until); seed++) {
        plan p;
        plan_make(&p, seed, batch_shape(b, seed), b->order);
        program_make(&p, steps, b->steps);
        board->seed = seed;
        uint64_t trace = run(&p, steps, b->steps, false, false);
        if (run(&p, steps, b->steps, false, false) != trace) {
            (void)snprintf(board->what, sizeof(board->what), "two runs differ");
            _exit(1);
        }
        board->runs++;
    }
}

/* -- outside ------------------------------------------------------------------------------------------------------- */

/* Forks; the child comes back with true and must leave by _exit. The parent waits for it. */
static bool enter(verdict *shared)
{
    *shared = (verdict){0};
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        board = shared;
        return true;
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        abort();
    }
    if (status != 0 && shared->what[0] == '\0') {
        (void)snprintf(shared->what, sizeof(shared->what), "it died: %s %d", WIFSIGNALED(status) ? "signal" : "status",
                       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    return false;
}

static verdict *share(void)
{
    void *memory = mmap(NULL, sizeof(verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}

bool runner_batch(const batch *b, verdict *v)
{
    verdict *shared = share();
    if (enter(shared)) {
        run_batch(b);
        _exit(0);
    }
    *v = *shared;
    (void)munmap(shared, sizeof(*shared));
    return v->what[0] == '\0';
}

void runner_once(const plan *p, const step *steps, size_t count, bool verbose, verdict *v)
{
    verdict *shared = share();
    if (enter(shared)) {
        (void)run(p, steps, count, true, verbose);
        (void)fflush(NULL);
        _exit(0);
    }
    *v = *shared;
    (void)munmap(shared, sizeof(*shared));
}

/* -- shrinking ----------------------------------------------------------------------------------------------------- */

static bool fails(const plan *p, const step *steps, size_t count, const char *what)
{
    verdict v;
    runner_once(p, steps, count, false, &v);
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

/* Once through the program with pieces of that size. */
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
