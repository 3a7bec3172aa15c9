/* Announced limits: kept by the sender, checked by the receiver, and never at odds between two honest sides. Queues
 * that are full; memory that is given back. */
#include "proto/session.h"
#include "tests/unit/session_ends.h"

/* One more than the limit at the sender, from one side below it, at it, and beyond it; refused ones take no number. */
START_TEST(limit_of_refs_and_promises_is_kept_by_the_sender)
{
    tf_session_limits limits = tf_pair_limits();
    limits.max_refs = 3; /* the root is one */
    limits.max_promises = 3;
    limits.max_results = 2;
    begin(&limits);
    ck_assert_int_eq(deliver(3, 0, false), TF_ERR_LIMIT_ITEMS);
    ck_assert_int_eq(deliver(2, 4, false), TF_ERR_LIMIT_ITEMS);
    ck_assert_int_eq(deliver(2, 0, false), TF_OK);
    ck_assert_int_eq(deliver(1, 0, true), TF_ERR_LIMIT_ITEMS);
    ck_assert_int_eq(deliver(0, 0, true), TF_OK);
    ck_assert_int_eq(deliver(0, 0, true), TF_OK);
    ck_assert_int_eq(deliver(0, 0, true), TF_ERR_LIMIT_ITEMS); /* results */
    ck_assert_int_eq(deliver(0, 1, false), TF_OK);
    ck_assert_int_eq(deliver(0, 1, false), TF_ERR_LIMIT_ITEMS); /* promises */
    ck_assert_uint_eq(tf_pair_stats(&pair, A).sent, 4);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_eq(tf_pair_stats(&pair, B).received, 4);
    tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 1)->result, "");
    tf_pair_deliver_all(&pair, A);
    ck_assert_int_eq(deliver(0, 0, true), TF_OK); /* free again */
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_pair_free(&pair);
}
END_TEST

/* The same at the receiver: a sender that believes in larger limits goes beyond them. */
START_TEST(limit_broken_by_the_sender_is_refused)
{
    static const struct {
        tf_session_limits local;
        size_t objects;
        size_t promises;
        bool want;
        tf_err err;
    } rows[] = {
        {{65536, 3, 10, 10}, 2, 0, false, TF_OK}, {{65536, 3, 10, 10}, 3, 0, false, TF_ERR_PEER_LIMIT},
        {{65536, 9, 2, 10}, 0, 2, false, TF_OK},  {{65536, 9, 2, 10}, 0, 3, false, TF_ERR_PEER_LIMIT},
        {{65536, 9, 2, 10}, 0, 1, true, TF_OK},   {{65536, 9, 2, 10}, 0, 2, true, TF_ERR_PEER_LIMIT},
        {{65536, 9, 9, 1}, 0, 0, true, TF_OK},    {{65536, 9, 9, 0}, 0, 0, true, TF_ERR_PEER_LIMIT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_session_limits all = tf_pair_limits();
        begin(&all);
        tf_pair_side *b = &pair.side[B];
        tf_session_config config = {.side = TF_SIDE_ACCEPTOR,
                                    .local = rows[i].local,
                                    .remote = all,
                                    .refs = tf_router_refs(b->router),
                                    .root = TF_PAIR_ROOT,
                                    .mem = tf_test_mem()};
        tf_pair_cut(&pair, B);
        tf_session_free(b->session);
        ck_assert_int_eq(tf_session_new(&b->session, &config), TF_OK);
        ck_assert_int_eq(tf_router_attach(b->router, b->session, NULL), TF_OK);
        ck_assert_int_eq(deliver(rows[i].objects, rows[i].promises, rows[i].want), TF_OK);
        (void)tf_pair_flush(&pair, A);
        (void)tf_pair_step(&pair, B);
        ck_assert_msg(pair.side[B].err == rows[i].err, "row %zu: %s", i, tf_err_text(pair.side[B].err));
        tf_pair_free(&pair);
    }
}
END_TEST

/* A promise counts until the turn of its resolution is done: before that its ack cannot be sent. */
START_TEST(limit_counts_what_is_resolved_in_this_turn)
{
    tf_session_limits limits = tf_pair_limits();
    limits.max_promises = 1;
    begin(&limits);
    ck_assert_int_eq(deliver(0, 0, true), TF_OK);
    tf_pair_deliver_all(&pair, B);
    tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, 0)->result, "");
    (void)tf_pair_flush(&pair, B);
    tf_router *a = pair.side[A].router;
    ck_assert_int_eq(tf_router_recv(a, pair.side[A].session, pair.now, tf_pair_next(&pair, A)), TF_OK);
    tf_router_event event;
    ck_assert(tf_router_next_event(a, &event));
    ck_assert_int_eq(deliver(0, 0, true), TF_ERR_LIMIT_ITEMS);
    ck_assert(!tf_router_next_event(a, &event));
    tf_pair_lose(&pair, A);
    ck_assert_int_eq(deliver(0, 0, true), TF_OK);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(message_as_long_as_the_limit_is_sent)
{
    tf_session_limits limits = tf_pair_limits();
    limits.max_message = TF_MESSAGE_MIN_LIMIT;
    static uint8_t bytes[TF_MESSAGE_MIN_LIMIT];
    size_t longest = 0;
    for (size_t len = TF_MESSAGE_MIN_LIMIT - 40; len <= TF_MESSAGE_MIN_LIMIT; len++) {
        begin(&limits);
        tf_mention mention = {.local = tf_pair_new_object(&pair, A), .kind = TF_REF_OBJECT};
        tf_router_send send = {.target = TF_PAIR_PEER_ROOT,
                               .method = tf_slice_str("m"),
                               .args = tf_slice_of(bytes, len),
                               .refs = &mention,
                               .ref_count = 1,
                               .want_result = true};
        tf_local result = TF_LOCAL_NONE;
        tf_err err = tf_router_deliver(pair.side[A].router, pair.now, &send, &result);
        if (err == TF_OK) {
            (void)tf_pair_flush(&pair, A);
            longest = tf_pair_next(&pair, B).len;
            ck_assert(tf_pair_step(&pair, B));
            ck_assert_int_eq(pair.side[B].err, TF_OK);
        } else {
            ck_assert_int_eq(err, TF_ERR_LIMIT_BYTES);
            ck_assert_uint_eq(longest, TF_MESSAGE_MIN_LIMIT);
            ck_assert_uint_eq(tf_pair_stats(&pair, A).exports, 1);
            ck_assert_uint_eq(tf_pair_stats(&pair, A).promises_theirs, 0);
        }
        tf_pair_free(&pair);
    }
    ck_assert_uint_eq(longest, TF_MESSAGE_MIN_LIMIT);
}
END_TEST

START_TEST(delivery_wrongly_used_changes_nothing)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    tf_local object = tf_pair_new_object(&pair, A);
    static const uint8_t not_utf8[] = {0xff};
    static char method[65537];
    memset(method, 'm', sizeof(method));
    tf_mention nothing = {.local = TF_LOCAL_NONE, .kind = TF_REF_OBJECT};
    tf_local result = TF_LOCAL_NONE;
    tf_slice m = tf_slice_str("m");
    const struct {
        tf_router_send send;
        tf_err err;
    } rows[] = {
        {{.target = object, .method = m}, TF_ERR_USAGE},
        {{.target = TF_LOCAL_NONE, .method = m}, TF_ERR_USAGE},
        {{.target = TF_PAIR_PEER_ROOT}, TF_ERR_USAGE},
        {{.target = TF_PAIR_PEER_ROOT, .method = tf_slice_of(not_utf8, 1)}, TF_ERR_USAGE},
        {{.target = TF_PAIR_PEER_ROOT, .method = tf_slice_of(method, TF_METHOD_MAX + 1)}, TF_ERR_USAGE},
        {{.target = TF_PAIR_PEER_ROOT, .method = m, .args = tf_slice_of(method, 65537)}, TF_ERR_LIMIT_BYTES},
        {{.target = TF_PAIR_PEER_ROOT, .method = m, .refs = &nothing, .ref_count = 1, .want_result = true}, TF_ERR_USAGE},
        {{.target = TF_PAIR_PEER_ROOT, .method = m, .refs = &nothing, .ref_count = TF_REFS_PER_MESSAGE + 1}, TF_ERR_LIMIT_ITEMS},
    };
    tf_session_stats before = tf_pair_stats(&pair, A);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_err err = tf_router_deliver(pair.side[A].router, pair.now, &rows[i].send, &result);
        ck_assert_msg(err == rows[i].err, "row %zu: %s", i, tf_err_text(err));
        tf_session_stats after = tf_pair_stats(&pair, A);
        ck_assert_int_eq(memcmp(&before, &after, sizeof(before)), 0);
    }
    tf_pair_free(&pair);
}
END_TEST

/* Taken at the front while others come at the back, in all sizes: each whole, in order. */
START_TEST(out_queue_keeps_messages_in_order)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    static uint8_t bytes[3000];
    uint64_t said = 0;
    uint64_t heard = 0;
    tf_test_random random;
    tf_test_random_init(&random, 9);
    for (int i = 0; i < 5000; i++) {
        tf_slice out;
        if (tf_test_random_chance(&random, 1, 2)) {
            memcpy(bytes, &said, sizeof(said));
            tf_router_send send = {.target = TF_PAIR_PEER_ROOT, .method = tf_slice_str("m")};
            send.args = tf_slice_of(bytes, sizeof(said) + (size_t)tf_test_random_below(&random, 2900));
            ck_assert_int_eq(tf_router_deliver(pair.side[A].router, pair.now, &send, NULL), TF_OK);
            said++;
        } else if (tf_session_peek_out(pair.side[A].session, &out)) {
            tf_message m;
            uint64_t count = 0;
            ck_assert_int_eq(tf_message_read(out, &m), TF_OK);
            memcpy(&count, m.args.data, sizeof(count));
            ck_assert_uint_eq(m.number, heard);
            ck_assert_uint_eq(count, heard++);
            tf_session_pop_out(pair.side[A].session);
        }
    }
    ck_assert_uint_eq(tf_session_out_items(pair.side[A].session), said - heard);
    tf_pair_free(&pair);
}
END_TEST

START_TEST(full_queue_refuses_deliveries_and_delays_drops)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    (void)tf_pair_send_ref(&pair, B, TF_PAIR_PEER_ROOT, "m", tf_pair_new_object(&pair, B), TF_REF_OBJECT);
    tf_pair_deliver_all(&pair, A);
    for (size_t i = 0; i < TF_OUT_QUEUE_ITEMS; i++) {
        ck_assert_int_eq(deliver(0, 0, false), TF_OK);
    }
    ck_assert_int_eq(deliver(0, 0, false), TF_ERR_AGAIN);
    ck_assert_uint_eq(tf_session_out_items(pair.side[A].session), TF_OUT_QUEUE_ITEMS);
    ck_assert_uint_gt(tf_session_out_bytes(pair.side[A].session), TF_OUT_QUEUE_ITEMS);
    const tf_pair_event *call = tf_pair_find(&pair, A, TF_ROUTER_DELIVER, 0);
    tf_pair_release(&pair, A, call->refs[0].local);
    ck_assert_uint_eq(tf_session_out_items(pair.side[A].session), TF_OUT_QUEUE_ITEMS);
    ck_assert_uint_eq(tf_session_deadline(pair.side[A].session), TF_NEVER);
    tf_pair_resolve_data(&pair, A, call->result, ""); /* never refused */
    (void)tf_pair_flush(&pair, A);
    ck_assert_uint_le(tf_session_deadline(pair.side[A].session), pair.now);
    ck_assert_int_eq(tf_session_tick(pair.side[A].session, pair.now), TF_OK);
    ck_assert_uint_eq(tf_session_out_items(pair.side[A].session), 1);
    ck_assert_uint_eq(tf_pair_stats(&pair, A).imports, 1);
    tf_pair_free(&pair);
}
END_TEST

/* The room of others is theirs: a share that is full keeps nobody else from sending, and comes back as it is taken. */
START_TEST(shares_of_the_out_queue_are_apart)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    tf_session *a = pair.side[A].session;
    tf_record *root = tf_refs_find(tf_router_refs(pair.side[A].router), tf_session_peer_root(a));
    tf_delivery delivery = {.target = root, .method = tf_slice_str("m"), .share = 7};
    for (size_t i = 0; i < TF_SHARE_ITEMS; i++) {
        ck_assert_int_eq(tf_session_deliver(a, pair.now, &delivery), TF_OK);
    }
    ck_assert_int_eq(tf_session_deliver(a, pair.now, &delivery), TF_ERR_AGAIN);
    delivery.share = 8;
    static uint8_t bytes[65000];
    delivery.args = tf_slice_of(bytes, sizeof(bytes));
    size_t large = 0;
    while (tf_session_deliver(a, pair.now, &delivery) == TF_OK) {
        large++;
    }
    ck_assert_uint_eq(large, TF_SHARE_BYTES / sizeof(bytes) + 1);
    ck_assert_int_eq(deliver(0, 0, false), TF_OK);
    ck_assert_uint_eq(tf_session_out_items(a), 1); /* our own */
    tf_slice out;
    ck_assert(tf_session_peek_out(a, &out));
    tf_pair_put(&pair, B, out);
    tf_session_pop_out(a);
    delivery = (tf_delivery){.target = root, .method = tf_slice_str("m"), .share = 7};
    ck_assert_int_eq(tf_session_deliver(a, pair.now, &delivery), TF_OK);
    ck_assert_int_eq(tf_session_deliver(a, pair.now, &delivery), TF_ERR_AGAIN);
    tf_pair_deliver_all(&pair, B);
    ck_assert_int_eq(pair.side[B].err, TF_OK);
    ck_assert_uint_eq(tf_session_out_items(a), 0);
    tf_pair_free(&pair);
}
END_TEST

/* A dead peer costs no more with each that sends to it: once they are many, a share is small. */
START_TEST(shares_of_many_are_small)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    static uint8_t bytes[32000];
    tf_session *a = pair.side[A].session;
    tf_delivery delivery = {.target = tf_refs_find(tf_router_refs(pair.side[A].router), tf_session_peer_root(a)),
                            .method = tf_slice_str("m"),
                            .args = tf_slice_of(bytes, sizeof(bytes))};
    size_t sent[80] = {0};
    for (uint32_t share = 1; share <= 80; share++) {
        delivery.share = share;
        while (tf_session_deliver(a, pair.now, &delivery) == TF_OK) {
            sent[share - 1]++;
        }
    }
    ck_assert_uint_eq(sent[0], TF_SHARE_BYTES / sizeof(bytes) + 1);
    ck_assert_uint_eq(sent[79], TF_SHARE_BYTES_LEAST / sizeof(bytes) + 1);
    ck_assert_int_eq(deliver(0, 0, false), TF_OK); /* our own have their own room */
    tf_pair_free(&pair);
}
END_TEST

/* -- honest sides with small limits -------------------------------------------------------------------------------- */

static tf_test_random random_;

static size_t below(size_t bound)
{
    return (size_t)tf_test_random_below(&random_, bound);
}

typedef struct player {
    tf_local owed[4096]; /* promises that it decides */
    size_t owed_count;
    tf_local asked[4096]; /* results that it waits for */
    size_t asked_count;
    size_t heard;
} player;

static player players[2];

static size_t new_refs(int side, tf_mention refs[3])
{
    size_t count = below(4);
    for (size_t i = 0; i < count; i++) {
        refs[i] = new_ref(side, below(2) != 0);
    }
    return count;
}

/* What was sent is the peer's to hold; what was not is forgotten. */
static void note_promises(int side, const tf_mention *refs, size_t count, bool sent)
{
    player *p = &players[side];
    for (size_t i = 0; i < count; i++) {
        if (refs[i].kind == TF_REF_PROMISE) {
            tf_router_release(pair.side[side].router, pair.now, refs[i].local);
        }
        if (refs[i].kind == TF_REF_PROMISE && sent) {
            p->owed[p->owed_count++] = refs[i].local;
        }
    }
}

static void play_send(int side)
{
    player *p = &players[side];
    tf_mention refs[3];
    tf_router_send send = {.target = TF_PAIR_PEER_ROOT, .method = tf_slice_str("m"), .refs = refs};
    send.ref_count = new_refs(side, refs);
    send.want_result = below(2) == 0;
    tf_local result = TF_LOCAL_NONE;
    tf_err err = tf_router_deliver(pair.side[side].router, pair.now, &send, &result);
    ck_assert(err == TF_OK || err == TF_ERR_LIMIT_ITEMS);
    note_promises(side, refs, send.ref_count, err == TF_OK);
    if (err == TF_OK && send.want_result) {
        p->asked[p->asked_count++] = result;
    }
}

static void play_resolve(int side)
{
    player *p = &players[side];
    if (p->owed_count == 0) {
        return;
    }
    size_t i = below(p->owed_count);
    tf_mention refs[3];
    tf_answer answer = {.promise = p->owed[i], .kind = TF_RESOLUTION_DATA, .refs = refs};
    answer.ref_count = new_refs(side, refs);
    p->owed[i] = p->owed[--p->owed_count];
    tf_err err = tf_router_resolve(pair.side[side].router, pair.now, &answer, 1);
    note_promises(side, refs, answer.ref_count, err == TF_OK);
    if (err != TF_OK) {
        ck_assert_int_eq(err, TF_ERR_LIMIT_ITEMS);
        tf_pair_resolve_data(&pair, side, answer.promise, "");
    }
}

static void play(int side)
{
    player *p = &players[side];
    switch (below(6)) {
    case 0:
    case 1:
        play_send(side);
        break;
    case 2:
        play_resolve(side);
        break;
    case 3:
        if (p->asked_count > 0) {
            tf_router_release(pair.side[side].router, pair.now, p->asked[--p->asked_count]);
        }
        break;
    case 4:
        (void)tf_pair_flush(&pair, side);
        break;
    default:
        (void)tf_pair_step(&pair, side);
        break;
    }
}

/* Results are owed by whoever hears the call. */
static void note_calls(int side)
{
    tf_pair_side *s = &pair.side[side];
    for (size_t i = 0; i < s->event_count; i++) {
        if (s->events[i].type == TF_ROUTER_DELIVER && s->events[i].result != TF_LOCAL_NONE) {
            players[side].owed[players[side].owed_count++] = s->events[i].result;
        }
    }
    s->event_count = 0;
}

/* Also within a turn, where what was just freed still counts. */
static void play_in_turn(tf_pair *with, int side)
{
    ck_assert_ptr_eq(with, &pair);
    note_calls(side);
    switch (below(4)) {
    case 0:
        play_send(side);
        break;
    case 1:
        play_resolve(side);
        break;
    default:
        break;
    }
}

START_TEST(honest_sides_never_break_small_limits)
{
    tf_session_limits limits[2] = {{.max_message = 65536, .max_refs = 5, .max_promises = 4, .max_results = 2},
                                   {.max_message = 65536, .max_refs = 3, .max_promises = 6, .max_results = 3}};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        tf_test_random_init(&random_, seed);
        memset(players, 0, sizeof(players));
        ck_assert_int_eq(tf_pair_init(&pair, tf_test_mem(), limits), TF_OK);
        for (int side = 0; side < 2; side++) {
            pair.side[side].holds = false;
            pair.side[side].on_event = play_in_turn;
        }
        for (int step = 0; step < 600; step++) {
            int side = (int)below(2);
            play(side);
            note_calls(side);
            ck_assert_msg(pair.side[side].err == TF_OK, "seed %d: %s", (int)seed, tf_err_text(pair.side[side].err));
        }
        tf_pair_free(&pair);
    }
}
END_TEST

/* What traffic made is given back, at rest and with a call open, and everything goes on. */
START_TEST(session_trimmed_between_turns_goes_on)
{
    tf_session_limits limits = tf_pair_limits();
    begin(&limits);
    size_t rest = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            (void)tf_pair_send(&pair, A, TF_PAIR_PEER_ROOT, "busy", true);
        }
        tf_pair_deliver_all(&pair, B);
        size_t busy = tf_test_heap_shared()->live_bytes;
        tf_session_trim(pair.side[A].session);
        tf_session_trim(pair.side[B].session);
        for (size_t i = 0; i < 100; i++) {
            tf_pair_resolve_data(&pair, B, tf_pair_find(&pair, B, TF_ROUTER_DELIVER, i)->result, "done");
        }
        tf_pair_settle(&pair);
        ck_assert_ptr_nonnull(tf_pair_find(&pair, A, TF_ROUTER_RESOLVED, 99));
        tf_session_trim(pair.side[A].session);
        tf_session_trim(pair.side[B].session);
        size_t now = tf_test_heap_shared()->live_bytes;
        ck_assert_uint_lt(now, busy);
        ck_assert(rest == 0 || now <= rest);
        rest = now;
        tf_pair_forget_events(&pair);
    }
    tf_pair_settle(&pair);
    ck_assert(tf_pair_is_empty(&pair));
    tf_pair_free(&pair);
}
END_TEST

/* Whether an announcement would be within the peer's limits, from one side below each to beyond it. */
START_TEST(limit_of_an_announcement_is_known_before)
{
    static const struct {
        size_t data_len;
        size_t ref_count;
        size_t objects;
        size_t promises;
        tf_err err;
    } rows[] = {
        {0, 0, 0, 0, TF_OK},
        {0, 5, 2, 3, TF_OK},
        {0, 3, 3, 0, TF_ERR_LIMIT_ITEMS},
        {0, 4, 0, 4, TF_ERR_LIMIT_ITEMS},
        {0, TF_REFS_PER_MESSAGE, 0, 0, TF_OK},
        {0, TF_REFS_PER_MESSAGE + 1, 0, 0, TF_ERR_LIMIT_ITEMS},
        {65000, 0, 0, 0, TF_OK},
        {65536, 0, 0, 0, TF_ERR_LIMIT_BYTES},
        {SIZE_MAX, 0, 0, 0, TF_ERR_LIMIT_BYTES},
    };
    tf_session_limits limits = tf_pair_limits();
    limits.max_message = 65536;
    limits.max_refs = 3; /* the root is one */
    limits.max_promises = 3;
    begin(&limits);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_err err = tf_session_can_announce(pair.side[A].session, rows[i].data_len, rows[i].ref_count, rows[i].objects,
                                             rows[i].promises);
        ck_assert_msg(err == rows[i].err, "row %zu: %s", i, tf_err_text(err));
    }
    tf_pair_free(&pair);
}
END_TEST

/* So many that they go in several messages, each within the limit of a peer that takes only short ones. */
START_TEST(drops_go_in_as_many_messages_as_the_limit_needs)
{
    tf_session_limits limits = tf_pair_limits();
    limits.max_message = TF_MESSAGE_MIN_LIMIT;
    begin(&limits);
    tf_session *a = pair.side[A].session;
    pair.side[A].holds = false;
    while (deliver(0, 0, false) == TF_OK) { /* no room for drops: they wait */
    }
    for (size_t i = 0; i < 30; i++) {
        tf_mention refs[20];
        for (size_t k = 0; k < 20; k++) {
            refs[k] = new_ref(B, false);
        }
        ck_assert_int_eq(tf_pair_send_refs(&pair, B, refs, 20, false), TF_OK);
    }
    tf_pair_deliver_all(&pair, A);
    (void)tf_pair_flush(&pair, A);
    ck_assert_int_eq(tf_session_tick(a, pair.now), TF_OK);
    size_t dropped = 0;
    for (tf_slice out; tf_session_peek_out(a, &out); tf_session_pop_out(a)) {
        tf_message m;
        ck_assert_uint_le(out.len, TF_MESSAGE_MIN_LIMIT);
        ck_assert_int_eq(tf_message_read(out, &m), TF_OK);
        ck_assert_int_eq(m.kind, TF_MESSAGE_DROP);
        dropped += m.refs.count;
    }
    ck_assert_uint_eq(dropped, 600);
    tf_pair_free(&pair);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        limit_of_refs_and_promises_is_kept_by_the_sender,
        limit_broken_by_the_sender_is_refused,
        limit_counts_what_is_resolved_in_this_turn,
        message_as_long_as_the_limit_is_sent,
        delivery_wrongly_used_changes_nothing,
        out_queue_keeps_messages_in_order,
        full_queue_refuses_deliveries_and_delays_drops,
        shares_of_the_out_queue_are_apart,
        shares_of_many_are_small,
        honest_sides_never_break_small_limits,
        session_trimmed_between_turns_goes_on,
        limit_of_an_announcement_is_known_before,
        drops_go_in_as_many_messages_as_the_limit_needs,
        NULL,
    };
    return tf_test_run("proto/session limits", tests);
}
