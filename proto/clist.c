#include "proto/clist.h"

#define SPARE_MIN 64u
#define LISTS 4u /* of entries, by side and kind */

static uint64_t to_value(const tf_clist_entry *entry)
{
    return (uint64_t)(uintptr_t)entry;
}

static tf_clist_entry *from_value(uint64_t value)
{
    return (tf_clist_entry *)(uintptr_t)value;
}

void tf_clist_init(tf_clist *c, struct tf_session *session, tf_side side, tf_refs *refs, const tf_mem *mem,
                   uint64_t hash_key)
{
    *c = (tf_clist){.mem = mem, .refs = refs, .session = session, .side = side};
    tf_map_init(&c->by_ref, mem, hash_key);
    tf_map_init(&c->later, mem, hash_key);
    tf_map_init(&c->result_shares, mem, hash_key);
}

static void free_spare(tf_clist *c)
{
    while (c->spare != NULL) {
        tf_clist_entry *entry = c->spare;
        c->spare = entry->next;
        tf_free(c->mem, entry, sizeof(*entry));
    }
    c->spare_count = 0;
}

void tf_clist_clear(tf_clist *c)
{
    for (tf_clist_entry *entry; (entry = tf_clist_first(c)) != NULL;) {
        tf_clist_remove(c, entry);
    }
    while (c->touched.first != NULL) {
        tf_clist_untouch(c);
    }
    TF_ASSERT(tf_clist_due(c, TF_REF_OBJECT) == NULL && tf_clist_due(c, TF_REF_PROMISE) == NULL);
    while (c->due[TF_REF_OBJECT].first != NULL) {
        tf_clist_take_due(c, TF_REF_OBJECT);
    }
    while (c->due[TF_REF_PROMISE].first != NULL) {
        tf_clist_take_due(c, TF_REF_PROMISE);
    }
    free_spare(c);
    tf_map_clear(&c->by_ref);
    tf_map_clear(&c->later);
    tf_map_clear(&c->result_shares);
    tf_clist_init(c, c->session, c->side, c->refs, c->mem, c->by_ref.hash_key);
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
    return err == TF_OK ? tf_map_reserve(&c->later, extra) : err;
}

void tf_clist_trim(tf_clist *c)
{
    free_spare(c);
    tf_map_trim(&c->by_ref);
    tf_map_trim(&c->later);
    tf_map_trim(&c->result_shares);
}

/* A removed entry, unless a list still holds it. */
static void recycle(tf_clist *c, tf_clist_entry *entry)
{
    if (entry->touched || entry->due) {
        return;
    }
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

/* -- looking up ---------------------------------------------------------------------------------------------------- */

static tf_clist_entry *get(const tf_map *map, uint64_t key)
{
    uint64_t value = 0;
    return tf_map_get(map, key, &value) ? from_value(value) : NULL;
}

tf_clist_entry *tf_clist_by_ref(const tf_clist *c, tf_ref ref)
{
    return get(&c->by_ref, ref);
}

tf_clist_entry *tf_clist_of_record(const tf_clist *c, const tf_record *record)
{
    if (record->import != NULL && record->import->session == c->session) {
        return record->import;
    }
    if (record->exports == NULL || record->exports->session == c->session) {
        return record->exports;
    }
    return get(&c->later, record->local);
}

/* Where a ref is among the lists. */
static size_t list_of(tf_ref ref)
{
    return (size_t)tf_ref_side_of(ref) * 2 + (size_t)tf_ref_kind_of(ref);
}

static tf_clist_entry *first_from(const tf_clist *c, size_t list)
{
    for (; list < LISTS; list++) {
        if (c->entries[list / 2][list % 2].first != NULL) {
            return c->entries[list / 2][list % 2].first;
        }
    }
    return NULL;
}

tf_clist_entry *tf_clist_first(const tf_clist *c)
{
    return first_from(c, 0);
}

tf_clist_entry *tf_clist_after(const tf_clist *c, tf_ref ref)
{
    const tf_clist_entry *entry = tf_clist_by_ref(c, ref);
    size_t list = list_of(ref);
    if (entry != NULL) {
        return entry->next != NULL ? entry->next : first_from(c, list + 1);
    }
    for (tf_clist_entry *next = first_from(c, list); next != NULL; next = next->next) {
        if (list_of(next->ref) != list || next->ref > ref) {
            return next;
        }
    }
    return first_from(c, list + 1);
}

/* -- counting ------------------------------------------------------------------------------------------------------ */

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

/* -- records ------------------------------------------------------------------------------------------------------- */

/* Among the LIVE exports of its record, behind the oldest one. */
static void chain(tf_clist *c, tf_clist_entry *entry, tf_record *record)
{
    tf_clist_entry *oldest = record->exports;
    if (oldest == NULL) {
        record->exports = entry;
        return;
    }
    entry->export_previous = oldest;
    entry->export_next = oldest->export_next;
    if (oldest->export_next != NULL) {
        oldest->export_next->export_previous = entry;
    }
    oldest->export_next = entry;
    entry->is_later = true;
    TF_ASSERT(tf_map_put(&c->later, record->local, to_value(entry)) == TF_OK);
}

static void unchain(tf_clist *c, tf_clist_entry *entry, tf_record *record)
{
    *(entry->export_previous == NULL ? &record->exports : &entry->export_previous->export_next) = entry->export_next;
    if (entry->export_next != NULL) {
        entry->export_next->export_previous = entry->export_previous;
    }
    if (entry->is_later) {
        TF_ASSERT(tf_map_remove(&c->later, entry->local));
        entry->is_later = false;
    }
}

/* The outbound half comes; the record knows of it. */
static void attach(tf_clist *c, tf_clist_entry *entry, tf_record *record)
{
    entry->record = record;
    entry->local = record->local;
    if (entry->role == TF_CLIST_EXPORT) {
        tf_refs_hold(record);
        chain(c, entry, record);
        return;
    }
    TF_ASSERT(record->owner == NULL && record->import == NULL);
    record->owner = c->session;
    record->import = entry;
}

/* The outbound half goes. */
static void detach(tf_clist *c, tf_clist_entry *entry)
{
    tf_record *record = entry->record;
    if (entry->role == TF_CLIST_EXPORT) {
        unchain(c, entry, record);
        return;
    }
    record->owner = NULL;
    record->import = NULL;
    entry->record = NULL;
    if (record->count == 0) {
        tf_refs_set_idle(c->refs, record);
    }
}

tf_clist_entry *tf_clist_add(tf_clist *c, tf_ref ref, tf_record *record, tf_clist_role role)
{
    tf_clist_entry *entry = c->spare;
    TF_ASSERT(entry != NULL);
    c->spare = entry->next;
    c->spare_count--;
    tf_clist_list *list = &c->entries[tf_ref_side_of(ref)][tf_ref_kind_of(ref)];
    *entry = (tf_clist_entry){.ref = ref, .session = c->session, .role = role, .previous = list->last};
    *(list->last == NULL ? &list->first : &list->last->next) = entry;
    list->last = entry;
    TF_ASSERT(tf_map_put(&c->by_ref, ref, to_value(entry)) == TF_OK);
    attach(c, entry, record);
    tally(c, entry, 1);
    return entry;
}

void tf_clist_retire(tf_clist *c, tf_clist_entry *entry, uint64_t number)
{
    TF_ASSERT(entry->state == TF_CLIST_LIVE);
    tally(c, entry, SIZE_MAX);
    detach(c, entry);
    entry->state = entry->role == TF_CLIST_EXPORT ? TF_CLIST_RETIRED : TF_CLIST_DROPPED;
    entry->retired = number;
    tally(c, entry, 1);
}

void tf_clist_replace(tf_clist *c, tf_clist_entry *entry, tf_record *record)
{
    TF_ASSERT(entry->state == TF_CLIST_RETIRED);
    tf_refs_hold(record);
    tf_refs_release(c->refs, entry->record);
    entry->record = record;
}

void tf_clist_revive(tf_clist *c, tf_clist_entry *entry, tf_record *record)
{
    TF_ASSERT(entry->state == TF_CLIST_DROPPED);
    tally(c, entry, SIZE_MAX);
    entry->state = TF_CLIST_LIVE;
    entry->revoked = 0;
    entry->piped = 0;
    attach(c, entry, record);
    tally(c, entry, 1);
}

size_t tf_clist_charged(const tf_clist *c, uint32_t share)
{
    uint64_t count = 0;
    (void)tf_map_get(&c->result_shares, share, &count);
    return (size_t)count;
}

tf_err tf_clist_reserve_share(tf_clist *c)
{
    return tf_map_reserve(&c->result_shares, 1);
}

void tf_clist_charge(tf_clist *c, tf_clist_entry *entry, uint32_t share)
{
    entry->share = share;
    TF_ASSERT(tf_map_put(&c->result_shares, share, tf_clist_charged(c, share) + 1) == TF_OK);
}

static void discharge(tf_clist *c, const tf_clist_entry *entry)
{
    if (entry->share == 0) {
        return;
    }
    size_t left = tf_clist_charged(c, entry->share) - 1;
    if (left == 0) {
        (void)tf_map_remove(&c->result_shares, entry->share);
    } else {
        TF_ASSERT(tf_map_put(&c->result_shares, entry->share, left) == TF_OK);
    }
}

void tf_clist_remove(tf_clist *c, tf_clist_entry *entry)
{
    tally(c, entry, SIZE_MAX);
    discharge(c, entry);
    TF_ASSERT(tf_map_remove(&c->by_ref, entry->ref));
    if (entry->state == TF_CLIST_LIVE) {
        detach(c, entry);
    }
    if (entry->role == TF_CLIST_EXPORT) {
        tf_refs_release(c->refs, entry->record);
        entry->record = NULL;
    }
    tf_clist_list *list = &c->entries[tf_ref_side_of(entry->ref)][tf_ref_kind_of(entry->ref)];
    *(entry->previous == NULL ? &list->first : &entry->previous->next) = entry->next;
    *(entry->next == NULL ? &list->last : &entry->next->previous) = entry->previous;
    entry->state = TF_CLIST_REMOVED;
    recycle(c, entry);
}

/* -- touched, due -------------------------------------------------------------------------------------------------- */

void tf_clist_touch(tf_clist *c, tf_clist_entry *entry)
{
    if (entry->touched) {
        return;
    }
    entry->touched = true;
    entry->touched_next = NULL;
    *(c->touched.first == NULL ? &c->touched.first : &c->touched.last->touched_next) = entry;
    c->touched.last = entry;
    c->touched_count++;
}

tf_clist_entry *tf_clist_touched(const tf_clist *c)
{
    return c->touched.first;
}

void tf_clist_untouch(tf_clist *c)
{
    tf_clist_entry *entry = c->touched.first;
    c->touched.first = entry->touched_next;
    c->touched_count--;
    entry->touched = false;
    if (entry->state == TF_CLIST_REMOVED) {
        recycle(c, entry);
    }
}

void tf_clist_set_due(tf_clist *c, tf_clist_entry *entry)
{
    if (entry->due) {
        return;
    }
    tf_clist_list *list = &c->due[tf_ref_kind_of(entry->ref)];
    entry->due = true;
    entry->due_next = NULL;
    *(list->first == NULL ? &list->first : &list->last->due_next) = entry;
    list->last = entry;
}

static tf_clist_entry *skip_removed(tf_clist_entry *entry)
{
    while (entry != NULL && entry->state == TF_CLIST_REMOVED) {
        entry = entry->due_next;
    }
    return entry;
}

tf_clist_entry *tf_clist_due(const tf_clist *c, tf_ref_kind kind)
{
    return skip_removed(c->due[kind].first);
}

tf_clist_entry *tf_clist_due_after(const tf_clist_entry *entry)
{
    return skip_removed(entry->due_next);
}

void tf_clist_take_due(tf_clist *c, tf_ref_kind kind)
{
    tf_clist_entry *entry = c->due[kind].first;
    bool removed = true;
    while (entry != NULL && removed) {
        removed = entry->state == TF_CLIST_REMOVED;
        c->due[kind].first = entry->due_next;
        entry->due = false;
        if (removed) {
            recycle(c, entry);
        }
        entry = c->due[kind].first;
    }
}
