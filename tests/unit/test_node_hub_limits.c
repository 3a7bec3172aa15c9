/* node/hub: bounds of its own and what is told at them: reads that wait, channels in memory, the total rate of a relay;
 * why a connection was ended; and that nothing is half done where memory runs out. */
#include "proto/mp.h"
#include "tests/support/check_main.h"
#include "tests/unit/raw_room.h"

/* An assertion of Check for each of so many takes longer than what it looks at. */
#define HOLDS(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            ck_abort_msg("%s", #condition);                                                                            \
        }                                                                                                              \
    } while (0)

static tf_local read_one(raw_peer *raw)
{
    raw_args args;
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 1});
    return raw_ask(raw, raw->channel, "read", &args);
}

static void let_read(setup *s)
{
    s->node->stub.later = false;
    s->node->stub.ready = true;
    raw_settle(s->raw);
}

/* One more than may wait, twice: what was answered waits no longer. */
START_TEST(limits_reads_that_wait_are_bounded)
{
    static setup s;
    begin(&s);
    raw_send_range(s.raw, 1, 1);
    for (size_t round = 0; round < 3; round++) {
        tf_local promises[TF_HUB_READS_MAX];
        s.node->stub.later = true;
        for (size_t i = 0; i < TF_HUB_READS_MAX; i++) {
            promises[i] = read_one(s.raw);
            ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "waiting");
        }
        ck_assert_str_eq(raw_outcome(s.raw, read_one(s.raw)), "overloaded");
        let_read(&s);
        for (size_t i = 0; i < TF_HUB_READS_MAX; i++) {
            ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "acked");
        }
    }
    end(&s);
}
END_TEST

START_TEST(limits_reads_that_wait_go_with_their_session)
{
    static setup s;
    begin(&s);
    raw_send_range(s.raw, 1, 1);
    s.node->stub.later = true;
    (void)read_one(s.raw);
    (void)read_one(s.raw);
    world_disconnect(&s.w, raw_pair(s.raw));
    s.node->stub.later = false;
    s.node->stub.ready = true;
    world_settle(&s.w);
    ck_assert_uint_eq(s.node->failures, 0);
    end(&s);
}
END_TEST

START_TEST(limits_read_without_an_answer_does_nothing)
{
    static setup s;
    raw_args args;
    begin(&s);
    raw_send_range(s.raw, 1, 1);
    s.node->stub.later = true;
    tf_args_read_write(raw_begin(&args), &(tf_args_read){1, 1});
    for (size_t i = 0; i < 2 * TF_HUB_READS_MAX; i++) {
        raw_tell(s.raw, s.raw->channel, "read", &args);
    }
    tf_local promise = read_one(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "waiting");
    let_read(&s);
    ck_assert_str_eq(raw_outcome(s.raw, promise), "acked");
    end(&s);
}
END_TEST

/* There would be nothing to end it by. */
START_TEST(limits_subscription_without_an_answer_is_none)
{
    static setup s;
    raw_args args;
    begin(&s);
    tf_mention sink = {tf_router_new_object(s.raw->end->router), TF_REF_OBJECT};
    tf_args_subscribe_write(raw_begin(&args), &(tf_args_subscribe){.from = {.kind = TF_FROM_FIRST}, .limit = 1});
    tf_router_send send = {.target = s.raw->channel,
                           .method = tf_slice_str("subscribe"),
                           .args = raw_bytes(&args),
                           .refs = &sink,
                           .ref_count = 1};
    ck_assert_int_eq(tf_router_deliver(s.raw->end->router, s.w.now, &send, NULL), TF_OK);
    raw_settle(s.raw);
    ck_assert_uint_eq(s.node->failures, 0);
    ck_assert_uint_eq(raw_info(s.raw).subscriptions, 0);
    end(&s);
}
END_TEST

/* Stored by one who may say more than another one takes. */
START_TEST(limits_message_beyond_what_the_reader_takes_is_refused_to_it)
{
    static setup s;
    static uint8_t body[TF_MESSAGE_MIN_LIMIT];
    raw_args args;
    begin(&s);
    s.w.max_message = TF_MESSAGE_MIN_LIMIT;
    raw_peer *small = raw_new(&s.w, s.node, 12);
    raw_open(small, "room");
    tf_local sent = raw_send_origin(s.raw, "a", tf_slice_of(body, sizeof(body)), NULL);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, sent), "acked");
    ck_assert_str_eq(raw_outcome(small, read_one(small)), "message_too_large");
    for (unsigned i = 0; i < 2; i++) { /* of several as many as it takes */
        (void)raw_send_origin(s.raw, i == 0 ? "b" : "c", tf_slice_of(body, sizeof(body) * 2 / 3), NULL);
    }
    raw_settle(s.raw);
    tf_args_read_write(raw_begin(&args), &(tf_args_read){2, 3});
    tf_local some = raw_ask(small, small->channel, "read", &args);
    ck_assert_str_eq(raw_outcome(small, some), "acked");
    ck_assert_str_eq(raw_outcome(s.raw, read_one(s.raw)), "acked");
    end(&s);
    free(small);
}
END_TEST

static const char *open_outcome(setup *s, const char *name)
{
    raw_args args;
    tf_args_open_write(raw_begin(&args), &(tf_args_open){.channel = tf_slice_str(name)});
    return raw_outcome(s->raw, raw_ask(s->raw, raw_root(s->raw), "open", &args));
}

/* What an application makes and holds has its end, too. */
START_TEST(limits_objects_of_the_application_are_bounded)
{
    static setup s;
    tf_local local = TF_LOCAL_NONE;
    begin(&s);
    for (size_t i = 0; i < TF_APP_HELD_MAX; i++) {
        HOLDS(tf_hub_promise_new(s.node->hub, NULL, &local) == TF_OK);
    }
    ck_assert_int_eq(tf_hub_promise_new(s.node->hub, NULL, &local), TF_ERR_LIMIT_ITEMS);
    ck_assert_int_eq(tf_hub_hold(s.node->hub, tf_hub_root(s.node->hub), NULL), TF_ERR_LIMIT_ITEMS);
    for (size_t i = 0; i < TF_APP_OBJECTS_MAX; i++) {
        HOLDS(tf_hub_object_new(s.node->hub, NULL, &local) == TF_OK);
    }
    tf_local last = local;
    ck_assert_int_eq(tf_hub_object_new(s.node->hub, NULL, &local), TF_ERR_LIMIT_ITEMS);
    tf_hub_object_free(s.node->hub, s.w.now, last);
    ck_assert_int_eq(tf_hub_object_new(s.node->hub, NULL, &local), TF_OK);
    end(&s);
}
END_TEST

/* What has ended is no longer counted. */
START_TEST(limits_subscriptions_that_ended_make_room)
{
    static setup s;
    raw_args bytes;
    const tf_args_subscribe args = {.from = {TF_FROM_NEW, 0}, .limit = 1};
    begin_with(&s, &(tf_hub_config){.subscriptions_per_peer = 2});
    for (size_t round = 0; round < 4; round++) {
        tf_local objects[2];
        for (size_t i = 0; i < 2; i++) {
            objects[i] = raw_subscribe(s.raw, &args).object;
        }
        tf_args_subscribe_write(raw_begin(&bytes), &args);
        tf_local sink = tf_router_new_object(s.raw->end->router);
        tf_local promise = raw_call(s.raw, s.raw->channel, "subscribe", raw_bytes(&bytes), sink);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "overloaded");
        for (size_t i = 0; i < 2; i++) {
            tf_router_release(s.raw->end->router, s.w.now, objects[i]);
        }
        raw_settle(s.raw);
    }
    end(&s);
}
END_TEST

/* C6: whether it comes from the store or live. */
START_TEST(limits_message_that_reaches_what_a_subscriber_takes_is_the_last)
{
    static const struct {
        uint64_t less;
        unsigned count;
    } rows[] = {{0, 3}, {1, 2}, {2, 2}};
    static setup s;
    tf_args_subscribe args = {.from = {TF_FROM_FIRST, 0}, .echo = true};
    begin(&s);
    raw_send_range(s.raw, 11, 13);
    raw_sub all = raw_subscribe(s.raw, &args);
    const raw_answer *answer = raw_next(&all);
    uint64_t size = answer == NULL ? 0 : answer->len; /* of each */
    for (unsigned i = 0; i < 3; i++) {
        args.limit = 2 * size + 1 - rows[i].less;
        args.from.kind = TF_FROM_FIRST;
        raw_sub stored = raw_subscribe(s.raw, &args);
        raw_expect_range(&stored, 1, rows[i].count);
        raw_expect_nothing(&stored);
        args.from.kind = TF_FROM_NEW;
        raw_sub live = raw_subscribe(s.raw, &args);
        raw_send_range(s.raw, 14 + 3 * i, 16 + 3 * i);
        raw_expect_range(&live, live.start.next, live.start.next + rows[i].count - 1);
        raw_expect_nothing(&live);
    }
    end(&s);
}
END_TEST

/* S8: a relay has had its own by the ack, but not those of others that came over it. */
START_TEST(limits_what_a_sender_hears_of_itself_without_echo)
{
    static setup s;
    const tf_who origin = {world_id(50), 1};
    tf_args_subscribe args = {.from = {TF_FROM_NEW, 0}};
    begin_as(&s, true, NULL);
    raw_sub sub = raw_subscribe(s.raw, &args);
    raw_send_range(s.raw, 1, 1);
    raw_expect_nothing(&sub);
    (void)raw_send_origin(s.raw, "a", tf_slice_str("x"), &origin);
    raw_settle(s.raw);
    raw_expect_range(&sub, 2, 2);
    end(&s);
}
END_TEST

/* One that begins at a number to come waits for it, and nobody waits with it. */
START_TEST(limits_subscription_that_begins_later_leaves_the_others_alone)
{
    static setup s;
    tf_args_subscribe args = {.from = {TF_FROM_SEQ, 3}, .echo = true};
    begin(&s);
    raw_sub later = raw_subscribe(s.raw, &args);
    args.from.kind = TF_FROM_NEW;
    raw_sub now = raw_subscribe(s.raw, &args);
    raw_send_range(s.raw, 1, 4);
    raw_expect_range(&now, 1, 4);
    raw_expect_range(&later, 3, 4);
    end(&s);
}
END_TEST

/* Others than the one in use are let go as soon as nobody has them. */
START_TEST(limits_channels_in_memory_are_bounded)
{
    static setup s;
    begin_with(&s, &(tf_hub_config){.max_channels = 3});
    ck_assert_str_eq(open_outcome(&s, "a"), "acked");
    ck_assert_str_eq(open_outcome(&s, "b"), "acked");
    ck_assert_str_eq(open_outcome(&s, "c"), "overloaded");
    ck_assert_str_eq(open_outcome(&s, "b"), "acked");
    raw_send_range(s.raw, 1, 2);
    ck_assert_uint_eq(store_head(s.node, "room"), 2);
    end(&s);
}
END_TEST

/* Whichever allocation fails: the channel is there or it is not. */
START_TEST(limits_channels_without_memory_are_not_brought)
{
    static setup s;
    tf_channel *channels[100];
    begin(&s);
    for (unsigned i = 0; i < 100; i++) {
        char name[8];
        tf_err err = TF_ERR_NOMEM;
        tf_slice slice = tf_slice_of(name, (size_t)snprintf(name, sizeof(name), "c-%u", i));
        for (uint64_t k = 0; err != TF_OK; k++) {
            tf_test_heap_fail_at(&s.w.heap, k, false);
            err = tf_hub_channel_bring(s.node->hub, slice, &channels[i]);
            ck_assert(err == TF_OK || err == TF_ERR_NOMEM);
            ck_assert(tf_channels_find(&s.node->hub->channels, slice) == (err == TF_OK ? channels[i] : NULL));
        }
        tf_test_heap_fail_never(&s.w.heap);
    }
    for (unsigned i = 0; i < 100; i++) {
        channels[i]->uses++;
        tf_hub_channel_release(s.node->hub, channels[i]);
    }
    end(&s);
}
END_TEST

/* All that a connection brings together, not only each origin behind it, however many they are. */
START_TEST(limits_total_rate_of_a_relay_holds)
{
    static setup s;
    begin_as(&s, true, &(tf_hub_config){.rate = 1, .max_in_flight = 256});
    const unsigned total = TF_MAX_IN_FLIGHT_MAX;
    for (unsigned i = 0; i <= total; i++) {
        char id[16];
        const tf_who origin = {world_id(50), i / 256};
        (void)snprintf(id, sizeof(id), "c-%u", i);
        tf_local promise = raw_send_origin(s.raw, id, tf_slice_str(id), &origin);
        s.raw->count = 0; /* of earlier answers nothing is asked */
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), i < total ? "acked" : "rate_limited");
    }
    end(&s);
}
END_TEST

/* An origin is kept for what is in flight, waits or was refused, and no longer. */
START_TEST(limits_origins_are_let_go_with_what_they_were_kept_for)
{
    static setup s;
    begin_as(&s, true, &(tf_hub_config){.max_in_flight = 1});
    const tf_conn *conn = raw_pair(s.raw)->end[1].conn;
    for (unsigned round = 0; round < 3; round++) {
        const tf_who origin = {world_id(50), round};
        char ids[2][16];
        (void)snprintf(ids[0], sizeof(ids[0]), "a-%u", round);
        (void)snprintf(ids[1], sizeof(ids[1]), "b-%u", round);
        s.node->stub.hold = true;
        tf_local first = raw_send_origin(s.raw, ids[0], tf_slice_str("x"), &origin);
        tf_local refused = raw_send_origin(s.raw, ids[1], tf_slice_str("x"), &origin);
        tf_local again = raw_send_origin(s.raw, ids[0], tf_slice_str("x"), &origin);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, refused), "too_many_in_flight");
        stub_let_go(&s.node->stub);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, first), "acked");
        ck_assert_str_eq(raw_outcome(s.raw, again), "acked");
        ck_assert_uint_eq(conn->guard_count, 1);
        refused = raw_send_origin(s.raw, ids[1], tf_slice_str("x"), &origin);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, refused), "acked");
        ck_assert_uint_eq(conn->guard_count, 0);
        ck_assert_uint_eq(conn->origins.count, 0);
    }
    end(&s);
}
END_TEST

/* Whichever allocation fails: a send is answered, or its connection ends, and it comes again by the next. */
START_TEST(limits_send_of_an_origin_without_memory_is_not_forgotten)
{
    bool failed = true;
    for (uint64_t k = 0; failed; k++) {
        static setup s;
        begin_as(&s, true, NULL);
        tf_local sent = raw_send_origin(s.raw, "a", tf_slice_str("x"), &(tf_who){world_id(50), 1});
        world_raw_pump(&s.w, s.raw->end);
        (void)world_move(&s.w, raw_pair(s.raw), 0);
        tf_test_heap_fail_at(&s.w.heap, k, false);
        world_end_turn(&s.w, s.node);
        failed = s.w.heap.failures > 0;
        tf_test_heap_fail_never(&s.w.heap);
        if (s.node->failures == 0) {
            raw_settle(s.raw);
            ck_assert_str_ne(raw_outcome(s.raw, sent), "waiting");
        } else {
            ck_assert_int_eq(s.node->last_failure, TF_ERR_NOMEM);
        }
        world_free(&s.w);
        free(s.raw);
    }
}
END_TEST

/* Whichever allocation fails: the connection belongs to the hub, or it is as it was. */
/* One send is with the store, another waits for the next group. */
START_TEST(limits_hub_that_goes_takes_what_is_not_committed_along)
{
    static setup s;
    begin(&s);
    s.node->stub.hold = true;
    for (unsigned i = 1; i <= 2; i++) {
        tf_local promise = raw_send_numbered(s.raw, i);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promise), "waiting");
    }
    ck_assert(!tf_list_is_empty(&s.node->hub->gathered));
    end(&s);
}
END_TEST

START_TEST(limits_connection_without_memory_is_not_attached)
{
    static setup s;
    begin(&s);
    tf_conn_config config = raw_pair(s.raw)->end[1].conn->config;
    config.link.peer_instance = 99;
    tf_err err = TF_ERR_NOMEM;
    uint64_t k = 0;
    for (; err != TF_OK; k++) {
        tf_conn *conn = NULL;
        ck_assert_int_eq(tf_conn_new(&conn, &config, s.w.now), TF_OK);
        tf_test_heap_fail_at(&s.w.heap, k, false);
        err = tf_hub_attach(s.node->hub, s.w.now, conn);
        tf_test_heap_fail_never(&s.w.heap);
        ck_assert(err == TF_OK ? conn->hub == s.node->hub : err == TF_ERR_NOMEM && conn->hub == NULL);
        if (err == TF_OK) {
            tf_hub_detach(s.node->hub, s.w.now, conn);
        }
        tf_conn_free(conn);
    }
    ck_assert_uint_gt(k, 1);
    end(&s);
}
END_TEST

/* However large a rate is, what a relay may save up of it has an end. */
START_TEST(limits_rate_of_a_relay_does_not_overflow)
{
    static setup s;
    begin_as(&s, true, &(tf_hub_config){.rate_bytes = UINT32_MAX, .max_in_flight = 1});
    ck_assert_uint_eq(s.node->hub->rates[TF_RATE_BYTES].burst, UINT32_MAX);
    const tf_rate_limit *relay = &s.node->hub->relay_rates[TF_RATE_BYTES];
    ck_assert_uint_le(relay->burst, TF_RATE_BURST_MAX);
    ck_assert_uint_eq(relay->per_second, (uint64_t)UINT32_MAX * TF_MAX_IN_FLIGHT_MAX); /* its window is so much larger */
    raw_send_range(s.raw, 1, 3);
    end(&s);
}
END_TEST

/* With nothing said about it, a peer may have a window of large messages on their way to the disk. */
START_TEST(limits_a_window_of_large_messages_is_taken)
{
    static setup s;
    static uint8_t body[512u << 10];
    begin(&s);
    s.node->stub.hold = true;
    tf_local promises[8];
    for (unsigned i = 0; i < 8; i++) {
        char id[16];
        (void)snprintf(id, sizeof(id), "c-%u", i);
        promises[i] = raw_send_origin(s.raw, id, tf_slice_of(body, sizeof(body)), NULL);
        raw_settle(s.raw);
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "waiting");
    }
    tf_hub_stats stats;
    tf_hub_get_stats(s.node->hub, &stats);
    ck_assert_uint_eq(stats.committing_bytes, 8 * sizeof(body));
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    for (unsigned i = 0; i < 8; i++) {
        ck_assert_str_eq(raw_outcome(s.raw, promises[i]), "acked");
    }
    end(&s);
}
END_TEST

/* D1: the peer is told what was wrong, and with which number. */
START_TEST(limits_fault_of_a_peer_is_told_in_words)
{
    static const struct {
        uint64_t number;
        uint64_t ack;
        const char *text;
    } rows[] = {
        {77, 0, "a message number other than the expected one: got 77, expected 0"},
        {0, 5, "an acknowledgement of what was never sent: got 5, at most 0"},
    };
    static setup s;
    begin(&s);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        raw_peer *bad = raw_new(&s.w, s.node, 12);
        uint8_t bytes[64];
        tf_writer w;
        tf_wr_init(&w, bytes, sizeof(bytes));
        tf_message_write_ack(&w, rows[i].number, rows[i].ack);
        ck_assert_int_eq(tf_link_send(bad->end->conn->link, s.w.now, tf_slice_of(bytes, tf_wr_len(&w))), TF_OK);
        world_settle(&s.w);
        bool told = false;
        for (tf_link_event event; tf_link_next_event(bad->end->conn->link, &event);) {
            told = told || (event.type == TF_LINK_EVENT_CLOSED && tf_slice_eq(event.reason, tf_slice_str(rows[i].text)));
        }
        ck_assert_msg(told, "row %zu: %s", i, raw_pair(bad)->end[1].conn->failure_text);
        ck_assert_str_eq(raw_pair(bad)->end[1].conn->failure_text, rows[i].text);
        world_disconnect(&s.w, raw_pair(bad));
        free(bad);
    }
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        limits_reads_that_wait_are_bounded,
        limits_reads_that_wait_go_with_their_session,
        limits_read_without_an_answer_does_nothing,
        limits_subscription_without_an_answer_is_none,
        limits_message_beyond_what_the_reader_takes_is_refused_to_it,
        limits_objects_of_the_application_are_bounded,
        limits_subscriptions_that_ended_make_room,
        limits_message_that_reaches_what_a_subscriber_takes_is_the_last,
        limits_what_a_sender_hears_of_itself_without_echo,
        limits_subscription_that_begins_later_leaves_the_others_alone,
        limits_channels_in_memory_are_bounded,
        limits_channels_without_memory_are_not_brought,
        limits_total_rate_of_a_relay_holds,
        limits_origins_are_let_go_with_what_they_were_kept_for,
        limits_send_of_an_origin_without_memory_is_not_forgotten,
        limits_hub_that_goes_takes_what_is_not_committed_along,
        limits_connection_without_memory_is_not_attached,
        limits_rate_of_a_relay_does_not_overflow,
        limits_a_window_of_large_messages_is_taken,
        limits_fault_of_a_peer_is_told_in_words,
        NULL,
    };
    return tf_test_run("node/hub limits", tests);
}
