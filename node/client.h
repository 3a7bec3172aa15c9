/* Our use of one remote node, across sessions: channels opened by name, sends with their acks, subscriptions that go on
 * where they were (S1 to S10, seen from the client). Pure.
 *
 * Bound to a conn it works on that session; when the session is lost it is unbound (tf_hub_detach does it) and bound to
 * the next one: channels are opened again by name, unacked sends go first in their old order under their client ids,
 * subscriptions resume at their position. Nothing is dropped, repeated or reordered; a retryable refusal is retried here
 * (S7), so that only final ones come out.
 * After any call run the hub (tf_hub_run). Events must be pulled: while TF_CLIENT_EVENT_BYTES of a channel's activities
 * wait, the peer sends no more of them. Not thread-safe. */
#ifndef TF_NODE_CLIENT_H
#define TF_NODE_CLIENT_H

#include "node/calls.h"
#include "node/hub.h"

typedef struct tf_client tf_client;

#define TF_CLIENT_EVENT_BYTES ((uint64_t)4 * 1024 * 1024) /* and one activity */
#define TF_CLIENT_CHANNELS_MAX 1024u

/* A limit of 0 means its default. */
typedef struct tf_client_config {
    uint64_t instance;      /* begins the client ids that are made here */
    uint32_t max_in_flight; /* wanted; at most what the peer announced is used. 0: that */
    uint32_t queue_items;   /* sends accepted here and not yet answered: 4096 */
    uint64_t queue_bytes;   /* 16 MiB; one send is always taken */
    tf_time retry_limit;    /* from a send's first refusal; then it is reported. 0: none */
    tf_time session_timeout; /* a send may arrive so long after it was sent; 0: TF_SESSION_TIMEOUT */
} tf_client_config;

/* The hub must outlive it. TF_ERR_NOMEM. */
TF_MUST_CHECK tf_err tf_client_new(tf_client **out, tf_hub *hub, const tf_client_config *config);
void tf_client_free(tf_client *client); /* unbinds; NULL is fine */

/* The conn must be attached to the hub and without a client; the client must not be bound. */
void tf_client_bind(tf_client *client, tf_time now, tf_conn *conn);
void tf_client_unbind(tf_client *client, tf_time now); /* no-op when not bound */
bool tf_client_is_bound(const tf_client *client);

/* A handle for a channel, valid as long as the client; the same name gives the same handle. It is opened when there is a
 * session, again in each. TF_ERR_USAGE: not a channel name; LIMIT_ITEMS; NOMEM. */
TF_MUST_CHECK tf_err tf_client_open(tf_client *client, tf_time now, tf_slice name, size_t *channel);
/* The same, but if no handle was opened with tf_client_open a channel that is missing is not made: it is refused. */
TF_MUST_CHECK tf_err tf_client_find(tf_client *client, tf_time now, tf_slice name, size_t *channel);
tf_slice tf_client_channel_name(const tf_client *client, size_t channel);

/* Slices are copied. */
typedef struct tf_send {
    tf_slice client_id; /* empty: one is made */
    tf_slice body;
    tf_slice meta;      /* at most TF_META_MAX; empty: none */
    int64_t expires_ms; /* it need not be delivered from then on, which the peer judges; 0: never */
    bool was_sent;      /* by an earlier process: this is a resend, */
    tf_time sent_ago;   /* and the first one was not longer ago */
    uint64_t cookie;    /* comes back with the answer */
} tf_send;

/* Takes a send; the answer comes as TF_CLIENT_ACK or TF_CLIENT_REFUSED. TF_ERR_AGAIN: the queue is full, wait for
 * TF_CLIENT_ROOM; USAGE: bad client id; LIMIT_BYTES: larger than TF_BODY_MAX or TF_META_MAX; CLOSED: the channel was
 * refused; NOMEM. */
TF_MUST_CHECK tf_err tf_client_send(tf_client *client, tf_time now, size_t channel, const tf_send *send);

typedef struct tf_subscribe {
    tf_from from;
    bool echo;        /* our own sends come back, too (S8) */
    tf_slice durable; /* the name of a cursor with which the peer keeps our position: `from` counts only when it is new */
} tf_subscribe;

/* One subscription per channel handle. TF_ERR_USAGE: there is one already, or not a cursor's name. */
TF_MUST_CHECK tf_err tf_client_subscribe(tf_client *client, tf_time now, size_t channel, const tf_subscribe *subscribe);
/* Of a durable subscription: all up to this activity, which was handed out, is dealt with and need not come again. The
 * peer is told in this session or the next; TF_CLIENT_CONFIRMED tells how far its cursor is. What was handed out under an
 * earlier channel epoch is not confirmed any more: no-op. TF_ERR_USAGE: not durable, or not handed out. */
TF_MUST_CHECK tf_err tf_client_confirm(tf_client *client, tf_time now, size_t channel, uint64_t seq);
/* A confirmed position is not known to be durable yet. */
bool tf_client_is_confirming(const tf_client *client, size_t channel);
/* No further activity of that channel is taken; those that wait as events still come out. No-op without a subscription. */
void tf_client_unsubscribe(tf_client *client, tf_time now, size_t channel);
/* Asks that the channel takes no more sends, of anyone; TF_CLIENT_CLOSED tells when it is so. */
TF_MUST_CHECK tf_err tf_client_close_channel(tf_client *client, tf_time now, size_t channel);

/* What can be asked of a channel, or of the peer (CHANNELS, LOOKUP, REFS). Each may be repeated, and is, over
 * sessions. */
typedef enum tf_ask_kind {
    TF_ASK_CHANNELS, /* a page of what it stores: after `from` (0: the first), at most `to` (0: what fits) */
    TF_ASK_INFO,
    TF_ASK_TRIM,  /* what is below `from` is no longer kept */
    TF_ASK_GAPS,  /* what cannot be had, at or above `from` */
    TF_ASK_READ,  /* from `from` to `to` */
    TF_ASK_FORGET, /* our cursor `name` */
    TF_ASK_LOOKUP, /* what `name` stands for at the peer: `object` of the answer */
    TF_ASK_REFS    /* a page of its c-list of this connection: after `from`, at most `to` (as CHANNELS) */
} tf_ask_kind;

typedef struct tf_ask {
    tf_ask_kind kind;
    uint64_t from;
    uint64_t to;
    tf_slice name;
    uint64_t cookie;
} tf_ask;

#define TF_CLIENT_ASKS_MAX 64u

/* Asks, once the channel is open (of what is asked of the peer `channel` is not looked at); one TF_CLIENT_ANSWER comes,
 * unless the channel is refused. TF_ERR_AGAIN: TF_CLIENT_ASKS_MAX are waiting; USAGE: values that cannot be; CLOSED;
 * NOMEM. */
TF_MUST_CHECK tf_err tf_client_ask(tf_client *client, tf_time now, size_t channel, const tf_ask *ask);

#define TF_CLIENT_NAMES_MAX 1024u

/* The name stands for the object at the peer: published in each session until it is withdrawn, refused, or published
 * again for another object. What this node knows is held so long. Told by PUBLISHED (in each session) or
 * PUBLISH_REFUSED (for good). TF_ERR_USAGE: not a channel name; LIMIT_ITEMS; NOMEM. */
TF_MUST_CHECK tf_err tf_client_publish(tf_client *client, tf_time now, tf_slice name, tf_local object);
/* No more; WITHDRAWN tells when the peer knows. No-op for what was not published here. */
void tf_client_withdraw(tf_client *client, tf_time now, tf_slice name);

/* A client id as a send without one gets it: the instance and a counter. Returns its length. */
size_t tf_client_make_id(tf_client *client, uint8_t out[TF_CLIENT_ID_MAX]);

typedef enum tf_client_event_type {
    TF_CLIENT_OPENED,          /* in each session */
    TF_CLIENT_CHANNEL_REFUSED, /* open, subscribe or close: for good. The handle stays refused for open */
    TF_CLIENT_CLOSED,          /* answer to tf_client_close_channel */
    TF_CLIENT_ACK,             /* the send is durable */
    /* For good, or (retryable) the retry limit has passed: not accepted, for the last cause. With the code "unknown" it is
     * older than the peer remembers sends (S2) and its outcome cannot be learned: sent again it could be stored twice. */
    TF_CLIENT_REFUSED,
    TF_CLIENT_SUBSCRIBED,      /* in each session; the first one tells the start */
    TF_CLIENT_ACTIVITY,        /* in order, without gap or repeat, from `next` */
    TF_CLIENT_GAP,             /* before the activity that follows it: `expected` is not `got`, or another epoch */
    TF_CLIENT_ENDED,           /* the peer ended the subscription for good, for `code` */
    TF_CLIENT_CONFIRMED,       /* all up to `seq` is confirmed, durably */
    TF_CLIENT_ANSWER,          /* to tf_client_ask: `data`, or a refusal (code is not empty) */
    TF_CLIENT_PUBLISHED,       /* `name`: in each session */
    TF_CLIENT_PUBLISH_REFUSED, /* `name`, for good: it is not published any more */
    TF_CLIENT_WITHDRAWN,       /* `name` */
    TF_CLIENT_ROOM             /* tf_client_send takes sends again */
} tf_client_event_type;

typedef struct tf_client_event {
    tf_client_event_type type;
    size_t channel;
    /* ACK, REFUSED, ANSWER */
    uint64_t cookie;
    tf_slice client_id; /* ACTIVITY, too */
    /* ACK */
    bool duplicate;
    tf_route via; /* the route by which the first copy of the answer came */
    /* ACK, ACTIVITY */
    uint64_t seq;
    tf_slice id;
    int64_t timestamp_ms;
    /* REFUSED, CHANNEL_REFUSED, PUBLISH_REFUSED, ANSWER; ENDED, GAP: the reason (PROTOCOL.md C8, C12) */
    tf_slice code;
    tf_slice message;
    bool retryable;
    uint64_t retry_after_ms;
    /* SUBSCRIBED, GAP, ACTIVITY */
    uint64_t epoch;
    uint64_t head;  /* SUBSCRIBED */
    uint64_t first; /* SUBSCRIBED */
    uint64_t next;  /* SUBSCRIBED: seq of the next activity */
    uint64_t expected;  /* GAP */
    uint64_t got;       /* GAP: the next seq that there is */
    bool epoch_changed; /* GAP: the numbers begin anew, `expected` belongs to the old ones */
    bool resumed;       /* SUBSCRIBED: `next` is where the cursor was */
    /* ACTIVITY */
    tf_node_id sender;
    tf_slice body;
    tf_slice meta;
    int64_t expires_ms; /* 0: never */
    /* ANSWER */
    tf_ask_kind asked;
    tf_slice data; /* the result, valid as its kind (node/calls.h) */
    tf_local object; /* LOOKUP: held once for the caller, as if by tf_hub_hold without a user */
    /* PUBLISHED, PUBLISH_REFUSED, WITHDRAWN */
    tf_slice name;
} tf_client_event;

/* Slices are valid until the next call of this function or tf_client_free. */
bool tf_client_next_event(tf_client *client, tf_client_event *out);

bool tf_client_has_room(const tf_client *client); /* tf_client_send would take a send of no great size */
bool tf_client_has_unacked(const tf_client *client); /* sends without an answer, or with one that was not pulled yet */
uint32_t tf_client_window(const tf_client *client); /* sends that may be in flight; 0 while not bound */
size_t tf_client_in_flight(const tf_client *client);

typedef struct tf_client_stats {
    uint64_t sent; /* resends included */
    uint64_t resent;
    uint64_t acked;
    uint64_t duplicates;
    uint64_t refusals; /* retried ones included */
    uint64_t activities;
    uint64_t repeats;  /* activities filtered by their seq */
    uint64_t gaps;
    uint64_t sessions;
    size_t queued_items;
    uint64_t queued_bytes;
} tf_client_stats;

void tf_client_get_stats(const tf_client *client, tf_client_stats *out);

#endif
