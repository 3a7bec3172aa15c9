/* What the edge files of a node share: node.c (life, loop, events), acceptor.c (streams before their HELLO), dialler.c
 * (peers that we dial), connection.c (sessions and their sockets), keyring.c (datagram keys of a connection).
 *
 * All of it belongs to the node's thread. libevent callbacks feed the cores and mark work; node_settle does it once per
 * turn of the loop, so that what one turn brought is written together. */
#ifndef TF_NODE_NODE_INTERNAL_H
#define TF_NODE_NODE_INTERNAL_H

#include <event2/event.h>
#include <openssl/ssl.h>

#include "dedup/dedup.h"
#include "handshake/negotiate.h"
#include "node/chain.h"
#include "node/client.h"
#include "node/conn.h"
#include "node/edge_mem.h"
#include "node/mem_cache.h"
#include "node/hub.h"
#include "node/store/store.h"
#include "node/twofold.h"
#include "paths/datagram.h"
#include "paths/listener.h"
#include "paths/netwatch.h"
#include "paths/stream.h"

typedef struct tf_connection tf_connection;
typedef struct tf_node_object tf_node_object;

/* One address that we listen on: TCP and UDP under the same number. */
typedef struct tf_listen {
    struct tf_listen *next;
    tf_node *node;
    tf_listener *listener;
    tf_datagram *socket;
    tf_address address;
    int failure; /* errno of the socket that could not be had */
} tf_listen;

struct tf_node {
    tf_node_config config; /* without its grants */
    tf_node_grant *grants; /* sorted by id */
    size_t grant_count;
    tf_mem_cache *mem_cache;
    const tf_mem *mem; /* of the cache */
    const tf_rand *rand;
    struct event_base *base;
    struct event *wait; /* ends a tf_node_run */
    struct event *hub_timer;
    struct event *summary; /* the log's summaries */
    tf_netwatch *netwatch; /* NULL: this system has none */
    SSL_CTX *server_ctx;
    SSL_CTX *client_ctx;
    tf_dedup *dedup;
    tf_stream_buffers buffers;
    uint64_t instance;
    struct tf_memory_store *memory; /* one of the two */
    struct tf_disk_store *disk;
    struct event *store_event;
    tf_store_state store_state; /* that was told last */
    uint64_t store_turns;
    size_t store_damage;        /* ranges that were told */
    tf_store store;
    tf_hub *hub;
    tf_listen *listens;
    tf_map sessions;       /* session -> tf_connection */
    tf_map connection_ids; /* our datagram connection id -> tf_connection */
    tf_map keys;           /* the beginning of a peer's key -> tf_connection, chained */
    tf_connection *connections;
    size_t connection_count;
    size_t connections_most; /* since memory was handed back, */
    size_t connections_gone; /* and how many have ended */
    struct event *trim;      /* it is handed back */
    tf_list handshakes; /* tf_pending, the oldest first */
    size_t handshake_count;
    bool full;            /* nobody is accepted: as many handshakes are going on as may */
    struct event *relief; /* then: those that take too long make room */
    tf_list lingers;      /* tf_pending, the oldest first */
    size_t linger_count;
    uint64_t turns; /* of the loop */
    tf_peer *peers;
    tf_list objects; /* of the program (node_objects.c) */
    tf_node_stats stats;
    bool draining;
    bool awake;  /* the next tf_node_run does not wait */
    uint8_t scratch[TF_STREAM_RECORD];
};

/* -- node.c -------------------------------------------------------------------------------------------------------- */

/* Runs the hub until it has nothing more to do, then writes what the connections have to say. */
void tf_node_settle(tf_node *node);
/* Lets the timer fire at the deadline; TF_NEVER: not at all. */
void tf_node_arm(struct event *timer, tf_time deadline);
void tf_node_free_timer(struct event *timer); /* NULL is fine */
bool tf_node_allows(const tf_node *node, const tf_node_id *id);
bool tf_node_trusts_as_relay(const tf_node *node, const tf_node_id *id);
/* What the grants say about our copies to it. */
tf_routes tf_node_standby(const tf_node *node, const tf_node_id *id);
/* Our HELLO, or the configuration that answers one: limits, instance, routes, a fresh connection id. */
void tf_node_hello(tf_node *node, tf_hello *hello, tf_routes routes, tf_routes data);

/* -- node_store.c -------------------------------------------------------------------------------------------------- */

/* Opens the store that the configuration names; why says what was wrong. */
TF_MUST_CHECK tf_err tf_node_store_open(tf_node *node, char why[TF_WHY_MAX]);
void tf_node_store_close(tf_node *node); /* no-op when there is none */
/* Before the loop waits: looks for the end of a commit that is near, while the sockets are served. True: there is no reason
 * to wait. */
bool tf_node_store_watch(tf_node *node);
/* The loop has waited. */
void tf_node_store_awake(tf_node *node);

/* -- node_objects.c ------------------------------------------------------------------------------------------------ */

/* Calls handlers on the way to the next event for the program. */
bool tf_node_next_object_event(tf_node *node, tf_node_event *out);
void tf_node_objects_free(tf_node *node); /* after the hub */

/* -- acceptor.c ---------------------------------------------------------------------------------------------------- */

/* TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_acceptor_init(tf_node *node);
void tf_acceptor_accepted(tf_node *node, int fd);
/* Takes a stream (the caller's pointer becomes NULL) of which only the last bytes are still to go out: what was written, and
 * last (tf_stream_close). */
void tf_pending_linger(tf_node *node, tf_stream **stream, tf_slice last);
void tf_acceptor_free_all(tf_node *node);

/* -- connection.c -------------------------------------------------------------------------------------------------- */

typedef struct tf_connection_start {
    tf_peer *peer; /* that we dialled; NULL: accepted */
    tf_node_id peer_id;
    tf_routes standby; /* routes for our copies only while no other one flows */
    const tf_agreed *agreed;
} tf_connection_start;

/* A new session: registered, attached to the hub. NOMEM, LIMIT_ITEMS. */
TF_MUST_CHECK tf_err tf_connection_new(tf_connection **out, tf_node *node, const tf_connection_start *start);

/* Takes a stream whose handshake is over (the caller's pointer becomes NULL) as the generation that was agreed, and
 * makes the generation's datagram keys. On an error the stream is freed and the connection goes on without. */
TF_MUST_CHECK tf_err tf_connection_adopt(tf_connection *c, tf_stream **stream, const tf_agreed *agreed);

/* Where the datagrams of this connection go, and by which socket. */
void tf_connection_set_datagram(tf_connection *c, tf_datagram *socket, const tf_address *to, const tf_address *from);

/* Writes what the link has to say, handles its events, sets the timer. May free c when it has ended. */
void tf_connection_flush(tf_connection *c);

/* Ends the session for good with a CLOSE to the peer (where a route takes it), then frees it. */
void tf_connection_close(tf_connection *c, tf_close_code code, const char *reason);

/* A datagram from the network. */
void tf_connection_packet(tf_node *node, tf_datagram *socket, const tf_datagram_path *from, tf_slice packet);

/* What a handshake may resume. */
tf_negotiate_session tf_connection_state(const tf_connection *c);
/* Its link was closed for a fault: counted, logged, freed by the next flush. */
void tf_connection_failed(tf_connection *c, tf_close_code code, const char *reason);
/* Ends the session with the code that belongs to a fault of the peer's; it is freed by the next flush. */
void tf_connection_fail(tf_connection *c, tf_err err);
tf_log_peer tf_connection_log_peer(const tf_connection *c);

/* -- connection_datagram.c ----------------------------------------------------------------------------------------- */

void tf_connection_flush_datagrams(tf_connection *c);
/* The socket is about to be freed: no connection uses it any more. */
void tf_connection_forget_socket(tf_node *node, const tf_datagram *socket);
/* The system did not send a packet of len bytes to that address by that socket. */
void tf_connection_unsent(tf_node *node, const tf_datagram *socket, const tf_address *to, int system_error, size_t len);
/* The link has judged the candidate address: it is the peer's new one, or forgotten. */
void tf_connection_decide_candidate(tf_connection *c, bool takes_it);

tf_connection *tf_connection_by_session(const tf_node *node, uint64_t session);
/* The first connection of that instance of that peer, NULL if none; instance NULL: any. */
tf_connection *tf_connection_find(const tf_node *node, const tf_node_id *peer, const uint64_t *instance);

/* The next connection (after NULL: the first) of that peer that has not ended; NULL: there is none. */
tf_connection *tf_connection_next_of(const tf_node *node, const tf_node_id *peer, const tf_connection *after);

struct tf_connection {
    tf_connection *next;
    tf_connection *prev;
    tf_chain same_key; /* node->keys */
    tf_node *node;
    tf_peer *peer;
    tf_conn *conn;
    tf_link *link; /* of conn */
    tf_node_id peer_id;
    uint64_t session;
    uint64_t generation; /* the last one assigned */
    tf_agreed agreed;    /* of the last generation */
    tf_stream *stream;
    struct tf_keyring *keyring; /* NULL: no datagram route */
    tf_datagram *socket;        /* borrowed */
    tf_address to;              /* the peer's datagram address */
    tf_address from;            /* ours, as the peer addressed it */
    bool has_to;
    tf_address candidate; /* where an authenticated packet came from, while that address is challenged; else not set */
    tf_address candidate_from;
    tf_datagram *candidate_socket;
    uint64_t moves; /* how often the address changed */
    size_t candidate_credit; /* bytes that may still go there: 3 times what came from it */
    struct event *timer;
    tf_time lost_since; /* no route carries; TF_NEVER: one does */
    bool announced;     /* peer was told that messages flow */
    bool failed;        /* ended by an error or a CLOSE: flush, then free */
    bool closed_by_peer;
    uint64_t close_code; /* of the peer's CLOSE */
    char why[TF_CLOSE_REASON_MAX + 1];
};

/* -- dialler.c ----------------------------------------------------------------------------------------------------- */

/* What a connection of a dialled peer tells it. */
void tf_peer_stream_ended(tf_peer *peer, const char *why);
void tf_peer_verdict(tf_peer *peer, tf_route route, tf_verdict verdict, tf_verdict before);
void tf_peer_carrying(tf_peer *peer);
/* A new handshake is wanted although there is a session: its keys are used up or old, or a route of it is not believed. The
 * old stream is kept until the new one is authenticated. reason: static, for the log. */
void tf_peer_new_generation(tf_peer *peer, const char *reason);
/* Everything comes by the other route while this one claims to be up. */
void tf_peer_redundancy_lost(tf_peer *peer, tf_route route);
/* Interfaces, addresses or routes of this machine have changed. */
void tf_peer_network_changed_all(tf_node *node);
/* The session is over; the connection is freed right after. code: of the peer's CLOSE or ours. */
void tf_peer_session_over(tf_peer *peer, uint64_t code, const char *why);
void tf_peer_free_all(tf_node *node);
/* The peer `id` dials us: is our own dial to it kept instead? existing: our connection to that instance, or NULL. */
bool tf_peer_keeps_own_dial(tf_node *node, const tf_node_id *id, const tf_connection *existing);
/* A peer that we dial has dialled us, and that dial is kept: its connection is the peer's from now on. */
void tf_peer_accepted(tf_connection *c);
bool tf_peer_next_event(tf_peer *peer, tf_node_event *out);
tf_peer *tf_peer_next(const tf_peer *peer);
/* Sends what waits in the datagram sockets. */
void tf_peer_flush_all(tf_node *node);

#endif
