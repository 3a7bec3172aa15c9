/* node/client against a real hub: sends, acks, windows, retries, lost sessions (S1 to S9, P1). */
#include "tests/support/check_main.h"
#include "tests/unit/client_world.h"

START_TEST(client_sends_queued_before_a_session_go_when_there_is_one)
{
    static client_world cw;
    cw_begin(&cw, 1, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_send_range(&cw, 0, room, 1, 5);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].acks, 0);
    ck_assert_uint_eq(tf_client_window(cw.clients[0]), 0);
    cw_connect(&cw, 0);
    cw_settle(&cw);
    ck_assert(log_acked(&cw.logs[0], 1, 5));
    ck_assert(store_holds(cw.server, "room", 1, 5));
    ck_assert_str_eq(cw.logs[0].last_client_id, "00000000abcdef00-5"); /* S2: instance, counter */
    ck_assert_int_eq(cw.logs[0].last[TF_CLIENT_ACK].via, TF_ROUTE_STREAM);
    ck_assert_int_eq(cw.logs[0].last[TF_CLIENT_ACK].timestamp_ms, 1700000000000);
    ck_assert(!tf_client_has_unacked(cw.clients[0]));
    cw_end(&cw);
}
END_TEST

START_TEST(client_keeps_within_the_window_so_that_nothing_is_refused)
{
    static const struct {
        uint32_t wanted;
        uint32_t announced;
        uint32_t window;
    } rows[] = {{0, 32, 32}, {8, 32, 8}, {100, 32, 32}, {1, 32, 1}, {0, 100, 100}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static client_world cw;
        tf_client_stats stats;
        cw_begin(&cw, 2, &(tf_hub_config){.max_in_flight = rows[i].announced});
        (void)cw_client(&cw, &(tf_client_config){.max_in_flight = rows[i].wanted});
        size_t room = cw_open(&cw, 0, "room");
        cw_connect(&cw, 0);
        cw_settle(&cw);
        cw.server->stub.hold = true;
        cw_send_range(&cw, 0, room, 1, 150);
        cw_settle(&cw);
        ck_assert_uint_eq(tf_client_in_flight(cw.clients[0]), rows[i].window);
        while (stub_release(&cw.server->stub)) {
            cw_settle(&cw);
        }
        tf_client_get_stats(cw.clients[0], &stats);
        ck_assert_uint_eq(stats.refusals, 0);
        ck_assert(log_acked(&cw.logs[0], 1, 150));
        ck_assert(store_holds(cw.server, "room", 1, 150));
        cw_end(&cw);
    }
}
END_TEST

START_TEST(client_full_queue_takes_no_more_until_there_is_room)
{
    static const tf_client_config configs[] = {{.queue_items = 10}, {.queue_bytes = 3000}};
    for (size_t i = 0; i < 2; i++) {
        static client_world cw;
        cw_begin(&cw, 3, NULL);
        (void)cw_client(&cw, &configs[i]);
        size_t room = cw_open(&cw, 0, "room");
        unsigned sent = 0;
        while (cw_send(&cw, 0, room, sent + 1) == TF_OK) {
            sent++;
            ck_assert_uint_lt(sent, 100);
        }
        ck_assert_uint_gt(sent, 0);
        cw_connect(&cw, 0);
        cw_settle(&cw);
        ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_ROOM], 1);
        ck_assert(log_acked(&cw.logs[0], 1, sent));
        ck_assert_int_eq(cw_send(&cw, 0, room, sent + 1), TF_OK);
        cw_end(&cw);
    }
}
END_TEST

START_TEST(client_send_that_cannot_be_is_refused_at_once)
{
    static client_world cw;
    static uint8_t body[TF_BODY_MAX + 1];
    size_t channel = 0;
    cw_begin(&cw, 4, NULL);
    tf_client *client = cw_client(&cw, NULL);
    ck_assert_int_eq(tf_client_open(client, cw.w.now, tf_slice_str("no blanks"), &channel), TF_ERR_USAGE);
    size_t room = cw_open(&cw, 0, "room");
    ck_assert_uint_eq(cw_open(&cw, 0, "room"), room);
    tf_send bad_id = {.client_id = tf_slice_str("a b")};
    tf_send too_large = {.body = tf_slice_of(body, sizeof(body))};
    ck_assert_int_eq(tf_client_send(client, cw.w.now, room, &bad_id), TF_ERR_USAGE);
    ck_assert_int_eq(tf_client_send(client, cw.w.now, room, &too_large), TF_ERR_LIMIT_BYTES);
    cw_end(&cw);
}
END_TEST

/* -- lost sessions ------------------------------------------------------------------------------------------------- */

START_TEST(client_unacked_sends_go_again_in_order_under_their_ids_after_a_lost_session)
{
    static client_world cw;
    cw_begin(&cw, 5, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_settle(&cw);
    cw.server->stub.hold = true;
    cw_send_range(&cw, 0, room, 1, 40);
    cw_settle(&cw);
    cw_lose(&cw, 0); /* 1 is with the store, 2 to 32 have gathered, 33 to 40 never left */
    cw_send_range(&cw, 0, room, 41, 45);
    cw_connect(&cw, 0);
    cw_settle(&cw);
    while (stub_release(&cw.server->stub)) {
        cw_settle(&cw);
    }
    ck_assert(log_acked(&cw.logs[0], 1, 45));
    ck_assert_uint_eq(cw.logs[0].duplicates, 32);
    ck_assert(store_holds(cw.server, "room", 1, 45));
    cw_end(&cw);
}
END_TEST

START_TEST(client_ack_lost_with_its_session_comes_as_a_duplicate)
{
    static client_world cw;
    cw_begin(&cw, 6, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_settle(&cw);
    cw_send_range(&cw, 0, room, 1, 3);
    cw.pairs[0]->end[0].blocked = true; /* the acks do not come through */
    cw_settle(&cw);
    ck_assert_uint_eq(store_head(cw.server, "room"), 3);
    cw_lose(&cw, 0);
    cw_connect(&cw, 0);
    cw_settle(&cw);
    ck_assert(log_acked(&cw.logs[0], 1, 3));
    ck_assert_uint_eq(cw.logs[0].duplicates, 3);
    ck_assert(store_holds(cw.server, "room", 1, 3));
    cw_end(&cw);
}
END_TEST

/* -- refusals ------------------------------------------------------------------------------------------------------ */

START_TEST(client_after_a_retryable_refusal_sends_the_oldest_alone_and_doubles)
{
    static client_world cw;
    tf_client_stats before;
    tf_client_stats after;
    cw_begin(&cw, 7, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_settle(&cw);
    cw.server->stub.refuse = TF_REFUSAL_STORE_FULL;
    cw_send_range(&cw, 0, room, 1, 60);
    cw_settle(&cw);
    tf_client_get_stats(cw.clients[0], &before);
    ck_assert_uint_eq(before.sent, 32);
    cw_pass(&cw, 999);
    tf_client_get_stats(cw.clients[0], &after);
    ck_assert_uint_eq(after.sent, 32); /* nothing before retry_after_ms */
    cw.server->stub.hold = true;
    cw_pass(&cw, 2);
    ck_assert_uint_eq(tf_client_in_flight(cw.clients[0]), 1);
    cw.server->stub.refuse = TF_REFUSAL_NONE;
    for (size_t expected = 2; expected <= 32; expected *= 2) {
        ck_assert(stub_release(&cw.server->stub));
        cw_settle(&cw);
        while (tf_client_in_flight(cw.clients[0]) < expected && stub_release(&cw.server->stub)) {
            cw_settle(&cw);
        }
        ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_REFUSED], 0);
    }
    while (stub_release(&cw.server->stub)) {
        cw_settle(&cw);
    }
    ck_assert(log_acked(&cw.logs[0], 1, 60));
    ck_assert(store_holds(cw.server, "room", 1, 60));
    cw_end(&cw);
}
END_TEST

START_TEST(client_refused_again_and_again_stores_all_in_order_in_the_end)
{
    static client_world cw;
    cw_begin(&cw, 8, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_settle(&cw);
    unsigned sent = 0;
    for (unsigned round = 0; round < 400; round++) {
        cw.server->stub.refuse = round < 300 && tf_test_random_chance(&cw.w.random, 2, 3) ? TF_REFUSAL_OVERLOADED
                                                                                          : TF_REFUSAL_NONE;
        cw.server->stub.hold = tf_test_random_chance(&cw.w.random, 1, 2);
        for (uint64_t i = tf_test_random_below(&cw.w.random, 4); i > 0 && sent < 300; i--) {
            sent++;
            ck_assert_int_eq(cw_send(&cw, 0, room, sent), TF_OK);
        }
        cw_pass(&cw, tf_test_random_below(&cw.w.random, 60));
        (void)stub_release(&cw.server->stub);
        cw_settle(&cw);
    }
    cw.server->stub.hold = false;
    (void)stub_release(&cw.server->stub);
    cw_pass(&cw, 500);
    ck_assert(log_acked(&cw.logs[0], 1, sent));
    ck_assert(store_holds(cw.server, "room", 1, sent));
    cw_end(&cw);
}
END_TEST

START_TEST(client_retry_limit_reports_the_send_and_goes_on)
{
    static client_world cw;
    cw_begin(&cw, 9, NULL);
    (void)cw_client(&cw, &(tf_client_config){.retry_limit = 3 * TF_SECOND});
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_settle(&cw);
    cw.server->stub.refuse = TF_REFUSAL_STORE_FULL;
    cw_send_range(&cw, 0, room, 1, 2);
    cw_pass(&cw, 2990);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_REFUSED], 0);
    cw_pass(&cw, 1100);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_REFUSED], 2);
    ck_assert(cw.logs[0].last[TF_CLIENT_REFUSED].retryable);
    ck_assert_str_eq(cw.logs[0].code, "store_full");
    ck_assert_uint_eq(cw.logs[0].last[TF_CLIENT_REFUSED].cookie, 2);
    ck_assert_str_eq(cw.logs[0].last_client_id, "00000000abcdef00-2");
    cw.server->stub.refuse = TF_REFUSAL_NONE;
    cw_send_range(&cw, 0, room, 3, 3);
    cw_pass(&cw, 2000);
    ck_assert(log_acked(&cw.logs[0], 3, 3));
    cw_end(&cw);
}
END_TEST

START_TEST(client_final_refusal_is_reported_and_leaves_the_rest_alone)
{
    static client_world cw;
    cw_begin(&cw, 10, NULL);
    tf_client *client = cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_settle(&cw);
    tf_send sends[] = {{.client_id = tf_slice_str("x"), .body = tf_slice_str("one"), .cookie = 1},
                       {.client_id = tf_slice_str("x"), .body = tf_slice_str("two"), .cookie = 2},
                       {.client_id = tf_slice_str("x"), .body = tf_slice_str("one"), .cookie = 3},
                       {.client_id = tf_slice_str("y"), .body = tf_slice_str("two"), .cookie = 4}};
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(tf_client_send(client, cw.w.now, room, &sends[i]), TF_OK);
    }
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_REFUSED], 1);
    ck_assert_uint_eq(cw.logs[0].last[TF_CLIENT_REFUSED].cookie, 2);
    ck_assert_str_eq(cw.logs[0].code, "client_id_conflict");
    ck_assert_uint_eq(cw.logs[0].acks, 3);
    ck_assert_uint_eq(cw.logs[0].acked_seqs[0], 1);
    ck_assert_uint_eq(cw.logs[0].acked_seqs[1], 1);
    ck_assert_uint_eq(cw.logs[0].acked_seqs[2], 2);
    ck_assert_uint_eq(cw.logs[0].duplicates, 1);
    ck_assert_uint_eq(store_head(cw.server, "room"), 2);
    tf_client_stats stats;
    tf_client_get_stats(client, &stats);
    ck_assert_uint_eq(stats.refusals, 1); /* one at a time under one id: no resend was refused */
    cw_end(&cw);
}
END_TEST

START_TEST(client_body_beyond_what_the_peer_takes_is_refused_for_good)
{
    static client_world cw;
    static uint8_t body[8000];
    cw_begin(&cw, 11, &(tf_hub_config){.max_message = 4096});
    cw.w.max_message = 4096;
    tf_client *client = cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    static const size_t sizes[] = {2048, 2049, 4000, 8000, 1};
    for (size_t i = 0; i < 5; i++) {
        tf_send send = {.body = tf_slice_of(body, sizes[i]), .cookie = i};
        ck_assert_int_eq(tf_client_send(client, cw.w.now, room, &send), TF_OK);
    }
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].acks, 2);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_REFUSED], 3);
    ck_assert_str_eq(cw.logs[0].code, "message_too_large");
    ck_assert_uint_eq(store_head(cw.server, "room"), 2);
    cw_end(&cw);
}
END_TEST

/* -- channels ------------------------------------------------------------------------------------------------------ */

START_TEST(client_channel_that_is_refused_refuses_its_sends)
{
    static client_world cw;
    cw_begin(&cw, 12, &(tf_hub_config){.known_channels_only = true});
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_send_range(&cw, 0, room, 1, 3);
    cw_connect(&cw, 0);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_CHANNEL_REFUSED], 1);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_REFUSED], 3);
    ck_assert_str_eq(cw.logs[0].code, "channel_not_found");
    ck_assert_int_eq(cw_send(&cw, 0, room, 4), TF_ERR_CLOSED);
    ck_assert(!tf_client_has_unacked(cw.clients[0]));
    cw_end(&cw);
}
END_TEST

START_TEST(client_channel_refused_for_now_is_opened_later)
{
    static client_world cw;
    cw_begin(&cw, 13, NULL);
    (void)cw_client(&cw, NULL);
    cw.server->stub.refuse = TF_REFUSAL_STORE_FULL; /* the creation */
    size_t room = cw_open(&cw, 0, "room");
    cw_send_range(&cw, 0, room, 1, 3);
    cw_connect(&cw, 0);
    cw_pass(&cw, 100);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_OPENED], 0);
    cw.server->stub.refuse = TF_REFUSAL_NONE;
    cw_pass(&cw, 1000);
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_OPENED], 1);
    ck_assert(log_acked(&cw.logs[0], 1, 3));
    cw_end(&cw);
}
END_TEST

START_TEST(client_close_comes_behind_its_sends_and_ends_the_channel)
{
    static client_world cw;
    cw_begin(&cw, 14, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_connect(&cw, 0);
    cw_send_range(&cw, 0, room, 1, 100);
    ck_assert_int_eq(tf_client_close_channel(cw.clients[0], cw.w.now, room), TF_OK);
    cw_settle(&cw);
    ck_assert(log_acked(&cw.logs[0], 1, 100));
    ck_assert_uint_eq(cw.logs[0].counts[TF_CLIENT_CLOSED], 1);
    cw_send_range(&cw, 0, room, 101, 101);
    cw_settle(&cw);
    ck_assert_str_eq(cw.logs[0].code, "channel_closed");
    cw_end(&cw);
}
END_TEST

START_TEST(client_many_channels_share_the_window_and_all_get_on)
{
    static client_world cw;
    cw_begin(&cw, 15, NULL);
    (void)cw_client(&cw, &(tf_client_config){.max_in_flight = 4});
    size_t channels[10];
    for (unsigned i = 0; i < 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "room/%u", i);
        channels[i] = cw_open(&cw, 0, name);
        cw_send_range(&cw, 0, channels[i], 1, 20);
    }
    cw_connect(&cw, 0);
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].acks, 200);
    for (unsigned i = 0; i < 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "room/%u", i);
        ck_assert(store_holds(cw.server, name, 1, 20));
    }
    cw_end(&cw);
}
END_TEST

/* Whatever allocation fails, nothing leaks, and what was acked is stored once. */
static bool run_with_failure(uint64_t k)
{
    static client_world cw;
    cw_begin(&cw, 16, NULL);
    (void)cw_client(&cw, NULL);
    size_t room = cw_open(&cw, 0, "room");
    cw_send_range(&cw, 0, room, 1, 5);
    cw_subscribe(&cw, 0, room, TF_FROM_FIRST, 0, true);
    cw_connect(&cw, 0);
    tf_test_heap_fail_at(&cw.w.heap, k, false);
    cw_settle(&cw);
    bool failed = cw.w.heap.failures > 0;
    tf_test_heap_fail_never(&cw.w.heap);
    if (cw.server->failures + cw.nodes[0]->failures > 0 || cw.pairs[0]->broken) {
        cw_lose(&cw, 0);
        cw_connect(&cw, 0);
    }
    cw_pass(&cw, 2000);
    ck_assert_msg(log_acked(&cw.logs[0], 1, 5), "allocation %llu", (unsigned long long)k);
    ck_assert(store_holds(cw.server, "room", 1, 5));
    ck_assert_uint_eq(cw.logs[0].activities, 5);
    cw_end(&cw);
    return failed;
}

START_TEST(client_like_ids_on_many_channels_do_not_wait_for_each_other)
{
    static client_world cw;
    char text[16];
    cw_begin(&cw, 14, NULL);
    tf_client *client = cw_client(&cw, NULL);
    cw_connect(&cw, 0);
    for (unsigned i = 0; i < 16; i++) {
        (void)snprintf(text, sizeof(text), "c1-%c-10", 'a' + (int)i);
        size_t channel = cw_open(&cw, 0, text);
        tf_send send = {.client_id = tf_slice_str(text), .body = tf_slice_str("x"), .cookie = i};
        ck_assert_int_eq(tf_client_send(client, cw.w.now, channel, &send), TF_OK);
    }
    cw_settle(&cw);
    ck_assert_uint_eq(cw.logs[0].acks, 16);
    cw_end(&cw);
}
END_TEST

START_TEST(client_failed_allocation_costs_at_most_the_session)
{
    uint64_t k = 0;
    while (run_with_failure(k)) {
        k++;
    }
    ck_assert_uint_gt(k, 20);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_sends_queued_before_a_session_go_when_there_is_one,
        client_keeps_within_the_window_so_that_nothing_is_refused,
        client_full_queue_takes_no_more_until_there_is_room,
        client_send_that_cannot_be_is_refused_at_once,
        client_unacked_sends_go_again_in_order_under_their_ids_after_a_lost_session,
        client_ack_lost_with_its_session_comes_as_a_duplicate,
        client_after_a_retryable_refusal_sends_the_oldest_alone_and_doubles,
        client_refused_again_and_again_stores_all_in_order_in_the_end,
        client_retry_limit_reports_the_send_and_goes_on,
        client_final_refusal_is_reported_and_leaves_the_rest_alone,
        client_body_beyond_what_the_peer_takes_is_refused_for_good,
        client_channel_that_is_refused_refuses_its_sends,
        client_channel_refused_for_now_is_opened_later,
        client_close_comes_behind_its_sends_and_ends_the_channel,
        client_many_channels_share_the_window_and_all_get_on,
        client_like_ids_on_many_channels_do_not_wait_for_each_other,
        client_failed_allocation_costs_at_most_the_session,
        NULL,
    };
    return tf_test_run("node/client", tests);
}
