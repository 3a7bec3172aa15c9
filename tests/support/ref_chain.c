#include "tests/support/ref_chain.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/support.h"

#define SETTLE_TIME (10 * TF_SECOND)

static tf_chain *in_work; /* the handler gets the net only */

static tf_router *router_of(tf_chain *chain, size_t node)
{
    return chain->net.nodes[node].router;
}

/* -- what the ends are told ---------------------------------------------------------------------------------------- */

static void hold(tf_chain *chain, size_t node, tf_local local)
{
    TF_ASSERT(chain->held_count < TF_CHAIN_EVENTS);
    chain->held[chain->held_count].node = node;
    chain->held[chain->held_count++].local = local;
}

static bool unhold(tf_chain *chain, size_t node, tf_local local)
{
    for (size_t i = 0; i < chain->held_count; i++) {
        if (chain->held[i].node == node && chain->held[i].local == local) {
            chain->held[i] = chain->held[--chain->held_count];
            return true;
        }
    }
    return false;
}

void tf_chain_hold(tf_chain *chain, size_t node, tf_local local)
{
    hold(chain, node, local);
    tf_router_hold(router_of(chain, node), local);
}

static void copy_text(char out[TF_CHAIN_TEXT], tf_slice text)
{
    static const uint8_t head[] = {0x82, 0xa4, 'c', 'o', 'd', 'e'};
    size_t skip = text.len > sizeof(head) && memcmp(text.data, head, sizeof(head)) == 0 ? sizeof(head) + 1 : 0;
    size_t len = skip == 0 ? text.len : text.data[sizeof(head)] & 0x1fu;
    TF_ASSERT(len < TF_CHAIN_TEXT);
    if (len > 0) {
        memcpy(out, text.data + skip, len);
    }
    out[len] = '\0';
}

static void log_event(tf_chain *chain, size_t node, const tf_router_event *event)
{
    TF_ASSERT(chain->event_count < TF_CHAIN_EVENTS && event->ref_count <= TF_CHAIN_REFS);
    tf_chain_event *e = &chain->events[chain->event_count++];
    *e = (tf_chain_event){.node = node,
                          .type = event->type,
                          .local = event->local,
                          .result = event->result,
                          .kind = event->kind,
                          .object = event->object,
                          .hard = event->hard,
                          .ref_count = event->ref_count};
    copy_text(e->text, event->type == TF_ROUTER_DELIVER ? event->method : event->data);
    for (size_t i = 0; i < event->ref_count; i++) {
        e->refs[i] = event->refs[i];
        if (event->type == TF_ROUTER_DELIVER || event->refs[i].kind == TF_REF_OBJECT) {
            tf_chain_hold(chain, node, event->refs[i].local);
        }
    }
    if (event->type == TF_ROUTER_RESOLVED) {
        while (unhold(chain, node, event->local)) {
        }
        if (event->kind == TF_RESOLUTION_OBJECT) {
            tf_chain_hold(chain, node, event->object.local);
        }
    }
}

/* A relay's application only helps X and Y to meet: it passes on what its neighbours send to its root. */
static void pass_on(tf_chain *chain, size_t node, const tf_router_event *event)
{
    tf_test_net *net = &chain->net;
    if (event->type != TF_ROUTER_DELIVER) {
        return;
    }
    bool from_left = event->session != tf_test_net_session(net, node, node);
    tf_router_send send = {.target = tf_test_net_root(net, from_left ? node : node - 1, node),
                           .method = event->method,
                           .refs = event->refs,
                           .ref_count = event->ref_count};
    TF_ASSERT(event->local == net->nodes[node].root);
    TF_ASSERT(tf_router_deliver(router_of(chain, node), net->now, &send, NULL) == TF_OK);
}

static void on_event(tf_test_net *net, size_t node, const tf_router_event *event)
{
    tf_chain *chain = in_work;
    TF_ASSERT(&chain->net == net);
    if (node == 0 || node == chain->last || node == chain->branch) {
        log_event(chain, node, event);
    } else {
        pass_on(chain, node, event);
    }
}

/* -- life ---------------------------------------------------------------------------------------------------------- */

/* What `to` holds the object of another end by, whose only line that is. */
static tf_local introduce(tf_chain *chain, size_t node, size_t line, tf_local object, size_t to)
{
    tf_mention mention = {object, TF_REF_OBJECT};
    chain->event_count = 0;
    tf_chain_send(chain, node, tf_test_net_root(&chain->net, line, node), "meet", &mention, 1);
    tf_chain_settle(chain);
    const tf_chain_event *met = tf_chain_find(chain, to, TF_ROUTER_DELIVER, "meet", 0);
    TF_ASSERT(met != NULL && met->ref_count == 1);
    tf_local import = met->refs[0].local;
    chain->event_count = 0;
    return import;
}

void tf_chain_begin(tf_chain *chain, size_t nodes)
{
    *chain = (tf_chain){.last = nodes - 1};
    in_work = chain;
    tf_test_net_init(&chain->net, tf_test_mem(), on_event);
    for (size_t i = 0; i < nodes; i++) {
        (void)tf_test_net_add(&chain->net);
    }
    for (size_t i = 0; i + 1 < nodes; i++) {
        (void)tf_test_net_connect(&chain->net, i, i + 1);
    }
    chain->x = tf_chain_object(chain, 0);
    chain->x_at_y = introduce(chain, 0, 0, chain->x, chain->last);
    chain->y = tf_chain_object(chain, chain->last);
    chain->y_at_x = introduce(chain, chain->last, chain->last - 1, chain->y, 0);
}

void tf_chain_branch(tf_chain *chain)
{
    TF_ASSERT(chain->last > 1);
    chain->branch = tf_test_net_add(&chain->net);
    size_t line = tf_test_net_connect(&chain->net, 1, chain->branch);
    chain->z_at_y = introduce(chain, chain->branch, line, tf_chain_object(chain, chain->branch), chain->last);
}

bool tf_chain_end(tf_chain *chain)
{
    tf_chain_settle(chain);
    while (chain->held_count > 0) {
        tf_chain_forget(chain, chain->held[0].node, chain->held[0].local);
    }
    tf_chain_settle(chain);
    bool clean = tf_test_net_is_clean(&chain->net);
    tf_test_net_clear(&chain->net);
    return clean;
}

/* -- what the ends do ---------------------------------------------------------------------------------------------- */

tf_local tf_chain_object(tf_chain *chain, size_t node)
{
    return tf_router_new_object(router_of(chain, node));
}

tf_local tf_chain_promise(tf_chain *chain, size_t node)
{
    tf_local promise = tf_router_new_promise(router_of(chain, node));
    TF_ASSERT(promise != TF_LOCAL_NONE);
    hold(chain, node, promise);
    return promise;
}

static tf_local deliver(tf_chain *chain, size_t node, const tf_router_send *send)
{
    tf_local result = TF_LOCAL_NONE;
    TF_ASSERT(tf_router_deliver(router_of(chain, node), chain->net.now, send, &result) == TF_OK);
    if (send->want_result) {
        hold(chain, node, result);
    }
    tf_test_net_take(&chain->net, node);
    return result;
}

void tf_chain_send(tf_chain *chain, size_t node, tf_local target, const char *method, const tf_mention *refs,
                   size_t ref_count)
{
    tf_router_send send = {.target = target, .method = tf_slice_str(method), .refs = refs, .ref_count = ref_count};
    (void)deliver(chain, node, &send);
}

tf_local tf_chain_ask(tf_chain *chain, size_t node, tf_local target, const char *method)
{
    tf_router_send send = {.target = target, .method = tf_slice_str(method), .want_result = true};
    return deliver(chain, node, &send);
}

static void answer(tf_chain *chain, size_t node, const tf_answer *with)
{
    TF_ASSERT(tf_router_resolve(router_of(chain, node), chain->net.now, with, 1) == TF_OK);
    for (size_t i = 0; i < chain->event_count; i++) {
        tf_chain_event *e = &chain->events[i];
        e->answered = e->answered || (e->node == node && e->result == with->promise);
    }
    tf_test_net_take(&chain->net, node);
}

void tf_chain_resolve(tf_chain *chain, size_t node, tf_local promise, const char *data, const tf_mention *refs,
                      size_t ref_count)
{
    answer(chain, node,
           &(tf_answer){.promise = promise,
                        .kind = TF_RESOLUTION_DATA,
                        .data = tf_slice_str(data),
                        .refs = refs,
                        .ref_count = ref_count});
}

void tf_chain_resolve_to(tf_chain *chain, size_t node, tf_local promise, tf_local object)
{
    answer(chain, node,
           &(tf_answer){.promise = promise, .kind = TF_RESOLUTION_OBJECT, .object = {object, TF_REF_OBJECT}});
}

void tf_chain_reject(tf_chain *chain, size_t node, tf_local promise, const char *data, const tf_mention *refs,
                     size_t ref_count)
{
    answer(chain, node,
           &(tf_answer){.promise = promise,
                        .kind = TF_RESOLUTION_REJECTION,
                        .data = tf_slice_str(data),
                        .refs = refs,
                        .ref_count = ref_count});
}

void tf_chain_revoke(tf_chain *chain, size_t node, tf_local object, bool hard, const char *data)
{
    tf_revocation revocation = {.object = object, .hard = hard, .data = tf_slice_str(data)};
    TF_ASSERT(tf_router_revoke(router_of(chain, node), chain->net.now, &revocation) == TF_OK);
    tf_test_net_take(&chain->net, node);
}

void tf_chain_forget(tf_chain *chain, size_t node, tf_local local)
{
    TF_ASSERT(unhold(chain, node, local));
    tf_router_release(router_of(chain, node), chain->net.now, local);
    tf_test_net_take(&chain->net, node);
}

void tf_chain_answer_all(tf_chain *chain, size_t node, const char *data)
{
    for (size_t i = 0; i < chain->event_count; i++) {
        const tf_chain_event *e = &chain->events[i];
        if (e->node == node && e->result != TF_LOCAL_NONE && !e->answered) {
            tf_chain_resolve(chain, node, e->result, data, NULL, 0);
        }
    }
}

/* -- messages move ------------------------------------------------------------------------------------------------- */

bool tf_chain_right_one(tf_chain *chain, size_t from)
{
    return from < chain->last && tf_test_net_carry(&chain->net, from, 0);
}

bool tf_chain_left_one(tf_chain *chain, size_t from)
{
    return from > 0 && tf_test_net_carry(&chain->net, from - 1, 1);
}

/* How many messages a session has written that nobody has carried. */
static uint64_t waiting(const tf_chain *chain, size_t line, size_t side)
{
    tf_session_stats ours;
    tf_session_stats theirs;
    tf_session_get_stats(chain->net.lines[line].sessions[side], &ours);
    tf_session_get_stats(chain->net.lines[line].sessions[1 - side], &theirs);
    return ours.sent - theirs.received;
}

void tf_chain_right(tf_chain *chain, size_t from)
{
    for (uint64_t count = waiting(chain, from, 0); count > 0; count--) {
        TF_ASSERT(tf_chain_right_one(chain, from));
    }
}

void tf_chain_left(tf_chain *chain, size_t from)
{
    for (uint64_t count = waiting(chain, from - 1, 1); count > 0; count--) {
        TF_ASSERT(tf_chain_left_one(chain, from));
    }
}

void tf_chain_settle(tf_chain *chain)
{
    tf_test_net_settle(&chain->net, tf_time_add(chain->net.now, SETTLE_TIME));
}

/* -- the log ------------------------------------------------------------------------------------------------------- */

static bool is_it(const tf_chain_event *e, size_t node, tf_router_event_type type, const char *text)
{
    return e->node == node && e->type == type && (text == NULL || strcmp(e->text, text) == 0);
}

const tf_chain_event *tf_chain_find(const tf_chain *chain, size_t node, tf_router_event_type type, const char *text,
                                    size_t nth)
{
    for (size_t i = 0; i < chain->event_count; i++) {
        if (is_it(&chain->events[i], node, type, text) && nth-- == 0) {
            return &chain->events[i];
        }
    }
    return NULL;
}

size_t tf_chain_count(const tf_chain *chain, size_t node, tf_router_event_type type, const char *text)
{
    size_t count = 0;
    while (tf_chain_find(chain, node, type, text, count) != NULL) {
        count++;
    }
    return count;
}

const char *tf_chain_heard(const tf_chain *chain, size_t node)
{
    static char heard[TF_CHAIN_EVENTS * TF_CHAIN_TEXT];
    size_t len = 0;
    heard[0] = '\0';
    for (size_t i = 0; i < chain->event_count; i++) {
        if (is_it(&chain->events[i], node, TF_ROUTER_DELIVER, NULL)) {
            int added = snprintf(heard + len, sizeof(heard) - len, "%s ", chain->events[i].text);
            TF_ASSERT(added > 0 && (size_t)added < sizeof(heard) - len);
            len += (size_t)added;
        }
    }
    return heard;
}
