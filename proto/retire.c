#include "proto/retire.h"

#define CAPACITY_MIN 16u
#define CAPACITY_KEPT 1024u

void tf_retire_init(tf_retire *t, const tf_mem *mem)
{
    *t = (tf_retire){.mem = mem};
}

static void release(tf_retire *t)
{
    tf_free(t->mem, t->ring, t->capacity * sizeof(*t->ring));
    t->ring = NULL;
    t->capacity = 0;
    t->head = 0;
}

void tf_retire_clear(tf_retire *t)
{
    release(t);
    t->count = 0;
}

void tf_retire_trim(tf_retire *t)
{
    if (t->count == 0) {
        release(t);
    }
}

static tf_retirement *at(const tf_retire *t, size_t index)
{
    return &t->ring[(t->head + index) & (t->capacity - 1)];
}

tf_clist_entry *tf_retire_entry(const tf_retirement *retirement, const tf_clist *c)
{
    tf_clist_state state = retirement->kind == TF_RETIRE_DROP ? TF_CLIST_DROPPED : TF_CLIST_RETIRED;
    tf_clist_entry *entry = tf_clist_by_ref(c, retirement->ref);
    return entry != NULL && entry->state == state && entry->retired == retirement->number ? entry : NULL;
}

/* Leaves out what is cancelled. */
static void compact(tf_retire *t, const tf_clist *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (tf_retire_entry(at(t, i), c) != NULL) {
            *at(t, kept++) = *at(t, i);
        }
    }
    t->count = kept;
}

static tf_err grow(tf_retire *t, size_t extra)
{
    size_t capacity = t->capacity == 0 ? CAPACITY_MIN : t->capacity;
    while (capacity - t->count < extra || t->count > capacity / 2) {
        if (capacity > SIZE_MAX / 2 / sizeof(*t->ring)) {
            return TF_ERR_NOMEM;
        }
        capacity *= 2;
    }
    tf_retirement *ring = tf_alloc(t->mem, capacity * sizeof(*ring));
    if (ring == NULL) {
        return TF_ERR_NOMEM;
    }
    for (size_t i = 0; i < t->count; i++) {
        ring[i] = *at(t, i);
    }
    release(t);
    t->ring = ring;
    t->capacity = capacity;
    return TF_OK;
}

tf_err tf_retire_reserve(tf_retire *t, size_t extra, const tf_clist *c)
{
    if (extra <= t->capacity - t->count) {
        return TF_OK;
    }
    compact(t, c);
    /* Half of it stays free after clearing away, so that clearing away stays cheap. */
    return extra <= t->capacity - t->count && t->count <= t->capacity / 2 ? TF_OK : grow(t, extra);
}

void tf_retire_push(tf_retire *t, uint64_t number, tf_ref ref, tf_retire_kind kind)
{
    TF_ASSERT(t->count < t->capacity && (t->count == 0 || at(t, t->count - 1)->number <= number));
    *at(t, t->count++) = (tf_retirement){.number = number, .ref = ref, .kind = kind};
}

size_t tf_retire_due(const tf_retire *t, uint64_t acked)
{
    size_t due = 0;
    while (due < t->count && at(t, due)->number < acked) {
        due++;
    }
    return due;
}

const tf_retirement *tf_retire_at(const tf_retire *t, size_t index)
{
    TF_ASSERT(index < t->count);
    return at(t, index);
}

void tf_retire_pop(tf_retire *t, size_t count)
{
    TF_ASSERT(count <= t->count);
    t->count -= count;
    t->head = t->count == 0 ? 0 : (t->head + count) & (t->capacity - 1);
    if (t->count == 0 && t->capacity > CAPACITY_KEPT) {
        release(t);
    }
}
