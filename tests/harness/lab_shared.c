/* What the processes of a laboratory share: one mapping, made before the first of them. */
#include <sys/mman.h>

#include "tests/harness/lab.h"

#define ALIGNMENT 64u
#define SPARE_RECORDS 1024u

/* A part of the mapping; with base NULL only the size is counted. */
static void *part(uint8_t *base, size_t *used, size_t size)
{
    void *at = base == NULL ? NULL : base + *used;
    *used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static size_t records_of(const tf_scenario *s, uint32_t sub)
{
    size_t count = SPARE_RECORDS;
    for (uint32_t flow = 0; flow < s->flow_count; flow++) {
        count += tf_scenario_feeds(s, flow, sub) ? 2 * (size_t)s->flows[flow].count : 0;
    }
    return count;
}

static size_t lay_out(const tf_scenario *s, uint8_t *base, tf_lab_shared *shared)
{
    size_t used = 0;
    tf_time span = tf_scenario_length(s) + s->patience + TF_LAB_SETUP;
    size_t samples = (size_t)(span / TF_LAB_SAMPLE) + 64;
    (void)part(base, &used, sizeof(*shared));
    for (uint32_t i = 0; i < s->flow_count; i++) {
        shared->flows[i].messages = part(base, &used, s->flows[i].count);
    }
    for (uint32_t i = 0; i < s->sub_count; i++) {
        shared->subs[i].capacity = records_of(s, i);
        shared->subs[i].records = part(base, &used, shared->subs[i].capacity * sizeof(tf_lab_record));
    }
    for (uint32_t i = 0; i < s->node_count; i++) {
        shared->clients[i].capacity = samples;
        shared->clients[i].samples = part(base, &used, samples * sizeof(tf_lab_sample));
    }
    return used;
}

tf_lab_shared *tf_lab_shared_new(const tf_scenario *s)
{
    static tf_lab_shared sketch;
    size_t size = lay_out(s, NULL, &sketch);
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return NULL;
    }
    tf_lab_shared *shared = base;
    (void)lay_out(s, base, shared);
    shared->size = size;
    return shared;
}

void tf_lab_shared_free(tf_lab_shared *shared)
{
    if (shared != NULL) {
        (void)munmap(shared, shared->size);
    }
}
