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
tf_slice tf_client_channel_name(const tf_client *client, size_t channel);

typedef struct tf_send {
    tf_slice client_id; /* empty: one is made */
    tf_slice body;      /* copied */
    uint64_t cookie;    /* comes back with the answer */
} tf_send;

/* Takes a send; the answer comes as TF_CLIENT_ACK or TF_CLIENT_REFUSED. TF_ERR_AGAIN: the queue is full, wait for
 * TF_CLIENT_ROOM; USAGE: bad client id; LIMIT_BYTES: larger than TF_BODY_MAX; CLOSED: the channel was refused; NOMEM. */
TF_MUST_CHECK tf_err tf_client_send(tf_client *client, tf_time now, size_t channel, const tf_send *send);

/* One subscription per channel handle. echo: our own sends come back, too (S8). TF_ERR_USAGE: there is one already. */
TF_MUST_CHECK tf_err tf_client_subscribe(tf_client *client, tf_time now, size_t channel, tf_from from, bool echo);
/* No further activity of that channel is taken; those that wait as events still come out. No-op without a subscription. */
void tf_client_unsubscribe(tf_client *client, tf_time now, size_t channel);
/* Asks that the channel takes no more sends, of anyone; TF_CLIENT_CLOSED tells when it is so. */
TF_MUST_CHECK tf_err tf_client_close_channel(tf_client *client, tf_time now, size_t channel);

typedef enum tf_client_event_type {
    TF_CLIENT_OPENED,          /* in each session */
    TF_CLIENT_CHANNEL_REFUSED, /* open, subscribe or close: for good. The handle stays refused for open */
    TF_CLIENT_CLOSED,          /* answer to tf_client_close_channel */
    TF_CLIENT_ACK,             /* the send is durable */
    TF_CLIENT_REFUSED,         /* for good, or (retryable) the retry limit has passed: not accepted, for the last cause */
    TF_CLIENT_SUBSCRIBED,      /* in each session; the first one tells the start */
    TF_CLIENT_ACTIVITY,        /* in order, without gap or repeat, from `next` */
    TF_CLIENT_GAP,             /* before the activity that follows it: `expected` is not `got`, or another epoch */
    TF_CLIENT_ROOM             /* tf_client_send takes sends again */
} tf_client_event_type;

typedef struct tf_client_event {
    tf_client_event_type type;
    size_t channel;
    /* ACK, REFUSED */
    uint64_t cookie;
    tf_slice client_id; /* ACTIVITY, too */
    /* ACK */
    bool duplicate;
    tf_route via; /* the route by which the first copy of the answer came */
    /* ACK, ACTIVITY */
    uint64_t seq;
    tf_slice id;
    int64_t timestamp_ms;
    /* REFUSED, CHANNEL_REFUSED */
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
    /* ACTIVITY */
    tf_node_id sender;
    tf_slice body;
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
