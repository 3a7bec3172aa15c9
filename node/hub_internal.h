/* What the files of the hub share: its structs, and the functions that one file of it calls in another. Not for others.
 *
 * hub.c        life, connections, the turn
 * hub_turn.c   events of the router: which object, which method; answers and refusals
 * hub_serve.c  root and channel methods: open, close, and the way to the rest
 * hub_names.c  names for objects: publish, lookup; refs
 * hub_objects.c objects and promises of a program that embeds the node
 * hub_objects_queue.c what happens to them, until it is pulled
 * hub_admin.c  what there is: channels, info, gaps; trim
 * hub_access.c what the peer of a connection may do with a channel (hub_rights.c: the rules)
 * hub_send.c   the one path of a send up to its acceptance (S1 to S4, S7)
 * hub_origin.c windows and order guards of a connection (S7)
 * hub_pending.c changes that wait for their commit, and who waits for them
 * hub_commit.c groups for the store, acks (S5, S6)
 * hub_refused.c what the store did not take (S6, S7)
 * hub_subscribe.c subscriptions: their beginning and end (S10)
 * hub_feed.c   fan-out, replay, catching up (S8, S10)
 * hub_cursor.c positions of durable subscriptions (S10)
 * hub_read.c   `read`
 * hub_retention.c what is kept how long (S12)
 * channel.c    the channels in memory */
#ifndef TF_NODE_HUB_INTERNAL_H
#define TF_NODE_HUB_INTERNAL_H

#include "node/calls.h"
#include "node/chain.h"
#include "node/channel.h"
#include "node/guard.h"
#include "node/hub.h"
#include "node/hub_objects.h"
#include "node/rate.h"

#define TF_HUB_GROUP_OPS 512u                  /* of one group for the store */
#define TF_HUB_GROUP_BYTES ((size_t)4 * 1024 * 1024) /* or one op */
#define TF_HUB_READS_MAX 16u                   /* `read` requests of a connection that wait for room */
#define TF_HUB_OPENS_MAX 64u                   /* answers of a connection that wait for the creation or end of a channel */
#define TF_HUB_READ_BYTES ((size_t)64 * 1024)       /* of one answer of `read`, or one activity */
#define TF_HUB_GUARDS_MAX 16384u               /* per connection */
#define TF_HUB_ANSWER_BYTES 2048u              /* acks in one message */
#define TF_HUB_ANSWERS 16u
#define TF_HUB_LIST_HEAD 512u /* of an answer with a list, before its items */
#define TF_HUB_IDLE_ORIGINS 4096u              /* of a relay, that are kept for their rates */

/* Who in the hub is to hear when an object of a peer is revoked, its host's end included. It is held so long. */
typedef enum tf_watch_kind { TF_WATCH_SINK, TF_WATCH_NAME } tf_watch_kind;

typedef struct tf_watch {
    tf_chain same_local;
    tf_local local;
    tf_watch_kind kind;
} tf_watch;

/* Somebody who waits for a commit. */
typedef struct tf_waiter {
    struct tf_waiter *next; /* of the same pending op */
    tf_list_node in_conn;   /* conn->waiting */
    struct tf_pending *pending;
    tf_conn *conn; /* NULL: gone */
    tf_local promise;
    struct tf_origin *origin; /* NULL: of an open or close */
    struct tf_subscription *subscription; /* that begins with the commit of its cursor; mostly NULL */
} tf_waiter;

/* A change that waits for its commit: the client id, the body and the meta, or the name of the channel or cursor, follow. */
typedef struct tf_pending {
    tf_list_node in_queue; /* hub->gathered, or none once it is with the store */
    tf_chain same_hash;
    tf_store_op_kind kind;
    tf_channel *channel;
    tf_waiter first;    /* the one who asked: it alone takes a slot of the window */
    tf_waiter *resends; /* S3: at most one per connection, none of them takes a slot */
    uint64_t hash;      /* in hub->pending */
    tf_guard_key key;
    tf_node_id origin; /* CURSOR: the owner */
    uint64_t instance;
    bool counted; /* in hub->committing */
    bool indexed; /* in hub->pending */
    bool stated;  /* the origin is not the connection's own: no echo rule here (S8) */
    bool refused; /* marked while a group is completed */
    bool done;    /* it is durable, and so here */
    struct tf_durable *durable; /* CURSOR: whose position it sets; NULL: deletes one */
    uint64_t seq; /* TRIM: what is below goes; CURSOR: the position, 0 deletes it */
    int64_t timestamp_ms; /* FORGET: keys before it */
    int64_t expires_ms;
    size_t client_id_len; /* CURSOR: of the name */
    size_t body_len;
    size_t meta_len;
    size_t size; /* of this block */
    uint8_t bytes[];
} tf_pending;

/* What is limited of an origin: sends, and the bytes of their bodies and metas. */
typedef enum tf_rate_kind { TF_RATE_SENDS, TF_RATE_BYTES, TF_RATES } tf_rate_kind;

/* An origin of sends on one connection (S1, S7). */
typedef struct tf_origin {
    tf_chain same_hash;
    tf_node_id node;
    uint64_t instance;
    uint64_t hash;
    uint64_t serial; /* 0: the peer itself */
    uint32_t in_flight; /* unacked sends */
    uint32_t holds;     /* guards, resends that wait */
    tf_rate rates[TF_RATES];
    tf_list_node in_idle; /* conn->idle_origins: it is kept for its rates only */
} tf_origin;

/* The order guard of an origin on a channel: there while it is up. */
typedef struct tf_origin_guard {
    tf_chain same_hash;
    tf_origin *origin;
    uint64_t channel;
    uint64_t hash;
    tf_guard guard;
} tf_origin_guard;

/* The position of a durable subscription, while it is used or on its way to the store. */
typedef struct tf_durable {
    tf_list_node in_channel; /* channel->durables */
    tf_channel *channel;
    tf_node_id owner;
    uint64_t next;      /* the highest that was asked for; 0: none yet */
    uint64_t committed; /* what the store has; 0: nothing of this numbering */
    tf_pending *gathered;   /* sets it to `next`, not with the store yet */
    tf_pending *committing; /* with the store */
    struct tf_subscription *subscription;
    size_t name_len;
    uint8_t name[TF_CURSOR_NAME_MAX];
} tf_durable;

typedef struct tf_subscription {
    tf_object object; /* exported to the subscriber: it ends the subscription by dropping it */
    tf_watch sink;    /* an object of its peer */
    tf_conn *conn;
    tf_channel *channel;
    uint64_t next; /* all below are queued */
    uint64_t ahead; /* from `next` up to it all have expired: announced as one gap. Below `next`: not looked yet */
    tf_durable *durable;
    tf_waiter *begins; /* its cursor is not durable yet: it is in neither list, and not answered. NULL: it has begun */
    tf_result_subscribe start; /* what the answer is to tell then */
    bool renumbered; /* first of all a gap "epoch" is due */
    tf_slice over;   /* why it is over: `ended` is due, and nothing else; static. Empty: it is not */
    bool echo;
    uint64_t sent;  /* bytes of activities */
    uint64_t limit; /* that it may be sent; at the limit it is in neither list */
    tf_list_node in_conn;    /* conn->subscriptions */
    tf_list_node in_channel; /* channel->live, while next is above the head */
    tf_list_node in_lagging; /* conn->lagging, else */
} tf_subscription;

/* A `read` that waits for room, or for the store. */
typedef struct tf_read_request {
    tf_list_node in_conn;
    tf_channel *channel;
    tf_local promise;
    tf_args_read range;
} tf_read_request;

/* A name and the object that it stands for (hub_names.c). */
typedef struct tf_name {
    tf_watch object;
    tf_chain same_hash;
    struct tf_publisher *publisher;
    uint64_t hash;
    size_t len;
    uint8_t bytes[];
} tf_name;

typedef struct tf_publisher {
    tf_chain same_hash;
    tf_node_id id;
    uint64_t hash;
    size_t count; /* names; above 0 */
} tf_publisher;

/* What is published: hash -> tf_name, tf_publisher, chained. */
typedef struct tf_names {
    tf_map by_name;
    tf_map publishers;
    size_t count;
} tf_names;

/* An object of the application. */
typedef struct tf_app_object {
    tf_object object;
    void *user;
    tf_list_node in_gone;
} tf_app_object;

/* An object or promise that the application holds, or that an event which waits names. */
typedef struct tf_app_held {
    tf_local local;
    void *user;
    size_t holds;   /* of the application */
    size_t events;  /* that name it */
    size_t revoked; /* REVOKED events of it that wait */
    bool decided;   /* a promise of the application's own */
    bool settled;   /* a promise: the router holds it no more, SETTLED waits, */
    bool told;      /* or was pulled */
    tf_local object; /* that it was resolved to; TF_LOCAL_NONE: to none */
    bool lost;       /* what happened is told without what it mentions (in app->lost) */
    tf_list_node in_lost;
} tf_app_held;

/* What waits to be pulled; everything in it points into the block. */
typedef struct tf_app_note {
    tf_list_node in_queue;
    tf_list_node in_conn; /* CALL: conn->calls; none: from no connection */
    tf_conn *conn;
    tf_app_event event;
    size_t size; /* of the block */
    size_t ref_count; /* with the object that a promise was resolved to */
    tf_mention refs[];
} tf_app_note;

/* The program that embeds the node (hub_objects.c). */
typedef struct tf_hub_app {
    tf_map held; /* local -> tf_app_held */
    size_t object_count;
    tf_list queue; /* tf_app_note */
    tf_list lost;  /* tf_app_held */
    tf_list gone;  /* tf_app_object */
    tf_app_note *current; /* given out last */
    size_t call_count;
    size_t call_bytes;
    size_t other_bytes; /* of what are no calls */
} tf_hub_app;

struct tf_client;
struct tf_request;

struct tf_conn {
    tf_conn_config config;
    tf_link *link;
    tf_session *session;
    tf_err error; /* of a tick */
    tf_time trim_at;  /* TF_NEVER: nothing went or came since it was trimmed */
    uint64_t traffic; /* messages, when that was set */
    /* The hub's */
    tf_hub *hub; /* NULL: not attached */
    bool failed;
    struct tf_client *client; /* who uses the peer here, or NULL */
    tf_route via;             /* of the message in work */
    tf_list_node in_conns;
    tf_list_node in_ready;
    tf_list_node in_dirty;
    tf_list_node in_failed;
    tf_list_node in_later; /* waits for TF_STORE_READ_READY */
    tf_err failure;
    char failure_text[TF_CLOSE_REASON_MAX + 1];
    tf_list waiting;       /* tf_waiter */
    size_t waiting_opens;
    tf_list subscriptions; /* tf_subscription, all */
    tf_list lagging;       /* tf_subscription that are fed from the store */
    size_t subscription_count;
    tf_list reads;
    size_t read_count;
    tf_map ports;   /* local -> channel: the channels that the peer holds */
    tf_map rights; /* local -> TF_RIGHT_ bits: of channels, as far as they were asked for */
    tf_map origins; /* hash -> tf_origin; only of a relay */
    tf_map guards;  /* hash -> tf_origin_guard */
    size_t guard_count;
    size_t guard_room;
    uint64_t origin_serial;
    tf_list idle_origins; /* the one that is idle for longest first */
    size_t idle_count;
    tf_rate rates[TF_RATES]; /* of all origins */
    tf_origin self;
    uint32_t in_flight; /* of all origins */
    uint64_t committing_bytes;
    tf_list calls; /* tf_app_note: that wait for the application */
    size_t call_count;
    size_t call_bytes;
    uint64_t calls_guarded; /* until its peer has processed so many messages of ours, calls are refused */
};

typedef struct tf_policy {
    tf_retention keeps;
    uint8_t pattern[TF_CHANNEL_NAME_MAX];
} tf_policy;

/* When and where the next walk over the channels is (S12). */
typedef struct tf_hub_retention {
    tf_policy *policies;
    size_t count;
    tf_time next; /* TF_NEVER: nothing falls due */
    bool walking;
    uint64_t position; /* of the walk */
    tf_time soonest;   /* found by it: when the one after it is due */
} tf_hub_retention;

struct tf_hub {
    tf_hub_config config;
    tf_store store;
    bool has_store;
    bool draining;
    uint32_t max_body;
    uint64_t hash_key;
    tf_time now;
    int64_t wall_ms;
    tf_hub_rights *rights; /* NULL: everybody may do everything */
    tf_router *router;
    tf_object root;
    tf_map objects;  /* local -> tf_object */
    tf_map requests; /* promise -> tf_request, of all clients */
    tf_map watches;  /* local -> tf_watch, chained */
    tf_names names;
    tf_hub_app app;
    tf_channels channels;
    tf_hub_retention retention;
    tf_rate_limit rates[TF_RATES]; /* of an origin */
    tf_rate_limit relay_rates[TF_RATES]; /* of all origins of a relay together */
    tf_map pending; /* hash -> tf_pending, chained */
    tf_list gathered;
    tf_store_group group;
    tf_pending **group_pending; /* [i] made group.ops[i] */
    bool group_open;            /* the store has it */
    uint64_t committing_bytes;
    size_t committing;
    tf_list conns;
    tf_list ready;
    tf_list dirty;
    tf_list failed;
    tf_list later;
    tf_list clients;
    uint8_t *scratch; /* one encoded message */
    size_t scratch_size;
    size_t conn_count;
    size_t subscription_count;
    size_t live_count; /* of them */
    size_t fan_out_left; /* live deliveries of this run */
    tf_hub_stats stats;
};

/* One inbound deliver. */
typedef struct tf_call {
    tf_hub *hub;
    tf_conn *conn;
    tf_channel *channel; /* the target, for channel methods */
    const tf_router_event *event;
} tf_call;

/* The host says what time it is. */
static inline void tf_hub_clock(tf_hub *hub, tf_time now)
{
    TF_ASSERT(now >= hub->now);
    hub->now = now;
}

/* -- conn.c -- */
void tf_conn_init_hub(tf_conn *conn, tf_hub *hub);
/* A message went or came. */
void tf_conn_used(tf_conn *conn, tf_time now);

/* -- hub.c -- */
/* Puts the conn on the list of those that tf_hub_run looks at. No-op for one that is not attached or failed. */
void tf_hub_wake(tf_conn *conn);
/* Ends the conn: its link is closed, what it had here is undone, TF_HUB_CONN_FAILED comes. */
void tf_hub_fail(tf_conn *conn, tf_err err);

/* -- hub_turn.c -- */
/* One message, and all that follows from it. Not TF_OK: the conn must fail. */
TF_MUST_CHECK tf_err tf_hub_turn(tf_hub *hub, tf_conn *conn, tf_slice message);
/* Deals with all that the router has to tell. */
void tf_hub_settle(tf_hub *hub);
/* The local is held, and *watch hears of its revocation, until unwatch. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_hub_watch(tf_hub *hub, tf_watch *watch, tf_watch_kind kind, tf_local local);
void tf_hub_unwatch(tf_hub *hub, tf_watch *watch);
/* The object of that local id; NULL when there is none. */
tf_object *tf_hub_object(const tf_hub *hub, tf_local local);
/* Answers. promise TF_LOCAL_NONE: nothing is said. LIMIT_*: nothing was said, say something else. */
TF_MUST_CHECK tf_err tf_hub_answer(tf_conn *conn, tf_local promise, tf_slice data, const tf_mention *refs, size_t count);
TF_MUST_CHECK tf_err tf_hub_refuse(tf_conn *conn, tf_local promise, tf_slice client_id, tf_refusal refusal);
/* The same, with another time to wait than the one of that refusal; 0: with that. */
TF_MUST_CHECK tf_err tf_hub_refuse_after(tf_conn *conn, tf_local promise, tf_slice client_id, tf_refusal refusal,
                                         uint64_t retry_after_ms);
/* Nobody is left who would answer: rejected with that. TF_LOCAL_NONE, and what nobody waits for: no-op. */
void tf_hub_abandon(tf_hub *hub, tf_local promise, tf_code code);
/* An empty map: it is done. */
TF_MUST_CHECK tf_err tf_hub_answer_done(tf_conn *conn, tf_local promise);
/* Refuses a call that is no send. */
TF_MUST_CHECK tf_err tf_hub_refuse_call(const tf_call *call, tf_refusal refusal);

/* -- hub_serve.c -- */
TF_MUST_CHECK tf_err tf_hub_serve_root(const tf_call *call);
TF_MUST_CHECK tf_err tf_hub_serve_channel(const tf_call *call);
/* The answer of `open`, now or after the channel was made. */
TF_MUST_CHECK tf_err tf_hub_answer_open(tf_conn *conn, tf_local promise, tf_channel *channel);
/* The peer dropped a channel. */
void tf_hub_port_dropped(tf_conn *conn, tf_local local);
/* Nobody refers to it any more. */
void tf_hub_channel_gone(tf_hub *hub, tf_channel *channel);
/* What the conn had open is given back. */
void tf_hub_ports_clear(tf_conn *conn);
/* Waits with others for a change that is on its way. */
TF_MUST_CHECK tf_err tf_hub_wait_call(const tf_call *call, tf_pending *pending);
/* Brings one into memory that is not there, stored or new; nobody uses it yet. */
TF_MUST_CHECK tf_err tf_hub_channel_bring(tf_hub *hub, tf_slice name, tf_channel **out);
/* Looks again at what the store keeps of it. */
void tf_hub_channel_look(tf_hub *hub, tf_channel *channel);
/* Nothing uses it here any more? Then it leaves the memory. */
void tf_hub_channel_release(tf_hub *hub, tf_channel *channel);

/* -- hub_admin.c -- */
/* An answer with a list in the making, in the hub's scratch. */
typedef struct tf_hub_list {
    tf_writer w;
    size_t count;
    size_t bytes_max;
} tf_hub_list;

tf_hub_list tf_hub_list_begin(const tf_call *call);
bool tf_hub_list_has_room(const tf_hub_list *items);
/* Sends the head that was written (at most TF_HUB_LIST_HEAD bytes), and the items. */
TF_MUST_CHECK tf_err tf_hub_list_finish(const tf_call *call, const tf_writer *head, const tf_hub_list *items);
TF_MUST_CHECK tf_err tf_hub_serve_channels(const tf_call *call);
TF_MUST_CHECK tf_err tf_hub_serve_info(const tf_call *call);
TF_MUST_CHECK tf_err tf_hub_serve_gaps(const tf_call *call);
TF_MUST_CHECK tf_err tf_hub_serve_trim(const tf_call *call);
/* What is below `before` is to go; joins a trim that has gathered. False: no memory. */
bool tf_hub_trim(tf_hub *hub, tf_channel *channel, uint64_t before);
TF_MUST_CHECK tf_err tf_hub_answer_trim(tf_conn *conn, tf_local promise, const tf_channel *channel);

/* -- hub_names.c -- */
void tf_hub_names_init(tf_hub *hub);
void tf_hub_names_clear(tf_hub *hub);
TF_MUST_CHECK tf_err tf_hub_serve_publish(const tf_call *call);
TF_MUST_CHECK tf_err tf_hub_serve_lookup(const tf_call *call);
TF_MUST_CHECK tf_err tf_hub_serve_refs(const tf_call *call);
/* Its object was revoked: it stands for nothing. */
void tf_hub_name_lost(tf_hub *hub, tf_watch *object);

/* -- hub_objects.c, hub_objects_queue.c -- */
void tf_hub_app_init(tf_hub *hub);
/* Everything is forgotten. */
void tf_hub_app_clear(tf_hub *hub);
void tf_hub_app_objects_free(tf_hub *hub); /* hub->objects is cleared right after it */
/* A call of an object of the application; conn NULL: from nobody, or from this node. */
TF_MUST_CHECK tf_err tf_hub_app_call(tf_hub *hub, tf_conn *conn, tf_app_object *object, const tf_router_event *event);
/* A promise was resolved, an object revoked: no-ops for what the application does not hold. */
void tf_hub_app_settled(tf_hub *hub, const tf_router_event *event);
void tf_hub_app_revoked(tf_hub *hub, const tf_router_event *event);
void tf_hub_app_gone(tf_hub *hub, tf_app_object *object);
/* Its calls that wait are from nobody from now on. */
void tf_hub_app_disowned(tf_conn *conn);
/* NULL: neither held, nor named by an event that waits. */
tf_app_held *tf_hub_app_find(const tf_hub *hub, tf_local local);
/* Made if there is none; the router holds it so long. NULL: no memory, or too many. */
tf_app_held *tf_hub_app_get(tf_hub *hub, tf_local local);
/* Freed, if nothing needs it. */
void tf_hub_app_put(tf_hub *hub, tf_app_held *held);
void tf_hub_app_queue_clear(tf_hub *hub);

/* -- hub_cursor.c -- */
/* The durable of that subscriber and name, made if there is none, to be released. NULL: the refusal says why. *renumbered:
 * there is a cursor, of another numbering. */
tf_durable *tf_hub_durable_get(const tf_call *call, tf_slice name, bool *renumbered, tf_refusal *refusal);
/* Frees it if nothing needs it. */
void tf_hub_durable_release(tf_hub *hub, tf_durable *durable);
/* Where it begins is its position, if it has none yet. NULL: no memory. Else the op with which that becomes durable. */
tf_pending *tf_hub_durable_begin(tf_hub *hub, tf_durable *durable, uint64_t next);
TF_MUST_CHECK tf_err tf_hub_serve_confirm(const tf_call *call, tf_subscription *subscription);
TF_MUST_CHECK tf_err tf_hub_serve_forget_cursor(const tf_call *call);
/* A pending op of it goes to the store; leaves for good (committed if it is done). No-ops for others. */
void tf_hub_cursor_goes(tf_pending *pending);
void tf_hub_cursor_left(tf_hub *hub, tf_pending *pending);

/* -- hub_access.c -- */
/* Has the conn's peer any of these rights? Remembered, but not by name. */
bool tf_hub_may(tf_conn *conn, const tf_channel *channel, unsigned right);
bool tf_hub_may_by_name(const tf_conn *conn, tf_slice channel, unsigned right);

/* -- hub_send.c -- */
TF_MUST_CHECK tf_err tf_hub_serve_send(const tf_call *call);

/* -- hub_origin.c -- */
typedef struct tf_who {
    tf_node_id node;
    uint64_t instance;
} tf_who;

/* NULL: no memory. To be released; so long it stays where it is. */
tf_origin *tf_hub_origin_get(tf_conn *conn, const tf_who *who);
void tf_hub_origin_release(tf_conn *conn, tf_origin *origin);
/* NULL: it is down. */
tf_guard *tf_hub_guard_find(const tf_conn *conn, const tf_origin *origin, uint64_t channel);
/* Makes one if there is none. NULL: no memory, or too many. */
tf_guard *tf_hub_guard_get(tf_conn *conn, tf_origin *origin, uint64_t channel);
/* Frees it if it is down. */
void tf_hub_guard_release(tf_conn *conn, const tf_origin *origin, uint64_t channel);
void tf_hub_origins_clear(tf_conn *conn);
/* How long until that send fits the rates; 0: it does now. */
tf_time tf_hub_rate_wait(const tf_conn *conn, const tf_origin *origin, uint64_t bytes);
void tf_hub_rate_take(tf_conn *conn, tf_origin *origin, uint64_t bytes);
/* All buckets are full. */
void tf_hub_rates_init(tf_conn *conn);
/* Buckets are full under the new limits. */
void tf_hub_rates_changed(tf_conn *conn);

/* -- hub_pending.c -- */
/* Takes a new op with room for `bytes` of text; first is filled for the conn (NULL: nobody asked). NULL: no memory. */
tf_pending *tf_hub_pending_new(tf_hub *hub, tf_conn *conn, tf_store_op_kind kind, tf_channel *channel, size_t bytes);
/* Frees it and gives back what it took. */
void tf_hub_pending_free(tf_hub *hub, tf_pending *pending);
/* Queues it for the next group. */
void tf_hub_gather(tf_hub *hub, tf_pending *pending);
/* The key of a send (S2). */
typedef struct tf_send_key {
    const tf_channel *channel;
    const tf_node_id *origin;
    tf_slice client_id;
    tf_guard_key hash; /* of the client id */
} tf_send_key;

tf_pending *tf_hub_pending_find(const tf_hub *hub, const tf_send_key *key);
TF_MUST_CHECK tf_err tf_hub_pending_index(tf_hub *hub, tf_pending *pending);
tf_slice tf_hub_pending_client_id(const tf_pending *pending);
tf_slice tf_hub_pending_body(const tf_pending *pending);
tf_slice tf_hub_pending_meta(const tf_pending *pending);
/* One more who waits for it. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_hub_wait(tf_conn *conn, tf_pending *pending, tf_local promise, tf_origin *origin);
/* The conn waits for nothing any more. */
void tf_hub_waiters_clear(tf_conn *conn);
void tf_hub_pending_clear(tf_hub *hub);

/* -- hub_commit.c -- */
/* Hands the next group to the store if it has none. True: it did. */
bool tf_hub_hand_over(tf_hub *hub);
/* Takes what the store has to tell. True: there was something. */
bool tf_hub_poll_store(tf_hub *hub);

/* -- hub_refused.c -- */
/* Refuses what the store refused of the group, and what of the same origins and channels has gathered behind it. */
void tf_hub_refuse_group(tf_hub *hub);
/* Refuses one to all who wait for it, and frees it. A retryable refusal: the guards were raised before. */
void tf_hub_refuse_pending(tf_hub *hub, tf_pending *pending, tf_refusal refusal);

/* -- hub_subscribe.c -- */
TF_MUST_CHECK tf_err tf_hub_subscribe(const tf_call *call, const tf_args_subscribe *args);
/* The subscriber takes more, or confirms. */
TF_MUST_CHECK tf_err tf_hub_subscription_call(const tf_call *call, tf_subscription *subscription);
void tf_hub_subscription_end(tf_hub *hub, tf_subscription *subscription);
/* Its sink was revoked: nobody is left to be told. */
void tf_hub_subscription_lost(tf_hub *hub, tf_watch *sink);
/* It ends for that reason (static) once its subscriber was told. */
void tf_hub_subscription_over(tf_hub *hub, tf_subscription *subscription, tf_slice reason);
void tf_hub_subscriptions_clear(tf_conn *conn);
/* Its cursor is durable: it is answered, and begins. Errors are of its connection. */
TF_MUST_CHECK tf_err tf_hub_subscription_begin(const tf_waiter *waiter);

/* -- hub_feed.c -- */
/* It gets what is committed at once; it lags, or waits until the subscriber takes more; neither. */
void tf_hub_set_live(tf_subscription *subscription);
void tf_hub_set_lagging(tf_subscription *subscription);
void tf_hub_set_off(tf_subscription *subscription);
/* A committed message: to its live subscribers. */
void tf_hub_fan_out(tf_hub *hub, const tf_pending *pending);
/* Feeds the lagging subscriptions of the conn while its queue has room; about `budget` messages. False: the budget ended
 * it. */
bool tf_hub_feed(tf_hub *hub, tf_conn *conn, size_t budget);
/* May optional messages be queued for it? */
bool tf_hub_has_room(const tf_conn *conn);
/* id: where its id is put; *out points there. */
void tf_hub_activity(const tf_channel *channel, const tf_stored *stored, uint8_t id[TF_ACTIVITY_ID_MAX], tf_activity *out);

/* -- hub_retention.c -- */
/* Copies the policies, which are in place of what there was. TF_ERR_NOMEM, TF_ERR_USAGE: nothing changed. */
TF_MUST_CHECK tf_err tf_hub_retention_set(tf_hub *hub, const tf_retention *list, size_t count);
void tf_hub_retention_clear(tf_hub *hub);
/* What applies to a channel of that name; NULL: nothing. */
const tf_retention *tf_hub_retention_of(const tf_hub *hub, tf_slice name);
/* A bounded part of the walk, if it is due. */
void tf_hub_retention_tick(tf_hub *hub);
tf_time tf_hub_retention_deadline(const tf_hub *hub);
/* So many bytes were appended. */
void tf_hub_retention_appended(tf_hub *hub, tf_channel *channel, uint64_t bytes);

/* -- hub_read.c -- */
TF_MUST_CHECK tf_err tf_hub_read(const tf_call *call, const tf_args_read *range);
/* Answers reads that wait, while there is room. */
TF_MUST_CHECK tf_err tf_hub_serve_reads(tf_hub *hub, tf_conn *conn);
void tf_hub_reads_clear(tf_conn *conn);
/* Refuses those that wait and may no longer be answered. */
TF_MUST_CHECK tf_err tf_hub_reads_forbid(tf_conn *conn);

#endif
