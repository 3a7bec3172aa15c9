/* The drop/retire protocol through relays: worlds of routers and applications, and an observer (README.md).
 *
 *     sim_refs [--shape NAME] [--order] [--seeds A..[B] | --seed S] [--steps N] [--minutes M | --seconds S]
 *     sim_refs --script FILE [--verbose]
 *     sim_refs --one-way */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/refs/one_way.h"
#include "tests/sim/refs/runner.h"

#define SEED_MAX (UINT64_MAX / 4)

typedef struct options {
    batch batch;
    const char *script;
    bool verbose;
    bool one_way;
    bool forever;
    uint64_t seconds;
} options;

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: sim_refs [--shape xy|xry|xrry|star|graph] [--order] [--seeds A..[B] | --seed S] [--steps N]\n"
                  "                [--minutes M | --seconds S]\n"
                  "       sim_refs --script FILE [--verbose]\n"
                  "       sim_refs --one-way\n");
    return 2;
}

static bool parse_number(const char *text, uint64_t *out)
{
    char *end = NULL;
    *out = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static bool parse_seeds(const char *text, batch *b)
{
    char *end = NULL;
    b->first = strtoull(text, &end, 10);
    b->last = b->first;
    if (strcmp(end, "..") == 0) {
        b->last = SEED_MAX;
        return true;
    }
    if (strncmp(end, "..", 2) == 0) {
        b->last = strtoull(end + 2, &end, 10);
    }
    return *end == '\0' && b->last >= b->first;
}

/* An option with a value. */
static bool parse_value(options *o, const char *name, const char *value)
{
    uint64_t n = 0;
    if (strcmp(name, "--shape") == 0) {
        o->batch.any_shape = false;
        return shape_find(value, &o->batch.shape);
    }
    if (strcmp(name, "--seeds") == 0 || strcmp(name, "--seed") == 0) {
        o->forever = false;
        return parse_seeds(value, &o->batch);
    }
    if (strcmp(name, "--script") == 0) {
        o->script = value;
        return true;
    }
    if (strcmp(name, "--steps") == 0) {
        bool ok = parse_number(value, &n) && n > 0 && n <= STEPS_MAX;
        o->batch.steps = (size_t)n;
        return ok;
    }
    if (strcmp(name, "--minutes") == 0 || strcmp(name, "--seconds") == 0) {
        bool ok = parse_number(value, &n) && n > 0 && n < 1000000;
        o->seconds = name[2] == 'm' ? n * 60 : n;
        return ok;
    }
    return false;
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--order") == 0) {
            o->batch.order = true;
        } else if (strcmp(argv[i], "--verbose") == 0) {
            o->verbose = true;
        } else if (strcmp(argv[i], "--one-way") == 0) {
            o->one_way = true;
        } else if (i + 1 == argc || !parse_value(o, argv[i], argv[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

static int run_alone(const plan *p, const step *steps, size_t count, bool verbose)
{
    verdict v;
    runner_once(p, steps, count, verbose, &v);
    if (v.what[0] != '\0') {
        (void)fprintf(stderr, "sim_refs: %s: %s (step %zu)\n", v.what, v.detail, v.step);
        return 1;
    }
    (void)printf("sim_refs: %zu steps, nothing broken\n", count);
    return 0;
}

/* What happens in the first seed. */
static int run_verbose(const batch *b)
{
    static step steps[STEPS_MAX];
    plan p;
    plan_make(&p, b->first, batch_shape(b, b->first), b->order);
    program_make(&p, steps, b->steps);
    return run_alone(&p, steps, b->steps, true);
}

static int run_script(const options *o)
{
    static step steps[STEPS_MAX];
    size_t count = 0;
    plan p;
    FILE *file = fopen(o->script, "re");
    bool ok = file != NULL && program_read(file, &p, steps, &count);
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!ok) {
        (void)fprintf(stderr, "sim_refs: %s is no script\n", o->script);
        return 2;
    }
    return run_alone(&p, steps, count, o->verbose);
}

static void tell(const batch *b, const verdict *v)
{
    static step steps[STEPS_MAX];
    plan p;
    plan_make(&p, v->seed, batch_shape(b, v->seed), b->order);
    program_make(&p, steps, b->steps);
    (void)fprintf(
        stderr, "sim_refs: %s: %s (step %zu)\nsim_refs: again: sim_refs --shape %s%s --seed %" PRIu64 " --steps %zu\n",
        v->what, v->detail, v->step, shape_name(p.shape), b->order ? " --order" : "", v->seed, b->steps);
    size_t count = runner_shrink(&p, steps, b->steps, v->what);
    verdict last;
    runner_once(&p, steps, count, false, &last);
    (void)fprintf(stderr, "sim_refs: with %zu steps: %s: %s\n", count, last.what, last.detail);
    program_print(&p, steps, count, stderr);
}

int main(int argc, char **argv)
{
    options o = {.batch = {.first = 1, .last = 1000, .steps = 300, .any_shape = true}, .forever = true};
    if (!parse(argc, argv, &o)) {
        return usage();
    }
    if (o.one_way) {
        return one_way();
    }
    if (o.script != NULL) {
        return run_script(&o);
    }
    if (o.verbose) {
        return run_verbose(&o.batch);
    }
    if (o.seconds > 0) {
        o.batch.until = time(NULL) + (time_t)o.seconds;
        o.batch.last = o.forever ? SEED_MAX : o.batch.last;
    }
    if (o.batch.last == SEED_MAX && o.seconds == 0) {
        return usage();
    }
    (void)printf("sim_refs: from seed %" PRIu64 ", %zu steps each\n", o.batch.first, o.batch.steps);
    (void)fflush(stdout);
    verdict v;
    if (!runner_batch(&o.batch, &v)) {
        tell(&o.batch, &v);
        return 1;
    }
    (void)printf("sim_refs: %" PRIu64 " programs, each run twice, %" PRIu64 " messages (some held in %" PRIu64
                 " steps, resolutions fenced in %" PRIu64 "), nothing broken\n",
                 v.runs, v.messages, v.held, v.fenced);
    return 0;
}
