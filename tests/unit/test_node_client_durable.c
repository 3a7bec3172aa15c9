/* node/client, durable subscriptions (S10): what is confirmed, when the peer is told, and what it says of it. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"

static const tf_result_subscribe beginning = {.epoch = 7, .head = 9, .first = 1, .next = 1};

/* A durable subscription to "room" that is live. */
static void begin_durable(setup *s, const tf_result_subscribe *start)
{
    tf_subscribe subscribe = {.from = {TF_FROM_NEW, 0}, .durable = tf_slice_str("billing")};
    begin_client(s, NULL);
    connect_relay(s);
    answer_open(s, 0);
    ck_assert_int_eq(tf_client_subscribe(s->cw.clients[0], s->cw.w.now, 0, &subscribe), TF_OK);
    raw_settle(s->relay);
    answer_subscribe(s, start);
    cw_pull(&s->cw, 0);
}

static void receive(setup *s, uint64_t from, uint64_t to)
{
    for (uint64_t seq = from; seq <= to; seq++) {
        tell_activity(s, 7, seq, 3);
    }
    hear(s);
}

static tf_err confirm(setup *s, uint64_t seq)
{
    tf_err err = tf_client_confirm(s->cw.clients[0], s->cw.w.now, 0, seq);
    raw_settle(s->relay);
    return err;
}

static tf_args_confirm asked_to_confirm(setup *s)
{
    tf_args_confirm args;
    ck_assert_int_eq(tf_args_confirm_read(raw_data(asked(s, "confirm")), &args), TF_OK);
    return args;
}

static void answer_confirm(setup *s)
{
    tf_args_none_write(to_say(s));
    answer_said(s, "confirm");
    cw_pull(&s->cw, 0);
}

START_TEST(client_durable_name_goes_with_every_subscribe)
{
    static setup s;
    tf_args_subscribe args;
    begin_durable(&s, &beginning);
    ck_assert_int_eq(tf_args_subscribe_read(raw_data(asked(&s, "subscribe")), &args), TF_OK);
    ck_assert(tf_slice_eq(args.durable, tf_slice_str("billing")) && args.from.kind == TF_FROM_NEW && !args.has_epoch);
    receive(&s, 1, 4);
    next_session(&s);
    ck_assert_int_eq(tf_args_subscribe_read(raw_data(asked(&s, "subscribe")), &args), TF_OK);
    ck_assert(tf_slice_eq(args.durable, tf_slice_str("billing")));
    ck_assert(args.from.kind == TF_FROM_SEQ && args.from.value == 5 && args.has_epoch && args.epoch == 7);
    end(&s);
}
END_TEST

START_TEST(client_confirms_go_one_at_a_time_and_the_newest_counts)
{
    static setup s;
    begin_durable(&s, &beginning);
    receive(&s, 1, 9);
    ck_assert(!tf_client_is_confirming(s.cw.clients[0], 0));
    for (uint64_t seq = 1; seq <= 9; seq++) {
        ck_assert_int_eq(confirm(&s, seq), TF_OK);
    }
    ck_assert_uint_eq(times_asked(&s, "confirm"), 1);
    ck_assert_uint_eq(asked_to_confirm(&s).next, 2);
    ck_assert_uint_eq(asked_to_confirm(&s).epoch, 7);
    answer_confirm(&s);
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_CONFIRMED].seq, 1);
    ck_assert(tf_client_is_confirming(s.cw.clients[0], 0));
    ck_assert_uint_eq(times_asked(&s, "confirm"), 2);
    ck_assert_uint_eq(asked_to_confirm(&s).next, 10);
    answer_confirm(&s);
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_CONFIRMED].seq, 9);
    ck_assert(!tf_client_is_confirming(s.cw.clients[0], 0));
    ck_assert_int_eq(confirm(&s, 5), TF_OK); /* it never goes back */
    ck_assert_uint_eq(times_asked(&s, "confirm"), 2);
    end(&s);
}
END_TEST

START_TEST(client_confirm_of_what_was_not_handed_out_is_refused)
{
    static setup s;
    begin_durable(&s, &beginning);
    ck_assert_int_eq(confirm(&s, 1), TF_ERR_USAGE);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        tell_activity(&s, 7, seq, 3);
    }
    raw_settle(s.relay);
    ck_assert_int_eq(confirm(&s, 1), TF_ERR_USAGE); /* it waits as an event */
    cw_pull(&s.cw, 0);
    ck_assert_int_eq(confirm(&s, 4), TF_ERR_USAGE);
    ck_assert_int_eq(confirm(&s, 3), TF_OK);
    end(&s);
    begin(&s, true);
    tell_activity(&s, 7, 1, 3);
    hear(&s);
    ck_assert_int_eq(confirm(&s, 1), TF_ERR_USAGE); /* not durable */
    end(&s);
}
END_TEST

START_TEST(client_confirm_without_an_answer_goes_again_in_the_next_session)
{
    static setup s;
    begin_durable(&s, &beginning);
    receive(&s, 1, 9);
    ck_assert_int_eq(confirm(&s, 4), TF_OK);
    lose_relay(&s);
    ck_assert_int_eq(tf_client_confirm(s.cw.clients[0], s.cw.w.now, 0, 6), TF_OK);
    ck_assert(tf_client_is_confirming(s.cw.clients[0], 0));
    connect_relay(&s);
    answer_open(&s, 0);
    ck_assert_ptr_null(find_asked(&s, "confirm"));
    answer_subscribe(&s, &(tf_result_subscribe){.epoch = 7, .head = 9, .first = 1, .next = 10});
    ck_assert_uint_eq(asked_to_confirm(&s).next, 7);
    answer_confirm(&s);
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_CONFIRMED].seq, 6);
    end(&s);
}
END_TEST

START_TEST(client_confirm_of_an_earlier_numbering_means_nothing)
{
    static setup s;
    begin_durable(&s, &beginning);
    receive(&s, 1, 9);
    ck_assert_int_eq(confirm(&s, 4), TF_OK);
    next_session(&s);
    answer_subscribe(&s, &(tf_result_subscribe){.epoch = 8, .head = 20, .first = 1, .next = 1});
    ck_assert_int_eq(confirm(&s, 9), TF_OK); /* the gap was not handed out yet */
    ck_assert_ptr_null(find_asked(&s, "confirm"));
    ck_assert(!tf_client_is_confirming(s.cw.clients[0], 0));
    cw_pull(&s.cw, 0);
    ck_assert(s.cw.logs[0].last[TF_CLIENT_GAP].epoch_changed);
    ck_assert_str_eq(s.cw.logs[0].code, "epoch");
    tell_activity(&s, 8, 1, 3);
    hear(&s);
    ck_assert_int_eq(confirm(&s, 1), TF_OK);
    ck_assert_uint_eq(asked_to_confirm(&s).epoch, 8);
    end(&s);
}
END_TEST

START_TEST(client_cursor_of_an_earlier_numbering_is_told_once)
{
    static setup s;
    begin_durable(&s, &beginning);
    tell_gap(&s, 7, 1, "epoch"); /* the relay's cursor was of another epoch: all that is kept comes */
    receive(&s, 1, 2);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_GAP], 1);
    ck_assert(s.cw.logs[0].last[TF_CLIENT_GAP].epoch_changed);
    ck_assert_uint_eq(s.cw.logs[0].activities, 2);
    next_session(&s);
    answer_subscribe(&s, &(tf_result_subscribe){.epoch = 8, .head = 1, .first = 1, .next = 1});
    tell_gap(&s, 8, 1, "epoch"); /* we have seen that by ourselves */
    hear(&s);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_GAP], 2);
    end(&s);
}
END_TEST

START_TEST(client_position_of_the_cursor_is_not_a_gap)
{
    static setup s;
    tf_subscribe subscribe = {.from = {TF_FROM_SEQ, 2}, .durable = tf_slice_str("a")};
    begin_client(&s, NULL);
    connect_relay(&s);
    answer_open(&s, 0);
    ck_assert_int_eq(tf_client_subscribe(s.cw.clients[0], s.cw.w.now, 0, &subscribe), TF_OK);
    raw_settle(s.relay);
    answer_subscribe(&s, &(tf_result_subscribe){.epoch = 7, .head = 30, .first = 1, .next = 17, .resumed = true});
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_GAP], 0);
    ck_assert(s.cw.logs[0].last[TF_CLIENT_SUBSCRIBED].resumed);
    end(&s);
}
END_TEST

START_TEST(client_gap_says_why_and_can_be_confirmed)
{
    static setup s;
    begin_durable(&s, &beginning);
    tell_gap(&s, 7, 6, "expired");
    hear(&s);
    ck_assert_str_eq(s.cw.logs[0].code, "expired");
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_GAP].expected, 1);
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_GAP].got, 6);
    ck_assert_int_eq(confirm(&s, 5), TF_OK);
    ck_assert_uint_eq(asked_to_confirm(&s).next, 6);
    end(&s);
}
END_TEST

START_TEST(client_subscription_that_was_taken_over_stays_ended)
{
    static setup s;
    begin_durable(&s, &beginning);
    receive(&s, 1, 3);
    ck_assert_int_eq(confirm(&s, 3), TF_OK);
    tf_ended_write(to_say(&s), &(tf_ended){tf_slice_str("taken_over")});
    tell(&s, "ended", said(&s));
    tell_activity(&s, 7, 4, 3); /* nothing comes after it */
    hear(&s);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_ENDED], 1);
    ck_assert_str_eq(s.cw.logs[0].code, "taken_over");
    ck_assert_uint_eq(s.cw.logs[0].activities, 3);
    ck_assert_int_eq(confirm(&s, 3), TF_ERR_USAGE);
    next_session(&s);
    ck_assert_ptr_null(find_asked(&s, "subscribe"));
    end(&s);
}
END_TEST

START_TEST(client_confirm_that_crosses_the_end_of_its_subscription_is_not_told)
{
    static setup s;
    begin_durable(&s, &beginning);
    receive(&s, 1, 3);
    ck_assert_int_eq(confirm(&s, 3), TF_OK);
    tf_ended_write(to_say(&s), &(tf_ended){tf_slice_str("taken_over")});
    tell(&s, "ended", said(&s));
    answer_refused(&s, "confirm", TF_REFUSAL_BAD_REQUEST); /* there was no such subscription any more */
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_ENDED], 1);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_CHANNEL_REFUSED], 0);
    end(&s);
}
END_TEST

START_TEST(client_confirm_waits_for_the_one_of_the_subscription_before)
{
    static setup s;
    tf_subscribe again = {.from = {TF_FROM_NEW, 0}, .durable = tf_slice_str("billing")};
    begin_durable(&s, &beginning);
    receive(&s, 1, 3);
    ck_assert_int_eq(confirm(&s, 3), TF_OK);
    tf_client_unsubscribe(s.cw.clients[0], s.cw.w.now, 0);
    ck_assert_int_eq(tf_client_subscribe(s.cw.clients[0], s.cw.w.now, 0, &again), TF_OK);
    raw_settle(s.relay);
    answer_subscribe(&s, &(tf_result_subscribe){.epoch = 7, .head = 9, .first = 1, .next = 4, .resumed = true});
    cw_pull(&s.cw, 0);
    receive(&s, 4, 5);
    ck_assert_int_eq(confirm(&s, 5), TF_OK);
    ck_assert_uint_eq(times_asked(&s, "confirm"), 1);
    answer_confirm(&s);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_CONFIRMED], 0);
    ck_assert_uint_eq(times_asked(&s, "confirm"), 2);
    answer_confirm(&s);
    ck_assert_uint_eq(s.cw.logs[0].last[TF_CLIENT_CONFIRMED].seq, 5);
    end(&s);
}
END_TEST

START_TEST(client_refused_confirm_is_told_or_tried_again)
{
    static setup s;
    begin_durable(&s, &beginning);
    receive(&s, 1, 9);
    ck_assert_int_eq(confirm(&s, 2), TF_OK);
    answer_refused(&s, "confirm", TF_REFUSAL_UNAVAILABLE);
    for (size_t i = 0; i < 100 && times_asked(&s, "confirm") < 2; i++) {
        world_pass(&s.cw.w, 1);
        raw_settle(s.relay);
    }
    ck_assert_uint_eq(times_asked(&s, "confirm"), 2);
    answer_refused(&s, "confirm", TF_REFUSAL_BAD_REQUEST);
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_CHANNEL_REFUSED], 1);
    ck_assert(!tf_client_is_confirming(s.cw.clients[0], 0));
    end(&s);
}
END_TEST

START_TEST(client_name_that_is_none_is_refused_at_once)
{
    static setup s;
    static const char *const names[] = {"a b", "a/b", "ü"};
    begin_client(&s, NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        tf_subscribe subscribe = {.from = {TF_FROM_NEW, 0}, .durable = tf_slice_str(names[i])};
        ck_assert_int_eq(tf_client_subscribe(s.cw.clients[0], s.cw.w.now, 0, &subscribe), TF_ERR_USAGE);
    }
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_durable_name_goes_with_every_subscribe,
        client_confirms_go_one_at_a_time_and_the_newest_counts,
        client_confirm_of_what_was_not_handed_out_is_refused,
        client_confirm_without_an_answer_goes_again_in_the_next_session,
        client_confirm_of_an_earlier_numbering_means_nothing,
        client_cursor_of_an_earlier_numbering_is_told_once,
        client_position_of_the_cursor_is_not_a_gap,
        client_gap_says_why_and_can_be_confirmed,
        client_subscription_that_was_taken_over_stays_ended,
        client_confirm_that_crosses_the_end_of_its_subscription_is_not_told,
        client_confirm_waits_for_the_one_of_the_subscription_before,
        client_refused_confirm_is_told_or_tried_again,
        client_name_that_is_none_is_refused_at_once,
        NULL,
    };
    return tf_test_run("node/client, durable", tests);
}
