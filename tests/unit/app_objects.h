/* Where tests of node/hub_objects begin: a node, an object of the program that embeds it, and a raw peer that knows it. */
#ifndef TF_TESTS_UNIT_APP_OBJECTS_H
#define TF_TESTS_UNIT_APP_OBJECTS_H

#include "tests/support/check_main.h"
#include "tests/unit/raw_names.h"

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *peer;
    tf_local own;  /* an object of the application, */
    tf_local seen; /* which the peer knows as that */
    int tag;       /* its user */
} setup;

static inline tf_local call(setup *s, tf_local target, const char *method, const tf_mention *refs, size_t count)
{
    tf_local result = TF_LOCAL_NONE;
    tf_router_send send = {.target = target,
                           .method = tf_slice_str(method),
                           .args = tf_slice_str("args"),
                           .refs = refs,
                           .ref_count = count,
                           .want_result = true};
    ck_assert_int_eq(tf_hub_call(s->node->hub, s->w.now, &send, &s->w, &result), TF_OK);
    raw_settle(s->peer);
    return result;
}

/* The object, as a peer knows it that was given it by a message to its root. */
static inline tf_local given_to(setup *s, raw_peer *peer)
{
    tf_mention object = {s->own, TF_REF_OBJECT};
    tf_router_send send = {.target = tf_hub_peer_root(raw_pair(peer)->end[1].conn),
                           .method = tf_slice_str("take"),
                           .args = tf_slice_str(""),
                           .refs = &object,
                           .ref_count = 1};
    ck_assert_int_eq(tf_hub_call(s->node->hub, s->w.now, &send, NULL, NULL), TF_OK);
    raw_settle(peer);
    return raw_got(peer, "take")->ref;
}

static inline void begin(setup *s)
{
    world_init(&s->w, 7);
    s->node = world_add(&s->w, true, NULL);
    s->peer = raw_new(&s->w, s->node, 11);
    ck_assert_int_eq(tf_hub_object_new(s->node->hub, &s->tag, &s->own), TF_OK);
    s->seen = given_to(s, s->peer);
}

static inline void end(setup *s)
{
    ck_assert_uint_eq(s->node->failures, 0);
    world_free(&s->w);
    free(s->peer);
}

/* The next event, which is of that type. */
static inline tf_app_event next(setup *s, tf_app_event_type type)
{
    tf_app_event event;
    ck_assert_msg(tf_hub_next_app_event(s->node->hub, &event), "there is no event");
    ck_assert_int_eq(event.type, type);
    return event;
}

static inline void nothing_more(setup *s)
{
    tf_app_event event;
    ck_assert(!tf_hub_next_app_event(s->node->hub, &event));
    ck_assert(!tf_hub_has_app_events(s->node->hub));
}

static inline void fall_silent(setup *s)
{
    raw_settle(s->peer);
    world_pass(&s->w, 50);
    raw_settle(s->peer);
}

static inline size_t records_of(setup *s)
{
    tf_hub_stats stats;
    tf_hub_get_stats(s->node->hub, &stats);
    return stats.refs.records;
}

#endif
