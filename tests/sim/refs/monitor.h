/* A second opinion on one connection: its two c-lists as PROTOCOL.md says they must be (D1 to D12), kept from nothing
 * but the messages as they are sent and as they arrive. What a side must not say at that moment is a fault. */
#ifndef TF_TESTS_SIM_REFS_MONITOR_H
#define TF_TESTS_SIM_REFS_MONITOR_H

#include "proto/message.h"

/* Numbers of messages are kept as 1 + number; 0 is none. */
typedef struct monitor_ref {
    tf_side owner;      /* who exports the object or decides the promise */
    bool introduced[2]; /* the side has said it or processed its introduction */
    bool listed[2];     /* it is in the c-list of the side */
    bool dropped;       /* the importer dropped it and has heard no mention since */
    bool forgotten;     /* the owner has executed a drop */
    uint64_t drop;      /* the importer's DROP */
    uint64_t retired;   /* the owner's RESOLVE or hard REVOKE */
    uint64_t mentioned; /* the owner's last mention */
    uint64_t revoked;   /* the owner's last REVOKE */
    uint64_t heard;     /* the importer: the last REVOKE that came, and no mention since */
} monitor_ref;

typedef struct monitor_table {
    monitor_ref *refs; /* by number */
    size_t count, capacity;
} monitor_table;

typedef struct monitor_retirement {
    uint64_t number;
    tf_ref ref;
} monitor_retirement;

typedef struct monitor_side {
    uint64_t sent;     /* messages of this side */
    uint64_t received; /* of the other's, given to this side */
    uint64_t says;     /* the sum of the ack-deltas that it has sent */
    uint64_t said;     /* of its own messages, those that acks which came cover */
    size_t listed;
    monitor_retirement *retirements;
    size_t retirement_head, retirement_count, retirement_capacity;
} monitor_side;

typedef struct monitor {
    monitor_table tables[2][2]; /* by who allocated the number, and kind */
    monitor_side sides[2];
    tf_ref *owed; /* mentions of revoked objects: a REVOKE must follow */
    size_t owed_count, owed_capacity;
    const char *fault; /* the first; NULL: none */
    tf_ref fault_ref;
} monitor;

void monitor_init(monitor *m);
void monitor_free(monitor *m);
/* In the order in which they were encoded; all of a turn before the next message is given to that side. False:
 * m->fault. */
bool monitor_sent(monitor *m, tf_side side, tf_slice bytes);
/* Before the side gets it. */
bool monitor_received(monitor *m, tf_side side, tf_slice bytes);
/* At the end of a turn of either side. */
bool monitor_turn_ended(monitor *m);
const monitor_ref *monitor_find(const monitor *m, tf_ref ref);

#endif
