/* Frames: the unit of both routes (PROTOCOL.md W1 to W9).
 *
 * type(1) length(2) payload(length), the same on the stream (after TLS) and in a datagram packet (after opening).
 * Here only the bytes; what a frame means is paths/link's business (segments, acks, probes, challenges) and
 * handshake/negotiate's (HELLO, WELCOME). Pure. Any thread. */
#ifndef TF_PROTO_FRAME_H
#define TF_PROTO_FRAME_H

#include "proto/limits.h"
#include "proto/wire.h"

typedef enum tf_frame_type {
    TF_FRAME_PADDING = 0,    /* zero bytes, ignored; datagram only */
    TF_FRAME_HELLO = 1,      /* stream only */
    TF_FRAME_WELCOME = 2,    /* stream only */
    TF_FRAME_SEGMENT = 3,    /* seq u64, flags u8, data (may be empty only for a message of no bytes) */
    TF_FRAME_LINK_ACK = 4,
    TF_FRAME_PACKET_ACK = 5, /* ranges of datagram packet numbers of one generation; travels on any route */
    TF_FRAME_PING = 6,       /* token u64 */
    TF_FRAME_PONG = 7,       /* the token of the PING, on the route on which it came */
    TF_FRAME_CHALLENGE = 8,  /* token u64; datagram only */
    TF_FRAME_RESPONSE = 9,   /* the token of the CHALLENGE; any route */
    TF_FRAME_CLOSE = 10      /* code var, reason text: ends the session for good */
} tf_frame_type;

#define TF_SEGMENT_FIRST 0x01u /* first segment of a message */
#define TF_SEGMENT_LAST 0x02u  /* last segment of a message */

/* seq 2^64 - 1 does not exist, so that a floor can stand behind every segment. */
typedef struct tf_segment {
    uint64_t seq;
    uint8_t flags;
    tf_slice data;
} tf_segment;

/* first..last, both included. */
typedef struct tf_range {
    uint64_t first;
    uint64_t last;
} tf_range;

/* What the sender of the ack received on one route in one generation, absolute. */
typedef struct tf_route_count {
    uint8_t route;
    uint64_t generation;
    uint64_t bytes;   /* of segment data, all copies */
    uint64_t first;   /* segments of which this route brought the first copy */
    uint64_t repeats; /* segments that were there already */
} tf_route_count;

/* All segments below floor are held for good, and those in the ranges. floor itself is missing, and so is the segment
 * after each range: the ranges ascend and neither touch nor overlap. Routes ascend, each at most once. */
typedef struct tf_link_ack {
    uint64_t floor;
    size_t range_count;
    tf_range ranges[TF_ACK_RANGES_MAX];
    size_t route_count;
    tf_route_count routes[TF_ROUTE_COUNT];
} tf_link_ack;

/* Packets received in one generation: ranges descending, not touching, the first holds the largest. delay:
 * microseconds between the arrival of the largest and this ack. Packet numbers, generations, delays and counts are
 * below 2^62. */
typedef struct tf_packet_ack {
    uint64_t generation;
    uint64_t delay;
    size_t range_count; /* at least 1 */
    tf_range ranges[TF_ACK_RANGES_MAX];
} tf_packet_ack;

typedef struct tf_close {
    uint64_t code;
    tf_slice reason; /* UTF-8, for people */
} tf_close;

typedef struct tf_frame {
    tf_frame_type type;
    union {
        tf_slice payload; /* HELLO, WELCOME, PADDING */
        tf_segment segment;
        tf_link_ack link_ack;
        tf_packet_ack packet_ack;
        uint64_t token; /* PING, PONG, CHALLENGE, RESPONSE */
        tf_close close;
    } u;
} tf_frame;

/* Takes the next whole frame off r and validates it. TF_ERR_AGAIN: r ends inside the frame (r is left at the frame's
 * start; on the stream more bytes may come, in a packet that is a fault). TF_ERR_PEER_SYNTAX: malformed, of an unknown
 * type or beyond a limit. The slices in *out point into the input. */
TF_MUST_CHECK tf_err tf_frame_read(tf_reader *r, tf_frame *out);

/* Appends a frame; false, and w unchanged, when it does not fit. A frame that tf_frame_read would refuse is a fault of
 * the caller and asserted (lengths, counts and order; not the UTF-8 of a reason or the zeroes of padding). */
bool tf_frame_write(tf_writer *w, const tf_frame *frame);

/* Bytes that the frame takes, header included. */
size_t tf_frame_size(const tf_frame *frame);

#endif
