/* Every maximum and every timer in one place. Sizes in bytes, times in tf_time (microseconds), tied together by the
 * static assertions at the end. What HELLO announces are the values of the config, bounded by these. */
#ifndef TF_PROTO_LIMITS_H
#define TF_PROTO_LIMITS_H

#include "proto/types.h"

/* Datagram packet: flags(1) connection id(8) packet number(4) AEAD(frames) tag(16). Segments are cut to the base packet
 * (RFC 8899); a larger one holds several. */
#define TF_PACKET_BASE 1200u
#define TF_PACKET_MAX 1472u /* 1500 less the headers of IPv4 and UDP */
#define TF_PACKET_HEADER 13u
#define TF_PACKET_TAG 16u
#define TF_PACKET_MIN (TF_PACKET_HEADER + TF_PACKET_TAG + 1u)
#define TF_PACKET_PLAIN_BASE (TF_PACKET_BASE - TF_PACKET_HEADER - TF_PACKET_TAG)
#define TF_PACKET_PLAIN_MAX (TF_PACKET_MAX - TF_PACKET_HEADER - TF_PACKET_TAG)
#define TF_CONNECTION_ID_LEN 8u

/* Frames: type(1) length(2) payload. */
#define TF_FRAME_HEADER 3u
#define TF_FRAME_PAYLOAD_MAX 16384u /* HELLO and WELCOME are the largest */
#define TF_SEGMENT_HEADER 9u        /* link seq(8) flags(1) */
#define TF_SEGMENT_DATA_MAX (TF_PACKET_PLAIN_BASE - TF_FRAME_HEADER - TF_SEGMENT_HEADER)
#define TF_ACK_RANGES_MAX 32u
#define TF_CLOSE_REASON_MAX 120u
#define TF_STREAM_RECORD 16384u /* a TLS record is filled up to this */

/* Messages and MessagePack. */
#define TF_MESSAGE_MAX (1u << 20)  /* default and upper bound of max_message */
#define TF_MESSAGE_MIN_LIMIT 4096u /* a peer may not announce less */
#define TF_BODY_MAX (TF_MESSAGE_MAX - 4096u)
#define TF_METHOD_MAX 64u
#define TF_REFS_PER_MESSAGE 1024u
#define TF_MP_DEPTH_MAX 16u
#define TF_MP_ITEMS_MAX 65536u

/* Link window: what may be unacked, items and bytes. */
#define TF_WINDOW_SEGMENTS 4096u
#define TF_WINDOW_BYTES (4u << 20)
#define TF_WINDOW_SEGMENTS_MAX 65536u
#define TF_WINDOW_BYTES_MAX (64u << 20)
#define TF_REPLAY_WINDOW 8192u

/* Session. */
#define TF_REFS_MAX 131072u
#define TF_PROMISES_MAX 65536u
#define TF_RESULTS_MAX 8192u
#define TF_HELD_ITEMS_MAX 1024u /* deliveries that wait for a promise to be resolved, per session */
#define TF_HELD_BYTES_MAX (1u << 20)
#define TF_SHARE_ITEMS 1024u /* of another session, in the out queue of one (D15) */
#define TF_SHARE_BYTES (1u << 20)
#define TF_SHARE_BYTES_LEAST (64u << 10) /* of each, once the shares of one out queue together take */
#define TF_SHARES_BYTES (64u << 20)      /* so much */
#define TF_SHARE_RESULTS 64u /* that it may wait for in any case; else for a quarter of max_results */
#define TF_KEPT_BYTES_MAX (16u << 20) /* of values of promises whose RESOLVE one peer has not acked */
#define TF_UNROLL_MAX 64u /* messages in a row, each of which tells what the one before has named (D7) */
#define TF_REJECTION_MAX 4096u
#define TF_HOPS_MAX 64u       /* a resolution or revocation comes so far: each node counts 1, and what it names (D13) */
#define TF_HOPS_WIRE_MAX 127u /* more is malformed */

/* Hub. */
#define TF_MAX_IN_FLIGHT 32u
#define TF_MAX_IN_FLIGHT_MAX 8192u
#define TF_CHANNEL_NAME_MAX 128u
#define TF_CLIENT_ID_MAX 128u
#define TF_ACTIVITY_ID_MAX 64u
#define TF_META_MAX 1024u
#define TF_CURSOR_NAME_MAX 64u
#define TF_CURSORS_PER_CHANNEL 1024u
#define TF_CHANNELS_MAX 65536u
#define TF_SUBSCRIPTIONS_PER_PEER 1024u
#define TF_PEERS_MAX 4096u /* that a configuration names */
#define TF_CONNECTIONS 16384u
#define TF_CONNECTIONS_MAX 65536u
#define TF_INSTANCES_PER_PEER 16u
#define TF_HANDSHAKES 512u /* connections at a time that have no session yet; others wait to be accepted */
#define TF_HANDSHAKES_MAX 4096u
#define TF_LINGERS_MAX 512u /* connections that were ended and whose last bytes are on their way */
#define TF_BACKLOG 1024u /* connections that wait to be accepted: more would wait for longer than a dial may take */
#define TF_DESCRIPTORS_KEPT 64u /* for the store and for dials, when clients take all others */
#define TF_OUT_QUEUE_ITEMS 16384u /* messages that wait for room in the ring of one connection */
#define TF_OUT_QUEUE_BYTES (4u << 20)
#define TF_STORE_MEMORY_BYTES (1u << 30)

/* Commit log of the embedded store. */
#define TF_LOG_SEGMENT_SIZE (16u << 20)
#define TF_LOG_SEGMENT_SIZE_MIN (256u << 10)
#define TF_LOG_SEGMENT_SIZE_MAX (64u << 20)
#define TF_LOG_SEGMENTS 64u       /* of segment_size, all its files together */
#define TF_LOG_SEGMENTS_MIN 4u
#define TF_LOG_SPARE 8u           /* released segments that are kept to be recycled */
#define TF_LOG_GROUP_MAX (2u << 20) /* at least; more where a segment holds more */

/* Timers (design numbers: PROTOCOL.md "Timers"). */
#define TF_KEEPALIVE (10 * TF_SECOND)
#define TF_IDLE_LIMIT (30 * TF_SECOND)
#define TF_PROBE_MIN (250 * TF_MS)
#define TF_PROBES_DOWN 3u
#define TF_LINK_ACK_DELAY (20 * TF_MS)
#define TF_ASKED_DELAY (5 * TF_MS) /* of an ack that is asked for with PADDING, at most, as far as PTO goes */
#define TF_LINK_ACK_PACKETS 2u
#define TF_LINK_ACK_SEGMENTS 32u
#define TF_SESSION_ACK_DELAY (20 * TF_MS)
#define TF_STALL_MIN (30 * TF_MS)
#define TF_STALL_EXTRA (25 * TF_MS)
#define TF_COPY_WAIT (5 * TF_MS)              /* a copy that found no room for so long is shed */
#define TF_COPY_OVERDUE (50 * TF_MS)          /* and 4 RTT after it was sent, what was shed is copied after all */
#define TF_TRICKLE_MAX (250 * TF_MS)          /* while copies are shed, one packet in a round trip, at most in so long */
#define TF_PROBE_DOWN_SOON (1 * TF_SECOND)    /* at most between probes (or challenges) that nobody answers, */
#define TF_PROBE_DOWN_LATE (10 * TF_SECOND)   /* and later, after */
#define TF_PROBE_SOON_SPAN (60 * TF_SECOND)   /* so long */
#define TF_KEYS_RETIRE_PTOS 3u                /* old keys go so long after both directions work under newer ones */
#define TF_MOVE_PTOS 3u                       /* the old address has so long to answer, */
#define TF_MOVE_SPAN_MAX (1 * TF_SECOND)      /* and no longer */
#define TF_REDUNDANCY_SUSPECT (750 * TF_MS)   /* nothing got through by one route: it is probed, */
#define TF_REDUNDANCY_SPAN (2500 * TF_MS)     /* and if that goes on for so long, redundancy is lost, */
#define TF_REDUNDANCY_TRIES 8u                /* after at least so many packets of ours */
#define TF_REDUNDANCY_PROBES 6u               /* or, of the peer's, so many probes without an answer */
#define TF_STANDBY_BACK (1 * TF_SECOND)       /* a standby route still carries for so long after the other flows again */
#define TF_STANDBY_PROBE (1 * TF_SECOND)      /* between probes of a standby route while there is traffic */
#define TF_FLIPS 3u                           /* a route that stalled so often, each time within */
#define TF_FLIP_SPAN (10 * TF_SECOND)         /* so long of the last, is not trusted at once: */
#define TF_WARY_MIN (1 * TF_SECOND)           /* it counts as stalled for so long, twice as long each time, */
#define TF_WARY_MAX (8 * TF_SECOND)           /* up to this */
#define TF_DIAL_LIMIT (10 * TF_SECOND)
#define TF_DIAL_LIMIT_REDUNDANT (1250 * TF_MS) /* plus 4 RTT, while another route lives */
#define TF_DIAL_STAGGER (250 * TF_MS) /* between the addresses of one dial, RFC 8305 */
#define TF_BACKOFF_MIN (200 * TF_MS)
#define TF_BACKOFF_MAX (30 * TF_SECOND)
#define TF_BACKOFF_MAX_REDUNDANT (1 * TF_SECOND) /* in the first minute while another route lives */
#define TF_BACKOFF_REDUNDANT_SPAN (60 * TF_SECOND)
#define TF_BACKOFF_FLAPPING (4 * TF_SECOND) /* while streams come up, but do not stay */
#define TF_PROGRESS_SPAN (5 * TF_SECOND)    /* a stream that was up for so long was real progress */
#define TF_DIAL_SPACING (1 * TF_SECOND)     /* of the dials of a peer, whatever the reasons for them, */
#define TF_DIAL_BURST 3u                    /* but so many may come at once */
#define TF_REOPEN_FIRST (5 * TF_SECOND)     /* a datagram route that is down for so long gets another socket, */
#define TF_REOPEN_MIN (1 * TF_SECOND)       /* again after so long, doubling, */
#define TF_REOPEN_MAX (30 * TF_SECOND)      /* up to */
#define TF_REHANDSHAKE_AGE (86400 * TF_SECOND)
#define TF_SESSION_TIMEOUT (600 * TF_SECOND)
#define TF_UNREACHABLE_FAILURES 3u
#define TF_UNREACHABLE_SPACING (1 * TF_SECOND) /* without any route each counts as one more */
#define TF_CONNECT_TIMEOUT (10 * TF_SECOND)
#define TF_HANDSHAKE_LIMIT (10 * TF_SECOND)
#define TF_HANDSHAKE_PRESSED (2 * TF_SECOND) /* instead, while others wait to be accepted, */
#define TF_HANDSHAKE_TURNS 8u                /* and it had its turn so often: it is the client that is slow */
#define TF_TCP_RTO_MAX_MS 1000
#define TF_TCP_USER_TIMEOUT_MS 3000
#define TF_TCP_NOTSENT_LOWAT (16 * 1024)

/* Loss detection, RFC 9002 names. */
#define TF_RTT_INITIAL (100 * TF_MS)
#define TF_GRANULARITY (1 * TF_MS)
#define TF_PACKET_THRESHOLD 3u
#define TF_CWND_INITIAL (32u * TF_PACKET_BASE)
#define TF_CWND_MIN (4u * TF_PACKET_BASE)
#define TF_CWND_MAX (1024u * TF_PACKET_BASE)

/* Path MTU of datagrams, RFC 8899. */
#define TF_MTU_PROBES 3u      /* of one size, */
#define TF_MTU_BASE_PROBES 6u /* of the base size */
#define TF_MTU_RAISE (600 * TF_SECOND)
#define TF_MTU_LOST 4u    /* large packets in a row: a black hole, if smaller ones arrive; */
#define TF_MTU_SMALL 548u /* at the base size these are the smaller ones (576 less the headers) */

/* Datagram keys. */
#define TF_KEY_PHASE_PACKETS (1u << 22)
#define TF_KEY_PHASE_PACKETS_MIN 1000u /* about what can be on its way */
#define TF_KEY_PHASE_AGE (3600 * TF_SECOND)
#define TF_FORGERY_LIMIT_GCM ((uint64_t)1 << 52)
#define TF_FORGERY_LIMIT_CHACHA ((uint64_t)1 << 36)

_Static_assert(TF_SEGMENT_DATA_MAX + TF_SEGMENT_HEADER + TF_FRAME_HEADER <= TF_PACKET_PLAIN_BASE, "a segment fits a base packet");
_Static_assert(TF_BODY_MAX + 2048u <= TF_MESSAGE_MAX, "a body and its envelope fit a message");
_Static_assert(TF_MAX_IN_FLIGHT_MAX <= TF_RESULTS_MAX, "every send in flight has a result");
_Static_assert(TF_CONNECTIONS <= TF_CONNECTIONS_MAX && TF_HANDSHAKES <= TF_HANDSHAKES_MAX, "defaults within bounds");
_Static_assert(TF_REPLAY_WINDOW % 64u == 0, "the replay window is whole words");
_Static_assert(TF_WINDOW_SEGMENTS <= TF_WINDOW_SEGMENTS_MAX && TF_WINDOW_BYTES <= TF_WINDOW_BYTES_MAX, "defaults within bounds");

#endif
