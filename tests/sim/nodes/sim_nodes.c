/* Whole nodes from a seed: relays and clients, routes, disks, and what goes wrong with them (README.md).
 *
 *     sim_nodes [--seeds A..[B]] [--minutes N | --seconds N] [--jobs N] [--size tiny|small|large] [--disk slow|real]
 *     sim_nodes --seed N [--shrink] [--verbose] [--size …] [--disk …]
 *     sim_nodes --script FILE [--verbose] */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/nodes/runner.h"

#define SEED_MAX (UINT64_MAX / 4)
#define SEEDS_DEFAULT 1000u

typedef struct options {
    batch batch;
    const char *script;
    bool one; /* --seed */
    bool shrink;
    bool verbose;
    bool forever;
    uint64_t seconds;
} options;

static int usage(void)
{
    (void)fprintf(stderr, "usage: sim_nodes [--seeds A..[B]] [--minutes N | --seconds N] [--jobs N]\n"
                          "                 [--size tiny|small|large] [--disk slow|real]\n"
                          "       sim_nodes --seed N [--shrink] [--verbose] [--size ...] [--disk ...]\n"
                          "       sim_nodes --script FILE [--verbose]\n");
    return 2;
}

/* -- options ------------------------------------------------------------------------------------------------------- */

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

static bool parse_count(options *o, const char *name, const char *value)
{
    uint64_t n = 0;
    if (!parse_number(value, &n) || n == 0 || n > 1000000) {
        return false;
    }
    if (strcmp(name, "--jobs") == 0) {
        o->batch.jobs = n > RUNNER_JOBS_MAX ? RUNNER_JOBS_MAX : (unsigned)n;
    } else {
        o->seconds = strcmp(name, "--minutes") == 0 ? n * 60 : n;
    }
    return true;
}

/* An option with a value. */
static bool parse_value(options *o, const char *name, const char *value)
{
    if (strcmp(name, "--size") == 0) {
        return size_find(value, &o->batch.size);
    }
    if (strcmp(name, "--disk") == 0) {
        o->batch.any_disk = false;
        o->batch.disk = strcmp(value, "real") == 0 ? DISK_REAL : DISK_SLOW;
        return o->batch.disk == DISK_REAL || strcmp(value, "slow") == 0;
    }
    if (strcmp(name, "--seeds") == 0 || strcmp(name, "--seed") == 0) {
        o->forever = false;
        o->one = strcmp(name, "--seed") == 0;
        return parse_seeds(value, &o->batch);
    }
    if (strcmp(name, "--script") == 0) {
        o->script = value;
        return true;
    }
    if (strcmp(name, "--minutes") == 0 || strcmp(name, "--seconds") == 0 || strcmp(name, "--jobs") == 0) {
        return parse_count(o, name, value);
    }
    return false;
}

static bool parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            o->verbose = true;
        } else if (strcmp(argv[i], "--shrink") == 0) {
            o->shrink = true;
        } else if (i + 1 == argc || !parse_value(o, argv[i], argv[i + 1])) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

/* -- one ----------------------------------------------------------------------------------------------------------- */

static void tell(const verdict *v)
{
    (void)fprintf(stderr, "sim_nodes: %s: %s (at %" PRIu64 " us)\n", v->what, v->detail, (uint64_t)v->at);
}

static void shrink(const plan *p, step *steps, size_t count, const char *what)
{
    verdict v;
    count = runner_shrink(p, steps, count, what);
    runner_once(p, steps, count, false, false, &v);
    (void)fprintf(stderr, "sim_nodes: with %zu steps:\n", count);
    tell(&v);
    plan_print(p, steps, count, stderr);
}

static int run_one(const plan *p, step *steps, size_t count, const options *o)
{
    verdict v;
    runner_once(p, steps, count, o->verbose, !o->verbose, &v);
    if (v.what[0] == '\0') {
        (void)printf("sim_nodes: %zu steps, %" PRIu64 " acks, %" PRIu64 " deliveries, %" PRIu64
                     " sessions lost, nothing broken\n",
                     count, v.acks, v.deliveries, v.losses);
        return 0;
    }
    tell(&v);
    if (o->shrink) {
        shrink(p, steps, count, v.what);
    }
    return 1;
}

static int run_seed(const options *o)
{
    static step steps[STEPS_MAX];
    plan p;
    batch_plan(&o->batch, o->batch.first, &p);
    return run_one(&p, steps, plan_steps(&p, steps), o);
}

static int run_script(const options *o)
{
    static step steps[STEPS_MAX];
    size_t count = 0;
    plan p;
    FILE *file = fopen(o->script, "re");
    bool ok = file != NULL && plan_read(file, &p, steps, &count);
    if (file != NULL) {
        (void)fclose(file);
    }
    if (!ok) {
        (void)fprintf(stderr, "sim_nodes: %s is no script\n", o->script);
        return 2;
    }
    return run_one(&p, steps, count, o);
}

/* -- many ---------------------------------------------------------------------------------------------------------- */

static void tell_again(const batch *b, const verdict *v)
{
    tell(v);
    (void)fprintf(stderr, "sim_nodes: again: sim_nodes --seed %" PRIu64 "%s%s%s --shrink\n", v->seed,
                  b->size == SIZE_ANY ? "" : " --size ", b->size == SIZE_ANY ? "" : size_name(b->size),
                  b->any_disk            ? ""
                  : b->disk == DISK_REAL ? " --disk real"
                                         : " --disk slow");
}

static int run_many(const batch *b)
{
    static step steps[STEPS_MAX];
    static outcome o;
    (void)printf("sim_nodes: from seed %" PRIu64 ", %u at a time\n", b->first, b->jobs);
    runner_batch(b, &o);
    for (uint64_t i = 0; i < o.failed; i++) {
        tell_again(b, &o.failures[i]);
    }
    if (o.failed > 0) {
        plan p;
        batch_plan(b, o.failures[0].seed, &p);
        shrink(&p, steps, plan_steps(&p, steps), o.failures[0].what);
    }
    (void)printf("sim_nodes: each seed twice: %" PRIu64 " acks, %" PRIu64 " deliveries, %" PRIu64
                 " sessions lost; with one route that is well nothing was later than by %" PRIu64 " us\n",
                 o.sum.acks, o.sum.deliveries, o.sum.losses, (uint64_t)o.sum.latest);
    (void)printf("%" PRIu64 " passed, %" PRIu64 " failed, 0 skipped\n", o.sum.runs, o.failed);
    return o.failed > 0 ? 1 : 0;
}

int main(int argc, char **argv)
{
    options o = {.batch = {.first = 1, .last = SEEDS_DEFAULT, .any_disk = true, .jobs = 1}, .forever = true};
    if (!parse(argc, argv, &o)) {
        return usage();
    }
    if (o.script != NULL) {
        return run_script(&o);
    }
    if (o.one) {
        return run_seed(&o);
    }
    if (o.seconds > 0) {
        o.batch.until = time(NULL) + (time_t)o.seconds;
        o.batch.last = o.forever ? SEED_MAX : o.batch.last;
    }
    if (o.batch.last == SEED_MAX && o.seconds == 0) {
        return usage();
    }
    return run_many(&o.batch);
}
