/* Two links on the virtual network, each driven as an edge drives it: bytes and packets in, messages and events out, what
 * can be sent pulled, one timer. The keys of a generation exist at an end from the handshake until its link says RETIRED.
 *
 * After every event the rules that hold at all times are checked (bounds, a deadline in the future once its tick is done);
 * a broken one ends the program with the seed's own message. */
#ifndef TF_TESTS_SIM_ENDS_H
#define TF_TESTS_SIM_ENDS_H

#include <stdio.h>

#include "dedup/replay.h"
#include "handshake/keys.h"
#include "paths/link.h"
#include "tests/sim/net.h"

#define ENDS_KEYS 4u

typedef struct ends ends;

typedef struct ends_key {
    bool held;
    uint64_t generation;
    tf_replay replay;
    tf_keys *sealing; /* NULL: packets go as they are */
} ends_key;

typedef struct ends_end {
    tf_link *link;
    tf_test_heap heap;
    tf_test_random random;
    ends_key keys[ENDS_KEYS];
    bool stream; /* this end believes in the stream */
    uint64_t stream_generation;
    uint8_t *partial; /* stream bytes that are no whole frame yet */
    size_t partial_len;
    uint64_t timer; /* the id of the latest one; older ones are void */
    tf_time timer_at;
    uint64_t verdicts[TF_ROUTE_COUNT][5]; /* VERDICT events */
    uint64_t confirmed;
    uint64_t retired;
    uint64_t unreachable;
    uint64_t redundancy_lost[TF_ROUTE_COUNT];
    uint64_t inbound_lost[TF_ROUTE_COUNT]; /* of these */
    uint64_t closed;
    uint64_t close_code;
    uint64_t moved[2];     /* MOVED events, by `moved` */
    uint64_t candidates;   /* packets for an address under test */
    bool candidate_dead;   /* those are lost, */
    bool old_address_dead; /* or the others */
    uint64_t packets;      /* sent */
    uint64_t frames_bytes; /* of packets and stream writes */
} ends_end;

typedef struct ends_handlers {
    void *ctx;
    void (*message)(void *ctx, unsigned end, tf_slice message, tf_route via);
    void (*event)(void *ctx, unsigned end, const tf_link_event *event); /* may be NULL */
    void (*timer)(void *ctx, unsigned end, uint64_t id);                /* ids below 2^63 */
    void (*turn)(void *ctx, unsigned end);                              /* room may have become free; may be NULL */
} ends_handlers;

struct ends {
    net *net;
    tf_link_config config; /* as both use it; changed before ends_start */
    ends_end end[NET_ENDS];
    ends_handlers handlers;
    uint64_t generation; /* the last one assigned */
    bool sealed;         /* packets are sealed under real keys, with their phases; set before ends_connect */
    uint64_t seed;
};

void ends_init(ends *e, uint64_t seed, const ends_handlers *handlers);
/* Makes the links. `configure` may be NULL: it changes the config of one end. */
void ends_start(ends *e, void (*configure)(tf_link_config *config, unsigned end));
void ends_free(ends *e);

/* A handshake: a stream opens (where there is none), both ends get it and, where datagrams are negotiated, new keys. */
void ends_connect(ends *e);
/* As it would be after a while without any route: both ends say what they expect, then ends_connect. */
void ends_resume(ends *e);
/* New keys without a new stream: not what the protocol does, but what a lost stream right after the handshake looks like. */
void ends_keys(ends *e);
void ends_cut(ends *e, const size_t keep[NET_ENDS], const tf_time learns[NET_ENDS]);

/* Sends, then pulls. */
tf_err ends_send(ends *e, unsigned end, tf_slice message);
/* Sends and does not pull: for batches. */
tf_err ends_queue(ends *e, unsigned end, tf_slice message);
void ends_pull(ends *e, unsigned end);

/* The newest keys of an end, where packets are sealed. */
const tf_keys *ends_keys_of(const ends *e, unsigned end);

/* How both ends are, for people. */
void ends_print(const ends *e, FILE *to);

/* Runs until the clock stands at `until`. */
void ends_run(ends *e, tf_time until);
/* Runs for `span`. */
void ends_run_for(ends *e, tf_time span);

#endif
