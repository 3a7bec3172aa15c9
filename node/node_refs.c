/* What the sessions of a node hold, entry by entry (`ref ls`). */
#include "node/node_internal.h"

/* The connection with the next greater session number; NULL: none. Numbers are random, so this is no order that means
 * anything, but one that stays while connections come and go. */
static const tf_connection *after(const tf_node *node, const tf_node_refs_cursor *cursor)
{
    const tf_connection *next = NULL;
    for (const tf_connection *c = node->connections; c != NULL; c = c->next) {
        bool follows = c->session > cursor->session && (next == NULL || c->session < next->session);
        next = follows ? c : next;
    }
    return next;
}

static void summary(const tf_session *session, tf_node_refs_cursor *cursor, tf_node_ref *out)
{
    out->is_summary = true;
    tf_session_get_stats(session, &out->stats);
    out->waiting = tf_session_out_items(session);
    out->waiting_bytes = tf_session_out_bytes(session);
    cursor->within = false;
}

bool tf_node_refs_next(const tf_node *node, tf_node_refs_cursor *cursor, tf_node_ref *out)
{
    const tf_connection *c = cursor->within ? tf_connection_by_session(node, cursor->session) : NULL;
    if (c == NULL) { /* another one, also when the last has ended meanwhile */
        c = after(node, cursor);
        if (c == NULL) {
            return false;
        }
        *cursor = (tf_node_refs_cursor){.session = c->session, .within = true};
    }
    const tf_session *session = tf_conn_session(c->conn);
    *out = (tf_node_ref){.peer = c->peer_id, .session = c->session};
    if (!tf_session_next_entry(session, &cursor->entry, &out->entry)) {
        summary(session, cursor, out);
    }
    return true;
}

void tf_node_refs_stats(const tf_node *node, tf_router_stats *out)
{
    tf_hub_stats stats;
    tf_hub_get_stats(node->hub, &stats);
    *out = stats.refs;
}
