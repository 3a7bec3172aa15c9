/* node/client against a relay that is at fault: nothing of what it says wrongly is passed on; the session ends. */
#include "tests/support/check_main.h"
#include "tests/unit/client_relay.h"

static void check_ended(setup *s, tf_err err)
{
    raw_settle(s->relay);
    ck_assert_uint_eq(s->cw.nodes[0]->failures, 1);
    ck_assert_int_eq(s->cw.nodes[0]->last_failure, err);
    ck_assert(!tf_client_is_bound(s->cw.clients[0]));
}

START_TEST(client_hole_or_other_epoch_of_a_relay_is_never_passed_on)
{
    static const struct {
        uint64_t epoch, seq;
    } rows[] = {{7, 3}, {8, 2}, {8, 1}, {7, UINT64_MAX}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        begin(&s, true);
        tell_activity(&s, 7, 1, 5);
        tell_activity(&s, rows[i].epoch, rows[i].seq, 5);
        check_ended(&s, TF_ERR_PEER_STATE);
        cw_pull(&s.cw, 0);
        ck_assert_uint_eq(s.cw.logs[0].activities, 1);
        end(&s);
    }
}
END_TEST

START_TEST(client_repeat_of_a_relay_is_dropped)
{
    static setup s;
    begin(&s, true);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        tell_activity(&s, 7, seq, 5);
        tell_activity(&s, 7, seq, 5);
        tell_activity(&s, 7, 1, 5);
    }
    hear(&s);
    ck_assert_uint_eq(s.cw.logs[0].activities, 3);
    ck_assert_uint_eq(s.cw.nodes[0]->failures, 0);
    end(&s);
}
END_TEST

/* P7: it was told how much may come. */
START_TEST(client_relay_that_sends_more_than_it_may_is_ended)
{
    static setup s;
    begin(&s, true);
    for (uint64_t seq = 1; seq <= 4 * TF_CLIENT_EVENT_BYTES / 100000 && s.cw.nodes[0]->failures == 0; seq++) {
        tell_activity(&s, 7, seq, 100000);
        raw_settle(s.relay);
    }
    check_ended(&s, TF_ERR_PEER_LIMIT);
    ck_assert_uint_le(s.cw.clients[0]->channels[0]->backlog, TF_CLIENT_EVENT_BYTES + 101000);
    end(&s);
}
END_TEST

START_TEST(client_malformed_answer_ends_the_session)
{
    static const struct {
        const char *method; /* what is answered */
        const char *data;
        bool with_ref;
        bool rejected;
    } rows[] = {
        {"open", "80", true, false},
        {"open", "80", false, false},
        {"subscribe", "80", true, false},
        {"subscribe", "84 a5 65706f6368 07 a4 68656164 00 a5 6669727374 01 a4 6e657874 01", false, false}, /* no ref */
        {"subscribe", "84 a5 65706f6368 07 a4 68656164 00 a5 6669727374 01 a4 6e657874 00", true, false},  /* next 0 */
        {"subscribe", "c0", false, true},
        {"subscribe", "80", false, true},
        {"send", "80", false, false},
        /* the ack of another send */
        {"send", "84 a9 636c69656e745f6964 a1 78 a2 6964 a1 79 a3 736571 01 a9 74696d657374616d70 01", false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        uint8_t bytes[128];
        begin(&s, false);
        cw_send_range(&s.cw, 0, 0, 1, 1);
        (void)cw_open(&s.cw, 0, "other");
        raw_settle(s.relay);
        size_t len = tf_test_unhex(rows[i].data, bytes, sizeof(bytes));
        tf_local ref = rows[i].with_ref ? tf_router_new_object(s.relay->end->router) : TF_LOCAL_NONE;
        answer(&s, rows[i].method, tf_slice_of(bytes, len), ref, rows[i].rejected);
        check_ended(&s, TF_ERR_PEER_SYNTAX);
        ck_assert(tf_client_has_unacked(s.cw.clients[0])); /* it is kept for the next session */
        end(&s);
    }
}
END_TEST

/* An object, in place of the data that was asked for, or with them a mention that is no object. */
START_TEST(client_answer_of_another_kind_ends_the_session)
{
    static const char *const methods[] = {"subscribe", "send", "trim", "open", "lookup"};
    for (size_t i = 0; i < 5; i++) {
        for (unsigned with = 0; with < 2; with++) {
            static setup s;
            begin(&s, false);
            tf_client *client = s.cw.clients[0];
            cw_send_range(&s.cw, 0, 0, 1, 1);
            (void)cw_open(&s.cw, 0, "other");
            const tf_ask asks[] = {{.kind = TF_ASK_TRIM, .from = 1}, {.kind = TF_ASK_LOOKUP, .name = tf_slice_str("a")}};
            ck_assert_int_eq(tf_client_ask(client, s.cw.w.now, 0, &asks[0]), TF_OK);
            ck_assert_int_eq(tf_client_ask(client, s.cw.w.now, 0, &asks[1]), TF_OK);
            raw_settle(s.relay);
            tf_router *router = s.relay->end->router;
            tf_args_none_write(to_say(&s));
            tf_mention mention = {with == 0 ? tf_router_new_object(router) : tf_router_new_promise(router),
                                  with == 0 ? TF_REF_OBJECT : TF_REF_PROMISE};
            tf_answer answer = {.promise = asked(&s, methods[i])->result,
                                .kind = with == 0 ? TF_RESOLUTION_OBJECT : TF_RESOLUTION_DATA,
                                .object = mention,
                                .data = said(&s),
                                .refs = &mention,
                                .ref_count = with};
            ck_assert_int_eq(tf_router_resolve(router, s.cw.w.now, &answer, 1), TF_OK);
            check_ended(&s, TF_ERR_PEER_SYNTAX);
            end(&s);
        }
    }
}
END_TEST

/* What comes to a sink is read as a whole before any of it counts. */
START_TEST(client_malformed_word_to_a_sink_ends_the_session)
{
    static const struct {
        const char *method;
        const char *data;
    } rows[] = {
        {"activity", "80"},
        {"gap", "80"},
        {"gap", "82 a5 65706f6368 07 a4 6e657874 05"},          /* no reason */
        {"ended", "80"},
        {"ended", "81 a6 726561736f6e 01"},                     /* a reason that is no text */
        {"ended", "c0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static setup s;
        uint8_t bytes[128];
        begin(&s, true);
        tell(&s, rows[i].method, tf_slice_of(bytes, tf_test_unhex(rows[i].data, bytes, sizeof(bytes))));
        check_ended(&s, TF_ERR_PEER_SYNTAX);
        cw_pull(&s.cw, 0);
        ck_assert_uint_eq(s.cw.logs[0].counts[TF_CLIENT_GAP] + s.cw.logs[0].counts[TF_CLIENT_ENDED], 0);
        end(&s);
    }
}
END_TEST

START_TEST(client_subscription_that_the_relay_drops_is_asked_for_again)
{
    static setup s;
    begin(&s, true);
    tell_activity(&s, 7, 1, 5);
    raw_settle(s.relay);
    size_t before = s.relay->count;
    tf_router_release(s.relay->end->router, s.cw.w.now, s.sink);
    raw_settle(s.relay);
    ck_assert_uint_eq(s.relay->count, before);
    for (size_t i = 0; i < 1100; i++) {
        world_pass(&s.cw.w, 1);
        (void)raw_take(s.relay, SIZE_MAX);
    }
    ck_assert_uint_eq(s.relay->count, before + 1);
    tf_args_subscribe args;
    ck_assert_int_eq(tf_args_subscribe_read(raw_data(asked(&s, "subscribe")), &args), TF_OK);
    ck_assert(args.from.kind == TF_FROM_SEQ && args.from.value == 2 && args.has_epoch && args.epoch == 7);
    end(&s);
}
END_TEST

static void refuse_send(setup *s, size_t index, tf_refusal refusal, uint64_t after_ms)
{
    tf_result_refusal_write(to_say(s), &(tf_result_refusal){.code = tf_refusal_code(refusal),
                                                            .message = tf_refusal_message(refusal),
                                                            .retryable = tf_refusal_is_retryable(refusal),
                                                            .retry_after_ms = after_ms});
    answer_call(s, &s->relay->answers[index], said(s), TF_LOCAL_NONE, true);
}

START_TEST(client_channel_that_recovers_is_not_forgotten_for_another_one)
{
    static setup s;
    begin(&s, false);
    size_t other = cw_open(&s.cw, 0, "other");
    raw_settle(s.relay);
    answer_open(&s, 0);
    size_t first = s.relay->count;
    ck_assert_int_eq(cw_send(&s.cw, 0, 0, 1), TF_OK);
    ck_assert_int_eq(cw_send(&s.cw, 0, 0, 2), TF_OK);
    raw_settle(s.relay);
    ck_assert_int_eq(cw_send(&s.cw, 0, other, 3), TF_OK);
    raw_settle(s.relay);
    ck_assert_uint_eq(times_asked(&s, "send"), 3);
    refuse_send(&s, first, TF_REFUSAL_OVERLOADED, 100);
    refuse_send(&s, first + 2, TF_REFUSAL_OVERLOADED, 10);
    world_pass(&s.cw.w, 50);
    raw_settle(s.relay);
    ck_assert_uint_eq(times_asked(&s, "send"), 4); /* of the other channel, while one of this is still in flight */
    refuse_send(&s, first + 1, TF_REFUSAL_INVALID_MESSAGE, 0);
    world_pass(&s.cw.w, 200);
    raw_settle(s.relay);
    ck_assert_uint_eq(times_asked(&s, "send"), 5);
    end(&s);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        client_hole_or_other_epoch_of_a_relay_is_never_passed_on,
        client_repeat_of_a_relay_is_dropped,
        client_relay_that_sends_more_than_it_may_is_ended,
        client_malformed_answer_ends_the_session,
        client_answer_of_another_kind_ends_the_session,
        client_malformed_word_to_a_sink_ends_the_session,
        client_subscription_that_the_relay_drops_is_asked_for_again,
        client_channel_that_recovers_is_not_forgotten_for_another_one,
        NULL,
    };
    return tf_test_run("node/client and its peer", tests);
}
