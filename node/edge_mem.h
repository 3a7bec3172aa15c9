/* What the edges hand to the pure cores: memory from malloc, randomness and clocks from the system. Any thread. */
#ifndef TF_NODE_EDGE_MEM_H
#define TF_NODE_EDGE_MEM_H

#include "proto/types.h"

/* calloc and free. */
const tf_mem *tf_edge_mem(void);

/* Hands freed memory back to the system, where the C library would keep it for later: some ms for 100 MB. */
void tf_edge_mem_trim(void);

/* getrandom(2). Ends the process should the system have none. */
const tf_rand *tf_edge_rand(void);

/* Microseconds of the clock that never goes back and goes on while the machine sleeps (CLOCK_BOOTTIME, so that a session
 * timeout is over after a night with the lid closed). */
tf_time tf_edge_now(void);

/* Milliseconds since 1970 UTC. May jump. */
int64_t tf_edge_wall_ms(void);

#endif
