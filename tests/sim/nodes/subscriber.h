/* An application that listens to a channel, and knows what must come next (P2), over sessions and restarts of
 * any node: it remembers its position, or has the relay keep it (durable). */
#ifndef TF_TESTS_SIM_NODES_SUBSCRIBER_H
#define TF_TESTS_SIM_NODES_SUBSCRIBER_H

#include "node/client.h"

struct view;

typedef struct subscriber {
    bool wanted;
    bool echo;
    bool durable;
    tf_from from;        /* at the very first */
    unsigned confirms;   /* one in so many activities is confirmed */
    bool asked;          /* in this process */
    bool was_asked;      /* in any */
    bool left;           /* another one was before it in this process */
    bool told;           /* and answered: `next` holds */
    bool ended;          /* the peer ended it */
    bool has_next;       /* it was answered at any time */
    uint64_t next;       /* seq of what is to come */
    uint64_t known;      /* highest seq that anybody knew when it was asked for */
    uint64_t confirmed;  /* the cursor is there at least, */
    uint64_t confirming; /* and at most */
} subscriber;

void subscriber_start(struct view *v);
void subscriber_end(struct view *v);
/* The application subscribes, and unsubscribes. */
void subscriber_join(struct view *v);
void subscriber_leave(struct view *v);

void subscriber_told(struct view *v, const tf_client_event *event);
void subscriber_came(struct view *v, const tf_client_event *event);
void subscriber_gap(struct view *v, const tf_client_event *event);
void subscriber_ended(struct view *v, const tf_client_event *event);
void subscriber_confirmed(struct view *v, const tf_client_event *event);
/* It has all that there is. */
bool subscriber_is_done(const struct view *v);

#endif
