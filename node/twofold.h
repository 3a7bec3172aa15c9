/* twofold: the library on which the relay and the command line are written. The private beginning of libtwofold: the
 * names may still change.
 *
 * A tf_node is one identity with its listeners, its connections and its event loop; it belongs to one thread. The
 * caller pulls: tf_node_run waits for something to happen, then tf_node_next_event hands out what did. Nothing is
 * called back but the handlers of objects that the program exports, inside tf_node_next_event; so everything may be
 * called between two events, tf_node_free too. No global state, no signal handler, no output other than by the log.
 *
 *     tf_node_new, tf_node_connect, tf_remote_open, tf_remote_subscribe
 *     for (;;) {
 *         tf_node_run(node, TF_NEVER);
 *         while (tf_node_next_event(node, &event)) { ... }
 *     }
 *
 * Every message goes out on both routes and arrives once; sends are pending until they are acked or refused, over
 * reconnects and restarts of the other side. An ack means: durable on the relay's disk (S1), or, of a relay without a
 * store directory, held in its memory.
 *
 * A program can also export objects of its own, give references to them away, and send to those that it was given,
 * through relays too: "references" below. */
#ifndef TF_NODE_TWOFOLD_H
#define TF_NODE_TWOFOLD_H

#include "handshake/identity.h"
#include "node/calls.h"
#include "node/hub_rights.h"
#include "node/log.h"
#include "node/router.h"
#include "node/uri.h"
#include "node/why.h"
#include "paths/address.h"
#include "paths/link.h"
#include "proto/types.h"

struct event_base;

typedef struct tf_node tf_node;
typedef struct tf_peer tf_peer;       /* a remote node that we dial, across all its connections */
typedef struct tf_remote tf_remote; /* a channel of such a peer, as its client */

typedef struct tf_node_limits {
    uint32_t max_in_flight;   /* sends of one origin that may be unacked; 0: TF_MAX_IN_FLIGHT */
    uint32_t max_message;     /* bytes; 0: TF_MESSAGE_MAX */
    uint32_t window_segments; /* announced to each peer; 0: TF_WINDOW_SEGMENTS */
    uint32_t window_bytes;    /* 0: TF_WINDOW_BYTES */
    uint32_t peers;           /* connections at a time; 0: TF_CONNECTIONS */
    uint32_t handshakes;      /* that are going on at a time, others wait to be accepted; 0: TF_HANDSHAKES */
    uint32_t channels;        /* 0: TF_CHANNELS_MAX */
    uint64_t store_bytes;     /* of the memory store; 0: TF_STORE_MEMORY_BYTES */
    tf_time session_timeout;  /* 0: TF_SESSION_TIMEOUT */
    tf_time keepalive;        /* 0: TF_KEEPALIVE */
    /* Packets sent by datagram until the keys are moved on, from TF_KEY_PHASE_PACKETS_MIN up; 0: TF_KEY_PHASE_PACKETS. */
    uint32_t key_phase_packets;
    tf_time rehandshake;      /* of the peers that we dial, for new keys; 0: TF_REHANDSHAKE_AGE */
} tf_node_limits;

/* A peer that may connect to us. */
typedef struct tf_node_grant {
    tf_node_id id;
    bool relay;        /* believed when it names the origin of a send (S1) */
    tf_routes standby; /* routes by which our copies go to it only while no other one flows; not both */
} tf_node_grant;

/* Where channels are kept. */
typedef struct tf_node_store {
    const char *directory; /* which exists and is this node's alone; NULL: in memory, gone with the node. Copied */
    uint64_t segment_size; /* of the commit log; 0: 16 MiB */
    uint64_t log_bytes;    /* that it may take; 0: 16 segments. Not used without segment_size */
} tf_node_store;

typedef struct tf_node_config {
    const tf_identity *identity; /* borrowed, outlives the node */
    bool exclusive;              /* one instance of this identity holds the place at a peer (relays) */
    bool accept_any;             /* any key may connect; default: only those in grants */
    const tf_node_grant *grants; /* copied */
    size_t grant_count;
    tf_node_limits limits;
    tf_node_store store;
    tf_log *log; /* borrowed; NULL: silent */
} tf_node_config;

/* NOMEM, CRYPTO, IO; of the store: USAGE (another process has it, or it is of a later version), DAMAGED (it cannot be
 * used at all), FULL, IO. why (may be NULL) says what was wrong and what would be right. *out is the caller's. */
TF_MUST_CHECK tf_err tf_node_new(tf_node **out, const tf_node_config *config, char why[TF_WHY_MAX]);
/* Ends all sessions for good (a CLOSE goes out where a socket takes it) and frees everything, peers and channels
 * too. */
void tf_node_free(tf_node *node);

/* Whom it lets in from now on; sessions of keys that are no longer let in end. NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_node_set_grants(tf_node *node, const tf_node_grant *grants, size_t count, bool accept_any);

/* What applies to the channels whose name matches a pattern. */
typedef struct tf_node_policy {
    tf_hub_rule rule; /* the pattern, and who may read and write */
    uint64_t max_age_ms; /* what is kept (S12); 0: no bound of that kind */
    uint64_t max_bytes;
    uint64_t max_count;
    uint64_t dedup_age_ms; /* of keys (S2); 0: as long as the channel */
} tf_node_policy;

typedef struct tf_node_policies {
    const tf_node_policy *list; /* the first whose pattern matches counts */
    size_t count;
    bool restricted; /* what no policy allows is forbidden; else everybody who is let in may do everything */
    uint32_t rate;   /* sends a second of one origin; 0: no limit */
    uint32_t rate_bytes;
} tf_node_policies;

/* What applies from now on; without a call everything is kept and allowed. Subscriptions to what their subscriber may
 * no longer read end, and it is told. Everything is copied. NOMEM: a part may apply; USAGE: a pattern that is none. */
TF_MUST_CHECK tf_err tf_node_set_policies(tf_node *node, const tf_node_policies *policies);

/* Listens on HOST:PORT (TCP and UDP under one number; port 0: a free one). Several may be given. On failure why (cap
 * bytes) says what was wrong: USAGE for a bad address, IO for one that cannot be had. */
TF_MUST_CHECK tf_err tf_node_listen(tf_node *node, const char *address, char *why, size_t cap);
/* The URI under which the first listener can be reached. False: no listener. */
bool tf_node_uri(const tf_node *node, char *out, size_t cap);

typedef struct tf_connect_options {
    tf_routes routes;        /* that may carry messages; 0: both (PROTOCOL.md H, `data`) */
    tf_time connect_timeout; /* first connection; 0: TF_CONNECT_TIMEOUT; TF_NEVER: tried for ever */
    uint32_t max_in_flight;  /* of our sends; at most what the peer announces; 0: what it announces */
    tf_time retry_limit;     /* of a send, from its first retryable refusal; 0: none */
    bool relay;              /* the peer has the relay right towards us */
} tf_connect_options;

/* Starts to dial, and redials for ever once a connection existed. *out stays the node's. USAGE: our own key, or a peer
 * that is dialled already. */
TF_MUST_CHECK tf_err tf_node_connect(tf_node *node, const tf_uri *uri, const tf_connect_options *options, tf_peer **out);

/* A channel of the peer, made there if it is missing. Can be called before the connection exists. LIMIT_*, NOMEM, USAGE
 * (name outside the alphabet of S2 plus `/`, or longer than TF_CHANNEL_NAME_MAX). *out stays the node's. */
TF_MUST_CHECK tf_err tf_remote_open(tf_peer *peer, tf_slice name, tf_remote **out);
/* The same, but one that is missing is not made: CHANNEL_REFUSED with the code `channel_not_found`. */
TF_MUST_CHECK tf_err tf_remote_find(tf_peer *peer, tf_slice name, tf_remote **out);

typedef struct tf_remote_send_args {
    tf_slice client_id; /* S2; empty: one is made (instance and counter) */
    tf_slice body;
    tf_slice meta;      /* beside the body, at most TF_META_MAX bytes; empty: none */
    int64_t expires_ms; /* milliseconds since 1970 from which on it need not be delivered; 0: never */
    bool was_sent;      /* by an earlier process (a spool): it may be stored already, */
    tf_time sent_ago;   /* and was sent first at most so long ago */
    uint64_t cookie;    /* comes back in the ACK or REFUSED event */
} tf_remote_send_args;

/* Takes a send (bytes are copied): exactly one ACK or REFUSED event will come for it. It goes again in each session,
 * under its client id and in its order, until it is answered; but never when the peer may have forgotten that it has
 * it (S2): then it is REFUSED with the code `unknown`. AGAIN: the window and the queue behind it are full, nothing was
 * taken; a ROOM event comes. USAGE: client id outside S2. LIMIT_BYTES: body or meta too long. */
TF_MUST_CHECK tf_err tf_remote_send(tf_remote *channel, const tf_remote_send_args *send);
/* A client id that no other send of this identity has. Returns its length. */
size_t tf_peer_make_client_id(tf_peer *peer, uint8_t out[TF_CLIENT_ID_MAX]);

typedef enum tf_start { TF_START_NEW, TF_START_FIRST, TF_START_SEQ, TF_START_TIME } tf_start;

/* Subscribes from a position (value: seq, or milliseconds since 1970). One subscription a channel: USAGE otherwise. */
TF_MUST_CHECK tf_err tf_remote_subscribe(tf_remote *channel, tf_start start, uint64_t value);
/* Subscribes under a name with which the peer keeps our position (S10): `start` counts only when there is none yet.
 * USAGE, too: not 1 to TF_CURSOR_NAME_MAX bytes of S2's alphabet. */
TF_MUST_CHECK tf_err tf_remote_subscribe_durable(tf_remote *channel, tf_start start, uint64_t value, tf_slice name);
/* All up to this ACTIVITY (or below the `seq` of a GAP), of a durable subscription, is dealt with and need not come
 * again. The peer keeps the last position that was confirmed; CONFIRMED tells how far it is durable. USAGE: not
 * durable, or seq was not handed out. */
TF_MUST_CHECK tf_err tf_remote_confirm(tf_remote *channel, uint64_t seq);
/* Something that was confirmed is not known to be durable yet. */
bool tf_remote_is_confirming(const tf_remote *channel);

/* Questions. Exactly one ANSWER comes for each, over as many sessions as it takes; it holds the cookie. AGAIN: too many
 * are waiting; USAGE: values that cannot be; CLOSED: the channel was refused; NOMEM. */
/* A page of the channels that the peer stores, those after a number that the page before gave (0: the first). */
TF_MUST_CHECK tf_err tf_peer_ask_channels(tf_peer *peer, uint64_t after, uint64_t cookie);
TF_MUST_CHECK tf_err tf_remote_ask_info(tf_remote *channel, uint64_t cookie);
/* What is below that seq is no longer kept. */
TF_MUST_CHECK tf_err tf_remote_ask_trim(tf_remote *channel, uint64_t before, uint64_t cookie);
/* The ranges that cannot be had, from a seq on. */
TF_MUST_CHECK tf_err tf_remote_ask_gaps(tf_remote *channel, uint64_t from, uint64_t cookie);
/* Messages from one seq to another, both included; as many as fit. */
TF_MUST_CHECK tf_err tf_remote_ask_read(tf_remote *channel, uint64_t from, uint64_t to, uint64_t cookie);
/* Our position under that name is deleted; fine if there is none. */
TF_MUST_CHECK tf_err tf_remote_ask_forget(tf_remote *channel, tf_slice name, uint64_t cookie);
/* The channel takes no more sends, of anyone, after those that were given here; then CLOSED comes. */
TF_MUST_CHECK tf_err tf_remote_close(tf_remote *channel);

/* Sends of this peer that are neither acked nor refused. */
size_t tf_peer_unacked(const tf_peer *peer);

/* -- references ---------------------------------------------------------------------------------------------------- */

/* Objects and promises are known by local ids (proto/ref.h): numbers of this node, the same towards all peers, never
 * used again. Others can speak of an object once it was mentioned to them: published under a name, or among the refs
 * of a message, an answer or a rejection. Who refers to what is counted here and by the peers (D1 to D15); a program
 * only says what it keeps: tf_node_hold and tf_node_drop. All of it is of the node's thread.
 *
 * A call that says AGAIN, LIMIT_*, USAGE or NOMEM changed nothing. At most TF_APP_OBJECTS_MAX objects are exported at
 * a time and as many things held (LIMIT_ITEMS beyond); messages that wait for a program which does not pull are
 * refused `overloaded` to their senders (TF_APP_ITEMS, TF_APP_BYTES; of one peer a quarter of that). */

/* A message for an object of ours. Slices, refs and what refs name are valid until the handler returns. */
typedef struct tf_call_info {
    tf_node *node;
    tf_local object;
    tf_slice method;        /* 1 to TF_METHOD_MAX bytes of UTF-8 */
    tf_slice args;          /* bytes, of which this library knows nothing */
    const tf_mention *refs; /* what it mentions, in order */
    size_t ref_count;
    tf_local result;        /* the promise for its answer: exactly one tf_node_resolve or tf_node_reject, now or later;
                               TF_LOCAL_NONE: no answer is wanted */
    bool has_caller;
    tf_node_id caller; /* the peer that it came from: a relay, not who sent it there */
} tf_call_info;

/* Called from tf_node_next_event. They may call everything here but tf_node_next_event, tf_node_run and
 * tf_node_free. */
typedef struct tf_object_handler {
    void (*called)(void *user, const tf_call_info *call);
    /* Nobody refers to it any more (P5). It stays exported and may be mentioned again. May be NULL. */
    void (*dropped)(void *user, tf_local object);
    void *user;
} tf_object_handler;

/* A new object, ours until tf_node_unexport. The handler is copied. */
TF_MUST_CHECK tf_err tf_node_export(tf_node *node, const tf_object_handler *handler, tf_local *object);
/* No handler of it is called any more; if somebody still refers to it, it is revoked. No-op for what is no object of
 * ours. */
void tf_node_unexport(tf_node *node, tf_local object);

/* A promise that we resolve, to be mentioned before its answer is there. */
TF_MUST_CHECK tf_err tf_node_new_promise(tf_node *node, tf_local *promise);

typedef struct tf_node_message {
    tf_local target; /* an object or a promise: ours, held, or named by the event in hand */
    tf_slice method;
    tf_slice args;
    const tf_mention *refs;
    size_t ref_count; /* at most TF_REFS_PER_MESSAGE */
} tf_node_message;

/* Sends a message. Those of one sender to one target arrive in the order sent (P6), and a message to a promise goes on
 * to what that is resolved to: there is no need to wait. result (NULL: no answer is wanted) becomes the promise for
 * the answer; exactly one SETTLED comes for it. AGAIN: a queue is full, later. USAGE: a target or reference that this
 * node does not know, or a method that is none. */
TF_MUST_CHECK tf_err tf_node_send(tf_node *node, const tf_node_message *message, tf_local *result);

/* Resolves promises of ours (results of calls, or of tf_node_new_promise): to an object, data, or a rejection. Several
 * at once may mention each other. USAGE: not ours to resolve, or resolved already; LIMIT_BYTES: more than who waits
 * for it takes. One that nobody waits for any more is fine. */
TF_MUST_CHECK tf_err tf_node_resolve(tf_node *node, const tf_answer *answers, size_t count);
/* The same for one, to a rejection with this code (1 to TF_REFUSAL_CODE_MAX bytes, else USAGE) and message, as
 * tf_rejection_write makes them. */
TF_MUST_CHECK tf_err tf_node_reject(tf_node *node, tf_local promise, tf_slice code, tf_slice message);

/* Sends to an object of ours are answered with this rejection from now on, by the peers themselves once they know
 * (D11). hard: they also forget its identity (D12). What nobody refers to is left as it is. USAGE: not ours, or
 * revoked already (soft may become hard); code or message as for tf_result_refusal. */
TF_MUST_CHECK tf_err tf_node_revoke(tf_node *node, tf_local object, bool hard, tf_slice code, tf_slice message);

/* Keeps an object or promise that an event or a call named beyond that event. Each hold is ended by one tf_node_drop.
 * Results of tf_node_send are held until their SETTLED, objects of FOUND until tf_node_drop, without this call. Of
 * what is resolved or revoked already the event for that comes again. USAGE: unknown. */
TF_MUST_CHECK tf_err tf_node_hold(tf_node *node, tf_local local);
/* No-op for what is not held. */
void tf_node_drop(tf_node *node, tf_local local);

/* Our object under that name at the peer, in this session and in each that follows: PUBLISHED comes in each, or once
 * PUBLISH_REFUSED (it is given up then). The name as that of a channel. USAGE: no name; LIMIT_ITEMS. */
TF_MUST_CHECK tf_err tf_peer_publish(tf_peer *peer, tf_slice name, tf_local object);
/* WITHDRAWN comes when the peer knows. No-op for a name that is not published. */
void tf_peer_withdraw(tf_peer *peer, tf_slice name);
/* What was published there, by whomever, under that name: FOUND comes. AGAIN, USAGE, NOMEM as for questions. */
TF_MUST_CHECK tf_err tf_peer_lookup(tf_peer *peer, tf_slice name, uint64_t cookie);
/* A page of the references that the peer has in common with us: those after one that the page before gave (0: the
 * first). */
TF_MUST_CHECK tf_err tf_peer_ask_refs(tf_peer *peer, uint64_t after, uint64_t cookie);

/* Rejections as nodes give them: the map {"code", "message"}, and of a command that ended its "status". */
typedef struct tf_rejection {
    tf_slice code;
    tf_slice message;
    bool has_status;
    uint64_t status;
} tf_rejection;

/* TF_ERR_PEER_SYNTAX: something else, of which only its sender knows what it means. Slices point into data. */
TF_MUST_CHECK tf_err tf_rejection_read(tf_slice data, tf_rejection *out);
/* Into out, of TF_REJECTION_MAX bytes; returns the length. A message that is too long is cut, between characters; in
 * one that is no UTF-8 the bytes beyond ASCII become `?`. The code has at most TF_REFUSAL_CODE_MAX bytes. */
size_t tf_rejection_write(uint8_t out[TF_REJECTION_MAX], const tf_rejection *rejection);

/* What a node's sessions hold (P5), for people: entry by entry of each connection, then its summary, then those of the
 * next. */
typedef struct tf_node_ref {
    tf_node_id peer;
    uint64_t session;
    bool is_summary;
    tf_session_entry entry;  /* not of a summary */
    tf_session_stats stats;  /* of a summary */
    size_t waiting;          /* of a summary: messages that wait for room in the ring */
    size_t waiting_bytes;
} tf_node_ref;

/* Zeroed: before the first. */
typedef struct tf_node_refs_cursor {
    uint64_t session; /* the last that was begun */
    uint64_t entry;
    bool within;
} tf_node_refs_cursor;

/* The next; false: no more. Connections and entries may come and go between two calls: what is there all the time is
 * shown once. */
bool tf_node_refs_next(const tf_node *node, tf_node_refs_cursor *cursor, tf_node_ref *out);
/* Records of the node, messages that wait for promises, and so on. */
void tf_node_refs_stats(const tf_node *node, tf_router_stats *out);

/* -- events -------------------------------------------------------------------------------------------------------- */

typedef enum tf_asked {
    TF_ASKED_CHANNELS,
    TF_ASKED_INFO,
    TF_ASKED_TRIM,
    TF_ASKED_GAPS,
    TF_ASKED_READ,
    TF_ASKED_FORGET,
    TF_ASKED_REFS
} tf_asked;

typedef enum tf_node_event_type {
    TF_EVENT_CONNECTED,       /* peer: messages can flow. Again after each new session (resumed: false then) */
    TF_EVENT_CONNECT_FAILED,  /* peer: the first connection did not come about: err TIMEOUT or PEER_REFUSED, text */
    TF_EVENT_DISCONNECTED,    /* peer: the session was lost for good; redialling */
    TF_EVENT_ROUTE,           /* peer, route, verdict */
    TF_EVENT_ACK,             /* channel, cookie, client_id, id, seq, timestamp_ms, duplicate, via */
    TF_EVENT_REFUSED,         /* channel, cookie, client_id, code, text, retryable, retry_after_ms */
    TF_EVENT_SUBSCRIBED,      /* channel, epoch, head, first, seq of the next activity */
    TF_EVENT_ACTIVITY,        /* channel, seq, id, sender, client_id, timestamp_ms, body, meta, expires_ms */
    TF_EVENT_GAP,             /* channel: first..seq - 1 does not come, for `code` (text says it for people): "trimmed",
                               * "damaged", "too_large", "expired", "epoch" (the numbers begin anew, at seq) */
    TF_EVENT_ENDED,           /* channel: the subscription is over, for `code` ("taken_over", "forbidden"), text */
    TF_EVENT_CONFIRMED,       /* channel: all up to seq is confirmed, durably */
    TF_EVENT_CHANNEL_REFUSED, /* channel: open, subscribe, confirm or close was refused: code, text */
    TF_EVENT_CLOSED,          /* channel: answer to tf_remote_close */
    TF_EVENT_ANSWER,          /* channel (of tf_peer_ask_channels none), cookie, asked, and either data, to be read with the
                               * tf_result_..._read of its kind (node/calls.h), or code and text of its refusal */
    TF_EVENT_ROOM,            /* peer: tf_remote_send takes sends again */
    TF_EVENT_SETTLED,         /* local (a result of tf_node_send, or a promise that was held; it is dropped by this),
                               * resolution, and object, or data with refs */
    TF_EVENT_REVOKED,         /* local (held), hard, data (the rejection) with refs; it stays held */
    TF_EVENT_PUBLISHED,       /* peer, name: it can be looked up there. Again after each new session */
    TF_EVENT_PUBLISH_REFUSED, /* peer, name, code, text */
    TF_EVENT_WITHDRAWN,       /* peer, name */
    TF_EVENT_FOUND            /* peer, cookie, and either local (an object, held for the caller), or code and text */
} tf_node_event_type;

typedef struct tf_node_event {
    tf_node_event_type type;
    tf_peer *peer;
    tf_remote *channel;
    tf_err err;
    bool resumed;
    tf_route route;
    tf_verdict verdict;
    uint64_t cookie;
    tf_slice client_id;
    tf_slice id;
    uint64_t seq;
    uint64_t first;
    uint64_t head;
    uint64_t epoch;
    int64_t timestamp_ms;
    bool duplicate;
    bool retryable;
    bool hard;
    tf_resolution_kind resolution;
    uint64_t retry_after_ms;
    tf_route via;
    tf_node_id sender;
    tf_slice body;
    tf_slice meta;
    int64_t expires_ms; /* 0: never */
    tf_asked asked;
    tf_slice data;
    tf_slice code;
    tf_slice text;
    tf_local local;
    tf_slice name;
    tf_mention object;
    const tf_mention *refs;
    size_t ref_count;
} tf_node_event;

/* Waits until something happened, max_wait passed (0: does not wait) or tf_node_wake was called, and does all work that
 * is due. */
void tf_node_run(tf_node *node, tf_time max_wait);
/* The next event; false: none. Slices, and refs that are not held, are valid until the next call of this or of
 * tf_node_run. */
bool tf_node_next_event(tf_node *node, tf_node_event *out);
/* The loop, to add descriptors and signals to: their callbacks run inside tf_node_run, which then returns. */
struct event_base *tf_node_loop(tf_node *node);
/* Makes the current or next tf_node_run return. Only from the node's thread or its loop's callbacks. */
void tf_node_wake(tf_node *node);

/* Refuses new connections and new sends (`draining`), finishes what is accepted, with peers that can be reached. */
void tf_node_drain(tf_node *node);
/* True once every accepted send was acked and the ring of every connection with a route that lives is empty. */
bool tf_node_is_drained(const tf_node *node);

typedef struct tf_peer_route {
    bool agreed;          /* part of the session */
    bool carries;         /* may carry messages, in one direction at least */
    tf_route_stats stats; /* counters: over all sessions; verdict, round trip and the like: of the session now, or the last */
    char local[TF_ADDRESS_TEXT_MAX]; /* "-" or "": not known */
    char remote[TF_ADDRESS_TEXT_MAX];
} tf_peer_route;

/* What was done with a peer, over all sessions with it (P10). */
typedef struct tf_peer_stats {
    tf_time now;    /* on the clock of all times here */
    bool connected; /* there is a session now */
    tf_peer_route routes[TF_ROUTE_COUNT];
    uint64_t dials;      /* tries to reach it */
    uint64_t handshakes; /* of these, those that made or resumed a session */
    uint64_t sessions;
    uint64_t resumes;
    uint64_t moves; /* of the peer's datagram address */
    uint64_t messages_sent; /* of the protocol */
    uint64_t messages_received;
    uint64_t ring_segments; /* sent and not acked, now */
    uint64_t ring_bytes;
    /* datagram keys, and packets under them */
    bool has_keys;       /* else the next three are of the last ones */
    tf_time keys_since;  /* the handshake that they come from */
    uint64_t phase;      /* how often they were moved on since */
    tf_time phase_since;
    uint64_t packets_sealed;
    uint64_t packets_opened;
    uint64_t packets_forged; /* did not open */
    uint64_t packets_replayed;
    uint64_t packets_malformed; /* too short, or of a key phase that cannot be */
    /* its channels, as their client */
    uint64_t sends; /* resends included */
    uint64_t resends;
    uint64_t acks;
    uint64_t duplicates; /* acks of what was stored already */
    uint64_t refusals;   /* those that were retried included */
    uint64_t activities;
    uint64_t repeats; /* activities that had been handed out already */
    uint64_t gaps;
} tf_peer_stats;

void tf_peer_get_stats(const tf_peer *peer, tf_peer_stats *out);

/* One question by every route. */
typedef struct tf_ping {
    uint64_t session;
    uint64_t probes[TF_ROUTE_COUNT];
} tf_ping;

/* Asks the peer by every route at the same moment: whoever is there answers each at once. It needs no right, and leaves
 * no trace. False: there is no session. */
bool tf_peer_ping(tf_peer *peer, tf_ping *out);

typedef enum tf_ping_state {
    TF_PING_WAITING, /* the route does not take it now */
    TF_PING_SENT,
    TF_PING_ANSWERED, /* rtt: the round trip, without any delay of acks */
    TF_PING_LOST      /* with its session */
} tf_ping_state;

/* What became of a question on one route. The last few (8, and the link asks for itself, too) are remembered. */
tf_ping_state tf_peer_pinged(const tf_peer *peer, const tf_ping *ping, tf_route route, tf_time *rtt);

const tf_node_id *tf_peer_id(const tf_peer *peer);
tf_slice tf_remote_name(const tf_remote *channel);

/* Counters of what strangers and attackers do, which cost nothing else (P8, P10). */
typedef struct tf_node_stats {
    uint64_t accepted;              /* TCP connections */
    uint64_t handshakes_failed;     /* no TLS, wrong ALPN, malformed HELLO, too slow */
    uint64_t handshakes_refused;    /* a key that is not allowed */
    uint64_t sessions;              /* made */
    uint64_t sessions_resumed;      /* generations after the first */
    uint64_t sessions_now;
    uint64_t packets_received;
    uint64_t packets_unknown;       /* too short, or a connection id that is not ours */
    uint64_t packets_forged;        /* did not open */
    uint64_t packets_replayed;
    uint64_t connections_failed;    /* ended with an error code */
} tf_node_stats;

void tf_node_get_stats(const tf_node *node, tf_node_stats *out);

#endif
