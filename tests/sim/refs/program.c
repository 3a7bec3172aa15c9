#include "tests/sim/refs/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/support.h"

static const char *const OP_NAMES[] = {
#define X(name) "OP_" #name,
    OP_MAP(X)
#undef X
};

static const char *const SHAPE_NAMES[] = {
#define X(name, text) text,
    SHAPE_MAP(X)
#undef X
};

const char *shape_name(shape s)
{
    return SHAPE_NAMES[s];
}

bool shape_find(const char *name, shape *out)
{
    for (unsigned i = 0; i < SHAPE_COUNT; i++) {
        if (strcmp(SHAPE_NAMES[i], name) == 0) {
            *out = (shape)i;
            return true;
        }
    }
    return false;
}

static unsigned draw(tf_test_random *r, unsigned bound)
{
    return (unsigned)tf_test_random_below(r, bound);
}

/* `some`, in so many seeds of eight, else 0. */
static unsigned at_times(tf_test_random *r, unsigned of_eight, unsigned some)
{
    return draw(r, 8) < of_eight ? some : 0;
}

void plan_make(plan *p, uint64_t seed, shape s, bool order)
{
    tf_test_random r;
    tf_test_random_init(&r, seed * 2);
    *p = (plan){.seed = seed, .shape = s, .order = order};
    p->weights[OP_RECV] = 10 + 12 * draw(&r, 4);
    p->weights[OP_SEND] = 8 + 8 * draw(&r, 3);
    p->weights[OP_PROMISE] = at_times(&r, 5, 2);
    p->weights[OP_RESOLVE] = 1 + draw(&r, 10);
    p->weights[OP_RELEASE] = order ? 0 : at_times(&r, 6, 1 + draw(&r, 5));
    p->weights[OP_REVOKE] = order ? 0 : at_times(&r, 3, 1 + draw(&r, 2));
    p->weights[OP_TIME] = 1 + draw(&r, 3);
    p->weights[OP_BURST] = at_times(&r, 4, 1);
    p->weights[OP_SETTLE] = at_times(&r, 2, 1);
    p->weights[OP_CUT] = order ? 0 : at_times(&r, 1, 1);
    p->weights[OP_STARVE] = order ? 0 : at_times(&r, 1, 1);
    p->weights[OP_JOIN] = p->weights[OP_CUT] + p->weights[OP_STARVE];
    p->hold = 2 + draw(&r, 7);
    p->want = 2 + draw(&r, 7);
    p->answer = draw(&r, 5);
    p->forward = at_times(&r, 4, 1 + draw(&r, 3));
    p->mention = 1 + draw(&r, 6);
    p->fresh = draw(&r, 4);
    p->fresh_promise = at_times(&r, 4, 4);
    p->passive = at_times(&r, 3, 1);
    p->pad = at_times(&r, 2, 1); /* 2: long ones */
    p->recent = draw(&r, 8);
    p->object = 1 + draw(&r, 7);
    p->rejection = draw(&r, 5);
    bool lean = !order && draw(&r, 4) == 0;
    p->max_message = lean && draw(&r, 2) == 0 ? 4096 : 0;
    p->pad = p->max_message != 0 ? 2 : p->pad;
    p->max_refs = lean && draw(&r, 2) == 0 ? 2 + draw(&r, 16) : 0;
    p->max_promises = lean && draw(&r, 2) == 0 ? 2 + draw(&r, 16) : 0;
    p->max_results = lean && draw(&r, 2) == 0 ? 1 + draw(&r, 8) : 0;
    p->drops_roots = !order && draw(&r, 8) == 0 && p->weights[OP_JOIN] == 0;
    p->wild_errors = draw(&r, 3) == 0;
    p->releases_first = !order && draw(&r, 4) == 0;
}

void program_make(const plan *p, step *steps, size_t count)
{
    tf_test_random r;
    tf_test_random_init(&r, p->seed * 2 + 1);
    unsigned total = 0;
    for (unsigned i = 0; i < OP_COUNT; i++) {
        total += p->weights[i];
    }
    for (size_t i = 0; i < count; i++) {
        unsigned drawn = draw(&r, total);
        unsigned chosen = 0;
        while (drawn >= p->weights[chosen]) {
            drawn -= p->weights[chosen++];
        }
        if ((chosen == OP_CUT && draw(&r, 50) != 0) || (chosen == OP_JOIN && draw(&r, 5) != 0)) {
            chosen = OP_RECV;
        }
        uint64_t salt = tf_test_random_u64(&r);
        steps[i] = (step){.op = (op)chosen, .pick = (unsigned)(salt >> 32) % 60, .salt = (uint32_t)salt % 100000};
    }
}

void program_print(const plan *p, const step *steps, size_t count, FILE *to)
{
    (void)fprintf(to, "/* sim_refs --script: seed %" PRIu64 " shape %s order %d */\nstatic const step script[] = {\n",
                  p->seed, shape_name(p->shape), p->order ? 1 : 0);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(to, "    {%s, %u, %" PRIu32 "},\n", OP_NAMES[steps[i].op], steps[i].pick, steps[i].salt);
    }
    (void)fprintf(to, "};\n");
}

static bool read_head(const char *text, plan *p)
{
    const char *at = strstr(text, "seed ");
    const char *named = strstr(text, "shape ");
    const char *ordered = strstr(text, "order ");
    if (at == NULL || named == NULL || ordered == NULL) {
        return false;
    }
    char name[16] = "";
    size_t len = strcspn(named + 6, " ");
    if (len >= sizeof(name)) {
        return false;
    }
    memcpy(name, named + 6, len);
    shape s;
    if (!shape_find(name, &s)) {
        return false;
    }
    plan_make(p, strtoull(at + 5, NULL, 10), s, ordered[6] == '1');
    return true;
}

static bool read_step(const char *text, step *out)
{
    for (unsigned i = 0; i < OP_COUNT; i++) {
        size_t len = strlen(OP_NAMES[i]);
        if (strncmp(text, OP_NAMES[i], len) == 0 && text[len] == ',') {
            char *end = NULL;
            out->op = (op)i;
            out->pick = (unsigned)strtoul(text + len + 1, &end, 10);
            if (*end != ',') {
                return false;
            }
            out->salt = (uint32_t)strtoul(end + 1, &end, 10);
            return *end == '}';
        }
    }
    return false;
}

bool program_read(FILE *from, plan *p, step *steps, size_t *count)
{
    char text[256];
    bool has_head = false;
    *count = 0;
    while (fgets(text, sizeof(text), from) != NULL) {
        const char *open = strchr(text, '{');
        if (strstr(text, "sim_refs --script") != NULL) {
            has_head = read_head(text, p);
        } else if (open != NULL && open[1] == 'O') {
            if (*count == STEPS_MAX || !read_step(open + 1, &steps[*count])) {
                return false;
            }
            (*count)++;
        }
    }
    return has_head;
}
