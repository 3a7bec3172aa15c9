#include "tests/support/ref_nodes.h"

#include <stdlib.h>

#include "proto/limits.h"
#include "tests/support/support.h"

void tf_test_net_init(tf_test_net *net, const tf_mem *mem, tf_test_handler *handler)
{
    *net = (tf_test_net){.mem = mem, .handler = handler};
    net->limits = (tf_session_limits){.max_message = TF_MESSAGE_MAX,
                                      .max_refs = TF_REFS_MAX,
                                      .max_promises = TF_PROMISES_MAX,
                                      .max_results = TF_RESULTS_MAX};
}

void tf_test_net_clear(tf_test_net *net)
{
    for (size_t i = 0; i < net->line_count; i++) {
        tf_test_net_cut(net, i);
    }
    for (size_t i = 0; i < net->node_count; i++) {
        tf_test_net_take(net, i);
        tf_router_free(net->nodes[i].router);
    }
    net->node_count = 0;
    net->line_count = 0;
}

size_t tf_test_net_add(tf_test_net *net)
{
    TF_ASSERT(net->node_count < TF_TEST_NODES);
    tf_test_node *node = &net->nodes[net->node_count];
    TF_ASSERT(tf_router_new(&node->router, net->mem, 7 + net->node_count) == TF_OK);
    node->root = tf_router_new_object(node->router);
    return net->node_count++;
}

static tf_session *attach(tf_test_net *net, size_t node, tf_side side)
{
    tf_session_config config = {.side = side,
                                .local = net->limits,
                                .remote = net->limits,
                                .refs = tf_router_refs(net->nodes[node].router),
                                .root = net->nodes[node].root,
                                .without_revoke = net->without_revoke,
                                .hash_key = 11,
                                .mem = net->mem};
    tf_session *session = NULL;
    TF_ASSERT(tf_session_new(&session, &config) == TF_OK);
    TF_ASSERT(tf_router_attach(net->nodes[node].router, session, net) == TF_OK);
    return session;
}

size_t tf_test_net_connect(tf_test_net *net, size_t a, size_t b)
{
    TF_ASSERT(net->line_count < TF_TEST_LINES);
    net->lines[net->line_count] = (tf_test_line){.nodes = {a, b},
                                                 .sessions = {attach(net, a, TF_SIDE_DIALLER),
                                                              attach(net, b, TF_SIDE_ACCEPTOR)}};
    tf_test_net_take(net, a);
    tf_test_net_take(net, b);
    return net->line_count++;
}

void tf_test_net_cut(tf_test_net *net, size_t line)
{
    for (size_t i = 0; i < 2; i++) {
        tf_session *session = net->lines[line].sessions[i];
        size_t node = net->lines[line].nodes[i];
        net->lines[line].sessions[i] = NULL;
        if (session != NULL) {
            tf_router_detach(net->nodes[node].router, net->now, session);
            tf_session_free(session);
            tf_test_net_take(net, node);
        }
    }
}

tf_session *tf_test_net_session(const tf_test_net *net, size_t line, size_t node)
{
    const tf_test_line *l = &net->lines[line];
    TF_ASSERT(l->nodes[0] == node || l->nodes[1] == node);
    return l->sessions[l->nodes[0] == node ? 0 : 1];
}

tf_local tf_test_net_root(const tf_test_net *net, size_t line, size_t node)
{
    return tf_session_peer_root(tf_test_net_session(net, line, node));
}

void tf_test_net_take(tf_test_net *net, size_t node)
{
    tf_router_event event;
    while (tf_router_next_event(net->nodes[node].router, &event)) {
        if (net->handler != NULL) {
            net->handler(net, node, &event);
        }
    }
}

bool tf_test_net_carry(tf_test_net *net, size_t line, size_t from)
{
    const tf_test_line *l = &net->lines[line];
    tf_slice message;
    if (l->sessions[from] == NULL || !tf_session_peek_out(l->sessions[from], &message)) {
        return false;
    }
    size_t to = l->nodes[1 - from];
    uint8_t *bytes = tf_test_exact(message); /* what the other end does may come back to this one */
    message.data = bytes;
    tf_session_pop_out(l->sessions[from]);
    tf_err err = tf_router_recv(net->nodes[to].router, l->sessions[1 - from], net->now, message);
    if (err == TF_OK) {
        tf_test_net_take(net, to);
        net->carried++;
    } else {
        net->last_error = err;
    }
    free(bytes);
    return err == TF_OK;
}

void tf_test_net_run(tf_test_net *net)
{
    bool any = true;
    for (size_t i = 0; i < net->node_count; i++) {
        tf_test_net_take(net, i);
    }
    while (any) {
        any = false;
        for (size_t i = 0; i < 2 * net->line_count; i++) {
            any = tf_test_net_carry(net, i / 2, i % 2) || any;
        }
    }
}

static tf_time next_deadline(const tf_test_net *net)
{
    tf_time next = TF_NEVER;
    for (size_t i = 0; i < 2 * net->line_count; i++) {
        const tf_session *session = net->lines[i / 2].sessions[i % 2];
        next = session == NULL ? next : tf_time_min(next, tf_session_deadline(session));
    }
    for (size_t i = 0; i < net->node_count; i++) {
        next = tf_time_min(next, tf_router_deadline(net->nodes[i].router));
    }
    return next;
}

static void tick(tf_test_net *net)
{
    for (size_t i = 0; i < 2 * net->line_count; i++) {
        tf_session *session = net->lines[i / 2].sessions[i % 2];
        TF_ASSERT(session == NULL || tf_session_tick(session, net->now) == TF_OK);
    }
    for (size_t i = 0; i < net->node_count; i++) {
        tf_router_tick(net->nodes[i].router, net->now);
    }
}

void tf_test_net_settle(tf_test_net *net, tf_time until)
{
    for (;;) {
        tf_test_net_run(net);
        tf_time next = next_deadline(net);
        if (next == TF_NEVER || next > until) {
            return;
        }
        net->now = next > net->now ? next : net->now;
        tick(net);
    }
}

static bool is_session_clean(const tf_session *session)
{
    tf_session_stats stats;
    tf_session_get_stats(session, &stats);
    return stats.imports == 1 && stats.exports == 1 && stats.promises_ours + stats.promises_theirs == 0 &&
           stats.retirements == 0 && stats.kept_bytes == 0 && tf_session_out_items(session) == 0;
}

bool tf_test_net_is_clean(const tf_test_net *net)
{
    size_t lines[TF_TEST_NODES] = {0};
    for (size_t i = 0; i < 2 * net->line_count; i++) {
        const tf_test_line *line = &net->lines[i / 2];
        if (line->sessions[i % 2] != NULL) {
            lines[line->nodes[i % 2]]++;
            if (!is_session_clean(line->sessions[i % 2])) {
                return false;
            }
        }
    }
    for (size_t i = 0; i < net->node_count; i++) {
        tf_router_stats stats;
        tf_router_get_stats(net->nodes[i].router, &stats);
        size_t roots = lines[i] == 0 ? 0 : lines[i] + 1; /* those of its peers, and its own */
        if (stats.records != roots || stats.held_items != 0 || stats.held_bytes != 0 || stats.fences != 0) {
            return false;
        }
    }
    return true;
}
