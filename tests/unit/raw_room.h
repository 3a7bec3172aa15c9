/* Where most tests of the hub begin: a node with a store, and raw peers of one node id that have its channel "room" open. */
#ifndef TF_TESTS_UNIT_RAW_ROOM_H
#define TF_TESTS_UNIT_RAW_ROOM_H

#include "tests/unit/raw_calls.h"

typedef struct setup {
    world w;
    world_node *node;
    raw_peer *raw;
    raw_peer *other; /* another connection of the same node id; NULL: there is none */
} setup;

static inline raw_peer *in_room(setup *s, uint64_t instance)
{
    raw_peer *raw = raw_new(&s->w, s->node, instance);
    raw_open(raw, "room");
    return raw;
}

/* relay: the raw peer may state origins. */
static inline void begin_as(setup *s, bool relay, const tf_hub_config *config)
{
    world_init(&s->w, 1);
    s->w.relay = relay;
    s->node = world_add(&s->w, true, config);
    s->raw = in_room(s, 11);
    s->other = NULL;
}

static inline void begin_with(setup *s, const tf_hub_config *config)
{
    begin_as(s, false, config);
}

static inline void begin(setup *s)
{
    begin_as(s, false, NULL);
}

static inline void begin_two(setup *s)
{
    begin(s);
    s->other = in_room(s, 12);
}

/* Node and peers begin again; there are two. */
static inline void restart(setup *s)
{
    world_restart(&s->w, s->node);
    free(s->raw);
    free(s->other);
    s->raw = in_room(s, 21);
    s->other = in_room(s, 22);
}

static inline void end(setup *s)
{
    world_free(&s->w);
    free(s->raw);
    free(s->other);
}

#endif
