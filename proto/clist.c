#include "proto/clist.h"

#define SPARE_MIN 64u

static uint64_t to_value(const tf_clist_entry *entry)
{
    return (uint64_t)(uintptr_t)entry;
}

static tf_clist_entry *from_value(uint64_t value)
{
    return (tf_clist_entry *)(uintptr_t)value;
}

void tf_clist_init(tf_clist *c, tf_side side, const tf_mem *mem, uint64_t hash_key)
{
    *c = (tf_clist){.mem = mem, .side = side};
    tf_map_init(&c->by_ref, mem, hash_key);
    tf_map_init(&c->by_local, mem, hash_key);
}

static void free_chain(tf_clist *c, tf_clist_entry *entry)
{
    while (entry != NULL) {
        tf_clist_entry *next = entry->next;
        tf_free(c->mem, entry, sizeof(*entry));
        entry = next;
    }
}

void tf_clist_clear(tf_clist *c)
{
    while (c->touched_first != NULL) {
        tf_clist_untouch(c);
    }
    free_chain(c, c->first);
    free_chain(c, c->spare);
    tf_map_clear(&c->by_ref);
    tf_map_clear(&c->by_local);
    tf_clist_init(c, c->side, c->mem, c->by_ref.hash_key);
}

tf_err tf_clist_reserve(tf_clist *c, size_t extra)
{
    while (c->spare_count < extra) {
        tf_clist_entry *entry = tf_alloc(c->mem, sizeof(*entry));
        if (entry == NULL) {
            return TF_ERR_NOMEM;
        }
        entry->next = c->spare;
        c->spare = entry;
        c->spare_count++;
    }
    tf_err err = tf_map_reserve(&c->by_ref, extra);
    return err == TF_OK ? tf_map_reserve(&c->by_local, extra) : err;
}

void tf_clist_trim(tf_clist *c)
{
    free_chain(c, c->spare);
    c->spare = NULL;
    c->spare_count = 0;
    tf_map_trim(&c->by_ref);
    tf_map_trim(&c->by_local);
}

static void recycle(tf_clist *c, tf_clist_entry *entry)
{
    entry->next = c->spare;
    c->spare = entry;
    c->spare_count++;
    while (c->spare_count > SPARE_MIN && c->spare_count > c->count) {
        entry = c->spare;
        c->spare = entry->next;
        c->spare_count--;
        tf_free(c->mem, entry, sizeof(*entry));
    }
}

static tf_clist_entry *get(const tf_map *map, uint64_t key)
{
    uint64_t value = 0;
    return tf_map_get(map, key, &value) ? from_value(value) : NULL;
}

tf_clist_entry *tf_clist_by_ref(const tf_clist *c, tf_ref ref)
{
    return get(&c->by_ref, ref);
}

tf_clist_entry *tf_clist_by_local(const tf_clist *c, tf_local local)
{
    return get(&c->by_local, local);
}

/* A promise whose number was allocated by the side that does not decide it: the result of a deliver. */
static bool is_result(const tf_clist *c, const tf_clist_entry *entry)
{
    bool own = tf_ref_side_of(entry->ref) == c->side;
    return tf_ref_kind_of(entry->ref) == TF_REF_PROMISE && own == (entry->role == TF_CLIST_IMPORT);
}

/* Counts the entry in (by 1) or out (by SIZE_MAX, which is -1). */
static void tally(tf_clist *c, const tf_clist_entry *entry, size_t by)
{
    tf_ref_kind kind = tf_ref_kind_of(entry->ref);
    bool live = entry->state == TF_CLIST_LIVE;
    c->count += by;
    c->known[tf_ref_side_of(entry->ref)][kind] += by;
    if (live) {
        c->live[entry->role][kind] += by;
    }
    if (is_result(c, entry) && (live || entry->role == TF_CLIST_IMPORT)) {
        c->results[entry->role] += by;
    }
}

tf_clist_entry *tf_clist_add(tf_clist *c, tf_ref ref, tf_local local, tf_clist_role role)
{
    tf_clist_entry *entry = c->spare;
    TF_ASSERT(entry != NULL);
    c->spare = entry->next;
    c->spare_count--;
    *entry = (tf_clist_entry){.ref = ref, .local = local, .role = role, .previous = c->last};
    *(c->last == NULL ? &c->first : &c->last->next) = entry;
    c->last = entry;
    TF_ASSERT(tf_map_put(&c->by_ref, ref, to_value(entry)) == TF_OK);
    TF_ASSERT(tf_map_put(&c->by_local, local, to_value(entry)) == TF_OK);
    tally(c, entry, 1);
    return entry;
}

void tf_clist_retire(tf_clist *c, tf_clist_entry *entry, tf_clist_state state, uint64_t number)
{
    TF_ASSERT(entry->state == TF_CLIST_LIVE && tf_map_remove(&c->by_local, entry->local));
    tally(c, entry, SIZE_MAX);
    entry->state = state;
    entry->retired = number;
    tally(c, entry, 1);
}

void tf_clist_revive(tf_clist *c, tf_clist_entry *entry, tf_local local)
{
    TF_ASSERT(entry->state == TF_CLIST_DROPPED);
    tally(c, entry, SIZE_MAX);
    entry->state = TF_CLIST_LIVE;
    entry->local = local;
    entry->holds = 0;
    TF_ASSERT(tf_map_put(&c->by_local, local, to_value(entry)) == TF_OK);
    tally(c, entry, 1);
}

void tf_clist_remove(tf_clist *c, tf_clist_entry *entry)
{
    tally(c, entry, SIZE_MAX);
    TF_ASSERT(tf_map_remove(&c->by_ref, entry->ref));
    if (entry->state == TF_CLIST_LIVE) {
        TF_ASSERT(tf_map_remove(&c->by_local, entry->local));
    }
    *(entry->previous == NULL ? &c->first : &entry->previous->next) = entry->next;
    *(entry->next == NULL ? &c->last : &entry->next->previous) = entry->previous;
    entry->state = TF_CLIST_REMOVED;
    if (!entry->touched) {
        recycle(c, entry);
    }
}

void tf_clist_touch(tf_clist *c, tf_clist_entry *entry)
{
    if (entry->touched) {
        return;
    }
    entry->touched = true;
    entry->touched_next = NULL;
    *(c->touched_first == NULL ? &c->touched_first : &c->touched_last->touched_next) = entry;
    c->touched_last = entry;
    c->touched_count++;
}

tf_clist_entry *tf_clist_touched(const tf_clist *c)
{
    return c->touched_first;
}

void tf_clist_untouch(tf_clist *c)
{
    tf_clist_entry *entry = c->touched_first;
    c->touched_first = entry->touched_next;
    c->touched_count--;
    entry->touched = false;
    if (entry->state == TF_CLIST_REMOVED) {
        recycle(c, entry);
    }
}
