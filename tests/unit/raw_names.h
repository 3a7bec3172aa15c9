/* What raw peers do with objects of each other through a node: publish, look up, call and answer. */
#ifndef TF_TESTS_UNIT_RAW_NAMES_H
#define TF_TESTS_UNIT_RAW_NAMES_H

#include "tests/unit/raw_calls.h"

/* `publish`, `lookup`; ref TF_LOCAL_NONE: without one. Settled. */
static inline tf_local raw_say_name(raw_peer *raw, const char *method, const char *name, tf_local ref)
{
    raw_args args;
    tf_args_name_write(raw_begin(&args), &(tf_args_name){tf_slice_str(name)});
    tf_local promise = raw_call(raw, raw_root(raw), method, raw_bytes(&args), ref);
    raw_settle(raw);
    return promise;
}

static inline const char *raw_publish(raw_peer *raw, const char *name, tf_local object)
{
    return raw_outcome(raw, raw_say_name(raw, "publish", name, object));
}

/* The object that was found, held; TF_LOCAL_NONE: it was not. */
static inline tf_local raw_lookup(raw_peer *raw, const char *name)
{
    const raw_answer *answer = raw_find(raw, raw_say_name(raw, "lookup", name, TF_LOCAL_NONE));
    return answer == NULL || answer->rejected ? TF_LOCAL_NONE : answer->ref;
}

static inline const char *raw_lookup_outcome(raw_peer *raw, const char *name)
{
    return raw_outcome(raw, raw_say_name(raw, "lookup", name, TF_LOCAL_NONE));
}

/* The last message with that method for an object of the raw peer; NULL: none. */
static inline raw_answer *raw_called(raw_peer *raw, const char *method)
{
    for (size_t i = raw->count; i > 0; i--) {
        raw_answer *call = &raw->answers[i - 1];
        if (call->is_deliver && strncmp(call->method, method, sizeof(call->method) - 1) == 0) {
            return call;
        }
    }
    return NULL;
}

/* The same; there is one. */
static inline const raw_answer *raw_got(raw_peer *raw, const char *method)
{
    static const raw_answer none = {.promise = TF_LOCAL_NONE};
    const raw_answer *call = raw_called(raw, method);
    ck_assert_msg(call != NULL, "nobody called %s", method);
    return call == NULL ? &none : call;
}

/* Both take what comes, until nothing moves. */
static inline void raw_settle_both(raw_peer *a, raw_peer *b)
{
    do {
        raw_settle(b);
        raw_settle(a);
    } while (raw_take(b, SIZE_MAX) > 0);
}

/* A call with a text as its arguments, not settled. */
static inline tf_local raw_ask_text(raw_peer *raw, tf_local target, const char *method, const char *text, tf_local ref)
{
    return raw_call(raw, target, method, tf_slice_str(text), ref);
}

/* Answers with a text; ref TF_LOCAL_NONE: without one. Not settled. */
static inline void raw_answer_text(raw_peer *raw, tf_local promise, const char *text, tf_local ref)
{
    tf_mention mention = {ref, TF_REF_OBJECT};
    tf_answer answer = {.promise = promise,
                        .kind = TF_RESOLUTION_DATA,
                        .data = tf_slice_str(text),
                        .refs = &mention,
                        .ref_count = ref == TF_LOCAL_NONE ? 0 : 1};
    ck_assert_int_eq(tf_router_resolve(raw->end->router, raw->w->now, &answer, 1), TF_OK);
}

static inline bool raw_is_text(const raw_answer *answer, const char *text)
{
    return answer != NULL && tf_slice_eq(raw_data(answer), tf_slice_str(text));
}

static inline void raw_release(raw_peer *raw, tf_local local)
{
    tf_router_release(raw->end->router, raw->w->now, local);
}

static inline bool raw_knows(const raw_peer *raw, tf_local local)
{
    return tf_router_is_known(raw->end->router, local);
}

/* The session of one that others were settled with is lost; the raw peer is freed. */
static inline void raw_lose(raw_peer **raw)
{
    world *w = (*raw)->w;
    world_disconnect(w, raw_pair(*raw));
    free(*raw);
    *raw = NULL;
    world_settle(w);
}

#endif
