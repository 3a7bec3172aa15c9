/* Pins: what held deliveries and kept resolutions name stays known, on both sides of the session: an import is not
 * dropped, and an export is not reported as dropped, before the last of them is through. */
#include "proto/session_internal.h"

#define PIN_COUNT UINT64_C(0xffffffff)
#define PIN_DROPPED (UINT64_C(1) << 32)   /* tell DROPPED when the count is 0 */
#define PIN_MENTIONED (UINT64_C(1) << 33) /* tell MENTIONED */

static bool is_due(uint64_t pin)
{
    return (pin & PIN_MENTIONED) != 0 || pin == PIN_DROPPED;
}

/* Stores a changed pin and keeps the number of due ones right. The key is there, or its room reserved. */
static void store(tf_session *s, tf_local local, uint64_t before, uint64_t after)
{
    s->pins_due += (size_t)is_due(after) - (size_t)is_due(before);
    if (after == 0) {
        (void)tf_map_remove(&s->pins, local);
    } else {
        TF_ASSERT(tf_map_put(&s->pins, local, after) == TF_OK);
    }
}

static uint64_t load(const tf_session *s, tf_local local)
{
    uint64_t pin = 0;
    (void)tf_map_get(&s->pins, local, &pin);
    return pin;
}

tf_err tf_session_reserve_pins(tf_session *s, size_t extra)
{
    return extra == 0 ? TF_OK : tf_map_reserve(&s->pins, extra);
}

void tf_session_pin(tf_session *s, tf_local local)
{
    uint64_t pin = load(s, local);
    TF_ASSERT((pin & PIN_COUNT) < PIN_COUNT);
    store(s, local, pin, pin + 1);
}

void tf_session_unpin(tf_session *s, tf_local local)
{
    uint64_t pin = load(s, local);
    TF_ASSERT((pin & PIN_COUNT) > 0);
    store(s, local, pin, pin - 1);
    tf_clist_entry *entry = (pin & PIN_COUNT) == 1 ? tf_clist_by_local(&s->clist, local) : NULL;
    if (entry != NULL && entry->role == TF_CLIST_IMPORT && entry->holds == 0) {
        tf_clist_touch(&s->clist, entry);
    }
}

bool tf_session_is_pinned(const tf_session *s, tf_local local)
{
    return s->pins.count > 0 && (load(s, local) & PIN_COUNT) > 0;
}

bool tf_session_has_pin(const tf_session *s, tf_local local)
{
    return s->pins.count > 0 && load(s, local) != 0;
}

void tf_session_pin_mentioned(tf_session *s, tf_local local)
{
    uint64_t pin = load(s, local);
    TF_ASSERT((pin & PIN_COUNT) > 0);
    store(s, local, pin, pin | PIN_MENTIONED);
}

void tf_session_owe_dropped(tf_session *s, tf_local local)
{
    uint64_t pin = load(s, local);
    store(s, local, pin, pin | PIN_DROPPED);
}

/* The next due pin, from where the last search ended. Removing one may move others, but only forward past the hole, so
 * the search goes on at the hole. */
static bool find_due(tf_session *s, tf_local *local, uint64_t *pin)
{
    for (int round = 0; round < 2; round++) {
        size_t position = s->pins_at;
        while (tf_map_next(&s->pins, &position, local, pin)) {
            if (is_due(*pin)) {
                s->pins_at = position - 1;
                return true;
            }
        }
        s->pins_at = 0;
    }
    return false;
}

bool tf_session_take_pin(tf_session *s, tf_session_event *out)
{
    while (s->pins_due > 0) {
        tf_local local = TF_LOCAL_NONE;
        uint64_t pin = 0;
        bool found = find_due(s, &local, &pin);
        TF_ASSERT(found);
        if ((pin & PIN_MENTIONED) != 0) {
            store(s, local, pin, pin & ~PIN_MENTIONED);
            *out = (tf_session_event){.type = TF_SESSION_MENTIONED, .local = local};
            return true;
        }
        store(s, local, pin, 0);
        if (tf_clist_by_local(&s->clist, local) == NULL) { /* else it was mentioned again */
            *out = (tf_session_event){.type = TF_SESSION_DROPPED, .local = local};
            return true;
        }
    }
    return false;
}

/* -- rejections that are kept while the peer may send to what was rejected ------------------------------------------ */

tf_err tf_session_kept_new(tf_session *s, const tf_answer *answer, tf_kept **out)
{
    size_t size = sizeof(tf_kept) + answer->ref_count * sizeof(tf_mention) + answer->data.len;
    *out = NULL;
    if (size > TF_HELD_BYTES_MAX - s->kept_bytes) {
        return TF_OK;
    }
    tf_kept *kept = tf_alloc(s->mem, size);
    if (kept == NULL) {
        return TF_ERR_NOMEM;
    }
    s->kept_bytes += size;
    *kept = (tf_kept){.size = size, .users = 1, .ref_count = answer->ref_count};
    for (size_t i = 0; i < answer->ref_count; i++) {
        kept->refs[i] = answer->refs[i];
        tf_session_pin(s, answer->refs[i].local);
    }
    uint8_t *data = (uint8_t *)&kept->refs[kept->ref_count];
    if (answer->data.len > 0) {
        memcpy(data, answer->data.data, answer->data.len);
    }
    kept->data = tf_slice_of(data, answer->data.len);
    *out = kept;
    return TF_OK;
}

void tf_session_kept_use(tf_kept *kept)
{
    if (kept != NULL) {
        kept->users++;
    }
}

void tf_session_kept_release(tf_session *s, tf_kept *kept)
{
    if (kept == NULL || --kept->users > 0) {
        return;
    }
    for (size_t i = 0; i < kept->ref_count; i++) {
        tf_session_unpin(s, kept->refs[i].local);
    }
    s->kept_bytes -= kept->size;
    tf_free(s->mem, kept, kept->size);
}
