/* proto/session and node/router: two hostile peers, and an application that does what the input says. A message is
 * refused and has then changed nothing, or it is applied; everything stays within the limits; at the end nothing is
 * lost. Input: operations of one byte, each with what it needs behind it. */
#include <stdlib.h>

#include "node/router.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/message_lines.h"
#include "tests/support/support.h"

#define PEERS 2u
#define LOCALS_MAX 64u
#define REFS_MAX 4u
#define EVENTS_MAX 100000u
#define MEMORY_MAX ((size_t)16 * 1024 * 1024)

static const tf_session_limits limits = {
    .max_message = TF_MESSAGE_MIN_LIMIT, .max_refs = 12, .max_promises = 12, .max_results = 6};

typedef struct peer {
    tf_session *session;
    bool gone;
    uint64_t next[2]; /* its next numbers, as far as they were accepted */
} peer;

typedef struct world {
    tf_slice input;
    tf_test_heap heap;
    tf_router *router;
    peer peers[PEERS];
    size_t peer; /* whose turn it is */
    tf_time now;
    tf_local seen[LOCALS_MAX]; /* shown by events, used at random */
    size_t seen_count;
    tf_local held[LOCALS_MAX];
    size_t held_count;
} world;

static tf_session_stats stats_of(const world *w)
{
    tf_session_stats stats;
    tf_session_get_stats(w->peers[w->peer].session, &stats);
    return stats;
}

static void check_bounds(const world *w)
{
    for (size_t i = 0; i < PEERS; i++) {
        tf_session_stats stats;
        tf_session_get_stats(w->peers[i].session, &stats);
        TF_ASSERT(stats.imports <= limits.max_refs && stats.exports <= limits.max_refs);
        TF_ASSERT(stats.promises_theirs + stats.promises_ours <= 2 * (size_t)limits.max_promises);
        TF_ASSERT(stats.retirements <= 4096 && stats.kept_bytes <= TF_KEPT_BYTES_MAX);
    }
    tf_router_stats stats;
    tf_router_get_stats(w->router, &stats);
    TF_ASSERT(stats.held_items <= 3 * TF_HELD_ITEMS_MAX && stats.held_bytes <= 3 * TF_HELD_BYTES_MAX);
    TF_ASSERT(w->heap.live_bytes <= MEMORY_MAX);
}

/* -- the application ----------------------------------------------------------------------------------------------- */

static void remember(world *w, tf_local local)
{
    if (local != TF_LOCAL_NONE) {
        w->seen[w->seen_count++ % LOCALS_MAX] = local;
    }
}

static tf_local pick(world *w)
{
    size_t known = w->seen_count < LOCALS_MAX ? w->seen_count : LOCALS_MAX;
    uint8_t which = tf_fuzz_u8(&w->input);
    if (known == 0 || which >= 0xf0) {
        return tf_router_new_object(w->router);
    }
    if (which < 0xe0) {
        return w->seen[which % known];
    }
    tf_local promise = tf_router_new_promise(w->router);
    tf_router_release(w->router, w->now, promise); /* it is to be mentioned at once, or nobody knows it */
    return promise;
}

static size_t pick_mentions(world *w, tf_mention mentions[REFS_MAX])
{
    size_t count = tf_fuzz_u8(&w->input) % (REFS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        mentions[i].local = pick(w);
        mentions[i].kind = (tf_fuzz_u8(&w->input) & 1u) != 0 ? TF_REF_PROMISE : TF_REF_OBJECT;
        remember(w, mentions[i].local);
    }
    return count;
}

static void act_deliver(world *w)
{
    tf_mention mentions[REFS_MAX];
    tf_local result = TF_LOCAL_NONE;
    tf_router_send send = {.target = pick(w), .method = tf_slice_str("m"), .refs = mentions};
    send.ref_count = pick_mentions(w, mentions);
    send.args = tf_fuzz_bytes(&w->input, tf_fuzz_u8(&w->input));
    send.want_result = (tf_fuzz_u8(&w->input) & 1u) != 0;
    if (tf_router_deliver(w->router, w->now, &send, &result) == TF_OK) {
        remember(w, result);
    }
}

static void act_resolve(world *w)
{
    tf_mention mentions[2][REFS_MAX];
    tf_answer answers[2];
    size_t count = 1 + (tf_fuzz_u8(&w->input) & 1u);
    for (size_t i = 0; i < count; i++) {
        answers[i] = (tf_answer){.promise = pick(w), .refs = mentions[i]};
        answers[i].kind = (tf_resolution_kind)(tf_fuzz_u8(&w->input) % 3);
        answers[i].object = (tf_mention){.local = pick(w), .kind = TF_REF_OBJECT};
        answers[i].ref_count = pick_mentions(w, mentions[i]);
        answers[i].data = tf_fuzz_bytes(&w->input, tf_fuzz_u8(&w->input));
    }
    (void)!tf_router_resolve(w->router, w->now, answers, count);
}

static void act_revoke(world *w)
{
    tf_mention mentions[REFS_MAX];
    tf_revocation revocation = {.object = pick(w), .refs = mentions};
    revocation.hard = (tf_fuzz_u8(&w->input) & 1u) != 0;
    revocation.ref_count = pick_mentions(w, mentions);
    revocation.data = tf_fuzz_bytes(&w->input, tf_fuzz_u8(&w->input));
    (void)!tf_router_revoke(w->router, w->now, &revocation);
}

static void act_hold(world *w)
{
    tf_local local = pick(w);
    if (w->held_count < LOCALS_MAX) {
        tf_router_hold(w->router, local);
        w->held[w->held_count++] = local;
    }
}

static void act_release(world *w)
{
    if (w->held_count > 0) {
        size_t index = tf_fuzz_u8(&w->input) % w->held_count;
        tf_local local = w->held[index];
        w->held[index] = w->held[--w->held_count];
        tf_router_release(w->router, w->now, local);
    }
}

static void act(world *w)
{
    switch (tf_fuzz_u8(&w->input) % 5) {
    case 0:
        act_deliver(w);
        return;
    case 1:
        act_resolve(w);
        return;
    case 2:
        act_hold(w);
        return;
    case 3:
        act_release(w);
        return;
    default:
        act_revoke(w);
        return;
    }
}

static void read_event(world *w, const tf_router_event *event)
{
    remember(w, event->local);
    remember(w, event->result);
    remember(w, event->object.local);
    for (size_t i = 0; i < event->ref_count; i++) {
        remember(w, event->refs[i].local);
    }
    uint8_t sum = 0;
    for (size_t i = 0; i < event->args.len; i++) {
        sum ^= event->args.data[i];
    }
    for (size_t i = 0; i < event->data.len; i++) {
        sum ^= event->data.data[i];
    }
    if ((sum & 1u) != 0) {
        act(w);
    }
}

static void take_events(world *w)
{
    size_t events = 0;
    for (tf_router_event event; tf_router_next_event(w->router, &event);) {
        TF_ASSERT(events++ < EVENTS_MAX);
        read_event(w, &event);
    }
}

static void lose(world *w, size_t index)
{
    if (!w->peers[index].gone) {
        w->peers[index].gone = true;
        tf_router_detach(w->router, w->now, w->peers[index].session);
        take_events(w);
    }
}

/* A session that ran out of memory must end. */
static void lose_failed(world *w)
{
    tf_session *failed = NULL;
    tf_err err = TF_OK;
    while (tf_router_next_failed(w->router, &failed, &err)) {
        TF_ASSERT(err == TF_ERR_NOMEM);
        lose(w, failed == w->peers[0].session ? 0 : 1);
    }
}

/* -- a peer -------------------------------------------------------------------------------------------------------- */

static void receive(world *w, tf_slice message)
{
    uint8_t *exact = tf_test_exact(message);
    tf_session_stats before = stats_of(w);
    tf_err err = tf_router_recv(w->router, w->peers[w->peer].session, w->now, tf_slice_of(exact, message.len));
    if (err == TF_OK) {
        take_events(w);
    } else {
        tf_session_stats after = stats_of(w);
        TF_ASSERT(memcmp(&before, &after, sizeof(before)) == 0);
    }
    free(exact);
}

/* A ref of a small world; from 0xf0 on the peer's next number of that kind, which a message that is accepted moves on. */
static tf_ref take_ref(world *w, tf_ref_kind kind)
{
    uint8_t byte = tf_fuzz_u8(&w->input);
    if (byte >= 0xf0) {
        return tf_ref_make(w->peers[w->peer].next[kind]++, kind, TF_SIDE_DIALLER);
    }
    return tf_ref_make(byte >> 1 & 0xfu, kind, (byte & 1u) != 0 ? TF_SIDE_ACCEPTOR : TF_SIDE_DIALLER);
}

static tf_ref take_any_ref(world *w)
{
    return take_ref(w, (tf_fuzz_u8(&w->input) & 1u) != 0 ? TF_REF_PROMISE : TF_REF_OBJECT);
}

static size_t take_refs(world *w, tf_ref refs[REFS_MAX])
{
    size_t count = tf_fuzz_u8(&w->input) % (REFS_MAX + 1);
    for (size_t i = 0; i < count; i++) {
        refs[i] = take_any_ref(w);
    }
    return count;
}

static void write_deliver(world *w, tf_writer *out, uint64_t number, uint64_t ack)
{
    tf_ref refs[REFS_MAX];
    tf_deliver deliver = {.target = take_any_ref(w), .method = tf_slice_str("m"), .refs = refs};
    deliver.has_result = (tf_fuzz_u8(&w->input) & 1u) != 0;
    deliver.result = deliver.has_result ? take_ref(w, TF_REF_PROMISE) : 0;
    deliver.ref_count = take_refs(w, refs);
    deliver.args = tf_fuzz_bytes(&w->input, tf_fuzz_u8(&w->input) % 16u);
    tf_message_write_deliver(out, number, ack, &deliver);
}

static void write_resolve(world *w, tf_writer *out, uint64_t number, uint64_t ack)
{
    size_t count = 1 + tf_fuzz_u8(&w->input) % 3u;
    tf_message_write_resolve_head(out, number, ack, count);
    for (size_t i = 0; i < count; i++) {
        tf_ref promise = take_ref(w, TF_REF_PROMISE);
        uint8_t kind = tf_fuzz_u8(&w->input) % 3u;
        if (kind == TF_RESOLUTION_OBJECT) {
            tf_message_write_resolution_object(out, promise, take_ref(w, TF_REF_OBJECT));
            continue;
        }
        tf_ref refs[REFS_MAX];
        size_t ref_count = take_refs(w, refs);
        tf_test_write_resolution(out, promise, kind == TF_RESOLUTION_REJECTION, tf_slice_str("d"), refs,
                                         ref_count);
    }
}

static void write_revoke(world *w, tf_writer *out, uint64_t number, uint64_t ack)
{
    size_t count = 1 + tf_fuzz_u8(&w->input) % 3u;
    tf_message_write_revoke_head(out, number, ack, count);
    for (size_t i = 0; i < count; i++) {
        tf_ref object = take_ref(w, TF_REF_OBJECT);
        bool hard = (tf_fuzz_u8(&w->input) & 1u) != 0;
        tf_ref refs[REFS_MAX];
        size_t ref_count = take_refs(w, refs);
        tf_test_write_revocation(out, object, hard, tf_slice_str("e"), refs, ref_count);
    }
}

static void write_message(world *w, tf_writer *out, uint8_t head)
{
    tf_session_stats stats = stats_of(w);
    tf_session *session = w->peers[w->peer].session;
    uint64_t sent = stats.sent - tf_session_out_items(session);
    uint64_t ack = (head & 1u) != 0 && sent > stats.peer_processed ? sent - stats.peer_processed : head >> 6;
    switch (head >> 1 & 7u) {
    case 0:
    case 1:
        write_deliver(w, out, stats.received, ack);
        return;
    case 2:
    case 3:
        write_resolve(w, out, stats.received, ack);
        return;
    case 4: {
        tf_ref refs[REFS_MAX + 1] = {take_any_ref(w)};
        size_t count = take_refs(w, refs + 1);
        tf_message_write_drop(out, stats.received, ack, refs, 1 + count);
        return;
    }
    case 5:
    case 6:
        write_revoke(w, out, stats.received, ack);
        return;
    default:
        tf_message_write_ack(out, stats.received, ack);
        return;
    }
}

static void make_message(world *w)
{
    uint8_t buffer[1024];
    tf_writer out;
    tf_wr_init(&out, buffer, sizeof(buffer));
    peer *from = &w->peers[w->peer];
    uint64_t received = stats_of(w).received;
    uint64_t before[2] = {from->next[0], from->next[1]};
    write_message(w, &out, tf_fuzz_u8(&w->input));
    TF_ASSERT(tf_wr_ok(&out));
    receive(w, tf_slice_of(buffer, tf_wr_len(&out)));
    if (stats_of(w).received == received) { /* refused */
        from->next[0] = before[0];
        from->next[1] = before[1];
    }
}

static void tick(world *w)
{
    w->now = tf_time_add(w->now, tf_fuzz_u8(&w->input) * TF_MS);
    tf_router_tick(w->router, w->now);
    if (tf_session_tick(w->peers[w->peer].session, w->now) != TF_OK) {
        lose(w, w->peer);
    }
}

/* What the session of the peer has written is taken. */
static void take_out(world *w)
{
    tf_session *session = w->peers[w->peer].session;
    for (tf_slice out; tf_session_peek_out(session, &out);) {
        TF_ASSERT(out.len > 0 && out.len <= limits.max_message);
        tf_session_pop_out(session);
    }
}

static void step(world *w)
{
    uint8_t op = tf_fuzz_u8(&w->input);
    w->peer = op >> 7;
    if (w->peers[w->peer].gone) {
        w->peer = 1 - w->peer;
    }
    switch (op % 10) {
    case 0:
        receive(w, tf_fuzz_bytes(&w->input, tf_fuzz_u8(&w->input)));
        break;
    case 1:
    case 2:
    case 3:
    case 4:
        make_message(w);
        break;
    case 5:
    case 6:
        act(w);
        break;
    case 7:
        take_out(w);
        break;
    case 8:
        tick(w);
        break;
    default:
        tf_test_heap_fail_at(&w->heap, tf_fuzz_u8(&w->input) % 16u, false);
        break;
    }
    take_events(w);
    lose_failed(w);
}

static void begin(world *w)
{
    tf_err err = tf_router_new(&w->router, &w->heap.mem, 3);
    TF_ASSERT(err == TF_OK);
    tf_local root = tf_router_new_object(w->router);
    remember(w, root);
    for (size_t i = 0; i < PEERS; i++) {
        tf_session_config config = {.side = TF_SIDE_ACCEPTOR,
                                    .local = limits,
                                    .remote = limits,
                                    .refs = tf_router_refs(w->router),
                                    .root = root,
                                    .hash_key = 3,
                                    .mem = &w->heap.mem};
        w->peers[i].next[TF_REF_OBJECT] = 1;
        err = tf_session_new(&w->peers[i].session, &config);
        TF_ASSERT(err == TF_OK);
        err = tf_router_attach(w->router, w->peers[i].session, NULL);
        TF_ASSERT(err == TF_OK);
        remember(w, tf_session_peer_root(w->peers[i].session));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = {.input = tf_slice_of(data, size)};
    tf_test_heap_init(&w.heap);
    begin(&w);
    while (w.input.len > 0 && !(w.peers[0].gone && w.peers[1].gone)) {
        step(&w);
        check_bounds(&w);
    }
    tf_test_heap_fail_never(&w.heap);
    w.input.len = 0;
    for (size_t i = 0; i < PEERS; i++) {
        lose(&w, i);
        tf_session_free(w.peers[i].session);
    }
    take_events(&w);
    tf_router_free(w.router);
    TF_ASSERT(w.heap.live_blocks == 0);
    return 0;
}
