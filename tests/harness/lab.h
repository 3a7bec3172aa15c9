/* The parts of twofold-lab: real relays and clients with impaired routes between them, driven by a scenario.
 *
 * One process runs the timeline and whatever stands between (one thread, one event loop); the relay is the installed
 * program; each client is a process made by fork, so that it can be killed, which writes what it saw to memory that all
 * share. Times are microseconds of tf_edge_now unless said otherwise.
 *
 * In mode sim there are neither processes nor sockets: lab_sim.h, with the same timeline, players and reader. */
#ifndef TF_TESTS_HARNESS_LAB_H
#define TF_TESTS_HARNESS_LAB_H

#include <stdatomic.h>
#include <sys/types.h>

#include "handshake/identity.h"
#include "node/why.h"
#include "tests/harness/verdict.h"

struct event;
struct event_base;

#define TF_LAB_SAMPLE (100 * TF_MS)
#define TF_LAB_POLL (20 * TF_MS)      /* the longest time in which a process does not look at what is shared */
#define TF_LAB_SETUP (60 * TF_SECOND) /* after which a client that is not ready never will be; and the next one */
#define TF_LAB_GRACE (10 * TF_SECOND) /* after which a process that is asked to end is killed */
#define TF_LAB_LINGER (300 * TF_MS)   /* after everything came: in which something may come again */
#define TF_LAB_FOLDER_MAX 256u
#define TF_LAB_TEXT_MAX 384u
/* Of the relay: more than a second of a usual scenario, so that it is the routes that are measured. */
#define TF_LAB_IN_FLIGHT 1024u
#define TF_LAB_CANNOT 3 /* exit status: it cannot be run here, or something of the laboratory failed */
#define TF_LAB_NOT_READY "a client could not connect and subscribe within 60 s"

typedef enum tf_lab_mode { TF_LAB_FORWARDERS, TF_LAB_NAMESPACES, TF_LAB_SIM } tf_lab_mode;

typedef struct tf_lab_options {
    tf_lab_mode mode;
    tf_routes routes;    /* that clients may use at most */
    const char *twofold; /* the program */
    bool keep;           /* the folder with logs and the store */
} tf_lab_options;

/* -- what is shared ------------------------------------------------------------------------------------------------ */

/* The states of a message at its publisher. */
typedef enum tf_lab_message { TF_LAB_UNSENT, TF_LAB_SENT, TF_LAB_ACKED, TF_LAB_REFUSED } tf_lab_message;

typedef struct tf_lab_record {
    tf_time at;
    uint64_t seq; /* of the channel: where a subscriber that was killed goes on */
    uint32_t number;
    uint16_t flow;
    bool intact;
} tf_lab_record;

typedef struct tf_lab_shared_flow {
    uint8_t *messages;         /* tf_lab_message, by number */
    _Atomic uint32_t answered; /* acked or refused */
} tf_lab_shared_flow;

typedef struct tf_lab_shared_sub {
    tf_lab_record *records;
    size_t capacity;
    _Atomic size_t count; /* may be larger than the capacity: what is beyond it was not written */
} tf_lab_shared_sub;

typedef struct tf_lab_shared_client {
    tf_lab_sample *samples;
    size_t capacity;
    _Atomic size_t count;
    atomic_bool ready;
    char error[TF_LAB_TEXT_MAX]; /* why it ended by itself */
} tf_lab_shared_client;

typedef struct tf_lab_shared {
    size_t size;           /* of the mapping */
    _Atomic tf_time start; /* 0: not yet */
    atomic_bool stop;
    tf_lab_shared_flow flows[TF_SCENARIO_FLOWS_MAX];
    tf_lab_shared_sub subs[TF_SCENARIO_SUBS_MAX];
    tf_lab_shared_client clients[TF_SCENARIO_NODES_MAX]; /* by node */
} tf_lab_shared;

/* NULL: there is no memory. */
tf_lab_shared *tf_lab_shared_new(const tf_scenario *s);
void tf_lab_shared_free(tf_lab_shared *shared);

/* -- what happens -------------------------------------------------------------------------------------------------- */

/* Plays the timeline. The first four are the caller's to set. */
typedef struct tf_lab_timeline {
    const tf_scenario *s;
    /* Of clients that are not direct, when something changes. */
    void (*apply)(void *ctx, uint32_t node, tf_route route, tf_scenario_way way, const tf_scenario_state *state);
    void (*act)(void *ctx, const tf_scenario_act *act);
    void *ctx;
    tf_time changed; /* for when the routes are as they should be; TF_NEVER: as before the start */
    tf_scenario_state states[TF_SCENARIO_NODES_MAX][TF_ROUTE_COUNT][TF_WAY_COUNT]; /* as they were applied */
    bool applied;
    uint32_t next_act;
} tf_lab_timeline;

/* The routes become as they are before the traffic starts. */
void tf_lab_timeline_begin(tf_lab_timeline *t);
/* Does what is due by now, a time from the start. When the next thing is. */
tf_time tf_lab_timeline_play(tf_lab_timeline *t, tf_time now);

/* -- what came of it ----------------------------------------------------------------------------------------------- */

/* Takes what the clients noted to the verdict. The first three, and later the start, are the caller's to set. */
typedef struct tf_lab_reader {
    const tf_scenario *s;
    const tf_lab_shared *shared;
    tf_lab_verdict *verdict;
    tf_time start; /* 0: not yet */
    size_t records_read[TF_SCENARIO_SUBS_MAX];
    size_t samples_read[TF_SCENARIO_NODES_MAX];
    tf_time complete_at; /* since when all is there; 0: it is not */
} tf_lab_reader;

void tf_lab_reader_read(tf_lab_reader *r);
/* All clients are ready for the traffic. */
bool tf_lab_reader_is_ready(const tf_lab_reader *r);
/* Whether the run is over, for better or worse. now: not before what was read last. */
bool tf_lab_reader_is_over(tf_lab_reader *r, tf_time now);
/* What was read and noted is judged. ended: when the clients were told to end. */
const tf_lab_results *tf_lab_reader_end(tf_lab_reader *r, tf_time ended);

/* -- a client ------------------------------------------------------------------------------------------------------ */

typedef struct tf_lab_role {
    const tf_scenario *s;
    uint32_t node;
    const char *uri;
    const tf_identity *identity;
    tf_routes routes;
    tf_lab_shared *shared;
} tf_lab_role;

/* Runs a client until it is told to stop; logs to stderr. The exit status of its process. */
int tf_lab_client_run(const tf_lab_role *role);

/* -- what stands between ------------------------------------------------------------------------------------------- */

typedef struct tf_lab_net tf_lab_net;

/* One way to build routes. Every function that fails leaves words in why. */
typedef struct tf_lab_net_kind {
    const char *name;
    /* Before anything is started. NULL on failure. */
    tf_lab_net *(*create)(const tf_scenario *s, struct event_base *base, char why[TF_WHY_MAX]);
    void (*destroy)(tf_lab_net *net);
    const char *listen_host; /* of the relay */
    /* Once the relay's port is known. */
    bool (*open)(tf_lab_net *net, uint16_t port, char why[TF_WHY_MAX]);
    /* In the child that becomes that node. False: it cannot. */
    bool (*enter)(const tf_lab_net *net, uint32_t node);
    /* Where a client finds the relay: HOST:PORT of the stream and of the datagrams. */
    void (*addresses)(const tf_lab_net *net, uint32_t node, char stream[64], char datagram[64]);
    void (*apply)(tf_lab_net *net, uint32_t node, tf_route route, tf_scenario_way way, const tf_scenario_state *state);
    void (*rebind)(tf_lab_net *net, uint32_t node);
} tf_lab_net_kind;

extern const tf_lab_net_kind tf_lab_forwarders;
extern const tf_lab_net_kind tf_lab_namespaces;

/* -- processes ----------------------------------------------------------------------------------------------------- */

typedef struct tf_lab_process {
    pid_t pid;         /* 0: does not run */
    bool is_ending;    /* it was killed or asked to end */
    bool starts_again; /* as soon as it has ended */
} tf_lab_process;

typedef struct tf_lab {
    const tf_scenario *s;
    const tf_lab_options *options;
    const tf_lab_net_kind *kind;
    tf_lab_net *net;
    struct event_base *base;
    tf_lab_shared *shared;
    char folder[TF_LAB_FOLDER_MAX];
    char relay_id[64]; /* node id, as text */
    uint16_t port;
    tf_identity *identities[TF_SCENARIO_NODES_MAX];
    tf_lab_process processes[TF_SCENARIO_NODES_MAX]; /* by node */
    char failure[TF_LAB_TEXT_MAX];                   /* what went wrong with the laboratory itself; "": nothing */
} tf_lab;

/* Keeps the first one. */
__attribute__((format(printf, 2, 3))) void tf_lab_fail(tf_lab *lab, const char *format, ...);
/* Starts the relay for the first time and waits until it says its URI. */
bool tf_lab_start_relay(tf_lab *lab);
/* Starts a node, again or for the first time. */
void tf_lab_start(tf_lab *lab, uint32_t node);
void tf_lab_signal(tf_lab *lab, uint32_t node, int number);
/* Looks who has ended; starts again who is to. Ends of their own accord are failures. */
void tf_lab_reap(tf_lab *lab);
bool tf_lab_runs_any(const tf_lab *lab, bool clients_only);

/* -- a run --------------------------------------------------------------------------------------------------------- */

/* Runs the scenario once. *out is the caller's, the results are its. False: the laboratory failed, and why is told. */
bool tf_lab_run(const tf_scenario *s, const tf_lab_options *options, tf_lab_verdict **out,
                const tf_lab_results **results, char why[TF_LAB_TEXT_MAX]);
/* The same in virtual time, without a process or a socket (lab_sim.h). A promise that the simulator itself finds broken
 * ends the program with its text and TF_LAB_CANNOT. */
bool tf_lab_sim_run(const tf_scenario *s, const tf_lab_options *options, tf_lab_verdict **out,
                    const tf_lab_results **results, char why[TF_LAB_TEXT_MAX]);

#endif
