/* What the files of a bearer share: bearer.c (sessions and the turn), bearer_dial.c (when and how the dialler dials),
 * bearer_stream.c, bearer_datagram.c. */
#ifndef TF_TESTS_SIM_NODES_BEARER_INTERNAL_H
#define TF_TESTS_SIM_NODES_BEARER_INTERNAL_H

#include "dedup/replay.h"
#include "handshake/negotiate.h"
#include "tests/sim/nodes/bearer.h"

#define BEARER_KEYS 4u /* as TF_KEYRING_MAX */

/* What stands for the datagram keys of a generation. */
typedef struct bearer_key {
    uint64_t generation; /* 0: free */
    uint64_t local_id;   /* in packets to us */
    uint64_t remote_id;
    tf_replay replay;
} bearer_key;

/* A packet in the socket of a paused node. */
typedef struct bearer_packet {
    struct bearer_packet *next;
    uint64_t id;
    uint64_t number;
    size_t len;
    uint8_t data[];
} bearer_packet;

typedef struct bearer_bytes {
    uint8_t *data;
    size_t len;
    size_t room;
} bearer_bytes;

/* One end, as node/connection has it. */
typedef struct bearer_end {
    bearer_side *side;
    tf_conn *conn; /* NULL: no session */
    tf_link *link; /* its */
    tf_agreed agreed; /* in the latest handshake */
    bool closed;      /* by the peer */
    tf_time lost_since; /* without any route; TF_NEVER: there is one */
    tf_time timer_at;
    bool waits; /* something came while it was paused */
    /* the stream */
    bool stream;        /* it believes to have one */
    uint64_t stream_id; /* that one */
    bool broke;         /* it does not know yet, being paused */
    bool wants_write;
    size_t unheard;     /* bytes written into what is gone */
    tf_time breaks_at;  /* it learns of that; TF_NEVER */
    bearer_bytes in;    /* not taken yet */
    /* the datagram route */
    bearer_key keys[BEARER_KEYS];
    uint64_t to;        /* acceptor: the dialler's address, 0: not known yet. Dialler: 1 once it has a socket */
    uint64_t candidate; /* the one under test; 0: none */
    size_t credit;      /* bytes that it may have */
    bearer_packet *first;
    bearer_packet *last;
    size_t inbox_bytes;
} bearer_end;

/* A session of the acceptor with an instance of the dialler that is gone. */
typedef struct bearer_older {
    tf_conn *conn;
    bool sends; /* datagrams, to where it was */
    tf_time lost_since;
    tf_time timer_at;
} bearer_older;

#define BEARER_OLDER_MAX (TF_INSTANCES_PER_PEER - 1u)

typedef enum dial_state {
    DIAL_OFF,
    DIAL_WAITING, /* `at`: for the next dial; TF_NEVER: none is wanted */
    DIAL_TRIPS,   /* `at`: `trip` ends */
    DIAL_ANSWER   /* the WELCOME is on its way */
} dial_state;

/* As the peer of node/dialler. */
typedef struct bearer_dial {
    dial_state state;
    tf_time at;
    tf_time limit_at;
    unsigned trip;
    bool departed;     /* else it tries to, at `at` */
    bool refused;      /* the dialler learns it at the end of this trip */
    uint64_t accepted; /* the instance that has accepted the socket */
    uint64_t stream_id; /* the WELCOME comes by it */
    bearer_bytes in;
    tf_hello hello;
    tf_negotiate_session hello_state;
    tf_backoff backoff;
    tf_time lost_at;
    bool wants_generation;
    tf_time rehandshake_at;
    uint64_t address; /* of the datagram socket, seen from the acceptor; from 1 */
    tf_time reopen_at;
    uint32_t reopens;
} bearer_dial;

struct bearer {
    net *net;
    bearer_handlers handlers;
    void *user;
    bearer_end ends[NET_ENDS]; /* dialler, acceptor */
    bearer_older older[BEARER_OLDER_MAX]; /* oldest first */
    size_t older_count;
    uint64_t vain_bytes; /* sent by them */
    bearer_dial dial;
    uint64_t stream_id;   /* of the newest stream */
    uint64_t session;     /* of the newest session */
    bool closed;
    bearer_stats stats;
};

void *bearer_must(void *memory);
tf_time bearer_now(const bearer *b);
tf_time bearer_delay(bearer *b, unsigned from); /* of the stream route */
void bearer_touch(bearer *b, unsigned end);
void bearer_fault(bearer *b, unsigned end, const char *what);
void bearer_append(bearer_bytes *to, tf_slice bytes);

/* -- bearer.c ------------------------------------------------------------------------------------------------------ */

/* A new session at an end that has none. */
void bearer_begin(bearer *b, unsigned end, const tf_agreed *agreed);
/* A handshake is over: the end takes the stream, and keys. */
void bearer_adopt(bearer *b, unsigned end, const tf_agreed *agreed);
/* The end forgets its session; the stream is closed behind what was written. */
void bearer_over(bearer *b, unsigned end, const char *why);
/* The same, after a CLOSE. */
void bearer_close(bearer *b, unsigned end, tf_close_code code, const char *why);
/* The acceptor's session is one of an instance that is gone from now on. */
void bearer_set_aside(bearer *b);
/* Since when a link has no route, when it has been `before`. */
tf_time bearer_lost_since(const tf_link *link, bool stream, tf_time before, tf_time now);

/* -- bearer_older.c ------------------------------------------------------------------------------------------------ */

void bearer_keep_older(bearer *b);
void bearer_drop_older(bearer *b);
/* For one more instance; the session of another may have been ended for it. */
bool bearer_has_room_for_instance(bearer *b);
void bearer_pull_older(bearer *b, const tf_conn *conn);
void bearer_tick_older(bearer *b);
tf_time bearer_older_deadline(const bearer *b);

/* -- bearer_stream.c ----------------------------------------------------------------------------------------------- */

void bearer_flush_stream(bearer *b, unsigned end);
void bearer_came_bytes(bearer *b, unsigned end, uint64_t stream_id, tf_slice bytes);
void bearer_take_bytes(bearer *b, unsigned end);
void bearer_broke(bearer *b, unsigned end, uint64_t stream_id);
/* Of time-outs of the kernel. */
void bearer_tick_stream(bearer *b, unsigned end);
tf_time bearer_stream_deadline(const bearer *b, unsigned end);

/* -- bearer_datagram.c --------------------------------------------------------------------------------------------- */

void bearer_add_key(bearer *b, unsigned end, const tf_agreed *agreed);
void bearer_drop_key(bearer_end *e, uint64_t generation);
void bearer_flush_packets(bearer *b, unsigned end);
void bearer_came_packet(bearer *b, unsigned end, uint64_t id, uint64_t number, tf_slice packet);
/* What waited in the socket of a node that was paused. */
void bearer_take_packets(bearer *b, unsigned end);
void bearer_drop_packets(bearer_end *e);
void bearer_decide_candidate(bearer *b, unsigned end, bool takes_it);
/* The dialler's: after a handshake; a verdict; lost redundancy; at reopen_at. */
void bearer_find_datagram(bearer *b);
void bearer_datagram_verdict(bearer *b, tf_verdict verdict);
void bearer_reopen_now(bearer *b);
void bearer_reopen(bearer *b);

/* -- bearer_dial.c ------------------------------------------------------------------------------------------------- */

void bearer_dial_verdict(bearer *b, const tf_link_event *event);
void bearer_dial_stream_ended(bearer *b);
void bearer_dial_session_over(bearer *b);
void bearer_new_generation(bearer *b);
void bearer_dial_failed(bearer *b);
/* Bytes of the answer came. */
void bearer_dial_answered(bearer *b);
void bearer_dial_tick(bearer *b);
tf_time bearer_dial_deadline(const bearer *b);

#endif
