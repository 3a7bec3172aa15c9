/* What app.c (what applications do) and app_hear.c (what they hear) share. Nobody else includes this. */
#ifndef TF_TESTS_SIM_REFS_APP_INTERNAL_H
#define TF_TESTS_SIM_REFS_APP_INTERNAL_H

#include "tests/sim/refs/world.h"

typedef struct mentions {
    tf_mention items[MENTIONS_MAX];
    number things[MENTIONS_MAX];
    size_t count;
} mentions;

void app_push(handle **list, size_t *count, size_t *capacity, handle item);
/* Keeps the order of the others, so that a program with a step less stays close to what it was. */
void app_take_out(handle *list, size_t *count, size_t at);
void app_hold(world *w, node *n, tf_local local);
bool app_is_decided(const node *n, tf_local local);
void app_forget_decided(node *n, tf_local local);

void app_mention(world *w, mentions *m, handle picked);
/* False: there is nothing that it may send to. */
bool app_pick_target(world *w, node *n, handle *out);
void app_send_to(world *w, node *n, handle target, const mentions *all);

#endif
