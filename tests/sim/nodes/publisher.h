/* An application that sends numbered messages to a channel, remembers what was not answered, and sends that
 * again when its process was restarted (was_sent), if the client ids are its own. */
#ifndef TF_TESTS_SIM_NODES_PUBLISHER_H
#define TF_TESTS_SIM_NODES_PUBLISHER_H

#include "node/client.h"

#define PUBLISHER_SENDS_MAX 400u
#define PUBLISHER_BODY_MAX 20000u

struct view;

typedef enum sent_state {
    SENT_WAITING,
    SENT_ACKED,
    SENT_REFUSED, /* for good: it is not stored */
    SENT_UNKNOWN  /* nobody will ever tell */
} sent_state;

typedef struct sent {
    sent_state state;
    uint32_t len;
    uint64_t seq; /* where the store has it; 0: nowhere, as far as is known */
    int64_t expires_ms;
    bool was_handed;   /* to a client, */
    tf_time handed_at; /* first */
} sent;

typedef struct publisher {
    sent sends[PUBLISHER_SENDS_MAX + 1]; /* from 1 */
    unsigned made;
    unsigned handed;      /* all up to here were handed to the client of this process, or need not */
    unsigned last_acked;  /* in this process */
    unsigned last_stored; /* the highest number in the store */
} publisher;

/* `count` more, each of `len` bytes or what its number needs; expires_in 0: never. */
void publisher_make(struct view *v, unsigned count, uint32_t len, int64_t expires_in_ms);
/* Hands out what there is, as far as there is room. */
void publisher_flush(struct view *v);
/* The process is new. */
void publisher_start(struct view *v);
void publisher_end(struct view *v);
void publisher_acked(struct view *v, const tf_client_event *event);
void publisher_refused(struct view *v, const tf_client_event *event);
/* Each send has its answer. */
bool publisher_is_done(const struct view *v);

/* The body of its send. Valid until the next call. */
tf_slice publisher_body(const struct view *v, unsigned number);
/* The client id of its send, if it is the application's own. */
size_t publisher_client_id(const struct view *v, unsigned number, char out[TF_CLIENT_ID_MAX]);

#endif
