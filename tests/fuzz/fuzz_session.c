/* proto/session: one hostile peer, and an application that does what the input says. A message is refused and has then
 * changed nothing, or it is applied; everything stays within the limits; at the end nothing is lost.
 * Input: operations of one byte, each with what it needs behind it. */
#include <stdlib.h>

#include "proto/session.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/support.h"

#define LOCALS_MAX 64u
#define REFS_MAX 4u
#define EVENTS_MAX 100000u
#define MEMORY_MAX ((size_t)8 * 1024 * 1024)

static const tf_session_limits limits = {
    .max_message = TF_MESSAGE_MIN_LIMIT, .max_refs = 12, .max_promises = 12, .max_results = 6};

typedef struct world {
    tf_slice input;
    tf_test_heap heap;
    tf_local_ids ids;
    tf_session *session;
    tf_time now;
    bool dead; /* out of memory at the end of a turn: only its end is left */
    tf_local seen[LOCALS_MAX]; /* shown by events, used at random */
    size_t seen_count;
    tf_local held[LOCALS_MAX];
    size_t held_count;
    uint64_t next[2]; /* the peer's next numbers, as far as they were accepted */
} world;

static tf_session_stats stats_of(const world *w)
{
    tf_session_stats stats;
    tf_session_get_stats(w->session, &stats);
    return stats;
}

static void check_bounds(const world *w)
{
    tf_session_stats stats = stats_of(w);
    TF_ASSERT(stats.imports <= limits.max_refs && stats.exports <= limits.max_refs);
    TF_ASSERT(stats.promises_theirs + stats.promises_ours <= 2 * (size_t)limits.max_promises);
    TF_ASSERT(stats.retirements <= 4096);
    TF_ASSERT(stats.held_items <= TF_HELD_ITEMS_MAX && stats.held_bytes <= TF_HELD_BYTES_MAX);
    TF_ASSERT(w->heap.live_bytes <= MEMORY_MAX);
}

/* -- the application ----------------------------------------------------------------------------------------------- */

static void remember(world *w, tf_local local)
{
    TF_ASSERT(local <= w->ids.last);
    if (local != TF_LOCAL_NONE) {
        w->seen[w->seen_count++ % LOCALS_MAX] = local;
    }
}

static tf_local pick(world *w)
{
    size_t known = w->seen_count < LOCALS_MAX ? w->seen_count : LOCALS_MAX;
    uint8_t which = tf_fuzz_u8(&w->input);
    return known == 0 || which >= 0xe0 ? tf_local_next(&w->ids) : w->seen[which % known];
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
    tf_delivery delivery = {.target = pick(w), .method = tf_slice_str("m"), .refs = mentions};
    delivery.ref_count = pick_mentions(w, mentions);
    delivery.args = tf_fuzz_bytes(&w->input, tf_fuzz_u8(&w->input));
    delivery.want_result = (tf_fuzz_u8(&w->input) & 1u) != 0;
    if (tf_session_deliver(w->session, w->now, &delivery, &result) == TF_OK) {
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
    (void)!tf_session_resolve(w->session, w->now, answers, count);
}

static void act_hold(world *w)
{
    tf_local local = pick(w);
    if (w->held_count < LOCALS_MAX) {
        tf_session_hold(w->session, local);
        w->held[w->held_count++] = local;
    }
}

static void act_release(world *w)
{
    if (w->held_count > 0) {
        size_t index = tf_fuzz_u8(&w->input) % w->held_count;
        tf_local local = w->held[index];
        w->held[index] = w->held[--w->held_count];
        tf_session_release(w->session, w->now, local);
    }
}

static void act(world *w)
{
    switch (tf_fuzz_u8(&w->input) % 4) {
    case 0:
        act_deliver(w);
        return;
    case 1:
        act_resolve(w);
        return;
    case 2:
        act_hold(w);
        return;
    default:
        act_release(w);
        return;
    }
}

static void read_event(world *w, const tf_session_event *event)
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

static void finish_turn(world *w)
{
    size_t events = 0;
    for (tf_session_event event; tf_session_next_event(w->session, &event);) {
        TF_ASSERT(events++ < EVENTS_MAX);
        read_event(w, &event);
    }
    w->dead = tf_session_done(w->session, w->now) != TF_OK;
}

/* -- the peer ------------------------------------------------------------------------------------------------------ */

static void receive(world *w, tf_slice message)
{
    uint8_t *exact = tf_test_exact(message);
    tf_session_stats before = stats_of(w);
    tf_err err = tf_session_recv(w->session, w->now, tf_slice_of(exact, message.len));
    if (err == TF_OK) {
        finish_turn(w);
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
        return tf_ref_make(w->next[kind]++, kind, TF_SIDE_DIALLER);
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
        tf_message_write_resolution_data(out, promise, kind == TF_RESOLUTION_REJECTION, tf_slice_str("d"), refs, ref_count);
    }
}

static void make_message(world *w)
{
    uint8_t buffer[1024];
    tf_writer out;
    tf_wr_init(&out, buffer, sizeof(buffer));
    tf_session_stats stats = stats_of(w);
    uint64_t before[2] = {w->next[0], w->next[1]};
    uint8_t head = tf_fuzz_u8(&w->input);
    uint64_t ack = (head & 1u) != 0 ? stats.sent - tf_session_out_items(w->session) - stats.peer_processed : head >> 6;
    switch (head >> 1 & 3u) {
    case 0:
        write_deliver(w, &out, stats.received, ack);
        break;
    case 1:
        write_resolve(w, &out, stats.received, ack);
        break;
    case 2: {
        tf_ref refs[REFS_MAX + 1] = {take_any_ref(w)};
        size_t count = take_refs(w, refs + 1);
        tf_message_write_drop(&out, stats.received, ack, refs, 1 + count);
        break;
    }
    default:
        tf_message_write_ack(&out, stats.received, ack);
        break;
    }
    TF_ASSERT(tf_wr_ok(&out));
    receive(w, tf_slice_of(buffer, tf_wr_len(&out)));
    if (stats_of(w).received == stats.received) { /* refused */
        w->next[0] = before[0];
        w->next[1] = before[1];
    }
}

static void step(world *w)
{
    switch (tf_fuzz_u8(&w->input) % 10) {
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
        for (tf_slice out; tf_session_peek_out(w->session, &out);) {
            TF_ASSERT(out.len > 0 && out.len <= limits.max_message);
            tf_session_pop_out(w->session);
        }
        break;
    case 8:
        w->now = tf_time_add(w->now, tf_fuzz_u8(&w->input) * TF_MS);
        w->dead = tf_session_tick(w->session, w->now) != TF_OK;
        if (!w->dead && tf_session_has_events(w->session)) {
            finish_turn(w);
        }
        break;
    default:
        tf_test_heap_fail_at(&w->heap, tf_fuzz_u8(&w->input) % 16u, false);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    world w = {.input = tf_slice_of(data, size), .next = {[TF_REF_OBJECT] = 1}};
    tf_test_heap_init(&w.heap);
    tf_session_config config = {.side = TF_SIDE_ACCEPTOR,
                                .local = limits,
                                .remote = limits,
                                .ids = &w.ids,
                                .root = tf_local_next(&w.ids),
                                .hash_key = 3,
                                .mem = &w.heap.mem};
    tf_err err = tf_session_new(&w.session, &config);
    TF_ASSERT(err == TF_OK);
    remember(&w, config.root);
    remember(&w, tf_session_peer_root(w.session));
    w.held[w.held_count++] = tf_session_peer_root(w.session);
    while (w.input.len > 0 && !w.dead) {
        step(&w);
        check_bounds(&w);
    }
    tf_session_end(w.session);
    size_t events = 0;
    for (tf_session_event event; tf_session_next_event(w.session, &event); events++) {
        TF_ASSERT(events < EVENTS_MAX && event.local <= w.ids.last);
    }
    tf_session_free(w.session);
    TF_ASSERT(w.heap.live_blocks == 0);
    return 0;
}
