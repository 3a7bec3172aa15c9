/* One connection between two hubs over a net of its own, driven as an edge drives it. The net outlives sessions: a wire is
 * opened for a session, its ends are lost one by one, and it is opened again.
 *
 * All nets of a world share one time: the host moves every net to it before any hub runs. */
#ifndef TF_TESTS_SIM_WIRE_H
#define TF_TESTS_SIM_WIRE_H

#include "dedup/replay.h"
#include "node/hub.h"
#include "tests/sim/net.h"

#define WIRE_KEYS 4u

typedef struct wire_key {
    bool held;
    uint64_t generation;
    tf_replay replay;
} wire_key;

typedef struct wire_end {
    tf_hub *hub;
    tf_conn *conn; /* NULL: lost */
    bool stream;
    uint64_t stream_generation;
    uint8_t *partial;
    size_t partial_len;
    wire_key keys[WIRE_KEYS];
    uint64_t timer; /* the id of the latest one; older ones are void */
    tf_time timer_at;
} wire_end;

typedef struct wire {
    net *net;
    const tf_mem *mem;
    const tf_rand *rand;
    wire_end end[NET_ENDS]; /* dialler, acceptor */
    uint64_t generation;
    uint64_t sessions;
    uint64_t redials; /* of the stream, within sessions */
    bool dialling;
    uint64_t expected[NET_ENDS];
} wire;

typedef struct wire_side {
    tf_hub *hub;
    tf_node_id id;
    uint64_t instance;
} wire_side;

void wire_init(wire *w, net *n, const tf_mem *mem, const tf_rand *rand);
/* A new session; both ends were lost before. */
void wire_open(wire *w, const wire_side sides[NET_ENDS]);
/* The end forgets the session for good. No-op when it has. */
void wire_lose(wire *w, unsigned end);
void wire_free(wire *w);

/* Takes all events of the net up to `now`. */
void wire_advance(wire *w, tf_time now);
/* Pulls what the end has to send, and arms its timer: after its hub ran. */
void wire_pull(wire *w, unsigned end);
/* The stream breaks, losing what is under way. */
void wire_cut(wire *w);
bool wire_is_open(const wire *w);

#endif
