/* Nodes that are nothing but a router of references, and lines between them: for tests and benchmarks of the drop/retire
 * protocol through relays. Messages wait in the sessions' own out queues until they are carried over; events of a node are
 * handed to its handler. Faults in the use abort. Not thread-safe. */
#ifndef TF_TESTS_SUPPORT_REF_NODES_H
#define TF_TESTS_SUPPORT_REF_NODES_H

#include "node/router.h"

#define TF_TEST_NODES 8u
#define TF_TEST_LINES 16u

typedef struct tf_test_node {
    tf_router *router;
    tf_local root; /* what its peers can send to from the start */
    void *user;
} tf_test_node;

typedef struct tf_test_line {
    size_t nodes[2];
    tf_session *sessions[2]; /* [i] belongs to nodes[i]; NULL: it was cut */
} tf_test_line;

typedef struct tf_test_net tf_test_net;
typedef void tf_test_handler(tf_test_net *net, size_t node, const tf_router_event *event);

struct tf_test_net {
    const tf_mem *mem;
    tf_time now;
    tf_session_limits limits; /* of both sides of lines to come */
    bool without_revoke;      /* likewise */
    tf_test_handler *handler;
    tf_test_node nodes[TF_TEST_NODES];
    size_t node_count;
    tf_test_line lines[TF_TEST_LINES];
    size_t line_count;
    tf_err last_error; /* of the last message that was refused */
    uint64_t carried;
};

/* Limits are the largest. */
void tf_test_net_init(tf_test_net *net, const tf_mem *mem, tf_test_handler *handler);
void tf_test_net_clear(tf_test_net *net); /* cuts every line, then frees every node */
size_t tf_test_net_add(tf_test_net *net);
/* A line between two nodes; the first one is the dialler. */
size_t tf_test_net_connect(tf_test_net *net, size_t a, size_t b);
/* Both ends are told, what is on its way is lost (D14). */
void tf_test_net_cut(tf_test_net *net, size_t line);
/* The session of a node on a line. */
tf_session *tf_test_net_session(const tf_test_net *net, size_t line, size_t node);
/* What a node imports as root of the node at the other end. */
tf_local tf_test_net_root(const tf_test_net *net, size_t line, size_t node);

/* Carries the oldest message that nodes[from] of the line has written over to the other end, and takes its events. False: there
 * was none, or it was refused (net->last_error). */
bool tf_test_net_carry(tf_test_net *net, size_t line, size_t from);
/* Takes the events of a node, if there are any. */
void tf_test_net_take(tf_test_net *net, size_t node);
/* Carries all there is, until nothing is left; no time passes. */
void tf_test_net_run(tf_test_net *net);
/* The same, and time passes from deadline to deadline until there is none (or nothing but what is beyond `until`). */
void tf_test_net_settle(tf_test_net *net, tf_time until);
/* Both tables of every line hold their roots and nothing else, no retirement waits, and every node knows nothing else. */
bool tf_test_net_is_clean(const tf_test_net *net);

#endif
