/* The application on each side of a simulated session, and the observer who sees both.
 *
 * A host has objects, decides promises, keeps references for a while, answers, forwards what it knows, forgets. What it
 * says names things by a number that the observer gives (thing), inside arguments and data, so each event can be checked:
 * it must name what the sender meant, in the order it was sent, and nothing that was forgotten. A broken promise ends the
 * program with a message. Deterministic: everything comes from the world's random numbers. */
#ifndef TF_TESTS_SIM_SESSION_HOST_H
#define TF_TESTS_SIM_SESSION_HOST_H

#include "proto/session.h"
#include "tests/support/support.h"

#define SIM_REFS_MAX 4u

typedef struct sim_resolution {
    tf_resolution_kind kind;
    tf_mention object;
    tf_mention refs[SIM_REFS_MAX];
    size_t ref_count;
    bool inside; /* given by a session itself, so it says nothing of things */
    uint8_t data[128];
    size_t len;
} sim_resolution;

typedef enum sim_role {
    SIM_NONE,  /* never seen, or forgotten */
    SIM_OWN,   /* an object of this host; a promise that it decides, or that is resolved */
    SIM_IMPORT /* of the peer */
} sim_role;

/* What a host knows of a local id. */
typedef struct sim_record {
    sim_role role;
    tf_ref_kind kind;
    bool has_thing;
    size_t thing;
    bool exported; /* DROPPED is to come */
    bool shown;    /* a promise of ours: it may be resolved */
    bool resolved;
    bool answered; /* by the session itself */
    uint32_t uses; /* references of the host; for an import, its holds */
    sim_resolution resolution;
} sim_record;

/* The observer's view of an object or promise. */
typedef struct sim_thing {
    int owner;
    tf_ref_kind kind;
    tf_local local; /* objects: at their owner */
    bool resolved;
    bool inside;
    tf_resolution_kind resolution;
    size_t object;        /* OBJECT */
    uint32_t sent[2];     /* messages to it, by sender */
    uint32_t received[2]; /* the highest that arrived, by sender */
} sim_thing;

typedef struct sim_host {
    tf_local_ids ids;
    tf_session *session;
    sim_record *records; /* by local id */
    size_t record_capacity;
    tf_local *kept; /* what the host may use, each with one use */
    size_t kept_count;
    size_t kept_capacity;
    tf_local *shown; /* resolved in this turn, so still to be named by the rest of it */
    size_t shown_count;
    size_t shown_capacity;
    bool closing; /* makes nothing new */
} sim_host;

typedef struct sim_world {
    uint64_t seed;
    tf_test_heap heap;
    tf_test_random random;
    tf_time now;
    uint64_t trace; /* hash over all that happened */
    sim_host host[2];
    sim_thing *things;
    size_t thing_count;
    size_t thing_capacity;
    unsigned hold_odds; /* of 8: a mentioned import is kept */
    unsigned want_odds; /* of 8: a message asks for a result */
    unsigned act_odds;  /* of 8: an event is answered at once */
    bool ending;
} sim_world;

#define SIM_CHECK(world, condition, what)                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            sim_fail(world, what, __LINE__);                                                                           \
        }                                                                                                              \
    } while (0)

_Noreturn void sim_fail(const sim_world *w, const char *what, int line);
void sim_trace(sim_world *w, const void *data, size_t len);

/* The bytes of arguments and data. mark is 0, so that nothing a session says by itself looks like it. */
#define SIM_NO_THING UINT32_MAX
typedef struct sim_payload {
    uint32_t mark;
    uint32_t stamp; /* arguments: counts the messages of the sender to the thing */
    uint32_t thing; /* the target, or the promise that is resolved */
    uint32_t result;
    uint32_t count;
    uint32_t refs[SIM_REFS_MAX];
} sim_payload;

/* -- session_host.c: what a host knows and does -- */

size_t sim_below(sim_world *w, size_t bound);
bool sim_chance(sim_world *w, unsigned odds); /* of 8 */
void *sim_grow(const sim_world *w, void *items, size_t *capacity, size_t need, size_t size);

sim_record *sim_record_of(sim_world *w, int side, tf_local local);
sim_record *sim_record_new(sim_world *w, int side, tf_local local, sim_role role, size_t thing);
size_t sim_new_thing(sim_world *w, int owner, tf_ref_kind kind, tf_local local);
void sim_use(sim_world *w, int side, tf_local local);
void sim_unuse(sim_world *w, int side, tf_local local);
void sim_keep(sim_world *w, int side, tf_local local);   /* adds it to `kept`; there is a use for it already */
void sim_forget(sim_world *w, int side, tf_local local); /* its own, with what only its resolution keeps */
size_t sim_names_of(const sim_resolution *resolution, tf_local list[SIM_REFS_MAX + 1]);
bool sim_is_owed(const sim_record *r); /* a promise that the host must resolve */

void sim_send(sim_world *w, int side, tf_local target);
void sim_resolve(sim_world *w, int side, tf_local promise);
/* Tells the peer what those of refs that are resolved promises are resolved to. */
void sim_announce(sim_world *w, int side, const tf_mention *refs, size_t count);

/* One random thing. */
void sim_host_act(sim_world *w, int side);
/* Lets go of one of the things that it keeps; false when it keeps none. */
bool sim_host_forget_one(sim_world *w, int side);
/* Resolves one promise that it owes; false when it owes none. */
bool sim_host_settle_one(sim_world *w, int side);

/* -- session_observer.c: what a host hears, and what must be true -- */

void sim_world_init(sim_world *w, uint64_t seed);
void sim_world_free(sim_world *w);

/* One turn: with a message, or (len 0) for what is ready inside. */
void sim_host_turn(sim_world *w, int side, tf_slice message);
/* Lets go of what its resolved promises name, if nobody can ask any more. Cycles are the application's own to break. */
void sim_host_break_cycles(sim_world *w, int side);
/* What must be true after each step. */
void sim_check(sim_world *w);
/* What must be true when both are silent; empty: and have forgotten everything. */
void sim_check_quiet(sim_world *w, bool empty);
/* Ends the session of a side for good, and checks what it tells. */
void sim_host_end(sim_world *w, int side);

#endif
