/* What must be true of a world at all times (P7), and once it is quiet (P5, P9). */
#ifndef TF_TESTS_SIM_NODES_CHECKS_H
#define TF_TESTS_SIM_NODES_CHECKS_H

#include "tests/sim/nodes/world.h"

/* After an event: of one connection after the other, now and then. */
void checks_bounds(world *w);
/* The world is quiet: nothing waits, nothing is left. */
void checks_quiet(world *w);
/* Bytes that all connections may write in a silent minute. */
uint64_t checks_silent_bytes(const world *w);

#endif
