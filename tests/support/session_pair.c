#include "tests/support/session_pair.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/limits.h"
#include "tests/support/support.h"

struct tf_pair_message {
    tf_pair_message *next;
    size_t len;
    uint8_t bytes[];
};

static void check(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "tests/support/session_pair: %s\n", what);
        abort();
    }
}

tf_session_limits tf_pair_limits(void)
{
    return (tf_session_limits){.max_message = 65536, .max_refs = 1000, .max_promises = 1000, .max_results = 500};
}

static tf_err init_side(tf_pair *pair, int i, const tf_session_limits announced[2])
{
    tf_pair_side *side = &pair->side[i];
    side->holds = true;
    tf_err err = tf_router_new(&side->router, pair->mem, 7);
    if (err != TF_OK) {
        return err;
    }
    tf_session_config config = {
        .side = i == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
        .local = announced == NULL ? tf_pair_limits() : announced[i],
        .remote = announced == NULL ? tf_pair_limits() : announced[1 - i],
        .refs = tf_router_refs(side->router),
        .root = tf_router_new_object(side->router),
        .hash_key = 7,
        .mem = pair->mem,
    };
    err = tf_session_new(&side->session, &config);
    return err == TF_OK ? tf_router_attach(side->router, side->session, pair) : err;
}

tf_err tf_pair_init(tf_pair *pair, const tf_mem *mem, const tf_session_limits announced[2])
{
    *pair = (tf_pair){.mem = mem, .now = 1000};
    tf_err err = TF_OK;
    for (int i = 0; i < 2 && err == TF_OK; i++) {
        err = init_side(pair, i, announced);
    }
    return err;
}

void tf_pair_free(tf_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        tf_pair_side *side = &pair->side[i];
        while (side->line != NULL) {
            tf_pair_lose(pair, i);
        }
        if (side->session != NULL) {
            tf_router_detach(side->router, pair->now, side->session);
            tf_session_free(side->session);
            side->session = NULL;
        }
        tf_router_event event;
        while (side->router != NULL && tf_router_next_event(side->router, &event)) {
        }
        tf_router_free(side->router);
        side->router = NULL;
    }
}

void tf_pair_cut(tf_pair *pair, int side)
{
    tf_router_detach(pair->side[side].router, pair->now, pair->side[side].session);
    tf_pair_turn(pair, side);
}

void tf_pair_put(tf_pair *pair, int to, tf_slice bytes)
{
    tf_pair_side *side = &pair->side[to];
    tf_pair_message *message = malloc(sizeof(*message) + bytes.len);
    check(message != NULL, "out of memory");
    message->next = NULL;
    message->len = bytes.len;
    if (bytes.len > 0) {
        memcpy(message->bytes, bytes.data, bytes.len);
    }
    *(side->line == NULL ? &side->line : &side->line_last->next) = message;
    side->line_last = message;
    side->line_count++;
}

size_t tf_pair_flush(tf_pair *pair, int from)
{
    tf_session *session = pair->side[from].session;
    size_t count = 0;
    tf_pair_turn(pair, from);
    for (tf_slice out; tf_session_peek_out(session, &out); count++) {
        tf_pair_put(pair, 1 - from, out);
        tf_session_pop_out(session);
    }
    return count;
}

tf_slice tf_pair_next(const tf_pair *pair, int to)
{
    check(pair->side[to].line != NULL, "nothing on the line");
    return tf_slice_of(pair->side[to].line->bytes, pair->side[to].line->len);
}

static tf_pair_message *take(tf_pair_side *side)
{
    tf_pair_message *message = side->line;
    side->line = message->next;
    side->line_count--;
    return message;
}

void tf_pair_lose(tf_pair *pair, int to)
{
    check(pair->side[to].line != NULL, "nothing on the line");
    free(take(&pair->side[to]));
}

static bool was_resolved(const tf_pair_side *side, tf_local promise)
{
    for (size_t i = 0; i < side->event_count; i++) {
        if (side->events[i].type == TF_ROUTER_RESOLVED && side->events[i].local == promise) {
            return true;
        }
    }
    return false;
}

/* An object of its own needs no hold; a resolved promise is told once, or a cycle would be for ever. */
static void hold(tf_pair_side *side, const tf_mention *what)
{
    tf_session *owner = NULL;
    size_t exports = 0;
    bool revoked = false;
    bool known = side->holds && what->local != TF_LOCAL_NONE &&
                 tf_router_describe(side->router, what->local, &owner, &exports, &revoked);
    if (known && (owner != NULL || (what->kind == TF_REF_PROMISE && !was_resolved(side, what->local)))) {
        tf_router_hold(side->router, what->local);
    }
}

static void record(tf_pair_side *side, const tf_router_event *event)
{
    check(side->event_count < TF_PAIR_EVENTS_MAX, "too many events");
    check(event->ref_count <= TF_PAIR_REFS_MAX, "too many refs");
    tf_pair_event *copy = &side->events[side->event_count++];
    *copy = (tf_pair_event){
        .type = event->type,
        .local = event->local,
        .result = event->result,
        .kind = event->kind,
        .object = event->object,
        .hard = event->hard,
        .ref_count = event->ref_count,
    };
    for (size_t i = 0; i < event->ref_count; i++) {
        copy->refs[i] = event->refs[i];
        hold(side, &event->refs[i]);
    }
    hold(side, &event->object);
    tf_slice text = event->type == TF_ROUTER_DELIVER ? event->method : event->data;
    if (text.len > 0) {
        memcpy(copy->text, text.data, text.len < TF_PAIR_TEXT_MAX ? text.len : TF_PAIR_TEXT_MAX - 1);
    }
}

void tf_pair_turn(tf_pair *pair, int of)
{
    tf_pair_side *side = &pair->side[of];
    for (tf_router_event event; tf_router_next_event(side->router, &event);) {
        record(side, &event);
        if (side->on_event != NULL) {
            side->on_event(pair, of);
        }
    }
    tf_session *failed = NULL;
    tf_err err = TF_OK;
    if (tf_router_next_failed(side->router, &failed, &err)) {
        side->err = err;
    }
}

bool tf_pair_step(tf_pair *pair, int to)
{
    tf_pair_side *side = &pair->side[to];
    if (side->line == NULL) {
        return false;
    }
    tf_pair_message *message = take(side);
    /* A block of exactly that size, so that a sanitizer sees a read past its end. */
    uint8_t *exact = malloc(message->len == 0 ? 1 : message->len);
    check(exact != NULL, "out of memory");
    memcpy(exact, message->bytes, message->len);
    side->err = tf_router_recv(side->router, side->session, pair->now, tf_slice_of(exact, message->len));
    if (side->err == TF_OK) {
        tf_pair_turn(pair, to);
    }
    free(exact);
    free(message);
    return true;
}

void tf_pair_deliver_all(tf_pair *pair, int to)
{
    (void)tf_pair_flush(pair, 1 - to);
    while (tf_pair_step(pair, to)) {
    }
}

static tf_time next_deadline(const tf_pair *pair)
{
    tf_time next = TF_NEVER;
    for (int i = 0; i < 2; i++) {
        next = tf_time_min(next, tf_session_deadline(pair->side[i].session));
        next = tf_time_min(next, tf_router_deadline(pair->side[i].router));
    }
    return next;
}

void tf_pair_settle(tf_pair *pair)
{
    for (int round = 0; round < 100000; round++) {
        bool busy = false;
        for (int i = 0; i < 2; i++) {
            busy = tf_pair_flush(pair, i) > 0 || busy;
            busy = tf_pair_step(pair, i) || busy;
        }
        if (busy) {
            continue;
        }
        tf_time next = next_deadline(pair);
        if (next == TF_NEVER) {
            return;
        }
        pair->now = tf_time_max(pair->now, next);
        for (int i = 0; i < 2; i++) {
            pair->side[i].err = tf_session_tick(pair->side[i].session, pair->now);
            tf_router_tick(pair->side[i].router, pair->now);
        }
    }
    check(false, "never silent");
}

const tf_pair_event *tf_pair_find(const tf_pair *pair, int side, tf_router_event_type type, size_t n)
{
    const tf_pair_side *s = &pair->side[side];
    for (size_t i = 0; i < s->event_count; i++) {
        if (s->events[i].type == type && n-- == 0) {
            return &s->events[i];
        }
    }
    return NULL;
}

size_t tf_pair_count(const tf_pair *pair, int side, tf_router_event_type type)
{
    size_t count = 0;
    while (tf_pair_find(pair, side, type, count) != NULL) {
        count++;
    }
    return count;
}

void tf_pair_forget_events(tf_pair *pair)
{
    pair->side[0].event_count = 0;
    pair->side[1].event_count = 0;
}

tf_session_stats tf_pair_stats(const tf_pair *pair, int side)
{
    tf_session_stats stats;
    tf_session_get_stats(pair->side[side].session, &stats);
    return stats;
}

tf_router_stats tf_pair_node(const tf_pair *pair, int side)
{
    tf_router_stats stats;
    tf_router_get_stats(pair->side[side].router, &stats);
    return stats;
}

bool tf_pair_is_empty(const tf_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        tf_session_stats stats = tf_pair_stats(pair, i);
        tf_router_stats node = tf_pair_node(pair, i);
        if (stats.imports != 1 || stats.exports != 1 || stats.promises_ours != 0 || stats.promises_theirs != 0 ||
            stats.retirements != 0 || stats.kept_bytes != 0 || node.records != 2 || node.held_items != 0 ||
            node.held_bytes != 0 || node.fences != 0) {
            return false;
        }
    }
    return true;
}

static tf_local deliver(tf_pair *pair, int from, const tf_router_send *send)
{
    tf_local result = TF_LOCAL_NONE;
    tf_err err = tf_router_deliver(pair->side[from].router, pair->now, send, &result);
    check(err == TF_OK, tf_err_text(err));
    return result;
}

tf_local tf_pair_send(tf_pair *pair, int from, tf_local target, const char *method, bool want)
{
    tf_router_send send = {.target = target, .method = tf_slice_str(method), .want_result = want};
    return deliver(pair, from, &send);
}

tf_local tf_pair_send_ref(tf_pair *pair, int from, tf_local target, const char *method, tf_local local,
                          tf_ref_kind kind)
{
    tf_mention mention = {.local = local, .kind = kind};
    tf_router_send send = {
        .target = target, .method = tf_slice_str(method), .refs = &mention, .ref_count = 1, .want_result = true};
    return deliver(pair, from, &send);
}

tf_err tf_pair_send_refs(tf_pair *pair, int from, const tf_mention *refs, size_t count, bool want)
{
    tf_local result = TF_LOCAL_NONE;
    tf_router_send send = {.target = TF_PAIR_PEER_ROOT,
                           .method = tf_slice_str("m"),
                           .refs = refs,
                           .ref_count = count,
                           .want_result = want};
    return tf_router_deliver(pair->side[from].router, pair->now, &send, &result);
}

static void resolve(tf_pair *pair, int from, const tf_answer *answer)
{
    tf_err err = tf_router_resolve(pair->side[from].router, pair->now, answer, 1);
    check(err == TF_OK, tf_err_text(err));
}

void tf_pair_resolve_data(tf_pair *pair, int from, tf_local promise, const char *data)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_DATA, .data = tf_slice_str(data)};
    resolve(pair, from, &answer);
}

void tf_pair_resolve_object(tf_pair *pair, int from, tf_local promise, tf_local object)
{
    tf_answer answer = {
        .promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {.local = object, .kind = TF_REF_OBJECT}};
    resolve(pair, from, &answer);
}

void tf_pair_reject(tf_pair *pair, int from, tf_local promise, const char *data)
{
    tf_answer answer = {.promise = promise, .kind = TF_RESOLUTION_REJECTION, .data = tf_slice_str(data)};
    resolve(pair, from, &answer);
}

void tf_pair_revoke(tf_pair *pair, int side, tf_local object, bool hard, const char *data)
{
    tf_revocation revocation = {.object = object, .hard = hard, .data = tf_slice_str(data)};
    tf_err err = tf_router_revoke(pair->side[side].router, pair->now, &revocation);
    check(err == TF_OK, tf_err_text(err));
}

tf_local tf_pair_new_object(tf_pair *pair, int side)
{
    return tf_router_new_object(pair->side[side].router);
}

tf_local tf_pair_new_promise(tf_pair *pair, int side)
{
    tf_local promise = tf_router_new_promise(pair->side[side].router);
    check(promise != TF_LOCAL_NONE, "out of memory");
    return promise;
}

tf_local tf_pair_send_promise(tf_pair *pair, int from, const char *method)
{
    tf_local promise = tf_pair_new_promise(pair, from);
    (void)tf_pair_send_ref(pair, from, TF_PAIR_PEER_ROOT, method, promise, TF_REF_PROMISE);
    tf_router_release(pair->side[from].router, pair->now, promise);
    return promise;
}

void tf_pair_release(tf_pair *pair, int side, tf_local local)
{
    tf_router_release(pair->side[side].router, pair->now, local);
    tf_pair_turn(pair, side);
}

static void begin(tf_pair *pair)
{
    tf_err err = tf_pair_init(pair, tf_test_mem(), NULL);
    check(err == TF_OK, tf_err_text(err));
}

tf_local tf_pair_export(tf_pair *pair, tf_local *object)
{
    begin(pair);
    *object = tf_pair_new_object(pair, 0);
    (void)tf_pair_send_ref(pair, 0, TF_PAIR_PEER_ROOT, "m", *object, TF_REF_OBJECT);
    tf_pair_deliver_all(pair, 1);
    const tf_pair_event *call = tf_pair_find(pair, 1, TF_ROUTER_DELIVER, 0);
    check(call != NULL && call->ref_count == 1, "the object was not exported");
    tf_local import = call->refs[0].local;
    tf_pair_resolve_data(pair, 1, call->result, "");
    tf_pair_settle(pair);
    tf_pair_forget_events(pair);
    return import;
}

tf_local tf_pair_ask(tf_pair *pair, tf_local *theirs)
{
    begin(pair);
    tf_local result = tf_pair_send(pair, 0, TF_PAIR_PEER_ROOT, "get", true);
    tf_pair_deliver_all(pair, 1);
    const tf_pair_event *call = tf_pair_find(pair, 1, TF_ROUTER_DELIVER, 0);
    check(call != NULL, "nothing was asked");
    *theirs = call->result;
    tf_pair_forget_events(pair);
    return result;
}

void tf_pair_answer_all(tf_pair *pair, int side)
{
    tf_router *router = pair->side[side].router;
    for (size_t i = 0; i < tf_pair_count(pair, side, TF_ROUTER_DELIVER); i++) {
        const tf_pair_event *call = tf_pair_find(pair, side, TF_ROUTER_DELIVER, i);
        if (call == NULL) {
            return;
        }
        for (size_t k = 0; k < call->ref_count; k++) {
            tf_router_release(router, pair->now, call->refs[k].local);
        }
        if (call->result != TF_LOCAL_NONE) {
            tf_pair_resolve_data(pair, side, call->result, "");
        }
    }
}
