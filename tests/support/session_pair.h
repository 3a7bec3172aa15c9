/* Two nodes with a session each, and the line between them, moved by hand: for tests of proto/session and node/router.
 * No Check in here.
 *
 * Side 0 is the dialler. What a session has to send goes on the line with tf_pair_flush, one message is received with
 * tf_pair_step. Every event is recorded. Each side has its own local ids: its root is 2, the peer's root 3, so tests
 * may name ids. Faults in the use of these helpers abort. */
#ifndef TF_TESTS_SUPPORT_SESSION_PAIR_H
#define TF_TESTS_SUPPORT_SESSION_PAIR_H

#include "node/router.h"

#define TF_PAIR_ROOT ((tf_local)2)
#define TF_PAIR_PEER_ROOT ((tf_local)3)
#define TF_PAIR_EVENTS_MAX 2048u
#define TF_PAIR_REFS_MAX 24u
#define TF_PAIR_TEXT_MAX 96u

typedef struct tf_pair_event {
    tf_router_event_type type;
    tf_local local;
    tf_local result;
    tf_resolution_kind kind;
    tf_mention object;
    bool hard;
    size_t ref_count;
    tf_mention refs[TF_PAIR_REFS_MAX];
    char text[TF_PAIR_TEXT_MAX]; /* DELIVER: the method; RESOLVED, REVOKED: the data. Cut if longer */
} tf_pair_event;

typedef struct tf_pair_message tf_pair_message;

typedef struct tf_pair tf_pair;

typedef struct tf_pair_side {
    tf_router *router;
    tf_session *session;
    bool holds;                                /* holds every import and every promise that an event shows, once */
    void (*on_event)(tf_pair *pair, int side); /* within the turn, after an event was recorded; NULL: none */
    tf_err err;                                /* of the last recv, or of the session that had to end in its turn */
    size_t event_count;
    tf_pair_event events[TF_PAIR_EVENTS_MAX];
    tf_pair_message *line, *line_last; /* on the way to this side */
    size_t line_count;
} tf_pair_side;

struct tf_pair {
    const tf_mem *mem;
    tf_time now;
    tf_pair_side side[2];
};

/* The limits of both sides unless a test gives others. */
tf_session_limits tf_pair_limits(void);
/* announced: by side; NULL for tf_pair_limits. */
TF_MUST_CHECK tf_err tf_pair_init(tf_pair *pair, const tf_mem *mem, const tf_session_limits announced[2]);
void tf_pair_free(tf_pair *pair);

/* Takes the events of `from`, then puts what it has to send on the line; how many messages that were. */
size_t tf_pair_flush(tf_pair *pair, int from);
/* One turn of `to` with the next message on its line: events are recorded. False: nothing on the line. */
bool tf_pair_step(tf_pair *pair, int to);
/* Takes the events of a side, until there are none. */
void tf_pair_turn(tf_pair *pair, int of);
/* Flushes and receives `to`'s whole line. */
void tf_pair_deliver_all(tf_pair *pair, int to);
/* Everything to and fro, time passing over every deadline, until both are silent. Aborts when they never are. */
void tf_pair_settle(tf_pair *pair);
/* The wire bytes of the next message on the line to `to`. */
tf_slice tf_pair_next(const tf_pair *pair, int to);
/* Puts bytes on the line as if the other side had sent them. */
void tf_pair_put(tf_pair *pair, int to, tf_slice bytes);
/* Takes it off the line unread. */
void tf_pair_lose(tf_pair *pair, int to);

/* The n-th event of a side of that type, from the first recorded; NULL: there is none. */
const tf_pair_event *tf_pair_find(const tf_pair *pair, int side, tf_router_event_type type, size_t n);
size_t tf_pair_count(const tf_pair *pair, int side, tf_router_event_type type);
void tf_pair_forget_events(tf_pair *pair);

tf_session_stats tf_pair_stats(const tf_pair *pair, int side);
tf_router_stats tf_pair_node(const tf_pair *pair, int side);
/* Only the roots are left, and no retirement, no held delivery, no value on either side. */
bool tf_pair_is_empty(const tf_pair *pair);

/* Short ways. want: a result is asked for and given back. Abort on an error. */
tf_local tf_pair_send(tf_pair *pair, int from, tf_local target, const char *method, bool want);
tf_local tf_pair_send_ref(tf_pair *pair, int from, tf_local target, const char *method, tf_local local,
                          tf_ref_kind kind);
void tf_pair_resolve_data(tf_pair *pair, int from, tf_local promise, const char *data);
void tf_pair_resolve_object(tf_pair *pair, int from, tf_local promise, tf_local object);
void tf_pair_reject(tf_pair *pair, int from, tf_local promise, const char *data);
tf_local tf_pair_new_object(tf_pair *pair, int side);
tf_local tf_pair_new_promise(tf_pair *pair, int side); /* held once, until it is resolved */
/* Sends a new promise along, which only the peer refers to then. */
tf_local tf_pair_send_promise(tf_pair *pair, int from, const char *method);
void tf_pair_release(tf_pair *pair, int side, tf_local local);
void tf_pair_revoke(tf_pair *pair, int side, tf_local object, bool hard, const char *data);
/* A message with refs and without anything else; the error, if there is one. */
TF_MUST_CHECK tf_err tf_pair_send_refs(tf_pair *pair, int from, const tf_mention *refs, size_t count, bool want);
/* Ends the session of a side (D14), and takes its events. It stays until tf_pair_free. */
void tf_pair_cut(tf_pair *pair, int side);
/* Begins a pair (on tf_test_mem) in which side 0 has exported *object: side 1 holds it under the id that comes back. */
tf_local tf_pair_export(tf_pair *pair, tf_local *object);
/* Begins a pair in which side 0 has asked something of side 1, which owes *theirs: the promise at side 0. */
tf_local tf_pair_ask(tf_pair *pair, tf_local *theirs);
/* Answers every call that a side has heard, and lets go of what came with it. */
void tf_pair_answer_all(tf_pair *pair, int side);

#endif
