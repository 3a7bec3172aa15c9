/* node/client, what is said and asked at a moment at which it no longer, or not yet, matters; and its limits. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"
#include "tests/unit/raw_names.h"

static const tf_result_subscribe beginning = {.epoch = 7, .head = 0, .first = 1, .next = 1};

static void begin_open(setup *s)
{
    begin_client(s, NULL);
    connect_relay(s);
    answer_open(s, 0);
}

static tf_err subscribe(setup *s)
{
    tf_err err = tf_client_subscribe(s->cw.clients[0], s->cw.w.now, 0, &(tf_subscribe){.from = {TF_FROM_FIRST, 0}});
    if (s->relay != NULL) {
        raw_settle(s->relay);
    }
    return err;
}

static void unsubscribe(setup *s)
{
    tf_client_unsubscribe(s->cw.clients[0], s->cw.w.now, 0);
}

static tf_err ask(setup *s, tf_ask_kind kind, uint64_t from)
{
    tf_err err = tf_client_ask(s->cw.clients[0], s->cw.w.now, 0, &(tf_ask){.kind = kind, .from = from});
    raw_settle(s->relay);
    return err;
}

static void pass(setup *s, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i++) {
        world_pass(&s->cw.w, 1);
        raw_settle(s->relay);
    }
}

static void check_nothing_told(setup *s)
{
    tf_client_event event;
    ck_assert(!tf_client_next_event(s->cw.clients[0], &event));
    ck_assert_uint_eq(s->cw.nodes[0]->failures, 0);
}

static void check_nothing_but_opened(setup *s)
{
    cw_pull(&s->cw, 0);
    for (size_t type = 0; type <= TF_CLIENT_ROOM; type++) {
        ck_assert_uint_eq(s->cw.logs[0].counts[type], type == TF_CLIENT_OPENED ? 1 : 0);
    }
}

/* -- channels ------------------------------------------------------------------------------------------------------ */

START_TEST(client_none_is_freed_and_one_without_use_has_room)
{
    static client_world cw;
    cw_begin(&cw, 1, NULL);
    tf_client_free(NULL);
    tf_client *client = cw_client(&cw, &(tf_client_config){.queue_items = 1});
    ck_assert(tf_client_has_room(client));
    size_t room = cw_open(&cw, 0, "room");
    ck_assert_int_eq(cw_send(&cw, 0, room, 1), TF_OK);
    ck_assert(!tf_client_has_room(client));
    cw_end(&cw);
    cw_begin(&cw, 1, NULL);
    client = cw_client(&cw, &(tf_client_config){.queue_bytes = 10});
    room = cw_open(&cw, 0, "room");
    ck_assert_int_eq(cw_send(&cw, 0, room, 1), TF_OK); /* one is always taken */
    ck_assert(!tf_client_has_room(client));
    cw_end(&cw);
}
END_TEST

START_TEST(client_channels_are_bounded)
{
    static client_world cw;
    char name[16];
    size_t channel = 0;
    cw_begin(&cw, 1, NULL);
    tf_client *client = cw_client(&cw, NULL);
    for (unsigned i = 0; i < TF_CLIENT_CHANNELS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "r/%u", i);
        ck_assert_uint_eq(cw_open(&cw, 0, name), i);
    }
    ck_assert_int_eq(tf_client_open(client, cw.w.now, tf_slice_str("more"), &channel), TF_ERR_LIMIT_ITEMS);
    ck_assert_uint_eq(cw_open(&cw, 0, "r/7"), 7);
    cw_end(&cw);
}
END_TEST

START_TEST(client_refused_channel_takes_nothing_and_is_not_asked_for_again)
{
    static setup s;
    begin_client(&s, NULL);
    connect_relay(&s);
    ck_assert_int_eq(ask(&s, TF_ASK_CHANNELS, 0), TF_OK);
    answer_refused(&s, "open", TF_REFUSAL_FORBIDDEN);
    ck_assert_int_eq(tf_client_close_channel(s.cw.clients[0], s.cw.w.now, 0), TF_ERR_CLOSED);
    ck_assert_int_eq(subscribe(&s), TF_ERR_CLOSED);
    ck_assert_int_eq(ask(&s, TF_ASK_INFO, 0), TF_ERR_CLOSED);
    lose_relay(&s);
    connect_relay(&s);
    ck_assert_ptr_null(find_asked(&s, "open"));
    ck_assert_uint_eq(times_asked(&s, "channels"), 1); /* that is of the relay, not of the channel */
    end(&s);
}
END_TEST

START_TEST(client_channel_refused_for_now_waits_its_time_whatever_comes)
{
    static setup s;
    begin_client(&s, NULL);
    connect_relay(&s);
    answer_refused(&s, "open", TF_REFUSAL_OVERLOADED);
    ck_assert_int_eq(cw_send(&s.cw, 0, 0, 1), TF_OK); /* it is looked at, and not yet due */
    raw_settle(s.relay);
    pass(&s, 40);
    ck_assert_uint_eq(times_asked(&s, "open"), 1);
    pass(&s, 100);
    ck_assert_uint_eq(times_asked(&s, "open"), 2);
    end(&s);
}
END_TEST

START_TEST(client_close_refused_for_now_is_asked_again_and_for_good_is_not)
{
    static const struct {
        tf_refusal refusal;
        size_t times;
    } rows[] = {{TF_REFUSAL_OVERLOADED, 2}, {TF_REFUSAL_FORBIDDEN, 1}};
    for (size_t i = 0; i < 2; i++) {
        static setup s;
        begin_open(&s);
        ck_assert_int_eq(tf_client_close_channel(s.cw.clients[0], s.cw.w.now, 0), TF_OK);
        raw_settle(s.relay);
        answer_refused(&s, "close", rows[i].refusal);
        pass(&s, 200);
        cw_pull(&s.cw, 0);
        ck_assert_uint_eq(times_asked(&s, "close"), rows[i].times);
        ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_CHANNEL_REFUSED], 2 - rows[i].times);
        ck_assert_int_eq(cw_send(&s.cw, 0, 0, 1), TF_OK); /* the channel is still there */
        end(&s);
    }
}
END_TEST

/* -- subscriptions ------------------------------------------------------------------------------------------------- */

START_TEST(client_has_one_subscription_to_a_channel)
{
    static setup s;
    begin_open(&s);
    unsubscribe(&s); /* there is none */
    tf_subscribe from_none = {.from = {TF_FROM_SEQ, 0}};
    ck_assert_int_eq(tf_client_subscribe(s.cw.clients[0], s.cw.w.now, 0, &from_none), TF_ERR_USAGE);
    ck_assert_int_eq(subscribe(&s), TF_OK);
    ck_assert_int_eq(subscribe(&s), TF_ERR_USAGE);
    unsubscribe(&s);
    unsubscribe(&s); /* it ends already */
    ck_assert_int_eq(subscribe(&s), TF_ERR_USAGE);
    answer_subscribe(&s, &beginning);
    ck_assert_int_eq(subscribe(&s), TF_OK);
    ck_assert_uint_eq(times_asked(&s, "subscribe"), 2);
    end(&s);
}
END_TEST

START_TEST(client_subscription_that_ended_on_the_way_is_not_resumed)
{
    static setup s;
    begin_open(&s);
    ck_assert_int_eq(subscribe(&s), TF_OK);
    unsubscribe(&s);
    next_session(&s);
    ck_assert_ptr_null(find_asked(&s, "subscribe"));
    ck_assert_int_eq(subscribe(&s), TF_OK);
    ck_assert_uint_eq(times_asked(&s, "subscribe"), 1);
    end(&s);
}
END_TEST

START_TEST(client_subscription_that_is_refused_is_asked_again_only_if_it_is_wanted)
{
    static const struct {
        tf_refusal refusal;
        bool wanted;
        size_t times;
    } rows[] = {{TF_REFUSAL_OVERLOADED, true, 2}, {TF_REFUSAL_OVERLOADED, false, 1}, {TF_REFUSAL_FORBIDDEN, true, 1}};
    for (size_t i = 0; i < 3; i++) {
        static setup s;
        begin_open(&s);
        ck_assert_int_eq(subscribe(&s), TF_OK);
        if (!rows[i].wanted) {
            unsubscribe(&s);
        }
        answer_refused(&s, "subscribe", rows[i].refusal);
        cw_send_range(&s.cw, 0, 0, 1, 1); /* goes while the subscription waits */
        raw_settle(s.relay);
        ck_assert_uint_eq(times_asked(&s, "send"), 1);
        ck_assert_uint_eq(times_asked(&s, "subscribe"), 1);
        pass(&s, 200);
        ck_assert_uint_eq(times_asked(&s, "subscribe"), rows[i].times);
        end(&s);
    }
}
END_TEST

START_TEST(client_words_to_a_subscription_that_ended_are_for_nobody)
{
    static setup s;
    begin(&s, true);
    cw_pull(&s.cw, 0);
    unsubscribe(&s); /* the relay has not heard of it */
    tell_activity(&s, 7, 1, 3);
    tell_gap(&s, 7, 5, "trimmed");
    tf_ended_write(to_say(&s), &(tf_ended){tf_slice_str("taken_over")});
    tell(&s, "ended", said(&s));
    raw_settle(s.relay);
    check_nothing_told(&s);
    end(&s);
}
END_TEST

START_TEST(client_gap_of_another_epoch_or_beyond_what_may_come_ends_the_session)
{
    static setup s;
    begin(&s, true);
    tell_gap(&s, 8, 5, "trimmed");
    raw_settle(s.relay);
    ck_assert_int_eq(s.cw.nodes[0]->last_failure, TF_ERR_PEER_STATE);
    end(&s);
    begin(&s, true);
    uint64_t seq = 1;
    while (s.cw.clients[0]->channels[0]->received < TF_CLIENT_EVENT_BYTES) {
        tell_activity(&s, 7, seq++, 100000);
        raw_settle(s.relay);
    }
    ck_assert_uint_eq(s.cw.nodes[0]->failures, 0);
    tell_gap(&s, 7, seq + 5, "trimmed");
    raw_settle(s.relay);
    ck_assert_int_eq(s.cw.nodes[0]->last_failure, TF_ERR_PEER_LIMIT);
    end(&s);
}
END_TEST

START_TEST(client_gap_that_is_known_is_not_told_again)
{
    static setup s;
    begin(&s, true);
    tell_gap(&s, 7, 3, "trimmed");
    tell_gap(&s, 7, 3, "trimmed");
    tell_gap(&s, 7, 2, "epoch"); /* behind us */
    tell_gap(&s, 7, 3, "epoch"); /* the numbers begin anew, below what follows */
    tell_gap(&s, 7, 3, "epoch");
    tell_gap(&s, 7, 2, "epoch");
    hear(&s);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_GAP], 2);
    ck_assert(s.cw.logs[0].last[TF_CLIENT_GAP].epoch_changed);
    end(&s);
}
END_TEST

/* What the relay says twice costs it room, of which it gets more. */
START_TEST(client_repeats_use_up_the_limit_and_are_given_more)
{
    static setup s;
    begin(&s, true);
    tell_activity(&s, 7, 1, 100);
    hear(&s);
    ck_assert_uint_eq(times_asked(&s, "more"), 0);
    for (unsigned i = 0; i < 11; i++) {
        tell_activity(&s, 7, 1, 100000);
        raw_settle(s.relay);
    }
    ck_assert_uint_eq(times_asked(&s, "more"), 1);
    ck_assert_uint_eq(s.cw.nodes[0]->failures, 0);
    end(&s);
}
END_TEST

START_TEST(client_confirm_that_is_answered_after_its_subscription_ended_is_not_told)
{
    static setup s;
    begin_open(&s);
    tf_subscribe durable = {.from = {TF_FROM_FIRST, 0}, .durable = tf_slice_str("billing")};
    ck_assert_int_eq(tf_client_subscribe(s.cw.clients[0], s.cw.w.now, 0, &durable), TF_OK);
    raw_settle(s.relay);
    answer_subscribe(&s, &beginning);
    tell_activity(&s, 7, 1, 3);
    hear(&s);
    ck_assert_int_eq(tf_client_confirm(s.cw.clients[0], s.cw.w.now, 0, 1), TF_OK);
    raw_settle(s.relay);
    tf_ended_write(to_say(&s), &(tf_ended){tf_slice_str("taken_over")});
    tell(&s, "ended", said(&s));
    hear(&s);
    tf_args_none_write(to_say(&s));
    answer_said(&s, "confirm");
    check_nothing_told(&s);
    end(&s);
}
END_TEST

START_TEST(client_word_that_no_sink_knows_is_refused)
{
    static setup s;
    begin(&s, true);
    tf_activity_write(to_say(&s), &(tf_activity){.epoch = 7, .seq = 1, .id = tf_slice_str("i"),
                                                  .client_id = tf_slice_str("c")});
    tf_local promise = raw_call(s.relay, s.sink, "activity", said(&s), TF_LOCAL_NONE); /* has no result */
    raw_settle(s.relay);
    ck_assert_str_eq(raw_outcome(s.relay, promise), "bad_request");
    promise = raw_call(s.relay, s.sink, "gossip", said(&s), TF_LOCAL_NONE);
    raw_settle(s.relay);
    ck_assert_str_eq(raw_outcome(s.relay, promise), "bad_request");
    tell(&s, "gossip", said(&s));
    raw_settle(s.relay);
    check_nothing_told(&s);
    end(&s);
}
END_TEST

START_TEST(client_that_is_unbound_hears_nothing_more_of_that_connection)
{
    static setup s;
    begin(&s, true);
    tf_client_unbind(s.cw.clients[0], s.cw.w.now);
    tell_activity(&s, 7, 1, 3);
    tf_router_release(s.relay->end->router, s.cw.w.now, s.sink); /* the subscription ends there */
    raw_settle(s.relay);
    check_nothing_told(&s);
    ck_assert_int_eq(s.cw.clients[0]->channels[0]->sub, TF_SUB_WANTED);
    ck_assert_int_eq(ask(&s, TF_ASK_CHANNELS, 0), TF_OK);
    pass(&s, 5);
    ck_assert_ptr_null(find_asked(&s, "channels"));
    end(&s);
}
END_TEST

/* -- as much as the relay owes at a time ---------------------------------------------------------------------------- */

START_TEST(client_asks_for_no_more_than_the_relay_may_owe)
{
    static setup s;
    tf_local object = TF_LOCAL_NONE;
    memset(&s, 0, sizeof(s));
    cw_begin(&s.cw, 1, NULL);
    s.cw.w.max_in_flight = TF_MAX_IN_FLIGHT_MAX;
    (void)cw_client(&s.cw, &(tf_client_config){.queue_items = 2 * TF_RESULTS_MAX});
    (void)cw_open(&s.cw, 0, "room");
    connect_relay(&s);
    answer_open(&s, 0);
    ck_assert_int_eq(ask(&s, TF_ASK_TRIM, 1), TF_OK);
    for (unsigned i = 1; i <= TF_RESULTS_MAX + 8; i++) {
        cw_send_range(&s.cw, 0, 0, i, i);
        if (i % 1000 == 0) {
            raw_settle(s.relay);
            s.relay->count = 1; /* the opening; there is room for so many only */
        }
    }
    raw_settle(s.relay);
    ck_assert_uint_eq(tf_client_in_flight(s.cw.clients[0]), TF_RESULTS_MAX - 1);
    s.relay->count = 0;
    ck_assert_int_eq(tf_hub_object_new(s.cw.nodes[0]->hub, NULL, &object), TF_OK);
    ck_assert_int_eq(tf_client_publish(s.cw.clients[0], s.cw.w.now, tf_slice_str("a"), object), TF_OK);
    ck_assert_int_eq(ask(&s, TF_ASK_CHANNELS, 0), TF_OK);
    (void)cw_open(&s.cw, 0, "other");
    raw_settle(s.relay);
    ck_assert_uint_eq(s.relay->count, 0); /* none of it goes */
    ck_assert_uint_eq(s.cw.nodes[0]->failures, 0);
    end(&s);
}
END_TEST

/* -- names --------------------------------------------------------------------------------------------------------- */

static void publish(setup *s, const char *name, tf_local object)
{
    ck_assert_int_eq(tf_client_publish(s->cw.clients[0], s->cw.w.now, tf_slice_str(name), object), TF_OK);
    raw_settle(s->relay);
}

/* Under a name of ours: what the relay has is held as long as the name stands for it. */
START_TEST(client_published_object_of_the_relay_is_held_until_it_is_withdrawn)
{
    static setup s;
    begin_open(&s);
    tf_hub *hub = s.cw.nodes[0]->hub;
    tf_local there = tf_router_new_object(s.relay->end->router);
    ck_assert_int_eq(
        tf_client_ask(s.cw.clients[0], s.cw.w.now, 0, &(tf_ask){.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a")}),
        TF_OK);
    raw_settle(s.relay);
    tf_args_none_write(to_say(&s));
    answer(&s, "lookup", said(&s), there, false);
    tf_client_event event = {.object = TF_LOCAL_NONE};
    while (event.object == TF_LOCAL_NONE && tf_client_next_event(s.cw.clients[0], &event)) {
    }
    ck_assert_uint_ne(event.object, TF_LOCAL_NONE);
    publish(&s, "b", event.object);
    tf_hub_release(hub, s.cw.w.now, event.object);
    tf_args_none_write(to_say(&s));
    answer_said(&s, "publish");
    ck_assert(tf_router_is_known(hub->router, event.object));
    for (unsigned i = 0; i < 2; i++) { /* the second time it says nothing new */
        tf_client_withdraw(s.cw.clients[0], s.cw.w.now, tf_slice_str("b"));
        raw_settle(s.relay);
    }
    ck_assert_uint_eq(times_asked(&s, "publish"), 2);
    ck_assert(!tf_router_is_known(hub->router, event.object));
    end(&s);
}
END_TEST

START_TEST(client_name_that_changed_before_it_was_refused_is_said_again_at_once)
{
    static setup s;
    tf_local objects[2];
    begin_open(&s);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(tf_hub_object_new(s.cw.nodes[0]->hub, NULL, &objects[i]), TF_OK);
        publish(&s, "a", objects[i]);
    }
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    answer_refused(&s, "publish", TF_REFUSAL_NAME_TAKEN);
    pass(&s, 1);
    ck_assert_uint_eq(times_asked(&s, "publish"), 2);
    end(&s);
}
END_TEST

/* -- time ---------------------------------------------------------------------------------------------------------- */

/* Each of them has a time of its own; that of the first wakes the client, and the others go on waiting. */
START_TEST(client_refused_for_now_each_waits_its_own_time)
{
    static setup s;
    static const char *const methods[] = {"trim", "publish", "subscribe", "send"};
    tf_local object = TF_LOCAL_NONE;
    begin_open(&s);
    ck_assert_int_eq(tf_hub_object_new(s.cw.nodes[0]->hub, NULL, &object), TF_OK);
    ck_assert_int_eq(ask(&s, TF_ASK_INFO, 0), TF_OK);
    ck_assert_int_eq(ask(&s, TF_ASK_TRIM, 1), TF_OK);
    publish(&s, "a", object);
    ck_assert_int_eq(subscribe(&s), TF_OK);
    cw_send_range(&s.cw, 0, 0, 1, 1);
    raw_settle(s.relay);
    for (size_t i = 0; i < 4; i++) {
        tf_result_refusal_write(to_say(&s), &(tf_result_refusal){.code = tf_slice_str("busy"), /* of a later version */
                                                                  .message = tf_slice_str("later"),
                                                                  .retryable = true,
                                                                  .retry_after_ms = 300});
        answer(&s, methods[i], said(&s), TF_LOCAL_NONE, true);
    }
    answer_refused(&s, "info", TF_REFUSAL_OVERLOADED);
    pass(&s, 200);
    ck_assert_uint_gt(times_asked(&s, "info"), 1);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(times_asked(&s, methods[i]), 1);
    }
    pass(&s, 200);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(times_asked(&s, methods[i]), 2);
    }
    end(&s);
}
END_TEST

/* What was to be asked again at some time is asked in the next session, whenever that is. */
START_TEST(client_time_that_passes_without_a_session_asks_for_nothing)
{
    static setup s;
    tf_local object = TF_LOCAL_NONE;
    begin_open(&s);
    ck_assert_int_eq(tf_hub_object_new(s.cw.nodes[0]->hub, NULL, &object), TF_OK);
    publish(&s, "a", object);
    ck_assert_int_eq(ask(&s, TF_ASK_TRIM, 1), TF_OK);
    answer_refused(&s, "publish", TF_REFUSAL_OVERLOADED);
    answer_refused(&s, "trim", TF_REFUSAL_OVERLOADED);
    lose_relay(&s);
    world_pass(&s.cw.w, 200);
    check_nothing_but_opened(&s);
    connect_relay(&s);
    answer_open(&s, TF_NEVER / TF_MS); /* as good as for ever */
    ck_assert_uint_eq(times_asked(&s, "publish"), 1);
    ck_assert_uint_eq(times_asked(&s, "trim"), 1);
    ck_assert_uint_eq(s.cw.clients[0]->channels[0]->resend_limit, TF_NEVER);
    end(&s);
}
END_TEST

/* Of two in flight the first is refused: it waits until the other one has its answer, too. */
START_TEST(client_refused_send_waits_for_those_in_flight)
{
    static setup s;
    begin_open(&s);
    cw_send_range(&s.cw, 0, 0, 1, 2);
    raw_settle(s.relay);
    size_t first = s.relay->count - 2;
    tf_result_refusal_write(to_say(&s), &(tf_result_refusal){.code = tf_slice_str("overloaded"),
                                                              .message = tf_slice_str("later"),
                                                              .retryable = true,
                                                              .retry_after_ms = 10});
    answer_call(&s, &s.relay->answers[first], said(&s), TF_LOCAL_NONE, true);
    pass(&s, 100);
    ck_assert_uint_eq(times_asked(&s, "send"), 2);
    tf_result_ack_write(to_say(&s), &(tf_result_ack){.client_id = tf_slice_str("00000000abcdef00-2"),
                                                      .id = tf_slice_str("i"),
                                                      .seq = 1,
                                                      .timestamp_ms = 1});
    answer_call(&s, &s.relay->answers[first + 1], said(&s), TF_LOCAL_NONE, false);
    ck_assert_uint_eq(times_asked(&s, "send"), 3);
    end(&s);
}
END_TEST

/* A refusal that comes when the time is over already is told as it is; a cause that nobody knows as `unavailable`. */
START_TEST(client_send_given_up_tells_what_kept_it)
{
    static setup s;
    begin_client(&s, &(tf_client_config){.retry_limit = 100 * TF_MS});
    connect_relay(&s);
    answer_open(&s, 0);
    cw_send_range(&s.cw, 0, 0, 1, 1);
    raw_settle(s.relay);
    tf_result_refusal_write(to_say(&s), &(tf_result_refusal){.code = tf_slice_str("busy"),
                                                              .message = tf_slice_str("later"),
                                                              .retryable = true});
    answer(&s, "send", said(&s), TF_LOCAL_NONE, true);
    ck_assert_uint_eq(times_asked(&s, "send"), 2);
    s.cw.w.now += 200 * TF_MS;
    answer_refused(&s, "send", TF_REFUSAL_STORE_FULL);
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 1);
    ck_assert_str_eq(s.cw.logs[0].code, "store_full");
    ck_assert(s.cw.logs[0].last[TF_CLIENT_REFUSED].retryable);
    cw_send_range(&s.cw, 0, 0, 2, 2);
    raw_settle(s.relay);
    tf_result_refusal_write(to_say(&s), &(tf_result_refusal){.code = tf_slice_str("busy"),
                                                              .message = tf_slice_str("later"),
                                                              .retryable = true,
                                                              .retry_after_ms = 150});
    answer(&s, "send", said(&s), TF_LOCAL_NONE, true);
    pass(&s, 200);
    cw_pull(&s.cw, 0);
    ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_REFUSED], 2);
    ck_assert_str_eq(s.cw.logs[0].code, "unavailable");
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_none_is_freed_and_one_without_use_has_room,
        client_channels_are_bounded,
        client_refused_channel_takes_nothing_and_is_not_asked_for_again,
        client_channel_refused_for_now_waits_its_time_whatever_comes,
        client_close_refused_for_now_is_asked_again_and_for_good_is_not,
        client_has_one_subscription_to_a_channel,
        client_subscription_that_ended_on_the_way_is_not_resumed,
        client_subscription_that_is_refused_is_asked_again_only_if_it_is_wanted,
        client_words_to_a_subscription_that_ended_are_for_nobody,
        client_gap_of_another_epoch_or_beyond_what_may_come_ends_the_session,
        client_gap_that_is_known_is_not_told_again,
        client_repeats_use_up_the_limit_and_are_given_more,
        client_confirm_that_is_answered_after_its_subscription_ended_is_not_told,
        client_word_that_no_sink_knows_is_refused,
        client_that_is_unbound_hears_nothing_more_of_that_connection,
        client_asks_for_no_more_than_the_relay_may_owe,
        client_published_object_of_the_relay_is_held_until_it_is_withdrawn,
        client_name_that_changed_before_it_was_refused_is_said_again_at_once,
        client_refused_for_now_each_waits_its_own_time,
        client_time_that_passes_without_a_session_asks_for_nothing,
        client_refused_send_waits_for_those_in_flight,
        client_send_given_up_tells_what_kept_it,
        NULL,
    };
    return tf_test_run("node/client at odd times", tests);
}
