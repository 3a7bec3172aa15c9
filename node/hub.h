/* The hub: channels, sends, acks and subscriptions of one node, over all its connections (S1 to S10); names for
 * objects; and, by its router (node/router.h), what peers say to each other's objects (D13). Pure: it calls sessions,
 * links and the store that it is given; no clock, socket, thread or randomness of its own.
 *
 * The edge's turn:
 *     feed links (recv_stream, recv_packet), tick what is due, tf_hub_touch each conn concerned
 *     more = tf_hub_run(hub, now, wall_ms)
 *     while (tf_hub_next_event(hub, &event))  …           and tf_client_next_event of each client
 *     while (tf_hub_next_dirty(hub, &conn))               pull its link; arm its timer from tf_conn_deadline
 *     arm one timer from tf_hub_deadline; if `more`, come again after a look at the sockets
 * Run it also when the store has something to poll, and after calls of tf_client_*.
 *
 * A hub without a store serves no channels (`channel_not_found`): that is a pure client. Not thread-safe. */
#ifndef TF_NODE_HUB_H
#define TF_NODE_HUB_H

#include "node/conn.h"
#include "node/hub_rights.h"
#include "node/refusal.h"
#include "node/router.h"
#include "node/store/store.h"

typedef struct tf_hub tf_hub;

/* What is kept of the channels whose names match (S12). 0: no bound of that kind. A channel may have an eighth more than
 * its count and bytes, and 64 messages or 64 KiB; what is too old is gone within a sixteenth of that age, at least 10 s, at
 * most 60 s (of keys 1 h). */
typedef struct tf_retention {
    tf_slice pattern; /* node/pattern.h */
    uint64_t max_age_ms;
    uint64_t max_bytes;    /* of client ids, metas and bodies */
    uint64_t max_count;    /* of messages */
    uint64_t dedup_age_ms; /* of keys (S2); 0: as long as the channel */
} tf_retention;

#define TF_RETENTIONS_MAX 1024u
#define TF_PUBLISHED_MAX 65536u     /* published at a time */
#define TF_PUBLISHED_PER_PEER 1024u /* of these, by one node id */

/* A limit of 0 means its default. */
typedef struct tf_hub_config {
    const tf_mem *mem;
    const tf_rand *rand;
    const tf_store *store; /* copied; NULL: serves no channels */
    tf_node_id node_id;
    uint64_t instance;
    bool known_channels_only; /* `open` makes no channels */
    uint32_t max_in_flight;   /* unacked sends per origin (S7): TF_MAX_IN_FLIGHT */
    uint32_t max_message;     /* as announced; bodies may have 2048 less, at most TF_BODY_MAX: TF_MESSAGE_MAX */
    uint32_t max_channels;    /* in memory at a time: TF_CHANNELS_MAX */
    uint32_t channels_per_peer;      /* open at a time per connection: TF_SUBSCRIPTIONS_PER_PEER */
    uint32_t subscriptions_per_peer; /* per connection: TF_SUBSCRIPTIONS_PER_PEER */
    uint32_t out_queue_items; /* beyond it a subscriber is fed from the store: TF_OUT_QUEUE_ITEMS */
    uint32_t out_queue_bytes; /* TF_OUT_QUEUE_BYTES */
    uint32_t fan_out; /* deliveries of one run to live subscribers; beyond it they are fed from the store: 16384 */
    /* Bodies that wait for their commit, per connection: what its window may hold, at most 64 MiB; in all: 256 MiB. */
    uint32_t commit_bytes_per_peer;
    uint64_t commit_bytes;
    /* Of an origin (S7, S9): sends per second, and bytes of bodies and metas. At once comes what comes in one second, or fits
     * the window (commit_bytes_per_peer), whichever is more. All origins of a relay together: as often as much as its
     * window is larger. 0: no limit. */
    uint32_t rate;
    uint32_t rate_bytes;
    const tf_retention *retention; /* copied; the first that matches a channel applies to it */
    size_t retention_count;        /* at most TF_RETENTIONS_MAX */
} tf_hub_config;

/* TF_ERR_NOMEM; TF_ERR_USAGE: a limit beyond proto/limits.h, or a pattern that is none. */
TF_MUST_CHECK tf_err tf_hub_new(tf_hub **out, const tf_hub_config *config);
/* All connections detached, all clients freed. NULL is fine. */
void tf_hub_free(tf_hub *hub);

/* Who may do what from now on; rules NULL: everybody everything, as at the start. What was accepted stays; subscriptions to
 * what may no longer be read end (`forbidden`), reads of it are refused. TF_ERR_NOMEM: nothing changed. */
TF_MUST_CHECK tf_err tf_hub_set_rights(tf_hub *hub, tf_time now, const tf_hub_rule *rules, size_t count);

/* What is kept, and how much origins may send, from now on, in place of what the config said. Buckets begin full.
 * TF_ERR_NOMEM, TF_ERR_USAGE (a pattern that is none, or too many): nothing changed. */
TF_MUST_CHECK tf_err tf_hub_set_retention(tf_hub *hub, tf_time now, const tf_retention *list, size_t count);
void tf_hub_set_rates(tf_hub *hub, tf_time now, uint32_t rate, uint32_t rate_bytes);

/* For tf_conn_config.session: root and refs. */
tf_local tf_hub_root(const tf_hub *hub);
tf_refs *tf_hub_refs(const tf_hub *hub);
uint32_t tf_hub_max_in_flight(const tf_hub *hub);

/* From now on the conn's messages are served. TF_ERR_NOMEM: not attached. */
TF_MUST_CHECK tf_err tf_hub_attach(tf_hub *hub, tf_time now, tf_conn *conn);
/* For good (D14): its subscriptions end, a client bound to it is unbound, what its peer hosted is revoked and what it
 * decided rejected (`disconnected`), what it sent and is being committed stays. The hub forgets it; the caller frees
 * it. No-op for a conn that is not attached. */
void tf_hub_detach(tf_hub *hub, tf_time now, tf_conn *conn);
/* Something was fed to the conn's link, or it ticked. Cheap; the work is done by tf_hub_run. */
void tf_hub_touch(tf_hub *hub, tf_conn *conn);

/* A bounded amount of work. wall_ms: milliseconds since 1970 UTC, for timestamps. True: there is more to do at once. */
bool tf_hub_run(tf_hub *hub, tf_time now, int64_t wall_ms);
/* Connections that were worked on since they were last given out: their links may have something to send and their
 * deadlines may have changed. False: no more. */
bool tf_hub_next_dirty(tf_hub *hub, tf_conn **out);
tf_time tf_hub_deadline(const tf_hub *hub);
/* tf_hub_run would find a connection to look at, or something to pass on. */
bool tf_hub_has_work(const tf_hub *hub);

typedef enum tf_hub_event_type {
    TF_HUB_CONN_FAILED /* link closed with `code`: flush it, then tf_hub_detach and tf_conn_free */
} tf_hub_event_type;

typedef struct tf_hub_event {
    tf_hub_event_type type;
    tf_conn *conn;
    tf_err err;
    tf_close_code code;
    const char *text; /* for people, as in the CLOSE; valid until the conn is freed */
} tf_hub_event;

bool tf_hub_next_event(tf_hub *hub, tf_hub_event *out);

/* From now on new sends are refused `draining` (resends of accepted ones are acked). */
void tf_hub_drain(tf_hub *hub);
/* Nothing waits for a commit: every answer was handed to its session. */
bool tf_hub_is_drained(const tf_hub *hub);

typedef struct tf_hub_stats {
    uint64_t conns;
    uint64_t channels;      /* in memory */
    uint64_t names;         /* published */
    uint64_t subscriptions;
    uint64_t lagging;       /* of these: fed from the store */
    uint64_t committing;    /* sends that wait for their commit */
    uint64_t committing_bytes;
    uint64_t sends;         /* received */
    uint64_t accepted;      /* committed */
    uint64_t duplicates;    /* acked again */
    uint64_t delivered;     /* activities handed to sessions */
    uint64_t from_store;    /* of these: read from the store */
    uint64_t refused[TF_REFUSAL_COUNT];
    tf_router_stats refs;
} tf_hub_stats;

void tf_hub_get_stats(const tf_hub *hub, tf_hub_stats *out);

#endif
