/* A world of nodes, each a router and an application, and an observer who knows them all (README.md).
 *
 * Everything that applications say carries a number of the observer: of the message, or of the outcome of a promise. So
 * each event can be checked against what its sender meant. Everything happens in steps, which are three small numbers
 * each and are understood in any world: a program from which steps are taken away still runs. A broken promise ends the
 * process.
 *
 * shape.c: who is connected · world.c: nodes, lines, time · ending.c: the way down · app.c, app_hear.c: what
 * applications do and hear · observer.c: what must be true of that · monitor.c: of what is on the wire · recount.c: of
 * what nodes keep. Deterministic; one world a process at a time. */
#ifndef TF_TESTS_SIM_REFS_WORLD_H
#define TF_TESTS_SIM_REFS_WORLD_H

#include "node/router.h"
#include "tests/sim/refs/monitor.h"
#include "tests/sim/refs/program.h"
#include "tests/support/support.h"

#define NODES_MAX 5u
#define CONNS_MAX 32u
#define MENTIONS_MAX 4u

/* Numbers of things, messages and outcomes are from 1; 0 is none. */
typedef uint32_t number;

/* An object or promise, wherever it is known and under however many local ids. */
typedef struct thing {
    tf_ref_kind kind;
    unsigned home;  /* objects: the node that hosts it */
    tf_local local; /* objects: there */
    bool plain;     /* objects: never revoked; promises: resolved to data that mentions nothing */
    bool known;     /* objects: was mentioned, and no GONE came since */
    number soft;    /* objects: the outcomes that it was revoked with */
    number hard;
    number asked;   /* promises: the message whose result it is */
    number outcome; /* promises: what an application resolved it to */
} thing;

typedef struct said_message {
    unsigned from;
    tf_local via;   /* the reference that it was sent to, there */
    uint32_t stamp; /* the how many-eth that was */
    number target;
    number result;
    size_t ref_count;
    number refs[MENTIONS_MAX];
    bool delivered;
    bool rejected; /* answered by a node, or not taken, so it must not arrive any more */
} said_message;

/* What a promise was resolved to, or what an object was revoked with. */
typedef struct outcome {
    tf_resolution_kind kind;
    number object;
    size_t ref_count;
    number refs[MENTIONS_MAX];
} outcome;

/* What an application holds, once; or a promise that it decides. */
typedef struct handle {
    tf_local local;
    number thing;
    bool fixed; /* the root of a peer, from the beginning */
} handle;

/* What is known of a local id of a node. */
typedef struct note {
    number thing;
    uint32_t sent; /* messages sent to it by the application */
    uint32_t got;  /* of these, the last that arrived */
    uint32_t holds;
    bool resolved;     /* the application has heard so */
    uint32_t exported; /* by connection: was when nothing moved, and no DROPPED came since */
    uint32_t exported_now;
    uint32_t expected; /* recount.c: what its record's count should be */
} note;

typedef struct node {
    tf_router *router;
    unsigned index;
    bool active;
    tf_local root;
    handle *handles;
    size_t handle_count, handle_capacity;
    handle *decided;
    size_t decided_count, decided_capacity;
    number *own; /* objects that it may mention */
    size_t own_count, own_capacity;
    note *notes; /* by local id */
    size_t note_capacity;
    size_t value_bytes; /* at the beginning */
} node;

typedef struct line_item {
    uint8_t *bytes;
    size_t len;
} line_item;

typedef struct line {
    line_item *items;
    size_t head, count, capacity;
} line;

typedef struct conn conn;

typedef struct conn_end conn_end;

struct conn_end {
    conn *conn;
    conn_end *self;
    tf_side side;
    node *node;
    tf_session *session;
    line out; /* what was sent and has not arrived */
};

struct conn {
    bool open;
    bool failed; /* a node ran out of memory: it is to be cut */
    conn_end ends[2];
    monitor monitor;
};

typedef struct world {
    plan plan;
    tf_test_heap heap;
    tf_test_random random; /* of this step */
    uint64_t trace;
    tf_time now;
    size_t step;
    bool verbose;
    bool thorough; /* counts after each step */
    bool closing;  /* applications begin nothing new */
    bool is_lean;  /* low limits: not everything can be said */
    bool has_cycles;
    bool has_aliases; /* own objects may come home under other ids */
    unsigned cuts;
    unsigned replies; /* how often applications may still say something in return, in this step */
    unsigned node_count, conn_count;
    node nodes[NODES_MAX];
    conn conns[CONNS_MAX];
    thing *things;
    size_t thing_count, thing_capacity;
    said_message *messages;
    size_t message_count, message_capacity;
    outcome *outcomes;
    size_t outcome_count, outcome_capacity;
    uint64_t received; /* messages on all lines */
    uint64_t held;     /* steps at whose end messages were held, */
    uint64_t fenced;   /* or a resolution was */
    void (*settle)(
        void *ctx); /* whoever carries messages in place of the world's lines brings them all; NULL: nobody does */
    void *settle_ctx;
} world;

/* -- failing (sim_refs.c: where it goes) --------------------------------------------------------------------------- */

/* `what` is a class of failures, the same however often it is met; the rest is for people. */
_Noreturn void world_fail(const world *w, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define CHECK(w, condition, what, ...)                                                                                 \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            world_fail(w, what, __VA_ARGS__);                                                                          \
        }                                                                                                              \
    } while (0)

/* With --verbose: a line about what happens. */
void world_say(const world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_say_message(const world *w, const conn_end *e, tf_slice bytes); /* say.c */

/* -- shape.c ------------------------------------------------------------------------------------------------------- */

unsigned world_nodes_of(world *w);
void world_connect(world *w);
void world_connect_nodes(world *w, unsigned a, unsigned b);
bool world_are_connected(const world *w, unsigned a, unsigned b);
/* Both applications get the other's root. */
void world_take_roots(world *w, conn *c);

/* -- world.c ------------------------------------------------------------------------------------------------------- */

size_t world_below(world *w, size_t bound); /* 0 when bound is 0 */
bool world_chance(world *w, unsigned of_eight);
void *world_grow(void *items, size_t *capacity, size_t need, size_t size);
void world_trace(world *w, const void *data, size_t len);

/* The ends of open connections, one after the other: *cursor starts at 0; NULL: no more. */
conn_end *world_next_end(const world *w, size_t *cursor);

void world_init(world *w, const plan *p, bool verbose);
void world_free(world *w);
void world_step(world *w, const step *s);
/* Takes the events of a node and puts what it wrote on the lines. */
void world_drain(world *w, node *n);
/* Everything is delivered and time passes until no one waits for it. */
void world_settle(world *w);
/* For who carries messages by itself: the next one that an end has said, and one that came to it. */
bool world_peek(const conn_end *e, tf_slice *out);
void world_pop(conn_end *e);
void world_arrive(world *w, conn_end *to, tf_slice bytes);
tf_time world_deadline(const world *w, const node *n);
void world_tick(world *w, node *n, tf_time now);
/* The way down: promises are resolved, handles given back, and nothing is left. */
void world_end(world *w);

/* -- app.c --------------------------------------------------------------------------------------------------------- */

void app_begin(world *w, node *n); /* its root */
void app_take_root(world *w, node *n, tf_session *session, node *peer);
void app_lose(world *w, node *n,
              const tf_session *session); /* the session will be detached: its root is not held any more */
void app_send(world *w, node *n);
void app_promise(world *w, node *n);
void app_resolve(world *w, node *n, size_t at_most);
void app_release(world *w, node *n);
void app_release_at(world *w, node *n, size_t i);
void app_revoke(world *w, node *n);
void app_hear(world *w, node *n, const tf_router_event *event);
bool app_may_release(const world *w, const handle *h);

/* -- observer.c ---------------------------------------------------------------------------------------------------- */

number observer_new_thing(world *w, tf_ref_kind kind, unsigned home, tf_local local);
number observer_new_message(world *w, const said_message *m);
number observer_new_outcome(world *w, const outcome *o);
note *observer_note(world *w, node *n, tf_local local);
/* The node knows the thing by that id: it must not have been something else before. */
void observer_meet(world *w, node *n, tf_local local, number thing);

/* The bytes that stand for a message or an outcome. */
#define BODY_MAX 1900u
tf_slice observer_message_body(world *w, number m, uint8_t buffer[BODY_MAX]);
tf_slice observer_outcome_body(world *w, number o, uint8_t buffer[BODY_MAX]);

/* Checks the event and gives what it is about. */
number observer_delivered(world *w, node *n, const tf_router_event *event);
void observer_resolved(world *w, node *n, const tf_router_event *event);
void observer_revoked(world *w, node *n, const tf_router_event *event);
void observer_dropped(world *w, node *n, const tf_router_event *event);
/* Nothing moves, every promise is resolved: each message has arrived or cannot. */
void observer_check_arrived(world *w);

/* -- recount.c ----------------------------------------------------------------------------------------------------- */

void recount_node(world *w, node *n);  /* between turns */
void recount_lists(world *w, conn *c); /* the c-lists of a connection are what the wire says */
void recount_silent(world *w);         /* nothing is on its way: no retirements */
void recount_empty(world *w);          /* and nobody uses anything: nothing is left */

#endif
