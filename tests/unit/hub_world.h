/* A small world for tests of node/: hubs on stub stores, joined by connections whose links are pumped by hand over a
 * perfect stream in virtual time; and raw peers, sessions without a hub, that say what no client of ours would. */
#ifndef TF_TESTS_UNIT_HUB_WORLD_H
#define TF_TESTS_UNIT_HUB_WORLD_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/client_internal.h"
#include "tests/support/support.h"
#include "tests/unit/stub_store.h"

#define WORLD_NODES 4u
#define WORLD_PAIRS 16u
#define WORLD_ANSWERS 4096u
#define WORLD_TEXT 512u

/* -- the world ----------------------------------------------------------------------------------------------------- */

typedef struct world_node {
    tf_node_id id;
    uint64_t instance;
    stub_store stub;
    tf_hub *hub;
    size_t failures; /* TF_HUB_CONN_FAILED */
    tf_err last_failure;
} world_node;

/* One end of a connection: of a node, or raw. */
typedef struct world_end {
    tf_conn *conn;
    world_node *node;  /* NULL: raw */
    tf_router *router; /* of a node: its hub's; raw: its own */
    bool blocked;     /* takes nothing from its stream: a slow reader */
} world_end;

typedef struct world_pair {
    bool open;
    bool broken; /* a link ran out of memory: an edge would end the connection */
    world_end end[2]; /* dialler, acceptor */
} world_pair;

typedef struct world {
    tf_test_heap heap;
    tf_test_random random;
    tf_time now;
    int64_t wall_ms;
    world_node nodes[WORLD_NODES];
    size_t node_count;
    world_pair pairs[WORLD_PAIRS];
    uint64_t sessions;
    /* For the connections to come */
    uint32_t window_bytes;
    uint32_t max_message;
    bool relay; /* the dialler has the relay right */
    uint32_t max_in_flight; /* told to clients; 0: the hub's */
    uint8_t raw_id; /* number of the node id of raw ends; 0: 99 */
} world;

static inline void world_init(world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    tf_test_heap_init(&w->heap);
    tf_test_random_init(&w->random, seed);
    w->now = TF_SECOND;
    w->wall_ms = 1700000000000;
    w->window_bytes = TF_WINDOW_BYTES;
    w->max_message = TF_MESSAGE_MAX;
}

static inline tf_node_id world_id(uint8_t number)
{
    tf_node_id id;
    memset(id.bytes, number, sizeof(id.bytes));
    return id;
}

/* config: NULL, or what differs from the defaults. store: with channels. */
static inline world_node *world_add(world *w, bool store, const tf_hub_config *config)
{
    world_node *node = &w->nodes[w->node_count++];
    tf_hub_config filled = config == NULL ? (tf_hub_config){0} : *config;
    node->id = world_id((uint8_t)w->node_count);
    node->instance = 100 + w->node_count;
    filled.mem = &w->heap.mem;
    filled.rand = &w->random.rand;
    filled.node_id = node->id;
    filled.instance = node->instance;
    tf_store got;
    if (store) {
        tf_memory_store_config memory = {.mem = &w->heap.mem, .hash_key = 7};
        ck_assert_int_eq(tf_memory_store_new(&node->stub.memory, &memory), TF_OK);
        node->stub.inner = tf_memory_store_get(node->stub.memory);
        got = stub_get(&node->stub);
        filled.store = &got;
    }
    ck_assert_int_eq(tf_hub_new(&node->hub, &filled), TF_OK);
    return node;
}

static inline tf_conn *world_make(world *w, world_end *end, const world_end *peer, tf_side side, uint64_t instance)
{
    if (end->node != NULL) {
        end->router = end->node->hub->router;
    } else {
        ck_assert_int_eq(tf_router_new(&end->router, &w->heap.mem, 3), TF_OK);
    }
    tf_conn_config config = {.relay = w->relay && side == TF_SIDE_ACCEPTOR, .mem = &w->heap.mem};
    tf_node_id raw_id = world_id(w->raw_id != 0 ? w->raw_id : 99);
    tf_session_limits limits = {w->max_message, TF_REFS_MAX, TF_PROMISES_MAX, TF_RESULTS_MAX};
    config.peer_max_in_flight = w->max_in_flight != 0 ? w->max_in_flight
                                : peer->node != NULL  ? tf_hub_max_in_flight(peer->node->hub)
                                                      : TF_MAX_IN_FLIGHT;
    config.link = (tf_link_config){.mem = &w->heap.mem,
                                   .rand = &w->random.rand,
                                   .peer = peer->node != NULL ? peer->node->id : raw_id,
                                   .peer_instance = instance,
                                   .session = w->sessions,
                                   .routes = TF_ROUTES_STREAM,
                                   .send_data = TF_ROUTES_STREAM,
                                   .recv_data = TF_ROUTES_STREAM,
                                   .recv_window_segments = TF_WINDOW_SEGMENTS,
                                   .recv_window_bytes = w->window_bytes,
                                   .send_window_segments = TF_WINDOW_SEGMENTS,
                                   .send_window_bytes = w->window_bytes,
                                   .recv_max_message = w->max_message,
                                   .keepalive = TF_KEEPALIVE,
                                   .peer_keepalive = TF_KEEPALIVE};
    config.session = (tf_session_config){.side = side,
                                         .local = limits,
                                         .remote = limits,
                                         .refs = tf_router_refs(end->router),
                                         .root = end->node != NULL ? tf_hub_root(end->node->hub)
                                                                   : tf_router_new_object(end->router),
                                         .hash_key = 5,
                                         .mem = &w->heap.mem};
    ck_assert_int_eq(tf_conn_new(&end->conn, &config, w->now), TF_OK);
    if (end->node != NULL) {
        ck_assert_int_eq(tf_hub_attach(end->node->hub, w->now, end->conn), TF_OK);
    } else {
        ck_assert_int_eq(tf_router_attach(end->router, end->conn->session, NULL), TF_OK);
    }
    tf_link_stream_up(tf_conn_link(end->conn), w->now, 1);
    return end->conn;
}

/* NULL for a node: a raw end (node id 99). instance: of the dialler. */
static inline world_pair *world_connect(world *w, world_node *dialler, world_node *acceptor, uint64_t instance)
{
    for (size_t i = 0; i < WORLD_PAIRS; i++) {
        world_pair *pair = &w->pairs[i];
        if (pair->open) {
            continue;
        }
        *pair = (world_pair){.open = true, .end = {{.node = dialler}, {.node = acceptor}}};
        w->sessions++;
        (void)world_make(w, &pair->end[0], &pair->end[1], TF_SIDE_DIALLER, 1);
        (void)world_make(w, &pair->end[1], &pair->end[0], TF_SIDE_ACCEPTOR, instance);
        return pair;
    }
    ck_abort_msg("no more pairs");
}

/* The session is lost (D14). */
static inline void world_disconnect(world *w, world_pair *pair)
{
    for (size_t i = 0; i < 2; i++) {
        world_end *end = &pair->end[i];
        if (end->node != NULL) {
            tf_hub_detach(end->node->hub, w->now, end->conn);
            tf_conn_free(end->conn);
        } else {
            tf_router_detach(end->router, w->now, end->conn->session);
            tf_conn_free(end->conn);
            tf_router_free(end->router);
        }
    }
    pair->open = false;
}

/* The node begins again on its store: all its connections are gone, and what was not committed. */
static inline void world_restart(world *w, world_node *node)
{
    for (size_t i = 0; i < WORLD_PAIRS; i++) {
        world_pair *pair = &w->pairs[i];
        if (pair->open && (pair->end[0].node == node || pair->end[1].node == node)) {
            world_disconnect(w, pair);
        }
    }
    tf_hub_free(node->hub);
    node->stub.group = NULL;
    node->stub.hold = false;
    node->instance += 1000;
    tf_store store = stub_get(&node->stub);
    tf_hub_config config = {.mem = &w->heap.mem,
                            .rand = &w->random.rand,
                            .node_id = node->id,
                            .instance = node->instance,
                            .store = &store};
    ck_assert_int_eq(tf_hub_new(&node->hub, &config), TF_OK);
}

static inline void world_free(world *w)
{
    for (size_t i = 0; i < WORLD_PAIRS; i++) {
        if (w->pairs[i].open) {
            world_disconnect(w, &w->pairs[i]);
        }
    }
    for (size_t i = 0; i < w->node_count; i++) {
        tf_hub_free(w->nodes[i].hub);
        tf_memory_store_free(w->nodes[i].stub.memory);
    }
    ck_assert_uint_eq(w->heap.live_blocks, 0);
}

/* Moves what one end has to send to the other. True: something moved. */
static inline bool world_move(world *w, world_pair *pair, size_t side)
{
    uint8_t buf[TF_STREAM_RECORD];
    world_end *from = &pair->end[side];
    world_end *to = &pair->end[1 - side];
    bool moved = false;
    if (to->blocked) {
        return false;
    }
    while (!pair->broken) {
        size_t consumed = 0;
        size_t len = tf_link_pull_stream(tf_conn_link(from->conn), w->now, buf, sizeof(buf));
        if (len == 0) {
            return moved;
        }
        moved = true;
        tf_err err = tf_link_recv_stream(tf_conn_link(to->conn), w->now, tf_slice_of(buf, len), &consumed);
        ck_assert(err == TF_ERR_NOMEM || (err == TF_OK && consumed == len));
        pair->broken = err != TF_OK;
        if (to->node != NULL) {
            tf_hub_touch(to->node->hub, to->conn);
        }
    }
    return false;
}

static inline void world_end_turn(world *w, world_node *node)
{
    tf_hub_event event;
    tf_conn *dirty = NULL;
    while (tf_hub_run(node->hub, w->now, w->wall_ms)) {
    }
    while (tf_hub_next_event(node->hub, &event)) {
        node->failures++;
        node->last_failure = event.err;
    }
    while (tf_hub_next_dirty(node->hub, &dirty)) {
    }
}

/* What a raw end has encoded goes to its link. */
static inline void world_raw_pump(world *w, world_end *end)
{
    tf_slice message = {NULL, 0};
    while (tf_session_peek_out(end->conn->session, &message) &&
           tf_link_send(end->conn->link, w->now, message) == TF_OK) {
        tf_session_pop_out(end->conn->session);
    }
}

static inline bool world_step(world *w)
{
    bool moved = false;
    for (size_t i = 0; i < w->node_count; i++) {
        world_end_turn(w, &w->nodes[i]);
    }
    for (size_t i = 0; i < WORLD_PAIRS; i++) {
        world_pair *pair = &w->pairs[i];
        for (size_t k = 0; pair->open && k < 2; k++) {
            if (pair->end[k].node == NULL) {
                world_raw_pump(w, &pair->end[k]);
            }
            moved = world_move(w, pair, k) || moved;
        }
    }
    return moved;
}

static inline void world_tick(world *w)
{
    for (size_t i = 0; i < WORLD_PAIRS; i++) {
        for (size_t k = 0; w->pairs[i].open && k < 2; k++) {
            world_end *end = &w->pairs[i].end[k];
            tf_conn_tick(end->conn, w->now);
            if (end->node != NULL) {
                tf_hub_touch(end->node->hub, end->conn);
            }
        }
    }
}

/* Runs until nothing moves, without time going on. */
static inline void world_settle(world *w)
{
    for (size_t i = 0; i < 10000; i++) {
        if (!world_step(w)) {
            return;
        }
    }
    ck_abort_msg("it never settles");
}

/* Lets time pass in steps of a millisecond. */
static inline void world_pass(world *w, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        w->now += TF_MS;
        w->wall_ms++;
        world_tick(w);
        world_settle(w);
    }
}

/* -- raw peers ----------------------------------------------------------------------------------------------------- */

/* What came to a raw end. */
typedef struct raw_answer {
    tf_local promise;
    bool rejected;
    bool is_deliver; /* a message for an object of ours; promise: that object */
    char method[16];
    tf_local result; /* of a deliver, to be answered */
    uint8_t text[WORLD_TEXT];
    size_t len;
    tf_local ref; /* the first one mentioned, held */
} raw_answer;

typedef struct raw_peer {
    world *w;
    world_end *end;
    raw_answer answers[WORLD_ANSWERS];
    size_t count;
    tf_local channel;
    tf_err error; /* of recv */
} raw_peer;

static inline void raw_note(raw_peer *raw, const tf_router_event *event)
{
    ck_assert_uint_lt(raw->count, WORLD_ANSWERS);
    raw_answer *answer = &raw->answers[raw->count++];
    bool is_deliver = event->type == TF_ROUTER_DELIVER;
    tf_slice data = is_deliver ? event->args : event->data;
    *answer = (raw_answer){.promise = event->local,
                           .rejected = !is_deliver && event->kind == TF_RESOLUTION_REJECTION,
                           .is_deliver = is_deliver,
                           .len = data.len < WORLD_TEXT ? data.len : WORLD_TEXT};
    if (answer->len > 0) {
        memcpy(answer->text, data.data, answer->len);
    }
    if (is_deliver) {
        size_t len = event->method.len < sizeof(answer->method) ? event->method.len : sizeof(answer->method) - 1;
        memcpy(answer->method, event->method.data, len);
        answer->result = event->result;
    }
    bool to_object = event->type == TF_ROUTER_RESOLVED && event->kind == TF_RESOLUTION_OBJECT;
    if (event->ref_count > 0 || to_object) {
        answer->ref = to_object ? event->object.local : event->refs[0].local;
        tf_router_hold(raw->end->router, answer->ref);
    }
}

/* What follows from what it did or got. */
static inline void raw_events(raw_peer *raw)
{
    tf_router_event event;
    while (tf_router_next_event(raw->end->router, &event)) {
        if (event.type == TF_ROUTER_DELIVER || event.type == TF_ROUTER_RESOLVED || event.type == TF_ROUTER_REVOKED) {
            raw_note(raw, &event);
        }
    }
}

/* Takes up to `most` messages that have come. */
static inline size_t raw_take(raw_peer *raw, size_t most)
{
    tf_slice message = {NULL, 0};
    tf_route via = TF_ROUTE_STREAM;
    size_t taken = 0;
    while (taken < most && tf_link_next_message(raw->end->conn->link, &message, &via)) {
        raw->error = tf_router_recv(raw->end->router, raw->end->conn->session, raw->w->now, message);
        ck_assert_int_eq(raw->error, TF_OK);
        raw_events(raw);
        taken++;
    }
    return taken;
}

/* Settles, taking all that comes. */
static inline void raw_settle(raw_peer *raw)
{
    do {
        raw_events(raw);
        world_settle(raw->w);
    } while (raw_take(raw, SIZE_MAX) > 0);
}

static inline tf_local raw_call(raw_peer *raw, tf_local target, const char *method, tf_slice args, tf_local ref)
{
    tf_local promise = TF_LOCAL_NONE;
    tf_mention mention = {ref, TF_REF_OBJECT};
    tf_router_send send = {.target = target,
                           .method = tf_slice_str(method),
                           .args = args,
                           .refs = &mention,
                           .ref_count = ref == TF_LOCAL_NONE ? 0 : 1,
                           .want_result = true};
    ck_assert_int_eq(tf_router_deliver(raw->end->router, raw->w->now, &send, &promise), TF_OK);
    return promise;
}

static inline tf_local raw_root(const raw_peer *raw)
{
    return tf_session_peer_root(raw->end->conn->session);
}

/* NULL: no answer yet. */
static inline raw_answer *raw_find(raw_peer *raw, tf_local promise)
{
    for (size_t i = 0; i < raw->count; i++) {
        if (raw->answers[i].promise == promise && !raw->answers[i].is_deliver) {
            return &raw->answers[i];
        }
    }
    return NULL;
}

static inline tf_slice raw_data(const raw_answer *answer)
{
    if (answer == NULL) {
        abort(); /* no answer came */
    }
    return tf_slice_of(answer->text, answer->len);
}

static inline tf_local raw_send_origin(raw_peer *raw, const char *client_id, tf_slice body, const tf_who *origin)
{
    static uint8_t bytes[TF_MESSAGE_MAX + 1024u];
    tf_writer w;
    tf_args_send args = {.client_id = tf_slice_str(client_id), .body = body};
    if (origin != NULL) {
        args.has_origin = true;
        args.origin = origin->node;
        args.instance = origin->instance;
    }
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_send_write(&w, &args);
    ck_assert(tf_wr_ok(&w));
    return raw_call(raw, raw->channel, "send", tf_slice_of(bytes, tf_wr_len(&w)), TF_LOCAL_NONE);
}

static inline tf_local raw_send(raw_peer *raw, const char *client_id, const char *body)
{
    return raw_send_origin(raw, client_id, tf_slice_str(body), NULL);
}

static inline tf_local raw_send_numbered(raw_peer *raw, unsigned number)
{
    char id[32];
    (void)snprintf(id, sizeof(id), "c-%u", number);
    return raw_send(raw, id, id);
}

/* "acked", the code of a refusal, or "waiting". */
static inline const char *raw_outcome(raw_peer *raw, tf_local promise)
{
    static char code[TF_REFUSAL_CODE_MAX + 1];
    tf_result_refusal refusal;
    raw_answer *answer = raw_find(raw, promise);
    if (answer == NULL) {
        return "waiting";
    }
    if (!answer->rejected) {
        return "acked";
    }
    ck_assert_int_eq(tf_result_refusal_read(raw_data(answer), &refusal), TF_OK);
    memcpy(code, refusal.code.data, refusal.code.len);
    code[refusal.code.len] = 0;
    return code;
}

static inline tf_result_ack raw_ack(raw_peer *raw, tf_local promise)
{
    tf_result_ack ack;
    ck_assert_str_eq(raw_outcome(raw, promise), "acked");
    ck_assert_int_eq(tf_result_ack_read(raw_data(raw_find(raw, promise)), &ack), TF_OK);
    return ack;
}

static inline void raw_open(raw_peer *raw, const char *name)
{
    uint8_t bytes[256];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_open_write(&w, &(tf_args_open){.channel = tf_slice_str(name)});
    tf_local promise = raw_call(raw, tf_session_peer_root(raw->end->conn->session), "open",
                                tf_slice_of(bytes, tf_wr_len(&w)), TF_LOCAL_NONE);
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, promise), "acked");
    const raw_answer *answer = raw_find(raw, promise);
    raw->channel = answer == NULL ? TF_LOCAL_NONE : answer->ref;
}

/* A raw peer that the node dialled. To be freed after the world. */
static inline raw_peer *raw_acceptor(world *w, world_node *node)
{
    raw_peer *raw = calloc(1, sizeof(*raw));
    if (raw == NULL) {
        abort();
    }
    world_pair *pair = world_connect(w, node, NULL, node->instance);
    raw->w = w;
    raw->end = &pair->end[1];
    return raw;
}

/* A raw peer that dialled the node; its node id is 99, or w->raw_id. To be freed after the world. */
static inline raw_peer *raw_new(world *w, world_node *node, uint64_t instance)
{
    raw_peer *raw = calloc(1, sizeof(*raw));
    if (raw == NULL) {
        abort();
    }
    world_pair *pair = world_connect(w, NULL, node, instance);
    raw->w = w;
    raw->end = &pair->end[0];
    return raw;
}

/* The pair that a raw peer is an end of. */
static inline world_pair *raw_pair(raw_peer *raw)
{
    for (size_t i = 0; i < WORLD_PAIRS; i++) {
        world_pair *pair = &raw->w->pairs[i];
        if (&pair->end[0] == raw->end || &pair->end[1] == raw->end) {
            return pair;
        }
    }
    ck_abort_msg("no such pair");
}

/* -- what the store holds ------------------------------------------------------------------------------------------ */

static inline uint64_t store_head(world_node *node, const char *name)
{
    tf_store_channel channel;
    tf_err err = node->stub.inner.table->channel_find(node->stub.inner.ctx, tf_slice_str(name), &channel);
    return err == TF_OK ? channel.head : 0;
}

static inline tf_stored store_read(world_node *node, const char *name, uint64_t seq)
{
    tf_store_channel channel;
    tf_stored stored;
    ck_assert_int_eq(node->stub.inner.table->channel_find(node->stub.inner.ctx, tf_slice_str(name), &channel), TF_OK);
    ck_assert_int_eq(node->stub.inner.table->read(node->stub.inner.ctx, channel.number, seq, &stored), TF_STORE_HERE);
    return stored;
}

static inline bool store_is_id_of(const tf_stored *stored, tf_slice id)
{
    uint8_t bytes[TF_ACTIVITY_ID_MAX];
    return tf_slice_eq(tf_slice_of(bytes, tf_stored_id(stored->epoch, stored->seq, bytes)), id);
}

/* True if the bodies of the channel are c-<from> ... c-<to>, in order, and nothing else. */
static inline bool store_holds(world_node *node, const char *name, unsigned from, unsigned to)
{
    char expected[32];
    if (store_head(node, name) != to - from + 1) {
        return false;
    }
    for (unsigned i = from; i <= to; i++) {
        (void)snprintf(expected, sizeof(expected), "c-%u", i);
        if (!tf_slice_eq(store_read(node, name, i - from + 1).body, tf_slice_str(expected))) {
            return false;
        }
    }
    return true;
}

#endif
