/* The whole of a link. Only for the files link*.c that make it up (paths/README.md lists them); users include link.h. */
#ifndef TF_PATHS_LINK_PRIVATE_H
#define TF_PATHS_LINK_PRIVATE_H

#include "paths/link.h"
#include "paths/link_congestion.h"
#include "paths/link_mtu.h"
#include "paths/link_numbers.h"
#include "paths/link_pool.h"
#include "paths/link_recv.h"
#include "paths/link_ring.h"
#include "paths/link_route.h"
#include "paths/link_sent.h"

#define TF_LINK_GENERATIONS 3u /* of datagram keys: retiring, current, unconfirmed */
#define TF_LINK_RESPONSES 4u   /* to challenges of the peer that wait to be sent */
#define TF_LINK_LOSS_ALL ((uint64_t)1 << 30)
#define TF_LINK_RETIRED 8u /* RETIRED events that wait to be taken */
#define TF_PACKET_SEGMENTS (TF_PACKET_PLAIN_MAX / (TF_FRAME_HEADER + TF_SEGMENT_HEADER))

/* The acks that are owed by one route. */
typedef struct tf_link_owed {
    bool now;        /* the next pull carries them */
    tf_time due;     /* else then; TF_NEVER: nothing is owed */
    unsigned units;  /* packets or segments with data since the last one */
    uint8_t packets; /* by index of a generation: a packet ack is owed */
} tf_link_owed;

/* What became of our copies by a route, as the peer says: in the newest generation it told of, and in those before. */
typedef struct tf_link_told {
    uint64_t generation;
    uint64_t first;
    uint64_t repeats;
    uint64_t before_first;
    uint64_t before_repeats;
} tf_link_told;

typedef struct tf_link_stream {
    bool up;
    uint64_t generation;
    uint64_t next;      /* the first segment not yet looked at in this generation */
    uint64_t high;      /* one past the highest ever written: below it is a repair */
    uint64_t written;   /* segments, in this generation */
    uint64_t counted;   /* of these, received by the peer as it says */
    uint64_t caught_up; /* STALLED until `counted` reaches it */
} tf_link_stream;

typedef enum tf_link_keys {
    TF_LINK_KEYS_NONE,
    TF_LINK_KEYS_UNCONFIRMED,
    TF_LINK_KEYS_CURRENT,
    TF_LINK_KEYS_RETIRING
} tf_link_keys;

typedef struct tf_link_generation {
    tf_link_keys keys;
    bool acked;  /* a packet of ours */
    bool opened; /* a packet of the peer's */
    uint64_t generation;
    uint64_t challenge;    /* the token */
    bool challenge_wanted; /* goes with the next pull */
    unsigned challenges;   /* that were not answered */
    tf_time challenge_since;
    tf_time challenge_at; /* the next one */
    tf_time challenge_delay;
    tf_time retire_at;
    tf_link_sent sent;
    tf_link_numbers received;
} tf_link_generation;

#define TF_LINK_MOVE_OLD 0u
#define TF_LINK_MOVE_NEW 1u

/* The test of a new peer address. */
typedef struct tf_link_move {
    bool testing;
    uint64_t tokens[2]; /* for the old and the new address */
    bool wanted[2][TF_LINK_GENERATIONS]; /* a challenge goes under these keys with the next pull */
    bool answered;                       /* by the new one */
    tf_time again_at;
    tf_time ends_at;
    bool decided; /* an event waits to be taken: */
    bool moved;
} tf_link_move;

#define TF_LINK_MISSED 32u

/* Packets that counted as lost and came after all: the path reorders, so more is allowed for. */
typedef struct tf_link_reorder {
    unsigned level; /* how much more */
    tf_time raised_at;
    uint64_t generation;
    uint64_t missed[TF_LINK_MISSED]; /* the latest that counted as lost, in this generation */
    size_t missed_count;
} tf_link_reorder;

typedef struct tf_link_datagram {
    tf_link_generation generations[TF_LINK_GENERATIONS];
    uint64_t newest; /* generation, of all there ever were */
    tf_link_congestion cc;
    tf_link_mtu mtu;
    uint64_t next;     /* the first segment not yet copied or shed */
    uint64_t shed;     /* the first that may have been shed, not been queued again and is not acked; at most `next` */
    tf_time last_data; /* when a packet with segments went out */
    tf_time last_eliciting;
    bool asked;            /* that one is to be acked at once */
    uint64_t eliciting;    /* packets that oblige an ack, ever, */
    uint64_t with_data;    /* and of these, with segments */
    uint64_t proved;       /* `eliciting` when the route last answered */
    unsigned probes;       /* packets that may go beyond the window */
    unsigned backoff;      /* PTOs in a row */
    uint64_t loss;         /* of packets, smoothed: 2^30 is all of them */
    tf_time acked_sent_at; /* when the latest packet of those acked was sent */
    tf_time loss_at;
    tf_time paced_at; /* a packet waits for the pacer (or for memory) until then */
    bool carrying;    /* else it copies */
    tf_link_move move;
    tf_link_reorder reorder;
} tf_link_datagram;

/* What the link announces and has not been taken. */
typedef struct tf_link_events {
    bool confirmed;
    uint64_t confirmed_generation;
    uint64_t retired[TF_LINK_RETIRED];
    size_t retired_count;
    bool unreachable;
    tf_routes lost_out; /* redundancy, by direction */
    tf_routes lost_in;
    bool closed;
    uint64_t close_code;
    uint8_t close_reason[TF_CLOSE_REASON_MAX];
    size_t close_reason_len;
} tf_link_events;

/* Of one direction of a route: nothing has got through since. */
typedef struct tf_link_watch {
    tf_time since;    /* when something was first tried; TF_NEVER: nothing was, or it got through */
    tf_time fed_at;   /* when something was last tried */
    tf_time check_at; /* TF_NEVER: nothing to judge, or it was told */
    uint64_t tries;   /* a counter at `since`: of packets with segments (out) or probes (in) */
} tf_link_watch;

typedef struct tf_link_standby {
    bool released;   /* it carries, though it is a standby route */
    tf_time back_at; /* not for longer than until then */
} tf_link_standby;

typedef enum tf_link_state {
    TF_LINK_OPEN,
    TF_LINK_CLOSING, /* a CLOSE goes out by each route */
    TF_LINK_CLOSED
} tf_link_state;

struct tf_link {
    tf_link_config config;
    tf_time now; /* of the last call */
    tf_link_state state;
    tf_link_pool pool;
    tf_link_ring ring;
    tf_link_recv recv;
    tf_link_route routes[TF_ROUTE_COUNT];
    tf_route_stats stats[TF_ROUTE_COUNT];
    tf_link_owed owed[TF_ROUTE_COUNT];
    tf_link_told told[TF_ROUTE_COUNT];
    uint64_t responses[TF_LINK_RESPONSES];
    size_t response_count;
    tf_link_stream stream;
    tf_link_datagram datagram;
    tf_link_events events;
    /* a message larger than the window, on its way into the ring */
    uint8_t *waiting;
    size_t waiting_len;
    size_t waiting_at;
    /* CLOSE of ours */
    tf_routes close_to;
    uint64_t close_code;
    uint8_t close_reason[TF_CLOSE_REASON_MAX];
    size_t close_reason_len;
    /* no route lives */
    bool lived;
    bool dead;
    unsigned failures;
    tf_time failure_at;
    bool unreachable;
    tf_link_standby standby[TF_ROUTE_COUNT];
    tf_link_watch watch_out[TF_ROUTE_COUNT]; /* of what we send */
    tf_link_watch watch_in[TF_ROUTE_COUNT];  /* of what the peer sends */
    /* an idle link gives its memory back */
    tf_time data_at; /* when a segment last went or came */
    tf_time trim_at;
    uint64_t messages_sent;
    uint64_t resumes;
    tf_link_judged judged[TF_PACKET_SEGMENTS];
};

/* --- link.c: shared by the slots --- */

/* Every call of the public interface begins with this: time does not go back. */
void tf_link_enter(tf_link *link, tf_time now);
/* And every one that may change a verdict ends with this. */
void tf_link_settle(tf_link *link, tf_time now);
/* Data went or came: the session makes progress. */
void tf_link_data(tf_link *link, tf_time now, tf_route route);
/* What was taken from the ring lets a waiting message go on. */
void tf_link_acked(tf_link *link, tf_time now);

/* Are segments to be sent to the peer by this route at all (send_data)? */
static inline bool tf_link_may_send_data(const tf_link *link, tf_route route)
{
    return (link->config.send_data & (1u << route)) != 0;
}

/* --- link_ack.c --- */

/* Something came by `route` that obliges an ack: data in `units` packets (datagram) or segments (stream), or, at_once,
 * something that does not wait. */
void tf_link_ack_owe(tf_link *link, tf_time now, tf_route route, unsigned units, bool at_once);
/* A packet of the generation with this index is to be acked, when the next ack goes. */
void tf_link_ack_owe_packet(tf_link *link, size_t index);
bool tf_link_ack_is_due(const tf_link *link, tf_route route);
/* Writes what is owed by the route, as far as it fits. */
void tf_link_ack_write(tf_link *link, tf_time now, tf_route route, tf_writer *w);
TF_MUST_CHECK tf_err tf_link_ack_judge(const tf_link *link, const tf_link_ack *ack);
void tf_link_ack_apply(tf_link *link, tf_time now, const tf_link_ack *ack);
tf_time tf_link_ack_deadline(const tf_link *link);
void tf_link_ack_tick(tf_link *link, tf_time now);

/* --- link_standby.c --- */

/* Do our segments not go by this route now? */
bool tf_link_standby_holds(const tf_link *link, tf_route route);
/* Can the other slots rely on it? */
bool tf_link_is_flowing(const tf_link *link, tf_route route);
/* A verdict has changed, or time has passed. */
void tf_link_standby_update(tf_link *link, tf_time now);
/* Segments go by another route: one that is held back stays measured. */
void tf_link_standby_measure(tf_link *link, tf_time now);
tf_time tf_link_standby_deadline(const tf_link *link);

/* --- link_watch.c --- */

void tf_link_watch_init(tf_link *link);
/* The route begins anew, or ends. */
void tf_link_watch_reset(tf_link *link, tf_route route);
/* A segment of ours went by the route; one that went there has arrived. */
void tf_link_watch_sent(tf_link *link, tf_time now, tf_route route);
void tf_link_watch_arrived(tf_link *link, tf_route route);
/* A segment of the peer's came by the route; anything did. */
void tf_link_watch_received(tf_link *link, tf_time now, tf_route route);
/* A probe went by the route: something must come. */
void tf_link_watch_probed(tf_link *link, tf_time now, tf_route route);
void tf_link_watch_heard(tf_link *link, tf_route route);
tf_time tf_link_watch_deadline(const tf_link *link);
void tf_link_watch_tick(tf_link *link, tf_time now);

/* --- link_stream.c --- */

/* The peer has told what it received by the stream. */
void tf_link_stream_counted(tf_link *link, tf_time now, const tf_route_count *count);
/* Segments were sent, written, acked or counted. */
void tf_link_stream_outstanding(tf_link *link, tf_time now);
/* It answers. */
void tf_link_stream_proved(tf_link *link, tf_time now);
tf_time tf_link_stream_deadline(const tf_link *link);
void tf_link_stream_tick(tf_link *link, tf_time now);

/* --- link_datagram.c: what goes into packets --- */

bool tf_link_datagram_can_send(const tf_link *link);
/* The generation that packets go out under; NULL: there are no keys. */
tf_link_generation *tf_link_datagram_sending(tf_link *link);
/* What was shed and has not come is queued again once it is due. */
tf_time tf_link_datagram_overdue_at(const tf_link *link);
void tf_link_datagram_overdue(tf_link *link, tf_time now);
/* Copy or carry, as the stream's verdict says now. */
void tf_link_datagram_choose(tf_link *link, tf_time now);

/* --- link_keys.c: its generations, and the route as a whole --- */

/* The index of a generation, TF_LINK_GENERATIONS when it is not known (any more). */
size_t tf_link_datagram_find(const tf_link *link, uint64_t generation);
/* A packet that was sent under it was acked; one of the peer's under it was opened. */
void tf_link_datagram_confirm(tf_link *link, tf_time now, size_t index);
void tf_link_datagram_opened(tf_link *link, tf_time now, size_t index);
/* The challenge of the newest keys goes out again now, if they are not confirmed. */
void tf_link_datagram_challenge(tf_link *link, tf_time now);
void tf_link_datagram_response(tf_link *link, tf_time now, uint64_t token);
/* The route answers; it is down: nothing in flight will come back. */
void tf_link_datagram_proved(tf_link *link, tf_time now);
void tf_link_datagram_lost(tf_link *link, tf_time now);
tf_time tf_link_datagram_deadline(const tf_link *link);
void tf_link_datagram_tick(tf_link *link, tf_time now);

/* --- link_move.c: the peer's address --- */

void tf_link_move_response(tf_link *link, tf_time now, uint64_t token);
tf_time tf_link_move_deadline(const tf_link *link);
void tf_link_move_tick(tf_link *link, tf_time now);

/* --- link_loss.c: what became of packets --- */

TF_MUST_CHECK tf_err tf_link_loss_judge(const tf_link *link, const tf_packet_ack *ack);
void tf_link_loss_apply(tf_link *link, tf_time now, const tf_packet_ack *ack);
/* The system refused to send packets of `size` bytes: what is in flight and as large goes again. */
void tf_link_loss_refused(tf_link *link, tf_time now, size_t size);
/* All packets in flight of a generation are lost. */
void tf_link_loss_all(tf_link *link, tf_time now, tf_link_generation *generation);
tf_time tf_link_loss_deadline(const tf_link *link);
void tf_link_loss_tick(tf_link *link, tf_time now);

/* --- link_control.c: acks, answers and probes, ahead of segments --- */

/* Does something wait for the route that is worth a packet or record of its own? */
bool tf_link_control_waits(const tf_link *link, tf_route route);
/* Writes a probe of the route. False: there is no room for one. */
bool tf_link_control_probe(tf_link *link, tf_time now, tf_route route, tf_writer *w);
/* Writes it, and acks that are owed but not yet due. True: something that obliges a packet ack. */
bool tf_link_control_write(tf_link *link, tf_time now, tf_route route, tf_writer *w);

#endif
