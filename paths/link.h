/* The link of one connection: two slots, one order (PROTOCOL.md "Link"; design of the slots, acks, repair and verdicts).
 *
 * One unacked ring feeds both slots; segments that come in by either are de-duplicated, put in order and assembled to
 * messages at one merge point. Pure: frames, packets, time and slot changes in; frames, packets, a deadline, messages and
 * events out. It never calls back, owns no socket and no key. Not thread-safe.
 *
 * A route that is lost is a counter here; a connection that has lost all of them keeps its ring for a resume. */
#ifndef TF_PATHS_LINK_H
#define TF_PATHS_LINK_H

#include "dedup/dedup.h"
#include "proto/frame.h"
#include "proto/types.h"

typedef struct tf_link tf_link;

typedef struct tf_link_config {
    const tf_mem *mem;
    const tf_rand *rand; /* tokens of probes and challenges */
    tf_dedup *dedup;     /* the process's shared filter; NULL: the exact window alone */
    tf_node_id peer;     /* dedup key: sender, instance, session */
    uint64_t peer_instance;
    uint64_t session;
    tf_routes routes;              /* negotiated */
    tf_routes send_data;           /* routes that may carry messages from us */
    tf_routes recv_data;           /* routes on which the peer may send us messages */
    tf_routes standby;             /* of send_data: our copies go by it only while no other route flows */
    uint32_t recv_window_segments; /* what we announced */
    uint32_t recv_window_bytes;
    uint32_t send_window_segments; /* what the peer announced */
    uint32_t send_window_bytes;
    uint32_t recv_max_message; /* what we announced: the assembler's bound */
    tf_time keepalive;         /* ours */
    tf_time peer_keepalive;    /* the peer's: a route silent for 3 of them is down */
    uint64_t first_seq;        /* 0; tests start near 2^64 */
} tf_link_config;

TF_MUST_CHECK tf_err tf_link_new(tf_link **out, const tf_link_config *config, tf_time now);
void tf_link_free(tf_link *link);

/* -- slots --------------------------------------------------------------------------------------------------------- */

/* A stream of `generation` is ready (its handshake is over). Replaces the one before, if any: what was written there and
 * is not acked counts as lost and is sent again, from the first unacked segment on. */
void tf_link_stream_up(tf_link *link, tf_time now, uint64_t generation);
/* The socket is gone. A partial frame that came by it is the edge's to forget. */
void tf_link_stream_down(tf_link *link, tf_time now);

/* Datagram keys of `generation` exist and an address to send to is known. Until a packet sent under them was acked it is
 * only challenged; packets go on under the generation confirmed last. An older unconfirmed one is dropped. */
void tf_link_datagram_up(tf_link *link, tf_time now, uint64_t generation);
/* The datagram route cannot be used at all (socket error). It goes on being probed. */
void tf_link_datagram_down(tf_link *link, tf_time now);

/* The system refused to send a packet of `size` bytes of UDP payload (EMSGSIZE): none as large goes from now on, and what
 * such packets hold goes again. */
void tf_link_datagram_refused(tf_link *link, tf_time now, size_t size);

/* A packet that opened, with the highest number so far, came from an address that is not the one in use: both are
 * challenged now. TF_LINK_EVENT_MOVED gives the verdict: the new address, unless the old one answers within 3 PTO (at most
 * 1 s) or the new one does not. No-op while a test is going on. */
void tf_link_datagram_moved(tf_link *link, tf_time now);
/* Whether the new address has answered, so that the peer can be reached there, while the old one may still do so. */
bool tf_link_datagram_move_answered(const tf_link *link);

/* -- in ------------------------------------------------------------------------------------------------------------ */

/* Bytes of the stream after WELCOME. Takes whole frames only; *consumed says how many bytes were used: keep the rest for
 * the next call. PEER_*: the connection ends with tf_close_from_err; nothing of the faulty frame was applied. */
TF_MUST_CHECK tf_err tf_link_recv_stream(tf_link *link, tf_time now, tf_slice in, size_t *consumed);

/* The plaintext of one packet that opened under `generation` and passed the replay window. Validated whole before any
 * frame of it is applied. */
TF_MUST_CHECK tf_err tf_link_recv_packet(tf_link *link, tf_time now, uint64_t generation, uint64_t number,
                                         tf_slice plain);

/* The next whole message in order, and the route by which the first copy of its last segment came. The slice is valid
 * until the next call on the link. False: none. */
bool tf_link_next_message(tf_link *link, tf_slice *message, tf_route *via);

/* -- out ----------------------------------------------------------------------------------------------------------- */

/* Cuts a message into segments and puts them in the ring; the bytes are copied once. TF_ERR_AGAIN: no room in the peer's
 * window now, nothing changed (try again after acks). A message larger than the window is taken piece by piece: the
 * link keeps at most one such message waiting. NOMEM. */
TF_MUST_CHECK tf_err tf_link_send(tf_link *link, tf_time now, tf_slice message);
/* True when a message of len bytes would be taken now. */
bool tf_link_has_room(const tf_link *link, size_t len);

/* Fills buf (cap: what the socket can take now, at most TF_STREAM_RECORD) with whole frames for the stream: acks and
 * probes first, then segments from the ring. 0: nothing to send. What is returned counts as written. */
size_t tf_link_pull_stream(tf_link *link, tf_time now, uint8_t *buf, size_t cap);

typedef struct tf_link_packet {
    uint64_t generation;
    uint64_t number;      /* strictly increasing per generation: the nonce */
    size_t len;           /* of the plaintext in buf */
    bool to_candidate;    /* a challenge for the address under test (tf_link_datagram_moved); else for the one in use */
    bool to_current_only; /* the challenge for the one in use: no copy of it may reach the one under test */
} tf_link_packet;

/* Fills buf (cap >= TF_PACKET_PLAIN_MAX) with the frames of one packet. False: nothing to send, or the congestion window
 * or the pacing says later (see deadline). What is returned counts as sent. */
bool tf_link_pull_packet(tf_link *link, tf_time now, uint8_t *buf, size_t cap, tf_link_packet *out);

/* Ends the session for good: a CLOSE frame goes out once by each route that is up (pull them), then nothing more. */
void tf_link_close(tf_link *link, tf_time now, tf_close_code code, tf_slice reason);

/* -- resume -------------------------------------------------------------------------------------------------------- */

/* What goes into HELLO and WELCOME: the next link seq that we expect (our floor). */
uint64_t tf_link_next_expected(const tf_link *link);
/* What a peer that resumes may say it expects: send_floor .. send_next (asked when its HELLO or WELCOME has come, not
 * before: acks by the other route move on meanwhile). For the same reason what it says may lie below what it has acked
 * since, so the floor is the first seq of the session. */
uint64_t tf_link_send_floor(const tf_link *link);
uint64_t tf_link_send_next(const tf_link *link);
/* What the peer said there: empties the ring below it; nothing where that was acked already. PEER_ACK when it was never
 * sent. */
TF_MUST_CHECK tf_err tf_link_resume(tf_link *link, tf_time now, uint64_t peer_next_expected);

/* -- time and verdicts --------------------------------------------------------------------------------------------- */

tf_time tf_link_deadline(const tf_link *link);
void tf_link_tick(tf_link *link, tf_time now);

typedef enum tf_verdict {
    TF_VERDICT_ABSENT,  /* never there, or not negotiated */
    TF_VERDICT_JOINING, /* challenged, not answered yet */
    TF_VERDICT_UP,
    TF_VERDICT_STALLED, /* data outstanding and no progress, or so often lately that it is not trusted yet: the other
                           route carries */
    TF_VERDICT_DOWN     /* probes unanswered, idle limit, or a socket error: redial */
} tf_verdict;

const char *tf_verdict_name(tf_verdict verdict);

typedef enum tf_link_event_type {
    TF_LINK_EVENT_VERDICT,         /* route, verdict, and the one before */
    TF_LINK_EVENT_CONFIRMED,       /* a packet of ours under `generation` was acked: use its keys */
    TF_LINK_EVENT_RETIRED,         /* the keys of `generation` can be erased */
    TF_LINK_EVENT_MOVED,           /* moved: the address under test is the peer's; else it is to be forgotten */
    TF_LINK_EVENT_UNREACHABLE,     /* both routes failed N times in a row */
    TF_LINK_EVENT_REDUNDANCY_LOST, /* one direction of `route` is dead while the other route works: reopen it. Told once,
                                      until something gets through again; its verdict may be anything by then */
    TF_LINK_EVENT_CLOSED           /* the peer's CLOSE: code, reason */
} tf_link_event_type;

typedef struct tf_link_event {
    tf_link_event_type type;
    tf_route route;
    tf_verdict verdict;
    tf_verdict before;
    uint64_t generation;
    bool moved;
    bool inbound; /* REDUNDANCY_LOST: what the peer sends does not come; else what we send does not arrive */
    uint64_t code;
    tf_slice reason; /* valid until the next call on the link */
} tf_link_event;

bool tf_link_next_event(tf_link *link, tf_link_event *out);

tf_verdict tf_link_verdict(const tf_link *link, tf_route route);
/* Smoothed RTT of a route, 0 when not measured. */
tf_time tf_link_srtt(const tf_link *link, tf_route route);
/* Asks the peer by every route that can be asked, now: whoever lives answers within a round trip. */
void tf_link_probe(tf_link *link, tf_time now);
/* Probes of a route are numbered from 0: the number of the next one, so that those below it have gone out. */
uint64_t tf_link_next_probe(const tf_link *link, tf_route route);
/* The round trip of one of the last few (8) probes: from the pull that brought it to the answer, which nothing delays.
 * False: there is no answer, or it is too long ago. */
bool tf_link_probe_rtt(const tf_link *link, tf_route route, uint64_t probe, tf_time *rtt);
/* When authenticated bytes last came, by any route; 0: never. */
tf_time tf_link_heard(const tf_link *link);
/* The highest packet number of a generation that the peer has acked. False: none yet, or the generation is gone. */
bool tf_link_packet_acked(const tf_link *link, uint64_t generation, uint64_t *number);
/* True once messages can flow to the peer: the stream is up where send_data has it, or the datagram challenge returned. */
bool tf_link_is_carrying(const tf_link *link);
/* True when everything sent was acked. */
bool tf_link_is_quiet(const tf_link *link);
/* True when something sent is not acked and a route lives that may bring the ack: it is worth waiting for. */
bool tf_link_is_busy(const tf_link *link);

/* By how much the second copy of a segment came later than the first: upper bounds of the buckets in microseconds; the
 * last bucket holds what is later than all of them. */
#define TF_LATE_BUCKETS 13u
extern const tf_time tf_late_bounds[TF_LATE_BUCKETS - 1];

typedef struct tf_route_stats {
    tf_verdict verdict;
    tf_time since; /* of the verdict */
    tf_time srtt;
    tf_time rtt_latest; /* this and the next two: 0 when not measured */
    tf_time rtt_var;
    tf_time rtt_min;
    uint64_t rtt_samples;
    uint64_t loss_ppm;  /* datagram only: packets lost of a million, of those of late (weight 1/64 each) */
    uint64_t in_flight; /* datagram only: bytes sent and neither acked nor lost, */
    uint64_t cwnd;      /* and how many there may be */
    uint64_t generation;
    uint64_t sent_segments; /* copies written, retransmissions included */
    uint64_t sent_bytes;
    uint64_t sent_packets; /* datagram only */
    uint64_t received_segments;
    uint64_t received_bytes;
    uint64_t first;    /* copies that won */
    uint64_t repeats;  /* copies that came second */
    uint64_t only;     /* first copies whose other copy did not come while it could: would have been lost */
    uint64_t lost;     /* copies (packets) declared lost */
    uint64_t shed;     /* copies not sent for want of room on that route */
    uint64_t retired;  /* copies not sent since they were acked by the other route */
    uint64_t repaired; /* segments sent again by this route */
    uint64_t probes;
    uint64_t downs;
    uint64_t late[TF_LATE_BUCKETS]; /* second copies that came here, by lateness; of the last TF_LINK_RECENT segments */
    uint64_t told_first;   /* of our copies, as the peer says: those that came first, */
    uint64_t told_repeats; /* and those that came second */
    uint64_t mtu;       /* datagram only: bytes of UDP payload that a packet may have now */
    uint64_t mtu_falls; /* to the base size, since larger packets did not arrive any more */
} tf_route_stats;

typedef struct tf_link_stats {
    tf_route_stats routes[TF_ROUTE_COUNT];
    uint64_t ring_segments;
    uint64_t ring_bytes;
    uint64_t reorder_segments;
    uint64_t reorder_bytes;
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t resumes;
} tf_link_stats;

void tf_link_get_stats(const tf_link *link, tf_link_stats *out);

#endif
