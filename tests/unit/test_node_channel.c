/* Subscriptions of a hub and their client: replay, live, catching up, echo, gaps (S8, S10, P2, P7). */
#include "tests/support/check_main.h"
#include "tests/unit/client_world.h"

/* Client 0 publishes, client 1 subscribes, client 2 where a test has one. */
static void begin(client_world *cw, uint64_t seed, const tf_hub_config *config, size_t clients)
{
    cw_begin(cw, seed, config);
    for (size_t i = 0; i < clients; i++) {
        (void)cw_client(cw, NULL);
        ck_assert_uint_eq(cw_open(cw, i, "room"), 0);
        cw_connect(cw, i);
    }
    cw_settle(cw);
}

static bool log_got(const client_log *log, uint64_t from, uint64_t to)
{
    if (log->activities != to - from + 1) {
        return false;
    }
    for (size_t i = 0; i < log->activities; i++) {
        if (log->seqs[i] != from + i) {
            return false;
        }
    }
    return true;
}

START_TEST(channel_subscriber_starts_where_it_asks_to)
{
    static const struct {
        tf_from_kind kind;
        uint64_t value;
        uint64_t next;
    } rows[] = {
        {TF_FROM_NEW, 0, 11},    {TF_FROM_FIRST, 0, 1},
        {TF_FROM_SEQ, 1, 1},     {TF_FROM_SEQ, 5, 5},
        {TF_FROM_SEQ, 10, 10},   {TF_FROM_SEQ, 11, 11},
        {TF_FROM_SEQ, 13, 13},   {TF_FROM_TIME, 0, 1},
        {TF_FROM_TIME, 1700000000004, 5}, {TF_FROM_TIME, 1700000000009, 10},
        {TF_FROM_TIME, 1700000000010, 11}, {TF_FROM_TIME, UINT64_MAX, 11},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static client_world cw;
        begin(&cw, 1, NULL, 2);
        for (unsigned n = 1; n <= 10; n++) {
            cw_send_range(&cw, 0, 0, n, n);
            cw_settle(&cw);
            cw.w.wall_ms++;
        }
        cw_subscribe(&cw, 1, 0, rows[i].kind, rows[i].value, false);
        cw_settle(&cw);
        ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_SUBSCRIBED].next, rows[i].next);
        ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_SUBSCRIBED].head, 10);
        ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_SUBSCRIBED].first, 1);
        cw_send_range(&cw, 0, 0, 11, 15);
        cw_settle(&cw);
        ck_assert_msg(log_got(&cw.logs[1], rows[i].next, 15), "row %zu", i);
        ck_assert_uint_eq(cw.logs[1].counts[TF_CLIENT_GAP], 0);
        cw_end(&cw);
    }
}
END_TEST

START_TEST(channel_activity_carries_who_sent_what_and_when)
{
    static client_world cw;
    begin(&cw, 2, NULL, 2);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 7, 7);
    world_settle(&cw.w);
    tf_client_event event;
    ck_assert(tf_client_next_event(cw.clients[1], &event));
    ck_assert_int_eq(event.type, TF_CLIENT_ACTIVITY);
    ck_assert(tf_node_id_eq(&event.sender, &cw.nodes[0]->id));
    ck_assert(tf_slice_eq(event.client_id, tf_slice_str("00000000abcdef00-1")));
    ck_assert(tf_slice_eq(event.body, tf_slice_str("c-7")));
    tf_stored stored = store_read(cw.server, "room", 1);
    ck_assert(store_is_id_of(&stored, event.id));
    ck_assert_int_eq(event.timestamp_ms, 1700000000000);
    cw_end(&cw);
}
END_TEST

START_TEST(channel_replay_goes_over_to_live_without_hole_or_repeat)
{
    for (unsigned at = 0; at <= 40; at += 4) {
        static client_world cw;
        begin(&cw, at + 3, NULL, 2);
        cw_send_range(&cw, 0, 0, 1, 20);
        cw_settle(&cw);
        cw_send_range(&cw, 0, 0, 21, 60);
        cw_subscribe(&cw, 1, 0, TF_FROM_FIRST, 0, false);
        for (unsigned i = 0; i < at; i++) {
            (void)world_step(&cw.w); /* sends and subscription meet somewhere */
            cw.server->stub.hold = i % 3 != 0;
            if (i % 3 == 0) {
                (void)stub_release(&cw.server->stub);
            }
        }
        cw.server->stub.hold = false;
        (void)stub_release(&cw.server->stub);
        cw_settle(&cw);
        ck_assert_msg(log_got(&cw.logs[1], 1, 60), "at %u", at);
        cw_end(&cw);
    }
}
END_TEST

START_TEST(channel_ack_comes_before_the_own_and_everyone_elses_copy)
{
    static client_world cw;
    begin(&cw, 4, NULL, 1);
    cw_subscribe(&cw, 0, 0, TF_FROM_NEW, 0, true);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 10);
    world_settle(&cw.w);
    tf_client_event event;
    uint64_t acked = 0;
    uint64_t seen = 0;
    while (tf_client_next_event(cw.clients[0], &event)) {
        if (event.type == TF_CLIENT_ACK) {
            acked = event.seq;
        } else if (event.type == TF_CLIENT_ACTIVITY) {
            seen = event.seq;
            ck_assert_uint_ge(acked, seen);
        }
    }
    ck_assert_uint_eq(seen, 10);
    cw_end(&cw);
}
END_TEST

/* -- S8 ------------------------------------------------------------------------------------------------------------ */

START_TEST(channel_sender_does_not_get_its_own_unless_it_asks)
{
    static client_world cw;
    begin(&cw, 5, NULL, 3);
    cw_subscribe(&cw, 0, 0, TF_FROM_NEW, 0, false);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, true);
    cw_subscribe(&cw, 2, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 3);
    cw_settle(&cw);
    cw_send_range(&cw, 1, 0, 4, 6);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 7, 7);
    cw_settle(&cw);
    ck_assert(log_got(&cw.logs[0], 4, 6));
    ck_assert(log_got(&cw.logs[1], 1, 7));
    ck_assert(log_got(&cw.logs[2], 1, 7));
    ck_assert_uint_eq(cw.nodes[0]->failures, 0);
    cw_end(&cw);
}
END_TEST

/* One group with sends of several: an ack may move the position only over what is next (S8, P2). */
START_TEST(channel_senders_in_one_group_leave_no_hole)
{
    static client_world cw;
    begin(&cw, 21, NULL, 3);
    for (size_t i = 0; i < 3; i++) {
        cw_subscribe(&cw, i, 0, TF_FROM_NEW, 0, false);
    }
    cw_settle(&cw);
    cw.server->stub.hold = true;
    cw_send_range(&cw, 0, 0, 1, 1);
    cw_settle(&cw);
    for (unsigned n = 0; n < 12; n++) { /* 2 to 13, taking turns, gather behind it */
        cw_send_range(&cw, n % 3, 0, n, n);
        cw_settle(&cw);
    }
    cw.server->stub.hold = false;
    ck_assert(stub_release(&cw.server->stub));
    cw_settle(&cw);
    ck_assert_uint_eq(cw.server->stub.largest, 12);
    static const size_t own[] = {5, 4, 4};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(cw.nodes[i]->failures, 0);
        ck_assert_uint_eq(cw.logs[i].acks, own[i]);
        ck_assert_uint_eq(cw.logs[i].activities, 13 - own[i]);
        ck_assert_uint_eq(cw.clients[i]->channels[0]->next, 14);
    }
    cw_end(&cw);
}
END_TEST

START_TEST(channel_position_moves_over_own_sends_by_their_acks)
{
    static client_world cw;
    begin(&cw, 6, NULL, 2);
    cw_subscribe(&cw, 0, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 5);
    cw_settle(&cw);
    cw_lose(&cw, 0);
    cw_send_range(&cw, 1, 0, 6, 8);
    cw_settle(&cw);
    cw_connect(&cw, 0); /* goes on behind its own: they are not read again */
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].last[TF_CLIENT_SUBSCRIBED].next, 6);
    ck_assert(log_got(&cw.logs[0], 6, 8));
    cw_end(&cw);
}
END_TEST

START_TEST(channel_own_send_acked_as_a_duplicate_is_delivered)
{
    static client_world cw;
    begin(&cw, 7, NULL, 1);
    cw_subscribe(&cw, 0, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 3);
    cw.pairs[0]->end[0].blocked = true; /* acks are lost with the session */
    cw_settle(&cw);
    cw_lose(&cw, 0);
    cw_connect(&cw, 0);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].duplicates, 3);
    ck_assert(log_got(&cw.logs[0], 1, 3)); /* replayed like any other */
    cw_end(&cw);
}
END_TEST

START_TEST(channel_own_send_without_an_ack_is_delivered)
{
    static client_world cw;
    static const uint8_t from_new[] = {0x81, 0xa4, 'f', 'r', 'o', 'm', 0xa3, 'n', 'e', 'w'};
    uint8_t bytes[64];
    tf_writer w;
    cw_begin(&cw, 22, NULL);
    raw_peer *raw = raw_new(&cw.w, cw.server, 3);
    raw_open(raw, "room");
    tf_local sink = tf_router_new_object(raw->end->router);
    (void)raw_call(raw, raw->channel, "subscribe", tf_slice_of(from_new, sizeof(from_new)), sink);
    (void)raw_send(raw, "a", "with");
    raw_settle(raw);
    size_t before = raw->count;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_send_write(&w, &(tf_args_send){.client_id = tf_slice_str("b"), .body = tf_slice_str("without")});
    tf_router_send send = {
        .target = raw->channel, .method = tf_slice_str("send"), .args = tf_slice_of(bytes, tf_wr_len(&w))};
    ck_assert_int_eq(tf_router_deliver(raw->end->router, cw.w.now, &send, NULL), TF_OK);
    raw_settle(raw);
    ck_assert_uint_eq(raw->count, before + 1); /* nobody told it the seq but the activity */
    ck_assert(raw->answers[before].is_deliver);
    ck_assert_str_eq(raw->answers[before].method, "activity");
    cw_end(&cw);
    free(raw);
}
END_TEST

/* -- P7: slow ones ------------------------------------------------------------------------------------------------- */

START_TEST(channel_subscriber_that_cannot_keep_up_is_fed_at_its_pace)
{
    static client_world cw;
    tf_hub_stats stats;
    cw_begin(&cw, 8, &(tf_hub_config){.out_queue_items = 64, .out_queue_bytes = 16384});
    cw.w.window_bytes = 65536;
    for (size_t i = 0; i < 3; i++) {
        (void)cw_client(&cw, NULL);
        ck_assert_uint_eq(cw_open(&cw, i, "room"), 0);
        cw_connect(&cw, i);
    }
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_subscribe(&cw, 2, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw.pairs[1]->end[0].blocked = true;
    size_t live = 0;
    for (unsigned n = 0; n < 20; n++) {
        cw_send_range(&cw, 0, 0, n * 100 + 1, n * 100 + 100);
        cw_settle(&cw);
        size_t held = tf_session_out_bytes(tf_conn_session(cw.pairs[1]->end[1].conn));
        live = held > live ? held : live;
    }
    tf_hub_get_stats(cw.server->hub, &stats);
    ck_assert_uint_le(live, 16384 + 1024); /* bounded, however long it sleeps */
    ck_assert(log_got(&cw.logs[2], 1, 2000));
    ck_assert_uint_eq(cw.logs[1].activities, 0);
    cw.pairs[1]->end[0].blocked = false;
    cw_settle(&cw);
    cw_pass(&cw, 50);
    ck_assert(log_got(&cw.logs[1], 1, 2000));
    tf_hub_get_stats(cw.server->hub, &stats);
    ck_assert_uint_gt(stats.from_store, 0);
    cw_send_range(&cw, 0, 0, 2001, 2001);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[1].next, 2002);
    cw_end(&cw);
}
END_TEST

START_TEST(channel_client_whose_application_is_slow_stops_reading)
{
    static client_world cw;
    static uint8_t body[100000];
    begin(&cw, 9, NULL, 2);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    for (uint64_t i = 0; i < 100; i++) {
        tf_send send = {.body = tf_slice_of(body, sizeof(body)), .cookie = i};
        ck_assert_int_eq(tf_client_send(cw.clients[0], cw.w.now, 0, &send), TF_OK);
        world_settle(&cw.w);
        cw_pull(&cw, 0);
    }
    ck_assert_uint_le(cw.clients[1]->channels[0]->backlog, TF_CLIENT_EVENT_BYTES + sizeof(body) + TF_ACTIVITY_OVERHEAD);
    ck_assert(tf_link_is_quiet(tf_conn_link(cw.pairs[1]->end[1].conn))); /* the link is not blocked */
    cw_settle(&cw);
    cw_pass(&cw, 50);
    ck_assert_uint_eq(cw.logs[0].acks, 100);
    ck_assert_uint_eq(cw.logs[1].activities, 100);
    ck_assert(log_got(&cw.logs[1], 1, 100));
    cw_end(&cw);
}
END_TEST

START_TEST(channel_read_that_the_store_answers_later_is_waited_for)
{
    static client_world cw;
    begin(&cw, 10, NULL, 2);
    cw_send_range(&cw, 0, 0, 1, 20);
    cw_settle(&cw);
    cw.server->stub.later = true;
    cw_subscribe(&cw, 1, 0, TF_FROM_FIRST, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 21, 22); /* acks do not wait for reads */
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].acks, 22);
    ck_assert_uint_eq(cw.logs[1].activities, 0);
    cw.server->stub.later = false;
    cw.server->stub.ready = true;
    cw_settle(&cw);
    ck_assert(log_got(&cw.logs[1], 1, 22));
    cw_end(&cw);
}
END_TEST

/* -- gaps are announced -------------------------------------------------------------------------------------------- */

START_TEST(channel_trimmed_or_damaged_range_is_announced)
{
    static client_world cw;
    begin(&cw, 11, NULL, 2);
    cw_send_range(&cw, 0, 0, 1, 20);
    cw_settle(&cw);
    cw.server->stub.gone_below = 5;
    cw.server->stub.damaged_from = 10;
    cw.server->stub.damaged_to = 12;
    cw_subscribe(&cw, 1, 0, TF_FROM_SEQ, 2, false);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[1].counts[TF_CLIENT_GAP], 2);
    ck_assert_uint_eq(cw.logs[1].activities, 5 + 8); /* 5 to 9, 13 to 20 */
    ck_assert_uint_eq(cw.logs[1].seqs[0], 5);
    ck_assert_uint_eq(cw.logs[1].seqs[5], 13);
    ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_GAP].expected, 10);
    ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_GAP].got, 13);
    ck_assert(!cw.logs[1].last[TF_CLIENT_GAP].epoch_changed);
    ck_assert_uint_eq(cw.nodes[1]->failures, 0);
    cw_end(&cw);
}
END_TEST

START_TEST(channel_range_trimmed_while_away_is_announced_on_resume)
{
    static client_world cw;
    begin(&cw, 12, NULL, 2);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 5);
    cw_settle(&cw);
    cw_lose(&cw, 1);
    cw_send_range(&cw, 0, 0, 6, 20);
    cw_settle(&cw);
    cw.server->stub.gone_below = 10;
    cw_connect(&cw, 1);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[1].counts[TF_CLIENT_GAP], 1);
    ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_GAP].expected, 6);
    ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_GAP].got, 10);
    ck_assert_uint_eq(cw.logs[1].activities, 5 + 11);
    cw_end(&cw);
}
END_TEST

START_TEST(channel_another_epoch_is_announced_and_read_from_its_first)
{
    static client_world cw;
    begin(&cw, 13, NULL, 2);
    cw_subscribe(&cw, 1, 0, TF_FROM_FIRST, 0, false);
    cw_send_range(&cw, 0, 0, 1, 5);
    cw_settle(&cw);
    uint64_t epoch = cw.logs[1].epoch;
    cw_lose(&cw, 0);
    cw_lose(&cw, 1);
    /* The relay comes back without what it had. */
    tf_memory_store_free(cw.server->stub.memory);
    tf_memory_store_config memory = {.mem = &cw.w.heap.mem, .hash_key = 7};
    ck_assert_int_eq(tf_memory_store_new(&cw.server->stub.memory, &memory), TF_OK);
    cw.server->stub.inner = tf_memory_store_get(cw.server->stub.memory);
    cw_connect(&cw, 0);
    cw_send_range(&cw, 0, 0, 6, 8);
    cw_settle(&cw);
    cw_connect(&cw, 1);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[1].counts[TF_CLIENT_GAP], 1);
    ck_assert(cw.logs[1].last[TF_CLIENT_GAP].epoch_changed);
    ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_GAP].expected, 6);
    ck_assert_uint_eq(cw.logs[1].last[TF_CLIENT_GAP].got, 1);
    ck_assert_uint_ne(cw.logs[1].epoch, epoch);
    ck_assert_uint_eq(cw.logs[1].activities, 5 + 3);
    ck_assert_str_eq(cw.logs[1].last_body, "c-8");
    cw_end(&cw);
}
END_TEST

START_TEST(channel_body_too_large_for_a_subscriber_is_announced_as_a_gap)
{
    static client_world cw;
    static uint8_t body[5000];
    begin(&cw, 14, NULL, 1);
    cw.w.max_message = 4096;
    (void)cw_client(&cw, NULL);
    ck_assert_uint_eq(cw_open(&cw, 1, "room"), 0);
    cw_connect(&cw, 1);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    static const size_t sizes[] = {10, 5000, 10};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(tf_client_send(cw.clients[0], cw.w.now, 0, &(tf_send){.body = tf_slice_of(body, sizes[i])}),
                         TF_OK);
    }
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[1].counts[TF_CLIENT_GAP], 1);
    ck_assert_uint_eq(cw.logs[1].activities, 2);
    ck_assert_uint_eq(cw.logs[1].seqs[1], 3);
    cw_end(&cw);
}
END_TEST

/* -- the end of a subscription ------------------------------------------------------------------------------------- */

START_TEST(channel_subscription_ends_when_it_is_dropped)
{
    static client_world cw;
    tf_hub_stats stats;
    begin(&cw, 15, NULL, 2);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 2);
    cw_settle(&cw);
    tf_client_unsubscribe(cw.clients[1], cw.w.now, 0);
    cw_send_range(&cw, 0, 0, 3, 4); /* crosses the drop */
    cw_settle(&cw);
    tf_hub_get_stats(cw.server->hub, &stats);
    ck_assert_uint_eq(stats.subscriptions, 0);
    ck_assert(log_got(&cw.logs[1], 1, 2));
    cw_subscribe(&cw, 1, 0, TF_FROM_SEQ, 3, false); /* and again, in the same session */
    tf_client_unsubscribe(cw.clients[1], cw.w.now, 0);
    cw_settle(&cw);
    cw_subscribe(&cw, 1, 0, TF_FROM_SEQ, 3, false);
    world_settle(&cw.w);
    tf_hub_get_stats(cw.server->hub, &stats);
    ck_assert_uint_eq(stats.subscriptions, 1);
    cw.logs[1].next = 0;
    cw.logs[1].activities = 0;
    cw_settle(&cw);
    ck_assert(log_got(&cw.logs[1], 3, 4));
    cw_lose(&cw, 1);
    tf_hub_get_stats(cw.server->hub, &stats);
    ck_assert_uint_eq(stats.subscriptions, 0);
    cw_end(&cw);
}
END_TEST

START_TEST(channel_unsubscribed_while_the_answer_is_under_way_leaves_nothing)
{
    static client_world cw;
    tf_hub_stats stats;
    begin(&cw, 16, NULL, 2);
    for (size_t steps = 0; steps < 8; steps++) {
        cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
        for (size_t i = 0; i < steps; i++) {
            (void)world_step(&cw.w);
        }
        tf_client_unsubscribe(cw.clients[1], cw.w.now, 0);
        cw_settle(&cw);
        cw.logs[1].next = 0;
        tf_hub_get_stats(cw.server->hub, &stats);
        ck_assert_uint_eq(stats.subscriptions, 0);
    }
    cw_end(&cw);
}
END_TEST

/* P5: when both sides are quiet nothing is left over. */
START_TEST(channel_quiet_sessions_hold_only_what_is_in_use)
{
    static client_world cw;
    tf_session_stats stats;
    begin(&cw, 17, NULL, 2);
    cw_subscribe(&cw, 1, 0, TF_FROM_NEW, 0, false);
    cw_send_range(&cw, 0, 0, 1, 500);
    cw_settle(&cw);
    cw_pass(&cw, 100);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < 2; k++) {
            tf_session_get_stats(tf_conn_session(cw.pairs[i]->end[k].conn), &stats);
            ck_assert_uint_eq(stats.promises_ours, 0);
            ck_assert_uint_eq(stats.promises_theirs, 0);
            ck_assert_uint_eq(stats.retirements, 0);
            /* root, and: channel; sink against subscription */
            ck_assert_uint_eq(stats.imports + stats.exports, 2 + 1 + (i == 1 ? 2 : 0));
        }
        ck_assert(tf_link_is_quiet(tf_conn_link(cw.pairs[i]->end[0].conn)));
        ck_assert(tf_link_is_quiet(tf_conn_link(cw.pairs[i]->end[1].conn)));
    }
    cw_end(&cw);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        channel_subscriber_starts_where_it_asks_to,
        channel_activity_carries_who_sent_what_and_when,
        channel_replay_goes_over_to_live_without_hole_or_repeat,
        channel_ack_comes_before_the_own_and_everyone_elses_copy,
        channel_sender_does_not_get_its_own_unless_it_asks,
        channel_senders_in_one_group_leave_no_hole,
        channel_position_moves_over_own_sends_by_their_acks,
        channel_own_send_acked_as_a_duplicate_is_delivered,
        channel_own_send_without_an_ack_is_delivered,
        channel_subscriber_that_cannot_keep_up_is_fed_at_its_pace,
        channel_client_whose_application_is_slow_stops_reading,
        channel_read_that_the_store_answers_later_is_waited_for,
        channel_trimmed_or_damaged_range_is_announced,
        channel_range_trimmed_while_away_is_announced_on_resume,
        channel_another_epoch_is_announced_and_read_from_its_first,
        channel_body_too_large_for_a_subscriber_is_announced_as_a_gap,
        channel_subscription_ends_when_it_is_dropped,
        channel_unsubscribed_while_the_answer_is_under_way_leaves_nothing,
        channel_quiet_sessions_hold_only_what_is_in_use,
        NULL,
    };
    return tf_test_run("node/channel", tests);
}
