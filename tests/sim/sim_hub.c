/* A relay and three clients, whole cores over the virtual network, one run a seed. Every client publishes to two channels
 * and is subscribed to both, and calls an object of the next one (callers.h). Each seed turns on its own faults: lossy
 * routes, broken streams, lost sessions, restarts of the relay on its surviving store, slow and refusing commits,
 * applications that take their events late.
 *
 * While faults are on every event is checked: acked is stored once, under the id and seq of the ack (P1); each channel's
 * activities come with n, n+1, … without gap or repeat (P2); the sends of one client are stored in their order (P6); what
 * waits is bounded (P7). Then all heals: everything must be acked and delivered, and then it must fall silent (P9). Every
 * seed runs twice and both traces must be the same.
 *
 *     sim_hub [--seeds A..B] [--verbose] */
#include <stdio.h>
#include <stdlib.h>

#include "node/client.h"
#include "tests/sim/callers.h"
#include "tests/sim/hub_faults.h"
#include "tests/sim/seeds.h"
#include "tests/sim/slow_store.h"
#include "tests/sim/wire.h"

#define SEEDS_DEFAULT 16u
#define CLIENTS 3u
#define CHANNELS 2u
#define SENDS_MAX 1500u
#define FAULTS_SPAN (4 * TF_SECOND)
#define HEAL_SPAN (40 * TF_SECOND)
#define SILENT_SPAN (60 * TF_SECOND)
#define SILENT_BYTES 12000u /* of keepalives, probes and their answers, on one wire */

/* What one client knows of one channel. */
typedef struct view {
    size_t handle;
    unsigned sent;   /* numbers 1 .. sent were handed to the client */
    unsigned acked;  /* 1 .. acked have their ack, in order */
    uint64_t seqs[SENDS_MAX + 1]; /* of the acks */
    bool subscribed;
    bool echo;
    uint64_t next; /* seq of the activity to come */
} view;

typedef struct sim_client {
    wire_side side;
    tf_client *client;
    net *net;
    wire wire;
    view views[CHANNELS];
    caller caller;
    tf_time reconnect_at; /* TF_NEVER: connected */
    tf_time send_at;
    tf_time pull_at; /* a slow application takes its events then */
} sim_client;

typedef struct sim {
    uint64_t seed;
    uint32_t faults;
    bool on;
    tf_test_heap heap;
    tf_test_random random;
    tf_time now;
    slow_store store;
    wire_side relay;
    uint64_t trace;
    sim_client clients[CLIENTS];
    tf_time fault_at;
    uint64_t session_losses;
    uint64_t restarts;
    uint64_t deliveries;
} sim;

static const char *const channel_names[CHANNELS] = {"a", "b/c"};

static bool has(const sim *s, fault f)
{
    return (s->faults & (1u << f)) != 0;
}

static void fail(const sim *s, const char *what)
{
    (void)fprintf(stderr, "seed %llu, at %llu us: %s; faults:", (unsigned long long)s->seed, (unsigned long long)s->now,
                  what);
    for (unsigned f = 0; f < FAULT_COUNT; f++) {
        (void)fprintf(stderr, "%s%s", has(s, (fault)f) ? " " : "", has(s, (fault)f) ? fault_names[f] : "");
    }
    (void)fprintf(stderr, "\n");
    abort();
}

/* What is wrong with what a caller saw; NULL: nothing. */
static void require_none(const sim *s, const char *wrong)
{
    if (wrong != NULL) {
        fail(s, wrong);
    }
}

static void require(const sim *s, bool condition, const char *what)
{
    if (!condition) {
        fail(s, what);
    }
}

static uint64_t below(sim *s, uint64_t bound)
{
    return tf_test_random_below(&s->random, bound);
}

static void mix(sim *s, uint64_t value)
{
    s->trace = (s->trace ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    s->trace ^= s->trace >> 29;
}

/* --- checkers --- */

static size_t write_body(char *body, size_t cap, unsigned client, unsigned number)
{
    int len = snprintf(body, cap, "%u:%u", client, number);
    return len > 0 ? (size_t)len : 0;
}

static tf_stored stored_at(sim *s, unsigned channel, uint64_t seq)
{
    tf_store_channel found;
    tf_stored stored = {.seq = 0};
    tf_slice name = tf_slice_str(channel_names[channel]);
    require(s, s->store.inner.table->channel_find(s->store.inner.ctx, name, &found) == TF_OK, "no channel");
    require(s, seq >= 1 && seq <= found.head, "a seq that is not stored (P1)");
    require(s, s->store.inner.table->read(s->store.inner.ctx, found.number, seq, &stored) == TF_STORE_HERE, "not there");
    return stored;
}

/* Is this the id of that message? */
static bool is_id_of(const tf_stored *stored, tf_slice id)
{
    uint8_t bytes[TF_ACTIVITY_ID_MAX];
    return tf_slice_eq(tf_slice_of(bytes, tf_stored_id(stored->epoch, stored->seq, bytes)), id);
}

static void check_ack(sim *s, unsigned client, const tf_client_event *event)
{
    char body[32];
    unsigned channel = (unsigned)(event->cookie >> 32);
    unsigned number = (unsigned)event->cookie;
    view *v = &s->clients[client].views[channel];
    require(s, number == v->acked + 1, "an ack out of turn");
    v->acked = number;
    v->seqs[number] = event->seq;
    require(s, number == 1 || v->seqs[number] > v->seqs[number - 1], "stored out of order (P6)");
    tf_stored stored = stored_at(s, channel, event->seq);
    require(s, is_id_of(&stored, event->id), "another id is stored than was acked (P1)");
    require(s, stored.timestamp_ms == event->timestamp_ms, "another timestamp");
    size_t len = write_body(body, sizeof(body), client, number);
    require(s, stored.body.len >= len && memcmp(stored.body.data, body, len) == 0, "another body (P1)");
}

static void check_activity(sim *s, unsigned client, unsigned channel, const tf_client_event *event)
{
    view *v = &s->clients[client].views[channel];
    require(s, v->subscribed, "an activity before the answer");
    if (v->echo) {
        require(s, event->seq == v->next, "a gap or a repeat (P2)");
    } else {
        require(s, event->seq >= v->next, "a repeat (P2)");
        for (uint64_t seq = v->next; seq < event->seq; seq++) {
            tf_stored missing = stored_at(s, channel, seq);
            require(s, tf_node_id_eq(&missing.origin, &s->clients[client].side.id), "a gap (P2)");
        }
    }
    v->next = event->seq + 1;
    tf_stored stored = stored_at(s, channel, event->seq);
    require(s, tf_slice_eq(stored.body, event->body) && is_id_of(&stored, event->id), "not what is stored");
    s->deliveries++;
}

static unsigned channel_of(const sim_client *c, size_t handle)
{
    return c->views[0].handle == handle ? 0 : 1;
}

static void take_events(sim *s, unsigned client)
{
    sim_client *c = &s->clients[client];
    tf_client_event event;
    while (tf_client_next_event(c->client, &event)) {
        unsigned channel = channel_of(c, event.channel);
        view *v = &c->views[channel];
        mix(s, (uint64_t)event.type * 1000003u + event.seq);
        switch (event.type) {
        case TF_CLIENT_ACK:
            check_ack(s, client, &event);
            break;
        case TF_CLIENT_ACTIVITY:
            check_activity(s, client, channel, &event);
            break;
        case TF_CLIENT_SUBSCRIBED:
            require(s, !v->subscribed || event.next >= v->next, "a subscription that goes back");
            v->next = v->subscribed ? v->next : event.next;
            v->subscribed = true;
            break;
        case TF_CLIENT_GAP:
        case TF_CLIENT_REFUSED:
        case TF_CLIENT_CHANNEL_REFUSED:
        case TF_CLIENT_CLOSED:
        case TF_CLIENT_ENDED:
        case TF_CLIENT_CONFIRMED:
            fail(s, "nobody trims, refuses for good or closes here");
            break;
        case TF_CLIENT_ANSWER:
        case TF_CLIENT_PUBLISHED:
        case TF_CLIENT_PUBLISH_REFUSED:
        case TF_CLIENT_WITHDRAWN:
            require_none(s, caller_told(&c->caller, s->now, &event));
            break;
        case TF_CLIENT_OPENED:
        case TF_CLIENT_ROOM:
            break;
        }
    }
    require_none(s, caller_pull(&c->caller, s->now));
}

static void check_bounds(sim *s)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        const tf_conn *conn = s->clients[i].wire.end[1].conn;
        if (conn != NULL) {
            size_t bytes = tf_session_out_bytes(tf_conn_session(conn));
            require(s, bytes <= TF_OUT_QUEUE_BYTES + 64u * 1024u, "more waits than the queue may hold (P7)");
        }
    }
}

/* --- the cast --- */

static void make_relay(sim *s)
{
    tf_store store = slow_get(&s->store);
    tf_hub_config config = {.mem = &s->heap.mem,
                            .rand = &s->random.rand,
                            .store = &store,
                            .instance = tf_test_random_u64(&s->random)};
    if (has(s, FAULT_TINY_QUEUE)) {
        config.out_queue_items = 8;
        config.out_queue_bytes = 4096;
    }
    memset(config.node_id.bytes, 0xee, TF_NODE_ID_LEN);
    s->relay = (wire_side){NULL, config.node_id, config.instance};
    require(s, tf_hub_new(&s->relay.hub, &config) == TF_OK, "out of memory");
}

static void make_client(sim *s, unsigned index)
{
    sim_client *c = &s->clients[index];
    tf_hub_config config = {.mem = &s->heap.mem, .rand = &s->random.rand, .instance = 1000 + index};
    memset(config.node_id.bytes, (int)index + 1, TF_NODE_ID_LEN);
    c->side = (wire_side){NULL, config.node_id, config.instance};
    require(s, tf_hub_new(&c->side.hub, &config) == TF_OK, "out of memory");
    tf_client_config client = {.instance = config.instance, .queue_items = 64};
    require(s, tf_client_new(&c->client, c->side.hub, &client) == TF_OK, "out of memory");
    for (unsigned i = 0; i < CHANNELS; i++) {
        view *v = &c->views[i];
        tf_from from = {below(s, 2) == 0 ? TF_FROM_FIRST : TF_FROM_NEW, 0};
        v->echo = below(s, 2) == 0;
        require(s, tf_client_open(c->client, s->now, tf_slice_str(channel_names[i]), &v->handle) == TF_OK, "open");
        require(s, tf_client_subscribe(c->client, s->now, v->handle, &(tf_subscribe){.from = from, .echo = v->echo}) == TF_OK, "subscribe");
    }
    c->caller = (caller){.hub = c->side.hub, .client = c->client, .random = &s->random};
    require(s, caller_begin(&c->caller, index, CLIENTS), "out of memory");
    c->net = net_new(tf_test_random_u64(&s->random));
    wire_init(&c->wire, c->net, &s->heap.mem, &s->random.rand);
    c->reconnect_at = s->now + below(s, 200 * TF_MS);
    c->send_at = s->now;
    for (unsigned end = 0; end < NET_ENDS; end++) {
        tf_time delay = 200 + below(s, 20 * TF_MS);
        *net_path_of(c->net, end) = (net_path){.delay = delay, .queue = SIZE_MAX};
        *net_pipe_of(c->net, end) = (net_pipe){.delay = delay, .buffer = 65536};
        net_path_of(c->net, end)->loss = has(s, FAULT_LOSS) ? (unsigned)below(s, 300) : 0;
        net_path_of(c->net, end)->repeat = has(s, FAULT_LOSS) ? (unsigned)below(s, 200) : 0;
        net_path_of(c->net, end)->jitter = has(s, FAULT_JITTER) ? below(s, 3 * delay) : 0;
    }
}

/* --- what happens --- */

static void send_some(sim *s, unsigned client)
{
    static uint8_t body[20000];
    sim_client *c = &s->clients[client];
    unsigned channel = (unsigned)below(s, CHANNELS);
    view *v = &c->views[channel];
    c->send_at = s->now + below(s, 20 * TF_MS);
    for (uint64_t i = below(s, 12); i > 0 && v->sent < SENDS_MAX; i--) {
        memset(body, ' ', sizeof(body));
        size_t len = write_body((char *)body, sizeof(body), client, v->sent + 1);
        size_t padded = has(s, FAULT_BIG_BODIES) && below(s, 10) == 0 ? sizeof(body) : len;
        tf_send send = {.body = tf_slice_of(body, padded), .cookie = (uint64_t)channel << 32 | (v->sent + 1)};
        if (tf_client_send(c->client, s->now, v->handle, &send) != TF_OK) {
            return; /* no room: later */
        }
        v->sent++;
    }
}

static void lose_session(sim *s, unsigned client, bool both)
{
    sim_client *c = &s->clients[client];
    wire_lose(&c->wire, 0);
    if (both) {
        wire_lose(&c->wire, 1); /* else the relay learns of it by the next session */
    }
    c->reconnect_at = s->now + 1 + below(s, 300 * TF_MS);
}

static void restart_relay(sim *s)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        lose_session(s, i, true);
    }
    slow_crash(&s->store);
    tf_hub_free(s->relay.hub);
    make_relay(s);
    s->restarts++;
}

static void cause_fault(sim *s)
{
    unsigned client = (unsigned)below(s, CLIENTS);
    net_path *path = net_path_of(s->clients[client].net, (unsigned)below(s, NET_ENDS));
    s->fault_at = s->now + 1 + below(s, 400 * TF_MS);
    if (has(s, FAULT_STREAM_CUT) && below(s, 2) == 0) {
        wire_cut(&s->clients[client].wire);
    }
    path->hole = has(s, FAULT_DATAGRAM_HOLE) && below(s, 3) == 0;
    if (has(s, FAULT_SESSION_LOST) && below(s, 3) == 0 && wire_is_open(&s->clients[client].wire)) {
        lose_session(s, client, below(s, 2) == 0);
        s->session_losses++;
    }
    if (has(s, FAULT_RESTART) && below(s, 8) == 0) {
        restart_relay(s);
    }
}

static void reconnect(sim *s, unsigned client)
{
    sim_client *c = &s->clients[client];
    const wire_side sides[NET_ENDS] = {c->side, s->relay};
    wire_lose(&c->wire, 1); /* a HELLO without resume ends the session before (D14) */
    wire_open(&c->wire, sides);
    tf_client_bind(c->client, s->now, c->wire.end[0].conn);
    c->reconnect_at = TF_NEVER;
}

static void act(sim *s)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        sim_client *c = &s->clients[i];
        if (s->now >= c->reconnect_at) {
            reconnect(s, i);
        }
        if (s->on && s->now >= c->send_at) {
            send_some(s, i);
        }
        if (s->now >= c->caller.act_at) {
            require_none(s, caller_act(&c->caller, s->now));
        }
        if (s->now >= c->pull_at) {
            take_events(s, i);
            c->pull_at = s->on && has(s, FAULT_SLOW_APPLICATION) ? s->now + below(s, 300 * TF_MS) : 0;
        }
    }
    if (s->on && s->now >= s->fault_at) {
        cause_fault(s);
    }
}

static void run_hub(sim *s, tf_hub *hub)
{
    tf_hub_event event;
    tf_conn *dirty = NULL;
    while (tf_hub_run(hub, s->now, 1700000000000 + (int64_t)(s->now / 1000))) {
    }
    if (tf_hub_next_event(hub, &event)) {
        fail(s, event.text);
    }
    while (tf_hub_next_dirty(hub, &dirty)) {
    }
}

/* When something is to happen next. */
static tf_time next_time(const sim *s)
{
    tf_time at = tf_time_min(slow_deadline(&s->store), s->on ? s->fault_at : TF_NEVER);
    for (unsigned i = 0; i < CLIENTS; i++) {
        const sim_client *c = &s->clients[i];
        at = tf_time_min(at, net_peek(c->net));
        at = tf_time_min(at, c->reconnect_at);
        at = tf_time_min(at, c->caller.act_at);
        at = tf_time_min(at, tf_hub_deadline(c->side.hub));
        at = tf_time_min(at, s->on ? c->send_at : TF_NEVER);
        at = tf_time_min(at, c->pull_at > s->now ? c->pull_at : TF_NEVER);
    }
    return tf_time_max(at, s->now);
}

/* Runs until `until`, event by event. */
static void run(sim *s, tf_time until)
{
    while (next_time(s) <= until) {
        s->now = next_time(s);
        s->store.now = s->now;
        for (unsigned i = 0; i < CLIENTS; i++) {
            wire_advance(&s->clients[i].wire, s->now);
        }
        act(s);
        run_hub(s, s->relay.hub);
        for (unsigned i = 0; i < CLIENTS; i++) {
            run_hub(s, s->clients[i].side.hub);
        }
        for (unsigned i = 0; i < CLIENTS; i++) {
            if (s->now >= s->clients[i].pull_at) {
                take_events(s, i);
            }
            wire_pull(&s->clients[i].wire, 0);
            wire_pull(&s->clients[i].wire, 1);
        }
        check_bounds(s);
    }
    s->now = until;
}

/* --- a seed --- */

static void heal(sim *s)
{
    s->on = false;
    s->store.refusals = 0;
    s->store.later = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        s->clients[i].pull_at = 0;
        for (unsigned end = 0; end < NET_ENDS; end++) {
            net_path *path = net_path_of(s->clients[i].net, end);
            path->hole = false;
            path->loss = 0;
            path->repeat = 0;
        }
    }
}

/* Once all is well everybody reaches everybody; then all of it ends. */
static void end_calls(sim *s)
{
    uint64_t answered[CLIENTS];
    run(s, s->now + HEAL_SPAN / 4);
    for (unsigned i = 0; i < CLIENTS; i++) {
        answered[i] = s->clients[i].caller.answered;
    }
    run(s, s->now + TF_SECOND);
    for (unsigned i = 0; i < CLIENTS; i++) {
        require(s, s->clients[i].caller.answered > answered[i], "an object cannot be called");
        caller_finish(&s->clients[i].caller, s->now);
    }
    run(s, s->now + HEAL_SPAN);
    for (unsigned i = 0; i < CLIENTS; i++) {
        require(s, s->clients[i].caller.waiting_count == 0, "a call was never answered");
        mix(s, s->clients[i].caller.trace);
    }
}

static uint64_t head_of(sim *s, unsigned channel)
{
    tf_store_channel found;
    tf_err err = s->store.inner.table->channel_find(s->store.inner.ctx, tf_slice_str(channel_names[channel]), &found);
    require(s, err == TF_OK, "no channel");
    return found.head;
}

static void check_converged(sim *s)
{
    for (unsigned channel = 0; channel < CHANNELS; channel++) {
        uint64_t head = head_of(s, channel);
        uint64_t sent = 0;
        for (unsigned i = 0; i < CLIENTS; i++) {
            const view *v = &s->clients[i].views[channel];
            sent += v->sent;
            require(s, v->acked == v->sent, "a send was never acked");
            for (uint64_t seq = v->next; seq <= head; seq++) {
                tf_stored stored = stored_at(s, channel, seq);
                require(s, !v->echo && tf_node_id_eq(&stored.origin, &s->clients[i].side.id),
                        "an activity was never delivered (P2)");
            }
        }
        require(s, sent == head, "something is stored twice, or was invented (P1)");
    }
}

static void check_quiet_session(sim *s, const tf_conn *conn)
{
    tf_session_stats stats;
    tf_session_get_stats(tf_conn_session(conn), &stats);
    require(s, stats.promises_ours == 0 && stats.promises_theirs == 0, "promises are left (P5)");
    require(s, stats.retirements == 0, "the retirement table is not empty (P5)");
    require(s, stats.imports + stats.exports == 2 + 3 * CHANNELS, "references are left (P5)");
}

static void check_silence(sim *s)
{
    uint64_t before[CLIENTS];
    run(s, s->now + 2 * TF_SECOND);
    for (unsigned i = 0; i < CLIENTS; i++) {
        before[i] = net_written(s->clients[i].net, 0) + net_written(s->clients[i].net, 1);
    }
    run(s, s->now + SILENT_SPAN);
    for (unsigned i = 0; i < CLIENTS; i++) {
        uint64_t after = net_written(s->clients[i].net, 0) + net_written(s->clients[i].net, 1);
        require(s, after - before[i] < SILENT_BYTES, "it does not fall silent (P9)");
        check_quiet_session(s, s->clients[i].wire.end[0].conn);
        check_quiet_session(s, s->clients[i].wire.end[1].conn);
    }
}

static void set_up(sim *s, uint64_t seed)
{
    memset(s, 0, sizeof(*s));
    s->seed = seed;
    s->on = true;
    tf_test_heap_init(&s->heap);
    tf_test_random_init(&s->random, seed);
    s->faults = (uint32_t)(tf_test_random_u64(&s->random) & tf_test_random_u64(&s->random)) & ((1u << FAULT_COUNT) - 1);
    s->faults |= seed == 0 ? 0 : 1u << (seed % FAULT_COUNT);
    slow_init(&s->store, &s->random, &s->heap.mem);
    s->store.least = has(s, FAULT_SLOW_COMMIT) ? TF_MS : 0;
    s->store.spread = has(s, FAULT_SLOW_COMMIT) ? 60 * TF_MS : 500;
    s->store.refusals = has(s, FAULT_REFUSALS) ? 150 : 0;
    s->store.later = has(s, FAULT_LATE_READS) ? 200 : 0;
    make_relay(s);
    for (unsigned i = 0; i < CLIENTS; i++) {
        make_client(s, i);
    }
}

static void take_down(sim *s)
{
    for (unsigned i = 0; i < CLIENTS; i++) {
        sim_client *c = &s->clients[i];
        mix(s, net_trace(c->net));
        wire_free(&c->wire);
        tf_client_free(c->client);
        tf_hub_free(c->side.hub);
        net_free(c->net);
    }
    slow_crash(&s->store);
    tf_hub_free(s->relay.hub);
    slow_free(&s->store);
    require(s, s->heap.live_blocks == 0, "memory is left");
}

static uint64_t run_seed(uint64_t seed, bool verbose)
{
    static sim s;
    set_up(&s, seed);
    run(&s, FAULTS_SPAN);
    heal(&s);
    end_calls(&s);
    check_converged(&s);
    check_silence(&s);
    take_down(&s);
    if (verbose) {
        const caller *c = &s.clients[0].caller;
        (void)printf("seed %llu: %llu deliveries, %llu + %llu calls, %llu losses, %llu restarts, peak %zu bytes; faults",
                     (unsigned long long)seed, (unsigned long long)s.deliveries, (unsigned long long)c->answered,
                     (unsigned long long)c->lost, (unsigned long long)s.session_losses, (unsigned long long)s.restarts,
                     s.heap.peak_bytes);
        for (unsigned f = 0; f < FAULT_COUNT; f++) {
            (void)printf("%s%s", has(&s, (fault)f) ? " " : "", has(&s, (fault)f) ? fault_names[f] : "");
        }
        (void)printf("\n");
    }
    return s.trace;
}

int main(int argc, char **argv)
{
    seeds asked = {.first = 0, .last = SEEDS_DEFAULT - 1};
    if (!seeds_parse(&asked, "sim_hub", argc, argv)) {
        return 2;
    }
    (void)printf("sim_hub: seeds %llu..%llu\n", (unsigned long long)asked.first, (unsigned long long)asked.last);
    for (unsigned long long seed = asked.first; seed <= asked.last; seed++) {
        uint64_t trace = run_seed(seed, asked.verbose);
        if (run_seed(seed, false) != trace) {
            (void)fprintf(stderr, "seed %llu: two runs differ\n", seed);
            return 1;
        }
    }
    (void)printf("sim_hub: ok\n");
    return 0;
}
