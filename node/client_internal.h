/* What the files of the client share, and what the hub calls. Not for others.
 *
 * client.c        life, channels, binding, events
 * client_send.c   the queue of sends, their window, retries (S7)
 * client_sub.c    subscriptions: position, activities, gaps (P2)
 * client_cursor.c what is confirmed of a durable one (S10)
 * client_ask.c    questions with one answer each
 * client_names.c  what is published at the peer
 * client_turn.c   what comes from the peer, what is due to go out */
#ifndef TF_NODE_CLIENT_INTERNAL_H
#define TF_NODE_CLIENT_INTERNAL_H

#include "node/client.h"
#include "node/hub_internal.h"

struct tf_client_channel;

/* An event with what its slices point to. A send carries its own, so that an ack needs no memory. */
typedef struct tf_note {
    tf_list_node in_events;
    tf_client_event event;
    size_t size;   /* of the block that it begins */
    bool holds;    /* ANSWER: event.object, for the application */
    size_t weight; /* ACK, REFUSED: what the send counts for in the queue; ACTIVITY, GAP: bytes that came */
} tf_note;

typedef enum tf_request_kind {
    TF_REQUEST_OPEN,
    TF_REQUEST_SUBSCRIBE,
    TF_REQUEST_CLOSE,
    TF_REQUEST_CONFIRM,
    TF_REQUEST_ASK,
    TF_REQUEST_PUBLISH,
    TF_REQUEST_SEND
} tf_request_kind;

/* Something that the peer owes an answer to; hub->requests: promise -> request. */
typedef struct tf_request {
    tf_request_kind kind;
    struct tf_client_channel *channel; /* NULL: of none */
    /* While it is asked: */
    struct tf_client *client;
    tf_local promise;
    tf_list_node in_requests; /* client->requests */
} tf_request;

typedef struct tf_item {
    tf_note note; /* first: freed as a note */
    tf_request request;
    tf_list_node in_channel; /* channel->sends, in order, until it has its answer */
    bool in_flight;
    bool was_sent;
    tf_time sent_since; /* when it was sent first by us, or taken when another process did that; once was_sent */
    tf_time sent_before; /* so long before that another process had sent it */
    tf_time refused_since; /* TF_NEVER: never refused */
    tf_refusal refused_for; /* the last time */
    uint64_t cookie;
    uint8_t id[TF_ACTIVITY_ID_MAX]; /* of the ack */
    int64_t expires_ms;
    size_t client_id_len;
    size_t meta_len;
    size_t body_len;
    uint8_t bytes[]; /* client id, meta, body */
} tf_item;

typedef enum tf_open_state { TF_OPEN_NONE, TF_OPEN_REQUESTED, TF_OPEN_DONE, TF_OPEN_REFUSED } tf_open_state;

typedef enum tf_sub_state {
    TF_SUB_NONE,
    TF_SUB_WANTED,    /* to be asked for */
    TF_SUB_REQUESTED, /* asked for in this session */
    TF_SUB_LIVE,
    TF_SUB_ENDING /* asked for, and no longer wanted */
} tf_sub_state;

typedef struct tf_client_channel {
    tf_object sink; /* first */
    struct tf_client *client;
    size_t index;
    tf_list_node in_active;
    tf_open_state open;
    tf_local remote; /* while open is DONE */
    tf_time retry_at; /* TF_NEVER: nothing waits for a time */
    tf_request open_request;
    tf_request subscribe_request;
    tf_request close_request;
    tf_request confirm_request;
    bool waiting; /* for retry_at */
    bool creates; /* `open` makes the channel if it is missing */
    bool close_wanted;
    bool close_requested;
    /* Sends */
    tf_list sends;
    /* For hashes of client ids, far from the seeds of other channels: XXH3 mixes a seed into a short input by xor, so that
     * under seeds that lie next to each other two ids that differ as their channels do would have the same hash. */
    uint64_t id_seed;
    size_t in_flight;
    uint32_t window;  /* grows back after a refusal; UINT32_MAX: no bound of its own */
    bool recovering;  /* a retryable refusal came: when nothing is in flight, the oldest goes alone */
    tf_time resend_at;
    tf_time resend_limit; /* a send is not sent again so long after its first time (S2); TF_NEVER: it always may */
    tf_list_node *cursor; /* the first that is not in flight; all before it are */
    /* Subscription */
    tf_sub_state sub;
    tf_from from;
    bool echo;
    bool epoch_told; /* a GAP says already that the numbering is another one */
    tf_local subscription; /* while LIVE */
    uint64_t epoch;        /* of next */
    uint64_t next;         /* 0: not known yet */
    uint64_t received;     /* bytes of activities, of this subscription */
    uint64_t limit;        /* of them, that we told the peer */
    uint64_t backlog;      /* bytes of activities that wait as events */
    /* What the application has of it, and what it confirmed; seqs below: */
    uint64_t handed_epoch;
    uint64_t handed;
    uint64_t confirmed;       /* by the application, in this epoch; 0: nothing */
    bool confirm_waits;       /* confirm_request is on its way, */
    uint64_t confirm_sent;    /* and asks for this; 0: for something of an earlier numbering or subscription */
    uint64_t confirm_durable; /* answered */
    size_t durable_len; /* 0: not durable */
    uint8_t durable[TF_CURSOR_NAME_MAX];
    size_t name_len;
    uint8_t name[TF_CHANNEL_NAME_MAX];
} tf_client_channel;

struct tf_client {
    tf_client_config config;
    tf_hub *hub;
    tf_conn *conn; /* NULL: not bound */
    tf_list_node in_clients;
    tf_client_channel **channels;
    size_t channel_count;
    size_t channel_capacity;
    tf_list requests; /* tf_request, that wait for their answer */
    tf_map ids;     /* hashes of the client ids that are in flight */
    tf_list active; /* channels that may have something to send */
    tf_list asks;   /* without an answer, in the order in which they were asked */
    size_t ask_count; /* those with an answer that was not pulled included */
    tf_list names;  /* that are published, or are to be or not to be */
    size_t name_count;
    tf_list events;
    tf_note *current; /* given out last */
    size_t in_flight;
    size_t queued_items;
    uint64_t queued_bytes;
    bool wants_room;
    bool has_room_event;
    uint64_t made; /* client ids */
    tf_time wake_at;
    tf_client_stats stats;
};

/* -- for the hub -- */
/* Sends what is due. Not TF_OK: the conn must fail. */
TF_MUST_CHECK tf_err tf_client_push(tf_client *client);
TF_MUST_CHECK tf_err tf_client_delivered(const tf_call *call, tf_object *sink);
TF_MUST_CHECK tf_err tf_client_resolved(tf_request *request, const tf_router_event *event);
void tf_client_sink_dropped(tf_conn *conn, tf_object *sink);
void tf_clients_tick(tf_hub *hub);
tf_time tf_clients_deadline(const tf_hub *hub);

/* -- client.c -- */
/* The channel may have something to send: it is looked at when the hub runs. */
void tf_client_activate(tf_client_channel *channel);
void tf_client_wake_at(tf_client *client, tf_time when);
/* A new note with `bytes` of room behind it, not queued. NULL: no memory. */
tf_note *tf_client_note(const tf_client_channel *channel, tf_client_event_type type, size_t bytes);
void tf_client_queue(tf_client *client, tf_note *note);
/* Appends bytes to what the note's slices point to; *at moves. */
tf_slice tf_client_keep(uint8_t **at, tf_slice bytes);
/* Sends a request, whose promise the hub routes to tf_client_resolved. TF_ERR_AGAIN: not now, an answer or room must
 * come first; LIMIT_BYTES: never. */
TF_MUST_CHECK tf_err tf_client_request(tf_client *client, tf_request *request, const tf_router_send *send);
/* How long after a retryable refusal it is asked again. */
tf_time tf_client_retry_at(const tf_client *client, const tf_result_refusal *refusal);
/* A refusal as an event of the channel. */
TF_MUST_CHECK tf_err tf_client_note_refusal(const tf_client_channel *channel, tf_client_event_type type,
                                            const tf_result_refusal *refusal, tf_note **out);

/* -- client_send.c -- */
typedef enum tf_step { TF_STEP_SENT, TF_STEP_IDLE, TF_STEP_BLOCKED, TF_STEP_ERROR } tf_step;

/* Sends the next send of the channel if it may go. */
tf_step tf_client_send_step(tf_client_channel *channel, tf_err *err);
TF_MUST_CHECK tf_err tf_client_send_acked(tf_item *item, const tf_router_event *event);
TF_MUST_CHECK tf_err tf_client_send_refused(tf_item *item, const tf_result_refusal *refusal);
/* A new session, or none: all goes again. */
void tf_client_sends_reset(tf_client_channel *channel);
/* Refuses what has waited too long, sends what is due. */
void tf_client_sends_tick(tf_client_channel *channel);
/* The channel is refused for good: so are its sends. */
TF_MUST_CHECK tf_err tf_client_sends_refuse(tf_client_channel *channel, const tf_result_refusal *refusal);
void tf_client_sends_clear(tf_client_channel *channel);
/* How long the peer keeps keys of the channel; 0: as long as the channel. */
void tf_client_sends_age(tf_client_channel *channel, uint64_t dedup_age_ms);

/* -- client_sub.c -- */
/* Has the application taken so much that the peer should know? */
bool tf_client_sub_wants_more(const tf_client_channel *channel);
TF_MUST_CHECK tf_err tf_client_sub_more(tf_client_channel *channel);
TF_MUST_CHECK tf_err tf_client_sub_request(tf_client_channel *channel);
TF_MUST_CHECK tf_err tf_client_sub_answered(tf_client_channel *channel, const tf_router_event *event);
TF_MUST_CHECK tf_err tf_client_sub_activity(tf_client_channel *channel, tf_slice args);
TF_MUST_CHECK tf_err tf_client_sub_gap(tf_client_channel *channel, tf_slice args);
TF_MUST_CHECK tf_err tf_client_sub_ended(tf_client_channel *channel, tf_slice args);
/* S8: an own send was acked. */
void tf_client_sub_own(tf_client_channel *channel, uint64_t seq);

/* -- client_cursor.c -- */
/* An event of the subscription goes to the application. */
void tf_client_cursor_handed(tf_client_channel *channel, const tf_client_event *event);
/* There is a confirmed position that the peer was not asked for, and it can be. */
bool tf_client_cursor_is_due(const tf_client_channel *channel);
/* Its answer came. False: nobody asks for it any more. */
bool tf_client_cursor_landed(tf_client_channel *channel);
TF_MUST_CHECK tf_err tf_client_cursor_request(tf_client_channel *channel);
TF_MUST_CHECK tf_err tf_client_cursor_answered(tf_client_channel *channel);
/* The numbering is another one: what was confirmed means nothing any more. */
void tf_client_cursor_reset(tf_client_channel *channel);

/* -- client_ask.c -- */
/* Sends what can be asked now. Not TF_OK: the conn must fail. */
TF_MUST_CHECK tf_err tf_client_asks_push(tf_client *client);
TF_MUST_CHECK tf_err tf_client_ask_answered(tf_request *request, const tf_router_event *event);
TF_MUST_CHECK tf_err tf_client_ask_refused(tf_request *request, const tf_result_refusal *refusal);
/* The channel is refused for good: so is what was asked of it. */
TF_MUST_CHECK tf_err tf_client_asks_refuse(tf_client_channel *channel, const tf_result_refusal *refusal);
void tf_client_asks_tick(tf_client *client);
/* A new session, or none: all is asked again. */
void tf_client_asks_reset(tf_client *client);
void tf_client_asks_clear(tf_client *client);

/* -- client_names.c -- */
/* Says what is to be said now. Not TF_OK: the conn must fail. */
TF_MUST_CHECK tf_err tf_client_names_push(tf_client *client);
TF_MUST_CHECK tf_err tf_client_name_answered(tf_request *request);
TF_MUST_CHECK tf_err tf_client_name_refused(tf_request *request, const tf_result_refusal *refusal);
void tf_client_names_tick(tf_client *client);
/* A new session, or none: all are published again. */
void tf_client_names_reset(tf_client *client);
void tf_client_names_clear(tf_client *client);

#endif
