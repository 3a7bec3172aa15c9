/* A scenario: who is there, what is sent, what goes wrong when, and what must hold all the same; read from a text file
 * (twofold-lab(1) describes it). Pure: no files, no clock, no memory of its own, so that real programs and a simulator
 * can be driven by the same file.
 *
 * Times are microseconds from the start of the traffic. Everything is bounded, and a tf_scenario holds no pointer: it
 * can be copied. Directions are the client's: out is from the client to the relay. */
#ifndef TF_TESTS_HARNESS_SCENARIO_H
#define TF_TESTS_HARNESS_SCENARIO_H

#include "proto/types.h"

#define TF_SCENARIO_NODES_MAX 17u /* the relay and 16 clients */
#define TF_SCENARIO_FLOWS_MAX 16u
#define TF_SCENARIO_SUBS_MAX 16u
#define TF_SCENARIO_STEPS_MAX 256u
#define TF_SCENARIO_ACTS_MAX 256u
#define TF_SCENARIO_EXPECTS_MAX 32u
#define TF_SCENARIO_PHASES_MAX (2u * (TF_SCENARIO_STEPS_MAX + TF_SCENARIO_ACTS_MAX) + 1u)
#define TF_SCENARIO_NAME_MAX 32u /* with the NUL; the next ones too */
#define TF_SCENARIO_TITLE_MAX 160u
#define TF_SCENARIO_STEP_TEXT_MAX 64u
#define TF_SCENARIO_LINE_MAX 512u
#define TF_SCENARIO_FILE_MAX (1u << 20)
#define TF_SCENARIO_ERRORS_MAX 32u
#define TF_SCENARIO_ERROR_TEXT_MAX 256u
#define TF_SCENARIO_TIME_MAX (86400 * TF_SECOND)
#define TF_SCENARIO_COUNT_MAX 5000000u /* messages of one flow */
#define TF_SCENARIO_BODY_MIN 40u       /* bytes; what is counted and timed travels in the body */
#define TF_SCENARIO_BODY_MAX 65536u

typedef enum tf_scenario_fault {
    TF_FAULT_DELAY,     /* us, one way */
    TF_FAULT_JITTER,    /* us more, at random */
    TF_FAULT_LOSS,      /* millionths */
    TF_FAULT_BURST,     /* packets in a row that loss takes on average; 0 and 1: each by itself */
    TF_FAULT_REPEAT,    /* millionths */
    TF_FAULT_RATE,      /* bits a second; 0: any */
    TF_FAULT_QUEUE,     /* bytes that wait for the rate; 0: the default of whoever emulates it */
    TF_FAULT_BLOAT,     /* us: the queue before the rate (or 20 Mbit/s) is that long, and others fill it (bloat.h) */
    TF_FAULT_MTU,       /* bytes of a packet; 0: any */
    TF_FAULT_BLACKHOLE, /* 1: what goes in is gone, nobody is told; this and the next two are 0 or 1 */
    TF_FAULT_STALL,     /* 1: nothing moves, connections stay */
    TF_FAULT_CUT,       /* 1: connections are reset, new ones refused */
    TF_FAULT_FLAP,      /* us: a blackhole for so long, then none for so long, and so on */
    TF_FAULT_COUNT
} tf_scenario_fault;

/* Directions of a client's route. */
typedef enum tf_scenario_way { TF_WAY_OUT, TF_WAY_IN, TF_WAY_COUNT } tf_scenario_way;

typedef struct tf_scenario_node {
    char name[TF_SCENARIO_NAME_MAX];
    bool is_relay;
    bool is_direct;   /* a client beside the relay: nothing is wrong with its routes */
    tf_routes routes; /* of a client that may carry its messages */
    tf_routes standby;
    uint32_t max_in_flight; /* of the relay; and the next two. 0: the default */
    tf_time session_timeout;
    tf_time keepalive;
} tf_scenario_node;

/* Messages that one client sends to one channel; message i is due at from + i / rate. */
typedef struct tf_scenario_flow {
    char channel[TF_SCENARIO_NAME_MAX];
    uint32_t client; /* node */
    uint32_t size;   /* bytes of a body */
    uint32_t count;
    double rate; /* a second */
    tf_time from;
} tf_scenario_flow;

typedef struct tf_scenario_sub {
    char channel[TF_SCENARIO_NAME_MAX];
    uint32_t client;
} tf_scenario_sub;

/* One thing that is wrong with some routes in [from, to); to TF_NEVER: until the end. Those of [route] sections are
 * wrong all the time. */
typedef struct tf_scenario_step {
    unsigned line;
    bool is_baseline;
    tf_time from;
    tf_time to;
    tf_routes routes;
    unsigned ways;   /* bit 1 << way */
    uint32_t client; /* node; UINT32_MAX: all that are not direct */
    tf_scenario_fault fault;
    uint64_t value;
    char text[TF_SCENARIO_STEP_TEXT_MAX]; /* as written, without its times */
} tf_scenario_step;

typedef enum tf_scenario_act_kind {
    TF_ACT_KILL,  /* at once, as by power */
    TF_ACT_TERM,  /* asked to end */
    TF_ACT_START, /* again, where it was killed or asked to end */
    TF_ACT_PAUSE, /* the process does not run */
    TF_ACT_GO,    /* it runs again */
    TF_ACT_REBIND /* a NAT forgets the client: its datagrams come from another port */
} tf_scenario_act_kind;

typedef struct tf_scenario_act {
    unsigned line;
    tf_time at;
    tf_time until; /* of the line that it is from: at, or the end of its `for` */
    tf_scenario_act_kind kind;
    uint32_t node; /* UINT32_MAX: all clients that are not direct (rebind) */
    char text[TF_SCENARIO_STEP_TEXT_MAX];
} tf_scenario_act;

typedef enum tf_scenario_key {
    TF_KEY_LOST,
    TF_KEY_REPEATED,
    TF_KEY_MISORDERED,
    TF_KEY_ALTERED,
    TF_KEY_UNSENT,
    TF_KEY_UNACKED,
    TF_KEY_REFUSED,
    TF_KEYS_ALWAYS, /* those above must be 0 unless the file says otherwise */
    TF_KEY_DELIVERED = TF_KEYS_ALWAYS,
    TF_KEY_RESCUES,
    TF_KEY_SESSIONS,
    TF_KEY_RESUMES,
    TF_KEY_COPIES,      /* sent and got by clients that are not direct, repeats among them */
    TF_KEY_LONGEST_GAP, /* this and the next: us */
    TF_KEY_LONGEST_DELAY,
    TF_KEY_COUNT
} tf_scenario_key;

typedef enum tf_scenario_relation {
    TF_RELATION_EQUAL,
    TF_RELATION_AT_MOST,
    TF_RELATION_AT_LEAST,
    TF_RELATION_BELOW,
    TF_RELATION_ABOVE
} tf_scenario_relation;

typedef struct tf_scenario_expect {
    unsigned line; /* 0: of those that always hold */
    tf_scenario_key key;
    tf_scenario_relation relation;
    uint64_t value;
} tf_scenario_expect;

typedef struct tf_scenario {
    char title[TF_SCENARIO_TITLE_MAX];
    uint64_t seed;
    tf_time settle;   /* waits at most so long for both routes before the traffic starts */
    tf_time patience; /* waits at most so long after the traffic and the timeline for what is still to come */
    tf_scenario_node nodes[TF_SCENARIO_NODES_MAX];
    uint32_t node_count;
    uint32_t relay; /* node */
    tf_scenario_flow flows[TF_SCENARIO_FLOWS_MAX];
    uint32_t flow_count;
    tf_scenario_sub subs[TF_SCENARIO_SUBS_MAX];
    uint32_t sub_count;
    tf_scenario_step steps[TF_SCENARIO_STEPS_MAX];
    uint32_t step_count;
    tf_scenario_act acts[TF_SCENARIO_ACTS_MAX]; /* by time */
    uint32_t act_count;
    tf_scenario_expect expects[TF_SCENARIO_EXPECTS_MAX]; /* with those that always hold */
    uint32_t expect_count;
} tf_scenario;

/* What is wrong with a file: every line of it, as far as there is room. */
typedef struct tf_scenario_errors {
    unsigned count; /* may be larger than the list */
    struct {
        unsigned line;                         /* 0: of the whole file */
        char text[TF_SCENARIO_ERROR_TEXT_MAX]; /* what is wrong and what would be right */
    } list[TF_SCENARIO_ERRORS_MAX];
} tf_scenario_errors;

/* Reads the text of a file. False: it is none, *errors says all that is wrong with it; *out is then of no use. */
bool tf_scenario_parse(tf_scenario *out, tf_slice text, tf_scenario_errors *errors);

/* What is wrong with one direction of a client's route at `now`; TF_NEVER: before the traffic starts. flap is never
 * set: it is a blackhole now, or not. */
typedef struct tf_scenario_state {
    uint64_t value[TF_FAULT_COUNT];
} tf_scenario_state;

void tf_scenario_state_at(const tf_scenario *s, uint32_t client, tf_route route, tf_scenario_way way, tf_time now,
                          tf_scenario_state *out);
/* The next time after now at which some state changes; TF_NEVER: none does any more. */
tf_time tf_scenario_next_change(const tf_scenario *s, tf_time now);
/* When the last message is due, and the last step or act of the timeline begins or ends. */
tf_time tf_scenario_length(const tf_scenario *s);

/* The run cut at each beginning and end of a step or act. */
typedef struct tf_scenario_phase {
    tf_time from;
    tf_time to;
    char text[2 * TF_SCENARIO_STEP_TEXT_MAX]; /* what is wrong, "" for nothing */
} tf_scenario_phase;

/* The number of phases from 0 to end, all of them written to out. */
size_t tf_scenario_phases(const tf_scenario *s, tf_time end, tf_scenario_phase out[TF_SCENARIO_PHASES_MAX]);

const char *tf_scenario_fault_name(tf_scenario_fault fault);
const char *tf_scenario_key_name(tf_scenario_key key);
const char *tf_scenario_relation_name(tf_scenario_relation relation);
bool tf_scenario_key_is_time(tf_scenario_key key);
/* Whether a flow's messages reach a subscription. */
bool tf_scenario_feeds(const tf_scenario *s, uint32_t flow, uint32_t sub);
/* When a message of a flow is due. */
tf_time tf_scenario_due(const tf_scenario *s, uint32_t flow, uint32_t number);

#endif
