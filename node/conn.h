/* One connection to one instance of a peer: a session on a link (design §2). Pure.
 *
 * The edge (node/peer) makes it when a handshake agreed on a new session, feeds and pulls its link, ticks it, attaches it
 * to the hub and frees it after tf_hub_detach. It lives over all generations of its routes; a resumed session is the same
 * tf_conn. What happens on the session is the hub's business. Not thread-safe. */
#ifndef TF_NODE_CONN_H
#define TF_NODE_CONN_H

#include "paths/link.h"
#include "proto/session.h"

typedef struct tf_conn tf_conn;

typedef struct tf_conn_config {
    tf_link_config link;       /* peer, peer_instance and session name the connection */
    tf_session_config session; /* refs and root: tf_hub_refs, tf_hub_root */
    bool relay;                /* the peer has the `relay` right: the origin it states is believed (S1) */
    uint32_t peer_max_in_flight; /* announced by the peer: sends that may be unacked towards it */
    void *owner;               /* the edge's own, see tf_conn_owner */
    const tf_mem *mem;
} tf_conn_config;

/* TF_ERR_NOMEM and what tf_link_new and tf_session_new give. */
TF_MUST_CHECK tf_err tf_conn_new(tf_conn **out, const tf_conn_config *config, tf_time now);
/* Must not be attached. NULL is fine. */
void tf_conn_free(tf_conn *conn);

/* The edge uses the link directly; after feeding it (or tf_link_resume, stream_up …) it calls tf_hub_touch. */
tf_link *tf_conn_link(tf_conn *conn);
/* For its statistics. Changing anything is the hub's. */
const tf_session *tf_conn_session(const tf_conn *conn);
void *tf_conn_owner(const tf_conn *conn);
void tf_conn_set_owner(tf_conn *conn, void *owner);
const tf_node_id *tf_conn_peer(const tf_conn *conn);
uint64_t tf_conn_peer_instance(const tf_conn *conn);
uint64_t tf_conn_session_number(const tf_conn *conn);
uint32_t tf_conn_peer_max_in_flight(const tf_conn *conn);

/* Link and session. After a tick call tf_hub_touch. An error of the session is kept and comes out of the hub as
 * TF_HUB_CONN_FAILED. */
tf_time tf_conn_deadline(const tf_conn *conn);
void tf_conn_tick(tf_conn *conn, tf_time now);

#endif
