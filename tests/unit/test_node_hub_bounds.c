/* node/hub: `read`, and what a connection may have of subscriptions and waiting requests (P7). */
#include "tests/support/check_main.h"
#include "tests/unit/client_world.h"
#include "tests/unit/raw_room.h"

static tf_local call_read(raw_peer *raw, uint64_t from, uint64_t to)
{
    uint8_t bytes[64];
    tf_writer w;
    tf_wr_init(&w, bytes, sizeof(bytes));
    tf_args_read_write(&w, &(tf_args_read){from, to});
    return raw_call(raw, raw->channel, "read", tf_slice_of(bytes, tf_wr_len(&w)), TF_LOCAL_NONE);
}

START_TEST(channel_read_answers_the_range_that_there_is)
{
    static const struct {
        uint64_t from, to;
        uint8_t items; /* in the answer, whose array has a fixarray header */
    } rows[] = {{1, 1, 1}, {1, 5, 5}, {4, 9, 2}, {5, 5, 1}, {6, 9, 0}, {2, UINT64_MAX, 4}};
    static client_world cw;
    cw_begin(&cw, 18, NULL);
    raw_peer *raw = raw_new(&cw.w, cw.server, 3);
    raw_open(raw, "room");
    for (unsigned i = 1; i <= 5; i++) {
        (void)raw_send_numbered(raw, i);
    }
    raw_settle(raw);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        tf_local promise = call_read(raw, rows[i].from, rows[i].to);
        raw_settle(raw);
        ck_assert_str_eq(raw_outcome(raw, promise), "acked");
        tf_slice data = raw_data(raw_find(raw, promise));
        static const char items[] = "items";
        const uint8_t *at = memmem(data.data, data.len, items, 5);
        ck_assert_ptr_nonnull(at);
        ck_assert_uint_eq(at[5], 0x90u + rows[i].items);
    }
    cw_end(&cw);
    free(raw);
}
END_TEST

START_TEST(channel_reads_that_wait_are_bounded)
{
    static client_world cw;
    tf_local promises[TF_HUB_READS_MAX + 2];
    cw_begin(&cw, 19, NULL);
    raw_peer *raw = raw_new(&cw.w, cw.server, 3);
    raw_open(raw, "room");
    (void)raw_send_numbered(raw, 1);
    raw_settle(raw);
    cw.server->stub.later = true;
    for (size_t i = 0; i < TF_HUB_READS_MAX + 2; i++) {
        promises[i] = call_read(raw, 1, 1);
    }
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, promises[TF_HUB_READS_MAX]), "overloaded");
    ck_assert_str_eq(raw_outcome(raw, promises[TF_HUB_READS_MAX - 1]), "waiting");
    cw.server->stub.later = false;
    cw.server->stub.ready = true;
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, promises[TF_HUB_READS_MAX - 1]), "acked");
    cw_end(&cw);
    free(raw);
}
END_TEST

START_TEST(channel_subscriptions_of_a_connection_are_bounded)
{
    static client_world cw;
    static const uint8_t from_new[] = {0x81, 0xa4, 'f', 'r', 'o', 'm', 0xa3, 'n', 'e', 'w'};
    tf_local promises[4];
    cw_begin(&cw, 20, &(tf_hub_config){.subscriptions_per_peer = 3});
    raw_peer *raw = raw_new(&cw.w, cw.server, 3);
    raw_open(raw, "room");
    for (size_t i = 0; i < 4; i++) {
        tf_local sink = tf_router_new_object(raw->end->router);
        promises[i] = raw_call(raw, raw->channel, "subscribe", tf_slice_of(from_new, sizeof(from_new)), sink);
    }
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, promises[2]), "acked");
    ck_assert_str_eq(raw_outcome(raw, promises[3]), "overloaded");
    /* A sink must be the subscriber's own: the channel is ours. */
    tf_local odd = raw_call(raw, raw->channel, "subscribe", tf_slice_of(from_new, sizeof(from_new)), raw->channel);
    raw_settle(raw);
    ck_assert_str_eq(raw_outcome(raw, odd), "bad_request");
    cw_end(&cw);
    free(raw);
}
END_TEST

/* Durable subscriptions whose cursors are not stored yet. */
START_TEST(channel_subscriptions_that_wait_for_their_cursors_are_bounded)
{
    setup s;
    tf_local promises[TF_HUB_OPENS_MAX + 1];
    begin_with(&s, &(tf_hub_config){.subscriptions_per_peer = TF_HUB_OPENS_MAX + 1});
    s.node->stub.hold = true;
    for (unsigned i = 0; i <= TF_HUB_OPENS_MAX; i++) {
        char name[16];
        int len = snprintf(name, sizeof(name), "reader%u", i);
        tf_args_subscribe args = {.from = {.kind = TF_FROM_FIRST}, .durable = tf_slice_of(name, (size_t)len)};
        promises[i] = raw_ask_subscribe(s.raw, &args, tf_router_new_object(s.raw->end->router));
    }
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX - 1]), "waiting");
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX]), "overloaded");
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX - 1]), "acked");
    end(&s);
}
END_TEST

START_TEST(channel_confirms_that_wait_are_bounded)
{
    setup s;
    tf_local promises[TF_HUB_OPENS_MAX + 1];
    begin(&s);
    raw_send_range(s.raw, 1, TF_HUB_OPENS_MAX + 1);
    tf_args_subscribe args = {.from = {.kind = TF_FROM_FIRST}, .durable = tf_slice_str("reader")};
    raw_sub sub = raw_subscribe(s.raw, &args);
    s.node->stub.hold = true;
    for (uint64_t i = 0; i <= TF_HUB_OPENS_MAX; i++) {
        promises[i] = raw_confirm(&sub, sub.start.epoch, i + 2);
    }
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX - 1]), "waiting");
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX]), "overloaded");
    stub_let_go(&s.node->stub);
    raw_settle(s.raw);
    ck_assert_str_eq(raw_outcome(s.raw, promises[TF_HUB_OPENS_MAX - 1]), "acked");
    end(&s);
}
END_TEST

/* What was behind it is lost: it goes on with what comes next. */
START_TEST(channel_cursor_beyond_the_head_begins_behind_it)
{
    setup s;
    begin(&s);
    raw_send_range(s.raw, 1, 5);
    tf_args_subscribe args = {.from = {.kind = TF_FROM_FIRST}};
    tf_store_op op = {.kind = TF_STORE_CURSOR,
                      .channel = 1,
                      .cursor = {.channel = 1,
                                 .owner = world_id(99),
                                 .name = tf_slice_str("reader"),
                                 .epoch = raw_subscribe(s.raw, &args).start.epoch,
                                 .next = 100}};
    stub_commit(&s.node->stub, &op);
    args.durable = tf_slice_str("reader");
    raw_sub sub = raw_subscribe(s.raw, &args);
    ck_assert(sub.start.next == 6 && sub.start.resumed);
    end(&s);
}
END_TEST

/* S5: what came in together from several connections is committed together. */
START_TEST(channel_sends_of_one_turn_make_one_group)
{
    setup s;
    tf_local promises[3];
    begin_two(&s);
    raw_peer *raws[3] = {s.raw, s.other, in_room(&s, 13)};
    size_t groups = s.node->stub.groups;
    for (unsigned i = 0; i < 3; i++) {
        promises[i] = raw_send_numbered(raws[i], i);
        world_raw_pump(&s.w, raws[i]->end);
        (void)world_move(&s.w, raw_pair(raws[i]), 0);
    }
    world_end_turn(&s.w, s.node);
    ck_assert_uint_eq(s.node->stub.groups, groups + 1);
    for (size_t i = 0; i < 3; i++) {
        raw_settle(raws[i]);
        ck_assert_str_eq(raw_outcome(raws[i], promises[i]), "acked");
    }
    end(&s);
    free(raws[2]);
}
END_TEST

/* Its subscriptions are to be fed everything once more, from the store. */
static tf_conn *lag_again(setup *s)
{
    tf_conn *conn = raw_pair(s->raw)->end[1].conn;
    for (tf_list_node *node = conn->subscriptions.head.next; node != &conn->subscriptions.head; node = node->next) {
        tf_subscription *subscription = TF_CONTAINER(node, tf_subscription, in_conn);
        subscription->next = 1;
        subscription->ahead = 0;
        tf_hub_set_lagging(subscription);
    }
    return conn;
}

/* Before others have their turn: what is above the budget is less than what one subscription gets in its turn. */
START_TEST(channel_feed_of_one_visit_is_bounded)
{
    setup s;
    tf_hub_stats before, after;
    begin(&s);
    raw_send_range(s.raw, 1, 100);
    raw_sub sub = raw_subscribe(s.raw, &(tf_args_subscribe){.from = {.kind = TF_FROM_FIRST}});
    raw_expect_range(&sub, 1, 100);
    tf_conn *conn = lag_again(&s);
    tf_hub_get_stats(s.node->hub, &before);
    ck_assert(!tf_hub_feed(s.node->hub, conn, 20));
    tf_hub_get_stats(s.node->hub, &after);
    ck_assert_uint_ge(after.from_store - before.from_store, 20);
    ck_assert_uint_lt(after.from_store - before.from_store, 40);
    ck_assert(tf_hub_feed(s.node->hub, conn, 100));
    raw_settle(s.raw);
    raw_expect_range(&sub, 1, 100);
    end(&s);
}
END_TEST

/* One that has caught up is no reason to leave the others waiting. */
START_TEST(channel_feed_of_one_visit_is_for_all_that_lag)
{
    setup s;
    raw_sub subs[3];
    begin(&s);
    raw_send_range(s.raw, 1, 5);
    for (size_t i = 0; i < 3; i++) {
        subs[i] = raw_subscribe(s.raw, &(tf_args_subscribe){.from = {.kind = TF_FROM_FIRST}});
        raw_expect_range(&subs[i], 1, 5);
    }
    tf_conn *conn = lag_again(&s);
    ck_assert(tf_hub_feed(s.node->hub, conn, 100));
    ck_assert(tf_list_is_empty(&conn->lagging));
    raw_settle(s.raw);
    for (size_t i = 0; i < 3; i++) {
        raw_expect_range(&subs[i], 1, 5);
    }
    end(&s);
}
END_TEST

/* One run does a bounded amount of work: who is not served at once is served from the store. */
START_TEST(channel_fan_out_of_one_run_is_bounded_and_nobody_misses_anything)
{
    static client_world cw;
    tf_hub_stats stats;
    cw_begin(&cw, 23, &(tf_hub_config){.fan_out = 5});
    for (size_t i = 0; i < 3; i++) {
        (void)cw_client(&cw, NULL);
        ck_assert_uint_eq(cw_open(&cw, i, "room"), 0);
        cw_connect(&cw, i);
        cw_subscribe(&cw, i, 0, TF_FROM_NEW, 0, true);
    }
    cw_settle(&cw);
    cw_send_range(&cw, 0, 0, 1, 30);
    cw_settle(&cw);
    tf_hub_get_stats(cw.server->hub, &stats);
    ck_assert_uint_gt(stats.from_store, 0);
    ck_assert_uint_eq(stats.lagging, 0);
    ck_assert_uint_eq(stats.delivered, 90);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(cw.logs[i].activities, 30);
    }
    cw_end(&cw);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        channel_read_answers_the_range_that_there_is,
        channel_reads_that_wait_are_bounded,
        channel_subscriptions_of_a_connection_are_bounded,
        channel_subscriptions_that_wait_for_their_cursors_are_bounded,
        channel_confirms_that_wait_are_bounded,
        channel_cursor_beyond_the_head_begins_behind_it,
        channel_sends_of_one_turn_make_one_group,
        channel_feed_of_one_visit_is_bounded,
        channel_feed_of_one_visit_is_for_all_that_lag,
        channel_fan_out_of_one_run_is_bounded_and_nobody_misses_anything,
        NULL,
    };
    return tf_test_run("node/hub bounds", tests);
}
