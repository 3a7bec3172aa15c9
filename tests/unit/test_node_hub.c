/* node/hub: opening, sends and their refusals, resends (S1 to S5, S9). */
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

static const uint8_t empty_map[] = {0x80}; /* the arguments of a method without any */

/* -- S1, S9: one send ---------------------------------------------------------------------------------------------- */

START_TEST(hub_send_is_acked_with_id_seq_and_timestamp)
{
    setup s;
    begin(&s);
    tf_local first = raw_send(s.raw, "a", "one");
    tf_local second = raw_send(s.raw, "b", "two");
    raw_settle(s.raw);
    tf_result_ack ack = raw_ack(s.raw, first);
    tf_stored stored = store_read(s.node, "room", 1);
    ck_assert_uint_eq(ack.seq, 1);
    ck_assert(!ack.duplicate);
    ck_assert_uint_eq(ack.timestamp_ms, 1700000000000);
    ck_assert(store_is_id_of(&stored, ack.id));
    ck_assert(tf_slice_eq(ack.client_id, tf_slice_str("a")));
    ck_assert_uint_eq(raw_ack(s.raw, second).seq, 2);
    ck_assert(tf_slice_eq(stored.body, tf_slice_str("one")));
    ck_assert_uint_eq(stored.instance, 11);
    end(&s);
}
END_TEST

START_TEST(hub_clock_that_goes_back_leaves_timestamps_in_order)
{
    setup s;
    begin_two(&s);
    tf_local first = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    uint64_t timestamp_ms = raw_ack(s.raw, first).timestamp_ms;
    s.w.wall_ms -= 5000;
    tf_local second = raw_send(s.raw, "b", "two");
    raw_settle(s.raw);
    ck_assert_uint_eq(raw_ack(s.raw, second).timestamp_ms, timestamp_ms);
    restart(&s);
    tf_local third = raw_send(s.raw, "c", "three");
    raw_settle(s.raw);
    ck_assert_uint_eq(raw_ack(s.raw, third).timestamp_ms, timestamp_ms);
    end(&s);
}
END_TEST

typedef struct refusal_row {
    const char *client_id;
    size_t body_len;
    const char *code; /* NULL: acked */
} refusal_row;

START_TEST(hub_send_that_breaks_a_rule_is_refused_with_its_code)
{
    static uint8_t body[TF_BODY_MAX + 1];
    static char long_id[TF_CLIENT_ID_MAX + 2];
    memset(long_id, 'x', TF_CLIENT_ID_MAX + 1);
    const char *longest = long_id + 1;
    const refusal_row rows[] = {
        {"ok", 0, NULL},
        {"ok2", TF_BODY_MAX - 1, NULL},
        {"ok3", TF_BODY_MAX, NULL},
        {"large", TF_BODY_MAX + 1, "message_too_large"},
        {longest, 1, NULL},
        {long_id, 1, "bad_request"},
        {"", 1, "bad_request"},
        {"a b", 1, "bad_request"},
        {"a/b", 1, "bad_request"},
        {"a\n", 1, "bad_request"},
        {"\xc3\xa4", 1, "bad_request"},
        {"AZaz09._:~-", 1, NULL},
        {"ok", 1, "client_id_conflict"},
    };
    setup s;
    begin(&s);
    uint64_t stored = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local promise = raw_send_origin(s.raw, rows[i].client_id, tf_slice_of(body, rows[i].body_len), NULL);
        raw_settle(s.raw);
        stored += rows[i].code == NULL ? 1 : 0;
        ck_assert_msg(strcmp(raw_outcome(s.raw, promise), rows[i].code == NULL ? "acked" : rows[i].code) == 0,
                      "row %zu: %s", i, raw_outcome(s.raw, promise));
        ck_assert_uint_eq(store_head(s.node, "room"), stored);
    }
    end(&s);
}
END_TEST

START_TEST(hub_refusal_names_client_id_and_says_whether_to_retry)
{
    setup s;
    tf_result_refusal refusal;
    begin(&s);
    s.node->stub.refuse = TF_REFUSAL_STORE_FULL;
    tf_local promise = raw_send(s.raw, "full-1", "x");
    raw_settle(s.raw);
    ck_assert_int_eq(tf_result_refusal_read(raw_data(raw_find(s.raw, promise)), &refusal), TF_OK);
    ck_assert(tf_slice_eq(refusal.client_id, tf_slice_str("full-1")));
    ck_assert(tf_slice_eq(refusal.code, tf_slice_str("store_full")));
    ck_assert(refusal.retryable);
    ck_assert_uint_gt(refusal.retry_after_ms, 0);
    ck_assert_uint_gt(refusal.message.len, 0);
    end(&s);
}
END_TEST

typedef struct call_row {
    const char *method;
    const char *args; /* hex */
    bool on_root;
    bool with_ref;
} call_row;

START_TEST(hub_malformed_request_is_a_bad_request_and_nothing_else)
{
    static const call_row rows[] = {
        {"nothing", "80", true, false},
        {"send", "80", true, false},
        {"open", "80", true, false},
        {"open", "c0", true, false},
        {"open", "", true, false},
        {"open", "81 a7 6368616e6e656c a1 20", true, false},            /* a blank in the name */
        {"open", "81 a7 6368616e6e656c a0", true, false},               /* no name */
        {"open", "81 a7 6368616e6e656c 05", true, false},               /* no str */
        {"open", "82 a7 6368616e6e656c a1 61 a1 78 01", true, false},   /* an unknown key */
        {"open", "82 a7 6368616e6e656c a1 61 a7 6368616e6e656c a1 61", true, false},
        {"open", "81 a7 6368616e6e656c a1 61 00", true, false},         /* something behind it */
        {"open", "81 a7 6368616e6e656c a1 61", true, true},             /* a ref that nobody asked for */
        {"send", "80", false, false},
        {"send", "82 a9 636c69656e745f6964 a1 61 a4 626f6479 a1 61", false, false}, /* body is no bin */
        {"subscribe", "81 a4 66726f6d a3 6e6577", false, false},        /* no sink */
        {"subscribe", "81 a4 66726f6d 00", false, true},                /* seq 0 */
        {"subscribe", "81 a4 66726f6d a3 6f6c64", false, true},         /* "old" */
        {"subscribe", "80", false, true},
        {"read", "82 a4 66726f6d 00 a2 746f 01", false, false},
        {"read", "82 a4 66726f6d 02 a2 746f 01", false, false},
        {"close", "81 a1 78 01", false, false},
        {"no_such_method", "80", false, false},
    };
    setup s;
    uint8_t bytes[64];
    begin(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t len = tf_test_unhex(rows[i].args, bytes, sizeof(bytes));
        tf_local target = rows[i].on_root ? tf_session_peer_root(s.raw->end->conn->session) : s.raw->channel;
        tf_local ref = rows[i].with_ref ? tf_router_new_object(s.raw->end->router) : TF_LOCAL_NONE;
        uint8_t *exact = tf_test_exact(tf_slice_of(bytes, len));
        tf_local promise = raw_call(s.raw, target, rows[i].method, tf_slice_of(exact, len), ref);
        free(exact);
        raw_settle(s.raw);
        ck_assert_msg(strcmp(raw_outcome(s.raw, promise), "bad_request") == 0, "row %zu: %s", i,
                      raw_outcome(s.raw, promise));
    }
    ck_assert_uint_eq(s.node->failures, 0);
    end(&s);
}
END_TEST

/* -- S2, S3: keys and resends -------------------------------------------------------------------------------------- */

START_TEST(hub_resend_of_an_acked_send_is_acked_again_as_duplicate)
{
    setup s;
    begin(&s);
    tf_local first = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    s.w.wall_ms += 99;
    tf_local again = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, again).duplicate);
    ck_assert_uint_eq(raw_ack(s.raw, again).seq, 1);
    ck_assert_uint_eq(raw_ack(s.raw, again).timestamp_ms, raw_ack(s.raw, first).timestamp_ms);
    ck_assert(tf_slice_eq(raw_ack(s.raw, again).id, raw_ack(s.raw, first).id));
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    end(&s);
}
END_TEST

START_TEST(hub_resend_while_its_original_is_committed_waits_for_it)
{
    setup s;
    begin(&s);
    s.node->stub.hold = true;
    tf_local first = raw_send(s.raw, "a", "one");
    tf_local again = raw_send(s.raw, "a", "one");
    tf_local third = raw_send(s.raw, "a", "one");
    tf_local other = raw_send(s.raw, "a", "two");
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, first), "waiting");
    ck_assert_str_eq(raw_outcome(s.raw, again), "waiting");
    ck_assert_str_eq(raw_outcome(s.raw, third), "too_many_in_flight"); /* one waiter per connection */
    ck_assert_str_eq(raw_outcome(s.raw, other), "client_id_conflict");
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    ck_assert(!raw_ack(s.raw, first).duplicate);
    ck_assert(raw_ack(s.raw, again).duplicate);
    ck_assert_uint_eq(raw_ack(s.raw, again).seq, 1);
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    /* The refused resend raised no guard. */
    s.node->stub.hold = false;
    tf_local next = raw_send(s.raw, "b", "new");
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, next), "acked");
    end(&s);
}
END_TEST

START_TEST(hub_resend_on_another_connection_gets_the_same_ack)
{
    setup s;
    begin(&s);
    s.node->stub.hold = true;
    (void)raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    world_disconnect(&s.w, raw_pair(s.raw)); /* the session is lost while the send is being committed (P1) */
    raw_peer *next = in_room(&s, 11);
    tf_local again = raw_send(next, "a", "one");
    tf_local conflict = raw_send(next, "a", "other");
    raw_settle(next);
    ck_assert_str_eq(raw_outcome(next, again), "waiting");
    ck_assert_str_eq(raw_outcome(next, conflict), "client_id_conflict");
    stub_let_go(&s.node->stub);
    raw_settle(next);
    ck_assert(raw_ack(next, again).duplicate);
    ck_assert_uint_eq(raw_ack(next, again).seq, 1);
    tf_local later = raw_send(next, "a", "one");
    raw_settle(next);
    ck_assert(raw_ack(next, later).duplicate);
    ck_assert_uint_eq(store_head(s.node, "room"), 1);
    end(&s);
    free(next);
}
END_TEST

START_TEST(hub_same_client_id_of_another_channel_or_origin_is_another_send)
{
    setup s;
    begin_as(&s, true, NULL);
    const tf_who origins[] = {{world_id(50), 1}, {world_id(51), 1}};
    static const char *const channels[] = {"a", "a:b"}; /* no concatenation: (a, b:c) is not (a:b, c) */
    static const char *const ids[] = {"b:c", "c"};
    for (size_t i = 0; i < 2; i++) {
        raw_open(s.raw, channels[i]);
        for (size_t k = 0; k < 4; k++) {
            tf_local promise = raw_send_origin(s.raw, ids[k % 2], tf_slice_str("x"), &origins[k / 2]);
            raw_settle(s.raw);
            ck_assert(!raw_ack(s.raw, promise).duplicate);
            ck_assert_uint_eq(raw_ack(s.raw, promise).seq, k + 1);
        }
    }
    /* Another instance of the same node: the key is the node's. */
    const tf_who restarted = {world_id(50), 2};
    tf_local promise = raw_send_origin(s.raw, "c", tf_slice_str("x"), &restarted);
    raw_settle(s.raw);
    ck_assert(raw_ack(s.raw, promise).duplicate);
    end(&s);
}
END_TEST

START_TEST(hub_origin_stated_without_the_relay_right_is_not_believed)
{
    setup s;
    begin(&s);
    const tf_who somebody = {world_id(50), 1};
    tf_local promise = raw_send_origin(s.raw, "a", tf_slice_str("x"), &somebody);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    tf_stored stored = store_read(s.node, "room", 1);
    tf_node_id raw_id = world_id(99);
    ck_assert(tf_node_id_eq(&stored.origin, &raw_id));
    ck_assert_uint_eq(stored.instance, 11);
    end(&s);
}
END_TEST

START_TEST(hub_closed_channel_refuses_new_sends_and_acks_resends)
{
    setup s;
    begin(&s);
    tf_local first = raw_send(s.raw, "a", "one");
    raw_settle(s.raw);
    s.node->stub.hold = true;
    tf_local before = raw_send(s.raw, "b", "before");
    tf_local close = raw_call(s.raw, s.raw->channel, "close", tf_slice_of(empty_map, 1), TF_LOCAL_NONE);
    tf_local close_too = raw_call(s.raw, s.raw->channel, "close", tf_slice_of(empty_map, 1), TF_LOCAL_NONE);
    tf_local behind = raw_send(s.raw, "c", "behind");
    raw_settle(s.raw);
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    tf_local again = raw_send(s.raw, "a", "one");
    tf_local after = raw_send(s.raw, "d", "after");
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, first), "acked");
    ck_assert_uint_eq(raw_ack(s.raw, before).seq, 2);
    ck_assert_str_eq(raw_outcome(s.raw, close), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, close_too), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, behind), "channel_closed");
    ck_assert_str_eq(raw_outcome(s.raw, after), "channel_closed");
    ck_assert(raw_ack(s.raw, again).duplicate);
    ck_assert_uint_eq(store_head(s.node, "room"), 2);
    end(&s);
}
END_TEST

START_TEST(hub_closed_channel_says_so_before_it_looks_at_the_window)
{
    setup s;
    tf_hub_config config = {.max_in_flight = 1};
    begin_with(&s, &config);
    (void)raw_call(s.raw, s.raw->channel, "close", tf_slice_of(empty_map, 1), TF_LOCAL_NONE);
    raw_settle(s.raw);
    tf_local closed = s.raw->channel;
    raw_open(s.raw, "other");
    s.node->stub.hold = true;
    tf_local first = raw_send(s.raw, "a", "one"); /* fills the window of this origin */
    s.raw->channel = closed;
    tf_local second = raw_send(s.raw, "b", "two");
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, first), "waiting");
    ck_assert_str_eq(raw_outcome(s.raw, second), "channel_closed");
    end(&s);
}
END_TEST

/* -- opening ------------------------------------------------------------------------------------------------------- */

static const char *open_outcome(setup *s, const char *name)
{
    uint8_t bytes[256];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_open_write(&w, &(tf_args_open){.channel = tf_slice_str(name)});
    tf_local promise = raw_call(s->raw, tf_session_peer_root(s->raw->end->conn->session), "open",
                                tf_slice_of(bytes, tf_wr_len(&w)), TF_LOCAL_NONE);
    raw_settle(s->raw);
    return raw_outcome(s->raw, promise);
}

START_TEST(hub_open_obeys_its_limits_and_lets_channels_go)
{
    setup s;
    tf_hub_config config = {.channels_per_peer = 3};
    tf_hub_stats stats;
    begin_with(&s, &config);
    ck_assert_str_eq(open_outcome(&s, "a"), "acked");
    ck_assert_str_eq(open_outcome(&s, "a"), "acked"); /* the same again costs nothing */
    ck_assert_str_eq(open_outcome(&s, "b"), "acked");
    ck_assert_str_eq(open_outcome(&s, "c"), "overloaded");
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.channels, 3);
    tf_router_release(s.raw->end->router, s.w.now, s.raw->channel); /* drops "room" */
    raw_settle(s.raw);
    ck_assert_str_eq(open_outcome(&s, "c"), "acked");
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.channels, 3);
    world_disconnect(&s.w, raw_pair(s.raw));
    world_settle(&s.w);
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.channels, 0);
    end(&s);
}
END_TEST

START_TEST(hub_open_of_an_unknown_channel_is_refused_where_only_known_ones_are)
{
    static setup s;
    tf_hub_config config = {.known_channels_only = true};
    world_init(&s.w, 4);
    s.node = world_add(&s.w, true, &config);
    s.raw = raw_new(&s.w, s.node, 11);
    ck_assert_str_eq(open_outcome(&s, "a"), "channel_not_found");
    end(&s);
    world_init(&s.w, 5);
    s.node = world_add(&s.w, false, NULL); /* a client: serves nothing */
    s.raw = raw_new(&s.w, s.node, 11);
    ck_assert_str_eq(open_outcome(&s, "a"), "channel_not_found");
    end(&s);
}
END_TEST

START_TEST(hub_opens_that_wait_for_a_creation_are_bounded)
{
    setup s;
    tf_local promises[TF_HUB_OPENS_MAX + 1];
    static const uint8_t args[] = {0x81, 0xa7, 'c', 'h', 'a', 'n', 'n', 'e', 'l', 0xa1, 'x'};
    begin(&s);
    s.node->stub.hold = true;
    for (size_t i = 0; i <= TF_HUB_OPENS_MAX; i++) {
        promises[i] = raw_call(s.raw, tf_session_peer_root(s.raw->end->conn->session), "open",
                               tf_slice_of(args, sizeof(args)), TF_LOCAL_NONE);
    }
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX]), "overloaded");
    tf_local close = raw_call(s.raw, s.raw->channel, "close", tf_slice_of(empty_map, 1), TF_LOCAL_NONE);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, close), "overloaded");
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promises[0]), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX - 1]), "acked");
    end(&s);
}
END_TEST

/* A deliver to the result of `open`, sent before it is there: the result is data, not the channel (D8). */
START_TEST(hub_message_pipelined_to_a_result_is_answered)
{
    setup s;
    static const uint8_t args[] = {0x81, 0xa7, 'c', 'h', 'a', 'n', 'n', 'e', 'l', 0xa1, 'x'};
    begin(&s);
    s.node->stub.hold = true;
    tf_local open = raw_call(s.raw, tf_session_peer_root(s.raw->end->conn->session), "open",
                             tf_slice_of(args, sizeof(args)), TF_LOCAL_NONE);
    tf_local piped = raw_call(s.raw, open, "close", tf_slice_of(empty_map, 1), TF_LOCAL_NONE);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, piped), "waiting");
    ck_assert(stub_release(&s.node->stub));
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, open), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, piped), "cannot_send_to_data");
    end(&s);
}
END_TEST

START_TEST(hub_open_that_the_store_refuses_is_refused_to_all_who_wait)
{
    setup s;
    begin(&s);
    s.node->stub.refuse = TF_REFUSAL_STORE_FULL;
    ck_assert_str_eq(open_outcome(&s, "new"), "store_full");
    s.node->stub.refuse = TF_REFUSAL_NONE;
    ck_assert_str_eq(open_outcome(&s, "new"), "acked");
    end(&s);
}
END_TEST

/* -- bad peers ----------------------------------------------------------------------------------------------------- */

START_TEST(hub_malformed_message_ends_that_connection_and_no_other)
{
    setup s;
    begin(&s);
    raw_peer *bad = raw_new(&s.w, s.node, 12);
    static const uint8_t junk[] = {0x94, 0x01, 0xc1};
    ck_assert_int_eq(tf_link_send(bad->end->conn->link, s.w.now, tf_slice_of(junk, sizeof(junk))), TF_OK);
    world_settle(&s.w);
    ck_assert_uint_eq(s.node->failures, 1);
    ck_assert_int_eq(s.node->last_failure, TF_ERR_PEER_SYNTAX);
    tf_link_event event;
    bool closed = false;
    while (tf_link_next_event(bad->end->conn->link, &event)) {
        closed = closed || (event.type == TF_LINK_EVENT_CLOSED && event.code == TF_CLOSE_MALFORMED);
    }
    ck_assert(closed);
    tf_local promise = raw_send(s.raw, "a", "still here");
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    end(&s);
    free(bad);
}
END_TEST

/* P7: a peer that asks and asks and takes no answer. */
START_TEST(hub_peer_that_takes_no_answers_is_ended_when_it_asks_for_too_many)
{
    setup s;
    begin(&s);
    raw_peer *bad = raw_new(&s.w, s.node, 12);
    bad->end->blocked = true;
    for (uint64_t n = 0; n < 60000 && s.node->failures == 0; n++) {
        uint8_t bytes[64];
        tf_writer w;
        tf_ref result = tf_ref_make(n, TF_REF_PROMISE, TF_SIDE_DIALLER);
        tf_wr_init(&w, bytes, sizeof(bytes));
        tf_deliver wire = {.target = 1, .method = tf_slice_str("x"), .has_result = true, .result = result};
        tf_message_write_deliver(&w, n, 0, &wire);
        ck_assert_int_eq(tf_link_send(bad->end->conn->link, s.w.now, tf_slice_of(bytes, tf_wr_len(&w))), TF_OK);
        if (n % 64 == 0) {
            bad->end->blocked = false; /* link acks come through, so that it can go on */
            world_settle(&s.w);
            bad->end->blocked = true;
        }
    }
    ck_assert_uint_eq(s.node->failures, 1);
    ck_assert_int_eq(s.node->last_failure, TF_ERR_PEER_LIMIT);
    ck_assert_uint_lt(s.w.heap.peak_bytes, 64u * 1024u * 1024u);
    tf_local promise = raw_send(s.raw, "a", "still here");
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    end(&s);
    free(bad);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        hub_send_is_acked_with_id_seq_and_timestamp,
        hub_clock_that_goes_back_leaves_timestamps_in_order,
        hub_send_that_breaks_a_rule_is_refused_with_its_code,
        hub_refusal_names_client_id_and_says_whether_to_retry,
        hub_malformed_request_is_a_bad_request_and_nothing_else,
        hub_resend_of_an_acked_send_is_acked_again_as_duplicate,
        hub_resend_while_its_original_is_committed_waits_for_it,
        hub_resend_on_another_connection_gets_the_same_ack,
        hub_same_client_id_of_another_channel_or_origin_is_another_send,
        hub_origin_stated_without_the_relay_right_is_not_believed,
        hub_closed_channel_refuses_new_sends_and_acks_resends,
        hub_closed_channel_says_so_before_it_looks_at_the_window,
        hub_open_obeys_its_limits_and_lets_channels_go,
        hub_open_of_an_unknown_channel_is_refused_where_only_known_ones_are,
        hub_open_that_the_store_refuses_is_refused_to_all_who_wait,
        hub_opens_that_wait_for_a_creation_are_bounded,
        hub_message_pipelined_to_a_result_is_answered,
        hub_malformed_message_ends_that_connection_and_no_other,
        hub_peer_that_takes_no_answers_is_ended_when_it_asks_for_too_many,
        NULL,
    };
    return tf_test_run("node/hub", tests);
}
