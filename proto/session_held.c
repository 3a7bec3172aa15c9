#include "proto/session_internal.h"

/* {"code": CODE, "message": TEXT} */
#define REJECTION(code_len, code, text_len, text) "\x82\xa4" "code" code_len code "\xa7" "message" text_len text

tf_slice tf_session_rejection(tf_session_code code)
{
    static const char no_target[] =
        REJECTION("\xb3", "cannot_send_to_data", "\xbf", "the target was resolved to data");
    static const char disconnected[] = REJECTION("\xac", "disconnected", "\xb7", "the connection was lost");
    static const char overloaded[] = REJECTION("\xaa", "overloaded", "\xb4", "too many wait for it");
    switch (code) {
    case TF_SESSION_CANNOT_SEND_TO_DATA:
        return tf_slice_of(no_target, sizeof(no_target) - 1);
    case TF_SESSION_DISCONNECTED:
        return tf_slice_of(disconnected, sizeof(disconnected) - 1);
    case TF_SESSION_OVERLOADED:
        return tf_slice_of(overloaded, sizeof(overloaded) - 1);
    }
    TF_UNREACHABLE();
}

tf_err tf_session_held_new(tf_session *s, const tf_message *m, tf_held **out)
{
    size_t size = sizeof(tf_held) + m->refs.count * sizeof(tf_mention) + m->method.len + m->args.len;
    *out = NULL;
    if (s->held_items >= TF_HELD_ITEMS_MAX || size > TF_HELD_BYTES_MAX - s->held_bytes) {
        return TF_OK;
    }
    tf_err err = tf_session_reserve_pins(s, m->refs.count + 2);
    if (err == TF_OK) {
        err = tf_map_reserve(&s->waiting, 1);
    }
    tf_held *held = err == TF_OK ? tf_alloc(s->mem, size) : NULL;
    if (held == NULL) {
        return TF_ERR_NOMEM;
    }
    *held = (tf_held){.size = size, .ref_count = m->refs.count};
    uint8_t *bytes = (uint8_t *)&held->refs[held->ref_count];
    memcpy(bytes, m->method.data, m->method.len);
    held->method = tf_slice_of(bytes, m->method.len);
    if (m->args.len > 0) {
        memcpy(bytes + m->method.len, m->args.data, m->args.len);
    }
    held->args = tf_slice_of(bytes + m->method.len, m->args.len);
    *out = held;
    return TF_OK;
}

static tf_held *first_waiting(const tf_session *s, tf_local promise)
{
    uint64_t value = 0;
    return tf_map_get(&s->waiting, promise, &value) ? (tf_held *)(uintptr_t)value : NULL;
}

void tf_session_held_wait(tf_session *s, tf_held *held, tf_local promise, tf_local result, const tf_mention *refs)
{
    held->target = promise;
    held->result = result;
    held->last = held;
    tf_session_pin(s, promise);
    if (result != TF_LOCAL_NONE) {
        tf_session_pin(s, result);
    }
    for (size_t i = 0; i < held->ref_count; i++) {
        held->refs[i] = refs[i];
        tf_session_pin(s, refs[i].local);
    }
    s->held_items++;
    s->held_bytes += held->size;
    tf_held *first = first_waiting(s, promise);
    if (first == NULL) {
        tf_err err = tf_map_put(&s->waiting, promise, (uint64_t)(uintptr_t)held);
        TF_ASSERT(err == TF_OK);
        return;
    }
    first->last->next = held;
    first->last = held;
}

/* What holds a delivery holds all that it names; ready for data or a rejection, it has no target any more. */
void tf_session_held_free(tf_session *s, tf_held *held)
{
    if (held == NULL) {
        return;
    }
    for (size_t i = 0; i < held->ref_count; i++) {
        tf_session_unpin(s, held->refs[i].local);
    }
    if (held->target != TF_LOCAL_NONE) {
        tf_session_unpin(s, held->target);
    }
    if (held->result != TF_LOCAL_NONE) {
        tf_session_unpin(s, held->result);
    }
    tf_session_kept_release(s, held->kept);
    s->held_items--;
    s->held_bytes -= held->size;
    tf_free(s->mem, held, held->size);
}

static void free_all(tf_session *s, tf_held **chain)
{
    while (*chain != NULL) {
        tf_held *held = *chain;
        *chain = held->next;
        tf_session_held_free(s, held);
    }
}

void tf_session_held_clear(tf_session *s)
{
    free_all(s, &s->ready);
    free_all(s, &s->answers);
    size_t position = 0;
    uint64_t promise = 0;
    uint64_t value = 0;
    while (tf_map_next(&s->waiting, &position, &promise, &value)) {
        tf_held *first = (tf_held *)(uintptr_t)value;
        free_all(s, &first);
    }
    tf_map_clear(&s->waiting);
}

void tf_session_held_release(tf_session *s, const tf_answer *answer, tf_kept *kept)
{
    tf_held *first = s->waiting.count == 0 ? NULL : first_waiting(s, answer->promise);
    if (first == NULL) {
        return;
    }
    (void)tf_map_remove(&s->waiting, answer->promise);
    bool to_object = answer->kind == TF_RESOLUTION_OBJECT;
    for (tf_held *held = first; held != NULL; held = held->next) {
        tf_session_unpin(s, held->target);
        held->target = to_object ? answer->object.local : TF_LOCAL_NONE;
        if (to_object) {
            tf_session_pin(s, held->target);
        }
        held->kind = answer->kind;
        held->kept = kept;
        tf_session_kept_use(kept);
    }
    tf_held **line = to_object ? &s->ready : &s->answers;
    tf_held **last = to_object ? &s->ready_last : &s->answers_last;
    *(*line == NULL ? line : &(*last)->next) = first;
    *last = first->last;
}

bool tf_session_held_take(tf_session *s, tf_session_event *out)
{
    tf_held *held = s->ready;
    if (held == NULL) {
        return false;
    }
    s->ready = held->next;
    s->current = held;
    *out = (tf_session_event){
        .type = TF_SESSION_DELIVER,
        .local = held->target,
        .method = held->method,
        .args = held->args,
        .result = held->result,
        .refs = held->refs,
        .ref_count = held->ref_count,
    };
    return true;
}

/* -- answers from inside (D8) -------------------------------------------------------------------------------------- */

static tf_err reject(tf_session *s, tf_answer *answer, tf_slice data, const tf_kept *kept)
{
    answer->data = data;
    answer->refs = kept == NULL ? NULL : kept->refs;
    answer->ref_count = kept == NULL ? 0 : kept->ref_count;
    return tf_session_send_answers(s, answer, 1, true);
}

/* Rejects a result, and says in *answer with what. */
static tf_err give_answer(tf_session *s, const tf_owed *owed, tf_answer *answer)
{
    *answer = (tf_answer){.promise = owed->result, .kind = TF_RESOLUTION_REJECTION};
    if (owed->kind == TF_RESOLUTION_DATA) {
        return reject(s, answer, tf_session_rejection(TF_SESSION_CANNOT_SEND_TO_DATA), NULL);
    }
    tf_slice overloaded = tf_session_rejection(TF_SESSION_OVERLOADED);
    if (owed->kept == NULL || !tf_session_has_room(s)) {
        return reject(s, answer, overloaded, NULL);
    }
    tf_err err = reject(s, answer, owed->kept->data, owed->kept);
    bool beyond = err == TF_ERR_LIMIT_ITEMS || err == TF_ERR_LIMIT_BYTES;
    return beyond ? reject(s, answer, overloaded, NULL) : err;
}

/* Takes the oldest answer that is owed. What it needs stays until the next event: s->current, s->shown. */
static tf_owed take_owed(tf_session *s)
{
    tf_owed owed = s->turn.owed;
    if (owed.result != TF_LOCAL_NONE) {
        s->turn.owed = (tf_owed){0};
        s->shown = owed.kept;
        return owed;
    }
    tf_held *held = s->answers;
    s->answers = held->next;
    s->current = held;
    return (tf_owed){.result = held->result, .kind = held->kind, .kept = held->kept};
}

bool tf_session_answer_take(tf_session *s, tf_session_event *out)
{
    while (s->failed == TF_OK && (s->turn.owed.result != TF_LOCAL_NONE || s->answers != NULL)) {
        tf_owed owed = take_owed(s);
        if (owed.result == TF_LOCAL_NONE) {
            tf_session_event_clear(s);
            continue;
        }
        tf_answer answer;
        s->failed = give_answer(s, &owed, &answer);
        if (s->failed == TF_OK) {
            *out = (tf_session_event){
                .type = TF_SESSION_RESOLVED,
                .local = answer.promise,
                .kind = answer.kind,
                .data = answer.data,
                .refs = answer.refs,
                .ref_count = answer.ref_count,
                .until_dropped = true,
            };
            return true;
        }
    }
    return false;
}

void tf_session_event_clear(tf_session *s)
{
    tf_session_held_free(s, s->current);
    s->current = NULL;
    tf_session_kept_release(s, s->shown);
    s->shown = NULL;
}
