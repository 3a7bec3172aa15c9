#include "proto/refs.h"

#define SPARE_MIN 64u

/* -- the rejections of the node itself ----------------------------------------------------------------------------- */

/* {"code": CODE, "message": TEXT} */
#define REJECTION(code_len, code, text_len, text) "\x82\xa4" "code" code_len code "\xa7" "message" text_len text

tf_slice tf_code_rejection(tf_code code)
{
    static const char no_target[] =
        REJECTION("\xb3", "cannot_send_to_data", "\xbf", "the target was resolved to data");
    static const char disconnected[] = REJECTION("\xac", "disconnected", "\xb7", "the connection was lost");
    static const char overloaded[] = REJECTION("\xaa", "overloaded", "\xb4", "too many wait for it");
    static const char too_large[] = REJECTION("\xb1", "message_too_large", "\xb9", "more than a receiver takes");
    static const char too_far[] = REJECTION("\xa7", "too_far", "\xb7", "it came over many nodes");
    static const char revoked[] = REJECTION("\xa7", "revoked", "\xb6", "the object was revoked");
    switch (code) {
    case TF_CODE_CANNOT_SEND_TO_DATA:
        return tf_slice_of(no_target, sizeof(no_target) - 1);
    case TF_CODE_DISCONNECTED:
        return tf_slice_of(disconnected, sizeof(disconnected) - 1);
    case TF_CODE_OVERLOADED:
        return tf_slice_of(overloaded, sizeof(overloaded) - 1);
    case TF_CODE_MESSAGE_TOO_LARGE:
        return tf_slice_of(too_large, sizeof(too_large) - 1);
    case TF_CODE_REVOKED:
        return tf_slice_of(revoked, sizeof(revoked) - 1);
    case TF_CODE_TOO_FAR:
        return tf_slice_of(too_far, sizeof(too_far) - 1);
    case TF_CODE_COUNT:
        break;
    }
    TF_UNREACHABLE();
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

static tf_err make_standard(tf_refs *refs)
{
    for (size_t i = 0; i < TF_CODE_COUNT; i++) {
        tf_slice data = tf_code_rejection((tf_code)i);
        refs->standard[i] = tf_value_new(refs, TF_RESOLUTION_REJECTION, NULL, data, NULL, 0);
        if (refs->standard[i] == NULL) {
            return TF_ERR_NOMEM;
        }
    }
    tf_err err = tf_refs_reserve(refs, 1);
    if (err == TF_OK) {
        refs->overloaded = tf_refs_add(refs, TF_REF_PROMISE);
        tf_refs_hold(refs->overloaded);
        tf_refs_settle(refs, refs->overloaded, refs->standard[TF_CODE_OVERLOADED]);
        (void)tf_refs_take_idle(refs);
        refs->count = 0;
        refs->resolved_count = 0;
    }
    refs->value_bytes = 0;
    return err;
}

tf_err tf_refs_init(tf_refs *refs, const tf_mem *mem, uint64_t hash_key)
{
    *refs = (tf_refs){.mem = mem, .collect_at = 1};
    tf_map_init(&refs->by_local, mem, hash_key);
    tf_err err = make_standard(refs);
    if (err != TF_OK) {
        tf_refs_clear(refs);
    }
    return err;
}

static void free_spare(tf_refs *refs, size_t least)
{
    while (refs->spare_count > least) {
        tf_record *record = refs->spare;
        refs->spare = record->idle_next;
        refs->spare_count--;
        tf_free(refs->mem, record, sizeof(*record));
    }
}

void tf_refs_clear(tf_refs *refs)
{
    size_t position = 0;
    tf_local local = TF_LOCAL_NONE;
    uint64_t value = 0;
    while (tf_map_next(&refs->by_local, &position, &local, &value)) {
        tf_value_release(refs, ((tf_record *)(uintptr_t)value)->value);
    }
    position = 0;
    while (tf_map_next(&refs->by_local, &position, &local, &value)) {
        tf_free(refs->mem, (tf_record *)(uintptr_t)value, sizeof(tf_record));
    }
    tf_map_clear(&refs->by_local);
    for (size_t i = 0; i < TF_CODE_COUNT; i++) {
        tf_value_release(refs, refs->standard[i]);
    }
    free_spare(refs, 0);
    *refs = (tf_refs){.mem = refs->mem};
}

void tf_refs_trim(tf_refs *refs)
{
    free_spare(refs, 0);
    if (tf_map_reserve(&refs->by_local, 0) == TF_OK) { /* no room is reserved between two calls of the node */
        tf_map_trim(&refs->by_local);
    }
}

/* -- records ------------------------------------------------------------------------------------------------------- */

tf_err tf_refs_reserve(tf_refs *refs, size_t extra)
{
    while (refs->spare_count < extra) {
        tf_record *record = tf_alloc(refs->mem, sizeof(*record));
        if (record == NULL) {
            return TF_ERR_NOMEM;
        }
        record->idle_next = refs->spare;
        refs->spare = record;
        refs->spare_count++;
    }
    return tf_map_reserve(&refs->by_local, extra);
}

tf_record *tf_refs_add_local(tf_refs *refs, tf_local local, tf_ref_kind kind)
{
    tf_record *record = refs->spare;
    TF_ASSERT(record != NULL && local != TF_LOCAL_NONE && local <= refs->last);
    refs->spare = record->idle_next;
    refs->spare_count--;
    *record = (tf_record){.local = local, .kind = kind};
    TF_ASSERT(tf_map_put(&refs->by_local, local, (uint64_t)(uintptr_t)record) == TF_OK);
    refs->count++;
    tf_refs_set_idle(refs, record);
    return record;
}

tf_record *tf_refs_add(tf_refs *refs, tf_ref_kind kind)
{
    return tf_refs_add_local(refs, tf_refs_next_local(refs), kind);
}

tf_record *tf_refs_find(const tf_refs *refs, tf_local local)
{
    uint64_t value = 0;
    return tf_map_get(&refs->by_local, local, &value) ? (tf_record *)(uintptr_t)value : NULL;
}

void tf_refs_hold(tf_record *record)
{
    TF_ASSERT(record->count < UINT32_MAX);
    record->count++;
}

void tf_refs_release(tf_refs *refs, tf_record *record)
{
    TF_ASSERT(record->count > record->holds);
    record->count--;
    refs->linked_since = refs->linked_since || record->is_linked;
    if (record->count == 0) {
        tf_refs_set_idle(refs, record);
    }
}

void tf_refs_set_idle(tf_refs *refs, tf_record *record)
{
    if (record->is_idle) {
        return;
    }
    record->is_idle = true;
    record->idle_next = NULL;
    *(refs->idle == NULL ? &refs->idle : &refs->idle_last->idle_next) = record;
    refs->idle_last = record;
}

tf_record *tf_refs_take_idle(tf_refs *refs)
{
    tf_record *record = refs->idle;
    if (record != NULL) {
        refs->idle = record->idle_next;
        record->is_idle = false;
    }
    return record;
}

static void unlink_linked(tf_refs *refs, tf_record *record)
{
    if (!record->is_linked) {
        return;
    }
    *(record->previous_linked == NULL ? &refs->linked : &record->previous_linked->next_linked) = record->next_linked;
    if (record->next_linked != NULL) {
        record->next_linked->previous_linked = record->previous_linked;
    }
    record->is_linked = false;
    refs->linked_count--;
}

void tf_refs_remove(tf_refs *refs, tf_record *record)
{
    TF_ASSERT(record->count == 0 && record->owner == NULL && record->exports == NULL && !record->is_idle);
    TF_ASSERT(record->first == NULL && record->source == NULL && !record->is_noted && !record->is_fenced);
    TF_ASSERT(tf_map_remove(&refs->by_local, record->local));
    unlink_linked(refs, record);
    refs->resolved_count -= record->state == TF_RECORD_RESOLVED ? 1 : 0;
    refs->count--;
    tf_value_release(refs, record->value);
    record->idle_next = refs->spare;
    refs->spare = record;
    refs->spare_count++;
    free_spare(refs, refs->count > SPARE_MIN ? refs->count : SPARE_MIN);
}

/* -- values -------------------------------------------------------------------------------------------------------- */

tf_value *tf_value_new(tf_refs *refs, tf_resolution_kind kind, tf_record *object, tf_slice data, tf_record *const *named,
                       size_t ref_count)
{
    size_t size = sizeof(tf_value) + ref_count * sizeof(tf_record *) + data.len;
    tf_value *value = tf_alloc(refs->mem, size);
    if (value == NULL) {
        return NULL;
    }
    *value = (tf_value){.users = 1, .kind = kind, .object = object, .size = size, .ref_count = ref_count};
    if (object != NULL) {
        tf_refs_hold(object);
    }
    for (size_t i = 0; i < ref_count; i++) {
        value->refs[i] = named[i];
        tf_refs_hold(named[i]);
    }
    uint8_t *bytes = (uint8_t *)&value->refs[ref_count];
    if (data.len > 0) {
        memcpy(bytes, data.data, data.len);
    }
    value->data = tf_slice_of(bytes, data.len);
    refs->value_bytes += size;
    return value;
}

tf_value *tf_refs_standard(const tf_refs *refs, tf_code code)
{
    return refs->standard[code];
}

tf_value *tf_value_use(tf_value *value)
{
    value->users++;
    return value;
}

static bool is_standard(const tf_refs *refs, const tf_value *value)
{
    for (size_t i = 0; i < TF_CODE_COUNT; i++) {
        if (refs->standard[i] == value) {
            return true;
        }
    }
    return false;
}

void tf_value_release(tf_refs *refs, tf_value *value)
{
    if (value == NULL || --value->users > 0) {
        return;
    }
    if (value->object != NULL) {
        tf_refs_release(refs, value->object);
    }
    for (size_t i = 0; i < value->ref_count; i++) {
        tf_refs_release(refs, value->refs[i]);
    }
    refs->value_bytes -= is_standard(refs, value) ? 0 : value->size;
    tf_free(refs->mem, value, value->size);
}

static void link_record(tf_refs *refs, tf_record *record)
{
    record->is_linked = true;
    record->previous_linked = NULL;
    record->next_linked = refs->linked;
    if (refs->linked != NULL) {
        refs->linked->previous_linked = record;
    }
    refs->linked = record;
    refs->linked_count++;
    refs->linked_since = true;
}

void tf_refs_settle(tf_refs *refs, tf_record *record, tf_value *value)
{
    tf_value *before = record->value;
    record->value = tf_value_use(value);
    if (record->kind == TF_REF_PROMISE) {
        TF_ASSERT(record->state == TF_RECORD_LIVE);
        record->state = TF_RECORD_RESOLVED;
        refs->resolved_count++;
    } else {
        record->state = TF_RECORD_REVOKED;
    }
    unlink_linked(refs, record);
    if (value->object != NULL || value->ref_count > 0) {
        link_record(refs, record);
    }
    tf_value_release(refs, before);
}

/* -- cycles -------------------------------------------------------------------------------------------------------- */

bool tf_refs_collect_is_due(const tf_refs *refs)
{
    return refs->linked_since && refs->linked_count >= refs->collect_at;
}

/* The records that a value names, one after the other; NULL: no more. */
static tf_record *named_at(const tf_value *value, size_t index)
{
    if (value->object != NULL) {
        return index == 0 ? value->object : NULL;
    }
    return index < value->ref_count ? value->refs[index] : NULL;
}

/* A value holds what it names once, however many records share it. Only where all of them are looked into, what it names is
 * referred to from inside. */
static void count_outside(tf_refs *refs)
{
    for (tf_record *record = refs->linked; record != NULL; record = record->next_linked) {
        record->outside = record->count;
        record->found = NULL;
        record->value->linked = 0;
    }
    for (tf_record *record = refs->linked; record != NULL; record = record->next_linked) {
        tf_value *value = record->value;
        if (++value->linked < value->users) {
            continue;
        }
        size_t i = 0;
        for (tf_record *named; (named = named_at(value, i)) != NULL; i++) {
            named->outside -= named->is_linked ? 1 : 0;
        }
    }
}

static void reach(tf_record *record, tf_record ***end)
{
    if (record->found == NULL) {
        record->found = record;
        **end = record;
        *end = &record->found;
    }
}

/* What can be reached from outside gets a count from outside, too: the reached ones are chained by `found`, whose end is the
 * record itself. */
static void mark_reached(tf_refs *refs)
{
    tf_record *reached = NULL;
    tf_record **end = &reached;
    for (tf_record *record = refs->linked; record != NULL; record = record->next_linked) {
        if (record->outside > 0) {
            reach(record, &end);
        }
    }
    for (tf_record *record = reached; record != NULL; record = record->found == record ? NULL : record->found) {
        size_t i = 0;
        for (tf_record *named; (named = named_at(record->value, i)) != NULL; i++) {
            if (named->is_linked) {
                named->outside += named->outside == 0 ? 1 : 0;
                reach(named, &end);
            }
        }
    }
}

size_t tf_refs_collect_cycles(tf_refs *refs)
{
    size_t dead = 0;
    count_outside(refs);
    mark_reached(refs);
    for (tf_record *record = refs->linked, *next = NULL; record != NULL; record = next) {
        next = record->next_linked;
        if (record->outside == 0) {
            tf_value *value = record->value;
            unlink_linked(refs, record);
            record->value = tf_value_use(refs->standard[record->kind == TF_REF_PROMISE ? TF_CODE_DISCONNECTED : TF_CODE_REVOKED]);
            tf_value_release(refs, value);
            dead++;
        }
    }
    refs->collect_at = refs->linked_count == 0 ? 1 : 2 * refs->linked_count;
    refs->linked_since = false;
    return dead;
}
