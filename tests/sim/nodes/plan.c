#include "tests/sim/nodes/plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

#define CLOSE_BY (100 * TF_MS)

static const char *const STEP_NAMES[] = {
#define X(name) "STEP_" #name,
    STEP_MAP(X)
#undef X
};

static const char *const SIZE_NAMES[] = {"any", "tiny", "small", "large"};
static const char *const DISK_NAMES[] = {"slow", "real"};

const char *step_name(step_kind kind)
{
    return STEP_NAMES[kind];
}

const char *size_name(world_size size)
{
    return SIZE_NAMES[size];
}

bool size_find(const char *name, world_size *out)
{
    for (unsigned i = 0; i < sizeof(SIZE_NAMES) / sizeof(SIZE_NAMES[0]); i++) {
        if (strcmp(SIZE_NAMES[i], name) == 0) {
            *out = (world_size)i;
            return true;
        }
    }
    return false;
}

static unsigned draw(tf_test_random *r, unsigned bound)
{
    return (unsigned)tf_test_random_below(r, bound);
}

static bool one_in(tf_test_random *r, unsigned of)
{
    return draw(r, of) == 0;
}

/* -- the world ----------------------------------------------------------------------------------------------------- */

static world_size choose_size(tf_test_random *r)
{
    unsigned drawn = draw(r, 256);
    if (drawn == 0) {
        return SIZE_LARGE;
    }
    return drawn < 32 ? SIZE_SMALL : SIZE_TINY;
}

static void choose_cast(plan *p, tf_test_random *r)
{
    switch (p->size) {
    case SIZE_ANY:
    case SIZE_TINY:
        p->relays = 1;
        p->clients = 1 + (one_in(r, 4) ? 0 : 1);
        p->channels = 1;
        break;
    case SIZE_SMALL:
        p->relays = 1 + draw(r, 2);
        p->clients = 2 + draw(r, 4);
        p->channels = 1 + draw(r, 3);
        break;
    case SIZE_LARGE:
        p->relays = 1 + draw(r, PLAN_RELAYS_MAX);
        p->clients = 6 + draw(r, PLAN_CLIENTS_MAX - 5);
        p->channels = 2 + draw(r, PLAN_CHANNELS_MAX - 1);
        break;
    }
    p->homes = p->relays == 1 ? 1 : 1 + draw(r, 2);
}

/* Kinds that no seed of that class may have: one route is well, and so is everything else. */
#define HEALTHY_KINDS                                                                                                  \
    (KIND_BIT(STEP_SEND) | KIND_BIT(STEP_PACKETS) | KIND_BIT(STEP_PIPE) | KIND_BIT(STEP_HOLE) | KIND_BIT(STEP_BURST) | \
     KIND_BIT(STEP_CUT) | KIND_BIT(STEP_CLOSED) | KIND_BIT(STEP_CLOCK))

static void choose_kinds(plan *p, tf_test_random *r)
{
    uint32_t all = KIND_BIT(STEP_KIND_COUNT) - 1;
    uint32_t some = (uint32_t)(tf_test_random_u64(r) & tf_test_random_u64(r));
    p->kinds = (some | KIND_BIT(draw(r, STEP_KIND_COUNT))) & all;
    p->kinds |= one_in(r, 16) ? all & ~(KIND_BIT(STEP_RIGHTS) | KIND_BIT(STEP_CLOSE)) : 0;
    p->healthy = one_in(r, 8);
    p->well = one_in(r, 2) ? TF_ROUTE_STREAM : TF_ROUTE_DATAGRAM;
    p->kinds &= p->healthy ? HEALTHY_KINDS : all;
    if (!one_in(r, 4)) { /* what ends much is rarer */
        p->kinds &= ~(KIND_BIT(STEP_CLOSE) | KIND_BIT(STEP_RIGHTS));
    }
    p->kinds |= KIND_BIT(STEP_SEND);
}

#define LOSS_MAX 50u /* of a route that is well: what is lost comes a little later */

void plan_make(plan *p, uint64_t seed, world_size size)
{
    tf_test_random r;
    tf_test_random_init(&r, seed * 2);
    *p = (plan){.seed = seed, .any_disk = true};
    p->size = choose_size(&r);
    p->size = size == SIZE_ANY ? p->size : size;
    choose_cast(p, &r);
    choose_kinds(p, &r);
    p->disk = one_in(&r, 10) ? DISK_REAL : DISK_SLOW;
    p->span = TF_SECOND + tf_test_random_below(&r, 4 * TF_SECOND);
    p->objects = p->clients > 1 && one_in(&r, 3) && !p->healthy && (p->kinds & KIND_BIT(STEP_RIGHTS)) == 0;
    p->own_ids = !one_in(&r, 4);
    p->big_bodies = one_in(&r, 4) && !p->healthy;
    p->expires = one_in(&r, 8) && !p->healthy;
    p->small_store = one_in(&r, 2);
    p->tiny_queues = one_in(&r, 4) && !p->healthy;
    p->short_sessions = one_in(&r, 3) && !p->healthy;
    p->slow_commits = one_in(&r, 3) && !p->healthy;
    p->filter = (filter_kind)draw(&r, 4);
    p->window = one_in(&r, 4) && !p->healthy ? 1 + draw(&r, 8) : 0;
    p->rate = one_in(&r, 8) && !p->healthy ? 10 + draw(&r, 90) : 0;
    p->commit_bytes = one_in(&r, 8) && !p->healthy ? 200 + draw(&r, 4000) : 0;
    p->longest = one_in(&r, 4) ? 100 * TF_MS : 10 * TF_MS;
    p->loss = p->healthy && p->well == TF_ROUTE_DATAGRAM && one_in(&r, 2) ? 1 + draw(&r, LOSS_MAX) : 0;
}

void plan_set_disk(plan *p, disk_kind kind)
{
    p->any_disk = false;
    p->disk = kind;
}

/* -- its steps ----------------------------------------------------------------------------------------------------- */

/* How often each kind comes, relative to the others of the seed. */
static unsigned weight_of(const plan *p, step_kind kind)
{
    static const unsigned weights[STEP_KIND_COUNT] = {
        [STEP_SEND] = 16, [STEP_PACKETS] = 6, [STEP_PIPE] = 4,   [STEP_HOLE] = 6, [STEP_BURST] = 4,
        [STEP_CUT] = 6,   [STEP_CLOSED] = 2,  [STEP_REBIND] = 2, [STEP_KILL] = 3, [STEP_CRASH] = 3,
        [STEP_STOP] = 2,  [STEP_PAUSE] = 2,   [STEP_CLOCK] = 1,  [STEP_DISK] = 4, [STEP_SLOW] = 2,
        [STEP_LEAVE] = 2, [STEP_TRIM] = 2,    [STEP_CLOSE] = 1,  [STEP_KEEP] = 1, [STEP_RIGHTS] = 1,
    };
    return (p->kinds & KIND_BIT(kind)) != 0 ? weights[kind] : 0;
}

static size_t count_of(const plan *p, tf_test_random *r)
{
    switch (p->size) {
    case SIZE_ANY:
    case SIZE_TINY:
        return 5 + draw(r, 16);
    case SIZE_SMALL:
        return 20 + draw(r, 60);
    case SIZE_LARGE:
        break;
    }
    return 100 + draw(r, 300);
}

static step_kind choose_kind(const plan *p, tf_test_random *r, unsigned total)
{
    unsigned drawn = draw(r, total);
    unsigned chosen = 0;
    while (drawn >= weight_of(p, (step_kind)chosen)) {
        drawn -= weight_of(p, (step_kind)chosen++);
    }
    return (step_kind)chosen;
}

static int compare(const void *a, const void *b)
{
    const step *x = a;
    const step *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->salt < y->salt ? -1 : x->salt > y->salt;
}

size_t plan_steps(const plan *p, step steps[STEPS_MAX])
{
    static const tf_time spans[] = {20 * TF_MS, 200 * TF_MS, TF_SECOND, 6 * TF_SECOND};
    tf_test_random r;
    tf_test_random_init(&r, p->seed * 2 + 1);
    unsigned total = 0;
    for (unsigned kind = 0; kind < STEP_KIND_COUNT; kind++) {
        total += weight_of(p, (step_kind)kind);
    }
    size_t count = count_of(p, &r);
    for (size_t i = 0; i < count; i++) {
        step s = {.kind = choose_kind(p, &r, total)};
        s.at = tf_test_random_below(&r, p->span);
        if (i > 0 && one_in(&r, 3)) { /* much goes wrong only in the midst of something else */
            s.at = steps[i - 1].at + tf_test_random_below(&r, CLOSE_BY);
        }
        s.target = draw(&r, 1000);
        s.salt = (uint32_t)tf_test_random_u64(&r) % 1000000;
        s.span = 1 + tf_test_random_below(&r, spans[draw(&r, sizeof(spans) / sizeof(spans[0]))]);
        steps[i] = s;
    }
    qsort(steps, count, sizeof(steps[0]), compare);
    return count;
}

/* -- as text ------------------------------------------------------------------------------------------------------- */

void plan_print(const plan *p, const step *steps, size_t count, FILE *to)
{
    (void)fprintf(to, "/* sim_nodes --script: seed %" PRIu64 " size %s disk %s */\nstatic const step script[] = {\n",
                  p->seed, size_name(p->size), p->any_disk ? "any" : DISK_NAMES[p->disk]);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(to, "    {%s, %" PRIu64 ", %u, %" PRIu32 ", %" PRIu64 "},\n", step_name(steps[i].kind),
                      (uint64_t)steps[i].at, steps[i].target, steps[i].salt, (uint64_t)steps[i].span);
    }
    (void)fprintf(to, "};\n");
}

/* The word behind `key`. */
static bool read_word(const char *text, const char *key, char *out, size_t cap)
{
    const char *at = strstr(text, key);
    if (at == NULL) {
        return false;
    }
    at += strlen(key);
    size_t len = strcspn(at, " \n");
    if (len >= cap) {
        return false;
    }
    memcpy(out, at, len);
    out[len] = '\0';
    return true;
}

static bool read_head(const char *text, plan *p)
{
    char seed[24] = "";
    char size[8] = "";
    char kind[8] = "";
    world_size found = SIZE_ANY;
    if (!read_word(text, "seed ", seed, sizeof(seed)) || !read_word(text, "size ", size, sizeof(size)) ||
        !read_word(text, "disk ", kind, sizeof(kind)) || !size_find(size, &found)) {
        return false;
    }
    plan_make(p, strtoull(seed, NULL, 10), found);
    if (strcmp(kind, "any") != 0) {
        plan_set_disk(p, strcmp(kind, DISK_NAMES[DISK_REAL]) == 0 ? DISK_REAL : DISK_SLOW);
    }
    return true;
}

/* One more number behind a comma. */
static bool read_number(char **at, uint64_t *out)
{
    if (**at != ',') {
        return false;
    }
    char *end = NULL;
    *out = strtoull(*at + 1, &end, 10);
    bool is_number = end != *at + 1;
    *at = end;
    return is_number;
}

static bool read_step(char *text, step *out)
{
    uint64_t target = 0;
    uint64_t salt = 0;
    for (unsigned i = 0; i < STEP_KIND_COUNT; i++) {
        size_t len = strlen(STEP_NAMES[i]);
        if (strncmp(text, STEP_NAMES[i], len) == 0 && text[len] == ',') {
            char *at = text + len;
            out->kind = (step_kind)i;
            bool ok = read_number(&at, &out->at) && read_number(&at, &target) && read_number(&at, &salt) &&
                      read_number(&at, &out->span) && *at == '}';
            out->target = (unsigned)target;
            out->salt = (uint32_t)salt;
            return ok;
        }
    }
    return false;
}

bool plan_read(FILE *from, plan *p, step steps[STEPS_MAX], size_t *count)
{
    char text[256];
    bool has_head = false;
    *count = 0;
    while (fgets(text, sizeof(text), from) != NULL) {
        char *open = strchr(text, '{');
        if (strstr(text, "sim_nodes --script") != NULL) {
            has_head = read_head(text, p);
        } else if (open != NULL && open[1] == 'S') {
            if (*count == STEPS_MAX || !read_step(open + 1, &steps[*count])) {
                return false;
            }
            (*count)++;
        }
    }
    return has_head;
}
