/* A chain of routers (tests/support/ref_nodes.h) with an application at each end, X at the left one and Y at the right one; the
 * ones between only relay. X has an object x, which Y holds, and the other way round. What the ends are told is kept as a log;
 * what they are told of they hold until they forget it (but for promises that a resolution mentions: two may mention each other).
 * Messages move when they are carried, so each order can be tried.
 *
 * One chain at a time. Faults in the use abort. No Check in here. */
#ifndef TF_TESTS_SUPPORT_REF_CHAIN_H
#define TF_TESTS_SUPPORT_REF_CHAIN_H

#include "tests/support/ref_nodes.h"

#define TF_CHAIN_EVENTS 128u
#define TF_CHAIN_REFS 4u
#define TF_CHAIN_TEXT 64u

typedef struct tf_chain_event {
    size_t node;
    tf_router_event_type type;
    tf_local local;
    char text[TF_CHAIN_TEXT]; /* the method; the data, or the code of a rejection that a node gives by itself */
    tf_local result;
    tf_resolution_kind kind;
    tf_mention object;
    bool hard;
    tf_mention refs[TF_CHAIN_REFS];
    size_t ref_count;
    bool answered; /* a deliver */
} tf_chain_event;

typedef struct tf_chain {
    tf_test_net net;
    size_t last;        /* Y; X is node 0 */
    tf_local x, x_at_y; /* X's object, at X and at Y */
    tf_local y, y_at_x;
    size_t branch; /* Z, a third end; 0: there is none */
    tf_local z_at_y;
    tf_chain_event events[TF_CHAIN_EVENTS];
    size_t event_count;
    struct {
        size_t node;
        tf_local local;
    } held[TF_CHAIN_EVENTS];
    size_t held_count;
} tf_chain;

/* nodes from 2 on. All is acked, the log is empty. */
void tf_chain_begin(tf_chain *chain, size_t nodes);
/* One more end, Z, at the first relay. It has an object, which Y holds. */
void tf_chain_branch(tf_chain *chain);
/* The ends forget everything; time passes until nothing moves. Whether nothing is left in any table then. */
bool tf_chain_end(tf_chain *chain);

tf_local tf_chain_object(tf_chain *chain, size_t node);
/* One that the node decides; held. */
tf_local tf_chain_promise(tf_chain *chain, size_t node);
/* refs: what it mentions, ref_count of them; objects or promises of the node. A result is held. */
void tf_chain_send(tf_chain *chain, size_t node, tf_local target, const char *method, const tf_mention *refs,
                   size_t ref_count);
tf_local tf_chain_ask(tf_chain *chain, size_t node, tf_local target, const char *method);
void tf_chain_resolve(tf_chain *chain, size_t node, tf_local promise, const char *data, const tf_mention *refs,
                      size_t ref_count);
void tf_chain_resolve_to(tf_chain *chain, size_t node, tf_local promise, tf_local object);
void tf_chain_reject(tf_chain *chain, size_t node, tf_local promise, const char *data, const tf_mention *refs,
                     size_t ref_count);
void tf_chain_revoke(tf_chain *chain, size_t node, tf_local object, bool hard, const char *data);
/* The node holds it once more; one hold is given back. */
void tf_chain_hold(tf_chain *chain, size_t node, tf_local local);
void tf_chain_forget(tf_chain *chain, size_t node, tf_local local);
/* Every deliver of that node that wants an answer and has got none is resolved to the data. */
void tf_chain_answer_all(tf_chain *chain, size_t node, const char *data);

/* Carries what node `from` has written to its right or left neighbour by now, not what it writes meanwhile. */
void tf_chain_right(tf_chain *chain, size_t from);
void tf_chain_left(tf_chain *chain, size_t from);
/* The same for one message. */
bool tf_chain_right_one(tf_chain *chain, size_t from);
bool tf_chain_left_one(tf_chain *chain, size_t from);
/* All there is, until nothing moves; acks that are due later, too. */
void tf_chain_settle(tf_chain *chain);

/* The nth event (from 0) of a node of that type, and with that text (NULL: any). NULL: there is none. */
const tf_chain_event *tf_chain_find(const tf_chain *chain, size_t node, tf_router_event_type type, const char *text,
                                    size_t nth);
size_t tf_chain_count(const tf_chain *chain, size_t node, tf_router_event_type type, const char *text);
/* The methods of the delivers that a node got, in order, with a blank behind each. */
const char *tf_chain_heard(const tf_chain *chain, size_t node);

#endif
