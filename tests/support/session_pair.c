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
    return (tf_session_limits){
        .max_message = 65536, .max_refs = 1000, .max_promises = 1000, .max_results = 500};
}

tf_err tf_pair_init(tf_pair *pair, const tf_mem *mem, const tf_session_limits announced[2])
{
    *pair = (tf_pair){.mem = mem, .now = 1000};
    tf_err err = TF_OK;
    for (int i = 0; i < 2 && err == TF_OK; i++) {
        tf_pair_side *side = &pair->side[i];
        side->holds = true;
        tf_session_config config = {
            .side = i == 0 ? TF_SIDE_DIALLER : TF_SIDE_ACCEPTOR,
            .local = announced == NULL ? tf_pair_limits() : announced[i],
            .remote = announced == NULL ? tf_pair_limits() : announced[1 - i],
            .ids = &side->ids,
            .root = tf_local_next(&side->ids),
            .hash_key = 7,
            .mem = mem,
        };
        err = tf_session_new(&side->session, &config);
    }
    return err;
}

void tf_pair_free(tf_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        while (pair->side[i].line != NULL) {
            tf_pair_lose(pair, i);
        }
        tf_session_free(pair->side[i].session);
        pair->side[i].session = NULL;
    }
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

static void record(tf_pair_side *side, const tf_session_event *event)
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
        .ref_count = event->ref_count,
    };
    for (size_t i = 0; i < event->ref_count; i++) {
        copy->refs[i] = event->refs[i];
        if (side->holds) {
            tf_session_hold(side->session, event->refs[i].local);
        }
    }
    if (side->holds && event->object.local != TF_LOCAL_NONE) {
        tf_session_hold(side->session, event->object.local);
    }
    tf_slice text = event->type == TF_SESSION_DELIVER ? event->method : event->data;
    if (text.len > 0) {
        memcpy(copy->text, text.data, text.len < TF_PAIR_TEXT_MAX ? text.len : TF_PAIR_TEXT_MAX - 1);
    }
}

void tf_pair_turn(tf_pair *pair, int of)
{
    tf_pair_side *side = &pair->side[of];
    for (tf_session_event event; tf_session_next_event(side->session, &event);) {
        record(side, &event);
        if (side->on_event != NULL) {
            side->on_event(pair, of);
        }
    }
    side->err = tf_session_done(side->session, pair->now);
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
    side->err = tf_session_recv(side->session, pair->now, tf_slice_of(exact, message->len));
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

void tf_pair_settle(tf_pair *pair)
{
    for (int round = 0; round < 100000; round++) {
        bool busy = false;
        tf_time next = TF_NEVER;
        for (int i = 0; i < 2; i++) {
            if (tf_session_has_events(pair->side[i].session)) {
                tf_pair_turn(pair, i);
                busy = true;
            }
            busy = tf_pair_flush(pair, i) > 0 || busy;
            busy = tf_pair_step(pair, i) || busy;
            next = tf_time_min(next, tf_session_deadline(pair->side[i].session));
        }
        if (busy) {
            continue;
        }
        if (next == TF_NEVER) {
            return;
        }
        pair->now = tf_time_max(pair->now, next);
        for (int i = 0; i < 2; i++) {
            pair->side[i].err = tf_session_tick(pair->side[i].session, pair->now);
        }
    }
    check(false, "never silent");
}

const tf_pair_event *tf_pair_find(const tf_pair *pair, int side, tf_session_event_type type, size_t n)
{
    const tf_pair_side *s = &pair->side[side];
    for (size_t i = 0; i < s->event_count; i++) {
        if (s->events[i].type == type && n-- == 0) {
            return &s->events[i];
        }
    }
    return NULL;
}

size_t tf_pair_count(const tf_pair *pair, int side, tf_session_event_type type)
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

bool tf_pair_is_empty(const tf_pair *pair)
{
    for (int i = 0; i < 2; i++) {
        tf_session_stats stats = tf_pair_stats(pair, i);
        if (stats.imports != 1 || stats.exports != 1 || stats.promises_ours != 0 || stats.promises_theirs != 0 ||
            stats.retirements != 0 || stats.held_items != 0 || stats.held_bytes != 0) {
            return false;
        }
    }
    return true;
}

static tf_local deliver(tf_pair *pair, int from, const tf_delivery *delivery)
{
    tf_local result = TF_LOCAL_NONE;
    tf_err err = tf_session_deliver(pair->side[from].session, pair->now, delivery, &result);
    check(err == TF_OK, tf_err_text(err));
    return result;
}

tf_local tf_pair_send(tf_pair *pair, int from, tf_local target, const char *method, bool want)
{
    tf_delivery delivery = {.target = target, .method = tf_slice_str(method), .want_result = want};
    return deliver(pair, from, &delivery);
}

tf_local tf_pair_send_ref(tf_pair *pair, int from, tf_local target, const char *method, tf_local local, tf_ref_kind kind)
{
    tf_mention mention = {.local = local, .kind = kind};
    tf_delivery delivery = {.target = target,
                            .method = tf_slice_str(method),
                            .refs = &mention,
                            .ref_count = 1,
                            .want_result = true};
    return deliver(pair, from, &delivery);
}

static void resolve(tf_pair *pair, int from, const tf_answer *answer)
{
    tf_err err = tf_session_resolve(pair->side[from].session, pair->now, answer, 1);
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

tf_local tf_pair_new_local(tf_pair *pair, int side)
{
    return tf_local_next(&pair->side[side].ids);
}

static void begin(tf_pair *pair)
{
    tf_err err = tf_pair_init(pair, tf_test_mem(), NULL);
    check(err == TF_OK, tf_err_text(err));
}

tf_local tf_pair_export(tf_pair *pair, tf_local *object)
{
    begin(pair);
    *object = tf_pair_new_local(pair, 0);
    (void)tf_pair_send_ref(pair, 0, TF_PAIR_PEER_ROOT, "m", *object, TF_REF_OBJECT);
    tf_pair_deliver_all(pair, 1);
    const tf_pair_event *call = tf_pair_find(pair, 1, TF_SESSION_DELIVER, 0);
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
    const tf_pair_event *call = tf_pair_find(pair, 1, TF_SESSION_DELIVER, 0);
    check(call != NULL, "nothing was asked");
    *theirs = call->result;
    tf_pair_forget_events(pair);
    return result;
}

void tf_pair_answer_all(tf_pair *pair, int side)
{
    for (size_t i = 0; i < tf_pair_count(pair, side, TF_SESSION_DELIVER); i++) {
        const tf_pair_event *call = tf_pair_find(pair, side, TF_SESSION_DELIVER, i);
        if (call == NULL) {
            return;
        }
        for (size_t k = 0; k < call->ref_count; k++) {
            tf_session_release(pair->side[side].session, pair->now, call->refs[k].local);
        }
        if (call->result != TF_LOCAL_NONE) {
            tf_pair_resolve_data(pair, side, call->result, "");
        }
    }
}
